# suite_service - a service that runs for long: what it profiles, and how that is asked.

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener tools/peer targets/pulse

cpu_ticks() { # of all of its processes
	local pid
	for pid in $(profilers); do
		cat "/proc/$pid/stat"
	done | awk '{ n += $14 + $15 } END { print n }'
}

has_samples() { # NAME LEAST
	local n
	n=$(of "$1" .samples) && ((${n:-0} >= $2))
}
more_samples() { # NAME COUNT - it is being profiled
	until_true "$PATIENCE" has_samples "$1" $(($(of "$1" '.samples // 0') + $2)) || fail "no $2 samples more of $1: it is $(of "$1" .state)"
}

# --- what it tells

test_listed() {
	begin_service
	ct_need podman-runc
	local began=${EPOCHREALTIME/./} started pulse attach
	ct_start podman-runc web -a "$NAMES=cpu@199,page-faults/50" -a io.pillion.labels=team=blue -- "$LAB/bin/pulse" 20
	started=${EPOCHREALTIME/./}
	ct_start runc db -a $NAMES=cpu -a io.pillion.labels=team=red -a io.pillion.attach=process -- "$LAB/bin/pulse" 20
	"$LAB/bin/pulse" 10 2 >/dev/null &
	pulse=$!
	until_true "$PATIENCE" grep -qsx pulse "/proc/$pulse/comm" || fail "it does not begin"
	env --default-signal=INT "$LAB/bin/pillion" attach "$pulse" --budget 5s --events cpu@299 --control "$SOCKET" \
		--daemon "$LAB/bin/pilliond" >path 2>said &
	attach=$!
	until_true "$PATIENCE" grep -qs attached said || fail "not attached: $(cat said)"
	more_samples web 100
	more_samples db 30
	more_samples pulse 20
	is "the targets" "$(ask 'map(if .name == "" then .id else .name end) | sort | join(" ")')" "db pulse web"
	is "their states" "$(ask 'map(.state) | unique | join(" ")')" started
	is "events of web" "$(of web '.events | join(" ")')" "cpu@199 page-faults/50"
	is "events of db" "$(of db '.events | join(" ")')" cpu@99
	is "events of pulse" "$(of pulse '.events | join(" ")')" cpu@299
	is "the strategies of db and pulse" "$(of db .strategy) $(of pulse .strategy)" "process threads"
	is "the id of web" "$(of web .id)" "$(ct_id web)"
	is "the pid of db" "$(of db .pid)" "$(ct_pid db)"
	between "samples of db in a second of its time" $(($(of db .samples) * 1000000 / $(usage_of db))) 50 105
	between "samples a second of db" "$(of db .samples_per_second)" 1 105
	local least=$(((${EPOCHREALTIME/./} - started) / 1000)) age
	age=$(of web .age_ms)
	between "the age of web, ms," "$age" $least $(((${EPOCHREALTIME/./} - began) / 1000))
	[[ $(of web .strategy) != cgroup ]] || between "the CPU time of web, us," "$(of web .cpu_us)" 1 "$(usage_of web)"
	is "the CPU time of pulse" "$(of pulse .cpu_us)" null
	# a busy machine lets rings run over; more than a little would be ours
	between "% lost" "$(ask '(map(.lost + .lost_shared + .throttled) | add) * 100 / (map(.samples) | add)')" 0 5
	is "targets that cost nothing" "$(ask 'map(select(.cost_us == 0 or .memory_bytes == 0)) | length')" 0
	# all of it is a part of what pilliond took; to the tick
	between "their cost, us," "$(ask 'map(.cost_us) | add')" 100 \
		$(($(cpu_ticks) * 1000000 / $(getconf CLK_TCK) + 20000))

	"${PS[@]}" >table || fail "no table"
	is "lines" "$(wc -l <table)" 5
	has "the header" "$(head -n 1 table)" '^ID +NAME +POD +STATE +STRATEGY +EVENTS +AGE +SAMPLES +PER-S +LOWERED +BYTES +LOST +THROTTLED +CPU +COST +MEMORY +PROFILE$'
	has "the line of web" "$(cat table)" $'\n'"$(ct_id web | cut -c 1-12) +web +- +started +[a-z:]+ +cpu@199,page-faults/50 +[0-9]+s +[0-9]+ +[0-9.]+ +- +[0-9.]+[kM]B +0(\+[0-9]+\?)? +0 "
	has "the last line" "$(tail -n 1 table)" "^3 targets, [0-9]+ of [0-9]+ descriptors, [0-9]+ rings of [0-9.]+[kM]B, [0-9]+ records, [0-9]+ unknown, [0-9.]+MB of memory, [0-9.]+m?s of CPU in the worker; ([0-9.]+[mu]?s|0) of a budget of [0-9.]+s in the last minute, ([0-9.]+[mu]?s|0) of it for sampling; profiles in $ROW/spool\$"
	has "without cutting" "$("${PS[@]}" --no-trunc)" "$(ct_id web) +web "

	kill -INT $attach
	wait $attach || fail "attach: exit status $?: $(cat said)"
	kill $pulse
	until_true "$PATIENCE" lists 2 || fail "still listed: $(ask 'map(.name)')"
	ct_stop web
	ct_stop db
	until_true "$PATIENCE" lists 0 || fail "still listed: $(ask 'map(.name)')"
	is "a table without targets" "$("${PS[@]}" | wc -l)" 1
	is "a list without targets" "$(ask 'length')" 0
	ct_rm web
	ct_rm db
	end_service
}
row "two containers and a process that is attached to, each as it is" test_listed

symbolizer() { pgrep -P "$(pgrep -P "$SERVICE" -x pilliond-fork)" -x pilliond-names || :; }
has_symbolizer() { [[ -n $(symbolizer) ]]; }

# A container that is created, started, and ends while nobody can say its names.
test_states() {
	begin_service
	ct_need runc
	"$LAB/bin/peer" call "$SOCKET" linger &
	until_true "$PATIENCE" says peer .state registered || fail "the peer is $(of peer .state)"
	is "the CPU time of what only registered" "$(of peer .cpu_us)" null
	kill $!
	until_true "$PATIENCE" lists 0 || fail "the peer has gone and is $(of peer .state)"
	local symbolizer
	until_true "$PATIENCE" has_symbolizer || fail "there is no symbolizer: $(cat service.log)"
	symbolizer=$(symbolizer)
	kill -STOP "$symbolizer"
	ct_parse runc c1 -a $NAMES=cpu -- "$LAB/bin/pulse" 20
	ct_bundle
	bare_ create --bundle "$C_DIR" --pid-file "$C_DIR/pid" c1 </dev/null >"$C_DIR/out" 2>&1
	is "a container that is created" "$(of c1 .state)" armed
	is "its samples a second" "$("${PS[@]}" | awk '$2 ~ /^c1|-$/ && $4 == "armed" { print $9 }')" -
	bare_ start c1
	until_true "$PATIENCE" says c1 .state started || fail "started, it is $(of c1 .state)"
	more_samples c1 10
	bare_ kill c1 KILL
	until_true "$PATIENCE" says c1 .state ending || fail "ended, it is \"$(of c1 .state)\""
	kill -CONT "$symbolizer"
	until_true "$PATIENCE" lists 0 || fail "its names are there, and it is $(of c1 .state)"
	ct_rm c1
	end_service
}
row "registered, armed, started, ending, gone" test_states

# A program that works and then sleeps: all that it will ever be sampled is known before it ends.
test_sums() {
	begin_service
	ct_need runc
	ct_start runc c1 -a "$NAMES=cpu@499,page-faults/5" -a io.pillion.window=5s -- sh -c "$LAB/bin/burn 1; exec $LAB/bin/sleeper"
	local samples total
	until_true "$PATIENCE" sleeps c1 || fail "it does not come to rest"
	until_true "$PATIENCE" eval '[[ -n $(of c1 .profile) ]]' || fail "no profile"
	[[ -s $(of c1 .profile) ]] || fail "there is no file $(of c1 .profile)"
	until_true "$PATIENCE" eval '(($(of c1 .window_samples) == 0))' || fail "its last samples are in no profile"
	samples=$(of c1 .samples)
	ct_stop c1
	until_true "$PATIENCE" lists 0 || fail "it is $(of c1 .state)"
	total=$(written_of c1 .)
	echo "told $samples, in the profiles $total"
	((samples > 100)) || fail "only $samples samples"
	between "the samples that were written" $((total - $(written_of c1 '\[(lost|unsampled)'))) "$samples" $((samples + 10))
	ct_rm c1
	end_service
}
sleeps() { # NAME
	[[ $(cat "/proc/$(ct_pid "$1")/comm") == sleeper ]] && at_rest "$1"
}
row "the samples that it tells are those that it writes" test_sums

test_lost() { # what the rings could not hold while nobody read them
	begin_service
	ct_need runc
	ct_start runc c1 -a $NAMES=cpu@999 -a io.pillion.window=5s -- "$LAB/bin/pulse" 50
	until_true "$PATIENCE" says c1 .state started || fail "it is $(of c1 .state)"
	more_samples c1 20
	local worker
	worker=$(pgrep -P "$SERVICE" -x pilliond-worker)
	# once more where the window has ended between the loss and the table
	until_true "$PATIENCE" loses_as_anybody || fail "nothing lost as anybody's: $(cat table list.json)"
	until_true "$PATIENCE" eval '(($(of c1 .lost) > 0))' || fail "lost nothing when its window ended: $(cat list.json)"
	until_true "$PATIENCE" told_is_written || fail "lost $(of c1 .lost), in the profiles $(written_of c1 '\[lost\]')"
	ct_stop c1
	until_true "$PATIENCE" lists 0 || fail "it is $(of c1 .state)"
	ct_rm c1
	end_service
}
loses_as_anybody() { # what comes while the worker is stopped: some eight rings full
	local used
	kill -STOP "$worker"
	used=$(usage_of c1)
	until_true "$PATIENCE" eval '(($(usage_of c1) > used + 500000))' || fail "it does not run"
	kill -CONT "$worker"
	until_true 1 eval '(($(of c1 .lost_shared) > 0))' || return 1
	"${PS[@]}" >table
	grep -qE ' [0-9]+\+[0-9]+\? ' table
}
told_is_written() { # once names have come
	[[ $(written_of c1 '\[lost\]') == "$(of c1 .lost)" ]]
}
row "what was lost is told at once as anybody's, and by target when its window is over" test_lost

# --- many, and peers that do not behave

crowd() { # COUNT - sets CROWD
	"$LAB/bin/peer" targets "$SOCKET" "$1" >crowd &
	CROWD=$!
	until_true 30 test -s crowd || fail "no end of the targets"
	is "the targets" "$(cat crowd)" "$1 armed"
}
end_crowd() {
	kill "$CROWD"
	until_true "$PATIENCE" lists 0 || fail "still listed: $(ask length)"
	end_service
}

test_many() {
	begin_service
	crowd 300
	is "targets in the list" "$(ask 'map(.id) | unique | length')" 300
	is "the first and the last" "$(ask '.[0].id, .[299].id' | xargs)" "peer-0299 peer-0000"
	is "lines of the table" "$("${PS[@]}" | wc -l)" 302
	has "its last line" "$("${PS[@]}" | tail -n 1)" '^300 targets, '
	end_crowd
}
row "300 targets are listed completely" test_many

test_gazer() {
	begin_service
	ct_need runc
	crowd 300
	"$LAB/bin/peer" call "$SOCKET" gazer >gazer &
	local gazer=$!
	ct_start runc c1 -a $NAMES=cpu@199 -- "$LAB/bin/pulse" 20
	until_true "$PATIENCE" says c1 .state started || fail "it is $(of c1 .state)"
	more_samples c1 50
	is "targets in the list" "$(ask length)" 301
	wait $gazer
	between "seconds until it was hung up on" "$(sed -n 's/^hung up after \(.*\) s$/\1/p' gazer)" 8 60
	ct_stop c1
	ct_rm c1
	end_crowd
}
row "a peer that asks and never reads is hung up on, and disturbs nobody" test_gazer

# --- who may not, and where nobody is

refuses() { # STATUS STDERR-REGEX COMMAND...
	local wanted=$1 says=$2 status=0
	shift 2
	"$@" >printed 2>said || status=$?
	is "the exit status" $status "$wanted"
	has "stderr" "$(cat said)" "^pillion ps: $says\$"
	is "lines on stderr" "$(wc -l <said)" 1
	is "stdout" "$(cat printed)" ""
}

test_others() { # a tenant can neither see nor stop another's profile
	begin_service
	ct_need runc
	ct_start runc secret -a $NAMES=cpu -- "$LAB/bin/pulse" 20
	refuses 1 "only root and the members of users_group may list targets of pilliond: cannot connect to $SOCKET: Permission denied" \
		setpriv --reuid 1234 --regid 1234 --clear-groups "${PS[@]}"
	# who gets as far as the socket, as the group's users do
	chmod 777 run "$SOCKET"
	refuses 1 'refused: user 1234 may neither register targets nor list them: only root may' \
		setpriv --reuid 1234 --regid 1234 --clear-groups "${PS[@]}" --json
	refuses 1 'refused: user 65534 may neither register targets nor list them: only root may' "${NOBODY[@]}" "${PS[@]}"
	until_true "$PATIENCE" says secret .state started || fail "root sees $(of secret .state)"
	ct_stop secret
	ct_rm secret
	end_service
}
row "another user is refused in one sentence" test_others

test_own() { # who started the service
	begin_run
	need jq
	chown 65534 run
	mkdir -m 777 spool
	"${NOBODY[@]}" "$LAB/bin/pilliond" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/run/service.log" \
		--log-level info </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true "$PATIENCE" grep -qs state=ready run/service.log || skip "no service without privileges here: $(cat service.out)"
	PS=("${NOBODY[@]}" "$LAB/bin/pillion" ps --control "$SOCKET")
	is "the list" "$(ask length)" 0
	end_service
}
row "who started the service may ask it" test_own

test_nobody() {
	begin_run
	PS=("$LAB/bin/pillion" ps)
	local start="start one as root with '[^ ]*/pilliond --control [^ ]*'"
	refuses 1 "no pilliond listens at $SOCKET: $start" "${PS[@]}" --control "$SOCKET"
	refuses 1 "no pilliond listens at $SOCKET: $start" env PILLION_CONTROL="$SOCKET" "${PS[@]}" --json
	refuses 1 "no pilliond listens at /run/[^ ]*: $start" env PILLION_CONTROL=/run/no/such.sock "${PS[@]}"
	refuses 1 "no pilliond listens at $ROW/etc/x: $start" "${PS[@]}" --control="$ROW/etc/x"
	: >run/file
	refuses 1 "no pilliond listens at $ROW/run/file: $start" "${PS[@]}" --control "$ROW/run/file"
	refuses 2 '--control: "here" is not an absolute path.*' "${PS[@]}" --control here
	refuses 2 "option '--control' needs a value; see 'pillion help ps'" "${PS[@]}" --control
	refuses 2 "there is no option '--jsno'; is '--json' meant[?] 'pillion help ps'" "${PS[@]}" --jsno
	refuses 2 "it takes no argument, so 'web' is one too many" "${PS[@]}" web
	has "its help" "$("${PS[@]}" --help)" '^usage: pillion ps .*example: pillion ps '
	end_run
}
row "no service, and mistakes: a sentence each" test_nobody

test_asked_anyway() {
	begin_service
	printf '\3\0\0\0' >run/hook.state
	lists 0 || fail "a person is not answered"
	is "what is remembered" "$(od -An -tu4 run/hook.state | tr -d ' ')" 0
	end_service
}
row "a service that starts skip answers a person, and is skipped no more" test_asked_anyway

# --- the administrator's switch

test_switched_off() { # DIR - of the service's, below the row's
	local began name
	SERVICE_OPTIONS=(--etc "$ROW/$1")
	begin_service
	ct_need runc
	for name in c1 c2; do ct_start runc $name -a "$NAMES=cpu@99" -- "$LAB/bin/pulse" 20; done
	for name in c1 c2; do until_true "$PATIENCE" says $name .state started || fail "$name is $(of $name .state)"; done
	"$LAB/bin/peer" call "$SOCKET" linger & # in the middle of saying what is to be profiled
	local peer=$!
	for name in c1 c2; do more_samples $name 10; done
	until_true "$PATIENCE" says peer .state registered || fail "the peer is $(of peer .state)"
	mkdir -p "$1"
	began=${EPOCHREALTIME/./}
	: >"$1/off"
	until_true "$PATIENCE" lists 0 || fail "they are profiled: $(ask '.[].state')"
	echo "let go within $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
	for name in c1 c2; do
		[[ -d /proc/$(ct_pid $name) ]] || fail "$name has ended"
		(($(ns_of $name cpu pulse_work) > 0)) || fail "$name has no last window: $(tail -n 5 service.log)"
	done
	has "the log" "$(cat service.log)" 'outcome=switched_off targets=3'
	has "the log" "$(cat service.log)" 'target=peer outcome=dropped reason="switched off on this host'
	kill $peer
	ct_start runc c3 -a "$NAMES=cpu@99" -- "$LAB/bin/sleeper"
	is "targets" "$(ask length)" 0
	[[ $1 == etc ]] || has "the hook's log" "$(cat hook.log)" "switched off on this host: 'pillion on' ends that"
	rm "$1/off"
	until_true "$PATIENCE" grep -q 'outcome=switched_on' service.log || fail "it is off still"
	ct_start runc c4 -a "$NAMES=cpu@99" -- "$LAB/bin/sleeper"
	until_true "$PATIENCE" says c4 .state started || fail "c4 is $(of c4 .state)"
	for name in c1 c2 c3 c4; do ct_rm $name; done
	until_true "$PATIENCE" lists 0 || fail "c4 is $(of c4 .state)"
	end_service
}
row "switched off: what runs is let go with a last window and goes on, and on again" test_switched_off etc
row "switched off in a directory that was not there before" test_switched_off late

test_strange_service() { # MODE SENTENCE
	begin_run
	"$LAB/bin/peer" serve "$SOCKET" "$1" >peer.out &
	until_true "$PATIENCE" grep -qs ready peer.out || fail "no peer"
	refuses 1 "$2" "$LAB/bin/pillion" ps --control "$SOCKET"
	kill $!
	end_run
}
row "a service that says garbage" test_strange_service garbage "the peer does not speak pillion's protocol"
row "a service of another version" test_strange_service version 'the peer speaks protocol version 4, we speak 2 to 3: .*'
row "a service that hangs up" test_strange_service hangup-1 'the peer went away in the middle'
row "a service that says nothing" test_strange_service silent 'the peer did not answer in time'
