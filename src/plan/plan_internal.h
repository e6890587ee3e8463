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

#endif							/* AIOSTREAM_PLAN_INTERNAL_H */
