#!/usr/bin/env bash
# Downloads PostgreSQL 15's sources from Debian's source package and unpacks them.
#
#   test/fetch-sources.sh FOLDER [VERSION]     VERSION (as 15.18): taken if it is to be had, else the newest
#
# Ends up in FOLDER/postgresql-15.x, whose name is the last line printed; needs no root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

folder=${1:?usage: fetch-sources.sh FOLDER [VERSION]}
wanted=${2:-}
apt=$folder/apt
log=$folder/fetch.log

# apt with lists of its own: the machine's package sources stay as they are
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' \
	'Component: main' 2>/dev/null | sort -u >"$apt/sources.list"
[ -s "$apt/sources.list" ] || die "no Debian package sources here; build PostgreSQL 15 yourself and say make check PG_CONFIG=.../pg_config"
private=(-o "Dir::Etc::SourceList=$apt/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
	-o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)")
apt-get "${private[@]}" -q update >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "could not fetch the list of source packages"; }

# what is listed may be gone from the mirror: take the next one then
versions=$(apt-cache "${private[@]}" showsrc postgresql-15 | sed -n 's/^Version: //p' | sort -rVu)
got=
cd "$folder"
for version in $(printf '%s\n' "$versions" | grep -E "^${wanted:-none}-" || true) $versions; do
	apt-get "${private[@]}" -q source --download-only "postgresql-15=$version" >"$log" 2>&1 && { got=$version; break; }
done
[ -n "$got" ] || { tail -n 20 "$log" >&2; die "could not download PostgreSQL's sources"; }
tar -xf postgresql-15_*.orig.tar.*
rm -rf "$apt" "$log" postgresql-15_*
basename postgresql-15*/
