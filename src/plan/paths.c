/*
 * paths.c
 *		Offers AioSeqScan paths to the planner, and turns them into plans.
 *
 * Wherever core offers a sequential scan of a table that aiostream can
 * stream, we add our own path beside it, serial and partial, and leave the
 * choice to cost.  The plan node carries nothing private: relation, quals and
 * target list are all in the CustomScan node.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "guc.h"
#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "plan/plan_internal.h"
#include "scan/scan.h"
#include "shmem.h"
#include "utils/rel.h"

static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;

static Plan *plan_seqscan(PlannerInfo *root, RelOptInfo *rel,
						  CustomPath *best_path, List *tlist,
						  List *clauses, List *custom_plans);

static const CustomPathMethods seqscan_path_methods = {
	.CustomName = "AioSeqScan",
	.PlanCustomPath = plan_seqscan,
};

/* ------------------------------------------------------------------------
 * Path to plan
 * ------------------------------------------------------------------------
 */

/* LIMIT up to that many rows: nobody wants to pay for much more. */
#define FEW_ROWS 1000.0

/*
 * May the query stop before it has had all rows?  Then look-ahead is to grow
 * carefully; not at all, if a few rows are wanted only.  The inner side of a join may
 * be a semi-join's, which stops at the first match.
 */
int
aiostream_stop_flags(PlannerInfo *root, const Path *path)
{
	if ((root->limit_tuples >= 0.0 && root->limit_tuples <= FEW_ROWS) ||
		(root->tuple_fraction >= 1.0 && root->tuple_fraction <= FEW_ROWS))
		return AIOSTREAM_PLAN_CAREFUL | AIOSTREAM_PLAN_FEW_ROWS;
	if (root->tuple_fraction > 0.0 || root->limit_tuples >= 0.0 || path->param_info != NULL)
		return AIOSTREAM_PLAN_CAREFUL;
	return 0;
}

/*
 * Will the plan above the scan take any target list in which it finds its
 * columns? So it is for an aggregate over one table without grouping: core
 * then gives its own scans the table's physical columns, which saves the
 * executor a projection for each row, but for custom scans it does not
 * ask.  Not where a Gather may stand between the two, as it would have to send
 * all columns.
 */
bool
aiostream_any_tlist_will_do(PlannerInfo *root, RelOptInfo *rel, Path *path, List *tlist)
{
	Query	   *parse = root->parse;
	ListCell   *lc;

	if (!parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL)
		return false;
	if (rel->reloptkind != RELOPT_BASEREL ||
		!bms_equal(root->all_baserels, rel->relids))
		return false;
	if (path->parallel_aware && (root->hasNonPartialAggs || root->hasNonSerialAggs))
		return false;

	foreach(lc, tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (!IsA(var, Var) || var->varno != rel->relid || var->varattno <= 0 ||
			tle->ressortgroupref != 0)
			return false;
	}
	return true;
}

static Plan *
plan_seqscan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
			 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);

	Assert(rel->relid > 0 && rel->rtekind == RTE_RELATION);
	Assert(custom_plans == NIL);

	if (aiostream_any_tlist_will_do(root, rel, &best_path->path, tlist))
	{
		/* NIL if there are dropped columns, say */
		List	   *physical = build_physical_tlist(root, rel);

		if (physical != NIL)
			tlist = physical;
	}

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = extract_actual_clauses(clauses, false);
	cscan->scan.scanrelid = rel->relid;
	cscan->flags = best_path->flags;
	cscan->methods = &aiostream_seqscan_methods;
	return &cscan->scan.plan;
}

/* ------------------------------------------------------------------------
 * Relation to paths
 * ------------------------------------------------------------------------
 */

/* Is this a table that a stream can read, as far as the planner can know? */
static bool
table_supported(RangeTblEntry *rte)
{
	Relation	rel;
	bool		supported;

	if (IsCatalogRelationOid(rte->relid))
		return false;

	/* The planner holds the lock. */
	rel = table_open(rte->relid, NoLock);
	supported = rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		aiostream_heapscan_supported(rel);
	table_close(rel, NoLock);
	return supported;
}

/* WHERE CURRENT OF must become a TID scan; no other can do it. */
static bool
has_current_of(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		if (IsA(lfirst_node(RestrictInfo, lc)->clause, CurrentOfExpr))
			return true;
	}
	return false;
}

static bool
rel_supported(RelOptInfo *rel, RangeTblEntry *rte)
{
	if (!aiostream_enable || !aiostream_shmem_ready())
		return false;
	if (rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return false;
	if (rte->rtekind != RTE_RELATION || rte->inh || rte->tablesample != NULL)
		return false;
	if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW)
		return false;
	/* e.g. excluded by constraints */
	if (rel->pathlist == NIL || IS_DUMMY_REL(rel))
		return false;
	return table_supported(rte) && !has_current_of(rel);
}

static Path *
make_seqscan_path(PlannerInfo *root, RelOptInfo *rel, Relids required_outer,
				  int parallel_workers)
{
	CustomPath *cpath = makeNode(CustomPath);

	cpath->path.pathtype = T_CustomScan;
	cpath->path.parent = rel;
	cpath->path.pathtarget = rel->reltarget;
	cpath->path.param_info = get_baserel_parampathinfo(root, rel, required_outer);
	cpath->path.parallel_aware = parallel_workers > 0;
	cpath->path.parallel_safe = rel->consider_parallel;
	cpath->path.parallel_workers = parallel_workers;
	cpath->path.pathkeys = NIL;
	cpath->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	if (parallel_workers == 0)
		cpath->flags |= CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
	cpath->methods = &seqscan_path_methods;

	aiostream_cost_seqscan(&cpath->path, root, rel);
	return &cpath->path;
}

/* Our path for one of core's, or NULL if there is none. */
static Path *
our_path(PlannerInfo *root, RelOptInfo *rel, Path *path)
{
	List	   *ours = NIL;

	switch (path->pathtype)
	{
		case T_SeqScan:
			if (!aiostream_enable_seqscan)
				return NULL;
			return make_seqscan_path(root, rel, PATH_REQ_OUTER(path),
									 path->parallel_aware ? path->parallel_workers : 0);
		case T_BitmapHeapScan:
			if (aiostream_enable_bitmapscan)
				ours = aiostream_bitmap_paths(root, rel, list_make1(path));
			break;
		case T_IndexScan:
		case T_IndexOnlyScan:
			ours = aiostream_index_paths(root, rel, list_make1(path));
			break;
		default:
			break;
	}
	return ours == NIL ? NULL : linitial(ours);
}

/*
 * Puts our paths where core's stand in the list, at core's cost: plans then differ
 * in the nodes' names only.  For testing.
 */
static void
replace_paths(PlannerInfo *root, RelOptInfo *rel, List *pathlist)
{
	ListCell   *lc;

	foreach(lc, pathlist)
	{
		Path	   *path = lfirst(lc);
		Path	   *ours = our_path(root, rel, path);

		if (ours == NULL)
			continue;
		ours->rows = path->rows;
		ours->startup_cost = path->startup_cost;
		ours->total_cost = path->total_cost;
		lfirst(lc) = ours;
	}
}

/*
 * Keep core's sequential scan of an Append's child in the list even if ours beats
 * it: core can give a SeqScan path parameters of an outer relation afterwards, so
 * that a parameterized Append can be made, and a custom path it cannot.
 */
static void
keep_core_seqscan(PlannerInfo *root, RelOptInfo *rel)
{
	Path	   *path;
	ListCell   *lc;
	int			position = 0;

	if (rel->reloptkind != RELOPT_OTHER_MEMBER_REL || rel->lateral_relids != NULL)
		return;
	foreach(lc, rel->pathlist)
	{
		if (((Path *) lfirst(lc))->pathtype == T_SeqScan)
			return;
	}

	path = create_seqscan_path(root, rel, NULL, 0);
	foreach(lc, rel->pathlist)
	{
		if (((Path *) lfirst(lc))->total_cost > path->total_cost)
			break;
		position++;
	}
	rel->pathlist = list_insert_nth(rel->pathlist, position, path);
}

static void
add_seqscan_paths(PlannerInfo *root, RelOptInfo *rel)
{
	/* As core's sequential scans: parameterized by LATERAL references only */
	Relids		required_outer = rel->lateral_relids;
	int			parallel_workers = 0;

	add_path(rel, make_seqscan_path(root, rel, required_outer, 0));
	if (!aiostream_debug_force_nodes)
		keep_core_seqscan(root, rel);

	if (rel->consider_parallel && required_outer == NULL)
		parallel_workers = compute_parallel_worker(rel, rel->pages, -1,
												   max_parallel_workers_per_gather);
	if (parallel_workers > 0)
		add_partial_path(rel, make_seqscan_path(root, rel, NULL, parallel_workers));
}

/* Is there one among the paths that needs no more parameters than it must? */
static bool
has_basic_path(RelOptInfo *rel, List *paths)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		if (bms_equal(PATH_REQ_OUTER((Path *) lfirst(lc)), rel->lateral_relids))
			return true;
	}
	return false;
}

/*
 * Ours beside core's; or, for tests, instead of them.  What core has found
 * is looked at first, as adding a path may free others.
 */
static void
add_paths(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *paths = NIL;
	List	   *partial = NIL;
	ListCell   *lc;

	if (aiostream_debug_force_nodes == AIOSTREAM_FORCE_REPLACE)
	{
		replace_paths(root, rel, rel->pathlist);
		replace_paths(root, rel, rel->partial_pathlist);
		return;
	}

	if (aiostream_enable_bitmapscan)
	{
		paths = aiostream_bitmap_paths(root, rel, rel->pathlist);
		partial = aiostream_bitmap_paths(root, rel, rel->partial_pathlist);
	}
	if (aiostream_enable_indexscan || aiostream_enable_indexonlyscan)
	{
		paths = list_concat(paths, aiostream_index_paths(root, rel, rel->pathlist));
		partial = list_concat(partial,
							  aiostream_index_paths(root, rel, rel->partial_pathlist));
	}

	if (aiostream_debug_force_nodes &&
		(aiostream_enable_seqscan || has_basic_path(rel, paths)))
	{
		rel->pathlist = NIL;
		rel->partial_pathlist = NIL;
	}
	if (aiostream_enable_seqscan)
		add_seqscan_paths(root, rel);
	foreach(lc, paths)
		add_path(rel, lfirst(lc));
	foreach(lc, partial)
		add_partial_path(rel, lfirst(lc));
}

/*
 * Has core a path already that is cheaper than it is to make a stream? Then it is
 * a matter of a few pages, and looking further would only slow down planning.
 */
static bool
too_cheap_for_us(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = (Path *) lfirst(lc);

		if (PATH_REQ_OUTER(path) == NULL &&
			path->total_cost < AIOSTREAM_STREAM_COST * seq_page_cost)
			return true;
	}
	return false;
}

static void
set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (prev_set_rel_pathlist_hook != NULL)
		prev_set_rel_pathlist_hook(root, rel, rti, rte);

	if (!aiostream_enable || (!aiostream_debug_force_nodes && too_cheap_for_us(rel)))
		return;
	if (rel_supported(rel, rte))
		add_paths(root, rel);
}

void
aiostream_plan_init(void)
{
	prev_set_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = set_rel_pathlist;
}
