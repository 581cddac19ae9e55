# suite_restart - processes of a service that die, are killed, or are somebody else's by now: what it profiles goes on.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-hook pillion-opener targets/pulse targets/libtaken.so
V2=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)

# These programs use little: periods of 2 ms, of which what is not worth saying (all_told) is little as well.
OFTEN=(--events cpu@499)

begin_service() { # [VARIABLE=VALUE...] - of its environment
	begin_run --window 5s "${OFTEN[@]}"
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
	until_true "$PATIENCE" grep -qs "pid=$SERVICE state=ready" service.log || fail "no service: $(cat service.log service.out)"
}
end_service() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	end_run
}
kill_worker() { # SIGNAL
	until_true "$PATIENCE" has_worker || fail "there is no worker: $(cat service.log)"
	kill "-$1" "$(worker)"
}
lines_of() { grep -c "$1" service.log || :; }
ask() { # JQ-FILTER
	"${PS[@]}" --json >list.json 2>/dev/null && jq -r "$1" list.json
}
started() { # NAMES, sorted
	[[ $(ask 'map(select(.state == "started") | if .name == "" then .id else .name end) | sort | join(" ")') == "$1" ]]
}
samples_of() { ask ".[] | select(.name == \"$1\" or .id == \"$1\") | .samples"; }
has_samples() { # NAME LEAST
	local n
	n=$(samples_of "$1") && ((${n:-0} >= $2))
}
more_samples() { # NAME COUNT - it goes on being profiled
	until_true "$PATIENCE" has_samples "$1" $(($(samples_of "$1") + $2)) ||
		fail "no $2 samples more of $1: $(ask 'map(.name + " " + .state)' | xargs) $(tail -n 5 service.log)"
}
ends() { # PID NAME - it is told to, and its last window is written
	kill "$1"
	wait "$1" || :
	until_true "$PATIENCE" grep -qs "name=\"$2\" state=ended" service.log || fail "$2 has not ended: $(cat service.log)"
	until_true "$PATIENCE" written "$2" || fail "no profile of $2: $(cat service.log)"
}
# What it used is what its profiles come to, losses included: less than ten periods that are missing a window does not say
# (profiler/sample/event_counts.c, worth_saying). perf's clock goes on while the CPU has an interrupt or is stolen, the program's own does not.
all_told() { # NAME SECONDS
	awk -v got="$(seconds_of "$1")" -v cpu="$2" -v windows="$(profiles_of "$1" | wc -l)" -v stolen="$(stolen_at_most)" 'BEGIN {
		printf "%s s in %d profiles, of %s s; stolen on all CPUs meanwhile: at most %d ms\n", got, windows, cpu, stolen
		exit !(got <= cpu * 1.03 + 0.02 + stolen / 1000 && got >= cpu * 0.97 - windows * 10 / 499) }' || fail "something is missing, or there twice"
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
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	local pulse=$! all
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	until_true "$PATIENCE" has_roles || fail "processes: $(roles)"
	kill -STOP "$pulse" # nothing is to be named any more: who does that ends
	until_true "$PATIENCE" each_once || fail "processes: $(profilers | wc -l)"
	all=$(profilers)
	for pid in $all; do
		for field in CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapAmb:0000000000000000 \
			NoNewPrivs:1 Seccomp:2; do
			value=$(sed -n "s/^${field%:*}:\t//p" "/proc/$pid/status")
			is "$(cat "/proc/$pid/comm")'s ${field%:*}" "$value" "${field#*:}"
		done
		is "users of $(cat "/proc/$pid/comm")" "$(sed -n 's/^Uid:\t//p' "/proc/$pid/status" | tr '\t' '\n' | sort -u | wc -l)" 1
		[[ $(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status") != 0 ]] || fail "$pid is root's"
	done
	kill -CONT "$pulse"
	ends "$pulse" pulse
	end_service
}
roles() { for pid in $(profilers); do cat "/proc/$pid/comm"; done 2>/dev/null | sed 's/^exe$/pilliond/' | sort -u | xargs; }
has_roles() { [[ $(roles) == "pilliond pilliond-export pilliond-files pilliond-fork pilliond-names pilliond-worker" ]]; }
each_once() { (($(profilers | wc -l) == 6)); }
row "no process of it has a privilege, each a seccomp role" test_roles

test_taken_over() {
	local attempt result
	truncate -s 4096 taken
	chmod 666 taken
	begin_service TAKEN="$ROW/taken" LD_PRELOAD="$LAB/bin/libtaken.so"
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	local pulse=$!
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	printf 'go\n' | dd of=taken conv=notrunc status=none
	until_true "$PATIENCE" grep -qsa done taken || fail "it did not do what it was told: $(tr -d '\0' <taken)"
	tr -d '\0' <taken >attempts
	[[ $(grep -c . attempts) -gt 20 ]] || fail "attempts: $(cat attempts)"
	while read -r attempt result; do
		[[ $attempt == done || $result == -1 ]] || fail "$attempt came to $result"
	done <attempts
	ends "$pulse" pulse
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
		--daemon "$LAB/bin/pilliond" --budget 5s)
	ct_start runc c1 -a io.pillion.profile=cpu -v "$ROW/secrets:/run/secrets:ro" -- sh -c \
		"ln -s /run/secrets/token /tmp/perf-8.map; ln -s /run/secrets/token /tmp/jit-8.dump; exec $LAB/bin/pulse 10"
	until_true "$PATIENCE" eval '[[ $(ask ".[].state") == started ]]' || fail "not profiled: $(cat service.log hook.log)"
	is "the secret, in the container" "$(nsenter -t "$(ct_pid c1)" -m setpriv --reuid 65534 cat /var/run/secrets/token)" "$wanted"
	printf '%s\n' go /run/secrets/program /run/secrets/token /var/run/secrets/token /run/secrets/core \
		/run/secrets/perf-7.map /tmp/perf-8.map /tmp/jit-8.dump /etc/passwd /proc/1/environ |
		dd of=taken conv=notrunc status=none
	until_true "$PATIENCE" grep -qsa done taken || fail "it did not do what it was told: $(tr -d '\0' <taken)"
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
	until_true "$PATIENCE" written c1 || fail "no profile: $(cat service.log)"
	end_service
}
row "a worker taken over reads no secret of a Pod's through its reader" test_taken_over_secrets

# --- the worker

# What it used itself is what its profiles come to: what was sampled, and what nobody came to count.
test_worker_killed() {
	local i kills=${FULL:+100} cpu all
	: "${kills:=15}"
	begin_service
	cat >app.c <<-'C'
		#include <stdio.h>
		#include <time.h>
		#include <unistd.h>
		static volatile long n;
		void at_work(void) { for (int i = 0; i < 1000000; i++) n++; }
		int main(void) {
			struct timespec t = {0, 6000000};
			clock_t before = clock(); /* as pillion run */
			while (access("stop", F_OK) < 0) {
				at_work();
				nanosleep(&t, NULL);
			}
			printf("%.3f\n", (double)(clock() - before) / CLOCKS_PER_SEC);
		}
	C
	gcc -O1 -g -o app app.c
	chmod -R a+rX .
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 2 >/dev/null &
	local pulse=$!
	"${RUN[@]}" -- ./app >cpu &
	local app=$!
	until_true "$PATIENCE" started "app pulse" || fail "not profiled: $(cat service.log)"
	for ((i = 0; i < kills; i++)); do
		more_samples app $((RANDOM % 60 + 1))
		kill_worker KILL
		until_true "$PATIENCE" started "app pulse" || fail "after $((i + 1)) kills: $(ask 'map(.name + " " + .state)' | xargs) $(tail -n 5 service.log)"
	done
	: >stop
	wait "$app"
	until_true "$PATIENCE" grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	ends "$pulse" pulse
	is "workers that died" "$(grep -c 'outcome=worker_died' service.log)" "$kills"
	cpu=$(cat cpu)
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	all_told app "$cpu"
	all=$(grep -vF '[lost' all.folded | awk '{ n += $NF } END { printf "%.2f", n / 1e9 }')
	awk -v n="$all" -v cpu="$cpu" 'BEGIN { exit !(n <= cpu * 1.02 + 0.05) }' || fail "$all s were sampled of $cpu s: some twice"
	awk -v n="$all" -v cpu="$cpu" 'BEGIN { exit !(n >= cpu / 3) }' || fail "only $all s were sampled of $cpu s"
	(($(share at_work <all.folded) >= 90)) || fail "names are missing: $(cat all.folded)"
	end_service
}
row "the worker is killed again and again, faster than a window: no target is lost, and what is not counted is said" test_worker_killed

test_culprit() {
	begin_service LD_PRELOAD="$LAB/bin/libtaken.so" ASAN_OPTIONS="${ASAN_OPTIONS-}:handle_segv=0" # the signal, and no report
	cat >crash.c <<-'C'
		#include <stdio.h>
		#include <sys/prctl.h>
		#include <time.h>
		#include <unistd.h>
		static volatile long n;
		int main(void) {
			struct timespec t = {0, 6000000};
			clock_t before = clock(); /* as pillion run */
			prctl(PR_SET_NAME, "crashme");
			while (access("stop", F_OK) < 0) {
				for (int i = 0; i < 1000000; i++) n++;
				nanosleep(&t, NULL);
			}
			printf("%.3f\n", (double)(clock() - before) / CLOCKS_PER_SEC);
		}
	C
	gcc -O1 -o crash crash.c
	chmod 755 crash
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	local pulse=$! crash
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	"${RUN[@]}" -- ./crash >cpu &
	crash=$!
	until_true "$PATIENCE" grep -qs 'outcome=quarantined' service.log || fail "it is not quarantined: $(cat service.log)"
	has "the log" "$(cat service.log)" 'target=run-[0-9]* outcome=quarantined reason="profiling it has ended the profiler again and again"'
	is "workers that died" "$(grep -c 'outcome=worker_died' service.log)" 3
	until_true "$PATIENCE" started "crash pulse" || fail "one is gone: $(ask 'map(.name)')"
	more_samples crash 20
	kill_worker KILL # what is known of it from here on is kept
	until_true "$PATIENCE" started "crash pulse" || fail "one is gone: $(ask 'map(.name)')"
	more_samples crash 200
	: >stop
	wait "$crash"
	until_true "$PATIENCE" written crash || fail "no profile of it: $(cat service.log)"
	is "workers that died" "$(grep -c 'outcome=worker_died' service.log)" 4
	ends "$pulse" pulse
	profiles_of crash | while read -r file; do
		"$LAB/bin/pillion" report --folded "$file"
		go tool pprof -comments "$file" 2>/dev/null >>comments
	done >all.folded
	has "its stacks" "$(cat all.folded)" '\[quarantined\];0x[0-9a-f]+ '
	! grep -E ';main|;_start' all.folded || fail "they are no addresses"
	has "what it says of it" "$(cat comments)" '\[quarantined\] addresses only: profiling it has ended the profiler again and again'
	all_told crash "$(cat cpu)"
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
		#include <time.h>
		#include <unistd.h>
		static volatile long n;
		void go_there(void);
		void at_work(void) { for (int i = 0; i < 1000000; i++) n++; }
		int main(void) {
			struct timespec t = {0, 6000000};
			int before = 0, bad = 0; /* it goes there twice as often as it did not */
			while (bad < 2 * before || access("stop", F_OK) < 0) {
				at_work();
				if (access("bad", F_OK) == 0)
					go_there(), bad++;
				else
					before++;
				nanosleep(&t, NULL);
			}
		}
	C
	gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -fPIC -shared -Wl,-soname,libbad.so -o libbad.so bad.c
	gcc -O1 -g -o app app.c -L. -lbad -Wl,-rpath,'$ORIGIN'
	chmod -R a+rX .
	"${RUN[@]}" -- ./app &
	local app=$!
	until_true "$PATIENCE" started app || fail "not profiled: $(cat service.log)"
	until_true "$PATIENCE" written app || fail "no window: $(cat service.log)" # it is in the journal at once, and stays there
	: >bad
	until_true "$PATIENCE" grep -qs 'outcome=quarantined' service.log || fail "it is not quarantined: $(cat service.log)"
	has "the log" "$(cat service.log)" 'target=run-[0-9]* module="[^"]*/libbad.so" outcome=quarantined reason="reading it has ended'
	more_samples app 20
	kills=$(grep -c 'outcome=worker_died' service.log)
	is "workers that died of it" "$kills" 3
	kill_worker KILL # the next one reads the journal, in which frames are its
	until_true "$PATIENCE" started app || fail "it is gone: $(ask 'map(.name)')"
	kills=$(profiles_of app | wc -l)
	until_true "$PATIENCE" eval '(($(profiles_of app | wc -l) >= kills + 2))' || fail "no window ends: $(cat service.log)"
	: >stop
	wait "$app" || fail "the program's exit status is $?"
	until_true "$PATIENCE" grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	is "workers that died" "$(grep -c 'outcome=worker_died' service.log)" 4
	! grep -q 'outcome=dropped' service.log || fail "it is let go: $(cat service.log)"
	! grep -q 'outcome=restarted_empty' service.log || fail "what was counted before is forgotten: $(cat service.log)"
	is "times that it is quarantined" "$(grep -c outcome=quarantined service.log)" 1
	profiles_of app | while read -r file; do
		"$LAB/bin/pillion" report --folded "$file"
		"$LAB/bin/pillion" top "$file" >>top
	done >all.folded
	! grep -q crash_the_reader all.folded || fail "it was read: $(cat all.folded)"
	has "its frames" "$(cat all.folded)" 'main;libbad.so\+0x[0-9a-f]+'
	(($(share at_work <all.folded) >= 30)) || fail "names are missing: $(cat all.folded)"
	(($(share 'libbad.so\+0x' <all.folded) >= 20)) || fail "its frames are missing: $(cat all.folded)"
	has "a note" "$(cat top)" 'note *quarantined, as reading it has ended the profiler again and again: functions are addresses only in .*/libbad.so'
	awk '/^note .*restarted/ { found = 1 } END { exit !found }' top || fail "no note of restarts: $(cat top)"
	end_service
}
row "a file that ends who reads it is quarantined, and its program goes on being profiled" test_bad_file

# --- the supervisor

make_late() { # ./app, which loads a library when there is ./load, ends when there is ./stop, and prints its CPU time
	cat >app.c <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		#include <time.h>
		#include <unistd.h>
		static volatile long n;
		static void at_work(void) { for (int i = 0; i < 1000000; i++) n++; }
		static void until(const char *file, void (*work)(void)) {
			struct timespec t = {0, 6000000};
			while (access(file, F_OK) < 0) {
				work();
				nanosleep(&t, NULL);
			}
		}
		int main(void) {
			clock_t before = clock(); /* as pillion run */
			until("load", at_work);
			until("stop", (void (*)(void))dlsym(dlopen("./late.so", RTLD_NOW), "loaded_late"));
			printf("%.3f\n", (double)(clock() - before) / CLOCKS_PER_SEC);
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
	local i cpu app
	begin_service
	make_late
	"${RUN[@]}" -- ./app >cpu &
	app=$!
	until_true "$PATIENCE" started app || fail "not profiled: $(cat service.log)"
	for ((i = 0; i < 20; i++)); do
		more_samples app 3
		kill -KILL "$SERVICE"
		wait "$SERVICE" || :
		((i != 10)) || : >load
		sleep "0.$((RANDOM % 3))"
		start_service
		until_true "$PATIENCE" started app || fail "after $((i + 1)) kills it is not there: $(tail -n 5 service.log)"
	done 2>/dev/null
	more_samples app 200
	: >stop
	wait "$app"
	cpu=$(cat cpu)
	until_true "$PATIENCE" written app || fail "no profile: $(cat service.log)"
	until_true "$PATIENCE" grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	is "takings over" "$(grep -c 'outcome=adopted' service.log)" 20
	all_told app "$cpu"
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	has "its functions" "$(cat all.folded)" 'loaded_late'
	end_service
}
row "the supervisor is killed 20 times: programs go on, nothing is missing, what was loaded meanwhile has names" test_supervisor_killed

# --- all of it, and a service manager that keeps descriptors for it (tests/tools/manager in systemd's place; tests/vm/systemd)

begin_kept() {
	begin_run --window 5s "${OFTEN[@]}"
	need jq gcc python3
	PS=("$LAB/bin/pillion" ps --control "$SOCKET")
	mkdir -p spool
	chmod 755 .
	START_POST="$LAB/bin/pillion remap --control $SOCKET --daemon $LAB/bin/pilliond" "$TOP/tests/tools/manager" "$ROW/run" "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info --metrics "$ROW/run/http.sock" </dev/null >starts 2>>service.out &
	SERVICE=$!
	until_true "$PATIENCE" ready_again 0 || fail "no service: $(cat service.log service.out)"
}
supervisor() { tail -n 1 starts; }

test_all_killed() {
	local i kills=5 ready other before unmapped=0
	[[ -z ${FULL-} ]] || kills=20
	need_root
	need runc
	begin_kept
	make_late
	printf '#!/bin/sh\ncd %s && ./app >cpu\n' "$ROW" >begin
	chmod 755 begin && chmod 777 .
	mkdir etc
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond" --budget 5s)
	ct_start runc app -a io.pillion.profile=cpu@499 -v "$ROW:$ROW" -- "$ROW/begin"
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	other=$!
	until_true "$PATIENCE" started "app pulse" || fail "not profiled: $(cat service.log hook.log)"
	for ((i = 0; i < kills; i++)); do
		more_samples app 10
		ready=$(times_ready)
		before=$(usage_of app)
		kill_all
		((i != kills / 2)) || : >load
		until_true "$PATIENCE" ready_again "$ready" || fail "after $((i + 1)) kills it is not there: $(tail service.log) $(cat service.out)"
		until_true "$PATIENCE" started "app pulse" || fail "after $((i + 1)) kills they are not there: $(tail service.log)"
		until_true "$PATIENCE" remapped $((i + 1)) || fail "after $((i + 1)) kills nobody said what it has mapped: $(cat service.out)"
		unmapped=$((unmapped + $(usage_of app) - before))
	done 2>/dev/null
	more_samples app 200
	: >stop
	until_true "$PATIENCE" grep -qs 'target=app .*state=ended' service.log || fail "it has not ended: $(cat service.log)"
	ct_rm app
	ends "$other" pulse
	is "how often they were taken back" "$(grep -c 'outcome=restored targets=2 ' service.log)" $kills
	all_told app "$(cat cpu)"
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	has "its functions" "$(cat all.folded)" 'loaded_late'
	# no longer than until somebody has said what it has mapped
	between "ns of mappings that nobody knows" "$(awk '/truncated: lost mapping/ { n += $NF } END { printf "%d", n }' all.folded)" 0 $((unmapped * 1000))
	# of what is among all others it says nothing: a profiler that was taken over might ask for anybody
	is "of the other" "$(grep -c 'run-[0-9]*: what it has mapped .* only of what has a pid namespace of its own' service.out)" $kills
	end_service
}
usage_of() { sed -n 's/^usage_usec //p' "$V2$(ct_cgroup "$1")/cpu.stat"; }
remapped() { (($(grep -c '^remapped: 1$' service.out) == $1)); }
# At one moment, however busy the machine is: none of them sees another one die.
kill_all() {
	kill -STOP $(profilers)
	kill -KILL $(profilers)
}
# Nobody is there as it ends: it is let go, and nothing of it is held.
test_ended_meanwhile() {
	begin_kept
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	until_true "$PATIENCE" kept || fail "it is not kept"
	kill -STOP "$SERVICE" # the manager: nothing is started again
	kill -KILL "$(supervisor)"
	kill -KILL "$(jobs -p %2)"
	until_true "$PATIENCE" grep -qs 'name="pulse" state=ended' service.log || fail "its end is not seen: $(cat service.log)"
	kill -CONT "$SERVICE"
	until_true "$PATIENCE" ready_again 1 || fail "it is not there: $(cat service.log service.out)"
	is "targets that are there" "$(ask length)" 0
	is "what the supervisor holds of it" "$(find "/proc/$(supervisor)/fd" -lname '*perf_event*' | wc -l)" $(($(nproc) + 1)) # rings, and the one that is parked
	until_true "$PATIENCE" eval '! kept' || fail "it is still kept"
	end_service
}
kept() { (($(find "/proc/$SERVICE/fd" -lname 'socket:*' | wc -l) > 1)); }
row "a target ends while there is no supervisor: nothing of it comes back" test_ended_meanwhile

row "supervisor and worker are killed together, again and again: what the service manager kept goes on" test_all_killed

# As `systemctl restart` does it: the worker stays until the next supervisor has all of it, and makes room for that one's own.
test_upgrade() {
	local i times=3 cpu before app attached
	[[ -z ${FULL-} ]] || times=20
	begin_kept
	need_root
	make_late
	"${RUN[@]}" -- ./app >cpu &
	app=$!
	until_true "$PATIENCE" started app || fail "not profiled: $(cat service.log)"
	"$LAB/bin/pulse" 10 2 >/dev/null &
	attached=$!
	"$LAB/bin/pillion" attach $attached --control "$SOCKET" --daemon "$LAB/bin/pilliond" >attach.out 2>attach.err &
	until_true "$PATIENCE" grep -qs '^attached' attach.err || fail "not attached: $(cat attach.err)"
	for ((i = 0; i < times; i++)); do
		more_samples app 10
		before=$(worker)
		kill -USR2 "$(supervisor)"
		((i != times / 2)) || : >load
		until_true "$PATIENCE" replaced "$before" || fail "its worker is the old one: $(tail service.log)"
		until_true "$PATIENCE" started app || fail "after $((i + 1)) times it is not there: $(tail service.log)"
		# who was attached has its last window, and the next may come
		((i)) || until_true "$PATIENCE" test -s attach.out || fail "attach has not ended: $(cat attach.err service.log)"
	done
	kill $attached
	more_samples app 200
	: >stop
	wait "$app"
	cpu=$(cat cpu)
	until_true "$PATIENCE" written app || fail "no profile: $(cat service.log)"
	until_true "$PATIENCE" grep -qs 'name="app" state=ended' service.log || fail "it has not ended: $(cat service.log)"
	is "workers that made room" "$(grep -c 'outcome=worker_replaced targets=1' service.log)" $times
	all_told app "$cpu"
	profiles_of app | while read -r file; do "$LAB/bin/pillion" report --folded "$file"; done >all.folded
	has "its functions" "$(cat all.folded)" 'loaded_late'
	# on each CPU a period is under way when the worker goes, and when a window ends
	between "ns that are missing" "$(awk '/lost: profiler restarted/ { n += $NF } END { printf "%d", n }' all.folded)" \
		0 $((($(profiles_of app | wc -l) + times) * $(nproc) * 1000000000 / 499))
	is "errors in the log" "$(lines_of level=err)" 0
	end_service
}
replaced() { # PID
	[[ -n $(worker) && $(worker) != "$1" ]]
}
row "it is restarted for an upgrade: nothing is missing, nobody notices" test_upgrade

# Told to end by somebody who is not its manager: the last windows are written, and what was kept begins anew. The program does
# nothing meanwhile, so nothing may be missing.
test_ended_not_stopped() {
	local pulse
	begin_kept
	"${RUN[@]}" -- "$LAB/bin/pulse" 20 >cpu &
	pulse=$!
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	more_samples pulse 100
	kill -STOP "$pulse"
	kill -TERM "$(supervisor)"
	until_true "$PATIENCE" ready_again 1 || fail "it is not there: $(cat service.log service.out)"
	until_true "$PATIENCE" started pulse || fail "the target is not there: $(cat service.log)"
	kill -CONT "$pulse"
	more_samples pulse 200
	ends "$pulse" pulse
	until_true "$PATIENCE" eval '(($(profiles_of pulse | wc -l) >= 2))' || fail "its profiles: $(profiles_of pulse; cat service.log)"
	all_told pulse "$(cat cpu)"
	end_service
}
row "it is told to end, but not stopped: what was kept begins anew" test_ended_not_stopped

test_both_killed() { # worker of another supervisor
	begin_service
	local pulse
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	pulse=$!
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	kill -KILL "$SERVICE"
	wait "$SERVICE" || :
	start_service
	until_true "$PATIENCE" started pulse || fail "it is not there: $(cat service.log)"
	kill_worker KILL
	until_true "$PATIENCE" started pulse || fail "it is not there: $(cat service.log)"
	more_samples pulse 10
	ends "$pulse" pulse
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
		int main() { for (clock_t end = CLOCKS_PER_SEC / 3; clock() < end;) work::churn(); }
	CC
	for ((i = 0; i < $1; i++)); do
		g++ -O1 -g -Wl,--build-id="0x$(printf 'abcdef%02d' "$i")" -o "app$i" app.cc
	done
	chmod -R a+rX .
	"${RUN[@]}" -- "$LAB/bin/pulse" 10 >/dev/null &
	BYSTANDER=$!
	until_true "$PATIENCE" started pulse || fail "not profiled: $(cat service.log)"
	until_true "$PATIENCE" has_names || fail "there is no symbolizer: $(cat service.log)"
}
end_names() {
	ends "$BYSTANDER" pulse
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

ten_died() { [[ $(lines_of 'outcome=\(symbolizer_restarted\|no_symbolizer\)') == 10 ]]; }

# The first two are followed at once: who asks meanwhile waits for them.
test_symbolizer_killed() {
	local i before
	begin_names 10
	for ((i = 0; i < 10; i++)); do
		before=$(symbolizer)
		kill -KILL "$before"
		((i < 2)) || until_true "$PATIENCE" has_others "$before" || fail "no other one after $((i + 1)) kills: $(cat service.log)"
		is_named "app$i"
	done
	until_true "$PATIENCE" ten_died || fail "not ten died: $(cat service.log)"
	has "the log of the last" "$(cat service.log)" 'reason="10 symbolizers have ended, one soon after the other" again_ms=5000'
	is "workers that died" "$(lines_of 'outcome=worker_died')" 0
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
	until_true "$PATIENCE" has_others "$before" || fail "they are not there: $(cat service.log)"
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
		until_true "$PATIENCE" has_others "$before" || fail "no other symbolizer: $(cat service.log)"
		before=$(symbolizer)
		kill_worker KILL
		until_true "$PATIENCE" started pulse || fail "it is not there: $(cat service.log)"
		is_named "app$i"
		is "the symbolizer" "$(symbolizer)" "$before"
	done
	before=$(symbolizer)
	kill -KILL "$before" "$(worker)" # together
	until_true "$PATIENCE" started pulse || fail "it is not there: $(cat service.log)"
	until_true "$PATIENCE" has_others "$before" || fail "no other symbolizer: $(cat service.log)"
	is_named app2
	kill -KILL "$SERVICE"
	wait "$SERVICE" || :
	before=$(symbolizer)
	kill -KILL "$before"
	start_service
	until_true "$PATIENCE" started pulse || fail "it is not there: $(cat service.log)"
	until_true "$PATIENCE" has_others "$before" || fail "no other symbolizer: $(cat service.log)"
	is_named app3
	end_names
} 2>/dev/null
row "the symbolizer is killed, then the worker; and while there is no supervisor" test_symbolizer_and_worker

test_forkserver_killed() {
	local before
	begin_names 2
	before=$(symbolizer)
	kill -KILL "$(named pilliond-fork)"
	until_true "$PATIENCE" says_metric pillion_symbolizer_renewable 0 || fail "it is renewable: $(cat service.log)"
	is_named app0
	is "the symbolizer" "$(symbolizer)" "$before"
	is "its symbolizer" "$(metric pillion_symbolizer_up) $(metric pillion_readers_up)" "1 1"
	kill -KILL "$before"
	until_true "$PATIENCE" says_metric pillion_symbolizer_up 0 || fail "it is up: $(cat service.log)"
	"${RUN[@]}" -- ./app1 >/dev/null
	(($(folded_of app1 | share '_ZN4work5churn') >= 80)) || fail "its names: $(folded_of app1)"
	is "lines of who forks them" "$(lines_of 'outcome=no_symbolizer_restart reason="who forks them was killed by signal 9"')" 1
	is "lines of the last" "$(lines_of 'outcome=no_symbolizer reason="the symbolizer has ended"')" 1
	is "another one" "$(symbolizer)" ""
	end_names
}
row "who forks symbolizers is killed: the one that is there goes on, and is the last" test_forkserver_killed
