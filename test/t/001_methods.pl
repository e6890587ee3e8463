# Every method, direct and not, forwards and backwards, with little and with
# much memory, with checksums and without: the same answers as PostgreSQL's
# own scan under the same snapshot, and counters that say what was done.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $digests = q{
	-- a chain over the rows in the order in which a cursor gives them
	CREATE FUNCTION chain(tab text, backward bool) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE c refcursor := 'chain'; r record; h text := ''; n int := 0;
	BEGIN
		OPEN c SCROLL FOR EXECUTE format('SELECT id, x, pad, ctid FROM %I WHERE id %% 10 = 1', tab);
		IF backward THEN
			MOVE FORWARD ALL FROM c;
		END IF;
		LOOP
			IF backward THEN FETCH PRIOR FROM c INTO r; ELSE FETCH NEXT FROM c INTO r; END IF;
			EXIT WHEN NOT FOUND;
			h := md5(h || r::text); n := n + 1;
		END LOOP;
		CLOSE c;
		RETURN n || ' ' || h;
	END $$;
	-- there, half back, and there again
	CREATE FUNCTION zigzag(tab text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE c refcursor := 'zigzag'; r record; h text := '';
	BEGIN
		OPEN c SCROLL FOR EXECUTE format('SELECT id FROM %I', tab);
		FOR i IN 1 .. 12 LOOP
			EXECUTE format('MOVE FORWARD %s FROM zigzag', 600 * i);
			FETCH NEXT FROM c INTO r; h := h || ' ' || coalesce(r.id, 0);
			EXECUTE format('MOVE BACKWARD %s FROM zigzag', 300 * i);
			FETCH PRIOR FROM c INTO r; h := h || ' ' || coalesce(r.id, 0);
		END LOOP;
		CLOSE c;
		RETURN h;
	END $$;
};

sub questions
{
	my ($tab) = @_;
	return (
		"SELECT count(*), sum(x), md5(string_agg(md5(t::text), '' ORDER BY id, x)) FROM $tab t",
		"SELECT chain('$tab', false)",
		"SELECT chain('$tab', true)",
		"SELECT zigzag('$tab')");
}

my %direct_counter = (on => 'direct_reads', off => 'buffered_reads', auto => 'direct_reads');
my $has_cachestat;

foreach my $checksums (0, 1)
{
	my $node = new_server("checksums$checksums",
		initdb => $checksums ? ['--data-checksums'] : []);
	my @usable = usable_methods($node);
	is(value($node, 'SHOW data_checksums'), $checksums ? 'on' : 'off', 'data_checksums');
	value($node, $digests);
	create_tables($node, 2);
	$has_cachestat = fact($node, 'cachestat') eq 'available';

	foreach my $method (all_methods())
	{
		# all combinations of the two with the first method
		foreach my $shared_buffers ($checksums && $method ne $usable[0] ? '128kB' : ('128kB', '256MB'))
		{
		  SKIP:
			{
				my $setting = "$method, shared_buffers $shared_buffers, checksums $checksums";
				skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
				restart_with($node, 'aiostream.io_method' => $method,
					shared_buffers => $shared_buffers);
				answers($node, $method, $setting);
			}
		}
	}
	facts($node, \@usable) if !$checksums;
	explain_counters($node) if !$checksums;
	bounce($node, \@usable) if $checksums;
	$node->stop;
}
done_testing();

sub answers
{
	my ($node, $method, $setting) = @_;

	is(method_in_use($node), $method, "$setting: method in use");
	is(fact($node, 'direct_path'), 'zero copy', "$setting: buffers aligned");
	is(fact($node, 'shared_buffers'), value($node, 'SHOW shared_buffers'),
		"$setting: shared_buffers as set");

	# a snapshot, and changes that it must not see
	my $keeper = session($node);
	my $snapshot = ask($keeper,
		"BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT pg_export_snapshot()");
	value($node, "UPDATE $_ SET x = x + 1 WHERE id % 20 = 1; DELETE FROM $_ WHERE id % 1000 = 500; "
		  . "INSERT INTO $_ SELECT -g, g, 'new' FROM generate_series(1, 500) g") foreach qw(h a);

	my $ask = sub {
		my ($set, $tab) = @_;
		return value($node, join ";\n",
			'BEGIN ISOLATION LEVEL REPEATABLE READ',
			"SET TRANSACTION SNAPSHOT '$snapshot'",
			$set, questions($tab), 'COMMIT');
	};
	foreach my $tab (qw(h a))
	{
		my $expected = $ask->('SET aiostream.enable = off', $tab);
		foreach my $direct (qw(on off auto))
		{
			my $what = "$setting, direct $direct, table $tab";
			# the first question reads all of it, the others what is not there any more
			my $answers = $ask->("SELECT aiostream_evict('$tab'), aiostream_stat_reset() \\g /dev/null\n"
				  . "SET aiostream.debug_force_nodes = on; SET aiostream.direct_io = $direct", $tab);
			is($answers, $expected, "$what: equal to the plain scan");

			my $counters = counters($node);
			cmp_ok($counters->{reads}, '>', 0, "$what: reads were made");
			is($counters->{"${method}_reads"}, $counters->{reads}, "$what: all by $method")
			  unless $direct ne 'on' && $method ne 'sync';
			is($counters->{direct_reads}, $direct eq 'off' ? 0 : $counters->{reads},
				"$what: $counters->{direct_reads} direct reads")
			  if $direct ne 'auto' || $has_cachestat;
			is($counters->{direct_reads} + $counters->{buffered_reads}, $counters->{reads},
				"$what: each read is direct or buffered");
			my $sizes = 0;
			$sizes += $counters->{$_} foreach grep { /^combined_/ } keys %$counters;
			is($sizes, $counters->{reads}, "$what: sizes add up");
			is($counters->{bounced_reads}, 0, "$what: no bounce buffers");
			is($counters->{failed_reads}, 0, "$what: no failed reads");
			is($counters->{fallback_ring} + $counters->{fallback_no_reaper} + $counters->{fallback_direct_open},
				0, "$what: no fallbacks");
		}
	}
	ask($keeper, 'COMMIT');
	leave($keeper);
	nothing_left($node, $setting);
	return;
}

# aiostream_info() and reset
sub facts
{
	my ($node, $usable) = @_;
	foreach my $method (@$usable)
	{
		restart_with($node, 'aiostream.io_method' => $method, shared_buffers => '16MB',
			'aiostream.io_workers' => 2);
		await($node, "SELECT value = '2' FROM aiostream_info() WHERE name = 'io_workers_running'")
		  if $method eq 'worker';
		is(fact($node, 'io_workers_running'), $method eq 'worker' ? 2 : 0, "$method: workers running");
		is(fact($node, 'io_method_setting'), $method, "$method: io_method_setting");
		is(fact($node, 'async_reads'), 'on', "$method: async_reads") if $method ne 'sync';
		is(fact($node, 'buffer_alignment'), 4096, "$method: buffer_alignment");
		like(fact($node, 'reaper_pid'), qr/^\d+$/, "$method: the reaper runs");
		is(value($node, q{SELECT count(*) FROM aiostream_info() GROUP BY name HAVING count(*) > 1}), '',
			"$method: each fact once");
	}
	# auto takes the best
	restart_with($node, 'aiostream.io_method' => 'auto');
	is(method_in_use($node), $usable->[0], 'auto takes the first usable method');

	# the number of workers follows a reload
	restart_with($node, 'aiostream.io_method' => 'worker');
	foreach my $n (4, 1)
	{
		value($node, "ALTER SYSTEM SET aiostream.io_workers = $n; SELECT pg_reload_conf()");
		ok($node->poll_query_until('postgres',
				"SELECT value = '$n' FROM aiostream_info() WHERE name = 'io_workers_running'"),
			"$n workers after a reload");
		is(scalar(processes_like($node, qr/aiostream io worker/)), $n, "$n worker processes");
	}
	value($node, 'ALTER SYSTEM RESET aiostream.io_workers');

	# what the kernel has cached is read buffered by auto, and directly by "on"
	restart_with($node, 'aiostream.io_method' => $usable->[0]);
  SKIP:
	{
		skip 'no cachestat(2) here', 2 unless $has_cachestat;
		foreach my $direct (qw(auto on))
		{
			evict($node, 'h');
			slurp_file($node->data_dir . '/' . value($node, "SELECT pg_relation_filepath('h')"));
			value($node, 'SELECT aiostream_stat_reset()');
			value($node, "SET aiostream.direct_io = $direct; SET aiostream.debug_force_nodes = on; SELECT count(*) FROM h");
			my $counters = counters($node);
			cmp_ok($counters->{reads}, '>', 0, "page cache warm, $direct: reads");
			is($counters->{ $direct eq 'auto' ? 'buffered_reads' : 'direct_reads' }, $counters->{reads},
				"page cache warm, $direct: $counters->{buffered_reads} buffered");
		}
		after_read_ahead($node);
	}
	return;
}

# Where a scan begins on pages that the kernel has cached, and so reads these through the page cache, the kernel's
# read-ahead (8 MB at a time on some disks) must not keep it there.
sub after_read_ahead
{
	my ($node) = @_;
	value($node, 'CREATE TABLE beginning (x text) USING aioheap');
	value($node, 'ALTER TABLE beginning ALTER x SET STORAGE plain');
	value($node, "INSERT INTO beginning SELECT repeat('x', 8000) FROM generate_series(1, 12000)");
	evict($node, 'beginning');
	open(my $file, '<:raw', $node->data_dir . '/' . value($node, "SELECT pg_relation_filepath('beginning')")) or die $!;
	my $pages = grep { sysread($file, my $page, 8192) == 8192 } 1 .. 2048;
	close($file);
	is($pages, 2048, 'pages of the beginning read');
	value($node, 'SELECT aiostream_stat_reset()');
	value($node, 'SET aiostream.debug_force_nodes = on; SELECT count(*) FROM beginning');
	my $counters = counters($node);
	cmp_ok($counters->{buffered_reads}, '>', 0, 'the kernel has the beginning: read through the page cache');
	# 94 MB in reads of up to 384 kB; some 40 MB of them are cached already, or before the scan can tell
	cmp_ok($counters->{direct_reads}, '>=', 50, "what follows is read directly: $counters->{direct_reads} of $counters->{reads}");
	value($node, 'DROP TABLE beginning');
	return;
}

sub explain_counters
{
	my ($node) = @_;
	my $query = 'SELECT count(*) FROM h';
	my $pages = value($node, "SELECT pg_relation_size('h') / 8192");

	evict($node, 'h');
	my $text = value($node, "SET aiostream.direct_io = on; EXPLAIN (ANALYZE, BUFFERS) $query");
	like($text, qr/Custom Scan \(AioSeqScan\) on h/, 'text: the node');
	like($text, qr/^ +Prefetch: distance avg=[1-9]\S* max=[1-9]\d* capacity=[1-9]\d*$/m, 'text: Prefetch');
	like($text, qr/^ +I\/O: count=[1-9]\d* size=[1-9]\S* in-progress=[1-9]\S* direct=[1-9]/m, 'text: I/O');
	like($text, qr/Buffers: shared read=$pages$/m, 'text: every page counts as read, as in core');

	evict($node, 'h');
	my $plan = as_json(value($node, "SET aiostream.direct_io = on; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $query"));
	my $scan = $plan->[0]{Plan}{Plans}[0];
	is($scan->{'Custom Plan Provider'}, 'AioSeqScan', 'JSON: the node');
	cmp_ok($scan->{'I/O Count'}, '>', 0, 'JSON: I/O Count');
	is($scan->{'Direct I/O Count'}, $scan->{'I/O Count'}, 'JSON: all direct');
	is(sprintf('%.0f', $scan->{'I/O Count'} * $scan->{'Average I/O Size'} + $scan->{'Core Reads'}), $pages,
		'JSON: count times size, and what core read, is the table');
	cmp_ok($scan->{'Average Prefetch Distance'}, '<=', $scan->{'Max Prefetch Distance'}, 'JSON: distances');
	cmp_ok($scan->{'Max Prefetch Distance'}, '<=', $scan->{'Prefetch Capacity'}, 'JSON: capacity');
	cmp_ok($scan->{'Average I/Os In Progress'}, '>=', 1, 'JSON: Average I/Os In Progress');
	ok(exists $scan->{$_}, "JSON: $_") foreach ('I/O Waits', 'I/O Wait Time', 'Buffers Hit');
	is($scan->{'Shared Read Blocks'} + $scan->{'Shared Hit Blocks'}, $pages, 'JSON: blocks as in core');

	unlike(value($node, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query"), qr/Prefetch|I\/O/,
		'nothing unstable with COSTS OFF');
	unlike(value($node, "EXPLAIN $query"), qr/Prefetch|I\/O/, 'nothing without ANALYZE');
	unlike(value($node, "SET aiostream.$_ = off; EXPLAIN $query"), qr/AioSeqScan/, "no node with $_ off")
	  foreach qw(enable enable_seqscan);
	unlike(value($node, "SET enable_seqscan = off; CREATE INDEX hi ON h (id); EXPLAIN SELECT * FROM h ORDER BY id; DROP INDEX hi"),
		qr/AioSeqScan/, 'enable_seqscan = off is honoured');
	return;
}

# Without alignment direct reads go through bounce buffers
sub bounce
{
	my ($node, $usable) = @_;
	foreach my $method (@$usable)
	{
		restart_with($node, 'aiostream.io_method' => $method, 'aiostream.align_buffers' => 'off',
			shared_buffers => '16MB');
		is(fact($node, 'direct_path'), 'bounce buffers', "$method, not aligned: the fact");
		cmp_ok(fact($node, 'buffer_alignment'), '<', 4096, "$method, not aligned: the alignment");
		my $questions = join ";\n", questions('h');
		my $expected = value($node, "SET aiostream.enable = off; $questions");
		is(value($node, "SELECT aiostream_evict('h'), aiostream_stat_reset() \\g /dev/null\n"
				  . "SET aiostream.direct_io = on; SET aiostream.debug_force_nodes = on; "
				  . "SET aiostream.io_combine_limit = '1MB'; $questions"),
			$expected, "$method, not aligned: right answers");
		my $counters = counters($node);
		cmp_ok($counters->{bounced_reads}, '>', 0, "$method, not aligned: bounced_reads");
		is($counters->{failed_reads}, 0, "$method, not aligned: no failed reads");
		nothing_left($node, "$method, not aligned");
	}
	return;
}
