/*
 * engine.c
 *		I/O handles: the pool, their states, submitting and waiting.
 *
 * Map of the folder
 *	engine.c		handles and their life (this file)
 *	shares.c		how many blocks a process may have in flight
 *	file.c			open files with an identity
 *	execute.c		doing a read on the spot
 *	populate.c		page faults, saved
 *	uring_ring.c	completion queues in shared memory
 *	reap.c			the reaper's side: completions of others
 *	method_uring.c, method_worker.c, method_sync.c
 *	io_queue.h		the I/O workers' queues of handles
 *	probe.c			which method works here
 *	shmem_engine.c	shared memory
 *
 * Invariants
 *	1. A handle is in exactly one state, changed by set_state() only.
 *	2. From SUBMITTED on it belongs to the engine.  Exactly one completion
 *	   runs for it, in whichever process sees the result, whatever becomes of
 *	   the owner; then its generation moves on and it is free.  Nobody owns
 *	   anything afterwards, so an aborted query leaks nothing.
 *	3. A reference (index, generation) is done iff the handle's generation is
 *	   another one.  A stale completion cannot be taken for a new one: the
 *	   generation is part of io_uring's user_data.
 *	4. The owner's exit and the end of its (sub)transaction wait for its
 *	   reads, before its locks go (invariant of the buffer layer: blocks are
 *	   read only under a lock that keeps the relation from being dropped).
 *	5. Only READS go to io_uring: a submitted io_uring write outlives its
 *	   process.  Writes are executed by I/O workers, or by the owner.
 *
 * States						by
 *	FREE -> DEFINED				owner			aiostream_io_acquire
 *	DEFINED -> FREE				owner			aiostream_io_cancel
 *	DEFINED -> SUBMITTED		owner			aiostream_io_submit
 *	SUBMITTED -> COMPLETED		any process		aiostream_io_complete
 *	COMPLETED -> FREE			same process	aiostream_io_complete
 */
#include "postgres.h"

#include "engine/engine_internal.h"
#include "faults.h"
#include "guc.h"
#include "stats.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/resowner.h"

AiostreamProcess *aiostream_my_process = NULL;

static AiostreamCompletion completion_callback = NULL;
static AiostreamWriter writer_callback = NULL;

/*
 * References to our own reads, for aiostream_io_drain.  Holds done ones too
 * until it is full; at most AIOSTREAM_MAX_CONCURRENCY are in flight.
 */
static AiostreamIoRef own[2 * AIOSTREAM_MAX_CONCURRENCY];
static int	nown = 0;
static bool process_exiting = false;

#define EXIT_POLL_US 1000

static void process_init(void);
static void process_exit_callback(int code, Datum arg);
static void resource_release_callback(ResourceReleasePhase phase, bool isCommit,
									  bool isTopLevel, void *arg);

void
aiostream_engine_set_completion(AiostreamCompletion callback)
{
	completion_callback = callback;
}

void
aiostream_engine_set_writer(AiostreamWriter writer)
{
	writer_callback = writer;
}

bool
aiostream_engine_ready(void)
{
	return aiostream_engine != NULL;
}

AiostreamIo *
aiostream_io_by_index(uint32 index)
{
	Assert(index < (uint32) aiostream_engine->nhandles);
	return &aiostream_handles[index];
}

/*
 * The one place where a handle's state changes.  Only one process at a time
 * is entitled to make the transition (see the table above), so that a plain
 * compare-and-exchange that must succeed does.
 */
static void
set_state(AiostreamIo *io, AiostreamIoState from, AiostreamIoState to)
{
	uint64		old = pg_atomic_read_u64(&io->word);
	uint64		generation = old >> AIOSTREAM_STATE_BITS;
	bool		ok PG_USED_FOR_ASSERTS_ONLY;

	Assert((old & AIOSTREAM_STATE_MASK) == (uint64) from);
	Assert((from == AIOSTREAM_IO_FREE && to == AIOSTREAM_IO_DEFINED) ||
		   (from == AIOSTREAM_IO_DEFINED && to == AIOSTREAM_IO_FREE) ||
		   (from == AIOSTREAM_IO_DEFINED && to == AIOSTREAM_IO_SUBMITTED) ||
		   (from == AIOSTREAM_IO_SUBMITTED && to == AIOSTREAM_IO_COMPLETED) ||
		   (from == AIOSTREAM_IO_COMPLETED && to == AIOSTREAM_IO_FREE));

	if (to == AIOSTREAM_IO_FREE)
		generation++;
	ok = pg_atomic_compare_exchange_u64(&io->word, &old,
										(generation << AIOSTREAM_STATE_BITS) | to);
	Assert(ok);
}

AiostreamIoRef
aiostream_io_ref(AiostreamIo *io)
{
	AiostreamIoRef ref;

	ref.index = io->index;
	ref.method = io->method;
	ref.generation = pg_atomic_read_u64(&io->word) >> AIOSTREAM_STATE_BITS;
	return ref;
}

bool
aiostream_io_done(AiostreamIoRef ref)
{
	uint64		word;

	if (ref.generation == 0)
		return true;
	word = pg_atomic_read_u64(&aiostream_io_by_index(ref.index)->word);
	if ((word >> AIOSTREAM_STATE_BITS) == ref.generation)
		return false;
	pg_read_barrier();
	return true;
}

static void
push_free(AiostreamIo *io)
{
	SpinLockAcquire(&aiostream_engine->pool_lock);
	io->next_free = aiostream_engine->first_free;
	aiostream_engine->first_free = io->index;
	SpinLockRelease(&aiostream_engine->pool_lock);
}

AiostreamIo *
aiostream_io_acquire(void)
{
	AiostreamIo *io = NULL;

	if (unlikely(aiostream_my_process == NULL))
		process_init();
	if (process_exiting)
		return NULL;
	if (pg_atomic_read_u32(&aiostream_my_process->inflight) >=
		(uint32) aiostream_io_max_concurrency ||
		aiostream_fault(AIOSTREAM_FAULT_NO_HANDLE))
		return NULL;

	SpinLockAcquire(&aiostream_engine->pool_lock);
	if (aiostream_engine->first_free >= 0)
	{
		io = &aiostream_handles[aiostream_engine->first_free];
		aiostream_engine->first_free = io->next_free;
	}
	SpinLockRelease(&aiostream_engine->pool_lock);
	if (io == NULL)
		return NULL;

	set_state(io, AIOSTREAM_IO_FREE, AIOSTREAM_IO_DEFINED);
	io->owner = MyProc->pgprocno;
	io->owner_pid = MyProcPid;
	io->op = AIOSTREAM_OP_READ;
	io->npieces = 0;
	io->niov = 0;
	io->length = 0;
	io->done = 0;
	io->attempts = 0;
	io->first_block = 0;
	io->extra = -1;
	return io;
}

void
aiostream_io_cancel(AiostreamIo *io)
{
	set_state(io, AIOSTREAM_IO_DEFINED, AIOSTREAM_IO_FREE);
	push_free(io);
}

void
aiostream_io_add(AiostreamIo *io, void *base, size_t len)
{
	struct iovec *last = io->niov > 0 ? &io->iov[io->niov - 1] : NULL;

	Assert(io->npieces < AIOSTREAM_MAX_COMBINE);
	Assert(len > 0);

	/* fewer, larger pieces where memory happens to be adjacent */
	if (last != NULL && (char *) last->iov_base + last->iov_len == (char *) base)
		last->iov_len += len;
	else
	{
		io->iov[io->niov].iov_base = base;
		io->iov[io->niov].iov_len = len;
		io->niov++;
	}
	io->npieces++;
	io->length += len;
}

void
aiostream_io_set_piece(AiostreamIo *io, int i, int32 value)
{
	Assert(i >= 0 && i < AIOSTREAM_MAX_COMBINE);
	io->piece[i] = value;
}

int32
aiostream_io_piece(const AiostreamIo *io, int i)
{
	Assert(i >= 0 && i < io->npieces);
	return io->piece[i];
}

int
aiostream_io_npieces(const AiostreamIo *io)
{
	return io->npieces;
}

void
aiostream_io_set_user(AiostreamIo *io, uint32 first_block, int32 extra)
{
	io->first_block = first_block;
	io->extra = extra;
}

uint32
aiostream_io_first_block(const AiostreamIo *io)
{
	return io->first_block;
}

int32
aiostream_io_extra(const AiostreamIo *io)
{
	return io->extra;
}

/*
 * Remember a read for drain.  Done ones are dropped when the array fills; as at
 * most half of it can be in flight, there is room afterwards.
 */
static void
remember_own(AiostreamIoRef ref)
{
	if (nown == lengthof(own))
	{
		int			keep = 0;

		for (int i = 0; i < nown; i++)
		{
			if (!aiostream_io_done(own[i]))
				own[keep++] = own[i];
		}
		nown = keep;
		Assert(nown <= AIOSTREAM_MAX_CONCURRENCY);
	}
	own[nown++] = ref;
}

void
aiostream_io_set_notes(AiostreamIo *io, const void *notes, size_t len)
{
	Assert(len <= sizeof(io->notes));
	memcpy(io->notes, notes, len);
}

const void *
aiostream_io_notes(const AiostreamIo *io)
{
	return io->notes;
}

void
aiostream_io_add_note(AiostreamIo *io, int32 value)
{
	Assert(io->npieces < AIOSTREAM_MAX_COMBINE);
	io->piece[io->npieces++] = value;
	io->length += BLCKSZ;
}

void
aiostream_io_tell_owner(AiostreamIo *io, uint32 n)
{
	if (n > 0)
		pg_atomic_fetch_add_u64(&aiostream_processes[io->owner].process.told, n);
}

uint64
aiostream_io_told(void)
{
	return aiostream_my_process == NULL ? 0 :
		pg_atomic_read_u64(&aiostream_my_process->told);
}

/* From here on the handle is the engine's. */
static AiostreamIoRef
begin_submit(AiostreamIo *io, AiostreamFile *file, off_t offset)
{
	AiostreamIoRef ref;

	Assert(io->owner == MyProc->pgprocno);
	Assert(io->npieces > 0);
	/* a message to the log would process interrupts */
	Assert(InterruptHoldoffCount > 0);

	io->file = file;
	io->file_id = aiostream_file_id(file);
	io->direct = aiostream_file_direct(file);
	strlcpy(io->path, aiostream_file_path(file), AIOSTREAM_PATH_LEN);
	io->offset = offset;
	INSTR_TIME_SET_CURRENT(io->submitted_at);
	ref = aiostream_io_ref(io);

	aiostream_share_begin(io);
	set_state(io, AIOSTREAM_IO_DEFINED, AIOSTREAM_IO_SUBMITTED);
	return ref;
}

/* io_uring had taken it, but the kernel did not: a worker, or this process, does it. */
void
aiostream_io_submit_elsewhere(AiostreamIo *io)
{
	io->method = AIOSTREAM_METHOD_WORKER;
	if (aiostream_method_worker.submit(io))
		return;
	io->method = AIOSTREAM_METHOD_SYNC;
	(void) aiostream_method_sync.submit(io);
}

/* To a worker, if there is one and it is wanted, else executed on the spot */
static AiostreamIoRef
submit_or_execute(AiostreamIo *io, AiostreamIoRef ref, bool worker)
{
	if (worker)
	{
		io->method = ref.method = AIOSTREAM_METHOD_WORKER;
		if (aiostream_method_worker.submit(io))
		{
			remember_own(ref);
			return ref;
		}
	}
	/* it takes its time, and others may be waiting for what is queued */
	aiostream_uring_flush();
	io->method = ref.method = AIOSTREAM_METHOD_SYNC;
	(void) aiostream_method_sync.submit(io);
	Assert(aiostream_io_done(ref));
	return ref;
}

AiostreamIoRef
aiostream_io_submit(AiostreamIo *io, AiostreamFile *file, off_t offset,
					AiostreamMethodId method)
{
	AiostreamIoRef ref;

	Assert(io->op == AIOSTREAM_OP_READ);
	if (method == AIOSTREAM_METHOD_AUTO)
		method = aiostream_engine_method();
	ref = begin_submit(io, file, offset);

	/* Once a method has taken it, it may be gone at any time. */
	if (method == AIOSTREAM_METHOD_IO_URING)
	{
		io->method = ref.method = AIOSTREAM_METHOD_IO_URING;
		if (aiostream_method_uring.submit(io))
		{
			remember_own(ref);
			return ref;
		}
		method = AIOSTREAM_METHOD_WORKER;
	}
	return submit_or_execute(io, ref, method == AIOSTREAM_METHOD_WORKER);
}

bool
aiostream_io_batching(void)
{
	return aiostream_uring_batching();
}

void
aiostream_io_batch_begin(void)
{
	aiostream_uring_set_batching(true);
}

void
aiostream_io_batch_end(void)
{
	aiostream_uring_set_batching(false);
}

void
aiostream_io_batch_flush(void)
{
	aiostream_uring_flush();
}

AiostreamIoRef
aiostream_io_submit_write(AiostreamIo *io, AiostreamFile *file, off_t offset)
{
	AiostreamIoRef ref;

	Assert(!aiostream_file_direct(file));
	io->op = AIOSTREAM_OP_WRITE;
	ref = begin_submit(io, file, offset);
	pg_atomic_fetch_add_u32(&aiostream_engine->nwrites, 1);
	return submit_or_execute(io, ref, true);
}

/* Counters of a completed read */
static void
count_completed(const AiostreamIo *io, int32 result)
{
	static const AiostreamCounter by_method[] = {
		[AIOSTREAM_METHOD_AUTO] = AIOSTREAM_COUNT_READS_SYNC,
		[AIOSTREAM_METHOD_IO_URING] = AIOSTREAM_COUNT_READS_IO_URING,
		[AIOSTREAM_METHOD_WORKER] = AIOSTREAM_COUNT_READS_WORKER,
		[AIOSTREAM_METHOD_SYNC] = AIOSTREAM_COUNT_READS_SYNC,
	};
	AiostreamCounter size;

	if (io->npieces < 2)
		size = AIOSTREAM_COUNT_COMBINED_1;
	else if (io->npieces < 8)
		size = AIOSTREAM_COUNT_COMBINED_2_7;
	else if (io->npieces < 16)
		size = AIOSTREAM_COUNT_COMBINED_8_15;
	else if (io->npieces < 32)
		size = AIOSTREAM_COUNT_COMBINED_16_31;
	else if (io->npieces < 64)
		size = AIOSTREAM_COUNT_COMBINED_32_63;
	else
		size = AIOSTREAM_COUNT_COMBINED_64_UP;

	aiostream_count(AIOSTREAM_COUNT_READS, 1);
	aiostream_count(size, 1);
	aiostream_count(by_method[io->method], 1);
	aiostream_count(io->direct ? AIOSTREAM_COUNT_READS_DIRECT :
					AIOSTREAM_COUNT_READS_BUFFERED, 1);
	if (result > 0)
		aiostream_count(AIOSTREAM_COUNT_READ_BYTES, result);
	if (io->owner != MyProc->pgprocno &&
		io->method == AIOSTREAM_METHOD_IO_URING)
		aiostream_count(AIOSTREAM_COUNT_REAPED, 1);
}

/* The handle of a completed request goes back to the pool; see the table. */
static void
recycle(AiostreamIo *io)
{
	set_state(io, AIOSTREAM_IO_COMPLETED, AIOSTREAM_IO_FREE);
	ConditionVariableBroadcast(&io->cv);
	push_free(io);
}

/*
 * A read is over: result is the bytes read from its start or -errno.  Called
 * by the methods, exactly once a handle, in any process, possibly with the
 * owner's ring_lock held.  Does not raise.
 */
void
aiostream_io_complete(AiostreamIo *io, int32 result)
{
	if (aiostream_fault(AIOSTREAM_FAULT_READ_ERROR))
		result = -EIO;
	else if (result > 0 && aiostream_fault(AIOSTREAM_FAULT_SHORT_READ))
		result /= 2;

	set_state(io, AIOSTREAM_IO_SUBMITTED, AIOSTREAM_IO_COMPLETED);

	HOLD_INTERRUPTS();
	count_completed(io, result);
	if (result >= 0 && (uint32) result < io->length)
		aiostream_count(AIOSTREAM_COUNT_SHORT_READS, 1);
	completion_callback(io, result);
	aiostream_share_end(io);
	if (io->method == AIOSTREAM_METHOD_IO_URING)
		pg_atomic_fetch_sub_u32(&aiostream_engine->uring_inflight, 1);
	recycle(io);
	RESUME_INTERRUPTS();
}

/*
 * Execute a write, here and now: the writer is told of a file that could not be
 * opened, too (fd -1), and leaves everything to core then.
 */
void
aiostream_io_execute_write(AiostreamIo *io, int fd)
{
	Assert(io->op == AIOSTREAM_OP_WRITE);
	HOLD_INTERRUPTS();
	writer_callback(io, fd);
	set_state(io, AIOSTREAM_IO_SUBMITTED, AIOSTREAM_IO_COMPLETED);
	aiostream_share_end(io);
	pg_atomic_fetch_sub_u32(&aiostream_engine->nwrites, 1);
	recycle(io);
	RESUME_INTERRUPTS();
}

void
aiostream_io_wait(AiostreamIoRef ref)
{
	if (aiostream_io_done(ref))
		return;
	if (ref.method == AIOSTREAM_METHOD_IO_URING)
		aiostream_method_uring.wait(ref);
	else if (ref.method == AIOSTREAM_METHOD_WORKER)
		aiostream_method_worker.wait(ref);
	Assert(aiostream_io_done(ref));
}

void
aiostream_io_poll(void)
{
	if (aiostream_my_process != NULL)
		aiostream_uring_poll();
}

int
aiostream_io_inflight(void)
{
	return aiostream_my_process == NULL ? 0 :
		(int) pg_atomic_read_u32(&aiostream_my_process->inflight);
}

/*
 * Wait for a worker at this process's exit.  A condition variable would begin the
 * exit anew if the postmaster is dead, in the middle of a transaction's abort
 * perhaps.  Then there is nobody left for whom it matters: what is in flight ends
 * in memory, or in a process, that the next postmaster waits for to be gone.
 */
static void
wait_at_exit(AiostreamIoRef ref)
{
	while (!aiostream_io_done(ref) && PostmasterIsAlive())
		pg_usleep(EXIT_POLL_US);
}

void
aiostream_io_drain(void)
{
	HOLD_INTERRUPTS();
	aiostream_io_batch_end();	/* left by an error, maybe */
	if (aiostream_io_inflight() == 0)
		nown = 0;
	for (int i = 0; i < nown; i++)
	{
		if (proc_exit_inprogress && !aiostream_io_done(own[i]) &&
			aiostream_io_by_index(own[i].index)->method == AIOSTREAM_METHOD_WORKER)
			wait_at_exit(own[i]);
		else
			aiostream_io_wait(own[i]);
	}
	nown = 0;
	RESUME_INTERRUPTS();
}

/* First use of the engine in this process. */
static void
process_init(void)
{
	Assert(aiostream_engine != NULL);
	Assert(MyProc != NULL && MyProc->pgprocno < aiostream_engine->nprocesses);

	aiostream_my_process = &aiostream_processes[MyProc->pgprocno].process;
	pg_atomic_write_u64(&aiostream_my_process->told, 0);
	before_shmem_exit(process_exit_callback, (Datum) 0);
	RegisterResourceReleaseCallback(resource_release_callback, NULL);
}

/*
 * Before this process's PGPROC can go to another: its reads must have landed.
 */
static void
process_exit_callback(int code, Datum arg)
{
	process_exiting = true;
	aiostream_io_drain();
	aiostream_uring_exit();
}

/*
 * Reads must have landed before the locks that make them legal are released:
 * at the end of the transaction, and when a subtransaction or a portal is
 * aborted (if it commits, its locks go to the parent).
 */
static void
resource_release_callback(ResourceReleasePhase phase, bool isCommit,
						  bool isTopLevel, void *arg)
{
	if (phase == RESOURCE_RELEASE_BEFORE_LOCKS && (!isCommit || isTopLevel))
		aiostream_io_drain();
}

bool
aiostream_tell_once(uint32 what)
{
	uint32		old = pg_atomic_fetch_or_u32(&aiostream_engine->told, what);

	return (old & what) == 0;
}

int
aiostream_engine_nhandles(void)
{
	return aiostream_engine->nhandles;
}

/*
 * A copy for the view: taken without a lock, so checked for having changed
 * meanwhile.
 */
bool
aiostream_engine_status(int index, AiostreamIoStatus *status)
{
	static const char *const names[] = {"free", "defined", "submitted", "completed"};
	AiostreamIo *io = aiostream_io_by_index(index);
	uint64		word = pg_atomic_read_u64(&io->word);
	instr_time	age;

	if ((word & AIOSTREAM_STATE_MASK) < AIOSTREAM_IO_SUBMITTED)
		return false;
	pg_read_barrier();
	status->pid = io->owner_pid;
	strlcpy(status->path, io->path, AIOSTREAM_PATH_LEN);
	status->offset = io->offset;
	status->length = io->length;
	status->direct = io->direct;
	status->method = io->method;
	status->state = names[word & AIOSTREAM_STATE_MASK];
	INSTR_TIME_SET_CURRENT(age);
	INSTR_TIME_SUBTRACT(age, io->submitted_at);
	status->age_us = INSTR_TIME_GET_MICROSEC(age);
	pg_read_barrier();
	return (pg_atomic_read_u64(&io->word) >> AIOSTREAM_STATE_BITS) ==
		(word >> AIOSTREAM_STATE_BITS);
}
