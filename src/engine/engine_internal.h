/*
 * engine_internal.h
 *		Shared structures of the engine.  Never leaves this folder.
 */
#ifndef AIOSTREAM_ENGINE_INTERNAL_H
#define AIOSTREAM_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "engine/io_queue.h"

#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/condition_variable.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

/*
 * States of a handle; see engine.c for who makes which transition.
 */
typedef enum AiostreamIoState
{
	AIOSTREAM_IO_FREE,			/* in the free list */
	AIOSTREAM_IO_DEFINED,		/* being filled in by its owner */
	AIOSTREAM_IO_SUBMITTED,		/* with the kernel or in the queue */
	AIOSTREAM_IO_COMPLETED		/* result known, completion running */
} AiostreamIoState;

#define AIOSTREAM_STATE_BITS	8
#define AIOSTREAM_STATE_MASK	((UINT64CONST(1) << AIOSTREAM_STATE_BITS) - 1)

typedef enum AiostreamIoOp
{
	AIOSTREAM_OP_READ,
	AIOSTREAM_OP_WRITE
} AiostreamIoOp;

struct AiostreamIo
{
	pg_atomic_uint64 word;		/* generation << 8 | state */
	uint32		index;
	int32		next_free;		/* under pool_lock */

	/* constant from DEFINED to FREE */
	int			owner;			/* pgprocno */
	int			owner_pid;
	AiostreamIoOp op;
	AiostreamMethodId method;
	bool		direct;
	uint64		file_id;
	char		path[AIOSTREAM_PATH_LEN];
	off_t		offset;
	uint32		length;
	int32		npieces;
	int32		niov;
	uint32		first_block;
	int32		extra;
	uint64		notes[AIOSTREAM_NOTES_LEN / sizeof(uint64)];
	instr_time	submitted_at;

	/* owner only, while SUBMITTED: to send the rest of a short read */
	AiostreamFile *file;
	uint32		done;			/* bytes read so far */
	uint32		attempts;

	ConditionVariable cv;		/* broadcast when done */
	int32		piece[AIOSTREAM_MAX_COMBINE];
	struct iovec iov[AIOSTREAM_MAX_COMBINE];
};

/* A process's ring, as other processes see it (they need no descriptor) */
#define AIOSTREAM_RING_ENTRIES	64
#define AIOSTREAM_RING_PAGE		4096
#define AIOSTREAM_RING_MEMORY	(2 * AIOSTREAM_RING_PAGE)	/* SQEs, rings */

typedef struct AiostreamProcess
{
	LWLock		ring_lock;		/* consuming the CQ; owner_waiting */
	pg_atomic_uint32 inflight;	/* reads and writes */
	pg_atomic_uint32 writes;	/* of these */
	pg_atomic_uint32 blocks;	/* pieces reserved or in flight */
	pg_atomic_uint64 told;		/* by writers; set to 0 when a process begins */
	pg_atomic_uint32 ring_ready;	/* CQ may be looked at */
	bool		owner_waiting;	/* in io_uring_enter: CQEs are his */
	uint32		cq_head;		/* offsets in the ring page */
	uint32		cq_tail;
	uint32		cq_mask;
	uint32		cq_cqes;
	uint32		reaper_seen;	/* reaper's: head at its last visit */
	bool		reaper_pending; /* reaper's: it saw something then */
} AiostreamProcess;

typedef union AiostreamProcessPadded
{
	AiostreamProcess process;
	char		pad[PG_CACHE_LINE_SIZE];
} AiostreamProcessPadded;

typedef struct AiostreamWorkerSlot
{
	int			pid;			/* 0: free */
	Latch	   *latch;
	bool		idle;
} AiostreamWorkerSlot;

typedef struct AiostreamEngineShared
{
	int			nhandles;
	int			nprocesses;

	slock_t		pool_lock;		/* free list */
	int32		first_free;

	/* accounting; see shares.c */
	pg_atomic_uint32 active;	/* processes with reads in flight */
	pg_atomic_uint32 blocks;	/* pieces reserved or in flight */
	pg_atomic_uint32 block_limit;
	pg_atomic_uint64 next_file_id;
	pg_atomic_uint32 told;		/* AIOSTREAM_TOLD_*: said once */

	/* reaper; see reap.c */
	pg_atomic_uint32 uring_inflight;
	pg_atomic_uint32 reaper_open;	/* io_uring reads may be left in flight */
	pg_atomic_uint32 reaper_asleep;
	int			reaper_pid;
	Latch	   *reaper_latch;

	/* queues of the I/O workers; see method_worker.c */
	LWLock		queue_lock;
	AiostreamQueue reads;
	AiostreamQueue writes;
	int			nworkers;
	int			nwriting;		/* workers executing a write */
	int			reads_in_a_row; /* taken while a write was waiting */
	pg_atomic_uint32 workers_wanted;
	pg_atomic_uint32 nwrites;	/* in the queue or being executed */
	AiostreamWorkerSlot workers[AIOSTREAM_MAX_WORKERS];
} AiostreamEngineShared;

#define AIOSTREAM_TOLD_NO_REAPER	1
#define AIOSTREAM_TOLD_RING			2
#define AIOSTREAM_TOLD_NO_WORKER	4

extern AiostreamEngineShared *aiostream_engine;
extern AiostreamIo *aiostream_handles;
extern AiostreamProcessPadded *aiostream_processes;
extern uint32 *aiostream_queue; /* nhandles entries for each queue */
extern char *aiostream_rings;	/* page aligned; NULL if io_uring is not used */

/* Writes for each worker that may write: in a queue, or being executed */
#define AIOSTREAM_WRITES_A_WORKER 4

/*
 * A way to have reads done.  One const table each.
 */
typedef struct AiostreamMethod
{
	const char *name;

	/*
	 * Called by the owner with the handle SUBMITTED and fully filled in.
	 * False: it could not be taken, and nothing has happened to it; the next
	 * lower method is tried.  True: a completion follows or has run.
	 */
	bool		(*submit) (AiostreamIo *io);

	/*
	 * Owner waits until ref is done.  May process interrupts, and so raise,
	 * unless they are held off.  NULL: complete when submit returns.
	 */
	void		(*wait) (AiostreamIoRef ref);
} AiostreamMethod;

extern const AiostreamMethod aiostream_method_uring;
extern const AiostreamMethod aiostream_method_worker;
extern const AiostreamMethod aiostream_method_sync;

/* engine.c */
extern AiostreamProcess *aiostream_my_process;	/* NULL until first use */
extern void aiostream_io_complete(AiostreamIo *io, int32 result);
extern AiostreamIo *aiostream_io_by_index(uint32 index);
extern AiostreamIoRef aiostream_io_ref(AiostreamIo *io);
extern void aiostream_io_submit_elsewhere(AiostreamIo *io);

/* execute.c */
extern int32 aiostream_io_execute(AiostreamIo *io, int fd);
extern void aiostream_io_execute_write(AiostreamIo *io, int fd);
extern int	aiostream_io_rest(const AiostreamIo *io, struct iovec *iov);

/* populate.c */
extern void aiostream_io_populate(const AiostreamIo *io);

/* shares.c */
extern void aiostream_share_begin(AiostreamIo *io);
extern void aiostream_share_end(AiostreamIo *io);

/* file.c */
extern int	aiostream_file_fd_if_open(const AiostreamFile *file);	/* or -1; opens none */
extern uint64 aiostream_file_id(const AiostreamFile *file);
extern const char *aiostream_file_path(const AiostreamFile *file);
extern void aiostream_file_no_readahead(int fd);
extern bool aiostream_file_direct(const AiostreamFile *file);
extern void aiostream_file_lose_descriptors(void);	/* for tests */

/* uring_ring.c: consuming a completion queue in shared memory */
extern bool aiostream_ring_pending(AiostreamProcess *process, int procno);
extern uint32 aiostream_ring_head(AiostreamProcess *process, int procno);
extern int	aiostream_ring_consume(AiostreamProcess *process, int procno,
								   bool mine);

/* method_uring.c */
extern void aiostream_uring_poll(void);
extern void aiostream_uring_exit(void);
extern void aiostream_uring_set_batching(bool on);
extern bool aiostream_uring_batching(void);
extern void aiostream_uring_flush(void);	/* what is queued to the kernel */
extern bool aiostream_uring_resubmit(AiostreamIo *io);

/* reap.c */
extern void aiostream_reaper_wake(void);
extern bool aiostream_reaper_accepts(void);

/* probe.c */
extern AiostreamMethodId aiostream_probed_method;
extern bool aiostream_probed_uring;

/* Say something once per server start, in the server log */
extern bool aiostream_tell_once(uint32 what);

#endif							/* AIOSTREAM_ENGINE_INTERNAL_H */
