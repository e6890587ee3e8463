/*
 * prewarm_list.c
 *		Reads the list of blocks that pg_prewarm writes (autoprewarm_dump_now(), its
 *		background worker): "<<number>>", then as many lines of five numbers.
 *
 * All of the file is looked at before any of it counts: people may edit it.
 */
#include "postgres.h"

#include "common/relpath.h"
#include "maintenance/prewarm_list.h"
#include "miscadmin.h"
#include "storage/fd.h"

/* In the data directory, which is where we are */
#define LIST_FILE "autoprewarm.blocks"
/* More than five numbers and what follows each */
#define LINE_SIZE 64
#define INITIAL_ROOM 1024

static void corrupted(uint64 line) pg_attribute_noreturn();

static void
corrupted(uint64 line)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" is corrupted at line %llu", LIST_FILE,
					(unsigned long long) line),
			 errhint("Have it written anew by autoprewarm_dump_now() of the extension pg_prewarm.")));
}

/* Digits, then "after": moves *text beyond it.  False if it is anything else. */
static bool
take_number(const char **text, const char *after, uint32 *number)
{
	uint64		value = 0;
	const char *digit = *text;

	for (; *digit >= '0' && *digit <= '9' && value <= PG_UINT32_MAX; digit++)
		value = value * 10 + (*digit - '0');
	if (digit == *text ||value > PG_UINT32_MAX ||
		strncmp(digit, after, strlen(after)) != 0)
		return false;
	*number = (uint32) value;
	*text = digit + strlen(after);
	return true;
}

static bool
parse_header(const char *line, uint32 *blocks)
{
	if (strncmp(line, "<<", 2) != 0)
		return false;
	line += 2;
	return take_number(&line, ">>\n", blocks) && *line == '\0';
}

static bool
parse_block(const char *line, AiostreamListedBlock *block)
{
	return take_number(&line, ",", &block->database) &&
		take_number(&line, ",", &block->tablespace) &&
		take_number(&line, ",", &block->filenode) &&
		take_number(&line, ",", &block->fork) && block->fork <= MAX_FORKNUM &&
		take_number(&line, "\n", &block->block) && block->block <= MaxBlockNumber &&
		*line == '\0';
}

/* False at the end.  A line that is too long comes without its end. */
static bool
next_line(FILE * file, char *line)
{
	CHECK_FOR_INTERRUPTS();
	if (fgets(line, LINE_SIZE, file) != NULL)
		return true;
	if (ferror(file))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", LIST_FILE)));
	return false;
}

static FILE *
open_list(void)
{
	FILE	   *file = AllocateFile(LIST_FILE, "r");

	if (file == NULL && errno == ENOENT)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("file \"%s\" does not exist", LIST_FILE),
				 errhint("Have it written by autoprewarm_dump_now() of the extension pg_prewarm.")));
	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", LIST_FILE)));
	return file;
}

static void
keep_block(AiostreamBlockList *list, const AiostreamListedBlock *block)
{
	if (block->database != MyDatabaseId && block->database != InvalidOid)
		return;
	if (list->n == list->room)
	{
		list->room *= 2;
		list->blocks = repalloc_huge(list->blocks, list->room * sizeof(AiostreamListedBlock));
	}
	list->blocks[list->n++] = *block;
}

static int
compare_numbers(uint32 a, uint32 b)
{
	return a < b ? -1 : a > b;
}

static int
compare_forks(const AiostreamListedBlock *a, const AiostreamListedBlock *b)
{
	int			order = compare_numbers(a->database, b->database);

	if (order == 0)
		order = compare_numbers(a->tablespace, b->tablespace);
	if (order == 0)
		order = compare_numbers(a->filenode, b->filenode);
	return order != 0 ? order : compare_numbers(a->fork, b->fork);
}

static int
compare_blocks(const void *a, const void *b, void *arg)
{
	const AiostreamListedBlock *left = (const AiostreamListedBlock *) a;
	const AiostreamListedBlock *right = (const AiostreamListedBlock *) b;
	int			order = compare_forks(left, right);

	return order != 0 ? order : compare_numbers(left->block, right->block);
}

/* Each block once: while pg_prewarm looked around, it may have changed its place. */
static void
drop_repeated(AiostreamBlockList *list)
{
	Size		kept = 0;

	for (Size i = 0; i < list->n; i++)
		if (kept == 0 || compare_blocks(&list->blocks[kept - 1], &list->blocks[i], NULL) != 0)
			list->blocks[kept++] = list->blocks[i];
	list->n = kept;
}

/* A new list is put in place by renaming it: what we have opened stays whole. */
AiostreamBlockList
aiostream_prewarm_list_read(void)
{
	FILE	   *file = open_list();
	AiostreamBlockList list = {NULL, 0, INITIAL_ROOM};
	AiostreamListedBlock block;
	char		line[LINE_SIZE];
	uint32		blocks;

	if (!next_line(file, line) || !parse_header(line, &blocks))
		corrupted(1);
	list.blocks = palloc(list.room * sizeof(AiostreamListedBlock));
	for (uint32 i = 0; i < blocks; i++)
	{
		if (!next_line(file, line) || !parse_block(line, &block))
			corrupted((uint64) i + 2);
		keep_block(&list, &block);
	}
	if (next_line(file, line))
		corrupted((uint64) blocks + 2);
	FreeFile(file);

	qsort_interruptible(list.blocks, list.n, sizeof(AiostreamListedBlock), compare_blocks, NULL);
	drop_repeated(&list);
	return list;
}

Size
aiostream_prewarm_list_file_end(const AiostreamBlockList *list, Size first)
{
	Size		end = first;

	while (end < list->n && list->blocks[end].database == list->blocks[first].database &&
		   list->blocks[end].tablespace == list->blocks[first].tablespace &&
		   list->blocks[end].filenode == list->blocks[first].filenode)
		end++;
	return end;
}

Size
aiostream_prewarm_list_fork_end(const AiostreamBlockList *list, Size first)
{
	Size		end = first;

	while (end < list->n && compare_forks(&list->blocks[first], &list->blocks[end]) == 0)
		end++;
	return end;
}
