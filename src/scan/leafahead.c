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
 * The parent is found as VACUUM finds it, by descending for an entry of the
 * leaf; from then on, level 1 is followed by its sibling links.  What is found is
 * only a guess: pages may be split or deleted meanwhile.  When the scan turns up on a
 * leaf that was not expected, its parent is looked for again, a few times.
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

	/* children of a level-1 page, in the order of the scan */
	BlockNumber *children;
	int			nchildren;
	int			next_child;		/* not yet announced from here on */
	BlockNumber next_parent;	/* or P_NONE */

	AiostreamStream *stream;	/* NULL until there is need */
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
 * Level 1
 * ------------------------------------------------------------------------
 */

/*
 * Read the children of a level-1 page.  False if it is none any more.
 */
static bool
read_parent(AiostreamLeafAhead *ahead, BlockNumber parent)
{
	bool		backward = ScanDirectionIsBackward(ahead->direction);
	Buffer		buffer = _bt_getbuf(ahead->index, parent, BT_READ);
	Page		page = BufferGetPage(buffer);
	BTPageOpaque opaque = BTPageGetOpaque(page);
	bool		good = !P_ISLEAF(opaque) && !P_IGNORE(opaque) && opaque->btpo_level == 1;

	ahead->nchildren = 0;
	ahead->next_child = 0;
	ahead->next_parent = P_NONE;
	if (good)
	{
		OffsetNumber first = P_FIRSTDATAKEY(opaque);
		OffsetNumber last = PageGetMaxOffsetNumber(page);

		for (int i = 0; first + i <= last; i++)
		{
			ItemId		item = PageGetItemId(page, backward ? last - i : first + i);
			IndexTuple	downlink = (IndexTuple) PageGetItem(page, item);

			ahead->children[ahead->nchildren++] = BTreeTupleGetDownLink(downlink);
		}
		ahead->next_parent = backward ? opaque->btpo_prev : opaque->btpo_next;
	}
	_bt_relbuf(ahead->index, buffer);
	return good;
}

/* A copy of one of the leaf's entries, or NULL */
static IndexTuple
entry_of_leaf(AiostreamLeafAhead *ahead)
{
	Buffer		buffer = _bt_getbuf(ahead->index, ahead->leaf, BT_READ);
	Page		page = BufferGetPage(buffer);
	BTPageOpaque opaque = BTPageGetOpaque(page);
	IndexTuple	entry = NULL;

	if (P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
		P_FIRSTDATAKEY(opaque) <= PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, P_FIRSTDATAKEY(opaque));

		entry = CopyIndexTuple((IndexTuple) PageGetItem(page, item));
	}
	_bt_relbuf(ahead->index, buffer);
	return entry;
}

/*
 * Find the parent of the leaf that the scan is on; the next child is then that
 * leaf.  False if that fails, or there is no level 1.
 */
static bool
find_parent(AiostreamLeafAhead *ahead)
{
	IndexTuple	entry = entry_of_leaf(ahead);
	BTScanInsert key;
	BTStack		stack;
	Buffer		buffer;
	bool		found = false;

	if (entry == NULL)
		return false;
	key = _bt_mkscankey(ahead->index, entry);
	stack = _bt_search(ahead->index, key, &buffer, BT_READ, NULL);
	if (BufferIsValid(buffer))
		_bt_relbuf(ahead->index, buffer);
	if (stack != NULL && read_parent(ahead, stack->bts_blkno))
	{
		while (ahead->next_child < ahead->nchildren &&
			   ahead->children[ahead->next_child] != ahead->leaf)
			ahead->next_child++;
		found = ahead->next_child < ahead->nchildren;
	}
	if (stack != NULL)
		_bt_freestack(stack);
	pfree(key);
	pfree(entry);
	return found;
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
	BlockNumber leaf;

	while (ahead->next_child >= ahead->nchildren)
	{
		if (ahead->next_parent == P_NONE || !read_parent(ahead, ahead->next_parent))
			return InvalidBlockNumber;
	}
	leaf = ahead->children[ahead->next_child++];
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
	ahead->children = palloc(MaxIndexTuplesPerPage * sizeof(BlockNumber));
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
	return ahead->next_child < ahead->nchildren &&
		ahead->children[ahead->next_child] == ahead->leaf;
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
		ahead->on_course = find_parent(ahead);
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
		aiostream_stream_end(ahead->stream);
	ahead->stream = NULL;
}

void
aiostream_leafahead_stats(AiostreamLeafAhead *ahead, AiostreamStreamStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (ahead->stream != NULL)
		aiostream_stream_get_stats(ahead->stream, stats);
}
