# suite_foreign - profiles that are not ours: of other tools (Go and Node as they run, others as they describe what they write), and files that nobody
# should have written (tests/tools/foreign.mjs): read with the right sums, or refused in one sentence, within bounds of time and memory.

lab_install pillion
PILLION=$LAB/bin/pillion
FOREIGN=$TOP/tests/tools/foreign.mjs
FOREIGN_MODULES=$TOP/build/npm/foreign

foreign() { # KIND - KIND.pb.gz
	[[ -e $1.pb.gz ]] || node "$FOREIGN" "$FOREIGN_MODULES" "$1" "$1.pb.gz" || fail "no $1"
}
foreign_modules() {
	need node npm
	(flock 9 && "$TOP/tests/tools/npm" "$FOREIGN_MODULES" pprof-format@2.3.2 @datadog/pprof@5.20.0) 9>"$LAB/npm.lock" || skip "npm has no pprof-format or @datadog/pprof for us"
}

# "TYPE UNIT SUM" for each sample type, as Go has read it
go_sums() { # FILE
	go tool pprof -raw "$1" 2>/dev/null | awk '
		/^Samples:/ { getline; n = split($0, types, " "); on = 1; next }
		/^Locations/ { on = 0 }
		on && /^ *[-0-9 ]+:/ { sub(/:.*/, ""); split($0, v, " "); for (i = 1; i <= n; i++) sum[i] += v[i] }
		END { for (i = 1; i <= n; i++) { split(types[i], t, "/"); sub(/\[dflt\]/, "", t[2]); printf "%s %s %.0f\n", t[1], t[2], sum[i] } }'
}
sum_of() { awk '{ n += $NF } END { printf "%.0f", n }'; }

# All commands have the sum of each type that pprof-format and Go have, and a function that is there. Go leaves out what has no stack, which its own
# profiles of CPU time have now and then.
read_by_all() { # FILE REGEX - a function in it
	local type unit sum
	need go jq
	"$TOP/tests/tools/pprof.mjs" "$FOREIGN_MODULES" "$1" >sums 2>/dev/null || : # whether it keeps the rules is not asked
	cat sums
	while read -r type unit sum; do
		echo "$type $unit $((sum + $("$PILLION" report --folded --type "$type" "$1" | awk '/^([^;]*;)?\[no stack\] / { n += $NF } END { printf "%.0f", n }')))"
	done < <(go_sums "$1") >by-go
	is "what Go reads" "$(cat by-go)" "$(cat sums)"
	has "the sums" "$(cat sums)" ' [1-9]'
	while read -r type unit sum; do
		is "$type: folded" "$("$PILLION" report --folded --type "$type" "$1" | sum_of)" "$sum"
		is "$type: JSON" "$("$PILLION" report --json --type "$type" "$1" | jq -r --arg t "$type" 'first(.. | objects | select(.type? == $t and .total?) | .total) // "none"')" "$sum"
		is "$type: written anew" "$("$PILLION" export "$1" -o again.pb.gz >/dev/null && "$TOP/tests/tools/pprof.mjs" "$FOREIGN_MODULES" again.pb.gz 2>/dev/null | grep "^$type ")" "$type $unit $sum"
		rm again.pb.gz
		"$PILLION" flame --type "$type" "$1" -o page.html >/dev/null
		"$PILLION" flame --svg --type "$type" "$1" -o page.svg >/dev/null
		is "$type: the page" "$(page_sum "$type")" "$sum"
	done <sums
	has "folded" "$("$PILLION" report --folded "$1")" "$2"
	has "top" "$("$PILLION" top -n all "$1")" "$2"
	has "the picture" "$(cat page.svg)" "${2//</&lt;}"
	is "compared with itself" "$("$PILLION" diff "$1" "$1" --json | jq '[.functions[] | select(.before != .after)] | length')" 0
}
page_sum() { # TYPE - of the data in page.html
	sed -n '/<script type="application\/json"/,/<\/script>/p' page.html | sed 's/.*id="data">//; s/<\/script>.*//' |
		jq -r --arg t "$1" '(.types | map(.[0]) | index($t)) as $k | .values[$k] | add'
}

test_go() { # what runtime/pprof writes of a program built here
	foreign_modules
	mkdir go
	cat >go/main.go <<-'END'
		package main

		import (
			"os"
			"runtime"
			"runtime/pprof"
			"sync"
			"time"
		)

		var kept [][]byte

		func allocate() {
			for i := 0; i < 2000; i++ {
				kept = append(kept, make([]byte, 10000))
			}
		}

		func spin(end time.Time) (n int) {
			for time.Now().Before(end) {
				for i := 0; i < 1000; i++ {
					n += i * n
				}
			}
			return
		}

		func write(name string) {
			f, _ := os.Create(name + ".pb.gz")
			pprof.Lookup(name).WriteTo(f, 0)
			f.Close()
		}

		func main() {
			runtime.SetBlockProfileRate(1)
			runtime.SetMutexProfileFraction(1)
			f, _ := os.Create("cpu.pb.gz")
			pprof.StartCPUProfile(f)
			var m sync.Mutex
			var wg sync.WaitGroup
			for i := 0; i < 3; i++ {
				wg.Add(1)
				go func() {
					m.Lock()
					spin(time.Now().Add(300 * time.Millisecond))
					m.Unlock()
					wg.Done()
				}()
			}
			wg.Wait()
			allocate()
			pprof.StopCPUProfile()
			f.Close()
			for _, name := range []string{"heap", "allocs", "block", "mutex", "goroutine", "threadcreate"} {
				write(name)
			}
		}
	END
	(export GOCACHE=$LAB/gocache HOME=$LAB && cd go && go build -o program main.go && ./program) || fail "go build"
	read_by_all go/cpu.pb.gz 'main\.spin'
	read_by_all go/heap.pb.gz 'main\.allocate'
	read_by_all go/allocs.pb.gz 'main\.allocate'
	read_by_all go/block.pb.gz 'main\.main'
	read_by_all go/mutex.pb.gz 'main\.main'
	read_by_all go/goroutine.pb.gz 'main\.main'
	has "threads" "$("$PILLION" top go/threadcreate.pb.gz)" 'threadcreate'
}
row "Go's own: CPU, heap, allocations, blocking, mutexes, goroutines" test_go

test_foreign() { # KIND REGEX
	foreign_modules
	foreign "$1"
	read_by_all "$1.pb.gz" "$2"
}
row "Node's own, by @datadog/pprof: wall time" test_foreign node-wall 'burn'
row "Node's own, by @datadog/pprof: heap" test_foreign node-heap 'repeat|styled|anonymous'
row "as an interpreter's profiler writes it: no address, no mapping" test_foreign python 'fib'
row "as async-profiler writes it: Java's names, lines" test_foreign java 'com/shop/Order.total'
row "as perf is converted: addresses and mappings alone" test_foreign perf 'shop\+0x456'
row "plain, without gzip, ids in no order, no default type" test_foreign old 'main'

# --- what nobody should have written

COMMANDS=("top" "report --folded" "report --text" "report --json" "flame -o x.html" "flame --svg -o x.svg" "export -o x.pb.gz" "diff ok.pb.gz")

measured() { # COMMAND... - its status in at most 20 s, and MiB of memory at most; what it said in ./said
	python3 -S -c '
import os, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.execvp("timeout", ["timeout", "20"] + sys.argv[1:])
_, status, use = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), use.ru_maxrss // 1024)' "$@"
}
# It is read, or one sentence says what is wrong with which file.
judged() { # FILE WHAT - "read", or a part of the sentence [MIB at most]
	local command status memory
	for command in "${COMMANDS[@]}"; do
		rm -f x.*
		memory=0
		if [[ -n ${3-} ]]; then
			read -r status memory < <(measured "$PILLION" $command "$1")
		else
			status=$(timeout 20 "$PILLION" $command "$1" >/dev/null 2>said && echo 0 || echo $?)
		fi
		sanitized || ((memory <= ${3:-0})) || fail "$command $1: $memory MiB"
		if [[ $2 == read ]]; then
			[[ $status == 0 ]] || fail "$command $1: exit status $status: $(cat said)"
			continue
		fi
		is "$command $1: exit status" "$status" 1
		is "$command $1: lines" "$(wc -l <said)" 1
		has "$command $1" "$(cat said)" "^pillion ${command%% *}: [^ ]*$1: .*$2"
		is "$command $1: files left" "$(ls x.* 2>/dev/null || :)" ""
	done
}
wellformed() { # ok.pb.gz
	node "$FOREIGN" none no-utf8 ok.pb.gz || fail "foreign.mjs"
}

test_hostile() {
	local kind becomes
	need node jq
	wellformed
	while IFS=$'\t' read -r kind becomes; do
		echo "$kind: $becomes"
		node "$FOREIGN" none "$kind" "$kind.pb.gz" || fail "foreign.mjs"
		judged "$kind.pb.gz" "$becomes"
		rm "$kind.pb.gz"
	done < <(node "$FOREIGN" list)
}
row "no types, texts out of range, ids that are 0 or twice, negative values, 20,000 labels, ...: read, or one sentence" test_hostile

test_cut() { # at many places, and one byte changed
	local size at
	cp "$TOP/tests/fuzz/corpus/pprof/go-cpu.pb.gz" whole.pb.gz
	size=$(stat -c %s whole.pb.gz)
	COMMANDS=("top" "flame -o x.html")
	for ((at = 1; at < size; at += size / 40 + 1)); do
		dd if=whole.pb.gz of=cut.pb.gz bs="$at" count=1 status=none
		judged cut.pb.gz "it is cut off|it is not a pprof profile|is damaged"
	done
	for ((at = 20; at < size; at += size / 25 + 1)); do
		cp whole.pb.gz bent.pb.gz
		printf '\x5a' | dd of=bent.pb.gz bs=1 seek="$at" conv=notrunc status=none
		cmp -s whole.pb.gz bent.pb.gz || judged bent.pb.gz "."
	done
	: >empty.pb.gz
	judged empty.pb.gz "it is empty"
}
row "cut off anywhere, a byte changed, empty: one sentence" test_cut

test_large() { # what is asked for and what is not are both bounded: 256 MiB of bytes, 512 of what they become
	need python3
	wellformed
	COMMANDS=("top" "report --json" "flame -o x.html" "diff ok.pb.gz")
	truncate -s 1G large.pb.gz
	judged large.pb.gz "it is larger than 256 MiB" 64
	python3 -c '
import gzip
open("zeros.pb.gz", "wb").write(gzip.compress(bytes(64 << 20), 9) * 16)
open("samples.pb.gz", "wb").write(gzip.compress(b"\x12\x00" * (32 << 20), 9) * 3)
open("texts.pb.gz", "wb").write(gzip.compress(b"\x32\x00" * (32 << 20), 9) * 3)'
	COMMANDS=("top" "flame -o x.html")
	judged zeros.pb.gz "it is larger than 256 MiB when decompressed" 400
	judged samples.pb.gz "it needs more than 512 MiB" 900
	judged texts.pb.gz "it needs more than 512 MiB" 900
	mkfifo pipe.pb.gz
	dd if=/dev/zero bs=1M count=300 status=none >pipe.pb.gz 2>/dev/null &
	COMMANDS=("top")
	judged pipe.pb.gz "it is larger than 256 MiB" 400
}
row "1 GB, decompressed or not, and bytes that become a hundred times as many: one sentence, memory bounded" test_large

# Names are text: in HTML, in SVG, in JSON, on a line of a terminal.
test_shown() {
	local kind
	need node jq python3 chromium
	for kind in markup newlines no-utf8 template negative no-stack largest times late keys; do
		node "$FOREIGN" none "$kind" "$kind.pb.gz"
		"$PILLION" flame "$kind.pb.gz" -o page.html >/dev/null
		"$TOP/tests/tools/browser" page.html 'eval:[document.scripts.length, document.images.length, typeof T.all, shown.flat().every(f => f.x >= 0 && f.x + f.w <= 1281)].join()' \
			key:i key:ArrowDown key:Enter >seen 2>complaints || fail "$kind: $(cat complaints)"
		is "$kind: scripts, images, the sum, frames within" "$(sed -n 1p seen)" '"2,0,number,true"'
		"$PILLION" flame --svg "$kind.pb.gz" -o page.svg >/dev/null
		is "$kind: scripts and images of the picture" "$(python3 -c 'import xml.dom.minidom as m; d = m.parse("page.svg"); print(len(d.getElementsByTagName("script")) + len(d.getElementsByTagName("image")))')" 0
		"$PILLION" report --json "$kind.pb.gz" | jq -e . >/dev/null || fail "$kind: it is no JSON"
		is "$kind: bytes that a terminal obeys" "$({ "$PILLION" top "$kind.pb.gz" && "$PILLION" report --folded "$kind.pb.gz" && "$PILLION" report --text "$kind.pb.gz" && "$PILLION" diff "$kind.pb.gz" "$kind.pb.gz"; } |
			LC_ALL=C tr -d '\n\t\40-\176\200-\377' | wc -c)" 0
	done
	is "of a sample without a stack" "$("$PILLION" report --folded no-stack.pb.gz)" "$(printf '%s\n' '[no stack] 7' 'main 5')"
	# a long name is whole where there is room for it
	is "the longest line of folded stacks" "$("$PILLION" report --folded template.pb.gz | wc -L)" $((65535 + 7))
}
row "markup, newlines, 64 KB, no UTF-8, sums below zero and beyond 63 bits: safe in HTML, SVG, JSON and on a terminal" test_shown
