/*
 * indexscan_queue.c
 *		The queue of index entries read ahead of the fetches.
 *
 * Positions head .. tail-1; an entry is in the slot position & (size - 1).  For index-only
 * scans the queue has copies of the index tuples; that of the entry taken out last
 * stays valid until the next is.
 */
#include "postgres.h"

#include "scan/indexscan_internal.h"
#include "utils/memutils.h"

#define FIRST_QUEUE_SIZE	64

void
aiostream_entryqueue_init(AiostreamEntryQueue *queue, MemoryContext cxt, bool with_data)
{
	memset(queue, 0, sizeof(*queue));
	queue->cxt = cxt;
	queue->with_data = with_data;
}

static void
grow(AiostreamEntryQueue *queue)
{
	uint32		old = queue->size;
	uint32		size = old == 0 ? FIRST_QUEUE_SIZE : old * 2;
	AiostreamQueueEntry *entries;
	void	  **data = NULL;

	entries = MemoryContextAllocHuge(queue->cxt, size * sizeof(AiostreamQueueEntry));
	if (queue->with_data)
		data = MemoryContextAllocHuge(queue->cxt, size * sizeof(void *));
	for (uint32 p = queue->head; p != queue->tail; p++)
	{
		entries[p & (size - 1)] = queue->entries[p & (old - 1)];
		if (data != NULL)
			data[p & (size - 1)] = queue->data[p & (old - 1)];
	}
	if (old != 0)
	{
		pfree(queue->entries);
		if (data != NULL)
			pfree(queue->data);
	}
	queue->entries = entries;
	queue->data = data;
	queue->size = size;
}

static Size
data_size(const void *data, uint16 flags)
{
	return (flags & AIOSTREAM_ENTRY_HEAP_TUPLE) ? ((const HeapTupleData *) data)->t_len :
		IndexTupleSize((IndexTuple) data);
}

/* A copy of what an index-only scan has for its entry */
static void *
copy_data(AiostreamEntryQueue *queue, IndexScanDesc scan, uint16 *flags)
{
	MemoryContext old = MemoryContextSwitchTo(queue->cxt);
	void	   *data;

	if (scan->xs_hitup != NULL)
	{
		data = heap_copytuple(scan->xs_hitup);
		*flags |= AIOSTREAM_ENTRY_HEAP_TUPLE;
	}
	else if (scan->xs_itup != NULL)
		data = CopyIndexTuple(scan->xs_itup);
	else
		elog(ERROR, "no data returned for index-only scan");
	MemoryContextSwitchTo(old);
	return data;
}

AiostreamQueueEntry *
aiostream_entryqueue_push(AiostreamEntryQueue *queue, IndexScanDesc scan, ItemPointer tid)
{
	AiostreamQueueEntry *entry;

	if (aiostream_entryqueue_length(queue) == queue->size)
		grow(queue);
	entry = &queue->entries[queue->tail & (queue->size - 1)];
	entry->tid = *tid;
	entry->flags = scan->xs_recheck ? AIOSTREAM_ENTRY_RECHECK : 0;
	if (queue->with_data)
	{
		void	   *data = copy_data(queue, scan, &entry->flags);

		queue->data[queue->tail & (queue->size - 1)] = data;
		queue->data_size += data_size(data, entry->flags);
	}
	queue->tail++;
	return entry;
}

static void
free_current_data(AiostreamEntryQueue *queue)
{
	if (queue->current_data != NULL)
		pfree(queue->current_data);
	queue->current_data = NULL;
}

AiostreamQueueEntry
aiostream_entryqueue_pop(AiostreamEntryQueue *queue)
{
	uint32		at = queue->head & (queue->size - 1);
	AiostreamQueueEntry entry = queue->entries[at];

	Assert(aiostream_entryqueue_length(queue) > 0);
	if (queue->with_data)
	{
		free_current_data(queue);
		queue->current_data = queue->data[at];
		queue->data_size -= data_size(queue->current_data, entry.flags);
	}
	queue->head++;
	return entry;
}

void
aiostream_entryqueue_clear(AiostreamEntryQueue *queue)
{
	while (aiostream_entryqueue_length(queue) > 0)
		(void) aiostream_entryqueue_pop(queue);
	free_current_data(queue);
}
