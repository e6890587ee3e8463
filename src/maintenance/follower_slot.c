/*
 * follower_slot.c
 *		Where a vacuum and its follower meet: slots in shared memory, and the
 *		view pg_stat_aiostream_vacuum.
 *
 *		FREE --order--> ORDERED --attach--> RUNNING --detach--> FREE
 *		                   |                                      ^
 *		                   +--------------withdraw----------------+
 *
 * The vacuum asks its follower to stop by a flag and its latch, and goes on: it
 * never waits for it.  A follower that is not running yet when its vacuum is
 * over finds a slot with another generation, and ends.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/progress.h"
#include "fmgr.h"
#include "funcapi.h"
#include "maintenance/follower_internal.h"
#include "maintenance/maintenance.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(aiostream_stat_vacuum);

/* More followers than this are not to be had */
#define N_SLOTS 32

typedef enum SlotState
{
	SLOT_FREE,
	SLOT_ORDERED,				/* the worker has not started yet */
	SLOT_RUNNING
} SlotState;

typedef struct FollowerSlot
{
	SlotState	state;
	uint32		generation;
	bool		stop;
	Latch	   *latch;			/* of the follower, while RUNNING */
	int			follower_pid;
	AiostreamFollowerOrder order;

	/* what the follower reports */
	Oid			relid;
	int			phase;
	uint32		distance;
	uint64		blocks_read;
	uint64		blocks_written;
	uint64		flushes_saved;
} FollowerSlot;

typedef struct FollowerShared
{
	slock_t		mutex;			/* for all of it; held for a few stores only */
	FollowerSlot slots[N_SLOTS];
} FollowerShared;

static FollowerShared *shared = NULL;

/* In the follower: its slot */
static FollowerSlot *my_slot = NULL;

Size
aiostream_maintenance_shmem_size(void)
{
	return sizeof(FollowerShared);
}

void
aiostream_maintenance_shmem_init(bool found)
{
	shared = ShmemInitStruct("aiostream vacuum followers",
							 aiostream_maintenance_shmem_size(), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(FollowerShared));
	SpinLockInit(&shared->mutex);
}

/* ---- the vacuuming process ---- */

/* False: no slot. */
bool
aiostream_follower_order(const AiostreamFollowerOrder *order,
						 AiostreamFollowerRef *ref)
{
	ref->slot = -1;
	if (shared == NULL)
		return false;
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < N_SLOTS; i++)
	{
		FollowerSlot *slot = &shared->slots[i];
		uint32		generation = slot->generation;

		if (slot->state != SLOT_FREE)
			continue;
		memset(slot, 0, sizeof(FollowerSlot));
		slot->generation = generation + 1;
		slot->state = SLOT_ORDERED;
		slot->order = *order;
		ref->slot = i;
		ref->generation = slot->generation;
		break;
	}
	SpinLockRelease(&shared->mutex);
	return ref->slot >= 0;
}

/* Ask the follower to end soon. */
void
aiostream_follower_stop(AiostreamFollowerRef ref)
{
	FollowerSlot *slot = &shared->slots[ref.slot];
	Latch	   *latch = NULL;

	SpinLockAcquire(&shared->mutex);
	if (slot->generation == ref.generation)
	{
		slot->stop = true;
		if (slot->state == SLOT_RUNNING)
			latch = slot->latch;
	}
	SpinLockRelease(&shared->mutex);
	/* process latches stay in shared memory; a stray signal does no harm */
	if (latch != NULL)
		SetLatch(latch);
}

/* Take back an order that no worker has attached to, if there is none. */
void
aiostream_follower_withdraw(AiostreamFollowerRef ref)
{
	FollowerSlot *slot = &shared->slots[ref.slot];

	SpinLockAcquire(&shared->mutex);
	if (slot->generation == ref.generation && slot->state == SLOT_ORDERED)
		slot->state = SLOT_FREE;
	SpinLockRelease(&shared->mutex);
}

/* ---- the follower ---- */

/* False: the order has been taken back. */
bool
aiostream_follower_attach(AiostreamFollowerRef ref, AiostreamFollowerOrder *order)
{
	FollowerSlot *slot;

	if (shared == NULL || ref.slot < 0 || ref.slot >= N_SLOTS)
		return false;
	slot = &shared->slots[ref.slot];
	SpinLockAcquire(&shared->mutex);
	if (slot->generation == ref.generation && slot->state == SLOT_ORDERED)
	{
		slot->state = SLOT_RUNNING;
		slot->latch = MyLatch;
		slot->follower_pid = MyProcPid;
		*order = slot->order;
		my_slot = slot;
	}
	SpinLockRelease(&shared->mutex);
	return my_slot != NULL;
}

void
aiostream_follower_detach(void)
{
	if (my_slot == NULL)
		return;
	SpinLockAcquire(&shared->mutex);
	my_slot->latch = NULL;
	my_slot->state = SLOT_FREE;
	SpinLockRelease(&shared->mutex);
	my_slot = NULL;
}

bool
aiostream_follower_stopped(void)
{
	return *(volatile bool *) &my_slot->stop;
}

void
aiostream_follower_report(Oid relid, int phase, uint32 distance, uint64 blocks_read,
						  uint64 blocks_written)
{
	uint64		saved = aiostream_write_stream_flushes_saved();

	SpinLockAcquire(&shared->mutex);
	my_slot->relid = relid;
	my_slot->phase = phase;
	my_slot->distance = distance;
	my_slot->blocks_read = blocks_read;
	my_slot->blocks_written = blocks_written;
	my_slot->flushes_saved = saved;
	SpinLockRelease(&shared->mutex);
}

/* ---- the view ---- */

/* As pg_stat_progress_vacuum names them */
static const char *
phase_name(int phase)
{
	switch (phase)
	{
		case 0:
			return "initializing";
		case PROGRESS_VACUUM_PHASE_SCAN_HEAP:
			return "scanning heap";
		case PROGRESS_VACUUM_PHASE_VACUUM_INDEX:
			return "vacuuming indexes";
		case PROGRESS_VACUUM_PHASE_VACUUM_HEAP:
			return "vacuuming heap";
		case PROGRESS_VACUUM_PHASE_INDEX_CLEANUP:
			return "cleaning up indexes";
		case PROGRESS_VACUUM_PHASE_TRUNCATE:
			return "truncating heap";
		case PROGRESS_VACUUM_PHASE_FINAL_CLEANUP:
			return "performing final cleanup";
	}
	return NULL;
}

static bool
may_see(Oid role)
{
	return has_privs_of_role(GetUserId(), role) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/*
 * aiostream_stat_vacuum() -> setof (pid, follower_pid, datid, relid, phase,
 * distance, blocks_read, blocks_written, wal_flushes_saved)
 */
Datum
aiostream_stat_vacuum(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	aiostream_require_preload();
	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < N_SLOTS; i++)
	{
		FollowerSlot slot;
		Datum		values[9];
		bool		nulls[9] = {0};

		SpinLockAcquire(&shared->mutex);
		slot = shared->slots[i];
		SpinLockRelease(&shared->mutex);
		if (slot.state != SLOT_RUNNING)
			continue;

		memset(nulls, 0, sizeof(nulls));
		values[0] = Int32GetDatum(slot.order.pid);
		values[1] = Int32GetDatum(slot.follower_pid);
		values[2] = ObjectIdGetDatum(slot.order.database);

		/*
		 * as pg_stat_progress_vacuum: others see that there is one, and no
		 * more
		 */
		if (!may_see(slot.order.role))
		{
			memset(&nulls[3], true, sizeof(nulls) - 3 * sizeof(nulls[0]));
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
			continue;
		}
		values[3] = ObjectIdGetDatum(slot.relid);
		nulls[3] = nulls[4] = nulls[5] = !OidIsValid(slot.relid);
		if (!nulls[4])
			values[4] = CStringGetTextDatum(phase_name(slot.phase));
		values[5] = Int64GetDatum((int64) slot.distance);
		values[6] = Int64GetDatum((int64) slot.blocks_read);
		values[7] = Int64GetDatum((int64) slot.blocks_written);
		values[8] = Int64GetDatum((int64) slot.flushes_saved);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
