# lib.sh - what the benchmarks share. Sourced behind tests/integration/lib.sh.

say() { printf '%s\n' "$*"; }

machine() {
	say "machine: $(uname -srm), $(nproc) CPUs ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | sed -n 1p)), cgroups:" \
		"$(cgroup_layout), paranoid $(cat /proc/sys/kernel/perf_event_paranoid), load $(cut -d' ' -f1-3 /proc/loadavg)"
	say "pillion $(cat "$TOP/VERSION"), $(version runc), $(version crun), $(version perf)"
}
cgroup_layout() {
	case $(stat -f -c %T /sys/fs/cgroup) in
	cgroup2fs) echo v2 ;;
	*) mountpoint -q /sys/fs/cgroup/unified && echo hybrid || echo v1 ;;
	esac
}
version() { "$1" --version 2>/dev/null | sed -n 1p | sed 's/ version//' || echo "no $1"; }

# What is kept is no job of this shell, which would report its end.
service_start() { # pid in SERVICE_PID
	(lab_keep service "$LAB/bin/pilliond" --control "$LAB/run/service.sock" --spool "$LAB/spool" \
		--log "$ROW/service.log")
	until_true 10 test -S "$LAB/run/service.sock" || fail "the service did not start: $(cat "$LAB/keep/service.log")"
	SERVICE_PID=$(cat "$LAB/keep/service")
}

service_end() {
	kill -TERM "$SERVICE_PID"
	until_true 10 service_gone || fail "the service does not end"
	rm "$LAB/keep/service"
	rm -f "$LAB/run/service.sock"
}

service_gone() { [[ ! -e /proc/$SERVICE_PID ]]; }

# What hook or service had to say, the commonest first. That a container of `starts` ran nothing is as it should be.
complaints() { # LOG
	[[ -s $ROW/$1.log ]] || return 0
	sed -E '/ended before its program/d; s/^time=[^ ]* //; s/(pid|ms|container|target|name)=[^ ]* //g' "$ROW/$1.log" |
		sort | uniq -c | sort -rn | sed '6,$d' | cut -c1-240
	: >"$ROW/$1.log"
}

# --- times of several, in turn: lines of ./runs, and a table of them

note() { echo "$1 $2 $3" >>runs; } # WHAT OF-WHOM VALUE

measured() { # NAME COMMAND... - notes how long it took, its CPU time with its children's, its largest process
	local name=$1 ms cpu memory
	shift
	read -r ms cpu memory < <(python3 -S -c '
import os, sys, time
began, pid = time.time(), os.fork()
if pid == 0:
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, use = os.wait4(pid, 0)
print(int(1000 * (time.time() - began)), int(1000 * (use.ru_utime + use.ru_stime)), use.ru_maxrss // 1024)
sys.exit(status != 0)' "$@")
	note made "$name" "$ms"
	note cpu "$name" "$cpu"
	note memory "$name" "$memory"
}
table() { # of ./runs: WHAT WHOM VALUE
	awk '
		!(($1, $2) in n) { order[++rows] = $1 SUBSEP $2 }
		{ v[$1, $2, ++n[$1, $2]] = $3 + 0 }
		END {
			printf "%-10s %-22s %8s %8s %8s\n", "", "", "median", "least", "most"
			for (r = 1; r <= rows; r++) {
				k = n[order[r]]; split(order[r], of, SUBSEP)
				for (i = 1; i <= k; i++) for (j = i + 1; j <= k; j++) if (v[order[r], j] < v[order[r], i]) { t = v[order[r], i]; v[order[r], i] = v[order[r], j]; v[order[r], j] = t }
				gsub(/_/, " ", of[2])
				printf "%-10s %-22s %8d %8d %8d %s\n", of[1], of[2], v[order[r], int((k + 1) / 2)], v[order[r], 1], v[order[r], k], of[1] == "memory" ? "MiB" : "ms"
			}
		}' runs
}
