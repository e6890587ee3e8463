/*
 * no_io_uring.c
 *		Runs a command for which io_uring does not exist.
 *
 *		no_io_uring ERRNO COMMAND [ARGUMENT ...]
 *
 * The three io_uring system calls fail with ERRNO, as under a container's
 * seccomp profile, in the command and in all its children.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* the same numbers on every architecture */
#define IO_URING_SETUP		425
#define IO_URING_REGISTER	427

int
main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, IO_URING_SETUP, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, IO_URING_REGISTER, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	if (argc < 3)
	{
		fprintf(stderr, "usage: no_io_uring ERRNO COMMAND [ARGUMENT ...]\n");
		return 2;
	}
	filter[3].k |= atoi(argv[1]) & SECCOMP_RET_DATA;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
	{
		fprintf(stderr, "no_io_uring: seccomp: %s\n", strerror(errno));
		return 2;
	}
	execvp(argv[2], argv + 2);
	fprintf(stderr, "no_io_uring: %s: %s\n", argv[2], strerror(errno));
	return 127;
}
