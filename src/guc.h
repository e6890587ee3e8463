/*
 * guc.h
 *		aiostream's settings.  Defined in guc.c; read everywhere.
 */
#ifndef AIOSTREAM_GUC_H
#define AIOSTREAM_GUC_H

#include "postgres.h"

/* aiostream.debug_force_nodes */
typedef enum AiostreamForceNodes
{
	AIOSTREAM_FORCE_OFF,
	AIOSTREAM_FORCE_ON,			/* no other paths than ours */
	AIOSTREAM_FORCE_REPLACE		/* ours in place of core's, at its cost */
} AiostreamForceNodes;

extern bool aiostream_enable;	/* USERSET: master switch of the session */
extern bool aiostream_enable_seqscan;	/* USERSET: AioSeqScan paths */
extern bool aiostream_enable_bitmapscan;	/* USERSET: AioBitmapHeapScan
											 * paths */
extern bool aiostream_enable_indexscan; /* USERSET: AioIndexScan paths */
extern bool aiostream_enable_indexonlyscan; /* USERSET: AioIndexOnlyScan paths */
extern int	aiostream_debug_force_nodes;	/* SUSET: make the nodes cheapest */
extern int	aiostream_direct_io;	/* USERSET: AiostreamDirect */
extern int	aiostream_io_combine_limit; /* USERSET: blocks a request */
extern int	aiostream_effective_io_concurrency; /* USERSET: requests in flight
												 * a scan */
extern bool aiostream_enable_vacuum;	/* USERSET: followers of vacuums */
extern bool aiostream_write_behind; /* USERSET: followers also write */
extern int	aiostream_maintenance_io_concurrency;	/* USERSET: requests in
													 * flight a vacuum,
													 * prewarm */
extern int	aiostream_io_method;	/* POSTMASTER: AiostreamMethodId */
extern int	aiostream_io_max_concurrency;	/* POSTMASTER: requests in flight
											 * a process */
extern int	aiostream_io_workers;	/* SIGHUP */
extern bool aiostream_align_buffers;	/* POSTMASTER: align shared buffers
										 * for direct I/O */

/*
 * Requests in flight for a scan of a table in that tablespace (tablespace.c): its own
 * effective_io_concurrency where it has one, else the setting above.  0 and 1 both
 * mean no look-ahead.
 */
extern int	aiostream_concurrency_in(Oid tablespace);

/*
 * Defines the settings; the POSTMASTER ones only while preloading, as core
 * refuses them later.
 */
extern void aiostream_guc_init(void);

#endif							/* AIOSTREAM_GUC_H */
