/*
 * buffer.h
 *		Public interface of the buffer layer: blocks of relations, read
 *		asynchronously into shared buffers, and dirty ones written out.
 *
 * This folder is the only one that knows the buffer manager's internals.
 * See read.c for the protocol and its invariants.
 */
#ifndef AIOSTREAM_BUFFER_H
#define AIOSTREAM_BUFFER_H

#include "engine/engine.h"
#include "storage/buf.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* How to read from the file */
typedef enum AiostreamDirect
{
	AIOSTREAM_DIRECT_OFF,
	AIOSTREAM_DIRECT_ON,
	AIOSTREAM_DIRECT_AUTO		/* ask the kernel what it has cached */
} AiostreamDirect;

/* What became of one block that was asked for */
typedef struct AiostreamBlock
{
	Buffer		hint;			/* buffer it was seen in or is read into */
	AiostreamIoRef io;			/* the read, if we started one */
	bool		hit;			/* it was (being) loaded already */
} AiostreamBlock;

/* Counters of one target; see aiostream_target_counters */
typedef struct AiostreamReadCounters
{
	uint64		ios;			/* requests started */
	uint64		blocks;			/* blocks read by them */
	uint64		direct_ios;		/* of ios: with O_DIRECT */
	uint64		sync_ios;		/* of ios: executed on the spot */
	uint64		hits;			/* blocks found in shared buffers */
	uint64		stalls;			/* no handle, share or victim: look-ahead
								 * paused */
	uint64		gap_blocks;		/* read into the discard page between wanted
								 * ones */
} AiostreamReadCounters;

/*
 * A fork of a relation being read: its open segment files, buffer ring and
 * read mode.  Lives in a memory context of its own below the parent's; it
 * is safe to forget it (error): files close with the context.
 */
typedef struct AiostreamTarget AiostreamTarget;

typedef struct AiostreamTargetOptions
{
	AiostreamMethodId method;	/* AUTO: the server's */
	AiostreamDirect direct;
	int			combine;		/* blocks a request, 1 ..
								 * AIOSTREAM_MAX_COMBINE */
	int			concurrency;	/* requests in flight, at least 1 */
	bool		dirtied_again;	/* what is written is dirtied again before
								 * long: leave it in the kernel's page cache */
	bool		untouched;		/* with usage count 0, so that the first pin
								 * shows: aiostream_target_touched */
} AiostreamTargetOptions;

/* --- set-up (root only) --- */
extern void aiostream_buffer_init(void);	/* in _PG_init: completion
											 * callback */
extern void aiostream_buffer_shmem_request(void);	/* alignment: one more
													 * buffer */
extern Size aiostream_buffer_shmem_size(void);
extern void aiostream_buffer_shmem_init(bool found);	/* aligns, makes bounce
														 * pool */
extern bool aiostream_buffers_aligned(void);	/* direct reads need no bounce */
extern Size aiostream_buffers_alignment(void);	/* largest power of two, <=
												 * 4096 */

/* May blocks of rel be read through this layer? (temp tables: never) */
extern bool aiostream_target_supported(Relation rel);

/*
 * rel must stay open and locked so that it can be neither dropped nor
 * truncated below nblocks until aiostream_target_close.  nblocks: its length
 * read under that lock.  strategy: the scan's ring (made by
 * aiostream_ring_create) or NULL.
 */
extern AiostreamTarget *aiostream_target_open(Relation rel, ForkNumber fork,
											  BlockNumber nblocks,
											  BufferAccessStrategy strategy,
											  const AiostreamTargetOptions *options);

/* Waits for this process's reads in flight, closes files. */
extern void aiostream_target_close(AiostreamTarget *target);

/*
 * Look for blocks start .. start+n-1 (n <= combine) in shared buffers; start
 * reads for those missing, in as few requests as possible.  Fills out[0..k)
 * and returns k <= n: fewer when no handle, share or clean victim was to be had
 * (0: none).  Blocks not covered were not touched.  Any process state is
 * consistent when this returns or raises: what is claimed is submitted.
 * Counts reads as core does.  May raise what core's buffer allocation
 * raises (e.g. a failed write of a dirty victim).
 * Must not be called in a critical section or with a buffer lock held.
 */
extern int	aiostream_target_read(AiostreamTarget *target, BlockNumber start,
								  int n, AiostreamBlock *out);

/*
 * The same for some of the blocks only: wanted[i] says which; the first and the
 * last are.  Others are read through, into a page that nobody looks at, where
 * that saves a request; out[] is set for wanted ones only.
 */
extern int	aiostream_target_read_sparse(AiostreamTarget *target,
										 BlockNumber start, int n,
										 const bool *wanted, AiostreamBlock *out);

/* Is the block in shared buffers? Then *out says so, and that has been counted. */
extern bool aiostream_target_find(AiostreamTarget *target, BlockNumber blkno,
								  AiostreamBlock *out);

/*
 * Pin blkno if it is still where block->hint says and valid.  Returns
 * InvalidBuffer if not: the caller reads it through core then.  The caller
 * has waited for block->io.  Accounting: a hit counts as core's, a block that
 * we read has been counted as read and is not counted as hit.
 */
extern Buffer aiostream_target_pin(AiostreamTarget *target, BlockNumber blkno,
								   const AiostreamBlock *block);

/*
 * Has blkno, read with the option "untouched" into block->hint, been pinned
 * since, or is it gone?  Takes no lock; a guess where others use the page.
 */
extern bool aiostream_target_touched(AiostreamTarget *target, BlockNumber blkno,
									 const AiostreamBlock *block);

/* Where is a block now? InvalidBuffer if it is not in shared buffers. */
extern Buffer aiostream_buffer_find(RelFileNode rnode, ForkNumber fork,
									BlockNumber blkno);

/* Buffers on the free list: how many, about (looks at all headers); is there one? */
extern int	aiostream_buffers_free(void);
extern bool aiostream_buffers_any_free(void);

/*
 * Core has just looked up a block that has been counted already (by
 * aiostream_target_pin or as read): take back the hit that it counted.
 */
extern void aiostream_target_uncount_hit(AiostreamTarget *target);

extern const AiostreamReadCounters *aiostream_target_counters(AiostreamTarget *target);

/* What aiostream_target_clean has started */
typedef struct AiostreamCleaning
{
	AiostreamIoRef io;			/* no I/O if nothing was dirty */
	int			blocks;			/* found dirty */
} AiostreamCleaning;

/*
 * Have those of the n blocks from start on that are dirty in shared buffers
 * written by an I/O worker, in large writes, WAL first.  Returns how many
 * blocks that covers, dirty or not; 0: writes enough are on their way, come again.
 * Pages that cannot be written without waiting for a lock, or that change
 * meanwhile, stay dirty.  Does not wait, unless there is no I/O worker: then this
 * process writes.  Not in a critical section, nor with a buffer lock held.
 * For the relation's lock see aiostream_target_open.
 */
extern int	aiostream_target_clean(AiostreamTarget *target, BlockNumber start, int n,
								   AiostreamCleaning *cleaning);

/* Did the kernel's page cache hold most of what was read lately? */
extern bool aiostream_target_kernel_cached(AiostreamTarget *target);
extern int	aiostream_target_max_distance(AiostreamTarget *target);

/* Use at most this many buffers of the target's ring, if it has one; 0: all. */
extern void aiostream_target_limit_ring(AiostreamTarget *target, int buffers);

/*
 * A bulk-read ring like core's, only larger (16 MB, at most 1/8 of shared
 * buffers): core's 32 buffers are too few for look-ahead.  May be given to
 * any core function that takes a BufferAccessStrategy; free with
 * FreeAccessStrategy.  NULL if shared buffers are too small for one.
 */
extern BufferAccessStrategy aiostream_ring_create(void);

/*
 * A ring like core's for VACUUM: dirty buffers are written and used again, even
 * where WAL has to be flushed for it.  "buffers" in size, at most 1/8 of shared
 * buffers; NULL if that is not more than core's ring.
 */
extern BufferAccessStrategy aiostream_ring_create_vacuum(int buffers);

/* Result of aiostream_buffer_evict */
typedef struct AiostreamEvictResult
{
	int64		evicted;		/* pages dropped from shared buffers */
	int64		skipped;		/* pinned or dirtied again meanwhile */
} AiostreamEvictResult;

/*
 * Write out all forks' dirty buffers of rel, drop its pages from shared
 * buffers, sync its files and drop them from the kernel's page cache. Caller
 * holds AccessShareLock or more on rel.  Raises on I/O failure.
 */
extern AiostreamEvictResult aiostream_buffer_evict(Relation rel);

#endif							/* AIOSTREAM_BUFFER_H */
