/*
 * follower_progress.c
 *		How far the vacuum is that we follow: what it publishes in its entry of
 *		the backend status array, as for pg_stat_progress_vacuum.
 *
 * The array is private to backend_status.c, but our own entry has a known
 * place in it.  It is read by core's protocol: a change count that is even and the
 * same before and after.
 */
#include "postgres.h"

#include "commands/progress.h"
#include "maintenance/follower_internal.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "storage/sinvaladt.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/wait_event.h"

/* The owner changes its entry in microseconds; it cannot always be in our way */
#define MAX_TRIES 1000

static BlockNumber
block_param(const volatile PgBackendStatus *entry, int param)
{
	return (BlockNumber) entry->st_progress_param[param];
}

bool
aiostream_vacuum_progress(const AiostreamFollowerOrder *order,
						  AiostreamVacuumProgress *progress)
{
	const volatile PgBackendStatus *entry;

	Assert(MyBEEntry != NULL && MyBackendId != InvalidBackendId);
	entry = MyBEEntry - (MyBackendId - 1) + (order->backend_id - 1);

	for (int try = 0; try < MAX_TRIES; try++)
	{
		AiostreamVacuumProgress now = *progress;
		int			before;
		int			after;
		bool		alive;
		bool		vacuuming;

		pgstat_begin_read_activity(entry, before);
		alive = entry->st_procpid == order->pid &&
			entry->st_proc_start_timestamp == order->started;
		vacuuming = entry->st_progress_command == PROGRESS_COMMAND_VACUUM;
		now.relid = vacuuming ? entry->st_progress_command_target : InvalidOid;
		now.phase = (int) entry->st_progress_param[PROGRESS_VACUUM_PHASE];
		now.total = block_param(entry, PROGRESS_VACUUM_TOTAL_HEAP_BLKS);
		now.scanned = block_param(entry, PROGRESS_VACUUM_HEAP_BLKS_SCANNED);
		now.vacuumed = block_param(entry, PROGRESS_VACUUM_HEAP_BLKS_VACUUMED);
		now.index_vacuums = entry->st_progress_param[PROGRESS_VACUUM_NUM_INDEX_VACUUMS];
		now.dead_items = entry->st_progress_param[PROGRESS_VACUUM_NUM_DEAD_TUPLES];
		pgstat_end_read_activity(entry, after);

		if (pgstat_read_activity_complete(before, after))
		{
			*progress = now;
			return alive;
		}
	}

	/*
	 * It is in the middle of a change, and without a processor maybe: as
	 * before, for now.  To take it for gone would end the follower for good.
	 */
	return true;
}

bool
aiostream_vacuum_reads(const AiostreamFollowerOrder *order)
{
	const volatile PGPROC *proc = BackendIdGetProc(order->backend_id);

	return proc != NULL && proc->pid == order->pid &&
		proc->wait_event_info == WAIT_EVENT_DATA_FILE_READ;
}
