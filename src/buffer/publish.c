/*
 * publish.c
 *		A read is complete: verify its pages and make them valid.
 *
 * Runs in any process, without error paths.  A page that did not arrive or is
 * not sound is left invalid with BM_IO_ERROR: whoever wants it reads it
 * through core, which raises its own error in its own words, or accepts the
 * page under zero_damaged_pages or ignore_checksum_failure as it always did.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"
#include "stats.h"

#include "storage/bufpage.h"
#include "storage/proc.h"

/* a setting of core's that no header declares */
extern PGDLLIMPORT bool ignore_checksum_failure;

/* In whatever process this is, accept only pages that are sound. */
static bool
page_is_sound(Page page, BlockNumber blkno)
{
	bool		save_ignore = ignore_checksum_failure;
	bool		ok;

	ignore_checksum_failure = false;
	ok = PageIsVerifiedExtended(page, blkno, 0);
	ignore_checksum_failure = save_ignore;
	return ok;
}

/*
 * End the I/O on one buffer, whose header is locked: its new state is "state"
 * less the I/O's pin, in one store.
 */
void
aiostream_buffer_end_io(BufferDesc *buf, uint32 state)
{
	int			waiter = -1;

	Assert((state & BM_IO_IN_PROGRESS) == 0);
	Assert(BUF_STATE_GET_REFCOUNT(state) > 0);

	state -= BUF_REFCOUNT_ONE;
	if ((state & BM_PIN_COUNT_WAITER) && BUF_STATE_GET_REFCOUNT(state) == 1)
	{
		waiter = buf->wait_backend_pgprocno;
		state &= ~BM_PIN_COUNT_WAITER;
	}
	UnlockBufHdr(buf, state);

	ConditionVariableBroadcast(BufferDescriptorGetIOCV(buf));
	if (waiter >= 0)
		ProcSendSignal(waiter);
}

/* A read of it has ended. */
static void
finish_buffer(BufferDesc *buf, bool valid)
{
	uint32		state = LockBufHdr(buf);

	Assert(state & BM_IO_IN_PROGRESS);
	Assert(state & BM_TAG_VALID);
	Assert((state & (BM_VALID | BM_DIRTY)) == 0);

	state &= ~(BM_IO_IN_PROGRESS | BM_IO_ERROR);
	state |= valid ? BM_VALID : BM_IO_ERROR;
	aiostream_buffer_end_io(buf, state);
}

/*
 * The engine's completion callback.  result: bytes read, or -errno.
 */
void
aiostream_buffer_publish(AiostreamIo *io, int32 result)
{
	BlockNumber first = aiostream_io_first_block(io);
	int			slot = aiostream_io_extra(io);
	int			n = aiostream_io_npieces(io);
	int			whole = result < 0 ? 0 : result / BLCKSZ;
	int			failed = 0;

	Assert(whole <= n);
	for (int i = 0; i < n; i++)
	{
		Buffer		buffer = aiostream_io_piece(io, i);
		BufferDesc *buf;
		Page		page;
		bool		ok = i < whole;

		if (!BufferIsValid(buffer))
			continue;			/* read through */
		buf = GetBufferDescriptor(buffer - 1);
		page = BufferGetPage(buffer);
		Assert(buf->tag.blockNum == first + i);
		if (ok && slot >= 0)
			memcpy(page, aiostream_bounce_block(slot, i), BLCKSZ);
		ok = ok && page_is_sound(page, first + i);
		if (!ok)
			failed++;
		finish_buffer(buf, ok);
	}
	if (slot >= 0)
		aiostream_bounce_release(slot);
	if (failed > 0)
		aiostream_count(AIOSTREAM_COUNT_FAILED_READS, failed);
}
