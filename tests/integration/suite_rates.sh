# suite_rates - how often a service samples: a noisy target beside a quiet one, what profiling may cost, and what there is
# room for.

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener tools/peer targets/threads

begin_rates() { # [SERVICE OPTION...]
	ct_need runc
	mkdir service.etc
	SERVICE_OPTIONS=(--etc "$ROW/service.etc" "$@")
	begin_service
}

true_of() { # NAME JQ-CONDITION
	[[ $(of "$1" "$2") == true ]]
}
seconds_of() { # NAME - of CPU time in all its profiles
	profiles_of "$1" | grep -- '-cpu.pb.gz' | while read -r file; do
		"$LAB/bin/pillion" report --folded --type cpu "$file"
	done | awk '{ ns += $NF } END { printf "%.3f", ns / 1e9 }'
}
all_comments() { # NAME
	local file
	for file in $(profiles_of "$1"); do gunzip -c "$file"; done | tr -c '[:print:]' '\n'
}

# What it has used by the kernel's count, in seconds, when it is stopped for good: nothing of it runs any more.
freeze() { # NAME
	local at
	at=$V2$(ct_cgroup "$1")
	echo 1 >"$at/cgroup.freeze"
	until_true 20 grep -qx 'frozen 1' "$at/cgroup.events" || fail "$1 is not frozen"
	awk -v us="$(usage_of "$1")" 'BEGIN { printf "%.3f", us / 1e6 }'
}
end_burn() { # NAME - the program of its first process' child
	pkill -KILL -x -P "$(ct_pid "$1")" burn || fail "$1 burns no more"
}
close_to() { # WHAT GOT WANTED PERCENT-LESS PERCENT-MORE
	between "$1" "$2" "$(awk -v w="$3" -v p="$4" 'BEGIN { print w * (1 - p / 100) }')" "$(awk -v w="$3" -v p="$5" 'BEGIN { print w * (1 + p / 100) }')"
}

# --- a noisy target; bounds so low that a program meets them also where it gets a tenth of a CPU

test_noisy() { # STRATEGY WAY
	local strategy=$1 way=$2 before after used
	begin_rates --target-rate 50 --cpu-budget 0
	ct_start runc quiet -a $NAMES=cpu@19 -a io.pillion.window=5s -a "io.pillion.attach=$strategy" -- "$LAB/bin/burn" 2
	ct_start runc noisy -a $NAMES=cpu@999 -a io.pillion.window=5s -a "io.pillion.attach=$strategy" -- "$LAB/bin/threads" 200 60
	until_true 30 true_of noisy '.capped_by > 2' || fail "not capped: $(cat list.json)"
	is "the strategy" "$(of noisy .strategy)" "$strategy"
	is "the quiet one's cap" "$(of quiet .capped_by)" 1
	has "the table" "$("${PS[@]}")" ' 1/[0-9.]+ cap '
	has "the log" "$(cat service.log)" "target=noisy name=\"\" outcome=capped rate=1/[0-9.]+ way=\"$way\" reason=\"more than target_rate=50 "
	# as it is sampled by the CPU time that it gets, that is the measure: of two CPUs, or of what others leave of them
	before=$(of noisy '"\(.samples) \(.cpu_us) \(.age_ms)"')
	until_true 60 true_of noisy ".cpu_us > $(cut -d' ' -f2 <<<"$before") + 2000000" || fail "it does not run: $(cat list.json)"
	after=$(of noisy '"\(.samples) \(.cpu_us) \(.age_ms)"')
	set -- $before $after
	between "samples a second of the noisy one" $((($4 - $1) * 1000 / ($6 - $3))) 0 100
	between "samples for a second of its CPU time" $((($4 - $1) * 1000000 / ($5 - $2))) $((20 / $(nproc))) 400
	used=$(freeze noisy)
	ct_stop noisy
	until_true 60 lists 0 || fail "no end: $("${PS[@]}")"
	between "seconds of the quiet one" "$(seconds_of quiet)" 1.9 2.13 # of 19 samples each
	# by intervals it is an estimate
	close_to "seconds of the noisy one" "$(seconds_of noisy)" "$used" "$([[ $strategy == cgroup ]] && echo 5 || echo 10)" 5
	has "its profiles" "$(all_comments noisy)" "rate lowered: sampled at 1/[0-9.]+ of the rate that was asked for, by $way"
	has "its profiles" "$(all_comments noisy)" 'rate lowered: more than target_rate .50 samples.'
	[[ $(all_comments quiet) != *"rate lowered"* ]] || fail "the quiet one was lowered, too"
	ct_rm quiet
	ct_rm noisy
	end_service
}
row "200 threads at 999 Hz, by cgroup: capped, and the sums are right" test_noisy cgroup "longer periods"
row "200 threads at 999 Hz, by process: capped, and the sums are right" test_noisy process "intervals"

test_uncapped() {
	begin_rates --target-rate 50 --cpu-budget 0
	ct_start runc c1 -a $NAMES=cpu@999 -a io.pillion.window=60s -- sh -c "$LAB/bin/burn 600; exec $LAB/bin/sleeper"
	until_true 30 true_of c1 '.capped_by > 2' || fail "not capped: $(cat list.json)"
	end_burn c1
	until_true 60 true_of c1 '.capped_by == 1' || fail "still capped: $(cat list.json)"
	has "the log" "$(cat service.log)" 'target=c1 name="" outcome=uncapped was=1/'
	ct_stop c1
	ct_rm c1
	end_service
}
row "a cap ends when its reason does" test_uncapped

# --- what profiling may cost

# 2.5 ms a second, whatever the number of CPUs: busy programs at 999 Hz cost many times that, idle ones a part of it
test_budget() {
	begin_rates --cpu-budget "$(awk -v n="$(nproc)" 'BEGIN { printf "%.3f", 0.25 / n }')%"
	local name
	for name in c1 c2; do
		ct_start runc $name -a $NAMES=cpu@999 -a io.pillion.window=60s -- sh -c "$LAB/bin/burn 600; exec $LAB/bin/sleeper"
	done
	until_true 50 grep -qs outcome=rates_lowered service.log || fail "not lowered: $("${PS[@]}")"
	for name in c1 c2; do until_true 60 eval "((\$(usage_of $name) > 1000000))"; done
	end_burn c1
	end_burn c2
	for name in c1 c2; do
		until_true 10 at_rest $name || fail "$name is not at rest"
		usage_of $name >"used.$name"
	done
	is "each is lowered" "$(ask 'map(.lowered_by > 1) | unique | join(" ")')" true
	is "caps" "$(ask 'map(.capped_by) | unique | join(" ")')" 1
	has "the log" "$(cat service.log)" 'outcome=rates_lowered rate=1/[0-9.]+ was=1/1.0 spent=[0-9.]+s sampling=[0-9.]+s reason="cpu_budget is 0.15 s a minute"'
	has "the table" "$("${PS[@]}")" ' 1/[0-9.]+ budget .* of a budget of [0-9]+ms in the last minute, [0-9.]+m?s of it for sampling'
	until_true 110 grep -qE 'outcome=rates_(raised|restored)' service.log ||
		fail "not raised: $("${PS[@]}") $(cat service.log)"
	ct_stop c1
	ct_stop c2
	until_true 10 lists 0 || fail "no end: $("${PS[@]}")"
	for name in c1 c2; do
		close_to "seconds of $name" "$(seconds_of $name)" "$(awk '{ print $1 / 1e6 }' "used.$name")" 6 6
		has "its profile" "$(all_comments $name)" 'rate lowered: sampling all targets costs more than cpu_budget'
		ct_rm $name
	done
	end_service
}
row "beyond the budget all rates are lowered, and raised again" test_budget

# Each is another file, whose names nobody has asked for: of a build-id of its own. It runs as long as a sample or two take.
make_short() {
	gcc -g -O1 -Wl,--build-id=0x73686f72742e303030303030 -o short -x c - <<'EOF' || fail "short does not build"
#include <time.h>
volatile int number;
int main(void)
{
	clock_t end = clock() + CLOCKS_PER_SEC / 30;
	while (clock() < end)
		number++;
	return 0;
}
EOF
}
run_short() { # NUMBER
	LC_ALL=C sed "s/short[.]000000/short.$(printf %06d "$1")/" short >"short$1"
	chmod 755 "short$1"
	"$LAB/bin/pillion" run --control "$SOCKET" --events cpu@99 -- "./short$1" || fail "short$1: exit status $?"
}
put_off() {
	[[ $(all_comments "short*") == *"addresses were not looked up: names have cost what this target, or cpu_budget, has for them"* ]]
}

# A lower rate would not make their starts, files and names cheaper.
test_short_programs() {
	local n=0 i end
	need gcc
	begin_rates --cpu-budget "$(awk -v n="$(nproc)" 'BEGIN { printf "%.3f", 0.25 / n }')%"
	ct_start runc long -a $NAMES=cpu@19 -a io.pillion.window=60s -- "$LAB/bin/burn" 600
	until_true 30 true_of long '.samples > 5' || fail "no samples: $(cat list.json)"
	make_short
	for ((end = SECONDS + 400; ; )); do
		! put_off || break
		((SECONDS < end)) || fail "the names of $n programs were all looked up: $("${PS[@]}")"
		for i in {1..10}; do run_short $((n++)); done
	done
	for ((end = SECONDS + 15; SECONDS < end; n++)); do run_short $n; done
	is "the rate of the long one is lowered by, $(grep lowered service.log; "${PS[@]}")" "$(of long .lowered_by)" 1
	[[ $(cat service.log) != *"rates lowered"* ]] || fail "$(cat service.log)"
	ct_stop long
	ct_rm long
	end_service
}
row "short programs cost the budget: their names are put off, and a long one keeps its rate" test_short_programs

test_reloaded() {
	begin_rates --cpu-budget 0
	echo 'target_rate = 20' >service.etc/pillion.conf
	ct_start runc c1 -a $NAMES=cpu@999 -- "$LAB/bin/burn" 60
	until_true 30 true_of c1 '.samples > 300' || fail "no samples: $(cat list.json)"
	is "a cap by default" "$(of c1 .capped_by)" 1
	kill -HUP "$SERVICE"
	until_true 30 true_of c1 '.capped_by > 2' || fail "not capped: $(cat list.json) $(cat service.log)"
	has "the log" "$(cat service.log)" 'outcome=reloaded changed="target_rate"'
	ct_stop c1
	ct_rm c1
	end_service
}
row "a cap that comes by SIGHUP" test_reloaded

# --- what there is room for

crowd() { # COUNT
	"$LAB/bin/peer" targets "$SOCKET" "$1" >crowd &
	CROWD=$!
	until_true 30 test -s crowd || fail "no end of the targets"
}

one_too_many() { # REASON - of a container that is refused; when the crowd has gone, there is room for one
	ct_start runc c1 -a $NAMES=cpu -- "$LAB/bin/sleeper"
	has "the hook's log" "$(cat hook.log)" "$1"
	kill $CROWD
	until_true 20 lists 0 || fail "still there: $("${PS[@]}")"
	ct_start runc c2 -a $NAMES=cpu -- "$LAB/bin/sleeper"
	until_true 20 lists 1 || fail "there is room again, and no target: $(cat hook.log)"
	ct_stop c1
	ct_stop c2
	ct_rm c1
	ct_rm c2
	end_service
}

test_targets() {
	begin_rates --targets 5
	crowd 5
	is "the targets" "$(cat crowd)" "5 armed"
	lists 5 || fail "the targets are $("${PS[@]}")"
	one_too_many 'pilliond profiles 5 targets already: raise its setting targets'
}
row "one target too many is refused by name of the setting" test_targets

# Each has a pidfd, an event and a connection to the worker, at least.
test_fds() {
	begin_rates --fds 64
	crowd 30
	between "the targets" "$(sed 's/ armed//' crowd)" 5 20
	one_too_many 'out of file descriptors .* or its setting fds'
}
row "descriptors beyond the setting are refused by name" test_fds

test_tables() {
	begin_rates --table-size 1MiB --cpu-budget 0
	ct_start runc c1 -a "$NAMES=cpu@499,page-faults/1" -a io.pillion.window=600s -- \
		sh -c 'while :; do /bin/true; done'
	until_true 90 written c1 || fail "no early window: $("${PS[@]}")"
	has "the log" "$(cat service.log)" 'target=c1 name="" outcome=window_ended_early tables=[0-9]+ reason="table_size is 1048576"'
	has "its profile" "$(all_comments c1)" 'this window ended early: stacks of all targets took more than three quarters of table_size'
	ct_stop c1
	ct_rm c1
	end_service
}
row "full tables: the window of the largest target ends early" test_tables
