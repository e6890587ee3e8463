/*
 * scan.h
 *		Public interface of the scan layer: heap scans over a stream, and the
 *		executor side of the custom scan nodes.
 */
#ifndef AIOSTREAM_SCAN_H
#define AIOSTREAM_SCAN_H

#include "access/relscan.h"
#include "executor/tuptable.h"
#include "nodes/extensible.h"
#include "stream/stream.h"

/*
 * Heap scans with look-ahead.  Same contracts as heap_beginscan and friends
 * (a descriptor that is a HeapScanDesc first), for relations in heap's page
 * format: heap and aioheap tables.  Pages go through core's heapgetpage(); where
 * a stream is not usable, or the scan is not in page-at-a-time mode, it is
 * core's heap_getnextslot().  Parallel, backward and synchronized scans as heap.
 */
extern TableScanDesc aiostream_heapscan_begin(Relation rel, Snapshot snapshot,
											  int nkeys, struct ScanKeyData *key,
											  ParallelTableScanDesc pscan,
											  uint32 flags);
extern void aiostream_heapscan_rescan(TableScanDesc scan, struct ScanKeyData *key,
									  bool set_params, bool allow_strat,
									  bool allow_sync, bool allow_pagemode);
extern void aiostream_heapscan_end(TableScanDesc scan);
extern bool aiostream_heapscan_getnextslot(TableScanDesc scan,
										   ScanDirection direction,
										   TupleTableSlot *slot);

/*
 * The callback scan_analyze_next_block: core's, with reads ahead of it.  (That of the
 * tuples is core's.)
 */
extern bool aiostream_heapscan_analyze_next_block(TableScanDesc scan,
												  BlockNumber blkno,
												  BufferAccessStrategy strategy);

/* What the scan's streams did so far, all rescans together */
extern void aiostream_heapscan_stats(TableScanDesc scan,
									 AiostreamStreamStats *stats);

/*
 * May rel be scanned with the functions above? True for tables whose access
 * method is heap, or one whose scans are these functions (aioheap).
 */
extern bool aiostream_heapscan_supported(Relation rel);

/*
 * Reading ahead of a sequential scan of a heap-format table that core drives:
 * see rangefollow.c.  Begin before the scan: returns NULL where look-ahead is not
 * possible or not worth it.  parallel_scan: this process's descriptor of a
 * parallel scan, or NULL; then start_block, count (InvalidBlockNumber: to the
 * end) and allow_sync say what core will scan.  Call _block at each new block;
 * it may wait for reads, and so raise interrupts.  Allocates in
 * CurrentMemoryContext; after an error it need not be ended.
 */
typedef struct AiostreamRangeFollower AiostreamRangeFollower;

extern AiostreamRangeFollower *aiostream_rangefollow_begin(Relation rel,
														   TableScanDesc parallel_scan,
														   bool allow_sync,
														   BlockNumber start_block,
														   BlockNumber count);
extern void aiostream_rangefollow_block(AiostreamRangeFollower *follower,
										BlockNumber block);
extern void aiostream_rangefollow_end(AiostreamRangeFollower *follower);

/*
 * Where rows come out too seldom: a key for heap_beginscan() that matches every row
 * which the scan's snapshot sees, and tells the follower of its block.  In a scan that is
 * not in page-at-a-time mode core holds the page's content lock meanwhile.
 */
extern void aiostream_rangefollow_scankey(AiostreamRangeFollower *follower,
										  struct ScanKeyData *key);

/*
 * Reading ahead of core's scan of a whole index in forward direction, with rows fetched by
 * SnapshotAny: see scout.c.  The caller holds AccessExclusiveLock on the table.  _begin
 * returns NULL where look-ahead is not possible.  Call _fetching before, and _fetched after
 * core's first fetch for each index entry; the former may wait for reads, and so
 * raise interrupts.  After an error it need not be ended.
 */
typedef struct AiostreamScout AiostreamScout;

extern AiostreamScout *aiostream_scout_begin(Relation heap, Relation index);
extern void aiostream_scout_fetching(AiostreamScout *scout, BlockNumber blkno);
extern void aiostream_scout_fetched(AiostreamScout *scout);
extern void aiostream_scout_end(AiostreamScout *scout);

/* AioSeqScan's methods: registered in _PG_init, used by plan/ */
extern const CustomScanMethods aiostream_seqscan_methods;

/*
 * AioIndexScan's and AioIndexOnlyScan's: the plan node's one custom plan is the core
 * node that it stands in for, without quals.  AioBitmapHeapScan's: core's nodes that make
 * the bitmap.  custom_private holds one Integer, of these flags; a bitmap scan's
 * are of the first two.
 */
#define AIOSTREAM_PLAN_CAREFUL		0x01	/* the consumer may stop early */
#define AIOSTREAM_PLAN_FEW_ROWS		0x10	/* and will after a few rows */
#define AIOSTREAM_PLAN_FEW_BLOCKS	0x02	/* too few for look-ahead, each
											 * time */
#define AIOSTREAM_PLAN_SWEEP_TABLE	0x04	/* most of the table will be
											 * visited */
#define AIOSTREAM_PLAN_SWEEP_INDEX	0x08	/* and of the index: see sweep.c */

extern const CustomScanMethods aiostream_indexscan_methods;
extern const CustomScanMethods aiostream_indexonlyscan_methods;
extern const CustomScanMethods aiostream_bitmapscan_methods;
extern void aiostream_scan_register(void);

#endif							/* AIOSTREAM_SCAN_H */
