/*
 * verify.c
 *		aiostream_verify(): amcheck's checks of a table, its TOAST table and their
 *		B-tree indexes, for aioheap tables as well as for heap ones.
 *
 * amcheck's verify_heapam() looks at nothing but pages, and aioheap's are
 * heap's; but it compares the relation's access method with heap's OID when it
 * has opened it, and refuses all others.  To release the table, check and adopt it
 * again would take an AccessExclusiveLock for as long as the check lasts,
 * and could not be done on a standby.  Instead we show heap's OID to OUR OWN
 * process: in rd_rel of its relcache entry, for the duration of the call.
 *
 * - Nobody else sees it, and nothing is written: rd_rel of a user table is never
 *   copied back to the catalogs.
 * - Nobody acts on it: the routine in use is rd_tableam, which stays; the entry's
 *   relam is read when a routine is looked up, which begins with
 *   a new copy of the pg_class row.
 * - An invalidation may rebuild the entry at any time, which brings aioheap's OID
 *   back.  Our relcache callback comes right after and sets it again.
 * - At the end, or at an error, the true OID is put back.  Our AccessShareLock has
 *   kept others from changing it, and the reference that we hold keeps the entry
 *   in place.
 *
 * B-tree checks need none of this: bt_index_check() scans the table through
 * its access method.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "am/am_internal.h"
#include "catalog/indexing.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(aiostream_verify);

/* Columns of the function's result */
#define VERIFY_COLUMNS 5

/* What one call of the function is doing, and where its rows go */
typedef struct AiostreamVerify
{
	const char *amcheck;		/* quoted name of amcheck's schema */
	bool		check_toast;
	bool		heapallindexed;
	text	   *skip;
	ReturnSetInfo *rsinfo;
} AiostreamVerify;

/* ------------------------------------------------------------------------
 * Passing for heap
 * ------------------------------------------------------------------------
 */

/* The relation that shows heap's OID at the moment, and its true one */
static Relation disguised = NULL;
static Oid	disguised_am = InvalidOid;

/* After a rebuild of the entry: set heap's OID again. */
static void
disguise_again(Datum arg, Oid relid)
{
	if (disguised != NULL &&
		(relid == InvalidOid || relid == RelationGetRelid(disguised)))
		disguised->rd_rel->relam = HEAP_TABLE_AM_OID;
}

static void
disguise_as_heap(Relation rel)
{
	static bool registered = false;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(disguise_again, (Datum) 0);
		registered = true;
	}
	Assert(disguised == NULL);
	disguised_am = rel->rd_rel->relam;
	disguised = rel;
	rel->rd_rel->relam = HEAP_TABLE_AM_OID;
}

static void
undisguise(void)
{
	Assert(disguised != NULL && disguised->rd_refcnt > 0);
	disguised->rd_rel->relam = disguised_am;
	disguised = NULL;
}

/* ------------------------------------------------------------------------
 * amcheck
 * ------------------------------------------------------------------------
 */

/* Quoted name of the schema that the extension amcheck is in, or an error */
static const char *
amcheck_schema(void)
{
	Relation	pg_extension = table_open(ExtensionRelationId, AccessShareLock);
	Oid			nspid = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("amcheck"));
	scan = systable_beginscan(pg_extension, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		nspid = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(pg_extension, AccessShareLock);

	if (!OidIsValid(nspid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"amcheck\" is not installed in this database"),
				 errhint("Run CREATE EXTENSION amcheck.")));
	return quote_identifier(get_namespace_name(nspid));
}

/*
 * Run one of amcheck's functions.  Its rows go to the result if it has some.
 * The current user needs amcheck's own privileges.  Queries name all arguments
 * in their exact types: no function that somebody else puts into that schema
 * can match better.
 */
static void
call_amcheck(AiostreamVerify *verify, const char *query, Oid relid, bool has_rows)
{
	SPIExecuteOptions options = {0};
	int			nparams = 4;
	ParamListInfo params = makeParamList(nparams);
	Datum		values[] = {ObjectIdGetDatum(relid), BoolGetDatum(verify->check_toast),
	PointerGetDatum(verify->skip), BoolGetDatum(verify->heapallindexed)};
	Oid			types[] = {REGCLASSOID, BOOLOID, TEXTOID, BOOLOID};
	int			i;

	for (i = 0; i < nparams; i++)
	{
		params->params[i].value = values[i];
		params->params[i].isnull = false;
		params->params[i].pflags = PARAM_FLAG_CONST;
		params->params[i].ptype = types[i];
	}
	options.params = params;
	options.read_only = true;
	options.must_return_tuples = true;
	if (has_rows)
	{
		options.dest = CreateDestReceiver(DestTuplestore);
		SetTuplestoreDestReceiverParams(options.dest, verify->rsinfo->setResult,
										verify->rsinfo->econtext->ecxt_per_query_memory,
										false, NULL, NULL);
	}
	if (SPI_execute_extended(query, &options) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_extended failed: %s", query);
	if (has_rows)
		options.dest->rDestroy(options.dest);
	SPI_freetuptable(SPI_tuptable);
}

static void
check_pages(AiostreamVerify *verify, Relation rel)
{
	char	   *query;

	query = psprintf("SELECT $1, blkno, offnum, attnum, msg FROM %s.verify_heapam("
					 "$1, false, $2, $3, NULL::pg_catalog.int8, NULL::pg_catalog.int8)",
					 verify->amcheck);
	if (rel->rd_rel->relam == HEAP_TABLE_AM_OID)
	{
		call_amcheck(verify, query, RelationGetRelid(rel), true);
		return;
	}

	disguise_as_heap(rel);
	PG_TRY();
	{
		call_amcheck(verify, query, RelationGetRelid(rel), true);
	}
	PG_FINALLY();
	{
		undisguise();
	}
	PG_END_TRY();
}

static void
add_row(AiostreamVerify *verify, Oid relid, ErrorData *error)
{
	Datum		values[VERIFY_COLUMNS] = {0};
	bool		nulls[VERIFY_COLUMNS] = {false, true, true, true, false};
	char	   *message = error->message;

	if (error->detail != NULL)
		message = psprintf("%s: %s", error->message, error->detail);
	values[0] = ObjectIdGetDatum(relid);
	values[4] = CStringGetTextDatum(message);
	tuplestore_putvalues(verify->rsinfo->setResult, verify->rsinfo->setDesc, values, nulls);
}

/*
 * Check a B-tree index.  amcheck raises an error at the first damage: one that
 * tells of damage becomes a row, others (privileges, cancel, ...) are raised.
 */
static void
check_btree(AiostreamVerify *verify, Oid indexid)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *query;

	query = psprintf("SELECT %s.bt_index_check($1, $4)", verify->amcheck);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		call_amcheck(verify, query, indexid, false);
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
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR))
			ReThrowError(error);
		add_row(verify, indexid, error);
		FreeErrorData(error);
	}
	PG_END_TRY();

	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* Is it a B-tree that can be checked?  Invalid ones are not in use. */
static bool
is_valid_btree(Oid indexid)
{
	Relation	index = index_open(indexid, AccessShareLock);
	bool		valid = index->rd_index->indisvalid && index->rd_rel->relam == BTREE_AM_OID;

	index_close(index, AccessShareLock);
	return valid;
}

/* ------------------------------------------------------------------------
 * The function
 * ------------------------------------------------------------------------
 */

/* Check one table, then its indexes, then its TOAST table. */
static void
verify_table(AiostreamVerify *verify, Relation rel)
{
	List	   *indexes;
	ListCell   *lc;

	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID &&
		rel->rd_rel->relam != aiostream_aioheap_oid())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot verify relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail("Its access method is neither heap nor aioheap.")));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot verify temporary tables of other sessions")));

	check_pages(verify, rel);

	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_valid_btree(lfirst_oid(lc)))
			check_btree(verify, lfirst_oid(lc));
	}
	list_free(indexes);

	if (verify->check_toast && OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation	toast = relation_open(rel->rd_rel->reltoastrelid, AccessShareLock);

		verify_table(verify, toast);
		relation_close(toast, AccessShareLock);
	}
}

static void
check_owner(Oid relid)
{
	if (get_rel_relkind(relid) == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!pg_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

static void
verify_partitions(AiostreamVerify *verify, Relation parent)
{
	List	   *oids = find_all_inheritors(RelationGetRelid(parent), AccessShareLock, NULL);
	ListCell   *lc;

	foreach(lc, oids)
	{
		Relation	rel = relation_open(lfirst_oid(lc), NoLock);

		/* partitioned ones have no pages, foreign ones have them elsewhere */
		if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
		{
			check_owner(lfirst_oid(lc));
			verify_table(verify, rel);
		}
		relation_close(rel, NoLock);
	}
	list_free(oids);
}

/* aiostream_verify(rel, check_toast, heapallindexed, skip) -> one row a damage */
Datum
aiostream_verify(PG_FUNCTION_ARGS)
{
	AiostreamVerify verify;
	Relation	rel;

	check_owner(PG_GETARG_OID(0));
	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);

	verify.check_toast = PG_GETARG_BOOL(1);
	verify.heapallindexed = PG_GETARG_BOOL(2);
	verify.skip = PG_GETARG_TEXT_PP(3);
	verify.amcheck = amcheck_schema();
	InitMaterializedSRF(fcinfo, 0);
	verify.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	SPI_connect();
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
		case RELKIND_TOASTVALUE:
			verify_table(&verify, rel);
			break;
		case RELKIND_PARTITIONED_TABLE:
			verify_partitions(&verify, rel);
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("cannot verify relation \"%s\"", RelationGetRelationName(rel)),
					 errdetail_relkind_not_supported(rel->rd_rel->relkind)));
	}
	SPI_finish();

	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
