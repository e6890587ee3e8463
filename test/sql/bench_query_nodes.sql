-- aiostream_bench_query() with bitmap, index and index-only scans: our nodes on our side, cold with
-- their indexes, and the same rows.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_bench_nodes;
SET search_path = test_bench_nodes, public;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE t (id int, r int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, g * 7919 % 20011, repeat('x', 300) FROM generate_series(1, 20000) g;
CREATE INDEX t_r ON t (r);
ANALYZE t;
SET enable_seqscan = off;

-- rows, whether both agree, and whether reads of ours did it
CREATE FUNCTION bench(query text, OUT node text, OUT agree boolean, OUT rows bigint, OUT requests boolean) LANGUAGE plpgsql AS $$
DECLARE line text; before bigint; after bigint;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		node := coalesce(node, substring(line, '\((Aio\w+)\)'));
	END LOOP;
	SELECT reads INTO before FROM pg_stat_aiostream;
	SELECT bool_and(b.agree), min(b.rows) INTO agree, rows FROM aiostream_bench_query(query, 2) b;
	SELECT reads INTO after FROM pg_stat_aiostream;
	requests := after - before >= 20;
END $$;
SET enable_indexscan = off;
SELECT * FROM bench('SELECT count(pad) FROM t WHERE r < 10000');
RESET enable_indexscan;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT * FROM bench('SELECT id, pad FROM t WHERE r BETWEEN 100 AND 15000 ORDER BY r DESC');
SELECT * FROM bench('SELECT r FROM t WHERE r < 10000 ORDER BY r');

SET client_min_messages = warning;
DROP SCHEMA test_bench_nodes CASCADE;
