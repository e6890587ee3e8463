/*
 * gap_test.c
 *		Which gaps are read through: the pure functions of stream/gap.c, on models
 *		of devices.
 *
 * link: src/stream/gap.c
 */
#include <stdio.h>
#include <math.h>
#include <stdlib.h>

#include "stream/gap.h"

static int	tests = 0;
static int	failures = 0;

static void
ok(bool passed, const char *what)
{
	tests++;
	if (!passed)
		failures++;
	printf("%sok %d - %s\n", passed ? "" : "not ", tests, what);
}

static void
is(int got, int wanted, const char *what)
{
	ok(got == wanted, what);
	if (got != wanted)
		printf("#   got %d, wanted %d\n", got, wanted);
}

/* Largest request, in blocks */
#define LIMIT 64

/*
 * Wanted blocks a second from a device on which a request costs request_us and a block
 * block_us, where one in "one_in" blocks is wanted, at random.
 */
static double
device(double request_us, double block_us, double one_in, int gap)
{
	/* the next wanted block joins with this probability, "skip" blocks later */
	double		p = 1 - pow(1 - 1 / one_in, gap + 1);
	double		skip = 0;
	double		wanted;

	for (int k = 1; k <= gap + 1; k++)
		skip += k * pow(1 - 1 / one_in, k - 1) / one_in;
	skip /= p;
	wanted = fmin(1 / (1 - p), 1 + (LIMIT - 1) / skip);
	return wanted / (request_us + (1 + (wanted - 1) * skip) * block_us) * 1e6;
}

static int
learn(AiostreamGap *gap, int epochs, double request_us, double block_us, double one_in)
{
	for (int i = 0; i < epochs; i++)
		aiostream_gap_epoch(gap, device(request_us, block_us, one_in,
										aiostream_gap_blocks(gap)));
	return aiostream_gap_best(gap);
}

static void
test_init(void)
{
	AiostreamGap gap;

	aiostream_gap_init(&gap, 0);
	is(aiostream_gap_blocks(&gap), 0, "no gap at first");
	is(aiostream_gap_best(&gap), 0, "without an epoch, the best is what it began with");
	aiostream_gap_init(&gap, 3);
	is(aiostream_gap_blocks(&gap), 4, "choice 3 is a gap of 4 blocks");
	is(aiostream_gap_best(&gap), 3, "and is handed on");
	aiostream_gap_init(&gap, AIOSTREAM_GAP_CHOICES - 1);
	is(aiostream_gap_blocks(&gap), AIOSTREAM_GAP_LARGEST, "the last choice is the largest gap");
	aiostream_gap_init(&gap, AIOSTREAM_GAP_CHOICES);
	is(aiostream_gap_blocks(&gap), 0, "no choice beyond the last");
	aiostream_gap_init(&gap, -1);
	is(aiostream_gap_blocks(&gap), 0, "nor before the first");
}

/* What an epoch costs is bounded: a choice is left for a neighbour only. */
static void
test_steps(void)
{
	AiostreamGap gap;
	bool		neighbours = true;
	int			last;

	aiostream_gap_init(&gap, 2);
	last = gap.current;
	for (int i = 0; i < 200; i++)
	{
		aiostream_gap_epoch(&gap, 1000 + 37 * (i % 11));
		neighbours = neighbours && gap.current >= 0 &&
			gap.current < AIOSTREAM_GAP_CHOICES && abs(gap.current - last) <= 1;
		last = gap.current;
	}
	ok(neighbours, "steps lead to neighbours, and stay within the choices");
}

static void
test_devices(void)
{
	AiostreamGap gap;
	int			choice;

	aiostream_gap_init(&gap, 0);
	is(learn(&gap, 40, 0, 10, 5), 0, "a device that limits bytes: nothing is read through");
	aiostream_gap_init(&gap, 5);
	is(learn(&gap, 40, 0, 10, 5), 0, "nor if another stream had begun to");

	aiostream_gap_init(&gap, 0);
	ok(learn(&gap, 40, 100, 0.01, 10) >= 5, "a device that limits requests: large gaps");
	aiostream_gap_init(&gap, 6);
	ok(learn(&gap, 40, 100, 0.01, 10) >= 5, "also from above");

	/* a request costs as much as 4 blocks */
	aiostream_gap_init(&gap, 0);
	choice = learn(&gap, 60, 20, 5, 6);
	ok(choice >= 1 && choice <= 4, "in between: a gap near the break-even point");
	aiostream_gap_init(&gap, 6);
	ok(abs(learn(&gap, 60, 20, 5, 6) - choice) <= 1, "the same from above");

	/* far between: it makes no difference, so the smaller one */
	aiostream_gap_init(&gap, 0);
	is(learn(&gap, 40, 100, 10, 1000000), 0, "wanted blocks far apart: no gap");
}

/* Neighbours are tried again: the storage may have changed. */
static void
test_change(void)
{
	AiostreamGap gap;

	aiostream_gap_init(&gap, 0);
	(void) learn(&gap, 60, 0, 10, 5);
	is(gap.current, 0, "settled on no gap");
	(void) learn(&gap, 300, 100, 0.01, 10);
	ok(gap.current >= 4, "then requests become dear: it moves up");
	(void) learn(&gap, 600, 0, 10, 5);
	ok(gap.current <= 1, "then bytes: down again");
}

int
main(void)
{
	test_init();
	test_steps();
	test_devices();
	test_change();
	printf("1..%d\n", tests);
	return failures != 0;
}
