/*
 * buffer_internal.h
 *		What the files of the buffer layer share.  Never leaves this folder.
 */
#ifndef AIOSTREAM_BUFFER_INTERNAL_H
#define AIOSTREAM_BUFFER_INTERNAL_H

#include "buffer/buffer.h"

#include "storage/buf_internals.h"

/* Segment files of a target, opened when first wanted */
typedef struct AiostreamSegment
{
	AiostreamFile *buffered;
	AiostreamFile *direct;
	Size		direct_align;	/* memory alignment that direct reads need */
	bool		buffered_failed;	/* do not try again */
	bool		direct_failed;
	AiostreamFile *writable;
	bool		writable_failed;
} AiostreamSegment;

/* How much of a window of the file the kernel has cached */
typedef enum AiostreamCached
{
	AIOSTREAM_CACHED_UNKNOWN,	/* the kernel cannot tell */
	AIOSTREAM_CACHED_LITTLE,
	AIOSTREAM_CACHED_MOSTLY,
	AIOSTREAM_CACHED_ALL
} AiostreamCached;

struct AiostreamTarget
{
	MemoryContext cxt;
	Relation	rel;
	RelFileNode rnode;
	ForkNumber	fork;
	bool		permanent;		/* BM_PERMANENT */
	BlockNumber nblocks;
	BufferAccessStrategy strategy;
	int			ring_size;		/* the strategy's own */
	AiostreamTargetOptions options;
	char	   *path;			/* of segment 0 */
	int			nsegments;
	AiostreamSegment *segments;

	/* the window asked about last; see pagecache.c */
	BlockNumber window_start;
	BlockNumber window_blocks;	/* 0: none */
	BlockNumber window_next;	/* size of the next one */
	AiostreamCached window;
	BlockNumber ahead_end;		/* windows before it have been looked at ahead */
	uint32		ahead_uncached; /* which of the last ones were not cached */
	int			ahead_filled;	/* windows in a row that have been filled
								 * since */

	int			pause;			/* requests not to make: buffers were scarce */

	AiostreamReadCounters counters;
};

/* claim.c */
typedef enum AiostreamClaim
{
	AIOSTREAM_CLAIM_OURS,		/* buffer is tagged, in progress, raw-pinned */
	AIOSTREAM_CLAIM_PRESENT,	/* somebody has it: *buffer says where */
	AIOSTREAM_CLAIM_NO_VICTIM,	/* no clean victim in reasonable time */
	AIOSTREAM_CLAIM_ALL_PINNED	/* no victim at all */
} AiostreamClaim;

extern Buffer aiostream_buffer_lookup(AiostreamTarget *target, BlockNumber blkno);
extern AiostreamClaim aiostream_buffer_claim(AiostreamTarget *target,
											 BlockNumber blkno, Buffer *buffer);

/* victim.c */
extern BufferDesc *aiostream_victim_get(BufferAccessStrategy strategy, bool *all_pinned);
extern void aiostream_victim_unpin(BufferDesc *buf);

/* publish.c */
extern void aiostream_buffer_publish(AiostreamIo *io, int32 result);
extern void aiostream_buffer_end_io(BufferDesc *buf, uint32 state);

/* writeout.c */
extern void aiostream_buffer_write(AiostreamIo *io, int fd);

/* segment.c */
extern AiostreamFile *aiostream_segment_file(AiostreamTarget *target,
											 BlockNumber blkno, bool direct);
extern AiostreamFile *aiostream_segment_file_for_write(AiostreamTarget *target,
													   BlockNumber blkno);
extern Size aiostream_segment_direct_align(AiostreamTarget *target,
										   BlockNumber blkno);

/* align.c */
extern char *aiostream_discard_page(void);

/* pagecache.c */
extern AiostreamCached aiostream_pagecache_ask(AiostreamTarget *target,
											   BlockNumber blkno);
extern bool aiostream_pagecache_available(void);

/* bufring.c */
extern int	aiostream_ring_size(BufferAccessStrategy strategy);
extern void aiostream_ring_limit(BufferAccessStrategy strategy, int size);

/* bounce.c */
extern Size aiostream_bounce_shmem_size(void);
extern void aiostream_bounce_shmem_init(void);
extern int	aiostream_bounce_blocks(void);	/* a slot's, 0: no pool */
extern int	aiostream_bounce_acquire(void); /* slot or -1 */
extern char *aiostream_bounce_block(int slot, int i);
extern void aiostream_bounce_release(int slot);

#endif							/* AIOSTREAM_BUFFER_INTERNAL_H */
