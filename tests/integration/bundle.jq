# bundle.jq - turns the output of `runc spec` into the container that ct_start was asked for. Capabilities are the
# default set of podman and Docker, so that setuid programs do in every runtime what they do in an engine.
("CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
	| split(" ") | map("CAP_" + .)) as $caps
| ($hook_args | if length == 0 then null else
	[{path: .[0], args: ., env: $hook_env, timeout: $hook_timeout}] end) as $hook
| .root = {path: $root, readonly: false}
| .hostname = $name
| .annotations = ($annotations | map(capture("^(?<key>[^=]*)=(?<value>.*)$"; "s")) | from_entries)
| .process.terminal = false
| .process.args = $args
| .process.env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"] + $env
| .process.user = ($user | split(":") | {uid: (.[0] | tonumber), gid: (.[1] // "0" | tonumber)})
| .process.noNewPrivileges = false
| .process.capabilities = {bounding: $caps, permitted: $caps, effective: $caps}
| (if .process.user.uid != 0 then .process.capabilities |= (.permitted = [] | .effective = []) else . end)
| .mounts += ($volumes | map(split(":") | {destination: .[1], source: .[0], type: "bind",
	options: (["rbind"] + (.[2] // "rw" | split(",")))}))
| .linux.cgroupsPath = $cgroup
| .linux.namespaces |= (map(select(.type != "pid")) + if $pid == "host" then [] elif $pid == "" then [{type: "pid"}]
	else [{type: "pid", path: $pid}] end)
| if $hook then .hooks = {createRuntime: $hook, poststop: $hook} else . end
