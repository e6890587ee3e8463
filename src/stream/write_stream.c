/*
 * write_stream.c
 *		Write-behind: what a process has dirtied and moved past is written in
 *		large pieces by the I/O workers.
 *
 * The caller says from time to time how far the process in question is; the
 * stream starts writes for what lies behind, as many as the engine likes to
 * have, and comes back for the rest at the next call.
 */
#include "postgres.h"

#include "buffer/buffer.h"
#include "guc.h"
#include "stream/stream.h"

/*
 * Looked through in one call, so that a caller hears of interrupts: each costs a
 * look into the buffer mapping table
 */
#define BLOCKS_A_CALL	8192

struct AiostreamWriteStream
{
	AiostreamTarget *target;
	BlockNumber nblocks;
	BlockNumber next;			/* blocks before it have been looked at */
	int			combine;		/* blocks a request */
	uint64		blocks;			/* dirty ones handed to workers */
};

AiostreamWriteStream *
aiostream_write_stream_begin(Relation rel, ForkNumber fork, BlockNumber nblocks,
							 int combine, bool dirtied_again)
{
	AiostreamWriteStream *stream = palloc0(sizeof(AiostreamWriteStream));
	AiostreamTargetOptions options = {
		.method = AIOSTREAM_METHOD_WORKER,
		.direct = AIOSTREAM_DIRECT_OFF,
		.combine = combine < 0 ? aiostream_io_combine_limit : combine,
		.concurrency = 1,
		.dirtied_again = dirtied_again,
	};

	stream->target = aiostream_target_open(rel, fork, nblocks, NULL, &options);
	stream->nblocks = nblocks;
	stream->combine = options.combine;
	return stream;
}

void
aiostream_write_stream_restart(AiostreamWriteStream *stream, BlockNumber next)
{
	stream->next = next;
}

AiostreamWriteProgress
aiostream_write_stream_advance(AiostreamWriteStream *stream, BlockNumber passed,
							   bool all)
{
	BlockNumber stop;

	passed = Min(passed, stream->nblocks);
	stop = passed > stream->next ?
		stream->next + Min(passed - stream->next, BLOCKS_A_CALL) : passed;
	while (stream->next < stop)
	{
		AiostreamCleaning cleaning;
		int			n = (int) Min(passed - stream->next, (BlockNumber) stream->combine);

		/* larger writes later are better than small ones now */
		if (!all && n < stream->combine)
			return AIOSTREAM_WRITE_DONE;
		n = aiostream_target_clean(stream->target, stream->next, n, &cleaning);
		if (n == 0)
			return AIOSTREAM_WRITE_BUSY;
		stream->next += n;
		stream->blocks += cleaning.blocks;
	}
	return stream->next < passed ? AIOSTREAM_WRITE_MORE : AIOSTREAM_WRITE_DONE;
}

BlockNumber
aiostream_write_stream_backlog(const AiostreamWriteStream *stream, BlockNumber passed)
{
	return passed > stream->next ? passed - stream->next : 0;
}

uint64
aiostream_write_stream_blocks(const AiostreamWriteStream *stream)
{
	return stream->blocks;
}

uint64
aiostream_write_stream_flushes_saved(void)
{
	return aiostream_io_told();
}

void
aiostream_write_stream_end(AiostreamWriteStream *stream)
{
	aiostream_target_close(stream->target);
	pfree(stream);
}
