-- aiostream_bench_query(): agreement, columns, what it refuses.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS aiostream;
CREATE SCHEMA test_bench_query;
SET search_path = test_bench_query, public;
CREATE TABLE t (id int, pad text);
INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 4000) g;
CREATE TABLE aio (id int, pad text) USING aioheap;
INSERT INTO aio SELECT * FROM t;
ANALYZE t, aio;

-- a row per run and contender, then the medians with run NULL; progress is in NOTICEs
SELECT run, contender, seconds > 0 AS seconds, cpu_s >= 0 AS cpu_s, rows, ratio > 0 AS ratio, agree
FROM aiostream_bench_query('SELECT count(*), sum(id) FROM t');
SELECT run, contender, rows, agree, contender = 'plain' AND ratio <> 1 AS odd
FROM aiostream_bench_query('SELECT * FROM aio WHERE id % 3 = 0', 1);
-- agreement does not depend on the order of rows, but on their contents
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT id, pad, NULL FROM t ORDER BY id DESC', 2);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT t, a FROM t JOIN aio a USING (id)', 1);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('WITH w AS MATERIALIZED (SELECT * FROM t) SELECT * FROM w', 1);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('VALUES (1), (2)', 1);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('TABLE t', 1);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT 1 WHERE false', 1);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT FROM t', 1);
-- with parallel workers
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT id % 7, count(*), sum(length(pad)) FROM t GROUP BY 1', 2);
RESET max_parallel_workers_per_gather;
-- a query whose answers differ is noticed
RESET client_min_messages;
SET client_min_messages = error;
SELECT bool_or(agree) FROM aiostream_bench_query('SELECT random()', 1);
RESET client_min_messages;

-- the session is left as it was
SHOW aiostream.enable;
SHOW transaction_read_only;
SET aiostream.enable = off;
SET client_min_messages = warning;
SELECT bool_and(agree) FROM aiostream_bench_query('SELECT sum(id) FROM t', 1);
SHOW aiostream.enable;
RESET aiostream.enable;
-- also by an error in the query
SELECT * FROM aiostream_bench_query('SELECT 1 / (id - 100) FROM t', 1);
SHOW aiostream.enable;
SHOW transaction_read_only;
INSERT INTO t VALUES (0, 'still writable');
BEGIN;
SAVEPOINT s;
SELECT * FROM aiostream_bench_query('SELECT 1 / (id - 100) FROM t', 1);
ROLLBACK TO s;
SHOW transaction_read_only;
DELETE FROM t WHERE id = 0;
COMMIT;

-- refused: writes, locks, utility statements, several statements, parameters
RESET client_min_messages;
SELECT * FROM aiostream_bench_query('INSERT INTO t VALUES (1)');
SELECT * FROM aiostream_bench_query('UPDATE t SET id = 0');
SELECT * FROM aiostream_bench_query('DELETE FROM t RETURNING id');
SELECT * FROM aiostream_bench_query('WITH w AS (DELETE FROM t RETURNING id) SELECT * FROM w');
SELECT * FROM aiostream_bench_query('SELECT * FROM t FOR UPDATE');
SELECT * FROM aiostream_bench_query('SELECT id INTO new_table FROM t');
SELECT * FROM aiostream_bench_query('CREATE TABLE new_table (id int)');
SELECT * FROM aiostream_bench_query('EXPLAIN SELECT 1');
SELECT * FROM aiostream_bench_query('SELECT 1; SELECT 2');
SELECT * FROM aiostream_bench_query('');
SELECT * FROM aiostream_bench_query('SELECT $1');
SELECT * FROM aiostream_bench_query('SELECT * FROM no_such_table');
SELECT * FROM aiostream_bench_query('SELECT 1', 0);
SELECT * FROM aiostream_bench_query('SELECT 1', 1001);
SELECT * FROM aiostream_bench_query(NULL);
-- a function that writes
CREATE FUNCTION sneaky() RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (-1) RETURNING id';
SELECT * FROM aiostream_bench_query('SELECT sneaky()', 1);
CREATE SEQUENCE s;
SELECT * FROM aiostream_bench_query('SELECT nextval(''s'')', 1);
SELECT count(*) FROM t;

-- whoever may read may run it, cold only for the owner
CREATE ROLE regress_aiostream_user;
GRANT USAGE ON SCHEMA test_bench_query TO PUBLIC;
SET ROLE regress_aiostream_user;
SELECT * FROM aiostream_bench_query('SELECT count(*) FROM t', 1);
RESET ROLE;
GRANT SELECT ON t TO PUBLIC;
SET ROLE regress_aiostream_user;
\set VERBOSITY terse
SET client_min_messages = warning;
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT * FROM t', 1);
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT * FROM temporary', 1);
SELECT bool_and(agree), min(rows) FROM aiostream_bench_query('SELECT a.amname FROM pg_am a JOIN pg_am b USING (oid) WHERE a.amname = ''heap''', 1);
RESET ROLE;
DROP OWNED BY regress_aiostream_user;
DROP ROLE regress_aiostream_user;

-- clean up
SET client_min_messages = warning;
DROP SCHEMA test_bench_query CASCADE;
