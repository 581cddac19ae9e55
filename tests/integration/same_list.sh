# same_list.sh - for the suites of what containers and engines there are, which source it: the same list of checks for each. The container's own
# pids, what ran before main, labels, names of functions after it has been removed, nothing left behind, and that it starts and
# is profiled all the same when the service has died.

. "$TOP/tests/integration/spine.sh"
unset SAYS BEFORE STRATEGY INIT PROCESS # others' of these names
lab_install pillion-opener targets/first
IMAGE=$LAB/image
ct_image "$IMAGE" sh sleep cat "$LAB/bin/first=/own/first"
OWN=/own/first # nowhere but in the image: whoever names its functions has been in the container

# STRATEGY: what `auto` comes to, if not what it usually does. SAYS: a regex that one of the comments matches. INIT: other
# arguments than $OWN. BEFORE: a function that is called when the image and the service are there. PROCESS: what it is called.
same_list() { # RUNTIME [OPTION...]
	RUNTIME=$1 PROCESS=${PROCESS-first}
	STRATEGY=${STRATEGY-$(strategy_of "$1")} INIT=("${INIT[@]-$OWN}")
	ct_need "$1"
	with service
	ct_run "$1" c0 -i "$IMAGE" -a $FINE -- $OWN >/dev/null # makes what stays: storage, the service's cgroup
	profile
	rm -r spool/*
	[[ -z ${BEFORE-} ]] || "$BEFORE"
	leak_mark
	hold_settled
	one_start service "$@"
	until_true 10 same_held || fail "the service held $HELD and holds $(holding)"
	leak_check
	kill -KILL $(profilers)
	until_true 10 eval '! any_profiler'
	rm -r spool/*
	one_start session "$@"
	until_true 10 eval '! any_profiler' || fail "its session does not end"
	leak_check
}

one_start() { # service|session RUNTIME [OPTION...]
	ROUND=$1
	ct_run "$2" c1 -i "$IMAGE" -a $FINE -a io.pillion.labels=team=red "${@:3}" -- "${INIT[@]}" >out || fail "its exit status is $?: $(cat out)"
	profile
	is "the number of profiles ($ROUND)" "$(count_profiles)" 1
	is "its pid ($ROUND)" "$(pids_of $PROCESS)" "$(sed -n 's/^pid //p' out)"
	spent_as_said "the time before main ($ROUND)" ';first_work' first_work out
	spent_as_said "main ($ROUND)" ';main;then_work' then_work out
	has "the labels ($ROUND)" "$(samples | grep then_work | awk 'NR == 1')" ' container_id:\['"$ID_RULE"'\].* process:\['"$PROCESS"'\].* thread:\['"$PROCESS"'\].* user\.team:\[red\]'
	has "a comment ($ROUND)" "$(comments)" "strategy $STRATEGY"
	[[ -z ${SAYS-} ]] || has "a comment ($ROUND)" "$(comments)" "$SAYS"
	nobody_of_ours
}
