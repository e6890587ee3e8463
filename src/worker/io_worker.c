/*
 * io_worker.c
 *		Main loop of an I/O worker: takes reads off the engine's queue and
 *		executes them.
 *
 * Workers are started by the reaper into numbered slots.  Each ends by itself
 * when its slot is beyond aiostream.io_workers.  Like the reaper it has no database
 * connection, and detaches (which drains the queue, so that no requester is
 * left waiting) in a before_shmem_exit callback.
 */
#include "postgres.h"

#include "engine/engine.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "worker/worker_internal.h"

/* Files are kept open between reads, but not longer than this when idle */
#define IDLE_CLOSE_MS 1000

static void
detach_worker(int code, Datum arg)
{
	(void) code;
	(void) arg;
	aiostream_engine_worker_detach();
}

/*
 * Sleep until there is work.  Once per idle period, after IDLE_CLOSE_MS, close
 * the cached files, so that dropped tables give their space back.
 */
static void
wait_for_work(bool *idle)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
	int			rc;

	if (!*idle)
		events |= WL_TIMEOUT;

	rc = WaitLatch(MyLatch, events, IDLE_CLOSE_MS, PG_WAIT_EXTENSION);
	if (rc & WL_TIMEOUT)
	{
		aiostream_engine_worker_idle();
		*idle = true;
	}
}

/* Exported for the postmaster to find */
PGDLLEXPORT void
aiostream_io_worker_main(Datum arg)
{
	int			slot = DatumGetInt32(arg);
	bool		idle = false;

	aiostream_worker_signals();
	if (!aiostream_engine_worker_attach(slot))
		proc_exit(0);			/* another worker has the slot */
	before_shmem_exit(detach_worker, (Datum) 0);

	while (!ShutdownRequestPending && slot < aiostream_io_workers)
	{
		/* before looking, so that a wake-up in between is not lost */
		ResetLatch(MyLatch);
		aiostream_worker_interrupts();

		while (!ShutdownRequestPending && slot < aiostream_io_workers &&
			   aiostream_engine_worker_run_one())
		{
			idle = false;
			aiostream_worker_interrupts();
		}

		if (!ShutdownRequestPending && slot < aiostream_io_workers)
			wait_for_work(&idle);
	}

	proc_exit(0);
}
