#!/usr/bin/env bash
# Runs PostgreSQL 15's own regression, isolation and contrib tests with aiostream; last
# line: "N passed, N failed".  A test has passed if its output is that of plain heap without the library, but for
# what expected-differences lists and normalise.awk takes out.
#
#   test/core/check.sh
#
# CORE_COMBINATIONS="..."   which combinations WHAT-METHOD-DIRECT (default: all of them); a part of the
#                           name stands for all that begin with it.  WHAT is
#     aioheap   every new table is on aioheap (default_table_access_method)
#     heap      plain heap tables, library preloaded
#     forced    as aioheap, and our plan nodes in place of core's wherever there is one (aiostream.debug_force_nodes)
#                           METHOD: io_uring or worker; DIRECT: auto or on.  "plain" is heap without the library.
# CORE_SUITES="..."         regress, isolation, contrib (default: all); a combination's suites run side by side
# CORE_SERVER=cassert       the server with assertions that make check-cassert uses; PG_CONFIG=... another one
# CORE_RESULTS=DIR          keeps all output and logs there, and the differences found in the
#                           form of expected-differences
#
# The tests come from Debian's source package and are kept, with the psql and pg_regress
# that belong to them, in ${AIOSTREAM_CACHE:-/var/tmp/aiostream-cache}.  Their version may
# differ from the server's: where a test's output is not what they expect, plain heap without the library runs on the
# same server, and its output counts instead.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

all_combinations="aioheap-io_uring-auto aioheap-io_uring-on aioheap-worker-auto aioheap-worker-on
	heap-io_uring-auto heap-io_uring-on heap-worker-auto heap-worker-on
	forced-io_uring-auto forced-io_uring-on forced-worker-auto forced-worker-on"
# Those of contrib that have tests for pg_regress and to do with storage.  In version 15 pg_buffercache,
# pg_prewarm and pgrowlocks have no tests.
modules="amcheck bloom btree_gin btree_gist citext cube hstore intarray ltree pageinspect pg_freespacemap pg_surgery
	pg_trgm pg_visibility pg_walinspect pgstattuple postgres_fdw seg test_decoding tsm_system_rows tsm_system_time"
cache=${AIOSTREAM_CACHE:-/var/tmp/aiostream-cache}

passed=0 failed=0 failures=()

# --- servers ---------------------------------------------------------------

# start_server COMBINATION SUITE: a new cluster $work/COMBINATION.SUITE
start_server() {
	local what method direct settings
	IFS=- read -r what method direct <<<"$1"
	settings=(
		# small, so that tables are read again and again; full scans then would
		# start where the last one stopped, and rows come in another order
		"shared_buffers = $([ "$2" = contrib ] && echo 1MB || echo 8MB)" "synchronize_seqscans = off"
		# the tests want all workers that they plan for
		"max_worker_processes = 20"
		"max_prepared_transactions = 10" "fsync = off"
		"log_line_prefix = '%m [%p] %q%a '")
	# as in the logical.conf of test_decoding and in the others' files of this kind
	[ "$2" != contrib ] || settings+=("autovacuum = off" "wal_level = logical" "max_replication_slots = 4" "logical_decoding_work_mem = 64kB")
	[ "$what" = plain ] || settings+=("shared_preload_libraries = 'aiostream'"
		"aiostream.io_method = $method" "aiostream.direct_io = $direct")
	case $what in
	aioheap) settings+=("default_table_access_method = 'aioheap'") ;;
	forced) settings+=("default_table_access_method = 'aioheap'" "aiostream.debug_force_nodes = replace") ;;
	esac
	new_cluster "$1.$2" "${settings[@]}"
}

# end_server COMBINATION SUITE: stops it, and writes into $work/out/COMBINATION.SUITE.* what was wrong: "reads", if
# it did not read as it was told to; "server", if it did not live; and "note", for the summary
end_server() {
	local what method direct counters used reads=0 method_reads=0 direct_reads=0 refused=0 reads_problem="" problem=""
	local log=$work/$1.$2.log out=$work/out/$1.$2 died='PANIC:|TRAP:|was terminated by signal|exited with exit code [^01]'
	IFS=- read -r what method direct <<<"$1"
	if [ "$what" != plain ]; then
		counters=$(sql -d postgres -c "CREATE EXTENSION IF NOT EXISTS aiostream" -F ' ' -c "SELECT value, reads, ${method}_reads,
			direct_reads, fallback_direct_open FROM pg_stat_aiostream, aiostream_info() WHERE name = 'io_method'" 2>&1) ||
			reads_problem="no counters: $counters"
		[ -n "$reads_problem" ] || read -r used reads method_reads direct_reads refused <<<"$counters"
		# tables of the isolation tests have a page or two; and "auto" reads on the spot what the kernel has cached
		if [ "$2" != isolation ] && [ -z "$reads_problem" ]; then
			# a kernel or file system that cannot do it is not the tests' concern
			[ "$direct" != on ] || [ "$method_reads" -gt 0 ] || [ "$used" != "$method" ] || reads_problem="no reads by $method"
			[ "$direct" != on ] || [ "$direct_reads" -gt 0 ] || [ "$refused" -gt 0 ] || reads_problem="no direct reads"
			[ "$reads" -gt 0 ] || reads_problem="no reads"
		fi
	fi
	stop_cluster "$1.$2" || problem="the server did not stop"
	# the tests terminate backends, which is logged otherwise
	! grep -qE "$died" "$log" || problem=$(grep -E "$died" "$log" | head -n 5)
	printf '%s' "$reads_problem" >"$out.reads"
	printf '%s' "$problem" >"$out.server"
	printf '%s' "$reads reads, $method_reads by ${method:-core}, $direct_reads direct" >"$out.note"
	[ -z "${CORE_RESULTS:-}" ] || { mkdir -p "$CORE_RESULTS/$1" && cp "$log" "$CORE_RESULTS/$1/$2.server.log"; }
	rm -rf "${work:?}/$1.$2"
}

# --- suites ----------------------------------------------------------------

# The names of a schedule's or a contrib Makefile's tests
scheduled() { sed -n 's/^test: *//p' "$1" | tr -s ' ' '\n'; }
listed() {	# Makefile, variable
	sed -e ':join' -e '/\\$/N; s/\\\n//; t join' "$1" | sed -nE "s/^$2 *= *//p" | tr -s ' \t' '\n'
}

# pg_suite COMBINATION NAME PROGRAM INPUTDIR ARGUMENT...: output in $work/out/COMBINATION/NAME/results
pg_suite() {
	local out=$work/out/$1/$2 combination=$1 name=$2 program=$3 input=$4
	shift 4
	case $combination in aioheap-* | forced-*) set -- --load-extension=aiostream "$@" ;; esac
	rm -rf "$out"
	as_user mkdir -p "$out"
	# contrib's tests name their data relative to the current folder
	[ ! -d "$input/data" ] || ln -s "$input/data" "$out/data"
	# what fails shows in the comparison
	(cd "$out" && as_user "$program" --inputdir="$input" --outputdir="$out" --bindir="$work/suites/bin" \
		--host="$work_sockets" --user=postgres "$@") >"$out/log" 2>&1 </dev/null || true
}

# run_suite COMBINATION SUITE: prints "PART INPUTDIR TEST" for each test that has run
run_suite() {
	local in=$work/suites module regress isolation
	case $2 in
	regress)
		pg_suite "$1" regress "$in/regress/pg_regress" "$in/regress" --dlpath="$in/lib.so" --max-concurrent-tests=20 \
			--schedule="$in/regress/parallel_schedule"
		scheduled "$in/regress/parallel_schedule" | sed "s|^|regress $in/regress |"
		;;
	isolation)
		pg_suite "$1" isolation "$in/isolation/pg_isolation_regress" "$in/isolation" --schedule="$in/isolation/isolation_schedule"
		scheduled "$in/isolation/isolation_schedule" | sed "s|^|isolation $in/isolation |"
		;;
	contrib)
		for module in $modules; do
			regress=$(listed "$in/contrib/$module/Makefile" REGRESS)
			isolation=$(listed "$in/contrib/$module/Makefile" ISOLATION)
			# shellcheck disable=SC2086
			pg_suite "$1" "$module" "$in/regress/pg_regress" "$in/contrib/$module" --dbname=contrib_regression $regress
			printf "$module $in/contrib/$module %s\n" $regress
			[ -n "$isolation" ] || continue
			# shellcheck disable=SC2046,SC2086
			pg_suite "$1" "$module-isolation" "$in/isolation/pg_isolation_regress" "$in/contrib/$module" \
				$(listed "$in/contrib/$module/Makefile" ISOLATION_OPTS | grep -e --load-extension || true) \
				--dbname=contrib_isolation $isolation
			printf "$module-isolation $in/contrib/$module %s\n" $isolation
		done
		;;
	esac
}

# serve COMBINATION SUITE: server and tests; runs beside those of the other suites, so ports differ
serve() {
	local start=$SECONDS
	case $2 in
	regress) user_env=(PGPORT=5432) ;;
	isolation) user_env=(PGPORT=5433) ;;
	contrib) user_env=(PGPORT=5434) ;;
	esac
	start_server "$1" "$2"
	run_suite "$1" "$2" >"$work/out/$1.$2"
	end_server "$1" "$2"
	printf '; %d s' $((SECONDS - start)) >>"$work/out/$1.$2.note"
}

# --- comparison ------------------------------------------------------------

# normalised FROM TO: all output files of one folder
normalised() {
	[ -d "$2" ] && return
	mkdir -p "$2"
	find "$1" -maxdepth 1 -name '*.out' -print0 2>/dev/null |
		xargs -0r awk -v to="$2" -v counters="$counters" -f "$top/test/core/normalise.awk"
}

# the names of our counters in EXPLAIN, as the code has them
counters=$(sed -nE 's/.*ExplainProperty(Integer|Float)\("([^"]+)".*/\2/p' "$top/src/scan/explain.c" | paste -sd '|')

# The lines that differ, without their places
differing() { diff -a -U0 "$1" "$2" | sed -e 1,2d -e '/^@@/d'; }

# allowed WHAT PART/TEST: the differences listed for it
allowed() {
	awk -v what="$1" -v test="$2" '
		/^#/ { next }
		/^===/ {
			on = ($2 == test ":")
			if (on) {
				on = 0
				for (i = 3; i <= NF; i++)
					if ($i == what)
						on = 1
			}
			next
		}
		on && /^[-+]/' "$top/test/core/expected-differences"
}

# matches WHAT PART TEST ACTUAL CANDIDATE...: is it one of these, but for what is allowed?
matches() {
	local what=$1 name=$2/$3 actual=$4 candidate wanted
	shift 4
	wanted=$(allowed "$what" "$name")
	for candidate in "$@"; do
		[ -e "$candidate" ] || continue
		[ "$(differing "$candidate" "$actual")" != "$wanted" ] || return 0
	done
	return 1
}

# verdict NAME PROBLEM
verdict() {
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		failures+=("$1")
		say "  FAILED  $1"
		printf '%s\n' "$2" | head -n 120 | sed 's/^/          | /'
	fi
}

# The same tests without the library, when first needed: the output is kept in
# the cache, for this server and these settings.
skewed=
baseline() {	# suite
	local part input test new
	[ ! -e "$plain/$1" ] || return 0
	say "  (not all is as the tests of $(cat "$work/suites/version") expect it of $server_version: running $1 without aiostream to compare)"
	serve plain "$1"
	verdict "plain/$1: server" "$(cat "$work/out/plain.$1.server")"
	new=$(mktemp -d "$cache/plain.XXXXXX")
	chmod 755 "$new"
	while read -r part input test; do
		normalised "$work/out/plain/$part/results" "$new/$part"
	done <"$work/out/plain.$1"
	mkdir -p "$plain"
	# another run may have been quicker
	mv -T "$new" "$plain/$1" 2>/dev/null || rm -rf "$new"
}

# check_suite COMBINATION SUITE: what serve() has left
check_suite() {
	local what=${1%%-*} part input test actual before=$failed ok=$passed again=() entry seen kind
	if [ ! -e "$work/out/$1.$2.note" ]; then
		verdict "$1/$2" "$(cat "$work/out/$1.$2.log")"
		return
	fi
	for kind in reads server; do
		verdict "$1/$2: $kind" "$(cat "$work/out/$1.$2.$kind")"
	done
	while read -r part input test; do
		normalised "$input/expected" "$work/norm/expected/${part%-isolation}"
		normalised "$work/out/$1/$part/results" "$work/norm/$1/$part"
		actual=$work/norm/$1/$part/$test.out
		if [ ! -e "$actual" ]; then
			verdict "$1/$part/$test" "no output; $(tail -n 5 "$work/out/$1/$part/log")"
		elif matches "$what" "$part" "$test" "$actual" "$work/norm/expected/${part%-isolation}/$test".out \
			"$work/norm/expected/${part%-isolation}/${test}"_[0-9].out; then
			verdict "$1/$part/$test" ""
		else
			again+=("$part $test")
		fi
	done <"$work/out/$1.$2"
	[ ${#again[@]} = 0 ] || baseline "$2"
	for entry in "${again[@]}"; do
		read -r part test <<<"$entry"
		actual=$work/norm/$1/$part/$test.out
		if matches "$what" "$part" "$test" "$actual" "$plain/$2/$part/$test.out"; then
			[[ $skewed == *" $part/$test"* ]] || skewed+=" $part/$test"
			verdict "$1/$part/$test" ""
		else
			seen=$(differing "$plain/$2/$part/$test.out" "$actual") || true
			verdict "$1/$part/$test" "differences to plain heap, which expected-differences does not have like this:
$seen"
			[ -z "${CORE_RESULTS:-}" ] ||
				printf '=== %s: %s\n%s\n' "$part/$test" "$what" "$seen" >>"$CORE_RESULTS/differences"
		fi
	done
	if [ -n "${CORE_RESULTS:-}" ]; then
		mkdir -p "$CORE_RESULTS/$1"
		cp -r "$work/out/$1/." "$CORE_RESULTS/$1/"
	fi
	printf '  %-7s %-32s %4d passed, %d failed  (%s)\n' "$([ "$failed" = "$before" ] && echo ok || echo FAILED)" \
		"$1/$2" $((passed - ok)) $((failed - before)) "$(cat "$work/out/$1.$2.note")"
}

# --- main ------------------------------------------------------------------

combinations=()
for wanted in ${CORE_COMBINATIONS:-$all_combinations}; do
	found=
	for combination in $all_combinations; do
		case $combination in "$wanted" | "$wanted"-*) combinations+=("$combination") found=1 ;; esac
	done
	[ -n "$found" ] || die "unknown combination $wanted; there are: $(echo $all_combinations)"
done
read -r -a suites <<<"${CORE_SUITES:-regress isolation contrib}"
for suite in "${suites[@]}"; do
	case $suite in regress | isolation | contrib) ;; *) die "unknown suite $suite; there are: regress isolation contrib" ;; esac
done
[ -z "${CORE_RESULTS:-}" ] || { mkdir -p "$CORE_RESULTS" && CORE_RESULTS=$(realpath "$CORE_RESULTS"); }

"$top/test/deps.sh" build cassert
case ${CORE_SERVER:-} in
"") ;;
cassert)
	PG_CONFIG=$cache/cassert/bin/pg_config
	[ -x "$PG_CONFIG" ] || "$top/test/cassert-server.sh" "$cache"
	;;
*) die "CORE_SERVER can be \"cassert\" only" ;;
esac
find_pg_config
server_version=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9.]+).*/\1/')
source_suites=$("$top/test/core/suites.sh" "$cache" "$server_version" | tail -n 1)
make_work
step "PostgreSQL $server_version, tests of $(cat "$source_suites/version")"
copy_tree
mirror_server
(build_private) || { say "0 passed, 1 failed"; exit 1; }
mkdir -p "$work/norm/expected" "$work/out"
plain=$cache/plain-$server_version-$({ cat "$("$PG_CONFIG" --bindir)/postgres" "$source_suites/version" "$top/test/core/normalise.awk"
	declare -f start_server pg_suite run_suite; echo "$modules"; } | sha256sum | cut -c1-12)
cp -r "$source_suites" "$work/suites"
# the tests' C functions, built for this server
mkdir "$work/suites/lib.so"
gcc -O1 -fPIC -shared -fno-strict-aliasing -fwrapv -I"$("$PG_CONFIG" --includedir-server)" \
	-o "$work/suites/lib.so/regress.so" "$work/suites/regress/regress.c"
cp "$("$PG_CONFIG" --pkglibdir)/refint.so" "$("$PG_CONFIG" --pkglibdir)/autoinc.so" "$work/suites/lib.so/"
give_work

for combination in "${combinations[@]}"; do
	step "$combination"
	for suite in "${suites[@]}"; do
		(
			trap - EXIT
			serve "$combination" "$suite"
		) >"$work/out/$combination.$suite.log" 2>&1 &
	done
	wait
	for suite in "${suites[@]}"; do
		check_suite "$combination" "$suite"
	done
done

say ""
[ ${#failures[@]} = 0 ] || say "failed: ${failures[*]}"
[ -z "$skewed" ] || say "compared with plain heap on this server rather than with the sources' expected output:$skewed"
say "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
