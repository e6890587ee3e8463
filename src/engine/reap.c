/*
 * reap.c
 *		Completions of others: the engine's side of the reaper process.
 *
 * A process may sit in a lock wait, or idle in a transaction with a cursor, while
 * others wait in core's WaitIO for a page that it is reading; WaitIO knows
 * nothing of rings.  So a read may be left in a ring only while the reaper
 * runs; it handles what an owner has not handled by its next visit.
 *
 * Opening and closing: a submitter first counts its read in uring_inflight,
 * then looks at reaper_open.  A reaper that stops first closes, then looks at
 * uring_inflight, and stays until it is zero.  Both are full barriers, so one
 * of them sees the other, and no read is left behind.
 */
#include "postgres.h"

#include "engine/engine_internal.h"
#include "faults.h"
#include "stats.h"

#include "miscadmin.h"
#include "storage/proc.h"

/* Submitter's side; it has counted its read already. */
bool
aiostream_reaper_accepts(void)
{
	if (pg_atomic_read_u32(&aiostream_engine->reaper_open) != 0)
		return true;

	aiostream_count(AIOSTREAM_COUNT_FALLBACK_NO_REAPER, 1);
	return false;
}

/* Submitter's side: a read has gone out; make sure that the reaper looks. */
void
aiostream_reaper_wake(void)
{
	if (pg_atomic_read_u32(&aiostream_engine->reaper_asleep) != 0)
	{
		Latch	   *latch = aiostream_engine->reaper_latch;

		if (latch != NULL)
			SetLatch(latch);
	}
}

bool
aiostream_engine_reaper_running(int *pid)
{
	bool		open = pg_atomic_read_u32(&aiostream_engine->reaper_open) != 0;

	if (pid != NULL)
		*pid = open ? aiostream_engine->reaper_pid : 0;
	return open;
}

/* The reaper process starts; there is one. */
void
aiostream_engine_reaper_attach(void)
{
	aiostream_engine->reaper_pid = MyProcPid;
	aiostream_engine->reaper_latch = MyLatch;
	pg_atomic_write_u32(&aiostream_engine->reaper_asleep, 0);
	pg_memory_barrier();
	pg_atomic_write_u32(&aiostream_engine->reaper_open, 1);
}

/*
 * Visit all rings; handle completions that were there at the last visit too,
 * which their owners have had time to see.  Returns whether reads are in
 * flight.  When it returns false, the caller may sleep on its latch: it will
 * be set by the next read.
 */
bool
aiostream_engine_reap_others(void)
{
	AiostreamEngineShared *shared = aiostream_engine;

	aiostream_fault_pause(AIOSTREAM_FAULT_REAPER);

	if (aiostream_rings == NULL)
		return false;
	pg_atomic_write_u32(&shared->reaper_asleep, 1);
	pg_memory_barrier();
	if (pg_atomic_read_u32(&shared->uring_inflight) == 0)
		return false;
	pg_atomic_write_u32(&shared->reaper_asleep, 0);

	for (int procno = 0; procno < shared->nprocesses; procno++)
	{
		AiostreamProcess *process = &aiostream_processes[procno].process;
		uint32		head;

		if (pg_atomic_read_u32(&process->inflight) == 0 ||
			!aiostream_ring_pending(process, procno))
		{
			process->reaper_pending = false;
			continue;
		}
		head = aiostream_ring_head(process, procno);
		if (!process->reaper_pending || process->reaper_seen != head)
		{
			process->reaper_pending = true;
			process->reaper_seen = head;
			continue;
		}
		if (!LWLockConditionalAcquire(&process->ring_lock, LW_EXCLUSIVE))
			continue;
		/* look again: the ring may have been closed or be its owner's */
		if (pg_atomic_read_u32(&process->ring_ready) != 0 &&
			!process->owner_waiting)
			aiostream_ring_consume(process, procno, false);
		LWLockRelease(&process->ring_lock);
		process->reaper_pending = false;
	}
	return true;
}

/*
 * The reaper stops: no new reads are left in flight; those that are, land
 * first.  Their owners are there or have drained, so this ends.
 */
void
aiostream_engine_reaper_detach(void)
{
	AiostreamEngineShared *shared = aiostream_engine;

	pg_atomic_write_u32(&shared->reaper_open, 0);
	pg_memory_barrier();
	while (pg_atomic_read_u32(&shared->uring_inflight) != 0)
	{
		aiostream_engine_reap_others();
		pg_usleep(1000L);
	}
	shared->reaper_latch = NULL;
	shared->reaper_pid = 0;
}
