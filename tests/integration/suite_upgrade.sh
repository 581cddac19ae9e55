# suite_upgrade - release 0.1.0 and this tree on one host, as while it is upgraded: services, hooks, commands, libraries, spools
# and settings of both. 0.1.0 is built from this repository's history, once, in build/upgrade.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-hook pillion-opener tools/deny targets/pulse targets/asks targets/sites targets/traced
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program

NEW=$LAB/bin
OLD=$LAB/0.1.0
RELEASE=5024c3b # the commit of NEWS' "pillion 0.1.0 (2026-11-26)"
OLD_TREE=$TOP/build/upgrade/$RELEASE

need_old() {
	local program
	need_root
	need git jq go python3 curl
	[[ ! -d $OLD ]] || return 0
	[[ -d $OLD_TREE ]] || build_old
	mkdir "$OLD.new"
	for program in pillion pilliond pillion-hook pillion-opener libpillion.so; do
		install "$OLD_TREE/build/release/$program" "$OLD.new/"
	done
	mv "$OLD.new" "$OLD"
}
build_old() {
	git -C "$TOP" cat-file -e "$RELEASE^{commit}" 2>/dev/null ||
		skip "this clone has no commit $RELEASE, which is release 0.1.0 (git fetch --unshallow)"
	rm -rf "$OLD_TREE.new"
	mkdir -p "$OLD_TREE.new"
	git -C "$TOP" archive "$RELEASE" | tar -x -C "$OLD_TREE.new"
	env -u MAKEFLAGS -u MAKELEVEL make -s -j"$(nproc)" -C "$OLD_TREE.new" all >"$OLD_TREE.log" 2>&1 ||
		fail "0.1.0 does not build: $(tail -n 20 "$OLD_TREE.log")"
	mv "$OLD_TREE.new" "$OLD_TREE"
}

# --- a service in ./installed, and a manager that keeps descriptors for it (tests/tools/manager)

profilers() { { find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/*/pilliond*" || :; } 2>/dev/null | cut -d/ -f3; }
begin_service() { # OLD|NEW
	need_old
	begin_run --window 5s
	mkdir -p spool installed etc
	chmod 777 .
	use "$1"
	install_service "$1"
	start_service
}
install_service() {
	install "$1/pilliond" installed/.pilliond
	mv installed/.pilliond installed/pilliond
}
start_service() { # [OPTION...]
	local had
	had=$(times_ready)
	START_POST="$NEW/pillion remap --control $SOCKET --daemon $NEW/pilliond" \
		"$TOP/tests/tools/manager" "$ROW/run" "$ROW/installed/pilliond" "$@" --control "$SOCKET" --spool "$ROW/spool" \
		--log "$ROW/service.log" --log-level info --metrics "$ROW/run/http.sock" </dev/null >starts 2>>service.out &
	SERVICE=$!
	until_true "$PATIENCE" ready_again "$had" || fail "no service: $(cat service.log service.out)"
}
# As the package does it: the program is replaced, and the service restarted.
upgrade() {
	install_service "$NEW"
	kill -USR2 "$(tail -n 1 starts)"
	until_true "$PATIENCE" ready_again 1 || fail "the new service is not there: $(cat service.log service.out)"
	until_true "$PATIENCE" none_replaced || fail "processes of the old service stay: $(cat service.log)"
	use "$NEW"
}
none_replaced() { [[ -z $(find /proc/[0-9]* -maxdepth 1 -name exe -lname "$ROW/installed/pilliond (deleted)" 2>/dev/null || :) ]]; }
stop_service() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
}
end_service() {
	stop_service
	end_run
}
# The hook and the commands from here on.
use() { # OLD|NEW
	RUN=("$1/pillion" run --budget 5s --daemon "$1/pilliond" --control "$SOCKET" --config "$ROW/output.conf" --log "$ROW/run/log" --window 5s)
	PS=("$1/pillion" ps --control "$SOCKET")
	HOOK_ARGS=("$1/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log" --daemon "$1/pilliond"
		--budget 5s)
}

ask() { "${PS[@]}" --json >list.json 2>list.err && jq -r "$1" list.json; } # JQ-FILTER
started() { # NAMES, sorted
	[[ $(ask 'map(select(.state == "started") | if .name == "" then .id else .name end) | sort | join(" ")') == "$1" ]]
}
await_started() { until_true "$PATIENCE" started "$1" || fail "not profiled: $1: $(cat list.json list.err service.log) $(cat hook.log || :)"; }
samples_of() { ask ".[] | select(.name == \"$1\" or .id == \"$1\") | .samples"; }
has_samples() { # NAME LEAST
	local n
	n=$(samples_of "$1") && ((${n:-0} >= $2))
}
more_samples() { # NAME COUNT
	until_true "$PATIENCE" has_samples "$1" $(($(samples_of "$1") + $2)) || fail "no $2 samples more of $1: $(cat list.json service.log)"
}
written_as() { [[ -n $(profiles_of "$1" | grep -- "-$2.pb.gz") ]]; } # NAME EVENT
folded_as() { # NAME EVENT TYPE - of all windows of a program that has ended: the line comes when the last one is written
	until_true "$PATIENCE" grep -qsE "(target=$1|name=\"$1\") (.* )?state=ended" service.log || fail "$1 has not ended: $(cat service.log)"
	until_true "$PATIENCE" written_as "$1" "$2" || fail "no profile of $1 by $2: $(cat service.log)"
	profiles_of "$1" | grep -- "-$2.pb.gz" | xargs "$NEW/pillion" report --folded --type "$3"
}
all_comments_of() { profiles_of "$1" | xargs gunzip -c | tr -c '[:print:]' '\n'; }
# What it used is what its profiles come to, losses included: as suite_restart's
all_told() { # NAME CPU-SECONDS
	folded_as "$1" cpu cpu >"$1.folded"
	awk -v cpu="$2" -v windows="$(profiles_of "$1" | wc -l)" -v stolen="$(stolen_at_most)" '{ got += $NF / 1e9 } END {
		printf "%s s in %d profiles, of %s s; stolen on all CPUs meanwhile: at most %d ms\n", got, windows, cpu, stolen
		exit !(got <= cpu * 1.03 + 0.02 + stolen / 1000 && got >= cpu * 0.97 - windows * 10 / 499) }' "$1.folded" ||
		fail "of $1 something is missing, or there twice"
	(($(share 'pulse_work' <"$1.folded") >= 90)) || fail "names are missing: $(cat "$1.folded")"
}
# A container c1 and a program: each uses a fifth of a CPU until ./stop is there, and then prints how much that was
begin_pulses() {
	ct_need runc
	printf '#!/bin/sh\nexec %s 20 1 %s/stop >%s/c1.cpu\n' "$LAB/bin/pulse" "$ROW" "$ROW" >begin
	chmod 755 begin
	ct_start runc c1 -a io.pillion.profile=cpu@499 -v "$ROW:$ROW" "$@" -- "$ROW/begin"
	"${RUN[@]}" --events cpu@499 -- "$LAB/bin/pulse" 20 1 "$ROW/stop" >pulse.cpu &
	PULSE=$!
}
end_pulses() {
	: >stop
	wait "$PULSE" || fail "the program's exit status is $?"
	ct_wait c1 || fail "the container goes on"
	ct_rm c1
}

# --- the service

test_service() {
	begin_service "$OLD"
	begin_pulses
	await_started "c1 pulse"
	more_samples c1 100
	more_samples pulse 100
	upgrade
	await_started "c1 pulse"
	more_samples c1 200
	more_samples pulse 200
	end_pulses
	all_told pulse "$(cat pulse.cpu)"
	all_told c1 "$(cat c1.cpu)"
	is "sentences of the version" "$(grep -c 'level=warn .*outcome=worker_killed reason="the service before was of another version: what it counted is read from its journal"' service.log)" 1
	has "the log" "$(cat service.log)" 'outcome=resumed targets=2 of=2 '
	is "errors in the log" "$(grep -c level=err service.log)" 0
	has "the program's profile" "$(all_comments_of pulse)" 'the profiler was restarted 1 times: up to [0-9.]+ s of samples were lost'
	end_service
}
row "a service is upgraded: a program and a container go on, and what is missing is said" test_service

# --- hooks and commands of one version, the service of the other

test_mixed() { # SERVICE CLIENT
	begin_service "$1"
	use "$2"
	begin_pulses
	await_started "c1 pulse"
	more_samples c1 100
	more_samples pulse 100
	cp "$LAB/bin/pulse" other
	./other 20 1 stop >/dev/null &
	"$2/pillion" attach --budget 5s --daemon "$2/pilliond" --control "$SOCKET" --duration 1s $! >attached 2>said ||
		fail "attach: exit status $?: $(cat said)"
	(($("$NEW/pillion" report --folded "$(cat attached)" | share 'pulse_work') >= 90)) || fail "what attach wrote: $(cat attached said)"
	end_pulses
	is "hooks' warnings" "$(grep -E 'level=(warn|err)' hook.log || :)" ""
	all_told c1 "$(cat c1.cpu)"
	end_service
}
row "its hook and commands, and the new service" test_mixed "$NEW" "$OLD"
row "the new hook and commands, and its service" test_mixed "$OLD" "$NEW"

# --- libraries

kb_allocated() { folded_as "$1" alloc alloc_space | awk '/;(asks_alloc|site_[0-9])[; ]/ { n += $NF } END { printf "%d", n / 1e3 }'; } # NAME
test_library() { # SERVICE CLIENT
	begin_service "$1"
	use "$2"
	"${RUN[@]}" --events alloc/16384 -- "$LAB/bin/sites" 100 0 1000 10000 >told # for a second, 60 samples each 10 ms
	"${RUN[@]}" --events calls -- "$LAB/bin/traced" fib 20 >/dev/null
	"$LAB/bin/deny" perf_event_open EPERM "${RUN[@]}" --events cpu@499 -- "$LAB/bin/asks" label=kind=hot work=0.5 2>said
	# until it has an answer 0.1.0's library does not count, nor is it heard by 0.1.0's service
	between "KB allocated" "$(kb_allocated sites)" 20000 $((102300 * 107 / 100))
	near "bytes of an object" $(($(kb_allocated sites) * 1000 / $(folded_as sites alloc alloc_objects | awk '/;site_[0-9][; ]/ { n += $NF } END { printf "%d", n }'))) 1000 1
	is "calls of fib" "$(folded_as traced calls calls | awk '{ at = $1; sub(/.*;/, "", at) } at == "fib" { n += $NF } END { print n }')" 21891
	folded_as asks cpu cpu >folded
	between "ms in asks_work, and unsampled" "$(grep -E 'asks_work|\[(lost|unsampled)' folded | total_ms)" 450 $((550 + $(stolen_at_most)))
	has "the labels" "$(tags_of asks user.kind)" 'hot'
	end_service
}
row "its library, and the new service: memory, calls, labels and timers" test_library "$NEW" "$OLD"
row "the new library, and its service: the same" test_library "$OLD" "$NEW"

test_library_goes_on() {
	local app
	begin_service "$OLD"
	"${RUN[@]}" --events alloc/16384 -- "$LAB/bin/asks" alloc=1000 until=one alloc=20000 until=two >said &
	app=$!
	until_true "$PATIENCE" grep -qs '^until one' said || fail "it does not come to one: $(cat said)"
	await_started asks
	upgrade
	await_started asks
	: >one
	until_true "$PATIENCE" grep -qs '^until two' said || fail "it does not come to two: $(cat said)"
	: >two
	wait $app || fail "exit status $?"
	# 1220 samples: +-3 %; of the first MB it misses what was before it had an answer
	between "KB allocated" "$(kb_allocated asks)" 17600 24000
	end_service
}
row "a program with its library goes on while the service is upgraded" test_library_goes_on

# --- what it wrote

# In a spool of 0.1.0 a container of Kubernetes has a directory CONTAINER.
test_spool() {
	begin_service "$OLD"
	begin_pulses "${POD[@]}"
	await_started "pulse shop"
	more_samples c1 100
	end_pulses
	all_told pulse "$(cat pulse.cpu)"
	until_true "$PATIENCE" written shop || fail "no profile of the container: $(cat service.log)"
	stop_service
	[[ -d spool/shop ]] || fail "it is not 0.1.0's spool: $(find spool)"
	(cd spool && find . -name '*.pb.gz' -exec sha256sum {} + && grep -c . index.jsonl) >before

	"$NEW/pillion" top --once spool >top || fail "top: $(cat top)"
	has "top of the spool" "$(cat top)" 'pulse_work'
	"$NEW/pillion" top --once spool/shop >top || fail "top of a target: $(cat top)"
	has "top of a target" "$(cat top)" 'pulse_work'
	use "$NEW"
	install_service "$NEW"
	start_service
	rm stop
	begin_pulses "${POD[@]}"
	await_started "pulse shop"
	more_samples c1 100
	end_pulses
	until_true "$PATIENCE" written prod/shop-0/shop || fail "no profile of the new one: $(cat service.log)"
	page / >list
	has "the page" "$(cat list)" 'href="[^"]*target/shop/'
	has "the page" "$(cat list)" 'href="[^"]*target/prod/shop-0/shop/'
	page /target/shop/ >one
	page "/target/shop/$(sed -n '/href="flame?/ { s/.*href="\(flame?[^"]*\)".*/\1/; s/&amp;/\&/g; p; q }' one)" >flame
	has "the flame graph of what 0.1.0 wrote" "$(cat flame)" 'pulse_work'
	stop_service
	(cd spool && sha256sum -c --quiet <(grep 'pb\.gz' ../before)) || fail "what 0.1.0 wrote is another: $(find spool)"
	between "lines of the index" "$(grep -c . spool/index.jsonl)" $(($(tail -n 1 before) + 2)) 1000
	end_run
}
POD=(-a io.kubernetes.cri.container-type=container -a io.kubernetes.cri.sandbox-name=shop-0 -a io.kubernetes.cri.container-name=shop
	-a io.kubernetes.cri.sandbox-namespace=prod)
page() { curl -sS --max-time 40 --unix-socket run/http.sock "http://localhost$1"; } # PATH
row "its spool is read, shown and gone on with" test_spool

# --- what administrators have of it

# Settings that 0.1.0 explains, as `name = default`
settings_of_old() { # --|"" - what stands before their names: of pillion.conf, of policy.conf
	"$OLD/pilliond" --help | sed -n "s/^  $1\([a-z][a-z_-]*\) .* (default \(.*\))\$/\1 = \2/p"
}
names_of() { "$1/pilliond" --help | sed -n 's/^  \(\(--\)\?[a-z][a-z_-]*\) .*/\1/p' | sort; }
test_settings() {
	begin_service "$NEW"
	is "settings that are gone" "$(comm -23 <(names_of "$OLD") <(names_of "$NEW"))" ""
	settings_of_old -- | sed 's/^\([a-z]*\)-\([a-z]*\)-\?/\1_\2_/; s/_ =/ =/' | grep -v '^strict =' >etc/pillion.conf
	settings_of_old '' >etc/policy.conf
	between "settings in pillion.conf" "$(wc -l <etc/pillion.conf)" 22 100
	between "settings in policy.conf" "$(wc -l <etc/policy.conf)" 8 100
	stop_service
	start_service --etc "$ROW/etc"
	! grep -E 'level=(warn|err)' service.log || fail "the service finds fault with them"
	ct_need runc
	ct_start runc c1 -a io.pillion.profile=cpu@499 -- "$LAB/bin/pulse" 20
	await_started c1
	ct_stop c1
	ct_rm c1
	[[ ! -s hook.log ]] || fail "the hook finds fault with them: $(cat hook.log)"
	end_service
}
row "its settings and policy are taken" test_settings

# Metrics with the keys of their labels, and keys of JSON
metrics_now() { curl -sS --max-time 40 --unix-socket run/http.sock http://localhost/metrics | grep -v '^#' | sed 's/="\([^"\\]\|\\.\)*"//g; s/ [^ ]*$//' | sort -u; }
names_now() { # FILE
	"${RUN[@]}" --events cpu@499 -- "$LAB/bin/pulse" 20 1 "$ROW/stop" >/dev/null &
	await_started pulse
	more_samples pulse 100
	metrics_now >"$1"
	jq -r '.[0] | keys[]' list.json >>"$1"
	: >stop
	wait $!
	"${RUN[0]}" report --json "$(first_of pulse)" | jq -r 'paths | map(select(type == "string")) | join(".")' | sort -u >>"$1"
	rm -r stop spool/pulse
}
test_names() {
	begin_service "$OLD"
	names_now old.names
	upgrade
	names_now new.names
	is "metrics and keys that are gone" "$(sort -u old.names | comm -23 - <(sort -u new.names))" ""
	between "names" "$(wc -l <old.names)" 80 1000
	outcomes_of "$OLD_TREE" >old.outcomes
	outcomes_of "$TOP" | comm -23 old.outcomes - >gone
	between "outcomes that have another name" "$(wc -l <gone)" 50 1000
	while read -r word; do
		grep -qF "    \"$word\" " "$TOP/NEWS" || fail "NEWS does not say what became of outcome=\"$word\""
	done <gone
	end_service
}
outcomes_of() { # TREE - that its log lines may have
	(cd "$1" && grep -rhoE --include='*.c' 'outcome=(\\"[^"\\]*\\"|[a-z_]+)' oci shim profiler hooks) |
		sed 's/^outcome=//; s/\\"//g; s/%llu refused/N refused/; s/room for %u users/room for N users/; s/switched %s/switched off/' |
		grep -v '^%s$' | sort -u
}
row "its metrics and keys are there, and NEWS has each outcome that is called differently" test_names
