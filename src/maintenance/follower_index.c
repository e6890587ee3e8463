/*
 * follower_index.c
 *		Ahead of a vacuum's passes over indexes.
 *
 * Core vacuums one index after the other, or several at a time in parallel, and
 * publishes neither which nor how far it is.  So the pages themselves have to
 * tell: they are read with usage count 0, which core's pin changes.
 *
 * Access methods that scan an index in physical order are read ahead of in that
 * order.  A few indexes, in the order in which core takes them, are being read at
 * any time, each with a ring of its own: the one at work and the one
 * after it, or as many as there may be processes.
 *
 * Where the vacuum is ahead of us (it began before we were there), no page of ours
 * will ever be touched, and it reads for itself.  Then the pages that it has just
 * read are in shared buffers, in its own small ring: they are looked for there,
 * and we go on from them.
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am_d.h"
#include "commands/progress.h"
#include "maintenance/follower_internal.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "utils/timestamp.h"

/*
 * Without a touch for so long, and with the vacuum reading, we look where it is;
 * again after twice that time
 */
#define LOST_MS			10
#define LOST_MAX_MS		640
/* core's ring holds 32 pages: one of so many is enough to look at */
#define LOST_STEP		16

/* An index being read */
typedef struct IndexWindow
{
	Relation	rel;
	AiostreamStream *stream;
	AiostreamWriteBehind *behind;
	int			ring;			/* which of the follower's */
	BlockNumber next;
	BlockNumber end;
	TimestampTz lost_at;		/* look for the vacuum then */
	int			lost_ms;
} IndexWindow;

typedef struct IndexPass
{
	AiostreamFollowed *table;
	List	   *indexes;		/* OIDs that are still to come */
	int			max_open;		/* windows to be used */
	int			nopen;
	IndexWindow *windows[AIOSTREAM_FOLLOWER_INDEXES];	/* [0]: the oldest */
} IndexPass;

static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	IndexWindow *window = (IndexWindow *) callback_private;

	return window->next < window->end ? window->next++ : InvalidBlockNumber;
}

/*
 * Does the access method read all of the index in physical order in this phase?
 * GIN's deletion walks the entry tree; what follows deletion in other methods
 * uses its results.
 */
static bool
physical_order(Oid am, bool cleanup, bool deleted)
{
	switch (am)
	{
		case BTREE_AM_OID:
		case HASH_AM_OID:
			return !cleanup;
		case GIST_AM_OID:
		case SPGIST_AM_OID:
			return !cleanup || !deleted;
		case GIN_AM_OID:
		case BRIN_AM_OID:
			return cleanup;
	}
	return false;
}

/*
 * Indexes worth reading ahead of, in core's order.  *nparallel: how many of all
 * core would give to parallel workers.  The table is not left locked.
 */
static List *
list_indexes(AiostreamFollowed *table, int *nparallel)
{
	bool		cleanup = table->now.phase == PROGRESS_VACUUM_PHASE_INDEX_CLEANUP;
	Relation	rel = aiostream_follower_open(table->relid);
	List	   *result = NIL;
	List	   *all;
	ListCell   *lc;

	*nparallel = 0;
	if (rel == NULL)
		return NIL;
	all = RelationGetIndexList(rel);
	aiostream_follower_close(rel);
	foreach(lc, all)
	{
		Relation	index = aiostream_follower_open(lfirst_oid(lc));
		BlockNumber nblocks;

		if (index == NULL)
			continue;
		nblocks = RelationGetNumberOfBlocks(index);
		if (nblocks >= (BlockNumber) min_parallel_index_scan_size)
			(*nparallel)++;
		if (nblocks >= AIOSTREAM_FOLLOWER_MIN_BLOCKS && index->rd_index->indisready &&
			physical_order(index->rd_rel->relam, cleanup, table->now.index_vacuums > 0))
			result = lappend_oid(result, RelationGetRelid(index));
		aiostream_follower_close(index);
	}
	list_free(all);
	return result;
}

/* How many indexes to read at a time: those at work and the next one */
static int
choose_windows(const AiostreamFollowed *table, int nparallel)
{
	int			processes = 1;

	if (table->order->parallel && nparallel > 1)
		processes += Min(nparallel - 1, max_parallel_maintenance_workers);
	return Min(processes + 1, AIOSTREAM_FOLLOWER_INDEXES);
}

/* ---- windows ---- */

static void
found_vacuum(IndexWindow *window)
{
	window->lost_ms = LOST_MS;
	window->lost_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LOST_MS);
}

/* A ring that no window uses; false: shared buffers are too small for one. */
static bool
free_ring(IndexPass *pass, int *ring)
{
	AiostreamFollowed *table = pass->table;
	bool		used[AIOSTREAM_FOLLOWER_INDEXES] = {0};
	int			size = AIOSTREAM_FOLLOWER_RING / pass->max_open;

	for (int i = 0; i < pass->nopen; i++)
		used[pass->windows[i]->ring] = true;
	for (*ring = 0; used[*ring]; (*ring)++)
		;
	if (table->index_ring_size != size)
	{
		Assert(pass->nopen == 0);
		for (int i = 0; i < AIOSTREAM_FOLLOWER_INDEXES; i++)
		{
			if (table->index_rings[i] != NULL)
				FreeAccessStrategy(table->index_rings[i]);
			table->index_rings[i] = NULL;
		}
		table->index_ring_size = size;
	}
	if (table->index_rings[*ring] == NULL)
		table->index_rings[*ring] = aiostream_follower_ring(size);
	return table->index_rings[*ring] != NULL;
}

/* Start on the next index; it may be gone, or locked against us. */
static void
open_window(IndexPass *pass)
{
	int			ring;
	AiostreamStreamOptions options = aiostream_follower_options(pass->table->order);
	Relation	rel = aiostream_follower_open(linitial_oid(pass->indexes));
	IndexWindow *window;

	pass->indexes = list_delete_first(pass->indexes);
	if (rel == NULL)
		return;
	if (!free_ring(pass, &ring))
	{
		aiostream_follower_close(rel);
		return;
	}
	window = palloc0(sizeof(IndexWindow));
	window->rel = rel;
	window->end = RelationGetNumberOfBlocks(rel);
	window->ring = ring;
	options.untouched = true;
	window->stream = aiostream_stream_begin(rel, MAIN_FORKNUM, window->end,
											pass->table->index_rings[ring],
											next_block, window, 0, &options);
	window->behind = aiostream_write_behind_begin(pass->table, rel, window->end, 0, false);
	found_vacuum(window);
	pass->windows[pass->nopen++] = window;
}

/* done: the vacuum has finished with this index */
static void
close_window(IndexPass *pass, int i, bool done)
{
	IndexWindow *window = pass->windows[i];
	AiostreamStreamStats stats;

	aiostream_stream_get_stats(window->stream, &stats);
	pass->table->blocks_read += stats.io_blocks;
	aiostream_write_behind_end(pass->table, window->behind, done ? window->end : 0);
	aiostream_stream_end(window->stream);
	aiostream_follower_close(window->rel);
	pfree(window);
	pass->nopen--;
	for (; i < pass->nopen; i++)
		pass->windows[i] = pass->windows[i + 1];
}

/*
 * Drop from the queue what lies before the last block that has been touched, and
 * what was there already.  Returns whether a block had been touched.
 */
static bool
pass_touched(IndexWindow *window)
{
	uint32		queued = aiostream_stream_queued(window->stream);
	uint32		passed = 0;
	BlockNumber at = 0;
	bool		touched = false;

	for (uint32 i = 0; i < queued; i++)
	{
		BlockNumber block;
		Buffer		hint;
		bool		hit;

		aiostream_stream_peek(window->stream, i, &block, &hint, &hit);
		if (aiostream_stream_touched(window->stream, i))
		{
			touched = true;
			passed = i + 1;
			at = block;
		}
		else if (hit && passed == i)
			passed = i + 1;
	}
	/* the page touched last is being worked on */
	aiostream_write_behind_advance(window->behind, at);
	aiostream_stream_pass(window->stream, passed);
	return touched;
}

/* Nothing has been touched for a while: is the vacuum ahead of us? */
static void
look_for_vacuum(IndexWindow *window)
{
	BlockNumber found = InvalidBlockNumber;

	for (uint64 block = window->next; block < window->end; block += LOST_STEP)
	{
		if (!aiostream_follower_wanted())
			return;
		if (aiostream_stream_cached(window->rel, MAIN_FORKNUM, (BlockNumber) block))
			found = (BlockNumber) block;
		else if (found != InvalidBlockNumber)
			break;
	}
	if (found != InvalidBlockNumber)
	{
		aiostream_stream_reset(window->stream);
		window->next = Min(found + LOST_STEP, window->end);
		found_vacuum(window);
	}
	else
	{
		window->lost_ms = Min(window->lost_ms * 2, LOST_MAX_MS);
		window->lost_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), window->lost_ms);
	}
}

/* Read on in all windows; open and close as the vacuum proceeds. */
static void
advance(IndexPass *pass)
{
	int			last_touched = -1;
	bool		reads = aiostream_vacuum_reads(pass->table->order);

	for (int i = 0; i < pass->nopen; i++)
	{
		IndexWindow *window = pass->windows[i];

		if (pass_touched(window))
		{
			found_vacuum(window);
			last_touched = i;
		}
		else if (reads && (i == 0 || pass->max_open > 2) &&
				 GetCurrentTimestamp() >= window->lost_at)
			look_for_vacuum(window);
		aiostream_write_behind_read(window->behind, window->stream,
									AIOSTREAM_FOLLOWER_RING / pass->max_open);
	}

	/* done: all has been touched, or one process is at a later index */
	for (int i = pass->nopen - 1; i >= 0; i--)
	{
		IndexWindow *window = pass->windows[i];

		if (aiostream_stream_ended(window->stream) &&
			(aiostream_stream_queued(window->stream) == 0 ||
			 (i < last_touched && pass->max_open <= 2)))
			close_window(pass, i, true);
	}

	/* the next index, as soon as the last one has been asked for */
	if (pass->indexes != NIL && pass->nopen < pass->max_open &&
		(pass->max_open > 2 || pass->nopen == 0 ||
		 aiostream_stream_ended(pass->windows[pass->nopen - 1]->stream)))
		open_window(pass);
}

static void
report(IndexPass *pass)
{
	uint32		distance = 0;
	uint64		blocks_read = pass->table->blocks_read;
	uint64		blocks_written = pass->table->blocks_written;

	for (int i = 0; i < pass->nopen; i++)
	{
		AiostreamStreamStats stats;

		aiostream_stream_get_stats(pass->windows[i]->stream, &stats);
		blocks_read += stats.io_blocks;
		distance += aiostream_stream_queued(pass->windows[i]->stream);
		blocks_written += aiostream_write_behind_blocks(pass->windows[i]->behind);
	}
	aiostream_follower_report(pass->table->relid, pass->table->now.phase,
							  distance, blocks_read, blocks_written);
}

/* Wait for a read in flight, if there is one. */
static bool
wait_read(IndexPass *pass)
{
	for (int i = 0; i < pass->nopen; i++)
	{
		if (aiostream_stream_wait_read(pass->windows[i]->stream))
			return true;
	}
	return false;
}

void
aiostream_follow_indexes(AiostreamFollowed *table)
{
	AiostreamVacuumProgress start = table->now;
	IndexPass	pass;
	int			nparallel;

	memset(&pass, 0, sizeof(pass));
	pass.table = table;
	aiostream_follower_begin();
	pass.indexes = list_indexes(table, &nparallel);
	pass.max_open = choose_windows(table, nparallel);
	while (aiostream_followed_same_pass(table, &start))
	{
		advance(&pass);
		report(&pass);
		if (!wait_read(&pass))
			aiostream_follower_nap(1);
	}
	while (pass.nopen > 0)
		close_window(&pass, 0, table->now.relid == table->relid &&
					 table->now.phase > start.phase);
	aiostream_follower_commit();
}
