# The follower of VACUUM: the result is what it is without, in every way; it ends with
# its vacuum in every way; it is in nobody's way.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('vacuum', shared_buffers => '32MB');
value($node, 'CREATE EXTENSION pg_visibility; CREATE EXTENSION amcheck; CREATE EXTENSION pg_freespacemap');
my @usable = usable_methods($node);

# slow enough for the follower to be there in time
my $slow = q(SET vacuum_cost_delay = '1ms'; SET vacuum_cost_limit = 50);
my $very_slow = q(SET vacuum_cost_delay = '20ms'; SET vacuum_cost_limit = 50);
my $view = 'pg_stat_aiostream_vacuum';

foreach my $method (@usable)
{
	restart_with($node, 'aiostream.io_method' => $method);
	twins($method, 'heap', '');
}
restart_with($node, 'aiostream.io_method' => 'auto');
twins('aioheap', 'aioheap', '');
foreach my $options ('FREEZE', 'DISABLE_PAGE_SKIPPING', 'INDEX_CLEANUP off', 'INDEX_CLEANUP on',
	'TRUNCATE off', 'PARALLEL 2', 'PARALLEL 0, FREEZE')
{
	twins($options, 'heap', $options);
}
small_memory();
visibility_map();
written_behind();
working_set();
ended();
killed();
in_the_way();
whole_database();
automatic();
stopped();
no_slot();
$node->stop;
done_testing();

# Tables with the same rows in the same places, some dead, of about 12 MB, with
# indexes of all kinds
sub make_table
{
	my ($am, @names) = @_;
	my $sql = "BEGIN;\n";
	foreach my $name (@names)
	{
		$sql .= qq{
		DROP TABLE IF EXISTS $name;
		CREATE TABLE $name (id int, x int, p point, a int[], pad text) USING $am;
		ALTER TABLE $name SET (autovacuum_enabled = off);
		INSERT INTO $name SELECT g, g * 7919 % 100003, point(g % 317, g % 211), ARRAY[g % 1000, g], repeat('x', 40)
			FROM generate_series(1, 100000) g;
		CREATE INDEX ON $name (id);
		CREATE INDEX ON $name USING hash (x);
		CREATE INDEX ON $name USING gist (p);
		CREATE INDEX ON $name USING spgist (p);
		CREATE INDEX ON $name USING gin (a) WITH (fastupdate = off);
		CREATE INDEX ON $name USING brin (id);
		};
	}
	$sql .= "COMMIT;\nBEGIN;\n";
	$sql .= qq{
		DELETE FROM $_ WHERE id % 20 = 3 OR id > 90000;
		UPDATE $_ SET pad = pad || 'y' WHERE id % 50 = 7;
	} foreach @names;
	value($node, "$sql COMMIT; CHECKPOINT");
	return;
}

# VACUUM of a cold table; returns its messages
sub vacuum
{
	my ($table, $options, $follow) = @_;
	my ($out, $err);
	evict($node, $table);
	$options = $options ? "($options, VERBOSE)" : '(VERBOSE)';
	$node->psql('postgres', "SET aiostream.enable_vacuum = $follow; $slow; VACUUM $options $table",
		stdout => \$out, stderr => \$err, on_error_die => 1);
	return $err;
}

# What VACUUM said about what it did, without names and times
sub told
{
	my ($messages, $table) = @_;
	my $to_toast = index($messages, 'pg_toast');
	$messages = substr($messages, 0, rindex($messages, "\n", $to_toast)) if $to_toast > 0;
	$messages =~ s/\b${table}/T/g;
	# GiST and SP-GiST choose at random where to put an entry
	return join "\n", grep { !/^index "T_p_idx/ && /^(pages|tuples|index scan|index "|frozen)|truncated|stopping/ } split /\n/, $messages;
}

# What VACUUM left
sub state_of
{
	my ($table, $messages) = @_;
	my ($cutoff) = $messages =~ /removable cutoff: (\d+)/;
	return value($node, qq{
		SELECT 'size ' || pg_relation_size('$table') UNION ALL
		SELECT 'indexes ' || string_agg(pg_relation_size(indexrelid)::text, ' ' ORDER BY indexrelid) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = '$table'::regclass AND relname !~ '_p_idx' UNION ALL
		SELECT 'frozen ' || $cutoff - relfrozenxid::text::bigint || ' ' || relpages || ' ' || relallvisible || ' ' || reltuples FROM pg_class WHERE oid = '$table'::regclass UNION ALL
		SELECT 'map ' || md5(string_agg((blkno, all_visible, all_frozen)::text, ' ' ORDER BY blkno)) FROM pg_visibility_map('$table') UNION ALL
		SELECT 'space ' || md5(string_agg((blkno, avail)::text, ' ' ORDER BY blkno)) FROM pg_freespace('$table') UNION ALL
		SELECT 'rows ' || md5(string_agg((ctid, id, x, pad)::text, ' ' ORDER BY ctid)) FROM $table
	});
}

sub check
{
	my ($what, $table) = @_;
	is(value($node, "SELECT count(*) FROM pg_check_visible('$table')"), '0', "$what: visible is visible");
	is(value($node, "SELECT count(*) FROM pg_check_frozen('$table')"), '0', "$what: frozen is frozen");
	is(value($node, "SELECT count(*) FROM aiostream_verify('$table')"), '0', "$what: amcheck is content");
	return;
}

sub twins
{
	my ($what, $am, $options) = @_;
	make_table($am, 'with_it', 'without');
	my $before = counters($node);
	my $without = vacuum('without', $options, 'off');
	is(counters($node)->{reads}, $before->{reads}, "$what: no follower when switched off");
	my $with_it = vacuum('with_it', $options, 'on');
	cmp_ok(counters($node)->{read_bytes} - $before->{read_bytes}, '>', 4 * 1024 * 1024,
		"$what: the follower has read");
	is(told($with_it, 'with_it'), told($without, 'without'), "$what: the same was done");
	is(state_of('with_it', $with_it), state_of('without', $without), "$what: the same is left");
	like(state_of('with_it', $with_it), qr/^rows \w{32}$/m, "$what: there are rows");
	check($what, 'with_it');
	is(value($node, "SELECT count(*) FROM $view"), '0', "$what: the follower ends")
	  if await($node, "SELECT count(*) = 0 FROM $view", 'no follower');
	nothing_left($node, $what);
	return;
}

# Several rounds over the indexes, for lack of memory for dead items
sub small_memory
{
	make_table('heap', 'with_it', 'without');
	# as many dead items as 1 MB does not hold
	value($node, "DELETE FROM $_ WHERE id % 20 <> 0; CHECKPOINT") foreach qw(with_it without);
	$slow .= q(; SET maintenance_work_mem = '1MB');
	my %said = map { $_ => vacuum($_, '', $_ eq 'with_it' ? 'on' : 'off') } qw(with_it without);
	$slow =~ s/; SET maintenance_work_mem.*//;
	is(told($said{with_it}, 'with_it'), told($said{without}, 'without'), 'several rounds: the same was done');
	is(state_of('with_it', $said{with_it}), state_of('without', $said{without}), 'several rounds: the same is left');
	check('several rounds', 'with_it');
	return;
}

# What the visibility map lets VACUUM skip is not read.
sub visibility_map
{
	make_table('heap', 't');
	value($node, 'VACUUM (FREEZE) t; CHECKPOINT');
	my $pages = value($node, q(SELECT pg_relation_size('t') / 8192));
	# a bit in one half
	value($node, "UPDATE t SET pad = pad || 'z' WHERE id % 10 = 1 AND id BETWEEN 1000 AND 40000; CHECKPOINT");
	my %reads;
	foreach my $options ('INDEX_CLEANUP off', 'INDEX_CLEANUP off, DISABLE_PAGE_SKIPPING')
	{
		evict($node, 't');
		value($node, 'SELECT aiostream_stat_reset()');
		vacuum('t', $options, 'on');
		$reads{$options} = counters($node)->{read_bytes} / 8192;
	}
	cmp_ok($reads{'INDEX_CLEANUP off'}, '<', $pages * 0.7, 'skipped: not read');
	cmp_ok($reads{'INDEX_CLEANUP off'}, '>', 0, 'not skipped: read');
	cmp_ok($reads{'INDEX_CLEANUP off, DISABLE_PAGE_SKIPPING'}, '>', $pages * 0.7, 'nothing is skipped on demand');
	return;
}

# Pages left dirty are written behind; crash recovery agrees with it.
sub written_behind
{
	make_table('heap', 't');
	foreach my $setting (qw(off on))
	{
		value($node, "UPDATE t SET pad = pad || 'b' WHERE id % 4 = 1; CHECKPOINT; SELECT aiostream_evict('t'), aiostream_stat_reset()");
		value($node, "SET aiostream.write_behind = $setting; $slow; VACUUM t");
		my $counters = counters($node);
		is($counters->{failed_writes}, 0, "write-behind $setting: no failure");
		if ($setting eq 'on') { cmp_ok($counters->{writes}, '>', 0, 'write-behind: writes') }
		else { is($counters->{writes}, 0, 'write-behind off: no writes') }
	}
	my $rows = value($node, q(SELECT md5(string_agg((ctid, id, x, pad)::text, ' ' ORDER BY ctid)) FROM t));
	$node->stop('immediate');
	$node->start;
	is(value($node, q(SELECT md5(string_agg((ctid, id, x, pad)::text, ' ' ORDER BY ctid)) FROM t)), $rows,
		'write-behind: recovery finds the same rows');
	check('write-behind', 't');
	return;
}

# What others use stays in shared buffers.
sub working_set
{
	make_table('heap', 't');
	value($node, q(CREATE TABLE warm AS SELECT g id, repeat('w', 400) pad FROM generate_series(1, 60000) g; VACUUM (FREEZE) warm; CHECKPOINT));
	my $cached = q(SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('warm') AND relforknumber = 0);
	my %left;
	foreach my $follow (qw(off on))
	{
		value($node, q(UPDATE t SET pad = pad || 'u' WHERE id % 20 = 4; CHECKPOINT));
		value($node, q(SELECT aiostream_evict('t'), aiostream_evict('warm')));
		# all of it, once and again
		value($node, q(SELECT aiostream_prewarm('warm') FROM generate_series(1, 5)));
		my $before = value($node, $cached);
		vacuum('t', '', $follow);
		$left{$follow} = value($node, $cached) / $before;
	}
	cmp_ok($left{on}, '>=', $left{off} - 0.02, sprintf 'a warm table stays: %.3f of it with follower, %.3f without', @left{qw(on off)});
	value($node, 'DROP TABLE warm');
	return;
}

# Starts a slow vacuum and waits for its follower to be at work.  Returns session, its
# pid, the follower's.
sub begin_vacuum
{
	my ($sql) = @_;
	my $session = session($node, split /; SET /, $very_slow =~ s/^SET //r);
	my $pid = ask($session, 'SELECT pg_backend_pid()');
	evict($node, 't');
	launch($session, $sql // 'VACUUM t');
	await($node, "SELECT count(*) = 1 FROM $view WHERE pid = $pid AND blocks_read > 0", 'a follower at work');
	my $follower = value($node, "SELECT follower_pid FROM $view WHERE pid = $pid");
	return ($session, $pid, $follower);
}

sub follower_gone
{
	my ($what, $follower) = @_;
	ok(wait_gone($follower), "$what: the follower is gone");
	is(value($node, "SELECT count(*) FROM $view"), '0', "$what: the view is empty");
	is(value($node, q(BEGIN; SET lock_timeout = '10s'; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; COMMIT; SELECT 1)), '1',
		"$what: nobody has the table locked");
	nothing_left($node, $what);
	return;
}

sub ended
{
	make_table('heap', 't');
	my ($session, $pid, $follower) = begin_vacuum();
	is(value($node, "SELECT relid::regclass, phase FROM $view"), 't|scanning heap', 'the view: table, phase');
	is(value($node, "SELECT distance BETWEEN 1 AND 2048 FROM $view"), 't', 'the view: distance');
	is(value($node, "SELECT backend_type FROM pg_stat_activity WHERE pid = $follower"), 'aiostream vacuum follower',
		'pg_stat_activity has it');
	is(value($node, "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $follower"), 't',
		'it holds back no horizon');
	is(value($node, "SELECT string_agg(DISTINCT mode, ' ') FROM pg_locks WHERE pid = $follower AND locktype = 'relation'"),
		'AccessShareLock', 'its locks are weak');
	value($node, "SELECT pg_cancel_backend($pid)");
	my (undef, $error) = outcome($session);
	like($error, qr/canceling statement due to user request/, 'cancelled');
	follower_gone('cancelled', $follower);
	leave($session);

	($session, $pid, $follower) = begin_vacuum();
	value($node, "SELECT pg_terminate_backend($pid)");
	follower_gone('terminated', $follower);
	leave($session);

	# the follower alone: the vacuum does not mind
	($session, $pid, $follower) = begin_vacuum();
	my $offset = -s $node->logfile;
	kill 'TERM', $follower;
	ok(wait_gone($follower), 'the follower ends on its own');
	unlike(log_since($node, $offset), qr/ERROR|FATAL/, 'without an error in the log');
	is(value($node, "SELECT count(*) FROM pg_stat_progress_vacuum WHERE pid = $pid"), '1', 'its vacuum goes on');
	value($node, "SELECT pg_cancel_backend($pid)");
	leave($session);

	# two at a time
	($session, $pid, $follower) = begin_vacuum();
	value($node, 'CREATE TABLE u (LIKE t); INSERT INTO u SELECT * FROM t; DELETE FROM u WHERE id % 20 = 5');
	like(vacuum('u', '', 'on'), qr/^tuples: [1-9]\d* removed/m, 'another vacuum beside it');
	value($node, "SELECT pg_cancel_backend($pid); DROP TABLE u");
	follower_gone('two at a time', $follower);
	leave($session);
	return;
}

sub killed
{
	foreach my $who (qw(vacuum follower))
	{
		my ($session, $pid, $follower) = begin_vacuum();
		my $offset = -s $node->logfile;
		kill 'KILL', $who eq 'vacuum' ? $pid : $follower;
		ok(wait_gone($pid, $follower), "kill -9 of the $who: both are gone");
		leave($session);
		$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
		is(value($node, "SELECT count(*) FROM $view"), '0', "kill -9 of the $who: the view is empty");
		like(vacuum('t', '', 'on'), qr/^tuples: /m, "kill -9 of the $who: VACUUM works");
		check("kill -9 of the $who", 't');
		make_table('heap', 't');
	}
	return;
}

sub in_the_way
{
	# who wants the table waits for the vacuum, and not for its follower
	make_table('heap', 't');
	my ($session, $pid, $follower) = begin_vacuum();
	my $drop = session($node);
	my $drop_pid = ask($drop, 'SELECT pg_backend_pid()');
	launch($drop, 'DROP TABLE t');
	await($node, "SELECT cardinality(pg_blocking_pids($drop_pid)) > 0", 'DROP to wait');
	value($node, "SELECT pg_cancel_backend($pid)");
	elapsed_ok(20, 'DROP', sub {
		my (undef, $error) = outcome($drop);
		is($error, '', 'DROP after the vacuum');
	});
	ok(wait_gone($follower), 'DROP: the follower is gone');
	leave($session);
	leave($drop);

	# truncation: at most one try to lock the table may fail
	make_table('heap', 't');
	value($node, q(DELETE FROM t WHERE ctid > '(400,0)'::tid; CHECKPOINT));
	foreach my $options ('', 'INDEX_CLEANUP off')
	{
		my $before = value($node, q(SELECT pg_relation_size('t')));
		my $said = vacuum('t', $options, 'on');
		like($said, qr/truncated \d+ to \d+ pages/, "truncation ($options)") if $options eq '';
		unlike($said, qr/stopping truncate/, "truncation is not given up ($options)");
	}
	cmp_ok(value($node, q(SELECT pg_relation_size('t') / 8192)), '<', 600, 'truncated');
	check('truncated', 't');
	return;
}

sub whole_database
{
	make_table('heap', 't');
	make_table('aioheap', 'u');
	my ($session, $pid, $follower) = begin_vacuum('VACUUM t, u');
	value($node, "SELECT pg_cancel_backend($pid)");
	leave($session);
	ok(wait_gone($follower), 'a list of tables: the follower ends');
	evict($node, qw(t u));
	value($node, 'SELECT aiostream_stat_reset()');
	value($node, "$slow; VACUUM");
	my $tables = value($node, q(SELECT sum(pg_relation_size(c)) FROM unnest(ARRAY['t', 'u']::regclass[]) c));
	cmp_ok(counters($node)->{read_bytes}, '>', $tables * 0.8, 'the whole database: one follower reads all tables');
	is(counters($node)->{fallback_no_follower}, 0, 'the whole database: no want of workers');
	check('the whole database', $_) foreach qw(t u);
	return;
}

# autovacuum of an aioheap table
sub automatic
{
	make_table('aioheap', 'u');
	evict($node, 'u');
	value($node, q(SELECT pg_stat_force_next_flush()));
	value($node, q(ALTER TABLE u SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
		autovacuum_analyze_threshold = 100000000, autovacuum_vacuum_cost_delay = 20, autovacuum_vacuum_cost_limit = 50)));
	$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = '1s'\n");
	$node->reload;
	await($node, "SELECT count(*) = 1 FROM $view v JOIN pg_stat_activity a USING (pid)
		WHERE a.backend_type = 'autovacuum worker' AND relid = 'u'::regclass AND blocks_read > 0", 'autovacuum with a follower');
	my ($pid, $follower) = split /\|/, value($node, "SELECT pid, follower_pid FROM $view");
	# who wants the table cancels it
	elapsed_ok(60, 'ALTER TABLE during autovacuum', sub {
		value($node, 'ALTER TABLE u SET (autovacuum_enabled = off)');
		value($node, 'ALTER TABLE u ADD COLUMN more int');
	});
	ok(wait_gone($follower), 'autovacuum: the follower is gone');
	$node->append_conf('postgresql.conf', "autovacuum = off\n");
	$node->reload;
	check('autovacuum', 'u');
	return;
}

sub stopped
{
	make_table('heap', 't');
	my ($session, $pid, $follower) = begin_vacuum();
	my $offset = -s $node->logfile;
	elapsed_ok(30, 'a fast shutdown', sub { $node->stop('fast') });
	ok(process_gone($follower), 'a fast shutdown: the follower is gone');
	my $log = log_since($node, $offset);
	is(count_in($log, qr/ERROR|PANIC|signal/), 0, 'a fast shutdown: no error');
	leave($session);
	$node->start;
	return;
}

sub no_slot
{
	restart_with($node, max_worker_processes => 2, max_parallel_maintenance_workers => 0, 'aiostream.io_method' => 'sync');
	make_table('heap', 'with_it', 'without');
	value($node, 'SELECT aiostream_stat_reset()');
	my %said = map { $_ => vacuum($_, '', $_ eq 'with_it' ? 'on' : 'off') } qw(with_it without);
	is(counters($node)->{fallback_no_follower}, 1, 'no slot: counted');
	is(counters($node)->{reads}, 0, 'no slot: no follower');
	is(told($said{with_it}, 'with_it'), told($said{without}, 'without'), 'no slot: the same was done');
	is(state_of('with_it', $said{with_it}), state_of('without', $said{without}), 'no slot: the same is left');

	# who would not need one does not ask
	value($node, q(CREATE TABLE small AS SELECT generate_series(1, 10000) id; DELETE FROM small WHERE id % 3 = 0));
	value($node, 'CREATE TABLE cached (id int, pad text)');
	value($node, q(INSERT INTO cached SELECT g, repeat('x', 400) FROM generate_series(1, 25000) g; DELETE FROM cached WHERE id % 9 = 0));
	value($node, "SELECT aiostream_prewarm('cached')");
	value($node, "VACUUM $_") foreach qw(small cached);
	value($node, 'CREATE TEMP TABLE mine AS SELECT * FROM with_it; DELETE FROM mine WHERE id % 2 = 0; VACUUM mine; VACUUM (FULL) with_it; ANALYZE without');
	value($node, 'SET aiostream.enable = off; VACUUM (DISABLE_PAGE_SKIPPING) without');
	is(counters($node)->{fallback_no_follower}, 1, 'small, cached, temporary tables, FULL: no follower is wanted');
	return;
}
