-- Snapshots, isolation levels, subtransactions, two-phase commit.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_transaction;
SET search_path = test_transaction, public;
SET aiostream.debug_force_nodes = on;
CREATE TABLE h (id int, v int);
INSERT INTO h SELECT g, 0 FROM generate_series(1, 5000) g;
CREATE TABLE a (id int, v int) USING aioheap;
INSERT INTO a SELECT * FROM h;
ANALYZE h, a;
RESET client_min_messages;

-- own changes, command by command
BEGIN;
INSERT INTO h VALUES (5001, 1);
SELECT count(*), sum(v) FROM h;
UPDATE h SET v = 2 WHERE id > 4990;
SELECT count(*), sum(v) FROM h;
SAVEPOINT s;
DELETE FROM h WHERE id > 4000;
SELECT count(*), sum(v) FROM h;
ROLLBACK TO s;
SELECT count(*), sum(v) FROM h;
ROLLBACK;
SELECT count(*), sum(v) FROM h;

-- every level answers
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
SELECT count(*) FROM h;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM h;
UPDATE a SET v = v + 1 WHERE id <= 10;
SELECT sum(v) FROM a;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*), sum(v) FROM a;
COMMIT;
-- SERIALIZABLE takes the predicate lock that a SeqScan takes: the relation
SELECT aiostream_evict('h') > 0 AS evicted;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM h;
SELECT count(*) FROM a;
SELECT locktype, relation::regclass, page, tuple, mode FROM pg_locks
WHERE mode = 'SIReadLock' AND pid = pg_backend_pid() ORDER BY relation::regclass::text;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL aiostream.enable = off;
SELECT count(*) FROM h;
SELECT count(*) FROM a;
SELECT locktype, relation::regclass, page, tuple, mode FROM pg_locks
WHERE mode = 'SIReadLock' AND pid = pg_backend_pid() ORDER BY relation::regclass::text;
COMMIT;

-- functions: volatile ones see each change, stable ones the query's snapshot
CREATE FUNCTION count_volatile() RETURNS bigint LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN (SELECT count(*) FROM h WHERE v = 9); END';
CREATE FUNCTION count_stable() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM h WHERE v = 9); END';
CREATE FUNCTION mark(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE h SET v = 9 WHERE id = $1; RETURN $1; END';
SELECT mark(id), count_volatile(), count_stable() FROM generate_series(1, 3) id;

-- DO with commits in a loop over a scan: the portal is held
CREATE PROCEDURE delete_odd() LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN SELECT id FROM a WHERE id <= 500 LOOP
		IF r.id % 2 = 1 THEN DELETE FROM a WHERE id = r.id; END IF;
		IF r.id % 100 = 0 THEN COMMIT; END IF;
	END LOOP;
END $$;
CALL delete_odd();
SELECT count(*), min(id), sum(id) FROM a;

-- two-phase commit after reads in flight
SELECT aiostream_evict('a') > 0 AS evicted;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM a;
FETCH 1 FROM c;
UPDATE a SET v = 77 WHERE id = 4000;
PREPARE TRANSACTION 'aiostream';
SELECT sum(v) FROM a WHERE id = 4000;
COMMIT PREPARED 'aiostream';
SELECT sum(v) FROM a WHERE id = 4000;

-- rows of subtransactions, aborted and not; many command ids
CREATE TABLE subs (id int) USING aioheap;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			INSERT INTO subs VALUES (i);
			IF i % 3 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
	ASSERT (SELECT count(*) FROM subs) = 200;
END $$;
SELECT count(*), sum(id) FROM subs;

-- frozen rows
VACUUM FREEZE a;
SELECT count(*), sum(v) FROM a;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_transaction CASCADE;
