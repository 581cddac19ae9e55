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
