# suite_rootless - podman without root, as one installs it: a user of the lab, with users of his own below him, who registers the
# hook in his own containers.conf. Everything that comes of it is his.

. "$TOP/tests/integration/spine.sh"
lab_install pillion pilliond pillion-hook targets/first tools/deny
IMAGE=$LAB/image
ct_image "$IMAGE" sh cat "$LAB/bin/first=/own/first"
HIM=64910 # with the users from 6500000 on
UNDER=() # a command that his commands run under

# The user exists in the row's mount namespace only. CGROUPS: hybrid, or what crun can live with, where that is mounted.
begin_rootless() { # RUNTIME [PILLION.CONF LINE...]
	ct_need "podman-$1"
	need newuidmap go
	RUNTIME=$1
	mkdir -m 755 home run etc
	mkdir -m 700 run/user
	mkdir -p home/.config/containers home/.config/pillion
	ct_namespace
	ours passwd "lab:x:$HIM:$HIM::$ROW/home:/bin/sh" /etc/passwd
	ours group "lab:x:$HIM:" /etc/group
	ours subuid "lab:6500000:65536"
	ours subgid "lab:6500000:65536"
	[[ $1 != crun ]] || ! mountpoint -q /sys/fs/cgroup/unified || within umount /sys/fs/cgroup/unified
	within mount --make-rshared /
	printf '%s\n' '[engine]' 'cgroup_manager = "cgroupfs"' 'events_logger = "none"' "hooks_dir = [\"$ROW/home/hooks.d\"]" \
		'[containers]' 'default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]' 'netns = "none"' \
		'log_driver = "k8s-file"' >home/.config/containers/containers.conf
	printf '%s\n' "daemon = $LAB/bin/pilliond" 'budget = 5s' 'log_level = info' "log = $ROW/home/log" "${@:2}" >home/.config/pillion/pillion.conf
	register
	tar -C "$IMAGE" -cf image.tar .
	chown -R $HIM:$HIM home run/user
	trap end_rootless EXIT
	him podman import -q "$ROW/image.tar" localhost/lab/image:1 >/dev/null
	SPOOL=home/.local/state/pillion
}
ours() { # NAME LINE [FILE] - of /etc, with a line more
	{ cat ${3:-/dev/null} && echo "$2"; } >"$ROW/etc/$1"
	within touch "/etc/$1"
	within mount --bind "$ROW/etc/$1" "/etc/$1"
}
# The JSON that is installed for root, elsewhere.
register() {
	mkdir -p home/hooks.d
	sed "s#@HOOK@#$LAB/bin/pillion-hook#" "$TOP/hooks/engines/50-pillion.json.in" >home/hooks.d/50-pillion.json
}
within() { nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$@"; }
him() { # COMMAND...
	within ${UNDER[@]+"${UNDER[@]}"} setpriv --reuid $HIM --regid $HIM --init-groups --inh-caps=-all env -i --chdir="$ROW/home" HOME="$ROW/home" \
		XDG_RUNTIME_DIR="$ROW/run/user" PATH="$CT_PATH" TMPDIR="$ROW/home" "$@"
}
run_first() { # [OPTION...]
	him podman --runtime "$RUNTIME" run --rm --name c1 --annotation $FINE --annotation io.pillion.labels=team=red "$@" \
		localhost/lab/image:1 /own/first
}
end_rootless() { # podman leaves a process that holds the user's namespace
	UNDER=()
	him podman unshare rm -rf "$ROW/home/.local"
	kill -KILL "$(cat "$ROW/run/user/libpod/tmp/pause.pid")"
} >/dev/null 2>&1

his_profile() {
	until_true 20 eval '[[ -n $(find $SPOOL -name "*.pb.gz" 2>/dev/null) ]]' || fail "no profile: $(cat home/log)"
	PROFILE=$(find $SPOOL -name '*.pb.gz')
}
same_list() { # whose profile is $PROFILE, whose output is ./out
	is "the number of profiles" "$(wc -w <<<"$PROFILE")" 1
	is "its pid" "$(pids_of first)" "$(sed -n 's/^pid //p' out)"
	spent_as_said "the time before main" ';first_work' first_work out
	spent_as_said "main" ';main;then_work' then_work out
	has "the labels" "$(samples | grep then_work | awk 'NR == 1')" \
		' container:\[c1\] container_id:\['"$ID_RULE"'\].* process:\[first\].* thread:\[first\].* user\.team:\[red\]'
	has "a comment" "$(comments)" "strategy process, user code only"
	is "whose it is" "$(stat -c '%u %g %a' "$PROFILE")" "$HIM $HIM 640"
	nobody_of_ours
	him "$LAB/bin/pillion" top "$ROW/$PROFILE" >top
}

test_session() { # RUNTIME [OPTION...]
	begin_rootless "$1"
	leak_mark
	run_first "${@:2}" >out
	his_profile
	same_list
	until_true 10 eval '! any_profiler' || fail "its session does not end"
	leak_check
}
row "podman-runc: a session of the user's own" test_session runc
row "podman-crun: a session of the user's own" test_session crun
row "podman-runc: he is himself in there (--userns=keep-id)" test_session runc --userns=keep-id

test_service() { # RUNTIME
	begin_rootless "$1"
	him "$LAB/bin/pilliond" >service.out 2>&1 &
	until_true 10 test -S run/user/pillion/control.sock || fail "no service: $(cat service.out)"
	until_true 10 reader_is_there || : # the last of its processes
	leak_mark
	run_first >out
	his_profile
	same_list
	has "who has profiled it" "$(grep -c 'prog=pilliond .*state=armed' home/log)" '^1$'
	leak_check
	kill -KILL $(profilers)
	until_true 10 eval '! any_profiler'
	rm -r $SPOOL/c1
	run_first >out
	his_profile
	same_list
	until_true 10 eval '! any_profiler' || fail "its session does not end"
}
row "podman-runc: a service of the user's own; and when it has died" test_service runc

test_forbidden() { # RUNTIME ERRNO SENTENCE
	begin_rootless "$1"
	UNDER=("$LAB/bin/deny" perf_event_open "$2")
	is "its output" "$(run_first | sed -n 1p)" "pid 1"
	has "the log" "$(cat home/log)" "outcome=unprofiled reason=\"[^\"]*$3"
	is "profiles" "$(find $SPOOL -name '*.pb.gz' 2>/dev/null | wc -l)" 0
}
row "podman-runc: perf events are refused: it starts, and the log says why" test_forbidden runc EACCES \
	'kernel.perf_event_paranoid is [0-9]+'
