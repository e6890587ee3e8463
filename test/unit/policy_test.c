/*
 * policy_test.c
 *		How far a stream looks ahead: the pure functions of stream/policy.c.
 *
 * link: src/stream/policy.c
 */
#include <stdio.h>
#include <string.h>

#include "stream/policy.h"

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

/* ---- what a consumer may see, many times over ---- */

static void
waited(AiostreamPolicy *policy, int n)
{
	while (n-- > 0)
		aiostream_policy_waited(policy);
}

static void
found(AiostreamPolicy *policy, int n)
{
	while (n-- > 0)
		aiostream_policy_found(policy);
}

/* ---- the start ---- */

static void
test_init(void)
{
	AiostreamPolicy policy;

	memset(&policy, 0x7f, sizeof(policy));
	aiostream_policy_init(&policy, 512, 32, false);
	is(policy.distance, AIOSTREAM_POLICY_START, "look-ahead starts short");
	is(policy.max, 512, "the limit is kept");
	is(policy.combine, 32, "the request size is kept");
	is(policy.found, 0, "nothing found yet");
	ok(!aiostream_policy_collapsed(&policy), "a fresh policy is not collapsed");

	aiostream_policy_init(&policy, 1, 32, false);
	is(policy.distance, 1, "the start respects a limit of 1");

	aiostream_policy_init(&policy, 0, 0, false);
	is(policy.max, 1, "a limit of 0 becomes 1");
	is(policy.combine, 1, "requests of 0 blocks become 1");
	is(policy.distance, 1, "a distance of 0 is never used");

	aiostream_policy_init(&policy, -5, -5, false);
	is(policy.max, 1, "a negative limit becomes 1");
	is(policy.combine, 1, "a negative request size becomes 1");

	aiostream_policy_init(&policy, 512, 32, true);
	is(policy.distance, 512, "fixed: the whole distance from the start");

	aiostream_policy_init(&policy, 512, 32, false);
	aiostream_policy_hurry(&policy);
	is(policy.distance, 128, "in a hurry: a quarter of it");
	aiostream_policy_init(&policy, 3, 1, false);
	aiostream_policy_hurry(&policy);
	is(policy.distance, AIOSTREAM_POLICY_START, "a quarter that is less than the start");
	aiostream_policy_init(&policy, 512, 32, true);
	aiostream_policy_hurry(&policy);
	is(policy.distance, 512, "fixed stays fixed");
}

/* ---- growth ---- */

static void
test_growth(void)
{
	AiostreamPolicy policy;
	int			before;
	int			n;

	aiostream_policy_init(&policy, 512, 32, false);
	waited(&policy, 1);
	is(policy.distance, 2 * AIOSTREAM_POLICY_START, "a wait doubles the distance");
	waited(&policy, 1);
	is(policy.distance, 4 * AIOSTREAM_POLICY_START, "so does the next");

	aiostream_policy_init(&policy, 1 << 20, 32, false);
	for (n = 0; policy.distance < policy.max && n < 100; n++)
		waited(&policy, 1);
	is(n, 19, "a million blocks are 19 waits away");
	waited(&policy, 10);
	is(policy.distance, 1 << 20, "the limit holds");

	aiostream_policy_init(&policy, 100, 32, false);
	waited(&policy, 50);
	is(policy.distance, 100, "a limit that is no power of two is reached, not passed");

	/* far enough: neither grows nor shrinks */
	aiostream_policy_init(&policy, 512, 32, false);
	waited(&policy, 5);
	before = policy.distance;
	for (n = 0; n < 1000; n++)
		aiostream_policy_in_time(&policy);
	is(policy.distance, before, "blocks that are there in time change nothing");

	/* unless requests are small */
	aiostream_policy_init(&policy, 512, 32, false);
	for (n = 0; n < 1000; n++)
		aiostream_policy_in_time(&policy);
	is(policy.distance, 32, "but requests grow to full ones");
}

static void
test_on_the_spot(void)
{
	AiostreamPolicy policy;

	/* synchronous reads: more than a full request is of no use */
	aiostream_policy_init(&policy, 512, 32, false);
	for (int i = 0; i < 100; i++)
		aiostream_policy_on_the_spot(&policy);
	is(policy.distance, 32, "read on the spot: one full request ahead");

	aiostream_policy_init(&policy, 512, 24, false);
	for (int i = 0; i < 100; i++)
		aiostream_policy_on_the_spot(&policy);
	ok(policy.distance >= 24 && policy.distance < 48,
	   "a request size that is no power of two: at least one, less than two");

	aiostream_policy_init(&policy, 8, 32, false);
	for (int i = 0; i < 100; i++)
		aiostream_policy_on_the_spot(&policy);
	is(policy.distance, 8, "read on the spot: the limit holds");

	aiostream_policy_init(&policy, 512, 32, false);
	waited(&policy, 10);
	aiostream_policy_on_the_spot(&policy);
	is(policy.distance, 512, "read on the spot: a longer distance is left alone");
}

/* ---- shrinking, and the end of look-ahead ---- */

static void
test_shrink(void)
{
	AiostreamPolicy policy;

	aiostream_policy_init(&policy, 512, 32, false);
	waited(&policy, 10);
	found(&policy, AIOSTREAM_POLICY_PATIENCE);
	is(policy.distance, 512, "some blocks found do not shorten the look-ahead");
	found(&policy, 1);
	is(policy.distance, 511, "the next one does, by one block");
	found(&policy, 100);
	is(policy.distance, 411, "and each one after it");

	/* a single miss in between starts the count anew */
	aiostream_policy_in_time(&policy);
	found(&policy, AIOSTREAM_POLICY_PATIENCE);
	is(policy.distance, 411, "a read block makes it patient again");
	aiostream_policy_on_the_spot(&policy);
	found(&policy, AIOSTREAM_POLICY_PATIENCE);
	is(policy.distance, 411, "so does one read on the spot");
	found(&policy, 1);
	is(policy.distance, 410, "then it goes on");
	waited(&policy, 1);
	is(policy.distance, 512, "a wait brings it back at once");
	found(&policy, AIOSTREAM_POLICY_PATIENCE);
	is(policy.distance, 512, "and makes it patient");

	found(&policy, 100000);
	is(policy.distance, 1, "the distance never falls below one");
}

static void
test_collapse(void)
{
	AiostreamPolicy policy;
	int			n;

	aiostream_policy_init(&policy, 512, 32, false);
	for (n = 0; !aiostream_policy_collapsed(&policy) && n < 10000; n++)
		found(&policy, 1);
	is(n, AIOSTREAM_POLICY_PATIENCE + AIOSTREAM_POLICY_START - 1,
	   "a stream that only finds blocks collapses soon");

	aiostream_policy_init(&policy, 512, 32, false);
	waited(&policy, 10);
	for (n = 0; !aiostream_policy_collapsed(&policy) && n < 10000; n++)
		found(&policy, 1);
	is(n, AIOSTREAM_POLICY_PATIENCE + 511, "from the limit it takes the distance");

	aiostream_policy_in_time(&policy);
	ok(!aiostream_policy_collapsed(&policy), "a block that had to be read ends the collapse");
	aiostream_policy_init(&policy, 512, 32, false);
	found(&policy, 1000);
	waited(&policy, 1);
	ok(!aiostream_policy_collapsed(&policy), "so does a wait");
	is(policy.distance, 2, "from where it starts at 2 blocks again");

	/* a limit of one block: no collapse by the distance alone */
	aiostream_policy_init(&policy, 1, 1, false);
	ok(!aiostream_policy_collapsed(&policy), "limit 1: not collapsed at the start");
	waited(&policy, 5);
	is(policy.distance, 1, "limit 1: no growth");
	found(&policy, AIOSTREAM_POLICY_PATIENCE - 1);
	ok(!aiostream_policy_collapsed(&policy), "limit 1: patient as well");
	found(&policy, 1);
	ok(aiostream_policy_collapsed(&policy), "limit 1: collapses when all is found");

	/* every other block found: look-ahead goes on */
	aiostream_policy_init(&policy, 512, 32, false);
	for (n = 0; n < 10000; n++)
	{
		found(&policy, 1);
		aiostream_policy_in_time(&policy);
	}
	ok(!aiostream_policy_collapsed(&policy), "a half cached table does not collapse it");
	is(policy.distance, 32, "nor shorten it below a full request");
}

static void
test_fixed(void)
{
	AiostreamPolicy policy;

	aiostream_policy_init(&policy, 100, 32, true);
	found(&policy, 10000);
	is(policy.distance, 100, "fixed: blocks found do not shorten it");
	ok(!aiostream_policy_collapsed(&policy), "fixed: never collapses");
	waited(&policy, 10);
	is(policy.distance, 100, "fixed: waits do not change it");
	aiostream_policy_init(&policy, 1, 1, true);
	found(&policy, 10000);
	ok(!aiostream_policy_collapsed(&policy), "fixed at 1: never collapses");
}

/* ---- when to ask ---- */

static void
test_ask(void)
{
	AiostreamPolicy policy;
	int			asked;

	aiostream_policy_init(&policy, 512, 32, false);
	waited(&policy, 4);			/* distance 32 */
	is(policy.distance, 32, "(a distance of 32)");

	ok(!aiostream_policy_ask(&policy, 0, false, false, 0), "nothing pending: nothing to ask for");
	ok(!aiostream_policy_ask(&policy, 0, true, true, 0), "not even at the end, or if needed");

	ok(aiostream_policy_ask(&policy, 32, false, false, 5), "a full request goes");
	ok(aiostream_policy_ask(&policy, 33, false, false, 5), "one that is more than full as well");
	ok(!aiostream_policy_ask(&policy, 31, false, false, 5), "one short of full waits for more");
	ok(aiostream_policy_ask(&policy, 1, true, false, 5), "a run that has ended goes");
	ok(aiostream_policy_ask(&policy, 1, false, true, 5), "a run whose first block is needed goes");

	/* an idle disk is given half of the distance */
	ok(aiostream_policy_ask(&policy, 16, false, false, 0), "nothing in flight: half of the distance goes");
	ok(!aiostream_policy_ask(&policy, 15, false, false, 0), "nothing in flight: less than half waits");
	ok(!aiostream_policy_ask(&policy, 16, false, false, 1), "something in flight: half of the distance waits");

	/* a fresh stream: the first block goes at once */
	aiostream_policy_init(&policy, 512, 32, false);
	ok(aiostream_policy_ask(&policy, 1, false, false, 0), "a fresh stream asks for its first block");

	/* requests of one block */
	aiostream_policy_init(&policy, 512, 1, false);
	ok(aiostream_policy_ask(&policy, 1, false, false, 100), "requests of one block never wait");

	/* no pending run is too long to be asked for */
	aiostream_policy_init(&policy, 512, 128, false);
	waited(&policy, 10);
	asked = 0;
	for (int pending = 1; pending <= 1000; pending++)
		asked += aiostream_policy_ask(&policy, pending, false, false, 3);
	is(asked, 1000 - 127, "each run from a full request on is asked for");
}

/* Whatever happens, in whatever order: 1 <= distance <= max. */
static void
test_bounds(void)
{
	unsigned	seed = 12345;
	bool		good = true;

	for (int round = 0; round < 200; round++)
	{
		AiostreamPolicy policy;
		int			max;

		seed = seed * 1103515245u + 12345u;
		max = (seed >> 16) % 700;
		aiostream_policy_init(&policy, max, 1 + (seed >> 20) % 128, round % 5 == 0);
		for (int i = 0; i < 2000; i++)
		{
			seed = seed * 1103515245u + 12345u;
			switch ((seed >> 16) % 6)
			{
				case 0:
					aiostream_policy_waited(&policy);
					break;
				case 1:
					aiostream_policy_in_time(&policy);
					break;
				case 2:
					aiostream_policy_on_the_spot(&policy);
					break;
				default:
					found(&policy, (seed >> 24) % 40);
			}
			if (policy.distance < 1 || policy.distance > policy.max ||
				(policy.fixed && policy.distance != policy.max) ||
				policy.found < 0 || policy.found > AIOSTREAM_POLICY_PATIENCE)
				good = false;
		}
	}
	ok(good, "the distance stays within its limits");
}

int
main(void)
{
	test_init();
	test_growth();
	test_on_the_spot();
	test_shrink();
	test_collapse();
	test_fixed();
	test_ask();
	test_bounds();
	printf("1..%d\n", tests);
	return failures > 0;
}
