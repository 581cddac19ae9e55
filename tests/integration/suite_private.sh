# suite_private - programs and libraries that nobody but their owner may read have names, however they are profiled: the
# owner's file opener reads them, with his rights (shim/file_opener.h).

. "$TOP/tests/integration/service.sh"
lab_install pillion-opener
GROUP=users # there is one on every Debian
ANNE=64901

as() { # UID COMMAND... - a member; 0: root
	if [[ $1 == 0 ]]; then "${@:2}"; else setpriv --reuid "$1" --regid "$1" --groups "$GROUP" "${@:2}"; fi
}

# ./home/program runs for seconds in ./home/libwork.so, in a function that only debug information knows.
make_private() { # UID
	need gcc
	mkdir -m 700 home
	gcc -g -O1 -shared -fPIC -o home/libwork.so -x c - <<'EOF' || fail "the library does not build"
#include <time.h>
static volatile long number;
static inline __attribute__((always_inline)) void work_inlined(void)
{
	for (int i = 0; i < 1000000; i++)
		number++;
}
void work_of_library(double seconds);
void work_of_library(double seconds)
{
	for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
		work_inlined();
}
EOF
	gcc -g -O1 -o home/program -x c - -x none home/libwork.so "-Wl,-rpath,$ROW/home" <<'EOF' || fail "the program does not build"
#include <stdlib.h>
void work_of_library(double seconds);
int main(int argc, char **argv)
{
	work_of_library(atof(argv[1]));
	return argc > 2;
}
EOF
	chown -R "$1:$1" home
	chmod -R go-rwx home
}
begin_private() { # session|service UID
	SERVICE_OPTIONS=(--users-group "$GROUP")
	case $1 in
	session) begin_run ;;
	service) begin_service ;;
	esac
	make_private "$2"
}
end_private() { # session|service
	case $1 in
	session) end_run ;;
	service) end_service ;;
	esac
}
has_names() { # FOLDED COMMENTS
	(($(share ';main;work_of_library;work_inlined ' <<<"$1") >= 90)) || fail "names that are missing: $1 $2"
	[[ $2 != *'[unreadable]'* ]] || fail "$2"
}
files_are_closed() { ! pgrep -x pillion-private >/dev/null; }

test_run() { # session|service UID
	local profile
	begin_private "$1" "$2"
	as "$2" "${RUN[@]}" -- home/program 0.6 || fail "exit status $?"
	if [[ $1 == service && $2 != 0 ]]; then
		until_true "$PATIENCE" eval "compgen -G 'spool/.users/$2/program/*.pb.gz' >/dev/null" || fail "no profile: $(cat service.log)"
		profile=$(compgen -G "spool/.users/$2/program/*.pb.gz")
	else
		profile=$(first_of program)
	fi
	has_names "$("$LAB/bin/pillion" report --folded "$profile")" "$(gunzip -c "$profile" | tr -c '[:print:]' '\n')"
	until_true "$PATIENCE" files_are_closed || fail "a process that opens files is left"
	end_private "$1"
}
row "run, session, root: a library below a directory of mode 0700" test_run session 0
row "run, service, root: a library below a directory of mode 0700" test_run service 0
row "run, session, a user: a library below a directory of mode 0700" test_run session $ANNE
row "run, service, a user: a library below a directory of mode 0700" test_run service $ANNE

test_attach() { # session|service
	local target
	begin_private "$1" 0
	home/program 30 &
	target=$!
	until_true 10 eval '[[ $(readlink /proc/'$target'/exe) == */program ]]' || fail "it does not begin"
	"$LAB/bin/pillion" attach "${RUN[@]:2}" --duration 1s "$target" >path 2>said || fail "exit status $?: $(cat said)"
	has_names "$(folded_of program)" "$(comments_of program)"
	until_true "$PATIENCE" files_are_closed || fail "a process that opens files is left"
	kill $target
	wait $target || :
	end_private "$1"
}
row "attach, session, root: a library below a directory of mode 0700" test_attach session
row "attach, service, root: a library below a directory of mode 0700" test_attach service

# What it may: to read, and that in its role; it is nobody's of the program.
test_privilege() {
	local pid program
	begin_private session 0
	"${RUN[@]}" -- home/program 30 &
	program=$!
	until_true 20 pgrep -x pillion-private >/dev/null || fail "no process that opens files"
	pid=$(pgrep -x pillion-private)
	is "its privilege" "$(awk '/^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):/ { sub(":", "", $1); printf "%s=%s ", $1, $2 }' "/proc/$pid/status")" \
		"CapInh=0000000000000000 CapPrm=0000000000000004 CapEff=0000000000000004 CapAmb=0000000000000000 NoNewPrivs=1 Seccomp=2 "
	is "users that are root" "$(awk '/^[UG]id:/ { for (i = 2; i <= 5; i++) n += $i == 0 } END { print n + 0 }' "/proc/$pid/status")" 0
	is "children of the program" "$(pgrep -P $program | wc -l)" 0
	kill $program
	wait $program || :
	until_true "$PATIENCE" files_are_closed || fail "a process that opens files is left"
	end_private session
}
row "who opens files may read and no more, and is not the program's child" test_privilege
