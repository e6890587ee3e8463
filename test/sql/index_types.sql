-- Bitmap, index and index-only scans of every index access method of core and contrib, and of many
-- key types: core's rows and ours, with look-ahead from the start, cold; in order where the index has one.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_index_types;
SET search_path = test_index_types, public;
CREATE EXTENSION IF NOT EXISTS btree_gist SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS btree_gin SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS bloom SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS hstore SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS intarray SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS ltree SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS cube SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS seg SCHEMA test_index_types;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA test_index_types;
SET max_parallel_workers_per_gather = 0;
SET enable_seqscan = off;
SET aiostream.enable_seqscan = off;
SET jit = off;
SET work_mem = '64kB';	-- lossy pages
CREATE TABLE t (id int, i8 int8, n numeric, f float8, x text, ci citext, ts timestamptz, d date, u uuid, b bytea, bl bool, ne inet,
	p point, bx box, r int4range, arr int[], ts_v tsvector, h hstore, l ltree, c cube, s seg, j jsonb, m macaddr, nm name, iv interval, pad text)
	WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, (g::int8 * 48271) % 10007, nullif((g * 7919) % 3001, 17) / 7.0, sin(g), 'word' || (g * 31) % 900 || ' of ' || md5(g::text),
	CASE WHEN g % 2 = 0 THEN 'Case' ELSE 'cASE' END || g % 500, '2020-01-01 UTC'::timestamptz + (g * 7919 % 6000) * interval '1 hour',
	date '2020-01-01' + g % 700, md5((g % 2000)::text)::uuid, decode(md5((g % 1500)::text), 'hex'), nullif(g % 3, 2) = 1,
	('10.' || g % 4 || '.' || g % 200 || '.1')::inet, point(g % 211, g % 307), box(point(g % 211, g % 307), point(g % 211 + 3, g % 307 + 2)),
	int4range(g % 3000, g % 3000 + 9), ARRAY[g % 100, g % 77, g % 13], to_tsvector('simple', 'a' || g % 90 || ' b' || g % 70),
	hstore('k' || g % 40, (g % 30)::text), ('top.a' || g % 9 || '.b' || g % 80)::ltree, cube(ARRAY[g % 100, g % 90]),
	(g % 500 || ' .. ' || g % 500 + 4)::seg, jsonb_build_object('a', g % 50, 'b', g % 7),
	('08:00:2b:01:02:' || lpad(to_hex(g % 200), 2, '0'))::macaddr, ('n' || g % 600)::name, (g % 900) * interval '1 minute', repeat('x', 200)
	FROM generate_series(1, 6000) g;
VACUUM ANALYZE t;
DELETE FROM t WHERE id % 11 = 0;
UPDATE t SET pad = 'hot' WHERE id % 17 = 0;

CREATE FUNCTION digest(query text, ordered boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '';'' %s)), '''') FROM (%s) q',
		CASE WHEN ordered THEN '' ELSE 'ORDER BY q::text' END, query) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION scans(query text, ours boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ ' on t$' OR line ~ ' using .* on t$' THEN
			result := coalesce(substring(line, '\((Aio\w+)\)'), substring(line, '(\w[\w -]*\w) (?:using|on) '));
		END IF;
	END LOOP;
	RETURN result;
END $$;
-- An index of the given type and its queries, each as a bitmap scan and as an index scan,
-- as far as there are such
CREATE FUNCTION compare(method text, columns text, condition text, ordering text DEFAULT NULL, target text DEFAULT 'ctid, *')
RETURNS TABLE (index text, scan text, same boolean, rows text) LANGUAGE plpgsql AS $$
DECLARE query text; core text; kind text; plain text;
BEGIN
	EXECUTE format('CREATE INDEX tested ON t USING %s (%s)', method, columns);
	index := method || ' ' || columns;
	FOREACH kind IN ARRAY ARRAY['bitmap', 'index'] LOOP
		PERFORM set_config('enable_bitmapscan', (kind = 'bitmap')::text, true), set_config('enable_indexscan', (kind = 'index')::text, true),
			set_config('enable_indexonlyscan', (kind = 'index')::text, true);
		query := format('SELECT %s FROM t WHERE %s', target, condition) ||
			CASE WHEN ordering IS NOT NULL AND kind = 'index' THEN ' ORDER BY ' || ordering ELSE '' END;
		PERFORM set_config('enable_sort', (ordering IS NULL)::text, true);
		PERFORM set_config('aiostream.enable', 'off', true);
		plain := scans(query, false);
		CONTINUE WHEN plain = 'Seq Scan' OR (kind = 'index') <> (plain ~ '^Index');
		core := digest(query, true);
		PERFORM set_config('aiostream.enable', 'on', true);
		PERFORM set_config('aiostream.debug_force_nodes', 'replace', true);
		PERFORM aiostream_evict('t');
		scan := scans(query, true);
		same := core = digest(query, true) AND core = digest(query, true);
		rows := split_part(core, ' ', 1);
		PERFORM set_config('aiostream.debug_force_nodes', 'off', true);
		RETURN NEXT;
	END LOOP;
	DROP INDEX tested;
END $$;
RESET client_min_messages;

-- core: B-tree
SELECT * FROM compare('btree', 'i8', 'i8 BETWEEN 100 AND 6000', 'i8');
SELECT * FROM compare('btree', 'i8', 'i8 BETWEEN 100 AND 6000', 'i8 DESC');
SELECT * FROM compare('btree', 'n NULLS FIRST', 'n > 3 OR n IS NULL', 'n NULLS FIRST');
SELECT * FROM compare('btree', 'n DESC, id', 'n < 300', 'n DESC, id');
SELECT * FROM compare('btree', 'f', 'f BETWEEN -0.3 AND 0.8', 'f DESC');
SELECT * FROM compare('btree', 'x', 'x > ''word3''', 'x');
SELECT * FROM compare('btree', 'x text_pattern_ops', 'x LIKE ''word3%''');
SELECT * FROM compare('btree', 'ci', 'ci > ''case2''', 'ci DESC');
SELECT * FROM compare('btree', 'ts', 'ts > ''2020-03-01 UTC''', 'ts');
SELECT * FROM compare('btree', 'd, ts', 'd BETWEEN ''2020-02-01'' AND ''2020-12-01''', 'd DESC, ts DESC');
SELECT * FROM compare('btree', 'u', 'u > ''40000000-0000-0000-0000-000000000000''', 'u');
SELECT * FROM compare('btree', 'b', 'b > ''\x40''', 'b DESC');
SELECT * FROM compare('btree', 'bl, i8', 'bl', 'i8');
SELECT * FROM compare('btree', 'ne', 'ne <<= ''10.1.0.0/16''');
SELECT * FROM compare('btree', 'nm', 'nm > ''n3''', 'nm', 'nm');
SELECT * FROM compare('btree', 'r', 'r > int4range(100, 200)', 'r');
SELECT * FROM compare('btree', 'arr', 'arr > ARRAY[40]', 'arr DESC');
SELECT * FROM compare('btree', 'iv, m', 'iv > ''1 hour''', 'iv, m', 'iv, m');
SELECT * FROM compare('btree', '(id % 50), (upper(x))', 'id % 50 IN (3, 40, 7)');
SELECT * FROM compare('btree', 'i8, n', '(i8, n) > (3000, 5)', 'i8, n', 'i8, n');
-- core: others
SELECT * FROM compare('hash', 'x', 'x IN (SELECT x FROM t WHERE id < 30)');
SELECT * FROM compare('hash', 'd', 'd = ''2020-05-05''');
SELECT * FROM compare('gist', 'p', 'p <@ box ''(10,10),(150,150)''', NULL, 'p');
SELECT * FROM compare('gist', 'p', 'p <@ circle ''((80,90),50)''');
SELECT * FROM compare('gist', 'bx', 'bx && box ''(10,10),(90,90)''', NULL, 'bx');
SELECT * FROM compare('gist', 'r', 'r && int4range(100, 900)', NULL, 'r');
SELECT * FROM compare('gist', 'ne inet_ops', 'ne && ''10.2.0.0/16''', NULL, 'ne');
SELECT * FROM compare('gist', 'ts_v', 'ts_v @@ ''a3 | b4''');
SELECT * FROM compare('spgist', 'p', 'p <@ box ''(10,10),(150,150)''', NULL, 'p');
SELECT * FROM compare('spgist', 'p kd_point_ops', 'p <@ box ''(10,10),(90,150)''', NULL, 'p');
SELECT * FROM compare('spgist', 'x', 'x > ''word3'' AND x < ''word6''', NULL, 'x');
SELECT * FROM compare('spgist', 'r', 'r && int4range(100, 900)');
SELECT * FROM compare('spgist', 'ne', 'ne << ''10.3.0.0/16''', NULL, 'ne');
SELECT * FROM compare('gin', 'arr pg_catalog.array_ops', 'arr OPERATOR(pg_catalog.&&) ARRAY[3, 50]');
SELECT * FROM compare('gin', 'ts_v', 'ts_v @@ ''a3 | b4''');
SELECT * FROM compare('gin', 'j jsonb_path_ops', 'j @> ''{"a": 7}''');
SELECT * FROM compare('brin', 'id', 'id BETWEEN 500 AND 3000');
SELECT * FROM compare('brin', 'd date_minmax_multi_ops', 'd BETWEEN ''2020-02-01'' AND ''2020-03-01''');
SELECT * FROM compare('brin', 'x text_bloom_ops', 'x IN (SELECT x FROM t WHERE id < 5)');
-- contrib
SELECT * FROM compare('gist', 'i8, x', 'i8 BETWEEN 100 AND 3000', NULL, 'i8');
SELECT * FROM compare('gist', 'ts', 'ts > ''2020-06-01 UTC''', NULL, 'ts');
SELECT * FROM compare('gist', 'u', 'u < ''40000000-0000-0000-0000-000000000000''', NULL, 'u');
SELECT * FROM compare('gist', 'n, bl', 'n BETWEEN 10 AND 200');
SELECT * FROM compare('gin', 'i8, arr pg_catalog.array_ops', 'i8 BETWEEN 100 AND 3000 AND arr OPERATOR(pg_catalog.&&) ARRAY[3, 50, 6]');
SELECT * FROM compare('gin', 'x gin_trgm_ops', 'x LIKE ''%ab1%''');
SELECT * FROM compare('gist', 'x gist_trgm_ops', 'x LIKE ''%ab1%''');
SELECT * FROM compare('gist', 'x gist_trgm_ops (siglen = 32)', 'x ~ ''word8.*ff''');
SELECT * FROM compare('bloom', '(id % 50), x', 'id % 50 = 7');
SELECT * FROM compare('gin', 'h', 'h ? ''k7''');
SELECT * FROM compare('gist', 'h', 'h @> ''k7=>17''');
SELECT * FROM compare('gist', 'arr gist__int_ops', 'arr && ARRAY[3, 50]');
SELECT * FROM compare('gist', 'l', 'l ~ ''*.b7.*''');
SELECT * FROM compare('btree', 'l', 'l > ''top.a3''', 'l DESC');
SELECT * FROM compare('gist', 'c', 'c && ''(10,10),(40,50)''::cube', NULL, 'c');
SELECT * FROM compare('gist', 's', 's && ''100 .. 200''::seg', NULL, 's');
-- after VACUUM, pages all-visible again
VACUUM t;
SELECT * FROM compare('btree', 'nm, id', 'nm > ''n3''', 'nm, id', 'nm, id');
SELECT * FROM compare('gist', 'p', 'p <@ box ''(10,10),(150,150)''', NULL, 'p');
SELECT * FROM compare('spgist', 'x', 'x > ''word3'' AND x < ''word6''', NULL, 'x');

SET client_min_messages = warning;
DROP SCHEMA test_index_types CASCADE;
