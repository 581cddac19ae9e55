# suite_run - `pillion run`: the program is profiled, nothing about it changes, and whatever goes wrong, it runs. Rows are
# called as root and as a plain user, with a session, a service, or something worse in a service's place. FULL=1: as
# often as the promise says.

. "$TOP/tests/integration/wrapped.sh"
lab_install tools/deny tools/peer targets/sigcount targets/identity targets/deep targets/sleeper
TIMES=${FULL:+12} # each fault at each step; in all a thousand starts
START_MS=10000 # ten times the second within which a program runs

# --- the job itself

test_profiled() { # session|service WHO...
	begin_run
	local who=$1
	shift
	[[ $who == session ]] || service_run
	"$@" "${RUN[@]}" -- "$LAB/bin/burn" 0.6 >burn.out 2>burn.err || fail "burn: exit status $?"
	is "stderr" "$(cat burn.err)" ""
	(($(folded_of burn | share 'burn_loop') >= 90)) || fail "burn_loop has not 90 %: $(folded_of burn | tail)"
	[[ $who == session ]] || kill -TERM "$SERVICE"
	end_run
}
test_children() {
	begin_run --events cpu@499
	"${NOBODY[@]}" "${RUN[@]}" -- sh -c "$LAB/bin/burn 0.3; $LAB/bin/burn 0.3 & wait" >/dev/null
	(($(folded_of sh | share 'burn_loop') >= 80)) || fail "the children are missing: $(folded_of sh | tail)"
	end_run
}

row "session, root: a program is profiled" test_profiled session "${AS_ROOT[@]}"
row "session, plain user: a program is profiled" test_profiled session "${NOBODY[@]}"
row "service, root: a program is profiled" test_profiled service "${AS_ROOT[@]}"
row "session, plain user: children are profiled" test_children
test_unreadable() { # PROGRAM - whose file the profiler's user may not read
	begin_run
	install -m 0711 "$LAB/bin/burn" ./burn
	"${RUN[@]}" -- "$1" 0.5 >/dev/null
	(($(folded_of burn | share 'burn_loop') >= 90)) || fail "burn_loop has not 90 %: $(folded_of burn | tail)"
	end_run
}
row "root: a program that only root may read has names" test_unreadable ./burn

kinds_of() { profiles_of "$1" | sed 's/^.*-[0-9]*-//; s/\.pb\.gz$//' | sort -u | tr '\n' ' '; }
test_tracepoint() {
	local traced=()
	begin_run --events cpu,tracepoint:sched:sched_process_exec/1
	if [[ ! -r /sys/kernel/tracing/events/sched/sched_process_exec/id ]]; then # nobody has mounted it
		traced=(unshare --mount --propagation private
			sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh)
		"${traced[@]}" true || skip "no tracefs"
	fi
	"${traced[@]}" "${RUN[@]}" -- sh -c "$LAB/bin/burn 0.3; true; $LAB/bin/burn 0.1" >/dev/null
	first_of sh >/dev/null
	is "kinds of profiles" "$(kinds_of sh)" "cpu sched_sched_process_exec "
	has "its samples" "$("$LAB/bin/pillion" top "$(profiles_of sh | grep sched_)")" 'total +[23] samples, [23] sched:sched_process_exec'
	end_run
}
row "a tracepoint beside CPU time" test_tracepoint

# --- stack snapshots as large as the stacks

snapshots_of() { comments_of "$1" | grep -o 'stack snapshots: .*'; }
# One thread can lose no more than what it used while nobody read the rings.
test_shallow() {
	local before waited
	begin_run --events cpu@999
	service_run
	until_true "$PATIENCE" has_worker || fail "there is no worker"
	before=$(worker_waited)
	"${RUN[@]}" -- "$LAB/bin/deep" 1.5 1 >/dev/null
	has "the snapshots" "$(snapshots_of deep)" '^stack snapshots: [0-9]+ of 8 KiB[^,]*$'
	waited=$(($(worker_waited) - before))
	folded_of deep >folded
	between "us that are lost; it was $waited us that the worker waited for a CPU" \
		"$(awk '/\[lost/ { n += $NF } END { printf "%.0f", n / 1000 }' folded)" 0 $((waited + 30000))
	grep ';leaf_work' folded >at_work || fail "no leaf_work: $(cat folded)"
	is "stacks of leaf_work without all of their callers" "$(grep -v ';main;bottom;down;down;leaf_work' at_work || :)" ""
	(($(share ';leaf_work' <folded) >= 80)) || fail "$(sort -n -k 2 folded | tail)"
	kill -TERM "$SERVICE"
	end_run
}
row "shallow stacks at 999 Hz: small snapshots, and none is lost while somebody reads" test_shallow

# Children that were there at a move, and some that come after it; the first process sleeps meanwhile. More processes than
# CPUs that are free: a timer that is late by periods has one sample for all of them, with or without moves. Stacks are
# cut until the session has read the first of them, on all CPUs as long as it waits for one itself.
test_moves() { # WHO...
	local goal waited cut
	begin_run --events cpu@499
	mkfifo -m 666 gate
	"$@" "${RUN[@]}" -- sh -c "$LAB/bin/deep 0.8 1 48 & $LAB/bin/deep 0.8 48 1 & wait; $LAB/bin/deep 2 1 1; $LAB/bin/deep 1 20; cat gate" >times &
	until_true "$PATIENCE" eval '(($(wc -l <times) == 4))' || fail "the programs have not ended: $(cat times)"
	waited=$(awk '{ printf "%d", $2 / 1e6 }' "/proc/$(basename out/.session-* | cut -d - -f 2)/schedstat")
	: >gate
	has "the snapshots" "$(snapshots_of sh)" '[0-9]+ of 8 KiB, [0-9]+ of 32 KiB, [0-9]+ of 63 KiB'
	goal=$(awk '{ sum += $2 } END { printf "%d", sum / 1e6 }' times)
	folded_of sh >folded
	between "the time in all, ms," "$(total_ms <folded)" $((goal * 95 / 100)) $((goal * 103 / 100 + $(stolen_at_most)))
	cut=$({ grep 'truncated: stack' folded || :; } | total_ms)
	between "the time in stacks that are cut, ms; the session waited $waited ms for a CPU;" "$cut" 0 $((goal / 20 + waited * $(nproc)))
	end_run
}
row "snapshots change their size, plain user: no time is missing or there twice" test_moves "${NOBODY[@]}"

test_one_size() {
	begin_run
	"${NOBODY[@]}" prlimit --nofile=110:110 "${RUN[@]}" -- "$LAB/bin/deep" 1 20 >/dev/null
	has "a comment" "$(comments_of deep)" 'stack snapshots of one size: there are descriptors for no more .LimitNOFILE.'
	(($(folded_of deep | share 'main;bottom(;down)+;leaf_work') >= 90)) || fail "$(folded_of deep | tail)"
	end_run
}
row "few descriptors: snapshots of one size, and it says so" test_one_size

# A ring of 64 KiB has room for snapshots of 8 KiB and no more: another session has what memory the user may lock.
test_small_rings() {
	local user=(setpriv --reuid 64999 --regid 64999 --clear-groups) bytes=$(($(nproc) * 17 * 4096))
	[[ $(cat /proc/sys/kernel/perf_event_mlock_kb) == 516 ]] || skip "perf_event_mlock_kb is not 516"
	begin_run
	mkdir -m 777 out/other
	"${user[@]}" prlimit --memlock=0:0 "${RUN[@]}" --output "$ROW/out/other" -- sleep 30 &
	until_true "$PATIENCE" pgrep -u 64999 -x sleep >/dev/null || fail "no other session"
	"${user[@]}" prlimit --memlock=$bytes:$bytes "${RUN[@]}" -- "$LAB/bin/deep" 1 20 >/dev/null
	kill $!
	has "a comment" "$(comments_of deep)" 'rings of 64 KiB instead of 512 KiB'
	has "the snapshots" "$(snapshots_of deep)" '^stack snapshots: [0-9]+ of 8 KiB'
	end_run
}
row "small rings: small snapshots" test_small_rings

# flag > environment > user file > system file (which is the host's, and not ours to write)
test_precedence() { # WANTED-KINDS FILE-EVENTS ENV-EVENTS FLAG-EVENTS, - for none
	begin_run
	RUN[8]=--output RUN[9]=$ROW/out # with --config the user's file is not read
	mkdir -p -m 777 home/pillion
	[[ $2 == - ]] || echo "events = $2 # no comment: part of the value" | sed 's/ #.*//' >home/pillion/pillion.conf
	local environment=(XDG_CONFIG_HOME="$ROW/home") flag=()
	[[ $3 == - ]] || environment+=(PILLION_EVENTS="$3")
	[[ $4 == - ]] || flag=(--events "$4")
	env "${environment[@]}" "${RUN[@]}" "${flag[@]}" -- "$LAB/bin/burn" 0.2 >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	first_of burn >/dev/null
	is "kinds of profiles" "$(kinds_of burn)" "$1 "
	end_run
}
row "settings: the default" test_precedence cpu - - -
row "settings: the user's file" test_precedence page-faults page-faults/1 - -
row "settings: the environment goes before the file" test_precedence page-faults cpu page-faults/1 -
row "settings: a flag goes before both" test_precedence page-faults cpu cpu page-faults/1
test_config() { # the file that --config names, and PILLION_CONFIG; a line that is wrong costs no profile
	begin_run
	RUN[8]=--output RUN[9]=$ROW/out # --config goes before PILLION_CONFIG
	printf '# ours\nevents = page-faults/1\nwindwo = 7s\n' >my.conf
	PILLION_CONFIG="$ROW/my.conf" "${RUN[@]}" -- "$LAB/bin/burn" 0.2 >/dev/null 2>said
	has "stderr" "$(cat said)" "^pillion run: $ROW/my.conf, line 3: no such option: windwo\$"
	first_of burn >/dev/null
	is "kinds of profiles" "$(kinds_of burn)" "page-faults "
	end_run
}
row "settings: a file by name, with a mistake in it" test_config
test_node() { # WANTED VARIABLE FLAG, - for none
	begin_run
	local environment=() flag=()
	[[ $2 == - ]] || environment+=(PILLION_NODE="$2")
	[[ $3 == - ]] || flag=(--node "$3")
	env ${environment[@]+"${environment[@]}"} "${RUN[@]}" ${flag[@]+"${flag[@]}"} -- "$LAB/bin/burn" 0.2 >/dev/null
	is "where it says to be from" "$(tags_of burn node | sed 's/ *([^)]*)$//; s/.* //')" "$1"
	end_run
}
row "settings: node is the host's name" test_node "$(uname -n)" - -
row "settings: node, a variable" test_node rack7 rack7 -
row "settings: node, a flag" test_node rack8 rack7 rack8
test_off() {
	begin_run
	PILLION_ENABLED=0 "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said &
	sleep 0.3
	any_profiler && fail "a profiler runs"
	wait $!
	is "stderr" "$(cat said)" ""
	until_true "$PATIENCE" no_profiler || fail "a profiler is left"
	is "profiles" "$(profiles_of burn)" ""
	end_run
}
row "settings: PILLION_ENABLED=0 is a plain exec" test_off

# A profiler without libpillion beside it, so that there is nothing to do without perf by (suite_timers has that).
bare_daemon() {
	mkdir bare
	ln -s "$LAB/bin/pilliond" bare/
	RUN+=(--daemon "$ROW/bare/pilliond")
}
test_container() { # WHY OPTION... - `pillion run` as PID 1 of a container that nobody gave any privilege
	local says=$1 runs
	shift
	begin_run
	bare_daemon
	ct_need podman-runc
	chmod 777 "$ROW"
	podman --root "$LAB/podman/root" --runroot "$LAB/podman/run" --tmpdir "$LAB/podman/tmp" --cgroup-manager cgroupfs \
		--events-backend none --runtime runc run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
		--cgroup-parent "$LAB_CGROUP" "$@" --rootfs /:O "$LAB/bin/pillion" run --daemon "$ROW/bare/pilliond" \
		--output /tmp/out -- sh -c 'echo it runs as $$; exit 7' </dev/null >ran 2>said && fail "exit status 0"
	is "its output" "$(cat ran)" "it runs as 1"
	has "stderr" "$(cat said)" "^pillion run: $says; the program runs without a profile\$"
	end_run
}
row "in a container where seccomp forbids perf" test_container \
	'refused: ring on a CPU: a seccomp filter or security module forbids perf_event_open; let it through, in a container by --security-opt seccomp=FILE; nor by timers: .*'
row "in a container where seccomp forbids perf, as a plain user" test_container \
	'refused: ring on a CPU: a seccomp filter or security module forbids perf_event_open; .*' --user 1000:1000

# --- nothing about it changes

# What a process is, as text: tests/targets/identity.c, in the shell that it is started from.
test_identity() { # SCRIPT WHO... - which runs "$@" IDENTITY
	local script=$1 side
	shift
	begin_run
	for side in without with; do
		mkdir -m 777 $side
		local way=()
		[[ $side == without ]] || way=("${RUN[@]}" --)
		OUT=$ROW/$side "$@" sh -c "$script" sh "${way[@]}" "$LAB/bin/identity" "$ROW/$side/identity"
	done
	diff without/identity with/identity || fail "it is not the same"
	has "what was compared" "$(cat with/identity)" "SigIgn"
	end_run
}

row "root: the program is what it was" test_identity 'exec "$@"' "${AS_ROOT[@]}"
row "plain user: the program is what it was" test_identity 'exec "$@"' "${NOBODY[@]}"
row "signals blocked and ignored stay so" test_identity 'trap "" INT HUP PIPE CHLD; exec "$@"' "${NOBODY[@]}"
row "limits, niceness, affinity, OOM score and timer slack stay" test_identity \
	'ulimit -S -n 99; ulimit -c 7; exec nice -n 3 taskset -c 1 choom -n 77 -- "$@"' "${NOBODY[@]}"
row "standard input closed" test_identity 'exec "$@" <&-' "${NOBODY[@]}"
row "standard output closed" test_identity 'exec "$@" >&-' "${NOBODY[@]}"
row "standard error closed" test_identity 'exec "$@" 2>&-' "${NOBODY[@]}"
row "all three closed" test_identity 'exec "$@" <&- >&- 2>&-' "${NOBODY[@]}"
test_closed() { # a keeper takes the three for /dev/null: none may be a socket of ours
	begin_run --windwo=7s
	"$LAB/bin/identity" --subreaper bash -c 'exec "$@" <&- >&- 2>&-' sh "${RUN[@]}" "$LAB/bin/burn" 0.4 || :
	(($(folded_of burn | share 'burn_loop') >= 80)) || fail "burn_loop has not 80 %"
	end_run
}
row "all three closed, something to say, a keeper, and it is profiled" test_closed
row "descriptors of its caller's are there" test_identity 'exec 5</dev/null 9>&1; exec "$@"' "${NOBODY[@]}"

# What there is to say goes where nobody hears it, and nothing else does.
test_unheard() { # SCRIPT
	begin_run --daemon /no/such
	is "the exit status" "$(status_of timeout 20 "${NOBODY[@]}" bash -c "$1" sh "${RUN[@]}" sh -c 'exit 7')" 7
	end_run
}
row "a warning with stderr closed" test_unheard '"$@" 2>&-'
row "a warning with all three closed" test_unheard '"$@" <&- >&- 2>&-'
row "a warning into a pipe that nobody reads" test_unheard '{ "$@"; echo $? >&3; } 3>&1 2>&1 >/dev/null | true; exit 7'
row "a warning into a full disk" test_unheard '"$@" 2>/dev/full'
row "a warning into a pipe that is full" test_unheard \
	'mkfifo out/full; exec 7<>out/full; timeout 0.5 cat /dev/zero >&7; "$@" 2>&7'
row "a warning into a file at its limit" test_unheard 'ulimit -f 0; "$@" 2>"$PWD/out/limited"'
row "help with stdout closed" test_unheard 'timeout 10 "${@:1:2}" --help >&-; (($? != 124)) && exit 7'

test_pid() {
	begin_run
	"${NOBODY[@]}" sh -c 'echo $$ $PPID; exec "$@"' sh "${RUN[@]}" -- sh -c 'echo $$ $PPID' >pids
	is "pid and parent" "$(head -n 1 pids)" "$(tail -n 1 pids)"
	end_run
}
row "it is the process that its caller started" test_pid

test_apart() { # its profiler has nothing of the program's stdio, process group and session
	begin_run
	local profiler all
	"${NOBODY[@]}" "${RUN[@]}" -- "$LAB/bin/sleeper" 2>&1 | cat >apart.out & # it does nothing: nothing is to be named
	until_true "$PATIENCE" all_profilers || fail "not six processes: $(profilers)"
	all=$(profilers)
	for profiler in $all; do
		is_apart "$profiler"
	done
	kill "$(program)"
	wait
	end_run
}
all_profilers() { (($(profilers | wc -l) == 6)); } # supervisor, worker, exporter, fork server, symbolizer, reader of files
program() { { find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/bin/sleeper" || :; } 2>/dev/null | cut -d/ -f3; }
is_apart() { # PID
	local profiler=$1
	is "standard streams of the profiler" "$(readlink "/proc/$profiler/fd/"{0,1,2} | sort -u)" /dev/null
	is "descriptors of the program's pipe" "$(find "/proc/$profiler/fd" -lname "$(readlink "/proc/$(program)/fd/1")" | wc -l)" 0
	is "its session" "$(ps -o sid= -p "$profiler" | tr -d ' ')" "$(ps -o pgid= -p "$profiler" | tr -d ' ')"
	[[ $(ps -o sid= -p "$profiler") != $(ps -o sid= -p $$) ]] || fail "it is in the program's session"
	has "its OOM score" "$(cat "/proc/$profiler/oom_score_adj")" '^(500|[6-9]..|1000)$'
}
row "its profiler lives apart" test_apart

# --- exit statuses and mistakes

test_exit() { # STATUS STDERR-REGEX ARG... - as a plain user
	local status=$1 says=$2
	shift 2
	begin_run
	printf 'no program\n' >text
	install -m 755 /dev/null empty
	is "the exit status" "$(status_of "${NOBODY[@]}" "${RUN[@]}" "$@" 2>said)" "$status"
	has "stderr" "$(cat said)" "$says"
	(($(wc -l <said) <= 1)) || fail "more than one line: $(cat said)"
	end_run
}
IGNORED='; the program runs without a profile$'
row "the program's own exit status" test_exit 7 '^$' sh -c 'exit 7'
row "the program dies by a signal" test_exit 139 '' sh -c 'kill -SEGV $$'
row "no such program" test_exit 127 '^pillion run: cannot run no-such: No such file or directory$' no-such
row "no such program by path" test_exit 127 '^pillion run: cannot run /no/such: No such file or directory$' /no/such
row "a file that is no program" test_exit 126 '^pillion run: cannot run ./text: Permission denied$' ./text
row "a directory" test_exit 126 '^pillion run: cannot run /: Is a directory$' /
row "an empty program is an empty script" test_exit 0 '^$' ./empty
row "no program at all" test_exit 2 "^pillion run: no program is given; see 'pillion help run'$" --window 9s
row "an unknown option is told, and the profile is taken" test_exit 3 '^pillion run: no such option: --windwo=7s; is --window meant[?]$' \
	--windwo=7s -- sh -c 'exit 3'
row "an unknown option's value is no program" test_exit 3 '^pillion run: no such option: --evnets; is --events meant[?]$' \
	--evnets ls -- sh -c 'exit 3'
row "the value of one that is like no other, neither" test_exit 3 '^pillion run: no such option: -F$' -F ls -- sh -c 'exit 3'
row "a switch may have its value behind it" test_exit 3 '^$' --strict 1 --enabled 1 sh -c 'exit 3'
row "-o is --output" test_exit 0 "^pillion run: refused: cannot make /proc/x: .*$IGNORED" -o /proc/x true
row "a bad value is told" test_exit 3 '^pillion run: --window: "soon" is not 5s to 3600s$' --window soon sh -c 'exit 3'
row "an unknown event" test_exit 3 "^pillion run: .*cpus.*$IGNORED" --events cpus -- sh -c 'exit 3'
row "an unknown option under --strict" test_exit 125 '^pillion run: no such option: --windwo; is --window meant[?]$' --strict --windwo -- true
row "an unknown event under --strict" test_exit 125 '^pillion run: .*cpus' --strict --events cpus -- true
row "the program's own --help is the program's" test_exit 4 '^$' sh -c '[ "$1" = --help ] && exit 4' sh --help
row "attaching by cgroup is not for run" test_exit 0 "^pillion run: .*--attach is auto or process$IGNORED" --attach cgroup true
row "no daemon" test_exit 0 "^pillion run: cannot start a session: cannot run /no/such: No such file or directory$IGNORED" \
	--daemon /no/such true
row "no directory to write to" test_exit 0 "^pillion run: refused: cannot make /proc/x: No such file or directory$IGNORED" \
	--output /proc/x true
test_daemon_beside() { # as in a build tree: nothing is installed, and nothing names it
	begin_run
	local run=("$LAB/bin/pillion" run --control "$ROW/none.sock" --output)
	is "stderr" "$("${NOBODY[@]}" "${run[@]}" "$ROW/out" -- "$LAB/bin/burn" 0.3 2>&1 >/dev/null)" ""
	until_true 20 written burn || fail "no profile"
	cp "$LAB/bin/pillion" alone
	run[0]=./alone
	[[ -e /usr/libexec/pillion/pilliond ]] ||
		has "alone" "$("${run[@]}" "$ROW/other" -- true 2>&1)" "^pillion run: .* cannot run /usr/libexec/pillion/pilliond: "
	end_run
}
row "without --daemon it is the one beside it" test_daemon_beside
# --- what can be seen right behind it, and what is said

# The program has ended: what reads waits for what is still on its way.
test_behind() { # COMMAND... - of pillion; what it prints has the program's function
	local i
	begin_run
	for i in 1 2 3; do
		"${RUN[@]}" --output "$ROW/out.$i" -- "$LAB/bin/burn" 0.2 >burn.out
		"$LAB/bin/pillion" "$@" "out.$i" >shown 2>said || fail "exit status $?: $(cat said)"
		has "what $1 shows" "$(cat shown)" 'burn_loop'
	done
	end_run
	is "what is left in the directory" "$(find out.1 -maxdepth 1 -name '.*' ! -name .)" ""
}
row "top behind it: the profile is there" test_behind top --once
row "report behind it: the profile is there" test_behind report --folded
says_state() { grep -qs "state=$1" out/.session-*; }
test_lives_on() { # commands do not wait for a program with children that are still there
	begin_run
	"${RUN[@]}" -- sh -c "$LAB/bin/burn 0.2; sleep 1000 >sleep.out & echo \$! >child" >sh.out
	until_true "$PATIENCE" says_state l || fail "its session says nothing: $(cat out/.session-*)"
	"$LAB/bin/pillion" top --once out >shown 2>&1 || :
	is "its session" "$(sed -E 's/.*state=//' out/.session-*)" l
	kill "$(cat child)"
	first_of sh >/dev/null
	end_run
}
row "its children live on: no command waits for them" test_lives_on

on_terminal() { # FILE COMMAND... - what it writes there
	local file=$1
	shift
	script -qec "$(printf '%q ' "$@")" /dev/null </dev/null | tr -d '\r' >"$file"
}
test_said() { # REGEX ARG...
	begin_run
	unset 'RUN[6]' 'RUN[7]' 'RUN[8]' 'RUN[9]' # --control and --config
	on_terminal said "${RUN[@]}" --control "$SOCKET" "${@:2}" -- sh -c 'echo it runs'
	has "the terminal" "$(cat said)" "$1"
	until_true "$PATIENCE" no_profiler || fail "a profiler is left"
	is "what is said without a terminal" "$("${RUN[@]}" --control "$SOCKET" "${@:2}" -- true 2>&1)" ""
	end_run
}
row "on a terminal: where the profile will be" test_said \
	'^pillion run: the profile of sh will be in prof; look: pillion top prof'$'\n''it runs$' --output prof
row "on a terminal: where it will be without --output" test_said '^pillion run: the profile of sh will be in pillion-[0-9]+; look: pillion top pillion-'
row "on a terminal, --quiet: nothing" test_said '^it runs$' --quiet
test_said_of_service() {
	begin_run
	service_run
	on_terminal said "${RUN[@]}" -- sh -c 'echo it runs'
	has "the terminal" "$(cat said)" "^pillion run: the service at $SOCKET profiles sh; look: pillion ps, pillion top"
	kill -TERM "$SERVICE"
	end_run
}
row "on a terminal: a service has it" test_said_of_service

# Who says himself where to write has it there, where a service listens as well; the line of a file is for where none does.
test_output_beside_service() { # WHERE VARIABLE FLAG, - for none
	begin_run
	service_run
	local environment=() flag=() other
	[[ $2 == - ]] || environment+=(PILLION_OUTPUT="$ROW/$2")
	[[ $3 == - ]] || flag=(--output "$ROW/$3")
	env ${environment[@]+"${environment[@]}"} "${RUN[@]}" ${flag[@]+"${flag[@]}"} -- "$LAB/bin/burn" 0.2 >/dev/null 2>said
	is "stderr" "$(cat said)" ""
	has "its profile" "$(first_of burn)" "^$1/burn/"
	[[ $1 == out ]] && other=spool || other=out
	is "profiles elsewhere" "$(find "$other" -name '*.pb.gz' 2>/dev/null)" ""
	kill -TERM "$SERVICE"
	end_run
}
row "--output beside a service: a session of its own writes there" test_output_beside_service out - out
row "PILLION_OUTPUT beside a service: as well" test_output_beside_service out out -
row "output in a file beside a service: the service has it" test_output_beside_service spool - -

# --- a process above it

test_wait() { # STATUS STDERR-REGEX PROGRAM... - twice: by a session, by a service
	local by=session
	begin_run
	for by in session service; do
		[[ $by == session ]] || service_run
		is "the exit status, $by" "$(status_of "${RUN[@]}" --wait -- "${@:3}" 2>said)" "$1"
		has "the last line, $by" "$(tail -n 1 said)" "$2"
	done
	kill -TERM "$SERVICE"
	end_run
}
LOOK='look: pillion top /?[^ ]*/20[0-9TZ-]+-cpu.pb.gz$'
row "--wait: what was seen of it, and its exit status" test_wait 7 "^[1-9][0-9]* samples of sh; $LOOK" sh -c "$LAB/bin/burn 0.2; exit 7"
row "--wait: it dies by a signal" test_wait 139 "^[1-9][0-9]* samples of sh; $LOOK" sh -c "$LAB/bin/burn 0.2; kill -SEGV \$\$"
test_wait_shown() { # the line that it ends with can be repeated
	begin_run
	"${RUN[@]}" --wait -- "$LAB/bin/burn" 0.2 2>said >burn.out
	"$LAB/bin/pillion" top --once "$(sed 's/.* //' said)" >shown || fail "exit status $?: $(cat said)"
	has "what top shows" "$(cat shown)" 'cpu_spin'
	end_run
}
row "--wait: the file that it names" test_wait_shown
test_wait_child() { # its parent is pillion, SIGCHLD is as it was
	begin_run
	("${RUN[@]}" --wait -- sh -c 'echo $PPID; grep SigIgn /proc/self/status' >said & echo $! >pid; wait $!)
	is "its parent" "$(head -n 1 said)" "$(cat pid)"
	is "where SIGCHLD is ignored" "$(status_of env --ignore-signal=CHLD "${RUN[@]}" --wait -- grep -E 'SigIgn:.*1....$' /proc/self/status)" 0
	end_run
}
row "--wait: the program is its child" test_wait_child
test_wait_signal() { # SIGNAL - the program prints its name
	begin_run
	"${RUN[@]}" --wait -- sh -c "trap 'echo $1; exit 3' $1; echo ready; while :; do sleep 0.01; done" >said 2>err &
	until_true "$PATIENCE" grep -q ready said || fail "it does not begin: $(cat err)"
	kill "-$1" $!
	local status=0
	wait $! || status=$?
	is "its exit status" "$status" 3
	is "what the program got" "$(tail -n 1 said)" "$1"
	end_run
}
row "--wait: SIGTERM is the program's" test_wait_signal TERM
row "--wait: SIGUSR1 is the program's" test_wait_signal USR1
test_wait_unprofiled() {
	begin_run
	is "its exit status" "$(status_of "${RUN[@]}" --wait --daemon /no/such -- sh -c 'exit 6' 2>said)" 6
	is "stderr" "$(wc -l <said) $(grep -c "cannot run /no/such: .*$IGNORED" said)" "1 1"
	is "no such program" "$(status_of "${RUN[@]}" --wait -- no-such 2>said)" 127
	is "under --strict" "$(status_of "${RUN[@]}" --wait --strict --daemon /no/such -- true 2>said)" 125
	end_run
}
row "--wait: without a profile" test_wait_unprofiled

test_output() { # as root, into a directory with files of root's in it: it stays as it is, and says so
	begin_run
	mkdir theirs && touch theirs/file
	"${RUN[@]}" --output "$ROW/theirs" true 2>said
	has "stderr" "$(cat said)" "theirs holds files of user 0: name a new directory, or give it to user [0-9]+$IGNORED"
	is "its owner and mode" "$(stat -c '%u %a' theirs)" "0 755"
	ln -s theirs link
	"${RUN[@]}" --output "$ROW/link" true 2>said
	has "stderr" "$(cat said)" "cannot open .*link: .*$IGNORED"
	end_run
}
row "as root, into somebody's directory" test_output
test_user_directory() { # its own directories stay, empty or not
	begin_run
	mkdir -m 777 out/empty
	"${NOBODY[@]}" "${RUN[@]}" "$LAB/bin/burn" 0.2 >/dev/null
	first_of burn >/dev/null
	[[ -d out/empty ]] || fail "an empty directory of the user's is gone"
	end_run
}
row "a user's own empty directory is not tidied away" test_user_directory
row "switched off" test_exit 0 '^$' --enabled=0 --daemon /no/such --events nonsense true

# --- at every step something goes wrong: the program runs, and one line says why there is no profile

runs() { # [WRAPPER...] - with RUN; leaves stderr in ./said
	local start=${EPOCHREALTIME/./} ms
	is "the exit status" "$(status_of "$@" "${RUN[@]}" -- sh -c 'echo it runs; exit 7' 2>said)" 7
	ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	((ms < START_MS)) || fail "it took $ms ms"
	has "its output" "$(cat said)" "it runs"
	(($(wc -l <said) <= 2)) || fail "more than one line: $(cat said)"
}
runs_anyway() { # REGEX [WRAPPER...]
	runs "${@:2}"
	has "stderr" "$(grep -v '^it runs$' said)" "^pillion run: $1; the program runs without a profile$"
}

fake_run() { # MODE
	rm -f "$SOCKET" fake.out # of the one before
	"$LAB/bin/peer" serve "$SOCKET" "$1" </dev/null >fake.out 2>&1 &
	FAKE=$!
	until_true "$PATIENCE" grep -qs ready fake.out || fail "no fake service: $(cat fake.out)"
}
fake_gone() {
	kill -KILL "$FAKE" 2>/dev/null || :
	wait "$FAKE" 2>/dev/null || :
	FAKE=
}
fake_session() { # MODE
	printf '#!/bin/sh\nexec %s session %s\n' "$LAB/bin/peer" "$1" >daemon
	chmod 755 daemon
}
fake_session_gone() { # one that stopped is there still: it would end when it runs on
	pkill -KILL -f "$LAB/bin/peer session" || :
}

test_deaf() {
	begin_run --budget 500ms
	fake_run deaf
	runs_anyway "pilliond at .* does not accept connections"
	fake_gone
	end_run
}
row "a service that accepts nothing" test_deaf

# The steps: 1 greeting, 2 description, then one message for each event (the peer takes one at a time).
LAST_STEP=$((2 + 2 * $(nproc)))
((LAST_STEP <= 6)) || LAST_STEP=6
test_steps() { # service|session FAULT REGEX [LAST-STEP]
	local step time
	begin_run --budget 500ms
	[[ $1 == service ]] || RUN+=(--daemon "$ROW/daemon")
	for ((step = 1; step <= ${4:-$LAST_STEP}; step++)); do
		for ((time = 0; time < ${TIMES:-1}; time++)); do
			"fake_${1/service/run}" "$2-$step"
			runs_anyway "$3"
			if [[ $1 == service ]]; then fake_gone; else fake_session_gone; fi
		done
	done
	end_run
}
GONE="the peer went away in the middle"
for who in service session; do
	row "a $who that falls silent, at each step" test_steps $who silent "the peer did not answer in time"
	row "a $who that talks garbage, at each step" test_steps $who garbage "the peer does not speak pillion's protocol"
	row "a $who of the next version, at each step" test_steps $who version "the peer speaks protocol version 4, .*"
	row "a $who that answers out of order" test_steps $who confused "(the peer answered with message type [0-9]+|$GONE)" 2
	row "a $who that refuses, at each step" test_steps $who refuse "refused: not today"
	row "a $who that hangs up, at each step" test_steps $who hangup "$GONE"
	row "a $who that is killed, at each step" test_steps $who die "$GONE"
	row "a $who that stops, at each step" test_steps $who stop "the peer did not answer in time"
done

test_daemon() { # SCRIPT REGEX - a session that is none; its socket is descriptor 3
	begin_run --budget 500ms --daemon "$ROW/daemon"
	printf '#!/bin/sh\n%s\n' "$1" >daemon
	chmod 755 daemon
	runs_anyway "$2" "${NOBODY[@]}"
	end_run
}
row "a session that ends at once" test_daemon "exit 0" "$GONE"
row "a session that crashes" test_daemon 'kill -SEGV $$' "$GONE"

# What nobody thought of: any one of the calls that we make fails, in any of these ways.
test_calls() { # service|session ERRNO
	local call
	begin_run --budget 500ms
	[[ $1 == session ]] || service_run
	for call in socket connect socketpair sendmsg recvmsg perf_event_open clone pipe2 eventfd2 getcwd prctl pidfd_open \
		getrlimit prlimit64 faccessat2 readlink sched_setaffinity setsid; do
		runs "$LAB/bin/deny" $call "$2"
	done
	[[ $1 == session ]] || kill -TERM "$SERVICE"
	end_run
}
for who in service session; do
	for errno in EMFILE ENOMEM EPERM; do
		row "a $who, and any one call fails with $errno" test_calls $who $errno
	done
done

test_denied_run() { # SYSCALL ERRNO REGEX
	begin_run --budget 500ms
	bare_daemon
	runs_anyway "$3" "$LAB/bin/deny" "$1" "$2"
	end_run
}
row "perf is forbidden" test_denied_run perf_event_open EACCES "refused: ring on a CPU: .*"
row "perf is forbidden by a seccomp filter" test_denied_run perf_event_open EPERM "refused: ring on a CPU: .*"
row "perf is not there" test_denied_run perf_event_open ENOSYS "refused: ring on a CPU: .*"
row "no descriptors for events" test_denied_run perf_event_open EMFILE "refused: ring on a CPU: .*"
row "no memory for events" test_denied_run perf_event_open ENOMEM "refused: ring on a CPU: .*"
row "no sockets" test_denied_run socketpair EMFILE "cannot make a socket pair: Too many open files"
row "nothing can be sent" test_denied_run sendmsg ENOMEM "cannot greet pilliond: .*Cannot allocate memory"
row "nothing can be received" test_denied_run recvmsg ENOMEM "receiving from the peer: Cannot allocate memory"

test_no_setting() {
	begin_run --budget 500ms
	bare_daemon
	runs_anyway "refused: ring on a CPU: this kernel has no perf events \\(CONFIG_PERF_EVENTS\\); nor by timers: .*" \
		unshare --mount sh -c 'mount -t tmpfs none /proc/sys/kernel && exec "$@"' sh \
		"$LAB/bin/deny" perf_event_open ENOSYS
	end_run
}
row "perf is not there, nor its setting" test_no_setting
test_no_proc() { # the program runs, and what can be profiled is
	begin_run
	runs unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh
	is "stderr" "$(cat said)" "it runs"
	end_run
}
row "no /proc" test_no_proc
test_full() { # a disk that is full
	begin_run
	mkdir full
	mount -t tmpfs -o size=64k,mode=777 none full
	dd if=/dev/zero of=full/all bs=1k 2>/dev/null || :
	"${NOBODY[@]}" "${RUN[@]}" --output "$ROW/full/out" -- "$LAB/bin/burn" 0.3 >burn.out 2>said || fail "exit status $?: $(cat said)"
	until_true "$PATIENCE" no_profiler || fail "a profiler is left"
	has "what is said" "$(cat said run/log 2>/dev/null)" 'No space left on device'
	is "what is left there" "$(find full -type f ! -name all | wc -l)" 0
	umount full
	end_run
}
row "a full disk" test_full

test_limits() { # LIMIT... - a user whom no service ran as: the kernel forgets to give locked memory back
	begin_run --budget 5s
	setpriv --reuid 65531 --regid 65531 --clear-groups --inh-caps=-all prlimit "$@" "${RUN[@]}" -- "$LAB/bin/burn" 0.3 >/dev/null 2>said || fail "exit status $?: $(cat said)"
	is "stderr" "$(cat said)" ""
	(($(folded_of burn | share 'burn_loop') >= 80)) || fail "burn_loop has not 80 %"
	end_run
}
row "16 descriptors, of which more may be asked for" test_limits --nofile=16:4096
row "no locked memory" test_limits --memlock=0:0

test_few_descriptors() {
	begin_run --budget 500ms
	runs_anyway "refused: pilliond is out of file descriptors.*" "${NOBODY[@]}" prlimit --nofile=16:16
	end_run
}
row "16 descriptors and no more" test_few_descriptors

test_no_processes() {
	begin_run --budget 500ms
	runs_anyway "cannot start a session: cannot fork its starter: Resource temporarily unavailable" \
		setpriv --reuid 65533 --regid 65533 --clear-groups --inh-caps=-all prlimit --nproc=1:1 --
	end_run
}
row "one process at most" test_no_processes

# --- no signal, no child: whatever becomes of the profiler

kill_profiler_at() { # MS
	until_true "$PATIENCE" any_profiler || return 0
	sleep "0.$(printf %03d "$1")"
	kill -KILL $(profilers) 2>/dev/null || :
}
test_slow_start() { # WRAPPER... - the daemon does nothing for longer than the budget
	begin_run --budget 200ms --daemon "$ROW/daemon"
	printf '#!/bin/sh\nexec sleep 1\n' >daemon
	chmod 755 daemon
	"$@" "${RUN[@]}" -- "$LAB/bin/sigcount" 1.5 >count 2>said || fail "$(cat count said)"
	is "what it saw" "$(tr '\n' ' ' <count)" "ready signals 0 waitpid ECHILD "
	end_run
}
test_no_signal() { # WRAPPER... - of `pillion run`
	local i killer
	begin_run
	for ((i = 1; i <= ${FULL:+20}+0 || i <= 5; i++)); do
		kill_profiler_at $((RANDOM % 400)) &
		killer=$!
		"$@" "${RUN[@]}" -- "$LAB/bin/sigcount" 0.7 >count 2>said || fail "run $i: $(cat count said)"
		is "what it saw, run $i" "$(tr '\n' ' ' <count)" "ready signals 0 waitpid ECHILD "
		has "stderr, run $i" "$(cat said)" "^(pillion run: the peer went away in the middle; the program runs without a profile)?$"
		wait $killer
		until_true "$PATIENCE" no_profiler || fail "a profiler is left"
	done
	end_run
}
row "a child subreaper that ignores SIGCHLD" test_identity 'trap "" CHLD; exec "$@"' "$LAB/bin/identity" --subreaper
test_pending_namespace() { # what pillion must not do: be PID 1 there, and end it
	begin_run
	is "what it can do" "$(unshare --pid "${RUN[@]}" sh -c 'sh -c "echo forks"' 2>said)" forks
	has "stderr" "$(cat said)" "would be born into another pid namespace$IGNORED"
	end_run
}
row "a process whose children are born into a new pid namespace" test_pending_namespace
row "a session that starts too slowly, below PID 1" test_slow_start unshare --fork --pid --mount-proc --kill-child
row "a session that starts too slowly, below a subreaper" test_slow_start "$LAB/bin/identity" --subreaper
row "an ordinary process whose profiler is killed" test_no_signal "${NOBODY[@]}"
row "PID 1 whose profiler is killed" test_no_signal unshare --fork --pid --mount-proc --kill-child
row "a child subreaper whose profiler is killed" test_no_signal "$LAB/bin/identity" --subreaper

# What PID 1 can see of the keeper when it looks closely, and when somebody kills the keeper: profiler/limits.md.
test_keeper() { # KILL|- ARGUMENT WHAT-IT-SEES
	local init keeper
	begin_run
	unshare --fork --pid --mount-proc --kill-child "${RUN[@]}" -- "$LAB/bin/sigcount" 1 $2 >count &
	until_true "$PATIENCE" grep -q ready count || fail "it does not run"
	init=$(child_of $!)
	keeper=$(child_of "$init")
	is "its only child" "$(cat "/proc/$keeper/comm") $(wc -w <"/proc/$init/task/$init/children")" "pillion-keeper 1"
	is "capabilities of the keeper" "$(grep -h '^CapEff' "/proc/$keeper/status" | cut -f2)" 0000000000000000
	[[ $1 == - ]] || kill -KILL "$keeper"
	wait $! || :
	has "what it saw" "$(tr '\n' ' ' <count)" "^ready $3 $"
	end_run
}
child_of() { { read -r child _ <"/proc/$1/task/$1/children" || :; } 2>/dev/null; echo "${child:-1}"; }
row "PID 1 finds its keeper by waitpid with __WALL alone" test_keeper - all "signals 0 waitpid has children"
row "PID 1 whose keeper is killed gets one SIGCHLD" test_keeper KILL "" "signal 17 .*signals 1 waitpid has children"

test_plain_double_fork() { # so that the row above can fail
	begin_run
	is "the exit status" "$(status_of unshare --fork --pid --mount-proc --kill-child sh -c \
		'(sleep 0.3 & exit 0); exec "$@"' sh "$LAB/bin/sigcount" 0.7 2>count)" 1
	has "what it saw" "$(tr '\n' ' ' <count)" "signal 17 .*waitpid has children"
	end_run
}
row "PID 1 whose plain double-forked helper ends sees it" test_plain_double_fork

test_pid_1() { # the last window is lost with PID 1; the ones before are not, and the profile says so
	begin_run --window 5s
	unshare --fork --pid --mount-proc --kill-child "${RUN[@]}" -- sh -c "$LAB/bin/burn 1; exec $LAB/bin/sleeper" &
	local outside=$!
	first_of sh >/dev/null
	kill -KILL "$outside" # and with it PID 1
	(($(folded_of sh | share 'burn_loop') >= 90)) || fail "burn_loop has not 90 %"
	has "a comment" "$(comments_of sh)" "PID 1 and ends us with itself"
	end_run
}
row "PID 1 is profiled, but for its last window" test_pid_1

# --- the administrator's switch, in an /etc of its own

test_run_off() {
	begin_run
	mkdir upper work
	printf '%s\n' '#!/bin/sh' 'mount -t overlay overlay -o lowerdir=/etc,upperdir=upper,workdir=work /etc || exit' \
		'umask 077' "$LAB/bin/pillion off >off || exit" 'exec "$@"' >within
	unshare --mount --propagation private sh within "${RUN[@]}" -- "$LAB/bin/burn" 0.2 >burned 2>said || fail "$(cat said)"
	is "what 'off' says" "$(cat off)" "off: nothing is profiled on this host, until 'pillion on'"
	is "its file, and where a profiler of another user looks for it" "$(stat -c %a upper/pillion/off upper/pillion | xargs)" "644 755"
	has "the program" "$(cat burned)" '^burn_loop '
	is "stderr" "$(cat said)" "pillion run: switched off on this host ('pillion on' ends that): the program runs without a profile"
	is "profiles" "$(find out -type f | wc -l)" 0
	end_run
}
row "switched off: the program runs, and is told why it has no profile" test_run_off
