# suite_sidecar - a Pod's own profiler: pilliond without any privilege in one container, and the node's hook that hands it the
# events of another one, through a volume of both. A Pod here is a cgroup that is called like one.

. "$TOP/tests/integration/spine.sh"
lab_install pillion pilliond pillion-hook targets/ctor targets/libctor.so targets/burn targets/sleeper

POD=/pod01234567-89ab-cdef-0123-456789abcdef OTHER=/podffffffff-89ab-cdef-0123-456789abcdef
LABELLED=(-a io.kubernetes.cri.container-name=web -a io.kubernetes.cri.sandbox-name=shop-0 -a io.kubernetes.cri.sandbox-namespace=prod
	-a io.kubernetes.cri.container-type=container)

begin_pod() { # [POLICY]
	ct_need runc
	need go jq
	leak_mark
	LAB_CGROUP_ALL=$LAB_CGROUP
	in_pod "$POD"
	mkdir -p etc spool vol
	chmod 755 .
	chmod 777 vol
	printf '%s\n' "log_level = info" "budget = 2s" >etc/pillion.conf
	echo "${1-sidecars = yes}" >etc/policy.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$ROW/none/control.sock" --spool "$ROW/spool" --log "$ROW/log"
		--daemon "$LAB/bin/pilliond")
}
in_pod() { LAB_CGROUP=$LAB_CGROUP_ALL$1; }
end_pod() {
	local name
	for name in $(ls "$LAB/ct"); do ct_rm "$(basename "$name")"; done
	in_pod ""
	cgroups_remove "*$LAB_CGROUP/pod*"
	leak_check
}

side() { # [OPTION...] - the sidecar, user 1000 of its container, with the volume
	ct_start runc side -u 1000:1000 -v "$ROW/vol:/run/pillion" -- "$LAB/bin/pilliond" --control /run/pillion/control.sock \
		--spool /run/pillion/profiles --log /run/pillion/log --log-level info --metrics off "$@"
	until_true 10 grep -qs state=ready vol/log || fail "the sidecar is not ready: $(cat vol/log) $(ct_output side)"
}
app() { # NAME PROGRAM... - one that is profiled
	ct_run runc "$1" "${LABELLED[@]}" -a io.pillion.profile=cpu@499 -v "$ROW/vol:/run/pillion" -- "${@:2}" >"out.$1"
}
of_sidecar() { find vol/profiles -name '*.pb.gz'; }
some_of_sidecar() { [[ -n $(of_sidecar) ]]; }
profile_of_sidecar() {
	until_true 20 some_of_sidecar || fail "no profile: $(cat log vol/log)"
	PROFILE=$(of_sidecar)
	is "the number of profiles" "$(wc -w <<<"$PROFILE")" 1
}
unprofiled() { # REGEX
	has "the hook's log" "$(cat log)" "outcome=unprofiled reason=\"$1"
	is "profiles" "$(find vol spool -name '*.pb.gz')" ""
	is "what the program said" "$(cut -d ' ' -f 1 out.app)" "burn_loop"
}

test_profile() {
	begin_pod
	side --target-root /
	app app "$LAB/bin/ctor"
	profile_of_sidecar
	spent_as_said "the constructor" ';ctor_work' ctor_work out.app
	has "a stack" "$(samples | grep ctor_work | cut -f 4)" '(^|;)_start;.*begin;ctor_work'
	has "the labels" "$(samples)" ' container:\[web\].* container_id:\[app\].* namespace:\[prod\].* process:\[ctor\]'
	has "the labels" "$(samples)" ' pod:\[shop-0\]'
	has "the pids" "$(samples)" ' pid:\[1\] tid:\[1\]'
	has "a comment" "$(comments)" 'strategy process, user code only'
	has "a comment" "$(comments)" 'by a sidecar of its Pod: user code alone, and no tracepoint, probe or raw counter'
	is "what of it is the kernel's" "$(samples | cut -f 4 | grep -E ';(entry_SYSCALL|asm_)' || :)" ""
	end_pod
}

test_offsets() { # its names come afterwards, by build-id
	begin_pod
	side
	app app "$LAB/bin/burn" 0.5
	profile_of_sidecar
	is "samples with a name" "$(samples | grep -c burn_loop || :)" 0
	"$LAB/bin/pillion" symbolize "$PROFILE" >said || fail "$(cat said)"
	between "ms of burn_loop" "$(msec '(burn_loop|cpu_spin)')" 350 $((600 + $(stolen_at_most)))
	end_pod
}

test_what_it_gets() { # events, and a process that it could not send a signal
	begin_pod
	printf '%s\n' "sidecars = yes" "tracepoints = yes" "kprobes = yes" "raw = yes" >etc/policy.conf
	side
	ct_start runc app "${LABELLED[@]}" -a io.pillion.profile=cpu,tracepoint:sched:sched_switch,kprobe:vfs_read,raw:r1c2 -v "$ROW/vol:/run/pillion" -- \
		"$LAB/bin/burn" 60
	until_true 5 grep -q outcome=armed log || fail "not armed: $(cat log)"
	pid=$(ct_pid side)
	is "directories that it has open, but its own" \
		"$(for fd in /proc/"$pid"/fd/*; do [[ ! -d $fd ]] || readlink "$fd"; done | grep -vxE '/run/pillion/profiles|/|/usr/lib/debug' || :)" ""
	is "its capabilities" "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" 0000000000000000
	has "the notes" "$(cat log)" 'left out: tracepoint'
	has "the notes" "$(cat log)" 'left out: kprobe'
	has "the notes" "$(cat log)" 'left out: raw'
	is "pids of the host that it is told" "$(nsenter --mount="/proc/$pid/ns/mnt" "$LAB/bin/pillion" ps --control /run/pillion/control.sock --json | jq -r '.[].pid')" 1
	end_pod
}

test_not_allowed() { # the node's takes it
	begin_pod "# nothing"
	side
	app app "$LAB/bin/burn" 0.5
	until_true 20 eval '[[ -n $(find spool -name "*.pb.gz") ]]' || fail "no profile: $(cat log)"
	is "the sidecar's profiles" "$(of_sidecar 2>/dev/null)" ""
	has "the log" "$(cat log)" 'not by the volume at /run/pillion: policy allows no sidecars'
	end_pod
}

test_other_pod() { # who listens is in another Pod, which has the same volume
	begin_pod
	in_pod "$OTHER"
	side
	in_pod "$POD"
	app app "$LAB/bin/burn" 0.2
	unprofiled "who listens at /run/pillion is not of the container's Pod"
	end_pod
}

test_host() { # nor one of the node's own
	begin_pod
	"$LAB/bin/pilliond" --control "$ROW/vol/control.sock" --spool "$ROW/vol/profiles" --log "$ROW/vol/log" --log-level info --metrics off &
	until_true 10 grep -qs state=ready vol/log || fail "it is not ready"
	app app "$LAB/bin/burn" 0.2
	unprofiled "who listens at /run/pillion is not of the container's Pod"
	kill $!
	wait $! || :
	cgroups_remove '*/pillion/service'
	end_pod
}

test_links() { # WHAT - the tenant's symbolic link is not followed
	begin_pod
	side
	case $1 in
	socket) mv vol/control.sock vol/real && ln -s real vol/control.sock ;;
	file) rm vol/control.sock && echo >vol/control.sock ;;
	volume) mv vol other && ln -s other vol ;;
	esac
	app app "$LAB/bin/burn" 0.2
	PROFILE=
	unprofiled "$2"
	end_pod
}

test_nobody() {
	begin_pod
	app app "$LAB/bin/burn" 0.2
	unprofiled 'no sidecar listens in the volume at /run/pillion yet: it has to be started before'
	end_pod
}

test_stopped() { # it accepts, and says nothing: the start is held up for the budget at most
	local began
	begin_pod
	side
	kill -STOP "$(ct_pid side)"
	began=$EPOCHREALTIME
	app app "$LAB/bin/burn" 0.2
	(((${EPOCHREALTIME/./} - ${began/./}) < 20000000)) || fail "that took from $began to $EPOCHREALTIME"
	unprofiled "$SILENT"
	kill -CONT "$(ct_pid side)"
	end_pod
}

# Who speaks from there is a tenant.
test_hostile() {
	local mode n=0
	begin_pod
	lab_install tools/peer
	for mode in garbage-1 version-1 confused-1 refuse-1 hangup-0 garbage-2 confused-2 refuse-3 hangup-3 garbage-3 die-2 silent-3; do
		n=$((n + 1))
		rm -f vol/control.sock log
		ct_start runc "side$n" -u 1000:1000 -v "$ROW/vol:/run/pillion" -- "$LAB/bin/peer" serve /run/pillion/control.sock "$mode"
		until_true 10 grep -q ready "$LAB/ct/side$n/out" || fail "$mode: it is not ready: $(ct_output "side$n")"
		ct_run runc "app$n" "${LABELLED[@]}" -a io.pillion.profile=cpu@499 -v "$ROW/vol:/run/pillion" -- "$LAB/bin/burn" 0.05 >out.app ||
			fail "$mode: exit status $?"
		echo "$mode: $(sed 's/.*outcome=/outcome=/' log)"
		unprofiled ""
		ct_rm "side$n"
	done
	end_pod
}

test_no_pod() { # containers side by side, of whoever
	begin_pod
	in_pod ""
	side
	app app "$LAB/bin/burn" 0.2
	unprofiled 'a sidecar has to be in the container.s Pod, but cgroup .* is in none'
	end_pod
}

row "a sidecar profiles its Pod's other container, from the first instruction, user code alone" test_profile
row "without files of the container: offsets and build-ids, for pillion symbolize" test_offsets
row "whatever the policy allows: no tracepoint, probe or raw counter, no directory, no pid of the host" test_what_it_gets
row "policy without sidecars: the node's profiler takes it" test_not_allowed
row "who listens is in another Pod with the same volume: refused" test_other_pod
row "who listens is on the host: refused" test_host
row "the socket is a symbolic link: not followed" test_links socket '/run/pillion/control.sock: a symbolic link is not followed'
row "the socket is a file: refused" test_links file '/run/pillion/control.sock is no socket'
row "the volume is a symbolic link: not followed" test_links volume 'the volume at /run/pillion on the host: a symbolic link is not followed'
row "no sidecar is there: the container starts" test_nobody
row "the sidecar is stopped: the container starts" test_stopped
row "a hostile sidecar: whatever it answers, the container starts" test_hostile
row "no Pod: refused" test_no_pod
