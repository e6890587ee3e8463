-- The extension's objects: what there is, signatures, volatility, parallel safety,
-- privileges, comments, columns.
BEGIN;
SELECT plan(118);

CREATE TEMP VIEW members AS
SELECT classid, objid, pg_describe_object(classid, objid, 0) AS object
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'aiostream');

-- the extension
SELECT has_extension('aiostream');
SELECT is(extversion, '1.0', 'version') FROM pg_extension WHERE extname = 'aiostream';
SELECT ok(extrelocatable, 'relocatable') FROM pg_extension WHERE extname = 'aiostream';
SELECT is(extnamespace::regnamespace::text, 'public', 'in the schema that was asked for') FROM pg_extension WHERE extname = 'aiostream';

-- exactly these objects
SELECT set_eq($$ SELECT object FROM members WHERE classid NOT IN ('pg_type'::regclass) $$, ARRAY[
	'access method aioheap',
	'function aiostream_adopt(regclass)',
	'function aiostream_adopt_schema(regnamespace)',
	'function aiostream_release(regclass)',
	'function aiostream_release_schema(regnamespace)',
	'function aiostream_verify(regclass,boolean,boolean,text)',
	'function aiostream_aioheap_handler(internal)',
	'function aiostream_bench_query(text,integer)',
	'function aiostream_bench_read(regclass,text,text,text,integer,integer,double precision,bigint,integer)',
	'function aiostream_debug_fault(text,text)',
	'function aiostream_debug_fault_waiters(text)',
	'function aiostream_evict(regclass)',
	'function aiostream_info()',
	'function aiostream_io_status()',
	'function aiostream_prewarm(regclass,text,text,bigint,bigint)',
	'function aiostream_prewarm_all()',
	'function aiostream_stat_counters()',
	'function aiostream_stat_reset()',
	'function aiostream_stat_vacuum()',
	'function aiostream_write_out(regclass,text)',
	'view aiostream_ios',
	'view pg_stat_aiostream',
	'view pg_stat_aiostream_vacuum'
], 'the objects of the extension');
SELECT is_empty($$ SELECT object FROM members WHERE classid <> 'pg_type'::regclass
	AND coalesce(obj_description(objid, classid::regclass::text), '') = '' $$, 'every object has a comment');
SELECT is_empty($$ SELECT proname FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	WHERE proname NOT LIKE 'aiostream\_%' $$, 'every function has the prefix');
SELECT is_empty($$ SELECT proname FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	WHERE prosecdef $$, 'no function is SECURITY DEFINER');
SELECT is_empty($$ SELECT proname FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	JOIN pg_language l ON l.oid = prolang WHERE lanname <> 'c' OR probin <> '$libdir/aiostream' $$, 'every function is in the library');

-- the access method
SELECT is((SELECT amtype::text || ' ' || amhandler::text FROM pg_am WHERE amname = 'aioheap'), 't aiostream_aioheap_handler', 'aioheap is a table access method');
SELECT function_returns('aiostream_aioheap_handler', ARRAY['internal'], 'table_am_handler');

-- function, arguments, result, set, strict, volatility, parallel, everyone may execute
CREATE TEMP TABLE wanted (name text, args text, result text, strict boolean, volatility "char", parallel "char", everyone boolean);
INSERT INTO wanted VALUES
	('aiostream_info', 'OUT name text, OUT value text, OUT detail text', 'SETOF record', true, 'v', 'r', true),
	('aiostream_adopt', 'rel regclass', 'void', true, 'v', 'u', true),
	('aiostream_release', 'rel regclass', 'void', true, 'v', 'u', true),
	('aiostream_adopt_schema', 'schema regnamespace', 'TABLE(relation regclass, switched boolean, message text)', true, 'v', 'u', true),
	('aiostream_release_schema', 'schema regnamespace', 'TABLE(relation regclass, switched boolean, message text)', true, 'v', 'u', true),
	('aiostream_verify', 'rel regclass, check_toast boolean DEFAULT true, heapallindexed boolean DEFAULT true, skip text DEFAULT ''none''::text', 'TABLE(relation regclass, blkno bigint, offnum integer, attnum integer, msg text)', true, 'v', 'u', true),
	('aiostream_evict', 'rel regclass', 'bigint', true, 'v', 'u', true),
	('aiostream_prewarm', 'rel regclass, mode text DEFAULT ''buffer''::text, fork text DEFAULT ''main''::text, first bigint DEFAULT NULL::bigint, last bigint DEFAULT NULL::bigint', 'bigint', false, 'v', 's', true),
	('aiostream_prewarm_all', '', 'bigint', true, 'v', 'r', false),
	('aiostream_write_out', 'rel regclass, fork text DEFAULT ''main''::text', 'bigint', true, 'v', 'r', true),
	('aiostream_stat_reset', '', 'void', true, 'v', 's', false),
	('aiostream_debug_fault', 'point text, action text', 'void', true, 'v', 'u', false),
	('aiostream_debug_fault_waiters', 'point text', 'integer', true, 'v', 'u', false),
	('aiostream_bench_query', 'query text, runs integer DEFAULT 3', 'TABLE(run integer, contender text, seconds double precision, cpu_s double precision, rows bigint, ratio double precision, agree boolean)', true, 'v', 'u', true),
	('aiostream_bench_read', 'rel regclass, pattern text, io_method text DEFAULT NULL::text, direct_io text DEFAULT NULL::text, concurrency integer DEFAULT NULL::integer, combine_kb integer DEFAULT NULL::integer, fraction double precision DEFAULT 0.05, max_blocks bigint DEFAULT NULL::bigint, runs integer DEFAULT 1', 'TABLE(run integer, pattern text, contender text, io_method text, direct_io text, concurrency integer, combine_kb integer, blocks bigint, seconds double precision, mb_per_s double precision, iops double precision, cpu_s double precision)', false, 'v', 'u', true),
	('aiostream_stat_counters', NULL, 'record', true, 'v', 's', true),
	('aiostream_stat_vacuum', NULL, 'SETOF record', true, 'v', 'r', true),
	('aiostream_io_status', NULL, 'SETOF record', true, 'v', 'r', true);
SELECT is(pg_get_function_arguments(p.oid), w.args, w.name || ': arguments')
	FROM wanted w JOIN pg_proc p ON p.proname = w.name WHERE w.args IS NOT NULL ORDER BY w.name;
SELECT is(pg_get_function_result(p.oid), w.result, w.name || ': result')
	FROM wanted w JOIN pg_proc p ON p.proname = w.name ORDER BY w.name;
SELECT is((proisstrict, provolatile, proparallel)::text, (strict, volatility, parallel)::text, w.name || ': strict, volatility, parallel safety')
	FROM wanted w JOIN pg_proc p ON p.proname = w.name ORDER BY w.name;
CREATE ROLE aiostream_nobody;
SELECT is(has_function_privilege('aiostream_nobody', p.oid, 'EXECUTE'), everyone, w.name || ': who may execute it')
	FROM wanted w JOIN pg_proc p ON p.proname = w.name ORDER BY w.name;

-- the views
SELECT columns_are('pg_stat_aiostream', ARRAY['reads', 'read_bytes', 'direct_reads', 'buffered_reads', 'io_uring_reads', 'worker_reads',
	'sync_reads', 'combined_1', 'combined_2_7', 'combined_8_15', 'combined_16_31', 'combined_32_63', 'combined_64_up', 'bounced_reads',
	'waits', 'wait_time', 'hits', 'core_reads', 'reaped_for_others', 'short_reads', 'failed_reads', 'stalls', 'fallback_ring',
	'fallback_no_reaper', 'fallback_no_worker', 'fallback_direct_open', 'fallback_open', 'fallback_no_follower',
	'writes', 'write_bytes', 'write_skipped', 'failed_writes', 'wal_flushes', 'stats_reset']);
SELECT columns_are('pg_stat_aiostream_vacuum', ARRAY['pid', 'follower_pid', 'datid', 'relid', 'phase', 'distance', 'blocks_read',
	'blocks_written', 'wal_flushes_saved']);
SELECT columns_are('aiostream_ios', ARRAY['pid', 'path', 'offset', 'length', 'direct', 'io_method', 'state', 'age']);
SELECT is_empty($$ SELECT attname FROM pg_attribute WHERE attrelid = 'pg_stat_aiostream'::regclass AND attnum > 0
	AND atttypid <> 'bigint'::regtype AND attname NOT IN ('wait_time', 'stats_reset') $$, 'counters are bigint');
SELECT col_type_is('pg_stat_aiostream', 'wait_time', 'double precision');
SELECT col_type_is('pg_stat_aiostream', 'stats_reset', 'timestamp with time zone');
SELECT col_type_is('pg_stat_aiostream_vacuum', 'pid', 'integer');
SELECT col_type_is('pg_stat_aiostream_vacuum', 'relid', 'oid');
SELECT col_type_is('pg_stat_aiostream_vacuum', 'phase', 'text');
SELECT col_type_is('pg_stat_aiostream_vacuum', 'distance', 'bigint');
SELECT col_type_is('pg_stat_aiostream_vacuum', 'blocks_read', 'bigint');
SELECT col_type_is('aiostream_ios', 'pid', 'integer');
SELECT col_type_is('aiostream_ios', 'offset', 'bigint');
SELECT col_type_is('aiostream_ios', 'length', 'bigint');
SELECT col_type_is('aiostream_ios', 'direct', 'boolean');
SELECT col_type_is('aiostream_ios', 'age', 'interval');
SELECT table_privs_are('pg_stat_aiostream', 'aiostream_nobody', ARRAY['SELECT'], 'everyone may read pg_stat_aiostream, no more');
SELECT table_privs_are('pg_stat_aiostream_vacuum', 'aiostream_nobody', ARRAY['SELECT'], 'everyone may read pg_stat_aiostream_vacuum, no more');
SELECT table_privs_are('aiostream_ios', 'aiostream_nobody', ARRAY['SELECT'], 'everyone may read aiostream_ios, no more');

-- as an ordinary user
SELECT format('GRANT USAGE ON SCHEMA %s TO aiostream_nobody', extnamespace::regnamespace) FROM pg_extension WHERE extname = 'pgtap'
\gexec
SET LOCAL ROLE aiostream_nobody;
SELECT lives_ok('SELECT * FROM aiostream_info()', 'everyone may call aiostream_info');
SELECT lives_ok('SELECT * FROM pg_stat_aiostream', 'everyone may select from pg_stat_aiostream');
SELECT lives_ok('SELECT * FROM pg_stat_aiostream_vacuum', 'everyone may select from pg_stat_aiostream_vacuum');
SELECT lives_ok('SELECT * FROM aiostream_ios', 'everyone may select from aiostream_ios');
SELECT throws_ok('SELECT aiostream_stat_reset()', '42501', NULL, 'not everyone may reset counters');
SELECT throws_ok('SELECT aiostream_prewarm_all()', '42501', NULL, 'not everyone may read a list of blocks');
SELECT throws_ok('SELECT aiostream_evict(''pg_class'')', '42501', NULL, 'not everyone may evict');
SELECT throws_ok('SELECT aiostream_prewarm(''pg_authid'')', '42501', NULL, 'what may not be read may not be prewarmed');
SELECT throws_ok('SELECT * FROM aiostream_bench_read(''pg_class'', ''sequential'')', '42501', NULL, 'not everyone may bench a table');
SELECT throws_ok('SELECT aiostream_debug_fault(''reaper'', ''off'')', '42501', NULL, 'not everyone may arm fault points');
SELECT throws_ok('SET aiostream.debug_force_nodes = on', '42501', NULL, 'not everyone may force nodes');
RESET ROLE;

-- error codes
SELECT throws_ok('SELECT * FROM aiostream_bench_read(''pg_class'', ''zigzag'')', '22023', NULL, 'an unknown pattern');
SELECT throws_ok('SELECT * FROM aiostream_bench_read(''pg_class'', NULL)', '22004', NULL, 'no pattern');
SELECT throws_ok('SELECT * FROM aiostream_bench_read(''pg_stats'', ''sequential'')', '42809', NULL, 'a view cannot be read');
SELECT throws_ok('SELECT * FROM aiostream_bench_query(''DELETE FROM members'')', '22023', NULL, 'a query that writes');
SELECT throws_ok('SELECT * FROM aiostream_bench_query(''SELECT nonsense'')', '42703', NULL, 'a query that fails: its own error');
SELECT throws_ok('SELECT aiostream_evict(''pg_stats'')', '42809', NULL, 'a view cannot be evicted');
SELECT throws_ok('SELECT aiostream_evict(''wanted'')', '0A000', NULL, 'a temporary table cannot be evicted');
SELECT throws_ok('SELECT aiostream_debug_fault(''nowhere'', ''off'')', '22023', NULL, 'an unknown fault point');

SELECT * FROM finish();
ROLLBACK;
