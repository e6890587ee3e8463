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
extern void aiostream_explain_qual(const char *label, List *qual,
								   CustomScanState *node, List *ancestors,
								   ExplainState *es);

#endif							/* AIOSTREAM_SCAN_INTERNAL_H */
