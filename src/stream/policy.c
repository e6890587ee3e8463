/*
 * policy.c
 *		How far a stream looks ahead.
 *
 * The distance doubles each time the consumer has to wait, so that a handful of
 * waits leads from nothing to the limit, and a consumer that is slower
 * than the disk stops it early, though not before requests are full ones.  It shrinks by one with each block found in
 * shared buffers after a run of such blocks; once it is down to one, the stream
 * collapses and costs nothing until core misses again.
 */
#include "stream/policy.h"

/* Part of the longest distance to begin with, in a hurry */
#define HURRY_PART	4

static int
clamp(const AiostreamPolicy *policy, int distance)
{
	if (distance > policy->max)
		distance = policy->max;
	return distance < 1 ? 1 : distance;
}

void
aiostream_policy_init(AiostreamPolicy *policy, int max, int combine, bool fixed)
{
	policy->max = max < 1 ? 1 : max;
	policy->combine = combine < 1 ? 1 : combine;
	policy->fixed = fixed;
	policy->found = 0;
	policy->distance = clamp(policy, fixed ? policy->max : AIOSTREAM_POLICY_START);
}

void
aiostream_policy_hurry(AiostreamPolicy *policy)
{
	if (policy->distance < policy->max / HURRY_PART)
		policy->distance = policy->max / HURRY_PART;
}

void
aiostream_policy_waited(AiostreamPolicy *policy)
{
	policy->found = 0;
	policy->distance = clamp(policy, policy->distance * 2);
}

void
aiostream_policy_in_time(AiostreamPolicy *policy)
{
	policy->found = 0;

	/* far enough, but requests should be full ones */
	if (policy->distance < policy->combine)
		policy->distance = clamp(policy, policy->distance * 2);
}

void
aiostream_policy_on_the_spot(AiostreamPolicy *policy)
{
	policy->found = 0;
	if (policy->distance < policy->combine)
		policy->distance = clamp(policy, policy->distance * 2);
}

void
aiostream_policy_found(AiostreamPolicy *policy)
{
	if (policy->found < AIOSTREAM_POLICY_PATIENCE)
		policy->found++;
	else if (!policy->fixed)
		policy->distance = clamp(policy, policy->distance - 1);
}

bool
aiostream_policy_collapsed(const AiostreamPolicy *policy)
{
	return !policy->fixed && policy->distance <= 1 &&
		policy->found >= AIOSTREAM_POLICY_PATIENCE;
}

bool
aiostream_policy_ask(const AiostreamPolicy *policy, int pending, bool ended,
					 bool needed, int inflight)
{
	if (pending == 0)
		return false;
	if (ended || needed || pending >= policy->combine)
		return true;

	/* nothing under way: better a small request than an idle disk */
	return inflight == 0 && pending * 2 >= policy->distance;
}
