#!/usr/bin/env bash
# Cold scans, plain PostgreSQL against aiostream, on a throw-away cluster.
#
#   make demo [DEMO_SIZE=1GB] [DEMO_ROUNDS=n] [TMPDIR=/folder/on/the/disk/to/measure]
#
# Without DEMO_ROUNDS: three rounds, fewer where they would take too long.
#
# Loads a table that does not fit its shared buffers and reads it uncached
# in turn on each path.  Nothing runs in parallel, and each run begins with the
# table dropped from shared buffers and from the kernel's cache.  CPU is that of
# all processes of the server, the kernel's I/O threads on its behalf included.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

size=${DEMO_SIZE:-1GB}
rounds=${DEMO_ROUNDS:-3}
mb=$(size_mb DEMO_SIZE "$size")
[ "$mb" -ge 64 ] || die "DEMO_SIZE must be at least 64MB"
[ "$rounds" -ge 1 ] || die "DEMO_ROUNDS must be at least 1"

"$top/test/deps.sh" build demo
find_pg_config
make_work
free=$(df -Pm "$work" | awk 'NR == 2 {print $4}')
[ "$free" -gt $((mb * 5 / 4 + 500)) ] || die "$(dirname "$work") has only $free MB free: set TMPDIR to a folder with more, or DEMO_SIZE"

step "building aiostream for $("$PG_CONFIG" --version)"
copy_tree
mirror_server
build_private

# the default, but never most of a small table
buffers=$((mb / 8 < 128 ? mb / 8 : 128))
step "starting a private cluster in $work (shared_buffers ${buffers}MB)"
new_cluster data "shared_preload_libraries = 'aiostream'" "shared_buffers = ${buffers}MB" "wal_level = minimal" \
	"max_wal_senders = 0" "max_wal_size = 4GB" "autovacuum = off" "max_parallel_workers_per_gather = 0" "jit = off" \
	"synchronize_seqscans = on"
postmaster=$(head -n 1 "$work/data/postmaster.pid")
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null

rows=$((mb * 1024 * 1024 / 205))
step "loading a table of $size ($rows rows of about 200 bytes)"
# COPY FREEZE: hint bits and visibility map are final, no run has writing to do
sql -d postgres >/dev/null <<SQL
BEGIN;
CREATE TABLE demo (id bigint, x int, payload text);
COPY demo FROM PROGRAM
  'awk ''BEGIN {p = sprintf("%160s", ""); gsub(/ /, "aiostream ", p); p = substr(p, 1, 160);
                for (i = 1; i <= $rows; i++) printf "%d\t%d\t%s\n", i, i % 1000, p}''' WITH (FREEZE);
COMMIT;
ANALYZE demo;
CHECKPOINT;
SQL
blocks=$(sql -d postgres -c "SELECT pg_relation_size('demo') / 8192")
table=demo
files=("$work/data/$(sql -d postgres -c "SELECT pg_relation_filepath('demo')")")

# --- measuring -----------------------------------------------------------

# Another round? Three, unless asked for more or less; but a slow machine
# must not take for ever. Sets line, for the round's report.
section() { section_start=$SECONDS; step "$*"; }
another_round() {
	[ "$1" -le "$rounds" ] || return 1
	[ "$1" -eq 1 ] || [ -n "${DEMO_ROUNDS:-}" ] || [ $(((SECONDS - section_start) * $1 / ($1 - 1))) -le 30 ] ||
		{ say "   (no more rounds: they take too long here; DEMO_ROUNDS=$rounds makes them run)"; return 1; }
	line="   round $1:"
}
# the contenders, each round another one first
contenders() {
	case $(($1 % 3)) in
	1) echo plain buffered direct ;;
	2) echo buffered direct plain ;;
	0) echo direct plain buffered ;;
	esac
}

plain="SET aiostream.enable = off;"
buffered="SET aiostream.enable = on; SET aiostream.direct_io = off;"
direct="SET aiostream.enable = on; SET aiostream.direct_io = on;"
total_mb=$(calc "$blocks / 128")

plan=$(sql -d postgres -c "$direct EXPLAIN (COSTS OFF) SELECT count(*) FROM demo")
[[ $plan == *AioSeqScan* ]] || say "note: the planner did not choose AioSeqScan; see the README"
for query in "SELECT count(*) FROM demo" "SELECT sum(x) FROM demo"; do
	expected=
	section "$query, cold"
	for ((round = 1; ; round++)); do
		another_round "$round" || break
		for contender in $(contenders "$round"); do
			timed_query "${!contender}" "$query"
			[ "${expected:=$answer}" = "$answer" ] || die "the answers differ: $expected, and on the path \"$contender\" $answer"
			record "$query" "$contender" "$round" "$seconds" "$cpu" "$total_mb"
			line+=" $contender $(printf %.2f "$seconds") s"
		done
		say "$line"
	done
done

# Backwards is so slow on the plain path that a part of the table must do; each
# path reads the same blocks.
back_blocks=$((blocks < 8192 ? blocks : 8192))
back_mb=$(calc "$back_blocks / 128")
section "reading the last blocks of it backwards ($(printf %.0f "$back_mb") MB), cold"
for ((round = 1; ; round++)); do
	another_round "$round" || break
	# each call reads on both paths, in turn
	for contender in buffered direct; do
		case $contender in buffered) dio=off ;; direct) dio=on ;; esac
		sql -d postgres -F ' ' -c "SET client_min_messages = warning" -c "SELECT contender, seconds, cpu_s FROM aiostream_bench_read('demo', 'backward',
			direct_io => '$dio', max_blocks => $back_blocks)" >"$work/rows"
		while read -r path seconds cpu; do
			[ "$path" = plain ] || path=$contender
			record "backward read" "$path" "$round" "$seconds" "$cpu" "$back_mb"
			line+=" $path $(printf %.2f "$seconds") s"
		done <"$work/rows"
	done
	say "$line"
done

# The same part in the order of an index, last row first: no PostgreSQL reads ahead there.
first_row=$(sql -d postgres -c "SELECT min(id) FROM demo WHERE ctid >= '($((blocks - back_blocks)),1)'")
sql -d postgres -c "CREATE INDEX demo_end ON demo (id) WHERE id >= $first_row" >/dev/null
query="SELECT sum(x) FROM (SELECT x FROM demo WHERE id >= $first_row ORDER BY id DESC) AS s"
force="SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;"
plan=$(sql -d postgres -c "$direct $force EXPLAIN (COSTS OFF) $query")
[[ $plan == *AioIndexScan* ]] || say "note: the planner did not choose AioIndexScan; see the README"
section "an index scan of it, descending, cold"
expected=
for ((round = 1; ; round++)); do
	another_round "$round" || break
	for contender in $(contenders "$round"); do
		timed_query "${!contender} $force" "$query"
		[ "${expected:=$answer}" = "$answer" ] || die "the answers differ: $expected, and on the path \"$contender\" $answer"
		record "descending index scan" "$contender" "$round" "$seconds" "$cpu" "$back_mb"
		line+=" $contender $(printf %.2f "$seconds") s"
	done
	say "$line"
done

# --- the ceiling ---------------------------------------------------------

request=$(setting io_combine_limit)
request=$((${request:-16} * 8192))
depth=$(setting effective_io_concurrency)
depth=${depth:-16}
sql -d postgres -c "SELECT aiostream_evict('demo')" >/dev/null
stop_cluster data

# direct reads of the table's own (first) file: the best of three, as this is
# about what the disk can do
best_of_three() { for _ in 1 2 3; do "$@"; done | sort -g | tail -n 1 | sed 's/\..*//'; }
step "measuring what the disk can do (fio, direct, $((request / 1024)) kB requests, $depth in flight)"
forward_ceiling=$(best_of_three fio_mb_s "$request" "$depth" 1 read "${files[0]}")
backward_ceiling=$(best_of_three fio_backward_mb_s "$request" "$depth" 1)

# --- the table -----------------------------------------------------------

say ""
say "$(printf '%.0f' "$total_mb") MB table, medians of cold rounds, 1 process, $(stat -f -c %T "$work") on $(df -P "$work" | awk 'NR == 2 {print $1}'), $(nproc) CPUs, Linux $(uname -r)"
say ""
printf '%-26s %-20s %9s %9s %8s %12s %13s %9s\n' "" path "time (s)" "CPU (s)" MB/s "time, ratio" "CPU, ratio" "disk MB/s"
printf '%s\n' "--------------------------------------------------------------------------------------------------------------------"
while IFS= read -r pattern; do
	base= base_cpu=
	case $pattern in backward* | descending*) ceiling=$backward_ceiling ;; *) ceiling=$forward_ceiling ;; esac
	for contender in plain buffered direct; do
		rows=$(awk -F'|' -v p="$pattern" -v c="$contender" '$1 == p && $2 == c' "$work/results")
		t=$(cut -d'|' -f4 <<<"$rows" | median)
		c=$(cut -d'|' -f5 <<<"$rows" | median)
		m=$(head -n 1 <<<"$rows" | cut -d'|' -f6)
		: "${base:=$t}" "${base_cpu:=$c}"
		case $contender in plain) label="PostgreSQL" ;; *) label="aiostream, $contender" ;; esac
		awk -v p="$([ "$contender" = plain ] && echo "${pattern% FROM demo}")" -v l="$label" -v t="$t" -v c="$c" -v m="$m" \
			-v b="$base" -v bc="$base_cpu" -v ceil="$ceiling" 'BEGIN {
			if (t + 0 == 0) t = 0.001
			if (b + 0 == 0) b = t
			cpu_ratio = bc + 0 == 0 ? "-" : sprintf("%.2f", c / bc)
			printf "%-26s %-20s %9.2f %9.2f %8.0f %12.2f %13s %9s\n", p, l, t, c, m / t, t / b, cpu_ratio, ceil }'
	done
done < <(cut -d'|' -f1 "$work/results" | uniq | awk '!seen[$0]++')
say ""
say "Ratios are to PostgreSQL's own path: below 1 is faster, or cheaper.  \"disk MB/s\" is what fio reads from the"
say "table's file with direct I/O, in the same direction, request size and depth.  A longer look: DEMO_SIZE=3GB make demo"
