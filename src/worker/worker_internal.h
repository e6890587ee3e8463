/*
 * worker_internal.h
 *		What the background workers have in common.
 */
#ifndef AIOSTREAM_WORKER_INTERNAL_H
#define AIOSTREAM_WORKER_INTERNAL_H

#include "postgres.h"

/* Entry points; looked up by name by the postmaster's children */
extern PGDLLEXPORT void aiostream_reaper_main(Datum arg);
extern PGDLLEXPORT void aiostream_io_worker_main(Datum arg);

/* Install the signal handlers and unblock signals: first thing in main. */
extern void aiostream_worker_signals(void);

/*
 * Once per turn of the main loop: interrupts, reload of the configuration.
 * Shutdown is the loop's own business (ShutdownRequestPending).
 */
extern void aiostream_worker_interrupts(void);

#endif							/* AIOSTREAM_WORKER_INTERNAL_H */
