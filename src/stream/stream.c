/*
 * stream.c
 *		Ordered look-ahead.
 *
 * The queue holds the blocks between the consumer and the farthest look-ahead,
 * in the consumer's order.  With distance 8 and requests of 4 blocks, after
 * the consumer has taken block 20:
 *
 *		21   22   23   24 | 25   26   27   28 | 29   30
 *		^head: read        in flight           pending (the last npending)
 *
 * Pending blocks are adjacent, going up or down, and are not asked for yet: the
 * request is made when it is full, when the next block does not join it,
 * when the consumer needs it, or when nothing else is under way.  A run that goes
 * down is one request from its last block up; its blocks are handed out last
 * to first.
 *
 * A stream begins, and ends up when all is found in shared buffers, in a
 * state in which it only passes blocks from the callback to the consumer, who
 * reads them through core.  A miss reported there starts look-ahead.
 *
 * Map of the folder
 *	stream.c		life of a stream, the consumer's side (this file)
 *	stream_queue.c	the queue
 *	stream_follow.c	reading ahead of another process
 *	stream_ask.c	requests: what to combine, when to ask
 *	stream_window.c	requests in disk order for blocks in no order
 *	lesson.c		what streams learn of the storage, for the next ones
 *	gap.c			what is worth reading through, as pure functions
 *	policy.c		how far to look ahead, as pure functions
 */
#include "postgres.h"

#include "guc.h"
#include "stats.h"
#include "stream/stream_internal.h"

#include "executor/instrument.h"
#include "pgstat.h"
#include "portability/instr_time.h"

/* Blocks that a growing window may hold, and as a part of shared buffers */
#define MAX_WINDOW	8192
#define WINDOW_PART	16

bool
aiostream_stream_usable(Relation rel)
{
	return aiostream_enable && aiostream_target_supported(rel);
}

BufferAccessStrategy
aiostream_stream_ring(void)
{
	return aiostream_ring_create();
}

/* What is set, or what can be done just now */
static AiostreamMethodId
choose_method(int wanted)
{
	AiostreamMethodId method = wanted < 0 ? AIOSTREAM_METHOD_AUTO :
	(AiostreamMethodId) wanted;

	if (method == AIOSTREAM_METHOD_AUTO)
		method = aiostream_engine_method();
	if (method == AIOSTREAM_METHOD_IO_URING && !aiostream_engine_async_ok(method))
		method = AIOSTREAM_METHOD_WORKER;
	return method;
}

AiostreamStream *
aiostream_stream_begin(Relation rel, ForkNumber fork, BlockNumber nblocks,
					   BufferAccessStrategy strategy,
					   AiostreamNextBlock next_block, void *callback_private,
					   size_t per_block_size,
					   const AiostreamStreamOptions *options)
{
	static const AiostreamStreamOptions defaults = {-1, -1, -1, -1, false, false, false, false};
	AiostreamStream *stream = palloc0(sizeof(AiostreamStream));

	Assert(aiostream_target_supported(rel));
	if (options == NULL)
		options = &defaults;

	stream->rel = rel;
	stream->fork = fork;
	stream->nblocks = nblocks;
	stream->strategy = strategy;
	stream->next_block = next_block;
	stream->callback_private = callback_private;
	stream->per_block_size = MAXALIGN(per_block_size);
	stream->cxt = CurrentMemoryContext;
	stream->full_distance = options->full_distance;
	stream->sorted = options->sorted;
	stream->options.untouched = options->untouched;
	stream->grow = options->grow;
	stream->eager = options->eager;
	stream->options.method = choose_method(options->method);
	stream->options.direct = options->direct < 0 ? aiostream_direct_io : options->direct;
	stream->options.combine = options->combine < 0 ?
		aiostream_io_combine_limit : options->combine;
	stream->options.concurrency = options->concurrency < 0 ?
		aiostream_concurrency_in(rel->rd_node.spcNode) : options->concurrency;
	stream->options.concurrency = Max(1, Min(stream->options.concurrency,
											 aiostream_io_max_concurrency));
	return stream;
}

/* ---- the consumer's side ---- */

void
aiostream_stream_start_looking(AiostreamStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(stream->cxt);

	if (stream->target == NULL)
	{
		stream->target = aiostream_target_open(stream->rel, stream->fork,
											   stream->nblocks, stream->strategy,
											   &stream->options);
		stream->ios = palloc(AIOSTREAM_MAX_CONCURRENCY * sizeof(AiostreamIoRef));
		stream->stats.capacity = aiostream_target_max_distance(stream->target);
		stream->max_window = Max((int) stream->stats.capacity,
								 Min(MAX_WINDOW, NBuffers / WINDOW_PART));
	}
	aiostream_policy_init(&stream->policy, stream->stats.capacity, stream->options.combine,
						  stream->full_distance);
	if (stream->eager)
		aiostream_policy_hurry(&stream->policy);
	stream->looking = true;
	if (stream->sorted)
		aiostream_stream_start_learning(stream);
	MemoryContextSwitchTo(old);
}

/* Wait until the block's read has landed, and tell the policy. */
static void
await_block(AiostreamStream *stream, const AiostreamBlock *block)
{
	instr_time	start;
	instr_time	end;

	if (block->hit)
	{
		aiostream_policy_found(&stream->policy);
		return;
	}
	if (block->io.method == AIOSTREAM_METHOD_SYNC)
	{
		aiostream_policy_on_the_spot(&stream->policy);
		return;
	}
	if (aiostream_io_done(block->io))
	{
		aiostream_policy_in_time(&stream->policy);
		return;
	}

	INSTR_TIME_SET_CURRENT(start);
	aiostream_io_wait(block->io);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	stream->stats.waits++;
	stream->stats.wait_us += INSTR_TIME_GET_MICROSEC(end);
	if (track_io_timing)
	{
		pgstat_count_buffer_read_time(INSTR_TIME_GET_MICROSEC(end));
		INSTR_TIME_ADD(pgBufferUsage.blk_read_time, end);
	}
	aiostream_policy_waited(&stream->policy);
	if (stream->sorted)
		aiostream_stream_learn(stream);
}

static void
sample_distance(AiostreamStream *stream)
{
	if (queued(stream) > stream->stats.distance_max)
		stream->stats.distance_max = queued(stream);
}

/* The consumer has its first block: forget it. */
void
aiostream_stream_pop_head(AiostreamStream *stream)
{
	if (stream->npending > 0 && (uint32) stream->npending == queued(stream))
		stream->npending--;
	if (stream->sorted && !slot_at(stream, stream->head)->asked)
		stream->nunasked--;
	stream->head++;
}

/* Block numbers only, read through core: nothing has been missed lately. */
static bool
next_unlooked(AiostreamStream *stream, BlockNumber *blkno)
{
	aiostream_stream_make_room(stream);
	stream->current_per_block = stream->per_block_size > 0 ?
		per_block_at(stream, stream->head) : NULL;
	*blkno = stream->next_block(stream, stream->callback_private,
								stream->current_per_block);
	stream->head = ++stream->tail;	/* keep its data from being overwritten */
	if (*blkno == InvalidBlockNumber)
		stream->ended = true;
	return !stream->ended;
}

/*
 * A page that the device wrote into memory is in no CPU cache.  Fetch the lines
 * that every consumer looks at first (header, line pointers) of the page after
 * this one while this one is worked on.
 */
static inline void
prefetch_next_page(AiostreamStream *stream)
{
	if (queued(stream) > 0)
	{
		Buffer		hint = slot_at(stream, stream->head)->block.hint;

		if (BufferIsValid(hint))
		{
			const char *page = (const char *) BufferGetBlock(hint);

			__builtin_prefetch(page);
			__builtin_prefetch(page + 64);
			__builtin_prefetch(page + 128);
			__builtin_prefetch(page + 192);
		}
	}
}

bool
aiostream_stream_next(AiostreamStream *stream, BlockNumber *blkno, Buffer *buffer,
					  void **per_block)
{
	AiostreamSlot *slot;

	*buffer = InvalidBuffer;
	stream->was_read = false;
	if (!stream->looking && stream->full_distance)
		aiostream_stream_start_looking(stream);

	if (stream->looking)
		aiostream_stream_look_ahead(stream);
	if (queued(stream) == 0)
	{
		if (stream->ended || stream->looking)
			return false;
		if (!next_unlooked(stream, blkno))
			return false;
	}
	else
	{
		sample_distance(stream);
		if (!slot_at(stream, stream->head)->asked && !aiostream_stream_ask_head(stream))
			stream->stats.stalls++;
		slot = slot_at(stream, stream->head);
		*blkno = slot->blkno;
		if (slot->asked)
		{
			await_block(stream, &slot->block);
			*buffer = aiostream_target_pin(stream->target, *blkno, &slot->block);
			if (slot->block.hit)
				stream->stats.hits++;
			stream->was_read = !slot->block.hit && BufferIsValid(*buffer);
		}
		if (!BufferIsValid(*buffer))
			stream->stats.core_reads++;
		stream->current_per_block = stream->per_block_size > 0 ?
			per_block_at(stream, stream->head) : NULL;
		aiostream_stream_pop_head(stream);
		prefetch_next_page(stream);
		if (queued(stream) == 0 && aiostream_policy_collapsed(&stream->policy))
		{
			stream->looking = false;
			stream->stats.collapses++;
		}
	}
	stream->stats.blocks++;
	if (per_block != NULL)
		*per_block = stream->current_per_block;
	return true;
}

void
aiostream_stream_core_read(AiostreamStream *stream, bool hit)
{
	if (stream->looking)
		return;
	if (hit)
		stream->stats.hits++;
	else
	{
		stream->stats.core_reads++;
		aiostream_stream_start_looking(stream);
	}
}

void
aiostream_stream_bound(AiostreamStream *stream, int blocks)
{
	Assert(blocks >= 0);
	stream->bound = blocks;
}

bool
aiostream_stream_looking(const AiostreamStream *stream)
{
	return stream->looking;
}

bool
aiostream_stream_was_read(AiostreamStream *stream)
{
	return stream->was_read;
}

void
aiostream_stream_uncount_hit(AiostreamStream *stream)
{
	Assert(stream->target != NULL);
	aiostream_target_uncount_hit(stream->target);
}

void
aiostream_stream_follow(AiostreamStream *stream, BlockNumber current)
{
	AiostreamSlot *slot;

	if (!stream->looking)
		aiostream_stream_start_looking(stream);

	/* what core has passed */
	if (queued(stream) == 0)
		aiostream_stream_look_ahead(stream);
	while (queued(stream) > 0)
	{
		bool		here;

		slot = slot_at(stream, stream->head);
		here = slot->blkno == current;
		stream->stats.blocks++;
		if (slot->asked && slot->block.hit)
		{
			stream->stats.hits++;
			aiostream_policy_found(&stream->policy);
		}
		else if (!slot->asked)
			stream->stats.core_reads++;
		else if (here)
			aiostream_target_uncount_hit(stream->target);
		aiostream_stream_pop_head(stream);
		if (here)
			break;
	}

	/* what it wants next */
	aiostream_stream_look_ahead(stream);
	if (queued(stream) == 0)
		return;
	sample_distance(stream);
	slot = slot_at(stream, stream->head);
	if (!slot->asked && !aiostream_stream_ask_head(stream))
		return;
	slot = slot_at(stream, stream->head);
	if (!slot->block.hit)
		await_block(stream, &slot->block);
}

bool
aiostream_stream_push(AiostreamStream *stream)
{
	if (!stream->looking)
		aiostream_stream_start_looking(stream);
	while (queued(stream) > 0)
	{
		AiostreamSlot *slot = slot_at(stream, stream->head);
		bool		landed = slot->asked && (slot->block.hit || aiostream_io_done(slot->block.io));

		/* with nothing in flight, what was not asked for never will be */
		if (!landed && (slot->asked || aiostream_stream_inflight(stream) > 0 ||
						(uint32) stream->npending == queued(stream)))
			break;
		stream->stats.blocks++;
		stream->stats.hits += slot->asked && slot->block.hit;
		aiostream_stream_pop_head(stream);
	}
	aiostream_stream_look_ahead(stream);
	return queued(stream) > 0 || !stream->ended;
}

void
aiostream_stream_more(AiostreamStream *stream)
{
	stream->ended = false;
}

void
aiostream_stream_reset(AiostreamStream *stream)
{
	stream->head = stream->tail;
	stream->npending = 0;
	stream->nunasked = 0;
	aiostream_stream_forget_window(stream);
	stream->direction = 0;
	stream->ended = false;
	stream->looking = false;
}

void
aiostream_stream_get_stats(AiostreamStream *stream, AiostreamStreamStats *stats)
{
	*stats = stream->stats;
	if (stream->target != NULL)
	{
		const AiostreamReadCounters *counters = aiostream_target_counters(stream->target);

		stats->ios = counters->ios;
		stats->io_blocks = counters->blocks;
		stats->direct_ios = counters->direct_ios;
		stats->stalls = counters->stalls;
		stats->gap_blocks = counters->gap_blocks;
		stats->capacity = Max(stats->capacity, (uint64) stream->policy.max);
	}
}

void
aiostream_stream_end(AiostreamStream *stream)
{
	aiostream_count(AIOSTREAM_COUNT_WAITS, stream->stats.waits);
	aiostream_count(AIOSTREAM_COUNT_WAIT_US, stream->stats.wait_us);
	aiostream_count(AIOSTREAM_COUNT_HITS, stream->stats.hits);
	aiostream_count(AIOSTREAM_COUNT_CORE_READS, stream->stats.core_reads);
	if (stream->target != NULL)
	{
		aiostream_target_limit_ring(stream->target, 0);
		aiostream_target_close(stream->target);
		pfree(stream->ios);
	}
	aiostream_stream_free_window(stream);
	if (stream->slots != NULL)
		pfree(stream->slots);
	if (stream->per_block != NULL)
		pfree(stream->per_block);
	pfree(stream);
}

void
aiostream_stream_stats_add(AiostreamStreamStats *sum, const AiostreamStreamStats *more)
{
	sum->blocks += more->blocks;
	sum->hits += more->hits;
	sum->core_reads += more->core_reads;
	sum->ios += more->ios;
	sum->io_blocks += more->io_blocks;
	sum->direct_ios += more->direct_ios;
	sum->waits += more->waits;
	sum->wait_us += more->wait_us;
	sum->stalls += more->stalls;
	sum->gap_blocks += more->gap_blocks;
	sum->forward_blocks += more->forward_blocks;
	sum->backward_blocks += more->backward_blocks;
	sum->index_blocks += more->index_blocks;
	sum->collapses += more->collapses;
	sum->distance_sum += more->distance_sum;
	sum->distance_samples += more->distance_samples;
	sum->inflight_sum += more->inflight_sum;
	sum->distance_max = Max(sum->distance_max, more->distance_max);
	sum->capacity = Max(sum->capacity, more->capacity);
}
