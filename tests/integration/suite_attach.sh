# suite_attach - `pillion attach`: what runs already is profiled as it is, whoever and wherever it is, and goes on as if
# nobody had looked.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-opener tools/peer targets/threads targets/churn targets/sigcount targets/sleeper targets/forker

# --- the job itself

begin_attach() { # [OPTION...] - sets ATTACH
	begin_run
	ATTACH=("$LAB/bin/pillion" attach --budget 5s --daemon "$LAB/bin/pilliond" --control "$SOCKET" --config "$ROW/output.conf"
		--log "$ROW/run/log" "$@")
}

start() { # WHO... PROGRAM... - sets TARGET, once it runs its own code
	"$@" >target.out 2>&1 &
	TARGET=$!
	until_true 10 runs_itself || fail "it does not begin: $(cat target.out)"
}
runs_itself() { # and not what executes it
	case $(readlink "/proc/$TARGET/exe") in
	'' | */bash | */env | */setpriv | */taskset | *runc*) return 1 ;;
	esac
}
has_threads() { (($(find "/proc/$TARGET/task" -mindepth 1 -maxdepth 1 | wc -l) > $1)); }
cpu_ms() { # that TARGET has used
	awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13) * 1000 / hz) }' "/proc/$TARGET/stat"
}
# Attached to until a condition holds, which may look at AT_MS and AT_LINES: what it had used and said when it was attached to.
attach_until() { # CONDITION [OPTION...]
	local attach
	env --default-signal=INT "${ATTACH[@]}" "$TARGET" "${@:2}" >path 2>said & # & makes a shell ignore it
	attach=$!
	until_true 20 grep -qs attached said || fail "not attached: $(cat said)"
	AT_MS=$(cpu_ms) AT_LINES=$(wc -l <target.out)
	until_true 60 eval "$1" || fail "it is not so: $1"
	kill -INT $attach
	wait $attach || fail "exit status $?: $(cat said)"
}
end_target() {
	kill "$TARGET" 2>/dev/null || :
	wait "$TARGET" 2>/dev/null || :
}

test_threads() { # WHO...
	begin_attach
	start "$@" "$LAB/bin/threads" 3 30
	"$@" "${ATTACH[@]}" "$TARGET" --duration 1s >path 2>said || fail "exit status $?: $(cat said)"
	[[ -s $(cat path) ]] || fail "no profile at \"$(cat path)\""
	(($(folded_of threads | share 'thread_work') >= 90)) || fail "thread_work has not 90 %: $(folded_of threads)"
	is "its threads" "$(tags_of threads thread | grep -cx 'w-[012]')" 3
	is "its pid" "$(tags_of threads pid)" "$TARGET"
	has "stderr" "$(cat said)" "^attached to threads \(pid $TARGET\).*samples of threads; look: pillion top $(cat path)\$"
	end_target
	end_run
}
row "root: a process by its threads" test_threads "${AS_ROOT[@]}"
row "plain user: a process of one's own" test_threads "${NOBODY[@]}"

test_output_beside_service() {
	begin_attach
	service_run
	start "$LAB/bin/threads" 1 30
	"${ATTACH[@]}" "$TARGET" --output "$ROW/out" --duration 1s >path 2>said || fail "exit status $?: $(cat said)"
	has "where it is" "$(cat path)" "^$ROW/out/threads/"
	is "profiles in the service's spool" "$(find spool -name '*.pb.gz')" ""
	kill -TERM "$SERVICE"
	end_target
	end_run
}
row "--output beside a service: a session of its own writes there" test_output_beside_service

test_children() { # what it has started before, and what it starts after
	begin_attach
	start "${NOBODY[@]}" sh -c "$LAB/bin/burn 30 & while :; do $LAB/bin/burn 0.1; done"
	until_true 10 eval '[[ -n $(pgrep -x -P "$TARGET" burn) ]]' || fail "it has no child"
	attach_until '(($(wc -l <target.out) > AT_LINES + 3))' # one that was there, and three that began and ended meanwhile
	(($(folded_of sh | share 'burn_loop') >= 90)) || fail "burn_loop has not 90 %: $(folded_of sh)"
	(($(tags_of sh pid | wc -l) >= 4)) || fail "too few processes: $(tags_of sh pid)"
	is "programs" "$(tags_of sh exe | grep -cx burn)" 1
	pkill -P "$TARGET" || :
	end_target
	end_run
}
row "its children, those of before as well" test_children

test_service() {
	begin_attach
	service_run
	start "$LAB/bin/threads" 1 30
	"${ATTACH[@]}" "$TARGET" --duration 1s >path 2>said || fail "exit status $?: $(cat said)"
	has "the path" "$(cat path)" "^$ROW/spool/threads/.*pb.gz\$"
	(($(folded_of threads | share 'thread_work') >= 90)) || fail "thread_work has not 90 %"
	"${ATTACH[@]}" "$TARGET" --duration 1s >path 2>said || fail "a second time: exit status $?: $(cat said)"
	env --default-signal=INT "${ATTACH[@]}" "$TARGET" >path 2>held & # & makes a shell ignore it
	until_true 10 grep -qs attached held || fail "not attached: $(cat held)"
	is "attaching to what is attached to" "$(status_of "${ATTACH[@]}" "$TARGET" --duration 1s 2>twice)" 1
	has "stderr" "$(cat twice)" 'this container is profiled already'
	kill -INT $!
	wait $! || fail "exit status $? after SIGINT: $(cat held)"
	end_target
	kill -TERM "$SERVICE"
	end_run
}
row "a service: more than once, and not twice at the same time" test_service

# --- nobody is missed, nobody is counted twice

# CPU time that the process used between two points in time, in ns: by its own account (2), as a perf counter sees it (3)
used_between() { # FILE COLUMN FROM TO
	awk -v column="$2" -v from="$3" -v to="$4" '
		function at(t) { return c0 + (c1 - c0) * (t - t0) / (t1 - t0) }
		NR > 1 { t0 = t1; c0 = c1 }
		{ t1 = $1; c1 = $column }
		NR > 1 && t0 <= from && from < t1 { a = at(from) }
		NR > 1 && t0 <= to && to < t1 { b = at(to) }
		END { printf "%.0f", b - a }' "$1"
}
span_of() { # PROFILE - its start and end, ns since the epoch
	local raw start
	raw=$(go tool pprof -raw "$1" 2>/dev/null)
	start=$(date -u -d "$(sed -n 's/^Time: \(.*\) UTC$/\1/p' <<<"$raw")" +%s%N)
	echo "$start $(awk -v start="$start" '$1 == "Duration:" {printf "%.0f", start + $2 * 1e9}' <<<"$raw")"
}
test_churn() { # RATE MS EVENTS COLUMN PER-MILLE
	begin_attach
	start "$LAB/bin/churn" "$1" "$2" 9 "$ROW/cpu"
	"${ATTACH[@]}" "$TARGET" --events "$3" --duration 5s >path 2>said || fail "exit status $?: $(cat said)"
	wait "$TARGET" || fail "the program: $(cat target.out)"
	local used total
	used=$(used_between cpu "$4" $(span_of "$(cat path)"))
	total=$(folded_of churn | awk '{sum += $NF} END {printf "%.0f", sum}')
	echo "used $used ns, in the profile $total ns"
	((used > 1000000000 && 1000 * total > (1000 - $5) * used && 1000 * total < (1000 + $5) * used)) || fail "not within $5 in 1000"
	[[ $(comments_of churn) == *"attached to twice and then once"* ]] || echo "nobody was attached to twice this time"
	end_run
}
# What is missing and not said, half a percent at most, is the closer bound of the first row.
row "100 threads a second begin and end: the CPU time is right" test_churn 100 8 cpu@999 2 15
row "100 threads a second that end before their first sample: the CPU time is right" test_churn 100 5 cpu@99 2 30
# Some 5 to 20 us of a thread's beginning and end are no event's: of 1 ms that is too much for the process's own account.
row "1000 threads a second: the CPU time is right" test_churn 1000 1 cpu@1999 3 30
test_renamed() { # by another thread of the process: that says nothing of who carries the event either
	begin_attach
	start taskset -c 1 python3 -c '
import threading, time
def work():
    while True: sum(range(1000))
t = threading.Thread(target=work, daemon=True)
t.start()
path = "/proc/self/task/%d/comm" % t.native_id
for i in range(1000):
    time.sleep(0.02)
    with open(path, "w") as f: f.write("worker-%d" % (i % 3))'
	until_true 20 eval 'grep -qsx "worker-[0-2]" /proc/$TARGET/task/*/comm' || fail "it has not begun: $(cat target.out)"
	local total used
	attach_until 'used=$(($(cpu_ms) - AT_MS)) && ((used >= 500))' --events cpu@499
	total=$(folded_of python3 | awk '{sum += $NF} END {printf "%d", sum / 1e6}')
	((total >= used * 9 / 10)) || fail "$total ms of $used: $(comments_of python3)"
	is "its names" "$(tags_of python3 thread | grep -c '^worker-[012]$')" 3
	end_target
	end_run
}
row "a thread that another one renames stays in the profile" test_renamed

test_count() { # a fixed period, on one CPU: every Nth event is a sample
	begin_attach
	start taskset -c 1 python3 -c '
import mmap, resource, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
m = mmap.mmap(-1, 4000 * 4096)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for i in range(4000): m[i * 4096] = 1
after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(after - before, flush=True)
signal.sigwait([signal.SIGUSR1])'
	until_true 10 grep -qs ready target.out || fail "it does not run"
	"${ATTACH[@]}" "$TARGET" --events page-faults/100 >path 2>said &
	until_true 10 grep -qs attached said || fail "not attached: $(cat said)"
	kill -USR1 "$TARGET"
	until_true 20 eval '(($(wc -l <target.out) > 1))' || fail "it does not use its memory: $(cat target.out)"
	kill -USR1 "$TARGET"
	wait
	local samples
	samples=$(go tool pprof -sample_index=samples -raw "$(cat path)" 2>/dev/null | awk '/^Samples:/ {on = 1; next}
		/^Locations/ {on = 0} on && match($0, /^ *[0-9]+ +[0-9]+: /) {n += $1} END {print n + 0}')
	local faults
	faults=$(tail -n 1 target.out)
	echo "$samples samples of $faults faults and a few"
	((samples * 100 >= faults - 100 && samples * 100 <= faults + 300)) || fail "it is not one of a hundred"
	end_run
}
# THP would make one fault of 512 pages; a mapping of this size at an odd place has none
row "every hundredth page fault is a sample" test_count

# --- containers

# The lab's engines have storage of their own: whoever calls "podman" there means that one.
lab_engine() { # RUNTIME
	local engine=runc
	mkdir -p engines
	[[ $1 != podman-* ]] || engine=podman
	case $engine in
	podman) echo "exec $(command -v podman) --root $LAB/podman/root --runroot $LAB/podman/run --tmpdir $LAB/podman/tmp" ;;
	runc) echo "exec $(command -v runc) --root $LAB/runc-state" ;;
	esac | sed '1i #!/bin/sh' | sed 's/^exec .*/& "$@"/' >engines/$engine
	chmod 755 engines/$engine
	PATH=$ROW/engines:$PATH
}
container() { # RUNTIME [OPTION...] -- PROGRAM... - sets NAME TARGET
	NAME=att$RANDOM
	ct_need "$1"
	ct_start "$1" "$NAME" "${@:2}"
	lab_engine "$1"
	TARGET=$(ct_pid "$NAME")
	until_true 10 runs_itself || fail "it does not begin"
}
end_container() {
	ct_stop "$NAME"
	wait
	ct_rm "$NAME"
	end_run
}
pids_of() { tags_of "$1" pid | sort -n | tr '\n' ' '; }

# A container and what was started in it later: both by what it is called, the first by its pid.
test_container() { # RUNTIME STRATEGY name|pid [ATTACH]
	begin_attach --attach "${4-auto}"
	container "$1" -- "$LAB/bin/threads" 2 60
	ct_exec "$NAME" -- "$LAB/bin/burn" 60 &
	until_true 10 eval '[[ -n $(find /proc/[0-9]*/exe -lname "$LAB/bin/burn" 2>/dev/null) ]]' || fail "nothing was started in it"
	local what=$NAME seen=$NAME
	[[ $3 == name ]] || what=$TARGET seen=threads
	"${ATTACH[@]}" "$what" --duration 2s >path 2>said || fail "exit status $?: $(cat said run/log)"
	has "what it says" "$(comments_of "$seen")" "strategy $2,"
	(($(folded_of "$seen" | share 'thread_work|burn_loop') >= 90)) || fail "not 90 %: $(folded_of "$seen")"
	has "pids" "$(pids_of "$seen")" '^1 '
	local burns=1
	[[ $3 == name ]] || burns=0
	is "whether a later program is in it" "$(tags_of "$seen" exe | { grep -cx burn || :; })" $burns
	end_container
}
row "podman + runc, by name: its cgroup" test_container podman-runc cgroup name
row "runc, by id: its cgroup" test_container runc cgroup name
row "podman + runc, by name, --attach process: all its threads" test_container podman-runc threads name process
row "podman + runc, by pid: the process and no more" test_container podman-runc threads pid

test_pid_cgroup() {
	begin_attach --attach cgroup
	container runc -- "$LAB/bin/threads" 1 60
	"${ATTACH[@]}" "$TARGET" --duration 1s >path 2>said || fail "exit status $?: $(cat said)"
	has "what it says" "$(comments_of threads)" "strategy cgroup,"
	"${ATTACH[@]}" $$ --duration 1s >path 2>said && fail "our own cgroup was attached to: $(cat said)"
	has "stderr" "$(cat said)" 'not by cgroup|has no cgroup of its own|also holds other processes'
	end_container
}
row "by pid, --attach cgroup: its whole cgroup, and never that of our own programs" test_pid_cgroup

test_ends() { # it ends while it is attached to; names survive it
	begin_attach
	container podman-runc -- "$LAB/bin/burn" 3
	"${ATTACH[@]}" "$NAME" >path 2>said || fail "exit status $?: $(cat said)"
	(($(folded_of "$NAME" | share 'burn_loop') >= 90)) || fail "not 90 %: $(folded_of "$NAME")"
	end_container
}
row "a container that ends: the profile is complete" test_ends

# --- letting go

test_stopped() { # SIGNAL
	begin_attach
	start "$LAB/bin/sigcount" 60 all
	until_true 10 grep -qs ready target.out || fail "it does not run"
	env --default-signal=INT,HUP "${ATTACH[@]}" "$TARGET" >path 2>said &
	local attach=$! profiler
	until_true 10 grep -qs attached said || fail "not attached: $(cat said)"
	profiler=$(profilers)
	sleep 0.5
	kill "-$1" $attach
	if [[ $1 == KILL ]]; then
		wait $attach || :
	else
		wait $attach || fail "exit status $? after SIG$1: $(cat said)"
		[[ -s $(cat path) ]] || fail "no profile"
	fi
	until_true 10 no_profiler || fail "pilliond $profiler is left"
	written sigcount || fail "no profile after SIG$1"
	[[ -e /proc/$TARGET ]] || fail "the program is gone"
	kill -TERM "$TARGET"
	wait "$TARGET" || :
	# nobody was left to remove it: the next session does
	[[ $1 != KILL ]] || cgroups_remove "*/pillion/session-pid-$TARGET@*"
	is "the signals that it had" "$(grep -v '^signal 15 ' target.out | tr '\n' ' ')" "ready signals 1 waitpid ECHILD "
	end_run
}
row "Ctrl-C ends it, and not the program" test_stopped INT
row "SIGTERM ends it" test_stopped TERM
row "a closed terminal ends it" test_stopped HUP
row "kill -9: the profile is written all the same" test_stopped KILL
test_nohup() { # what is ignored stays ignored
	begin_attach
	start "$LAB/bin/burn" 3
	env --ignore-signal=HUP --ignore-signal=INT "${ATTACH[@]}" "$TARGET" >path 2>said &
	local attach=$!
	until_true 10 grep -qs attached said || fail "not attached: $(cat said)"
	kill -HUP $attach
	kill -INT $attach
	sleep 0.5
	[[ -e /proc/$attach ]] || fail "it has ended: $(cat said)"
	wait $attach || fail "exit status $?"
	end_target
	end_run
}
row "under nohup it goes on" test_nohup

test_unchanged() { # nothing of the target's is other than before, during and after
	begin_attach
	start "${NOBODY[@]}" sleep 60
	until_true 10 grep -q '^State:.S' "/proc/$TARGET/status" || fail "it does not sleep"
	local at
	look() {
		grep -vE '^(voluntary|nonvoluntary)_ctxt|^Vm|^Rss|^Hugetlb' "/proc/$TARGET/status"
		cat "/proc/$TARGET/"{limits,cgroup,environ,mountinfo,oom_score_adj,timerslack_ns} | tr '\0' '\n'
		find "/proc/$TARGET/fd" -printf '%f %l\n' | sort
		find "/proc/$TARGET/ns" -printf '%f %l\n' | sort
	}
	look >before
	"${ATTACH[@]}" "$TARGET" --duration 1s >path 2>said &
	until_true 10 grep -qs attached said || fail "not attached: $(cat said)"
	look >during
	wait $! || [[ $? == 1 ]] || fail "exit status $?"
	look >after
	for at in during after; do diff before $at || fail "$at: it is not what it was"; done
	has "of a program that does nothing" "$(cat said)" 'it used no CPU time|samples of sleep'
	end_target
	end_run
}
row "nothing about the program changes" test_unchanged

test_profiler_killed() {
	begin_attach
	start "$LAB/bin/burn" 30
	"${ATTACH[@]}" "$TARGET" >path 2>said &
	local attach=$!
	until_true 10 grep -qs attached said || fail "not attached: $(cat said)"
	kill -KILL $(profilers)
	wait $attach && fail "exit status 0"
	has "stderr" "$(cat said)" 'the profiler of burn is gone'
	[[ -e /proc/$TARGET ]] || fail "the program is gone"
	end_target
	end_run
}
row "the profiler is killed: it says so, the program runs on" test_profiler_killed

# --- mistakes and refusals

test_refused() { # STATUS STDERR-REGEX WHO TARGET-OR-WORD [OPTION...]
	local status=$1 says=$2 who=$3 what=$4
	shift 4
	begin_attach
	start "$LAB/bin/threads" 1 30
	local self=${AS_ROOT[*]}
	[[ $who == root ]] || self=${NOBODY[*]}
	case $what in
	TARGET) what=$TARGET ;;
	THREAD) until_true 10 has_threads 1 && what=$(ls "/proc/$TARGET/task" | grep -vx "$TARGET" | sed -n 1p) ;;
	esac
	is "the exit status" "$(status_of $self "${ATTACH[@]}" "$@" $what 2>said)" "$status"
	has "stderr" "$(cat said)" "^pillion attach: $says\$"
	is "lines on stderr" "$(wc -l <said)" 1
	end_target
	end_run
}
row "no such process" test_refused 3 'there is no process 4194303' root 4194303
row "a thread" test_refused 2 '[0-9]+ is a thread of process [0-9]+: attach to that' root THREAD
row "no such container" test_refused 3 'no container "no-such" \((asked .*|no engine is installed)\): give a name, an id or a pid' root no-such
test_slow_engine() {
	mkdir engines
	printf '#!/bin/sh\nexec sleep 60\n' >engines/podman
	chmod 755 engines/podman
	PATH=$ROW/engines:$PATH test_refused 1 'no container "no-such" yet, and no more time: podman takes long to answer; give a pid, or try again' root no-such
}
row "an engine that does not answer: who, and the way out" test_slow_engine
test_other_engine() { # that knows it
	local began=${EPOCHREALTIME/./}
	mkdir engines
	printf '#!/bin/sh\nexec sleep 60\n' >engines/podman
	begin_attach
	start "$LAB/bin/burn" 30
	printf '#!/bin/sh\necho "{\\"id\\": \\"$2\\", \\"pid\\": %d, \\"status\\": \\"running\\"}"\n' "$TARGET" >engines/runc
	chmod 755 engines/*
	PATH=$ROW/engines:$PATH "${ATTACH[@]}" c1 --duration 1s >path 2>said || fail "exit status $?: $(cat said)"
	[[ -s $(cat path) ]] || fail "no profile: $(cat said)"
	(((${EPOCHREALTIME/./} - began) / 1000 < 30000)) || fail "it was held up"
	[[ -z $(pgrep -f "$ROW/engines" || :) ]] || fail "the engine that hangs was left behind"
	end_target
	end_run
}
row "an engine that does not answer, and another one that knows it" test_other_engine
row "nothing to attach to" test_refused 2 "give one process or container; see 'pillion help attach'" root ""
row "two things to attach to" test_refused 2 "give one process or container; see 'pillion help attach'" root "1 2"
row "an unknown option behind it" test_refused 2 'no such option: --widnow=1; is --window meant[?]' root "no-such --widnow=1"
row "an unknown option" test_refused 2 'no such option: --widnow; is --window meant[?]' root TARGET --widnow
row "a bad duration" test_refused 2 '--duration: "soon" is not 1s to 3650d' root TARGET --duration soon
row "an unknown event" test_refused 1 'cannot attach to threads \(pid [0-9]+\): events, column 1: .*' root TARGET --events no-such
row "no daemon" test_refused 1 'cannot attach to threads .*: cannot start a session: cannot run /no/such: No such file or directory' \
	root TARGET --daemon /no/such
row "somebody else's process" test_refused 1 'cannot attach to threads .*(refused|perf_event_paranoid|Permission|CAP_PERFMON).*' user TARGET

test_no_opener() {
	begin_attach
	start "$LAB/bin/burn" 30
	mkdir lone
	cp "$LAB/bin/pilliond" lone/
	is "the exit status" "$(status_of "${ATTACH[@]}" --daemon "$ROW/lone/pilliond" "$TARGET" 2>said)" 1
	has "stderr" "$(cat said)" "cannot run $ROW/lone/pillion-opener: No such file or directory"
	end_target
	end_run
}
row "no opener beside the daemon" test_no_opener

test_few_descriptors() { # a profiler that has no room for all threads says how many are missing
	begin_attach
	start "$LAB/bin/threads" 60 30
	until_true 10 has_threads 60 || fail "it has no threads"
	(ulimit -n 180 && "${ATTACH[@]}" "$TARGET" --duration 1s >path 2>said) || fail "exit status $?: $(cat said)"
	has "what it says" "$(comments_of threads)" 'of [0-9]+ threads not attached to: the profiler has descriptors for no more'
	end_target
	end_run
}
row "too few descriptors for all threads" test_few_descriptors

# --- a hostile container

# Root in there, with the capabilities that podman gives, who does what it can to every process that shows up.
cat >"$LAB/bin/hostile" <<'PYTHON'
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
own = {os.getpid()}
got, seen = [], 0
def attempt(what, fn):
    try:
        r = fn()
    except OSError:
        return
    if r not in (None, -1, b"", "", []):
        got.append(what + " " + repr(r)[:80])
end = time.monotonic() + 60
print("ready", flush=True)
while time.monotonic() < end and not os.path.exists(sys.argv[1]):
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) in own:
            continue
        p = "/proc/" + pid
        seen += 1
        attempt("exe", lambda: os.readlink(p + "/exe"))
        attempt("exe opened", lambda: os.open(p + "/exe", os.O_RDONLY))
        attempt("exe written", lambda: os.open(p + "/exe", os.O_WRONLY))
        attempt("mem", lambda: os.open(p + "/mem", os.O_RDWR))
        attempt("environ", lambda: open(p + "/environ", "rb").read())
        attempt("maps", lambda: open(p + "/maps").read())
        attempt("fds", lambda: [os.readlink(p + "/fd/" + n) for n in os.listdir(p + "/fd")]) # their numbers root sees
        attempt("root", lambda: os.listdir(p + "/root"))
        attempt("cwd", lambda: os.readlink(p + "/cwd"))
        attempt("ptrace", lambda: "attached" if libc.ptrace(16, int(pid), 0, 0) == 0 else None)
        if len(sys.argv) > 2:
            attempt("kill", lambda: os.kill(int(pid), signal.SIGKILL))
print("seen", seen, "got", sorted(set(got)), flush=True)
PYTHON

test_hostile() { # [kill]
	begin_attach --attach process
	mkdir shared
	container podman-runc -v "$ROW/shared:/mnt" -- python3 "$LAB/bin/hostile" /mnt/over "$@"
	until_true 10 grep -qs ready "$LAB/ct/$NAME/log" || fail "it does not run: $(ct_output "$NAME")"
	local i armed=0 status
	for i in 1 2 3 4; do
		status=$(status_of "${ATTACH[@]}" "$NAME" --duration 1s 2>said.$i)
		if [[ $status == 0 ]]; then
			((++armed))
		else
			has "stderr" "$(cat said.$i)" 'the opener ended without a word: was it killed\?$'
		fi
	done
	touch shared/over
	ct_wait "$NAME" 30
	local log
	log=$(cat "$LAB/ct/$NAME/log")
	has "what it got" "$log" "seen [1-9][0-9]* got \[\]"
	echo "armed $armed times of 4; $log"
	[[ -n ${1-} ]] || is "times attached" $armed 4
	[[ -n ${1-} ]] || has "the profile" "$(folded_of "$NAME")" 'python'
	end_container
}
row "a hostile root in the container gets nothing of the opener" test_hostile
row "a hostile root in the container kills: no profile, and nothing else" test_hostile kill
