/*
 * compat.h
 *		The only place that tests PG_VERSION_NUM.
 *
 * aiostream supports PostgreSQL 15 today.  Wrappers added here for later
 * versions take the NEWEST version's signature, so that old cases can be
 * dropped without touching callers.
 */
#ifndef AIOSTREAM_COMPAT_H
#define AIOSTREAM_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "aiostream supports PostgreSQL 15 only"
#endif

/* PostgreSQL 16 renames RelFileNode to RelFileLocator; we use the old names. */

/* Before 16 shared buffers are aligned to a cache line only: buffer/align.c. */
#define AIOSTREAM_CORE_ALIGNS_BUFFERS 0

#endif							/* AIOSTREAM_COMPAT_H */
