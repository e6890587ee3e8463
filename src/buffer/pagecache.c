/*
 * pagecache.c
 *		What of a file has the kernel cached? cachestat(2), Linux 6.5 and later.
 *
 * Asked once per window of the file: it costs 0.4 us where nothing is cached
 * and about 1 us a megabyte where everything is (measured), so a window of 2 MB
 * is cheap against reading it either way, and small enough to follow a
 * half-cached table.  Where nothing is cached, each window is twice as large as
 * the one before: a scan that reads a page here and there would pay for a system
 * call each time.
 *
 * Cached by the kernel's own read-ahead is another matter.  It marks a page in what
 * it has read ahead, and goes on when that page is read through the page cache,
 * by whomever, even in a file opened for random access (measured, Linux 6.18).
 * So a reader that begins on cached pages would find the next ones cached for
 * ever, because it reads these: copies, and at the kernel's pace.  A window that
 * has been filled since the reader was some megabytes before it is therefore
 * read directly; that once costs a second read of it, and ends the chain.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage/fd.h"

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

/* blocks; divides a segment, so that a window lies in one file */
#define WINDOW_BLOCKS (2 * 1024 * 1024 / BLCKSZ)
#define MAX_WINDOW_BLOCKS (32 * WINDOW_BLOCKS)
/* Windows looked at ahead: beyond what read-ahead of 16 MB at a time has in advance */
#define AHEAD_WINDOWS 16
StaticAssertDecl(RELSEG_SIZE % WINDOW_BLOCKS == 0 &&
				 (RELSEG_SIZE % MAX_WINDOW_BLOCKS == 0 || MAX_WINDOW_BLOCKS % RELSEG_SIZE == 0),
				 "window crosses segments");

/* linux/mman.h of this age is not everywhere */
typedef struct CachestatRange
{
	uint64		off;
	uint64		len;
} CachestatRange;

typedef struct Cachestat
{
	uint64		nr_cache;
	uint64		nr_dirty;
	uint64		nr_writeback;
	uint64		nr_evicted;
	uint64		nr_recently_evicted;
} Cachestat;

/* -1 unknown, else whether the system call is there */
static int	available = -1;

static bool
ask_kernel(int fd, uint64 off, uint64 len, uint64 *bytes)
{
	CachestatRange range = {.off = off,.len = len};
	Cachestat	stat;

	if (available == 0)
		return false;
	if (syscall(__NR_cachestat, fd, &range, &stat, 0) != 0)
	{
		/* seccomp may say EPERM; a file system may not support it */
		if (errno == ENOSYS || errno == EPERM)
			available = 0;
		return false;
	}
	available = 1;
	*bytes = stat.nr_cache * (uint64) sysconf(_SC_PAGESIZE);
	return true;
}

bool
aiostream_pagecache_available(void)
{
	uint64		bytes;
	int			fd;

	if (available >= 0)
		return available == 1;
	fd = BasicOpenFile("PG_VERSION", O_RDONLY | PG_BINARY);
	if (fd < 0)
		return false;
	(void) ask_kernel(fd, 0, BLCKSZ, &bytes);
	close(fd);
	return available == 1;
}

/* Ask about n blocks, all of one file; false: no answer. */
static bool
ask_blocks(AiostreamTarget *target, BlockNumber start, BlockNumber n, uint64 *bytes)
{
	AiostreamFile *file = aiostream_segment_file(target, start, false);
	int			fd = file == NULL ? -1 : aiostream_file_fd(file);

	return fd >= 0 && ask_kernel(fd, (uint64) (start % RELSEG_SIZE) * BLCKSZ,
								 (uint64) n * BLCKSZ, bytes);
}

/* Ask about the window of so many blocks that blkno is in; false: no answer. */
static bool
ask_window(AiostreamTarget *target, BlockNumber blkno, BlockNumber blocks,
		   uint64 *bytes)
{
	target->window_start = blkno - blkno % blocks;
	target->window_blocks = Min(blocks, target->nblocks - target->window_start);
	return ask_blocks(target, target->window_start, target->window_blocks, bytes);
}

static AiostreamCached
how_much(uint64 bytes, BlockNumber blocks)
{
	uint64		all = (uint64) blocks * BLCKSZ;

	return bytes >= all ? AIOSTREAM_CACHED_ALL :
		bytes >= all / 2 ? AIOSTREAM_CACHED_MOSTLY : AIOSTREAM_CACHED_LITTLE;
}

static inline uint32
ahead_bit(BlockNumber window_start)
{
	return (uint32) 1 << (window_start / WINDOW_BLOCKS % 32);
}

/* Note which of the windows after the present one are not cached, while we are here. */
static void
look_further(AiostreamTarget *target)
{
	BlockNumber end = target->window_start + AHEAD_WINDOWS * WINDOW_BLOCKS;

	end = end < target->window_start ? target->nblocks : Min(end, target->nblocks);
	target->ahead_end = Max(target->ahead_end, target->window_start + target->window_blocks);
	while (target->ahead_end < end)
	{
		BlockNumber n = Min(WINDOW_BLOCKS, target->nblocks - target->ahead_end);
		uint64		bytes = 0;

		if (ask_blocks(target, target->ahead_end, n, &bytes) &&
			how_much(bytes, n) == AIOSTREAM_CACHED_LITTLE)
			target->ahead_uncached |= ahead_bit(target->ahead_end);
		else
			target->ahead_uncached &= ~ahead_bit(target->ahead_end);
		target->ahead_end += n;
	}
}

/*
 * The present window is cached: has it become so since we were before it? Where
 * that does not end, it is not our reading that causes it, and copying is right.
 */
static bool
filled_meanwhile(AiostreamTarget *target, bool forward)
{
	bool		filled = forward && target->window_start < target->ahead_end &&
	(target->ahead_uncached & ahead_bit(target->window_start)) != 0;

	if (!forward)
		target->ahead_end = 0;
	look_further(target);
	target->ahead_filled = filled ? target->ahead_filled + 1 : 0;
	return filled && target->ahead_filled <= AHEAD_WINDOWS;
}

AiostreamCached
aiostream_pagecache_ask(AiostreamTarget *target, BlockNumber blkno)
{
	BlockNumber blocks = Max(target->window_next, WINDOW_BLOCKS);
	BlockNumber next_start = target->window_start + target->window_blocks;
	bool		answered;
	uint64		bytes = 0;

	if (blkno >= target->window_start &&
		blkno - target->window_start < target->window_blocks)
		return target->window;

	target->window = AIOSTREAM_CACHED_UNKNOWN;
	answered = ask_window(target, blkno, blocks, &bytes);
	if (answered && bytes > 0 && blocks > WINDOW_BLOCKS)
		answered = ask_window(target, blkno, WINDOW_BLOCKS, &bytes);
	target->window_next = answered && bytes == 0 ?
		Min(2 * blocks, Min(MAX_WINDOW_BLOCKS, RELSEG_SIZE)) : WINDOW_BLOCKS;
	if (!answered)
		return AIOSTREAM_CACHED_UNKNOWN;

	target->window = how_much(bytes, target->window_blocks);
	if (target->window != AIOSTREAM_CACHED_LITTLE &&
		target->options.direct == AIOSTREAM_DIRECT_AUTO &&
		filled_meanwhile(target, target->window_start == next_start))
		target->window = AIOSTREAM_CACHED_LITTLE;
	return target->window;
}

bool
aiostream_target_kernel_cached(AiostreamTarget *target)
{
	return target->window == AIOSTREAM_CACHED_ALL ||
		target->window == AIOSTREAM_CACHED_MOSTLY;
}
