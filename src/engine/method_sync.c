/*
 * method_sync.c
 *		Method "sync": the owner reads, or writes, at once.  No look-ahead, but reads are
 *		still combined and direct; the last resort of the other methods.
 */
#include "postgres.h"

#include "engine/engine_internal.h"

#include "pgstat.h"
#include "utils/wait_event.h"

static bool
sync_submit(AiostreamIo *io)
{
	int			fd = aiostream_file_fd(io->file);
	int32		result;

	if (io->op == AIOSTREAM_OP_WRITE)
	{
		aiostream_io_execute_write(io, fd);
		return true;
	}
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
	result = fd < 0 ? -errno : aiostream_io_execute(io, fd);
	pgstat_report_wait_end();
	aiostream_io_complete(io, result);
	return true;
}

const AiostreamMethod aiostream_method_sync = {
	.name = "sync",
	.submit = sync_submit,
	.wait = NULL,
};
