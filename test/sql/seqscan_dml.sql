-- AioSeqScan below INSERT, UPDATE, DELETE, MERGE and row locks.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_seqscan_dml;
SET search_path = test_seqscan_dml, public;
SET aiostream.debug_force_nodes = on;
-- twins: h is changed on the plain path, t and a on ours
CREATE TABLE h (id int, v int, pad text) WITH (fillfactor = 80);
INSERT INTO h SELECT g, g % 10, repeat('x', 200) FROM generate_series(1, 3000) g;
CREATE TABLE t (id int, v int, pad text) WITH (fillfactor = 80);
INSERT INTO t SELECT * FROM h;
CREATE TABLE a (id int, v int, pad text) USING aioheap WITH (fillfactor = 80);
INSERT INTO a SELECT * FROM h;
ANALYZE h, t, a;
RESET client_min_messages;

CREATE FUNCTION differ() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE t) x) + (SELECT count(*) FROM (TABLE t EXCEPT ALL TABLE h) x)
		+ (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE a) x) + (SELECT count(*) FROM (TABLE a EXCEPT ALL TABLE h) x) $$;
-- runs a statement on each of the twins; @ stands for the table
CREATE FUNCTION change(statement text, OUT h bigint, OUT t bigint, OUT a bigint, OUT differing bigint) LANGUAGE plpgsql AS $$
DECLARE line text; nodes int := 0;
BEGIN
	SET LOCAL aiostream.enable = off;
	EXECUTE replace(statement, '@', 'h');
	GET DIAGNOSTICS h = ROW_COUNT;
	SET LOCAL aiostream.enable = on;
	PERFORM aiostream_evict('t'), aiostream_evict('a');
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(statement, '@', 't') LOOP
		IF line LIKE '%AioSeqScan%' THEN nodes := nodes + 1; END IF;
	END LOOP;
	IF nodes = 0 THEN RAISE 'no AioSeqScan in the plan of %', statement; END IF;
	EXECUTE replace(statement, '@', 't');
	GET DIAGNOSTICS t = ROW_COUNT;
	EXECUTE replace(statement, '@', 'a');
	GET DIAGNOSTICS a = ROW_COUNT;
	differing := differ();
END $$;

SELECT * FROM change('UPDATE @ SET v = v + 1');
SELECT * FROM change('UPDATE @ SET v = -v, pad = pad || id WHERE id % 3 = 0');
SELECT * FROM change('DELETE FROM @ WHERE id % 7 = 0');
SELECT * FROM change('INSERT INTO @ SELECT id + 10000, v, pad FROM @ WHERE v > 5');
SELECT * FROM change('UPDATE @ SET v = s.n FROM (SELECT v, count(*) AS n FROM @ GROUP BY v) s WHERE s.v = @.v');
SELECT * FROM change('DELETE FROM @ USING @ o WHERE o.id = @.id + 1 AND o.v = @.v');
SELECT * FROM change('MERGE INTO @ USING (SELECT g AS id FROM generate_series(2900, 3100) g) s ON s.id = @.id
	WHEN MATCHED AND v > 0 THEN UPDATE SET v = 1000 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, ''merged'')');
SELECT * FROM change('WITH d AS (DELETE FROM @ WHERE id < 100 RETURNING *) INSERT INTO @ SELECT id + 50000, v, pad FROM d');
-- a statement does not see its own changes
SELECT * FROM change('UPDATE @ SET id = id + 1');
SELECT * FROM change('INSERT INTO @ TABLE @');

-- RETURNING with system columns and whole rows
UPDATE t SET v = 7 WHERE id = 50002 RETURNING tableoid::regclass, id, v, t.pad = repeat('x', 200) AS pad;
DELETE FROM a WHERE id = 50002 RETURNING tableoid::regclass, (a).id;

-- triggers, with transition tables and WHEN
CREATE FUNCTION trig() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_LEVEL = 'ROW' THEN NEW.v := NEW.v + 1; RETURN NEW; END IF;
	RAISE NOTICE '% rows changed from sum % to %', (SELECT count(*) FROM new_rows), (SELECT sum(v) FROM old_rows), (SELECT sum(v) FROM new_rows);
	RETURN NULL;
END $$;
CREATE TRIGGER row_trig BEFORE UPDATE ON a FOR EACH ROW WHEN (OLD.v < 5) EXECUTE FUNCTION trig();
CREATE TRIGGER stmt_trig AFTER UPDATE ON a REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION trig();
UPDATE a SET v = id % 10 WHERE id BETWEEN 200 AND 300;
UPDATE a SET v = v WHERE id BETWEEN 200 AND 300;
DROP TRIGGER row_trig ON a;
DROP TRIGGER stmt_trig ON a;

-- row locks
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE id < 205 AND id > 200 FOR UPDATE;
SELECT DISTINCT id FROM (SELECT id FROM t WHERE id < 205 AND id > 200 FOR UPDATE) s ORDER BY id;
SELECT count(*) FROM (SELECT id FROM a WHERE v = 3 FOR NO KEY UPDATE) s;
SELECT count(*) FROM (SELECT t.id FROM t JOIN a USING (id) WHERE t.id < 400 FOR KEY SHARE OF t) s;
SELECT count(*) FROM (SELECT id FROM a FOR SHARE NOWAIT) s;
-- updated in the same transaction, after the rows were locked
BEGIN;
SELECT count(*) FROM (SELECT id FROM t WHERE id < 500 FOR UPDATE) s;
UPDATE t SET v = -5 WHERE id < 500;
SELECT count(*) FROM t WHERE v < 0;
ROLLBACK;

-- through partitions, moving rows between the access methods
CREATE TABLE parted (id int, v int, pad text) PARTITION BY LIST (v);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1) USING aioheap;
INSERT INTO parted SELECT g, g % 2, repeat('p', 100) FROM generate_series(1, 1000) g;
EXPLAIN (COSTS OFF) UPDATE parted SET v = 1 - v WHERE id % 10 < 3;
UPDATE parted SET v = 1 - v WHERE id % 10 < 3;
SELECT tableoid::regclass, count(*), sum(id) FROM parted GROUP BY 1 ORDER BY 1;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_seqscan_dml CASCADE;
