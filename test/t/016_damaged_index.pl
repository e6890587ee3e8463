# Damage in pages of a B-tree that only look-ahead visits: a scan that PostgreSQL
# performs without error is performed, with the same rows.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use Fcntl qw(SEEK_SET);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $page_size = 8192;
my $root_flag = 2;
my $node = new_server('damaged_index', initdb => ['--data-checksums'],
	'aiostream.debug_force_nodes' => 'on', 'enable_seqscan' => 'off', 'enable_bitmapscan' => 'off',
	'enable_sort' => 'off', 'enable_indexonlyscan' => 'off', 'zero_damaged_pages' => 'off');

# keys that inner pages cannot shorten: some 20 children a page;
# the second table's index has grown by splits
value($node, q{
	CREATE TABLE t (id int, key text, pad text);
	INSERT INTO t SELECT g, repeat('k', 350) || lpad((g * 7919 % 16001)::text, 6, '0'), repeat('p', 60)
		FROM generate_series(1, 16000) g;
	CREATE INDEX t_key ON t (key);
	CREATE TABLE grown (LIKE t);
	CREATE INDEX grown_key ON grown (key);
	INSERT INTO grown SELECT * FROM t;
});
value($node, 'VACUUM (FREEZE, ANALYZE) t, grown');
my %path = map { $_ => value($node, "SELECT pg_relation_filepath('${_}_key')") } qw(t grown);
my $table_path = $node->data_dir . '/' . value($node, "SELECT pg_relation_filepath('t')");
evict($node, 't', 'grown');
my $table_page = substr(slurp_file($table_path), 0, $page_size);
my %original = map { $_ => slurp_file($node->data_dir . "/$path{$_}") } qw(t grown);
my $from = q{'k' || repeat('k', 349) || '004000'};
my %order = ('up' => 'ORDER BY key', 'down' => 'ORDER BY key DESC',
	'up from a key' => "WHERE key >= $from ORDER BY key", 'down from a key' => "WHERE key <= $from ORDER BY key DESC");

foreach my $table (qw(t grown))
{
	my $level_1 = grep { level($original{$table}, $_) == 1 } pages($original{$table});
	cmp_ok($level_1, '>', 10, "$table: level-1 pages");
	foreach my $scan (sort keys %order)
	{
		like(look_ahead($table, $scan), qr/^[1-9]\d*$/, "$table, $scan: leaf pages are read ahead");
	}
}

# as a disk damages them
foreach my $table (qw(t grown))
{
	foreach my $scan (sort keys %order)
	{
		same_rows("$table, $scan, checksums wrong", $table, $scan,
			sub { substr($_[0], 3000, 40) = 'scribble' x 5; });
		same_rows("$table, $scan, no page header", $table, $scan,
			sub { substr($_[0], 10, 6) = "\xff" x 6; });
	}
}

# as a disk without checksums could
$node->stop;
system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir);
$node->start;
srand(20260801);
my %garbage = (
	'zeroes' => sub { $_[0] = "\0" x $page_size; },
	'noise in line pointers' => sub { substr($_[0], 24, 80) = noise(80); },
	'noise in entries' => sub { substr($_[0], 400, 7700) = noise(7700); },
	'noise in the special space' => sub { substr($_[0], -16) = noise(16); },
	'no special space' => sub { substr($_[0], 16, 2) = pack 'S', $page_size; },
	'no entries' => sub { substr($_[0], 12, 2) = pack 'S', 24; },
	'a leaf' => sub { $_[0] = a_page($_[1], 0); },
	'a page of level 2' => sub { $_[0] = a_page($_[1], 2); },
	'a page of the table' => sub { $_[0] = $table_page; },
	'its own sibling' => sub { substr($_[0], -16, 8) = pack 'LL', $_[2], $_[2]; },
	'siblings far away' => sub { substr($_[0], -16, 8) = pack 'LL', 0x7ffffff0, 0x7ffffff0; },
	'children far away' => sub { children($_[0], sub { 0x7ffffff0 }); },
	'children on level 1' => sub { my $here = $_[2]; children($_[0], sub { $here }); },
	'children in no order' => sub { my $n = length($_[1]) / $page_size; children($_[0], sub { int rand $n }); },
	'deleted' => sub { substr($_[0], -4, 2) = pack 'S', 4; },
	'half dead' => sub { substr($_[0], -4, 2) = pack 'S', 16; });
foreach my $what (sort keys %garbage)
{
	same_rows("t, up from a key, $what", 't', 'up from a key', $garbage{$what});
	same_rows("grown, down, $what", 'grown', 'down', $garbage{$what});
}
nothing_left($node, 'damage');
$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal/), 0, 'no crash');
done_testing();

# --- B-tree pages ---------------------------------------------------------

sub pages { return 1 .. length($_[0]) / $page_size - 1; }
sub page { return substr($_[0], $_[1] * $page_size, $page_size); }

# from the special space: previous, next, level, flags
sub special { return unpack 'LLLS', substr(page(@_), -16); }
sub level { return (special(@_))[2]; }

sub a_page
{
	my ($index, $level) = @_;
	my ($found) = grep { level($index, $_) == $level } pages($index);
	return page($index, $found);
}

sub items
{
	my ($page) = @_;
	my $lower = unpack 'S', substr($page, 12, 2);
	return map { $_ & 0x7fff } unpack 'L*', substr($page, 24, $lower - 24);
}

# downlinks of a page, the first of which may be behind the high key
sub downlinks
{
	my ($page) = @_;
	my @items = items($page);
	my $next = unpack 'L', substr($page, -12, 4);
	shift @items if $next != 0;
	return map { my ($hi, $lo) = unpack 'SS', substr($page, $_, 4); $hi << 16 | $lo } @items;
}

# set downlinks
sub children
{
	my $blkno = $_[1];
	my $next = unpack 'L', substr($_[0], -12, 4);
	my @items = items($_[0]);
	shift @items if $next != 0;
	foreach my $item (@items)
	{
		my $child = $blkno->();
		substr($_[0], $item, 4) = pack 'SS', $child >> 16, $child & 0xffff;
	}
	return;
}

sub noise { return join '', map { chr int rand 256 } 1 .. $_[0]; }

# The level-1 page that a scan's descent comes through: the first, the last, or by
# the key the last that does not begin behind it
sub way_down
{
	my ($index, $scan) = @_;
	my ($blkno) = grep { (special($index, $_))[3] & $root_flag } pages($index);
	while (level($index, $blkno) > 1)
	{
		my $page = page($index, $blkno);
		my @children = downlinks($page);
		my @items = items($page);
		my $chosen = $scan eq 'down' ? $#children : 0;
		shift @items if @items > @children;
		foreach my $i ($scan =~ /key/ ? 1 .. $#children : ())
		{
			my ($key) = substr($page, $items[$i]) =~ /k{350}(\d{6})/;
			$chosen = $i if $key < 4000;
		}
		$blkno = $children[$chosen];
	}
	return $blkno;
}

# --- scans ----------------------------------------------------------------

sub rows
{
	my ($table, $scan, $enable) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres',
		"SET aiostream.enable = $enable; SELECT FROM aiostream_evict('$table'); "
		  . "SELECT count(*), md5(string_agg(id || key, ';')) FROM (SELECT id, key, pad FROM $table $order{$scan}) s");
	$stdout =~ s/^\s+//;
	return $ret == 0 ? $stdout : $stderr;
}

# index pages that were read ahead, cold
sub look_ahead
{
	my ($table, $scan) = @_;
	evict($node, $table);
	my $plan = as_json(value($node, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT id, key, pad FROM $table $order{$scan}"))->[0]{Plan};
	return $plan->{'Index Blocks'} // "no look-ahead by $plan->{'Node Type'}";
}

# Damage all level-1 pages but the one that core needs; $damage changes a page, given
# (page, index, block number).
sub same_rows
{
	my ($what, $table, $scan, $damage) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $index = $original{$table};
	my $needed = way_down($index, $scan);
	my %sound = map { $_ => page($index, $_) } grep { level($index, $_) == 1 && $_ != $needed } pages($index);
	my %damaged = %sound;
	$damage->($damaged{$_}, $index, $_) foreach keys %damaged;

	write_pages($table, \%damaged);
	my $core = rows($table, $scan, 'off');
	like($core, qr/^\d{4,}\|\w{32}$/, "$what: PostgreSQL's scan does not notice");
	is(rows($table, $scan, 'on'), $core, "$what: nor does ours");
	write_pages($table, \%sound);
	return;
}

# No page of the index is dirty in shared buffers, as nothing changes.
sub write_pages
{
	my ($table, $pages) = @_;
	my $file = $node->data_dir . '/' . $path{$table};
	open my $handle, '+<', $file or die "$file: $!";
	binmode $handle;
	while (my ($blkno, $page) = each %$pages)
	{
		sysseek $handle, $blkno * $page_size, SEEK_SET or die "$file: $!";
		syswrite($handle, $page) == $page_size or die "$file: $!";
	}
	close $handle or die "$file: $!";
	return;
}
