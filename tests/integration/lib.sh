# lib.sh - rows, checks and clean-up for the integration suites. Sourced by `run`, which then sources the suites.
#
#	row "a container without the annotation is left alone" test_plain [arg...]
#
# runs test_plain in a subshell: own process group, time limit ROW_TIMEOUT, set -e, and the empty directory $ROW,
# which is also the current one. Prints `ok - name`, `not ok - name` with the output, or `skip - name: why`.
# What a row started in the background, and its containers (runtimes.sh), end with it.
#
# Variables: TOP the tree, B the build, LAB the one temporary directory, ROW the row's own.
# REQUIRE_ALL=1: a skip is a failure. ONLY=regex: only the rows whose name matches. ROWS=FILE: only
# those that it names, one a line. KEEP=1: leave LAB for a look.
# SLOW_ROWS=FILE: how long each row took. REPEAT=N: each row so many times; then a line says how often it failed
# (tests/tools/repeat). A row runs once otherwise, whatever comes of it.

ROW_TIMEOUT=${ROW_TIMEOUT:-600} # a row that hangs: what is busy is slow, and no row is judged by that
ROW_NUMBER=0
ROW_PID=
ROW_CLOCK=
REPEAT=${REPEAT:-1}

# Under a sanitizer: leaks are looked for by ptrace, which no role of ours may; libraries are preloaded into some; and nobody
# waits a second at its end for a race.
sanitized() { [[ $B == */[at]san ]]; }
! sanitized || export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 TSAN_OPTIONS=atexit_sleep_ms=0

# --- the lab: one directory, one trap

lab_open() {
	LAB=$(mktemp -d "${TMPDIR:-/tmp}/pillion-lab.XXXXXX")
	LAB_CGROUP=/${LAB##*/}
	chmod 755 "$LAB" # programs in it run as anybody
	mkdir "$LAB/bin" "$LAB/ct" "$LAB/keep"
	: >"$LAB/results"
	trap lab_close EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# The product's programs go into the lab, where their processes can be told from everybody else's.
lab_install() { # PROGRAM... of $B
	local program from
	for program; do
		from=$B
		# TSan has a thread of its own, and who has two cannot join a container's namespaces
		[[ $B/$program != */tsan/pillion-@(hook|opener) ]] || from=${B%/*}/release
		install "$from/$program" "$LAB/bin/" || fail "not built: $program"
	done
}

# A helper that outlives the row that needed it first. Its pid is in $LAB/keep/NAME; it ends with the lab.
lab_keep() { # NAME COMMAND...
	local name=$1
	shift
	setsid "$@" </dev/null >"$LAB/keep/$name.log" 2>&1 &
	echo $! >"$LAB/keep/$name"
}

# Processes of this lab: started from it or with a path in it as argument. Kept helpers are not listed.
lab_processes() {
	local pid
	{
		grep -alF -f - /proc/[0-9]*/cmdline <<<"$LAB/" || :
		find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/*" || :
	} 2>/dev/null | cut -d/ -f3 | sort -un | while read -r pid; do
		grep -qsx "$pid" "$LAB"/keep/* && continue
		echo "process $pid $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | cut -c1-160)"
	done
}

sessions() { # their pids: each is several processes, of which one is called so
	local pid rest
	while read -r _ pid rest; do
		[[ $rest != *--session* || $(cat "/proc/$pid/comm" 2>/dev/null) != pilliond ]] || echo "$pid"
	done < <(lab_processes)
}

# podman mounts its storage on itself, for as long as it likes.
lab_mounts() {
	{ grep -hoE ' (/[^ ]*pillion[^ ]*) ' /proc/self/mountinfo $(lab_namespace_mounts) || :; } |
		sed '\|/podman/root/overlay $|d; s/^/mount/' | sort -u
}
lab_namespace_mounts() { # runtimes.sh has a mount namespace of its own for crun
	local pid
	pid=$(cat "$LAB/keep/crun" 2>/dev/null) || return 0
	echo "/proc/$pid/mountinfo"
}

# Sidecar and container cgroups, in every hierarchy. The engine's own monitor gets one that stays.
lab_cgroups() {
	find /sys/fs/cgroup -mindepth 1 -type d \( -path '*/pillion/*' -o -path "*$LAB_CGROUP/*" \) 2>/dev/null |
		sed "\\|$LAB_CGROUP/conmon|d; s/^/cgroup /" | sort
}

lab_close() {
	local status=$? pid
	trap '' INT TERM HUP
	trap - EXIT
	set +e # of a benchmark: all of what follows is to be done
	if [[ -n $ROW_PID ]]; then
		kill -KILL -- "-$ROW_PID"
		kill "$ROW_CLOCK"
		wait "$ROW_PID" "$ROW_CLOCK"
	fi 2>/dev/null
	declare -F ct_rm_all >/dev/null && ct_rm_all ''
	find /sys/fs/cgroup -path "*$LAB_CGROUP*" -name freezer.state -exec sh -c 'echo THAWED >"$1"' sh {} \;
	lab_processes | while read -r _ pid _; do kill -KILL "$pid" 2>/dev/null; done
	for pid in $(cat "$LAB"/keep/* 2>/dev/null | grep -x '[0-9]*'); do kill -KILL "$pid" 2>/dev/null; done
	lab_unmount "$LAB"
	find /sys/fs/cgroup -depth -type d -path "*$LAB_CGROUP*" -exec rmdir {} + 2>/dev/null
	if [[ -n ${KEEP-} ]]; then
		echo "kept: $LAB"
	elif grep -qF " $LAB/" /proc/self/mountinfo; then
		echo "something is still mounted below $LAB: left alone"
	else
		rm -rf --one-file-system "$LAB"
	fi
	exit "$status"
}

lab_unmount() { # DIR - what is mounted below it, last first
	local at
	grep -oE " $1/[^ ]* " /proc/self/mountinfo | tac | while read -r at; do
		umount "$at" 2>/dev/null || umount -l "$at"
	done
}

# --- rows

row() { # "name in words" function [arg...]
	[[ -n ${ONLY-} && ! $1 =~ $ONLY ]] && return
	[[ -n ${ROWS-} ]] && ! grep -qxF -e "$1" "$ROWS" && return
	local status time failed=0
	for ((time = 0; time < REPEAT; time++)); do
		row_run "$@"
		row_report "$1" "$status" || failed=$((failed + 1))
		row_clean
	done
	((REPEAT == 1)) || echo "repeat - $failed of $REPEAT failed - $1"
}
ROW_FAILED=1 ROW_LATE=2 ROW_UNSANE=3

row_run() { # NAME FUNCTION [ARG...] - sets status: 0 or one of these
	local began=${EPOCHREALTIME/./}
	ROW=$LAB/row.$((++ROW_NUMBER))
	mkdir "$ROW"
	STOLEN_MS=$(stolen_ms)
	set -m
	(row_body "${@:2}") </dev/null >"$ROW.out" 2>&1 &
	ROW_PID=$!
	set +m
	timeout "$ROW_TIMEOUT" tail --pid=$ROW_PID -s 0.01 -f /dev/null &
	ROW_CLOCK=$!
	status=0
	wait $ROW_CLOCK || status=$ROW_LATE # a wait, so that signals are acted on at once
	kill -KILL -- -$ROW_PID 2>/dev/null
	wait $ROW_PID 2>/dev/null || ((status)) || status=$ROW_FAILED
	ROW_PID=
	declare -F ct_rm_all >/dev/null && ct_rm_all "$ROW" >>"$ROW.out" 2>&1
	sanitizers_silent || status=$ROW_UNSANE
	[[ -z ${SLOW_ROWS-} ]] || echo "$(((${EPOCHREALTIME/./} - began) / 1000)) ms $1" >>"$SLOW_ROWS"
}
row_clean() {
	lab_unmount "$ROW"
	[[ -n ${KEEP-} ]] || rm -rf --one-file-system "$ROW" "$ROW".*
}

row_body() {
	set -eE -o pipefail
	trap 'row_error "failed: ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND"' ERR
	cd "$ROW"
	"$@"
}

row_error() { # SENTENCE - the first is the innermost
	echo "$1" >&2
	[[ -e $ROW.why ]] || echo "$1" 2>/dev/null >"$ROW.why" || :
}

# Whoever ends by a sanitizer's report may have a successor, and the row may never know.
sanitizers_silent() {
	local said
	said=$(find "$ROW" "$ROW.out" -maxdepth 1 -type f ! -size +1M -exec \
		grep -EahA 12 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' {} +)
	[[ -z $said ]] || ! echo "$said" >>"$ROW.out"
}

row_report() { # NAME STATUS - 1: it failed
	local skipped
	skipped=$(cat "$ROW.skip" 2>/dev/null)
	if [[ -n $skipped && -z ${REQUIRE_ALL-} ]]; then
		echo "skip - $1: $skipped"
		echo skipped >>"$LAB/results"
	elif [[ $2 == 0 && -z $skipped ]]; then
		echo "ok - $1"
		echo passed >>"$LAB/results"
	else
		(($2 != ROW_LATE)) || skipped="no end within $ROW_TIMEOUT s"
		echo "not ok - $1${skipped:+ ($skipped)}"
		row_said
		echo failed >>"$LAB/results"
		return 1
	fi
}

row_said() {
	cat "$ROW.why" "$ROW.out" 2>/dev/null | sed 's/^/    /'
	[[ ! -s $ROW/log ]] || tail -n 20 "$ROW/log" | sed 's/^/    log: /'
}

lab_summary() { # the last line; 1 when something failed
	local word text=
	for word in passed failed skipped; do
		text+="$(grep -c "^$word" "$LAB/results") $word, "
	done
	echo "${text%, }"
	! grep -q failed "$LAB/results"
}

# --- inside a row

skip() { # WHY
	echo "$*" >"$ROW.skip"
	exit 77
}

need() { # COMMAND... - skip where one is not installed
	local command
	for command; do
		command -v "$command" >/dev/null || skip "$command is not installed ($("$TOP/tests/tools/setup" brings "$command"))"
	done
}

need_root() { [[ $EUID == 0 ]] || skip "needs root"; }

fail() { # SENTENCE - of which the first line stands before all else that the row has said
	echo "$*"
	head -n 1 <<<"$*" 2>/dev/null >"$ROW.why" || :
	exit 1
}

between() { # WHAT GOT LEAST MOST
	awk -v g="$2" -v a="$3" -v b="$4" 'BEGIN { exit !(g >= a && g <= b) }' || fail "$1 is $2, not between $3 and $4"
}
is() { # WHAT GOT WANTED
	[[ $2 == "$3" ]] || fail "$1 is \"$2\", not \"$3\""
}

has() { # WHAT TEXT REGEX
	[[ $2 =~ $3 ]] || fail "$1 has no \"$3\": $2"
}

status_of() { # COMMAND... - its exit status on stdout, its output on stderr
	local status=0
	"$@" >&2 || status=$?
	echo $status
}

# What interrupts and a hypervisor took of all CPUs so far (proc_stat(5)); STOLEN_MS: as the row began. Each of the three is cut to 10 ms.
stolen_ms() {
	local _ irq softirq steal
	read -r _ _ _ _ _ _ irq softirq steal _ </proc/stat
	echo $((10 * (irq + softirq + steal)))
}
# The most that it can be since the row began: a hypervisor that took 9 ms can have added nothing to any of the three.
stolen_at_most() { echo $(($(stolen_ms) - STOLEN_MS + 3 * 10)); }

# Poll; 1 when it never was. SECONDS: that a machine of its own would need by far not; a busy one has four times as many. What takes long is
# asked less often: asking takes CPU time.
until_true() { # SECONDS COMMAND...
	local end=$((${EPOCHREALTIME/./} + $1 * 4000000)) asked=0
	shift
	until "$@"; do
		((${EPOCHREALTIME/./} < end)) || return 1
		((asked++ < 10)) && sleep 0.02 || sleep 0.1
	done
}

has_used() { # PID MS - of CPU time, as the kernel counts it
	local used
	{ read -r used _ <"/proc/$1/schedstat"; } 2>/dev/null && ((used >= $2 * 1000000))
}

# The hook's reason where a peer says nothing. The process that waits for the peer and the one that gave it the time both notice; on a
# busy machine either is first.
SILENT='(the peer did not answer in time|the handshake did not finish within its budget)'

# Sets PORT: nobody listens there, and the kernel gives it to no client.
port_free() {
	while PORT=$((10000 + RANDOM % 20000)) && (: <"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; do :; done
}

# --- nothing stays behind

# Remove cgroups that nobody is in, by `find` and -path. Who has ended, by what /proc says of its program, is in its own for a moment
# yet; what is not empty after ten seconds stays, and is found as what was left behind.
cgroups_remove() { # PATTERN
	until_true 10 cgroups_removed "$1" || :
}
cgroups_removed() {
	find /sys/fs/cgroup -depth -type d -path "$1" -exec rmdir {} + 2>/dev/null || :
	[[ -z $(find /sys/fs/cgroup -type d -path "$1" 2>/dev/null) ]]
}

leak_list() {
	lab_processes
	lab_mounts
	lab_cgroups
}

# Note what is there now; leak_check then names what is new, after waiting up to SECONDS for late but honest clean-up.
# A process is known by its pid: between fork and exec it bears another name.
leak_mark() { leak_list >"$ROW.before"; }
leak_none() {
	leak_list >"$ROW.after"
	awk 'FILENAME == ARGV[1] { known[$1 " " $2]; next } !($1 " " $2 in known)' "$ROW.before" "$ROW.after" >"$ROW.leak"
	[[ ! -s $ROW.leak ]]
}
# The cgroup of a session, or of who opens files for it, that ended when the runtime no longer waited for it (POSTSTOP_WAIT_MS) is removed by the next start: so it is here.
leak_check() { # [SECONDS]
	! until_true 1 leak_none || return 0
	cgroups_removed '*/pillion/session-*' || :
	cgroups_removed '*/pillion/files-*' || :
	until_true "${1:-30}" leak_none || fail "left behind: $(leak_tell)"
}
leak_tell() {
	local kind what pid
	while read -r kind what; do
		echo "$kind $what"
		[[ $kind == cgroup ]] || continue
		for pid in $(cat "$what/cgroup.procs" 2>/dev/null); do
			echo "  in it: $pid, $(sed -n 's/^State:\t//p' "/proc/$pid/status" 2>/dev/null), $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		done
	done <"$ROW.leak"
}
