#!/usr/bin/env bash
# Cold sequential scans on a disk with latency, which it makes: needs root, /dev/fuse and loop devices.
#
#   bench/slowdisk.sh
#
#   SIZE=650MB ROUNDS=5          table, rounds
#   READ_MS=1                    latency of a read
#   WORKERS="0 2"                parallel workers per query
#   CONTENDERS="plain aiostream direct buffered"
#   COMBINE="128kB 256kB 512kB 1MB"  compares these io_combine_limits as well (default: none)
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
mb=$(size_mb SIZE "${SIZE:-650MB}")
latency=${READ_MS:-1}

bench_server $((mb * 3 / 2 + 1000))
slow_disk $((mb * 5 / 4 + 200)) "$latency"

bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'"
sql -d postgres -c "CREATE EXTENSION aiostream" -c "CREATE TABLESPACE slow LOCATION '$space'" >/dev/null
load_table t "$mb" slow
use_table data t

for workers in ${WORKERS:-0 2}; do
	scan_cells "$workers" "count(*)"
done
ceilings_forward

step "cold scans of $total_mb MB"
run_rounds "$rounds"

print_conditions "$work/disk/mnt"
say "table      $total_mb MB on a disk with $latency ms latency, $rounds rounds; ratios are to plain"
print_results plain

say ""
serial=$(scan_group "count(*)" 0)
for workers in ${WORKERS:-0 2}; do
	g=$(scan_group "count(*)" "$workers")
	if [ "$workers" = 0 ]; then
		target "plain's time to aiostream's, serial" ge 4 time "$g" plain "$g" aiostream
	else
		target "aiostream's time with $workers workers to its time without" le 1.00 time "$g" aiostream "$serial" aiostream
		read -r medians rounds < <(ratio time "$g" plain "$serial" plain)
		say "to compare: plain's time with $workers workers to its time without: $medians of medians, $rounds of rounds"
	fi
done
