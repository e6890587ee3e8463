/*
 * stream_window.c
 *		Asking in disk order for blocks that are wanted in another order.
 *
 * Rows that follow an index only roughly name blocks that are near each other but
 * seldom one after the other.  So the blocks of the whole queue that have not
 * been asked for are sorted, and read in runs; they are still handed out in the
 * consumer's order.  Where requests cost more than bytes, a run goes on over
 * small gaps, whose blocks are read and thrown away.
 *
 *		queue (wanted order)	12 17 11 15 13 18 40
 *		sorted					11 12 13 | 15 | 17 18 | 40
 *		with gaps up to 1		11 12 13 (14) 15 (16) 17 18 | 40
 */
#include "postgres.h"

#include "stream/stream_internal.h"

#include "utils/memutils.h"

typedef struct AiostreamWindowBlock
{
	BlockNumber blkno;
	uint32		age;			/* distance from the queue's head */
} AiostreamWindowBlock;

typedef struct AiostreamWindowRun
{
	int			first;			/* index of its first window block */
	int			n;				/* window blocks in it */
	uint32		age;			/* of its oldest block */
} AiostreamWindowRun;

struct AiostreamWindow
{
	int			size;
	AiostreamWindowBlock *blocks;
	AiostreamWindowRun *runs;
};

#define ST_SORT sort_window_blocks
#define ST_ELEMENT_TYPE AiostreamWindowBlock
#define ST_COMPARE(a, b) ((a)->blkno != (b)->blkno ? \
						  ((a)->blkno < (b)->blkno ? -1 : 1) : \
						  (a)->age < (b)->age ? -1 : (a)->age > (b)->age)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_window_runs
#define ST_ELEMENT_TYPE AiostreamWindowRun
#define ST_COMPARE(a, b) ((a)->age < (b)->age ? -1 : (a)->age > (b)->age)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* An epoch of learning ends after that many waits and milliseconds */
#define EPOCH_WAITS		4
#define EPOCH_MS		20
/* Tablespaces whose lesson a process remembers for its next streams */
#define NLESSONS		8

typedef struct Lesson
{
	Oid			tablespace;
	AiostreamGap gap;
} Lesson;

static Lesson lessons[NLESSONS];
static int	nlessons = 0;

/* What this process has learned of the relation's tablespace; NULL: no room */
static AiostreamGap *
lesson_of(const AiostreamStream *stream)
{
	Oid			tablespace = stream->rel->rd_node.spcNode;

	for (int i = 0; i < nlessons; i++)
	{
		if (lessons[i].tablespace == tablespace)
			return &lessons[i].gap;
	}
	if (nlessons == NLESSONS)
		return NULL;
	lessons[nlessons].tablespace = tablespace;
	aiostream_gap_init(&lessons[nlessons].gap);
	return &lessons[nlessons++].gap;
}

void
aiostream_stream_start_learning(AiostreamStream *stream)
{
	AiostreamGap *gap = lesson_of(stream);

	if (gap != NULL)
		stream->gap = *gap;
	else
		aiostream_gap_init(&stream->gap);
	INSTR_TIME_SET_CURRENT(stream->epoch_start);
	stream->epoch_blocks = stream->stats.blocks;
	stream->epoch_waits = stream->stats.waits;
}

/*
 * The consumer has just waited.  If it has done so for a while, take note of
 * how many wanted blocks a second the storage gave it with this gap.
 */
void
aiostream_stream_learn(AiostreamStream *stream)
{
	instr_time	now;
	double		ms;
	AiostreamGap *gap;

	if (stream->stats.waits - stream->epoch_waits < EPOCH_WAITS)
		return;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, stream->epoch_start);
	ms = INSTR_TIME_GET_MILLISEC(now);
	if (ms < EPOCH_MS)
		return;
	aiostream_gap_epoch(&stream->gap,
						(stream->stats.blocks - stream->epoch_blocks) / ms * 1000.0);
	gap = lesson_of(stream);
	if (gap != NULL)
		*gap = stream->gap;
	INSTR_TIME_SET_CURRENT(stream->epoch_start);
	stream->epoch_blocks = stream->stats.blocks;
	stream->epoch_waits = stream->stats.waits;
}

static void
make_window(AiostreamStream *stream)
{
	AiostreamWindow *window = stream->window;
	int			size = stream->nslots;

	if (window != NULL && window->size >= size)
		return;
	if (window == NULL)
		window = stream->window = MemoryContextAllocZero(stream->cxt, sizeof(AiostreamWindow));
	else
	{
		pfree(window->blocks);
		pfree(window->runs);
	}
	window->blocks = MemoryContextAlloc(stream->cxt, size * sizeof(AiostreamWindowBlock));
	window->runs = MemoryContextAlloc(stream->cxt, size * sizeof(AiostreamWindowRun));
	window->size = size;
}

/* All blocks of the queue that have not been asked for, sorted */
static int
collect_blocks(AiostreamStream *stream)
{
	AiostreamWindowBlock *blocks = stream->window->blocks;
	int			n = 0;

	for (uint32 position = stream->head; position != stream->tail; position++)
	{
		AiostreamSlot *slot = slot_at(stream, position);

		if (slot->asked)
			continue;
		blocks[n].blkno = slot->blkno;
		blocks[n].age = position - stream->head;
		n++;
	}
	sort_window_blocks(blocks, n);
	return n;
}

/* Cut n sorted blocks into runs, and put those wanted first in front. */
static int
cut_runs(AiostreamStream *stream, int n)
{
	const AiostreamWindowBlock *blocks = stream->window->blocks;
	AiostreamWindowRun *run = NULL;
	uint32		limit = aiostream_stream_combine_now(stream);
	int			gap = stream->kernel_cached ? 0 : aiostream_gap_blocks(&stream->gap);
	int			nruns = 0;

	for (int i = 0; i < n; i++)
	{
		BlockNumber blkno = blocks[i].blkno;

		if (run == NULL ||
			blkno - blocks[run->first + run->n - 1].blkno > (uint32) gap + 1 ||
			blkno - blocks[run->first].blkno >= limit)
		{
			run = &stream->window->runs[nruns++];
			run->first = i;
			run->n = 0;
			run->age = blocks[i].age;
		}
		run->n++;
		run->age = Min(run->age, blocks[i].age);
	}
	sort_window_runs(stream->window->runs, nruns);
	return nruns;
}

/* One request, or several if some of it is present; false if it was cut short. */
static bool
ask_window_run(AiostreamStream *stream, const AiostreamWindowRun *run)
{
	const AiostreamWindowBlock *blocks = &stream->window->blocks[run->first];
	BlockNumber start = blocks[0].blkno;
	int			n = blocks[run->n - 1].blkno - start + 1;
	bool		wanted[AIOSTREAM_MAX_COMBINE];
	AiostreamBlock out[AIOSTREAM_MAX_COMBINE];
	uint64		last_generation = 0;
	int			k;

	Assert(n >= 1 && n <= AIOSTREAM_MAX_COMBINE);
	memset(wanted, 0, n * sizeof(bool));
	for (int i = 0; i < run->n; i++)
		wanted[blocks[i].blkno - start] = true;

	k = aiostream_target_read_sparse(stream->target, start, n, wanted, out);
	for (int i = 0; i < run->n; i++)
	{
		int			at = blocks[i].blkno - start;
		AiostreamSlot *slot = slot_at(stream, stream->head + blocks[i].age);

		if (at >= k)
			continue;
		slot->asked = true;
		slot->block = out[at];
		stream->nunasked--;
		if (out[at].io.generation != last_generation)
			aiostream_stream_remember_io(stream, out[at].io);
		last_generation = out[at].io.generation;
	}
	Assert(stream->nunasked >= 0);
	return k == n;
}

/*
 * Ask for what has not been asked for, the oldest first, as far as requests may
 * be in flight.
 */
void
aiostream_stream_ask_window(AiostreamStream *stream)
{
	int			n;
	int			nruns;

	make_window(stream);
	n = collect_blocks(stream);
	Assert(n == stream->nunasked);
	nruns = cut_runs(stream, n);
	for (int i = 0; i < nruns; i++)
	{
		if (aiostream_stream_inflight(stream) >= stream->options.concurrency ||
			!ask_window_run(stream, &stream->window->runs[i]))
			return;
	}
}

void
aiostream_stream_free_window(AiostreamStream *stream)
{
	if (stream->window == NULL)
		return;
	pfree(stream->window->blocks);
	pfree(stream->window->runs);
	pfree(stream->window);
	stream->window = NULL;
}
