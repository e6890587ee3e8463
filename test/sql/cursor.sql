-- Cursors over an AioSeqScan: both directions, positions, turning round, WITH HOLD.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_cursor;
SET search_path = test_cursor, public;
SET aiostream.debug_force_nodes = on;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE h (id int, pad text);
-- about 15 rows a page
INSERT INTO h SELECT g, repeat('x', 500) FROM generate_series(1, 1500) g;
CREATE TABLE a (id int, pad text) USING aioheap;
INSERT INTO a SELECT * FROM h;
CREATE TABLE empty (id int);
ANALYZE h, a, empty;
RESET client_min_messages;

EXPLAIN (COSTS OFF) DECLARE c SCROLL CURSOR FOR SELECT id FROM h WHERE id % 2 = 0;

-- there and back again, cold
SELECT aiostream_evict('h') > 0 AS evicted;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM h;
FETCH 2 FROM c;
MOVE FORWARD 1000 IN c;
FETCH 1 FROM c;
FETCH BACKWARD 3 FROM c;
MOVE BACKWARD 500 IN c;
FETCH 1 FROM c;
FETCH PRIOR FROM c;
FETCH NEXT FROM c;
FETCH RELATIVE 0 FROM c;
FETCH RELATIVE 100 FROM c;
FETCH RELATIVE -100 FROM c;
-- both ends, and beyond them
MOVE ALL IN c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
FETCH FORWARD 5 FROM c;
FETCH FORWARD 5 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD ALL IN c;
FETCH PRIOR FROM c;
FETCH NEXT FROM c;
FETCH BACKWARD 5 FROM c;
FETCH FORWARD 2 FROM c;
-- absolute positions
FETCH ABSOLUTE 1500 FROM c;
FETCH ABSOLUTE 1501 FROM c;
FETCH ABSOLUTE 1 FROM c;
FETCH ABSOLUTE 0 FROM c;
FETCH ABSOLUTE -1 FROM c;
FETCH ABSOLUTE -1500 FROM c;
FETCH ABSOLUTE -1501 FROM c;
FETCH FIRST FROM c;
FETCH LAST FROM c;
FETCH ABSOLUTE 777 FROM c;
CLOSE c;
COMMIT;

-- backwards from the very end, at once
SELECT aiostream_evict('a') > 0 AS evicted;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM a;
FETCH LAST FROM c;
FETCH BACKWARD 3 FROM c;
MOVE BACKWARD ALL IN c;
FETCH NEXT FROM c;
COMMIT;
-- a fresh cursor cannot go back
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM a;
FETCH PRIOR FROM c;
FETCH BACKWARD ALL FROM c;
FETCH NEXT FROM c;
COMMIT;
-- an empty table, an empty result
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM empty;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
DECLARE d SCROLL CURSOR FOR SELECT id FROM h WHERE id < 0;
FETCH NEXT FROM d;
FETCH PRIOR FROM d;
FETCH LAST FROM d;
FETCH FIRST FROM d;
COMMIT;

-- with a qual and a projection
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT -id AS neg, ctid FROM a WHERE id % 100 = 7;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
FETCH ABSOLUTE 5 FROM c;
COMMIT;

-- NO SCROLL does not turn; neither does a plan that cannot, unless it is materialized
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM h;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM h FETCH FIRST 5 ROWS ONLY;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
DECLARE u SCROLL CURSOR FOR SELECT id FROM h UNION ALL SELECT id FROM a;
FETCH ABSOLUTE 1501 FROM u;
FETCH PRIOR FROM u;
FETCH LAST FROM u;
COMMIT;

-- a random walk equals that over a sorted copy, in PL/pgSQL; block by block and within blocks
CREATE FUNCTION walk(tab regclass, seed float8, steps int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	d refcursor;
	got int;
	want int;
	step int;
	moved int := 0;
BEGIN
	PERFORM aiostream_evict(tab);
	PERFORM setseed(seed);
	OPEN c SCROLL FOR EXECUTE format('SELECT id FROM %s', tab);
	OPEN d SCROLL FOR EXECUTE format('SELECT id FROM %s ORDER BY id', tab);
	FOR i IN 1 .. steps LOOP
		step := (CASE WHEN random() < 0.5 THEN 20 ELSE 700 END * (random() - 0.5))::int;
		FETCH RELATIVE step FROM c INTO got;
		FETCH RELATIVE step FROM d INTO want;
		IF got IS DISTINCT FROM want THEN
			RETURN format('step %s by %s: got %s instead of %s', i, step, got, want);
		END IF;
		IF got IS NOT NULL THEN moved := moved + 1; END IF;
		-- somebody else's evictions and dirt do not matter
		IF i % 50 = 0 THEN
			SET LOCAL client_min_messages = warning;
			PERFORM aiostream_evict(tab);
		END IF;
	END LOOP;
	RETURN CASE WHEN moved > steps / 4 THEN 'equal' ELSE 'off the table most of the time' END;
END $$;
SELECT walk('h', 0.1, 400), walk('a', 0.2, 400);
SET aiostream.io_combine_limit = 2;
SET aiostream.effective_io_concurrency = 1;
SELECT walk('h', 0.3, 200), walk('a', 0.4, 200);
RESET aiostream.io_combine_limit;
RESET aiostream.effective_io_concurrency;

-- a cursor does not see what comes later, whatever it turns to
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM a;
FETCH 1 FROM c;
INSERT INTO a SELECT g, 'later' FROM generate_series(2001, 3000) g;
DELETE FROM a WHERE id BETWEEN 1400 AND 1450;
UPDATE a SET pad = 'changed' WHERE id BETWEEN 1000 AND 1010;
FETCH ABSOLUTE 1420 FROM c;
FETCH ABSOLUTE 1005 FROM c;
FETCH LAST FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
MOVE BACKWARD ALL IN c;
MOVE FORWARD ALL IN c;
ROLLBACK;

-- several cursors on one table, at different places, closed in another order
BEGIN;
DECLARE c1 SCROLL CURSOR FOR SELECT id FROM h;
DECLARE c2 SCROLL CURSOR FOR SELECT id FROM h;
MOVE 700 IN c1;
FETCH LAST FROM c2;
FETCH 1 FROM c1;
FETCH PRIOR FROM c2;
CLOSE c1;
FETCH PRIOR FROM c2;
SELECT count(*) FROM h;
FETCH PRIOR FROM c2;
COMMIT;

-- a subtransaction that fails leaves the cursor usable
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM h;
SELECT aiostream_evict('h') > 0 AS evicted;
FETCH 1 FROM c;
SAVEPOINT s;
MOVE 300 IN c;
SELECT 1 / 0;
ROLLBACK TO s;
FETCH 1 FROM c;
FETCH BACKWARD 2 FROM c;
SAVEPOINT s2;
FETCH 1 FROM c;
RELEASE s2;
FETCH 1 FROM c;
COMMIT;
-- one that was opened within it goes with it
BEGIN;
SAVEPOINT s;
DECLARE c SCROLL CURSOR FOR SELECT id FROM h;
MOVE 300 IN c;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;

-- WITH HOLD: after the commit, and after the table has gone
CREATE TABLE gone AS SELECT * FROM h;
SELECT aiostream_evict('gone') > 0 AS evicted;
BEGIN;
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT id FROM gone;
FETCH 3 FROM held;
COMMIT;
DROP TABLE gone;
FETCH 2 FROM held;
FETCH LAST FROM held;
FETCH ABSOLUTE 750 FROM held;
FETCH PRIOR FROM held;
CLOSE held;

-- what an open cursor forbids in its own session
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a;
FETCH 1 FROM c;
TRUNCATE a;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a;
FETCH 1 FROM c;
ALTER TABLE a SET ACCESS METHOD heap;
ROLLBACK;

-- positioned updates and deletes through an AioSeqScan cursor
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a FOR UPDATE;
MOVE 100 IN c;
FETCH 1 FROM c;
UPDATE a SET pad = 'here' WHERE CURRENT OF c;
FETCH 1 FROM c;
DELETE FROM a WHERE CURRENT OF c;
FETCH 1 FROM c;
SELECT id, pad = 'here' AS here FROM a WHERE id BETWEEN 101 AND 103 ORDER BY id;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM h WHERE id > 50;
FETCH 2 FROM c;
UPDATE h SET pad = 'here' WHERE CURRENT OF c RETURNING id;
ROLLBACK;

-- a plan with parallel workers: cursors run it alone
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) DECLARE c SCROLL CURSOR FOR SELECT id FROM h;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM h;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
COMMIT;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_cursor CASCADE;
