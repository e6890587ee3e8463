/*
 * query_digest.h
 *		A destination for a query's rows that keeps only their number and a
 *		digest of them.
 */
#ifndef AIOSTREAM_QUERY_DIGEST_H
#define AIOSTREAM_QUERY_DIGEST_H

#include "postgres.h"

#include "fmgr.h"
#include "tcop/dest.h"

typedef struct AiostreamDigest
{
	DestReceiver receiver;		/* must be first */
	MemoryContext row_context;
	int			natts;
	FmgrInfo   *output;			/* one per column */

	/* results */
	uint64		rows;
	uint64		digest;
} AiostreamDigest;

/* Made in CurrentMemoryContext; for one execution of a query. */
extern AiostreamDigest *aiostream_digest_create(void);

#endif							/* AIOSTREAM_QUERY_DIGEST_H */
