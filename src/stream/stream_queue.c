/*
 * stream_queue.c
 *		The queue of a stream: room, and blocks from the callback.
 */
#include "postgres.h"

#include "stream/stream_internal.h"

#include "utils/memutils.h"

#define FIRST_SLOTS 64

/*
 * Room for one more block and for the one handed out, whose data stays valid.
 */
void
aiostream_stream_make_room(AiostreamStream *stream)
{
	AiostreamSlot *old = stream->slots;
	char	   *old_data = stream->per_block;
	uint32		old_n = stream->nslots;
	uint32		n = old_n == 0 ? FIRST_SLOTS : old_n * 2;

	if (queued(stream) + 2 <= old_n)
		return;
	stream->slots = MemoryContextAlloc(stream->cxt, n * sizeof(AiostreamSlot));
	if (stream->per_block_size > 0)
		stream->per_block = MemoryContextAlloc(stream->cxt, n * stream->per_block_size);
	stream->nslots = n;
	for (uint32 p = stream->head; p != stream->tail; p++)
	{
		stream->slots[p & (n - 1)] = old[p & (old_n - 1)];
		if (stream->per_block_size > 0)
			memcpy(per_block_at(stream, p),
				   old_data + (p & (old_n - 1)) * stream->per_block_size,
				   stream->per_block_size);
	}
	if (old != NULL)
		pfree(old);
	if (old_data != NULL)
		pfree(old_data);
}

/* Take one block from the callback; false at the end. */
bool
aiostream_stream_enqueue(AiostreamStream *stream)
{
	uint32		position = stream->tail;
	void	   *data;
	BlockNumber blkno;
	AiostreamSlot *slot;

	aiostream_stream_make_room(stream);
	data = stream->per_block_size > 0 ? per_block_at(stream, position) : NULL;
	blkno = stream->next_block(stream, stream->callback_private, data);
	if (blkno == InvalidBlockNumber)
	{
		stream->ended = true;
		return false;
	}
	Assert(blkno < stream->nblocks);
	stream->tail++;
	slot = slot_at(stream, position);
	slot->blkno = blkno;
	slot->asked = false;
	slot->block.hint = InvalidBuffer;
	slot->block.io.generation = 0;
	slot->block.hit = false;
	return true;
}
