# suite_faults_host - a kernel that refuses, memory and disks that are full, odd inheritances, what a service is told, and the
# most important faults in real containers. How a row is made: parked.sh.

. "$TOP/tests/integration/parked.sh"
lab_install tools/batch

# --- refusals of the kernel

test_less() { # SYSCALL ERRNO REGEX
	begin
	service
	lesser "$3" "$LAB/bin/deny" "$1" "$2"
}

test_no_tree() {
	begin
	service
	lesser "no names of functions; cannot copy the mount tree at /: Operation not permitted" \
		"$LAB/bin/deny" open_tree EPERM
	[[ $(folded) == *burn* ]] || fail "no module: $(folded)"
	[[ $(folded) != *burn_loop* ]] || fail "a name without a tree"
}

test_no_perfmon() {
	need capsh
	(($(cat /proc/sys/kernel/perf_event_paranoid) > 0)) || skip "perf_event_paranoid allows everybody everything"
	begin
	service
	fault "perf_event_open: kernel.perf_event_paranoid is [0-9]+ and this process has no CAP_PERFMON" \
		capsh --drop=cap_perfmon -- -c 'exec "$@"' sh
}

test_no_close_range() { # ERRNO
	local session
	begin
	call "$LAB/bin/deny" close_range "$1" "$LAB/bin/peer" inherit 500
	armed ""
	session=$(sessions)
	is "sessions" "$(wc -w <<<"$session")" 1
	(($(find "/proc/$session/fd" -mindepth 1 | wc -l) < 200)) || fail "it holds $(ls "/proc/$session/fd" | wc -l) descriptors"
	end
}

test_session_denied() { # SYSCALL ERRNO REGEX
	begin
	fault "$3" "$LAB/bin/deny" "$1" "$2"
}

FORBIDDEN='a seccomp filter or security module forbids perf_event_open; let it through, in a container by --security-opt seccomp=FILE'
BECAUSE='although capabilities and perf_event_paranoid \(-?[0-9]+\) allow it: a seccomp filter or security module refused'
row "perf_event_open: EPERM" test_denied perf_event_open EPERM "perf_event_open: $FORBIDDEN"
row "perf_event_open: EACCES" test_denied perf_event_open EACCES "perf_event_open: Permission denied $BECAUSE"
row "perf_event_open: ENOSYS" test_denied perf_event_open ENOSYS "perf_event_open: a seccomp filter hides perf_event_open"
row "perf_event_open: EMFILE" test_denied perf_event_open EMFILE \
	'perf_event_open: out of file descriptors \(RLIMIT_NOFILE is [0-9]+\)'
row "perf_event_open: ENFILE" test_denied perf_event_open ENFILE \
	'perf_event_open: the host is out of file descriptors \(fs.file-max\)'
row "perf_event_open: ENOENT" test_denied perf_event_open ENOENT "perf_event_open: No such file or directory"
row "perf_event_open: no CAP_PERFMON" test_no_perfmon
row "perf_event_open: EPERM in a session" test_session_denied perf_event_open EPERM \
	"refused: ring on a CPU: $FORBIDDEN"
row "open_tree is refused: a profile without names, and a note in it" test_no_tree
row "setns is refused" test_denied setns EPERM "cannot join the container's pid namespace: Operation not permitted"
row "pidfd_open does not exist" test_denied pidfd_open ENOSYS \
	"cannot look at the container's init \(pid [0-9]+\): Function not implemented"
row "mmap is refused" test_denied mmap ENOMEM "no memory for the reader: $NO_MEMORY"
row "fork is refused" test_denied clone,clone3,fork,vfork EAGAIN "cannot fork the reader: Resource temporarily unavailable"
row "no more sockets" test_denied socket EMFILE "cannot make a socket: $NO_FILES"
row "nothing can be sent" test_denied sendmsg EPERM "no word to the opener's second process: Operation not permitted"
row "clone3 does not exist" test_less clone3 ENOSYS ""
row "close_range does not exist: a session holds nothing of the caller's all the same" test_no_close_range ENOSYS
row "close_range is refused by a filter: the same" test_no_close_range EPERM
row "mount_setattr does not exist" test_less mount_setattr ENOSYS ""

# --- memory that may be locked

# perf_event_mlock_kb per CPU and user is granted to everybody: a first service of root uses that up.
mlock_used_up() {
	need capsh
	(($(cat /proc/sys/kernel/perf_event_mlock_kb) <= 516)) || skip "perf_event_mlock_kb has been raised"
	(($(cat /proc/sys/kernel/perf_event_paranoid) >= 0)) || skip "perf_event_paranoid is -1: no limit"
	mkdir other
	INVOCATION_ID=x "$LAB/bin/pilliond" --control "$ROW/other/sock" --spool "$ROW/other/spool" --log "$ROW/other/log" \
		--log-level info &
	OTHER=$!
	until_true 10 grep -qs state=ready other/log || fail "no other service: $(cat other/log)"
}
other_end() {
	kill "$OTHER"
	ends "the other service's exit status" "$OTHER" 0
}

NO_LOCK=(capsh --drop=cap_ipc_lock -- -c 'exec "$@"' sh)
SMALL_RINGS=(prlimit --memlock=$(($(nproc --all) * 40960)) "${NO_LOCK[@]}")
NO_RING=(prlimit --memlock=4096 "${NO_LOCK[@]}")

test_small_rings() {
	begin
	mlock_used_up
	service "${SMALL_RINGS[@]}"
	has "the service's log" "$(cat service.log)" 'rings of [0-9]+ KiB instead of 512 KiB per CPU: locked-memory limit'
	call
	armed ""
	other_end
	end
	has "the profile's comments" "$(comments)" "rings of [0-9]+ KiB instead of 512 KiB per CPU: locked-memory limit"
}

NO_RINGS='cannot map a ring of 32 KiB per CPU: the locked-memory limit \(ulimit -l, kernel.perf_event_mlock_kb\) is too small'
test_no_rings() {
	begin
	mlock_used_up
	is "the service's exit status" "$(INVOCATION_ID=x status_of "${NO_RING[@]}" "$LAB/bin/pilliond" --control "$SOCKET" \
		--spool "$ROW/spool" --log "$ROW/service.log" 2>service.err)" 1
	has "the service's log" "$(cat service.log)" "reason=\"$NO_RINGS"
	has "the service's stderr" "$(cat service.err)" "pilliond: $NO_RINGS"
	is "lines of the service's log" "$(wc -l <service.log)" 1
	rm -rf run spool
	mkdir run
	call "${NO_RING[@]}"
	unprofiled "refused: $NO_RINGS"
	strictly on
	call "${NO_RING[@]}"
	refused "refused: $NO_RINGS"
	strictly off
	other_end
	end
}

row "rings over the memlock allowance are smaller, and the profile says so" test_small_rings
row "no ring at all within the memlock allowance, as a service and in a session" test_no_rings

# --- places that cannot be written

mounts_changed() { # COMMANDS - sets UNDER, a wrapper with a mount namespace of its own
	UNDER=(unshare --mount sh -c "set -e; $1"'; exec "$@"' sh)
}

READ_ONLY='awk "\$3 ~ /^cgroup2?\$/ {print \$2}" /proc/mounts | while read -r at; do mount -o remount,bind,ro "$at"; done'

test_read_only_cgroups() {
	begin
	mounts_changed "$READ_ONLY"
	fault "cannot start a session: cannot make the cgroup pillion/session-$ID@[0-9]+: Read-only file system" "${UNDER[@]}"
}

test_service_read_only_cgroups() {
	begin
	mounts_changed "$READ_ONLY"
	"${UNDER[@]}" "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info &
	SERVICE=$!
	until_true 10 grep -qs state=ready service.log || fail "no service: $(cat service.log)"
	has "its log" "$(cat service.log)" \
		'outcome=no_own_cgroup reason="cannot (make|enter) the cgroup pillion/service: Read-only file system"'
	lesser ""
}

test_full_disk() {
	begin
	mkdir spool
	mount -t tmpfs -o size=64k tmpfs spool
	left_list >left.before
	service
	until ! head -c 4096 /dev/zero >>spool/ballast; do :; done 2>/dev/null
	call
	armed ""
	ran
	gone
	until_true 10 grep -q outcome=lost service.log || fail "not a word: $(cat service.log)"
	is "the service's word on it" "$(grep -c 'outcome=lost .*is lost: cannot write to the spool: No space left on device"' service.log)" 1
	is "files in the spool" "$(find spool -type f ! -name ballast)" ""
	rm spool/ballast
	park sh -c "$LAB/bin/burn 0.2 >/dev/null; exit 7"
	ID+=.later
	state
	lesser ""
	umount spool
}

row "cgroups cannot be written: no session" test_read_only_cgroups
row "cgroups cannot be written: a service goes on without one of its own" test_service_read_only_cgroups
row "the disk is full while spooling: the service says so, and the next profile is written" test_full_disk

# --- what a hook may inherit

test_kill_switch() {
	begin --no-such-option
	: >etc/off
	echo "colour = red" >etc/pillion.conf
	strictly on
	call
	quiet
	rm etc/off
	call
	is "the exit status without the switch" $STATUS 1
	rm etc/*.conf
	unset 'HOOK_ARGS[-1]'
	end
}

test_closed_stdio() {
	begin
	service
	: >hook.log
	"${HOOK_ARGS[@]}" <state >&- 2>&- || fail "exit status $?"
	is "the log" "$(cat hook.log)" ""
	is "targets" "$(grep -c state=armed service.log)" 1
	"${HOOK_ARGS[@]}" <&- >&- 2>&- || fail "exit status $?"
	has "the log" "$(cat hook.log)" 'reason="state: empty"'
	end
	is "profiles" "$(profiles | wc -l)" 1
}

test_bad_settings() {
	begin
	echo "colour = red" >etc/pillion.conf
	fault "$ROW/etc/pillion.conf, line 1: no such option: colour"
}

test_bad_policy() {
	begin
	echo "strict = perhaps" >etc/policy.conf
	call
	unprofiled "$ROW/etc/policy.conf, line 1: strict: \"perhaps\" is not 1 or 0"
	end
}

test_under() { # WRAPPER...
	begin
	service
	lesser "" "$@"
}

test_session_under() { # WRAPPER...
	begin
	lesser "" "$@"
}

test_session_batch() {
	local session
	begin
	call chrt --batch 0
	armed ""
	session=$(sessions)
	is "sessions" "$(wc -w <<<"$session")" 1
	is "its scheduling policy" "$(cut -d ' ' -f 41 "/proc/$session/stat")" 0
	end
}

test_many_fds() { # 20,000, or as many as this host allows
	local n=20000 most
	most=$(ulimit -Hn)
	[[ $most == unlimited ]] || ((most > n + 100)) || n=$((most - 100))
	((n > 5000)) || skip "at most $most descriptors"
	test_under "$LAB/bin/peer" inherit $n
}

test_no_proc() { # service|session
	begin
	[[ $1 == session ]] || service
	mounts_changed "mount -t tmpfs tmpfs /proc"
	fault "cannot look at the container's init \(pid $INIT\): /proc is not mounted" "${UNDER[@]}"
}

# crun fails a start whose state it could not write.
test_late_state() { # FILE LINE - in etc/: why the hook needs none
	begin
	echo "$2" >"etc/$1"
	mkfifo late
	{
		trap '' PIPE
		sleep 0.2
		cat state || echo "cat: exit status $?" >broken
	} >late &
	INPUT=late call
	wait $!
	[[ ! -e broken ]] || fail "the runtime could not write the state: $(cat broken)"
	rm "etc/$1"
	: >hook.err
	end
}

row "the kill switch is looked at before anything else" test_kill_switch
row "the kill switch, and a runtime that writes the state late" test_late_state off ""
row "settings that make no sense, and a runtime that writes the state late" test_late_state pillion.conf "colour = red"
row "settings that make no sense" test_bad_settings
row "a policy that makes no sense" test_bad_policy
row "stdin, stdout and stderr are closed" test_closed_stdio
row "20,000 inherited descriptors" test_many_fds
row "RLIMIT_NOFILE is 16" test_under prlimit --nofile=16:16
row "RLIMIT_NPROC is 1" test_under prlimit --nproc=1:1
test_session_alone() { # one process of its user and no more, and nobody who may raise that: a session is several
	begin
	call prlimit --nproc=1:1
	sed -i '/outcome=no_user_names/d' hook.log
	unprofiled "refused: cannot fork the exporter: Resource temporarily unavailable"
	end
}
row "RLIMIT_NPROC is 1, without a service" test_session_alone
row "the runtime runs as a batch: a session does not" test_session_batch
row "signals are ignored and blocked" test_under env --ignore-signal --block-signal
mounts_changed "mount -t proc -o hidepid=2 proc /proc"
row "/proc hides processes" test_under "${UNDER[@]}"
row "/proc hides processes, without a service" test_session_under "${UNDER[@]}"
row "there is no /proc, with a service" test_no_proc service
row "there is no /proc, without a service" test_no_proc session

# musl's sendmsg(2) refuses more than 252 descriptors.
test_batch() { is "a full batch" "$("$LAB/bin/batch")" "ok 253"; }
row "the hook's C library: a batch of 253 descriptors arrives whole" test_batch

# --- strict is the administrator's

test_tenant_strict() {
	begin --daemon "$ROW/none"
	state '.annotations["io.pillion.strict"] = "yes"'
	bundle '.process.env = ["PILLION_STRICT=1"] | .annotations["io.pillion.strict"] = "yes"'
	call env PILLION_STRICT=1
	unprofiled "cannot start a session"
	echo "strict = yes" >etc/pillion.conf
	call
	unprofiled "$ROW/etc/pillion.conf, line 1: no such option: strict"
	rm etc/pillion.conf
	end
}

row "neither annotation nor environment nor pillion.conf can set strict" test_tenant_strict

# --- what a service is told

test_call() { # MODE ANSWER
	begin
	service
	has "the answer" "$("$LAB/bin/peer" call "$SOCKET" "$1")" "^$2$"
	has "the service's log" "$(cat service.log)" "peer=hook outcome=refused reason=\"${2#refused: }\""
	lesser ""
}

test_leave() {
	begin
	service
	"$LAB/bin/peer" call "$SOCKET" leave
	until_true 10 grep -q 'target=peer outcome=unprofiled reason="the hook went away before it was armed"' service.log ||
		fail "not a word: $(cat service.log)"
	lesser ""
}

test_stranger() {
	begin
	service
	chmod 777 run "$SOCKET"
	has "the answer" "$("$LAB/bin/peer" call "$SOCKET" stranger)" "^refused: user 65534 may neither register targets nor list them"
	chmod 660 "$SOCKET"
	lesser ""
}

test_crowd() {
	begin
	service
	"$LAB/bin/peer" crowd "$SOCKET" 200 >crowd &
	until_true 20 test -s crowd || fail "no end of the crowd"
	is "what the crowd got" "$(cat crowd)" "64 accepted, 136 refused: pilliond has 64 connections open already"
	call
	unprofiled "refused: pilliond has 64 connections open already"
	kill %%
	until_true 10 recovered || fail "it does not recover"
	armed ""
	end
}

recovered() {
	call
	[[ ! -s hook.err ]]
}

test_patience() { # connections that say nothing are not kept for ever
	begin
	service
	"$LAB/bin/peer" crowd "$SOCKET" 70 >crowd &
	until_true 20 test -s crowd || fail "no end of the crowd"
	until_true 30 recovered || fail "it does not recover"
	armed ""
	kill %%
	end
}

row "half a message" test_call half "refused: the peer does not speak pillion's protocol"
row "a message that is but a head" test_call empty "refused: message type 1 has a wrong size .*"
row "garbage on the control socket" test_call garbage "refused: the peer does not speak pillion's protocol"
row "a hook of the next version" test_call version "refused: the peer speaks protocol version [0-9]+, we speak .*"
row "events before a target" test_call unasked "refused: message type [0-9]+ was not expected here"
row "descriptors that are no perf events" test_call files "refused: .*a descriptor that is no perf event: .*"
row "a file in place of the socket of a file opener" test_call private "refused: what is to open files is no Unix socket of packets"
row "a hook that leaves in the middle" test_leave
row "a peer that is not root" test_stranger
row "200 connections that say nothing: refused in a sentence, then all is well" test_crowd
row "connections that say nothing are closed after a while" test_patience

# --- real containers

real() { # ETC-LINE - settings for a hook of a real runtime
	mkdir etc run
	left_list >left.before
	SOCKET=$ROW/run/control.sock
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --daemon "$LAB/bin/pilliond"
		--spool "$ROW/spool" --log "$ROW/hook.log" --budget 2s)
	leak_mark
}

# It runs all the same: output, exit status, and one line in the log.
real_run() { # RUNTIME REGEX
	local status=0
	ct_run "$1" c1 -a $ON -- sh -c 'echo out; exit 7' >out || status=$?
	is "the exit status" $status 7
	is "the output" "$(cat out)" out
	[[ $(wc -l <hook.log) == 1 ]] || fail "not one line in the log: $(cat hook.log)"
	has "the log" "$(cat hook.log)" "outcome=unprofiled reason=\"$2"
}

test_real_no_service() { # RUNTIME
	ct_need "$1"
	real
	HOOK_ARGS+=(--daemon "$ROW/none")
	real_run "$1" "cannot start a session: cannot run $ROW/none"
	nothing_left
}

test_real_fake() { # RUNTIME MODE REGEX
	ct_need "$1"
	real
	fake "$2"
	real_run "$1" "$3"
	fake_end
	nothing_left
}

test_real_denied() { # RUNTIME
	ct_need "$1"
	real
	service
	HOOK_ARGS=("$LAB/bin/deny" perf_event_open EPERM "${HOOK_ARGS[@]}")
	real_run "$1" "perf_event_open: $FORBIDDEN"
	stop_service
	nothing_left
}

test_real_bad_annotation() { # RUNTIME
	ct_need "$1"
	real
	ct_run "$1" c1 -a io.pillion.profile=moon -- true
	has "the log" "$(cat hook.log)" 'reason="annotation io.pillion.profile: events, column 1: no event'
	nothing_left
}

test_real_strict() { # RUNTIME
	local status=0
	ct_need "$1"
	real
	echo "strict = yes" >etc/policy.conf
	HOOK_ARGS+=(--daemon "$ROW/none")
	ct_run "$1" c1 -a $ON -v "$ROW:/volume" -- touch /volume/ran >out 2>&1 || status=$?
	((status)) || fail "the container was started"
	[[ ! -e ran ]] || fail "its program ran"
	has "what the user sees" "$(cat out)" \
		"pillion-hook: cannot start a session: cannot run $ROW/none: No such file or directory \(policy: strict\)"
	has "the log" "$(cat hook.log)" "outcome=refused reason=\"cannot start a session: cannot run $ROW/none"
	rm etc/policy.conf
	ct_run "$1" c2 -a $ON -e PILLION_STRICT=1 -a io.pillion.strict=yes -v "$ROW:/volume" -- touch /volume/ran
	[[ -e ran ]] || fail "without strict it did not run"
	nothing_left
}

for runtime in podman-runc runc; do
	row "$runtime: no service and no daemon" test_real_no_service $runtime
	row "$runtime: a service that stays silent" test_real_fake $runtime silent "$SILENT"
	row "$runtime: a service that hangs up" test_real_fake $runtime hangup-2 "the peer went away in the middle"
	row "$runtime: perf_event_open is refused" test_real_denied $runtime
	row "$runtime: an unknown event" test_real_bad_annotation $runtime
	row "$runtime: strict fails the start with the sentence, and only the administrator sets it" test_real_strict $runtime
done
