# Medians, spreads and ratios of benchmark rounds.
#
# Input lines: group|contender|round|seconds|CPU seconds or -|MB
#
#   -v base=CONTENDER [-v work=HEADING] [-v digits=N]
#       a table for each group; ratios are to that contender of the same group.
#       HEADING (default MB/s) is what the last input column is per second.
#   -v ratio=time|cpu -v group1= -v contender1= -v group2= -v contender2=
#       one line: ratio of medians, median of the rounds' ratios; - where there is none

BEGIN {
	FS = "|"
	if (digits == "") digits = 2
	if (work == "") work = "MB/s"
}

{
	if (!(($1) in group_seen)) { group_seen[$1] = 1; groups[++ngroups] = $1 }
	if (!(($1, $2) in contender_seen)) { contender_seen[$1, $2] = 1; contenders[$1, ++ncontenders[$1]] = $2 }
	if ($3 > rounds) rounds = $3
	value["time", $1, $2, $3] = $4
	if ($5 != "-") value["cpu", $1, $2, $3] = $5
	amount[$1, $2] = $6
}

# sorts v[1..n], sets low and high, returns the median
function middle(v, n,	i, j, x) {
	for (i = 2; i <= n; i++) {
		x = v[i]
		for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]
		v[j + 1] = x
	}
	low = v[1]
	high = v[n]
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

# median of a contender's values; count is 0 where there are none
function median_of(what, g, c,	r, v) {
	count = 0
	for (r = 1; r <= rounds; r++)
		if ((what, g, c, r) in value) v[++count] = value[what, g, c, r] + 0
	return count ? middle(v, count) : 0
}

# median of the ratios within rounds; count is 0 where there are none
function round_ratio(what, g, c, gb, cb,	r, v) {
	count = 0
	for (r = 1; r <= rounds; r++)
		if (((what, g, c, r) in value) && ((what, gb, cb, r) in value) && value[what, gb, cb, r] > 0)
			v[++count] = value[what, g, c, r] / value[what, gb, cb, r]
	return count ? middle(v, count) : 0
}

function shown(x, d) { return sprintf("%." d "f", x) }

function ratio_columns(what, g, c,	mine, theirs, r) {
	mine = median_of(what, g, c)
	if (!count) return sprintf("%8s %8s %13s", "-", "-", "-")
	theirs = median_of(what, g, base)
	r = round_ratio(what, g, c, g, base)
	if (!count || theirs <= 0) return sprintf("%8s %8s %13s", "-", "-", "-")
	return sprintf("%8s %8s %13s", shown(mine / theirs, 2), shown(r, 2), shown(low, 2) "-" shown(high, 2))
}

function print_group(g,	i, c, t, cpu, spread) {
	printf "\n%-86s | %-31s | %-31s\n", g, "time, ratio to " base, "CPU, ratio to " base
	printf("%-26s %8s %15s %8s %8s %8s | %8s %8s %13s | %8s %8s %13s\n", "", "time (s)", "min-max", work, "CPU (s)", "CPU/time",
		"medians", "rounds", "min-max", "medians", "rounds", "min-max")
	for (i = 1; i <= ncontenders[g]; i++) {
		c = contenders[g, i]
		t = median_of("time", g, c)
		spread = shown(low, digits) "-" shown(high, digits)
		cpu = median_of("cpu", g, c)
		printf("%-26s %8s %15s %8s %8s %8s | %s | %s\n", c, shown(t, digits), spread,
			t > 0 ? sprintf("%.0f", amount[g, c] / t) : "-", count ? shown(cpu, digits) : "-",
			count && t > 0 ? shown(cpu / t, 2) : "-",
			ratio_columns("time", g, c), ratio_columns("cpu", g, c))
	}
}

END {
	if (ratio != "") {
		a = median_of(ratio, group1, contender1)
		na = count
		b = median_of(ratio, group2, contender2)
		nb = count
		r = round_ratio(ratio, group1, contender1, group2, contender2)
		if (!na || !nb || !count || b <= 0) print "- -"
		else printf "%.3f %.3f\n", a / b, r
		exit
	}
	for (n = 1; n <= ngroups; n++) print_group(groups[n])
}
