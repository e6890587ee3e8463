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
aiostream_gap_init(AiostreamGap *gap, int choice)
{
	if (choice < 0 || choice >= AIOSTREAM_GAP_CHOICES)
		choice = 0;
	gap->current = choice;
	gap->epochs = 0;
	for (int i = 0; i < AIOSTREAM_GAP_CHOICES; i++)
		gap->rate[i] = 0;
}

int
aiostream_gap_blocks(const AiostreamGap *gap)
{
	return gap->current == 0 ? 0 : 1 << (gap->current - 1);
}

/* Is choice i, larger than j, worth what it reads in vain? Both were tried. */
static bool
pays(const AiostreamGap *gap, int i, int j)
{
	return gap->rate[i] >= gap->rate[j] * GAIN;
}

void
aiostream_gap_epoch(AiostreamGap *gap, double rate)
{
	int			i = gap->current;
	int			up = i + 1;
	int			down = i - 1;
	bool		can_up = up < AIOSTREAM_GAP_CHOICES;
	bool		can_down = down >= 0;

	gap->rate[i] = gap->rate[i] == 0 ? rate : (gap->rate[i] + rate) / 2;
	gap->epochs++;

	if (can_down && gap->rate[down] > 0 && !pays(gap, i, down))
		gap->current = down;
	else if (can_up && (gap->rate[up] == 0 || pays(gap, up, i)))
		gap->current = up;
	else if (can_down && gap->rate[down] == 0)
		gap->current = down;
	else if (gap->epochs % RETRY == 0)
	{
		if (can_up)
			gap->rate[up] = 0;
		if (can_down)
			gap->rate[down] = 0;
	}
}

int
aiostream_gap_best(const AiostreamGap *gap)
{
	int			best = -1;

	for (int i = 0; i < AIOSTREAM_GAP_CHOICES; i++)
	{
		if (gap->rate[i] > 0 && (best < 0 || pays(gap, i, best)))
			best = i;
	}
	return best < 0 ? gap->current : best;
}
