/*
 * seqscan.c
 *		AioSeqScan: the executor side of the custom scan node that stands in for
 *		a SeqScan.
 *
 * The node does what SeqScan does, over aiostream_heapscan_* instead of the
 * table's access method: the scan begins at the first tuple asked for, reads
 * es_snapshot, may run in either direction, and takes part in EvalPlanQual
 * through ExecScan().  Where streams cannot be used at execution (say,
 * aiostream.enable was turned off after planning) the heap scan is core's.
 *
 * Which of four loops runs is decided once, in Begin: with or without
 * a qual, with or without a projection; EvalPlanQual uses the general one.
 *
 * In a parallel plan the DSM area holds core's parallel scan descriptor and a
 * place for each worker's counters.  Reset rules are core's: ReInitializeDSM
 * touches shared state only, ReScan local state only.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "scan/scan_internal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* In the DSM area, followed by core's ParallelTableScanDesc */
typedef struct AiostreamSeqScanShared
{
	int			nworkers;
	Size		pscan_offset;	/* of the descriptor, from our start */
	AiostreamStreamStats worker[FLEXIBLE_ARRAY_MEMBER];
} AiostreamSeqScanShared;

typedef struct AiostreamSeqScanState
{
	CustomScanState css;		/* must be first */
	AiostreamSeqScanShared *shared; /* NULL outside of a parallel query */
	AiostreamStreamStats ended; /* of scans that this process has ended */
	AiostreamStreamStats workers;	/* leader: collected from workers */
	AiostreamStreamStats slot_base; /* worker: what its slot held before */
} AiostreamSeqScanState;

/* ------------------------------------------------------------------------
 * The tuples
 * ------------------------------------------------------------------------
 */

static pg_attribute_always_inline TupleTableSlot *
next_tuple(ScanState *ss)
{
	EState	   *estate = ss->ps.state;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	if (unlikely(ss->ss_currentScanDesc == NULL))
	{
		/* Not parallel, or a parallel plan run without a DSM area. */
		ss->ss_currentScanDesc =
			aiostream_heapscan_begin(ss->ss_currentRelation, estate->es_snapshot,
									 0, NULL, NULL,
									 SO_TYPE_SEQSCAN | SO_ALLOW_STRAT |
									 SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE);
	}

	if (aiostream_heapscan_getnextslot(ss->ss_currentScanDesc,
									   estate->es_direction, slot))
		return slot;
	return NULL;
}

static TupleTableSlot *
seqscan_access(ScanState *ss)
{
	return next_tuple(ss);
}

/* No conditions are tested inside the scan, so there are none to recheck. */
static bool
seqscan_recheck(ScanState *ss, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
seqscan_exec(CustomScanState *node)
{
	return ExecScan(&node->ss, seqscan_access, seqscan_recheck);
}

/*
 * What ExecScan() does outside of EvalPlanQual, with its tests decided at
 * compile time.
 */
static pg_attribute_always_inline TupleTableSlot *
seqscan_loop(PlanState *pstate, ExprState *qual, ProjectionInfo *projection)
{
	ScanState  *ss = (ScanState *) pstate;
	ExprContext *econtext = pstate->ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);

		slot = next_tuple(ss);
		if (slot == NULL)
			return projection ? ExecClearTuple(projection->pi_state.resultslot) : NULL;

		econtext->ecxt_scantuple = slot;
		if (qual == NULL || ExecQual(qual, econtext))
			return projection ? ExecProject(projection) : slot;
		InstrCountFiltered1(pstate, 1);
	}
}

static TupleTableSlot *
seqscan_exec_plain(PlanState *pstate)
{
	return seqscan_loop(pstate, NULL, NULL);
}

static TupleTableSlot *
seqscan_exec_qual(PlanState *pstate)
{
	return seqscan_loop(pstate, pstate->qual, NULL);
}

static TupleTableSlot *
seqscan_exec_project(PlanState *pstate)
{
	Assert(pstate->ps_ProjInfo != NULL);
	return seqscan_loop(pstate, NULL, pstate->ps_ProjInfo);
}

static TupleTableSlot *
seqscan_exec_qual_project(PlanState *pstate)
{
	Assert(pstate->ps_ProjInfo != NULL);
	return seqscan_loop(pstate, pstate->qual, pstate->ps_ProjInfo);
}

/* ------------------------------------------------------------------------
 * Begin, end, rescan
 * ------------------------------------------------------------------------
 */

static void
seqscan_begin(CustomScanState *node, EState *estate, int eflags)
{
	PlanState  *ps = &node->ss.ps;
	Relation	rel = node->ss.ss_currentRelation;

	Assert(aiostream_heapscan_supported(rel));

	/*
	 * Core made the scan slot a virtual one, which has no room for tuples in
	 * buffers or for system columns, and has compiled expressions for it.
	 * Make all of that anew.  The subplans listed so far are those of the
	 * expressions thrown away.
	 */
	ps->subPlan = NIL;
	ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(rel),
						  table_slot_callbacks(rel));
	ExecAssignScanProjectionInfo(&node->ss);
	ps->qual = ExecInitQual(ps->plan->qual, ps);

	/* Our caller installs what it finds in ExecProcNode when we return. */
	if (estate->es_epq_active == NULL)
	{
		if (ps->ps_ProjInfo == NULL)
			ps->ExecProcNode = ps->qual ? seqscan_exec_qual : seqscan_exec_plain;
		else
			ps->ExecProcNode = ps->qual ? seqscan_exec_qual_project : seqscan_exec_project;
	}
}

/* End the scan if there is one, keeping its counters. */
static void
end_scan(AiostreamSeqScanState *state)
{
	TableScanDesc scan = state->css.ss.ss_currentScanDesc;
	AiostreamStreamStats stats;

	if (scan == NULL)
		return;
	state->css.ss.ss_currentScanDesc = NULL;
	aiostream_heapscan_stats(scan, &stats);
	aiostream_stream_stats_add(&state->ended, &stats);
	aiostream_heapscan_end(scan);
}

static void
seqscan_end(CustomScanState *node)
{
	end_scan((AiostreamSeqScanState *) node);
}

static void
seqscan_rescan(CustomScanState *node)
{
	if (node->ss.ss_currentScanDesc != NULL)
		aiostream_heapscan_rescan(node->ss.ss_currentScanDesc, NULL,
								  false, false, false, false);
	ExecScanReScan(&node->ss);
}

/* Everything this process's scans of the node did */
static void
own_stats(AiostreamSeqScanState *state, AiostreamStreamStats *stats)
{
	*stats = state->ended;
	if (state->css.ss.ss_currentScanDesc != NULL)
	{
		AiostreamStreamStats now;

		aiostream_heapscan_stats(state->css.ss.ss_currentScanDesc, &now);
		aiostream_stream_stats_add(stats, &now);
	}
}

/* ------------------------------------------------------------------------
 * Parallel query
 * ------------------------------------------------------------------------
 */

static ParallelTableScanDesc
shared_pscan(AiostreamSeqScanShared *shared)
{
	return (ParallelTableScanDesc) ((char *) shared + shared->pscan_offset);
}

static Size
pscan_offset(int nworkers)
{
	return MAXALIGN(add_size(offsetof(AiostreamSeqScanShared, worker),
							 mul_size(nworkers, sizeof(AiostreamStreamStats))));
}

static Size
seqscan_estimate_dsm(CustomScanState *node, ParallelContext *pcxt)
{
	return add_size(pscan_offset(pcxt->nworkers),
					table_parallelscan_estimate(node->ss.ss_currentRelation,
												node->ss.ps.state->es_snapshot));
}

/* table_beginscan_parallel(), for any table that the heap scan can do */
static void
begin_parallel_scan(AiostreamSeqScanState *state)
{
	ParallelTableScanDesc pscan = shared_pscan(state->shared);
	Relation	rel = state->css.ss.ss_currentRelation;
	uint32		flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
	Snapshot	snapshot = SnapshotAny;

	Assert(RelationGetRelid(rel) == pscan->phs_relid);

	/* A scan left from before used a DSM area that is gone. */
	end_scan(state);

	if (!pscan->phs_snapshot_any)
	{
		snapshot = RestoreSnapshot((char *) pscan + pscan->phs_snapshot_off);
		RegisterSnapshot(snapshot);
		flags |= SO_TEMP_SNAPSHOT;
	}
	state->css.ss.ss_currentScanDesc =
		aiostream_heapscan_begin(rel, snapshot, 0, NULL, pscan, flags);
}

static void
seqscan_initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	AiostreamSeqScanState *state = (AiostreamSeqScanState *) node;

	state->shared = (AiostreamSeqScanShared *) coordinate;
	state->shared->nworkers = pcxt->nworkers;
	state->shared->pscan_offset = pscan_offset(pcxt->nworkers);
	memset(state->shared->worker, 0, pcxt->nworkers * sizeof(AiostreamStreamStats));

	table_parallelscan_initialize(node->ss.ss_currentRelation,
								  shared_pscan(state->shared),
								  node->ss.ps.state->es_snapshot);
	begin_parallel_scan(state);
}

static void
seqscan_reinitialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	AiostreamSeqScanState *state = (AiostreamSeqScanState *) node;

	state->shared = (AiostreamSeqScanShared *) coordinate;
	table_parallelscan_reinitialize(node->ss.ss_currentRelation,
									shared_pscan(state->shared));
}

static void
seqscan_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	AiostreamSeqScanState *state = (AiostreamSeqScanState *) node;

	state->shared = (AiostreamSeqScanShared *) coordinate;
	Assert(ParallelWorkerNumber < state->shared->nworkers);
	state->slot_base = state->shared->worker[ParallelWorkerNumber];
	begin_parallel_scan(state);
}

/*
 * Called when the executor has all the tuples it wants, before the DSM area
 * goes away.  A worker leaves its counters there; the leader collects them.
 * When a query stops early (LIMIT), workers may be running still, and what
 * they have not yet left behind is missing from EXPLAIN.
 */
static void
seqscan_shutdown(CustomScanState *node)
{
	AiostreamSeqScanState *state = (AiostreamSeqScanState *) node;
	AiostreamSeqScanShared *shared = state->shared;
	int			i;

	if (shared == NULL)
		return;

	if (IsParallelWorker())
	{
		AiostreamStreamStats stats;

		own_stats(state, &stats);
		aiostream_stream_stats_add(&stats, &state->slot_base);
		shared->worker[ParallelWorkerNumber] = stats;
		return;
	}

	for (i = 0; i < shared->nworkers; i++)
		aiostream_stream_stats_add(&state->workers, &shared->worker[i]);
	state->shared = NULL;
}

/* ------------------------------------------------------------------------
 * EXPLAIN; the method tables
 * ------------------------------------------------------------------------
 */

static void
seqscan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	AiostreamSeqScanState *state = (AiostreamSeqScanState *) node;
	AiostreamStreamStats stats;

	own_stats(state, &stats);
	aiostream_stream_stats_add(&stats, &state->workers);
	aiostream_explain_stats(&stats, es);
}

static const CustomExecMethods seqscan_exec_methods = {
	.CustomName = "AioSeqScan",
	.BeginCustomScan = seqscan_begin,
	.ExecCustomScan = seqscan_exec,
	.EndCustomScan = seqscan_end,
	.ReScanCustomScan = seqscan_rescan,
	.EstimateDSMCustomScan = seqscan_estimate_dsm,
	.InitializeDSMCustomScan = seqscan_initialize_dsm,
	.ReInitializeDSMCustomScan = seqscan_reinitialize_dsm,
	.InitializeWorkerCustomScan = seqscan_initialize_worker,
	.ShutdownCustomScan = seqscan_shutdown,
	.ExplainCustomScan = seqscan_explain,
};

static Node *
seqscan_create_state(CustomScan *cscan)
{
	AiostreamSeqScanState *state = palloc0(sizeof(AiostreamSeqScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &seqscan_exec_methods;
	return (Node *) state;
}

const CustomScanMethods aiostream_seqscan_methods = {
	.CustomName = "AioSeqScan",
	.CreateCustomScanState = seqscan_create_state,
};

void
aiostream_scan_register(void)
{
	RegisterCustomScanMethods(&aiostream_seqscan_methods);
}
