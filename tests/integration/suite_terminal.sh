# suite_terminal - what people see in a terminal: `pillion top` live in a real one (tmux), reports in their forms, names that
# would harm a terminal, and every mistake that a person can make on the command line.

lab_install pillion
GO_CPU=$TOP/tests/fuzz/corpus/pprof/go-cpu.pb.gz

# --- a profile with names of our choice, by nothing of the product's

write_profile() { # FILE [NAME...] on stdin: a line for each function, Python's escapes; each has 1 sample more than the one after it
	python3 -c 'import gzip, sys
def n(v):
    out = b""
    while v > 127: out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])
def f(k, v): return n(k << 3) + n(v) if isinstance(v, int) else n(k << 3 | 2) + n(len(v)) + v
names = [eval("b\"" + l.rstrip("\n") + "\"") if not l.startswith("@") else eval(l[1:]) for l in sys.stdin]
strings = [b"", b"cpu", b"nanoseconds", b"thread", b"one", b"two"] + names
out = f(1, f(1, 1) + f(2, 2))
for i in range(len(names)):
    value = (len(names) - i) * 10000000
    out += f(2, f(1, n(i + 1)) + f(2, n(value)) + f(3, f(1, 3) + f(2, 4 + i % 2)))
    out += f(4, f(1, i + 1) + f(4, f(1, i + 1)))
    out += f(5, f(1, i + 1) + f(2, i + 6))
for s in strings: out += f(6, s)
open(sys.argv[1], "wb").write(gzip.compress(out))' "$1"
}

# Escape sequences, newlines, C1, another direction, wide and combining characters, no UTF-8, quotes and tags, 64 KiB
hostile() {
	cat <<'EOF' | write_profile "$1"
\x1b[2J\x1b[31mred
two\nlines\ttab
\xc2\x9b31mc1
\xe2\x80\xaegnp.exe
\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97
\xff\xfe\xc3(bad
<script>alert(\"1\\\")</script>
@b"std::map<" + b"int, std::pair<long, " * 3200 + b"int>"
EOF
}

# --- a terminal

screen() { tmux -L "$SCREEN" capture-pane -p; }
keys() { tmux -L "$SCREEN" send-keys "$@"; }
terminal() { # COLUMNS ROWS - with a shell in it
	need tmux
	SCREEN=${ROW##*/}
	trap 'tmux -L "$SCREEN" kill-server' EXIT
	PS1='ready> ' tmux -L "$SCREEN" -f /dev/null new-session -d -x "$1" -y "$2" "env PS1='ready> ' sh -i"
	until_true 10 shows 'ready>' || fail "no shell: $(screen)"
	keys 'stty -g >before; clear' Enter
	until_true 10 test -s before || fail "no stty"
}
shows() { grep -E -- "$1" <<<"$(screen)" >/dev/null; }
see() { until_true 10 shows "$1" || fail "the screen has no \"$1\": $(screen)"; }
gone() { ! shows "$1"; }
start_top() { # ARGUMENT...
	keys "'$LAB/bin/pillion' top $*" Enter
	see '^q quit'
}
restored() { # STATUS
	see 'ready>'
	keys 'clear; stty -g >after; echo status $?' Enter
	until_true 10 test -s after || fail "no stty: $(screen)"
	is "the terminal" "$(cat after)" "$(cat before)"
	is "its cursor" "$(tmux -L "$SCREEN" display-message -p '#{cursor_flag} #{alternate_on}')" '1 0'
}

test_live() {
	terminal 80 14
	mkdir spool
	cp "$GO_CPU" spool/20260101T000000Z-000000-cpu.pb.gz
	start_top spool
	see 'by self, 23 functions'
	is "the first function" "$(screen | sed -n 4p | awk '{ print $NF }')" sort.partition
	keys s
	see 'by total'
	is "the first of all" "$(screen | sed -n 4p | awk '{ print $NF }')" main.main
	keys G
	until_true 10 gone 'main\.main$' || fail "it did not scroll: $(screen)"
	keys g s
	see 'by self'
	keys / median Enter
	see 'filter: median'
	see '^20ms cpu'
	keys / kind=nothing Enter
	see 'no sample is like that'
	keys / kind=sort Enter
	see 'filter: kind=sort'
	keys / Enter
	see '^290ms cpu'
	keys t
	see '^29 samples'
	keys t
	see '^290ms cpu'
	tmux -L "$SCREEN" resize-window -x 50 -y 8
	see '^q quit.*\.\.\.$'
	is "lines" "$(screen | grep -c .)" 8
	cp "$GO_CPU" spool/20260101T000100Z-000001-cpu.pb.gz
	see '^580ms cpu' # the new window
	keys q
	restored
}
row "live: sorted, scrolled, filtered, another type, resized, a new window, quit" test_live

test_ends() { # SIGNAL|KEY
	terminal 80 10
	mkdir spool
	cp "$GO_CPU" spool/
	start_top spool
	case $1 in
	C-c) keys C-c ;;
	C-z)
		keys C-z
		see 'ready>'
		keys fg Enter
		see '^q quit'
		keys q
		;;
	*) pkill -"$1" -f "^$LAB/bin/pillion top spool" || fail "no such process" ;;
	esac
	restored
}
for how in C-c C-z TERM HUP; do row "live: ended by $how, the terminal as it was" test_ends "$how"; done

test_hostile_live() {
	hostile hostile.pb.gz
	terminal 72 16
	start_top --live hostile.pb.gz
	see '\?\[2J\?\[31mred$'
	see 'two\?lines\?tab$'
	see '\?31mc1$'
	see '\?gnp\.exe$'
	see '<script>alert'
	see 'std::map<int, std::pai.*\.\.\.$'
	is "long lines" "$(screen | awk 'length > 72')" ''
	tmux -L "$SCREEN" resize-window -x 54 -y 16
	see '漢字漢\.\.\.$' # 9 columns are left: three of two, and the dots
	keys q
	restored
}
row "live: names with escapes, newlines, 64 KiB, wide characters: shown, cut by columns" test_hostile_live

test_hostile_forms() {
	local form
	hostile hostile.pb.gz
	for form in 'report --text' 'report --pprof' 'report --folded' top; do
		"$LAB/bin/pillion" $form hostile.pb.gz >out
		is "control characters of $form" "$(LC_ALL=C grep -cP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' out || :)" 0
		iconv -f UTF-8 -t UTF-16 out >/dev/null || fail "$form: no UTF-8"
	done
	"$LAB/bin/pillion" report --json hostile.pb.gz >out.json
	python3 - <<'EOF' || fail "the JSON is not as it should be"
import json
doc = json.load(open("out.json", encoding="utf-8"))
names = {f["name"]: f for f in doc["functions"]}
assert "\x1b[2J\x1b[31mred" in names and "two\nlines\ttab" in names, names.keys()
assert '<script>alert("1\\")</script>' in names, names.keys()
assert max(map(len, names)) > 64000
assert sum(s["values"][0] for s in doc["samples"]) == doc["types"][0]["total"] == 360000000
assert {s["labels"]["thread"] for s in doc["samples"]} == {"one", "two"}
EOF
}
test_hostile_words() { # sample types, names of files
	local file=$'b\e[31m\u202e.pb.gz'
	"$B/tools/unfold" a.pb.gz $'cpu\e]0;x\a' $'s\e[31m' <<<'a;main 5'
	echo none >"$file"
	"$LAB/bin/pillion" diff a.pb.gz a.pb.gz >said 2>&1
	"$LAB/bin/pillion" flame a.pb.gz --before "$GO_CPU" -o x.html >>said 2>&1 && fail "it compares them"
	"$LAB/bin/pillion" top "$file" >>said 2>&1 && fail "it reads it"
	"$LAB/bin/pillion" top --type heap a.pb.gz >>said 2>&1 && fail "it has heap"
	! grep -P '\x1b|\x07|\xe2\x80\xae' said || fail "an escape sequence"
	has "what it says" "$(cat said)" 'cpu\?\]0;x\?.*b\?\[31m\?.pb.gz'
}
row "sample types and names of files with escapes" test_hostile_words
row "reports: names with escapes, newlines, 64 KiB, no UTF-8: safe text, valid JSON" test_hostile_forms

# --- forms and filters

test_forms() {
	"$LAB/bin/pillion" report --text "$GO_CPU" >tree
	has "a tree" "$(cat tree)" $'280ms +0  runtime.main\n[^\n]*280ms +0    main.main\n'
	"$LAB/bin/pillion" report --pprof "$GO_CPU" | sed 1,/flat%/d >table
	"$LAB/bin/pillion" top -n all "$GO_CPU" | sed 1,/flat%/d >top
	cmp table top || fail "report --pprof and top differ"
	"$LAB/bin/pillion" report --json "$GO_CPU" >json
	is "functions of --json" "$(jq '.functions | length' json)" 23
	is "the sum of self" "$(jq '[.functions[].flat[1]] | add' json)" "$(jq '.types[1].total' json)"
	is "the default with --cum" "$("$LAB/bin/pillion" top --cum -n 1 "$GO_CPU" | awk '/flat%/ { getline; print $NF }')" main.main
}
row "report: tree, pprof's table, JSON" test_forms

test_filters() { # the same samples by each command
	local wanted
	wanted=$("$LAB/bin/pillion" report --folded "$GO_CPU" | awk '/median/ { n += $NF } END { print n }')
	is "folded" "$("$LAB/bin/pillion" report --folded --filter median "$GO_CPU" | awk '{ n += $NF } END { print n }')" "$wanted"
	is "json" "$("$LAB/bin/pillion" report --json --filter median --filter kind=sort "$GO_CPU" | jq '.types[1].total')" "$wanted"
	"$LAB/bin/pillion" export --filter median "$GO_CPU" -o median.pb.gz
	is "export" "$("$LAB/bin/pillion" report --json median.pb.gz | jq '.types[1].total')" "$wanted"
	has "top" "$("$LAB/bin/pillion" top --filter median "$GO_CPU")" "$((wanted / 1000000))ms cpu"
	"$LAB/bin/pillion" flame --filter median "$GO_CPU" -o median.html >/dev/null
	! grep -q procyield median.html || fail "flame has what does not fit"
}
row "--filter: the same samples in top, report, flame and export" test_filters

test_export() {
	mkdir spool
	cp "$GO_CPU" spool/20260101T000000Z-000000-cpu.pb.gz
	cp "$GO_CPU" spool/20260101T000100Z-000001-cpu.pb.gz
	is "its output" "$("$LAB/bin/pillion" export spool -o both.pb.gz)" both.pb.gz
	is "its total" "$("$LAB/bin/pillion" report --json both.pb.gz | jq '.types[1].total')" 580000000
	"$LAB/bin/pillion" export spool -o - | cmp - both.pb.gz || fail "stdout has another profile"
	"$LAB/bin/pillion" symbolize both.pb.gz -o - 2>said | cmp - both.pb.gz || fail "symbolize: stdout has another profile: $(cat said)"
	[[ ! -e - ]] || fail "a file that is called -"
	is "left over" "$(find . -name '*.writing*')" ''
	! command -v go >/dev/null || has "go tool pprof" "$(go tool pprof -top -symbolize=none both.pb.gz 2>&1)" 'sort.partition'
}
row "export: windows as one profile, to a file and to stdout" test_export

test_crash() {
	mkdir crashes
	cat >crashes/x.json <<'EOF'
{"time": "2026-01-01T00:00:00Z", "target": "shop", "process": {"pid": 7, "name": "app", "exe": "/app"}, "thread": {"tid": 7, "name": "app"},
 "signal": {"number": 11, "name": "SIGSEGV", "what": "no memory there", "address": "0x0"}, "frames": [{"function": "hash\u001b[31m", "module": "/app"}]}
EOF
	"$LAB/bin/pillion" report --text crashes/x.json >text
	has "a crash" "$(cat text)" 'SIGSEGV.*hash'
	! grep -q $'\x1b' text || fail "an escape sequence"
	is "as JSON" "$("$LAB/bin/pillion" report --json crashes/x.json | jq -r .signal.name)" SIGSEGV
}
row "report: a crash" test_crash

# --- mistakes: command, status, what is named, the way out

mistakes() {
	cat <<'TABLE'
toop				2	'toop'			did you mean 'top'
xyzzy				2	'xyzzy'			pillion help
help xyzzy			2	'xyzzy'			pillion help
top --rwos 3 x			2	'--rwos'		pillion help top
top --rows			2	'--rows' needs a value	pillion help top
top --rows 0 x			2	'0' is not a number	1, 2, ... or 'all'
top --rows all --once --live x	2	--once and --live	pillion help top
top --control=/x x		2	--control		or files
top --control /nowhere/sock	1	/nowhere/sock		start one as root
top --live broken.pb.gz		2	--live			--once
top nothere.pb.gz		1	nothere.pb.gz		No such file
top empty			3	empty			\*.pb.gz
top broken.pb.gz		1	broken.pb.gz		cut off|truncated|ends|incomplete|no profile|not a profile
top zero.pb.gz			1	zero.pb.gz		empty
top text.pb.gz			1	text.pb.gz		profile
top --type heap go.pb.gz	3	'heap'			go.pb.gz has samples, cpu
top --filter nobody go.pb.gz	3	'nobody'		KEY=TEXT
report go.pb.gz			2	--text, --folded	pillion help report
report --text --json go.pb.gz	2	--text, --folded	pillion help report
report --text			2	which profile		pillion help report
report --text --by pid go.pb.gz	2	--by			--folded
report --json --all go.pb.gz	2	--all			--text
report --folded crash.json	2	crash.json		--text or --json
report --text crash.json	1	crash.json		no report of a crash
flame crash.json		1	crash.json is no profile	pillion report --text
export go.pb.gz			2	where to		--output FILE
export -o x			2	which profile		pillion help export
export go.pb.gz -o no/x		1	no/x			No such file
flame				2	which profile		pillion help flame
flame go.pb.gz -o empty		1	empty			no regular file
diff go.pb.gz			2	before and after	pillion help diff
diff go.pb.gz nothere		1	nothere			No such file
symbolize			2	which profile		pillion help symbolize
tree				2	which tree		pillion help tree
tree text.pb.gz			1	text.pb.gz		.
crashes nothere			1	nothere			No such file
crashes empty			3	no crash		reported
ps x				2	'x'			takes no argument
ps --control /nowhere/sock	1	/nowhere/sock		start one as root
version x			2	'x'			takes no argument
version --json=1		2	'--json' takes no value	pillion help version
attach				2	one process or container	pillion help attach
run				2	.			pillion help run|PROGRAM|program
TABLE
}

test_mistake() { # COMMAND STATUS THING WAY
	mkdir empty
	cp "$GO_CPU" go.pb.gz
	dd if=go.pb.gz of=broken.pb.gz bs=1 count=500 2>/dev/null
	: >zero.pb.gz
	echo "no profile" >text.pb.gz
	echo "{" >crash.json
	is "status" "$(status_of timeout 20 "$LAB/bin/pillion" $1 </dev/null 2>said)" "$2"
	grep -qF "pillion" said || fail "it does not say who speaks: $(cat said)"
	is "lines" "$(wc -l <said)" 1
	has "the thing" "$(cat said)" "$3"
	has "the way out" "$(cat said)" "$4"
}
# One row for all: each is a start of a program
test_mistakes() {
	local command status thing way bad=0
	while IFS= read -r line; do
		IFS=$'\t' read -r command status thing way < <(tr -s '\t' <<<"$line")
		mkdir "m" && cd m
		(test_mistake "$command" "$status" "$thing" "$way") || { echo "  -- pillion $command" && bad=$((bad + 1)); }
		cd .. && rm -r m
	done < <(mistakes)
	is "mistakes that are told badly" "$bad" 0
}
row "every mistake names the thing and the way out" test_mistakes

test_help() { # of every command: usage, options, an example that is a command of ours
	local command
	for command in $("$LAB/bin/pillion" complete "" | cut -f1); do
		"$LAB/bin/pillion" "$command" --help >help || fail "$command --help"
		is "help of $command" "$(head -c 15 help | cut -d' ' -f1-2)" "usage: pillion"
		has "an example of $command" "$(cat help)" "example: .*pillion(-| )"
		is "wide lines of $command" "$(sed '/^options, each also/,$d' help | awk 'length > 130')" ''
	done
}
row "every command's help has usage and an example" test_help

test_version() {
	is "version" "$("$LAB/bin/pillion" --version)" "pillion $(cat "$TOP/VERSION")"
	is "version --json" "$("$LAB/bin/pillion" version --json | jq -r .version)" "$(cat "$TOP/VERSION")"
}
row "version, and for scripts" test_version

# --- who waits

feed() { sleep "$1" && cat "$GO_CPU" >slow.pb.gz; } # SECONDS

test_progress() {
	terminal 80 12
	mkfifo slow.pb.gz
	keys "'$LAB/bin/pillion' top -n 1 slow.pb.gz" Enter
	see '^pillion top: file 1, slow.pb.gz, [0-9]+ s'
	feed 0
	see 'sort.partition'
	! shows 'file 1, slow' || fail "it is still there: $(screen)"
	feed 2 &
	"$LAB/bin/pillion" top -n 1 slow.pb.gz 2>said >/dev/null
	is "for a script" "$(cat said)" ''
}
row "what takes longer than a second says so on a terminal, and nowhere else" test_progress

# --- profiler/view/reading.md: what it shows is what is printed

test_page() {
	cp "$GO_CPU" window.pb.gz
	# of `diff` two runs are shown: suite_docs
	awk '/^```/ { on = !on; skipped = 0; next } on && /^\$ pillion diff/ { skipped = 1 } on && !skipped' "$TOP/profiler/view/reading.md" >shown
	PATH=$LAB/bin:$PATH
	while IFS= read -r line; do
		[[ $line == '$ pillion '* ]] || continue
		echo "$line"
		bash -c "${line#$ }" 2>&1 || :
	done <shown >printed
	(($(grep -c '^\$ pillion' shown) >= 8)) || fail "it shows too little"
	diff <(grep -v '^$' shown) <(grep -v '^$' printed) >differs || fail "it is another: $(cat differs)"
}
row "profiler/view/reading.md shows what is printed" test_page

# --- of a service

. "$TOP/tests/integration/service.sh"

test_service_live() {
	begin_service
	ct_start runc shop -a $NAMES=cpu -a io.pillion.window=5s -- "$LAB/bin/burn" 40
	terminal 90 14
	keys "'$LAB/bin/pillion' top --control '$SOCKET'" Enter
	see '^q quit|no target has a window yet'
	keys s # by total: it has little itself
	until_true 20 shows 'burn_loop' || fail "no function of it: $(screen)"
	see 'last windows of all targets'
	keys / process=burn Enter
	see 'filter: process=burn'
	see cpu_spin
	keys q
	restored
	"$LAB/bin/pillion" top --control "$SOCKET" >once
	has "once, for a pipe" "$(cat once)" 'cpu_spin'
	has "whose" "$(cat once)" 'target +[a-z0-9]'
	is "the samples of nobody" "$(status_of "$LAB/bin/pillion" top --control "$SOCKET" --filter process=nobody 2>said)" 3
	ct_rm shop
}
row "live: the last windows of a service's targets" test_service_live
