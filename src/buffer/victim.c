/*
 * victim.c
 *		Finding a buffer to read into.
 *
 * Core's victim search (ring, free list, clock sweep) chooses; what is dirty is
 * written by core's own code, under core's rules.
 *
 * A RAW pin is a count in the buffer's header without an entry in any process's
 * private books: it belongs to the I/O, not to a process.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"

#include "access/xlog.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/proc.h"

/* Victims looked at before look-ahead gives up for now */
#define MAX_TRIES 16

/*
 * Drop a raw pin from a buffer that stays what it is; whoever waits for the
 * last other pin to go (a cleanup lock) is woken, as core's UnpinBuffer
 * would.
 */
void
aiostream_victim_unpin(BufferDesc *buf)
{
	uint32		state = pg_atomic_read_u32(&buf->state);

	for (;;)
	{
		if (state & BM_LOCKED)
		{
			state = LockBufHdr(buf);
			UnlockBufHdr(buf, state);
			state &= ~BM_LOCKED;
		}
		Assert(BUF_STATE_GET_REFCOUNT(state) > 0);
		if (pg_atomic_compare_exchange_u32(&buf->state, &state,
										   state - BUF_REFCOUNT_ONE))
			break;
	}
	state -= BUF_REFCOUNT_ONE;

	if (state & BM_PIN_COUNT_WAITER)
	{
		state = LockBufHdr(buf);
		if ((state & BM_PIN_COUNT_WAITER) && BUF_STATE_GET_REFCOUNT(state) == 1)
		{
			int			waiter = buf->wait_backend_pgprocno;

			state &= ~BM_PIN_COUNT_WAITER;
			UnlockBufHdr(buf, state);
			ProcSendSignal(waiter);
		}
		else
			UnlockBufHdr(buf, state);
	}
}

/*
 * Write out a dirty victim, pinned properly meanwhile.  False: it is locked,
 * gone, or the ring would rather have another one than flush WAL for it.
 * Raises what a failed write raises.
 */
static bool
clean_victim(BufferAccessStrategy strategy, BufferDesc *buf, const BufferTag *tag)
{
	Buffer		buffer = BufferDescriptorGetBuffer(buf);
	LWLock	   *content_lock = BufferDescriptorGetContentLock(buf);
	bool		written = false;

	if (!ReadRecentBuffer(tag->rnode, tag->forkNum, tag->blockNum, buffer))
		return false;
	pgBufferUsage.shared_blks_hit--;	/* nobody wanted this page */

	/*
	 * Others may be waiting for what is queued.  Before the lock: the kernel
	 * may read right here what it has in its cache.
	 */
	aiostream_io_batch_flush();

	/* conditional: its holder may be waiting for us, see core's BufferAlloc */
	if (LWLockConditionalAcquire(content_lock, LW_SHARED))
	{
		bool		reject = false;

		if (strategy != NULL)
		{
			uint32		state = LockBufHdr(buf);
			XLogRecPtr	lsn = PageGetLSN(BufferGetPage(buffer));

			UnlockBufHdr(buf, state);
			reject = XLogNeedsFlush(lsn) && StrategyRejectBuffer(strategy, buf);
		}
		if (!reject)
		{
			FlushOneBuffer(buffer);
			written = true;
		}
		LWLockRelease(content_lock);
		if (written)
			ScheduleBufferTagForWriteback(&BackendWritebackContext, &buf->tag);
	}
	ReleaseBuffer(buffer);
	return written;
}

/*
 * Core's choice, with its header locked, or NULL if all are pinned: what is only
 * wanted ahead is no reason to fail, as core does, and some of the pins may be our
 * own reads'.  Core has no lock when it raises that, the only error there is.
 */
static BufferDesc *
choose_victim(BufferAccessStrategy strategy, uint32 *state)
{
	BufferDesc *volatile buf = NULL;
	MemoryContext cxt = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;

	PG_TRY();
	{
		buf = StrategyGetBuffer(strategy, state);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_INTERNAL_ERROR)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
		/* the error reset them */
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
	}
	PG_END_TRY();
	return buf;
}

/*
 * A victim with a raw pin, clean when it was taken, or NULL: none in reasonable time,
 * or *all_pinned.  Raises what a failed write raises.
 */
BufferDesc *
aiostream_victim_get(BufferAccessStrategy strategy, bool *all_pinned)
{
	*all_pinned = false;
	for (int try = 0; try < MAX_TRIES; try++)
	{
		uint32		state;
		BufferDesc *buf = choose_victim(strategy, &state);
		BufferTag	tag;

		if (buf == NULL)
		{
			*all_pinned = true;
			return NULL;
		}

		/* its header is locked and nobody has it pinned */
		Assert(BUF_STATE_GET_REFCOUNT(state) == 0);
		Assert((state & BM_IO_IN_PROGRESS) == 0);
		if ((state & BM_DIRTY) == 0)
		{
			UnlockBufHdr(buf, state + BUF_REFCOUNT_ONE);
			return buf;
		}

		tag = buf->tag;
		UnlockBufHdr(buf, state);
		if (!clean_victim(strategy, buf, &tag))
			continue;

		state = LockBufHdr(buf);
		if (BUF_STATE_GET_REFCOUNT(state) == 0 &&
			(state & (BM_DIRTY | BM_IO_IN_PROGRESS)) == 0)
		{
			UnlockBufHdr(buf, state + BUF_REFCOUNT_ONE);
			return buf;
		}
		UnlockBufHdr(buf, state);
	}
	return NULL;
}

bool
aiostream_buffers_any_free(void)
{
	return have_free_buffer();
}

/*
 * Core keeps no count.  A buffer that holds nothing is on the free list, but for a
 * few that someone took from there and found no use for: none of them counts when
 * the list is empty.
 */
int
aiostream_buffers_free(void)
{
	int			n = 0;

	if (!have_free_buffer())
		return 0;
	for (int i = 0; i < NBuffers; i++)
		n += (pg_atomic_read_u32(&GetBufferDescriptor(i)->state) & BM_TAG_VALID) == 0;
	return n;
}
