/*
 * bounce.c
 *		Aligned memory for direct reads where shared buffers are not aligned.
 *
 * A small pool in shared memory, so that whoever sees the completion can copy
 * the pages to where they belong.  Exists only if aiostream.align_buffers is
 * off; a read that finds no slot is made buffered.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"
#include "guc.h"

#include "storage/shmem.h"

#define NSLOTS 32				/* bits of the map */
#define SLOT_BLOCKS 32
#define BOUNCE_ALIGNMENT 4096

typedef struct Bounce
{
	pg_atomic_uint32 used;		/* a bit a slot */
} Bounce;

static Bounce *bounce = NULL;
static char *slots = NULL;

Size
aiostream_bounce_shmem_size(void)
{
	if (aiostream_align_buffers)
		return 0;
	return (Size) NSLOTS * SLOT_BLOCKS * BLCKSZ + BOUNCE_ALIGNMENT +
		PG_CACHE_LINE_SIZE * 2;
}

void
aiostream_bounce_shmem_init(void)
{
	bool		found;

	bounce = ShmemInitStruct("aiostream bounce map", sizeof(Bounce), &found);
	if (!found)
		pg_atomic_init_u32(&bounce->used, 0);
	slots = ShmemInitStruct("aiostream bounce buffers",
							(Size) NSLOTS * SLOT_BLOCKS * BLCKSZ + BOUNCE_ALIGNMENT,
							&found);
	slots = (char *) TYPEALIGN(BOUNCE_ALIGNMENT, slots);
}

int
aiostream_bounce_blocks(void)
{
	return bounce == NULL ? 0 : SLOT_BLOCKS;
}

int
aiostream_bounce_acquire(void)
{
	uint32		used;

	if (bounce == NULL)
		return -1;
	used = pg_atomic_read_u32(&bounce->used);
	for (;;)
	{
		int			slot;

		if (used == PG_UINT32_MAX)
			return -1;
		slot = __builtin_ctz(~used);
		if (pg_atomic_compare_exchange_u32(&bounce->used, &used,
										   used | ((uint32) 1 << slot)))
			return slot;
	}
}

char *
aiostream_bounce_block(int slot, int i)
{
	Assert(slot >= 0 && slot < NSLOTS);
	Assert(i >= 0 && i < SLOT_BLOCKS);
	return slots + ((Size) slot * SLOT_BLOCKS + i) * BLCKSZ;
}

void
aiostream_bounce_release(int slot)
{
	uint32		old PG_USED_FOR_ASSERTS_ONLY;

	Assert(slot >= 0 && slot < NSLOTS);
	old = pg_atomic_fetch_and_u32(&bounce->used, ~((uint32) 1 << slot));
	Assert(old & ((uint32) 1 << slot));
}
