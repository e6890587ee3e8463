/*
 * follower_main.c
 *		The follower: a background worker that reads into shared buffers what a
 *		running VACUUM is about to want.
 *
 * It knows the vacuum by its process's progress entry only, and looks there every
 * millisecond.  Each pass of the vacuum over the table or its indexes is a
 * function, which returns when the vacuum has moved on.
 *
 * What it must not do, and how that is ensured:
 *	- Wait for a heavyweight lock, or make others wait: it takes AccessShareLock if
 *	  it is free to take, and lets go of the table's as soon as its last read of
 *	  the pass has landed, which is ahead of the vacuum; so truncation finds it
 *	  gone.
 *	- Pin a page: the vacuum wants cleanup locks.
 *	- Hold back the horizon for removing dead rows: its transactions are marked as
 *	  a vacuum's are.
 *	- Outlive the vacuum: it ends when asked to, and when the process it follows
 *	  has ended.
 *
 * Map of the folder
 *	follower_start.c		the vacuuming process's side
 *	follower_slot.c			where both meet; the view
 *	follower_main.c			the follower's main loop (this file)
 *	follower_progress.c		how far the vacuum is
 *	follower_hint.c			what it is going to read
 *	follower_heap.c			passes over the table
 *	follower_index.c		passes over its indexes
 *	follower_write.c		dirty pages behind it
 *	prewarm.c				aiostream_prewarm()
 *	prewarm_all.c			aiostream_prewarm_all()
 *	prewarm_list.c			the list of blocks that it reads
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "maintenance/follower_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Between looks at a vacuum that gives us nothing to do */
#define IDLE_NAP_MS 5

/* ---- what the passes use ---- */

void
aiostream_follower_nap(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

bool
aiostream_follower_wanted(void)
{
	return !ShutdownRequestPending && !aiostream_follower_stopped();
}

bool
aiostream_followed_same_pass(AiostreamFollowed *table,
							 const AiostreamVacuumProgress *pass)
{
	CHECK_FOR_INTERRUPTS();
	return aiostream_follower_wanted() &&
		aiostream_vacuum_progress(table->order, &table->now) &&
		table->now.relid == table->relid && table->now.phase == pass->phase &&
		table->now.index_vacuums == pass->index_vacuums;
}

void
aiostream_follower_begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags |= PROC_IN_VACUUM;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

Relation
aiostream_follower_open(Oid relid)
{
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return NULL;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		UnlockRelationOid(relid, AccessShareLock);
	else if (!aiostream_stream_usable(rel))
	{
		relation_close(rel, AccessShareLock);
		rel = NULL;
	}
	/* catalogs have been read: leave no snapshot behind */
	InvalidateCatalogSnapshot();
	return rel;
}

void
aiostream_follower_close(Relation rel)
{
	relation_close(rel, AccessShareLock);
}

void
aiostream_follower_commit(void)
{
	CommitTransactionCommand();
	pgstat_report_stat(false);
}

BufferAccessStrategy
aiostream_follower_ring(int n)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	BufferAccessStrategy ring = aiostream_stream_vacuum_ring(n);

	MemoryContextSwitchTo(old);
	return ring;
}

AiostreamStreamOptions
aiostream_follower_options(const AiostreamFollowerOrder *order)
{
	AiostreamStreamOptions options = {-1};

	options.direct = order->direct;
	options.combine = order->combine;
	options.concurrency = order->concurrency;
	options.full_distance = true;
	return options;
}

/* ---- one table, then the next ---- */

/* What is left to core, or past: wait for the vacuum to move on. */
static void
let_pass(AiostreamFollowed *table)
{
	AiostreamVacuumProgress pass = table->now;

	aiostream_follower_report(table->relid, pass.phase, 0, table->blocks_read,
							  table->blocks_written);
	while (aiostream_followed_same_pass(table, &pass))
		aiostream_follower_nap(IDLE_NAP_MS);
}

static void
follow_table(AiostreamFollowed *table)
{
	Oid			relid = table->now.relid;

	table->relid = relid;
	table->round_start = 0;
	while (aiostream_follower_wanted() && aiostream_vacuum_progress(table->order, &table->now) &&
		   table->now.relid == relid)
	{
		switch (table->now.phase)
		{
			case 0:
				aiostream_follower_nap(1);
				break;
			case PROGRESS_VACUUM_PHASE_SCAN_HEAP:
				aiostream_follow_scan(table);
				break;
			case PROGRESS_VACUUM_PHASE_VACUUM_INDEX:
			case PROGRESS_VACUUM_PHASE_INDEX_CLEANUP:
				aiostream_follow_indexes(table);
				break;
			case PROGRESS_VACUUM_PHASE_VACUUM_HEAP:
				aiostream_follow_second(table);
				break;
			default:
				let_pass(table);
		}
	}
}

static void
detach(int code, Datum arg)
{
	aiostream_follower_detach();
}

static void
set_up(AiostreamFollowerOrder *order)
{
	AiostreamFollowerRef ref;
	char		activity[64];

	memcpy(&ref, MyBgworkerEntry->bgw_extra, sizeof(ref));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);

	/*
	 * not "die", which would be an ERROR in the log: see
	 * aiostream_follower_wanted()
	 */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	if (!aiostream_follower_attach(ref, order))
		proc_exit(0);
	before_shmem_exit(detach, (Datum) 0);

	BackgroundWorkerInitializeConnectionByOid(order->database, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	/* that we are to read ahead has been decided in the vacuum's session */
	SetConfigOption("aiostream.enable", "on", PGC_SUSET, PGC_S_OVERRIDE);

	snprintf(activity, sizeof(activity), "reading ahead of VACUUM in PID %d", order->pid);
	pgstat_report_activity(STATE_RUNNING, activity);
}

/* Exported for the postmaster to find */
PGDLLEXPORT void
aiostream_follower_main(Datum arg)
{
	AiostreamFollowerOrder order;
	AiostreamFollowed table;

	set_up(&order);
	memset(&table, 0, sizeof(table));
	table.order = &order;
	while (aiostream_follower_wanted() && aiostream_vacuum_progress(&order, &table.now))
	{
		if (OidIsValid(table.now.relid))
			follow_table(&table);
		else
		{
			aiostream_follower_report(InvalidOid, 0, 0, table.blocks_read,
									  table.blocks_written);
			aiostream_follower_nap(IDLE_NAP_MS);
		}
	}
	proc_exit(0);
}
