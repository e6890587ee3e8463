-- The extension itself: schemas, dependencies, DROP refused while tables use it.
CREATE DATABASE regress_aiostream;
\c regress_aiostream
SELECT name, default_version, comment <> '' AS comment FROM pg_available_extensions WHERE name = 'aiostream';
SELECT superuser, trusted, relocatable, schema, requires FROM pg_available_extension_versions WHERE name = 'aiostream';

-- objects go where the user says, and follow
CREATE SCHEMA somewhere;
CREATE EXTENSION aiostream SCHEMA somewhere;
SELECT count(*) > 10 AS works FROM somewhere.aiostream_info();
SELECT count(*) FROM somewhere.pg_stat_aiostream;
CREATE TABLE t (id int, doc text) USING aioheap;
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 1000) g;
ALTER EXTENSION aiostream SET SCHEMA public;
SELECT count(*) FROM pg_stat_aiostream;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT count(*), sum(id) FROM t;
CREATE EXTENSION aiostream;

-- refused while there are tables, materialized views, partitions
CREATE MATERIALIZED VIEW mv USING aioheap AS SELECT * FROM t;
DROP EXTENSION aiostream;
DROP ACCESS METHOD aioheap;
DROP FUNCTION aiostream_evict(regclass);
DROP VIEW pg_stat_aiostream;
-- the way back, as README shows it
SELECT format('ALTER TABLE %s SET ACCESS METHOD heap;', c.oid::regclass)
FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'aioheap' AND c.relkind IN ('r', 'm')
ORDER BY c.relname
\gexec
SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname IN ('t', 'mv') ORDER BY 1;
DROP EXTENSION aiostream;
SELECT count(*), sum(id) FROM t;
SELECT count(*), sum(id) FROM mv;
-- nothing is left behind
SELECT proname FROM pg_proc WHERE proname LIKE '%aiostream%';
SELECT relname FROM pg_class WHERE relname LIKE '%aiostream%';
SELECT amname FROM pg_am WHERE amname LIKE 'aio%';
CREATE TABLE u (id int) USING aioheap;
-- plans for heap tables do without the SQL objects
SET aiostream.debug_force_nodes = on;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
SELECT count(*) FROM t;
RESET aiostream.debug_force_nodes;

-- not for everyone
CREATE ROLE regress_aiostream_user;
GRANT CREATE ON DATABASE regress_aiostream TO regress_aiostream_user;
GRANT CREATE ON SCHEMA public TO regress_aiostream_user;
SET ROLE regress_aiostream_user;
CREATE EXTENSION aiostream;
RESET ROLE;
-- but every user may use it
CREATE EXTENSION aiostream;
SET ROLE regress_aiostream_user;
CREATE TABLE own (id int) USING aioheap;
INSERT INTO own SELECT generate_series(1, 1000);
SELECT aiostream_evict('own') > 0 AS evicted;
SELECT count(*), sum(id) FROM own;
ALTER TABLE own SET ACCESS METHOD heap;
ALTER TABLE own SET ACCESS METHOD aioheap;
SELECT contender, blocks > 0 AS blocks FROM aiostream_bench_read('own', 'sequential');
RESET ROLE;

-- CASCADE drops tables with their data: the documented danger
\set VERBOSITY terse
DROP EXTENSION aiostream CASCADE;
SELECT to_regclass('own'), to_regclass('t');
DROP OWNED BY regress_aiostream_user;
DROP ROLE regress_aiostream_user;
\c regression
DROP DATABASE regress_aiostream;
