/*
 * am.h
 *		Public interface of the aioheap table access method.
 */
#ifndef AIOSTREAM_AM_H
#define AIOSTREAM_AM_H

#include "access/tableam.h"

/* The one routine all aioheap relations of this process point to */
extern const TableAmRoutine *aiostream_aioheap_routine(void);

#endif							/* AIOSTREAM_AM_H */
