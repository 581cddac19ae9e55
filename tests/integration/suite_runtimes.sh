# suite_runtimes - the lab itself: what runtimes.sh promises, under every runtime, with a hook that only takes notes.

NOTES=$LAB/bin/notes
cat >"$NOTES" <<'SH'
#!/bin/sh
# keeps the state that the runtime hands over: notes DIR
cat >"$1/state.$(date +%s%N)"
SH
chmod +x "$NOTES"
ON=io.pillion.profile=on

with_notes() {
	mkdir states
	HOOK_ARGS=("$NOTES" "$ROW/states")
}

hook_calls() { find states -type f -exec cat {} + | jq -r .status | sort | xargs; }

test_exit() { # RUNTIME
	ct_need "$1"
	with_notes
	leak_mark
	local status=0
	ct_run "$1" c1 -a $ON -- sh -c 'echo out; echo pid $$; exit 7' >out || status=$?
	is "the exit status" $status 7
	is "the output" "$(cat out)" $'out\npid 1'
	has "the hook's calls" "$(hook_calls)" '^creat(ed|ing) stopped$'
	is "the state's annotation" "$(jq -r '.annotations["io.pillion.profile"]' states/* | sort -u)" on
	leak_check
}

test_start() { # RUNTIME
	ct_need "$1"
	with_notes
	leak_mark
	ct_start "$1" c1 -a $ON -v "$ROW:/volume" -e WORD=hello -- sh -c 'echo $WORD >/volume/word; exec sleep 1000'
	until_true 5 grep -qa ^sleep "/proc/$(ct_pid c1)/cmdline" || fail "its init is not what was asked for"
	is "the word in the volume" "$(cat word)" hello
	is "the state's id" "$(jq -r .id states/*)" "$(ct_id c1)"
	is "the state's pid" "$(jq -r .pid states/*)" "$(ct_pid c1)"
	is "the exec's exit status" "$(status_of ct_exec c1 -- sh -c 'touch /volume/exec; exit 9')" 9
	[[ -e exec ]] || fail "the exec did not run in the container"
	is "the exec's user" "$(ct_exec c1 -u 65534 -- id -u)" 65534
	has "its cgroup" "$(ct_cgroup c1)" "^$LAB_CGROUP/"
	ct_stop c1
	ct_wait c1 2 || fail "it still runs"
	ct_rm c1
	has "the hook's calls" "$(hook_calls)" '^creat(ed|ing) stopped$'
	leak_check
}

test_options() { # RUNTIME
	ct_need "$1"
	leak_mark
	is "the user" "$(ct_run "$1" c1 -u 1234:99 -- id -u)" 1234
	is "the pid in the host's namespace" "$(ct_run "$1" c2 --pid host -- sh -c 'readlink /proc/self/ns/pid')" \
		"$(readlink /proc/self/ns/pid)"
	ct_start "$1" c3 -- sleep 1000
	until_true 5 readlink "/proc/$(ct_pid c3)/ns/pid" || fail "c3 does not run"
	is "the pid namespace of another" "$(ct_run "$1" c4 --pid container:c3 -- readlink /proc/self/ns/pid)" \
		"$(readlink "/proc/$(ct_pid c3)/ns/pid")"
	install -m 4755 "$(command -v id)" "$LAB/bin/id"
	is "a setuid program's user" "$(ct_run "$1" c5 -u 1234 -- "$LAB/bin/id" -u)" 0
	ct_rm c3
	leak_check
}

test_failed_hook() { # RUNTIME
	ct_need "$1"
	leak_mark
	HOOK_ARGS=(/bin/false)
	[[ $(status_of ct_run "$1" c1 -a $ON -- touch "$ROW/ran") != 0 ]] || fail "a failing hook did not fail the start"
	leak_check
}

test_no_annotation() {
	ct_need podman-runc
	with_notes
	ct_run podman-runc c1 -- true
	is "the hook's calls" "$(hook_calls)" ""
}

for runtime in "${CT_RUNTIMES[@]}"; do
	row "$runtime: the hook is told of start and end, the exit status comes back, nothing stays" test_exit "$runtime"
	row "$runtime: a container in the background takes exec, stop and remove" test_start "$runtime"
	row "$runtime: users, setuid programs, foreign pid namespaces" test_options "$runtime"
	row "$runtime: a hook that fails fails the start, and nothing stays" test_failed_hook "$runtime"
done
row "podman calls the hook for annotated containers only" test_no_annotation
