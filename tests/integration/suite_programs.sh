# suite_programs - real programs under `pillion run`: they do what they always do, and the profile shows every process of
# theirs that used a processor.

. "$TOP/tests/integration/wrapped.sh"
PYTHON=/usr/bin/python3

begin_program() { # COMMAND... - what it needs
	need go "$@"
	begin_run --events cpu@499 --window 3600s
	AS_USER=(env -i PATH="$PATH" HOME="$ROW/out" "${NOBODY[@]}") # a plain user, with the environment of a login
}

sampled() { # NAME PID... - each is in the profile
	local pids pid name=$1
	shift
	pids=$(tags_of "$name" pid)
	for pid; do
		grep -qx "$pid" <<<"$pids" || fail "pid $pid is not in the profile, but $(tr '\n' ' ' <<<"$pids")"
	done
}

# --- who watches processes

test_job_control() {
	begin_program bash
	local way script='set -m; is() { until [[ $(jobs) == *$1* ]]; do sleep 0.02; done; jobs; }
		sleep 30 & p=$!; kill -STOP %1; is Stopped; kill -CONT %1; is Running; kill %1
		wait $p; echo "status $?"; '"$LAB/bin/burn"' 0.3 >/dev/null & wait $!; echo "status $?"; (exit 5) & wait $!; echo $?'
	"${AS_USER[@]}" bash -c "$script" 2>&1 | sed 's/bash: line [0-9]*: //' >without
	"${AS_USER[@]}" "${RUN[@]}" bash -c "$script" 2>&1 | sed 's/bash: line [0-9]*: //' >with
	diff without with || fail "job control differs"
	has "the jobs" "$(cat with)" "Stopped.*Running.*status 143"
	end_run
}
test_timeout() {
	begin_program timeout
	is "the exit status" "$(status_of "${AS_USER[@]}" timeout 0.5 "${RUN[@]}" sleep 30)" 124
	"${AS_USER[@]}" timeout --preserve-status 60 "${RUN[@]}" sh -c 'trap "exit 9" TERM; echo trapped; while :; do sleep 0.05; done' >told &
	until_true 20 grep -qs trapped told || fail "it does not begin"
	kill -TERM $! # which it passes on, as when time is over
	local status=0
	wait $! || status=$?
	is "the exit status" $status 9
	end_run
}
test_supervisor() { # starts, signals, waits: what it sees is what it would see
	begin_program
	local way seen
	for way in without with; do
		[[ $way == without ]] && seen=() || seen=("${RUN[@]}")
		"${AS_USER[@]}" sh -c '"$@" & pid=$!; until grep -q trapped "$0"; do sleep 0.05; done; kill -USR1 $pid; wait $pid; echo "status $?"' \
			$way "${seen[@]}" sh -c 'trap "echo signalled; exit 6" USR1; echo trapped; while :; do sleep 0.05; done' >$way
	done
	diff without with || fail "a supervisor sees something else"
	has "what it saw" "$(tr '\n' ' ' <with)" "trapped signalled status 6"
	end_run
}
test_strace() {
	begin_program strace
	strace -f -qq -e trace=execve,exit_group -o trace "${RUN[@]}" sh -c 'echo $$; exit 8' >pid || is "the exit status" $? 8
	is "the pid that strace started" "$(head -n 1 trace | cut -d' ' -f1)" "$(cat pid)"
	has "its end" "$(grep "^$(cat pid) " trace)" 'exit_group\(8\)'
	end_run
}
row "bash has its job control" test_job_control
row "timeout ends it" test_timeout
row "a supervisor signals it and hears its status" test_supervisor
row "strace sees the process that it started" test_strace

# --- programs with many processes

test_python() {
	begin_program $PYTHON
	"${AS_USER[@]}" "${RUN[@]}" $PYTHON - >out.txt <<-'PY' || fail "python: exit status $?"
		import multiprocessing, os
		def work(n):
		    return os.getpid(), sum(i * i for i in range(1500000))
		with multiprocessing.Pool(3) as pool:
		    results = pool.map(work, range(12), chunksize=1)
		print(len(set(r[1] for r in results)), *sorted(set(r[0] for r in results)))
	PY
	is "different results" "$(cut -d' ' -f1 out.txt)" 1
	sampled python3 $(cut -d' ' -f2- out.txt)
	end_run
}

test_redis() {
	begin_program redis-server redis-benchmark
	"${AS_USER[@]}" "${RUN[@]}" redis-server --port 0 --unixsocket "$ROW/out/sock" --save '' --dir "$ROW/out" >redis.log 2>&1 &
	local server=$!
	until_true 10 test -S out/sock || fail "redis: $(cat redis.log)"
	redis-benchmark -s "$ROW/out/sock" -q -n 60000 -t set,get >benchmark 2>&1 || fail "$(cat benchmark)"
	has "redis-benchmark" "$(tr '\r' '\n' <benchmark)" "GET: [0-9.]+ requests per second"
	redis-cli -s "$ROW/out/sock" shutdown nosave
	wait $server || fail "redis: exit status $?"
	has "the profile" "$(folded_of redis-server)" "redis"
	end_run
}

test_nginx() {
	begin_program nginx $PYTHON
	mkdir -m 777 www
	cat >nginx.conf <<-CONF
		worker_processes 2;
		pid $ROW/out/pid;
		error_log $ROW/out/error.log;
		events { worker_connections 64; }
		http { access_log off; client_body_temp_path out/b; proxy_temp_path out/p; fastcgi_temp_path out/f;
			uwsgi_temp_path out/u; scgi_temp_path out/s; keepalive_requests 100000; gzip on; gzip_comp_level 9;
			gzip_types text/plain; default_type text/plain;
			server { listen unix:$ROW/out/sock; root $ROW/www; } }
	CONF
	seq 60000 >www/page
	"${AS_USER[@]}" "${RUN[@]}" nginx -p "$ROW" -c nginx.conf -g 'daemon off;' >nginx.log 2>&1 &
	local master=$! workers
	until_true 10 test -S out/sock || fail "nginx: $(cat nginx.log out/error.log)"
	workers=$(cat "/proc/$master/task/$master/children")
	$PYTHON - "$ROW/out/sock" <<-'PY' || fail "a request failed"
		import socket, sys, threading
		def ask():
		    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rb")
		    for _ in range(25):
		        s.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
		        assert f.readline().startswith(b"HTTP/1.1 200")
		        while f.readline() != b"\r\n": pass
		        while (n := int(f.readline(), 16)): f.read(n + 2)
		        f.readline()
		threads = [threading.Thread(target=ask) for _ in range(8)]
		[t.start() for t in threads]; [t.join() for t in threads]
	PY
	kill -QUIT $master
	wait $master || fail "nginx: exit status $?"
	is "workers" "$(wc -w <<<"$workers")" 2
	[[ -n $(comm -12 <(tags_of nginx pid) <(tr ' ' '\n' <<<"$workers" | sort)) ]] || fail "no worker is in the profile"
	end_run
}

test_postgres() {
	begin_program pgbench
	local bin server
	bin=$(echo /usr/lib/postgresql/*/bin)
	[[ -x $bin/postgres ]] || skip "postgresql is not installed"
	mkdir -m 777 data
	chown 65534:65534 data && chmod 700 data
	"${AS_USER[@]}" "$bin/initdb" -D data -U test -A trust --no-sync >initdb.log 2>&1 || fail "$(tail -n 3 initdb.log)"
	"${AS_USER[@]}" "${RUN[@]}" "$bin/postgres" -D data -k "$ROW/out" -c listen_addresses= -c fsync=off >postgres.log 2>&1 &
	server=$!
	until_true 20 "$bin/pg_isready" -q -h "$ROW/out" -U test -d postgres || fail "postgres: $(cat postgres.log)"
	pgbench -h "$ROW/out" -U test -q -i -s 2 postgres >pgbench.log 2>&1 || fail "$(cat pgbench.log)"
	pgbench -h "$ROW/out" -U test -c 3 -T 2 postgres >>pgbench.log 2>&1 || fail "$(cat pgbench.log)"
	has "pgbench" "$(cat pgbench.log)" "number of failed transactions: 0"
	kill -INT $server
	wait $server || fail "postgres: exit status $?"
	(($(tags_of postgres pid | wc -l) >= 4)) || fail "only these are in the profile: $(tags_of postgres pid)"
	has "the profile" "$(folded_of postgres)" "postgres|PostgresMain|[Ee]xec"
	end_run
}

test_node() {
	begin_program node
	is "what it prints" "$("${AS_USER[@]}" "${RUN[@]}" node -e 'let s = 0; for (let i = 0; i < 3e8; i++) s += i & 7; console.log(s)')" \
		1050000000
	first_of node >/dev/null
	end_run
}
test_java() {
	begin_program java
	"${AS_USER[@]}" "${RUN[@]}" java -Xshare:off -XshowSettings:all -version >java.out 2>&1 || fail "java: exit status $?"
	has "what it prints" "$(cat java.out)" "Runtime Environment"
	has "the profile" "$(folded_of java)" "libjvm|java"
	end_run
}
row "python and its pool of processes" test_python
row "redis-server under redis-benchmark" test_redis
row "nginx and its workers" test_nginx
row "postgres and its children under pgbench" test_postgres
row "node" test_node
row "a JVM" test_java
