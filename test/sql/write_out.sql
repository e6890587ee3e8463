-- aiostream_write_out: dirty pages are written in large pieces, and clean then.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE EXTENSION IF NOT EXISTS pg_buffercache;
CREATE SCHEMA test_write_out;
SET search_path = test_write_out, public;
CREATE TABLE t (id int PRIMARY KEY, pad text) USING aioheap;
INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 8000) g;
CREATE UNLOGGED TABLE u AS SELECT * FROM t;
CREATE TABLE empty (i int);
CREATE TABLE parted (i int) PARTITION BY RANGE (i);
CREATE TEMP TABLE temporary AS SELECT 1 AS i;
CREATE VIEW v AS SELECT 1 AS i;
CREATE FUNCTION dirty(rel regclass, fork int DEFAULT 0) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM pg_buffercache
	WHERE relfilenode = pg_relation_filenode(rel) AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND relforknumber = fork AND isdirty
$$;
RESET client_min_messages;

-- heap or aioheap, index, unlogged: as many as were dirty, in few requests
SELECT aiostream_stat_reset();
SELECT dirty('t') AS dirty \gset
SELECT aiostream_write_out('t') = :dirty AS all_of_them, dirty('t') AS left;
SELECT write_bytes = :dirty * 8192 AS each_once, writes < :dirty / 20 AS large, write_skipped, failed_writes
FROM pg_stat_aiostream;
SELECT dirty('t_pkey') = aiostream_write_out('t_pkey') AS index, dirty('t_pkey') AS left;
SELECT dirty('u') = aiostream_write_out('u') AS unlogged, dirty('u') AS left;
SELECT aiostream_write_out('t'), aiostream_write_out('empty');

-- other forks
VACUUM t;
SELECT dirty('t', 2) > 0 AS dirty, aiostream_write_out('t', 'vm') > 0 AS written, dirty('t', 2) AS left;
SELECT aiostream_write_out('empty', 'fsm');

-- only what is dirty, gaps in between
CHECKPOINT;
UPDATE t SET id = id WHERE id % 1000 = 1;
SELECT dirty('t') AS dirty \gset
SELECT aiostream_write_out('t') = :dirty AS all_of_them, dirty('t') AS left;

-- the content is what it was
SELECT count(*), sum(id), sum(length(pad)) FROM t;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT count(*), sum(id), sum(length(pad)) FROM t;

-- errors
SELECT aiostream_write_out('v');
SELECT aiostream_write_out('parted');
SELECT aiostream_write_out('temporary');
SELECT aiostream_write_out('t', 'nonsense');
SELECT aiostream_write_out(0);
SELECT aiostream_write_out(NULL);
CREATE ROLE regress_write_out;
GRANT USAGE ON SCHEMA test_write_out TO regress_write_out;
SET ROLE regress_write_out;
SELECT aiostream_write_out('test_write_out.t');
RESET ROLE;
REVOKE USAGE ON SCHEMA test_write_out FROM regress_write_out;
DROP ROLE regress_write_out;

SET client_min_messages = warning;
DROP SCHEMA test_write_out CASCADE;
