/*
 * faults.c
 *		Named points at which tests pause a process or make it fail.
 *
 * The state of a point is one atomic word, so that it can be asked for in
 * completion callbacks, where no lock may be waited for:
 *
 *		0				off
 *		1 .. N			fail that many times more
 *		FAULT_FAIL		fail until disarmed
 *		FAULT_PAUSE		pause until disarmed
 */
#include "postgres.h"

#include "faults.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(aiostream_debug_fault);
PG_FUNCTION_INFO_V1(aiostream_debug_fault_waiters);

#define FAULT_OFF	0
#define FAULT_FAIL	(PG_UINT32_MAX - 1)
#define FAULT_PAUSE PG_UINT32_MAX
#define FAULT_MAX_COUNT 1000000

#define PAUSE_POLL_MS 5

typedef struct FaultState
{
	pg_atomic_uint32 state;
	pg_atomic_uint32 waiters;	/* processes paused here */
} FaultState;

static FaultState *faults = NULL;

/* In the order of AiostreamFaultPoint */
static const char *const fault_names[] = {
	"read_error",
	"short_read",
	"read_again",
	"ring_setup",
	"ring_submit",
	"ring_partial",
	"batch_files",
	"batch_raise",
	"no_handle",
	"submitted",
	"worker_read",
	"reaper",
	"write_flush",
	"write_copied",
	"write_error",
	"write_written",
	"write_queue",
	"write_raise"
};

StaticAssertDecl(lengthof(fault_names) == AIOSTREAM_FAULT_MAX,
				 "each fault point must have a name");

Size
aiostream_faults_shmem_size(void)
{
	return sizeof(FaultState) * AIOSTREAM_FAULT_MAX;
}

void
aiostream_faults_shmem_init(bool found)
{
	int			i;

	faults = ShmemInitStruct("aiostream fault points",
							 aiostream_faults_shmem_size(), &found);
	if (found)
		return;

	for (i = 0; i < AIOSTREAM_FAULT_MAX; i++)
	{
		pg_atomic_init_u32(&faults[i].state, FAULT_OFF);
		pg_atomic_init_u32(&faults[i].waiters, 0);
	}
}

bool
aiostream_fault(AiostreamFaultPoint point)
{
	uint32		state;

	if (faults == NULL)
		return false;

	state = pg_atomic_read_u32(&faults[point].state);
	for (;;)
	{
		if (state == FAULT_OFF || state == FAULT_PAUSE)
			return false;
		if (state == FAULT_FAIL)
			return true;
		if (pg_atomic_compare_exchange_u32(&faults[point].state, &state, state - 1))
			return true;
	}
}

static void
leave_pause(int code, Datum arg)
{
	(void) code;
	pg_atomic_fetch_sub_u32(&faults[DatumGetInt32(arg)].waiters, 1);
}

/*
 * Waits by polling, and without the latch: a condition variable would end the
 * process at the postmaster's death, in the middle of a read that others wait for;
 * and our background workers handle SIGTERM by a flag, as backends do while
 * interrupts are held off.  An armed point never keeps a process from ending.
 */
void
aiostream_fault_pause(AiostreamFaultPoint point)
{
	FaultState *fault;

	if (faults == NULL ||
		pg_atomic_read_u32(&faults[point].state) != FAULT_PAUSE ||
		proc_exit_inprogress)
		return;

	fault = &faults[point];
	pg_atomic_fetch_add_u32(&fault->waiters, 1);
	PG_ENSURE_ERROR_CLEANUP(leave_pause, Int32GetDatum(point));
	{
		while (pg_atomic_read_u32(&fault->state) == FAULT_PAUSE &&
			   !ShutdownRequestPending && !ProcDiePending)
		{
			int			rc;

			rc = WaitLatch(NULL, WL_TIMEOUT | WL_POSTMASTER_DEATH,
						   PAUSE_POLL_MS, PG_WAIT_EXTENSION);
			if (rc & WL_POSTMASTER_DEATH)
				break;
			CHECK_FOR_INTERRUPTS();
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_pause, Int32GetDatum(point));
	leave_pause(0, Int32GetDatum(point));
}

static AiostreamFaultPoint
fault_by_name(const char *name)
{
	StringInfoData names;
	int			i;

	for (i = 0; i < AIOSTREAM_FAULT_MAX; i++)
	{
		if (strcmp(name, fault_names[i]) == 0)
			return (AiostreamFaultPoint) i;
	}

	initStringInfo(&names);
	for (i = 0; i < AIOSTREAM_FAULT_MAX; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", fault_names[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized fault point \"%s\"", name),
			 errhint("Fault points are %s.", names.data)));
}

/* off, pause, fail, or fail N (the next N times) */
static uint32
parse_action(const char *action)
{
	if (strcmp(action, "off") == 0)
		return FAULT_OFF;
	if (strcmp(action, "pause") == 0)
		return FAULT_PAUSE;
	if (strcmp(action, "fail") == 0)
		return FAULT_FAIL;
	if (strncmp(action, "fail ", 5) == 0)
	{
		char	   *end;
		long		n;

		errno = 0;
		n = strtol(action + 5, &end, 10);
		if (errno == 0 && end > action + 5 && *end == '\0' &&
			n > 0 && n <= FAULT_MAX_COUNT)
			return (uint32) n;
	}

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized fault action \"%s\"", action),
			 errhint("Actions are \"off\", \"pause\", \"fail\" and \"fail N\" with N from 1 to %d.",
					 FAULT_MAX_COUNT)));
}

static void
require_superuser(void)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to use fault points")));
}

/* aiostream_debug_fault(point text, action text) */
Datum
aiostream_debug_fault(PG_FUNCTION_ARGS)
{
	AiostreamFaultPoint point;
	uint32		state;

	aiostream_require_preload();
	require_superuser();

	point = fault_by_name(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	state = parse_action(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	pg_atomic_exchange_u32(&faults[point].state, state);
	PG_RETURN_VOID();
}

/* aiostream_debug_fault_waiters(point text) -> processes paused there now */
Datum
aiostream_debug_fault_waiters(PG_FUNCTION_ARGS)
{
	AiostreamFaultPoint point;

	aiostream_require_preload();
	require_superuser();

	point = fault_by_name(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_INT32((int32) pg_atomic_read_u32(&faults[point].waiters));
}
