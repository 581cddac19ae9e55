# suite_unit - pilliond as a service of the node: what a service manager gives it and hears from it, settings read anew, one
# container of N, the units and where they are put. No systemd runs here: `systemd-socket-activate` hands sockets over, and a
# few lines of Python listen in its place. tests/vm/systemd has the real one.

CPU=io.pillion.profile=cpu@499

# --- a service in a row: ./etc, ./run/control.sock, ./spool, ./log; what a manager would hear of it is in ./heard

begin() {
	need_root
	need python3
	lab_install pilliond pillion pillion-hook targets/burn
	mkdir etc run spool
	chmod 755 .
	SOCKET=$ROW/run/control.sock
	PILLIOND=("$LAB/bin/pilliond" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/log")
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond" --budget 5s --log-level info)
	settings 'log_level = info'
}

# By rename, as editors and configuration management do.
settings() { # LINE...
	printf '%s\n' "$@" >etc/new
	mv etc/new etc/pillion.conf
}

ear() { # [@] - in the manager's place: a line for each message, "PID WORD=VALUE|WORD=VALUE"
	NOTIFY=${1-}$ROW/notify
	python3 - "$NOTIFY" >heard 2>ear.err <<-'PYTHON' &
		import socket, struct, sys
		ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		ear.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
		ear.bind(sys.argv[1].replace("@", "\0", 1))
		open("ear.ready", "w").close()
		while True:
		    text, extra, _, _ = ear.recvmsg(4096, 256)
		    print(struct.unpack("3i", extra[0][2])[0], text.decode().replace("\n", "|"), flush=True)
	PYTHON
	until_true 10 test -e ear.ready || fail "no ear: $(cat ear.err)"
}

heard() { # REGEX [SECONDS]
	until_true "${2:-10}" grep -qE "^$SERVICE $1" heard || fail "not heard: $1: $(cat heard)"
}

# INVOCATION_ID, as under systemd: it makes no cgroup of its own
serve() { # [WRAPPER...] - sets SERVICE
	INVOCATION_ID=x NOTIFY_SOCKET=${NOTIFY-} "$@" "${PILLIOND[@]}" </dev/null >out 2>&1 &
	SERVICE=$!
	until_true 10 grep -qs "state=ready" log || fail "no service: $(cat log out)"
}

stop() {
	local status=0
	kill -TERM "$SERVICE"
	wait "$SERVICE" || status=$?
	is "the service's exit status" $status 0
}

ends() { # WHAT WANTED - the service's exit status
	local status=0
	wait "$SERVICE" || status=$?
	is "$1" $status "$2"
}

hup() { # REGEX - the log's new line
	local lines
	lines=$(wc -l <log)
	kill -HUP "$SERVICE"
	until_true 10 grown "$lines" || fail "nothing in the log"
	has "the log" "$(tail -n +$((lines + 1)) log)" "$1"
}
grown() { (($(wc -l <log) > $1)); }

profiled() { # NAME
	ct_run runc "$1" -a $CPU -- "$LAB/bin/burn" 0.3 >/dev/null
	until_true 20 profile_of "$1" || fail "no profile of $1: $(cat log hook.log)"
}
profile_of() { compgen -G "spool/$1/*.pb.gz" >/dev/null; }

# --- a socket that is handed over

test_activation() {
	local before
	ct_need runc
	need systemd-socket-activate
	begin
	SYSTEMD_LOG_LEVEL=err systemd-socket-activate --seqpacket --fdname=control -l "$SOCKET" "${PILLIOND[@]}" >out 2>&1 &
	SERVICE=$!
	until_true 10 test -S "$SOCKET" || fail "no socket: $(cat out)"
	before=$(stat -c %i "$SOCKET")
	sleep 0.3
	[[ ! -e log ]] || fail "it is started before anybody asks"
	profiled c1
	has "the hook's log" "$(cat hook.log)" 'container=c1 .*outcome=armed'
	has "the log" "$(cat log)" "pid=$SERVICE state=ready"
	is "the socket's inode" "$(stat -c %i "$SOCKET")" "$before"
	stop
	[[ -S $SOCKET ]] || fail "it removed a socket that is not its own"
}

# What is wrong: one sentence, and status 1.
test_no_start() { # SENTENCE [OPTION...] - of systemd-socket-activate
	local sentence=$1
	shift
	need systemd-socket-activate
	begin
	SYSTEMD_LOG_LEVEL=err systemd-socket-activate "$@" -l "$SOCKET" -l "$SOCKET.2" "${PILLIOND[@]}" >out 2>&1 &
	SERVICE=$!
	until_true 10 test -S "$SOCKET.2" || fail "no socket: $(cat out)"
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, int(sys.argv[2])).connect(sys.argv[1])' "$SOCKET" "$TYPE"
	ends "the exit status" 1
	is "stderr" "$(cat out)" "pilliond: $sentence"
	grep -qF "outcome=stopped reason=\"$sentence\"" log || fail "the log: $(cat log)"
}
STREAM=1 SEQPACKET=5

test_elsewhere() {
	need systemd-socket-activate
	begin
	PILLIOND+=(--control "$ROW/run/other.sock")
	SYSTEMD_LOG_LEVEL=err systemd-socket-activate --seqpacket -l "$SOCKET" "${PILLIOND[@]}" >out 2>&1 &
	SERVICE=$!
	until_true 10 test -S "$SOCKET" || fail "no socket: $(cat out)"
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, 5).connect(sys.argv[1])' "$SOCKET"
	until_true 10 grep -qs "the service manager listens at $SOCKET, control is $ROW/run/other.sock" log ||
		fail "not a word: $(cat log out)"
	until_true 10 grep -q state=ready log || fail "it does not serve"
	stop
}

row "a first container starts the service by its socket" test_activation
TYPE=$STREAM row "a socket of another type is handed over" test_no_start \
	"descriptor 4 of the service manager is no listening Unix socket of packets (ListenSequentialPacket=)" --fdname=other:control
TYPE=$SEQPACKET row "two sockets are handed over, and none is the control socket" test_no_start \
	"the service manager hands over 2 sockets, and none has FileDescriptorName=control" --seqpacket --fdname=a:b
row "a socket is handed over where hooks do not look" test_elsewhere

# --- what a manager hears

test_notify() { # [@]
	begin
	ear "${1-}"
	export WATCHDOG_USEC=1000000
	serve
	heard 'READY=1\|STATUS=Ready, [0-9]+ CPUs$'
	heard 'WATCHDOG=1\|STATUS=targets: 0$'
	until_true 20 eval '(($(grep -c WATCHDOG heard) >= 4))' || fail "no sign of life again and again: $(cat heard)"
	stop
	heard 'STOPPING=1\|STATUS='
	is "the first message" "$(head -n 1 heard | cut -d ' ' -f 2 | cut -d '|' -f 1)" READY=1
	is "the last message" "$(tail -n 1 heard | cut -d ' ' -f 2 | cut -d '|' -f 1)" STOPPING=1
	is "whom they are from" "$(cut -d ' ' -f 1 heard | sort -u)" "$SERVICE"
	is "what it gives to its own children" "$(tr '\0' '\n' <out)" ""
}

# A client that has waited for long gets its answer when the manager knows that we are ready.
test_ready_first() {
	need strace systemd-socket-activate
	begin
	ear
	SYSTEMD_LOG_LEVEL=err systemd-socket-activate --seqpacket -l "$SOCKET" -E "NOTIFY_SOCKET=$NOTIFY" -E PATH \
		strace -D -o "$ROW/trace" -e trace=sendto,accept4 "${PILLIOND[@]}" >out 2>&1 &
	SERVICE=$!
	until_true 10 test -S "$SOCKET" || fail "no socket: $(cat out)"
	python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX, 5)
s.connect(sys.argv[1])
time.sleep(3)' "$SOCKET" &
	until_true 10 grep -qs accept4 trace || fail "it accepts nobody: $(cat trace out log)"
	has "the first of both" "$(grep -E 'sendto.*READY|accept4' trace | sed -n 1p)" 'sendto\(.*READY=1'
	stop
}

test_nobody_listens() {
	begin
	NOTIFY=$ROW/nobody
	serve
	has "the log" "$(cat log)" \
		"outcome=no_sd_notify reason=\"cannot speak to the service manager at $ROW/nobody: No such file"
	stop
}

test_told_why() {
	begin
	ear
	: >file
	PILLIOND+=(--spool "$ROW/file")
	INVOCATION_ID=x NOTIFY_SOCKET=$NOTIFY "${PILLIOND[@]}" >out 2>&1 &
	SERVICE=$!
	ends "the exit status" 1
	is "stderr" "$(cat out)" "pilliond: cannot open $ROW/file: Not a directory"
	has "the log" "$(cat log)" "outcome=stopped reason=\"cannot open $ROW/file: Not a directory\""
	heard "STATUS=cannot open $ROW/file: Not a directory"
	is "messages" "$(wc -l <heard)" 1
}

row "a manager hears READY, a watchdog's signs of life, STOPPING" test_notify
row "the same at an abstract address" test_notify @
row "READY is said before the first client is let in" test_ready_first
row "a manager that does not listen" test_nobody_listens
row "a service that cannot start: one sentence, also for the manager" test_told_why

# --- settings read anew

test_reload() {
	ct_need runc
	begin
	ear
	settings 'log_level = warn'
	PILLIOND+=(--spool-age 30d)
	INVOCATION_ID=x NOTIFY_SOCKET=$NOTIFY "${PILLIOND[@]}" >out 2>&1 &
	SERVICE=$!
	heard READY=1
	profiled c1
	is "the log at level warn" "$(cat log)" ""
	settings 'log_level = info' 'spool_age = 1d' # a flag is stronger
	: >>log
	hup 'level=info .*outcome=reloaded changed="log_level" note=""'
	heard 'RELOADING=1\|MONOTONIC_USEC=[0-9]+$'
	heard 'READY=1\|STATUS=Settings read anew$'
	profiled c2
	has "the log at level info" "$(cat log)" 'target=c2 .*state=armed'
	settings 'log_level = info'
	hup 'outcome=reloaded changed="" note=""'
	rm etc/pillion.conf
	kill -HUP "$SERVICE"
	until_true 10 eval '(($(grep -c "READY=1" heard) == 4))' || fail "no end of the third: $(cat heard)"
	is "the log's lines of c3 at the default level" "$(profiled c3 && grep -c target=c3 log || :)" 0
	stop
}

test_trim() {
	local i old
	ct_need runc
	begin
	mkdir spool/old
	for i in 1 2 3 4; do
		old=spool/old/$(date -u -d "-$i hours" +%Y%m%dT%H%M%SZ)-00000$i-cpu.pb.gz
		head -c 1M /dev/zero >"$old"
	done
	serve
	chown -R --reference=spool spool/old # as if it had written them
	settings 'log_level = info' 'spool_size = 3MiB'
	hup 'outcome=reloaded changed="spool_size"'
	is "files before the next write" "$(find spool/old -type f | wc -l)" 4
	profiled c1
	is "files behind it" "$(find spool/old -type f | sed -E 's/.*-0*([0-9])-cpu.*/\1/' | sort | xargs)" "1 2"
	stop
}

test_broken() {
	begin
	ear
	settings 'log_level = info' 'spool_size = 1GiB'
	serve
	settings 'log_level = error' 'spool_size = much'
	hup "level=error .*outcome=settings_kept reason=\"$ROW/etc/pillion.conf, line 2: spool_size: \"much\" is not 1MiB"
	heard "READY=1\|STATUS=Settings kept: $ROW/etc/pillion.conf, line 2: "
	settings 'log_level = info' 'control = /run/elsewhere.sock' # which a flag overrides: nothing has changed
	hup 'level=info .*outcome=reloaded changed="" note=""' # and the level was kept
	stop
}

test_restart_needed() {
	begin
	PILLIOND=("$LAB/bin/pilliond" --etc "$ROW/etc")
	settings 'log_level = info' "control = $SOCKET" "spool = $ROW/spool" "log = $ROW/log"
	serve
	settings 'log_level = debug' "control = $SOCKET.2" "spool = $ROW/spool" "log = $ROW/log"
	hup 'level=warn .*outcome=reloaded changed="log_level" note="control needs a restart"'
	settings 'log_level = debug' "control = $SOCKET.2" "spool = $ROW/spool2" "log = stderr"
	hup 'outcome=reloaded changed="" note="control, spool, log need a restart"'
	[[ -S $SOCKET && ! -e $SOCKET.2 ]] || fail "it has moved"
	stop
}

test_unreadable() {
	begin
	serve
	settings 'log_level = error'
	chmod 600 etc/pillion.conf
	hup "outcome=settings_kept reason=\"cannot open $ROW/etc/pillion.conf: Permission denied \(pilliond reads it as user pillion"
	chmod 644 etc/pillion.conf
	echo 'strict = yes' >etc/policy.conf
	chmod 600 etc/policy.conf # only hooks need it
	settings 'log_level = info' 'spool_age = 1d'
	hup 'outcome=reloaded changed="spool_age"'
	stop
}

test_policy() {
	begin
	echo 'max_rate = fast' >etc/policy.conf
	serve
	has "the log" "$(cat log)" \
		"outcome=policy_unreadable reason=\"$ROW/etc/policy.conf, line 1: max_rate: \"fast\" is not 1 to 100000\""
	settings 'log_level = error'
	hup "outcome=settings_kept reason=\"$ROW/etc/policy.conf, line 1: max_rate"
	echo 'max_rate = 99' >etc/policy.conf
	settings 'log_level = debug'
	hup 'outcome=reloaded changed="log_level"'
	stop
}

row "SIGHUP: the log's level changes, flags stay stronger, a manager hears of it" test_reload
row "SIGHUP: a smaller spool is trimmed at the next write" test_trim
row "SIGHUP: a broken file keeps what was, with file and line" test_broken
row "SIGHUP: what needs a restart is named" test_restart_needed
row "SIGHUP: a file for root alone" test_unreadable
row "SIGHUP: a mistake in the policy is named before a container meets it" test_policy

# --- one container of N

# By their ids, of c0 to c4 the policy takes c2 and c3 (tests/unit/oci/runtime/test_container.c).
test_sampling() { # RUNTIME MODE
	local name
	ct_need "$1"
	begin
	echo 'sample_containers = 2' >etc/policy.conf
	[[ $2 == session ]] || serve
	for name in c0 c1 c2 c3 c4; do
		ct_run "$1" $name -a $CPU -- "$LAB/bin/burn" 0.2 >/dev/null
	done
	until_true 20 profile_of c3 || fail "no profile of c3: $(cat hook.log)"
	is "the profiles" "$(ls spool | grep -vx index.jsonl | xargs)" "c2 c3"
	is "what is said of them" "$(sed -nE 's/.*container=(c[0-9]) .*outcome=armed .*sampled="(.*)" notes.*/\1: \2/p' hook.log | sort)" \
		"$(printf 'c%d: one container of 2\n' 2 3)"
	is "what is said of the others" \
		"$(sed -nE 's/.*level=info .*container=(c[0-9]) .*outcome=unsampled reason="(.*)"/\1: \2/p' hook.log | sort)" \
		"$(printf 'c%d: policy: one container of 2 is profiled\n' 0 1 4)"
	is "lines of the hook" "$(grep -c prog=pillion-hook hook.log)" 5 # a session has the same log, and the same settings
	[[ $2 == session ]] || is "targets of the service" "$(grep -c state=armed log)" 2
	echo 'strict = yes' >>etc/policy.conf # not to be taken is no failure
	ct_run "$1" c0 -a $CPU -- true
	[[ $2 == session ]] || stop
}

row "runc, service: policy takes one container of two, by its id" test_sampling runc service
row "runc, session: policy takes one container of two, by its id" test_sampling runc session

# --- units, and where they are put

make_() { # TARGET VARIABLE... - of the programs that are there
	make --no-print-directory -s -C "$TOP" "$1" B="$B" "${@:2}" >made 2>&1 || fail "make $1: $(cat made)"
}

installed() { # DIR - every file below it, with its mode
	(cd "$1" && find . ! -type d -printf '%m %p\n' | sort -k 2)
}

test_install() { # DESTDIR PREFIX
	begin
	make_ install DESTDIR="$ROW/$1" PREFIX="$2"
	is "what is installed" "$(installed "$ROW/$1$2")" "755 ./bin/pillion
644 ./include/pillion.h
644 ./lib/libpillion.a
777 ./lib/libpillion.so
644 ./lib/libpillion.so.0
644 ./lib/pkgconfig/pillion.pc
644 ./lib/systemd/system/pillion-nri.service
644 ./lib/systemd/system/pillion-push.service
644 ./lib/systemd/system/pilliond.service
644 ./lib/systemd/system/pilliond.socket
755 ./libexec/oci/hooks.d/pillion-hook
777 ./libexec/pillion/libpillion.so
755 ./libexec/pillion/pillion-nri
755 ./libexec/pillion/pillion-opener
755 ./libexec/pillion/pillion-runc
755 ./libexec/pillion/pilliond
644 ./share/bash-completion/completions/pillion
644 ./share/containers/oci/hooks.d/50-pillion.json
$(cd "$TOP" && find LICENSE NEWS NOTICE README.md oci shim profiler hooks -name LICENSE -o -name NEWS -o -name NOTICE -o -name '*.md' -o -name flame.svg -o -path 'profiler/web/monitoring/*' -o -path 'hooks/kubernetes/*/*' |
		sed 's|^|644 ./share/doc/pillion/|' | sort)
644 ./share/fish/vendor_completions.d/pillion.fish
$(printf '644 ./share/man/man1/pillion%s.1\n' -attach -crashes -diff -doctor -events -export -flame -help -inject -install -off -on \
		-ps -push -remap -report -run -symbolize -top -tree -uninstall -version '' | sort)
644 ./share/man/man3/pillion.3
644 ./share/man/man5/pillion.conf.5
644 ./share/man/man8/pillion-hook.8
644 ./share/man/man8/pillion-nri.8
644 ./share/man/man8/pillion-runc.8
644 ./share/man/man8/pilliond.8
644 ./share/zsh/vendor-completions/_pillion"
	is "what is elsewhere" "$(find "$ROW/$1" -type f ! -path "$ROW/$1$2/*")" ""
	has "the unit" "$(cat "$ROW/$1$2/lib/systemd/system/pilliond.service")" $'\n'"ExecStart=$2/libexec/pillion/pilliond"$'\n'
	make_ install DESTDIR="$ROW/$1" PREFIX="$2" # again, over what is there
	make_ uninstall DESTDIR="$ROW/$1" PREFIX="$2"
	is "what stays" "$(find "$ROW/$1" -type f)" ""
	make_ uninstall DESTDIR="$ROW/$1" PREFIX="$2" # nothing there is no failure
}

test_verify() {
	local units=$ROW/usr/lib/systemd/system
	need systemd-analyze
	begin
	make_ install DESTDIR=/. PREFIX="$ROW/usr" # a DESTDIR that is none: no user, no daemon-reload
	SYSTEMD_UNIT_PATH=$units: systemd-analyze verify "$units/pilliond.service" "$units/pilliond.socket" "$units/pillion-push.service" >said 2>&1 ||
		fail "systemd-analyze verify: $(cat said)"
	is "what it says" "$(cat said)" ""
	systemd-analyze security --offline=true --threshold=28 "$units/pilliond.service" >said 2>&1 ||
		fail "systemd-analyze security: $(tail -n 1 said)"
	systemd-analyze security --offline=true --threshold=35 "$units/pillion-push.service" >said 2>&1 ||
		fail "systemd-analyze security of pillion-push: $(tail -n 1 said)"
	has "the control socket" "$(cat "$units/pilliond.socket")" \
		$'\nListenSequentialPacket=/run/pillion/control.sock\n.*\nSocketGroup=pillion\nSocketMode=0660\n'
}

row "make install and uninstall below DESTDIR" test_install image /usr
row "make install and uninstall below another PREFIX" test_install image /opt/pillion
row "the units are whole, and bound what they can" test_verify
