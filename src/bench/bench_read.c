/*
 * bench_read.c
 *		aiostream_bench_read(): reads blocks of a relation cold, in a pattern,
 *		as PostgreSQL does and through aiostream.
 *
 * Pages are pinned and let go of; nobody looks at rows.  What is measured is
 * therefore the way of a page into shared buffers and nothing else.  Both
 * contenders read the same blocks in the same order, each after the relation
 * has been evicted, and both through a buffer ring.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "bench/bench_internal.h"
#include "bench/block_pattern.h"
#include "buffer/buffer.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guc.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "stream/stream.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(aiostream_bench_read);

/* progress is reported for single runs over more than this */
#define PROGRESS_BLOCKS ((int64) (256 * (1024 * 1024 / BLCKSZ)))
#define BLOCK_KB	(BLCKSZ / 1024)
/* how long to wait for I/O workers that are not running yet */
#define WORKER_START_MS 5000
#define MAX_RUNS	1000

/* The arguments, validated */
typedef struct ReadBench
{
	AiostreamPattern pattern;
	const char *pattern_name;
	bool		plain_only;
	AiostreamStreamOptions options; /* all fields set */
	double		fraction;
	int64		max_blocks;
	int			runs;
} ReadBench;

typedef struct ReadResult
{
	AiostreamMeter meter;
	uint64		requests;
} ReadResult;

typedef struct Cursor
{
	const AiostreamBlockList *list;
	BlockNumber next;
} Cursor;

/* ---- arguments ---- */

static void bad_argument(const char *what, const char *value, const char *hint) pg_attribute_noreturn();

static void
bad_argument(const char *what, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\": \"%s\"", what, value),
			 errhint("%s", hint)));
}

static void
parse_method(ReadBench *bench, const char *name)
{
	bench->options.method = aiostream_engine_method();
	if (name == NULL)
		return;

	if (strcmp(name, "plain") == 0)
		bench->plain_only = true;
	else if (strcmp(name, "io_uring") == 0)
		bench->options.method = AIOSTREAM_METHOD_IO_URING;
	else if (strcmp(name, "worker") == 0)
		bench->options.method = AIOSTREAM_METHOD_WORKER;
	else if (strcmp(name, "sync") == 0)
		bench->options.method = AIOSTREAM_METHOD_SYNC;
	else
		bad_argument("io_method", name,
					 "Values are \"io_uring\", \"worker\", \"sync\", \"plain\", and NULL for the server's method.");
}

static void
parse_direct(ReadBench *bench, const char *name)
{
	bench->options.direct = aiostream_direct_io;
	if (name == NULL)
		return;

	if (strcmp(name, "auto") == 0)
		bench->options.direct = AIOSTREAM_DIRECT_AUTO;
	else if (strcmp(name, "on") == 0)
		bench->options.direct = AIOSTREAM_DIRECT_ON;
	else if (strcmp(name, "off") == 0)
		bench->options.direct = AIOSTREAM_DIRECT_OFF;
	else
		bad_argument("direct_io", name,
					 "Values are \"auto\", \"on\", \"off\", and NULL for the setting aiostream.direct_io.");
}

static const char *
direct_name(int direct)
{
	switch ((AiostreamDirect) direct)
	{
		case AIOSTREAM_DIRECT_OFF:
			return "off";
		case AIOSTREAM_DIRECT_ON:
			return "on";
		case AIOSTREAM_DIRECT_AUTO:
			break;
	}
	return "auto";
}

/* An integer argument, or "otherwise" if it is NULL */
static int64
int_arg(FunctionCallInfo fcinfo, int argno, const char *name, bool is_int8,
		int64 otherwise, int64 min, int64 max)
{
	int64		value;

	if (PG_ARGISNULL(argno))
		return otherwise;
	value = is_int8 ? PG_GETARG_INT64(argno) : PG_GETARG_INT32(argno);
	if (value < min || value > max)
		bad_argument(name, psprintf(INT64_FORMAT, value),
					 psprintf("It must be between " INT64_FORMAT " and " INT64_FORMAT ".",
							  min, max));
	return value;
}

static char *
text_arg(FunctionCallInfo fcinfo, int argno)
{
	return PG_ARGISNULL(argno) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(argno));
}

static void
parse_arguments(FunctionCallInfo fcinfo, ReadBench *bench)
{
	int64		combine_kb;

	memset(bench, 0, sizeof(*bench));
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation and pattern must not be null")));

	bench->pattern_name = text_arg(fcinfo, 1);
	bench->pattern = aiostream_pattern_by_name(bench->pattern_name);
	parse_method(bench, text_arg(fcinfo, 2));
	parse_direct(bench, text_arg(fcinfo, 3));
	bench->options.concurrency =
		(int) int_arg(fcinfo, 4, "concurrency", false,
					  aiostream_effective_io_concurrency,
					  1, AIOSTREAM_MAX_CONCURRENCY);
	combine_kb = int_arg(fcinfo, 5, "combine_kb", false,
						 aiostream_io_combine_limit * BLOCK_KB,
						 BLOCK_KB, AIOSTREAM_MAX_COMBINE * BLOCK_KB);
	if (combine_kb % BLOCK_KB != 0)
		bad_argument("combine_kb", psprintf(INT64_FORMAT, combine_kb),
					 psprintf("It must be a multiple of %d.", BLOCK_KB));
	bench->options.combine = (int) (combine_kb / BLOCK_KB);
	bench->options.full_distance = true;

	bench->fraction = PG_ARGISNULL(6) ? 0.05 : PG_GETARG_FLOAT8(6);
	if (!(bench->fraction > 0 && bench->fraction <= 1))
		bad_argument("fraction", psprintf("%g", bench->fraction),
					 "It must be greater than 0 and at most 1.");
	bench->max_blocks = int_arg(fcinfo, 7, "max_blocks", true, MaxBlockNumber,
								1, MaxBlockNumber);
	bench->runs = (int) int_arg(fcinfo, 8, "runs", false, 1, 1, MAX_RUNS);
}

static void
check_relation(Relation rel)
{
	char		relkind = rel->rd_rel->relkind;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW &&
		relkind != RELKIND_TOASTVALUE && relkind != RELKIND_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot read relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind),
				 relkind == RELKIND_PARTITIONED_TABLE || relkind == RELKIND_PARTITIONED_INDEX
				 ? errhint("Name one of its partitions.") : 0));

	if (!aiostream_target_supported(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read relation \"%s\" asynchronously",
						RelationGetRelationName(rel)),
				 errhint("Temporary relations are not kept in shared buffers; use a permanent or unlogged one.")));
}

/* ---- the two contenders ---- */

static void
read_plain(Relation rel, const AiostreamBlockList *list, ReadResult *result)
{
	BufferAccessStrategy ring = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber i;

	aiostream_meter_start(&result->meter, false);
	for (i = 0; i < list->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ReleaseBuffer(ReadBufferExtended(rel, MAIN_FORKNUM,
										 aiostream_block_list_get(list, i),
										 RBM_NORMAL, ring));
	}
	aiostream_meter_stop(&result->meter);
	result->requests = list->count;
	FreeAccessStrategy(ring);
}

static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	Cursor	   *cursor = callback_private;

	(void) stream;
	(void) per_block;
	if (cursor->next >= cursor->list->count)
		return InvalidBlockNumber;
	return aiostream_block_list_get(cursor->list, cursor->next++);
}

/* Core has to read it: look-ahead could not */
static Buffer
read_through_core(Relation rel, AiostreamStream *stream, BlockNumber block,
				  BufferAccessStrategy ring)
{
	int64		reads = pgBufferUsage.shared_blks_read;
	Buffer		buffer;

	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, ring);
	aiostream_stream_core_read(stream, pgBufferUsage.shared_blks_read == reads);
	return buffer;
}

static void
read_stream(Relation rel, const AiostreamBlockList *list,
			const AiostreamStreamOptions *options, ReadResult *result)
{
	BufferAccessStrategy ring = aiostream_stream_ring();
	Cursor		cursor = {list, 0};
	AiostreamStreamStats stats;
	AiostreamStream *stream;
	BlockNumber block;
	BlockNumber handed_out = 0;
	Buffer		buffer;

	aiostream_meter_start(&result->meter, false);
	stream = aiostream_stream_begin(rel, MAIN_FORKNUM, list->nblocks, ring,
									next_block, &cursor, 0, options);
	while (aiostream_stream_next(stream, &block, &buffer, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		if (block != aiostream_block_list_get(list, handed_out++))
			elog(ERROR, "stream handed out block %u out of order", block);
		if (!BufferIsValid(buffer))
			buffer = read_through_core(rel, stream, block, ring);
		ReleaseBuffer(buffer);
	}
	aiostream_stream_get_stats(stream, &stats);
	aiostream_stream_end(stream);
	aiostream_meter_stop(&result->meter);

	if (handed_out != list->count)
		elog(ERROR, "stream handed out %u of %u blocks", handed_out, list->count);
	result->requests = stats.ios + stats.core_reads;
	if (ring != NULL)
		FreeAccessStrategy(ring);
}

/*
 * I/O workers are started when they are first missed, unless they are the server's
 * method: miss them, then wait for them.
 */
static void
start_workers(Relation rel, const AiostreamStreamOptions *options)
{
	AiostreamBlockList *one;
	ReadResult	ignored;
	int			waited;

	one = aiostream_block_list(AIOSTREAM_PATTERN_SEQUENTIAL,
							   RelationGetNumberOfBlocks(rel), 1, 1);
	aiostream_bench_evict_storage(rel);
	read_stream(rel, one, options, &ignored);

	for (waited = 0; waited < WORKER_START_MS; waited += 10)
	{
		if (aiostream_engine_async_ok(AIOSTREAM_METHOD_WORKER))
			break;
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_LATCH_SET | WL_EXIT_ON_PM_DEATH,
						 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

static void
check_usable(Relation rel, const ReadBench *bench)
{
	AiostreamMethodId method = (AiostreamMethodId) bench->options.method;

	if (bench->plain_only)
		return;

	if (!aiostream_stream_usable(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("aiostream is switched off in this session"),
				 errhint("Set aiostream.enable to on.")));

	if (method == AIOSTREAM_METHOD_SYNC || aiostream_engine_async_ok(method))
		return;
	if (method == AIOSTREAM_METHOD_WORKER && RelationGetNumberOfBlocks(rel) > 0)
		start_workers(rel, &bench->options);
	if (!aiostream_engine_async_ok(method))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("I/O method \"%s\" is not available in this server now",
						aiostream_method_name(method)),
				 errdetail("The method in use is \"%s\": %s.",
						   aiostream_method_name(aiostream_engine_method()),
						   aiostream_engine_method_reason()),
				 errhint("See aiostream_info() for limits and running processes.")));
}

/* ---- rows ---- */

static void
put_row(ReturnSetInfo *rsinfo, const ReadBench *bench, int run, bool plain,
		const AiostreamBlockList *list, const ReadResult *result)
{
	Datum		values[12] = {0};
	bool		nulls[12] = {0};
	double		seconds = result->meter.seconds;
	double		megabytes = (double) list->count * BLCKSZ / (1024.0 * 1024.0);

	values[0] = Int32GetDatum(run);
	values[1] = CStringGetTextDatum(bench->pattern_name);
	values[2] = CStringGetTextDatum(plain ? "plain" : "aiostream");
	nulls[3] = nulls[4] = nulls[5] = nulls[6] = plain;
	if (!plain)
	{
		values[3] = CStringGetTextDatum(aiostream_method_name((AiostreamMethodId)
															  bench->options.method));
		values[4] = CStringGetTextDatum(direct_name(bench->options.direct));
		values[5] = Int32GetDatum(bench->options.concurrency);
		values[6] = Int32GetDatum(bench->options.combine * BLOCK_KB);
	}
	values[7] = Int64GetDatum((int64) list->count);
	values[8] = Float8GetDatum(seconds);
	nulls[9] = nulls[10] = seconds <= 0;
	if (seconds > 0)
	{
		values[9] = Float8GetDatum(rint(megabytes / seconds * 1000) / 1000);
		values[10] = Float8GetDatum(rint((double) result->requests / seconds));
	}
	values[11] = Float8GetDatum(result->meter.cpu_s);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
run_once(ReturnSetInfo *rsinfo, Relation rel, const ReadBench *bench, int run)
{
	AiostreamBlockList *list;
	ReadResult	plain;
	ReadResult	stream;
	bool		progress;

	list = aiostream_block_list(bench->pattern, RelationGetNumberOfBlocks(rel),
								bench->fraction, bench->max_blocks);
	progress = bench->runs > 1 || (int64) list->count >= PROGRESS_BLOCKS;

	aiostream_bench_evict_storage(rel);
	read_plain(rel, list, &plain);
	put_row(rsinfo, bench, run, true, list, &plain);
	if (progress)
		ereport(NOTICE,
				(errcode(ERRCODE_SUCCESSFUL_COMPLETION),
				 errmsg("run %d of %d: plain %.3f s", run, bench->runs,
						plain.meter.seconds)));
	if (bench->plain_only)
		return;

	aiostream_bench_evict_storage(rel);
	read_stream(rel, list, &bench->options, &stream);
	put_row(rsinfo, bench, run, false, list, &stream);
	if (progress)
		ereport(NOTICE,
				(errcode(ERRCODE_SUCCESSFUL_COMPLETION),
				 errmsg("run %d of %d: aiostream %.3f s", run, bench->runs,
						stream.meter.seconds)));
}

/*
 * aiostream_bench_read(rel, pattern, io_method, direct_io, concurrency,
 * combine_kb, fraction, max_blocks, runs) -> one row per run and contender
 */
Datum
aiostream_bench_read(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ReadBench	bench;
	Relation	rel;
	int			run;

	aiostream_require_preload();
	parse_arguments(fcinfo, &bench);
	aiostream_bench_check_owner(PG_GETARG_OID(0));

	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	check_relation(rel);
	check_usable(rel, &bench);
	InitMaterializedSRF(fcinfo, 0);

	for (run = 1; run <= bench.runs; run++)
		run_once(rsinfo, rel, &bench, run);

	relation_close(rel, NoLock);
	return (Datum) 0;
}
