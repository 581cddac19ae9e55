# suite_faults_node - one service, many targets: peers and targets that do their worst. The service lives, and what another target
# used meanwhile is in its profiles: all of it, or lost and said so.

. "$TOP/tests/integration/service.sh"
lab_install tools/peer tools/herd targets/wild
LEAST_MB=96 # what pilliond may take, all of its processes
LOST=0 # per cent, where nothing need be
! sanitized || { LEAST_MB=2000 && LOST=20; }

# --- the service, before and after

begin_faults() { # [HOOK OPTION...]
	begin_service "$@"
	ct_need runc
	good_start good
}
end_faults() { # PERCENT [LOST [NAMED]]
	local after
	kill -0 "$SERVICE" || fail "the service is gone: $(tail -n 3 service.log)"
	good_end good "$1" "${2:-$LOST}" "${3:-95}"
	GOOD_MS=700
	good_start after
	good_end after 4 $LOST
	between "MiB of pilliond's memory" "$(memory_of_all)" 1 $LEAST_MB
	end_service
}
memory_of_all() {
	local pid
	for pid in $(profilers); do cat "/proc/$pid/smaps_rollup"; done 2>/dev/null | awk '/^Rss/ { n += $2 } END { printf "%.0f", n / 1024 }'
}

# --- peers

test_silent_crowd() {
	begin_faults --budget 500ms
	"$LAB/bin/peer" crowd "$SOCKET" 1000 >crowd &
	until_true 30 test -s crowd || fail "no end of the crowd"
	has "what the crowd got" "$(cat crowd)" "^[0-9]+ accepted, [0-9]+ refused: pilliond has [0-9]+ connections open already"
	ct_start runc refused -a $NAMES=cpu -- "$LAB/bin/sleeper" 60
	has "the hook's log" "$(cat hook.log)" 'outcome=unprofiled reason="refused: pilliond has [0-9]+ connections open'
	kill %%
	until_true 10 eval '"${PS[@]}" >/dev/null 2>&1' || fail "it does not recover"
	ct_stop refused
	ct_rm refused
	end_faults 3
}
row "1,000 connections that send nothing" test_silent_crowd

test_peers() { # MODE TIMES ANSWER
	begin_faults
	local i
	for ((i = 0; i < $2; i++)); do "$LAB/bin/peer" call "$SOCKET" "$1"; done >answers
	is "the answers" "$(sed -E "s/$3.*/as it should/" answers | sort | uniq -c | xargs)" "$2 as it should"
	end_faults 3
}
row "half a message, 300 times" test_peers half 300 "refused: the peer does not speak pillion's protocol"
row "descriptors that are no perf events, 300 times" test_peers files 300 "refused: .*a descriptor that is no perf event: "

# What is called directly needs no runtime: the annotations are in the state, and config.json is the bundle's.
called() { # EVENTS-AND-MORE STARTS - sets HERD
	HERD=$V2$LAB_CGROUP/$ROW_NUMBER
	mkdir -p "$HERD"
	"$LAB/bin/herd" -g "$HERD" -u "$ROW/bundle" -b 5000 -x /bin/true -e "$1" "$2" -- "${HOOK_ARGS[@]}" ||
		fail "a start failed, or was late"
	until_true 20 rmdir "$HERD" 2>/dev/null || fail "the herd's cgroup is not empty"
}

test_labels() {
	begin_faults
	mkdir bundle
	# as many as fit below the cap of config.json, whose annotations are read as well
	awk 'BEGIN { printf "{\"ociVersion\": \"1.0.2\", \"root\": {\"path\": \"/\"}, \"annotations\": {"
		for (i = 0; i < 1000000; i++) printf "\"l%d\":\"v\",", i
		print "\"last\": \"v\"}, \"process\": {\"args\": [\"true\"]}}" }' >bundle/config.json
	called cpu 3
	has "the hook's log" "$(tail -n 1 hook.log)" 'outcome=unprofiled reason="config.json: JSON has more than [0-9]+ values'
	echo '{"ociVersion": "1.0.2", "root": {"path": "/"}, "process": {"args": ["true"]}}' >bundle/config.json
	called "cpu\", \"io.pillion.labels\": \"$(awk 'BEGIN { for (i = 0; i < 130; i++) printf "%sk%d=%d", i ? "," : "", i, i }')" 3
	has "the hook's log" "$(tail -n 1 hook.log)" 'outcome=unprofiled reason="annotation io.pillion.labels: '
	end_faults 3
}
row "a million annotations, and more labels than there may be" test_labels

# --- targets

pids_max() { # NAME N
	local dir
	for dir in "/sys/fs/cgroup/pids" "$V2"; do
		[[ -e $dir$(ct_cgroup "$1")/pids.max ]] && echo "$2" >"$dir$(ct_cgroup "$1")/pids.max" && return
	done
	skip "no pids controller"
}

test_wild() { # MODE PERCENT LOST
	begin_faults
	mkfifo wild.gate
	ct_start runc wild -a "$NAMES=cpu@499" -v "$ROW:$ROW" -- sh -c ": <$ROW/wild.gate; exec $LAB/bin/wild $1 2"
	until_true 20 says wild .state started || fail "it is $(of wild .state)"
	pids_max wild 150
	: >wild.gate
	ct_wait wild 60 || fail "it does not end"
	ct_rm wild
	until_true 15 eval '[[ -z $(of wild .state) ]]' || fail "it is $(of wild .state)"
	first_of wild >/dev/null
	end_faults "$2" "$3"
}
row "a target that forks without end" test_wild fork 5 100
row "a target that maps a file a million times" test_wild maps 5 100
row "a target that renames its threads constantly" test_wild rename 5 100
row "a target that execs in a loop" test_wild exec 5 100
row "a target whose threads end at once" test_wild churn 5 100

# --- the machine

# A ring holds some 250 samples with their stacks. The target stays on one CPU, so that all its samples are for one ring: two may just
# hold what one cannot.
test_overflow() { # nobody reads the rings for a while
	GOOD_RATE=999
	begin_faults
	local reader pid
	reader=$(pgrep -P "$SERVICE" -x pilliond-worker)
	until_true 30 used good $((GOOD_MS / 10))
	for pid in $(cat "$V2$(ct_cgroup good)/cgroup.procs"); do taskset -apc 0 "$pid" >/dev/null || fail "it gets no CPU of its own"; done
	kill -STOP "$reader"
	until_true 30 used good $((GOOD_MS * 8 / 10))
	kill -CONT "$reader"
	GOOD_RATE=199
	until_true 10 eval '(($(of good ".lost + .lost_shared") > 0))' || fail "nothing was lost"
	end_faults 5 90
}
row "the rings overflow: what was lost closes the gap" test_overflow

slice_of() { awk '/^se\.slice/ { print $3 }' "/proc/$1/sched"; } # PID - ns
test_turns() {
	[[ -n $(slice_of self) ]] || skip "this kernel tells no slice"
	begin_service
	until_true 10 has_worker || fail "no worker"
	is "ns of the worker's turns" "$(slice_of "$(worker)")" 100000
	is "ns of the fork server's" "$(slice_of "$(pgrep -P "$SERVICE" -x pilliond-fork)")" "$(slice_of self)"
	end_service
}
row "who reads the rings runs soon when it wakes; who looks up names has turns as anybody" test_turns

# What the kernel ends for want of memory is the worker, and the next one goes on with what was there.
limited() { # sets MEMORY, LIMIT, USAGE: of the cgroup in which the next service begins
	local dir
	for dir in /sys/fs/cgroup/memory "$V2"; do
		[[ -e $dir/memory.limit_in_bytes || -e $dir/memory.max ]] && break
		grep -qs memory "$dir/cgroup.controllers" && echo +memory >"$dir/cgroup.subtree_control" && break
	done
	MEMORY=$dir$LAB_CGROUP/$ROW_NUMBER.service
	mkdir -p "$MEMORY"
	LIMIT=$MEMORY/memory.max USAGE=$MEMORY/memory.current
	[[ -e $LIMIT ]] || LIMIT=$MEMORY/memory.limit_in_bytes USAGE=$MEMORY/memory.usage_in_bytes
	[[ -e $LIMIT ]] || skip "no memory controller"
	SERVICE_UNDER=(sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$MEMORY")
	mkdir ballast && mount -t tmpfs tmpfs ballast # scores go by the limit, which is no small one with this
	"${SERVICE_UNDER[@]}" head -c 64M /dev/zero >ballast/all
}
limit() { echo $(($(cat "$USAGE") + $1)) >"$LIMIT"; } # BYTES more than now
unlimited() {
	echo 268435456 >"$LIMIT"
	umount ballast
	until_true 20 eval '"${PS[@]}" >/dev/null 2>&1' || fail "the service does not answer: $(tail -n 3 service.log)"
	end_faults 15 100 80 # who reads the files may have been among the killed: no unwind info for a moment
	until_true 20 rmdir "$MEMORY"
}
oom_kills() {
	{ cat "$MEMORY/memory.oom_control" "$MEMORY/memory.events" 2>/dev/null || :; } | awk '/^oom_kill / { n = $2 } END { print n + 0 }'
}
# Each page that somebody wants meanwhile costs another process, until it is the service: so this shell forks nothing.
at_first_kill() { # BEFORE LIMIT - which is the limit from then on; within 4 s
	local key n end=$((SECONDS + 5)) file=$MEMORY/memory.events
	[[ -e $file ]] || file=$MEMORY/memory.oom_control
	while ((SECONDS < end)); do
		while read -r key n; do
			[[ $key == oom_kill ]] && ((n > $1)) && echo "$2" >"$LIMIT" && return
		done <"$file"
	done
	return 1
}
test_memory() {
	limited
	begin_faults
	limit 3000000
	"$LAB/bin/peer" targets "$SOCKET" 500 >crowd 2>&1 &
	until_true 30 eval '(($(oom_kills) > 0))' ||
		fail "no process of it was killed: $(cat "$USAGE") of $(cat "$LIMIT") bytes, $(cat crowd)"
	kill %% || fail "the crowd has ended: $(cat crowd)"
	unlimited
}
row "the memory limit of its cgroup is reached" test_memory

score_of() { cat "/proc/$1/oom_score_adj"; }
test_scores() { # the kernel ends the one with the highest score first
	local pid own
	begin_service
	own=$(score_of "$SERVICE")
	until_true 10 all_there || fail "processes: $(profilers | xargs -I{} cat /proc/{}/comm)"
	for pid in $(profilers); do
		echo "$(cat "/proc/$pid/comm") $(($(score_of "$pid") - own))" >>scored
	done
	# who holds all and who can start the others stay to the last
	is "scores above its own" "$(sort scored | tr '\n' ' ')" "$(expected_scores | sort | tr '\n' ' ')"
	kill -KILL "$(pgrep -P "$SERVICE" -x pilliond-export)"
	until_true 10 another_exporter || fail "no other exporter"
	is "the score of another exporter" "$(score_of "$(cat another)")" "$((own < 200 ? own + 800 : 1000))"
	is "the service's score" "$(score_of "$SERVICE")" "$own"
	end_service
}
all_there() { (($(profilers | wc -l) == 6)); }
expected_scores() {
	local above=$((own < 200 ? 800 : 1000 - own)) name
	for name in pilliond pilliond-fork; do echo "$name 0"; done
	for name in pilliond-worker pilliond-export pilliond-names pilliond-files; do echo "$name $above"; done
}
another_exporter() { grep -q 'outcome=exporter_restarted' service.log && pgrep -P "$SERVICE" -x pilliond-export >another; }
row "who goes first for want of memory: whoever can be had again" test_scores

# The worker has died, and there is next to no memory for another one: the fork itself is what the kernel has none for.
test_memory_fork() {
	local reader names before
	! sanitized || skip "a sanitizer's fork takes more memory than all who go first have"
	limited
	begin_faults
	names=$(pgrep -P "$(pgrep -P "$SERVICE" -x pilliond-fork)" -x pilliond-names)
	reader=$(pgrep -P "$SERVICE" -x pilliond-worker)
	kill -STOP "$SERVICE"
	kill -KILL "$reader"
	until_true 20 eval '[[ $(ps -o stat= "$reader") == Z* ]]'
	before=$(oom_kills)
	kill -STOP "$names" # who would take some as well
	{ echo 0 >"$MEMORY/memory.force_empty" || echo 64M >"$MEMORY/memory.reclaim" || :; } 2>/dev/null # what is only cached
	limit 4000
	kill -CONT "$SERVICE"
	at_first_kill "$before" 268435456 || fail "no process of it was killed: $(tail -n 3 service.log)"
	kill -0 "$SERVICE" || fail "the service is gone: $(tail -n 3 service.log)"
	kill -CONT "$names" 2>/dev/null || :
	unlimited
}
row "no memory for another worker" test_memory_fork
