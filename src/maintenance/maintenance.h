/*
 * maintenance.h
 *		Public interface of maintenance: the follower of vacuums.
 *
 * aiostream_prewarm() and aiostream_prewarm_all() are functions of SQL only.
 */
#ifndef AIOSTREAM_MAINTENANCE_H
#define AIOSTREAM_MAINTENANCE_H

#include "postgres.h"

#include "commands/vacuum.h"
#include "utils/rel.h"

/* --- set-up (root only) --- */
extern void aiostream_maintenance_install(void);	/* hook; in _PG_init of a
													 * preload */
extern Size aiostream_maintenance_shmem_size(void);
extern void aiostream_maintenance_shmem_init(bool found);

/*
 * The table access method's relation_vacuum: heap's, with a follower ahead of it
 * where that pays and the server has a free worker slot.
 */
extern void aiostream_vacuum_followed(Relation rel, VacuumParams *params,
									  BufferAccessStrategy strategy);

#endif							/* AIOSTREAM_MAINTENANCE_H */
