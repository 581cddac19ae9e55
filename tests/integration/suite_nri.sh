# suite_nri - Pods of containerd, profiled by their annotations through its Node Resource Interface: by pillion-nri, and by the hook
# that it has containerd call. What containerd cannot be made to say is said by tests/tools/nri-runtime.

. "$TOP/tests/integration/spine.sh"
. "$TOP/tests/integration/pods.sh"
lab_install pillion pilliond pillion-hook pillion-nri
ASK=io.pillion.profile

# --- a plugin in a row

with_nri() { # VERSION session|service [OPTION...] - of pillion-nri
	containerd_up "$1"
	with "$2"
	leak_mark
	nri_up "${@:3}"
}
nri_options() { # of the row; the plugin and the hook have the same
	OPTIONS=(--control "$ROW/control.sock" --spool "$ROW/spool" --log "$ROW/log" --daemon "$LAB/bin/pilliond")
}
AFTER=()
nri_up() { # [OPTION...] ours first; AFTER: what comes behind those that all have
	local before
	nri_options
	before=$(times_connected)
	"$LAB/bin/pillion-nri" --etc "$ROW/etc" --nri "$CRI/nri/nri.sock" "$@" "${OPTIONS[@]}" ${AFTER[@]+"${AFTER[@]}"} >>nri.out 2>&1 &
	NRI=$!
	until_true 10 connected_again "$before" || fail "the plugin is not connected: $(cat nri.out log)"
}
times_connected() { { cat log 2>/dev/null || :; } | grep -c state=connected || :; }
connected_again() { (($(times_connected) > $1)); }
nri_down() {
	kill -TERM "$NRI"
	wait "$NRI" || fail "the plugin's exit status is $?"
}
talker() { pgrep -P "$NRI" -x pillion-nri-t; }
armed() { { cat log 2>/dev/null || :; } | grep -c 'outcome=armed' || :; }
has_armed() { (($(armed) >= $1)); }
nri_end() {
	nri_down
	pods_done
	[[ -z ${SERVICE-} ]] || { kill -TERM "$SERVICE" && wait "$SERVICE"; }
	cgroups_remove '*/pillion/session-*'
	leak_check
}
labels_of_the_pod() {
	has "the labels" "$(samples)" ' container:\[web\] container_id:\['"$CONTAINER"'\] .*namespace:\[prod\].* pod:\[shop-0\].* service_name:\[till\]'
}
targets_in_spool() { find spool -name '*.pb.gz' -printf '%P\n' | xargs -n 1 dirname | sort -u | xargs; } # the directories of its targets
the_pod() { pod shop-0 -n prod -l app.kubernetes.io/name=till "$@"; }

# --- a profile

test_profile() { # VERSION MODE
	with_nri "$1" "$2"
	the_pod -a "$ASK=cpu@499"
	start web -- /bin/burn 0.5
	ended
	cri rm "$CONTAINER"
	profile
	is "the number of profiles" "$(count_profiles)" 1
	spent burn_loop ';burn_loop' 450 550
	labels_of_the_pod
	has "the labels" "$(samples)" ' process:\[burn\].* pid:\[1\] tid:\[1\]'
	has "a comment" "$(comments)" 'strategy cgroup, user and kernel code'
	has_not "the profile" "$(samples | cut -f 3)" '(process|exe|thread):\[(pillion|runc)[^]]*\]'
	nri_end
}
test_first_instruction() { # VERSION
	with_nri "$1" service
	the_pod -a "$ASK=cpu@999"
	start web -- /bin/ctor
	ended
	pods_done # the image's layers are unmounted before anything is named in earnest
	profile
	spent "the constructor" ';ctor_work' 25 36
	has "a stack" "$(samples | grep ctor_work | cut -f 4)" '(^|;)_start;.*begin;ctor_work'
	between "the time in ld.so" "$(msec '[\t;](_dl_|ld-linux)')" 1 1000
	nri_end
}
for version in "${PODS_VERSIONS[@]}"; do
	row "containerd $version, service: a Pod's function is named, with Pod, namespace, container and service" in_pods test_profile "$version" service
	row "containerd $version, session: a Pod's function is named, with Pod, namespace, container and service" in_pods test_profile "$version" session
	row "containerd $version: constructor and ld.so are seen, attached before the first instruction" in_pods test_first_instruction "$version"
done

# --- the same by a CDI device, without any plugin

one_by_device() { # NAME
	start "$1" --device pillion.io/profiler=default -- /bin/ctor
	ended
	pods_done
	profile
	is "the number of profiles" "$(count_profiles)" 1
	spent "the constructor" ';ctor_work' 25 36
	has "the labels" "$(samples)" ' container:\['"$1"'\] .*namespace:\[prod\].* pid:\[1\].* pod:\[shop-0\]'
	has_not "the profile" "$(samples | cut -f 3)" '(process|exe|thread):\[(pillion|runc)[^]]*\]'
}
test_device() { # VERSION
	mkdir -p "$LAB/cdi"
	PODS_CDI=$LAB/cdi containerd_up "$1" device
	with service
	cdi_specification "$LAB/cdi"
	leak_mark
	the_pod -a "$ASK=cpu@999"
	start plain -- /bin/burn 0.1
	ended
	one_by_device web
	kill -KILL $(profilers) 2>/dev/null || : # each ends when another one has
	until_true 10 eval '! any_profiler'
	rm -r spool/*
	the_pod -a "$ASK=cpu@999"
	one_by_device again
	until_true 10 eval '! any_profiler' || fail "its session does not end"
	# the session wrote longer than the hook of stage poststop waits; the next session would take its cgroup away
	cgroups_remove '*/pillion/se[rs]*' # service, session
	leak_check
}
for version in "${PODS_VERSIONS[@]}"; do
	row "containerd $version, CRI: a CDI device and the annotation; and when the service has died" in_pods test_device "$version"
done

# With what `pillion inject` has in a container: its init has its own root file system by now.
test_alloc() {
	with_nri 1.7 service
	lab_install libpillion.so
	the_pod -a "$ASK=alloc/1024"
	start web -v "$LAB/bin/libpillion.so:/run/pillion/libpillion.so" -e LD_PRELOAD=/run/pillion/libpillion.so \
		-e PILLION_SOCKET=/run/pillion/app.sock -- /bin/sites 1
	ended
	profile
	has "what it allocates" "$("$LAB/bin/pillion" report --folded --type alloc_space "$PROFILE")" 'main;[a-z_]+'
	nri_end
}
row "what a program of a Pod allocates" in_pods test_alloc

# --- which containers

test_one_of_a_pod() {
	with_nri 1.7 service
	the_pod -a "$ASK/container.web=cpu"
	start db -- /bin/burn 0.2
	start web -- /bin/burn 0.2
	ended
	profile
	pod shop-1 -n prod -a "$ASK=cpu" -a "$ASK/container.db=off"
	start db -- /bin/burn 0.2
	start web2 -- /bin/burn 0.2
	ended
	profile 2
	is "targets with profiles" "$(targets_in_spool)" "prod/shop-0/web prod/shop-1/web2"
	nri_end
}
test_one_name() { # of containers of three Pods
	local of
	with_nri 1.7 service
	for of in prod/shop-0 prod/shop-1 test/shop-0; do
		pod "${of#*/}" -n "${of%/*}" -a "$ASK=cpu@499"
		start main -- /bin/burn 0.2
		ended
	done
	profile 3
	is "targets with profiles" "$(targets_in_spool)" "prod/shop-0/main prod/shop-1/main test/shop-0/main"
	for of in prod/shop-0 prod/shop-1 test/shop-0; do
		has "labels of $of" "$(samples "$(find "spool/$of/main" -name '*.pb.gz')")" " container:\[main\] .*namespace:\[${of%/*}\].* pod:\[${of#*/}\]"
		is "the index, of $of" "$(jq -r "select(.namespace == \"${of%/*}\" and .pod == \"${of#*/}\") | .name + \" \" + .file" spool/index.jsonl | sed 's|/[^/]*$||')" "main $of/main"
	done
	is "modes" "$(find spool -mindepth 1 -type d -printf '%m\n' | sort -u)" 750
	nri_end
}
test_unasked() { # the pause container of the other Pod is asked for as little
	with_nri 1.7 service
	pod plain
	start web -- /bin/burn 0.2
	ended
	the_pod -a "$ASK=cpu"
	start web -- /bin/burn 0.2
	ended
	profile
	is "what was attached" "$(armed)" 1
	is "warnings" "$(grep -c level=warn log)" 0
	nri_end
}
test_switched_off() {
	with_nri 1.7 service
	: >etc/off
	the_pod -a "$ASK=cpu"
	start web -- /bin/burn 0.1
	rm etc/off
	start web2 -- /bin/burn 0.1
	echo 'max_rate = 50' >etc/policy.conf
	pod shop-1 -n prod -a "$ASK=cpu@499"
	start web3 -- /bin/burn 0.1
	is "what was attached" "$(armed)" 2
	until_true 10 eval '(($(count_profiles) == 2))' || fail "$(count_profiles) profiles"
	has "the profile under policy" "$(comments "$(find spool/prod/shop-1/web3 -name '*.gz')")" 'rate lowered to 50 Hz by policy'
	is "targets with profiles" "$(targets_in_spool)" "prod/shop-0/web2 prod/shop-1/web3"
	nri_end
}
test_namespaces() {
	with_nri 1.7 service
	echo 'namespaces = dev-*' >etc/policy.conf
	the_pod -a "$ASK=cpu" # it is in prod
	start web -- /bin/burn 0.1
	is "what was attached" "$(armed)" 0
	grep -q 'outcome=forbidden reason="the administrator.s policy lets namespace prod have no profile' log || fail "the log says nothing of it"
	echo 'namespaces = dev-*, pro?' >etc/policy.conf
	start web2 -- /bin/burn 0.1
	is "what was attached" "$(armed)" 1
	nri_end
}
row "a Pod in a namespace that policy does not let have a profile starts without, and the log says so" in_pods test_namespaces
row "an annotation of one container profiles that one, and off leaves it out" in_pods test_one_of_a_pod
row "containers of one name in three Pods: each has a directory of its own" in_pods test_one_name
row "a Pod without annotation and a pause container are left alone" in_pods test_unasked
row "switched off, a Pod starts without; switched on, the next one is profiled" in_pods test_switched_off

# --- nothing holds up a Pod

BAR_MS=500 # the budget: no start may take ten times that longer
starts_soon() { # WHAT [OPTION...] -- PROGRAM...
	local began=${EPOCHREALTIME/./} name=web$RANDOM
	container "$name" "${@:2}"
	cri start "$CONTAINER" || fail "$1: the container does not start"
	between "ms to start, $1," $(((${EPOCHREALTIME/./} - began) / 1000)) 0 $((BAR_MS * 10))
	ended
	is "its exit status, $1," "$(cri exit "$CONTAINER")" 0
}
test_stopped() { # service|starter|talker
	local who
	with_nri 1.7 service
	echo 'log_level = info' >etc/pillion.conf # with the usual budget
	nri_down
	rm log
	nri_up
	the_pod -a "$ASK=cpu"
	case $1 in service) who=$SERVICE ;; starter) who=$NRI ;; talker) who=$(talker) ;; esac
	kill -STOP "$who"
	starts_soon "the $1 stopped" -- /bin/burn 0.1
	starts_soon "the $1 stopped, again" -- /bin/burn 0.1
	kill -CONT "$who"
	# containerd waits four times as long as we do, for the other two
	[[ $1 == talker ]] || is "how often the plugin had to connect" "$(times_connected)" 1
	until_true 20 profiled_again || fail "never profiled again: $(cat log)"
	nri_end
}
profiled_again() {
	local before
	before=$(armed)
	start again$RANDOM -- /bin/burn 0.05
	ended
	has_armed $((before + 1))
}
test_dead() { # SIGNAL'd service, its socket still there
	with_nri 1.7 service
	the_pod -a "$ASK=cpu"
	kill -KILL $(profilers)
	wait "$SERVICE" || :
	SERVICE=
	starts_soon "the service dead" -- /bin/burn 0.3
	profile # a session has taken its place
	nri_down
	starts_soon "the plugin gone" -- /bin/burn 0.1
	is "the number of profiles" "$(count_profiles)" 1
	nri_up
	nri_end
}
# From the moment on at which a start begins: 12 of them for each, 3 ms apart
test_killed() { # starter|talker|both
	local ms who
	with_nri 1.7 service
	the_pod -a "$ASK=cpu"
	for ms in {0..33..3}; do
		case $1 in starter) who=$NRI ;; talker) who=$(talker) ;; both) who="$NRI $(talker)" ;; esac
		container "web$ms" -- /bin/burn 0.02
		(sleep "0.0$(printf '%02d' $((ms + 20)))" && kill -KILL $who) & # what the client itself takes before it asks
		cri start "$CONTAINER" || fail "killed after $ms ms: the container does not start"
		wait $! || :
		ended
		is "its exit status" "$(cri exit "$CONTAINER")" 0
		if [[ $1 == talker ]]; then
			until_true 10 eval '[[ -n $(talker) ]]' || fail "no new talker"
		else
			wait "$NRI" || :
			nri_up
		fi
	done
	until_true 10 profiled_again || fail "never profiled again: $(cat log)"
	nri_end
}
for who in service starter talker; do
	row "the $who is stopped: Pods start, and are profiled when it goes on" in_pods test_stopped "$who"
done
row "the service is dead: a session takes its place; no plugin: a Pod starts without" in_pods test_dead
for who in starter talker both; do
	row "killed at each moment of a start ($who): every Pod starts" in_pods test_killed "$who"
done

# --- restarts

test_containerd_restarts() { # VERSION SIGNAL
	local before
	with_nri "$1" service
	the_pod -a "$ASK=cpu"
	start web -- /bin/burn 100
	before=$(times_connected)
	containerd_down "$2"
	containerd_again
	until_true 20 connected_again "$before" || fail "not connected again: $(cat log)"
	start web2 -- /bin/burn 0.1
	is "what was attached: the one before goes on, and is not attached again" "$(armed)" 2
	is "targets" "$("$LAB/bin/pillion" ps --control "$ROW/control.sock" --json | jq -r '[.[].name] | sort | .[0]')" web
	nri_end
}
test_plugin_restarts() {
	with_nri 1.7 service
	the_pod -a "$ASK=cpu"
	start web -- /bin/burn 100
	nri_down
	nri_up
	start web2 -- /bin/burn 0.1
	is "what was attached: the one before goes on, and is not attached again" "$(armed)" 2
	cri stop "$CONTAINER" || :
	nri_end
}
for version in "${PODS_VERSIONS[@]}"; do
	row "containerd $version is killed and started again: the plugin is there again" in_pods test_containerd_restarts "$version" KILL
done
row "the plugin is started again: what runs is profiled on, and not twice" in_pods test_plugin_restarts

# A program in the plugin directory: containerd starts it, with one descriptor and no arguments. Here a script gives it those of the row.
pre_installed() { # VERSION [LINE of its configuration]
	containerd_up "$1"
	with service
	nri_options
	printf '#!/bin/sh\nexec %s --etc %s/etc --hook %s %s -- --etc %s/etc %s\n' "$LAB/bin/pillion-nri" "$ROW" "$LAB/bin/pillion-hook" \
		"${OPTIONS[*]}" "$ROW" "${OPTIONS[*]}" >plugin
	chmod 755 plugin
	ln -s "$ROW/plugin" "$CRI/nri/plugins/50-pillion"
	printf '%s\n' "${@:2}" >"$CRI/nri/conf.d/50-pillion.conf"
	containerd_down
	containerd_again
	until_true 10 connected_again 0 || fail "not connected: $(cat log; tail -n 5 "$LAB/keep/${CRI##*/}.log")"
	rm "$CRI"/nri/{plugins/50-pillion,conf.d/50-pillion.conf}
	the_pod -a "$ASK=cpu@499"
	start web -- /bin/burn 0.3
	ended
	profile
	labels_of_the_pod
	pods_done
	containerd_down
	until_true 10 eval '! pgrep -f "^$LAB/bin/pillion-nri --etc $ROW/"' >/dev/null || fail "it outlives containerd: $(pgrep -af "$LAB/bin/pillion-nri")"
	containerd_again
}
test_pre_installed() { # VERSION
	pre_installed "$1" ''
	has "the log" "$(cat log)" 'state=connected mode=attach'
	has "the log" "$(grep outcome=armed log)" prog=pillion-nri
}
test_pre_installed_hook() { # VERSION
	pre_installed "$1" inject-hook
	has "the log" "$(cat log)" 'state=connected mode=inject-hook'
	has "the log" "$(grep outcome=armed log)" prog=pillion-hook
}
for version in "${PODS_VERSIONS[@]}"; do
	row "containerd $version starts it as a plugin of its own, and it ends with containerd" in_pods test_pre_installed "$version"
done
row "a plugin of containerd's own, told by its file to have the hook called" in_pods test_pre_installed_hook 1.7

test_unprivileged() {
	local pid field
	with_nri 1.7 service
	pid=$(talker)
	for field in 'CapEff:.*0000000000000000' 'CapPrm:.*0000000000000000' 'CapBnd:.*0000000000000000' 'NoNewPrivs:.*1' 'Seccomp:.*2'; do
		has "what speaks with the runtime" "$(cat "/proc/$pid/status")" "$field"
	done
	has_not "its user" "$(sed -n 's/^Uid://p' "/proc/$pid/status")" '[[:space:]]0[[:space:]]'
	is "its descriptors, but /dev/null" "$(find "/proc/$pid/fd" -lname 'socket:*' | wc -l) of $(find "/proc/$pid/fd" -type l ! -lname /dev/null | wc -l)" "2 of 2"
	nri_end
}
row "what speaks with the runtime has no privilege, and two sockets" in_pods test_unprivileged

test_mistakes() {
	need_root
	nri_options
	mkdir etc
	is "the status of a bad option" "$(status_of "$LAB/bin/pillion-nri" --inject 2>said)" 2
	has "the sentence" "$(cat said)" '^pillion-nri: .*--inject'
	is "the status of a relative hook" "$(status_of "$LAB/bin/pillion-nri" --hook hook 2>said)" 2
	has "the sentence" "$(cat said)" 'an absolute path'
	is "the status of a plain user" "$(status_of setpriv --reuid 65534 --clear-groups "$LAB/bin/pillion-nri" 2>said)" 2
	has "the sentence" "$(cat said)" 'not root'
	is "the status without a runtime's descriptor" "$(NRI_PLUGIN_SOCKET=77 status_of "$LAB/bin/pillion-nri" 2>said)" 2
	has "the sentence" "$(cat said)" 'NRI_PLUGIN_SOCKET=77'
	"$LAB/bin/pillion-nri" --etc "$ROW/etc" --nri "$ROW/none.sock" "${OPTIONS[@]}" &
	until_true 20 grep -qs 'state=waiting reason="no runtime at .*none.sock .*disable = false' log || fail "not said: $(cat log)"
	sleep 1
	is "how often it was said" "$(grep -c state=waiting log)" 1
	kill -TERM $!
	wait $! || fail "its exit status is $?"
}
row "mistakes: one sentence each" in_pods test_mistakes

# --- the hook, called for it

labels_of_burn() { # but for what differs from container to container
	samples | awk -F'\t' '/burn_loop/ && !found++ { print $3 }' | sed "s/$CONTAINER/ID/; s/ host_pid:[^ ]*//"
}
test_injected() { # VERSION
	local by_nri
	with_nri "$1" service
	the_pod -a "$ASK=cpu@499"
	start web -- /bin/burn 0.3
	ended
	profile
	by_nri=$(labels_of_burn)
	nri_down
	rm -r spool/*
	AFTER=(-- --etc "$ROW/etc" "${OPTIONS[@]}")
	nri_up --inject-hook --hook "$LAB/bin/pillion-hook"
	cri rm "$CONTAINER"
	start web -- /bin/burn 0.3
	ended
	profile
	has "the log" "$(grep "container=$CONTAINER .*outcome=armed" log)" prog=pillion-hook
	labels_of_the_pod
	is "the labels" "$(labels_of_burn)" "$by_nri"
	nri_end
}
test_no_hook() {
	with_nri 1.7 service --inject-hook --hook "$ROW/hook"
	the_pod -a "$ASK=cpu"
	start web -- /bin/burn 0.1
	has "the log" "$(cat log)" 'outcome=unprofiled reason="the hook is not there'
	install "$LAB/bin/pillion-hook" hook
	chmod 700 hook
	start web2 -- /bin/burn 0.1
	is "what was attached" "$(armed)" 0
	nri_end
}
for version in "${PODS_VERSIONS[@]}"; do
	row "containerd $version calls our hook for it: the same target, the same labels" in_pods test_injected "$version"
done
row "a hook that is not there is not called" in_pods test_no_hook

# --- what tenants write

test_hostile() {
	local long
	with_nri 1.7 service
	head -c 1000000 /dev/zero | tr '\0' x >long
	pod hostile -n prod -a "$ASK=cpu" -a io.pillion.labels=@long -a "io.pillion.window/container.web=@long"
	start web -- /bin/burn 0.05
	has "the log" "$(tail -n 1 log)" 'outcome=unprofiled reason="annotation io.pillion.labels: the value is no string of at most 4096 bytes"'
	pod hostile2 -a "$ASK=cpu"$'\033[2J\nlevel=error' -a $'io.pillion.x\ny=1'
	start web -- /bin/burn 0.05
	has "the log" "$(tail -n 1 log)" 'outcome=unprofiled reason="annotation io.pillion.profile'
	pod hostile3 -a "$ASK=/etc/passwd"
	start web -- /bin/burn 0.05
	has "the log" "$(tail -n 1 log)" 'outcome=unprofiled'
	# in a container's name that somebody else has, and in others' names
	pod hostile4 -n $'p\nq' -a "$ASK/container.web=cpu" -l "app.kubernetes.io/name="$'till\033[2J'
	start db -- /bin/burn 0.05
	start web -a "$ASK=off" -- /bin/burn 0.05
	ended
	has "the log" "$(tail -n 1 log)" .
	is "what was attached" "$(armed)" 1
	is "lines that are none of ours" "$(grep -vc '^time=' log || :)" 0
	profile
	has "the labels" "$(samples)" 'namespace:\[p\?q\].* service_name:\[till\?\[2J\]'
	long=()
	for n in {1..600}; do long+=(-a "io.pillion.x$n=1"); done
	pod hostile5 -a "$ASK=cpu" "${long[@]}"
	start web -- /bin/burn 0.05
	has "the log" "$(tail -n 1 log)" 'more than 512 annotations'
	nri_end
}
row "annotations of a megabyte, of control characters, of another container: one line each, and the Pod starts" in_pods test_hostile

# --- what containerd cannot be made to say

says_runtime() { # SCENARIO [ARG...] - to a plugin of its own
	nri_options
	timeout 50 "$TOP/tests/tools/nri-runtime" "$@" -- "$LAB/bin/pillion-nri" --etc "$ROW/etc" "${OPTIONS[@]}"
}
test_said() { # SCENARIO...
	need_root
	need python3
	mkdir -p etc spool
	says_runtime "$@" || fail "$(cat log)"
	if [[ $1 == silent ]]; then
		has "the log" "$(cat log)" 'reason="the runtime does not answer the registration"'
	elif [[ $1 == oversized ]]; then
		has "the log" "$(cat log)" 'reason="the runtime.s message has 4194305 bytes, 4194304 is the most"'
	fi
}
while read -r scenario text; do
	row "$text" in_pods test_said ${scenario//,/ }
done <<'TABLE'
sync,500	500 containers, told in parts: each part is answered
unknown	methods of runtimes to come: not implemented, and the next one is answered
pieces	a conversation of which each byte is a frame of its own
cut	a connection that ends after each byte of a conversation: so does the plugin
oversized	frames that are too large, or nonsense: it hangs up, and says why
silent	a runtime that never answers the registration
TABLE

# Containers that were made and not started, by a runtime alone; somebody tells us of them.
parked() { # RUNTIME NAME
	ct_parse "$1" "$2" -- "$LAB/bin/burn" 0.3
	ct_bundle
	bare_ create --bundle "$C_DIR" --pid-file "$C_DIR/pid" "$C_NAME" </dev/null >created 2>&1 || fail "$(cat created)"
}
told_of() { # NAME PID [old]
	says_runtime start "$2" "$1" "${@:3}" || fail "$(cat log)"
}
test_old_runtime() { # RUNTIME
	ct_need "$1"
	need python3
	with service
	parked "$1" c1
	told_of c1 "$(ct_pid c1)" old
	has "the log" "$(cat log)" 'container=c1 .*outcome=armed'
	ct_find c1
	bare_ start c1
	ct_wait c1
	profile
	spent burn_loop ';burn_loop' 250 350
	ct_rm c1
}
# The plugin answers the runtime, and writes its line when its child has ended.
refused_of() { # REGEX CONTAINER PID
	local seen
	seen=$(wc -l <log)
	told_of "$2" "$3"
	until_true 10 said_since "$seen" "$1" || fail "since line $seen the log has no \"$1\": $(tail -n 4 log)"
}
said_since() { tail -n +$(($1 + 1)) log | grep -E -e "$2" >/dev/null; }
test_forged() {
	ct_need runc
	need python3
	with service
	parked runc c1
	refused_of 'container=other .*reason="pid [0-9]+ is in no cgroup of container other"' other "$(ct_pid c1)"
	refused_of 'is not parked by runc, crun or youki' c1 $$
	refused_of 'is not parked by runc, crun or youki' c1 "$SERVICE"
	refused_of 'outcome=unprofiled' c1 4000000
	ct_find c1
	bare_ start c1
	refused_of 'is not parked by runc, crun or youki' c1 "$(ct_pid c1)"
	is "what was attached" "$(armed)" 0
	ct_wait c1
	ct_rm c1
}
for runtime in runc crun; do
	row "a runtime that tells of $runtime's container by StateChange: profiled, also when the plugin ends" in_pods test_old_runtime "$runtime"
done
row "pids that are no parked init of that container are refused" in_pods test_forged
