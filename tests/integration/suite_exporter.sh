# suite_exporter - the process that writes the spool and serves metrics: what it may, what it says, and that neither a spool
# that is full, read only or hung nor its own death costs a window more than it must.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-hook pillion-opener targets/pulse
NAMES=io.pillion.profile

begin_exporter() { # [pilliond OPTION...] - sets SERVICE
	begin_run
	need jq curl
	ct_need runc
	mkdir -p etc spool
	echo 'budget = 5s' >etc/pillion.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond")
	PS=("$LAB/bin/pillion" ps --control "$SOCKET")
	INVOCATION_ID=x "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info "$@" </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true "$PATIENCE" grep -qs state=ready service.log || fail "no service: $(cat service.log service.out)"
}
end_exporter() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	end_run
}

exporter() { pgrep -P "$SERVICE" -x pilliond-export || :; }
scrape() { curl -sS --max-time 5 --unix-socket "$ROW/run/http.sock" http://localhost/metrics >metrics; }
metric() { # SERIES - its value, the name alone or with labels
	scrape || fail "no metrics"
	awk -v s="$1" 'index($0, s " ") == 1 { print $NF }' metrics
}
rises() { # SERIES LEAST
	local value
	value=$(metric "$1")
	awk -v v="${value:-0}" -v l="$2" 'BEGIN { exit !(v >= l) }'
}
container() { # NAME PROGRAM ARG... - which goes on, a fifth of a CPU's time, where there is no PROGRAM
	local name=$1 program=(pulse 20)
	shift
	[[ $# == 0 ]] || program=("$@")
	ct_start runc "$name" -a "$NAMES=cpu" -a io.pillion.window=5s -- "$LAB/bin/${program[0]}" "${program[@]:1}"
}
samples_of() { "${PS[@]}" --json | jq ".[] | select(.id == \"$1\") | .samples"; }
has_samples() { # NAME LEAST
	local n
	n=$(samples_of "$1") && ((${n:-0} >= $2))
}
listed_none() { [[ $("${PS[@]}" --json | jq length) == 0 ]]; }
profiles() { find spool -name '*.pb.gz' | sort; }

WEB='{target="web",name="",pod="",namespace=""}'

# A line for each file, a file for each line, each whole.
index_matches() {
	jq -e . spool/index.jsonl >/dev/null || fail "the index is no JSON: $(cat spool/index.jsonl)"
	is "the index" "$(jq -r .file spool/index.jsonl | sort)" "$(profiles | cut -d/ -f2-)"
	is "unfinished files" "$(find spool -name '.*' -type f)" ""
}
# From 0 on, each window once.
windows_of() { # NAME - how many, by their numbers
	local seqs
	seqs=$(jq -r "select(.name == \"$1\" or .id == \"$1\") | .seq" spool/index.jsonl | sort -n)
	is "windows of $1" "$seqs" "$(seq 0 $(($(wc -l <<<"$seqs") - 1)))"
	wc -l <<<"$seqs"
}

# --- what it says

test_metrics() {
	begin_exporter
	container web
	until_true "$PATIENCE" rises "pillion_target_samples_total$WEB" 50 || fail "no samples: $(cat metrics)"
	is "the socket" "$(stat -c '%a %F' run/http.sock)" "660 socket"
	is "targets" "$(metric pillion_targets)" 1
	is "the worker" "$(metric pillion_worker_up)" 1
	is "starts" "$(grep '^pillion_hook_starts_total{outcome="armed"' metrics | awk '{ print $NF }')" 1
	is "how long it took, in all" "$(metric pillion_hook_duration_seconds_count)" 1
	ct_start runc bad -a "$NAMES=nonsense" -- "$LAB/bin/burn" 0.1
	until_true "$PATIENCE" rises 'pillion_hook_starts_total{outcome="unprofiled",strategy=""}' 1 || fail "it is not counted: $(cat metrics)"
	is "how long they took, in all" "$(metric pillion_hook_duration_seconds_count)" 2
	ct_rm bad
	sanitized || (($(metric 'pillion_process_resident_memory_bytes{process="pilliond-export"}') < 10000000)) || fail "it is large"
	until_true "$PATIENCE" rises pillion_profiles_written_total 1 || fail "no window was written"
	until_true "$PATIENCE" spool_agrees || fail "of the spool: $(grep ^pillion_spool metrics), $(spool_holds)"
	! command -v promtool >/dev/null || promtool check metrics <metrics || fail "promtool"
	has "its health" "$(curl -sS --unix-socket run/http.sock http://x/health)" ok
	is "the status of POST" "$(curl -sS -o /dev/null -w '%{http_code}' -d x --unix-socket run/http.sock http://x/metrics)" 405
	is "the status of another page" "$(curl -sS -o /dev/null -w '%{http_code}' --unix-socket run/http.sock http://localhost/x)" 404
	setpriv --reuid 64999 --regid 64999 --clear-groups curl -sS --unix-socket run/http.sock http://x/metrics 2>/dev/null && fail "anybody may ask"
	ct_stop web
	until_true "$PATIENCE" listed_none || fail "it is still listed"
	until_true "$PATIENCE" no_target || fail "it is in the metrics: $(grep target= metrics)"
	index_matches
	has "the index" "$(cat spool/index.jsonl)" '"id":"web",.*"event":"cpu","seq":0,.*"samples":[1-9]'
	ct_rm web
	end_exporter
}
no_target() { scrape && ! grep -q target= metrics; }
spool_holds() { # files, bytes of the disk
	echo "$(profiles | wc -l) $(profiles | xargs stat -c %s | awk -v dirs="$(profiles | xargs dirname | sort -u | wc -l)" \
		'{ n += 4096 * int(($1 + 4095) / 4096) } END { print n + 4096 * dirs }')"
}
spool_agrees() { [[ "$(metric pillion_spool_files) $(metric pillion_spool_bytes)" == "$(spool_holds)" ]]; } # a window may end meanwhile
row "a container's numbers, the service's, and who may ask" test_metrics

test_scraped() {
	begin_exporter
	container web
	local before used i
	until_true "$PATIENCE" has_samples web 1 || fail "it is not profiled: $("${PS[@]}")"
	before=$(worker_used)
	for ((i = 0; i < 100; i++)); do scrape; done
	used=$(($(worker_used) - before))
	((used <= 100000)) || fail "100 scrapes took $used us of the worker"
	ct_rm web
	end_exporter
}
worker_used() { awk '{ printf "%.0f", $1 / 1000 }' "/proc/$(worker)/schedstat"; } # us of CPU time
row "scraped without a pause, it leaves the worker alone" test_scraped

memory_of() { # PID - what it may write to
	local from to
	while IFS=- read -r from to; do
		dd if="/proc/$1/mem" bs=4096 skip=$((0x$from / 4096)) count=$(((0x$to - 0x$from) / 4096)) 2>/dev/null || :
	done < <(sed -nE 's/^([0-9a-f]+-[0-9a-f]+) rw.*/\1/p' "/proc/$1/maps")
}
with_token() { # TOKEN - the names of the processes that have it
	local pid
	for pid in $(profilers); do
		(($({ memory_of "$pid" | grep -acF "$1"; } || :) == 0)) || cat "/proc/$pid/comm"
	done | sort | xargs echo
}

test_port() {
	local port=$((20000 + RANDOM % 10000)) token
	begin_exporter --metrics 127.0.0.1:$port --users-group users
	token=$(cat run/http.token)
	is "the token's mode" "$(stat -c %a run/http.token)" 640
	asked() { curl -sS -o metrics -w '%{http_code}' --max-time 5 "$@" "http://127.0.0.1:$port/metrics"; }
	is "without a token" "$(asked)" 401
	is "with it" "$(asked -H "Authorization: Bearer $token")" 200
	has "the page" "$(cat metrics)" 'pillion_worker_up 1'
	# a sanitizer's memory is terabytes
	sanitized || is "who knows it" "$(with_token "$token")" "pilliond pilliond-export"
	is "with another host" "$(asked -H "Authorization: Bearer $token" -H 'Host: evil.example')" 403
	[[ ! -e run/http.sock ]] || fail "there is a socket as well"
	kill -TERM "$SERVICE"
	wait "$SERVICE"
	begin_again --metrics 127.0.0.1:$port
	is "the token of its successor" "$(cat run/http.token)" "$token"
	is "with it" "$(asked -H "Authorization: Bearer $token")" 200
	end_exporter
}
begin_again() {
	: >service.log
	INVOCATION_ID=x "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info "$@" </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true "$PATIENCE" grep -qs state=ready service.log || fail "no service: $(cat service.log service.out)"
}
row "on a port: a token, and no name but the machine's own" test_port

test_off() {
	begin_exporter --metrics off
	[[ ! -e run/http.sock ]] || fail "there is a socket"
	is "listening sockets of the exporter" "$(find "/proc/$(exporter)/fd" -lname 'socket:*' | wc -l)" 1
	container web burn 0.3
	until_true "$PATIENCE" listed_none || fail "it is still listed"
	until_true "$PATIENCE" written web || fail "no profile"
	ct_rm web
	end_exporter
}
row "metrics off: it listens nowhere" test_off

# --- what it may

test_role() {
	begin_exporter
	container web
	until_true "$PATIENCE" has_samples web 1 || fail "it is not profiled: $("${PS[@]}")"
	local pid field
	pid=$(exporter)
	for field in CapInh CapPrm CapEff CapBnd CapAmb; do
		is "$field" "$(awk -v f=$field: '$1 == f { print $2 }' "/proc/$pid/status")" 0000000000000000
	done
	is "no_new_privs, seccomp" "$(awk '/^(NoNewPrivs|Seccomp):/ { printf "%s ", $2 }' "/proc/$pid/status")" "1 2 "
	[[ $(awk '/^Uid:/ { print $2 $3 $4 $5 }' "/proc/$pid/status") != 0000 ]] || fail "it is root"
	is "events, pidfds and rings" "$(find "/proc/$pid/fd" -lname '*perf_event*' -o -lname '*pidfd*' | wc -l) $(grep -c perf_event "/proc/$pid/maps")" "0 0"
	is "directories" "$(find "/proc/$pid/fd" -lname '/*' -exec readlink {} + | grep -v -e '^/dev/null$' -e '\.log$' -e '\.out$' | sort -u)" "$ROW/spool"
	is "unfinished business of the worker: files of the spool" \
		"$(find "/proc/$SERVICE/fd" -lname "$ROW/spool/*" | wc -l)" 0
	ct_rm web
	end_exporter
}
row "no capability, a seccomp role, no descriptor of a target" test_role

# --- a spool that is sick

begin_tmpfs() { # SIZE
	begin_run
	mkdir spool
	mount -t tmpfs -o "size=$1" tmpfs spool
	begin_exporter
}
end_tmpfs() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?"
	umount spool
	end_run
}

test_full() {
	begin_tmpfs 256k
	until ! head -c 4096 /dev/zero >>spool/ballast; do :; done 2>/dev/null
	container web
	until_true "$PATIENCE" grep -q 'target=web .*outcome=lost .*No space left' service.log || fail "not a word: $(cat service.log)"
	until_true "$PATIENCE" rises pillion_profiles_failed_total 1 || fail "no failure is counted"
	rises "pillion_target_lost_samples_total$WEB" 1 || fail "nothing is lost"
	is "files" "$(find spool -type f ! -name ballast ! -name index.jsonl)" ""
	rm spool/ballast
	until_true "$PATIENCE" grep -q 'target=web .*outcome=written' service.log || fail "it does not recover"
	index_matches
	ct_rm web
	end_tmpfs
}
row "the spool is full: windows are lost and said so; with room the next one is written" test_full

test_read_only() {
	begin_tmpfs 1m
	container web
	until_true "$PATIENCE" grep -q 'target=web .*outcome=written' service.log || fail "no window"
	mount -o remount,ro spool
	until_true "$PATIENCE" grep -q 'target=web .*outcome=lost .*Read-only file system' service.log || fail "not a word"
	until_true "$PATIENCE" has_samples web $(($(samples_of web) + 5)) || fail "it is not profiled any more"
	mount -o remount,rw spool
	: >service.log
	until_true "$PATIENCE" grep -q 'target=web .*outcome=written' service.log || fail "it does not recover"
	index_matches
	ct_rm web
	end_tmpfs
}
row "the spool becomes read only, and writable again" test_read_only

# A FUSE file system whose process is stopped: whoever writes to it waits, and nothing interrupts that.
test_hung() {
	begin_run
	need fuse-overlayfs
	[[ -c /dev/fuse ]] || skip "there is no /dev/fuse"
	mkdir spool upper work low
	setsid fuse-overlayfs -f -o lowerdir="$ROW/low",upperdir="$ROW/upper",workdir="$ROW/work",allow_other \
		"$ROW/spool" >fuse.out 2>&1 &
	FUSE=$!
	trap 'kill -CONT $FUSE; umount -l "$ROW/spool"; kill $FUSE' EXIT
	until_true "$PATIENCE" grep -q " $ROW/spool " /proc/self/mountinfo || fail "fuse-overlayfs: $(cat fuse.out)"
	begin_exporter
	container web
	until_true "$PATIENCE" grep -q 'target=web .*outcome=written' service.log || fail "no window"
	kill -STOP "$FUSE"
	container db burn 0.5
	local start=${EPOCHREALTIME/./} ms
	until_true "$PATIENCE" eval '! "${PS[@]}" --json | jq -e ".[] | select(.id == \"db\")"' >/dev/null || fail "db does not end"
	ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	echo "db ended after $ms ms"
	has "the log" "$(cat service.log)" 'target=db outcome=late reason="the spool is slow'
	until_true "$PATIENCE" has_samples web $(($(samples_of web) + 160)) || fail "web is not profiled any more" # more than a window
	container later burn 0.5 # a start is not held up
	kill -CONT "$FUSE"
	until_true "$PATIENCE" grep -q 'target=db .*outcome=written' service.log || fail "db is not written: $(cat service.log)"
	ct_stop web
	until_true "$PATIENCE" listed_none || fail "web is still listed"
	until_true "$PATIENCE" eval '[[ $(profiles | wc -l) == $(wc -l <spool/index.jsonl) ]]' || :
	index_matches
	is "lost" "$(grep -c outcome=lost service.log || :)" 0
	(($(windows_of web) >= 3)) || fail "web has $(windows_of web) windows"
	for name in web db later; do ct_rm $name; done
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?"
	trap - EXIT
	umount spool
	wait "$FUSE" || :
	end_run
}
row "the spool hangs: containers start, are profiled and end; every window is there when it is back" test_hung

# --- its death

test_killed() { # TIMES
	begin_exporter
	local i kills=0
	for i in 1 2 3 4 5; do
		container c$i
		sleep 0.7 # their windows end one behind the other
	done
	until ((kills >= $1)) && enough_windows $(($1 / 4)); do
		sleep 0.$((RANDOM % 9 + 1))
		kill -KILL "$(exporter)" 2>/dev/null && kills=$((kills + 1))
	done
	echo "$kills times"
	for i in 1 2 3 4 5; do ct_stop c$i; done
	until_true "$PATIENCE" listed_none || fail "still listed: $("${PS[@]}")"
	is "lost" "$(grep -c outcome=lost service.log || :)" 0
	until_true "$PATIENCE" eval '[[ -n $(exporter) ]]' || fail "there is none"
	index_matches
	for i in 1 2 3 4 5; do
		(($(windows_of c$i) >= $1 / 4)) || fail "c$i has $(windows_of c$i) windows"
		is "paths told for c$i, once each" "$(grep -c "target=c$i .*outcome=written" service.log)" "$(windows_of c$i)"
		ct_rm c$i
	done
	is "lines without a word" "$(grep -c null spool/index.jsonl || :)" 0
	end_exporter
}
enough_windows() { # LEAST - of each
	local i
	for i in 1 2 3 4 5; do
		(($(profiles_of c$i | wc -l) >= $1)) || return 1
	done
}
KILLS=${FULL:+20}
KILLS=${KILLS:-8}
row "killed $KILLS times while windows end: each is there, once" test_killed $KILLS

# In the middle of a write: behind strace each of its calls takes long.
test_killed_writing() {
	begin_exporter
	container web
	until_true "$PATIENCE" grep -q 'target=web .*outcome=written' service.log || fail "no window"
	need strace
	strace -qq -e trace=fsync -e inject=fsync:delay_enter=3000000 -p "$(exporter)" -o trace &
	local tracer=$!
	until_true "$PATIENCE" grep -qs TracerPid:.*[1-9] "/proc/$(exporter)/status" || fail "not traced"
	until_true "$PATIENCE" eval '[[ -n $(find spool -name ".writing*") ]]' || fail "nothing is being written"
	kill -KILL "$(exporter)"
	wait $tracer || :
	until_true "$PATIENCE" eval '(($(grep -c "target=web .*outcome=written" service.log) >= 2))' || fail "not written again"
	index_matches
	ct_stop web
	until_true "$PATIENCE" listed_none || fail "web is still listed"
	is "windows" "$(windows_of web)" "$(profiles | wc -l)"
	ct_rm web
	end_exporter
}
row "killed while it writes: nothing half, nothing lost" test_killed_writing

# --- a session's

test_session() {
	begin_run
	need jq
	"${RUN[@]}" -- "$LAB/bin/burn" 0.3 >/dev/null
	until_true "$PATIENCE" written burn || fail "no profile: $(cat run/log)"
	until_true "$PATIENCE" no_profiler || fail "a profiler is left"
	is "the index" "$(jq -r '.file, .event' out/index.jsonl | xargs)" "$(cd out && echo burn/*.pb.gz) cpu"
	end_run
}
row "a session has one as well, and leaves an index" test_session
