# Common parts of the scripts: sourced, never run.
#
# The idea behind all of them: work on a private copy of the tree ($work/src)
# against a private mirror of the server's files ($work/pg), in one temporary
# folder that goes away at the end.  PostgreSQL finds its files relative to
# its executable, so a mirror with the same relative layout is a complete
# server of its own: an existing installation or cluster is never touched.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
work=
work_sockets=
cleanup_hooks=()

say() { printf '%s\n' "$*"; }
step() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }
have() { command -v "$1" >/dev/null 2>&1; }

# --- the ordinary user --------------------------------------------------

# Servers refuse to run as root.  Root hands them to "postgres", which
# Debian's package creates, or to "nobody".
run_user=
choose_user() {
	is_root || return 0
	for run_user in postgres nobody; do
		getent passwd "$run_user" >/dev/null && return 0
	done
	die "found no ordinary user to run a server as (neither postgres nor nobody)"
}

# Runs a command as that user, in a clean environment: no PG* variable of the
# caller, nor its locale, may change what is tested.
as_user() {
	local clean=(env -i "HOME=$work" "PATH=${bindir:+$bindir:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
		"TMPDIR=$work/tmp" LC_ALL=C.UTF-8 TZ=UTC "${base_env[@]}" "${user_env[@]}")
	if [ -n "$run_user" ]; then
		setpriv --reuid="$run_user" --regid="$(id -g "$run_user")" --init-groups --inh-caps=-all "${clean[@]}" "$@"
	else
		"${clean[@]}" "$@"
	fi
}
# more for one command, and for all
user_env=()
base_env=()

# --- the temporary folder -----------------------------------------------

on_disk() {
	[ -d "$1" ] && [ -w "$1" ] || return 1
	case $(stat -f -c %T "$1") in tmpfs | ramfs) return 1 ;; esac
}

# Makes $work on a real disk: reads that never reach one would show nothing.
make_work() {
	local base chosen=
	for base in ${TMPDIR:+"$TMPDIR"} /var/tmp /tmp "$HOME"; do
		on_disk "$base" && chosen=$base && break
	done
	if [ -z "$chosen" ]; then
		chosen=${TMPDIR:-/var/tmp}
		say "note: found no folder on a real disk (set TMPDIR to one): direct I/O may not work in $chosen"
	fi
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	work=$(mktemp -d "$(realpath "$chosen")/aiostream.XXXXXX") || die "cannot make a temporary folder in $chosen"
	choose_user
	mkdir "$work/tmp"
	# a socket's path may have 107 bytes only
	work_sockets=$work/sock
	[ ${#work_sockets} -lt 80 ] || work_sockets=$(mktemp -d /tmp/aiostream.XXXXXX)
	mkdir -p "$work_sockets"
	chmod 755 "$work"
	chmod 700 "$work_sockets"
	give_work
	# the checkout may be closed to the ordinary user
	cd "$work"
}
give_work() { [ -z "$run_user" ] || chown -R "$run_user:" "$work" "$work_sockets"; }

# Processes that work inside $work are ours: nobody else knows the folder.
work_pids() {
	local p
	for p in /proc/[0-9]*; do
		case $(readlink "$p/cwd" 2>/dev/null) in "$work"/*) basename "$p" ;; esac
	done
}

cleanup() {
	local status=$? hook pids i
	trap '' INT TERM HUP
	set +e
	cd /
	if [ -n "$work" ] && [ -d "$work" ]; then
		# postmasters first: a fast exit of theirs takes the rest along
		for i in $(find "$work" -name postmaster.pid -exec head -n1 {} \; 2>/dev/null); do
			case $(readlink "/proc/$i/cwd" 2>/dev/null) in "$work"/*) kill -QUIT "$i" 2>/dev/null ;; esac
		done
		for i in $(seq 50); do
			pids=$(work_pids)
			[ -z "$pids" ] && break
			[ "$i" -eq 40 ] && kill -KILL $pids 2>/dev/null
			sleep 0.2
		done
		for hook in "${cleanup_hooks[@]}"; do $hook; done
		rm -rf --one-file-system "$work" "$work_sockets"
	fi
	exit "$status"
}

# --- private copy, private server ---------------------------------------

# Which PostgreSQL: PG_CONFIG if given, else Debian's 15, else pg_config.
find_pg_config() {
	if [ -z "${PG_CONFIG:-}" ]; then
		PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
		[ -x "$PG_CONFIG" ] || PG_CONFIG=pg_config
	fi
	PG_CONFIG=$(command -v "$PG_CONFIG") || die "pg_config not found; try \"make deps\" or set PG_CONFIG"
	case $("$PG_CONFIG" --version) in
	"PostgreSQL 15"*) ;;
	*) die "aiostream needs PostgreSQL 15; $PG_CONFIG is $("$PG_CONFIG" --version)" ;;
	esac
	[ -x "$("$PG_CONFIG" --bindir)/postgres" ] || die "no server beside $PG_CONFIG; try \"make deps\" or set PG_CONFIG"
}

copy_tree() {
	mkdir -p "$work/src"
	tar -C "$top" --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude='*.so' -cf - . | tar -C "$work/src" --no-same-owner -xf -
	give_work
}

# Puts what is at $1 into the mirror: as a link, or, where the mirror has made
# that folder already, as links to the entries missing.
mirror_link() {
	local entry
	if [ ! -e "$work/pg$1" ]; then
		mkdir -p "$work/pg$(dirname "$1")"
		ln -s "$1" "$work/pg$1"
	else
		for entry in "$1"/*; do
			case ${entry##*/} in aiostream*) continue ;; esac
			[ -e "$work/pg$entry" ] || ln -s "$entry" "$work/pg$entry"
		done
	fi
}

# Sets bindir and pg_config to the mirror's.
mirror_server() {
	local dir real_bindir
	real_bindir=$("$PG_CONFIG" --bindir)
	bindir=$work/pg$real_bindir
	mkdir -p "$bindir" "$work/pg$("$PG_CONFIG" --pkglibdir)" "$work/pg$("$PG_CONFIG" --sharedir)/extension"
	# executables are copied: a link would lead back to the original's files
	cp -L "$real_bindir"/* "$bindir/"
	mirror_link "$("$PG_CONFIG" --pkglibdir)"
	mirror_link "$("$PG_CONFIG" --sharedir)/extension"
	mirror_link "$("$PG_CONFIG" --sharedir)"
	# pgTAP is plain SQL: Debian's serves a server built elsewhere as well
	for dir in /usr/share/postgresql/15/extension/pgtap*; do
		[ ! -e "$dir" ] || [ -e "$work/pg$("$PG_CONFIG" --sharedir)/extension/$(basename "$dir")" ] ||
			ln -s "$dir" "$work/pg$("$PG_CONFIG" --sharedir)/extension/"
	done
	for dir in libdir includedir pkgincludedir includedir-server; do
		mirror_link "$("$PG_CONFIG" "--$dir")"
	done
	pg_config=$bindir/pg_config
	give_work
	[ "$(as_user "$pg_config" --pkglibdir)" = "$work/pg$("$PG_CONFIG" --pkglibdir)" ] ||
		die "this PostgreSQL does not find its files relative to its executable"
}

# Builds and installs into the mirror; arguments go to make.
build_private() {
	local log=$work/build.log
	if ! as_user make -C "$work/src" -s -j"$(nproc)" PG_CONFIG="$pg_config" "$@" all >"$log" 2>&1 ||
		! as_user make -C "$work/src" -s PG_CONFIG="$pg_config" "$@" install >>"$log" 2>&1; then
		tail -n 60 "$log" >&2
		die "the build failed"
	fi
}

# --- a throw-away cluster -----------------------------------------------

# new_cluster NAME [postgresql.conf line ...]: made and started at $work/NAME,
# reachable only through a socket in a folder that only its owner may enter.
new_cluster() {
	local data=$work/$1
	shift
	as_user "$bindir/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions \
		>"$data.initdb.log" 2>&1 || { cat "$data.initdb.log" >&2; die "initdb failed"; }
	printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$work_sockets'" \
		"unix_socket_permissions = 0700" "$@" >>"$data/postgresql.conf"
	as_user "$bindir/pg_ctl" -D "$data" -l "$data.log" -w -s start >/dev/null 2>&1 ||
		{ tail -n 30 "$data.log" >&2; die "the server did not start"; }
}
stop_cluster() { as_user "$bindir/pg_ctl" -D "$work/$1" -m fast -w -s stop; }
sql() { as_user "$bindir/psql" -X -q -A -t -v ON_ERROR_STOP=1 -h "$work_sockets" -U postgres "$@"; }
