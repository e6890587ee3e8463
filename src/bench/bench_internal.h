/*
 * bench_internal.h
 *		What the benchmark functions share: evicting, measuring CPU time.
 */
#ifndef AIOSTREAM_BENCH_INTERNAL_H
#define AIOSTREAM_BENCH_INTERNAL_H

#include "postgres.h"

#include "portability/instr_time.h"
#include "utils/rel.h"

/* more of our background workers than there can be */
#define AIOSTREAM_METER_PIDS 64

/*
 * Measures the wall clock and CPU time (user and system) that work takes: this process's and
 * that of aiostream's background workers, which serve all sessions, so that the
 * figure is exact only on an otherwise quiet server.
 */
typedef struct AiostreamMeter
{
	int			npids;
	int			pids[AIOSTREAM_METER_PIDS];
	double		cpu_before[AIOSTREAM_METER_PIDS];	/* seconds */
	bool		parallel;
	double		own_before;
	double		ended_before;
	instr_time	start;
	double		seconds;		/* results */
	double		cpu_s;
} AiostreamMeter;

/*
 * parallel: also count processes of the server that end in between, which is what
 * parallel workers do.
 */
extern void aiostream_meter_start(AiostreamMeter *meter, bool parallel);
extern void aiostream_meter_stop(AiostreamMeter *meter);

/* ERROR 42501 unless the current user owns the relation */
extern void aiostream_bench_check_owner(Oid relid);

/*
 * Evict one relation with its indexes and its TOAST table; all leaf partitions
 * of a partitioned one, each of which the user must own.  Takes and keeps
 * AccessShareLock.  Returns the number of pages dropped from shared buffers and
 * says so (NOTICE) when some could not be.
 */
extern int64 aiostream_bench_evict(Oid relid);

/* The same for the storage of an open relation alone */
extern int64 aiostream_bench_evict_storage(Relation rel);

#endif							/* AIOSTREAM_BENCH_INTERNAL_H */
