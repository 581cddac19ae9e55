/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/container.h"

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

static void good(struct container *c)
{
	container_init(c);
	c->verdict = DECISION_PROFILE;
	c->pid = 4242;
	strncpy(c->id, "c1", sizeof(c->id) - 1);
	strncpy(c->bundle, "/run/bundles/c1", sizeof(c->bundle) - 1);
	strncpy(c->root, "/run/bundles/c1/rootfs", sizeof(c->root) - 1);
	request_default(&c->request);
	strncpy(c->request.events, "cpu", sizeof(c->request.events) - 1);
	c->request.n_labels = 1;
	c->request.labels[0] = (struct label){"team", "web"};
}

#define OF(f) offsetof(struct container, f), sizeof(((struct container *)0)->f)

/* One field of a good struct is overwritten with a byte pattern. */
static const struct check_case {
	const char *scenario;
	size_t offset, size;
	int fill;
	int profile, other; /* expected for DECISION_PROFILE, and for DECISION_OFF */
} check_cases[] = {
	{"a good one", OF(magic), -1, 0, 0},
	{"another magic", OF(magic), 'x', -EBADMSG, -EBADMSG},
	{"another size", OF(size), 1, -EBADMSG, -EBADMSG},
	{"pid 0", OF(pid), 0, -EBADMSG, 0},
	{"a negative pid", OF(pid), 0xff, -EBADMSG, 0},
	{"a pid beyond the kernel's", OF(pid), 0x7f, -EBADMSG, 0},
	{"an id without end", OF(id), 'a', -EBADMSG, -EBADMSG},
	{"an empty id", OF(id), 0, -EBADMSG, 0},
	{"a slash as id", offsetof(struct container, id), 1, '/', -EBADMSG, 0},
	{"a control character in the id", offsetof(struct container, id), 1, '\n', -EBADMSG, -EBADMSG},
	{"a bundle without end", OF(bundle), '/', -EBADMSG, -EBADMSG},
	{"a bundle that is relative", offsetof(struct container, bundle), 1, 'x', -EBADMSG, 0},
	{"a root without end", OF(root), '/', -EBADMSG, -EBADMSG},
	{"an empty root", OF(root), 0, -EBADMSG, 0},
	{"an exe without end", OF(exe), 'a', -EBADMSG, -EBADMSG},
	{"an exe in another script", offsetof(struct container, exe), 1, 0xc3, 0, 0},
	{"a name without end", OF(name), 'a', -EBADMSG, -EBADMSG},
	{"an escape in the pod's name", offsetof(struct container, pod), 1, 0x1b, -EBADMSG, -EBADMSG},
	{"a namespace without end", OF(pod_namespace), 'a', -EBADMSG, -EBADMSG},
	{"a service without end", OF(service), 'a', -EBADMSG, -EBADMSG},
	{"a warning without end", OF(warning), 'a', -EBADMSG, -EBADMSG},
	{"a reason without end", OF(reason), 'a', -EBADMSG, -EBADMSG},
	{"events without end", OF(request.events), 'a', -EBADMSG, -EBADMSG},
	{"no events", OF(request.events), 0, -EBADMSG, 0},
	{"stacks out of range", OF(request.stacks), 4, -EBADMSG, 0},
	{"attach out of range", OF(request.attach), 3, -EBADMSG, 0},
	{"a window of zero", OF(request.window_s), 0, -EBADMSG, 0},
	{"a window without end", OF(request.window_s), 0xff, -EBADMSG, 0},
	{"more labels than there is room", OF(request.n_labels), 17, -EBADMSG, 0},
	{"a label key without end", OF(request.labels[0].key), 'a', -EBADMSG, 0},
	{"an empty label key", OF(request.labels[0].key), 0, -EBADMSG, 0},
	{"a label value without end", OF(request.labels[0].value), 'a', -EBADMSG, 0},
	{"a newline in a label value", offsetof(struct container, request.labels[0].value), 1, '\n', -EBADMSG, 0},
	{"rubbish in a label that is not counted", OF(request.labels[1]), 0xff, 0, 0},
};

START_TEST(one_bad_field_is_found)
{
	const struct check_case *c = &check_cases[_i];
	struct container *x = malloc(sizeof(*x));

	good(x);
	if (c->fill >= 0)
		memset((char *)x + c->offset, c->fill, c->size);
	ck_assert_msg(container_check(x) == c->profile, "%s, to be profiled", c->scenario);
	x->verdict = DECISION_OFF;
	ck_assert_msg(container_check(x) == c->other, "%s, not to be profiled", c->scenario);
	free(x);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(only_final_verdicts_pass)
{
	struct container *x = malloc(sizeof(*x));

	good(x);
	for (uint32_t v = 0; v < 8; v++) {
		x->verdict = v;
		ck_assert_int_eq(container_check(x), v >= DECISION_PROFILE && v <= DECISION_INVALID ? 0 : -EBADMSG);
	}
	x->verdict = DECISION_PROFILE;
	x->pid = 1;
	ck_assert_int_eq(container_check(x), -EBADMSG);
	x->pid = CONTAINER_PID_MAX;
	ck_assert_int_eq(container_check(x), 0);
	free(x);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(labels_beyond_the_array_are_not_looked_at)
{
	struct container *x = malloc(sizeof(*x));

	good(x);
	for (uint32_t i = 0; i < LABELS_MAX; i++)
		x->request.labels[i] = (struct label){"team", "web"};
	memset(x->warning, 0, sizeof(x->warning));
	x->warning[0] = 'w'; /* what follows the array reads as one more good label */
	x->request.n_labels = LABELS_MAX;
	ck_assert_int_eq(container_check(x), 0);
	x->request.n_labels = LABELS_MAX + 1;
	ck_assert_int_eq(container_check(x), -EBADMSG);
	free(x);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *id;
	bool valid;
} ids[] = {
	{"c1", true},
	{"A_z+0.9-", true},
	{"...", true},
	{"", false},
	{".", false},
	{"..", false},
	{"a/b", false},
	{"a b", false},
	{"a\n", false},
	{"\xc3\xa4", false},
};

START_TEST(an_id_can_be_a_file_name)
{
	ck_assert_msg(container_id_valid(ids[_i].id) == ids[_i].valid, "\"%s\"", ids[_i].id);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* An answer that changed between two versions would leave containers half treated. */
static const struct {
	const char *id;
	uint32_t one_in;
	bool sampled;
} samples[] = {
	{"c1", 0, true},
	{"c1", 1, true},
	{"c0", 2, false},
	{"c1", 2, false},
	{"c2", 2, true},
	{"c3", 2, true},
	{"c0", 3, true},
	{"c4", 3, false},
	{"web", 7, false},
	{"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 2, true},
	{"", 1, true},
};

START_TEST(a_sample_is_the_same_for_ever)
{
	ck_assert_msg(container_sampled(samples[_i].id, samples[_i].one_in) == samples[_i].sampled, "\"%s\", 1 in %u",
		samples[_i].id, samples[_i].one_in);
}
END_TEST

static const uint32_t one_ins[] = {2, 3, 10, 64, 100};

START_TEST(a_sample_is_as_large_as_asked_for)
{
	uint32_t one_in = one_ins[_i], many = 1000 * one_in, n = 0;
	char id[16];

	for (uint32_t i = 0; i < many; i++) {
		snprintf(id, sizeof(id), "web-%u", i);
		n += container_sampled(id, one_in);
	}
	ck_assert_msg(n > 850 && n < 1150, "one of %u: %u of %u", one_in, n, many);
}
END_TEST

UNIT_SUITE(container)
{
	Suite *s = suite_create("container");
	TCase *t = tcase_create("container");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, one_bad_field_is_found, 0, LENGTH(check_cases));
	tcase_add_test(t, only_final_verdicts_pass);
	tcase_add_test(t, labels_beyond_the_array_are_not_looked_at);
	tcase_add_loop_test(t, an_id_can_be_a_file_name, 0, LENGTH(ids));
	tcase_add_loop_test(t, a_sample_is_the_same_for_ever, 0, LENGTH(samples));
	tcase_add_loop_test(t, a_sample_is_as_large_as_asked_for, 0, LENGTH(one_ins));
	suite_add_tcase(s, t);
	return s;
}
