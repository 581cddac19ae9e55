# suite_restart - processes of a service that die, are killed, or are somebody else's by now: what it profiles goes on.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-hook pillion-opener targets/threads targets/libtaken.so
ROW_TIMEOUT=120

begin_service() { # [VARIABLE=VALUE...] - of its environment
	begin_run --window 5s
	need jq gcc
	PS=("$LAB/bin/pillion" ps --control "$SOCKET")
	mkdir -p spool
	start_service "$@"
}
start_service() {
	: >service.state
	env INVOCATION_ID=x "$@" "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info --metrics "$ROW/run/http.sock" </dev/null >>service.out 2>&1 &
	SERVICE=$!
	until_true 10 grep -qs "pid=$SERVICE state=ready" service.log || fail "no service: $(cat service.log service.out)"
}
end_service() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	end_run
}
kill_worker() { # SIGNAL
	until_true 5 has_worker || fail "there is no worker: $(cat service.log)"
	kill "-$1" "$(worker)"
}
lines_of() { grep -c "$1" service.log || :; }
ask() { # JQ-FILTER
	"${PS[@]}" --json >list.json 2>/dev/null && jq -r "$1" list.json
}
started() { # NAMES, sorted
	[[ $(ask 'map(select(.state == "started") | if .name == "" then .id else .name end) | sort | join(" ")') == "$1" ]]
}
seconds_of() { # NAME - of all its samples, losses included
	profiles_of "$1" | while read -r file; do
		"$LAB/bin/pillion" report --folded "$file"
	done | awk '{ n += $NF } END { printf "%.2f", n / 1e9 }'
}

# --- who may what

test_roles() {
	local pid field value
	begin_service
	"${RUN[@]}" -- "$LAB/bin/burn" 3 >/dev/null &
	until_true 10 started burn || fail "not profiled: $(cat service.log)"
	is "processes" "$(for pid in $(profilers); do cat "/proc/$pid/comm"; done | sed 's/^exe$/pilliond/' | sort -u | xargs)" \
		"pilliond pilliond-export pilliond-files pilliond-fork pilliond-names pilliond-worker"
	for pid in $(profilers); do
		for field in CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapAmb:0000000000000000 \
			NoNewPrivs:1 Seccomp:2; do
			value=$(sed -n "s/^${field%:*}:\t//p" "/proc/$pid/status")
			is "$(cat "/proc/$pid/comm")'s ${field%:*}" "$value" "${field#*:}"
		done
		is "users of $(cat "/proc/$pid/comm")" "$(sed -n 's/^Uid:\t//p' "/proc/$pid/status" | tr '\t' '\n' | sort -u | wc -l)" 1
		[[ $(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status") != 0 ]] || fail "$pid is root's"
	done
	wait %2
	end_service
}
row "no process of it has a privilege, each a seccomp role" test_roles

test_taken_over() {
	local attempt result
	truncate -s 4096 taken
	chmod 666 taken
	begin_service TAKEN="$ROW/taken" LD_PRELOAD="$LAB/bin/libtaken.so"
	"${RUN[@]}" -- "$LAB/bin/burn" 4 >/dev/null &
	until_true 10 started burn || fail "not profiled: $(cat service.log)"
	printf 'go\n' | dd of=taken conv=notrunc status=none
	until_true 10 grep -qsa done taken || fail "it did not do what it was told: $(tr -d '\0' <taken)"
	tr -d '\0' <taken >attempts
	[[ $(grep -c . attempts) -gt 20 ]] || fail "attempts: $(cat attempts)"
	while read -r attempt result; do
		[[ $attempt == done || $result == -1 ]] || fail "$attempt came to $result"
	done <attempts
	wait %2
	until_true 10 written burn || fail "no profile: $(cat service.log)"
	end_service
}
row "a worker taken over opens nothing, starts nothing, reaches nobody" test_taken_over

# Who reads files for it reads no Pod's secrets: of a volume that the container has mounted, readable for all, it gets
# programs and nothing else, by whichever name.
test_taken_over_secrets() {
	local wanted="readable for all"
	truncate -s 4096 taken
	chmod 666 taken
	mkdir -m 755 secrets
	mount -t tmpfs -o mode=755 secrets secrets
	echo "$wanted" >secrets/token
	chmod 644 secrets/token
	cp "$LAB/bin/burn" secrets/program
	cp secrets/program secrets/core
	printf '\4' | dd of=secrets/core bs=1 seek=16 conv=notrunc status=none # ET_CORE
	cp secrets/token secrets/perf-7.map
	begin_service TAKEN="$ROW/taken" LD_PRELOAD="$LAB/bin/libtaken.so"
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond")
	ct_start runc c1 -a io.pillion.profile=cpu -v "$ROW/secrets:/run/secrets:ro" -- sh -c \
		"ln -s /run/secrets/token /tmp/perf-8.map; ln -s /run/secrets/token /tmp/jit-8.dump; exec $LAB/bin/burn 20"
	until_true 10 eval '[[ $(ask ".[].state") == started ]]' || fail "not profiled: $(cat service.log hook.log)"
	is "the secret, in the container" "$(nsenter -t "$(ct_pid c1)" -m setpriv --reuid 65534 cat /var/run/secrets/token)" "$wanted"
	printf '%s\n' go /run/secrets/program /run/secrets/token /var/run/secrets/token /run/secrets/core \
		/run/secrets/perf-7.map /tmp/perf-8.map /tmp/jit-8.dump /etc/passwd /proc/1/environ |
		dd of=taken conv=notrunc status=none
	until_true 10 grep -qsa done taken || fail "it did not do what it was told: $(tr -d '\0' <taken)"
	tr -d '\0' <taken | sed -n 's/^asked //p' >asked
	has "a program of that volume" "$(sed -n 1p asked)" '^/run/secrets/program 0 .177ELF'
	is "what it asked for besides" "$(sed '1d; s/ $//' asked)" "/run/secrets/token -22
/var/run/secrets/token -22
/run/secrets/core -22
/run/secrets/perf-7.map -22
/tmp/perf-8.map -40
/tmp/jit-8.dump -22
/etc/passwd -22
/proc/1/environ -13"
	ct_rm c1
	umount secrets
	until_true 10 written c1 || fail "no profile: $(cat service.log)"
	end_service
}
row "a worker taken over reads no secret of a Pod's through its reader" test_taken_over_secrets

# --- the worker

# What it used itself is what its profiles come to: what was sampled, and what nobody came to count.
test_worker_killed() {
	local i kills=${FULL:+100} cpu all
	: "${kills:=25}"
	begin_service
	cat >app.c <<-'C'
		#include <stdio.h>
		#include <time.h>
		#include <unistd.h>
		static volatile long n;
		void at_work(void) { for (int i = 0; i < 1000000; i++) n++; }
		int main(void) {
			while (access("stop", F_OK) < 0)
				at_work();
			struct timespec t;
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
			printf("%ld.%03ld\n", t.tv_sec, t.tv_nsec / 1000000);
		}
	C
	gcc -O1 -g -o app app.c
	chmod -R a+rX .
	"${RUN[@]}" -- "$LAB/bin/threads" 2 600 >/dev/null &
	local threads=$!
	"${RUN[@]}" -- ./app >cpu &
	local app=$!
	until_true 10 started "app threads" || fail "not profiled: $(cat service.log)"
	for ((i = 0; i < kills; i++)); do
		sleep "0.$((RANDOM % 6 + 1))"
		kill_worker KILL
		until_true 5 started "app threads" || fail "after $((i + 1)) kills: $(ask 'map(.name + " " + .state)' | xargs) $(tail -n 5 service.log)"
	done
	: >stop
	wait "$app"
	kill "$threads"
	until_true 20 grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	until_true 20 grep -qs 'name="threads" state=ended' service.log || fail "the other has not ended: $(cat service.log)"
	is "workers that died" "$(grep -c 'outcome="worker died"' service.log)" "$kills"
	cpu=$(cat cpu)
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	near "seconds of its profiles" "$(seconds_of app)" "$cpu" 5
	all=$(grep -vF '[lost' all.folded | awk '{ n += $NF } END { printf "%.2f", n / 1e9 }')
	awk -v n="$all" -v cpu="$cpu" 'BEGIN { exit !(n <= cpu * 1.02 + 0.05) }' || fail "$all s were sampled of $cpu s: some twice"
	awk -v n="$all" -v cpu="$cpu" 'BEGIN { exit !(n >= cpu / 3) }' || fail "only $all s were sampled of $cpu s"
	(($(grep -vF '[lost' all.folded | share at_work) >= 90)) || fail "names are missing: $(cat all.folded)"
	end_service
}
row "the worker is killed again and again, faster than a window: no target is lost, and what is not counted is said" test_worker_killed

test_culprit() {
	begin_service LD_PRELOAD="$LAB/bin/libtaken.so" ASAN_OPTIONS="${ASAN_OPTIONS-}:handle_segv=0" # the signal, and no report
	cat >crash.c <<-'C'
		#include <stdio.h>
		#include <sys/prctl.h>
		#include <time.h>
		int main(void) {
			prctl(PR_SET_NAME, "crashme");
			for (time_t end = time(NULL) + 8; time(NULL) < end;)
				;
			printf("%.3f\n", (double)clock() / CLOCKS_PER_SEC);
		}
	C
	gcc -O1 -o crash crash.c
	chmod 755 crash
	"${RUN[@]}" -- "$LAB/bin/burn" 12 >/dev/null &
	until_true 10 started burn || fail "not profiled: $(cat service.log)"
	"${RUN[@]}" -- ./crash >cpu &
	until_true 20 grep -qs 'outcome="quarantined: addresses only"' service.log || fail "it is not quarantined: $(cat service.log)"
	has "the log" "$(cat service.log)" 'target=run-[0-9]* outcome="quarantined: addresses only" reason="profiling it has ended the profiler again and again"'
	is "workers that died" "$(grep -c 'outcome="worker died"' service.log)" 3
	until_true 5 started "burn crash" || fail "one is gone: $(ask 'map(.name)')"
	kill_worker KILL # what is known of it from here on is kept
	wait %2 %3
	is "workers that died" "$(grep -c 'outcome="worker died"' service.log)" 4
	until_true 20 written burn || fail "no profile: $(cat service.log)"
	until_true 20 written crash || fail "no profile of it: $(cat service.log)"
	profiles_of crash | while read -r file; do
		"$LAB/bin/pillion" report --folded "$file"
		go tool pprof -comments "$file" 2>/dev/null >>comments
	done >all.folded
	has "its stacks" "$(cat all.folded)" '\[quarantined\];0x[0-9a-f]+ '
	! grep -E ';main|;_start' all.folded || fail "they are no addresses"
	has "what it says of it" "$(cat comments)" '\[quarantined\] addresses only: profiling it has ended the profiler again and again'
	near "seconds of its profiles" "$(seconds_of crash)" "$(cat cpu)" 5
	end_service
}
row "a target that ends the worker each time is kept as addresses only, and nobody else" test_culprit

# The fourth worker does not read it, nor does the next one, which finds frames of it in the journal.
test_bad_file() {
	local kills
	begin_service LD_PRELOAD="$LAB/bin/libtaken.so" ASAN_OPTIONS="${ASAN_OPTIONS-}:handle_segv=0"
	cat >bad.c <<-'C'
		static volatile long n;
		__attribute__((used)) static char before_the_symbols[1 << 20] = {1}; /* they are not in what comes at once */
		static __attribute__((noinline)) void crash_the_reader(void) { for (int i = 0; i < 1000000; i++) n++; }
		void go_there(void) { crash_the_reader(); n++; }
	C
	cat >app.c <<-'C'
		#include <unistd.h>
		static volatile long n;
		void go_there(void);
		void at_work(void) { for (int i = 0; i < 1000000; i++) n++; }
		int main(void) {
			while (access("stop", F_OK) < 0) {
				at_work();
				if (access("bad", F_OK) == 0)
					go_there();
			}
		}
	C
	gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -fPIC -shared -Wl,-soname,libbad.so -o libbad.so bad.c
	gcc -O1 -g -o app app.c -L. -lbad -Wl,-rpath,'$ORIGIN'
	chmod -R a+rX .
	"${RUN[@]}" -- ./app &
	local app=$!
	until_true 10 started app || fail "not profiled: $(cat service.log)"
	sleep 2 # what was counted before is in the journal, and stays there
	: >bad
	until_true 20 grep -qs 'outcome=quarantined' service.log || fail "it is not quarantined: $(cat service.log)"
	has "the log" "$(cat service.log)" 'target=run-[0-9]* module="[^"]*/libbad.so" outcome=quarantined reason="reading it has ended'
	sleep 2
	kills=$(grep -c 'outcome="worker died"' service.log)
	is "workers that died of it" "$kills" 3
	kill_worker KILL # the next one reads the journal, in which frames are its
	until_true 5 started app || fail "it is gone: $(ask 'map(.name)')"
	sleep 6 # a window begins and ends
	: >stop
	wait "$app" || fail "the program's exit status is $?"
	until_true 20 grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	is "workers that died" "$(grep -c 'outcome="worker died"' service.log)" 4
	! grep -q 'outcome="let go"' service.log || fail "it is let go: $(cat service.log)"
	! grep -q 'outcome="begun anew"' service.log || fail "what was counted before is forgotten: $(cat service.log)"
	is "times that it is quarantined" "$(grep -c outcome=quarantined service.log)" 1
	profiles_of app | while read -r file; do
		"$LAB/bin/pillion" report --folded "$file"
		"$LAB/bin/pillion" top "$file" >>top
	done >all.folded
	! grep -q crash_the_reader all.folded || fail "it was read: $(cat all.folded)"
	has "its frames" "$(cat all.folded)" 'main;libbad.so\+0x[0-9a-f]+'
	(($(grep -vF '[lost' all.folded | share at_work) >= 30)) || fail "names are missing: $(cat all.folded)"
	(($(grep -vF '[lost' all.folded | share 'libbad.so\+0x') >= 20)) || fail "its frames are missing: $(cat all.folded)"
	has "a note" "$(cat top)" 'note *quarantined, as reading it has ended the profiler again and again: functions are addresses only in .*/libbad.so'
	awk '/^note .*restarted/ { found = 1 } END { exit !found }' top || fail "no note of restarts: $(cat top)"
	end_service
}
row "a file that ends who reads it is quarantined, and its program goes on being profiled" test_bad_file

# --- the supervisor

make_late() { # ./app, which loads a library when there is ./load, and prints its CPU time
	cat >app.c <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <time.h>
		#include <unistd.h>
		static void until(time_t end, void (*work)(void)) { while (time(NULL) < end) if (work) work(); }
		int main(int argc, char **argv) {
			time_t end = time(NULL) + atoi(argv[1]);
			while (access("load", F_OK) < 0 && time(NULL) < end) ;
			void *lib = dlopen("./late.so", RTLD_NOW);
			until(end, lib ? (void (*)(void))dlsym(lib, "loaded_late") : NULL);
			struct timespec t;
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
			printf("%ld.%03ld\n", t.tv_sec, t.tv_nsec / 1000000);
		}
	C
	cat >late.c <<-'C'
		static volatile long n;
		void loaded_late(void) { for (int i = 0; i < 1000000; i++) n++; }
	C
	gcc -O1 -o app app.c && gcc -O1 -shared -fPIC -o late.so late.c
	chmod -R a+rX .
}

test_supervisor_killed() {
	local i cpu
	begin_service
	make_late
	"${RUN[@]}" -- ./app 20 >cpu &
	until_true 10 started app || fail "not profiled: $(cat service.log)"
	for ((i = 0; i < 20; i++)); do
		sleep 0.3
		kill -KILL "$SERVICE"
		wait "$SERVICE" || :
		((i != 10)) || : >load
		sleep 0.2
		start_service
		until_true 5 started app || fail "after $((i + 1)) kills it is not there: $(tail -n 5 service.log)"
	done 2>/dev/null
	wait %2
	cpu=$(cat cpu)
	until_true 20 written app || fail "no profile: $(cat service.log)"
	until_true 10 grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	is "takings over" "$(grep -c 'outcome="taken over"' service.log)" 20
	near "seconds of its profiles" "$(seconds_of app)" "$cpu" 5
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	has "its functions" "$(cat all.folded)" 'loaded_late'
	end_service
}
row "the supervisor is killed 20 times: programs go on, nothing is missing, what was loaded meanwhile has names" test_supervisor_killed

# --- all of it, and a service manager that keeps descriptors for it (tests/tools/manager in systemd's place; tests/vm/systemd)

begin_kept() {
	begin_run --window 5s
	need jq gcc python3
	PS=("$LAB/bin/pillion" ps --control "$SOCKET")
	mkdir -p spool
	chmod 755 .
	START_POST="$LAB/bin/pillion remap --control $SOCKET --daemon $LAB/bin/pilliond" "$TOP/tests/tools/manager" "$ROW/run" "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info --metrics "$ROW/run/http.sock" </dev/null >starts 2>>service.out &
	SERVICE=$!
	until_true 10 ready_again 0 || fail "no service: $(cat service.log service.out)"
}
supervisor() { tail -n 1 starts; }

test_all_killed() {
	local i kills=5 ready
	[[ -z ${FULL-} ]] || kills=20
	need_root
	need runc
	begin_kept
	make_late
	printf '#!/bin/sh\ncd %s && ./app %d >cpu\n' "$ROW" $((kills * 2)) >begin
	chmod 755 begin && chmod 777 .
	mkdir etc
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond" --budget 5s)
	ct_start runc app -a io.pillion.profile=cpu@99 -v "$ROW:$ROW" -- "$ROW/begin"
	"${RUN[@]}" -- "$LAB/bin/burn" $((kills * 2)) >/dev/null &
	until_true 10 started "app burn" || fail "not profiled: $(cat service.log hook.log)"
	for ((i = 0; i < kills; i++)); do
		sleep 1
		ready=$(times_ready)
		kill -KILL $(profilers)
		((i != kills / 2)) || : >load
		until_true 10 ready_again "$ready" || fail "after $((i + 1)) kills it is not there: $(tail service.log) $(cat service.out)"
		until_true 5 started "app burn" || fail "after $((i + 1)) kills they are not there: $(tail service.log)"
	done 2>/dev/null
	wait %2
	until_true 20 written burn || fail "no profile: $(cat service.log)"
	until_true 10 grep -qs 'target=app .*state=ended' service.log || fail "it has not ended: $(cat service.log)"
	ct_rm app
	is "how often they were taken back" "$(grep -c 'outcome="taken back" targets=2 ' service.log)" $kills
	near "seconds of its profiles" "$(seconds_of app)" "$(cat cpu)" 5
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	has "its functions" "$(cat all.folded)" 'loaded_late'
	(($(share '\[truncated: lost mapping\]' <all.folded) <= 5)) || fail "nobody said what it has mapped: $(cat all.folded)"
	is "what remap says" "$(grep -c '^remapped: 1$' service.out)" $kills
	# of what is among all others it says nothing: a profiler that was taken over might ask for anybody
	is "of the other" "$(grep -c 'run-[0-9]*: what it has mapped .* only of what has a pid namespace of its own' service.out)" $kills
	end_service
}
# Nobody is there as it ends: it is let go, and nothing of it is held.
test_ended_meanwhile() {
	begin_kept
	"${RUN[@]}" -- "$LAB/bin/burn" 30 >/dev/null &
	until_true 10 started burn || fail "not profiled: $(cat service.log)"
	until_true 5 kept || fail "it is not kept"
	kill -STOP "$SERVICE" # the manager: nothing is started again
	kill -KILL "$(supervisor)"
	kill -KILL "$(jobs -p %2)"
	until_true 10 grep -qs 'name="burn" state=ended' service.log || fail "its end is not seen: $(cat service.log)"
	kill -CONT "$SERVICE"
	until_true 10 ready_again 1 || fail "it is not there: $(cat service.log service.out)"
	is "targets that are there" "$(ask length)" 0
	is "what the supervisor holds of it" "$(find "/proc/$(supervisor)/fd" -lname '*perf_event*' | wc -l)" $(($(nproc) + 1)) # rings, and the one that is parked
	until_true 5 eval '! kept' || fail "it is still kept"
	end_service
}
kept() { (($(find "/proc/$SERVICE/fd" -lname 'socket:*' | wc -l) > 1)); }
row "a target ends while there is no supervisor: nothing of it comes back" test_ended_meanwhile

row "supervisor and worker are killed together, again and again: what the service manager kept goes on" test_all_killed

# As `systemctl restart` does it: the worker stays until the next supervisor has all of it, and makes room for that one's own.
test_upgrade() {
	local i times=3 cpu before attached
	[[ -z ${FULL-} ]] || times=20
	begin_kept
	need_root
	make_late
	"${RUN[@]}" -- ./app $((times * 2 + 4)) >cpu &
	until_true 10 started app || fail "not profiled: $(cat service.log)"
	"$LAB/bin/threads" 2 600 >/dev/null &
	attached=$!
	"$LAB/bin/pillion" attach $attached --control "$SOCKET" --daemon "$LAB/bin/pilliond" >attach.out 2>attach.err &
	until_true 10 grep -qs '^attached' attach.err || fail "not attached: $(cat attach.err)"
	for ((i = 0; i < times; i++)); do
		sleep 1
		before=$(worker)
		kill -USR2 "$(supervisor)"
		((i != times / 2)) || : >load
		until_true 10 replaced "$before" || fail "its worker is the old one: $(tail service.log)"
		until_true 5 started app || fail "after $((i + 1)) times it is not there: $(tail service.log)"
		# who was attached has its last window, and the next may come
		((i)) || until_true 10 test -s attach.out || fail "attach has not ended: $(cat attach.err service.log)"
	done
	kill $attached
	wait %2
	cpu=$(cat cpu)
	until_true 20 written app || fail "no profile: $(cat service.log)"
	until_true 10 grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	is "workers that made room" "$(grep -c 'outcome="worker replaced" targets=1' service.log)" $times
	near "seconds of its profiles" "$(seconds_of app)" "$cpu" 3
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	has "its functions" "$(cat all.folded)" 'loaded_late'
	(($(share '\[lost: profiler restarted\]' <all.folded) == 0)) || fail "something is missing: $(cat all.folded)"
	is "errors in the log" "$(lines_of level=err)" 0
	end_service
}
replaced() { # PID
	[[ -n $(worker) && $(worker) != "$1" ]]
}
row "it is restarted for an upgrade: nothing is missing, nobody notices" test_upgrade

# Told to end by somebody who is not its manager: the last windows are written, and what was kept begins anew.
test_ended_not_stopped() {
	begin_kept
	"${RUN[@]}" -- "$LAB/bin/burn" 5 >/dev/null &
	until_true 10 started burn || fail "not profiled: $(cat service.log)"
	sleep 1
	kill -TERM "$(supervisor)"
	until_true 10 ready_again 1 || fail "it is not there: $(cat service.log service.out)"
	until_true 5 started burn || fail "the target is not there: $(cat service.log)"
	wait %2
	until_true 10 eval '(($(profiles_of burn | wc -l) >= 2))' || fail "its profiles: $(profiles_of burn; cat service.log)"
	between_seconds burn 4.3 5.1
	end_service
}
between_seconds() { # NAME LEAST MOST
	awk -v s="$(seconds_of "$1")" -v a="$2" -v b="$3" 'BEGIN { exit !(s >= a && s <= b) }' ||
		fail "$(seconds_of "$1") s of it are in its profiles, not $2 to $3"
}
row "it is told to end, but not stopped: what was kept begins anew" test_ended_not_stopped

test_both_killed() { # worker of another supervisor
	begin_service
	"${RUN[@]}" -- "$LAB/bin/burn" 6 >/dev/null &
	until_true 10 started burn || fail "not profiled: $(cat service.log)"
	kill -KILL "$SERVICE"
	wait "$SERVICE" || :
	start_service
	until_true 5 started burn || fail "it is not there: $(cat service.log)"
	kill_worker KILL
	until_true 5 started burn || fail "it is not there: $(cat service.log)"
	wait %2 2>/dev/null || wait
	until_true 20 written burn || fail "no profile: $(cat service.log)"
	end_service
}
row "a worker that was taken over is killed" test_both_killed

# --- who has the names

# Names that only a symbolizer has: those of a C++ program are mangled in its symbol table, and what is inlined has none.
begin_names() { # COUNT - ./app0, ./app1, ...: other programs each
	local i
	begin_service
	need g++
	cat >app.cc <<-'CC'
		#include <ctime>
		static volatile long n;
		namespace work {
		static inline __attribute__((always_inline)) void inner() { for (int i = 0; i < 1000000; i++) n = n + i; }
		__attribute__((noinline)) void churn() { inner(); }
		}
		int main() { for (clock_t end = CLOCKS_PER_SEC / 2; clock() < end;) work::churn(); }
	CC
	for ((i = 0; i < $1; i++)); do
		g++ -O1 -g -Wl,--build-id="0x$(printf 'abcdef%02d' "$i")" -o "app$i" app.cc
	done
	chmod -R a+rX .
	"${RUN[@]}" -- "$LAB/bin/threads" 2 600 >/dev/null &
	BYSTANDER=$!
	until_true 10 started threads || fail "not profiled: $(cat service.log)"
	until_true 10 has_names || fail "there is no symbolizer: $(cat service.log)"
}
end_names() {
	kill "$BYSTANDER"
	until_true 20 grep -qs 'name="threads" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	until_true 20 written threads || fail "no profile of who was there all the time: $(cat service.log)"
	end_service
}
# Not one of its jobs, which are called the same.
symbolizer() {
	local pid parent all
	all=$(named pilliond-names)
	for pid in $all; do
		parent=$(sed -n 's/^PPid:\t//p' "/proc/$pid/status" 2>/dev/null) || continue
		grep -x "$parent" <<<"$all" >/dev/null || echo "$pid"
	done | tail -n 1
}
has_names() { [[ -n $(symbolizer) && -n $(named pilliond-files) ]]; }
has_others() { # PID
	has_names && [[ $(symbolizer) != "$1" ]]
}
is_named() { # PROGRAM - it runs, and its functions have the names that a symbolizer gives
	"${RUN[@]}" -- "./$1" >/dev/null
	folded_of "$1" >"$1.folded"
	(($(share 'work::churn[(][)];inner ' <"$1.folded") >= 80)) || fail "its names: $(cat "$1.folded" service.log)"
}
metric() { # NAME
	curl -sS --max-time 5 --unix-socket run/http.sock http://localhost/metrics | awk -v n="$1" '$1 == n { print $2 }'
}
says_metric() { # NAME VALUE
	[[ $(metric "$1") == "$2" ]]
}

ten_died() { [[ $(lines_of 'outcome="\(another symbolizer\|no source lines, no demangled names\)"') == 10 ]]; }

# The first two are followed at once: who asks meanwhile waits for them.
test_symbolizer_killed() {
	local i before
	begin_names 10
	for ((i = 0; i < 10; i++)); do
		before=$(symbolizer)
		kill -KILL "$before"
		((i < 2)) || until_true 10 has_others "$before" || fail "no other one after $((i + 1)) kills: $(cat service.log)"
		is_named "app$i"
	done
	until_true 5 ten_died || fail "not ten died: $(cat service.log)"
	has "the log of the last" "$(cat service.log)" 'reason="10 symbolizers have ended, one soon after the other" again_ms=5000'
	is "workers that died" "$(lines_of 'outcome="worker died"')" 0
	is "its symbolizer" "$(metric pillion_symbolizer_up) $(metric pillion_readers_up) $(metric pillion_symbolizer_renewable)" "1 1 1"
	end_names
}
row "the symbolizer is killed ten times: names come back" test_symbolizer_killed

test_reader_killed() {
	local before
	begin_names 2
	kill -KILL $(named pilliond-files)
	is_named app0
	before=$(symbolizer)
	kill -KILL "$before" $(named pilliond-files)
	is_named app1
	until_true 5 has_others "$before" || fail "they are not there: $(cat service.log)"
	is "its symbolizer" "$(metric pillion_symbolizer_up) $(metric pillion_readers_up)" "1 1"
	end_names
}
row "a reader of files is killed, alone and with its server" test_reader_killed

# The supervisor's copies are those of the one that there is.
test_symbolizer_and_worker() {
	local before i
	begin_names 4
	for i in 0 1; do
		before=$(symbolizer)
		kill -KILL "$before"
		until_true 10 has_others "$before" || fail "no other symbolizer: $(cat service.log)"
		before=$(symbolizer)
		kill_worker KILL
		until_true 5 started threads || fail "it is not there: $(cat service.log)"
		is_named "app$i"
		is "the symbolizer" "$(symbolizer)" "$before"
	done
	before=$(symbolizer)
	kill -KILL "$before" "$(worker)" # together
	until_true 5 started threads || fail "it is not there: $(cat service.log)"
	until_true 10 has_others "$before" || fail "no other symbolizer: $(cat service.log)"
	is_named app2
	kill -KILL "$SERVICE"
	wait "$SERVICE" || :
	before=$(symbolizer)
	kill -KILL "$before"
	start_service
	until_true 5 started threads || fail "it is not there: $(cat service.log)"
	until_true 10 has_others "$before" || fail "no other symbolizer: $(cat service.log)"
	is_named app3
	end_names
} 2>/dev/null
row "the symbolizer is killed, then the worker; and while there is no supervisor" test_symbolizer_and_worker

test_forkserver_killed() {
	local before
	begin_names 2
	before=$(symbolizer)
	kill -KILL "$(named pilliond-fork)"
	until_true 5 says_metric pillion_symbolizer_renewable 0 || fail "it is renewable: $(cat service.log)"
	is_named app0
	is "the symbolizer" "$(symbolizer)" "$before"
	is "its symbolizer" "$(metric pillion_symbolizer_up) $(metric pillion_readers_up)" "1 1"
	kill -KILL "$before"
	until_true 5 says_metric pillion_symbolizer_up 0 || fail "it is up: $(cat service.log)"
	"${RUN[@]}" -- ./app1 >/dev/null
	(($(folded_of app1 | share '_ZN4work5churn') >= 80)) || fail "its names: $(folded_of app1)"
	is "lines of who forks them" "$(lines_of 'outcome="no further symbolizer" reason="who forks them was killed by signal 9"')" 1
	is "lines of the last" "$(lines_of 'outcome="no source lines, no demangled names" reason="the symbolizer has ended"')" 1
	is "another one" "$(symbolizer)" ""
	end_names
}
row "who forks symbolizers is killed: the one that is there goes on, and is the last" test_forkserver_killed
