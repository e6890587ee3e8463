/*
 * shmem_engine.c
 *		The engine's shared memory.
 *
 * Handles are a pool for all processes: enough for a few dozen busy scans,
 * bounded for servers with many connections.  Ring memory is there for every
 * process that could want a ring (8 kB each), if io_uring is used at all.
 */
#include "postgres.h"

#include "engine/engine_internal.h"

#include "miscadmin.h"
#include "storage/shmem.h"

#define MIN_HANDLES 256
#define MAX_HANDLES 2048

AiostreamEngineShared *aiostream_engine = NULL;
AiostreamIo *aiostream_handles = NULL;
AiostreamProcessPadded *aiostream_processes = NULL;
uint32	   *aiostream_queue = NULL;
char	   *aiostream_rings = NULL;

static int
count_handles(void)
{
	return Max(MIN_HANDLES, Min(MAX_HANDLES, MaxBackends * 4));
}

static Size
rings_size(void)
{
	if (!aiostream_probed_uring)
		return 0;
	/* room to align the start */
	return add_size(mul_size(MaxBackends, AIOSTREAM_RING_MEMORY),
					AIOSTREAM_RING_PAGE);
}

int
aiostream_engine_nlwlocks(void)
{
	return 1;					/* names the tranche; our locks lie in our
								 * structs */
}

Size
aiostream_engine_shmem_size(void)
{
	Size		size = MAXALIGN(sizeof(AiostreamEngineShared));

	size = add_size(size, mul_size(count_handles(), sizeof(AiostreamIo)));
	size = add_size(size, mul_size(MaxBackends, sizeof(AiostreamProcessPadded)));
	size = add_size(size, mul_size(count_handles(), 2 * sizeof(uint32)));
	size = add_size(size, rings_size());
	return add_size(size, 5 * PG_CACHE_LINE_SIZE);
}

static void
init_shared(int tranche)
{
	AiostreamEngineShared *shared = aiostream_engine;

	memset(shared, 0, sizeof(*shared));
	shared->nhandles = count_handles();
	shared->nprocesses = MaxBackends;
	SpinLockInit(&shared->pool_lock);
	pg_atomic_init_u32(&shared->active, 0);
	pg_atomic_init_u32(&shared->blocks, 0);
	pg_atomic_init_u32(&shared->block_limit, 1);
	pg_atomic_init_u64(&shared->next_file_id, 1);
	pg_atomic_init_u32(&shared->told, 0);
	pg_atomic_init_u32(&shared->uring_inflight, 0);
	pg_atomic_init_u32(&shared->reaper_open, 0);
	pg_atomic_init_u32(&shared->reaper_asleep, 0);
	pg_atomic_init_u32(&shared->workers_wanted, 0);
	pg_atomic_init_u32(&shared->nwrites, 0);
	shared->reads.size = shared->writes.size = shared->nhandles;
	shared->writes.first = shared->nhandles;
	LWLockInitialize(&shared->queue_lock, tranche);

	for (int i = 0; i < shared->nhandles; i++)
	{
		AiostreamIo *io = &aiostream_handles[i];

		memset(io, 0, sizeof(*io));
		/* generation 0 means "no I/O" in references */
		pg_atomic_init_u64(&io->word, (UINT64CONST(1) << AIOSTREAM_STATE_BITS) |
						   AIOSTREAM_IO_FREE);
		io->index = i;
		io->next_free = i + 1 < shared->nhandles ? i + 1 : -1;
		ConditionVariableInit(&io->cv);
	}
	shared->first_free = 0;

	for (int i = 0; i < shared->nprocesses; i++)
	{
		AiostreamProcess *process = &aiostream_processes[i].process;

		memset(process, 0, sizeof(*process));
		LWLockInitialize(&process->ring_lock, tranche);
		pg_atomic_init_u32(&process->inflight, 0);
		pg_atomic_init_u32(&process->writes, 0);
		pg_atomic_init_u32(&process->blocks, 0);
		pg_atomic_init_u64(&process->told, 0);
		pg_atomic_init_u32(&process->ring_ready, 0);
	}
}

void
aiostream_engine_shmem_init(bool found)
{
	bool		found_one;

	aiostream_engine = ShmemInitStruct("aiostream engine",
									   sizeof(AiostreamEngineShared), &found_one);
	aiostream_handles = ShmemInitStruct("aiostream I/O handles",
										mul_size(count_handles(), sizeof(AiostreamIo)),
										&found_one);
	aiostream_processes = ShmemInitStruct("aiostream processes",
										  mul_size(MaxBackends, sizeof(AiostreamProcessPadded)),
										  &found_one);
	aiostream_queue = ShmemInitStruct("aiostream queue",
									  mul_size(count_handles(), 2 * sizeof(uint32)),
									  &found_one);
	aiostream_rings = NULL;
	if (rings_size() > 0)
	{
		aiostream_rings = ShmemInitStruct("aiostream rings", rings_size(), &found_one);
		aiostream_rings = (char *) TYPEALIGN(AIOSTREAM_RING_PAGE, aiostream_rings);
	}
	if (!found)
		init_shared(GetNamedLWLockTranche("aiostream")->lock.tranche);
}

bool
aiostream_engine_async_ok(AiostreamMethodId method)
{
	if (method == AIOSTREAM_METHOD_AUTO)
		method = aiostream_engine_method();
	if (method == AIOSTREAM_METHOD_IO_URING)
		return aiostream_rings != NULL && aiostream_engine_reaper_running(NULL);
	if (method == AIOSTREAM_METHOD_WORKER)
		return aiostream_engine->nworkers > 0;
	return false;
}
