-- aiostream_info() and aiostream_ios
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
RESET client_min_messages;

-- one fact a row, in this order
SELECT name, value IS NOT NULL AS has_value FROM aiostream_info()
WHERE name NOT IN ('kernel', 'io_uring_disabled', 'memlock_limit', 'nofile_limit', 'reaper_pid');

-- each name once
SELECT name, count(*) FROM aiostream_info() GROUP BY name HAVING count(*) > 1;

-- what can be compared with other sources
CREATE FUNCTION pg_temp.fact(text) RETURNS text LANGUAGE sql AS
$$ SELECT value FROM aiostream_info() WHERE name = $1 $$;
SELECT pg_temp.fact('version') AS version,
	pg_temp.fact('server_version') = current_setting('server_version') AS server_version,
	pg_temp.fact('shared_buffers') = current_setting('shared_buffers') AS shared_buffers,
	pg_temp.fact('block_size') = current_setting('block_size') AS block_size,
	pg_temp.fact('io_method_setting') = current_setting('aiostream.io_method') AS io_method_setting,
	pg_temp.fact('io_workers') = current_setting('aiostream.io_workers') AS io_workers,
	pg_temp.fact('io_combine_limit') = current_setting('aiostream.io_combine_limit') AS io_combine_limit,
	pg_temp.fact('max_worker_processes') = current_setting('max_worker_processes') AS max_worker_processes
\gx

-- the method in use is a real one, and there is a reason for it
SELECT value IN ('io_uring', 'worker', 'sync') AS known, detail <> '' AS has_reason
FROM aiostream_info() WHERE name = 'io_method';
SELECT value IN ('on', 'off') AS known FROM aiostream_info() WHERE name = 'async_reads';
SELECT value IN ('zero copy', 'bounce buffers') AS known FROM aiostream_info() WHERE name = 'direct_path';
-- alignment is a power of two, and says which of the two paths is taken
SELECT (a & (a - 1)) = 0 AS power_of_two, (a >= 4096) = (pg_temp.fact('direct_path') = 'zero copy') AS consistent
FROM (SELECT pg_temp.fact('buffer_alignment')::bigint AS a) s;
SELECT pg_temp.fact('io_handles')::int >= current_setting('aiostream.io_max_concurrency')::int AS enough_handles;

-- a session's settings show
SET aiostream.direct_io = off;
SET aiostream.effective_io_concurrency = 7;
SELECT name, value, detail FROM aiostream_info() WHERE name IN ('direct_io', 'effective_io_concurrency');
RESET aiostream.direct_io;
RESET aiostream.effective_io_concurrency;

-- the rest, whose values are the machine's: present, and explained where unknown
SELECT name, value IS NOT NULL OR detail <> '' AS said FROM aiostream_info()
WHERE name IN ('kernel', 'io_uring_disabled', 'memlock_limit', 'nofile_limit', 'reaper_pid');

-- everyone may look
CREATE ROLE regress_aiostream_user;
SET ROLE regress_aiostream_user;
SELECT count(*) > 10 AS has_rows FROM aiostream_info();
-- nothing of ours is in flight between two statements
SELECT count(*) FROM aiostream_ios WHERE pid = pg_backend_pid();
SELECT * FROM aiostream_ios LIMIT 0;
RESET ROLE;
DROP ROLE regress_aiostream_user;
