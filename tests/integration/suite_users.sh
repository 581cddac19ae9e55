# suite_users - a service that profiles for members of a group, too: each has processes, rings and a part of the spool apart
# from everybody else's.

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener tools/tenant tools/peer targets/threads targets/deep
GROUP=users # there is one on every Debian
ANNE=64901 BERT=64902

as() { # UID COMMAND... - a member
	setpriv --reuid "$1" --regid "$1" --groups "$GROUP" "${@:2}"
}
begin_users() { # [OPTION...]
	jobs=()
	SERVICE_OPTIONS=(--users-group "$GROUP" "$@")
	begin_service
	RUN+=(--window 3600s) # one profile of each, however long it takes
	USERS=$ROW/run/users.sock
	mkdir -m 777 copies
}
names_of() { # UID - of what he is told
	as "$1" "${PS[@]}" --json | jq -r 'map(.name) | sort | join(" ")'
}
sees() { [[ $(names_of "$1") == "$2" ]]; }
all_of() { "${PS[@]}" --json | jq -r 'map(.name) | sort | join(" ")'; }
user_processes() { pgrep -P "$(pgrep -P "$SERVICE" -x pilliond-users)" -x pilliond-user | wc -l; }
no_user_process() { [[ $(user_processes) == 0 ]]; }
worker_of() { # UID
	local pid
	for pid in $(pgrep -P "$(pgrep -P "$SERVICE" -x pilliond-users)" -x pilliond-user); do
		grep -q "prog=pilliond-user-$1 pid=$pid " service.log && pgrep -P "$pid" -x pilliond-worker
	done
}
copied() { # UID NAME - what this user can read of its profiles, as root's copy
	local file
	until_true 20 eval '[[ -n $(ls spool/.users/'"$1/$2"'/*.pb.gz 2>/dev/null) ]]' || fail "no profile of $2: $(tail service.log)"
	for file in "spool/.users/$1/$2"/*.pb.gz; do
		as "$1" cat "$file" || fail "user $1 cannot read $file"
	done >"$ROW/copies/$1-$2"
}
seconds_of() { # UID|root NAME
	local files=("spool/.users/$1/$2"/*.pb.gz)
	[[ $1 != root ]] || files=("$(first_of "$2")")
	"$LAB/bin/pillion" report --folded "${files[@]}" | awk '{ n += $NF } END { printf "%.2f", n / 1e9 }'
}

# Programs that begin to work when they are told to (open_gate go), and stay until they are told that, too (open_gate leave):
# however long it takes to look at them, they are there. What CPU time a program had, by the kernel's count, is in NAME.times.
stays() { # NAME ARG... - makes ./stay/NAME
	mkdir -p -m 777 stay
	[[ -p go ]] || mkfifo -m 666 go leave
	printf '#!/bin/sh\n: <%s\n%s >/dev/null\ntimes >%s\n: <%s\n' "$ROW/go" "$LAB/bin/$*" "$ROW/stay/$1.times" "$ROW/leave" >"stay/$1"
	chmod 755 "stay/$1"
	STAYS=$ROW/stay/$1
}
open_gate() { # go|leave
	if [[ $1 == go ]]; then exec 8<>go; else exec 9<>leave; fi
}
time_of() { # NAME [user|all] - seconds that its program had, or of those its own code's
	awk -v all="${2-}" 'function seconds(t) { split(t, part, "[ms]"); return part[1] * 60 + part[2] }
		NR == 2 { printf "%.3f", seconds($1) + (all == "user" ? 0 : seconds($2)) }' "stay/$1.times"
}

# Root's program and a user's, while something happens; then each profile has all of its time.
both_burn() { # SECONDS
	stays burn "$1"
	"${RUN[@]}" -- "$STAYS" >/dev/null &
	jobs+=($!)
	stays threads 1 "$1"
	as $ANNE "${RUN[@]}" -- "$STAYS" >/dev/null &
	jobs+=($!)
	until_true 20 sees $ANNE threads || fail "user $ANNE sees \"$(names_of $ANNE)\""
	open_gate go
}
both_have() {
	open_gate leave
	wait "${jobs[@]}"
	copied $ANNE threads
	has_all root burn
	has_all $ANNE threads
}
has_all() { # UID|root NAME
	if [[ $1 == root ]]; then
		near "seconds of $2" "$(seconds_of root "$2")" "$(time_of "$2")" 5
	else # of kernel code a user has no samples; which part of the time that was, the kernel itself only samples
		between "seconds of $2" "$(seconds_of "$1" "$2")" "$(awk "BEGIN { print $(time_of "$2" user) * 0.9 }")" \
			"$(awk "BEGIN { print $(time_of "$2") * 1.05 }")"
	fi
}

status_of_process() { # PID - 1: it has ended, as a process does that has one thing to do
	local status
	status=$(cat "/proc/$1/status" 2>/dev/null) || return 1
	awk '/^(CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):/ { sub(":", "", $1); printf "%s=%s ", $1, $2 }
		/^[UG]id:/ { for (i = 2; i <= 5; i++) n += $i == 0 } END { print "root=" n + 0 }' <<<"$status"
}

processes_of() { # PID - as many as its limit says
	awk '/^Max processes/ { print $3 }' "/proc/$1/limits"
}

test_apart() {
	local pid users status seen=0
	begin_users
	stays burn 1
	"${RUN[@]}" -- "$STAYS" >/dev/null &
	jobs+=($!)
	stays threads 2 0.5
	as $ANNE "${RUN[@]}" -- "$STAYS" >/dev/null &
	jobs+=($!)
	stays deep 1 20
	as $BERT "${RUN[@]}" -- "$STAYS" >/dev/null &
	jobs+=($!)
	until_true 20 sees $ANNE threads || fail "user $ANNE sees \"$(names_of $ANNE)\""
	until_true 20 sees $BERT deep || fail "user $BERT sees \"$(names_of $BERT)\""
	open_gate go
	is "what root sees" "$(all_of)" burn
	is "processes for users" "$(user_processes)" 2
	for pid in $(profilers); do
		status=$(status_of_process "$pid") || continue
		is "privileges of $pid" "$status" \
			"CapPrm=0000000000000000 CapEff=0000000000000000 CapBnd=0000000000000000 NoNewPrivs=1 Seccomp=2 root=0"
		seen=$((seen + 1))
	done
	((seen >= 10)) || fail "but $seen processes were looked at"
	users=$(pgrep -P "$SERVICE" -x pilliond-users)
	for pid in "$users" $(pgrep -P "$users"); do
		between "processes that $(cat "/proc/$pid/comm") may have beside it" "$(processes_of "$pid")" 1 160
	done
	has "processes for users" "$(pgrep -P "$users" | xargs -I{} cat /proc/{}/comm)" pilliond-fork
	open_gate leave
	wait "${jobs[@]}"
	copied $ANNE threads
	copied $BERT deep
	has "its functions" "$("$LAB/bin/pillion" report --folded copies/$ANNE-threads)" ';thread_work'
	has "its functions" "$("$LAB/bin/pillion" report --folded copies/$BERT-deep)" ';leaf_work'
	has_all $ANNE threads
	has_all $BERT deep
	is "what another user is told of the directory" "$(as $BERT ls "spool/.users/$ANNE" 2>&1 || :)" \
		"ls: cannot open directory 'spool/.users/$ANNE': Permission denied"
	as $ANNE touch "spool/.users/$ANNE/mine" 2>/dev/null && fail "user $ANNE can write there"
	as $ANNE ls spool 2>/dev/null && fail "user $ANNE can list the spool"
	has_all root burn
	until_true 30 no_user_process || fail "left for users: $(user_processes)"
	end_service
}
row "members of users_group: each has his own profiles, and sees nobody else's" test_apart

test_others() {
	begin_users
	SERVICE_OPTIONS=()
	setpriv --reuid 64903 --regid 64903 --clear-groups "${RUN[@]}" -- "$LAB/bin/burn" 0.5 >/dev/null 2>said || fail "exit status $?"
	has "his own session's profile" "$(folded_of burn)" ';burn_loop'
	is "processes for users" "$(user_processes)" 0
	chmod 777 run "$SOCKET" # as far as the socket
	"${NOBODY[@]}" "${PS[@]}" 2>said && fail "he sees something"
	has "stderr" "$(cat said)" 'refused: user 65534 may neither register targets nor list them: only root may$'
	end_service
}
row "who is no member has a session of his own" test_others

# By an id that he should not even know: on his own socket, and on root's, should he ever get there.
test_stops() {
	local uid id how mode n=0
	begin_users
	both_burn 1
	"${PS[@]}" --json | jq -r '.[].id' >ids
	as $ANNE "${PS[@]}" --json | jq -r '.[].id' >>ids
	is "ids" "$(wc -l <ids)" 2
	sees $BERT "" || fail "user $BERT sees \"$(names_of $BERT)\""
	mode=$(stat -c %a "$SOCKET")
	chmod 777 "$SOCKET"
	has "what root's socket tells him" "$(as $BERT "${PS[@]}" --json 2>&1 || :)" "refused: user $BERT may neither register"
	for id in $(cat ids); do
		for how in unasked greeted claimed armed; do
			is "what Bert hears, $how" "$(as $BERT "$LAB/bin/peer" stop "$USERS" "$id" $how)" "end"
			for uid in $ANNE $BERT 65534; do
				has "what user $uid hears of root, $how" \
					"$(setpriv --reuid $uid --regid $uid --clear-groups "$LAB/bin/peer" stop "$SOCKET" "$id" $how)" \
					"^refused: user $uid may neither register targets nor list them"
			done
			n=$((n + 1))
		done
	done
	is "tries" $n 8
	chmod "$mode" "$SOCKET"
	is "what root sees" "$(all_of)" burn
	sees $ANNE threads || fail "user $ANNE sees \"$(names_of $ANNE)\""
	is "what ended" "$(grep -E 'state=ended' service.log | grep -vc "prog=pilliond-user-$BERT " || :)" 0
	both_have
	end_service
}
row "a user says that another's target is to be stopped, and root's: he neither sees nor stops them" test_stops

# Root's openers are trusted with the rings of all; on kernels where a ring can be mapped through another event than its
# own, that is what they would see.
test_keeps() {
	local said
	begin_users
	both_burn 1
	said=$(as $BERT "$LAB/bin/tenant" keep "$USERS" 1)
	has "what he saw" "$said" '^samples [0-9]+ foreign 0 taken [0-9]+ rings [0-9]+ cpu [0-9]+$'
	[[ $said == *" rings 0 "* ]] || between "% of his CPU time of which he saw samples" "$(awk '{ print 100 * $2 / $10 }' <<<"$said")" 17 300
	echo "$said"
	both_have
	said=$("$LAB/bin/tenant" keep "$SOCKET" 1)
	echo "root: $said"
	end_service
}
row "who keeps copies of his events reads and alters nobody else's profile" test_keeps

test_wrong() {
	begin_users
	both_burn 1
	is "a layout that was not said" "$(as $BERT "$LAB/bin/tenant" layout "$USERS" 2)" "done"
	has "events that have a ring" "$(as $BERT "$LAB/bin/tenant" early "$USERS" 1 || :)" '^refused: event on CPU'
	is "of one who has targets" "$(as $ANNE "$LAB/bin/tenant" layout "$USERS" 1)" "done"
	both_have
	is "processes of root's that died" "$(grep 'prog=pilliond ' service.log | grep -c died || :)" 0
	end_service
}
row "records of a user that are laid out otherwise than said: nobody else's profile has less" test_wrong

# The log is the administrator's, and these are lines of which a user can have as many as he likes.
test_quiet() {
	local his="prog=pilliond-user-$BERT "
	begin_users
	as $BERT "$LAB/bin/peer" call "$USERS" leave
	has "what he hears" "$(as $BERT "$LAB/bin/peer" call "$USERS" files)" '^refused: '
	until_true 20 grep -q "$his.*went away before it was armed" service.log || fail "nothing of the first: $(cat service.log)"
	until_true 20 grep -q "$his.*outcome=refused" service.log || fail "nothing of the second: $(cat service.log)"
	is "more than information" "$(grep "$his" service.log | grep outcome= | grep -v level=info || :)" ""
	end_service
}
row "what a user has written to the log by misbehaving is not there by default" test_quiet

# Whoever opens a file there waits for as long as its file system is stopped.
end_fuse() {
	kill -CONT "$FUSE" && umount -l fuse
	wait "$FUSE" || :
	trap - EXIT
} 2>/dev/null
test_hangs() {
	local tenant tries
	need fuse-overlayfs
	[[ -c /dev/fuse ]] || skip "there is no /dev/fuse"
	begin_users
	mkdir low fuse
	setsid fuse-overlayfs -f -o lowerdir="$ROW/low",allow_other "$ROW/fuse" >fuse.out 2>&1 &
	FUSE=$!
	trap end_fuse EXIT
	until_true 20 mountpoint -q fuse || fail "fuse-overlayfs: $(cat fuse.out)"
	(cd fuse && exec setpriv --reuid $BERT --regid $BERT --groups "$GROUP" "$LAB/bin/tenant" hang "$USERS" 8) >said &
	tenant=$!
	until_true 20 eval '[[ $(ps -o state= -p $tenant) == T ]]' || fail "he does not stop"
	kill -STOP "$FUSE"
	kill -CONT $tenant
	until_true 10 sees $BERT tenant || fail "user $BERT sees \"$(names_of $BERT)\""
	for tries in {1..6}; do
		sleep 1
		sees $BERT tenant || fail "after $tries s user $BERT sees \"$(names_of $BERT)\""
	done
	wait $tenant
	is "what he heard" "$(cat said)" "done"
	until_true 10 sees $BERT "" || fail "user $BERT sees \"$(names_of $BERT)\""
	end_fuse
	end_service
}
row "a user's cgroup on a file system that does not answer: his processes do" test_hangs

ticks_of() { # PID - of CPU time
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}
has_worked() { # for a fifth of a second at least
	[[ -s stay/threads.times ]] || (($(ticks_of "$(pgrep -n -u $ANNE -x threads)") >= 20))
}
another_worker_of() { # UID PID
	local pid
	pid=$(worker_of "$1")
	[[ -n $pid && $pid != "$2" ]]
}
test_worker() {
	local before
	begin_users
	both_burn 1
	until_true 60 has_worked || fail "it does not work"
	for _ in 1 2 3; do
		before=$(worker_of $ANNE)
		kill -KILL "$before"
		until_true 20 another_worker_of $ANNE "$before" || fail "no other worker: $(tail -n 5 service.log)"
	done
	both_have
	has "its functions" "$("$LAB/bin/pillion" report --folded copies/$ANNE-threads)" ';thread_work'
	is "workers of root that died" "$(grep 'prog=pilliond ' service.log | grep -c 'worker died' || :)" 0
	end_service
}
row "a user's worker is killed: his target goes on, and others' do not notice" test_worker

test_too_many() {
	begin_users --users-max 1
	as $ANNE "${RUN[@]}" -- "$LAB/bin/burn" 1 >/dev/null
	as $BERT "${RUN[@]}" -- "$LAB/bin/threads" 1 1 >/dev/null 2>said || fail "exit status $?"
	has "stderr" "$(cat said)" 'pilliond profiles for 1 users already: raise users_max'
	copied $ANNE burn
	until_true 30 no_user_process || fail "left for users: $(user_processes)"
	as $BERT "${RUN[@]}" -- "$LAB/bin/threads" 1 1 >/dev/null
	copied $BERT threads
	end_service
}
row "more users than users_max: refused in a sentence, until there is room" test_too_many

test_broken() {
	begin_users
	both_burn 1
	until_true 60 has_worked || fail "it does not work"
	kill -KILL "$(pgrep -P "$SERVICE" -x pilliond-users)"
	until_true 20 eval '! pgrep -P $SERVICE -x pilliond-users >/dev/null' || fail "it lives"
	as $BERT "${RUN[@]}" -- "$LAB/bin/deep" 0.2 20 >/dev/null 2>said || fail "exit status $?"
	has "a session's profile" "$("$LAB/bin/pillion" report --folded "$(first_of deep)")" ';leaf_work'
	open_gate leave
	wait "${jobs[@]}"
	copied $ANNE threads # what there was
	has_all root burn
	end_service
}
test_attach() {
	local target path
	begin_users
	as $ANNE "$LAB/bin/burn" 6 >/dev/null &
	until_true 20 pgrep -u $ANNE -x burn >/dev/null || fail "it does not run"
	target=$(pgrep -u $ANNE -x burn)
	as $BERT "$LAB/bin/pillion" attach --daemon "$LAB/bin/pilliond" --control "$SOCKET" --duration 1s "$target" >path 2>said && fail "another's process: $(cat said)"
	path=$(as $ANNE "$LAB/bin/pillion" attach --daemon "$LAB/bin/pilliond" --control "$SOCKET" --duration 3s "$target" 2>said) || fail "$(cat said)"
	has "where it is" "$path" "^$ROW/spool/.users/$ANNE/burn/.*pb.gz$"
	has "its functions" "$(as $ANNE cat "$path" | "$LAB/bin/pillion" report --folded /dev/stdin)" ';burn_loop'
	wait $!
	end_service
}
row "a user attaches to a process of his own, and to nobody else's" test_attach

# Anne has a program; her worker is stopped, and who would have reaped it killed. Sets `pid`: the worker's.
half_dead() {
	as $ANNE "$LAB/bin/tenant" keep "$USERS" 60 >/dev/null &
	jobs+=($!)
	until_true 10 sees $ANNE tenant || fail "user $ANNE sees \"$(names_of $ANNE)\""
	pid=$(worker_of $ANNE)
	kill -STOP "$pid"
	kill -KILL "$(sed -n 's/^PPid:\t//p' "/proc/$pid/status")"
	until_true 20 no_user_process || fail "it lives"
}

# The rings of one who is gone are the next one's only when nobody maps them any more.
test_heir() {
	local pid said
	begin_users --users-max 1
	half_dead
	said=$(as $BERT "$LAB/bin/tenant" keep "$USERS" 1 || :)
	has "what the next one is told" "$said" 'pilliond profiles for 1 users already: raise users_max'
	kill -KILL "$pid"
	until_true 20 eval '[[ $(as $BERT "$LAB/bin/tenant" keep "$USERS" 1) == *" foreign 0 "* ]]' || fail "there is no room for him"
	pkill -KILL -u $ANNE -x tenant || :
	end_service
}
row "a user's processes die one by one: the next user has no ring of his" test_heir

# He calls again while what he had is ending.
test_again() {
	local pid
	begin_users
	half_dead
	(sleep 0.2 && kill -KILL "$pid") &
	as $ANNE "${RUN[@]}" -- "$LAB/bin/threads" 1 1 >/dev/null 2>said || fail "exit status $?"
	[[ $(cat said) != *refused* ]] || fail "stderr: $(cat said)"
	copied $ANNE threads
	pkill -KILL -u $ANNE -x tenant || :
	end_service
}
row "a user who comes while what he had is ending: he waits for the end of it, and is served" test_again

profiles_left() { # UID
	find "spool/.users/$1" -name '*.pb.gz' | wc -l
}
test_old() {
	local program
	begin_users --spool-age 14s
	as $ANNE "${RUN[@]}" -- "$LAB/bin/threads" 1 0.5 >/dev/null
	as $BERT "${RUN[@]}" -- "$LAB/bin/deep" 0.5 20 >/dev/null
	for program in threads deep; do # what is written may be old before it can be read
		until_true 20 grep -q "outcome=written file=\"$program/" service.log || fail "no profile of $program: $(cat service.log)"
	done
	until_true 30 no_user_process || fail "left for users: $(user_processes)"
	until_true 40 eval '[[ $(profiles_left $ANNE)$(profiles_left $BERT) == 00 ]]' ||
		fail "profiles of those who are gone: $(find spool/.users)"
	until_true 20 eval '[[ -z $(cat spool/.users/*/index.jsonl) ]]' || fail "these are listed: $(cat spool/.users/*/index.jsonl)"
	end_service
}
row "users who do not come back: their profiles go when they are old" test_old

test_short() {
	local users before own n=0
	begin_users
	users=$(pgrep -P "$SERVICE" -x pilliond-users)
	while [[ -e /proc/$users/fd/$n ]]; do n=$((n + 1)); done
	# the files of one that is not dumpable are root's
	own=(setpriv --reuid "$(awk '/^Uid:/ { print $2 }' "/proc/$users/status")"
		--regid "$(awk '/^Gid:/ { print $2 }' "/proc/$users/status")" --clear-groups)
	"${own[@]}" prlimit --pid "$users" --nofile=$n:
	as $ANNE "${RUN[@]}" -- "$LAB/bin/burn" 3 >/dev/null 2>said &
	jobs+=($!)
	sleep 1
	before=$(ticks_of "$users")
	sleep 1
	between "ticks while nobody can be let in" $(($(ticks_of "$users") - before)) 0 5
	"${own[@]}" prlimit --pid "$users" --nofile=1024:
	wait "${jobs[@]}" || fail "exit status $?: $(cat said)"
	as $ANNE "${RUN[@]}" -- "$LAB/bin/threads" 1 1 >/dev/null
	copied $ANNE threads
	end_service
}
row "no descriptor is left for a user who connects: nobody spins, and later there is one" test_short

# A process of his that nothing ends holds what the next user would get; the service ends all the same.
test_left_behind() {
	local users pid
	begin_users
	users=$(pgrep -P "$SERVICE" -x pilliond-users)
	half_dead
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	until_true 20 eval '! kill -0 '"$users"' 2>/dev/null' || fail "the users' process is left"
	has "the log" "$(cat service.log)" "user=$ANNE outcome=left_behind"
	kill -KILL "$pid"
	pkill -KILL -u $ANNE -x tenant || :
	end_run
}
row "a user's process that nothing ends: the service's end waits for it no longer than for others" test_left_behind

test_flood() {
	begin_users
	ct_need runc
	as $ANNE "$LAB/bin/peer" flood "$USERS" 8 &
	jobs+=($!)
	for n in 1 2 3 4 5; do
		ct_run runc "c$n" -a $NAMES=cpu -- "$LAB/bin/burn" 0.2 >/dev/null
		until_true 10 written "c$n" || fail "no profile of c$n: $(cat hook.log)"
	done
	wait "${jobs[@]}"
	end_service
}
row "a user connects without end: containers are profiled" test_flood

row "the users' process is killed: what there was is written, root's goes on, and users have sessions" test_broken
