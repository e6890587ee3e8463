/*
 * meter.c
 *		Wall clock and CPU time of a benchmark run, over all processes that
 *		work for it.
 *
 * Asynchronous reads move work from the backend to other processes; counting
 * the backend's CPU alone would flatter us.  This process's time comes from
 * getrusage(), that of aiostream's workers from /proc, that of parallel workers from
 * what the postmaster has collected of ended children: they end before the query
 * does.  Where /proc is not readable those parts count as zero.
 */
#include "postgres.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/bench_internal.h"
#include "engine/engine.h"
#include "miscadmin.h"
#include "storage/fd.h"

static double
own_cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/*
 * CPU seconds of a process: 4 fields of /proc/pid/stat in clock ticks, its own
 * user and system time, and those of its children that have ended.
 */
static bool
read_proc_stat(int pid, double *own, double *ended)
{
	char		path[64];
	char		line[1024];
	FILE	   *file;
	char	   *end = NULL;
	unsigned long utime;
	unsigned long stime;
	long		cutime;
	long		cstime;
	double		tick = (double) sysconf(_SC_CLK_TCK);

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return false;
	/* the second field is a name in parentheses that may hold anything */
	if (fgets(line, sizeof(line), file) != NULL)
		end = strrchr(line, ')');
	FreeFile(file);

	if (end == NULL ||
		sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld",
			   &utime, &stime, &cutime, &cstime) != 4)
		return false;
	*own = (double) (utime + stime) / tick;
	*ended = (double) (cutime + cstime) / tick;
	return true;
}

/* CPU seconds of a single-threaded process, in nanoseconds where possible */
static double
process_cpu(int pid)
{
	char		path[64];
	FILE	   *file;
	unsigned long long ns = 0;
	int			n = 0;
	double		own = 0;
	double		ended;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = AllocateFile(path, "r");
	if (file != NULL)
	{
		n = fscanf(file, "%llu", &ns);
		FreeFile(file);
	}
	if (n == 1 && ns > 0)
		return (double) ns / 1e9;

	return read_proc_stat(pid, &own, &ended) ? own : 0;
}

static double
ended_children_cpu(void)
{
	double		own;
	double		ended;

	return read_proc_stat(PostmasterPid, &own, &ended) ? ended : 0;
}

static void
find_our_workers(AiostreamMeter *meter)
{
	int			pid;

	meter->npids = 0;
	if (aiostream_engine_reaper_running(&pid))
		meter->pids[meter->npids++] = pid;
	for (int slot = 0; slot < AIOSTREAM_MAX_WORKERS; slot++)
	{
		pid = aiostream_engine_worker_pid(slot);
		if (pid != 0 && meter->npids < AIOSTREAM_METER_PIDS)
			meter->pids[meter->npids++] = pid;
	}
}

void
aiostream_meter_start(AiostreamMeter *meter, bool parallel)
{
	int			i;

	find_our_workers(meter);
	for (i = 0; i < meter->npids; i++)
		meter->cpu_before[i] = process_cpu(meter->pids[i]);
	meter->parallel = parallel;
	meter->ended_before = parallel ? ended_children_cpu() : 0;
	meter->own_before = own_cpu();
	INSTR_TIME_SET_CURRENT(meter->start);
}

void
aiostream_meter_stop(AiostreamMeter *meter)
{
	instr_time	end;
	int			i;

	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, meter->start);
	meter->seconds = INSTR_TIME_GET_DOUBLE(end);

	meter->cpu_s = own_cpu() - meter->own_before;
	for (i = 0; i < meter->npids; i++)
	{
		/* it has ended if there is less */
		double		more = process_cpu(meter->pids[i]) - meter->cpu_before[i];

		meter->cpu_s += Max(more, 0);
	}
	if (meter->parallel)
		meter->cpu_s += ended_children_cpu() - meter->ended_before;

	/* no more digits than are meant */
	meter->seconds = rint(meter->seconds * 1e6) / 1e6;
	meter->cpu_s = rint(meter->cpu_s * 1e6) / 1e6;
}
