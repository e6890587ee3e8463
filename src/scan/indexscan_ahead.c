/*
 * indexscan_ahead.c
 *		Fetching the rows that an index scan names, with look-ahead.
 *
 * Two modes:
 *
 * CORE		entry by entry, as core: each row is fetched right after its index entry
 *			was read, so that the index learns of dead rows and marks their
 *			entries (kill_prior_tuple).  Every scan begins in this mode, and one that
 *			finds everything in shared buffers never leaves it.  While nothing has been
 *			missed lately, core's own loop does it (next_quickly).
 * AHEAD	entries are read ahead of the fetches into a queue, and their heap
 *			blocks go through a stream.  Fetches happen in the order of the entries.
 *			The index cannot be told of dead rows.
 *
 * From CORE to AHEAD: after a miss, if it is not the first among the last 16 blocks
 * visited (over all rescans, so that short inner scans of a nested loop remember).
 * With aiostream.debug_force_nodes, at once.
 * Back to CORE: when the stream has collapsed, or the queue got too long without a
 * block to read, at a moment when the queue is empty: then the index scan stands
 * exactly where the consumer does.
 *
 *		index order		e1  e2  e3  e4  e5  e6  e7
 *		heap block		 7   9   7   7   4   9   2
 *		announced		 *   *           *       *		to the stream
 *
 * A block announced a short while ago is not announced again: by the time of e3
 * it has been handed out.  Should it be gone again, core reads it.
 *
 * Why entries may be read ahead: only MVCC snapshots are served.  An entry's row may
 * be vacuumed and its TID be used again before we fetch, but then no snapshot
 * as old as ours can see the new row, which core's fetch finds out.  An index-only
 * scan looks at the visibility map when it reads the entry, while the index
 * access method's own interlock holds, as core does, not when it uses the entry.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "executor/instrument.h"
#include "executor/tuptable.h"
#include "guc.h"
#include "miscadmin.h"
#include "scan/indexscan_internal.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Blocks between two misses that begin look-ahead */
#define VISITS_BETWEEN_MISSES 16
/* Entries to read without finding a block to announce, before giving up */
#define MAX_BARREN			4096
#define MAX_BARREN_CAREFUL	128

/* Blocks announced a short while ago: a table indexed by block number */
#define RECENT_BLOCKS		16384

typedef struct RecentBlock
{
	BlockNumber blkno;
	uint32		when;			/* number of its announcement */
} RecentBlock;

struct AiostreamIndexFetch
{
	MemoryContext cxt;
	Buffer	   *vmbuffer;		/* index-only scan, else NULL */
	bool		careful;
	int			plan_flags;

	bool		ahead;			/* mode */
	bool		wanted;			/* begin look-ahead with the next entry */
	bool		banned;			/* no look-ahead: streams are not usable */
	bool		turned;			/* the consumer turned: none until the next
								 * rescan */
	ScanDirection direction;	/* of the last call; none since a rescan */
	bool		quick;			/* core's own loop may do it: nothing to note,
								 * and nothing was missed lately */
	uint64		visits;			/* of blocks in mode CORE, but in quick calls */
	uint64		last_miss;		/* the visit that missed last */
	BlockNumber last_block;

	AiostreamEntryQueue queue;

	/* mode AHEAD */
	IndexScanDesc scan;
	bool		at_end;			/* the index has no more entries */
	bool		paused;			/* the queue is too long */
	ItemPointerData returned;	/* index entry handed out last */

	AiostreamStream *stream;	/* NULL until first needed */
	BlockNumber nblocks;		/* length that the stream was told */
	uint64		consumed;		/* blocks, since look-ahead began */
	bool		holding;		/* got a block before its entry's turn */
	BlockNumber held_block;
	Buffer		held_buffer;
	RecentBlock *recent;
	uint32		announcements;
	uint64		pauses;			/* of the look-ahead, as collapses */
	AiostreamLeafAhead *leaves; /* NULL: not of this index */
	AiostreamSweep *table_sweep;	/* NULL until something was missed */
	AiostreamSweep *index_sweep;
};

/* In mode CORE.  An index-only scan, or a sweep, has more to do for each entry. */
static bool
may_be_quick(const AiostreamIndexFetch *fetch)
{
	return fetch->vmbuffer == NULL && !fetch->ahead &&
		!(fetch->plan_flags & (AIOSTREAM_PLAN_SWEEP_TABLE | AIOSTREAM_PLAN_SWEEP_INDEX)) &&
		fetch->visits - fetch->last_miss >= VISITS_BETWEEN_MISSES;
}

static void
forget_misses(AiostreamIndexFetch *fetch)
{
	fetch->visits = fetch->last_miss + VISITS_BETWEEN_MISSES;
	fetch->quick = may_be_quick(fetch);
}

AiostreamIndexFetch *
aiostream_indexfetch_create(MemoryContext cxt, Buffer *vmbuffer, int plan_flags)
{
	AiostreamIndexFetch *fetch = MemoryContextAllocZero(cxt, sizeof(AiostreamIndexFetch));

	fetch->cxt = cxt;
	fetch->vmbuffer = vmbuffer;
	fetch->careful = (plan_flags & AIOSTREAM_PLAN_CAREFUL) != 0;
	fetch->plan_flags = plan_flags;
	aiostream_entryqueue_init(&fetch->queue, cxt, vmbuffer != NULL);
	fetch->last_block = InvalidBlockNumber;
	forget_misses(fetch);
	aiostream_indexfetch_rescan(fetch);
	return fetch;
}

static void
empty_queue(AiostreamIndexFetch *fetch)
{
	aiostream_entryqueue_clear(&fetch->queue);
	if (fetch->holding && BufferIsValid(fetch->held_buffer))
		ReleaseBuffer(fetch->held_buffer);
	fetch->holding = false;
}

/* ------------------------------------------------------------------------
 * From the index to the stream
 * ------------------------------------------------------------------------
 */

/*
 * Are all rows of the block visible to everybody? Then a serializable
 * transaction locks it here, as nothing else will.
 */
static bool
block_all_visible(AiostreamIndexFetch *fetch, IndexScanDesc scan, BlockNumber blkno)
{
	if (!VM_ALL_VISIBLE(scan->heapRelation, blkno, fetch->vmbuffer))
		return false;
	PredicateLockPage(scan->heapRelation, blkno, scan->xs_snapshot);
	return true;
}

/*
 * Is the block to be announced? Not what the table has grown by since we asked
 * for its length: it holds nothing that our snapshot sees.
 */
static bool
worth_announcing(AiostreamIndexFetch *fetch, BlockNumber blkno)
{
	RecentBlock *recent = &fetch->recent[blkno % RECENT_BLOCKS];
	uint32		memory = Min(RECENT_BLOCKS, NBuffers / 8);

	if (recent->blkno == blkno && fetch->announcements - recent->when < memory)
		return false;
	if (blkno >= fetch->nblocks)
		return false;
	recent->blkno = blkno;
	recent->when = ++fetch->announcements;
	return true;
}

static bool
queue_too_long(AiostreamIndexFetch *fetch, int barren)
{
	Size		memory = (Size) work_mem * 1024;

	return barren >= (fetch->careful ? MAX_BARREN_CAREFUL : MAX_BARREN) ||
		(Size) aiostream_entryqueue_length(&fetch->queue) * sizeof(AiostreamQueueEntry) + fetch->queue.data_size >= memory;
}

/* The next entry of the index scan, whose leaf pages are read ahead, too */
static ItemPointer
next_entry(AiostreamIndexFetch *fetch)
{
	int64		reads = pgBufferUsage.shared_blks_read;
	ItemPointer tid = index_getnext_tid(fetch->scan, fetch->direction);

	if (tid != NULL && fetch->leaves != NULL)
		aiostream_leafahead_entry(fetch->leaves, fetch->scan, fetch->direction,
								  pgBufferUsage.shared_blks_read != reads);
	return tid;
}

/* The stream's callback: read index entries up to one with a new block. */
static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamIndexFetch *fetch = (AiostreamIndexFetch *) callback_private;

	for (int barren = 0; !fetch->at_end; barren++)
	{
		ItemPointer tid;
		AiostreamQueueEntry *entry;
		BlockNumber blkno;

		if (queue_too_long(fetch, barren))
		{
			fetch->paused = true;
			break;
		}
		CHECK_FOR_INTERRUPTS();
		tid = next_entry(fetch);
		if (tid == NULL)
		{
			fetch->at_end = true;
			break;
		}
		entry = aiostream_entryqueue_push(&fetch->queue, fetch->scan, tid);
		blkno = ItemPointerGetBlockNumber(tid);
		if (fetch->vmbuffer != NULL && block_all_visible(fetch, fetch->scan, blkno))
			entry->flags |= AIOSTREAM_ENTRY_ALL_VISIBLE;
		else if (worth_announcing(fetch, blkno))
		{
			entry->flags |= AIOSTREAM_ENTRY_ANNOUNCED;
			return blkno;
		}
	}
	return InvalidBlockNumber;
}

static bool
stream_step(AiostreamIndexFetch *fetch)
{
	Assert(!fetch->holding);
	if (fetch->careful)
		aiostream_stream_bound(fetch->stream,
							   aiostream_careful_distance(fetch->plan_flags, fetch->consumed));
	if (!aiostream_stream_next(fetch->stream, &fetch->held_block, &fetch->held_buffer, NULL))
		return false;
	fetch->holding = true;
	fetch->consumed++;
	return true;
}

/* The buffer of the announced block whose turn it is, or InvalidBuffer */
static Buffer
take_block(AiostreamIndexFetch *fetch, BlockNumber blkno)
{
	if (!fetch->holding && !stream_step(fetch))
		elog(ERROR, "stream ended before block %u", blkno);
	if (fetch->held_block != blkno)
		elog(ERROR, "stream handed out block %u instead of %u", fetch->held_block, blkno);
	fetch->holding = false;
	return fetch->held_buffer;
}

/* The queue is empty: get entries.  False: none, or look-ahead is to end. */
static bool
refill_queue(AiostreamIndexFetch *fetch)
{
	Assert(aiostream_entryqueue_length(&fetch->queue) == 0 && !fetch->holding);
	if (fetch->at_end || fetch->paused || !aiostream_stream_looking(fetch->stream))
		return false;
	(void) stream_step(fetch);
	return aiostream_entryqueue_length(&fetch->queue) > 0;
}

/* ------------------------------------------------------------------------
 * Between the modes
 * ------------------------------------------------------------------------
 */

static void
start_stream(AiostreamIndexFetch *fetch, IndexScanDesc scan)
{
	Relation	heap = scan->heapRelation;
	AiostreamStreamOptions options = {-1, -1, -1, -1, false, true, true};
	MemoryContext old = MemoryContextSwitchTo(fetch->cxt);

	fetch->nblocks = RelationGetNumberOfBlocks(heap);
	fetch->stream = aiostream_stream_begin(heap, MAIN_FORKNUM, fetch->nblocks, NULL,
										   next_block, fetch, 0, &options);
	fetch->recent = palloc0(RECENT_BLOCKS * sizeof(RecentBlock));
	for (int i = 0; i < RECENT_BLOCKS; i++)
		fetch->recent[i].blkno = InvalidBlockNumber;
	MemoryContextSwitchTo(old);

	/* in a parallel scan, the next leaf is another process's */
	if (scan->parallel_scan == NULL)
		fetch->leaves = aiostream_leafahead_create(fetch->cxt, scan->indexRelation,
												   fetch->plan_flags);
}

/* To AHEAD, if possible; the index scan stands at the entry handed out last. */
static void
start_ahead(AiostreamIndexFetch *fetch, IndexScanDesc scan)
{
	fetch->wanted = false;
	if (fetch->banned || fetch->turned)
		return;
	if (!IsMVCCSnapshot(scan->xs_snapshot) || !aiostream_stream_usable(scan->heapRelation))
	{
		fetch->banned = true;
		return;
	}

	Assert(aiostream_entryqueue_length(&fetch->queue) == 0 && !fetch->holding && !scan->xs_heap_continue);
	if (fetch->stream == NULL)
		start_stream(fetch, scan);
	else
		aiostream_stream_reset(fetch->stream);
	fetch->ahead = true;
	fetch->quick = false;
	fetch->scan = scan;
	fetch->at_end = false;
	fetch->paused = false;
	fetch->consumed = 0;
	ItemPointerSetInvalid(&fetch->returned);
	(void) worth_announcing(fetch, fetch->last_block);
	aiostream_stream_core_read(fetch->stream, false);
}

/* To CORE; entries queued are forgotten. */
static void
stop_ahead(AiostreamIndexFetch *fetch)
{
	/* what was announced may not have been read: it is not "recent" */
	if (aiostream_entryqueue_length(&fetch->queue) > 0)
		fetch->announcements += RECENT_BLOCKS;
	empty_queue(fetch);
	if (fetch->stream != NULL)
		aiostream_stream_reset(fetch->stream);
	if (fetch->leaves != NULL)
		aiostream_leafahead_restart(fetch->leaves);
	fetch->ahead = false;
	fetch->wanted = false;
	forget_misses(fetch);
	fetch->last_block = InvalidBlockNumber;
}

/*
 * The consumer turns round, but the index scan is ahead of it: bring it back to
 * the entry handed out last, and go on in mode CORE.  That is done from the scan's
 * start, not by going back: a B-tree's entries with equal keys come in an order
 * that depends on the direction in which their page was entered, and core's scan
 * would now stand on a page entered in the old direction.  The entry is
 * still in the index, as its row is visible to our snapshot.  With an empty queue
 * the index scan is there already, unless it has been beyond the last entry: that
 * ends a B-tree's scan, which would begin anew at that entry.
 */
static void
turn_round(AiostreamIndexFetch *fetch)
{
	IndexScanDesc scan = fetch->scan;

	if (aiostream_entryqueue_length(&fetch->queue) > 0 || fetch->at_end)
	{
		ItemPointer tid;

		Assert(ItemPointerIsValid(&fetch->returned));
		index_rescan(scan, NULL, scan->numberOfKeys, NULL, scan->numberOfOrderBys);
		do
		{
			CHECK_FOR_INTERRUPTS();
			tid = index_getnext_tid(scan, fetch->direction);
			if (tid == NULL)
				elog(ERROR, "index scan did not find its way back");
		} while (!ItemPointerEquals(tid, &fetch->returned));
	}
	stop_ahead(fetch);
}

/* ------------------------------------------------------------------------
 * The rows
 * ------------------------------------------------------------------------
 */

/* A page of the table or the index was read in mode CORE; see sweep.c. */
static pg_noinline void
sweep_missed(AiostreamIndexFetch *fetch, AiostreamSweep **sweep, Relation rel)
{
	if (*sweep == NULL)
		*sweep = aiostream_sweep_create(fetch->cxt, rel);
	aiostream_sweep_missed(*sweep);
}

/* A block of the table had to be read in mode CORE. */
static pg_noinline void
note_miss(AiostreamIndexFetch *fetch, IndexScanDesc scan, BlockNumber blkno)
{
	fetch->visits++;
	fetch->last_block = blkno;
	if (fetch->visits - fetch->last_miss < VISITS_BETWEEN_MISSES &&
		!(fetch->plan_flags & AIOSTREAM_PLAN_FEW_BLOCKS))
		fetch->wanted = true;
	fetch->last_miss = fetch->visits;
	if (fetch->plan_flags & AIOSTREAM_PLAN_SWEEP_TABLE)
		sweep_missed(fetch, &fetch->table_sweep, scan->heapRelation);
}

/* index_getnext_slot(), watching for misses */
static bool
next_in_core(AiostreamIndexFetch *fetch, IndexScanDesc scan, ScanDirection direction,
			 TupleTableSlot *slot, AiostreamIndexEntry *entry, double *heap_fetches)
{
	bool		found;

	do
	{
		BlockNumber blkno;
		int64		reads;

		CHECK_FOR_INTERRUPTS();
		reads = pgBufferUsage.shared_blks_read;
		if (!scan->xs_heap_continue && index_getnext_tid(scan, direction) == NULL)
			return false;
		if (unlikely(pgBufferUsage.shared_blks_read != reads) &&
			(fetch->plan_flags & AIOSTREAM_PLAN_SWEEP_INDEX))
			sweep_missed(fetch, &fetch->index_sweep, scan->indexRelation);

		blkno = ItemPointerGetBlockNumber(&scan->xs_heaptid);
		entry->heap_fetched = true;
		if (fetch->vmbuffer != NULL && block_all_visible(fetch, scan, blkno))
		{
			entry->heap_fetched = false;
			break;
		}
		*heap_fetches += 1;
		reads = pgBufferUsage.shared_blks_read;
		found = index_fetch_heap(scan, slot);
		if (unlikely(pgBufferUsage.shared_blks_read != reads))
			note_miss(fetch, scan, blkno);
		else if (blkno != fetch->last_block)
		{
			fetch->visits++;
			fetch->last_block = blkno;
		}
	} while (!found);

	entry->recheck = scan->xs_recheck;
	if (fetch->vmbuffer == NULL)
	{
		fetch->quick = may_be_quick(fetch);
		return true;
	}

	/* an index-only scan wants the rest, too */
	if (scan->xs_heap_continue)
		elog(ERROR, "non-MVCC snapshots are not supported in index-only scans");
	entry->tid = scan->xs_heaptid;
	entry->itup = scan->xs_itup;
	entry->hitup = scan->xs_hitup;
	return true;
}

/*
 * The hot path: core's own loop.  Should it have read a page, that counts as a miss,
 * be it the index's, and the next entries are looked at one by one.
 */
static inline bool
next_quickly(AiostreamIndexFetch *fetch, IndexScanDesc scan, ScanDirection direction,
			 TupleTableSlot *slot, AiostreamIndexEntry *entry)
{
	int64		reads = pgBufferUsage.shared_blks_read;
	bool		found;

	CHECK_FOR_INTERRUPTS();
	found = index_getnext_slot(scan, direction, slot);
	if (unlikely(pgBufferUsage.shared_blks_read != reads))
	{
		fetch->last_miss = fetch->visits;
		fetch->last_block = ItemPointerGetBlockNumberNoCheck(&scan->xs_heaptid);
		fetch->quick = false;
	}
	entry->recheck = scan->xs_recheck;
	return found;
}

/*
 * Core's fetch of one entry's row, whose block the stream may have handed out.
 * The stream's pin goes first: core prunes a page only if it is pinned once.
 */
static bool
fetch_row(AiostreamIndexFetch *fetch, const AiostreamQueueEntry *queued_entry, TupleTableSlot *slot)
{
	IndexScanDesc scan = fetch->scan;
	int64		hits;
	int64		reads;
	bool		found;
	Buffer		buffer = InvalidBuffer;

	if (queued_entry->flags & AIOSTREAM_ENTRY_ANNOUNCED)
		buffer = take_block(fetch, ItemPointerGetBlockNumber(&queued_entry->tid));
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);

	hits = pgBufferUsage.shared_blks_hit;
	reads = pgBufferUsage.shared_blks_read;
	scan->xs_heaptid = queued_entry->tid;
	found = index_fetch_heap(scan, slot);

	/*
	 * The index scan is elsewhere by now: it must not take this for its
	 * entry.
	 */
	scan->kill_prior_tuple = false;
	Assert(!scan->xs_heap_continue);

	if (BufferIsValid(buffer))
	{
		if (pgBufferUsage.shared_blks_hit != hits)
			aiostream_stream_uncount_hit(fetch->stream);
	}
	else if (queued_entry->flags & AIOSTREAM_ENTRY_ANNOUNCED)
		aiostream_stream_core_read(fetch->stream,
								   pgBufferUsage.shared_blks_read == reads);
	return found;
}

/* False: the queue is empty and look-ahead has ended. */
static bool
next_in_ahead(AiostreamIndexFetch *fetch, TupleTableSlot *slot,
			  AiostreamIndexEntry *entry, double *heap_fetches)
{
	AiostreamQueueEntry queued_entry;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (aiostream_entryqueue_length(&fetch->queue) == 0 && !refill_queue(fetch))
			return false;
		queued_entry = aiostream_entryqueue_pop(&fetch->queue);
		entry->heap_fetched = !(queued_entry.flags & AIOSTREAM_ENTRY_ALL_VISIBLE);
		if (!entry->heap_fetched)
		{
			entry->tid = queued_entry.tid;
			break;
		}
		*heap_fetches += 1;
	} while (!fetch_row(fetch, &queued_entry, slot));

	if (entry->heap_fetched)
		entry->tid = fetch->scan->xs_heaptid;
	fetch->returned = queued_entry.tid;
	entry->recheck = (queued_entry.flags & AIOSTREAM_ENTRY_RECHECK) != 0;
	entry->hitup = (queued_entry.flags & AIOSTREAM_ENTRY_HEAP_TUPLE) ? fetch->queue.current_data : NULL;
	entry->itup = (queued_entry.flags & AIOSTREAM_ENTRY_HEAP_TUPLE) ? NULL : fetch->queue.current_data;
	return true;
}

bool
aiostream_indexfetch_next(AiostreamIndexFetch *fetch, IndexScanDesc scan,
						  ScanDirection direction, TupleTableSlot *slot,
						  AiostreamIndexEntry *entry, double *heap_fetches)
{
	if (likely(fetch->quick && direction == fetch->direction))
		return next_quickly(fetch, scan, direction, slot, entry);

	if (unlikely(direction != fetch->direction))
	{
		/* the first call since a rescan, or the consumer turns round */
		if (fetch->ahead)
			turn_round(fetch);
		fetch->turned = !ScanDirectionIsNoMovement(fetch->direction);
		fetch->direction = direction;
	}
	if (unlikely(fetch->wanted))
		start_ahead(fetch, scan);
	if (fetch->ahead)
	{
		bool		at_end;

		if (next_in_ahead(fetch, slot, entry, heap_fetches))
			return true;
		at_end = fetch->at_end;
		fetch->pauses += fetch->paused;
		stop_ahead(fetch);
		if (at_end)
			return false;
	}
	return next_in_core(fetch, scan, direction, slot, entry, heap_fetches);
}

void
aiostream_indexfetch_rescan(AiostreamIndexFetch *fetch)
{
	if (fetch->ahead)
	{
		stop_ahead(fetch);
		fetch->last_miss = fetch->visits;	/* the next round need miss only
											 * once */
	}
	fetch->wanted = aiostream_debug_force_nodes != 0;
	fetch->quick = !fetch->wanted && may_be_quick(fetch);
	fetch->turned = false;
	fetch->direction = NoMovementScanDirection;
}

void
aiostream_indexfetch_end(AiostreamIndexFetch *fetch)
{
	empty_queue(fetch);
	if (fetch->stream != NULL)
		aiostream_stream_end(fetch->stream);
	fetch->stream = NULL;
	if (fetch->leaves != NULL)
		aiostream_leafahead_end(fetch->leaves);
	fetch->leaves = NULL;
	if (fetch->table_sweep != NULL)
		aiostream_sweep_end(fetch->table_sweep);
	if (fetch->index_sweep != NULL)
		aiostream_sweep_end(fetch->index_sweep);
	fetch->table_sweep = fetch->index_sweep = NULL;
}

/* What was read of the index is told by what it cost, and how much it was. */
static void
add_index_stats(AiostreamStreamStats *stats, AiostreamStreamStats *index)
{
	index->blocks = index->hits = index->core_reads = 0;
	index->distance_sum = index->distance_samples = index->distance_max = 0;
	index->capacity = index->collapses = 0;
	index->index_blocks = index->io_blocks;
	aiostream_stream_stats_add(stats, index);
}

void
aiostream_indexfetch_stats(AiostreamIndexFetch *fetch, AiostreamStreamStats *stats)
{
	AiostreamStreamStats more;

	memset(stats, 0, sizeof(*stats));
	if (fetch->stream != NULL)
		aiostream_stream_get_stats(fetch->stream, stats);
	stats->collapses += fetch->pauses;
	if (fetch->table_sweep != NULL)
	{
		aiostream_sweep_stats(fetch->table_sweep, &more);
		aiostream_stream_stats_add(stats, &more);
	}
	if (fetch->leaves != NULL)
	{
		aiostream_leafahead_stats(fetch->leaves, &more);
		add_index_stats(stats, &more);
	}
	if (fetch->index_sweep != NULL)
	{
		aiostream_sweep_stats(fetch->index_sweep, &more);
		add_index_stats(stats, &more);
	}
}
