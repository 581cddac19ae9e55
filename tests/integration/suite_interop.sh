# suite_interop - profiles of every kind in other people's readers: the same sums in `go tool pprof`, in pprof-format and speedscope of npm, and
# after a round through our own reader; and the rules that consumers have written down (tests/tools/pprof.mjs).

. "$TOP/tests/integration/kinds.sh"
INTEROP=$TOP/build/npm/readers

readers() {
	need node npm
	(flock 9 && "$TOP/tests/tools/npm" "$INTEROP" pprof-format@2.3.2 speedscope@1.25.0) 9>"$LAB/npm.lock" || skip "npm has no pprof-format or speedscope for us"
}

# --- sums, "TYPE UNIT SUM"

sums_ours() { # FILE
	local type unit
	while read -r type unit _; do
		echo "$type $unit $("$PILLION" report --folded --type "$type" "$1" | awk '{ n += $NF } END { printf "%.0f", n }')"
	done <theirs
}
sums_go() { # FILE - of the list of samples that it prints when asked for all that it has read
	go tool pprof -raw "$1" 2>/dev/null | awk '
		/^Samples:/ { getline; n = split($0, types, " "); on = 1; next }
		/^Locations/ { on = 0 }
		on && /^ *[-0-9 ]+:/ { sub(/:.*/, ""); split($0, v, " "); for (i = 1; i <= n; i++) sum[i] += v[i] }
		END { for (i = 1; i <= n; i++) { split(types[i], t, "/"); sub(/\[dflt\]/, "", t[2]); printf "%s %s %.0f\n", t[1], t[2], sum[i] } }'
}
test_sums() { # KIND
	local file
	need go
	readers
	made "$1"
	for file in $(find "$PROFILES/out" -name '*.pb.gz'); do
		"$TOP/tests/tools/pprof.mjs" "$INTEROP" "$file" >theirs || fail "against the rules of its consumers"
		cat theirs
		has "what pprof-format reads" "$(cat theirs)" '[1-9]'
		is "$(basename "$file"), ours" "$(sums_ours "$file")" "$(cat theirs)"
		is "$(basename "$file"), go tool pprof" "$(sums_go "$file")" "$(cat theirs)"
		"$PILLION" export "$file" -o again.pb.gz || fail "export"
		is "$(basename "$file"), once through ours" "$("$TOP/tests/tools/pprof.mjs" "$INTEROP" again.pb.gz)" "$(cat theirs)"
		rm again.pb.gz
	done
}
for kind in cpu offcpu wall counted alloc calls; do
	row "$kind: the same sums by type in pprof-format, go tool pprof and ours, also written anew; no rule is broken" test_sums $kind
done

# Nothing of a sample gets lost on the way through our reader and writer: stacks, lines, labels, values.
test_whole() { # KIND
	local file
	need go
	made "$1"
	for file in $(find "$PROFILES/out" -name '*.pb.gz'); do
		"$PILLION" export "$file" -o again.pb.gz || fail "export"
		stacks "$file" >was
		stacks again.pb.gz >is
		cmp was is || fail "$(diff was is | sed -n 1,10p)"
		rm again.pb.gz
	done
}
stacks() { go tool pprof -traces -lines "$1" 2>/dev/null | grep -v '^File:\|^Build ID:' | awk -v RS='-----------[-+]+\n' '{ gsub(/\n/, "|"); print }' | sort; }
for kind in cpu offcpu alloc; do row "$kind: once through our reader and writer, each stack and label as before" test_whole $kind; done

# --- speedscope, as a person opens it

to_number='(t => { const m = /([0-9.,]+) ?([a-zµ]*)/i.exec(t); const by = { ns: 1, "µs": 1e3, us: 1e3, ms: 1e6, s: 1e9, min: 6e10, B: 1, kB: 1e3, KB: 1024, MB: 1048576, GB: 1073741824 };
	return m ? Number(m[1].replace(/,/g, "")) * (by[m[2]] || 1) : 0 })'
test_speedscope() { # KIND
	local file type sum
	need chromium
	readers
	made "$1"
	file=$(find "$PROFILES/out" -name '*.pb.gz' | sort | sed -n 1p)
	printf 'speedscope.loadFileFromBase64("it.pb.gz", "%s")\n' "$(base64 -w 0 "$file")" >it.js
	SIZE=1280x6000 "$TOP/tests/tools/browser" "file://$INTEROP/node_modules/speedscope/dist/release/index.html#localProfilePath=$PWD/it.js" \
		'until:document.body.innerText.includes("Sandwich") && !document.body.innerText.includes("Browse")' key:3 'until:document.querySelectorAll("tr").length > 1' \
		"eval:[...document.querySelectorAll('tr')].map(r => [...r.children].map(c => c.innerText)).filter(c => c.length > 2).reduce((n, c) => n + $to_number(c[1]), 0)" >sum ||
		fail "speedscope does not open it"
	type=$("$TOP/tests/tools/pprof.mjs" "$INTEROP" "$file" | sed -n '$s/ .*//p')
	sum=$("$PILLION" report --folded --type "$type" "$file" | awk '{ n += $NF } END { printf "%.0f", n }')
	echo "speedscope: $(cat sum), ours: $sum of $type"
	awk -v a="$(cat sum)" -v b="$sum" 'BEGIN { exit !(b > 0 && a > b * 0.985 && a < b * 1.015) }' || fail "self times of all functions add up to $(cat sum) in speedscope, $type is $sum"
}
for kind in cpu offcpu wall; do row "$kind: speedscope's functions add up to the same" test_speedscope $kind; done
