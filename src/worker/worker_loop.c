/*
 * worker_loop.c
 *		Manners that both kinds of background workers share: signals,
 *		interrupts, reload of the configuration.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/procsignal.h"
#include "utils/guc.h"
#include "worker/worker_internal.h"

void
aiostream_worker_signals(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);

	/*
	 * Not "die": ending in the middle of a read would be an ERROR in the log
	 * at each shutdown, and the loop has to drain first in any case.
	 */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);

	/*
	 * Ignored by default in workers without a database connection, but it is
	 * how the postmaster reports that a worker we asked for has started or
	 * ended.
	 */
	pqsignal(SIGUSR1, procsignal_sigusr1_handler);

	BackgroundWorkerUnblockSignals();
}

void
aiostream_worker_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();

	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}
