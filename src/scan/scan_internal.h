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

#endif							/* AIOSTREAM_SCAN_INTERNAL_H */
