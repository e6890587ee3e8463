# Exported symbols have the project's prefix.
# PostgreSQL 15 loads extensions with default visibility: a plain name may meet another extension's.
set -euo pipefail

[ -e aiostream.so ] || make -s -j"$(nproc)" PG_CONFIG="$1" all
! nm -D --defined-only aiostream.so | awk '{print $NF}' |
	grep -vE '^(aiostream_.*|_PG_init|Pg_magic_func|pg_finfo_aiostream_.*)$' | sed 's/$/: exported without the prefix/' | grep .
