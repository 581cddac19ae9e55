# suite_calls - `pillion run --events calls`: every call of a program that is built with -finstrument-functions, in profiles;
# each once, whatever becomes of the program or of the profiler. tests/targets/traced.c says what it calls.

. "$TOP/tests/integration/wrapped.sh"
. "$TOP/tests/integration/plugins.sh"
lab_install tools/deny targets/traced
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program

# what is there of these in all windows, as "PATH COUNT" without the process
calls() { # NAME [TYPE]
	profiles_of "$1" | grep -- -calls | xargs "$LAB/bin/pillion" report --folded --type "${2:-calls}" | sed 's/^[^;]*;//' | sort
}
calls_are() { # NAME PATH COUNT... - these and no others
	first_of "$1" >/dev/null
	calls "$1" >paths
	printf '%s %s\n' "${@:2}" | sort >wanted
	diff wanted paths || fail "other paths: $(cat paths)"
}
calls_of() { # NAME FUNCTION - on all paths
	calls "$1" | awk -v f="$2" '{ n = $NF; sub(/ [^ ]*$/, ""); sub(/.*;/, "") } $0 == f { sum += n } END { print sum + 0 }'
}
types_of() { go tool pprof -raw "$(first_of "$1")" 2>/dev/null | sed -n '/^Samples:/{n;p}'; }

test_fib() {
	begin_run --events calls
	is "its output" "$("${RUN[@]}" -- "$LAB/bin/traced" fib 30)" 832040
	calls_are traced main 1 'main;fib_all' 1 'main;fib_all;fib' 1 'main;fib_all;fib;fib' 1346269 'main;fib_all;fib;fib;fib' 1346267
	has "types" "$(types_of traced)" '^calls/count[^ ]* *$'
	has "a comment" "$(comments_of traced)" 'calls: all, in 1 processes with libpillion'
	end_run
}
row "fib(30) is called 2,692,537 times" test_fib

test_time() {
	local ns began=${EPOCHREALTIME/./}
	begin_run --events calls:time
	"${RUN[@]}" -- "$LAB/bin/traced" steady 500 >said
	local took=$(((${EPOCHREALTIME/./} - began) / 1000))
	first_of traced >/dev/null
	is "calls of leaf" "$(calls_of traced leaf)" "$(tail -n 1 said)"
	has "types" "$(types_of traced)" '^calls/count time/nanoseconds'
	ns=$(calls traced time | awk '{ n += $NF } END { printf "%.0f", n }')
	between "ms in functions" $((ns / 1000000)) 490 $took # it sleeps in one of them
	end_run
}
row "and the time that they take" test_time

test_threads() {
	begin_run --events calls
	"${RUN[@]}" -- "$LAB/bin/traced" threads 300000
	calls_are traced main 1 'main;threads' 1 worker 4 'worker;leaf' 1200000
	end_run
}
row "threads sum exactly" test_threads

test_forks() {
	begin_run --events calls
	"${RUN[@]}" -- "$LAB/bin/traced" forks 100 >/dev/null
	calls_are traced main 1 'main;forks' 1 'main;forks;after' 100 'main;forks;after;leaf' 100 'main;forks;leaf' 2 \
		child_calls 1 'child_calls;after' 100 'child_calls;after;leaf' 100
	end_run
}
row "a forked child, and children of vfork" test_forks

test_again() { # with the names of either program
	begin_run --events calls
	"${RUN[@]}" -- "$LAB/bin/traced" again 200 >said
	first_of traced >/dev/null
	is "calls of leaf" "$(calls_of traced leaf)" $((2 * $(tail -n 1 said)))
	is "without a name" "$(calls traced | grep -c unknown)" 0
	end_run
}
row "a program that becomes another one" test_again

test_dlclose() {
	begin_run --events calls
	make_plugins
	chmod 755 loader ./*.so
	is "where they lie" "$("${RUN[@]}" -- ./loader ./first.so ./second.so)" same
	calls_are loader main 1 'main;begin' 6 'main;begin;first' 30 'main;begin;second' 300
	end_run
}
row "libraries that take turns at one address" test_dlclose

test_windows() { # what was told is not told again
	local i
	begin_run --events calls --window 5s
	"${RUN[@]}" -- "$LAB/bin/traced" steady 12000 >said
	until_true 20 eval '(($(profiles_of traced | wc -l) >= 3))' || fail "profiles: $(profiles_of traced)"
	until_true 20 no_profiler || fail "a profiler is left"
	is "calls of leaf" "$(calls_of traced leaf)" "$(tail -n 1 said)"
	is "calls of main" "$(calls_of traced main)" 1
	for i in $(profiles_of traced | sed -n 1,2p); do
		(($("$LAB/bin/pillion" report --folded "$i" | awk '{ n += $NF } END { print n }') >= 10000)) || fail "$i has less"
	done
	end_run
}
row "windows: each call in one of them" test_windows

test_killed_program() { # by a signal that it cannot see
	begin_run --events calls
	"${RUN[@]}" -- "$LAB/bin/traced" steady 100000 >said 2>/dev/null &
	until_true 10 eval '(($(wc -l <said) > 20))' || fail "it does not run"
	kill -KILL $!
	wait $! 2>/dev/null || :
	first_of traced >/dev/null
	# what it said, and at most the thousand after that
	between "calls of leaf" "$(calls_of traced leaf)" "$(tail -n 1 said)" $(($(tail -n 1 said) + 1000))
	end_run
}
row "a program that is killed" test_killed_program

test_worker_killed() { # STRATEGY - three times; the third time the program is killed while there is nobody
	local i run
	begin_run --events calls
	service_run
	run=("${RUN[@]}")
	[[ $1 != timers ]] || run=("$LAB/bin/deny" perf_event_open EPERM "${run[@]}")
	"${run[@]}" -- "$LAB/bin/traced" steady 100000 >said 2>/dev/null &
	for i in 1 2 3; do
		sleep 1.3
		until_true 5 has_worker || fail "there is no worker: $(cat service.log)"
		((i < 3)) || kill -STOP "$SERVICE"
		kill -KILL "$(worker)"
	done
	sleep 0.3
	kill -KILL $!
	wait $! 2>/dev/null || :
	kill -CONT "$SERVICE"
	ENDS=70 first_of traced >/dev/null
	between "calls of leaf" "$(calls_of traced leaf)" "$(tail -n 1 said)" $(($(tail -n 1 said) + 1000))
	is "calls of main" "$(calls_of traced main)" 1
	is "without a name" "$(calls traced | grep -c unknown)" 0
	kill -TERM "$SERVICE"
	end_run
}
row "a worker killed three times, and the program while there is none" test_worker_killed events

test_no_perf() {
	begin_run --events calls
	"$LAB/bin/deny" perf_event_open EPERM "${RUN[@]}" -- "$LAB/bin/traced" forks 100 >/dev/null 2>said
	has "stderr" "$(cat said)" '^pillion run: only processes with libpillion are known: perf_event_open: .* forbids'
	calls_are traced main 1 'main;forks' 1 'main;forks;after' 100 'main;forks;after;leaf' 100 'main;forks;leaf' 2 \
		child_calls 1 'child_calls;after' 100 'child_calls;after;leaf' 100
	end_run
}
row "where perf events are refused" test_no_perf

test_plugins_no_perf() {
	begin_run --events calls
	make_plugins
	chmod 755 loader ./*.so
	"$LAB/bin/deny" perf_event_open EPERM "${RUN[@]}" -- ./loader ./first.so ./second.so >said 2>/dev/null
	calls_are loader main 1 'main;begin' 6 'main;begin;first' 30 'main;begin;second' 300
	end_run
}
row "where perf events are refused: libraries that come later" test_plugins_no_perf

test_beside() { # other events
	begin_run --events calls,cpu@999,alloc/4096
	"${RUN[@]}" -- "$LAB/bin/traced" fib 32 >/dev/null
	first_of traced >/dev/null
	is "its profiles" "$(profiles_of traced | sed 's/.*-//' | sort | tr '\n' ' ')" "alloc.pb.gz calls.pb.gz cpu.pb.gz "
	is "calls of fib" "$(calls_of traced fib)" 7049155
	has "CPU time" "$(profiles_of traced | grep -- -cpu | xargs "$LAB/bin/pillion" report --folded)" ';fib;fib'
	end_run
}
row "beside cpu and alloc" test_beside

test_uninstrumented() {
	begin_run --events calls
	is "its output" "$("${RUN[@]}" -- sh -c 'echo a')" a
	has "a comment" "$(comments_of sh)" 'there were none: functions are counted that are compiled with -finstrument-functions'
	end_run
}
row "a program without such functions: told so" test_uninstrumented

test_own_file() { # the program's own tree is its own
	begin_run --events calls
	PILLION_TREE=$ROW/run/tree "${RUN[@]}" -- "$LAB/bin/traced" fib 20 >/dev/null
	has "its tree" "$("$LAB/bin/pillion" tree --folded run/tree)" 'main;fib_all;fib;fib 10946'
	first_of traced >/dev/null
	end_run
}
row "PILLION_TREE as well: into that file" test_own_file

test_mistake() { # EVENTS REGEX
	begin_run --events "$1"
	"${RUN[@]}" -- true 2>said
	has "stderr" "$(cat said)" "$2"
	is "lines" "$(wc -l <said)" 1
	end_run
}
row "calls with an option that they have not" test_mistake calls:min=3 'events, column 1: calls takes time, as in calls:time'
row "calls with a period" test_mistake calls/5 'events, column 1: calls are counted all: there is no period'
