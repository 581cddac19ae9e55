# parked.sh - for the fault suites, which source it: a hook called directly. Whatever is wrong around it, a container starts,
# within the hook's budget, with one clear line in the log. Under `strict` the same faults fail the start with the same sentence.
#
# Most rows call the hook directly: an init parked in a cgroup and namespaces of its own is what a runtime would hand it.
# It becomes its program when released, so that the row sees whether the container ran, and its exit status.
#
#	fault REGEX [WRAPPER...]	the hook (under WRAPPER, a command that runs one) fails with this sentence, and
#					nothing else is wrong; then once more under `strict`
#	lesser REGEX [WRAPPER...]	it profiles with less, and says so (REGEX "": without a word)

lab_install pilliond pillion pillion-hook tools/deny tools/peer targets/burn
ON=io.pillion.profile=on
SLOWEST_MS=5000 # ten times the default budget
V2=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
PERF_V1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)perf_event(,|$)/ {print $2; exit}' /proc/mounts)

# --- one container: settings, state, bundle, init

begin() { # [HOOK-OPTION...]
	need_root
	need jq unshare
	mkdir etc run bundle
	ID=${LAB##*/}-$ROW_NUMBER
	SOCKET=$ROW/run/control.sock
	NEXT=0
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --daemon "$LAB/bin/pilliond"
		--spool "$ROW/spool" --log "$ROW/hook.log" --budget 5s "$@")
	left_list >left.before
	park sh -c "$LAB/bin/burn 0.2 >/dev/null; exit 7"
	bundle
	state
}

# The init: `sh` as PID 1, in cgroups of its own, which becomes the program when something arrives at its gate.
park() { # PROGRAM ARG... - sets INIT, its pid here, and PARKED, whom to wait for
	local name=init$((++NEXT)) root
	INIT_CGROUPS=()
	for root in $V2 $PERF_V1; do
		mkdir -p "$root$LAB_CGROUP/$ID-$name"
		INIT_CGROUPS+=("$root$LAB_CGROUP/$ID-$name")
	done
	GATE=$ROW/gate.$name
	mkfifo "$GATE"
	unshare --fork --pid --kill-child --mount sh -c 'gate=$1 cgroups=$2; shift 2
		for cgroup in $cgroups; do echo 0 >"$cgroup/cgroup.procs"; done
		: >"$gate.parked"; read -r _ <"$gate"; exec "$@"' sh "$GATE" "${INIT_CGROUPS[*]}" "$@" </dev/null &
	PARKED=$!
	until_true 10 test -e "$GATE.parked" || fail "no init"
	INIT=$(child_of $PARKED)
}

child_of() { # PID - its first child; 1 when it has none
	local child=
	{ read -r child _ <"/proc/$1/task/$1/children" || :; } 2>/dev/null # a line without end
	[[ -n $child ]] && echo "$child"
}

bundle() { # [JQ] - bundle/config.json
	jq -n '{ociVersion: "1.0.2", root: {path: "/"}, process: {args: ["sh"]}} | '"${1:-.}" >bundle/config.json
}

state() { # [JQ] - the state that `call` hands over
	jq -n --arg id "$ID" --arg bundle "$ROW/bundle" --argjson pid "$INIT" '{ociVersion: "1.0.2", id: $id,
		status: "creating", pid: $pid, bundle: $bundle, annotations: {"io.pillion.profile": "on"}} | '"${1:-.}" >state
}

# --- a call of the hook

call() { # [WRAPPER...] - sets STATUS and MS
	call_with "${INPUT:-state}" "$@"
}

call_with() { # INPUT [WRAPPER...]
	local input=$1 start=${EPOCHREALTIME/./}
	shift
	: >hook.log
	STATUS=0
	"$@" "${HOOK_ARGS[@]}" <"$input" >hook.out 2>hook.err || STATUS=$?
	MS=$(((${EPOCHREALTIME/./} - start) / 1000))
	((MS < SLOWEST_MS)) || fail "the hook took $MS ms"
	is "the hook's standard output" "$(cat hook.out)" ""
}

strictly() {
	if [[ $1 == on ]]; then echo "strict = yes" >etc/policy.conf; else rm -f etc/policy.conf; fi
}

said() { # STATUS OUTCOME REGEX END - exactly one line in the log and one on stderr, with one and the same sentence
	local line sentence
	is "the hook's exit status" $STATUS "$1"
	line=$(cat hook.log)
	[[ $(wc -l <hook.log) == 1 ]] || fail "not one line in the log: $line"
	has "the log" "$line" "prog=pillion-hook .* outcome=$2 reason=\"$3"
	sentence=${line#*reason=\"}
	is "stderr" "$(cat hook.err)" "pillion-hook: ${sentence%\"}$4"
}

unprofiled() { # REGEX
	said 0 unprofiled "$1" "; the container starts without a profile"
}

refused() { # REGEX
	said 1 refused "$1" " (policy: strict)"
}

armed() { # REGEX - with that note; "": without one
	is "the hook's exit status" $STATUS 0
	is "stderr" "$(cat hook.err)" ""
	if [[ -z $1 ]]; then
		is "the log" "$(cat hook.log)" ""
	else
		[[ $(wc -l <hook.log) == 1 ]] || fail "not one line in the log: $(cat hook.log)"
		has "the log" "$(cat hook.log)" "outcome=armed .*notes=\"[^\"]*$1"
	fi
}

quiet() { # nothing happened, nothing was said
	is "the hook's exit status" $STATUS 0
	is "stderr" "$(cat hook.err)" ""
	is "the log" "$(cat hook.log 2>/dev/null)" ""
}

# --- the end of a container, and of a row

ran() { # the program runs and its exit status comes back
	[[ -e /proc/$INIT/ns/pid ]] || fail "the init is gone"
	echo >"$GATE"
	ends "the container's exit status" $PARKED 7
}
ends() { # WHAT PID STATUS
	local status=0
	wait "$2" 2>/dev/null || status=$?
	is "$1" $status "$3"
}

gone() { # poststop, and the runtime removes the cgroup
	: >hook.log
	jq -n --arg id "$ID" --arg bundle "$ROW/bundle" '{ociVersion: "1.0.2", id: $id, status: "stopped", pid: 0,
		bundle: $bundle, annotations: {"io.pillion.profile": "on"}}' >stopped
	[[ -n ${NO_POSTSTOP-} ]] || "${HOOK_ARGS[@]}" <stopped || fail "poststop: exit status $?"
	until_true 20 rmdir "${INIT_CGROUPS[@]}" 2>/dev/null || fail "the container's cgroup cannot be removed"
}

# Other suites and other people's containers may run at the same time: ours carry the lab's name.
left_list() { leak_list | grep -F "${LAB##*/}" || :; }
left_none() {
	# TSan's programs take a second to end, and a session removes its cgroup before; its environment is not ours
	! sanitized || find /sys/fs/cgroup -depth -type d -path "*/pillion/session-${LAB##*/}-*" -exec rmdir {} + 2>/dev/null || :
	left_list | grep -vxFf left.before >left.now || return 0
	return 1
}
nothing_left() {
	until_true 20 left_none || fail "left behind: $(cat left.now)"
	[[ ! -e spool ]] || is "unfinished files in the spool" "$(find spool -name '.*' -type f)" ""
}

end() {
	ran
	gone
	[[ -z ${SERVICE-} ]] || stop_service
	[[ -z ${FAKE-} ]] || fake_end
	nothing_left
}

# What the hook's C library calls an error: musl, or glibc where the hook is not static (sanitizers) or there is no musl.
NO_MEMORY="(Out of memory|Cannot allocate memory)"
NO_FILES="(No file descriptors available|Too many open files)"
A_LOOP="(Symbolic link loop|Too many levels)"

fault() { # REGEX [WRAPPER...]
	local sentence=$1
	shift
	call "$@"
	unprofiled "$sentence"
	strictly on
	call "$@"
	refused "$sentence"
	strictly off
	end
	is "profiles" "$(profiles)" ""
}

lesser() { # REGEX [WRAPPER...]
	local note=$1
	shift
	call "$@"
	armed "$note"
	end
	[[ -n $(profiles) ]] || fail "no profile: $(cat service.log)"
	is "profiles" "$(profiles | wc -l)" 1
	[[ -z $note ]] || has "the profile's comments" "$(comments)" "$note"
}

profiles() { find spool -name '*.pb.gz' 2>/dev/null | sort; }
folded() { "$LAB/bin/pillion" report --folded "$(profiles | tail -n 1)"; }
comments() { gunzip -c "$(profiles | tail -n 1)" | tr -c '[:print:]' '\n'; }

# --- services

# INVOCATION_ID, as under systemd: it makes no cgroup /pillion/service, which other tests of ours may be using
service() { # [WRAPPER...] - sets SERVICE
	INVOCATION_ID=x "$@" "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/service.log" \
		--log-level info </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true 10 grep -qs state=ready service.log || fail "no service: $(cat service.log service.out)"
}

stop_service() {
	kill -TERM "$SERVICE"
	ends "the service's exit status" "$SERVICE" 0
	SERVICE=
}

fake() { # MODE - a service that is none
	rm -f fake.out # of the one before
	"$LAB/bin/peer" serve "$SOCKET" "$1" </dev/null >fake.out 2>&1 &
	SERVICE=
	FAKE=$!
	until_true 10 grep -qs ready fake.out || fail "no fake service: $(cat fake.out)"
}

fake_end() {
	kill -KILL "$FAKE"
	wait "$FAKE" 2>/dev/null || :
	FAKE=
}


test_denied() { # SYSCALL ERRNO|kill REGEX
	begin
	service
	fault "$3" "$LAB/bin/deny" "$1" "$2"
}
