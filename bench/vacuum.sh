#!/usr/bin/env bash
# VACUUM of cold tables, and the CHECKPOINT behind it: plain PostgreSQL against aiostream's follower.
#
#   bench/vacuum.sh
#
#   PARTS="pgbench t cached"     pgbench_accounts with 10 % random updates; a table with a dead row on each page;
#                                a table that is in shared buffers
#   SCALE=50 SIZE=3GB ROUNDS=5   pgbench's scale, the other table, rounds
#   CACHED_SIZE=256MB CACHED_ROUNDS=11
#   CONTENDERS="plain follower"
#   INDEXES=2                    of the other table (0 to 2)
#   PARALLEL=0                   VACUUM (PARALLEL n)
#   READ_MS=1                    on a disk with this latency, which it makes (root); default: this machine's
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#   TMPDIR=/folder/on/the/disk/to/measure
set -euo pipefail
. "$(dirname "$0")/lib.sh"

parts=${PARTS:-pgbench t cached}
rounds=${ROUNDS:-5}
cached_rounds=${CACHED_ROUNDS:-11}
scale=${SCALE:-50}
mb=$(size_mb SIZE "${SIZE:-3GB}")
cached_mb=$(size_mb CACHED_SIZE "${CACHED_SIZE:-256MB}")
contenders=${CONTENDERS:-plain follower}
parallel=${PARALLEL:-0}

has_part() { [[ " $parts " == *" $1 "* ]]; }
need=1000
has_part pgbench && need=$((need + scale * 20))
has_part t && need=$((need + mb * 3 / 2))
has_part cached && need=$((need + cached_mb * 2))

bench_server $((need * 2))
space= where=$work
if [ -n "${READ_MS:-}" ]; then
	slow_disk "$need" "$READ_MS"
	where=$work/disk/mnt
fi
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null
if [ -n "${READ_MS:-}" ]; then
	sql -d postgres -c "CREATE TABLESPACE slow LOCATION '$space'" -c "ALTER SYSTEM SET default_tablespace = 'slow'" \
		-c "SELECT pg_reload_conf()" >/dev/null
fi

declare -A vacuum_settings=(
	[plain]="SET aiostream.enable = off;"
	[follower]="SET aiostream.enable_vacuum = on;"
	[direct]="SET aiostream.direct_io = on;"
	[buffered]="SET aiostream.direct_io = off;"
)

# --- dead rows ----------------------------------------------------------------

# Each leaves the table with dead rows and nothing dirty; N is another one each time
dirty_pgbench() { echo "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE random() < 0.1; CHECKPOINT;"; }
# fewer than 30 rows fit a page: one of them at least
dirty_t() { echo "DELETE FROM t WHERE id % 30 = $1 % 30; CHECKPOINT;"; }
dirty_cached() { echo "DELETE FROM cached WHERE id % 30 = $1 % 30; CHECKPOINT;"; }

declare -A tables=([pgbench]=pgbench_accounts [t]=t [cached]=cached)

make_pgbench() {
	step "loading pgbench_accounts, scale $scale"
	as_user "$bindir/pgbench" -h "$work_sockets" -U postgres -i -q -s "$scale" postgres >/dev/null 2>&1
}
make_t() {
	load_table t "$mb"
	[ "${INDEXES:-2}" -lt 1 ] || sql -d postgres -c "CREATE INDEX ON t (id)"
	[ "${INDEXES:-2}" -lt 2 ] || sql -d postgres -c "CREATE INDEX ON t (x, id)"
}
make_cached() {
	load_table cached "$cached_mb"
	sql -d postgres -c "CREATE INDEX ON cached (id)"
}

# --- measuring ----------------------------------------------------------------

n=0
# measure PART CONTENDER ROUND: ROUND 0 is not recorded
measure() {
	local part=$1 contender=$2 round=$3 table=${tables[$1]} before middle after out vacuum checkpoint size warm=aiostream_evict
	n=$((n + 1))
	sql -d postgres -c "$("dirty_$part" $n)" >/dev/null
	# what the vacuum of a cached table sees is all of it in shared buffers
	[ "$part" != cached ] || warm=aiostream_prewarm
	sql -d postgres -c "SELECT $warm('$table')" -c "SELECT $warm(indexrelid) FROM pg_index WHERE indrelid = '$table'::regclass" >/dev/null
	before=$(cpu_seconds)
	vacuum=$(timed "${vacuum_settings[$contender]}" "VACUUM (PARALLEL $parallel) $table")
	middle=$(cpu_seconds)
	checkpoint=$(timed "" CHECKPOINT)
	after=$(cpu_seconds)
	size=$(sql -d postgres -c "SELECT pg_total_relation_size('$table') / 1048576.0")
	printf '      %s: %s VACUUM %.2f s, CHECKPOINT %.2f s\n' "$part" "$contender" "$vacuum" "$checkpoint"
	[ "$round" != 0 ] || return 0
	record "$part: VACUUM" "$contender" "$round" "$vacuum" "$(calc "$middle - $before")" "$size"
	record "$part: VACUUM + CHECKPOINT" "$contender" "$round" "$(calc "$vacuum + $checkpoint")" "$(calc "$after - $before")" "$size"
}

# timed SETTINGS COMMAND: its seconds, in a session that has just begun
timed() {
	sql -d postgres <<SQL
$1
SELECT extract(epoch FROM clock_timestamp()) AS t0 \gset
$2;
SELECT extract(epoch FROM clock_timestamp()) - :t0;
SQL
}

run_part() {
	local part=$1 rounds=$2 round c order
	"make_$part"
	sql -d postgres -c "VACUUM (FREEZE, PARALLEL 0) ${tables[$part]}" -c CHECKPOINT >/dev/null
	step "$part, $rounds rounds"
	# the first one finds the table as it was loaded, others as the one before left it
	measure "$part" plain 0
	for ((round = 1; round <= rounds; round++)); do
		order=
		for c in $contenders; do
			if ((round % 2)); then order="$order $c"; else order="$c $order"; fi
		done
		say "   round $round of $rounds"
		for c in $order; do
			measure "$part" "$c" "$round"
		done
	done
}

for c in $contenders; do
	[ -n "${vacuum_settings[$c]:-}" ] || die "CONTENDERS: there is no \"$c\""
done
for part in $parts; do
	case $part in
	pgbench | t) run_part "$part" "$rounds" ;;
	cached) run_part "$part" "$cached_rounds" ;;
	*) die "PARTS: there is no \"$part\"" ;;
	esac
done

print_conditions "$where"
say "tables     pgbench scale $scale; t of $mb MB with ${INDEXES:-2} indexes; cached of $cached_mb MB; ratios are to plain"
[ -z "${READ_MS:-}" ] || say "           on a disk with $READ_MS ms latency"
print_results plain

say ""
wanted=3
[ -z "${READ_MS:-}" ] || wanted=4
for part in $parts; do
	if [ "$part" = cached ]; then
		target "cached: time, follower to plain" le 1.03 time "cached: VACUUM" follower "cached: VACUUM" plain
		target "cached: CPU, follower to plain" le 1.03 cpu "cached: VACUUM" follower "cached: VACUUM" plain
	else
		target "$part: VACUUM, plain's time to follower's" ge $wanted time "$part: VACUUM" plain "$part: VACUUM" follower
		target "$part: with the CHECKPOINT, plain's time to follower's" ge 2 time \
			"$part: VACUUM + CHECKPOINT" plain "$part: VACUUM + CHECKPOINT" follower
	fi
done
