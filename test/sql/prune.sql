-- Core prunes a page that a scan looks at only if nobody else has it pinned, our
-- own look-ahead included: scans through aiostream leave as many dead line
-- pointers behind as PostgreSQL's own do.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE EXTENSION pageinspect;
CREATE SCHEMA test_prune;
SET search_path = test_prune, public;
SET aiostream.debug_force_nodes = on;
SET max_parallel_workers_per_gather = 0;
DO $$
DECLARE
	rel text;
BEGIN
	FOREACH rel IN ARRAY ARRAY['seq', 'aioheap_seq', 'index', 'backward', 'bitmap', 'plain'] LOOP
		EXECUTE format('CREATE TABLE %I (id int, x int, pad text) USING %s WITH (autovacuum_enabled = off)',
					   rel, CASE WHEN rel LIKE 'aioheap%' THEN 'aioheap' ELSE 'heap' END);
		EXECUTE format('CREATE INDEX ON %I (id)', rel);
		EXECUTE format('INSERT INTO %I SELECT g, g, repeat(''x'', 180) FROM generate_series(1, 6000) g', rel);
	END LOOP;
END $$;
DO $$
DECLARE
	rel text;
BEGIN
	FOREACH rel IN ARRAY ARRAY['seq', 'aioheap_seq', 'index', 'backward', 'bitmap', 'plain'] LOOP
		EXECUTE format('UPDATE %I SET x = x + 1 WHERE id %% 50 = 1', rel);
		EXECUTE format('ANALYZE %I', rel);
		PERFORM aiostream_evict(rel::regclass);
	END LOOP;
END $$;
RESET client_min_messages;

EXPLAIN (COSTS OFF) SELECT sum(x) FROM seq;
SELECT sum(x) FROM seq;
SET aiostream.enable_seqscan = off;
SELECT sum(x) FROM aioheap_seq;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT sum(x) FROM index WHERE id BETWEEN 1 AND 7000;
SELECT sum(x) FROM index WHERE id BETWEEN 1 AND 7000;
SELECT sum(x) FROM (SELECT x FROM backward WHERE id BETWEEN 1 AND 7000 ORDER BY id DESC OFFSET 0) s;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT sum(x) FROM bitmap WHERE id BETWEEN 1 AND 7000;
SELECT sum(x) FROM bitmap WHERE id BETWEEN 1 AND 7000;
SET aiostream.enable = off;
SET enable_seqscan = on;
EXPLAIN (COSTS OFF) SELECT sum(x) FROM plain;
SELECT sum(x) FROM plain;

SELECT rel, (SELECT count(*) FROM generate_series(0, pg_relation_size(rel::regclass) / 8192 - 1) b,
	heap_page_items(get_raw_page(rel, b::int)) WHERE lp_flags = 3) AS dead
FROM unnest(ARRAY['seq', 'aioheap_seq', 'index', 'backward', 'bitmap', 'plain']) rel;

SET client_min_messages = warning;
DROP SCHEMA test_prune CASCADE;
DROP EXTENSION pageinspect;
