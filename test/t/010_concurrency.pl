# Updates, VACUUM and scans at the same time, with little memory: under one
# snapshot our scans and plain ones give the same, and in the end nothing is
# left.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_server('concurrency', 'aiostream.debug_force_nodes' => 'on', shared_buffers => '16MB',
	'aiostream.io_workers' => 2);
my @usable = usable_methods($node);
# seconds of load for each method, and comparisons at least
my $seconds = 24 / @usable;
my $at_least = int(24 / @usable);

value($node, q{
	CREATE TABLE c (id int PRIMARY KEY, x int, pad text) USING aioheap;
	CREATE TABLE p (id int PRIMARY KEY, x int, pad text);
	INSERT INTO c SELECT g, g % 100, repeat(md5(g::text), 4) FROM generate_series(1, 120000) g;
	INSERT INTO p SELECT * FROM c;
	CREATE FUNCTION backward(tab text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE c refcursor := 'backward'; r record; n bigint := 0; s bigint := 0;
	BEGIN
		OPEN c SCROLL FOR EXECUTE format('SELECT id, x FROM %I WHERE id %% 4 = 0', tab);
		MOVE FORWARD ALL FROM c;
		LOOP
			FETCH PRIOR FROM c INTO r; EXIT WHEN NOT FOUND;
			n := n + 1; s := s + r.x;
		END LOOP;
		RETURN n || ' ' || s;
	END $$;
});

my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/change.sql", q{
\set i random(1, 120000)
\set n random(1, 50)
UPDATE c SET x = x + :n WHERE id BETWEEN :i AND :i + :n;
UPDATE p SET x = x - :n, pad = pad || 'x' WHERE id = :i;
DELETE FROM c WHERE id = :i;
INSERT INTO c VALUES (:i, :n, repeat('y', 10 * :n)) ON CONFLICT DO NOTHING;
});
append_to_file("$dir/maintain.sql", q{
VACUUM c;
VACUUM (FREEZE) p;
CREATE TABLE IF NOT EXISTS scratch USING aioheap AS SELECT * FROM c LIMIT 5000;
SELECT count(*) FROM scratch;
TRUNCATE scratch;
DROP TABLE scratch;
});
append_to_file("$dir/scan.sql", q{
\set d random(0, 2)
SELECT set_config('aiostream.direct_io', (ARRAY['on', 'off', 'auto'])[:d + 1], false);
SELECT count(*) FROM c;
BEGIN;
DECLARE s CURSOR FOR SELECT * FROM p;
MOVE 3000 FROM s;
ROLLBACK;
});

my $compared = 0;
foreach my $method (all_methods())
{
  SKIP:
	{
		skip "$method is not usable here", 1 unless grep { $_ eq $method } @usable;
		restart_with($node, 'aiostream.io_method' => $method);
		under_load($method);
	}
}
cmp_ok($compared, '>=', 20, "compared $compared times");
$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal/), 0, 'no crash');
done_testing();

sub under_load
{
	my ($method) = @_;
	my @load;
	my @common = ('pgbench', '-n', '-p', $node->port, '-h', $node->host, '-T', $seconds + 300, 'postgres');
	foreach my $part ([ 'change', 3 ], [ 'maintain', 1 ], [ 'scan', 1 ])
	{
		my ($file, $clients) = @$part;
		my $log = '';
		push @load, { name => $file, log => \$log,
			run => IPC::Run::start([ @common, '-c', $clients, '-f', "$dir/$file.sql" ], '>', \$log, '2>&1') };
	}
	# the load is there
	my $before = value($node, 'SELECT pg_current_wal_insert_lsn()');
	await($node, "SELECT pg_current_wal_insert_lsn() - '$before' > 1000000", 'load');

	my $end = time + $seconds;
	my $n = 0;
	my @direct = qw(on off auto);
	my %different;
	while ($n < $at_least || time < $end)
	{
		my $direct = $direct[ $n % 3 ];
		my $table = (qw(c p))[ $n % 2 ];
		my $query = $n % 4 < 2 ? "SELECT count(*), sum(x), sum(hashtext(pad)::bigint) FROM $table" : "SELECT backward('$table')";

		# one snapshot, two sessions
		my $keeper = session($node);
		my $snapshot = ask($keeper, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT pg_export_snapshot()");
		evict($node, $table) if $n % 3 == 0;
		my $ours = value($node, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'; SET aiostream.direct_io = $direct; $query");
		my $plain = ask($keeper, "SET aiostream.enable = off;\n$query");
		ask($keeper, 'COMMIT');
		leave($keeper);
		is($ours, $plain, "$method, direct $direct, $table: equal under one snapshot");
		$n++;
		$compared++;
	}
	foreach my $load (@load)
	{
		ok($load->{run}->pumpable, "$method: the load ($load->{name}) lasted") or diag ${ $load->{log} };
		$load->{run}->signal('TERM');    # INT may be ignored, where tests run in the background
		$load->{run}->finish;
		is(count_in(${ $load->{log} }, qr/ERROR|FATAL|PANIC|server closed/), 0, "$method: no errors in $load->{name}")
		  or diag ${ $load->{log} };
	}
	await($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'}, 'the end of the load');
	nothing_left($node, $method);
	my $counters = counters($node);
	cmp_ok($counters->{reads}, '>', 0, "$method: $counters->{reads} reads");
	is($counters->{failed_reads}, 0, "$method: no failed reads");
	foreach my $table (qw(c p))
	{
		still_streams($node, $table, value($node, "SET aiostream.enable = off; SELECT count(*) FROM $table"), "$method, $table");
	}
	return;
}
