-- Conditions in EXPLAIN: our nodes print them as core's do.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_explain_conditions;
SET search_path = test_explain_conditions, public;
CREATE TABLE a (id int PRIMARY KEY, v int);
CREATE TABLE b (id int PRIMARY KEY, v int);
CREATE INDEX b_v ON b (v);
INSERT INTO a SELECT g, g FROM generate_series(1, 1000) g;
INSERT INTO b SELECT g, g % 100 FROM generate_series(1, 1000) g;
VACUUM ANALYZE a, b;
SET aiostream.debug_force_nodes = replace;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_seqscan = off;
RESET client_min_messages;

-- the outer side's columns, where that side is one of our nodes, too
EXPLAIN (COSTS OFF) SELECT * FROM a JOIN b ON b.id = a.v WHERE a.id = 3;
EXPLAIN (COSTS OFF) SELECT b.id FROM a JOIN b ON b.id = a.v WHERE a.id < 3;
EXPLAIN (COSTS OFF) SELECT * FROM a JOIN (SELECT * FROM b UNION ALL SELECT * FROM a) u ON u.id = a.v WHERE a.id = 3;
-- table names only where core has them
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM a JOIN b ON b.v = a.v WHERE a.id = 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM a JOIN b ON b.v = a.v WHERE a.id = 3;
RESET enable_indexscan;
-- subplans in a condition that the index answers are listed, and rescanned
SET enable_bitmapscan = off;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT * FROM a JOIN b ON b.v = (SELECT c.v % 100 FROM a c WHERE c.id = a.v) WHERE a.id < 4;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT b.v FROM a JOIN b ON b.v = (SELECT c.v % 100 FROM a c WHERE c.id = a.v) WHERE a.id < 4;
SELECT a.id, count(*), sum(b.id) FROM a JOIN b ON b.v = (SELECT c.v % 100 FROM a c WHERE c.id = a.v) WHERE a.id < 4 GROUP BY 1 ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT * FROM b WHERE id = 7 + (SELECT 1 FROM a WHERE a.id = 5) AND (SELECT a.v FROM a WHERE a.id = b.v) IS NOT NULL;

SET client_min_messages = warning;
DROP SCHEMA test_explain_conditions CASCADE;
