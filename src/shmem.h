/*
 * shmem.h
 *		aiostream's shared memory: whether it is there.
 */
#ifndef AIOSTREAM_SHMEM_H
#define AIOSTREAM_SHMEM_H

#include "postgres.h"

extern void aiostream_shmem_install(void);	/* hooks; in _PG_init of a preload */

/* False in a server that does not preload the library. */
extern bool aiostream_shmem_ready(void);

/*
 * ERROR 55000 with a hint unless the library was preloaded: first line of
 * every SQL function that needs shared memory.
 */
extern void aiostream_require_preload(void);

#endif							/* AIOSTREAM_SHMEM_H */
