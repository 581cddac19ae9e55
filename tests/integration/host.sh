# host.sh - for suites that install on the real paths, which source it: a mount namespace of the row's, with overlays over the
# directories that are written to, and containers in it as podman starts them where it is told nothing.

host() { nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$@"; }
begin_host() { # DIR... of / that are written to
	need_root
	local dir
	ct_namespace
	for dir; do
		mkdir -p "over$dir/upper" "over$dir/work"
		host mount -t overlay overlay -o "lowerdir=$dir,upperdir=$PWD/over$dir/upper,workdir=$PWD/over$dir/work" "$dir"
	done
}
# A start as long as a busy machine may need: the usual budget is half a second.
give_time() {
	host mkdir -p /etc/pillion
	echo 'budget = 5s' | host tee /etc/pillion/pillion.conf >/dev/null
}
podman_default() { # with hooks from where podman looks
	host podman --root "$LAB/podman/root" --runroot "$LAB/podman/run" --tmpdir "$LAB/podman/tmp" --cgroup-manager cgroupfs \
		--events-backend none --runtime "$(ct_oci podman-runc)" "$@"
}
container() { # NAME [PODMAN-OPTION...] -- PROGRAM...
	local name=$1 options=()
	shift
	while [[ $1 != -- ]]; do options+=("$1") && shift; done
	podman_default run --name "$name" --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
		--cgroup-parent "$LAB_CGROUP" --log-driver none "${options[@]}" --volume "$LAB/bin:$LAB/bin:ro" --rootfs /:O "${@:2}" </dev/null
}
