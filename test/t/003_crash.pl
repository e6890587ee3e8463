# kill -9 in the middle of reads: of a backend, an I/O worker, the reaper, the
# postmaster.  Afterwards the data is right, reads are direct and without
# copies as before, and shared_buffers is what it was.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $question = 'SELECT count(*), sum(x), sum(length(pad)) FROM';

my $node = new_server('crash', 'aiostream.direct_io' => 'on', 'aiostream.debug_force_nodes' => 'on',
	initdb => ['--data-checksums']);
my @usable = usable_methods($node);
create_tables($node, 4);
# changes that only WAL knows
value($node, 'CREATE TABLE log (n int) USING aioheap');
my $logged = 0;

foreach my $method (all_methods())
{
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		restart_with($node, 'aiostream.io_method' => $method);
		foreach my $victim ('backend', 'reaper', $method eq 'worker' ? ('io worker') : (), 'postmaster')
		{
			kill_one($method, $victim);
		}
	}
}
$node->stop;
done_testing();

sub kill_one
{
	my ($method, $victim) = @_;
	my $what = "$method, $victim killed";
	my $expected = value($node, "SET aiostream.enable = off; $question h");

	await($node, "SELECT value::int > 0 FROM aiostream_info() WHERE name = 'io_workers_running'")
	  if $method eq 'worker';
	await($node, "SELECT value IS NOT NULL FROM aiostream_info() WHERE name = 'reaper_pid'");

	# Hold reads in flight: nobody looks at a ring, and workers do not read.
	evict($node, 'h', 'a');
	value($node, "INSERT INTO log SELECT generate_series(1, 500); DELETE FROM a WHERE id % 1000 = 1; UPDATE h SET x = x")
	  if $victim eq 'backend' || $victim eq 'postmaster';
	value($node, 'INSERT INTO log VALUES (0)');
	$logged = value($node, 'SELECT count(*) FROM log');
	my $expected_a = value($node, "SET aiostream.enable = off; $question a");
	evict($node, 'h', 'a');
	my $point = $method eq 'worker' ? 'worker_read' : 'submitted';
	arm($node, 'reaper', 'pause') if $method eq 'io_uring';
	arm($node, $point, 'pause');
	my @scans = map { session($node) } 1 .. 2;
	launch($scans[0], "$question h");
	launch($scans[1], "$question a");
	# psql's own session must not be paused: no scans of large tables in there
	paused($node, $point, 2);
	my $in_flight = value($node, 'SELECT count(*) FROM aiostream_ios');
	if ($method eq 'sync')
	{
		is($in_flight, 0, "$what: sync reads are over when submitted");
	}
	else
	{
		cmp_ok($in_flight, '>=', 2, "$what: reads in flight");
	}

	my %processes = server_processes($node);
	my @pids =
		$victim eq 'postmaster' ? $node->{_pid}
	  : $victim eq 'reaper' ? processes_like($node, qr/aiostream reaper/)
	  : $victim eq 'io worker' ? processes_like($node, qr/aiostream io worker/)
	  : value($node, "SELECT pid FROM pg_stat_activity WHERE query LIKE '$question h%' AND pid <> pg_backend_pid()");
	cmp_ok(scalar @pids, '>=', 1, "$what: found it");
	my $offset = -s $node->logfile;

	if ($victim eq 'postmaster')
	{
		my @children = keys %processes;
		$node->kill9;
		ok(wait_gone(@children), "$what: its children end");
		# the kernel may need a moment to let go of the memory
		ok(wait_until('a start', sub { $node->start(fail_ok => 1) }), "$what: starts again");
		ok($node->log_contains('database system was not properly shut down', $offset), "$what: recovery");
	}
	else
	{
		kill 'KILL', $pids[0];
		$node->wait_for_log(qr/was terminated by signal 9: Killed/, $offset);
		$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
		$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
		ok(!grep({ kill(0, $_) } grep { $processes{$_} !~ /logger/ } keys %processes),
			"$what: all old processes are gone");
	}
	leave($_) foreach @scans;

	is(method_in_use($node), $method, "$what: method afterwards");
	is(fact($node, 'direct_path'), 'zero copy', "$what: buffers aligned afterwards");
	is(value($node, 'SHOW shared_buffers'), '16MB', "$what: shared_buffers afterwards");
	is(value($node, 'SELECT count(*) FROM pg_buffercache'), 2048, "$what: number of buffers afterwards");
	is(value($node, "SET aiostream.enable = off; SELECT count(*) FROM log"), $logged, "$what: WAL was replayed");
	await($node, "SELECT value IS NOT NULL FROM aiostream_info() WHERE name = 'reaper_pid'", 'the reaper');
	await($node, "SELECT value::int = 3 FROM aiostream_info() WHERE name = 'io_workers_running'", 'workers')
	  if $method eq 'worker';
	foreach my $table (qw(h a))
	{
		evict($node, $table);
		is(value($node, "$question $table"), $table eq 'h' ? $expected : $expected_a,
			"$what: $table is right");
	}
	my $counters = counters($node);
	cmp_ok($counters->{direct_reads}, '>', 0, "$what: direct reads");
	is($counters->{bounced_reads}, 0, "$what: without copies");
	is($counters->{"${method}_reads"}, $counters->{reads}, "$what: all by $method");
	nothing_left($node, $what);
	still_streams($node, 'h', (split /\|/, $expected)[0], $what);
	is(count_in(log_since($node, $offset), qr/PANIC|TRAP|signal 6|signal 11/), 0, "$what: no other crash");
	return;
}
