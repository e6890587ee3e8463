#!/usr/bin/env bash
# Writing to aioheap must cost what it costs on heap: INSERT, UPDATE, DELETE and COPY of many rows and row by row,
# and pgbench's TPC-B.
#
#   bench/writes.sh
#
#   PARTS="statements pgbench"
#   ROUNDS=11 ROWS=200000        statements: rounds; rows of each statement (row by row: a quarter)
#   PGBENCH_ROUNDS=7 SCALE=10 PGBENCH_TIME=10 CLIENTS=2
#   CONF="line; line"            more lines for postgresql.conf
set -euo pipefail
. "$(dirname "$0")/lib.sh"

parts=${PARTS:-statements pgbench}
rounds=${ROUNDS:-11}
pgbench_rounds=${PGBENCH_ROUNDS:-7}
rows=${ROWS:-200000}
singles=$((rows / 4))

has_part() { [[ " $parts " == *" $1 "* ]]; }

# --- statements --------------------------------------------------------------

# All in one session, which has written to both kinds of table before; CPU is that session's.
cpu="(split_part(pg_read_file('/proc/self/schedstat', 0, 1000, true), ' ', 1)::float8 / 1e9)"

# GROUP ROWS SQL: w is the table
measured=(
	"INSERT|$rows|INSERT INTO w SELECT g, g % 1000, repeat('w', 100) FROM generate_series(1, $rows) g"
	"COPY|$rows|COPY w FROM '%COPY%'"
	"UPDATE|$rows|UPDATE w SET x = x + 1 WHERE id <= $rows"
	"INSERT, row by row|$singles|DO 'BEGIN FOR i IN 1..$singles LOOP INSERT INTO w VALUES (1000000 + i, i, ''single''); END LOOP; END'"
	"UPDATE, row by row|$singles|DO 'BEGIN FOR i IN 1..$singles LOOP UPDATE w SET x = -1 WHERE id = 1000000 + i; END LOOP; END'"
	"DELETE, row by row|$singles|DO 'BEGIN FOR i IN 1..$singles LOOP DELETE FROM w WHERE id = 1000000 + i; END LOOP; END'"
	"DELETE|$rows|DELETE FROM w WHERE id <= $rows")

# print_statements AM ROUND
print_statements() {
	local entry group n query
	echo "DROP TABLE IF EXISTS w; CREATE TABLE w (id bigint PRIMARY KEY, x int, payload text) USING $1;"
	echo "CHECKPOINT;"
	for entry in "${measured[@]}"; do
		IFS='|' read -r group n query <<<"$entry"
		echo "SELECT extract(epoch FROM clock_timestamp()) AS t, $cpu AS c \\gset"
		echo "${query//%COPY%/$work/tmp/rows};"
		echo "SELECT '$group', '$1', $2, extract(epoch FROM clock_timestamp()) - :t, $cpu - :c, $n;"
	done
}

part_statements() {
	local round
	seq "$((rows + 1))" "$((2 * rows))" | awk '{printf "%d\t%d\t%s\n", $1, $1 % 1000, "copied copied copied copied copied copied copied"}' >"$work/tmp/rows"
	chmod a+r "$work/tmp/rows"
	step "statements, $rounds rounds"
	{
		print_statements heap 0
		print_statements aioheap 0
		echo '\echo measure'
		for ((round = 1; round <= rounds; round++)); do
			if ((round % 2 == 1)); then
				print_statements heap "$round"
				print_statements aioheap "$round"
			else
				print_statements aioheap "$round"
				print_statements heap "$round"
			fi
		done
	} >"$work/statements.sql"
	sql -d postgres <"$work/statements.sql" >"$work/statements.out"
	sed '1,/^measure/d' "$work/statements.out" >>"$work/results"
}

# --- pgbench -------------------------------------------------------------------

# a database for each, in one cluster
part_pgbench() {
	local round am
	for am in heap aioheap; do
		step "loading pgbench's tables, scale ${SCALE:-10}, $am"
		sql -d postgres -c "CREATE DATABASE $am"
		sql -d "$am" -c "CREATE EXTENSION aiostream" -c "ALTER DATABASE $am SET default_table_access_method = $am"
		as_user pgbench -h "$work_sockets" -U postgres -i -q -s "${SCALE:-10}" "$am" >"$work/pgbench.log" 2>&1 ||
			{ tail -n 20 "$work/pgbench.log" >&2; die "pgbench -i failed"; }
		[ "$(sql -d "$am" -c "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname LIKE 'pgbench%' AND amname = '$am'")" = 4 ] ||
			die "pgbench's tables do not have the access method $am"
	done
	step "pgbench -c ${CLIENTS:-2}, ${PGBENCH_TIME:-10} s each"
	for ((round = 0; round <= pgbench_rounds; round++)); do
		printf '   round %d of %d:' "$round" "$pgbench_rounds"
		if ((round % 2 == 1)); then
			pgbench_measure heap "$round"
			pgbench_measure aioheap "$round"
		else
			pgbench_measure aioheap "$round"
			pgbench_measure heap "$round"
		fi
		printf '\n'
	done
}
pgbench_measure() {	# AM ROUND
	local before after transactions tps
	# each run finds the same: nothing dead, nothing to be written out
	sql -d "$1" -c "TRUNCATE pgbench_history" -c "VACUUM" -c CHECKPOINT
	before=$(cpu_seconds)
	as_user pgbench -h "$work_sockets" -U postgres -n -c "${CLIENTS:-2}" -j 2 -T "${PGBENCH_TIME:-10}" "$1" >"$work/pgbench.out" 2>"$work/pgbench.log" ||
		{ cat "$work/pgbench.log" >&2; die "pgbench failed"; }
	after=$(cpu_seconds)
	tps=$(awk '/^tps =/ {print $3}' "$work/pgbench.out")
	transactions=$(awk '/actually processed/ {sub(/\/.*/, "", $NF); print $NF}' "$work/pgbench.out")
	# round 0 warms up; what 100,000 transactions take
	[ "$2" = 0 ] || record "pgbench, TPC-B" "$1" "$2" "$(calc "100000 / $tps")" "$(calc "($after - $before) * 100000 / $transactions")" 100000
	printf ' %s %.0f tps' "$1" "$tps"
}

# --- main ------------------------------------------------------------------------

bench_server $((rows / 200 + ${SCALE:-10} * 80 + 2500))
# commits that wait for the disk would hide the rest
bench_cluster data "shared_preload_libraries = 'aiostream'" "synchronous_commit = off"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null
print_conditions >"$work/conditions"
: >"$work/results"
! has_part statements || part_statements
! has_part pgbench || part_pgbench

cat "$work/conditions"
say "tables     $rows rows; pgbench scale ${SCALE:-10}; $rounds rounds, pgbench $pgbench_rounds"
for part in '^pgbench -v rows/s' '^pgbench . tps'; do
	read -r pattern invert work_unit <<<"$part"
	[ "$invert" = . ] && invert=
	# shellcheck disable=SC2086
	grep $invert "$pattern" "$work/results" >"$work/some" || continue
	awk -f "$top/bench/report.awk" -v base=heap -v digits=4 -v work="$work_unit" "$work/some"
done
! has_part pgbench || say "(pgbench: seconds and the server's CPU seconds for 100,000 transactions)"

say ""
cut -d'|' -f1 "$work/results" | awk '!seen[$0]++' >"$work/groups"
while read -r g; do
	target "$g: time" le 1.02 time "$g" aioheap "$g" heap
	target "$g: CPU" le 1.02 cpu "$g" aioheap "$g" heap
done <"$work/groups"
