/*
 * probe.c
 *		Which method works here, found out by trying.
 *
 * Runs once in the postmaster, while it preloads the library.  The server never
 * fails to start because of what is found: what does not work is replaced by
 * the next lower method, and the log says once why and what to change.
 */
#include "postgres.h"

#include "engine/uring_internal.h"
#include "guc.h"

#include <fcntl.h>
#include <sys/mman.h>

AiostreamMethodId aiostream_probed_method = AIOSTREAM_METHOD_SYNC;
bool		aiostream_probed_uring = false;

static char reason[256] = "not probed";

const char *
aiostream_method_name(AiostreamMethodId method)
{
	switch (method)
	{
		case AIOSTREAM_METHOD_AUTO:
			return "auto";
		case AIOSTREAM_METHOD_IO_URING:
			return aiostream_method_uring.name;
		case AIOSTREAM_METHOD_WORKER:
			return aiostream_method_worker.name;
		case AIOSTREAM_METHOD_SYNC:
			return aiostream_method_sync.name;
	}
	return "unknown";
}

AiostreamMethodId
aiostream_engine_method(void)
{
	return aiostream_probed_method;
}

const char *
aiostream_engine_method_reason(void)
{
	return reason;
}

/* Read the first bytes of a file through the ring; 0 or an errno. */
static int
probe_read(struct io_uring *ring)
{
	char		buf[16];
	struct iovec iov = {.iov_base = buf,.iov_len = sizeof(buf)};
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int			fd = open("PG_VERSION", O_RDONLY);
	int			result;

	if (fd < 0)
		return errno;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_readv(sqe, fd, &iov, 1, 0);
	sqe->user_data = 42;
	result = io_uring_submit_and_wait(ring, 1);
	if (result >= 0)
	{
		result = io_uring_peek_cqe(ring, &cqe);
		if (result == 0)
		{
			result = cqe->user_data == 42 && cqe->res > 0 ? 0 : -EIO;
			if (cqe->res < 0)
				result = cqe->res;
			io_uring_cqe_seen(ring, cqe);
		}
	}
	close(fd);
	return -result;
}

/* Make a ring as the backends will, and use it; 0 or an errno. */
static int
probe_uring(void)
{
	struct io_uring_params params;
	struct io_uring ring;
	char	   *memory;
	int			fd;
	int			result;

	memory = mmap(NULL, AIOSTREAM_RING_MEMORY, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return errno;
	fd = aiostream_uring_setup(memory, &params);
	if (fd >= 0)
	{
		aiostream_uring_attach(&ring, fd, memory, &params);
		result = probe_read(&ring);
		close(fd);
	}
	else
		result = -fd;
	munmap(memory, AIOSTREAM_RING_MEMORY);
	return result;
}

/* The value of kernel.io_uring_disabled, or -1 if there is no such setting */
static int
io_uring_disabled_setting(void)
{
	int			fd = open("/proc/sys/kernel/io_uring_disabled", O_RDONLY);
	char		c = '\0';

	if (fd < 0)
		return -1;
	if (read(fd, &c, 1) != 1)
		c = '\0';
	close(fd);
	return c >= '0' && c <= '9' ? c - '0' : -1;
}

/* Why, in words, and what to change; the hint chosen by errno */
static const char *
explain_failure(int err, const char **hint)
{
	switch (err)
	{
		case EPERM:
		case EACCES:
			if (io_uring_disabled_setting() > 0)
			{
				*hint = "Set kernel.io_uring_disabled to 0 (sysctl), or, at 1, put the server's user into the group of kernel.io_uring_group.";
				return "it is disabled by kernel.io_uring_disabled";
			}
			*hint = "Allow the io_uring system calls in the container's seccomp profile.";
			return "the system call is not permitted, probably by a seccomp profile";
		case ENOSYS:
			*hint = "Use Linux 6.5 or later; in a container, allow the io_uring system calls in its seccomp profile.";
			return "the kernel does not offer it, or a seccomp profile hides it";
		case EINVAL:
			*hint = "Use Linux 6.5 or later.";
			return "the kernel is older than Linux 6.5";
		case ENOMEM:
			*hint = "Raise the limit on locked memory (LimitMEMLOCK=, ulimit -l) of the server.";
			return "the limit on locked memory is too low";
		case EMFILE:
		case ENFILE:
			*hint = "Raise the limit on open files (LimitNOFILE=, ulimit -n) of the server.";
			return "too many open files";
		default:
			*hint = "Set aiostream.io_method to \"worker\" to silence this message.";
			return "an attempt to use it failed";
	}
}

/*
 * In _PG_init of a preload, after the settings are known.
 */
void
aiostream_engine_probe(void)
{
	AiostreamMethodId wanted = aiostream_io_method;
	const char *hint = NULL;
	const char *why;
	int			err = 0;

	if (wanted == AIOSTREAM_METHOD_AUTO || wanted == AIOSTREAM_METHOD_IO_URING)
		err = probe_uring();

	if (wanted == AIOSTREAM_METHOD_SYNC || wanted == AIOSTREAM_METHOD_WORKER)
	{
		aiostream_probed_method = wanted;
		snprintf(reason, sizeof(reason), "chosen by aiostream.io_method");
		return;
	}
	if (err == 0)
	{
		aiostream_probed_method = AIOSTREAM_METHOD_IO_URING;
		aiostream_probed_uring = true;
		snprintf(reason, sizeof(reason),
				 wanted == AIOSTREAM_METHOD_AUTO ?
				 "io_uring works here" : "chosen by aiostream.io_method");
		return;
	}

	aiostream_probed_method = AIOSTREAM_METHOD_WORKER;
	why = explain_failure(err, &hint);
	snprintf(reason, sizeof(reason), "io_uring is not usable: %s (%s)",
			 why, strerror(err));
	errno = err;
	ereport(wanted == AIOSTREAM_METHOD_AUTO ? LOG : WARNING,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("aiostream cannot use io_uring and falls back to I/O workers: %m"),
			 errdetail("io_uring is not usable: %s.", why),
			 errhint("%s", hint)));
}
