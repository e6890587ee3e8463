-- Indexes on aioheap tables: every kind of build, compared with heap's.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_aioheap_index;
SET search_path = test_aioheap_index, public;
-- twins with dead rows, HOT chains and NULLs; larger than the shortest look-ahead
CREATE TABLE h (id int, v int, n int, doc text) WITH (fillfactor = 80);
INSERT INTO h SELECT g, g % 100, CASE WHEN g % 5 > 0 THEN g END, 'Doc ' || repeat(g::text, 30) FROM generate_series(1, 10000) g;
CREATE TABLE a (LIKE h) USING aioheap WITH (fillfactor = 80);
INSERT INTO a SELECT * FROM h;
CREATE FUNCTION change_both() RETURNS void LANGUAGE plpgsql AS $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['h', 'a'] LOOP
		EXECUTE format('UPDATE %s SET doc = doc || ''!'' WHERE id %% 7 = 0', t);
		EXECUTE format('UPDATE %s SET v = v + 1 WHERE id %% 11 = 0', t);
		EXECUTE format('DELETE FROM %s WHERE id %% 13 = 0 OR id BETWEEN 3000 AND 4000', t);
	END LOOP;
END $$;
SELECT change_both();
ANALYZE h, a;
-- the ids that an index scan finds, on both tables; NULL if the plan does not use the index
CREATE FUNCTION found(tab text, condition text, ordering text DEFAULT '1') RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE line text; uses boolean := false; answer text;
	query text := format('SELECT id FROM %s WHERE %s ORDER BY %s', tab, condition, ordering);
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		uses := uses OR line ~ 'Index|Bitmap';
	END LOOP;
	EXECUTE format('SELECT count(*) || '' rows, '' || coalesce(md5(string_agg(id::text, '' '' ORDER BY id)), '''') FROM (%s) s', query) INTO answer;
	RETURN CASE WHEN uses THEN answer END;
END $$;
CREATE FUNCTION same(condition text, ordering text DEFAULT '1', OUT heap text, OUT same boolean) LANGUAGE sql AS
$$ SELECT split_part(found('h', $1, $2), ',', 1), found('h', $1, $2) = found('a', $1, $2) $$;
CREATE FUNCTION cold() RETURNS boolean LANGUAGE sql AS $$ SELECT aiostream_evict('h') > 0 AND aiostream_evict('a') > 0 $$;
RESET client_min_messages;

-- plain, several columns, descending, INCLUDE
SELECT cold();
CREATE INDEX h_v ON h (v); CREATE INDEX a_v ON a (v);
SELECT * FROM same('v = 17');
SELECT * FROM same('v BETWEEN 20 AND 25', 'v DESC');
CREATE INDEX h_vn ON h (v DESC, n NULLS FIRST) INCLUDE (id); CREATE INDEX a_vn ON a (v DESC, n NULLS FIRST) INCLUDE (id);
SELECT * FROM same('v = 50 AND n IS NULL');
-- unique
CREATE UNIQUE INDEX h_id ON h (id); CREATE UNIQUE INDEX a_id ON a (id);
SELECT * FROM same('id IN (14, 7777, 3500)');
INSERT INTO a VALUES (14, 0, 0, 'duplicate');
-- unique that fails, then leaves nothing
CREATE UNIQUE INDEX a_doc_fails ON a (v);
SELECT count(*) FROM pg_class WHERE relname = 'a_doc_fails';
SELECT count(*) FROM a;
-- expression, partial, both; with a subtransaction in the expression
CREATE INDEX h_lower ON h (lower(doc)); CREATE INDEX a_lower ON a (lower(doc));
SELECT * FROM same('lower(doc) LIKE ''doc 7%'' AND lower(doc) >= ''doc 7'' AND lower(doc) < ''doc 8''');
CREATE INDEX h_part ON h (n) WHERE v < 10; CREATE INDEX a_part ON a (n) WHERE v < 10;
SELECT * FROM same('v < 10 AND n > 9000');
CREATE FUNCTION careful(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN RETURN 1000 / ($1 % 3); EXCEPTION WHEN division_by_zero THEN RETURN -1; END $$;
CREATE INDEX h_careful ON h (careful(id)) WHERE id < 1500; CREATE INDEX a_careful ON a (careful(id)) WHERE id < 1500;
SELECT * FROM same('careful(id) = -1 AND id < 1500');
-- an expression that fails in the middle of the build
CREATE FUNCTION fails(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1 / ($1 - 5000); END';
SELECT cold();
CREATE INDEX a_fails ON a (fails(id));
SELECT count(*), sum(id) FROM a;
-- ... and that changes nothing for the next
CREATE INDEX a_again ON a (id);
DROP INDEX a_again;
-- an expression that scans another table, while ours is being scanned
CREATE FUNCTION looks(int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM twin WHERE id = $1); END';
CREATE TABLE twin USING aioheap AS SELECT * FROM a;
CREATE INDEX a_looks ON a (looks(id)) WHERE id < 100;
DROP INDEX a_looks;
-- hash, GIN, GiST, SP-GiST, BRIN
CREATE INDEX h_hash ON h USING hash (doc); CREATE INDEX a_hash ON a USING hash (doc);
DROP INDEX h_lower, a_lower;
SELECT * FROM same('doc = ''Doc '' || repeat(''8'', 30)');
CREATE INDEX h_gin ON h USING gin (to_tsvector('simple', doc)); CREATE INDEX a_gin ON a USING gin (to_tsvector('simple', doc));
SELECT * FROM same('to_tsvector(''simple'', doc) @@ to_tsquery(''simple'', ''9:*'')');
CREATE INDEX h_gist ON h USING gist (point(id, v)); CREATE INDEX a_gist ON a USING gist (point(id, v));
SELECT * FROM same('point(id, v) <@ box(point(0, 0), point(1000, 20))');
CREATE INDEX h_spgist ON h USING spgist (point(v, id)); CREATE INDEX a_spgist ON a USING spgist (point(v, id));
SELECT * FROM same('point(v, id) <@ box(point(0, 0), point(20, 1000))');
DROP INDEX h_v, a_v, h_vn, a_vn, h_id, a_id, h_part, a_part;
CREATE INDEX h_brin ON h USING brin (id) WITH (pages_per_range = 4); CREATE INDEX a_brin ON a USING brin (id) WITH (pages_per_range = 4);
SELECT * FROM same('id BETWEEN 6000 AND 6500 AND v >= 0');
INSERT INTO h SELECT g, 1, 1, 'more' FROM generate_series(20001, 20500) g;
INSERT INTO a SELECT g, 1, 1, 'more' FROM generate_series(20001, 20500) g;
SELECT brin_summarize_new_values('h_brin') = brin_summarize_new_values('a_brin') AS same_ranges;
SELECT brin_desummarize_range('a_brin', 0);
SELECT brin_summarize_range('a_brin', 0);
SELECT * FROM same('id BETWEEN 1 AND 500 AND v >= 0');
SELECT * FROM same('id BETWEEN 20100 AND 20200 AND v >= 0');
DROP INDEX h_brin, a_brin, h_gist, a_gist, h_spgist, a_spgist, h_hash, a_hash, h_gin, a_gin, h_careful, a_careful;

-- CONCURRENTLY: build and validation, unique, partial, failing
SELECT cold();
CREATE INDEX CONCURRENTLY a_v ON a (v);
CREATE INDEX h_v ON h (v);
SELECT * FROM same('v = 17');
CREATE UNIQUE INDEX CONCURRENTLY a_id ON a (id) WHERE v >= 0;
CREATE UNIQUE INDEX h_id ON h (id) WHERE v >= 0;
SELECT * FROM same('id = 500 AND v >= 0');
CREATE UNIQUE INDEX CONCURRENTLY a_invalid ON a (v);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'a_invalid'::regclass;
DROP INDEX CONCURRENTLY a_invalid;
DROP INDEX CONCURRENTLY a_v;
CREATE INDEX a_v ON a (v);
-- REINDEX in all its forms
SELECT cold();
REINDEX INDEX a_v;
REINDEX TABLE a;
REINDEX INDEX CONCURRENTLY a_v;
REINDEX TABLE CONCURRENTLY a;
SELECT * FROM same('v = 17');
SELECT * FROM same('id = 500 AND v >= 0');

-- parallel builds
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
SET maintenance_work_mem = '128MB';
ALTER TABLE a SET (parallel_workers = 2);
SELECT cold();
SET log_temp_files = -1;
SET client_min_messages = debug1;
CREATE INDEX a_parallel ON a (n, id);
RESET client_min_messages;
CREATE INDEX h_parallel ON h (n, id);
SELECT * FROM same('n > 4100 AND n < 4500');
SELECT * FROM same('n IS NULL', 'n, id');
SELECT cold();
CREATE INDEX CONCURRENTLY a_parallel_con ON a (id, n) WHERE id % 2 = 0;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'a_parallel_con'::regclass;
-- failing in leader and workers
\set VERBOSITY terse
\set SHOW_CONTEXT never
CREATE UNIQUE INDEX a_parallel_fails ON a (v);
ALTER FUNCTION fails(int) PARALLEL SAFE;
CREATE INDEX a_parallel_fails ON a (fails(id));
\set VERBOSITY default
SELECT count(*) FROM a;
RESET max_parallel_maintenance_workers;
ALTER TABLE a RESET (parallel_workers);

-- primary keys and exclusion constraints, deferred ones
DELETE FROM a WHERE id IS NULL;
ALTER TABLE a ADD PRIMARY KEY (id);
ALTER TABLE a ADD CONSTRAINT no_overlap EXCLUDE USING gist (int4range(id, id + 1) WITH &&);
INSERT INTO a VALUES (14, 0);
ALTER TABLE a DROP CONSTRAINT a_pkey;
INSERT INTO a VALUES (14, 0);
ALTER TABLE a DROP CONSTRAINT no_overlap;
ALTER TABLE a ADD CONSTRAINT deferred UNIQUE (id) DEFERRABLE INITIALLY DEFERRED;
DROP INDEX a_id;
BEGIN;
UPDATE a SET id = id + 1 WHERE id > 20000;
INSERT INTO a VALUES (14, 0);
COMMIT;
UPDATE a SET id = id + 1 WHERE id > 20000;
INSERT INTO a VALUES (14, 0) ON CONFLICT DO NOTHING;

-- in the transaction that made or changed the table: HOT chains broken by it
BEGIN;
CREATE TABLE fresh (id int, v int) USING aioheap;
INSERT INTO fresh SELECT g, 0 FROM generate_series(1, 5000) g;
UPDATE fresh SET v = 1 WHERE id % 2 = 0;
CREATE INDEX ON fresh (v);
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM fresh WHERE v = 1;
ROLLBACK;
BEGIN;
UPDATE a SET v = 1000 WHERE id < 50;
CREATE INDEX a_in_transaction ON a (v);
COMMIT;
-- on partitioned tables: recursion to aioheap and heap
CREATE TABLE parted (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_h PARTITION OF parted FOR VALUES FROM (0) TO (5000);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM (5000) TO (30000) USING aioheap;
INSERT INTO parted SELECT id, v FROM h;
CREATE UNIQUE INDEX parted_id ON parted (id);
SELECT count(*) FROM pg_index i WHERE i.indrelid IN ('parted_h'::regclass, 'parted_a'::regclass) AND indisvalid;
SET enable_seqscan = off;
SELECT tableoid::regclass, id, v FROM parted WHERE id IN (5, 9999) ORDER BY id;
RESET enable_seqscan;
-- TID scans
SELECT count(*) FROM a WHERE ctid = ANY (SELECT ctid FROM a WHERE v = 17);

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_aioheap_index CASCADE;
