# Damage: core's own message and SQLSTATE, the same as on the plain path, and
# the server goes on.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use Fcntl qw(SEEK_SET);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('errors', initdb => ['--data-checksums'],
	'aiostream.debug_force_nodes' => 'on', 'aiostream.effective_io_concurrency' => 4,
	'aiostream.io_combine_limit' => 4, zero_damaged_pages => 'off');
my @usable = usable_methods($node);
create_tables($node, 4);
my $question = 'SELECT count(*), sum(x), sum(length(pad)) FROM';
my $expected = value($node, "SET aiostream.enable = off; $question h");
my $pages = value($node, "SELECT pg_relation_size('h') / 8192");
my $slow_disk = $ENV{AIOSTREAM_SLOWDISK};
my $fail_reads = $ENV{AIOSTREAM_SLOWDISK_FAIL};

foreach my $method (all_methods())
{
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		restart_with($node, 'aiostream.io_method' => $method);
		corrupt_page($method);
		short_file($method);
		missing_file($method);
		injected($method);
		nothing_left($node, $method);
		is(value($node, "$question h"), $expected, "$method: the server goes on");
	}
}
# last, as what the kernel does with a failing disk is its own affair
SKIP:
{
	skip 'no failing disk here', 1 unless defined $slow_disk && defined $fail_reads;
	real_errors();
}
$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal/), 0, 'no crash');
done_testing();

# What a query gives in a new session: answer, then messages with their
# SQLSTATE, without what differs from run to run.
sub result_of
{
	my ($sql, @settings) = @_;
	my ($ret, $stdout, $stderr) = $node->psql('postgres',
		join('', map { "SET $_;\n" } @settings) . "\\set VERBOSITY verbose\n$sql;\n");
	return "$stdout\n" . plain_messages($stderr);
}

# The same on the plain path and on ours, direct and not; returns it.
sub same_result
{
	my ($what, $sql, $table, @settings) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	evict($node, $table) if defined $table;
	my $plain = result_of($sql, 'aiostream.enable = off', @settings);
	foreach my $direct (qw(on off auto))
	{
		evict($node, $table) if defined $table;
		is(result_of($sql, "aiostream.direct_io = $direct", @settings), $plain,
			"$what, direct $direct: as the plain path");
	}
	return $plain;
}

sub scribble
{
	my ($path, $offset, $bytes) = @_;
	open my $file, '+<', $node->data_dir . "/$path" or die "$path: $!";
	binmode $file;
	sysseek $file, $offset, SEEK_SET or die "$path: $!";
	syswrite($file, $bytes) == length $bytes or die "$path: $!";
	close $file or die "$path: $!";
	return;
}

sub new_table
{
	my ($name, $am) = @_;
	value($node, "DROP TABLE IF EXISTS $name; CREATE TABLE $name (LIKE h) USING $am; "
		  . "INSERT INTO $name SELECT * FROM h");
	# no reader shall have a reason to write to it
	value($node, "VACUUM (FREEZE) $name");
	value($node, 'CHECKPOINT');
	return value($node, "SELECT pg_relation_filepath('$name')");
}

sub corrupt_page
{
	my ($method) = @_;
	foreach my $am ($method eq $usable[0] ? 'heap' : (), 'aioheap')
	{
		my $what = "$method, $am, corrupt page";
		my $path = new_table('damaged', $am);
		evict($node, 'damaged');
		# data of one page, the header of another
		scribble($path, 150 * 8192 + 6000, 'scribble' x 10);
		scribble($path, 200 * 8192 + 10, "\xff" x 6);

		my $result = same_result($what, "$question damaged", 'damaged');
		like($result, qr/^ERROR:  XX001: invalid page in block 150 of relation \Q$path\E$/m, "$what: message and SQLSTATE");
		like($result, qr/^WARNING:  XX001: page verification failed, calculated checksum \d+ but expected \d+$/m,
			"$what: the warning");

		# failures are counted as on the plain path
		my @counts;
		foreach my $set ('aiostream.enable = off', 'aiostream.direct_io = on')
		{
			my $before = value($node, "SELECT checksum_failures FROM pg_stat_database WHERE datname = 'postgres'");
			evict($node, 'damaged');
			result_of("$question damaged", $set);
			await($node, "SELECT checksum_failures > $before FROM pg_stat_database WHERE datname = 'postgres'", 'a count');
			push @counts, value($node, "SELECT checksum_failures - $before FROM pg_stat_database WHERE datname = 'postgres'");
		}
		is($counts[1], $counts[0], "$what: checksum_failures");

		$result = same_result("$what, zero_damaged_pages", "$question damaged", 'damaged', 'zero_damaged_pages = on');
		like($result, qr/^\d+\|\d+\|\d+$/m, "$what: zero_damaged_pages: an answer");
		like($result, qr/^WARNING:  XX001: invalid page in block $_ of relation \Q$path\E; zeroing out page$/m,
			"$what: zero_damaged_pages: the warning") foreach 150, 200;

		# ignored: the data is read as it is; a broken header still is an error
		$result = same_result("$what, ignore_checksum_failure", "$question damaged", 'damaged',
			'ignore_checksum_failure = on');
		like($result, qr/^ERROR:  XX001: invalid page in block 200/m, "$what: ignore_checksum_failure: broken header");
		$result = same_result("$what, ignore_checksum_failure, first pages",
			'SELECT count(*) FROM (SELECT * FROM damaged LIMIT 9000) s', 'damaged', 'ignore_checksum_failure = on');
		like($result, qr/^9000$/m, "$what: ignore_checksum_failure: page read");

		# others do not inherit the leniency
		like(result_of("$question damaged"), qr/ERROR:  XX001/, "$what: strict again");
		nothing_left($node, $what);
	}
	return;
}

# The file ends before the length that the scan was told.
sub short_file
{
	my ($method) = @_;
	my $what = "$method, short file";
	my $path = new_table('short', 'aioheap');
	my $file = $node->data_dir . "/$path";
	my $keep = slurp_file($file);
	my $length = length $keep;
	my %result;

	foreach my $set ('aiostream.enable = off', map { "aiostream.direct_io = $_" } qw(on off auto))
	{
		foreach my $cut (300 * 8192, 300 * 8192 + 4096)
		{
			evict($node, 'short');
			my $session = session($node, $set);
			ask($session, "\\set VERBOSITY verbose\nBEGIN;\nDECLARE c CURSOR FOR SELECT * FROM short;\nMOVE 200 FROM c");
			truncate $file, $cut or die $!;
			my $error = ask_error($session, 'MOVE ALL FROM c');
			$result{$set}{$cut} = $error;
			is(ask($session, "ROLLBACK;\nSELECT 1"), 1, "$what, $set: the session goes on");
			leave($session);
			# the lost part again
			scribble($path, $cut, substr $keep, $cut);
			is(-s $file, $length, "$what: repaired");
		}
	}
	foreach my $cut (sort keys %{ $result{'aiostream.enable = off'} })
	{
		my $plain = $result{'aiostream.enable = off'}{$cut};
		my $there = $cut % 8192;
		like($plain, qr/^ERROR:  XX001: could not read block 300 in file "\Q$path\E": read only $there of 8192 bytes$/m,
			"$what, $cut bytes: message and SQLSTATE");
		is($result{$_}{$cut}, $plain, "$what, $cut bytes, $_: as the plain path") foreach sort keys %result;
	}
	evict($node, 'short');
	is(value($node, "$question short"), $expected, "$what: repaired, right answer");

	# short from the start: the scan is told so, and there is no error
	evict($node, 'short');
	truncate $file, 100 * 8192 + 4096 or die $!;
	my $result = same_result("$what from the start", 'SELECT count(*) < 10000 FROM short', 'short');
	like($result, qr/^t$/m, "$what from the start: no error");
	nothing_left($node, $what);
	return;
}

sub missing_file
{
	my ($method) = @_;
	my $what = "$method, missing file";
	my $path = new_table('missing', 'aioheap');
	my $file = $node->data_dir . "/$path";
	evict($node, 'missing');

	# gone in the middle of a scan: core has it open
	my $session = session($node, 'aiostream.direct_io = on');
	ask($session, "BEGIN;\nDECLARE c CURSOR FOR SELECT * FROM missing;\nMOVE 200 FROM c");
	rename $file, "$file.away" or die $!;
	is(ask($session, "MOVE ALL FROM c;\nCOMMIT;\nSELECT 1"), 1, "$what, in mid-scan: goes on");
	leave($session);

	# evicting would fail as well: the pages are out already
	my $result = result_of("$question missing", 'aiostream.enable = off');
	like($result, qr/^ERROR:  58P01: could not open file "\Q$path\E": No such file or directory$/m,
		"$what: message and SQLSTATE");
	is(result_of("$question missing", "aiostream.direct_io = $_"), $result, "$what, direct $_: as the plain path")
	  foreach qw(on off auto);

	rename "$file.away", $file or die $!;
	is(value($node, "$question missing"), $expected, "$what: back again, right answer");
	nothing_left($node, $what);
	return;
}

# Failures that only our reads see: core reads again, and nobody notices.
sub injected
{
	my ($method) = @_;
	my %counter = (read_error => 'failed_reads', short_read => 'short_reads', read_again => undef);
	foreach my $point (sort keys %counter)
	{
		foreach my $action ('fail', 'fail 3')
		{
			foreach my $direct (qw(on off))
			{
				my $what = "$method, direct $direct, $point $action";
				evict($node, 'h');
				value($node, 'SELECT aiostream_stat_reset()');
				arm($node, $point, $action);
				my $result = result_of("$question h", "aiostream.direct_io = $direct");
				disarm($node, $point);
				is($result, "$expected\n", "$what: right answer, no message");
				my $counters = counters($node);
				cmp_ok($counters->{reads}, '>', 0, "$what: reads");
				cmp_ok($counters->{ $counter{$point} }, '>=', $action eq 'fail' ? 10 : 3, "$what: $counter{$point}")
				  if defined $counter{$point};
				is($counters->{failed_reads}, 0, "$what: tried again until it worked")
				  if $point eq 'read_again' && $action eq 'fail 3';
				nothing_left($node, $what);
			}
		}
	}
	still_streams($node, 'h', (split /\|/, $expected)[0], "$method, no more failures");
	return;
}

# A disk that really fails
sub real_errors
{
	mkdir "$slow_disk/errors" or die "$slow_disk/errors: $!";
	value($node, "CREATE TABLESPACE failing LOCATION '$slow_disk/errors'");
	value($node, 'CREATE TABLE failing (LIKE h) USING aioheap TABLESPACE failing; INSERT INTO failing SELECT * FROM h; CHECKPOINT');
	foreach my $method (@usable)
	{
		my $what = "$method, failing disk";
		restart_with($node, 'aiostream.io_method' => $method);
		# catalogs are on another disk, but the file must be known
		is(value($node, "$question failing"), $expected, "$what: healthy");
		my $path = value($node, "SELECT pg_relation_filepath('failing')");
		my %result;
		foreach my $set ('aiostream.enable = off', map { "aiostream.direct_io = $_" } qw(on off auto))
		{
			evict($node, 'failing');
			my $session = session($node, $set);
			ask($session, "\\set VERBOSITY verbose\nSELECT pg_relation_size('failing')");
			append_to_file($fail_reads, '');
			my $error = ask_error($session, "$question failing");
			unlink $fail_reads or die $!;
			$result{$set} = $error;
			is(ask($session, "$question failing"), $expected, "$what, $set: the session goes on, healed");
			leave($session);
		}
		like($result{'aiostream.enable = off'},
			qr/^ERROR:  58030: could not read block \d+ in file "\Q$path\E": Input\/output error$/m,
			"$what: message and SQLSTATE");
		is($result{$_}, $result{'aiostream.enable = off'}, "$what, $_: as the plain path") foreach sort keys %result;

		# it begins to fail in mid-scan
		evict($node, 'failing');
		my $session = session($node, 'aiostream.direct_io = on');
		ask($session, "BEGIN;\nDECLARE c CURSOR FOR SELECT * FROM failing;\nMOVE 200 FROM c");
		append_to_file($fail_reads, '');
		like(ask_error($session, 'MOVE ALL FROM c'), qr/could not read block \d+ in file.*Input\/output error/,
			"$what: fails in mid-scan");
		unlink $fail_reads or die $!;
		is(ask($session, "ROLLBACK;\n$question failing"), $expected, "$what: healed again");
		leave($session);
		nothing_left($node, $what);
	}
	value($node, 'DROP TABLE failing; DROP TABLESPACE failing');
	return;
}
