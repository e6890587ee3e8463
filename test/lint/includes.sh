# A file includes its own folder, the root's base headers, and the next layer down.
set -euo pipefail

base="compat.h guc.h stats.h faults.h shmem.h"
below() {	# what a folder may see beside itself
	case $1 in
	engine) ;;
	buffer | worker) echo engine/engine.h ;;
	stream) echo buffer/buffer.h ;;
	scan) echo stream/stream.h ;;
	maintenance) echo stream/stream.h ;;
	plan) echo scan/scan.h ;;
	am) echo scan/scan.h maintenance/maintenance.h ;;
	bench) echo stream/stream.h buffer/buffer.h engine/engine.h ;;
	root) ls src/*/*.h | sed 's,^src/,,' | grep -v _internal ;;
	*) echo "no rule for folder $1: add it here and to src/README.md" >&2; exit 1 ;;
	esac
}
bad=0
while read -r file; do
	folder=$(basename "$(dirname "$file")")
	[ "$folder" != src ] || folder=root
	allowed=" $base $(below "$folder" | tr '\n' ' ') "
	for header in $(sed -nE 's/^[ \t]*#[ \t]*include[ \t]+"([^"]+)".*/\1/p' "$file"); do
		if [ -e "src/$header" ]; then path=$header
		elif [ -e "$(dirname "$file")/$header" ]; then path=$folder/$header
		else continue; fi	# PostgreSQL's own
		case $path in "$folder"/*) continue ;; esac
		if [[ $folder = root && $file = *.h && $path = */* ]]; then
			echo "$file: a base header includes the layer header $path"
			bad=1
		elif [[ $allowed != *" $path "* ]]; then
			echo "$file: may not include $path"
			bad=1
		fi
	done
done < <(find src -name '*.[ch]' | sort)
# each public header has one folder, each base name one file
find src -name '*.[ch]' -printf '%f\n' | sort | uniq -d | sed 's/$/: this file name is used twice/' | grep . && bad=1
exit $bad
