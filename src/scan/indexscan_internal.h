/*
 * indexscan_internal.h
 *		Between the index scan nodes (indexscan.c) and what fetches for them
 *		(indexscan_ahead.c).
 */
#ifndef AIOSTREAM_INDEXSCAN_INTERNAL_H
#define AIOSTREAM_INDEXSCAN_INTERNAL_H

#include "access/genam.h"
#include "access/htup.h"
#include "access/itup.h"
#include "access/relscan.h"
#include "access/sdir.h"
#include "scan/scan_internal.h"

typedef struct AiostreamIndexFetch AiostreamIndexFetch;

/* An index entry whose row the scan's snapshot sees */
typedef struct AiostreamIndexEntry
{
	bool		recheck;		/* the index was lossy: test its conditions */
	bool		heap_fetched;	/* false: the visibility map said enough */

	/*
	 * index-only: the row's identity, and the row, one of these until the
	 * next call
	 */
	ItemPointerData tid;
	IndexTuple	itup;
	HeapTuple	hitup;
} AiostreamIndexEntry;

/*
 * Allocates in cxt, which must live as long as the scan.  vmbuffer: for an
 * index-only scan, where to keep the visibility map's page pinned; else NULL.
 * plan_flags: AIOSTREAM_PLAN_..., see scan.h.
 */
extern AiostreamIndexFetch *aiostream_indexfetch_create(MemoryContext cxt,
														Buffer *vmbuffer,
														int plan_flags);

/*
 * The next entry in the given direction; false at the end.  slot gets the row's
 * visible version, if it was fetched: always, other than in an index-only scan.
 * *heap_fetches counts attempts.  After true the index scan may be anywhere
 * behind the entry: its xs_ fields are not the entry's.
 */
extern bool aiostream_indexfetch_next(AiostreamIndexFetch *fetch, IndexScanDesc scan,
									  ScanDirection direction, TupleTableSlot *slot,
									  AiostreamIndexEntry *entry,
									  double *heap_fetches);

/* Call with each rescan of the index scan, before or after it. */
extern void aiostream_indexfetch_rescan(AiostreamIndexFetch *fetch);
extern void aiostream_indexfetch_end(AiostreamIndexFetch *fetch);
extern void aiostream_indexfetch_stats(AiostreamIndexFetch *fetch,
									   AiostreamStreamStats *stats);

/* indexscan_queue.c: entries read ahead of the fetches */
#define AIOSTREAM_ENTRY_RECHECK		0x01
#define AIOSTREAM_ENTRY_ALL_VISIBLE 0x02	/* no need to visit the heap */
#define AIOSTREAM_ENTRY_ANNOUNCED	0x04	/* the stream will hand out its
											 * block */
#define AIOSTREAM_ENTRY_HEAP_TUPLE	0x08	/* index-only: data is a HeapTuple */

typedef struct AiostreamQueueEntry
{
	ItemPointerData tid;
	uint16		flags;
} AiostreamQueueEntry;

typedef struct AiostreamEntryQueue
{
	MemoryContext cxt;
	bool		with_data;		/* index-only: has copies of index tuples */
	AiostreamQueueEntry *entries;
	void	  **data;
	uint32		head;
	uint32		tail;
	uint32		size;
	Size		data_size;		/* of the copies queued */
	void	   *current_data;	/* of the entry taken out last */
} AiostreamEntryQueue;

static inline uint32
aiostream_entryqueue_length(const AiostreamEntryQueue *queue)
{
	return queue->tail - queue->head;
}

extern void aiostream_entryqueue_init(AiostreamEntryQueue *queue, MemoryContext cxt,
									  bool with_data);

/* Append the entry that the index scan has just returned. */
extern AiostreamQueueEntry *aiostream_entryqueue_push(AiostreamEntryQueue *queue,
													  IndexScanDesc scan,
													  ItemPointer tid);
extern AiostreamQueueEntry aiostream_entryqueue_pop(AiostreamEntryQueue *queue);
extern void aiostream_entryqueue_clear(AiostreamEntryQueue *queue);

/*
 * sweep.c: reading all of a relation.  Call _missed after each page of it that core had
 * to read; it does not wait.
 */
typedef struct AiostreamSweep AiostreamSweep;

extern AiostreamSweep *aiostream_sweep_create(MemoryContext cxt, Relation rel);
extern void aiostream_sweep_missed(AiostreamSweep *sweep);
extern void aiostream_sweep_end(AiostreamSweep *sweep);
extern void aiostream_sweep_stats(AiostreamSweep *sweep, AiostreamStreamStats *stats);

/*
 * leafahead.c: reading a B-tree's leaf pages ahead.  _create returns NULL for other
 * indexes.  Call _entry after each entry that the scan has read, with its
 * direction (missed: a page was read for it); it may wait for reads.  _restart
 * when the scan is moved.
 */
typedef struct AiostreamLeafAhead AiostreamLeafAhead;

extern AiostreamLeafAhead *aiostream_leafahead_create(MemoryContext cxt, Relation index,
													  int plan_flags);
extern void aiostream_leafahead_entry(AiostreamLeafAhead *ahead, IndexScanDesc scan,
									  ScanDirection direction, bool missed);
extern void aiostream_leafahead_restart(AiostreamLeafAhead *ahead);
extern void aiostream_leafahead_end(AiostreamLeafAhead *ahead);
extern void aiostream_leafahead_stats(AiostreamLeafAhead *ahead,
									  AiostreamStreamStats *stats);

/*
 * leafparents.c: the B-tree pages above the leaves, for leafahead.c only.  Never raises
 * an error for what is wrong with a page.
 */
typedef struct AiostreamLeafParents AiostreamLeafParents;

/* Leaf pages that a level-1 page names, in the order of the scan */
typedef struct AiostreamLeafChildren
{
	int			n;
	int			next;			/* not yet announced from here on */
	BlockNumber next_parent;	/* level-1 page that follows, or P_NONE */
	BlockNumber leaf[MaxIndexTuplesPerPage];
} AiostreamLeafChildren;

extern AiostreamLeafParents *aiostream_leafparents_create(MemoryContext cxt, Relation index,
														  BlockNumber nblocks);
extern bool aiostream_leafparents_read(AiostreamLeafParents *parents, BlockNumber parent,
									   bool backward, AiostreamLeafChildren *children);
extern bool aiostream_leafparents_find(AiostreamLeafParents *parents, BlockNumber leaf,
									   bool backward, AiostreamLeafChildren *children);
extern void aiostream_leafparents_end(AiostreamLeafParents *parents);
extern void aiostream_leafparents_stats(AiostreamLeafParents *parents,
										AiostreamStreamStats *stats);

#endif							/* AIOSTREAM_INDEXSCAN_INTERNAL_H */
