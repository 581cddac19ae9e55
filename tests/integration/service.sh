# service.sh - for the suites of a service that runs for long, which source it: a service, containers that it profiles, what it
# says of them, and what became of one that minds its own business.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-hook targets/sleeper
NAMES=io.pillion.profile
V2=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)

# --- a service, containers that it profiles, and what it says of them

begin_service() { # [HOOK OPTION...]
	begin_run
	need jq go
	mkdir -p etc
	echo 'budget = 5s' >etc/pillion.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond" "$@")
	PS=("$LAB/bin/pillion" ps --control "$SOCKET")
	service_run
}
end_service() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	end_run
}

ask() { # JQ-FILTER - of the list
	"${PS[@]}" --json >list.json || fail "no list"
	jq -r "$1" list.json
}
of() { # NAME JQ-FILTER - of one target, by name or id
	ask ".[] | select(.name == \"$1\" or .id == \"$1\") | $2"
}
says() { # NAME JQ-FILTER WANTED
	[[ $(of "$1" "$2") == "$3" ]]
}
lists() { # COUNT
	[[ $(ask length) == "$1" ]]
}
written_of() { # NAME REGEX - samples in all its profiles, of stacks with REGEX
	profiles_of "$1" | while read -r file; do
		"$LAB/bin/pillion" report --folded --type samples "$file"
	done | awk -v re="$2" '$0 ~ re { n += $NF } END { print n + 0 }'
}
ns_of() { # NAME EVENT REGEX - by all its profiles, of stacks with REGEX
	profiles_of "$1" | grep -- "-$2.pb.gz" | while read -r file; do
		"$LAB/bin/pillion" report --folded --type "$2" "$file"
	done | awk -v re="$3" '$0 ~ re { n += $NF } END { printf "%.0f", n }'
}

# --- one that is profiled while something happens: it uses GOOD_MS of CPU time behind a gate, and then sleeps

GOOD_MS=1000
good_start() { # NAME [OPTION...]
	local name=$1
	shift
	mkfifo "gate.$name"
	printf '#!/bin/sh\n: <%s\n%s %s >/dev/null\nexec %s 3600\n' "$ROW/gate.$name" "$LAB/bin/burn" \
		"$(printf '%d.%03d' $((GOOD_MS / 1000)) $((GOOD_MS % 1000)))" "$LAB/bin/sleeper" >"good.$name"
	chmod 755 "good.$name"
	ct_start runc "$name" -a "$NAMES=cpu@${GOOD_RATE:-199}" -v "$ROW:$ROW" "$@" -- "$ROW/good.$name"
	until_true 10 says "$name" .state started || fail "$name is $(of "$name" .state)"
	usage_of "$name" >"before.$name"
	worker_and_wait >"waited.$name"
	: >"gate.$name"
}
usage_of() { sed -n 's/^usage_usec //p' "$V2$(ct_cgroup "$1")/cpu.stat"; }
used() { (($(usage_of "$1") - $(cat "before.$1") >= $2 * 1000)); } # NAME MS - since its start
at_rest() {
	local before
	before=$(usage_of "$1")
	sleep 0.3
	[[ $(usage_of "$1") == "$before" ]]
}

# "PID US" - how long the worker was able to run and had no CPU, by the kernel's count
worker_and_wait() {
	local pid
	pid=$(worker)
	echo "${pid:-0} $(awk '{ printf "%d", $2 / 1000 }' "/proc/$pid/schedstat" 2>/dev/null)"
}
# Since the start of NAME, us; of another worker, all of its life. Whoever reads no rings for that long may have lost as much.
worker_waited_since() { # NAME
	local pid us before pid_before
	read -r pid us < <(worker_and_wait)
	read -r pid_before before <"waited.$1"
	echo $((us - (pid == pid_before ? before : 0)))
}

# What it used is in its profiles, `[lost]` and all, within PERCENT, without what was filled up from its account; of that LOST
# percent at most were lost, and what came while the worker had no CPU; of the rest NAMED percent at least have a name.
good_end() { # NAME PERCENT [LOST [NAMED]]
	local used all lost named waited
	until_true 60 used "$1" "$GOOD_MS" || fail "$1 has not used its time: $(usage_of "$1") us"
	until_true 10 at_rest "$1" || fail "$1 is not at rest"
	used=$(($(usage_of "$1") - $(cat "before.$1")))
	ct_stop "$1"
	until_true 30 eval "[[ -z \$(of $1 .state) ]]" || fail "$1 is $(of "$1" .state)"
	waited=$(worker_waited_since "$1")
	ct_rm "$1"
	profiles_of "$1" >"profiles.$1"
	[[ -s profiles.$1 ]] || fail "no profile of $1: $(tail -n 5 service.log)"
	read -r all lost named < <("$LAB/bin/pillion" report --folded $(cat "profiles.$1") |
		awk '/\[(unsampled|throttled)\]/ { next } { n += $NF } /\[lost/ { l += $NF } /burn_loop/ { b += $NF } END { printf "%.0f %.0f %.0f\n", n, l, b }')
	echo "$1 used $used us, profiles have $((all / 1000)), lost $((lost / 1000)), in burn_loop $((named / 1000)); its reader waited $waited"
	between "% of the time of $1" $((all / 10 / used)) $((100 - $2)) $((100 + $2))
	between "us of it lost" $((lost / 1000)) 0 $((used * ${3:-0} / 100 + waited))
	((all == lost)) || between "% of the rest in burn_loop" $((named * 100 / (all - lost))) "${4:-95}" 100
}
