# Common parts of the benchmarks: sourced, never run.
#
# A benchmark makes a private server (test/lib.sh) and a table, and describes
# what it compares as cells: a contender's settings and query, in a group whose
# members are compared with each other.  run_rounds then measures all cells in
# turn, in each round once, and every other round in reverse order, so that what the
# machine does meanwhile hits all contenders alike.  Nothing runs in parallel.

. "$(dirname "${BASH_SOURCE[0]}")/../test/lib.sh"

calc() { awk "BEGIN {printf \"%.3f\", $1}"; }
median() { sort -g | awk '{v[NR] = $1} END {printf "%.3f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# size_mb NAME VALUE: 512MB or 3GB in MB; NAME is the variable's, for messages
size_mb() {
	local mb
	case $2 in
	*[!0-9]*[GM]B | [GM]B) mb= ;;
	*GB) mb=$((${2%GB} * 1024)) ;;
	*MB) mb=${2%MB} ;;
	*) mb= ;;
	esac
	[ -n "$mb" ] || die "$1 is a whole number of MB or GB, like 512MB or 3GB"
	[ "$mb" -ge 32 ] || die "$1 must be at least 32MB"
	echo "$mb"
}

# --- server and table ----------------------------------------------------

# bench_server MB: work folder with at least MB free, and aiostream built
bench_server() {
	local free
	"$top/test/deps.sh" build demo
	find_pg_config
	make_work
	free=$(df -Pm "$work" | awk 'NR == 2 {print $4}')
	[ "$free" -gt "$1" ] || die "$(dirname "$work") has only $free MB free, $1 are needed: set TMPDIR to a folder with more, or SIZE"
	step "building aiostream for $("$PG_CONFIG" --version)"
	copy_tree
	mirror_server
	build_private
}

# bench_cluster NAME [postgresql.conf line ...]: new_cluster with what all benchmarks
# want.  CONF, lines separated by semicolons, comes last and so wins.
bench_cluster() {
	local name=$1 conf=()
	shift
	IFS=';' read -r -a conf <<<"${CONF:-}"
	new_cluster "$name" "shared_buffers = 1GB" "wal_level = minimal" "max_wal_senders = 0" "max_wal_size = 8GB" \
		"checkpoint_timeout = 1h" "autovacuum = off" "jit = off" "max_worker_processes = 24" \
		"max_parallel_workers_per_gather = 0" "$@" "${conf[@]}"
	postmaster=$(head -n 1 "$work/$name/postmaster.pid")
}

# start_cluster NAME [option of postgres ...]: one that was stopped
start_cluster() {
	local data=$work/$1
	shift
	as_user "$bindir/pg_ctl" -D "$data" -l "$data.log" -o "$*" -w -s start >/dev/null 2>&1 ||
		{ tail -n 30 "$data.log" >&2; die "the server did not start"; }
	postmaster=$(head -n 1 "$data/postmaster.pid")
}

# load_table NAME MB [TABLESPACE]: rows of about 200 bytes, written out, in a state
# in which no scan has anything to write (COPY FREEZE)
load_table() {
	local rows=$(($2 * 1024 * 1024 / 205))
	step "loading $1: $2 MB, $rows rows of about 200 bytes"
	sql -d postgres >/dev/null <<SQL
BEGIN;
CREATE TABLE $1 (id bigint, x int, payload text) ${3:+TABLESPACE $3};
COPY $1 FROM PROGRAM
  'awk ''BEGIN {p = sprintf("%160s", ""); gsub(/ /, "aiostream ", p); p = substr(p, 1, 160);
                for (i = 1; i <= $rows; i++) printf "%d\t%d\t%s\n", i, i % 1000, p}''' WITH (FREEZE);
COMMIT;
-- where a plan may be parallel, it is so with as many workers as are allowed
ALTER TABLE $1 SET (parallel_workers = 64);
ANALYZE $1;
CHECKPOINT;
SQL
}

# load_index_table NAME MB [TABLESPACE]: the same with columns to index: k follows the
# table within 50 pages or so (39 rows a page), r is in no order at all
load_index_table() {
	local rows=$(($2 * 1024 * 1024 / 210))
	step "loading $1: $2 MB, $rows rows of about 200 bytes"
	sql -d postgres >/dev/null <<SQL
SET maintenance_work_mem = '256MB';
BEGIN;
CREATE TABLE $1 (id int, k int, r int, x int, payload text) ${3:+TABLESPACE $3};
COPY $1 FROM PROGRAM
  'awk ''BEGIN {srand(20260731); p = sprintf("%160s", ""); gsub(/ /, "aiostream ", p); p = substr(p, 1, 156);
                for (i = 1; i <= $rows; i++)
                    printf "%d\t%d\t%d\t%d\t%s\n", i, i + int(rand() * 1950), int(rand() * 2000000000), i % 1000, p}'''
  WITH (FREEZE);
CREATE INDEX $1_id ON $1 (id) ${3:+TABLESPACE $3};
CREATE INDEX $1_k ON $1 (k) ${3:+TABLESPACE $3};
CREATE INDEX $1_r ON $1 (r) ${3:+TABLESPACE $3};
COMMIT;
VACUUM (ANALYZE) $1;
CHECKPOINT;
SQL
}

# slow_disk MB LATENCY: a disk that takes LATENCY ms for a read, mounted at $work/disk/mnt, with
# a folder $space for a tablespace.  Root only.
slow_disk() {
	is_root || die "making a slow disk needs root"
	"$top/test/deps.sh" test
	step "making a disk with $2 ms latency"
	cleanup_hooks+=(slow_disk_down)
	# writes are not what is measured: no delay
	"$top/test/slowdisk" up "$work/disk" "$1" "$2" 0 >"$work/slowdisk.log" 2>&1 ||
		die "no slow disk here: $(tail -n 1 "$work/slowdisk.log")"
	space=$work/disk/mnt/tablespace
	install -d -o "$run_user" -g "$(id -g "$run_user")" -m 700 "$space"
}
slow_disk_down() { "$top/test/slowdisk" down "$work/disk" >/dev/null 2>&1; }

# use_table CLUSTER NAME: sets table, total_mb, and files (its segments)
use_table() {
	local first n
	table=$2
	total_mb=$(sql -d postgres -c "SELECT round(pg_relation_size('$2') / 1048576.0, 3)")
	first=$(readlink -f "$work/$1/$(sql -d postgres -c "SELECT pg_relation_filepath('$2')")")
	files=("$first")
	for ((n = 1; ; n++)); do
		[ -e "$first.$n" ] || break
		files+=("$first.$n")
	done
}

# value of an aiostream setting in pg_settings' unit: blocks for io_combine_limit
setting() { sql -d postgres -c "SELECT setting FROM pg_settings WHERE name = 'aiostream.$1'"; }

# --- what was measured, on what ------------------------------------------

# print_conditions [FOLDER]: commit, settings, kernel, disk (of that folder)
print_conditions() {
	local commit device queue folder=${1:-$work}
	commit=$(git -c safe.directory="$top" -C "$top" rev-parse HEAD 2>/dev/null || echo "unknown")
	[ -z "$(git -c safe.directory="$top" -C "$top" status --porcelain 2>/dev/null)" ] || commit+=" and uncommitted changes"
	device=$(stat -c '%Hd:%Ld' "$folder")
	for queue in "/sys/dev/block/$device/queue" "/sys/dev/block/$device/../queue"; do
		[ ! -d "$queue" ] || break
	done
	say ""
	say "script     bench/$(basename "$0"), $(date -u '+%Y-%m-%d %H:%M') UTC"
	say "commit     $commit"
	say "kernel     Linux $(uname -r), $(nproc) CPUs ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), $(awk '/^MemTotal/ {printf "%.0f GB", $2 / 1048576}' /proc/meminfo)"
	say "disk       $(findmnt -n -o SOURCE,FSTYPE -T "$folder" | tail -n 1 | tr -s ' '), read-ahead $(cat "$queue/read_ahead_kb" 2>/dev/null || echo "?") kB, largest request $(cat "$queue/max_sectors_kb" 2>/dev/null || echo "?") kB"
	say "server     $("$PG_CONFIG" --version)"
	sql -d postgres <<'SQL' | fold -s -w 100 | sed 's/ *$//; 1s/^/settings   /; 2,$s/^/           /'
SELECT string_agg(name || ' ' || current_setting(name), ', ' ORDER BY name LIKE 'aiostream.%', name)
FROM pg_settings
WHERE name LIKE 'aiostream.%' AND name NOT LIKE '%debug%'
   OR name IN ('data_checksums', 'huge_pages')
   OR source = 'configuration file' AND category !~ 'Client Connection|Connections and Auth|Reporting|Preset'
     AND name NOT IN ('dynamic_shared_memory_type', 'min_wal_size')
SQL
	sql -d postgres -c "SELECT 'in use     ' || string_agg(concat_ws(' ', name, value, '(' || nullif(detail, '') || ')'), ', ')
		FROM aiostream_info() WHERE name IN ('io_method', 'direct_path')"
}

# --- measuring -----------------------------------------------------------

# CPU seconds of the postmaster, its children, and those it had
cpu_seconds() {
	# processes may end while being read
	{ cat /proc/[0-9]*/stat 2>/dev/null || true; } | awk -v pm="$postmaster" -v hz="$(getconf CLK_TCK)" '
		{ pid = $1; sub(/^.*\) /, "") }		# the name may hold spaces
		pid == pm { sum += $12 + $13 + $14 + $15 }
		pid != pm && $2 == pm { sum += $12 + $13 }
		END { printf "%.2f", sum / hz }'
}

# What happens to the table before each measurement: neither in shared buffers
# nor in the page cache, or in the latter only.
make_cold() { sql -d postgres -c "SELECT aiostream_evict('$table')" >/dev/null; }
make_page_cached() {
	make_cold
	cat "${files[@]}" >/dev/null
}
prepare=make_cold
prepare_group=	# in place of it, while not empty

# timed_query SETTINGS QUERY: sets seconds, cpu, answer
timed_query() {
	local before after out backend
	${prepare_group:-$prepare}
	before=$(cpu_seconds)
	# one session; the clock runs around the query only
	out=$(sql -d postgres <<SQL
$1
SELECT extract(epoch FROM clock_timestamp()) AS t0 \gset
$2;
SELECT pg_backend_pid(), extract(epoch FROM clock_timestamp()) - :t0;
SQL
	)
	# its CPU time is the postmaster's once it is gone, and would be missed in between
	backend=$(tail -n 1 <<<"$out" | cut -d'|' -f1)
	for _ in $(seq 200); do
		[ -e "/proc/$backend" ] || break
		sleep 0.01
	done
	after=$(cpu_seconds)
	answer=$(head -n 1 <<<"$out")
	seconds=$(tail -n 1 <<<"$out" | cut -d'|' -f2)
	cpu=$(calc "$after - $before")
}

# fio_mb_s REQUEST DEPTH DIRECT RW FILES [fio option ...]: MB/s at which fio reads
# these files (separated by colons), REQUEST in bytes, or "?"
fio_mb_s() {
	local engine out bs=$1 depth=$2 direct=$3 rw=$4 names=$5
	shift 5
	for engine in io_uring libaio psync; do
		out=$(cd "$work/tmp" && as_user fio --name=ceiling --readonly --filename="$names" --rw="$rw" --bs="$bs" \
			--iodepth="$depth" --ioengine="$engine" --direct="$direct" --invalidate=1 --file_service_type=sequential \
			--output-format=terse "$@" 2>/dev/null) || continue
		# field 7 of terse version 3: KiB/s read
		out=$(awk -F';' '/^3;/ {printf "%.1f", $7 / 1024}' <<<"$out")
		[ "${out%.*}" -gt 0 ] 2>/dev/null && { echo "$out"; return; }
	done
	echo "?"
}
colons() { local IFS=:; echo "$*"; }

# fio_backward_mb_s REQUEST DEPTH DIRECT: of the first file only, as fio wraps at each
# file's end
fio_backward_mb_s() {
	local bytes
	bytes=$(stat -c %s "${files[0]}")
	# it steps back from the end of a request: twice its size; whole requests only
	fio_mb_s "$1" "$2" "$3" "read:-$((2 * $1 / 1024))k" "${files[0]}" --size=$((bytes / $1 * $1))
}

# record GROUP CONTENDER ROUND SECONDS CPU MB
record() { printf '%s|%s|%s|%s|%s|%s\n' "$@" >>"$work/results"; }

# --- rounds --------------------------------------------------------------

cells=()
# cell GROUP CONTENDER SETTINGS QUERY
cell() { cells+=("$1|$2|$3|$4"); }
# By group, where it is not as for sequential scans: the plan node that contenders
# other than plain are to have, and the one that plain is to have; what precedes each
# run in place of $prepare; MB that the query needs.
declare -A wanted_node=() plain_node=() group_prepare=() group_mb=()

# "NAME|COMMAND|GROUP|...": the command prints MB/s, once a round; recorded in these groups
# (none: in all) as what reading the group's MB at that speed takes
ceilings=()

# check_plan CELL: a contender called "plain..." must not, all others must use our node
check_plan() {
	local group contender settings query plan workers node
	IFS='|' read -r group contender settings query <<<"$1"
	plan=$(sql -d postgres -c "$settings EXPLAIN (COSTS OFF) $query")
	case $contender in
	plain*)
		[[ $plan != *"(Aio"* ]] || die "the planner chose one of our nodes for $contender: $plan"
		node=${plain_node[$group]:-Scan}
		;;
	*) node=${wanted_node[$group]:-AioSeqScan} ;;
	esac
	[[ $plan == *"$node"* ]] || die "the planner did not choose $node for $contender: $plan"
	workers=$(sed -n 's/.*max_parallel_workers_per_gather = \([1-9][0-9]*\).*/\1/p' <<<"$settings")
	[ -z "$workers" ] || [[ $plan == *"Workers Planned: $workers"* ]] ||
		die "the planner did not choose $workers workers for $contender: $plan"
}

# run_rounds N
run_rounds() {
	local round order c group contender settings query last name speed command groups
	declare -A expected=()
	for c in "${cells[@]}"; do
		check_plan "$c"
	done
	for ((round = 1; round <= $1; round++)); do
		order=("${cells[@]}")
		if ((round % 2 == 0)); then
			order=()
			for c in "${cells[@]}"; do order=("$c" "${order[@]}"); done
		fi
		say "   round $round of $1"
		last=
		for c in "${order[@]}"; do
			IFS='|' read -r group contender settings query <<<"$c"
			prepare_group=${group_prepare[$group]:-}
			timed_query "$settings" "$query"
			[ "${expected[$query]:=$answer}" = "$answer" ] ||
				die "$contender answered \"$answer\" to \"$query\", others \"${expected[$query]}\""
			record "$group" "$contender" "$round" "$seconds" "$cpu" "${group_mb[$group]:-$total_mb}"
			[ "$group" = "$last" ] || printf '%s      %s:' "${last:+$'\n'}" "$group"
			printf ' %s %.2f s' "$contender" "$seconds"
			last=$group
		done
		printf '\n'
		for c in "${ceilings[@]}"; do
			IFS='|' read -r name command groups <<<"$c"
			speed=$($command)
			[ "$speed" != "?" ] || { say "      $name: fio failed"; continue; }
			say "      $name: $speed MB/s"
			[ -n "$groups" ] || groups=$(printf '%s\n' "${cells[@]}" | cut -d'|' -f1 | awk '!seen[$0]++')
			while read -r group; do
				record "$group" "$name" "$round" "$(calc "${group_mb[$group]:-$total_mb} / $speed")" - "${group_mb[$group]:-$total_mb}"
			done < <(tr '|' '\n' <<<"$groups")
		done
	done
}

# ceilings_forward: the disk's for the way aiostream reads, and for the way PostgreSQL does
ceilings_forward() {
	local combine depth
	combine=$(setting io_combine_limit)
	depth=$(setting effective_io_concurrency)
	ceilings+=("fio direct $((combine * 8)) kB x $depth|fio_mb_s $((combine * 8192)) $depth 1 read $(colons "${files[@]}")"
		"fio buffered 8 kB|fio_mb_s 8192 1 0 read $(colons "${files[@]}")")
	fio_direct="fio direct $((combine * 8)) kB x $depth"
}

# --- sequential scans ----------------------------------------------------

declare -A scan_settings=(
	[plain]="SET aiostream.enable = off;"
	[aiostream]="SET aiostream.enable = on;"
	[direct]="SET aiostream.enable = on; SET aiostream.direct_io = on;"
	[buffered]="SET aiostream.enable = on; SET aiostream.direct_io = off;"
)
scan_group() { [ "$2" = 0 ] && echo "$1, serial" || echo "$1, $2 workers"; }

# scan_cells WORKERS WHAT: SELECT WHAT FROM t for CONTENDERS, and for aiostream
# with each io_combine_limit in COMBINE
scan_cells() {
	local c group parallel= query="SELECT $2 FROM t"
	group=$(scan_group "$2" "$1")
	# every contender is to take as many workers
	[ "$1" = 0 ] || parallel="SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = $1;"
	for c in ${CONTENDERS:-plain aiostream direct buffered}; do
		[ -n "${scan_settings[$c]:-}" ] || die "CONTENDERS: there is no \"$c\""
		cell "$group" "$c" "${scan_settings[$c]} $parallel" "$query"
	done
	for c in ${COMBINE:-}; do
		cell "$group" "combine $c" "${scan_settings[aiostream]} SET aiostream.io_combine_limit = '$c'; $parallel" "$query"
	done
}

# --- results -------------------------------------------------------------

# print_results BASE [awk option ...]: a table for each group, ratios to contender BASE
print_results() {
	local base=$1
	shift
	awk -f "$top/bench/report.awk" -v base="$base" "$@" "$work/results"
}

# ratio FIELD GROUP CONTENDER GROUP CONTENDER: "ratio of medians, median of the rounds'
# ratios" of the first to the second; FIELD is time or cpu
ratio() {
	awk -f "$top/bench/report.awk" -v ratio="$1" -v group1="$2" -v contender1="$3" -v group2="$4" -v contender2="$5" "$work/results"
}

# target TEXT le|ge LIMIT FIELD GROUP CONTENDER GROUP CONTENDER: says whether the
# ratio of medians reaches LIMIT
target() {
	local text=$1 op=$2 limit=$3 medians rounds
	shift 3
	read -r medians rounds < <(ratio "$@")
	awk -v text="$text" -v op="$op" -v limit="$limit" -v m="$medians" -v r="$rounds" 'BEGIN {
		if (m == "-") verdict = "no figure"
		else verdict = (op == "le" ? m <= limit : m >= limit) ? "reached" : "MISSED"
		printf "%-9s %6s of medians, %6s of rounds; wanted %s %-5s %s\n", verdict, m, r, op == "le" ? "<=" : ">=", limit, text }'
}
