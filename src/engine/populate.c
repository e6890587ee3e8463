/*
 * populate.c
 *		Entering the memory of a read into this process's page table.
 *
 * Shared memory is mapped into each process a page at a time, when it is
 * first touched, and a page that is WRITTEN first, as a read does through the
 * kernel, is one page fault of its own.  MADV_POPULATE_READ (Linux 5.14) has
 * the kernel enter 64 kB at a time ("fault-around"), writable, as these are
 * pages of a shared mapping.  Measured on a virtual machine: 0.1 instead of
 * 5 microseconds for each 4 kB, before the processor's own first access to it.
 *
 * Pure gain or nothing: a page that is not entered here is entered by its fault.
 */
#include "postgres.h"

#include "engine/engine_internal.h"

#include "utils/memutils.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22	/* libraries older than the kernel */
#endif

/* What the kernel enters at a time; where it is told otherwise we ask in vain. */
#define WINDOW ((uintptr_t) 64 * 1024)

/* The memory it is done for; set in the postmaster, inherited by fork */
static char *memory = NULL;
static Size memory_size = 0;

/* A bit for each window of it: asked for by this process.  NULL: not yet made */
static uint8 *asked = NULL;
static bool unavailable = false;

void
aiostream_engine_set_memory(char *base, Size size)
{
	memory = base;
	memory_size = size;
}

static bool
make_map(void)
{
	Size		windows = memory_size / WINDOW + 2;

	/* nothing may raise here: reads are being submitted */
	asked = MemoryContextAllocExtended(TopMemoryContext, windows / 8 + 1,
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
	unavailable = asked == NULL;
	return !unavailable;
}

/* Enter windows first .. last, counted as addresses divided by WINDOW. */
static void
populate(uintptr_t first, uintptr_t last)
{
	uintptr_t	page = sysconf(_SC_PAGESIZE);
	uintptr_t	start = Max(first * WINDOW, (uintptr_t) memory / page * page);
	uintptr_t	end = Min((last + 1) * WINDOW, (uintptr_t) memory + memory_size);

	Assert(start < end);
	if (madvise((void *) start, end - start, MADV_POPULATE_READ) < 0 && errno == EINVAL)
		unavailable = true;
}

/*
 * Called by the process that is to execute or submit a read, before it does;
 * errno is kept.  Memory that is none of ours (aiostream_engine_set_memory) is
 * left alone.
 */
void
aiostream_io_populate(const AiostreamIo *io)
{
	uintptr_t	base = (uintptr_t) memory / WINDOW;
	uintptr_t	first = 1;		/* of the windows to enter: none */
	uintptr_t	last = 0;
	int			save_errno = errno;

	Assert(io->op == AIOSTREAM_OP_READ);
	if (unavailable || memory == NULL || (asked == NULL && !make_map()))
		return;

	for (int i = 0; i < io->niov; i++)
	{
		char	   *start = io->iov[i].iov_base;
		char	   *end = start + io->iov[i].iov_len;

		if (start < memory || end > memory + memory_size)
			continue;
		for (uintptr_t w = (uintptr_t) start / WINDOW; w <= (uintptr_t) (end - 1) / WINDOW; w++)
		{
			uint8	   *bits = &asked[(w - base) / 8];
			uint8		bit = 1 << (w - base) % 8;

			if (*bits & bit)
				continue;
			*bits |= bit;
			if (first <= last && w != last + 1)
			{
				populate(first, last);
				first = w;
			}
			else if (first > last)
				first = w;
			last = w;
		}
	}
	if (first <= last)
		populate(first, last);
	errno = save_errno;
}
