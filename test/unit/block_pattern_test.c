/*
 * block_pattern_test.c
 *		The order in which a benchmark reads blocks: bench/block_pattern.c.
 *
 * The few functions of the server that it uses are replaced here: memory,
 * error reports (which jump back into the test), random numbers.
 *
 * link: src/bench/block_pattern.c
 */
#include "postgres.h"

#include <math.h>
#include <setjmp.h>

#include "bench/block_pattern.h"
#include "common/pg_prng.h"
#include "utils/memutils.h"

/* ---- the server, as far as it is used ---- */

#undef printf					/* the server's headers replace it */

MemoryContext CurrentMemoryContext = NULL;

static jmp_buf on_error;
static int	error_code;
static char error_hint[200];

void *
palloc0(Size size)
{
	return calloc(1, size);
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	return malloc(size);
}

bool
errstart(int elevel, const char *domain)
{
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return true;
}

int
errcode(int sqlerrcode)
{
	error_code = sqlerrcode;
	return 0;
}

int
errmsg(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	strncpy(error_hint, fmt, sizeof(error_hint) - 1);
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	longjmp(on_error, 1);
}

void
ExceptionalCondition(const char *conditionName, const char *errorType,
					 const char *fileName, int lineNumber)
{
	printf("Bail out! %s, %s:%d\n", conditionName, fileName, lineNumber);
	exit(1);
}

void
pg_prng_seed(pg_prng_state *state, uint64 seed)
{
	state->s0 = seed;
	state->s1 = 0;
}

static uint64
next_random(pg_prng_state *state)
{
	state->s0 = state->s0 * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return state->s0 >> 11;		/* 53 bits */
}

double
pg_prng_double(pg_prng_state *state)
{
	return ldexp((double) next_random(state), -53);
}

uint64
pg_prng_uint64_range(pg_prng_state *state, uint64 rmin, uint64 rmax)
{
	return rmin + next_random(state) % (rmax - rmin + 1);
}

/* ---- the tests ---- */

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
test_names(void)
{
	volatile bool raised = false;

	ok(aiostream_pattern_by_name("sequential") == AIOSTREAM_PATTERN_SEQUENTIAL, "sequential");
	ok(aiostream_pattern_by_name("backward") == AIOSTREAM_PATTERN_BACKWARD, "backward");
	ok(aiostream_pattern_by_name("sparse") == AIOSTREAM_PATTERN_SPARSE, "sparse");
	ok(aiostream_pattern_by_name("random") == AIOSTREAM_PATTERN_RANDOM, "random");

	if (setjmp(on_error) == 0)
		(void) aiostream_pattern_by_name("zigzag");
	else
		raised = true;
	ok(raised && error_code == ERRCODE_INVALID_PARAMETER_VALUE, "an unknown name is an invalid parameter");
	ok(strstr(error_hint, "sequential") && strstr(error_hint, "backward") &&
	   strstr(error_hint, "sparse") && strstr(error_hint, "random"), "the hint names all patterns");
}

static void
test_sequential(void)
{
	AiostreamBlockList *list;
	bool		good = true;

	list = aiostream_block_list(AIOSTREAM_PATTERN_SEQUENTIAL, 1000, 0.01, MaxBlockNumber);
	for (BlockNumber i = 0; i < list->count; i++)
		good = good && aiostream_block_list_get(list, i) == i;
	ok(good && list->count == 1000, "sequential: every block, ascending, whatever the fraction");

	list = aiostream_block_list(AIOSTREAM_PATTERN_BACKWARD, 1000, 0.01, MaxBlockNumber);
	good = true;
	for (BlockNumber i = 0; i < list->count; i++)
		good = good && aiostream_block_list_get(list, i) == 999 - i;
	ok(good && list->count == 1000, "backward: every block, descending");

	list = aiostream_block_list(AIOSTREAM_PATTERN_SEQUENTIAL, 1000, 1, 10);
	ok(list->count == 10 && aiostream_block_list_get(list, 9) == 9, "sequential: the first ones of a limited list");
	list = aiostream_block_list(AIOSTREAM_PATTERN_BACKWARD, 1000, 1, 10);
	ok(list->count == 10 && aiostream_block_list_get(list, 0) == 999 &&
	   aiostream_block_list_get(list, 9) == 990, "backward: the last ones of a limited list");
	list = aiostream_block_list(AIOSTREAM_PATTERN_SEQUENTIAL, MaxBlockNumber, 1, MaxBlockNumber);
	ok(list->count == MaxBlockNumber, "the largest relation");
}

/* each block in range, none twice; ascending if it has to be */
static bool
valid_list(const AiostreamBlockList *list, bool ascending)
{
	char	   *seen = calloc(1, list->nblocks);
	bool		good = true;

	for (BlockNumber i = 0; i < list->count; i++)
	{
		BlockNumber block = aiostream_block_list_get(list, i);

		if (block >= list->nblocks || seen[block] ||
			(ascending && i > 0 && block <= aiostream_block_list_get(list, i - 1)))
			good = false;
		else
			seen[block] = 1;
	}
	free(seen);
	return good;
}

static void
test_chosen(AiostreamPattern pattern, const char *name)
{
	static const double fractions[] = {1e-9, 0.001, 0.05, 0.2, 1.0 / 3, 0.5, 0.999, 1};
	bool		ascending = pattern == AIOSTREAM_PATTERN_SPARSE;
	bool		good = true;
	bool		counts = true;
	bool		limited = true;
	AiostreamBlockList *list;
	AiostreamBlockList *again;

	printf("# %s\n", name);
	for (BlockNumber nblocks = 1; nblocks <= 300; nblocks++)
		for (int f = 0; f < lengthof(fractions); f++)
		{
			list = aiostream_block_list(pattern, nblocks, fractions[f], MaxBlockNumber);
			good = good && valid_list(list, ascending);
			counts = counts && list->count == (BlockNumber) ceil(nblocks * fractions[f]);
			list = aiostream_block_list(pattern, nblocks, fractions[f], 7);
			good = good && valid_list(list, ascending);
			limited = limited && list->count <= 7;
		}
	ok(good, "no block twice, none outside, in the order that the pattern wants");
	ok(counts, "as many as the fraction says, rounded up");
	ok(limited, "not more than the limit");

	list = aiostream_block_list(pattern, 100000, 0.05, MaxBlockNumber);
	again = aiostream_block_list(pattern, 100000, 0.05, MaxBlockNumber);
	ok(valid_list(list, ascending) && list->count == 5000, "a large relation");
	ok(memcmp(list->blocks, again->blocks, sizeof(BlockNumber) * list->count) == 0,
	   "the same arguments give the same list");
}

/* A fraction is taken out of everywhere, to the same degree. */
static void
test_spread(void)
{
	AiostreamBlockList *list;
	int			in_part[10] = {0};
	int			steps_down = 0;
	bool		even = true;

	list = aiostream_block_list(AIOSTREAM_PATTERN_SPARSE, 100000, 0.05, MaxBlockNumber);
	for (BlockNumber i = 0; i < list->count; i++)
		in_part[aiostream_block_list_get(list, i) / 10000]++;
	for (int i = 0; i < 10; i++)
		even = even && abs(in_part[i] - 500) <= 2;
	ok(even, "sparse: equally dense everywhere");

	list = aiostream_block_list(AIOSTREAM_PATTERN_RANDOM, 100000, 0.05, MaxBlockNumber);
	for (BlockNumber i = 1; i < list->count; i++)
		steps_down += aiostream_block_list_get(list, i) < aiostream_block_list_get(list, i - 1);
	ok(steps_down > 2000 && steps_down < 3000, "random: goes down about as often as up");
}

static void
test_empty(void)
{
	static const AiostreamPattern patterns[] = {AIOSTREAM_PATTERN_SEQUENTIAL, AIOSTREAM_PATTERN_BACKWARD,
	AIOSTREAM_PATTERN_SPARSE, AIOSTREAM_PATTERN_RANDOM};
	bool		empty = true;

	for (int i = 0; i < lengthof(patterns); i++)
		empty = empty && aiostream_block_list(patterns[i], 0, 1, MaxBlockNumber)->count == 0;
	ok(empty, "an empty relation has nothing to read in any pattern");
}

int
main(void)
{
	test_names();
	test_sequential();
	test_chosen(AIOSTREAM_PATTERN_SPARSE, "sparse");
	test_chosen(AIOSTREAM_PATTERN_RANDOM, "random");
	test_spread();
	test_empty();
	printf("1..%d\n", tests);
	return failures > 0;
}
