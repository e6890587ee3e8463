# A vacuum with follower is one that behaves: it sleeps as told, can be cancelled in
# each phase, makes nobody wait longer, skips indexes when wraparound is near, writes no
# page before its WAL while others write WAL, and leaves others' pages where they are.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../perl";
use AiostreamTest;
use AiostreamVacuum;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_server('manners', shared_buffers => '32MB', bgwriter_lru_maxpages => 0, autovacuum_freeze_max_age => 100000);
value($node, 'CREATE EXTENSION pg_visibility; CREATE EXTENSION amcheck; CREATE EXTENSION pg_freespacemap');
create_on_disk($node);
value($node, 'CREATE PROCEDURE use_xids(until bigint) LANGUAGE plpgsql AS $$ BEGIN WHILE pg_current_xact_id()::text::bigint < until LOOP COMMIT; END LOOP; END $$');

make_tables($node, {}, 't');
cost_delay();
cancelled($_) foreach 'scanning heap', 'vacuuming indexes', 'vacuuming heap';
truncate_waits();
wal_first();
working_set();
failsafe();
is(join("\n", grep { /PANIC|TRAP/ } split /\n/, log_since($node)), '', 'no PANIC');
$node->stop;
done_testing();

sub cost_delay
{
	my ($session, $pid, $follower) = begin_vacuum($node);
	# 32 MB / 8, in pages
	my $ring = 512;
	my ($scanned, $most, $delays) = split /\|/, value($node, qq{
		CREATE TEMP TABLE seen (at int, ahead int, delay bool);
		DO \$\$ BEGIN
			FOR i IN 1 .. 200 LOOP
				PERFORM pg_stat_clear_snapshot();
				INSERT INTO seen SELECT heap_blks_scanned, blocks_read - heap_blks_scanned, wait_event = 'VacuumDelay'
					FROM pg_stat_progress_vacuum JOIN $view v USING (pid) JOIN pg_stat_activity USING (pid) WHERE pid = $pid;
				PERFORM pg_sleep(0.005);
			END LOOP; END \$\$;
		SELECT max(at) - min(at), max(ahead), count(*) FILTER (WHERE delay) FROM seen});
	cmp_ok($scanned, '>', 0, 'cost delay: the vacuum moves on');
	cmp_ok($delays, '>', 100, 'cost delay: it sleeps most of the time');
	cmp_ok($most, '<=', $ring, "cost delay: the follower is never ahead by more than its ring ($most)");
	value($node, "SELECT pg_cancel_backend($pid)");
	outcome($session);
	leave($session);

	# each page scanned costs 1, each made dirty 20
	my $pages = value($node, "SELECT pg_relation_size('t') / 8192");
	my $start = time;
	vacuum($node, 't', 'INDEX_CLEANUP off', 'on', q(SET vacuum_cost_delay = '2ms'; SET vacuum_cost_limit = 100));
	cmp_ok(time - $start, '>', $pages * 10 / 100 * 0.002, 'cost delay: it takes its time');
	return;
}

sub cancelled
{
	my ($phase) = @_;
	my $what = "cancelled while $phase";
	more_dead($node, 't');
	my ($session, $pid, $follower) = begin_vacuum($node, 'VACUUM (INDEX_CLEANUP on) t', "vacuum_cost_delay = '10ms'", 'vacuum_cost_limit = 200');
	ok(in_phase($node, $pid, $phase, "pg_cancel_backend($pid)"), "$what: reached");
	my (undef, $error) = outcome($session);
	like($error, qr/canceling statement due to user request/, $what);
	follower_gone($node, $what, $follower);
	# that session can do it again
	evict($node, 't');
	ask($session, 'SET vacuum_cost_delay = 0');
	is(ask_error($session, 'VACUUM t'), '', "$what: and then not");
	leave($session);
	sound_table($node, $what, 't');
	return;
}

# Who waits for the table has it as soon as the vacuum is over.
sub truncate_waits
{
	my %late;
	foreach my $follow (qw(off on))
	{
		make_tables($node, {}, 't');
		evict($node, 't');
		my ($vacuum, $truncate) = map { session($node) } 1, 2;
		ask($vacuum, "SET aiostream.enable_vacuum = $follow;\n$slow");
		my $pid = ask($truncate, 'SELECT pg_backend_pid()');
		launch($vacuum, "VACUUM t;\nSELECT extract(epoch FROM clock_timestamp())");
		await($node, "SELECT count(*) = 1 FROM pg_stat_progress_vacuum WHERE heap_blks_scanned > 0", 'the vacuum');
		launch($truncate, "TRUNCATE t;\nSELECT extract(epoch FROM clock_timestamp())");
		await($node, "SELECT cardinality(pg_blocking_pids($pid)) > 0", 'TRUNCATE to wait');
		my $ended = outcome($vacuum);
		$late{$follow} = outcome($truncate) - $ended;
		leave($_) foreach $vacuum, $truncate;
	}
	cmp_ok($late{on}, '<', 1 + ($late{off} > 0 ? $late{off} : 0),
		sprintf 'TRUNCATE, %.3f s after VACUUM with follower, %.3f s without', @late{qw(on off)});
	return;
}

# Others write WAL all the time: pages are still written behind the vacuum, and none
# before its WAL.
sub wal_first
{
	make_tables($node, {}, 't');
	value($node, 'CREATE TABLE other (id int PRIMARY KEY, x int); INSERT INTO other SELECT g, 0 FROM generate_series(1, 1000) g; CREATE TABLE going AS SELECT true AS go');
	value($node, q(CREATE PROCEDURE churn() LANGUAGE plpgsql AS $$ BEGIN
		WHILE (SELECT go FROM going) LOOP
			UPDATE other SET x = x + 1 WHERE id = 1 + floor(random() * 1000);
			UPDATE t SET x = x + 1 WHERE id = 4 + 20 * floor(random() * 4000);
			COMMIT;
		END LOOP; END $$));
	value($node, 'CHECKPOINT');
	my ($walwriter) = value($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
	kill 'STOP', $walwriter;
	my @churns = map { my $session = session($node, 'synchronous_commit = off'); launch($session, 'CALL churn()'); $session } 1, 2;
	my $start = value($node, 'SELECT pg_current_wal_insert_lsn()');
	my $before = counters($node);
	my ($session, $pid, $follower) = begin_vacuum($node, 'VACUUM t', "vacuum_cost_delay = '1ms'", 'vacuum_cost_limit = 50');
	# WAL's end is read after the pages were
	my ($pages, $bad, $samples) = split /\|/, value($node, qq{
		CREATE TEMP TABLE seen (pages bigint, bad bool);
		DO \$\$ BEGIN
			FOR i IN 1 .. 1000 LOOP
				PERFORM pg_stat_clear_snapshot();
				EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE pid = $pid);
				INSERT INTO seen SELECT pages, newest > pg_current_wal_flush_lsn() FROM on_disk('t', '$start') OFFSET 0;
			END LOOP; END \$\$;
		SELECT max(pages), count(*) FILTER (WHERE bad), count(*) FROM seen});
	my (undef, $error) = outcome($session);
	leave($session);
	kill 'CONT', $walwriter;
	value($node, 'UPDATE going SET go = false');
	outcome($_), leave($_) foreach @churns;
	my $after = counters($node);
	is($error, '', 'WAL first: VACUUM');
	cmp_ok($after->{write_bytes} - $before->{write_bytes}, '>', 4 * 1024 * 1024, 'WAL first: pages are written behind');
	cmp_ok($after->{wal_flushes} - $before->{wal_flushes}, '>', 0, 'WAL first: WAL was flushed for them');
	cmp_ok($pages, '>', 300, "WAL first: $pages pages were seen on disk, in $samples looks");
	is($bad, 0, 'WAL first: none before its WAL');
	sound_table($node, 'WAL first', 't');
	return;
}

# What others use stays in shared buffers, and what they have changed is not written for us.
sub working_set
{
	value($node, q(CREATE TABLE warm WITH (autovacuum_enabled = off) AS SELECT g id, repeat('w', 400) pad FROM generate_series(1, 40000) g; VACUUM (FREEZE) warm));
	my $cached = q(SELECT count(*), count(*) FILTER (WHERE isdirty) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('warm') AND relforknumber = 0);
	my (%kept, %dirty);
	make_tables($node, {}, 't');
	foreach my $follow (qw(off on))
	{
		more_dead($node, 't');
		value($node, q(SELECT aiostream_evict('t'), aiostream_evict('warm')));
		value($node, q(SELECT aiostream_prewarm('warm') FROM generate_series(1, 5)));
		# a row of each second page
		my $row = $follow eq 'on' ? 1 : 2;
		value($node, "DELETE FROM warm WHERE ctid IN (SELECT format('(%s,%s)', b, $row)::tid FROM generate_series(0, 1900, 2) b)");
		my ($before, $dirty) = split /\|/, value($node, $cached);
		cmp_ok($dirty, '>', 500, "a warm table, follower $follow: $dirty of its $before pages are dirty");
		vacuum($node, 't', '', $follow);
		($kept{$follow}, $dirty{$follow}) = split /\|/, value($node, $cached);
		$kept{$follow} /= $before;
		$dirty{$follow} /= $dirty;
	}
	cmp_ok($kept{on}, '>=', $kept{off} - 0.02, sprintf 'a warm table stays: %.3f of it with follower, %.3f without', @kept{qw(on off)});
	cmp_ok($dirty{on}, '>=', $dirty{off} - 0.02, sprintf 'its dirty pages stay dirty: %.3f with follower, %.3f without', @dirty{qw(on off)});
	return;
}

# When wraparound comes near during the first pass, indexes are left alone.
sub failsafe
{
	make_tables($node, {}, qw(t without));
	# 105 % of autovacuum_freeze_max_age
	my $limit = 105_000 + value($node, "SELECT min(relfrozenxid::text::bigint) FROM pg_class WHERE relname IN ('t', 'without')");
	value($node, "CALL use_xids($limit - 1000)");
	evict($node, qw(t without));

	# both at the same time: the first to end has autovacuum started
	my @slowly = ('vacuum_failsafe_age = 0', "vacuum_cost_delay = '20ms'", 'vacuum_cost_limit = 100');
	my $without = session($node, @slowly, 'aiostream.enable_vacuum = off');
	launch($without, 'VACUUM (VERBOSE) without');
	my ($with_it, $pid, $follower) = begin_vacuum($node, 'VACUUM (VERBOSE) t', @slowly);
	value($node, "CALL use_xids($limit + 1000)");
	is(value($node, "SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'scanning heap'"), 2, 'failsafe: limit passed during the first pass');
	my %said = (t => (outcome($with_it))[1], without => (outcome($without))[1]);
	like($said{t}, qr/bypassing nonessential maintenance of table .* as a failsafe after 0 index scans/, 'failsafe: triggered');
	like($said{t}, qr/index scan bypassed by failsafe/, 'failsafe: indexes are left alone');
	is(told($said{t}, 't'), told($said{without}, 'without'), 'failsafe: the same was done');
	ok(wait_gone($follower), 'failsafe: the follower is gone');
	leave($_) foreach $with_it, $without;
	is(rows_of($node, 't'), rows_of($node, 'without'), 'failsafe: the same rows');
	sound_table($node, 'failsafe', 't');
	return;
}
