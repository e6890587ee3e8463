/*
 * follower_heap.c
 *		Ahead of a vacuum's two passes over the table.
 *
 * First pass: all blocks but those that the visibility map lets core skip.
 *
 * Second pass: blocks with dead items, which core has in a list of its own.  A
 * page with dead items is not all-visible, and the first pass has just marked most
 * pages without any; so what is not all-visible is what to read.  Where much is
 * neither (rows changed since by transactions still running), that is too much:
 * the number of dead items, which core publishes, tells, and the pass is
 * left to core.
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "commands/progress.h"
#include "maintenance/follower_internal.h"
#include "storage/bufmgr.h"

/* Second pass: blocks that might have dead items, per dead item, at most */
#define MAX_GUESSES_PER_ITEM 2

typedef struct HeapAhead
{
	Relation	rel;
	Buffer		vmbuffer;
	BlockNumber next;			/* to be looked at next */
	BlockNumber end;
	BlockNumber run_end;		/* first pass: up to here it is decided */
	BlockNumber last;			/* first pass: the table's last block */
	uint8		skippable;		/* visibility map bits of what core may skip;
								 * 0: nothing */
} HeapAhead;

/* Looking through the map of a large table takes time: not after our end. */
#define MAP_CHECK_BLOCKS 65536

static bool
has_bits(HeapAhead *ahead, BlockNumber block, uint8 bits)
{
	if (block % MAP_CHECK_BLOCKS == 0 && !aiostream_follower_wanted())
		ahead->end = ahead->next;
	if (block >= ahead->end)
		return false;
	return (visibilitymap_get_status(ahead->rel, block, &ahead->vmbuffer) & bits) == bits;
}

/*
 * Core looks for the next block that it must not skip, skips what is before it if
 * that is a run of some length, and looks again behind it.  It never skips
 * the last block.
 */
static BlockNumber
next_scanned(AiostreamStream *stream, void *callback_private, void *per_block)
{
	HeapAhead  *ahead = (HeapAhead *) callback_private;

	if (ahead->next >= ahead->run_end && ahead->next < ahead->end)
	{
		BlockNumber stop = ahead->next;

		while (ahead->skippable != 0 && stop < ahead->end && stop < ahead->last &&
			   has_bits(ahead, stop, ahead->skippable))
			stop++;
		if (stop - ahead->next >= AIOSTREAM_VACUUM_SKIP_RUN)
			ahead->next = stop;
		ahead->run_end = stop + 1;
	}
	return ahead->next < ahead->end ? ahead->next++ : InvalidBlockNumber;
}

static BlockNumber
next_not_visible(AiostreamStream *stream, void *callback_private, void *per_block)
{
	HeapAhead  *ahead = (HeapAhead *) callback_private;

	while (ahead->next < ahead->end &&
		   has_bits(ahead, ahead->next, VISIBILITYMAP_ALL_VISIBLE))
		ahead->next++;
	return ahead->next < ahead->end ? ahead->next++ : InvalidBlockNumber;
}

/* Drop from the queue what the vacuum has passed; it is at block "at". */
static void
pass_until(AiostreamStream *stream, BlockNumber at)
{
	uint32		queued = aiostream_stream_queued(stream);
	uint32		n = 0;

	while (n < queued)
	{
		BlockNumber block;
		Buffer		hint;
		bool		hit;

		aiostream_stream_peek(stream, n, &block, &hint, &hit);
		if (block >= at)
			break;
		n++;
	}
	aiostream_stream_pass(stream, n);
}

/* Where the vacuum is in this pass */
static BlockNumber
position(const AiostreamVacuumProgress *progress)
{
	return progress->phase == PROGRESS_VACUUM_PHASE_SCAN_HEAP ?
		progress->scanned : progress->vacuumed;
}

/* Has the vacuum finished the pass, and is in a later one of the same table? */
static bool
finished(const AiostreamFollowed *table, const AiostreamVacuumProgress *pass)
{
	return table->now.relid == table->relid &&
		(table->now.phase > pass->phase || table->now.index_vacuums > pass->index_vacuums);
}

/*
 * Read ahead of one pass, and write behind it, until it is over; if there is nothing to
 * write, until everything has been read.  The caller then lets go of the table.
 */
static void
follow_pass(AiostreamFollowed *table, const AiostreamVacuumProgress *pass,
			HeapAhead *ahead, AiostreamNextBlock next_block)
{
	AiostreamStreamOptions options = aiostream_follower_options(table->order);
	AiostreamStream *stream;
	AiostreamStreamStats stats;
	AiostreamWriteBehind *behind;

	if (table->heap_ring == NULL)
		table->heap_ring = aiostream_follower_ring(AIOSTREAM_FOLLOWER_RING);
	if (table->heap_ring == NULL)
		return;
	stream = aiostream_stream_begin(ahead->rel, MAIN_FORKNUM, ahead->end, table->heap_ring,
									next_block, ahead, 0, &options);

	/*
	 * with indexes, pages that the first pass dirties are the second one's,
	 * too
	 */
	behind = aiostream_write_behind_begin(table, ahead->rel, ahead->end, ahead->next,
										  pass->phase == PROGRESS_VACUUM_PHASE_SCAN_HEAP &&
										  ahead->rel->rd_rel->relhasindex);
	while (aiostream_followed_same_pass(table, pass))
	{
		BlockNumber at = position(&table->now);

		pass_until(stream, at);
		if (aiostream_stream_queued(stream) == 0 && ahead->next < at)
		{
			/* overtaken */
			ahead->next = at;
			ahead->run_end = at;
		}
		aiostream_write_behind_advance(behind, at);
		aiostream_write_behind_read(behind, stream, AIOSTREAM_FOLLOWER_RING);
		aiostream_stream_get_stats(stream, &stats);
		aiostream_follower_report(table->relid, pass->phase,
								  aiostream_stream_queued(stream),
								  table->blocks_read + stats.io_blocks,
								  table->blocks_written +
								  aiostream_write_behind_blocks(behind));
		if (behind == NULL && aiostream_stream_ended(stream) &&
			!aiostream_stream_reading(stream))
			break;
		if (!aiostream_stream_wait_read(stream))
			aiostream_follower_nap(1);
	}
	aiostream_stream_get_stats(stream, &stats);
	table->blocks_read += stats.io_blocks;
	aiostream_write_behind_end(table, behind, finished(table, pass) ? ahead->end : 0);
	aiostream_stream_end(stream);
}

static void
wait_for_end(AiostreamFollowed *table, const AiostreamVacuumProgress *pass)
{
	aiostream_follower_report(table->relid, pass->phase, 0, table->blocks_read,
							  table->blocks_written);
	while (aiostream_followed_same_pass(table, pass))
		aiostream_follower_nap(1);
}

static void
close_ahead(HeapAhead *ahead)
{
	if (BufferIsValid(ahead->vmbuffer))
		ReleaseBuffer(ahead->vmbuffer);
	aiostream_follower_close(ahead->rel);
}

void
aiostream_follow_scan(AiostreamFollowed *table)
{
	AiostreamVacuumProgress pass = table->now;
	HeapAhead	ahead;

	table->round_start = pass.scanned;
	memset(&ahead, 0, sizeof(ahead));
	if (pass.total - pass.scanned >= AIOSTREAM_FOLLOWER_MIN_BLOCKS)
	{
		aiostream_follower_begin();
		ahead.rel = aiostream_follower_open(table->relid);
		if (ahead.rel != NULL)
		{
			ahead.next = ahead.run_end = pass.scanned;
			ahead.end = Min(pass.total, RelationGetNumberOfBlocks(ahead.rel));
			ahead.last = pass.total - 1;
			if (!table->order->all_pages)
				ahead.skippable = VISIBILITYMAP_ALL_VISIBLE |
					(aiostream_vacuum_aggressive(ahead.rel, table->order->freeze) ?
					 VISIBILITYMAP_ALL_FROZEN : 0);
			follow_pass(table, &pass, &ahead, next_scanned);
			close_ahead(&ahead);
		}
		aiostream_follower_commit();
	}
	wait_for_end(table, &pass);
}

/* Are blocks that are not all-visible about those that have dead items? */
static bool
guess_good(HeapAhead *ahead, int64 dead_items)
{
	BlockNumber start = ahead->next;
	int64		guesses = 0;

	while (next_not_visible(NULL, ahead, NULL) != InvalidBlockNumber)
		guesses++;
	ahead->next = start;
	return guesses <= dead_items * MAX_GUESSES_PER_ITEM;
}

void
aiostream_follow_second(AiostreamFollowed *table)
{
	AiostreamVacuumProgress pass = table->now;
	HeapAhead	ahead;

	memset(&ahead, 0, sizeof(ahead));
	if (pass.scanned - table->round_start >= AIOSTREAM_FOLLOWER_MIN_BLOCKS)
	{
		aiostream_follower_begin();
		ahead.rel = aiostream_follower_open(table->relid);
		if (ahead.rel != NULL)
		{
			ahead.next = table->round_start;
			ahead.end = Min(pass.scanned + 1, RelationGetNumberOfBlocks(ahead.rel));
			if (guess_good(&ahead, pass.dead_items))
				follow_pass(table, &pass, &ahead, next_not_visible);
			close_ahead(&ahead);
		}
		aiostream_follower_commit();
	}
	wait_for_end(table, &pass);
}
