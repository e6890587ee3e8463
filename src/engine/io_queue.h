/*
 * io_queue.h
 *		A queue of handle indexes in a ring of fixed size: pure functions.
 *
 * The caller has the lock, and knows that there is room, or something to take.  The
 * positions count on for ever; with 32 bits they would begin anew some day, where a
 * size that is no power of two makes two of them meet in one entry.
 *
 * No PostgreSQL headers, so that the unit tests can compile it alone.
 */
#ifndef AIOSTREAM_IO_QUEUE_H
#define AIOSTREAM_IO_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct AiostreamQueue
{
	uint64_t	head;			/* where to put */
	uint64_t	tail;			/* where to take */
	uint32_t	first;			/* of its "size" entries in the array */
	uint32_t	size;
} AiostreamQueue;

static inline uint64_t
aiostream_queue_length(const AiostreamQueue *queue)
{
	return queue->head - queue->tail;
}

static inline bool
aiostream_queue_empty(const AiostreamQueue *queue)
{
	return queue->head == queue->tail;
}

static inline void
aiostream_queue_put(AiostreamQueue *queue, uint32_t * entries, uint32_t index)
{
	entries[queue->first + queue->head++ % queue->size] = index;
}

static inline uint32_t
aiostream_queue_take(AiostreamQueue *queue, const uint32_t * entries)
{
	return entries[queue->first + queue->tail++ % queue->size];
}

#endif							/* AIOSTREAM_IO_QUEUE_H */
