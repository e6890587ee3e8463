# The library is not in shared_preload_libraries: tables work, functions say
# what to do; and the way in and out of the extension.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('not_preloaded', preload => 0);
create_tables($node, 2);
is(value($node, 'SHOW shared_preload_libraries'), '', 'not preloaded');
my $question = 'SELECT count(*), sum(x), sum(length(pad)) FROM';
my $expected = value($node, "$question h");

# --- tables -------------------------------------------------------------------

is(value($node, "SELECT amname FROM pg_am JOIN pg_class ON relam = pg_am.oid WHERE relname = 'a'"), 'aioheap',
	'the access method');
is(value($node, "$question a"), $expected, 'read');
unlike(value($node, 'EXPLAIN SELECT count(*) FROM a'), qr/Aio/, 'by a plain scan');
value($node, q{
	CREATE UNIQUE INDEX a_id ON a (id, x, pad);
	INSERT INTO a SELECT -g, g, 'new' FROM generate_series(1, 2000) g;
	UPDATE a SET x = x + 1 WHERE id < -1000;
	DELETE FROM a WHERE id BETWEEN -500 AND -400;
	VACUUM a;
});
is(value($node, 'SELECT count(*), sum(x) FROM a WHERE id < 0'), '1899|1956550', 'written');
is(value($node, 'SET enable_seqscan = off; SELECT count(*) FROM a WHERE id = -7'), 1, 'read through an index');
value($node, 'DELETE FROM a WHERE id < 0');
value($node, 'CREATE TABLE toasted (t text) USING aioheap; INSERT INTO toasted SELECT string_agg(md5(g::text), \'\') FROM generate_series(1, 5000) g');
is(value($node, 'SELECT md5(t) = md5((SELECT string_agg(md5(g::text), \'\') FROM generate_series(1, 5000) g)) FROM toasted'), 't', 'TOAST');

# --- functions ----------------------------------------------------------------

foreach my $call ('* FROM aiostream_info()', '* FROM pg_stat_aiostream', '* FROM aiostream_ios',
	'aiostream_stat_reset()', "aiostream_evict('a')", "* FROM aiostream_bench_read('a', 'sequential')",
	"* FROM aiostream_bench_query('SELECT 1')", "aiostream_debug_fault('reaper', 'off')",
	"aiostream_debug_fault_waiters('reaper')")
{
	my ($ret, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	like($stderr, qr/ERROR:  55000: aiostream must be loaded via shared_preload_libraries/, "$call: the error");
	like($stderr, qr/HINT:  Add "aiostream" to shared_preload_libraries and restart the server\./, "$call: the hint");
}
is(value($node, "LOAD 'aiostream'; SHOW aiostream.enable"), 'on', 'settings after LOAD');
my ($ret, $stdout, $stderr) = $node->psql('postgres', 'SHOW aiostream.enable');
like($stderr, qr/unrecognized configuration parameter "aiostream.enable"/, 'no settings without');
# settings that the library would know do not disturb
AiostreamTest::configure($node, 'aiostream.io_method' => 'worker', 'aiostream.direct_io' => 'on');
$node->restart;
is(value($node, "$question a"), $expected, 'settings in postgresql.conf do not disturb');
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal/), 0, 'no crash');

# --- in and out ---------------------------------------------------------------

($ret, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nDROP EXTENSION aiostream");
like($stderr, qr/ERROR:  2BP01: cannot drop extension aiostream because other objects depend on it/, 'DROP EXTENSION is refused');
like($stderr, qr/table $_ depends on access method aioheap/, "because of $_") foreach qw(a toasted);
is(value($node, "$question a"), $expected, 'and nothing is lost');

# one by PostgreSQL's own means, the others by what README says
value($node, 'ALTER TABLE toasted SET ACCESS METHOD heap');
my ($way_back) = slurp_file("$FindBin::Bin/../../README.md") =~
  /`DROP EXTENSION aiostream` is refused.*?```sql\n(.*?)```/s;
like($way_back, qr/pg_class.*aioheap/s, 'README shows the way back');
value($node, $way_back);
is(value($node, "SELECT count(*) FROM pg_am JOIN pg_class ON relam = pg_am.oid WHERE amname = 'aioheap'"), 0, 'all are heap');
is(value($node, "$question a"), $expected, 'with their rows');
is(value($node, 'SET enable_seqscan = off; SELECT count(*) FROM a WHERE id = 1'), 1, 'and their indexes');
value($node, 'DROP EXTENSION aiostream');
is(value($node, "SELECT count(*) FROM pg_am WHERE amname = 'aioheap'"), 0, 'DROP EXTENSION works then');
is(value($node, "SELECT count(*) FROM pg_proc WHERE proname LIKE 'aiostream%'"), 0, 'and leaves no function');

# CASCADE drops tables
value($node, 'CREATE EXTENSION aiostream; CREATE TABLE lost USING aioheap AS SELECT 1 AS n');
($ret, $stdout, $stderr) = $node->psql('postgres', 'DROP EXTENSION aiostream CASCADE');
is($ret, 0, 'CASCADE');
like($stderr, qr/drop cascades to table lost/, 'CASCADE says what it drops');
is(value($node, "SELECT to_regclass('lost') IS NULL"), 't', 'CASCADE drops tables');

# and into a schema of the user's choice
value($node, 'CREATE SCHEMA elsewhere; CREATE EXTENSION aiostream SCHEMA elsewhere');
is(value($node, "SELECT count(*) FROM pg_proc WHERE proname LIKE 'aiostream%' AND pronamespace <> 'elsewhere'::regnamespace"), 0,
	'all objects are in the chosen schema');

# --- preloaded from now on, and no more ---------------------------------------

value($node, 'ALTER TABLE a SET ACCESS METHOD aioheap');
restart_with($node, shared_preload_libraries => 'aiostream', 'aiostream.io_method' => 'auto');
is(value($node, "SELECT count(*) FROM elsewhere.aiostream_info() WHERE name = 'io_method'"), 1, 'preloaded: functions work');
is(value($node, "SET aiostream.debug_force_nodes = on; SELECT elsewhere.aiostream_evict('a') \\g /dev/null\n$question a"), $expected, 'preloaded: right answer');
cmp_ok(value($node, 'SELECT reads FROM elsewhere.pg_stat_aiostream'), '>', 0, 'preloaded: with look-ahead');
# heap tables need no extension
value($node, 'CREATE DATABASE plain');
like($node->safe_psql('plain', 'CREATE TABLE t AS SELECT g, md5(g::text) FROM generate_series(1, 50000) g; ANALYZE t; EXPLAIN SELECT count(*) FROM t'),
	qr/AioSeqScan/, 'preloaded: heap tables in databases without the extension');
restart_with($node, shared_preload_libraries => '');
is(value($node, "$question a"), $expected, 'not preloaded any more: right answer');

$node->stop;
done_testing();
