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
 *	writeout.c		dirty buffers, written by workers
 *	bufring.c		a larger ring
 *	evict.c			the opposite
 *
 * Invariants
 *	1. A buffer that is claimed is in exactly one submitted read, or control
 *	   is still inside aiostream_target_read, or of a batch (engine.h).
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

/*
 * Requests not made once all buffers were found pinned: core, which needs one for
 * each page that is wanted now, is to have what there is.
 */
#define PAUSE_WHEN_SCARCE 256

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

/* Blocks of a run, as far as they are part of its request */
typedef struct RunBlocks
{
	Buffer		buffers[AIOSTREAM_MAX_COMBINE]; /* InvalidBuffer: read through */
	int			n;
	int			nclaimed;
} RunBlocks;

/* One more block into the request: buffer is where it goes, or invalid. */
static void
add_block(AiostreamIo *io, RunBlocks *run, int bounce, Buffer buffer)
{
	int			i = run->n;

	run->buffers[i] = buffer;
	aiostream_io_set_piece(io, i, buffer);
	aiostream_io_add(io, bounce >= 0 ? aiostream_bounce_block(bounce, i) :
					 BufferIsValid(buffer) ? (char *) BufferGetBlock(buffer) :
					 aiostream_discard_page(), BLCKSZ);
	run->n = i + 1;
	if (BufferIsValid(buffer))
		run->nclaimed++;
}

/*
 * Claim blocks from start on, at most n, into io; stops at the first wanted one
 * that is present.  *run is valid even if this raises.  Returns why it stopped.
 */
static AiostreamClaim
claim_run(AiostreamTarget *target, BlockNumber start, int n, const bool *wanted,
		  AiostreamIo *io, int bounce, RunBlocks *run)
{
	for (int i = 0; i < n; i++)
	{
		Buffer		buffer = InvalidBuffer;
		AiostreamClaim result;

		if (wanted != NULL && !wanted[i])
			continue;
		/* not looked for first: near a missing block most are missing, too */
		result = aiostream_buffer_claim(target, start + i, &buffer);
		if (result != AIOSTREAM_CLAIM_OURS)
			return result;

		/* what lies between is read through, now that something follows it */
		while (run->n < i)
		{
			add_block(io, run, bounce, InvalidBuffer);
			target->counters.gap_blocks++;
		}
		add_block(io, run, bounce, buffer);
		count_read(target);
	}
	return AIOSTREAM_CLAIM_OURS;
}

/*
 * Submit what has been claimed, or give everything back if that is nothing.
 */
static AiostreamIoRef
submit_run(AiostreamTarget *target, BlockNumber start, AiostreamIo *io,
		   const ReadPlan *plan, const RunBlocks *run, int reserved)
{
	AiostreamIoRef ref = {0};

	Assert(run->n <= reserved);
	aiostream_engine_unreserve(reserved - run->n);
	if (run->n == 0)
	{
		aiostream_io_cancel(io);
		if (plan->bounce >= 0)
			aiostream_bounce_release(plan->bounce);
		return ref;
	}

	aiostream_io_set_user(io, start, plan->bounce);
	target->counters.ios++;
	target->counters.blocks += run->nclaimed;
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
read_run(AiostreamTarget *target, BlockNumber start, int n, const bool *wanted,
		 AiostreamBlock *out, bool *stalled)
{
	RunBlocks	run;
	AiostreamClaim why = AIOSTREAM_CLAIM_NO_VICTIM;
	AiostreamIoRef ref;
	AiostreamIo *io;
	ReadPlan	plan;
	int			reserved;

	*stalled = true;
	if (target->pause > 0)
	{
		target->pause--;
		return 0;
	}

	/* opening files may raise, so it comes before anything is taken */
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
	run.n = 0;
	run.nclaimed = 0;

	/* a message to the log, or a latch wait, must not throw us out in between */
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		if (reserved > 0)
			why = claim_run(target, start, reserved, wanted, io, plan.bounce, &run);
	}
	PG_CATCH();
	{
		/* what is claimed must go out; the error reset the holdoff */
		HOLD_INTERRUPTS();
		(void) submit_run(target, start, io, &plan, &run, reserved);
		RESUME_INTERRUPTS();
		PG_RE_THROW();
	}
	PG_END_TRY();
	ref = submit_run(target, start, io, &plan, &run, reserved);
	if (why == AIOSTREAM_CLAIM_ALL_PINNED)
	{
		/* our reads' pins are the ones that we can do something about */
		target->pause = PAUSE_WHEN_SCARCE;
		aiostream_io_drain();
	}
	RESUME_INTERRUPTS();

	for (int i = 0; i < run.n; i++)
	{
		out[i].hint = run.buffers[i];
		out[i].io = ref;
		out[i].hit = false;
	}
	if (run.n > 0 && !aiostream_io_batching())
		aiostream_fault_pause(AIOSTREAM_FAULT_SUBMITTED);
	*stalled = run.n == 0 && why != AIOSTREAM_CLAIM_PRESENT;
	return run.n;
}

bool
aiostream_target_find(AiostreamTarget *target, BlockNumber blkno, AiostreamBlock *out)
{
	Buffer		found = aiostream_buffer_lookup(target, blkno);

	if (!BufferIsValid(found))
		return false;
	out->hint = found;
	memset(&out->io, 0, sizeof(AiostreamIoRef));
	out->hit = true;
	target->counters.hits++;
	return true;
}

int
aiostream_target_read_sparse(AiostreamTarget *target, BlockNumber start, int n,
							 const bool *wanted, AiostreamBlock *out)
{
	int			i = 0;

	Assert(n >= 1 && n <= AIOSTREAM_MAX_COMBINE);
	Assert(start < target->nblocks && (BlockNumber) n <= target->nblocks - start);
	Assert(CritSectionCount == 0);

	while (i < n)
	{
		bool		stalled;

		if (wanted != NULL && !wanted[i])
		{
			i++;
			continue;
		}
		if (aiostream_target_find(target, start + i, &out[i]))
		{
			i++;
			continue;
		}
		i += read_run(target, start + i, n - i, wanted == NULL ? NULL : wanted + i,
					  out + i, &stalled);
		if (stalled)
		{
			target->counters.stalls++;
			aiostream_count(AIOSTREAM_COUNT_STALLS, 1);
			break;
		}
	}
	return i;
}

int
aiostream_target_read(AiostreamTarget *target, BlockNumber start, int n,
					  AiostreamBlock *out)
{
	return aiostream_target_read_sparse(target, start, n, NULL, out);
}
