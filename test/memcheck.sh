#!/usr/bin/env bash
# Looks for errors in the use of memory: aiostream's tests with AddressSanitizer and
# UndefinedBehaviorSanitizer built in, then some of them on a server that runs under valgrind.
#
#   test/memcheck.sh
#
# MEMCHECK_SANITIZE="unit regress isolation"    suites for the former, as test/check.sh has them; "" for none
# MEMCHECK_VALGRIND="cursor ..."                regression tests for the latter; "" for none
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

sanitize=${MEMCHECK_SANITIZE-unit regress isolation}
valgrind=${MEMCHECK_VALGRIND-seqscan cursor parallel transaction indexscan prune evict fault aioheap_dml aioheap_index adopt bench_read}

status=0
# shellcheck disable=SC2086
[ -z "$sanitize" ] || "$top/test/check.sh" --sanitize $sanitize || status=1
[ -z "$valgrind" ] || TESTS=$valgrind "$top/test/check.sh" --valgrind regress || status=1
exit "$status"
