/*
 * stream_follow.c
 *		Reading ahead of another process.
 *
 * The consumer is somebody else, who takes the pages through core and does not
 * know of us.  How far it is the caller finds out in its own way: from what the
 * consumer publishes, or from the pages themselves, which are then read with
 * usage count 0, so that the consumer's pin leaves a trace.
 *
 * Nothing here pins a page, or waits for anything but our own reads.
 */
#include "postgres.h"

#include "stream/stream_internal.h"

void
aiostream_stream_ahead(AiostreamStream *stream)
{
	if (!stream->looking)
		aiostream_stream_start_looking(stream);
	aiostream_stream_look_ahead(stream);
	if (queued(stream) > stream->stats.distance_max)
		stream->stats.distance_max = queued(stream);

	/* what resources were short for, when nothing is under way to free any */
	if (queued(stream) > 0 && !slot_at(stream, stream->head)->asked &&
		(uint32) stream->npending != queued(stream))
		(void) aiostream_stream_ask_head(stream);
}

uint32
aiostream_stream_queued(const AiostreamStream *stream)
{
	return queued(stream);
}

bool
aiostream_stream_ended(const AiostreamStream *stream)
{
	return stream->ended;
}

void
aiostream_stream_peek(AiostreamStream *stream, uint32 i, BlockNumber *blkno,
					  Buffer *hint, bool *hit)
{
	AiostreamSlot *slot = slot_at(stream, stream->head + i);

	*blkno = slot->blkno;
	*hint = slot->asked ? slot->block.hint : InvalidBuffer;
	*hit = slot->asked && slot->block.hit;
}

bool
aiostream_stream_touched(AiostreamStream *stream, uint32 i)
{
	AiostreamSlot *slot = slot_at(stream, stream->head + i);

	return slot->asked && !slot->block.hit &&
		aiostream_target_touched(stream->target, slot->blkno, &slot->block);
}

void
aiostream_stream_pass(AiostreamStream *stream, uint32 n)
{
	Assert(n <= queued(stream));
	stream->stats.blocks += n;
	for (; n > 0; n--)
	{
		AiostreamSlot *slot = slot_at(stream, stream->head);

		if (!slot->asked)
			stream->stats.core_reads++;
		else if (slot->block.hit)
			stream->stats.hits++;
		aiostream_stream_pop_head(stream);
	}
}

bool
aiostream_stream_wait_oldest(AiostreamStream *stream)
{
	AiostreamSlot *slot;

	if (queued(stream) == 0)
		return false;
	slot = slot_at(stream, stream->head);
	if (!slot->asked || aiostream_io_done(slot->block.io))
		return false;
	aiostream_io_wait(slot->block.io);
	return true;
}

bool
aiostream_stream_reading(AiostreamStream *stream)
{
	return aiostream_stream_inflight(stream) > 0;
}

bool
aiostream_stream_wait_read(AiostreamStream *stream)
{
	if (aiostream_stream_inflight(stream) == 0)
		return false;
	aiostream_io_wait(stream->ios[stream->io_head % AIOSTREAM_MAX_CONCURRENCY]);
	return true;
}

BufferAccessStrategy
aiostream_stream_vacuum_ring(int n)
{
	return aiostream_ring_create_vacuum(n);
}

bool
aiostream_stream_cached(Relation rel, ForkNumber fork, BlockNumber blkno)
{
	return BufferIsValid(aiostream_buffer_find(rel->rd_node, fork, blkno));
}

int
aiostream_stream_free_buffers(void)
{
	return aiostream_buffers_free();
}

bool
aiostream_stream_any_free_buffer(void)
{
	return aiostream_buffers_any_free();
}
