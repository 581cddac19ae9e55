# pods.sh - Pods of a real containerd, whichever Debian has, for the suites that source it: with its CRI plugin, the Node Resource
# Interface, and root, state and sockets in the lab.
#
#	containerd_up VERSION [NAME]	1.7 or 2 (PODS_VERSIONS): it runs from here to the end of the lab; sets CRI, its directory. NAME: one
#					more of it
#	containerd_down, containerd_again	this row's business alone
#	pod NAME [-n NAMESPACE] [-a K=V] [-l K=V]	sets POD
#	container NAME [-a K=V] [-e K=V] -- PROGRAM ARG...	in POD, created; sets CONTAINER
#	cri VERB ...			the rest: tests/tools/cri
#	row "..." in_pods FUNCTION ARG...	no Pod of it outlives the row
#
# PODS_RUNTIME: another runtime than runc. PODS_CDI: a directory of CDI specifications. With either the Pods' annotations are handed
# on to the runtime.
#
# Pods are in the host's network, and have their own pids. Their image has the targets that a suite wants (PODS_PROGRAMS)
# and what they are linked with.

PODS_VERSIONS=(1.7 2)
PODS_PROGRAMS=(burn ctor libctor.so sites)

# containerd is unpacked from the Debian that has it, once, into the build directory; the host's own serves where it is that one.
containerd_find() { # VERSION - sets CONTAINERD, the directory of its programs
	local suite=trixie
	[[ $1 == 1.7 ]] || suite=sid
	CONTAINERD=/usr/bin
	[[ $(/usr/bin/containerd --version 2>/dev/null) != *" $1."* ]] || return 0
	CONTAINERD=$TOP/build/unpacked/containerd-$suite/usr/bin
	[[ -x $CONTAINERD/containerd ]] || (flock 9 && "$TOP/tests/tools/unpack" "$suite" "${CONTAINERD%/usr/bin}" containerd) \
		9>"$LAB/unpack.lock" || skip "containerd $1 cannot be had from Debian $suite"
	"$CONTAINERD/containerd" --version >/dev/null 2>&1 || skip "containerd $1 of Debian $suite does not run on this machine"
}

containerd_config() { # VERSION
	local handed='pod_annotations = ["io.pillion.*", "io.pillion.*/*"]' cri='io.containerd.grpc.v1.cri' images='io.containerd.grpc.v1.cri' version=2
	[[ -n ${PODS_RUNTIME-}${PODS_CDI-} ]] || handed=
	[[ $1 == 1.7 ]] || version=3 cri='io.containerd.cri.v1.runtime' images='io.containerd.cri.v1.images'
	cat <<-TOML
		version = $version
		root = "$CRI/root"
		state = "$CRI/state"
		disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
			"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
			"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
		[grpc]
		address = "$CRI/sock"
		[ttrpc]
		address = "$CRI/ttrpc"
		[plugins."io.containerd.internal.v1.opt"]
		path = "$CRI/opt"
		[plugins."io.containerd.nri.v1.nri"]
		disable = false
		plugin_request_timeout = "3s"
		plugin_config_path = "$CRI/nri/conf.d"
		plugin_path = "$CRI/nri/plugins"
		socket_path = "$CRI/nri/nri.sock"
		[plugins."$cri".cni]
		conf_dir = "$CRI/cni"
		[plugins."$cri".containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"
		$handed
		[plugins."$cri".containerd.runtimes.runc.options]
		BinaryName = "${PODS_RUNTIME:-$(PATH=$CT_PATH command -v runc)}"
		Root = "$CRI/runc"
	TOML
	[[ $1 != 1.7 ]] || printf '[plugins."%s"]\nsandbox_image = "localhost/pause:1"\n' "$images"
	[[ $1 == 1.7 ]] || printf '[plugins."%s".pinned_images]\nsandbox = "localhost/pause:1"\n[plugins."%s"]\n' "$images" "$cri"
	# without CAP_SYS_RESOURCE nobody may be made less likely to go than he is
	printf 'restrict_oom_score_adj = true\ndisable_apparmor = true\n'
	[[ -z ${PODS_CDI-} ]] || printf 'enable_cdi = true\ncdi_spec_dirs = ["%s"]\n' "$PODS_CDI"
}

# The same program again where it ended: containers go on meanwhile.
containerd_again() {
	PATH=$CONTAINERD:$CT_PATH lab_keep "${CRI##*/}" "$CONTAINERD/containerd" --config "$CRI/config.toml"
	until_true 20 cri version >/dev/null 2>&1 || fail "containerd did not start: $(tail -n 3 "$LAB/keep/${CRI##*/}.log")"
}
containerd_pid() { pgrep -fx "$CONTAINERD/containerd --config $CRI/config.toml"; }
containerd_down() { # [SIGNAL]
	kill "-${1:-TERM}" "$(containerd_pid)"
	until_true 20 eval '! containerd_pid' >/dev/null || fail "containerd does not end"
}

containerd_up() { # VERSION [NAME]
	need_root
	need python3 curl jq runc
	containerd_find "$1"
	CRI=$LAB/containerd-$1${2:+-$2}
	if [[ -e $CRI/ready ]]; then # a row that failed may have left it as it was just then
		cri version >/dev/null 2>&1 || containerd_again
		return
	fi
	mkdir -p "$CRI"/{cni,nri/conf.d,nri/plugins}
	containerd_config "$1" >"$CRI/config.toml"
	containerd_again
	images_make
	image_in localhost/pause:1 pause /sleeper
	image_in localhost/work:1 work
	touch "$CRI/ready"
}
image_in() { # NAME DIR [ENTRYPOINT]
	"$TOP/tests/tools/image" "$1" "$LAB/images/$2" "${@:3}" |
		"$CONTAINERD/ctr" --address "$CRI/sock" --namespace k8s.io images import - >import.out 2>&1 || fail "image $1: $(tail -n 1 import.out)"
}
images_make() {
	local program library
	[[ ! -d $LAB/images ]] || return 0
	mkdir -p "$LAB/images"/{pause,work/bin,work/tmp}
	gcc -static -O2 -o "$LAB/images/pause/sleeper" -x c - <<<'#include <unistd.h>
		int main(void) { for (;;) pause(); }'
	for program in "${PODS_PROGRAMS[@]}"; do
		install "$B/targets/$program" "$LAB/images/work/bin/"
		{ ldd "$B/targets/$program" | grep -oE ' ?/[^ ]+' || :; } | while read -r library; do
			[[ $library == "$B"/* ]] || install -D "$library" "$LAB/images/work$library"
		done
	done
}

# --- in a row

cri() { "$TOP/tests/tools/cri" "$CRI/sock" "$@"; }
pod() {
	POD=$(CRI_CGROUP=$LAB_CGROUP cri pod "$@") || fail "no Pod $1"
	echo "$POD" >>pods
}
container() { # NAME [OPTION...] [-- PROGRAM ARG...]
	local name=$1
	shift
	CONTAINER=$(cri create "$POD" "$name" localhost/work:1 "$@") || fail "no container $name"
}
start() { # NAME [OPTION...] -- PROGRAM ARG...
	container "$@"
	cri start "$CONTAINER" || fail "container $1 does not start"
}
is_state() { [[ $(cri state "$1") == "$2" ]]; } # ID STATE
ended() { # [ID] - waits
	until_true "${2:-20}" is_state "${1:-$CONTAINER}" exited || fail "container ${1:-$CONTAINER} is $(cri state "${1:-$CONTAINER}")"
}
pod_done() { cri stop-pod "$1" && cri rm-pod "$1"; } # ID
pods_done() {
	local id
	[[ -e pods ]] || return 0
	cri version >/dev/null 2>&1 || containerd_again
	while read -r id; do # one that was just started again may not have found a Pod's shim yet: another time it has
		until_true 20 pod_done "$id" || cri pods
	done <pods
	rm pods
}
in_pods() { # FUNCTION ARG...
	trap 'pods_done >pods.out 2>&1 || cat pods.out' EXIT
	"$@"
}
