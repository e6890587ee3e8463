#!/usr/bin/env bash
# Runs every test there is, on servers of its own; last line: "N passed, N failed".
#
#   test/check.sh [--cassert | --sanitize | --valgrind] [SUITE...]
#                              suites: unit regress isolation pgtap tap core (default: these), long
#
# --cassert uses a server built with assertions, which is made the first time
# (some minutes) in ${AIOSTREAM_CACHE:-/var/tmp/aiostream-cache} and kept there.
# --sanitize builds aiostream with AddressSanitizer and UndefinedBehaviorSanitizer, which end a
# process at its first error.  --valgrind runs servers under valgrind's memcheck and counts the
# errors that have aiostream in their stack; slow.  Both use the server with assertions.
# TESTS="name ..." limits the suites to tests of these names; RESULTS=DIR keeps the output
# of pg_regress and isolation tests there.  RANDOM_STATEMENTS=N, RANDOM_SEED=N and RANDOM_METHOD=... are t/012_random.pl's.
#
#   test/unit/*.c              programs that print TAP; linked with the files that their
#                              "link: src/..." comment names, and with AddressSanitizer
#   test/sql, test/expected    pg_regress; test/regress.conf is the server's configuration
#   test/isolation/specs, .../expected
#                              isolation tests; test/isolation.conf or test/regress.conf
#   test/pgtap/*.sql           pgTAP, each in a new database with both extensions
#   test/t/*.pl                TAP tests that start servers with PostgreSQL::Test
#   test/long/*.pl             the same, too long for each run: make check-long
#   test/core/check.sh         PostgreSQL's own regression and isolation tests: one combination of those that
#                              make check-core runs; needs Debian's source package of PostgreSQL
#
# TAP tests are given, where the machine allows for it (root, /dev/fuse, loop devices):
#   AIOSTREAM_SLOWDISK         a folder on a disk with 1 ms latency
#   AIOSTREAM_SLOWDISK_FAIL    while this file exists, each read of that disk fails with EIO
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cassert= checker= suites=()
for arg in "$@"; do
	case $arg in
	--cassert) cassert=1 ;;
	--sanitize | --valgrind) cassert=1 checker=${arg#--} ;;
	unit | regress | isolation | pgtap | tap | core | long) suites+=("$arg") ;;
	*) die "unknown argument $arg" ;;
	esac
done
[ ${#suites[@]} -gt 0 ] || suites=(unit regress isolation pgtap tap core)

passed=0 failed=0 skipped=0 failures=()

# count NAME PASSED FAILED SKIPPED SECONDS
count() {
	passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
	local extra=
	[ "$4" = 0 ] || extra=", $4 skipped"
	if [ "$3" = 0 ]; then
		printf '  ok      %-44s %4d passed%s  (%d s)\n' "$1" "$2" "$extra" "$5"
	else
		failures+=("$1")
		printf '  FAILED  %-44s %4d passed, %d failed%s  (%d s)\n' "$1" "$2" "$3" "$extra" "$5"
	fi
}

# run_tap NAME COMMAND...: a command that prints TAP
run_tap() {
	local name=$1 status=0 start=$SECONDS log counts
	shift
	log=$work/log/${name//\//_}.log
	as_user "$@" >"$log" 2>&1 </dev/null || status=$?
	read -r -a counts < <(awk -v status="$status" -f "$top/test/tap.awk" "$log")
	count "$name" "${counts[@]}" $((SECONDS - start))
	sed -nE 's/^(1\.\.0|ok [0-9]+.*) *# *[Ss][Kk][Ii][Pp][[:alpha:]]* *(.*)/          skipped: \2/p' "$log" | sort | uniq -c | head -n 5
	if [ "${counts[1]}" != 0 ]; then
		say "          exit status $status; what it printed:"
		# first what failed, wherever it stands between the notes
		awk '/^not ok/ { left = 16 } /^ok |^# (issuing|results|connect output)/ { left = 0 } left-- > 0' "$log" |
			cut -c 1-500 | head -n 80 | sed 's/^/          | /'
		grep -vE '^ok |^not ok' "$log" | tail -n 30 | sed 's/^/          | /'
		# servers' logs of TAP tests
		for log in $(find "$work/tap/$(basename "$name" .pl)" -path '*/log/*.log' ! -name 'regress_log*' -newer "$work/mark" 2>/dev/null); do
			say "          $(basename "$log"):"
			grep -E 'ERROR:|PANIC:|TRAP:|terminated by signal' "$log" | tail -n 15 | sed 's/^/          | /' || true
			tail -n 25 "$log" | sed 's/^/          | /'
		done
	fi
}

# is test NAME wanted?
wanted() { [ -z "${TESTS:-}" ] || [[ " $TESTS " == *" $1 "* ]]; }
tests_in() {	# folder, suffix: base names without suffix
	local f
	for f in "$work/src/$1"/*"$2"; do
		[ -e "$f" ] && wanted "$(basename "$f" "$2")" && basename "$f" "$2"
	done
	return 0
}

suite_unit() {
	local names name file sources sanitize=$sanitizers
	names=$(tests_in test/unit .c)
	[ -n "$names" ] || return 0
	step "unit tests"
	# gcc brings the libraries along on Debian, not everywhere; what is palloc'd, a
	# memory context would free
	echo 'int main(void) { return 0; }' | gcc $sanitize -x c -o "$work/tmp/sanitized" - 2>/dev/null || {
		say "  no AddressSanitizer here: without it"
		sanitize=
	}
	for name in $names; do
		file=$work/src/test/unit/$name.c
		sources=$(sed -nE 's/.*link:[ ]*(src[^*]*).*/\1/p' "$file" | tr '\n' ' ')
		run_tap "unit/$name" bash -c 'cd "$1" && gcc -g -O1 $6 -Wall -D_GNU_SOURCE -DAIOSTREAM_UNIT_TEST -fno-strict-aliasing -fwrapv \
			-Isrc -Itest/unit -I"$2" -o "$4.bin" "$3" $5 -lm && ASAN_OPTIONS=detect_leaks=0 exec "$4.bin"' \
			_ "$work/src" "$(as_user "$pg_config" --includedir-server)" "$file" "$work/tmp/unit_$name" "$sources" "$sanitize"
	done
}

# suite_pg_regress NAME PROGRAM INPUTDIR CONFIG TESTS: pg_regress and isolation
suite_pg_regress() {
	local name=$1 program=$2 input=$3 config=$4 tests=$5 start=$SECONDS out ok bad status=0 test log
	[ -n "$tests" ] || return 0
	step "$name tests"
	program=$(as_user "$pg_config" --pkglibdir)/pgxs/src/test/$program
	out=$work/$name
	as_user mkdir -p "$out"
	# a test without expected output shows all of its output as difference
	# instead of ending the run
	for test in $tests; do
		[ -e "$work/src/$input/expected/$test.out" ] || [ -e "$work/src/$input/expected/${test}_1.out" ] ||
			as_user touch "$work/src/$input/expected/$test.out"
	done
	# shellcheck disable=SC2086
	(cd "$out" && as_user "$program" --inputdir="$work/src/$input" --outputdir="$out" --bindir="$bindir" \
		--dlpath="$(as_user "$pg_config" --pkglibdir)" --temp-instance="$out/instance" --no-locale --encoding=UTF8 \
		--temp-config="$config" --max-concurrent-tests=1 $tests) >"$work/log/$name.log" 2>&1 </dev/null || status=$?
	ok=$(grep -cE '^test .* \.\.\. ok' "$work/log/$name.log" || true)
	bad=$(grep -cE '^test .* \.\.\. FAILED' "$work/log/$name.log" || true)
	[ "$status" = 0 ] || [ "$bad" -gt 0 ] || bad=1
	[ "$status" != 0 ] || [ "$ok" -gt 0 ] || bad=1
	[ -z "${RESULTS:-}" ] || { mkdir -p "$RESULTS/$name" && cp "$out"/results/* "$RESULTS/$name/"; }
	count "$name ($(echo "$tests" | wc -w) files)" "$ok" "$bad" 0 $((SECONDS - start))
	if [ "$bad" != 0 ]; then
		grep -E 'FAILED|^pg_regress|failed' "$work/log/$name.log" | sed 's/^/          | /' | head -n 30 || true
		head -n 300 "$out/regression.diffs" 2>/dev/null | sed 's/^/          | /' || true
		grep -hE -A12 'PANIC|FATAL|TRAP|was terminated by|ERROR: AddressSan|runtime error:' "$out/log/postmaster.log" 2>/dev/null |
			head -n 60 | sed 's/^/          | /' || true
		grep -q '^test ' "$work/log/$name.log" || tail -n 20 "$out/log/postmaster.log" | sed 's/^/          | /'
	fi
}

suite_regress() {
	# expected results stand in test/expected or, for the main ones, expected/
	if [ -d "$work/src/expected" ] && [ ! -e "$work/src/test/expected" ]; then
		as_user ln -s ../expected "$work/src/test/expected"
	fi
	suite_pg_regress regress regress/pg_regress test "$(first_config test/regress.conf)" \
		"$(tests_in test/sql .sql | tr '\n' ' ')"
}
suite_isolation() {
	suite_pg_regress isolation isolation/pg_isolation_regress test/isolation \
		"$(first_config test/isolation.conf test/regress.conf)" "$(tests_in test/isolation/specs .spec | tr '\n' ' ')"
}
first_config() {	# the first of these files, else a plain one
	local f
	for f in "$@"; do
		[ -e "$work/src/$f" ] && { echo "$work/src/$f"; return; }
	done
	echo "$work/default.conf"
}

suite_pgtap() {
	local names name
	names=$(tests_in test/pgtap .sql)
	[ -n "$names" ] || return 0
	step "pgTAP tests"
	(new_cluster pgtap "$(cat "$(first_config test/regress.conf)")" "fsync = off") || { count pgtap 0 1 0 0; return 0; }
	for name in $names; do
		sql -d postgres -c "CREATE DATABASE \"$name\"" >/dev/null
		sql -d "$name" -c "SET client_min_messages = warning" -c "CREATE SCHEMA tap" \
			-c "CREATE EXTENSION pgtap SCHEMA tap" -c "CREATE EXTENSION aiostream" \
			-c "ALTER DATABASE \"$name\" SET search_path = public, tap" >/dev/null
		run_tap "pgtap/$name" "$bindir/psql" -X -q -A -t -v ON_ERROR_STOP=1 --pset pager=off -h "$work_sockets" -U postgres \
			-d "$name" -f "$work/src/test/pgtap/$name.sql"
	done
	stop_cluster pgtap
}

suite_tap() { tap_tests t; }
suite_long() { tap_tests long; }

# tap_tests FOLDER: those of test/FOLDER
tap_tests() {
	local folder=$1 names name perl
	names=$(tests_in "test/$folder" .pl)
	[ -n "$names" ] || return 0
	step "TAP tests"
	perl=$(as_user "$pg_config" --pkglibdir)/pgxs/src/test
	slow_disk
	for name in $names; do
		as_user mkdir -p "$work/tap/$name"
		user_env=("PG_REGRESS=$perl/regress/pg_regress" "TESTDIR=$work/tap/$name"
			"AIOSTREAM_TEST_DIR=$work/src/test" "RANDOM_STATEMENTS=${RANDOM_STATEMENTS:-}" "RANDOM_SEED=${RANDOM_SEED:-}" "RANDOM_METHOD=${RANDOM_METHOD:-}"
			"${disk_env[@]}")
		run_tap "$folder/$name" bash -c 'cd "$1" && exec perl -I "$2/perl" -I "$3/test" -I "$3/test/perl" "$3/test/$4.pl"' \
			_ "$work/tap/$name" "$perl" "$work/src" "$folder/$name"
		user_env=()
		rm -rf "${work:?}/tap/$name" "$work/disk/fail-reads"
		[ ${#disk_env[@]} = 0 ] || find "$work/disk/mnt/tests" -mindepth 1 -delete
	done
}

# Our plan nodes in place of core's, so that as many of the tests as possible go through them; with assertions
# the plans that users get, too.  These tests have other names than ours: TESTS leaves them out.
suite_core() {
	local log=$work/log/core.log start=$SECONDS ok=0 bad=1 combinations=forced-io_uring-on
	[ -z "${TESTS:-}${checker:-}" ] || return 0
	step "PostgreSQL's own tests"
	[ -z "$cassert" ] || combinations="aioheap-io_uring-auto $combinations"
	env CORE_COMBINATIONS="$combinations" CORE_SUITES="regress isolation" ${cassert:+CORE_SERVER=cassert} \
		${RESULTS:+CORE_RESULTS="$RESULTS/core"} "$top/test/core/check.sh" >"$log" 2>&1 </dev/null || true
	read -r ok bad < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log") || true
	count "core ($combinations)" "${ok:-0}" "${bad:-1}" 0 $((SECONDS - start))
	sed -E -e '/^[0-9]+ passed, [0-9]+ failed$/d' -e '/^$/d' -e 's/^/          /' "$log"
}

# A slow disk for the TAP tests, where that is possible; else they skip.
disk_env=()
slow_disk() {
	local log=$work/log/slowdisk.log
	is_root && [ -e /dev/fuse ] && [ -e /dev/loop-control ] || { say "  no slow disk here (needs root, /dev/fuse and loop devices): its tests are skipped"; return 0; }
	cleanup_hooks+=(slow_disk_down)
	if ! "$top/test/slowdisk" up "$work/disk" 1024 1 1 >"$log" 2>&1; then
		say "  no slow disk here ($(tail -n 1 "$log")): its tests are skipped"
		return 0
	fi
	chown "$run_user" "$work/disk"
	as_user mkdir "$work/disk/mnt/tests"
	disk_env=("AIOSTREAM_SLOWDISK=$work/disk/mnt/tests" "AIOSTREAM_SLOWDISK_FAIL=$work/disk/fail-reads")
}
slow_disk_down() { "$top/test/slowdisk" down "$work/disk" >/dev/null 2>&1; }

# --- a server with assertions -------------------------------------------

cache=${AIOSTREAM_CACHE:-/var/tmp/aiostream-cache}
cassert_server() {
	PG_CONFIG=$cache/cassert/bin/pg_config
	[ -x "$PG_CONFIG" ] && return
	"$top/test/deps.sh" build cassert
	"$top/test/cassert-server.sh" "$cache"
}

# --- memory checkers ------------------------------------------------------

sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=all"

# The server's executable becomes a script that runs it by COMMAND.
# What initdb and --version run is left alone.
run_server_by() {
	mv "$bindir/postgres" "$bindir/postgres.bin"
	cat >"$bindir/postgres" <<-SCRIPT
		#!/bin/sh
		case " \$* " in
		*" -D "*) exec $* "$bindir/postgres.bin" "\$@" ;;
		esac
		exec "$bindir/postgres.bin" "\$@"
	SCRIPT
	chmod 755 "$bindir/postgres"
	give_work
}

use_checker() {
	case $checker in
	sanitize)
		build_flags+=("AIOSTREAM_CFLAGS=-Werror -fno-omit-frame-pointer $sanitizers" "SHLIB_LINK=-luring $sanitizers")
		# PostgreSQL forgets memory on purpose when it ends
		run_server_by env "LD_PRELOAD=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)" \
			ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1
		;;
	valgrind)
		run_server_by valgrind --quiet --leak-check=no --num-callers=24 "--log-file=$work/log/valgrind.%p"
		base_env=(PGCTLTIMEOUT=600 PG_TEST_TIMEOUT_DEFAULT=900)
		;;
	esac
}

# What valgrind has written, by paragraphs: those about us.  PostgreSQL writes WAL with gaps
# in it on purpose; valgrind does not know cachestat, and says so.
valgrind_errors() {
	local errors
	step "valgrind"
	cat "$work"/log/valgrind.* 2>/dev/null | sed -E '/^--[0-9]+--/d; s/^==[0-9]+== ?//' |
		awk -v RS= '/aiostream/ && /(at|by) 0x/ && !/ XLogWrite \(/ {n++; if (n <= 20) print $0 "\n"} END {print n + 0 > "/dev/stderr"}' \
		2>"$work/valgrind.count" >"$work/valgrind.errors"
	errors=$(cat "$work/valgrind.count")
	count "errors of valgrind's memcheck: $errors" $((errors == 0)) $((errors > 0)) 0 0
	sed 's/^/          | /' "$work/valgrind.errors"
}

# --- main ----------------------------------------------------------------

"$top/test/deps.sh" build test
[ "$checker" != valgrind ] || "$top/test/deps.sh" valgrind
[ -z "$cassert" ] || cassert_server
find_pg_config
make_work
touch "$work/mark"
as_user mkdir -p "$work/log"
echo "shared_preload_libraries = 'aiostream'" >"$work/default.conf"
step "building for $("$PG_CONFIG" --version)"
copy_tree
mirror_server
build_flags=()
use_checker
(build_private AIOSTREAM_CFLAGS=-Werror "${build_flags[@]}") || { say "0 passed, 1 failed"; exit 1; }
for suite in "${suites[@]}"; do
	"suite_$suite"
done
[ "$checker" != valgrind ] || valgrind_errors

say ""
[ ${#failures[@]} = 0 ] || say "failed: ${failures[*]}"
[ "$skipped" = 0 ] || say "$skipped skipped"
say "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
