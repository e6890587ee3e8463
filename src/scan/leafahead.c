/*
 * leafahead.c
 *		Reading the leaf pages of a B-tree ahead of a long scan.
 *
 * Core reads a leaf page when its scan steps there.  Going forwards over an index that
 * was built at once, the kernel reads ahead for it; going backwards, with direct
 * I/O, or over an index that has grown, each step waits for the disk.  The pages
 * that will follow are named by the downlinks of the parent page:
 *
 *		level 1			| a  b  c  d | e  f  g |
 *						   ^parent of b	  ^its sibling
 *		leaf pages		  a  b  c  d   e  f  g
 *						     ^scan
 *
 * The parent is found by descending for an entry of the leaf (leafparents.c); from
 * then on, level 1 is followed by its sibling links.  What is found is only a
 * guess: pages may be split or deleted meanwhile, or unreadable, which must not
 * disturb a scan that does without them.  When the scan turns up on a leaf
 * that was not expected, its parent is looked for again, a few times.
 *
 * How far the scan will go is not known, so that no more pages are read ahead than
 * a part of those it has come through.  All of it begins with the second leaf
 * that had to be read.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "scan/indexscan_internal.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Leaf pages to read ahead at most, and as a part of those scanned */
#define MAX_AHEAD			256
#define PART_AHEAD			2
#define PART_AHEAD_CAREFUL	8
/* Leaf pages missed before it begins; unexpected ones before it ends */
#define MISSES_WANTED		2
#define MAX_SURPRISES		4

struct AiostreamLeafAhead
{
	MemoryContext cxt;
	Relation	index;
	uint32		part;			/* of those scanned to read ahead; 0: none */
	ScanDirection direction;
	BlockNumber leaf;			/* the scan is there */
	uint32		scanned;		/* leaf pages, since the scan began */
	int			misses;
	int			surprises;

	/* NULL until there is need */
	AiostreamLeafParents *parents;
	AiostreamLeafChildren *children;
	AiostreamStream *stream;
	BlockNumber nblocks;		/* length that the stream was told */
	bool		on_course;		/* the stream knows where the scan is */
	/* announced, from the scan's leaf on: positions head .. tail-1 */
	BlockNumber announced[MAX_AHEAD * 2];
	uint32		head;
	uint32		tail;
};

AiostreamLeafAhead *
aiostream_leafahead_create(MemoryContext cxt, Relation index, int plan_flags)
{
	AiostreamLeafAhead *ahead;

	if (index->rd_rel->relam != BTREE_AM_OID || !aiostream_stream_usable(index))
		return NULL;
	ahead = MemoryContextAllocZero(cxt, sizeof(AiostreamLeafAhead));
	ahead->cxt = cxt;
	ahead->index = index;
	ahead->part = plan_flags & AIOSTREAM_PLAN_FEW_ROWS ? 0 :
		plan_flags & AIOSTREAM_PLAN_CAREFUL ? PART_AHEAD_CAREFUL : PART_AHEAD;
	aiostream_leafahead_restart(ahead);
	return ahead;
}

/* ------------------------------------------------------------------------
 * From level 1 to the stream
 * ------------------------------------------------------------------------
 */

/* The stream's callback */
static BlockNumber
next_leaf(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamLeafAhead *ahead = (AiostreamLeafAhead *) callback_private;
	AiostreamLeafChildren *children = ahead->children;
	BlockNumber leaf;

	if (children->next == children->n &&
		(children->n == 0 || children->next_parent == P_NONE ||
		 !aiostream_leafparents_read(ahead->parents, children->next_parent,
									 ScanDirectionIsBackward(ahead->direction), children)))
		return InvalidBlockNumber;
	leaf = children->leaf[children->next++];
	if (leaf >= ahead->nblocks)
		return InvalidBlockNumber;
	Assert(ahead->tail - ahead->head < lengthof(ahead->announced));
	ahead->announced[ahead->tail++ % lengthof(ahead->announced)] = leaf;
	return leaf;
}

static void
start_stream(AiostreamLeafAhead *ahead)
{
	MemoryContext old = MemoryContextSwitchTo(ahead->cxt);

	ahead->nblocks = RelationGetNumberOfBlocks(ahead->index);
	ahead->children = palloc0(sizeof(AiostreamLeafChildren));
	ahead->parents = aiostream_leafparents_create(ahead->cxt, ahead->index, ahead->nblocks);
	ahead->stream = aiostream_stream_begin(ahead->index, MAIN_FORKNUM, ahead->nblocks,
										   NULL, next_leaf, ahead, 0, NULL);
	MemoryContextSwitchTo(old);
}

/* Is the scan's leaf among those announced, or the first of those to come? */
static bool
leaf_expected(AiostreamLeafAhead *ahead)
{
	if (!ahead->on_course)
		return false;
	for (; ahead->head != ahead->tail; ahead->head++)
	{
		if (ahead->announced[ahead->head % lengthof(ahead->announced)] == ahead->leaf)
			return true;
	}
	return ahead->children->next < ahead->children->n &&
		ahead->children->leaf[ahead->children->next] == ahead->leaf;
}

/* The scan has stepped to another leaf: read on from there. */
static void
follow_scan(AiostreamLeafAhead *ahead)
{
	uint32		part = ahead->part == 0 ? 0 : ahead->scanned / ahead->part;

	if (ahead->stream == NULL)
		start_stream(ahead);
	if (!leaf_expected(ahead))
	{
		aiostream_stream_reset(ahead->stream);
		ahead->head = ahead->tail;
		ahead->on_course = aiostream_leafparents_find(ahead->parents, ahead->leaf,
													  ScanDirectionIsBackward(ahead->direction),
													  ahead->children);
		ahead->surprises++;
		if (!ahead->on_course)
			return;
	}
	/* the leaf that the scan is on is in the queue, too */
	aiostream_stream_bound(ahead->stream, 1 + (int) Min(part + 1, MAX_AHEAD));
	aiostream_stream_follow(ahead->stream, ahead->leaf);
	ahead->head++;
}

void
aiostream_leafahead_entry(AiostreamLeafAhead *ahead, IndexScanDesc scan,
						  ScanDirection direction, bool missed)
{
	BlockNumber leaf = ((BTScanOpaque) scan->opaque)->currPos.currPage;

	if (likely(leaf == ahead->leaf) || leaf == InvalidBlockNumber)
		return;
	if (direction != ahead->direction)
		aiostream_leafahead_restart(ahead);
	ahead->direction = direction;
	ahead->leaf = leaf;
	ahead->scanned++;
	ahead->misses += missed;
	if (ahead->misses >= MISSES_WANTED && ahead->surprises <= MAX_SURPRISES)
		follow_scan(ahead);
}

/* ------------------------------------------------------------------------
 * Life
 * ------------------------------------------------------------------------
 */

void
aiostream_leafahead_restart(AiostreamLeafAhead *ahead)
{
	ahead->direction = NoMovementScanDirection;
	ahead->leaf = InvalidBlockNumber;
	ahead->scanned = 0;
	ahead->misses = 0;
	ahead->surprises = 0;
	ahead->on_course = false;
	ahead->head = ahead->tail;
	if (ahead->stream != NULL)
		aiostream_stream_reset(ahead->stream);
}

void
aiostream_leafahead_end(AiostreamLeafAhead *ahead)
{
	if (ahead->stream != NULL)
	{
		aiostream_stream_end(ahead->stream);
		aiostream_leafparents_end(ahead->parents);
	}
	ahead->stream = NULL;
}

void
aiostream_leafahead_stats(AiostreamLeafAhead *ahead, AiostreamStreamStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (ahead->stream != NULL)
	{
		AiostreamStreamStats parents;

		aiostream_stream_get_stats(ahead->stream, stats);
		aiostream_leafparents_stats(ahead->parents, &parents);
		aiostream_stream_stats_add(stats, &parents);
	}
}
