#!/usr/bin/env bash
# What is cached must not become slower: a table in the page cache, a table in shared buffers, and pgbench -S.
#
#   bench/cached.sh
#
#   PARTS="pagecache hot pgbench"
#   SIZE=2GB ROUNDS=5            table in the page cache; rounds of pagecache and pgbench
#   HOT_SIZE=240MB HOT_ROUNDS=31 table in shared buffers; at most a quarter of these
#   SCALE=10 PGBENCH_TIME=10     pgbench's scale, and seconds a run
#   CONF="line; line"            more lines for postgresql.conf
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
hot_rounds=${HOT_ROUNDS:-31}
mb=$(size_mb SIZE "${SIZE:-2GB}")
hot_mb=$(size_mb HOT_SIZE "${HOT_SIZE:-240MB}")
parts=${PARTS:-pagecache hot pgbench}

has_part() { [[ " $parts " == *" $1 "* ]]; }
plain=${scan_settings[plain]}
ours=${scan_settings[aiostream]}

# not in shared buffers, but in the page cache
part_pagecache() {
	local available what
	available=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
	[ "$available" -gt $((mb * 3 / 2 + 1500)) ] || die "only $available MB of memory are available: choose a smaller SIZE"
	load_table t "$mb"
	use_table data t
	for what in "count(*)" "sum(x)"; do
		cell "in the page cache: $what" plain "$plain" "SELECT $what FROM t"
		cell "in the page cache: $what" aiostream "$ours" "SELECT $what FROM t"
	done
	prepare=make_page_cached
	step "scans of $total_mb MB in the page cache"
	run_rounds "$rounds"
}

# Backends have a start-up cost that long sessions do not notice (mapping shared
# buffers), so all of it is one session; CPU is that session's.
part_hot() {
	local round q c what contender
	load_table hot "$hot_mb"
	use_table data hot
	for what in "count(*)" "sum(x)"; do
		check_plan "hot|plain|$plain|SELECT $what FROM hot"
		check_plan "hot|aiostream|$ours|SELECT $what FROM hot"
	done
	step "scans of $total_mb MB in shared buffers, $hot_rounds rounds"
	{
		for round in 1 2; do
			echo "$plain SELECT count(*) FROM hot; SELECT sum(x) FROM hot;"
			echo "$ours SELECT count(*) FROM hot; SELECT sum(x) FROM hot;"
		done
		echo '\echo measure'
		for ((round = 1; round <= hot_rounds; round++)); do
			for q in 0 1; do
				for c in 0 1; do
					[ $(((round + q) % 2)) = 0 ] && what="count(*)" || what="sum(x)"
					[ $(((round / 2 + c) % 2)) = 0 ] && contender=plain || contender=aiostream
					hot_measure "$what" "$contender" "$round"
				done
			done
		done
		echo '\echo buffers'
		echo "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT count(*) FROM hot;"
	} >"$work/hot.sql"
	sql -d postgres <"$work/hot.sql" >"$work/hot.out"
	awk '/^buffers/ {on = 1} on && /shared/ && / read=/ {bad = 1} END {exit bad}' "$work/hot.out" ||
		die "the table did not stay in shared buffers: choose a smaller HOT_SIZE"
	awk -F'|' '/^measure/ {on = 1; next} /^buffers/ {exit} on' "$work/hot.out" >"$work/hot.rows"
	[ "$(cut -d'|' -f1,7 "$work/hot.rows" | sort -u | wc -l)" = 2 ] || die "the answers differ"
	cut -d'|' -f1-6 "$work/hot.rows" >>"$work/results"
}
hot_measure() {	# WHAT CONTENDER ROUND
	local cpu="(split_part(pg_read_file('/proc/self/schedstat', 0, 1000, true), ' ', 1)::float8 / 1e9)"
	[ "$2" = plain ] && echo "$plain" || echo "$ours"
	echo "SELECT extract(epoch FROM clock_timestamp()) AS t, coalesce($cpu, 0) AS c \\gset"
	echo "SELECT $1 AS answer FROM hot \\gset"
	# one row, times first
	echo "SELECT 'in shared buffers: $1', '$2', $3, extract(epoch FROM clock_timestamp()) - :t,
		coalesce(($cpu - :c)::text, '-'), $total_mb, :answer;"
}

# the same cluster with and without aiostream preloaded
part_pgbench() {
	local round c
	step "loading pgbench's tables, scale ${SCALE:-10}"
	bench_cluster pgbench
	as_user pgbench -h "$work_sockets" -U postgres -i -q -s "${SCALE:-10}" postgres >"$work/pgbench.log" 2>&1 ||
		{ tail -n 20 "$work/pgbench.log" >&2; die "pgbench -i failed"; }
	stop_cluster pgbench
	step "pgbench -S -c 2, ${PGBENCH_TIME:-10} s each"
	for ((round = 1; round <= rounds; round++)); do
		printf '   round %d of %d:' "$round" "$rounds"
		if ((round % 2 == 1)); then
			pgbench_measure plain "" "$round"
			pgbench_measure preloaded aiostream "$round"
		else
			pgbench_measure preloaded aiostream "$round"
			pgbench_measure plain "" "$round"
		fi
		printf '\n'
	done
}
pgbench_run() { as_user pgbench -h "$work_sockets" -U postgres -n -S -c 2 -j 2 -T "$1" postgres 2>"$work/pgbench.log" || { cat "$work/pgbench.log" >&2; die "pgbench failed"; }; }
pgbench_measure() {	# CONTENDER LIBRARY ROUND
	local before after transactions tps
	start_cluster pgbench -c "shared_preload_libraries=$2"
	# into shared buffers: the table, and in a first run the index
	sql -d postgres -c "SELECT sum(abalance) FROM pgbench_accounts" -c "SET enable_seqscan = off" \
		-c "SELECT count(aid) FROM pgbench_accounts" >/dev/null
	pgbench_run 2 >/dev/null
	before=$(cpu_seconds)
	pgbench_run "${PGBENCH_TIME:-10}" >"$work/pgbench.out"
	after=$(cpu_seconds)
	stop_cluster pgbench
	tps=$(awk '/^tps =/ {print $3}' "$work/pgbench.out")
	transactions=$(awk '/actually processed/ {sub(/\/.*/, "", $NF); print $NF}' "$work/pgbench.out")
	# what 100,000 transactions take
	record "pgbench -S" "$1" "$3" "$(calc "100000 / $tps")" "$(calc "($after - $before) * 100000 / $transactions")" 100000
	printf ' %s %.0f tps' "$1" "$tps"
}

bench_server $((mb * 5 / 4 + hot_mb * 2 + ${SCALE:-10} * 40 + 1500))
bench_cluster data "shared_preload_libraries = 'aiostream'"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null
print_conditions >"$work/conditions"
! has_part pagecache || part_pagecache
! has_part hot || part_hot
stop_cluster data
! has_part pgbench || part_pgbench

cat "$work/conditions"
say "tables     page cache ${SIZE:-2GB}, shared buffers ${HOT_SIZE:-240MB}, pgbench scale ${SCALE:-10}; $rounds rounds, shared buffers $hot_rounds"
if has_part pagecache || has_part hot; then
	grep -v '^pgbench' "$work/results" >"$work/scans"
	awk -f "$top/bench/report.awk" -v base=plain -v digits=4 "$work/scans"
fi
if has_part pgbench; then
	grep '^pgbench' "$work/results" >"$work/transactions"
	awk -f "$top/bench/report.awk" -v base=plain -v digits=4 -v work=tps "$work/transactions"
	say "(pgbench: seconds and the server's CPU seconds for 100,000 transactions; plain: not preloaded)"
fi

say ""
for what in "count(*)" "sum(x)"; do
	g="in the page cache: $what"
	! has_part pagecache || target "$g: time" le 1.03 time "$g" aiostream "$g" plain
done
for what in "count(*)" "sum(x)"; do
	g="in shared buffers: $what"
	! has_part hot || target "$g: time" le 1.02 time "$g" aiostream "$g" plain
done
if has_part pgbench; then
	target "pgbench -S: time of a transaction" le 1.02 time "pgbench -S" preloaded "pgbench -S" plain
	target "pgbench -S: CPU of a transaction" le 1.02 cpu "pgbench -S" preloaded "pgbench -S" plain
fi
