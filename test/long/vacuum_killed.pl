# kill -9 of each of those who take part in a vacuum with a follower, each time at
# each point where one of them may be: a read on its way, a write before WAL's flush,
# before and after the pages are written.  Recovery loses nothing, and VACUUM works then.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use AiostreamVacuum;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('killed', initdb => ['--data-checksums'], shared_buffers => '32MB', fsync => 'on',
	'aiostream.io_workers' => 2, 'aiostream.direct_io' => 'on', bgwriter_lru_maxpages => 0, wal_writer_delay => '10s', full_page_writes => 'off');
value($node, q{
	CREATE EXTENSION pg_visibility; CREATE EXTENSION amcheck;
	CREATE TABLE t (id int, x int, pad text) WITH (autovacuum_enabled = off, fillfactor = 70);
	INSERT INTO t SELECT g, 0, repeat('p', 660) FROM generate_series(1, 14000) g;
	CREATE INDEX ON t (id);
	CREATE INDEX ON t (x);
	VACUUM t;
});
my @usable = usable_methods($node);
my $round = 0;

# point => [method, victims].  io_uring has no process that reads; the reaper is its own.
my @all = ('vacuum', 'follower', 'io worker', 'postmaster');
my @table = (
	[ 'submitted', $usable[0], 'vacuum', 'follower', 'postmaster' ],
	[ 'reaper', 'io_uring', 'vacuum', 'follower', 'reaper', 'postmaster' ],
	[ 'worker_read', 'worker', @all ],
	[ 'write_flush', 'worker', @all ],
	[ 'write_copied', 'worker', @all ],
	[ 'write_written', 'worker', @all ]);
foreach my $line (@table)
{
	my ($point, $method, @victims) = @$line;
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		restart_with($node, 'aiostream.io_method' => $method) if method_in_use($node) ne $method;
		killed($point, $_) foreach @victims;
	}
}

$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums');
is(join("\n", grep { /PANIC|TRAP/ } split /\n/, log_since($node)), '', 'no PANIC');
done_testing();

# A dead row on each page, and x one up everywhere
sub change
{
	$round++;
	value($node, "UPDATE t SET x = x + 1 WHERE id % 10 = $round % 10; SET synchronous_commit = on; CHECKPOINT");
	return;
}

sub killed
{
	my ($point, $victim) = @_;
	my $what = "$victim killed at $point";
	change();
	my $rows = rows_of($node, 't');
	my $session = session($node, "vacuum_cost_delay = '5ms'", 'vacuum_cost_limit = 200');
	my $pid = ask($session, 'SELECT pg_backend_pid()');
	evict($node, 't');
	arm($node, $point, 'pause');
	launch($session, 'VACUUM (FREEZE) t');
	paused($node, $point);
	my %processes = server_processes($node);
	my %pids = (vacuum => [$pid], 'follower' => [ like_title(\%processes, qr/vacuum follower/) ],
		'io worker' => [ like_title(\%processes, qr/aiostream io worker/) ], reaper => [ like_title(\%processes, qr/aiostream reaper/) ]);
	my $offset = -s $node->logfile;
	if ($victim eq 'postmaster')
	{
		$node->kill9;
		ok(wait_gone(keys %processes), "$what: its children end");
		ok(wait_until('a start', sub { $node->start(fail_ok => 1) }), "$what: starts again");
	}
	else
	{
		cmp_ok(scalar @{ $pids{$victim} }, '>', 0, "$what: there is one");
		kill 'KILL', @{ $pids{$victim} };
		$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
		$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
	}
	leave($session);

	is(rows_of($node, 't'), $rows, "$what: the same rows");
	is(value($node, "SELECT count(*) FROM $view"), '0', "$what: no follower is left");
	like(vacuum($node, 't', 'FREEZE', 'on', 'SET vacuum_cost_delay = 0'), qr/^tuples: \d+ removed, 14000 remain, 0 are dead/m, "$what: VACUUM works");
	sound_table($node, $what, 't');
	nothing_left($node, $what);
	return;
}

sub like_title
{
	my ($processes, $pattern) = @_;
	my @pids = sort { $a <=> $b } grep { $processes->{$_} =~ $pattern } keys %$processes;
	return @pids;
}
