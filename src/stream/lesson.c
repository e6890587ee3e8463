/*
 * lesson.c
 *		What streams have learned of the storage, in shared memory: the next
 *		stream over the same tablespace, in whichever process, begins with it.
 *
 * Only the choice is handed on, not the rates that led to it: those depend on how
 * dense the wanted blocks were.
 */
#include "postgres.h"

#include "stream/stream_internal.h"

#include "storage/shmem.h"
#include "storage/spin.h"

/* Tablespaces remembered; streams over others learn for themselves */
#define NLESSONS		64
/* An epoch of learning ends after that many waits, requests and milliseconds */
#define EPOCH_WAITS		4
#define EPOCH_REQUESTS	32
#define EPOCH_MS		8
/* even with fewer requests */
#define EPOCH_MAX_MS	20

typedef struct LessonsShared
{
	slock_t		mutex;			/* protects the rest */
	int			n;
	struct
	{
		Oid			tablespace;
		int			gap_choice;
	}			lesson[NLESSONS];
} LessonsShared;

static LessonsShared *lessons = NULL;

Size
aiostream_stream_shmem_size(void)
{
	return sizeof(LessonsShared);
}

void
aiostream_stream_shmem_init(bool found)
{
	lessons = ShmemInitStruct("aiostream lessons", aiostream_stream_shmem_size(), &found);
	if (found)
		return;
	memset(lessons, 0, sizeof(LessonsShared));
	SpinLockInit(&lessons->mutex);
}

/* Index of the tablespace's lesson, or of the place for it, or NLESSONS */
static int
find_lesson(Oid tablespace)
{
	int			i = 0;

	while (i < lessons->n && lessons->lesson[i].tablespace != tablespace)
		i++;
	return i;
}

static int
read_lesson(Oid tablespace)
{
	int			choice = 0;
	int			i;

	SpinLockAcquire(&lessons->mutex);
	i = find_lesson(tablespace);
	if (i < lessons->n)
		choice = lessons->lesson[i].gap_choice;
	SpinLockRelease(&lessons->mutex);
	return choice;
}

static void
write_lesson(Oid tablespace, int choice)
{
	int			i;

	SpinLockAcquire(&lessons->mutex);
	i = find_lesson(tablespace);
	if (i < NLESSONS)
	{
		lessons->lesson[i].tablespace = tablespace;
		lessons->lesson[i].gap_choice = choice;
		lessons->n = Max(lessons->n, i + 1);
	}
	SpinLockRelease(&lessons->mutex);
}

static void
start_epoch(AiostreamStream *stream)
{
	INSTR_TIME_SET_CURRENT(stream->epoch_start);
	stream->epoch_blocks = aiostream_target_counters(stream->target)->blocks;
	stream->epoch_ios = aiostream_target_counters(stream->target)->ios;
	stream->epoch_waits = stream->stats.waits;
	stream->epoch_distance = stream->policy.distance;
}

void
aiostream_stream_start_learning(AiostreamStream *stream)
{
	aiostream_gap_init(&stream->gap, read_lesson(stream->rel->rd_node.spcNode));
	start_epoch(stream);
}

/*
 * The consumer has just waited.  If it has done so for a while, take note of
 * how many wanted blocks a second the storage gave it with this gap.  Those are
 * the blocks asked for, not those handed out, as it is the oldest one that the
 * consumer waits for, and many behind it may have landed.
 */
void
aiostream_stream_learn(AiostreamStream *stream)
{
	instr_time	now;
	double		ms;
	double		blocks;
	uint64		ios;

	if (stream->stats.waits - stream->epoch_waits < EPOCH_WAITS)
		return;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, stream->epoch_start);
	ms = INSTR_TIME_GET_MILLISEC(now);
	ios = aiostream_target_counters(stream->target)->ios - stream->epoch_ios;
	if (ms < EPOCH_MS || (ms < EPOCH_MAX_MS && ios < EPOCH_REQUESTS))
		return;
	if (stream->policy.distance > stream->epoch_distance)
	{
		/* it gets faster by looking further, too: that teaches nothing */
		start_epoch(stream);
		return;
	}
	blocks = aiostream_target_counters(stream->target)->blocks - stream->epoch_blocks;
	aiostream_gap_epoch(&stream->gap, blocks / ms * 1000.0);
	write_lesson(stream->rel->rd_node.spcNode, aiostream_gap_best(&stream->gap));
	start_epoch(stream);
}
