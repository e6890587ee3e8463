/*
 * scout.c
 *		Reading ahead of a scan of a whole index that core drives: CLUSTER.
 *
 * Core reads one index entry after the other and fetches its row, with a snapshot that
 * sees everything.  The one who calls us hears of each fetch.  What comes next we find out
 * by a scan of our own over the same index, the scout, which looks at entries only
 * and is ahead of core's.  Both see the same entries in the same order, as the
 * caller holds a lock that nobody else can have anything changed under:
 *
 *		core's scan		e1  e2  e3 ...
 *		the scout						 e40  e41
 *		their blocks		 through the stream, in windows sorted by block
 *
 * A block is announced to the stream once in a while only, as its next rows find it
 * present.  Which ones are, core's side decides over again by the same
 * rule, so that it knows when to take a block out of the stream.  If core should
 * fetch something else than was foreseen, look-ahead ends.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/tableam.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "scan/indexscan_internal.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Blocks announced a short while ago: a table indexed by block number */
#define RECENT_BLOCKS	16384
/* Entries to read without finding a block to announce, before core's scan goes on */
#define MAX_BARREN		10000

typedef struct Announced
{
	BlockNumber blkno;
	uint32		when;			/* number of its announcement */
} Announced;

/* One for the scout, one for core's scan: equal entries make them equal */
typedef struct Announcements
{
	Announced  *recent;
	uint32		count;
	uint64		entries;		/* seen so far */
} Announcements;

struct AiostreamScout
{
	Relation	heap;
	BlockNumber nblocks;
	IndexScanDesc scan;
	bool		at_end;
	bool		started;
	AiostreamStream *stream;	/* NULL: look-ahead has ended */
	AiostreamLeafAhead *leaves; /* NULL: not of this index */
	Announcements ahead;
	Announcements core;
	bool		holding;		/* core's fetch is to be told of */
	Buffer		held;
	int64		reads;			/* pgBufferUsage before it */
};

static void
init_announcements(Announcements *announcements)
{
	announcements->recent = palloc(RECENT_BLOCKS * sizeof(Announced));
	for (int i = 0; i < RECENT_BLOCKS; i++)
		announcements->recent[i].blkno = InvalidBlockNumber;
	announcements->count = 0;
	announcements->entries = 0;
}

/* Is the block of the next entry to be announced?  Depends on nothing but entries. */
static bool
announce(Announcements *announcements, BlockNumber blkno)
{
	Announced  *recent = &announcements->recent[blkno % RECENT_BLOCKS];
	uint32		memory = Min(RECENT_BLOCKS, NBuffers / 8);

	announcements->entries++;
	if (recent->blkno == blkno && announcements->count - recent->when < memory)
		return false;
	recent->blkno = blkno;
	recent->when = ++announcements->count;
	return true;
}

/*
 * The scout's next entry.  It asks the access method itself: the statistics are to
 * count one scan of the index, core's.
 */
static ItemPointer
next_entry(AiostreamScout *scout)
{
	IndexScanDesc scan = scout->scan;
	Relation	index = scan->indexRelation;
	int64		reads = pgBufferUsage.shared_blks_read;
	bool		found;

	CHECK_FOR_INTERRUPTS();
	scan->kill_prior_tuple = false;
	scan->xs_heap_continue = false;
	if (!scout->started)
	{
		PgStat_Counter scans = pgstat_should_count_relation(index) ?
		index->pgstat_info->t_counts.t_numscans : 0;

		found = index->rd_indam->amgettuple(scan, ForwardScanDirection);
		if (pgstat_should_count_relation(index))
			index->pgstat_info->t_counts.t_numscans = scans;
		scout->started = true;
	}
	else
		found = index->rd_indam->amgettuple(scan, ForwardScanDirection);

	if (!found)
		return NULL;
	if (scout->leaves != NULL)
		aiostream_leafahead_entry(scout->leaves, scan, ForwardScanDirection,
								  pgBufferUsage.shared_blks_read != reads);
	return &scan->xs_heaptid;
}

/* The stream's callback */
static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamScout *scout = (AiostreamScout *) callback_private;

	for (int barren = 0; !scout->at_end && barren < MAX_BARREN; barren++)
	{
		ItemPointer tid = next_entry(scout);
		BlockNumber blkno;

		if (tid == NULL)
			scout->at_end = true;
		else
		{
			blkno = ItemPointerGetBlockNumber(tid);
			if (announce(&scout->ahead, blkno) && blkno < scout->nblocks)
				return blkno;
		}
	}
	return InvalidBlockNumber;
}

AiostreamScout *
aiostream_scout_begin(Relation heap, Relation index)
{
	AiostreamStreamOptions options = {-1, -1, -1, aiostream_maintenance_io_concurrency, false, true, true};
	AiostreamScout *scout;

	if (!aiostream_stream_usable(heap))
		return NULL;
	scout = palloc0(sizeof(AiostreamScout));
	scout->heap = heap;
	scout->nblocks = RelationGetNumberOfBlocks(heap);
	scout->scan = index_beginscan(heap, index, SnapshotAny, 0, 0);
	index_rescan(scout->scan, NULL, 0, NULL, 0);
	init_announcements(&scout->ahead);
	init_announcements(&scout->core);
	scout->stream = aiostream_stream_begin(heap, MAIN_FORKNUM, scout->nblocks, NULL,
										   next_block, scout, 0, &options);
	scout->leaves = aiostream_leafahead_create(CurrentMemoryContext, index, 0);
	return scout;
}

/* Core does not do what was foreseen, or is done. */
static void
end_ahead(AiostreamScout *scout)
{
	if (scout->holding && BufferIsValid(scout->held))
		ReleaseBuffer(scout->held);
	scout->holding = false;
	if (scout->stream != NULL)
		aiostream_stream_end(scout->stream);
	scout->stream = NULL;
	if (scout->leaves != NULL)
		aiostream_leafahead_end(scout->leaves);
	scout->leaves = NULL;
}

void
aiostream_scout_fetching(AiostreamScout *scout, BlockNumber blkno)
{
	BlockNumber foreseen;

	if (scout->stream == NULL || !announce(&scout->core, blkno) || blkno >= scout->nblocks)
		return;

	/* the scout had stopped for a while, where nothing was to be announced */
	if (!scout->at_end)
		aiostream_stream_more(scout->stream);
	while (!aiostream_stream_next(scout->stream, &foreseen, &scout->held, NULL))
	{
		foreseen = InvalidBlockNumber;
		if (scout->at_end || scout->ahead.entries >= scout->core.entries)
			break;
		aiostream_stream_more(scout->stream);
	}
	scout->holding = foreseen != InvalidBlockNumber;
	if (foreseen != blkno)
	{
		end_ahead(scout);
		return;
	}

	/* core prunes a page only if it is pinned once */
	if (BufferIsValid(scout->held))
		ReleaseBuffer(scout->held);
	scout->reads = pgBufferUsage.shared_blks_read;
}

void
aiostream_scout_fetched(AiostreamScout *scout)
{
	bool		hit;

	if (!scout->holding)
		return;
	scout->holding = false;
	hit = pgBufferUsage.shared_blks_read == scout->reads;
	if (!BufferIsValid(scout->held))
		aiostream_stream_core_read(scout->stream, hit);
	else if (hit)
		aiostream_stream_uncount_hit(scout->stream);
}

void
aiostream_scout_end(AiostreamScout *scout)
{
	end_ahead(scout);
	index_endscan(scout->scan);
	pfree(scout->ahead.recent);
	pfree(scout->core.recent);
	pfree(scout);
}
