# suite_monitoring - what profiler/web/monitoring has for Prometheus and Grafana, against what a service really says.

lab_install pillion pilliond
MONITORING=$TOP/profiler/web/monitoring

scraped() { # ./metrics, of a service that profiles something and has started something
	need curl jq
	"$LAB/bin/pilliond" --control "$ROW/control.sock" --spool "$ROW/spool" --log "$ROW/log" --log-level info </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true 10 grep -qs state=ready log || fail "no service: $(cat log service.out)"
	"$LAB/bin/pillion" run --budget 5s --control "$ROW/control.sock" -- sleep 1000 &
	PROGRAM=$!
	until_true 10 grep -q state=armed log || fail "not armed: $(cat log)"
	until_true 10 has_target || fail "no target in $(cat metrics)"
	kill "$PROGRAM"
	wait "$PROGRAM" || :
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?"
	cgroups_remove '*/pillion/service'
}
has_target() {
	curl -sS --max-time 30 --unix-socket "$ROW/http.sock" http://localhost/metrics >metrics && grep -q '^pillion_target_info{' metrics
}
names_of() { grep -ohE 'pillion_[a-z_]+' "$@" | sort -u; } # FILE...
# as HELP has them, and what a histogram is made of
names_said() { sed -nE 's/^# TYPE ([a-z_]+) histogram$/\1_bucket\n\1_sum\n\1_count/p; s/^# TYPE ([a-z_]+) .*/\1/p' metrics | sort -u; }

test_names() {
	scraped
	names_said >there
	is "in the dashboard and no metric" "$(jq -r '.. | .expr? // empty, (.query? | objects | .query)' "$MONITORING/dashboard.json" | names_of | comm -23 - there)" ""
	is "in the alerts and no metric" "$(names_of "$MONITORING/alerts.yml" "$MONITORING/alerts_test.yml" | comm -23 - there)" ""
	sed -nE 's/^# HELP ([a-z_]+) (.*)/\1 \2/p' metrics | sort >said
	sed -nE 's/^\| `(pillion_[a-z_]+)` \| [a-z]+ \| (.*) \|$/\1 \2/p' "$TOP/profiler/web/monitoring.md" | sort >told
	is "of monitoring.md and the HELP lines, one alone" "$(diff said told)" ""
	# labels that panels and alerts choose by, or name
	for label in name pod namespace; do has "a target's labels" "$(grep '^pillion_target_info{' metrics)" "$label=\""; done
	has "a process' label" "$(cat metrics)" 'pillion_process_resident_memory_bytes\{process="'
}
row "each metric of dashboard, alerts and monitoring.md is one that a service says, and each of those is told" test_names

test_alerts() {
	need promtool
	promtool check rules "$MONITORING/alerts.yml" >said 2>&1 || fail "$(cat said)"
	(cd "$MONITORING" && promtool test rules alerts_test.yml) >said 2>&1 || fail "$(cat said)"
}
row "alerts: each fires for what it is there for, none when all is well (promtool)" test_alerts

test_dashboard() { # as Grafana's own schema wants what we use of it
	jq -e '.schemaVersion >= 36 and (.panels | length > 10) and ([.panels[].id] | length == (unique | length))
		and all(.panels[] | select(.type != "row"); (.title | length > 0) and (.targets | length > 0) and .datasource.uid == "${datasource}" and all(.targets[]; .expr | length > 0))
		and all(.panels[]; .gridPos | .x >= 0 and .x + .w <= 24 and .h > 0)' "$MONITORING/dashboard.json" >/dev/null || fail "it is no dashboard"
	jq -r '.panels[] | .targets[]?.expr' "$MONITORING/dashboard.json" | sed 's/\$instance/.*/g; s/\$name/.*/g' >exprs
	need promtool
	awk 'BEGIN { print "groups:\n - name: all\n   rules:" } { gsub(/\047/, "\047\047"); printf "    - {record: \"x:%d\", expr: \047%s\047}\n", NR, $0 }' exprs >rules.yml
	promtool check rules rules.yml >said 2>&1 || fail "$(cat said)"
}
row "the dashboard is whole, and Prometheus understands all that it asks" test_dashboard

# A real one, that scrapes by the port and its token, as monitoring.md says.
prometheus_run() { # PORT OF-PILLIOND
	port_free
	PROMETHEUS=127.0.0.1:$PORT
	printf '%s\n' 'global: {scrape_interval: 1s, evaluation_interval: 1s}' "rule_files: [$MONITORING/alerts.yml]" 'scrape_configs:' \
		"  - {job_name: pillion, honor_labels: true, authorization: {credentials_file: $ROW/http.token}, static_configs: [{targets: ['127.0.0.1:$1']}]}" >prometheus.yml
	prometheus --config.file=prometheus.yml --storage.tsdb.path="$ROW/tsdb" --web.listen-address="$PROMETHEUS" --log.level=warn </dev/null >prometheus.log 2>&1 &
	until_true 30 curl -sSf -o /dev/null "http://$PROMETHEUS/-/ready" 2>/dev/null || fail "no prometheus: $(cat prometheus.log)"
}
query() { # EXPRESSION - series in its result
	curl -sS --max-time 30 --data-urlencode "query=$1" "http://$PROMETHEUS/api/v1/query" >answer
	[[ $(jq -r .status answer) == success ]] || fail "$1: $(cat answer)"
	jq '.data.result | length' answer
}
scraped_often() { (($(query 'count_over_time(pillion_target_samples_total[1m]) >= 5') > 0)); }

test_prometheus() {
	local port expression n empty=
	need prometheus curl jq
	port_free
	port=$PORT
	lab_install targets/burn
	"$LAB/bin/pilliond" --control "$ROW/control.sock" --spool "$ROW/spool" --metrics 127.0.0.1:$port --log "$ROW/log" --log-level info </dev/null >service.out 2>&1 &
	SERVICE=$!
	until_true 10 grep -qs state=ready log || fail "no service: $(cat log service.out)"
	prometheus_run "$port"
	"$LAB/bin/pillion" run --budget 5s --control "$ROW/control.sock" -- "$LAB/bin/burn" 50 >/dev/null &
	mkdir store
	"$LAB/bin/pillion" push --follow --to "file://$ROW/store" "$ROW/spool" >push.out 2>&1 &
	local push=$!
	until_true 30 scraped_often || fail "it is not scraped: $(curl -sS "http://$PROMETHEUS/api/v1/targets" | jq -c '.data.activeTargets[] | [.health, .lastError]')"
	while read -r expression; do
		n=$(query "$expression")
		echo "$n series: $expression"
		# what hooks said is not there where none spoke, and a cgroup's own account where the target has none
		[[ $n != 0 || $expression == *pillion_hook_* || $expression == *pillion_target_cpu_seconds* ]] || empty+="$expression"$'\n'
	done < <(jq -r '.panels[] | .targets[]?.expr' "$MONITORING/dashboard.json" | sed 's/\$instance/.*/g; s/\$name/.*/g; s/\$__rate_interval/1m/g; s/\$__range/1m/g')
	is "panels without anything in them" "$empty" ""
	is "rules that cannot be evaluated" "$(curl -sS "http://$PROMETHEUS/api/v1/rules" | jq -r '.data.groups[].rules[] | select(.health != "ok") | .name + ": " + .lastError')" ""
	is "alerts" "$(curl -sS "http://$PROMETHEUS/api/v1/alerts" | jq -r '.data.alerts[] | select(.state == "firing").labels.alertname')" ""
	kill -TERM "$SERVICE" "$push"
	wait "$SERVICE" || fail "the service's exit status is $?"
	wait "$push" || fail "push's exit status is $?: $(cat push.out)"
	cgroups_remove '*/pillion/service'
}
row "a real Prometheus, with the token: each panel has something in it, each alert can be evaluated, none speaks" test_prometheus
