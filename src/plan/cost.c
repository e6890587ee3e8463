/*
 * cost.c
 *		What our scans cost.
 *
 * AioSeqScan: core's estimate for a sequential scan with two changes.  Reading a page costs
 * AIOSTREAM_SEQ_PAGE_FACTOR of seq_page_cost: large requests in flight are
 * cheaper than waiting for single pages.  Against that stands a start-up cost,
 * for making the stream, which the cheaper pages make up for after
 * AIOSTREAM_BREAK_EVEN_PAGES.  Smaller tables thus keep the plain plan, and
 * so do queries that want only a few rows (LIMIT, EXISTS).
 *
 * Scans that fetch scattered pages: with d requests in flight (the tablespace's
 * effective_io_concurrency where set, else aiostream.effective_io_concurrency)
 * a page is cheaper by
 *
 *		0.5 * (1 - 1 / (1 + log2(d)))
 *
 * of what core takes it to cost: nothing at depth 1, 0.4 at 16, and never half,
 * as part of the cost is no waiting.
 *
 * The factors are the same whether or not the table is cached: seq_page_cost
 * itself is core's compromise between the two.
 */
#include "postgres.h"

#include <math.h>

#include "guc.h"
#include "optimizer/cost.h"
#include "plan/plan_internal.h"
#include "storage/bufmgr.h"
#include "utils/spccache.h"

/* Estimated cost of a page, as a part of what core takes it to cost */
#define AIOSTREAM_SEQ_PAGE_FACTOR		0.8
/* Tables smaller than this are not worth a stream */
#define AIOSTREAM_BREAK_EVEN_PAGES		64

void
aiostream_cost_seqscan(Path *path, PlannerInfo *root, RelOptInfo *rel)
{
	double		page_cost;
	Cost		saved_per_page;

	/* Includes disable_cost when enable_seqscan is off. */
	cost_seqscan(path, root, rel, path->param_info);

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	saved_per_page = page_cost * (1.0 - AIOSTREAM_SEQ_PAGE_FACTOR);

	path->startup_cost += saved_per_page * AIOSTREAM_BREAK_EVEN_PAGES;
	path->total_cost += saved_per_page * AIOSTREAM_BREAK_EVEN_PAGES;
	path->total_cost -= saved_per_page * rel->pages;
	path->total_cost = Max(path->total_cost, path->startup_cost);
}

Cost
aiostream_cost_saved(double pages, double page_cost, Oid tablespace)
{
	int			depth = aiostream_concurrency_in(tablespace);

	if (depth <= 1)
		return 0;
	return 0.5 * (1.0 - 1.0 / (1.0 + log2(depth))) * pages * page_cost;
}
