# What aiostream's TAP tests have in common: servers with aiostream, tables
# with known content, sessions that run in the background, and the check that
# nothing is left in flight or pinned.
#
# Nothing here sleeps to let time pass: everything waits for a condition, and
# gives up after PostgreSQL::Test's time limit.
package AiostreamTest;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

our @EXPORT = qw(
  all_methods usable_methods method_in_use
  new_server restart_with start_through
  create_tables evict value number counters fact log_since count_in
  session ask ask_error plain_messages launch outcome leave
  arm disarm paused await wait_until
  nothing_left still_streams
  server_processes processes_like process_gone wait_gone
  as_json elapsed_ok
);

my @methods = qw(io_uring worker sync);
my $io_uring_usable;

sub all_methods { return @methods; }

# The methods that this machine allows; the first call needs a running server.
sub usable_methods
{
	my ($node) = @_;
	if (!defined $io_uring_usable)
	{
		restart_with($node, 'aiostream.io_method' => 'io_uring');
		$io_uring_usable = fact($node, 'io_method') eq 'io_uring';
		note "io_uring is " . ($io_uring_usable ? '' : 'not ') . "usable here";
	}
	return grep { $io_uring_usable || $_ ne 'io_uring' } @methods;
}

sub method_in_use { return fact($_[0], 'io_method'); }

# --- servers --------------------------------------------------------------

# new_server(NAME, setting => value ...): made and started, with the
# extensions aiostream and, for looking at pins, pg_buffercache.  "initdb",
# "streaming" and "preload" are options of ours.
sub new_server
{
	my ($name, %settings) = @_;
	my $initdb = delete $settings{initdb} // [];
	my $streaming = delete $settings{streaming} // 0;
	my $preload = delete $settings{preload} // 1;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(extra => [ '--encoding=UTF8', '--locale=C', @$initdb ],
		allows_streaming => $streaming);
	my %default = (
		shared_buffers => '16MB',
		max_connections => 30,
		autovacuum => 'off',
		synchronize_seqscans => 'off',
		max_parallel_workers_per_gather => 0,
		restart_after_crash => 'on',
		log_statement => 'none',
		checkpoint_timeout => '1h',
		max_wal_size => '4GB',
		jit => 'off');
	$default{shared_preload_libraries} = 'aiostream' if $preload;
	configure($node, %default, %settings);
	$node->start;
	$node->safe_psql('postgres',
		'CREATE EXTENSION aiostream; CREATE EXTENSION pg_buffercache');
	return $node;
}

sub configure
{
	my ($node, %settings) = @_;
	$node->append_conf('postgresql.conf',
		join '', map { "$_ = '$settings{$_}'\n" } sort keys %settings);
}

sub restart_with
{
	my ($node, %settings) = @_;
	configure($node, %settings);
	$node->restart;
}

# Starts a stopped server through a command in front of pg_ctl, which may
# change limits and the like.
sub start_through
{
	my ($node, @command) = @_;
	local %ENV = $node->_get_env(PGAPPNAME => undef);
	my $ret = system_log(@command, 'pg_ctl', '-w', '-s', '-D', $node->data_dir,
		'-l', $node->logfile, '-o', '--cluster-name=' . $node->name, 'start');
	$node->_update_pid(-1);
	return $ret == 0;
}

# --- tables ---------------------------------------------------------------

# Tables "h" (heap) and "a" (aioheap) with the same rows, some of them dead,
# of about $mb megabytes each.
sub create_tables
{
	my ($node, $mb) = @_;
	my $rows = $mb * 7000;
	$node->safe_psql('postgres', qq{
		CREATE TABLE h (id int, x int, pad text);
		INSERT INTO h SELECT g, g * 7 % 1000, repeat(md5(g::text), 3)
			FROM generate_series(1, $rows) g;
		DELETE FROM h WHERE id % 10 = 3;
		UPDATE h SET x = x + 1 WHERE id % 50 = 7;
		CREATE TABLE a (LIKE h) USING aioheap;
		INSERT INTO a SELECT * FROM h;
		DELETE FROM a WHERE id % 97 = 5;
		DELETE FROM h WHERE id % 97 = 5;
		CHECKPOINT;
	});
	return;
}

sub evict
{
	my ($node, @tables) = @_;
	$node->safe_psql('postgres',
		join ';', map { "SELECT aiostream_evict('$_')" } @tables);
	return;
}

# --- small questions ------------------------------------------------------

# One value, as text; settings that begin with "SET" may stand before it.
sub value
{
	my ($node, $sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

sub fact
{
	my ($node, $name) = @_;
	return value($node, "SELECT value FROM aiostream_info() WHERE name = '$name'");
}

# pg_stat_aiostream as a hash
sub counters
{
	my ($node) = @_;
	my %counters = map { split /=/, $_, 2 } split /\n/, value($node,
		"SELECT key || '=' || value FROM json_each_text((SELECT to_json(s) FROM pg_stat_aiostream s))");
	return \%counters;
}

sub as_json
{
	my ($text) = @_;
	require JSON::PP;
	return JSON::PP::decode_json($text);
}

sub log_since
{
	my ($node, $offset) = @_;
	return slurp_file($node->logfile, $offset // 0);
}

sub count_in
{
	my ($text, $pattern) = @_;
	my @found = $text =~ /$pattern/g;
	return scalar @found;
}

# --- sessions -------------------------------------------------------------

sub session
{
	my ($node, @settings) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query("SET $_") foreach @settings;
	return $session;
}

# Ask a session, and expect no error
sub ask
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	my $answer = $session->query($sql);
	die "\"$sql\" failed: $session->{stderr}" if $session->{stderr} =~ /ERROR|FATAL/;
	return $answer;
}

# Ask, and return the messages, which may be the last words of the session
sub ask_error
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	eval { $session->query($sql); 1 } or note "the session ended: $@";
	my $error = $session->{stderr};
	$session->{stderr} = '';
	return plain_messages($error);
}

# Messages without psql's file names and the server's source code lines
sub plain_messages
{
	my ($messages) = @_;
	$messages =~ s/^(LOCATION|STATEMENT):.*\n?//gm;
	$messages =~ s/^psql:\S+ //gm;
	return $messages;
}

# Let a session begin with something, without waiting for the end
sub launch
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	$session->query_until(qr/^launched$/m, "\\echo launched\n$sql;\n");
	return;
}

# What came of it: (answer, error)
sub outcome
{
	my ($session) = @_;
	my $answer = $session->query('');
	my $error = $session->{stderr};
	$session->{stderr} = '';
	$answer =~ s/^\n+|\n+$//g;
	return wantarray ? ($answer, $error) : $answer;
}

# The end of a session whose backend may be dead already
sub leave
{
	my ($session) = @_;
	eval { $session->quit; };
	return;
}

# --- fault points ---------------------------------------------------------

sub arm
{
	my ($node, $point, $action) = @_;
	value($node, "SELECT aiostream_debug_fault('$point', '$action')");
	return;
}
sub disarm { return arm(@_, 'off'); }

# Wait until at least $n processes are paused at a point
sub paused
{
	my ($node, $point, $n) = @_;
	$n //= 1;
	return await($node, "SELECT aiostream_debug_fault_waiters('$point') >= $n",
		"$n paused at \"$point\"");
}

# --- waiting --------------------------------------------------------------

# Wait until a query gives true, and die if it never does
sub await
{
	my ($node, $sql, $what) = @_;
	$node->poll_query_until('postgres', $sql)
	  or die 'waited in vain for ' . ($what // $sql);
	return 1;
}

# The same for a condition that is not SQL
sub wait_until
{
	my ($what, $condition, $seconds) = @_;
	my $end = time + ($seconds // $PostgreSQL::Test::Utils::timeout_default);
	until ($condition->())
	{
		return 0 if time > $end;
		usleep(10_000);
	}
	return 1;
}

# Run something that must end in time
sub elapsed_ok
{
	my ($seconds, $what, $code) = @_;
	my $start = time;
	$code->();
	my $took = time - $start;
	cmp_ok($took, '<', $seconds, sprintf '%s, in bounded time', $what);
	return $took;
}

# --- what must hold after everything --------------------------------------

# No read in flight, no buffer pinned by anybody
sub nothing_left
{
	my ($node, $after) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $query = "SELECT (SELECT count(*) FROM aiostream_ios), (SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0)";
	my $left;
	# psql's exit is not its backend's
	wait_until('nothing left', sub { ($left = value($node, $query)) eq '0|0' }, 30);
	is($left, '0|0', "$after: nothing in flight, nothing pinned");
	return;
}

# A scan of a cold table streams as it did on the first day, and core is left
# with what is its own: the first page.
sub still_streams
{
	my ($node, $table, $expected, $after) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	evict($node, $table);
	value($node, 'SELECT aiostream_stat_reset()');
	# a table vacuumed by now may be answered from an index alone
	my $scan = 'SET enable_indexonlyscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off';
	is(value($node, "$scan; SELECT count(*) FROM $table"), $expected, "$after: right answer");
	my $counters = counters($node);
	my $pages = value($node, "SELECT pg_relation_size('$table') / 8192");
	cmp_ok($counters->{core_reads}, '<=', 2, "$after: look-ahead reads the table");
	is($counters->{read_bytes} / 8192 + $counters->{core_reads}, $pages,
		"$after: each page was read once");
	return;
}

# --- processes ------------------------------------------------------------

# pid => title of the processes of a server, from /proc: background workers
# without a database do not show in pg_stat_activity.
sub server_processes
{
	my ($node) = @_;
	my $postmaster = $node->{_pid};
	my %processes;
	foreach my $dir (glob '/proc/[0-9]*')
	{
		open my $stat, '<', "$dir/stat" or next;
		my $line = <$stat> // '';
		close $stat;
		next unless $line =~ /^(\d+) \(.*\) (\S) (\d+) /s;
		my ($pid, $state, $parent) = ($1, $2, $3);
		next if $parent != $postmaster || $state eq 'Z';
		open my $cmdline, '<', "$dir/cmdline" or next;
		my $title = <$cmdline> // '';
		close $cmdline;
		$title =~ s/[\0\s]+$//;
		$processes{$pid} = $title;
	}
	return %processes;
}

# pids of those whose title matches
sub processes_like
{
	my ($node, $pattern) = @_;
	my %processes = server_processes($node);
	my @pids = sort { $a <=> $b } grep { $processes{$_} =~ $pattern } keys %processes;
	return @pids;
}

sub process_gone { return !kill(0, $_[0]); }

sub wait_gone
{
	my (@pids) = @_;
	return wait_until('processes gone', sub { !grep { kill(0, $_) } @pids });
}

1;
