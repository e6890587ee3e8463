#!/usr/bin/env bash
# Hours in minutes: everything at the same time on a server with little memory, with
# kills, then a loop of crashes.  Last line: "N passed, N failed".
#
#   test/soak/check.sh
#
# SOAK_SECONDS=600        length of the load, in rounds of about a minute that go through the methods
# SOAK_CRASHES=20         how often the postmaster is killed after that, which takes about 10 s each
# SOAK_METHODS="..."      of io_uring worker sync (default: io_uring worker)
# SOAK_SERVER=cassert     the server with assertions that make check-cassert uses; PG_CONFIG=... another one
# SOAK_RESULTS=DIR        keeps the output and the server's log there
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

[ -z "${SOAK_RESULTS:-}" ] || { mkdir -p "$SOAK_RESULTS" && SOAK_RESULTS=$(realpath "$SOAK_RESULTS"); }
"$top/test/deps.sh" build test
case ${SOAK_SERVER:-} in
"") ;;
cassert)
	cache=${AIOSTREAM_CACHE:-/var/tmp/aiostream-cache}
	PG_CONFIG=$cache/cassert/bin/pg_config
	if [ ! -x "$PG_CONFIG" ]; then
		"$top/test/deps.sh" build cassert
		"$top/test/cassert-server.sh" "$cache"
	fi
	;;
*) die "SOAK_SERVER can be \"cassert\" only" ;;
esac
find_pg_config
make_work
step "building for $("$PG_CONFIG" --version)"
copy_tree
mirror_server
(build_private) || { say "0 passed, 1 failed"; exit 1; }
perl=$(as_user "$pg_config" --pkglibdir)/pgxs/src/test
as_user mkdir "$work/soak"
user_env=("PG_REGRESS=$perl/regress/pg_regress" "TESTDIR=$work/soak" PG_TEST_TIMEOUT_DEFAULT=300
	"SOAK_SECONDS=${SOAK_SECONDS:-600}" "SOAK_CRASHES=${SOAK_CRASHES:-20}" "SOAK_METHODS=${SOAK_METHODS:-io_uring worker}")

step "load for ${SOAK_SECONDS:-600} s, then ${SOAK_CRASHES:-20} crashes"
status=0
# shellcheck disable=SC2016
as_user bash -c 'cd "$1" && exec perl -I "$2/perl" -I "$3/test/perl" "$3/test/soak/soak.pl"' \
	_ "$work/soak" "$perl" "$work/src" 2>&1 </dev/null | tee "$work/soak.log" |
	perl -ne '$| = 1;
		if (/^# soak: (.*)/) { print "  $1\n"; next }
		$left = 12 if /^not ok|^Bail/;
		$left = 0 if /^ok |^# (issuing|results|connect output)/;
		print "  | $_" if $left-- > 0' || status=$?

read -r passed failed _ < <(awk -v status="$status" -f "$top/test/tap.awk" "$work/soak.log")
if [ "$failed" != 0 ]; then
	say "exit status $status; the last lines:"
	grep -vE "^# (issuing|results|[{}]|  'std)|QUERY_SEPARATOR" "$work/soak.log" | tail -n 30 | sed 's/^/  | /'
	for log in "$work"/soak/tmp_check/log/*; do
		# there, why the script ended
		case $log in */regress_log*) tail -n 15 "$log" | sed 's/^/  | /'; continue ;; esac
		say "$(basename "$log"):"
		{ grep -E 'PANIC|TRAP|terminated by signal|WARNING' "$log" || true; tail -n 20 "$log"; } | tail -n 60 | sed 's/^/  | /'
	done
fi
if [ -n "${SOAK_RESULTS:-}" ]; then
	cp "$work/soak.log" "$work"/soak/tmp_check/log/* "$SOAK_RESULTS/"
fi
say ""
say "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
