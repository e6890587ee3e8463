-- Hot index scans mark dead entries as core's do, so that an index that is updated and scanned all the
-- time stays as small.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_indexscan_dead;
SET search_path = test_indexscan_dead, public;
SET max_parallel_workers_per_gather = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET aiostream.enable_bitmapscan = off;
CREATE TABLE core (id int, k int, pad text) WITH (autovacuum_enabled = off, fillfactor = 60);
CREATE TABLE ours (LIKE core) WITH (autovacuum_enabled = off, fillfactor = 60);
CREATE TABLE blind (LIKE core) WITH (autovacuum_enabled = off, fillfactor = 60);
INSERT INTO core SELECT g, g * 100, repeat('x', 100) FROM generate_series(1, 8000) g;
INSERT INTO ours SELECT * FROM core;
INSERT INTO blind SELECT * FROM core;
CREATE INDEX core_k ON core (k);
CREATE INDEX ours_k ON ours (k);
CREATE INDEX blind_k ON blind (k);
VACUUM ANALYZE core, ours, blind;

-- Each round moves every row's entry by a little and then comes by all of them.  All is in
-- shared buffers.
CREATE PROCEDURE rounds(rel regclass, n int) LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN
	FOR i IN 1 .. n LOOP
		EXECUTE format('UPDATE %s SET k = k + 1', rel);
		COMMIT;
		FOR part IN 0 .. 7 LOOP
			EXECUTE format('SELECT count(pad) FROM %s WHERE k BETWEEN %s AND %s', rel, part * 100000, part * 100000 + 99999) INTO found;
			IF found < 900 THEN
				RAISE 'only % rows', found;
			END IF;
			COMMIT;
		END LOOP;
		-- the dead rows' places in the table, but not their entries
		EXECUTE format('SELECT count(*) FROM %s', rel);
		COMMIT;
	END LOOP;
END $$;
RESET client_min_messages;

EXPLAIN (COSTS OFF) SELECT count(pad) FROM ours WHERE k BETWEEN 100000 AND 199999;
CALL rounds('ours', 12);
SET aiostream.enable = off;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM core WHERE k BETWEEN 100000 AND 199999;
CALL rounds('core', 12);
RESET aiostream.enable;
-- the same with look-ahead for ever, which cannot mark: what is at stake
SET aiostream.debug_force_nodes = on;
CALL rounds('blind', 12);
RESET aiostream.debug_force_nodes;
SELECT pg_relation_size('ours_k') <= pg_relation_size('core_k') * 1.05 AS as_small,
	pg_relation_size('blind_k') > pg_relation_size('core_k') * 1.05 AS else_it_would_grow;
SET client_min_messages = warning;
DROP SCHEMA test_indexscan_dead CASCADE;
