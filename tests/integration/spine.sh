# spine.sh - for the suites of an annotated container's profile, which source it: the product in a row, and how its profile is read.
#
# What a container used is known from the targets (tests/targets); what the profile says is read with `go tool pprof`,
# not with our own code. Programs and targets run from $LAB/bin.

CPU=io.pillion.profile=cpu@499
FINE=io.pillion.profile=cpu@999

# --- the product in a row: its settings, its spool ./spool, its log ./log

with() { # session|service [HOOK OPTION...]
	MODE=$1
	shift
	need_root
	need go
	[[ -e $LAB/bin/burn-0711 ]] || install_all # the last of them: other suites install some
	mkdir etc spool
	chmod 755 .
	# the budget is another suite's: here no start may go without a profile because the machine is busy
	printf 'log_level = info\nbudget = 5s\n' >etc/pillion.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$ROW/control.sock" --spool "$ROW/spool" --log "$ROW/log"
		--daemon "$LAB/bin/pilliond" "$@")
	[[ -z ${WRAPPED-} ]] || by_wrapper
	[[ $MODE == session ]] || service
}

# In place of the hook's registration, a runtime in front of the real one: WRAPPED is which of CT_RUNTIMES. What it is called by
# says where its settings are, and leaves no trace: it becomes the wrapper. Engines know runtimes by their file's name.
by_wrapper() {
	local name=${WRAPPED##*-} dir=$ROW/wrapper real
	real=$(ct_oci "$WRAPPED")
	lab_install pillion-runc pillion-opener
	printf '%s\n' "control = $ROW/control.sock" "spool = $ROW/spool" "log = $ROW/log" "daemon = $LAB/bin/pilliond" "runtime = $real" >>etc/pillion.conf
	mkdir "$dir"
	printf '#!/bin/sh\nPILLION_ETC=%s exec %s/bin/pillion-runc "$@"\n' "$ROW/etc" "$LAB" >"$dir/$name"
	chmod 755 "$dir/$name"
	printf -v "OCI_${WRAPPED//-/_}" %s "$dir/$name"
	HOOK_ARGS=()
}

install_all() {
	local target
	lab_install pillion pilliond pillion-hook
	for target in shape burn deep ctor libctor.so brief forker sigcount sleeper threads; do
		lab_install "targets/$target"
	done
	install -m 4755 "$B/targets/burn" "$LAB/bin/burn-setuid"
	install -m 0711 "$B/targets/burn" "$LAB/bin/burn-0711"
}

service() {
	"$LAB/bin/pilliond" --control "$ROW/control.sock" --spool "$ROW/spool" --log "$ROW/log" --log-level info &
	SERVICE=$!
	until_true 10 grep -qs "pid=$SERVICE state=ready" log || fail "the service did not come up"
	until_true 10 reader_is_there || : # the last of its processes, a moment later: from here on what is new is left behind
}
reader_is_there() {
	local pid
	for pid in $(profilers); do
		[[ $(cat "/proc/$pid/comm") == pilliond-files ]] && return 0
	done 2>/dev/null
	return 1
}

profilers() { # pids of pilliond in this lab, whoever started it
	{ find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/bin/pilliond*" 2>/dev/null || :; } | cut -d/ -f3
}

any_profiler() { [[ -n $(profilers) ]]; }

wait_profiler() { # sets PROFILER to the one there is
	until_true 10 any_profiler || fail "no pilliond runs"
	PROFILER=$(profilers | sed -n 1p)
}

count_profiles() { find spool -name '*.pb.gz' | wc -l; }
enough_profiles() { (($(count_profiles) >= $1)); }

# The last window is written within two seconds of the end: we give it ten times that.
profile() { # [COUNT] - sets PROFILE to the first of them
	until_true 20 enough_profiles "${1:-1}" || fail "$(count_profiles) profiles, not ${1:-1}: $(cat log)"
	PROFILE=$(find spool -name '*.pb.gz' | sort | sed -n 1p)
}

# --- reading a profile: one line a sample, with tabs: count, weight, labels (` key:[value]...`), stack root;...;leaf

read -r -d '' RAW <<'AWK' || :
/^Samples:/ { part = 1; next }
/^Locations/ { part = 2; next }
/^Mappings/ { part = 3 }
part == 1 && match($0, /^ *[0-9]+ +[0-9]+: /) {
	split(substr($0, 1, RLENGTH), v, /[ :]+/)
	weights[++n] = $1 "\t" ($2 + 0)
	stacks[n] = substr($0, RLENGTH + 1)
	next
}
part == 1 && /^ +[a-z_]+[a-z_.A-Z0-9]*:\[/ { sub(/^ +/, " "); labels[n] = labels[n] $0 }
part == 2 && /^ +[0-9]+: 0x/ {
	id = $1 + 0
	sub(/^ +[0-9]+: 0x[0-9a-f]+ (M=[0-9]+ )?(\[F\] )?/, "")
	sub(/ [^ ]*:[0-9]+(:[0-9]+)? s=[0-9]+.*$/, "")
	names[id] = $0
	next
}
part == 2 && /^ +[^ ]/ { # what the function above was inlined into
	sub(/^ +/, "")
	sub(/ [^ ]*:[0-9]+(:[0-9]+)? s=[0-9]+.*$/, "")
	names[id] = outer ? $0 : $0 ";" names[id]
}
END {
	for (i = 1; i <= n; i++) {
		depth = split(stacks[i], ids, " ")
		stack = ""
		for (d = depth; d > 0; d--)
			stack = stack (d < depth ? ";" : "") names[ids[d]]
		print weights[i] "\t" labels[i] " \t" stack
	}
}
AWK

samples() { go tool pprof -symbolize=none -raw "${1:-$PROFILE}" 2>/dev/null | awk -v outer="${OUTER-}" "$RAW"; }
comments() { go tool pprof -symbolize=none -comments "${1:-$PROFILE}" 2>/dev/null; }

# Milliseconds of the samples whose line (labels and stack) has this.
msec() { # REGEX [FILE]
	samples "${2-}" | awk -F '\t' -v want="$1" '$0 ~ want { sum += $2 } END { printf "%.0f\n", sum / 1e6 }'
}

# Milliseconds of samples with REGEX, at 999 Hz. A busy machine lets rings run over, and its clocks' interrupts come late: the profile
# says by how much, where that is ten periods or more (worth_saying, profiler/sample/event_counts.c). So what is there may be less by that, and
# never nothing; more only by what the machine itself lost of its CPUs since the row began, to interrupts and to a hypervisor: that is
# in the clock of perf's events (perf_clock) and not in that of a thread (update_rq_clock_task, kernel/sched/core.c).
UNSAID=10
spent() { # WHAT REGEX LEAST MOST
	local there other
	there=$(msec "$2") other=$(msec '\t\\[(lost|unsampled)\\]$')
	samples
	between "the time in $1, ms," "$there" $(($3 / 10)) $(($4 + $(stolen_at_most)))
	between "the time in $1 and that lost, ms," $((there + other)) $(($3 - UNSAID)) 1000000
}

# The same for a function of a program that says what the function took, in ns, by its own thread's clock: more than it was asked to
# where the machine stops a CPU at its last turn.
spent_as_said() { # WHAT REGEX FUNCTION FILE
	local took
	took=$(awk -v name="$3" '$1 == name { printf "%.0f", $2 / 1e6 }' "$4")
	[[ -n $took ]] || fail "the program does not say what $3 took: $(cat "$4")"
	spent "$1" "$2" $((took - 4 - took / 20)) $((took + 4 + took / 12))
}

has_not() { # WHAT TEXT REGEX
	[[ ! $2 =~ $3 ]] || fail "$1 has \"${BASH_REMATCH[0]}\""
}

# pillion's own line in each: nothing of us may ever be seen.
nobody_of_ours() {
	has_not "the profile" "$(samples | cut -f 3)" '(process|exe|thread):\[(pillion|pilliond|pillion-hook|runc|crun|conmon)[^]]*\]'
}

ID_RULE='[A-Za-z0-9_+.-]+'

strategy_of() { # RUNTIME - what `auto` comes to. crun sees no v2 hierarchy where that is mounted beside v1 (runtimes.sh).
	[[ $1 == *crun ]] && mountpoint -q /sys/fs/cgroup/unified && echo process || echo cgroup
}

nspid() { sed -n 's/^NSpid:.*\t//p' "/proc/$1/status"; }
pids_of() { samples | grep -F " process:[$1]" | grep -o ' pid:\[[0-9]*\]' | sort -u | tr -dc '0-9\n' | xargs; }

# --- what is left

holding() { # what the service and the lab hold: its descriptors by kind, without what is only for a moment
	find "/proc/$SERVICE/fd" -type l -printf '%l\n' | sed 's/[0-9]\+//g' | grep -v /proc/kallsyms | sort | uniq -c
}
same_held() { [[ $(holding) == "$HELD" ]]; }
# Sets HELD to what the service holds when its first target is let go of, a moment after its profile is there.
hold_settled() {
	until_true 20 grep -q 'state=ended' log || fail "its first target has not ended: $(cat log)"
	until_true 20 is_settled || fail "it holds $HELD and then $(holding)"
}
is_settled() {
	HELD=$(holding)
	! grep "/sys/fs/cgroup/.*${LAB_CGROUP//[0-9]/}/" <<<"$HELD" >/dev/null || return 1
	sleep 0.2
	same_held
}
