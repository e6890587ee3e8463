-- Switching tables between heap and aioheap without rewriting them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_adopt;
SET search_path = test_adopt, public;
CREATE FUNCTION am(regclass) RETURNS name LANGUAGE sql AS
$$ SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1 $$;
-- dependencies on access methods, as CREATE TABLE ... USING makes them
CREATE FUNCTION am_depends(regclass) RETURNS TABLE (objsubid int, refam name, deptype "char") LANGUAGE sql AS
$$ SELECT d.objsubid, a.amname, d.deptype FROM pg_depend d JOIN pg_am a ON a.oid = d.refobjid
   WHERE d.classid = 'pg_class'::regclass AND d.objid = $1 AND d.refclassid = 'pg_am'::regclass $$;
CREATE ROLE regress_adopt_owner;
CREATE ROLE regress_adopt_other;
GRANT USAGE, CREATE ON SCHEMA test_adopt TO regress_adopt_owner;
GRANT USAGE ON SCHEMA test_adopt TO regress_adopt_other;
CREATE FOREIGN DATA WRAPPER regress_adopt_fdw;
CREATE SERVER regress_adopt_server FOREIGN DATA WRAPPER regress_adopt_fdw;
RESET client_min_messages;

-- there and back, with all that hangs on a table
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL CHECK (v >= 0), doc text, d int, gen int GENERATED ALWAYS AS (v * 2) STORED)
    WITH (fillfactor = 70);
ALTER TABLE t ALTER doc SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, g % 10, repeat('d', CASE WHEN g % 50 = 0 THEN 9000 ELSE 100 END) FROM generate_series(1, 2000) g;
ALTER TABLE t DROP d;
CREATE INDEX t_v ON t (v) WHERE id > 100;
CREATE TABLE refers (id int REFERENCES t);
INSERT INTO refers SELECT g FROM generate_series(1, 2000, 7) g;
CREATE VIEW looks AS SELECT id, v FROM t;
CREATE STATISTICS t_stats ON v, id FROM t;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trigger: %', NEW.id; RETURN NEW; END $$;
CREATE TRIGGER noted BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();
ALTER TABLE t REPLICA IDENTITY FULL;
SET client_min_messages = error;
CREATE PUBLICATION regress_adopt_pub FOR TABLE t;
RESET client_min_messages;
UPDATE t SET v = 5 WHERE id % 3 = 0;
DELETE FROM t WHERE id > 1996;
ANALYZE t;
SELECT count(*) AS n, sum(id) AS s, sum(gen) AS g, sum(length(doc)) AS l FROM t \gset before_
CREATE TEMP TABLE before AS
    SELECT relfilenode, relpages, reltuples, reltoastrelid, relfrozenxid, relminmxid, reloptions, relreplident FROM pg_class WHERE oid = 't'::regclass;
SELECT count(*) AS stats FROM pg_stats WHERE schemaname = 'test_adopt' AND tablename = 't' \gset before_
SELECT * FROM am_depends('t');
SELECT aiostream_adopt('t');
SELECT am('t'), am(reltoastrelid) AS toast_am FROM pg_class WHERE oid = 't'::regclass;
SELECT * FROM am_depends('t');
SELECT relfilenode, relpages, reltuples, reltoastrelid, relfrozenxid, relminmxid, reloptions, relreplident FROM pg_class WHERE oid = 't'::regclass
EXCEPT TABLE before;
SELECT count(*) = :before_n AND sum(id) = :before_s AND sum(gen) = :before_g AND sum(length(doc)) = :before_l AS same FROM t;
SELECT count(*) = :before_stats AS same_stats FROM pg_stats WHERE schemaname = 'test_adopt' AND tablename = 't';
SELECT * FROM pg_publication_tables WHERE pubname = 'regress_adopt_pub';
\d+ t
SELECT id, v, gen FROM t WHERE id = 1500;
INSERT INTO t VALUES (1, 1);
INSERT INTO t VALUES (5000, -1);
INSERT INTO t VALUES (5001, 1);
DELETE FROM t WHERE id = 1;
DELETE FROM t WHERE id = 5001;
VACUUM t;
SELECT count(*) FROM looks;
-- the extension now cannot go without its tables
DROP EXTENSION aiostream;
-- again: nothing changes
SELECT xmin AS row FROM pg_class WHERE oid = 't'::regclass \gset
SELECT aiostream_adopt('t');
SELECT xmin = :row AS untouched FROM pg_class WHERE oid = 't'::regclass;
SELECT * FROM am_depends('t');
-- and back
SELECT aiostream_release('t');
SELECT aiostream_release('t');
SELECT am('t'), am(reltoastrelid) AS toast_am, relfilenode = (SELECT relfilenode FROM before) AS same_file FROM pg_class WHERE oid = 't'::regclass;
SELECT * FROM am_depends('t');
SELECT count(*) = :before_n AND sum(id) = :before_s AND sum(gen) = :before_g AND sum(length(doc)) = :before_l AS same FROM t;
SELECT count(*) FROM refers JOIN t USING (id);

-- the dependency is the one that CREATE TABLE makes; ALTER TABLE agrees with us
CREATE TABLE made (id int) USING aioheap;
SELECT * FROM am_depends('made');
SELECT aiostream_release('made');
SELECT am('made'), count(refam) FROM am_depends('made');
ALTER TABLE made SET ACCESS METHOD aioheap;
SELECT aiostream_release('made');
SELECT aiostream_adopt('made');
ALTER TABLE made SET ACCESS METHOD heap;
SELECT am('made'), count(refam) FROM am_depends('made');
SELECT aiostream_adopt(NULL);

-- rolled back, whole and in part
SELECT aiostream_adopt('t');
BEGIN;
SELECT aiostream_release('t');
SELECT am('t'), count(*), (SELECT count(*) FROM am_depends('t')) AS depends FROM t;
ROLLBACK;
SELECT am('t'), count(*), (SELECT count(*) FROM am_depends('t')) AS depends FROM t;
BEGIN;
SAVEPOINT a;
SELECT aiostream_release('t');
INSERT INTO t VALUES (6001, 1);
SAVEPOINT b;
SELECT aiostream_adopt('t');
INSERT INTO t VALUES (6002, 1);
SELECT am('t'), count(*) FROM t;
ROLLBACK TO b;
SELECT am('t'), count(*) FROM t;
RELEASE b;
ROLLBACK TO a;
SELECT am('t'), count(*) FROM t;
COMMIT;
SELECT am('t'), count(*) FROM t;
DO $$
BEGIN
    PERFORM aiostream_release('t');
    RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
    RAISE NOTICE 'am is %', am('t');
END $$;
SELECT mode FROM pg_locks WHERE relation = 't'::regclass AND pid = pg_backend_pid();
BEGIN;
SELECT aiostream_release('t');
SELECT mode FROM pg_locks WHERE relation = 't'::regclass AND pid = pg_backend_pid() AND mode = 'AccessExclusiveLock';
-- a table of the same transaction
CREATE TABLE fresh (id int);
INSERT INTO fresh SELECT generate_series(1, 1000);
SELECT aiostream_adopt('fresh');
COPY fresh FROM PROGRAM 'seq 1001 2000' (FREEZE);
TRUNCATE fresh;
COPY fresh FROM PROGRAM 'seq 1 2000' (FREEZE);
SELECT am('fresh'), count(*), sum(id) FROM fresh;
COMMIT;
SELECT am('fresh'), count(*), sum(id) FROM fresh;

-- plans made before are made anew: a plain Seq Scan streams on aioheap only
CREATE TABLE planned AS SELECT g AS id, repeat('x', 100) AS pad FROM generate_series(1, 20000) g;
SET plan_cache_mode = force_generic_plan;
SET max_parallel_workers_per_gather = 0;
SET aiostream.enable_seqscan = off;
PREPARE prepared AS SELECT count(*) FROM planned;
CREATE FUNCTION streamed() RETURNS boolean LANGUAGE sql AS $$ SELECT reads > 0 FROM pg_stat_aiostream $$;
EXECUTE prepared;
SELECT aiostream_evict('planned') > 0 AS evicted;
SELECT aiostream_stat_reset();
EXECUTE prepared;
SELECT streamed();
SELECT aiostream_adopt('planned');
SELECT aiostream_evict('planned') > 0 AS evicted;
SELECT aiostream_stat_reset();
EXECUTE prepared;
SELECT streamed();
SELECT aiostream_release('planned');
SELECT aiostream_evict('planned') > 0 AS evicted;
SELECT aiostream_stat_reset();
EXECUTE prepared;
SELECT streamed();
DEALLOCATE prepared;
RESET plan_cache_mode;
RESET max_parallel_workers_per_gather;
RESET aiostream.enable_seqscan;

-- partitioned trees: the leaves; plain inheritance: the named table only
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
SELECT aiostream_adopt('p');
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY LIST (v);
CREATE TABLE p2a PARTITION OF p2 FOR VALUES IN (1);
CREATE TABLE p2b PARTITION OF p2 DEFAULT USING aioheap;
CREATE FOREIGN TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30) SERVER regress_adopt_server;
CREATE INDEX ON p2 (id);
INSERT INTO p SELECT g, g % 3 FROM generate_series(0, 19) g;
SELECT aiostream_adopt('p');
CREATE VIEW tree AS SELECT relid, am(relid), (SELECT count(*) FROM am_depends(relid)) AS depends FROM pg_partition_tree('p') WHERE isleaf;
TABLE tree;
SELECT aiostream_adopt('p');
SELECT aiostream_release('p2');
TABLE tree;
SELECT tableoid::regclass, count(*) FROM ONLY p1 GROUP BY 1 UNION ALL SELECT tableoid::regclass, count(*) FROM p2 GROUP BY 1 ORDER BY 1;
SELECT aiostream_release('p1');
TABLE tree;
-- all or nothing
ALTER TABLE p2a OWNER TO regress_adopt_other;
CREATE ACCESS METHOD regress_heap2 TYPE TABLE HANDLER heap_tableam_handler;
GRANT CREATE ON SCHEMA test_adopt TO regress_adopt_owner;
ALTER TABLE p OWNER TO regress_adopt_owner;
ALTER TABLE p1 OWNER TO regress_adopt_owner;
SET ROLE regress_adopt_owner;
SELECT aiostream_adopt('p');
RESET ROLE;
CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (30) TO (40) USING regress_heap2;
SELECT aiostream_adopt('p');
TABLE tree;
DROP TABLE p4;
CREATE TABLE parent (id int);
CREATE TABLE child () INHERITS (parent);
SELECT aiostream_adopt('parent');
SELECT am('parent'), am('child');

-- materialized views, unlogged and temporary tables
CREATE MATERIALIZED VIEW mv AS SELECT id FROM planned;
CREATE UNIQUE INDEX ON mv (id);
SELECT aiostream_adopt('mv');
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
REFRESH MATERIALIZED VIEW mv;
SELECT am('mv'), count(*) FROM mv;
CREATE UNLOGGED TABLE unlogged AS SELECT 1 AS id;
SELECT aiostream_adopt('unlogged');
SELECT am('unlogged'), * FROM unlogged;
CREATE TEMP TABLE temporary AS SELECT g AS id FROM generate_series(1, 1000) g;
SELECT aiostream_adopt('temporary');
SELECT am('temporary'), count(*) FROM temporary;
CREATE TEMP TABLE emptied (id int) ON COMMIT DELETE ROWS;
SELECT aiostream_adopt('emptied');
BEGIN;
INSERT INTO emptied VALUES (1);
SELECT am('emptied'), count(*) FROM emptied;
COMMIT;
SELECT am('emptied'), count(*) FROM emptied;

-- what cannot be
CREATE FUNCTION try(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    m text; d text; h text;
BEGIN
    EXECUTE command;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
    RETURN concat_ws(E'\n', SQLSTATE || ' ' || m, NULLIF(d, ''), NULLIF(h, ''));
END $$;
\pset format unaligned
\pset tuples_only on
CREATE SEQUENCE seq;
CREATE TYPE composite AS (id int);
CREATE FOREIGN TABLE ft (id int) SERVER regress_adopt_server;
CREATE TABLE other_am (id int) USING regress_heap2;
SELECT try('SELECT aiostream_adopt(''looks'')');
SELECT try('SELECT aiostream_adopt(''ft'')');
SELECT try('SELECT aiostream_adopt(''t_v'')');
SELECT try('SELECT aiostream_adopt(''seq'')');
SELECT try('SELECT aiostream_adopt(''composite'')');
SELECT try('SELECT aiostream_adopt(''other_am'')');
SELECT try('SELECT aiostream_release(''other_am'')');
SELECT try('SELECT aiostream_adopt(''pg_class'')');
SELECT try('SELECT aiostream_adopt(''pg_database'')');
SELECT try('SELECT aiostream_adopt(''pg_largeobject'')');
SELECT try('SELECT aiostream_release(''pg_class'')');
SET allow_system_table_mods = on;
SELECT try('SELECT aiostream_adopt(''pg_class'')');
SELECT regexp_replace(try(format('SELECT aiostream_adopt(%s::regclass)', reltoastrelid)), '\d{2,}"', 'N"') FROM pg_class WHERE oid = 't'::regclass;
RESET allow_system_table_mods;
SELECT regexp_replace(try(format('SELECT aiostream_adopt(%s::regclass)', reltoastrelid)), '\d{2,}"', 'N"') FROM pg_class WHERE oid = 't'::regclass;
SELECT try('SELECT aiostream_adopt(1::regclass)');
SELECT try('SELECT aiostream_adopt_schema(1::regnamespace)');
SET ROLE regress_adopt_other;
SELECT try('SELECT aiostream_adopt(''t'')');
SELECT try('SELECT aiostream_release(''t'')');
SELECT try('SELECT aiostream_adopt(''mv'')');
SELECT try('SELECT aiostream_adopt(''p'')');
SELECT try('SELECT aiostream_adopt(''pg_class'')');
RESET ROLE;
BEGIN READ ONLY;
SELECT try('SELECT aiostream_adopt(''t'')');
SELECT try('SELECT * FROM aiostream_release_schema(''test_adopt'')');
COMMIT;
-- in use by this session
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t;
FETCH 1 FROM c \gset
SELECT try('SELECT aiostream_adopt(''t'')');
CLOSE c;
SELECT try('SELECT aiostream_adopt(''t'')');
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM p WHERE id < 5;
FETCH 1 FROM c \gset
SELECT try('SELECT aiostream_adopt(''p'')');
SELECT try('SELECT aiostream_adopt(''p1'')');
-- not looked at by the cursor
SELECT try('SELECT aiostream_adopt(''p2a'')');
ROLLBACK;
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id LIMIT 3;
COMMIT;
SELECT try('SELECT aiostream_adopt(''t'')');
FETCH ALL FROM c;
CLOSE c;
SELECT aiostream_release('t');
SELECT try('SELECT aiostream_adopt(''t'') FROM t');
-- pending trigger events
ALTER TABLE refers ALTER CONSTRAINT refers_id_fkey DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO refers VALUES (2);
SELECT try('SELECT aiostream_adopt(''refers'')');
SET CONSTRAINTS ALL IMMEDIATE;
SELECT try('SELECT aiostream_adopt(''refers'')');
ROLLBACK;
\pset format aligned
\pset tuples_only off

-- all tables of a schema
CREATE SCHEMA test_adopt_all AUTHORIZATION regress_adopt_owner;
SET search_path = test_adopt_all, test_adopt, public;
CREATE TABLE plain (id serial PRIMARY KEY, doc text);
CREATE TABLE already (id int) USING aioheap;
CREATE TABLE different (id int) USING regress_heap2;
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE foreign_one (id int) SERVER regress_adopt_server;
CREATE MATERIALIZED VIEW mat AS SELECT * FROM plain;
CREATE VIEW v AS SELECT * FROM plain;
CREATE TABLE deferred (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE owned (id int);
ALTER TABLE owned OWNER TO regress_adopt_owner;
SET ROLE regress_adopt_owner;
SELECT * FROM aiostream_adopt_schema('test_adopt_all');
RESET ROLE;
BEGIN;
INSERT INTO deferred VALUES (1), (2);
INSERT INTO deferred VALUES (1);
SELECT * FROM aiostream_adopt_schema('test_adopt_all') WHERE switched OR message NOT LIKE 'partitioned%';
SELECT am('plain'), am('mat'), am('deferred'), am('parted_1'), (SELECT count(*) FROM am_depends('mat')) AS depends;
ROLLBACK;
SELECT am('plain'), am('mat'), am('owned');
SELECT * FROM aiostream_adopt_schema('test_adopt_all');
SELECT * FROM aiostream_release_schema('test_adopt_all');
SELECT relname FROM pg_class WHERE relnamespace = 'test_adopt_all'::regnamespace AND relam = (SELECT oid FROM pg_am WHERE amname = 'aioheap');
SELECT switched, message, count(*) > 50 AS many FROM (SELECT switched, regexp_replace(message, '".*"', '"..."') FROM aiostream_adopt_schema('pg_catalog')) AS s (switched, message) GROUP BY 1, 2;
CREATE SCHEMA test_adopt_none;
SELECT * FROM aiostream_adopt_schema('test_adopt_none');

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_adopt, test_adopt_all, test_adopt_none CASCADE;
DROP PUBLICATION regress_adopt_pub;
DROP FOREIGN DATA WRAPPER regress_adopt_fdw CASCADE;
DROP ACCESS METHOD regress_heap2;
DROP ROLE regress_adopt_owner, regress_adopt_other;
