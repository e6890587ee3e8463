/*
 * file.c
 *		Open files with an identity.
 *
 * Descriptors are fd.c's virtual ones, so that the process's limit holds; the
 * kernel keeps a file alive while a read of it is in flight, even if fd.c
 * closes the descriptor meanwhile.  Files are opened per stream, under the
 * stream's relation lock, and never outlive it: relfilenodes can be reused,
 * and a descriptor kept for longer might belong to an older file of the name.
 */
#include "postgres.h"

#include "engine/engine_internal.h"

#include <fcntl.h>

#include "utils/memutils.h"

struct AiostreamFile
{
	File		vfd;			/* -1: closed */
	bool		direct;
	uint64		id;
	MemoryContextCallback callback;
	char		path[AIOSTREAM_PATH_LEN];
};

static void
close_callback(void *arg)
{
	aiostream_file_close((AiostreamFile *) arg);
}

/*
 * What is to be read ahead is the streams' to decide.  The kernel's own read-ahead
 * would have the next window of a file in the page cache before a stream asks for
 * it, and so keep it from ever reading that one directly; and read beyond
 * what is wanted.  What others have started goes on all the same (pagecache.c).
 */
void
aiostream_file_no_readahead(int fd)
{
#ifdef POSIX_FADV_RANDOM
	(void) posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif
}

static AiostreamFile *
open_file(const char *path, int flags, bool direct, MemoryContext cxt)
{
	AiostreamFile *file;
	File		vfd;

	if (strlen(path) >= AIOSTREAM_PATH_LEN)
	{
		errno = ENAMETOOLONG;
		return NULL;
	}
	file = MemoryContextAllocZero(cxt, sizeof(AiostreamFile));
	vfd = PathNameOpenFile(path, flags | PG_BINARY);
	if (vfd < 0)
	{
		int			save_errno = errno;

		pfree(file);
		errno = save_errno;
		return NULL;
	}
	file->vfd = vfd;
	file->direct = direct;
	if (!direct)
		aiostream_file_no_readahead(FileGetRawDesc(vfd));
	file->id = pg_atomic_fetch_add_u64(&aiostream_engine->next_file_id, 1);
	strlcpy(file->path, path, AIOSTREAM_PATH_LEN);
	file->callback.func = close_callback;
	file->callback.arg = file;
	MemoryContextRegisterResetCallback(cxt, &file->callback);
	return file;
}

AiostreamFile *
aiostream_file_open(const char *path, bool direct, MemoryContext cxt)
{
	return open_file(path, O_RDONLY | (direct ? O_DIRECT : 0), direct, cxt);
}

AiostreamFile *
aiostream_file_open_for_write(const char *path, MemoryContext cxt)
{
	return open_file(path, O_RDWR, false, cxt);
}

/*
 * Reads in flight may have to be continued with this file (short reads), so
 * they must have landed first.  The struct itself stays, for the callback.
 */
void
aiostream_file_close(AiostreamFile *file)
{
	if (file->vfd < 0)
		return;
	aiostream_io_drain();
	FileClose(file->vfd);
	file->vfd = -1;
}

int
aiostream_file_fd(AiostreamFile *file)
{
	int			fd;

	Assert(file->vfd >= 0);
	fd = FileGetRawDesc(file->vfd);
	if (fd < 0)
	{
		/* fd.c closed it to save descriptors; any access opens it again */
		if (FileSize(file->vfd) < 0)
			return -1;
		fd = FileGetRawDesc(file->vfd);
		if (!file->direct)
			aiostream_file_no_readahead(fd);
	}
	return fd;
}

int
aiostream_file_fd_if_open(const AiostreamFile *file)
{
	Assert(file->vfd >= 0);
	return FileGetRawDesc(file->vfd);
}

/*
 * For tests: what fd.c does where descriptors are short, at its worst.  All files of
 * this process are closed, to be opened again when used, and their numbers are
 * those of another one, which reads as zeroes.
 */
void
aiostream_file_lose_descriptors(void)
{
	static int	taken[64];
	static int	ntaken = 0;

	while (ntaken > 0)
		close(taken[--ntaken]);
	closeAllVfds();
	while (ntaken < (int) lengthof(taken) &&
		   (taken[ntaken] = open("/dev/zero", O_RDONLY | O_CLOEXEC)) >= 0)
		ntaken++;
}

uint64
aiostream_file_id(const AiostreamFile *file)
{
	return file->id;
}

const char *
aiostream_file_path(const AiostreamFile *file)
{
	return file->path;
}

bool
aiostream_file_direct(const AiostreamFile *file)
{
	return file->direct;
}
