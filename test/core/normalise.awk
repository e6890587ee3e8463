# Takes out of a test's output what may differ between heap's plans and ours and says nothing
# about data.  Both sides of each comparison go through it.
#
#   awk -v to=FOLDER -f normalise.awk FILE...      writes FOLDER/base name of FILE
#
# - The plan node's name.
# - The width of a column that stands alone, which follows from its longest
#   line: title, rule, and the padding before the "+" of rows of many lines.
# - The BRIN tests' warning that a plan has no "Seq Scan" in it: they look for these words.

function flush()
{
	if (have)
		print held > out
	have = 0
}

FNR == 1 {
	flush()
	if (out != "")
		close(out)
	out = FILENAME
	sub(/.*\//, "", out)
	out = to "/" out
	# there shall be a file even if nothing is left
	printf "" > out
}

/^WARNING:  did not get seqscan plan for / { next }

{
	gsub(/Custom Scan \(AioSeqScan\)/, "Seq Scan")
	sub(/ +\+$/, "+")
}

have && /^--+$/ {
	gsub(/^ +| +$/, "", held)
	print held > out
	print "-" > out
	have = 0
	next
}

{
	flush()
	held = $0
	have = 1
}

END { flush() }
