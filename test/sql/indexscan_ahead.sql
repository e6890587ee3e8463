-- Index scans read ahead: leaf pages, long windows, nested loops that come through most of a
-- table, and no further than a LIMIT allows.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_indexscan_ahead;
SET search_path = test_indexscan_ahead, public;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
-- "near" follows the table within some pages, "rnd" not at all
CREATE TABLE t (id int, near int, rnd int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, g + (g * 7919) % 1000, (g::bigint * 48271) % 60013, repeat('x', 150) FROM generate_series(1, 60000) g;
CREATE INDEX t_near ON t (near);
CREATE INDEX t_rnd ON t (rnd);
-- leaf pages in no order, as they split
CREATE TABLE grown (LIKE t) WITH (autovacuum_enabled = off);
CREATE INDEX grown_near ON grown (near);
CREATE INDEX grown_rnd ON grown (rnd);
INSERT INTO grown SELECT * FROM t;
-- a row's index entry is found by its key
CREATE TABLE probed (key text, v int) WITH (autovacuum_enabled = off);
INSERT INTO probed SELECT repeat(md5(g::text), 2), g FROM generate_series(1, 25000) g;
CREATE INDEX probed_key ON probed (key);
CREATE TABLE probes (key text, n int);
INSERT INTO probes SELECT repeat(md5(((g * 48271) % 25013)::text), 2), g FROM generate_series(1, 6000) g;
VACUUM (ANALYZE) t, grown, probed, probes;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET aiostream.enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;

CREATE FUNCTION digest(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '';'')), '''') FROM (%s) q', query) INTO result;
	RETURN result;
END $$;
-- all scan nodes of a plan
CREATE FUNCTION nodes(plan jsonb) RETURNS SETOF jsonb LANGUAGE sql AS $$
	WITH RECURSIVE n(node) AS (
		SELECT plan->0->'Plan' UNION ALL
		SELECT child FROM n, jsonb_array_elements(n.node->'Plans') child)
	SELECT node FROM n $$;
-- core's rows and ours, cold; then what our node did
CREATE FUNCTION compare(query text, rel regclass, OUT same boolean, OUT rows text, OUT leaves_ahead boolean,
	OUT forward boolean, OUT backward boolean, OUT core_reads boolean) LANGUAGE plpgsql AS $$
DECLARE core text; plan jsonb; node jsonb;
BEGIN
	PERFORM set_config('aiostream.enable', 'off', true);
	core := digest(query);
	PERFORM set_config('aiostream.enable', 'on', true);
	PERFORM aiostream_evict(rel);
	same := core = digest(query);
	rows := split_part(core, ' ', 1);
	PERFORM aiostream_evict(rel);
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	SELECT n INTO node FROM nodes(plan) n WHERE n->>'Custom Plan Provider' LIKE 'AioIndex%' LIMIT 1;
	leaves_ahead := (node->>'Index Blocks')::int > 0;
	forward := (node->>'Combined Forward')::float > 50;
	backward := (node->>'Combined Backward')::float > 50;
	core_reads := (node->>'Core Reads')::int > 20;
END $$;
-- blocks that the query reads, cold
CREATE FUNCTION reads(query text, rel regclass, ours boolean, OUT reads int) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	PERFORM set_config('aiostream.enable', ours::text, true);
	PERFORM aiostream_evict(rel);
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
	reads := plan->0->'Plan'->>'Shared Read Blocks';
END $$;
RESET client_min_messages;

-- leaf pages and directions
SELECT * FROM compare('SELECT * FROM t ORDER BY near', 't');
SELECT * FROM compare('SELECT * FROM t ORDER BY near DESC', 't');
SELECT * FROM compare('SELECT * FROM grown ORDER BY near', 'grown');
SELECT * FROM compare('SELECT * FROM grown ORDER BY near DESC', 'grown');
SELECT same, rows, leaves_ahead FROM compare('SELECT * FROM t WHERE rnd BETWEEN 1000 AND 55000 ORDER BY rnd', 't');
SELECT same, rows, leaves_ahead FROM compare('SELECT * FROM grown WHERE rnd < 50000 ORDER BY rnd DESC', 'grown');
SELECT same, rows, leaves_ahead FROM compare('SELECT * FROM grown WHERE rnd < 50000 AND id % 7 = 0 ORDER BY rnd', 'grown');
-- entries and leaf pages that went meanwhile
DELETE FROM grown WHERE rnd BETWEEN 10000 AND 30000;
VACUUM grown;
SELECT same, rows, leaves_ahead FROM compare('SELECT * FROM grown ORDER BY rnd', 'grown');
SELECT same, rows, leaves_ahead FROM compare('SELECT * FROM grown ORDER BY rnd DESC', 'grown');
INSERT INTO grown SELECT * FROM t WHERE rnd BETWEEN 12000 AND 20000;
SELECT same, rows, leaves_ahead FROM compare('SELECT * FROM grown ORDER BY rnd DESC', 'grown');
-- a cursor that turns round on the way
BEGIN;
SELECT aiostream_evict('grown') > 0 AS cold;
DECLARE c SCROLL CURSOR FOR SELECT rnd FROM grown ORDER BY rnd;
MOVE 9000 FROM c;
FETCH 2 FROM c;
MOVE BACKWARD 8990 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE 15000 FROM c;
FETCH 2 FROM c;
COMMIT;

-- LIMIT, with conditions that the index does not answer: core's blocks and at most 16 more
SELECT nth, "limit", ours > 0 AS reads, ours - core <= 16 AS few_more
FROM (VALUES (1), (10), (50)) a(nth), (VALUES (1), (10), (100)) l("limit"),
	LATERAL format('SELECT * FROM t WHERE id %% %s = 0 ORDER BY rnd LIMIT %s', nth, "limit") query,
	LATERAL reads(query, 't', false) r(core), LATERAL reads(query, 't', true) o(ours)
ORDER BY 1, 2;
SELECT direction, reads(query, 't', true) - reads(query, 't', false) <= 16 AS few_more
FROM (VALUES ('ASC'), ('DESC')) d(direction), format('SELECT * FROM t WHERE id %% 50 = 0 ORDER BY near %s LIMIT 10', direction) query;
-- bitmap scans, too: of 560 pages and more
SET enable_bitmapscan = on;
SET aiostream.enable_bitmapscan = on;
SET enable_indexscan = off;
SET aiostream.debug_force_nodes = on;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE rnd BETWEEN 1000 AND 1999 AND id % 10 = 0 LIMIT 10;
SELECT nth, "limit", ours > 0 AS reads, ours - core <= 16 AS few_more
FROM (VALUES (1), (10)) a(nth), (VALUES (1), (10), (50)) l("limit"),
	LATERAL format('SELECT * FROM t WHERE rnd BETWEEN 1000 AND 1999 AND id %% %s = 0 LIMIT %s', nth, "limit") query,
	LATERAL reads(query, 't', false) r(core), LATERAL reads(query, 't', true) o(ours)
ORDER BY 1, 2;
RESET aiostream.debug_force_nodes;
RESET enable_indexscan;
SET aiostream.enable_bitmapscan = off;
SET enable_bitmapscan = off;

-- a nested loop that comes through most of the table reads all of it beside
EXPLAIN (COSTS OFF) SELECT * FROM probes p JOIN probed USING (key);
SELECT same, rows, leaves_ahead AS index_swept, forward AS table_swept, core_reads FROM compare('SELECT n, v FROM probes p JOIN probed USING (key)', 'probed');
SELECT same, rows, leaves_ahead AS index_swept FROM compare('SELECT n, v FROM probes p LEFT JOIN probed USING (key) WHERE n % 3 > 0', 'probed');
SELECT same, rows FROM compare('SELECT n FROM probes p WHERE EXISTS (SELECT FROM probed q WHERE q.key = p.key AND q.v % 2 = 0)', 'probed');
SELECT reads('SELECT n, v FROM probes p JOIN probed USING (key)', 'probed', true) BETWEEN 500 AND
	(pg_relation_size('probed') + pg_relation_size('probed_key') + pg_relation_size('probes')) / 8192 + 16 AS each_page_once;
-- not where it is not worth it: few rounds, LIMIT, look-ahead off
EXPLAIN (COSTS OFF) SELECT * FROM probes p JOIN probed USING (key) WHERE n < 50;
EXPLAIN (COSTS OFF) SELECT * FROM probes p JOIN probed USING (key) LIMIT 10;
SET aiostream.effective_io_concurrency = 1;
EXPLAIN (COSTS OFF) SELECT * FROM probes p JOIN probed USING (key);
RESET aiostream.effective_io_concurrency;

-- bitmap and index scans inside of a nested loop keep their streams, while the table grows
CREATE FUNCTION grow(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO grown SELECT -g, -1, 5000 + i, repeat('y', 150) FROM generate_series(1, 30) g;
	RETURN i;
END $$;
SET aiostream.debug_force_nodes = on;
SELECT aiostream_evict('grown') > 0 AS cold;
SELECT count(*), sum(n) FROM (SELECT grow(g) AS g FROM generate_series(1, 100) g OFFSET 0) o,
	LATERAL (SELECT count(pad) AS n FROM grown WHERE rnd BETWEEN 5000 + o.g AND 5500 + o.g AND id > 0) l;
SET enable_indexscan = off;
SET enable_bitmapscan = on;
SET aiostream.enable_bitmapscan = on;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM (SELECT grow(g) AS g FROM generate_series(1, 100) g OFFSET 0) o,
	LATERAL (SELECT count(pad) AS n FROM grown WHERE rnd BETWEEN 5000 + o.g AND 5500 + o.g AND id > 0) l;
SELECT aiostream_evict('grown') > 0 AS cold;
SELECT count(*), sum(n) FROM (SELECT grow(g) AS g FROM generate_series(1, 100) g OFFSET 0) o,
	LATERAL (SELECT count(pad) AS n FROM grown WHERE rnd BETWEEN 5000 + o.g AND 5500 + o.g AND id > 0) l;
SET aiostream.enable = off;
SELECT count(*), sum(n) FROM (SELECT grow(g) AS g FROM generate_series(1, 100) g OFFSET 0) o,
	LATERAL (SELECT count(pad) AS n FROM grown WHERE rnd BETWEEN 5000 + o.g AND 5500 + o.g AND id > 0) l;
RESET aiostream.enable;
RESET aiostream.debug_force_nodes;
RESET enable_indexscan;
SET enable_bitmapscan = off;
SET aiostream.enable_bitmapscan = off;

-- a tablespace's own setting decides, where there is one: of the cost, and of requests in flight
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE test_aio_one LOCATION '' WITH (effective_io_concurrency = 1);
CREATE TABLESPACE test_aio_four LOCATION '' WITH (effective_io_concurrency = 4);
CREATE FUNCTION look_ahead(space name, concurrency int, OUT cheaper boolean, OUT capacity int) LANGUAGE plpgsql AS $$
DECLARE ours jsonb; core jsonb; query text := 'SELECT * FROM placed ORDER BY rnd';
BEGIN
	EXECUTE format('CREATE TABLE placed TABLESPACE %I AS SELECT * FROM t', space);
	CREATE INDEX ON placed (rnd);
	ANALYZE placed;
	PERFORM set_config('aiostream.effective_io_concurrency', concurrency::text, true);
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO ours;
	PERFORM set_config('aiostream.enable', 'off', true);
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO core;
	PERFORM set_config('aiostream.enable', 'on', true);
	cheaper := (ours->0->'Plan'->>'Total Cost')::float < (core->0->'Plan'->>'Total Cost')::float;
	PERFORM set_config('aiostream.debug_force_nodes', 'on', true);
	PERFORM set_config('aiostream.io_combine_limit', '16kB', true);
	PERFORM aiostream_evict('placed');
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || 'SELECT count(pad) FROM placed' INTO ours;
	PERFORM set_config('aiostream.debug_force_nodes', 'off', true);
	PERFORM set_config('aiostream.io_combine_limit', '512kB', true);
	capacity := ours->0->'Plan'->'Plans'->0->>'Prefetch Capacity';
	DROP TABLE placed;
END $$;
SELECT * FROM look_ahead('pg_default', 16);
SELECT * FROM look_ahead('pg_default', 1);
SELECT * FROM look_ahead('test_aio_one', 16);
SELECT * FROM look_ahead('test_aio_four', 1);
ALTER TABLESPACE test_aio_four RESET (effective_io_concurrency);
SELECT * FROM look_ahead('test_aio_four', 8);
RESET aiostream.effective_io_concurrency;

-- distances are the table's, and what EXPLAIN says of them agrees
CREATE FUNCTION distances(query text, OUT ahead boolean, OUT in_order boolean) LANGUAGE plpgsql AS $$
DECLARE plan jsonb; node jsonb;
BEGIN
	PERFORM aiostream_evict('t');
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	SELECT n INTO node FROM nodes(plan) n WHERE n->>'Custom Plan Provider' LIKE 'Aio%' LIMIT 1;
	ahead := (node->>'Max Prefetch Distance')::int > 0;
	in_order := (node->>'Average Prefetch Distance')::numeric <= (node->>'Max Prefetch Distance')::numeric
		AND (node->>'Max Prefetch Distance')::numeric <= (node->>'Prefetch Capacity')::numeric;
END $$;
SELECT query, d.* FROM unnest('{SELECT * FROM t ORDER BY near DESC, SELECT * FROM t ORDER BY near, SELECT * FROM t WHERE rnd < 20000 ORDER BY rnd}'::text[]) query, distances(query) d;

SET client_min_messages = warning;
DROP SCHEMA test_indexscan_ahead CASCADE;
DROP TABLESPACE test_aio_one;
DROP TABLESPACE test_aio_four;
