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
 *
 * What has been sorted is asked for as requests become free, and only then is the
 * queue sorted again.  Where sorting more would make longer runs, the queue may
 * grow beyond what requests in flight need.
 */
#include "postgres.h"

#include "faults.h"
#include "stream/stream_internal.h"

#include "miscadmin.h"
#include "utils/memutils.h"

typedef struct AiostreamWindowBlock
{
	BlockNumber blkno;
	uint32		position;		/* in the queue */
} AiostreamWindowBlock;

typedef struct AiostreamWindowRun
{
	int			first;			/* index of its first window block */
	int			n;				/* window blocks in it */
	uint32		age;			/* position of its oldest block */
} AiostreamWindowRun;

/*
 * What was sorted last, and how much of it has been asked for.  The queue moves on
 * meanwhile, so that what is left may have been handed out already.
 */
struct AiostreamWindow
{
	int			size;
	AiostreamWindowBlock *blocks;
	AiostreamWindowRun *runs;
	int			nruns;
	int			next_run;
	int			gap;			/* that the runs were cut with */
};

/* Positions wrap around. */
#define POSITION_BEFORE(a, b) ((int32) ((a) - (b)) < 0)

#define ST_SORT sort_window_blocks
#define ST_ELEMENT_TYPE AiostreamWindowBlock
#define ST_COMPARE(a, b) ((a)->blkno != (b)->blkno ? \
						  ((a)->blkno < (b)->blkno ? -1 : 1) : \
						  POSITION_BEFORE((a)->position, (b)->position) ? -1 : \
						  (a)->position != (b)->position)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_window_runs
#define ST_ELEMENT_TYPE AiostreamWindowRun
#define ST_COMPARE(a, b) (POSITION_BEFORE((a)->age, (b)->age) ? -1 : (a)->age != (b)->age)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* A consumer that may stop any moment wants no blocks beyond need, either. */
#define MIN_BOUND_FOR_GAPS 64

static int
gap_now(const AiostreamStream *stream)
{
	if (stream->kernel_cached || (stream->bound > 0 && stream->bound < MIN_BOUND_FOR_GAPS))
		return 0;
	return aiostream_gap_blocks(&stream->gap);
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

/* All blocks of the queue that are to be asked for, sorted */
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
		/* inside of a run, one that is present would end the request */
		if (aiostream_target_find(stream->target, slot->blkno, &slot->block))
		{
			slot->asked = true;
			stream->nunasked--;
			continue;
		}
		blocks[n].blkno = slot->blkno;
		blocks[n].position = position;
		n++;
	}
	sort_window_blocks(blocks, n);
	return n;
}

/* Cut n sorted blocks into runs, and put those wanted first in front. */
static void
cut_runs(AiostreamStream *stream, int n)
{
	AiostreamWindow *window = stream->window;
	const AiostreamWindowBlock *blocks = window->blocks;
	AiostreamWindowRun *run = NULL;
	uint32		limit = aiostream_stream_combine_now(stream);
	int			gap = gap_now(stream);

	window->gap = gap;
	window->nruns = 0;
	window->next_run = 0;
	for (int i = 0; i < n; i++)
	{
		BlockNumber blkno = blocks[i].blkno;

		if (run == NULL ||
			blkno - blocks[run->first + run->n - 1].blkno > (uint32) gap + 1 ||
			blkno - blocks[run->first].blkno >= limit)
		{
			run = &window->runs[window->nruns++];
			run->first = i;
			run->n = 0;
			run->age = blocks[i].position;
		}
		run->n++;
		if (POSITION_BEFORE(blocks[i].position, run->age))
			run->age = blocks[i].position;
	}
	sort_window_runs(window->runs, window->nruns);
}

/*
 * Would a window twice as large make longer runs? As long as a fair part of the
 * sorted blocks have a neighbour near enough to be read with it, but not a
 * whole request's worth of them right beside.
 */
static void
grow_window(AiostreamStream *stream, int n)
{
	const AiostreamWindowBlock *blocks = stream->window->blocks;
	int			near = 0;
	int			adjacent = 0;

	if (!stream->grow || stream->policy.max >= (int) stream->max_window ||
		n * 4 < stream->policy.max)
		return;
	for (int i = 1; i < n; i++)
	{
		BlockNumber distance = blocks[i].blkno - blocks[i - 1].blkno;

		adjacent += distance <= 1;
		near += distance <= AIOSTREAM_GAP_LARGEST;
	}
	if (near * 4 >= n && adjacent * 8 < n * 7)
		stream->policy.max = Min(stream->policy.max * 2, (int) stream->max_window);
}

/* Is a block of a run still to be asked for? */
static inline bool
still_unasked(AiostreamStream *stream, const AiostreamWindowBlock *block)
{
	return !POSITION_BEFORE(block->position, stream->head) &&
		!slot_at(stream, block->position)->asked;
}

/* One request, or several if some of it is present; false if it was cut short. */
static bool
ask_window_run(AiostreamStream *stream, const AiostreamWindowRun *run)
{
	const AiostreamWindowBlock *blocks = &stream->window->blocks[run->first];
	int			first = 0;
	int			last = run->n - 1;
	BlockNumber start;
	int			n;
	bool		wanted[AIOSTREAM_MAX_COMBINE];
	AiostreamBlock out[AIOSTREAM_MAX_COMBINE];
	uint64		before = aiostream_target_counters(stream->target)->blocks;
	int			k;

	while (first <= last && !still_unasked(stream, &blocks[first]))
		first++;
	while (first <= last && !still_unasked(stream, &blocks[last]))
		last--;
	if (first > last)
		return true;
	start = blocks[first].blkno;
	n = blocks[last].blkno - start + 1;

	Assert(n >= 1 && n <= AIOSTREAM_MAX_COMBINE);
	memset(wanted, 0, n * sizeof(bool));
	for (int i = first; i <= last; i++)
		wanted[blocks[i].blkno - start] |= still_unasked(stream, &blocks[i]);

	k = aiostream_target_read_sparse(stream->target, start, n, wanted, out);
	aiostream_stream_count_combined(stream, before,
									POSITION_BEFORE(blocks[last].position,
													blocks[first].position));
	for (int i = first; i <= last; i++)
	{
		int			at = blocks[i].blkno - start;
		AiostreamSlot *slot;

		if (at >= k || !still_unasked(stream, &blocks[i]))
			continue;
		slot = slot_at(stream, blocks[i].position);
		slot->asked = true;
		slot->block = out[at];
		stream->nunasked--;
		aiostream_stream_remember_io(stream, out[at].io);
	}
	Assert(stream->nunasked >= 0);
	return k == n;
}

/* Go on with the runs cut last; false: no more requests can be made now. */
static bool
ask_runs(AiostreamStream *stream)
{
	AiostreamWindow *window = stream->window;
	uint64		before = aiostream_target_counters(stream->target)->ios;

	/*
	 * Mostly they are single blocks, and many at a time.  No interrupt: its
	 * handler might want one of them, before it has gone out.
	 */
	HOLD_INTERRUPTS();
	aiostream_io_batch_begin();
	PG_TRY();
	{
		while (window->next_run < window->nruns &&
			   aiostream_stream_inflight(stream) < stream->options.concurrency &&
			   ask_window_run(stream, &window->runs[window->next_run]))
		{
			window->next_run++;
			if (aiostream_fault(AIOSTREAM_FAULT_BATCH_RAISE))
				elog(ERROR, "injected error");
		}
	}
	PG_CATCH();
	{
		/*
		 * What is claimed must go out now: others may wait for it, while we
		 * wait for our client to take the message.  The error reset the
		 * holdoff.
		 */
		HOLD_INTERRUPTS();
		aiostream_io_batch_end();
		RESUME_INTERRUPTS();
		PG_RE_THROW();
	}
	PG_END_TRY();
	aiostream_io_batch_end();
	RESUME_INTERRUPTS();

	if (aiostream_target_counters(stream->target)->ios != before)
		aiostream_fault_pause(AIOSTREAM_FAULT_SUBMITTED);
	return window->next_run >= window->nruns;
}

/*
 * Ask for what has not been asked for, the oldest first, as far as requests may
 * be in flight: first for what is left of the runs cut last, then, if "anew", for
 * what the queue has got since.
 */
void
aiostream_stream_ask_window(AiostreamStream *stream, bool anew)
{
	int			n;

	if (stream->window != NULL)
	{
		/* learned something better: cut what is left anew */
		if (stream->window->next_run < stream->window->nruns &&
			stream->window->gap != gap_now(stream))
			anew = true;
		else if (!ask_runs(stream))
			return;
	}
	if (!anew)
		return;
	make_window(stream);
	n = collect_blocks(stream);
	Assert(n == stream->nunasked);
	cut_runs(stream, n);
	(void) ask_runs(stream);
	grow_window(stream, n);
}

/* The queue has been emptied: its positions mean other blocks from now on. */
void
aiostream_stream_forget_window(AiostreamStream *stream)
{
	if (stream->window != NULL)
		stream->window->next_run = stream->window->nruns = 0;
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
