#!/usr/bin/env bash
# Brings C files into PostgreSQL's format, with PostgreSQL 15's own formatter
# and options.
#
#   test/format.sh             rewrite everything below src/ and test/unit/
#   test/format.sh FILE...     rewrite these
#   test/format.sh --check     change nothing; show what would change, fail if anything
set -euo pipefail
. "$(dirname "$0")/lib.sh"

check=
[ "${1:-}" = --check ] && { check=1; shift; }
"$top/test/deps.sh" lint
find_pg_config
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ $# -gt 0 ] || set -- $(cd "$top" && find src test/unit -name '*.[ch]' 2>/dev/null | sort)
cd "$top"

# The formatter must know type names: those of the server's headers and ours.
# Lower-case ones of one word would catch variables ("type", "date").
{
	{ grep -rhsE '^(typedef|\})' "$("$PG_CONFIG" --includedir-server)" src test/unit || true; } |
		sed -nE 's/.*\(\*([A-Za-z_0-9]+)\).*/\1/p; s/.*[ *}]([A-Za-z_0-9]+);.*/\1/p' | grep -E '^[A-Z]|_'
	printf '%s\n' bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 size_t ssize_t off_t pid_t va_list \
		float4 float8 slock_t text bytea
} | sort -u >"$tmp/typedefs"

bad=0
for file in "$@"; do
	# "/* ---" comments keep their shape
	sed -E 's,/\* +---,/*---X_X,' "$file" >"$tmp/in.c"
	pg_bsd_indent -bad -bap -bbb -bc -bl -cli1 -cp33 -cdb -nce -d0 -di12 -nfc1 -i4 -l79 -lp -lpl \
		-nip -npro -sac -tpg -ts4 -U"$tmp/typedefs" "$tmp/in.c" "$tmp/out.c" >"$tmp/err" 2>&1 ||
		{ cat "$tmp/err"; die "cannot format $file"; }
	sed -E -i 's,/\*---X_X,/* ---,; s,\*/(/\*.*\*/)$,*/\t\1,; s,^([A-Za-z_][^[:space:]]*)[[:space:]]+\*$,\1 *,' "$tmp/out.c"
	cmp -s "$file" "$tmp/out.c" && continue
	bad=$((bad + 1))
	if [ -n "$check" ]; then
		diff -u --label "$file" --label "$file (formatted)" "$file" "$tmp/out.c" | head -n 30 || true
	else
		cat "$tmp/out.c" >"$file"
		say "formatted $file"
	fi
done
[ -z "$check" ] || [ "$bad" = 0 ] || die "$bad files are not formatted: make format"
