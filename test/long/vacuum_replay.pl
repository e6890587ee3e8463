# VACUUM with its follower under updates, seen from a standby that replays its WAL: the
# pages that were written behind it are those that replay makes.  And a crash right
# after such pages have been written: recovery makes the table that a vacuum alone would
# have left.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use AiostreamVacuum;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @tables = qw(h a);

my $primary = new_server('primary', streaming => 1, initdb => ['--data-checksums'], shared_buffers => '32MB',
	bgwriter_lru_maxpages => 0, fsync => 'on', synchronous_commit => 'off', min_parallel_index_scan_size => '64kB');
value($primary, q{
	CREATE EXTENSION pg_visibility; CREATE EXTENSION amcheck; CREATE EXTENSION pg_freespacemap; CREATE EXTENSION pageinspect;
	-- what is on a page, without hints that need no WAL
	CREATE FUNCTION pages(t regclass) RETURNS text LANGUAGE sql AS $$
		SELECT count(*) || ' ' || md5(string_agg(concat_ws(' ', b, lp, lp_flags, lp_len, t_xmin, t_ctid, t_infomask & 768 = 768, md5(t_data)), ';' ORDER BY b, lp))
		FROM generate_series(0, pg_relation_size(t) / 8192 - 1) b, heap_page_items(get_raw_page(t::text, b::int)) $$;
	CREATE FUNCTION map(t regclass) RETURNS text LANGUAGE sql AS $$
		SELECT count(*) || ' ' || sum(all_visible::int) || ' ' || sum(all_frozen::int) || ' ' ||
			md5(string_agg((blkno, all_visible, all_frozen)::text, ' ' ORDER BY blkno)) FROM pg_visibility_map(t) $$;
	-- B-trees have all rows
	CREATE FUNCTION indexes(t regclass) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(indexrelid::regclass || bt_index_check(indexrelid, true)::text, ' ' ORDER BY indexrelid)
		FROM pg_index WHERE indrelid = t $$;
	CREATE FUNCTION picture(t regclass) RETURNS text LANGUAGE sql AS $$
		SELECT concat_ws(E'\n', relfrozenxid, relpages, relallvisible, 'pages ' || pages(t), 'map ' || map(t), 'indexes ' || indexes(t))
		FROM pg_class WHERE oid = t $$;
	CREATE TABLE going (go bool);
	-- the same changes to all, until somebody says stop; m is never vacuumed
	CREATE PROCEDURE churn(part int, parts int) LANGUAGE plpgsql AS $$
	DECLARE
		which int;
	BEGIN
		WHILE (SELECT go FROM going) LOOP
			which := 1 + part + parts * floor(random() * 12000 / parts);
			UPDATE h SET x = x + 1 WHERE id = which;
			UPDATE a SET x = x + 1 WHERE id = which;
			UPDATE m SET x = x + 1 WHERE id = which;
			COMMIT;
			PERFORM pg_sleep(0.001);
		END LOOP;
	END $$;
	CREATE TABLE m (id int PRIMARY KEY, x int) WITH (fillfactor = 50);
	INSERT INTO m SELECT g, g % 1000 FROM generate_series(1, 12000) g;
});
create_on_disk($primary);
fill_tables();
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby = on\nhot_standby_feedback = off\nmax_standby_streaming_delay = '1h'\n");
$standby->start;

my $step = 0;
foreach my $options ('', 'FREEZE', 'DISABLE_PAGE_SKIPPING', 'INDEX_CLEANUP on', 'INDEX_CLEANUP off', 'TRUNCATE on', 'TRUNCATE off, PARALLEL 2')
{
	replayed($options);
}

# --- the standby takes over ---------------------------------------------------

$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$primary->stop;
command_ok([ 'pg_checksums', '--check', '-D', $primary->data_dir ], 'primary: checksums');
$standby->promote;
await($standby, 'SELECT NOT pg_is_in_recovery()', 'promotion');
foreach my $table (@tables)
{
	same_rows($standby, 'promoted', $table);
	sound_table($standby, "promoted: $table", $table);
	value($standby, "UPDATE $table SET pad = upper(pad) WHERE id % 7 = 1; CHECKPOINT");
	my $before = counters($standby);
	vacuum($standby, $table, '', 'on');
	cmp_ok(counters($standby)->{write_bytes}, '>', $before->{write_bytes}, "promoted: VACUUM of $table writes behind");
	sound_table($standby, "promoted: $table vacuumed", $table);
	same_rows($standby, 'promoted and vacuumed', $table);
}
nothing_left($standby, 'promoted');
is(count_in(log_since($_), qr/PANIC|TRAP|terminated by signal/), 0, $_->name . ': no crash') foreach $primary, $standby;
$standby->stop;
command_ok([ 'pg_checksums', '--check', '-D', $standby->data_dir ], 'promoted: checksums');

# --- crashes -------------------------------------------------------------------

$primary->append_conf('postgresql.conf', "synchronous_standby_names = ''\nwal_writer_delay = '10s'\n");
$primary->start;
# without full-page images, recovery starts from what has been written
restart_with($primary, full_page_writes => 'off');
crashed("crash, $_", $_) foreach 'scanning heap', 'vacuuming indexes', 'vacuuming heap';
restart_with($primary, full_page_writes => 'on');
crashed('crash, full-page images', 'scanning heap');
$primary->stop;
command_ok([ 'pg_checksums', '--check', '-D', $primary->data_dir ], 'crashed: checksums');
done_testing();

# About 11 MB each, the rows of m
sub fill_tables
{
	my %am = (h => 'heap', a => 'aioheap');
	value($primary, qq{
		CREATE TABLE $_ (id int, x int, pad text) USING $am{$_} WITH (autovacuum_enabled = off, fillfactor = 90);
		INSERT INTO $_ SELECT id, x, repeat('p', 780) FROM m;
		CREATE INDEX ON $_ (id);
		CREATE INDEX ON $_ (x);
	}) foreach @tables;
	value($primary, 'CHECKPOINT');
	return;
}

sub same_rows
{
	my ($node, $what, $table) = @_;
	is(value($node, "SELECT count(*), md5(string_agg(concat_ws(' ', id, x), ';' ORDER BY id)) FROM $table"),
		value($node, "SELECT count(*), md5(string_agg(concat_ws(' ', id, x), ';' ORDER BY id)) FROM m"),
		"$what: $table has the rows that it should have");
	return;
}

# VACUUM of all tables under updates, and what it was on the standby
sub replayed
{
	my ($options) = @_;
	my $what = $options || 'no option';
	$step++;
	# dead rows everywhere; the last rows of the file are dead where it is to be truncated
	value($primary, "UPDATE $_ SET pad = pad WHERE id % 12 = $step") foreach @tables;
	if ($options eq 'TRUNCATE on')
	{
		value($primary, "INSERT INTO $_ SELECT -g, g, repeat('t', 780) FROM generate_series(1, 1500) g; DELETE FROM $_ WHERE id < 0") foreach @tables;
	}
	value($primary, 'DELETE FROM going; INSERT INTO going VALUES (true); CHECKPOINT');
	# new versions of rows at the end of the file would keep it from being truncated
	my @churns = map { my $session = session($primary); launch($session, "CALL churn($_, 2)"); $session } $options eq 'TRUNCATE on' ? () : (0, 1);
	my %size = map { $_ => value($primary, "SELECT pg_relation_size('$_')") } @tables;
	my $before = counters($primary);
	foreach my $table (@tables)
	{
		vacuum($primary, $table, $options, 'on', q(SET vacuum_cost_delay = '1ms'; SET vacuum_cost_limit = 100));
	}
	value($primary, 'UPDATE going SET go = false');
	outcome($_), leave($_) foreach @churns;
	my $after = counters($primary);
	cmp_ok($after->{read_bytes} - $before->{read_bytes}, '>', 8 * 1024 * 1024, "$what: read ahead");
	cmp_ok($after->{write_bytes} - $before->{write_bytes}, '>', 4 * 1024 * 1024, "$what: written behind");
	is($after->{failed_writes} + $after->{failed_reads}, 0, "$what: no failure");
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	foreach my $table (@tables)
	{
		# the primary's from its file, as far as it has been written
		value($primary, "SELECT aiostream_evict('$table')");
		# first there: to look at rows here prunes pages, which is replayed, too
		my $picture = value($standby, "SELECT picture('$table')");
		is($picture, value($primary, "SELECT picture('$table')"), "$what: pages, map and indexes of $table, replayed");
		like($picture, qr/^pages [1-9]\d+ \w{32}\nmap \d+ [1-9]\d* .*\nindexes ${table}_id_idx ${table}_x_idx$/m, "$what: there are some");
		cmp_ok(value($primary, "SELECT pg_relation_size('$table')"), '<', $size{$table}, "$what: $table truncated") if $options eq 'TRUNCATE on';
		same_rows($_, $what . ' on ' . $_->name, $table) foreach $primary, $standby;
		sound_table($primary, "$what: $table", $table);
	}
	return;
}

# kill -9 of the postmaster when pages have been written, and nothing yet been done
# about them; then recovery, and the same VACUUM on a twin
sub crashed
{
	my ($what, $phase) = @_;
	value($primary, 'DROP TABLE IF EXISTS t, without');
	value($primary, qq{
		CREATE TABLE $_ (id int, x int, pad text) WITH (autovacuum_enabled = off);
		INSERT INTO $_ SELECT g, g % 1000, repeat('p', 280) FROM generate_series(1, 26000) g;
		CREATE INDEX ON $_ (id);
		CREATE INDEX ON $_ (pad, id);
	}) foreach qw(t without);
	value($primary, "BEGIN; DELETE FROM t WHERE id % 10 = 3; DELETE FROM without WHERE id % 10 = 3; COMMIT; CHECKPOINT");
	my ($redo) = value($primary, 'SELECT redo_lsn FROM pg_control_checkpoint()');

	my ($session, $pid) = begin_vacuum($primary, 'VACUUM (FREEZE) t', "vacuum_cost_delay = '10ms'", 'vacuum_cost_limit = 200');
	in_phase($primary, $pid, $phase, q(aiostream_debug_fault('write_written', 'pause'))) or die "$what: not reached";
	paused($primary, 'write_written');
	my $fork = $phase eq 'vacuuming indexes' ? 't_pad_id_idx' : 't';
	my ($written, $flushed) = split /\|/, value($primary, "SELECT pages, newest <= pg_current_wal_flush_lsn() FROM on_disk('$fork', '$redo')");
	cmp_ok($written, '>', 0, "$what: $written pages of $fork are newer than the checkpoint");
	is($flushed, 't', "$what: and older than flushed WAL");
	my %processes = server_processes($primary);
	$primary->kill9;
	ok(wait_gone(keys %processes), "$what: its children end");
	ok(wait_until('a start', sub { $primary->start(fail_ok => 1) }), "$what: starts again");
	leave($session);

	is(rows_of($primary, 't'), rows_of($primary, 'without'), "$what: the same rows");
	sound_table($primary, $what, 't');
	my $all = 'FREEZE, DISABLE_PAGE_SKIPPING';
	my %said = map { $_ => vacuum($primary, $_, $all, $_ eq 't' ? 'on' : 'off', 'SET vacuum_cost_delay = 0') } qw(without t);
	is(state_of($primary, 't', $said{t}), state_of($primary, 'without', $said{without}), "$what: then VACUUM leaves the same");
	sound_table($primary, "$what, and VACUUM", 't');
	return;
}
