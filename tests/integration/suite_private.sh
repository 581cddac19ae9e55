# suite_private - programs and libraries that only their owner may read have names, however they are profiled: the
# owner's file opener reads them, with his rights (shim/attach/file_opener.h). Where there is none, or none any more, what
# everybody may read has names all the same, and a note says why the rest has none.

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener tools/peer targets/identity
GROUP=users # there is one on every Debian
OWNER=64911 # of this suite alone

as() { # UID COMMAND... - a member; 0: root
	if [[ $1 == 0 ]]; then "${@:2}"; else setpriv --reuid "$1" --regid "$1" --groups "$GROUP" "${@:2}"; fi
}

library() { # FILE FUNCTION - which runs for seconds, in a function that only debug information knows
	gcc -g -O1 -shared -fPIC -o "$1" -x c - <<LIBRARY || fail "the library does not build"
#include <time.h>
static volatile long number;
static inline __attribute__((always_inline)) void work_inlined(void)
{
	for (int i = 0; i < 1000000; i++)
		number++;
}
void $2(double seconds);
void $2(double seconds)
{
	for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
		work_inlined();
}
LIBRARY
}

# ./home/program SECONDS [SECONDS] runs in ./home/libwork.so, and then in ./open/libopen.so, which everybody may read.
make_private() { # UID
	need gcc
	mkdir -m 700 home
	mkdir -m 755 open
	(umask 022 && library open/libopen.so work_of_all)
	(umask 077 && library home/libwork.so work_of_library &&
		gcc -g -O1 -o home/program -x c - -x none home/libwork.so open/libopen.so "-Wl,-rpath,$ROW/home:$ROW/open") <<'PROGRAM' || fail "the program does not build"
#include <stdlib.h>
void work_of_library(double seconds);
void work_of_all(double seconds);
int main(int argc, char **argv)
{
	work_of_library(atof(argv[1]));
	if (argc > 2)
		work_of_all(atof(argv[2]));
	return 0;
}
PROGRAM
	chown -h "$1:$1" home home/program home/libwork.so
}
begin_private() { # session|service UID
	SERVICE_OPTIONS=(--users-group "$GROUP")
	case $1 in
	session) begin_run ;;
	service) begin_service ;;
	esac
	make_private "$2"
}
end_private() { # session|service
	case $1 in
	session) end_run ;;
	service) end_service ;;
	esac
}
has_names() { # FOLDED COMMENTS
	# asking for the time, or what the kernel does meanwhile, is below the same functions
	(($(share ';main;work_of_library;(work_inlined|clock)[; ]' <<<"$1") >= 90)) || fail "names that are missing: $1"
	(($(share ';main;work_of_library;work_inlined[; ]' <<<"$1") >= 50)) || fail "inlined names that are missing: $1"
	[[ $2 != *'[unreadable]'* ]] || fail "$(grep -F '[unreadable]' <<<"$2")"
}

# The pid of this lab's file opener, once it is in its role; before that it looks as the process that started it.
file_openers() {
	local pid
	for pid in $({ find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/bin/pillion*" || :; } 2>/dev/null | cut -d/ -f3); do
		[[ $(cat "/proc/$pid/comm") == pillion-private ]] && echo "$pid"
	done 2>/dev/null
	:
}
file_opener() {
	local pid
	for pid in $(file_openers); do
		if grep -q '^Seccomp:[[:blank:]]*2$' "/proc/$pid/status" 2>/dev/null; then
			echo "$pid"
			return
		fi
	done
	return 1
}
files_are_closed() { [[ -z $(file_openers) ]]; }
await_closed() { until_true "$PATIENCE" files_are_closed || fail "a process that opens files is left: $(file_openers)"; }

test_run() { # session|service UID
	local profile
	begin_private "$1" "$2"
	as "$2" "${RUN[@]}" -- home/program 0.6 || fail "exit status $?"
	if [[ $1 == service && $2 != 0 ]]; then
		until_true "$PATIENCE" eval "compgen -G 'spool/.users/$2/program/*.pb.gz' >/dev/null" || fail "no profile: $(cat service.log)"
		profile=$(compgen -G "spool/.users/$2/program/*.pb.gz")
	else
		profile=$(first_of program)
	fi
	has_names "$("$LAB/bin/pillion" report --folded "$profile")" "$(gunzip -c "$profile" | tr -c '[:print:]' '\n')"
	await_closed
	end_private "$1"
}
row "run, session, root: a library below a directory of mode 0700" test_run session 0
row "run, service, root: a library below a directory of mode 0700" test_run service 0
row "run, session, a user: a library below a directory of mode 0700" test_run session $OWNER
row "run, service, a user: a library below a directory of mode 0700" test_run service $OWNER

test_attach() { # session|service
	local target
	begin_private "$1" 0
	home/program 30 &
	target=$!
	until_true 10 eval '[[ $(readlink /proc/'$target'/exe) == */program ]]' || fail "it does not begin"
	"$LAB/bin/pillion" attach "${RUN[@]:2}" --duration 1s "$target" >path 2>said || fail "exit status $?: $(cat said)"
	has_names "$(folded_of program)" "$(comments_of program)"
	await_closed
	is "cgroups of file openers" "$(find /sys/fs/cgroup -path "*/pillion/files-pid-$target@*" | wc -l)" 0
	kill $target
	wait $target || :
	end_private "$1"
}
row "attach, session, root: a library below a directory of mode 0700" test_attach session
row "attach, service, root: a library below a directory of mode 0700" test_attach service

# It may read, and no more, in its role; it is no child of the program, and has nothing of it.
test_privilege() {
	local pid program
	begin_private session 0
	(
		trap '' HUP USR1
		exec nice -n 5 taskset -c 0 "${RUN[@]}" -- home/program 30
	) &
	program=$!
	until_true 20 file_opener >/dev/null || fail "no process that opens files"
	pid=$(file_opener)
	is "its privilege" "$(awk '/^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):/ { sub(":", "", $1); printf "%s=%s ", $1, $2 }' "/proc/$pid/status")" \
		"CapInh=0000000000000000 CapPrm=0000000000000004 CapEff=0000000000000004 CapAmb=0000000000000000 NoNewPrivs=1 Seccomp=2 "
	is "users that are root" "$(awk '/^[UG]id:/ { for (i = 2; i <= 5; i++) n += $i == 0 } END { print n + 0 }' "/proc/$pid/status")" 0
	is "children of the program" "$(pgrep -P $program | wc -l)" 0
	is "the signals that it blocks or ignores" "$(awk '/^Sig(Blk|Ign|Cgt):/ { printf "%s ", $2 }' "/proc/$pid/status")" \
		"0000000000000000 0000000000000000 0000000000000000 "
	is "its niceness" "$(ps -o ni= -p "$pid" | tr -d ' ')" 0
	is "the CPUs that it may use" "$(sed -n 's/^Cpus_allowed:\t//p' "/proc/$pid/status")" "$(sed -n 's/^Cpus_allowed:\t//p' /proc/self/status)"
	has "its cgroup" "$(cat "/proc/$pid/cgroup")" "/pillion/files-run-$program@"
	is "the program's cgroup" "$(cat "/proc/$program/cgroup")" "$(cat /proc/self/cgroup)"
	kill $program
	wait $program || :
	await_closed
	end_private session
}
row "the file opener may read and no more, and has nothing of the program" test_privilege

# The program's stacks are in both libraries; of the one that everybody may read there are names, and a note says what is missing.
half_has_names() { # NAME NOTE
	local folded
	folded=$(folded_of "$1")
	(($(share '[; ]work_of_all;work_inlined[; ]' <<<"$folded") >= 35)) || fail "what everybody may read has no names: $folded"
	[[ $folded != *work_of_library* ]] || fail "no process of ours may read that: $folded"
	has "the notes" "$(comments_of "$1" | grep -a ' ')" "files that the profiler may not open have no names: $2"
}

# Before the program begins its file opener gets a signal: it is a script at first.
test_signalled() { # session|service SIGNAL NOTE
	begin_private "$1" 0
	cat >signalled <<SCRIPT
#!/bin/bash
until [[ -s pid ]]; do sleep 0.02; done
exec home/program 0.6 0.6
SCRIPT
	chmod 755 signalled
	"${RUN[@]}" -- ./signalled &
	local program=$! pid
	until_true 20 file_opener >/dev/null || fail "no process that opens files"
	pid=$(file_opener)
	kill "-$2" "$pid"
	until_true 10 eval '[[ $(ps -o state= -p '"$pid"') == [TZ]* || ! -e /proc/'"$pid"' ]]' || fail "it goes on"
	echo "$pid" >pid.new
	mv pid.new pid
	wait $program || fail "exit status $?"
	half_has_names signalled "$3"
	kill -CONT "$pid" 2>/dev/null || :
	await_closed
	end_private "$1"
}
for mode in session service; do
	row "$mode: the file opener is stopped" test_signalled $mode STOP "the process that opens them does not answer"
	row "$mode: the file opener is killed" test_signalled $mode KILL "the process that opens them has ended"
done

# A service that would refuse the whole target for a descriptor that it does not know.
test_older() {
	begin_private service 0
	"$LAB/bin/peer" older "$ROW/run/older.sock" "$SOCKET" >peer.out &
	local peer=$!
	until_true "$PATIENCE" grep -qs ready peer.out || fail "no peer"
	"${RUN[@]}" --control "$ROW/run/older.sock" -- home/program 0.6 0.6 || fail "exit status $?"
	half_has_names program "the service is of a version that takes no process that opens them"
	await_closed
	kill $peer
	end_private service
}
row "a service of the version before takes the rest" test_older

# Where orphans are the program's children there is none.
test_subreaper() {
	begin_private session 0
	"$LAB/bin/identity" --subreaper "${RUN[@]}" -- home/program 0.6 0.6 || fail "exit status $?"
	half_has_names program "the process that opens them would become the program's child"
	end_private session
}
row "a child subreaper: there is no file opener, and a note says so" test_subreaper
