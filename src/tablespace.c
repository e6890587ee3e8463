/*
 * tablespace.c
 *		What tablespaces say about their storage.
 */
#include "postgres.h"

#include "guc.h"
#include "storage/bufmgr.h"
#include "utils/spccache.h"

/*
 * Core gives its own setting for a tablespace without the option, and there is no
 * other way to ask for the option that is as cheap.  So ask twice, the second time
 * with a setting that no tablespace can have; nothing is loaded then, as it
 * is in core's cache from the first time, so nothing can be raised.
 */
int
aiostream_concurrency_in(Oid tablespace)
{
	int			core = effective_io_concurrency;
	int			set;

	(void) get_tablespace_io_concurrency(tablespace);
	effective_io_concurrency = -1;
	set = get_tablespace_io_concurrency(tablespace);
	effective_io_concurrency = core;
	return set < 0 ? aiostream_effective_io_concurrency : set;
}
