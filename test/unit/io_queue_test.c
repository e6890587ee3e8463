/*
 * io_queue_test.c
 *		Queues of the I/O workers: what is put is taken, once and in order, also
 *		where 32 bits of a position come to their end.
 */
#include <stdio.h>

#include "engine/io_queue.h"

#define LARGEST 512

static uint32_t entries[2 * LARGEST];
static uint64_t failures = 0;

/* A queue of "size" with "pending" entries that passes the position "at" */
static void
through_queue(uint32_t size, uint32_t pending, uint64_t at)
{
	AiostreamQueue queue = {.head = at - 2 * size,.tail = at - 2 * size,.first = size,.size = size};
	uint32_t	put = 0;
	uint32_t	taken = 0;

	while (taken < 4 * size)
	{
		while (aiostream_queue_length(&queue) < pending)
			aiostream_queue_put(&queue, entries, put++);
		failures += aiostream_queue_empty(&queue) || aiostream_queue_take(&queue, entries) != taken++;
	}
	failures += aiostream_queue_length(&queue) != pending - 1;
	for (uint32_t i = 0; i < size; i++)
		failures += entries[i] != UINT32_MAX;	/* its neighbour's */
}

int
main(void)
{
	static const uint64_t ats[] = {1 << 20, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(5) << 32};
	int			tests = 0;

	for (uint32_t i = 0; i < 2 * LARGEST; i++)
		entries[i] = UINT32_MAX;
	for (unsigned i = 0; i < sizeof(ats) / sizeof(ats[0]); i++)
	{
		uint64_t	before = failures;

		/* four for each process that there may be: 4 * MaxBackends */
		for (uint32_t size = 4; size <= LARGEST; size += 4)
		{
			for (uint32_t pending = 1; pending <= size; pending = pending * 2 + 3)
				through_queue(size, pending, ats[i]);
			through_queue(size, size, ats[i]);
			for (uint32_t k = 0; k < 2 * LARGEST; k++)
				entries[k] = UINT32_MAX;
		}
		printf("%sok %d - in order around position %llu\n", failures > before ? "not " : "", ++tests,
			   (unsigned long long) ats[i]);
	}
	printf("1..%d\n", tests);
	return failures > 0;
}
