/*
 * segment.c
 *		From relation and block to an open segment file.
 *
 * Files are opened when first wanted, buffered and direct ones apart, and
 * closed with the target.  A file that cannot be opened is not tried again: core
 * reads those blocks, and says what is wrong.
 */
#include "postgres.h"

#include "buffer/buffer_internal.h"
#include "stats.h"

#include <fcntl.h>
#include <sys/stat.h>

/* where the kernel cannot tell (before 6.1): what every device accepts */
#define SAFE_ALIGNMENT 4096

/* The memory alignment that direct reads of this file need */
static Size
direct_alignment(AiostreamFile *file)
{
#ifdef STATX_DIOALIGN
	struct statx stx;
	int			fd = aiostream_file_fd(file);

	if (fd >= 0 &&
		statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
		(stx.stx_mask & STATX_DIOALIGN) != 0)
	{
		/* 0: no direct I/O; a block must be a multiple of the offset's */
		if (stx.stx_dio_mem_align == 0 || stx.stx_dio_offset_align == 0 ||
			BLCKSZ % stx.stx_dio_offset_align != 0)
			return 0;
		return stx.stx_dio_mem_align;
	}
#endif
	return SAFE_ALIGNMENT;
}

/* Path of the segment of that block */
static void
segment_path(const AiostreamTarget *target, BlockNumber blkno, char *path, size_t size)
{
	int			segno = blkno / RELSEG_SIZE;

	if (segno == 0)
		strlcpy(path, target->path, size);
	else
		snprintf(path, size, "%s.%d", target->path, segno);
}

AiostreamFile *
aiostream_segment_file(AiostreamTarget *target, BlockNumber blkno, bool direct)
{
	int			segno = blkno / RELSEG_SIZE;
	AiostreamSegment *segment = &target->segments[segno];
	AiostreamFile **slot = direct ? &segment->direct : &segment->buffered;
	bool	   *failed = direct ? &segment->direct_failed : &segment->buffered_failed;
	char		path[MAXPGPATH];

	Assert(segno < target->nsegments);
	if (*slot != NULL || *failed)
		return *slot;

	segment_path(target, blkno, path, sizeof(path));
	*slot = aiostream_file_open(path, direct, target->cxt);
	if (*slot != NULL && direct)
	{
		segment->direct_align = direct_alignment(*slot);
		if (segment->direct_align == 0)
		{
			aiostream_file_close(*slot);
			*slot = NULL;
		}
	}
	if (*slot == NULL)
	{
		*failed = true;
		aiostream_count(direct ? AIOSTREAM_COUNT_FALLBACK_DIRECT_OPEN :
						AIOSTREAM_COUNT_FALLBACK_OPEN, 1);
	}
	return *slot;
}

/* The same for writing; NULL: core writes those blocks. */
AiostreamFile *
aiostream_segment_file_for_write(AiostreamTarget *target, BlockNumber blkno)
{
	AiostreamSegment *segment = &target->segments[blkno / RELSEG_SIZE];
	char		path[MAXPGPATH];

	if (segment->writable == NULL && !segment->writable_failed)
	{
		segment_path(target, blkno, path, sizeof(path));
		segment->writable = aiostream_file_open_for_write(path, target->cxt);
		if (segment->writable == NULL)
		{
			segment->writable_failed = true;
			aiostream_count(AIOSTREAM_COUNT_FALLBACK_OPEN, 1);
		}
	}
	return segment->writable;
}

/* Call after aiostream_segment_file(direct) has succeeded. */
Size
aiostream_segment_direct_align(AiostreamTarget *target, BlockNumber blkno)
{
	return target->segments[blkno / RELSEG_SIZE].direct_align;
}
