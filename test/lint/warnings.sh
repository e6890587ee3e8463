# Builds with -Wall -Wextra -Werror.
set -euo pipefail

make -s clean PG_CONFIG="$1" >/dev/null
make -s -j"$(nproc)" PG_CONFIG="$1" AIOSTREAM_CFLAGS=-Werror all
