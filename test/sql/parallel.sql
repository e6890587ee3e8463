-- Parallel AioSeqScan.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_parallel;
SET search_path = test_parallel, public;
-- Runs a query on PostgreSQL's plain path and on ours, cold and cached; says
-- whether our plan had the node, and whether all answers were equal.
CREATE FUNCTION same(query text, OUT node boolean, OUT same boolean, OUT rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	digest text := format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(s::text, 0)::numeric), 0) FROM (%s) s', query);
	line text;
	plain text;
	ours text;
	rel regclass;
BEGIN
	SET LOCAL aiostream.enable = off;
	EXECUTE digest INTO plain;
	SET LOCAL aiostream.enable = on;
	node := false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		node := node OR line LIKE '%Custom Scan (AioSeqScan)%';
	END LOOP;
	FOR rel IN SELECT oid FROM pg_class WHERE relnamespace = current_schema::regnamespace AND relkind IN ('r', 'm') LOOP
		PERFORM aiostream_evict(rel);
	END LOOP;
	EXECUTE digest INTO ours;
	same := ours = plain;
	EXECUTE digest INTO ours;
	same := same AND ours = plain;
	rows := split_part(ours, ' ', 1);
END $$;
CREATE TABLE h (id int, v int, pad text);
INSERT INTO h SELECT g, g % 10, repeat('x', 300) FROM generate_series(1, 20000) g;
DELETE FROM h WHERE id % 17 = 0;
CREATE TABLE a (id int, v int, pad text) USING aioheap;
INSERT INTO a SELECT * FROM h;
CREATE TABLE tiny AS SELECT * FROM h WHERE id <= 4;
ALTER TABLE tiny SET (parallel_workers = 0);
CREATE TABLE empty (LIKE h);
VACUUM ANALYZE h, a, tiny, empty;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
RESET client_min_messages;

EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM h;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM a WHERE v = 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT sum(id + v) FROM a;
SELECT count(*), sum(id), sum(v) FROM h;
SELECT count(*), sum(id), sum(v) FROM a;
SELECT * FROM same('SELECT * FROM h');
SELECT * FROM same('SELECT id, v FROM a WHERE v = 3 OR id < 100');
SELECT * FROM same('SELECT v, count(*), sum(id) FROM h GROUP BY v');
SELECT * FROM same('SELECT ctid, tableoid, a FROM a');
SELECT * FROM same('SELECT h.id FROM h JOIN a USING (id) WHERE h.v = a.v');
SELECT * FROM same('SELECT * FROM h ORDER BY id DESC');

-- empty and tiny tables, forced
SET aiostream.debug_force_nodes = on;
SELECT * FROM same('SELECT count(*), sum(id) FROM empty');
SELECT * FROM same('SELECT count(*), sum(id) FROM tiny');
RESET aiostream.debug_force_nodes;

-- leader or workers alone
SET parallel_leader_participation = off;
SELECT * FROM same('SELECT count(*), sum(id) FROM h');
RESET parallel_leader_participation;
SET max_parallel_workers = 0;
SELECT * FROM same('SELECT count(*), sum(id) FROM h');
RESET max_parallel_workers;

-- the node itself below Gather, not parallel-aware
SET force_parallel_mode = on;
SET max_parallel_workers_per_gather = 1;
SET min_parallel_table_scan_size = '1GB';
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM a;
SELECT * FROM same('SELECT count(*), sum(id) FROM a');
SELECT * FROM same('SELECT * FROM h WHERE v = 4');
RESET force_parallel_mode;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;

-- LIMIT stops workers in the middle
SELECT count(*) FROM (SELECT id FROM h LIMIT 100) s;
SELECT count(*) FROM (SELECT id FROM a WHERE v = 5 LIMIT 7) s;
SELECT count(*) FROM aiostream_ios;

-- Gather rescanned, with and without a parameter for the workers
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF)
SELECT t.id, s.n FROM tiny t LEFT JOIN (SELECT count(*) AS n, sum(v) AS w FROM h WHERE id > 100) s ON s.w > t.id;
SELECT * FROM same('SELECT t.id, s.n FROM tiny t LEFT JOIN (SELECT count(*) AS n, sum(v) AS w FROM h WHERE id > 100) s ON s.w > t.id');
SELECT * FROM same('SELECT t.id, (SELECT count(*) FROM a WHERE a.v < t.id OFFSET 0) FROM tiny t');
SELECT * FROM same('SELECT t.id, l.* FROM tiny t, LATERAL (SELECT sum(id) AS s FROM h WHERE h.v = t.v) l');
-- a parallel scan outside, an ordinary one inside that each process repeats
SET aiostream.debug_force_nodes = on;
SELECT * FROM same('SELECT h.id, t.id FROM h JOIN tiny t ON t.id > h.id WHERE h.id < 100');
RESET aiostream.debug_force_nodes;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- Parallel Append over both access methods
CREATE TABLE parted (id int, v int, pad text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (7000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (7000) TO (20001) USING aioheap;
INSERT INTO parted SELECT * FROM h;
ANALYZE parted;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM parted;
SELECT * FROM same('SELECT count(*), sum(id) FROM parted');
SELECT * FROM same('SELECT v, count(*) FROM parted GROUP BY v');

-- as CTAS and matviews plan it
CREATE TABLE copied USING aioheap AS SELECT * FROM h;
CREATE MATERIALIZED VIEW mv AS SELECT v, count(*) FROM a GROUP BY v;
SELECT count(*) FROM ((TABLE copied EXCEPT TABLE h) UNION ALL (TABLE h EXCEPT TABLE copied)) x;
SELECT count(*), sum(count) FROM mv;

-- what cannot run in parallel
EXPLAIN (COSTS OFF) SELECT * FROM a WHERE v = 3 FOR UPDATE;
CREATE FUNCTION unsafe() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 3; END';
EXPLAIN (COSTS OFF) SELECT count(*) FROM a WHERE v = unsafe();
SELECT count(*) FROM a WHERE v = unsafe();

-- an error in a worker
SET parallel_leader_participation = off;
\set VERBOSITY terse
SELECT sum(1 / (id - 10001)) FROM h;
SELECT count(*) FROM aiostream_ios;
SELECT count(*) FROM h;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_parallel CASCADE;
