/*
 * stream_internal.h
 *		A stream's insides, shared by the files of this folder.
 */
#ifndef AIOSTREAM_STREAM_INTERNAL_H
#define AIOSTREAM_STREAM_INTERNAL_H

#include "buffer/buffer.h"
#include "portability/instr_time.h"
#include "stream/gap.h"
#include "stream/policy.h"
#include "stream/stream.h"

typedef struct AiostreamSlot
{
	BlockNumber blkno;
	bool		asked;
	AiostreamBlock block;
} AiostreamSlot;

typedef struct AiostreamWindow AiostreamWindow;

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
	uint32		bound;			/* look no more blocks ahead; 0: no bound */

	/* queue: positions head .. tail-1, slot = position & (nslots - 1) */
	uint32		head;
	uint32		tail;
	uint32		nslots;
	int			npending;
	int			direction;		/* of the pending run: 1, -1, 0 */
	bool		sorted;			/* blocks come in no order: stream_window.c */
	int			nunasked;		/* sorted: blocks of the queue not asked for */
	bool		eager;			/* begin far ahead */
	bool		grow;			/* sorted: policy.max may grow to max_window */
	int			max_window;
	AiostreamGap gap;			/* sorted: what is worth reading through */
	instr_time	epoch_start;	/* of gap's present epoch */
	uint64		epoch_blocks;	/* asked for before it */
	uint64		epoch_ios;		/* in so many requests */
	uint64		epoch_waits;	/* waits before it */
	int			epoch_distance; /* at its start */
	AiostreamWindow *window;
	AiostreamSlot *slots;
	char	   *per_block;
	char	   *current_per_block;	/* of the block handed out */

	/* requests in flight, oldest first */
	AiostreamIoRef *ios;
	uint32		io_head;
	uint32		io_tail;
	AiostreamIoRef last_io;		/* remembered last */

	bool		kernel_cached;	/* lately read ranges were in the page cache */
	bool		ring_limited;
	bool		was_read;		/* the block handed out last */
	AiostreamStreamStats stats;
};

static inline AiostreamSlot *
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

/* stream.c */
extern void aiostream_stream_start_looking(AiostreamStream *stream);
extern void aiostream_stream_pop_head(AiostreamStream *stream);

/* stream_queue.c */
extern void aiostream_stream_make_room(AiostreamStream *stream);
extern bool aiostream_stream_enqueue(AiostreamStream *stream);

/* stream_window.c */
extern void aiostream_stream_ask_window(AiostreamStream *stream, bool anew);
extern void aiostream_stream_forget_window(AiostreamStream *stream);
extern void aiostream_stream_free_window(AiostreamStream *stream);

/* lesson.c */
extern void aiostream_stream_start_learning(AiostreamStream *stream);
extern void aiostream_stream_learn(AiostreamStream *stream);

/* stream_ask.c */
extern int	aiostream_stream_inflight(AiostreamStream *stream);
extern void aiostream_stream_count_combined(AiostreamStream *stream,
											uint64 blocks_before, bool backward);
extern void aiostream_stream_remember_io(AiostreamStream *stream, AiostreamIoRef ref);
extern int	aiostream_stream_combine_now(const AiostreamStream *stream);
extern void aiostream_stream_look_ahead(AiostreamStream *stream);
extern bool aiostream_stream_ask_head(AiostreamStream *stream);

#endif							/* AIOSTREAM_STREAM_INTERNAL_H */
