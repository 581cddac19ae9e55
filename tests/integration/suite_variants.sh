# suite_variants - the ways in which a container can be unlike the usual one, a row each, and each asserts the same list
# (same_list): the container's own pids, what ran before main, labels, names of functions after it has been removed, nothing left behind, and that it starts and
# is profiled all the same when the service has died.

. "$TOP/tests/integration/same_list.sh"
for mode in 4755 0711; do install -m $mode "$LAB/bin/first" "$IMAGE/own/first-$mode"; done

# --- as they come

for runtime in "${CT_RUNTIMES[@]}"; do row "$runtime: as it comes" same_list "$runtime"; done

# --- whose pids

USERNS='.linux.namespaces += [{type: "user"}] | .linux |= (.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
	| .gidMappings = .uidMappings)'
row "runc: a user namespace" same_list runc -j "$USERNS"
row "crun: a user namespace" same_list crun -j "$USERNS"
row "podman-runc: a user namespace" same_list podman-runc -o --uidmap=0:100000:65536 -o --gidmap=0:100000:65536
row "podman-runc: the host's pids" same_list podman-runc --pid host
row "crun: the host's pids" same_list crun --pid host

test_joined() { # RUNTIME
	BEFORE=start_other
	same_list "$1" --pid container:other
	ct_stop other
}
start_other() { ct_start "$RUNTIME" other -i "$IMAGE" -- sh -c 'trap exit TERM; while :; do sleep 0.1; done'; }
row "podman-runc: another container's pids" test_joined podman-runc
row "crun: another container's pids" test_joined crun

# A pod's: PID 1 is that of its infra container.
test_pod() { # RUNTIME
	BEFORE=start_pod C_RUNTIME=$1 C_DIR=$ROW
	trap 'podman_ pod rm --force --time 0 pod >/dev/null' EXIT
	same_list "$1" -o --pod=pod
	is "the pod's first process" "$(podman_ pod top pod pid comm | awk '$1 == 1 { print $2 }')" sleep
}
start_pod() {
	# an infra container takes no --ulimit
	printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n' >containers.conf
	CONTAINERS_CONF=$ROW/containers.conf podman_ pod create --name pod --share pid --network none --infra-image localhost/lab/image:1 \
		--infra-command "sleep 1000000" >/dev/null
	podman_ pod start pod >/dev/null
}
row "podman-runc: a pod that shares its pids" test_pod podman-runc
row "podman-runc: an init of podman's own (--init)" same_list podman-runc -o --init

# --- what it may not

row "podman-runc: its root is read-only, with tmpfs" same_list podman-runc -o --read-only -o --tmpfs=/tmp
row "podman-runc: no capability, no new privileges, a user" same_list podman-runc \
	-o --cap-drop=all -o --security-opt=no-new-privileges -u 1234:1234
# what a program that prints and burns needs, and nothing else
FEW='.linux.seccomp = {defaultAction: "SCMP_ACT_ERRNO", architectures: ["SCMP_ARCH_X86_64"], syscalls: [{action: "SCMP_ACT_ALLOW",
	names: ["execve", "brk", "mmap", "mprotect", "munmap", "arch_prctl", "access", "openat", "newfstatat", "read", "pread64", "close",
	"set_tid_address", "set_robust_list", "rseq", "prlimit64", "getrandom", "write", "getpid", "clock_gettime", "exit_group", "futex",
	"fstat", "ioctl", "fcntl", "prctl", "capset", "capget", "setuid", "setgid", "setgroups", "getdents64", "epoll_ctl", "tgkill", "rt_sigreturn",
	"nanosleep", "sched_yield", "epoll_pwait", "rt_sigprocmask", "sigaltstack", "getppid", "gettid", "fstatfs", "readlinkat", "close_range", "statfs"]}]}'
row "runc: seccomp allows next to nothing, no new privileges" same_list runc -j "$FEW" -j '.process.noNewPrivileges = true'
row "podman-runc: nothing of /proc is masked" same_list podman-runc -o --security-opt=unmask=ALL
row "podman-runc: cgroupns=host" same_list podman-runc -o --cgroupns=host
row "podman-runc: cgroupns=private" same_list podman-runc -o --cgroupns=private

# Who may not be traced has other owners in /proc, and other ways to be named
test_program() { # RUNTIME MODE STRATEGY
	INIT=("/own/first-$2")
	PROCESS="first-$2" same_list "$1" -u 1234:1234
}
row "podman-runc: its program is setuid root" test_program podman-runc 4755
row "podman-runc: its program can be run, and not read" test_program podman-runc 0711

# --- where the hook and the profiler are

# Everything in a mount namespace where /proc shows nobody but root the processes of others.
test_hidepid() { # RUNTIME
	ct_namespace
	within mount -t proc -o hidepid=2 proc /proc
	is "processes that a user sees" "$(within setpriv --reuid 1234 --regid 1234 --clear-groups ls -d /proc/1 2>/dev/null || :)" ""
	same_list "$1"
}
within() { nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$@"; }
row "podman-runc: hidepid=2 on the host" test_hidepid podman-runc

# --- systemd as its init

# It makes a cgroup for each unit, below the container's own.
test_systemd() { # RUNTIME
	printf '%s\n' '[Unit]' DefaultDependencies=no SuccessAction=exit-force '[Service]' Type=oneshot "ExecStart=$OWN" \
		StandardOutput=append:/volume/out >work.service
	INIT=(/lib/systemd/systemd --unit=work.service)
	same_list "$1" -i "" -e container=oci -v "$ROW:/volume" -v "$IMAGE/own:/own:ro" \
		-v "$ROW/work.service:/etc/systemd/system/work.service:ro" \
		-j '.mounts |= map(select(.destination != "/sys/fs/cgroup"))' \
		-j '.mounts += [{destination: "/sys/fs/cgroup", type: "cgroup", source: "cgroup", options: ["rw"]}]' \
		-j '.mounts += [("/run", "/run/lock") | {destination: ., type: "tmpfs", source: "tmpfs"}]'
	[[ $(pids_of systemd) == 1* ]] || fail "systemd has no samples as PID 1: $(pids_of systemd)"
}
row "runc: systemd" test_systemd runc

# --- what nothing begins in, or not here: it starts without a profile, and the log says why and what to do

# CRIU of a newer suite than bookworm's, whose own (3.17) does not know today's kernels.
criu_there() {
	local dir=$TOP/build/unpacked/criu
	"$TOP/tests/tools/unpack" -r . sid "$dir" criu >unpack.log 2>&1 || skip "no CRIU: $(tail -n 1 unpack.log)"
	mkdir -p criu
	# its name is what it is known by, so its dynamic linker, which is what runs, has it
	cp "$dir/usr/lib64/ld-linux-x86-64.so.2" criu/criu
	printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' "$ROW/criu/criu" "$dir/usr/lib/x86_64-linux-gnu" "$dir/usr/sbin/criu" >criu/run
	chmod 755 criu/run
	criu/run check >check.log 2>&1 || skip "CRIU cannot work here: $(tail -n 1 check.log)"
}

test_restored() { # RUNTIME
	ct_need "$1"
	criu_there
	with service
	ct_start "$1" c1 -i "$IMAGE" -a $FINE -j 'del(.linux.seccomp)' -- sh -c "exec $OWN on </dev/null >/tmp/out 2>&1"
	until_true 10 eval '[[ -n $("$LAB/bin/pillion" ps --control "$ROW/control.sock" | grep started) ]]' || fail "not started: $(cat log)"
	ct_find c1
	bare_ --criu "$ROW/criu/run" checkpoint --image-path "$ROW/images" --work-path "$ROW/work" c1 ||
		fail "no checkpoint: $(tail -n 3 work/dump.log)"
	profile
	has "what ran until then" "$(samples)" ';then_work'
	bare_ --criu "$ROW/criu/run" restore --detach --image-path "$ROW/images" --work-path "$ROW/work" --bundle "$C_DIR" \
		--pid-file "$C_DIR/pid" c1 </dev/null >"$C_DIR/out" 2>&1 || fail "not restored: $(cat "$C_DIR/out"; tail -n 3 work/restore.log)"
	has "the log" "$(grep -v outcome=armed log)" "container=c1 .*outcome=unprofiled reason=\"the container's init .pid [0-9]+. is criu: it is restored from a checkpoint"
	is "what it is now" "$(cat "/proc/$(ct_pid c1)/comm")" first
	rm -r spool/*
	"$LAB/bin/pillion" attach --daemon "$LAB/bin/pilliond" --control "$ROW/control.sock" --duration 1s "$(ct_pid c1)" >path
	PROFILE=$(cat path)
	has "the profile by attach" "$(samples)" 'pid:\[1\].*;main;then_work'
	bare_ kill c1 KILL
	ct_wait c1 5
}
# As those runtimes do that are not to be had here.
test_foreign() { # NAME SENTENCE - of the process that the state names
	need_root
	with service
	install "$LAB/bin/first" "$1"
	"./$1" on >/dev/null &
	until_true 5 grep -qs "${1:0:15}" "/proc/$!/comm" || fail "$1 does not run"
	echo '{"root": {"path": "/"}, "process": {"args": ["first"]}}' >config.json
	jq -n --arg dir "$ROW" --argjson pid $! '{ociVersion: "", id: "c1", status: "", pid: $pid, bundle: $dir,
		annotations: {"io.pillion.profile": "cpu"}}' >state
	"${HOOK_ARGS[@]}" <state 2>said || fail "the hook's exit status is $?"
	has "the hook" "$(cat said)" "^pillion-hook: the container's init .pid $!. is ${1:0:15}: $2.*; the container starts without a profile$"
	is "profiles" "$(count_profiles)" 0
}
row "Kata names its virtual machine" test_foreign qemu-system-x86_64 "it is a virtual machine's monitor"
row "Kata names its shim" test_foreign containerd-shim-kata-v2 "it is a virtual machine's monitor"
row "gVisor names its kernel" test_foreign runsc-sandbox "it is gVisor's own kernel"
row "runc: restored from a checkpoint" test_restored runc
