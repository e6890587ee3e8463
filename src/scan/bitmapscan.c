/*
 * bitmapscan.c
 *		AioBitmapHeapScan: the executor side of the custom scan node that stands
 *		in for a BitmapHeapScan.
 *
 * The bitmap comes from core's own nodes below (index scans, AND, OR); its pages
 * are read through a stream, whose look-ahead pulls them from the bitmap's
 * iterator; core's table access method decides what is visible on each page.
 *
 * In a parallel plan one process makes the bitmap in the query's DSA area, the
 * others wait for it, and all pull pages from its shared iterator; what a
 * process's look-ahead has pulled, that process scans.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "scan/scan_internal.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

typedef enum BitmapPhase
{
	BITMAP_WANTED,				/* nobody makes it yet */
	BITMAP_IN_THE_MAKING,
	BITMAP_READY
} BitmapPhase;

/* In the DSM area */
typedef struct AiostreamBitmapShared
{
	slock_t		mutex;			/* protects phase */
	BitmapPhase phase;
	ConditionVariable cv;		/* phase became BITMAP_READY */
	dsa_pointer iterator;
	int			nworkers;
	AiostreamStreamStats worker[FLEXIBLE_ARRAY_MEMBER];
} AiostreamBitmapShared;

typedef struct AiostreamBitmapScanState
{
	CustomScanState css;		/* must be first */
	PlanState  *bitmap_node;	/* core's nodes that make the bitmap */
	ExprState  *recheck_qual;
	AiostreamBitmapShared *shared;	/* NULL outside of a parallel query */

	TIDBitmap  *bitmap;			/* ours to free, or NULL */
	TBMIterator *iterator;
	TBMSharedIterator *shared_iterator;
	bool		started;		/* one of the iterators is there */

	AiostreamStream *stream;	/* NULL: streams are not usable */
	BlockNumber stream_nblocks; /* length that it was told */
	MemoryContext cxt;
	TBMIterateResult *page;		/* current page, or NULL */
	TBMIterateResult *taken;	/* place for one that came from the queue */
	MemoryContext rows_cxt;		/* for QueuedPage, or NULL */

	int			plan_flags;		/* AIOSTREAM_PLAN_... */
	uint64		consumed;		/* pages, in all rounds */

	int64		exact_pages;
	int64		lossy_pages;
	AiostreamStreamStats past;	/* of streams that have ended */
	AiostreamStreamStats workers;	/* leader: collected */
} AiostreamBitmapScanState;

/*
 * A page in the stream's queue.  Hundreds of them are, and most name a few rows: room
 * for all that a page can have would be more memory than the CPU's cache has.
 */
#define FEW_ROWS	24
typedef struct QueuedPage
{
	OffsetNumber *many;			/* where there are more, or NULL */
	int			ntuples;		/* -1: all there may be (lossy) */
	bool		recheck;
	OffsetNumber few[FEW_ROWS];
} QueuedPage;

#define PAGE_RESULT_SIZE \
	(offsetof(TBMIterateResult, offsets) + MaxHeapTuplesPerPage * sizeof(OffsetNumber))

/* ------------------------------------------------------------------------
 * The bitmap
 * ------------------------------------------------------------------------
 */

static TIDBitmap *
make_bitmap(AiostreamBitmapScanState *state)
{
	TIDBitmap  *bitmap = (TIDBitmap *) MultiExecProcNode(state->bitmap_node);

	if (bitmap == NULL || !IsA(bitmap, TIDBitmap))
		elog(ERROR, "unrecognized result from subplan");
	return bitmap;
}

/* Is it on us to make the shared bitmap? Otherwise it is ready on return. */
static bool
shared_bitmap_is_ours(AiostreamBitmapShared *shared)
{
	BitmapPhase phase;

	for (;;)
	{
		SpinLockAcquire(&shared->mutex);
		phase = shared->phase;
		if (phase == BITMAP_WANTED)
			shared->phase = BITMAP_IN_THE_MAKING;
		SpinLockRelease(&shared->mutex);

		if (phase != BITMAP_IN_THE_MAKING)
			break;
		ConditionVariableSleep(&shared->cv, WAIT_EVENT_PARALLEL_BITMAP_SCAN);
	}
	ConditionVariableCancelSleep();
	return phase == BITMAP_WANTED;
}

static void
start_bitmap(AiostreamBitmapScanState *state)
{
	AiostreamBitmapShared *shared = state->shared;

	if (shared == NULL)
	{
		state->bitmap = make_bitmap(state);
		state->iterator = tbm_begin_iterate(state->bitmap);
	}
	else
	{
		if (shared_bitmap_is_ours(shared))
		{
			state->bitmap = make_bitmap(state);
			shared->iterator = tbm_prepare_shared_iterate(state->bitmap);
			SpinLockAcquire(&shared->mutex);
			shared->phase = BITMAP_READY;
			SpinLockRelease(&shared->mutex);
			ConditionVariableBroadcast(&shared->cv);
		}
		state->shared_iterator =
			tbm_attach_shared_iterate(state->css.ss.ps.state->es_query_dsa,
									  shared->iterator);
	}
	state->started = true;
}

static void
end_bitmap(AiostreamBitmapScanState *state)
{
	if (state->iterator != NULL)
		tbm_end_iterate(state->iterator);
	if (state->shared_iterator != NULL)
		tbm_end_shared_iterate(state->shared_iterator);
	if (state->bitmap != NULL)
		tbm_free(state->bitmap);
	state->iterator = NULL;
	state->shared_iterator = NULL;
	state->bitmap = NULL;
	state->started = false;
	state->page = NULL;
	/* nothing is queued any more */
	if (state->rows_cxt != NULL)
		MemoryContextReset(state->rows_cxt);
}

/*
 * The bitmap's next page that the scan can see, or NULL; valid until the next call.
 * Pages behind the end of the table as the scan knows it hold nothing for its
 * snapshot.
 */
static TBMIterateResult *
next_bitmap_page(AiostreamBitmapScanState *state)
{
	HeapScanDesc scan = (HeapScanDesc) state->css.ss.ss_currentScanDesc;
	TBMIterateResult *page;

	do
	{
		page = state->iterator != NULL ? tbm_iterate(state->iterator) :
			tbm_shared_iterate(state->shared_iterator);
		if (page == NULL)
			return NULL;
		if (page->ntuples >= 0)
			state->exact_pages++;
		else
			state->lossy_pages++;
	} while (page->blockno >= scan->rs_nblocks);
	return page;
}

static BlockNumber
next_stream_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) callback_private;
	QueuedPage *queued = per_block;
	TBMIterateResult *page = next_bitmap_page(state);
	OffsetNumber *rows = queued->few;

	if (page == NULL)
		return InvalidBlockNumber;
	queued->ntuples = page->ntuples;
	queued->recheck = page->recheck;
	queued->many = NULL;
	if (page->ntuples > FEW_ROWS)
	{
		if (state->rows_cxt == NULL)
			state->rows_cxt = AllocSetContextCreate(state->cxt, "aiostream bitmap pages",
													ALLOCSET_DEFAULT_SIZES);
		rows = queued->many = MemoryContextAlloc(state->rows_cxt,
												 page->ntuples * sizeof(OffsetNumber));
	}
	memcpy(rows, page->offsets, Max(page->ntuples, 0) * sizeof(OffsetNumber));
	return page->blockno;
}

/* A page's turn has come. */
static TBMIterateResult *
take_page(AiostreamBitmapScanState *state, BlockNumber blkno, QueuedPage *queued)
{
	TBMIterateResult *page = state->taken;

	page->blockno = blkno;
	page->ntuples = queued->ntuples;
	page->recheck = queued->recheck;
	memcpy(page->offsets, queued->many != NULL ? queued->many : queued->few,
		   Max(queued->ntuples, 0) * sizeof(OffsetNumber));
	if (queued->many != NULL)
		pfree(queued->many);
	queued->many = NULL;
	return page;
}

/* ------------------------------------------------------------------------
 * From page to page, and from tuple to tuple
 * ------------------------------------------------------------------------
 */

static void
stop_stream(AiostreamBitmapScanState *state)
{
	AiostreamStreamStats stats;

	if (state->stream == NULL)
		return;
	aiostream_stream_get_stats(state->stream, &stats);
	aiostream_stream_stats_add(&state->past, &stats);
	aiostream_stream_end(state->stream);
	state->stream = NULL;
}

static void
start_scan(AiostreamBitmapScanState *state)
{
	ScanState  *ss = &state->css.ss;
	HeapScanDesc scan = (HeapScanDesc) ss->ss_currentScanDesc;
	MemoryContext old = MemoryContextSwitchTo(state->cxt);

	start_bitmap(state);
	if (aiostream_stream_usable(ss->ss_currentRelation) && scan->rs_nblocks > 0)
	{
		AiostreamStreamOptions options = {-1, -1, -1, -1, false, true, false};

		/*
		 * the bitmap says what will be wanted: all of it, unless the query
		 * stops, or other processes take their part of it
		 */
		options.eager = (state->plan_flags & AIOSTREAM_PLAN_CAREFUL) == 0 && state->shared == NULL;

		/* rescans keep it, unless the table has grown */
		if (state->stream != NULL && state->stream_nblocks != scan->rs_nblocks)
			stop_stream(state);
		if (state->stream == NULL)
		{
			state->stream_nblocks = scan->rs_nblocks;
			state->stream = aiostream_stream_begin(ss->ss_currentRelation, MAIN_FORKNUM,
												   scan->rs_nblocks, NULL,
												   next_stream_block, state,
												   sizeof(QueuedPage), &options);
			if (state->taken == NULL)
				state->taken = palloc(PAGE_RESULT_SIZE);
		}
	}
	else
		stop_stream(state);
	MemoryContextSwitchTo(old);
}

/* Have core look at the scan's next page; false at the end. */
static bool
step_page(AiostreamBitmapScanState *state)
{
	TableScanDesc scan = state->css.ss.ss_currentScanDesc;
	Buffer		pinned = InvalidBuffer;
	BlockNumber blkno;
	void	   *per_block = NULL;
	int64		reads;

	for (;;)
	{
		bool		valid;

		CHECK_FOR_INTERRUPTS();
		state->page = NULL;
		if (state->stream == NULL)
		{
			state->page = next_bitmap_page(state);
			if (state->page == NULL)
				return false;
			if (table_scan_bitmap_next_block(scan, state->page))
				return true;
			continue;
		}

		if (state->plan_flags & AIOSTREAM_PLAN_CAREFUL)
			aiostream_stream_bound(state->stream,
								   aiostream_careful_distance(state->plan_flags,
															  state->consumed));
		if (!aiostream_stream_next(state->stream, &blkno, &pinned, &per_block))
			return false;
		state->consumed++;
		state->page = take_page(state, blkno, (QueuedPage *) per_block);

		/* not pinned by us too: core would not prune it */
		if (BufferIsValid(pinned))
			ReleaseBuffer(pinned);
		reads = pgBufferUsage.shared_blks_read;
		valid = table_scan_bitmap_next_block(scan, state->page);
		if (!BufferIsValid(pinned))
			aiostream_stream_core_read(state->stream,
									   pgBufferUsage.shared_blks_read == reads);
		else if (pgBufferUsage.shared_blks_read == reads)
			aiostream_stream_uncount_hit(state->stream);
		if (valid)
			return true;
	}
}

static TupleTableSlot *
bitmapscan_access(ScanState *ss)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	ExprContext *econtext = ss->ps.ps_ExprContext;

	if (!state->started)
		start_scan(state);

	for (;;)
	{
		if (state->page == NULL && !step_page(state))
			return ExecClearTuple(slot);

		if (!table_scan_bitmap_next_tuple(ss->ss_currentScanDesc, state->page, slot))
		{
			state->page = NULL;
			continue;
		}
		if (!state->page->recheck)
			return slot;

		econtext->ecxt_scantuple = slot;
		if (ExecQualAndReset(state->recheck_qual, econtext))
			return slot;
		InstrCountFiltered2(&ss->ps, 1);
		ExecClearTuple(slot);
	}
}

/* EvalPlanQual: does the tuple still satisfy the index conditions? */
static bool
bitmapscan_recheck(ScanState *ss, TupleTableSlot *slot)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(state->recheck_qual, econtext);
}

static TupleTableSlot *
bitmapscan_exec(CustomScanState *node)
{
	return ExecScan(&node->ss, bitmapscan_access, bitmapscan_recheck);
}

/* ------------------------------------------------------------------------
 * Begin, end, rescan
 * ------------------------------------------------------------------------
 */

static void
bitmapscan_begin(CustomScanState *node, EState *estate, int eflags)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;
	CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);

	aiostream_scanstate_init(node, estate);
	state->cxt = CurrentMemoryContext;
	state->plan_flags = intVal(linitial(cscan->custom_private));
	state->recheck_qual = ExecInitQual(cscan->custom_exprs,
									   &node->ss.ps);
	state->bitmap_node = ExecInitNode((Plan *) linitial(cscan->custom_plans),
									  estate, eflags);
	node->custom_ps = list_make1(state->bitmap_node);
	node->ss.ss_currentScanDesc = table_beginscan_bm(node->ss.ss_currentRelation,
													 estate->es_snapshot, 0, NULL);
}

static void
bitmapscan_end(CustomScanState *node)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;

	stop_stream(state);
	ExecEndNode(state->bitmap_node);
	end_bitmap(state);
	table_endscan(node->ss.ss_currentScanDesc);
}

static void
bitmapscan_rescan(CustomScanState *node)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;

	if (state->stream != NULL)
		aiostream_stream_reset(state->stream);
	end_bitmap(state);
	table_rescan(node->ss.ss_currentScanDesc, NULL);
	ExecScanReScan(&node->ss);

	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(state->bitmap_node, node->ss.ps.chgParam);
	/* with changed parameters, its next execution rescans it */
	if (state->bitmap_node->chgParam == NULL)
		ExecReScan(state->bitmap_node);
}

/* ------------------------------------------------------------------------
 * Parallel query
 * ------------------------------------------------------------------------
 */

static Size
bitmapscan_estimate_dsm(CustomScanState *node, ParallelContext *pcxt)
{
	return add_size(offsetof(AiostreamBitmapShared, worker),
					mul_size(pcxt->nworkers, sizeof(AiostreamStreamStats)));
}

static void
bitmapscan_initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;
	AiostreamBitmapShared *shared = coordinate;

	/* without a DSA area there are no workers: run alone, as core does */
	state->shared = NULL;
	if (node->ss.ps.state->es_query_dsa == NULL)
		return;
	SpinLockInit(&shared->mutex);
	shared->phase = BITMAP_WANTED;
	ConditionVariableInit(&shared->cv);
	shared->iterator = InvalidDsaPointer;
	shared->nworkers = pcxt->nworkers;
	memset(shared->worker, 0, pcxt->nworkers * sizeof(AiostreamStreamStats));
	state->shared = shared;
}

static void
bitmapscan_reinitialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	AiostreamBitmapShared *shared = coordinate;
	dsa_area   *dsa = node->ss.ps.state->es_query_dsa;

	if (dsa == NULL)
		return;
	shared->phase = BITMAP_WANTED;
	if (DsaPointerIsValid(shared->iterator))
		tbm_free_shared_area(dsa, shared->iterator);
	shared->iterator = InvalidDsaPointer;
}

static void
bitmapscan_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;

	Assert(node->ss.ps.state->es_query_dsa != NULL);
	state->shared = coordinate;
}

static void
own_stats(AiostreamBitmapScanState *state, AiostreamStreamStats *stats)
{
	AiostreamStreamStats now;

	*stats = state->past;
	if (state->stream != NULL)
	{
		aiostream_stream_get_stats(state->stream, &now);
		aiostream_stream_stats_add(stats, &now);
	}
}

/* Before the DSM area goes: workers leave their counters, the leader collects. */
static void
bitmapscan_shutdown(CustomScanState *node)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;
	AiostreamBitmapShared *shared = state->shared;

	if (shared == NULL)
		return;
	if (IsParallelWorker())
	{
		AiostreamStreamStats stats;

		own_stats(state, &stats);
		aiostream_stream_stats_add(&shared->worker[ParallelWorkerNumber], &stats);
		return;
	}
	for (int i = 0; i < shared->nworkers; i++)
	{
		aiostream_stream_stats_add(&state->workers, &shared->worker[i]);
		memset(&shared->worker[i], 0, sizeof(AiostreamStreamStats));
	}
	state->shared = NULL;
}

/* ------------------------------------------------------------------------
 * EXPLAIN; the method tables
 * ------------------------------------------------------------------------
 */

static void
explain_pages(AiostreamBitmapScanState *state, ExplainState *es)
{
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyInteger("Exact Heap Blocks", NULL, state->exact_pages, es);
		ExplainPropertyInteger("Lossy Heap Blocks", NULL, state->lossy_pages, es);
		return;
	}
	if (state->exact_pages == 0 && state->lossy_pages == 0)
		return;
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfoString(es->str, "Heap Blocks:");
	if (state->exact_pages > 0)
		appendStringInfo(es->str, " exact=" INT64_FORMAT, state->exact_pages);
	if (state->lossy_pages > 0)
		appendStringInfo(es->str, " lossy=" INT64_FORMAT, state->lossy_pages);
	appendStringInfoChar(es->str, '\n');
}

static void
bitmapscan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	AiostreamBitmapScanState *state = (AiostreamBitmapScanState *) node;
	CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	Instrumentation *instrument = node->ss.ps.instrument;
	AiostreamStreamStats stats;

	aiostream_explain_qual("Recheck Cond", cscan->custom_exprs,
						   node, ancestors, es);
	if (!es->analyze)
		return;
	if (instrument != NULL && instrument->nfiltered2 > 0)
		ExplainPropertyFloat("Rows Removed by Index Recheck", NULL,
							 instrument->nfiltered2 / Max(instrument->nloops, 1), 0, es);
	explain_pages(state, es);
	own_stats(state, &stats);
	aiostream_stream_stats_add(&stats, &state->workers);
	aiostream_explain_stats(&stats, es);
}

static const CustomExecMethods bitmapscan_exec_methods = {
	.CustomName = "AioBitmapHeapScan",
	.BeginCustomScan = bitmapscan_begin,
	.ExecCustomScan = bitmapscan_exec,
	.EndCustomScan = bitmapscan_end,
	.ReScanCustomScan = bitmapscan_rescan,
	.EstimateDSMCustomScan = bitmapscan_estimate_dsm,
	.InitializeDSMCustomScan = bitmapscan_initialize_dsm,
	.ReInitializeDSMCustomScan = bitmapscan_reinitialize_dsm,
	.InitializeWorkerCustomScan = bitmapscan_initialize_worker,
	.ShutdownCustomScan = bitmapscan_shutdown,
	.ExplainCustomScan = bitmapscan_explain,
};

static Node *
bitmapscan_create_state(CustomScan *cscan)
{
	AiostreamBitmapScanState *state = palloc0(sizeof(AiostreamBitmapScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &bitmapscan_exec_methods;
	return (Node *) state;
}

const CustomScanMethods aiostream_bitmapscan_methods = {
	.CustomName = "AioBitmapHeapScan",
	.CreateCustomScanState = bitmapscan_create_state,
};
