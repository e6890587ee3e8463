/*
 * scan_internal.h
 *		Shared by the files of this folder only.
 */
#ifndef AIOSTREAM_SCAN_INTERNAL_H
#define AIOSTREAM_SCAN_INTERNAL_H

#include "commands/explain.h"
#include "scan/scan.h"

/*
 * Print a node's counters: the one place that knows names and units.  Prints
 * nothing unless EXPLAIN runs with ANALYZE and with costs shown.
 */
extern void aiostream_explain_stats(const AiostreamStreamStats *stats,
									ExplainState *es);

/* scanstate.c: a slot that can hold heap tuples, and expressions for it */
extern void aiostream_scanstate_init(CustomScanState *node, EState *estate);

/* scanstate.c: how far to look ahead where the plan says AIOSTREAM_PLAN_CAREFUL */
extern int	aiostream_careful_distance(int plan_flags, uint64 consumed);
extern void aiostream_explain_qual(const char *label, List *qual,
								   CustomScanState *node, List *ancestors,
								   ExplainState *es);

/*
 * sample.c: reading ahead of ANALYZE.  Begin as core begins its scan, before
 * anything else draws a random number; nblocks is the scan's.  NULL where look-ahead is
 * not possible or not worth it.  _block before core reads each block: returns it
 * pinned (the caller's to release) or InvalidBuffer; then _looked_up when core has.
 */
typedef struct AiostreamSample AiostreamSample;

extern AiostreamSample *aiostream_sample_begin(Relation rel, BlockNumber nblocks);
extern Buffer aiostream_sample_block(AiostreamSample *sample, BlockNumber blkno);
extern void aiostream_sample_looked_up(AiostreamSample *sample, bool was_pinned,
									   bool hit);
extern void aiostream_sample_end(AiostreamSample *sample);

#endif							/* AIOSTREAM_SCAN_INTERNAL_H */
