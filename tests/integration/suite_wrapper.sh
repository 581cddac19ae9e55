# suite_wrapper - pillion-runc in front of runc and crun: what is not ours it passes on, to the byte; what an annotation asks for is
# profiled, by engines that know nothing of hooks; and no mistake of ours keeps a container from its start.

. "$TOP/tests/integration/same_list.sh"
. "$TOP/tests/integration/pods.sh"
lab_install pillion-runc pillion-opener targets/sites
install "${B%/*}/release/libpillion.so" "$LAB/bin/"
W=$LAB/bin/pillion-runc

# --- the same list as by the hook, without one

wrapped_list() { # RUNTIME [OPTION...]
	WRAPPED=$1 same_list "$@"
}
for runtime in podman-runc podman-crun runc crun ctr-runc; do # docker-runc: suite_docker
	row "$runtime, wrapped: the list" wrapped_list "$runtime"
done

# The CRI's, whose runtime handler names it and hands the Pods' annotations on.
test_pod() { # VERSION
	printf '#!/bin/sh\nPILLION_ETC=%s/cri-etc exec %s/bin/pillion-runc "$@"\n' "$LAB" "$LAB" >"$LAB/cri-runtime"
	chmod 755 "$LAB/cri-runtime"
	PODS_RUNTIME=$LAB/cri-runtime containerd_up "$1" wrapped
	WRAPPED=runc with service
	ln -sfn "$ROW/etc" "$LAB/cri-etc"
	pod shop-0 -n prod -l app.kubernetes.io/name=till -a io.pillion.profile/container.web=cpu@999 -a io.pillion.profile/container.heap=alloc/1024
	start db -- /bin/burn 0.2
	start web -- /bin/ctor
	ended
	profile
	start heap -- /bin/sites 1
	ended
	pods_done # the image's layers are unmounted
	until_true 20 enough_profiles 2 || fail "no profile of allocations: $(cat log)"
	is "the number of profiles" "$(count_profiles)" 2
	PROFILE=$(find spool -name '*-cpu.pb.gz')
	spent "the constructor" ';ctor_work' 25 36
	has "the labels" "$(samples)" ' container:\[web\] .*namespace:\[prod\].* pid:\[1\].* pod:\[shop-0\]'
	has "what it allocates" "$("$LAB/bin/pillion" report --folded --type alloc_space "$(find spool -name '*-alloc.pb.gz')")" 'main;[a-z_]+'
	is "what is not asked for" "$(grep -c 'container=.*outcome=' log)" 2
}
for version in "${PODS_VERSIONS[@]}"; do row "containerd $version, CRI, wrapped: one container of a Pod, and another one's allocations" in_pods test_pod "$version"; done

test_unannotated() { # RUNTIME
	ct_need "$1"
	WRAPPED=$1 with service
	leak_mark
	is "its output" "$(ct_run "$1" c1 -i "$IMAGE" -- $OWN | sed -n 1p)" "pid 1"
	leak_check
	is "profiles" "$(count_profiles)" 0
	has_not "the log" "$(cat log)" 'container='
}
for runtime in podman-crun runc ctr-runc; do row "$runtime, wrapped: no annotation, nothing" test_unannotated "$runtime"; done

test_alloc() { # RUNTIME - the annotation alone brings the library in
	ct_need "$1"
	WRAPPED=$1 with service
	ct_run "$1" c1 -a io.pillion.profile=alloc/65536 -- "$LAB/bin/sites" 100 0 1000 10000 >told
	profile
	between "bytes" "$("$LAB/bin/pillion" report --folded --type alloc_space "$PROFILE" | awk '/;(site_[0-9]|.lost.)(;| )/ { n += $NF } END { printf "%.0f", n }')" \
		"$(awk '/^site_/ { n += $2 } END { printf "%.0f", n * 0.8 }' told)" "$(awk '/^site_/ { n += $2 } END { printf "%.0f", n * 1.2 }' told)"
}
for runtime in podman-runc runc crun ctr-runc; do row "$runtime, wrapped: alloc by its annotation alone" test_alloc "$runtime"; done

# --- a runtime alone: a bundle by hand, and the words that people and engines write

# ./b: a bundle whose program says hello. wrap RUNTIME: real and wrapped, each with a root of its own.
begin_bundle() { # RUNTIME [JQ]
	ct_need "$1"
	WRAPPED=$1 with session
	WRAPPER=$(ct_oci "$1") REAL=$(PATH=$CT_PATH command -v "$1") CT=$1
	mkdir -p b
	cp -a "$IMAGE" b/rootfs
	(cd b && runc spec)
	jq '.process.terminal = false | .process.args = ["/bin/sh", "-c", "echo hello; echo oops >&2; exit 5"] | .process.rlimits = []
		| .linux.cgroupsPath = $cgroup | del(.mounts[] | select(.type == "cgroup"))'" ${2:+| $2}" --arg cgroup "$LAB_CGROUP/b" b/config.json >b/new
	mv b/new b/config.json
}
runtime() { ct_in "$CT" sh -c 'cd "$0" && exec "$@"' "$ROW" "$@"; }
wrapped() { runtime "$WRAPPER" --root "$ROW/state" "$@"; }

# Every line: the real one and the wrapped one, one behind the other, each with a state of its own; stdout, stderr and exit status
# are the same bytes, but for the time of a log line and the root, which is the row's own.
CASES_RUNC='
--version|-v|--help|-h|help||state nobody|state|start nobody|start|start a b|delete nobody|delete --force nobody|kill nobody KILL|kill|list
list --format json|ps nobody|exec nobody true|exec|events --stats nobody|pause nobody|resume nobody|update nobody|spec --bundle none|features
--from-the-future start x|start --from-the-future x|run --from-the-future x|--root|--debug state nobody|--log none/log state nobody
--log-format json state nobody|--log-format nonsense state nobody|run|run --bundle|run --bundle none x|run -b none x|run -b=none x|run -bnone x|run --bund b x
create --bundle none x|create|run a/b --bundle b|run -b b a/b|run -b b ..|run -b b --pid-file none/pid x|run -b b x|run -b=b x|run --bundle b x|run --bundle=b x
run -bundle b x|run -b none -b b x|run -b b -- x|run x -b b|run -b b --detach=nonsense x|run --no-pivot -b b x|run --no-new-keyring --bundle b x|run -b b --preserve-fds 0 x
run -b b create|--root create state create|checkpoint nobody|restore nobody|restore --bundle none x|-- state x|- state x|crap|run -b b ""'
CASES_CRUN='
--version|-v|--help|-?|help||state nobody|state|start nobody|start|start a b|delete nobody|delete --force nobody|kill nobody KILL|kill|list
list --format json|ps nobody|exec nobody true|exec|pause nobody|resume nobody|update nobody|spec none|features
--from-the-future start x|start --from-the-future x|run --from-the-future x|--root|--debug state nobody|--log none/log state nobody
--log-format json state nobody|--log-format nonsense state nobody|--cgroup-manager nonsense state nobody|run|run --bundle|run --bundle none x|run -b none x|run -b=none x
run -bnone x|run --bund b x|create --bundle none x|create|run b/a --bundle b|run -b b a/b|run -b b ..|run -b b --pid-file none/pid x|run -b b x|run -bb x|run --bundle b x
run --bundle=b x|run -bundle b x|run -b none -b b x|run -b b -- x|run x -b b|run -b b --detach=nonsense x|run --no-pivot -b b x|run --no-new-keyring --bundle b x
run -b b --preserve-fds 0 x|run -b b -f b/config.json x|run -b b -f config.json x|run -b b --config=none x|run -b b create|--root create state create|checkpoint nobody
restore nobody|-- state x|- state x|crap|run -b b ""'

said_by() { # DIR PROGRAM WORDS - ./DIR/out, err, status
	local words status=0
	mkdir -p "$1"
	eval "words=($3)"
	runtime "$2" "${words[@]}" </dev/null >"$1/out" 2>"$1/err" || status=$?
	echo $status >"$1/status"
	# a runtime that fails behind the start kills its container, which may have printed by then, or not
	((status == 5)) || sed -i -E '/^(hello|oops)$/d' "$1"/{out,err}
	runtime "$REAL" delete --force x >/dev/null 2>&1 || :
	runtime "$REAL" delete --force create >/dev/null 2>&1 || :
	sed -i -E 's/"?time"?[=:] ?"[^"]*"/time/g; s/20[0-9-]+T[0-9:.]+Z?/TIME/g; s/[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?/TIME/g; s/(process_linux|pid|PID)[=: ]*[0-9]+/\1 N/g' "$1"/{out,err}
}

test_same_bytes() { # RUNTIME CASES
	local words n=0
	begin_bundle "$1"
	while IFS= read -r words; do
		said_by real "$REAL" "$words"
		said_by wrapped "$WRAPPER" "$words"
		diff -r real wrapped >differs || fail "'$words': not the same: $(cat differs)"
		n=$((n + 1))
	done < <(tr '|' '\n' <<<"${2:1}")
	echo "$n invocations"
	((n >= 60)) || fail "only $n invocations"
	has_not "the log" "$(cat log 2>/dev/null)" 'outcome='
}
row "runc: 60 and more invocations, byte by byte" test_same_bytes runc "$CASES_RUNC"
row "crun: 60 and more invocations, byte by byte" test_same_bytes crun "$CASES_CRUN"

ASKS='.annotations = {"io.pillion.profile": "cpu@999"}'
BURNS="$ASKS"' | .process.args = ["/own/first"]'

test_by_hand() { # RUNTIME - create, state, start, delete
	local before
	begin_bundle "$1" "$BURNS"
	before=$(sha256sum <b/config.json)
	wrapped create --bundle b --pid-file pid c1 </dev/null >out 2>&1 || fail "create: $(cat out)"
	is "its status" "$(wrapped state c1 | jq -r '.status + " " + .bundle')" "created $ROW/b"
	wrapped start c1 || fail "start"
	profile
	has "its functions" "$(samples)" ';first_work'
	is "its pid" "$(pids_of first)" "$(sed -n 's/^pid //p' out)"
	wrapped start c1 2>said && fail "it starts twice"
	until_true 10 eval 'wrapped delete c1 2>/dev/null' || fail "delete"
	is "its config.json" "$(sha256sum <b/config.json)" "$before"
}
row "runc: create, start and delete by hand" test_by_hand runc
row "crun: create, start and delete by hand" test_by_hand crun

# What nobody knows is there for the runtime as it was; and for the next one, for nothing was written.
test_lossless() { # RUNTIME
	local before
	begin_bundle "$1" "$BURNS"
	# beside what all understand: duplicate keys, numbers of any length, and 12 MB of what nobody knows
	{ head -c -2 b/config.json && printf ',"unknown":{"n":123456789012345678901234567890,"n":1e400,"x":"' && head -c 12000000 /dev/zero | tr '\0' x && printf '"}}'; } >b/new
	mv b/new b/config.json
	before=$(sha256sum <b/config.json)
	wrapped run --bundle b c1 >out 2>&1 || fail "run: $(cat out)"
	profile
	has "its functions" "$(samples)" ';first_work'
	is "its config.json" "$(sha256sum <b/config.json)" "$before"
	[[ $1 != runc ]] || is "bundles that are left, with their container gone" "$(find -L /run/pillion/bundles -mindepth 2 -maxdepth 2 -name .container -type l -mmin +2 | wc -l)" 0
}
row "runc: run, with a config.json of 12 MB and keys that nobody knows" test_lossless runc
row "crun: run, with a config.json of 12 MB and keys that nobody knows" test_lossless crun

test_forms() { # RUNTIME WORD... - of the bundle, as people write it: the runtime gets another one in its place
	local words
	begin_bundle "$1" "$BURNS"
	for words in "${@:2}"; do
		wrapped run $words c1 >out 2>&1 </dev/null || fail "run $words: $(cat out)"
		until_true 20 enough_profiles 1 || fail "run $words: no profile: $(cat log)"
		rm -r spool/*
	done
}
row "runc: run, the bundle in every form" test_forms runc '-b b' '-b=b' '--bundle b' '--bundle=b' '-bundle b' '-b none -b b'
row "crun: run, the bundle and its config.json in every form" test_forms crun '-b b' '-bb' '--bundle=b' '-b b -f config.json' '-b b --config=config.json'

test_unclear() { # RUNTIME: the container runs, and the log says why there is no profile
	local config
	begin_bundle "$1" "$BURNS"
	config=$(cat b/config.json)
	printf '%s' "$config" | sed 's/"annotations"/"annotations": {"io.pillion.profile": "cpu"}, "hooks": {}, "hooks": {}, "x"/' >b/config.json
	wrapped run --bundle b c1 >out 2>&1 || fail "run: $(cat out)"
	has "the log" "$(cat log)" "container=c1 outcome=unprofiled reason=\"'hooks' stands there twice\""
	is "profiles" "$(count_profiles)" 0
}
row "runc: what is unclear runs untouched" test_unclear runc

# --- what an engine relies on

test_becomes() { # the same process: pid, parent's death signal, descriptors, environment
	begin_bundle runc "$ASKS"
	printf '#!/bin/sh\nreadlink /proc/$$/fd/3; echo "$$ $PPID $LISTEN_FDS $NOTIFY_SOCKET"; grep -E "^(SigIgn|SigBlk)" /proc/$$/status; exec sleep 1000\n' >fake
	chmod 755 fake
	sed -i "s|^runtime = .*|runtime = $ROW/fake|" etc/pillion.conf
	: >three
	LISTEN_FDS=1 NOTIFY_SOCKET=x setsid setpriv --pdeathsig KILL sh -c 'trap "" USR1; exec 3<three; exec "$@"' x "$WRAPPER" start c1 >said 2>&1 &
	local parent=$! pid
	until_true 10 eval '(($(wc -l <said) >= 4))' || fail "it did not run: $(cat said)"
	is "descriptor 3" "$(sed -n 1p said)" "$ROW/three"
	is "pid, parent, environment" "$(sed -n 2p said)" "$parent $BASHPID 1 x"
	has "ignored signals" "$(sed -n 4p said)" 'SigIgn:	0*[0-9a-f]*2[0-9a-f][0-9a-f]$'
	kill -KILL "$parent"
}
row "the real one has the pid, descriptors, signals and environment that came" test_becomes

# conmon's way to be sure that no runtime outlives it
test_parent_dies() {
	begin_bundle runc
	printf '#!/bin/sh\nexec sleep 1000\n' >fake
	chmod 755 fake
	sed -i "s|^runtime = .*|runtime = $ROW/fake|" etc/pillion.conf
	sh -c 'setpriv --pdeathsig KILL "$@" & echo $! >child; wait' x "$WRAPPER" start c1 >/dev/null 2>&1 &
	local parent=$!
	is_real() { [[ -s child && $(tr '\0' ' ' <"/proc/$(cat child)/cmdline") == "sleep 1000 " ]]; }
	until_true 10 is_real 2>/dev/null || fail "it did not become the real one"
	kill -KILL $parent
	until_true 20 eval '! is_real 2>/dev/null' || fail "it lives on: $(kill -KILL "$(cat child)")"
}
row "the real one dies with its parent, as the engine asked for" test_parent_dies

test_missing() {
	begin_bundle runc
	sed -i "s|^runtime = .*|runtime = $ROW/none|" etc/pillion.conf
	is "status" "$(status_of "$WRAPPER" --log "$ROW/engine.log" --log-format json create --bundle b c1 2>said)" 127
	has "what it says" "$(cat said)" 'pillion-runc: the runtime that pillion.conf names is not there'
	is "to the engine" "$(jq -r .level engine.log)" error
	sed -i "s|^runtime = .*|runtime = $W|" etc/pillion.conf
	is "itself: status" "$(status_of "$WRAPPER" state c1 2>said)" 127
	sed -i "s|^runtime = .*|runtime = $WRAPPER|" etc/pillion.conf
	is "a script that leads back: status" "$(status_of "$WRAPPER" state c1 2>said)" 127
	has "what it says" "$(cat said)" 'leads back to pillion-runc'
}
row "no runtime, itself, a way back to itself: one sentence, 127" test_missing

test_faults() { # whatever of ours fails, the container runs
	begin_bundle runc
	says_hello() { # WHAT
		wrapped create --bundle b c1 </dev/null >out 2>&1 || fail "$1: create: $(cat out)"
		wrapped start c1 2>said || fail "$1: start: $(cat said)"
		until_true 10 eval '[[ $(runtime "$REAL" --root "$ROW/state" state c1 | jq -r .status) == stopped ]]' || fail "$1: it does not end"
		has "$1" "$(cat out)" hello
		runtime "$REAL" --root "$ROW/state" delete c1
	}
	jq "$ASKS" b/config.json >b/new && mv b/new b/config.json
	mkdir bin
	cp "$W" bin/
	printf '#!/bin/sh\nPILLION_ETC=%s exec %s/bin/pillion-runc "$@"\n' "$ROW/etc" "$ROW" >"$WRAPPER"
	says_hello "there is no hook"
	has "the log" "$(cat log)" 'there is no pillion-hook'
	for fault in 'exit 1' 'kill -9 $$' 'exec sleep 1000' 'exec cat /dev/zero' 'echo on its stdout; exit 0'; do
		printf '#!/bin/sh\n%s\n' "$fault" >bin/pillion-hook
		chmod 755 bin/pillion-hook
		sed -i 's/^budget = .*/budget = 50ms/' etc/pillion.conf
		says_hello "a hook that does '$fault'"
		is "on stdout" "$(grep -c 'on its' out)" 0
	done
	echo 'strict = yes' >etc/policy.conf
	printf '#!/bin/sh\necho refused >&2; exit 1\n' >bin/pillion-hook
	wrapped create --bundle b c1 </dev/null >out 2>&1 || fail "create: $(cat out)"
	is "strict: its status" "$(status_of wrapped start c1 2>said)" 1
	is "strict: what it says" "$(cat said)" refused
	rm bin/pillion-hook
	is "strict, no hook: its status" "$(status_of wrapped start c1 2>said)" 1
	has "strict, no hook: what it says" "$(cat said)" '^pillion-runc: it is not started, for strict is set .*: there is no pillion-hook$'
	printf '#!/bin/sh\nexec sleep 1000\n' >bin/pillion-hook
	chmod 755 bin/pillion-hook
	is "strict, a hook that hangs: its status" "$(status_of wrapped --log "$ROW/engine.log" start c1 2>said)" 1
	has "strict, a hook that hangs: what it says" "$(cat said engine.log)" 'the hook did not end in time.*the hook did not end in time'
	cp etc/pillion.conf conf
	printf '#!/bin/sh\ncase "$*" in *state*) exec sleep 1000 ;; esac\nexec %s "$@"\n' "$REAL" >slow
	chmod 755 slow
	sed -i "s|^runtime = .*|runtime = $ROW/slow|" etc/pillion.conf
	is "strict, a state that nobody says: its status" "$(status_of wrapped start c1 2>said)" 1
	has "strict, a state that nobody says: what it says" "$(cat said)" 'takes long to say its state'
	mv conf etc/pillion.conf
	touch etc/off
	wrapped start c1 2>said || fail "switched off: $(cat said)"
	until_true 10 eval 'wrapped delete c1 2>/dev/null' || fail "delete"
}
row "no hook, a hook that fails, is killed, hangs, floods; strict; switched off" test_faults
