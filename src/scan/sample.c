/*
 * sample.c
 *		Reading ahead of ANALYZE.
 *
 * Core draws the blocks of its sample one after the other and asks for them through
 * the callback scan_analyze_next_block, each when it is about to look at it.
 * Which ones follow nobody tells us, but they are determined by the seed that
 * core drew from the session's generator a moment before it began the scan.
 * The generator's step can be undone: we look at its state as the scan begins,
 * take two steps back (one is that of the sampling of rows), see what core drew, and
 * let core's own block sampler give us the same blocks.  How many, core publishes
 * for its progress view.
 *
 *		generator:	   s0 ---seed---> s1 ---rows---> s2		scan begins
 *						\________ step back ________/
 *
 * Nothing is decided here: it is core that asks for each block and looks at it.  If
 * it asks for another than we foresaw, the guess was wrong (somebody drew a number in
 * between, or the table grew), and look-ahead ends.  Nor is the generator
 * changed.
 *
 * Without track_activities there is no progress, and no look-ahead but core's.
 */
#include "postgres.h"

#include "commands/progress.h"
#include "common/pg_prng.h"
#include "guc.h"
#include "miscadmin.h"
#include "scan/scan_internal.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/rel.h"
#include "utils/sampling.h"

/* Fewer blocks are over before a stream is of use */
#define MIN_SAMPLE_BLOCKS	8
/* Of the kind that vacuum uses: dirty buffers are used again */
#define RING_BUFFERS		2048

struct AiostreamSample
{
	BlockSamplerData sampler;	/* core's, ahead of core's */
	AiostreamStream *stream;
	BufferAccessStrategy ring;	/* NULL: none */
};

/* The state before the generator's last step (xoroshiro128**, see pg_prng.c) */
static void
step_back(pg_prng_state *state)
{
	uint64		mixed = (state->s1 >> 37) | (state->s1 << 27);
	uint64		first = state->s0 ^ mixed ^ (mixed << 16);

	state->s0 = (first >> 24) | (first << 40);
	state->s1 = mixed ^ state->s0;
}

/* What core has just drawn for its sampler of blocks */
static uint32
seed_of_blocks(void)
{
	pg_prng_state state = pg_global_prng_state;

	step_back(&state);
	step_back(&state);
	return pg_prng_uint32(&state);
}

/* How many blocks core will sample, or 0 if it does not say */
static BlockNumber
blocks_to_sample(Relation rel)
{
	const PgBackendStatus *me = MyBEEntry;

	if (me == NULL || me->st_progress_command != PROGRESS_COMMAND_ANALYZE)
		return 0;
	return (BlockNumber) me->st_progress_param[PROGRESS_ANALYZE_BLOCKS_TOTAL];
}

/* The stream's callback */
static BlockNumber
next_block(AiostreamStream *stream, void *callback_private, void *per_block)
{
	AiostreamSample *sample = (AiostreamSample *) callback_private;

	return BlockSampler_HasMore(&sample->sampler) ?
		BlockSampler_Next(&sample->sampler) : InvalidBlockNumber;
}

AiostreamSample *
aiostream_sample_begin(Relation rel, BlockNumber nblocks)
{
	AiostreamStreamOptions options = {-1, -1, -1, aiostream_maintenance_io_concurrency, false, true, false};
	BlockNumber count = blocks_to_sample(rel);
	AiostreamSample *sample;

	if (count < MIN_SAMPLE_BLOCKS || count > nblocks || !aiostream_stream_usable(rel))
		return NULL;

	sample = palloc0(sizeof(AiostreamSample));
	(void) BlockSampler_Init(&sample->sampler, nblocks, (int) count, seed_of_blocks());
	sample->ring = aiostream_stream_vacuum_ring(RING_BUFFERS);
	sample->stream = aiostream_stream_begin(rel, MAIN_FORKNUM, nblocks, sample->ring,
											next_block, sample, 0, &options);
	return sample;
}

static void
give_up(AiostreamSample *sample)
{
	if (sample->stream != NULL)
		aiostream_stream_end(sample->stream);
	sample->stream = NULL;
}

Buffer
aiostream_sample_block(AiostreamSample *sample, BlockNumber blkno)
{
	BlockNumber foreseen;
	Buffer		buffer;

	if (sample->stream == NULL)
		return InvalidBuffer;
	if (!aiostream_stream_next(sample->stream, &foreseen, &buffer, NULL))
		foreseen = InvalidBlockNumber;
	if (foreseen == blkno)
		return buffer;
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	give_up(sample);
	return InvalidBuffer;
}

void
aiostream_sample_looked_up(AiostreamSample *sample, bool was_pinned, bool hit)
{
	if (sample->stream == NULL)
		return;
	if (was_pinned)
		aiostream_stream_uncount_hit(sample->stream);
	else
		aiostream_stream_core_read(sample->stream, hit);
}

void
aiostream_sample_end(AiostreamSample *sample)
{
	give_up(sample);
	if (sample->ring != NULL)
		FreeAccessStrategy(sample->ring);
	pfree(sample);
}
