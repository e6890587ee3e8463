/*
 * prewarm_all.c
 *		aiostream_prewarm_all(): reads into shared buffers the blocks that
 *		pg_prewarm has noted down, as its autoprewarm worker does after a start.
 *
 * The list names files, not tables, and may be old: each file is looked up
 * anew, and what has been dropped, rewritten or cut off since is passed over.
 * Only buffers that hold no page are filled.
 */
#include "postgres.h"

#include "access/relation.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "guc.h"
#include "maintenance/prewarm_list.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "stream/stream.h"
#include "utils/rel.h"
#include "utils/relfilenodemap.h"

PG_FUNCTION_INFO_V1(aiostream_prewarm_all);

typedef struct Reload
{
	AiostreamBlockList list;
	Size		next;			/* what is to be looked at next */
	int64		free_buffers;	/* that may yet be filled */
	int64		done;			/* blocks read */
} Reload;

/* One fork of a relation: the list's blocks up to end - 1 */
typedef struct ReloadFork
{
	Reload	   *reload;
	Relation	rel;
	ForkNumber	fork;
	BlockNumber nblocks;
	Size		end;
} ReloadFork;

/*
 * The next block that is not in shared buffers, as long as there is a buffer for
 * it.  Each block takes one of those that were seen free at the start, so that look-ahead
 * counts, too; that others take some shows when none is left.
 */
static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	ReloadFork *fork = (ReloadFork *) callback_private;
	Reload	   *reload = fork->reload;

	while (reload->next < fork->end && reload->free_buffers > 0)
	{
		BlockNumber block = reload->list.blocks[reload->next].block;

		CHECK_FOR_INTERRUPTS();
		if (block >= fork->nblocks)
			break;
		reload->next++;
		if (aiostream_stream_cached(fork->rel, fork->fork, block))
			continue;
		if (!aiostream_stream_any_free_buffer())
		{
			reload->free_buffers = 0;
			break;
		}
		reload->free_buffers--;
		return block;
	}
	return InvalidBlockNumber;
}

/* By core, which may find that someone else has read it meanwhile */
static void
read_block(ReloadFork *fork, BlockNumber block)
{
	int64		before = pgBufferUsage.shared_blks_read;

	ReleaseBuffer(ReadBufferExtended(fork->rel, fork->fork, block, RBM_NORMAL, NULL));
	fork->reload->done += pgBufferUsage.shared_blks_read - before;
}

static void
load_streamed(ReloadFork *fork)
{
	AiostreamStreamOptions options = {-1, -1, -1, aiostream_maintenance_io_concurrency, true};
	AiostreamStream *stream;
	BlockNumber block;
	Buffer		buffer;

	stream = aiostream_stream_begin(fork->rel, fork->fork, fork->nblocks, NULL, next_block,
									fork, 0, &options);
	while (aiostream_stream_next(stream, &block, &buffer, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		if (BufferIsValid(buffer))
		{
			fork->reload->done += aiostream_stream_was_read(stream);
			ReleaseBuffer(buffer);
		}
		else
			read_block(fork, block);
	}
	aiostream_stream_end(stream);
}

static void
load_plain(ReloadFork *fork)
{
	BlockNumber block;

	while ((block = next_block(NULL, fork, NULL)) != InvalidBlockNumber)
		read_block(fork, block);
}

/*
 * The relation that has this file, with AccessShareLock, or NULL.  It may have got
 * another file until we had the lock.  Temporary tables, whose files may have
 * the same numbers, are never in shared buffers.
 */
static Relation
open_listed(const AiostreamListedBlock *listed)
{
	Oid			relid = RelidByRelfilenode(listed->tablespace, listed->filenode);
	Relation	rel;

	if (!OidIsValid(relid))
		return NULL;
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return NULL;
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		rel->rd_node.dbNode != listed->database ||
		rel->rd_node.spcNode != listed->tablespace ||
		rel->rd_node.relNode != listed->filenode)
	{
		relation_close(rel, AccessShareLock);
		return NULL;
	}
	return rel;
}

/* Fork by fork */
static void
load_relation(Reload *reload, Relation rel, Size end)
{
	ReloadFork	fork = {reload, rel};

	while (reload->next < end && reload->free_buffers > 0)
	{
		fork.fork = (ForkNumber) reload->list.blocks[reload->next].fork;
		fork.end = aiostream_prewarm_list_fork_end(&reload->list, reload->next);
		if (smgrexists(RelationGetSmgr(rel), fork.fork))
		{
			fork.nblocks = RelationGetNumberOfBlocksInFork(rel, fork.fork);
			if (aiostream_stream_usable(rel))
				load_streamed(&fork);
			else
				load_plain(&fork);
		}
		reload->next = fork.end;
	}
}

/* aiostream_prewarm_all() -> number of blocks read.  Works without preloading, too. */
Datum
aiostream_prewarm_all(PG_FUNCTION_ARGS)
{
	Reload		reload = {aiostream_prewarm_list_read()};

	reload.free_buffers = aiostream_stream_free_buffers();
	while (reload.next < reload.list.n && reload.free_buffers > 0)
	{
		Size		end = aiostream_prewarm_list_file_end(&reload.list, reload.next);
		int64		before = pgBufferUsage.shared_blks_read;
		Relation	rel;

		CHECK_FOR_INTERRUPTS();
		rel = open_listed(&reload.list.blocks[reload.next]);
		/* looking it up may have filled some */
		reload.free_buffers -= pgBufferUsage.shared_blks_read - before;
		if (rel != NULL)
		{
			load_relation(&reload, rel, end);
			relation_close(rel, AccessShareLock);
		}
		reload.next = end;
	}
	PG_RETURN_INT64(reload.done);
}
