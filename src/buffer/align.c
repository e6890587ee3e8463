/*
 * align.c
 *		Shared buffers aligned for direct reads, and what is made at start-up.
 *
 * PostgreSQL 15 aligns its buffers to a cache line; direct reads want 512 bytes
 * or 4 kB.  So one buffer more than configured is asked for, and once core has
 * laid out its memory, that one is given back and the start of the pool moved
 * up to the next 4 kB inside the spare room.  Nobody has used a buffer yet:
 * we are in the postmaster (or a stand-alone backend), alone.
 *
 * A crash restart lays out memory again without asking for sizes again, so the
 * postmaster takes the spare buffer back when it lets go of the old memory.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"
#include "compat.h"
#include "guc.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define WANTED_ALIGNMENT 4096

/* Where blocks go that are read through and not wanted; nobody looks at it. */
static char *discard_page = NULL;

/* Have we asked core for one buffer more than configured? */
static bool spare_requested = false;

void
aiostream_buffer_init(void)
{
	aiostream_engine_set_completion(aiostream_buffer_publish);
	aiostream_engine_set_writer(aiostream_buffer_write);
}

void
aiostream_buffer_shmem_request(void)
{
	if (aiostream_align_buffers && !AIOSTREAM_CORE_ALIGNS_BUFFERS &&
		NBuffers < INT_MAX / 2)
	{
		NBuffers++;
		spare_requested = true;
	}
}

Size
aiostream_buffer_shmem_size(void)
{
	return aiostream_bounce_shmem_size() + BLCKSZ + WANTED_ALIGNMENT +
		PG_CACHE_LINE_SIZE;
}

char *
aiostream_discard_page(void)
{
	return discard_page;
}

Size
aiostream_buffers_alignment(void)
{
	Size		alignment = 1;

	while (alignment < WANTED_ALIGNMENT &&
		   ((uintptr_t) BufferBlocks & (2 * alignment - 1)) == 0)
		alignment *= 2;
	return alignment;
}

bool
aiostream_buffers_aligned(void)
{
	return aiostream_buffers_alignment() == WANTED_ALIGNMENT;
}

static void
take_spare_back(int code, Datum arg)
{
	NBuffers++;
}

static void
use_spare(void)
{
	NBuffers--;
	BufferBlocks = (char *) TYPEALIGN(WANTED_ALIGNMENT, BufferBlocks);
	Assert(aiostream_buffers_aligned());

	/* The last descriptor is no buffer any more: the free list ends before. */
	Assert(GetBufferDescriptor(NBuffers - 1)->freeNext == NBuffers);
	GetBufferDescriptor(NBuffers - 1)->freeNext = FREENEXT_END_OF_LIST;

	on_shmem_exit(take_spare_back, (Datum) 0);
}

/*
 * Blocks in flight are buffers that nobody can use or evict: at most a quarter of
 * them, and less where there are so few that a handful of processes, each with
 * a few pins, could use up the rest.
 */
void
aiostream_buffer_shmem_init(bool found)
{
	bool		found_page;

	if (!found && spare_requested)
		use_spare();
	discard_page = ShmemInitStruct("aiostream discard page",
								   BLCKSZ + WANTED_ALIGNMENT, &found_page);
	discard_page = (char *) TYPEALIGN(WANTED_ALIGNMENT, discard_page);
	if (aiostream_bounce_shmem_size() > 0)
		aiostream_bounce_shmem_init();
	aiostream_engine_set_memory(BufferBlocks, (Size) NBuffers * BLCKSZ);
	if (!found)
		aiostream_engine_set_block_limit(Max(1, NBuffers / (NBuffers < 256 ? 8 : 4)));
}
