/*
 * follower_hint.c
 *		What VACUUM is going to read, guessed.
 *
 * Core decides; these are hints.  A wrong one costs a read for nothing, or a read
 * that core does itself.
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "commands/vacuum.h"
#include "maintenance/follower_internal.h"
#include "postmaster/autovacuum.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/relcache.h"

/* Blocks looked for in shared buffers to tell how much of a relation is there */
#define SAMPLES 64

/* Will VACUUM read all pages that are not all-frozen? */
bool
aiostream_vacuum_aggressive(Relation rel, bool freeze)
{
	int			xid_age;
	int			mxid_age;

	if (freeze)
		return true;
	xid_age = (int) Min(vacuum_freeze_table_age, autovacuum_freeze_max_age * 0.95);
	mxid_age = (int) Min(vacuum_multixact_freeze_table_age,
						 autovacuum_multixact_freeze_max_age * 0.95);
	return
		(TransactionIdIsNormal(rel->rd_rel->relfrozenxid) &&
		 (int32) (ReadNextTransactionId() - rel->rd_rel->relfrozenxid) >= xid_age) ||
		(MultiXactIdIsValid(rel->rd_rel->relminmxid) &&
		 (int32) (ReadNextMultiXactId() - rel->rd_rel->relminmxid) >= mxid_age);
}

/* Blocks of the relation's first nblocks that are not in shared buffers */
static BlockNumber
not_cached(Relation rel, BlockNumber nblocks)
{
	int			samples = (int) Min(SAMPLES, nblocks);
	int			missing = 0;

	for (int i = 0; i < samples; i++)
	{
		BlockNumber block = (BlockNumber) ((uint64) nblocks * i / samples);

		if (!aiostream_stream_cached(rel, MAIN_FORKNUM, block))
			missing++;
	}
	return samples == 0 ? 0 : (BlockNumber) ((uint64) nblocks * missing / samples);
}

/*
 * Blocks of the table and its indexes that a vacuum would have to read, roughly;
 * indexes are counted only where the table alone is not enough to start a follower.
 * The caller has rel open and locked.
 */
BlockNumber
aiostream_vacuum_to_read(Relation rel, bool freeze, bool all_pages)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	BlockNumber scanned = nblocks;
	BlockNumber sum = not_cached(rel, nblocks);
	List	   *indexes;
	ListCell   *lc;

	if (sum >= AIOSTREAM_FOLLOWER_MIN_BLOCKS && !all_pages)
	{
		BlockNumber all_visible;
		BlockNumber all_frozen;

		visibilitymap_count(rel, &all_visible, &all_frozen);
		if (aiostream_vacuum_aggressive(rel, freeze))
			all_visible = all_frozen;
		scanned -= Min(scanned, all_visible);
		sum = Min(sum, scanned);
	}

	/* nothing to scan: nothing to remove from indexes either */
	if (scanned < AIOSTREAM_FOLLOWER_MIN_BLOCKS / 16 || sum >= AIOSTREAM_FOLLOWER_START_BLOCKS)
		return sum;

	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		Oid			indexid = lfirst_oid(lc);
		Relation	index;

		if (!ConditionalLockRelationOid(indexid, AccessShareLock))
			continue;
		index = try_relation_open(indexid, NoLock);
		if (index == NULL)
		{
			UnlockRelationOid(indexid, AccessShareLock);
			continue;
		}
		/* a file that is missing is for core to complain about, or not */
		if (smgrexists(RelationGetSmgr(index), MAIN_FORKNUM))
			sum += not_cached(index, RelationGetNumberOfBlocks(index));
		relation_close(index, AccessShareLock);
		if (sum >= AIOSTREAM_FOLLOWER_START_BLOCKS)
			break;
	}
	list_free(indexes);
	return sum;
}
