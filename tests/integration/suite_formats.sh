# suite_formats - profiler/pprof/formats.md, against what is really written: the spool, the index, sample types, labels, frames in brackets, crashes, folded
# stacks. Either says nothing that the other has not.

. "$TOP/tests/integration/wrapped.sh"
lab_install targets/crasher
install "${B%/*}/release/libpillion.so" "$LAB/bin/"
FORMATS=$TOP/profiler/pprof/formats.md

# First column of the table below a heading: what is between backquotes, a line each.
told() { # HEADING
	awk -v heading="$1" '/^#/ { on = $0 ~ "^#+ " heading "$" } on && /^\| `/ { split($0, cell, "|"); print cell[2] }' "$FORMATS" | grep -o '`[^`]*`' | tr -d '`' | sort -u
}
# Keys of labels of Go's list: "key:[text] key:[number]"
keys_of() { # FILE...
	local file
	for file; do go tool pprof -raw "$file" 2>/dev/null; done | awk '/^Samples:/ { on = 1; next } /^Locations/ { on = 0 } on && /^ +[a-z_.]+:\[/' |
		grep -oE '(^| )[a-z_.]+:\[' | tr -d ' :[' | sort -u
}
bracketed_in() { # FILE... of folded stacks
	cut -d' ' -f1- "$@" | tr ';' '\n' | sed -E 's/ [0-9]+$//' | grep -xE '\[[^]]*\]' | sed -E 's/^\[lost: cpu .*/[lost: cpu N not covered]/' | sort -u
}

test_profiles() {
	local file name
	need go jq
	begin_run --window 5s --events cpu@499,offcpu:min=0,page-faults,alloc/4096 --labels user_said=yes --detail cpu,time,cgroup
	"${RUN[@]}" -- perl -e 'my %h; $h{$_ % 50000} .= "x" for 1 .. 900000; select undef, undef, undef, 0.05 for 1 .. 5; system "true"' >program.out 2>&1 || fail "exit status $?: $(cat program.out)"
	until_true 20 no_profiler || fail "a profiler is left"
	# the directory
	mapfile -t files < <(profiles_of perl)
	((${#files[@]} >= 4)) || fail "profiles: ${files[*]}"
	for file in "${files[@]}"; do
		has "its name" "${file##*/}" '^[0-9]{8}T[0-9]{6}Z-[0-9]{6}-[a-z-]+\.pb\.gz$'
		is "its mode" "$(stat -c %a "$file")" 640
	done
	is "the index' keys" "$(jq -r 'keys_unsorted[]' out/index.jsonl | sort -u)" "$(told 'The spool')"
	is "its first" "$(cut -c1-9 out/index.jsonl | sort -u)" '{"file":"'
	is "its files" "$(jq -r .file out/index.jsonl | sort)" "$(printf '%s\n' "${files[@]#out/}" | sort)"
	# labels: all of those that a program without an orchestrator has
	keys_of "${files[@]}" | sed 's/^user\..*/user.KEY/' >there
	is "labels that are not told" "$(comm -23 there <(told Labels))" ""
	is "labels that only containers have" "$(comm -13 there <(told Labels) | xargs)" "cgroup namespace pod"
	# types and periods
	for file in "${files[@]}"; do
		go tool pprof -raw "$file" 2>/dev/null >raw
		echo "$(sed -n '/^Samples:/{n;p;}' raw) $(sed -n 's/^PeriodType: //p' raw)"
	done | sed 's/\[dflt\]//' | sort -u >types
	cat types
	is "types" "$(cat types)" "$(printf '%s\n' \
		'alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes space bytes' 'samples/count cpu/nanoseconds cpu nanoseconds' \
		'samples/count offcpu/nanoseconds offcpu nanoseconds' 'samples/count page-faults/count page-faults count')"
	for name in cpu offcpu alloc; do
		while read -r type; do
			has "the table of $name" "$(grep "^| \`$name\`" "$FORMATS")" "\`$type\`|\`$name$type\`"
		done < <(grep -E "(^| )$name[_/]" types | grep -oE '[a-z_]+/(count|bytes|nanoseconds)')
	done
	# places in files: a function that perl has, where nm has it
	is "addresses beyond their mapping" "$(awk '/^Locations/ { on = 1; next } /^Mappings/ { on = 0; m = 1; next }
		on && /M=/ { split($2, a, "x"); at[++n] = $2; of[n] = $3; sub(/M=/, "", of[n]) } m { split($2, r, "/"); low[$1 + 0] = r[1]; high[$1 + 0] = r[2] }
		END { for (i = 1; i <= n; i++) if (low[of[i]] != "0x0" && (length(at[i]) != length(low[of[i]]) || at[i] < low[of[i]] || at[i] >= high[of[i]])) print at[i], low[of[i]] }' raw)" ""
	# frames
	for file in "${files[@]}"; do "$LAB/bin/pillion" report --folded "$file"; done >folded
	is "frames in brackets that are not told" "$(comm -23 <(bracketed_in folded) <(told 'Frames in brackets'))" ""
	is "lines of another form" "$(grep -cvE '^[^;]+(;[^;]+)* [0-9]+$' folded || :)" 0
	end_run
}
row "spool, index, sample types, labels, places, folded stacks: as formats.md has them" test_profiles

test_names() { # of targets, in place of their directories
	local of command
	need jq
	for of in web prod/shop-0/main prod/shop-1/main prod/shop-1/db; do
		mkdir -p "spool/$of"
		echo "p;main;work_${of//[^a-z0-9]/_} 7" | "$B/tools/unfold" "spool/$of/20260101T000000Z-000000-cpu.pb.gz" samples count
	done
	export PILLION_SPOOL=$ROW/spool
	for of in web=web db=prod/shop-1/db shop-0/main=prod/shop-0/main prod/shop-1/main=prod/shop-1/main; do
		for command in 'top --once' 'report --text' 'report --folded' 'export -o -' 'flame -o -' 'diff --all web'; do
			"$LAB/bin/pillion" $command "${of%%=*}" >said 2>err || fail "$command ${of%%=*}: $(cat err)"
			[[ $command != export* ]] || gunzip <said >said.out
			[[ $command != export* ]] || mv said.out said
			grep -qa "work_$(sed 's/[^a-z0-9]/_/g' <<<"${of#*=}")" said || fail "$command ${of%%=*} shows another: $(cat said)"
		done
	done
	is "the status of a name of two" "$(status_of "$LAB/bin/pillion" report --folded main 2>err)" 2
	is "what it says" "$(cat err)" "pillion report: 2 targets are called 'main': give one of prod/shop-0/main, prod/shop-1/main"
	is "the status of what is none" "$(status_of "$LAB/bin/pillion" report --folded nobody 2>err)" 1
	is "what it says" "$(cat err)" "pillion report: cannot open nobody: No such file or directory"
	has "a namespace's directory" "$("$LAB/bin/pillion" report --folded spool/prod | xargs)" '^p;main;work_prod_shop_0_main 7 p;main;work_prod_shop_1_db 7 p;main;work_prod_shop_1_main 7$'
	is "the spool" "$("$LAB/bin/pillion" report --folded spool | wc -l)" 4
}
row "names of targets in place of directories; what several have is listed" test_names

# A frame that the page tells of is one that the sources make, and those that they make are told.
test_frames() {
	# texts of code, without comments, notes and what is a part of a message
	find "$TOP"/profiler/{unwind,sample,inproc,target,pprof,view} -name '*.c' -exec cat {} + | grep -oE '"\[[a-z][^"%\\]*\]"' | tr -d '"' | sort -u >made
	echo '[lost: cpu N not covered]' >>made
	echo '[vdso]' >>made # the module's own name
	sed -i '/^\[lost: cpu  not covered\]$/d' made
	sort -u -o made made
	is "frames that are not told" "$(comm -23 made <(told 'Frames in brackets'))" ""
	is "frames that nobody makes" "$(comm -13 made <(told 'Frames in brackets'))" ""
}
row "frames in brackets: those that the sources make" test_frames

test_crash() {
	need jq
	begin_run --events crash
	ulimit -S -c 0
	"${RUN[@]}" -- "$LAB/bin/crasher" null >/dev/null 2>&1 || :
	until_true 20 eval '[[ -n $(find out -path "*/crashes/*.json") ]]' || fail "no report: $(cat run/log)"
	until_true 20 no_profiler || fail "a profiler is left"
	local file
	file=$(find out -path '*/crashes/*.json')
	has "its name" "${file##*/}" '^[0-9]{8}T[0-9]{6}\.[0-9]{9}Z-.*-[0-9]+\.json$'
	is "its mode" "$(stat -c %a "$file")" 640
	is "keys that are not told" "$(jq -r 'keys[]' "$file" | sort | comm -23 - <(told Crashes))" ""
	is "keys that are not there" "$(jq -r 'keys[]' "$file" | sort | comm -13 - <(told Crashes) | xargs)" "$(told Crashes | grep -xE 'calls|truncated|pod|namespace|name' | comm -23 - <(jq -r 'keys[]' "$file" | sort) | xargs)"
	for key in process thread signal frames mappings; do
		is "keys of $key that are not told" "$(jq -r ".$key | if type == \"array\" then .[] else . end | keys[]" "$file" | sort -u |
			grep -vxFf <(grep -E "^\\| \`.*\`?$key\`" "$FORMATS" | grep -o '`[^`]*`' | tr -d '`') || :)" ""
	done
	is "an address" "$(jq -r '.registers.rip | type' "$file")" string
	end_run
}
row "a crash's report: the keys that formats.md has" test_crash
