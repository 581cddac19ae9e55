# runtimes.sh - containers of this host's own programs under every runtime, behind one interface. Sourced by `run`.
#
#	ct_run RUNTIME NAME [OPTION...] -- PROGRAM ARG...	foreground; its output, its exit status; removed at its end
#	ct_start RUNTIME NAME [OPTION...] -- PROGRAM ARG...	background; returns when it runs
#	ct_exec NAME [-u UID] -- PROGRAM ARG...			its output, its exit status
#	ct_pid NAME		the init's pid on the host	ct_id NAME	the id that the hook gets
#	ct_output NAME		what it has written so far	ct_cgroup NAME	its cgroup path, below any hierarchy
#	ct_stop NAME		SIGTERM, SIGKILL after a second	ct_wait NAME [SECONDS]	until its init is gone
#	ct_rm NAME		also when it runs
# Options: -a key=value (annotation), -v from:to[:ro] (volume), -e KEY=value, -u UID[:GID], --pid host|container:NAME.
# -i DIR: an image of one's own, a directory (ct_image makes one), in place of the host's file system.
# And what only one of the two kinds takes: -o OPTION (podman, as it stands), -j FILTER (a bundle's config.json, through jq),
# which the other kind ignores.
#
# RUNTIME is one of CT_RUNTIMES. The root file system is the host's own, written to in an overlay that goes
# with the container; the tree under test is mounted where it lies elsewhere. No network. Every engine has its storage
# and state in $LAB, nothing of the host's is touched.
# Hook: HOOK_ARGS is its argv, [0] the absolute path; HOOK_ENV its environment; HOOK_TIMEOUT seconds. It is called at
# createRuntime and poststop; under podman only for containers with the annotation, as with the installed hooks.d JSON.
# OCI_podman_runc and the like: another runtime binary for that row of the table (a wrapper, for example).
# docker-runc is none of CT_RUNTIMES: it has no hooks of its own, takes images only (-i), and -o as podman does. Called by CDI, or
# by a wrapper (OCI_docker_runc), which reads $LAB/docker/etc.

CT_RUNTIMES=(podman-runc podman-crun runc crun ctr-runc)
HOOK_ARGS=()
HOOK_ENV=(${ASAN_OPTIONS+"ASAN_OPTIONS=$ASAN_OPTIONS"} ${TSAN_OPTIONS+"TSAN_OPTIONS=$TSAN_OPTIONS"})
HOOK_TIMEOUT=5
CT_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# --- the table: engine and OCI runtime of each

ct_engine() { # RUNTIME - prefix of the functions below
	case $1 in podman-*) echo podman ;; ctr-*) echo ctr ;; docker-*) echo docker ;; *) echo bare ;; esac
}

ct_oci() { # RUNTIME - the binary
	local over=OCI_${1//-/_}
	echo "${!over:-$(PATH=$CT_PATH command -v "${1##*-}")}"
}

ct_need() { # RUNTIME - skip the row where it cannot run
	need_root
	case $1 in podman-*) need podman conmon ;; docker-*) docker_need ;; ctr-*) need containerd ctr jq runc ;; *) need jq runc ;; esac
	need "${1##*-}"
}

# crun refuses the hybrid cgroup layout (v1 controllers, v2 in unified/): it lives in a mount namespace where the v2
# part is unmounted. What it starts, hook and container, then sees v1 only, and no container has a v2 cgroup of its own.
ct_in() { # RUNTIME COMMAND...
	local pid runtime=$1
	shift
	if [[ -n ${CT_NAMESPACE-} ]]; then
		nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$@"
	elif [[ $runtime == *crun ]] && mountpoint -q /sys/fs/cgroup/unified; then
		[[ -s $LAB/keep/crun ]] || ct_crun_namespace
		pid=$(cat "$LAB/keep/crun")
		nsenter --mount="/proc/$pid/ns/mnt" -- "$@"
	else
		"$@"
	fi
}

# From here to its end the row's containers live in a mount namespace of its own: what is mounted there is nobody else's
# (anything on the machine that unshares takes a copy of all mounts along, and keeps them busy). Not for ctr, nor for crun.
ct_namespace() {
	unshare --mount --propagation private sh -c 'echo ready >namespace && exec sleep 1000000' &
	CT_NAMESPACE=$!
	until_true 5 test -s namespace || fail "no mount namespace for the row"
}

ct_crun_namespace() {
	lab_keep crun unshare --mount --propagation private \
		sh -c 'umount /sys/fs/cgroup/unified && echo ready && exec sleep 1000000'
	until_true 20 grep -qs ready "$LAB/keep/crun.log" || fail "no mount namespace for crun"
}

# --- what is asked for: parsed once into C_*, which the engines read

ct_parse() { # RUNTIME NAME [OPTION...] -- PROGRAM ARG...
	C_RUNTIME=$1 C_NAME=$2 C_DIR=$LAB/ct/$2 C_USER=0:0 C_PID="" C_ANNOTATIONS=() C_VOLUMES=() C_ENV=() C_OPTIONS=() C_FILTER=. C_IMAGE=""
	shift 2
	while [[ $# -gt 0 && $1 != -- ]]; do
		case $1 in
		-a) C_ANNOTATIONS+=("$2") ;;
		-v) C_VOLUMES+=("$2") ;;
		-e) C_ENV+=("$2") ;;
		-u) C_USER=$2 ;;
		--pid) C_PID=$2 ;;
		-i) C_IMAGE=$2 ;;
		-o) C_OPTIONS+=("$2") ;;
		-j) C_FILTER+=" | $2" ;;
		*) fail "ct: $1 is no option" ;;
		esac
		shift 2
	done
	shift
	C_ARGS=("$@")
	mkdir "$C_DIR"
	echo "$C_RUNTIME" >"$C_DIR/runtime"
	echo "${ROW-}" >"$C_DIR/row"
	[[ -z $C_IMAGE ]] || return 0 # has what it needs
	[[ $(stat -c %d "$TOP") == $(stat -c %d /) ]] || C_VOLUMES+=("$TOP:$TOP:ro")
	[[ $(stat -c %d "$LAB") == $(stat -c %d /) ]] || C_VOLUMES+=("$LAB/bin:$LAB/bin:ro")
}

# A small image of programs with what libraries they need, and the directories that engines mount on.
ct_image() { # DIR PROGRAM[=PATH]... - programs of the host's, by default in /usr/bin
	local dir=$1 program file to
	mkdir -p "$dir"/{dev,etc,proc,run,sys,tmp,usr/bin,usr/lib}
	ln -sfn usr/bin "$dir/bin"
	ln -sfn usr/lib "$dir/lib"
	ln -sfn usr/lib "$dir/lib64"
	echo 'root:x:0:0::/:/bin/sh' >"$dir/etc/passwd"
	echo 'root:x:0:' >"$dir/etc/group"
	for program in "${@:2}"; do
		file=$(command -v "${program%%=*}") || fail "ct: no program ${program%%=*} for an image"
		to=/usr/bin/${file##*/}
		[[ $program != *=* ]] || to=${program#*=}
		install -D "$file" "$dir$to"
		{ ldd "$file" 2>/dev/null || :; } | grep -o '/[^ ]*' | while read -r file; do
			install -D "$(realpath "$file")" "$dir$(dirname "$file")/$(basename "$file")"
		done
	done
}

ct_find() { # NAME
	C_NAME=$1 C_DIR=$LAB/ct/$1
	C_RUNTIME=$(cat "$C_DIR/runtime" 2>/dev/null) || fail "ct: there is no container $1"
}

# --- the interface

ct_run() {
	local status=0
	ct_parse "$@"
	"$(ct_engine "$C_RUNTIME")_run" || status=$?
	ct_rm "$C_NAME" || fail "ct: $C_NAME cannot be removed"
	return $status
}

ct_start() {
	local status=0
	ct_parse "$@"
	"$(ct_engine "$C_RUNTIME")_start" || status=$?
	((status == 0)) || ct_output "$C_NAME" >&2
	return $status
}

ct_exec() { # NAME [-u UID] -- PROGRAM ARG...
	local user=0
	ct_find "$1"
	shift
	[[ $1 == -u ]] && user=$2 && shift 2
	shift
	"$(ct_engine "$C_RUNTIME")_exec" "$user" "$@" </dev/null
}

ct_pid() { cat "$LAB/ct/$1/pid"; }

ct_id() {
	ct_find "$1"
	cat "$C_DIR/id" 2>/dev/null || echo "$1"
}

ct_output() { cat "$LAB/ct/$1/out"; }

ct_cgroup() { sed -n 's/^[0-9]*:pids:\|^0:://p' "/proc/$(ct_pid "$1")/cgroup" | sed -n 1p; }

ct_gone() {
	local pid state
	pid=$(ct_pid "$1" 2>/dev/null) || return 0
	state=$(sed -n 's/^State:\t//p' "/proc/$pid/status" 2>/dev/null) || return 0
	[[ -z $state || $state == [ZX]* ]]
}

ct_wait() { until_true "${2:-30}" ct_gone "$1"; }

ct_stop() {
	ct_find "$1"
	"$(ct_engine "$C_RUNTIME")_stop"
}

ct_rm() {
	ct_find "$1"
	"$(ct_engine "$C_RUNTIME")_rm" && rm -rf --one-file-system "$C_DIR"
}

ct_rm_all() { # ROW - those of a row, all without one
	local file
	# the newest first: it may live in a namespace of an older one
	ls -t "$LAB"/ct/*/row 2>/dev/null | while read -r file; do
		[[ -z $1 || $(cat "$file") == "$1" ]] && (ct_rm "$(basename "${file%/row}")" </dev/null)
	done
}

# --- podman

podman_() { # ARG...
	local hooks=$C_DIR/hooks.d
	[[ -d $hooks ]] || hooks=$LAB/ct
	ct_in "$C_RUNTIME" podman --root "$LAB/podman/root" --runroot "$LAB/podman/run" --tmpdir "$LAB/podman/tmp" \
		--cgroup-manager cgroupfs --events-backend none --hooks-dir "$hooks" --runtime "$(ct_oci "$C_RUNTIME")" "$@"
}

podman_hook() {
	mkdir "$C_DIR/hooks.d"
	[[ ${#HOOK_ARGS[@]} == 0 ]] && return
	jq -n --argjson args "$(json "${HOOK_ARGS[@]}")" --argjson env "$(json ${HOOK_ENV[@]+"${HOOK_ENV[@]}"})" \
		--argjson timeout "$HOOK_TIMEOUT" '{version: "1.0.0",
			hook: {path: $args[0], args: $args, env: $env, timeout: $timeout},
			when: {annotations: {"^io\\.pillion\\.profile(/container\\..+)?$": ".+"}},
			stages: ["createRuntime", "poststop"]}' >"$C_DIR/hooks.d/50-pillion.json"
}

# podman 4 reads the option as comma-separated values, so one with a comma in it needs CSV's quotes.
podman_word() { # KEY=VALUE
	[[ $1 == *,* ]] && podman create --help | grep -- '--annotation strings' >/dev/null && set -- "\"${1//\"/\"\"}\""
	echo "$1"
}

podman_image() { # the words that say what its root is
	[[ -n $C_IMAGE ]] || { ROOT=(--rootfs /:O) && return; }
	ROOT=("localhost/lab/$(basename "$C_IMAGE"):1")
	podman_ image exists "${ROOT[0]}" || tar -C "$C_IMAGE" -c . | podman_ import -q - "${ROOT[0]}" >/dev/null
}

podman_create() { # --detach or --rm
	local options=() item ROOT
	podman_image
	podman_hook
	for item in ${C_ANNOTATIONS[@]+"${C_ANNOTATIONS[@]}"}; do options+=(--annotation "$(podman_word "$item")"); done
	for item in ${C_VOLUMES[@]+"${C_VOLUMES[@]}"}; do options+=(--volume "$item"); done
	for item in ${C_ENV[@]+"${C_ENV[@]}"}; do options+=(--env "$item"); done
	[[ -n $C_PID ]] && options+=(--pid "$C_PID")
	options+=(${C_OPTIONS[@]+"${C_OPTIONS[@]}"})
	# Raising hard limits, podman's default, takes CAP_SYS_RESOURCE
	podman_ run "$@" --name "$C_NAME" --pidfile "$C_DIR/pid" --cidfile "$C_DIR/id" --user "$C_USER" \
		--network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --cgroup-parent "$LAB_CGROUP" \
		--log-driver k8s-file --log-opt "path=$C_DIR/log" ${options[@]+"${options[@]}"} "${ROOT[@]}" "${C_ARGS[@]}"
}

podman_run() { podman_create --rm </dev/null; }
podman_start() { podman_create --detach >/dev/null; }
podman_exec() { podman_ exec --user "$1" "$C_NAME" "${@:2}"; }
podman_stop() { podman_ stop --time 1 "$C_NAME" >/dev/null; }
podman_rm() { podman_ rm --force --ignore --time 0 "$C_NAME" >/dev/null; }

# --- an OCI runtime alone, and what containerd shares with it: a bundle

json() { # WORD... - as an array
	[[ $# == 0 ]] && echo '[]' || jq -nc '$ARGS.positional' --args -- "$@"
}

ct_pid_namespace() { # path of the pid namespace to join, for a bundle
	case $C_PID in container:*) echo "/proc/$(ct_pid "${C_PID#*:}")/ns/pid" ;; *) echo "$C_PID" ;; esac
}

ct_bundle() {
	local root=$C_DIR/rootfs
	mkdir "$C_DIR/upper" "$C_DIR/work" "$root"
	ct_in "$C_RUNTIME" mount -t overlay overlay -o "lowerdir=${C_IMAGE:-/},upperdir=$C_DIR/upper,workdir=$C_DIR/work" "$root"
	(cd "$C_DIR" && runc spec && mv config.json spec.json)
	jq -f "$TOP/tests/integration/bundle.jq" --arg root "$root" --arg name "$C_NAME" --arg user "$C_USER" \
		--arg pid "$(ct_pid_namespace)" --arg cgroup "$LAB_CGROUP/$C_NAME" --argjson hook_timeout "$HOOK_TIMEOUT" \
		--argjson args "$(json "${C_ARGS[@]}")" \
		--argjson annotations "$(json ${C_ANNOTATIONS[@]+"${C_ANNOTATIONS[@]}"})" \
		--argjson volumes "$(json ${C_VOLUMES[@]+"${C_VOLUMES[@]}"})" \
		--argjson env "$(json ${C_ENV[@]+"${C_ENV[@]}"})" \
		--argjson hook_args "$(json ${HOOK_ARGS[@]+"${HOOK_ARGS[@]}"})" \
		--argjson hook_env "$(json ${HOOK_ENV[@]+"${HOOK_ENV[@]}"})" "$C_DIR/spec.json" | jq "$C_FILTER" >"$C_DIR/config.json"
}

ct_bundle_done() {
	local root=$C_DIR/rootfs
	ct_in "$C_RUNTIME" mountpoint -q "$root" || return 0
	ct_in "$C_RUNTIME" umount "$root"
}

bare_() { ct_in "$C_RUNTIME" "$(ct_oci "$C_RUNTIME")" --root "$LAB/${C_RUNTIME}-state" "$@"; }

bare_run() {
	ct_bundle
	bare_ run --bundle "$C_DIR" --pid-file "$C_DIR/pid" "$C_NAME" </dev/null
}

bare_start() {
	ct_bundle
	bare_ run --detach --bundle "$C_DIR" --pid-file "$C_DIR/pid" "$C_NAME" </dev/null >"$C_DIR/out" 2>&1
}

bare_exec() { bare_ exec --user "$1" "$C_NAME" "${@:2}"; }

bare_stop() {
	bare_ kill "$C_NAME" TERM || return
	ct_wait "$C_NAME" 1 || bare_ kill "$C_NAME" KILL
	ct_wait "$C_NAME" 5
}

bare_rm() {
	local state=$LAB/${C_RUNTIME}-state/$C_NAME
	# of a container that is half made, the runtimes do not always know
	[[ ! -e $state ]] || bare_ delete --force "$C_NAME" || rm -r "$state"
	bare_cgroups_done
	ct_bundle_done
}

# crun removes its cgroups for half a second and ends without them when what it gave up takes longer to die. Only the
# container's own: what is below them would be somebody else's, and a leak.
bare_cgroups_done() { until_true 5 bare_no_cgroups || :; }
bare_no_cgroups() {
	find /sys/fs/cgroup -type d -path "*$LAB_CGROUP/$C_NAME" -prune -exec rmdir {} + 2>/dev/null
}

# --- containerd, driven by ctr

ctr_() { ctr --address "$LAB/containerd/sock" --namespace lab "$@"; }

ctr_daemon() {
	local dir=$LAB/containerd
	[[ -s $LAB/keep/containerd ]] && return
	mkdir -p "$dir"
	cat >"$dir/config.toml" <<-TOML
		version = 2
		root = "$dir/root"
		state = "$dir/state"
		disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs",
			"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
		[grpc]
		address = "$dir/sock"
		[ttrpc]
		address = "$dir/ttrpc"
		[plugins."io.containerd.internal.v1.opt"]
		path = "$dir/opt"
	TOML
	lab_keep containerd containerd --config "$dir/config.toml"
	until_true 20 ctr_ version >/dev/null 2>&1 || fail "containerd did not start: $(tail -n 3 "$LAB/keep/containerd.log")"
}

ctr_create() { # OPTION...
	ctr_daemon
	ct_bundle
	ctr_ run "$@" --fifo-dir "$C_DIR/fifo" --runc-binary "$(ct_oci "$C_RUNTIME")" --runc-root "$LAB/containerd/runc" \
		--pid-file "$C_DIR/pid" --config "$C_DIR/config.json" "$C_NAME"
}

ctr_run() { ctr_create </dev/null; }
ctr_start() { ctr_create --detach --log-uri "file://$C_DIR/out" </dev/null; }
ctr_exec() { ctr_ task exec --fifo-dir "$C_DIR/fifo" --user "$1" --exec-id "exec-$RANDOM-$RANDOM" "$C_NAME" "${@:2}"; }

ctr_stop() {
	ctr_ task kill --signal SIGTERM "$C_NAME" || return
	ct_wait "$C_NAME" 1 || ctr_ task kill --signal SIGKILL "$C_NAME"
	ct_wait "$C_NAME" 5
}

ctr_rm() {
	if [[ -n $(ctr_ containers list --quiet "id==$C_NAME") ]]; then
		ctr_ task delete --force "$C_NAME" >/dev/null 2>&1
		ctr_ containers delete "$C_NAME" || return
	fi
	ct_bundle_done
}

# --- Docker, of a newer suite than bookworm's, whose own knows no annotations; unpacked, not installed

docker_() {
	DOCKER_HOST=unix://$LAB/docker/sock DOCKER_CONFIG=$LAB/docker/client "$LAB/docker/bin/docker" "$@"
}

docker_need() {
	local dir=$TOP/build/unpacked/docker program
	[[ -e $LAB/docker/bin/docker ]] && return
	"$TOP/tests/tools/unpack" trixie "$dir" docker.io docker-cli containerd >"$ROW/unpack.log" 2>&1 ||
		skip "no Docker: $(tail -n 1 "$ROW/unpack.log")"
	mkdir -p "$LAB/docker/bin" "$LAB/docker/cdi" "$LAB/docker/etc"
	# not its runc, which wants a newer C library
	for program in bin/docker bin/containerd bin/containerd-shim-runc-v2 sbin/dockerd; do
		ln -sf "$dir/usr/$program" "$LAB/docker/bin/"
	done
}

docker_daemon() {
	local dir=$LAB/docker
	[[ -s $LAB/keep/dockerd ]] && return
	jq -n --arg dir "$dir" --arg runc "$(PATH=$CT_PATH command -v runc)" --arg wrapper "$LAB/bin/pillion-runc" '{"data-root": ($dir + "/data"),
		"exec-root": ($dir + "/exec"), pidfile: ($dir + "/pid"), hosts: ["unix://" + $dir + "/sock"], bridge: "none",
		iptables: false, ip6tables: false, "ip-forward": false, "userland-proxy": false, group: "root",
		features: {cdi: true}, "cdi-spec-dirs": [$dir + "/cdi"],
		runtimes: {plain: {path: $runc}, wrapped: {path: $wrapper}}, "default-runtime": "plain"}' >"$dir/daemon.json"
	PATH=$dir/bin:$CT_PATH PILLION_ETC=$dir/etc lab_keep dockerd "$dir/bin/dockerd" --config-file "$dir/daemon.json"
	until_true 20 docker_ version >/dev/null 2>&1 || fail "dockerd did not start: $(tail -n 3 "$LAB/keep/dockerd.log")"
}

# The row's hook as the CDI device pillion.io/profiler=default, for an engine that looks there.
cdi_specification() { # DIR
	jq -n --argjson args "$(json "${HOOK_ARGS[@]}")" --argjson env "$(json ${HOOK_ENV[@]+"${HOOK_ENV[@]}"})" --argjson timeout "$HOOK_TIMEOUT" '
		{path: $args[0], args: $args, env: $env, timeout: $timeout} as $hook | {cdiVersion: "0.6.0",
		kind: "pillion.io/profiler", devices: [{name: "default", containerEdits:
		{hooks: [$hook + {hookName: "createRuntime"}, $hook + {hookName: "poststop"}]}}]}' >"$1/.new"
	mv "$1/.new" "$1/pillion.json"
}

# How the hook comes in: C_ROUTE is the words for that.
docker_route() {
	C_ROUTE=()
	if [[ -n ${OCI_docker_runc-} ]]; then
		docker_settings "${HOOK_ARGS[@]:1}" >"$LAB/docker/etc/pillion.conf"
		C_ROUTE=(--runtime wrapped)
	elif [[ ${#HOOK_ARGS[@]} != 0 ]]; then
		cdi_specification "$LAB/docker/cdi"
		C_ROUTE=(--device pillion.io/profiler=default)
	fi
}

docker_settings() { # HOOK OPTION... - as lines of pillion.conf
	[[ $1 != --etc ]] || { cat "$2/pillion.conf" && shift 2; }
	while [[ $# -gt 1 ]]; do
		echo "${1#--} = $2"
		shift 2
	done
}

docker_create() { # --detach or --rm
	local options=() item image C_ROUTE
	[[ -n $C_IMAGE ]] || fail "ct: docker takes images only"
	docker_daemon
	docker_route
	image=lab/$(basename "$C_IMAGE"):1
	docker_ image inspect "$image" >/dev/null 2>&1 || tar -C "$C_IMAGE" -c . | docker_ import - "$image" >/dev/null
	for item in ${C_ANNOTATIONS[@]+"${C_ANNOTATIONS[@]}"}; do options+=(--annotation "$item"); done
	for item in ${C_VOLUMES[@]+"${C_VOLUMES[@]}"}; do options+=(--volume "$item"); done
	for item in ${C_ENV[@]+"${C_ENV[@]}"}; do options+=(--env "$item"); done
	[[ -n $C_PID ]] && options+=(--pid "$C_PID")
	docker_ run "$@" --name "$C_NAME" --cidfile "$C_DIR/id" --user "$C_USER" --network none --cgroup-parent "$LAB_CGROUP" \
		"${C_ROUTE[@]}" ${options[@]+"${options[@]}"} ${C_OPTIONS[@]+"${C_OPTIONS[@]}"} "$image" "${C_ARGS[@]}"
}

docker_run() { docker_create --rm </dev/null; }
docker_start() {
	docker_create --detach >/dev/null || return
	docker_ inspect -f '{{.State.Pid}}' "$C_NAME" >"$C_DIR/pid"
	docker_ logs --follow "$C_NAME" </dev/null >"$C_DIR/out" 2>&1 &
	until_true 10 pgrep -f "logs --follow $C_NAME\$" >/dev/null # it is there when the row looks at what is
}
docker_exec() { docker_ exec --user "$1" "$C_NAME" "${@:2}"; }
docker_stop() { docker_ stop --time 1 "$C_NAME" >/dev/null; }
docker_rm() { [[ ! -s $C_DIR/id ]] || docker_ rm --force "$C_NAME" >/dev/null 2>&1; }
