/*
 * engine.h
 *		Public interface of the I/O engine: asynchronous vectored reads, and
 *		writes by workers.
 *
 * The engine knows files, offsets and memory, nothing of relations or
 * buffers.  One AiostreamIo ("handle") is one preadv of adjacent bytes of one
 * file into up to AIOSTREAM_MAX_COMBINE pieces of SHARED memory.  When it
 * is done, the completion callback that the buffer layer registered runs in
 * WHICHEVER process saw the completion, and the handle is free again: nobody
 * owns anything afterwards.  See engine.c for invariants and states.
 *
 * Nothing here raises an error unless it says so.
 */
#ifndef AIOSTREAM_ENGINE_H
#define AIOSTREAM_ENGINE_H

#include <sys/uio.h>

#include "storage/block.h"

/* largest number of blocks in one request: 1 MB */
#define AIOSTREAM_MAX_COMBINE	((int) (1024 * 1024 / BLCKSZ))
/* longest path relative to the data directory that we can name */
#define AIOSTREAM_PATH_LEN		96
/* io_uring completion queue size: bounds a process's reads in flight */
#define AIOSTREAM_MAX_CONCURRENCY 128

typedef enum AiostreamMethodId
{
	AIOSTREAM_METHOD_AUTO,		/* as a setting only */
	AIOSTREAM_METHOD_IO_URING,
	AIOSTREAM_METHOD_WORKER,
	AIOSTREAM_METHOD_SYNC
} AiostreamMethodId;

/* Names a use of a handle: stale once the handle's generation has moved on. */
typedef struct AiostreamIoRef
{
	uint32		index;
	uint32		method;			/* AiostreamMethodId it went out with */
	uint64		generation;		/* 0: no I/O */
} AiostreamIoRef;

/*
 * An open file of this process.  "id" is unique over all processes and time
 * (since server start): workers cache descriptors by it, so a cached
 * descriptor can never belong to an older file of the same name.
 */
typedef struct AiostreamFile AiostreamFile;

typedef struct AiostreamIo AiostreamIo;

/*
 * Called when a read is complete.  result: bytes read from the start, or
 * -errno.  Must not raise; may run in any process, with the owner's ring
 * lock held; must not take heavyweight or buffer content locks.
 */
typedef void (*AiostreamCompletion) (AiostreamIo *io, int32 result);

/*
 * Executes a write, in an I/O worker or, where there is none, in the
 * submitter.  fd: the file, open for writing.  Must not raise.  The pages to
 * write are the callback's business: the engine carries its notes to it.
 */
typedef void (*AiostreamWriter) (AiostreamIo *io, int fd);

/* --- module and shared memory set-up (root only) --- */
extern void aiostream_engine_probe(void);	/* in _PG_init of a preload */
extern Size aiostream_engine_shmem_size(void);
extern void aiostream_engine_shmem_init(bool found);
extern void aiostream_engine_set_completion(AiostreamCompletion callback);
extern void aiostream_engine_set_writer(AiostreamWriter writer);
extern int	aiostream_engine_nlwlocks(void);

/* where most reads go to: read into it costs fewer page faults (populate.c) */
extern void aiostream_engine_set_memory(char *base, Size size);

/* --- what is in use --- */
extern bool aiostream_engine_ready(void);	/* shared memory is there */
extern AiostreamMethodId aiostream_engine_method(void); /* never AUTO */
extern const char *aiostream_method_name(AiostreamMethodId method);
extern const char *aiostream_engine_method_reason(void);

/* May a read be left in flight with this method now? (else: SYNC only) */
extern bool aiostream_engine_async_ok(AiostreamMethodId method);

/* --- files --- */
/*
 * Open "path" (relative to the data directory) for reading.  Returns NULL
 * with errno set if that is not possible.  Closed by aiostream_file_close
 * or when cxt is reset, whichever is first.  No locks needed, but the caller
 * must hold a lock that keeps the file from being replaced while open.
 */
extern AiostreamFile *aiostream_file_open(const char *path, bool direct,
										  MemoryContext cxt);

/* The same for writing; never direct. */
extern AiostreamFile *aiostream_file_open_for_write(const char *path,
													MemoryContext cxt);
extern void aiostream_file_close(AiostreamFile *file);

/* This process's descriptor, reopened if fd.c had closed it; -1 on failure. */
extern int	aiostream_file_fd(AiostreamFile *file);

/* --- one read --- */
/*
 * Take a free handle: NULL if the pool or this process's share
 * (aiostream.io_max_concurrency) is used up.  The caller fills iov, tag
 * etc. with the setters and must then submit or cancel it without anything
 * in between that can raise.
 */
extern AiostreamIo *aiostream_io_acquire(void);
extern void aiostream_io_cancel(AiostreamIo *io);

/* memory piece i; pieces must be added in order */
extern void aiostream_io_add(AiostreamIo *io, void *base, size_t len);

/* the caller's word about piece i (a buffer id), and about the whole */
extern void aiostream_io_set_piece(AiostreamIo *io, int i, int32 value);
extern int32 aiostream_io_piece(const AiostreamIo *io, int i);
extern int	aiostream_io_npieces(const AiostreamIo *io);
extern void aiostream_io_set_user(AiostreamIo *io, uint32 first_block, int32 extra);
extern uint32 aiostream_io_first_block(const AiostreamIo *io);
extern int32 aiostream_io_extra(const AiostreamIo *io);

/*
 * Submit.  If "method" cannot take it, the next lower one does
 * (io_uring -> worker -> sync), so that it always ends in a completion.  With
 * SYNC the completion has run when this returns.  The handle belongs to the
 * engine from here on; only the returned reference may be used.  The caller
 * holds off interrupts (HOLD_INTERRUPTS).
 */
extern AiostreamIoRef aiostream_io_submit(AiostreamIo *io, AiostreamFile *file,
										  off_t offset, AiostreamMethodId method);

/*
 * Between _begin and _end, reads that io_uring takes may be held back, to go to the
 * kernel together.  Whatever waits for one in this process sends them all first; so
 * do the end of a (sub)transaction and of the process.  Call _end after an error, too,
 * as it may take its time until then.  Others may be waiting for their pages: nothing is to be
 * waited for in between that depends on them.
 */
extern void aiostream_io_batch_begin(void);
extern void aiostream_io_batch_end(void);
extern void aiostream_io_batch_flush(void); /* before something that takes
											 * time */
extern bool aiostream_io_batching(void);

/* --- one write --- */
/* Notes for the writer: at most AIOSTREAM_NOTES_LEN bytes */
#define AIOSTREAM_NOTES_LEN 24
extern void aiostream_io_set_notes(AiostreamIo *io, const void *notes, size_t len);
extern const void *aiostream_io_notes(const AiostreamIo *io);

/* piece i without memory: the writer knows what it stands for */
extern void aiostream_io_add_note(AiostreamIo *io, int32 value);

/*
 * The writer's word to the submitter: a number, added to what it was told
 * before.  The sum is that of this process's life.
 */
extern void aiostream_io_tell_owner(AiostreamIo *io, uint32 n);
extern uint64 aiostream_io_told(void);

/*
 * Are there fewer writes under way than keep the workers busy?  Writes never
 * occupy all of them, so that reads are not held up.  A hint.
 */
extern bool aiostream_engine_write_ok(void);

/*
 * Have the writer executed by an I/O worker, or by this process if there is
 * none.  io_uring is never used: a write that the kernel has been given
 * outlives its process.  For the rest as aiostream_io_submit.
 */
extern AiostreamIoRef aiostream_io_submit_write(AiostreamIo *io,
												AiostreamFile *file, off_t offset);

/* Has it completed (and been published)? One load; invalid refs are done. */
extern bool aiostream_io_done(AiostreamIoRef ref);

/*
 * Wait until done; only the submitting process may.  Raises only what
 * CHECK_FOR_INTERRUPTS raises, and then the read simply stays in flight.
 */
extern void aiostream_io_wait(AiostreamIoRef ref);

/* Handle own completions that are already there; cheap if there are none. */
extern void aiostream_io_poll(void);

/*
 * Wait for every read of this process that is in flight.  Does not raise, does
 * not process interrupts.  Called at the end of a stream, at
 * (sub)transaction end before locks are released, and at exit.
 */
extern void aiostream_io_drain(void);
extern int	aiostream_io_inflight(void);	/* own reads in flight */

/* --- shares: how many blocks may be in flight --- */
/*
 * Limit over all processes, set at start-up by the buffer layer.  A process's
 * share is the limit divided by the number of processes with reads in
 * flight, at least one block.
 */
extern void aiostream_engine_set_block_limit(uint32 blocks);

/*
 * Reserve up to "want" pieces (blocks) for reads about to be submitted;
 * returns how many were granted, 0 if none.  Each submitted handle takes its
 * npieces with it; what is not submitted must be given back.
 */
extern int	aiostream_engine_reserve(int want);
extern void aiostream_engine_unreserve(int n);

/* Largest share a process alone could have */
extern uint32 aiostream_engine_block_limit(void);

/* --- for the background workers (worker/ only) --- */
extern void aiostream_engine_reaper_attach(void);
extern bool aiostream_engine_reap_others(void); /* true: something in flight */
extern void aiostream_engine_reaper_detach(void);	/* closes, then drains */
extern bool aiostream_engine_workers_wanted(void);
extern bool aiostream_engine_worker_attach(int slot);
extern bool aiostream_engine_worker_run_one(void);	/* false: queue empty */
extern void aiostream_engine_worker_idle(void); /* close cached files */
extern void aiostream_engine_worker_detach(void);	/* drains the queue */
extern int	aiostream_engine_nworkers(void);
extern bool aiostream_engine_worker_slot_busy(int slot);
#define AIOSTREAM_MAX_WORKERS 32

/* --- views --- */
typedef struct AiostreamIoStatus
{
	int			pid;
	char		path[AIOSTREAM_PATH_LEN];
	int64		offset;
	int64		length;
	bool		direct;
	AiostreamMethodId method;
	int64		age_us;
	const char *state;
} AiostreamIoStatus;

/* Copy of handle "index" if in use; returns false past the last or unused. */
extern int	aiostream_engine_nhandles(void);
extern bool aiostream_engine_status(int index, AiostreamIoStatus *status);
extern int	aiostream_engine_worker_pid(int slot);	/* 0: none */
extern bool aiostream_engine_reaper_running(int *pid);

#endif							/* AIOSTREAM_ENGINE_H */
