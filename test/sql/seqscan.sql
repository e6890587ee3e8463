-- What an AioSeqScan answers: the same as a SeqScan.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_seqscan;
SET search_path = test_seqscan, public;
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
CREATE TABLE h (id int, v int, n text, pad text);
INSERT INTO h SELECT g, g % 10, CASE WHEN g % 7 <> 0 THEN g::text END, repeat('x', g % 400) FROM generate_series(1, 6000) g;
-- dead and updated rows, an empty page, a dropped and an added column
UPDATE h SET v = v + 100 WHERE id % 11 = 0;
DELETE FROM h WHERE id % 13 = 0;
DELETE FROM h WHERE id BETWEEN 2000 AND 2600;
VACUUM h;
ALTER TABLE h ADD dropped int, ADD extra int DEFAULT 42;
ALTER TABLE h DROP dropped;
CREATE TABLE a (LIKE h) USING aioheap;
INSERT INTO a SELECT * FROM h;
CREATE TABLE tiny AS SELECT * FROM h WHERE id <= 20;
CREATE TABLE empty (LIKE h);
CREATE TABLE all_dead AS SELECT * FROM h;
DELETE FROM all_dead;
-- larger than a quarter of shared buffers: a buffer ring, synchronized scans
CREATE TABLE large AS SELECT g AS id, g % 10 AS v, repeat('y', 1000) AS pad FROM generate_series(1, 10000) g;
ANALYZE h, a, tiny, empty, all_dead, large;
SET aiostream.debug_force_nodes = on;
SET max_parallel_workers_per_gather = 0;

-- plain, quals, projections, all four together
SELECT * FROM same('SELECT * FROM h');
SELECT * FROM same('SELECT * FROM a');
SELECT * FROM same('SELECT * FROM h WHERE v = 3');
SELECT * FROM same('SELECT id * 2, n || pad FROM a');
SELECT * FROM same('SELECT id * 2, n || pad, extra FROM h WHERE n IS NULL OR v > 100');
SELECT * FROM same('SELECT FROM h');
SELECT * FROM same('SELECT 1 FROM a WHERE v = 5');
SELECT * FROM same('SELECT count(*), sum(id), min(n), max(pad), avg(v) FROM h');
SELECT * FROM same('SELECT v, count(*), array_agg(id ORDER BY id) FROM a GROUP BY v HAVING count(*) > 10');
SELECT * FROM same('SELECT DISTINCT v FROM h');
SELECT * FROM same('SELECT id, rank() OVER (PARTITION BY v ORDER BY id) FROM a');
SELECT * FROM same('SELECT * FROM h WHERE v = -1');
SELECT * FROM same('SELECT * FROM empty');
SELECT * FROM same('SELECT * FROM all_dead');
SELECT * FROM same('SELECT * FROM tiny');
SELECT * FROM same('SELECT * FROM large');
SELECT * FROM same('SELECT id FROM large WHERE v = 7');
-- whole rows and system columns
SELECT * FROM same('SELECT h FROM h');
SELECT * FROM same('SELECT (a).*, a IS NULL FROM a');
SELECT * FROM same('SELECT ctid, xmin, xmax, cmin, cmax, tableoid::regclass, id FROM h');
SELECT * FROM same('SELECT ctid, xmin, tableoid::regclass FROM a WHERE ctid > ''(3,1)''');
SELECT tableoid::regclass, ctid, id, h.n, (h).v FROM h WHERE ctid = '(0,1)';
SELECT tableoid::regclass, ctid, id, row_to_json(tiny) FROM tiny WHERE id < 4 ORDER BY id;
-- order is the table's
SELECT array_agg(id) = (SELECT array_agg(id ORDER BY ctid) FROM h) AS in_order FROM h;
SELECT array_agg(id) = (SELECT array_agg(id ORDER BY ctid) FROM a) AS in_order FROM a;
-- subplans of both kinds in quals and targets
SELECT * FROM same('SELECT id, (SELECT count(*) FROM tiny t WHERE t.v = h.v) FROM h');
SELECT * FROM same('SELECT id FROM h WHERE v IN (SELECT v FROM tiny) AND id NOT IN (SELECT id FROM tiny)');
SELECT * FROM same('SELECT id FROM h WHERE EXISTS (SELECT FROM a WHERE a.id = h.id AND a.v > 100)');
SELECT * FROM same('SELECT id FROM a WHERE id > (SELECT avg(id) FROM tiny)');
-- set-returning functions, CASE, volatile functions
SELECT * FROM same('SELECT id, generate_series(1, v % 3) FROM h');
SELECT * FROM same('SELECT CASE WHEN v > 5 THEN pad ELSE n END FROM a WHERE random() >= 0');
-- LIMIT and OFFSET
SELECT * FROM same('SELECT * FROM h LIMIT 10');
SELECT * FROM same('SELECT * FROM h OFFSET 2000 LIMIT 500');
SELECT * FROM same('SELECT * FROM a OFFSET 100000');
SELECT * FROM same('SELECT * FROM h LIMIT 0');
SELECT id FROM h LIMIT 3;
SELECT id FROM a WHERE v = 3 OFFSET 2 LIMIT 3;
-- joins: hashed, merged, nested loops with rescans, materialized and not
SELECT * FROM same('SELECT * FROM h JOIN a USING (id)');
SELECT * FROM same('SELECT * FROM h LEFT JOIN tiny t ON t.id = h.id AND t.v = h.v');
SELECT * FROM same('SELECT * FROM tiny t FULL JOIN tiny u ON t.id = u.id + 1');
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT * FROM same('SELECT * FROM tiny t JOIN h ON h.id = t.id * 100');
SET enable_material = off;
SELECT * FROM same('SELECT * FROM tiny t JOIN h ON h.id = t.id * 100');
SELECT * FROM same('SELECT * FROM tiny t JOIN a ON a.id < t.id');
-- rescans with parameters, cut short or not at all fetched from
SELECT * FROM same('SELECT t.id, l.* FROM tiny t, LATERAL (SELECT h.id AS lid, h.v + t.v AS w FROM h WHERE h.id > t.id * 200 OFFSET 0) l');
SELECT * FROM same('SELECT t.id, l.* FROM tiny t, LATERAL (SELECT * FROM h WHERE h.id > t.id * 250 LIMIT 3) l');
SELECT * FROM same('SELECT t.id, l.* FROM tiny t, LATERAL (SELECT * FROM a WHERE a.v = t.v LIMIT t.id % 4) l');
SELECT * FROM same('SELECT t.id FROM tiny t WHERE NOT EXISTS (SELECT FROM h WHERE h.id = t.id * 100 OFFSET 0)');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
-- recursion
SELECT * FROM same('WITH RECURSIVE r(id) AS (SELECT 1 UNION SELECT h.id FROM r JOIN h ON h.id = r.id + 1 WHERE h.id < 12) SELECT * FROM r');
-- a cached and a half cached table
SELECT count(*) FROM h;
SELECT aiostream_evict('h') > 0 AS evicted;
SELECT count(*) FROM h WHERE ctid < '(40,0)';
SELECT count(*) FROM h;

-- settings do not change answers
CREATE FUNCTION all_settings(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE direct text; combine int; concurrency int; outcome record;
BEGIN
	FOREACH direct IN ARRAY ARRAY['off', 'on', 'auto'] LOOP
		FOREACH combine IN ARRAY ARRAY[1, 128] LOOP
			FOREACH concurrency IN ARRAY ARRAY[1, 128] LOOP
				PERFORM set_config('aiostream.direct_io', direct, true);
				PERFORM set_config('aiostream.io_combine_limit', combine::text, true);
				PERFORM set_config('aiostream.effective_io_concurrency', concurrency::text, true);
				SELECT * INTO outcome FROM same(query);
				IF NOT (outcome.node AND outcome.same) THEN
					RETURN NEXT format('direct_io %s, combine %s, concurrency %s: %s', direct, combine, concurrency, outcome);
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;
SELECT all_settings('SELECT * FROM h');
SELECT all_settings('SELECT id, v FROM large');

-- functions that scan while a scan is open, and that change the settings
CREATE FUNCTION nested(int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT sum(id) FROM h WHERE id <= $1); END $$;
SELECT * FROM same('SELECT id, nested(id) FROM tiny');
CREATE FUNCTION switch() RETURNS int LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('aiostream.enable', 'off', true); RETURN 0; END $$;
BEGIN;
SELECT aiostream_evict('h') > 0 AS evicted;
SELECT sum(id), sum(CASE WHEN id = 50 THEN switch() END) FROM h;
SHOW aiostream.enable;
ROLLBACK;
SELECT sum(id) FROM h;

-- errors in the middle, subtransactions: nothing is left behind
SELECT aiostream_evict('h') > 0 AS evicted;
SELECT sum(1 / (id - 500)) FROM h;
CREATE FUNCTION fails_at(int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM aiostream_evict('h');
	PERFORM sum(1 / (id - $1)) FROM h;
	RETURN 'no error';
EXCEPTION WHEN division_by_zero THEN
	RETURN (SELECT 'division by zero, then ' || count(*) FROM h);
END $$;
SELECT fails_at(1), fails_at(3000), fails_at(5999), fails_at(-1);
SELECT count(*) FROM aiostream_ios WHERE pid = pg_backend_pid();

-- row security
CREATE ROLE regress_aiostream_user;
GRANT USAGE ON SCHEMA test_seqscan TO regress_aiostream_user;
GRANT SELECT ON h, a TO regress_aiostream_user;
ALTER TABLE h ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON h USING (v % 2 = 1);
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$
BEGIN RAISE NOTICE 'leaked %', $1; RETURN true; END $$;
SET ROLE regress_aiostream_user;
EXPLAIN (COSTS OFF) SELECT id FROM h WHERE leak(id::text) AND id < 8;
SET client_min_messages = notice;
SELECT id FROM h WHERE leak(id::text) AND id < 8;
SET client_min_messages = warning;
SELECT count(*) FROM h WHERE v % 2 = 0;
RESET ROLE;
SELECT count(*) > 0 AS others FROM h WHERE v % 2 = 0;
ALTER TABLE h DISABLE ROW LEVEL SECURITY;
-- privileges are checked as ever
REVOKE SELECT ON a FROM regress_aiostream_user;
GRANT SELECT (id) ON a TO regress_aiostream_user;
SET ROLE regress_aiostream_user;
SELECT count(id) FROM a;
SELECT count(v) FROM a;
RESET ROLE;
DROP OWNED BY regress_aiostream_user;
DROP ROLE regress_aiostream_user;
-- security barrier views
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM a WHERE v = 3;
EXPLAIN (COSTS OFF) SELECT id FROM barrier WHERE leak(n);

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_seqscan CASCADE;
