/*
 * bench_evict.c
 *		aiostream_evict(): makes a relation cold, for everyone who owns it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "bench/bench_internal.h"
#include "buffer/buffer.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(aiostream_evict);

void
aiostream_bench_check_owner(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	/* dropped meanwhile, or never there: opening it will say so */
	if (relkind == '\0')
		return;
	if (!pg_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind),
					   get_rel_name(relid));
}

int64
aiostream_bench_evict_storage(Relation rel)
{
	AiostreamEvictResult result;

	/* mapped or not, a relation without storage has nothing cached */
	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		return 0;

	result = aiostream_buffer_evict(rel);
	if (result.skipped > 0)
		ereport(NOTICE,
				(errcode(ERRCODE_SUCCESSFUL_COMPLETION),
				 errmsg_plural("%lld page of \"%s\" stayed in shared buffers",
							   "%lld pages of \"%s\" stayed in shared buffers",
							   (unsigned long) result.skipped,
							   (long long) result.skipped, RelationGetRelationName(rel)),
				 errdetail("They are in use.")));
	return result.evicted;
}

static int64
evict_with_dependents(Relation rel)
{
	int64		evicted = aiostream_bench_evict_storage(rel);
	List	   *indexes = NIL;
	ListCell   *lc;

	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation	toast = relation_open(rel->rd_rel->reltoastrelid, AccessShareLock);

		evicted += evict_with_dependents(toast);
		relation_close(toast, NoLock);
	}

	if (rel->rd_rel->relhasindex)
		indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		evicted += aiostream_bench_evict_storage(index);
		index_close(index, NoLock);
	}
	list_free(indexes);
	return evicted;
}

static int64
evict_partitions(Relation parent)
{
	List	   *oids = find_all_inheritors(RelationGetRelid(parent), AccessShareLock, NULL);
	int64		evicted = 0;
	ListCell   *lc;

	foreach(lc, oids)
	{
		Relation	rel;

		if (lfirst_oid(lc) == RelationGetRelid(parent))
			continue;
		aiostream_bench_check_owner(lfirst_oid(lc));
		rel = relation_open(lfirst_oid(lc), NoLock);
		/* foreign partitions have their cache elsewhere */
		if (RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
			evicted += evict_with_dependents(rel);
		relation_close(rel, NoLock);
	}
	list_free(oids);
	return evicted;
}

int64
aiostream_bench_evict(Oid relid)
{
	Relation	rel;
	int64		evicted = 0;

	rel = relation_open(relid, AccessShareLock);
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
		case RELKIND_TOASTVALUE:
		case RELKIND_INDEX:
		case RELKIND_SEQUENCE:
			evicted = evict_with_dependents(rel);
			break;
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_PARTITIONED_INDEX:
			evicted = evict_partitions(rel);
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("cannot evict relation \"%s\"",
							RelationGetRelationName(rel)),
					 errdetail_relkind_not_supported(rel->rd_rel->relkind)));
	}
	relation_close(rel, NoLock);
	return evicted;
}

/* aiostream_evict(rel regclass) -> pages dropped from shared buffers */
Datum
aiostream_evict(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	aiostream_require_preload();
	aiostream_bench_check_owner(relid);
	PG_RETURN_INT64(aiostream_bench_evict(relid));
}
