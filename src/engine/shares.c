/*
 * shares.c
 *		How many blocks may be in flight, over all processes and each.
 *
 * Blocks being read are buffers that nobody else can use.  The limit (a quarter
 * of shared buffers, set by the buffer layer) is never exceeded; each process
 * with reads in flight may have an equal part of it, at least one block, as
 * long as the total allows.
 */
#include "postgres.h"

#include "engine/engine_internal.h"

#include "storage/proc.h"

void
aiostream_engine_set_block_limit(uint32 blocks)
{
	Assert(blocks > 0);
	pg_atomic_write_u32(&aiostream_engine->block_limit, blocks);
}

uint32
aiostream_engine_block_limit(void)
{
	return pg_atomic_read_u32(&aiostream_engine->block_limit);
}

int
aiostream_engine_reserve(int want)
{
	AiostreamEngineShared *shared = aiostream_engine;
	uint32		limit = pg_atomic_read_u32(&shared->block_limit);
	uint32		active = pg_atomic_read_u32(&shared->active);
	uint32		mine = 0;
	uint32		share;
	uint32		total;

	Assert(want > 0);
	if (aiostream_my_process != NULL)
	{
		mine = pg_atomic_read_u32(&aiostream_my_process->blocks);
		if (pg_atomic_read_u32(&aiostream_my_process->inflight) == 0)
			active++;			/* we are about to be */
	}
	else
		active++;
	share = Max(1, limit / Max(1, active));
	if (mine >= share)
		return 0;
	want = Min(want, (int) (share - mine));

	total = pg_atomic_read_u32(&shared->blocks);
	do
	{
		if (total >= limit)
			return 0;
		want = Min(want, (int) (limit - total));
	} while (!pg_atomic_compare_exchange_u32(&shared->blocks, &total,
											 total + want));
	return want;
}

void
aiostream_engine_unreserve(int n)
{
	uint32		old PG_USED_FOR_ASSERTS_ONLY;

	if (n == 0)
		return;
	old = pg_atomic_fetch_sub_u32(&aiostream_engine->blocks, n);
	Assert(old >= (uint32) n);
}

/*
 * A read goes in flight: its reserved blocks become its process's.  A write
 * keeps nobody from a buffer's content and has reserved none.
 */
void
aiostream_share_begin(AiostreamIo *io)
{
	if (io->op == AIOSTREAM_OP_READ)
		pg_atomic_fetch_add_u32(&aiostream_my_process->blocks, io->npieces);
	else
		pg_atomic_fetch_add_u32(&aiostream_my_process->writes, 1);
	if (pg_atomic_fetch_add_u32(&aiostream_my_process->inflight, 1) == 0)
		pg_atomic_fetch_add_u32(&aiostream_engine->active, 1);
}

/* It is over; in any process. */
void
aiostream_share_end(AiostreamIo *io)
{
	AiostreamProcess *owner = &aiostream_processes[io->owner].process;
	uint32		old PG_USED_FOR_ASSERTS_ONLY;

	if (io->op == AIOSTREAM_OP_READ)
	{
		old = pg_atomic_fetch_sub_u32(&owner->blocks, io->npieces);
		Assert(old >= (uint32) io->npieces);
		aiostream_engine_unreserve(io->npieces);
	}
	else
	{
		old = pg_atomic_fetch_sub_u32(&owner->writes, 1);
		Assert(old > 0);
	}
	if (pg_atomic_fetch_sub_u32(&owner->inflight, 1) == 1)
		pg_atomic_fetch_sub_u32(&aiostream_engine->active, 1);
}
