-- Faults at named points: answers stay right, whatever goes wrong on the way.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_fault;
SET search_path = test_fault, public;
SET aiostream.debug_force_nodes = on;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE t (id int, pad text) USING aioheap;
INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 5000) g;
ANALYZE t;
-- a cold scan in each direction, with a fault armed
CREATE FUNCTION scan_with(point text, action text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint; s bigint; c refcursor; last_id int; backward bigint;
BEGIN
	PERFORM aiostream_evict('t');
	PERFORM aiostream_debug_fault(point, action);
	SELECT count(*), sum(id) INTO n, s FROM t;
	PERFORM aiostream_evict('t');
	OPEN c SCROLL FOR SELECT id FROM t;
	FETCH LAST FROM c INTO last_id;
	PERFORM aiostream_debug_fault(point, action);
	MOVE BACKWARD ALL IN c;
	GET DIAGNOSTICS backward = ROW_COUNT;
	PERFORM aiostream_debug_fault(point, 'off');
	RETURN format('%s rows, sum %s, last %s, %s before it', n, s, last_id, backward);
END $$;
RESET client_min_messages;

SELECT scan_with('read_error', 'off');
SELECT scan_with('read_error', 'fail 1');
SELECT scan_with('read_error', 'fail 7');
SELECT scan_with('read_error', 'fail');
SELECT scan_with('short_read', 'fail 1');
SELECT scan_with('short_read', 'fail 20');
SELECT scan_with('read_again', 'fail 1');
SELECT scan_with('read_again', 'fail 20');
SELECT scan_with('no_handle', 'fail 1');
SELECT scan_with('no_handle', 'fail 20');
SELECT scan_with('no_handle', 'fail');
-- several settings
SET aiostream.io_combine_limit = 1;
SELECT scan_with('read_error', 'fail 20'), scan_with('short_read', 'fail 20'), scan_with('no_handle', 'fail');
RESET aiostream.io_combine_limit;
SET aiostream.direct_io = on;
SELECT scan_with('read_error', 'fail 20'), scan_with('short_read', 'fail 20'), scan_with('no_handle', 'fail');
SET aiostream.direct_io = off;
SELECT scan_with('read_error', 'fail 20'), scan_with('short_read', 'fail 20'), scan_with('no_handle', 'fail');
RESET aiostream.direct_io;
-- they are counted
SELECT aiostream_stat_reset();
SELECT scan_with('read_error', 'fail 3');
SELECT failed_reads > 0 AS failed, core_reads > 0 AS left_to_core FROM pg_stat_aiostream;
SELECT scan_with('short_read', 'fail 3');
SELECT short_reads > 0 AS short FROM pg_stat_aiostream;
SELECT scan_with('no_handle', 'fail 3');
SELECT stalls > 0 AS stalls FROM pg_stat_aiostream;
-- a session without a ring
SELECT aiostream_debug_fault('ring_setup', 'fail');
\c -
SET search_path = test_fault, public;
SET aiostream.debug_force_nodes = on;
SELECT scan_with('read_error', 'off');
SELECT aiostream_debug_fault('ring_setup', 'off');
-- nothing is left in flight, nobody waits
SELECT count(*) FROM aiostream_ios;
SELECT aiostream_debug_fault_waiters('submitted') + aiostream_debug_fault_waiters('reaper') + aiostream_debug_fault_waiters('worker_read') AS waiters;

-- arguments
SELECT aiostream_debug_fault('no_such_point', 'fail');
SELECT aiostream_debug_fault('read_error', 'explode');
SELECT aiostream_debug_fault('read_error', 'fail 0');
SELECT aiostream_debug_fault('read_error', 'fail -1');
SELECT aiostream_debug_fault('read_error', 'fail 1x');
SELECT aiostream_debug_fault('read_error', 'fail 1000001');
SELECT aiostream_debug_fault_waiters('no_such_point');
SELECT aiostream_debug_fault(NULL, 'fail') IS NULL AS is_null;
-- superusers only, even with the privilege
CREATE ROLE regress_aiostream_user;
SET ROLE regress_aiostream_user;
SELECT aiostream_debug_fault('read_error', 'off');
SELECT aiostream_debug_fault_waiters('read_error');
RESET ROLE;
GRANT EXECUTE ON FUNCTION aiostream_debug_fault(text, text), aiostream_debug_fault_waiters(text) TO regress_aiostream_user;
SET ROLE regress_aiostream_user;
SELECT aiostream_debug_fault('read_error', 'off');
SELECT aiostream_debug_fault_waiters('read_error');
RESET ROLE;
DROP OWNED BY regress_aiostream_user;
DROP ROLE regress_aiostream_user;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_fault CASCADE;
