# service.sh - a service in a cgroup of its own, herds of containers on it (tests/tools/herd), and what all of it takes.
# Sourced by the benches and soaks that look at pilliond as a whole, behind lib.sh and bench/lib.sh. All processes of
# pilliond count, however many there are and whatever they are called: those that run from the lab's copy.

V2=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)

service_open() { # PROGRAM... more of $B. SERVICE_CGROUP: where the service runs; of a name that ends with .service all of it counts for its budget
	SERVICE_CGROUP=${SERVICE_CGROUP:-$V2$LAB_CGROUP/service}
	ROW=$LAB/bench HERD=$V2$LAB_CGROUP/herd
	mkdir "$ROW" "$LAB/run" "$LAB/etc" "$ROW/bundle"
	[[ -n $V2 ]] || fail "cgroup v2 is not mounted"
	mkdir -p "$HERD" "$SERVICE_CGROUP" || fail "cgroup v2 cannot be written"
	lab_install pillion-hook pilliond pillion tools/herd targets/burn targets/sleeper "$@"
	echo '{"ociVersion": "1.0.2", "root": {"path": "/"}, "process": {"args": ["sh"]}}' >"$ROW/bundle/config.json"
	echo "log_level = info" >"$LAB/etc/pillion.conf"
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$LAB/etc" --control "$LAB/run/service.sock" --daemon "$LAB/bin/none"
		--spool "$LAB/spool" --log "$ROW/hook.log" --budget "${BUDGET_MS:-500}ms")
	: >"$ROW/figures"
}

service_begin() { # [OPTION...] - pid in SERVICE_PID
	(lab_keep service sh -c 'echo $$ >"$0/cgroup.procs"; INVOCATION_ID=x exec "$@"' "$SERVICE_CGROUP" \
		"$LAB/bin/pilliond" --control "$LAB/run/service.sock" --spool "$LAB/spool" --log "$ROW/service.log" "$@")
	until_true 10 test -S "$LAB/run/service.sock" || fail "the service did not start: $(cat "$LAB/keep/service.log")"
	SERVICE_PID=$(cat "$LAB/keep/service")
	until_true 10 service_answers || fail "the service does not answer: $(cat "$LAB/keep/service.log" "$ROW/service.log")"
}
service_ps() { "$LAB/bin/pillion" ps --control "$LAB/run/service.sock" "$@"; }
service_answers() { service_ps >/dev/null 2>&1; }

service_finish() {
	service_end
	rmdir "$HERD" "$SERVICE_CGROUP" 2>/dev/null || :
}

# --- its processes

service_pids() { { find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/bin/pilliond*" || :; } 2>/dev/null | cut -d/ -f3; }
service_reader() { # who reads the rings: it has their memory mapped, and of those that do, uses the most CPU time
	local pid
	for pid in $(service_pids); do
		if grep -qs perf_event "/proc/$pid/maps"; then
			echo "$(awk '{ print $14 + $15 }' "/proc/$pid/stat") $pid"
		fi
	done | sort -rn | awk 'NR == 1 { print $2 }'
}
service_stall() { # SECONDS
	local pid
	pid=$(service_reader)
	[[ -n $pid ]] || fail "nobody has the rings mapped"
	kill -STOP "$pid"
	sleep "$1"
	kill -CONT "$pid"
}
service_us() { sed -n 's/^usage_usec //p' "$SERVICE_CGROUP/cpu.stat"; }
service_memory() { # KiB in all: RSS PSS, and the descriptors, threads, mounts, processes
	local pid
	for pid in $(service_pids); do
		echo "$(awk '/^Rss/ { r = $2 } /^Pss:/ { p = $2 } END { print r + 0, p + 0 }' "/proc/$pid/smaps_rollup")" \
			"$(find "/proc/$pid/fd" -mindepth 1 | wc -l) $(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" \
			"$(wc -l <"/proc/$pid/mountinfo")" 2>/dev/null
	done 2>/dev/null | awk '{ for (i = 1; i <= 5; i++) n[i] += $i } END { print n[1] + 0, n[2] + 0, n[3] + 0, n[4] + 0, n[5] + 0, NR }'
}
service_each() { # one line for each process
	local pid
	for pid in $(service_pids); do
		awk -v pid="$pid" -v what="$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-60)" -v name="$(cat "/proc/$pid/comm")" '
			/^Rss/ { r = $2 } /^Pss:/ { p = $2 } /^Private_Dirty/ { d = $2 }
			END { printf "  process %-6s %-16s RSS %7.1f MiB, PSS %6.1f, private %6.1f\n", pid, name, r / 1024, p / 1024, d / 1024 }' \
			"/proc/$pid/smaps_rollup"
	done
}
memory_mib() { # rss|pss [BYTES] - with so many bytes more
	service_memory | awk -v which="$1" -v more="${2:-0}" '{ printf "%.1f", (which == "rss" ? $1 : $2) / 1024 + more / 1048576 }'
}
rings_bytes() { # what is mapped of perf events, once
	local pid
	for pid in $(service_pids); do
		awk '/perf_event/ { split($1, a, "-"); print a[1], a[2] }' "/proc/$pid/maps" |
			while read -r from to; do echo $((16#$to - 16#$from)); done | awk '{ n += $1 } END { print n + 0 }'
	done | sort -n | tail -n 1
}

# --- herds

herd() { exec "$LAB/bin/herd" -g "$HERD" -u "$ROW/bundle" -b "${BUDGET_MS:-500}" -e "cpu@${RATE:-99}" "$@"; }
herd_keep() { # NAME COUNT [OPTION...] - they stay until herd_end
	local name=$1 count=$2
	shift 2
	(herd -k -n "$name" "$@" "$count" -- "${HOOK_ARGS[@]}" </dev/null >"$ROW/herd.$name.out" 2>&1 &
		echo $! >"$ROW/herd.$name.pid")
	until_true 120 grep -qs ready "$ROW/herd.$name.out" || fail "herd $name: $(cat "$ROW/herd.$name.out")"
}
herd_end() { # NAME
	local pid
	pid=$(cat "$ROW/herd.$1.pid")
	kill "$pid"
	until_true 60 test ! -e "/proc/$pid" || fail "herd $1 does not end"
}
herd_run() { # NAME COUNT [OPTION...]
	local name=$1 count=$2
	shift 2
	(herd -n "$name" -x /bin/true "$@" "$count" -- "${HOOK_ARGS[@]}") >"$ROW/herd.$name.out" 2>&1 ||
		fail "herd $name: $(cat "$ROW/herd.$name.out")"
}

hook_ms() { # ID-PREFIX RANK
	sed -n "s/.* container=$1-.* outcome=armed ms=\([0-9.]*\) .*/\1/p" "$ROW/hook.log" | sort -n |
		awk -v rank="$2" '{ v[NR] = $1 } END { print NR ? v[int((NR - 1) * rank / 100 + 0.5) + 1] : "none" }'
}
hook_log_ms() { # WORDS ID-PREFIX LAST
	figure "$1" "$(sed -n "s/.* container=$2.* outcome=armed ms=\([0-9.]*\) .*/\1/p" "$ROW/hook.log" | tail -n "$3" |
		sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "none" }')" 2
}

# ns in all profiles of a target, of these what the kernel said was lost, and besides what was filled up from the cgroup's
# account: a sum with that says nothing of the samples
weight_of() { # ID
	local dir=$LAB/spool/$1
	[[ -d $dir ]] || { echo "0 0 0" && return; }
	"$LAB/bin/pillion" report --folded "$dir" |
		awk '/\[(unsampled|throttled)\]/ { u += $NF; next } { n += $NF } /\[lost/ { l += $NF } END { printf "%.0f %.0f %.0f\n", n, l, u }'
}

# --- a table of figures and bars

figure() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$ROW/figures"; } # WORDS VALUE BAR (- = none)
figures() {
	awk -F '\t' 'BEGIN { printf "%-72s %10s %8s\n", "", "figure", "bar" }
		{ printf "%-72s %10s %8s  %s\n", $1, $2, $3, $3 == "-" ? "" : ($2 + 0 <= $3 + 0 && $2 != "none") ? "met" : "NOT MET" }' "$ROW/figures"
}
