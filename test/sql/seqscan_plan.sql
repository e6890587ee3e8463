-- Which scans become an AioSeqScan.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_seqscan_plan;
SET search_path = test_seqscan_plan, public;
CREATE TABLE h (id int, v int, pad text);
INSERT INTO h SELECT g, g % 10, repeat('x', 200) FROM generate_series(1, 10000) g;
CREATE TABLE a (id int, v int, pad text) USING aioheap;
INSERT INTO a SELECT * FROM h;
CREATE TABLE tiny AS SELECT * FROM h WHERE id < 100;
CREATE TABLE empty (id int);
ANALYZE h, a, tiny, empty;
SET max_parallel_workers_per_gather = 0;
RESET client_min_messages;

-- heap and aioheap alike
EXPLAIN (COSTS OFF) SELECT count(*) FROM h;
EXPLAIN (COSTS OFF) SELECT count(*) FROM a;
EXPLAIN (COSTS OFF) SELECT id + 1 FROM h WHERE v = 3;
EXPLAIN (COSTS OFF) SELECT * FROM a WHERE pad LIKE '%y%' ORDER BY id;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, upper(pad) FROM h WHERE v IN (1, 2);
EXPLAIN (VERBOSE, COSTS OFF) SELECT sum(id) FROM h;
EXPLAIN (COSTS OFF, FORMAT JSON) SELECT id FROM h;

-- where it does not pay: tiny tables, few rows wanted
EXPLAIN (COSTS OFF) SELECT count(*) FROM tiny;
EXPLAIN (COSTS OFF) SELECT count(*) FROM empty;
EXPLAIN (COSTS OFF) SELECT * FROM h LIMIT 1;
EXPLAIN (COSTS OFF) SELECT EXISTS (SELECT FROM h);
EXPLAIN (COSTS OFF) SELECT * FROM h LIMIT 9000;

-- the switches
SET aiostream.enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM h;
EXPLAIN (COSTS OFF, SETTINGS) SELECT count(*) FROM a;
RESET aiostream.enable_seqscan;
SET aiostream.enable = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM h;
EXPLAIN (COSTS OFF) SELECT count(*) FROM a;
RESET aiostream.enable;
EXPLAIN (COSTS OFF) SELECT count(*) FROM h;
-- enable_seqscan discourages both, ours stays the better of the two
CREATE INDEX h_id ON h (id);
EXPLAIN (COSTS OFF) SELECT count(*) FROM h WHERE id < 9000;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM h WHERE id < 9000;
EXPLAIN (COSTS OFF) SELECT count(*) FROM a WHERE id < 9000;
RESET enable_seqscan;
-- an index that pays wins
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE id = 17;
DROP INDEX h_id;

-- for tests: wherever it is possible
SET aiostream.debug_force_nodes = on;
EXPLAIN (COSTS OFF) SELECT count(*) FROM tiny;
EXPLAIN (COSTS OFF) SELECT count(*) FROM empty;
EXPLAIN (COSTS OFF) SELECT * FROM h LIMIT 1;
-- not possible: catalogs, temporary tables, TABLESAMPLE, functions, VALUES, foreign tables
EXPLAIN (COSTS OFF) SELECT count(*) FROM pg_description;
CREATE TEMP TABLE temporary AS SELECT * FROM h;
ANALYZE temporary;
EXPLAIN (COSTS OFF) SELECT count(*) FROM temporary;
EXPLAIN (COSTS OFF) SELECT count(*) FROM h TABLESAMPLE system (50) REPEATABLE (1);
EXPLAIN (COSTS OFF) SELECT count(*) FROM a TABLESAMPLE bernoulli (50) REPEATABLE (1);
EXPLAIN (COSTS OFF) SELECT count(*) FROM generate_series(1, 10);
EXPLAIN (COSTS OFF) SELECT * FROM (VALUES (1), (2)) v;
-- WHERE CURRENT OF, TID scans
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM tiny FOR UPDATE;
FETCH 3 FROM c;
EXPLAIN (COSTS OFF) UPDATE tiny SET v = -1 WHERE CURRENT OF c;
UPDATE tiny SET v = -1 WHERE CURRENT OF c RETURNING id, v;
DELETE FROM tiny WHERE CURRENT OF c;
ROLLBACK;
-- contradictions leave nothing to scan
SET constraint_exclusion = on;
ALTER TABLE tiny ADD CONSTRAINT small CHECK (id < 100);
EXPLAIN (COSTS OFF) SELECT * FROM tiny WHERE id > 1000;
EXPLAIN (COSTS OFF) SELECT * FROM tiny WHERE false;
RESET constraint_exclusion;
RESET aiostream.debug_force_nodes;

-- unlogged tables, materialized views
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM h;
CREATE MATERIALIZED VIEW mv AS SELECT * FROM h;
CREATE MATERIALIZED VIEW amv USING aioheap AS SELECT * FROM h;
ANALYZE unlogged, mv, amv;
EXPLAIN (COSTS OFF) SELECT count(*) FROM unlogged;
EXPLAIN (COSTS OFF) SELECT count(*) FROM mv;
EXPLAIN (COSTS OFF) SELECT count(*) FROM amv;

-- partitions, partitionwise joins, pruning
CREATE TABLE parted (id int, v int, pad text) PARTITION BY RANGE (id);
CREATE TABLE parted_heap PARTITION OF parted FOR VALUES FROM (0) TO (5000);
CREATE TABLE parted_aio PARTITION OF parted FOR VALUES FROM (5000) TO (10001) USING aioheap;
CREATE TABLE parted_tiny PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT * FROM h;
INSERT INTO parted VALUES (-1, -1, 'negative');
ANALYZE parted;
EXPLAIN (COSTS OFF) SELECT count(*) FROM parted;
EXPLAIN (COSTS OFF) SELECT * FROM parted WHERE id < 4000 AND v = 1;
EXPLAIN (COSTS OFF) SELECT * FROM parted WHERE id = 20000;
SET enable_partitionwise_aggregate = on;
EXPLAIN (COSTS OFF) SELECT id, count(*) FROM parted GROUP BY id;
RESET enable_partitionwise_aggregate;

-- inheritance
CREATE TABLE parent (id int, v int, pad text);
CREATE TABLE child (extra int) INHERITS (parent);
INSERT INTO parent SELECT * FROM h;
INSERT INTO child SELECT *, id FROM h;
ANALYZE parent, child;
EXPLAIN (COSTS OFF) SELECT count(*) FROM parent;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ONLY parent;

-- joins, subqueries, set operations
EXPLAIN (COSTS OFF) SELECT count(*) FROM h JOIN a USING (id);
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE id NOT IN (SELECT id FROM a WHERE v = 1);
EXPLAIN (COSTS OFF) SELECT v FROM h UNION ALL SELECT v FROM a;
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE v > (SELECT avg(v) FROM a);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM h JOIN tiny USING (id);
EXPLAIN (COSTS OFF) SELECT count(*) FROM tiny t, LATERAL (SELECT * FROM h WHERE h.id = t.id OFFSET 0) l;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- below data modification and row locks
EXPLAIN (COSTS OFF) UPDATE h SET v = v + 1;
EXPLAIN (COSTS OFF) DELETE FROM a WHERE v = 3;
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE v = 1 FOR UPDATE;
EXPLAIN (COSTS OFF) SELECT * FROM a WHERE v = 1 FOR SHARE SKIP LOCKED;
EXPLAIN (COSTS OFF) INSERT INTO tiny SELECT * FROM h WHERE v = 3;
EXPLAIN (COSTS OFF) MERGE INTO h USING a ON h.id = a.id WHEN MATCHED THEN DELETE;
EXPLAIN (COSTS OFF) CREATE TABLE copied AS SELECT * FROM h;

-- cached plans follow the switches at their next planning, and run in any case
SET plan_cache_mode = force_generic_plan;
PREPARE counted(int) AS SELECT count(*) FROM h WHERE v = $1;
EXPLAIN (COSTS OFF) EXECUTE counted(3);
EXECUTE counted(3);
SET aiostream.enable = off;
EXECUTE counted(3);
ALTER TABLE h SET ACCESS METHOD aioheap;
EXECUTE counted(3);
EXPLAIN (COSTS OFF) EXECUTE counted(3);
RESET aiostream.enable;
EXPLAIN (COSTS OFF) EXECUTE counted(3);
ALTER TABLE h SET ACCESS METHOD heap;
EXPLAIN (COSTS OFF) EXECUTE counted(3);
EXECUTE counted(3);
DEALLOCATE counted;

-- forced nodes: those of the kind that is chosen, where look-ahead saves nothing, too
CREATE INDEX h_v ON h (v);
SET aiostream.debug_force_nodes = on;
SET aiostream.effective_io_concurrency = 1;
SET enable_seqscan = off;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE v = 3;
SET enable_bitmapscan = off;
SET enable_indexscan = on;
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE v = 3;
RESET ALL;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_seqscan_plan CASCADE;
