-- Settings: names, defaults, ranges, contexts, who may set them, bad values.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
RESET client_min_messages;

SELECT name, vartype, context, unit, boot_val, min_val, max_val, enumvals
FROM pg_settings WHERE name LIKE 'aiostream.%' ORDER BY name COLLATE "C";

-- each is documented
SELECT name FROM pg_settings WHERE name LIKE 'aiostream.%' AND short_desc !~ '^[A-Z].*\.$';

-- per session
SET aiostream.enable = off;
SHOW aiostream.enable;
SET aiostream.enable = 'maybe';
RESET aiostream.enable;
SHOW aiostream.enable;
SET aiostream.enable_seqscan = off;
SHOW aiostream.enable_seqscan;
SET aiostream.enable_seqscan = '';
RESET aiostream.enable_seqscan;

-- enumeration, with the synonyms that Booleans have
SET aiostream.direct_io = on;
SHOW aiostream.direct_io;
SET aiostream.direct_io = false;
SHOW aiostream.direct_io;
SET aiostream.direct_io = yes;
SHOW aiostream.direct_io;
SET aiostream.direct_io = no;
SHOW aiostream.direct_io;
SET aiostream.direct_io = 1;
SHOW aiostream.direct_io;
SET aiostream.direct_io = 0;
SHOW aiostream.direct_io;
SET aiostream.direct_io = 'AUTO';
SHOW aiostream.direct_io;
SET aiostream.direct_io = 'sometimes';
RESET aiostream.direct_io;

-- a size in blocks, up to 1 MB
SET aiostream.io_combine_limit = '1MB';
SHOW aiostream.io_combine_limit;
SET aiostream.io_combine_limit = '8kB';
SHOW aiostream.io_combine_limit;
SET aiostream.io_combine_limit = 16;
SHOW aiostream.io_combine_limit;
SET aiostream.io_combine_limit = 0;
SET aiostream.io_combine_limit = '1032kB';
SET aiostream.io_combine_limit = 'large';
SHOW aiostream.io_combine_limit;
RESET aiostream.io_combine_limit;

SET aiostream.effective_io_concurrency = 1;
SHOW aiostream.effective_io_concurrency;
SET aiostream.effective_io_concurrency = 128;
SHOW aiostream.effective_io_concurrency;
SET aiostream.effective_io_concurrency = 0;
SET aiostream.effective_io_concurrency = 129;
RESET aiostream.effective_io_concurrency;

-- transaction-local, as any other setting
BEGIN;
SET LOCAL aiostream.enable = off;
SHOW aiostream.enable;
ROLLBACK;
SHOW aiostream.enable;

-- not in a session
SET aiostream.io_workers = 2;
SET aiostream.io_method = 'sync';
SET aiostream.io_max_concurrency = 8;
SET aiostream.align_buffers = off;

-- an unknown one is an error, not a placeholder
SET aiostream.no_such_setting = 1;

-- reload changes the number of workers
ALTER SYSTEM SET aiostream.io_workers = 33;
ALTER SYSTEM SET aiostream.io_workers = 0;

-- what is for testing is the superuser's
CREATE ROLE regress_aiostream_user;
SET ROLE regress_aiostream_user;
SET aiostream.debug_force_nodes = on;
SET aiostream.enable = off;
SET aiostream.enable_seqscan = off;
SET aiostream.direct_io = off;
SET aiostream.io_combine_limit = 8;
SET aiostream.effective_io_concurrency = 2;
RESET ALL;
RESET ROLE;
DROP ROLE regress_aiostream_user;
SET aiostream.debug_force_nodes = on;
SHOW aiostream.debug_force_nodes;
RESET aiostream.debug_force_nodes;

-- a function's own
CREATE FUNCTION pg_temp.switched_off() RETURNS text LANGUAGE sql
SET aiostream.enable = off AS $$ SELECT current_setting('aiostream.enable') $$;
SELECT pg_temp.switched_off(), current_setting('aiostream.enable');

-- EXPLAIN (SETTINGS) names those that change plans
SET aiostream.enable_seqscan = off;
SET aiostream.enable = off;
EXPLAIN (COSTS OFF, SETTINGS) SELECT 1;
