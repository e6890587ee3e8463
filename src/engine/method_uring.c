/*
 * method_uring.c
 *		Method "io_uring": the owner's side of its ring.
 *
 * A process makes its ring at its first read, in its slot of shared memory, and
 * closes it at exit after its reads have landed.  A ring that cannot be made
 * (memlock, descriptors, seccomp) sends this process's reads to the I/O
 * workers for good.
 *
 * While the owner sleeps in io_uring_enter, completions are its own: the
 * kernel counts those that arrive from then on, so that a reaper taking the
 * last one away would leave it asleep.  Hence owner_waiting.
 *
 * Reads of a batch are queued and go to the kernel together, at the batch's end or
 * when this process is about to wait: a system call and a doorbell for all of them.
 */
#include "postgres.h"

#include "engine/uring_internal.h"
#include "faults.h"
#include "stats.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

/* Tries of a submission that the kernel could not take for the moment */
#define MAX_SUBMIT_ATTEMPTS 20
/* Sends of one read (short reads, EAGAIN) before it is left to core */
#define MAX_READ_ATTEMPTS	100

typedef enum RingState
{
	RING_NONE,
	RING_READY,
	RING_FAILED,				/* not to be had in this process */
	RING_CLOSED					/* exiting */
} RingState;

static RingState ring_state = RING_NONE;
static struct io_uring ring;

/* Reads with an SQE that have not gone to the kernel yet: while batching */
static bool batching = false;
static AiostreamIo *queued[AIOSTREAM_RING_ENTRIES];
static struct io_uring_sqe *queued_sqe[AIOSTREAM_RING_ENTRIES];
static int	nqueued = 0;

/* Make this process's ring; false if that fails, once and for all. */
static bool
make_ring(void)
{
	AiostreamProcess *me = aiostream_my_process;
	char	   *memory = aiostream_ring_memory(MyProc->pgprocno);
	struct io_uring_params params;
	int			fd;
	int			err = EMFILE;

	ring_state = RING_FAILED;
	if (aiostream_fault(AIOSTREAM_FAULT_RING_SETUP))
		err = ENOMEM;
	else if (AcquireExternalFD())
	{
		fd = aiostream_uring_setup(memory, &params);
		if (fd >= 0)
		{
			aiostream_uring_attach(&ring, fd, memory, &params);
			me->cq_head = params.cq_off.head;
			me->cq_tail = params.cq_off.tail;
			me->cq_mask = ring.cq.ring_mask;
			me->cq_cqes = params.cq_off.cqes;
			me->owner_waiting = false;
			me->reaper_pending = false;
			pg_write_barrier();
			pg_atomic_write_u32(&me->ring_ready, 1);
			ring_state = RING_READY;
			return true;
		}
		err = -fd;
		ReleaseExternalFD();
	}

	aiostream_count(AIOSTREAM_COUNT_FALLBACK_RING, 1);
	if (aiostream_tell_once(AIOSTREAM_TOLD_RING))
	{
		errno = err;
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not create an io_uring instance: %m"),
				 errdetail("This process reads through the I/O workers of aiostream instead."),
				 err == ENOMEM ?
				 errhint("Raise the limit on locked memory (LimitMEMLOCK=, ulimit -l) of the server.") :
				 err == EMFILE || err == ENFILE ?
				 errhint("Raise the limit on open files (LimitNOFILE=, ulimit -n) of the server.") : 0));
	}
	return false;
}

/*
 * Put an SQE for what is left of the read into the ring, without the file: fd.c may
 * close it and give its descriptor to another one before this is submitted.
 */
static bool
queue_read(AiostreamIo *io)
{
	static struct iovec rest[AIOSTREAM_MAX_COMBINE];
	struct io_uring_sqe *sqe;
	const struct iovec *iov = io->iov;
	int			niov = io->niov;
	uint64		generation = pg_atomic_read_u64(&io->word) >> AIOSTREAM_STATE_BITS;

	if (io->done > 0)
	{
		/* the kernel has copied it when submission returns */
		Assert(nqueued == 0);
		niov = aiostream_io_rest(io, rest);
		iov = rest;
	}

	sqe = io_uring_get_sqe(&ring);
	if (sqe == NULL)
		return false;			/* cannot happen: there is room, see below */
	io_uring_prep_readv(sqe, -1, iov, niov, io->offset + io->done);
	sqe->user_data = aiostream_uring_user_data(io->index, generation);
	queued[nqueued] = io;
	queued_sqe[nqueued++] = sqe;
	return true;
}

/*
 * Give what is queued its descriptors, as they are now.  Opening one may close
 * another; false: not all of them are open at the same time.
 */
static bool
set_descriptors(void)
{
	bool		all = false;

	/* one that opening others has closed is the last to be closed next time */
	for (int attempt = 0; attempt < 2 && !all; attempt++)
	{
		for (int i = 0; i < nqueued; i++)
		{
			if (aiostream_file_fd(queued[i]->file) < 0)
				return false;
		}
		all = true;
		for (int i = 0; i < nqueued; i++)
		{
			queued_sqe[i]->fd = aiostream_file_fd_if_open(queued[i]->file);
			all &= queued_sqe[i]->fd >= 0;
		}
	}
	return all;
}

/* io_uring_submit(), or for tests a kernel that looks at the first SQE only */
static int
send_queue(bool partial)
{
	if (!partial)
		return io_uring_submit(&ring);
	ring.sq.sqe_head = ring.sq.sqe_tail;
	io_uring_smp_store_release(ring.sq.ktail, ring.sq.sqe_tail);
	return io_uring_enter(ring.ring_fd, 1, 0, 0, NULL);
}

/*
 * Submit what is queued.  Returns how many of them, from the first on, the kernel
 * has taken; the ring holds nothing of the others.
 */
static int
submit_queued(void)
{
	int			taken = 0;
	int			attempts = 0;
	bool		ok = set_descriptors();
	bool		partial = aiostream_fault(AIOSTREAM_FAULT_RING_PARTIAL);

	while (ok && taken < nqueued)
	{
		int			ret;

		if (aiostream_fault(AIOSTREAM_FAULT_RING_SUBMIT))
			break;
		ret = send_queue(partial);
		if (ret > 0)
			taken += ret;
		else if ((ret != 0 && ret != -EINTR && ret != -EAGAIN && ret != -EBUSY) ||
				 ++attempts >= MAX_SUBMIT_ATTEMPTS)
			break;
		if (partial)
			break;
	}
	Assert(taken <= nqueued);

	/*
	 * Not taken: take it out of the ring again, or it would go out with the
	 * next one.  Nobody else looks at the submission queue (no SQPOLL).
	 */
	if (taken < nqueued)
	{
		ring.sq.sqe_head = ring.sq.sqe_tail = *ring.sq.khead;
		io_uring_smp_store_release(ring.sq.ktail, ring.sq.sqe_tail);
	}
	nqueued = 0;
	return taken;
}

/* Send one read at once. False: the kernel would not take it. */
static bool
send_read(AiostreamIo *io)
{
	Assert(nqueued == 0);
	return queue_read(io) && submit_queued() == 1;
}

void
aiostream_uring_flush(void)
{
	AiostreamIo *ios[AIOSTREAM_RING_ENTRIES];
	int			n = nqueued;
	int			taken;

	if (n == 0)
		return;
	memcpy(ios, queued, n * sizeof(ios[0]));
	if (aiostream_fault(AIOSTREAM_FAULT_BATCH_FILES))
		aiostream_file_lose_descriptors();
	taken = submit_queued();
	if (taken > 0)
		aiostream_reaper_wake();

	/* those taken may be anybody's by now, the others are still ours */
	for (int i = taken; i < n; i++)
	{
		pg_atomic_fetch_sub_u32(&aiostream_engine->uring_inflight, 1);
		aiostream_io_submit_elsewhere(ios[i]);
	}
}

bool
aiostream_uring_batching(void)
{
	return batching;
}

void
aiostream_uring_set_batching(bool on)
{
	batching = on;
	if (!on)
		aiostream_uring_flush();
}

static bool
uring_submit(AiostreamIo *io)
{
	bool		ok;

	if (ring_state == RING_NONE && aiostream_rings != NULL)
		make_ring();
	if (ring_state != RING_READY)
		return false;

	aiostream_io_populate(io);

	/*
	 * Count it before asking whether the reaper is there: one of us sees the
	 * other (reap.c).
	 */
	pg_atomic_fetch_add_u32(&aiostream_engine->uring_inflight, 1);
	ok = aiostream_reaper_accepts();
	if (ok && batching)
	{
		ok = queue_read(io);
		if (nqueued == AIOSTREAM_RING_ENTRIES)
			aiostream_uring_flush();
	}
	else if (ok)
	{
		/* The reaper may handle it before io_uring_submit even returns. */
		ok = send_read(io);
		if (ok)
			aiostream_reaper_wake();
	}
	if (!ok)
		pg_atomic_fetch_sub_u32(&aiostream_engine->uring_inflight, 1);
	return ok;
}

/*
 * Owner, with ring_lock held, for a read that came back incomplete: ask for
 * the rest.  False: it is to be completed as it is.
 */
bool
aiostream_uring_resubmit(AiostreamIo *io)
{
	Assert(io->owner == MyProc->pgprocno);
	if (ring_state != RING_READY || ++io->attempts >= MAX_READ_ATTEMPTS)
		return false;
	return send_read(io);
}

void
aiostream_uring_poll(void)
{
	AiostreamProcess *me = aiostream_my_process;

	aiostream_uring_flush();
	if (ring_state != RING_READY || !aiostream_ring_pending(me, MyProc->pgprocno))
		return;
	LWLockAcquire(&me->ring_lock, LW_EXCLUSIVE);
	aiostream_ring_consume(me, MyProc->pgprocno, true);
	LWLockRelease(&me->ring_lock);
}

static void
uring_wait(AiostreamIoRef ref)
{
	AiostreamProcess *me = aiostream_my_process;

	Assert(ring_state == RING_READY);
	aiostream_uring_flush();
	if (aiostream_io_done(ref) ||
		aiostream_io_by_index(ref.index)->method != AIOSTREAM_METHOD_IO_URING)
	{
		/* the kernel would not have it */
		aiostream_method_worker.wait(ref);
		return;
	}
	for (;;)
	{
		bool		done;
		int			ret;

		/* own reads complete under ring_lock only, so "done" is stable */
		LWLockAcquire(&me->ring_lock, LW_EXCLUSIVE);
		me->owner_waiting = false;
		aiostream_ring_consume(me, MyProc->pgprocno, true);
		done = aiostream_io_done(ref);
		me->owner_waiting = !done;
		LWLockRelease(&me->ring_lock);
		if (done)
			return;

		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
		ret = io_uring_enter(ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL);
		pgstat_report_wait_end();

		if (ret < 0 && InterruptPending && INTERRUPTS_CAN_BE_PROCESSED())
		{
			LWLockAcquire(&me->ring_lock, LW_EXCLUSIVE);
			me->owner_waiting = false;
			LWLockRelease(&me->ring_lock);
			CHECK_FOR_INTERRUPTS();
		}
	}
}

/* At exit, after the reads have landed: nothing is in the ring. */
void
aiostream_uring_exit(void)
{
	AiostreamProcess *me = aiostream_my_process;

	Assert(nqueued == 0);
	if (ring_state != RING_READY)
	{
		ring_state = RING_CLOSED;
		return;
	}
	LWLockAcquire(&me->ring_lock, LW_EXCLUSIVE);
	Assert(!aiostream_ring_pending(me, MyProc->pgprocno));
	pg_atomic_write_u32(&me->ring_ready, 0);
	LWLockRelease(&me->ring_lock);
	close(ring.ring_fd);
	ReleaseExternalFD();
	ring_state = RING_CLOSED;
}

const AiostreamMethod aiostream_method_uring = {
	.name = "io_uring",
	.submit = uring_submit,
	.wait = uring_wait,
};
