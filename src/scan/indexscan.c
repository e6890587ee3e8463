/*
 * indexscan.c
 *		AioIndexScan and AioIndexOnlyScan: the executor side of the custom scan
 *		nodes that stand in for IndexScan and IndexOnlyScan.
 *
 * Each has a core node of the kind it stands in for, which is initialized, rescanned
 * and ended by core's functions but never executed.  It owns the
 * scan keys, their run-time values, the index scan and its part of a parallel
 * query.  We run its index scan ourselves (indexscan_ahead.c), test the remaining
 * conditions and compute the target list.
 *
 * A merge join that must go back to a mark gets a Materialize node from the
 * planner, as the flag for that is not set.  Scrolling backwards works where
 * the index access method can turn round.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/nodeIndexonlyscan.h"
#include "executor/nodeIndexscan.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "scan/indexscan_internal.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

/* In the DSM area */
typedef struct AiostreamIndexScanShared
{
	int			nworkers;
	AiostreamStreamStats worker[FLEXIBLE_ARRAY_MEMBER];
} AiostreamIndexScanShared;

typedef struct AiostreamIndexScanState
{
	CustomScanState css;		/* must be first */
	/* core's node: one of the two */
	IndexScanState *index;
	IndexOnlyScanState *indexonly;
	bool		descending;		/* planned as a backward scan of the index */
	AiostreamIndexFetch *fetch;
	double		uncounted;		/* heap fetches, without instrumentation */

	AiostreamIndexScanShared *shared;	/* NULL outside of a parallel query */
	AiostreamStreamStats workers;	/* leader: collected from workers */
	AiostreamStreamStats slot_base; /* worker: what its slot held before */
} AiostreamIndexScanState;

static inline PlanState *
core_node(AiostreamIndexScanState *state)
{
	return state->index != NULL ? &state->index->ss.ps : &state->indexonly->ss.ps;
}

/* ------------------------------------------------------------------------
 * The rows
 * ------------------------------------------------------------------------
 */

static inline ScanDirection
scan_direction(AiostreamIndexScanState *state)
{
	ScanDirection direction = state->css.ss.ps.state->es_direction;

	return state->descending ? -direction : direction;
}

static inline double *
heap_fetch_counter(AiostreamIndexScanState *state)
{
	Instrumentation *instrument = state->css.ss.ps.instrument;

	return instrument != NULL ? &instrument->ntuples2 : &state->uncounted;
}

static pg_noinline IndexScanDesc
begin_indexscan(AiostreamIndexScanState *state)
{
	IndexScanState *index = state->index;

	/* Not parallel, or a parallel plan run without a DSM area */
	index->iss_ScanDesc = index_beginscan(index->ss.ss_currentRelation,
										  index->iss_RelationDesc,
										  index->ss.ps.state->es_snapshot,
										  index->iss_NumScanKeys, 0);
	index_rescan(index->iss_ScanDesc, index->iss_ScanKeys, index->iss_NumScanKeys, NULL, 0);
	return index->iss_ScanDesc;
}

static TupleTableSlot *
index_access(ScanState *ss)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) ss;
	IndexScanState *index = state->index;
	IndexScanDesc scan = index->iss_ScanDesc;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	AiostreamIndexEntry entry;

	if (unlikely(scan == NULL))
		scan = begin_indexscan(state);

	while (aiostream_indexfetch_next(state->fetch, scan, scan_direction(state), slot,
									 &entry, &state->uncounted))
	{
		if (entry.recheck)
		{
			ExprContext *econtext = index->ss.ps.ps_ExprContext;

			econtext->ecxt_scantuple = slot;
			if (!ExecQualAndReset(index->indexqualorig, econtext))
			{
				InstrCountFiltered2(ss, 1);
				continue;
			}
		}
		return slot;
	}
	return ExecClearTuple(slot);
}

/* EvalPlanQual has another version of the row: does the index's condition hold? */
static bool
index_recheck(ScanState *ss, TupleTableSlot *slot)
{
	IndexScanState *index = ((AiostreamIndexScanState *) ss)->index;
	ExprContext *econtext = index->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(index->indexqualorig, econtext);
}

static TupleTableSlot *
indexscan_exec_node(PlanState *ps)
{
	IndexScanState *index = ((AiostreamIndexScanState *) ps)->index;

	if (index->iss_NumRuntimeKeys != 0 && !index->iss_RuntimeKeysReady)
		ExecReScan(ps);
	return ExecScan((ScanState *) ps, index_access, index_recheck);
}

static TupleTableSlot *
indexscan_exec(CustomScanState *node)
{
	return indexscan_exec_node(&node->ss.ps);
}

/* ------------------------------------------------------------------------
 * The rows of an index-only scan
 * ------------------------------------------------------------------------
 */

static pg_noinline IndexScanDesc
begin_indexonlyscan(AiostreamIndexScanState *state)
{
	IndexOnlyScanState *index = state->indexonly;

	index->ioss_ScanDesc = index_beginscan(index->ss.ss_currentRelation,
										   index->ioss_RelationDesc,
										   index->ss.ps.state->es_snapshot,
										   index->ioss_NumScanKeys, 0);
	index->ioss_ScanDesc->xs_want_itup = true;
	index->ioss_VMBuffer = InvalidBuffer;
	index_rescan(index->ioss_ScanDesc, index->ioss_ScanKeys, index->ioss_NumScanKeys,
				 NULL, 0);
	return index->ioss_ScanDesc;
}

/*
 * Some index types keep values of type name shorter than the type is: give those
 * their full size.
 */
static void
pad_names(IndexOnlyScanState *index, TupleTableSlot *slot, ExprContext *econtext)
{
	for (int i = 0; i < index->ioss_NameCStringCount; i++)
	{
		int			att = index->ioss_NameCStringAttNums[i];
		Name		name;

		if (slot->tts_isnull[att])
			continue;
		name = MemoryContextAlloc(econtext->ecxt_per_tuple_memory, NAMEDATALEN);
		namestrcpy(name, DatumGetCString(slot->tts_values[att]));
		slot->tts_values[att] = NameGetDatum(name);
	}
}

/* Fill the slot from the index; its row's identity is there for CURRENT OF. */
static void
store_index_entry(AiostreamIndexScanState *state, IndexScanDesc scan,
				  const AiostreamIndexEntry *entry, TupleTableSlot *slot)
{
	if (entry->hitup != NULL)
	{
		Assert(slot->tts_tupleDescriptor->natts == scan->xs_hitupdesc->natts);
		ExecForceStoreHeapTuple(entry->hitup, slot, false);
	}
	else if (entry->itup != NULL)
	{
		Assert(slot->tts_tupleDescriptor->natts == scan->xs_itupdesc->natts);
		ExecClearTuple(slot);
		index_deform_tuple(entry->itup, scan->xs_itupdesc,
						   slot->tts_values, slot->tts_isnull);
		if (unlikely(state->indexonly->ioss_NameCStringAttNums != NULL))
			pad_names(state->indexonly, slot, state->css.ss.ps.ps_ExprContext);
		ExecStoreVirtualTuple(slot);
	}
	else
		elog(ERROR, "no data returned for index-only scan");
	slot->tts_tid = entry->tid;
	slot->tts_tableOid = RelationGetRelid(scan->heapRelation);
}

static TupleTableSlot *
indexonly_access(ScanState *ss)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) ss;
	IndexOnlyScanState *index = state->indexonly;
	IndexScanDesc scan = index->ioss_ScanDesc;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	AiostreamIndexEntry entry;

	if (unlikely(scan == NULL))
		scan = begin_indexonlyscan(state);

	while (aiostream_indexfetch_next(state->fetch, scan, scan_direction(state),
									 index->ioss_TableSlot, &entry,
									 heap_fetch_counter(state)))
	{
		if (entry.heap_fetched)
			ExecClearTuple(index->ioss_TableSlot);
		store_index_entry(state, scan, &entry, slot);
		if (entry.recheck)
		{
			ExprContext *econtext = index->ss.ps.ps_ExprContext;

			econtext->ecxt_scantuple = slot;
			if (!ExecQualAndReset(index->recheckqual, econtext))
			{
				InstrCountFiltered2(ss, 1);
				continue;
			}
		}
		return slot;
	}
	return ExecClearTuple(slot);
}

/*
 * A row that EvalPlanQual has another version of needs a ctid, which an index cannot
 * give: no such plan is made.
 */
static bool
indexonly_recheck(ScanState *ss, TupleTableSlot *slot)
{
	elog(ERROR, "EvalPlanQual recheck is not supported in index-only scans");
	return false;
}

static TupleTableSlot *
indexonlyscan_exec_node(PlanState *ps)
{
	IndexOnlyScanState *index = ((AiostreamIndexScanState *) ps)->indexonly;

	if (index->ioss_NumRuntimeKeys != 0 && !index->ioss_RuntimeKeysReady)
		ExecReScan(ps);
	return ExecScan((ScanState *) ps, indexonly_access, indexonly_recheck);
}

static TupleTableSlot *
indexonlyscan_exec(CustomScanState *node)
{
	return indexonlyscan_exec_node(&node->ss.ps);
}

/* ------------------------------------------------------------------------
 * Begin, end, rescan
 * ------------------------------------------------------------------------
 */

static void
indexscan_begin(CustomScanState *node, EState *estate, int eflags)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;
	CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	PlanState  *core = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	int			plan_flags = intVal(linitial(cscan->custom_private));
	Buffer	   *vmbuffer = NULL;
	ScanDirection planned;

	/* Our caller installs what it finds in ExecProcNode when we return. */
	if (IsA(core, IndexScanState))
	{
		state->index = (IndexScanState *) core;
		planned = ((IndexScan *) core->plan)->indexorderdir;
		aiostream_scanstate_init(node, estate);
		node->ss.ps.ExecProcNode = indexscan_exec_node;
	}
	else
	{
		state->indexonly = castNode(IndexOnlyScanState, core);
		planned = ((IndexOnlyScan *) core->plan)->indexorderdir;
		vmbuffer = &state->indexonly->ioss_VMBuffer;
		node->ss.ps.ExecProcNode = indexonlyscan_exec_node;
	}

	/*
	 * Subplans in the index's conditions become ours: nobody looks for them
	 * in core's node, but EXPLAIN and parallel query need to know of them.
	 */
	node->ss.ps.subPlan = list_concat(node->ss.ps.subPlan, core->subPlan);
	core->subPlan = NIL;
	state->descending = ScanDirectionIsBackward(planned);
	state->fetch = aiostream_indexfetch_create(estate->es_query_cxt, vmbuffer, plan_flags);
}

static void
indexscan_end(CustomScanState *node)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;

	aiostream_indexfetch_end(state->fetch);
	ExecEndNode(core_node(state));
}

static void
indexscan_rescan(CustomScanState *node)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;

	aiostream_indexfetch_rescan(state->fetch);

	/*
	 * Straight to the core node's own part: for the rest there is nothing to
	 * do.
	 */
	Assert(core_node(state)->subPlan == NIL && core_node(state)->initPlan == NIL);
	if (state->index != NULL)
		ExecReScanIndexScan(state->index);
	else
		ExecReScanIndexOnlyScan(state->indexonly);
	ExecScanReScan(&node->ss);
}

/* ------------------------------------------------------------------------
 * Parallel query: core's node does its part under its own key
 * ------------------------------------------------------------------------
 */

static Size
indexscan_estimate_dsm(CustomScanState *node, ParallelContext *pcxt)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;

	if (state->index != NULL)
		ExecIndexScanEstimate(state->index, pcxt);
	else
		ExecIndexOnlyScanEstimate(state->indexonly, pcxt);
	return add_size(offsetof(AiostreamIndexScanShared, worker),
					mul_size(pcxt->nworkers, sizeof(AiostreamStreamStats)));
}

static void
indexscan_initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;

	state->shared = (AiostreamIndexScanShared *) coordinate;
	state->shared->nworkers = pcxt->nworkers;
	memset(state->shared->worker, 0, pcxt->nworkers * sizeof(AiostreamStreamStats));
	if (state->index != NULL)
		ExecIndexScanInitializeDSM(state->index, pcxt);
	else
		ExecIndexOnlyScanInitializeDSM(state->indexonly, pcxt);
}

static void
indexscan_reinitialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;

	state->shared = (AiostreamIndexScanShared *) coordinate;
	if (state->index != NULL)
		ExecIndexScanReInitializeDSM(state->index, pcxt);
	else
		ExecIndexOnlyScanReInitializeDSM(state->indexonly, pcxt);
}

static void
indexscan_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;
	ParallelWorkerContext pwcxt;

	state->shared = (AiostreamIndexScanShared *) coordinate;
	Assert(ParallelWorkerNumber < state->shared->nworkers);
	state->slot_base = state->shared->worker[ParallelWorkerNumber];

	/* the segment is for those who need its address, which index scans do not */
	pwcxt.seg = NULL;
	pwcxt.toc = toc;
	if (state->index != NULL)
		ExecIndexScanInitializeWorker(state->index, &pwcxt);
	else
		ExecIndexOnlyScanInitializeWorker(state->indexonly, &pwcxt);
}

/* See seqscan_shutdown: workers leave their counters, the leader collects them. */
static void
indexscan_shutdown(CustomScanState *node)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;
	AiostreamIndexScanShared *shared = state->shared;

	if (shared == NULL)
		return;
	if (IsParallelWorker())
	{
		AiostreamStreamStats stats;

		aiostream_indexfetch_stats(state->fetch, &stats);
		aiostream_stream_stats_add(&stats, &state->slot_base);
		shared->worker[ParallelWorkerNumber] = stats;
		return;
	}
	for (int i = 0; i < shared->nworkers; i++)
		aiostream_stream_stats_add(&state->workers, &shared->worker[i]);
	state->shared = NULL;
}

/* ------------------------------------------------------------------------
 * EXPLAIN; the method tables
 * ------------------------------------------------------------------------
 */

/* Which index, in which direction; core has that in a plan node's title. */
static void
explain_index(AiostreamIndexScanState *state, Oid index, ExplainState *es)
{
	const char *name = get_rel_name(index);
	bool text = es->format == EXPLAIN_FORMAT_TEXT;

	if (name == NULL)
		elog(ERROR, "cache lookup failed for index %u", index);
	ExplainPropertyText("Index Name", text ? quote_identifier(name) : name, es);
	if (!text ||state->descending)
		ExplainPropertyText("Scan Direction",
							state->descending ? "Backward" : "Forward", es);
}

static void
explain_conditions(AiostreamIndexScanState *state, List *conditions, List *ancestors,
				   ExplainState *es)
{
	List	   *context;
	Instrumentation *instrument = state->css.ss.ps.instrument;

	if (conditions == NIL)
		return;

	/*
	 * Core's node, as conditions on an index are about its columns.  The list
	 * is our caller's, for the nodes beside us too: it must be as it was
	 * afterwards.
	 */
	ancestors = lcons(state->css.ss.ps.plan, ancestors);
	context = set_deparse_context_plan(es->deparse_cxt, core_node(state)->plan, ancestors);
	ExplainPropertyText("Index Cond",
						deparse_expression((Node *) make_ands_explicit(conditions),
										   context, es->verbose, false),
						es);
	ancestors = list_delete_first(ancestors);

	if (es->analyze && instrument != NULL &&
		(instrument->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyFloat("Rows Removed by Index Recheck", NULL,
							 instrument->nloops > 0 ?
							 instrument->nfiltered2 / instrument->nloops : 0.0, 0, es);
}

static void
indexscan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	AiostreamIndexScanState *state = (AiostreamIndexScanState *) node;
	Plan	   *core = core_node(state)->plan;
	AiostreamStreamStats stats;

	if (state->index != NULL)
	{
		explain_index(state, ((IndexScan *) core)->indexid, es);
		explain_conditions(state, ((IndexScan *) core)->indexqualorig, ancestors, es);
	}
	else
	{
		explain_index(state, ((IndexOnlyScan *) core)->indexid, es);
		explain_conditions(state, ((IndexOnlyScan *) core)->indexqual, ancestors, es);
		if (es->analyze && node->ss.ps.instrument != NULL)
			ExplainPropertyFloat("Heap Fetches", NULL,
								 node->ss.ps.instrument->ntuples2, 0, es);
	}

	aiostream_indexfetch_stats(state->fetch, &stats);
	aiostream_stream_stats_add(&stats, &state->workers);
	aiostream_explain_stats(&stats, es);
}

static const CustomExecMethods indexscan_exec_methods = {
	.CustomName = "AioIndexScan",
	.BeginCustomScan = indexscan_begin,
	.ExecCustomScan = indexscan_exec,
	.EndCustomScan = indexscan_end,
	.ReScanCustomScan = indexscan_rescan,
	.EstimateDSMCustomScan = indexscan_estimate_dsm,
	.InitializeDSMCustomScan = indexscan_initialize_dsm,
	.ReInitializeDSMCustomScan = indexscan_reinitialize_dsm,
	.InitializeWorkerCustomScan = indexscan_initialize_worker,
	.ShutdownCustomScan = indexscan_shutdown,
	.ExplainCustomScan = indexscan_explain,
};

static const CustomExecMethods indexonlyscan_exec_methods = {
	.CustomName = "AioIndexOnlyScan",
	.BeginCustomScan = indexscan_begin,
	.ExecCustomScan = indexonlyscan_exec,
	.EndCustomScan = indexscan_end,
	.ReScanCustomScan = indexscan_rescan,
	.EstimateDSMCustomScan = indexscan_estimate_dsm,
	.InitializeDSMCustomScan = indexscan_initialize_dsm,
	.ReInitializeDSMCustomScan = indexscan_reinitialize_dsm,
	.InitializeWorkerCustomScan = indexscan_initialize_worker,
	.ShutdownCustomScan = indexscan_shutdown,
	.ExplainCustomScan = indexscan_explain,
};

static Node *
create_state(const CustomExecMethods *methods)
{
	AiostreamIndexScanState *state = palloc0(sizeof(AiostreamIndexScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = methods;
	return (Node *) state;
}

static Node *
indexscan_create_state(CustomScan *cscan)
{
	return create_state(&indexscan_exec_methods);
}

static Node *
indexonlyscan_create_state(CustomScan *cscan)
{
	return create_state(&indexonlyscan_exec_methods);
}

const CustomScanMethods aiostream_indexscan_methods = {
	.CustomName = "AioIndexScan",
	.CreateCustomScanState = indexscan_create_state,
};

const CustomScanMethods aiostream_indexonlyscan_methods = {
	.CustomName = "AioIndexOnlyScan",
	.CreateCustomScanState = indexonlyscan_create_state,
};
