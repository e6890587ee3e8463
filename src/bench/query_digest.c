/*
 * query_digest.c
 *		A destination for a query's rows that keeps only their number and a
 *		digest of them.
 *
 * The digest is the sum of the rows' hashes: it does not depend on their
 * order, which differs between plans and parallel runs unless the query sorts.
 * A row's hash is that of its columns' text output, so that equal values hash
 * alike wherever and however they are stored.
 */
#include "postgres.h"

#include "bench/query_digest.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static void
digest_startup(DestReceiver *self, int operation, TupleDesc typeinfo)
{
	AiostreamDigest *digest = (AiostreamDigest *) self;
	int			i;

	(void) operation;
	digest->natts = typeinfo->natts;
	digest->output = palloc0(sizeof(FmgrInfo) * Max(typeinfo->natts, 1));
	for (i = 0; i < typeinfo->natts; i++)
	{
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(TupleDescAttr(typeinfo, i)->atttypid, &function, &is_varlena);
		fmgr_info(function, &digest->output[i]);
	}
}

static bool
digest_receive(TupleTableSlot *slot, DestReceiver *self)
{
	AiostreamDigest *digest = (AiostreamDigest *) self;
	MemoryContext old_context = MemoryContextSwitchTo(digest->row_context);
	uint64		hash = 0;
	int			i;

	slot_getallattrs(slot);
	for (i = 0; i < digest->natts; i++)
	{
		uint64		column = 1; /* a NULL's hash */

		if (!slot->tts_isnull[i])
		{
			char	   *text = OutputFunctionCall(&digest->output[i], slot->tts_values[i]);

			column = hash_bytes_extended((const unsigned char *) text,
										 (int) strlen(text), 0);
		}
		hash = hash_combine64(hash, column);
	}
	digest->digest += hash;
	digest->rows++;

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(digest->row_context);
	return true;
}

static void
digest_shutdown(DestReceiver *self)
{
	(void) self;
}

static void
digest_destroy(DestReceiver *self)
{
	/* it goes with its memory context */
	(void) self;
}

AiostreamDigest *
aiostream_digest_create(void)
{
	AiostreamDigest *digest = palloc0(sizeof(AiostreamDigest));

	digest->receiver.receiveSlot = digest_receive;
	digest->receiver.rStartup = digest_startup;
	digest->receiver.rShutdown = digest_shutdown;
	digest->receiver.rDestroy = digest_destroy;
	digest->receiver.mydest = DestNone;
	digest->row_context = AllocSetContextCreate(CurrentMemoryContext,
												"aiostream row digest",
												ALLOCSET_DEFAULT_SIZES);
	return digest;
}
