#!/usr/bin/env bash
# Cold sequential scans on this machine's disk: plain PostgreSQL against aiostream.
#
#   bench/seqscan.sh
#
#   SIZE=3GB ROUNDS=5            table, rounds
#   WORKERS="0 2"                parallel workers per query
#   CONTENDERS="plain aiostream direct buffered"
#   COMBINE="128kB 256kB 512kB 1MB"  compares these io_combine_limits as well (default: none)
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#   TMPDIR=/folder/on/the/disk/to/measure
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
mb=$(size_mb SIZE "${SIZE:-3GB}")

bench_server $((mb * 5 / 4 + 1000))
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null
load_table t "$mb"
use_table data t

for workers in ${WORKERS:-0 2}; do
	for what in "count(*)" "sum(x)"; do
		scan_cells "$workers" "$what"
	done
done
ceilings_forward

step "cold scans of $total_mb MB"
run_rounds "$rounds"

print_conditions
say "table      $total_mb MB, $rounds rounds; ratios are to plain"
print_results plain

say ""
for workers in ${WORKERS:-0 2}; do
	for what in "count(*)" "sum(x)"; do
		g=$(scan_group "$what" "$workers")
		if [ "$workers" = 0 ]; then
			target "$g: time, aiostream to plain" le 0.85 time "$g" aiostream "$g" plain
			target "$g: CPU, aiostream to plain" le 0.55 cpu "$g" aiostream "$g" plain
			target "$g: time, aiostream to fio (unless CPU/time is 0.90 or more)" le 1.11 time "$g" aiostream "$g" "$fio_direct"
		else
			target "$g: time, aiostream to plain" le 1.00 time "$g" aiostream "$g" plain
		fi
	done
done
