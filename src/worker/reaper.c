/*
 * reaper.c
 *		The reaper: handles completions that their owners are too busy for, and
 *		supervises the I/O workers.
 *
 * A backend that has reads in flight may sit in a lock wait, or send rows to
 * a slow client, while another backend waits in core for one of its pages.
 * Core knows nothing of our rings, so somebody has to look at them: this
 * process does, every REAP_INTERVAL_MS while anything is in flight.  It
 * sleeps on its latch otherwise; the engine sets the latch when the first
 * read goes in flight or when I/O workers become wanted.
 *
 * No reaper, no asynchronous reads: the engine executes reads synchronously while none is
 * attached.  It is therefore started at BgWorkerStart_ConsistentState,
 * and not earlier, on purpose: there is nothing to stream during crash
 * recovery, and a process less to stop in the middle of it.
 *
 * It has no database connection, hence no transactions, no catalogs and no row in
 * pg_stat_activity.  An ERROR ends it with exit code 1, and the postmaster
 * starts it again; detaching is a before_shmem_exit callback, so that it
 * happens on every way out but a crash, which resets shared memory anyway.
 */
#include "postgres.h"

#include "engine/engine.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker_internals.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "utils/timestamp.h"
#include "worker/worker.h"
#include "worker/worker_internal.h"

/* bounds what another backend waits for a page whose owner does not look */
#define REAP_INTERVAL_MS	2
/* seconds until the postmaster starts a reaper that ended with an error */
#define REAPER_RESTART_S	5
/* an I/O worker that ended early is not started again before this */
#define WORKER_RESTART_MS	1000
/* after "no free background worker slot" */
#define NO_SLOT_RETRY_MS	10000

/* The supervisor's view of one I/O worker slot */
typedef struct WorkerSlot
{
	BackgroundWorkerHandle *handle; /* NULL: not started by this process */
	TimestampTz not_before;		/* earliest time of the next start */
} WorkerSlot;

static WorkerSlot worker_slots[AIOSTREAM_MAX_WORKERS];
static TimestampTz register_not_before = 0;
static bool no_slot_reported = false;

static void
detach_reaper(int code, Datum arg)
{
	(void) code;
	(void) arg;
	aiostream_engine_reaper_detach();
}

/* Returns false if the server has no free background worker slot. */
static bool
start_io_worker(int slot)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "aiostream io worker %d", slot);
	strlcpy(worker.bgw_type, "aiostream io worker", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "aiostream", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "aiostream_io_worker_main", BGW_MAXLEN);
	worker.bgw_main_arg = Int32GetDatum(slot);
	worker.bgw_notify_pid = MyProcPid;

	return RegisterDynamicBackgroundWorker(&worker, &worker_slots[slot].handle);
}

/* Is an I/O worker running in the slot, or about to? */
static bool
io_worker_present(int slot)
{
	WorkerSlot *ws = &worker_slots[slot];
	pid_t		pid;

	/* it may have been started by the reaper before us */
	if (aiostream_engine_worker_slot_busy(slot))
		return true;
	if (ws->handle == NULL)
		return false;
	if (GetBackgroundWorkerPid(ws->handle, &pid) != BGWH_STOPPED)
		return true;

	pfree(ws->handle);
	ws->handle = NULL;
	return false;
}

static void
report_no_slot(int slot)
{
	if (no_slot_reported)
		return;

	no_slot_reported = true;
	ereport(LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not start aiostream I/O worker %d of %d: no free background worker slot",
					slot + 1, aiostream_io_workers),
			 errdetail("Reads that no worker takes are executed by the process that wants them."),
			 errhint("Increase \"max_worker_processes\" or decrease \"aiostream.io_workers\".")));
}

/*
 * Start I/O workers that are wanted and missing.  Surplus ones end by
 * themselves.  Returns the time in ms after which to look again, or -1 if there is
 * nothing to look for until the latch is set.
 */
static long
supervise_io_workers(void)
{
	TimestampTz now;
	long		next_ms = -1;
	int			slot;

	if (!aiostream_engine_workers_wanted())
		return -1;

	now = GetCurrentTimestamp();
	for (slot = 0; slot < aiostream_io_workers; slot++)
	{
		WorkerSlot *ws = &worker_slots[slot];
		TimestampTz not_before = Max(ws->not_before, register_not_before);
		long		wait_ms;

		if (io_worker_present(slot))
			continue;

		if (now >= not_before)
		{
			if (start_io_worker(slot))
			{
				ws->not_before = TimestampTzPlusMilliseconds(now, WORKER_RESTART_MS);
				continue;
			}
			report_no_slot(slot);
			register_not_before = TimestampTzPlusMilliseconds(now, NO_SLOT_RETRY_MS);
			not_before = register_not_before;
		}

		wait_ms = TimestampDifferenceMilliseconds(now, not_before) + 1;
		next_ms = next_ms < 0 ? wait_ms : Min(next_ms, wait_ms);
	}
	return next_ms;
}

/* Exported for the postmaster to find */
PGDLLEXPORT void
aiostream_reaper_main(Datum arg)
{
	(void) arg;

	aiostream_worker_signals();
	aiostream_engine_reaper_attach();
	before_shmem_exit(detach_reaper, (Datum) 0);

	while (!ShutdownRequestPending)
	{
		bool		in_flight;
		long		timeout;

		/* before looking, so that a wake-up in between is not lost */
		ResetLatch(MyLatch);
		aiostream_worker_interrupts();

		in_flight = aiostream_engine_reap_others();
		timeout = supervise_io_workers();
		if (in_flight)
			timeout = REAP_INTERVAL_MS;

		if (!ShutdownRequestPending)
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
							 (timeout >= 0 ? WL_TIMEOUT : 0),
							 timeout, PG_WAIT_EXTENSION);
	}

	/*
	 * The exit callback closes the engine to new reads in flight and drains.
	 * Exit code 0 would mean "never start it again", should somebody have
	 * sent SIGTERM to this process alone.
	 */
	proc_exit(1);
}

/* Has the postmaster taken the registration? It only logs a refusal. */
static bool
reaper_is_registered(void)
{
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *rw = slist_container(RegisteredBgWorker, rw_lnode, iter.cur);

		if (strcmp(rw->rw_worker.bgw_function_name, "aiostream_reaper_main") == 0)
			return true;
	}
	return false;
}

void
aiostream_worker_register(void)
{
	BackgroundWorker worker;

	if (IsBinaryUpgrade)
		return;

	memset(&worker, 0, sizeof(worker));
	strlcpy(worker.bgw_name, "aiostream reaper", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "aiostream reaper", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = REAPER_RESTART_S;
	strlcpy(worker.bgw_library_name, "aiostream", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "aiostream_reaper_main", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);

	if (!reaper_is_registered())
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("aiostream executes all reads synchronously: its reaper process could not be registered"),
				 errhint("Increase \"max_worker_processes\" (now %d) and restart the server.",
						 max_worker_processes)));
}
