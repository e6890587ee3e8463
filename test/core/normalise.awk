# Takes out of a test's output what may differ between core's plans and ours and says nothing
# about data.  Both sides of each comparison go through it.
#
#   awk -v to=FOLDER -v counters="NAME|..." -f normalise.awk FILE...      writes FOLDER/base name of FILE
#
# - The plan nodes' names: a custom scan becomes the core node that it stands for, with the
#   index in its title, and its lines come in core's order.
# - Our counters in EXPLAIN's output other than text, and the comma behind the last key before one of them.
# - The width of a column that stands alone, which follows from its longest
#   line: title, rule, the padding before the "+" of rows of many lines, and blanks at the end, which
#   isolationtester pads with.
# - The BRIN tests' warnings that a plan has no "Seq Scan" or "Bitmap Heap Scan" in it: they look for these words.

# --- titles and widths: put() writes a line after it has seen the next one

function flush()
{
	if (have)
		print held > out
	have = 0
}

function put(line)
{
	sub(/ +\+$/, "+", line)
	if (have && line ~ /^--+$/)
	{
		gsub(/^ +| +$/, "", held)
		line = "-"
	}
	flush()
	held = line
	have = 1
}

# --- custom scans of an index or a bitmap: all lines of the node, then written

function indent(line)
{
	match(line, /^ */)
	return RLENGTH
}

function rank(line)
{
	if (line ~ /^ *Output: /)
		return 0
	if (line ~ /^ *(Index|Recheck) Cond: /)
		return 1
	if (line ~ /^ *Rows Removed by Index Recheck: /)
		return 2
	if (line ~ /^ *Filter: /)
		return 3
	if (line ~ /^ *Rows Removed by Filter: /)
		return 4
	return 5
}

function end_node(	i, r, name)
{
	if (!lines)
		return
	name = node == "AioBitmapHeapScan" ? "Bitmap Heap Scan on " : \
		(node == "AioIndexScan" ? "Index Scan" : "Index Only Scan") backward " using " index_name " on "
	sub(/Custom Scan \([A-Za-z]*\) on /, name, node_line[1])
	put(node_line[1])
	for (r = 0; r <= 5; r++)
		for (i = 2; i <= lines; i++)
			if (rank(node_line[i]) == r)
				put(node_line[i])
	lines = 0
}

# --- input

BEGIN {
	tags = counters
	gsub(/[ \/]/, "-", tags)
	counter = "\"(" counters ")\": |^ *(" counters "): |<(" tags ")>"
}

FNR == 1 {
	end_node()
	flush()
	if (out != "")
		close(out)
	out = FILENAME
	sub(/.*\//, "", out)
	out = to "/" out
	# there shall be a file even if nothing is left
	printf "" > out
}

/^WARNING:  did not get (seqscan|bitmap indexscan) plan for / { next }

counters != "" && $0 ~ counter { next }

/Custom[- ]Plan[- ]Provider.*AioSeqScan/ { next }

{
	sub(/ +$/, "")
	sub(/, *\+$/, "+")
	if (/Node[- ]Type/)
		sub(/Custom Scan/, "Seq Scan")
	gsub(/Custom Scan \(AioSeqScan\)/, "Seq Scan")
}

lines && /^ +[A-Z][A-Za-z ]*: / && !/->/ && (depth < 0 || indent($0) == depth) {
	depth = indent($0)
	if (/^ *Index Name: /)
	{
		dropped++
		index_name = $0
		sub(/^ *Index Name: /, "", index_name)
	}
	else if (/^ *Scan Direction: Backward/)
	{
		dropped++
		backward = " Backward"
	}
	else
		node_line[++lines] = $0
	next
}

{ end_node() }

/^\([0-9]+ rows?\)$/ {
	match($0, /[0-9]+/)
	rows = substr($0, RSTART, RLENGTH) - dropped
	$0 = "(" rows (rows == 1 ? " row)" : " rows)")
	dropped = 0
}

match($0, /Custom Scan \(Aio(Index|IndexOnly|BitmapHeap)Scan\) on /) {
	node = substr($0, RSTART + 13, RLENGTH - 18)
	index_name = backward = ""
	lines = 1
	depth = -1
	node_line[1] = $0
	next
}

{ put($0) }

END {
	end_node()
	flush()
}
