# Random statements on tables that begin as twins: heap on PostgreSQL's plain
# path, aioheap, and heap scanned by our nodes.  Every answer is the same, row
# by row, ctid and order included.
#
# RANDOM_STATEMENTS	how many (1,000)
# RANDOM_SEED		where they come from (1); "new" for others each time
# RANDOM_METHOD		aiostream.io_method (auto)
#
# Each twin lives in a schema of its own and is given the same script, one after
# the other, so that rows and free space stand in the same places.  What could move
# a row of one twin only is kept away: a free space map whose page leaves shared buffers
# (it forgets where it was searched last, so these hold everything and reads come from
# aiostream_evict), other sessions, the background writer (its
# pins), ANALYZE's sampling (tables are small enough to be read in full), free
# choices of the planner (one kind of scan is enabled for each statement), and pruning
# on access, whose time depends on when a process last looked for the oldest
# transaction: a prepared transaction holds it back, but for VACUUM and CLUSTER.
# That our scans prune as core's is tested on its own at the end.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $statements = $ENV{RANDOM_STATEMENTS} || 1000;
my $method = $ENV{RANDOM_METHOD} || 'auto';

# --- the script -------------------------------------------------------------

my $next_id;           # ids are given out once
my $script;
my @texts;             # statement number => text
my @savepoints;        # [ name, cursors open at that moment ... ]
my %cursors;           # open ones: name => how it was declared
my $in_transaction;
my $names;

sub any { return $_[ int rand @_ ]; }
sub below { return int rand $_[0]; }
sub chance { return rand() < $_[0]; }

sub quiet { $script .= join '', map { "$_;\n" } @_; return; }

# One statement, and its number in front of its answer
sub emit
{
	my ($sql) = @_;
	push @texts, $sql;
	$script .= "\\echo \@\@ $#texts\n\\warn \@\@ $#texts\n$sql;\n";
	return;
}

my %all_scans = map { $_ => 1 } qw(seqscan indexscan indexonlyscan bitmapscan);

# A statement that the planner is to answer by one kind of scan
sub emit_by
{
	my ($scan, $sql) = @_;
	my @off = grep { $_ ne $scan } sort keys %all_scans;
	quiet('SET aiostream.debug_force_nodes = on', map { "SET enable_$_ = off" } @off);
	emit($sql);
	$texts[-1] .= "    -- by $scan";
	quiet('SET aiostream.debug_force_nodes = replace', map { "SET enable_$_ = on" } @off)
	  unless $sql =~ /1 \/ /;    # it fails: see doomed()
	return;
}
sub back_to_normal
{
	quiet('SET aiostream.debug_force_nodes = replace', map { "SET enable_$_ = on" } sort keys %all_scans);
	return;
}

sub hold
{
	$script .= "BEGIN;\nSELECT txid_current() \\g /dev/null\n";
	quiet("PREPARE TRANSACTION 'hold'");
	return;
}
sub let_go { return quiet("COMMIT PREPARED 'hold'"); }

# A condition, and the scans that can serve it
sub condition
{
	my $id = 1 + below($next_id);
	my $width = any(3, 30, 300, 3000);
	my $x = below(1000);
	return any(
		[ "id BETWEEN $id AND $id + $width", qw(seqscan indexscan bitmapscan) ],
		[ "id >= $id", qw(seqscan indexscan bitmapscan) ],
		[ "x BETWEEN $x AND $x + " . any(0, 5, 50), qw(seqscan indexscan bitmapscan) ],
		[ "x IN ($x, " . below(1000) . ', ' . below(1000) . ')', qw(seqscan indexscan bitmapscan) ],
		[ "k = " . below(40), qw(seqscan indexscan bitmapscan) ],
		# a hash index scan's order depends on which dead entries have been marked and reused
		[ "g = " . below(12), qw(seqscan bitmapscan) ],
		[ "(k = " . below(40) . " OR x < " . below(60) . ')', qw(seqscan bitmapscan) ],
		[ "k = " . below(40) . " AND x > $x", qw(seqscan bitmapscan) ],
		[ "id % " . (2 + below(40)) . " = 1", qw(seqscan) ],
		[ 'true', qw(seqscan) ]);
}

my @orders = ('', '', 'ORDER BY id', 'ORDER BY id DESC', 'ORDER BY x, id', 'ORDER BY x DESC, id DESC',
	'ORDER BY k, id', 'ORDER BY g DESC, id', 'ORDER BY pad, id');

sub select_rows
{
	my ($condition, @scans) = @{ condition() };
	my $columns = any('ctid, id, x', 'id, k, x, g, left(pad, 20)', 't.*', 'ctid, xmin IS NULL, id, length(note)', 'id');
	my $order = any(@orders);
	my $limit = chance(0.8) ? 'LIMIT ' . any(1, 5, 50, 400) : '';
	$limit .= ' OFFSET ' . below(300) if chance(0.3);
	$limit = 'LIMIT 200' if $columns eq 't.*' && !$limit;
	push @scans, 'indexscan' if $order =~ /BY (id|x|k)/ && !grep { $_ eq 'indexscan' } @scans;
	return emit_by(any(@scans), "SELECT $columns FROM t WHERE $condition $order $limit");
}

sub select_index_only
{
	my $x = below(1000);
	return emit_by('indexonlyscan', any(
		"SELECT x, id FROM t WHERE x >= $x ORDER BY x, id LIMIT 300",
		"SELECT x, id FROM t WHERE x <= $x ORDER BY x DESC, id DESC LIMIT 300",
		"SELECT count(*), sum(id) FROM t WHERE x BETWEEN $x AND $x + 100",
		"SELECT id FROM t WHERE id > " . below($next_id) . ' ORDER BY id LIMIT 50',
		"SELECT max(id), min(id) FROM t WHERE id < " . below($next_id)));
}

sub select_whole
{
	return emit_by('indexscan', 'SELECT count(*), sum(x), sum(hashtext(ctid || pad)::bigint) FROM t WHERE g = ' . below(12)) if chance(0.15);
	my ($condition, @scans) = @{ condition() };
	return emit_by(any(@scans),
		"SELECT count(*), sum(x), sum(hashtext(pad)::bigint), md5(string_agg(ctid || ' ' || id, ',')) FROM t WHERE $condition");
}

sub select_join
{
	my ($condition) = @{ condition() };
	my @joins = qw(nestloop hashjoin mergejoin);
	my $wanted = any(@joins);
	my @off = map { "enable_$_" } grep { $_ ne $wanted } @joins;
	quiet("SET aiostream.debug_force_nodes = " . any(qw(on off replace)), map { "SET $_ = off" } @off);
	emit('SELECT ' . any('t.id, u.id, u.v', 't.id, t.ctid, u.ctid') . ' FROM t ' . any('', 'LEFT', 'RIGHT') .
		" JOIN u ON u.t_id = t.id WHERE t.$condition AND u.v < " . below(100) . ' ORDER BY t.id, u.id LIMIT ' . any(10, 300))
	  unless $condition =~ /^\(|%|true/;
	emit('SELECT count(*), sum(x) FROM t WHERE ' . any('', 'NOT ') . 'EXISTS (SELECT FROM u WHERE t_id = t.id AND v > ' . below(100) . ')');
	quiet('SET aiostream.debug_force_nodes = replace', map { "SET $_ = on" } @off);
	return;
}

sub select_parallel
{
	my ($condition) = @{ condition() };
	my @on = ('max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0',
		'min_parallel_table_scan_size = 0', 'min_parallel_index_scan_size = 0');
	quiet("SET aiostream.debug_force_nodes = " . any(qw(on replace)), map { "SET $_" } @on);
	emit(any(
		"SELECT count(*), sum(x), sum(hashtext(pad)::bigint) FROM t WHERE $condition",
		"SELECT id, ctid, x FROM t WHERE $condition ORDER BY x, id LIMIT 200",
		"SELECT g, count(*), max(id) FROM t WHERE $condition GROUP BY g ORDER BY g",
		'SELECT count(*), sum(t.x + u.v) FROM t JOIN u ON u.t_id = t.id'));
	quiet('SET aiostream.debug_force_nodes = replace', map { /^(\w+)/; "RESET $1" } @on);
	return;
}

# Rows by their places, which the twins share
sub place { return '(' . below(any(5, 250)) . ',' . (1 + below(40)) . ')'; }
sub select_tid
{
	my $block = below(200);
	return emit(any(
		"SELECT ctid, id, x FROM t WHERE ctid = '" . place() . "'",
		"SELECT ctid, id, x FROM t WHERE ctid = ANY (ARRAY['" . join("','", map { place() } 1 .. 8) . "']::tid[])",
		"SELECT ctid, id, x FROM t WHERE ctid >= '($block,0)' AND ctid < '(" . ($block + 1 + below(20)) . ",0)'",
		"SELECT ctid, id, x FROM t WHERE ctid > '($block,5)' LIMIT 100",
		"SELECT max(ctid), min(ctid), count(*) FROM t"));
}

sub select_sample
{
	my $method = any('SYSTEM', 'BERNOULLI');
	return emit("SELECT ctid, id FROM t TABLESAMPLE $method (" . any(0.5, 5, 20) . ') REPEATABLE (' . below(1000) . ')' .
		any('', ' WHERE x < 500', ' LIMIT 20'));
}

sub lock_rows
{
	my ($condition, @scans) = @{ condition() };
	return emit_by(any(@scans), "SELECT id, x FROM t WHERE $condition " . any('', 'ORDER BY id') . ' LIMIT ' . any(3, 60) .
		' FOR ' . any('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') . any('', '', ' SKIP LOCKED'));
}

# --- changes ----------------------------------------------------------------

sub long_text { return "(SELECT string_agg(md5((i + $_[0])::text), '') FROM generate_series(1, " . any(60, 100, 200) . ') i)'; }

sub insert_rows
{
	my $rows = any(1, 20, 200);
	my $first = $next_id;
	$next_id += $rows;
	my $last = $next_id - 1;
	my $note = chance(0.2) ? long_text($first) : "'note'";
	emit("INSERT INTO t SELECT i, i % 40, (i * 37) % 1000, i % 12, repeat(chr(97 + i % 26), 30 + i % 150), $note " .
		"FROM generate_series($first, $last) i" . (chance(0.2) ? ' RETURNING ctid, id' : ''));
	emit("INSERT INTO u SELECT i, " . below($next_id) . " + i % 100, i % 100, 'u' FROM generate_series($first, $last, 2) i");
	return;
}

sub copy_rows
{
	my $rows = any(5, 100);
	push @texts, "COPY t FROM STDIN ($rows rows)";
	$script .= "\\echo \@\@ $#texts\n\\warn \@\@ $#texts\nCOPY t FROM STDIN;\n";
	$script .= join('', map { "$_\t" . ($_ % 40) . "\t" . (($_ * 37) % 1000) . "\t" . ($_ % 12) . "\t" . ('c' x ($_ % 120)) . "\tcopied\n" }
		  $next_id .. $next_id + $rows - 1) . "\\.\n";
	$next_id += $rows;
	return;
}

sub upsert_rows
{
	my $id = 1 + below($next_id);
	return emit("INSERT INTO t SELECT i, 1, i % 1000, 1, 'upsert', NULL FROM generate_series($id, $id + 20) i WHERE i < $next_id " .
		'ON CONFLICT ' . any('DO NOTHING', "(id) DO UPDATE SET x = (t.x + 1) % 1000, pad = t.pad || 'y'") . any('', ' RETURNING id, x, ctid'));
}

sub update_rows
{
	my ($condition, @scans) = @{ condition() };
	my $set = any('g = (g + 1) % 12', "pad = left(pad || 'zz', 200)", 'x = (x + 13) % 1000', 'k = (k * 7 + 1) % 40', "pad = ''",
		'note = ' . long_text(below(1000)));
	# not all of the table too often
	$condition = "id % 9 = 2" if $condition =~ /true|>=/ && chance(0.8);
	@scans = ('seqscan') if $condition =~ /%/;
	$condition .= ' AND id % 20 = 3' if $set =~ /string_agg/;
	return emit_by(any(@scans), "UPDATE t SET $set WHERE $condition" . (chance(0.2) ? ' RETURNING ctid, id' : ''));
}

sub delete_rows
{
	my ($condition, @scans) = @{ condition() };
	return emit_by(any(@scans), "DELETE FROM t WHERE $condition AND id % 4 = " . below(4) . (chance(0.3) ? ' RETURNING id' : ''));
}

sub change_by_place
{
	my $block = below(200);
	return emit(any(
		"UPDATE t SET x = 1 WHERE ctid = '" . place() . "' RETURNING id, ctid",
		"DELETE FROM t WHERE ctid = ANY (ARRAY['" . join("','", map { place() } 1 .. 5) . "']::tid[]) RETURNING id",
		"DELETE FROM t WHERE ctid >= '($block,0)' AND ctid < '(" . ($block + 2) . ",0)'"));
}

sub change_joined
{
	my @off = map { "enable_$_" } any([qw(nestloop mergejoin)], [qw(hashjoin mergejoin)])->@*;
	my $x = below(1000);
	quiet(map { "SET $_ = off" } @off);
	emit(any(
		"UPDATE u SET v = (v + t.x) % 100 FROM t WHERE t.id = u.t_id AND t.x BETWEEN $x AND $x + 60",
		"DELETE FROM u USING t WHERE t.id = u.t_id AND t.x BETWEEN $x AND $x + 8 RETURNING u.ctid, u.id",
		"MERGE INTO t USING (SELECT DISTINCT ON (t_id) * FROM u WHERE v < 10 ORDER BY t_id, id) s ON t.id = s.t_id " .
		"WHEN MATCHED AND s.v < 3 THEN DELETE WHEN MATCHED THEN UPDATE SET g = s.v % 12"));
	quiet(map { "SET $_ = on" } @off);
	return;
}

# --- transactions and cursors -----------------------------------------------

sub begin
{
	emit('BEGIN' . any('', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE'));
	$in_transaction = 1;
	return;
}

sub end_transaction
{
	emit(any('COMMIT', 'COMMIT', 'ROLLBACK'));
	# settings that a rollback has undone, or not
	back_to_normal();
	($in_transaction, %cursors) = (0);
	@savepoints = ();
	return;
}

sub savepoint
{
	my $name = 's' . $names++;
	emit("SAVEPOINT $name");
	push @savepoints, [ $name, {%cursors} ];
	return;
}

sub rollback_to
{
	return savepoint() unless @savepoints;
	my $n = below(scalar @savepoints);
	emit("ROLLBACK TO $savepoints[$n][0]");
	# a cursor of before that was closed after stays closed
	%cursors = map { $_ => $cursors{$_} } grep { $cursors{$_} } keys %{ $savepoints[$n][1] };
	$#savepoints = $n;
	back_to_normal();
	return;
}

sub declare
{
	return begin() unless $in_transaction;
	my $name = 'c' . $names++;
	my ($condition, @scans) = @{ condition() };
	my $scroll = any('SCROLL', 'SCROLL', 'NO SCROLL', '');
	my $order = any(@orders);
	my $simple = $order eq '' && chance(0.4);
	my $query = chance(0.2)
	  ? "SELECT t.id, u.id AS uid, v FROM t JOIN u ON u.t_id = t.id WHERE x < 300 ORDER BY t.id, u.id"
	  : "SELECT ctid, id, x FROM t WHERE $condition $order";
	$query .= ' FOR UPDATE' if $simple && $scroll =~ /^$|NO/ && $query !~ /JOIN/;
	emit_by(any(@scans), "DECLARE $name $scroll CURSOR FOR $query");
	$cursors{$name} = $scroll eq 'SCROLL' ? 'both' : 'forward';
	$cursors{$name} .= ' simple' if $query !~ /JOIN|ORDER/ && $scroll ne 'SCROLL';
	return;
}

sub fetch
{
	return declare() unless %cursors;
	my $name = any(sort keys %cursors);
	my $n = any(1, 2, 10, 60, 300);
	my @moves = ("FETCH $n FROM", "FETCH FORWARD $n FROM", "MOVE $n FROM");
	push @moves, ("FETCH BACKWARD $n FROM") x 3, "MOVE BACKWARD $n FROM", "FETCH PRIOR FROM", "FETCH LAST FROM", "FETCH FIRST FROM",
	  "FETCH ABSOLUTE $n FROM", "FETCH ABSOLUTE -$n FROM", "FETCH RELATIVE -$n FROM", "FETCH RELATIVE 0 FROM", "MOVE ALL FROM",
	  "MOVE BACKWARD ALL FROM"
	  if $cursors{$name} =~ /both/;
	emit(any(@moves) . " $name");
	if ($cursors{$name} =~ /simple/ && chance(0.4))
	{
		guarded("FETCH NEXT FROM $name", any("UPDATE t SET x = (x + 1) % 1000 WHERE CURRENT OF $name RETURNING id, ctid",
			"DELETE FROM t WHERE CURRENT OF $name RETURNING id"));
	}
	elsif (chance(0.1))
	{
		emit("CLOSE $name");
		delete $cursors{$name};
	}
	return;
}

# Statements that may fail; only with cursors, so in a transaction
sub guarded
{
	my @statements = @_;
	my $name = 's' . $names++;
	quiet("SAVEPOINT $name");
	emit($_) foreach @statements;
	quiet("ROLLBACK TO $name");
	return;
}

# In the middle of a scan it fails
sub doomed
{
	my ($condition, @scans) = @{ condition() };
	my $name = 's' . $names++;
	quiet("SAVEPOINT $name") if $in_transaction;
	emit_by(any(@scans), any("SELECT sum(1 / (x - " . below(1000) . ")) FROM t WHERE $condition",
		"UPDATE t SET g = 1 / (x - " . below(1000) . ") WHERE $condition"));
	quiet("ROLLBACK TO $name") if $in_transaction;
	back_to_normal();
	return;
}

# --- all the rest -------------------------------------------------------------

sub maintain
{
	return fetch() if $in_transaction;
	my $what = any(
		('VACUUM t', 'VACUUM (FREEZE) t', 'ANALYZE t', 'ANALYZE u', 'VACUUM (ANALYZE, DISABLE_PAGE_SKIPPING) t', 'VACUUM u',
		'SELECT switch()') x 3,
		'VACUUM FULL t', 'VACUUM (INDEX_CLEANUP OFF) t', 'CLUSTER t USING t_x', 'REINDEX TABLE t', 'REINDEX TABLE CONCURRENTLY u',
		'DROP INDEX t_k; CREATE INDEX CONCURRENTLY t_k ON t (k)', 'ALTER TABLE t ALTER COLUMN g TYPE ' . any('int', 'bigint'),
		'ALTER TABLE t SET (fillfactor = ' . any(60, 100) . ')',
		"DROP TABLE IF EXISTS w; CREATE TABLE w AS SELECT * FROM t WHERE x < 500; CREATE INDEX ON w (id)",
		'BEGIN; TRUNCATE t; SELECT count(*) FROM t; ROLLBACK',
		'BEGIN; CLUSTER t USING t_pkey; DELETE FROM t; ROLLBACK');
	my $removes = $what =~ /^(?:VACUUM|CLUSTER).* ([tu])\b/;
	if ($removes)
	{
		let_go();
		# what is dead by now must be removed in both tables, or it may be on access
		quiet('VACUUM ' . ($1 eq 't' ? 'u' : 't'));
	}
	emit($what);
	hold() if $removes;
	emit('SELECT ctid, id FROM w ORDER BY id DESC LIMIT 50') if $what =~ /TABLE w/;
	return;
}

sub tune
{
	quiet("SET aiostream.direct_io = " . any(qw(auto on off)), "SET aiostream.io_combine_limit = " . any(1, 2, 8, 32, 128),
		"SET aiostream.effective_io_concurrency = " . any(1, 2, 16, 64), "SET work_mem = " . any("'64kB'", "'4MB'"));
	return if %cursors;
	emit(q{SELECT aiostream_evict('t') >= 0, aiostream_evict('u') >= 0});
	return;
}

my @kinds = (
	(\&select_rows) x 14, (\&select_index_only) x 5, (\&select_whole) x 6, (\&select_join) x 3, (\&select_parallel) x 3,
	(\&select_tid) x 4, (\&select_sample) x 3, (\&lock_rows) x 3, (\&insert_rows) x 5, (\&copy_rows) x 2, (\&upsert_rows) x 3,
	(\&update_rows) x 7, (\&delete_rows) x 3, (\&change_by_place) x 3, (\&change_joined) x 2, (\&declare) x 5, (\&fetch) x 14,
	(\&doomed) x 2, (\&maintain) x 5, (\&tune) x 6);

# The tables, which CREATE TABLE makes with the twin's access method
my $tables = q{
\set VERBOSITY terse
\pset null <null>
CREATE TABLE t (id int PRIMARY KEY, k int, x int, g int, pad text, note text);
CREATE TABLE u (id int PRIMARY KEY, t_id int, v int, pad text);
ALTER TABLE t ALTER COLUMN note SET STORAGE external;
CREATE INDEX t_x ON t (x) INCLUDE (id);
CREATE INDEX t_k ON t (k);
CREATE INDEX t_g ON t USING hash (g);
CREATE INDEX u_t ON u (t_id);
};

sub write_script
{
	my ($length) = @_;
	($script, $in_transaction, $names, $next_id) = ($tables, 0, 0, 6001);
	(@texts, @savepoints, %cursors) = ();
	emit("INSERT INTO t SELECT i, i % 40, (i * 37) % 1000, i % 12, repeat('p', 40 + i % 160), NULL FROM generate_series(1, 6000) i");
	emit("INSERT INTO u SELECT i, (i * 11) % 6000, i % 100, repeat('q', i % 80) FROM generate_series(1, 3000) i");
	emit('VACUUM (ANALYZE) t');
	emit('VACUUM (ANALYZE) u');
	hold();
	while (@texts < $length)
	{
		if (!$in_transaction && chance(0.08)) { begin(); }
		elsif ($in_transaction && chance(0.06)) { end_transaction(); }
		elsif ($in_transaction && chance(0.06)) { savepoint(); }
		elsif (@savepoints && chance(0.08)) { rollback_to(); }
		else { any(@kinds)->(); }
	}
	end_transaction() if $in_transaction;
	let_go();
	foreach my $table (qw(t u))
	{
		emit("VACUUM $table");
		emit("SELECT count(*), md5(string_agg(r::text || ctid, ',')) FROM $table r");
	}
	return;
}

# --- the twins -----------------------------------------------------------------

my $node = new_server('random', shared_buffers => '48MB', max_worker_processes => 12, max_prepared_transactions => 2, bgwriter_lru_maxpages => 0,
	max_logical_replication_workers => 0, statement_timeout => '60s');
value($node, 'CREATE EXTENSION amcheck; CREATE EXTENSION pageinspect');
my @twins = (
	[ 'plain', 'heap', 'aiostream.enable' => 'off' ],
	[ 'aioheap', 'aioheap' ],
	[ 'nodes', 'heap' ]);
my $dir = $node->basedir;
# Errors that are none of the statements' own would be equal in the twins
my @expected_errors = ('division by zero', 'duplicate key value', 'cursor "\w+" is not positioned on a row',
	'cursor can only scan forward', 'is not a simply updatable scan', 'cursor "\w+" does not have a FOR UPDATE/SHARE reference',
	'could not determine which collation');
my $expected_errors = join '|', @expected_errors;

my $seed = $ENV{RANDOM_SEED} || 1;
$seed = (time ^ $$) % 1_000_000 if $seed eq 'new';
compare_twins($seed, $statements, $method);
prunes();
$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal|WARNING:  (?!there is)/), 0, 'no crash, no warning')
  or diag join "\n", log_since($node) =~ /^.*(?:PANIC|TRAP|terminated by|WARNING: ).*$/mg;
done_testing();

sub compare_twins
{
	my ($seed, $length, $io_method) = @_;
	my %answers;

	diag "RANDOM_SEED=$seed RANDOM_STATEMENTS=$length RANDOM_METHOD=$io_method";
	srand($seed);
	write_script($length);
	open my $file, '>', "$dir/script.sql" or die "script.sql: $!";
	print $file $script;
	close $file or die "script.sql: $!";
	restart_with($node, 'aiostream.io_method' => $io_method);
	$answers{ $_->[0] } = run_twin(@$_) foreach @twins;

	my @unexpected;
	foreach my $n (0 .. $#texts)
	{
		my $answer = $answers{plain}[$n] // '';
		push @unexpected, "$texts[$n]: $_" foreach grep { !/$expected_errors/ } $answer =~ /^.*ERROR: .*$/mg;
	}
	is(scalar @unexpected, 0, 'no statement fails but those that shall') or diag join "\n", @unexpected[ 0 .. min(9, $#unexpected) ];

	foreach my $name (qw(aioheap nodes))
	{
		my @different = grep { ($answers{plain}[$_] // 'none') ne ($answers{$name}[$_] // 'none') } 0 .. $#texts;
		is(scalar @different, 0, sprintf '%s: %d answers are plain heap\'s', $name, scalar @texts) and next;
		my $first = $different[0];
		diag "$name: first different answer (RANDOM_SEED=$seed RANDOM_STATEMENTS=$length, statement $first): $texts[$first]";
		diag first_difference($answers{plain}[$first] // 'none', $answers{$name}[$first] // 'none');
		diag 'before it: ' . join "\n  ", @texts[ max(0, $first - 12) .. $first - 1 ];
	}
	return;
}

# The script's answers in a schema of a twin's own
sub run_twin
{
	my ($name, $am, %settings) = @_;
	# both make a session forget where it inserted last
	my $switch = $am eq 'aioheap'
	  ? "PERFORM aiostream_release('t'); PERFORM count(*) FROM t; PERFORM aiostream_adopt('t');"
	  : "ALTER TABLE t RESET (parallel_workers); PERFORM count(*) FROM t; ALTER TABLE t RESET (parallel_workers);";
	value($node, "CREATE SCHEMA $name; SET search_path = $name, public;
		CREATE FUNCTION switch() RETURNS text LANGUAGE plpgsql AS \$\$ BEGIN $switch RETURN 'switched'; END \$\$");
	%settings = (search_path => "$name,public", default_table_access_method => $am,
		'aiostream.debug_force_nodes' => 'replace', %settings);
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$settings{$_}" } sort keys %settings;
	my ($out, $err) = ('', '');
	my $start = time;
	my $before = counters($node)->{reads};
	my $ended = IPC::Run::run(
		[ 'psql', '-X', '-q', '-A', '-t', '-d', $node->connstr('postgres'), '-f', "$dir/script.sql" ],
		'>', \$out, '2>', \$err);
	ok($ended, "$name: the script ran to its end") or diag $err =~ s/.*\n(?=(?:.*\n){20})//sr;
	note sprintf '%s: %d s, %d reads, %d errors', $name, time - $start, counters($node)->{reads} - $before, count_in($err, qr/ERROR:/);
	nothing_left($node, $name);
	foreach my $table (qw(t u))
	{
		is(value($node, "SET search_path = $name, public; SELECT count(*) FROM aiostream_verify('$table')"), 0, "$name: amcheck of $table")
		  if $am eq 'aioheap';
	}
	cmp_ok(counters($node)->{reads}, $name eq 'plain' ? '==' : '>', $before, "$name: reads of ours, or none");
	value($node, "SET client_min_messages = warning; DROP SCHEMA $name CASCADE");
	return by_statement($out, $err);
}

# Line pointers after a scan of a table with dead rows on full pages
sub prunes
{
	my %scans = (
		seqscan => 'SELECT sum(x) FROM p', indexscan => 'SELECT sum(x) FROM p WHERE id > 0', bitmapscan => 'SELECT sum(x) FROM p WHERE id > 0',
		copy => 'COPY p TO STDOUT \g /dev/null');
	foreach my $scan (sort keys %scans)
	{
		my %left;
		foreach my $way ('plain', 'aioheap', 'nodes')
		{
			my $am = $way eq 'aioheap' ? 'aioheap' : 'heap';
			my $enable = $way eq 'plain' ? 'off' : 'on';
			my $off = join ' ', map { "SET enable_$_ = off;" } grep { $_ ne $scan && $scan ne 'copy' } sort keys %all_scans;
			value($node, "DROP TABLE IF EXISTS p; CREATE TABLE p (id int PRIMARY KEY, x int, pad text) USING $am;
				INSERT INTO p SELECT g, g, repeat('p', 100) FROM generate_series(1, 6000) g");
			value($node, 'DELETE FROM p WHERE id % 5 = 1');
			value($node, 'SET aiostream.enable = off; UPDATE p SET x = x + 1 WHERE id % 5 = 2');
			value($node, "SELECT aiostream_evict('p')");
			value($node, "SET aiostream.enable = $enable; SET aiostream.debug_force_nodes = on; $off $scans{$scan}");
			$left{$way} = value($node, "SELECT string_agg(flags || ': ' || n, ', ') FROM (SELECT lp_flags AS flags, count(*) AS n
				FROM generate_series(0, pg_relation_size('p') / 8192 - 1) b, heap_page_items(get_raw_page('p', b::int)) GROUP BY 1 ORDER BY 1) q");
		}
		like($left{plain}, qr/3: /, "$scan: core's leaves dead line pointers");
		is($left{$_}, $left{plain}, "$scan: $_ prunes as core does") foreach 'aioheap', 'nodes';
	}
	return;
}

sub min { return $_[0] < $_[1] ? $_[0] : $_[1]; }
sub max { return $_[0] > $_[1] ? $_[0] : $_[1]; }

# Output and messages of each statement
sub by_statement
{
	my @answers;
	foreach my $part (@_)
	{
		my ($before, @pairs) = split /^@@ (\d+)\n/m, $part;
		while (my ($n, $answer) = splice @pairs, 0, 2)
		{
			# places in the script
			$answer =~ s/^psql:\S+: //mg;
			$answers[$n] .= "$answer";
		}
	}
	return \@answers;
}

sub first_difference
{
	my ($plain, $ours) = map { [ split /\n/ ] } @_;
	my $line = 0;
	$line++ while $line < @$plain && $line < @$ours && $plain->[$line] eq $ours->[$line];
	return sprintf "plain: %d lines, ours: %d; line %d:\n- %s\n+ %s", scalar @$plain, scalar @$ours, $line + 1,
	  $plain->[$line] // '(end)', $ours->[$line] // '(end)';
}
