/*
 * evict.c
 *		Drops a relation's pages from shared buffers and from the kernel's page
 *		cache, so that the next read of them is a cold one.
 *
 * Core drops buffers only of relations that nobody can be using any more, and may
 * wait for pins then.  Here everyone may go on using the relation: a
 * buffer is dropped only if it is clean and nobody has it pinned, which is
 * what makes it a legal victim for replacement in any case.  Its order of locks is
 * that of replacement too:
 *
 *	1. Header lock: is it ours, clean, unpinned? Remember the tag, unlock.
 *	2. Mapping partition lock of the tag, EXCLUSIVE: from here on nobody can
 *	   find the buffer through the mapping table and pin it.
 *	3. Header lock again, and all of 1 again: tag, pin and dirt may have changed.
 *	4. One store that clears all flags and the usage count and unlocks; then
 *	   the mapping entry goes, then the partition lock.
 *	5. Into the free list.
 *
 * Between 4 and 5 the buffer is in no list and has no tag: the clock sweep may
 * hand it out, and the free list copes with being given a buffer in use.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "buffer/buffer.h"
#include "common/relpath.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/fd.h"
#include "storage/lwlock.h"

/* Buffers that are dirtied while we flush are flushed again, this often */
#define MAX_PASSES			3
/* buffer headers looked at between two checks for interrupts */
#define INTERRUPT_INTERVAL	8192

typedef enum EvictOutcome
{
	EVICT_OTHER,				/* not (any more) a page of the relation */
	EVICT_DONE,
	EVICT_DONE_INVALID,			/* held no valid page: a failed read */
	EVICT_PINNED,
	EVICT_DIRTY
} EvictOutcome;

/* Look at a buffer whose header is locked. */
static EvictOutcome
examine(const BufferDesc *buf, uint32 state, const RelFileNode *rnode)
{
	Assert(state & BM_LOCKED);

	if (!(state & BM_TAG_VALID) || !RelFileNodeEquals(buf->tag.rnode, *rnode))
		return EVICT_OTHER;
	if (BUF_STATE_GET_REFCOUNT(state) != 0)
		return EVICT_PINNED;
	/* whoever does I/O on a buffer has it pinned */
	Assert(!(state & BM_IO_IN_PROGRESS));
	if (state & BM_DIRTY)
		return EVICT_DIRTY;
	return (state & BM_VALID) ? EVICT_DONE : EVICT_DONE_INVALID;
}

static bool
is_evictable(EvictOutcome outcome)
{
	return outcome == EVICT_DONE || outcome == EVICT_DONE_INVALID;
}

static EvictOutcome
evict_buffer(BufferDesc *buf, const RelFileNode *rnode)
{
	BufferTag	tag;
	uint32		state;
	uint32		hash;
	LWLock	   *partition_lock;
	EvictOutcome outcome;

	state = LockBufHdr(buf);
	outcome = examine(buf, state, rnode);
	tag = buf->tag;
	UnlockBufHdr(buf, state);
	if (!is_evictable(outcome))
		return outcome;

	hash = BufTableHashCode(&tag);
	partition_lock = BufMappingPartitionLock(hash);
	LWLockAcquire(partition_lock, LW_EXCLUSIVE);

	state = LockBufHdr(buf);
	outcome = examine(buf, state, rnode);
	/* another page of the same relation would need another partition's lock */
	if (is_evictable(outcome) && !BUFFERTAGS_EQUAL(buf->tag, tag))
		outcome = EVICT_OTHER;
	if (!is_evictable(outcome))
	{
		UnlockBufHdr(buf, state);
		LWLockRelease(partition_lock);
		return outcome;
	}

	CLEAR_BUFFERTAG(buf->tag);
	state &= ~(BUF_FLAG_MASK | BUF_USAGECOUNT_MASK);
	Assert(state == 0);
	UnlockBufHdr(buf, state);

	BufTableDelete(&tag, hash);
	LWLockRelease(partition_lock);

	StrategyFreeBuffer(buf);
	return outcome;
}

/*
 * Write out a page if the buffer is still its.  Core's FlushRelationBuffers()
 * would do, but not for a session that has a page pinned itself (an open
 * cursor): it pins without looking into the session's own books.
 */
static void
flush_buffer(BufferDesc *buf, const RelFileNode *rnode)
{
	Buffer		buffer = BufferDescriptorGetBuffer(buf);
	BufferTag	tag;
	uint32		state;

	state = LockBufHdr(buf);
	tag = buf->tag;
	UnlockBufHdr(buf, state);
	if ((state & (BM_VALID | BM_DIRTY)) != (BM_VALID | BM_DIRTY) ||
		!RelFileNodeEquals(tag.rnode, *rnode) ||
		!ReadRecentBuffer(tag.rnode, tag.forkNum, tag.blockNum, buffer))
		return;
	pgBufferUsage.shared_blks_hit--;	/* nobody wanted the page */

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	FlushOneBuffer(buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	ReleaseBuffer(buffer);
}

/*
 * One look at all shared buffers.  Returns the number of the relation's pages
 * that stayed because they were dirty.
 */
static int64
evict_pass(const RelFileNode *rnode, AiostreamEvictResult *result)
{
	int64		dirty = 0;

	/*
	 * From the last to the first: the free list is a stack, and handed out in
	 * ascending order its buffers are adjacent in memory, so that a request's
	 * pages form fewer, larger pieces.
	 */
	result->skipped = 0;
	for (int i = NBuffers - 1; i >= 0; i--)
	{
		BufferDesc *buf = GetBufferDescriptor(i);

		if (i % INTERRUPT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();

		/*
		 * Unlocked: a page that is being loaded just now may be missed, as it
		 * may be loaded right after we have looked.
		 */
		if (!RelFileNodeEquals(buf->tag.rnode, *rnode))
			continue;
		if (pg_atomic_read_u32(&buf->state) & BM_DIRTY)
		{
			CHECK_FOR_INTERRUPTS();
			flush_buffer(buf, rnode);
		}

		switch (evict_buffer(buf, rnode))
		{
			case EVICT_DONE:
				result->evicted++;
				break;
			case EVICT_PINNED:
				result->skipped++;
				break;
			case EVICT_DIRTY:
				result->skipped++;
				dirty++;
				break;
			case EVICT_DONE_INVALID:
			case EVICT_OTHER:
				break;
		}
	}
	return dirty;
}

static void
evict_shared_buffers(Relation rel, AiostreamEvictResult *result)
{
	int			pass;

	for (pass = 0; pass < MAX_PASSES; pass++)
	{
		if (evict_pass(&rel->rd_node, result) == 0)
			break;
	}
}

/*
 * Sync a file and drop it from the kernel's cache; false if there is none.
 *
 * It has to be synced whatever the setting "fsync" says: the kernel drops clean
 * pages only.  A failed fsync is reported to one caller only, and if it is us, the
 * next checkpoint will not hear of it: so the same PANIC as core's.
 */
static bool
drop_file(const char *path)
{
	int			fd;
	int			rc;

	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0)
	{
		if (errno == ENOENT)
			return false;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	}

	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_IMMEDIATE_SYNC);
	do
	{
		rc = fsync(fd);
	} while (rc < 0 && errno == EINTR);
	pgstat_report_wait_end();
	if (rc < 0)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", path)));

	/* returns its error instead of setting errno */
	errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (errno != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not drop file \"%s\" from the kernel's cache: %m", path)));

	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
	return true;
}

static void
drop_kernel_cache(Relation rel)
{
	ForkNumber	fork;

	for (fork = MAIN_FORKNUM; fork <= MAX_FORKNUM; fork++)
	{
		char	   *base = relpathperm(rel->rd_node, fork);
		unsigned int segment;
		bool		exists = true;

		for (segment = 0; exists; segment++)
		{
			char	   *path;

			CHECK_FOR_INTERRUPTS();
			path = segment == 0 ? pstrdup(base) : psprintf("%s.%u", base, segment);
			exists = drop_file(path);
			pfree(path);
		}
		pfree(base);
	}
}

AiostreamEvictResult
aiostream_buffer_evict(Relation rel)
{
	AiostreamEvictResult result = {0};

	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot evict temporary relation \"%s\"",
						RelationGetRelationName(rel)),
				 errhint("Temporary relations are not kept in shared buffers; use a permanent or unlogged one.")));

	evict_shared_buffers(rel, &result);
	drop_kernel_cache(rel);
	return result;
}
