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

/* Ask about the window of so many blocks that blkno is in; false: no answer. */
static bool
ask_window(AiostreamTarget *target, BlockNumber blkno, BlockNumber blocks,
		   uint64 *bytes)
{
	AiostreamFile *file = aiostream_segment_file(target, blkno, false);
	int			fd = file == NULL ? -1 : aiostream_file_fd(file);

	target->window_start = blkno - blkno % blocks;
	target->window_blocks = Min(blocks, target->nblocks - target->window_start);
	return fd >= 0 &&
		ask_kernel(fd, (uint64) (target->window_start % RELSEG_SIZE) * BLCKSZ,
				   (uint64) target->window_blocks * BLCKSZ, bytes);
}

AiostreamCached
aiostream_pagecache_ask(AiostreamTarget *target, BlockNumber blkno)
{
	BlockNumber blocks = Max(target->window_next, WINDOW_BLOCKS);
	bool		answered;
	uint64		bytes = 0;
	uint64		all;

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

	all = (uint64) target->window_blocks * BLCKSZ;
	if (bytes >= all)
		target->window = AIOSTREAM_CACHED_ALL;
	else if (bytes >= all / 2)
		target->window = AIOSTREAM_CACHED_MOSTLY;
	else
		target->window = AIOSTREAM_CACHED_LITTLE;
	return target->window;
}

bool
aiostream_target_kernel_cached(AiostreamTarget *target)
{
	return target->window == AIOSTREAM_CACHED_ALL ||
		target->window == AIOSTREAM_CACHED_MOSTLY;
}
