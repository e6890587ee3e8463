# Whatever is forbidden or missing: the server starts, answers correctly, and
# says once what it fell back to, why, and what to change.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('fallback', 'aiostream.io_method' => 'auto');
create_tables($node, 4);
my $expected = value($node, 'SET aiostream.enable = off; SELECT count(*), sum(x), sum(length(pad)) FROM h');
my $question = 'SELECT count(*), sum(x), sum(length(pad)) FROM';
my $best = method_in_use($node);
my $unprivileged = `grep CapEff /proc/self/status` =~ /CapEff:\s+0+$/m;

# Cold answers, in new sessions each.  The counters are those of the last
# round: only direct reads are never made on the spot because they are cached.
sub answers
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $direct (qw(off auto on))
	{
		is(value($node, qq{SET aiostream.direct_io = $direct; SET aiostream.debug_force_nodes = on;
				SELECT aiostream_evict('h'), aiostream_evict('a'), aiostream_stat_reset() \\g /dev/null
				$question h; $question a}),
			"$expected\n$expected", "$what: right answers, direct $direct");
	}
	nothing_left($node, $what);
	return;
}

# Message, with its DETAIL and HINT, exactly once since $offset
sub said_once
{
	my ($offset, $message, $hint, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $log = log_since($node, $offset);
	is(count_in($log, $message), 1, "$what: said once");
	is(count_in($log, qr/HINT:  $hint/), 1, "$what: with a hint");
	is(count_in($log, qr/PANIC|TRAP|was terminated by/), 0, "$what: no crash");
	return;
}

# Starts through a command in front of pg_ctl; returns where the log began.
sub start_restricted
{
	my ($what, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $offset = -s $node->logfile;
	ok(start_through($node, @command), "$what: the server starts");
	return $offset;
}

# --- io_uring forbidden by a seccomp filter -------------------------------

SKIP:
{
	my $tool = PostgreSQL::Test::Utils::tempdir() . '/no_io_uring';
	my $source = "$FindBin::Bin/../tools/no_io_uring.c";
	skip 'no C compiler, or no seccomp', 1
	  if system("cc -o $tool $source && $tool 1 true") != 0;

	foreach my $errno ([ 1, 'EPERM' ], [ 38, 'ENOSYS' ])
	{
		my $what = "seccomp says $errno->[1]";
		$node->stop;
		my $offset = start_restricted($what, $tool, $errno->[0]);
		is(method_in_use($node), 'worker', "$what: falls back to workers");
		like(value($node, "SELECT detail FROM aiostream_info() WHERE name = 'io_method'"),
			qr/^io_uring is not usable: .*seccomp profile/, "$what: aiostream_info() says why");
		await($node, "SELECT value = '3' FROM aiostream_info() WHERE name = 'io_workers_running'");
		answers($what);
		cmp_ok(counters($node)->{worker_reads}, '>', 0, "$what: workers read");
		is(counters($node)->{io_uring_reads}, 0, "$what: io_uring did not");
		said_once($offset, qr/LOG:  aiostream cannot use io_uring and falls back to I\/O workers/,
			qr/.*allow the io_uring system calls in (the container's|its) seccomp profile/i, $what);
	}

	# asked for by name, it is a WARNING
	$node->stop;
	AiostreamTest::configure($node, 'aiostream.io_method' => 'io_uring');
	my $offset = start_restricted('io_uring by name', $tool, 1);
	is(method_in_use($node), 'worker', 'io_uring by name: falls back to workers');
	said_once($offset, qr/WARNING:  aiostream cannot use io_uring and falls back to I\/O workers/,
		qr/Allow the io_uring system calls/, 'io_uring by name');
	# and what is not asked for is not complained about
	$node->stop;
	AiostreamTest::configure($node, 'aiostream.io_method' => 'worker');
	$offset = start_restricted('workers by name', $tool, 1);
	is(count_in(log_since($node, $offset), qr/io_uring/), 0, 'workers by name: no word about io_uring');
}
restart_with($node, 'aiostream.io_method' => 'auto');

# --- no locked memory ------------------------------------------------------

# Newer kernels charge rings against the limit, and root is exempt.
{
	my $what = 'memlock 0';
	$node->stop;
	my $offset = start_restricted($what, 'sh', '-c', 'ulimit -l 0 && exec "$@"', 'sh');
	is(fact($node, 'memlock_limit'), '0kB', "$what: the fact");
	answers($what);
	my $method = method_in_use($node);
	if ($method eq 'worker' && $best eq 'io_uring')
	{
		said_once($offset, qr/cannot use io_uring and falls back to I\/O workers/,
			qr/Raise the limit on locked memory/, $what);
		like(value($node, "SELECT detail FROM aiostream_info() WHERE name = 'io_method'"),
			qr/limit on locked memory is too low/, "$what: aiostream_info() says why");
	}
	else
	{
		is($method, $best, "$what: this kernel does not charge for rings");
		is(count_in(log_since($node, $offset), qr/HINT:.*locked memory/), 0, "$what: nothing to say");
	}
}

# --- few descriptors, many connections ------------------------------------

foreach my $method ('auto', 'worker', 'sync')
{
	my $what = "256 descriptors, 1000 connections, $method";
	$node->stop;
	AiostreamTest::configure($node, 'aiostream.io_method' => $method, max_connections => 1000);
	my $offset = start_restricted($what, 'sh', '-c', 'ulimit -n 256 && exec "$@"', 'sh');
	is(fact($node, 'nofile_limit'), '256', "$what: the fact");
	is(value($node, 'SHOW max_connections'), 1000, "$what: max_connections");
	is(method_in_use($node), $method eq 'auto' ? $best : $method, "$what: the method is to be had");

	# a number of sessions at once
	my @sessions = map { session($node, 'aiostream.debug_force_nodes = on') } 1 .. 8;
	evict($node, 'h');
	launch($_, "$question h") foreach @sessions;
	is(outcome($_), $expected, "$what: right answer in parallel sessions") foreach @sessions;
	leave($_) foreach @sessions;
	answers($what);
	is(count_in(log_since($node, $offset), qr/FATAL|PANIC|TRAP|too many open files/i), 0, "$what: no failure");
}
AiostreamTest::configure($node, max_connections => 30);

# --- no room for background workers ----------------------------------------

foreach my $method ($best eq 'io_uring' ? ('io_uring') : (), 'worker')
{
	my $what = "max_worker_processes 0, $method";
	my $offset = -s $node->logfile;
	restart_with($node, 'aiostream.io_method' => $method, max_worker_processes => 0,
		max_logical_replication_workers => 0);
	is(fact($node, 'reaper_pid'), '', "$what: no reaper");
	is(fact($node, 'async_reads'), 'off', "$what: nothing is left in flight");
	answers($what);
	my $counters = counters($node);
	is($counters->{sync_reads}, $counters->{reads}, "$what: reads are made on the spot");
	cmp_ok($counters->{fallback_no_reaper} + $counters->{fallback_no_worker}, '>', 0, "$what: counted");
	said_once($offset, qr/aiostream executes all reads synchronously: its reaper process could not be registered/,
		qr/Increase "max_worker_processes" \(now 0\) and restart the server/, $what);

	# room for the reaper only
	$what = "max_worker_processes 1, $method";
	$offset = -s $node->logfile;
	restart_with($node, 'aiostream.io_method' => $method, max_worker_processes => 1);
	await($node, "SELECT value IS NOT NULL FROM aiostream_info() WHERE name = 'reaper_pid'", 'the reaper');
	is(fact($node, 'io_workers_running'), 0, "$what: no workers");
	answers($what);
	$counters = counters($node);
	if ($method eq 'io_uring')
	{
		is($counters->{io_uring_reads}, $counters->{reads}, "$what: io_uring needs no workers");
		is(count_in(log_since($node, $offset), qr/no free background worker slot/), 0, "$what: nothing to say");
	}
	else
	{
		is($counters->{sync_reads}, $counters->{reads}, "$what: reads are made on the spot");
		cmp_ok($counters->{fallback_no_worker}, '>', 0, "$what: counted");
		said_once($offset, qr/could not start aiostream I\/O worker 1 of 3: no free background worker slot/,
			qr/Increase "max_worker_processes" or decrease "aiostream.io_workers"/, $what);
	}
}

# --- a process that cannot have a ring -------------------------------------

SKIP:
{
	skip 'io_uring is not usable here', 1 if $best ne 'io_uring';
	my $what = 'no ring';
	my $offset = -s $node->logfile;
	restart_with($node, 'aiostream.io_method' => 'io_uring', max_worker_processes => 8);
	is(fact($node, 'io_workers_running'), 0, "$what: no workers before");
	arm($node, 'ring_setup', 'fail');
	answers($what);
	await($node, "SELECT value = '3' FROM aiostream_info() WHERE name = 'io_workers_running'",
		'the workers that take over');
	answers("$what, workers started");
	my $counters = counters($node);
	is($counters->{io_uring_reads}, 0, "$what: io_uring does not read");
	is($counters->{worker_reads}, $counters->{reads}, "$what: workers read") or diag explain $counters;
	is($counters->{fallback_ring}, 1, "$what: counted once a process");
	said_once($offset, qr/LOG:  could not create an io_uring instance: Cannot allocate memory/,
		qr/Raise the limit on locked memory \(LimitMEMLOCK=, ulimit -l\) of the server/, $what);

	# it concerns processes that come meanwhile only
	disarm($node, 'ring_setup');
	answers('rings again');
	$counters = counters($node);
	is($counters->{io_uring_reads}, $counters->{reads}, 'rings again: io_uring reads');

	# no room for workers either
	restart_with($node, max_worker_processes => 1);
	arm($node, 'ring_setup', 'fail');
	answers('no ring, no workers');
	$counters = counters($node);
	is($counters->{sync_reads}, $counters->{reads}, 'no ring, no workers: on the spot');
}

# --- a ring that the kernel takes nothing from -------------------------------

restart_with($node, 'aiostream.io_method' => 'auto', max_worker_processes => 8);
SKIP:
{
	skip 'io_uring does not work here', 1 if $best ne 'io_uring';
	# by index: single pages, which go to the kernel many at a time
	my $sparse = q{SET enable_seqscan = off; SET enable_indexscan = off; SET aiostream.enable_indexscan = off;
		SELECT count(*), sum(x), sum(length(pad)) FROM h WHERE x BETWEEN 500 AND 505};
	value($node, 'CREATE INDEX h_x ON h (x); ANALYZE h');
	my $right = value($node, "SET aiostream.enable = off; $sparse");
	foreach my $action ('fail', 'fail 1', 'fail 3')
	{
		my $what = "the kernel takes nothing, $action";
		my $cold = q{SET aiostream.direct_io = on; SET aiostream.debug_force_nodes = on;
			SELECT aiostream_evict('h'), aiostream_stat_reset() \\g /dev/null
		};
		arm($node, 'ring_submit', $action);
		is(value($node, "$cold $sparse"), $right, "$what: right answer");
		my $counters = counters($node);
		cmp_ok($counters->{worker_reads} + $counters->{sync_reads}, '>', 0, "$what: others read") or diag explain $counters;
		is($counters->{io_uring_reads} > 0 ? 't' : 'f', $action eq 'fail' ? 'f' : 't', "$what: the rest by io_uring") or diag explain $counters;
		nothing_left($node, $what);
		disarm($node, 'ring_submit');
	}
}

# --- no handle -------------------------------------------------------------

restart_with($node, 'aiostream.io_method' => 'auto', max_worker_processes => 8);
arm($node, 'no_handle', 'fail');
answers('no handle');
is(counters($node)->{reads}, 0, 'no handle: core reads everything');
disarm($node, 'no_handle');
still_streams($node, 'h', (split /\|/, $expected)[0], 'handles again');

$node->stop;
done_testing();
