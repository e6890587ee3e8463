#!/usr/bin/env bash
# Installs with apt what is missing, after saying what and why.
#
#   test/deps.sh GROUP...      groups: build test demo lint cassert valgrind
set -euo pipefail
. "$(dirname "$0")/lib.sh"

need=()		# packages
why=()		# a line for each
want() {	# package, what it is for, test that succeeds if it is not needed
	local package=$1 reason=$2
	shift 2
	"$@" >/dev/null 2>&1 && return
	need+=("$package")
	why+=("$(printf '  %-28s %s' "$package" "$reason")")
}
perl_has() { perl -e "use $1; 1"; }
own_server() { [ -n "${PG_CONFIG:-}" ] && [ -x "$("$PG_CONFIG" --bindir)/postgres" ]; }
server() { own_server || [ -x /usr/lib/postgresql/15/bin/postgres ]; }
server_dev() { own_server || { [ -e /usr/include/postgresql/15/server/postgres.h ] && [ -e /usr/lib/postgresql/15/lib/pgxs/src/makefiles/pgxs.mk ]; }; }

for group in "$@"; do
	case $group in
	build)
		want gcc "C compiler" have gcc
		want libc6-dev "C library headers" test -e /usr/include/stdio.h
		want make "build" have make
		want postgresql-15 "the server" server
		want postgresql-server-dev-15 "headers to build against it" server_dev
		want liburing-dev "io_uring" test -e /usr/include/liburing.h
		;;
	test)
		want perl "test scripts" have prove
		want libipc-run-perl "PostgreSQL's test modules" perl_has IPC::Run
		want postgresql-15-pgtap "pgTAP tests" test -e /usr/share/postgresql/15/extension/pgtap.control
		if is_root; then	# a slow disk needs mount rights
			want nbdkit "slow and failing test disk" have nbdkit
			want libnbd-bin "slow and failing test disk" have nbdfuse
			want fuse3 "slow and failing test disk" have fusermount3
		fi
		;;
	demo)
		want fio "measures what the disk can do" have fio
		;;
	lint)
		want pg-bsd-indent "PostgreSQL's code formatter" have pg_bsd_indent
		want binutils "nm" have nm
		;;
	cassert)
		want bzip2 "unpacks PostgreSQL's sources" have bzip2
		want perl "builds PostgreSQL" have perl
		;;
	valgrind)
		want valgrind "finds errors in the use of memory" have valgrind
		;;
	*) die "unknown group $group" ;;
	esac
done
[ ${#need[@]} -gt 0 ] || exit 0

# the same package may be wanted twice
mapfile -t need < <(printf '%s\n' "${need[@]}" | sort -u)
say "Packages to be installed with apt:"
printf '%s\n' "${why[@]}" | sort -u

# not a pipe into grep: under pipefail that would see apt's SIGPIPE as failure
command="apt-get install --no-install-recommends ${need[*]}"
have apt-get || die "no apt-get here; install these by the names your system has for them"
if is_root; then
	sudo=()
elif have sudo && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo true; }; }; then
	sudo=(sudo)
else
	die "neither root nor able to use sudo; have somebody run: $command"
fi

apt() {
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 "$@" </dev/null
}
known() { local p; for p in "$@"; do [ -n "$(apt-cache policy "$p" | sed -n 's/^  Candidate: \([^(].*\)/\1/p')" ] || return 1; done; }
log=$(mktemp)
restore=
finish() {
	[ -z "$restore" ] || "${sudo[@]}" cp "$log.conf" /etc/postgresql-common/createcluster.conf
	rm -f "$log" "$log.conf"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
install() {
	apt install --no-install-recommends "$@" >"$log" 2>&1 && return
	# stale lists name versions that are gone
	apt update >"$log" 2>&1 && apt install --no-install-recommends "$@" >"$log" 2>&1 && return
	tail -n 30 "$log" >&2
	die "apt-get failed; once that is mended, this is what is missing: $command"
}

if ! known "${need[@]}"; then
	say "Fetching package lists ..."
	apt update >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "apt-get update failed"; }
	for package in "${need[@]}"; do
		known "$package" || die "this system's package sources have no $package (aiostream is made for Debian 12; elsewhere see https://wiki.postgresql.org/wiki/Apt)"
	done
fi

say "Installing ${#need[@]} packages and what they depend on ..."
online() { have pg_lsclusters && pg_lsclusters -h | awk '$4 ~ /online/ {print $1, $2}' | sort || true; }
before=$(online)
if [[ " ${need[*]} " == *" postgresql-15 "* ]]; then
	# Debian would make and start a cluster of its own, which nobody asked for:
	# say no for the time of the installation, and put the file back.
	have pg_conftool || install postgresql-common
	conf=/etc/postgresql-common/createcluster.conf
	if [ -e "$conf" ]; then
		cp "$conf" "$log.conf"
		restore=1
		echo "create_main_cluster = false" | "${sudo[@]}" tee -a "$conf" >/dev/null
	fi
fi
install "${need[@]}"
# nor shall a cluster run that did not run before
comm -13 <(printf '%s\n' "$before") <(online) | while read -r version name; do
	[ -z "$version" ] || "${sudo[@]}" pg_ctlcluster "$version" "$name" stop
done
say "Installed."
