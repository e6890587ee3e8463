/*
 * uring_setup.c
 *		Making a ring in memory of our own.
 *
 * Linux 6.5 and later can put a ring into memory that the caller provides.
 * liburing 2.3 has no helper for it, so the set-up is done by hand and its
 * struct io_uring filled in for the rest of the library.
 *
 * 64 entries keep the SQEs (64 * 64 bytes) and the rings (128 CQEs of 16
 * bytes, the index array, the counters) within one page each, which the first
 * kernels with the feature need: they want each region physically contiguous.
 */
#include "postgres.h"

#include "engine/uring_internal.h"

int
aiostream_uring_setup(char *memory, struct io_uring_params *params)
{
	int			fd;

	Assert(((uintptr_t) memory % AIOSTREAM_RING_PAGE) == 0);

	memset(memory, 0, AIOSTREAM_RING_MEMORY);
	memset(params, 0, sizeof(*params));
	params->flags = AIOSTREAM_RING_FLAGS;
	params->sq_off.AIOSTREAM_RING_ADDR = (uintptr_t) memory;
	params->cq_off.AIOSTREAM_RING_ADDR = (uintptr_t) (memory + AIOSTREAM_RING_PAGE);

	fd = io_uring_setup(AIOSTREAM_RING_ENTRIES, params);
	if (fd < 0)
		return fd;
	Assert(params->sq_entries == AIOSTREAM_RING_ENTRIES);
	Assert(params->cq_entries >= AIOSTREAM_MAX_CONCURRENCY);
	return fd;
}

void
aiostream_uring_attach(struct io_uring *ring, int fd, char *memory,
					   const struct io_uring_params *params)
{
	char	   *base = memory + AIOSTREAM_RING_PAGE;

	memset(ring, 0, sizeof(*ring));

	ring->sq.khead = (unsigned *) (base + params->sq_off.head);
	ring->sq.ktail = (unsigned *) (base + params->sq_off.tail);
	ring->sq.kring_mask = (unsigned *) (base + params->sq_off.ring_mask);
	ring->sq.kring_entries = (unsigned *) (base + params->sq_off.ring_entries);
	ring->sq.kflags = (unsigned *) (base + params->sq_off.flags);
	ring->sq.kdropped = (unsigned *) (base + params->sq_off.dropped);
	ring->sq.array = (unsigned *) (base + params->sq_off.array);
	ring->sq.sqes = (struct io_uring_sqe *) memory;
	ring->sq.ring_mask = *ring->sq.kring_mask;
	ring->sq.ring_entries = *ring->sq.kring_entries;

	ring->cq.khead = (unsigned *) (base + params->cq_off.head);
	ring->cq.ktail = (unsigned *) (base + params->cq_off.tail);
	ring->cq.kring_mask = (unsigned *) (base + params->cq_off.ring_mask);
	ring->cq.kring_entries = (unsigned *) (base + params->cq_off.ring_entries);
	ring->cq.kflags = (unsigned *) (base + params->cq_off.flags);
	ring->cq.koverflow = (unsigned *) (base + params->cq_off.overflow);
	ring->cq.cqes = (struct io_uring_cqe *) (base + params->cq_off.cqes);
	ring->cq.ring_mask = *ring->cq.kring_mask;
	ring->cq.ring_entries = *ring->cq.kring_entries;

	ring->flags = params->flags;
	ring->features = params->features;
	ring->ring_fd = ring->enter_ring_fd = fd;

	/* submission index i uses SQE i, always */
	for (unsigned i = 0; i < ring->sq.ring_entries; i++)
		ring->sq.array[i] = i;
}
