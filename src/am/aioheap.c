/*
 * aioheap.c
 *		The table access method "aioheap": heap, with the callbacks that do
 *		sequential reads replaced by ones that stream.
 *
 * Pages are heap's pages, and every decision about them is heap's.  README.md
 * lists the callbacks: which are heap's own, which are ours, and why.  Where no
 * stream can be used (library not preloaded, aiostream.enable off, temporary
 * tables) all of them behave as heap's.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "am/am_internal.h"
#include "catalog/pg_am_d.h"
#include "fmgr.h"
#include "maintenance/maintenance.h"
#include "scan/scan.h"

PG_FUNCTION_INFO_V1(aiostream_aioheap_handler);

/* The TOAST table of an aioheap table is an ordinary heap table. */
static Oid
toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}

/* Made from heap's at first use, and constant from then on. */
const TableAmRoutine *
aiostream_aioheap_routine(void)
{
	static TableAmRoutine routine;

	if (routine.type != T_TableAmRoutine)
	{
		routine = *GetHeapamTableAmRoutine();

		routine.scan_begin = aiostream_heapscan_begin;
		routine.scan_end = aiostream_heapscan_end;
		routine.scan_rescan = aiostream_heapscan_rescan;
		routine.scan_getnextslot = aiostream_heapscan_getnextslot;
		routine.scan_analyze_next_block = aiostream_heapscan_analyze_next_block;
		routine.index_build_range_scan = aiostream_index_build_range_scan;
		routine.index_validate_scan = aiostream_index_validate_scan;
		routine.index_fetch_tuple = aiostream_index_fetch_tuple;
		routine.relation_copy_for_cluster = aiostream_copy_for_cluster;
		routine.relation_vacuum = aiostream_vacuum_followed;
		routine.relation_toast_am = toast_am;
	}
	Assert(routine.type == T_TableAmRoutine);
	return &routine;
}

Datum
aiostream_aioheap_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(aiostream_aioheap_routine());
}
