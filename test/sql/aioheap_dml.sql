-- aioheap: reading and changing rows, compared with heap.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_aioheap_dml;
SET search_path = test_aioheap_dml, public;
CREATE TABLE h (id int PRIMARY KEY, v int, t text) WITH (fillfactor = 80);
CREATE TABLE a (LIKE h INCLUDING ALL) USING aioheap WITH (fillfactor = 80);
-- runs a statement on both; @ stands for the table. Says how many rows it had, and whether the tables are equal.
CREATE FUNCTION change(statement text, OUT h bigint, OUT a bigint, OUT differing bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'h');
	GET DIAGNOSTICS h = ROW_COUNT;
	EXECUTE replace(statement, '@', 'a');
	GET DIAGNOSTICS a = ROW_COUNT;
	differing := (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE a) x) + (SELECT count(*) FROM (TABLE a EXCEPT ALL TABLE h) x);
END $$;
RESET client_min_messages;

SELECT * FROM change('INSERT INTO @ SELECT g, g % 10, repeat(''t'', g % 300) FROM generate_series(1, 5000) g');
SELECT * FROM change('UPDATE @ SET v = v + 1 WHERE id % 2 = 0');
SELECT * FROM change('UPDATE @ SET id = id + 10000 WHERE v = 3');
SELECT * FROM change('DELETE FROM @ WHERE v = 5');
SELECT * FROM change('INSERT INTO @ SELECT g, 99, ''upsert'' FROM generate_series(1, 100) g ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v, t = @.t || EXCLUDED.t');
SELECT * FROM change('INSERT INTO @ SELECT g, 99, ''ignored'' FROM generate_series(50, 150) g ON CONFLICT DO NOTHING');
SELECT * FROM change('MERGE INTO @ USING generate_series(4990, 5010) g ON id = g WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (g, 0, ''merged'')');
-- the same physical layout, so that ctid and system columns agree
SELECT count(*) FROM h FULL JOIN a ON h.ctid = a.ctid WHERE h.id IS DISTINCT FROM a.id;

-- every way to read: sequential, index, index only, bitmap, TID, TID range, sample
CREATE INDEX ON h (v); CREATE INDEX ON a (v);
VACUUM ANALYZE h, a;
CREATE FUNCTION reads(query text, OUT node text, OUT same boolean, OUT rows bigint) LANGUAGE plpgsql
SET max_parallel_workers_per_gather = 0 SET aiostream.enable_seqscan = off AS $$
DECLARE
	digest text := format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(s::text, 0)::numeric), 0) FROM (%s) s', query);
	plan json; heap text; aio text;
BEGIN
	PERFORM aiostream_evict('h'), aiostream_evict('a');
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || replace(query, '@', 'a') INTO plan;
	node := plan->0->'Plan'->>'Node Type';
	EXECUTE replace(digest, '@', 'h') INTO heap;
	EXECUTE replace(digest, '@', 'a') INTO aio;
	same := heap = aio;
	rows := split_part(heap, ' ', 1);
END $$;
SELECT * FROM reads('SELECT * FROM @');
SELECT * FROM reads('SELECT ctid, * FROM @ WHERE v < 8');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM reads('SELECT * FROM @ WHERE v = 7');
SELECT * FROM reads('SELECT * FROM @ WHERE id BETWEEN 100 AND 1000');
SELECT * FROM reads('SELECT id FROM @ WHERE id > 2000');
RESET enable_bitmapscan;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT * FROM reads('SELECT * FROM @ WHERE v = 7');
SELECT * FROM reads('SELECT * FROM @ WHERE v = 7 AND id < 4000');
SET work_mem = '64kB';
SELECT * FROM reads('SELECT * FROM @ WHERE v <> 3');
RESET work_mem;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_seqscan;
SELECT * FROM reads('SELECT * FROM @ WHERE ctid = ANY (ARRAY(SELECT ctid FROM @ WHERE id BETWEEN 500 AND 600))');
SELECT * FROM reads('SELECT * FROM @ WHERE ctid >= ''(10,0)'' AND ctid < ''(20,5)''');
SELECT * FROM reads('SELECT * FROM @ WHERE ctid > ''(100000,1)''');
SELECT * FROM reads('SELECT * FROM @ TABLESAMPLE system (30) REPEATABLE (5)');
SELECT * FROM reads('SELECT * FROM @ TABLESAMPLE bernoulli (30) REPEATABLE (5)');
-- a cursor backwards over a TID range and over the table, without the node
BEGIN;
SET LOCAL aiostream.enable_seqscan = off;
DECLARE c SCROLL CURSOR FOR SELECT id FROM a WHERE ctid >= '(3,1)' AND ctid < '(30,1)';
MOVE ALL IN c;
FETCH PRIOR FROM c;
MOVE BACKWARD ALL IN c;
FETCH NEXT FROM c;
DECLARE d SCROLL CURSOR FOR SELECT id, v FROM a;
EXPLAIN (COSTS OFF) SELECT id, v FROM a;
FETCH LAST FROM d;
FETCH PRIOR FROM d;
FETCH FIRST FROM d;
FETCH ABSOLUTE 2500 FROM d;
COMMIT;
-- the same with look-ahead switched off altogether
SET aiostream.enable = off;
SELECT * FROM reads('SELECT * FROM @');
SELECT * FROM reads('SELECT ctid, * FROM @ WHERE v < 8');
RESET aiostream.enable;

-- COPY, both ways
\getenv builddir PG_ABS_BUILDDIR
\set file :builddir '/results/aioheap_dml.copy'
COPY a TO :'file';
CREATE TABLE copied (LIKE a) USING aioheap;
COPY copied FROM :'file';
COPY copied FROM :'file' WHERE v = 7;
SELECT count(*), count(*) - count(DISTINCT id) AS twice FROM copied;
TRUNCATE copied;
BEGIN;
TRUNCATE copied;
COPY copied FROM :'file' (FREEZE);
COMMIT;
SELECT count(*) FROM ((TABLE a EXCEPT TABLE copied) UNION ALL (TABLE copied EXCEPT TABLE a)) x;
COPY (SELECT id, v, length(t) FROM a ORDER BY id LIMIT 3) TO STDOUT;
COPY copied FROM STDIN (FORMAT csv);
1,1,one
x,2,two
\.
SELECT aiostream_evict('copied') > 0 AS evicted;
COPY copied (id) TO :'file' WITH (FORMAT binary);

-- triggers and foreign keys in both directions
CREATE TABLE parent (id int PRIMARY KEY) USING aioheap;
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, self int) USING aioheap;
INSERT INTO parent SELECT generate_series(1, 1000);
INSERT INTO child SELECT g % 1000 + 1, g FROM generate_series(1, 5000) g;
INSERT INTO child VALUES (2000);
DELETE FROM parent WHERE id <= 100;
UPDATE parent SET id = id + 5000 WHERE id > 900;
SELECT count(*), min(id), max(id) FROM child;
ALTER TABLE child DROP CONSTRAINT child_id_fkey;
SELECT aiostream_evict('parent') > 0 AS p, aiostream_evict('child') > 0 AS c;
ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES parent NOT VALID;
INSERT INTO parent VALUES (-1);
ALTER TABLE child VALIDATE CONSTRAINT child_id_fkey;
ALTER TABLE child DROP CONSTRAINT child_id_fkey;
INSERT INTO child VALUES (777777);
ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES parent;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '% % %', TG_WHEN, TG_OP, coalesce(NEW.id, OLD.id); RETURN coalesce(NEW, OLD); END $$;
CREATE TRIGGER before_note BEFORE INSERT OR UPDATE OR DELETE ON parent FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER after_note AFTER INSERT OR UPDATE OR DELETE ON parent DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
INSERT INTO parent VALUES (-2);
UPDATE parent SET id = -3 WHERE id = -2;
DELETE FROM parent WHERE id = -3;
COMMIT;

-- speculative insertion, row locks, HOT updates counted
SELECT id FROM a WHERE id = 200 FOR UPDATE;
BEGIN;
SELECT pg_stat_get_xact_tuples_hot_updated('a'::regclass) AS before_hot \gset
UPDATE a SET t = 'hot' WHERE id = 200;
SELECT pg_stat_get_xact_tuples_hot_updated('a'::regclass) - :before_hot AS hot;
COMMIT;
-- logical decoding's replica identity and publications take it as a table
ALTER TABLE a REPLICA IDENTITY FULL;
SET client_min_messages = error;
CREATE PUBLICATION regress_aiostream FOR TABLE a;
SELECT tablename FROM pg_publication_tables WHERE pubname = 'regress_aiostream';
DROP PUBLICATION regress_aiostream;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_aioheap_dml CASCADE;
