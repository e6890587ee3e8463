/* sql/aiostream--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION aiostream" to load this file. \quit

--
-- Table access method
--

CREATE FUNCTION aiostream_aioheap_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
COMMENT ON FUNCTION aiostream_aioheap_handler(internal) IS
'handler of the aioheap table access method';

CREATE ACCESS METHOD aioheap TYPE TABLE HANDLER aiostream_aioheap_handler;
COMMENT ON ACCESS METHOD aioheap IS
'heap tables whose scans keep reads in flight (aiostream)';

--
-- What is in use
--

CREATE FUNCTION aiostream_info(
    OUT name text,
    OUT value text,
    OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 30;
COMMENT ON FUNCTION aiostream_info() IS
'facts about aiostream in this server, one per row: I/O method and why, kernel, limits, workers, alignment';

--
-- Statistics
--

CREATE FUNCTION aiostream_stat_counters(
    OUT reads bigint,
    OUT read_bytes bigint,
    OUT direct_reads bigint,
    OUT buffered_reads bigint,
    OUT io_uring_reads bigint,
    OUT worker_reads bigint,
    OUT sync_reads bigint,
    OUT combined_1 bigint,
    OUT combined_2_7 bigint,
    OUT combined_8_15 bigint,
    OUT combined_16_31 bigint,
    OUT combined_32_63 bigint,
    OUT combined_64_up bigint,
    OUT bounced_reads bigint,
    OUT waits bigint,
    OUT wait_time double precision,
    OUT hits bigint,
    OUT core_reads bigint,
    OUT reaped_for_others bigint,
    OUT short_reads bigint,
    OUT failed_reads bigint,
    OUT stalls bigint,
    OUT fallback_ring bigint,
    OUT fallback_no_reaper bigint,
    OUT fallback_no_worker bigint,
    OUT fallback_direct_open bigint,
    OUT fallback_open bigint,
    OUT fallback_no_follower bigint,
    OUT writes bigint,
    OUT write_bytes bigint,
    OUT write_skipped bigint,
    OUT failed_writes bigint,
    OUT wal_flushes bigint,
    OUT stats_reset timestamptz)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION aiostream_stat_counters() IS
'cumulative counters of aiostream; read them through pg_stat_aiostream';

CREATE VIEW pg_stat_aiostream AS
    SELECT * FROM aiostream_stat_counters();
COMMENT ON VIEW pg_stat_aiostream IS
'cumulative counters of aiostream since stats_reset, one row for the whole server';
GRANT SELECT ON pg_stat_aiostream TO PUBLIC;

CREATE FUNCTION aiostream_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION aiostream_stat_reset() IS
'set all counters of pg_stat_aiostream to zero';
REVOKE ALL ON FUNCTION aiostream_stat_reset() FROM PUBLIC;

CREATE FUNCTION aiostream_stat_vacuum(
    OUT pid integer,
    OUT follower_pid integer,
    OUT datid oid,
    OUT relid oid,
    OUT phase text,
    OUT distance bigint,
    OUT blocks_read bigint,
    OUT blocks_written bigint,
    OUT wal_flushes_saved bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION aiostream_stat_vacuum() IS
'vacuums that have a follower; read them through pg_stat_aiostream_vacuum';

CREATE VIEW pg_stat_aiostream_vacuum AS
    SELECT s.pid, s.follower_pid, s.datid, s.relid, s.phase, s.distance, s.blocks_read,
        s.blocks_written, s.wal_flushes_saved
    FROM aiostream_stat_vacuum() AS s;
COMMENT ON VIEW pg_stat_aiostream_vacuum IS
'vacuums that have a follower, one row each: what it is at, how far ahead, what it has read and written';
GRANT SELECT ON pg_stat_aiostream_vacuum TO PUBLIC;

CREATE FUNCTION aiostream_write_out(rel regclass, fork text DEFAULT 'main')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION aiostream_write_out(regclass, text) IS
'have a relation''s dirty pages written in large pieces by the I/O workers, WAL first; returns their number';

CREATE FUNCTION aiostream_io_status(
    OUT pid integer,
    OUT path text,
    OUT "offset" bigint,
    OUT length bigint,
    OUT direct boolean,
    OUT io_method text,
    OUT state text,
    OUT age interval)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION aiostream_io_status() IS
'reads in flight in the whole server; read them through aiostream_ios';

CREATE VIEW aiostream_ios AS
    SELECT s.pid, s.path, s."offset", s.length, s.direct, s.io_method, s.state, s.age
    FROM aiostream_io_status() AS s;
COMMENT ON VIEW aiostream_ios IS
'reads in flight in the whole server, one row each; path is shown for own reads and to pg_read_all_stats';
GRANT SELECT ON aiostream_ios TO PUBLIC;

--
-- Warming up
--

CREATE FUNCTION aiostream_prewarm(
    rel regclass,
    mode text DEFAULT 'buffer',
    fork text DEFAULT 'main',
    first bigint DEFAULT NULL,
    last bigint DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION aiostream_prewarm(regclass, text, text, bigint, bigint) IS
'read a relation into shared buffers in large reads, with pg_prewarm''s arguments; returns the number of blocks';

CREATE FUNCTION aiostream_prewarm_all()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION aiostream_prewarm_all() IS
'read into free shared buffers the blocks of this database that pg_prewarm''s autoprewarm.blocks lists; returns the number of blocks read';
REVOKE ALL ON FUNCTION aiostream_prewarm_all() FROM PUBLIC;

--
-- Cold measurements
--

CREATE FUNCTION aiostream_evict(rel regclass)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_evict(regclass) IS
'write out a relation and drop its pages, its indexes'' and its TOAST table''s, from shared buffers and from the kernel''s cache; returns the number of pages dropped from shared buffers';

CREATE FUNCTION aiostream_bench_read(
    rel regclass,
    pattern text,
    io_method text DEFAULT NULL,
    direct_io text DEFAULT NULL,
    concurrency integer DEFAULT NULL,
    combine_kb integer DEFAULT NULL,
    fraction double precision DEFAULT 0.05,
    max_blocks bigint DEFAULT NULL,
    runs integer DEFAULT 1)
RETURNS TABLE (
    run integer,
    pattern text,
    contender text,
    io_method text,
    direct_io text,
    concurrency integer,
    combine_kb integer,
    blocks bigint,
    seconds double precision,
    mb_per_s double precision,
    iops double precision,
    cpu_s double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 2;
COMMENT ON FUNCTION aiostream_bench_read(regclass, text, text, text, integer, integer, double precision, bigint, integer) IS
'read blocks of a relation cold, in a pattern (sequential, backward, sparse, random), synchronously and through aiostream; 1 MB is 1024 kB';

CREATE FUNCTION aiostream_bench_query(
    query text,
    runs integer DEFAULT 3)
RETURNS TABLE (
    run integer,
    contender text,
    seconds double precision,
    cpu_s double precision,
    rows bigint,
    ratio double precision,
    agree boolean)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE COST 100000 ROWS 8;
COMMENT ON FUNCTION aiostream_bench_query(text, integer) IS
'run a query cold on PostgreSQL''s plain path and on aiostream''s in turn, and compare time, CPU and results';

--
-- Switching tables between heap and aioheap
--

CREATE FUNCTION aiostream_adopt(rel regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_adopt(regclass) IS
'switch a heap table, a materialized view or all partitions of a partitioned table to aioheap, without rewriting it';

CREATE FUNCTION aiostream_release(rel regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_release(regclass) IS
'switch an aioheap table, a materialized view or all partitions of a partitioned table back to heap, without rewriting it';

CREATE FUNCTION aiostream_adopt_schema(schema regnamespace)
RETURNS TABLE (
    relation regclass,
    switched boolean,
    message text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_adopt_schema(regnamespace) IS
'switch all tables and materialized views of a schema to aioheap; those that cannot be are skipped, and the message says why';

CREATE FUNCTION aiostream_release_schema(schema regnamespace)
RETURNS TABLE (
    relation regclass,
    switched boolean,
    message text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_release_schema(regnamespace) IS
'switch all tables and materialized views of a schema back to heap; those that cannot be are skipped, and the message says why';

--
-- Checking tables with amcheck
--

CREATE FUNCTION aiostream_verify(
    rel regclass,
    check_toast boolean DEFAULT true,
    heapallindexed boolean DEFAULT true,
    skip text DEFAULT 'none')
RETURNS TABLE (
    relation regclass,
    blkno bigint,
    offnum integer,
    attnum integer,
    msg text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION aiostream_verify(regclass, boolean, boolean, text) IS
'run amcheck''s checks on a table, its TOAST table and their B-tree indexes; one row for each damage found';

--
-- Testing
--

CREATE FUNCTION aiostream_debug_fault(point text, action text)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_debug_fault(text, text) IS
'for testing: arm a fault point with "pause", "fail" or "fail N", or disarm it with "off"';
REVOKE ALL ON FUNCTION aiostream_debug_fault(text, text) FROM PUBLIC;

CREATE FUNCTION aiostream_debug_fault_waiters(point text)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION aiostream_debug_fault_waiters(text) IS
'for testing: number of processes that are paused at a fault point';
REVOKE ALL ON FUNCTION aiostream_debug_fault_waiters(text) FROM PUBLIC;
