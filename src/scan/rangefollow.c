/*
 * rangefollow.c
 *		Reading ahead of a sequential scan that core drives from start to end.
 *
 * For callers that see core's scan only through what comes out of it, as an
 * index build sees tuples: each time they notice a new block they say so, and
 * reads are kept in flight ahead of it.  What lies ahead is known: in a serial
 * scan the range, once its first block is; in a parallel scan the rest of the
 * chunk that core's allocator gave to this process.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "miscadmin.h"
#include "scan/scan.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Shorter ranges are over before a stream is of use */
#define AIOSTREAM_FOLLOW_MIN_BLOCKS 8

struct AiostreamRangeFollower
{
	AiostreamStream *stream;
	BufferAccessStrategy ring;	/* NULL: none */
	HeapScanDesc scan;			/* of a parallel scan, else NULL */

	BlockNumber nblocks;		/* the table's length when the stream was made */
	BlockNumber start;			/* serial: the range to be scanned */
	BlockNumber count;
	bool		wraps;			/* serial: may start anywhere and come round */

	BlockNumber current;		/* block followed last */
	BlockNumber next;			/* what the stream's callback gives next, */
	BlockNumber left;			/* and how many it gives from there on */
	uint64		last;			/* parallel: number of the chunk's last block
								 * in the order of allocation */
};

static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamRangeFollower *follower = (AiostreamRangeFollower *) callback_private;
	BlockNumber block = follower->next;

	if (follower->left == 0)
		return InvalidBlockNumber;
	follower->left--;
	follower->next = (block + 1 == follower->nblocks) ? 0 : block + 1;
	return block;
}

AiostreamRangeFollower *
aiostream_rangefollow_begin(Relation rel, TableScanDesc parallel_scan,
							bool allow_sync, BlockNumber start_block,
							BlockNumber count)
{
	AiostreamRangeFollower *follower;
	BlockNumber nblocks;

	if (parallel_scan != NULL)
	{
		Assert(parallel_scan->rs_parallel != NULL);
		count = nblocks = ((HeapScanDesc) parallel_scan)->rs_nblocks;
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

	/* As core: a ring for tables that would crowd out others */
	if (nblocks > NBuffers / 4)
		follower->ring = aiostream_stream_ring();
	follower->stream = aiostream_stream_begin(rel, MAIN_FORKNUM, nblocks,
											  follower->ring, next_block,
											  follower, 0, NULL);
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

/*
 * The same for the chunk that a parallel scan's process is working on.  The
 * last chunk may reach beyond the end.  Sets *new_chunk if it is the first, or
 * another one than before.
 */
static BlockNumber
left_of_chunk(AiostreamRangeFollower *follower, bool *new_chunk)
{
	ParallelBlockTableScanWorker worker = follower->scan->rs_parallelworkerdata;

	Assert(worker->phsw_nallocated < follower->nblocks);
	*new_chunk = follower->current == InvalidBlockNumber ||
		worker->phsw_nallocated > follower->last;
	if (*new_chunk)
		follower->last = Min(worker->phsw_nallocated + worker->phsw_chunk_remaining,
							 (uint64) follower->nblocks - 1);
	return (BlockNumber) (follower->last - worker->phsw_nallocated + 1);
}

void
aiostream_rangefollow_block(AiostreamRangeFollower *follower, BlockNumber block)
{
	bool		first = follower->current == InvalidBlockNumber;
	bool		new_chunk = false;
	BlockNumber left;

	/* The table may have grown since its length was read. */
	if (block == follower->current || block >= follower->nblocks)
		return;

	if (first && follower->wraps)
		follower->start = block;
	if (follower->scan != NULL)
		left = left_of_chunk(follower, &new_chunk);
	else
		left = left_of_range(follower, block);

	/* Start here; or go on from here if the scan has overtaken us. */
	if (new_chunk && !first)
		aiostream_stream_reset(follower->stream);
	if (first || new_chunk || left < follower->left)
	{
		follower->next = block;
		follower->left = left;
	}
	follower->current = block;
	aiostream_stream_follow(follower->stream, block);
}
