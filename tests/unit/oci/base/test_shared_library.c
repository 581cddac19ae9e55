/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/shared_library.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>

static double (*cosine)(double);
static double (*sine)(double);

static const struct {
	const char *scenario, *sonames[3];
	struct shared_library_symbol symbols[3];
	const char *missing; /* "": it is open */
} rows[] = {
	{"it has all", {"libm.so.6"}, {{"cos", &cosine}, {"sin", &sine}}, ""},
	{"the second name is there", {"libpillion-none.so.1", "libm.so.6"}, {{"cos", &cosine}, {"sin", &sine}}, ""},
	{"no name is there", {"libpillion-none.so.1", "libpillion-none.so.2"}, {{"cos", &cosine}}, NULL},
	{"no library", {NULL}, {{"cos", &cosine}}, NULL},
	{"too old", {"libm.so.6"}, {{"cos", &cosine}, {"pillion_none", &sine}}, "pillion_none"},
	/* a library that is too old is the answer: the names are those of one version */
	{"the second one would have it", {"libdl.so.2", "libm.so.6"}, {{"cos", &cosine}}, "cos"},
};

START_TEST(what_is_found)
{
	const char *missing = "not set", *expected = rows[_i].missing;
	cosine = sine = NULL;
	void *library = shared_library_open(rows[_i].sonames, RTLD_NOW, rows[_i].symbols, &missing);
	ck_assert_msg((library != NULL) == (expected && !expected[0]), "%s", rows[_i].scenario);
	ck_assert_pstr_eq(missing, (library ? NULL : expected));
	if (!library)
		return;
	ck_assert(cosine(0) == 1 && sine(0) == 0);
	dlclose(library);
}
END_TEST

UNIT_SUITE(shared_library)
{
	Suite *s = suite_create("shared_library");
	TCase *t = tcase_create("shared_library");
	tcase_add_loop_test(t, what_is_found, 0, sizeof(rows) / sizeof(rows[0]));
	suite_add_tcase(s, t);
	return s;
}
