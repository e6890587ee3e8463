-- AioIndexScan and AioIndexOnlyScan: which plans become one, and that they return what
-- core's nodes return, in the same order, cold and hot.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_indexscan;
SET search_path = test_indexscan, public;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE t (id int, near int, rnd int, maybe int, word text, nm name, p point, r int4range, pad text)
	WITH (fillfactor = 80, autovacuum_enabled = off);
-- "near" follows the table within some pages, "rnd" not at all, "maybe" has NULLs and duplicates
INSERT INTO t SELECT g, g + (g * 7919) % 1000, (g::bigint * 48271) % 20011, nullif(g % 50, 7),
		'w' || g % 700, 'n' || g % 300, point(g % 211, g % 307), int4range(g % 3000, g % 3000 + 5), repeat('x', 150)
	FROM generate_series(1, 20000) g;
CREATE INDEX t_id ON t (id);
CREATE INDEX t_near ON t (near);
CREATE INDEX t_near_desc ON t (near DESC NULLS LAST, id);
CREATE INDEX t_rnd ON t (rnd);
CREATE INDEX t_maybe ON t (maybe);
CREATE INDEX t_word ON t (word) INCLUDE (id);
CREATE INDEX t_nm ON t (nm);
CREATE INDEX t_hash ON t USING hash (word);
CREATE INDEX t_gist_p ON t USING gist (p);
CREATE INDEX t_spgist_r ON t USING spgist (r);
CREATE INDEX t_part ON t (rnd) WHERE maybe IS NULL;
VACUUM ANALYZE t;
-- dead rows, updated ones with and without new index entries, pages not all-visible
DELETE FROM t WHERE id % 13 = 0;
UPDATE t SET pad = 'hot' WHERE id % 17 = 0;
UPDATE t SET near = near + 1 WHERE id % 19 = 0;
CREATE TABLE o (x int, y int);
INSERT INTO o SELECT g * 37 % 20000, g FROM generate_series(1, 300) g;
ANALYZE o;
CREATE TABLE a (LIKE t) USING aioheap;
INSERT INTO a SELECT * FROM t;
CREATE INDEX a_rnd ON a (rnd);
ANALYZE a;

-- the rows, in order, as a digest
CREATE FUNCTION digest(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '';'')), '''') FROM (%s) q', query) INTO result;
	RETURN result;
END $$;
-- the query's scan nodes
CREATE FUNCTION scans(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Scan .*on' THEN
			result := result || ' ' || coalesce(substring(line, '\((Aio\w+)\)'), substring(line, '(?:-> *)?(.*) on '));
		ELSIF line ~ 'Scan Direction' THEN
			result := result || '-Backward';
		END IF;
	END LOOP;
	RETURN ltrim(result);
END $$;
-- core's rows; then ours with look-ahead from the start, cold, and again, hot
CREATE FUNCTION compare(query text, OUT same boolean, OUT rows text, OUT ours text) LANGUAGE plpgsql AS $$
DECLARE core text; cold text; hot text;
BEGIN
	PERFORM set_config('aiostream.enable', 'off', true);
	core := digest(query);
	PERFORM set_config('aiostream.enable', 'on', true);
	PERFORM set_config('aiostream.debug_force_nodes', 'on', true);
	PERFORM aiostream_evict('t');
	cold := digest(query);
	hot := digest(query);
	ours := scans(query);
	PERFORM set_config('aiostream.debug_force_nodes', 'off', true);
	same := core = cold AND core = hot;
	rows := split_part(core, ' ', 1);
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET aiostream.enable_bitmapscan = off;
RESET client_min_messages;

-- plans
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE near > 100 ORDER BY near DESC;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE rnd BETWEEN 100 AND 9000 AND id % 2 = 0 ORDER BY rnd;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, word FROM t WHERE word > 'w3' ORDER BY word;
EXPLAIN (COSTS OFF) SELECT * FROM a ORDER BY rnd;
EXPLAIN (COSTS OFF, FORMAT JSON) SELECT * FROM t WHERE near > 100 ORDER BY near DESC;
-- few rows: core's plan
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY rnd LIMIT 1;
EXPLAIN (COSTS OFF) SELECT max(rnd) FROM t;
-- all visible: nothing to look ahead to
VACUUM a;
EXPLAIN (COSTS OFF) SELECT rnd FROM a ORDER BY rnd;
-- ordered by an operator, catalogs, temporary tables: core's plan, even if forced
SET aiostream.debug_force_nodes = on;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY p <-> point(1, 1) LIMIT 100;
EXPLAIN (COSTS OFF) SELECT * FROM pg_class WHERE oid = 1259;
CREATE TEMP TABLE temporary AS SELECT id FROM t;
CREATE INDEX ON temporary (id);
EXPLAIN (COSTS OFF) SELECT * FROM temporary WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 5;
RESET aiostream.debug_force_nodes;
-- the switches
SET aiostream.enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE near > 100 ORDER BY near DESC;
EXPLAIN (COSTS OFF) SELECT id, word FROM t ORDER BY word;
RESET aiostream.enable_indexscan;
SET aiostream.enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT id, word FROM t ORDER BY word;
RESET aiostream.enable_indexonlyscan;

-- directions, NULLs, duplicates
SELECT * FROM compare('SELECT * FROM t WHERE near > 500 ORDER BY near');
SELECT * FROM compare('SELECT * FROM t WHERE near > 500 ORDER BY near DESC');
SELECT * FROM compare('SELECT * FROM t ORDER BY near DESC NULLS LAST, id');
SELECT * FROM compare('SELECT * FROM t ORDER BY near NULLS FIRST, id DESC');
SELECT * FROM compare('SELECT id, maybe FROM t ORDER BY maybe');
SELECT * FROM compare('SELECT id, maybe FROM t ORDER BY maybe DESC');
SELECT * FROM compare('SELECT id, maybe FROM t WHERE maybe IS NULL');
SELECT * FROM compare('SELECT id, pad FROM t WHERE maybe IS NOT NULL ORDER BY maybe');
SELECT * FROM compare('SELECT * FROM t ORDER BY rnd');
SELECT * FROM compare('SELECT ctid, xmin, tableoid, t FROM t ORDER BY rnd DESC');
-- array keys, conditions that the index does not answer
SELECT * FROM compare('SELECT * FROM t WHERE maybe IN (3, 1, 49, 20)');
SELECT * FROM compare('SELECT * FROM t WHERE maybe = ANY (''{3,1,49,20}'') AND maybe > 1');
SELECT * FROM compare('SELECT * FROM t WHERE rnd > 15000 AND id % 3 = 0 ORDER BY rnd');
SELECT * FROM compare('SELECT * FROM t WHERE rnd > 15000 AND 1 = (SELECT 1) ORDER BY rnd');
SELECT * FROM compare('SELECT * FROM t WHERE rnd > (SELECT max(x) - 3000 FROM o) ORDER BY rnd');
SELECT * FROM compare('SELECT * FROM t WHERE rnd > 18000 AND EXISTS (SELECT FROM o WHERE y = maybe) ORDER BY rnd');
SELECT * FROM compare('SELECT * FROM t WHERE maybe IS NULL AND rnd < 9000 ORDER BY rnd');
SELECT * FROM compare('SELECT FROM t WHERE rnd < 9000');
-- LIMIT
SELECT * FROM compare('SELECT * FROM t ORDER BY rnd LIMIT 10');
SELECT * FROM compare('SELECT * FROM t ORDER BY near DESC LIMIT 3000 OFFSET 100');
-- index-only
SELECT * FROM compare('SELECT word, id FROM t WHERE word > ''w3'' ORDER BY word');
SELECT * FROM compare('SELECT word FROM t WHERE word > ''w3'' ORDER BY word DESC');
SELECT * FROM compare('SELECT nm FROM t WHERE nm > ''n2'' ORDER BY nm');
SELECT * FROM compare('SELECT rnd FROM t ORDER BY rnd');
SELECT * FROM compare('SELECT rnd FROM t WHERE maybe IS NULL ORDER BY rnd DESC');
SELECT * FROM compare('SELECT count(*) FROM t WHERE rnd > 1000');
SELECT * FROM compare('SELECT p FROM t WHERE p <@ box ''(10,10),(100,100)''');
SELECT * FROM compare('SELECT p FROM t WHERE p <@ circle ''((50,50),40)''');
SELECT * FROM compare('SELECT r FROM t WHERE r && int4range(100, 900)');
-- other access methods
SELECT * FROM compare('SELECT * FROM t WHERE p <@ box ''(10,10),(100,100)''');
SELECT * FROM compare('SELECT * FROM t WHERE p <@ circle ''((50,50),40)''');
SELECT * FROM compare('SELECT * FROM t WHERE r && int4range(100, 900)');
BEGIN;
DROP INDEX t_word;
SELECT * FROM compare('SELECT * FROM t WHERE word = ''w33''');
SELECT * FROM compare('SELECT o.y, t.id FROM o LEFT JOIN t ON t.word = ''w'' || o.x ORDER BY 1, 2');
ROLLBACK;
-- inner sides of joins, subqueries: parameters and rescans
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT * FROM compare('SELECT o.y, t.* FROM o JOIN t ON t.near = o.x');
SELECT * FROM compare('SELECT o.y, t.* FROM o LEFT JOIN t ON t.rnd BETWEEN o.x AND o.x + 30');
SELECT * FROM compare('SELECT o.y, t.word FROM o JOIN t ON t.word = ''w'' || o.x');
SELECT * FROM compare('SELECT y, (SELECT sum(id) FROM t WHERE t.rnd < o.x / 10) FROM o WHERE y < 30');
SELECT * FROM compare('SELECT y, (SELECT max(rnd) FROM t WHERE t.rnd < o.x) FROM o');
SELECT * FROM compare('SELECT * FROM o WHERE EXISTS (SELECT FROM t WHERE t.rnd = o.x AND t.maybe > 20)');
SELECT * FROM compare('SELECT * FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.rnd = o.x AND t.maybe > 20)');
SELECT * FROM compare('SELECT * FROM o, LATERAL (SELECT * FROM t WHERE t.near > o.x ORDER BY near LIMIT 3) s');
RESET enable_hashjoin;
SET enable_nestloop = off;
SET enable_hashjoin = off;
SET enable_mergejoin = on;
-- the inner side goes back to a mark
SELECT * FROM compare('SELECT t1.id, t2.id FROM t t1 JOIN t t2 ON t1.near = t2.near WHERE t1.near < 3000');
RESET enable_nestloop;
RESET enable_hashjoin;
RESET enable_mergejoin;
-- look-ahead gives up when its queue gets too long
SET work_mem = '64kB';
SELECT * FROM compare('SELECT * FROM t ORDER BY rnd');
SELECT * FROM compare('SELECT word, id FROM t ORDER BY word DESC');
RESET work_mem;

-- partly all-visible, then wholly
VACUUM t;
SELECT * FROM compare('SELECT rnd FROM t ORDER BY rnd');
UPDATE t SET pad = 'again' WHERE id BETWEEN 500 AND 900;
SELECT * FROM compare('SELECT rnd FROM t ORDER BY rnd');
SELECT * FROM compare('SELECT word, id FROM t ORDER BY word DESC');

-- it did look ahead, and combined blocks: random and descending order
CREATE FUNCTION io(query text, OUT looked_ahead boolean, OUT combined boolean, OUT bypassed_core boolean) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	PERFORM aiostream_evict('t');
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
	plan := plan->0->'Plan';
	looked_ahead := (plan->>'Max Prefetch Distance')::int > 2;
	combined := (plan->>'Average I/O Size')::float > 2;
	bypassed_core := (plan->>'Core Reads')::int * 10 < (plan->>'Shared Read Blocks')::int;
END $$;
SELECT * FROM io('SELECT * FROM t ORDER BY near');
SELECT * FROM io('SELECT * FROM t ORDER BY near DESC');
SELECT looked_ahead, bypassed_core FROM io('SELECT * FROM t ORDER BY rnd');

-- UPDATE, DELETE, row locks, CURRENT OF
SET aiostream.debug_force_nodes = on;
SELECT aiostream_evict('t') > 0 AS evicted;
BEGIN;
EXPLAIN (COSTS OFF) UPDATE t SET rnd = rnd + 1 WHERE rnd > 10000;
UPDATE t SET rnd = rnd + 1 WHERE rnd > 10000;
SELECT count(*), sum(rnd) FROM t WHERE rnd > 10000;
DELETE FROM t WHERE near < 5000;
SELECT count(*), min(near) FROM t WHERE near > 0;
SELECT count(*) FROM (SELECT * FROM t WHERE maybe < 20 ORDER BY maybe DESC FOR UPDATE) s;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id, rnd FROM t WHERE rnd > 100 ORDER BY rnd;
MOVE 300 IN c;
FETCH 1 FROM c;
UPDATE t SET pad = 'current' WHERE CURRENT OF c RETURNING id, rnd;
CLOSE c;
DECLARE c CURSOR FOR SELECT rnd FROM t WHERE rnd > 100 ORDER BY rnd;
MOVE 300 IN c;
FETCH 1 FROM c;
DELETE FROM t WHERE CURRENT OF c RETURNING id, rnd;
ROLLBACK;

-- cursors that turn round, within duplicates too
CREATE FUNCTION walk(query text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'walker'; row record; steps int; forward boolean; path text := ''; visited int := 0;
BEGIN
	PERFORM aiostream_evict('t');
	EXECUTE format('DECLARE walker %s CURSOR FOR %s', options, query);
	FOR i IN 1..40 LOOP
		forward := i % 3 <> 0;
		steps := CASE WHEN i % 11 = 0 THEN 2500 ELSE 1 + i * 7919 % 61 END;
		FOR j IN 1..steps LOOP
			IF forward THEN FETCH FORWARD FROM c INTO row; ELSE FETCH BACKWARD FROM c INTO row; END IF;
			EXIT WHEN NOT FOUND;
			path := md5(path || row::text);
			visited := visited + 1;
		END LOOP;
	END LOOP;
	CLOSE c;
	RETURN visited || ' ' || path;
END $$;
SET client_min_messages = warning;
CREATE FUNCTION compare_walks(query text, OUT same boolean, OUT scroll_same boolean) LANGUAGE plpgsql AS $$
DECLARE core text;
BEGIN
	PERFORM set_config('aiostream.enable', 'off', true);
	core := walk(query, '');
	PERFORM set_config('aiostream.enable', 'on', true);
	same := core = walk(query, '');
	scroll_same := core = walk(query, 'SCROLL');
END $$;
SELECT * FROM compare_walks('SELECT id, near FROM t ORDER BY near');
SELECT * FROM compare_walks('SELECT id, maybe FROM t ORDER BY maybe');
SELECT * FROM compare_walks('SELECT id, maybe FROM t WHERE maybe > 10 ORDER BY maybe DESC');
SELECT * FROM compare_walks('SELECT word, id FROM t WHERE word > ''w5'' ORDER BY word DESC');
RESET client_min_messages;

-- rows deleted by others while the scan has read ahead are still those of its snapshot
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE rnd BETWEEN 1000 AND 4000 ORDER BY rnd;
FETCH 3 FROM c;
DELETE FROM t WHERE rnd BETWEEN 1000 AND 4000;
INSERT INTO t (id, rnd) SELECT -g, 1000 + g FROM generate_series(1, 3000) g;
MOVE ALL IN c;
FETCH BACKWARD 2 FROM c;
ROLLBACK;

-- a cursor that turns round on the last row, of which it does not know yet that it is the last
CREATE FUNCTION at_the_end(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'walker'; n bigint; row record; seen text := '';
BEGIN
	EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO n;
	PERFORM aiostream_evict('t');
	FOR try IN 1..4 LOOP
		EXECUTE 'DECLARE walker SCROLL CURSOR FOR ' || query;
		EXECUTE format('MOVE FORWARD %s FROM walker', n);
		CASE try
			WHEN 1 THEN FETCH PRIOR FROM c INTO row;
			WHEN 2 THEN FETCH RELATIVE 0 FROM c INTO row;
			WHEN 3 THEN FETCH RELATIVE -3 FROM c INTO row;
			WHEN 4 THEN MOVE NEXT FROM c; FETCH PRIOR FROM c INTO row;
		END CASE;
		seen := seen || row::text || ' ';
		FETCH NEXT FROM c INTO row;
		seen := seen || coalesce(row::text, 'none') || ' ';
		CLOSE c;
	END LOOP;
	RETURN n || ': ' || seen;
END $$;
SET aiostream.debug_force_nodes = on;
CREATE TEMP TABLE ends AS SELECT query, at_the_end(query) AS ours FROM (VALUES
	('SELECT rnd, id FROM t WHERE rnd BETWEEN 1000 AND 4000 ORDER BY rnd'),
	('SELECT rnd, id FROM t WHERE rnd BETWEEN 1000 AND 4000 ORDER BY rnd DESC'),
	('SELECT rnd FROM t WHERE rnd BETWEEN 1000 AND 4000 ORDER BY rnd'),
	('SELECT rnd, id FROM t WHERE rnd IN (1000, 2000, 3000) ORDER BY rnd')) q(query);
SET aiostream.debug_force_nodes = off;
SET aiostream.enable = off;
SELECT query, ours, ours = at_the_end(query) AS "as core" FROM ends;
RESET aiostream.enable;
DROP TABLE ends;

-- dead entries are marked as with core's scans when all is cached: the index
-- of a table that is updated and scanned in turn grows no more
RESET aiostream.debug_force_nodes;
CREATE TABLE churn_core (id int, v int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO churn_core SELECT g, 0, repeat('x', 200) FROM generate_series(1, 2000) g;
CREATE TABLE churn_ours (LIKE churn_core) WITH (autovacuum_enabled = off);
INSERT INTO churn_ours SELECT * FROM churn_core;
CREATE INDEX churn_core_v ON churn_core (v);
CREATE INDEX churn_ours_v ON churn_ours (v);
ANALYZE churn_core, churn_ours;
EXPLAIN (COSTS OFF) SELECT count(pad) FROM churn_ours WHERE v > -1000000;
\set ECHO none
\o /dev/null
SELECT format('UPDATE churn_ours SET v = (id * %s) %% 5000', i), 'SELECT count(pad) FROM churn_ours WHERE v > -1000000'
	FROM generate_series(1, 9) i \gexec
SET aiostream.enable = off;
SELECT format('UPDATE churn_core SET v = (id * %s) %% 5000', i), 'SELECT count(pad) FROM churn_core WHERE v > -1000000'
	FROM generate_series(1, 9) i \gexec
RESET aiostream.enable;
\o
\set ECHO all
SELECT pg_relation_size('churn_ours_v') <= pg_relation_size('churn_core_v') * 1.05 AS grown_no_more;

SET client_min_messages = warning;
DROP SCHEMA test_indexscan CASCADE;
