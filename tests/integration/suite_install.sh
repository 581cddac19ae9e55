# suite_install - `pillion install` and `uninstall`: in prepared trees, and once on the real paths, in a mount namespace of
# its own with overlays over them. An engine's own parser says of each file whether it takes it.

lab_install pillion pilliond pillion-opener pillion-hook
PILLION=$LAB/bin/pillion
HOOKSD=usr/share/containers/oci/hooks.d/50-pillion.json
WRAPPER=/usr/libexec/pillion/pillion-runc

# A host in ./host: programs that cannot be run, so nothing but what is in the tree is seen. ./programs: what --from takes.
tree() { # ENGINE...
	local engine
	mkdir -p host/usr/bin host/etc programs
	for engine; do : >"host/usr/bin/$engine"; done
	chmod 755 host/usr/bin/* 2>/dev/null || :
	# they are copied, not run
	for engine in pilliond pillion-opener pillion pillion-hook pillion-runc libpillion.so; do echo "$engine" >"programs/$engine"; done
}
sums() { # DIR - of every file
	(cd "$1" && find . ! -type d -printf '%P %m %U:%G %l\n' -type f -exec sha256sum {} + | sort)
}
install_() { "$PILLION" install --root "$PWD/host" --from programs "$@"; }
uninstall_() { "$PILLION" uninstall --root "$PWD/host" "$@"; }
is_as_it_was() { # WHEN
	sums host >after
	diff before after >changed || fail "$1, files are not as they were: $(cat changed)"
}

test_round() {
	tree podman crio containerd dockerd
	mkdir -p host/etc/docker host/etc/crio/crio.conf.d host/etc/containerd host/usr/libexec/oci/hooks.d
	printf '{\n  "log-level": "warn",\n  "a": 12345678901234567890, "a": 1,\n  "runtimes": {"other": {"path": "/x"}}\n}\n' >host/etc/docker/daemon.json
	chmod 600 host/etc/docker/daemon.json
	printf '[crio.runtime]\nhooks_dir = [\n  "/etc/containers/oci/hooks.d", # ours\n]\n' >host/etc/crio/crio.conf
	printf 'version = 3\nimports = ["conf.d/*.toml"]\n' >host/etc/containerd/config.toml
	echo older >host/usr/libexec/oci/hooks.d/pillion-hook
	sums host >before
	install_ >said || fail "exit status $?: $(cat said)"
	is "hooks.d" "$(jq -r '.hook.path, (.stages | join(","))' "host/$HOOKSD" | paste -sd' ')" "/usr/libexec/oci/hooks.d/pillion-hook createRuntime,poststop"
	is "Docker's" "$(jq -c .runtimes host/etc/docker/daemon.json)" "{\"other\":{\"path\":\"/x\"},\"pillion\":{\"path\":\"$WRAPPER\"}}"
	grep -q '"a": 12345678901234567890, "a": 1,$' host/etc/docker/daemon.json || fail "daemon.json lost bytes: $(cat host/etc/docker/daemon.json)"
	is "its mode" "$(stat -c %a host/etc/docker/daemon.json)" 600
	grep -qx 'hooks_dir = \["/etc/containers/oci/hooks.d", "/usr/share/containers/oci/hooks.d"\]' host/etc/crio/crio.conf.d/99-pillion.conf ||
		fail "CRI-O's: $(cat host/etc/crio/crio.conf.d/*)"
	grep -q "BinaryName = \"$WRAPPER\"" host/etc/containerd/conf.d/pillion.toml || fail "containerd has no handler"
	grep -q "plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.pillion\]" host/etc/containerd/conf.d/pillion.toml || fail "it is not of version 3"
	is "the hook" "$(cat host/usr/libexec/oci/hooks.d/pillion-hook)" pillion-hook
	has "what it says" "$(cat said)" "systemctl restart containerd.*systemctl reload docker"
	has "what it says of parsers" "$(grep -c '^not checked: ' said)" '^3$'
	sums host >installed
	install_ >said || fail "again: exit status $?: $(cat said)"
	has "again" "$(tail -n 1 said)" "nothing to do"
	sums host | diff installed - || fail "a second install changes something"
	uninstall_ >said || fail "uninstall: exit status $?: $(cat said)"
	is_as_it_was "after uninstall"
	[[ ! -e host/var && ! -e host/etc/cdi && ! -e host/usr/share ]] || fail "directories are left: $(find host -type d)"
}
row "install: each engine gets what it needs, and uninstall leaves the files as they were" test_round

test_dry() {
	tree podman dockerd
	sums host >before
	install_ --dry-run >said || fail "exit status $?: $(cat said)"
	is_as_it_was "after a dry run"
	has "what it says" "$(cat said)" "would write $WRAPPER"
	install_ >/dev/null
	sums host >before
	uninstall_ --dry-run >said || fail "exit status $?: $(cat said)"
	has "what it says" "$(cat said)" "would take back /etc/docker/daemon.json"
	is_as_it_was "after a dry run of uninstall"
}
row "install: --dry-run writes nothing" test_dry

# strace kills at the Nth of one of the calls that change something. COUNT: how many such moments there were.
CHANGES=(renameat unlinkat mkdirat fsync write)
killed_at() { # N CALL COMMAND... - 0: it was
	local status=0
	{
		strace -f -qq -o trace -e "trace=$2" -e "inject=$2:signal=SIGKILL:when=$1" "${@:3}" >said 2>&1 || status=$?
	} 2>/dev/null
	((status == 137))
}
each_step() { # BEFORE COMMAND BEHIND: functions; BEHIND gets "CALL N"
	local call n
	COUNT=0
	for call in "${CHANGES[@]}"; do
		for ((n = 1; ; n++)); do
			"$1"
			killed_at $n "$call" "${@:4}" || break
			COUNT=$((COUNT + 1))
			"$2" "$3 killed at $call $n"
		done
	done
}
sane() { # nothing that an engine reads is half a file
	local files
	mapfile -t files < <(find host/usr/share/containers/oci/hooks.d host/etc/cdi host/etc/docker -type f ! -name '.*' 2>/dev/null || :)
	((${#files[@]} == 0)) || jq -e -s "all and length == ${#files[@]}" "${files[@]}" >/dev/null || fail "$1: one of them is no JSON: ${files[*]}"
	find host -path '*.d/*' -name '*pillion-new*' | grep . && fail "$1: a temporary file where engines read"
	[[ ! -e host/$HOOKSD || -s host/usr/libexec/oci/hooks.d/pillion-hook ]] || fail "$1: registered, and there is no hook"
}

test_killed() {
	need strace
	mkdir memory && mount -t tmpfs tmpfs memory && cd memory
	tree podman dockerd
	mkdir -p host/etc/docker host/usr/libexec/oci/hooks.d
	echo '{"debug": false}' >host/etc/docker/daemon.json
	# one is there already, an older one
	rm programs/libpillion.so
	echo older >host/usr/libexec/oci/hooks.d/pillion-hook
	cp -a host fresh
	sums host >before
	each_step put_fresh goes_on install "$PILLION" install --root "$PWD/host" --from programs
	echo "install: $COUNT steps"
	((COUNT > 100)) || fail "install has but $COUNT steps"
	put_fresh
	install_ >/dev/null
	cp -a host installed
	each_step put_installed goes_back uninstall "$PILLION" uninstall --root "$PWD/host"
	echo "uninstall: $COUNT steps"
	((COUNT > 60)) || fail "uninstall has but $COUNT steps"
}
put_fresh() { rm -rf host && cp -a fresh host; }
put_installed() { rm -rf host && cp -a installed host; }
goes_on() { # WHEN - install again every other time
	sane "$1"
	if ((COUNT % 2)); then
		install_ >said || fail "$1, then install: $(cat said)"
		[[ -e host/$HOOKSD ]] || fail "$1, then install: nothing is registered"
	fi
	goes_back "$1"
}
goes_back() {
	sane "$1"
	uninstall_ >said || fail "$1, then uninstall: $(cat said)"
	is_as_it_was "$1"
	[[ ! -e host/var/lib/pillion/install.json ]] || fail "$1: the list stays"
}
row "install and uninstall, killed at each step: the next one goes on, and all is as it was" test_killed

# What is in daemon.json before, what the administrator makes of it (sed, of the whole), and what stays of it.
EDITS=(
	'{"debug": false}|s/"debug": false/"debug": true, "mtu": 1400/|{"debug": true, "mtu": 1400}'
	'{}|s/}\n$/, "debug": true}\n/|{ "debug": true}' # behind ours, which is alone
	'{"runtimes": {}}|s/}}\n$/, "nvidia": {"path": "\/n"}}}\n/|{"runtimes": { "nvidia": {"path": "/n"}}}'
	'|s/\n}\n$/, "debug": true}\n/|{ "debug": true}' # the file is ours
	'{"mtu": 1}|s/[[:space:]]//g;s/}$/,"debug":true}\n/|{"mtu":1,"debug":true}' # written anew by a program
	'{"mtu": 1}|s/pillion-runc/other/|' # the runtime is his now
)
test_edited_docker() {
	local one before edit after now=host/etc/docker/daemon.json
	for one in "${EDITS[@]}"; do
		IFS='|' read -r before edit after <<<"$one"
		rm -rf host programs
		tree dockerd
		mkdir -p host/etc/docker
		[[ -z $before ]] || echo "$before" >$now
		install_ >/dev/null
		cp $now installed
		sed -i -z "$edit" $now
		jq -e . $now >/dev/null && ! cmp -s $now installed || fail "the edit $edit is none: $(cat $now)"
		cp $now edited
		if [[ -z $after ]]; then
			uninstall_ >said || fail "exit status $?: $(cat said)"
			cmp edited $now || fail "his runtime: $(cat $now)"
			has "what it says" "$(cat said)" "left as it is: /etc/docker/daemon.json, which was edited"
			continue
		fi
		uninstall_ >said || fail "exit status $?: $(cat said)"
		is "$before, $edit" "$(cat $now)" "$after"
		has "what it says" "$(cat said)" "took ours out of /etc/docker/daemon.json, which was edited"
	done
}
row "uninstall: our runtime goes from daemon.json, whatever an administrator has put around it" test_edited_docker

test_edited() {
	tree podman dockerd
	install_ >/dev/null
	echo '{"edited": 1}' >host/etc/cdi/pillion.json
	sed -i 's/"timeout": [0-9]*/"timeout": 7/' host/$HOOKSD
	cp host/$HOOKSD edited
	install_ >said || fail "again: exit status $?: $(cat said)"
	has "what it says of a second install" "$(cat said)" "left as it is: /$HOOKSD, which was edited since it was installed"
	cmp edited host/$HOOKSD || fail "a second install writes over it"
	is "exit status" "$(status_of uninstall_ 2>said)" 1
	has "what it says" "$(cat said)" "/usr/libexec/oci/hooks.d/pillion-hook stays: /$HOOKSD names it"
	cmp edited host/$HOOKSD && [[ -e host/usr/libexec/oci/hooks.d/pillion-hook && -e host/usr/libexec/pillion/pilliond ]] ||
		fail "the hook that it names is gone"
	rm host/$HOOKSD
	uninstall_ >done || fail "without it: exit status $?: $(cat done)"
	is "CDI" "$(cat host/etc/cdi/pillion.json)" '{"edited": 1}'
	[[ ! -e host/var/lib/pillion && ! -e host/usr/libexec/pillion ]] || fail "something stays: $(find host)"
}
row "install: what an administrator edited since stays his" test_edited

# The second one has looked before the first one is done.
child_at_flock() { # PID - by the call's number, on x86-64 or arm64
	grep -qsE '^(73|32) ' "/proc/$(pgrep -P "$1")/syscall"
}
test_two() {
	local other
	need strace
	tree podman dockerd
	strace -qq -o /dev/null -e trace=flock -e inject=flock:delay_enter=3000000 "$PILLION" install --root "$PWD/host" --from programs >other &
	other=$!
	until_true 10 child_at_flock $other || fail "the other one does not come to its lock"
	install_ >said || fail "exit status $?: $(cat said)"
	wait $other || fail "the other one: exit status $?: $(cat other)"
	has "the other one" "$(cat other)" "nothing to do"
	uninstall_ >said || fail "uninstall: exit status $?: $(cat said)"
	has "what it took back" "$(cat said)" "removed /$HOOKSD"
	[[ ! -e host/$HOOKSD && ! -e host/var/lib/pillion ]] || fail "something stays: $(find host)"
}
row "install: two at a time: the second one goes on from what the first one did" test_two

test_tree_of_programs() {
	tree podman
	make -s -C "$TOP" install DESTDIR="$PWD/image" >/dev/null
	sums host >before
	"$PILLION" install --root "$PWD/host" --from image >said || fail "exit status $?: $(cat said)"
	cmp "image$WRAPPER" "host$WRAPPER" && cmp image/usr/bin/pillion host/usr/bin/pillion
	cmp image/usr/lib/libpillion.so.0 host/usr/libexec/pillion/libpillion.so
	uninstall_ >/dev/null
	is_as_it_was "after uninstall"
}
row "install: programs from a tree that they were installed into, as an image has it" test_tree_of_programs

test_in_use() {
	tree podman
	sums host >before
	install_ >/dev/null
	# as containerd's shim keeps it of a container that it has begun (WriteRuntime)
	mkdir -p host/run/containerd/io.containerd.runtime.v2.task/k8s.io/abc
	printf '%s' "$WRAPPER" >host/run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/runtime
	is "exit status" "$(status_of uninstall_ 2>said)" 1
	has "what it says" "$(cat said)" "$WRAPPER stays: there are containers that were started by it"
	[[ -e host$WRAPPER && ! -e host/$HOOKSD ]] || fail "it is not the wrapper alone that stays"
	rm -r host/run
	uninstall_ >said || fail "without them: exit status $?: $(cat said)"
	is_as_it_was "without them"
}
row "uninstall: the wrapper stays while a container needs it to end" test_in_use

test_refused() { # FILE TEXT SENTENCE
	tree podman containerd dockerd
	mkdir -p "host/etc/docker" host/etc/containerd
	printf '%s' "$2" >"host/$1"
	cp "host/$1" was
	is "exit status" "$(status_of install_ 2>said)" "$4"
	cmp was "host/$1" || fail "it was changed"
	has "what it says" "$(cat said)" "$3"
	[[ -e host/$HOOKSD ]] || fail "podman has to do without, too"
	uninstall_ >/dev/null
	cmp was "host/$1" || fail "uninstall changes it"
}
row "install: a daemon.json that is no JSON is left alone, and said" test_refused etc/docker/daemon.json '{"debug": tru' 'daemon.json is left as it is, for it is not valid: ' 1
row "install: a daemon.json whose runtimes are none is left alone, and said" test_refused etc/docker/daemon.json '{"runtimes": []}' '.runtimes. is no object' 1
row "install: containerd's version 1 is left alone, and said" test_refused etc/containerd/config.toml $'[grpc]\n' 'is of version 1 of its format' 0
row "install: where containerd imports nothing it says which line is wanted" test_refused etc/containerd/config.toml $'version = 3\n' 'add the line imports = ' 0

test_link() {
	tree dockerd
	mkdir -p host/etc/docker host/elsewhere
	echo '{}' >host/elsewhere/daemon.json
	ln -s ../../elsewhere/daemon.json host/etc/docker/daemon.json
	sums host >before
	is "exit status" "$(status_of install_ 2>said)" 1
	has "what it says" "$(cat said)" "is a symbolic link"
	is_as_it_was "after a refusal"
}
row "install: nothing is written through a link, and a first try leaves nothing" test_link

test_full() { # bytes or inodes, of a file system that is the tree
	local option
	for option in size=64k nr_inodes=40; do
		mkdir -p full && mount -t tmpfs -o "$option" tmpfs full
		rm -rf host && ln -sfn full host
		tree podman dockerd
		# so that it is the tenth file that does not fit, whatever the sizes
		case $option in
		size*) head -c 30000 /dev/zero >programs/pillion-hook ;;
		*) for ((i = 0; i < 60; i++)); do : >host/etc/f$i || break; done 2>/dev/null
			rm -f host/etc/f0 host/etc/f1 host/etc/f2 host/etc/f3 host/etc/f4 ;;
		esac
		sums host/ >before
		is "exit status, $option" "$(status_of "$PILLION" install --root "$PWD/full" --from programs 2>said)" 1
		has "what it says" "$(cat said)" "no space or no inodes are left there"
		sums host/ >after
		diff before after || fail "$option: files are not as they were"
		umount full
	done
}
row "install: no space, no inodes: one sentence, and nothing is half written" test_full

# --- the real paths, in a mount namespace of the row's with overlays over them

. "$TOP/tests/integration/host.sh"

# What is in the overlays, but for what a profiler writes: nothing that was not there before.
host_is_as_it_was() {
	local file
	(cd over && find . -path '*/upper/*' -type f ! -path './var/upper/lib/pillion/profiles/*' ! -path './var/upper/log/*' \
		! -path './var/upper/lib/containers/*' ! -path '*/cni/*' ! -path './var/upper/cache/*') |
		while read -r file; do cmp -s "over/$file" "${file/upper\/}" || echo "$file"; done | sed 's|^\./|/|' >left
	find over -path '*/upper/*' -type c >>left
	[[ ! -s left ]] || fail "left in the host's files: $(cat left)"
}
host_profiles() { find over/var/upper/lib/pillion/profiles -name '*.pb.gz' 2>/dev/null; }
has_profile() { [[ -n $(host_profiles) ]]; }
link() { # NAME JQ-FILTER - of doctor's
	jq -r ".[] | select(.link == \"$1\") | $2" doctor.json
}
doctor() { # [CONTAINER] - there may be warnings: containerd has no handler, pillion-runc is not among the programs
	local status=0
	host "$PILLION" doctor --json "$@" >doctor.json 2>doctor.err || status=$?
	[[ $status == [03] ]] || fail "exit status $status of doctor: $(jq -c '.[] | select(.state != "ok")' doctor.json) $(cat doctor.err)"
}

test_real() {
	need podman jq
	lab_install targets/burn targets/sleeper
	begin_host /etc /usr /var
	host "$PILLION" install --from "$LAB/bin" >said || fail "exit status $?: $(cat said)"
	has "what it says" "$(cat said)" "wrote /usr/share/containers/oci/hooks.d/50-pillion.json"
	give_time
	doctor
	is "the hook" "$(link hook .what)" "/usr/libexec/oci/hooks.d/pillion-hook runs"
	is "hooks.d" "$(link hooks.d .state)" ok
	container plain --rm -- "$LAB/bin/burn" 0.2 >/dev/null || fail "a container without annotation does not start"
	! has_profile || fail "it has a profile"
	container asks --detach --annotation io.pillion.profile=cpu@499 -- "$LAB/bin/sleeper" 60 >/dev/null || fail "it does not start"
	doctor "$(podman_default inspect --format '{{.State.Pid}}' asks)"
	is "doctor of a container that asks" "$(link container .state)" ok
	has "doctor of a container that asks" "$(link container .what)" "is profiled by a session of its own"
	podman_default rm --force --time 0 asks >/dev/null
	container burns --rm --annotation io.pillion.profile=cpu@499 -- "$LAB/bin/burn" 0.5 >/dev/null || fail "it does not start"
	until_true 20 has_profile || fail "no profile: $(cat over/var/upper/log/pillion/* 2>/dev/null)"
	host "$PILLION" uninstall >said || fail "uninstall: exit status $?: $(cat said)"
	host rm /etc/pillion/pillion.conf
	host_is_as_it_was
	container after --rm --annotation io.pillion.profile=cpu@499 -- "$LAB/bin/burn" 0.1 >/dev/null || fail "after uninstall a container does not start"
}
row "install, doctor, a podman container is profiled, uninstall: the host's files are as they were" test_real

# Programs lie there as a package puts them, so the steps are those of the registration. What is on disk is the other row's.
test_starts_between() {
	need podman strace
	lab_install targets/burn
	begin_host /etc /usr /var
	host mkdir -p /usr/libexec/oci/hooks.d /usr/libexec/pillion
	host cp "$LAB/bin/pillion-hook" /usr/libexec/oci/hooks.d/
	host cp "$LAB/bin/pilliond" "$LAB/bin/pillion-opener" /usr/libexec/pillion/
	CHANGES=(renameat unlinkat mkdirat write)
	each_step put_forgotten starts_and_forgets install nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$PILLION" install
	echo "install: $COUNT steps"
	((COUNT > 20)) || fail "install has but $COUNT steps"
	each_step put_registered starts uninstall nsenter --mount="/proc/$CT_NAMESPACE/ns/mnt" -- "$PILLION" uninstall
	echo "uninstall: $COUNT steps"
	((COUNT > 15)) || fail "uninstall has but $COUNT steps"
	host "$PILLION" uninstall >said || fail "uninstall: $(cat said)"
	host rm -r /usr/libexec/oci /usr/libexec/pillion
	host_is_as_it_was
}
put_forgotten() { host "$PILLION" uninstall >said || fail "uninstall: $(cat said)"; }
put_registered() { host "$PILLION" install >said || fail "install: $(cat said)"; }
starts() { # WHEN
	podman_default rm --force --ignore step >/dev/null
	container step --rm --annotation io.pillion.profile=cpu -- "$LAB/bin/burn" 0 >said 2>&1 || fail "$1: a container does not start: $(cat said)"
}
starts_and_forgets() {
	starts "$1"
	host "$PILLION" uninstall >said || fail "$1, then uninstall: $(cat said)"
}
row "install and uninstall, killed at each step on the real paths: a container starts at every moment" test_starts_between

# --- engines' own parsers

# DIR is an overlay of / without what lies on other file systems, in which an engine can be run; its files are the row's.
root_of_its_own() { # PROGRAM...
	need_root
	local program
	mkdir -p over/upper over/work host
	mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/over/upper,workdir=$PWD/over/work" host
	for program in podman crio containerd dockerd; do rm -f host/usr/bin/$program host/usr/sbin/$program; done
	rm -rf host/etc/containerd host/etc/docker host/var/lib/pillion
	mkdir -p host/proc host/usr/libexec/oci/hooks.d host/usr/libexec/pillion host/etc/containerd/conf.d host/etc/docker programs
	mount -t proc proc host/proc
	echo hook >host/usr/libexec/oci/hooks.d/pillion-hook
	echo wrapper >host$WRAPPER && chmod 755 host$WRAPPER
	for program; do install -m 755 "$program" host/usr/bin/; done
}
another() { # DIR SUITE PACKAGE... - prints where it is: unpacked once, beside what other suites have there
	local dir=$TOP/build/unpacked/$1
	(flock 9 && "$TOP/tests/tools/unpack" "$2" "$dir" "${@:3}") 9>"$LAB/unpack.lock" >&2 || skip "packages of $2 cannot be had"
	echo "$dir"
}
dump() { # what it would run with; 1.x cannot say it without a file
	local what=dump
	[[ -e host/etc/containerd/config.toml ]] || what=default
	chroot host /usr/bin/containerd config $what 2>dump.err | sed '/^ *imports/d'
}

test_containerd() { # SUITE VERSION: of its configuration
	local program=/usr/bin/containerd cri='io.containerd.grpc.v1.cri'
	[[ $2 == 2 ]] || cri='io.containerd.cri.v1.runtime'
	need containerd
	[[ $1 == here ]] || program=$(another "containerd-$1" "$1" containerd)/usr/bin/containerd
	root_of_its_own "$program"

	# it has a handler with a setting, and imports: whatever is written, that stays
	printf 'version = %s\nimports = ["/etc/containerd/conf.d/*.toml"]\n[plugins."%s".containerd.runtimes.mine]\nruntime_type = "io.containerd.runc.v2"\n[plugins."%s".containerd.runtimes.mine.options]\nSystemdCgroup = true\n' \
		"$2" "$cri" "$cri" >host/etc/containerd/config.toml
	dump >dump.before
	"$PILLION" install --root "$PWD/host" >said || fail "exit status $?: $(cat said)"
	dump >dump.after
	sort dump.before >a && sort dump.after >b
	[[ -z $(comm -23 a b) ]] || fail "containerd forgets: $(comm -23 a b)"
	if [[ $2 == 3 ]]; then
		grep -q "BinaryName = .$WRAPPER" dump.after || fail "containerd does not know the handler: $(cat said)"
		grep -q "pod_annotations = \['io.pillion.\*', 'io.pillion.\*/\*'\]" dump.after || fail "nor the annotations"
	else # of version 2 a file that is imported takes the place of the section
		has "what it says" "$(cat said)" "with it this containerd would forget .*add these lines to the end of /etc/containerd/config.toml"
		cp host/etc/containerd/config.toml config.toml
		sed -n '/^\[plugins/,/^$/p' said >>host/etc/containerd/config.toml
		dump >dump.after
		grep -q "BinaryName = .$WRAPPER" dump.after || fail "with the lines that it says containerd does not know the handler: $(cat said)"
		grep -q 'runtimes.mine.options' dump.after || fail "nor the other one"
		cp config.toml host/etc/containerd/
	fi
	"$PILLION" uninstall --root "$PWD/host" >said
	dump | diff dump.before - || fail "uninstall leaves something"

	# where there is no configuration, it gets one, and has its defaults
	rm host/etc/containerd/config.toml
	dump >dump.before
	"$PILLION" install --root "$PWD/host" >said || fail "exit status $?: $(cat said)"
	dump >dump.after
	grep -q "BinaryName = .$WRAPPER" dump.after || fail "without a configuration: $(cat said)"
	grep -q 'containerd.runtimes.runc\]' dump.after || fail "the default handler is gone"
	"$PILLION" install --root "$PWD/host" >said && grep -q '^nothing to do' said || fail "a second install does something"
	"$PILLION" uninstall --root "$PWD/host" >said
	[[ ! -e host/etc/containerd/config.toml ]] || fail "its configuration stays"

	# one that it refuses is left alone
	printf 'version = %s\n[plugins\n' "$2" >host/etc/containerd/config.toml
	cp host/etc/containerd/config.toml was
	is "exit status" "$(status_of "$PILLION" install --root "$PWD/host" 2>said)" 1
	has "what it says" "$(cat said)" "containerd refuses /etc/containerd/config.toml, which is left as it is"
	cmp was host/etc/containerd/config.toml
}
row "install: containerd 1.6 keeps all its settings, by its own word" test_containerd here 2
row "install: containerd 1.7 keeps all its settings, by its own word" test_containerd trixie 2
row "install: containerd 2.x keeps all its settings, by its own word" test_containerd sid 3

test_docker() {
	local engines
	engines=$(another docker trixie docker.io docker-cli containerd)
	root_of_its_own "$engines/usr/sbin/dockerd" "$engines/usr/sbin/docker-proxy"
	echo '{"log-level": "warn"}' >host/etc/docker/daemon.json
	"$PILLION" install --root "$PWD/host" >said || fail "exit status $?: $(cat said)"
	is "its runtimes" "$(jq -c .runtimes host/etc/docker/daemon.json)" "{\"pillion\":{\"path\":\"$WRAPPER\"}}"
	chroot host /usr/bin/dockerd --validate --config-file /etc/docker/daemon.json >validate 2>&1 || fail "dockerd refuses it: $(cat validate)"
	"$PILLION" uninstall --root "$PWD/host" >/dev/null
	is "after uninstall" "$(cat host/etc/docker/daemon.json)" '{"log-level": "warn"}'
	# it is JSON, and dockerd refuses it
	echo '{"no-such-setting": 1}' >host/etc/docker/daemon.json
	is "exit status" "$(status_of "$PILLION" install --root "$PWD/host" 2>said)" 1
	has "what it says" "$(cat said)" "is left as it is, for it is not valid: .*no-such-setting"
	is "daemon.json" "$(cat host/etc/docker/daemon.json)" '{"no-such-setting": 1}'
}
row "install: dockerd's own parser takes daemon.json, and what it refuses is left alone" test_docker

test_make() {
	begin_host /etc /usr /var
	host make -s -C "$TOP" install >said 2>&1 || fail "make install: $(cat said)"
	host pillion install >said || fail "exit status $?: $(cat said)"
	grep -qx "as it is: /$HOOKSD" said || fail "what make has registered is registered again: $(cat said)"
	[[ -e over/etc/upper/cdi/pillion.json ]] || fail "no CDI specification"
	host make -s -C "$TOP" uninstall >said 2>&1 || fail "make uninstall: $(cat said)"
	find over/*/upper -name '*pillion*' ! -path '*/log/*' ! -type c >left
	[[ ! -s left ]] || fail "left: $(cat left)"
}
row "make install, pillion install, make uninstall: nothing is left" test_make

# --- why a container has no profile

settings() { # LINE... - of pillion.conf, for the host
	printf '%s\n' "control = $ROW/control.sock" "spool = $ROW/spool" "$@" | host tee /etc/pillion/pillion.conf >/dev/null
}
asks_doctor() { # STATE REGEX CONTAINER
	host "$PILLION" doctor --json "$3" >doctor.json || :
	is "$3: $(link container .what)" "$(link container .state)" "$1"
	has "doctor of $3" "$(link container '.what, .way_out' | tr '\n' ' ')" "$2"
}
start_asking() { # NAME ANNOTATION-VALUE
	container "$1" --detach --annotation "io.pillion.profile=$2" -- "$LAB/bin/sleeper" 60 >/dev/null || fail "$1 does not start"
}
pid_of() { podman_default inspect --format '{{.State.Pid}}' "$1"; }
test_why() {
	need podman jq
	lab_install targets/sleeper
	begin_host /etc /usr /var
	start_asking early cpu
	host "$PILLION" install --from "$LAB/bin" >/dev/null
	container plain --detach -- "$LAB/bin/sleeper" 60 >/dev/null
	start_asking off off
	start_asking wrong nonsense@x
	asks_doctor broken "config.json names no pillion-hook .*pillion attach" "$(pid_of early)"
	asks_doctor warning "has no annotation io.pillion.profile" "$(pid_of plain)"
	asks_doctor warning "its annotation io.pillion.profile is off" "$(pid_of off)"
	asks_doctor broken "asks for nonsense@x and has the hook, but nobody profiles it" "$(pid_of wrong)"
	host mkdir -p /etc/pillion
	echo 'namespaces = prod-*' | host tee /etc/pillion/policy.conf >/dev/null
	start_asking forbidden cpu
	asks_doctor warning "policy lets Pods of some namespaces alone have a profile, and this is no Pod" "$(pid_of forbidden)"
	host rm /etc/pillion/policy.conf
	host "$PILLION" off >/dev/null
	start_asking silent cpu
	asks_doctor broken "is not profiled: nothing is on this host .*sudo pillion on" "$(pid_of silent)"
	host "$PILLION" on >/dev/null
	start_asking good cpu
	asks_doctor ok "is profiled by a session of its own" "$(pid_of good)"
	container short --detach --annotation io.pillion.profile=cpu --annotation io.pillion.window=4s -- "$LAB/bin/sleeper" 60 >/dev/null
	asks_doctor broken 'io.pillion.window: "4s" is not 5s to 3600s' "$(pid_of short)"
	container pause --detach --annotation io.pillion.profile=cpu --annotation io.kubernetes.cri.container-type=sandbox -- "$LAB/bin/sleeper" 60 >/dev/null
	asks_doctor warning "it is a Pod's sandbox" "$(pid_of pause)"
	cp "$LAB/bin/sleeper" "$LAB/bin/qemu-system-x86_64" # as kata's are called
	container vm --detach --annotation io.pillion.profile=off -- "$LAB/bin/qemu-system-x86_64" 60 >/dev/null
	asks_doctor warning "kata runs it in a virtual machine" "$(pid_of vm)"
	"$LAB/bin/pilliond" --control "$ROW/control.sock" --spool "$ROW/spool" --log "$ROW/log" --log-level info &
	until_true 10 grep -qs "state=ready" log || fail "the service did not come up"
	settings
	start_asking served cpu
	asks_doctor ok "is profiled by the service" "$(pid_of served)"
	asks_doctor broken "no container \"nobody\"" nobody
	asks_doctor broken "process $$ is in no container's cgroup" $$
}
row "doctor: of each container why it is profiled, or is not" test_why

# In a tree: one broken link a row.
test_link_of() { # LINK STATE REGEX SCRIPT that breaks it
	tree podman
	mkdir -p host/usr/libexec/oci/hooks.d host/etc/pillion
	install_ >/dev/null
	chmod 755 host/usr/libexec/oci/hooks.d/pillion-hook
	local status
	"$PILLION" doctor --root "$PWD/host" >said || fail "a tree where all is well: $(cat said)"
	(cd host && eval "$4")
	status=$(status_of "$PILLION" doctor --root "$PWD/host" --json 2>doctor.json)
	has "$1" "$(link "$1" '.what, .way_out' | tr '\n' ' ')" "$3"
	is "its state" "$(link "$1" .state)" "$2"
	is "exit status" "$status" "$([[ $2 == broken ]] && echo 1 || echo 3)"
}
row "doctor: no hooks.d JSON" test_link_of hooks.d broken 'podman and CRI-O know of no hook .*pillion install' 'rm usr/share/containers/oci/hooks.d/*'
row "doctor: somebody else's hooks.d JSON is broken" test_link_of hooks.d broken '10-x.json: .*podman starts no container' 'echo "{" >usr/share/containers/oci/hooks.d/10-x.json'
row "doctor: a hooks.d JSON with a stage that is none" test_link_of hooks.d broken '"never" is no stage' \
	'sed -i s/poststop/never/ usr/share/containers/oci/hooks.d/50-pillion.json'
row "doctor: podman is told of other hook directories" test_link_of hooks.d broken 'containers.conf has a hooks_dir without' \
	'mkdir -p etc/containers && printf "[engine]\nhooks_dir = [\"/etc/hooks\"]\n" >etc/containers/containers.conf'
row "doctor: no hook" test_link_of hook broken 'there is no /usr/libexec/oci/hooks.d/pillion-hook' 'rm usr/libexec/oci/hooks.d/pillion-hook'
row "doctor: a hook that cannot be run" test_link_of hook broken 'is no program: its mode is 644' 'chmod 644 usr/libexec/oci/hooks.d/pillion-hook'
row "doctor: a hook that others may write" test_link_of hook broken 'may be written by others' 'chmod 777 usr/libexec/oci/hooks.d/pillion-hook'
row "doctor: the kill switch" test_link_of 'kill switch' broken 'nothing is profiled on this host .*pillion on' ': >etc/pillion/off'
row "doctor: a mistake in pillion.conf" test_link_of settings broken 'line 2: budget: .* is not 50ms to 5s' \
	'printf "# x\nbudget = 6s\n" >etc/pillion/pillion.conf'
row "doctor: a mistake in policy.conf" test_link_of policy broken 'line 1: max_rate: ' 'echo "max_rate = fast" >etc/pillion/policy.conf'
row "doctor: policy has but some of them" test_link_of policy warning 'namespaces: a,b .*one container of 10' \
	'printf "sample_containers = 10\nnamespaces = a,b\n" >etc/pillion/policy.conf'
row "doctor: no engine" test_link_of engines warning 'none in the usual directories' 'rm usr/bin/podman'
row "doctor: Docker's runtime is not there" test_link_of 'runtime handlers' broken "Docker's runtime pillion runs .*which is not there" \
	': >usr/bin/dockerd && "$PILLION" install --root "$PWD" >/dev/null && rm .'$WRAPPER

says_of() { # LINK STATE REGEX
	host "$PILLION" doctor --json >doctor.json || :
	is "$1: $(link "$1" .what)" "$(link "$1" .state)" "$2"
	has "$1" "$(link "$1" '.what, .way_out' | tr '\n' ' ')" "$3"
}
test_service_links() {
	need jq
	begin_host /etc
	host mkdir -p /etc/pillion
	settings
	says_of service ok "none at $ROW/control.sock: each container has a session of its own"
	says_of spool ok "$ROW/spool"
	"$LAB/bin/pilliond" --control "$ROW/control.sock" --spool "$ROW/spool" --log "$ROW/log" --log-level info &
	SERVICE=$!
	until_true 10 grep -qs "pid=$SERVICE state=ready" log || fail "the service did not come up"
	says_of service ok "control.sock answers: 0 targets"
	kill -STOP "$SERVICE"
	says_of service broken "control.sock does not answer: .*restart pilliond"
	kill -CONT "$SERVICE"
	kill -KILL "$SERVICE"
	wait "$SERVICE" || :
	says_of service warning "and nobody listens: each container has a session of its own"
	: >file
	settings "spool = $ROW/file/x"
	says_of spool broken "/file is no directory, so .* cannot be one"
	mkdir small && mount -t tmpfs -o size=16k tmpfs small
	head -c 16384 /dev/zero >small/full || :
	settings "spool = $ROW/small/x"
	host mount -t tmpfs -o size=16k tmpfs "$ROW/small"
	host dd if=/dev/zero of="$ROW/small/full" bs=4k count=8 2>/dev/null || :
	says_of spool broken "the file system of $ROW/small is full"
	host mount -o remount,ro "$ROW/small"
	says_of spool broken "$ROW/small cannot be written to"
	settings "enabled = 0"
	says_of settings broken "says enabled = 0"
}
row "doctor: a service that answers, hangs, is dead; a spool that is full, read-only, no directory" test_service_links

test_machine() { # what the kernel tells, told otherwise
	need jq
	begin_host /etc
	echo 4 >level
	host mount --bind "$ROW/level" /proc/sys/kernel/perf_event_paranoid
	says_of perf_event_paranoid warning "^4 .*keep CAP_SYS_ADMIN for opening.*sysctl kernel.perf_event_paranoid=2"
	echo -1 >level
	says_of perf_event_paranoid ok "^-1"
	host mount -t tmpfs tmpfs /sys/kernel
	host mkdir /sys/kernel/security
	echo 'none integrity [confidentiality]' | host tee /sys/kernel/security/lockdown >/dev/null
	echo 'lockdown,capability,selinux' | host tee /sys/kernel/security/lsm >/dev/null
	says_of 'security module' warning "lockdown is confidentiality.*stacks=fp works"
	echo '[none] integrity confidentiality' | host tee /sys/kernel/security/lockdown >/dev/null
	says_of 'security module' ok "lockdown,capability,selinux"
	host mount -t tmpfs tmpfs /sys/fs
	host mkdir /sys/fs/selinux
	echo 1 | host tee /sys/fs/selinux/enforce >/dev/null
	says_of 'security module' warning "SELinux enforces .*ausearch .*pillion.te"
	says_of cgroups warning "there are none at /sys/fs/cgroup"
}
row "doctor: perf_event_paranoid, lockdown, SELinux and cgroups as other machines have them" test_machine

test_caps() {
	need jq capsh
	local status=0
	capsh --drop=cap_perfmon -- -c "exec '$PILLION' doctor --json" >doctor.json || status=$?
	is "its state" "$(link capabilities .state)" broken
	has "what it says" "$(link capabilities '.what, .way_out')" "CAP_PERFMON is not in the bounding set.*CapabilityBoundingSet"
	is "exit status" "$status" 1
	setpriv --reuid 65534 --regid 65534 --clear-groups "$PILLION" doctor --json >doctor.json || :
	has "of a plain user" "$(link capabilities .what)" "asked by a plain user"
}
row "doctor: a capability is missing, a plain user asks" test_caps

# --- CDI: the hook without hooks.d

test_cdi() {
	need podman jq
	lab_install targets/burn
	cp "$B/libpillion.so" "$LAB/bin/"
	begin_host /etc /usr /var
	host "$PILLION" install --from "$LAB/bin" >/dev/null
	give_time
	rm "$LAB/bin/libpillion.so"
	host rm /usr/share/containers/oci/hooks.d/50-pillion.json
	is "environment and mount, as inject says" "$(host jq -c '.devices[] | select(.name == "alloc").containerEdits | .env, (.mounts[] | [.hostPath, .containerPath, .options])' /etc/cdi/pillion.json)" \
		"$(host "$PILLION" inject --oci | jq -c '.process.env, (.mounts[] | [.source, .destination, .options])')"
	container without --rm --annotation io.pillion.profile=cpu@499 -- "$LAB/bin/burn" 0.5 >/dev/null || fail "it does not start"
	! has_profile || fail "a container without the device is profiled"
	container device --rm --device pillion.io/profiler=default --annotation io.pillion.profile=cpu@499 -- "$LAB/bin/burn" 0.5 >said 2>&1 ||
		fail "podman does not take it: $(cat said)"
	until_true 20 has_profile || fail "no profile: $(cat over/var/upper/log/pillion/* 2>/dev/null)"
	container both --rm --device pillion.io/profiler=alloc -- /bin/sh -c 'echo $LD_PRELOAD; grep -c libpillion /proc/self/maps' >said 2>&1 || fail "$(cat said)"
	is "libpillion's place" "$(sed -n 1p said)" /run/pillion/libpillion.so
	[[ $(sed -n 2p said) -gt 0 ]] || fail "it is not in the program"
}
row "CDI: podman takes --device pillion.io/profiler=default, and =alloc" test_cdi

# --- policy

. "$TOP/tests/integration/spine.sh"

policy() { # LINE... - of policy.conf
	[[ -n ${HOOK_ARGS[0]-} ]] || with session
	rm -rf spool/* log
	printf '%s\n' "$@" >etc/policy.conf
}
asks() { # EVENTS [OPTION...] - a container that does
	ct_run runc "policy-$RANDOM$RANDOM" -a "io.pillion.profile=$1" "${@:2}" -- "$LAB/bin/burn" 0.3 >/dev/null || fail "the container does not start: $(cat log)"
}
is_refused() { # SENTENCE
	grep -q "$1" log || fail "the log has no \"$1\": $(cat log)"
	[[ $(count_profiles) == 0 ]] || fail "it is profiled"
}
POD=(-a io.kubernetes.cri.container-type=container -a io.kubernetes.cri.sandbox-name=p -a io.kubernetes.cri.container-name=c)

test_namespaces() {
	ct_need runc
	policy 'namespaces = prod-*, test' 'strict = yes' # whom policy refuses, strict does not stop
	asks cpu "${POD[@]}" -a io.kubernetes.cri.sandbox-namespace=dev
	is_refused 'outcome=forbidden reason="the administrator.s policy lets namespace dev have no profile (policy.conf: namespaces)"'
	policy 'namespaces = prod-*, test'
	asks cpu
	is_refused 'and this is no Pod'
	asks cpu@499 "${POD[@]}" -a io.kubernetes.cri.sandbox-namespace=prod-eu
	profile
}
row "policy: namespaces by pattern, and a refusal starts the container also under strict" test_namespaces

test_users() {
	ct_need runc
	policy 'users = alice,1000'
	asks cpu
	is_refused 'policy lets containers of user root have no profile (policy.conf: users)'
	policy 'users = alice, roo*'
	asks cpu@499
	profile
}
row "policy: users, by name or number" test_users

test_policy_events() {
	ct_need runc
	policy 'events = page-faults, context-*'
	asks cpu
	is_refused 'cpu: the administrator.s policy does not allow it (policy.conf: events)'
	asks cpu,page-faults/1
	profile
	[[ $(find spool -name '*-cpu.pb.gz' | wc -l) == 0 ]] || fail "cpu is profiled"
	gunzip -c "$PROFILE" | strings >said && grep -q 'cpu: the administrator' said || fail "the profile does not say what was left out"
}
row "policy: events, of which the others go on" test_policy_events

test_selinux() {
	need checkmodule semodule_package
	checkmodule -M -m -o pillion.mod "$TOP/hooks/packaging/selinux/pillion.te" >said 2>&1 || fail "checkmodule: $(cat said)"
	semodule_package -o pillion.pp -m pillion.mod -f "$TOP/hooks/packaging/selinux/pillion.fc" >said 2>&1 || fail "semodule_package: $(cat said)"
	[[ -s pillion.pp ]]
}
row "SELinux: the module compiles" test_selinux
