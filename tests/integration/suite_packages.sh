# suite_packages - what is installed, by make, from packages and by hand: each is all there, works, and is gone again. The Debian
# that packages are tried in is made once by debootstrap, and kept below build; a row has an overlay over it.

need_packages() {
	need_root
	need lintian debootstrap dpkg-deb dpkg-shlibdeps
}

# What `make deb tarball` makes, once; and packages of 0.0.1, which is the version that is upgraded from.
packages() {
	[[ ! -d $LAB/packages ]] || return 0
	make --no-print-directory -s -C "$TOP" deb tarball PACKAGES="$LAB/packages.new" >said 2>&1 || fail "make deb tarball: $(cat said)"
	"$TOP/hooks/packaging/debian/build" "$LAB/packages.new/tree" "$LAB/packages.new/old" 0.0.1 >said 2>&1 || fail "packages of 0.0.1: $(cat said)"
	mkdir "$LAB/packages.new/new" && mv "$LAB"/packages.new/*.deb "$LAB/packages.new/new/"
	mv "$LAB/packages.new" "$LAB/packages"
}

test_lintian() {
	need_packages
	packages
	lintian --fail-on error --allow-root "$LAB"/packages/new/*.deb >said 2>&1 || fail "lintian: $(cat said)"
	is "their names" "$(cd "$LAB/packages/new" && echo *.deb | sed "s/_[^ ]*//g")" "libpillion-dev libpillion0 pillion"
}
row "packages: lintian finds no error" test_lintian

test_same() {
	need_packages
	packages
	make --no-print-directory -s -C "$TOP" deb tarball PACKAGES="$PWD/again" >said 2>&1 || fail "make deb tarball: $(cat said)"
	(cd "$LAB/packages/new" && sha256sum *.deb) >first
	(cd "$LAB/packages" && sha256sum *.tar.xz) >>first
	(cd again && sha256sum -c --quiet ../first) || fail "made twice, packages differ"
}
row "packages: made twice, they are the same bytes" test_same

# --- in a Debian that has nothing

debian() { # in ./root
	local base=$TOP/build/packages/bookworm
	PACKAGES="libdw1 libcap2 libjson-c5 libprotobuf-c1 libunwind8 libmicrohttpd12 liblzma5 libdeflate0 zlib1g" "$TOP/tests/tools/root" "$base"
	mkdir memory root
	mount -t tmpfs tmpfs memory
	mkdir memory/upper memory/work
	mount -t overlay overlay -o "lowerdir=$base,upperdir=$PWD/memory/upper,workdir=$PWD/memory/work" root
	mount -t proc proc root/proc
	printf '#!/bin/sh\nexit 101\n' >root/usr/sbin/policy-rc.d
	chmod 755 root/usr/sbin/policy-rc.d
}
in_debian() { DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot root "$@" >said 2>&1 || fail "$*: exit status $?: $(tail -n 30 said)"; }
# Each file, and the bytes of those that say who is there; what dpkg and apt write of what they did, whatever the package, is not
# ours.
state() {
	find root -xdev \( -path root/proc -o -path root/tmp -o -path root/var/cache -o -path root/var/lib/apt -o -path root/var/log/apt -o -path root/var/lib/pkgs \) -prune -o \
		! -name '*-old' ! -path '*/log/dpkg.log' ! -path '*/log/alternatives.log' ! -path '*/etc/passwd-' ! -path '*/etc/group-' \
		! -path '*/etc/shadow-' ! -path '*/etc/gshadow-' ! -path '*/triggers/*' -printf '%P %y %m %l\n' | sort
	cat root/etc/passwd root/etc/group root/etc/shadow root/etc/gshadow
}
ours() { in_debian dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' 'pillion*' 'libpillion*'; cat said; }

test_round_of_packages() {
	need_packages
	packages
	debian
	state >before
	mkdir root/packages && cp -r "$LAB/packages/old" "$LAB/packages/new" root/packages/
	in_debian sh -c 'apt-get -q -y --no-install-recommends install /packages/old/*.deb'
	has "installed" "$(ours)" "pillion 0.0.1 installed"
	in_debian getent passwd pillion
	in_debian pillion version
	has "its version" "$(cat said)" "$(cat "$TOP/VERSION")"
	# a change of an administrator's outlives an upgrade
	mkdir -p root/etc/pillion && echo 'window = 30s' >root/etc/pillion/pillion.conf
	in_debian sh -c 'apt-get -q -y --no-install-recommends install /packages/new/*.deb'
	has "upgraded" "$(ours)" "pillion $(cat "$TOP/VERSION") installed"
	is "settings" "$(cat root/etc/pillion/pillion.conf)" "window = 30s"

	profiles_program
	runs_service
	# engines that are told: of these there are but the names, as in suite_install
	touch root/usr/bin/podman root/usr/bin/dockerd
	chmod 755 root/usr/bin/podman root/usr/bin/dockerd
	in_debian pillion install
	[[ -e root/var/lib/pillion/install.json ]] || fail "no engine was told: $(cat said)"
	in_debian apt-get -q -y remove pillion
	rm root/usr/bin/podman root/usr/bin/dockerd
	[[ ! -e root/usr/share/containers/oci/hooks.d/50-pillion.json && ! -e root/var/lib/pillion/install.json ]] ||
		fail "after remove, engines find what is gone: $(find root -xdev -name '*pillion*')"
	in_debian apt-get -q -y purge pillion libpillion0 libpillion-dev
	in_debian apt-get -q -y --purge autoremove
	rm -rf root/packages
	state >after
	diff before after >changed || fail "purged, and there is a difference: $(cat changed)"
}

has_profile() { [[ -n $(find root/tmp/profiles -name '*.pb.gz') ]]; }
# The program ends before its profile is there.
profiles_program() {
	in_debian sh -c 'pillion run --budget 5s --output /tmp/profiles -- sh -c "i=0; while [ \$i -lt 300000 ]; do i=\$((i + 1)); done"'
	cp said ran
	until_true 20 has_profile || fail "there is no profile: $(cat ran)"
	in_debian pillion top /tmp/profiles
	has "what it saw" "$(cat said)" "dash"
}

# as anybody starts it who has no systemd
runs_service() {
	local pid status=0
	chroot root /usr/libexec/pillion/pilliond >service 2>&1 &
	pid=$!
	until_true 10 test -S root/run/pillion/control.sock || fail "pilliond does not listen: $(cat service)"
	chroot root pillion doctor >doctor 2>&1 || :
	kill -TERM $pid
	wait $pid || status=$?
	is "the end of pilliond" "$status" 0
	grep -qi 'service\|pilliond' doctor || fail "doctor says nothing of it: $(cat doctor)"
}
row "packages: in a clean Debian they install, run, upgrade, and purged it is as it was" test_round_of_packages

# --- the tarball

test_tarball() {
	need_packages
	packages
	debian
	state >before
	mkdir root/tmp/t
	tar -C root/tmp/t --strip-components=1 -xf "$LAB"/packages/pillion-*.tar.xz
	in_debian /tmp/t/install
	in_debian sh -c 'ldd /usr/bin/pillion /usr/libexec/pillion/pilliond'
	! grep 'not found' said || fail "a library is not there"
	in_debian pillion version
	has "its version" "$(cat said)" "$(cat "$TOP/VERSION")"
	profiles_program
	runs_service
	in_debian /tmp/t/uninstall
	! find root/usr root/etc -name '*pillion*' | grep . || fail "left behind"
}
row "tarball: in a Debian without any library of ours it runs" test_tarball

# --- the manual

test_manual() {
	local page said
	need mandoc
	packages
	(cd "$LAB/packages/tree/usr/share/man" && find . -type f | sed 's|^\./||' | sort) >pages
	mkdir man
	cp -r "$LAB"/packages/tree/usr/share/man/* man/
	# what is but a line's length is of no importance to anybody who reads
	said=$(cd man && mandoc -Tlint -W warning $(cat ../pages)) || fail "mandoc: $said"
	for page in man1/pillion.1 man3/pillion.3 man5/pillion.conf.5 man8/pilliond.8 man8/pillion-hook.8 man8/pillion-runc.8 man8/pillion-nri.8; do
		grep -qx "$page" pages || fail "there is no $page"
	done
}
row "manual: every page is there, and mandoc has nothing against it" test_manual

# What is written by hand is held against the tables: all that a text calls an option or page of ours is one.
flags_in() { grep -ohE -- '(^|[^-a-z])--[a-z][a-z-]*[a-z]' "$@" | grep -oE -- '--[a-z-]+' | LC_ALL=C sort -u || :; }
same_lists() { # WHAT FILE FILE
	diff "$2" "$3" >differ || fail "$1: $(cat differ)"
}
plain() { # PAGE - in one column, with no word broken
	mandoc -Tutf8 -O width=900 "$1" | col -bx
}
test_tables() {
	local word command section man=$LAB/packages/tree/usr/share/man
	need mandoc col
	packages
	"$B/pillion" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | LC_ALL=C sort -u >commands
	(($(wc -l <commands) > 10)) || fail "help lists few commands: $(cat commands)"
	{ (cd "$man/man1" && ls pillion-*) | sed 's/^pillion-//; s/\.1$//'; } | LC_ALL=C sort >with_page
	same_lists "commands of help, and those with a page" commands with_page
	# at the first word the completion offers them all
	"$B/pillion" complete '' | cut -f1 | LC_ALL=C sort -u >offered
	same_lists "commands of help, and those that a shell offers" commands offered
	while read -r command; do
		plain "$man/man1/pillion-$command.1" >page
		"$B/pillion" help "$command" >help
		flags_in help >helped
		flags_in page >paged
		same_lists "options of pillion $command in --help and in its page" helped paged
	done <commands
	plain "$man/man5/pillion.conf.5" >conf
	"$B/pilliond" --help | sed -n '/^usage/d; s/^  --\([a-z-]*\) .*/\1/p' | tr - _ | LC_ALL=C sort -u >keys
	(($(wc -l <keys) > 10)) || fail "pilliond --help has few options: $(cat keys)"
	while read -r word; do
		# what names the file is not in it
		grep -qE "^ +($word|PILLION_${word^^})( |\$)" conf || fail "pillion.conf(5) has no $word"
	done <keys
	# every page that one refers to is there
	cat "$man"/man*/* | grep -oE '\bXr pillion[a-z.-]* [0-9]' | sort -u | while read -r _ word section; do
		[[ -s $man/man$section/$word.$section ]] || fail "there is no $word($section)"
	done
}
row "manual: commands, options and keys are those of --help and of the completion" test_tables

test_version() {
	local version tree=$LAB/packages/tree
	packages
	version=$(cat "$TOP/VERSION")
	has "pillion" "$("$B/pillion" version)" "${version//./\\.}"
	has "pilliond" "$("$B/pilliond" --version)" "${version//./\\.}"
	is "pkg-config" "$(PKG_CONFIG_PATH=$tree/usr/lib/pkgconfig pkg-config --modversion pillion)" "$version"
	is "the package" "$(dpkg-deb -f "$LAB"/packages/new/pillion_*.deb Version)" "$version"
	[[ -e $LAB/packages/pillion-$version-$(uname -m).tar.xz ]] || fail "the tarball is called $(ls "$LAB/packages")"
	has "NEWS" "$(head -n 1 "$TOP/NEWS")" "^pillion ${version//./\\.} "
	has "the manual" "$(grep '^\.Os' "$tree/usr/share/man/man1/pillion.1")" "${version//./\\.}"
}
row "version: programs, pkg-config, manual, package and NEWS have the same" test_version

test_back() {
	make --no-print-directory -s -C "$TOP" install DESTDIR="$PWD/image" M="$PWD/made" MAN="$PWD/man" >said 2>&1 || fail "make install: $(cat said)"
	[[ -s image/usr/share/man/man1/pillion-top.1 && -s image/usr/share/man/man8/pilliond.8 ]] || fail "there is no manual"
	make --no-print-directory -s -C "$TOP" uninstall DESTDIR="$PWD/image" M="$PWD/made" MAN="$PWD/man" >said 2>&1 || fail "make uninstall: $(cat said)"
	find image ! -type d >left
	[[ ! -s left ]] || fail "left: $(cat left)"
}
row "make install and uninstall: no page of the manual is left" test_back
