/*
 * stream.h
 *		Public interface of streams: ordered look-ahead over the blocks of a
 *		relation.
 *
 * The caller says which blocks it will want, through a callback; the stream
 * keeps reads for them in flight and hands the blocks out in the same order.
 * The interface names no engine or buffer-layer type, so that it can be built
 * over core's read streams on PostgreSQL 18 and later.
 *
 * A stream needs the relation open and locked (no drop, no truncation below
 * nblocks) until aiostream_stream_end.  After an error it need not be ended:
 * its memory context and the transaction's end clean up.
 */
#ifndef AIOSTREAM_STREAM_H
#define AIOSTREAM_STREAM_H

#include "storage/block.h"
#include "storage/buf.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

typedef struct AiostreamStream AiostreamStream;

/*
 * Returns the next block to look ahead to, or InvalidBlockNumber at the end.
 * per_block points to per_block_size bytes that come back with the block.
 */
typedef BlockNumber (*AiostreamNextBlock) (AiostreamStream *stream,
										   void *callback_private,
										   void *per_block);

/* Options that override the GUCs; set a field to -1 for "as the GUC says" */
typedef struct AiostreamStreamOptions
{
	int			method;			/* AiostreamMethodId or -1 */
	int			direct;			/* AiostreamDirect or -1 */
	int			combine;		/* blocks a request or -1 */
	int			concurrency;	/* requests in flight or -1 */
	bool		full_distance;	/* look ahead fully from the start; never
								 * collapse */
	bool		sorted;			/* blocks come in no order: ask in disk order */
	bool		grow;			/* sorted: look further than requests in
								 * flight need where that makes runs longer */
	bool		untouched;		/* see aiostream_stream_touched */
	bool		eager;			/* begin far ahead: all of it will be wanted */
} AiostreamStreamOptions;

/* What a stream did; sums may be added over streams (see stream_stats_add) */
typedef struct AiostreamStreamStats
{
	uint64		blocks;			/* handed out */
	uint64		hits;			/* of those: found in shared buffers */
	uint64		core_reads;		/* of those: left to core because it had to */
	uint64		ios;			/* requests started */
	uint64		io_blocks;		/* blocks in them */
	uint64		direct_ios;		/* requests with O_DIRECT */
	uint64		waits;			/* times the consumer had to wait */
	uint64		wait_us;		/* for how long, in microseconds */
	uint64		stalls;			/* look-ahead paused: no handle or share */
	uint64		gap_blocks;		/* read through between wanted blocks */
	uint64		forward_blocks; /* of io_blocks: combined with neighbours that
								 * are wanted after them */
	uint64		backward_blocks;	/* or before */
	uint64		index_blocks;	/* of io_blocks: of an index (set by scans) */
	uint64		collapses;		/* look-ahead given up: all was found */
	uint64		distance_sum;	/* blocks; sampled at requests ... */
	uint64		distance_samples;	/* ... of this number */
	uint64		distance_max;	/* blocks */
	uint64		inflight_sum;	/* requests in flight, sampled at each request */
	uint64		capacity;		/* largest distance allowed, blocks */
} AiostreamStreamStats;

/*
 * Can rel be streamed now? False when the library is not preloaded,
 * aiostream.enable is off, or the relation is temporary.
 */
extern bool aiostream_stream_usable(Relation rel);

/*
 * fork: usually MAIN_FORKNUM.  nblocks: its length read under the lock.
 * strategy: the scan's ring or NULL.  options may be NULL.  Allocates in
 * CurrentMemoryContext.
 */
extern AiostreamStream *aiostream_stream_begin(Relation rel, ForkNumber fork,
											   BlockNumber nblocks,
											   BufferAccessStrategy strategy,
											   AiostreamNextBlock next_block,
											   void *callback_private,
											   size_t per_block_size,
											   const AiostreamStreamOptions *options);

/*
 * The next block in order: *blkno, or returns false at the end.  *buffer is a
 * pinned buffer (the caller's to release) or InvalidBuffer, which means: read
 * it through core, then say how that went with aiostream_stream_core_read.
 * That is so while everything is found in shared buffers (look-ahead has
 * collapsed and costs nothing), and where a read failed.  *per_block (may be
 * NULL) stays valid until the next call.
 * Raises: interrupts; a failed write of a dirty victim.
 */
extern bool aiostream_stream_next(AiostreamStream *stream, BlockNumber *blkno,
								  Buffer *buffer, void **per_block);
extern void aiostream_stream_core_read(AiostreamStream *stream, bool hit);

/*
 * Was the block handed out last read by this stream?  And: each block handed
 * out WITH A BUFFER has been counted (as read, or as a hit); if a core function
 * then looks it up again, it counts another hit: take that back.
 */
extern bool aiostream_stream_was_read(AiostreamStream *stream);
extern void aiostream_stream_uncount_hit(AiostreamStream *stream);

/*
 * For scans that core drives itself: core is at block "current" (in the order of
 * the callback's blocks); keep reads ahead of it in flight and return when
 * the block after it can be read without waiting.  Blocks are skipped
 * up to current.  Do not mix with aiostream_stream_next.
 */
extern void aiostream_stream_follow(AiostreamStream *stream, BlockNumber current);

/*
 * For reading a relation into shared buffers beside something else: read on as far as
 * options and bound allow, and forget what has landed.  Does not wait, unless the
 * method is sync.  False: all of it has landed.  Do not mix with the other ways.
 */
extern bool aiostream_stream_push(AiostreamStream *stream);

/*
 * Look at most "blocks" ahead from now on, as long as the consumer may yet stop
 * early; 0 lifts that.
 */
extern void aiostream_stream_bound(AiostreamStream *stream, int blocks);

/* Does the stream look ahead, or only pass blocks through? */
extern bool aiostream_stream_looking(const AiostreamStream *stream);

/* The callback had no more blocks, but has some now. */
extern void aiostream_stream_more(AiostreamStream *stream);

/* Forget blocks queued and start anew with the callback (rescan, turn round). */
extern void aiostream_stream_reset(AiostreamStream *stream);

/* Waits for this process's reads in flight; adds to the cumulative counters. */
extern void aiostream_stream_end(AiostreamStream *stream);

extern void aiostream_stream_get_stats(AiostreamStream *stream,
									   AiostreamStreamStats *stats);
extern void aiostream_stream_stats_add(AiostreamStreamStats *sum,
									   const AiostreamStreamStats *more);

/* Shared memory of this layer, for shmem.c */
extern Size aiostream_stream_shmem_size(void);
extern void aiostream_stream_shmem_init(bool found);

/*
 * Write-behind: dirty pages of a relation that some process has moved past are
 * written by the I/O workers in large writes, their WAL flushed first.  Needs
 * the relation locked as a stream does, until aiostream_write_stream_end,
 * which waits for writes on their way.  Pages that are locked or change
 * meanwhile stay dirty, as do those of failed writes.
 */
typedef struct AiostreamWriteStream AiostreamWriteStream;

/*
 * combine: blocks a request, or -1: as the GUC says.  dirtied_again: what is written
 * will soon be dirtied and written again, so the disk is not told to start.
 */
extern AiostreamWriteStream *aiostream_write_stream_begin(Relation rel,
														  ForkNumber fork,
														  BlockNumber nblocks,
														  int combine,
														  bool dirtied_again);

/* The process begins again at block "next". */
extern void aiostream_write_stream_restart(AiostreamWriteStream *stream,
										   BlockNumber next);

typedef enum AiostreamWriteProgress
{
	AIOSTREAM_WRITE_DONE,		/* what could be written has been started */
	AIOSTREAM_WRITE_MORE,		/* not all has been looked at: come again */
	AIOSTREAM_WRITE_BUSY,		/* the engine has writes enough: come later */
} AiostreamWriteProgress;

/*
 * It is done with the blocks before "passed".  Does not wait, and looks through so
 * many blocks that it takes about a millisecond.  all: also what would make a small
 * request.  Raises what opening a file raises.
 */
extern AiostreamWriteProgress aiostream_write_stream_advance(AiostreamWriteStream *stream,
															 BlockNumber passed, bool all);

/* Of the blocks before "passed": how many have not been looked at yet */
extern BlockNumber aiostream_write_stream_backlog(const AiostreamWriteStream *stream,
												  BlockNumber passed);

/* Dirty pages given to the workers so far */
extern uint64 aiostream_write_stream_blocks(const AiostreamWriteStream *stream);
extern void aiostream_write_stream_end(AiostreamWriteStream *stream);

/*
 * Pages written for this process, in all its write streams, for which core would
 * have flushed WAL, less the flushes that were made for them.  An estimate: it
 * may be that one of core's flushes had served several.
 */
extern uint64 aiostream_write_stream_flushes_saved(void);

/* A bulk-read ring for scans with look-ahead, or NULL; see buffer.h. */
extern BufferAccessStrategy aiostream_stream_ring(void);

/*
 * For a process that reads ahead of ANOTHER one (stream_follow.c).  It never has
 * a page pinned: a pin would show, as the other one may want a cleanup lock.
 * Do not mix with the other ways.
 */

/* Read on as far as options and resources allow; does not wait. */
extern void aiostream_stream_ahead(AiostreamStream *stream);

/* Blocks queued: read or being read, and not passed by the other process */
extern uint32 aiostream_stream_queued(const AiostreamStream *stream);

/* Has the callback said that there are no more blocks? */
extern bool aiostream_stream_ended(const AiostreamStream *stream);

/*
 * Look at the i-th queued block, 0 being the oldest.  *hint: the buffer that it
 * is, or is being, read into, or InvalidBuffer; it may be gone again.  *hit: it
 * was there already.
 */
extern void aiostream_stream_peek(AiostreamStream *stream, uint32 i,
								  BlockNumber *blkno, Buffer *hint, bool *hit);

/*
 * Has somebody pinned the i-th queued block since the stream, which was begun with
 * the option "untouched", read it?  False for blocks that it did not read.
 */
extern bool aiostream_stream_touched(AiostreamStream *stream, uint32 i);

/* The oldest n queued blocks are not needed any more. */
extern void aiostream_stream_pass(AiostreamStream *stream, uint32 n);

/*
 * If the oldest queued block is still being read, wait for it and return true.
 * Raises interrupts only.
 */
extern bool aiostream_stream_wait_oldest(AiostreamStream *stream);

/* Is a read of the stream in flight? */
extern bool aiostream_stream_reading(AiostreamStream *stream);

/*
 * If one is, wait for the oldest and return true: others wait for its pages, and
 * nobody publishes them sooner.  Raises interrupts only.
 */
extern bool aiostream_stream_wait_read(AiostreamStream *stream);

/* A ring of n buffers that are used again even if dirty, or NULL; see buffer.h. */
extern BufferAccessStrategy aiostream_stream_vacuum_ring(int n);

/* Is this block of a relation in shared buffers? */
extern bool aiostream_stream_cached(Relation rel, ForkNumber fork, BlockNumber blkno);

/*
 * Buffers that hold no page, so that reading into them evicts none: their number
 * (looks at every buffer's header), and: is there one at all?  Others may take
 * them at any time.
 */
extern int	aiostream_stream_free_buffers(void);
extern bool aiostream_stream_any_free_buffer(void);

#endif							/* AIOSTREAM_STREAM_H */
