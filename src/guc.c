/*
 * guc.c
 *		aiostream's settings, their defaults and their documentation.
 *
 * Who may set what: tuning is per session, worker counts follow a reload,
 * what sizes shared memory is fixed at server start, and what exists for
 * testing only is the superuser's.
 */
#include "postgres.h"

#include "buffer/buffer.h"
#include "engine/engine.h"
#include "guc.h"
#include "miscadmin.h"
#include "utils/guc.h"

bool		aiostream_enable = true;
bool		aiostream_enable_seqscan = true;
bool		aiostream_enable_bitmapscan = true;
bool		aiostream_enable_indexscan = true;
bool		aiostream_enable_indexonlyscan = true;
bool		aiostream_enable_vacuum = true;
bool		aiostream_write_behind = true;
int			aiostream_debug_force_nodes = AIOSTREAM_FORCE_OFF;
int			aiostream_direct_io = AIOSTREAM_DIRECT_AUTO;
int			aiostream_io_combine_limit = 64;
int			aiostream_effective_io_concurrency = 16;
int			aiostream_maintenance_io_concurrency = 16;
int			aiostream_io_method = AIOSTREAM_METHOD_AUTO;
int			aiostream_io_max_concurrency = 64;
int			aiostream_io_workers = 3;
bool		aiostream_align_buffers = true;

static const struct config_enum_entry direct_io_options[] = {
	{"auto", AIOSTREAM_DIRECT_AUTO, false},
	{"on", AIOSTREAM_DIRECT_ON, false},
	{"off", AIOSTREAM_DIRECT_OFF, false},
	{"true", AIOSTREAM_DIRECT_ON, true},
	{"false", AIOSTREAM_DIRECT_OFF, true},
	{"yes", AIOSTREAM_DIRECT_ON, true},
	{"no", AIOSTREAM_DIRECT_OFF, true},
	{"1", AIOSTREAM_DIRECT_ON, true},
	{"0", AIOSTREAM_DIRECT_OFF, true},
	{NULL, 0, false}
};

static const struct config_enum_entry force_nodes_options[] = {
	{"off", AIOSTREAM_FORCE_OFF, false},
	{"on", AIOSTREAM_FORCE_ON, false},
	{"replace", AIOSTREAM_FORCE_REPLACE, false},
	{"true", AIOSTREAM_FORCE_ON, true},
	{"false", AIOSTREAM_FORCE_OFF, true},
	{"yes", AIOSTREAM_FORCE_ON, true},
	{"no", AIOSTREAM_FORCE_OFF, true},
	{"1", AIOSTREAM_FORCE_ON, true},
	{"0", AIOSTREAM_FORCE_OFF, true},
	{NULL, 0, false}
};

static const struct config_enum_entry io_method_options[] = {
	{"auto", AIOSTREAM_METHOD_AUTO, false},
	{"io_uring", AIOSTREAM_METHOD_IO_URING, false},
	{"worker", AIOSTREAM_METHOD_WORKER, false},
	{"sync", AIOSTREAM_METHOD_SYNC, false},
	{NULL, 0, false}
};

static void
define_maintenance_settings(void)
{
	DefineCustomBoolVariable("aiostream.enable_vacuum",
							 "Enables background workers that read ahead of VACUUM.",
							 "Each takes one of max_worker_processes while a vacuum runs.",
							 &aiostream_enable_vacuum,
							 true,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("aiostream.write_behind",
							 "Has pages that VACUUM leaves dirty written by the I/O workers.",
							 "They are written in large pieces, behind a vacuum that has a "
							 "worker reading ahead of it.",
							 &aiostream_write_behind,
							 true,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("aiostream.maintenance_io_concurrency",
							"Sets the number of read requests kept in flight ahead of one "
							"maintenance command.",
							"It is what aiostream.effective_io_concurrency is for scans.",
							&aiostream_maintenance_io_concurrency,
							16, 1, AIOSTREAM_MAX_CONCURRENCY,
							PGC_USERSET, 0,
							NULL, NULL, NULL);
}

static void
define_session_settings(void)
{
	DefineCustomBoolVariable("aiostream.enable",
							 "Enables asynchronous reads in this session.",
							 "When off, every scan takes PostgreSQL's ordinary path.",
							 &aiostream_enable,
							 true,
							 PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("aiostream.enable_seqscan",
							 "Enables the planner's use of AioSeqScan plans.",
							 NULL,
							 &aiostream_enable_seqscan,
							 true,
							 PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("aiostream.enable_bitmapscan",
							 "Enables the planner's use of AioBitmapHeapScan plans.",
							 NULL,
							 &aiostream_enable_bitmapscan,
							 true,
							 PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("aiostream.enable_indexscan",
							 "Enables the planner's use of AioIndexScan plans.",
							 NULL,
							 &aiostream_enable_indexscan,
							 true,
							 PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("aiostream.enable_indexonlyscan",
							 "Enables the planner's use of AioIndexOnlyScan plans.",
							 NULL,
							 &aiostream_enable_indexonlyscan,
							 true,
							 PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomEnumVariable("aiostream.direct_io",
							 "Selects whether tables are read around the kernel's page cache.",
							 "\"auto\" asks the kernel what it has cached: ranges that are mostly "
							 "cached are read through the page cache, all others with O_DIRECT.",
							 &aiostream_direct_io,
							 AIOSTREAM_DIRECT_AUTO, direct_io_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("aiostream.io_combine_limit",
							"Sets the largest size of one read request.",
							"Adjacent blocks are combined up to this size.",
							&aiostream_io_combine_limit,
							64, 1, AIOSTREAM_MAX_COMBINE,
							PGC_USERSET, GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("aiostream.effective_io_concurrency",
							"Sets the number of read requests that one scan keeps in flight.",
							"A scan looks ahead up to this number of requests of "
							"aiostream.io_combine_limit each, and less far while it "
							"does not have to wait.",
							&aiostream_effective_io_concurrency,
							16, 1, AIOSTREAM_MAX_CONCURRENCY,
							PGC_USERSET, 0,
							NULL, NULL, NULL);

	define_maintenance_settings();
}

static void
define_server_settings(void)
{
	DefineCustomIntVariable("aiostream.io_workers",
							"Sets the number of I/O worker processes.",
							"They run when aiostream.io_method is \"worker\", and with "
							"\"io_uring\" as soon as a process could not set up its ring. "
							"Each takes one of max_worker_processes.",
							&aiostream_io_workers,
							3, 1, AIOSTREAM_MAX_WORKERS,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("aiostream.debug_force_nodes",
							 "Makes aiostream's plan nodes look cheapest wherever they are possible.",
							 "\"replace\" puts them where PostgreSQL's own would have been used, at "
							 "the same cost. For testing only.",
							 &aiostream_debug_force_nodes,
							 AIOSTREAM_FORCE_OFF, force_nodes_options,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_EXPLAIN,
							 NULL, NULL, NULL);
}

static void
define_start_settings(void)
{
	DefineCustomEnumVariable("aiostream.io_method",
							 "Selects the method by which asynchronous reads are executed.",
							 "\"auto\" takes io_uring where the kernel allows it, else I/O worker "
							 "processes. The server starts in any case; aiostream_info() "
							 "shows the method in use and why.",
							 &aiostream_io_method,
							 AIOSTREAM_METHOD_AUTO, io_method_options,
							 PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("aiostream.io_max_concurrency",
							"Sets the largest number of read requests that one process "
							"can have in flight.",
							"It bounds aiostream.effective_io_concurrency and sizes shared memory.",
							&aiostream_io_max_concurrency,
							64, 1, AIOSTREAM_MAX_CONCURRENCY,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("aiostream.align_buffers",
							 "Aligns shared buffers so that direct reads need no copy.",
							 "When off, or where the alignment is not possible, direct reads go "
							 "through aligned bounce buffers.",
							 &aiostream_align_buffers,
							 true,
							 PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
}

void
aiostream_guc_init(void)
{
	define_session_settings();
	define_server_settings();

	/*
	 * Core refuses settings of the server's start later on, with FATAL.  The
	 * prefix is then not reserved either: reserving it would drop, with a
	 * WARNING in each session, such settings that postgresql.conf may hold.
	 */
	if (!process_shared_preload_libraries_in_progress)
		return;

	define_start_settings();
	MarkGUCPrefixReserved("aiostream");
}
