-- The follower of VACUUM: settings, view, and the same result. When it starts and how it ends is test/t/013_vacuum.pl's.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE EXTENSION IF NOT EXISTS pg_visibility;
CREATE SCHEMA test_vacuum;
SET search_path = test_vacuum, public;
RESET client_min_messages;

-- settings
SHOW aiostream.enable_vacuum;
SHOW aiostream.maintenance_io_concurrency;
SET aiostream.maintenance_io_concurrency = 0;
SET aiostream.maintenance_io_concurrency = 129;
SET aiostream.maintenance_io_concurrency = 128;
SHOW aiostream.maintenance_io_concurrency;
RESET aiostream.maintenance_io_concurrency;

-- nobody vacuums
SELECT * FROM pg_stat_aiostream_vacuum;

-- with and without: the same
CREATE FUNCTION twin(name text, am text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (id int, pad text) USING %I WITH (autovacuum_enabled = off)', name, am);
	EXECUTE format('INSERT INTO %I SELECT g, repeat(''x'', 400) FROM generate_series(1, 30000) g', name);
	EXECUTE format('CREATE INDEX %I ON %I (id)', name || '_id', name);
	EXECUTE format('DELETE FROM %I WHERE id %% 30 = 11 OR id > 25000', name);
END $$;
SELECT twin('with_it', 'heap'), twin('without', 'heap'), twin('a', 'aioheap');
SELECT sum(aiostream_evict(t)) > 0 AS evicted FROM unnest(ARRAY['with_it', 'without', 'a']::regclass[]) t;
VACUUM with_it;
VACUUM a;
SET aiostream.enable_vacuum = off;
VACUUM without;
RESET aiostream.enable_vacuum;
SELECT relname, relpages, reltuples, relallvisible, pg_relation_size(oid) / 8192 AS blocks,
	(SELECT sum(all_visible::int) FROM pg_visibility_map(oid)) AS visible
FROM pg_class WHERE relnamespace = 'test_vacuum'::regnamespace AND relkind = 'r' ORDER BY relname;
SELECT (SELECT count(*) FROM with_it) AS with_it, (SELECT count(*) FROM without) AS without, (SELECT count(*) FROM a) AS a;

-- errors are PostgreSQL's
VACUUM nowhere;
VACUUM (NONSENSE) a;
VACUUM (FREEZE 'perhaps') a;
VACUUM (PARALLEL -1) a;
BEGIN;
VACUUM a;
ROLLBACK;
CREATE VIEW v AS SELECT 1;
VACUUM v;
VACUUM (FULL off) a;
VACUUM (FULL) a;
VACUUM (ANALYZE, FREEZE) with_it, a;
SELECT relname, relallvisible = relpages AS all_visible FROM pg_class WHERE oid IN ('with_it'::regclass, 'a'::regclass) ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA test_vacuum CASCADE;
