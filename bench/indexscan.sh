#!/usr/bin/env bash
# Index scans, cold and hot, on this machine's disk and on one with latency (made here: root, /dev/fuse, loop devices).
#
#   bench/indexscan.sh
#
#   DISKS="own slow"             disks
#   PARTS="order random loop hot"  in index order, up and down; 30,000 rows in no order; nested loop; hot (own disk only)
#   SIZE=400MB SLOW_SIZE=100MB   tables
#   ROUNDS=5 SLOW_ROUNDS=5 HOT_ROUNDS=21
#   READ_MS=1                    latency of a read of the slow disk
#   PROBES=100000                of the nested loop
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#
# One column follows the table within 50 pages, one is in no order; rows have about 200
# bytes.  Cold is table and indexes, plans are forced where the planner had a choice.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
slow_rounds=${SLOW_ROUNDS:-${ROUNDS:-5}}
hot_rounds=${HOT_ROUNDS:-21}
mb=$(size_mb SIZE "${SIZE:-400MB}")
slow_mb=$(size_mb SLOW_SIZE "${SLOW_SIZE:-100MB}")
disks=${DISKS:-own slow}
parts=${PARTS:-order random loop hot}
probes=${PROBES:-100000}
has() { [[ " $1 " == *" $2 "* ]]; }

force="SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET aiostream.enable_bitmapscan = off;"
join="SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off; SET enable_bitmapscan = off; SET aiostream.enable_bitmapscan = off;"

# ours DISK WHAT: contenders plain, aiostream and direct of one query
contend() {	# GROUP SETTINGS QUERY CONTENDER...
	local group=$1 settings=$2 query=$3 c
	shift 3
	for c in "$@"; do
		cell "$group" "$c" "${scan_settings[$c]} $settings" "$query"
	done
}

# part_order DISK TABLE: all of the table in index order
part_order() {
	local d
	for d in ascending descending; do
		wanted_node["$1: $d"]="(AioIndexScan)"
		plain_node["$1: $d"]="Index Scan"
	done
	contend "$1: ascending" "$force" "SELECT sum(x) FROM (SELECT x FROM $2 ORDER BY k) s" plain aiostream direct
	contend "$1: descending" "$force" "SELECT sum(x) FROM (SELECT x FROM $2 ORDER BY k DESC) s" plain aiostream direct
	local request=$(($(setting io_combine_limit) * 8192)) depth
	depth=$(setting effective_io_concurrency)
	ceilings+=("fio direct $((request / 1024)) kB x $depth|fio_mb_s $request $depth 1 read $(colons "${files[@]}")|$1: ascending"
		"fio direct $((request / 1024)) kB x $depth|fio_backward_mb_s $request $depth 1|$1: descending")
}

# part_random DISK TABLE: 30,000 rows in no order
part_random() {
	local group="$1: random, 30,000 rows" limit blocks
	limit=$(sql -d postgres -c "SELECT r FROM $2 ORDER BY r OFFSET 30000 LIMIT 1")
	blocks=$(sql -d postgres -c "SELECT count(DISTINCT (ctid::text::point)[0]) FROM $2 WHERE r < $limit")
	wanted_node[$group]="(AioIndexScan)"
	plain_node[$group]="Index Scan"
	group_mb[$group]=$(calc "$blocks / 128")
	contend "$group" "$force" "SELECT sum(x) FROM (SELECT x FROM $2 WHERE r < $limit ORDER BY r) s" plain aiostream
	local depth
	depth=$(setting effective_io_concurrency)
	ceilings+=("fio direct random 8 kB x $depth|fio_mb_s 8192 $depth 1 randread ${files[0]} --io_size=$((blocks < 10000 ? blocks * 8 : 80000))k --norandommap --randrepeat=0|$group")
}

# part_loop DISK TABLE: index probes from the inside of a nested loop
part_loop() {
	local group="$1: nested loop"
	sql -d postgres >/dev/null <<SQL
DROP TABLE IF EXISTS probes;
SELECT setseed(0.5);
CREATE TABLE probes AS SELECT 1 + floor(random() * (SELECT max(id) FROM $2))::int AS id FROM generate_series(1, $probes);
VACUUM (ANALYZE) probes;
SQL
	wanted_node[$group]="Nested Loop"
	plain_node[$group]="Nested Loop"
	contend "$group" "$join" "SELECT sum(t.x) FROM probes p JOIN $2 t ON t.id = p.id" plain aiostream
}

# Hot: one session, and its own CPU time (see cached.sh)
part_hot() {
	local round c q contender low high cpu="(split_part(pg_read_file('/proc/self/schedstat', 0, 1000, true), ' ', 1)::float8 / 1e9)"
	low=$((total_mb_int * 1000))
	high=$((low + 150000))
	local -A query=(
		[hot: range scan, 150,000 rows]="SELECT sum(x) FROM t WHERE k BETWEEN $low AND $high"
		[hot: descending]="SELECT sum(x) FROM (SELECT x FROM t WHERE k BETWEEN $low AND $high ORDER BY k DESC) s"
		[hot: random, 150,000 rows]="SELECT sum(x) FROM t WHERE r < $((2000000000 / (total_mb_int * 4993 / 150000)))"
		[hot: nested loop]="SELECT sum(t.x) FROM probes p JOIN t ON t.id = p.id"
	)
	local names=("hot: range scan, 150,000 rows" "hot: descending" "hot: random, 150,000 rows" "hot: nested loop")
	[ "$(sql -d postgres -c "SELECT to_regclass('probes') IS NOT NULL")" = t ] || names=("${names[@]:0:3}")
	step "hot scans, $hot_rounds rounds"
	{
		for q in "${names[@]}"; do
			for contender in plain aiostream; do
				[ "$q" = "hot: nested loop" ] && echo "RESET ALL; $join" || echo "RESET ALL; $force"
				echo "${scan_settings[$contender]} ${query[$q]}; ${query[$q]};"
			done
		done
		echo '\echo measure'
		for ((round = 1; round <= hot_rounds; round++)); do
			for q in "${names[@]}"; do
				for c in 0 1; do
					[ $(((round + c) % 2)) = 0 ] && contender=plain || contender=aiostream
					[ "$q" = "hot: nested loop" ] && echo "RESET ALL; $join" || echo "RESET ALL; $force"
					echo "${scan_settings[$contender]}"
					echo "SELECT extract(epoch FROM clock_timestamp()) AS t, coalesce($cpu, 0) AS c \\gset"
					echo "${query[$q]} \\gset a_"
					echo "SELECT '$q', '$contender', $round, extract(epoch FROM clock_timestamp()) - :t,
						coalesce(($cpu - :c)::text, '-'), $total_mb, :a_sum;"
				done
			done
		done
	} >"$work/hot.sql"
	sql -d postgres <"$work/hot.sql" >"$work/hot.out"
	awk -F'|' '/^measure/ {on = 1; next} on' "$work/hot.out" >"$work/hot.rows"
	[ "$(cut -d'|' -f1,7 "$work/hot.rows" | sort -u | wc -l)" = ${#names[@]} ] || die "the answers differ"
	cut -d'|' -f1-6 "$work/hot.rows" >>"$work/results"
}

needed=0
! has "$disks" own || needed=$((needed + mb * 2))
! has "$disks" slow || needed=$((needed + slow_mb * 2))
bench_server $((needed + 1500))
! has "$disks" slow || slow_disk $((slow_mb * 3 / 2 + 300)) "${READ_MS:-1}"
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null

measure() {	# DISK TABLE ROUNDS
	local part
	use_table data "$2"
	cells=()
	ceilings=()
	for part in order random loop; do
		! has "$parts" "$part" || "part_$part" "$1" "$2"
	done
	[ ${#cells[@]} = 0 ] || { step "cold index scans, $1 disk, $total_mb MB"; run_rounds "$3"; }
}

if has "$disks" own; then
	load_index_table t "$mb"
	measure own t "$rounds"
	total_mb_int=${total_mb%.*}
	! has "$parts" hot || part_hot
fi
if has "$disks" slow; then
	sql -d postgres -c "CREATE TABLESPACE slow LOCATION '$space'" >/dev/null
	load_index_table s "$slow_mb" slow
	measure slow s "$slow_rounds"
fi

print_conditions
! has "$disks" slow || say "slow disk  ${READ_MS:-1} ms a read, $slow_mb MB, $slow_rounds rounds"
! has "$disks" own || say "own disk   $mb MB, $rounds rounds; hot $hot_rounds rounds"
print_results plain -v digits=3

say ""
for disk in $disks; do
	up="$disk: ascending" down="$disk: descending"
	[ "$disk" = own ] && limits=(1.3 5 3) || limits=(1.5 12 6)
	if has "$parts" order; then
		target "$disk disk: descending to ascending" le "${limits[0]}" time "$down" aiostream "$up" aiostream
		target "$disk disk: plain's descending to aiostream's" ge "${limits[1]}" time "$down" plain "$down" aiostream
		target "$disk disk: ascending, aiostream to plain" le 1.00 time "$up" aiostream "$up" plain
		target "$disk disk: ascending, CPU, aiostream to plain" le 0.70 cpu "$up" aiostream "$up" plain
		target "$disk disk: ascending, direct to auto" le 1.20 time "$up" direct "$up" aiostream
	fi
	! has "$parts" random ||
		target "$disk disk: random order, plain to aiostream" ge "${limits[2]}" time "$disk: random, 30,000 rows" plain "$disk: random, 30,000 rows" aiostream
	! has "$parts" loop ||
		target "$disk disk: nested loop, cold, aiostream to plain" le 1.00 time "$disk: nested loop" aiostream "$disk: nested loop" plain
done
if has "$parts" hot && has "$disks" own; then
	while read -r g; do
		target "$g: time, aiostream to plain" le 1.02 time "$g" aiostream "$g" plain
	done < <(cut -d'|' -f1 "$work/results" | grep '^hot' | awk '!seen[$0]++')
fi
