# Everything at the same time, with kills, on a server with little memory: what
# our scans give equals the plain path's under the same snapshot, and what is left is
# what was there before.  Then the postmaster is killed again and again in mid-load.
#
# Run by check.sh, which says what SOAK_SECONDS, SOAK_CRASHES and SOAK_METHODS are.
#
#   ledger, history	balanced transfers; each is in the history of its client too
#   big, plain		aioheap and heap, rows changed all the time
#   churn			truncated and refilled
#   flip			goes from heap to aioheap and back, and is rewritten
#   scratch_*		made and dropped
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{SOAK_SECONDS};
my $crashes = $ENV{SOAK_CRASHES};
my @methods = split ' ', $ENV{SOAK_METHODS};
my @tables = qw(big plain flip churn);
my $accounts = 5000;

my $node = new_server('soak', initdb => ['--data-checksums'],
	shared_buffers => '16MB', 'aiostream.debug_force_nodes' => 'on', 'aiostream.io_workers' => 2,
	max_worker_processes => 16, autovacuum => 'on', autovacuum_naptime => '5s',
	checkpoint_timeout => '30s', max_wal_size => '128MB', synchronize_seqscans => 'on', log_lock_waits => 'off',
	deadlock_timeout => '500ms', log_error_verbosity => 'verbose');
my $dir = $node->basedir;
my (%load, %acknowledged, @clients);
my ($keeper, $ours);
# kinds of comparison, and what the planner is not to use for them
my %scan_off = (
	sequential => [], backward => [qw(indexscan indexonlyscan bitmapscan)], parallel => [],
	index => [qw(seqscan bitmapscan indexonlyscan sort)], descending => [qw(seqscan bitmapscan indexonlyscan sort)],
	bitmap => [qw(seqscan indexscan indexonlyscan)], indexonly => [qw(seqscan bitmapscan indexscan sort)], ledger => []);
my $stop = "$dir/stop";

my $real_start = time;
sub progress { diag sprintf('soak: %5d s  %s', time - $real_start, $_[0]); return; }
sub any { return $_[ int rand @_ ]; }

create();
my @usable = usable_methods($node);
my @in_turn;
foreach my $method (@methods)
{
	if (grep { $_ eq $method } @usable) { push @in_turn, $method; }
	else { progress("$method is not usable here"); }
}

@in_turn = ('worker') unless @in_turn;

my $turn = 0;
my %compared;
my $rounds = $seconds > 0 ? max(scalar @in_turn, int($seconds / 60)) : 0;
foreach my $round (1 .. $rounds)
{
	my $method = $in_turn[ $turn++ % @in_turn ];
	progress("round $round of $rounds: $method");
	soak("round $round ($method)", $method, $seconds / $rounds, $round);
}
foreach my $n (1 .. $crashes)
{
	my $method = $in_turn[ $turn++ % @in_turn ];
	crash("crash $n ($method)", $method);
	progress("crash $n of $crashes: $method") if $n % 5 == 0;
}
$node->stop;

my $log = log_since($node);
# The postmaster's death in the middle of a parallel VACUUM is a FATAL error while the
# transaction is being aborted: an assertion of PostgreSQL's own does not expect that, and
# without assertions the process says that it aborts a second time.
$log =~ s/^TRAP: FailedAssertion\("!IsTransactionOrTransactionBlock\(\)", File: "pgstat\.c".*\n//mg
  if $log =~ /postmaster exited during a parallel transaction/;
is(count_in($log, qr/PANIC|TRAP|signal (?!9\b)\d+/), 0, 'no crash but those that we made')
  or diag join "\n", $log =~ /^.*(?:PANIC|TRAP|terminated by signal).*$/mg;
my %died = map { $_ => 1 } $log =~ /\[(\d+)\].*FATAL: .*postmaster exited during a parallel transaction/g;
my @warnings = grep { !(/\[(\d+)\].*AbortTransaction while in ABORT state/ && $died{$1}) && !/57P02|terminating connection because|there is (no|already)|recovery|is not a PostgreSQL backend process/ } $log =~ /^.*WARNING: .*$/mg;
is(scalar @warnings, 0, 'no warnings') or diag join "\n", @warnings[ 0 .. min(20, $#warnings) ];
progress(sprintf 'compared: %s', join ', ', map { "$_ $compared{$_}" } sort keys %compared);
done_testing();

sub min { return $_[0] < $_[1] ? $_[0] : $_[1]; }
sub max { return $_[0] > $_[1] ? $_[0] : $_[1]; }

sub create
{
	value($node, qq{
		CREATE EXTENSION amcheck;
		CREATE TABLE ledger (id int PRIMARY KEY, balance bigint) USING aioheap;
		INSERT INTO ledger SELECT g, 1000 FROM generate_series(1, $accounts) g;
		CREATE TABLE history (client int, n bigint, source int, target int, amount int, PRIMARY KEY (client, n)) USING aioheap;
		CREATE FUNCTION transfer(client int, n bigint) RETURNS text LANGUAGE plpgsql AS \$\$
		DECLARE a int := 1 + floor(random() * $accounts); b int := 1 + floor(random() * $accounts); amount int := 1 + floor(random() * 50);
		BEGIN
			INSERT INTO history VALUES (client, n, a, b, amount);
			UPDATE ledger SET balance = balance - amount WHERE id = a;
			UPDATE ledger SET balance = balance + amount WHERE id = b;
			RETURN 'done ' || n;
		END \$\$;
		CREATE FUNCTION backward(tab text) RETURNS text LANGUAGE plpgsql AS \$\$
		DECLARE c refcursor := 'backward'; r record; n bigint := 0; s bigint := 0; d bigint := 0;
		BEGIN
			OPEN c SCROLL FOR EXECUTE format('SELECT id, x FROM %I WHERE id %% 4 = 0', tab);
			MOVE FORWARD ALL FROM c;
			LOOP
				FETCH PRIOR FROM c INTO r; EXIT WHEN NOT FOUND;
				n := n + 1; s := s + r.x; d := (d * 31 + r.id) % 1000000007;
			END LOOP;
			CLOSE c;
			RETURN n || ' ' || s || ' ' || d;
		END \$\$;
	});
	my %made = (big => [ 'aioheap', 80000 ], plain => [ 'heap', 60000 ], flip => [ 'aioheap', 20000 ], churn => [ 'aioheap', 10000 ]);
	foreach my $table (@tables)
	{
		my ($am, $rows) = @{ $made{$table} };
		value($node, qq{
			CREATE TABLE $table (id int PRIMARY KEY, x int, k int, pad text) USING $am;
			INSERT INTO $table SELECT g, (g * 37) % 1000, g % 50, repeat(md5(g::text), 4) FROM generate_series(1, $rows) g;
			CREATE INDEX ${table}_x ON $table (x, id);
			ANALYZE $table});
	}
	return;
}

# --- load -------------------------------------------------------------------

# Each gives the next script of a client.  A client is a process of ours that feeds
# psql; statements may fail for the reasons listed in allowed().
sub transfers
{
	my ($client) = @_;
	my $n = $acknowledged{$client} // 0;
	$load{next} //= $n;
	my $from = $load{next} + 1;
	$load{next} += 30;
	return "SET application_name = 'soak_transfer';\n" . join '', map { "SELECT transfer($client, $_);\n" } $from .. $load{next};
}

sub changes
{
	return join '', map
	{
		my $table = any(qw(big big plain flip churn));
		my $i = 1 + int rand 80000;
		my $n = 1 + int rand 60;
		any("UPDATE $table SET x = (x + $n) % 1000 WHERE id BETWEEN $i AND $i + $n;\n",
			"UPDATE $table SET pad = left(pad || 'z', 150), k = $n WHERE x = $n;\n",
			"UPDATE $table SET pad = pad WHERE id BETWEEN $i AND $i + 10 * $n;\n",
			"DELETE FROM $table WHERE id BETWEEN $i AND $i + $n;\n",
			"INSERT INTO $table SELECT g, g % 1000, $n, repeat('n', 80) FROM generate_series($i, $i + $n) g ON CONFLICT DO NOTHING;\n",
			"BEGIN; SAVEPOINT s; DELETE FROM $table WHERE id BETWEEN $i AND $i + 1000; ROLLBACK TO s; SELECT id FROM $table WHERE x < 5 FOR UPDATE SKIP LOCKED; COMMIT;\n",
			"BEGIN; DELETE FROM $table WHERE x = $n; ROLLBACK;\n")
	} 1 .. 12;
}

sub definitions
{
	my ($client) = @_;
	my $full = any('VACUUM (FULL) flip', 'CLUSTER flip USING flip_x', 'REINDEX TABLE flip', 'ALTER TABLE flip ALTER COLUMN k TYPE ' . any('int', 'bigint'));
	return qq{
SET lock_timeout = '100ms';
DROP TABLE IF EXISTS scratch_$client;
CREATE TABLE scratch_$client USING aioheap AS SELECT * FROM big WHERE x < 80;
CREATE INDEX ON scratch_$client (id);
SELECT count(*) FROM scratch_$client;
TRUNCATE scratch_$client;
BEGIN; TRUNCATE churn; INSERT INTO churn SELECT g, g % 1000, 1, repeat('c', 150) FROM generate_series(1, 8000) g; COMMIT;
SELECT aiostream_release('flip');
UPDATE flip SET k = k + 1 WHERE x = 7;
SELECT aiostream_adopt('flip');
DELETE FROM churn WHERE id > 3000;
VACUUM churn;
BEGIN; SELECT aiostream_release('flip'); SELECT count(*) FROM flip; ROLLBACK;
BEGIN; TRUNCATE churn; SELECT count(*) FROM churn; ROLLBACK;
$full;
DROP TABLE scratch_$client;
};
}

sub indexes
{
	return q{
SET lock_timeout = '2s';
SELECT 'DROP INDEX IF EXISTS ' || indexrelid::regclass FROM pg_index WHERE NOT indisvalid AND indrelid = 'plain'::regclass \gexec
DROP INDEX CONCURRENTLY IF EXISTS big_k;
CREATE INDEX CONCURRENTLY big_k ON big (k);
SELECT bt_index_check('big_k', true);
REINDEX INDEX CONCURRENTLY plain_x;
};
}

sub vacuums
{
	my $table = any(@tables, 'ledger', 'history');
	return "VACUUM (" . any('FREEZE', 'ANALYZE', 'DISABLE_PAGE_SKIPPING', 'VERBOSE off', 'INDEX_CLEANUP on', 'PARALLEL 1') . ") $table;\n"
	  . any('', "CHECKPOINT;\n");
}

sub scans
{
	my $table = any(@tables);
	my $x = int rand 1000;
	my $settings = join '', map { "SET aiostream.$_;\n" } 'direct_io = ' . any(qw(auto on off)),
	  'debug_force_nodes = ' . any(qw(on replace off)), 'io_combine_limit = ' . any(1, 16, 128), 'effective_io_concurrency = ' . any(2, 16, 64);
	return $settings . any(
		"SELECT aiostream_evict('$table');\n",
		"SET statement_timeout = '" . any(5, 20, 60) . "ms'; SELECT count(*), sum(hashtext(pad)) FROM $table;\n",
		"BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM $table; MOVE 3000 FROM c; MOVE BACKWARD 1000 FROM c; ROLLBACK;\n",
		"SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SELECT count(*) FROM $table;\n",
		"SELECT * FROM $table ORDER BY x DESC, id DESC LIMIT 20;\n",
		"SET enable_seqscan = off; SELECT sum(k) FROM $table WHERE x BETWEEN $x AND $x + 20;\n",
		"SELECT count(*) FROM scratch_1;\n",
		"BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM $table WHERE x < 100; FETCH 10 FROM c; SAVEPOINT s; SELECT 1 / 0 FROM $table; ROLLBACK TO s; FETCH 10 FROM c; COMMIT;\n");
}

sub cancels
{
	my $ends = any(('pg_cancel_backend') x 8, 'pg_terminate_backend');
	return "SET application_name = 'soak_cancel'; SELECT $ends(pid) FROM pg_stat_activity WHERE application_name = 'soak_load' AND state = 'active' "
	  . "ORDER BY random() LIMIT 1; SELECT pg_sleep(0.2);\n";
}

sub allowed
{
	local ($_) = @_;
	# canceled, ended, lock timeout, deadlock, serialization, in use, division by zero;
	# tables that have just been dropped or changed; a savepoint that a canceled transaction did not come to
	return /^(57014|57P0[123]|55P03|40P01|40001|55006|22012|25P02)/
	  || /^3B001: savepoint "s" does not exist/ || /^42P01: relation "scratch_/ || /^42P01: table "scratch_/ || /^(42704|42P01): (index|relation) "big_k"/ || /^0A000: cannot check index "big_k"/ || /^42P07: relation "big_k"/
	  || /^XX000: (could not open relation with OID|tuple concurrently (updated|deleted)|cache lookup failed for)/;
}

sub client
{
	my ($name, $number, $generate) = @_;
	my $parent = $$;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;

	my $base = "$dir/$name.$number";
	srand($$ ^ time);
	%load = ();
	$ENV{PGAPPNAME} = 'soak_load';
	# a client of before may have got further than it heard of
	$load{next} = $acknowledged{$number} if $name eq 'transfers';
	my $acknowledged = 0;
	until (-e $stop || getppid() != $parent)
	{
		spew("$base.sql", "\\set VERBOSITY verbose\n" . $generate->($number));
		my $status = system("exec psql -X -q -A -t -h '" . $node->host . "' -p " . $node->port . " -d postgres -f '$base.sql' >'$base.out' 2>'$base.err'");
		my $errors = slurp_file("$base.err");
		# where the postmaster was killed, a parallel CREATE INDEX says this first
		$errors =~ s/ERROR: +55000: lost connection to parallel worker//g if $errors =~ /postmaster exited during a parallel transaction/;
		foreach my $error ($errors =~ /(?:ERROR|FATAL|PANIC): +(.*)/g)
		{
			append_to_file("$dir/bad", "$name: $error\n") unless allowed($error) || $error =~ /^ *(the database system is|sorry, too many|terminating connection due to unexpected postmaster exit)/;
		}
		foreach my $done (slurp_file("$base.out") =~ /^done (\d+)$/mg)
		{
			$acknowledged = $done if $done > $acknowledged;
		}
		spew("$base.ack", $acknowledged) if $name eq 'transfers';
		usleep(50_000) if $status >> 8 == 2;
	}
	POSIX::_exit(0);
}

sub spew
{
	my ($file, $text) = @_;
	open my $handle, '>', $file or die "$file: $!";
	print $handle $text;
	close $handle or die "$file: $!";
	return;
}

sub start_load
{
	unlink $stop;
	foreach my $client (1, 2)
	{
		$acknowledged{$client} = value($node, "SELECT coalesce(max(n), 0) FROM history WHERE client = $client");
	}
	my $before = value($node, 'SELECT pg_current_wal_insert_lsn()');
	@clients = (
		client('transfers', 1, \&transfers), client('transfers', 2, \&transfers),
		client('changes', 1, \&changes), client('changes', 2, \&changes), client('definitions', 1, \&definitions),
		client('indexes', 1, \&indexes), client('vacuums', 1, \&vacuums), client('scans', 1, \&scans), client('scans', 2, \&scans),
		client('cancels', 1, \&cancels));
	await($node, "SELECT pg_current_wal_insert_lsn() - '$before' > 1000000", 'load');
	return;
}

sub stop_load
{
	spew($stop, '');
	waitpid($_, 0) foreach @clients;
	@clients = ();
	return;
}

# --- comparing under load -----------------------------------------------------

sub open_sessions
{
	local $ENV{PGAPPNAME} = 'soak_compare';
	($keeper, $ours) = (session($node), session($node));
	return;
}
sub close_sessions { leave($_) foreach grep { defined } $keeper, $ours; ($keeper, $ours) = (); return; }

sub question
{
	my ($kind, $table) = @_;
	my $x = int rand 900;
	return
		$kind eq 'backward' ? "SELECT backward('$table')"
	  : $kind eq 'index' ? "SELECT count(*), md5(string_agg(id || ' ' || x || ' ' || k, ',')) FROM (SELECT * FROM $table WHERE x BETWEEN $x AND $x + 100 ORDER BY x, id) q"
	  : $kind eq 'descending' ? "SELECT count(*), md5(string_agg(id || ' ' || x || ' ' || k, ',')) FROM (SELECT * FROM $table WHERE x BETWEEN $x AND $x + 100 ORDER BY x DESC, id DESC) q"
	  : $kind eq 'bitmap' ? "SELECT count(*), sum(k), md5(string_agg(ctid || ' ' || id, ',')) FROM $table WHERE x BETWEEN $x AND $x + 60"
	  : $kind eq 'indexonly' ? "SELECT count(*), md5(string_agg(id::text, ',')) FROM (SELECT id FROM $table WHERE x >= $x ORDER BY x, id) q"
	  : $kind eq 'ledger' ? 'SELECT count(*), sum(balance), (SELECT count(*) FROM history), (SELECT sum(amount) FROM history) FROM ledger'
	  : "SELECT count(*), sum(x), sum(hashtext(pad)::bigint) FROM $table";
}

# Under one snapshot, in two sessions: (ours, plain).  Dies if a session does.
sub both
{
	my ($kind, $table) = @_;
	my $settings = join '', map { "SET LOCAL enable_$_ = off;\n" } @{ $scan_off{$kind} };
	$settings .= "SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL parallel_setup_cost = 0;\n" if $kind eq 'parallel';
	# its order counts, and is not the table's where a scan begins where others are
	$settings .= "SET LOCAL synchronize_seqscans = off;\n" if $kind eq 'backward';
	my $question = question($kind, $table);

	# the lock comes first: what TRUNCATE leaves is empty for every snapshot
	my $snapshot = ask($keeper, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSET LOCAL aiostream.enable = off;\n$settings"
		  . "LOCK TABLE $table IN ACCESS SHARE MODE;\nSELECT pg_export_snapshot()");
	ask($ours, "SELECT aiostream_evict('$table') WHERE random() < 0.3");
	my $our_answer = ask($ours, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSET TRANSACTION SNAPSHOT '$snapshot';\n$settings"
		  . 'SET LOCAL aiostream.direct_io = ' . any(qw(auto on on off)) . ";\nSET LOCAL aiostream.io_combine_limit = " . any(8, 32, 128)
		  . ";\nSET LOCAL aiostream.effective_io_concurrency = " . any(1, 16, 64)
		  . ";\nSET LOCAL aiostream.debug_force_nodes = " . any(qw(on on replace)) . ";\n$question");
	my $plain_answer = ask($keeper, $question);
	explain_difference($question, $our_answer, $plain_answer) if $our_answer ne $plain_answer;
	ask($_, 'COMMIT') foreach $ours, $keeper;
	return ($our_answer, $plain_answer);
}

# What a difference may come from: does it come again, by which plans, in which rows?
sub explain_difference
{
	my ($question, @answers) = @_;
	my %sessions = (ours => $ours, plain => $keeper);
	my %rows;
	my $report = join "\n", 'a difference:', $question, @answers;
	foreach my $whose (sort keys %sessions)
	{
		$report .= "\n$whose once more: " . ask($sessions{$whose}, $question) . "\n" .
		  ask($sessions{$whose}, "EXPLAIN (ANALYZE, BUFFERS, VERBOSE) $question");
		next unless (my $aggregated = $question) =~ s/^.*string_agg\((.*?), ','\)\)/SELECT $1/;
		$rows{$whose} = [ split /\n/, ask($sessions{$whose}, $aggregated) ];
	}
	if (%rows)
	{
		my ($n, $ours_rows, $plain_rows) = (0, @rows{qw(ours plain)});
		$n++ while $n < @$ours_rows && $n < @$plain_rows && $ours_rows->[$n] eq $plain_rows->[$n];
		$report .= sprintf "\nrows: ours %d, plain %d, from %d on:\n%s", scalar @$ours_rows, scalar @$plain_rows, $n,
		  join "\n", map { join ', ', map { $_ // '(end)' } @$_[ max($n - 2, 0) .. $n + 8 ] } $ours_rows, $plain_rows;
	}
	progress($_) foreach split /\n/, $report;
	return;
}

sub compare_until
{
	my ($what, $end) = @_;
	my $n = 0;
	my @kinds = sort keys %scan_off;
	while (time < $end || $n < 2 * @kinds)
	{
		my $kind = $kinds[ $n++ % @kinds ];
		my $table = $kind eq 'ledger' ? 'ledger' : any(@tables);
		my ($our_answer, $plain_answer) = both($kind, $table);
		is($our_answer, $plain_answer, "$what: $kind of $table");
		like($our_answer, qr/^$accounts\|@{[ $accounts * 1000 ]}\|/, "$what: the ledger's sum") if $kind eq 'ledger';
		$compared{$kind}++;
	}
	return;
}

# --- what must hold -----------------------------------------------------------

# After the load's end, or after recovery
sub sound
{
	my ($what) = @_;
	foreach my $enable ('off', 'on')
	{
		is(value($node, "SET aiostream.enable = $enable; SELECT count(*), sum(balance) FROM ledger"), "$accounts|" . $accounts * 1000,
			"$what: the ledger's sum holds (aiostream.enable = $enable)");
		is(value($node, "SET aiostream.enable = $enable; SELECT count(*) FROM ledger JOIN (
				SELECT id, sum(amount) AS net FROM (SELECT source AS id, -amount AS amount FROM history UNION ALL SELECT target, amount FROM history) m GROUP BY id
			) h USING (id) WHERE balance <> 1000 + net"), 0, "$what: each account has what its transfers left");
	}
	foreach my $client (1, 2)
	{
		my $heard = -e "$dir/transfers.$client.ack" ? slurp_file("$dir/transfers.$client.ack") : 0;
		cmp_ok(value($node, "SELECT coalesce(max(n), 0) FROM history WHERE client = $client"), '>=', $heard,
			"$what: what client $client was told to be committed is there");
	}
	foreach my $table (@tables, 'ledger', 'history')
	{
		is(value($node, "SELECT * FROM aiostream_verify('$table') LIMIT 5"), '', "$what: amcheck of $table");
	}
	my $bad = -e "$dir/bad" ? slurp_file("$dir/bad") : '';
	is($bad, '', "$what: no errors but those that come with the load");
	unlink "$dir/bad";
	nothing_left($node, $what);
	return;
}

sub checksums_hold
{
	my ($what) = @_;
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$what: checksums");
	return;
}

sub idle
{
	return await($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name IN ('soak_load', 'soak_transfer', 'soak_cancel')}, 'the end of the load');
}

# --- the two parts ---------------------------------------------------------------

sub soak
{
	my ($what, $method, $length, $round) = @_;
	restart_with($node, 'aiostream.io_method' => $method);
	value($node, 'SELECT aiostream_stat_reset()');
	start_load();
	open_sessions();
	compare_until($what, time + $length / 2);
	my $reads = counters($node)->{reads};
	cmp_ok($reads, '>', 0, "$what: $reads reads");

	# a kill, and the load goes on after recovery
	my $offset = -s $node->logfile;
	my $victim = any('backend', $method eq 'worker' ? 'io worker' : 'reaper');
	ok(wait_until($victim, sub { kill_one($victim, $offset) }), "$what: a $victim is killed");
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
	close_sessions();
	open_sessions();
	compare_until("$what, after the kill of a $victim", time + $length / 2);
	close_sessions();
	stop_load();
	idle();
	sound($what);
	my $counters = counters($node);
	is($counters->{failed_reads}, 0, "$what: no failed reads");
	progress("$what: $victim killed; $counters->{reads} reads since, $counters->{direct_reads} direct, $counters->{stalls} stalls");
	checksums_hold($what);
	$node->start;
	return;
}

# Kill one of the load's backends, or a process of ours.  It may have ended by
# itself a moment ago: the log says whether it was the kill.
sub kill_one
{
	my ($victim, $offset) = @_;
	my %processes = server_processes($node);
	my @pids = $victim eq 'backend'
	  ? split /\n/, value($node, q{SELECT pid FROM pg_stat_activity WHERE application_name = 'soak_load' AND state = 'active' ORDER BY random()})
	  : grep { $processes{$_} =~ /aiostream $victim/ } keys %processes;
	%processes = server_processes($node);
	foreach my $pid (grep { $processes{$_} } @pids)
	{
		next unless kill 'KILL', $pid;
		return 1 if wait_until('the log', sub { $node->log_contains(qr/\(PID $pid\) was terminated by signal 9/, $offset) }, 15);
	}
	return 0;
}

sub crash
{
	my ($what, $method) = @_;
	restart_with($node, 'aiostream.io_method' => $method);
	start_load();
	await($node, 'SELECT reads > 500 FROM pg_stat_aiostream', 'reads');
	my %processes = server_processes($node);
	my $offset = -s $node->logfile;
	$node->kill9;
	stop_load();
	ok(wait_gone(keys %processes), "$what: its children end");
	# the kernel may need a moment to let go of the memory
	ok(wait_until('a start', sub { $node->start(fail_ok => 1) }), "$what: starts again");
	ok($node->log_contains('database system was not properly shut down', $offset), "$what: recovery");
	sound($what);
	open_sessions();
	compare_until($what, 0);
	close_sessions();
	checksums_hold($what);
	$node->start;
	return;
}
