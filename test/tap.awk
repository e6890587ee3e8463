# Reads what one TAP test printed; prints "passed failed skipped".
# A test that died early, or ran fewer tests than planned, has failed.
# -v status=EXIT_STATUS
/^[ \t]*Bail out!/ { bail = 1 }
/^1\.\.[0-9]+/ { planned = 1; plan = substr($1, 4) + 0; if (toupper($0) ~ /# *SKIP/) all_skipped = 1 }
/^ok( |$)/ { n++; if (toupper($0) ~ /# *SKIP/) skipped++; else passed++ }
/^not ok( |$)/ { n++; if (toupper($0) ~ /# *TODO/) skipped++; else failed++ }
END {
	if (all_skipped && !n)
		skipped++
	else if (!failed && (bail || status != 0 || !planned || plan != n))
		failed++
	print passed + 0, failed + 0, skipped + 0
}
