-- EXPLAIN: counters under ANALYZE only, none that vary under COSTS OFF.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_explain;
SET search_path = test_explain, public;
CREATE TABLE t (id int, v int, pad text);
INSERT INTO t SELECT g, g % 10, repeat('x', 300) FROM generate_series(1, 5000) g;
CREATE TABLE a (id int, v int, pad text) USING aioheap;
INSERT INTO a SELECT * FROM t;
ANALYZE t, a;
SET max_parallel_workers_per_gather = 0;
SELECT pg_relation_size('t') / current_setting('block_size')::int AS blocks \gset
-- the keys of a scan node, in order
CREATE FUNCTION keys(options text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE format('EXPLAIN (%s, FORMAT JSON) %s', options, query) INTO plan;
	RETURN QUERY SELECT * FROM json_object_keys(plan->0->'Plan') k
		WHERE k ~ 'Prefetch|I/O|Core|Buffers Hit|Custom';
END $$;
CREATE FUNCTION scan(options text, query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE format('EXPLAIN (%s, FORMAT JSON) %s', options, query) INTO plan;
	RETURN plan->0->'Plan';
END $$;
-- text with numbers taken out
CREATE FUNCTION lines(options text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
		IF line ~ 'Prefetch|I/O' THEN
			RETURN NEXT regexp_replace(regexp_replace(line, '[0-9.]+', 'N', 'g'), ' (direct|waits|wait-time|hits|core-reads)=N', '', 'g');
		END IF;
	END LOOP;
END $$;
RESET client_min_messages;

SELECT keys('VERBOSE', 'SELECT * FROM t');
SELECT keys('COSTS OFF', 'SELECT * FROM t');
SELECT keys('ANALYZE', 'SELECT * FROM t');
SELECT keys('ANALYZE, TIMING OFF', 'SELECT * FROM a WHERE v = 3');
SELECT keys('ANALYZE, COSTS OFF', 'SELECT * FROM t');
SET aiostream.enable = off;
SELECT keys('ANALYZE', 'SELECT * FROM t');
RESET aiostream.enable;
-- with ANALYZE, but not executed: the keys are there
SET aiostream.debug_force_nodes = on;
SELECT scan('ANALYZE', 'SELECT * FROM t LIMIT 0')->'Plans'->0->'I/O Count' AS ios;
RESET aiostream.debug_force_nodes;

-- what they say of a cold scan
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT (s->>'I/O Count')::int BETWEEN 1 AND :blocks / 2 AS ios,
	(s->>'Average I/O Size')::float > 1 AS combined,
	abs((s->>'I/O Count')::int * (s->>'Average I/O Size')::float + (s->>'Core Reads')::int + (s->>'Buffers Hit')::int - :blocks) < 1 AS every_block_once,
	(s->>'Max Prefetch Distance')::int <= (s->>'Prefetch Capacity')::int AS within_capacity,
	(s->>'Average Prefetch Distance')::float <= (s->>'Prefetch Capacity')::int AS average,
	(s->>'Average I/Os In Progress')::float BETWEEN 1 AND current_setting('aiostream.effective_io_concurrency')::int AS in_progress,
	(s->>'I/O Waits')::int <= :blocks AS waits,
	(s->>'I/O Wait Time')::float >= 0 AS wait_time,
	(s->>'Direct I/O Count')::int <= (s->>'I/O Count')::int AS direct,
	(s->>'Shared Read Blocks')::int = :blocks AS buffers
FROM scan('ANALYZE, BUFFERS', 'SELECT * FROM t') s \gx
-- and of a cached one
SELECT s->'I/O Count' AS ios, s->'Average I/O Size' AS size, s->'I/O Waits' AS waits,
	s->'Core Reads' AS core_reads, (s->>'Buffers Hit')::int = :blocks AS hits,
	(s->>'Shared Hit Blocks')::int = :blocks AS buffers
FROM scan('ANALYZE, BUFFERS', 'SELECT * FROM t') s;
-- limits show in the capacity
SET aiostream.effective_io_concurrency = 2;
SET aiostream.io_combine_limit = 4;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT (s->>'Prefetch Capacity')::int AS capacity, (s->>'Average I/O Size')::float <= 4 AS size,
	(s->>'Average I/Os In Progress')::float <= 2 AS in_progress
FROM scan('ANALYZE', 'SELECT * FROM t') s;
RESET aiostream.effective_io_concurrency;
RESET aiostream.io_combine_limit;

-- text: two lines if there was I/O
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT lines('ANALYZE', 'SELECT * FROM t');
SELECT lines('ANALYZE', 'SELECT * FROM t');
SELECT lines('VERBOSE', 'SELECT * FROM t');
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT lines('ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF', 'SELECT * FROM t');
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM a WHERE v = 3;

-- over rescans they add up
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT s->'Plans'->1->'Actual Loops' AS loops,
	(s->'Plans'->1->>'Buffers Hit')::int + (s->'Plans'->1->>'Core Reads')::int
	+ round((s->'Plans'->1->>'I/O Count')::int * (s->'Plans'->1->>'Average I/O Size')::float) = 3 * :blocks AS blocks
FROM scan('ANALYZE', 'SELECT * FROM (VALUES (1), (2), (3)) v(id) LEFT JOIN t ON t.v < v.id AND t.id < 50 * v.id') s;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

-- a parallel scan sums up leader and workers
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT s->'Plans'->0->'Plans'->0->'Plans'->0->'Custom Plan Provider' AS node,
	abs(x.ios * x.size + x.core + x.hits - :blocks) < 1 AS every_block_once
FROM scan('ANALYZE', 'SELECT sum(v) FROM t') s,
	jsonb_to_record(jsonb_build_object('ios', s #> '{Plans,0,Plans,0,Plans,0,I/O Count}', 'size', s #> '{Plans,0,Plans,0,Plans,0,Average I/O Size}',
		'core', s #> '{Plans,0,Plans,0,Plans,0,Core Reads}', 'hits', s #> '{Plans,0,Plans,0,Plans,0,Buffers Hit}'))
	AS x(ios int, size float, core int, hits int);

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_explain CASCADE;
