# suite_symbols - names, files, lines and inlined calls in a profile: as other tools say of the same addresses, wherever
# the debug information lies; as far as there is any; and in time, whatever becomes of those who look for it.
#
# What a location is comes from `go tool pprof -raw`, what it should be from addr2line, nm and c++filt.

. "$TOP/tests/integration/lines.sh"
lab_install pillion-hook
SOME=0.4 # s of CPU time: two hundred samples

test_lines() { # WHO...
	begin_symbols
	"$@" "${RUN[@]}" -- ./whole $SOME >/dev/null
	is_as_addr2line "$(first_of whole)" whole whole
	has "its names" "$(names_of "$(first_of whole)")" "work::Random::next\\(\\)"
	end_run
}
row "a program with debug information: names, files, lines and inlined calls as addr2line says" test_lines "${AS_ROOT[@]}"
row "the same, as a plain user" test_lines "${NOBODY[@]}"

# --- debug information elsewhere

BUILD_ID=b1a2c3d4e5f60718293a4b5c6d7e8f9012345678
DEBUG_DIR=/usr/lib/debug/.build-id/${BUILD_ID:0:2}
DEBUG_FILE=$DEBUG_DIR/${BUILD_ID:2}.debug
separate() { # ./app/program, stripped, that names program.debug, which is ./program.debug
	mkdir -m 755 app
	build_once identified -Wl,--build-id=0x$BUILD_ID
	cp "$LAB/lines/identified" app/whole
	objcopy --only-keep-debug app/whole program.debug
	strip -o app/program app/whole
	objcopy --add-gnu-debuglink=program.debug app/program
	mv app/whole whole
}
test_separate() { # COMMAND - which puts ./program.debug where it belongs
	begin_symbols
	separate
	[[ ! -e $DEBUG_DIR ]] || fail "$DEBUG_DIR is there already"
	trap 'rm -rf "$DEBUG_DIR"' EXIT
	eval "$1"
	"${RUN[@]}" -- ./app/program $SOME >/dev/null
	is_as_addr2line "$(first_of program)" program whole
	end_run
}
row "stripped, its debug information beside it" test_separate 'mv program.debug app/'
row "stripped, its debug information in .debug" test_separate 'mkdir app/.debug && mv program.debug app/.debug/'
row "stripped, its debug information by build-id" test_separate 'mkdir -p "$DEBUG_DIR" && mv program.debug "$DEBUG_FILE"'
test_other_debug() { # of another build
	begin_symbols
	separate
	g++ -O2 -g -Wl,--build-id=0xff$BUILD_ID -o other a.cc
	objcopy --only-keep-debug other app/program.debug
	"${RUN[@]}" -- ./app/program $SOME >/dev/null
	has_no_lines "$(first_of program)" program
	end_run
}
row "stripped, debug information of another build is not taken" test_other_debug

begin_container() { # sets HOOK_ARGS
	ct_need podman-runc
	begin_symbols
	chmod 755 "$ROW"
	mkdir etc spool
	printf 'log_level = info\nbudget = 5s\n' >etc/pillion.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$ROW/hook.sock" --spool "$ROW/spool" --log "$ROW/log"
		--daemon "$LAB/bin/pilliond")
}
in_container() { # SCRIPT - what its init's shell does; sets PROFILE
	ct_run podman-runc c1 -a io.pillion.profile=cpu@499 -- sh -c "cd $ROW && $1" >/dev/null
	until_true 20 a_profile || fail "no profile: $(cat log)"
	PROFILE=$(find spool -name '*.pb.gz' | sort | sed -n 1p)
}
a_profile() { [[ -n $(find spool -name '*.pb.gz') ]]; }
# What the container writes is in its own tree alone.
test_in_container() { # SCRIPT ON-THE-HOST
	begin_container
	separate
	trap 'rm -rf "$DEBUG_DIR"' EXIT
	eval "$2"
	in_container "$1 && exec ./app/program $SOME"
	is_as_addr2line "$PROFILE" program whole
	leak_check
}
row "container: debug information beside it" test_in_container 'mv program.debug app/' true
row "container: debug information in .debug" test_in_container 'mkdir app/.debug && mv program.debug app/.debug/' true
row "container: debug information by build-id, in its tree" test_in_container \
	"mkdir -p $DEBUG_DIR && mv program.debug $DEBUG_FILE" true
row "container: debug information by build-id, on the host" test_in_container "rm -rf $DEBUG_DIR" \
	'mkdir -p "$DEBUG_DIR" && mv program.debug "$DEBUG_FILE"'

# --- names that a program keeps or writes itself

test_go() { # Go's own table stays when the rest is stripped
	begin_symbols
	need go
	mkdir src
	cat >src/main.go <<-'GO'
		package main
		import "fmt"
		//go:noinline
		func burn(n int) (s int) {
			for i := 0; i < n; i++ {
				s += i * i % 7
			}
			return
		}
		func main() {
			t := 0
			for i := 0; i < 60; i++ {
				t += burn(5000000)
			}
			fmt.Println(t)
		}
	GO
	(cd src && HOME=$ROW GOCACHE=$LAB/gocache GO111MODULE=off go build -ldflags "-s -w" -o ../program main.go)
	"${RUN[@]}" -- ./program >/dev/null
	locations "$(first_of program)" program | cut -f 2,3 | sort -u >got
	has "its functions and lines" "$(cat got)" $'main\\.burn\t[^\n]*src/main\\.go:[4-6]\n'
	has "its functions and lines" "$(cat got)" $'main\\.main\t[^\n]*src/main\\.go:1[01-4]\n'
	end_run
}
row "a stripped Go program: functions and lines" test_go

SCRIPT='function fibber(n) { return n < 2 ? n : fibber(n - 1) + fibber(n - 2); }
function working(ms) {
	const end = process.cpuUsage().user + 1000 * ms; // of CPU time
	let sum = 0;
	while (process.cpuUsage().user < end) sum += fibber(20);
	return sum;
}
console.log(working(1200) > 0);'
# In the container's own /tmp and with its own pid; at its end the tree, and with it the map, is gone.
test_javascript() { # OPTION
	begin_container
	need node
	echo "$SCRIPT" >x.js
	in_container "exec node $1 x.js"
	locations_of_all "$PROFILE" >names
	has "its functions" "$(cat names)" '(JS|LazyCompile):[*~+^]?fibber '
	(($("$LAB/bin/pillion" report --folded "$PROFILE" | share 'fibber ') >= 70)) ||
		fail "fibber has not 70 %: $("$LAB/bin/pillion" report --folded "$PROFILE" | sed -n 1,5p)"
	"$LAB/bin/pillion" report --folded "$PROFILE" | grep 'fibber ' | grep -vF '[truncated' | sed -n 1p >stack
	has "a stack from its beginning" "$(cat stack)" ';_start;.*node::Start'
	leak_check
}
test_java() {
	begin_container
	need java
	in_container "exec java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit \
		sun.security.tools.keytool.Main -genkeypair -keyalg RSA -keysize 3072 -alias a -dname CN=a -storepass secret \
		-keystore /tmp/keys"
	locations_of_all "$PROFILE" >names
	has "its functions" "$(cat names)" 'java\.math\.BigInteger\.'
	leak_check
}
locations_of_all() { raw "$1" | awk '/^Locations/ { on = 1 } /^Mappings/ { on = 0 } on'; }
row "node in a container, by its perf map: JavaScript functions" test_javascript --perf-basic-prof
row "node in a container, by its jitdump: JavaScript functions" test_javascript --perf-prof
row "Java in a container, by the perf map that it writes at its end: methods" test_java

# --- no debug information

test_stripped() { # what the dynamic symbols say, and where the others are
	begin_symbols
	strip -o program whole
	"${RUN[@]}" -- ./program $SOME >/dev/null
	has_no_lines "$(first_of program)" program
	has "a stack" "$(folded_of program)" ';main;exported;program\+0x[0-9a-f]+ '
	(($(folded_of program | share 'exported;') >= 80)) || fail "exported has not 80 %: $(folded_of program)"
	end_run
}
row "stripped: it is unwound, and its functions are its dynamic symbols and offsets" test_stripped

demangled() { # PROGRAM - its functions, as c++filt and rustfilt write them
	nm "$1" | awk '$2 ~ /[tTwW]/ { print $3 }' | c++filt | sed -E 's/::h[0-9a-f]{16}($| )/\1/; s/\[[0-9a-f]+\]//g' | sort -u
}
all_are_demangled() { # NAME REGEX - of its names
	local file
	file=$(first_of "$1")
	names_of "$file" >names
	! grep -E '^_(Z|R)|_ZN|_RN' names || fail "mangled names"
	has "its names" "$(cat names)" "$2"
	# of what is inlined there is no symbol
	locations "$file" "$1" | awk -F '\t' '$1 != at && at { print name } { at = $1; name = $2 } END { print name }' |
		sort -u >own
	demangled "$1" >known
	grep -vxFf known own && fail "names that nm does not know"
	:
}
test_cxx_names() {
	begin_symbols
	strip -g -o program whole
	"${RUN[@]}" -- ./program $SOME >/dev/null
	all_are_demangled program "unsigned long work::churn<unsigned long>\\(work::Random&, int\\)"
	end_run
}
row "C++ names without debug information, as c++filt prints them" test_cxx_names
test_rust_names() { # MANGLING
	begin_symbols
	need rustc
	cat >a.rs <<-'RS'
		struct Random<T> { state: T }
		trait Next { fn next(&mut self) -> u64; }
		impl Next for Random<u64> {
			#[inline(never)]
			fn next(&mut self) -> u64 {
				for i in 0..50 { self.state = self.state.wrapping_mul(6364136223846793005).rotate_left(7) ^ i; }
				self.state
			}
		}
		#[inline(never)]
		fn churn<N: Next>(r: &mut N, n: u32) -> u64 { let mut s = 0u64; for _ in 0..n { s ^= r.next(); } s }
		fn main() {
			let mut r = Random { state: 1u64 };
			let mut s = 0;
			for _ in 0..600 { s ^= churn(&mut r, 10000); }
			println!("{}", s);
		}
	RS
	RUSTC_BOOTSTRAP=1 rustc -O -Z unstable-options -C "symbol-mangling-version=$1" -o program a.rs
	"${RUN[@]}" -- ./program >/dev/null
	all_are_demangled program "<program::Random<u64> as program::Next>::next|<a::Random<u64> as a::Next>::next"
	end_run
}
row "Rust names, legacy, without hashes" test_rust_names legacy
row "Rust names, v0" test_rust_names v0

# --- what may go wrong

PROFILE_MS=15000 # from the program's end; 1.5 s is for names
test_garbage() { # SECTION...
	begin_symbols
	local section at size
	cp whole program
	for section; do
		read -r size at < <(objdump -h program | awk -v s="$section" '$2 == s { print "0x" $3, "0x" $6 }')
		head -c $((size)) /dev/urandom | dd of=program bs=1 seek=$((at)) conv=notrunc 2>/dev/null
	done
	local start=${EPOCHREALTIME/./}
	"${RUN[@]}" -- ./program $SOME >/dev/null
	first_of program >/dev/null
	local ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	((ms < 1000 + PROFILE_MS)) || fail "the profile was written after $ms ms"
	plain_names program
	end_run
}
plain_names() { # NAME - those of the symbol table
	(($(folded_of "$1" | share 'work::churn|_ZN4work5churn') >= 80)) || fail "churn has not 80 %: $(folded_of "$1")"
}
row "garbage in .debug_info" test_garbage .debug_info
row "garbage in .debug_abbrev and .debug_line" test_garbage .debug_abbrev .debug_line
row "garbage in all of it" test_garbage .debug_info .debug_abbrev .debug_line .debug_str .debug_ranges .debug_aranges

# The server is a child of the profiler's child, a job the server's.
is_called() { [[ $(cat "/proc/$1/comm" 2>/dev/null) == "$2" ]]; }
reads_files() { is_called "$1" pilliond-files; } # its other child
a_symbolizer() { # sets SYMBOLIZER
	local pid parent
	for pid in $(profilers); do
		is_called "$pid" pilliond-names || continue
		parent=$(ps -o ppid= -p "$pid" | tr -d ' ')
		profilers | grep -x "${parent:-0}" >/dev/null && SYMBOLIZER=$pid && return 0
	done
	return 1
}
filters_of() { sed -n 's/^Seccomp_filters:[\t ]*//p' "/proc/$1/status"; }
# It and whom it forks from now on: a fiftieth of a CPU, or jobs are over before they are seen. Sets SLOW.
slow_down() { # PID
	local root=/sys/fs/cgroup/cpu
	[[ -d $root ]] || { root=/sys/fs/cgroup && echo +cpu >$root/cgroup.subtree_control; }
	SLOW=$root$LAB_CGROUP.slow.$BASHPID
	mkdir "$SLOW"
	if [[ -e $SLOW/cpu.max ]]; then
		echo 2000 100000 >"$SLOW/cpu.max"
	else
		echo 2000 >"$SLOW/cpu.cfs_quota_us"
	fi
	echo "$1" >"$SLOW/cgroup.procs"
}
hit_jobs() { # SIGNAL - every one that is seen, until the server is gone
	local jobs job list=/proc/$SYMBOLIZER/task/$SYMBOLIZER/children server
	server=$(filters_of "$SYMBOLIZER")
	while [[ -e $list ]]; do
		read -r jobs <$list || :
		for job in $jobs; do
			# in its first microseconds it has not said yet that it wants to die with the server
			! reads_files "$job" && (($(filters_of "$job") > server)) && kill "-$1" "$job" && echo "$job" >hits
		done
	done 2>/dev/null
	:
}
# The program waits until it may begin, and goes on until it may end. At 19 Hz its start is no sample, so no name is asked for before.
begin_symbols_slowly() { begin_symbols --events cpu@19; }
go_on() { # PROGRAM... - under RUN; sets PROGRAM
	mkfifo begin
	"${RUN[@]}" -- "$@" "$ROW/go" "$ROW/begin" >worked &
	PROGRAM=$!
	until_true 20 a_symbolizer || fail "no server"
}
go_to_work() { timeout 20 sh -c ': >begin' || fail "the program does not begin"; }
has_worked() { grep -qs worked worked; }
go_to_end() {
	until_true 60 has_worked || fail "it does not work"
	touch go
	wait $PROGRAM || fail "the program: exit status $?"
}
# Of its children, those that it has waited for had page faults: a job has come to its end.
faults() { cut -d ' ' -f 11 "/proc/$SYMBOLIZER/stat"; }
has_answered() { (($(faults) > FAULTS)); }
# While a question is open the worker reads a pipe that it did not have.
pipes() { find "/proc/$(worker)/fd" -lname 'pipe:*' | wc -l; }
is_asking() { (($(pipes) > PIPES)); }

test_hit() { # SIGNAL server|later|job
	begin_symbols_slowly
	local start
	go_on ./whole $SOME
	FAULTS=$(faults)
	case $2 in
	server)
		kill "-$1" "$SYMBOLIZER"
		go_to_work
		;;
	later)
		go_to_work
		until_true 20 has_answered || fail "nothing was asked ahead"
		kill "-$1" "$SYMBOLIZER"
		;;
	job)
		slow_down "$SYMBOLIZER"
		hit_jobs "$1" &
		go_to_work
		until_true 20 test -s hits || fail "no job was hit"
		;;
	esac
	go_to_end
	start=${EPOCHREALTIME/./}
	first_of whole >/dev/null
	until_true 20 no_profiler || fail "a profiler is left: $(profilers)"
	local ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	((ms < 15000)) || fail "the profile was there after $ms ms"
	[[ $2 != job ]] || until_true 5 rmdir "$SLOW"
	if [[ $1$2 =~ ^KILL(server|later)$ ]]; then # there is another one
		is_as_addr2line "$(first_of whole)" whole whole
	else
		plain_names whole
	fi
	[[ $1$2 != STOPserver ]] || (($(not_in_time "$(first_of whole)"))) || fail "the profile does not say that lines are missing"
	end_run
}
row "the symbolizer's server is killed before it is asked" test_hit KILL server
row "the symbolizer's server is killed later" test_hit KILL later
row "the symbolizer's server stops" test_hit STOP server
test_asked_again() {
	begin_symbols_slowly
	go_on ./whole $SOME
	until_true 10 a_reader || fail "no reader"
	PIPES=$(pipes)
	kill -STOP "$SYMBOLIZER"
	go_to_work
	until_true 20 is_asking || fail "nothing is asked ahead"
	kill -KILL "$SYMBOLIZER"
	go_to_end
	is_as_addr2line "$(first_of whole)" whole whole
	end_run
}
a_reader() {
	local pid
	for pid in $(profilers); do
		reads_files "$pid" && return 0
	done
	return 1
}
row "the symbolizer's server is killed while it is asked: the next one is asked again" test_asked_again
row "the symbolizer's jobs are killed, all of them" test_hit KILL job
row "the symbolizer's jobs stop, all of them" test_hit STOP job

test_container_hit() { # SIGNAL
	begin_container
	local start
	mkdir volume
	ln -s volume/go go
	ct_run podman-runc c1 -a io.pillion.profile=cpu@499 -v "$ROW/volume:/volume" -- "$ROW/whole" $SOME /volume/go >worked &
	PROGRAM=$!
	until_true 20 a_symbolizer || fail "no server"
	kill "-$1" "$SYMBOLIZER"
	go_to_end
	start=${EPOCHREALTIME/./}
	until_true 20 a_profile || fail "no profile: $(cat log)"
	until_true 20 no_profiler || fail "a profiler is left: $(profilers)"
	local ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	((ms < 15000)) || fail "the profile was there after $ms ms"
	grep -q _ZN4work5churn < <(raw "$(find spool -name '*.pb.gz')") || fail "its function has no name"
	# the poststop hook waits 400 ms for a session's end, a last window 1.5 s for names: the next start tidies up
	cgroups_remove "*/pillion/session-$(sed -n '/ container=/{s/.* container=\([0-9a-f]*\) .*/\1/p;q}' log)@*"
	leak_check
}
row "container: the symbolizer's server is killed" test_container_hit KILL
row "container: the symbolizer's server stops" test_container_hit STOP

test_term() { # the service is told to end while a last window waits for its names
	begin_symbols
	local i
	service_run
	for i in 0 0.005 0.02 0.1; do
		rm -rf spool/whole
		"${RUN[@]}" -- ./whole 0.2 >/dev/null
		sleep $i # any moment will do
		kill -TERM "$SERVICE"
		wait "$SERVICE" || fail "the service: exit status $?"
		is "profiles" "$(profiles_of whole | wc -l)" 1
		is_as_addr2line "$(first_of whole)" whole whole
		service_run
	done
	kill -TERM "$SERVICE"
	end_run
}
row "SIGTERM when a program has just ended: its profile is whole" test_term
test_term_amid() { # and while it runs
	begin_symbols
	service_run
	go_on ./whole $SOME
	go_to_work
	until_true 60 has_worked || fail "it does not work"
	local start=${EPOCHREALTIME/./}
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service: exit status $?"
	local ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	((ms < 15000)) || fail "it took $ms ms"
	is_as_addr2line "$(first_of whole)" whole whole
	go_to_end
	end_run
}
row "SIGTERM while a program runs: the profile so far is whole" test_term_amid

# More questions than may be open: those that find no room wait for their turn.
test_together() {
	begin_symbols
	local i names=(one two three four five six seven eight nine ten eleven twelve)
	service_run
	build_once numbered -rdynamic -Wl,--build-id=0x12345678aa
	for i in "${!names[@]}"; do # of one build-id they would be one module
		perl -pe 's/\x12\x34\x56\x78\xaa/"\x12\x34\x56\x78" . chr('"$i"')/e' "$LAB/lines/numbered" >"${names[i]}"
		chmod 755 "${names[i]}"
	done
	for i in "${names[@]}"; do
		"${RUN[@]}" -- "./$i" 0.2 "$ROW/go" >"worked.$i" &
	done
	until_true 60 all_work "${names[@]}" || fail "not all work"
	touch go
	wait $(jobs -p | grep -vx "$SERVICE")
	for i in "${names[@]}"; do
		until_true 20 has_profile "$i" || fail "no profile of $i"
		is_as_addr2line "$(first_of "$i")" "$i" "$i" # or it says how many lines are late
		"$LAB/bin/pillion" symbolize "$(first_of "$i")" >/dev/null 2>&1 || :
		is_as_addr2line "$(first_of "$i")" "$i" "$i" 0
	done
	kill -TERM "$SERVICE"
	end_run
}
all_work() { (($(cat "${@/#/worked.}" | grep -c worked) == $#)); }
has_profile() { [[ -n $(profiles_of "$1") ]]; }
row "twelve programs that end together: all have their lines" test_together
