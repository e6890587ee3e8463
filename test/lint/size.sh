# No file over 700 lines, no function over 150.
set -euo pipefail

bad=0
while read -r file; do
	lines=$(wc -l <"$file")
	[ "$lines" -le 700 ] || { echo "$file: $lines lines"; bad=1; }
	# a function's braces stand alone in column 1
	awk -v file="$file" '/^\{/ {start = NR} /^\}/ {if (start && NR - start > 150) {print file ":" start ": a function of " NR - start " lines"; bad = 1} start = 0} END {exit bad}' "$file" || bad=1
done < <(find src -name '*.[ch]' | sort)
exit $bad
