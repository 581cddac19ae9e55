# suite_page - the page that a service serves: what a browser shows (a real Chromium, tests/tools/browser) and what is there without a
# script, who may ask, and that nothing that is asked for costs more than that page: metrics, health and windows go on.

. "$TOP/tests/integration/wrapped.sh"
lab_install pillion-hook pillion-opener
UNFOLD=$B/tools/unfold
BROWSER=$TOP/tests/tools/browser
STAMPS=(20260101T000000Z-000000 20260101T000100Z-000001 20260101T000200Z-000002)

begin_page() { # [pilliond OPTION...] - a service on a port; sets SERVICE, PORT, TOKEN
	begin_run
	need curl
	port_free
	SERVICE_OPTIONS=(--metrics 127.0.0.1:$PORT "$@")
	service_run
	TOKEN=$(cat run/http.token)
	PAGE_HOME=http://127.0.0.1:$PORT
}
end_page() {
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
	end_run
}
# Into ./got; its status on stdout.
ask_page() { # PATH [CURL OPTION...]
	local path=$1
	shift
	curl -sS --path-as-is --max-time 40 -o got -D head -w '%{http_code}' -H "Authorization: Bearer $TOKEN" "$@" "$PAGE_HOME$path"
}
gets() { # PATH [STATUS]
	is "the status of $1" "$(ask_page "$1")" "${2:-200}"
}
window_of() { # TARGET STAMP - from folded stacks on stdin
	mkdir -p "spool/$1"
	"$UNFOLD" w.pb.gz samples count
	install -m 644 w.pb.gz "spool/$1/$2-cpu.pb.gz"
}
shop() { # three windows; the last one is another's
	echo 'shop;main;work 700' | window_of shop ${STAMPS[0]}
	printf '%s\n' 'shop;main;work 600' 'shop;main;<script>alert(1)</script> 100' | window_of shop ${STAMPS[1]}
	printf '%s\n' 'shop;main;work 300' 'shop;main;slow 400' | window_of shop ${STAMPS[2]}
}
look() { # PATH STEP... - as a person who has logged in; ./seen
	local path=$1
	shift
	need chromium node
	"$BROWSER" "$PAGE_HOME/login?token=$TOKEN" "go:$path" "$@" >seen 2>complaints || fail "the browser: $(cat complaints) seen: $(cat seen)"
	[[ ! -s complaints ]] || fail "the page complains: $(cat complaints)"
}
RANGE='event=cpu&from=2026-01-01T00:00&to=2026-01-01T00:01'
LATER='event=cpu&from=2026-01-01T00:02&to=2026-01-01T00:02:30'
COMPARED=$LATER'&before_from=2026-01-01T00:00&before_to=2026-01-01T00:01'
FOUND='eval:document.getElementById("found").textContent'

# --- what is there

test_live() {
	begin_page --window 5s
	need chromium node
	ct_need runc
	mkdir -p etc
	echo 'budget = 5s' >etc/pillion.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond")
	local name='<script>alert(1)<x>'
	cp "$LAB/bin/burn" "$name"
	PILLION_CONTROL=$SOCKET "$LAB/bin/pillion" run --window 5s -- "./$name" 30 >/dev/null 2>&1 &
	local app=$!
	ct_start runc web -a io.pillion.profile=cpu -a io.pillion.window=5s -- "$LAB/bin/burn" 60
	until_true 10 eval "gets / && grep -q 'target/web/.*<td>started</td><td>cpu@99</td>' got" || fail "web is not listed: $(cat got)"
	has "the other's name" "$(cat got)" '&#60;script&#62;alert\(1\)&#60;x&#62;</a>'
	! grep -q '<script' got || fail "its name is markup"
	gets /target/web/
	has "what of it is live" "$(cat got)" '<td>started</td>'
	until_true 20 written web || fail "no window: $(tail -n 5 service.log)"
	until_true 20 eval '[[ -n $(find spool -path "*script*.pb.gz") ]]' || fail "no window of the other: $(ls spool)"
	look ./ 'eval:document.scripts.length' 'eval:[...document.querySelectorAll("#live a")].map(a => a.textContent).sort().join()' \
		'eval:document.querySelector("#spool a[href*=script]").href.split("/").slice(-2)[0]' 'go:target/web/live?event=cpu' \
		'eval:document.title' 'eval:D.names.includes("burn_loop") && whereIs("burn_loop") !== null' 'eval:D.refresh' \
		'eval:document.getElementById("live").hidden' shot:"$PWD/live.png"
	is "what a browser has" "$(tr -d '\n' <seen)" '0"<script>alert(1)<x>,web""_script_alert_1__x_""web"true5false'
	kill "$app" 2>/dev/null || :
	wait "$app" || :
	ct_rm web
	end_page
}
row "a container and a program called <script>: live, in the list and as a flame graph" test_live

test_live_pods() { # containers of one name in several Pods, as a runtime tells of them; beside one without a Pod
	local of
	local -A annotations=([shop-0]=prod [shop-1]=prod [shop-2]=../..)
	begin_page --window 5s
	ct_need runc
	mkdir -p etc
	echo 'budget = 5s' >etc/pillion.conf
	HOOK_ARGS=("$LAB/bin/pillion-hook" --etc "$ROW/etc" --control "$SOCKET" --spool "$ROW/spool" --log "$ROW/hook.log"
		--daemon "$LAB/bin/pilliond")
	ct_start runc prod -a io.pillion.profile=cpu@499 -a io.pillion.window=5s -- "$LAB/bin/burn" 120 # is called as their namespace
	for of in shop-0 shop-1 shop-2; do
		ct_start runc "id-$of" -a io.pillion.profile=cpu@499 -a io.pillion.window=5s -a io.kubernetes.cri.container-name=main \
			-a "io.kubernetes.cri.sandbox-name=$of" -a "io.kubernetes.cri.sandbox-namespace=${annotations[$of]}" -- "$LAB/bin/burn" 120
	done
	until_true 10 eval "gets / && ((\$(grep -c '<td>started</td>' got) == 4))" || fail "they are not listed: $(cat got)"
	for of in prod/shop-0/main prod/shop-1/main main; do
		has "its link" "$(cat got)" "<a href=\"./target/$of/\">main</a>"
	done
	for of in prod/shop-0/main prod/shop-1/main main prod; do
		gets "/target/$of/"
		is "what of it is live" "$(grep -c '<td>started</td>' got)" 1
		has "its link" "$(cat got)" "<tr><td class=\"name\"><a href=\"$(sed 's|[^/]*|..|g' <<<"$of")/../target/$of/\">${of##*/}</a>"
		until_true "$PATIENCE" eval "compgen -G 'spool/$of/*.pb.gz' >/dev/null" || fail "no window of $of: $(tail -n 5 service.log)"
	done
	is "the directories of targets" "$(find spool -name '*.pb.gz' -printf '%P\n' | xargs -n 1 dirname | sort -u | xargs)" "main prod prod/shop-0/main prod/shop-1/main"
	until_true "$PATIENCE" eval '"$LAB/bin/pillion" ps --json --control "$SOCKET" >listed && [[ $(jq -r ".[].profile" listed | grep -c .) == 4 ]]' || fail "no paths: $(cat listed)"
	is "paths in the list" "$(jq -r '.[].profile' listed | sed "s|^$ROW/spool/||; s|/[^/]*$||" | sort | xargs)" "main prod prod/shop-0/main prod/shop-1/main"
	# the last window of each, and no other
	"$LAB/bin/pillion" top --once --control "$SOCKET" >said 2>err || fail "pillion top: $(cat err)"
	has "the target and its namespace" "$(cat said)" $'^target +main, prod\n'
	has "the functions" "$(cat said)" 'cpu_spin'
	for of in shop-0 shop-1 shop-2; do ct_rm "id-$of"; done
	ct_rm prod
	end_page
}
row "containers of one name in two Pods, live: each has its page, its windows and its path" test_live_pods

test_without_script() {
	begin_page
	shop
	gets /
	has "the list" "$(cat got)" 'target/shop/">shop</a></td><td class="r">3</td><td class="r">2026-01-01 00:00:00</td>'
	has "no script may run" "$(cat head)" "Content-Security-Policy: default-src 'none';"
	! grep -qi 'script-src' head || fail "a script may run"
	gets /target/shop/
	is "windows, newest first" "$(grep -o '"20260101T[^"]*gz"' got | tr -d '"' | xargs)" \
		"${STAMPS[2]}-cpu.pb.gz ${STAMPS[1]}-cpu.pb.gz ${STAMPS[0]}-cpu.pb.gz"
	gets "/target/shop/${STAMPS[1]}-cpu.pb.gz"
	cmp got "spool/shop/${STAMPS[1]}-cpu.pb.gz" || fail "another file"
	has "its name" "$(cat head)" "attachment; filename=\"shop-${STAMPS[1]}-cpu.pb.gz\""
	has "is no type to guess" "$(cat head)" 'X-Content-Type-Options: nosniff'
	gets "/target/shop/window?file=${STAMPS[1]}-cpu.pb.gz"
	has "its functions" "$(cat got)" 'work'
	has "as text" "$(cat got)" '&#60;script&#62;alert'
	gets "/target/shop/diff?$COMPARED"
	has "what moved" "$(cat got)" '<td class="r">0.00 %</td><td class="r">57.14 %</td><td class="r">\+57.14</td>.*<td>slow</td>'
	"$LAB/bin/pillion" diff spool/shop/${STAMPS[0]}-cpu.pb.gz spool/shop/${STAMPS[2]}-cpu.pb.gz >said
	has "as pillion diff has it" "$(cat said)" '\+57.14 .*slow'
	gets "/target/shop/flame?$RANGE&svg=1"
	python3 -c 'import xml.dom.minidom as m; d = m.parse("got"); assert not d.getElementsByTagName("script")' || fail "no picture"
	has "the sum of two windows" "$(cat got)" 'work 1300|work 1,300|work'
	gets /crashes/
	has "no crash yet" "$(cat got)" 'No program has crashed'
	mkdir spool/crashes
	echo '{"time":"2026-01-01T00:00:00Z","target":"shop","process":{"pid":7,"name":"<b>shop"},"signal":{"number":11,"name":"SIGSEGV","what":"address not mapped"},
		"frames":[{"function":"pay<int>","file":"pay.cc","line":12},{"function":"main"}]}' >spool/crashes/20260101T000000.000000000Z-shop-7.json
	chmod 755 spool/crashes
	gets /crashes/
	has "a report" "$(cat got)" '<a href="report\?file=20260101T000000.000000000Z-shop-7.json">'
	gets '/crashes/report?file=20260101T000000.000000000Z-shop-7.json'
	has "it in words" "$(cat got)" '<pre id="crash">.*SIGSEGV.*pay&#60;int&#62;.*pay.cc:12'
	! grep -q '<b>' got || fail "a name is markup"
	gets '/crashes/report?file=../index.jsonl' 404
	gets /crashes/20260101T000000.000000000Z-shop-7.json
	cmp got spool/crashes/20260101T000000.000000000Z-shop-7.json || fail "another report"
	is "HEAD" "$(ask_page /target/shop/ -I)" 200
	end_page
}
row "without a script: the list, a download that is the spool's file, notes, the table of a diff, a picture" test_without_script

test_ranges() {
	begin_page
	shop
	look "target/shop/flame?$RANGE" 'eval:T.all' 'eval:D.names.includes("<script>alert(1)</script>")' 'eval:document.scripts.length' \
		key:/ text:work "$FOUND" key:Escape key:t 'eval:document.documentElement.dataset.theme' on:main 'eval:whereIs("work").width > 1000' \
		"go:flame?$COMPARED" 'eval:[D.compared, T.all, T.allBefore].join()' over:slow 'eval:document.getElementById("details").innerText' \
		shot:"$PWD/compared.png"
	is "sum, name, scripts, search, dark, zoom" "$(head -n 6 seen | tr -d '\n')" '1400true2"92.86 % matched""dark"true'
	is "compared" "$(sed -n 7p seen)" '"true,700,1400"'
	has "one function" "$(sed -n 8p seen)" 'before 0.00 %, \+57.14 points'
	look target/shop/ 'eval:document.querySelector("#range [name=from]").value' 'eval:document.querySelector("#range").checkValidity()' \
		'click:#range button' 'until:location.pathname.endsWith("/flame") && T.all' 'eval:T.all'
	is "by the form: all there is" "$(tr -d '\n' <seen)" '"2026-01-01T00:00"true2100'
	end_page
}
row "a range and two compared, in a browser: sums, search, dark, zoom, a function called <script>" test_ranges

test_refresh() {
	begin_page
	shop
	: >seen
	(until_true 50 grep -q false seen && echo 'shop;main;fresh 50' | window_of shop 20260101T000300Z-000003) &
	look 'target/shop/live?event=cpu' 'eval:D.names.includes("fresh")' 'eval:(document.getElementById("search").value = "main", mark(), 1)' on:main key:t \
		'until:document.readyState === "complete" && D.names.includes("fresh")' \
		'eval:[document.getElementById("search").value, nameOf(state.zoom), document.documentElement.dataset.theme].join()'
	is "before, and after" "$(tr -d '\n' <seen)" 'false1"main,main,dark"'
	wait $!
	end_page
}
row "the last window follows, and looks as it was left" test_refresh

# --- who may ask, and for what

test_pods() { # containers of one name in several Pods, beside a target of an older version
	local of path
	begin_page
	for of in prod/shop-0/main prod/shop-1/main main prod; do
		echo "$of;main;work 700" | tr / _ | window_of "$of" ${STAMPS[0]}
	done
	chmod 755 spool/prod spool/prod/shop-[01]
	gets /
	for of in prod/shop-0/main prod/shop-1/main main prod; do
		has "the list" "$(cat got)" "<a href=\"target/$of/\">$of</a></td><td class=\"r\">1</td>"
		gets "/target/$of/"
		has "the title" "$(cat got)" "<title>$of - pillion</title>"
		has "the way up" "$(cat got)" "<nav><a href=\"$(sed 's|[^/]*|..|g' <<<"$of")/../\">Targets</a>"
		gets "/target/$of/${STAMPS[0]}-cpu.pb.gz"
		cmp got "spool/$of/${STAMPS[0]}-cpu.pb.gz" || fail "another file of $of"
		has "its name" "$(cat head)" "attachment; filename=\"${of//\//_}-${STAMPS[0]}-cpu.pb.gz\""
		gets "/target/$of/window?file=${STAMPS[0]}-cpu.pb.gz"
		has "its functions" "$(cat got)" 'work'
		gets "/target/$of/flame?$RANGE&svg=1"
		gets /
	done
	PILLION_SPOOL=$ROW/spool "$LAB/bin/pillion" report --folded prod >alone # not what lies in the namespace of that name
	is "what prod has for itself" "$(cut -d ';' -f 1 alone | sort -u | xargs)" prod
	"$LAB/bin/pillion" report --folded spool/prod >all
	is "what there is below its directory" "$(cut -d ';' -f 1 all | sort -u | xargs)" "prod prod_shop-0_main prod_shop-1_main"
	for path in /target/prod/shop-0/ /target/prod/shop-0/db/ /target/prod/../main/ /target/prod/shop-0/../ /target/prod%2f..%2fmain/ /target/prod/shop-0/main /target//main/; do
		gets "$path" 404
	done
	end_page
}
row "containers of one name in two Pods are two targets, beside one of an older version" test_pods

test_refused() {
	begin_page
	shop
	local path way cookie
	echo secret >run/secret
	ln -s ../../run/secret spool/shop/20260101T000900Z-000009-cpu.pb.gz
	ln -s ../run spool/linked
	is "without a token" "$(curl -sS -o got -w '%{http_code}' "$PAGE_HOME/")" 401
	is "a wrong token" "$(curl -sS -o got -w '%{http_code}' "$PAGE_HOME/login?token=${TOKEN/?/x}")" 401
	has "what it says" "$(cat got)" 'http.token'
	is "another host" "$(ask_page / -H 'Host: evil.example')" 403
	is "asked for by another site" "$(ask_page / -H 'Sec-Fetch-Site: cross-site')" 403
	is "POST" "$(ask_page / -d x=1)" 405
	is "OPTIONS" "$(ask_page / -X OPTIONS)" 405
	is "the login" "$(curl -sS -o got -D head -c jar -w '%{http_code}' "$PAGE_HOME/login?token=$TOKEN")" 303
	has "the cookie" "$(cat head)" 'Set-Cookie: pillion=[0-9a-f]{32}; Path=/[0-9a-f]{32}/; HttpOnly; SameSite=Strict'
	! grep -qi 'Access-Control' head || fail "others may read"
	! grep -q "$TOKEN" head jar || fail "the cookie is the token"
	way=$(sed -nE 's|^Location: /([0-9a-f]+)/.*|\1|p' head)
	is "with the cookie" "$(curl -sS -o got -b jar -w '%{http_code}' "$PAGE_HOME/$way/target/shop/")" 200
	is "with the cookie, another way" "$(curl -sS -o got -b jar -w '%{http_code}' "$PAGE_HOME/target/shop/")" 401
	is "without the cookie" "$(curl -sS -o got -w '%{http_code}' "$PAGE_HOME/$way/target/shop/")" 401
	for path in /target/../run/ /target/..%2frun/ /target/..%2f..%2fetc/passwd /target/./ /target/%2e%2e/run/http.token /target/linked/ \
		/target/linked/secret /target/shop/..%2f..%2frun%2fsecret '/target/shop/window?file=../../run/secret' /target/shop/20260101T000900Z-000009-cpu.pb.gz \
		'/target/shop/window?file=20260101T000900Z-000009-cpu.pb.gz' /crashes/..%2findex.jsonl /crashes/../index.jsonl /target/nobody/ /index.jsonl /target/shop/index.jsonl; do
		gets "$path" 404
		! grep -q secret got || fail "$path: $(cat got)"
	done
	is "a time that is none" "$(ask_page '/target/shop/flame?event=cpu&from=<b>now&to=x')" 400
	has "what it says" "$(cat got)" '&#39;&#60;b&#62;now&#39; is no time for &#39;from&#39;: give one as'
	is "an address of 10,000 letters" "$(ask_page "/target/$(printf 'a%.0s' {1..10000})/")" 414
	is "an argument of 10,000 letters" "$(ask_page "/target/shop/?to=$(printf 'a%.0s' {1..10000})")" 200
	is "a nil in it" "$(ask_page '/target/shop%00/')" 404
	is "metrics" "$(ask_page /metrics)" 200
	end_page
}
row "hosts, tokens, cookies, other sites, ways out of the spool, long addresses" test_refused

test_socket() {
	begin_run
	need curl
	service_run
	shop
	local ask=(curl -sS -o got -w '%{http_code}' --unix-socket run/http.sock)
	is "as localhost" "$("${ask[@]}" http://localhost/target/shop/)" 200
	is "as a tunnel's port" "$("${ask[@]}" http://localhost:8080/)" 200
	is "as another host, which a name may be bound to" "$("${ask[@]}" http://evil.example/)" 403
	is "there is no login" "$("${ask[@]}" http://localhost/login)" 404
	setpriv --reuid 64999 --regid 64999 --clear-groups curl -sS --unix-socket run/http.sock http://localhost/ >/dev/null 2>&1 && fail "anybody may ask"
	end_page
}
row "on the socket: by its mode, and as localhost" test_socket

# --- what it costs

exporter_of() { pgrep -P "$SERVICE" -x pilliond-export; }
maker() { pgrep -P "$(exporter_of)" -x pilliond-page; }
has_maker() { [[ -n $(maker) ]]; }
no_maker() { [[ -z $(maker) ]]; }
# 4 windows of many stacks, each another's
heavy() {
	local i
	for ((i = 0; i < 4; i++)); do
		awk -v s="$i" 'BEGIN { srand(s); for (i = 0; i < 40000; i++) { t = "heavy"; for (k = 0; k < 20; k++) t = t ";f" k "_" int(rand() * 9000); print t, 1 } }' |
			window_of heavy "$(printf '20260101T00%02d00Z-%06d' $i $i)"
	done
}

# 300 windows of the same stacks: they take a while, and no memory
many() {
	local i
	awk 'BEGIN { srand(1); for (i = 0; i < 10000; i++) { t = "many"; for (k = 0; k < 10; k++) t = t ";f" k "_" int(rand() * 50); print t, 1 } }' |
		window_of many 20260101T000000Z-000000
	for ((i = 1; i < 300; i++)); do
		cp spool/many/20260101T000000Z-000000-cpu.pb.gz "$(printf 'spool/many/20260101T%02d%02d00Z-%06d-cpu.pb.gz' $((i / 60)) $((i % 60)) $i)"
	done
}
MANY='/target/many/flame?event=cpu&from=2026-01-01T00:00&to=2026-01-01T06:00'

test_killed() {
	begin_page
	heavy
	many
	shop
	local asked pid status
	ask_page "$MANY" >status &
	asked=$!
	until_true 20 has_maker || fail "nobody makes it"
	pid=$(maker)
	kill -STOP "$pid"
	is "its role, its capabilities" "$(awk '/^(Seccomp|CapEff|NoNewPrivs):/ { printf "%s ", $2 }' "/proc/$pid/status")" "0000000000000000 1 2 "
	is "directories that it has" "$(for fd in /proc/$pid/fd/*; do [[ ! -d $fd ]] || readlink "$fd"; done | sort -u | xargs)" "$ROW/spool $ROW/spool/many"
	is "metrics while it is made" "$(curl -sS -o got.metrics -w '%{http_code}' --max-time 30 -H "Authorization: Bearer $TOKEN" "$PAGE_HOME/metrics")" 200
	is "health" "$(curl -sS -o /dev/null -w '%{http_code}' --max-time 30 -H "Authorization: Bearer $TOKEN" "$PAGE_HOME/health")" 200
	is "another page" "$(curl -sS -o /dev/null -w '%{http_code}' --max-time 30 -H "Authorization: Bearer $TOKEN" "$PAGE_HOME/target/shop/")" 200
	kill -KILL "$pid"
	wait $asked || fail "no answer"
	is "what was asked for" "$(cat status)" 503
	is "in one sentence" "$(wc -l <got) $(grep -c 'ask for a shorter range, or again' got)" "1 1"
	until_true 20 no_maker || fail "it is there still"
	gets "/target/shop/flame?$RANGE"
	pid=$(exporter_of)
	status=$(ask_page '/target/heavy/flame?event=cpu&from=2026-01-01T00:00&to=2026-01-01T00:30')
	is "a range that is too large" "$status" 413
	has "what it says" "$(cat got)" '<p>this needs more memory than a page may take: choose a shorter range'
	is "the exporter" "$(exporter_of)" "$pid"
	gets "/target/shop/flame?$RANGE"
	end_page
}
row "while one is made, killed or too large: metrics, health and other pages; the answer is a sentence" test_killed

test_crowd() {
	begin_page
	shop
	mkdir spool/big
	head -c 40000000 /dev/zero >spool/big/${STAMPS[0]}-cpu.pb.gz
	chmod 644 spool/big/*
	local i pids=() file=/target/big/${STAMPS[0]}-cpu.pb.gz
	for i in 1 2 3 4 5 6 7 8 9; do # as slow as somebody can be
		curl -sS --limit-rate 1k -o "slow.$i" -H "Authorization: Bearer $TOKEN" "$PAGE_HOME$file" 2>/dev/null &
		pids+=($!)
	done
	until_true 20 eval '(($(find . -name "slow.*" -size +0 | wc -l) == 9))' || fail "slow readers: $(find . -name 'slow.*' -size +0)"
	is "metrics beside slow readers" "$(curl -sS -o /dev/null -w '%{http_code}' --max-time 30 -H "Authorization: Bearer $TOKEN" "$PAGE_HOME/metrics")" 200
	is "one page too many" "$(ask_page /)" 503
	has "what it says" "$(cat got)" 'too many pages'
	kill "${pids[@]}" 2>/dev/null || :
	wait "${pids[@]}" || :
	pids=()
	for ((i = 0; i < 100; i++)); do
		curl -sS -o /dev/null -w '%{http_code}\n' --max-time 30 -H "Authorization: Bearer $TOKEN" "$PAGE_HOME/" >"status.$i" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}" || :
	echo "100 at once: $(cat status.* | sort | uniq -c | xargs)"
	(($(cat status.* | grep -c -e 200 -e 503) == 100)) || fail "some had no answer"
	until_true 10 eval '[[ $(ask_page /) == 200 ]]' || fail "it does not recover: $(cat got)"
	until_true 20 no_maker || fail "a maker is left"
	end_page
}
row "nine slow readers, a hundred at once" test_crowd

# --- how it looks

test_looks() {
	begin_page
	shop
	local long scheme
	long=$(printf 'l%.0s' {1..120})
	echo 'x;main 5' | window_of "$long" ${STAMPS[0]}
	# every text against what lies behind it; texts whose boxes overlap
	local look_at='eval:(() => {
		const light = c => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
		const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c)) return c } return "rgb(255, 255, 255)" }
		let worst = 99
		const boxes = []
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
		while (walk.nextNode()) {
			const n = walk.currentNode
			if (!n.textContent.trim() || n.parentElement.closest("style, script, option")) continue
			const [x, y] = [light(getComputedStyle(n.parentElement).color), light(back(n.parentElement))].sort((p, q) => q - p)
			worst = Math.min(worst, (x + 0.05) / (y + 0.05))
			const r = document.createRange()
			r.selectNodeContents(n)
			for (const b of r.getClientRects()) if (b.width > 1) boxes.push(b)
		}
		const over = boxes.some((a, i) => boxes.some((b, j) => j > i && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4))
		return [worst >= 4.5, boxes.length > 5, over, document.documentElement.scrollWidth <= innerWidth].join()
	})()'
	for scheme in light dark; do
		SCHEME=$scheme look ./ "$look_at" shot:"$PWD/list.$scheme.png" go:target/shop/ "$look_at" shot:"$PWD/target.$scheme.png" "go:diff?$COMPARED" "$look_at" \
			"go:window?file=${STAMPS[1]}-cpu.pb.gz" "$look_at" shot:"$PWD/window.$scheme.png"
		is "$scheme: contrast, texts, overlapping, as wide as it is" "$(sort -u seen)" '"true,true,false,true"'
	done
	[[ -z ${PICTURES-} ]] || cp ./*.png "$PICTURES/"
	end_page
}
row "contrast and room at 1280 pixels, light and dark" test_looks
