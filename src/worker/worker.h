/*
 * worker.h
 *		Public interface of the background workers.
 */
#ifndef AIOSTREAM_WORKER_H
#define AIOSTREAM_WORKER_H

#include "postgres.h"

/*
 * Register the reaper, which also starts and stops the I/O workers.  In
 * _PG_init of a preload only.  Not under pg_upgrade.
 */
extern void aiostream_worker_register(void);

#endif							/* AIOSTREAM_WORKER_H */
