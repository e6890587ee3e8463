-- amcheck's checks on aioheap tables.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_verify;
CREATE SCHEMA "test verify amcheck";
SET search_path = test_verify, public;
CREATE ROLE regress_verify_owner;
CREATE ROLE regress_verify_other;
GRANT USAGE, CREATE ON SCHEMA test_verify TO regress_verify_owner, regress_verify_other;
RESET client_min_messages;

CREATE TABLE h (id int PRIMARY KEY, v int, doc text);
ALTER TABLE h ALTER doc SET STORAGE EXTERNAL;
INSERT INTO h SELECT g, g % 100, repeat('d', CASE WHEN g % 100 = 0 THEN 9000 ELSE 50 END) FROM generate_series(1, 5000) g;
CREATE INDEX h_v ON h (v);
CREATE INDEX h_lower ON h (lower(left(doc, 10))) WHERE v > 5;
CREATE INDEX h_hash ON h USING hash (v);
DELETE FROM h WHERE id % 7 = 0;
UPDATE h SET v = v + 1 WHERE id % 11 = 0;
CREATE TABLE a (LIKE h INCLUDING ALL) USING aioheap;
INSERT INTO a SELECT * FROM h;

-- without amcheck
SELECT * FROM aiostream_verify('a');
CREATE EXTENSION amcheck SCHEMA "test verify amcheck";
-- why it takes a function
SELECT * FROM "test verify amcheck".verify_heapam('a');

-- sound tables
SELECT * FROM aiostream_verify('a');
SELECT * FROM aiostream_verify('h');
SELECT * FROM aiostream_verify(rel => 'a', check_toast => false, heapallindexed => false, skip => 'all-frozen');
SELECT * FROM aiostream_verify(NULL);
VACUUM FREEZE a;
SELECT * FROM aiostream_verify('a', skip => 'all-visible');
SELECT * FROM aiostream_verify('a', skip => 'wrong');
-- nobody takes the table for heap afterwards, errors or not
SELECT * FROM "test verify amcheck".verify_heapam('a');
ALTER TABLE a ADD w int;
ALTER TABLE a SET (fillfactor = 90);
SELECT amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE c.oid = 'a'::regclass;
-- leaves no lock, takes no transaction id
BEGIN;
SELECT count(*) FROM aiostream_verify('a');
SELECT DISTINCT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'a'::regclass;
SELECT pg_current_xact_id_if_assigned();
COMMIT;
BEGIN READ ONLY;
SELECT count(*) FROM aiostream_verify('a');
COMMIT;

-- with a cursor over it open, and in a transaction that has changed it
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a ORDER BY id;
FETCH 1 FROM c;
INSERT INTO a VALUES (10001, 1, repeat('new', 5000));
SELECT * FROM aiostream_verify('a');
FETCH 1 FROM c;
ROLLBACK;

-- what kinds
CREATE MATERIALIZED VIEW mv USING aioheap AS SELECT id FROM a;
CREATE UNIQUE INDEX ON mv (id);
SELECT count(*) FROM aiostream_verify('mv');
CREATE TEMP TABLE temporary USING aioheap AS SELECT id FROM a;
CREATE INDEX ON temporary (id);
SELECT count(*) FROM aiostream_verify('temporary');
CREATE UNLOGGED TABLE unlogged USING aioheap AS SELECT id FROM a;
SELECT count(*) FROM aiostream_verify('unlogged');
CREATE TABLE empty (id int) USING aioheap;
SELECT count(*) FROM aiostream_verify('empty');
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000) USING aioheap;
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (9000);
INSERT INTO p SELECT id FROM a;
SELECT count(*) FROM aiostream_verify('p');
SELECT count(*) FROM aiostream_verify('pg_class');
CREATE VIEW v AS SELECT 1 AS one;
SELECT * FROM aiostream_verify('v');
SELECT * FROM aiostream_verify('h_v');
SELECT * FROM aiostream_verify(1::regclass);

-- whose, and amcheck's own privileges
CREATE TABLE owned (id int) USING aioheap;
INSERT INTO owned VALUES (1);
ALTER TABLE owned OWNER TO regress_verify_owner;
SET ROLE regress_verify_other;
SELECT * FROM aiostream_verify('owned');
SET ROLE regress_verify_owner;
SELECT * FROM aiostream_verify('owned');
RESET ROLE;
GRANT USAGE ON SCHEMA "test verify amcheck" TO regress_verify_owner;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "test verify amcheck" TO regress_verify_owner;
SET ROLE regress_verify_owner;
SELECT * FROM aiostream_verify('owned');
RESET ROLE;

-- damage in an index: it lacks rows that the table has
CREATE FUNCTION shift(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1; END $$;
CREATE TABLE damaged (id int) USING aioheap;
INSERT INTO damaged SELECT generate_series(1, 100);
CREATE INDEX damaged_shift ON damaged (shift(id));
CREATE INDEX damaged_id ON damaged (id);
SELECT count(*) FROM aiostream_verify('damaged');
CREATE OR REPLACE FUNCTION shift(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1 + 1; END $$;
SELECT relation, blkno, offnum, attnum, regexp_replace(msg, '\(\d+,\d+\)', '(N,N)') AS msg FROM aiostream_verify('damaged');
SELECT count(*) FROM aiostream_verify('damaged', heapallindexed => false);
-- an error that is not about damage is raised
CREATE OR REPLACE FUNCTION shift(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1 / 0; END $$;
\set SHOW_CONTEXT never
SELECT * FROM aiostream_verify('damaged');
\set SHOW_CONTEXT errors
-- damage in the table: transaction ids older than it may have
SET client_min_messages = warning;
SET allow_system_table_mods = on;
CREATE TABLE frozen_too_far (id int) USING aioheap;
INSERT INTO frozen_too_far SELECT generate_series(1, 3);
UPDATE pg_class SET relfrozenxid = pg_current_xact_id()::xid WHERE oid = 'frozen_too_far'::regclass;
SELECT relation, blkno, offnum, attnum, regexp_replace(msg, '\d+', 'N', 'g') AS msg FROM aiostream_verify('frozen_too_far');
RESET allow_system_table_mods;

-- clean up
DROP SCHEMA test_verify, "test verify amcheck" CASCADE;
DROP ROLE regress_verify_owner, regress_verify_other;
