/*
 * prewarm.c
 *		aiostream_prewarm(): reads a relation ahead of its use, like pg_prewarm(),
 *		with the same arguments, errors and result.
 *
 * Mode "buffer" streams: many large reads in flight, into shared buffers at
 * large and not into a ring.  The other two modes fill the kernel's page cache,
 * which no direct read could; they leave the combining to the kernel.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "stream/stream.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(aiostream_prewarm);

typedef enum PrewarmMode
{
	PREWARM_PREFETCH,
	PREWARM_READ,
	PREWARM_BUFFER
} PrewarmMode;

/* What is to be read: blocks next .. end - 1 */
typedef struct PrewarmRange
{
	Relation	rel;
	ForkNumber	fork;
	BlockNumber nblocks;		/* the fork's length */
	BlockNumber next;
	BlockNumber end;
} PrewarmRange;

static PrewarmMode
parse_mode(const char *mode)
{
	if (strcmp(mode, "prefetch") == 0)
		return PREWARM_PREFETCH;
	if (strcmp(mode, "read") == 0)
		return PREWARM_READ;
	if (strcmp(mode, "buffer") == 0)
		return PREWARM_BUFFER;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid prewarm type"),
			 errhint("Valid prewarm types are \"prefetch\", \"read\", and \"buffer\".")));
}

static char *
required_text(FunctionCallInfo fcinfo, int arg, const char *what)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s cannot be null", what)));
	return text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

/*
 * Open relid with AccessShareLock; of an index, the table is locked first, as
 * everyone does.  Sets *owner to the relation whose privileges count: of an index,
 * its table.
 */
static Relation
open_checked(Oid relid, Oid *owner)
{
	char		relkind = get_rel_relkind(relid);
	Relation	rel;
	AclResult	result;

	*owner = relid;
	if (relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX)
	{
		*owner = IndexGetRelation(relid, true);
		if (OidIsValid(*owner))
			LockRelationOid(*owner, AccessShareLock);
	}
	rel = relation_open(relid, AccessShareLock);

	/* Was the index dropped, and its OID used again, before we had the lock? */
	if (!OidIsValid(*owner) ||
		(*owner != relid && IndexGetRelation(relid, true) != *owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not find parent table of index \"%s\"",
						RelationGetRelationName(rel))));

	result = pg_class_aclcheck(*owner, GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));

	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" does not have storage",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ||
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Name one of its partitions.") : 0));
	return rel;
}

/* A block number given as argument, or the default if it is NULL */
static BlockNumber
block_argument(FunctionCallInfo fcinfo, int arg, const char *what,
			   BlockNumber nblocks, BlockNumber otherwise)
{
	int64		block;

	if (PG_ARGISNULL(arg))
		return otherwise;
	block = PG_GETARG_INT64(arg);
	if (block < 0 || block >= (int64) nblocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s block number must be between 0 and %lld",
						what, (long long) nblocks - 1)));
	return (BlockNumber) block;
}

static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	PrewarmRange *range = (PrewarmRange *) callback_private;

	return range->next < range->end ? range->next++ : InvalidBlockNumber;
}

static void
read_block(PrewarmRange *range, BlockNumber block)
{
	ReleaseBuffer(ReadBufferExtended(range->rel, range->fork, block,
									 RBM_NORMAL, NULL));
}

/* Returns the number of blocks read; raises core's error for one that is bad. */
static int64
prewarm_streamed(PrewarmRange *range)
{
	AiostreamStreamOptions options = {-1, -1, -1, aiostream_maintenance_io_concurrency, true};
	AiostreamStream *stream;
	BlockNumber block;
	Buffer		buffer;
	int64		done = 0;

	stream = aiostream_stream_begin(range->rel, range->fork, range->nblocks, NULL,
									next_block, range, 0, &options);
	while (aiostream_stream_next(stream, &block, &buffer, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		if (BufferIsValid(buffer))
			ReleaseBuffer(buffer);
		else
			read_block(range, block);
		done++;
	}
	aiostream_stream_end(stream);
	return done;
}

/* One block after the other, by core */
static int64
prewarm_plain(PrewarmRange *range, PrewarmMode mode)
{
	PGAlignedBlock page;
	int64		done = 0;

	for (; range->next < range->end; range->next++, done++)
	{
		CHECK_FOR_INTERRUPTS();
		switch (mode)
		{
			case PREWARM_PREFETCH:
				(void) PrefetchBuffer(range->rel, range->fork, range->next);
				break;
			case PREWARM_READ:
				smgrread(RelationGetSmgr(range->rel), range->fork, range->next,
						 page.data);
				break;
			case PREWARM_BUFFER:
				read_block(range, range->next);
				break;
		}
	}
	return done;
}

/*
 * aiostream_prewarm(rel regclass, mode text, fork text, first bigint, last
 * bigint) -> number of blocks.  Without preloading, and for temporary tables, it
 * reads as pg_prewarm does.
 */
Datum
aiostream_prewarm(PG_FUNCTION_ARGS)
{
	PrewarmRange range;
	PrewarmMode mode;
	char	   *fork;
	Oid			owner;
	int64		done;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("relation cannot be null")));
	mode = parse_mode(required_text(fcinfo, 1, "prewarm type"));
	fork = required_text(fcinfo, 2, "relation fork");
	range.fork = forkname_to_number(fork);

	range.rel = open_checked(PG_GETARG_OID(0), &owner);
	if (!smgrexists(RelationGetSmgr(range.rel), range.fork))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fork \"%s\" does not exist for this relation", fork)));

	range.nblocks = RelationGetNumberOfBlocksInFork(range.rel, range.fork);
	range.next = block_argument(fcinfo, 3, "starting", range.nblocks, 0);
	range.end = range.nblocks == 0 && PG_ARGISNULL(4) ? 0 :
		block_argument(fcinfo, 4, "ending", range.nblocks, range.nblocks - 1) + 1;

	if (mode == PREWARM_BUFFER && aiostream_stream_usable(range.rel))
		done = prewarm_streamed(&range);
	else
		done = prewarm_plain(&range, mode);

	relation_close(range.rel, AccessShareLock);
	if (owner != PG_GETARG_OID(0))
		UnlockRelationOid(owner, AccessShareLock);
	PG_RETURN_INT64(done);
}
