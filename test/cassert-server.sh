#!/usr/bin/env bash
# Builds PostgreSQL 15 with assertions from Debian's source package.
#
#   test/cassert-server.sh CACHE       ends up in CACHE/cassert; needs no root
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cache=${1:?usage: cassert-server.sh CACHE}
prefix=$cache/cassert
mkdir -p "$cache"
build=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$build"' EXIT

# apt with lists of its own: the machine's package sources stay as they are
mkdir -p "$build/lists/partial" "$build/cache/archives/partial"
apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' \
	'Component: main' 2>/dev/null | sort -u >"$build/sources.list"
[ -s "$build/sources.list" ] || die "no Debian package sources here; build PostgreSQL 15 with --enable-cassert yourself and say make check PG_CONFIG=.../pg_config"
private=(-o "Dir::Etc::SourceList=$build/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
	-o "Dir::State::Lists=$build/lists" -o "Dir::Cache=$build/cache" -o "APT::Sandbox::User=$(id -un)")
step "fetching PostgreSQL 15's sources"
apt-get "${private[@]}" -q update >"$build/log" 2>&1 || { tail -n 20 "$build/log" >&2; die "could not fetch the list of source packages"; }
# the newest version listed may be gone from the mirror: take the next one then
got=
cd "$build"
for version in $(apt-cache "${private[@]}" showsrc postgresql-15 | sed -n 's/^Version: //p' | sort -rVu); do
	apt-get "${private[@]}" -q source --download-only "postgresql-15=$version" >"$build/log" 2>&1 && { got=$version; break; }
	say "   $version is not to be had"
done
[ -n "$got" ] || { tail -n 20 "$build/log" >&2; die "could not download PostgreSQL's sources"; }
tar -xf postgresql-15_*.orig.tar.*
cd postgresql-15*/
step "building PostgreSQL $got with assertions (some minutes)"
{
	./configure --prefix="$prefix" --enable-cassert --enable-debug --enable-tap-tests --without-readline --without-zlib \
		CFLAGS='-O1 -g -fno-omit-frame-pointer' &&
		make -s -j"$(nproc)" world-bin &&
		make -s install-world-bin DESTDIR="$build/dest"
} >"$build/log" 2>&1 || { tail -n 30 "$build/log" >&2; die "PostgreSQL's build failed"; }
# all at once, so that an interrupted build leaves no half of a server
mv "$build/dest$prefix" "$prefix"
