/*
 * follower_start.c
 *		The vacuuming process's side: when to have a follower, and when to let go
 *		of it.
 *
 * There are two ways in:
 *
 * - ProcessUtility: a manual VACUUM gets one follower for the whole statement, which
 *   follows from table to table by the process's progress entry.  The hook only
 *   reads the statement; which tables are vacuumed, and how, is core's business.
 * - The table access method aioheap's relation_vacuum callback, for autovacuum: one
 *   follower for the table.
 *
 * Nothing here waits, for a lock or for the follower.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "guc.h"
#include "maintenance/follower_internal.h"
#include "maintenance/maintenance.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "postmaster/bgworker.h"
#include "shmem.h"
#include "stats.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

static ProcessUtility_hook_type prev_process_utility = NULL;

/* Inside of a manual VACUUM, for which a follower has been decided on */
static bool in_statement = false;

/* A follower of ours */
typedef struct StartedFollower
{
	AiostreamFollowerRef ref;	/* slot -1: none */
	BackgroundWorkerHandle *handle;
} StartedFollower;

static bool
followers_enabled(void)
{
	return aiostream_enable && aiostream_enable_vacuum && aiostream_shmem_ready() &&
		pgstat_track_activities && !RecoveryInProgress() && !IsBinaryUpgrade;
}

static bool
register_worker(StartedFollower *follower)
{
	BackgroundWorker worker;
	MemoryContext old;
	bool		registered;

	StaticAssertStmt(sizeof(AiostreamFollowerRef) <= BGW_EXTRALEN,
					 "the order's name must fit into the worker's extra data");
	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "aiostream vacuum follower for PID %d", MyProcPid);
	strlcpy(worker.bgw_type, "aiostream vacuum follower", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "aiostream", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "aiostream_follower_main", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &follower->ref, sizeof(AiostreamFollowerRef));

	/* the statement's own context may be gone when it ends */
	old = MemoryContextSwitchTo(TopMemoryContext);
	registered = RegisterDynamicBackgroundWorker(&worker, &follower->handle);
	MemoryContextSwitchTo(old);
	return registered;
}

/* Without a free worker slot the vacuum goes on without; a counter says so. */
static void
start_follower(StartedFollower *follower, AiostreamFollowerOrder *order)
{
	order->pid = MyProcPid;
	order->backend_id = MyBackendId;
	order->started = MyBEEntry->st_proc_start_timestamp;
	order->database = MyDatabaseId;
	order->role = MyBEEntry->st_userid;
	order->write_behind = aiostream_write_behind;
	order->direct = aiostream_direct_io;
	order->combine = aiostream_io_combine_limit;
	order->concurrency = aiostream_maintenance_io_concurrency;

	if (!aiostream_follower_order(order, &follower->ref))
	{
		aiostream_count(AIOSTREAM_COUNT_FALLBACK_NO_FOLLOWER, 1);
		return;
	}
	if (!register_worker(follower))
	{
		aiostream_follower_withdraw(follower->ref);
		follower->ref.slot = -1;
		aiostream_count(AIOSTREAM_COUNT_FALLBACK_NO_FOLLOWER, 1);
	}
}

static void
stop_follower(StartedFollower *follower)
{
	pid_t		pid;

	if (follower->ref.slot < 0)
		return;
	aiostream_follower_stop(follower->ref);
	if (GetBackgroundWorkerPid(follower->handle, &pid) != BGWH_STARTED)
	{
		TerminateBackgroundWorker(follower->handle);
		aiostream_follower_withdraw(follower->ref);
	}
	pfree(follower->handle);
	follower->ref.slot = -1;
}

/* ---- manual VACUUM ---- */

/*
 * Is a boolean option on?  What is not valid core will say.
 */
static bool
option_on(DefElem *def)
{
	const char *value;

	if (def->arg == NULL)
		return true;
	if (IsA(def->arg, Integer))
		return intVal(def->arg) != 0;
	if (IsA(def->arg, Boolean))
		return boolVal(def->arg);
	if (!IsA(def->arg, String))
		return false;
	value = strVal(def->arg);
	return pg_strcasecmp(value, "true") == 0 || pg_strcasecmp(value, "on") == 0;
}

/* False: nothing to follow (ANALYZE, VACUUM FULL). */
static bool
read_options(const VacuumStmt *stmt, AiostreamFollowerOrder *order)
{
	ListCell   *lc;

	memset(order, 0, sizeof(*order));
	order->parallel = true;
	if (!stmt->is_vacuumcmd)
		return false;
	foreach(lc, stmt->options)
	{
		DefElem    *def = (DefElem *) lfirst(lc);

		if (strcmp(def->defname, "full") == 0 && option_on(def))
			return false;
		if (strcmp(def->defname, "freeze") == 0)
			order->freeze = option_on(def);
		else if (strcmp(def->defname, "disable_page_skipping") == 0)
			order->all_pages = option_on(def);
		else if (strcmp(def->defname, "parallel") == 0 && def->arg != NULL &&
				 IsA(def->arg, Integer))
			order->parallel = intVal(def->arg) != 0;
	}
	return true;
}

/* Is it heap's VACUUM that this table gets? */
static bool
vacuumed_by_heap(Relation rel)
{
	return rel->rd_tableam != NULL &&
		(rel->rd_tableam->relation_vacuum == heap_vacuum_rel ||
		 rel->rd_tableam->relation_vacuum == aiostream_vacuum_followed);
}

/*
 * Has VACUUM enough to read in this table, its indexes and its TOAST table?  A
 * table that is gone meanwhile has not: core will say what there is to say.
 */
static bool
table_worth(Oid relid, const AiostreamFollowerOrder *order)
{
	Relation	rel;
	Oid			toast = InvalidOid;
	bool		worth;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return false;
	if (!pg_class_ownercheck(relid, GetUserId()) &&
		!pg_database_ownercheck(MyDatabaseId, GetUserId()))
		return false;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return false;
	}
	worth = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	if (vacuumed_by_heap(rel) && aiostream_stream_usable(rel))
	{
		worth = aiostream_vacuum_to_read(rel, order->freeze, order->all_pages) >=
			AIOSTREAM_FOLLOWER_START_BLOCKS;
		toast = rel->rd_rel->reltoastrelid;
	}
	relation_close(rel, AccessShareLock);
	return worth || (OidIsValid(toast) && table_worth(toast, order));
}

static bool
statement_worth(const VacuumStmt *stmt, const AiostreamFollowerOrder *order)
{
	ListCell   *lc;

	/* the whole database */
	if (stmt->rels == NIL)
		return true;
	foreach(lc, stmt->rels)
	{
		VacuumRelation *vrel = lfirst_node(VacuumRelation, lc);
		Oid			relid = vrel->oid;

		if (!OidIsValid(relid) && vrel->relation != NULL)
			relid = RangeVarGetRelid(vrel->relation, NoLock, true);
		if (OidIsValid(relid) && table_worth(relid, order))
			return true;
	}
	return false;
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	ProcessUtility_hook_type next = prev_process_utility ? prev_process_utility :
	standard_ProcessUtility;
	AiostreamFollowerOrder order;
	StartedFollower follower = {{-1, 0}, NULL};

	if (!IsA(pstmt->utilityStmt, VacuumStmt) || in_statement || !followers_enabled() ||
		context != PROCESS_UTILITY_TOPLEVEL || IsTransactionBlock() ||
		!read_options((VacuumStmt *) pstmt->utilityStmt, &order))
	{
		next(pstmt, query, read_only_tree, context, params, env, dest, qc);
		return;
	}

	if (statement_worth((VacuumStmt *) pstmt->utilityStmt, &order))
		start_follower(&follower, &order);
	in_statement = true;
	PG_TRY();
	{
		next(pstmt, query, read_only_tree, context, params, env, dest, qc);
	}
	PG_FINALLY();
	{
		in_statement = false;
		stop_follower(&follower);
	}
	PG_END_TRY();
}

void
aiostream_maintenance_install(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

/* ---- the access method's callback ---- */

void
aiostream_vacuum_followed(Relation rel, VacuumParams *params,
						  BufferAccessStrategy strategy)
{
	AiostreamFollowerOrder order;
	StartedFollower follower = {{-1, 0}, NULL};

	memset(&order, 0, sizeof(order));
	order.freeze = params->freeze_table_age == 0;
	order.all_pages = (params->options & VACOPT_DISABLE_PAGE_SKIPPING) != 0;
	order.parallel = params->nworkers >= 0;

	if (!in_statement && followers_enabled() && aiostream_stream_usable(rel) &&
		aiostream_vacuum_to_read(rel, order.freeze, order.all_pages) >=
		AIOSTREAM_FOLLOWER_START_BLOCKS)
		start_follower(&follower, &order);
	if (follower.ref.slot < 0)
	{
		heap_vacuum_rel(rel, params, strategy);
		return;
	}

	PG_TRY();
	{
		heap_vacuum_rel(rel, params, strategy);
	}
	PG_FINALLY();
	{
		stop_follower(&follower);
	}
	PG_END_TRY();
}
