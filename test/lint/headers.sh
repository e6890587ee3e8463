# Each header compiles alone after postgres.h.
set -euo pipefail

inc=$("$1" --includedir-server)
bad=0
for header in $(cd src && find . -name '*.h' | sed 's,^\./,,' | sort); do
	printf '#include "postgres.h"\n#include "%s"\n' "$header" |
		gcc -x c -fsyntax-only -Wall -Werror -D_GNU_SOURCE -Isrc -I"$inc" -include /dev/null - || { echo "src/$header"; bad=1; }
done
exit $bad
