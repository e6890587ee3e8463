/*
 * stats.h
 *		Cumulative counters of the whole server, in shared memory.
 */
#ifndef AIOSTREAM_STATS_H
#define AIOSTREAM_STATS_H

#include "postgres.h"

/* Order is that of the names in stats.c and of pg_stat_aiostream's columns. */
typedef enum AiostreamCounter
{
	AIOSTREAM_COUNT_READS,		/* requests completed */
	AIOSTREAM_COUNT_READ_BYTES,
	AIOSTREAM_COUNT_READS_DIRECT,
	AIOSTREAM_COUNT_READS_BUFFERED,
	AIOSTREAM_COUNT_READS_IO_URING,
	AIOSTREAM_COUNT_READS_WORKER,
	AIOSTREAM_COUNT_READS_SYNC,
	AIOSTREAM_COUNT_COMBINED_1, /* requests of 1 block */
	AIOSTREAM_COUNT_COMBINED_2_7,
	AIOSTREAM_COUNT_COMBINED_8_15,
	AIOSTREAM_COUNT_COMBINED_16_31,
	AIOSTREAM_COUNT_COMBINED_32_63,
	AIOSTREAM_COUNT_COMBINED_64_UP,
	AIOSTREAM_COUNT_BOUNCED,	/* requests through bounce buffers */
	AIOSTREAM_COUNT_WAITS,		/* consumers that had to wait */
	AIOSTREAM_COUNT_WAIT_US,
	AIOSTREAM_COUNT_HITS,		/* blocks found in shared buffers */
	AIOSTREAM_COUNT_CORE_READS, /* blocks left to core */
	AIOSTREAM_COUNT_REAPED,		/* completions handled for others */
	AIOSTREAM_COUNT_SHORT_READS,
	AIOSTREAM_COUNT_FAILED_READS,	/* error or bad page: core reads again */
	AIOSTREAM_COUNT_STALLS,		/* look-ahead paused: no handle or share */
	AIOSTREAM_COUNT_FALLBACK_RING,	/* a process could not make its ring */
	AIOSTREAM_COUNT_FALLBACK_NO_REAPER,
	AIOSTREAM_COUNT_FALLBACK_NO_WORKER,
	AIOSTREAM_COUNT_FALLBACK_DIRECT_OPEN,	/* O_DIRECT refused by the file
											 * system */
	AIOSTREAM_COUNT_FALLBACK_OPEN,	/* a segment could not be opened */
	AIOSTREAM_COUNT_FALLBACK_NO_FOLLOWER,	/* a vacuum without follower: no
											 * worker slot */
	AIOSTREAM_COUNT_WRITES,		/* requests of the write-behind completed */
	AIOSTREAM_COUNT_WRITE_BYTES,
	AIOSTREAM_COUNT_WRITE_SKIPPED,	/* pages left to core: locked, ... */
	AIOSTREAM_COUNT_FAILED_WRITES,	/* pages left dirty by an error */
	AIOSTREAM_COUNT_WAL_FLUSHES,	/* made for the write-behind */
	AIOSTREAM_COUNT_MAX
} AiostreamCounter;

extern Size aiostream_stats_shmem_size(void);
extern void aiostream_stats_shmem_init(bool found);

/* Add to a counter: one atomic add; no-op without shared memory. */
extern void aiostream_count(AiostreamCounter counter, uint64 n);
extern uint64 aiostream_counter(AiostreamCounter counter);

#endif							/* AIOSTREAM_STATS_H */
