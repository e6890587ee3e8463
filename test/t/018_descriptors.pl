# Reads wait in a ring to go to the kernel together while fd.c, short of descriptors, closes
# files for others, which get their numbers: no read is made from another file.
# A stress test: whether fd.c closes a file in just that moment is not for us to say.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tables = 160;
my $node = new_server('descriptors', shared_buffers => '2MB', max_files_per_process => 64, bgwriter_lru_maxpages => 0, checkpoint_timeout => '1h');
value($node, qq{
	CREATE TABLE t (id int, x int, pad text);
	INSERT INTO t SELECT g, g * 7919 % 10007, repeat(md5(g::text), 12) FROM generate_series(1, 24000) g;
	CREATE INDEX t_x ON t (x);
	-- each is a file, and its page in memory is to be written before it can go
	DO \$\$ BEGIN FOR i IN 1 .. $tables LOOP
		EXECUTE format('CREATE TABLE s_%s (id int, pad text)', i);
		EXECUTE format('INSERT INTO s_%s SELECT g, repeat(md5(g::text), 12) FROM generate_series(1, 10) g', i);
	END LOOP; END \$\$;
	CREATE FUNCTION dirty() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN FOR i IN 1 .. $tables LOOP
		EXECUTE format('UPDATE s_%s SET id = id + 1 WHERE id > 9', i);
	END LOOP; END \$\$;
	VACUUM (FREEZE, ANALYZE) t;
	CHECKPOINT;
});
# every tenth page or so, and their contents
my $sparse = 'SELECT count(*), sum(x), sum(hashtext(pad)::bigint) FROM t WHERE x % 10 = 0 AND x < ';
my %scans = (bitmapscan => 'enable_indexscan', indexscan => 'enable_bitmapscan');
my %right = map { $_ => value($node, "SET aiostream.enable = off; $sparse $_") } (300, 2000);

# the others have no ring
foreach my $method (grep { $_ eq 'io_uring' } usable_methods($node))
{
	restart_with($node, 'aiostream.io_method' => $method);
	foreach my $direct (qw(on off))
	{
		foreach my $scan (sort keys %scans)
		{
			my $what = "$method, direct_io $direct, $scan";
			my @got;
			for my $round (1 .. 8)
			{
				my $limit = $round % 2 ? 300 : 2000;
				value($node, 'SELECT aiostream_evict(\'t\'); SELECT dirty()');
				my $answer = value($node, "SET aiostream.direct_io = $direct; SET aiostream.effective_io_concurrency = 64; SET aiostream.debug_force_nodes = on;
					SET enable_seqscan = off; SET $scans{$scan} = off; $sparse $limit");
				push @got, "$limit: $answer" unless $answer eq $right{$limit};
			}
			is("@got", '', "$what: right answers");
			nothing_left($node, $what);
		}
	}
	cmp_ok(counters($node)->{reads}, '>', 0, "$method: reads");
	is(value($node, 'SELECT count(*) FROM t WHERE md5(x::text) IS NULL OR length(pad) <> 384'), 0, "$method: all pages are the table's");
}

$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal|invalid page|could not (?:read|open)/), 0, 'nothing in the log');
done_testing();
