# suite_push - profiles to a server of ours (tests/tools/receiver.mjs) that is slow, refuses, is away, lies: nothing is lost, in order,
# and nobody but the endpoint waits for it. What is in the requests is suite_push_encode's.

. "$TOP/tests/integration/wrapped.sh"
. "$TOP/tests/integration/judged.sh"
UNFOLD=$B/tools/unfold
RECEIVER=$TOP/tests/tools/receiver.mjs
PUSH=("$LAB/bin/pillion" push)

receiver_run() { # [CERT KEY] - below ./rec; what it is to do is in rec/mode
	need node
	mkdir -p rec
	[[ -e rec/mode ]] || echo ok >rec/mode
	rm -f rec/ready
	node "$RECEIVER" rec "$@" </dev/null >rec.out 2>&1 &
	RECEIVER_PID=$!
	until_true 20 test -e rec/ready || fail "no receiver: $(cat rec.out)"
	PORT=$(cat rec/port)
}
receiver_stop() {
	kill "$RECEIVER_PID"
	wait "$RECEIVER_PID" || :
}
window_at() { # TARGET MINUTE SECOND [VALUE [EVENT]] - a profile in ./spool, as the service writes one
	local file
	printf -v file '20260101T00%02d%02dZ-%06d-%s.pb.gz' "$2" "$3" $(($2 * 60 + $3)) "${5:-cpu}"
	mkdir -p "spool/$1"
	echo "web;main;work ${4:-7}" | "$UNFOLD" "$ROW/w.pb.gz" samples count
	mv "$ROW/w.pb.gz" "spool/$1/$file"
}
paths_taken() { jq -r .path rec/taken 2>/dev/null | sed "s|^/$(hostname)/|/|"; }
times_taken() { { cat rec/taken 2>/dev/null || :; } | grep -c . || :; }
took() { (($(times_taken) >= $1)); }
in_spool() { (cd spool && find . -name '*.pb.gz' ! -path './.*/*' | sed 's/^\.//' | sort); }
# Each file of the spool has come, and those of a target in the order of their windows.
is_whole_and_in_order() {
	is "what has not come" "$(in_spool | comm -23 - <(paths_taken | sort -u))" ""
	paths_taken | awk -F/ '{ if ($3 <= last[$2]) print "behind " last[$2] ": " $0; last[$2] = $3 }' >disorder
	is "out of order" "$(cat disorder)" ""
}
follow() { # OPTION... - of ./spool
	mkdir -p spool
	"${PUSH[@]}" --follow "$@" "$ROW/spool" >push.out 2>&1 &
	FOLLOW=$!
	until_true 10 follows 1 || fail "it does not begin: $(cat push.out push.log)"
}
# What comes from now on is sent: what an endpoint finds in its first look, when it is new, is not.
follows() { # ENDPOINTS
	[[ $(find spool/.push -name '*.json' 2>/dev/null | grep -c .) == "$1" ]]
}
follow_end() {
	kill -TERM "$FOLLOW"
	wait "$FOLLOW" || fail "push's exit status is $?: $(cat push.out push.log)"
	[[ -z $(pushers) ]] || fail "a process is left: $(pushers)"
}
pushers() { pgrep -f "^$LAB/bin/pillion push --follow" || :; }
export PILLION_LOG

begin_push() {
	PILLION_LOG=$ROW/push.log
	chmod 755 "$LAB" .
}
# of an endpoint, which is the only one where it has no name here
state_file() { echo spool/.push/${1:-*}.json; }
state_of() { jq -r "$1" $(state_file "${2-}") 2>/dev/null || :; }

# --- real profiles, each form

test_recorded() { # FORM
	begin_run
	begin_push
	receiver_run
	"${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null
	first_of burn >/dev/null
	until_true 30 no_profiler || fail "a profiler is left: its last window may be to come"
	"${PUSH[@]}" --to "$1+http://127.0.0.1:$PORT" out >said || fail "$(cat said)"
	is "what it says" "$(cat said)" "$(find out -name '*.pb.gz' | grep -c .) of $(find out -name '*.pb.gz' | grep -c .) to $1+http://127.0.0.1:$PORT"
	is "requests" "$(times_taken)" "$(find out -name '*.pb.gz' | grep -c .)"
	has "the request" "$(head -n 1 rec/taken)" "$2"
	[[ $(stat -c %s rec/000000.body) -gt 200 ]] || fail "there is nothing in it"
	receiver_stop
	end_run
}
row "push: a recorded profile to Pyroscope's push.v1" test_recorded pyroscope '"method":"POST","path":"/push.v1.PusherService/Push".*"content-type":"application/proto"'
row "push: a recorded profile to Pyroscope's /ingest" test_recorded ingest '"path":"/ingest\?name=burn.*multipart/form-data'
row "push: a recorded profile to an OTLP server" test_recorded otlp '"path":"/v1development/profiles".*application/x-protobuf.*"content-encoding":"gzip"'
row "push: a recorded profile by PUT" test_recorded put '"method":"PUT","path":"/'"$(hostname)"'/burn/2.*-cpu.pb.gz"'

test_directory() {
	begin_push
	mkdir store
	[[ $EUID != 0 ]] || chown nobody store # which is no hindrance to root
	for s in 1 2 3; do window_at web 0 $s; done
	"${PUSH[@]}" --to "file://$ROW/store" spool >said || fail "$(cat said)"
	diff -r spool "store/$(hostname)" || fail "the copy is another"
	rm -r store
	is "the status without it" "$("${PUSH[@]}" --to "file://$ROW/store" spool 2>said >&2; echo $?)" 1
	has "what it says" "$(cat said)" "cannot open $ROW/store: No such file or directory"
}
row "push: a copy into a directory; one that is not there is named" test_directory

# --- who it speaks to

test_pods() { # HOW - containers of one name in several Pods; beside a target of an older version
	local of
	begin_push
	mkdir store
	chmod 777 store
	for of in prod/shop-0/main prod/shop-1/main test/shop-0/main main; do
		window_at "$of" 0 1
		window_at "$of" 0 2
	done
	touch spool/index.jsonl # as the writer of a spool makes one
	case $1 in
	files) "${PUSH[@]}" --to "file://$ROW/store" $(find spool -name '*.pb.gz') >said || fail "$(cat said)" ;;
	directories) "${PUSH[@]}" --to "file://$ROW/store" spool/prod/ spool/test/shop-0/main spool/main >said || fail "$(cat said)" ;;
	names) PILLION_SPOOL=$ROW/spool "${PUSH[@]}" --to "file://$ROW/store" prod/shop-0/main shop-1/main spool/test spool/main >said || fail "$(cat said)" ;;
	followed)
		follow --to "file://$ROW/store" --backlog
		until_true 20 eval '(($(find store -name "*.pb.gz" | wc -l) == 8))' || fail "copies: $(find store) $(cat push.out push.log)"
		follow_end
		;;
	put)
		receiver_run
		"${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" spool >said || fail "$(cat said)"
		is "what was put" "$(paths_taken | sort)" "$(in_spool)"
		receiver_stop
		return
		;;
	esac
	diff -r -x index.jsonl -x .push spool "store/$(hostname)" || fail "the copy is another"
}
for how in files directories names followed put; do
	row "push: containers of one name in several Pods do not meet: $how" test_pods $how
done

test_identity() {
	begin_push
	receiver_run
	window_at web 0 1
	printf 'tok-%s\n' s3cret >token
	printf '# of us\nX-Scope-OrgID: team\nX-More: a b\n' >headers
	"${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" --token-file "$ROW/token" --headers-file "$ROW/headers" spool
	is "a bearer's" "$(jq -r '.headers | .authorization + " " + ."x-scope-orgid" + " " + ."x-more"' rec/taken)" "Bearer tok-s3cret team a b"
	"${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" --token-file "$ROW/token" --user me spool
	is "a user's" "$(jq -r .headers.authorization rec/taken | tail -n 1)" "Basic $(printf me:tok-s3cret | base64)"
	# and not to whoever it is sent on to, nor to people
	echo bounce >rec/mode
	"${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" --token-file "$ROW/token" spool >said 2>&1 || :
	is "requests that went on" "$(grep -c . rec/refused)" 1
	has "what it says" "$(cat said)" "it answers 307 and sends us to http://127.0.0.1:$PORT/$(hostname)/web/.*: give that as the url"
	! grep -rq s3cret said push.log spool/.push 2>/dev/null || fail "the token is told"
}
row "push: tokens, a user, headers; a redirect is told and not followed" test_identity

# Who makes requests has no token anywhere in its memory.
test_secret() {
	begin_push
	! sanitized || skip "a sanitizer's memory is terabytes"
	receiver_run
	printf 'tok-s3cret-%s\n' 12345 >token
	window_at web 0 1
	follow --backlog --to "put+http://127.0.0.1:$PORT" --token-file "$ROW/token"
	until_true 20 took 1 || fail "$(cat push.log)"
	is "the server's" "$(jq -r .headers.authorization rec/taken)" "Bearer tok-s3cret-12345"
	for pid in $(pushers); do echo "$(cat "/proc/$pid/comm") $(memory_has "$pid" tok-s3cret-12345)"; done | sort >who
	has "who has it (or this finds nothing)" "$(cat who)" "pillion-push yes"
	has "the maker" "$(cat who)" "pillion-maker no"
	pid=$(for pid in $(pushers); do [[ $(cat "/proc/$pid/comm") != pillion-maker ]] || echo "$pid"; done)
	is "its sockets" "$(find "/proc/$pid/fd" -lname 'socket:*' | grep -c .)" 1
	follow_end
}
memory_has() { # PID TEXT
	python3 -c 'import re, sys
pid, text = sys.argv[1], sys.argv[2].encode()
found = False
with open(f"/proc/{pid}/mem", "rb", 0) as mem:
    for line in open(f"/proc/{pid}/maps"):
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
        if not m or "[v" in line:
            continue
        try:
            mem.seek(int(m[1], 16))
            found = found or text in mem.read(int(m[2], 16) - int(m[1], 16))
        except OSError:
            pass
print("yes" if found else "no")' "$@"
}
row "push: who reads profiles has no token and no connection" test_secret

test_proxy() {
	begin_push
	receiver_run
	window_at web 0 1
	http_proxy=http://127.0.0.1:1 ALL_PROXY=http://127.0.0.1:1 "${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" spool || fail "it goes where the environment says"
	"${PUSH[@]}" --to put+http://nowhere.invalid:80/x --proxy "http://127.0.0.1:$PORT" spool || fail "not by the proxy"
	has "what the proxy is asked for" "$(jq -r .path rec/taken | tail -n 1)" "^http://nowhere.invalid(:80)?/x/$(hostname)/web/"
}
row "push: by the proxy that it is told, and not by the environment's" test_proxy

test_partial() {
	begin_push
	receiver_run
	echo partial >rec/mode
	window_at web 0 1
	is "the status" "$("${PUSH[@]}" --to "otlp+http://127.0.0.1:$PORT" spool 2>said >&2; echo $?)" 1
	has "what it says" "$(cat said)" "not taken: .*it did not take all: no way"
}
row "push: what an OTLP server took in part is told" test_partial

test_stop() {
	begin_push
	receiver_run
	echo hang >rec/mode
	window_at web 0 1
	"${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" spool >said 2>&1 &
	until_true 10 test -s rec/refused || fail "nothing came"
	kill -TERM $!
	until_true 20 eval "! kill -0 $! 2>/dev/null" || fail "it goes on"
	has "what it says" "$(cat said)" "stopped at "
}
row "push: it can be stopped while a server does not answer" test_stop

certificate() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -addext "subjectAltName=IP:127.0.0.1" \
		-keyout key.pem -out cert.pem 2>/dev/null
}
test_tls() {
	begin_push
	need openssl
	certificate here
	receiver_run cert.pem key.pem
	window_at web 0 1
	"${PUSH[@]}" --to "put+https://127.0.0.1:$PORT" --ca-file "$ROW/cert.pem" spool || fail "its own certificate"
	is "the status without it" "$("${PUSH[@]}" --to "put+https://127.0.0.1:$PORT" spool 2>said >&2; echo $?)" 1
	has "what it says" "$(cat said)" "certificate"
	is "by another name" "$("${PUSH[@]}" --to "put+https://localhost:$PORT" --ca-file "$ROW/cert.pem" spool 2>said >&2; echo $?)" 1
	has "what it says" "$(cat said)" "[Ss]ubject|certificate"
	is "requests" "$(times_taken)" 1
}
row "push: TLS with a certificate that is checked" test_tls

# Each is one sentence that names the file and what is wrong; those that may pass are tried again, the others are not.
test_failure() { # MODE REGEX TRIES
	begin_push
	receiver_run
	echo "$1" >rec/mode
	window_at web 0 1
	is "the status" "$("${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" spool 2>said >&2; echo $?)" 1
	is "lines" "$(grep -c . said)" "${4:-1}"
	has "what it says" "$(cat said)" "^pillion push: .*spool/web/20260101T000001Z-000001-cpu.pb.gz: $2"
	! grep -q $'\e' said || fail "a terminal would obey it"
	is "tries" "$(grep -c . rec/refused)" "$3"
}
row "push: 401 is told at once" test_failure 401 "it answers 401: it wants another token .*, and says: a 'reason'.* of two lines" 1
row "push: 404 is told at once" test_failure 404 "it answers 404: is that its address" 1
row "push: 500 is tried five times" test_failure 500 "it answers 500" 5
row "push: 400 gives up that file, and goes on" test_failure 400 "it answers 400" 1 2
row "push: a connection that ends is told" test_failure cut "(Empty reply|.*reset)" 1

test_nobody() {
	begin_push
	window_at web 0 1
	is "the status" "$("${PUSH[@]}" --to put+http://127.0.0.1:1 spool 2>said >&2; echo $?)" 1
	has "nobody listens" "$(cat said)" "connect to 127.0.0.1 port 1"
	is "the status" "$("${PUSH[@]}" --to put+http://no-such-host.invalid spool 2>said >&2; echo $?)" 1
	has "no such host" "$(cat said)" "resolve host: no-such-host.invalid"
	is "the status" "$("${PUSH[@]}" --to put+http://127.0.0.1:1 --token-file /no/such spool 2>said >&2; echo $?)" 2
	has "no such token" "$(cat said)" "token-file: cannot open /no/such"
	echo garbage >spool/web/20260101T000000Z-000000-cpu.pb.gz
	receiver_run
	is "the status" "$("${PUSH[@]}" --to "pyroscope+http://127.0.0.1:$PORT" spool 2>said >&2; echo $?)" 1
	has "no profile" "$(cat said)" "not taken: spool/web/20260101T000000Z-000000-cpu.pb.gz: "
	is "the others" "$(times_taken)" 1
}
row "push: nobody listens, no such host, no token, no profile: each is named, and what is well is sent" test_nobody

test_flood() {
	begin_push
	receiver_run
	window_at web 0 1
	echo flood >rec/mode
	"${PUSH[@]}" --to "put+http://127.0.0.1:$PORT" spool >said 2>&1 || fail "$(cat said)"
}
row "push: an answer without an end is not read to it" test_flood

# --- as they come

OUTAGE_SECONDS=${OUTAGE_SECONDS:-8}
# The server is away, then there and unwell, then well. Windows come all the time, of three targets.
test_outage() {
	begin_push
	receiver_run
	follow --to "put+http://127.0.0.1:$PORT"
	for s in 1 2 3; do window_at web 0 $s; done
	until_true 20 took 3 || fail "nothing comes: $(cat push.log)"
	receiver_stop
	local began=$SECONDS n=0
	while ((SECONDS - began < OUTAGE_SECONDS)); do
		window_at web 1 $((n % 60))
		window_at db $((1 + n / 60)) $((n % 60))
		window_at cache $((2 + n / 60)) $((n % 60))
		n=$((n + 1))
		sleep 0.5
	done
	until_true 20 failing || fail "it does not say so: $(cat $(state_file))"
	local waiting
	waiting=$(state_of .waiting)
	[[ $waiting -gt 3 && $(state_of .oldest) -ge 1767225660 ]] || fail "$waiting wait"
	has "the log" "$(cat push.log)" 'endpoint="put-http-127.0.0.1-[0-9]+" outcome=later waiting=[0-9]+ reason="[^"]*connect'
	echo 503 >rec/mode
	receiver_run
	sleep 1
	echo "slow 50" >rec/mode
	until_true 90 all_sent || fail "not all are sent: $(cat $(state_file) push.log)"
	until_true 20 eval "! failing" || fail "it says that it fails: $(cat $(state_file))"
	has "the log" "$(cat push.log)" 'outcome=resumed'
	follow_end
	is_whole_and_in_order
	is "twice" "$(paths_taken | sort | uniq -d)" ""
	is "lost or refused" "$(state_of '"\(.lost) \(.refused)"')" "0 0"
}
failing() { [[ $(state_of .failing_since) -gt 0 ]]; }
all_sent() { [[ $(in_spool | grep -c .) == "$(paths_taken | sort -u | grep -c .)" ]]; }
ROW_TIMEOUT=$((600 + OUTAGE_SECONDS)) row "push: an outage: nothing is lost, in order, once" test_outage

# The spool's caps are what bounds an outage: what they remove is counted, and the rest comes.
test_bounded() {
	begin_push
	mkdir -p spool
	receiver_run
	receiver_stop # its port is what counts: another url is another endpoint
	follow --to "put+http://127.0.0.1:$PORT"
	for s in $(seq 0 39); do window_at web 3 "$s"; done
	until_true 20 eval '(($(state_of .waiting) == 40))' || fail "$(cat $(state_file))"
	find spool/web -name '*.pb.gz' | sort | sed -n 1,30p | xargs rm
	until_true 20 eval '(($(state_of .lost) == 30 && $(state_of .waiting) == 10))' || fail "$(cat $(state_file))"
	follow_end
	receiver_run
	follow --to "put+http://127.0.0.1:$PORT"
	until_true 30 took 10 || fail "$(cat push.log)"
	follow_end
	is_whole_and_in_order
}
row "push: what the spool's caps removed before it was sent is counted as lost, the rest comes" test_bounded

# What cannot be read, or is none, is told and holds up nobody: it is one file of one target.
test_odd_files() {
	begin_push
	need_root
	receiver_run
	mkdir -p spool/web/20260101T000009Z-000009-cpu.pb.gz
	window_at web 0 1
	window_at db 0 2
	chmod 600 spool/db/*
	echo garbage >spool/web/20260101T000003Z-000003-cpu.pb.gz
	window_at web 0 5
	window_at web 0 4
	chown -R nobody spool
	chown root spool/db/*
	mkdir -m 700 spool/lost+found
	follow --backlog --to "pyroscope+http://127.0.0.1:$PORT"
	until_true 20 took 3 || fail "$(cat push.log)"
	until_true 10 eval '[[ $(state_of .waiting) == 0 ]]' || fail "$(cat $(state_file))"
	is "given up" "$(sed -n 's/.*file="\([^"]*\)" outcome=given_up.*/\1/p' push.log | sort | xargs)" \
		"db/20260101T000002Z-000002-cpu.pb.gz web/20260101T000003Z-000003-cpu.pb.gz web/20260101T000009Z-000009-cpu.pb.gz"
	is "of the directory" "$(grep -c 'reason="what is in lost+found is not sent: cannot list it: Permission denied"' push.log)" 1
	follow_end
}
row "push: files and directories that cannot be read are told, and hold up nobody" test_odd_files

# Several that fail at once are one failure: it is soon tried again, and then not eight times as often.
test_together() {
	begin_push
	receiver_run
	echo 503 >rec/mode
	for s in 1 2 3 4 5 6 7 8; do window_at "t$s" 0 "$s"; done
	follow --backlog --to "put+http://127.0.0.1:$PORT"
	until_true 20 eval '(($(grep -c . rec/refused) >= 10))' || fail "tries: $(grep -c . rec/refused)"
	is "lines in the log" "$(grep -c outcome=later push.log)" 1
	echo ok >rec/mode
	until_true 60 took 8 || fail "$(cat push.log)"
	follow_end
	is "twice" "$(paths_taken | sort | uniq -d)" ""
}
row "push: eight that fail at once are one failure, and all come" test_together

# Of a file in parts those that were taken are not sent again.
test_parts() {
	begin_push
	receiver_run
	mkdir -p spool/web
	seq 100 | awk '{ print "web;main;f" $1 ";g" $1 " " $1 }' | "$UNFOLD" whole.pb.gz samples count
	cp whole.pb.gz spool/web/20260101T000000Z-000000-cpu.pb.gz
	echo second >rec/mode
	follow --backlog --to "pyroscope+http://127.0.0.1:$PORT" --max-samples 40
	until_true 40 eval '[[ $(state_of .sent) == 1 ]]' || fail "$(cat push.log)"
	follow_end
	[[ -s rec/refused ]] || fail "nothing was refused"
	is "parts" "$(times_taken)" 3
	are_taken_as "$ROW/whole.pb.gz"
}
# What was taken obeys Pyroscope's rules (no part is a copy of another one in its eyes), and adds up to this profile.
are_taken_as() { # FILE
	local body
	push_modules
	rm -rf as
	mkdir as
	for body in rec/*.body; do
		cp "$body" as/
		jq -r --argjson n "$((10#$(basename "$body" .body)))" 'select(.n == $n) | "method \(.method)\npath \(.path)\ntype \(.headers."content-type")\nsamples 1000000"' \
			rec/taken >"as/$(basename "$body" .body).head"
	done
	judged pyroscope as
	is "the sums" "$(judged_sums)" "$(spool_sums pyroscope "$1")"
}
row "push: parts of a file that were taken are not sent again" test_parts

# At least once, whenever it is killed; and what is noted as sent is not sent again.
test_killed() {
	begin_push
	receiver_run
	local i pid
	echo "slow 20" >rec/mode
	follow --to "put+http://127.0.0.1:$PORT"
	follow_end
	for s in $(seq 0 59); do window_at web 3 "$s"; window_at db 4 "$s"; done
	for i in $(seq 8); do
		: >push.log
		follow --to "put+http://127.0.0.1:$PORT"
		sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
		for pid in $(pushers); do kill -KILL "$pid" 2>/dev/null || :; done
		wait "$FOLLOW" || :
	done
	: >push.log
	follow --to "put+http://127.0.0.1:$PORT"
	until_true 60 all_sent || fail "not all are sent: $(cat push.log)"
	sleep 1
	follow_end
	is "what has not come" "$(in_spool | comm -23 - <(paths_taken | sort -u))" ""
	local twice
	twice=$(paths_taken | sort | uniq -d | grep -c . || :)
	((twice <= 8 * 8)) || fail "$twice came twice, with eight kills" # eight are under way at most
	paths_taken | awk -F/ '!seen[$0]++ { if ($3 <= last[$2]) print; last[$2] = $3 }' >disorder
	is "out of order" "$(cat disorder)" ""
}
row "push: killed at any moment, each file comes, in order" test_killed

# --- endpoints of an administrator

test_endpoints() {
	begin_push
	need_root
	receiver_run
	mkdir -m 700 push.d spool
	mkdir store
	chown nobody store
	printf 's3cret\n' >push.d/token
	chmod 600 push.d/token
	printf 'url = put+http://127.0.0.1:%s\ntoken_file = %s\nevents = cpu\n' "$PORT" "$ROW/push.d/token" >push.d/store.conf
	printf 'url = put+http://127.0.0.1:1\n' >push.d/dead.conf
	printf 'url = file://%s\n' "$ROW/store" >push.d/copy.conf
	chown nobody spool
	"${PUSH[@]}" --follow --endpoints "$ROW/push.d" "$ROW/spool" >push.out 2>&1 &
	FOLLOW=$!
	until_true 10 eval '(($(pushers | grep -c .) == 7))' || fail "processes: $(pushers) $(cat push.out push.log)"
	until_true 10 follows 3 || fail "they do not begin: $(cat push.out push.log)"
	for s in $(seq 5); do window_at web 0 "$s"; done
	window_at web 1 1 7 offcpu
	until_true 20 took 5 || fail "$(cat push.log)"
	until_true 20 eval '(($(find store -name "*.pb.gz" | grep -c .) == 6))' || fail "$(cat push.log)"
	until_true 10 eval '(($(state_of .waiting dead) == 6))' || fail "$(cat spool/.push/dead.json)"
	is "events that it was not to have" "$(paths_taken | grep -c offcpu || :)" 0
	for pid in $(pushers); do
		is "the user of $pid" "$(awk '/^Uid:/ {print $2, $3}' "/proc/$pid/status")" "65534 65534"
		is "the capabilities of $pid" "$(awk '/^Cap(Eff|Prm):/ {print $2}' "/proc/$pid/status" | sort -u)" 0000000000000000
		[[ $pid == "$FOLLOW" ]] || is "seccomp of $pid" "$(awk '/^Seccomp:/ {print $2}' "/proc/$pid/status")" 2
		! setpriv --reuid 65534 --regid 65534 --clear-groups cat "/proc/$pid/environ" >/dev/null 2>&1 || fail "its user may look into $pid"
	done
	# one endpoint's process dies: it is there again, and the others did not notice
	pid=$(pgrep -P "$FOLLOW" | tail -n 1)
	kill -KILL "$pid"
	until_true 20 eval '(($(pushers | grep -c .) == 7)) && ! kill -0 '"$pid"' 2>/dev/null' || fail "it is not there again: $(cat push.log)"
	window_at web 2 1
	until_true 20 took 6 || fail "$(cat push.log)"
	! grep -rq s3cret push.log push.out spool || fail "the token is told"
	follow_end
}
row "push: each endpoint has a process without privilege; one that is dead holds up none" test_endpoints

test_no_endpoints() {
	begin_push
	mkdir spool push.d
	is "the status" "$("${PUSH[@]}" --follow --endpoints "$ROW/push.d" spool 2>said >&2; echo $?)" 3
	has "what it says" "$(cat said)" "there is nobody to push to: put a NAME.conf .* into $ROW/push.d"
	echo 'urk = x' >push.d/a.conf
	is "the status" "$("${PUSH[@]}" --follow --endpoints "$ROW/push.d" spool 2>said >&2; echo $?)" 2
	has "what it says" "$(cat said)" "push.d: a.conf, line 1: no such key: urk; they are url"
	is "the status" "$("${PUSH[@]}" --follow --to put+http://127.0.0.1:1 "$ROW/no-such" 2>said >&2; echo $?)" 1
	has "what it says" "$(cat said)" "cannot open the spool $ROW/no-such: No such file or directory"
}
row "push: without endpoints, with a wrong one, without a spool it says so" test_no_endpoints

# What doctor says of endpoints, which are in /etc/pillion: another one, for the time.
doctor_says() {
	unshare --mount --propagation private sh -c 'mkdir -p /etc/pillion && mount --bind "$0" /etc/pillion && exec "$1" doctor' \
		"$ROW/etc" "$LAB/bin/pillion" 2>&1 | grep -A 1 ' push ' || :
}
test_doctor() {
	begin_push
	need_root
	mkdir -p etc/push.d spool
	echo "spool = $ROW/spool" >etc/pillion.conf
	has "without endpoints" "$(doctor_says)" "ok .* to nobody: profiles stay in the spool"
	echo 'url = put+http://127.0.0.1:1' >etc/push.d/put-http-127.0.0.1-1.conf
	has "with nobody who serves it" "$(doctor_says)" "warning .* nobody pushes to put-http-127.0.0.1-1 \(put\+http://127.0.0.1:1\).*systemctl enable --now pillion-push"
	follow --to put+http://127.0.0.1:1
	until_true 10 test -e spool/.push/put-http-127.0.0.1-1.json || fail "no status: $(cat push.log)"
	has "before there is anything" "$(doctor_says)" "ok .* 1 endpoint, 0 profiles taken"
	window_at web 0 1
	until_true 10 failing || fail "$(cat $(state_file))"
	follow_end
	sed -i 's/"failing_since":\([0-9]*\)/"failing_since":1/' spool/.push/*.json
	has "when it fails" "$(doctor_says)" "warning .* put-http-127.0.0.1-1 has taken nothing for [0-9]+ s, and 1 wait: .*onnect"
	echo nonsense >etc/push.d/other.conf
	has "a mistake" "$(doctor_says)" "broken .* other.conf, line 1: not of the form key = value"
}
row "push: doctor says of each endpoint how it is going" test_doctor

# --- in parts

test_large() { # FORM
	begin_push
	receiver_run
	mkdir -p spool/web
	seq 5000 | awk '{ print "web;main;f" $1 ";g" $1 " " $1 }' | "$UNFOLD" whole.pb.gz samples count
	cp whole.pb.gz spool/web/20260101T000000Z-000000-cpu.pb.gz
	echo "large 40000" >rec/mode # bytes, as they come
	"${PUSH[@]}" --to "$1+http://127.0.0.1:$PORT" spool >said 2>&1 || fail "$(cat said)"
	(($(times_taken) > 1)) || fail "$(times_taken) requests"
	[[ -s rec/refused ]] || fail "nothing was too large"
	find rec -name '*.body' -size +40000c | grep . && fail "one is too large" || :
	are_taken_as "$ROW/whole.pb.gz"
}
row "push: what a server finds too large comes in parts" test_large pyroscope

# --- a service that is pushed from: it notices nothing, and tells of it

test_service() {
	begin_run
	begin_push
	need curl
	service_run
	follow --to put+http://127.0.0.1:1
	PILLION_CONTROL=$SOCKET "$LAB/bin/pillion" run --budget 5s --window 5s -- "$LAB/bin/burn" 7 >/dev/null
	until_true 20 written burn || fail "no window: $(tail -n 5 service.log)"
	until_true 20 eval '(($(state_of .waiting) >= 2))' || fail "$(cat $(state_file))"
	curl -sS --max-time 10 --unix-socket run/http.sock http://localhost/metrics >metrics
	has "metrics" "$(cat metrics)" 'pillion_push_waiting\{endpoint="put-http-127.0.0.1-1"\} [2-9]'
	has "metrics" "$(cat metrics)" 'pillion_push_failing_seconds\{endpoint="put-http-127.0.0.1-1"\} [1-9]'
	is "losses of the service" "$(grep -E '^pillion_(profiles_failed_total|profiles_dropped_total|spool_removed_files_total) ' metrics | awk '{ n += $2 } END { print n + 0 }')" 0
	curl -sS --max-time 10 --unix-socket run/http.sock http://localhost/ >page
	! grep -q '\.push' page || fail "the page takes it for a target"
	"$LAB/bin/pillion" top spool >said 2>&1 || fail "$(cat said)"
	follow_end
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	end_run
}
row "push: a dead endpoint costs a service nothing, and its metrics tell of it" test_service
