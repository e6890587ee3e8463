/*
 * faults.h
 *		Named points at which tests pause a process or make it fail.
 *
 * Off costs one load of a shared word.  Armed by the superuser-only SQL
 * function aiostream_debug_fault(point, action).
 */
#ifndef AIOSTREAM_FAULTS_H
#define AIOSTREAM_FAULTS_H

#include "postgres.h"

typedef enum AiostreamFaultPoint
{
	AIOSTREAM_FAULT_READ_ERROR, /* completions become -EIO */
	AIOSTREAM_FAULT_SHORT_READ, /* completions lose their second half */
	AIOSTREAM_FAULT_READ_AGAIN, /* completions become -EAGAIN, once each */
	AIOSTREAM_FAULT_RING_SETUP, /* a backend's ring cannot be made */
	AIOSTREAM_FAULT_RING_SUBMIT,	/* the kernel takes nothing from a ring */
	AIOSTREAM_FAULT_RING_PARTIAL,	/* the kernel takes the first of a batch */
	AIOSTREAM_FAULT_BATCH_FILES,	/* files closed, numbers given to others,
									 * while a batch waits to be sent */
	AIOSTREAM_FAULT_BATCH_RAISE,	/* an ERROR in the middle of a batch */
	AIOSTREAM_FAULT_NO_HANDLE,	/* the pool looks empty */
	AIOSTREAM_FAULT_SUBMITTED,	/* pause: owner, after submit */
	AIOSTREAM_FAULT_WORKER_READ,	/* pause: I/O worker, before its read */
	AIOSTREAM_FAULT_REAPER,		/* pause: reaper, before it looks at rings */
	AIOSTREAM_FAULT_WRITE_FLUSH,	/* pause: write-behind, before its WAL
									 * flush; fail: an ERROR in its place */
	AIOSTREAM_FAULT_WRITE_COPIED,	/* pause: pages copied, not yet written */
	AIOSTREAM_FAULT_WRITE_ERROR,	/* a write fails with EIO */
	AIOSTREAM_FAULT_WRITE_WRITTEN,	/* pause: written, no fsync requested yet */
	AIOSTREAM_FAULT_WRITE_QUEUE,	/* the queue of fsync requests looks full */
	AIOSTREAM_FAULT_WRITE_RAISE,	/* an ERROR in the middle of a write */
	AIOSTREAM_FAULT_MAX
} AiostreamFaultPoint;

extern Size aiostream_faults_shmem_size(void);
extern void aiostream_faults_shmem_init(bool found);

/*
 * Is the point armed with "fail"? (skip counts and one-shots are handled
 * inside: armed "fail once" answers true once.)
 */
extern bool aiostream_fault(AiostreamFaultPoint point);

/* If armed with "pause": wait (wait event Extension) until disarmed. */
extern void aiostream_fault_pause(AiostreamFaultPoint point);

#endif							/* AIOSTREAM_FAULTS_H */
