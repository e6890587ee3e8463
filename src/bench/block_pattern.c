/*
 * block_pattern.c
 *		The order in which a benchmark reads the blocks of a relation.
 */
#include "postgres.h"

#include <math.h>

#include "bench/block_pattern.h"
#include "common/pg_prng.h"
#include "utils/memutils.h"

/* any constant: runs must be comparable */
#define PATTERN_SEED UINT64CONST(20240229)

AiostreamPattern
aiostream_pattern_by_name(const char *name)
{
	if (strcmp(name, "sequential") == 0)
		return AIOSTREAM_PATTERN_SEQUENTIAL;
	if (strcmp(name, "backward") == 0)
		return AIOSTREAM_PATTERN_BACKWARD;
	if (strcmp(name, "sparse") == 0)
		return AIOSTREAM_PATTERN_SPARSE;
	if (strcmp(name, "random") == 0)
		return AIOSTREAM_PATTERN_RANDOM;

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized read pattern \"%s\"", name),
			 errhint("Patterns are \"sequential\", \"backward\", \"sparse\" and \"random\".")));
}

/*
 * One random block out of each of "count" equal parts of the relation: ascending,
 * without repetition, and dense to the same degree everywhere.
 */
static void
choose_ascending(AiostreamBlockList *list, pg_prng_state *prng)
{
	double		width = (double) list->nblocks / (double) list->count;
	BlockNumber next = 0;
	BlockNumber i;

	for (i = 0; i < list->count; i++)
	{
		BlockNumber block;

		block = (BlockNumber) floor(((double) i + pg_prng_double(prng)) * width);
		/* rounding may put two parts' choices on one block, or past the end */
		block = Max(block, next);
		block = Min(block, list->nblocks - (list->count - i));
		list->blocks[i] = block;
		next = block + 1;
	}
}

static void
shuffle(AiostreamBlockList *list, pg_prng_state *prng)
{
	BlockNumber i;

	for (i = list->count; i > 1; i--)
	{
		BlockNumber other = (BlockNumber) pg_prng_uint64_range(prng, 0, i - 1);
		BlockNumber tmp = list->blocks[i - 1];

		list->blocks[i - 1] = list->blocks[other];
		list->blocks[other] = tmp;
	}
}

AiostreamBlockList *
aiostream_block_list(AiostreamPattern pattern, BlockNumber nblocks,
					 double fraction, int64 max_blocks)
{
	AiostreamBlockList *list = palloc0(sizeof(AiostreamBlockList));
	pg_prng_state prng;

	list->pattern = pattern;
	list->nblocks = nblocks;
	list->count = nblocks;
	if (pattern == AIOSTREAM_PATTERN_SPARSE || pattern == AIOSTREAM_PATTERN_RANDOM)
		list->count = (BlockNumber) ceil((double) nblocks * fraction);
	list->count = (BlockNumber) Min((int64) list->count, max_blocks);

	if (list->count == 0 ||
		pattern == AIOSTREAM_PATTERN_SEQUENTIAL ||
		pattern == AIOSTREAM_PATTERN_BACKWARD)
		return list;

	list->blocks = MemoryContextAllocHuge(CurrentMemoryContext,
										  (Size) list->count * sizeof(BlockNumber));
	pg_prng_seed(&prng, PATTERN_SEED);
	choose_ascending(list, &prng);
	if (pattern == AIOSTREAM_PATTERN_RANDOM)
		shuffle(list, &prng);
	return list;
}

BlockNumber
aiostream_block_list_get(const AiostreamBlockList *list, BlockNumber i)
{
	Assert(i < list->count);

	switch (list->pattern)
	{
		case AIOSTREAM_PATTERN_SEQUENTIAL:
			return i;
		case AIOSTREAM_PATTERN_BACKWARD:
			return list->nblocks - 1 - i;
		case AIOSTREAM_PATTERN_SPARSE:
		case AIOSTREAM_PATTERN_RANDOM:
			return list->blocks[i];
	}
	return InvalidBlockNumber;	/* not reached */
}
