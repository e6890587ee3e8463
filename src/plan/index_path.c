/*
 * index_path.c
 *		AioIndexScan and AioIndexOnlyScan: from core's index paths to plans.
 *
 * Core has made an index path wherever one is useful, with its clauses, order
 * and parameters.  Ours stands beside it and has a copy of it as its one child, so
 * that core's own code turns the clauses into scan keys: the plan node
 * carries core's plan node, from which quals are moved up to ours.
 *
 * Not taken over: paths ordered by operators (the executor reorders tuples there),
 * and access methods that cannot return single entries.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "guc.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/plancat.h"
#include "plan/plan_internal.h"
#include "scan/scan.h"

static Plan *plan_indexscan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
							List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods indexscan_path_methods = {
	.CustomName = "AioIndexScan",
	.PlanCustomPath = plan_indexscan,
};

static const CustomPathMethods indexonlyscan_path_methods = {
	.CustomName = "AioIndexOnlyScan",
	.PlanCustomPath = plan_indexscan,
};

/* ------------------------------------------------------------------------
 * Path to plan
 * ------------------------------------------------------------------------
 */

/*
 * The columns that an index-only scan's tuples have.  Those that the index cannot
 * give are marked as junk; nothing may be matched to them.
 */
static List *
index_tlist(const IndexOnlyScan *scan)
{
	List	   *tlist = copyObject(scan->indextlist);
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		if (tle->resjunk)
			tle->expr = (Expr *) makeNullConst(exprType(expr), exprTypmod(expr),
											   exprCollation(expr));
		tle->resjunk = false;
	}
	return tlist;
}

static Plan *
plan_indexscan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
			   List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	Plan	   *child = (Plan *) linitial(custom_plans);

	Assert(list_length(custom_plans) == 1);

	/* Clauses without columns: core puts that test above us as well. */
	if (IsA(child, Result))
		child = outerPlan(child);

	if (IsA(child, IndexOnlyScan))
	{
		cscan->custom_scan_tlist = index_tlist((IndexOnlyScan *) child);
		cscan->methods = &aiostream_indexonlyscan_methods;
	}
	else
	{
		Assert(IsA(child, IndexScan));
		if (aiostream_any_tlist_will_do(root, rel, &best_path->path, tlist))
		{
			List	   *physical = build_physical_tlist(root, rel);

			if (physical != NIL)
				tlist = physical;
		}
		cscan->methods = &aiostream_indexscan_methods;
	}

	/* What the index does not see to is tested, and computed, in our node. */
	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = child->qual;
	child->qual = NIL;
	child->targetlist = NIL;

	cscan->scan.scanrelid = rel->relid;
	cscan->flags = best_path->flags;
	cscan->custom_plans = list_make1(child);
	cscan->custom_private =
		list_make1(makeInteger(intVal(linitial(best_path->custom_private)) |
							   aiostream_stop_flags(root, &best_path->path)));
	return &cscan->scan.plan;
}

/* ------------------------------------------------------------------------
 * Core's path to ours
 * ------------------------------------------------------------------------
 */

static bool
path_supported(const Path *path)
{
	const IndexPath *ipath = (const IndexPath *) path;

	if (!IsA(path, IndexPath))
		return false;
	if (path->pathtype == T_IndexScan)
	{
		if (!aiostream_enable_indexscan)
			return false;
	}
	else if (path->pathtype != T_IndexOnlyScan || !aiostream_enable_indexonlyscan)
		return false;
	return ipath->indexorderbys == NIL && ipath->indexinfo->amhasgettuple &&
		!ipath->indexinfo->hypothetical;
}

static CustomPath *
make_index_path(PlannerInfo *root, RelOptInfo *rel, const IndexPath *core_path)
{
	CustomPath *cpath = makeNode(CustomPath);
	IndexPath  *child = makeNode(IndexPath);
	IndexAmRoutine *am;
	int			plan_flags;

	cpath->path.pathtype = T_CustomScan;
	cpath->path.parent = rel;
	cpath->path.pathtarget = core_path->path.pathtarget;
	cpath->path.param_info = core_path->path.param_info;
	cpath->path.parallel_aware = core_path->path.parallel_aware;
	cpath->path.parallel_safe = core_path->path.parallel_safe;
	cpath->path.parallel_workers = core_path->path.parallel_workers;
	cpath->path.pathkeys = core_path->path.pathkeys;
	if (!aiostream_cost_indexscan(&cpath->path, root, core_path, &plan_flags))
		return NULL;
	cpath->custom_private = list_make1(makeInteger(plan_flags));

	/* A copy: the planner may free a path that ours is better than. */
	*child = *core_path;
	cpath->custom_paths = list_make1(child);
	cpath->methods = core_path->path.pathtype == T_IndexScan ?
		&indexscan_path_methods : &indexonlyscan_path_methods;

	cpath->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	am = GetIndexAmRoutineByAmId(core_path->indexinfo->relam, false);
	if (am->amcanbackward && !cpath->path.parallel_aware)
		cpath->flags |= CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
	pfree(am);
	return cpath;
}

List *
aiostream_index_paths(PlannerInfo *root, RelOptInfo *rel, List *core_paths)
{
	List	   *paths = NIL;
	ListCell   *lc;

	foreach(lc, core_paths)
	{
		const Path *path = (const Path *) lfirst(lc);
		CustomPath *cpath;

		if (!path_supported(path))
			continue;
		cpath = make_index_path(root, rel, (const IndexPath *) path);
		if (cpath != NULL)
			paths = lappend(paths, cpath);
	}
	return paths;
}
