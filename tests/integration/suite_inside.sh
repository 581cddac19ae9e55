# suite_inside - libpillion in containers: by the options that `pillion inject` prints and an annotation, under every runtime.

. "$TOP/tests/integration/service.sh"
lab_install pillion targets/sites targets/traced targets/burn targets/crasher
install "${B%/*}/release/libpillion.so" "$LAB/bin/" # a sanitizer's would need the sanitizer in every program

inject() { # as options of runtimes.sh
	local word words
	read -ra words < <(PILLION_DAEMON=$LAB/bin/pilliond "$LAB/bin/pillion" inject)
	INJECT=()
	for word in "${words[@]}"; do
		case $word in --volume) INJECT+=(-v) ;; --env) INJECT+=(-e) ;; *) INJECT+=("$word") ;; esac
	done
}
of_event() { profiles_of "$1" | grep -- "-$2.pb.gz" | xargs "$LAB/bin/pillion" report --folded --type "$3"; } # NAME EVENT TYPE
sum_of() { awk -v re="$1" '$0 ~ re { n += $NF } END { printf "%.0f", n }'; }

test_alloc() { # RUNTIME
	ct_need "$1"
	begin_service
	inject
	ct_run "$1" c1 "${INJECT[@]}" -a "$NAMES=cpu,alloc/65536" -- "$LAB/bin/sites" 100 0 1000 10000 >told
	first_of c1 >/dev/null
	near "bytes" "$(of_event c1 alloc alloc_space | sum_of ';(site_[0-9]|.lost.)(;| )')" "$(awk '/^site_/ { n += $2 } END { print n }' told)" 15
	is "its profiles" "$(profiles_of c1 | sed 's/.*-//' | sort -u | tr '\n' ' ')" "alloc.pb.gz cpu.pb.gz "
	end_service
}
for runtime in "${CT_RUNTIMES[@]}"; do row "$runtime: what a container allocates" test_alloc "$runtime"; done

test_calls() {
	ct_need runc
	begin_service
	inject
	is "its output" "$(ct_run runc c1 "${INJECT[@]}" -a "$NAMES=calls" -- "$LAB/bin/traced" fib 25)" 75025
	first_of c1 >/dev/null
	is "calls of fib" "$(of_event c1 calls calls | sum_of ';fib ')" 242785
	end_service
}
row "what a container calls" test_calls

test_crash() { # of a child: what is sent to PID 1 the kernel drops
	ct_need runc
	begin_service
	inject
	ct_run runc c1 "${INJECT[@]}" -a "$NAMES=crash" -- sh -c "$LAB/bin/crasher null; echo \$?" >said 2>/dev/null
	is "its exit status" "$(cat said)" 139
	until_true 20 eval '[[ -n $("$LAB/bin/pillion" crashes spool 2>/dev/null) ]]' || fail "no report: $(tail -n 3 service.log)"
	has "the report" "$("$LAB/bin/pillion" crashes spool)" ' c1 .* crasher +SIGSEGV +at_null '
	end_service
}
row "a crash in a container" test_crash

test_user() { # not root in there
	ct_need runc
	begin_service
	inject
	ct_run runc c1 -u 65534:65534 "${INJECT[@]}" -a "$NAMES=alloc/65536" -- "$LAB/bin/sites" 50 0 1000 10000 >told
	first_of c1 >/dev/null
	(($(of_event c1 alloc alloc_space | sum_of ';site_9(;| )') > 100000)) || fail "nothing of it: $(comments_of c1)"
	end_service
}
row "a user of the container" test_user

test_musl() {
	ct_need runc
	need musl-gcc
	begin_service
	inject
	mkdir -p bin
	musl-gcc -O2 -g -I"$TOP" -o bin/sites "$TOP/tests/targets/sites.c"
	ct_run runc c1 "${INJECT[@]}" -v "$ROW/bin:/work-bin:ro" -a "$NAMES=alloc/65536" -- /work-bin/sites 100 0 1000 10000 >told
	first_of c1 >/dev/null
	near "bytes" "$(of_event c1 alloc alloc_space | sum_of ';(site_[0-9]|.lost.)(;| )')" "$(awk '/^site_/ { n += $2 } END { print n }' told)" 15
	end_service
}
row "a program of musl" test_musl

test_left_out() { # SENTENCE OPTION... -- PROGRAM...
	local sentence=$1
	ct_need runc
	begin_service
	inject
	shift
	[[ $1 != inject ]] || set -- "${INJECT[@]}" "${@:2}"
	ct_run runc c1 -a "$NAMES=cpu@999,alloc" "$@" >ran
	first_of c1 >/dev/null
	has "a comment" "$(comments_of c1)" "left out: alloc: $sentence"
	is "its profiles" "$(profiles_of c1 | sed 's/.*-//' | sort -u | tr '\n' ' ')" "cpu.pb.gz "
	end_service
}
row "without the library: the others, and how to start it" test_left_out \
	'the container has no /run/pillion/libpillion.so: start it with the options that `pillion inject` prints' -- "$LAB/bin/burn" 0.2
mkdir -p "$LAB/static"
gcc -O2 -static -I"$TOP" -o "$LAB/static/burn" "$TOP/tests/targets/burn.c"
row "a static program is told so" test_left_out '.*burn is a static program' inject -- "$LAB/static/burn" 0.2

test_worker_killed() {
	local i
	ct_need runc
	begin_service
	inject
	ct_start runc c1 "${INJECT[@]}" -a "$NAMES=calls" -- "$LAB/bin/traced" steady 4000
	for i in 1 2 3; do
		sleep 0.8
		until_true 5 has_worker || fail "there is no worker: $(cat service.log)"
		kill -KILL "$(worker)"
	done
	ct_wait c1 20 || fail "it does not end"
	first_of c1 >/dev/null
	is "calls of leaf" "$(of_event c1 calls calls | sum_of ';leaf ')" "$(ct_output c1 | tail -n 1)"
	ct_rm c1
	end_service
}
row "a worker killed three times" test_worker_killed

test_taken() { # the name of the socket
	ct_need runc
	begin_service
	inject
	mkdir -p taken
	echo mine >taken/app.sock
	install "$LAB/bin/libpillion.so" taken/
	ct_run runc c1 "${INJECT[@]:2}" -v "$ROW/taken:/run/pillion" -a "$NAMES=cpu@999,alloc" -- "$LAB/bin/burn" 0.2 >ran
	first_of c1 >/dev/null
	has "a comment" "$(comments_of c1)" 'left out: alloc: cannot make /run/pillion/app.sock in the container: Address (already )?in use'
	is "the file" "$(cat taken/app.sock)" mine
	rm -r taken
	end_service
}
row "a file in the socket's place stays" test_taken

test_oci() { # as parts of a config.json
	need jq
	PILLION_DAEMON=$LAB/bin/pilliond "$LAB/bin/pillion" inject --oci >oci.json
	is "its mount" "$(jq -r '.mounts[0] | "\(.source) \(.destination) \(.options | join(","))"' oci.json)" \
		"$LAB/bin/libpillion.so /run/pillion/libpillion.so bind,ro,nosuid,nodev"
	is "its environment" "$(jq -r '.process.env | join(" ")' oci.json)" \
		"LD_PRELOAD=/run/pillion/libpillion.so PILLION_SOCKET=/run/pillion/app.sock"
	is "without a library" "$(status_of env PILLION_DAEMON=/nowhere/pilliond "$LAB/bin/pillion" inject 2>said)" 1
	has "stderr" "$(cat said)" '^pillion inject: no /nowhere/libpillion.so \(make install puts it there\)$'
	is "an argument" "$(status_of "$LAB/bin/pillion" inject podman 2>said)" 2
}
row "as parts of a config.json; mistakes" test_oci
