/*
 * uring_internal.h
 *		What the files about io_uring share.  liburing.h comes in here.
 */
#ifndef AIOSTREAM_URING_INTERNAL_H
#define AIOSTREAM_URING_INTERNAL_H

#include "engine/engine_internal.h"

#include <liburing.h>

/* liburing 2.3's headers are older than these (Linux 6.5) */
#ifndef IORING_SETUP_NO_MMAP
#define IORING_SETUP_NO_MMAP (1U << 14)
#define AIOSTREAM_RING_ADDR resv2
#else
#define AIOSTREAM_RING_ADDR user_addr
#endif

/*
 * With these flags completions are posted whenever the owner enters or leaves
 * the kernel, even by a timer tick, so that others can see them while it
 * computes or waits for a lock.  (DEFER_TASKRUN would post them only in the
 * owner's own io_uring_enter.)
 */
#define AIOSTREAM_RING_FLAGS \
	(IORING_SETUP_NO_MMAP | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER)

/* user_data: handle index, and as much of its generation as fits */
static inline uint64
aiostream_uring_generation(uint64 generation)
{
	return generation & ((UINT64CONST(1) << 48) - 1);
}

static inline uint64
aiostream_uring_user_data(uint32 index, uint64 generation)
{
	Assert(index <= PG_UINT16_MAX);
	return (generation << 16) | index;
}

static inline uint32
aiostream_uring_index(uint64 user_data)
{
	return (uint32) (user_data & PG_UINT16_MAX);
}

static inline uint64
aiostream_uring_generation_of(uint64 user_data)
{
	return user_data >> 16;
}

/* A process's ring memory: one page of SQEs, then one page of rings */
static inline char *
aiostream_ring_memory(int procno)
{
	Assert(aiostream_rings != NULL);
	return aiostream_rings + (Size) procno * AIOSTREAM_RING_MEMORY;
}

static inline char *
aiostream_ring_base(int procno)
{
	return aiostream_ring_memory(procno) + AIOSTREAM_RING_PAGE;
}

/*
 * Make a ring in memory (AIOSTREAM_RING_MEMORY bytes, page aligned).  Returns
 * its descriptor and fills params, or -errno.
 */
extern int	aiostream_uring_setup(char *memory, struct io_uring_params *params);

/* Fill liburing's struct for a ring made that way, for its submission side. */
extern void aiostream_uring_attach(struct io_uring *ring, int fd, char *memory,
								   const struct io_uring_params *params);

#endif							/* AIOSTREAM_URING_INTERNAL_H */
