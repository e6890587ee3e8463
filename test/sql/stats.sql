-- pg_stat_aiostream: the counters count what happened, and can be reset.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_stats;
SET search_path = test_stats, public;
CREATE TABLE big AS SELECT g AS id, repeat('x', 400) AS pad FROM generate_series(1, 8000) g;
SELECT aiostream_stat_reset();
CREATE TABLE before AS SELECT * FROM pg_stat_aiostream;
RESET client_min_messages;

-- one row
SELECT count(*) FROM pg_stat_aiostream;

-- a cold scan; remember the table's size in blocks
SELECT pg_relation_size('big') / current_setting('block_size')::int AS blocks \gset
SELECT aiostream_evict('big') > 0 AS evicted;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM big;
SELECT count(*), sum(id) FROM big;
-- most of it was read by us, in requests that were counted on each axis alike
SELECT now.read_bytes - before.read_bytes > (:blocks * 8192) / 2 AS read,
	now.read_bytes - before.read_bytes <= :blocks * 8192 AS not_twice,
	now.reads - before.reads > 0 AS requests,
	now.reads - before.reads < :blocks / 2 AS combined
FROM pg_stat_aiostream now, before;
SELECT direct_reads + buffered_reads = reads AS direct,
	io_uring_reads + worker_reads + sync_reads = reads AS method,
	combined_1 + combined_2_7 + combined_8_15 + combined_16_31 + combined_32_63 + combined_64_up = reads AS size,
	failed_reads
FROM pg_stat_aiostream;

-- cached: nothing to read
UPDATE before SET reads = s.reads FROM pg_stat_aiostream s;
SELECT count(*), sum(id) FROM big;
SELECT now.reads - before.reads AS reads FROM pg_stat_aiostream now, before;

-- direct_io = off counts as buffered, io_combine_limit is kept
SET aiostream.direct_io = off;
SET aiostream.io_combine_limit = 4;
SELECT aiostream_stat_reset();
SELECT aiostream_evict('big') > 0 AS evicted;
SELECT count(*), sum(id) FROM big;
SELECT direct_reads, buffered_reads > 0 AS buffered, combined_2_7 > 0 AS small_ones,
	combined_8_15 + combined_16_31 + combined_32_63 + combined_64_up AS larger
FROM pg_stat_aiostream;
-- one block a request
SET aiostream.io_combine_limit = 1;
SELECT aiostream_stat_reset();
SELECT aiostream_evict('big') > 0 AS evicted;
SELECT count(*), sum(id) FROM big;
SELECT combined_1 > 0 AS single, combined_1 = reads AS all_of_them FROM pg_stat_aiostream;
RESET aiostream.io_combine_limit;
RESET aiostream.direct_io;

-- aiostream.enable = off: not ours
SET aiostream.enable = off;
SELECT aiostream_evict('big') > 0 AS evicted;
SELECT aiostream_stat_reset();
SELECT count(*), sum(id) FROM big;
SELECT reads, read_bytes, hits, core_reads FROM pg_stat_aiostream;
RESET aiostream.enable;

-- accounting is core's: pg_stat_user_tables, pg_statio, EXPLAIN (BUFFERS)
CREATE FUNCTION buffers(query text, key text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>key)::bigint;
END $$;
SELECT aiostream_evict('big') > 0 AS evicted;
SELECT buffers('SELECT count(*), sum(id) FROM big', 'Shared Read Blocks') = :blocks AS all_read;
SELECT buffers('SELECT count(*), sum(id) FROM big', 'Shared Hit Blocks') = :blocks AS all_hit;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_reset_single_table_counters('big'::regclass);
SELECT aiostream_evict('big') > 0 AS evicted;
SELECT count(*), sum(id) FROM big;
SELECT count(*), sum(id) FROM big;
SELECT pg_stat_force_next_flush();
SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relid = 'big'::regclass;
SELECT heap_blks_read = :blocks AS read, heap_blks_hit = :blocks AS hit
FROM pg_statio_user_tables WHERE relid = 'big'::regclass;

-- reset
SELECT stats_reset AS old FROM pg_stat_aiostream \gset
SELECT aiostream_stat_reset();
SELECT reads, read_bytes, direct_reads, buffered_reads, io_uring_reads, worker_reads, sync_reads,
	combined_1, combined_2_7, combined_8_15, combined_16_31, combined_32_63, combined_64_up,
	bounced_reads, waits, wait_time, hits, core_reads, reaped_for_others, short_reads, failed_reads, stalls,
	fallback_ring, fallback_no_reaper, fallback_no_worker, fallback_direct_open, fallback_open, fallback_no_follower,
	writes, write_bytes, write_skipped, failed_writes, wal_flushes,
	stats_reset > :'old' AS later
FROM pg_stat_aiostream \gx

-- privileges: everyone reads, not everyone resets
CREATE ROLE regress_aiostream_user;
SET ROLE regress_aiostream_user;
SELECT count(*) FROM pg_stat_aiostream;
SELECT aiostream_stat_reset();
RESET ROLE;
GRANT EXECUTE ON FUNCTION aiostream_stat_reset() TO regress_aiostream_user;
SET ROLE regress_aiostream_user;
SELECT aiostream_stat_reset();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION aiostream_stat_reset() FROM regress_aiostream_user;
DROP ROLE regress_aiostream_user;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_stats CASCADE;
