/*
 * target.c
 *		A fork of a relation being read.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/memutils.h"

bool
aiostream_target_supported(Relation rel)
{
	return aiostream_engine_ready() && !RelationUsesLocalBuffers(rel) &&
		RELKIND_HAS_STORAGE(rel->rd_rel->relkind);
}

AiostreamTarget *
aiostream_target_open(Relation rel, ForkNumber fork, BlockNumber nblocks,
					  BufferAccessStrategy strategy,
					  const AiostreamTargetOptions *options)
{
	MemoryContext cxt;
	MemoryContext old;
	AiostreamTarget *target;

	Assert(aiostream_target_supported(rel));
	Assert(options->combine >= 1 && options->combine <= AIOSTREAM_MAX_COMBINE);

	cxt = AllocSetContextCreate(CurrentMemoryContext, "aiostream target",
								ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);
	target = palloc0(sizeof(AiostreamTarget));
	target->cxt = cxt;
	target->rel = rel;
	target->rnode = rel->rd_node;
	target->fork = fork;
	target->permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	target->nblocks = nblocks;
	target->strategy = strategy;
	target->ring_size = strategy == NULL ? 0 : aiostream_ring_size(strategy);
	target->options = *options;
	if (target->options.method == AIOSTREAM_METHOD_AUTO)
		target->options.method = aiostream_engine_method();
	target->path = relpathperm(target->rnode, fork);
	target->nsegments = nblocks / RELSEG_SIZE + 1;
	target->segments = palloc0(target->nsegments * sizeof(AiostreamSegment));
	MemoryContextSwitchTo(old);
	return target;
}

void
aiostream_target_close(AiostreamTarget *target)
{
	aiostream_io_drain();
	MemoryContextDelete(target->cxt);	/* closes the files */
}

const AiostreamReadCounters *
aiostream_target_counters(AiostreamTarget *target)
{
	return &target->counters;
}

/*
 * Blocks that may be read ahead at most: so that a ring does not overwrite
 * what has not been used, and within this process's part of shared buffers.
 */
int
aiostream_target_max_distance(AiostreamTarget *target)
{
	int64		distance = (int64) target->options.combine * target->options.concurrency;

	distance = Min(distance, (int64) aiostream_engine_block_limit());
	if (target->strategy != NULL)
		distance = Min(distance, target->ring_size / 2);
	return (int) Max(1, distance);
}

void
aiostream_target_limit_ring(AiostreamTarget *target, int buffers)
{
	if (target->strategy != NULL)
		aiostream_ring_limit(target->strategy, buffers == 0 ? target->ring_size :
							 Min(buffers, target->ring_size));
}

/* A page found in shared buffers counts as core counts it. */
static void
count_hit(AiostreamTarget *target)
{
	pgstat_count_buffer_read(target->rel);
	pgstat_count_buffer_hit(target->rel);
	VacuumPageHit++;
	if (VacuumCostActive)
		VacuumCostBalance += VacuumCostPageHit;
}

/*
 * Core raises the usage count of a page that is found: up to the maximum, or
 * only from 0 to 1 for scans with a ring.  ReadRecentBuffer does not.
 */
static void
bump_usage(AiostreamTarget *target, Buffer buffer)
{
	BufferDesc *buf = GetBufferDescriptor(buffer - 1);
	uint32		state = pg_atomic_read_u32(&buf->state);

	for (;;)
	{
		uint32		usage = BUF_STATE_GET_USAGECOUNT(state);

		if (usage >= (target->strategy == NULL ? BM_MAX_USAGE_COUNT : 1))
			return;
		if (state & BM_LOCKED)
		{
			state = LockBufHdr(buf);
			UnlockBufHdr(buf, state);
			state = pg_atomic_read_u32(&buf->state);
			continue;
		}
		if (pg_atomic_compare_exchange_u32(&buf->state, &state,
										   state + BUF_USAGECOUNT_ONE))
			return;
	}
}

Buffer
aiostream_target_pin(AiostreamTarget *target, BlockNumber blkno,
					 const AiostreamBlock *block)
{
	if (!BufferIsValid(block->hint) ||
		!ReadRecentBuffer(target->rnode, target->fork, blkno, block->hint))
		return InvalidBuffer;

	if (block->hit)
	{
		count_hit(target);
		bump_usage(target, block->hint);
	}
	else
		pgBufferUsage.shared_blks_hit--;	/* we counted it as read */
	return block->hint;
}

bool
aiostream_target_touched(AiostreamTarget *target, BlockNumber blkno,
						 const AiostreamBlock *block)
{
	BufferDesc *buf;
	BufferTag	tag;

	if (!BufferIsValid(block->hint))
		return false;
	buf = GetBufferDescriptor(block->hint - 1);
	INIT_BUFFERTAG(tag, target->rnode, target->fork, blkno);

	/* without the header lock: whoever changes the tag may be half done */
	return !BUFFERTAGS_EQUAL(buf->tag, tag) ||
		BUF_STATE_GET_USAGECOUNT(pg_atomic_read_u32(&buf->state)) > 0;
}

void
aiostream_target_uncount_hit(AiostreamTarget *target)
{
	pgBufferUsage.shared_blks_hit--;
	if (pgstat_should_count_relation(target->rel))
	{
		target->rel->pgstat_info->t_counts.t_blocks_fetched--;
		target->rel->pgstat_info->t_counts.t_blocks_hit--;
	}
	VacuumPageHit--;
	if (VacuumCostActive)
		VacuumCostBalance -= VacuumCostPageHit;
}
