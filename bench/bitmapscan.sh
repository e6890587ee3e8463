#!/usr/bin/env bash
# Cold bitmap heap scans, on this machine's disk and on one with latency (made here: root, /dev/fuse, loop devices).
#
#   bench/bitmapscan.sh
#
#   DISKS="own slow"             disks
#   SHARES="1 5 20"              of the table's pages, in percent
#   SIZE=600MB SLOW_SIZE=550MB   tables
#   ROUNDS=5 SLOW_ROUNDS=5
#   READ_MS=1                    latency of a read of the slow disk
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#
# The pages are in no order, one row of each.  Contenders: plain PostgreSQL, the same with
# effective_io_concurrency = 200 ("plain 200"), aiostream.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
slow_rounds=${SLOW_ROUNDS:-${ROUNDS:-5}}
mb=$(size_mb SIZE "${SIZE:-600MB}")
slow_mb=$(size_mb SLOW_SIZE "${SLOW_SIZE:-550MB}")
disks=${DISKS:-own slow}
shares=${SHARES:-1 5 20}
has() { [[ " $1 " == *" $2 "* ]]; }

force="SET enable_seqscan = off; SET enable_indexscan = off; SET aiostream.enable_indexscan = off;"

needed=0
! has "$disks" own || needed=$((needed + mb * 2))
! has "$disks" slow || needed=$((needed + slow_mb * 2))
bench_server $((needed + 1500))
! has "$disks" slow || slow_disk $((slow_mb * 3 / 2 + 300)) "${READ_MS:-1}"
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null

measure() {	# DISK TABLE ROUNDS
	local share group limit rows blocks query depth
	use_table data "$2"
	depth=$(setting effective_io_concurrency)
	cells=()
	ceilings=()
	for share in $shares; do
		group="$1: $share % of the pages"
		# rows at random that hit that share of the pages
		rows=$(sql -d postgres -c "SELECT round(-ln(1 - $share / 100.0) * pg_relation_size('$2') / 8192)")
		limit=$(sql -d postgres -c "SELECT r FROM $2 ORDER BY r OFFSET $rows LIMIT 1")
		query="SELECT sum(x) FROM $2 WHERE r < $limit"
		blocks=$(sql -d postgres -c "SELECT count(DISTINCT (ctid::text::point)[0]) FROM $2 WHERE r < $limit")
		wanted_node[$group]="(AioBitmapHeapScan)"
		plain_node[$group]="Bitmap Heap Scan"
		group_mb[$group]=$(calc "$blocks / 128")
		cell "$group" plain "${scan_settings[plain]} $force" "$query"
		cell "$group" "plain 200" "${scan_settings[plain]} $force SET effective_io_concurrency = 200;" "$query"
		cell "$group" aiostream "${scan_settings[aiostream]} $force" "$query"
		ceilings+=("fio direct random 8 kB x $depth|fio_mb_s 8192 $depth 1 randread ${files[0]} --io_size=$((blocks < 10000 ? blocks * 8 : 80000))k --norandommap --randrepeat=0|$group")
	done
	step "cold bitmap scans, $1 disk, $total_mb MB"
	run_rounds "$3"
}

if has "$disks" own; then
	load_index_table t "$mb"
	measure own t "$rounds"
fi
if has "$disks" slow; then
	sql -d postgres -c "CREATE TABLESPACE slow LOCATION '$space'" >/dev/null
	load_index_table s "$slow_mb" slow
	measure slow s "$slow_rounds"
fi

print_conditions
! has "$disks" slow || say "slow disk  ${READ_MS:-1} ms a read, $slow_mb MB, $slow_rounds rounds"
! has "$disks" own || say "own disk   $mb MB, $rounds rounds"
print_results plain -v digits=3

say ""
for disk in $disks; do
	for share in $shares; do
		g="$disk: $share % of the pages"
		limit=3.5
		[ "$disk" = own ] || { [ "$share" = 20 ] && limit=10 || limit=6; }
		target "$g: plain to aiostream" ge "$limit" time "$g" plain "$g" aiostream
		target "$g: aiostream to plain with effective_io_concurrency = 200" le 1.00 time "$g" aiostream "$g" "plain 200"
		if [ "$disk" = own ]; then
			target "$g: CPU, aiostream to plain" le 1.00 cpu "$g" aiostream "$g" plain
			target "$g: CPU, aiostream to plain 200" le 1.00 cpu "$g" aiostream "$g" "plain 200"
		fi
	done
done
