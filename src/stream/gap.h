/*
 * gap.h
 *		How many unwanted blocks between two wanted ones are worth reading
 *		through: learned from what the storage does.  Pure functions.
 *
 * No PostgreSQL headers, so that the unit tests can compile it alone.
 */
#ifndef AIOSTREAM_GAP_H
#define AIOSTREAM_GAP_H

#include <stdbool.h>

/* Gaps tried: 0, 1, 2, 4, ... 32 blocks */
#define AIOSTREAM_GAP_CHOICES 7
#define AIOSTREAM_GAP_LARGEST (1 << (AIOSTREAM_GAP_CHOICES - 2))

typedef struct AiostreamGap
{
	int			current;		/* index of the choice in use */
	int			epochs;			/* finished so far */
	double		rate[AIOSTREAM_GAP_CHOICES];	/* wanted blocks a second; 0:
												 * not tried */
} AiostreamGap;

/* choice: what another stream found best; 0 at first */
extern void aiostream_gap_init(AiostreamGap *gap, int choice);

/* The gap in use, in blocks */
extern int	aiostream_gap_blocks(const AiostreamGap *gap);

/*
 * An epoch in which the consumer waited for the storage is over: it got that
 * many wanted blocks a second.
 */
extern void aiostream_gap_epoch(AiostreamGap *gap, double rate);

/* The best choice among those tried lately, for the next stream */
extern int	aiostream_gap_best(const AiostreamGap *gap);

#endif							/* AIOSTREAM_GAP_H */
