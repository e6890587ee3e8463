#!/usr/bin/env bash
# Reading blocks cold in patterns, without the executor: PostgreSQL's synchronous reads, aiostream, and fio
# with requests of the same size and number.
#
#   bench/read_patterns.sh
#
#   SIZE=3GB ROUNDS=5            table, rounds
#   PATTERNS="sequential backward sparse random"
#   FRACTION=0.05                part of the blocks that sparse and random read
#   MAX_BLOCKS=N                 reads at most so many blocks (plain backward reads are slow)
#   COMBINE="128kB 1MB"          sizes of requests (default: the setting's), and
#   DEPTH="16 32"                requests in flight (default: the setting's), all compared
#   DIRECT=on                    on, off or auto
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#   TMPDIR=/folder/on/the/disk/to/measure
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5}
mb=$(size_mb SIZE "${SIZE:-3GB}")
fraction=${FRACTION:-0.05}
direct=${DIRECT:-on}

bench_server $((mb * 5 / 4 + 1000))
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null
load_table t "$mb"
use_table data t

ways=()		# kB in flight
for depth in ${DEPTH:-$(setting effective_io_concurrency)}; do
	for combine in ${COMBINE:-$(($(setting io_combine_limit) * 8))kB}; do
		case $combine in
		*MB) ways+=("$((${combine%MB} * 1024)) $depth") ;;
		*kB) ways+=("${combine%kB} $depth") ;;
		*) die "COMBINE is a list of sizes, like 128kB or 1MB" ;;
		esac
	done
done

# measure ROUND PATTERN KB DEPTH: PostgreSQL and aiostream
measure() {
	local contender seconds cpu blocks
	sql -d postgres -F ' ' -c "SET client_min_messages = warning" -c "SELECT contender, seconds, cpu_s, blocks
		FROM aiostream_bench_read('t', '$2', direct_io => '$direct', combine_kb => $3, concurrency => $4,
		fraction => $fraction, max_blocks => ${MAX_BLOCKS:-NULL})" >"$work/rows"
	while read -r contender seconds cpu blocks; do
		[ "$contender" = plain ] || contender="aiostream $3 kB x $4"
		record "$2" "$contender" "$1" "$seconds" "$cpu" "$(calc "$blocks / 128")"
		printf ' %s %.2f s' "$contender" "$seconds"
		read_mb=$(calc "$blocks / 128")
	done <"$work/rows"
}

# fio_pattern PATTERN KB DEPTH: MB/s; all but sequential in the first file only
fio_pattern() {
	local dio=1 bytes
	[ "$direct" != off ] || dio=0
	bytes=$(stat -c %s "${files[0]}")
	bytes=$(awk "BEGIN {print int($bytes * $fraction / 8192) * 8192}")
	case $1 in
	sequential) fio_mb_s $(($2 * 1024)) "$3" $dio read "$(colons "${files[@]}")" ;;
	backward) fio_backward_mb_s $(($2 * 1024)) "$3" $dio ;;
	sparse) fio_mb_s 8192 "$3" $dio "read:$(awk "BEGIN {print int(8 / $fraction / 8) * 8 - 8}")k" "${files[0]}" --io_size="$bytes" ;;
	random) fio_mb_s 8192 "$3" $dio randread "${files[0]}" --io_size="$bytes" ;;
	esac
}

runs=()		# pattern, kB, in flight
for pattern in ${PATTERNS:-sequential backward sparse random}; do
	for way in "${ways[@]}"; do
		runs+=("$pattern $way")
	done
done

step "reading $total_mb MB in patterns, cold"
for ((round = 1; round <= rounds; round++)); do
	say "   round $round of $rounds"
	for ((i = 0; i < ${#runs[@]}; i++)); do
		n=$((round % 2 == 1 ? i : ${#runs[@]} - 1 - i))
		read -r pattern kb depth <<<"${runs[$n]}"
		printf '      %s:' "$pattern"
		measure "$round" "$pattern" "$kb" "$depth"
		speed=$(fio_pattern "$pattern" "$kb" "$depth")
		say " fio $speed MB/s"
		[ "$speed" = "?" ] || record "$pattern" "fio $kb kB x $depth" "$round" "$(calc "$read_mb / $speed")" - "$read_mb"
	done
done

print_conditions
say "table      $total_mb MB, direct I/O $direct, sparse and random: $fraction of it in single blocks; $rounds rounds"
print_results plain

say ""
read -r kb depth <<<"${ways[0]}"
ours="aiostream $kb kB x $depth"
target "backward's time to forward's, direct" le 1.25 time backward "$ours" sequential "$ours"
target "plain's time backward to aiostream's" ge 8 time backward plain backward "$ours"
for pattern in ${PATTERNS:-sequential backward sparse random}; do
	target "bandwidth to fio's, $pattern" ge 0.85 time "$pattern" "fio $kb kB x $depth" "$pattern" "$ours"
done
