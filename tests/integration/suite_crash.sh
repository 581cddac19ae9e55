# suite_crash - programs that end by a signal, with the event `crash`: each is reported once, by the right function, and is
# as dead as without us: exit status, core file, output, what its own handlers see.

. "$TOP/tests/integration/wrapped.sh"
lab_install targets/crasher tools/deny
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program
C=$LAB/bin/crasher

begin_crash() { # [OPTION...]
	begin_run --events crash "$@"
	ulimit -S -c 0
}
reports() { { find out spool -path '*/crashes/*.json' || :; } 2>/dev/null | sort; }
n_reports() { (($(reports | wc -l) == $1)); }
reported() { # COUNT
	until_true 20 n_reports "$1" || fail "$(reports | wc -l) reports, not $1: $(cat run/log 2>/dev/null)"
}
field() { jq -r "$1" "$(reports | awk 'NR == 1')"; }
top() { field '[.frames[] | select(.module) | .function][0]'; }
frames() { field '.frames[] | .function' | xargs; }

# The same program without us and with us: what it says, and how it ends.
same_end() { # COMMAND...
	local plain
	plain=$(status_of "$@" >plain.status 2>plain.out)
	status_of "${RUN[@]}" -- "$@" >with.status 2>with.out
	is "its exit status" "$(cat with.status)" "$(cat plain.status)"
	diff <(unnumbered <plain.out) <(unnumbered <with.out) || fail "it says something else"
}
unnumbered() { sed -E 's/^child [0-9]+/child/; /: line [0-9]+: *[0-9]+ /d'; } # of bash: what it saw end
ends() { # PID - its exit status, by now a child of this very shell
	ENDED=0
	wait "$1" || ENDED=$?
}

# --- each signal

test_way() { # WAY SIGNAL FUNCTION WHAT
	need jq
	begin_crash
	same_end "$C" "$1"
	reported 1
	is "signal" "$(field .signal.name)" "$2"
	is "function" "$(top)" "$3"
	has "what it was" "$(field .signal.what)" "$4"
	is "process" "$(field .process.name)" crasher
	end_run
}
test_behind() { # `pillion crashes` waits for the report of what has just ended
	begin_crash
	status_of "${RUN[@]}" -- "$C" null >with.status 2>with.out
	"$LAB/bin/pillion" crashes out >shown 2>said || fail "exit status $?: $(cat said with.out)"
	has "what crashes shows" "$(cat shown)" 'crasher.*SIGSEGV.*at_null'
	end_run
}
row "crashes right behind it: the crash is there" test_behind
row "a write to 0" test_way null SIGSEGV at_null '^write to 0x0, where nothing is mapped$'
row "a read of an address that is not mapped" test_way read SIGSEGV at_read '^read of 0xdead0000, where nothing is mapped$'
row "a write to a constant" test_way constant SIGSEGV at_constant '^write to 0x[0-9a-f]*000, which the mapping there does not permit$'
row "an address that is none" test_way noncanonical SIGSEGV at_noncanonical 'address that is none'
row "a call of 0: who called is the first function" test_way call0 SIGSEGV at_call0 '^code at 0x0, where nothing is mapped$'
row "a call of an address that is none" test_way callgarbage SIGSEGV at_callgarbage 'address that is none'
row "a call of data" test_way calldata SIGSEGV at_calldata '^code at 0x[0-9a-f]*000, which the mapping there does not permit$'
row "a division by zero" test_way divide SIGFPE at_divide 'divided by zero'
row "an instruction that is none" test_way illegal SIGILL at_illegal 'that is none'
row "a breakpoint" test_way breakpoint SIGTRAP at_breakpoint breakpoint
row "a mapping behind the end of its file" test_way bus SIGBUS at_bus '^write to 0x[0-9a-f]*000, behind the end of the file'
row "a stack that is used up" test_way deep SIGSEGV at_deep 'the stack is used up$'
row "a stack pointer beyond the stack" test_way wide SIGSEGV at_wide 'where nothing is mapped'
row "a stack pointer that is no address" test_way stackpointer SIGSEGV at_stackpointer '^write to 0x122c, where nothing is mapped$'
row "a thread without memory of its own" test_way threadpointer SIGSEGV at_threadpointer '^write to 0x0'
row "a stack of a thread that is used up" test_way thread_deep SIGSEGV at_deep 'the stack is used up$'
row "inside malloc, which has a corrupt heap" test_way malloc SIGSEGV _int_malloc '^read of 0xdeadbeef010'
row "in a forked child" test_way forked SIGSEGV at_null '^write to 0x0'
row "in an execed child" test_way execed SIGSEGV at_null '^write to 0x0'

test_frames() { # WAY SIGNAL FRAMES
	need jq
	begin_crash
	same_end "$C" "$1"
	reported 1
	is "signal" "$(field .signal.name)" "$2"
	has "frames" "$(frames)" "$3"
	end_run
}
row "abort" test_frames abort SIGABRT ' abort at_abort go main '
row "assert" test_frames assert SIGABRT ' abort .*__assert_fail at_assert go main '
row "a corrupt heap that malloc finds" test_frames heap SIGABRT ' abort .*_int_malloc malloc malloc at_heap go main '
row "raise" test_frames raise SIGFPE ' raise at_raise go main '
row "sigqueue" test_frames queue SIGSEGV 'sigqueue at_queue go main '
row "in a thread" test_frames thread SIGSEGV '^at_null run '
row "in a handler of another signal" test_frames handler SIGSEGV '^at_null on_usr1 .* raise handler go main '
row "a child of vfork has no report, its parent has" test_frames vforked SIGFPE '^at_divide vforked go main '

test_thread_named() {
	need jq
	begin_crash
	same_end "$C" thread
	reported 1
	is "thread" "$(field .thread.name)" worker
	(($(field .thread.tid) != $(field .process.pid))) || fail "it is the first thread"
	end_run
}
row "a thread has its name" test_thread_named

test_together() { # eight threads at the same moment
	begin_crash
	same_end "$C" threads
	until_true 20 no_profiler || fail "it does not end"
	(($(reports | wc -l) >= 1 && $(reports | wc -l) <= 8)) || fail "$(reports | wc -l) reports"
	end_run
}
row "eight threads at once: one each at most" test_together

test_sent() {
	need jq
	begin_crash
	"${RUN[@]}" -- "$C" wait >told &
	local pid=$!
	until_true 10 grep -q waits told || fail "it does not begin"
	kill -SEGV $pid
	ends $pid
	is "its exit status" $ENDED 139
	reported 1
	has "what it was" "$(field .signal.what)" "^sent by kill.2.: by pid $BASHPID of user 0\$"
	is "sender" "$(field .signal.sender)" $BASHPID
	has "frames" "$(frames)" ' at_wait go main '
	end_run
}
row "a signal that somebody sends" test_sent

# --- core files

core_of() { # NAME COMMAND... - cores/NAME/core, if it leaves one
	mkdir -p "cores/$1"
	(
		ulimit -S -c unlimited
		cd "cores/$1"
		"${@:2}" >/dev/null 2>&1 || :
	)
	local core
	core=$(find "cores/$1" -type f | awk 'NR == 1')
	[[ -z $core || $core -ef cores/$1/core ]] || mv "$core" "cores/$1/core"
}
read_cores() { # by one gdb, into cores/NAME/says
	local core script=()
	for core in cores/*/core; do
		script+=(-ex "echo == ${core%/core}\\n" -ex "core-file $core" -ex 'p $_siginfo.si_signo' -ex 'p $_siginfo.si_code'
			-ex 'p $_siginfo.si_errno' -ex 'info frame' -ex 'bt 1')
	done
	gdb -q -batch -nx "$C" "${script[@]}" 2>gdb.said | sed -nE 's/^== /== /p; s/^\$[0-9]+( = .*)/is\1/p
		s/^ rip = 0x[0-9a-f]+ in ([a-z_0-9]+).*/at \1/p; s/^#0 +(0x[0-9a-f]+ in )?([a-z_0-9]+).*/in \2/p' |
		awk '$1 == "==" { file = $2 "/says"; next } { print >file }'
}
test_core() { # WAY...
	need gdb
	begin_crash
	[[ $(cat /proc/sys/kernel/core_pattern) != [/\|]* ]] || skip "core files go elsewhere: kernel.core_pattern"
	local way plain
	for way; do
		core_of "plain.$way" "$C" "$way"
		core_of "ours.$way" "${RUN[@]}" -- "$C" "$way"
	done
	read_cores
	for way; do
		plain=$(cat "cores/plain.$way/says" 2>/dev/null) || :
		[[ $plain == *' = '*' = '*'in '* ]] || fail "$way: no core file even without us: $plain $(cat gdb.said)"
		is "core of $way" "$(cat "cores/ours.$way/says" 2>/dev/null || echo none)" "$plain"
	done
	end_run
}
row "core files of faults" test_core null read constant noncanonical call0 callgarbage calldata divide illegal bus
row "core files of what is sent" test_core breakpoint abort assert raise queue
row "core files where little is left" test_core deep wide stackpointer threadpointer thread_deep heap malloc
row "core files of programs with handlers" test_core own_default own_raise own_reset own_crash own_sysv own_stack handler

test_log() { # of the kernel
	need dmesg
	begin_crash
	[[ $(cat /proc/sys/debug/exception-trace) == 1 ]] || skip "debug.exception-trace is off"
	until_true 20 is_logged || fail "$(dmesg | tail -n 5)"
	end_run
}
is_logged() { # it takes ten lines in five seconds
	"${RUN[@]}" -- "$C" read 2>/dev/null &
	local pid=$!
	ends $pid
	sleep 0.5
	grep -q "crasher\[$pid\]: segfault at dead0000" <(dmesg)
}
row "the kernel's log has its line" test_log

# --- handlers of its own

test_own() { # WAY REPORTS
	begin_crash
	same_end "$C" "$1"
	until_true 20 no_profiler || fail "it does not end"
	is "reports" "$(reports | wc -l)" "$2"
	end_run
}
row "a handler that ends the program: no crash" test_own own_exit 0
row "a handler that mends 100,000 faults: no crash" test_own own_mend 0
row "a handler that leaves by siglongjmp: no crash" test_own own_jump 0
row "a handler that sets the default and returns" test_own own_default 1
row "a handler that sets the default and raises" test_own own_raise 1
row "a handler that is there once" test_own own_reset 1
row "a handler of sysv_signal" test_own own_sysv 1
row "a handler that crashes" test_own own_crash 1
row "a handler on a stack of the program's own" test_own own_stack 1
row "an ignored signal, and abort" test_own ignored 0
row "what it is shown of dispositions and stacks" test_own shown 0
row "a program that is well" test_own fine 0
row "a sandbox that permits nothing: it dies of the same" test_own sandboxed 0

test_java() { # null pointers are faults, 300,000 of them
	need java javac
	begin_crash
	cat >N.java <<-'EOF'
		public class N {
			String s;
			static int f(N n) { return n.s.length(); }
			public static void main(String[] a) {
				int c = 0;
				for (int i = 0; i < 300000; i++)
					try { f(i % 3 == 0 ? null : new N()); } catch (NullPointerException e) { c++; }
				System.out.println(c);
			}
		}
	EOF
	javac N.java
	same_end java N
	until_true 20 no_profiler || fail "it does not end"
	is "reports" "$(reports | wc -l)" 0
	end_run
}
row "java: its null pointers are no crashes" test_java

test_faulthandler() {
	need python3 jq
	begin_crash
	local python
	python=$(python3 -c 'import sys; print(sys.executable)')
	is "status" "$(status_of "${RUN[@]}" -- "$python" -c 'import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)' 2>said)" 139
	has "stderr" "$(cat said)" 'Segmentation fault'
	reported 1
	is "signal" "$(field .signal.name)" SIGSEGV
	end_run
}
row "python: its fault handler speaks, then it is reported" test_faulthandler

test_go() {
	need go gcc
	begin_crash
	cat >g.go <<-'EOF'
		package main
		// static void c(void) { *(volatile int *)0 = 1; }
		import "C"
		func main() {
			defer func() { println("recovered", recover() != nil); C.c() }()
			var p *int
			*p = 1
		}
	EOF
	HOME=$ROW GOCACHE=$ROW/cache go build -o g g.go 2>/dev/null || skip "go has no C compiler"
	is "status" "$(status_of "${RUN[@]}" -- ./g 2>said)" 2
	has "stderr" "$(cat said)" 'recovered true.*fatal error: unexpected signal'
	is "reports" "$(reports | wc -l)" 0
	end_run
}
row "a Go program is left alone" test_go

# --- many, and in bad times

test_many() { # WAY...
	local way n=200 wanted seen
	[[ -z ${FULL-} ]] || n=1000
	begin_crash
	for way; do
		rm -rf out/*
		timeout 50 "${RUN[@]}" -- "$C" "$way" $n >told 2>/dev/null || fail "it hangs"
		is "ended" "$(cat told)" "$n ended by a signal"
		seen=$("$LAB/bin/pillion" report --folded --type crashes "$(first_of crasher)" | awk '{ n += $NF } END { print n + 0 }')
		wanted=$n
		((seen == wanted)) || fail "$way: $seen of $wanted"
		until_true 20 between_reports 64 100 || fail "$(reports | wc -l) reports"
		until_true 20 no_profiler || fail "it does not end"
	done
	end_run
}
between_reports() { (($(reports | wc -l) >= $1 && $(reports | wc -l) <= $2)); }
row "children that crash one after the other: each is counted, none hangs" test_many null abort deep heap

test_stopped() { # a profiler that is stopped, and one that is gone
	local began ms
	begin_crash
	for signal in STOP KILL; do
		"${RUN[@]}" -- "$C" wait >told &
		local pid=$!
		until_true 10 grep -q waits told || fail "it does not begin"
		mapfile -t profilers < <(sessions_all)
		((${#profilers[@]} > 0)) || fail "no profiler"
		kill -"$signal" "${profilers[@]}"
		began=${EPOCHREALTIME/./}
		kill -SEGV $pid
		ends $pid
		is "its exit status" $ENDED 139
		ms=$(((${EPOCHREALTIME/./} - began) / 1000))
		((ms < 2000)) || fail "$signal: it took $ms ms"
		kill -KILL "${profilers[@]}" 2>/dev/null || :
		rm -f told
	done
	end_run
}
sessions_all() { lab_processes | awk '/--session/ { print $2 }'; }
row "a profiler that is stopped or gone: it dies all the same" test_stopped

test_refused() { # without perf events
	need jq
	begin_run --events cpu,crash
	ulimit -S -c 0
	local way
	for way in null deep thread forked execed; do
		rm -rf out/*
		status_of "$LAB/bin/deny" perf_event_open EPERM "${RUN[@]}" -- "$C" $way >/dev/null 2>&1
		reported 1
		has "frames of $way" "$(frames)" '^(at_null|at_deep) '
		until_true 20 no_profiler || fail "it does not end"
	done
	end_run
}
row "without perf events" test_refused

test_forbidden() { # to read memory by a system call
	need jq
	begin_crash
	local way
	for way in null deep thread wide; do
		rm -rf out/*
		status_of "$LAB/bin/deny" process_vm_readv EPERM "${RUN[@]}" -- "$C" $way >/dev/null 2>&1
		reported 1
		[[ $way == wide ]] || has "frames of $way" "$(frames)" '^(at_null|at_deep) (go|run|at_deep) '
		until_true 20 no_profiler || fail "it does not end"
	done
	end_run
}
row "process_vm_readv is forbidden" test_forbidden

test_init() { # what is sent to PID 1 is dropped, unless it has a handler
	begin_crash
	local plain with
	plain=$(status_of unshare -pf --kill-child -- "$C" init 2>&1)
	with=$(status_of unshare -pf --kill-child -- "${RUN[@]}" -- "$C" init 2>said)
	is "exit status" "$with" "${plain##*$'\n'}"
	has "its output" "$(cat said)" lived
	end_run
}
row "PID 1: what is sent is dropped, abort ends it" test_init

test_user() {
	need jq
	begin_crash
	chmod 777 .
	is "status" "$(status_of "${NOBODY[@]}" "${RUN[@]}" -- "$C" null 2>/dev/null)" 139
	reported 1
	is "function" "$(top)" at_null
	end_run
}
row "a plain user" test_user

test_beside() { # CPU time as well
	need jq
	begin_run --events cpu,crash,alloc/256
	ulimit -S -c 0
	is "status" "$(status_of "${RUN[@]}" -- "$C" malloc 2>/dev/null)" 139
	reported 1
	is "function" "$(top)" _int_malloc
	end_run
}
row "with other events" test_beside

test_musl_crash() {
	need musl-gcc jq
	begin_crash
	printf '#include <pthread.h>\n#include <signal.h>\n#include <stdio.h>\n%s\n%s\n' \
		'static void *deep(void *p) { volatile char room[512]; room[0] = 1; void *r = deep((void *)room); return room[0] ? r : p; }' \
		'int main(int n, char **a) { struct sigaction s; sigaction(SIGSEGV, 0, &s); printf("%d\n", s.sa_handler == SIG_DFL); fflush(stdout);
		pthread_t t; if (n > 1) { pthread_create(&t, 0, deep, 0); pthread_join(t, 0); } *(volatile int *)8 = 1; }' >m.c
	musl-gcc -O1 -fno-optimize-sibling-calls -g -w -o m m.c
	same_end ./m
	reported 1
	is "function" "$(top)" main
	rm -rf out/*
	same_end ./m deep
	reported 1
	is "function" "$(top)" deep
	end_run
}
row "a program of musl's" test_musl_crash

test_stripped() {
	need jq
	begin_crash
	strip -o ./bare "$C"
	same_end ./bare null
	reported 1
	has "function" "$(top)" '^bare\+0x[0-9a-f]+$'
	has "offset" "$(field '.frames[0].offset')" '^0x'
	end_run
}
row "a stripped program: module and offset" test_stripped

test_static_crash() {
	need_root
	begin_crash
	printf 'int main(void) { return 7; }\n' >s.c
	gcc -static -o s s.c
	is "status" "$(status_of "${RUN[@]}" -- ./s 2>said)" 7
	has "stderr" "$(cat said)" 'crash: .*/s is a static program'
	end_run
}
row "a static program is told so, and runs" test_static_crash

test_instrumented() { # by the program's own account
	need jq
	begin_crash
	printf '%s\n' 'volatile int *p; void inner(void) { *p = 1; } void outer(void) { inner(); } int main(void) { outer(); return 0; }' >i.c
	gcc -O0 -g -finstrument-functions -o i i.c
	PILLION_TREE=$ROW/tree status_of "${RUN[@]}" -- ./i >/dev/null 2>&1
	reported 1
	is "calls" "$(field '.calls[] | .function' | xargs)" "inner outer main"
	end_run
}
row "an instrumented program's calls" test_instrumented

# --- what is told

test_secret() {
	need jq
	begin_crash
	same_end "$C" secret
	reported 1
	has "frames" "$(frames)" '^at_null at_secret '
	until_true 20 no_profiler || fail "it does not end"
	! grep -r Swordfish out run/log || fail "what was on its stack is there"
	! grep -ri "$(printf 'sihf' | od -An -tx8 | xargs)" out || fail "what was on its stack is there"
	end_run
}
row "what was on its stack is nowhere" test_secret

test_command() {
	need jq
	begin_crash
	local P=$LAB/bin/pillion
	status_of "${RUN[@]}" -- "$C" null >/dev/null 2>&1
	reported 1
	"$P" crashes out >list
	is "lines" "$(wc -l <list)" 2
	has "the list" "$(cat list)" ' crasher +[0-9]+ +crasher +SIGSEGV +at_null +out/crashes/[0-9T.]+Z-crasher-[0-9]+\.json'
	"$P" crashes out/crashes >list2
	is "lines" "$(wc -l <list2)" 2
	"$P" crashes "$(reports)" >text
	has "the report" "$(cat text)" 'SIGSEGV, 20.*write to 0x0, where nothing is mapped.* 0  at_null  .*crasher.c:[0-9]+  crasher\+0x.*registers:.*rip .*code:.*crasher'
	"$P" crashes --json out | jq -e '.frames[0].function == "at_null" and .mappings[0].start' >/dev/null || fail "the document"
	is "mode" "$(stat -c %a "$(reports)")" 640
	mkdir none
	is "status of none" "$(status_of "$P" crashes none 2>said)" 3
	is "status of no directory" "$(status_of "$P" crashes nowhere 2>said)" 1
	has "stderr" "$(cat said)" 'pillion crashes: cannot read nowhere: No such file'
	echo '{' >bad.json
	is "status of no report" "$(status_of "$P" crashes bad.json 2>said)" 1
	has "stderr" "$(cat said)" 'bad.json is no report of a crash'
	echo '{"frames": 7, "signal": []}' >odd.json
	"$P" crashes odd.json >/dev/null
	end_run
}
row "pillion crashes: the list, one, as it is, and mistakes" test_command

test_metric() {
	need curl
	begin_crash
	service_run
	status_of "${RUN[@]}" -- "$C" null >/dev/null 2>&1
	reported 1
	curl -sS --max-time 5 --unix-socket "$ROW/run/http.sock" http://localhost/metrics >metrics
	is "metric" "$(awk '/^pillion_crashes_total / { print $2 }' metrics)" 1
	kill -TERM "$SERVICE"
	wait "$SERVICE" || :
	end_run
}
row "a service: its spool, and its metric" test_metric
