# suite_lifecycle - targets that are paused, that come and go by the hundred. (CPUs that go and come back, and clocks that step, need a
# machine of their own: tests/vm/checks.)

. "$TOP/tests/integration/service.sh"
lab_install tools/herd targets/pulse
SHORT=${SHORT:-${FULL:+200}}
SHORT=${SHORT:-100} # short containers; `make soak` has 5000 of them
ROW_TIMEOUT=$((600 + SHORT / 4))

# --- the freezer

test_paused() {
	local waited
	begin_service
	ct_need runc
	GOOD_MS=1000
	until_true "$PATIENCE" has_worker || fail "there is no worker"
	waited=$(worker_waited)
	good_start good -a io.pillion.window=5s
	until_true "$PATIENCE" eval '(($(usage_of good) - $(cat before.good) > 300000))'
	ct_find good
	bare_ pause good
	local frozen before=
	frozen=$(usage_of good)
	until_true "$PATIENCE" all_read || fail "it is frozen, and samples come: $(counted)"
	before=$(counted)
	sleep 6 # a window begins and ends in it
	is "its CPU time" "$(usage_of good)" "$frozen"
	is "its state" "$(of good .state)" started
	is "its samples, and what is lost" "$(counted)" "$before"
	bare_ resume good
	until_true 60 used good "$GOOD_MS" || fail "it has not used its time"
	waited=$(($(worker_waited) - waited)) # us in which nobody read the rings: one thread can lose no more
	good_end good 3 $((waited / 10 / GOOD_MS + 1))
	end_service
}
counted() { of good '"\(.samples) \(.lost + .lost_shared + .throttled)"'; }
all_read() { # the rings: a second later the same
	local first=$before
	sleep 1
	before=$(counted)
	[[ $before == "$first" ]]
}
row "a paused container: its profile goes on when it does, and the pause is no loss" test_paused

# --- its worker is killed again and again

# What is missing of its own account is what its profiles say was not counted, within a twentieth of that.
test_worker_of_container() {
	local i kills=${FULL:+100} used all lost
	: "${kills:=6}"
	begin_service
	ct_need runc
	GOOD_MS=$((kills * 900))
	good_start good -a io.pillion.window=5s
	for ((i = 0; i < kills; i++)); do
		used=$(($(usage_of good) + 100000 + RANDOM * 20))
		until_true 60 eval '(($(usage_of good) >= used)) || used good "$GOOD_MS"' || fail "it does not run"
		kill -KILL "$(worker)"
		until_true "$PATIENCE" says good .state started || fail "after $((i + 1)) kills it is $(of good .state): $(tail -n 5 service.log)"
	done
	good_end good 3 70 90 >said || fail "$(cat said)"
	cat said
	read -r used all lost < <(sed -nE 's/.* used ([0-9]+) us, profiles have ([0-9]+), lost ([0-9]+),.*/\1 \2 \3/p' said)
	awk -v used="$used" -v sampled=$((all - lost)) -v lost="$lost" 'BEGIN {
		missing = used - sampled; off = missing - lost; off = off < 0 ? -off : off
		printf "missing %d us, said to be lost %d us: %.1f %% off\n", missing, lost, 100 * off / (lost + 1)
		exit !(lost > 0 && off <= 0.05 * lost + 0.003 * used) }' || fail "what is missing is not what is said"
	(($(grep -c 'outcome=worker_died' service.log) == kills)) || fail "not $kills: $(grep -c 'outcome=worker_died' service.log)"
	end_service
}
row "a container whose worker is killed again and again: what is missing is what is said" test_worker_of_container

test_stopped_paused() { # removed without ever running again
	begin_service
	ct_need runc
	ct_start runc c1 -a $NAMES=cpu@199 -- "$LAB/bin/pulse" 50
	until_true 60 eval '(($(of c1 ".samples // 0") > 100))' || fail "it is $(of c1 .state)"
	ct_find c1
	bare_ pause c1
	bare_ kill c1 KILL # which runc follows up by thawing it
	bare_ resume c1 2>/dev/null || :
	ct_wait c1 5 || fail "it lives"
	ct_rm c1
	until_true "$PATIENCE" lists 0 || fail "it is $(of c1 .state)"
	(($(written_of c1 pulse_work) > 80)) || fail "few samples of pulse_work"
	end_service
}
row "a paused container that is killed: its last window is written" test_stopped_paused

# --- many short ones

service_holds() { # KiB of RSS, descriptors, threads, mounts
	local pid
	for pid in $(profilers); do
		echo "$(awk '/^Rss/ { print $2 }' "/proc/$pid/smaps_rollup") $(find "/proc/$pid/fd" -mindepth 1 | wc -l)" \
			"$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l) $(wc -l <"/proc/$pid/mountinfo")"
	done 2>/dev/null | awk '{ for (i = 1; i <= 4; i++) n[i] += $i } END { print n[1], n[2], n[3], n[4] }'
}
no_jobs() { (($(profilers | wc -l) == 6)); } # of the symbolizer, which are processes
short_ones() { # NAME COUNT MS
	"$LAB/bin/herd" -g "$HERD" -u "$ROW/bundle" -j 3 -b 5000 -n "$1" -e cpu@99 -x "$LAB/bin/burn" -a "$3" "$2" -- "${HOOK_ARGS[@]}"
}
begin_short() {
	begin_service --log-level info
	HERD=$V2$LAB_CGROUP/$ROW_NUMBER
	mkdir -p "$HERD" bundle
	echo '{"ociVersion": "1.0.2", "root": {"path": "/"}, "process": {"args": ["burn"]}}' >bundle/config.json
}
unnamed() { # NAME - those that have no profile with names
	local dir
	for dir in spool/"$1"-*; do
		grep -q burn_loop < <("$LAB/bin/pillion" report --folded "$dir") || echo "$dir"
	done
}

test_short() {
	local before after i
	begin_short
	short_ones warm $((SHORT / 4)) 0.06 || fail "a start failed, or was late"
	until_true "$PATIENCE" lists 0
	until_true 60 no_jobs
	before=$(service_holds)
	short_ones short "$SHORT" 0.06 || fail "a start failed, or was late"
	until_true "$PATIENCE" lists 0 || fail "still listed: $(ask length)"
	until_true 60 no_jobs
	after=$(service_holds)
	echo "RSS, descriptors, threads, mounts: $before, then $after"
	read -r -a before <<<"$before"
	read -r -a after <<<"$after"
	between "KiB that it has grown" $((after[0] - before[0])) -100000 1024
	for i in 1 2 3; do
		is "descriptors, threads, mounts ($i)" "${after[i]}" "${before[i]}"
	done
	is "with a profile" "$(find spool -path '*/short-*/*.pb.gz' | wc -l)" "$SHORT"
	is "without names" "$(unnamed short)" ""
	until_true "$PATIENCE" rmdir "$HERD" 2>/dev/null || fail "the herd's cgroup is not empty"
	end_service
}
row "$SHORT short containers: no growth, and each that used 60 ms has its profile, with names" test_short

test_spool_cap() { # what is beyond the cap goes, the oldest first
	SERVICE_OPTIONS=(--spool-size 1MiB)
	mkdir -p spool/old
	chmod 777 spool/old
	local hours youngest
	for hours in 4 3 2; do
		youngest=$(date -u -d "-$hours hours" +%Y%m%dT%H%M%SZ)-000000-cpu.pb.gz
		head -c 600000 /dev/zero >"spool/old/$youngest"
	done
	begin_short
	short_ones short $((SHORT / 4)) 0.02 || fail "a start failed, or was late"
	until_true "$PATIENCE" lists 0
	local kib
	kib=$(find spool -mindepth 1 ! -name index.jsonl -printf '%k\n' | awk '{ n += $1 } END { print n }')
	between "KiB of the disk" "$kib" 500 1024
	if ((SHORT / 4 * 8 <= 400)); then # KiB that they take
		is "the oldest" "$(find spool/old -name '*-cpu.pb.gz' -printf '%f\n' | sort | xargs)" "$youngest"
	else
		is "the oldest" "$(find spool/old -name '*-cpu.pb.gz')" ""
	fi
	until_true "$PATIENCE" rmdir "$HERD" 2>/dev/null || fail "the herd's cgroup is not empty"
	end_service
}
row "$((SHORT / 4)) short containers on a full spool: it stays below its cap" test_spool_cap

heap_of() { awk '/\[heap\]$/ { heap = 1; next } /^[0-9a-f]+-/ { heap = 0 } heap && /^Anonymous/ { n += $2 } END { print n + 0 }' "/proc/$1/smaps"; } # KiB

# The one that lives on began last, so it lies behind all others: free() returns nothing to the system.
test_many() {
	local before most herd
	! sanitized || skip "a sanitizer has a heap of its own"
	begin_short
	before=$(heap_of "$(worker)")
	"$LAB/bin/herd" -g "$HERD" -u "$ROW/bundle" -k -b 5000 -n many -e cpu@99 -x "$LAB/bin/sleeper" -a 3600 200 -- "${HOOK_ARGS[@]}" >herd.out 2>&1 &
	herd=$!
	until_true 60 grep -q ready herd.out || fail "they do not start: $(cat herd.out)"
	ct_need runc
	ct_start runc last -a "$NAMES=cpu@99" -- "$LAB/bin/sleeper" 3600
	until_true "$PATIENCE" lists 201 || fail "$(ask length) targets"
	most=$(heap_of "$(worker)")
	between "KiB of heap that 200 targets take, beside $before" $((most - before)) 1000 100000
	kill "$herd"
	wait "$herd" || fail "the herd fails: $(cat herd.out)"
	until_true "$PATIENCE" lists 1 || fail "$(ask length) targets"
	until_true 30 eval '(($(heap_of "$(worker)") < (before + most) / 2))' || fail "KiB of heap: $before, with 200 targets $most, then $(heap_of "$(worker)")"
	echo "KiB of heap: $before, with 200 targets $most, then $(heap_of "$(worker)")"
	ct_stop last
	ct_rm last
	until_true "$PATIENCE" rmdir "$HERD" 2>/dev/null || fail "the herd's cgroup is not empty"
	end_service
}
row "200 containers at a time: the worker returns their memory, though one lives on" test_many
