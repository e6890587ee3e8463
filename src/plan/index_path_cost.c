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
 * offered at all, so that look-ups of single rows keep core's plan.
 */
#include "postgres.h"

#include <math.h>

#include "access/amapi.h"
#include "guc.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "plan/plan_internal.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

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

bool
aiostream_cost_indexscan(Path *path, PlannerInfo *root, const IndexPath *core_path)
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

	if (core_path->path.pathtype == T_IndexOnlyScan)
		visited -= rel->allvisfrac;
	scattered = index_pages_fetched(tuples, rel->pages,
									(double) core_path->indexinfo->pages, root);
	scattered = ceil(scattered * visited);
	if (aiostream_debug_force_nodes)
		return true;
	if (scattered < AIOSTREAM_MIN_FETCHED_PAGES)
		return false;

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
