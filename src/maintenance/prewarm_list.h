/*
 * prewarm_list.h
 *		The list of blocks that pg_prewarm writes; see prewarm_list.c.
 */
#ifndef AIOSTREAM_PREWARM_LIST_H
#define AIOSTREAM_PREWARM_LIST_H

#include "postgres.h"

#include "storage/block.h"

typedef struct AiostreamListedBlock
{
	Oid			database;		/* InvalidOid: of a shared relation */
	Oid			tablespace;
	Oid			filenode;
	uint32		fork;			/* a ForkNumber that there is */
	BlockNumber block;
} AiostreamListedBlock;

typedef struct AiostreamBlockList
{
	AiostreamListedBlock *blocks;
	Size		n;
	Size		room;
} AiostreamBlockList;

/*
 * Shared relations' blocks, then this database's, sorted by all columns, none
 * twice.  Allocates in CurrentMemoryContext.  Raises: 58P01 if there is no list,
 * XX001 if any line of it is wrong, what reading a file raises, interrupts.
 */
extern AiostreamBlockList aiostream_prewarm_list_read(void);

/* Where do the blocks of "first"'s file end, and those of its fork? */
extern Size aiostream_prewarm_list_file_end(const AiostreamBlockList *list, Size first);
extern Size aiostream_prewarm_list_fork_end(const AiostreamBlockList *list, Size first);

#endif							/* AIOSTREAM_PREWARM_LIST_H */
