/*
 * index_build.c
 *		Index builds on aioheap tables: core's code, with reads ahead of it.
 *
 * Which tuples of a HOT chain go into an index, and whose transactions to wait
 * for, is core's to decide, so its own callbacks do the work.  They call
 * heap_getnext(), which takes relations only whose rd_tableam is heap's own
 * routine.  So we give them a COPY of the relation's descriptor in which it
 * is.  (Changing the original for the duration would not last: a relcache
 * invalidation may rebuild it in the middle.)
 *
 * What makes the copy safe, for as long as the caller holds the original open:
 *
 * - Scans count references in the copy's own rd_refcnt, and the resource owner
 *   remembers the copy's address.  At an error it is still needed when the
 *   resource owner is released: it lives in TopTransactionContext.
 * - rd_smgr begins as NULL.  The smgr level keeps one back link to the owner of
 *   an SMgrRelation; copy and original may take it from each other at any time,
 *   as each reopens at need.  When we leave, nobody may point at
 *   the copy any more: release_smgr().
 * - pgstat_info has a back link as well.  The original is made to have its
 *   entry first; the copy shares it and is never linked.
 * - A relcache rebuild of the original keeps rd_rel and, as our lock excludes
 *   changes, rd_att where they are; rd_options it frees, so that is copied.
 *   Partition descriptors, which closing a relation looks at, are set to NULL.
 *
 * Reading ahead: core drives the scan and calls the index AM's callback for
 * each tuple.  We put our own in between, and it tells scan/rangefollow.c of
 * each new heap block.  Where that is called too seldom (a partial index whose
 * predicate few tuples match) or not at all (validation, the second scan of
 * CREATE INDEX CONCURRENTLY), it is a scan key that tells: one which
 * matches everything.  Core begins such a scan through the copy's rd_tableam,
 * and there we add the key.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "am/am_internal.h"
#include "pgstat.h"
#include "scan/scan.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Stands between core's scan and the index AM's callback */
typedef struct AiostreamBuildCallback
{
	IndexBuildCallback callback;	/* the index AM's */
	void	   *callback_state;
	AiostreamRangeFollower *follower;
} AiostreamBuildCallback;

static void
build_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			   bool tuple_is_alive, void *state)
{
	AiostreamBuildCallback *wrapped = (AiostreamBuildCallback *) state;

	aiostream_rangefollow_block(wrapped->follower, ItemPointerGetBlockNumber(tid));
	wrapped->callback(index, tid, values, isnull, tuple_is_alive,
					  wrapped->callback_state);
}

/* ------------------------------------------------------------------------
 * The copy that passes for a heap relation
 * ------------------------------------------------------------------------
 */

typedef struct AiostreamHeapCopy
{
	RelationData rel;			/* must be first */
	AiostreamRangeFollower *follower;	/* for the key; NULL: none wanted */
} AiostreamHeapCopy;

/*
 * scan_begin of a copy whose scan is to have the key.  From here on its routine
 * is heap's own.
 */
static TableScanDesc
begin_scan_with_key(Relation rel, Snapshot snapshot, int nkeys,
					struct ScanKeyData *key, ParallelTableScanDesc pscan,
					uint32 flags)
{
	AiostreamHeapCopy *copy = (AiostreamHeapCopy *) rel;
	ScanKeyData notice;

	Assert(nkeys == 0 && pscan == NULL && copy->follower != NULL);
	aiostream_rangefollow_scankey(copy->follower, &notice);
	rel->rd_tableam = GetHeapamTableAmRoutine();
	return heap_beginscan(rel, snapshot, 1, &notice, NULL, flags);
}

/* Heap's routine, but for scan_begin */
static const TableAmRoutine *
routine_with_key(void)
{
	static TableAmRoutine routine;

	if (routine.type != T_TableAmRoutine)
	{
		routine = *GetHeapamTableAmRoutine();
		routine.scan_begin = begin_scan_with_key;
	}
	return &routine;
}

/* A scan that has been begun without the key gets it here. */
static void
add_key(TableScanDesc scan, AiostreamRangeFollower *follower)
{
	Assert(scan->rs_nkeys == 0 && scan->rs_key == NULL);
	scan->rs_key = MemoryContextAlloc(GetMemoryChunkContext(scan), sizeof(ScanKeyData));
	aiostream_rangefollow_scankey(follower, scan->rs_key);
	scan->rs_nkeys = 1;
}

static Relation
copy_as_heap(Relation rel)
{
	Relation	copy;

	/* Links the original to its statistics entry, if it is to have one */
	(void) pgstat_should_count_relation(rel);

	copy = MemoryContextAllocZero(TopTransactionContext, sizeof(AiostreamHeapCopy));
	*copy = *rel;
	copy->rd_tableam = GetHeapamTableAmRoutine();
	copy->rd_smgr = NULL;
	copy->rd_pdcxt = NULL;
	copy->rd_pddcxt = NULL;
	if (rel->rd_options != NULL)
	{
		copy->rd_options = MemoryContextAlloc(TopTransactionContext,
											  VARSIZE(rel->rd_options));
		memcpy(copy->rd_options, rel->rd_options, VARSIZE(rel->rd_options));
	}
	Assert(copy->rd_refcnt > 0);
	return copy;
}

/* Let go of the smgr level's link to the copy; also done at an error. */
static void
release_smgr(Relation copy)
{
	if (copy->rd_smgr != NULL)
		smgrclearowner(&copy->rd_smgr, copy->rd_smgr);
	Assert(copy->rd_smgr == NULL);
}

static void
free_copy(Relation copy)
{
	if (copy->rd_options != NULL)
		pfree(copy->rd_options);
	pfree(copy);
}

/*
 * Give a parallel build's scan, which our caller began on the original, to the
 * copy: core will end it with heap_endscan(), which drops the reference of
 * the relation it finds there.
 */
static void
give_scan_to_copy(TableScanDesc scan, Relation copy)
{
	Relation	rel = scan->rs_rd;

	Assert(!((HeapScanDesc) scan)->rs_inited);
	RelationIncrementReferenceCount(copy);
	scan->rs_rd = copy;
	RelationDecrementReferenceCount(rel);
}

/* Let the follower hear of rows by a key of the scan, begun already or not. */
static void
notice_by_key(Relation copy, TableScanDesc scan, AiostreamRangeFollower *follower)
{
	if (scan != NULL)
		add_key(scan, follower);
	else
	{
		((AiostreamHeapCopy *) copy)->follower = follower;
		copy->rd_tableam = routine_with_key();
	}
}

/* ------------------------------------------------------------------------
 * The callbacks
 * ------------------------------------------------------------------------
 */

double
aiostream_index_build_range_scan(Relation heap, Relation index,
								 IndexInfo *index_info, bool allow_sync,
								 bool anyvisible, bool progress,
								 BlockNumber start_block, BlockNumber nblocks,
								 IndexBuildCallback callback, void *callback_state,
								 TableScanDesc scan)
{
	const TableAmRoutine *heapam = GetHeapamTableAmRoutine();
	Relation	copy = copy_as_heap(heap);
	bool		parallel = scan != NULL && scan->rs_parallel != NULL;
	AiostreamBuildCallback wrapped;
	double		reltuples = 0;

	wrapped.callback = callback;
	wrapped.callback_state = callback_state;
	wrapped.follower = aiostream_rangefollow_begin(heap, parallel ? scan : NULL,
												   allow_sync, start_block, nblocks);
	if (scan != NULL)
		give_scan_to_copy(scan, copy);
	if (wrapped.follower != NULL && index_info->ii_Predicate != NIL)
		notice_by_key(copy, scan, wrapped.follower);
	else if (wrapped.follower != NULL)
	{
		callback = build_callback;
		callback_state = &wrapped;
	}

	PG_TRY();
	{
		reltuples = heapam->index_build_range_scan(copy, index, index_info,
												   allow_sync, anyvisible, progress,
												   start_block, nblocks,
												   callback, callback_state, scan);
	}
	PG_FINALLY();
	{
		release_smgr(copy);
	}
	PG_END_TRY();

	if (wrapped.follower != NULL)
		aiostream_rangefollow_end(wrapped.follower);
	free_copy(copy);
	return reltuples;
}

void
aiostream_index_validate_scan(Relation heap, Relation index,
							  IndexInfo *index_info, Snapshot snapshot,
							  ValidateIndexState *state)
{
	const TableAmRoutine *heapam = GetHeapamTableAmRoutine();
	Relation	copy = copy_as_heap(heap);
	AiostreamRangeFollower *follower;

	follower = aiostream_rangefollow_begin(heap, NULL, false, 0, InvalidBlockNumber);
	if (follower != NULL)
		notice_by_key(copy, NULL, follower);

	PG_TRY();
	{
		heapam->index_validate_scan(copy, index, index_info, snapshot, state);
	}
	PG_FINALLY();
	{
		release_smgr(copy);
	}
	PG_END_TRY();

	if (follower != NULL)
		aiostream_rangefollow_end(follower);
	free_copy(copy);
}
