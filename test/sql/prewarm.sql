-- aiostream_prewarm(): pg_prewarm's arguments, errors and result, in large reads.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE EXTENSION IF NOT EXISTS pg_buffercache;
CREATE SCHEMA test_prewarm;
SET search_path = test_prewarm, public;
CREATE TABLE t (id int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 8000) g;
CREATE INDEX t_id ON t (id);
VACUUM t;
CREATE TABLE empty (id int);
CREATE TABLE a (id int, pad text) USING aioheap;
INSERT INTO a SELECT * FROM t;
RESET client_min_messages;

CREATE VIEW cached AS
SELECT c.relname, b.relforknumber AS fork, b.relblocknumber AS block, b.usagecount
FROM pg_buffercache b JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid)
WHERE b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND c.relnamespace = 'test_prewarm'::regnamespace;

-- all of it, once each, into shared buffers at large
SELECT pg_relation_size('t') / 8192 AS blocks \gset
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT count(*) FROM cached WHERE relname = 't';
SELECT combined_64_up + combined_32_63 AS large, reads FROM pg_stat_aiostream \gset
SELECT aiostream_prewarm('t') = :blocks AS all_blocks;
SELECT count(*) = :blocks AS all_cached, count(DISTINCT block) = :blocks AS once, min(fork) AS fork
	FROM cached WHERE relname = 't';
SELECT reads - :reads <= :blocks / 32 + 2 AS few_reads, combined_64_up + combined_32_63 - :large >= :blocks / 64 AS large_ones
	FROM pg_stat_aiostream;
SELECT aiostream_prewarm('t') = :blocks AS again;
SELECT aiostream_evict('t') = :blocks AS no_more_than_that;

-- ranges
SELECT aiostream_prewarm('t', 'buffer', 'main', 100, 149);
SELECT min(block), max(block), count(*) FROM cached WHERE relname = 't';
SELECT aiostream_prewarm('t', first => 150, last => 150);
SELECT aiostream_prewarm('t', last => 9);
SELECT count(*) FILTER (WHERE block < 10) AS first_ten, max(block) FROM cached WHERE relname = 't';
SELECT aiostream_prewarm('t', first => :blocks - 5);
SELECT aiostream_prewarm('t', first => 20, last => 10);
SELECT count(*) FROM cached WHERE relname = 't';

-- forks, indexes, aioheap
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT aiostream_prewarm('t', fork => 'vm');
SELECT relname, fork, count(*) FROM cached WHERE relname = 't' GROUP BY 1, 2 ORDER BY 2;
SELECT aiostream_prewarm('t', fork => 'fsm') = pg_relation_size('t', 'fsm') / 8192 AS fsm;
SELECT aiostream_prewarm('t_id') = pg_relation_size('t_id') / 8192 AS index;
SELECT count(*) = pg_relation_size('t_id') / 8192 AS index_cached FROM cached WHERE relname = 't_id';
SELECT aiostream_evict('a') > 0 AS evicted;
SELECT aiostream_prewarm('a') = pg_relation_size('a') / 8192 AS aioheap;
SELECT count(*) = pg_relation_size('a') / 8192 AS aioheap_cached FROM cached WHERE relname = 'a';
SELECT aiostream_prewarm('empty');

-- the page cache only
SELECT aiostream_evict('t') >= 0 AS evicted;
SELECT aiostream_prewarm('t', 'prefetch') = :blocks AS prefetched, aiostream_prewarm('t', 'read') = :blocks AS read;
SELECT count(*) FROM cached WHERE relname = 't';

-- counted as read, as by PostgreSQL itself
SELECT aiostream_evict('t') >= 0 AS evicted;
CREATE FUNCTION shared_read(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;
SELECT shared_read('SELECT aiostream_prewarm(''t'')') >= :blocks AS counted;

-- without look-ahead: the same
SET aiostream.enable = off;
SELECT aiostream_evict('t') = :blocks AS evicted;
SELECT reads FROM pg_stat_aiostream \gset
SELECT aiostream_prewarm('t') = :blocks AS all_blocks;
SELECT reads - :reads AS by_aiostream FROM pg_stat_aiostream;
SELECT count(*) = :blocks AS all_cached FROM cached WHERE relname = 't';
RESET aiostream.enable;
CREATE TEMP TABLE mine AS SELECT * FROM t LIMIT 100;
SELECT aiostream_prewarm('mine') = pg_relation_size('mine') / 8192 AS temporary;

-- a read that fails leaves it to PostgreSQL
SELECT aiostream_evict('t') = :blocks AS evicted;
SELECT aiostream_debug_fault('read_error', 'fail 2');
SELECT aiostream_prewarm('t') = :blocks AS all_blocks;
SELECT aiostream_debug_fault('read_error', 'off');
SELECT count(*) = :blocks AS all_cached FROM cached WHERE relname = 't';

-- errors
CREATE FUNCTION state_of(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
SELECT state_of($$SELECT aiostream_prewarm(NULL)$$);
SELECT state_of($$SELECT aiostream_prewarm('t', NULL)$$);
SELECT state_of($$SELECT aiostream_prewarm('t', fork => NULL)$$);
SELECT state_of($$SELECT aiostream_prewarm('t', 'burn')$$);
SELECT state_of($$SELECT aiostream_prewarm('t', fork => 'knife')$$);
SELECT state_of($$SELECT aiostream_prewarm('t', fork => 'init')$$);
SELECT state_of(format('SELECT aiostream_prewarm(''t'', first => %s)', :blocks)) =
	'22023 starting block number must be between 0 and ' || :blocks - 1 AS beyond_the_end;
SELECT state_of($$SELECT aiostream_prewarm('t', first => -1)$$) LIKE '22023 starting%' AS negative;
SELECT state_of(format('SELECT aiostream_prewarm(''t'', last => %s)', :blocks)) =
	'22023 ending block number must be between 0 and ' || :blocks - 1 AS beyond_the_end;
SELECT state_of($$SELECT aiostream_prewarm('empty', first => 0)$$);
SELECT state_of($$SELECT aiostream_prewarm('empty', last => 0)$$);
SELECT state_of($$SELECT aiostream_prewarm('cached')$$);

-- privileges: SELECT on the table, also for its indexes
CREATE ROLE aiostream_prewarmer;
GRANT USAGE ON SCHEMA test_prewarm TO aiostream_prewarmer;
SET ROLE aiostream_prewarmer;
SELECT state_of($$SELECT aiostream_prewarm('t')$$), state_of($$SELECT aiostream_prewarm('t_id')$$);
RESET ROLE;
GRANT SELECT ON t TO aiostream_prewarmer;
SET ROLE aiostream_prewarmer;
SELECT state_of($$SELECT aiostream_prewarm('t')$$), state_of($$SELECT aiostream_prewarm('t_id')$$);
RESET ROLE;

-- no pins left
SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0 AND relfilenode = pg_relation_filenode('t');

SET client_min_messages = warning;
DROP SCHEMA test_prewarm CASCADE;
DROP ROLE aiostream_prewarmer;
