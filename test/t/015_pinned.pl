# Most of shared buffers are pinned by others: what is only wanted ahead is left to core,
# which finds a buffer for each page that is wanted now.  No error where core has none.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('pinned', 'aiostream.io_method' => 'auto', bgwriter_lru_maxpages => 0);
value($node, q{
	CREATE TABLE t (id int, r int, k int, pad text) USING aioheap;
	INSERT INTO t SELECT g, g * 7919 % 10007, g / 37, repeat('x', 150) FROM generate_series(1, 30000) g;
	CREATE INDEX t_r ON t (r);
	CREATE INDEX t_k ON t (k);
	-- of others, so that one row a page keeps its buffer
	CREATE TABLE p (id int, pad text) WITH (fillfactor = 10);
	INSERT INTO p SELECT g, repeat('x', 700) FROM generate_series(1, 420) g;
	CREATE FUNCTION pin(n int) RETURNS int LANGUAGE plpgsql AS $$
		DECLARE c refcursor; x int; i int := 0;
		BEGIN
			WHILE i < n LOOP
				c := NULL;
				OPEN c FOR EXECUTE format('SELECT id FROM p WHERE ctid = ''(%s,1)''', i);
				FETCH c INTO x;
				i := i + 1;
			END LOOP;
			RETURN i;
		END $$;
	VACUUM (FREEZE, ANALYZE) t;
	VACUUM (FREEZE, ANALYZE) p;
	CHECKPOINT;
});
my @methods = usable_methods($node);
my @questions = map { "SELECT count(*), sum(length(pad)) FROM t WHERE $_" } 'k BETWEEN 200 AND 400', 'r BETWEEN 100 AND 900';
my %scans = (bitmapscan => 'enable_indexscan', indexscan => 'enable_bitmapscan');

foreach my $case ([ 400, 300, 340, 370, 385 ], [ 16, 5, 9 ])
{
	my ($buffers, @pinned) = @$case;
	foreach my $method (@methods)
	{
		restart_with($node, shared_buffers => $buffers * 8 . 'kB', 'aiostream.io_method' => $method);
		foreach my $pinned (@pinned)
		{
			foreach my $scan (sort keys %scans)
			{
				my $what = "$pinned of $buffers buffers pinned, $method, $scan";
				my %answer;
				foreach my $enable (qw(off on))
				{
					value($node, "SELECT aiostream_evict('t')");
					my $session = session($node, 'enable_seqscan = off', "$scans{$scan} = off", 'aiostream.debug_force_nodes = on', 'max_parallel_workers_per_gather = 0');
					is(ask($session, "BEGIN; SET aiostream.enable = off; SELECT pin($pinned)"), $pinned, "$what: pinned");
					ask($session, "SET aiostream.enable = $enable");
					my ($result, $error) = ('', '');
					foreach my $question (@questions)
					{
						launch($session, $question);
						my @outcome = outcome($session);
						$result .= "$outcome[0] ";
						$error .= $outcome[1];
						last if $error ne '';
					}
					leave($session);
					$answer{$enable} = $error ne '' ? plain_messages($error) : $result;
				}
				like($answer{off}, qr/^\d/, "$what: core has an answer");
				is($answer{on}, $answer{off}, "$what: and we the same");
				nothing_left($node, $what);
			}
		}
	}
}

$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal/), 0, 'nothing in the log');
done_testing();
