/*
 * uring_ring.c
 *		Completion queues in shared memory: any process may consume them.
 *
 * The kernel posts completions into the owner's slot of shared memory
 * (IORING_SETUP_NO_MMAP), at the same address in every process, so that the
 * reaper can handle them without the owner's descriptor.  What it cannot do
 * is submit: the rest of a short read is the owner's to ask for, or is left
 * to core.
 */
#include "postgres.h"

#include "engine/engine_internal.h"
#include "engine/uring_internal.h"
#include "faults.h"

/*
 * Is anything in this process's completion queue? One or two loads, no lock;
 * only a hint if the caller does not hold ring_lock.
 */
bool
aiostream_ring_pending(AiostreamProcess *process, int procno)
{
	char	   *base = aiostream_ring_base(procno);

	if (pg_atomic_read_u32(&process->ring_ready) == 0)
		return false;
	return *(volatile uint32 *) (base + process->cq_head) !=
		*(volatile uint32 *) (base + process->cq_tail);
}

/* The consumer's position; only a hint without ring_lock. */
uint32
aiostream_ring_head(AiostreamProcess *process, int procno)
{
	return *(volatile uint32 *) (aiostream_ring_base(procno) + process->cq_head);
}

/*
 * One completion.  mine: we are the owner and may send the rest of it again.
 */
static void
handle_completion(uint64 user_data, int32 res, bool mine)
{
	AiostreamIo *io = aiostream_io_by_index(aiostream_uring_index(user_data));
	uint64		word = pg_atomic_read_u64(&io->word);

	/* Not a read that we know to be in flight: nothing of ours. */
	if ((word & AIOSTREAM_STATE_MASK) != AIOSTREAM_IO_SUBMITTED ||
		aiostream_uring_generation(word >> AIOSTREAM_STATE_BITS) !=
		aiostream_uring_generation_of(user_data))
	{
		Assert(false);
		return;
	}
	Assert(io->method == AIOSTREAM_METHOD_IO_URING);

	if (aiostream_fault(AIOSTREAM_FAULT_READ_AGAIN))
		res = -EAGAIN;

	if (res == -EAGAIN || res == -EINTR)
	{
		if (mine && aiostream_uring_resubmit(io))
			return;
	}
	else if (res > 0)
	{
		io->done += res;
		Assert(io->done <= io->length);
		if (io->done < io->length && mine && aiostream_uring_resubmit(io))
			return;
	}
	aiostream_io_complete(io, io->done > 0 ? (int32) io->done : res);
}

/*
 * Handle all completions that are there.  Caller holds process->ring_lock
 * exclusively.  Returns their number.
 */
int
aiostream_ring_consume(AiostreamProcess *process, int procno, bool mine)
{
	char	   *base = aiostream_ring_base(procno);
	unsigned   *khead = (unsigned *) (base + process->cq_head);
	unsigned   *ktail = (unsigned *) (base + process->cq_tail);
	struct io_uring_cqe *cqes = (struct io_uring_cqe *) (base + process->cq_cqes);
	unsigned	head;
	int			n = 0;

	Assert(LWLockHeldByMeInMode(&process->ring_lock, LW_EXCLUSIVE));
	Assert(pg_atomic_read_u32(&process->ring_ready) != 0);

	head = *khead;
	while (head != io_uring_smp_load_acquire(ktail))
	{
		/* copy before the kernel may overwrite it */
		struct io_uring_cqe *cqe = &cqes[head & process->cq_mask];
		uint64		user_data = cqe->user_data;
		int32		res = cqe->res;

		head++;
		io_uring_smp_store_release(khead, head);
		handle_completion(user_data, res, mine);
		n++;
	}
	return n;
}
