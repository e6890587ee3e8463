# What the tests of VACUUM and its follower have in common: twin tables, what a
# vacuum said and left, vacuums that are slow enough to be looked at.
package AiostreamVacuum;

use strict;
use warnings;

use Exporter 'import';
use AiostreamTest;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  $view $slow make_tables more_dead vacuum told state_of rows_of sound_table create_on_disk
  begin_vacuum in_phase follower_gone
);

our $view = 'pg_stat_aiostream_vacuum';

# slow enough for the follower to be there in time
our $slow = q(SET vacuum_cost_delay = '1ms'; SET vacuum_cost_limit = 50);

# Tables with the same rows in the same places, some dead, of about 12 MB, with
# indexes of all kinds.  Options: am; persistence; tail: the dead rows at the end stay
# the last ones; pending: GIN indexes have a list of pending entries.
sub make_tables
{
	my ($node, $options, @names) = @_;
	my $am = $options->{am} // 'heap';
	my $persistence = $options->{persistence} // '';
	my $fastupdate = $options->{pending} ? 'on' : 'off';
	my $sql = "BEGIN;\n";
	foreach my $name (@names)
	{
		$sql .= qq{
		DROP TABLE IF EXISTS $name;
		CREATE $persistence TABLE $name (id int, x int, p point, a int[], pad text) USING $am;
		ALTER TABLE $name SET (autovacuum_enabled = off);
		INSERT INTO $name SELECT g, g * 7919 % 100003, point(g % 317, g % 211), ARRAY[g % 1000, g], repeat('x', 40)
			FROM generate_series(1, 100000) g;
		CREATE INDEX ON $name (id);
		CREATE INDEX ON $name USING hash (x);
		CREATE INDEX ON $name USING gist (p);
		CREATE INDEX ON $name USING spgist (p);
		CREATE INDEX ON $name USING gin (a) WITH (fastupdate = $fastupdate);
		CREATE INDEX ON $name USING brin (id);
		};
	}
	$sql .= "COMMIT;\nBEGIN;\n";
	$sql .= qq{
		DELETE FROM $_ WHERE id % 20 = 3 OR id > 90000;
		} . ($options->{tail} ? '' : "UPDATE $_ SET pad = pad || 'y' WHERE id % 50 = 7;") foreach @names;
	value($node, "$sql COMMIT; CHECKPOINT");
	return;
}

# New dead rows on all pages, in the same places if they were the same
my $round = 0;
sub more_dead
{
	my ($node, @names) = @_;
	$round++;
	value($node, "BEGIN;\n" . join('', map {
		"DELETE FROM $_ WHERE id % 20 = 3 + $round; UPDATE $_ SET x = x + 1, pad = 'y' || pad WHERE id % 50 = 7 + 3 * $round;\n" } @names)
		. 'COMMIT; CHECKPOINT');
	return;
}

# VACUUM of a cold table with ("on") or without ("off") follower; returns its messages
sub vacuum
{
	my ($node, $table, $options, $follow, $settings) = @_;
	my ($out, $err);
	evict($node, $table);
	$options = $options ? "($options, VERBOSE)" : '(VERBOSE)';
	$settings //= $follow eq 'on' ? $slow : '';
	$node->psql('postgres', "SET aiostream.enable_vacuum = $follow; $settings; VACUUM $options $table",
		stdout => \$out, stderr => \$err, on_error_die => 1);
	return $err;
}

# What VACUUM said about what it did, without names and times
sub told
{
	my ($messages, $table) = @_;
	my $to_toast = index($messages, 'pg_toast');
	$messages = substr($messages, 0, rindex($messages, "\n", $to_toast)) if $to_toast > 0;
	$messages =~ s/\b${table}(?=_|\b)/T/g;
	$messages =~ s/^(psql\S* )?(INFO|WARNING):  //gm;
	# GiST and SP-GiST choose at random where to put an entry
	return join "\n", grep { !/^index "T_p_idx/ && /^(pages|tuples|index scan|index "|frozen|launched|bypassing|finished)|truncated|stopping/ } split /\n/, $messages;
}

# What VACUUM left.  Its messages say what its cutoff was.
sub state_of
{
	my ($node, $table, $messages) = @_;
	my ($cutoff) = $messages =~ /removable cutoff: (\d+)/;
	return value($node, qq{
		SELECT 'size ' || pg_relation_size('$table') UNION ALL
		SELECT 'indexes ' || string_agg(pg_relation_size(indexrelid)::text, ' ' ORDER BY indexrelid) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = '$table'::regclass AND relname !~ '_p_idx' UNION ALL
		SELECT 'frozen ' || $cutoff - relfrozenxid::text::bigint || ' ' || relpages || ' ' || relallvisible || ' ' || reltuples FROM pg_class WHERE oid = '$table'::regclass UNION ALL
		SELECT 'map ' || md5(string_agg((blkno, all_visible, all_frozen)::text, ' ' ORDER BY blkno)) FROM pg_visibility_map('$table') UNION ALL
		SELECT 'space ' || md5(string_agg((blkno, avail)::text, ' ' ORDER BY blkno)) FROM pg_freespace('$table')
	}) . "\nrows " . rows_of($node, $table);
}

# Rows and their places
sub rows_of
{
	my ($node, $table) = @_;
	return value($node, "SELECT count(*) || ' ' || md5(string_agg((ctid, id, x, pad)::text, ' ' ORDER BY ctid)) FROM $table");
}

sub sound_table
{
	my ($node, $what, $table) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(value($node, "SELECT count(*) FROM pg_check_visible('$table')"), '0', "$what: visible is visible");
	is(value($node, "SELECT count(*) FROM pg_check_frozen('$table')"), '0', "$what: frozen is frozen");
	is(value($node, "SELECT count(*) FROM aiostream_verify('$table')"), '0', "$what: amcheck is content");
	return;
}

# A function: pages of a relation's file (not of shared buffers) that are newer than some
# place in WAL, and the newest one
sub create_on_disk
{
	my ($node) = @_;
	value($node, q{
		CREATE FUNCTION on_disk(t regclass, after pg_lsn, OUT pages bigint, OUT newest pg_lsn) LANGUAGE sql AS $$
			SELECT count(*), '0/0'::pg_lsn + max(lsn)
			FROM generate_series(0, pg_relation_size(t) / 8192 - 1) b, pg_read_binary_file(pg_relation_filepath(t), b * 8192, 8) p,
				-- a page begins with its LSN: two words, the low byte of each first
				LATERAL (SELECT ((get_byte(p, 3)::bigint << 24) | (get_byte(p, 2) << 16) | (get_byte(p, 1) << 8) | get_byte(p, 0)) AS high,
					((get_byte(p, 7)::bigint << 24) | (get_byte(p, 6) << 16) | (get_byte(p, 5) << 8) | get_byte(p, 4)) AS low) w,
				LATERAL (SELECT high::numeric * 4294967296 + low AS lsn) l
			WHERE length(p) = 8 AND lsn > after - '0/0' $$});
	return;
}

# Starts a slow vacuum of table t and waits for its follower to be at work.  Returns
# session, its pid, the follower's.
sub begin_vacuum
{
	my ($node, $sql, @settings) = @_;
	@settings = ("vacuum_cost_delay = '20ms'", 'vacuum_cost_limit = 50') unless @settings;
	my $session = session($node, @settings);
	my $pid = ask($session, 'SELECT pg_backend_pid()');
	evict($node, 't');
	launch($session, $sql // 'VACUUM t');
	await($node, "SELECT count(*) = 1 FROM $view WHERE pid = $pid AND blocks_read > 0", 'a follower at work');
	my $follower = value($node, "SELECT follower_pid FROM $view WHERE pid = $pid");
	return ($session, $pid, $follower);
}

# As soon as a vacuum is in a phase: run an SQL command at once.  False if that phase
# did not come.
sub in_phase
{
	my ($node, $pid, $phase, $sql) = @_;
	my (undef, undef, $error) = $node->psql('postgres', qq{
		DO \$\$
		DECLARE now text;
		BEGIN
			LOOP
				PERFORM pg_stat_clear_snapshot();
				SELECT phase INTO now FROM pg_stat_progress_vacuum WHERE pid = $pid;
				EXIT WHEN now = '$phase';
				IF now IS NULL THEN RAISE 'not in phase $phase'; END IF;
				PERFORM pg_sleep(0.001);
			END LOOP;
			PERFORM $sql;
		END \$\$});
	die $error if $error && $error !~ /not in phase/;
	return !$error;
}

sub follower_gone
{
	my ($node, $what, $follower, $table) = @_;
	$table //= 't';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_gone($follower), "$what: the follower is gone");
	is(value($node, "SELECT count(*) FROM $view"), '0', "$what: the view is empty");
	is(value($node, "BEGIN; SET lock_timeout = '10s'; LOCK TABLE $table IN ACCESS EXCLUSIVE MODE; COMMIT; SELECT 1"), '1',
		"$what: nobody has the table locked");
	nothing_left($node, $what);
	return;
}

1;
