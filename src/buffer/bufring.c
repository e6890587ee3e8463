/*
 * bufring.c
 *		Larger rings, for bulk reads and for vacuum.
 *
 * Core's ring for large scans has 32 buffers: look-ahead would overwrite what
 * it has read before it is used.  This one is a BufferAccessStrategy of the
 * same layout (private to freelist.c in PostgreSQL 15, hence declared again
 * here) with room for 16 MB, so that core functions and core's victim search
 * can be given it.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"

#define RING_BUFFERS (16 * 1024 * 1024 / BLCKSZ)
/* core's own, see GetAccessStrategy() */
#define CORE_RING_BUFFERS (256 * 1024 / BLCKSZ)

typedef struct RingLayout
{
	BufferAccessStrategyType btype;
	int			ring_size;
	int			current;
	bool		current_was_in_ring;
	Buffer		buffers[FLEXIBLE_ARRAY_MEMBER];
} RingLayout;

static BufferAccessStrategy
make_ring(BufferAccessStrategyType btype, int buffers)
{
	int			size = Min(buffers, NBuffers / 8);
	RingLayout *ring;

	if (size <= CORE_RING_BUFFERS)
		return NULL;
	ring = palloc0(offsetof(RingLayout, buffers) + size * sizeof(Buffer));
	ring->btype = btype;
	ring->ring_size = size;
	return (BufferAccessStrategy) ring;
}

BufferAccessStrategy
aiostream_ring_create(void)
{
	return make_ring(BAS_BULKREAD, RING_BUFFERS);
}

BufferAccessStrategy
aiostream_ring_create_vacuum(int buffers)
{
	return make_ring(BAS_VACUUM, buffers);
}

/* Buffers in use of a ring, core's or ours */
int
aiostream_ring_size(BufferAccessStrategy strategy)
{
	return Max(1, ((RingLayout *) strategy)->ring_size);
}

/*
 * Use only the first "size" buffers of a ring, which has room for at least as
 * many: fewer stay in the CPU's cache, which pays where pages are copied and not
 * read from the disk.
 */
void
aiostream_ring_limit(BufferAccessStrategy strategy, int size)
{
	Assert(size > 0);
	((RingLayout *) strategy)->ring_size = size;
}
