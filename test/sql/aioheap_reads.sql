-- Maintenance of aioheap tables is read ahead: what each command reads through aiostream,
-- that its outcome is heap's, and that core's progress views count as with heap.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_aioheap_reads;
SET search_path = test_aioheap_reads, public;
-- 10 rows a page; r is in no order, k nearly in the table's
CREATE TABLE h (id int, k int, r int, doc text) WITH (autovacuum_enabled = off);
INSERT INTO h SELECT g, g + g * 7919 % 500, g * 7919 % 20011, repeat('d', 700) FROM generate_series(1, 20000) g;
CREATE TABLE a (LIKE h) USING aioheap WITH (autovacuum_enabled = off);
INSERT INTO a SELECT * FROM h;
CREATE INDEX h_k ON h (k); CREATE INDEX a_k ON a (k); CREATE INDEX h_r ON h (r); CREATE INDEX a_r ON a (r);
VACUUM (FREEZE) h, a;
CREATE TABLE before (read_bytes bigint);
INSERT INTO before VALUES (0);
-- evicts, and remembers what has been read so far
CREATE FUNCTION start(regclass DEFAULT 'a') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM aiostream_evict($1);
	UPDATE before b SET read_bytes = s.read_bytes FROM pg_stat_aiostream s;
END $$;
-- how often the table's pages have been read since, to a quarter
CREATE FUNCTION times_read(regclass DEFAULT 'a') RETURNS numeric LANGUAGE sql AS $$
SELECT round(round(4.0 * (s.read_bytes - b.read_bytes) / pg_relation_size($1)) / 4, 2) FROM pg_stat_aiostream s, before b $$;
-- at one row, says where core's progress views are
CREATE FUNCTION told(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
	IF $1 = 20000 THEN
		PERFORM pg_stat_clear_snapshot();
		SELECT concat_ws('; ',
			(SELECT format('create index: %s of %s blocks', blocks_done, blocks_total) FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid()),
			(SELECT format('cluster: %s of %s blocks, %s tuples scanned, %s written', heap_blks_scanned, heap_blks_total, heap_tuples_scanned, heap_tuples_written)
				FROM pg_stat_progress_cluster WHERE pid = pg_backend_pid()),
			(SELECT format('analyze: %s of %s blocks', sample_blks_scanned, sample_blks_total) FROM pg_stat_progress_analyze WHERE pid = pg_backend_pid())) INTO told;
		RAISE NOTICE '%', told;
	END IF;
	RETURN $1;
END $$;
SET client_min_messages = notice;
\set SHOW_CONTEXT never
SET max_parallel_maintenance_workers = 0;
SELECT pg_relation_size('a') / 8192 AS pages, pg_relation_size('a') = pg_relation_size('h') AS same_size;

-- CREATE INDEX: serial, partial with few rows, of all kinds
SELECT start();
CREATE INDEX a_told ON a (told(id));
SELECT times_read();
CREATE INDEX h_told ON h (told(id));
SELECT start();
CREATE INDEX a_few ON a (id) WHERE r = 17;
SELECT times_read();
SELECT start();
CREATE INDEX a_brin ON a USING brin (id);
SELECT times_read();
SELECT count(*) FROM a WHERE r = 17;
DROP INDEX a_few, a_brin;
-- CONCURRENTLY scans twice, with and without a predicate; the second time it may find it in large shared buffers
SELECT CASE WHEN pg_size_bytes(current_setting('shared_buffers')) <= pg_relation_size('a') * 1.5 THEN 1.5 ELSE 1 END AS twice \gset
SELECT start();
CREATE INDEX CONCURRENTLY a_con ON a (id);
SELECT times_read() >= :twice AS read;
SELECT start();
CREATE INDEX CONCURRENTLY a_con_few ON a (id) WHERE r = 17;
SELECT times_read() >= :twice AS read;
SELECT indisvalid FROM pg_index WHERE indexrelid IN ('a_con'::regclass, 'a_con_few'::regclass);
SELECT start();
REINDEX INDEX CONCURRENTLY a_con;
SELECT times_read() >= :twice AS read;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM a WHERE id > 0;
SELECT id FROM a WHERE r = 17 AND id > 0;
RESET enable_seqscan;
DROP INDEX a_con, a_con_few;
-- parallel: each page is read once by one of the processes
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
SET maintenance_work_mem = '128MB';
ALTER TABLE a SET (parallel_workers = 2);
SELECT start();
CREATE INDEX a_parallel ON a (id);
SELECT times_read();
SELECT start();
CREATE INDEX a_parallel_few ON a (id) WHERE r < 100;
SELECT times_read();
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM a WHERE id > 0;
SELECT (SELECT sum(id) FROM a WHERE r < 100 AND id > 0) = (SELECT sum(id) FROM h WHERE r < 100) AS same;
RESET enable_seqscan;
DROP INDEX a_parallel, a_parallel_few;
SET max_parallel_maintenance_workers = 0;

-- ANALYZE: of all rows
SELECT start();
ANALYZE a;
SELECT times_read();
ANALYZE h;
SELECT count(*) AS columns FROM pg_stats h JOIN pg_stats a USING (schemaname, attname)
WHERE schemaname = 'test_aioheap_reads' AND h.tablename = 'h' AND a.tablename = 'a'
	AND (h.null_frac, h.avg_width, h.n_distinct, h.most_common_vals::text, h.most_common_freqs, h.histogram_bounds::text, h.correlation)
		IS NOT DISTINCT FROM (a.null_frac, a.avg_width, a.n_distinct, a.most_common_vals::text, a.most_common_freqs, a.histogram_bounds::text, a.correlation);
-- of a sample: the blocks are known before
SET default_statistics_target = 2;
SELECT start();
ANALYZE a (id);
SELECT (s.read_bytes - b.read_bytes) / 8192 BETWEEN 590 AND 2000 AS sample_read FROM pg_stat_aiostream s, before b;
SELECT n_distinct FROM pg_stats WHERE schemaname = 'test_aioheap_reads' AND tablename = 'a' AND attname = 'id';
-- by a parent; without progress nothing is known; with aiostream off
CREATE TABLE parent (LIKE a) USING aioheap;
ALTER TABLE a INHERIT parent;
SELECT start();
ANALYZE parent (id);
SELECT (s.read_bytes - b.read_bytes) / 8192 BETWEEN 590 AND 2000 AS sample_read FROM pg_stat_aiostream s, before b;
ALTER TABLE a NO INHERIT parent;
SET track_activities = off;
SELECT start();
ANALYZE a (id);
SELECT times_read();
RESET track_activities;
SET aiostream.enable = off;
SELECT start();
ANALYZE a (id);
SELECT times_read();
RESET aiostream.enable;
RESET default_statistics_target;

-- CLUSTER by an index scan: near the table's order, in no order, by GiST; dead rows and HOT chains
CREATE FUNCTION same_order() RETURNS boolean LANGUAGE sql AS
$$ SELECT (SELECT array_agg(id ORDER BY ctid) FROM a) = (SELECT array_agg(id ORDER BY ctid) FROM h) $$;
DELETE FROM h WHERE id % 10 = 3; DELETE FROM a WHERE id % 10 = 3;
UPDATE h SET doc = 'new' WHERE id % 10 = 4; UPDATE a SET doc = 'new' WHERE id % 10 = 4;
UPDATE h SET doc = 'newer' WHERE id % 20 = 4; UPDATE a SET doc = 'newer' WHERE id % 20 = 4;
SET enable_sort = off;
SELECT pg_stat_reset_single_table_counters('a_r'::regclass), pg_stat_reset_single_table_counters('h_r'::regclass);
SELECT start();
CLUSTER a USING a_k;
SELECT times_read() >= 1 AS read;
CLUSTER h USING h_k;
SELECT same_order(), pg_relation_size('a') = pg_relation_size('h') AS same_size;
SELECT start();
CLUSTER a USING a_r;
SELECT times_read() >= 1 AS read;
CLUSTER h USING h_r;
SELECT same_order(), pg_relation_size('a') = pg_relation_size('h') AS same_size;
-- the scout is no scan of the index (rows that are only just dead may be in one of the two)
SELECT pg_stat_force_next_flush();
SELECT a.idx_scan, a.idx_tup_read < h.idx_tup_read * 1.5 AS read_once FROM pg_stat_user_indexes a, pg_stat_user_indexes h
WHERE a.indexrelid = 'a_r'::regclass AND h.indexrelid = 'h_r'::regclass;
CREATE INDEX a_gist ON a USING gist (point(r, k)); CREATE INDEX h_gist ON h USING gist (point(r, k));
SELECT start();
CLUSTER a USING a_gist;
SELECT times_read() >= 1 AS read;
SELECT count(*), sum(id) = (SELECT sum(id) FROM h) AS same FROM a;
DROP INDEX a_gist, h_gist;
-- one that is cancelled leaves nothing behind
SET statement_timeout = '5ms';
CLUSTER a USING a_k;
RESET statement_timeout;
SELECT count(*) FROM a WHERE id % 10 = 4;
-- with aiostream off
SET aiostream.enable = off;
SELECT start();
CLUSTER a USING a_r;
SELECT times_read();
RESET aiostream.enable;
CLUSTER h USING h_r;
SELECT same_order();
RESET enable_sort;
-- by sort, and VACUUM FULL
SET enable_indexscan = off;
SELECT start();
CLUSTER a USING a_r;
SELECT times_read() >= 1 AS read;
CLUSTER h USING h_r;
SELECT same_order();
RESET enable_indexscan;
SELECT start();
VACUUM FULL a;
SELECT times_read() >= 1 AS read;
VACUUM FULL h;
SELECT same_order(), pg_relation_size('a') = pg_relation_size('h') AS same_size;
DROP INDEX a_told, h_told;

-- constraints, rewrites, COPY, materialized views
CREATE TABLE b (id int PRIMARY KEY);
INSERT INTO b SELECT generate_series(1, 20000);
SELECT start();
ALTER TABLE a ADD CONSTRAINT positive CHECK (id > 0);
SELECT times_read();
SELECT start();
ALTER TABLE a ADD FOREIGN KEY (id) REFERENCES b;
SELECT times_read();
SELECT start();
ALTER TABLE a ALTER doc SET NOT NULL;
SELECT times_read();
SELECT start();
CREATE TEMP TABLE copied (LIKE a);
COPY a TO '/dev/null';
SELECT times_read();
CREATE MATERIALIZED VIEW mv USING aioheap AS SELECT id, doc FROM a;
SELECT start();
REFRESH MATERIALIZED VIEW mv;
SELECT times_read();
SELECT count(*), sum(id) = (SELECT sum(id) FROM h) AS same FROM mv;
DROP MATERIALIZED VIEW mv;
SELECT start();
ALTER TABLE a ALTER r TYPE bigint;
SELECT times_read() >= 1 AS read;
SELECT start();
ALTER TABLE a SET ACCESS METHOD heap;
SELECT times_read() >= 1 AS read;
SELECT same_order();

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_aioheap_reads CASCADE;
