/*
 * bench.h
 *		Public interface of the SQL benchmark functions: there is none in C.
 *
 * They are reached through SQL only (aiostream_evict, aiostream_bench_read,
 * aiostream_bench_query); what they share is in bench_internal.h.
 */
#ifndef AIOSTREAM_BENCH_H
#define AIOSTREAM_BENCH_H

#endif							/* AIOSTREAM_BENCH_H */
