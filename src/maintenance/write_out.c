/*
 * write_out.c
 *		aiostream_write_out(): has a relation's dirty pages written now, in large
 *		pieces by the I/O workers, so that the next checkpoint need not.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shmem.h"
#include "storage/latch.h"
#include "storage/smgr.h"
#include "stream/stream.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(aiostream_write_out);

/* The engine has writes enough: look again after this */
#define BUSY_POLL_MS 1

static void
check_owner(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	/* dropped meanwhile, or never there: opening it will say so */
	if (relkind != '\0' && !pg_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind),
					   get_rel_name(relid));
}

/* Returns the number of pages given to the workers. */
static int64
write_fork(Relation rel, ForkNumber fork)
{
	BlockNumber nblocks = RelationGetNumberOfBlocksInFork(rel, fork);
	AiostreamWriteStream *stream = aiostream_write_stream_begin(rel, fork, nblocks, -1, false);
	int64		written;

	for (;;)
	{
		AiostreamWriteProgress progress =
		aiostream_write_stream_advance(stream, nblocks, true);

		if (progress == AIOSTREAM_WRITE_DONE)
			break;
		CHECK_FOR_INTERRUPTS();
		if (progress == AIOSTREAM_WRITE_MORE)
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 BUSY_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	written = (int64) aiostream_write_stream_blocks(stream);
	aiostream_write_stream_end(stream);
	return written;
}

/* aiostream_write_out(rel regclass, fork text) -> pages */
Datum
aiostream_write_out(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	ForkNumber	fork = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	Relation	rel;
	int64		written = 0;

	aiostream_require_preload();
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("%s cannot be executed during recovery.", "aiostream_write_out()")));
	check_owner(relid);
	rel = relation_open(relid, AccessShareLock);
	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" does not have storage",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ||
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Name one of its partitions.") : 0));
	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot write out temporary relation \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Pages of temporary relations are not in shared buffers.")));
	if (smgrexists(RelationGetSmgr(rel), fork))
		written = write_fork(rel, fork);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(written);
}
