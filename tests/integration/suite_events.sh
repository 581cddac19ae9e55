# suite_events - what can be sampled: the list of it, counts that agree with perf's, and events that are not to be had.

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener targets/counted

EVENTS=("$LAB/bin/pillion" events)

# --- the list

works() { jq -r --arg name "$1" '.[] | select(.name == $name) | .works' list; }
why() { jq -r --arg name "$1" '.[] | select(.name == $name) | .why // ""' list; }
lacks() { # EVENT REGEX
	is "$1" "$(works "$1")" no
	has "why there is no $1" "$(why "$1")" "$2"
}
test_list() { # WORKS-OF-SWITCHES WORKS-OF-CPU WHO...
	need jq
	chmod 755 "$LAB"
	"${@:3}" "${EVENTS[@]}" --json >list || fail "exit status $?"
	is "events" "$(jq -r '.[].name' list | sort -u | wc -l)" "$(jq length list)"
	is "cpu" "$(works cpu)" "$2"
	is "context-switches" "$(works context-switches)" "$1"
	is "offcpu" "$(works offcpu)" "${1/no/approximate}"
	[[ -e /sys/bus/event_source/devices/cpu ]] || lacks cycles 'perf_event_open: this machine has no such counter'
	[[ -e /sys/bus/event_source/devices/kprobe ]] || lacks kprobe 'this kernel has no kprobes \(CONFIG_KPROBE_EVENTS\)'
	[[ $1 == yes ]] || has "why" "$(why context-switches)" 'perf_event_paranoid is [0-9]+ and this process has no CAP_PERFMON'
	"${@:3}" "${EVENTS[@]}" >table || fail "exit status $?"
	is "lines" "$(grep -cE '^[a-zA-Z0-9-]+ +([@/][0-9]|all )' table)" "$(jq length list)"
	has "cpu" "$(cat table)" "cpu +@99 +$2( \\([0-9]\\))? +CPU time"
	is "reasons" "$(grep -c '^([0-9]*) ' table)" "$(jq -r '[.[].why | select(.)] | unique | length' list)"
}
paranoid() { cat /proc/sys/kernel/perf_event_paranoid; }
test_list_user() {
	[[ $(paranoid) == 2 ]] || skip "perf_event_paranoid is $(paranoid), not 2"
	test_list no "user code only" "${NOBODY[@]}"
}
row "root: the list, and what works" test_list yes yes "${AS_ROOT[@]}"
row "plain user: the list, and why the kernel's part does not work" test_list_user
test_list_mistakes() {
	is "an argument too many" "$(status_of "${EVENTS[@]}" cpu 2>said)" 2
	has "stderr" "$(cat said)" "it takes no argument, so 'cpu' is one too many"
}
row "the list: mistakes" test_list_mistakes

# --- counts

profile_of() { # NAME EVENT
	local list
	first_of "$1" >/dev/null
	list=$(profiles_of "$1" | grep -- "-$2.pb.gz") || fail "no profile of $2: $(profiles_of "$1")"
	echo "$list"
}
counted_of() { # NAME EVENT [REGEX] - of the process `counted`; of all, also what its threads did behind their last sample
	"$LAB/bin/pillion" report --folded "$(profile_of "$1" "$2")" |
		awk -v re="^counted;(.*;)?${3-}" -v all="${3-1}" '
			$0 ~ re || (all == 1 && /\[unsampled\]/) { sum += $NF } END { printf "%.0f", sum }'
}
lost_of() { # NAME EVENT - samples of anybody's for which a ring had no room, by the kernel's count of them
	"$LAB/bin/pillion" report --folded "$(profile_of "$1" "$2")" | awk '/\[lost\]/ { sum += $NF } END { printf "%.0f", sum }'
}
# What has a stack is within PERCENT of what was wanted, but for samples that were lost.
near_but_lost() { # WHAT EVENT GOT WANTED PERCENT [NAME]
	local lost
	lost=$(lost_of "${6:-counted}" "$2")
	awk -v g="$3" -v w="$4" -v p="$5" -v l="$lost" 'BEGIN { s = w * p / 100; exit !(g - w <= s && w - g <= s + l) }' ||
		fail "$1: $3, not $4 within $5 %, $lost lost"
}
counted_by_perf() { awk -F, -v e="$1" '$3 == e { print $1 }' perf.txt; }
# perf counts the program, and pillion both; perf's own are another process. All samples must have room in the rings:
# those of whole stacks have it for some thousand a second.
test_counts() { # PERCENT STACKS US SWITCHES/PERIOD FAULTS/PERIOD
	local percent=$1 switches=${4%/*} faults=${5%/*}
	need perf
	begin_run --events "$4,$5" --stacks "$2"
	"${RUN[@]}" -- perf stat -x, -o perf.txt -e "$switches,$faults" -- "$LAB/bin/counted" 2000 20000 "$3" >counted.out
	cat perf.txt counted.out
	near_but_lost "$switches" "$switches" "$(counted_of perf "$switches")" "$(counted_by_perf "$switches")" "$percent" perf
	near_but_lost "$faults" "$faults" "$(counted_of perf "$faults")" "$(counted_by_perf "$faults")" "$percent" perf
	near_but_lost "$faults in counted_touch" "$faults" "$(counted_of perf "$faults" 'counted_touch')" 20000 "$((percent + 1))" perf
	[[ $2 == fp ]] || # libc has no frame pointers
		near_but_lost "$switches in counted_sleep" "$switches" "$(counted_of perf "$switches" 'counted_sleep;.*nanosleep')" 2000 \
			$((percent + 12)) perf # of two hundred
	end_run
}
row "context switches and page faults, each a sample: perf stat's counts" test_counts 1 fp 100 context-switches/1 page-faults/1
row "context switches and minor faults, one in ten a sample: perf stat's counts" \
	test_counts 3 dwarf 1000 context-switches/10 minor-faults/10

# A switch belongs to who goes, though the kernel is on its way to another cgroup by then. Below what a target may bring
# (target_rate): beyond it the counts are estimates.
test_container() { # STRATEGY
	local switches faults
	begin_service
	ct_need runc
	ct_start runc c1 -a "$NAMES=context-switches/1,page-faults/10" -a io.pillion.stacks=fp -a io.pillion.attach="$1" \
		-v "$ROW:$ROW" -- sh -c "$LAB/bin/counted 2000 20000 1000 >$ROW/counted.out; exec $LAB/bin/sleeper"
	until_true 20 grep -qs faults counted.out || fail "it does not end: $(of c1 .state)"
	is "the strategy" "$(of c1 .strategy)" "$1"
	ct_stop c1
	until_true 10 lists 0 || fail "it is $(of c1 .state)"
	ct_rm c1
	cat counted.out
	read -r _ switches _ faults <counted.out
	near_but_lost "context-switches" context-switches "$(counted_of c1 context-switches)" "$switches" 1 c1
	near_but_lost "page-faults" page-faults "$(counted_of c1 page-faults)" "$faults" 2 c1
	end_service
}
row "a container by its cgroup: its own account" test_container cgroup
row "a container by its processes: its own account" test_container process

# --- tracepoints: how many there were, and the sum of a field of theirs

in_tracefs() { # COMMAND... - where nobody has mounted it, with it
	if [[ -r /sys/kernel/tracing/events/sched/sched_switch/id ]]; then
		"$@"
	else
		unshare --mount --propagation private sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh "$@"
	fi
}
SLEEPS=syscalls:sys_enter_clock_nanosleep READ=syscalls:sys_exit_read.ret NO_FIELD=syscalls:sys_exit_write.no
read_of() { # NAME - bytes that dd has read
	"$LAB/bin/pillion" report --folded "$(profile_of "$1" "$(tr : _ <<<"$READ")")" |
		awk '/^dd;/ { sum += $NF } END { printf "%.0f", sum }'
}
has_syscalls() { in_tracefs test -r /sys/kernel/tracing/events/syscalls/sys_exit_read/id; }
# perf counts the program and pillion both. What is not to be had is left out, each with its reason.
test_tracepoints() { # PERIOD PERCENT
	need perf
	has_syscalls || skip "this kernel has no tracepoints of system calls"
	begin_run --stacks fp --events "tracepoint:$SLEEPS/$1,tracepoint:$READ:stacks=none/$1,tracepoint:no:such,tracepoint:$NO_FIELD"
	in_tracefs "${RUN[@]}" -- perf stat -x, -o perf.txt -e "$SLEEPS" -- sh -c \
		"$LAB/bin/counted 2000 10 200; dd if=/dev/zero of=/dev/null bs=1000 count=20000 2>&1" >counted.out
	cat perf.txt counted.out
	near "sleeps, by perf" "$(counted_by_perf $SLEEPS)" 2000 1
	near_but_lost "sleeps" "$(tr : _ <<<$SLEEPS)" "$(counted_of perf "$(tr : _ <<<$SLEEPS)")" 2000 "$2" perf
	near_but_lost "bytes read" "$(tr : _ <<<"$READ")" "$(read_of perf)" 20000000 "$2" perf
	has "a comment" "$(comments_of perf)" 'left out: there is no tracepoint no:such in this kernel'
	has "a comment" "$(comments_of perf)" "left out: tracepoint $NO_FIELD: it has no field no; those that are numbers: .*ret"
	end_run
}
row "tracepoints, each a sample: as many as perf stat counts, and a field's sum" test_tracepoints 1 1
row "tracepoints, one in ten a sample: as many as perf stat counts, and a field's sum" test_tracepoints 10 3
test_tracepoints_of_container() {
	has_syscalls || skip "this kernel has no tracepoints of system calls"
	begin_service
	echo "tracepoints = yes" >"$ROW/etc/policy.conf"
	ct_need runc
	printf '#!/bin/bash\n%s\nin_tracefs %q "$@"\n' "$(declare -f in_tracefs)" "${HOOK_ARGS[0]}" >"$ROW/hook"
	chmod +x "$ROW/hook"
	HOOK_ARGS[0]=$ROW/hook
	ct_start runc c1 -a "$NAMES=tracepoint:$SLEEPS,tracepoint:$READ:stacks=none,tracepoint:sched:sched_process_exec.filename" -v "$ROW:$ROW" -- sh -c \
		"$LAB/bin/counted 2000 10 1000; dd if=/dev/zero of=/dev/null bs=1000 count=2000; echo >$ROW/done; exec $LAB/bin/sleeper"
	until_true 20 test -e done || fail "it does not end: $(of c1 .state)"
	ct_stop c1
	until_true 10 lists 0 || fail "it is $(of c1 .state)"
	ct_rm c1
	comments_of c1
	near_but_lost "sleeps" "$(tr : _ <<<$SLEEPS)" "$(counted_of c1 "$(tr : _ <<<$SLEEPS)")" 2000 1 c1
	near_but_lost "bytes read" "$(tr : _ <<<"$READ")" "$(read_of c1)" 2000000 1 c1
	has "a comment" "$(comments_of c1)" 'its field filename is no number but "__data_loc char\[\] filename"'
	end_service
}
row "a container's tracepoints: as many as there were, and a field's sum" test_tracepoints_of_container
test_no_tracefs() {
	begin_run --events "tracepoint:sched:sched_switch,cpu@499,tracepoint:sched:sched_wakeup"
	unshare --mount --propagation private sh -c 'umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null
		mount -t tmpfs none /sys/kernel/debug; exec "$@"' sh "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said
	has "stderr" "$(cat said)" '^pillion run: left out: tracepoint sched:sched_switch: tracefs is not mounted'
	has "a comment" "$(comments_of burn)" \
		'left out: tracepoint sched:sched_switch: tracefs is not mounted: mount -t tracefs none /sys/kernel/tracing'
	is "profiles" "$(profiles_of burn | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	end_run
}
row "tracefs is not mounted: the other events run, and the profile says so" test_no_tracefs
test_tracefs_elsewhere() {
	begin_run --events "tracepoint:sched:sched_switch:stacks=none"
	mkdir elsewhere
	unshare --mount --propagation private sh -c 'umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null
		mount -t tracefs none elsewhere; exec "$@"' sh "${RUN[@]}" -- "$LAB/bin/counted" 100 10 >counted.out 2>said
	is "stderr" "$(cat said)" ""
	(($(counted_of counted sched_sched_switch) >= 100)) || fail "$(counted_of counted sched_sched_switch) switches of 100"
	end_run
}
row "tracefs is mounted at a place of its own" test_tracefs_elsewhere
test_tracefs_of_root() {
	begin_run --events "tracepoint:sched:sched_switch,cpu@499"
	in_tracefs "${NOBODY[@]}" "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said
	has "stderr" "$(cat said)" '^pillion run: left out: tracepoint sched:sched_switch: tracefs is for root only on this host$'
	has "a comment" "$(comments_of burn)" 'left out: tracepoint sched:sched_switch: tracefs is for root only on this host'
	is "profiles" "$(profiles_of burn | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	end_run
}
row "plain user: tracefs that he may not read, and the other events run" test_tracefs_of_root

# --- names of the kernel's functions, and of threads

test_kallsyms() {
	begin_run --events "cpu@499"
	sed "s/^[0-9a-f]*/0000000000000000/" /proc/kallsyms >zeros
	unshare --mount --propagation private sh -c 'mount --bind zeros /proc/kallsyms && exec "$@"' sh "${RUN[@]}" -- \
		sh -c 'dd if=/dev/zero of=/dev/null bs=1 count=400000 2>/dev/null'
	has "a comment" "$(comments_of sh)" "functions of the kernel have no names, \[kernel\] alone: kernel addresses are hidden \\(kernel.kptr_restrict, or no CAP_SYSLOG\\)"
	(($("$LAB/bin/pillion" report --folded "$(profile_of sh cpu)" | grep -c ';\[kernel\]') > 0)) || fail "no frame [kernel]"
	end_run
}
row "kallsyms is hidden: frames [kernel] alone, and the profile says why" test_kallsyms
test_thread_names() {
	begin_run --events "cpu@499"
	cat >names.py <<-'EOF'
		import ctypes, threading, time
		def work():
		    ctypes.CDLL(None).prctl(15, b"a\nb\xff\"c")
		    end = time.thread_time() + 0.3
		    while time.thread_time() < end: pass
		t = threading.Thread(target=work)
		t.start()
		t.join()
	EOF
	"${RUN[@]}" -- python3 names.py
	"$LAB/bin/pillion" report --folded --by thread "$(profile_of python3 cpu)" >folded
	is "lines that are no stack" "$(grep -cvE '^([^;]+;.*|\[unsampled\]) [0-9]+$' folded || :)" 0
	(($(grep -cE '^a.b[^;]*c;' folded || :) > 0)) || fail "no sample of the thread: $(cut -d';' -f1 folded | sort -u)"
	end_run
}
row "a thread whose name has a newline and no valid UTF-8" test_thread_names

# --- lists by name

test_preset() { # NAME PROFILE...
	local profile name=$1
	shift
	begin_run --events "$name"
	"${RUN[@]}" -- "$LAB/bin/counted" 100 20000 1000 >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	for profile in "$@"; do profile_of counted "$profile" >/dev/null; done
	end_run
}
row "what is called latency" test_preset latency cpu offcpu
row "what is called memory" test_preset memory page-faults
row "what is called all" test_preset all cpu offcpu page-faults

# --- an event's own stacks, and user or kernel code alone

test_own_ways() {
	begin_run --events "page-faults:user:stacks=fp/1,cpu:stacks=none@499,minor-faults:kernel:stacks=fp/1"
	"${RUN[@]}" -- "$LAB/bin/counted" 10 20000 100 >counted.out
	near_but_lost "faults of user code" page-faults "$(counted_of counted page-faults)" 20000 3
	near_but_lost "faults in counted_touch" page-faults "$(counted_of counted page-faults counted_touch)" 20000 2
	(($(counted_of counted minor-faults 'counted_touch' no) == 0)) || fail "of kernel code: $(counted_of counted minor-faults counted_touch no)"
	(($(counted_of counted minor-faults) > 0)) || fail "no fault of kernel code, which begins programs"
	is "cpu: frames of the program" "$("$LAB/bin/pillion" report --folded "$(profile_of counted cpu)" | grep -c ';main' || :)" 0
	end_run
}
row "an event has stacks of its own, and is counted in user or in kernel code alone" test_own_ways
test_kernel_refused() {
	[[ $(paranoid) == 2 ]] || skip "perf_event_paranoid is $(paranoid), not 2"
	begin_run --events "page-faults:kernel,cpu@499"
	"${NOBODY[@]}" "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	has "a comment" "$(comments_of burn)" 'left out: page-faults: kernel.perf_event_paranoid is 2'
	is "profiles" "$(profiles_of burn | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	end_run
}
row "plain user: what is asked of kernel code alone is left out" test_kernel_refused

# --- labels that are to be had for the asking

values_of() { # NAME EVENT LABEL - one a line, of samples of the program `burn`
	"$LAB/bin/pillion" report --folded --by "$3" "$(profile_of "$1" "$2")" | awk -F';' '/;burn_loop/ { print $1 }' | sort -u
}
samples_of() { # NAME EVENT - of the program `burn`
	"$LAB/bin/pillion" report --folded --type samples "$(profile_of "$1" "$2")" | awk '/;burn_loop/ { n += $NF } END { print n + 0 }'
}
# One thread is sampled: each of its samples has a time that no other one has. In MAKING it was made.
has_times() { # NAME EVENT MADE-FROM MADE-TO
	local times
	(($(samples_of "$1" "$2") > 0)) || fail "no sample of $1"
	times=$(values_of "$1" "$2" timestamp)
	is "times of its samples" "$(grep -c '^[0-9]*$' <<<"$times")" "$(samples_of "$1" "$2")"
	awk -v began="$3" -v ended="$4" '$1 < began || $1 > ended' <<<"$times" | { ! grep -q .; } || fail "a time is outside of the run: $3, $times, $4"
}
test_no_detail() {
	begin_run --events cpu@499
	"${RUN[@]}" -- "$LAB/bin/burn" 0.1 >/dev/null
	(($(samples_of burn cpu) > 0)) || fail "no sample"
	is "times" "$(values_of burn cpu timestamp | grep -c '^[0-9]' || :)" 0
	is "CPUs" "$(values_of burn cpu cpu | grep -c '^[0-9]' || :)" 0
	end_run
}
row "no sample has a CPU or a time where nobody asks" test_no_detail
test_detail() {
	begin_run --events cpu@499,page-faults/1 --detail cpu,time
	local began ended
	began=$(date +%s%N)
	taskset -c 1 "${RUN[@]}" -- "$LAB/bin/burn" 0.2 >/dev/null
	ended=$(date +%s%N)
	is "CPUs" "$(values_of burn cpu cpu)" 1
	has_times burn cpu "$began" "$ended"
	end_run
}
row "each sample has its CPU and its time, where that is asked for" test_detail
# Its first faults fill three quarters of a ring within the moment in which records are too young to be read.
test_burst() {
	local i lost
	begin_run --events cpu@499,page-faults/1
	for i in {1..4}; do
		rm -rf out/burn
		taskset -c 1 "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null
		lost=$("$LAB/bin/pillion" report --folded "$(profile_of burn cpu)" | awk '/\[lost\]/ { n += $NF } END { printf "%d", n / 1e6 }')
		((lost <= 50)) || fail "$lost of 500 ms are lost"
	done
	end_run
}
row "a burst as the program begins: what comes behind it is not lost" test_burst
# A worker writes what it has counted into its journal once a second (profiler/target/checkpoint/checkpoint_write.h): one that has answered since, has written.
await_commit() { # NAME
	local age
	until_true 20 eval "((\$(of $1 .samples) > 0))" || fail "no sample: $(cat list.json)"
	age=$(of "$1" .age_ms)
	until_true 20 eval "((\$(of $1 .age_ms) > age + 1100))" || fail "it does not answer"
	of "$1" .age_ms >/dev/null
}
test_detail_of_container() {
	local began killed
	begin_service
	ct_need runc
	began=$(date +%s%N)
	ct_start runc c1 -a "$NAMES=cpu@499" -a io.pillion.detail=cgroup,time -- sh -c "$LAB/bin/burn 0.1; exec $LAB/bin/sleeper"
	await_commit c1
	killed=$(date +%s%N)
	kill -KILL "$(pgrep -P "$SERVICE" -x pilliond-worker)"
	until_true 10 says c1 .state started || fail "it is $(of c1 .state)"
	ct_stop c1
	until_true 10 lists 0 || fail "it is $(of c1 .state)"
	has "its cgroup" "$(values_of c1 cpu cgroup)" "^$LAB_CGROUP/.*c1"
	has_times c1 cpu "$began" "$killed"
	has "a comment" "$(comments_of c1)" 'the profiler was restarted 1 times'
	ct_rm c1
	end_service
}
row "a container's samples have their times, also behind a kill of the worker" test_detail_of_container

# --- uprobes: calls of a function of the container's

may_probe() { echo "uprobes = yes" >"$ROW/etc/policy.conf"; }
# perf counts its own probe, of the whole machine: nobody else calls that function.
probe_by_perf() { # FUNCTION
	local traced=()
	[[ -r /sys/kernel/tracing/uprobe_events ]] ||
		traced=(unshare --mount --propagation private sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh)
	"${traced[@]}" sh -c 'perf probe -q -x "$1" --add "probe_lab:$2=$2" && {
		perf stat -a -x, -o perf.txt -e "probe_lab:$2" -- sh -c "echo >counting; read -r over <enough"
		perf probe -q --del "probe_lab:$2"; }' sh "$LAB/bin/counted" "$1" >/dev/null 2>perf.err
}
# Where instructions of a function begin, behind the first one.
begins_of() { # PROGRAM FUNCTION
	objdump -d -w --no-show-raw-insn --disassemble="$2" "$LAB/bin/$1" | sed -n "s/^ *\\([0-9a-f]*\\):.*/0x\\1/p" |
		while read -r at; do echo $((at - $(nm "$LAB/bin/$1" | awk -v f="$2" '$3 == f { print "0x" $1 }'))); done | sed 1d
}
within_of() { begins_of "$@" | awk '$1 > last + 1 && !found++ { print $1 - 1 } { last = $1 }'; }
test_uprobes() {
	need perf
	begin_service
	may_probe
	ct_need runc
	local into
	into=$(begins_of counted counted_sleep | sed -n 1p)
	mkfifo enough
	probe_by_perf counted_sleep &
	local perf=$!
	until_true 20 test -e counting || skip "perf has no probe: $(cat perf.err)"
	ct_start runc c1 -a "$NAMES=uprobe:$LAB/bin/counted:counted_sleep,uprobe:$LAB/bin/counted:counted_touch/10,uprobe:$LAB/bin/counted:counted_sleep+$into:stacks=none/10,cpu" \
		-v "$ROW:$ROW" -- sh -c "$LAB/bin/counted 2000 20000 600 >$ROW/counted.out; exec $LAB/bin/sleeper"
	until_true 20 grep -qs faults counted.out || fail "it does not end: $(of c1 .state)"
	echo >enough
	is "the strategy" "$(of c1 .strategy)" cgroup
	ct_stop c1
	until_true 10 lists 0 || fail "it is $(of c1 .state)"
	ct_rm c1
	wait $perf
	cat perf.txt
	is "comments" "$(comments_of c1 | grep -E 'left out|not by')" ""
	near_but_lost "counted_sleep" counted_counted_sleep "$(counted_of c1 counted_counted_sleep 'main;counted_sleep')" 2000 1 c1
	near_but_lost "its second instruction" "counted_counted_sleep_$into" \
		"$(counted_of c1 "counted_counted_sleep_$into" counted_sleep)" 2000 1 c1
	is "perf stat's" "$(counted_by_perf probe_lab:counted_sleep)" 2000
	near_but_lost "counted_touch, every tenth" counted_counted_touch "$(counted_of c1 counted_counted_touch 'main;counted_touch')" 2000 1 c1
	has "its samples" "$("$LAB/bin/pillion" top "$(profile_of c1 counted_counted_sleep)")" '[0-9]+ counted:counted_sleep'
	end_service
}
row "uprobes in a container: as many calls as there were, and as perf stat counts" test_uprobes

probe_left_out() { # EVENTS REGEX
	ct_start runc c1 -a "$NAMES=$1" -v "$ROW:$ROW" -- sh -c "$LAB/bin/burn 0.1; echo done >$ROW/done; exec $LAB/bin/sleeper"
	until_true 20 test -e done || fail "it does not run"
	ct_stop c1
	until_true 10 lists 0 || fail "it is $(of c1 .state)"
	has "a comment" "$(comments_of c1)" "$2"
	is "profiles" "$(profiles_of c1 | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	ct_rm c1
	rm -rf done spool/c1
}
test_no_function() {
	begin_service
	may_probe
	ct_need runc
	probe_left_out "uprobe:$LAB/bin/burn:no_such,cpu@499" "left out: uprobe $LAB/bin/burn has no function no_such in its symbol"
	probe_left_out "cpu@499,uprobe:$LAB/bin/burn:burn_loop+$(within_of burn burn_loop)" \
		"left out: uprobe .*: no instruction of burn_loop begins at \\+[0-9]+: a breakpoint within one would break the program"
	probe_left_out "cpu@499,uprobe:$LAB/bin/burn:burn_loop+100000" "left out: uprobe .*: burn_loop is not that long, or"
	strip -o "$LAB/bin/bare" "$LAB/bin/burn"
	probe_left_out "cpu@499,uprobe:$LAB/bin/bare:burn_loop" "left out: uprobe $LAB/bin/bare has no function burn_loop in its symbol"
	probe_left_out "cpu@499,uprobe:/no/file:f" "left out: uprobe /no/file in the container: No such file"
	probe_left_out "cpu@499,uprobe:/../../proc/self/exe:main" "left out: uprobe .* is on another file system than the root"
	probe_left_out "cpu@499,uprobe:/etc/passwd:f" "left out: uprobe /etc/passwd is no 64-bit ELF program"
	end_service
}
row "uprobes that cannot be: the other events run, and the profile says why" test_no_function

# A process that inherits one could not fork: the kernel would open the child's anew, as the child's parent.
test_probe_of_run() {
	begin_run --events "cpu@499,uprobe:$LAB/bin/burn:burn_loop"
	"$@" "${RUN[@]}" -- sh -c "$LAB/bin/burn 0.3; $LAB/bin/burn 0.3" >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	has "a comment" "$(comments_of sh)" "left out: uprobe burn:burn_loop: for containers"
	is "profiles" "$(profiles_of sh | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	end_run
}
row "uprobes of a process: left out, and it forks" test_probe_of_run "${AS_ROOT[@]}"
row "plain user, uprobes of a process: left out, and it forks" test_probe_of_run "${NOBODY[@]}"

# --- what is not to be had

test_no_kprobes() { # here, or of that name
	begin_service
	echo "kprobes = yes" >"$ROW/etc/policy.conf"
	ct_need runc
	probe_left_out "kprobe:no_such_function,cpu@499,raw:r1c2" \
		"left out: kprobe no_such_function: this kernel has n(one \\(CONFIG_KPROBE_EVENTS|o such function)"
	end_service
}
row "a kprobe that cannot be: the other events run, and the profile says why" test_no_kprobes

HARDWARE=cycles
no_pmu() { [[ $("${EVENTS[@]}" --json | jq -r --arg name $HARDWARE '.[] | select(.name == $name) | .works') == no ]]; }
test_left_out() { # WHO...
	need jq
	no_pmu || skip "this machine counts $HARDWARE"
	begin_run --events "$HARDWARE,cpu@499"
	"$@" "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	has "a comment" "$(comments_of burn)" "left out: $HARDWARE: this machine has no such counter"
	is "profiles" "$(profiles_of burn | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	(($(folded_of burn | share 'burn_loop') >= 90)) || fail "burn_loop has not 90 %: $(folded_of burn | tail)"
	end_run
}
row "no such counter here: the other events run, and the profile says so" test_left_out "${AS_ROOT[@]}"
row "plain user, no such counter here: the other events run, and the profile says so" test_left_out "${NOBODY[@]}"
test_left_out_user() {
	[[ $(paranoid) == 2 ]] || skip "perf_event_paranoid is $(paranoid), not 2"
	begin_run --events "context-switches,cpu@499"
	"${NOBODY[@]}" "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	has "a comment" "$(comments_of burn)" 'left out: context-switches: kernel.perf_event_paranoid is 2'
	is "profiles" "$(profiles_of burn | sed 's/^.*-[0-9]*-//' | sort -u)" "cpu.pb.gz"
	end_run
}
row "plain user: events of the kernel's are left out, the others run" test_left_out_user
# What it runs in the kernel is counted and not sampled. Which part of the sum is user code the kernel itself has sampled, too, by its
# ticks (getrusage(2)).
test_kernel_hidden() {
	[[ $(paranoid) == 2 ]] || skip "perf_event_paranoid is $(paranoid), not 2"
	need /usr/bin/python3
	begin_run --events cpu@499
	cat >both.py <<-'PY'
		import os
		zero, room = os.open("/dev/zero", os.O_RDONLY), bytearray(1 << 20)
		def in_user(): sum(range(100000))
		def in_kernel(): os.readv(zero, [room])
		for field, work in ((0, in_user), (1, in_kernel)):
		    while os.times()[field] < 2: work()
		print(*os.times()[:2])
	PY
	"${NOBODY[@]}" "${RUN[@]}" -- /usr/bin/python3 both.py >times || fail "exit status $?"
	folded_of python3 | awk '/\[kernel, not permitted\]/ { kernel += $NF; next } { user += $NF }
		END { printf "%.2f %.2f\n", user / 1e9, kernel / 1e9 }' >profiled
	cat times profiled
	near "s in user code" "$(cut -d' ' -f1 profiled)" "$(cut -d' ' -f1 times)" 10
	near "s in the kernel" "$(cut -d' ' -f2 profiled)" "$(cut -d' ' -f2 times)" 10
	near "s in all" "$(awk '{ print $1 + $2 }' profiled)" "$(awk '{ print $1 + $2 }' times)" 3
	has "a comment" "$(comments_of python3)" 'code that kernel.perf_event_paranoid hides'
	end_run
}
row "plain user: the kernel's part is one frame, of the time that it took" test_kernel_hidden
test_nothing_left() { # nothing to profile: the program runs
	need jq
	no_pmu || skip "this machine counts $HARDWARE"
	begin_run --events "$HARDWARE"
	"${RUN[@]}" -- "$LAB/bin/burn" 0.2 >burn.out 2>said || fail "exit status $?"
	has "stderr" "$(cat said)" "$HARDWARE: this machine has no such counter"
	[[ -z $(profiles_of burn) ]] || fail "a profile: $(profiles_of burn)"
	end_run
}
row "no such counter here, and nothing else asked for: it says so, and the program runs" test_nothing_left
test_attach_left_out() { # to what runs already
	need jq
	no_pmu || skip "this machine counts $HARDWARE"
	begin_run
	local program
	sh -c "while :; do $LAB/bin/burn 0.05; sleep 0.01; done" >/dev/null &
	program=$!
	until_true 10 eval '[[ $(cat /proc/$program/comm) == sh ]]' || fail "it does not begin"
	"$LAB/bin/pillion" attach $program --budget 5s --daemon "$LAB/bin/pilliond" --control "$SOCKET" --output "$ROW/out" --log "$ROW/run/log" \
		--events "$HARDWARE,context-switches/1,cpu@499" --duration 1s >path 2>said || fail "exit status $?: $(cat said)"
	kill $program
	has "a comment" "$(comments_of sh)" "left out: $HARDWARE: this machine has no such counter"
	is "profiles" "$(profiles_of sh | sed 's/^.*-[0-9]*-//' | sort -u | tr '\n' ' ')" "context-switches.pb.gz cpu.pb.gz "
	end_run
}
row "attached to what runs: the other events run" test_attach_left_out
