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

step "fetching PostgreSQL 15's sources"
sources=$("$top/test/fetch-sources.sh" "$build" | tail -n 1)
cd "$build/$sources"
# a make above us ("make check-cassert") would keep PostgreSQL's from making what it generates
unset MAKELEVEL MAKEFLAGS MFLAGS
step "building $sources with assertions (some minutes)"
{
	./configure --prefix="$prefix" --enable-cassert --enable-debug --enable-tap-tests --without-readline --without-zlib \
		CFLAGS='-O1 -g -fno-omit-frame-pointer' &&
		make -s -j"$(nproc)" world-bin &&
		make -s install-world-bin DESTDIR="$build/dest"
} >"$build/log" 2>&1 || { tail -n 30 "$build/log" >&2; die "PostgreSQL's build failed"; }
# all at once, so that an interrupted build leaves no half of a server
mv "$build/dest$prefix" "$prefix"
