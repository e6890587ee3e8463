/*
 * am_internal.h
 *		Shared by the files of this folder only.
 */
#ifndef AIOSTREAM_AM_INTERNAL_H
#define AIOSTREAM_AM_INTERNAL_H

#include "am/am.h"
#include "catalog/index.h"
#include "nodes/execnodes.h"

/* Callbacks of the routine, implemented in index_build.c */
extern double aiostream_index_build_range_scan(Relation heap, Relation index,
											   IndexInfo *index_info,
											   bool allow_sync, bool anyvisible,
											   bool progress,
											   BlockNumber start_block,
											   BlockNumber nblocks,
											   IndexBuildCallback callback,
											   void *callback_state,
											   TableScanDesc scan);
extern void aiostream_index_validate_scan(Relation heap, Relation index,
										  IndexInfo *index_info,
										  Snapshot snapshot,
										  ValidateIndexState *state);

/* and in cluster.c */
extern bool aiostream_index_fetch_tuple(struct IndexFetchTableData *fetch,
										ItemPointer tid, Snapshot snapshot,
										TupleTableSlot *slot, bool *call_again,
										bool *all_dead);
extern void aiostream_copy_for_cluster(Relation old_heap, Relation new_heap,
									   Relation old_index, bool use_sort,
									   TransactionId oldest_xmin,
									   TransactionId *xid_cutoff,
									   MultiXactId *multi_cutoff,
									   double *num_tuples, double *tups_vacuumed,
									   double *tups_recently_dead);

/* adopt.c: OID of the access method aioheap in this database */
extern Oid	aiostream_aioheap_oid(void);

#endif							/* AIOSTREAM_AM_INTERNAL_H */
