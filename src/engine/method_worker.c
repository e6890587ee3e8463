/*
 * method_worker.c
 *		Method "worker": shared queues of reads and of writes, executed by
 *		background workers.
 *
 * A queue holds indexes of SUBMITTED handles and has room for all of them.
 * It accepts them only while at least one worker is attached; the last
 * worker to leave empties both first, under the same lock, so that nothing is
 * left behind.  Everything here is under queue_lock.
 *
 * Reads come first, as somebody waits for them, and writes never occupy all
 * workers; but while none is being executed, one has its turn after some reads.
 */
#include "postgres.h"

#include "engine/engine_internal.h"
#include "faults.h"
#include "guc.h"
#include "stats.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/* Descriptors a worker keeps open */
#define NCACHED 16

typedef struct CachedFile
{
	uint64		id;				/* 0: unused */
	uint64		used;
	int			fd;
} CachedFile;

static CachedFile cache[NCACHED];
static uint64 cache_clock = 0;
static int	my_slot = -1;
static bool writing = false;	/* this worker counts in nwriting */

/* Reads that may overtake a waiting write while none is being executed */
#define READS_BEFORE_WRITE 32

/* ---- the queues; caller holds queue_lock ---- */

static void
put(AiostreamQueue *queue, uint32 index)
{
	Assert(aiostream_queue_length(queue) < queue->size);
	aiostream_queue_put(queue, aiostream_queue, index);
}

static AiostreamIo *
take(AiostreamQueue *queue)
{
	Assert(!aiostream_queue_empty(queue));
	return aiostream_io_by_index(aiostream_queue_take(queue, aiostream_queue));
}

/* How many workers may write at a time: all but one, and at least one */
static int
max_writing(void)
{
	return Max(1, aiostream_engine->nworkers - 1);
}

/* The queue that a worker is to take from next, or NULL */
static AiostreamQueue *
choose_queue(void)
{
	AiostreamEngineShared *shared = aiostream_engine;

	bool		write = !aiostream_queue_empty(&shared->writes) && shared->nwriting < max_writing();

	if (!aiostream_queue_empty(&shared->reads) &&
		!(write && shared->nwriting == 0 && shared->reads_in_a_row >= READS_BEFORE_WRITE))
		return &shared->reads;
	return write ? &shared->writes : NULL;
}

/* Take from the queue that was chosen. */
static AiostreamIo *
take_chosen(AiostreamQueue *queue)
{
	AiostreamEngineShared *shared = aiostream_engine;

	if (queue == &shared->writes)
	{
		shared->nwriting++;
		shared->reads_in_a_row = 0;
		writing = true;
	}
	else if (!aiostream_queue_empty(&shared->writes))
		shared->reads_in_a_row++;
	return take(queue);
}

/* ---- the owner's side ---- */

/* A worker to wake for new work, or NULL; caller holds queue_lock. */
static Latch *
pick_idle(void)
{
	for (int i = 0; i < AIOSTREAM_MAX_WORKERS; i++)
	{
		AiostreamWorkerSlot *slot = &aiostream_engine->workers[i];

		if (slot->pid != 0 && slot->idle)
		{
			slot->idle = false;
			return slot->latch;
		}
	}
	return NULL;
}

static bool
worker_submit(AiostreamIo *io)
{
	AiostreamEngineShared *shared = aiostream_engine;
	Latch	   *latch = NULL;

	LWLockAcquire(&shared->queue_lock, LW_EXCLUSIVE);
	if (shared->nworkers == 0)
	{
		LWLockRelease(&shared->queue_lock);
		aiostream_count(AIOSTREAM_COUNT_FALLBACK_NO_WORKER, 1);
		if (pg_atomic_exchange_u32(&shared->workers_wanted, 1) == 0)
		{
			/* the reaper starts them */
			Latch	   *reaper = shared->reaper_latch;

			if (reaper != NULL)
				SetLatch(reaper);
		}
		return false;
	}
	put(io->op == AIOSTREAM_OP_WRITE ? &shared->writes : &shared->reads, io->index);
	if (choose_queue() != NULL)
		latch = pick_idle();
	LWLockRelease(&shared->queue_lock);
	if (latch != NULL)
		SetLatch(latch);
	return true;
}

static void
worker_wait(AiostreamIoRef ref)
{
	AiostreamIo *io = aiostream_io_by_index(ref.index);

	ConditionVariablePrepareToSleep(&io->cv);
	while (!aiostream_io_done(ref))
		ConditionVariableSleep(&io->cv, WAIT_EVENT_DATA_FILE_READ);
	ConditionVariableCancelSleep();
}

const AiostreamMethod aiostream_method_worker = {
	.name = "worker",
	.submit = worker_submit,
	.wait = worker_wait,
};

/* ---- the worker's side ---- */

/*
 * As many as keep the writing workers busy until somebody comes with more; and
 * this process is to have requests left for reading.
 */
bool
aiostream_engine_write_ok(void)
{
	if (aiostream_my_process != NULL &&
		pg_atomic_read_u32(&aiostream_my_process->writes) >=
		(uint32) Max(1, aiostream_io_max_concurrency / 2))
		return false;
	return pg_atomic_read_u32(&aiostream_engine->nwrites) <
		(uint32) (max_writing() * AIOSTREAM_WRITES_A_WORKER);
}

bool
aiostream_engine_workers_wanted(void)
{
	return aiostream_engine_method() == AIOSTREAM_METHOD_WORKER ||
		pg_atomic_read_u32(&aiostream_engine->workers_wanted) != 0;
}

int
aiostream_engine_nworkers(void)
{
	return aiostream_engine->nworkers;
}

bool
aiostream_engine_worker_slot_busy(int slot)
{
	Assert(slot >= 0 && slot < AIOSTREAM_MAX_WORKERS);
	return aiostream_engine->workers[slot].pid != 0;
}

int
aiostream_engine_worker_pid(int slot)
{
	Assert(slot >= 0 && slot < AIOSTREAM_MAX_WORKERS);
	return aiostream_engine->workers[slot].pid;
}

/* Take a slot; false if another worker has it. */
bool
aiostream_engine_worker_attach(int slot)
{
	AiostreamEngineShared *shared = aiostream_engine;
	bool		ok;

	Assert(slot >= 0 && slot < AIOSTREAM_MAX_WORKERS);
	LWLockAcquire(&shared->queue_lock, LW_EXCLUSIVE);
	ok = shared->workers[slot].pid == 0;
	if (ok)
	{
		shared->workers[slot].pid = MyProcPid;
		shared->workers[slot].latch = MyLatch;
		shared->workers[slot].idle = false;
		shared->nworkers++;
		my_slot = slot;
	}
	LWLockRelease(&shared->queue_lock);
	return ok;
}

/*
 * A descriptor for the read's file.  Cached by the owner's file id, which is
 * never used again, so that it cannot be that of an older file; opened under
 * the owner's relation lock, as it waits for us before it lets go.
 */
static int
open_cached(const AiostreamIo *io)
{
	CachedFile *victim = &cache[0];

	for (int i = 0; i < NCACHED; i++)
	{
		if (cache[i].id == io->file_id)
		{
			cache[i].used = ++cache_clock;
			return cache[i].fd;
		}
		if (cache[i].used < victim->used)
			victim = &cache[i];
	}
	if (victim->id != 0)
	{
		close(victim->fd);
		ReleaseExternalFD();
		victim->id = 0;
		victim->used = 0;
	}
	ReserveExternalFD();
	victim->fd = BasicOpenFile(io->path, PG_BINARY | (io->direct ? O_DIRECT : 0) |
							   (io->op == AIOSTREAM_OP_WRITE ? O_RDWR : O_RDONLY));
	if (victim->fd < 0)
	{
		ReleaseExternalFD();
		return -1;
	}
	if (!io->direct)
		aiostream_file_no_readahead(victim->fd);
	victim->id = io->file_id;
	victim->used = ++cache_clock;
	return victim->fd;
}

/* Nothing to do for a while: let go of files that may have been dropped. */
void
aiostream_engine_worker_idle(void)
{
	for (int i = 0; i < NCACHED; i++)
	{
		if (cache[i].id != 0)
		{
			close(cache[i].fd);
			ReleaseExternalFD();
			cache[i].id = 0;
			cache[i].used = 0;
		}
	}
}

/* Caller holds queue_lock. */
static void
end_writing(void)
{
	Assert(writing && aiostream_engine->nwriting > 0);
	aiostream_engine->nwriting--;
	writing = false;
}

static void
run_write(AiostreamIo *io)
{
	aiostream_io_execute_write(io, open_cached(io));

	LWLockAcquire(&aiostream_engine->queue_lock, LW_EXCLUSIVE);
	end_writing();
	LWLockRelease(&aiostream_engine->queue_lock);
}

static void
run_read(AiostreamIo *io)
{
	int			fd;
	int32		result;

	aiostream_fault_pause(AIOSTREAM_FAULT_WORKER_READ);
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
	fd = open_cached(io);
	result = fd < 0 ? -errno : aiostream_io_execute(io, fd);
	pgstat_report_wait_end();
	aiostream_io_complete(io, result);
}

/*
 * Execute what is first in a queue.  False if there is nothing for this worker:
 * then it is marked idle, and its latch will be set by what comes next.  Whoever
 * ends a write comes back for the next one.
 */
bool
aiostream_engine_worker_run_one(void)
{
	AiostreamEngineShared *shared = aiostream_engine;
	AiostreamQueue *queue;
	AiostreamIo *io;
	Latch	   *more = NULL;

	LWLockAcquire(&shared->queue_lock, LW_EXCLUSIVE);
	queue = choose_queue();
	if (my_slot >= 0)
		shared->workers[my_slot].idle = queue == NULL;
	if (queue == NULL)
	{
		LWLockRelease(&shared->queue_lock);
		return false;
	}
	io = take_chosen(queue);
	if (choose_queue() != NULL)
		more = pick_idle();
	LWLockRelease(&shared->queue_lock);
	if (more != NULL)
		SetLatch(more);

	if (io->op == AIOSTREAM_OP_WRITE)
		run_write(io);
	else
		run_read(io);
	return true;
}

/* The worker stops.  The last one empties the queues. */
void
aiostream_engine_worker_detach(void)
{
	AiostreamEngineShared *shared = aiostream_engine;

	/* errors of a write are caught in it, and interrupts held off */
	Assert(!writing);
	if (my_slot < 0)
		return;
	for (;;)
	{
		LWLockAcquire(&shared->queue_lock, LW_EXCLUSIVE);
		if (shared->nworkers > 1 || (aiostream_queue_empty(&shared->reads) && aiostream_queue_empty(&shared->writes)))
			break;
		LWLockRelease(&shared->queue_lock);
		aiostream_engine_worker_run_one();
	}
	shared->workers[my_slot].pid = 0;
	shared->workers[my_slot].latch = NULL;
	shared->workers[my_slot].idle = false;
	shared->nworkers--;
	my_slot = -1;
	{
		/* we may have been the one woken for what is in the queue */
		Latch	   *latch = choose_queue() != NULL ? pick_idle() : NULL;

		LWLockRelease(&shared->queue_lock);
		if (latch != NULL)
			SetLatch(latch);
	}
	aiostream_engine_worker_idle();
}
