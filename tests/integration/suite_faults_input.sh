# suite_faults_input - services that are absent or sick, children that die, hostile state, config.json and annotations: a container
# starts all the same. How a row is made: parked.sh.

. "$TOP/tests/integration/parked.sh"

# --- no service, or a sick one

test_no_service() {
	begin --daemon "$ROW/none"
	fault "cannot start a session: cannot run $ROW/none: No such file or directory"
}

test_healthy() { # the lab is right: without a fault the very same calls give a profile
	begin
	service
	lesser ""
	has "the profile" "$(folded)" "burn_loop"
}

test_healthy_session() {
	begin
	lesser ""
	has "the profile" "$(folded)" "burn_loop"
}

# What waits for the service has a second: on a busy machine half of one is what it takes to read the state.
test_stopped_service() {
	begin --budget 1s
	service
	kill -STOP "$SERVICE"
	for _ in first second; do
		call
		unprofiled "$SILENT"
	done
	HOOK_ARGS+=(--budget 5s) # had it waited, it would be late (SLOWEST_MS)
	call
	unprofiled "pilliond at $SOCKET did not answer 2 starts in a row and is skipped until it is back"
	strictly on
	call
	refused "pilliond at $SOCKET did not answer 2 starts in a row and is skipped until it is back"
	strictly off
	kill -CONT "$SERVICE"
	until_true 10 memory_is_zero || fail "it is not forgiven: $(od -An -tu4 run/hook.state)"
	: >service.log
	lesser ""
}
memory_is_zero() { [[ $(od -An -tu4 run/hook.state) -eq 0 ]]; }

test_fake() { # MODE REGEX
	begin --budget "${3:-5s}"
	fake "$1"
	fault "$2"
}

test_killed_service() {
	begin
	# the first ioctl is the worker's on the first event that it is handed; so it is with the next worker
	service "$LAB/bin/deny" ioctl kill
	call
	unprofiled "refused: profiling it has ended the profiler again and again"
	is "workers that died" "$(grep -c 'outcome=worker_died' service.log)" 3
	kill -KILL "$SERVICE"
	ends "the service's end" "$SERVICE" 137
	SERVICE=
	service # over the socket that the dead one left
	lesser ""
}

# The container at hand is put aside, running still parked, and another one is at hand.
another() {
	OTHERS+=("$PARKED $GATE ${INIT_CGROUPS[*]}")
	ID=${LAB##*/}-$ROW_NUMBER.${#OTHERS[@]}
	park sh -c 'exit 7'
	state
}

others_end() {
	local other cgroups
	for other in "${OTHERS[@]}"; do
		read -r PARKED GATE cgroups <<<"$other"
		echo >"$GATE"
		ends "the exit status of another" "$PARKED" 7
		until_true 20 rmdir $cgroups 2>/dev/null || fail "its cgroup cannot be removed"
	done
}

test_service_out_of_fds() {
	begin
	OTHERS=()
	service prlimit --nofile=110:110
	for _ in {1..20}; do
		call
		[[ -s hook.err ]] && break
		another
	done
	unprofiled 'refused: pilliond is out of file descriptors \([0-9]+ left\): raise its LimitNOFILE'
	((${#OTHERS[@]} > 1)) || fail "there was no room for anybody"
	strictly on
	call
	refused 'refused: pilliond is out of file descriptors \([0-9]+ left\)'
	strictly off
	local last=("$PARKED" "$GATE" "${INIT_CGROUPS[@]}")
	others_end
	PARKED=${last[0]} GATE=${last[1]} INIT_CGROUPS=("${last[@]:2}")
	is "targets that ended" "$(ended ${#OTHERS[@]})" ${#OTHERS[@]}
	call
	armed "stack snapshots of one size: there are descriptors for no more"
	end
}
ended() { # HOW-MANY to wait for
	until_true 10 have_ended "$1" || :
	grep -c state=ended service.log
}
have_ended() { (($(grep -c state=ended service.log) >= $1)); }

row "without a fault the same calls give a profile: service" test_healthy
row "without a fault the same calls give a profile: session" test_healthy_session
row "no service, and no daemon to start a session of" test_no_service
row "the service is stopped: two starts wait, the third skips it, and it is forgiven when it runs on" test_stopped_service
row "a service that accepts and stays silent" test_fake silent "$SILENT" 1s
row "a service that accepts nothing any more" test_fake deaf "pilliond at .* does not accept connections"
row "a service that talks garbage" test_fake garbage "the peer does not speak pillion's protocol"
row "a service of the next version" test_fake version \
	"the peer speaks protocol version [0-9]+, we speak [0-9]+ to [0-9]+: install one version of both"
row "a service that answers out of order" test_fake confused "the peer answered with message type [0-9]+"
for n in 0 1 2 3 4; do
	row "a service that hangs up at message $n" test_fake hangup-$n "the peer went away in the middle"
done
row "workers are killed in the middle of a handshake, then the service, and the next one takes its place" test_killed_service
row "the service is out of descriptors: it refuses, lives, and takes the next when there is room" test_service_out_of_fds

# --- the hook's children

# In the background: a signal for the hook's reader (while its input is held up), or for the opener in the container's
# pid namespace (while the service is silent), as soon as it is there.
hit() { # KILL|SEGV|STOP|FREEZE reader|opener
	local shell=$BASHPID pids='^NSpid:\t[0-9]+$'
	[[ $2 == reader ]] || pids='^NSpid:\t[0-9]+\t[0-9]+$'
	(
		trap - ERR
		set +e
		for _ in {1..2000}; do
			for hook in $(hooks_of "$shell"); do
				for victim in $(hooks_of "$hook"); do
					grep -qsP "$pids" "/proc/$victim/status" && "strike_$1" "$victim" && exit
				done
			done
			sleep 0.005
		done
	) &
	HIT=$!
}
strike_KILL() { kill -KILL "$1"; }
strike_SEGV() { kill -SEGV "$1"; }
strike_STOP() { kill -STOP "$1"; }
strike_FREEZE() { # in a v1 freezer not even SIGKILL ends it, as in a file system that never answers
	echo "$1" >"$FREEZER/cgroup.procs" && echo FROZEN >"$FREEZER/freezer.state"
}
hooks_of() { # PID - children of it that run pillion-hook (a zombie runs nothing)
	local child
	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		[[ $(readlink "/proc/$child/exe") == "$LAB/bin/pillion-hook" ]] && echo "$child"
	done
}

test_hit() { # SIGNAL reader|opener REGEX
	local budget=5s mode
	[[ $1 == STOP ]] && budget=1s
	begin --budget $budget
	[[ $1 != SEGV ]] || export ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_segv=0 # the signal, and no report
	fake silent
	if [[ $2 == reader ]]; then
		mkfifo held_up
		exec 9<>held_up
		INPUT=held_up
	fi
	hit "$1" "$2"
	call
	unprofiled "$3"
	wait $HIT
	strictly on
	hit "$1" "$2"
	call
	refused "$3"
	wait $HIT
	strictly off
	end
}

test_unkillable() { # REGEX
	FREEZER=$(awk '$3 == "cgroup" && $4 ~ /(^|,)freezer(,|$)/ {print $2; exit}' /proc/mounts)
	[[ -n $FREEZER ]] || skip "needs a v1 freezer"
	begin --budget 1s
	FREEZER+=$LAB_CGROUP/$ID-freezer
	mkdir -p "$FREEZER"
	fake silent
	hit FREEZE opener
	call
	unprofiled "$1"
	wait $HIT
	echo THAWED >"$FREEZER/freezer.state"
	until_true 20 rmdir "$FREEZER" 2>/dev/null || fail "the opener lives on: $(cat "$FREEZER/cgroup.procs")"
	end
}

test_reader_memory() {
	! sanitized || skip "a sanitizer's memory is terabytes"
	begin
	head -c 12M /dev/zero | tr '\0' x | jq -R '{ociVersion: "1.0.2", root: {path: "/"}, pad: .}' >bundle/config.json
	fault "config.json of the bundle cannot be read: $NO_MEMORY" prlimit --as=14000000
}

no_hook() { # not in a pipe, where a grep for the name would be listed and found
	local processes
	processes=$(lab_processes)
	[[ $processes != *" $LAB/bin/pillion-hook "* ]]
}
waits_for() { # HOOK reader|opener - that it has both its children, or that its opener is in the container's pid namespace
	local child
	for child in $(hooks_of "$1"); do
		[[ $2 == opener ]] && grep -qsP '^NSpid:\t[0-9]+\t[0-9]+$' "/proc/$child/status" && return
	done
	[[ $2 == reader && $(hooks_of "$1" | wc -l) == 2 ]]
}
test_killed_hook() { # INPUT reader|opener - the runtime's patience ends before ours, and before theirs
	local hook status=0
	begin --budget 5s
	fake silent
	mkfifo held_up
	exec 9<>held_up
	"${HOOK_ARGS[@]}" <"$1" 2>/dev/null &
	hook=$!
	until_true 4 waits_for $hook "$2" || fail "its children: $(hooks_of $hook)"
	kill -KILL $hook
	wait $hook 2>/dev/null || status=$?
	is "the hook's end" $status 137
	until_true 3 no_hook || fail "left behind: $(lab_processes)" # not only when the budget is over
	end
}

row "the reader is killed" test_hit KILL reader "the reader of state and config was killed by signal 9"
row "the reader crashes" test_hit SEGV reader "the reader of state and config was killed by signal 11"
row "the reader stops" test_hit STOP reader \
	"the reader of state and config did not finish within its time and was killed"
row "the reader crashes while it gives up its capabilities" test_denied capset kill \
	"the reader of state and config was killed by signal 31"
row "the reader runs out of memory" test_reader_memory
row "the opener crashes before it has joined the container" test_denied setns kill "the opener was killed by signal 31"
row "the opener crashes while it opens events" test_denied perf_event_open kill "the opener was killed by signal 31"
row "the opener is killed" test_hit KILL opener "the opener was killed by signal 9"
row "the opener crashes" test_hit SEGV opener "the opener was killed by signal 11"
row "the opener stops" test_hit STOP opener "$SILENT"
row "the opener cannot be killed" test_unkillable "the handshake did not finish within its budget"
row "the hook itself is killed while reader and opener wait for input" test_killed_hook held_up reader
row "the hook itself is killed while its opener waits for the service" test_killed_hook state opener

# --- the state

test_state() { # REGEX TEXT - printf's format
	begin
	printf "$2" >state
	fault "$1"
}

test_state_jq() { # REGEX JQ
	begin
	state "$2"
	fault "$1"
}

test_state_truncated() {
	begin
	head -c $(($(wc -c <state) - 3)) state >shorter
	mv shorter state
	fault "state: JSON ends in the middle \(after [0-9]+ bytes\)"
}

test_state_large() {
	begin
	head -c 64M /dev/zero | tr '\0' x | jq -R --slurpfile state state '$state[0] + {pad: .}' >large
	INPUT=large
	fault "state on stdin: more than 1048576 bytes"
}

test_state_endless() {
	begin --budget 500ms
	mkfifo held_up
	exec 9<>held_up
	INPUT=held_up
	fault "the reader of state and config did not finish within its time and was killed"
}

test_state_directory() {
	begin
	INPUT=bundle
	fault "state on stdin cannot be read: Is a directory"
}

test_dead_init() { # service|session
	local dead
	begin
	[[ $1 == session ]] || service
	sh -c 'exit 0' &
	dead=$!
	wait $dead
	state ".pid = $dead"
	fault "the container's init \(pid $dead\) is gone already"
}

test_zombie_init() {
	local zombie
	begin
	service
	# a parent that does not wait: not even the shell, which would before it becomes sleep
	sh -c 'sh -c "until grep -q sleep /proc/\$PPID/comm; do :; done" & echo $! >zombie; exec sleep 1000' &
	until_true 10 test -s zombie || fail "no zombie"
	zombie=$(cat zombie)
	until_true 10 grep -qs '^State:.Z' "/proc/$zombie/status" || fail "it is no zombie"
	state ".pid = $zombie"
	fault "the container's init \(pid $zombie\) is gone already"
}

row "the state is empty" test_state "state: empty" ""
row "the state is truncated" test_state_truncated
row "the state is no JSON" test_state "state: not JSON: .* at byte [0-9]+" "who is there?"
row "the state is no object" test_state "state: JSON is not an object" "[1, 2]"
row "the state is 64 MB long" test_state_large
row "the state never ends" test_state_endless
row "the state is a directory" test_state_directory
row "the state has no pid" test_state_jq "state: pid is missing" "del(.pid)"
row "the state's pid is text" test_state_jq "state: pid is not a whole number" '.pid = "12"'
row "the state's pid is negative" test_state_jq "state: pid -3 is not positive" ".pid = -3"
row "the state's pid is 1" test_state_jq "state: pid 1 is the machine's own init" ".pid = 1"
row "the state has no id" test_state_jq "state: id is missing" "del(.id)"
row "the state's id is a path" test_state_jq "state: id is not a name" '.id = "../../etc"'
row "the state has no bundle" test_state_jq "state: bundle is missing" "del(.bundle)"
row "the init is gone already, with a service" test_dead_init service
row "the init is gone already, without a service" test_dead_init session
row "the init is a zombie" test_zombie_init

# --- config.json

test_config() { # REGEX COMMAND - what to do in the bundle's directory
	begin
	(cd bundle && rm config.json && eval "$2")
	fault "$1"
}

row "config.json is missing" test_config "config.json of the bundle cannot be opened: No such file or directory" :
row "config.json is no JSON" test_config "config.json: not JSON: .* at byte [0-9]+" "echo '{]' >config.json"
row "config.json is empty" test_config "config.json: empty" ": >config.json"
row "config.json is a directory" test_config "config.json of the bundle is not a regular file" "mkdir config.json"
row "config.json is a FIFO" test_config "config.json of the bundle is not a regular file" "mkfifo config.json"
row "config.json is a device" test_config "config.json of the bundle is not a regular file" "ln -s /dev/zero config.json"
row "config.json leads to itself" test_config "config.json of the bundle cannot be opened: $A_LOOP" \
	"ln -s config.json config.json"
row "config.json has 17 MB" test_config "config.json of the bundle cannot be read: File too large" \
	"head -c 17M /dev/zero >config.json"
row "config.json is nested 100,000 deep" test_config "config.json: JSON is nested deeper than 32" \
	"head -c 100000 /dev/zero | tr '\0' '[' >config.json"
row "config.json has millions of values" test_config "config.json: JSON has more than [0-9]+ values" \
	"(echo '{\"process\": [0'; head -c 7000000 /dev/zero | sed 's/\x00/,0/g'; echo ']}') >config.json"
row "config.json has no root" test_config "config.json: root.path is missing" "echo '{}' >config.json"

# What the hook opens as root and hands to the profiler is never a secret: /proc/kcore and core dumps begin as ELF, too.
test_program() { # MODE PASSED
	begin
	service
	install -m "$1" "$LAB/bin/burn" program
	bundle ".process.args = [\"$ROW/program\"]"
	call
	armed ""
	is "descriptors of it in the profiler" "$(find "/proc/$SERVICE/fd" -lname "$ROW/program" | wc -l)" "$2"
	end
}

row "a program that may be run and not read is passed open" test_program 0711 1
row "a file that may be neither run nor read is not passed" test_program 0600 0
row "a program that everybody may read is not passed" test_program 0755 0

# --- annotations

test_annotation() { # REGEX KEY VALUE
	begin
	state ".annotations[\"$2\"] = \"$3\""
	fault "$1"
}

test_lesser() { # REGEX KEY VALUE
	begin
	service
	state ".annotations[\"$2\"] = \"$3\""
	lesser "$1"
}

test_unknown_key() {
	begin
	service
	state '.annotations["io.pillion.colour"] = "red"'
	lesser "annotation io.pillion.colour is unknown and ignored"
}

test_off() {
	begin
	state '.annotations["io.pillion.profile"] = "off"'
	call
	quiet
	end
}

test_sandbox() { # KEY
	begin
	service
	state ".annotations[\"$1\"] = \"sandbox\""
	call
	quiet
	strictly on
	call
	quiet
	strictly off
	end
	is "targets" "$(grep -c state=armed service.log)" 0
}

row "an unknown event" test_annotation 'annotation io.pillion.profile: events, column 1: no event "moon"; .pillion events. lists what there is"' \
	io.pillion.profile moon
NOT_ALLOWED="the administrator's policy does not allow it"
row "a uprobe alone that policy does not allow" test_annotation "annotation io.pillion.profile: uprobe x:work: $NOT_ALLOWED \\(policy.conf: uprobes = yes\\)" \
	io.pillion.profile uprobe:/usr/bin/x:work
row "a uprobe that policy does not allow: the others run" test_lesser "left out: uprobe x:work: $NOT_ALLOWED \\(policy.conf: uprobes = yes\\)" \
	io.pillion.profile cpu,uprobe:/usr/bin/x:work
row "a kprobe that policy does not allow: the others run" test_lesser "left out: kprobe vfs_read: $NOT_ALLOWED \\(policy.conf: kprobes = yes\\)" \
	io.pillion.profile cpu,kprobe:vfs_read
row "a raw counter that policy does not allow: the others run" test_lesser "left out: raw r3c: $NOT_ALLOWED \\(policy.conf: raw = yes\\)" \
	io.pillion.profile raw:r3c,cpu
row "an unknown event among others: they run" test_lesser 'left out: events, column 5: no event .{0,1}"moon' io.pillion.profile cpu,moon
row "an event that is there twice: once" test_lesser 'left out: events, column 9: cpu is there twice' io.pillion.profile cpu@199,cpu
row "an option that an event does not take: the others run" test_lesser 'left out: events, column 5: page-faults takes user or kernel, and stacks=' \
	io.pillion.profile cpu,page-faults:users
row "a uprobe of a file without its path: the others run" test_lesser 'left out: events, column 5: a uprobe is written uprobe:FILE:FUNCTION, as in' \
	io.pillion.profile cpu,uprobe:x:work
row "a list with nothing in it" test_annotation 'annotation io.pillion.profile: events, column 2: no event ""' io.pillion.profile ,
row "an unknown way to attach" test_annotation 'annotation io.pillion.attach: "glue" is not auto, cgroup, process' \
	io.pillion.attach glue
row "a window that is too short" test_annotation 'annotation io.pillion.window: "1s" is not 5s to 3600s' \
	io.pillion.window 1s
row "a window that is no time" test_annotation 'annotation io.pillion.window: "long" is not 5s to 3600s' \
	io.pillion.window long
row "a label without a value" test_annotation 'annotation io.pillion.labels: "team" is not ' io.pillion.labels team
row "an annotation of ours that nobody knows is a warning" test_unknown_key
row "switched off by annotation" test_off
row "a sandbox container of containerd is left alone" test_sandbox io.kubernetes.cri.container-type
row "a sandbox container of CRI-O is left alone" test_sandbox io.kubernetes.cri-o.ContainerType

# --- the hook is called twice, as old runtimes do

test_twice() { # service|session
	begin
	[[ $1 == session ]] || service
	strictly on
	call
	armed ""
	call
	armed ""
	if [[ $1 == session ]]; then
		is "sessions" "$(sessions | wc -l)" 1
	else
		is "targets" "$(grep -c state=armed service.log)" 1
	fi
	ran
	gone
	[[ $1 == session ]] || stop_service
	nothing_left
	is "profiles" "$(profiles | wc -l)" 1
}

row "the hook is called twice: one target of the service, one profile" test_twice service
row "the hook is called twice: one session, one profile" test_twice session

