/*
 * adopt.c
 *		aiostream_adopt() and aiostream_release(): switch tables between heap
 *		and aioheap without rewriting them.
 *
 * The two access methods have one page format, so all there is to do is to
 * change pg_class.relam and the dependency that keeps the access method from
 * being dropped under its tables.  (heap is pinned: no dependency on it is
 * recorded, and core's changeDependencyFor() knows.)  Both are ordinary
 * catalog changes: they roll back with their transaction or subtransaction, and
 * the invalidation that goes with the pg_class row makes every backend
 * rebuild its relcache entry, rd_tableam included, and plan again.
 *
 * What makes that safe is that nobody is using the old routine: others are
 * kept out by AccessExclusiveLock until we commit, and our own session's open
 * scans and pending trigger events are refused, as ALTER TABLE refuses them.
 * Tuples stay where they are, so indexes, predicate locks, statistics and the
 * visibility map remain what they were.
 *
 * Catalogs and TOAST tables stay heap whatever the superuser's settings: core's
 * relcache takes that for granted.  Works without preloading.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "am/am_internal.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(aiostream_adopt);
PG_FUNCTION_INFO_V1(aiostream_release);
PG_FUNCTION_INFO_V1(aiostream_adopt_schema);
PG_FUNCTION_INFO_V1(aiostream_release_schema);

/* Columns of the functions for a schema */
#define SCHEMA_COLUMNS 3

/* OID of the access method aioheap in this database */
Oid
aiostream_aioheap_oid(void)
{
	return get_table_am_oid("aioheap", false);
}

/* ------------------------------------------------------------------------
 * What may be switched
 * ------------------------------------------------------------------------
 */

/*
 * Raise an error unless the current user may switch this relation and it is of a
 * kind that can be.  Called before taking the lock, so that nobody can lock
 * what is not theirs, and again under it.
 */
static void
check_may_switch(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	form = (Form_pg_class) GETSTRUCT(tuple);
	name = NameStr(form->relname);

	if (!pg_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(form->relkind), name);
	if (IsSystemClass(relid, form))
	{
		if (!allowSystemTableMods)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied: \"%s\" is a system catalog", name)));
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot switch the access method of system catalog \"%s\"", name),
				 errdetail("System catalogs and TOAST tables always use heap.")));
	}
	if (!RELKIND_HAS_TABLE_AM(form->relkind) &&
		form->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot switch the access method of relation \"%s\"", name),
				 errdetail_relkind_not_supported(form->relkind)));
	if (form->relpersistence == RELPERSISTENCE_TEMP &&
		!isTempOrTempToastNamespace(form->relnamespace))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot switch the access method of temporary table \"%s\" of another session", name),
				 errhint("It is gone when that session has ended.")));

	ReleaseSysCache(tuple);
}

/* Raise an error unless the relation's access method is one of the two. */
static void
check_access_method(Relation rel, Oid aioheap)
{
	Oid			am = rel->rd_rel->relam;

	if (am != aioheap && am != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot switch the access method of relation \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Its access method is \"%s\"; only heap and aioheap have the same page format.",
						   get_am_name(am)),
				 errhint("Use ALTER TABLE ... SET ACCESS METHOD, which rewrites the table.")));
}

/* ------------------------------------------------------------------------
 * The switch
 * ------------------------------------------------------------------------
 */

/* Write the change into the catalogs; the caller holds AccessExclusiveLock. */
static void
update_catalogs(Oid relid, Oid from, Oid to)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	Assert(((Form_pg_class) GETSTRUCT(tuple))->relam == from);

	/* sends the relcache invalidation, too */
	((Form_pg_class) GETSTRUCT(tuple))->relam = to;
	CatalogTupleUpdate(pg_class, &tuple->t_self, tuple);

	if (changeDependencyFor(RelationRelationId, relid,
							AccessMethodRelationId, from, to) != 1)
		elog(ERROR, "could not change access method dependency for relation %u", relid);

	InvokeObjectPostAlterHook(RelationRelationId, relid, 0);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);
}

/*
 * Switch one relation that has storage, or do nothing if it has the wanted
 * access method already.  Permissions are checked; the lock is held.
 */
static bool
switch_storage(Relation rel, Oid aioheap, Oid to)
{
	Oid			from = rel->rd_rel->relam;

	check_access_method(rel, aioheap);
	if (from == to)
		return false;
	CheckTableNotInUse(rel, "switch the access method of");
	update_catalogs(RelationGetRelid(rel), from, to);
	return true;
}

/*
 * Switch the leaf partitions below a partitioned table; foreign ones have
 * no access method and are passed over.  Returns how many were switched.
 */
static int
switch_partitions(Relation parent, Oid aioheap, Oid to)
{
	List	   *oids = find_all_inheritors(RelationGetRelid(parent), AccessExclusiveLock, NULL);
	int			switched = 0;
	ListCell   *lc;

	/* a cursor over the tree may open further partitions later */
	CheckTableNotInUse(parent, "switch the access method of");

	foreach(lc, oids)
	{
		Oid			relid = lfirst_oid(lc);
		Relation	rel;

		if (relid == RelationGetRelid(parent))
			continue;
		rel = relation_open(relid, NoLock);
		if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
			ereport(NOTICE,
					(errcode(ERRCODE_SUCCESSFUL_COMPLETION),
					 errmsg("foreign table \"%s\" has no access method, skipping",
							RelationGetRelationName(rel))));
		else
		{
			check_may_switch(relid);
			if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
				CheckTableNotInUse(rel, "switch the access method of");
			else if (switch_storage(rel, aioheap, to))
				switched++;
		}
		relation_close(rel, NoLock);
	}
	list_free(oids);
	return switched;
}

/*
 * Switch a table, a materialized view or the partitions of a partitioned
 * table.  False, and no change, if they have the wanted access method
 * already.  The lock is kept until the end of the transaction.
 */
static bool
switch_relation(Oid relid, Oid aioheap, Oid to)
{
	Relation	rel;
	bool		switched;

	check_may_switch(relid);
	LockRelationOid(relid, AccessExclusiveLock);
	check_may_switch(relid);

	rel = relation_open(relid, NoLock);
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		switched = switch_partitions(rel, aioheap, to) > 0;
	else
		switched = switch_storage(rel, aioheap, to);
	relation_close(rel, NoLock);

	/* make it visible, and rebuild our own relcache entries */
	if (switched)
		CommandCounterIncrement();
	return switched;
}

/* The SQL functions for one relation */
static void
switch_with_notice(Oid relid, const char *function, bool adopt)
{
	Oid			aioheap = aiostream_aioheap_oid();

	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	if (!switch_relation(relid, aioheap, adopt ? aioheap : HEAP_TABLE_AM_OID))
		ereport(NOTICE,
				(errcode(ERRCODE_SUCCESSFUL_COMPLETION),
				 errmsg(get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ?
						"partitioned table \"%s\" has no partitions to switch to access method \"%s\"" :
						"access method of \"%s\" is \"%s\" already, skipping",
						get_rel_name(relid), adopt ? "aioheap" : "heap")));
}

/* aiostream_adopt(rel regclass) */
Datum
aiostream_adopt(PG_FUNCTION_ARGS)
{
	switch_with_notice(PG_GETARG_OID(0), "aiostream_adopt()", true);
	PG_RETURN_VOID();
}

/* aiostream_release(rel regclass) */
Datum
aiostream_release(PG_FUNCTION_ARGS)
{
	switch_with_notice(PG_GETARG_OID(0), "aiostream_release()", false);
	PG_RETURN_VOID();
}

/* ------------------------------------------------------------------------
 * All tables of a schema
 * ------------------------------------------------------------------------
 */

/*
 * OIDs of the schema's tables, materialized views, partitioned and foreign
 * tables, in the order in which find_all_inheritors() would lock them.
 */
static List *
tables_of_schema(Oid nspid)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	List	   *oids = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_class_relnamespace, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(nspid));
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		switch (form->relkind)
		{
			case RELKIND_RELATION:
			case RELKIND_MATVIEW:
			case RELKIND_PARTITIONED_TABLE:
			case RELKIND_FOREIGN_TABLE:
				oids = lappend_oid(oids, form->oid);
		}
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	list_sort(oids, list_oid_cmp);
	return oids;
}

/* Current access method, InvalidOid if it has none or is gone */
static Oid
current_access_method(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return am;
}

/*
 * Switch one of the tables in a subtransaction of its own; an error becomes the
 * message.  Cancels and what cannot happen are still raised.
 */
static bool
try_switch(Oid relid, Oid aioheap, Oid to, char **message)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool switched = false;

	*message = NULL;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		switched = switch_relation(relid, aioheap, to);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
			ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR))
			ReThrowError(error);
		switched = false;
		*message = error->detail == NULL ? error->message :
			psprintf("%s: %s", error->message, error->detail);
	}
	PG_END_TRY();

	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return switched;
}

/* Fill in the row about one table. */
static void
switch_for_schema(Oid relid, Oid aioheap, Oid to, Datum *values, bool *nulls)
{
	bool		switched = false;
	char	   *message = NULL;

	/* what needs no change is not even locked */
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		message = "partitioned table: its partitions are switched on their own";
	else if (current_access_method(relid) == to)
		message = psprintf("access method is \"%s\" already",
						   to == aioheap ? "aioheap" : "heap");
	else
		switched = try_switch(relid, aioheap, to, &message);

	values[0] = ObjectIdGetDatum(relid);
	values[1] = BoolGetDatum(switched);
	nulls[2] = message == NULL;
	if (message != NULL)
		values[2] = CStringGetTextDatum(message);
}

static void
switch_schema(FunctionCallInfo fcinfo, const char *function, bool adopt)
{
	Oid			nspid = PG_GETARG_OID(0);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			aioheap = aiostream_aioheap_oid();
	ListCell   *lc;

	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	if (!SearchSysCacheExists1(NAMESPACEOID, ObjectIdGetDatum(nspid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist", nspid)));

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, tables_of_schema(nspid))
	{
		Datum		values[SCHEMA_COLUMNS] = {0};
		bool		nulls[SCHEMA_COLUMNS] = {false};

		CHECK_FOR_INTERRUPTS();
		switch_for_schema(lfirst_oid(lc), aioheap,
						  adopt ? aioheap : HEAP_TABLE_AM_OID, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

/* aiostream_adopt_schema(schema regnamespace) -> (relation, switched, message) */
Datum
aiostream_adopt_schema(PG_FUNCTION_ARGS)
{
	switch_schema(fcinfo, "aiostream_adopt_schema()", true);
	return (Datum) 0;
}

/* aiostream_release_schema(schema regnamespace) -> (relation, switched, message) */
Datum
aiostream_release_schema(PG_FUNCTION_ARGS)
{
	switch_schema(fcinfo, "aiostream_release_schema()", false);
	return (Datum) 0;
}
