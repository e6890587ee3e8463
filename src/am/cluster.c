/*
 * cluster.c
 *		CLUSTER by an index scan on aioheap tables: core's code, with reads ahead of it.
 *
 * Core's own callback copies the table: which rows, and what becomes of dead ones
 * and of update chains, is its business.  If it goes by sequential scan (CLUSTER
 * with a sort, VACUUM FULL) that is one of ours already.  If it goes by the
 * index, rows are fetched through the callback index_fetch_tuple: there we
 * listen, for as long as the copying lasts, and a scout (scan/scout.c) reads
 * ahead.  The table is locked in AccessExclusiveLock.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "am/am_internal.h"
#include "scan/scan.h"

/* The table being copied by an index scan in this process, and its scout */
static Relation copied;
static AiostreamScout *scout;

bool
aiostream_index_fetch_tuple(struct IndexFetchTableData *fetch, ItemPointer tid,
							Snapshot snapshot, TupleTableSlot *slot,
							bool *call_again, bool *all_dead)
{
	const TableAmRoutine *heapam = GetHeapamTableAmRoutine();
	bool		found;

	if (likely(scout == NULL || fetch->rel != copied || *call_again))
		return heapam->index_fetch_tuple(fetch, tid, snapshot, slot, call_again, all_dead);

	aiostream_scout_fetching(scout, ItemPointerGetBlockNumber(tid));
	found = heapam->index_fetch_tuple(fetch, tid, snapshot, slot, call_again, all_dead);
	aiostream_scout_fetched(scout);
	return found;
}

void
aiostream_copy_for_cluster(Relation old_heap, Relation new_heap, Relation old_index,
						   bool use_sort, TransactionId oldest_xmin,
						   TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
						   double *num_tuples, double *tups_vacuumed,
						   double *tups_recently_dead)
{
	AiostreamScout *mine = NULL;

	Assert(scout == NULL);
	if (old_index != NULL && !use_sort)
		mine = aiostream_scout_begin(old_heap, old_index);

	PG_TRY();
	{
		copied = old_heap;
		scout = mine;
		GetHeapamTableAmRoutine()->relation_copy_for_cluster(old_heap, new_heap, old_index,
															 use_sort, oldest_xmin,
															 xid_cutoff, multi_cutoff,
															 num_tuples, tups_vacuumed,
															 tups_recently_dead);
	}
	PG_FINALLY();
	{
		copied = NULL;
		scout = NULL;
	}
	PG_END_TRY();

	if (mine != NULL)
		aiostream_scout_end(mine);
}
