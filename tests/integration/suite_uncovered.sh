# suite_uncovered - code that no entry covers: no symbol, no unwind entry, no table at all. It has a name of its own or none, never
# that of what lies before it; and stacks go through it.

. "$TOP/tests/integration/lines.sh"

# --- names. ./program spins in code at `spin`, which main calls with a number of rounds; the rest of it is in part.S

MAIN='extern long spin(long);
extern __attribute__((weak)) long stamp(long);
__attribute__((noinline)) long caller(long n) { return spin(n) + 1; }
int main(void) { return (int)caller(1200000000); }'
SPIN='	dec %rdi
	jnz .-3
	lea 1(%rdi), %rax
	ret'
build_part() { # ASSEMBLY [OPTION...] - ./program, stripped, and ./whole
	echo "$MAIN" >main.c
	printf '	.section .note.GNU-stack,"",@progbits\n	.text\n	.balign 16\n%s\n' "$1" >part.S
	gcc -O1 -fno-toplevel-reorder -rdynamic "${@:2}" -o whole main.c part.S
	cp whole program
	strip -s program
}
address_of() { nm whole | awk -v name="$1" '$3 == name { print $1 }'; } # SYMBOL - in hexadecimal
spins() { # REGEX - of the innermost frame of nearly all samples, whose stacks are whole
	"${RUN[@]}" -- ./program >/dev/null || :
	(($(folded_of program | share ";main;caller;$1 ") >= 95)) || fail "not ;main;caller;$1: $(folded_of program)"
}

begin_part() {
	begin_run --events cpu@499
	need gcc strip nm
}
hex_of() { printf '%x' $((16#$1 + $2)); } # HEXADECIMAL N
test_no_entry() { # far behind the last entry
	begin_part
	build_part ".fill 65536, 1, 0xcc
	.globl spin
	.hidden spin
spin:
$SPIN"
	local at
	at=$(address_of spin)
	spins "program\\+0x($(hex_of "$at" 0)|$(hex_of "$at" 3)|$(hex_of "$at" 1))"
	end_run
}
row "code without an entry, far behind the last function: its own address" test_no_entry

test_gap() { # between two functions that have one
	begin_part
	build_part ".globl before
before:	.cfi_startproc
	ret
	.cfi_endproc
	.type before, @function
	.size before, .-before
	.balign 64
	.hidden spin
	.globl spin
spin:
$SPIN
	.balign 64
after:	.cfi_startproc
	ret
	.cfi_endproc"
	local at
	at=$(address_of spin)
	spins "program\\+0x($(hex_of "$at" 0)|$(hex_of "$at" 3))"
	end_run
}
row "code between two functions: not the first one's name" test_gap

test_label() { # GAP ENTRY EXPECT - a label without a size, and the code that runs, so many bytes behind it
	begin_part
	build_part ".globl label
label:
	$([[ $2 != one ]] || echo .cfi_startproc)
	nop
	$([[ $2 != two ]] || printf '.cfi_startproc\n	nop\n	.cfi_endproc')
	.org label + $1
	$([[ $2 != two ]] || echo .cfi_startproc)
	.globl spin
	.hidden spin
spin:
$SPIN
	$([[ $2 == none ]] || echo .cfi_endproc)"
	local at
	at=$(address_of spin)
	spins "$(sed "s/AT/$(hex_of "$at" 0)/; s/NEXT/$(hex_of "$at" 3)/" <<<"$3")"
	end_run
}
row "a label without a size: what lies near behind it" test_label 256 none label
row "a label without a size: not what lies 5 KiB behind it" test_label 5000 none 'program\+0x(AT|NEXT)'
row "a label without a size: all of its entry, however long" test_label 9000 one label
row "a label without a size: not the next entry" test_label 256 two 'program\+0xAT'

# --- stacks through a C library without tables (musl): all of them come from main, or from the thread's function

MUSL='#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void *work(void *arg)
{
	static _Thread_local int numbers[20000];
	static _Thread_local char text[1 << 16];
	struct timespec used;
	do {
		for (int i = 0; i < 20000; i++)
			numbers[i] = rand();
		qsort(numbers, 20000, sizeof(numbers[0]), compare);
		for (int i = 0; i < 2000; i++)
			snprintf(text, sizeof(text), "%d %s %.10g", i, "text", i * 1.7);
		memset(text, 65, 60000);
		text[60000] = 0;
		for (int i = 0; i < 100; i++)
			free(strdup(strstr(text, "AAAAAA")));
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	} while (used.tv_sec + used.tv_nsec / 1e9 < 1);
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc < 2)
		return !work(&thread);
	if (pthread_create(&thread, NULL, work, argv))
		return 1;
	return pthread_join(thread, NULL);
}'
begin_musl() { # [OPTION...]
	begin_run --events cpu@499
	need musl-gcc
	echo "$MUSL" >musl.c
	musl-gcc -O2 -fno-optimize-sibling-calls -rdynamic "$@" -o program musl.c
}
test_musl() { # REGEX [ARGUMENT [OPTION...]]
	begin_musl "${@:3}"
	"${RUN[@]}" -- ./program ${2:+"$2"}
	(($(folded_of program | grep -v '\[truncated: stack\]' | share "$1") >= 98)) || fail "not by $1: $(folded_of program | grep -vE "$1")"
	has "the profile's notes" "$(comments_of program)" '[0-9]+ of [0-9]+ stacks go through code without unwind tables'
	end_run
}
row "a program of musl's: its stacks are whole" test_musl '^program;[^;]*;main;[^;]*'
row "a thread of musl's: its stacks are whole" test_musl '^program;[^;]*;[^;]*;[^;]*' thread
row "a thread of a static program of musl's, stripped: its stacks are whole" test_musl '^program;program\+0x[^;]*;program\+0x' thread -static -s

# --- hand-written assembly: each sample has the callers that calls left on the stack (tests/bench/record_calls.c)

GMP='#include <gmp.h>
int main(void)
{
	mpz_t a, b, m, r;
	gmp_randstate_t state;
	mpz_inits(a, b, m, r, NULL);
	gmp_randinit_default(state);
	for (;;) {
		mpz_urandomb(a, state, 4096);
		mpz_urandomb(b, state, 512);
		mpz_urandomb(m, state, 4096);
		mpz_setbit(m, 0);
		mpz_powm(r, a, b, m);
		mpz_mul(r, r, a);
		mpz_tdiv_q(r, r, b);
		mpz_gcd(r, r, m);
		mpz_root(r, a, 3);
	}
}'
has_callers() { # BY-CODE COMMAND... - so many of 2,000 samples at least by its code, for lack of tables
	make -s --no-print-directory -C "$TOP" B="$B" bench-unwinders >/dev/null
	"$B/bench/record_calls" corpus 2000 97 "${@:2}" >said 2>&1 || fail "no samples: $(cat said)"
	"$B/bench/unwinders" --callers corpus >result
	local n right other code
	read -r n right other code < <(sed -nE 's/^corpus: ([0-9]+) samples, ([0-9]+) .* callers, ([0-9]+) have another; ([0-9]+) by.*/\1 \2 \3 \4/p' result)
	is "samples" "$n" 2000
	is "with another caller" "$other" 0
	((right * 100 >= n * 98 && code >= $1)) || fail "$right of $n have their callers, $code by code: $(sort result | uniq -c)"
}
test_gmp() {
	need gcc
	echo "$GMP" >gmp.c
	gcc -O2 -o program gmp.c -lgmp 2>gcc.out || skip "it does not build: $(tail -n 1 gcc.out)"
	has_callers 1000 ./program
}
row "GMP: its assembly has the callers that called it" test_gmp
test_x264() {
	need x264
	head -c 15206400 /dev/urandom >noise.yuv # 100 pictures
	has_callers 500 x264 --threads 1 --input-res 352x288 -o /dev/null noise.yuv
}
row "x264: its assembly has the callers that called it" test_x264
test_openssl() { # which has tables
	need openssl
	has_callers 0 openssl speed -seconds 1000 -evp aes-256-gcm
}
row "OpenSSL: its assembly has the callers that called it" test_openssl
