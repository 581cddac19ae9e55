# lines.sh - for the suites that look at names, files, lines and inlined calls, which source it: a program whose answers are
# known, what a profile says (by `go tool pprof -raw`), and what addr2line says of the same addresses.

. "$TOP/tests/integration/wrapped.sh"

# --- programs: `whole SECONDS [FILE [FIFO]]` waits until FIFO has a writer, uses so much CPU time, all of it in `churn`, into which
# `mix` and `next` are inlined, says so, and goes on until there is FILE. DWARF 4, which binutils reads best

SOURCE='#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>
namespace work {
struct Random {
	unsigned state;
	unsigned next() {
		for (int i = 0; i < 64; i++)
			state = state * 1664525u + 1013904223u;
		return state;
	}
};
inline unsigned mix(Random &r, unsigned n) {
	unsigned a = r.next();
	for (int i = 0; i < 8; i++)
		a = (a ^ n) * 2654435761u + (a >> 7);
	return a;
}
template <typename T> __attribute__((noinline, visibility("hidden"))) T churn(Random &r, int rounds) {
	T sum = 0;
	for (int i = 0; i < rounds; i++)
		sum += mix(r, i);
	return sum;
}
}
extern "C" __attribute__((noinline, visibility("default"))) unsigned long exported(work::Random &r) {
	unsigned long sum = work::churn<unsigned long>(r, 100000);
	return sum + 1;
}
int main(int argc, char **argv) {
	work::Random r{1};
	unsigned long sum = 0;
	timespec used;
	if (argc > 3)
		close(open(argv[3], O_RDONLY));
	do {
		sum += exported(r);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec + used.tv_nsec / 1e9 < strtod(argv[1], nullptr));
	printf("worked\n");
	fflush(stdout);
	while (argc > 2 && access(argv[2], F_OK) < 0)
		sum += exported(r);
	printf("%lu\n", sum);
}'
NAMED='work::mix(work::Random&, unsigned int)'

begin_symbols() { # [OPTION...] - with ./whole
	begin_run --events cpu@499 "$@"
	need g++
	echo "$SOURCE" >a.cc
	build_once whole -rdynamic
	cp "$LAB/lines/whole" whole
}
BUILD=(g++ -O2 -gdwarf-4 -fno-omit-frame-pointer -fno-optimize-sibling-calls)
build_once() { # NAME [OPTION...] - $LAB/lines/NAME
	[[ ! -e $LAB/lines/$1 ]] || return 0
	mkdir -p "$LAB/lines"
	(cd "$LAB/lines" && echo "$SOURCE" >a.cc && "${BUILD[@]}" "${@:2}" -o ".$1" a.cc && chmod 755 ".$1" && mv ".$1" "$1")
}

# --- reading: a line for each function at an address, innermost first: ADDRESS-IN-FILE, a tab, NAME, a tab, FILE:LINE

read -r -d '' LOCATIONS <<'AWK' || :
/^Locations/ { part = 2; next }
/^Mappings/ { part = 3; next }
part == 2 && /^ +[0-9]+: 0x/ { at = $2; module = $3; sub(/^ +[0-9]+: 0x[0-9a-f]+ (M=[0-9]+ )?(\[F\] )?/, "") }
part == 2 && match($0, / [^ ]*:[0-9]+(:[0-9]+)? s=[0-9]+/) {
	place = substr($0, RSTART + 1, RLENGTH - 1)
	sub(/ s=[0-9]+$/, "", place)
	name = substr($0, 1, RSTART - 1)
	sub(/^ +/, "", name)
	sub(/\([^()]*\)$/, "", place)
	lines[++n] = at "\t" module "\t" name "\t" place
}
part == 3 && /^[0-9]+: / { sub(/:/, "", $1); files["M=" $1] = $0; bases["M=" $1] = $2 }
END {
	for (i = 1; i <= n; i++) {
		split(lines[i], f, "\t")
		if (index(files[f[2]], program)) print f[1] "\t" f[3] "\t" f[4]
	}
}
AWK
raw() { go tool pprof -symbolize=none -raw "$1" 2>/dev/null; }
# pillion lays a module's addresses at 2^40 times its number (profiler/target/window.c)
locations() { # PROFILE PROGRAM
	raw "$1" | awk -v program="/$2 " "$LOCATIONS" | while IFS=$'\t' read -r at name place; do
		printf '0x%x\t%s\t%s\n' $((at & ((1 << 40) - 1))) "$name" "${place%:0}"
	done
}
as_addr2line() { # PROGRAM - the same of the addresses on stdin
	addr2line -a -f -i -C -e "$1" | awk '/^0x/ { at = $1; next } { name = $0; getline; sub(/ \(discriminator.*/, ""); print at "\t" name "\t" $0 }' |
		while IFS=$'\t' read -r at name place; do printf '0x%x\t%s\t%s\n' "$at" "$name" "$place"; done
}
names_of() { raw "$1" | awk "${LOCATIONS%END*}"'END { for (i = 1; i <= n; i++) { split(lines[i], f, "\t"); print f[3] } }' | sort -u; }

# A last window waits 1.5 s for lines, and a file's reader 0.2 s for an answer, no longer: on a busy machine some come too late, and
# the profile says how many at most, or that files were not read.
said_of_lines() { # PROFILE
	gunzip -c "$1" | tr -c '[:print:]' '\n' | grep -E 'not looked up in time|\[unreadable\] files were not read' || :
}
not_in_time() { # PROFILE
	said_of_lines "$1" | awk '/unreadable/ { n += 1e6 } { sub(/.*up to /, ""); n += $1 } END { printf "%d\n", n }'
}
is_as_addr2line() { # PROFILE PROGRAM FILE-WITH-DEBUG-INFORMATION [LATE] - so many may lack it, instead of what it says itself
	local late
	late=${4-$(not_in_time "$1")}
	locations "$1" "$2" >got
	# of the first entry of .plt, which no symbol and no line is of, it says ??:0
	(($(cut -f 1 got | sort -u | wc -l) >= 3)) || fail "too few addresses: $(cat got)"
	cut -f 1 got | uniq | as_addr2line "$3" >want
	awk -F '\t' 'FILENAME == "got" && $3 ~ /:[0-9]+$/ { there[$1] } FILENAME == "want" && $3 ~ /:[0-9]+$/ && $3 !~ /^\?\?/ && !($1 in there) { print $1 }' \
		got want | sort -u >lineless
	(($(wc -l <lineless) <= late)) || fail "$(wc -l <lineless) addresses have no line, not $late: $(said_of_lines "$1"; cat got)"
	((late)) || grep -qF "$NAMED" got || fail "nothing is inlined: $(cat got)"
	known want >known.want
	diff known.want <(known got) || fail "it is not what addr2line says"
}
# Without those, and without start-up code, of which addr2line knows nothing, or the file alone, by .symtab.
known() { # FILE
	awk -F '\t' '$3 ~ /\?\?|^crtstuff\.c:\?$/ { print $1 }' want | cat lineless - >unknown
	awk -F '\t' 'FILENAME == ARGV[1] { unknown[$1]; next } !($1 in unknown)' unknown "$1"
}
has_no_lines() { # PROFILE PROGRAM
	locations "$1" "$2" >got
	[[ -s got ]] || fail "nothing of it is in the profile: $(raw "$1")"
	! grep -q 'a\.cc' got || fail "it has lines: $(cat got)"
}
