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
	ItemPointerData tid;		/* of the row's visible version, if fetched */
	/* index-only: the row, one of these; valid until the next call */
	IndexTuple	itup;
	HeapTuple	hitup;
} AiostreamIndexEntry;

/*
 * Allocates in cxt, which must live as long as the scan.  vmbuffer: for an
 * index-only scan, where to keep the visibility map's page pinned; else NULL.
 * careful: the consumer may stop early, so let look-ahead grow slowly.
 */
extern AiostreamIndexFetch *aiostream_indexfetch_create(MemoryContext cxt,
														Buffer *vmbuffer,
														bool careful);

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

/*
 * leafahead.c: reading a B-tree's leaf pages ahead.  _create returns NULL for other
 * indexes.  Call _entry after each entry that the scan has read, with its
 * direction (missed: a page was read for it); it may wait for reads.  _restart
 * when the scan is moved.
 */
typedef struct AiostreamLeafAhead AiostreamLeafAhead;

extern AiostreamLeafAhead *aiostream_leafahead_create(MemoryContext cxt, Relation index,
													  bool careful);
extern void aiostream_leafahead_entry(AiostreamLeafAhead *ahead, IndexScanDesc scan,
									  ScanDirection direction, bool missed);
extern void aiostream_leafahead_restart(AiostreamLeafAhead *ahead);
extern void aiostream_leafahead_end(AiostreamLeafAhead *ahead);
extern void aiostream_leafahead_stats(AiostreamLeafAhead *ahead,
									  AiostreamStreamStats *stats);

#endif							/* AIOSTREAM_INDEXSCAN_INTERNAL_H */
