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
 * Policy (how far, when to ask) is policy.c's; this file is mechanism.
 */
#include "postgres.h"

#include "buffer/buffer.h"
#include "guc.h"
#include "stats.h"
#include "stream/policy.h"
#include "stream/stream.h"

#include "executor/instrument.h"
#include "pgstat.h"
#include "portability/instr_time.h"

/* Where the kernel has it all: enough to save system calls, fits the L2 cache */
#define CACHED_COMBINE	(128 * 1024 / BLCKSZ)
#define CACHED_RING		(256 * 1024 / BLCKSZ)
#define FIRST_SLOTS		64

typedef struct Slot
{
	BlockNumber blkno;
	bool		asked;
	AiostreamBlock block;
} Slot;

struct AiostreamStream
{
	Relation	rel;
	ForkNumber	fork;
	BlockNumber nblocks;
	BufferAccessStrategy strategy;
	AiostreamNextBlock next_block;
	void	   *callback_private;
	size_t		per_block_size;
	MemoryContext cxt;
	AiostreamTargetOptions options;
	bool		full_distance;

	AiostreamTarget *target;	/* NULL until the first miss */
	AiostreamPolicy policy;
	bool		looking;		/* look-ahead is on */
	bool		ended;			/* the callback has no more */

	/* queue: positions head .. tail-1, slot = position & (nslots - 1) */
	uint32		head;
	uint32		tail;
	uint32		nslots;
	int			npending;
	int			direction;		/* of the pending run: 1, -1, 0 */
	Slot	   *slots;
	char	   *per_block;
	char	   *current_per_block;	/* of the block handed out */

	/* requests in flight, oldest first */
	AiostreamIoRef *ios;
	uint32		io_head;
	uint32		io_tail;

	bool		kernel_cached;	/* lately read ranges were in the page cache */
	bool		ring_limited;
	bool		was_read;		/* the block handed out last */
	AiostreamStreamStats stats;
};

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
	static const AiostreamStreamOptions defaults = {-1, -1, -1, -1, false};
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
	stream->options.method = choose_method(options->method);
	stream->options.direct = options->direct < 0 ? aiostream_direct_io : options->direct;
	stream->options.combine = options->combine < 0 ?
		aiostream_io_combine_limit : options->combine;
	stream->options.concurrency = options->concurrency < 0 ?
		aiostream_effective_io_concurrency : options->concurrency;
	stream->options.concurrency = Max(1, Min(stream->options.concurrency,
											 aiostream_io_max_concurrency));
	return stream;
}

/* ---- the queue ---- */

static inline Slot *
slot_at(AiostreamStream *stream, uint32 position)
{
	Assert(position - stream->head < stream->tail - stream->head);
	return &stream->slots[position & (stream->nslots - 1)];
}

static inline char *
per_block_at(AiostreamStream *stream, uint32 position)
{
	return stream->per_block + (position & (stream->nslots - 1)) * stream->per_block_size;
}

static inline uint32
queued(const AiostreamStream *stream)
{
	return stream->tail - stream->head;
}

/*
 * Room for one more block and for the one handed out, whose data stays valid.
 */
static void
make_room(AiostreamStream *stream)
{
	Slot	   *old = stream->slots;
	char	   *old_data = stream->per_block;
	uint32		old_n = stream->nslots;
	uint32		n = old_n == 0 ? FIRST_SLOTS : old_n * 2;

	if (queued(stream) + 2 <= old_n)
		return;
	stream->slots = MemoryContextAlloc(stream->cxt, n * sizeof(Slot));
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
static bool
enqueue(AiostreamStream *stream)
{
	uint32		position = stream->tail;
	void	   *data;
	BlockNumber blkno;
	Slot	   *slot;

	make_room(stream);
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

/* ---- requests ---- */

/* Requests of this stream that are in flight, at most */
static int
inflight(AiostreamStream *stream)
{
	while (stream->io_head != stream->io_tail &&
		   aiostream_io_done(stream->ios[stream->io_head % AIOSTREAM_MAX_CONCURRENCY]))
		stream->io_head++;
	return stream->io_tail - stream->io_head;
}

static void
remember_io(AiostreamStream *stream, AiostreamIoRef ref)
{
	if (ref.generation == 0)
		return;
	stream->stats.distance_sum += stream->policy.distance;
	stream->stats.inflight_sum += inflight(stream) + 1;
	if (stream->io_tail - stream->io_head < AIOSTREAM_MAX_CONCURRENCY)
		stream->ios[stream->io_tail++ % AIOSTREAM_MAX_CONCURRENCY] = ref;
}

/* Blocks a request may have at the moment */
static int
combine_now(const AiostreamStream *stream)
{
	return stream->kernel_cached ? Min(CACHED_COMBINE, stream->options.combine) :
		stream->options.combine;
}

/* Blocks to have queued at the moment */
static uint32
distance_now(const AiostreamStream *stream)
{
	return stream->kernel_cached ? Min(CACHED_COMBINE, stream->policy.distance) :
		stream->policy.distance;
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
	stream->policy.combine = combine_now(stream);

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
	uint64		last_generation = 0;
	int			k;

	Assert(n >= 1 && n <= AIOSTREAM_MAX_COMBINE);
	k = aiostream_target_read(stream->target, start, n, out);
	for (int i = 0; i < k; i++)
	{
		Slot	   *slot = slot_at(stream, direction < 0 ? first + n - 1 - i : first + i);

		Assert(slot->blkno == start + i);
		slot->asked = true;
		slot->block = out[i];
		if (out[i].io.generation != 0 && out[i].io.generation != last_generation)
			remember_io(stream, out[i].io);
		last_generation = out[i].io.generation;
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
			stream->npending >= combine_now(stream))
			return false;
		stream->direction = step;
	}
	stream->npending++;
	return true;
}

/*
 * Look ahead as far as the policy says and resources allow.
 */
static void
look_ahead(AiostreamStream *stream)
{
	int			concurrency = stream->options.concurrency;

	aiostream_io_poll();
	follow_page_cache(stream);
	while (!stream->ended && queued(stream) < distance_now(stream))
	{
		/* a full request waits for its turn */
		if (stream->npending >= combine_now(stream))
		{
			if (inflight(stream) >= concurrency || !ask_pending(stream))
				return;
			continue;
		}
		if (!enqueue(stream))
			break;
		if (!join_pending(stream))
		{
			/* the new block waits outside while the run before it goes */
			stream->tail--;
			(void) ask_pending(stream);
			stream->tail++;
			stream->npending = 1;
			stream->direction = 0;
			if (inflight(stream) >= concurrency)
				return;
		}
	}
	if (inflight(stream) < concurrency &&
		aiostream_policy_ask(&stream->policy, stream->npending, stream->ended,
							 (uint32) stream->npending == queued(stream),
							 inflight(stream)))
		(void) ask_pending(stream);
}

/* Ask for the blocks from the head on that were passed over, in one run. */
static void
ask_passed_over(AiostreamStream *stream)
{
	uint32		end = stream->tail - stream->npending;
	int			limit = combine_now(stream);
	int			direction = 0;
	int			n = 1;

	while (stream->head + n != end && n < limit)
	{
		BlockNumber last = slot_at(stream, stream->head + n - 1)->blkno;
		Slot	   *slot = slot_at(stream, stream->head + n);
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
static bool
ask_head(AiostreamStream *stream)
{
	for (;;)
	{
		AiostreamIoRef oldest;

		if (queued(stream) == (uint32) stream->npending)
			(void) ask_pending(stream);
		else
			ask_passed_over(stream);
		if (slot_at(stream, stream->head)->asked)
			return true;
		if (inflight(stream) == 0)
			return false;
		oldest = stream->ios[stream->io_head % AIOSTREAM_MAX_CONCURRENCY];
		aiostream_io_wait(oldest);
	}
}

/* ---- the consumer's side ---- */

static void
start_looking(AiostreamStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(stream->cxt);

	if (stream->target == NULL)
	{
		stream->target = aiostream_target_open(stream->rel, stream->fork,
											   stream->nblocks, stream->strategy,
											   &stream->options);
		stream->ios = palloc(AIOSTREAM_MAX_CONCURRENCY * sizeof(AiostreamIoRef));
		stream->stats.capacity = aiostream_target_max_distance(stream->target);
	}
	aiostream_policy_init(&stream->policy, stream->stats.capacity, combine_now(stream),
						  stream->full_distance);
	stream->looking = true;
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
}

static void
sample_distance(AiostreamStream *stream)
{
	if (queued(stream) > stream->stats.distance_max)
		stream->stats.distance_max = queued(stream);
}

/* Block numbers only, read through core: nothing has been missed lately. */
static bool
next_unlooked(AiostreamStream *stream, BlockNumber *blkno)
{
	make_room(stream);
	stream->current_per_block = stream->per_block_size > 0 ?
		per_block_at(stream, stream->head) : NULL;
	*blkno = stream->next_block(stream, stream->callback_private,
								stream->current_per_block);
	stream->head = ++stream->tail;	/* keep its data from being overwritten */
	if (*blkno == InvalidBlockNumber)
		stream->ended = true;
	return !stream->ended;
}

bool
aiostream_stream_next(AiostreamStream *stream, BlockNumber *blkno, Buffer *buffer,
					  void **per_block)
{
	Slot	   *slot;

	*buffer = InvalidBuffer;
	stream->was_read = false;
	if (!stream->looking && stream->full_distance)
		start_looking(stream);

	if (stream->looking)
		look_ahead(stream);
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
		if (!slot_at(stream, stream->head)->asked && !ask_head(stream))
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
		if (stream->npending > 0 && (uint32) stream->npending == queued(stream))
			stream->npending--;
		stream->head++;
		if (queued(stream) == 0 && aiostream_policy_collapsed(&stream->policy))
			stream->looking = false;
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
		start_looking(stream);
	}
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
	Slot	   *slot;

	if (!stream->looking)
		start_looking(stream);

	/* what core has passed */
	if (queued(stream) == 0)
		look_ahead(stream);
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
		if (stream->npending > 0 && (uint32) stream->npending == queued(stream))
			stream->npending--;
		stream->head++;
		if (here)
			break;
	}

	/* what it wants next */
	look_ahead(stream);
	if (queued(stream) == 0)
		return;
	sample_distance(stream);
	slot = slot_at(stream, stream->head);
	if (!slot->asked && !ask_head(stream))
		return;
	slot = slot_at(stream, stream->head);
	if (!slot->block.hit)
		await_block(stream, &slot->block);
}

void
aiostream_stream_reset(AiostreamStream *stream)
{
	stream->head = stream->tail;
	stream->npending = 0;
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
	sum->distance_sum += more->distance_sum;
	sum->inflight_sum += more->inflight_sum;
	sum->distance_max = Max(sum->distance_max, more->distance_max);
	sum->capacity = Max(sum->capacity, more->capacity);
}
