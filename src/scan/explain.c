/*
 * explain.c
 *		A scan node's I/O counters in EXPLAIN (ANALYZE).
 *
 * Keys are those of PostgreSQL 19's EXPLAIN (IO) where it has them.  Units:
 * distances and sizes in blocks, averages over the requests made, times in
 * milliseconds.  All of them vary from run to run, so they are left out with
 * COSTS OFF, as tests use it, unless BUFFERS asks for I/O all the same.
 */
#include "postgres.h"

#include "scan/scan_internal.h"

static double
average(uint64 sum, uint64 n)
{
	return n == 0 ? 0.0 : (double) sum / (double) n;
}

/* Share of the blocks read */
static double
percent(uint64 blocks, const AiostreamStreamStats *stats)
{
	return stats->io_blocks == 0 ? 0.0 : 100.0 * (double) blocks / (double) stats->io_blocks;
}

static void
indent(ExplainState *es)
{
	appendStringInfoSpaces(es->str, es->indent * 2);
}

/* Two lines, none without I/O; zeros are left out. */
static void
explain_text(const AiostreamStreamStats *stats, ExplainState *es)
{
	if (stats->ios == 0)
		return;

	indent(es);
	appendStringInfo(es->str, "Prefetch: distance avg=%.1f max=" UINT64_FORMAT
					 " capacity=" UINT64_FORMAT "\n",
					 average(stats->distance_sum, stats->distance_samples),
					 stats->distance_max, stats->capacity);

	indent(es);
	appendStringInfo(es->str, "I/O: count=" UINT64_FORMAT " size=%.1f in-progress=%.1f",
					 stats->ios, average(stats->io_blocks, stats->ios),
					 average(stats->inflight_sum, stats->ios));
	if (stats->direct_ios > 0)
		appendStringInfo(es->str, " direct=" UINT64_FORMAT, stats->direct_ios);
	if (stats->waits > 0)
		appendStringInfo(es->str, " waits=" UINT64_FORMAT, stats->waits);
	if (stats->wait_us > 0 && es->timing)
		appendStringInfo(es->str, " wait-time=%.3f", stats->wait_us / 1000.0);
	if (stats->hits > 0)
		appendStringInfo(es->str, " hits=" UINT64_FORMAT, stats->hits);
	if (stats->core_reads > 0)
		appendStringInfo(es->str, " core-reads=" UINT64_FORMAT, stats->core_reads);
	if (stats->forward_blocks > 0)
		appendStringInfo(es->str, " forward=%.0f%%", percent(stats->forward_blocks, stats));
	if (stats->backward_blocks > 0)
		appendStringInfo(es->str, " backward=%.0f%%", percent(stats->backward_blocks, stats));
	if (stats->index_blocks > 0)
		appendStringInfo(es->str, " index-blocks=" UINT64_FORMAT, stats->index_blocks);
	if (stats->gap_blocks > 0)
		appendStringInfo(es->str, " gap-blocks=" UINT64_FORMAT, stats->gap_blocks);
	if (stats->collapses > 0)
		appendStringInfo(es->str, " given-up=" UINT64_FORMAT, stats->collapses);
	appendStringInfoChar(es->str, '\n');
}

static void
explain_structured(const AiostreamStreamStats *stats, ExplainState *es)
{
	ExplainPropertyFloat("Average Prefetch Distance", "blocks",
						 average(stats->distance_sum, stats->distance_samples), 3, es);
	ExplainPropertyInteger("Max Prefetch Distance", "blocks",
						   (int64) stats->distance_max, es);
	ExplainPropertyInteger("Prefetch Capacity", "blocks",
						   (int64) stats->capacity, es);
	ExplainPropertyInteger("I/O Count", NULL, (int64) stats->ios, es);
	ExplainPropertyInteger("I/O Waits", NULL, (int64) stats->waits, es);
	ExplainPropertyFloat("Average I/O Size", "blocks",
						 average(stats->io_blocks, stats->ios), 3, es);
	ExplainPropertyFloat("Average I/Os In Progress", NULL,
						 average(stats->inflight_sum, stats->ios), 3, es);
	ExplainPropertyInteger("Direct I/O Count", NULL, (int64) stats->direct_ios, es);
	if (es->timing)
		ExplainPropertyFloat("I/O Wait Time", "ms", stats->wait_us / 1000.0, 3, es);
	ExplainPropertyInteger("Core Reads", "blocks", (int64) stats->core_reads, es);
	ExplainPropertyInteger("Buffers Hit", "blocks", (int64) stats->hits, es);
	ExplainPropertyFloat("Combined Forward", "%", percent(stats->forward_blocks, stats), 1, es);
	ExplainPropertyFloat("Combined Backward", "%", percent(stats->backward_blocks, stats), 1, es);
	ExplainPropertyInteger("Index Blocks", "blocks", (int64) stats->index_blocks, es);
	ExplainPropertyInteger("Gap Blocks", "blocks", (int64) stats->gap_blocks, es);
	ExplainPropertyInteger("Look-Ahead Given Up", NULL, (int64) stats->collapses, es);
}

void
aiostream_explain_stats(const AiostreamStreamStats *stats, ExplainState *es)
{
	if (!es->analyze || !(es->costs || es->buffers))
		return;

	if (es->format == EXPLAIN_FORMAT_TEXT)
		explain_text(stats, es);
	else
		explain_structured(stats, es);
}
