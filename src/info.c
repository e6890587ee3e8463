/*
 * info.c
 *		aiostream_info(): facts about this server, one per row; and
 *		aiostream_ios: the reads that are in flight now.
 */
#include "postgres.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "buffer/buffer.h"
#include "catalog/pg_authid.h"
#include "engine/engine.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guc.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(aiostream_info);
PG_FUNCTION_INFO_V1(aiostream_io_status);

/* version of the library; the SQL objects have the extension's */
#define AIOSTREAM_VERSION "1.0"

/* Linux 6.5; in the headers of newer systems only */
#define SYS_CACHESTAT_NR 451

static void
add_fact(ReturnSetInfo *rsinfo, const char *name, const char *value,
		 const char *detail)
{
	Datum		values[3] = {0};
	bool		nulls[3];

	nulls[0] = false;
	nulls[1] = value == NULL;
	nulls[2] = detail == NULL;
	values[0] = CStringGetTextDatum(name);
	if (value != NULL)
		values[1] = CStringGetTextDatum(value);
	if (detail != NULL)
		values[2] = CStringGetTextDatum(detail);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
add_setting(ReturnSetInfo *rsinfo, const char *fact, const char *setting)
{
	add_fact(rsinfo, fact, GetConfigOptionByName(setting, NULL, false),
			 psprintf("setting %s", setting));
}

/* First line of a file under /proc, or NULL */
static char *
read_proc_line(const char *path)
{
	FILE	   *file = AllocateFile(path, "r");
	char		line[128];
	char	   *result = NULL;

	if (file == NULL)
		return NULL;
	if (fgets(line, sizeof(line), file) != NULL)
	{
		line[strcspn(line, "\n")] = '\0';
		result = pstrdup(line);
	}
	FreeFile(file);
	return result;
}

static char *
limit_text(rlim_t limit, rlim_t unit, const char *unit_name)
{
	if (limit == RLIM_INFINITY)
		return pstrdup("unlimited");
	return psprintf(UINT64_FORMAT "%s", (uint64) (limit / unit), unit_name);
}

static void
add_limit(ReturnSetInfo *rsinfo, const char *name, int resource, rlim_t unit,
		  const char *unit_name, const char *what)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) != 0)
		return;
	add_fact(rsinfo, name, limit_text(limit.rlim_cur, unit, unit_name),
			 psprintf("%s; hard limit %s", what,
					  limit_text(limit.rlim_max, unit, unit_name)));
}

static const char *
io_uring_disabled_detail(const char *value)
{
	if (value == NULL)
		return "the kernel has no such setting";
	switch (value[0])
	{
		case '0':
			return "allowed for all processes";
		case '1':
			return "allowed for privileged processes and kernel.io_uring_group only";
		default:
			return "forbidden for all processes";
	}
}

static void
add_method_facts(ReturnSetInfo *rsinfo)
{
	add_fact(rsinfo, "io_method", aiostream_method_name(aiostream_engine_method()),
			 aiostream_engine_method_reason());
	add_setting(rsinfo, "io_method_setting", "aiostream.io_method");
	add_fact(rsinfo, "async_reads",
			 aiostream_engine_async_ok(aiostream_engine_method()) ? "on" : "off",
			 "whether reads can be left in flight with this method now");
}

static void
add_kernel_facts(ReturnSetInfo *rsinfo)
{
	struct utsname uts;
	char	   *line;
	bool		has_cachestat;

	if (uname(&uts) == 0)
		add_fact(rsinfo, "kernel", psprintf("%s %s", uts.sysname, uts.release),
				 uts.machine);

	line = read_proc_line("/proc/sys/kernel/io_uring_disabled");
	add_fact(rsinfo, "io_uring_disabled", line, io_uring_disabled_detail(line));

	/* with a bad descriptor: EBADF if the call exists and is allowed */
	has_cachestat = syscall(SYS_CACHESTAT_NR, -1, NULL, NULL, 0) < 0 && errno == EBADF;
	add_fact(rsinfo, "cachestat", has_cachestat ? "available" : "not available",
			 "how aiostream.direct_io = auto asks what the kernel has cached");

	add_limit(rsinfo, "memlock_limit", RLIMIT_MEMLOCK, 1024, "kB",
			  "bounds io_uring rings on newer kernels");
	add_limit(rsinfo, "nofile_limit", RLIMIT_NOFILE, 1, "",
			  "open files of one process");
}

static void
add_process_facts(ReturnSetInfo *rsinfo)
{
	int			pid = 0;
	bool		running = aiostream_engine_reaper_running(&pid);

	add_fact(rsinfo, "reaper_pid", running ? psprintf("%d", pid) : NULL,
			 running ? "handles completions whose owners are busy elsewhere"
			 : "not running: reads are executed synchronously");
	add_fact(rsinfo, "io_workers_running",
			 psprintf("%d", aiostream_engine_nworkers()),
			 aiostream_engine_workers_wanted() ? "I/O workers are wanted"
			 : "I/O workers are not wanted with this method");
	add_setting(rsinfo, "io_workers", "aiostream.io_workers");
	add_setting(rsinfo, "max_worker_processes", "max_worker_processes");
}

static void
add_size_facts(ReturnSetInfo *rsinfo)
{
	bool		aligned = aiostream_buffers_aligned();

	add_setting(rsinfo, "shared_buffers", "shared_buffers");
	add_fact(rsinfo, "buffer_alignment",
			 psprintf("%zu", aiostream_buffers_alignment()),
			 "alignment of shared buffers in memory, in bytes");
	add_fact(rsinfo, "direct_path", aligned ? "zero copy" : "bounce buffers",
			 aligned ? "direct reads go straight into shared buffers"
			 : "direct reads are copied from aligned memory into shared buffers");
	add_setting(rsinfo, "direct_io", "aiostream.direct_io");
	add_fact(rsinfo, "io_handles", psprintf("%d", aiostream_engine_nhandles()),
			 "reads that can be in flight in the whole server");
	add_setting(rsinfo, "io_max_concurrency", "aiostream.io_max_concurrency");
	add_setting(rsinfo, "effective_io_concurrency",
				"aiostream.effective_io_concurrency");
	add_setting(rsinfo, "io_combine_limit", "aiostream.io_combine_limit");
	add_fact(rsinfo, "block_size", psprintf("%d", BLCKSZ), NULL);
}

/* aiostream_info() -> setof (name, value, detail) */
Datum
aiostream_info(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	aiostream_require_preload();
	InitMaterializedSRF(fcinfo, 0);

	add_fact(rsinfo, "version", AIOSTREAM_VERSION, "version of the loaded library");
	add_setting(rsinfo, "server_version", "server_version");
	add_method_facts(rsinfo);
	add_kernel_facts(rsinfo);
	add_process_facts(rsinfo);
	add_size_facts(rsinfo);
	return (Datum) 0;
}

/*
 * aiostream_io_status() -> setof (pid, path, offset, length, direct,
 * io_method, state, age).  The path names a relation, so others see it only if
 * they may read all statistics.
 */
Datum
aiostream_io_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		see_all;
	int			i;

	aiostream_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	see_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	for (i = 0; i < aiostream_engine_nhandles(); i++)
	{
		AiostreamIoStatus status;
		Datum		values[8];
		bool		nulls[8] = {0};
		Interval   *age;

		if (!aiostream_engine_status(i, &status))
			continue;

		age = palloc0(sizeof(Interval));
		age->time = status.age_us;
		values[0] = Int32GetDatum(status.pid);
		values[1] = CStringGetTextDatum(status.path);
		nulls[1] = !see_all && status.pid != MyProcPid;
		values[2] = Int64GetDatum(status.offset);
		values[3] = Int64GetDatum(status.length);
		values[4] = BoolGetDatum(status.direct);
		values[5] = CStringGetTextDatum(aiostream_method_name(status.method));
		values[6] = CStringGetTextDatum(status.state);
		values[7] = IntervalPGetDatum(age);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
