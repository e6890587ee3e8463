/*
 * execute.c
 *		Doing a read on the spot, in this process: method "sync", and the I/O
 *		workers.
 */
#include "postgres.h"

#include "engine/engine_internal.h"
#include "faults.h"

#include <sys/uio.h>

/* Tries after EAGAIN or EINTR before it counts as failed */
#define MAX_ATTEMPTS 100

/*
 * The part of the request that has not been read yet, as an iovec array of
 * at most AIOSTREAM_MAX_COMBINE elements; returns their number.
 */
int
aiostream_io_rest(const AiostreamIo *io, struct iovec *iov)
{
	size_t		skip = io->done;
	int			n = 0;

	Assert(io->done < io->length);
	for (int i = 0; i < io->niov; i++)
	{
		if (skip >= io->iov[i].iov_len)
		{
			skip -= io->iov[i].iov_len;
			continue;
		}
		iov[n].iov_base = (char *) io->iov[i].iov_base + skip;
		iov[n].iov_len = io->iov[i].iov_len - skip;
		skip = 0;
		n++;
	}
	Assert(n > 0);
	return n;
}

/*
 * Read all of it from fd with as few calls as possible.  Returns the bytes
 * read from the start (fewer than asked for at the end of the file), or
 * -errno if nothing was read.
 */
int32
aiostream_io_execute(AiostreamIo *io, int fd)
{
	struct iovec rest[AIOSTREAM_MAX_COMBINE];
	int			attempts = 0;

	aiostream_io_populate(io);
	while (io->done < io->length)
	{
		const struct iovec *iov = io->iov;
		int			niov = io->niov;
		ssize_t		nread;

		if (io->done > 0)
		{
			niov = aiostream_io_rest(io, rest);
			iov = rest;
		}
		nread = preadv(fd, iov, niov, io->offset + io->done);
		if (aiostream_fault(AIOSTREAM_FAULT_READ_AGAIN))
		{
			nread = -1;
			errno = EAGAIN;
		}
		if (nread < 0)
		{
			if ((errno == EINTR || errno == EAGAIN) && ++attempts < MAX_ATTEMPTS)
				continue;
			return io->done > 0 ? (int32) io->done : -errno;
		}
		if (nread == 0)
			break;
		io->done += nread;
	}
	return (int32) io->done;
}
