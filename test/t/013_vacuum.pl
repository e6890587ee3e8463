# The follower of VACUUM: the result is what it is without, in every way; it ends with
# its vacuum in every way; it is in nobody's way.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use AiostreamVacuum;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('vacuum', shared_buffers => '32MB');
value($node, 'CREATE EXTENSION pg_visibility; CREATE EXTENSION amcheck; CREATE EXTENSION pg_freespacemap');
my @usable = usable_methods($node);


make_tables($node, {}, 'with_it', 'without');
foreach my $method (@usable)
{
	restart_with($node, 'aiostream.io_method' => $method);
	twins($method);
}
restart_with($node, 'aiostream.io_method' => 'auto');
foreach my $options ('FREEZE', 'DISABLE_PAGE_SKIPPING', 'INDEX_CLEANUP off', 'INDEX_CLEANUP on', 'PARALLEL 2', 'PARALLEL 0, FREEZE')
{
	twins("heap, $options", options => $options);
}
twins('heap, TRUNCATE on', fresh => 1, options => 'TRUNCATE on', tail => 1);
twins('aioheap', fresh => 1, am => 'aioheap', pending => 1);
twins('aioheap, all options', fresh => 1, am => 'aioheap', tail => 1, options => 'FREEZE, DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on, PARALLEL 2, TRUNCATE off');
twins('unlogged', fresh => 1, persistence => 'UNLOGGED', tail => 1);
toast();
small_memory();
visibility_map();
written_behind();
ended();
killed();
in_the_way();
whole_database();
automatic();
stopped();
no_slot();
$node->stop;
done_testing();

# Options: those of make_tables, VACUUM's, and whether tables are made or those that are
# there have new dead rows on all pages
sub twins
{
	my ($what, %options) = @_;
	my $options = $options{options} // '';
	if ($options{fresh}) { make_tables($node, \%options, 'with_it', 'without') }
	else { more_dead($node, 'with_it', 'without') }
	my $before = counters($node);
	my $without = vacuum($node, 'without', $options, 'off');
	is(counters($node)->{reads}, $before->{reads}, "$what: no follower when switched off");
	my $with_it = vacuum($node, 'with_it', $options, 'on');
	my $after = counters($node);
	cmp_ok($after->{read_bytes} - $before->{read_bytes}, '>', 4 * 1024 * 1024, "$what: the follower has read");
	cmp_ok($after->{write_bytes} - $before->{write_bytes}, '>', 0, "$what: and written");
	is(told($with_it, 'with_it'), told($without, 'without'), "$what: the same was done");
	is(state_of($node, 'with_it', $with_it), state_of($node, 'without', $without), "$what: the same is left");
	like(state_of($node, 'with_it', $with_it), qr/^rows [1-9]\d+ \w{32}$/m, "$what: there are rows");
	like($with_it, qr/launched 2 parallel vacuum workers/, "$what: in parallel") if $options =~ /PARALLEL 2/;
	if ($options{tail} && $options !~ /TRUNCATE off/) { like($with_it, qr/truncated \d+ to \d+ pages/, "$what: truncated") }
	else { unlike($with_it, qr/truncated/, "$what: not truncated") }
	sound_table($node, $what, 'with_it');
	is(value($node, "SELECT count(*) FROM $view"), '0', "$what: the follower ends")
	  if await($node, "SELECT count(*) = 0 FROM $view", 'no follower');
	nothing_left($node, $what);
	return;
}

# A small table with a large TOAST table
sub toast
{
	my %left;
	my $before = counters($node);
	foreach my $table (qw(without with_it))
	{
		value($node, qq{CREATE TABLE toast_$table (id int, big text) WITH (autovacuum_enabled = off);
			ALTER TABLE toast_$table ALTER COLUMN big SET STORAGE EXTERNAL;
			INSERT INTO toast_$table SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 4000) g;
			DELETE FROM toast_$table WHERE id % 5 = 2; CHECKPOINT});
		my $toast = value($node, "SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'toast_$table'");
		evict($node, $toast);
		vacuum($node, "toast_$table", '', $table eq 'with_it' ? 'on' : 'off');
		$left{$table} = value($node, qq{
			SELECT 'size ' || pg_relation_size('$toast') || ' ' || pg_indexes_size('$toast') UNION ALL
			SELECT 'map ' || md5(string_agg((blkno, all_visible, all_frozen)::text, ' ' ORDER BY blkno)) FROM pg_visibility_map('$toast') UNION ALL
			SELECT 'space ' || md5(string_agg((blkno, avail)::text, ' ' ORDER BY blkno)) FROM pg_freespace('$toast') UNION ALL
			SELECT 'free pages ' || count(*) FROM pg_freespace('$toast') WHERE avail > 500 UNION ALL
			SELECT 'rows ' || md5(string_agg((ctid, id, big)::text, ' ' ORDER BY ctid)) FROM toast_$table});
		cmp_ok(counters($node)->{read_bytes} - $before->{read_bytes}, $table eq 'with_it' ? '>' : '==', $table eq 'with_it' ? 8 * 1024 * 1024 : 0,
			"TOAST: the follower reads that table, too ($table)");
	}
	is($left{with_it}, $left{without}, 'TOAST: the same is left');
	sound_table($node, 'TOAST', 'toast_with_it');
	value($node, "DROP TABLE toast_$_") foreach qw(without with_it);
	return;
}

# Several rounds over the indexes, for lack of memory for dead items
sub small_memory
{
	# more dead items than the 174 thousand that 1 MB holds
	value($node, join '', "BEGIN;\n", (map { qq{
		DROP TABLE $_;
		CREATE TABLE $_ (id int, x int, pad text) WITH (autovacuum_enabled = off);
		INSERT INTO $_ SELECT g, g::bigint * 7919 % 100003 FROM generate_series(1, 300000) g;
		CREATE INDEX ON $_ (id);
		CREATE INDEX ON $_ (x);
	} } qw(with_it without)), 'COMMIT');
	value($node, "BEGIN; DELETE FROM with_it WHERE id % 20 <> 0; DELETE FROM without WHERE id % 20 <> 0; COMMIT; CHECKPOINT");
	my %said = map { $_ => vacuum($node, $_, '', $_ eq 'with_it' ? 'on' : 'off', ($_ eq 'with_it' ? "$slow;" : '') . "SET maintenance_work_mem = '1MB'") } qw(with_it without);
	like($said{with_it}, qr/index scans: 2$/m, 'several rounds');
	is(told($said{with_it}, 'with_it'), told($said{without}, 'without'), 'several rounds: the same was done');
	is(state_of($node, 'with_it', $said{with_it}), state_of($node, 'without', $said{without}), 'several rounds: the same is left');
	sound_table($node, 'several rounds', 'with_it');
	return;
}

# What the visibility map lets VACUUM skip is not read.
sub visibility_map
{
	make_tables($node, { am => 'heap' }, 't');
	value($node, 'VACUUM (FREEZE) t; CHECKPOINT');
	my $pages = value($node, q(SELECT pg_relation_size('t') / 8192));
	# a bit in one half
	value($node, "UPDATE t SET pad = pad || 'z' WHERE id % 10 = 1 AND id BETWEEN 1000 AND 40000; CHECKPOINT");
	my %reads;
	foreach my $options ('INDEX_CLEANUP off', 'INDEX_CLEANUP off, DISABLE_PAGE_SKIPPING')
	{
		evict($node, 't');
		value($node, 'SELECT aiostream_stat_reset()');
		# little is changed, which alone would make it slow
		vacuum($node, 't', $options, 'on', q(SET vacuum_cost_delay = '2ms'; SET vacuum_cost_limit = 5));
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
	make_tables($node, { am => 'heap' }, 't');
	foreach my $setting (qw(off on))
	{
		value($node, "UPDATE t SET pad = pad || 'b' WHERE id % 4 = 1; CHECKPOINT; SELECT aiostream_evict('t'), aiostream_stat_reset()");
		value($node, "SET aiostream.write_behind = $setting; $slow; VACUUM t");
		my $counters = counters($node);
		is($counters->{failed_writes}, 0, "write-behind $setting: no failure");
		if ($setting eq 'on') { cmp_ok($counters->{writes}, '>', 0, 'write-behind: writes') }
		else { is($counters->{writes}, 0, 'write-behind off: no writes') }
	}
	my $rows = rows_of($node, 't');
	$node->stop('immediate');
	$node->start;
	is(rows_of($node, 't'), $rows, 'write-behind: recovery finds the same rows');
	sound_table($node, 'write-behind', 't');
	return;
}

sub ended
{
	make_tables($node, { am => 'heap' }, 't');
	my ($session, $pid, $follower) = begin_vacuum($node);
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
	follower_gone($node, 'cancelled', $follower);
	leave($session);

	($session, $pid, $follower) = begin_vacuum($node);
	value($node, "SELECT pg_terminate_backend($pid)");
	follower_gone($node, 'terminated', $follower);
	leave($session);

	# the follower alone: the vacuum does not mind
	($session, $pid, $follower) = begin_vacuum($node);
	my $offset = -s $node->logfile;
	kill 'TERM', $follower;
	ok(wait_gone($follower), 'the follower ends on its own');
	unlike(log_since($node, $offset), qr/ERROR|FATAL/, 'without an error in the log');
	is(value($node, "SELECT count(*) FROM pg_stat_progress_vacuum WHERE pid = $pid"), '1', 'its vacuum goes on');
	value($node, "SELECT pg_cancel_backend($pid)");
	leave($session);

	# two at a time
	($session, $pid, $follower) = begin_vacuum($node);
	value($node, 'CREATE TABLE u (LIKE t); INSERT INTO u SELECT * FROM t; DELETE FROM u WHERE id % 20 = 5');
	like(vacuum($node, 'u', '', 'on'), qr/^tuples: [1-9]\d* removed/m, 'another vacuum beside it');
	value($node, "SELECT pg_cancel_backend($pid); DROP TABLE u");
	follower_gone($node, 'two at a time', $follower);
	leave($session);
	return;
}

sub killed
{
	foreach my $who (qw(vacuum follower))
	{
		my ($session, $pid, $follower) = begin_vacuum($node);
		my $offset = -s $node->logfile;
		kill 'KILL', $who eq 'vacuum' ? $pid : $follower;
		ok(wait_gone($pid, $follower), "kill -9 of the $who: both are gone");
		leave($session);
		$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
		is(value($node, "SELECT count(*) FROM $view"), '0', "kill -9 of the $who: the view is empty");
		like(vacuum($node, 't', '', 'on'), qr/^tuples: /m, "kill -9 of the $who: VACUUM works");
		sound_table($node, "kill -9 of the $who", 't');
		make_tables($node, { am => 'heap' }, 't');
	}
	return;
}

sub in_the_way
{
	# who wants the table waits for the vacuum, and not for its follower
	make_tables($node, { am => 'heap' }, 't');
	my ($session, $pid, $follower) = begin_vacuum($node);
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
	make_tables($node, { am => 'heap' }, 't');
	value($node, q(DELETE FROM t WHERE ctid > '(400,0)'::tid; CHECKPOINT));
	foreach my $options ('', 'INDEX_CLEANUP off')
	{
		my $before = value($node, q(SELECT pg_relation_size('t')));
		my $said = vacuum($node, 't', $options, 'on');
		like($said, qr/truncated \d+ to \d+ pages/, "truncation ($options)") if $options eq '';
		unlike($said, qr/stopping truncate/, "truncation is not given up ($options)");
	}
	cmp_ok(value($node, q(SELECT pg_relation_size('t') / 8192)), '<', 600, 'truncated');
	sound_table($node, 'truncated', 't');
	return;
}

sub whole_database
{
	make_tables($node, { am => 'heap' }, 't');
	make_tables($node, { am => 'aioheap' }, 'u');
	my ($session, $pid, $follower) = begin_vacuum($node, 'VACUUM t, u');
	value($node, "SELECT pg_cancel_backend($pid)");
	leave($session);
	ok(wait_gone($follower), 'a list of tables: the follower ends');
	evict($node, qw(t u));
	value($node, 'SELECT aiostream_stat_reset()');
	value($node, "$slow; VACUUM");
	my $tables = value($node, q(SELECT sum(pg_relation_size(c)) FROM unnest(ARRAY['t', 'u']::regclass[]) c));
	cmp_ok(counters($node)->{read_bytes}, '>', $tables * 0.8, 'the whole database: one follower reads all tables');
	is(counters($node)->{fallback_no_follower}, 0, 'the whole database: no want of workers');
	sound_table($node, 'the whole database', $_) foreach qw(t u);
	return;
}

# autovacuum of an aioheap table
sub automatic
{
	make_tables($node, { am => 'aioheap' }, 'u');
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
	sound_table($node, 'autovacuum', 'u');
	return;
}

sub stopped
{
	make_tables($node, { am => 'heap' }, 't');
	my ($session, $pid, $follower) = begin_vacuum($node);
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
	make_tables($node, { am => 'heap' }, 'with_it', 'without');
	value($node, 'SELECT aiostream_stat_reset()');
	my %said = map { $_ => vacuum($node, $_, '', $_ eq 'with_it' ? 'on' : 'off') } qw(with_it without);
	is(counters($node)->{fallback_no_follower}, 1, 'no slot: counted');
	is(counters($node)->{reads}, 0, 'no slot: no follower');
	is(told($said{with_it}, 'with_it'), told($said{without}, 'without'), 'no slot: the same was done');
	is(state_of($node, 'with_it', $said{with_it}), state_of($node, 'without', $said{without}), 'no slot: the same is left');

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
