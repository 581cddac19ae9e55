# suite_self - programs that profile themselves by <pillion.h>: tests/targets/self.c compares what a session has seen with
# what its threads say of themselves; tests/targets/notes.c asks the kernel that runs.

lab_install pillion pilliond targets/self targets/notes
chmod 755 "$LAB"

in_vm() { grep -q 'pillion\.order=' /proc/cmdline; }
# Threads wait for who reads, so nothing is lost; how long it takes to reach them all is the machine's business.
LOAD=(threads=200 pages=6 turns=5 seconds=1 passes=1000 budget=20000)
# A machine that is emulated has few threads that do little, and time.
! in_vm || LOAD=(threads=40 pages=3 turns=20 seconds=6 passes=30 budget=20000)

self() { "$LAB/bin/self" "$@" | tee said; }
last() { # KEY... - as they were said last
	awk -v want="$1" '{ for (i = 1; i < NF; i++) if ($i == want) v = $(i + 1) } END { print v }' said
}
within() { # WHAT FIGURE PERCENT
	awk -v x="$2" -v most="$3" 'BEGIN { exit !(x <= most && x >= -most) }' || fail "$1: $2, more than $3: $(cat said)"
}
# Each thread that lived after attach: within 2 %, and all of them.
exact() {
	(($(last lives) >= 20)) || fail "too few threads lived: $(cat said)"
	within "all threads, %" "$(last off)" 2
	is "threads that were missed or counted twice" "$(last missed) $(last more)" "0 0"
}

# --- who is counted

counted() { # COMMAND...
	"$@" | tee said
	(($(last stable) == 1 || $(last late) == 0)) || fail "not all threads were reached: $(cat said)"
	exact
}
test_count() { # KEY=VALUE...
	counted "$LAB/bin/self" count "${LOAD[@]}" "$@"
}
row "per core: 200 threads come and go after it is attached" test_count
row "per core: 200 threads come and go while it is attached" test_count attach=1
row "per core: three events, two of which are software counters" test_count attach=1 events=3 pages=2
row "process: what the calling thread makes" test_count strategy=1
row "by time, without descriptors" test_count attach=1 flags=4 turns=40 pages=2 ring=65536

# Their ids are each other's since Linux 6.3: by the length of their records.
test_same_kind() {
	counted "$LAB/bin/self" count "${LOAD[@]}" threads=40 events=4 pages=3
	local all
	read -r -a all < <(sed -n 's/^specs //p' said)
	within "the other counter of the same kind, %" "$(awk -v a="${all[3]}" -v b="${all[0]}" 'BEGIN { print 100 * (a - b) / b }')" 2
	is "samples of no event" "${all[5]}" 0
}
row "per core: two events of one kind are told apart" test_same_kind

test_perf_stat() {
	need perf
	counted perf stat -x, -o stat -e page-faults -- "$LAB/bin/self" count "${LOAD[@]}"
	cat stat
	local all
	all=$(awk -F, '/page-faults/ { print $1 }' stat)
	within "against perf stat, %" "$(awk -v a="$(last all)" -v b="$all" 'BEGIN { print 100 * (a - b) / b }')" 2
}
row "per core: all of it is within 2 % of perf stat" test_perf_stat

# What everybody would write, on the same threads: it must be wrong, or the rows above show nothing.
test_naive() { # threads that live until all looks are over
	self naive "${LOAD[@]}" turns=1000
	(($(last more) > 0)) || fail "nobody is counted twice: $(cat said)"
}
row "events on the threads of three looks, by hand: some are counted twice" test_naive

test_own_strategies() {
	self count "${LOAD[@]}" strategy=3 threads=5
	has "of one thread" "$(cat said)" "status threads 1 .* rings 1 "
	self count "${LOAD[@]}" strategy=2 threads=5 attach=1 turns=10000
	exact_few
}
exact_few() {
	is "threads that were missed or counted twice" "$(last missed) $(last more)" "0 0"
	(($(last faults) > 0)) || fail "nobody did anything: $(cat said)"
}
row "one thread; the threads that there are" test_own_strategies

test_user() {
	need_root
	[[ $(cat /proc/sys/kernel/perf_event_paranoid) -le 2 ]] || skip "paranoid forbids it"
	counted setpriv --reuid 65534 --regid 65534 --clear-groups "$LAB/bin/self" count "${LOAD[@]}" attach=1 ring=16777216
	is "kernel code is not seen" "$(last user_only)" 1
	(($(last ring_bytes) < 16777216)) || fail "rings as large as root's: $(cat said)"
}
row "a plain user: user code only, rings as large as may be locked" test_user

test_leader() {
	counted "$LAB/bin/self" leader "${LOAD[@]}"
	awk '/who reads/ { exit !($4 < 50) }' said || fail "who reads spins: $(cat said)"
}
row "the thread that attached has ended" test_leader

test_with_run() { # pillion run profiles the same threads by the same counter: ids of either are in the other's records
	mkdir out
	"$LAB/bin/pillion" run --events page-faults/1,cpu --budget 5s --output "$PWD/out" --log "$PWD/log" --daemon "$LAB/bin/pilliond" -- \
		"$LAB/bin/self" count "${LOAD[@]}" threads=50 attach=1 >said || fail "exit status $?: $(cat said)"
	cat said
	exact
	until_true 10 eval '[[ -n $(find out -name "*faults*.pb.gz") ]]' || fail "pillion run has no profile: $(find out) $(cat log)"
}
row "pillion run profiles it at the same time" test_with_run

# --- descriptors

test_limit() { # FLAGS REGEX
	self count "${LOAD[@]}" attach=1 nofile=64 flags="$1" ring=65536 pages=2 turns=40
	has "its status" "$(cat said)" "$2"
}
test_limit_timed() {
	test_limit 2 'timed 1'
	is "descriptors" "$(last fds)" 0
	exact
}
row "RLIMIT_NOFILE 64, timed reading allowed: all threads" test_limit_timed
row "RLIMIT_NOFILE 64, fewer allowed: as many as there are descriptors for" test_limit 8 'status threads [1-9][0-9]? .*left_out [1-9]'
row "RLIMIT_NOFILE 64, the limit may be raised" test_limit 1 'left_out 0 .*raised 1'

test_refused_limit() {
	is "its exit status" "$(status_of self count "${LOAD[@]}" attach=1 nofile=64 2>/dev/null)" 3
	has "what it says" "$(cat said)" 'attach: -24: session: it would take more than 32 descriptors, which is 50 per cent of RLIMIT_NOFILE'
}
row "RLIMIT_NOFILE 64, nothing allowed: a sentence" test_refused_limit

denied() { # ERRNO SENTENCE
	need_tool deny
	is "its exit status" "$(status_of "$B/tools/deny" perf_event_open "$1" "$LAB/bin/self" count 2>said)" 3
	has "what it says" "$(cat said)" "$2"
}
need_tool() { [[ -x $B/tools/$1 ]] || skip "tests/tools/$1 is not built"; }
row "EMFILE" denied EMFILE ': -24: .*out of file descriptors \(RLIMIT_NOFILE is [0-9]+\)'
row "ENFILE" denied ENFILE ': -23: .*the machine is out of file descriptors \(fs.file-max\)'
row "EPERM" denied EPERM ': -1: .*a seccomp filter or security module forbids perf_event_open'
row "EACCES" denied EACCES ': -13: .*kernel.perf_event_paranoid is [0-9-]+'
row "a seccomp filter that hides it" denied ENOSYS ': -1: .*a seccomp filter hides perf_event_open'

test_absent() { # in a mount namespace where the file by which one knows is not there
	need_root
	need unshare
	need_tool deny
	cat >hide <<-SH
		mount -t tmpfs none /proc/sys/kernel
		exec "$B/tools/deny" perf_event_open ENOSYS "$LAB/bin/self" count
	SH
	is "its exit status" "$(status_of unshare -m sh hide 2>said)" 3
	has "what it says" "$(cat said)" ': -38: .*this kernel has no perf events \(there is no /proc/sys/kernel/perf_event_paranoid\)'
}
row "a kernel without perf events" test_absent

test_unseen() {
	need_root
	setpriv --reuid 65534 --regid 65534 --clear-groups "$LAB/bin/self" switches >said && fail "it works: $(cat said)"
	has "what it says" "$(cat said)" ': -(13|1): .*(kernel code, of which nothing is told here|perf_event_paranoid is [34])'
}
row "context switches for a plain user: a sentence, not nothing" test_unseen

# --- the life of a session

test_stop() { # KEY=VALUE...
	self stop interval=60000 "$@"
	awk '/^(by|before|the next)/ { n++; late += $(NF - 1) > 20000 || $(NF - 3) != 0 } END { exit !(n == 4 && !late) }' said ||
		fail "it does not stop: $(cat said)"
}
row "stopped by another thread, a signal handler, and before it runs" test_stop
row "the same, read by time" test_stop flags=4

test_fields() { # KEY=VALUE...
	self fields "$@"
	has "the fields" "$(cat said)" 'samples 200 addr 200 ip 200 regs 200 stack 200 chain 200' # by two counters, which have the same
}
row "fields of a sample" test_fields
row "fields of a sample, of one thread" test_fields strategy=3
row "fields of a sample, by time" test_fields flags=4

test_records() {
	self records ring=65536 # all of the first part fits into one CPU's, where the others are busy
	has "its records" "$(cat said)" 'forks 20 exits 20 comms 20 mmaps 2[0-9] switches [1-9][0-9]+ unknown 0 lost 0'
	has "more than fits" "$(cat said)" 'then lost [1-9]'
}
row "what listeners are told: mappings, names, beginnings, ends, switches, losses" test_records

test_clock() {
	counted "$LAB/bin/self" count "${LOAD[@]}" attach=1 flags=16
	(($(last clock_error) > 0)) || fail "no error of the clock: $(cat said)"
}
row "the kernel's own clock, by measured offsets" test_clock

test_child() {
	self child
	has "the child" "$(cat said)" "child: run -10 read -10 detach -10: detach: it is the parent's"
	has "the parent" "$(cat said)" 'parent: run 0, samples, read 0'
}
row "a forked child has none of it" test_child

test_adding() {
	need_root # so many pages are locked
	has "what it says" "$(self adding events=200)" 'added 200, samples all'
}
row "a callback adds events to the reader that calls it" test_adding

test_again() { # KEY=VALUE...
	self again "$@"
	has "what is left" "$(cat said)" 'left: descriptors 0 mappings 0'
}
row "attached and detached again and again: nothing is left" test_again
row "the same, read by time" test_again flags=4

MISTAKES='no size|-22|session: its size is 0
no such strategy|-22|there is no strategy 9
no events|-22|0 events: it takes 1 to 16
odd rings|-22|rings of 5000 bytes: it takes a power of two
no listener|-22|listener: its size is 0
event without a size|-22|event spec: its size is 0
period and frequency|-22|give one of them
odd stack|-22|it takes a multiple of 8
six faults|-7|6 software counters, and records of no more than 4 can be told apart
run before attach|-22|it is not attached
detach before attach|-22|it is not attached
attached twice|-16|it is attached
no such thread|-3|there is no such thread
no such flag|-22|flags that this library does not know
too often|-22|a frequency above [0-9]+
odd ring|-22|it takes a power of two
close_fd without a ring|-22|it has no ring
redirect to no ring|-22|the other one is not mapped
mapped twice|-16|it has a ring already
redirect to another CPU|-22|one is on CPU 0, the other on -1
enable without descriptor|-9|without its descriptor it cannot be enabled
redirect to a closed one|-9|one of them is closed
redirect|0|'
test_mistakes() {
	local what code sentence
	self errors
	while IFS='|' read -r what code sentence; do
		has "$what" "$(grep "^$what: " said)" "$what: $code .*$sentence"
	done <<<"$MISTAKES"
}
row "every mistake has its sentence" test_mistakes

# --- the notes

NOTES='per thread\? yes
per thread \(
yes \(
no, and the event goes on
yes \(
no, not the source
yes \(
no \(
yes \(
no, [0-9]+ us of use .*that is it
yes \('
test_note() { # N
	local said
	(($1 != 1)) || mount -t tracefs none /sys/kernel/tracing 2>/dev/null || :
	said=$("$LAB/bin/notes" "$1") || { (($? == 77)) && skip "$said"; fail "$said"; }
	echo "$said"
	echo "$said" >>"$LAB/notes"
	has "the answer" "$said" "$(sed -n "$1p" <<<"$NOTES")"
}
for n in 1 2 3 4 5 6 7 8 9 10; do row "note $n" test_note $n; done
# What is everybody's: CPUs, and what the kernel lets them use.
! in_vm || row "note 11" test_note 11
[[ ! -e $LAB/notes ]] || { echo "Linux $(uname -r):" && cat "$LAB/notes"; }

test_hotplug() { # a CPU goes and comes while it runs
	[[ -w /sys/devices/system/cpu/cpu1/online ]] || skip "there is one CPU"
	"$LAB/bin/self" count "${LOAD[@]}" seconds=12 attach=1 >said &
	sleep 4
	echo 0 >/sys/devices/system/cpu/cpu1/online
	sleep 4
	echo 1 >/sys/devices/system/cpu/cpu1/online
	wait $! || fail "exit status $?: $(cat said)"
	cat said
	exact
}
! in_vm || row "a CPU goes and comes back while it runs" test_hotplug
test_offline() { # it is away when the session is attached
	[[ -w /sys/devices/system/cpu/cpu1/online ]] || skip "there is one CPU"
	echo 0 >/sys/devices/system/cpu/cpu1/online
	"$LAB/bin/self" count "${LOAD[@]}" seconds=10 attach=1 >said &
	sleep 6
	echo 1 >/sys/devices/system/cpu/cpu1/online
	wait $! || fail "exit status $?: $(cat said)"
	cat said
	exact
	is "CPUs that were offline" "$(last offline)" 1
}
! in_vm || row "a CPU that is offline at first" test_offline

# --- what is installed

test_installed() { # COMPILER...
	need "$1" pkg-config
	local inst=$ROW/inst text=$TOP/shim/libpillion/libpillion.md build=$B
	! sanitized || skip "it is the release that is installed"
	make --no-print-directory -s -C "$TOP" install DESTDIR="$inst" B="$build" >made 2>&1 || fail "make install: $(cat made)"
	for file in include/pillion.h lib/pkgconfig/pillion.pc lib/libpillion.so.0 lib/libpillion.a share/man/man3/pillion.3; do
		[[ -s $inst/usr/$file ]] || fail "not installed: $file"
	done
	is "its version" "$(pkg_config --modversion)" "$(cat "$TOP/VERSION")"
	awk '/^## Let a program/ { there = 1 } there && /^```c$/ { on = 1; next } /^```$/ { there = there && !on; on = 0 } on' "$text" >example.c
	grep -q pillion_session_open example.c || fail "libpillion.md has no example"
	"$@" -Wall -Werror -o example example.c $(pkg_config --cflags --libs) "-Wl,-rpath,$inst/usr/lib"
	./example >said || fail "exit status $?: $(cat said)"
	cat said
	has "what the example says" "$(cat said)" '[1-9][0-9]* faults'
	"$@" -Wall -Werror -static -o example-static example.c $(pkg_config --static --cflags) "$inst/usr/lib/libpillion.a"
	./example-static | tee said
	has "what it says, linked statically" "$(cat said)" '[1-9][0-9]* faults'
}
pkg_config() { PKG_CONFIG_PATH=$ROW/inst/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$ROW/inst pkg-config "$@" pillion; }
row "libpillion.md's example, with what is installed" test_installed gcc
# the kernel's headers, which musl does not bring
row "libpillion.md's example, musl" test_installed musl-gcc -idirafter /usr/include -idirafter "/usr/include/$(gcc -print-multiarch)"

test_man() {
	need man
	man -l --warnings -E UTF-8 -Tutf8 "$TOP/shim/libpillion/pillion.3" >page 2>warnings || fail "man: $(cat warnings)"
	is "warnings" "$(cat warnings)" ""
	local name
	for name in $(grep -oE '\bpillion_[a-z_]+\(' "$TOP/shim/libpillion/pillion.h" | tr -d '(' | grep -E '_(event|session|reader|error|strategy)' | sort -u); do
		grep -q "$name" "$TOP/shim/libpillion/pillion.3" || fail "the page has no $name"
	done
}
row "man 3 pillion has every call" test_man
