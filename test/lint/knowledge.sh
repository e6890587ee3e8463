# Version tests, liburing and buffer internals stay where they belong.
set -euo pipefail

bad=0
only() {	# pattern, files that may have it, what it is
	grep -rlE "$1" src --include='*.[ch]' | grep -vE "$2" | sed "s|\$|: $3|" | grep . && bad=1
	return 0
}
only 'PG_VERSION_NUM' '^src/compat\.h$' 'version tests belong in compat.h'
only '#[ \t]*include[ \t]*<liburing' '^src/engine/[^/]*(uring|probe)[^/]*$' 'liburing belongs in the io_uring method and the probe'
only 'buf_internals\.h' '^src/buffer/' 'the buffer manager'"'"'s internals belong in buffer/'
only '\b(TODO|FIXME|XXX|HACK)\b' '^$' 'left open'
exit $bad
