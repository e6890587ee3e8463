/*
 * claim.c
 *		Making a buffer ours for a read: tagged, "I/O in progress", pinned by
 *		the I/O itself.
 *
 * After a claim the buffer looks to everyone as if its reader were in the
 * middle of core's own read: others who want the page pin it and wait on its
 * I/O condition variable.  What is claimed must be submitted before control
 * leaves this layer.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"

/* Victims that others snatched away before look-ahead gives up for now */
#define MAX_TRIES 16

/* Where is the block now? InvalidBuffer if it is not in shared buffers. */
Buffer
aiostream_buffer_lookup(AiostreamTarget *target, BlockNumber blkno)
{
	return aiostream_buffer_find(target->rnode, target->fork, blkno);
}

Buffer
aiostream_buffer_find(RelFileNode rnode, ForkNumber fork, BlockNumber blkno)
{
	BufferTag	tag;
	uint32		hash;
	LWLock	   *lock;
	int			id;

	INIT_BUFFERTAG(tag, rnode, fork, blkno);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);
	LWLockAcquire(lock, LW_SHARED);
	id = BufTableLookup(&tag, hash);
	LWLockRelease(lock);
	return id < 0 ? InvalidBuffer : id + 1;
}

/*
 * Lock both mapping partitions, lower address first, as everyone does.
 */
static void
lock_partitions(LWLock *a, LWLock *b)
{
	if (b == NULL || a == b)
		LWLockAcquire(a, LW_EXCLUSIVE);
	else if (a < b)
	{
		LWLockAcquire(a, LW_EXCLUSIVE);
		LWLockAcquire(b, LW_EXCLUSIVE);
	}
	else
	{
		LWLockAcquire(b, LW_EXCLUSIVE);
		LWLockAcquire(a, LW_EXCLUSIVE);
	}
}

static void
unlock_partitions(LWLock *a, LWLock *b)
{
	if (b != NULL && b != a)
		LWLockRelease(b);
	LWLockRelease(a);
}

/* The header's new content: ours, in progress, one pin. */
static uint32
claimed_state(const AiostreamTarget *target, uint32 state)
{
	state &= ~(BM_VALID | BM_DIRTY | BM_JUST_DIRTIED | BM_CHECKPOINT_NEEDED |
			   BM_IO_ERROR | BM_PERMANENT | BUF_USAGECOUNT_MASK);
	state |= BM_TAG_VALID | BM_IO_IN_PROGRESS;
	if (!target->options.untouched)
		state |= BUF_USAGECOUNT_ONE;
	if (target->permanent || target->fork == INIT_FORKNUM)
		state |= BM_PERMANENT;
	return state;
}

/*
 * Claim a buffer for blkno.  Raises what aiostream_victim_get raises, and then
 * nothing has been claimed.  No locks held at entry or exit.
 */
AiostreamClaim
aiostream_buffer_claim(AiostreamTarget *target, BlockNumber blkno, Buffer *buffer)
{
	BufferTag	tag;
	uint32		hash;
	LWLock	   *lock;

	INIT_BUFFERTAG(tag, target->rnode, target->fork, blkno);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);

	for (int try = 0; try < MAX_TRIES; try++)
	{
		bool		all_pinned;
		BufferDesc *buf = aiostream_victim_get(target->strategy, &all_pinned);
		BufferTag	old_tag;
		uint32		old_hash = 0;
		LWLock	   *old_lock = NULL;
		uint32		state;
		int			id;

		if (buf == NULL)
			return all_pinned ? AIOSTREAM_CLAIM_ALL_PINNED : AIOSTREAM_CLAIM_NO_VICTIM;

		/* the pin keeps the tag from changing */
		if (pg_atomic_read_u32(&buf->state) & BM_TAG_VALID)
		{
			old_tag = buf->tag;
			old_hash = BufTableHashCode(&old_tag);
			old_lock = BufMappingPartitionLock(old_hash);
		}

		lock_partitions(lock, old_lock);
		id = BufTableInsert(&tag, hash, buf->buf_id);
		if (id >= 0)
		{
			/* somebody else has brought it in meanwhile */
			unlock_partitions(lock, old_lock);
			aiostream_victim_unpin(buf);
			*buffer = id + 1;
			return AIOSTREAM_CLAIM_PRESENT;
		}

		state = LockBufHdr(buf);
		if (BUF_STATE_GET_REFCOUNT(state) == 1 && (state & BM_DIRTY) == 0)
		{
			Assert((state & BM_IO_IN_PROGRESS) == 0);
			buf->tag = tag;
			UnlockBufHdr(buf, claimed_state(target, state));
			if (old_lock != NULL)
				BufTableDelete(&old_tag, old_hash);
			unlock_partitions(lock, old_lock);
			*buffer = BufferDescriptorGetBuffer(buf);
			return AIOSTREAM_CLAIM_OURS;
		}

		/* pinned or dirtied meanwhile: undo, and look for another */
		UnlockBufHdr(buf, state);
		BufTableDelete(&tag, hash);
		unlock_partitions(lock, old_lock);
		aiostream_victim_unpin(buf);
	}
	return AIOSTREAM_CLAIM_NO_VICTIM;
}
