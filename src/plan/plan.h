/*
 * plan.h
 *		Public interface of the planner side: installs set_rel_pathlist_hook.
 */
#ifndef AIOSTREAM_PLAN_H
#define AIOSTREAM_PLAN_H

extern void aiostream_plan_init(void);	/* once, in _PG_init */

#endif							/* AIOSTREAM_PLAN_H */
