# suite_docker - Docker: a CDI device or the wrapper brings the hook in, as Docker has no directory of them; `pillion attach` by name.

. "$TOP/tests/integration/same_list.sh"
lab_install pillion-opener pillion-runc
D=docker-runc

row "$D, CDI: the list" same_list $D
row "$D, CDI: a user of its own, no capability" same_list $D -u 1234:1234 -o --cap-drop=all -o --security-opt=no-new-privileges
row "$D, CDI: the host's pids" same_list $D --pid host
row "$D, CDI: read-only, with tmpfs" same_list $D -o --read-only -o --tmpfs=/tmp

wrapped() { # FUNCTION [ARG...]
	OCI_docker_runc=$LAB/bin/pillion-runc
	"$@"
}
row "$D, wrapper: the list" wrapped same_list $D
row "$D, wrapper: a user of its own, no capability" wrapped same_list $D -u 1234:1234 -o --cap-drop=all -o --security-opt=no-new-privileges
row "$D, wrapper: the host's pids" wrapped same_list $D --pid host

test_plain() { # without an annotation there is nothing
	ct_need $D
	with service
	leak_mark
	is "its output" "$(ct_run $D c1 -i "$IMAGE" -- $OWN | sed -n 1p)" "pid 1"
	leak_check
	is "profiles" "$(count_profiles)" 0
	has_not "the log" "$(cat log)" 'container='
}
row "$D, CDI: no annotation, no profile" test_plain
row "$D, wrapper: no annotation, no profile" wrapped test_plain

test_attach() { # by the name that docker knows
	ct_need $D
	with session
	HOOK_ARGS=()
	ct_start $D "web-$ROW_NUMBER" -i "$IMAGE" -- $OWN on
	leak_mark
	PATH=$LAB/docker/bin:$PATH DOCKER_HOST=unix://$LAB/docker/sock DOCKER_CONFIG=$LAB/docker/client "$LAB/bin/pillion" attach \
		--daemon "$LAB/bin/pilliond" --control "$ROW/control.sock" --output "$ROW/spool" --duration 1s "web-$ROW_NUMBER" >path ||
		fail "exit status $?"
	PROFILE=$(cat path)
	is "its pid" "$(pids_of first)" 1
	has "the profile" "$(samples | awk 'NR == 1')" " container:\[web-$ROW_NUMBER\] .*process:\[first\]"
	has "the functions" "$(samples | cut -f 4)" ';main;then_work'
	leak_check
	ct_stop "web-$ROW_NUMBER"
}
row "$D: pillion attach by its name" test_attach
