# suite_slowfiles - targets whose files lie on a file system that does not answer: fuse-overlayfs, stopped. That holds up
# nobody else, ends nothing late, and costs names alone.

. "$TOP/tests/integration/lines.sh"
lab_install targets/deaf

# What the program does while its file system answers is done when it says so; it goes to work when it is told.
SLOW_SOURCE='#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
unsigned long grind(double seconds);
#ifdef LIBRARY
unsigned long grind(double seconds)
{
	struct timespec now, start;
	unsigned long sum = 0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (int i = 0; i < 100000; i++)
			sum = sum * 31 + i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
	return sum;
}
#else
int main(int argc, char **argv)
{
	char any;
	grind(0);
	if (write(1, "ready\n", 6) != 6 || read(0, &any, 1) < 0)
		return 1;
	grind(strtod(argv[1], NULL));
	return 7;
}
#endif'

begin_slow() { # [OPTION...] - with ./fuse/slow on a file system of ./low, whose process is $FUSE
	begin_run --events cpu@99 "$@"
	need fuse-overlayfs gcc
	[[ -c /dev/fuse ]] || skip "there is no /dev/fuse"
	mkdir low fuse
	echo "$SLOW_SOURCE" >slow.c
	gcc -O2 -shared -fPIC -DLIBRARY -o low/libslow.so slow.c
	gcc -O2 -g -o low/slow slow.c -Llow -lslow -Wl,-rpath,"$ROW/fuse"
	chmod -R a+rX low
	setsid fuse-overlayfs -f -o lowerdir="$ROW/low",allow_other "$ROW/fuse" >fuse.out 2>&1 &
	FUSE=$!
	trap 'end_slow || :' EXIT
	until_true 20 test -e fuse/slow || fail "fuse-overlayfs: $(cat fuse.out)"
}
end_slow() { # it answers again or is gone, whatever became of the row
	kill -CONT "$FUSE" && umount -l fuse
	timeout 5 tail --pid="$FUSE" -s 0.05 -f /dev/null || kill -KILL "$FUSE"
	wait "$FUSE" || :
	trap - EXIT
} 2>/dev/null

# Its libraries are mapped, none of its files was looked at; then its file system stops, and it goes to work.
start_slow() { # SECONDS COMMAND... - sets SLOW
	local seconds=$1
	shift
	mkfifo go
	"$@" -- "$ROW/fuse/slow" "$seconds" <go >slow.out 2>slow.err &
	SLOW=$!
	exec 9>go
	until_true 10 grep -qs ready slow.out || fail "it does not start: $(cat slow.err)"
	kill -STOP "$FUSE"
	echo >&9
}

ends_well() { # what was started by start_slow
	local status=0
	wait "$SLOW" || status=$?
	is "the program's status" "$status" 7
}

test_others() {
	begin_slow
	need g++
	service_run
	start_slow 6 "${RUN[@]}" --window 5s
	sleep 1
	echo "$SOURCE" >a.cc
	g++ -O2 -o whole a.cc
	timeout 40 "${RUN[@]}" -- ./whole 1 >/dev/null
	until_true 20 written whole || fail "the other has no profile; pilliond: $(cat /proc/$SERVICE/wchan) $(cat /proc/$SERVICE/stack 2>/dev/null)"
	has "the other's names" "$(folded_of whole)" 'churn'
	ends_well
	until_true 20 written slow || fail "no profile"
	has "its names" "$(folded_of slow)" '\[unreadable\] libslow.so'
	kill "$SERVICE"
	end_slow
	end_run
}
row "a program whose files hang: another one on the same service is profiled in time" test_others

test_session() {
	begin_slow
	start_slow 2 "${RUN[@]}"
	ends_well
	is "the file system's process, as the program has ended" "$(ps -o stat= -p "$FUSE" | cut -c 1)" T
	until_true 20 written slow || fail "no profile: $(cat run/log)"
	has "its names" "$(folded_of slow)" '\[unreadable\] libslow.so'
	has "its notes" "$(comments_of slow)" 'the file system does not answer'
	is "lines in the log" "$(grep -c 'its file system does not answer' run/log)" 1
	until_true 20 no_profiler || fail "a profiler is left: $(profilers)"
	end_slow
	end_run
}
row "a program whose files hang: its end is not late, its session ends, the profile says why" test_session

test_debug_file() { # beside the program, where gdb looks for it
	begin_slow
	need g++ objcopy
	mkdir app app/.debug
	echo "$SOURCE" >a.cc
	g++ -O2 -g -rdynamic -o app/program a.cc
	objcopy --only-keep-debug app/program low/program.debug
	strip --strip-debug app/program
	objcopy --add-gnu-debuglink=low/program.debug app/program
	chmod -R a+rX app low
	mount --bind fuse app/.debug
	"${RUN[@]}" -- ./app/program 3 >/dev/null &
	local program=$!
	sleep 1
	kill -STOP "$FUSE"
	wait "$program"
	until_true 20 written program || fail "no profile: $(cat run/log)"
	has "its names" "$(folded_of program)" 'churn'
	until_true 20 no_profiler || fail "a profiler is left: $(profilers)"
	umount -l app/.debug
	end_slow
	end_run
}
row "a debug file that hangs costs lines, no names" test_debug_file

# A request that was read and is not answered: nothing ends who waits for it, not even KILL.
begin_deaf() { # [OPTION...] - with ./app/program, whose debug file is on a deaf file system, whose process is $FUSE
	begin_run --events cpu@99 "$@"
	need g++ objcopy
	[[ -c /dev/fuse ]] || skip "there is no /dev/fuse"
	mkdir app app/.debug fuse
	echo "$SOURCE" >a.cc
	g++ -O2 -g -rdynamic -o app/program a.cc
	objcopy --only-keep-debug app/program program.debug
	strip --strip-debug app/program
	objcopy --add-gnu-debuglink=program.debug app/program
	chmod -R a+rX app
	"$LAB/bin/deaf" app/.debug >fuse.out 2>&1 &
	FUSE=$!
	trap 'end_deaf || :' EXIT
	until_true 20 test -e app/.debug/program.debug || fail "deaf: $(cat fuse.out)"
}
end_deaf() {
	kill -KILL "$FUSE"
	wait "$FUSE" || :
	umount -l app/.debug
	trap - EXIT
} 2>/dev/null
lingering() { # readers that wait for a file system, without end
	local pid
	for pid in $(profilers); do
		[[ $(cat "/proc/$pid/comm") == pilliond-files && $(ps -o state= -p "$pid") == D ]] && echo "$pid"
	done 2>/dev/null
	:
}
is_lingering() { [[ -n $(lingering) ]]; }

test_lingering_session() {
	begin_deaf
	"${RUN[@]}" -- ./app/program 3 >/dev/null # nothing ever answers its reader
	until_true 20 written program || fail "no profile: $(cat run/log)"
	has "its names" "$(folded_of program)" 'churn'
	until_true 20 is_lingering || fail "none waits: the row says nothing"
	until_true 20 only_lingering || fail "left: $(profilers), of which these wait: $(lingering)"
	end_deaf
	end_run
}
only_lingering() { [[ $(profilers) == "$(lingering)" ]]; }
row "a reader that nothing ends: the session ends without it, and it with its file system" test_lingering_session

test_lingering_service() {
	begin_deaf
	service_run
	"${RUN[@]}" -- ./app/program 3 >/dev/null &
	local program=$!
	until_true 10 is_lingering || fail "none waits: the row says nothing"
	cp app/program whole
	"${RUN[@]}" -- ./whole 1 >/dev/null
	until_true 20 written whole || fail "the other has no profile: $(cat service.log)"
	has "the other's names" "$(folded_of whole)" 'churn'
	wait "$program"
	until_true 20 written program || fail "no profile: $(cat service.log)"
	has "its names" "$(folded_of program)" 'churn'
	kill "$SERVICE"
	wait "$SERVICE" || :
	end_deaf
	end_run
}
row "a reader that nothing ends: the service goes on without it" test_lingering_service
