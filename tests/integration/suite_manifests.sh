# suite_manifests - the files for Kubernetes: they are what kubectl takes for such, and say what they are to say. That an
# API server takes them: suite_apiserver. What they do is seen in tests/vm/kubelet.

K8S=$TOP/hooks/kubernetes

needs_kustomize() {
	need kubectl jq python3
	python3 -c 'import yaml' 2>/dev/null || skip "python3 has no yaml"
	kubectl kustomize "$K8S/base" >/dev/null 2>err || skip "kubectl is older than 1.21: $(head -n 1 err)"
}
built() { # DIRECTORY JQ-FILTER - of its objects
	kubectl kustomize "$K8S/$1" 2>err | python3 -c 'import json, sys, yaml
for doc in yaml.safe_load_all(sys.stdin): print(json.dumps(doc))' | jq -rs "$2" || fail "$(cat err)"
}

test_base() {
	needs_kustomize
	is "objects" "$(built base 'map(.kind) | sort | join(" ")')" "ConfigMap DaemonSet Namespace"
	is "namespaces" "$(built base 'map(select(.kind != "Namespace").metadata.namespace) | unique | join(" ")')" pillion
	is "files of the ConfigMap" "$(built base '.[] | select(.kind == "ConfigMap").data | keys | join(" ")')" "pillion.conf policy.conf"
	is "what shares something with the host, or is privileged" "$(built base '[.. | objects | (.hostPID, .hostIPC, .hostNetwork, .privileged) | select(.)] | length')" 0
	is "capabilities that the unit has not" "$(built base '.[] | select(.kind == "DaemonSet").spec.template.spec.containers[] | select(.name == "pilliond").securityContext.capabilities.add[]' |
		while read -r cap; do grep -q "^CapabilityBoundingSet=.*CAP_$cap\b" "$TOP/hooks/systemd/pilliond.service.in" || echo "$cap"; done)" ""
	is "volumes that are not mounted, or not there" "$(built base '.[] | select(.kind == "DaemonSet").spec.template.spec |
		([.volumes[].name] | sort) - ([.containers[].volumeMounts[].name] | unique) + (([.containers[].volumeMounts[].name] | unique) - [.volumes[].name]) | join(" ")')" ""
}

test_paranoid() {
	needs_kustomize
	is "who has SYS_ADMIN" "$(built paranoid '[.[] | select(.kind == "DaemonSet").spec.template.spec.containers[] |
		select(.securityContext.capabilities.add | index("SYS_ADMIN")) | .name, .securityContext.allowPrivilegeEscalation] | tostring')" '["pilliond",null]'
	is "what else differs" "$(diff <(built base '[.. | scalars] | sort | .[]') <(built paranoid '[.. | scalars] | sort | .[]') | grep -c '^[<>]')" 2
}

test_push() {
	needs_kustomize
	is "containers" "$(built push '.[] | select(.kind == "DaemonSet").spec.template.spec.containers | map(.name) | join(" ")')" "installer pilliond push"
	is "capabilities that the unit has not" "$(built push '.[] | select(.kind == "DaemonSet").spec.template.spec.containers[] | select(.name == "push").securityContext.capabilities.add[]' |
		while read -r cap; do grep -q "^CapabilityBoundingSet=.*CAP_$cap\b" "$TOP/hooks/systemd/pillion-push.service.in" || echo "$cap"; done)" ""
	is "the Secret that it has" "$(built push '.[] | select(.kind == "DaemonSet").spec.template.spec.volumes[] | select(.name == "push").secret.secretName')" \
		"$(built push '.[] | select(.kind == "Secret").metadata.name')"
	mkdir push.d
	built push '.[] | select(.kind == "Secret").data["store.conf"]' | base64 -d >push.d/store.conf
	mkdir spool
	is "its end, by the clock" "$(status_of timeout 5 "$LAB/bin/pillion" push --follow --endpoints "$ROW/push.d" "$ROW/spool" 2>said)" 124
}

# Each annotation is one that pillion takes: the hook reads it as if it were a container's.
test_examples() {
	local key value n=0
	needs_kustomize
	while IFS=$'\t' read -r key value; do
		n=$((n + 1))
		jq -n --arg k "$key" --arg v "$value" --arg name "${key##*/container.}" '{ociVersion: "1.0.2", id: "c1", status: "creating", bundle: "/b",
			annotations: {"io.pillion.profile": "cpu", ($k): $v, "io.kubernetes.cri.container-name": $name}}' >state
		mkdir -p etc
		"$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$ROW/none" --log "$ROW/log" <state 2>said
		[[ $value == off ]] || has "what the hook says of $key=$value" "$(cat said)" 'state: pid is missing'
	done < <(built examples '.[] | .metadata.annotations // {} | to_entries[] | [.key, .value] | @tsv')
	((n >= 6)) || fail "only $n annotations"
	is "those with a sidecar's volume" "$(built examples '[.[] | select(.kind == "Pod") | select([.spec.containers[].volumeMounts[]?.mountPath] | index("/run/pillion")).metadata.name] | join(" ")')" sidecar
}

# What kubectl changes without a server goes through its own types, and leaves out what they have not. They are newer than those of
# the server in suite_apiserver, which knows neither native sidecars nor volumes of an image.
test_sidecar_fields() {
	local minor
	needs_kustomize
	minor=$(kubectl version --client -o json | jq -r '.clientVersion.minor | gsub("[^0-9]"; "")')
	((minor >= 31)) || skip "kubectl is older than 1.31, and knows no volume of an image"
	python3 -c 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))' <"$K8S/examples/sidecar.yaml" >sent
	kubectl set image --local -o json -f "$K8S/examples/sidecar.yaml" web=another >typed
	is "fields that kubectl leaves out, or changes" "$(jq -rn --slurpfile sent sent --slurpfile typed typed '$sent[0] | paths(scalars) as $at |
		select(getpath($at) != ($typed[0] | getpath($at))) | $at | map(tostring) | join(".")')" spec.containers.0.image
}

# As kubernetes.md says it, up to `kubectl apply`.
test_image() {
	local IMAGE=registry.example.com/pillion:0.2.0 line overlay
	needs_kustomize
	line=$(grep -m 1 '^kubectl kustomize .* | kubectl apply -f -$' "$TOP/hooks/kubernetes.md") || fail "kubernetes.md has no such line"
	for overlay in base paranoid push; do
		(cd "$TOP" && export IMAGE && line=${line% | kubectl apply -f -} && sh -c "${line/kubernetes\/base/kubernetes/$overlay}") >applied
		is "images of $overlay" "$(grep -E '^ *(- )?image: ' applied | sed 's/.*image: //' | sort -u)" "$IMAGE"
	done
}

lab_install pillion-hook pillion
row "the DaemonSet: no host namespace, no capability that the unit has not, every volume" test_base
row "the DaemonSet for perf_event_paranoid 3 and 4: one capability more, for one of its containers" test_paranoid
row "the DaemonSet that pushes: one container more, whose endpoint is one that pillion takes" test_push
row "the documented line names your image in every container" test_image
row "the examples: annotations that the hook takes" test_examples
row "the example with a sidecar: each field is one of kubectl's own types" test_sidecar_fields
