#!/usr/bin/env bash
# Reading a cold table into shared buffers: pg_prewarm against aiostream_prewarm.
#
#   bench/prewarm.sh
#
#   SIZE=3GB ROUNDS=5            table, rounds; shared buffers are made to hold it
#   PAGES="4kB huge"             shared buffers in ordinary memory pages, then in huge ones, which are reserved
#                                for the length of the run (root)
#   CONTENDERS="plain aiostream direct buffered"
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#   TMPDIR=/folder/on/the/disk/to/measure
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
mb=$(size_mb SIZE "${SIZE:-3GB}")

bench_server $((mb * 5 / 4 + 1000))
buffers_mb=$((mb * 5 / 4 + 64))
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'" \
	"shared_buffers = ${buffers_mb}MB"
sql -d postgres -c "CREATE EXTENSION aiostream" -c "CREATE EXTENSION pg_prewarm" >/dev/null
load_table t "$mb"
use_table data t

check_plan() { :; }		# nothing here is planned

huge_pages=/proc/sys/vm/nr_hugepages
give_back_huge_pages() { echo "$huge_pages_before" >$huge_pages; }

# serve_with KIND: the server again, with its shared memory in pages of this kind; false
# if the kernel has not got them
serve_with() {
	local wanted
	[ "$1" = huge ] || { stop_cluster data && start_cluster data -c huge_pages=off && return; }
	[ -w $huge_pages ] || { say "   no huge pages without root"; return 1; }
	huge_pages_before=$(cat $huge_pages)
	cleanup_hooks+=(give_back_huge_pages)
	wanted=$((huge_pages_before + (buffers_mb + 300) / 2))
	stop_cluster data
	echo $wanted >$huge_pages
	[ "$(cat $huge_pages)" -ge $wanted ] || { say "   the kernel has no memory for $wanted huge pages"; return 1; }
	start_cluster data -c huge_pages=on
}

measured=
for kind in ${PAGES:-4kB huge}; do
	[ "$kind" = 4kB ] || [ "$kind" = huge ] || die "PAGES: there is no \"$kind\""
	serve_with "$kind" || continue
	measured+=" $kind"
	group="prewarm, $kind pages"
	cells=() ceilings=()
	for c in ${CONTENDERS:-plain aiostream direct buffered}; do
		[ -n "${scan_settings[$c]:-}" ] || die "CONTENDERS: there is no \"$c\""
		prewarm=aiostream_prewarm
		[ "$c" != plain ] || prewarm=pg_prewarm
		cell "$group" "$c" "${scan_settings[$c]}" "SELECT $prewarm('t')"
	done
	ceilings_forward
	step "reading $total_mb MB into shared buffers, in $kind pages of memory"
	run_rounds "$rounds"
done

print_conditions
say "table      $total_mb MB, $rounds rounds; ratios are to plain, which is pg_prewarm"
print_results plain

say ""
for kind in $measured; do
	group="prewarm, $kind pages"
	target "$kind pages: pg_prewarm's time to aiostream_prewarm's" ge 2.5 time "$group" plain "$group" aiostream
	target "$kind pages: CPU, aiostream_prewarm to pg_prewarm" le 1.00 cpu "$group" aiostream "$group" plain
	target "$kind pages: fio's time to aiostream_prewarm's" ge 0.85 time "$group" "$fio_direct" "$group" aiostream
done
