# suite_offcpu - time on no CPU: that its sums are those of the program's own clocks, and whose they are.

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener targets/phases targets/threads targets/counted

PHASES=("$LAB/bin/phases" 0.4)
SLEEP_NS=1200000000 # of that, in phase_sleep
ns_said() { # PHASE cpu|off - by the program itself, of all its threads
	awk -v p="$1" -v w="$2" '$1 ~ p { n += 1e9 * (w == "cpu" ? $3 : $5) } END { printf "%.0f", n }' said
}
all_comments() { # NAME EVENT
	profiles_of "$1" | grep -- "-$2.pb.gz" | while read -r file; do gunzip -c "$file"; done | tr -c '[:print:]' '\n'
}
most_of() { # NAME EVENT - where most of it is
	profiles_of "$1" | grep -- "-$2.pb.gz" | while read -r file; do "$LAB/bin/pillion" report --folded --type "$2" "$file"; done |
		awk '{ n = $NF; $NF = ""; print int(n / 1000000) " ms " $0 }' | sort -rn | sed -n 1,8p
}
# What a switch takes, which is some thread's CPU time: what all of them take together is shared out evenly among their waits.
SWITCH_NS=2000
waits_of() { # NAME EVENT REGEX - how many, of stacks with REGEX
	profiles_of "$1" | grep -- "-$2.pb.gz" | xargs -n 1 "$LAB/bin/pillion" report --folded --type samples |
		awk -v re="$3" '$0 ~ re { n += $NF } END { print n + 0 }'
}
# Within 3 %, or 20 ms; where the ring had no room, because the profiler had to wait for a CPU, that is said. What interrupts and a
# hypervisor took (STOLEN_NS) is time on a CPU for the kernel's events, and none of the program's own clock.
near_ns() { # WHAT GOT WANTED [SAID-TO-BE-LOST [PERCENT]]
	awk -v g="$2" -v w="$3" -v l="${4:-0}" -v p="${5:-3}" -v stolen="${STOLEN_NS:-0}" '
		BEGIN { s = (w * p / 100 > 20e6 ? w * p / 100 : 20e6) + stolen; exit !(g - w <= s && w - g <= s + l) }' ||
		fail "$1: $(($2 / 1000000)) ms, not $(($3 / 1000000)), $((${4:-0} / 1000000)) lost, $((${STOLEN_NS:-0} / 1000000)) stolen: $(cat said; most_of phases offcpu)"
}

# PERCENT: of a phase. The sum over all is a matter of counting, and exact. But where the kernel recorded a part of the switches, a
# phase is what that part is like, and how long a thread waits for a CPU among others is another time each time.
test_phases() { # PERCENT COMMENT [WRAPPER...]
	local phase frame lost percent=$1 switches stacks
	shift
	ct_need runc
	begin_service
	ct_run runc phases -a "$NAMES=cpu,offcpu:min=0,wall" -- "${@:2}" "${PHASES[@]}" >said
	STOLEN_NS=$(($(stolen_at_most) * 1000000))
	echo "stolen meanwhile, at most: $((STOLEN_NS / 1000000)) ms"
	first_of phases >/dev/null
	read -r switches stacks < <(all_comments phases offcpu |
		sed -n 's/.*threads went off their CPUs \([0-9]*\) times; of \([0-9]*\) there is a stack.*/\1 \2/p' | sort -n | tail -n 1)
	echo "off a CPU: $switches times, with stacks: $stacks"
	((stacks * 100 >= switches * 97)) || percent=15
	near_ns "all time on no CPU" "$(ns_of phases offcpu .)" "$(ns_said . off)"
	near_ns "all time on a CPU" "$(ns_of phases cpu .)" "$(ns_said . cpu)"
	near_ns "all time" "$(ns_of phases wall .)" $(($(ns_said . off) + $(ns_said . cpu)))
	# of going on and off a CPU 200,000 times, as phase_pipe does, a clock event misses more than a quarter
	for phase in phase_cpu:- phase_faults:- phase_lock:lock_thread; do
		near_ns "on a CPU in ${phase%:*}" "$(ns_of phases cpu ";(${phase/:/|})(;| )")" "$(ns_said "${phase%:*}" cpu)"
	done
	lost=$(ns_of phases offcpu '\[(lost|place unknown|stack not sampled)\]')
	# a thread of its own is told apart by its own first function
	for phase in phase_cpu:- phase_sleep:- phase_lock:lock_thread phase_pipe:pong_thread phase_faults:-; do
		frame=";(${phase/:/|})(;| )"
		near_ns "off in ${phase%:*}" "$(ns_of phases offcpu "$frame")" "$(ns_said "${phase%:*}" off)" \
			$((lost + SWITCH_NS * $(waits_of phases offcpu "$frame"))) "$percent"
	done
	# It sleeps once, and of many switches only some have a stack: the sum of the others, as large as this sleep, is said.
	((lost >= SLEEP_NS / 100 * 97)) ||
		has "where it sleeps" "$("$LAB/bin/pillion" report --folded "$(profiles_of phases | grep offcpu | sed -n 1p)")" \
			';phase_sleep;.*clock_nanosleep;.*;hrtimer_nanosleep;'
	near_ns "all of phase_lock" "$(ns_of phases wall ';(phase_lock|lock_thread)(;| )')" \
		$(($(ns_said phase_lock off) + $(ns_said phase_lock cpu))) "$lost" "$percent"
	has "its comments" "$(all_comments phases offcpu)" "$1"
	end_service
}
row "a program of known phases: every phase has its time, by its name" test_phases 3 \
	'threads went off their CPUs [0-9]+ times; of [0-9]+ there is a stack'
# on one CPU a ping-pong needs no interrupts: there are several hundred thousand switches a second
row "more switches than are recorded: what is stands for them, within 15 %, and the sum within 3" test_phases 15 \
	'switches were not recorded, as there were more than 100000 a second' /usr/bin/taskset -c 0

# `counted` sleeps SLEEPS times for 100 us. Where it waits for a CPU as well, a wait may be longer than a millisecond.
SLEEPS=1000
mean_wait() { # NAME EVENT REGEX - us, of stacks with REGEX; 0: there is none
	local ns n
	ns=$(ns_of "$1" "$2" "$3")
	n=$(waits_of "$1" "$2" "$3")
	echo $((n ? ns / n / 1000 : 0))
}
test_wall_alone() {
	ct_need runc
	begin_service
	ct_run runc alone -a "$NAMES=wall" -- "$LAB/bin/counted" $SLEEPS 1 100 >said
	first_of alone >/dev/null
	is "profiles" "$(profiles_of alone | grep -c .)" 1
	(($(ns_of alone wall .) >= SLEEPS * 100000)) || fail "$(ns_of alone wall .) ns of all time"
	has "its comments" "$(all_comments alone wall)" '.short waits. is waits of less than 1000 us'
	end_service
}
row "wall: one profile" test_wall_alone

test_short() {
	ct_need runc
	begin_service
	ct_run runc short -a "$NAMES=offcpu" -- "$LAB/bin/counted" $SLEEPS 1 100 >said
	first_of short >/dev/null
	(($(ns_of short offcpu .) >= SLEEPS * 100000)) || fail "$(ns_of short offcpu .) ns of all waits"
	between "us of a short wait" "$(mean_wait short offcpu '\[short waits\]')" 100 1000
	[[ $(mean_wait short offcpu nanosleep) == 0 ]] || between "us of a wait with a place" "$(mean_wait short offcpu nanosleep)" 1000 10000000
	has "its comments" "$(all_comments short offcpu)" '.short waits. is waits of less than 1000 us: offcpu:min=0 shows where they are'
	end_service
}
row "waits below a millisecond: in the sum, without a place" test_short

test_idle() { # three windows; of the middle one it does nothing
	ct_need runc
	begin_service
	ct_start runc idle -a "$NAMES=offcpu" -a io.pillion.window=5s -- "$LAB/bin/sleeper" 12
	ct_start runc asked -a "$NAMES=offcpu:idle" -a io.pillion.window=5s -- "$LAB/bin/sleeper" 12
	until_true 30 lists 0 || fail "no end: $("${PS[@]}")"
	between "ms of a sleeper" "$(($(ns_of idle offcpu .) / 1000000))" 4000 8000
	between "ms of one for whom that is asked" "$(($(ns_of asked offcpu .) / 1000000))" 11500 13000
	ct_rm idle
	ct_rm asked
	end_service
}
row "a thread that does nothing all the window is left out; asked for, it is there" test_idle

# A worker that is killed begins anew with what is on no CPU.
test_killed() {
	ct_need runc
	begin_service
	ct_start runc killed -a "$NAMES=offcpu:min=0" -a io.pillion.window=5s -- "$LAB/bin/counted" 1500 1 1000
	until_true 10 says killed .state started || fail "it is $(of killed .state)"
	kill -KILL "$(pgrep -P "$SERVICE" -x pilliond-worker)"
	until_true 30 lists 0 || fail "no end: $("${PS[@]}")"
	has "the profile" "$(all_comments killed offcpu)" 'the profiler was restarted 1 times'
	ct_rm killed
	end_service
}
row "the worker is killed: there is a profile all the same" test_killed

# --- without a cgroup of one's own: events are inherited, and switch records tell

# A ping-pong over two CPUs is most of it: where one comes to an idle CPU, the record of that is some microseconds late, and how
# late nobody knows, 30,000 times.
ABOUT=10 # %

# A plain user may raise no limit: what a ring has no room for is said, and is not told from the time before and behind.
test_inherited() { # KERNEL-PART WHO...
	local phase frame
	begin_run
	"${@:2}" "${RUN[@]}" --attach process --events cpu@499,offcpu:min=0,wall -- "${PHASES[@]}" >said || fail "exit status $?"
	first_of phases >/dev/null
	STOLEN_NS=$(($(stolen_at_most) * 1000000))
	near_ns "all time on no CPU" "$(ns_of phases offcpu .)" "$(ns_said . off)" 0 "$ABOUT"
	near_ns "all time" "$(ns_of phases wall .)" $(($(ns_said . off) + $(ns_said . cpu))) 0 "$ABOUT"
	for phase in "${IN_PHASES[@]}"; do
		frame=";(${phase/:/|})(;| )"
		near_ns "off in ${phase%:*}" "$(ns_of phases offcpu "$frame")" "$(ns_said "${phase%:*}" off)" \
			"$(ns_of phases offcpu '\[(place unknown|stack not sampled)\]')"
	done
	if ((${#IN_PHASES[@]})); then
		(($(ns_of phases offcpu '\[place unknown\]') <= $(ns_said . off) / 4)) ||
			fail "$(ns_of phases offcpu '\[place unknown\]') ns have no place"
		has "where it sleeps" "$("$LAB/bin/pillion" report --folded "$(profiles_of phases | grep offcpu | sed -n 1p)")" \
			';phase_sleep;.*clock_nanosleep'
	fi
	has "its comments" "$(all_comments phases offcpu)" "$1"
	end_run
}
IN_PHASES=(phase_sleep:- phase_lock:lock_thread)
row "no cgroup of one's own: the sums, and the places, by switch records" test_inherited \
	'threads went off their CPUs [0-9]+ times; of [1-9][0-9]+ there is a stack' "${AS_ROOT[@]}"

test_plain() {
	[[ $(cat /proc/sys/kernel/perf_event_paranoid) == 2 ]] || skip "perf_event_paranoid is not 2"
	IN_PHASES=()
	test_inherited 'times; .approximate.: where they were seen last before, as kernel.perf_event_paranoid hides where they waited' \
		"${NOBODY[@]}"
	# it computes before it sleeps: that is where it was seen last
	(($(ns_of phases offcpu '\[approximate\];.*;phase_sleep(;| )') >= SLEEP_NS / 100 * 97)) ||
		fail "off in phase_sleep: $(ns_of phases offcpu '\[approximate\];.*;phase_sleep(;| )') ns of $SLEEP_NS: $(most_of phases offcpu)"
	(($(ns_of phases offcpu '\[approximate\];.*;pong_thread(;| )') >= $(ns_said phase_pipe off) / 4)) ||
		fail "pong_thread waits for $(ns_of phases offcpu pong_thread) ns: $(most_of phases offcpu)"
}
row "plain user: the sums, and as places those where a thread was seen last" test_plain

test_offcpu_alone() { # STACK WHO...
	begin_run
	"${@:2}" "${RUN[@]}" --attach process --events offcpu -- "${PHASES[@]}" >said || fail "exit status $?"
	first_of phases >/dev/null
	STOLEN_NS=$(($(stolen_at_most) * 1000000))
	near_ns "all time on no CPU" "$(ns_of phases offcpu .)" "$(ns_said . off)" 0 "$ABOUT"
	is "profiles" "$(profiles_of phases | grep -c .)" 1
	(($(ns_of phases offcpu "$1") >= SLEEP_NS / 100 * 97)) || fail "$1: $(ns_of phases offcpu "$1") ns: $(most_of phases offcpu)"
	end_run
}
row "no cgroup of one's own, nothing but offcpu" test_offcpu_alone ';phase_sleep;' "${AS_ROOT[@]}"
row "plain user, nothing but offcpu: stacks are those of a clock of its own" test_offcpu_alone '\[approximate\];.*;phase_sleep(;| )' "${NOBODY[@]}"

# It runs already, and is in phase_cpu still.
test_attached() { # EVENTS WHO...
	local began=${EPOCHREALTIME/./} before
	begin_run
	("${@:2}" "${PHASES[@]}" >said &
		echo $! >pid)
	"${@:2}" "$LAB/bin/pillion" attach "$(cat pid)" --budget 5s --daemon "$LAB/bin/pilliond" --control "$SOCKET" \
		--output "$ROW/out" --log "$ROW/run/log" --events "$1" >path 2>attach.said &
	until_true 20 grep -qs attached attach.said || fail "not attached: $(cat attach.said)"
	before=$(((${EPOCHREALTIME/./} - began) / 1000))
	wait $! || fail "exit status $?: $(cat attach.said)"
	# at most what it waited before it was attached to is missing
	between "ms on no CPU" "$(($(ns_of phases offcpu .) / 1000000))" $(($(ns_said . off) * (100 - ABOUT) / 100 / 1000000 - before)) \
		$(($(ns_said . off) * (100 + ABOUT) / 100 / 1000000))
	(($(ns_of phases cpu .) > 0)) || fail "no CPU time"
	end_run
}
row "attached to by pid: its threads' waits from then on" test_attached offcpu:min=0,cpu "${AS_ROOT[@]}"
row "attached to by pid, plain user" test_attached cpu,offcpu:min=0 "${NOBODY[@]}"
