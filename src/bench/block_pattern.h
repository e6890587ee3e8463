/*
 * block_pattern.h
 *		The order in which a benchmark reads the blocks of a relation.
 */
#ifndef AIOSTREAM_BLOCK_PATTERN_H
#define AIOSTREAM_BLOCK_PATTERN_H

#include "postgres.h"

#include "storage/block.h"

typedef enum AiostreamPattern
{
	AIOSTREAM_PATTERN_SEQUENTIAL,	/* all, ascending */
	AIOSTREAM_PATTERN_BACKWARD, /* all, descending */
	AIOSTREAM_PATTERN_SPARSE,	/* a fraction, ascending, random gaps */
	AIOSTREAM_PATTERN_RANDOM	/* a fraction, in random order */
} AiostreamPattern;

typedef struct AiostreamBlockList
{
	AiostreamPattern pattern;
	BlockNumber nblocks;		/* of the relation */
	BlockNumber count;			/* to be read */
	BlockNumber *blocks;		/* sparse and random only */
} AiostreamBlockList;

/* ERROR 22023 with a hint for an unknown name */
extern AiostreamPattern aiostream_pattern_by_name(const char *name);

/*
 * fraction: of the blocks, for sparse and random.  max_blocks: at most so
 * many.  The same arguments give the same list, always.
 */
extern AiostreamBlockList *aiostream_block_list(AiostreamPattern pattern,
												BlockNumber nblocks,
												double fraction,
												int64 max_blocks);

extern BlockNumber aiostream_block_list_get(const AiostreamBlockList *list,
											BlockNumber i);

#endif							/* AIOSTREAM_BLOCK_PATTERN_H */
