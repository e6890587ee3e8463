# aiostream_prewarm_all(): pg_prewarm's list of blocks is read back as it was
# dumped; what is gone is passed over, no page is evicted, a wrong list changes nothing.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('list', 'aiostream.io_method' => 'auto', bgwriter_lru_maxpages => 0);
my @usable = usable_methods($node);
my $file = $node->data_dir . '/autoprewarm.blocks';
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{
	CREATE EXTENSION pg_buffercache;
	CREATE EXTENSION pg_prewarm;
	CREATE TABLE o AS SELECT g AS id, repeat('x', 400) AS pad FROM generate_series(1, 2000) g;
});
value($node, q{
	CREATE EXTENSION pg_prewarm;
	CREATE TABLE h AS SELECT g AS id, repeat('x', 400) AS pad FROM generate_series(1, 6000) g;
	CREATE TABLE a (id int PRIMARY KEY, pad text) USING aioheap;
	INSERT INTO a SELECT * FROM h LIMIT 2000;
	CREATE UNLOGGED TABLE u AS SELECT * FROM h LIMIT 500;
	VACUUM;
	-- which of these blocks are in shared buffers, as lines of the list
	CREATE FUNCTION cached() RETURNS SETOF text LANGUAGE sql AS $$
		SELECT format('%s,%s,%s,%s,%s', reldatabase, reltablespace, relfilenode, relforknumber, relblocknumber)
		FROM pg_buffercache WHERE relfilenode IS NOT NULL$$;
	CREATE FUNCTION cached(rel regclass, fork int DEFAULT 0) RETURNS SETOF bigint LANGUAGE sql AS $$
		SELECT relblocknumber FROM pg_buffercache
		WHERE relfilenode = pg_relation_filenode(rel) AND relforknumber = fork ORDER BY 1$$;
});
my $here = value($node, q(SELECT oid FROM pg_database WHERE datname = 'postgres'));

# --- what was dumped ------------------------------------------------------------

my @tables = qw(h a u a_pkey);
foreach my $method (@usable, 'off')
{
	restart_with($node, 'aiostream.io_method' => $method eq 'off' ? 'auto' : $method,
		'aiostream.enable' => $method eq 'off' ? 'off' : 'on');
	value($node, "SELECT count(pg_prewarm('h', 'buffer', 'main', first, first + 39)) FROM generate_series(0, 250, 50) first");
	value($node, "SELECT count(pg_prewarm(rel)) FROM unnest('{a,u,a_pkey}'::regclass[]) rel");
	value($node, "SELECT pg_prewarm('h', 'buffer', 'vm'), pg_prewarm('pg_authid')");
	$node->safe_psql('other', "SELECT pg_prewarm('o')");
	my $n = value($node, 'SELECT autoprewarm_dump_now()');
	my %listed = listed();
	is(scalar keys %listed, $n, "$method: $n blocks are listed");

	$node->restart;
	my $loader = session($node);
	my %before = cached($loader);
	my $reads = counters($node)->{reads};
	my $read = ask($loader, 'SELECT aiostream_prewarm_all()');
	my %after = cached($loader);
	my @wanted = grep { /^(0|$here),/ } keys %listed;
	my @missing = grep { !$before{$_} } @wanted;
	is_deeply([ grep { !$after{$_} } @wanted ], [], "$method: all that was listed is back");
	is_deeply([ grep { !$listed{$_} && !$before{$_} && is_of_tables($_) } keys %after ], [], "$method: and nothing else");
	is_deeply([ grep { !/^(0|$here),/ && !$before{$_} } keys %after ], [], "$method: nothing of another database");
	is(value($node, "SELECT count(*) FROM cached('h')"), 240, "$method: with its gaps");
	# looking up the tables reads some of the catalogs' blocks
	cmp_ok($read, '<=', scalar @missing, "$method: no more are counted as read than were missing");
	cmp_ok($read, '>=', (grep { is_of_tables($_) } @missing), "$method: and no fewer than the tables'");
	cmp_ok((grep { is_of_tables($_) } @missing), '>=', 350, "$method: which are many");
	cmp_ok(counters($node)->{reads} - $reads, '<=', $read / 4, "$method: in few requests") if $method ne 'off';
	is(counters($node)->{reads} - $reads, 0, "$method: by PostgreSQL itself") if $method eq 'off';
	is(ask($loader, 'SELECT aiostream_prewarm_all()'), 0, "$method: nothing is left to read");

	# catalogs are known by now: exactly these
	evict($node, 'h', 'u');
	my $blocks = 240 + value($node, q{SELECT (pg_relation_size('u') + pg_relation_size('h', 'vm')) / 8192});
	is(ask($loader, 'SELECT aiostream_prewarm_all()'), $blocks, "$method: what was dropped, counted");
	leave($loader);
	nothing_left($node, $method);
}
restart_with($node, 'aiostream.io_method' => 'auto', 'aiostream.enable' => 'on');

# --- what is listed by hand -------------------------------------------------------

# in any order, some twice, some beyond the end, some of forks and files that there are not
my $size = value($node, q{SELECT pg_relation_size('h') / 8192});
put(lines('h', 0, reverse(100 .. 163), 7, 3 .. 9, $size - 1, 7, $size, $size + 1, 4294967294),
	lines('h', 3, 0), lines('h', 2, 0 .. 2), "$here,1663,4294967295,0,0", "$here,4294967295,16384,0,0",
	"0,1664,4294967295,0,0", "4294967295,1663,1,0,1");
is(reload('h'), 64 + 7 + 1 + 1, 'by hand: each once');
is(blocks_of('h'), "3-9 100-163 " . ($size - 1), 'by hand: these');
is(value($node, "SELECT count(*) FROM cached('h', 2)"), 1, 'by hand: of the visibility map what there is');

# a file of the same name in another tablespace or database is another file
my ($line) = lines('h', 0, 20);
put($line =~ s/,1663,/,1664,/r, $line =~ s/^$here,/0,/r, $line =~ s/^$here,/1,/r);
is(reload('h'), 0, 'another tablespace, another database');

put();
is(reload('h'), 0, 'an empty list');

# --- what has changed since ----------------------------------------------------------

value($node, q{
	CREATE TABLE dropped AS SELECT * FROM h LIMIT 500;
	CREATE TABLE truncated AS SELECT * FROM h LIMIT 500;
	CREATE TABLE rewritten AS SELECT * FROM h LIMIT 500;
	CREATE TABLE shortened AS SELECT * FROM h LIMIT 1000;
	CREATE TABLE same AS SELECT * FROM h LIMIT 500;
});
my @since = qw(dropped truncated rewritten shortened same);
put(map { lines($_, 0, 0 .. value($node, "SELECT pg_relation_size('$_') / 8192 - 1")) } @since);
value($node, q{
	DROP TABLE dropped;
	TRUNCATE truncated;
	INSERT INTO truncated SELECT * FROM h LIMIT 500;
	DELETE FROM shortened WHERE id > 100;
});
value($node, 'VACUUM FULL rewritten');
value($node, 'VACUUM shortened');
my ($short, $same) = map { value($node, "SELECT pg_relation_size('$_') / 8192") } qw(shortened same);
cmp_ok($short, '<', 10, 'cut off by VACUUM');
is(reload(@since[ 1 .. 4 ]), $short + $same, 'what has changed is passed over');
is(value($node, "SELECT (SELECT count(*) FROM cached('$_'))"), 0, "$_: nothing read") foreach qw(truncated rewritten);
is(value($node, "SELECT (SELECT count(*) FROM cached('$_->[0]'))"), $_->[1], "$_->[0]: read")
  foreach ([ shortened => $short ], [ same => $same ]);

# temporary tables, this session's and another's
my ($mine, $others) = (session($node), session($node));
ask($_, 'CREATE TEMP TABLE temporary AS SELECT * FROM h LIMIT 100') foreach $mine, $others;
put(map { "$here,1663," . ask($_, q{SELECT pg_relation_filenode('temporary')}) . ',0,0' } $mine, $others);
is(ask($mine, 'SELECT aiostream_prewarm_all()'), 0, 'temporary tables');
leave($_) foreach $mine, $others;

# --- no more than fits ----------------------------------------------------------------

# room for some dozens of the list's blocks
value($node, q{
	CREATE TABLE big AS SELECT g AS id, repeat('x', 400) AS pad FROM generate_series(1, 60000) g;
	CREATE TABLE small AS SELECT * FROM h LIMIT 600;
	VACUUM big;
	VACUUM small;
});
my $small = value($node, q{SELECT pg_relation_size('small') / 8192});
my $full = session($node);
ask($full, $_) foreach q{SELECT pg_prewarm('small')}, q{SELECT pg_prewarm('big')}, q{SELECT pg_prewarm('small')};
is(ask($full, 'SELECT count(*) FROM pg_buffercache WHERE relfilenode IS NULL'), 0, 'all buffers hold pages');
evict($node, 'h');
put(lines('h', 0, 0 .. $size - 1));
ask($full, 'SELECT aiostream_prewarm_all()');    # and what it needs of catalogs
evict($node, 'h', 'small');
my $free = ask($full, 'SELECT count(*) FROM pg_buffercache WHERE relfilenode IS NULL');
ok($small <= $free && $free < $size, "$free buffers are free, less than $size");
my %before = cached($full);
is(ask($full, 'SELECT aiostream_prewarm_all()'), $free, 'as many are read as there is room for');
my %after = cached($full);
is_deeply([ grep { !$after{$_} } keys %before ], [], 'no page had to go');
ask($full, q{SELECT pg_prewarm('big')});
is(ask($full, 'SELECT count(*) FROM pg_buffercache WHERE relfilenode IS NULL'), 0, 'all buffers hold pages again');
%before = cached($full);
is(ask($full, 'SELECT aiostream_prewarm_all()'), 0, 'none is read where there is no room');
%after = cached($full);
is_deeply([ sort keys %after ], [ sort keys %before ], 'and nothing has changed');
leave($full);

# --- cancel -----------------------------------------------------------------------------

restart_with($node, 'aiostream.io_method' => 'sync');
put(lines('h', 0, 0 .. $size - 1));
my $session = session($node);
my $pid = ask($session, 'SELECT pg_backend_pid()');
arm($node, 'submitted', 'pause');
launch($session, 'SELECT aiostream_prewarm_all()');
paused($node, 'submitted');
is(value($node, "SELECT relation::regclass || ' ' || mode FROM pg_locks WHERE pid = $pid AND relation = 'h'::regclass"),
	'h AccessShareLock', 'the table is locked meanwhile');
is(value($node, "SELECT pg_cancel_backend($pid)"), 't', 'cancel sent');
my ($answer, $error) = outcome($session);
like($error, qr/ERROR:  canceling statement due to user request/, 'cancelled');
disarm($node, 'submitted');
nothing_left($node, 'cancel');
cmp_ok(ask($session, 'SELECT aiostream_prewarm_all()'), '>=', $size - 64, 'and read then');
is(value($node, "SELECT count(*) FROM cached('h')"), $size, 'all of it');

# --- errors ------------------------------------------------------------------------------

# a read that fails is left to PostgreSQL
evict($node, 'h');
arm($node, 'read_error', 'fail 2');
is(ask($session, 'SELECT aiostream_prewarm_all()'), $size, 'after failed reads: all of it');
disarm($node, 'read_error');
leave($session);

evict($node, 'h');
($line) = lines('h', 0, 5);
my ($first) = lines('h', 0, 4);
foreach my $bad (
	[ 'nothing', 1, '' ],
	[ 'no header', 1, "$line\n" ],
	[ 'a header with something else', 1, "<<1>> \n$line\n" ],
	[ 'a header without number', 1, "<<>>\n$line\n" ],
	[ 'a negative number of blocks', 1, "<<-1>>\n$line\n" ],
	[ 'a huge number of blocks', 1, "<<4294967296>>\n$line\n" ],
	[ 'more blocks announced', 4, "<<4294967295>>\n$first\n$line\n" ],
	[ 'fewer announced', 3, "<<1>>\n$first\n$line\n" ],
	[ 'a line without end', 3, "<<2>>\n$first\n$line" ],
	[ 'four numbers', 3, "<<2>>\n$first\n1,2,3,4\n" ],
	[ 'six numbers', 3, "<<2>>\n$first\n$line,1\n" ],
	[ 'an empty line', 3, "<<2>>\n$first\n\n" ],
	[ 'a word', 3, "<<2>>\n$first\nbutter\n" ],
	[ 'a sign', 3, "<<2>>\n$first\n-$line\n" ],
	[ 'a number too large', 3, "<<2>>\n$first\n4294967296,1663,1,0,1\n" ],
	[ 'no such fork', 3, "<<2>>\n$first\n$here,1663,1,4,1\n" ],
	[ 'no such block', 3, "<<2>>\n$first\n$here,1663,1,0,4294967295\n" ],
	[ 'a long line', 3, "<<2>>\n$first\n" . '1' x 5000 . "\n" ],
	[ 'a byte 0', 3, "<<2>>\n$first\n$line\0\n" ],
	[ 'a byte 0 at the end', 3, "<<1>>\n$first\n\0" ])
{
	my ($what, $where, $content) = @$bad;
	write_file($content);
	my $message = failure('SELECT aiostream_prewarm_all()');
	like($message, qr/ERROR:  XX001: file "autoprewarm.blocks" is corrupted at line $where\n/, "$what: the error");
	is(value($node, q{SELECT count(*) FROM cached('h')}), 0, "$what: nothing is read");
}
like(failure('SELECT aiostream_prewarm_all()'), qr/HINT:  Have it written anew by autoprewarm_dump_now\(\) of the extension pg_prewarm\./,
	'and what to do');

unlink $file or die "$file: $!";
my $message = failure('SELECT aiostream_prewarm_all()');
like($message, qr/ERROR:  58P01: file "autoprewarm.blocks" does not exist/, 'no list');
like($message, qr/HINT:  Have it written by autoprewarm_dump_now\(\) of the extension pg_prewarm\./, 'and what to do');
mkdir $file or die "$file: $!";
like(failure('SELECT aiostream_prewarm_all()'), qr/ERROR:  \w+: could not (open|read) file "autoprewarm.blocks": Is a directory/, 'no file');
rmdir $file;

# --- privileges ----------------------------------------------------------------------------

put(lines('h', 0, 0 .. 9));
value($node, 'CREATE ROLE anybody; CREATE ROLE monitor; GRANT pg_monitor TO monitor; CREATE ROLE warmer; '
	  . 'GRANT EXECUTE ON FUNCTION aiostream_prewarm_all() TO warmer');
like(failure("SET ROLE $_;\nSELECT aiostream_prewarm_all()"), qr/ERROR:  42501: permission denied for function aiostream_prewarm_all/, "not by $_")
  foreach qw(anybody monitor);
is(value($node, 'SET ROLE warmer; SELECT aiostream_prewarm_all()'), 10, 'by whom it was granted to');
nothing_left($node, 'at the end');

# --- a server that does not preload -----------------------------------------------------------

restart_with($node, shared_preload_libraries => '');
put(lines('h', 0, 10 .. 19));
is(value($node, 'SELECT aiostream_prewarm_all()'), 10, 'not preloaded: read');
is(blocks_of('h'), '10-19', 'not preloaded: these');

$node->stop;
done_testing();

# The list's lines; the first must be their number
sub listed
{
	my ($head, @lines) = split /\n/, slurp_file($file);
	$head eq '<<' . @lines . '>>' or die "strange list: $head";
	return map { $_ => 1 } @lines;
}

sub cached
{
	my ($session) = @_;
	return map { $_ => 1 } split /\n/, ask($session, 'SELECT cached()');
}

# Is a line of the list one of our tables'?
my $filenodes;
sub is_of_tables
{
	$filenodes //= value($node, "SELECT string_agg(pg_relation_filenode(t)::text, '|') FROM unnest('{@{[join ',', @tables]}}'::regclass[]) t");
	return $_[0] =~ /^$here,\d+,(?:$filenodes),/;
}

sub lines
{
	my ($table, $fork, @blocks) = @_;
	my $path = value($node, "SELECT format('%s,%s,%s', $here, 1663, pg_relation_filenode('$table'))");
	return map { "$path,$fork,$_" } @blocks;
}

sub put { return write_file(join "\n", '<<' . @_ . '>>', @_, ''); }

sub write_file
{
	my ($content) = @_;
	unlink $file;
	append_to_file($file, $content);
	return;
}

# Evict the tables and read the list, in a session that has done so before: it needs no
# catalogs' pages, which would count in either way.
sub reload
{
	my (@tables) = @_;
	my $session = session($node);
	ask($session, 'SELECT aiostream_prewarm_all()');
	evict($node, @tables);
	my $read = ask($session, 'SELECT aiostream_prewarm_all()');
	leave($session);
	return $read;
}

# Blocks of a table in shared buffers, as ranges
sub blocks_of
{
	my ($table) = @_;
	return value($node, qq{
		SELECT string_agg(CASE WHEN min = max THEN min::text ELSE min || '-' || max END, ' ' ORDER BY min) FROM (
			SELECT min(b), max(b) FROM (SELECT b, b - row_number() OVER (ORDER BY b) AS run FROM cached('$table') b) r GROUP BY run) q});
}

sub failure
{
	my ($sql) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	return plain_messages($stderr);
}
