# suite_push_encode - what a profile is pushed as (profiler/push/push_encode.h), by decoders that are not ours: protobufjs and pprof-format of npm, below the rules
# of Pyroscope (tests/tools/pyroscope.mjs) and of OpenTelemetry (tests/tools/otlp.mjs). Nothing is sent here.

. "$TOP/tests/integration/kinds.sh"
. "$TOP/tests/integration/judged.sh"
FORMS="pyroscope ingest otlp"

formed() { # FORM FILE DIR [BYTES [SAMPLES]] - the requests in DIR
	[[ -x $B/tools/push_encode ]] || fail "not built: tools/push_encode"
	mkdir -p "$3"
	"$B/tools/push_encode" "$@" || fail "no requests"
}
line() { # WHAT LINE... - are in the file `judged`
	local wanted
	for wanted in "${@:2}"; do grep -qxF -- "$wanted" judged || { cat judged && fail "$1: no line \"$wanted\""; }; done
}
metric_of() { # KIND FORM
	case $1 in
	cpu) echo process_cpu ;;
	offcpu) if [[ $2 == ingest ]]; then echo off_CPU; else echo off_cpu; fi ;;
	alloc) echo memory ;;
	*) tr - _ <<<"$1" ;;
	esac
}

test_kind() { # KIND
	local file form kind
	push_modules
	made "$1"
	for file in $(find "$PROFILES/out" -name '*.pb.gz'); do
		kind=$(basename "$file" .pb.gz | sed -E 's/^[0-9]{8}T[0-9]{6}Z-[0-9]{6}-//')
		for form in $FORMS; do
			rm -rf "$form"
			formed "$form" "$file" "$form"
			judged "$form" "$form"
			is "$form: sums of $kind" "$(judged_sums)" "$(spool_sums "$form" "$file")"
			[[ $form == otlp ]] || line "$form: name of $kind" "series __name__=$(metric_of "$kind" "$form")"
		done
		formed put "$file" put
		cmp put/000.body "$file" || fail "put: other bytes"
		is "put" "$(sed -n '1,3p' put/000.head | xargs)" "method PUT path /the-node/the-target/$(basename "$file") type application/octet-stream"
	done
}
for kind in cpu offcpu wall counted alloc calls; do
	row "$kind: pushed to Pyroscope in two ways and by OTLP, the sums by type are the spool's; no rule is broken" test_kind $kind
done

# A shell and what it starts: so programs, threads and CPUs differ, and what they share is where they come from and what was asked for.
test_labels() {
	local file form
	push_modules
	profiled_as "team=payments,release.of=today" sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; perl -e "my \$n; \$n += \$_ for 1 .. 5000000"'
	file=$(find out -name '*-cpu.pb.gz' | sort | sed -n 1p)
	for form in pyroscope ingest; do
		formed "$form" "$file" "$form"
		judged "$form" "$form"
		is "$form: the series" "$(sed -n 's/^series \([a-z_]*\)=.*/\1/p' judged | sort | xargs)" \
			"__delta__ __name__ container container_id node pyroscope_spy service_name user_release_of user_team"
		line "$form" "series user_team=payments" "series user_release_of=today" "series service_name=sh" "series node=$(uname -n)"
		is "$form: of samples" "$(sed -n 's/^label //p' judged | xargs)" "cpu exe pid process thread tid timestamp"
	done
	formed otlp "$file" otlp
	judged otlp otlp
	is "otlp: the resource" "$(sed -n 's/^resource \([^=]*\)=.*/\1/p' judged | sort | xargs)" \
		"container.id container.name host.name service.name user.release.of user.team"
	line otlp "resource user.team=payments" "resource service.name=sh" "resource host.name=$(uname -n)" timestamps comment "frame native" \
		"mapping process.executable.build_id.gnu" "first cpu nanoseconds"
	is "otlp: of samples" "$(sed -n 's/^sample //p' judged | xargs)" \
		"cpu.logical_number process.command process.executable.name process.pid thread.id thread.name"
}
profiled_as() { # LABELS COMMAND...
	"$PILLION" run --events cpu@499 --labels "$1" --detail cpu,time --budget 5s --daemon "$LAB/bin/pilliond" --control "$PWD/none.sock" --output "$PWD/out" --log "$PWD/log" -- \
		"${@:2}" >program.out 2>&1 || fail "exit status $?: $(cat program.out)"
	until_true 20 eval '[[ -n $(find out -name "*-cpu.pb.gz") ]]' || fail "no profile: $(cat log)"
}
row "labels: what all samples share is the series' or the resource's, by each receiver's names, the rest the samples'" test_labels

# --- large, and strange

# As bench-flame's: so many stacks of 5 to 34 frames
large() { # STACKS
	awk -v stacks="$1" 'BEGIN { srand(7); for (i = 0; i < stacks; i++) { s = "p"; n = 5 + int(rand() * 30); for (k = 0; k < n; k++) s = s ";f" k "_" int(rand() * (k < 4 ? 3 : 40)); print s, 1 + int(rand() * 1000000) } }' |
		"$B/tools/unfold" large.pb.gz cpu nanoseconds
}
test_large() { # STACKS BYTES MOST REQUESTS - 0 bytes: the default, which is less than MOST
	local form
	push_modules
	large "$1"
	for form in $FORMS; do
		formed "$form" large.pb.gz "$form" "$2"
		judged "$form" "$form" "$3"
		is "$form: sums" "$(judged_sums)" "$(spool_sums "$form" large.pb.gz)"
		(($(sed -n 's/^requests //p' judged) >= $4)) || fail "$form: $(tail -n 1 judged) requests"
		formed "$form" large.pb.gz "$form.again" "$2"
		diff -r "$form" "$form.again" || fail "$form: the same profile, other bytes"
	done
}
row "100,000 stacks: as many requests as Pyroscope's limits ask for, together all of it, the same bytes each time" test_large 100000 0 2097152 7
row "40,000 stacks by 300,000 bytes: each request is within them, together all of it" test_large 40000 300000 300000 5

test_names() {
	local form
	push_modules
	{
		printf 'p;main;say"<script>alert(1)</script>" 1\n'
		printf 'p;main;\xff\xfe not UTF-8 \x1b[31m;leaf 2\n'
		printf 'p;main;%s 3\n' "$(head -c 70000 /dev/zero | tr '\0' x)"
		printf 'p;%s;leaf 4\n' "$(for ((i = 0; i < 3000; i++)); do printf 'deep%d;' "$i"; done)"
		printf '"},{=\\\\;main;größe 5\n'
	} | "$B/tools/unfold" odd.pb.gz samples count
	for form in $FORMS; do
		formed "$form" odd.pb.gz "$form"
		judged "$form" "$form"
		is "$form: the sum" "$(judged_sums)" "samples count 15"
	done
	# a sample of 70 KB alone is more than this: its name is cut, and it is there
	formed pyroscope odd.pb.gz small 60000
	judged pyroscope small 60000
	is "with room for 60,000 bytes" "$(judged_sums)" "samples count 15"
	mkdir none
	"$B/tools/push_encode" otlp odd.pb.gz none 100 >said 2>&1 && fail "a request of 100 bytes"
	is "without room" "$(sed -E 's/takes [0-9]+/takes N/' said)" "the-target/odd.pb.gz: a single sample takes N bytes, of 100 that a request may have"
	is "requests then" "$(ls none)" ""
}
row "hostile names, 70 KB ones, stacks of 3,000: valid for each receiver, none is lost; no room at all is a sentence" test_names

test_foreign() { # KIND...
	local kind form
	push_modules
	for kind; do
		node "$TOP/tests/tools/foreign.mjs" "$PUSHED" "$kind" "$kind.pb.gz" || fail "no $kind"
		for form in $FORMS; do
			formed "$form" "$kind.pb.gz" "$kind.$form"
			judged "$form" "$kind.$form"
			is "$kind, $form: sums" "$(judged_sums)" "$(spool_sums "$form" "$kind.pb.gz" 2>/dev/null)"
		done
	done
}
row "profiles of other tools: the same sums, a name of the metric and of the service" test_foreign python java perf

# What judges can say no: else none of the rows above says anything.
test_judges() {
	local form judge
	push_modules
	made cpu
	for form in $FORMS; do
		judge=pyroscope
		[[ $form != otlp ]] || judge=otlp
		formed "$form" "$(find "$PROFILES/out" -name '*.pb.gz' | sort | sed -n 1p)" "$form"
		"$TOP/tests/tools/$judge.mjs" "$PUSHED" "$form" 100 >/dev/null 2>said && fail "$form: more bytes than there may be"
		has "$form" "$(cat said)" 'bytes'
		"$TOP/tests/tools/$judge.mjs" "$PUSHED" "$form" 2097152 1 >/dev/null 2>said && fail "$form: more samples than there may be"
		has "$form" "$(cat said)" 'samples'
		cp -r "$form" "$form.twice"
		cp "$form/000.head" "$form.twice/001.head"
		cp "$form/000.body" "$form.twice/001.body"
		"$TOP/tests/tools/$judge.mjs" "$PUSHED" "$form.twice" >/dev/null 2>said && fail "$form: twice the same"
		has "$form" "$(cat said)" 'before|twice'
	done
}
row "the judges: a request that is too large, has too many samples, or is there twice is told" test_judges
