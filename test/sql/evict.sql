-- aiostream_evict(): drops what is cached, changes nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_evict;
SET search_path = test_evict, public;
CREATE TABLE t (id int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 1000) g;
CREATE INDEX t_id ON t (id);
RESET client_min_messages;

-- blocks that a read of all of it finds in shared buffers
CREATE FUNCTION hits(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint;
END $$;
SET aiostream.enable = off;	-- plain reads only

-- dirty pages are written, not lost; the index goes with the table
SELECT pg_relation_size('t') / 8192 AS blocks \gset
UPDATE t SET pad = 'y' || pad WHERE id % 10 = 0;
SELECT count(*), sum(length(pad)) FROM t;
SELECT aiostream_evict('t') > :blocks AS evicted_with_index;
SELECT aiostream_evict('t');
SELECT hits('SELECT sum(length(pad)) FROM t');
SELECT count(*), sum(length(pad)) FROM t;
SELECT hits('SELECT sum(length(pad)) FROM t') = pg_relation_size('t') / 8192 AS cached_again;
SELECT aiostream_evict('t') = pg_relation_size('t') / 8192 AS what_was_read;

-- an index alone
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM t WHERE id < 100;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT aiostream_evict('t_id') > 0 AS evicted;
SELECT aiostream_evict('t_id');

-- TOAST goes too
CREATE TABLE toasted (doc text);
ALTER TABLE toasted ALTER doc SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT repeat('toast', 10000) FROM generate_series(1, 10);
SELECT aiostream_evict('toasted') >= 10 * 50000 / 8192 AS evicted;
SELECT count(*), sum(length(doc)) FROM toasted;
SELECT aiostream_evict('toasted') >= 10 * 50000 / 8192 AS evicted;
-- the TOAST table named itself
SELECT count(*), sum(length(doc)) FROM toasted;
SELECT aiostream_evict(reltoastrelid) >= 10 * 50000 / 8192 AS evicted FROM pg_class WHERE oid = 'toasted'::regclass;

-- partitioned tables and indexes: the partitions
CREATE TABLE parted (id int, pad text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (500);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (500) TO (1001) PARTITION BY RANGE (id);
CREATE TABLE parted_2_1 PARTITION OF parted_2 FOR VALUES FROM (500) TO (1001);
SELECT aiostream_evict('parted');
INSERT INTO parted SELECT * FROM t;
CREATE INDEX parted_id ON parted (id);
UPDATE parted SET id = id WHERE id % 100 = 0;	-- builds leave nothing in shared buffers
SELECT aiostream_evict('parted_id') > 0 AS evicted;
SELECT aiostream_evict('parted') >= (pg_relation_size('parted_1') + pg_relation_size('parted_2_1')) / 8192 AS evicted;
SELECT hits('SELECT sum(length(pad)) FROM parted');
SELECT count(*), sum(id) FROM parted;

-- inheritance: the table named, not its children
CREATE TABLE parent (id int);
CREATE TABLE child () INHERITS (parent);
INSERT INTO child SELECT 1;
SELECT aiostream_evict('parent');
SELECT aiostream_evict('child') > 0 AS evicted;

-- unlogged tables, materialized views, sequences, empty tables, aioheap
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM t;
SELECT aiostream_evict('unlogged') > 0 AS evicted;
SELECT count(*), sum(id) FROM unlogged;
CREATE MATERIALIZED VIEW mv AS SELECT * FROM t;
SELECT aiostream_evict('mv') > 0 AS evicted;
SELECT count(*), sum(id) FROM mv;
CREATE SEQUENCE s;
SELECT nextval('s');
SELECT aiostream_evict('s');
SELECT nextval('s');
CREATE TABLE empty ();
SELECT aiostream_evict('empty');
CREATE TABLE aio (id int, pad text) USING aioheap;
INSERT INTO aio SELECT * FROM t;
SELECT aiostream_evict('aio') > 0 AS evicted;
SELECT count(*), sum(id) FROM aio;

-- data of an aborted and of an uncommitted transaction is written as any other
BEGIN;
INSERT INTO t SELECT g, 'uncommitted' FROM generate_series(1, 1000) g;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT count(*) FROM t;
ROLLBACK;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT count(*) FROM t;

-- a page that a cursor is on stays, and is said to
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 1 FROM c;
SELECT aiostream_evict('t') > 0 AS evicted;
FETCH 1 FROM c;
COMMIT;

-- what has nothing to evict
CREATE VIEW v AS SELECT 1 AS one;
SELECT aiostream_evict('v');
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT aiostream_evict('temporary');
CREATE TYPE composite AS (a int);
SELECT aiostream_evict('composite');
CREATE FOREIGN DATA WRAPPER regress_aiostream_fdw;
CREATE SERVER regress_aiostream_server FOREIGN DATA WRAPPER regress_aiostream_fdw;
CREATE FOREIGN TABLE foreign_table (a int) SERVER regress_aiostream_server;
SELECT aiostream_evict('foreign_table');
SELECT aiostream_evict('no_such_table');
SELECT aiostream_evict(4294967295::oid);
SELECT aiostream_evict(NULL) IS NULL AS is_null;

-- a foreign partition is passed over
CREATE FOREIGN TABLE parted_3 PARTITION OF parted FOR VALUES FROM (1001) TO (2000) SERVER regress_aiostream_server;

-- owners only
CREATE ROLE regress_aiostream_owner;
CREATE ROLE regress_aiostream_user;
GRANT USAGE ON SCHEMA test_evict TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA test_evict TO regress_aiostream_user;
ALTER TABLE t OWNER TO regress_aiostream_owner;
SET ROLE regress_aiostream_user;
SELECT aiostream_evict('t');
SELECT aiostream_evict('t_id');
SELECT aiostream_evict('mv');
SELECT aiostream_evict('s');
SELECT aiostream_evict('pg_catalog.pg_class');
SET ROLE regress_aiostream_owner;
SELECT aiostream_evict('t') > 0 AS evicted;
SELECT aiostream_evict('t_id');
RESET ROLE;
-- the owner of a partitioned table, but not of its partition
ALTER TABLE parted OWNER TO regress_aiostream_owner;
SET ROLE regress_aiostream_owner;
SELECT aiostream_evict('parted');
RESET ROLE;

-- catalogs, also mapped ones, for the superuser
SELECT aiostream_evict('pg_catalog.pg_description') > 0 AS evicted;
SET client_min_messages = warning;
SELECT aiostream_evict('pg_catalog.pg_class') >= 0 AS evicted;
DROP SERVER regress_aiostream_server CASCADE;
DROP FOREIGN DATA WRAPPER regress_aiostream_fdw;
REASSIGN OWNED BY regress_aiostream_owner TO CURRENT_USER;
DROP OWNED BY regress_aiostream_owner, regress_aiostream_user;
DROP ROLE regress_aiostream_owner, regress_aiostream_user;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_evict CASCADE;
