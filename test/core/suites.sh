#!/usr/bin/env bash
# Gets PostgreSQL 15's own test suites and the programs that run them, once.
#
#   test/core/suites.sh CACHE VERSION
#
# They end up in CACHE/suites-VERSION: that of the server, where Debian still has its sources, else
# the newest.  The last line printed is the folder:
#
#   bin/psql                      the psql that belongs to the tests: what psql prints, and what it does with the
#                                 input behind a COPY that failed, changes between minor versions
#   regress/, isolation/          tests, expected output, schedules; pg_regress, isolationtester
#   contrib/NAME/                 tests and expected output
#   version                       of these sources
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

cache=${1:?usage: suites.sh CACHE VERSION}
version=${2:?usage: suites.sh CACHE VERSION}
target=$cache/suites-$version
[ ! -e "$target/version" ] || { echo "$target"; exit; }

mkdir -p "$cache"
build=$(mktemp -d "$cache/suites.XXXXXX")
trap 'rm -rf "$build"' EXIT
step "fetching the sources of PostgreSQL's tests" >&2
sources=$("$top/test/fetch-sources.sh" "$build" "$version" | tail -n 1)
step "building psql, pg_regress and isolationtester of $sources" >&2
cd "$build/$sources"
# a make above us ("make check") would keep PostgreSQL's from making what it generates
unset MAKELEVEL MAKEFLAGS MFLAGS
build_all() {
	local part
	./configure --prefix="$target" --without-readline --without-zlib CFLAGS='-O1' || return
	for part in src/interfaces/libpq src/bin/psql src/test/isolation; do
		make -s -j"$(nproc)" -C "$part" && make -s -C "$part" install DESTDIR="$build/dest" || return
	done
	make -s -C src/test/regress pg_regress
}
build_all >"$build/log" 2>&1 || { tail -n 30 "$build/log" >&2; die "the build failed"; }

made=$build/dest$target
rm -rf "$made/include" "$made/lib/pgxs" "$made/share"
cp -r src/test/regress src/test/isolation "$made/"
for part in contrib/*/; do
	[ -d "$part/sql" ] || [ -d "$part/specs" ] || continue
	mkdir -p "$made/$part"
	for entry in Makefile sql expected specs data; do
		[ ! -e "$part/$entry" ] || cp -r "$part/$entry" "$made/$part/"
	done
done
find "$made" -name '*.o' -delete
chmod -R a+rX "$made"
echo "${sources#postgresql-}" >"$made/version"
# all at once: an interrupted run leaves no half of it
rm -rf "$target"
mv "$made" "$target"
echo "$target"
