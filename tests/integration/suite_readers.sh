# suite_readers - real programs in containers: perf record, which watches the whole machine, and pprof say the same of them.

. "$TOP/tests/integration/spine.sh"

# Self time by function in percent of all, "name<TAB>percent". By name: what has none counts for its module.
self_of() { awk -F '\t' '{ all += $2; self[$1] += $2 } END { for (f in self) printf "%s\t%.4f\n", f, 100 * self[f] / all }' | sort; }

# What is inlined counts for the function that has the code, as for perf.
self_pillion() {
	OUTER=1 samples | awk -F '\t' '$4 == "[lost]" { next } { n = split($4, f, ";"); name = f[n]; sub(/\+0x[0-9a-f]+$/, "", name); print name "\t" $2 }' | self_of
}

# The tables of pprof and of ours look alike: flat, flat%, sum%, cum, cum%, name.
table() {
	awk '/flat%/ { on = 1; next }
		on && NF >= 6 { share = $2 + 0; for (i = 0; i < 5; i++) sub(/^ *[^ ]+ +/, ""); sub(/ \((partial-)?inline\)$/, "")
			print $0 "\t" share }' | sort
}
self_pprof() {
	go tool pprof -symbolize=none -top -nodefraction=0 -edgefraction=0 -nodecount=1000000 "$PROFILE" 2>/dev/null | table
}
self_top() { "$LAB/bin/pillion" top -n all "$PROFILE" | table; }

# Names and shares of both lists, no further apart than this; where they are of two samplings, than what chance makes of so many samples: five
# standard deviations of the difference.
same_shares() { # WHAT LIST-A LIST-B POINTS [ROWS: the largest so many of A only [SAMPLES]]
	local bad
	bad=$(awk -F '\t' -v points="$4" -v samples="${6:-0}" 'NR == FNR { b[$1] = $2; next } !($1 in b) { b[$1] = 0; gone = " (not there)" }
		{ d = $2 - b[$1]; most = points; chance = samples ? 5 * sqrt(2 * $2 * (100 - $2) / samples) : 0; if (chance > most) most = chance
			if (d > most || -d > most || (gone && points < 2)) print $1, $2, b[$1] gone; gone = "" }' \
		"$3" <(sort -t $'\t' -k 2,2nr "$2" | sed -n "1,${5:-1000000}p"))
	is "$1: further than $4 points apart" "$bad" ""
}

# perf is there from the start: the program waits for it. It never knows of containers, and of nothing else that runs on the
# machine: of some programs perf 6.1 dies.
perf_start() { # PID
	need perf
	local word
	mkfifo perf.control perf.ack
	exec 8<>perf.control 9<>perf.ack
	perf record -q -N -B -p "$1" -e cpu-clock -F 997 -D -1 --control fd:8,9 -o perf.data >perf.out 2>&1 &
	PERF=$!
	echo enable >&8
	read -r -t 60 word <&9 || fail "perf record does not work here: $(cat perf.out)"
}

# As perf names them, also from separate debug files that the machine may have.
perf_script() { # PID FIELDS
	perf --buildid-dir none script -i perf.data --pid "$1" -F "$2" 2>/dev/null
}

self_perf() { # PID
	perf_script "$1" ip,sym,dso |
		sed -E 's/^ *[0-9a-f]+ //; s/^\[unknown\] \((.*\/)?([^/]*)\)$/\2/; s/ \(.*\)$//; s/@plt$//; s/$/\t1/' | self_of
}

# python: -S and -I keep site packages of the machine out
PERL='my %w; for my $i (1 .. N) { my $s = join "", map { chr 97 + ($i * $_) % 26 } 1 .. 6; $w{$s}++ } print scalar(keys %w), "\n"'
PYTHON='
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
for n in range(N): fib(22); sorted(str(i * 7919 % 10007) for i in range(3000))'

test_real() { # MODE NAME... - a function that must be named, COMMAND...
	local named=$2 pid
	ct_need podman-runc
	with "$1"
	shift 2
	need "$1"
	head -c 9000000 "$(command -v podman)" >data
	mkfifo go
	ct_start podman-runc c1 -a $FINE -v "$ROW:/volume" -- /bin/sh -c 'read -r _ </volume/go; exec "$0" "$@"' "$@"
	pid=$(ct_pid c1)
	perf_start "$pid"
	echo >go
	ct_wait c1 100 || fail "no end"
	profile
	wait "$PERF" || cat perf.out # it ends with the program
	has "the profile" "$(samples | cut -f 4)" "(^|[;$'\n'])$named(;|$'\n')"
	self_pprof >by-pprof
	self_top >by-top
	(($(wc -l <by-top) > 10)) || fail "a short table: $(cat by-top)"
	is "names in one table only" "$(comm -3 <(cut -f 1 by-pprof) <(cut -f 1 by-top))" ""
	same_shares "pillion top and pprof -top" by-top by-pprof 1
	same_shares "pprof -top and pillion top" by-pprof by-top 1
	self_pillion >by-pillion
	self_perf "$pid" >by-perf
	local n
	n=$(perf_script "$pid" ip | wc -l)
	between "samples of perf" "$n" 3000 1000000
	same_shares "ours and perf's" by-pillion by-perf 3 5 "$n"
	same_shares "perf's and ours" by-perf by-pillion 3 5 "$n"
}

row "perl in podman, session: named; pillion top, pprof and perf record agree" \
	test_real session Perl_runops_standard /usr/bin/perl -e "${PERL/N/5_000_000}"
row "python in podman, service: named; pillion top, pprof and perf record agree" \
	test_real service _PyEval_EvalFrameDefault /usr/bin/python3 -IS -c "${PYTHON/N/1500}"
row "xz in podman, session: named; pillion top, pprof and perf record agree" \
	test_real session lzma_code /usr/bin/xz -9e -T1 /volume/data
