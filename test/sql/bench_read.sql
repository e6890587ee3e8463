-- aiostream_bench_read(): patterns, arguments, columns.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_bench_read;
SET search_path = test_bench_read, public;
CREATE TABLE t (id int, pad text);
INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 2000) g;
CREATE INDEX t_id ON t (id);
SELECT pg_relation_size('t') / current_setting('block_size')::int AS blocks \gset
RESET client_min_messages;

-- each pattern, both contenders; sparse and random read 5 % unless told
SELECT p.pattern, b.run, b.pattern = p.pattern AS same_pattern, b.contender,
	b.blocks = CASE WHEN p.pattern IN ('sparse', 'random') THEN ceil(:blocks * 0.05) ELSE :blocks END AS blocks,
	b.seconds > 0 AS seconds, b.mb_per_s > 0 AS mb_per_s, b.iops > 0 AS iops, b.cpu_s >= 0 AS cpu_s,
	b.io_method IS NULL AS plain, b.direct_io, b.concurrency, b.combine_kb
FROM unnest(ARRAY['sequential', 'backward', 'sparse', 'random']) p(pattern),
	aiostream_bench_read('t', p.pattern) b;

-- MB is 1024 kB
SELECT abs(mb_per_s - blocks * 8 / 1024.0 / seconds) < 0.01 AS mb_per_s
FROM aiostream_bench_read('t', 'sequential');

-- every argument
SELECT contender, io_method, direct_io, concurrency, combine_kb, blocks
FROM aiostream_bench_read('t', 'backward', 'sync', 'off', 4, 64, 1.0, 10);
SELECT contender, direct_io, concurrency, combine_kb, blocks
FROM aiostream_bench_read('t', 'sequential', direct_io => 'auto', combine_kb => 1024, max_blocks => 1);
SELECT contender, io_method IS NOT NULL AS has_method, concurrency, combine_kb
FROM aiostream_bench_read('t', 'sequential', concurrency => 1, combine_kb => 8);
SELECT contender, blocks = :blocks AS all_blocks FROM aiostream_bench_read('t', 'random', fraction => 1);
SELECT contender, blocks FROM aiostream_bench_read('t', 'sparse', fraction => 0.0000001);
SELECT contender FROM aiostream_bench_read('t', 'sequential', 'plain');
-- settings are the defaults
SET aiostream.io_combine_limit = '64kB';
SET aiostream.effective_io_concurrency = 3;
SET aiostream.direct_io = off;
SELECT contender, direct_io, concurrency, combine_kb FROM aiostream_bench_read('t', 'sequential');
RESET aiostream.io_combine_limit;
RESET aiostream.effective_io_concurrency;
RESET aiostream.direct_io;

-- several runs (their progress is in NOTICEs, with times)
SET client_min_messages = warning;
SELECT run, contender, blocks = :blocks AS all_blocks FROM aiostream_bench_read('t', 'sequential', runs => 3);
RESET client_min_messages;

-- what can be read
SELECT contender, blocks > 0 AS blocks FROM aiostream_bench_read('t_id', 'backward');
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM t;
SELECT contender, blocks = :blocks AS blocks FROM aiostream_bench_read('unlogged', 'sequential');
CREATE MATERIALIZED VIEW mv AS SELECT * FROM t;
SELECT contender, blocks = :blocks AS blocks FROM aiostream_bench_read('mv', 'sequential');
CREATE TABLE aio (id int, pad text) USING aioheap;
INSERT INTO aio SELECT * FROM t;
SELECT contender, blocks = :blocks AS blocks FROM aiostream_bench_read('aio', 'sequential');
CREATE TABLE empty ();
SELECT contender, blocks, mb_per_s FROM aiostream_bench_read('empty', 'sequential', 'plain') WHERE blocks > 0;
SELECT contender, blocks FROM aiostream_bench_read('empty', 'random');

-- what cannot
CREATE VIEW v AS SELECT 1 AS one;
SELECT * FROM aiostream_bench_read('v', 'sequential');
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
SELECT * FROM aiostream_bench_read('parted', 'sequential');
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT * FROM aiostream_bench_read('temporary', 'sequential');
CREATE SEQUENCE s;
SELECT * FROM aiostream_bench_read('s', 'sequential');
SELECT * FROM aiostream_bench_read(4294967295::oid, 'sequential');

-- bad arguments
\set VERBOSITY default
SELECT * FROM aiostream_bench_read(NULL, 'sequential');
SELECT * FROM aiostream_bench_read('t', NULL);
SELECT * FROM aiostream_bench_read('t', 'zigzag');
SELECT * FROM aiostream_bench_read('t', 'Sequential');
SELECT * FROM aiostream_bench_read('t', 'sequential', io_method => 'posix');
SELECT * FROM aiostream_bench_read('t', 'sequential', direct_io => 'maybe');
SELECT * FROM aiostream_bench_read('t', 'sequential', concurrency => 0);
SELECT * FROM aiostream_bench_read('t', 'sequential', concurrency => 129);
SELECT * FROM aiostream_bench_read('t', 'sequential', combine_kb => 0);
SELECT * FROM aiostream_bench_read('t', 'sequential', combine_kb => 12);
SELECT * FROM aiostream_bench_read('t', 'sequential', combine_kb => 1032);
SELECT * FROM aiostream_bench_read('t', 'random', fraction => 0);
SELECT * FROM aiostream_bench_read('t', 'random', fraction => -0.1);
SELECT * FROM aiostream_bench_read('t', 'random', fraction => 1.01);
SELECT * FROM aiostream_bench_read('t', 'random', fraction => 'NaN');
SELECT * FROM aiostream_bench_read('t', 'random', fraction => 'Infinity');
SELECT * FROM aiostream_bench_read('t', 'random', max_blocks => 0);
SELECT * FROM aiostream_bench_read('t', 'random', max_blocks => 4294967296);
SELECT * FROM aiostream_bench_read('t', 'random', runs => 0);
SELECT * FROM aiostream_bench_read('t', 'random', runs => 1001);
\echo :LAST_ERROR_SQLSTATE

-- switched off
SET aiostream.enable = off;
SELECT * FROM aiostream_bench_read('t', 'sequential');
SELECT contender FROM aiostream_bench_read('t', 'sequential', 'plain');
RESET aiostream.enable;

-- owners only
CREATE ROLE regress_aiostream_user;
GRANT USAGE ON SCHEMA test_bench_read TO PUBLIC;
GRANT SELECT ON t TO PUBLIC;
SET ROLE regress_aiostream_user;
SELECT * FROM aiostream_bench_read('t', 'sequential');
RESET ROLE;
DROP ROLE regress_aiostream_user;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_bench_read CASCADE;
