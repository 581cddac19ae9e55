# suite_flame - `pillion flame` and `pillion diff`: the page in a real Chromium (tests/tools/browser), by mouse and by keyboard, and its picture.
# Whatever a program calls its functions is text there, and nothing of it is asked of a network.

lab_install pillion
BROWSER=$TOP/tests/tools/browser
UNFOLD=$B/tools/unfold

# ./page.html of what is read from stdin as folded stacks
page_of() { # [OPTION...]
	"$UNFOLD" p.pb.gz cpu nanoseconds
	"$LAB/bin/pillion" flame p.pb.gz -o page.html "$@" >said || fail "exit status $?: $(cat said)"
	is "what it says" "$(cat said)" page.html
}
browse() { # STEP... - ./seen is what its steps print; the page complains of nothing
	need chromium node
	"$BROWSER" page.html "$@" >seen 2>complaints || fail "the browser: $(cat complaints) seen: $(cat seen)"
	[[ ! -s complaints ]] || fail "the page complains: $(cat complaints)"
}
DETAILS='eval:document.getElementById("details").innerText'
FOUND='eval:document.getElementById("found").textContent'
three() { printf '%s\n' 'a;main;work;inner 600000000' 'a;main;work 100000000' 'a;main;idle 200000000' 'a;other;inner 100000000'; }

test_mouse() {
	three | page_of
	browse "$DETAILS" over:idle "$DETAILS" on:work "$DETAILS" 'eval:whereIs("work").width' 'eval:whereIs("idle")' 'click:#reset' \
		'eval:Math.round(whereIs("idle").width)' shot:"$PWD/page.png"
	is "what it shows" "$(tr -d '\n' <seen)" "$(tr -d '\n' <<-'END'
		"1.00 s in all. Click a frame, or move with the arrow keys."
		"idle\n200.00 ms · 20.00 % of all · 22.22 % of its caller · self 200.00 ms · program"
		"work\n700.00 ms · 70.00 % of all · 77.78 % of its caller · self 100.00 ms · program"
		1280
		null
		256
	END
	)"
}
row "by mouse: what it points at, zoom, and back" test_mouse

test_keyboard() {
	three | page_of
	browse key:/ key:Escape key:ArrowDown key:ArrowDown "$DETAILS" key:ArrowRight "$DETAILS" key:ArrowUp "$DETAILS" key:ArrowDown key:Enter \
		'eval:whereIs("work").width' key:Backspace 'eval:state.zoom >= 0 && nameOf(state.zoom)' key:Escape 'eval:state.zoom' \
		key:t 'eval:document.documentElement.dataset.theme' key:i 'eval:shown[0].map(f => nameOf(f.i)).join()'
	is "where it comes to" "$(sed 's/\\n.*/"/' seen | tr -d '\n"')" "workidlemain1280main-1darkinner,idle,work"
}
row "by keyboard: along rows and down, zoom, search, dark, callers" test_keyboard

test_search() {
	three | page_of
	browse key:/ text:inner "$FOUND" 'eval:document.getElementById("search").value = ""' text:work "$FOUND" key:Escape on:work "$FOUND" \
		'eval:document.getElementById("search").value = "/^in|^wor/"; mark()' "$FOUND" 'click:#reset' "$FOUND" \
		'eval:document.getElementById("search").value = "/(/"; mark()' "$FOUND" \
		'eval:document.getElementById("search").value = "nobody"; mark()' "$FOUND"
	# what lies below a match is not counted again
	is "shares" "$(grep matched seen | tr -d '\n')" '"70.00 % matched""70.00 % matched""100 % matched""100 % matched""80.00 % matched""nothing matched"'
	has "a regex that is none" "$(cat seen)" '"no such regex"'
}
row "search: the share that matches, also of what is zoomed into" test_search

test_callers() { # of inner, six sevenths come by main
	three | page_of
	browse 'click:#inverted' on:inner "$DETAILS" over:other "$DETAILS"
	has "inner" "$(sed -n 1p seen)" 'inner.n700.00 ms · 70.00 % of all'
	has "by other" "$(sed -n 2p seen)" 'other.n100.00 ms · 10.00 % of all · 14.29 % of what it is called for'
}
row "callers: leaves first" test_callers

test_by() {
	{ three && echo 'b;main;work 1000000000'; } | page_of
	browse 'eval:state.by' 'eval:shown[0].map(f => [nameOf(f.i), amount(T.total[f.i])]).join()' 'choose:#by=' \
		'eval:shown[0].map(f => [nameOf(f.i), amount(T.total[f.i])]).join()' 'choose:#by=process' 'click:#inverted' \
		'eval:shown[1].map(f => [nameOf(f.i), amount(T.total[f.i])]).join()'
	is "by process where there are several" "$(sed -n 1,2p seen | tr -d '\n"')" "processa,1.00 s,b,1.00 s"
	is "functions alone" "$(sed -n 3p seen)" '"main,1.90 s,other,100.00 ms"'
	has "callers of each" "$(sed -n 4p seen)" 'inner,700.00 ms,.*work,1.00 s'
}
row "by process, by functions alone" test_by

test_hostile() {
	local long
	long=$(printf 'std::map<int, std::vector<%0.s' {1..2800})
	{
		printf '%s\n' 'p;<script>alert(1)</script>;</script><img src=x onerror=alert(2)> 1000' "p;\"quoted\" & 'so';\$(rm)\`x\` 1000" "p;$long 1000" \
			'p;größe_函数 1000' 'p;@DATA@;\u003cb 1000'
		printf 'p;bad\xff\xc3utf8;esc\x1b[2J 1000\n'
	} | page_of
	browse 'eval:document.scripts.length' 'eval:document.images.length' 'eval:D.names.includes("<script>alert(1)</script>")' \
		'on:</script><img src=x onerror=alert(2)>' "$DETAILS" 'eval:document.images.length' 'click:#reset' on:größe_函数 "$DETAILS" \
		'click:#reset' "eval:D.names.find(n => n.length > 60000).length" 'eval:whereIs("@DATA@") !== null'
	is "scripts, images" "$(sed -n '1,2p;5p' seen | tr '\n' ' ')" "2 0 0 "
	is "its own name" "$(sed -n 3p seen)" true
	has "as text" "$(sed -n 4p seen)" '</script><img src=x onerror=alert\(2\)>'
	has "other letters" "$(sed -n 6p seen)" 'größe_函数'
	is "a name of 70 KB, as far as profiles hold it" "$(sed -n 7p seen)" 65535
	"$LAB/bin/pillion" flame p.pb.gz -o p.svg >/dev/null
	python3 -c 'import sys, xml.dom.minidom as m; d = m.parse("p.svg"); print(len(d.getElementsByTagName("script")), len(d.getElementsByTagName("image")))' >xml
	is "in the picture" "$(cat xml)" "0 0"
}
row "names that are markup, quotes, 70 KB, other letters, no UTF-8" test_hostile

test_before() {
	three | "$UNFOLD" before.pb.gz cpu nanoseconds
	printf '%s\n' 'a;main;work;inner 300000000' 'a;main;idle 600000000' 'a;other;inner 50000000' 'a;fresh 50000000' | page_of --before before.pb.gz
	browse over:idle "$DETAILS" over:work "$DETAILS" over:fresh "$DETAILS" 'eval:colour(shown[1][0].i)' 'eval:nameOf(shown[1][0].i)'
	has "more" "$(sed -n 1p seen)" 'before 20.00 %, \+40.00 points'
	has "less" "$(sed -n 2p seen)" 'before 70.00 %, -40.00 points'
	has "new" "$(sed -n 3p seen)" 'before 0.00 %, \+5.00 points'
	is "red" "$(sed -n 4,5p seen | tr -d '\n')" '"hsl(8 85% 70%)""idle"'
	"$LAB/bin/pillion" flame --svg p.pb.gz --before before.pb.gz -o p.svg >/dev/null
	has "the picture" "$(cat p.svg)" 'idle 600ms, 60.00 %, before 20.00 %'
	"$LAB/bin/pillion" flame --svg p.pb.gz --before before.pb.gz --filter fresh -o fresh.svg >/dev/null || fail "exit status $? of what is new"
	has "what is new" "$(cat fresh.svg)" 'fresh 50ms, 100.00 %, before 0.00 %'
	"$UNFOLD" other.pb.gz alloc bytes <<<'a;main 5'
	is "another type: status" "$(status_of "$LAB/bin/pillion" flame p.pb.gz --before other.pb.gz -o x.html 2>said)" 3
	has "what it says" "$(cat said)" 'other.pb.gz'
	[[ ! -e x.html ]] || fail "a page all the same"
}
row "compared with before" test_before

test_diff() {
	three | "$UNFOLD" before.pb.gz cpu nanoseconds
	printf '%s\n' 'a;main;work;inner 300000000' 'a;main;idle 600000000' 'a;other;inner 50000000' 'a;fresh 50000000' | "$UNFOLD" p.pb.gz cpu nanoseconds
	"$LAB/bin/pillion" diff before.pb.gz p.pb.gz >said || fail "exit status $?: $(cat said)"
	has "idle" "$(cat said)" ' 20.00%   60.00%   \+40.00       -  idle'
	is "the function that moved most" "$(awk '/points/ { getline; print $NF }' said)" idle
	"$LAB/bin/pillion" diff before.pb.gz p.pb.gz --json >json || fail "exit status $?: $(cat json)"
	is "as JSON" "$(jq -c '.functions | map(select(.function == "fresh"))' json)" '[{"function":"fresh","before":0,"after":0.05,"chance":null,"sure":false}]'
	"$LAB/bin/pillion" diff before.pb.gz before.pb.gz --cum >said || fail "exit status $?: $(cat said)"
	has "with itself" "$(cat said)" '100.00%  100.00%    \+0.00       -  main|90.00%   90.00%    \+0.00       -  main'
	is "one alone: status" "$(status_of "$LAB/bin/pillion" diff before.pb.gz 2>said)" 2
	has "what it says" "$(cat said)" 'before and after'
}
row "pillion diff: a table of what moved" test_diff

# Every colour that a frame may have, and every text of the page, in both themes: WCAG's contrast (4.5).
test_contrast() {
	three | page_of
	browse 'eval:(() => {
		const light = c => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
		const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05) }
		const probe = document.body.appendChild(document.createElement("i"))
		const rgb = c => { probe.style.color = ""; probe.style.color = c; return getComputedStyle(probe).color }
		let worst = 99, what = ""
		const see = (a, b, name) => { const c = contrast(rgb(a), rgb(b)); if (c < worst) { worst = c; what = name } }
		for (const dark of [false, true]) {
			state.dark = dark; theme()
			const ink = dark ? "#f4f4f4" : "#181818"
			for (let h = 0; h < 360; h++) for (let k = 0; k < 4; k++) { hues.fill(h); T.name[0] = k; see(colour(0), ink, "hue " + h) }
			match = new Uint8Array(99).fill(1); see(colour(0), ink, "match"); match = null
			D.compared = true; T.before = new Float64Array(T.n); T.allBefore = 1
			for (let p = 0; p <= 100; p++) { T.before[0] = p / 100; see(colour(0), ink, "points " + p) }
			D.compared = false; T.before = null
			const of = getComputedStyle(document.documentElement)
			for (const fore of ["--text", "--dim", "--accent"]) for (const back of ["--back", "--field"]) see(of.getPropertyValue(fore), of.getPropertyValue(back), fore + back + dark)
		}
		return [Math.floor(worst * 100) / 100, what]
	})()'
	cat seen
	awk -F'[][,]' '{ exit !($2 >= 4.5) }' seen || fail "too little contrast: $(cat seen)"
}
row "contrast of every colour, light and dark" test_contrast

# As a person's eyes have it (tests/tools/legible.js): at 1280 px and in a narrow window, light and dark, in the picture as well.
LEGIBLE=script:$TOP/tests/tools/legible.js
test_legible() {
	local size scheme
	{
		three
		printf '%s\n' 'a;main;函数函数函数函数函数函数函数函数函数 300000000' 'a;main;example.com/shop/internal/store.(*Orders).Find 200000000' 'a;main;ﷺﷺﷺﷺﷺﷺ 100000000'
		for ((i = 0; i < 40; i++)); do echo "b;main;a_function_with_a_long_name_$i;another_one_$i 10000000"; done
	} | page_of
	for size in 1280x800 800x600; do
		for scheme in light dark; do
			SIZE=$size SCHEME=$scheme browse "$LEGIBLE" key:/ text:work "$LEGIBLE" key:Escape key:i "$LEGIBLE" key:i 'eval:zoom(shown[2][0].i)' "$LEGIBLE" click:summary "$LEGIBLE"
			is "what cannot be read at $size, $scheme" "$(grep texts seen | jq -r '.wrong[]')" ""
			between "texts" "$(sed -n 1p seen | jq .texts)" 20 1000
		done
	done
	"$LAB/bin/pillion" flame --svg p.pb.gz -o p.svg >/dev/null
	"$BROWSER" "file://$PWD/p.svg" "$LEGIBLE" >seen
	is "what cannot be read of the picture" "$(jq -r '.wrong[]' seen)" ""
	between "texts of it" "$(jq .texts seen)" 10 1000
	browse 'eval:$("about").style.color = "#bbb"' 'eval:$("reset").style.cssText = "position: relative; left: -490px"' "$LEGIBLE"
	has "what can be seen to be wrong" "$(cat seen)" '"[^"]*" has a contrast of 1.*are upon each other'
}
row "texts: none upon another, whole, 11 px and more, contrast 4.5; wide letters, paths of packages" test_legible

test_packages() { # the end of a name is what tells
	printf '%s\n' 'a;example.com/shop/internal/store.(*Orders).Find 10' 'a;java/lang/String.valueOf 10' 'a;operator/(Ratio) 10' 'a;std::map<a/b>::find 10' 'a;x 300' | page_of
	browse 'eval:["example.com/shop/internal/store.(*Orders).Find", "java/lang/String.valueOf", "operator/(Ratio)", "std::map<a/b>::find", "[truncated: a/b]"].map(n => fitting(n, 8, 99)).join(" ")'
	is "in eight letters" "$(cat seen)" '"store.(… String.… operato… std::ma… [trunca…"'
}
row "a long name loses the path of its package first" test_packages

test_misleading() { # a name that is written from right to left, none that is seen, what no XML may have
	printf 'p;left\u202eright\u202c 1000\np;zero\u200bwidth 1000\np;no\xef\xbf\xbfxml\xef\xbf\xbe 1000\np;back\\u202eslash 1000\n' | page_of
	browse 'eval:D.names.slice(0, 4).join(" ")'
	is "on the page" "$(cat seen)" "$(printf '"left?right? zero?width no\xef\xbf\xbfxml\xef\xbf\xbe back\\\\u202eslash"')"
	"$LAB/bin/pillion" flame --svg p.pb.gz -o p.svg >/dev/null
	is "in the picture" "$(python3 -c 'import xml.dom.minidom as m; print(*sorted(t.firstChild.data for t in m.parse("p.svg").getElementsByTagName("text"))[1:])')" \
		'back\u202eslash left?right? no?xml? p zero?width'
	"$LAB/bin/pillion" report --json p.pb.gz >json
	is "in JSON, for a terminal" "$(grep -c "$(printf '\u202e')" json || :)" 0
	has "in JSON, exactly" "$(jq -r '.. | strings' json)" "$(printf 'left\u202eright')"
}
row "names that would be read as others" test_misleading

test_large() { # bars: 1 s until it is painted, 100 ms a zoom
	need chromium node
	awk 'BEGIN { srand(7); for (i = 0; i < 100000; i++) { s = "p"; n = 5 + int(rand() * 30); for (k = 0; k < n; k++) s = s ";f" k "_" int(rand() * (k < 4 ? 3 : 40)); print s, 1 + int(rand() * 1000000) } }' |
		page_of
	browse 'eval:Math.round(performance.now())' 'eval:ROWS' 'took:zoom(shown[3][0].i)' 'took:zoom(-1)' 'took:(state.inverted = true, build(), draw())' \
		'eval:amount(T.all)'
	echo "painted after $(sed -n 1p seen) ms, zoom $(sed -n 3p seen) ms and back $(sed -n 4p seen), callers $(sed -n 5p seen); $(stat -c %s page.html) bytes"
	(($(sed -n 2p seen) > 98000)) || fail "stacks: $(cat seen)"
	(($(sed -n 1p seen) < 10000 && $(sed -n 3p seen) < 1000 && $(sed -n 4p seen) < 1000)) || fail "it is slow: $(cat seen)"
}
row "100,000 stacks" test_large

test_deep() {
	awk 'BEGIN { s = "p"; for (k = 0; k < 8000; k++) s = s ";f"; print s, 5 }' | page_of
	browse 'eval:depth' 'eval:box.scrollTop = 1e9' 'took:paint()' 'eval:find(10, box.clientHeight - 10) >= 0'
	is "rows" "$(sed -n 1p seen)" 8000
	is "its end can be reached" "$(sed -n 4p seen)" true
	"$LAB/bin/pillion" flame --svg p.pb.gz -o p.svg >/dev/null
	is "rows of the picture" "$(grep -c '<rect x' p.svg)" 8001
}
row "8,000 frames deep" test_deep

test_real() { # of a real program, and the sums that `pillion report` has
	local want
	"$LAB/bin/pillion" report --folded "$TOP/tests/fuzz/corpus/pprof/go-cpu.pb.gz" >folded
	"$LAB/bin/pillion" flame "$TOP/tests/fuzz/corpus/pprof/go-cpu.pb.gz" -o page.html >/dev/null
	want=$(awk '{ s += $NF } END { print s }' folded)
	browse 'eval:T.all' 'eval:T.kids.reduce((a, i) => a + T.own[i], 0)'
	is "its sums" "$(tr '\n' ' ' <seen)" "$want $want "
}
row "another tool's profile, the same sum" test_real

test_mistakes() {
	"$UNFOLD" empty.pb.gz cpu nanoseconds </dev/null
	"$LAB/bin/pillion" flame empty.pb.gz -o page.html >/dev/null
	browse "$DETAILS"
	has "an empty one" "$(cat seen)" 'Nothing of this type in the profile'
	has "the empty picture" "$("$LAB/bin/pillion" flame --svg empty.pb.gz -o -)" 'nothing of this type'
	is "a directory that is none" "$(status_of "$LAB/bin/pillion" flame empty.pb.gz -o none/x.html 2>said)" 1
	has "what it says" "$(cat said)" 'none/x.html'
	echo junk >junk.pb.gz
	is "no profile" "$(status_of "$LAB/bin/pillion" flame junk.pb.gz 2>said)" 1
	[[ ! -e flame.html ]] || fail "half a page"
	is "a page that is there already is replaced whole" "$(echo old >page.html && "$LAB/bin/pillion" flame empty.pb.gz -o page.html >/dev/null && grep -c '</html>' page.html)" 1
}
row "empty, unwritable, no profile" test_mistakes
