# suite_timers - `pillion run` where perf events are refused: CPU time by timers in the program. It is the same profile, and
# the program never notices.

. "$TOP/tests/integration/wrapped.sh"
lab_install tools/deny targets/shares targets/threads targets/eintr targets/sites
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program

begin_timers() { # [OPTION...]
	begin_run "$@"
	TIMED=("$LAB/bin/deny" perf_event_open EPERM "${RUN[@]}")
}
SAYS='^pillion run: CPU time is sampled by timers in the program: perf_event_open: .* forbids perf_event_open'
cpu_of() { profiles_of "$1" | grep -- -cpu | xargs "$LAB/bin/pillion" report --folded --type cpu; }
# A program's time has its name or is said to be without a sample (until the profiler has answered, and behind the last tick, nobody
# samples): WHAT REGEX MS WITHIN-MS, of folded stacks in a file. More of it only by what was taken from the machine.
named_or_said() {
	local named
	named=$({ grep -iE "$2" folded || :; } | total_ms)
	((named > 0)) || fail "$1: no sample: $(cat folded)"
	between "$1" "$named" 0 $(($3 + $4 + $(stolen_at_most)))
	between "$1, and what is said" $((named + $(unsampled_ms <folded))) $(($3 - $4)) 1000000
}

# --- the profile

test_shares() { # as perf has them, and as they are
	local name by
	begin_timers --events cpu@499
	"${RUN[@]}" --output "$ROW/out/perf" -- "$LAB/bin/shares" 4 1
	first_of shares >/dev/null
	folded_of shares >by.perf
	rm -r out/perf
	local TIMEFORMAT='%U %S' used
	{ time "${TIMED[@]}" -- "$LAB/bin/shares" 4 1 2>said; } 2>used
	has "stderr" "$(cat said)" "$SAYS"
	is "lines on stderr" "$(wc -l <said)" 1
	used=$(awk '{ printf "%d", 1000 * ($1 + $2) }' used) # each turn of its loop is a little too long, and taking a sample takes time
	first_of shares >/dev/null
	cpu_of shares >by.timers
	for by in perf timers; do
		cp by.$by folded
		for name in one:571 two:1143 four:2286; do
			named_or_said "ms in share_${name%:*}, by $by" "share_${name%:*};" "${name#*:}" 240 # of some 1,000 samples, which chance gives to three functions
		done
	done
	between "ms in all, of $used" "$(total_ms <by.timers)" 3920 $((used * 102 / 100))
	has "comments" "$(comments_of shares)" 'strategy timers'
	has "comments" "$(comments_of shares)" 'timers: 1 processes with libpillion so far, 1 of them with a sample'
	end_run
}
row "four threads: each function has its time, as by perf, and the sum is right" test_shares

test_fair() {
	local i
	begin_timers --events cpu@499
	"${TIMED[@]}" -- "$LAB/bin/threads" 16 0.15 >/dev/null 2>&1
	first_of threads >/dev/null
	profiles_of threads | grep -- -cpu | xargs "$LAB/bin/pillion" report --folded --type cpu --by thread >folded
	for i in {0..15}; do named_or_said "ms of thread $i" "^w-$i;" 150 45; done
	end_run
}
row "16 equal threads: each has its time" test_fair

test_short() { # most of them live for one period or two
	begin_timers
	"${TIMED[@]}" -- "$LAB/bin/threads" 200 0.01 >/dev/null 2>&1
	first_of threads >/dev/null
	near "ms in all" "$(cpu_of threads | total_ms)" 2000 6
	between "ms without a sample" "$(cpu_of threads | unsampled_ms)" 0 1500
	end_run
}
row "200 short threads: their time is there" test_short

PERL_CPU='sub used { my ($u, $s) = times; $u + $s } sub burn { my $x = 0; while (used() < $_[0]) { $x += $_ for 1 .. 10000 } }'
test_children_timed() { # forked, execed and left behind
	begin_timers
	"${TIMED[@]}" -- sh -c "$LAB/bin/burn 0.3 >/dev/null; (sleep 0.1; exec $LAB/bin/burn 0.3) >/dev/null & perl -e '$PERL_CPU
		for (1 .. 3) { next if fork; burn(0.2); exit } wait for 1 .. 3' & exit 0" 2>said
	until_true 20 no_profiler || fail "it does not end"
	cpu_of sh >folded
	named_or_said "ms in burn_loop" burn_loop 600 40
	named_or_said "ms in perl" perl 600 120
	end_run
}
row "children that are forked, execed, and live on when the first process has ended" test_children_timed

test_later() { # code that is mapped when it runs already
	begin_timers
	"${TIMED[@]}" -- perl -e "$PERL_CPU"'burn(0.2); require Digest::SHA; my $x = "x" x 1000000; Digest::SHA::sha512($x) while used() < 1' 2>said
	first_of perl >/dev/null
	(($(cpu_of perl | share 'SHA\.so') >= 70)) || fail "SHA.so has not 70 %: $(cpu_of perl | tail)"
	end_run
}
row "a library that is loaded later has its name" test_later

test_others() { # EVENTS KINDS - what there is of them
	begin_timers --events "$1"
	"${TIMED[@]}" -- "$LAB/bin/sites" 300 10 1000 10000 >told 2>said
	first_of sites >/dev/null
	is "kinds of profiles" "$(profiles_of sites | sed 's/^.*-[0-9]*-//; s/\.pb\.gz$//' | sort -u | xargs)" "$2"
	[[ $1 != *,offcpu* ]] || has "comments" "$(comments_of sites)" 'left out: offcpu takes perf events, which are refused'
	end_run
}
row "events that take perf are left out" test_others cpu,offcpu,page-faults cpu
row "wall is CPU time" test_others wall cpu
row "what is allocated is known as well" test_others cpu,alloc/4096 "alloc cpu"
row "what is allocated, alone" test_others alloc/4096 alloc
test_none_left() {
	begin_timers --events page-faults
	"${TIMED[@]}" -- sh -c 'exit 7' 2>said && fail "exit status 0"
	has "stderr" "$(cat said)" 'page-faults takes perf events, which are refused; the program runs without a profile$'
	end_run
}
row "nothing that could be sampled: it is told so, and runs" test_none_left

test_timed_user() { # as a plain user, and with a service that has rings
	local who=("${AS_ROOT[@]}")
	[[ $1 != user ]] || who=("${NOBODY[@]}")
	begin_timers
	[[ $1 == user ]] || service_run
	"${who[@]}" "${TIMED[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said
	has "stderr" "$(cat said)" "$SAYS"
	first_of burn >/dev/null
	(($(cpu_of burn | share burn_loop) >= 90)) || fail "burn_loop has not 90 %: $(cpu_of burn)"
	[[ $1 == user ]] || kill -TERM "$SERVICE"
	end_run
}
row "a plain user" test_timed_user user
row "a service that has rings" test_timed_user service

test_musl_timed() {
	need musl-gcc
	begin_timers --events cpu@499
	musl-gcc -O2 -g -I"$TOP" -o ./shares "$TOP/tests/targets/shares.c"
	"${TIMED[@]}" -- ./shares 4 0.5 2>said
	has "stderr" "$(cat said)" "$SAYS"
	first_of shares >/dev/null
	near "ms in all" "$(cpu_of shares | total_ms)" 2000 3
	cpu_of shares >folded
	named_or_said "ms in share_four" share_four 1143 160
	end_run
}
row "a program of musl's" test_musl_timed

test_static_timed() {
	begin_timers
	gcc -O2 -static -I"$TOP" -D_GNU_SOURCE -o ./burn "$TOP/tests/targets/burn.c"
	"${TIMED[@]}" -- ./burn 0.1 >ran 2>said || fail "exit status $?"
	has "its output" "$(cat ran)" '^burn_loop '
	has "stderr" "$(cat said)" \
		'ring on a CPU: .*; nor by timers: .*/burn is a static program, into which no library can be loaded.*; the program runs without a profile$'
	end_run
}
row "a static program is told so, and runs" test_static_timed

# --- the program

test_unnoticed() { # MODE [EVENTS] - by the program's own account
	local status=0 wanted=0
	begin_timers --events "${2:-cpu@999}"
	"$LAB/bin/eintr" "$1" 1 >plain.out 2>plain.err || wanted=$?
	"${TIMED[@]}" -- "$LAB/bin/eintr" "$1" 1 >timed.out 2>timed.err || status=$?
	is "exit status" "$status" "$wanted"
	cmp plain.out timed.out || fail "it says something else: $(head -n 20 timed.out)"
	first_of eintr >/dev/null
	(($(cpu_of eintr | total_ms) >= 100)) || fail "it was not sampled: $(cpu_of eintr)"
	end_run
}
row "system calls are not interrupted" test_unnoticed waits
row "dispositions, masks, SIGPROF, signalfd, sigwait: as without" test_unnoticed signals
row "who wants the signal for himself has it" test_unnoticed takes
row "who sends it is heard: it ends the process" test_unnoticed dies
row "who ignores it is not sent it" test_unnoticed ignores
row "forks and vforks" test_unnoticed forks

test_runs_same() { # PROGRAM ARGUMENT...
	local status=0 wanted=0
	begin_timers --events cpu@499
	"$@" >plain.out 2>plain.err || wanted=$?
	"${TIMED[@]}" -- "$@" >timed.out 2>timed.err || status=$?
	is "exit status of $1" "$status" "$wanted"
	cmp plain.out timed.out || fail "$1 says something else: $(head -n 5 timed.out)"
	cmp plain.err <(sed '/^pillion run: /d' timed.err) || fail "$1 complains: $(head -n 5 timed.err)"
	end_run
}
row "bash" test_runs_same bash -c 'trap "echo hup" HUP; for i in 1 2 3 4 5 6 7 8; do x=$(ls / | wc -l); kill -HUP $$; echo "$x"; done; exit 7'
row "python3 with threads, and its signals" test_runs_same python3 -c 'import signal, threading, subprocess
got = []
signal.signal(signal.SIGALRM, lambda s, f: got.append(s)); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
t = [threading.Thread(target=lambda: sum(i * i for i in range(300000))) for i in range(8)]
[x.start() for x in t]; [x.join() for x in t]
signal.setitimer(signal.ITIMER_REAL, 0) # as it ends it takes its handler away
print(len(got) > 3, signal.getsignal(64), subprocess.run(["true"]).returncode)'
row "a Go program" test_runs_same go version
row "xz" test_runs_same sh -c 'head -c 3000000 "$0" | xz -T4 -1 | xz -d | cksum' "$LAB/bin/pilliond"

# --- the profiler

test_detached() { # it closes what it has, ours as well, and is silent for longer than one that is gone
	awk -F. '{ exit !($1 > 6 || ($1 == 6 && $2 >= 5)) }' /proc/sys/kernel/osrelease || skip "before Linux 6.5 nobody tells who it was (SO_PEERPIDFD)"
	begin_timers --events cpu@999
	"${TIMED[@]}" -- perl -MPOSIX -e "$PERL_CPU"'
		exit if fork; setsid; $0 = "late"; burn(0.2); POSIX::close($_) for 0 .. 1023; sleep 5; burn(0.8)' >/dev/null 2>&1
	first_of perl >/dev/null
	near "ms in all" "$(cpu_of perl | total_ms)" 820 15
	end_run
}
row "a daemon that closes all descriptors and rests: what it does then is there" test_detached

test_worker_killed() { # three times
	local i
	begin_timers
	service_run
	"${TIMED[@]}" -- "$LAB/bin/threads" 2 1.5 >/dev/null 2>&1 &
	for i in 1 2 3; do
		sleep 0.3
		until_true 5 has_worker || fail "there is no worker: $(cat service.log)"
		kill -KILL "$(worker)"
	done
	wait $!
	first_of threads >/dev/null
	near "ms in all" "$(cpu_of threads | total_ms)" 3000 3
	(($(cpu_of threads | share thread_work) >= 90)) || fail "$(cpu_of threads | tail)"
	kill -TERM "$SERVICE"
	end_run
}
row "a worker killed three times: the sum stays right" test_worker_killed

test_profiler_gone() { # SIGNAL
	local began=${EPOCHREALTIME/./}
	begin_timers
	"${TIMED[@]}" -- "$LAB/bin/threads" 4 0.3 >ran 2>/dev/null &
	until_true 10 eval '[[ $(cat /proc/$!/comm) == threads ]]' || fail "it does not begin"
	kill -"$1" $(profilers)
	wait $! || fail "exit status $?"
	is "its output" "$(cat ran)" "threads 4"
	(((${EPOCHREALTIME/./} - began) / 1000 < 10000)) || fail "it was held up"
	kill -KILL $(profilers) 2>/dev/null || :
	end_run
}
row "a profiler that is killed: the program runs on" test_profiler_gone KILL
row "a profiler that is stopped: the program runs on" test_profiler_gone STOP

test_filtered() { # it asks for a filter, so there are no more samples of it, and then of another program
	begin_timers --events cpu@999
	"${TIMED[@]}" -- "$LAB/bin/deny" personality EPERM "$LAB/bin/burn" 0.3 >/dev/null 2>said
	first_of deny >/dev/null
	(($(cpu_of deny | share burn_loop) >= 80)) || fail "$(cpu_of deny)"
	end_run
}
row "it asks for a seccomp filter of its own" test_filtered

# As libseccomp does before anything else: a mode with a flag that it has not, a filter without a program. It asks when its threads
# have timers, and is called otherwise from then on: what has that name was sampled behind it.
test_asked() {
	begin_timers --events cpu@499
	"${TIMED[@]}" -- python3 -c 'import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
while "tid." not in open("/proc/self/timers").read(): pass
print(libc.syscall(317, 0, 1, None), libc.syscall(317, 1, 0, None), libc.prctl(22, 2, None, 0, 0), libc.prctl(26, 1, 0, 0, 0))
libc.prctl(15, b"asked", 0, 0, 0)
end = time.process_time() + 0.3
while time.process_time() < end: pass' 2>/dev/null >said
	is "what the kernel said" "$(cat said)" "-1 -1 -1 0"
	first_of python3 >/dev/null
	profiles_of python3 | xargs "$LAB/bin/pillion" report --folded --by thread --type cpu >folded
	(($({ grep -E '^(asked;|\[lost\])' folded || :; } | total_ms) >= 200)) || fail "it was switched off: $(cat folded)"
	end_run
}
row "it asks what seccomp there is, and sets nothing" test_asked

# The profiler is stopped as `burn` begins, which waits for its answer for 100 ms and then goes on.
test_late() {
	local burn used
	begin_timers --events cpu@499
	service_run
	"${TIMED[@]}" -- sh -c "kill -STOP $(worker); exec $LAB/bin/burn 1" >ran 2>/dev/null &
	burn=$!
	until_true 20 eval 'used=$(awk "\$2 == \"(burn)\" { print (\$14 + \$15) * 1000 / $(getconf CLK_TCK) }" "/proc/$burn/stat"); ((${used:-0} >= 200))' ||
		fail "it does not run"
	kill -CONT "$(worker)"
	wait $burn || fail "exit status $?"
	first_of sh >/dev/null
	cpu_of sh >folded
	(($({ grep -E 'burn_loop|^\[lost\]' folded || :; } | total_ms) >= (1000 - used) / 2)) || fail "$used ms were used before; then: $(cat folded)"
	kill -TERM "$SERVICE"
	end_run
}
row "a profiler that answers late: from then on it is sampled" test_late
