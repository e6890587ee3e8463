/*
 * read.c
 *		Reading a run of blocks.
 *
 * Map of the folder
 *	align.c			alignment of shared buffers, start-up
 *	target.c		a fork being read; pins and accounting
 *	segment.c		its files
 *	pagecache.c		what the kernel has cached of them
 *	read.c			runs of blocks: what to read, how (this file)
 *	claim.c			tagging a buffer for a read
 *	victim.c		finding one
 *	publish.c		completion
 *	bounce.c		aligned memory where buffers are not
 *	bufring.c		a larger ring
 *	evict.c			the opposite
 *
 * Invariants
 *	1. A buffer that is claimed is in exactly one submitted read, or control
 *	   is still inside aiostream_target_read.
 *	2. From claim to publication the I/O owns one raw pin and
 *	   BM_IO_IN_PROGRESS; nobody owns anything afterwards.
 *	3. The relation is locked, and the blocks lie below its length read under
 *	   that lock, until its reads have landed.
 *	4. Blocks reserved (engine/shares.c) are submitted or given back.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"
#include "faults.h"
#include "stats.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"

/* How one request is made */
typedef struct ReadPlan
{
	AiostreamFile *file;
	bool		direct;
	AiostreamMethodId method;
	int			max_blocks;
	int			bounce;			/* slot or -1 */
} ReadPlan;

static void
count_read(AiostreamTarget *target)
{
	pgBufferUsage.shared_blks_read++;
	pgstat_count_buffer_read(target->rel);
	VacuumPageMiss++;
	if (VacuumCostActive)
		VacuumCostBalance += VacuumCostPageMiss;
}

/*
 * Direct or buffered, and by which method, for a request that starts at
 * blkno.  Fully cached in the kernel: copied at once, by this process; to
 * hand a copy to somebody else only costs.  False: no file to read from.
 */
static bool
plan_read(AiostreamTarget *target, BlockNumber blkno, ReadPlan *plan)
{
	AiostreamDirect direct = target->options.direct;
	AiostreamCached cached = AIOSTREAM_CACHED_UNKNOWN;

	plan->method = target->options.method;
	plan->max_blocks = Min(target->options.combine,
						   (int) (RELSEG_SIZE - blkno % RELSEG_SIZE));
	plan->bounce = -1;
	plan->direct = true;

	if (direct != AIOSTREAM_DIRECT_ON)
	{
		cached = aiostream_pagecache_ask(target, blkno);
		if (cached == AIOSTREAM_CACHED_ALL)
			plan->method = AIOSTREAM_METHOD_SYNC;
	}
	if (direct == AIOSTREAM_DIRECT_ON ||
		(direct == AIOSTREAM_DIRECT_AUTO && cached == AIOSTREAM_CACHED_LITTLE))
	{
		plan->file = aiostream_segment_file(target, blkno, true);
		if (plan->file != NULL)
		{
			Size		need = aiostream_segment_direct_align(target, blkno);

			if (aiostream_buffers_alignment() >= need)
				return true;
			plan->bounce = aiostream_bounce_acquire();
			if (plan->bounce >= 0)
			{
				plan->max_blocks = Min(plan->max_blocks, aiostream_bounce_blocks());
				return true;
			}
		}
	}
	plan->direct = false;
	plan->file = aiostream_segment_file(target, blkno, false);
	return plan->file != NULL;
}

/*
 * Claim blocks from start on, at most n, into io; stops at the first that is
 * present.  *claimed is valid even if this raises.  Returns why it stopped.
 */
static AiostreamClaim
claim_run(AiostreamTarget *target, BlockNumber start, int n, AiostreamIo *io,
		  int bounce, Buffer *buffers, volatile int *claimed)
{
	AiostreamClaim result = AIOSTREAM_CLAIM_OURS;

	while (*claimed < n)
	{
		int			i = *claimed;
		Buffer		buffer = InvalidBuffer;

		/* not looked for first: near a missing block most are missing, too */
		result = aiostream_buffer_claim(target, start + i, &buffer);
		if (result != AIOSTREAM_CLAIM_OURS)
			return result;

		buffers[i] = buffer;
		aiostream_io_set_piece(io, i, buffer);
		aiostream_io_add(io, bounce >= 0 ? aiostream_bounce_block(bounce, i) :
						 (char *) BufferGetBlock(buffer), BLCKSZ);
		*claimed = i + 1;
		count_read(target);
	}
	return result;
}

/*
 * Submit what has been claimed, or give everything back if that is nothing.
 */
static AiostreamIoRef
submit_run(AiostreamTarget *target, BlockNumber start, AiostreamIo *io,
		   const ReadPlan *plan, int claimed, int reserved)
{
	AiostreamIoRef ref = {0};

	aiostream_engine_unreserve(reserved - claimed);
	if (claimed == 0)
	{
		aiostream_io_cancel(io);
		if (plan->bounce >= 0)
			aiostream_bounce_release(plan->bounce);
		return ref;
	}

	aiostream_io_set_user(io, start, plan->bounce);
	target->counters.ios++;
	target->counters.blocks += claimed;
	if (plan->direct)
		target->counters.direct_ios++;
	if (plan->bounce >= 0)
		aiostream_count(AIOSTREAM_COUNT_BOUNCED, 1);
	ref = aiostream_io_submit(io, plan->file,
							  (off_t) (start % RELSEG_SIZE) * BLCKSZ, plan->method);
	if (ref.method == AIOSTREAM_METHOD_SYNC)
		target->counters.sync_ios++;
	return ref;
}

/*
 * Read at most n blocks from start on in one request.  Returns the number of
 * blocks it covers; 0 with *stalled if nothing can be read ahead now, 0
 * without if the first block is present after all.
 */
static int
read_run(AiostreamTarget *target, BlockNumber start, int n, AiostreamBlock *out,
		 bool *stalled)
{
	Buffer		buffers[AIOSTREAM_MAX_COMBINE];
	volatile int claimed = 0;
	AiostreamClaim why = AIOSTREAM_CLAIM_NO_VICTIM;
	AiostreamIoRef ref;
	AiostreamIo *io;
	ReadPlan	plan;
	int			reserved;

	/* opening files may raise, so it comes before anything is taken */
	*stalled = true;
	if (!plan_read(target, start, &plan))
		return 0;
	io = aiostream_io_acquire();
	if (io == NULL)
	{
		if (plan.bounce >= 0)
			aiostream_bounce_release(plan.bounce);
		return 0;
	}
	reserved = aiostream_engine_reserve(Min(n, plan.max_blocks));

	/* a message to the log, or a latch wait, must not throw us out in between */
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		if (reserved > 0)
			why = claim_run(target, start, reserved, io, plan.bounce, buffers,
							&claimed);
	}
	PG_CATCH();
	{
		/* what is claimed must go out; the error reset the holdoff */
		HOLD_INTERRUPTS();
		(void) submit_run(target, start, io, &plan, claimed, reserved);
		RESUME_INTERRUPTS();
		PG_RE_THROW();
	}
	PG_END_TRY();
	ref = submit_run(target, start, io, &plan, claimed, reserved);
	RESUME_INTERRUPTS();

	for (int i = 0; i < claimed; i++)
	{
		out[i].hint = buffers[i];
		out[i].io = ref;
		out[i].hit = false;
	}
	if (claimed > 0)
		aiostream_fault_pause(AIOSTREAM_FAULT_SUBMITTED);
	*stalled = claimed == 0 && why == AIOSTREAM_CLAIM_NO_VICTIM;
	return claimed;
}

int
aiostream_target_read(AiostreamTarget *target, BlockNumber start, int n,
					  AiostreamBlock *out)
{
	int			i = 0;

	Assert(n >= 1 && n <= AIOSTREAM_MAX_COMBINE);
	Assert(start < target->nblocks && (BlockNumber) n <= target->nblocks - start);
	Assert(CritSectionCount == 0);

	while (i < n)
	{
		Buffer		found = aiostream_buffer_lookup(target, start + i);
		bool		stalled;

		if (BufferIsValid(found))
		{
			out[i].hint = found;
			memset(&out[i].io, 0, sizeof(AiostreamIoRef));
			out[i].hit = true;
			target->counters.hits++;
			i++;
			continue;
		}
		i += read_run(target, start + i, n - i, out + i, &stalled);
		if (stalled)
		{
			target->counters.stalls++;
			aiostream_count(AIOSTREAM_COUNT_STALLS, 1);
			break;
		}
	}
	return i;
}
