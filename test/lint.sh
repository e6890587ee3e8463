#!/usr/bin/env bash
# The house's rules about the C code, one small script each in test/lint/.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

"$top/test/deps.sh" build lint
find_pg_config
make_work
copy_tree
mirror_server

failed=0
for rule in "$top"/test/lint/*.sh; do
	name=$(basename "$rule" .sh)
	# each gets: a private copy of the tree, and a pg_config to build with
	if as_user bash -c 'cd "$1" && exec bash "$2" "$3"' _ "$work/src" "test/lint/$name.sh" "$pg_config" >"$work/lint.log" 2>&1; then
		say "ok      $name: $(sed -n 's/^# //p' "$rule" | head -n 1)"
	else
		failed=$((failed + 1))
		say "FAILED  $name: $(sed -n 's/^# //p' "$rule" | head -n 1)"
		head -n 200 "$work/lint.log" | sed 's/^/        /'
	fi
done
[ "$failed" = 0 ] || die "$failed rules broken"
