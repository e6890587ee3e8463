/*
 * scanstate.c
 *		What the custom scan nodes of this folder have in common.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "scan/scan_internal.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

/*
 * In BeginCustomScan: core made the scan slot a virtual one, which has no room for
 * tuples in buffers or for system columns, and has compiled expressions for
 * it.  Make all of that anew.  The subplans listed so far are those of the
 * expressions thrown away.
 */
void
aiostream_scanstate_init(CustomScanState *node, EState *estate)
{
	PlanState  *ps = &node->ss.ps;
	Relation	rel = node->ss.ss_currentRelation;

	Assert(aiostream_heapscan_supported(rel));
	ps->subPlan = NIL;
	ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(rel),
						  table_slot_callbacks(rel));
	ExecAssignScanProjectionInfo(&node->ss);
	ps->qual = ExecInitQual(ps->plan->qual, ps);
}

/*
 * The look-ahead, in blocks, of a scan that may be stopped any moment: a part of the
 * blocks consumed, unless it is a few rows that are wanted.  With two leaf pages of
 * an index, no more than 16 blocks are then read in vain.
 */
int
aiostream_careful_distance(int plan_flags, uint64 consumed)
{
	const uint64 at_least = 13;
	uint64		part = plan_flags & AIOSTREAM_PLAN_FEW_ROWS ? 0 : consumed / 8;

	Assert(plan_flags & AIOSTREAM_PLAN_CAREFUL);
	return (int) Min(Max(at_least, part), INT_MAX);
}

/* Print a list of AND-ed conditions as core prints "Recheck Cond" and the like. */
void
aiostream_explain_qual(const char *label, List *qual, CustomScanState *node,
					   List *ancestors, ExplainState *es)
{
	List	   *context;
	Node	   *expr;

	if (qual == NIL)
		return;
	expr = (Node *) make_ands_explicit(qual);
	context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	ExplainPropertyText(label,
						deparse_expression(expr, context, es->verbose, false), es);
}
