# suite_docs - the pages (*.md) against what they speak of: links, commands, options, settings, annotations, paths, messages; and what
# they show of doctor, ps and events is what is printed. reading.md: suite_terminal. formats.md: suite_formats. monitoring.md: suite_monitoring.

. "$TOP/tests/integration/wrapped.sh"
. "$TOP/tests/integration/host.sh"
lab_install pillion pilliond pillion-hook pillion-opener pillion-nri targets/burn targets/sleeper targets/traced targets/crasher
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # as it is installed

pages() { # WHAT [ARGUMENT...]
	need python3
	"$TOP/tests/tools/pages" "$1" "$TOP" "$LAB/bin/pillion" "${@:2}" >wrong || fail "$(cat wrong)"
}

# --- what is printed: a page's block, and the same from a real run, without what varies

shown() { # PAGE "COMMAND LINE" - what stands behind it in a block, up to the next prompt or the block's end; one that ends with / is a beginning
	awk -v prompt="\$ $2" '/^```/ { on = 0 } on && /^\$ / { on = 0 } on { print } $0 == prompt || prompt ~ "/$" && index($0, prompt) == 1 { on = 1 }' "$TOP/$1" >"$ROW/shown"
	[[ -s $ROW/shown ]] || fail "$1 does not show: $2" >&2
	cat "$ROW/shown"
}
# Ids, times, addresses, numbers with their units, and how wide a column is for them.
shape() {
	sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g; s/[0-9]{8}T[0-9]{6}(\.[0-9]+)?Z(-[0-9]{6})?/TIME/g; s/0x[0-9a-f]+/ADDRESS/g; s/[0-9a-f]{12,64}/ID/g; s/[0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d|[kMG]?B|%)?\b/N/g; s/N\+N\?/N/g; s/ +/ /g; s/ $//'
}
same() { # WHAT SHOWN PRINTED: files
	diff <(shape <"$2") <(shape <"$3") >differs || fail "$1 is not as it is shown (<): $(cat differs)"$'\n'"printed: $(cat "$3")"
}

# A host of the row's: pillion installed on it, a service, three containers.
begin_printed() {
	! sanitized || skip "it is the release that is installed"
	need jq podman runc
	begin_host /etc /usr /var
	host mount -t tmpfs tmpfs /run
	mkdir -p "$LAB/runc-state"
	host mkdir -p /run/runc /run/pillion
	host mount --bind "$LAB/runc-state" /run/runc
	host "$LAB/bin/pillion" install --from "$B" >installed || fail "exit status $?: $(cat installed)"
	nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- env INVOCATION_ID=x /usr/libexec/pillion/pilliond --log "$ROW/service.log" --log-level info >service.out 2>&1 &
	SERVICE=$!
	until_true 10 grep -qs state=ready service.log || fail "no service: $(cat service.log service.out)"
	HOOK_ARGS=(/usr/libexec/oci/hooks.d/pillion-hook --budget 5s)
	ct_start runc web -a io.pillion.profile=cpu -- "$LAB/bin/burn" 60
	ct_start runc 5b2f7c0a9d1e5b2f7c0a9d1e5b2f7c0a -a io.pillion.profile=cpu@199,page-faults/50 -a io.kubernetes.cri.container-name=checkout \
		-a io.kubernetes.cri.sandbox-name=shop-0 -a io.kubernetes.cri.sandbox-namespace=prod -a io.pillion.window=5s -- "$LAB/bin/burn" 60
	ct_start runc batch -- "$LAB/bin/sleeper" 60
}
end_printed() {
	ct_rm web
	ct_rm 5b2f7c0a9d1e5b2f7c0a9d1e5b2f7c0a
	ct_rm batch
	kill -TERM "$SERVICE"
	wait "$SERVICE" || fail "the service's exit status is $?: $(cat service.out)"
}
pillion_there() { host /usr/bin/pillion "$@" || :; }
# a window is written, and the next one has samples
ps_is_full() {
	pillion_there ps >printed.ps
	grep -qE 'checkout.* [0-9.]+ +- +[0-9.]+[kM]B .*-cpu.pb.gz$' printed.ps && grep -qE '^web .* [0-9.]+ +- +[0-9.]+[kM]B ' printed.ps
}


# Of the machine itself doctor says what this one is like, which is not what the page's was: of those links the page has a sentence that it can say.
of_machine() { grep -E '^(ok|warning|broken) +(kernel|perf_event_paranoid|capabilities|security module|cgroups|locked memory|engines|runtime handlers) ' "$1" || :; }
not_of_machine() { # a way out goes with its link
	awk '/^[a-z]/ { there = /^[a-z]+ +(kernel|perf_event_paranoid|capabilities|security module|cgroups|locked memory|engines|runtime handlers) / } !there' "$1"
}
head_of() { sed -E '/^note/!b head; /^note +(pillion|samples:|stack snapshots:)/!d; s/kernel [^ ]*,/kernel RELEASE,/; s/(stack snapshots:).*/\1/; :head; s/^(target|start|duration) .*/\1/; /flat%/q' "$1"; }
links() { cut -c10-29 "$1" | grep '[^ ]' | sed 's/ *$//'; } # without the ways out, which depend on the engines that run here

test_printed() {
	local file
	begin_printed
	until_true 30 ps_is_full || fail "ps: $(cat printed.ps)"
	pillion_there doctor >printed.doctor
	pillion_there doctor web | tail -n 1 >printed.web
	pillion_there doctor batch | tail -n 2 >printed.batch
	file=$(pillion_there ps --json | jq -r '.[] | select(.name == "checkout").profile | gsub("-page-faults"; "-cpu")')
	pillion_there top "$file" >printed.top
	[[ -z ${KEEP_PRINTED-} ]] || cp printed.* "$KEEP_PRINTED"
	end_printed

	# README's: the lines about the profile, and the table's head; of functions there are others each time
	shown README.md 'pillion top -n 5 build/demo/words/' >shown.top
	head_of shown.top >shown.head
	head_of printed.top >printed.head
	same top shown.head printed.head
	shown profiler/daemon/service.md 'sudo pillion ps' >shown.ps
	same ps shown.ps printed.ps
	shown hooks/install.md 'sudo pillion doctor web | tail -n 1' >shown.web
	same "doctor of a container" shown.web printed.web
	shown hooks/install.md 'sudo pillion doctor batch | tail -n 2' >shown.batch
	same "doctor of a container that is not profiled" shown.batch printed.batch
	shown hooks/install.md 'sudo pillion doctor' >shown.doctor
	is "links of doctor" "$(links printed.doctor)" "$(links shown.doctor)"
	for file in shown.doctor printed.doctor; do
		is "lines of $file in other columns" "$(grep -vE '^(ok      |warning |broken  ) [a-z_. ]{20} [^ ]|^ {32}[^ ]' $file || :)" ""
	done
	not_of_machine shown.doctor >shown.pillion
	not_of_machine printed.doctor >printed.pillion
	same doctor shown.pillion printed.pillion
	{
		echo '| said | |'
		of_machine shown.doctor | grep -vE ' (kernel|perf_event_paranoid|security module|engines) ' | cut -c31- | sed 's/.*/| `&` | |/'
		grep '^ ' shown.doctor | sed 's/^ *\(.*\)/| `\1` | |/'
	} >said.md
	pages sayings "$PWD/said.md"
}
row "ps and doctor: service.md and install.md show what is printed" test_printed

# --- the command lines of README.md and hooks/kubernetes.md: commands.tsv

commands_of() { # PAGE... - without prompts and comments
	(cd "$TOP" && awk '/^```/ { on = !on; next } on' "$@") | sed -E 's/^\$ //; s/[[:space:]]+#.*//' |
		grep -E '^(sudo|make|podman|pillion|go|ssh|kubectl|export|build/[^ ]*) '
}
# As a reader of the page runs it. A server counts as run when it serves.
run_command() { # DIRECTORY COMMAND - its output is in ./ran
	local status=0
	case $2 in
	go\ tool\ pprof\ -http=*) # it serves until it is ended
		(cd "$1" && HOME=$ROW exec setsid timeout 60 sh -c "$2") >ran 2>&1 &
		until_true 30 grep -q 'Serving web UI' ran || fail "$2: $(cat ran)"
		kill -TERM -- -$! # go and the pprof that it has started, too
		wait $! || :
		;;
	*)
		(cd "$1" && PATH=/usr/bin:/bin:/usr/sbin:/sbin sh -c "${2#sudo }") >ran 2>&1 </dev/null || status=$?
		# doctor's is 3 where something is left to do, as on this machine
		[[ $status == 0 || $2 == *doctor && $status == 3 ]] || fail "$2: exit status $status: $(cat ran)"
		;;
	esac
}
has_latency() { host sh -c 'cd /var/lib/pillion/profiles/web && ls *-cpu.pb.gz *-offcpu.pb.gz' >/dev/null 2>&1; }

test_commands() {
	local command how more suite
	commands_of README.md hooks/kubernetes.md | sort -u >shown
	grep -v '^#' "$TOP/tests/integration/commands.tsv" | cut -f1 | sort -u >known
	diff shown known >differs || fail "commands of the pages that the table has not (<), or has too many (>): $(cat differs)"
	while IFS=$'\t' read -r command how more; do
		case $how in
		row)
			suite=$TOP/tests/integration/suite_${more%%: *}.sh
			grep -qF "row \"${more#*: }\"" "$suite" || fail "there is no row ${more}"
			;;
		no) [[ -n $more ]] || fail "there is no reason why $command is not run" ;;
		here | host) ;;
		*) fail "$command: $how" ;;
		esac
	done < <(grep -v '^#' "$TOP/tests/integration/commands.tsv")
}
row "README.md and kubernetes.md: each command line is run, or has a reason why not" test_commands

test_commands_here() {
	! sanitized || skip "the demo is the release's"
	need_root
	need podman make
	local command how more had
	had=$([[ -e $TOP/flame.html ]] && echo yes || :)
	while IFS=$'\t' read -r command how more; do
		[[ $how == here ]] || continue
		run_command "$TOP" "$command"
		[[ $command != 'make demo' ]] || has "what the demo prints" "$(cat ran)" 'Each of these commands can be repeated'
	done < <(grep -v '^#' "$TOP/tests/integration/commands.tsv")
	[[ -s $TOP/flame.html ]] || fail "no flame.html"
	[[ -n $had ]] || rm "$TOP/flame.html"
}
row "README.md: its commands that need no installation, in the sources" test_commands_here

test_commands_on_host() {
	local command how more
	begin_printed
	need go curl
	ct_rm web
	ct_start runc web -a io.pillion.profile=latency -a io.pillion.window=5s -- "$LAB/bin/burn" 60
	mkdir work
	cp "$LAB/bin/burn" work/burn
	printf '#!/bin/sh\nexec ./burn 0.2\n' >work/job
	chmod 755 work/job
	until_true 60 has_latency || fail "no profile of web: $(cat service.log)"
	declare -f run_command until_true fail >functions
	while IFS=$'\t' read -r command how more; do
		[[ $how == host ]] || continue
		host env ROW="$ROW" bash -c "cd $ROW && . ./functions && run_command $ROW/work \"\$1\"" bash "$command" >said 2>&1 ||
			fail "$(cat said)"
	done < <(grep -v '^#' "$TOP/tests/integration/commands.tsv")
	[[ -s work/flame.html ]] || fail "no flame.html"
	until_true 20 has_job_profile || fail "no profile of ./job: $(host find /var/lib/pillion/profiles)"
	end_printed
}
has_job_profile() { [[ -n $(host find /var/lib/pillion/profiles -name '*.pb.gz' -not -path '*/web/*' -not -path '*/checkout/*') ]]; }
row "README.md: its other commands, where pillion is installed" test_commands_on_host

# Of a target with three functions, before and after one of them became slower.
nothing_is_left() { # what has no privilege leaves its cgroup to the next one
	find /sys/fs/cgroup -depth -type d \( -path '*/pillion/session-run-*' -o -path '*/pillion/files-*' \) -exec rmdir {} + 2>/dev/null || :
	no_profiler && leak_none
}
test_diff() {
	local release file
	lab_install targets/release
	begin_run --events cpu@999
	for release in old new; do
		"${RUN[@]}" --output "$ROW/$release" -- "$LAB/bin/release" $release >said || fail "exit status $?: $(cat said)"
	done
	until_true 30 nothing_is_left || fail "left behind: $(leak_tell)"
	mv old monday
	mv new tuesday
	shown profiler/view/reading.md 'pillion diff monday tuesday' >shown.diff
	"$LAB/bin/pillion" diff monday tuesday >printed.diff
	# what the machine did besides may have moved, too
	sed -i -E '/%.*  /{ /find_user|write_reply|parse_request/!d; }' printed.diff
	for file in shown printed; do sed -E 's/[-+][0-9.]+/MOVED/' $file.diff >$file.moved; done
	same diff shown.moved printed.moved
	is "which way they moved" "$(grep -oE ' [-+][0-9]' printed.diff | tr -d ' 0-9\n')" "$(grep -oE ' [-+][0-9]' shown.diff | tr -d ' 0-9\n')"
}
row "diff: reading.md shows what is printed of a program that became slower" test_diff

test_events() { # but for what works here
	shown shim/event/events.md 'pillion events' >shown.events
	"$LAB/bin/pillion" events >printed.events
	without_here() { sed -E '/^\([0-9]\)/d; s/^(.{34}).{20}/\1/; s/ +$//' "$1" | cat -s; }
	diff <(without_here shown.events) <(without_here printed.events) >differs || fail "events.md shows another list: $(cat differs)"
}
row "events: events.md shows what is printed" test_events

test_tree() {
	shown shim/libpillion/libpillion.md 'pillion tree fib.tree' >shown.tree
	is "the program" "$(PILLION_TREE=fib.tree,time LD_PRELOAD="$LAB/bin/libpillion.so" "$LAB/bin/traced" fib 25)" 75025
	"$LAB/bin/pillion" tree fib.tree >printed.tree
	same tree shown.tree printed.tree
	is "calls" "$(awk '{ print $1 }' printed.tree | xargs)" "$(awk '{ print $1 }' shown.tree | xargs)"
}
row "tree: libpillion.md shows what is printed" test_tree

test_crash() {
	local file
	begin_run --events cpu,crash
	ulimit -S -c 0
	"${RUN[@]}" -- "$LAB/bin/crasher" null >/dev/null 2>&1 || :
	until_true 20 eval '[[ -n $(find out -path "*/crashes/*.json") ]]' || fail "no report: $(cat run/log)"
	until_true 20 nothing_is_left || fail "left behind: $(leak_tell)"
	mv out pillion-24711
	file=$(find pillion-24711 -path '*/crashes/*.json')
	shown shim/libpillion/libpillion.md "pillion crashes pillion-24711" >shown.crashes
	"$LAB/bin/pillion" crashes pillion-24711 >printed.crashes
	same crashes shown.crashes printed.crashes
	# as far as the C library, whose own debug information is not everywhere
	shown shim/libpillion/libpillion.md "pillion crashes pillion-24711/crashes/" | sed '/^ *3 /,$d' >shown.crash
	"$LAB/bin/pillion" crashes "$file" | sed "s|$TOP/||; /^ *3 /,\$d" >printed.crash
	same "a crash" shown.crash printed.crash
}
row "crashes: libpillion.md shows what is printed" test_crash

# --- what pages speak of

row "every link of every page leads somewhere, every anchor to a heading" pages links
row "every command line of pillion that a page has is one that it takes" pages commands
row "every make target that a page names is there" pages targets
row "every path of ours that a page names is the sources' own" pages paths
row "every suite that a page names is there, those in the cells of Where it works too" pages suites
row "troubleshooting.md: each message is one that is printed" pages sayings profiler/troubleshooting.md
row "page.md: each message is one that is printed" pages sayings profiler/web/page.md "When it does not work"

# First column of the tables below a heading, up to the next one: what is between backquotes, a line each.
told() { # PAGE HEADING
	awk -v heading="$2" '/^#/ { on = $0 ~ "^#+ " heading "$" } on && /^\| `/ { split($0, cell, "|"); print cell[2] }' "$TOP/$1" | grep -o '`[^`]*`' | tr -d '`' | sort -u
}
options_of() { sed -n "$1" | grep -oE '^  -{0,2}[a-z][a-z_-]*' | tr -d ' ' | sed 's/^--//' | tr - _ | sort -u; } # SED - of pilliond's help

test_settings() {
	"$LAB/bin/pilliond" --help >help || fail "pilliond --help"
	options_of '1,/policy.conf/p' <help >options
	options_of '/policy.conf/,$p' <help >policy
	(($(wc -l <options) > 25 && $(wc -l <policy) > 8)) || fail "too few: $(cat options policy)"
	# in a file alone; flags and environment alone
	is "settings that service.md has, or the table, alone" "$(comm -3 <(told profiler/daemon/service.md Settings | grep -vx pillion.conf) <({ cat options && echo runtime; } | grep -vxE 'config|strict|quiet|wait' | sort))" ""
	grep -q -- '--config.*--strict.*--quiet.*--wait' "$TOP/profiler/daemon/service.md" || fail "service.md does not tell of --config, --strict, --quiet and --wait"
	is "keys of policy.conf that service.md has, or the table, alone" "$(comm -3 <(told profiler/daemon/service.md Policy | grep -vx policy.conf) policy)" ""
	# a bound's default is the table's
	local key default
	for key in targets fds table_size module_size jit_size spool_size users_max users_spool_size cpu_budget; do
		default=$(grep -E "^  --${key//_/-} " help | sed -n 's/.*(default \(.*\))$/\1/p')
		grep -E "^\|[^|]*\`$key\`|^\|[^|]*\|[^|]*\`$key\`" "$TOP/profiler/daemon/service.md" >line || fail "service.md does not have $key"
		[[ $(cat line) == *"$default"* ]] || fail "service.md does not have the default of $key, $default: $(cat line)"
	done
}
row "service.md: each setting and each key of the policy, and no other" test_settings

test_annotations() {
	local page
	# those that the reader knows: an unknown one is warned about
	grep -oE '"[a-z-]+", TENANT' "$TOP/oci/config/options.c" | cut -d'"' -f2 | sed 's/^events$/profile/; s/^/io.pillion./' | sort >known
	(($(wc -l <known) >= 6)) || fail "too few: $(cat known)"
	is "annotations of events.md" "$(told shim/event/events.md 'What can be asked for')" "$(cat known)"
	is "annotations of README.md" "$(told README.md 'What can be asked for')" "$(cat known)"
	for page in $(cd "$TOP" && git ls-files '*.md' '*.yaml' 2>/dev/null || ls "$TOP"/*.md); do
		{ grep -ohE 'io\.pillion\.[a-z-]+' "$TOP/$page" || :; } | sort -u | comm -23 - known >others
		is "annotations of $page that are none" "$(cat others)" ""
	done
}
row "each annotation is told, and no other" test_annotations
