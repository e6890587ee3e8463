/*
 * plan_internal.h
 *		Shared by the files of this folder only.
 */
#ifndef AIOSTREAM_PLAN_INTERNAL_H
#define AIOSTREAM_PLAN_INTERNAL_H

#include "nodes/pathnodes.h"
#include "plan/plan.h"

/*
 * Fill in rows and costs of an AioSeqScan path of rel.  Set before: parent,
 * pathtarget, param_info, parallel_workers.
 */
extern void aiostream_cost_seqscan(Path *path, PlannerInfo *root,
								   RelOptInfo *rel);

/*
 * The part of the I/O cost of reading "pages" scattered pages, at page_cost
 * each, that look-ahead saves for a table in the given tablespace.
 */
extern Cost aiostream_cost_saved(double pages, double page_cost, Oid tablespace);

/* What making a stream costs at least, in units of seq_page_cost; see cost.c */
#define AIOSTREAM_STREAM_COST 12.0

/* Scans that fetch fewer pages keep core's plan. */
#define AIOSTREAM_MIN_FETCHED_PAGES 16

/*
 * For each of core's paths in the list that look-ahead can improve, make one
 * of ours; they are returned, not added.  partial: for rel's partial_pathlist.
 */
extern List *aiostream_bitmap_paths(PlannerInfo *root, RelOptInfo *rel, List *paths);
extern List *aiostream_index_paths(PlannerInfo *root, RelOptInfo *rel, List *paths);

/*
 * Fill in the costs of an index path of ours from those of the core path that it
 * stands in for.  False if too few heap pages are fetched for it to pay.
 * *plan_flags: AIOSTREAM_PLAN_..., other than _CAREFUL.
 */
extern bool aiostream_cost_indexscan(Path *path, PlannerInfo *root,
									 const IndexPath *core_path, int *plan_flags);

/* AIOSTREAM_PLAN_CAREFUL and _FEW_ROWS, where they apply to the query; see paths.c. */
extern int	aiostream_stop_flags(PlannerInfo *root, const Path *path);

/* May a scan of rel hand out more columns than tlist names? See paths.c. */
extern bool aiostream_any_tlist_will_do(PlannerInfo *root, RelOptInfo *rel,
										Path *path, List *tlist);

#endif							/* AIOSTREAM_PLAN_INTERNAL_H */
