/*
 * rangefollow.c
 *		Reading ahead of a sequential scan that core drives from start to end.
 *
 * For callers that see core's scan only through what comes out of it, as an
 * index build sees tuples: each time they notice a new block they say so, and
 * reads are kept in flight ahead of it.
 *
 * What lies ahead is known: in a serial scan the range, once its first block is.
 * A parallel scan's processes take chunks of blocks from a shared allocator, and a
 * chunk is too short to look ahead in.  So each process reads for all of them: for
 * each chunk that it takes it reads another one, a good way further on, which
 * somebody will take later.
 *
 *		order of allocation		| A | B | A | C | B | ...   | a | b | a | c | b |
 *		taken, and then read	  ^A takes this   and reads    ^this one
 *
 * As all chunks are taken by somebody, all are read by somebody, once.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "scan/scan.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Shorter ranges are over before a stream is of use */
#define AIOSTREAM_FOLLOW_MIN_BLOCKS 8
/* Parallel: what is read at a time at least, also if chunks are shorter */
#define UNIT_BLOCKS			64
/* Parallel: ranges of blocks that wait for room in the stream's queue */
#define MAX_RANGES			64

typedef struct BlockRange
{
	uint64		next;			/* in the order of allocation */
	uint64		end;
} BlockRange;

struct AiostreamRangeFollower
{
	AiostreamStream *stream;
	BufferAccessStrategy ring;	/* NULL: none */
	HeapScanDesc scan;			/* of a parallel scan, else NULL */

	BlockNumber nblocks;		/* the table's length when the stream was made */
	BlockNumber current;		/* block followed last */

	/* serial */
	BlockNumber start;			/* the range to be scanned */
	BlockNumber count;
	bool		wraps;			/* may start anywhere and come round */
	BlockNumber next;			/* what the stream's callback gives next, */
	BlockNumber left;			/* and how many it gives from there on */

	/* parallel */
	uint64		chunk_end;		/* of the chunk this process is working on */
	BlockNumber distance;		/* how much further on it reads */
	BlockRange	ranges[MAX_RANGES]; /* what the callback is to give */
	int			first_range;
	int			nranges;
};

static BlockNumber
next_serial(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamRangeFollower *follower = (AiostreamRangeFollower *) callback_private;
	BlockNumber block = follower->next;

	if (follower->left == 0)
		return InvalidBlockNumber;
	follower->left--;
	follower->next = (block + 1 == follower->nblocks) ? 0 : block + 1;
	return block;
}

/* ------------------------------------------------------------------------
 * Parallel: places in the order of allocation
 * ------------------------------------------------------------------------
 */

static inline ParallelBlockTableScanDesc
shared_scan(const AiostreamRangeFollower *follower)
{
	return (ParallelBlockTableScanDesc) follower->scan->rs_base.rs_parallel;
}

static inline BlockNumber
block_of_place(const AiostreamRangeFollower *follower, uint64 place)
{
	return (BlockNumber) ((place + shared_scan(follower)->phs_startblock) % follower->nblocks);
}

static inline uint64
place_of_block(const AiostreamRangeFollower *follower, BlockNumber block)
{
	return ((uint64) block + follower->nblocks - shared_scan(follower)->phs_startblock) %
		follower->nblocks;
}

static BlockNumber
next_parallel(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamRangeFollower *follower = (AiostreamRangeFollower *) callback_private;
	BlockRange *range = &follower->ranges[follower->first_range];
	BlockNumber block;

	if (follower->nranges == 0)
		return InvalidBlockNumber;
	block = block_of_place(follower, range->next);
	if (++range->next == range->end)
	{
		follower->first_range = (follower->first_range + 1) % MAX_RANGES;
		follower->nranges--;
	}
	return block;
}

/* If there are too many, we are slow: somebody will read it through core. */
static void
add_range(AiostreamRangeFollower *follower, uint64 start, uint64 end)
{
	BlockRange *range = &follower->ranges[(follower->first_range + follower->nranges) % MAX_RANGES];

	end = Min(end, follower->nblocks);
	if (start >= end || follower->nranges == MAX_RANGES)
		return;
	range->next = start;
	range->end = end;
	follower->nranges++;
}

/*
 * This process has taken a chunk, and is at "place" in it.  The units that begin in it
 * are its to answer for.  At the beginning of the scan nobody has read ahead
 * yet: that is done by who takes the first chunk.
 */
static void
take_chunk(AiostreamRangeFollower *follower, uint64 place, uint64 start, uint64 end)
{
	uint64		unit = Max(UNIT_BLOCKS, aiostream_io_combine_limit);

	if (start == 0)
		add_range(follower, place + 1, follower->distance);
	for (uint64 first = (start + unit - 1) / unit * unit; first < end; first += unit)
		add_range(follower, first + follower->distance, first + follower->distance + unit);
	if (follower->nranges > 0)
		aiostream_stream_more(follower->stream);
}

/* Forget the places up to this one, which this process, or another, has scanned. */
static void
pass_until(AiostreamRangeFollower *follower, uint64 place)
{
	uint32		queued = aiostream_stream_queued(follower->stream);
	uint32		n = 0;

	for (; n < queued; n++)
	{
		BlockNumber block;
		Buffer		hint;
		bool		hit;

		aiostream_stream_peek(follower->stream, n, &block, &hint, &hit);
		if (place_of_block(follower, block) > place)
			break;
	}
	aiostream_stream_pass(follower->stream, n);
}

/*
 * Core's scan is at a new block of a parallel scan.  If the next one is a read of
 * our own, wait for it, as core could only wait until somebody tells it that it
 * has landed.
 */
static void
follow_parallel(AiostreamRangeFollower *follower, BlockNumber block)
{
	ParallelBlockTableScanWorker worker = follower->scan->rs_parallelworkerdata;
	uint64		place = worker->phsw_nallocated;
	uint64		end = place + worker->phsw_chunk_remaining + 1;
	BlockNumber next;
	Buffer		hint;
	bool		hit;

	Assert(place < follower->nblocks && block_of_place(follower, place) == block);
	if (end != follower->chunk_end)
		take_chunk(follower, place, end - worker->phsw_chunk_size, end);
	follower->chunk_end = end;
	pass_until(follower, place);
	aiostream_stream_ahead(follower->stream);
	if (aiostream_stream_queued(follower->stream) == 0 || place + 1 == end)
		return;
	aiostream_stream_peek(follower->stream, 0, &next, &hint, &hit);
	if (place_of_block(follower, next) == place + 1)
		(void) aiostream_stream_wait_oldest(follower->stream);
}

/* ------------------------------------------------------------------------
 * Life
 * ------------------------------------------------------------------------
 */

AiostreamRangeFollower *
aiostream_rangefollow_begin(Relation rel, TableScanDesc parallel_scan,
							bool allow_sync, BlockNumber start_block,
							BlockNumber count)
{
	AiostreamStreamOptions options = {-1, -1, -1, aiostream_maintenance_io_concurrency, false};
	AiostreamRangeFollower *follower;
	BlockNumber nblocks;

	if (parallel_scan != NULL)
	{
		Assert(parallel_scan->rs_parallel != NULL);
		count = nblocks = ((HeapScanDesc) parallel_scan)->rs_nblocks;
		options.full_distance = true;
	}
	else
	{
		nblocks = RelationGetNumberOfBlocks(rel);
		count = start_block < nblocks ? Min(count, nblocks - start_block) : 0;
	}
	if (count < AIOSTREAM_FOLLOW_MIN_BLOCKS || !aiostream_stream_usable(rel))
		return NULL;

	follower = palloc0(sizeof(AiostreamRangeFollower));
	follower->scan = (HeapScanDesc) parallel_scan;
	follower->nblocks = nblocks;
	follower->start = start_block;
	follower->count = count;
	follower->wraps = allow_sync;
	follower->current = InvalidBlockNumber;
	follower->distance = Min(aiostream_maintenance_io_concurrency * aiostream_io_combine_limit,
							 NBuffers / 16);

	/* As core: a ring for tables that would crowd out others */
	if (nblocks > NBuffers / 4)
		follower->ring = aiostream_stream_ring();
	follower->stream = aiostream_stream_begin(rel, MAIN_FORKNUM, nblocks,
											  follower->ring,
											  parallel_scan != NULL ? next_parallel : next_serial,
											  follower, 0, &options);
	return follower;
}

void
aiostream_rangefollow_end(AiostreamRangeFollower *follower)
{
	aiostream_stream_end(follower->stream);
	if (follower->ring != NULL)
		FreeAccessStrategy(follower->ring);
	pfree(follower);
}

/* ------------------------------------------------------------------------
 * Being told
 * ------------------------------------------------------------------------
 */

/*
 * Blocks of the range that lie at or after "block".  A scan that may start
 * anywhere starts, for our purposes, with the first block seen.
 */
static BlockNumber
left_of_range(AiostreamRangeFollower *follower, BlockNumber block)
{
	BlockNumber start = follower->start;
	uint64		passed;

	passed = ((uint64) block + follower->nblocks - start) % follower->nblocks;
	return passed < follower->count ? follower->count - (BlockNumber) passed : 0;
}

static void
follow_serial(AiostreamRangeFollower *follower, BlockNumber block)
{
	bool		first = follower->current == InvalidBlockNumber;
	BlockNumber left;

	if (first && follower->wraps)
		follower->start = block;
	left = left_of_range(follower, block);

	/* Start here; or go on from here if the scan has overtaken us. */
	if (first || left < follower->left)
	{
		follower->next = block;
		follower->left = left;
	}
	aiostream_stream_follow(follower->stream, block);
}

void
aiostream_rangefollow_block(AiostreamRangeFollower *follower, BlockNumber block)
{
	/* The table may have grown since its length was read. */
	if (block == follower->current || block >= follower->nblocks)
		return;
	if (follower->scan != NULL)
		follow_parallel(follower, block);
	else
		follow_serial(follower, block);
	follower->current = block;
}

/* The scan key's function: tell the follower where the row is; it matches. */
static Datum
notice_row(PG_FUNCTION_ARGS)
{
	ItemPointer tid = (ItemPointer) PG_GETARG_POINTER(0);
	AiostreamRangeFollower *follower = (AiostreamRangeFollower *) PG_GETARG_POINTER(1);

	aiostream_rangefollow_block(follower, ItemPointerGetBlockNumber(tid));
	PG_RETURN_BOOL(true);
}

void
aiostream_rangefollow_scankey(AiostreamRangeFollower *follower, ScanKey key)
{
	MemSet(key, 0, sizeof(ScanKeyData));
	key->sk_attno = SelfItemPointerAttributeNumber;
	key->sk_strategy = InvalidStrategy;
	key->sk_func.fn_addr = notice_row;
	key->sk_func.fn_nargs = 2;
	key->sk_func.fn_strict = true;
	key->sk_func.fn_mcxt = CurrentMemoryContext;
	key->sk_argument = PointerGetDatum(follower);
}
