/*
 * gap.c
 *		Learning which gaps are worth reading through.
 *
 * Where a device limits requests (cloud volumes), one request over a gap beats
 * two; where it limits bytes, it loses.  Which it is, only the rate of wanted
 * blocks tells.  So each choice's rate is remembered, the neighbours of the
 * choice in use are tried, and the stream moves to a neighbour that is better by
 * more than noise.  Smaller gaps win ties: they read less.
 */
#include "stream/gap.h"

/* A larger gap must be better by this factor */
#define GAIN 1.05
/* Neighbours are tried again after that many epochs: the load may have changed */
#define RETRY 16

void
aiostream_gap_init(AiostreamGap *gap)
{
	gap->current = 0;
	gap->epochs = 0;
	for (int i = 0; i < AIOSTREAM_GAP_CHOICES; i++)
		gap->rate[i] = 0;
}

int
aiostream_gap_blocks(const AiostreamGap *gap)
{
	return gap->current == 0 ? 0 : 1 << (gap->current - 1);
}

void
aiostream_gap_epoch(AiostreamGap *gap, double rate)
{
	int			i = gap->current;
	int			up = i + 1;
	int			down = i - 1;

	gap->rate[i] = gap->rate[i] == 0 ? rate : (gap->rate[i] + rate) / 2;
	gap->epochs++;

	if (down >= 0 && gap->rate[down] > 0 && gap->rate[i] < gap->rate[down] * GAIN)
		gap->current = down;	/* not worth what it reads in vain */
	else if (up < AIOSTREAM_GAP_CHOICES &&
			 (gap->rate[up] == 0 || gap->rate[up] > gap->rate[i] * GAIN))
		gap->current = up;
	else if (gap->epochs % RETRY == 0)
	{
		if (up < AIOSTREAM_GAP_CHOICES)
			gap->rate[up] = 0;
	}
}
