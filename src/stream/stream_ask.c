/*
 * stream_ask.c
 *		What a stream asks the buffer layer for, and when.
 *
 * Pending blocks at the queue's end form a run of neighbours; policy.c says when
 * it is time to ask for it.
 */
#include "postgres.h"

#include "stream/stream_internal.h"

/* Where the kernel has it all: enough to save system calls, fits the L2 cache */
#define CACHED_COMBINE	(128 * 1024 / BLCKSZ)
#define CACHED_RING		(256 * 1024 / BLCKSZ)

/* Requests of this stream that are in flight, at most */
int
aiostream_stream_inflight(AiostreamStream *stream)
{
	while (stream->io_head != stream->io_tail &&
		   aiostream_io_done(stream->ios[stream->io_head % AIOSTREAM_MAX_CONCURRENCY]))
		stream->io_head++;
	return stream->io_tail - stream->io_head;
}

/* A block's request, which it may have in common with the block before */
void
aiostream_stream_remember_io(AiostreamStream *stream, AiostreamIoRef ref)
{
	if (ref.generation == 0 ||
		(ref.generation == stream->last_io.generation && ref.index == stream->last_io.index))
		return;
	stream->last_io = ref;
	stream->stats.distance_samples++;
	stream->stats.distance_sum += stream->tail - stream->head;
	stream->stats.distance_max = Max(stream->stats.distance_max, stream->tail - stream->head);
	stream->stats.inflight_sum += aiostream_stream_inflight(stream) + 1;
	if (stream->io_tail - stream->io_head < AIOSTREAM_MAX_CONCURRENCY)
		stream->ios[stream->io_tail++ % AIOSTREAM_MAX_CONCURRENCY] = ref;
}

/* A run was asked for; blocks_before: what the target had read before that */
void
aiostream_stream_count_combined(AiostreamStream *stream, uint64 blocks_before, bool backward)
{
	uint64		n = aiostream_target_counters(stream->target)->blocks - blocks_before;

	if (n < 2)
		return;
	if (backward)
		stream->stats.backward_blocks += n;
	else
		stream->stats.forward_blocks += n;
}

/* Blocks a request may have at the moment */
int
aiostream_stream_combine_now(const AiostreamStream *stream)
{
	return stream->kernel_cached ? Min(CACHED_COMBINE, stream->options.combine) :
		stream->options.combine;
}

/* Blocks to have queued at the moment */
static uint32
distance_now(const AiostreamStream *stream)
{
	uint32		distance = stream->policy.distance;

	if (stream->kernel_cached)
		distance = Min(distance, CACHED_COMBINE);
	if (stream->bound > 0)
		distance = Min(distance, stream->bound);
	return distance;
}

/*
 * Where the kernel has the pages, reading is copying: look ahead just enough
 * to save system calls, within a part of the ring that stays in the CPU's
 * cache.
 */
static void
follow_page_cache(AiostreamStream *stream)
{
	stream->kernel_cached = stream->options.direct != AIOSTREAM_DIRECT_ON &&
		!stream->full_distance && aiostream_target_kernel_cached(stream->target);
	stream->policy.combine = aiostream_stream_combine_now(stream);

	/* not while more is queued than the small ring holds */
	if (stream->kernel_cached != stream->ring_limited &&
		(stream->ring_limited || queued(stream) <= CACHED_COMBINE))
	{
		stream->ring_limited = stream->kernel_cached;
		aiostream_target_limit_ring(stream->target,
									stream->ring_limited ? CACHED_RING : 0);
	}
}

/*
 * Ask for the run of n blocks that begins at queue position "first" and goes
 * in "direction".  Returns how many of it, from its LOWEST block, are under way.
 */
static int
ask_run(AiostreamStream *stream, uint32 first, int n, int direction)
{
	AiostreamBlock out[AIOSTREAM_MAX_COMBINE];
	BlockNumber start = slot_at(stream, direction < 0 ? first + n - 1 : first)->blkno;
	uint64		before = aiostream_target_counters(stream->target)->blocks;
	int			k;

	Assert(n >= 1 && n <= AIOSTREAM_MAX_COMBINE);
	k = aiostream_target_read(stream->target, start, n, out);
	aiostream_stream_count_combined(stream, before, direction < 0);
	for (int i = 0; i < k; i++)
	{
		AiostreamSlot *slot = slot_at(stream, direction < 0 ? first + n - 1 - i : first + i);

		Assert(slot->blkno == start + i);
		slot->asked = true;
		slot->block = out[i];
		aiostream_stream_remember_io(stream, out[i].io);
	}
	return k;
}

/*
 * Ask for the pending run.  False: not all of it could be; what is left of a run
 * that goes up stays pending, of one that goes down ask_head will ask.
 */
static bool
ask_pending(AiostreamStream *stream)
{
	int			n = stream->npending;
	int			k;

	Assert(n > 0);
	k = ask_run(stream, stream->tail - n, n, stream->direction);
	if (stream->direction < 0)
		stream->npending = 0;
	else
		stream->npending = n - k;
	if (stream->npending == 0)
		stream->direction = 0;
	return k == n;
}

/* Can the block at the queue's end join the pending run? If so, it does. */
static bool
join_pending(AiostreamStream *stream)
{
	BlockNumber blkno = slot_at(stream, stream->tail - 1)->blkno;
	BlockNumber last;
	int			step;

	if (stream->npending > 0)
	{
		last = slot_at(stream, stream->tail - 2)->blkno;
		step = blkno == last + 1 ? 1 : (last != 0 && blkno == last - 1) ? -1 : 0;
		if (step == 0 || (stream->direction != 0 && step != stream->direction) ||
			stream->npending >= aiostream_stream_combine_now(stream))
			return false;
		stream->direction = step;
	}
	stream->npending++;
	return true;
}

/*
 * Blocks in no order: gather half of what may be queued, then ask for it in
 * disk order, while the other half is under way.
 */
static void
look_ahead_sorted(AiostreamStream *stream)
{
	while (!stream->ended && queued(stream) < distance_now(stream))
	{
		if (!aiostream_stream_enqueue(stream))
			break;
		stream->nunasked++;
	}
	if (stream->nunasked > 0 &&
		aiostream_stream_inflight(stream) < stream->options.concurrency)
		aiostream_stream_ask_window(stream,
									stream->ended || !slot_at(stream, stream->head)->asked ||
									(uint32) stream->nunasked * 2 >= distance_now(stream));
}

/*
 * Look ahead as far as the policy says and resources allow.
 */
void
aiostream_stream_look_ahead(AiostreamStream *stream)
{
	int			concurrency = stream->options.concurrency;

	aiostream_io_poll();
	follow_page_cache(stream);
	if (stream->sorted)
	{
		look_ahead_sorted(stream);
		return;
	}
	while (!stream->ended && queued(stream) < distance_now(stream))
	{
		/* a full request waits for its turn */
		if (stream->npending >= aiostream_stream_combine_now(stream))
		{
			if (aiostream_stream_inflight(stream) >= concurrency || !ask_pending(stream))
				return;
			continue;
		}
		if (!aiostream_stream_enqueue(stream))
			break;
		if (!join_pending(stream))
		{
			/* the new block waits outside while the run before it goes */
			stream->tail--;
			(void) ask_pending(stream);
			stream->tail++;
			stream->npending = 1;
			stream->direction = 0;
			if (aiostream_stream_inflight(stream) >= concurrency)
				return;
		}
	}
	if (aiostream_stream_inflight(stream) < concurrency &&
		aiostream_policy_ask(&stream->policy, stream->npending, stream->ended,
							 (uint32) stream->npending == queued(stream),
							 aiostream_stream_inflight(stream)))
		(void) ask_pending(stream);
}

/* Ask for the blocks from the head on that were passed over, in one run. */
static void
ask_passed_over(AiostreamStream *stream)
{
	uint32		end = stream->tail - stream->npending;
	int			limit = aiostream_stream_combine_now(stream);
	int			direction = 0;
	int			n = 1;

	while (stream->head + n != end && n < limit)
	{
		BlockNumber last = slot_at(stream, stream->head + n - 1)->blkno;
		AiostreamSlot *slot = slot_at(stream, stream->head + n);
		int			step = slot->blkno == last + 1 ? 1 :
		(last != 0 && slot->blkno == last - 1) ? -1 : 0;

		if (slot->asked || step == 0 || (direction != 0 && step != direction))
			break;
		direction = step;
		n++;
	}
	/* going down, the head is the last that a short answer would cover */
	if (ask_run(stream, stream->head, n, direction) < n && direction < 0)
		(void) ask_run(stream, stream->head, 1, 1);
}

/*
 * The block at the head has not been asked for: resources were short.  Ask
 * again, after our oldest read has given some back; false if that does not
 * help, and core is to read it.
 */
bool
aiostream_stream_ask_head(AiostreamStream *stream)
{
	for (;;)
	{
		AiostreamIoRef oldest;

		if (stream->sorted)
			aiostream_stream_ask_window(stream, true);
		else if (queued(stream) == (uint32) stream->npending)
			(void) ask_pending(stream);
		else
			ask_passed_over(stream);
		if (slot_at(stream, stream->head)->asked)
			return true;
		if (aiostream_stream_inflight(stream) == 0)
			return false;
		oldest = stream->ios[stream->io_head % AIOSTREAM_MAX_CONCURRENCY];
		aiostream_io_wait(oldest);
	}
}
