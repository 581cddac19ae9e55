/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/annotations.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

static void same_fds(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

static const struct annotation_case {
	const char *scenario, *container;
	const char *pairs[8]; /* key, value, ... */
	int code;
	const char *sentence, *warning; /* part of the text, NULL = none */
	const char *events;
	uint32_t window_s;
} annotation_cases[] = {
	{"nothing of ours", NULL, {"a", "b"}, 0, NULL, NULL, "", 60},
	{"on is cpu", NULL, {"io.pillion.profile", "on"}, 0, NULL, NULL, "cpu", 60},
	{"off hides everything that is wrong", NULL, {"io.pillion.window", "soon", "io.pillion.profile", "off"}, 0,
		NULL, NULL, "off", 60},
	{"no switch hides everything that is wrong", NULL, {"io.pillion.window", "soon"}, 0, NULL, NULL, "", 60},
	{"a bad value", NULL, {"io.pillion.window", "soon", "io.pillion.profile", "on"}, -EINVAL,
		"annotation io.pillion.window: \"soon\" is not 5s to 3600s", NULL, NULL, 0},
	{"the container's own key wins", "web",
		{"io.pillion.window/container.web", "70s", "io.pillion.window", "80s", "io.pillion.profile", "on"}, 0,
		NULL, NULL, "cpu", 70},
	{"another container's key does not count", "web",
		{"io.pillion.window/container.db", "soon", "io.pillion.window", "80s", "io.pillion.profile", "on"}, 0,
		NULL, NULL, "cpu", 80},
	{"on for one container only", "web", {"io.pillion.profile/container.db", "on"}, 0, NULL, NULL, "", 60},
	{"off for one container", "web", {"io.pillion.profile", "on", "io.pillion.profile/container.web", "off"}, 0,
		NULL, NULL, "off", 60},
	{"a container without a name", "", {"io.pillion.profile/container.", "on"}, 0, NULL, NULL, "", 60},
	{"a name that begins like another", "we", {"io.pillion.profile/container.web", "on"}, 0, NULL, NULL, "", 60},
	{"the container's own bad value is named", "web",
		{"io.pillion.profile/container.web", "on", "io.pillion.stacks/container.web", "x"}, -EINVAL,
		"io.pillion.stacks/container.web: \"x\"", NULL, NULL, 0},
	{"an unknown key", NULL, {"io.pillion.profile", "on", "io.pillion.windows", "9s"}, 0, NULL,
		"io.pillion.windows is unknown", "cpu", 60},
	{"a typo in the switch", NULL, {"io.pillion.profil", "on"}, 0, NULL, "io.pillion.profil is unknown", "", 60},
	{"an unknown form of a known key", NULL, {"io.pillion.profile/pod", "on"}, 0, NULL,
		"io.pillion.profile/pod is unknown", "", 60},
	{"an escape sequence in a key", NULL, {"io.pillion.\033[2J", "on"}, 0, NULL, "io.pillion.?[2J is unknown", "",
		60},
	{"an administrator's option", NULL, {"io.pillion.profile", "on", "io.pillion.spool", "/x"}, 0, NULL,
		"io.pillion.spool is unknown", "cpu", 60},
	{"the last of two equal keys", NULL, {"io.pillion.profile", "off", "io.pillion.profile", "wall"}, 0, NULL, NULL,
		"wall", 60},
	{"a prefix that is not ours", NULL, {"io.pillionx.profile", "on"}, 0, NULL, NULL, "", 60},
	{"an empty switch", NULL, {"io.pillion.profile", ""}, -EINVAL, "io.pillion.profile: \"\" is not", NULL, NULL,
		0},
};

START_TEST(annotations_yield_a_request)
{
	const struct annotation_case *c = &annotation_cases[_i];
	struct annotations *a;
	struct request r;
	struct err e = {0};
	char warning[320];

	ck_assert_int_eq(annotations_new(&a), 0);
	for (size_t i = 0; i < LENGTH(c->pairs) && c->pairs[i]; i += 2)
		ck_assert_int_eq(annotations_add(a, c->pairs[i], c->pairs[i + 1]), 0);
	int code = annotations_finish(a, c->container, &r, warning, sizeof(warning), &e);
	ck_assert_ptr_null(annotations_free(a));
	ck_assert_msg(code == c->code, "%s: %d \"%s\"", c->scenario, code, e.text);
	if (c->sentence)
		ck_assert_msg(strstr(e.text, c->sentence) != NULL, "%s: \"%s\"", c->scenario, e.text);
	ck_assert_msg(c->warning ? strstr(warning, c->warning) != NULL : !*warning, "%s: \"%s\"", c->scenario, warning);
	if (code == 0) {
		ck_assert_msg(!strcmp(r.events, c->events), "%s: events \"%s\"", c->scenario, r.events);
		ck_assert_msg(r.window_s == c->window_s, "%s: window %u", c->scenario, r.window_s);
	}
	same_fds();
}
END_TEST

START_TEST(annotations_are_bounded)
{
	struct annotations *a;
	struct request r;
	struct err e = {0};
	char warning[320], *big = calloc(1, ANNOTATION_VALUE_MAX + 2);

	ck_assert_int_eq(annotations_new(&a), 0);
	memset(big, 'a', ANNOTATION_VALUE_MAX + 1);
	ck_assert_int_eq(annotations_add(a, "io.pillion.profile", big), 0);
	ck_assert_int_eq(annotations_finish(a, NULL, &r, warning, sizeof(warning), &e), -EINVAL);
	ck_assert_ptr_nonnull(strstr(e.text, "no string of at most 4096 bytes"));
	for (int i = 1; i < ANNOTATIONS_MAX; i++)
		ck_assert_int_eq(annotations_add(a, "io.pillion.profile", NULL), 0);
	ck_assert_int_eq(annotations_add(a, "other", "x"), 0);
	ck_assert_int_eq(annotations_add(a, "io.pillion.profile", "on"), -E2BIG);
	annotations_free(a);
	free(big);
	same_fds();
}
END_TEST

UNIT_SUITE(annotations)
{
	Suite *s = suite_create("annotations");
	TCase *t = tcase_create("annotations");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, annotations_yield_a_request, 0, LENGTH(annotation_cases));
	tcase_add_test(t, annotations_are_bounded);
	suite_add_tcase(s, t);
	return s;
}
