# A table of more than one segment file: reads never cross the border, in
# either direction, and the answers are right on both sides of it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('segments', 'aiostream.debug_force_nodes' => 'on', 'aiostream.io_combine_limit' => '1MB',
	'aiostream.effective_io_concurrency' => 32, shared_buffers => '64MB');
my @usable = usable_methods($node);

# A sparse file of a full segment: pages of zeros are free pages, and what is
# inserted next goes to the last of them and on into the second segment.
value($node, 'CREATE TABLE big (id int, pad text) USING aioheap; '
	  . 'INSERT INTO big SELECT g, repeat(\'x\', 200) FROM generate_series(1, 1000) g; CHECKPOINT');
my $file = $node->data_dir . '/' . value($node, "SELECT pg_relation_filepath('big')");
my $segment = 131072 * 8192;
$node->stop;
truncate $file, $segment - 40 * 8192 or die "$file: $!";
$node->start;
value($node, 'INSERT INTO big SELECT g, repeat(\'x\', 200) FROM generate_series(1001, 9000) g; CHECKPOINT');
is(-s $file, $segment, 'the first segment is full');
cmp_ok(-s "$file.1", '>', 100 * 8192, 'there is a second one');
my $rows = '9000|40504500';
is(value($node, 'SET aiostream.enable = off; SELECT count(*), sum(id) FROM big'), $rows, 'the plain answer');
value($node, q{
	CREATE FUNCTION tail(backward bool) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE c refcursor := 'tail'; r record; n bigint := 0; h text := '';
	BEGIN
		OPEN c SCROLL FOR SELECT id, ctid FROM big;
		MOVE FORWARD 900 FROM c;
		IF backward THEN MOVE FORWARD ALL FROM c; END IF;
		LOOP
			IF backward THEN FETCH PRIOR FROM c INTO r; ELSE FETCH NEXT FROM c INTO r; END IF;
			EXIT WHEN NOT FOUND OR r.id <= 900;
			n := n + 1; h := md5(h || r::text);
		END LOOP;
		RETURN n || ' ' || h;
	END $$;
});
my %chain = map { $_ => value($node, "SET aiostream.enable = off; SELECT tail($_)") } qw(false true);
like($chain{$_}, qr/^8100 /, "the plain chain, backward $_") foreach qw(false true);

foreach my $method (@usable)
{
	restart_with($node, 'aiostream.io_method' => $method);
	foreach my $direct ($method eq $usable[0] ? qw(on off auto) : 'on')
	{
		my $what = "$method, direct $direct";
		my @answers = split /\n/, value($node, qq{
			SET aiostream.direct_io = $direct;
			SELECT aiostream_evict('big'), aiostream_stat_reset() \\g /dev/null
			SELECT count(*), sum(id) FROM big;
			SELECT aiostream_evict('big') \\g /dev/null
			SELECT tail(true);
			SELECT tail(false)});
		is_deeply(\@answers, [ $rows, $chain{true}, $chain{false} ], "$what: right answers");
		my $counters = counters($node);
		is($counters->{failed_reads} + $counters->{short_reads}, 0, "$what: no read goes beyond a segment");
			cmp_ok($counters->{read_bytes} / 8192 / $counters->{reads}, '>=', 16, "$what: large reads, though none is waited for")
		  if $direct eq 'on';
	}
	nothing_left($node, $method);
}
$node->stop;
done_testing();
