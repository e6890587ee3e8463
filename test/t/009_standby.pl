# A streaming standby: answers equal the primary's, a conflict with recovery
# leaves nothing behind, and after promotion it goes on.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', streaming => 1, 'aiostream.debug_force_nodes' => 'on',
	'aiostream.io_method' => 'auto', shared_buffers => '8MB');
my @usable = usable_methods($primary);
my $question = q{SELECT count(*), sum(x), md5(string_agg(md5(t::text), '' ORDER BY id)) FROM};
create_tables($primary, 3);
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
AiostreamTest::configure($standby, hot_standby => 'on', max_standby_streaming_delay => '1h');
$standby->start;

my $n = 0;
foreach my $method (all_methods())
{
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		restart_with($standby, 'aiostream.io_method' => $method);
		await($standby, "SELECT value IS NOT NULL FROM aiostream_info() WHERE name = 'reaper_pid'", 'the reaper');
		is(value($standby, 'SELECT pg_is_in_recovery()'), 't', "$method: a standby");
		foreach my $direct (qw(on off auto))
		{
			my $what = "$method, direct $direct";
			# changes, VACUUM's records among them
			$n++;
			value($primary, "UPDATE $_ SET x = x + 1 WHERE id % 7 = $n % 7; DELETE FROM $_ WHERE id % 500 = $n; VACUUM $_")
			  foreach qw(h a);
			$primary->wait_for_catchup($standby);
			value($standby, 'SELECT aiostream_stat_reset()');
			foreach my $table (qw(h a))
			{
				evict($standby, $table);
				is(value($standby, "SET aiostream.direct_io = $direct; $question $table t"),
					value($primary, "SET aiostream.enable = off; $question $table t"),
					"$what: $table equals the primary's");
			}
			my $counters = counters($standby);
			cmp_ok($counters->{reads}, '>', 0, "$what: the standby reads ahead");
			is($counters->{"${method}_reads"}, $counters->{reads}, "$what: by $method") if $direct eq 'on' || $method eq 'sync';
		}
		conflict($method);
		nothing_left($standby, $method);
	}
}

# what only a primary may do
{
	my ($ret, $out, $error) = $standby->psql('postgres', "SELECT aiostream_write_out('h')");
	like($error, qr/ERROR:  recovery is in progress/, 'a standby does not write');
	is(value($standby, "SELECT aiostream_prewarm('h') > 0"), 't', 'but reads');
}

# under replay: the answer of a moment, the same in both ways
{
	my $writer = session($primary);
	launch($writer, join ";\n", map { "UPDATE a SET x = x + 1 WHERE id % 10 = $_" } 0 .. 9);
	foreach my $i (1 .. 5)
	{
		evict($standby, 'a');
		my ($ours, $plain) = split /\n/, value($standby,
			"BEGIN ISOLATION LEVEL REPEATABLE READ; $question a t; SET aiostream.enable = off; $question a t; COMMIT");
		is($ours, $plain, "under replay $i: equal under one snapshot");
	}
	outcome($writer);
	leave($writer);
	$primary->wait_for_catchup($standby);
}

$standby->promote;
await($standby, 'SELECT NOT pg_is_in_recovery()', 'promotion');
foreach my $table (qw(h a))
{
	evict($standby, $table);
	is(value($standby, "$question $table t"), value($primary, "SET aiostream.enable = off; $question $table t"),
		"promoted: $table equals the old primary's");
}
value($standby, 'UPDATE a SET x = 1 WHERE id % 2 = 0; DELETE FROM a WHERE id % 3 = 0');
evict($standby, 'a');
is(value($standby, "$question a t"), value($standby, "SET aiostream.enable = off; $question a t"), 'promoted: written and read');
nothing_left($standby, 'promoted');
is(count_in(log_since($standby), qr/PANIC|TRAP|terminated by signal/), 0, 'no crash');
$_->stop foreach $standby, $primary;
done_testing();

# Recovery cancels a query whose rows are vacuumed away, with reads in flight.
sub conflict
{
	my ($method) = @_;
	my $what = "$method, conflict";
	value($standby, q{ALTER SYSTEM SET max_standby_streaming_delay = '50ms'; SELECT pg_reload_conf()});
	value($primary, 'CREATE TABLE IF NOT EXISTS c (LIKE h) USING aioheap; INSERT INTO c SELECT * FROM h');
	$primary->wait_for_catchup($standby);
	evict($standby, 'c');
	my $session = session($standby);
	ask($session, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nDECLARE c CURSOR FOR SELECT * FROM c;\nMOVE 500 FROM c");
	my $offset = -s $standby->logfile;
	# the lock conflicts as well as the rows
	value($primary, 'DELETE FROM c; VACUUM c; TRUNCATE c');
	$primary->wait_for_catchup($standby);
	like(ask_error($session, 'MOVE ALL FROM c'), qr/(ERROR|FATAL):  (canceling statement|terminating connection) due to conflict with recovery/,
		"$what: cancelled");
	leave($session);
	nothing_left($standby, $what);
	is(value($standby, 'SELECT count(*) FROM c'), 0, "$what: the table is empty");
	value($standby, q{ALTER SYSTEM RESET max_standby_streaming_delay; SELECT pg_reload_conf()});
	return;
}
