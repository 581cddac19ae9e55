# kinds.sh - for suites of what is made of profiles, which source it: one profile of each kind, of real programs; made when the first row wants one.

lab_install pillion pilliond libpillion.so
PILLION=$LAB/bin/pillion

profiled() { # EVENTS COMMAND... - by a session, in this directory
	local events=$1
	shift
	"$PILLION" run --events "$events" --budget 5s --daemon "$LAB/bin/pilliond" --control "$PWD/none.sock" --output "$PWD/out" --log "$PWD/log" -- \
		"$@" >program.out 2>&1 || fail "exit status $?: $(cat program.out)"
}
of_cpu() { profiled cpu@499 perl -e 'my %h; $h{$_ % 1000} .= "x" for 1 .. 1500000'; }
of_offcpu() { profiled offcpu:min=0 sh -c 'for i in 1 2 3 4 5; do sleep 0.05; done'; }
of_wall() { profiled wall perl -e 'my $n; $n += $_ for 1 .. 2000000; sleep 1'; }
of_counted() { profiled page-faults/10,context-switches/1 perl -e 'my @a = (1 .. 1000000); select undef, undef, undef, 0.01 for 1 .. 20'; }
of_alloc() { profiled alloc/4096 "$B/targets/sites" 100 0 1000 10000; }
of_calls() {
	PILLION_TREE=$PWD/tree,time LD_PRELOAD=$LAB/bin/libpillion.so "$B/targets/traced" fib 25 >program.out 2>&1 || fail "exit status $?: $(cat program.out)"
	mkdir out
	"$PILLION" tree tree --pprof out/calls.pb.gz
}

made() { # KIND - sets PROFILES, a directory
	PROFILES=$LAB/kinds/$1
	[[ -d $PROFILES ]] && return
	rm -rf "$LAB/kinds/.$1"
	mkdir -p "$LAB/kinds/.$1"
	(cd "$LAB/kinds/.$1" && "of_$1")
	until_true 20 eval '[[ -n $(find "$LAB/kinds/.'"$1"'/out" -name "*.pb.gz" 2>/dev/null) ]]' || fail "no profile: $(cat "$LAB/kinds/.$1/log" 2>/dev/null)"
	mv "$LAB/kinds/.$1" "$PROFILES"
}
