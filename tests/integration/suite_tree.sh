# suite_tree - calling-context trees of real programs: every call counted once, on its path, whatever way functions begin
# and end; and programs that notice nothing of it. tests/targets/traced.c says what it calls.

. "$TOP/tests/integration/plugins.sh"
lab_install pillion targets/traced
chmod 755 "$LAB"
# the library as it is installed: a sanitizer's runtime would have to come before it
for name in libpillion.so libpillion.a; do
	install "$(case $B in */[at]san) echo "${B%/*}/release" ;; *) echo "$B" ;; esac)/$name" "$LAB/bin/" || fail "not built: $name"
done
ln -sf libpillion.so "$LAB/bin/libpillion.so.0"
LIBRARY=$LAB/bin/libpillion.so

traced() { # FILE[,time] COMMAND... - its exit status is the row's business
	local file=$1
	shift
	PILLION_TREE=$file LD_PRELOAD=$LIBRARY "$@"
}
paths() { "$LAB/bin/pillion" tree --folded --type calls "${1:-tree}"; }
paths_are() { # PATH COUNT... - these and no others, of ./tree
	paths >paths
	printf '%s %s\n' "$@" >wanted
	diff wanted paths || fail "other paths: $(cat paths)"
}
calls_of() { # FUNCTION [FILE] - on all paths
	paths "${2:-tree}" | awk -v f="$1" '{ n = $NF; sub(/ [^ ]*$/, ""); sub(/.*;/, "") } $0 == f { sum += n } END { print sum + 0 }'
}
nodes() { grep -c '^node' "${1:-tree}"; }

# --- ways to call and to return

test_fib() {
	is "its output" "$(traced tree "$LAB/bin/traced" fib 30)" 832040
	is "calls of fib" "$(calls_of fib)" 2692537
	paths_are main 1 'main;fib_all' 1 'main;fib_all;fib' 1 'main;fib_all;fib;fib' 1346269 'main;fib_all;fib;fib;fib' 1346267
}
row "fib(30) is called 2,692,537 times" test_fib

test_threads() {
	traced tree "$LAB/bin/traced" threads 300000
	paths_are main 1 'main;threads' 1 worker 4 'worker;leaf' 1200000
}
row "threads sum exactly" test_threads

test_short_threads() {
	traced tree "$LAB/bin/traced" short 10000
	paths_are main 1 'main;short_threads' 1 'main;short_threads;start_and_join' 10000 worker 10000 'worker;leaf' 30000
	(($(nodes) < 200)) || fail "it has $(nodes) nodes: threads left theirs behind"
}
row "10,000 short threads, in the memory of a few" test_short_threads

test_longjmp() {
	traced tree "$LAB/bin/traced" longjmp 5000
	paths_are main 1 'main;jumps' 1 'main;jumps;after' 5000 'main;jumps;after;leaf' 5000 'main;jumps;middle' 5000 \
		'main;jumps;middle;inner' 5000 'main;jumps;middle;inner;inner' 15000
}
row "longjmp" test_longjmp

test_signals() {
	traced tree "$LAB/bin/traced" signals 5000
	paths_are main 1 'main;signals' 1 'main;signals;leaf' 5000 'main;signals;on_signal' 5000 \
		'main;signals;on_signal;after' 5000 'main;signals;on_signal;after;leaf' 5000
}
row "handlers on an alternate stack" test_signals

test_coroutines() {
	local all='main;coroutines_all' each='main;coroutines_all;resume;coroutine'
	traced tree "$LAB/bin/traced" coroutines 2000
	paths_are main 1 $all 1 "$all;after" 1 "$all;after;leaf" 1 "$all;resume" 6003 $each 3 "$each;step" 6000 \
		"$each;step;leaf" 6000 "$each;step;yield" 6000
}
row "coroutines that switch stacks" test_coroutines

test_deep() {
	traced tree "$LAB/bin/traced" deep 1000000
	is "calls of down" "$(calls_of down)" 1000001
	is "calls of leaf" "$(calls_of leaf)" 1000001
	has "its paths" "$(paths)" 'deep;after 1'
	(($(nodes) < 20)) || fail "it has $(nodes) nodes"
}
row "a million frames" test_deep

EXCEPTIONS='#include <cstdio>
#include <stdexcept>
#define CALL __attribute__((noinline))
namespace app {
struct Guard {
	CALL ~Guard();
};
CALL void leaf() { __asm__ volatile(""); }
Guard::~Guard() { leaf(); }
CALL void thrower(int n) {
	Guard g;
	if (n)
		thrower(n - 1);
	else
		throw std::runtime_error("far up");
}
CALL void catcher() {
	try {
		thrower(3);
	} catch (const std::exception &) {
		leaf();
	}
}
}
int main() {
	for (int i = 0; i < 1000; i++)
		app::catcher();
	puts("done");
}'
test_exceptions() { # [FLAG...]
	need g++
	echo "$EXCEPTIONS" >a.cc
	g++ -g -finstrument-functions "$@" -o a a.cc
	is "its output" "$(traced tree ./a)" "done"
	local at='main;app::catcher()'
	is "calls of thrower" "$(calls_of 'app::thrower(int)')" 4000
	is "calls of the destructor" "$(calls_of 'app::Guard::~Guard()')" 4000
	is "calls of leaf" "$(calls_of 'app::leaf()')" 5000
	paths | grep -vF thrower >paths
	printf '%s\n' 'main 1' "$at 1000" "$at;app::leaf() 1000" >wanted
	diff wanted paths || fail "other paths: $(paths)"
}
row "C++ exceptions, optimised" test_exceptions -O2
row "C++ exceptions, not optimised" test_exceptions -O0

# --- processes

test_forks() {
	local pid
	pid=$(traced tree "$LAB/bin/traced" forks 50)
	paths_are main 1 'main;forks' 1 'main;forks;after' 50 'main;forks;after;leaf' 50 'main;forks;leaf' 2
	mv "tree.$pid" tree
	paths_are child_calls 1 'child_calls;after' 50 'child_calls;after;leaf' 50
}
row "a forked child counts on its own, into a file of its own; vfork" test_forks

test_named_by_pid() {
	local pid
	pid=$(traced 'of-%p' "$LAB/bin/traced" forks 1)
	is "the files" "$(ls of-* | wc -l)" 2
	is "calls of after in the child" "$(calls_of after "of-$pid")" 1
}
row "%p is the pid" test_named_by_pid

test_dlclose() {
	make_plugins
	is "where they lie" "$(traced tree ./loader ./first.so ./second.so)" same
	paths_are main 1 'main;begin' 6 'main;begin;first' 30 'main;begin;second' 300
}
row "libraries that take turns at one address" test_dlclose

# --- kinds of programs

test_static() { # COMPILER...
	need "$1"
	"$@" -g -D_GNU_SOURCE -finstrument-functions -static -pthread -o static "$TOP/tests/targets/traced.c" "${LIBRARY%.so}.a" 2>said ||
		fail "it is not linked: $(cat said)"
	PILLION_TREE=tree ./static fib 20
	is "calls of fib" "$(calls_of fib)" 21891
	PILLION_TREE=tree ./static short 300
	is "calls of leaf" "$(calls_of leaf)" 900
	PILLION_TREE=tree ./static longjmp 300
	is "calls of inner" "$(calls_of inner)" 1200
	rm tree
	./static fib 10
	[[ ! -e tree ]] || fail "a file that nobody asked for"
}
row "linked statically, glibc" test_static gcc
row "linked statically, musl" test_static musl-gcc

test_musl() {
	need musl-gcc
	# musl has no hooks of its own that a preloaded library could stand in front of
	musl-gcc -g -D_GNU_SOURCE -finstrument-functions -pthread -o program "$TOP/tests/targets/traced.c" "$LIBRARY" \
		-Wl,-rpath,"$LAB/bin"
	PILLION_TREE=tree ./program fib 20
	is "calls of fib" "$(calls_of fib)" 21891
	PILLION_TREE=tree ./program threads 1000
	is "calls of leaf" "$(calls_of leaf)" 4000
	PILLION_TREE=tree ./program deep 100000
	is "calls of down" "$(calls_of down)" 100001
}
row "a program of musl" test_musl

test_api() {
	cat >a.c <<-'C'
		#include <stdio.h>
		#include <pillion.h>
		__attribute__((noinline)) static void leaf(void) { __asm__ volatile(""); }
		int main(void)
		{
			leaf();
			printf("%d ", pillion_tree_dump("tree"));
			printf("%d ", pillion_tree_start(2));
			printf("%d ", pillion_tree_start(PILLION_TREE_TIME));
			for (int i = 0; i < 5; i++)
				leaf();
			printf("%d ", pillion_tree_dump("tree"));
			pillion_tree_stop();
			leaf();
			printf("%d ", pillion_tree_start(0));
			leaf();
			printf("%d\n", pillion_tree_dump("tree"));
		}
	C
	gcc -g -finstrument-functions -I"$TOP/shim/libpillion" -o a a.c "$LIBRARY" -Wl,-rpath,"$LAB/bin"
	is "what it returns" "$(./a)" "-61 -22 0 0 0 0"
	paths_are leaf 6
	has "the tree" "$("$LAB/bin/pillion" tree tree)" "calls +total +self +function"
}
row "from within: begin, stop, go on, write" test_api

# --- what people see

test_outputs() {
	need go
	traced tree,time "$LAB/bin/traced" fib 25
	has "the tree" "$("$LAB/bin/pillion" tree tree)" 'calls +total +self +function.* 1 .*s.* main.* fib_all.*121393 .*s.* fib'
	has "with call sites" "$("$LAB/bin/pillion" tree --sites tree)" 'fib \(from traced\.c:[0-9]+\)'
	"$LAB/bin/pillion" tree tree --pprof out.pb.gz
	has "the profile's calls" "$(go tool pprof -symbolize=none -sample_index=calls -top out.pb.gz 2>/dev/null)" '242785 .* fib'
	has "the profile's time" "$(go tool pprof -symbolize=none -top out.pb.gz 2>/dev/null)" 'Type: time.*[mu]s .* fib'
	has "by pillion top" "$("$LAB/bin/pillion" top --type calls out.pb.gz)" '242785 .* fib'
	local sum self
	sum=$("$LAB/bin/pillion" tree --folded tree | awk '{ sum += $NF } END { print sum }')
	self=$("$LAB/bin/pillion" tree --folded tree tree | awk '{ sum += $NF } END { print sum }')
	is "two of it" "$self" $((2 * sum))
}
row "text, call sites, pprof" test_outputs

test_time() { # of two functions, one of them with a child, as they have measured it themselves
	cat >a.c <<-'C'
		#include <stdio.h>
		#include <time.h>
		#define SINCE(a, b) ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec)
		__attribute__((noinline)) static long spend(long ms)
		{
			struct timespec a, b;
			clock_gettime(CLOCK_MONOTONIC, &a);
			do
				clock_gettime(CLOCK_MONOTONIC, &b);
			while (SINCE(a, b) < ms * 1000000);
			return SINCE(a, b);
		}
		__attribute__((noinline, no_instrument_function)) static void quietly(long ms)
		{
			nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, 0);
		}
		__attribute__((noinline)) static long waits(long *spent)
		{
			struct timespec a, b;
			clock_gettime(CLOCK_MONOTONIC, &a);
			quietly(200);
			clock_gettime(CLOCK_MONOTONIC, &b);
			*spent = spend(100);
			return SINCE(a, b);
		}
		int main(void)
		{
			long spent, first = spend(200), waited = waits(&spent);
			printf("%ld %ld %ld\n", first, waited, spent);
		}
	C
	gcc -g -O1 -finstrument-functions -o a a.c
	traced tree,time ./a >own
	local first waited spent
	read -r first waited spent <own
	"$LAB/bin/pillion" tree --folded tree >said
	near() { awk -v at="$1" -v ns="$2" '$1 == at { ok = $2 >= ns && $2 < ns + 5e6 } END { exit !ok }' said || fail "$1 has not $2 ns: $(cat said)"; }
	near 'main;spend' "$first"
	near 'main;waits' "$waited"
	near 'main;waits;spend' "$spent"
}
row "time in the function itself, waiting too" test_time

# --- programs that notice nothing

test_status() { # FILE
	local got
	mkdir dir
	mkfifo pipe
	got=$(status_of traced "$1" "$LAB/bin/traced" status 41)
	is "the exit status" "$got" 41
	[[ -p pipe && -d dir ]] || fail "something else is there"
	is "what is left" "$(ls -A | tr '\n' ' ')" "dir pipe "
}
row "a file that cannot be written: no such directory" test_status /nowhere/at/all
row "a file that is a directory" test_status dir
row "a file that is a pipe" test_status pipe
row "no file" test_status ,time

test_full_disk() {
	need_root
	mkdir small
	mount -t tmpfs -o size=4k none small
	head -c 4096 /dev/zero >small/filler || :
	is "the exit status" "$(status_of traced small/tree "$LAB/bin/traced" status 41)" 41
	is "what is left" "$(ls -A small)" filler
}
row "a full disk: nothing is left of it" test_full_disk

test_quiet() { # of a program that is not compiled for it
	is "its output" "$(traced tree sh -c 'echo a; echo b >&2' 2>&1 | tr '\n' ' ')" "a b "
	traced tree env >/dev/null
	[[ ! -e tree ]] || fail "a file without a call"
	traced tree "$LAB/bin/traced" fib 20 >said 2>&1
	is "its output" "$(cat said)" 6765
}
row "nothing on its output, and no file of a program without hooks" test_quiet

test_setuid() {
	need_root
	cp "$LIBRARY" libpillion.so.0
	gcc -g -finstrument-functions -pthread -o own "$TOP/tests/targets/traced.c" libpillion.so.0 -D_GNU_SOURCE -Wl,-rpath,"$ROW"
	chmod 755 . own libpillion.so.0
	mkdir -m 777 out
	PILLION_TREE=$ROW/out/tree setpriv --reuid 65534 --clear-groups ./own fib 10 >said
	[[ -s out/tree ]] || fail "an ordinary program writes none"
	rm out/tree
	chmod 4755 own
	PILLION_TREE=$ROW/out/tree setpriv --reuid 65534 --clear-groups ./own fib 10 >said
	is "its output" "$(cat said)" 55
	[[ ! -e out/tree ]] || fail "a setuid program obeys whoever starts it"
}
row "a setuid program is not told by its environment" test_setuid

test_limited() { # memory is refused: there is no tree, and the program is as without
	is "its output" "$(ulimit -v 60000 && traced tree "$LAB/bin/traced" fib 20)" 6765
	[[ ! -e tree ]] || fail "there is a tree all the same"
}
row "without room for a tree" test_limited

test_chdir() {
	mkdir there
	traced tree sh -c "cd there && exec $LAB/bin/traced fib 10" >/dev/null
	[[ -s there/tree ]] || fail "no tree where the program began"
}
row "a relative file is where the program begins" test_chdir

# --- mistakes

test_mistake() { # STATUS REGEX ARG...
	local want=$1 regex=$2
	shift 2
	printf 'pillion-tree 1\nnode 65 0 1 1 1 1 0\n' >cut
	echo hello >text
	is "the exit status" "$(status_of "$LAB/bin/pillion" tree "$@" 2>said)" "$want"
	has "what it says" "$(cat said)" "$regex"
	is "lines" "$(wc -l <said)" 1
}
row "no tree is named" test_mistake 2 "^pillion tree: which tree\? Give files"
row "a tree that is not there" test_mistake 1 "^pillion tree: cannot read none: No such file" none
row "a file that is none" test_mistake 1 "^pillion tree: text: it is no calling-context tree that we know: PILLION_TREE=FILE" text
row "a tree that is cut off" test_mistake 1 "^pillion tree: cut: it is cut off" cut
row "two forms at once" test_mistake 2 "give one of --folded and --pprof" --folded --pprof x text
