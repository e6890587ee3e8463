# Every way to stop the server, with reads in flight, and in the middle of
# crash recovery: it ends in bounded time and the data is right afterwards.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $question = 'SELECT count(*), sum(x), sum(length(pad)) FROM';
# seconds; nothing here takes a tenth of it
my $bound = 30;

my $node = new_server('shutdown', 'aiostream.debug_force_nodes' => 'on');
my @usable = usable_methods($node);
create_tables($node, 4);
my $expected = value($node, "SET aiostream.enable = off; $question h");

foreach my $method (all_methods())
{
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		foreach my $direct (qw(on off))
		{
			restart_with($node, 'aiostream.io_method' => $method, 'aiostream.direct_io' => $direct);
			stop_with_reads($method, "$method, direct $direct", $_) foreach qw(fast immediate smart);
		}
	}
}
stop_in_recovery();
done_testing();

sub stop_with_reads
{
	my ($method, $what, $mode) = @_;
	$what .= ", $mode";

	await($node, "SELECT value IS NOT NULL FROM aiostream_info() WHERE name = 'reaper_pid'", 'the reaper');
	await($node, "SELECT value::int = 3 FROM aiostream_info() WHERE name = 'io_workers_running'", 'workers')
	  if $method eq 'worker';
	evict($node, 'h', 'a');

	# one with an open cursor, whose look-ahead is under way ...
	my $idle = session($node);
	ask($idle, "BEGIN;\nDECLARE c CURSOR FOR SELECT * FROM a;\nMOVE 500 FROM c");
	# ... one paused right after its first submission ...
	my $scanning = session($node);
	my $waiting;
	if ($mode ne 'smart')
	{
		arm($node, 'reaper', 'pause') if $method eq 'io_uring';
		my $point = $method eq 'worker' ? 'worker_read' : 'submitted';
		arm($node, $point, 'pause');
		launch($scanning, "$question h");
		paused($node, $point);
		# ... and one that waits for a page of the paused one's.
		if ($method ne 'sync')
		{
			$waiting = session($node, 'aiostream.enable = off');
			my $block = value($node, 'SELECT ("offset" / 8192)::int FROM aiostream_ios '
				  . "WHERE path = pg_relation_filepath('h') ORDER BY age DESC LIMIT 1");
			launch($waiting, "SELECT count(*) FROM h WHERE ctid = '($block,1)'");
			await($node, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'BufferIO'}, 'a waiter');
		}
	}

	my $offset = -s $node->logfile;
	my %processes = server_processes($node);
	my $postmaster = $node->{_pid};
	elapsed_ok($bound, $what, sub {
		if ($mode eq 'smart')
		{
			# a smart shutdown waits for sessions; scans go on meanwhile
			ok(!system_log('pg_ctl', '-D', $node->data_dir, '-m', 'smart', '-W', 'stop'), "$what: asked for");
			$node->wait_for_log(qr/received smart shutdown request/, $offset);
			ask($idle, 'MOVE ALL FROM c') ;
			is(ask($idle, "$question h"), $expected, "$what: sessions go on");
			ask($idle, 'COMMIT');
			$idle->quit;
			leave($scanning);
			ok(wait_gone($postmaster), "$what: the server ends when the sessions have");
			$node->_update_pid(0);
		}
		else
		{
			ok($node->stop($mode, fail_ok => 1), "$what: stops") or BAIL_OUT("$what: the server hangs");
		}
	});
	ok(wait_gone(keys %processes), "$what: no process is left");
	leave($_) foreach grep { defined } $idle, $scanning, $waiting;

	my $log = log_since($node, $offset);
	is(count_in($log, qr/PANIC|TRAP|terminated by signal|exited with exit code [^1]/), 0, "$what: no crash");
	is(count_in($log, qr/database system is shut down/), $mode eq 'immediate' ? count_in($log, qr/database system is shut down/) : 1,
		"$what: shut down");

	$node->start;
	my $started = log_since($node, $offset);
	is(count_in($started, qr/not properly shut down/), $mode eq 'immediate' ? 1 : 0, "$what: recovery or none");
	is(value($node, "$question h"), $expected, "$what: right answer afterwards");
	return;
}

# A fast shutdown, at different moments of crash recovery.
sub stop_in_recovery
{
	my $name = 'recovery';
	my @ways = map { [$_, 'fast'] } 1 .. 4;
	push @ways, [1, 'immediate'], [2, 'smart'];

	restart_with($node, 'aiostream.io_method' => $usable[0], 'aiostream.direct_io' => 'auto',
		full_page_writes => 'on', wal_level => 'minimal', log_startup_progress_interval => '10ms');
	value($node, 'CREATE TABLE t (id int, v int, pad text) USING aioheap; CREATE INDEX ON t (v)');
	value($node, 'CHECKPOINT');
	# wal_level minimal would not log rows of a table made in the transaction
	value($node, q{INSERT INTO t SELECT g, g * 7 % 1000, md5(g::text) FROM generate_series(1, 150000) g;
		UPDATE t SET v = v + 1; UPDATE t SET v = v + 1 WHERE id % 2 = 0;});
	my $sum = value($node, 'SELECT count(*), sum(v) FROM t');
	# a scan in flight when it dies
	evict($node, 'h');
	arm($node, 'submitted', 'pause');
	my $scanning = session($node);
	launch($scanning, "$question h");
	paused($node, 'submitted');
	my @children = keys %{ { server_processes($node) } };
	$node->kill9;
	ok(wait_gone(@children), "$name: killed");
	leave($scanning);

	my $interrupted = 0;
	foreach my $way (@ways)
	{
		my ($progress, $mode) = @$way;
		my $what = "$name, $mode after $progress reports";
		my $offset = -s $node->logfile;
		ok(!system_log('pg_ctl', '-W', '-s', '-D', $node->data_dir, '-l', $node->logfile, 'start'),
			"$what: started");
		# each report of progress is 10 ms of replay
		my $seen = wait_until('recovery', sub {
				my $log = log_since($node, $offset);
				return 1 if $log =~ /ready to accept connections/;
				return $log =~ /redo starts at/ && count_in($log, qr/redo in progress/) >= $progress;
			});
		ok($seen, "$what: recovery is under way");
		$node->_update_pid(-1);
		my %processes = server_processes($node);
		my $ended = 0;
		elapsed_ok($bound, $what, sub {
			$ended = system_log('pg_ctl', '-D', $node->data_dir, '-m', $mode, '-t', $bound, 'stop') == 0;
		});
		ok($ended, "$what: the server stops") or BAIL_OUT("$what: the server hangs in recovery");
		$node->_update_pid(0);
		ok(wait_gone(keys %processes), "$what: no process is left");
		my $log = log_since($node, $offset);
		is(count_in($log, qr/PANIC|TRAP|terminated by signal/), 0, "$what: no crash");
		$interrupted++ if $log !~ /redo done at/;
	}
	cmp_ok($interrupted, '>=', 1, "$name: was interrupted $interrupted times");

	$node->start;
	is(value($node, 'SELECT count(*), sum(v) FROM t'), $sum, "$name: right answer");
	evict($node, 't', 'h');
	is(value($node, 'SELECT count(*), sum(v) FROM t'), $sum, "$name: right answer, cold");
	is(value($node, "$question h"), $expected, "$name: right answer from the other table");
	nothing_left($node, $name);
	$node->stop;
	return;
}
