/*
 * bench_query.c
 *		aiostream_bench_query(): runs a query cold on PostgreSQL's plain path and
 *		on aiostream's in turn.
 *
 * The two runs of a round see the same snapshot, so their results must be the same,
 * and each starts with the query's tables evicted.  Who goes first changes from round to
 * round: on many machines the second of two runs is the faster one.
 *
 * Times are those of the executor, without planning, and include making a text of
 * every row for the comparison, in both runs alike.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "bench/bench_internal.h"
#include "bench/query_digest.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "shmem.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(aiostream_bench_query);

#define MAX_RUNS	1000

typedef enum Contender
{
	PLAIN,
	AIOSTREAM,
	NCONTENDERS
} Contender;

static const char *const contender_names[] = {"plain", "aiostream"};

typedef struct Outcome
{
	double		seconds;
	double		cpu_s;
	uint64		rows;
	uint64		digest;
} Outcome;

/* One round, both contenders */
typedef struct Round
{
	Outcome		outcome[NCONTENDERS];
	bool		agree;
} Round;

typedef struct QueryBench
{
	const char *text;
	Query	   *query;			/* copied for each planning */
	List	   *tables;			/* OIDs of what is evicted */
	int			nruns;
	Round	   *rounds;
	MemoryContext run_context;	/* reset after each execution */
} QueryBench;

/* ---- the query ---- */

static void refuse_query(const char *why) pg_attribute_noreturn();

static void
refuse_query(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cannot run this query repeatedly"),
			 errdetail("%s", why),
			 errhint("Give one SELECT, VALUES or WITH query that changes and locks nothing.")));
}

/* Error positions are those in the query given, not in the one that calls us. */
static void
query_error_callback(void *arg)
{
	const char *text = (const char *) arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(text);
	}
}

static Query *
analyze_query(const char *text)
{
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = query_error_callback,
		.arg = unconstify(char *, text),
	};
	List	   *raw;
	List	   *rewritten;
	Query	   *query;

	error_context_stack = &context;
	raw = pg_parse_query(text);

	if (list_length(raw) != 1)
		refuse_query("It is not a single statement.");
	rewritten = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, raw),
												   text, NULL, 0, NULL);
	error_context_stack = context.previous;
	if (list_length(rewritten) != 1)
		refuse_query("Rules make it more than one statement.");

	query = linitial_node(Query, rewritten);
	if (query->commandType != CMD_SELECT || query->utilityStmt != NULL)
		refuse_query("It is not a query that only reads.");
	if (query->hasModifyingCTE)
		refuse_query("It changes data in WITH.");
	if (query->rowMarks != NIL)
		refuse_query("It locks rows.");
	return query;
}

static PlannedStmt *
plan_query(const QueryBench *bench)
{
	/* the planner scribbles on its input */
	return pg_plan_query(copyObject(bench->query), bench->text,
						 CURSOR_OPT_PARALLEL_OK, NULL);
}

/*
 * Which tables to evict: those the plan reads and the user owns.  Catalogs
 * stay, as planning alone would load them again.
 */
static List *
tables_to_evict(const QueryBench *bench)
{
	List	   *tables = NIL;
	List	   *seen = NIL;
	ListCell   *lc;

	foreach(lc, plan_query(bench)->relationOids)
	{
		Oid			relid = lfirst_oid(lc);
		char		relkind = get_rel_relkind(relid);

		if ((relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW) ||
			list_member_oid(seen, relid))
			continue;
		seen = lappend_oid(seen, relid);

		if (relid < FirstNormalObjectId)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("cannot evict system catalog \"%s\": it stays cached",
							get_rel_name(relid))));
		else if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("cannot evict temporary table \"%s\": it stays cached",
							get_rel_name(relid))));
		else if (!pg_class_ownercheck(relid, GetUserId()))
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("cannot evict table \"%s\": it stays cached",
							get_rel_name(relid)),
					 errdetail("Only its owner can evict it.")));
		else
			tables = lappend_oid(tables, relid);
	}
	return tables;
}

/* ---- one execution ---- */

static void
set_for_run(const char *name, const char *value)
{
	(void) set_config_option(name, value,
							 superuser() ? PGC_SUSET : PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static void
execute_plan(const QueryBench *bench, PlannedStmt *plan, Outcome *outcome)
{
	AiostreamDigest *digest = aiostream_digest_create();
	AiostreamMeter meter;
	QueryDesc  *desc;

	desc = CreateQueryDesc(plan, bench->text, GetActiveSnapshot(), InvalidSnapshot,
						   &digest->receiver, NULL, NULL, 0);
	aiostream_meter_start(&meter, plan->parallelModeNeeded);
	ExecutorStart(desc, 0);
	ExecutorRun(desc, ForwardScanDirection, 0, true);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	aiostream_meter_stop(&meter);
	FreeQueryDesc(desc);

	outcome->seconds = meter.seconds;
	outcome->cpu_s = meter.cpu_s;
	outcome->rows = digest->rows;
	outcome->digest = digest->digest;
}

static void
run_contender(const QueryBench *bench, Contender contender, Outcome *outcome)
{
	MemoryContext old_context;
	ListCell   *lc;
	int			nest_level;

	foreach(lc, bench->tables)
		(void) aiostream_bench_evict(lfirst_oid(lc));

	old_context = MemoryContextSwitchTo(bench->run_context);
	nest_level = NewGUCNestLevel();
	set_for_run("aiostream.enable", contender == AIOSTREAM ? "on" : "off");
	/* functions in the query shall not change anything either */
	set_for_run("transaction_read_only", "on");
	execute_plan(bench, plan_query(bench), outcome);
	AtEOXact_GUC(true, nest_level);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(bench->run_context);
}

static void
run_round(const QueryBench *bench, int number)
{
	Round	   *round = &bench->rounds[number];
	Contender	first = number % 2 == 0 ? PLAIN : AIOSTREAM;
	Outcome    *plain = &round->outcome[PLAIN];
	Outcome    *stream = &round->outcome[AIOSTREAM];

	run_contender(bench, first, &round->outcome[first]);
	run_contender(bench, first == PLAIN ? AIOSTREAM : PLAIN,
				  &round->outcome[first == PLAIN ? AIOSTREAM : PLAIN]);
	round->agree = plain->rows == stream->rows && plain->digest == stream->digest;

	ereport(NOTICE,
			(errcode(ERRCODE_SUCCESSFUL_COMPLETION),
			 errmsg("run %d of %d: plain %.3f s, aiostream %.3f s",
					number + 1, bench->nruns, plain->seconds, stream->seconds)));
	if (!round->agree)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("results of run %d differ", number + 1),
				 errdetail("They differ by right if the query's functions are volatile, or if it sums floating-point numbers in no fixed order.")));
}

/* ---- rows ---- */

static int
compare_doubles(const void *a, const void *b)
{
	double		da = *(const double *) a;
	double		db = *(const double *) b;

	return (da > db) - (da < db);
}

static double
median(double *values, int n)
{
	qsort(values, n, sizeof(double), compare_doubles);
	return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double
plain_ratio(const Round *round, Contender contender)
{
	double		seconds = round->outcome[contender].seconds;

	return seconds > 0 ? round->outcome[PLAIN].seconds / seconds : 0;
}

static void
put_row(ReturnSetInfo *rsinfo, int run, Contender contender,
		const Outcome *outcome, double ratio, bool agree)
{
	Datum		values[7] = {0};
	bool		nulls[7] = {0};

	values[0] = Int32GetDatum(run);
	nulls[0] = run == 0;
	values[1] = CStringGetTextDatum(contender_names[contender]);
	values[2] = Float8GetDatum(outcome->seconds);
	values[3] = Float8GetDatum(outcome->cpu_s);
	values[4] = Int64GetDatum((int64) outcome->rows);
	values[5] = Float8GetDatum(rint(ratio * 1000) / 1000);
	values[6] = BoolGetDatum(agree);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The row with run NULL: medians over all runs; the ratio is the runs' median */
static void
put_median_row(ReturnSetInfo *rsinfo, const QueryBench *bench, Contender contender)
{
	double	   *seconds = palloc(sizeof(double) * bench->nruns);
	double	   *cpu_s = palloc(sizeof(double) * bench->nruns);
	double	   *ratios = palloc(sizeof(double) * bench->nruns);
	Outcome		outcome = bench->rounds[bench->nruns - 1].outcome[contender];
	bool		agree = true;
	int			i;

	for (i = 0; i < bench->nruns; i++)
	{
		const Round *round = &bench->rounds[i];

		seconds[i] = round->outcome[contender].seconds;
		cpu_s[i] = round->outcome[contender].cpu_s;
		ratios[i] = plain_ratio(round, contender);
		agree = agree && round->agree;
	}
	outcome.seconds = median(seconds, bench->nruns);
	outcome.cpu_s = median(cpu_s, bench->nruns);
	put_row(rsinfo, 0, contender, &outcome, median(ratios, bench->nruns), agree);
}

/*
 * aiostream_bench_query(query, runs) -> a row per run and contender, then the
 * medians, with run NULL
 */
Datum
aiostream_bench_query(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	QueryBench	bench = {0};
	int			contender;
	int			i;

	aiostream_require_preload();

	bench.text = text_to_cstring(PG_GETARG_TEXT_PP(0));
	bench.nruns = PG_GETARG_INT32(1);
	if (bench.nruns < 1 || bench.nruns > MAX_RUNS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid number of runs: %d", bench.nruns),
				 errhint("It must be between 1 and %d.", MAX_RUNS)));
	bench.query = analyze_query(bench.text);
	InitMaterializedSRF(fcinfo, 0);

	bench.rounds = palloc0(sizeof(Round) * bench.nruns);
	bench.run_context = AllocSetContextCreate(CurrentMemoryContext,
											  "aiostream benchmark run",
											  ALLOCSET_DEFAULT_SIZES);
	bench.tables = tables_to_evict(&bench);

	for (i = 0; i < bench.nruns; i++)
	{
		run_round(&bench, i);
		for (contender = 0; contender < NCONTENDERS; contender++)
			put_row(rsinfo, i + 1, (Contender) contender,
					&bench.rounds[i].outcome[contender],
					plain_ratio(&bench.rounds[i], (Contender) contender),
					bench.rounds[i].agree);
	}
	for (contender = 0; contender < NCONTENDERS; contender++)
		put_median_row(rsinfo, &bench, (Contender) contender);

	return (Datum) 0;
}
