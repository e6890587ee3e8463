/*
 * sweep.c
 *		Reading all of a relation beside a nested loop that will visit most of it.
 *
 * The inner side of a nested loop fetches a row or two each time, and what it will want next
 * only the outer side knows.  But where the planner expects its many rounds to come
 * through most of a table, or an index, that fits into shared buffers, one need
 * not know: each miss pushes a sequential read of the whole along.  The scan
 * itself goes on as ever, and finds more and more of its pages present.
 *
 * It is the misses that drive it, so that a loop which finds its pages cached, or
 * ends early, does not read a table that nobody wants.
 */
#include "postgres.h"

#include "scan/indexscan_internal.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Misses before it begins; blocks that may be in flight, so per miss at most */
#define MISSES_WANTED	16
#define BLOCKS_AHEAD	256

struct AiostreamSweep
{
	MemoryContext cxt;
	Relation	rel;
	int			misses;
	bool		done;
	AiostreamStream *stream;	/* NULL until there is need */
	BlockNumber nblocks;
	BlockNumber next;
};

AiostreamSweep *
aiostream_sweep_create(MemoryContext cxt, Relation rel)
{
	AiostreamSweep *sweep = MemoryContextAllocZero(cxt, sizeof(AiostreamSweep));

	sweep->cxt = cxt;
	sweep->rel = rel;
	sweep->done = !aiostream_stream_usable(rel);
	return sweep;
}

/* The stream's callback */
static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamSweep *sweep = (AiostreamSweep *) callback_private;

	return sweep->next < sweep->nblocks ? sweep->next++ : InvalidBlockNumber;
}

static void
start_stream(AiostreamSweep *sweep)
{
	AiostreamStreamOptions options = {-1, -1, -1, -1, true, false, false};
	MemoryContext old = MemoryContextSwitchTo(sweep->cxt);

	/* the planner's figure may be old */
	sweep->nblocks = RelationGetNumberOfBlocks(sweep->rel);
	if (sweep->nblocks <= (BlockNumber) NBuffers / 4 * 3)
	{
		sweep->stream = aiostream_stream_begin(sweep->rel, MAIN_FORKNUM, sweep->nblocks,
											   NULL, next_block, sweep, 0, &options);
		aiostream_stream_bound(sweep->stream, BLOCKS_AHEAD);
	}
	else
		sweep->done = true;
	MemoryContextSwitchTo(old);
}

void
aiostream_sweep_missed(AiostreamSweep *sweep)
{
	if (sweep->done || ++sweep->misses < MISSES_WANTED)
		return;
	if (sweep->stream == NULL)
		start_stream(sweep);
	if (!sweep->done)
		sweep->done = !aiostream_stream_push(sweep->stream);
}

void
aiostream_sweep_end(AiostreamSweep *sweep)
{
	if (sweep->stream != NULL)
		aiostream_stream_end(sweep->stream);
	sweep->stream = NULL;
	sweep->done = true;
}

void
aiostream_sweep_stats(AiostreamSweep *sweep, AiostreamStreamStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (sweep->stream != NULL)
		aiostream_stream_get_stats(sweep->stream, stats);
}
