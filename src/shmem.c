/*
 * shmem.c
 *		aiostream's shared memory: asks for it and has the layers set it up.
 *
 * After a crash of a backend the postmaster makes new shared memory and runs
 * the start-up hook again, but not the request hook: the sizes requested once
 * stay in force.  Nothing here may therefore depend on an earlier round.
 */
#include "postgres.h"

#include "buffer/buffer.h"
#include "engine/engine.h"
#include "faults.h"
#include "maintenance/maintenance.h"
#include "miscadmin.h"
#include "shmem.h"
#include "stats.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "stream/stream.h"

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Set in the postmaster, inherited by fork */
static bool shmem_is_ready = false;

static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	/* ShmemInitStruct rounds each structure up to a cache line */
	RequestAddinShmemSpace(CACHELINEALIGN(aiostream_stats_shmem_size()));
	RequestAddinShmemSpace(CACHELINEALIGN(aiostream_faults_shmem_size()));
	RequestAddinShmemSpace(CACHELINEALIGN(aiostream_engine_shmem_size()));
	RequestAddinShmemSpace(CACHELINEALIGN(aiostream_buffer_shmem_size()));
	RequestAddinShmemSpace(CACHELINEALIGN(aiostream_stream_shmem_size()));
	RequestAddinShmemSpace(CACHELINEALIGN(aiostream_maintenance_shmem_size()));
	RequestNamedLWLockTranche("aiostream", aiostream_engine_nlwlocks());
	aiostream_buffer_shmem_request();
}

static void
startup_shmem(void)
{
	bool		found = IsUnderPostmaster;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	shmem_is_ready = false;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	aiostream_stats_shmem_init(found);
	aiostream_faults_shmem_init(found);
	aiostream_engine_shmem_init(found);
	aiostream_buffer_shmem_init(found);
	aiostream_stream_shmem_init(found);
	aiostream_maintenance_shmem_init(found);
	LWLockRelease(AddinShmemInitLock);
	shmem_is_ready = true;
}

void
aiostream_shmem_install(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

bool
aiostream_shmem_ready(void)
{
	return shmem_is_ready;
}

void
aiostream_require_preload(void)
{
	if (shmem_is_ready)
		return;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("aiostream must be loaded via shared_preload_libraries"),
			 errhint("Add \"aiostream\" to shared_preload_libraries and restart the server.")));
}
