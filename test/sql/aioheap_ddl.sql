-- aioheap: making tables of it, and switching between it and heap.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_aioheap_ddl;
SET search_path = test_aioheap_ddl, public;
CREATE FUNCTION am(regclass) RETURNS name LANGUAGE sql AS
$$ SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1 $$;
RESET client_min_messages;

SELECT amname, amtype, amhandler FROM pg_am WHERE amname = 'aioheap';
\dA+ aioheap

-- every way to make a table
CREATE TABLE using_clause (id int PRIMARY KEY, doc text) USING aioheap;
CREATE TABLE as_select USING aioheap AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE TABLE as_select_no_data USING aioheap AS SELECT 1 AS one WITH NO DATA;
CREATE UNLOGGED TABLE unlogged (id int) USING aioheap;
CREATE TEMP TABLE temporary (id int) USING aioheap;
CREATE TYPE composite AS (id int, doc text);
CREATE TABLE typed OF composite USING aioheap;
CREATE TABLE inherits_it (more int) INHERITS (using_clause) USING aioheap;
CREATE TABLE like_it (LIKE using_clause INCLUDING ALL) USING aioheap;
CREATE TABLE like_plain (LIKE using_clause INCLUDING ALL);
CREATE MATERIALIZED VIEW mv USING aioheap AS SELECT * FROM as_select;
SET default_table_access_method = aioheap;
CREATE TABLE by_default (id int, doc text);
SELECT 1 AS one INTO into_default;
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
RESET default_table_access_method;
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (20) TO (30) USING aioheap;
SELECT relname, relkind, am(oid) FROM pg_class
WHERE relnamespace = 'test_aioheap_ddl'::regnamespace AND relkind IN ('r', 'm', 'p') ORDER BY relname COLLATE "C";
SELECT relname, am(oid) FROM pg_class WHERE oid = 'pg_temp.temporary'::regclass;
\d+ using_clause

-- not for partitioned tables (PostgreSQL 15), nor for views
CREATE TABLE parted_using (id int) PARTITION BY RANGE (id) USING aioheap;
CREATE VIEW v USING aioheap AS SELECT 1 AS one;

-- TOAST tables stay heap
SELECT c.relname, am(c.oid) AS table_am, am(c.reltoastrelid) AS toast_am FROM pg_class c
WHERE c.relname IN ('using_clause', 'by_default', 'mv') AND c.relnamespace = 'test_aioheap_ddl'::regnamespace AND c.reltoastrelid <> 0
ORDER BY 1;
ALTER TABLE using_clause ALTER doc SET STORAGE EXTERNAL;
INSERT INTO using_clause SELECT g, repeat(g::text, 5000) FROM generate_series(1, 20) g;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 'using_clause'::regclass;
SELECT aiostream_evict('using_clause') > 0 AS evicted;
SELECT count(*), sum(length(doc)), bool_and(doc = repeat(id::text, 5000)) AS intact FROM using_clause;
UPDATE using_clause SET doc = substr(doc, 101) || 'end' WHERE id > 10;
DELETE FROM using_clause WHERE id <= 5;
VACUUM using_clause;
SELECT count(*), sum(length(doc)), count(*) FILTER (WHERE doc LIKE '%end') AS changed FROM using_clause;
SELECT am(reltoastrelid) AS toast_am FROM pg_class WHERE oid = 'using_clause'::regclass;

-- both ways, with all that hangs on the table
CREATE TABLE switched (id int PRIMARY KEY, v int NOT NULL CHECK (v >= 0), doc text, d int, gen int GENERATED ALWAYS AS (v * 2) STORED) WITH (fillfactor = 70);
ALTER TABLE switched ALTER doc SET STORAGE EXTERNAL;
INSERT INTO switched SELECT g, g % 10, repeat('d', CASE WHEN g % 50 = 0 THEN 9000 ELSE 100 END) FROM generate_series(1, 2000) g;
ALTER TABLE switched DROP d;
CREATE INDEX ON switched (v) WHERE id > 100;
CREATE INDEX ON switched (lower(doc)) WHERE length(doc) < 1000;
CREATE TABLE refers (id int REFERENCES switched);
INSERT INTO refers SELECT g FROM generate_series(1, 2000, 7) g;
CREATE VIEW looks AS SELECT id, v FROM switched;
UPDATE switched SET v = 5 WHERE id % 3 = 0;
DELETE FROM switched WHERE id > 1996;
SELECT count(*) AS n, sum(id) AS s, sum(gen) AS g, sum(length(doc)) AS l FROM switched \gset before_
ALTER TABLE switched SET ACCESS METHOD aioheap;
SELECT am('switched'), am(reltoastrelid) AS toast_am, reloptions FROM pg_class WHERE oid = 'switched'::regclass;
SELECT count(*) = :before_n AND sum(id) = :before_s AND sum(gen) = :before_g AND sum(length(doc)) = :before_l AS same FROM switched;
SELECT id, v, gen FROM switched WHERE id = 1500;
INSERT INTO switched VALUES (1, 1);
INSERT INTO switched VALUES (5000, -1);
INSERT INTO refers VALUES (99999);
DELETE FROM switched WHERE id = 1;
SELECT count(*) FROM looks;
\d switched
-- again is a no-op
SELECT pg_relation_filenode('switched') AS file \gset
ALTER TABLE switched SET ACCESS METHOD aioheap;
SELECT pg_relation_filenode('switched') = :file AS untouched;
ALTER TABLE switched SET ACCESS METHOD heap;
SELECT am('switched'), am(reltoastrelid) AS toast_am FROM pg_class WHERE oid = 'switched'::regclass;
SELECT count(*) = :before_n AND sum(id) = :before_s AND sum(gen) = :before_g AND sum(length(doc)) = :before_l AS same FROM switched;
SELECT count(*) FROM refers JOIN switched USING (id);
-- together with other changes, in one rewrite
ALTER TABLE switched SET ACCESS METHOD aioheap, ADD more int DEFAULT 3, ALTER doc TYPE varchar, DROP gen;
SELECT am('switched'), count(*), sum(more), pg_typeof(max(doc)) FROM switched;
-- and undone
BEGIN;
ALTER TABLE switched SET ACCESS METHOD heap;
SELECT am('switched'), count(*) FROM switched;
ROLLBACK;
SELECT am('switched'), count(*) FROM switched;
ALTER TABLE switched SET ACCESS METHOD aioheap, SET ACCESS METHOD heap;
ALTER TABLE parted SET ACCESS METHOD aioheap;
ALTER TABLE parted_1 SET ACCESS METHOD heap;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD heap;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD aioheap;
SELECT am('mv'), count(*) FROM mv;

-- rewrites and other ALTERs keep the method
ALTER TABLE using_clause ADD n int DEFAULT (random() * 0)::int, ALTER id TYPE bigint;
ALTER TABLE using_clause SET UNLOGGED;
SELECT am('using_clause'), relpersistence FROM pg_class WHERE oid = 'using_clause'::regclass;
ALTER TABLE using_clause SET LOGGED;
ALTER TABLE using_clause SET (fillfactor = 50, parallel_workers = 3);
ALTER TABLE using_clause RENAME doc TO document;
ALTER TABLE using_clause CLUSTER ON using_clause_pkey;
ALTER TABLE using_clause DROP document;
SELECT am('using_clause'), count(*), sum(n) FROM using_clause;
ALTER TABLE using_clause ADD CONSTRAINT positive CHECK (id > 0) NOT VALID;
ALTER TABLE using_clause VALIDATE CONSTRAINT positive;
ALTER TABLE using_clause ADD CONSTRAINT large CHECK (id > 10);
ALTER TABLE using_clause ALTER n SET NOT NULL;
-- attach and detach
ALTER TABLE parted DETACH PARTITION parted_3;
INSERT INTO parted_3 VALUES (25), (35);
ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES FROM (20) TO (30);
DELETE FROM parted_3 WHERE id = 35;
ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES FROM (20) TO (30);
INSERT INTO parted VALUES (5), (15);
SELECT tableoid::regclass, am(tableoid), id FROM parted ORDER BY id;

-- materialized views: refresh, also CONCURRENTLY
INSERT INTO as_select VALUES (101);
REFRESH MATERIALIZED VIEW mv;
SELECT am('mv'), count(*), sum(id) FROM mv;
CREATE UNIQUE INDEX ON mv (id);
DELETE FROM as_select WHERE id < 50;
UPDATE as_select SET id = id + 1000 WHERE id < 60;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT am('mv'), count(*), sum(id) FROM mv;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
SELECT * FROM mv;

-- temporary tables work as heap's
INSERT INTO temporary SELECT generate_series(1, 1000);
CREATE INDEX ON temporary (id);
SELECT count(*), sum(id) FROM temporary;
DROP TABLE temporary;
-- ON COMMIT
CREATE TEMP TABLE emptied (id int) USING aioheap ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO emptied SELECT generate_series(1, 1000);
SELECT count(*) FROM emptied;
COMMIT;
SELECT count(*) FROM emptied;
-- created and dropped, or truncated, in one transaction
BEGIN;
CREATE TABLE brief (id int) USING aioheap;
INSERT INTO brief SELECT generate_series(1, 5000);
SELECT count(*) FROM brief;
TRUNCATE brief;
SELECT count(*) FROM brief;
INSERT INTO brief SELECT generate_series(1, 50);
SELECT count(*) FROM brief;
DROP TABLE brief;
COMMIT;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_aioheap_ddl CASCADE;
