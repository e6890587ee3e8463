# Queries that end early, in every way: nothing stays in flight or pinned, and
# the table can be dropped at once.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('cancel', 'aiostream.debug_force_nodes' => 'on',
	'aiostream.effective_io_concurrency' => 8, 'aiostream.io_combine_limit' => 4);
my @usable = usable_methods($node);
create_tables($node, 6);
my %rows = map { $_ => value($node, "SET aiostream.enable = off; SELECT count(*) FROM $_") } qw(h a);
value($node, q{
	-- fails at a row in the middle of a table
	CREATE FUNCTION fail_at(id int, at int) RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		IF id = at THEN RAISE EXCEPTION 'row %', id USING ERRCODE = 'P0042'; END IF;
		RETURN id;
	END $$;
	CREATE FUNCTION in_block(tab text, at int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE n bigint := 0; caught int := 0;
	BEGIN
		FOR i IN 1 .. 5 LOOP
			BEGIN
				EXECUTE format('SELECT sum(fail_at(id, $1)) FROM %I', tab) INTO n USING at + i * 10;
			EXCEPTION WHEN SQLSTATE 'P0042' THEN
				caught := caught + 1;
			END;
		END LOOP;
		EXECUTE format('SELECT count(*) FROM %I', tab) INTO n;
		RETURN caught || ' ' || n;
	END $$;
});

foreach my $method (all_methods())
{
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		restart_with($node, 'aiostream.io_method' => $method);
		foreach my $direct (qw(on off))
		{
			foreach my $table (qw(h a))
			{
				next if $direct eq 'off' && $table eq 'h';
				end_early($method, $table, $direct);
			}
		}
	}
}
$node->stop;
done_testing();

sub end_early
{
	my ($method, $table, $direct) = @_;
	my $setting = "$method, $table, direct $direct";
	my $session = session($node, "aiostream.direct_io = $direct");
	my $pid = ask($session, 'SELECT pg_backend_pid()');
	my $point = $method eq 'worker' ? 'worker_read' : 'submitted';

	# Starts a scan that is stopped with its reads in flight
	my $scan = sub {
		evict($node, $table);
		arm($node, $point, 'pause');
		arm($node, 'reaper', 'pause') if $method eq 'io_uring';
		launch($session, $_[0] // "SELECT count(*) FROM $table");
		paused($node, $point);
		is(value($node, "SELECT count(*) > 0 FROM aiostream_ios WHERE pid = $pid"), 't',
			"$setting: reads in flight")
		  unless $method eq 'sync';
		return;
	};
	my $go_on = sub {
		disarm($node, $point);
		disarm($node, 'reaper') if $method eq 'io_uring';
		return;
	};

	# cancel
	$scan->();
	is(value($node, "SELECT pg_cancel_backend($pid)"), 't', "$setting: cancel sent");
	# a worker's read must land first, as the table's lock keeps it legal
	$go_on->() if $method eq 'worker';
	my ($answer, $error) = outcome($session);
	$go_on->();
	like($error, qr/ERROR:  canceling statement due to user request/, "$setting: cancelled");
	nothing_left($node, "$setting, cancel");

	# statement_timeout; an owner whose read a worker has waits for that read
	evict($node, $table);
	arm($node, $point, 'pause');
	ask($session, 'SET statement_timeout = 300');
	launch($session, "SELECT count(*) FROM $table");
	await($node, "SELECT state = 'idle' OR clock_timestamp() > query_start + interval '400 ms' "
		  . "FROM pg_stat_activity WHERE pid = $pid AND query LIKE 'SELECT count%'", 'the time-out');
	$go_on->();
	($answer, $error) = outcome($session);
	$go_on->();
	like($error, qr/ERROR:  canceling statement due to statement timeout/, "$setting: timed out");
	ask($session, 'RESET statement_timeout');
	nothing_left($node, "$setting, statement_timeout");

	# an error in a savepoint, in the middle of the scan
	evict($node, $table);
	ask($session, "BEGIN;\nSAVEPOINT s");
	like(ask_error($session, "SELECT sum(fail_at(id, 10001)) FROM $table"), qr/ERROR:  row 10001/, "$setting: error");
	is(value($node, "SELECT count(*) FROM aiostream_ios WHERE pid = $pid"), 0,
		"$setting: nothing in flight in the failed transaction");
	ask($session, 'ROLLBACK TO s');
	is(ask($session, "SELECT count(*) FROM $table"), $rows{$table}, "$setting: right answer after ROLLBACK TO");
	ask($session, 'COMMIT');

	# an outer scan goes on across aborted inner ones
	evict($node, $table);
	ask($session, "BEGIN;\nDECLARE c CURSOR FOR SELECT id FROM $table;\nMOVE 1000 FROM c");
	foreach my $at (2001, 8001)
	{
		ask($session, 'SAVEPOINT s');
		ask_error($session, "SELECT sum(fail_at(id, $at)) FROM $table");
		ask($session, "ROLLBACK TO s;\nMOVE 1000 FROM c");
	}
	$session->{stderr} = '';
	is((split /\n/, ask($session, "FETCH ALL FROM c;\n\\echo :ROW_COUNT"))[-1], $rows{$table} - 3000,
		"$setting: the outer scan saw every row");
	is(ask($session, "SELECT count(*) FROM $table"), $rows{$table}, "$setting: right answer in between");
	ask($session, 'COMMIT');
	nothing_left($node, "$setting, savepoints");

	# exception blocks
	evict($node, $table);
	is(ask($session, "SELECT in_block('$table', 20001)"), "5 $rows{$table}", "$setting: exception blocks");
	nothing_left($node, "$setting, exception blocks");

	# LIMIT, EXISTS
	evict($node, $table);
	ask($session, 'SELECT aiostream_stat_reset()');
	is(ask($session, "SELECT count(*) FROM (SELECT 1 FROM $table LIMIT 300) s"), 300, "$setting: LIMIT");
	my $counters = counters($node);
	cmp_ok($counters->{read_bytes} / 8192, '<=', 64, "$setting: LIMIT does not flood the disk");
	is(ask($session, "SELECT EXISTS (SELECT 1 FROM $table WHERE id > 5000)"), 't', "$setting: EXISTS");
	nothing_left($node, "$setting, LIMIT");

	# cursors that are closed, and ones that just end with their transaction
	foreach my $end ('CLOSE c', 'COMMIT', 'ROLLBACK')
	{
		evict($node, $table);
		ask($session, "BEGIN;\nDECLARE c SCROLL CURSOR FOR SELECT * FROM $table;\nMOVE 2000 FROM c;\nMOVE BACKWARD 500 FROM c;\n$end");
		is(value($node, "SELECT count(*) FROM aiostream_ios WHERE pid = $pid"), 0, "$setting: nothing in flight after $end");
		ask($session, 'COMMIT') if $end eq 'CLOSE c';
		nothing_left($node, "$setting, $end");
	}

	# the table can be dropped at once
	my $am = $table eq 'a' ? 'aioheap' : 'heap';
	value($node, "CREATE TABLE gone (LIKE $table) USING $am; INSERT INTO gone SELECT * FROM $table LIMIT 20000");
	evict($node, 'gone');
	ask($session, "BEGIN;\nDECLARE c CURSOR FOR SELECT * FROM gone;\nMOVE 1000 FROM c;\nROLLBACK");
	value($node, "SET lock_timeout = '10s'; DROP TABLE gone");
	is(value($node, "SELECT to_regclass('gone') IS NULL"), 't', "$setting: dropped");

	# terminate
	$scan->();
	is(value($node, "SELECT pg_terminate_backend($pid)"), 't', "$setting: terminate sent");
	$go_on->() if $method eq 'worker';
	await($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", 'the end of the backend');
	$go_on->();
	leave($session);
	nothing_left($node, "$setting, terminate");

	still_streams($node, $table, $rows{$table}, $setting) if $direct eq 'on';
	return;
}
