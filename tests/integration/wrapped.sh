# wrapped.sh - for the suites of `pillion run`, which source it: the command, and what it leaves.

lab_install pilliond pillion targets/burn
NOBODY=(setpriv --reuid 65534 --regid 65534 --clear-groups)
AS_ROOT=(env) # a command that changes nothing
SERVICE_OPTIONS=() SERVICE_UNDER=()
PATIENCE=60 # seconds until what was awaited is taken not to come: as long as a busy machine may need

# Where it writes when no service listens: with --output none would be asked.
output_by_file() { echo "output = $ROW/out" >output.conf; }
begin_run() { # [OPTION...] - sets RUN
	need_root
	chmod 755 "$LAB" .
	mkdir -m 777 -p out run
	output_by_file
	SOCKET=$ROW/run/control.sock
	RUN=("$LAB/bin/pillion" run --budget 5s --daemon "$LAB/bin/pilliond" --control "$SOCKET" --config "$ROW/output.conf"
		--log "$ROW/run/log" "$@")
	leak_mark
}
end_run() {
	until_true "$PATIENCE" no_profiler || fail "a profiler is left"
	cgroups_remove '*/pillion/session-run-*' # an unprivileged process cannot remove its own: the next start does
	cgroups_remove '*/pillion/files-*'
	leak_check 10
}

written() { [[ -n $(profiles_of "$1") ]]; }
profiles_of() { { find out spool -path "*/$1/*.pb.gz" ! -name '.*' || :; } 2>/dev/null | sort; }
# True when no session still has windows of an ended program to write. The session's lock says that it lives, not its pid:
# that is of the session's own pid namespace (profiler/spool/spool_lock.h).
nothing_to_come() {
	local file
	for file in out/.session-*; do
		! grep -qs 'state=e' "$file" || ! is_locked "$file" || return 1
	done
}
is_locked() { # FILE - proc_locks(5)
	local inode
	inode=$(stat -c %i "$1" 2>/dev/null) && grep -q ":$inode " /proc/locks
}
first_of() { # NAME - its first profile; where its program has ended in a session, all are there
	local list
	until_true "$PATIENCE" written "$1" || fail "no profile: $(cat run/log 2>/dev/null)"
	until_true "$PATIENCE" nothing_to_come || fail "a session goes on: $(cat run/log 2>/dev/null)"
	mapfile -t list < <(profiles_of "$1")
	echo "${list[0]}"
}
folded_of() { "$LAB/bin/pillion" report --folded "$(first_of "$1")"; }
comments_of() { gunzip -c "$(first_of "$1")" | tr -c '[:print:]' '\n'; }
near() { # WHAT GOT WANTED PERCENT
	awk -v g="$2" -v w="$3" -v p="$4" 'BEGIN { d = g - w; d = d < 0 ? -d : d; exit !(d <= w * p / 100) }' ||
		fail "$1: $2, not $3 within $4 %"
}
# What a busy machine loses the profile says (add_loss, profiler/target/profile/profile_notes.c), and it is no share of anybody's.
share() { # REGEX - percent of the weight on stdin that was recorded
	awk -v re="$1" '/(^|;)\[(lost[^]]*|unsampled|throttled|kernel, not permitted)\] [0-9]+$/ { next } { sum += $NF } $0 ~ re { part += $NF }
		END { printf "%d", sum ? 100 * part / sum : 0 }'
}
total_ms() { awk '{ n += $NF } END { printf "%d", n / 1e6 }'; } # of folded stacks on stdin
unsampled_ms() { { grep -E '(^|;)\[(lost|unsampled)\] ' || :; } | total_ms; } # of those, what has no sample
profilers() { { find /proc/[0-9]* -maxdepth 1 -name exe -lname "$LAB/bin/pilliond*" || :; } 2>/dev/null | cut -d/ -f3; }
any_profiler() { [[ -n $(profilers) ]]; }
no_profiler() { [[ -z $(profilers) ]]; }
named() { # COMM - pids of ours that are called so
	local pid
	for pid in $(profilers); do
		[[ $(cat "/proc/$pid/comm") == "$1" ]] && echo "$pid"
	done 2>/dev/null
	:
}
worker() { named pilliond-worker | tail -n 1; }
has_worker() { [[ -n $(worker) ]]; }

# What the worker had no CPU for, though it wanted one, in us: nobody read its rings then (schedstat).
worker_waited() { awk '{ printf "%.0f", $2 / 1000 }' "/proc/$(worker)/schedstat"; }

times_ready() { { cat service.log 2>/dev/null || :; } | grep -c state=ready || :; }
ready_again() { (($(times_ready) > $1)); }
service_run() { # SERVICE_OPTIONS: more of them; SERVICE_UNDER: a command that runs it
	local had # by others before it, in the same log
	had=$(times_ready)
	mkdir -p spool
	INVOCATION_ID=x ${SERVICE_UNDER[@]+"${SERVICE_UNDER[@]}"} "$LAB/bin/pilliond" \
		${SERVICE_OPTIONS[@]+"${SERVICE_OPTIONS[@]}"} --control "$SOCKET" --spool "$ROW/spool" \
		--log "$ROW/service.log" --log-level info </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true "$PATIENCE" ready_again "$had" || fail "no service: $(cat service.log service.out)"
}
tags_of() { # NAME KEY - the values of a label over all its profiles, one a line
	first_of "$1" >/dev/null
	profiles_of "$1" | while read -r file; do
		go tool pprof -tags "$file" 2>/dev/null | awk -v key="$2:" '$1 ~ /:$/ && $2 == "Total" {on = $1 == key; next}
			on && NF {sub(/^[^:]*: /, ""); print}'
	done | sort -u
}
