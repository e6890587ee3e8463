-- aioheap: VACUUM, CLUSTER, ANALYZE and other maintenance.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_aioheap_maintenance;
SET search_path = test_aioheap_maintenance, public;
CREATE TABLE h (id int, v int, doc text) WITH (autovacuum_enabled = off);
INSERT INTO h SELECT g, (g * 7919) % 5000, repeat('d', 100 + g % 200) FROM generate_series(1, 5000) g;
CREATE TABLE a (LIKE h) USING aioheap WITH (autovacuum_enabled = off);
INSERT INTO a SELECT * FROM h;
CREATE INDEX h_v ON h (v); CREATE INDEX a_v ON a (v);
CREATE FUNCTION differing() RETURNS bigint LANGUAGE sql AS $$
SELECT (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE a) x) + (SELECT count(*) FROM (TABLE a EXCEPT ALL TABLE h) x) $$;
CREATE FUNCTION cold() RETURNS boolean LANGUAGE sql AS $$ SELECT aiostream_evict('h') > 0 AND aiostream_evict('a') > 0 $$;
CREATE FUNCTION am(regclass) RETURNS name LANGUAGE sql AS
$$ SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1 $$;
RESET client_min_messages;

-- VACUUM: dead rows go, space is used again, the end is cut off
DELETE FROM h WHERE id % 3 = 0; DELETE FROM a WHERE id % 3 = 0;
SELECT cold();
VACUUM h; VACUUM a;
SELECT pg_relation_size('h') = pg_relation_size('a') AS same_size, differing();
SELECT pg_relation_size('a') AS size \gset
INSERT INTO h SELECT g, 0, 'short' FROM generate_series(6000, 6500) g; INSERT INTO a SELECT g, 0, 'short' FROM generate_series(6000, 6500) g;
SELECT pg_relation_size('a') = :size AS space_was_used, differing();
DELETE FROM h WHERE id > 2500; DELETE FROM a WHERE id > 2500;
SELECT cold();
VACUUM (TRUNCATE) h; VACUUM (TRUNCATE) a;
SELECT pg_relation_size('h') = pg_relation_size('a') AS same_size, pg_relation_size('a') < :size AS truncated, differing();
VACUUM (FREEZE, DISABLE_PAGE_SKIPPING, PROCESS_TOAST, INDEX_CLEANUP on) a;
VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) h;
VACUUM (PARALLEL 2, SKIP_LOCKED) a;
SELECT h.relpages = a.relpages AS relpages, h.reltuples = a.reltuples AS reltuples, h.relallvisible = a.relallvisible AS allvisible,
	a.relallvisible = a.relpages AS all_of_them
FROM pg_class h, pg_class a WHERE h.oid = 'h'::regclass AND a.oid = 'a'::regclass;
-- all-visible pages: index-only scans do not visit the table
SET enable_seqscan = off;
SELECT sum(v) FROM a WHERE v < 1000;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT v FROM a WHERE v < 50;
RESET enable_seqscan;

-- ANALYZE: a sample of the same table gives the same statistics
SELECT cold();
SELECT setseed(0);
ANALYZE h;
ANALYZE a;
SELECT h.attname, h.n_distinct = a.n_distinct AS n_distinct, h.null_frac = a.null_frac AS null_frac, h.avg_width = a.avg_width AS avg_width
FROM pg_stats h JOIN pg_stats a USING (schemaname, attname) WHERE schemaname = 'test_aioheap_maintenance' AND h.tablename = 'h' AND a.tablename = 'a'
ORDER BY 1;
ANALYZE (SKIP_LOCKED) a (v);
CREATE STATISTICS a_stat ON id, v FROM a;
ANALYZE a;
SELECT count(*) FROM pg_stats_ext WHERE statistics_name = 'a_stat';

-- VACUUM FULL and CLUSTER
UPDATE h SET doc = 'updated' WHERE id % 2 = 0; UPDATE a SET doc = 'updated' WHERE id % 2 = 0;
DELETE FROM h WHERE id % 5 = 0; DELETE FROM a WHERE id % 5 = 0;
SELECT cold();
VACUUM FULL h; VACUUM FULL a;
SELECT am('a'), pg_relation_size('h') = pg_relation_size('a') AS same_size, differing();
SELECT cold();
CLUSTER h USING h_v; CLUSTER a USING a_v;
SELECT am('a'), pg_relation_size('h') = pg_relation_size('a') AS same_size, differing();
SELECT array_agg(v) = array_agg(v ORDER BY v, ctid) AS in_order FROM a;
CLUSTER a;
-- by sequential scan and sort, with dead rows and rows in an open cursor's snapshot
UPDATE a SET doc = 'again' WHERE v % 3 = 0; UPDATE h SET doc = 'again' WHERE v % 3 = 0;
SET enable_indexscan = off;
SELECT cold();
CLUSTER h; CLUSTER a;
SELECT am('a'), pg_relation_size('h') = pg_relation_size('a') AS same_size, differing();
RESET enable_indexscan;
-- VACUUM FULL of a larger one, where look-ahead reaches its limits; then with it off
CREATE TABLE large USING aioheap AS SELECT g AS id, repeat('l', 500) AS doc FROM generate_series(1, 20000) g;
DELETE FROM large WHERE id % 4 = 0;
SELECT aiostream_evict('large') > 0 AS evicted;
VACUUM FULL large;
SELECT count(*), sum(id) FROM large;
UPDATE large SET doc = 'x' WHERE id % 4 = 1;
SET aiostream.enable = off;
VACUUM FULL large;
RESET aiostream.enable;
SELECT count(*), sum(id), sum(length(doc)) FROM large;
-- an error in the middle of a rewrite
CREATE FUNCTION fails(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1 / ($1 - 10001); END';
SELECT aiostream_evict('large') > 0 AS evicted;
ALTER TABLE large ALTER id TYPE int USING fails(id);
SELECT count(*), sum(id), am('large') FROM large;

-- TRUNCATE, RESTART, rolled back
TRUNCATE a;
SELECT count(*), pg_relation_size('a') FROM a;
INSERT INTO a SELECT * FROM h;
BEGIN;
TRUNCATE a;
SELECT count(*) FROM a;
ROLLBACK;
SELECT count(*), differing() FROM a;

-- other maintenance: REINDEX, LOCK, statistics views, sizes, DISCARD
REINDEX TABLE a;
BEGIN;
LOCK TABLE a IN ACCESS EXCLUSIVE MODE;
COMMIT;
SELECT pg_table_size('a') >= pg_relation_size('a') AS size, pg_total_relation_size('a') > pg_table_size('a') AS with_indexes;
DISCARD PLANS;
-- moving to another tablespace copies the file
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_aiostream_tablespace LOCATION '';
ALTER TABLE a SET TABLESPACE regress_aiostream_tablespace;
SELECT am('a'), count(*), differing() FROM a;
SELECT cold();
SELECT count(*), differing() FROM a;
SET default_tablespace = regress_aiostream_tablespace;
CREATE TABLE elsewhere USING aioheap AS SELECT * FROM a;
RESET default_tablespace;
SELECT aiostream_evict('elsewhere') > 0 AS evicted;
SELECT count(*), sum(v) = (SELECT sum(v) FROM h) AS same FROM elsewhere;
DROP TABLE elsewhere;
ALTER TABLE a SET TABLESPACE pg_default;
SELECT count(*), differing() FROM a;
DROP TABLESPACE regress_aiostream_tablespace;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_aioheap_maintenance CASCADE;
