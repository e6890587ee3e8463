/*
 * stats.c
 *		Cumulative counters in shared memory, and pg_stat_aiostream.
 *
 * Plain atomic adds: the counters are bumped a few times per request (of up to
 * 1 MB) or once at the end of a stream, never per block or row.  What one
 * completion counts lies in one cache line, the consumers' and the rare
 * counters in another, those of maintenance in a third, so that the kinds of
 * processes do not disturb each other.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "port/atomics.h"
#include "shmem.h"
#include "stats.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(aiostream_stat_counters);
PG_FUNCTION_INFO_V1(aiostream_stat_reset);

#define COUNTERS_PER_LINE	(PG_CACHE_LINE_SIZE / (int) sizeof(pg_atomic_uint64))
/* the counters of the completing side come first in the enum */
#define N_COMPLETION_COUNTERS	((int) AIOSTREAM_COUNT_WAITS)
/* and those of maintenance last */
#define FIRST_MAINTENANCE_COUNTER	((int) AIOSTREAM_COUNT_WRITES)

typedef struct StatsShared
{
	pg_atomic_uint64 value[3 * COUNTERS_PER_LINE];
	pg_atomic_uint64 reset_time;	/* TimestampTz */
} StatsShared;

static StatsShared *stats_shared = NULL;

static pg_atomic_uint64 *
counter_slot(AiostreamCounter counter)
{
	int			slot = (int) counter;

	StaticAssertStmt(N_COMPLETION_COUNTERS <= COUNTERS_PER_LINE,
					 "counters of a completion must fit into one line");
	StaticAssertStmt(FIRST_MAINTENANCE_COUNTER - N_COMPLETION_COUNTERS <= COUNTERS_PER_LINE,
					 "counters of consumers must fit into one line");
	StaticAssertStmt(AIOSTREAM_COUNT_MAX - FIRST_MAINTENANCE_COUNTER <= COUNTERS_PER_LINE,
					 "counters of maintenance must fit into one line");

	Assert(slot >= 0 && slot < AIOSTREAM_COUNT_MAX);
	if (slot >= FIRST_MAINTENANCE_COUNTER)
		slot += 2 * COUNTERS_PER_LINE - FIRST_MAINTENANCE_COUNTER;
	else if (slot >= N_COMPLETION_COUNTERS)
		slot += COUNTERS_PER_LINE - N_COMPLETION_COUNTERS;
	return &stats_shared->value[slot];
}

Size
aiostream_stats_shmem_size(void)
{
	return sizeof(StatsShared);
}

void
aiostream_stats_shmem_init(bool found)
{
	int			i;

	stats_shared = ShmemInitStruct("aiostream statistics",
								   aiostream_stats_shmem_size(), &found);
	if (found)
		return;

	for (i = 0; i < (int) lengthof(stats_shared->value); i++)
		pg_atomic_init_u64(&stats_shared->value[i], 0);
	pg_atomic_init_u64(&stats_shared->reset_time, (uint64) GetCurrentTimestamp());
}

void
aiostream_count(AiostreamCounter counter, uint64 n)
{
	if (stats_shared != NULL && n > 0)
		pg_atomic_fetch_add_u64(counter_slot(counter), (int64) n);
}

uint64
aiostream_counter(AiostreamCounter counter)
{
	if (stats_shared == NULL)
		return 0;
	return pg_atomic_read_u64(counter_slot(counter));
}

/*
 * aiostream_stat_counters() -> one row: the counters in the enum's order, then
 * the time of the last reset.  The counters are read one after the other, not as
 * of one instant.
 */
Datum
aiostream_stat_counters(PG_FUNCTION_ARGS)
{
	Datum		values[AIOSTREAM_COUNT_MAX + 1];
	bool		nulls[AIOSTREAM_COUNT_MAX + 1] = {0};
	TupleDesc	tupdesc;
	int			i;

	aiostream_require_preload();

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (tupdesc->natts != AIOSTREAM_COUNT_MAX + 1)
		elog(ERROR, "unexpected number of result columns");

	for (i = 0; i < AIOSTREAM_COUNT_MAX; i++)
	{
		uint64		count = aiostream_counter((AiostreamCounter) i);

		if (i == AIOSTREAM_COUNT_WAIT_US)
			values[i] = Float8GetDatum((double) count / 1000.0);
		else
			values[i] = Int64GetDatum((int64) count);
	}
	values[i] = TimestampTzGetDatum((TimestampTz)
									pg_atomic_read_u64(&stats_shared->reset_time));

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}

/* aiostream_stat_reset(): sets all counters to zero. */
Datum
aiostream_stat_reset(PG_FUNCTION_ARGS)
{
	int			i;

	aiostream_require_preload();

	for (i = 0; i < AIOSTREAM_COUNT_MAX; i++)
		pg_atomic_exchange_u64(counter_slot((AiostreamCounter) i), 0);
	pg_atomic_exchange_u64(&stats_shared->reset_time, (uint64) GetCurrentTimestamp());
	PG_RETURN_VOID();
}
