/*
 * follower_write.c
 *		Behind a vacuum: the pages that it has left dirty are given to the I/O
 *		workers, which write them in large pieces.
 *
 * Without that, they come round dirty in the follower's ring, and the follower
 * itself has to write them, one by one.  So it reads no further ahead than
 * where the ring's pages have been given to the workers.
 */
#include "postgres.h"

#include "maintenance/follower_internal.h"
#include "miscadmin.h"

/*
 * The vacuum does not do so many pages between two looks at it: what lies in between
 * has been skipped, and is not looked through.
 */
#define SKIPPED_BLOCKS	4096

/* Part of a ring that may be on its way to the disk */
#define RING_IN_WRITING 4

struct AiostreamWriteBehind
{
	AiostreamWriteStream *stream;
	BlockNumber at;				/* where the vacuum was last */
};

AiostreamWriteBehind *
aiostream_write_behind_begin(AiostreamFollowed *table, Relation rel,
							 BlockNumber nblocks, BlockNumber start, bool dirtied_again)
{
	AiostreamWriteBehind *behind;

	if (!table->order->write_behind)
		return NULL;
	behind = palloc0(sizeof(AiostreamWriteBehind));
	behind->stream = aiostream_write_stream_begin(rel, MAIN_FORKNUM, nblocks,
												  table->order->combine, dirtied_again);
	behind->at = start;
	aiostream_write_stream_restart(behind->stream, start);
	return behind;
}

void
aiostream_write_behind_advance(AiostreamWriteBehind *behind, BlockNumber at)
{
	if (behind == NULL)
		return;
	if (at > behind->at && at - behind->at > SKIPPED_BLOCKS)
		aiostream_write_stream_restart(behind->stream, at);
	if (at > behind->at)
		behind->at = at;
	(void) aiostream_write_stream_advance(behind->stream, behind->at, false);
}

void
aiostream_write_behind_read(AiostreamWriteBehind *behind, AiostreamStream *reader,
							int ring)
{
	if (behind != NULL)
	{
		int64		room = Min(ring, NBuffers / 8);

		room -= room / RING_IN_WRITING;
		room -= aiostream_write_stream_backlog(behind->stream, behind->at);
		aiostream_stream_bound(reader, (int) Max(1, room));
	}
	aiostream_stream_ahead(reader);
}

uint64
aiostream_write_behind_blocks(const AiostreamWriteBehind *behind)
{
	return behind == NULL ? 0 : aiostream_write_stream_blocks(behind->stream);
}

void
aiostream_write_behind_end(AiostreamFollowed *table, AiostreamWriteBehind *behind,
						   BlockNumber at)
{
	if (behind == NULL)
		return;

	/*
	 * a last step over blocks that it has skipped is not looked through
	 * either
	 */
	if (at <= behind->at || at - behind->at > SKIPPED_BLOCKS)
		at = behind->at;
	while (aiostream_follower_wanted())
	{
		AiostreamWriteProgress progress =
		aiostream_write_stream_advance(behind->stream, at, true);

		if (progress == AIOSTREAM_WRITE_DONE)
			break;
		if (progress == AIOSTREAM_WRITE_BUSY)
			aiostream_follower_nap(1);
	}
	table->blocks_written += aiostream_write_stream_blocks(behind->stream);
	aiostream_write_stream_end(behind->stream);
	pfree(behind);
}
