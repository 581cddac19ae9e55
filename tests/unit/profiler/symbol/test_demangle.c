/* SPDX-License-Identifier: Apache-2.0 */
/* demangle: names as c++filt(1) prints them and Rust's as rustfilt does; and what is left as it is. */
#include "profiler/symbol/demangle.h"

#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name, *text; /* NULL: left as it is */
	bool filt;		 /* c++filt says the same */
} rows[] = {
	{"_Z3foov", "foo()", true},
	{"_ZN3foo3barEi", "foo::bar(int)", true},
	{"_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector<int, std::allocator<int> >::size() const", true},
	{"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1ERKS4_",
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string("
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
		true},
	{"_ZNSsC1ERKSs",
		"std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string(std::basic_"
		"string<char, std::char_traits<char>, std::allocator<char> > const&)",
		true},
	{"_ZTV3Box", "vtable for Box", true},
	{"_ZThn8_N1B1fEv", "non-virtual thunk to B::f()", true},
	{"_ZGVZ4mainE1x", "guard variable for main::x", true},
	{"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const", true},
	{"_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()", true},
	{"_Z3addIiET_S0_S0_", "int add<int>(int, int)", true},
	{"_ZplRK1AS1_", "operator+(A const&, A const&)", true},
	{"_ZN1AD0Ev", "A::~A()", true},
	{"_Z3foov.cold", "foo() [clone .cold]", true},
	{"_Z3foov.constprop.0.isra.0", "foo() [clone .constprop.0] [clone .isra.0]", true},
	{"_GLOBAL__I_main", "global constructors keyed to main", true},
	{"_GLOBAL__sub_I_main", NULL, true},
	/* Rust: legacy, whose hash is for the linker, and v0 */
	{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", false},
	{"_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
		"core::ptr::drop_in_place<alloc::string::String>", false},
	{"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
		"<Test + 'static as foo::Bar<Test>>::bar", false},
	{"_ZN4main17h0123456789abcdefE.llvm.123", "main", false},
	{"_RNvCs1234_7mycrate3foo", "mycrate::foo", false},
	{"_RNvMs_Cs4fqI2P2rA04_6mycrateNtB4_3Foo3bar", NULL, false}, /* an impl without its path's type */
	{"_RNCNvCs1234_7mycrate4main0B3_", "mycrate::main::{closure#0}", false},
	{"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>", false},
	{"_RNvCs1234_7mycrateu8gdel_5qa", "mycrate::gödel", false},
	/* no mangled names, or no whole ones */
	{"main", NULL, true},
	{"", NULL, false},
	{"_", NULL, true},
	{"__", NULL, true},
	{"_Z", NULL, true},
	{"_R", NULL, true},
	{"__Z", NULL, true},
	{"_ZN", NULL, true},
	{"_ZN3foo", NULL, true},
	{"_ZN99999999999999999999foo", NULL, true},
	{"_Zzzzzz", NULL, true},
	{"_RNv", NULL, true},
	{"_RNvBffffffffffffff_", NULL, true}, /* a reference to what lies behind it */
	{"_RNvB_3foo", NULL, true},	      /* and to itself */
	{"_GLOBAL_", NULL, true},
	{"Z3foov", NULL, true},
	{"runtime.main", NULL, true},
	{"_Zebra crossing", NULL, true},
};

/* What c++filt makes of it; "" if it cannot be asked. */
static void filtered(const char *name, char *buf, size_t size)
{
	char command[1024];
	buf[0] = 0;
	snprintf(command, sizeof(command), "c++filt '%s'", name);
	FILE *f = popen(command, "re");
	if (f && !fgets(buf, (int)size, f))
		buf[0] = 0;
	buf[strcspn(buf, "\n")] = 0;
	ck_assert(f && pclose(f) == 0);
}

START_TEST(names)
{
	char text[1024] = "untouched";
	bool any = demangle_symbol(rows[_i].name, text, sizeof(text));
	ck_assert_msg(any == (rows[_i].text != NULL), "%s: %s", rows[_i].name, any ? text : "not demangled");
	ck_assert_str_eq(text, any ? rows[_i].text : "untouched");
	ck_assert(!any || demangle_wanted(rows[_i].name));
}
END_TEST

START_TEST(as_cxxfilt)
{
	char text[1024];
	if (!rows[_i].filt)
		return;
	if (skip_without("c++filt"))
		return;
	filtered(rows[_i].name, text, sizeof(text));
	ck_assert_str_eq(rows[_i].text ? rows[_i].text : rows[_i].name, text);
}
END_TEST

START_TEST(wanted_is_cheap)
{
	static const char *const not [] = {"", "_", "__", "main", "__libc_start_main", "_start", "Z3foov", "_GLOBA"};
	for (size_t i = 0; i < LENGTH(not ); i++)
		ck_assert_msg(!demangle_wanted(not [i]), "%s", not [i]);
	for (size_t n = 0; n < 9; n++) { /* no byte behind the end is looked at */
		char *exact = strndup("_GLOBAL_", n);
		ck_assert(demangle_wanted(exact) == (n == 8));
		free(exact);
	}
}
END_TEST

START_TEST(cut_to_the_room)
{
	for (size_t size = 1; size <= 16; size++) {
		char *text = malloc(size);
		ck_assert(demangle_symbol("_ZN3foo3barEi", text, size));
		ck_assert_uint_eq(strlen(text), size - 1 < 13 ? size - 1 : 13);
		ck_assert(!strncmp(text, "foo::bar(int)", size - 1));
		free(text);
	}
}
END_TEST

/* A function of N arguments, each "a::b"; long names are a template's daily bread. */
START_TEST(long_but_not_hostile)
{
	static const size_t args[] = {10, 200, 600};
	char name[DEMANGLE_LONG + 1], text[3 * DEMANGLE_LONG];
	size_t used = (size_t)sprintf(name, "_Z1f");
	for (size_t i = 0; i < args[_i]; i++)
		used += (size_t)sprintf(name + used, "N1a1bE");
	ck_assert(demangle_symbol(name, text, sizeof(text)));
	ck_assert_uint_eq(strlen(text), strlen("f()") + args[_i] * strlen("a::b, ") - 2);
}
END_TEST

/* A hundred thousand bytes of name: one identifier, and what opens and never ends. */
START_TEST(very_long)
{
	static const char *const piece[] = {"a", "P", "N3foo", "I", "F", "1a", "K", "St", "XplL", "Z1fE", "Dv_", "_"};
	static const char *const begin[] = {"_Z1f", "_ZN1f", "_Z1fIX", "_RNvC", "_RINvC1a1bT", "_RNvMC1a"};
	const size_t rooms[] = {DEMANGLE_LONG, DEMANGLE_LONG + 1, 100000};
	char *name = malloc(rooms[_i] + 1), text[256];
	for (size_t i = 0; i < LENGTH(piece) * LENGTH(begin); i++) {
		size_t used = (size_t)sprintf(name, "%s", begin[i % LENGTH(begin)]),
		       more = strlen(piece[i / LENGTH(begin)]);
		for (; used + more <= rooms[_i]; used += more)
			memcpy(name + used, piece[i / LENGTH(begin)], more + 1);
		demangle_symbol(name, text, sizeof(text)); /* comes back, whatever it says */
	}
	size_t id = rooms[_i] - (rooms[_i] < 10000 ? 7 : 8), at = (size_t)sprintf(name, "_Z%zu", id);
	memset(name + at, 'a', id);
	memcpy(name + at + id, "v", 2);
	ck_assert_uint_eq(strlen(name), rooms[_i]);
	ck_assert(demangle_symbol(name, text, sizeof(text)) == (rooms[_i] <= DEMANGLE_LONG));
	free(name);
}
END_TEST

UNIT_SUITE(demangle)
{
	Suite *s = suite_create("demangle");
	TCase *t = tcase_create("demangle");

	tcase_set_timeout(t, 20);
	tcase_add_loop_test(t, names, 0, LENGTH(rows));
	tcase_add_loop_test(t, as_cxxfilt, 0, LENGTH(rows));
	tcase_add_test(t, wanted_is_cheap);
	tcase_add_test(t, cut_to_the_room);
	tcase_add_loop_test(t, long_but_not_hostile, 0, 3);
	tcase_add_loop_test(t, very_long, 0, 3);
	suite_add_tcase(s, t);
	return s;
}
