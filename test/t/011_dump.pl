# Ways of taking aioheap tables elsewhere: pg_dump and pg_restore, base
# backup and point-in-time recovery, a standby (without the library preloaded,
# too), logical decoding, pg_upgrade.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tmp = PostgreSQL::Test::Utils::tempdir();
my $node = new_server('origin', streaming => 1, wal_level => 'logical');
$node->enable_archiving;
$node->restart;

# One table of each kind, made as aioheap and adopted; "twin" stays heap.
value($node, q{
	CREATE EXTENSION amcheck;
	CREATE TABLE made (id int PRIMARY KEY, v int, doc text) USING aioheap;
	ALTER TABLE made ALTER doc SET STORAGE EXTERNAL;
	INSERT INTO made SELECT g, g % 100, repeat('d', CASE WHEN g % 500 = 0 THEN 9000 ELSE 60 END) FROM generate_series(1, 5000) g;
	CREATE INDEX ON made (v);
	CREATE TABLE twin (LIKE made INCLUDING ALL);
	INSERT INTO twin SELECT * FROM made;
	CREATE TABLE adopted (LIKE made INCLUDING ALL);
	INSERT INTO adopted SELECT * FROM made;
	SELECT aiostream_adopt('adopted');
	CREATE TABLE released (LIKE made INCLUDING ALL) USING aioheap;
	INSERT INTO released SELECT * FROM made;
	SELECT aiostream_release('released');
	CREATE MATERIALIZED VIEW mv USING aioheap AS SELECT id, v FROM made;
	CREATE TABLE parted (id int, v int) PARTITION BY RANGE (id);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (2500);
	CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (2500) TO (9000);
	INSERT INTO parted SELECT id, v FROM made;
	SELECT aiostream_adopt('parted');
	CREATE UNLOGGED TABLE unlogged USING aioheap AS SELECT id FROM made;
});

my $methods = q{SELECT string_agg(c.relname || ' ' || a.amname, ', ' ORDER BY c.relname)
	FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'm')};
my $mixed = 'adopted aioheap, made aioheap, mv aioheap, parted_1 aioheap, parted_2 aioheap, released heap, twin heap, unlogged aioheap';
(my $heap = $mixed) =~ s/aioheap/heap/g;
my $content = join ' UNION ALL ', (map { "SELECT '$_', count(*), sum(v), sum(length(doc)) FROM $_" } qw(made adopted released twin)),
  (map { "SELECT '$_', count(*), sum(v), NULL FROM $_" } qw(mv parted));
my $expected = value($node, $content);
is(value($node, $methods), $mixed, 'access methods to begin with');

sub in { my ($node, $database, $sql) = @_; return $node->safe_psql($database, $sql); }

# A database has the tables, with these access methods, sound
sub arrived
{
	my ($node, $database, $expect_methods, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(in($node, $database, $methods), $expect_methods, "$what: access methods");
	is(in($node, $database, $content), $expected, "$what: content");
	return;
}
sub sound
{
	my ($node, $database, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(in($node, $database, q{
		SELECT count(*) FILTER (WHERE v.msg IS NOT NULL), count(DISTINCT c.oid)
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam LEFT JOIN LATERAL aiostream_verify(c.oid::regclass) v ON true
		WHERE a.amname = 'aioheap' AND c.relkind IN ('r', 'm') AND c.relpersistence = 'p'}),
		'0|5', "$what: sound");
	return;
}

# --- pg_dump, pg_restore --------------------------------------------------

sub dump_all { my (@options) = @_; $node->command_ok([ 'pg_dump', @options, 'postgres' ], "pg_dump @options"); return; }
sub restored
{
	my ($database, $expect_methods, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
	$node->command_ok([ @command ], "restore to $database");
	arrived($node, $database, $expect_methods, $database);
	is(in($node, $database, q{SELECT count(*) FROM pg_depend d JOIN pg_am a ON a.oid = d.refobjid
		WHERE d.refclassid = 'pg_am'::regclass AND d.classid = 'pg_class'::regclass AND a.amname = 'aioheap'}),
		() = $expect_methods =~ /aioheap/g, "$database: dependencies");
	return;
}

dump_all('-f', "$tmp/plain.sql");
my $plain = slurp_file("$tmp/plain.sql");
like($plain, qr/^SET default_table_access_method = aioheap;$/m, 'plain dump sets the access method');
like($plain, qr/^CREATE EXTENSION IF NOT EXISTS aiostream /m, 'plain dump creates the extension');
unlike($plain, qr/aiostream_adopt|CREATE ACCESS METHOD/, 'the extension\'s objects are not in the dump');
restored('from_plain', $mixed, 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'from_plain', '-f', "$tmp/plain.sql");
sound($node, 'from_plain', 'from_plain');

dump_all('--no-table-access-method', '-f', "$tmp/plain_without.sql");
unlike(slurp_file("$tmp/plain_without.sql"), qr/default_table_access_method|aioheap/, 'plain dump without access methods');
restored('from_plain_without', $heap, 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'from_plain_without', '-f', "$tmp/plain_without.sql");

dump_all('-Fc', '-f', "$tmp/custom");
restored('from_custom', $mixed, 'pg_restore', '-e', '-d', 'from_custom', "$tmp/custom");
restored('from_custom_without', $heap, 'pg_restore', '-e', '--no-table-access-method', '-d', 'from_custom_without', "$tmp/custom");
dump_all('-Fd', '-j2', '-f', "$tmp/directory");
restored('from_directory', $mixed, 'pg_restore', '-e', '-j2', '-d', 'from_directory', "$tmp/directory");

# --- logical decoding -----------------------------------------------------

SKIP:
{
	skip 'test_decoding is not installed', 3
	  unless $node->psql('postgres', "SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')") == 0;
	my @changes = map { my $change = $_; [ map { (my $c = $change) =~ s/REL/$_/g; $c } qw(made twin) ] } (
		"INSERT INTO REL VALUES (9001, 1, repeat('toasted', 2000)), (9002, 2, 'x')",
		'UPDATE REL SET v = v + 1 WHERE id = 9001',
		'UPDATE REL SET id = 9003 WHERE id = 9002',
		"BEGIN; INSERT INTO REL VALUES (9004, 4, 'x'); SAVEPOINT a; INSERT INTO REL VALUES (9005, 5, 'x'); ROLLBACK TO a; COMMIT",
		'ALTER TABLE REL REPLICA IDENTITY FULL',
		'UPDATE REL SET doc = NULL WHERE id = 9003',
		'DELETE FROM REL WHERE id > 9000',
		'ALTER TABLE REL REPLICA IDENTITY DEFAULT');
	my @decoded;
	foreach my $table (0, 1)
	{
		value($node, $_->[$table]) foreach @changes;
		my $stream = value($node, "SELECT data FROM pg_logical_slot_get_changes('decoded', NULL, NULL, 'include-xids', '0')");
		$stream =~ s/public\.(made|twin)/public.REL/g;
		push @decoded, $stream;
	}
	like($decoded[0], qr/UPDATE.*unchanged-toast-datum/, 'decoding shows changes of an aioheap table');
	is($decoded[0], $decoded[1], 'and they are the same as for heap');
	# switched in the middle of a transaction, and to and fro before it is decoded
	value($node, q{BEGIN; INSERT INTO made VALUES (9001, 1, 'before'); SELECT aiostream_release('made');
		INSERT INTO made VALUES (9002, 1, 'after'); COMMIT;
		DELETE FROM made WHERE id > 9000; SELECT aiostream_adopt('made')});
	is(value($node, "SELECT count(*) FROM pg_logical_slot_get_changes('decoded', NULL, NULL) WHERE data LIKE 'table public.made: %'"),
		4, 'changes around a switch are decoded');
	value($node, "SELECT pg_drop_replication_slot('decoded')");
}

# --- base backup, standby -------------------------------------------------

$node->backup('backup');

foreach my $preload (1, 0)
{
	my $what = $preload ? 'standby' : 'standby without the library preloaded';
	my $standby = PostgreSQL::Test::Cluster->new($preload ? 'standby' : 'standby_bare');
	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	# the archive is the origin's
	$standby->append_conf('postgresql.conf', "archive_mode = off");
	$standby->append_conf('postgresql.conf', "shared_preload_libraries = ''") unless $preload;
	$standby->start;
	$node->wait_for_catchup($standby);
	arrived($standby, 'postgres', $mixed, $what);
	sound($standby, 'postgres', $what);
	my ($ret, $out, $error) = $standby->psql('postgres', "SELECT aiostream_release('made')");
	like($error, qr/cannot execute aiostream_release\(\) in a read-only transaction/, "$what: nothing is switched there");

	# what the primary switches, its sessions see, their plans included
	my $session = session($standby, 'plan_cache_mode = force_generic_plan');
	ask($session, 'PREPARE q AS SELECT count(*) FROM made');
	is(ask($session, 'EXECUTE q'), 5000, "$what: prepared plan");
	value($node, "SELECT aiostream_release('made'); DELETE FROM made WHERE id > 4900");
	$node->wait_for_catchup($standby);
	is(ask($session, 'EXECUTE q'), 4900, "$what: the same after the table was released");
	value($node, "SELECT aiostream_adopt('made'); INSERT INTO made SELECT * FROM twin WHERE id > 4900");
	$node->wait_for_catchup($standby);
	is(ask($session, 'EXECUTE q'), 5000, "$what: and adopted");
	leave($session);

	$standby->promote;
	$standby->safe_psql('postgres', "UPDATE made SET v = v; VACUUM made; SELECT aiostream_release('mv'); SELECT aiostream_adopt('mv')");
	arrived($standby, 'postgres', $mixed, "$what, promoted");
	sound($standby, 'postgres', "$what, promoted");
	$standby->stop;
}

# --- point-in-time recovery -----------------------------------------------

value($node, "SELECT pg_create_restore_point('before')");
value($node, 'SELECT aiostream_release_schema(\'public\')');
value($node, 'DELETE FROM made; TRUNCATE adopted');
my $last_wal = value($node, 'SELECT pg_walfile_name(pg_current_wal_lsn())');
value($node, 'SELECT pg_switch_wal()');
await($node, "SELECT last_archived_wal >= '$last_wal' FROM pg_stat_archiver", 'WAL is archived');
is(value($node, $methods), $heap, 'all released');
my $recovered = PostgreSQL::Test::Cluster->new('recovered');
$recovered->init_from_backup($node, 'backup', has_restoring => 1, standby => 0);
$recovered->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_name = 'before'\nrecovery_target_action = 'promote'");
$recovered->start;
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
arrived($recovered, 'postgres', $mixed, 'recovered to before that');
sound($recovered, 'postgres', 'recovered to before that');
is(in($recovered, 'postgres', 'SELECT count(*) FROM unlogged'), 0, 'unlogged table is empty after recovery');

# --- pg_upgrade -----------------------------------------------------------

# from a server with the library preloaded (which starts no workers in binary
# upgrade mode) to one without
my $new = PostgreSQL::Test::Cluster->new('upgraded');
$new->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$recovered->stop;
my $bindir = $recovered->config_data('--bindir');
chdir $tmp or die;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $recovered->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir,
	'-s', $new->host, '-p', $recovered->port, '-P', $new->port ], 'pg_upgrade');
$new->start;
foreach my $preload (0, 1)
{
	my $what = $preload ? 'upgraded, preloading' : 'upgraded, not preloading';
	restart_with($new, shared_preload_libraries => 'aiostream') if $preload;
	arrived($new, 'postgres', $mixed, $what);
	sound($new, 'postgres', $what);
	is(in($new, 'postgres', "SELECT aiostream_release('made'); SELECT aiostream_adopt('made'); SELECT count(*) FROM made"),
		"\n\n5000", "$what: there and back");
}
$new->stop;
$node->stop;
done_testing();
