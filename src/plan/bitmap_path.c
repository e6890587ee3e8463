/*
 * bitmap_path.c
 *		AioBitmapHeapScan paths: for each of core's bitmap heap scans, one of
 *		ours that takes its bitmap from the same nodes.
 *
 * Our path has core's as its only child.  When core makes the plan, the child
 * becomes a complete BitmapHeapScan node, with conditions sorted into what the
 * indexes answer and what is left; we take it apart.
 */
#include "postgres.h"

#include <math.h>

#include "guc.h"
#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "plan/plan_internal.h"
#include "scan/scan.h"
#include "utils/spccache.h"

static Plan *
plan_bitmapscan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
				List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	Plan	   *child = linitial(custom_plans);
	BitmapHeapScan *core;

	/* one-time conditions: there will be such a node above us, too */
	while (IsA(child, Result))
		child = outerPlan(child);
	core = castNode(BitmapHeapScan, child);

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = core->scan.plan.qual;
	cscan->scan.scanrelid = rel->relid;
	cscan->custom_exprs = core->bitmapqualorig;
	cscan->custom_plans = list_make1(outerPlan(&core->scan.plan));
	cscan->custom_private = list_make1(makeInteger(aiostream_stop_flags(root, &best_path->path)));
	cscan->flags = best_path->flags;
	cscan->methods = &aiostream_bitmapscan_methods;
	return &cscan->scan.plan;
}

static const CustomPathMethods bitmap_path_methods = {
	.CustomName = "AioBitmapHeapScan",
	.PlanCustomPath = plan_bitmapscan,
};

/* What look-ahead saves of the path's cost, 0 if it is not worth it */
static Cost
saved_cost(PlannerInfo *root, RelOptInfo *rel, BitmapHeapPath *core)
{
	double		random_cost;
	double		seq_cost;
	double		page_cost;
	double		pages;

	pages = compute_bitmap_pages(root, rel, core->bitmapqual, 1.0, NULL, NULL);
	if (pages < AIOSTREAM_MIN_FETCHED_PAGES && !aiostream_debug_force_nodes)
		return 0;

	/* as core: from random to sequential with the part of the table fetched */
	get_tablespace_page_costs(rel->reltablespace, &random_cost, &seq_cost);
	page_cost = pages < 2.0 ? random_cost :
		random_cost - (random_cost - seq_cost) * sqrt(pages / Max(1.0, rel->pages));
	if (core->path.parallel_workers > 0)
		pages /= core->path.parallel_workers + 1;
	return aiostream_cost_saved(pages, page_cost, rel->reltablespace);
}

static Path *
make_bitmap_path(RelOptInfo *rel, BitmapHeapPath *core, Cost saved)
{
	CustomPath *cpath = makeNode(CustomPath);
	BitmapHeapPath *child = makeNode(BitmapHeapPath);
	Cost		run_cost = core->path.total_cost - core->path.startup_cost;

	/* a copy, as the planner frees paths that ours turns out to beat */
	memcpy(child, core, sizeof(BitmapHeapPath));
	cpath->path = core->path;
	cpath->path.type = T_CustomPath;
	cpath->path.pathtype = T_CustomScan;
	cpath->path.total_cost = core->path.startup_cost +
		Max(run_cost - saved, run_cost * 0.1);
	cpath->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	cpath->custom_paths = list_make1(child);
	cpath->methods = &bitmap_path_methods;
	return &cpath->path;
}

List *
aiostream_bitmap_paths(PlannerInfo *root, RelOptInfo *rel, List *paths)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		BitmapHeapPath *core = lfirst(lc);
		Cost		saved;

		if (!IsA(core, BitmapHeapPath))
			continue;
		saved = saved_cost(root, rel, core);
		if (saved > 0 || aiostream_debug_force_nodes)
			result = lappend(result, make_bitmap_path(rel, core, saved));
	}
	return result;
}
