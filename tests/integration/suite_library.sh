# suite_library - a program that asks for its own profile: pillion_start(), or PILLION_EVENTS in its environment; and that
# it never notices, whatever becomes of the profiler.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-opener targets/asks tools/deny
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program
ln -sf libpillion.so "$LAB/bin/libpillion.so.0"

begin_asks() { # sets ASKS: a command that runs in a known environment
	need_root
	chmod 755 "$LAB" .
	mkdir -m 777 -p out run run/user
	output_by_file
	SOCKET=$ROW/run/control.sock
	ASKS=(env PILLION_BUDGET=5s "PILLION_DAEMON=$LAB/bin/pilliond" "PILLION_CONTROL=$SOCKET" "PILLION_CONFIG=$ROW/output.conf"
		"PILLION_LOG=$ROW/run/log" "XDG_RUNTIME_DIR=$ROW/run/user")
	leak_mark
}
no_sockets() { # of those that it told of
	local path
	for path in $(sed -n 's/^socket //p' said); do [[ ! -e $path ]] || return; done
}
end_asks() {
	until_true 20 no_profiler || fail "a profiler is left: $(profilers | xargs -n1 -I{} tr '\0' ' ' </proc/{}/cmdline)"
	until_true 5 no_sockets || fail "a socket is left: $(cat said)"
	cgroups_remove '*/pillion/session-*'
	leak_check
}
settle() { [[ -n ${SERVICE-} ]] || until_true 20 no_profiler || fail "a profiler is left: $(profilers | xargs)"; }
sum_of() { # TYPE REGEX - in millions, of the profiles of asks
	local kind=-cpu
	settle
	[[ $1 == cpu ]] || kind=-alloc
	profiles_of asks | grep -- $kind | xargs "$LAB/bin/pillion" report --folded --type "$1" |
		awk -v re="$2" '$0 ~ re { n += $NF } END { printf "%d", n / 1e6 }'
}
library() { named pillion-library; }
says() { grep -qE "$1" said || fail "it does not say $1: $(cat said)"; }
says_not() { ! grep -qE "$1" said || fail "it says: $(cat said)"; }
is_unharmed() { # nothing to wait for, no signal
	says '^children 0 signals 0$'
	says_not '^children [1-9]|^children 0 signals [1-9]'
}
shows() { # FUNCTION PERCENT TYPE - of the profiles of asks
	local kind=-cpu
	[[ $3 == cpu ]] || kind=-alloc
	first_of asks >/dev/null
	local got
	settle
	profiles_of asks | grep -- $kind | xargs "$LAB/bin/pillion" report --folded --type "$3" >folded
	got=$(share "$1" <folded)
	((got >= $2)) || fail "$1 has $got % of $3, not $2: $(cat run/log folded 2>/dev/null)"
	! grep -q '\[lost' folded || has "the comments" "$(profiles_of asks | grep -- $kind | xargs gunzip -c | tr -c '[:print:]' '\n')" '\[lost'
}
# What asks says as it comes to an `until`, and where it goes on.
comes_to() { until_true 60 came_to "$@" || fail "it does not come to $1: $(cat said)"; } # FILE [TIMES]
came_to() { (($({ grep -c "^until $1$" said || :; } 2>/dev/null) >= ${2:-1})); }

# --- it is profiled

EVERYTHING=(start=cpu,alloc/32768 work=0.4 alloc=30000 socket tell stop socket tell)
test_asks() { # COMMAND... - runs it under
	begin_asks
	"${ASKS[@]}" "$@" "$LAB/bin/asks" "${EVERYTHING[@]}" >said || fail "exit status $?: $(cat said)"
	says '^start 0 ' && says '^stop 0$' && says '^socket /' && says '^socket unset$'
	is_unharmed
	shows 'asks_work' 80 cpu
	shows 'asks_alloc[ ;]' 90 alloc_space
	end_asks
}
row "it starts and stops: its profile is there as it has stopped, and nothing is left" test_asks env
row "a plain user" test_asks "${NOBODY[@]}"
row "PID 1" test_asks unshare --pid --fork --mount-proc
row "perf events are refused: by timers" test_asks "$LAB/bin/deny" perf_event_open EPERM

test_subreaper() { # no child, no signal, also as what was started ends
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" subreaper "${EVERYTHING[@]}" sleep=0.5 tell start work=0.2 stop sleep=0.5 tell >said
	is_unharmed
	is "times" "$(grep -c '^children 0 signals 0$' said)" 4
	is "stops" "$(grep -c '^stop 0$' said)" 2
	shows 'asks_work' 80 cpu
	end_asks
}
row "a child subreaper, twice: nothing to wait for, no signal" test_subreaper

test_again() {
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" start=cpu work=0.2 stop work=0.3 start=alloc/32768 alloc=30000 stop start=cpu work=0.2 tell >said
	is "starts" "$(grep -c '^start 0 ' said)" 3
	is_unharmed
	shows 'asks_work' 80 cpu
	shows 'asks_alloc[ ;]' 90 alloc_space
	near "ms of CPU, but for those between" "$(sum_of cpu 'asks_work')" 400 15
	end_asks
}
row "it stops and starts again; what was between is not in it; the last one ends with it" test_again

test_environment() { # COMMAND... - PILLION_EVENTS, and the library is preloaded
	begin_asks
	"${ASKS[@]}" PILLION_EVENTS=cpu,alloc/32768 "LD_PRELOAD=$LAB/bin/libpillion.so" \
		sh -c "$LAB/bin/burn 0.3; $LAB/bin/asks alloc=30000 socket & wait; exit 7" >said && fail "exit status 0"
	is "exit status" "$?" 7
	says '^socket /'
	first_of sh >/dev/null
	(($(profiles_of sh | grep -- -cpu | xargs "$LAB/bin/pillion" report --folded --type cpu | share burn_loop) >= 70)) ||
		fail "burn_loop has no 70 %"
	(($(profiles_of sh | grep -- -alloc | xargs "$LAB/bin/pillion" report --folded --type alloc_space | share 'asks_alloc[ ;]') >= 70)) ||
		fail "asks_alloc has no 70 %"
	end_asks
}
row "by the environment: one session for a shell and its programs" test_environment

test_not_wanted() { # VARIABLE
	begin_asks
	"${ASKS[@]}" "$@" "LD_PRELOAD=$LAB/bin/libpillion.so" "$LAB/bin/asks" socket tell >said
	says '^socket unset$'
	is_unharmed
	is "profiles" "$(find out -name '*.gz')" ""
	end_asks
}
row "the environment says off" test_not_wanted PILLION_EVENTS=off
row "the environment says that pillion is not enabled" test_not_wanted PILLION_EVENTS=cpu PILLION_ENABLED=0

test_one() { # PROCESSES ACTION... - that start at the same time: one session
	begin_asks
	local times=$1
	"${ASKS[@]}" "$LAB/bin/asks" "${@:2}" tell >said &
	comes_to one $times
	is "sessions" "$(library | wc -l)" 1
	touch one
	wait $!
	says_not '^start -'
	end_asks
}
library_there() { [[ -n $(library) ]]; }
row "four threads at once: one session" test_one 1 both=cpu until=one
row "a process and its child at once: one session" test_one 2 fork start=cpu until=one join

# MB that chance samples: one byte in 16384 gives 60 MB a standard deviation of 1.7 %, and 9 % are more than five of them. A busy
# machine loses some, and the profile says how much.
allocated() { near "MB" "$(sum_of alloc_space 'asks_alloc[ ;]|\\[lost')" "$1" 9; }
test_children() { # forked, and execed: each connects by itself
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" start=alloc/16384 fork alloc=30000 join exec alloc=30000 start tell >said
	is "starts" "$(grep -c '^start 0 ' said)" 2
	first_of asks >/dev/null
	allocated 90
	end_asks
}
row "children that are forked and execed have their samples in it" test_children

test_gone_thread() { # who has started it is no more
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" subreaper thread=start=cpu work=0.4 tell stop >said
	is_unharmed
	says '^stop 0$'
	shows 'asks_work' 80 cpu
	end_asks
}
row "the thread that has started it ends" test_gone_thread

test_in_service() {
	begin_asks
	service_run
	"${ASKS[@]}" "$LAB/bin/asks" start=cpu work=0.4 tell stop >said
	is_unharmed
	says '^stop 0$'
	shows 'asks_work' 80 cpu
	kill -TERM "$SERVICE"
	end_asks
}
row "a service that listens is used" test_in_service
test_output_beside_service() {
	begin_asks
	service_run
	"${ASKS[@]}" PILLION_OUTPUT="$ROW/out" "$LAB/bin/asks" start=cpu work=0.4 tell stop >said
	is_unharmed
	has "its profile" "$(first_of asks)" "^out/asks/"
	is "profiles in the service's spool" "$(find spool -name '*.pb.gz')" ""
	kill -TERM "$SERVICE"
	end_asks
}
row "PILLION_OUTPUT beside a service: a session of its own writes there" test_output_beside_service

test_under_run() { # it is there already, and not for the program to stop
	begin_asks
	"${ASKS[@]}" "$LAB/bin/pillion" run --events cpu,alloc/16384 -- "$LAB/bin/asks" start=cpu alloc=30000 stop alloc=30000 work=0.1 >said
	says '^start 0 ' && says '^stop -107$'
	allocated 60
	is "CPU profiles" "$(profiles_of asks | grep -c -- -cpu)" 1
	end_asks
}
row "under pillion run: that one is used" test_under_run

test_under_run_by_environment() { # which is run's, and not the library's
	begin_asks
	"${ASKS[@]}" PILLION_EVENTS=cpu "$LAB/bin/pillion" run -- env "LD_PRELOAD=$LAB/bin/libpillion.so" "$LAB/bin/asks" work=0.2 socket tell >said
	says '^socket unset$'
	is_unharmed
	settle
	is "CPU profiles" "$(find out -name '*-cpu.pb.gz' | grep -c .)" 1
	end_asks
}
row "under pillion run with PILLION_EVENTS: no session of its own" test_under_run_by_environment

# --- labels

by_label() { # KIND LABEL TYPE - "VALUE;FRAME... WEIGHT" of all samples of that kind
	settle
	profiles_of asks | grep -- "-$1" | xargs "$LAB/bin/pillion" report --folded --type "$3" --by "$2"
}
# Those of a label, of the threads' own time. As `spent` (spine.sh): less by what was lost meanwhile, which has no label, and by the ten
# periods that nothing is said of; more by what was taken from the machine.
spent_as() { # LABEL VALUE MS - of a profile at 499 Hz
	local there lost
	by_label cpu "$1" cpu >by_label
	there=$({ grep "^$2;" by_label || :; } | total_ms)
	lost=$(unsampled_ms <by_label)
	between "ms as $2" "$there" $(($3 / 4)) $(($3 * 21 / 20 + 20 + $(stolen_at_most)))
	between "ms as $2 and lost" $((there + lost)) $(($3 - 20)) 1000000
}
test_labels() { # COMMAND... - each kind of samples has those that its thread had then
	begin_asks
	"${ASKS[@]}" "$@" "$LAB/bin/asks" label=kind=early start=cpu@499,alloc/32768 work=0.5 label=kind=größe label=b=x \
		work=0.3 alloc=20000 label=kind work=0.2 label=b alloc=10000 stop tell >said
	is_unharmed
	first_of asks >/dev/null
	spent_as user.kind early 500
	spent_as user.kind größe 300
	spent_as user.b x 500
	between "percent of memory as größe" "$(by_label alloc user.kind alloc_space | share '^größe;')" 58 74
	between "percent of memory as early" "$(by_label alloc user.kind alloc_space | share "^early;")" 0 1
	end_asks
}
row "labels: by perf events, and of memory" test_labels env

test_labels_waiting() { # [COMMAND...] - a wait has those that its thread had as it began
	begin_asks
	"${ASKS[@]}" "$@" "$LAB/bin/asks" label=kind=early start=cpu,offcpu work=0.1 sleep=0.5 label=kind=größe work=0.1 sleep=1 \
		label=kind work=0.1 sleep=0.5 work=0.1 delayed stop tell >said
	is_unharmed
	first_of asks >/dev/null
	waited early 500
	waited größe 1000
	end_asks
}
waited() { # LABEL MS - and what it waited for a CPU meanwhile, at most all that the kernel has counted
	local ms delayed other
	settle
	delayed=$(sed -n 's/^delayed //p' said)
	profiles_of asks | grep -- -offcpu | xargs "$LAB/bin/pillion" report --folded --type offcpu --by user.kind >waits
	cat waits
	ms=$(awk -v label="^$1;" '$0 ~ label { n += $NF } END { printf "%d", n / 1e6 }' waits)
	# where threads are moved to and fro all the time, not every wait has a stack, and so a place to have a label
	other=$(awk '/\[stack not sampled\]/ { n += $NF } END { printf "%d", n / 1e6 }' waits)
	between "ms of waits as $1" "$ms" "$(($2 * 95 / 100 - other))" $(($2 * 105 / 100 + delayed))
}
row "labels: of waits" test_labels_waiting env
row "labels: of a plain user's waits, which are where it was seen last" test_labels_waiting "${NOBODY[@]}"

row "labels: by timers" test_labels "$LAB/bin/deny" perf_event_open EPERM

test_own_labels() {
	local i
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" start=cpu@499 own=8 own=8 stop >said
	says '^start 0 ' && says '^stop 0'
	first_of asks >/dev/null
	for i in 0 1 2 3 4 5 6 7; do
		spent_as user.kind w$i 400
	done
	end_asks
}
row "labels: eight threads, and eight more with the numbers of others" test_own_labels

# The worker dies, twice, each time when a label was set; the process has nothing to say for as long as that is what it works as.
test_labels_restarted() {
	begin_asks
	service_run
	"${ASKS[@]}" "$LAB/bin/asks" label=kind=a start=cpu@499 until=one work=0.4 until=two label=kind=b until=three work=0.4 stop >said &
	comes_to one
	worker_killed
	touch one
	comes_to two
	touch two
	comes_to three
	worker_killed
	touch three
	wait $!
	first_of asks >/dev/null
	(($(grep -c 'target=.* outcome=resumed' service.log) >= 2)) || fail "not resumed: $(cat service.log)"
	profiles_of asks | xargs "$LAB/bin/pillion" report --folded --type cpu --by user.kind | grep asks_work >folded
	! grep -v '^[ab];' folded || fail "of that nobody knows what it was"
	grep -q '^a;' folded && grep -q '^b;' folded || fail "not both are there: $(cat folded)" # but for what was not in the journal yet
	kill -TERM "$SERVICE"
	end_asks
}
worker_killed() { # and the next one has what it had
	local had
	had=$(times_resumed)
	kill -KILL "$(worker)"
	until_true 20 resumed_again "$had" || fail "it was not taken over: $(cat service.log)"
}
times_resumed() { grep -c 'outcome=resumed' service.log || :; }
resumed_again() { (($(times_resumed) > $1)); }
row "labels: a worker killed twice" test_labels_restarted

test_many_labels() { # as fast as they can be set, and while nobody reads: what is known is right, and what is not is said
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" start=cpu labels=2000000 until=one labels=20000 label=kind=c until=two work=0.3 stop tell >said &
	comes_to one
	kill -STOP "$(worker)"
	touch one
	comes_to two
	kill -CONT "$(worker)"
	touch two
	wait $!
	is_unharmed
	first_of asks >/dev/null
	has "comments" "$(profiles_of asks | xargs gunzip -c | tr -c '[:print:]' '\n')" 'labels changed more often than they were read, [0-9]+ times unseen'
	settle
	(($(profiles_of asks | grep -- -cpu | xargs "$LAB/bin/pillion" report --folded --type cpu --by user.kind |
		grep asks_work | share '^c;') >= 95)) || fail "asks_work is not c's"
	end_asks
}
row "labels: millions of changes" test_many_labels

# --- what may be wrong

test_stale() { # PATH - in PILLION_SOCKET; one without a slash is the row's
	begin_asks
	[[ $1 == */* ]] || set -- "$ROW/run/user/$1"
	perl -e 'use IO::Socket::UNIX; IO::Socket::UNIX->new(Type => SOCK_SEQPACKET, Local => $ARGV[0])' "$ROW/run/user/stale"
	perl -e 'use IO::Socket::UNIX; $< = $> = 65533; my $s = IO::Socket::UNIX->new(Type => SOCK_SEQPACKET, Local => $ARGV[0], Listen => 5)
		or die; chmod 0777, $ARGV[0]; sleep 60' "$ROW/run/user/others" &
	until_true 5 test -S run/user/others
	"${ASKS[@]}" "PILLION_SOCKET=$1" "$LAB/bin/asks" start=cpu work=0.3 tell stop >said
	is_unharmed
	says '^start 0 '
	shows 'asks_work' 80 cpu
	"${ASKS[@]}" "PILLION_SOCKET=$1" PILLION_EVENTS=cpu "LD_PRELOAD=$LAB/bin/libpillion.so" "$LAB/bin/burn" 0.3 >said
	first_of burn >/dev/null
	kill %1
	end_asks
}
row "PILLION_SOCKET of one that is gone: another one" test_stale stale
row "PILLION_SOCKET that is too long: another one" test_stale "/$(printf '%0200d' 0)"
row "PILLION_SOCKET that is no socket: another one" test_stale "/etc/passwd"
row "PILLION_SOCKET of another user: another one" test_stale others

refused() { # SENTENCE ACTION... - after what begin_asks and ASKS say: it is told so, and goes on unharmed
	local sentence=$1 began=${EPOCHREALTIME/./}
	shift
	[[ "$*" == *start=* ]] || set -- "$@" start=cpu
	"${ASKS[@]}" "$LAB/bin/asks" "$@" socket tell work=0.05 alloc=1000 >said || fail "exit status $?: $(cat said)"
	(((${EPOCHREALTIME/./} - began) / 1000 < 8000)) || fail "it was held up"
	says "^start -[0-9]+ .*$sentence"
	says '^socket unset$'
	is_unharmed
	is "lines" "$(wc -l <said)" 3
	end_asks
}
test_daemon() { # SENTENCE PROGRAM
	begin_asks
	printf '#!/bin/sh\n%s\n' "$2" >"$ROW/run/daemon"
	[[ $2 == none ]] || chmod 755 "$ROW/run/daemon"
	ASKS+=("PILLION_DAEMON=$ROW/run/daemon" PILLION_BUDGET=300ms)
	refused "$1"
}
row "pilliond may not be executed" test_daemon 'cannot run .*/daemon: it may not be executed' none
row "pilliond dies before it listens" test_daemon 'daemon ended before it listened, without a word' 'kill -9 $$'
row "pilliond says nothing" test_daemon 'daemon was started and has said nothing within its budget' 'exec sleep 3'
row "pilliond is of another version: it does not know of this" test_daemon 'daemon ended before it listened' 'exit 1'
row "pilliond is of another version: it says something else" test_daemon 'daemon is of another version' 'printf hello >&3'

test_no_daemon() { # COMMAND...
	begin_asks
	ASKS+=(PILLION_DAEMON=/nowhere/pilliond "$@")
	refused 'cannot run /nowhere/pilliond: there is no such program'
	refused 'cannot run /nowhere/pilliond: there is no such program' subreaper
}
row "there is no pilliond" test_no_daemon
row "there is no pilliond, for PID 1" test_no_daemon unshare --pid --fork --mount-proc

test_told() { # SENTENCE ACTION... -- COMMAND...
	local sentence=$1 actions=()
	while shift && [[ $1 != -- ]]; do actions+=("$1"); done
	begin_asks
	ASKS+=("${@:2}")
	refused "$sentence" ${actions[@]+"${actions[@]}"}
}
row "memfd_create is refused" test_told 'memfd_create is refused' -- "$LAB/bin/deny" memfd_create EPERM
row "processes are refused" test_told 'cannot fork for .*pilliond: not permitted' -- "$LAB/bin/deny" clone EPERM
row "no descriptor is left" test_told 'this process has no descriptor left' nofile=0 --
row "none but one is left" test_told 'this process has no descriptor left' nofile=2 --
row "an event that is none" test_told 'nonsense' start=nonsense --

test_closes() { # all descriptors are closed while it is profiled
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" start=cpu,alloc/16384 alloc=30000 close work=0.3 alloc=30000 tell stop start tell >said
	is_unharmed
	says '^stop -107$'
	shows 'asks_work' 80 cpu
	shows 'asks_alloc[ ;]' 90 alloc_space
	allocated 60 # the worker is woken for it no more, and some is lost
	end_asks
}
row "it closes all descriptors: it is profiled to its end" test_closes

test_setuid() { # linked with the archive, as nothing is found beside such a program
	begin_asks
	gcc -O1 -I"$TOP" -D_GNU_SOURCE -o ./asks "$TOP/tests/targets/asks.c" "${B%/*}/release/libpillion.a" -pthread
	ASKS+=(PILLION_EVENTS=cpu "${NOBODY[@]}" "$ROW/asks")
	chmod 4755 ./asks
	"${ASKS[@]}" socket start=cpu tell >said
	says '^start -1 a program with more rights than its user \(setuid\)'
	is_unharmed
	is "profiles" "$(find out -name '*.gz')" ""
	chmod 755 ./asks
	"${ASKS[@]}" socket work=0.3 tell stop >said
	says '^socket /' && says '^stop 0$'
	shows 'asks_work' 80 cpu
	end_asks
}
row "a setuid program is not profiled; the same without is" test_setuid

test_early() { # linked with the archive, behind a constructor that comes first
	begin_asks
	cat >early.c <<-'C'
		#include "shim/libpillion/pillion.h"
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		__attribute__((constructor(101))) static void ask_first(void)
		{
			char said[256] = "";
			const struct pillion_start_options o = {.events = "cpu,crash"};
			if (pillion_start(&o, said, sizeof(said)) < 0)
				exit(fprintf(stderr, "%s\n", said));
		}
		int main(void)
		{
			raise(SIGABRT);
			return 0;
		}
	C
	gcc -O1 -I"$TOP" -o ./early early.c "${B%/*}/release/libpillion.a" -pthread
	(ulimit -c 0 && exec "${ASKS[@]}" "PILLION_OUTPUT=$ROW/out" ./early) >said 2>&1 && fail "it does not crash" || :
	is "what it says" "$(cat said)" ""
	until_true 20 eval '[[ -n $(find out -path "*/crashes/*.json") ]]' || fail "no report of its crash: $(cat run/log; find out)"
	until_true 20 no_profiler || fail "a profiler is left"
	cgroups_remove '*/pillion/session-*'
	leak_check
}
row "pillion_start in a constructor that comes before libpillion's: its crash is reported" test_early

test_session_dies() { # SIGNAL
	begin_asks
	"${ASKS[@]}" "$LAB/bin/asks" start=cpu,alloc/4096 work=0.1 until=one tell alloc=1000 start=cpu work=0.1 stop tell >said &
	comes_to one
	kill -KILL $(profilers) 2>/dev/null || : # some end when others have
	until_true 10 no_profiler || fail "it lives on"
	touch one
	wait $! || fail "exit status $?"
	is "starts" "$(grep -c '^start 0 ' said)" 2
	is_unharmed
	says '^stop 0$'
	end_asks
}
row "the profiler is killed: the program goes on, and may start another one" test_session_dies

test_musl() {
	need musl-gcc
	begin_asks
	musl-gcc -O1 -g -I"$TOP" -D_GNU_SOURCE -idirafter /usr/include -idirafter "/usr/include/$(gcc -print-multiarch)" \
		-o ./asks "$TOP/tests/targets/asks.c" -L"$LAB/bin" -lpillion -Wl,-rpath,"$LAB/bin"
	"${ASKS[@]}" ./asks "${EVERYTHING[@]}" >said
	is_unharmed
	shows 'asks_work' 80 cpu
	shows 'asks_alloc[ ;]' 80 alloc_space
	rm -rf out/*
	"${ASKS[@]}" PILLION_EVENTS=cpu ./asks socket exec socket work=0.3 stop >said
	is "with a socket" "$(grep -c '^socket /' said)" 2
	shows 'asks_work' 80 cpu
	end_asks
}
row "a program of musl's" test_musl
