/*
 * leafparents.c
 *		A B-tree's level-1 pages, whose downlinks name the leaf pages to come.
 *
 * Core's scan goes from leaf to leaf and need not see these pages, so whatever is
 * wrong with one must not be noticed.  They are read by a stream, which
 * leaves out a page that it cannot read or that fails verification, where core
 * would raise an error.  And nothing that stands on a page is believed before it is
 * tested: without checksums, it may be anything.  Each function then answers that
 * there is nothing to be known.  What it does tell may be wrong all the
 * same, and is no more than a guess.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/tupmacs.h"
#include "scan/indexscan_internal.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Pages to go to the right on one level: more than one split takes a while */
#define MAX_STEPS_RIGHT	4

struct AiostreamLeafParents
{
	Relation	index;
	BlockNumber nblocks;		/* length that the stream was told */
	AiostreamStream *stream;
	BlockNumber wanted;			/* next for the stream, or InvalidBlockNumber */
};

/* The stream's callback */
static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamLeafParents *parents = (AiostreamLeafParents *) callback_private;
	BlockNumber blkno = parents->wanted;

	parents->wanted = InvalidBlockNumber;
	return blkno;
}

/* nblocks: the index's length */
AiostreamLeafParents *
aiostream_leafparents_create(MemoryContext cxt, Relation index, BlockNumber nblocks)
{
	AiostreamStreamOptions options = {-1, -1, -1, -1, true, false, false, false};
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AiostreamLeafParents *parents = palloc0(sizeof(AiostreamLeafParents));

	parents->index = index;
	parents->nblocks = nblocks;
	parents->wanted = InvalidBlockNumber;
	parents->stream = aiostream_stream_begin(index, MAIN_FORKNUM, nblocks, NULL,
											 next_block, parents, 0, &options);
	MemoryContextSwitchTo(old);
	return parents;
}

/* ------------------------------------------------------------------------
 * Pages
 * ------------------------------------------------------------------------
 */

/* A page of the index, pinned and locked, if it can be had and looks like one */
static Buffer
get_page(AiostreamLeafParents *parents, BlockNumber blkno)
{
	Buffer		buffer;
	Page		page;

	if (blkno >= parents->nblocks)
		return InvalidBuffer;
	parents->wanted = blkno;
	aiostream_stream_reset(parents->stream);
	if (!aiostream_stream_next(parents->stream, &blkno, &buffer, NULL) ||
		!BufferIsValid(buffer))
		return InvalidBuffer;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (!PageIsNew(page) && PageGetSpecialSize(page) == MAXALIGN(sizeof(BTPageOpaqueData)))
		return buffer;
	UnlockReleaseBuffer(buffer);
	return InvalidBuffer;
}

/* The same for one that is part of the tree on this level and has entries */
static Buffer
get_page_on_level(AiostreamLeafParents *parents, BlockNumber blkno, uint32 level)
{
	Buffer		buffer = get_page(parents, blkno);
	BTPageOpaque opaque;
	OffsetNumber last;

	if (!BufferIsValid(buffer))
		return InvalidBuffer;
	opaque = BTPageGetOpaque(BufferGetPage(buffer));
	last = PageGetMaxOffsetNumber(BufferGetPage(buffer));
	if (!P_ISMETA(opaque) && !P_IGNORE(opaque) && opaque->btpo_level == level &&
		P_ISLEAF(opaque) == (level == 0) &&
		P_FIRSTDATAKEY(opaque) <= last && last <= MaxIndexTuplesPerPage)
		return buffer;
	UnlockReleaseBuffer(buffer);
	return InvalidBuffer;
}

/* ------------------------------------------------------------------------
 * Entries
 * ------------------------------------------------------------------------
 */

/* Do a tuple's values end where it does, or before? */
static bool
values_inside(TupleDesc desc, IndexTuple tuple, int natts)
{
	const char *start = (const char *) tuple;
	const		bits8 *nulls = IndexTupleHasNulls(tuple) ?
	(const bits8 *) (start + sizeof(IndexTupleData)) : NULL;
	Size		size = IndexTupleSize(tuple);
	Size		offset = IndexInfoFindDataOffset(tuple->t_info);

	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (nulls != NULL && att_isnull(i, nulls))
			continue;
		if (offset >= size)
			return false;
		if (att->attlen == -1)
		{
			offset = att_align_pointer(offset, att->attalign, -1, start + offset);
			if (offset >= size || VARATT_IS_EXTERNAL(start + offset) ||
				(!VARATT_IS_1B(start + offset) && offset + VARHDRSZ > size) ||
				VARSIZE_ANY(start + offset) < (VARATT_IS_1B(start + offset) ? VARHDRSZ_SHORT : VARHDRSZ))
				return false;
			offset += VARSIZE_ANY(start + offset);
		}
		else if (att->attlen == -2)
			offset += strnlen(start + offset, size - offset) + 1;
		else
			offset = att_align_nominal(offset, att->attalign) + att->attlen;
		if (offset > size)
			return false;
	}
	return true;
}

/* An entry of such a page, as far as its head goes; NULL if it is none */
static IndexTuple
get_item(Page page, OffsetNumber offset)
{
	ItemId		item = PageGetItemId(page, offset);
	IndexTuple	tuple;

	if (!ItemIdHasStorage(item) || ItemIdGetOffset(item) != MAXALIGN(ItemIdGetOffset(item)) ||
		ItemIdGetOffset(item) < ((PageHeader) page)->pd_upper ||
		ItemIdGetOffset(item) + ItemIdGetLength(item) > ((PageHeader) page)->pd_special ||
		ItemIdGetLength(item) < sizeof(IndexTupleData))
		return NULL;
	tuple = (IndexTuple) PageGetItem(page, item);
	if (IndexTupleSize(tuple) > ItemIdGetLength(item) ||
		IndexTupleSize(tuple) < IndexInfoFindDataOffset(tuple->t_info))
		return NULL;
	return tuple;
}

/* The same with its values */
static IndexTuple
get_key(Relation index, bool heapkeyspace, Page page, OffsetNumber offset)
{
	IndexTuple	tuple = get_item(page, offset);

	if (tuple == NULL || BTreeTupleGetNAtts(tuple, index) > RelationGetNumberOfAttributes(index) ||
		!_bt_check_natts(index, heapkeyspace, page, offset) ||
		!values_inside(RelationGetDescr(index), tuple, BTreeTupleGetNAtts(tuple, index)))
		return NULL;
	return tuple;
}

/* The child that an entry of an inner page stands for, or P_NONE */
static BlockNumber
get_child(Page page, OffsetNumber offset)
{
	IndexTuple	downlink = get_item(page, offset);

	return downlink == NULL ? P_NONE : BTreeTupleGetDownLink(downlink);
}

/* ------------------------------------------------------------------------
 * The way down
 * ------------------------------------------------------------------------
 */

/* Where to begin; its level is 0 if there is no inner page, or nothing to be known. */
static BlockNumber
get_root(AiostreamLeafParents *parents, uint32 *level)
{
	Buffer		buffer = get_page(parents, BTREE_METAPAGE);
	BlockNumber root = P_NONE;

	*level = 0;
	if (!BufferIsValid(buffer))
		return P_NONE;
	if (P_ISMETA(BTPageGetOpaque(BufferGetPage(buffer))) &&
		BTPageGetMeta(BufferGetPage(buffer))->btm_magic == BTREE_MAGIC)
	{
		root = BTPageGetMeta(BufferGetPage(buffer))->btm_fastroot;
		*level = BTPageGetMeta(BufferGetPage(buffer))->btm_fastlevel;
	}
	UnlockReleaseBuffer(buffer);
	return root;
}

/* A copy of one of the leaf's entries, or NULL */
static IndexTuple
entry_of_leaf(AiostreamLeafParents *parents, BlockNumber leaf)
{
	Buffer		buffer = get_page_on_level(parents, leaf, 0);
	IndexTuple	entry;
	bool		heapkeyspace;
	bool		allequalimage;
	OffsetNumber offset;

	if (!BufferIsValid(buffer))
		return NULL;
	/* get_root has just had the metapage, in case that this wants it */
	_bt_metaversion(parents->index, &heapkeyspace, &allequalimage);
	offset = P_FIRSTDATAKEY(BTPageGetOpaque(BufferGetPage(buffer)));
	entry = get_key(parents->index, heapkeyspace, BufferGetPage(buffer), offset);
	if (entry != NULL)
		entry = CopyIndexTuple(entry);
	UnlockReleaseBuffer(buffer);
	return entry;
}

/* The last child of an inner page whose entries may be before the key, or P_NONE */
static BlockNumber
child_for_key(AiostreamLeafParents *parents, BTScanInsert key, Page page)
{
	/* the first is before every key */
	OffsetNumber low = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	OffsetNumber high = PageGetMaxOffsetNumber(page);

	while (low < high)
	{
		OffsetNumber middle = low + (high - low + 1) / 2;

		if (get_key(parents->index, key->heapkeyspace, page, middle) == NULL)
			return P_NONE;
		if (_bt_compare(parents->index, key, page, middle) > 0)
			low = middle;
		else
			high = middle - 1;
	}
	return get_child(page, low);
}

/*
 * The page on this level in whose range the key is, given one that was so a
 * moment ago; pinned and locked.
 */
static Buffer
page_for_key(AiostreamLeafParents *parents, BTScanInsert key, BlockNumber blkno, uint32 level)
{
	for (int steps = 0; steps <= MAX_STEPS_RIGHT; steps++)
	{
		Buffer		buffer = get_page_on_level(parents, blkno, level);
		Page		page;

		if (!BufferIsValid(buffer))
			break;
		page = BufferGetPage(buffer);
		if (P_RIGHTMOST(BTPageGetOpaque(page)))
			return buffer;
		if (get_key(parents->index, key->heapkeyspace, page, P_HIKEY) == NULL)
			blkno = P_NONE;
		else if (_bt_compare(parents->index, key, page, P_HIKEY) <= 0)
			return buffer;
		else
			blkno = BTPageGetOpaque(page)->btpo_next;
		UnlockReleaseBuffer(buffer);
		if (blkno == P_NONE)
			break;
	}
	return InvalidBuffer;
}

/* ------------------------------------------------------------------------
 * Level 1
 * ------------------------------------------------------------------------
 */

/* Take the children, in the order of the scan; false if there is something odd. */
static bool
read_children(Page page, bool backward, AiostreamLeafChildren *children)
{
	OffsetNumber first = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	children->n = 0;
	children->next = 0;
	children->next_parent = P_NONE;
	for (int i = 0; first + i <= last; i++)
	{
		BlockNumber child = get_child(page, backward ? last - i : first + i);

		if (child == P_NONE)
			return false;
		children->leaf[children->n++] = child;
	}
	children->next_parent = backward ? BTPageGetOpaque(page)->btpo_prev :
		BTPageGetOpaque(page)->btpo_next;
	return true;
}

/*
 * The children of a level-1 page.  False, and none, if there is nothing to be known.
 */
bool
aiostream_leafparents_read(AiostreamLeafParents *parents, BlockNumber parent, bool backward,
						   AiostreamLeafChildren *children)
{
	Buffer		buffer = get_page_on_level(parents, parent, 1);
	bool		good = BufferIsValid(buffer) &&
	read_children(BufferGetPage(buffer), backward, children);

	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	if (!good)
		children->n = children->next = 0;
	return good;
}

/*
 * The children of the leaf's parent; the next one is the leaf.  Found as VACUUM
 * finds it, by descending for one of the leaf's entries.  False, and none, if there
 * is nothing to be known.
 */
bool
aiostream_leafparents_find(AiostreamLeafParents *parents, BlockNumber leaf, bool backward,
						   AiostreamLeafChildren *children)
{
	uint32		level;
	BlockNumber blkno = get_root(parents, &level);
	IndexTuple	entry = level == 0 ? NULL : entry_of_leaf(parents, leaf);
	BTScanInsert key;
	Buffer		buffer = InvalidBuffer;
	bool		good = false;

	children->n = children->next = 0;
	if (entry == NULL)
		return false;
	key = _bt_mkscankey(parents->index, entry);
	for (; blkno != P_NONE && level >= 1; level--)
	{
		buffer = page_for_key(parents, key, blkno, level);
		if (!BufferIsValid(buffer))
			break;
		if (level == 1)
			good = read_children(BufferGetPage(buffer), backward, children);
		else
			blkno = child_for_key(parents, key, BufferGetPage(buffer));
		UnlockReleaseBuffer(buffer);
	}
	pfree(key);
	pfree(entry);

	while (good && children->next < children->n && children->leaf[children->next] != leaf)
		children->next++;
	if (!good || children->next == children->n)
		children->n = children->next = 0;
	return children->n > 0;
}

void
aiostream_leafparents_end(AiostreamLeafParents *parents)
{
	aiostream_stream_end(parents->stream);
}

void
aiostream_leafparents_stats(AiostreamLeafParents *parents, AiostreamStreamStats *stats)
{
	aiostream_stream_get_stats(parents->stream, stats);
}
