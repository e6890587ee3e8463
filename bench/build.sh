#!/usr/bin/env bash
# Maintenance of cold aioheap tables that reads all of them: index builds, CLUSTER, VACUUM FULL, ANALYZE and others,
# with aiostream and without, on this machine's disk and on one with latency (made here: root, /dev/fuse, loop devices).
#
#   bench/build.sh
#
#   DISKS="own slow"             disks
#   PARTS="index cluster analyze other"
#                                CREATE INDEX (serial, parallel, concurrently, partial); CLUSTER and VACUUM FULL;
#                                ANALYZE; everything else
#   SIZE=200MB SLOW_SIZE=64MB    tables
#   ROUNDS=3 SLOW_ROUNDS=3
#   READ_MS=1                    latency of a read of the slow disk
#   IO_METHOD=worker             aiostream.io_method of the server (default: auto)
#   CONF="line; line"            more lines for postgresql.conf
#
# Rows have about 200 bytes.  A CLUSTER is two: to the order of another column, and back.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-3}
slow_rounds=${SLOW_ROUNDS:-${ROUNDS:-3}}
mb=$(size_mb SIZE "${SIZE:-200MB}")
slow_mb=$(size_mb SLOW_SIZE "${SLOW_SIZE:-64MB}")
disks=${DISKS:-own slow}
parts=${PARTS:-index cluster analyze other}
has() { [[ " $1 " == *" $2 "* ]]; }

needed=0
! has "$disks" own || needed=$((needed + mb * 4))
! has "$disks" slow || needed=$((needed + slow_mb * 4))
bench_server $((needed + 1500))
! has "$disks" slow || slow_disk $((slow_mb * 3 + 300)) "${READ_MS:-1}"
bench_cluster data "shared_preload_libraries = 'aiostream'" "aiostream.io_method = '${IO_METHOD:-auto}'" \
	"maintenance_work_mem = 256MB"
sql -d postgres -c "CREATE EXTENSION aiostream" >/dev/null
install -d -o "$run_user" -g "$(id -g "$run_user")" -m 700 "$work/elsewhere"
sql -d postgres -c "CREATE TABLESPACE elsewhere LOCATION '$work/elsewhere'" >/dev/null

# t for index builds and the rest; c with the two indexes that CLUSTER goes by, in the order of id
load_tables() {	# MB TABLESPACE
	load_index_table t "$1" "$2"
	sql -d postgres >/dev/null <<SQL
SET client_min_messages = warning;
DROP INDEX t_id, t_k, t_r;
SELECT aiostream_adopt('t');
SET default_tablespace = $2;
CREATE TABLE d USING aioheap AS SELECT * FROM t;
CREATE INDEX d_id ON d (id);
CREATE INDEX d_k ON d (k);
CREATE TABLE c USING aioheap AS SELECT * FROM t;
CREATE INDEX c_id ON c (id);
CREATE INDEX c_r ON c (r);
CREATE TABLE dim (x int PRIMARY KEY);
INSERT INTO dim SELECT generate_series(0, 999);
CREATE MATERIALIZED VIEW mv AS SELECT x, count(*), max(r) FROM t GROUP BY x;
VACUUM (ANALYZE) t, c, d, dim;
CHECKPOINT;
SQL
}

# --- what is measured -----------------------------------------------------------

operations=()
# operation PART GROUP TABLE SETTINGS COMMAND [UNDO]: COMMAND may be two, separated by " & ", each
# beginning with a cold table
operation() { ! has "$parts" "$1" || operations+=("$2|$3|$4|$5|${6:-}"); }
operation index "CREATE INDEX" t "SET max_parallel_maintenance_workers = 0;" "CREATE INDEX z ON t (x)" "DROP INDEX z"
operation index "CREATE INDEX, 2 workers" t "SET max_parallel_maintenance_workers = 2;" "CREATE INDEX z ON t (x)" "DROP INDEX z"
operation index "CREATE INDEX, few rows" t "SET max_parallel_maintenance_workers = 0;" "CREATE INDEX z ON t (x) WHERE x = 7" "DROP INDEX z"
operation index "CREATE INDEX CONCURRENTLY" t "SET max_parallel_maintenance_workers = 0;" "CREATE INDEX CONCURRENTLY z ON t (x)" "DROP INDEX z"
operation cluster "CLUSTER by sort" c "SET enable_indexscan = off;" "CLUSTER c USING c_r & CLUSTER c USING c_id"
operation cluster "CLUSTER by index, near" d "SET enable_sort = off;" "CLUSTER d USING d_k & CLUSTER d USING d_id"
operation cluster "CLUSTER by index, random" c "SET enable_sort = off;" "CLUSTER c USING c_r & CLUSTER c USING c_id"
operation cluster "VACUUM FULL" t "" "VACUUM FULL t"
operation analyze "ANALYZE" t "" "ANALYZE t"
operation analyze "ANALYZE, target 10" t "SET default_statistics_target = 10;" "ANALYZE t"
operation other "REFRESH" t "" "REFRESH MATERIALIZED VIEW mv"
operation other "CHECK" t "" "ALTER TABLE t ADD CONSTRAINT z CHECK (x >= 0)" "ALTER TABLE t DROP CONSTRAINT z"
operation other "FOREIGN KEY" t "" "ALTER TABLE t ADD CONSTRAINT z FOREIGN KEY (x) REFERENCES dim" "ALTER TABLE t DROP CONSTRAINT z"
operation other "COPY TO" t "" "COPY t TO '/dev/null'"
operation other "SET ACCESS METHOD" t "" "ALTER TABLE t SET ACCESS METHOD heap" "SELECT aiostream_adopt('t')"
operation other "SET TABLESPACE" t "" "ALTER TABLE t SET TABLESPACE elsewhere" "ALTER TABLE t SET TABLESPACE @"

declare -A build_settings=([plain]="SET aiostream.enable = off;" [aiostream]="SET aiostream.enable = on;")

# measure DISK OPERATION CONTENDER ROUND
measure() {
	local disk=$1 contender=$3 round=$4 group table settings command undo first second total=0 used=0 mb c
	IFS='|' read -r group table settings command undo <<<"$2"
	first=${command%% & *} second=${command#* & }
	[ "$first" != "$second" ] || second=
	for c in "$first" "$second"; do
		[ -n "$c" ] || continue
		# nothing dirty is left of what was before
		sql -d postgres -c CHECKPOINT >/dev/null
		timed_query "${build_settings[$contender]} $settings" "$c"
		total=$(calc "$total + $seconds")
		used=$(calc "$used + $cpu")
	done
	mb=$(sql -d postgres -c "SELECT pg_relation_size('$table') / 1048576.0")
	[ -z "$undo" ] || sql -d postgres -c "${undo/@/${spaces[$disk]}}" >/dev/null
	printf ' %s %.2f s' "$contender" "$total"
	record "$disk: $group" "$contender" "$round" "$total" "$used" "$mb"
}

declare -A spaces=([own]=pg_default [slow]=slow)

measure_all() {	# DISK ROUNDS
	local round o order c
	for ((round = 1; round <= $2; round++)); do
		say "   $1 disk, round $round of $2"
		order="plain aiostream"
		((round % 2)) || order="aiostream plain"
		for o in "${operations[@]}"; do
			table=$(cut -d'|' -f2 <<<"$o")
			printf '      %s:' "${o%%|*}"
			for c in $order; do
				measure "$1" "$o" "$c" "$round"
			done
			printf '\n'
		done
	done
}

if has "$disks" own; then
	load_tables "$mb" pg_default
	measure_all own "$rounds"
	sql -d postgres -c "DROP TABLE t, c, d, dim CASCADE" >/dev/null 2>&1
fi
if has "$disks" slow; then
	sql -d postgres -c "CREATE TABLESPACE slow LOCATION '$space'" >/dev/null
	load_tables "$slow_mb" slow
	measure_all slow "$slow_rounds"
fi

print_conditions
! has "$disks" slow || say "slow disk  ${READ_MS:-1} ms a read, $slow_mb MB, $slow_rounds rounds"
! has "$disks" own || say "own disk   $mb MB, $rounds rounds"
print_results plain

say ""
for disk in $disks; do
	[ "$disk" = own ] && limit=1.3 || limit=2
	for o in "${operations[@]}"; do
		group=${o%%|*}
		case $group in
		"CREATE INDEX"* | CLUSTER*) wanted=$limit ;;
		*) wanted=1 ;;
		esac
		target "$disk disk: $group, plain's time to aiostream's" ge "$wanted" time "$disk: $group" plain "$disk: $group" aiostream
	done
done
