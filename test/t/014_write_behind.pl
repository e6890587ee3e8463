# Dirty pages written by the I/O workers: WAL first; what changes meanwhile stays
# dirty; a checkpoint waits, and syncs the file; failures leave the page to core; a
# kill -9 at any step loses nothing.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('write', 'aiostream.io_method' => 'worker', 'aiostream.io_workers' => 2,
	initdb => ['--data-checksums'], fsync => 'on', bgwriter_lru_maxpages => 0, log_checkpoints => 'on', wal_writer_delay => '10s',
	wal_writer_flush_after => '1GB', log_min_messages => 'debug1', synchronous_commit => 'off', full_page_writes => 'on');
value($node, q{
	CREATE EXTENSION pageinspect;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (id int PRIMARY KEY, x int, pad text) USING aioheap;
	INSERT INTO t SELECT g, 0, repeat('x', 200) FROM generate_series(1, 9000) g;
	CREATE FUNCTION dirty() RETURNS bigint LANGUAGE sql AS
		$$SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0 AND isdirty$$;
	-- the LSN of a block of the file, and of the one in memory
	CREATE FUNCTION lsn_on_disk(b int) RETURNS pg_lsn LANGUAGE sql AS $$
		SELECT (to_hex((get_byte(p, 3)::bigint << 24) | (get_byte(p, 2) << 16) | (get_byte(p, 1) << 8) | get_byte(p, 0)) || '/' ||
			to_hex((get_byte(p, 7)::bigint << 24) | (get_byte(p, 6) << 16) | (get_byte(p, 5) << 8) | get_byte(p, 4)))::pg_lsn
		FROM pg_read_binary_file(pg_relation_filepath('t'), b * 8192, 8) p$$;
	CREATE FUNCTION lsn_in_memory(b int) RETURNS pg_lsn LANGUAGE sql AS $$SELECT lsn FROM page_header(get_raw_page('t', b))$$;
	VACUUM (FREEZE) t;
	CHECKPOINT;
});
my $blocks = value($node, "SELECT pg_relation_size('t') / 8192");
my $rounds = 0;    # each adds 1 to every x
workers_run();

# --- plain ------------------------------------------------------------------

change();
my $dirty = value($node, 'SELECT dirty()');
cmp_ok($dirty, '>=', 200, "$dirty pages are dirty");
my $before = counters($node);
is(value($node, "SELECT aiostream_write_out('t')"), $dirty, 'all of them are handed to the workers');
is(value($node, 'SELECT dirty()'), 0, 'and clean then');
my $after = counters($node);
is($after->{write_bytes} - $before->{write_bytes}, $dirty * 8192, 'each was written once');
my $requests = $after->{writes} - $before->{writes};
cmp_ok($requests, '<=', $dirty / 32, "in $requests large requests");
is($after->{write_skipped} + $after->{failed_writes}, 0, 'none was left out');
is(value($node, "SELECT aiostream_write_out('t')"), 0, 'nothing is left to write');
is(value($node, "SELECT count(*) FROM generate_series(0, $blocks - 1) b WHERE lsn_on_disk(b) <> lsn_in_memory(b)"), 0,
	'what is in the file is what is in memory');
sound('plain');

# by this process, where no worker is to be had
restart_with($node, 'aiostream.io_method' => 'sync');
change();
cmp_ok(value($node, "SELECT aiostream_write_out('t')"), '>=', 200, 'sync: written');
is(value($node, 'SELECT dirty()'), 0, 'sync: and clean then');

# where an error before the write is caught by none but us
{
	my $writer = session($node);
	change();
	my $n = value($node, 'SELECT dirty()');
	arm($node, 'write_flush', 'fail');
	my $at = -s $node->logfile;
	is(ask($writer, "SELECT aiostream_write_out('t')"), $n, 'sync: WAL cannot be flushed: no error of the submitter');
	is(value($node, 'SELECT dirty()'), $n, 'sync: no page is written then');
	like(log_since($node, $at), qr/LOG:  could not write pages behind: injected error/, 'sync: it is in the log');
	disarm($node, 'write_flush');
	is(ask($writer, "SELECT aiostream_write_out('t')"), $n, 'sync: the same session goes on');
	is(value($node, 'SELECT dirty()'), 0, 'sync: and writes');
	# interrupts are as they were
	launch($writer, 'SELECT pg_sleep(600)');
	await($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'}, 'the session to sleep');
	value($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
	elapsed_ok(60, 'sync: a cancel of that session', sub { like((outcome($writer))[1], qr/canceling statement/, 'sync: it can be cancelled') });
	leave($writer);
	sound('sync');
}
restart_with($node, 'aiostream.io_method' => 'worker');
workers_run();

# --- WAL first ----------------------------------------------------------------

{
	my ($walwriter) = value($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
	value($node, 'CHECKPOINT');
	kill 'STOP', $walwriter;
	arm($node, 'write_flush', 'pause');
	arm($node, 'write_copied', 'pause');
	change('id <= 300');
	my $page = value($node, 'SELECT (ctid::text::point)[0]::int FROM t WHERE id = 1');
	my $old = value($node, "SELECT lsn_on_disk($page)");
	my $new = value($node, "SELECT lsn_in_memory($page)");
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	paused($node, 'write_flush');
	is(value($node, "SELECT pg_current_wal_flush_lsn() < '$new'"), 't', 'WAL of the first page is not out yet');
	is(value($node, "SELECT lsn_on_disk($page)"), $old, 'so the page is not, either');
	disarm($node, 'write_flush');
	paused($node, 'write_copied');
	is(value($node, "SELECT pg_current_wal_flush_lsn() >= '$new'"), 't', 'then WAL is out');
	is(value($node, "SELECT lsn_on_disk($page)"), $old, 'and the page still not');
	disarm($node, 'write_copied');
	outcome($writer);
	is(value($node, "SELECT lsn_on_disk($page)"), $new, 'and then the page is');
	cmp_ok(counters($node)->{wal_flushes}, '>', 0, 'flushes are counted');
	kill 'CONT', $walwriter;
	leave($writer);
	sound('WAL first');
}

# --- writes wait in line, reads pass them --------------------------------------------

{
	value($node, "CREATE TABLE u AS SELECT g AS id, repeat('u', 500) AS pad FROM generate_series(1, 20000) g; VACUUM (FREEZE) u; CHECKPOINT");
	change();
	arm($node, 'write_flush', 'pause');
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	paused($node, 'write_flush');
	await($node, q{SELECT count(*) >= 3 FROM aiostream_ios WHERE state = 'submitted'}, 'several requests under way');
	is(value($node, "SELECT aiostream_debug_fault_waiters('write_flush')"), 1, 'one of two workers executes a write');
	value($node, "SELECT aiostream_evict('u')");
	my $reads = counters($node)->{worker_reads};
	elapsed_ok(20, 'a cold scan', sub { is(value($node, 'SELECT count(*) FROM u'), 20000, 'the other one reads') });
	cmp_ok(counters($node)->{worker_reads}, '>', $reads, 'by way of the workers');
	is(value($node, "SELECT aiostream_debug_fault_waiters('write_flush')"), 1, 'still only one of them writes');
	disarm($node, 'write_flush');
	cmp_ok(scalar(outcome($writer)), '>=', 200, 'then all is written');
	leave($writer);
	is(value($node, 'SELECT dirty()'), 0, 'and clean');
	sound('in line');
}

# --- and yet have their turn ---------------------------------------------------------

{
	restart_with($node, 'aiostream.io_workers' => 1);
	await($node, "SELECT value::int = 1 FROM aiostream_info() WHERE name = 'io_workers_running'");
	change('id <= 300');
	value($node, "SELECT aiostream_evict('u')");
	my $blocks = value($node, "SELECT pg_relation_size('u') / 8192 / 4");
	my $done = counters($node)->{worker_reads};
	# the worker has a read, others wait, and a write behind them; more reads are to follow
	arm($node, 'worker_read', 'pause');
	arm($node, 'write_copied', 'pause');
	my @readers = map { session($node, 'aiostream.direct_io = on', 'aiostream.io_combine_limit = 1') } 0 .. 3;
	launch($readers[$_], "SELECT aiostream_prewarm('u', 'buffer', 'main', $_ * $blocks, ($_ + 1) * $blocks - 1)") foreach 0 .. 3;
	my $waiting = q{SELECT count(*) FROM aiostream_ios WHERE state = 'submitted'};
	await($node, "SELECT count(DISTINCT pid) = 4 FROM aiostream_ios WHERE state = 'submitted'", 'reads of all to wait');
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	await($node, "SELECT count(DISTINCT pid) = 5 FROM aiostream_ios WHERE state = 'submitted'", 'a write to wait behind them');
	disarm($node, 'worker_read');
	paused($node, 'write_copied');
	my $overtaken = counters($node)->{worker_reads} - $done;
	cmp_ok($overtaken, '<', 100, "a write had its turn after $overtaken reads");
	cmp_ok(value($node, $waiting), '>', 1, 'reads wait for it');
	disarm($node, 'write_copied');
	cmp_ok(outcome($writer), '>', 0, 'it is made');
	is(join(' ', map { scalar outcome($_) } @readers), join(' ', ($blocks) x 4), 'and all the reads');
	leave($_) foreach @readers, $writer;
	sound('their turn');
	restart_with($node, 'aiostream.io_workers' => 2);
	workers_run();
}

# --- changed while it is written ------------------------------------------------

{
	# rows in order, from the first page on
	value($node, 'VACUUM FULL t; CHECKPOINT');
	change('id <= 300 AND id % 2 = 0');
	my $n = value($node, 'SELECT dirty()');
	arm($node, 'write_copied', 'pause');
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	paused($node, 'write_copied');
	elapsed_ok(20, 'a change of a page being written', sub { value($node, "UPDATE t SET pad = repeat('y', 200) WHERE id = 1") });
	disarm($node, 'write_copied');
	outcome($writer);
	leave($writer);
	my $left = value($node, "SELECT string_agg(relblocknumber::text, ' ' ORDER BY relblocknumber) FROM pg_buffercache
		WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0 AND isdirty");
	cmp_ok(value($node, 'SELECT dirty()'), '<', $n, 'others are clean');
	like($left, qr/^0\b/, 'the page that was changed meanwhile is still dirty');
	value($node, 'CHECKPOINT');
	is(value($node, 'SELECT dirty()'), 0, 'until a checkpoint writes it');
	is(value($node, "SELECT lsn_on_disk(0) = lsn_in_memory(0)"), 't', 'in its last state');
	sound('changed meanwhile');
}

# --- a checkpoint meanwhile -------------------------------------------------------

foreach my $point ('write_copied', 'write_written')
{
	value($node, 'CHECKPOINT');
	change('id <= 300');
	my $n = value($node, 'SELECT dirty()');
	arm($node, $point, 'pause');
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	paused($node, $point);
	my $offset = -s $node->logfile;
	my $checkpoint = session($node);
	launch($checkpoint, 'CHECKPOINT');
	await($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'checkpointer' AND wait_event = 'BufferIO'",
		'the checkpointer to wait for the write');
	ok(!$node->log_contains('checkpoint complete', $offset), "$point: a checkpoint waits");
	disarm($node, $point);
	outcome($checkpoint);
	outcome($writer);
	leave($_) foreach $checkpoint, $writer;
	is(value($node, 'SELECT dirty()'), 0, "$point: all is clean");
	# the pages of t were not the checkpoint's to write, but the file was to sync
	like(log_since($node, $offset), synced_t(), "$point: it synced the file");
	sound("checkpoint at $point");
}

# only our writes before it: the file is synced all the same, after they were made
{
	change('id <= 300');
	value($node, 'CHECKPOINT');
	my $offset = -s $node->logfile;
	value($node, 'CHECKPOINT');
	unlike(log_since($node, $offset), synced_t(), 'nothing to be synced');
	value($node, "UPDATE t SET pad = pad WHERE id = 7");
	my $calls = traced(sub {
		value($node, "SELECT aiostream_write_out('t')");
		is(value($node, 'SELECT dirty()'), 0, 'written by us alone');
		value($node, 'CHECKPOINT');
	});
	like(log_since($node, $offset), synced_t(), 'and synced by the checkpoint');
  SKIP:
	{
		skip 'strace cannot be used here', 1 unless defined $calls;
		like(join(' ', grep { /write|sync/ } split / /, $calls), qr/^(pwrite64 )+fsync/, 'system calls on the file: written, then synced');
	}
}

# --- failures ---------------------------------------------------------------------

change();
arm($node, 'write_error', 'fail');
$before = counters($node);
value($node, "SELECT aiostream_write_out('t')");
is(counters($node)->{failed_writes} - $before->{failed_writes}, value($node, 'SELECT dirty()'), 'failed writes leave pages dirty');
disarm($node, 'write_error');
value($node, 'CHECKPOINT');
is(value($node, 'SELECT dirty()'), 0, 'and core writes them');

change();
arm($node, 'write_queue', 'fail');
value($node, "SELECT aiostream_write_out('t')");
disarm($node, 'write_queue');
is(value($node, 'SELECT dirty()'), 0, 'a full queue of fsync requests: synced on the spot');

# an ERROR in the middle of a request, in the worker
change();
my $offset = -s $node->logfile;
arm($node, 'write_raise', 'fail');
my $given = value($node, "SELECT aiostream_write_out('t')");
cmp_ok($given, '>', 0, 'an error in a worker: whoever waits for the request goes on');
is(value($node, 'SELECT dirty()'), $given, 'pages stay dirty');
disarm($node, 'write_raise');
like(log_since($node, $offset), qr/LOG:  could not write pages behind: injected error/, 'it is in the log');
value($node, 'CHECKPOINT');
is(value($node, 'SELECT dirty()'), 0, 'and core writes them');
sound('failures');

# a page that somebody has locked is left alone
{
	value($node, 'CHECKPOINT');
	change('id <= 300');
	arm($node, 'write_copied', 'pause');
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	paused($node, 'write_copied');
	# a second one finds its pages busy, and does not wait for them
	elapsed_ok(20, 'a second writer', sub {
		value($node, "SET aiostream.io_combine_limit = 1; SELECT aiostream_evict('pg_class'::regclass) IS NULL") });
	my $vacuum = session($node);
	launch($vacuum, 'VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t');
	disarm($node, 'write_copied');
	outcome($writer);
	my (undef, $error) = outcome($vacuum);
	unlike($error, qr/ERROR/, 'VACUUM beside it');
	leave($_) foreach $writer, $vacuum;
	sound('VACUUM');
}

# --- kill -9 --------------------------------------------------------------------

foreach my $point ('write_flush', 'write_copied', 'write_written')
{
	foreach my $victim ('io worker', 'submitter', 'postmaster')
	{
		my $what = "$victim killed at $point";
		change();
		value($node, 'SELECT txid_current(); SET synchronous_commit = on; CREATE TABLE IF NOT EXISTS u (i int); INSERT INTO u VALUES (1)');
		arm($node, $point, 'pause');
		my $writer = session($node);
		my $pid = ask($writer, 'SELECT pg_backend_pid()');
		launch($writer, "SELECT aiostream_write_out('t')");
		paused($node, $point);
		my $offset = -s $node->logfile;
		if ($victim eq 'postmaster')
		{
			my %processes = server_processes($node);
			$node->kill9;
			ok(wait_gone(keys %processes), "$what: its children end");
			ok(wait_until('a start', sub { $node->start(fail_ok => 1) }), "$what: starts again");
		}
		else
		{
			my @pids = $victim eq 'submitter' ? ($pid) : processes_like($node, qr/aiostream io worker/);
			kill 'KILL', @pids;
			$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
			$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
		}
		leave($writer);
		sound($what);
		workers_run();
	}
}

# --- shutdown with writes on their way -------------------------------------------

foreach my $mode ('fast', 'immediate')
{
	change();
	value($node, 'SET synchronous_commit = on; INSERT INTO u VALUES (1)');
	arm($node, 'write_copied', 'pause');
	my $writer = session($node);
	launch($writer, "SELECT aiostream_write_out('t')");
	paused($node, 'write_copied');
	elapsed_ok(60, "$mode shutdown", sub { $node->stop($mode) });
	leave($writer);
	if ($mode eq 'fast')
	{
		command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$mode: checksums");
	}
	$node->start;
	sound("$mode shutdown");
	workers_run();
}

$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums');
my @bad = grep { /PANIC|TRAP/ } split /\n/, log_since($node);
is("@bad", '', 'no PANIC');
done_testing();

sub workers_run
{
	return await($node, "SELECT value::int = 2 FROM aiostream_info() WHERE name = 'io_workers_running'");
}

# The checkpointer's word that it has had the table's file synced
sub synced_t
{
	my $path = value($node, "SELECT pg_relation_filepath('t')");
	return qr/checkpoint sync: number=\d+ file=$path /;
}

# The writes and syncs of the table's file that checkpointer and I/O workers do
# meanwhile, in order; undef if they cannot be traced
sub traced
{
	my ($code) = @_;
	my $path = value($node, "SELECT pg_relation_filepath('t')");
	my $out = PostgreSQL::Test::Utils::tempdir() . '/strace';
	my @pids = processes_like($node, qr/checkpointer|aiostream io worker/);
	my $strace = eval { IPC::Run::start([ 'strace', '-y', '-o', $out, '-e', 'trace=pwrite64,pwritev,fsync,fdatasync', map { ('-p', $_) } @pids ],
		'<', \undef, '>', \my $said, '2>', \my $error) };
	# attached: each has a tracer
	my $attached = $strace && wait_until('strace', sub {
		!$strace->pumpable || @pids == grep { slurp_file("/proc/$_/status") =~ /^TracerPid:\s+[1-9]/m } @pids }, 20) && $strace->pumpable;
	$code->();
	return undef unless $attached;
	$strace->signal('INT');
	$strace->finish;
	return join ' ', map { /(\w+)\(\d+<[^>]*\/$path>/ ? $1 : () } split /\n/, slurp_file($out);
}

# Every row's x one up, or of some rows
sub change
{
	my ($where) = @_;
	value($node, 'UPDATE t SET x = x + 1' . ($where ? " WHERE $where" : ''));
	$rounds++ unless $where;
	return;
}

# All changes are there, also from the file's point of view
sub sound
{
	my ($what) = @_;
	my $sum = value($node, 'SET aiostream.enable = off; SELECT count(*), min(x) >= ' . $rounds . ', max(x) - min(x) <= 9 FROM t');
	is($sum, '9000|t|t', "$what: all rows with all changes");
	is(value($node, "SELECT count(*) FROM aiostream_verify('t')"), 0, "$what: amcheck");
	nothing_left($node, $what);
	is(value($node, "SELECT writes >= 0 AND failed_reads = 0 FROM pg_stat_aiostream"), 't', "$what: no failed reads");
	return;
}
