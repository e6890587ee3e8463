# Reads that go to io_uring together: between being queued and being sent, files may be
# closed and their numbers be given to others, an ERROR may come, the kernel may take only
# some.  Answers are right all the same, nothing stays in flight, nobody waits for ever.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('batches', 'aiostream.io_method' => 'auto', shared_buffers => '8MB', bgwriter_lru_maxpages => 0);
if (method_in_use($node) ne 'io_uring')
{
	$node->stop;
	plan skip_all => 'io_uring is not usable here, and others have no batches';
}
value($node, q{
	CREATE TABLE t (id int, x int, pad text);
	INSERT INTO t SELECT g, g * 7919 % 10007, repeat(md5(g::text), 12) FROM generate_series(1, 24000) g;
	CREATE INDEX t_x ON t (x);
	CREATE FUNCTION caught(question text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE answer text;
		BEGIN EXECUTE question INTO answer; RETURN answer; EXCEPTION WHEN internal_error THEN RETURN SQLERRM; END $$;
	VACUUM (FREEZE, ANALYZE) t;
	CHECKPOINT;
});
# every tenth page or so, and what is in them
my $question = 'SELECT concat_ws($$ $$, count(*), sum(x), sum(hashtext(pad)::bigint)) FROM t WHERE x % 10 = 0 AND x < 900';
my $right = value($node, "SET aiostream.enable = off; $question");
my %scans = (bitmapscan => 'enable_indexscan', indexscan => 'enable_bitmapscan');

foreach my $direct (qw(on off))
{
	foreach my $scan (sort keys %scans)
	{
		my $what = "direct_io $direct, $scan";
		my @settings = ("aiostream.direct_io = $direct", 'aiostream.effective_io_concurrency = 64',
			'aiostream.debug_force_nodes = on', 'enable_seqscan = off', "$scans{$scan} = off");
		my $session = session($node, @settings);
		like(ask($session, "EXPLAIN (COSTS OFF) $question"), qr/Custom Scan \(Aio/, "$what: a node of ours");

		foreach my $point (qw(batch_files ring_partial))
		{
			evict($node, 't');
			my $before = counters($node);
			arm($node, $point, 'fail');
			is(ask($session, $question), $right, "$what, $point: right answer");
			disarm($node, $point);
			my $after = counters($node);
			cmp_ok($after->{io_uring_reads}, '>', $before->{io_uring_reads}, "$what, $point: by io_uring");
			cmp_ok($after->{worker_reads} + $after->{sync_reads}, '>', $before->{worker_reads} + $before->{sync_reads},
				"$what, $point: the others elsewhere") if $point eq 'ring_partial';
			is($after->{failed_reads}, 0, "$what, $point: no read failed");
			nothing_left($node, "$what, $point");
			is(ask($session, $question), $right, "$what, $point: what is in shared buffers is the table's");
		}

		# others want what has been claimed
		evict($node, 't');
		arm($node, 'batch_raise', 'fail 1');
		like(ask_error($session, $question), qr/ERROR:  injected error/, "$what: an error in the middle of a batch");
		elapsed_ok(60, "$what: the same pages in another session", sub { is(value($node, $question), $right, "$what: right answer") });
		nothing_left($node, "$what, an error");

		# in a subtransaction, whose parent goes on; with a cursor that was there before
		evict($node, 't');
		ask($session, 'BEGIN; DECLARE c CURSOR FOR SELECT x FROM t WHERE x % 10 = 0 AND x < 900');
		my $first = ask($session, 'FETCH 3 FROM c');
		evict($node, 't');
		arm($node, 'batch_raise', 'fail 1');
		is(ask($session, "SELECT caught('$question')"), 'injected error', "$what: caught");
		is(ask($session, $question), $right, "$what: right answer in the same transaction");
		my $rest = ask($session, 'FETCH ALL FROM c');
		is(scalar(split /\n/, "$first\n$rest"), (split / /, $right)[0], "$what: the cursor goes on");
		ask($session, 'COMMIT');
		leave($session);
		nothing_left($node, "$what, caught");
	}
}

$node->stop;
is(count_in(log_since($node), qr/PANIC|TRAP|terminated by signal|invalid page|could not (?:read|open)/), 0, 'nothing in the log');
done_testing();
