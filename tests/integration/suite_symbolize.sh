# suite_symbolize - `pillion symbolize`: a profile of a program without any debug information gets, afterwards, what
# addr2line and the profiler itself say with it; from Debian's own debuginfod, a build-id directory or the program. And
# what a server does that hangs, has nothing, or sends something else: a sentence in time, and a profile that is whole.

. "$TOP/tests/integration/lines.sh"

ID=b2a3c4d5e6f70819203a4b5c6d7e8f9012345679
ID_FILE=/usr/lib/debug/.build-id/${ID:0:2}/${ID:2}.debug
SYMBOLIZE=("$LAB/bin/pillion" symbolize)

# ./program without any symbol, ./whole, ./program.debug; and its profile, ./p.pb.gz, with a copy of it, ./was.pb.gz.
begin_symbolize() {
	begin_symbols
	build_once symbolized -Wl,--build-id=0x$ID
	cp "$LAB/lines/symbolized" whole
	objcopy --only-keep-debug whole program.debug
	strip -o program whole
	[[ ! -e $ID_FILE ]] || fail "$ID_FILE is there already"
	unset DEBUGINFOD_URLS
	export DEBUGINFOD_CACHE_PATH=$ROW/cache
	"${RUN[@]}" -- ./program 0.3 >/dev/null
	cp "$(first_of program)" p.pb.gz
	cp p.pb.gz was.pb.gz
	INODE=$(stat -c %i p.pb.gz)
	has_no_lines p.pb.gz program
	end_run # from here on there is no profiler
	rm -rf out
}
symbolize() { # STATUS ARG... - of p.pb.gz, unless said otherwise, by WHO; ./said is what it says
	local want=$1 got
	shift
	got=$(status_of "${WHO[@]-env}" "${SYMBOLIZE[@]}" "${@:-p.pb.gz}" 2>said)
	[[ $got == "$want" ]] || fail "the exit status is $got, not $want: $(cat said)"
	[[ -z $(find . -name '.writing*') ]] || fail "a temporary file is left"
}
says() { grep -qE "$1" said || fail "it does not say \"$1\": $(cat said)"; }
is_as_before() { # the very file
	cmp p.pb.gz was.pb.gz || fail "the profile is another one: $(cat said)"
	is "its inode" "$(stat -c %i p.pb.gz)" "$INODE"
}
is_named() { is_as_addr2line p.pb.gz program whole 0; }

# --- servers on loopback; each sets URL

a_port() { port_free && URL=http://127.0.0.1:$PORT; }
answers() { # REGEX - what the server says of our build-id
	local line
	exec 3<>"/dev/tcp/127.0.0.1/$PORT" || return 1
	printf 'GET /buildid/%s/debuginfo HTTP/1.0\r\n\r\n' "$ID" >&3
	read -r -t 5 line <&3
	exec 3<&-
	[[ $line =~ $1 ]]
} 2>/dev/null
serve() { # DIR ANSWER - Debian's own server
	need debuginfod
	a_port
	env -u DEBUGINFOD_URLS debuginfod -F -d :memory: -p $PORT -v "$1" >server.log 2>&1 &
	until_true 20 answers "$2" || fail "no server: $(cat server.log)"
}
serve_file() { # FILE - whatever it is, as debug information of our build-id
	need python3
	mkdir -p "www/buildid/$ID"
	cp "$1" "www/buildid/$ID/debuginfo"
	a_port
	python3 -m http.server --bind 127.0.0.1 --directory www $PORT >server.log 2>&1 &
	until_true 20 answers 200 || fail "no server: $(cat server.log)"
}
serve_nothing() { # a listener that never answers
	need python3
	a_port
	python3 -c 'import socket, sys, time
s = socket.socket()
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen(50)
print("ready", flush=True)
time.sleep(100)' $PORT >server.log 2>&1 &
	until_true 20 grep -q ready server.log || fail "no listener: $(cat server.log)"
}

# --- found

test_debuginfod() { # COMMAND - which may set DEBUGINFOD_URLS
	begin_symbolize
	mkdir served
	mv program.debug served/
	serve served 200
	eval "$1"
	is_named
	says "^program ${ID:0:12}: ([0-9]+) of \1 addresses named by debuginfod at $URL"
	grep -q "GET /buildid/$ID/debuginfo 200" server.log || fail "nobody asked: $(cat server.log)"
	symbolize 0 was.pb.gz --debuginfod "$URL"
	says "by debuginfod's cache"
	is "requests" "$(grep -c "GET /buildid/$ID/debuginfo 200.*UA:elfutils\|UA:elfutils.*GET /buildid/$ID/debuginfo 200" server.log)" 1
	cmp p.pb.gz was.pb.gz || fail "the same twice is not the same"
}
row "debuginfod, by --debuginfod: what addr2line says" test_debuginfod 'symbolize 0 p.pb.gz --debuginfod $URL'
row "debuginfod, by DEBUGINFOD_URLS: what addr2line says" test_debuginfod 'export DEBUGINFOD_URLS=$URL; symbolize 0'
row "debuginfod, as a plain user: what addr2line says" test_debuginfod 'mkdir -m 777 cache; chmod 777 .; chmod 644 *.gz
	chown 65534:65534 *.gz; WHO=("${NOBODY[@]}"); symbolize 0 p.pb.gz --debuginfod $URL'

test_as_profiled() { # what the profiler says of the same addresses, when the debug information is there from the start
	begin_symbolize
	trap 'rm -f "$ID_FILE"; rmdir "${ID_FILE%/*}" 2>/dev/null || :' EXIT
	mkdir -p "${ID_FILE%/*}"
	mv program.debug "$ID_FILE"
	symbolize 0
	says "by $ID_FILE"
	is_named
	begin_run --events cpu@499
	"${RUN[@]}" -- ./program 0.3 >/dev/null
	locations p.pb.gz program | sort >afterwards
	locations "$(first_of program)" program | sort >profiled
	join -t $'\t' -j 1 -o 0 <(cut -f 1 afterwards | uniq) <(cut -f 1 profiled | uniq) >both
	(($(wc -l <both) >= 3)) || fail "too few addresses are in both: $(cat both)"
	diff <(grep -wFf both afterwards) <(grep -wFf both profiled) || fail "the profiler says something else"
	end_run
}
row "a build-id directory: what the profiler says of the same addresses" test_as_profiled

test_itself() { # the program, where its debug information came back to it
	begin_symbolize
	cp whole program
	symbolize 0
	says "by .*/program$"
	is_named
}
row "the module itself, of the same build-id" test_itself
test_itself_changed() {
	begin_symbolize
	"${BUILD[@]}" -Wl,--build-id=0xff${ID:2} -o program a.cc
	symbolize 3
	says "it has another build-id"
	is_as_before
}
row "the module itself, of another build-id, is not taken" test_itself_changed

test_shared() { # dwz: a part of the debug information is in a file that several share
	begin_symbolize
	need dwz
	"${BUILD[@]}" -Wl,--build-id=0x01020304 -o other a.cc
	objcopy --only-keep-debug other other.debug
	mkdir served
	cp program.debug served/
	dwz -m served/common.debug -M /nowhere/common.debug served/program.debug other.debug
	grep -q gnu_debugaltlink < <(readelf -S served/program.debug) || fail "nothing is shared"
	serve served 200
	symbolize 0 p.pb.gz --debuginfod "$URL"
	is_named
	rm served/common.debug
	kill %%
	rm -rf cache
	cp was.pb.gz p.pb.gz
	serve served 200
	symbolize 0 p.pb.gz --debuginfod "$URL"
	says "what it shares with other modules is missing: common\.debug"
}
row "debuginfod: debug information that is shared by dwz" test_shared

test_compressed() {
	begin_symbolize
	mkdir served
	objcopy --compress-debug-sections=zlib program.debug served/program.debug
	serve served 200
	symbolize 0 p.pb.gz --debuginfod "$URL"
	is_named
}
row "debuginfod: compressed debug information" test_compressed

GO_SOURCE='package main

// #cgo CFLAGS: -O2 -g
// #cgo LDFLAGS: -pthread
// #include <pthread.h>
// static unsigned burn_in_c(unsigned n) {
//	for (unsigned i = 0; i < 1000000000; i++) n = n * 1664525u + 1013904223u + (n >> 7);
//	return n;
// }
// static void *a_thread(void *arg) { *(unsigned *)arg = burn_in_c(1); return arg; }
// static unsigned burn(void) {
//	unsigned n = 0;
//	pthread_t t;
//	return pthread_create(&t, 0, a_thread, &n) || pthread_join(t, 0) ? 0 : n;
// }
import "C"
import ("fmt"; "os"; "runtime/pprof")

func main() {
	f, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(f)
	n := C.burn()
	pprof.StopCPUProfile()
	f.Close()
	fmt.Println(n)
}'
test_foreign() { # Go's own profile: mappings as the kernel made them, nothing about C code but addresses
	need_root
	need go gcc
	export DEBUGINFOD_CACHE_PATH=$ROW/cache
	mkdir src served
	echo "$GO_SOURCE" >src/main.go
	(cd src && HOME=$ROW GOCACHE=$LAB/gocache GO111MODULE=off go build \
		-ldflags "-linkmode external -extldflags -Wl,--build-id=0x$ID" -o ../whole main.go)
	strip -o program whole
	objcopy --only-keep-debug whole served/program.debug
	./program p.pb.gz >/dev/null
	raw p.pb.gz >before
	! grep -qw burn_in_c before || fail "it has the name already"
	has "its mapping" "$(cat before)" "/program $ID"
	rm program
	serve served 200
	symbolize 0 p.pb.gz --debuginfod "$URL"
	has "its functions" "$(raw p.pb.gz)" ' burn_in_c [^ ]*main\.go:[78] '
	has "its functions" "$(raw p.pb.gz)" ' a_thread [^ ]*main\.go:10 '
	(($("$LAB/bin/pillion" report --folded p.pb.gz | share 'a_thread;burn_in_c ') >= 80)) ||
		fail "burn_in_c has not 80 %: $("$LAB/bin/pillion" report --folded p.pb.gz | sed -n 1,10p)"
}
row "a profile that Go wrote, of C code: debuginfod has its names and lines" test_foreign

# --- files

test_in_place() {
	begin_symbolize
	chown 65534:65534 p.pb.gz
	chmod 604 p.pb.gz
	ln -s p.pb.gz link.pb.gz
	cp whole program
	symbolize 0 link.pb.gz
	INODE=$(stat -c %i p.pb.gz)
	[[ -L link.pb.gz ]] || fail "the link is none any more"
	is "owner and mode" "$(stat -c '%u:%g %a' p.pb.gz)" "65534:65534 604"
	is_named
	cp p.pb.gz was.pb.gz
	symbolize 0 p.pb.gz
	is_as_before
}
row "in place: owner, mode and links stay" test_in_place

test_out() {
	begin_symbolize
	cp whole program
	symbolize 0 p.pb.gz -o new.pb.gz
	is_as_before
	is_as_addr2line new.pb.gz program whole 0
	strip program
	symbolize 3 was.pb.gz -o new.pb.gz
	cmp was.pb.gz new.pb.gz || fail "what was not changed is another one"
}
row "into another file; what finds nothing is copied" test_out

test_directory() { # two windows and a stranger's file
	begin_symbolize
	mkdir -p spool/program
	cp p.pb.gz spool/program/1-cpu.pb.gz
	cp p.pb.gz spool/program/2-cpu.pb.gz
	echo text >spool/program/notes.txt
	cp whole program
	symbolize 0 spool
	is "lines about the program" "$(grep -c ^program said)" 1
	is_as_addr2line spool/program/1-cpu.pb.gz program whole 0
	cmp spool/program/[12]-cpu.pb.gz || fail "they differ"
	is "the other file" "$(cat spool/program/notes.txt)" text
}
row "a directory: all of its profiles, each address once" test_directory

test_interrupted() { # while it waits for the network
	begin_symbolize
	serve_nothing
	is "the exit status" "$(status_of timeout -s INT 1 "${SYMBOLIZE[@]}" p.pb.gz --debuginfod "$URL")" 124
	is_as_before
	[[ -z $(find . -name '.writing*') ]] || fail "a temporary file is left"
	leak_check
}
row "Ctrl-C leaves the old profile, and nothing else" test_interrupted

# --- not found

test_none() {
	begin_symbolize
	symbolize 3
	says "^program ${ID:0:12}: 0 of [0-9]+ addresses named, no debug information"
	says "no debug information of [0-9]+ of [0-9]+ modules here: .*--debuginfod URL or DEBUGINFOD_URLS"
	is_as_before
}
row "nothing here and no server: what is missing, and the way out" test_none

test_404() {
	begin_symbolize
	mkdir served
	serve served 404
	symbolize 3 p.pb.gz --debuginfod "$URL"
	says "program .*; debuginfod has none"
	is_as_before
}
row "debuginfod has none" test_404

test_hangs() { # one wait for all modules
	begin_symbolize
	"${BUILD[@]}" -s -Wl,--build-id=0x01020304 -o other a.cc
	begin_run --events cpu@499
	"${RUN[@]}" -- ./other 1 >/dev/null
	first_of other >/dev/null
	end_run
	serve_nothing
	local start=${EPOCHREALTIME/./}
	DEBUGINFOD_TIMEOUT=2 symbolize 3 p.pb.gz out --debuginfod "$URL"
	local ms=$(((${EPOCHREALTIME/./} - start) / 1000))
	((ms < 4000)) || fail "it took $ms ms"
	says "^other 01020304: 0 of"
	says "^pillion symbolize: debuginfod at $URL did not answer within 2 s; DEBUGINFOD_TIMEOUT"
	is "sentences about it" "$(grep -c 'did not answer' said)" 1
	is_as_before
}
row "a server that never answers" test_hangs
test_refused_connection() {
	begin_symbolize
	a_port
	symbolize 3 p.pb.gz --debuginfod "$URL"
	says "^pillion symbolize: cannot get anything from debuginfod at $URL: Connection refused"
	is_as_before
}
row "no server at all" test_refused_connection

test_sent() { # WHAT-IS-SERVED REGEX - and the profile stays
	begin_symbolize
	eval "$1"
	serve_file sent
	symbolize 3 p.pb.gz --debuginfod "$URL"
	says "$2"
	is_as_before
}
row "a server that sends half of it" test_sent 'head -c $(($(stat -c %s program.debug) / 2)) program.debug >sent' \
	'program .* 0 of .*it is no whole ELF file'
row "a server that sends another build's" test_sent \
	'"${BUILD[@]}" -Wl,--build-id=0xff${ID:2} -o other a.cc; objcopy --only-keep-debug other sent' \
	'program .* 0 of .*it has another build-id'
row "a server that sends no debug information" test_sent 'echo "<html>welcome</html>" >sent' \
	'program .* 0 of .*it is no whole ELF file'

test_garbage_sent() { # SECTION... - of the right build-id; the symbol table is good
	begin_symbolize
	local section at size
	cp program.debug sent
	for section; do
		read -r size at < <(objdump -h sent | awk -v s="$section" '$2 == s { print "0x" $3, "0x" $6 }')
		head -c $((size)) /dev/urandom | dd of=sent bs=1 seek=$((at)) conv=notrunc 2>/dev/null
	done
	serve_file sent
	"${SYMBOLIZE[@]}" p.pb.gz --debuginfod "$URL" 2>said || :
	(($("$LAB/bin/pillion" report --folded p.pb.gz | share 'work::churn|program\+0x') >= 80)) ||
		fail "churn has not 80 %: $(cat said; "$LAB/bin/pillion" report --folded p.pb.gz | sed -n 1,5p)"
	go tool pprof -symbolize=none -top p.pb.gz >/dev/null 2>&1 || fail "it is no profile any more"
}
row "a server that sends garbage in .debug_info" test_garbage_sent .debug_info
row "a server that sends garbage in all of it" test_garbage_sent .debug_info .debug_abbrev .debug_line .debug_str .debug_ranges .debug_aranges

test_without_library() { # local files do, and the network has one sentence
	begin_symbolize
	local library
	library=$(ldconfig -p | awk '/libdebuginfod.so.1 / && !n++ { print $NF }')
	[[ -n $library ]] || skip "libdebuginfod1 is not installed"
	hidden() { unshare -m sh -c 'mount --bind /dev/null "$1" && shift && exec "$@"' sh "$(readlink -f "$library")" "$@"; }
	is "the exit status" "$(status_of hidden "${SYMBOLIZE[@]}" p.pb.gz --debuginfod http://127.0.0.1:1 2>said)" 3
	says "^pillion symbolize: debuginfod was not asked: libdebuginfod.so.1 is not there; install the package libdebuginfod1"
	is_as_before
	cp whole program
	hidden "${SYMBOLIZE[@]}" p.pb.gz
	is_named
}
row "without libdebuginfod" test_without_library

# --- mistakes

test_mistake() { # STATUS REGEX ARG... - one sentence
	local want=$1 regex=$2
	shift 2
	need go
	echo text >text.pb.gz
	mkdir empty
	is "the exit status" "$(status_of "${SYMBOLIZE[@]}" "$@" 2>said)" "$want"
	says "$regex"
	is "lines" "$(wc -l <said)" 1
}
row "no profile is named" test_mistake 2 "^pillion symbolize: which profile\? Give files or a directory"
row "a profile that is not there" test_mistake 1 "^pillion symbolize: cannot open none: No such file" none
row "an empty directory" test_mistake 3 "there is no profile \(\*\.pb\.gz\) in empty" empty
row "no profile but text" test_mistake 1 "^pillion symbolize: text\.pb\.gz: it is not a pprof profile" text.pb.gz
row "-o with two profiles" test_mistake 2 "^pillion symbolize: -o takes one profile" -o x a b
row "-o with a directory" test_mistake 2 "^pillion symbolize: -o takes one profile" -o x empty
row "a server that is no URL" test_mistake 2 "'localhost' is no server: give a URL" a --debuginfod localhost
row "an option that is none" test_mistake 2 "there is no option '--server'" --server x a

test_cannot_write() {
	begin_symbolize
	cp whole program
	mkdir -m 755 of_root
	chmod 755 .
	cp p.pb.gz of_root/
	chmod 644 of_root/p.pb.gz
	is "the exit status" "$(status_of "${NOBODY[@]}" "${SYMBOLIZE[@]}" of_root/p.pb.gz 2>said)" 1
	says "^pillion symbolize: cannot write of_root/p.pb.gz: Permission denied; -o FILE writes elsewhere"
	cmp of_root/p.pb.gz was.pb.gz
	symbolize 1 p.pb.gz -o /dev/null
	says "cannot write /dev/null: it is no regular file"
	[[ -c /dev/null ]] || fail "/dev/null is no device any more"
}
row "where it may not write" test_cannot_write
