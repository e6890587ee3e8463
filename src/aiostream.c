/*
 * aiostream.c
 *		Module entry: wires the layers together.
 *
 * The library is meant to be preloaded (shared_preload_libraries): only then is there
 * shared memory for reads in flight.  Loaded into a single session it still
 * provides the aioheap access method and the settings, and every scan takes
 * core's ordinary path.
 */
#include "postgres.h"

#include "buffer/buffer.h"
#include "compat.h"
#include "engine/engine.h"
#include "fmgr.h"
#include "guc.h"
#include "maintenance/maintenance.h"
#include "miscadmin.h"
#include "plan/plan.h"
#include "scan/scan.h"
#include "shmem.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	aiostream_guc_init();
	aiostream_buffer_init();
	aiostream_scan_register();
	aiostream_plan_init();

	if (!process_shared_preload_libraries_in_progress)
		return;

	aiostream_engine_probe();
	aiostream_shmem_install();
	aiostream_worker_register();
	aiostream_maintenance_install();
}
