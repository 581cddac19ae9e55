# suite_apiserver - the files for Kubernetes, as a real API server takes them: kube-apiserver with an etcd of its own (tests/tools/kubernetes
# brings both), on loopback, for all rows here. What the files say is looked at in suite_manifests; what they do, in tests/vm/kubelet.
#
# The server is a 1.20. There is no controller and no node, so no Pod comes of a DaemonSet, and rows do what a controller would do.
# kubectl asks the server for the fields of each type, and refuses a file with another one before it sends it.

K8S=$TOP/hooks/kubernetes
API=$LAB/api
PROGRAMS=$TOP/build/kubernetes

# --- the server

needs_api() {
	need kubectl jq python3 curl openssl
	python3 -c 'import yaml' 2>/dev/null || skip "python3 has no yaml (apt install python3-yaml)"
	kubectl kustomize "$K8S/base" >/dev/null 2>err || skip "kubectl is older than 1.21: $(head -n 1 err)"
	[[ -x $PROGRAMS/etcd && -x $PROGRAMS/kube-apiserver ]] ||
		skip "there is no kube-apiserver (tests/tools/kubernetes $PROGRAMS kube-apiserver etcd)"
	export HOME=$API KUBECONFIG=$API/config
	[[ ! -e $API/changed ]] && api_goes_on && api_is_ready || begin_api
}
api_is_ready() {
	[[ $(curl -s --max-time 10 --cacert "$API/certs/apiserver.crt" -H "Authorization: Bearer $(cat "$API/token")" "$(cat "$API/url")/readyz") == ok ]]
}
api_goes_on() { kill -0 "$(cat "$LAB/keep/etcd")" && kill -0 "$(cat "$LAB/keep/kube-apiserver")"; } 2>/dev/null
api_is_decided() { api_is_ready || ! api_goes_on; }

begin_api() {
	local etcd peers port name
	end_api
	rm -rf "$API"
	mkdir "$API"
	port_free && etcd=$PORT
	while port_free && peers=$PORT && [[ $peers == "$etcd" ]]; do :; done
	while port_free && port=$PORT && [[ $port == "$etcd" || $port == "$peers" ]]; do :; done
	openssl genrsa -out "$API/accounts.key" 2048 2>/dev/null
	cat /proc/sys/kernel/random/uuid >"$API/token"
	echo "$(cat "$API/token"),administrator,1,\"system:masters\"" >"$API/tokens.csv"
	echo "https://127.0.0.1:$port" >"$API/url"
	lab_keep etcd "$PROGRAMS/etcd" --data-dir "$API/etcd" --listen-client-urls "http://127.0.0.1:$etcd" \
		--advertise-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$peers"
	# ServiceAccount: this plugin refuses a Pod until its namespace has an account, which a controller would make
	lab_keep kube-apiserver "$PROGRAMS/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd" --bind-address 127.0.0.1 --secure-port "$port" \
		--cert-dir "$API/certs" --token-auth-file "$API/tokens.csv" --authorization-mode RBAC --service-account-issuer https://pillion.invalid \
		--service-account-key-file "$API/accounts.key" --service-account-signing-key-file "$API/accounts.key" \
		--service-cluster-ip-range 10.0.0.0/24 --endpoint-reconciler-type none --disable-admission-plugins ServiceAccount
	jq -n --rawfile token "$API/token" --arg url "$(cat "$API/url")" --arg ca "$API/certs/apiserver.crt" '{apiVersion: "v1", kind: "Config",
		clusters: [{name: "lab", cluster: {server: $url, "certificate-authority": $ca}}],
		users: [{name: "administrator", user: {token: ($token | rtrimstr("\n"))}}],
		contexts: [{name: "lab", context: {cluster: "lab", user: "administrator"}}], "current-context": "lab"}' >"$API/config"
	until_true 60 api_is_decided && api_is_ready ||
		fail "the API server did not start: $(for name in etcd kube-apiserver; do tail -n 3 "$LAB/keep/$name.log"; done)"
}
end_api() { # after the last row; if none comes to it, with the lab
	local name pid
	for name in kube-apiserver etcd; do
		pid=$(cat "$LAB/keep/$name" 2>/dev/null) || continue
		kill "$pid" 2>/dev/null || :
		until_true 10 eval "! kill -0 $pid 2>/dev/null" || kill -KILL "$pid" || :
		rm "$LAB/keep/$name"
	done
}

# --- what is asked

page() { # REGEX - the first command line of the page that it matches, with the server asked what it would do
	local line
	line=$(grep -m 1 -E "$1" "$TOP/hooks/kubernetes.md") || fail "kubernetes.md has no such line: $1"
	echo "${line/kubectl apply/kubectl apply --dry-run=server}"
}
APPLY='^kubectl kustomize .* \| kubectl apply -f -$'
in_sources() { (cd "$TOP" && IMAGE=registry.example.com/pillion:0.2.0 sh -c "$1") >said 2>warned; } # COMMAND LINE
accepted() { # COMMAND LINE - and nothing in it is about to go
	in_sources "$1" || fail "exit status $? of $1: $(cat warned said)"
	! grep -i deprecated warned || fail "$1: $(cat warned)"
}
refused() { # WHY COMMAND LINE
	! in_sources "$2" || fail "it is accepted: $(cat said)"
	has "what the server says" "$(cat warned)" "$1"
}
said() { sed -E 's/-[a-z0-9]{10} / /' said | sort; } # names of generated objects without the hash of what is in them

# Between them a row makes something for real. One that fails there leaves it: the next row has a server of its own.
begin_changes() { : >"$API/changed"; }
end_changes() { rm "$API/changed"; }

json() { python3 -c 'import json, sys, yaml
for doc in yaml.safe_load_all(sys.stdin): print(json.dumps(doc))'; }
# The namespace is there first: a dry run makes none, and what is in one has to have it.
make_namespace() { accepted "kubectl apply -f hooks/kubernetes/base/namespace.yaml"; }
# What a controller does with a namespace that is to go, when all that was in it has gone.
namespace_is_to_go() { kubectl get namespace pillion -o json >namespace && jq -e .metadata.deletionTimestamp namespace; }
namespace_is_empty() { kubectl -n pillion get configmaps,daemonsets -o name >within && [[ ! -s within ]]; }
finish_namespace() {
	until_true 60 namespace_is_to_go && until_true 60 namespace_is_empty
	jq '.spec.finalizers = []' namespace | kubectl replace --raw /api/v1/namespaces/pillion/finalize -f - >/dev/null
}

# --- rows

# By the documented line, for the directory that is asked for; and no field is lost on the way.
test_overlay() { # DIRECTORY OBJECT...
	local line
	needs_api
	make_namespace
	line=$(page "$APPLY")
	line=${line/kubernetes\/base/kubernetes/$1}
	accepted "$line"
	is "objects" "$(said)" "$({ printf '%s created (server dry run)\n' "${@:2}" && echo "namespace/pillion unchanged (server dry run)"; } | sort)"
	in_sources "${line% | kubectl *}" && json <said | jq -s 'map(if .kind == "Secret" then .data[] |= gsub("\\s"; "") else . end)' >sent # kustomize writes it in lines
	in_sources "$line -o json" && jq .items said >taken
	is "objects that come back" "$(jq length taken)" "$(jq length sent)"
	is "fields that the server leaves out, or changes" "$(jq -rn --slurpfile sent sent --slurpfile taken taken '
		[$sent[0], $taken[0]] | map(sort_by(.kind)) as [$sent, $taken] | $sent | paths(scalars) as $at |
		select(getpath($at) != ($taken | getpath($at))) | $at | map(tostring) | join(".")')" ""
}

# What the DaemonSet's controller would ask for: only a Pod is asked for its priority class, and whether it fits its namespace.
test_pod() { # DIRECTORY
	needs_api
	make_namespace
	kubectl kustomize "$K8S/$1" | json | jq 'select(.kind == "DaemonSet").spec.template | . + {apiVersion: "v1", kind: "Pod"} |
		.metadata += {name: "pillion-x", namespace: "pillion"}' >pod.json
	accepted "kubectl apply --dry-run=server -o json -f $ROW/pod.json"
	is "its priority" "$(jq .spec.priority said)" 2000001000
}

test_annotated() {
	needs_api
	accepted "$(page '^kubectl apply -f hooks/kubernetes/examples/annotated.yaml$')"
	is "objects" "$(said)" "pod/annotated created (server dry run)"
}
test_one_container() {
	needs_api
	accepted "kubectl apply --dry-run=server -f hooks/kubernetes/examples/one-container.yaml"
	is "objects" "$(said)" "pod/one-container created (server dry run)"
}

# The server refuses a Pod without its RuntimeClass, and a dry run makes none: the class comes first.
test_runtimeclass() {
	needs_api
	begin_changes
	"$LAB/bin/pillion" install --print runtimeclass >class.yaml || fail "pillion install: exit status $?"
	accepted "kubectl apply -f $ROW/class.yaml"
	is "objects that pillion install prints" "$(said)" "runtimeclass.node.k8s.io/pillion created"
	accepted "kubectl apply --dry-run=server -f hooks/kubernetes/examples/runtimeclass.yaml"
	is "objects" "$(said)" "pod/by-runtimeclass created (server dry run)"$'\n'"runtimeclass.node.k8s.io/pillion unchanged (server dry run)"
	accepted "kubectl delete -f $ROW/class.yaml"
	end_changes
	refused 'RuntimeClass "pillion" not found' "kubectl apply --dry-run=server -f hooks/kubernetes/examples/runtimeclass.yaml"
}

# Native sidecars are of 1.29, volumes of an image of 1.31 and on by themselves from 1.35: a server that is older knows neither, and all
# else. It takes what the file says of such servers: an ordinary container, the first, with a postStart, and no such volume.
test_sidecar() {
	needs_api
	refused 'unknown field' "kubectl apply --dry-run=server -f hooks/kubernetes/examples/sidecar.yaml"
	is "fields that are too new for it" "$(grep -oE '\(Pod[^)]*\): unknown field "[a-zA-Z]*"' warned)" \
		$'(Pod.spec.initContainers[0]): unknown field "restartPolicy"\n(Pod.spec.volumes[2]): unknown field "image"'
	json <"$K8S/examples/sidecar.yaml" | jq '.spec.containers = [.spec.initContainers[] | del(.restartPolicy) |
			.command -= ["--target-root", "/app"] | .volumeMounts |= map(select(.name != "app")) |
			.lifecycle.postStart.exec.command = ["sh", "-c", "until test -S /run/pillion/control.sock; do sleep 0.1; done"]] + .spec.containers |
		.spec.volumes |= map(select(.name != "app")) | del(.spec.initContainers)' >older.json
	accepted "kubectl apply --dry-run=server -f $ROW/older.json"
	is "objects" "$(said)" "pod/sidecar created (server dry run)"
}

# All of them at once, as their kustomization has them, but for what this server is too old for.
test_examples_at_once() {
	needs_api
	in_sources "kubectl kustomize hooks/kubernetes/examples" || fail "$(cat warned)"
	json <said | jq 'if .metadata.name == "sidecar" then del(.spec.initContainers[].restartPolicy, .spec.initContainers[].startupProbe) |
		.spec.volumes |= map(if .image then {name, emptyDir: {}} else . end) else . end' >all.json
	begin_changes
	accepted "kubectl apply -f hooks/kubernetes/examples/runtimeclass.yaml"
	accepted "kubectl apply --dry-run=server -f $ROW/all.json"
	is "objects" "$(said | sed 's/ (server dry run)$//' | xargs)" \
		"pod/annotated created pod/by-runtimeclass unchanged pod/one-container created pod/sidecar created runtimeclass.node.k8s.io/pillion unchanged"
	accepted "kubectl delete --grace-period=0 --force -f hooks/kubernetes/examples/runtimeclass.yaml"
	end_changes
}

# Without a dry run: applied by the documented line, changed to another directory's by the same, and deleted as the page says.
test_deleted() {
	local line
	needs_api
	line=$(page "$APPLY")
	line=${line/ --dry-run=server/}
	begin_changes
	accepted "$line"
	accepted "${line/kubernetes\/base/kubernetes/paranoid}"
	is "what another directory changes" "$(said)" $'configmap/pillion unchanged\ndaemonset.apps/pillion configured\nnamespace/pillion unchanged'
	finish_namespace &
	accepted "$(page '^kubectl delete -k ')"
	wait $! || fail "the namespace was not to go, or not empty: $(cat namespace within)"
	is "what is deleted" "$(sed -E 's/^([a-z.]+) "(pillion)(-[a-z0-9]{10})?" deleted.*/\1 \2/' said | sort)" $'configmap pillion\ndaemonset.apps pillion\nnamespace pillion'
	refused 'NotFound' "kubectl get namespace pillion"
	end_changes
}

# The rows above can fail: of faults that one makes by hand the server names each.
test_refused() {
	local container='(.. | objects | select(.name? == "installer"))'
	needs_api
	make_namespace
	kubectl kustomize "$K8S/base" | json >base.json
	with_fault() { # JQ-FILTER WHAT-IS-SAID [OPTION]
		jq "$1" base.json >fault.json
		refused "$2" "kubectl apply --dry-run=server ${3-} -f $ROW/fault.json"
	}
	accepted "kubectl apply --dry-run=server -f $ROW/base.json"
	with_fault "$container.securityContext.readOnlyRootFileSystem = true" 'unknown field "readOnlyRootFileSystem"'
	with_fault "$container.securityContext.capabilities.add = \"FOWNER\"" 'Capabilities.add'
	with_fault 'if .kind == "DaemonSet" then .kind = "Daemonset" else . end' 'no matches for kind "Daemonset"'
	# what kubectl does not see, or is told not to
	with_fault "$container.securityContext.capabilities.add = \"FOWNER\"" 'Add: .*Capability' --validate=false
	with_fault "$container.securityContext.seccompProfile.type = \"Default\"" 'seccompProfile.type: Unsupported value: "Default"'
	with_fault "$container.volumeMounts[0].name = \"hosts\"" 'volumeMounts\[0\].name: Not found: "hosts"'
	with_fault '(.. | objects | select(.name? == "pilliond") | .securityContext.capabilities.add) += ["CAP_SYS_ADMIN"]' 'cannot set `allowPrivilegeEscalation` to false'
	with_fault '(select(.kind == "DaemonSet") | .spec.selector.matchLabels) = {x: "y"}' '`selector` does not match template `labels`'
}

lab_install pillion
row "a real API server takes the DaemonSet by the documented line, and keeps each field" test_overlay base configmap/pillion daemonset.apps/pillion
row "a real API server takes the DaemonSet for perf_event_paranoid 3 and 4, and keeps each field" test_overlay paranoid configmap/pillion daemonset.apps/pillion
row "a real API server takes the DaemonSet that pushes, and keeps each field" test_overlay push configmap/pillion daemonset.apps/pillion secret/pillion-push
row "a real API server takes a Pod of the DaemonSet, with its priority" test_pod base
row "a real API server takes a Pod of the DaemonSet for perf_event_paranoid 3 and 4" test_pod paranoid
row "a real API server takes a Pod of the DaemonSet that pushes" test_pod push
row "a real API server takes the annotated Pod by the documented line" test_annotated
row "a real API server takes the Pod with one profiled container" test_one_container
row "a real API server takes the RuntimeClass, as pillion prints it and as an example, and a Pod that names it" test_runtimeclass
row "a real API server takes the Pod with a sidecar, but for the two fields that are newer than itself" test_sidecar
row "a real API server takes all examples at once" test_examples_at_once
row "a real API server: applied, changed to another directory, and deleted by the documented lines" test_deleted
row "a real API server refuses a manifest with a fault, and says which" test_refused
end_api
