#!/usr/bin/env bash
# Reading a cold table into shared buffers: pg_prewarm against aiostream_prewarm.
#
#   bench/prewarm.sh
#
#   SIZE=3GB ROUNDS=5            table, rounds; shared buffers are made to hold it
#   CONTENDERS="plain aiostream direct buffered"
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#   TMPDIR=/folder/on/the/disk/to/measure
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
mb=$(size_mb SIZE "${SIZE:-3GB}")

bench_server $((mb * 5 / 4 + 1000))
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'" \
	"shared_buffers = $((mb * 5 / 4 + 64))MB"
sql -d postgres -c "CREATE EXTENSION aiostream" -c "CREATE EXTENSION pg_prewarm" >/dev/null
load_table t "$mb"
use_table data t

check_plan() { :; }		# nothing here is planned
group="prewarm"
for c in ${CONTENDERS:-plain aiostream direct buffered}; do
	[ -n "${scan_settings[$c]:-}" ] || die "CONTENDERS: there is no \"$c\""
	prewarm=aiostream_prewarm
	[ "$c" != plain ] || prewarm=pg_prewarm
	cell "$group" "$c" "${scan_settings[$c]}" "SELECT $prewarm('t')"
done
ceilings_forward

step "reading $total_mb MB into shared buffers"
run_rounds "$rounds"

print_conditions
say "table      $total_mb MB, $rounds rounds; ratios are to plain, which is pg_prewarm"
print_results plain

say ""
target "pg_prewarm's time to aiostream_prewarm's" ge 2.5 time "$group" plain "$group" aiostream
target "CPU, aiostream_prewarm to pg_prewarm" le 1.00 cpu "$group" aiostream "$group" plain
target "fio's time to aiostream_prewarm's" ge 0.85 time "$group" "$fio_direct" "$group" aiostream
