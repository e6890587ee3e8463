/*
 * policy.h
 *		How far a stream looks ahead: pure functions over a small struct.
 *
 * No PostgreSQL headers, so that the unit tests can compile it alone.
 */
#ifndef AIOSTREAM_POLICY_H
#define AIOSTREAM_POLICY_H

#include <stdbool.h>

/* Look-ahead starts with this many blocks at the first miss. */
#define AIOSTREAM_POLICY_START		2
/* Blocks found in a row after which the distance begins to shrink */
#define AIOSTREAM_POLICY_PATIENCE	16

typedef struct AiostreamPolicy
{
	int			distance;		/* blocks to have queued; >= 1 */
	int			max;			/* its limit */
	int			combine;		/* blocks of a full request */
	bool		fixed;			/* always max (benchmarks) */
	int			found;			/* blocks found in a row */
} AiostreamPolicy;

extern void aiostream_policy_init(AiostreamPolicy *policy, int max, int combine,
								  bool fixed);

/* Right after init: begin far ahead, at a quarter of max. */
extern void aiostream_policy_hurry(AiostreamPolicy *policy);

/* The consumer had to wait for a block: look twice as far. */
extern void aiostream_policy_waited(AiostreamPolicy *policy);

/* A block was read and there in time: far enough, once requests are full. */
extern void aiostream_policy_in_time(AiostreamPolicy *policy);

/* A block was read on the spot: combining is all that can be gained. */
extern void aiostream_policy_on_the_spot(AiostreamPolicy *policy);

/* A block was found in shared buffers: after a while, look less far. */
extern void aiostream_policy_found(AiostreamPolicy *policy);

/* Everything is found: stop looking ahead. */
extern bool aiostream_policy_collapsed(const AiostreamPolicy *policy);

/*
 * Ask now for a run of "pending" adjacent blocks?  ended: no block can join it;
 * needed: the consumer wants its first block; inflight: requests in flight.
 */
extern bool aiostream_policy_ask(const AiostreamPolicy *policy, int pending,
								 bool ended, bool needed, int inflight);

#endif							/* AIOSTREAM_POLICY_H */
