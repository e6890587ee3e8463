/*
 * follower_internal.h
 *		What the files of the vacuum follower share; never leaves this folder.
 */
#ifndef AIOSTREAM_FOLLOWER_INTERNAL_H
#define AIOSTREAM_FOLLOWER_INTERNAL_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "stream/stream.h"
#include "utils/rel.h"

/* Tables and indexes smaller than this (2 MB) are left to core */
#define AIOSTREAM_FOLLOWER_MIN_BLOCKS 256
/* A vacuum that has to read less than this (8 MB) gets no follower */
#define AIOSTREAM_FOLLOWER_START_BLOCKS 1024
/* Core does not skip shorter runs of pages that it might skip */
#define AIOSTREAM_VACUUM_SKIP_RUN 32
/* Buffers of the ring for tables, and of the rings for indexes together */
#define AIOSTREAM_FOLLOWER_RING	2048
/* Indexes read at the same time, at most */
#define AIOSTREAM_FOLLOWER_INDEXES 4

/* What the vacuuming process asks for */
typedef struct AiostreamFollowerOrder
{
	/* whom to follow */
	int			pid;
	int			backend_id;
	TimestampTz started;		/* the process, so that a pid used again shows */
	Oid			database;
	Oid			role;			/* whose vacuum it is: who may see it */

	/* how it vacuums; hints only */
	bool		freeze;			/* aggressively by order */
	bool		all_pages;		/* DISABLE_PAGE_SKIPPING */
	bool		parallel;		/* indexes may be vacuumed by several
								 * processes */

	/* its settings; -1: none */
	bool		write_behind;
	int			direct;
	int			combine;
	int			concurrency;
} AiostreamFollowerOrder;

/* Names an order; stale once the slot has been given back */
typedef struct AiostreamFollowerRef
{
	int			slot;			/* -1: none */
	uint32		generation;
} AiostreamFollowerRef;

/* --- follower_slot.c --- */
/* the vacuuming process */
extern bool aiostream_follower_order(const AiostreamFollowerOrder *order,
									 AiostreamFollowerRef *ref);
extern void aiostream_follower_stop(AiostreamFollowerRef ref);
extern void aiostream_follower_withdraw(AiostreamFollowerRef ref);

/* the follower */
extern bool aiostream_follower_attach(AiostreamFollowerRef ref,
									  AiostreamFollowerOrder *order);
extern void aiostream_follower_detach(void);
extern bool aiostream_follower_stopped(void);
extern void aiostream_follower_report(Oid relid, int phase, uint32 distance,
									  uint64 blocks_read, uint64 blocks_written);

/* --- follower_progress.c --- */
typedef struct AiostreamVacuumProgress
{
	Oid			relid;			/* InvalidOid: not vacuuming a table now */
	int			phase;			/* PROGRESS_VACUUM_PHASE_..., 0 at first */
	BlockNumber total;			/* length of the table at its start */
	BlockNumber scanned;		/* block the first pass is at */
	BlockNumber vacuumed;		/* block the second pass is at, or was */
	int64		index_vacuums;	/* rounds of index vacuuming done */
	int64		dead_items;		/* collected in this round */
} AiostreamVacuumProgress;

/* False: the process has ended.  *progress is left as it was if it cannot be read now. */
extern bool aiostream_vacuum_progress(const AiostreamFollowerOrder *order,
									  AiostreamVacuumProgress *progress);

/* Is it waiting for a page to be read by itself just now? */
extern bool aiostream_vacuum_reads(const AiostreamFollowerOrder *order);

/* --- follower_main.c --- */
extern PGDLLEXPORT void aiostream_follower_main(Datum arg);

/* The table being followed */
typedef struct AiostreamFollowed
{
	const AiostreamFollowerOrder *order;
	Oid			relid;
	AiostreamVacuumProgress now;	/* as read last */
	BlockNumber round_start;	/* first block whose dead items are collected
								 * in this round */
	uint64		blocks_read;	/* by streams that have ended */
	uint64		blocks_written;

	/*
	 * Rings last as long as the follower, so that each pass uses again the
	 * buffers of the one before, and takes none from others.
	 */
	BufferAccessStrategy heap_ring;
	BufferAccessStrategy index_rings[AIOSTREAM_FOLLOWER_INDEXES];
	int			index_ring_size;	/* of each */
} AiostreamFollowed;

/*
 * Read progress anew.  True as long as the vacuum is where it was when the pass
 * began, and nobody wants us to stop.
 */
extern bool aiostream_followed_same_pass(AiostreamFollowed *table,
										 const AiostreamVacuumProgress *pass);

/* Has nobody asked us to end? */
extern bool aiostream_follower_wanted(void);

/* Sleep a little, or until the latch is set. */
extern void aiostream_follower_nap(long ms);

/*
 * Open with AccessShareLock in a transaction of its own, or return NULL: locked
 * against us, or dropped.  Never waits.
 */
extern void aiostream_follower_begin(void);
extern Relation aiostream_follower_open(Oid relid);
extern void aiostream_follower_close(Relation rel);
extern void aiostream_follower_commit(void);

/* A ring of n buffers that outlives transactions, or NULL */
extern BufferAccessStrategy aiostream_follower_ring(int n);

/* Options for the order's streams */
extern AiostreamStreamOptions aiostream_follower_options(const AiostreamFollowerOrder *order);

/* --- follower_write.c: dirty pages behind the vacuum --- */
/* NULL, here and below: not to be written */
typedef struct AiostreamWriteBehind AiostreamWriteBehind;

extern AiostreamWriteBehind *aiostream_write_behind_begin(AiostreamFollowed *table,
														  Relation rel,
														  BlockNumber nblocks,
														  BlockNumber start,
														  bool dirtied_again);

/* The vacuum is done with the blocks before "at".  Does not wait. */
extern void aiostream_write_behind_advance(AiostreamWriteBehind *behind, BlockNumber at);
extern uint64 aiostream_write_behind_blocks(const AiostreamWriteBehind *behind);

/* Read on, with a ring of so many buffers, as far as its pages are written. */
extern void aiostream_write_behind_read(AiostreamWriteBehind *behind,
										AiostreamStream *reader, int ring);

/*
 * The vacuum is done with the pass and with the blocks before "at": starts the
 * writes that are left, unless nobody wants us any more, and waits for all.  To be
 * called before the relation's lock goes.
 */
extern void aiostream_write_behind_end(AiostreamFollowed *table,
									   AiostreamWriteBehind *behind, BlockNumber at);

/* --- passes; each returns when the vacuum has moved on to another --- */
extern void aiostream_follow_scan(AiostreamFollowed *table);	/* follower_heap.c */
extern void aiostream_follow_second(AiostreamFollowed *table);
extern void aiostream_follow_indexes(AiostreamFollowed *table); /* follower_index.c */

/* --- follower_hint.c: what VACUUM is going to read, guessed --- */
extern bool aiostream_vacuum_aggressive(Relation rel, bool freeze);
extern BlockNumber aiostream_vacuum_to_read(Relation rel, bool freeze, bool all_pages);

#endif							/* AIOSTREAM_FOLLOWER_INTERNAL_H */
