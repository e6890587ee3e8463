/*
 * heapscan.c
 *		Heap scans whose pages are read ahead by a stream.
 *
 * The descriptor begins with core's HeapScanDescData, and all that makes up
 * the scan's POSITION lives in core's fields, with core's meaning: so core's
 * functions may be called on it at any time (a refetch, a scan that stops
 * streaming, code that casts to HeapScanDesc).  We add only a stream
 * and where its look-ahead stands.  Three modes:
 *
 * PAGES	page-at-a-time mode.  We step from page to page in the order of
 *			core's heapgettup_pagemode(), have core's heapgetpage() decide what
 *			is visible on each, and walk its list of visible tuples.
 * FOLLOW	not page-at-a-time (SnapshotAny: CLUSTER, VACUUM FULL).  Core does
 *			the stepping; we only keep reads in flight ahead of it.
 * CORE		core does everything: small tables, temporary ones, no streams.
 *
 * The mode is chosen at the first tuple asked for after begin or rescan.
 *
 * In a parallel scan the look-ahead takes blocks from the shared allocator, and
 * what was taken must be scanned by us: such a stream is never reset in
 * mid-scan.  That is as with core's chunks, which belong to the process that
 * took them.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/skey.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "access/valid.h"
#include "executor/instrument.h"
#include "guc.h"
#include "pgstat.h"
#include "scan/scan_internal.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Below that many blocks there is nothing to overlap */
#define AIOSTREAM_HEAPSCAN_MIN_BLOCKS 8

typedef enum AiostreamHeapScanMode
{
	AIOSTREAM_HEAPSCAN_UNDECIDED,	/* nothing fetched yet */
	AIOSTREAM_HEAPSCAN_CORE,
	AIOSTREAM_HEAPSCAN_PAGES,
	AIOSTREAM_HEAPSCAN_FOLLOW
} AiostreamHeapScanMode;

typedef struct AiostreamHeapScan
{
	HeapScanDescData base;		/* must be first */
	AiostreamHeapScanMode mode;
	AiostreamStream *stream;	/* NULL until first needed */
	BlockNumber stream_nblocks; /* the length the stream was told */
	BufferAccessStrategy ring;	/* rs_strategy, if it is one of ours */
	MemoryContext cxt;			/* the descriptor's: the stream's parent */

	/* The look-ahead of a serial scan: the blocks the callback is to give */
	BlockNumber ahead_next;
	BlockNumber ahead_left;
	bool		ahead_backward;
	/* The page handed out last; the look-ahead continues behind that one */
	BlockNumber at;

	bool		exhausted;		/* parallel: the allocator has no more blocks */
	AiostreamSample *sample;	/* ANALYZE's scan: its look-ahead, or NULL */
	AiostreamStreamStats past;	/* of streams that have ended */
} AiostreamHeapScan;

/* ------------------------------------------------------------------------
 * The blocks to look ahead to
 * ------------------------------------------------------------------------
 */

static BlockNumber
next_block_serial(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) callback_private;
	BlockNumber block = ascan->ahead_next;

	if (ascan->ahead_left == 0)
		return InvalidBlockNumber;
	ascan->ahead_left--;

	if (ascan->ahead_backward)
		ascan->ahead_next = (block == 0 ? ascan->base.rs_nblocks : block) - 1;
	else
		ascan->ahead_next = (block + 1 == ascan->base.rs_nblocks) ? 0 : block + 1;
	return block;
}

static BlockNumber
next_block_parallel(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) callback_private;
	TableScanDesc sscan = &ascan->base.rs_base;
	BlockNumber block = InvalidBlockNumber;

	if (!ascan->exhausted)
	{
		block = table_block_parallelscan_nextpage(sscan->rs_rd,
												  ascan->base.rs_parallelworkerdata,
												  (ParallelBlockTableScanDesc) sscan->rs_parallel);
		ascan->exhausted = (block == InvalidBlockNumber);
	}
	return block;
}

/*
 * How many pages a serial scan that is to read "page" next has left, that one
 * included?  It ends where core's stepping ends: before it comes round to the
 * start block, or after rs_numblocks pages.
 */
static BlockNumber
pages_left(HeapScanDesc scan, BlockNumber page, bool backward)
{
	uint64		nblocks = scan->rs_nblocks;
	uint64		left;

	Assert(page < nblocks && scan->rs_startblock < nblocks);

	if (backward)
		left = (page + nblocks - scan->rs_startblock) % nblocks + 1;
	else
		left = (scan->rs_startblock + nblocks - page - 1) % nblocks + 1;
	if (scan->rs_numblocks != InvalidBlockNumber)
		left = Min(left, scan->rs_numblocks);
	return (BlockNumber) left;
}

/* Let the look-ahead of a serial scan begin, or go on, with "page". */
static void
aim_ahead(AiostreamHeapScan *ascan, BlockNumber page, bool backward)
{
	ascan->ahead_next = page;
	ascan->ahead_left = pages_left(&ascan->base, page, backward);
	ascan->ahead_backward = backward;
}

/* ------------------------------------------------------------------------
 * Choosing the mode; the stream's life
 * ------------------------------------------------------------------------
 */

static void
stop_stream(AiostreamHeapScan *ascan)
{
	AiostreamStreamStats stats;

	if (ascan->stream == NULL)
		return;
	aiostream_stream_get_stats(ascan->stream, &stats);
	aiostream_stream_stats_add(&ascan->past, &stats);
	aiostream_stream_end(ascan->stream);
	ascan->stream = NULL;
}

static void
start_stream(AiostreamHeapScan *ascan)
{
	HeapScanDesc scan = &ascan->base;
	bool		parallel = scan->rs_base.rs_parallel != NULL;
	MemoryContext old = MemoryContextSwitchTo(ascan->cxt);

	Assert(ascan->stream == NULL);

	/*
	 * Core gave a scan of a large table a ring of 32 buffers.  Look-ahead
	 * needs a longer one; heap_endscan() frees either kind.
	 */
	if (scan->rs_strategy != NULL && scan->rs_strategy != ascan->ring)
	{
		BufferAccessStrategy ring = aiostream_stream_ring();

		if (ring != NULL)
		{
			FreeAccessStrategy(scan->rs_strategy);
			scan->rs_strategy = ring;
		}
		ascan->ring = scan->rs_strategy;
	}

	ascan->stream = aiostream_stream_begin(scan->rs_base.rs_rd, MAIN_FORKNUM,
										   scan->rs_nblocks, scan->rs_strategy,
										   parallel ? next_block_parallel : next_block_serial,
										   ascan, 0, NULL);
	ascan->stream_nblocks = scan->rs_nblocks;
	MemoryContextSwitchTo(old);
}

/* Make the stream continue with "page" in the given direction. */
static void
turn_stream(AiostreamHeapScan *ascan, BlockNumber page, bool backward)
{
	Assert(ascan->base.rs_base.rs_parallel == NULL);

	aim_ahead(ascan, page, backward);
	if (ascan->stream != NULL)
		aiostream_stream_reset(ascan->stream);
	else
		start_stream(ascan);
}

static void
choose_mode(AiostreamHeapScan *ascan, ScanDirection direction)
{
	HeapScanDesc scan = &ascan->base;
	TableScanDesc sscan = &scan->rs_base;
	BlockNumber min_blocks = aiostream_debug_force_nodes ? 1 : AIOSTREAM_HEAPSCAN_MIN_BLOCKS;

	Assert(ascan->mode == AIOSTREAM_HEAPSCAN_UNDECIDED);

	if ((sscan->rs_flags & SO_TYPE_SEQSCAN) == 0 ||
		scan->rs_nblocks < min_blocks ||
		!aiostream_stream_usable(sscan->rs_rd))
		ascan->mode = AIOSTREAM_HEAPSCAN_CORE;
	else if (sscan->rs_flags & SO_ALLOW_PAGEMODE)
		ascan->mode = AIOSTREAM_HEAPSCAN_PAGES;
	else if (sscan->rs_parallel == NULL && ScanDirectionIsForward(direction))
		ascan->mode = AIOSTREAM_HEAPSCAN_FOLLOW;
	else
		ascan->mode = AIOSTREAM_HEAPSCAN_CORE;

	if (ascan->mode == AIOSTREAM_HEAPSCAN_CORE)
		stop_stream(ascan);
}

/* ------------------------------------------------------------------------
 * PAGES: from page to page
 * ------------------------------------------------------------------------
 */

/*
 * The page that a serial scan begins with; the relation is not empty.  A
 * backward scan does not report its position to synchronized scans.
 */
static BlockNumber
first_page(HeapScanDesc scan, bool backward)
{
	if (!backward)
		return scan->rs_startblock;

	scan->rs_base.rs_flags &= ~SO_ALLOW_SYNC;
	if (scan->rs_numblocks != InvalidBlockNumber)
		return ((uint64) scan->rs_startblock + scan->rs_numblocks - 1) % scan->rs_nblocks;
	return (scan->rs_startblock > 0 ? scan->rs_startblock : scan->rs_nblocks) - 1;
}

/*
 * The page behind the current one in a serial scan, or InvalidBlockNumber at
 * the end.  The position is reported before the end is tested: at the end
 * of the scan the next scan is thus told to begin where this one did.
 */
static BlockNumber
following_page(HeapScanDesc scan, bool backward)
{
	BlockNumber page = scan->rs_cblock;
	bool		finished;

	if (backward)
	{
		finished = (page == scan->rs_startblock);
		page = (page == 0 ? scan->rs_nblocks : page) - 1;
	}
	else
	{
		page = (page + 1 >= scan->rs_nblocks) ? 0 : page + 1;
		finished = (page == scan->rs_startblock);
		if (scan->rs_base.rs_flags & SO_ALLOW_SYNC)
			ss_report_location(scan->rs_base.rs_rd, page);
	}

	if (!finished && scan->rs_numblocks != InvalidBlockNumber)
		finished = (--scan->rs_numblocks == 0);
	return finished ? InvalidBlockNumber : page;
}

/*
 * Have core look at a page that the stream handed out.  The stream's pin goes
 * first: core prunes a page only if it is pinned once.  Should it be taken away in
 * between, core reads it.  The page was counted when the stream pinned it,
 * so core's look-up must not count as another hit.
 */
static void
load_page(AiostreamHeapScan *ascan, BlockNumber page, Buffer pinned)
{
	TableScanDesc sscan = &ascan->base.rs_base;
	int64		reads;

	if (BufferIsValid(pinned))
		ReleaseBuffer(pinned);
	reads = pgBufferUsage.shared_blks_read;
	heapgetpage(sscan, page);

	if (!BufferIsValid(pinned))
		aiostream_stream_core_read(ascan->stream,
								   pgBufferUsage.shared_blks_read == reads);
	else if (pgBufferUsage.shared_blks_read == reads)
		aiostream_stream_uncount_hit(ascan->stream);

	ascan->at = page;
	TestForOldSnapshot(sscan->rs_snapshot, sscan->rs_rd,
					   BufferGetPage(ascan->base.rs_cbuf));
}

/* Step to the scan's first or next page; false at the end. */
static bool
step_page(AiostreamHeapScan *ascan, bool backward)
{
	HeapScanDesc scan = &ascan->base;
	BlockNumber expected = InvalidBlockNumber;
	BlockNumber page;
	Buffer		pinned;

	if (scan->rs_base.rs_parallel != NULL)
	{
		Assert(!backward);
		if (!scan->rs_inited)
		{
			table_block_parallelscan_startblock_init(scan->rs_base.rs_rd,
													 scan->rs_parallelworkerdata,
													 (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel);
			ascan->exhausted = false;
			stop_stream(ascan);
			start_stream(ascan);
		}
	}
	else
	{
		expected = scan->rs_inited ? following_page(scan, backward)
			: first_page(scan, backward);
		if (expected == InvalidBlockNumber)
			return false;

		/* At the start, after turning round, and where core stepped itself */
		if (!scan->rs_inited || ascan->stream == NULL ||
			ascan->at != scan->rs_cblock || ascan->ahead_backward != backward)
			turn_stream(ascan, expected, backward);
	}

	if (!aiostream_stream_next(ascan->stream, &page, &pinned, NULL))
	{
		if (expected != InvalidBlockNumber)
			elog(ERROR, "stream ended before block %u", expected);
		return false;
	}
	if (expected != InvalidBlockNumber && page != expected)
		elog(ERROR, "stream handed out block %u instead of %u", page, expected);

	load_page(ascan, page, pinned);
	return true;
}

/* The end, in either direction: a further fetch begins a fresh scan. */
static bool
end_of_scan(HeapScanDesc scan, TupleTableSlot *slot)
{
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	scan->rs_cbuf = InvalidBuffer;
	scan->rs_cblock = InvalidBlockNumber;
	scan->rs_ctup.t_data = NULL;
	scan->rs_inited = false;
	ExecClearTuple(slot);
	return false;
}

/* ------------------------------------------------------------------------
 * PAGES: from tuple to tuple
 * ------------------------------------------------------------------------
 */

/* Make visible tuple "index" of the current page the current tuple. */
static pg_attribute_always_inline void
load_tuple(HeapScanDesc scan, int index)
{
	HeapTuple	tuple = &scan->rs_ctup;
	Page		page = BufferGetPage(scan->rs_cbuf);
	OffsetNumber offnum = scan->rs_vistuples[index];
	ItemId		item = PageGetItemId(page, offnum);

	Assert(index >= 0 && index < scan->rs_ntuples);
	Assert(ItemIdIsNormal(item));

	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	ItemPointerSet(&tuple->t_self, scan->rs_cblock, offnum);
}

/*
 * Hand out the current tuple, number "index" of the page.  The slot usually
 * holds the tuple before, and with it a pin on the same page: then there is only
 * to point it to this one.  (Its TID is made anew: copying the one that was
 * stored a moment ago in smaller pieces would stall the CPU.)
 */
static pg_attribute_always_inline bool
store_tuple(HeapScanDesc scan, int index, TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *bslot = (BufferHeapTupleTableSlot *) slot;

	scan->rs_cindex = index;
	pgstat_count_heap_getnext(scan->rs_base.rs_rd);

	if (likely(TTS_IS_BUFFERTUPLE(slot) && bslot->buffer == scan->rs_cbuf))
	{
		Assert(!TTS_SHOULDFREE(slot));	/* as it has a buffer */
		slot->tts_flags &= ~TTS_FLAG_EMPTY;
		slot->tts_nvalid = 0;
		ItemPointerSet(&slot->tts_tid, scan->rs_cblock, scan->rs_vistuples[index]);
		slot->tts_tableOid = scan->rs_ctup.t_tableOid;
		bslot->base.tuple = &scan->rs_ctup;
		bslot->base.off = 0;
	}
	else
		ExecStoreBufferHeapTuple(&scan->rs_ctup, slot, scan->rs_cbuf);
	return true;
}

static bool
next_in_pages(AiostreamHeapScan *ascan, ScanDirection direction, TupleTableSlot *slot)
{
	HeapScanDesc scan = &ascan->base;
	TableScanDesc sscan = &scan->rs_base;
	bool		backward = ScanDirectionIsBackward(direction);
	int			step = backward ? -1 : 1;
	int			index;

	if (ScanDirectionIsNoMovement(direction))
		return heap_getnextslot(sscan, direction, slot);

	if (scan->rs_inited)
	{
		TestForOldSnapshot(sscan->rs_snapshot, sscan->rs_rd,
						   BufferGetPage(scan->rs_cbuf));
		index = scan->rs_cindex + step;
	}
	else
	{
		if (scan->rs_nblocks == 0 || scan->rs_numblocks == 0 ||
			!step_page(ascan, backward))
			return end_of_scan(scan, slot);
		scan->rs_inited = true;
		index = backward ? scan->rs_ntuples - 1 : 0;
	}

	for (;;)
	{
		for (; index >= 0 && index < scan->rs_ntuples; index += step)
		{
			bool		matches = true;

			load_tuple(scan, index);
			if (sscan->rs_nkeys > 0)
				HeapKeyTest(&scan->rs_ctup, RelationGetDescr(sscan->rs_rd),
							sscan->rs_nkeys, sscan->rs_key, matches);
			if (matches)
				return store_tuple(scan, index, slot);
		}

		if (!step_page(ascan, backward))
			return end_of_scan(scan, slot);
		index = backward ? scan->rs_ntuples - 1 : 0;
	}
}

/* ------------------------------------------------------------------------
 * FOLLOW
 * ------------------------------------------------------------------------
 */

static bool
next_in_follow(AiostreamHeapScan *ascan, ScanDirection direction, TupleTableSlot *slot)
{
	HeapScanDesc scan = &ascan->base;

	if (!heap_getnextslot(&scan->rs_base, direction, slot))
	{
		ascan->at = InvalidBlockNumber;
		return false;
	}

	if (scan->rs_cblock != ascan->at && ScanDirectionIsForward(direction))
	{
		if (ascan->at == InvalidBlockNumber)
			turn_stream(ascan, scan->rs_cblock, false);
		else if (pages_left(scan, scan->rs_cblock, false) < ascan->ahead_left)
			aim_ahead(ascan, scan->rs_cblock, false);	/* core has overtaken us */
		ascan->at = scan->rs_cblock;
		aiostream_stream_follow(ascan->stream, scan->rs_cblock);
	}
	else if (!ScanDirectionIsForward(direction))
		ascan->at = InvalidBlockNumber; /* begin anew when it goes forward */
	return true;
}

/* The uncommon ways through aiostream_heapscan_getnextslot. */
static pg_noinline bool
next_slowly(AiostreamHeapScan *ascan, ScanDirection direction, TupleTableSlot *slot)
{
	if (ascan->mode == AIOSTREAM_HEAPSCAN_UNDECIDED)
		choose_mode(ascan, direction);

	switch (ascan->mode)
	{
		case AIOSTREAM_HEAPSCAN_PAGES:
			return next_in_pages(ascan, direction, slot);
		case AIOSTREAM_HEAPSCAN_FOLLOW:
			return next_in_follow(ascan, direction, slot);
		default:
			return heap_getnextslot(&ascan->base.rs_base, direction, slot);
	}
}

/* ------------------------------------------------------------------------
 * The table AM's callbacks
 * ------------------------------------------------------------------------
 */

bool
aiostream_heapscan_supported(Relation rel)
{
	return rel->rd_tableam == GetHeapamTableAmRoutine() ||
		(rel->rd_tableam != NULL &&
		 rel->rd_tableam->scan_getnextslot == aiostream_heapscan_getnextslot);
}

TableScanDesc
aiostream_heapscan_begin(Relation rel, Snapshot snapshot, int nkeys,
						 struct ScanKeyData *key, ParallelTableScanDesc pscan,
						 uint32 flags)
{
	TableScanDesc sscan = heap_beginscan(rel, snapshot, nkeys, key, pscan, flags);
	AiostreamHeapScan *ascan;

	/* Nothing points into a fresh descriptor: it may move. */
	ascan = (AiostreamHeapScan *) repalloc(sscan, sizeof(AiostreamHeapScan));
	memset((char *) ascan + sizeof(HeapScanDescData), 0,
		   sizeof(AiostreamHeapScan) - sizeof(HeapScanDescData));
	ascan->mode = AIOSTREAM_HEAPSCAN_UNDECIDED;
	ascan->cxt = GetMemoryChunkContext(ascan);
	ascan->at = InvalidBlockNumber;
	if (flags & SO_TYPE_ANALYZE)
		ascan->sample = aiostream_sample_begin(rel, ascan->base.rs_nblocks);
	return (TableScanDesc) ascan;
}

void
aiostream_heapscan_rescan(TableScanDesc sscan, struct ScanKeyData *key,
						  bool set_params, bool allow_strat, bool allow_sync,
						  bool allow_pagemode)
{
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) sscan;

	/*
	 * A stream is kept for the next round, unless blocks it took from a
	 * parallel scan's allocator must be forgotten, or what it relies on may
	 * change.
	 */
	if (set_params || sscan->rs_parallel != NULL)
		stop_stream(ascan);

	heap_rescan(sscan, key, set_params, allow_strat, allow_sync, allow_pagemode);

	if (ascan->base.rs_nblocks != ascan->stream_nblocks ||
		ascan->base.rs_strategy != ascan->ring)
		stop_stream(ascan);
	if (ascan->base.rs_strategy != ascan->ring)
		ascan->ring = NULL;
	ascan->mode = AIOSTREAM_HEAPSCAN_UNDECIDED;
	ascan->at = InvalidBlockNumber;
}

void
aiostream_heapscan_end(TableScanDesc sscan)
{
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) sscan;

	stop_stream(ascan);
	if (ascan->sample != NULL)
		aiostream_sample_end(ascan->sample);
	heap_endscan(sscan);
}

bool
aiostream_heapscan_analyze_next_block(TableScanDesc sscan, BlockNumber blkno,
									  BufferAccessStrategy strategy)
{
	const TableAmRoutine *heapam = GetHeapamTableAmRoutine();
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) sscan;
	Buffer		pinned;
	int64		reads;
	bool		result;

	if (ascan->sample == NULL)
		return heapam->scan_analyze_next_block(sscan, blkno, strategy);

	pinned = aiostream_sample_block(ascan->sample, blkno);
	reads = pgBufferUsage.shared_blks_read;
	result = heapam->scan_analyze_next_block(sscan, blkno, strategy);
	aiostream_sample_looked_up(ascan->sample, BufferIsValid(pinned),
							   pgBufferUsage.shared_blks_read == reads);
	if (BufferIsValid(pinned))
		ReleaseBuffer(pinned);
	return result;
}

bool
aiostream_heapscan_getnextslot(TableScanDesc sscan, ScanDirection direction,
							   TupleTableSlot *slot)
{
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) sscan;
	HeapScanDesc scan = &ascan->base;

	/* By far most calls: the next visible tuple of the current page, unkeyed */
	if (likely(ascan->mode == AIOSTREAM_HEAPSCAN_PAGES && scan->rs_inited &&
			   ScanDirectionIsForward(direction) && sscan->rs_nkeys == 0))
	{
		int			index = scan->rs_cindex + 1;

		if (likely(index < scan->rs_ntuples))
		{
			TestForOldSnapshot(sscan->rs_snapshot, sscan->rs_rd,
							   BufferGetPage(scan->rs_cbuf));
			load_tuple(scan, index);
			return store_tuple(scan, index, slot);
		}
	}

	return next_slowly(ascan, direction, slot);
}

void
aiostream_heapscan_stats(TableScanDesc sscan, AiostreamStreamStats *stats)
{
	AiostreamHeapScan *ascan = (AiostreamHeapScan *) sscan;

	*stats = ascan->past;
	if (ascan->stream != NULL)
	{
		AiostreamStreamStats now;

		aiostream_stream_get_stats(ascan->stream, &now);
		aiostream_stream_stats_add(stats, &now);
	}
}
