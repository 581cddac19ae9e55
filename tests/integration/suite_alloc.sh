# suite_alloc - `pillion run --events alloc`: what a program allocates and what of it is in use, by libpillion in it; and
# that the program never notices, whatever becomes of either.

. "$TOP/tests/integration/wrapped.sh"
. "$TOP/tests/integration/loads.sh" # postgres_bin, as_postgres
lab_install tools/deny targets/sites targets/oddalloc targets/deep targets/asks
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program

values_of() { # TYPE NAME - "FUNCTION VALUE" by place, of all windows
	profiles_of "$2" | grep -- -alloc | xargs "$LAB/bin/pillion" report --folded --type "$1" |
		awk '{ n = split($1, f, ";"); at = "?"; for (i = n; i > 0 && at == "?"; i--) if (f[i] ~ /^(site_|\[lost)/) at = f[i]
			sum[at] += $NF } END { for (a in sum) printf "%s %.0f\n", a, sum[a] }'
}
place() { awk -v at="$1" '$1 == at { n = $2 } END { printf "%.0f", n }'; } # of such lines
total() { awk '{ n += $2 } END { printf "%.0f", n }'; }
told() { awk -v at="$1" -v column="$2" '$1 == at { print $column }' told; } # by the program

test_places() { # RATE ROUNDS SIZE FIRST PERCENT - from place FIRST on
	local i lost
	begin_run --events "alloc/$1"
	"${RUN[@]}" -- "$LAB/bin/sites" "$2" 0 "$3" 10000 >told
	first_of sites >/dev/null
	values_of alloc_space sites >space
	lost=$(place '[lost]' <space) # on a busy machine, and more of one place than of another
	for ((i = $4; i < 10; i++)); do
		between "site_$i" "$(place site_$i <space)" "$(($(told site_$i 2) * (100 - $5) / 100 - lost))" "$(($(told site_$i 2) * (100 + $5) / 100))"
	done
	near "bytes" "$(total <space)" "$(awk '{ n += $2 } END { print n }' told)" "$5"
	near "objects" "$(values_of alloc_objects sites | total)" "$(($2 * 1023))" "$5"
	end_run
}
MANY=300
! sanitized || MANY=60 # what is freed stays for a while, and a session has 64 MiB
row "ten places, nearly every object: bytes within 3 %" test_places 64 "${FULL:+1}$MANY" 512 0 3
row "ten places, one object in eight: the large ones within 5 %" test_places 4096 $MANY 512 8 5

test_opened() { # a program that has freed all: what is shown where no type was asked for
	begin_run --events alloc/4096
	cat >freed.c <<-'C'
		#include <stdlib.h>
		__attribute__((noinline)) static char *site_of_all(void) { char *p = malloc(1000); if (p) p[0] = 1; return p; }
		int main(void) { for (int i = 0; i < 100000; i++) free(site_of_all()); return 0; }
	C
	gcc -O1 -g -fno-optimize-sibling-calls -fno-builtin -o freed freed.c
	"${RUN[@]}" -- ./freed
	"$LAB/bin/pillion" top --once "$(first_of freed)" >shown
	has "top" "$(cat shown)" 'site_of_all'
	has "go tool pprof" "$(go tool pprof -top "$(first_of freed)" 2>/dev/null)" $'Type: alloc_space\n.*site_of_all'
	"$LAB/bin/pillion" report --folded --type alloc_space "$(first_of freed)" >stacks
	has "the stacks" "$(cat stacks)" ';site_of_all [0-9]+'
	! grep -E ';(malloc|calloc|realloc|operator new.*) [0-9]+$' stacks || fail "a leaf is the allocator's"
	end_run
}
row "nothing is in use: what was allocated is shown, by who called the allocator" test_opened

# A program that has been executed connects, and the profiler answers late: memory allocated until then has no sample.
test_late_answer() {
	begin_run --events alloc/65536
	"${RUN[@]}" -- "$LAB/bin/asks" until=one exec alloc=30000 alloc_fails until=two alloc=30000 >said &
	until_true 20 grep -qs '^until one' said || fail "it does not come to one: $(cat said)"
	kill -STOP $(profilers)
	touch one
	until_true 20 grep -qs '^until two' said || fail "it does not come to two: $(cat said)"
	kill -CONT $(profilers)
	sleep 0.5
	touch two
	wait $! || fail "exit status $?: $(cat said)"
	first_of asks >/dev/null
	profiles_of asks | grep -- -alloc | xargs "$LAB/bin/pillion" report --folded --type alloc_space >space
	between "MB lost" "$(awk '/\[lost\]/ { n += $NF } END { printf "%d", n / 1e6 }' space)" 30 31
	between "MB by name" "$(awk '/;asks_alloc / { n += $NF } END { printf "%d", n / 1e6 }' space)" 22 38 # 458 samples: +-5 %
	has "a comment" "$(comments_of asks)" '\[lost\] includes 300[0-9]{5} bytes that were allocated before the profiler had answered'
	end_run
}
row "the profiler answers late: memory allocated until then is lost, to the byte" test_late_answer

is_of_site_9() { # PERCENT - of what is known
	local known=$(($(total <space) - $(place '[lost]' <space)))
	((known > 0 && $(place site_9 <space) * 100 >= known * $1)) || fail "not at site_9: $(cat space)"
}
test_in_use() { # chance is in which of them are sampled: of six in seven here, which makes 0.3 % of the sum
	begin_run --events alloc/512
	"${RUN[@]}" -- "$LAB/bin/sites" 300 10 1000 10000 >told
	first_of sites >/dev/null
	values_of inuse_space sites >space
	near "in use" "$(total <space)" "$(told site_9 3)" 2
	is_of_site_9 95
	end_run
}
row "what is in use at the end, freed by others: within 2 %" test_in_use

test_restarted() { # the worker dies, three times
	local i
	begin_run --events alloc/512
	service_run
	"${RUN[@]}" -- "$LAB/bin/sites" 300 10 1000 10000 >told &
	for i in 1 2 3; do
		until_true 20 has_used $! $((i * 100)) || fail "it does not work"
		until_true 20 has_worker || fail "there is no worker: $(cat service.log)"
		kill -KILL "$(worker)"
	done
	wait $!
	first_of sites >/dev/null
	values_of inuse_space sites >space
	near "in use" "$(total <space)" "$(told site_9 3)" 2
	is_of_site_9 95
	kill -TERM "$SERVICE"
	end_run
}
row "a worker killed three times: what is in use stays within 2 %" test_restarted

# --- programs that behave

same() { # PROGRAM ARGUMENT... - with and without it says and ends the same
	local status=0 wanted=0
	"$@" </dev/null >plain.out 2>plain.err || wanted=$?
	"${RUN[@]}" -- "$@" </dev/null >ours.out 2>ours.err || status=$?
	is "exit status of $1" "$status" "$wanted"
	cmp plain.out ours.out || fail "$1 says something else: $(head -n 5 ours.out)"
	cmp plain.err ours.err || fail "$1 complains: $(head -n 5 ours.err)"
}
test_same() {
	begin_run --events alloc/65536
	same "$@"
	end_run
}
test_no_memory() { # ERROR WRAPPER... - the program is as without, and the profile says why it is not in it
	begin_run --events alloc/1024
	"${RUN[@]}" -- "${@:2}" "$LAB/bin/sites" 20 0 1000 10000 >told 2>said
	is "what it says" "$(grep -c . told)" "$("$LAB/bin/sites" 20 0 1000 10000 | grep -c .)"
	first_of "$(basename "$2")" >/dev/null
	has "a comment" "$(comments_of "$(basename "$2")")" "1 processes with libpillion so far are not in this profile: they have no memory to share \\($1\\)"
	end_run
}
row "memfd_create is refused: said in the profile" test_no_memory "Operation not permitted" "$LAB/bin/deny" memfd_create EPERM
row "no file may be so large: said in the profile" test_no_memory "File too large" prlimit --fsize=1000000
row "bash" test_same bash -c 'for i in 1 2 3 4 5; do x=$(ls / | wc -l); echo "$x $((i * i))"; done; exit 7'
row "python3 with threads" test_same python3 -c 'import threading
def work(n):
    x = [str(i) * 10 for i in range(n)]
    return sum(map(len, x))
t = [threading.Thread(target=work, args=(20000 + i,)) for i in range(8)]
[x.start() for x in t]; [x.join() for x in t]
print(sum(len(bytes(1000)) for i in range(1000)))'
row "perl" test_same perl -e 'my %h; $h{$_ % 1000} .= "x" x 10 for 1 .. 100000; print scalar(keys %h), "\n"'
row "git" test_same git -C "$TOP" log --oneline -n 20
row "xz" test_same sh -c 'head -c 3000000 "$0" | xz -1 | xz -d | cksum' "$LAB/bin/pilliond"
row "a Go program" test_same go version

# --- services: they serve the same, and end the same

at_place() { values_of_all "$1" "$2" | awk -v re="$3" '$0 ~ re { n += $NF } END { printf "%.0f", n }'; } # NAME TYPE REGEX
values_of_all() { profiles_of "$1" | grep -- -alloc | xargs "$LAB/bin/pillion" report --folded --type "$2"; }

redis_session() { # COMMAND... - a server; what is in it in the end
	local server status=0 cli=(redis-cli -s "$ROW/run/redis")
	"$@" redis-server --port 0 --unixsocket "$ROW/run/redis" --save '' --dir "$ROW/run" >redis.log 2>&1 &
	server=$!
	until_true 20 eval '[[ $("${cli[@]}" ping 2>&1) == PONG ]]' || fail "redis: $(tail -n 3 redis.log)"
	for ((i = 0; i < 20000; i++)); do echo "SET key:$i value:$((i * 7919 % 10007))"; done | "${cli[@]}" --pipe >/dev/null
	for ((i = 0; i < 20000; i += 2)); do echo "DEL key:$i"; done | "${cli[@]}" --pipe >/dev/null
	"${cli[@]}" dbsize
	"${cli[@]}" get key:777
	"${cli[@]}" shutdown nosave 2>/dev/null || :
	wait "$server" || status=$?
	echo "exit $status"
}
test_redis() {
	need redis-server redis-cli
	begin_run --events alloc/65536
	redis_session env >plain
	redis_session "${RUN[@]}" -- >ours
	diff plain ours || fail "it serves something else"
	is "what it says" "$(sed -n '1p;$p' ours | tr '\n' ' ')" "10000 exit 0 "
	first_of redis-server >/dev/null
	(($(at_place redis-server alloc_space 'z?malloc|sds|dict') >= 1000000)) || fail "$(values_of_all redis-server alloc_space | sort -n -k2 | tail -n 5)"
	end_run
}
row "redis, with jemalloc" test_redis

postgres_session() { # DIRECTORY COMMAND... - a server under a load; whether its accounts are right
	local dir=$1 bin server status=0
	bin=$(postgres_bin)
	shift
	as_postgres "$@" "$bin/postgres" -D "$dir" -k "$ROW/run" -h '' -c fsync=off >postgres.log 2>&1 &
	server=$!
	until_true 20 "$bin/pg_isready" -q -h "$ROW/run" || fail "postgres: $(tail -n 3 postgres.log)"
	as_postgres pgbench -q -i -s 1 -h "$ROW/run" postgres >pgbench.log 2>&1 || fail "$(cat pgbench.log)"
	as_postgres pgbench -n -t 300 -c 4 -h "$ROW/run" postgres >pgbench.log 2>&1 || fail "$(cat pgbench.log)"
	as_postgres psql -h "$ROW/run" -At postgres -c 'select (select sum(abalance) from pgbench_accounts) =
		(select sum(bbalance) from pgbench_branches), (select count(*) from pgbench_history)'
	kill -INT "$(sed -n 1p "$dir/postmaster.pid")"
	wait "$server" || status=$?
	echo "exit $status"
}
test_postgres() {
	need pgbench psql
	[[ -n $(postgres_bin) ]] || skip "postgres is not installed"
	begin_run --events alloc/65536
	install -d -o postgres -g postgres -m 700 data
	as_postgres "$(postgres_bin)/initdb" -D "$ROW/data" >initdb.log 2>&1 || fail "$(cat initdb.log)"
	postgres_session "$ROW/data" "${RUN[@]}" -- >ours
	is "what it says" "$(tr '\n' ' ' <ours)" "t|1200 exit 0 "
	first_of postgres >/dev/null
	(($(at_place postgres alloc_space 'AllocSet|palloc|MemoryContext') >= 1000000)) ||
		fail "$(values_of_all postgres alloc_space | sort -n -k2 | tail -n 5)"
	end_run
}
row "postgres, with its processes" test_postgres

test_gcc() {
	need gcc
	begin_run --events alloc
	printf 'int main(void) { return 0; }\n' >x.c
	same gcc -O2 -c -o x.o x.c
	end_run
}
row "gcc" test_gcc

test_node() {
	need node
	begin_run --events alloc
	same node -e 'const a = []; for (let i = 0; i < 1e5; i++) a.push("x" + i); console.log(a.length)'
	end_run
}
row "node" test_node

test_musl() { # dynamic
	need musl-gcc
	begin_run --events alloc/256
	musl-gcc -O2 -g -I"$TOP" -o ./sites "$TOP/tests/targets/sites.c"
	"${RUN[@]}" -- ./sites 100 10 1000 10000 >told
	first_of sites >/dev/null
	values_of alloc_space sites >space
	near "allocated" "$(total <space)" "$(awk '{ n += $2 } END { print n }' told)" 3
	near "in use" "$(values_of inuse_space sites | total)" "$(told site_9 3)" 2
	end_run
}
row "a program of musl's" test_musl

# glibc before 2.34 had dlsym(3) in a library of its own: what stands behind us is found without it.
test_old_libc() {
	begin_run --events alloc/256
	local old=$LAB/bin/pilliond-old # where the row's end looks for profilers
	mkdir "$old"
	install "$LAB/bin/pilliond" "$old/"
	install "${B%/*}/release/targets/libpillion-old.so" "$old/libpillion.so"
	RUN+=(--daemon "$old/pilliond")
	"${RUN[@]}" -- "$LAB/bin/sites" 100 10 1000 10000 >told
	first_of sites >/dev/null
	values_of alloc_space sites >space
	near "allocated" "$(total <space)" "$(awk '{ n += $2 } END { print n }' told)" 3
	same "$LAB/bin/oddalloc" threads 20
	same "$LAB/bin/oddalloc" handlers 100
	same "$LAB/bin/oddalloc" strict 0
	same perl -e 'my %h; $SIG{USR1} = sub { print "USR1\n" }; $h{$_ % 1000} .= "x" x 10 for 1 .. 100000; kill USR1 => $$; print keys(%h) + 0, "\n"'
	same bash -c 'trap "echo INT" INT; kill -INT $$; x=$(ls / | wc -l); echo $x'
	end_run
}
row "a libc whose dlsym is not there: functions are found, and programs are as without" test_old_libc

test_static() {
	begin_run --events cpu,alloc
	gcc -O2 -static -o ./sites "$TOP/tests/targets/sites.c"
	"${RUN[@]}" -- ./sites 100 2>said >told
	has "stderr" "$(cat said)" 'alloc: .*/sites is a static program'
	begin_run --events alloc
	"${RUN[@]}" -- ./sites 100 2>said >told
	has "stderr" "$(cat said)" 'alloc: .*/sites is a static program.*the program runs without a profile'
	end_run
}
row "a static program is told so, and runs" test_static

test_sanitized() { # FLAG
	begin_run --events cpu,alloc
	gcc -O1 "$1" -o ./sites "$TOP/tests/targets/sites.c" -pthread || skip "gcc has no $1"
	"${RUN[@]}" -- ./sites 20 2>said >told || fail "exit status $?: $(cat said)"
	has "stderr" "$(cat said)" 'alloc: .*/sites is built with a sanitizer'
	has "what it says" "$(cat told)" 'site_9'
	end_run
}
row "a program of AddressSanitizer's is told so, and runs" test_sanitized -fsanitize=address
row "a program of ThreadSanitizer's is told so, and runs" test_sanitized -fsanitize=thread

test_allocator() { # LIBRARY
	local library
	library=$(compgen -G "/usr/lib/*/$1" || :)
	[[ -n $library ]] || skip "$1 is not installed"
	begin_run --events alloc/256
	LD_PRELOAD=$library "${RUN[@]}" -- "$LAB/bin/sites" 100 10 1000 10000 >told
	first_of sites >/dev/null
	values_of alloc_space sites >space
	near "allocated" "$(total <space)" "$(awk '{ n += $2 } END { print n }' told)" 3
	near "in use" "$(values_of inuse_space sites | total)" "$(told site_9 3)" 3
	end_run
}
row "jemalloc" test_allocator libjemalloc.so.2
row "tcmalloc" test_allocator libtcmalloc.so.4

# --- programs that do not

test_odd() { # MODE N [EVENTS]
	begin_run --events "${3:-alloc/65536}"
	is "what it says" "$("${RUN[@]}" -- "$LAB/bin/oddalloc" "$1" "$2" 2>&1)" "done $1"
	end_run
}
row "it closes all descriptors and has others by their numbers" test_odd closes 0
row "it forbids itself every system call" test_odd strict 0
row "threads that come and go" test_odd threads 50
row "forks and vforks in the middle of everything" test_odd forks ${FULL:+10}000
row "handlers that leave by longjmp" test_odd handlers 500
row "limits of files and descriptors" test_odd limited 0

# A thousand deaths at any instruction: what was written before is there.
test_killed() {
	local i status
	begin_run --events alloc/256
	service_run
	for ((i = 0; i < ${FULL:+9}100; i++)); do
		status=0
		{ "${RUN[@]}" -- "$LAB/bin/oddalloc" killed $((RANDOM % 3000)) || status=$?; } >/dev/null 2>&1
		is "exit status" "$status" 137
	done
	"${RUN[@]}" -- "$LAB/bin/sites" 100 10 1000 10000 >told
	first_of sites >/dev/null
	near "in use" "$(values_of inuse_space sites | total)" "$(told site_9 3)" 2
	kill -TERM "$SERVICE"
	end_run
}
row "killed at any instruction: the next one is profiled" test_killed

test_stopped() { # the profiler: its ring fills up, and nobody waits for it
	local began
	begin_run --events alloc/1024
	service_run
	"${RUN[@]}" -- "$LAB/bin/sites" 300 0 1000 1000 >told &
	until_true 20 has_used $! 100 || fail "it does not work"
	kill -STOP "$(worker)"
	began=${EPOCHREALTIME/./}
	wait $! || fail "sites: exit status $?"
	(((${EPOCHREALTIME/./} - began) / 1000 < 20000)) || fail "it was held up"
	kill -CONT "$(worker)"
	first_of sites >/dev/null
	has "comments" "$(comments_of sites)" '[0-9]+ samples of memory: there was no room'
	kill -TERM "$SERVICE"
	end_run
}
row "the profiler is stopped: the program runs on, what is lost is counted" test_stopped

# Where it is told to connect there is nothing, or something else: it is as if nobody had asked.
test_socket() { # PATH
	local plain ours
	begin_run
	touch file
	plain=$("$LAB/bin/sites" 20 10)
	ours=$(LD_PRELOAD=$LAB/bin/libpillion.so PILLION_SOCKET=$1 "$LAB/bin/sites" 20 10 2>&1)
	is "what it says" "$ours" "$plain"
	is "in strict mode" "$(LD_PRELOAD=$LAB/bin/libpillion.so PILLION_SOCKET=$1 "$LAB/bin/oddalloc" strict 0 2>&1)" "done strict"
}
row "PILLION_SOCKET: nothing is there" test_socket /nowhere/app.sock
row "PILLION_SOCKET: not a socket" test_socket /etc/passwd
row "PILLION_SOCKET: no absolute path" test_socket app.sock
row "PILLION_SOCKET: empty" test_socket ""
row "PILLION_SOCKET: too long" test_socket "/$(printf 'x%.0s' {1..300})"

test_impostor() { # a socket of somebody else's
	begin_run
	setpriv --reuid 65534 --regid 65534 --clear-groups perl -MSocket -e 'socket(S, AF_UNIX, SOCK_SEQPACKET, 0) or die;
bind(S, sockaddr_un("run/other.sock")) or die "$!"; chmod 0777, "run/other.sock"; listen(S, 5); alarm 10; accept(C, S) or die;
recv(C, $got, 100, 0); print "got ", length($got), "\n"' >heard &
	until_true 5 test -S run/other.sock
	LD_PRELOAD=$LAB/bin/libpillion.so PILLION_SOCKET=$ROW/run/other.sock "$LAB/bin/sites" 20 10 >told
	wait $!
	is "what it has heard" "$(cat heard)" "got 0"
}
row "PILLION_SOCKET: another user's hears nothing" test_impostor

test_turned() { # /run/pillion is the service's there
	begin_run --events alloc/1024
	chmod 755 "$LAB"
	printf '%s\n' 'mount -t tmpfs tmpfs /run || exit' \
		"INVOCATION_ID=x $LAB/bin/pilliond --control /run/pillion/control.sock --spool $ROW/spool --log $ROW/node.log --metrics off &" \
		'until test -S /run/pillion/control.sock; do sleep 0.02; done' \
		'"$@"; status=$?; kill $!; wait; exit $status' >within
	unshare --mount --propagation private timeout 60 sh within "${RUN[@]}" -- \
		setpriv --reuid 64999 --regid 64999 --clear-groups "$LAB/bin/sites" 100 10 1000 10000 >told
	first_of setpriv >/dev/null
	near "objects" "$(values_of alloc_objects setpriv | total)" $((100 * 1023)) 10
	end_run
}
row "root's program becomes another user: what that allocates is there" test_turned

test_deaf() { # it accepts, and says nothing
	local began
	begin_run
	perl -MSocket -e 'socket(S, AF_UNIX, SOCK_SEQPACKET, 0) or die; bind(S, sockaddr_un("deaf.sock")) or die; listen(S, 5);
alarm 60; accept(C, S) or die; sleep' &
	until_true 5 test -S deaf.sock
	began=${EPOCHREALTIME/./}
	LD_PRELOAD=$LAB/bin/libpillion.so PILLION_SOCKET=$ROW/deaf.sock "$LAB/bin/sites" 20 10 >told
	(((${EPOCHREALTIME/./} - began) / 1000 < 2000)) || fail "held up"
	is "in strict mode" "$(LD_PRELOAD=$LAB/bin/libpillion.so PILLION_SOCKET=$ROW/deaf.sock "$LAB/bin/oddalloc" strict 0 2>&1)" "done strict"
	kill $!
}
row "PILLION_SOCKET: a profiler that does not answer holds nobody up" test_deaf

