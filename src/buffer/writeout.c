/*
 * writeout.c
 *		Writing dirty buffers in large pieces, behind a process that has moved
 *		on.
 *
 * The submitter names the buffers (aiostream_target_clean); an I/O worker does
 * the rest (aiostream_buffer_write).  Nothing here is a promise: a page that
 * is locked, has been dirtied again, or whose WAL is not out, stays dirty and
 * is core's to write, as is every page of a write that failed.
 *
 * The order, for the pages of one request; each step is asserted:
 *	1. WAL is flushed up to the newest of the pages.  Nothing is held meanwhile.
 *	2. Each page becomes "I/O in progress" with a raw pin, and BM_JUST_DIRTIED is
 *	   cleared, in one store of the header.  Whoever changes it from here on
 *	   sets that flag again.
 *	3. Under a shared content lock, which is not waited for, it is copied, unless
 *	   its WAL has grown past 1.  The lock is let go: no lock is held during I/O.
 *	4. The copies get their checksums and are written, each run of neighbours in
 *	   one pwritev.
 *	5. The checkpointer is asked to sync the segment.
 *	6. One store of the header: no longer in progress, clean unless it was
 *	   dirtied again, pin dropped.  Only here a checkpoint may take it for
 *	   written, and the request of 5 is in its queue.
 * Why copies: others may set hint bits under a shared lock, and a checksum must
 * be that of what is written; and so no lock is needed during the write.
 *
 * The submitter holds a lock on the relation that keeps its file from being
 * dropped or truncated until the request is done.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"
#include "faults.h"
#include "stats.h"

#include <sys/uio.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/sync.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/* Which relation a request writes; travels with the request */
typedef struct WriteNotes
{
	RelFileNode rnode;
	int32		fork;
	bool		permanent;
	bool		start_disk;
} WriteNotes;

StaticAssertDecl(sizeof(WriteNotes) <= AIOSTREAM_NOTES_LEN,
				 "notes must fit into a request");

/* The pages of the request being executed */
typedef struct WriteJob
{
	WriteNotes	notes;
	BlockNumber first;
	int			n;
	int			fd;
	XLogRecPtr	flushed;		/* WAL is on disk up to here */
	BufferDesc *claimed[AIOSTREAM_MAX_COMBINE]; /* NULL: not ours */
	bool		written[AIOSTREAM_MAX_COMBINE];
	bool		synced;			/* what was written has been handed to the
								 * checkpointer */
} WriteJob;

/* AIOSTREAM_MAX_COMBINE pages, made when first needed */
static char *copies = NULL;

/* ---- the executor's side ---- */

/* Is it still that page, and dirty?  Header locked. */
static bool
wants_write(const WriteJob *job, const BufferDesc *buf, int i, uint32 state)
{
	const uint32 want = BM_TAG_VALID | BM_VALID | BM_DIRTY;

	return (state & want) == want && (state & BM_IO_IN_PROGRESS) == 0 &&
		RelFileNodeEquals(buf->tag.rnode, job->notes.rnode) &&
		buf->tag.forkNum == job->notes.fork &&
		buf->tag.blockNum == job->first + i;
}

/* LSN of a page of which at least a shared content lock is held */
static XLogRecPtr
page_lsn(BufferDesc *buf)
{
	uint32		state = LockBufHdr(buf);
	XLogRecPtr	lsn = PageGetLSN(BufferGetPage(BufferDescriptorGetBuffer(buf)));

	UnlockBufHdr(buf, state);
	return lsn;
}

/*
 * Step 1: the newest WAL that a page of the request stands for is flushed.
 * Pages change all the time: this may be too little for some of them, which
 * step 3 finds.
 */
static void
flush_wal(WriteJob *job, AiostreamIo *io)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();
	uint32		unflushed = 0;

	job->flushed = InvalidXLogRecPtr;
	if (!job->notes.permanent)
		return;

	for (int i = 0; i < job->n; i++)
	{
		Buffer		buffer = aiostream_io_piece(io, i);
		BufferDesc *buf;
		uint32		state;
		XLogRecPtr	lsn;

		if (!BufferIsValid(buffer))
			continue;
		buf = GetBufferDescriptor(buffer - 1);
		state = LockBufHdr(buf);
		if (!wants_write(job, buf, i, state))
		{
			UnlockBufHdr(buf, state);
			continue;
		}
		UnlockBufHdr(buf, state + BUF_REFCOUNT_ONE);
		if (LWLockConditionalAcquire(BufferDescriptorGetContentLock(buf), LW_SHARED))
		{
			lsn = page_lsn(buf);
			LWLockRelease(BufferDescriptorGetContentLock(buf));
			/* an LSN from nowhere is a damaged page, for core to report */
			if (lsn <= end)
			{
				job->flushed = Max(job->flushed, lsn);
				unflushed += XLogNeedsFlush(lsn) ? 1 : 0;
			}
		}
		aiostream_victim_unpin(buf);
	}

	aiostream_fault_pause(AIOSTREAM_FAULT_WRITE_FLUSH);
	if (aiostream_fault(AIOSTREAM_FAULT_WRITE_FLUSH))
		elog(ERROR, "injected error");
	if (!XLogRecPtrIsInvalid(job->flushed) && XLogNeedsFlush(job->flushed))
	{
		XLogFlush(job->flushed);
		aiostream_count(AIOSTREAM_COUNT_WAL_FLUSHES, 1);
		/* core writes page by page, and flushes for each that needs it */
		aiostream_io_tell_owner(io, unflushed - 1);
	}
}

/* Step 6, also where there was nothing to write */
static void
end_write(BufferDesc *buf, bool written)
{
	uint32		state = LockBufHdr(buf);

	Assert((state & (BM_TAG_VALID | BM_VALID | BM_DIRTY | BM_IO_IN_PROGRESS)) ==
		   (BM_TAG_VALID | BM_VALID | BM_DIRTY | BM_IO_IN_PROGRESS));
	if (written)
	{
		state &= ~BM_IO_ERROR;
		if ((state & BM_JUST_DIRTIED) == 0)
			state &= ~(BM_DIRTY | BM_CHECKPOINT_NEEDED);
	}
	aiostream_buffer_end_io(buf, state & ~BM_IO_IN_PROGRESS);
}

/* Steps 2 and 3 for one page */
static bool
claim_and_copy(WriteJob *job, Buffer buffer, int i)
{
	BufferDesc *buf = GetBufferDescriptor(buffer - 1);
	Page		copy = copies + (Size) i * BLCKSZ;
	uint32		state = LockBufHdr(buf);
	bool		ok;

	if (!wants_write(job, buf, i, state))
	{
		UnlockBufHdr(buf, state);
		return false;
	}
	Assert(((state & BM_PERMANENT) != 0) == job->notes.permanent);
	state |= BM_IO_IN_PROGRESS;
	state &= ~BM_JUST_DIRTIED;
	UnlockBufHdr(buf, state + BUF_REFCOUNT_ONE);

	ok = LWLockConditionalAcquire(BufferDescriptorGetContentLock(buf), LW_SHARED);
	if (ok)
	{
		ok = !job->notes.permanent || page_lsn(buf) <= job->flushed;
		if (ok)
			memcpy(copy, BufferGetPage(buffer), BLCKSZ);
		LWLockRelease(BufferDescriptorGetContentLock(buf));
		/* a hint bit may have been logged in between */
		ok = ok && (!job->notes.permanent || PageGetLSN(copy) <= job->flushed);
	}
	if (!ok)
	{
		end_write(buf, false);
		aiostream_count(AIOSTREAM_COUNT_WRITE_SKIPPED, 1);
		return false;
	}
	job->claimed[i] = buf;
	return true;
}

/* Write all of it; false with errno set if that is not possible. */
static bool
write_fully(int fd, char *from, size_t len, off_t offset)
{
	if (aiostream_fault(AIOSTREAM_FAULT_WRITE_ERROR))
	{
		errno = EIO;
		return false;
	}
	while (len > 0)
	{
		ssize_t		n = pg_pwrite(fd, from, len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		from += n;
		offset += n;
		len -= n;
	}
	return true;
}

/* Step 4 for one run of claimed pages */
static void
write_run(WriteJob *job, int start, int len)
{
	off_t		offset = (off_t) ((job->first + start) % RELSEG_SIZE) * BLCKSZ;
	bool		ok;

	for (int i = start; i < start + len; i++)
	{
		Page		copy = copies + (Size) i * BLCKSZ;

		Assert(job->claimed[i] != NULL);
		Assert(!job->notes.permanent || PageGetLSN(copy) <= job->flushed);
		PageSetChecksumInplace(copy, job->first + i);
	}

	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_WRITE);
	ok = write_fully(job->fd, copies + (Size) start * BLCKSZ, (Size) len * BLCKSZ, offset);
	pgstat_report_wait_end();
	if (!ok)
	{
		aiostream_count(AIOSTREAM_COUNT_FAILED_WRITES, len);
		return;
	}
	for (int i = start; i < start + len; i++)
		job->written[i] = true;
	aiostream_count(AIOSTREAM_COUNT_WRITE_BYTES, (uint64) len * BLCKSZ);
	/* the disk can start at once: a checkpoint will have less to wait for */
	if (job->notes.start_disk)
		pg_flush_data(job->fd, offset, (off_t) len * BLCKSZ);
}

/* Step 4: returns the number of runs written */
static int
write_runs(WriteJob *job)
{
	int			nruns = 0;
	int			i = 0;

	while (i < job->n)
	{
		int			start = i;

		while (i < job->n && job->claimed[i] != NULL)
			i++;
		if (i > start)
		{
			write_run(job, start, i - start);
			nruns += job->written[start] ? 1 : 0;
		}
		else
			i++;
	}
	return nruns;
}

/*
 * Step 5.  False: what has been written may not be on disk at the next
 * checkpoint, so the pages must stay dirty.
 */
static bool
request_sync(const WriteJob *job)
{
	FileTag		tag;

	memset(&tag, 0, sizeof(tag));
	tag.handler = SYNC_HANDLER_MD;
	tag.rnode = job->notes.rnode;
	tag.forknum = job->notes.fork;
	tag.segno = job->first / RELSEG_SIZE;
	if (!aiostream_fault(AIOSTREAM_FAULT_WRITE_QUEUE) &&
		RegisterSyncRequest(&tag, SYNC_REQUEST, false))
		return true;

	/* the queue is full: as core, sync it here, and trust no second try */
	if (pg_fsync(job->fd) == 0)
		return true;
	ereport(data_sync_elevel(LOG),
			(errcode_for_file_access(),
			 errmsg("could not fsync segment %u of relation %u/%u/%u: %m",
					tag.segno, tag.rnode.spcNode, tag.rnode.dbNode, tag.rnode.relNode)));
	return false;
}

/* Steps 1 to 5; may raise, from step 1 and 5 */
static void
write_job(WriteJob *job, AiostreamIo *io)
{
	int			nclaimed = 0;

	flush_wal(job, io);
	for (int i = 0; i < job->n; i++)
	{
		Buffer		buffer = aiostream_io_piece(io, i);

		if (BufferIsValid(buffer) && claim_and_copy(job, buffer, i))
			nclaimed++;
	}
	if (nclaimed == 0)
		return;
	aiostream_fault_pause(AIOSTREAM_FAULT_WRITE_COPIED);

	if (write_runs(job) > 0)
	{
		aiostream_fault_pause(AIOSTREAM_FAULT_WRITE_WRITTEN);
		aiostream_count(AIOSTREAM_COUNT_WRITES, 1);
		if (aiostream_fault(AIOSTREAM_FAULT_WRITE_RAISE))
			elog(ERROR, "injected error");
		job->synced = request_sync(job);
	}
}

/*
 * An error (out of memory in the queue of fsync requests, say) is this request's
 * and nobody else's: whoever waits for its end must not wait for ever.
 */
static void
log_error(MemoryContext cxt)
{
	ErrorData  *error;

	MemoryContextSwitchTo(cxt);
	error = CopyErrorData();
	FlushErrorState();
	/* nobody who submits or executes a write holds any */
	LWLockReleaseAll();
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("could not write pages behind: %s", error->message),
			 errdetail("The pages stay dirty, and PostgreSQL will write them.")));
	FreeErrorData(error);
}

/*
 * The engine's writer callback.  A failure to write leaves the pages dirty:
 * core will try, and report.  Raises nothing.
 */
void
aiostream_buffer_write(AiostreamIo *io, int fd)
{
	WriteJob	job;
	MemoryContext cxt = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;

	memcpy(&job.notes, aiostream_io_notes(io), sizeof(job.notes));
	job.first = aiostream_io_first_block(io);
	job.n = aiostream_io_npieces(io);
	job.fd = fd;
	job.synced = false;
	memset(job.claimed, 0, sizeof(job.claimed));
	memset(job.written, 0, sizeof(job.written));
	Assert(job.first / RELSEG_SIZE == (job.first + job.n - 1) / RELSEG_SIZE);

	if (copies == NULL)
		copies = MemoryContextAllocExtended(TopMemoryContext,
											(Size) AIOSTREAM_MAX_COMBINE * BLCKSZ,
											MCXT_ALLOC_NO_OOM);
	if (fd < 0 || copies == NULL)
	{
		aiostream_count(AIOSTREAM_COUNT_FAILED_WRITES, job.n);
		return;
	}

	PG_TRY();
	{
		write_job(&job, io);
	}
	PG_CATCH();
	{
		/* the error reset it, and our callers are going to resume */
		InterruptHoldoffCount = holdoff;
		log_error(cxt);
	}
	PG_END_TRY();

	for (int i = 0; i < job.n; i++)
	{
		if (job.claimed[i] != NULL)
			end_write(job.claimed[i], job.written[i] && job.synced);
	}
}

/* ---- the submitter's side ---- */

/* The buffer that holds blkno, if it is dirty: an unlocked look */
static Buffer
dirty_buffer(AiostreamTarget *target, BlockNumber blkno)
{
	Buffer		buffer = aiostream_buffer_lookup(target, blkno);
	uint32		state;

	if (!BufferIsValid(buffer))
		return InvalidBuffer;
	state = pg_atomic_read_u32(&GetBufferDescriptor(buffer - 1)->state);
	if ((state & (BM_VALID | BM_DIRTY | BM_IO_IN_PROGRESS)) != (BM_VALID | BM_DIRTY))
		return InvalidBuffer;
	return buffer;
}

int
aiostream_target_clean(AiostreamTarget *target, BlockNumber start, int n,
					   AiostreamCleaning *cleaning)
{
	WriteNotes	notes = {
		.rnode = target->rnode,
		.fork = target->fork,
		.permanent = target->permanent || target->fork == INIT_FORKNUM,
		.start_disk = !target->options.dirtied_again,
	};
	AiostreamFile *file;
	AiostreamIo *io;
	int			trailing = 0;

	Assert(n >= 1);
	Assert(start < target->nblocks && (BlockNumber) n <= target->nblocks - start);
	Assert(CritSectionCount == 0);

	memset(cleaning, 0, sizeof(*cleaning));
	n = Min(n, target->options.combine);
	n = Min(n, (int) (RELSEG_SIZE - start % RELSEG_SIZE));

	file = aiostream_segment_file_for_write(target, start);
	if (file == NULL)
		return n;
	if (!aiostream_engine_write_ok())
		return 0;
	io = aiostream_io_acquire();
	if (io == NULL)
		return 0;

	HOLD_INTERRUPTS();
	for (int i = 0; i < n; i++)
	{
		Buffer		buffer = dirty_buffer(target, start + i);

		if (!BufferIsValid(buffer))
		{
			trailing++;
			continue;
		}
		if (aiostream_io_npieces(io) == 0)
			aiostream_io_set_user(io, start + i, -1);
		else
		{
			while (trailing-- > 0)
				aiostream_io_add_note(io, InvalidBuffer);
		}
		trailing = 0;
		aiostream_io_add_note(io, buffer);
		cleaning->blocks++;
	}
	if (cleaning->blocks == 0)
		aiostream_io_cancel(io);
	else
	{
		off_t		offset = (off_t) (aiostream_io_first_block(io) % RELSEG_SIZE) * BLCKSZ;

		aiostream_io_set_notes(io, &notes, sizeof(notes));
		cleaning->io = aiostream_io_submit_write(io, file, offset);
	}
	RESUME_INTERRUPTS();
	return n;
}
