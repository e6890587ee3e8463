/*
 * index_path_cost.c
 *		What an AioIndexScan or AioIndexOnlyScan costs.
 *
 * Core's cost of the same index path, less what look-ahead saves on the table's
 * pages: aiostream_cost_saved() of their I/O cost.  That I/O cost is estimated as
 * core's cost_index() does: by Mackert and Lohman's formula where index and table
 * order have nothing to do with each other, by the share of the table where they
 * agree, and in between by the correlation squared.
 *
 * Against that stands a start-up cost, which look-ahead makes up for after
 * AIOSTREAM_MIN_FETCHED_PAGES; scans estimated to fetch fewer are not
 * offered at all, so that look-ups of single rows keep core's plan; unless they
 * are the inside of a nested loop that will come through most of the table, see
 * cost_sweeping().
 */
#include "postgres.h"

#include <math.h>

#include "access/amapi.h"
#include "guc.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "plan/plan_internal.h"
#include "scan/scan.h"
#include "storage/bufmgr.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

/* Smaller relations are not worth a sweep; nor are fewer rounds. */
#define AIOSTREAM_MIN_SWEPT_PAGES 256

/* The correlation of index and table order, as the access method has it */
static double
index_correlation(PlannerInfo *root, const IndexPath *core_path)
{
	amcostestimate_function estimate =
	(amcostestimate_function) core_path->indexinfo->amcostestimate;
	Cost		startup_cost;
	Cost		total_cost;
	Selectivity selectivity;
	double		correlation;
	double		index_pages;

	estimate(root, unconstify(IndexPath *, core_path), 1.0,
			 &startup_cost, &total_cost, &selectivity, &correlation, &index_pages);
	return correlation;
}

/* How often a path with parameters will be run, as core takes it: see get_loop_count(). */
static double
loop_count(PlannerInfo *root, const Path *path)
{
	double		loops = 0;
	int			relid = -1;

	while ((relid = bms_next_member(PATH_REQ_OUTER(path), relid)) >= 0)
	{
		RelOptInfo *outer = relid < root->simple_rel_array_size ?
		root->simple_rel_array[relid] : NULL;

		if (outer != NULL && !IS_DUMMY_REL(outer) && outer->rows > 0 &&
			(loops == 0 || outer->rows < loops))
			loops = outer->rows;
	}
	return loops;
}

/* Is a relation worth a sweep if that many of its pages are visited in all? */
static bool
worth_sweeping(BlockNumber pages, double visited)
{
	return pages >= AIOSTREAM_MIN_SWEPT_PAGES && pages <= (BlockNumber) NBuffers / 2 &&
		visited >= 0.5 * pages;
}

/*
 * A path that fetches a few pages each time, but is run so often that it comes through
 * most of the table: all of it will be read beside it (scan/sweep.c).  What that saves
 * is, as everywhere, a part of what core takes the pages to cost.
 */
static bool
cost_sweeping(Path *path, PlannerInfo *root, const IndexPath *core_path,
			  double tuples, double visited, int *plan_flags)
{
	const IndexOptInfo *index = core_path->indexinfo;
	RelOptInfo *rel = path->parent;
	double		loops = loop_count(root, path);
	double		random_cost;
	double		pages;
	Cost		io_cost;

	/* not where the outer side may stop early */
	if (loops < AIOSTREAM_MIN_SWEPT_PAGES || root->tuple_fraction > 0.0 ||
		root->limit_tuples >= 0.0)
		return false;

	pages = visited * index_pages_fetched(tuples * loops, rel->pages, (double) index->pages,
										  root);
	if (!worth_sweeping(rel->pages, pages))
		return false;
	*plan_flags = AIOSTREAM_PLAN_FEW_BLOCKS | AIOSTREAM_PLAN_SWEEP_TABLE;
	if (worth_sweeping(index->pages, index_pages_fetched(loops, index->pages,
														 (double) index->pages, root)))
		*plan_flags |= AIOSTREAM_PLAN_SWEEP_INDEX;

	get_tablespace_page_costs(rel->reltablespace, &random_cost, NULL);
	io_cost = Min(pages * random_cost / loops, path->total_cost - path->startup_cost);
	path->total_cost -= aiostream_cost_saved(1.0, io_cost, rel->reltablespace);
	return true;
}

bool
aiostream_cost_indexscan(Path *path, PlannerInfo *root, const IndexPath *core_path,
						 int *plan_flags)
{
	RelOptInfo *rel = path->parent;
	double		tuples = clamp_row_est(core_path->indexselectivity * rel->tuples);
	double		visited = 1.0;
	double		scattered;
	double		together;
	double		correlation;
	double		random_cost;
	double		seq_cost;
	Cost		scattered_cost;
	Cost		together_cost;
	Cost		io_cost;
	Cost		saved;

	path->rows = core_path->path.rows;
	path->startup_cost = core_path->path.startup_cost;
	path->total_cost = core_path->path.total_cost;
	*plan_flags = 0;

	if (core_path->path.pathtype == T_IndexOnlyScan)
		visited -= rel->allvisfrac;
	scattered = index_pages_fetched(tuples, rel->pages,
									(double) core_path->indexinfo->pages, root);
	scattered = ceil(scattered * visited);
	if (aiostream_debug_force_nodes)
		return true;
	if (scattered < AIOSTREAM_MIN_FETCHED_PAGES)
		return cost_sweeping(path, root, core_path, tuples, visited, plan_flags);

	get_tablespace_page_costs(rel->reltablespace, &random_cost, &seq_cost);
	together = ceil(ceil(core_path->indexselectivity * rel->pages) * visited);
	correlation = index_correlation(root, core_path);
	if (scattered + correlation * correlation * (together - scattered) <
		AIOSTREAM_MIN_FETCHED_PAGES)
		return false;

	scattered_cost = scattered * random_cost;
	together_cost = together < 1.0 ? 0.0 : random_cost + (together - 1.0) * seq_cost;
	io_cost = scattered_cost +
		correlation * correlation * (together_cost - scattered_cost);

	/* repeated scans find much of it cached, which core's cost reflects */
	io_cost = Min(io_cost, path->total_cost - path->startup_cost);
	saved = aiostream_cost_saved(1.0, io_cost, rel->reltablespace);
	if (saved <= 0.0)
		return false;

	path->startup_cost += saved * AIOSTREAM_MIN_FETCHED_PAGES / scattered;
	path->total_cost += saved * AIOSTREAM_MIN_FETCHED_PAGES / scattered - saved;
	path->total_cost = Max(path->total_cost, path->startup_cost);
	return true;
}
