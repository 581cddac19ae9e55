# suite_spine - an annotated container yields a profile, and that is all that happens to it: the promises, one row each, by
# a session and by a service, under real runtimes. FULL=1: as many cycles and kills as the promise says, else a twentieth and
# a half.

. "$TOP/tests/integration/spine.sh"

# --- a profile, under every runtime

test_basic() { # RUNTIME MODE
	ct_need "$1"
	with "$2"
	leak_mark
	ct_run "$1" c1 -a $CPU -- "$LAB/bin/burn" 0.2
	profile
	is "the number of profiles" "$(count_profiles)" 1
	spent burn_loop ';burn_loop' 180 220
	between "the time in all" "$(msec .)" 180 $((320 + $(stolen_at_most)))
	has "the labels" "$(samples)" ' container_id:\['"$ID_RULE"'\].* process:\[burn\].* thread:\[burn\].* pid:\[1\] tid:\[1\]'
	has "a comment" "$(comments)" "strategy $(strategy_of "$1"), user and kernel code"
	if [[ $(strategy_of "$1") == process ]]; then
		has "a comment" "$(comments)" 'not by cgroup: it has no cgroup of its own'
		has "a comment" "$(comments)" 'strategy process: exec sessions and setuid or unreadable programs are not in this profile'
	fi
	nobody_of_ours
	leak_check
}

test_ctor() { # RUNTIME MODE
	ct_need "$1"
	with "$2"
	ct_run "$1" c1 -a $FINE -- "$LAB/bin/ctor" >out
	profile
	spent_as_said "the constructor" ';ctor_work' ctor_work out
	has "a stack" "$(samples | grep ctor_work | cut -f 4)" '(^|;)_start;.*begin;ctor_work'
	between "the time in ld.so" "$(msec '[\t;](_dl_|ld-linux)')" 1 1000
	nobody_of_ours
}

test_shape() { # RUNTIME MODE
	local levels a b
	ct_need "$1"
	with "$2"
	ct_run "$1" c1 -a $FINE -- "$LAB/bin/shape" 2.5 >out
	profile
	levels=$(printf ';level_%02d' {1..39})
	samples | grep ';leaf_[ab]' | cut -f 4 >leaves
	is "stacks that are not whole" "$(grep -Evm 3 "^[^;]+;[^;]+;work$levels;leaf_[ab](;|\$)" leaves)" ""
	is "the number of roots" "$(cut -d ';' -f 1,2 leaves | sort -u | wc -l)" 1
	is "the threads" "$(samples | grep ';leaf_[ab]' | grep -o ' thread:\[[a-z]*\]' | sort -u | xargs)" 'thread:[left] thread:[right]'
	a=$(msec ';leaf_a') b=$(msec ';leaf_b')
	between "the share of leaf_a, truly 75 %," "$(awk "BEGIN { print 100 * $a / ($a + $b) }")" 73 77
	between "the share of the left thread" "$(awk "BEGIN { print 100 * $(msec 'thread:.left.*;leaf_') / ($a + $b) }")" 48 52
	spent both ';leaf_' 4750 5250
}

for runtime in "${CT_RUNTIMES[@]}"; do
	row "$runtime, session: a program's function is named, with the strategy and why" test_basic "$runtime" session
	row "$runtime, service: a program's function is named, with the strategy and why" test_basic "$runtime" service
	row "$runtime, session: constructor and ld.so are seen, attached before the first instruction" test_ctor "$runtime" session
done
row "runc, service: constructor and ld.so are seen, attached before the first instruction" test_ctor runc service
row "podman-runc, session: 40 calls deep, two threads, 3 : 1" test_shape podman-runc session
row "crun, service: 40 calls deep, two threads, 3 : 1" test_shape crun service

# Stacks of 48 KiB, then for 12 s, a tenth of the time, of 1 KiB: up at once, down after 10 s, and no time is missing or there twice.
test_snapshots() { # RUNTIME MODE
	local true_ms
	ct_need "$1"
	with "$2"
	ct_run "$1" c1 -a $FINE -- "$LAB/bin/deep" 1.2 48 1/10 >out
	profile
	true_ms=$(awk '/^cpu/ { print int($2 / 1000000) }' out)
	has "a comment" "$(comments)" 'stack snapshots: [0-9]+ of 8 KiB, [0-9]{3,} of 32 KiB, [0-9]{4,} of 63 KiB'
	between "the time in all, ms," "$(msec .)" $((true_ms * 97 / 100)) $((true_ms * 103 / 100 + $(stolen_at_most)))
	between "the time in stacks that are cut, ms," "$(msec 'truncated: stack')" 10 600
	samples | grep -v truncated | cut -f 4 | grep ';leaf_work' >leaves
	is "stacks that are not whole" "$(grep -Evm 3 '(^|;)main;bottom(;down)+;leaf_work(;|$)' leaves)" ""
	has "a deep one" "$(cat leaves)" '(;down){49};leaf_work'
}
test_session_off() { # RUNTIME
	ct_need "$1"
	leak_mark
	with session
	ct_start "$1" c1 -a "$CPU" -- "$LAB/bin/burn" 1000
	wait_profiler
	until_true 20 has_used "$(ct_pid c1)" 100 || fail "it does not work"
	: >etc/off
	until_true 10 eval '! any_profiler' || fail "it goes on: $(cat log)"
	[[ -d /proc/$(ct_pid c1) ]] || fail "the container has ended"
	(($(find spool -name '*.pb.gz' | wc -l) == 1)) || fail "no last window: $(cat log)"
	rm etc/off
	ct_stop c1
	ct_rm c1
	leak_check
}
row "runc, session: switched off, it writes its last window and ends, and the container goes on" test_session_off runc
row "podman-crun, session: switched off, it writes its last window and ends, and the container goes on" test_session_off podman-crun
row "runc, session: deep stacks are whole after a moment, and all time is there" test_snapshots runc session
row "crun, service: deep stacks are whole after a moment, and all time is there" test_snapshots crun service

# --- whose samples: pids as the container sees them, and who is in at all

test_foreign_pids() { # RUNTIME MODE
	local want
	ct_need "$1"
	with "$2"
	ct_start "$1" c1 -a $CPU --pid host -- "$LAB/bin/burn" 0.2
	want=$(ct_pid c1)
	ct_wait c1
	ct_rm c1
	profile 1
	is "the pid with --pid=host" "$(pids_of burn)" "$want"
	rm -r spool/*
	ct_start "$1" c2 -- "$LAB/bin/sleeper"
	ct_start "$1" c3 -a $CPU --pid container:c2 -- "$LAB/bin/burn" 0.2
	want=$(nspid "$(ct_pid c3)")
	ct_wait c3
	profile 1
	[[ $want -gt 1 ]] || fail "the pid namespace is not that of another: pid $want"
	is "the pid in another container's namespace" "$(pids_of burn)" "$want"
}

first_child() { # RUNTIME TIMES [OPTION...]
	local n=$2 runtime=$1
	shift 2
	while ((n-- > 0)); do
		ct_run "$runtime" c1 "$@" -- sh -c 'sh -c "echo \$\$"; exit 0'
	done
}

lowest() { # FILE
	sort -n "$1" | sed -n 1p
}

# runc's init is a Go program, whose threads take a varying number of pids of the container's before the app does. The
# lowest of many starts does not vary, and a pid of ours would raise it.
test_first_child() { # RUNTIME TIMES
	local round
	ct_need "$1"
	with session
	for round in 1 2 3 4 5; do
		first_child "$1" "$2" -a $CPU >>with
		first_child "$1" "$2" >>without
		[[ $(lowest with) == "$(lowest without)" ]] && return
	done
	between "the pid of the app's first child, at most as without us" "$(lowest with)" 2 "$(lowest without)"
}

# What burns: the init, an exec session, a setuid program, one that nobody may read. All as PID 1's like, SECONDS each.
burn_all() { # RUNTIME SECONDS [OPTION...]
	ct_start "$1" c1 -u 65534 "${@:3}" -- sh -c "$LAB/bin/burn $2; $LAB/bin/burn-setuid $2; $LAB/bin/burn-0711 $2
		until [ -e /volume/done ]; do sleep 0.05; done; exit 0" </dev/null
	ct_exec c1 -- "$LAB/bin/forker" 1 $2
	touch done
	ct_wait c1
}

test_all_by_cgroup() { # RUNTIME MODE
	ct_need "$1"
	[[ $(strategy_of "$1") == cgroup ]] || skip "no cgroup that perf could use"
	with "$2"
	chmod 777 .
	burn_all "$1" 0.2 -a $CPU -a io.pillion.attach=cgroup -v "$ROW:/volume"
	profile
	spent "the init's child" 'process:.burn\\].*burn_loop' 170 230
	spent "the exec session" 'process:.forker\\].*child_work' 170 230
	spent "the setuid program" 'process:.burn-setuid\\].*burn_loop' 170 230
	spent "the unreadable program" 'process:.burn-0711\\].*(burn_loop|burn-0711|unreadable)' 170 230
	has_not "a comment" "$(comments)" 'not in this profile'
	is "what is not covered" "$(msec 'not covered')" 0
}

test_all_by_process() { # RUNTIME MODE
	ct_need "$1"
	with "$2"
	chmod 777 .
	burn_all "$1" 0.4 -a $CPU -a io.pillion.attach=process -v "$ROW:/volume"
	profile
	spent "the init's child" 'process:.burn\\].*burn_loop' 340 460
	is "the exec session and the setuid program" "$(msec 'process:.(forker|burn-setuid)\\].*(burn_loop|child_work)')" 0
	has "a comment" "$(comments)" 'strategy process: exec sessions and setuid or unreadable programs are not in this profile'
	# Its CPU account, which tells how much it was, is the v2 cgroup's
	[[ $(strategy_of "$1") == cgroup ]] || return 0
	between "what the profile says is missing" "$(msec 'lost: not covered by strategy process')" 1000 1600
}

row "podman-runc, session: pids with --pid=host and in another container's namespace" test_foreign_pids podman-runc session
row "runc, service: pids with --pid=host and in another container's namespace" test_foreign_pids runc service
row "crun, session: pids with --pid=host and in another container's namespace" test_foreign_pids crun session
row "crun: the app's first child has the pid that it has without us" test_first_child crun 2
row "runc: the app's first child has the pid that it has without us" test_first_child runc 8
for runtime in podman-runc runc ctr-runc; do
	row "$runtime, session: exec, setuid and 0711 programs are in the profile by cgroup" test_all_by_cgroup "$runtime" session
done
row "runc, service: exec, setuid and 0711 programs are in the profile by cgroup" test_all_by_cgroup runc service
row "podman-runc, service: by process, that they are absent is in the profile" test_all_by_process podman-runc service
row "crun, session: by process, that they are absent is in the profile" test_all_by_process crun session

# --- short lives, many of them, and what they leave

test_brief() { # RUNTIME MODE
	ct_need "$1"
	with "$2"
	ct_run "$1" c1 -a $FINE -- "$LAB/bin/brief"
	profile
	spent brief_work ';brief_work' 40 60
	has_not "the stacks" "$(samples | cut -f 4)" '(^|;)brief\+0x'
}

test_cycles() { # RUNTIME MODE COUNT
	local n=$3 # at the usual rate: a ring holds 150 ms of it, so that not even a busy machine loses any
	ct_need "$1"
	with "$2"
	[[ -n ${FULL-} ]] || n=$((n / 20))
	# the first start may make what stays: storage, the service's cgroup
	ct_run "$1" c0 -a io.pillion.profile=on -- "$LAB/bin/brief" >/dev/null
	profile 1
	leak_mark
	[[ $2 == session ]] || hold_settled
	for ((i = 1; i <= n; i++)); do
		ct_run "$1" "c$i" -a io.pillion.profile=on -- "$LAB/bin/brief" >>out 2>&1 || fail "cycle $i: status $?: $(tail -n 3 out)"
	done
	has_not "the runtime's output" "$(cat out)" '[Bb]usy|EBUSY|[Ee]rror'
	profile $((n + 1))
	leak_check
	[[ $2 == session ]] || until_true 10 same_held || fail "the service held $HELD and holds $(holding)"
	for file in spool/*/*.pb.gz; do
		between "brief_work in $file" "$("$LAB/bin/pillion" report --folded "$file" | grep -c ';brief_work')" 1 1000
	done
}

# The profiler keeps a copy of the container's mounts, which pins their file systems, until the container has ended.
within() { nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$@"; }

test_volume() { # RUNTIME MODE
	ct_need "$1"
	need mkfs.ext4 losetup
	with "$2"
	mkdir volume
	truncate -s 16M disk
	mkfs.ext4 -q disk
	LOOP=$(losetup -f --show disk 2>/dev/null) || skip "no loop devices here"
	trap 'losetup -d "$LOOP"' EXIT
	ct_namespace
	within mount "$LOOP" "$ROW/volume"
	within cp "$LAB/bin/burn" "$ROW/volume/burn"
	ct_run "$1" c1 -a $CPU -v "$ROW/volume:/volume" -- /volume/burn 0.2 >out
	profile # 1.5 s after the end, and whatever a busy machine makes of it: then all is let go of
	within umount "$ROW/volume"
	until_true 2 mkfs.ext4 -q "$LOOP" || fail "the file system cannot be remade"
	within mount "$LOOP" "$ROW/volume"
	within test ! -e "$ROW/volume/burn" || fail "the file system was not remade"
	within umount "$ROW/volume"
	spent_as_said "burn_loop, from the volume" ';burn_loop' burn_loop out
}

for runtime in "${CT_RUNTIMES[@]}"; do
	row "$runtime, session: a container that lives 50 ms and is removed at once is named" test_brief "$runtime" session
done
row "podman-runc, service: a container that lives 50 ms and is removed at once is named" test_brief podman-runc service
[[ -z ${FULL-} ]] || ROW_TIMEOUT=1200
row "podman-runc, session: cycles of run and remove leave nothing" test_cycles podman-runc session 200
row "runc, service: cycles of run and remove leave nothing" test_cycles runc service 200
row "crun, service: cycles of run and remove leave nothing" test_cycles crun service 100
row "podman-runc, session: a volume's file system can be remade when its profile is there" test_volume podman-runc session
row "runc, service: a volume's file system can be remade when its profile is there" test_volume runc service

# --- the profiler's own status

field() { sed -n "s/^$2:[\t ]*//p" "/proc/$1/status"; }

# As another user and as its own: nobody looks into it, for stacks hold secrets.
locked() { # PID UID
	! setpriv --reuid "$2" --regid "$2" --clear-groups cat "/proc/$1/$3" >/dev/null 2>&1
}

test_status() { # RUNTIME MODE MEMORY
	local p uid name path
	ct_need "$1"
	need setpriv
	with "$2"
	ct_start "$1" c1 -a $CPU -- sh -c "$LAB/bin/burn 0.1 >/dev/null; exec $LAB/bin/sleeper"
	wait_profiler
	p=$PROFILER
	for name in CapInh CapPrm CapEff CapAmb; do is "$name" "$(field "$p" $name)" 0000000000000000; done
	is "NoNewPrivs" "$(field "$p" NoNewPrivs)" 1
	is "Seccomp" "$(field "$p" Seccomp)" 2
	read -r uid name <<<"$(field "$p" Uid)"
	[[ $uid != 0 && $name == "$uid"$'\t'"$uid"$'\t'"$uid" ]] || fail "its users are $(field "$p" Uid)"
	is "its supplementary groups" "$(field "$p" Groups | xargs)" ""
	for name in pids memory cpu; do
		grep -qE "^[0-9]+:([a-z]+,)*$name(,[a-z]+)*:" "/proc/$p/cgroup" || continue # not v1
		has "its cgroup in $name" "$(grep -E "^[0-9]+:([a-z]+,)*$name(,[a-z]+)*:" "/proc/$p/cgroup")" ":/pillion/$2"
	done
	path=$(sed -n 's/^[0-9]*:memory://p; s/^0:://p' "/proc/$p/cgroup" | sed -n 1p)
	is "its memory limit" "$(cat "/sys/fs/cgroup/memory$path/memory.limit_in_bytes" "/sys/fs/cgroup$path/memory.max" \
		2>/dev/null | sed -n 1p || :)" "$3"
	is "its own limit on core dumps" "$(awk '/^Max core/ { print $5, $6 }' "/proc/$p/limits")" "0 0"
	is "who may look at it" "$(stat -c %u "/proc/$p/mem")" 0
	for uid in "$uid" 1234; do
		for name in mem maps environ; do
			locked "$p" "$uid" $name || fail "user $uid can read its $name"
		done
	done
	[[ $2 == service ]] || session_status "$p"
	until_true 20 sleeps || fail "it does not work"
	ct_stop c1
	ct_rm c1
	profile
}

sleeps() { [[ $(cat "/proc/$(ct_pid c1)/comm") == sleeper ]]; }
descriptors() { find "/proc/$1/fd" -type l -printf '%l\n' | sed '\|^/dev/null$|d' | sort -u; } # PID

session_status() { # PID
	local fd
	is "its process session" "$(($(cut -d ' ' -f 6 "/proc/$1/stat") == $(cut -d ' ' -f 6 "/proc/$(ct_pid c1)/stat")))" 0
	[[ $(cut -d ' ' -f 6 "/proc/$1/stat") != "$(cut -d ' ' -f 6 /proc/$BASHPID/stat)" ]] || fail "it is in the runtime's session"
	is "its terminal" "$(cut -d ' ' -f 7 "/proc/$1/stat")" 0
	for fd in 0 1 2; do is "its descriptor $fd" "$(readlink "/proc/$1/fd/$fd")" /dev/null; done
	is "descriptors that the app has as well" "$(comm -12 <(descriptors "$1") <(descriptors "$(ct_pid c1)"))" ""
	is "its oom_score_adj" "$(cat "/proc/$1/oom_score_adj")" 500
	is "its environment" "$(tr '\0' '\n' <"/proc/$1/environ" | sed '/^PATH=/d')" ""
	is "its umask" "$(field "$1" Umask)" 0027
	is "the signals it ignores beyond HUP and PIPE" "$(field "$1" SigIgn)" 0000000000001001
	is "its nice value" "$(cut -d ' ' -f 19 "/proc/$1/stat")" 0
	is "its directory" "$(readlink "/proc/$1/cwd")" /
}

row "podman-runc, session: the profiler has no privilege, a limited cgroup, nothing of the app's" \
	test_status podman-runc session 67108864
row "crun, session: the profiler has no privilege, a limited cgroup, nothing of the app's" test_status crun session 67108864
row "runc, service: the profiler has no privilege and a limited cgroup" test_status runc service 268435456

# --- what the app sees of us

# Files of its /proc, without the numbers that are new for every container.
portrait() { # RUNTIME [OPTION...]
	local pid id name
	ct_start "$1" c1 -e PROBE=1 "${@:2}" -- "$LAB/bin/sleeper"
	pid=$(ct_pid c1) id=$(ct_id c1)
	until_true 5 grep -qa sleeper "/proc/$pid/cmdline"
	{
		for name in limits cgroup environ oom_score_adj mountinfo; do
			echo "== $name" # environment and mounts are in any order, also without us
			tr '\0' '\n' <"/proc/$pid/$name" | sed -E 's/^[0-9]+ [0-9]+ [0-9]+:[0-9]+ //' | sort
		done
		echo "== status"
		grep -E '^(Sig(Pnd|Blk|Ign|Cgt)|ShdPnd|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Uid|Gid|Groups|Umask|Threads|NSpid)' \
			"/proc/$pid/status" | sed 's/^NSpid:.*\t/NSpid: /'
		echo "== parent and session"
		tr '\0' ' ' <"/proc/$(field "$pid" PPid)/comm"
		awk '{ print $6 == $1, $7, $18, $19 }' "/proc/$pid/stat"
		echo "== descriptors"
		find "/proc/$pid/fd" -type l -printf '%f %l\n' | sort
		echo "== children and threads"
		cat "/proc/$pid/task/"*/children | wc -w
	} | sed -E "s/$id/ID/g; s/${id:0:12}/ID/g; s/[0-9a-f]{64}/HASH/g; s/(shared|master|propagate_from):[0-9]+/\1/g
		s/(pipe|socket):\[[0-9]+\]/\1/g; s#/overlay/[^/,]+/#/overlay/DIR/#g; s#/(overlay-containers)/[^/]+/#/\1/ID/#g
		s#rootfs-overlay[0-9]+|overlay[0-9]+#OVERLAY#g"
	ct_rm c1
}

test_portrait() { # RUNTIME MODE
	ct_need "$1"
	with "$2"
	portrait "$1" >plain
	portrait "$1" -a $CPU >profiled
	profile
	(($(wc -l <plain) > 40)) || fail "a short portrait: $(cat plain)"
	diff plain profiled || fail "it can tell"
}

# At moments that nobody chose: also before there is one, and during the handshake. Notes each kill in ./kills.
kill_soon() {
	sleep "0.$(printf %03d $((RANDOM % 600)))"
	until_true 3 any_profiler || return 0
	local pid hit=
	for pid in $(profilers); do
		kill -KILL "$pid" 2>/dev/null && hit=1 # some end by themselves when the first has
	done
	[[ -z $hit ]] || echo killed >>kills
}

test_kill() { # RUNTIME MODE TIMES
	local i killer times=$3
	[[ -n ${FULL-} ]] || times=$((times / 2))
	ct_need "$1"
	with "$2"
	for ((i = 0; i < times; i++)); do
		[[ $2 == session || -n $(profilers) ]] || service
		kill_soon &
		killer=$!
		ct_run "$1" "c$i" -a $CPU -- "$LAB/bin/sigcount" 0.8 >out 2>err || :
		# runc before 1.2 passes on a SIGURG that its own scheduler sent to it, with or without us
		has_not "what it received" "$(grep -v '^signal 23 code 0 from 0$' out)" 'signal [0-9].*'
		has "what it saw at the end" "$(xargs <out)" 'signals [0-9]+ waitpid ECHILD$'
		wait $killer || :
	done
	between "profilers killed" "$(wc -l <kills)" $((times * 6 / 10)) $times
}

# How long the runtime stays after the app. The bench prints it; here ten times its bar.
test_foreground() { # RUNTIME
	local status=0 late
	ct_need "$1"
	with session
	chmod 777 .
	ct_parse "$1" c1 -a $CPU -v "$ROW:/volume" -- sh -c "$LAB/bin/burn 0.3 >/dev/null; date +%s%N >/volume/end; exit 7"
	bare_run || status=$?
	late=$((($(date +%s%N) - $(cat end)) / 1000000))
	ct_rm c1
	is "the exit status" $status 7
	between "the milliseconds from the app's end to the runtime's" $late 0 1000
	profile
	spent burn_loop ';burn_loop' 250 350
}

for runtime in "${CT_RUNTIMES[@]}"; do
	row "$runtime, session: limits, cgroups, environment, mounts, parent, signals: as without us" test_portrait "$runtime" session
done
row "podman-runc, service: limits, cgroups, environment, mounts, parent, signals: as without us" \
	test_portrait podman-runc service
row "runc, session: the profiler is killed at any moment, the app receives no signal" test_kill runc session 10
row "crun, session: the profiler is killed at any moment, the app receives no signal" test_kill crun session 10
row "podman-runc, service: the profiler is killed at any moment, the app receives no signal" test_kill podman-runc service 10
row "runc run in the foreground returns with the app, and its status" test_foreground runc
row "crun run in the foreground returns with the app, and its status" test_foreground crun

# --- what the annotations say

test_labels() { # RUNTIME MODE
	ct_need "$1"
	with "$2"
	ct_run "$1" c1 -a $CPU -a io.pillion.labels=team=blue,service_name=shop,container=evil,container_id=evil,pid=77,process=evil \
		-- "$LAB/bin/threads" 2 0.3
	profile
	samples | grep -v '\[lost\]$' | cut -f 3 >labels
	for pair in container=c1 service_name=shop user.team=blue user.container=evil user.container_id=evil user.pid=77 \
		user.process=evil process=threads pid=1; do
		is "samples without the label $pair" \
			"$(awk -v want=" ${pair%%=*}:[${pair#*=}]" '!index($0, want)' labels | wc -l)" 0
	done
	has_not "the labels" "$(cat labels)" ' (container|container_id|process):\[evil\]'
	has "the labels" "$(cat labels)" ' container_id:\[[0-9a-f]{64}\]'
	is "the threads" "$(grep -o ' thread:\[w-[0-9]\]' labels | sort -u | xargs)" 'thread:[w-0] thread:[w-1]'
	is "the number of tids beside the init's" \
		"$(grep ' thread:\[w-' labels | grep -o ' tid:\[[0-9]*\]' | sort -u | grep -vcF '[1]')" 2
	has "the file" "$PROFILE" '^spool/c1/[0-9]{8}T[0-9]{6}Z-000000-cpu\.pb\.gz$'
}

rate_of() { go tool pprof -symbolize=none -raw "$PROFILE" 2>/dev/null | awk '/^Period:/ { printf "%d\n", 1e9 / $2 + 0.5 }'; }

test_per_container() {
	ct_need podman-runc
	with session
	ct_run podman-runc c1 -a io.pillion.profile=off -a io.pillion.profile/container.c1=cpu@199 -- "$LAB/bin/burn" 0.1
	profile
	is "the rate" "$(rate_of)" 199
	rm -r spool/*
	ct_run podman-runc c2 -a io.pillion.profile=off -a io.pillion.profile/container.c1=cpu@199 -- "$LAB/bin/burn" 0.1
	ct_run podman-runc c1 -a io.pillion.profile=cpu@299 -a io.pillion.profile/container.c1=off -- "$LAB/bin/burn" 0.1
	until_true 10 eval '! any_profiler' || fail "a profiler is left"
	is "the number of profiles" "$(count_profiles)" 0
}

all_windows() {
	local file
	: >spans
	for file in spool/*/*.pb.gz; do
		msec 'leaf_work|\\[lost\\]' "$file"
		go tool pprof -symbolize=none -raw "$file" 2>/dev/null | awk '/^Duration/ { print $2 > "/dev/stderr" }' 2>>spans
	done >times
	(($(awk '{ sum += $1 } END { print sum + 0 }' times) >= 1050))
}
test_windows() { # RUNTIME MODE
	local file spans
	ct_need "$1"
	with "$2"
	ct_run "$1" c1 -a $CPU -a io.pillion.window=5s -- "$LAB/bin/deep" 1.1 1/10 >out # for 11 s
	until_true 20 all_windows || fail "not all its time is there: $(cat times out)"
	(($(wc -l <times) >= 3)) || fail "$(wc -l <times) windows"
	between "the windows' length" "$(head -n 2 spans | sort -n | sed -n 1p)" 4.9 8
	between "their time in all" "$(awk '{ sum += $1 } END { print sum }' times)" 1050 1150
	is "windows without the function, but for the last" "$(sed '$d' times | grep -cx 0)" 0
}

# The daemon here is a wrapper that leaves a note: so that it did not run is seen, and by the first that it could.
test_left_alone() { # RUNTIME
	ct_need "$1"
	with session
	printf '#!/bin/sh\n: >%q\nexec %q "$@"\n' "$ROW/started" "$LAB/bin/pilliond" >daemon
	chmod 755 daemon
	HOOK_ARGS+=(--daemon "$ROW/daemon")
	ct_run "$1" c1 -a io.pillion.profile=off -- "$LAB/bin/burn" 0.1
	ct_run "$1" c2 -- "$LAB/bin/burn" 0.1
	ct_run "$1" c3 -a io.pillion.window=5s -- "$LAB/bin/burn" 0.1
	: >etc/off
	ct_run "$1" c4 -a $CPU -- "$LAB/bin/burn" 0.1
	rm etc/off
	[[ ! -e started ]] || fail "pilliond was started"
	is "the log" "$(cat log 2>/dev/null)" ""
	is "the number of profiles" "$(count_profiles)" 0
	ct_run "$1" c5 -a $CPU -- "$LAB/bin/burn" 0.1
	profile
	[[ -e started ]] || fail "the wrapper is not what is started: this row proves nothing"
}

# One service, three containers at once, by both strategies: each file has its own container's processes and all of their time.
test_crossing() {
	local i=0 runtime program
	for runtime in podman-runc runc crun; do ct_need $runtime; done
	with service
	for runtime in podman-runc runc crun; do
		program=("$LAB/bin/burn" 0.6)
		[[ $runtime == runc ]] && program=("$LAB/bin/forker" 3 0.2)
		[[ $runtime == crun ]] && program=("$LAB/bin/threads" 3 0.2)
		ct_start $runtime c$((++i)) -a $CPU -a "io.pillion.labels=by=$runtime" -- "${program[@]}"
	done
	for i in 1 2 3; do ct_wait c$i; done
	profile 3
	for i in 1:burn:podman-runc 2:forker:runc 3:threads:crun; do
		IFS=: read -r i program runtime <<<"$i"
		PROFILE=$(echo spool/c"$i"/*.pb.gz)
		samples | grep -v '\[lost\]$' | cut -f 3 >labels
		is "samples of others in that of $program" \
			"$(awk -v want=" process:[$program]" '!index($0, want)' labels | wc -l)" 0
		is "samples with another's label in that of $program" \
			"$(awk -v want=" user.by:[$runtime]" '!index($0, want)' labels | wc -l)" 0
		spent "$program" " process:.$program\\\\]" 540 700
	done
}

row "podman-runc, session: labels, ours not to be overridden" test_labels podman-runc session
row "podman-crun, service: labels, ours not to be overridden" test_labels podman-crun service
row "podman: an annotation for one container wins over the common one" test_per_container
row "podman-runc, session: a window of 5 s makes several profiles" test_windows podman-runc session
row "crun, service: a window of 5 s makes several profiles" test_windows crun service
for runtime in "${CT_RUNTIMES[@]}"; do
	row "$runtime: off, absent, kill switch: nothing happens, pilliond is not started" test_left_alone "$runtime"
done
row "three containers at once on one service: no sample crosses over" test_crossing
