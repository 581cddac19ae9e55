/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/nri_container.h"

#include "oci/config/annotations.h"
#include "tests/unit/support/nri_said.h"
#include "tests/unit/support/pages.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ID "0123456789abcdef"

/* A container as a runtime tells of it; NULL: it does not say. */
static const struct told {
	const char *scenario;
	const char *id, *name, *pod;
	uint64_t pid;
	const char *container[8], *annotations[8], *labels[4]; /* key, value, ...; of the container, of the Pod */
	enum profile_decision verdict;
	const char *text; /* part of the reason or warning */
	const char *events, *service;
} cases[] = {
	{"nothing is asked for", ID, "web", "shop", 99, {0}, {0}, {0}, DECISION_OFF, NULL, "", ""},
	{"the Pod asks", ID, "web", "shop", 99, {0}, {"io.pillion.profile", "cpu"}, {0}, DECISION_PROFILE, NULL, "cpu",
		""},
	{"its one container asks", ID, "web", "shop", 99, {0}, {"io.pillion.profile/container.web", "cpu"}, {0},
		DECISION_PROFILE, NULL, "cpu", ""},
	{"another one of it asks", ID, "web", "shop", 99, {0}, {"io.pillion.profile/container.db", "cpu"}, {0},
		DECISION_OFF, NULL, "", ""},
	{"the Pod asks, this one does not", ID, "web", "shop", 99, {0},
		{"io.pillion.profile", "cpu", "io.pillion.profile/container.web", "off"}, {0}, DECISION_OFF, NULL,
		"off", ""},
	{"the container's own annotation", ID, "web", "shop", 99, {"io.pillion.profile", "cpu"}, {0}, {0},
		DECISION_PROFILE, NULL, "cpu", ""},
	{"the Pod's comes over it", ID, "web", "shop", 99, {"io.pillion.profile", "cpu"}, {"io.pillion.profile", "off"},
		{0}, DECISION_OFF, NULL, "off", ""},
	{"a service's name as a label", ID, "web", "shop", 99, {0}, {"io.pillion.profile", "cpu"},
		{"app.kubernetes.io/name", "till"}, DECISION_PROFILE, NULL, "cpu", "till"},
	{"and as an annotation, which the hook goes by", ID, "web", "shop", 99, {0},
		{"io.pillion.profile", "cpu", "app.kubernetes.io/name", "desk"}, {"app.kubernetes.io/name", "till"},
		DECISION_PROFILE, NULL, "cpu", "desk"},
	{"a pause container", ID, "POD", "shop", 99, {"io.kubernetes.cri-o.ContainerType", "sandbox"},
		{"io.pillion.profile", "cpu"}, {0}, DECISION_SANDBOX, NULL, "cpu", ""},
	{"a value that is none", ID, "web", "shop", 99, {0}, {"io.pillion.profile", "cpu", "io.pillion.window", "soon"},
		{0}, DECISION_INVALID, "io.pillion.window: \"soon\"", NULL, ""},
	{"a key that is none", ID, "web", "shop", 99, {0}, {"io.pillion.profile", "cpu", "io.pillion.windows", "9s"},
		{0}, DECISION_PROFILE, "io.pillion.windows is unknown", "cpu", ""},
	{"control characters in a name", ID, "w\033[2Jeb", "sh\nop", 99, {0}, {"io.pillion.profile", "cpu"},
		{"app.kubernetes.io/name", "t\til\177l"}, DECISION_PROFILE, NULL, "cpu", "t?il?l"},
	{"control characters in a value", ID, "web", "shop", 99, {0}, {"io.pillion.profile", "cpu\033[2J"}, {0},
		DECISION_INVALID, "io.pillion.profile", NULL, ""},
	{"no pid", ID, "web", "shop", 0, {0}, {"io.pillion.profile", "cpu"}, {0}, DECISION_INVALID,
		"does not tell the container's pid", NULL, ""},
	{"the machine's init", ID, "web", "shop", 1, {0}, {"io.pillion.profile", "cpu"}, {0}, DECISION_INVALID,
		"1 is no container's pid", NULL, ""},
	{"a pid beyond all", ID, "web", "shop", 1ull << 32 | 99, {0}, {"io.pillion.profile", "cpu"}, {0},
		DECISION_INVALID, "4294967395 is no container's pid", NULL, ""},
	{"a bad pid where nothing is asked for", ID, "web", "shop", 1, {0}, {0}, {0}, DECISION_OFF, NULL, "", ""},
	{"no id", NULL, "web", "shop", 99, {0}, {"io.pillion.profile", "cpu"}, {0}, DECISION_INVALID,
		"id is not a name", NULL, ""},
	{"an id that is a path", "../../x", "web", "shop", 99, {0}, {"io.pillion.profile", "cpu"}, {0},
		DECISION_INVALID, "id is not a name", NULL, ""},
	{"no names at all", ID, NULL, NULL, 99, {0}, {"io.pillion.profile", "cpu"}, {0}, DECISION_PROFILE, NULL, "cpu",
		""},
	{"a module of WebAssembly", ID, "web", "shop", 99, {"run.oci.handler", "wasm-smart"},
		{"io.pillion.profile", "cpu"}, {0}, DECISION_INVALID, "its program is WebAssembly", NULL, ""},
	{"a virtual machine", ID, "web", "shop", 99, {"run.oci.handler", "krun"}, {"io.pillion.profile", "cpu"}, {0},
		DECISION_INVALID, "it is a virtual machine", NULL, ""},
	{"a virtual machine that nobody asked for", ID, "web", "shop", 99, {"run.oci.handler", "krun"}, {0}, {0},
		DECISION_OFF, NULL, "", ""},
	{"a handler that is none of those", ID, "web", "shop", 99, {"run.oci.handler", "was"},
		{"io.pillion.profile", "cpu"}, {0}, DECISION_PROFILE, NULL, "cpu", ""},
};

enum { BUF = 4 << 20 };
static uint8_t *buf, *inner;

static void setup(void)
{
	buf = pages_new(BUF);
	inner = pages_new(BUF);
}

static void put_pairs(struct protobuf_writer *o, uint32_t number, const char *const *pairs)
{
	for (; *pairs; pairs += 2)
		said_pair(o, number, pairs[0], pairs[1], strlen(pairs[1]));
}

static void put_text(struct protobuf_writer *o, uint32_t number, const char *text)
{
	if (text)
		protobuf_writer_text(o, number, text);
}

/* Of StartContainer; `shift` 1: of StateChange. */
static struct protobuf_writer tell(const struct told *c, uint32_t shift)
{
	struct protobuf_writer o = protobuf_writer_fixed(buf, BUF), in = protobuf_writer_fixed(inner, BUF);
	if (shift)
		protobuf_writer_number(&o, 1, NRI_EVENT_START_CONTAINER);
	put_text(&in, 1, "pod-id");
	put_text(&in, 2, c->pod);
	put_text(&in, 4, c->pod ? "prod" : NULL);
	put_pairs(&in, 5, c->labels);
	put_pairs(&in, 6, c->annotations);
	protobuf_writer_message(&o, 1 + shift, &in);
	in.len = 0;
	put_text(&in, 1, c->id);
	put_text(&in, 3, c->name);
	put_pairs(&in, 6, c->container);
	put_text(&in, 7, "/bin/till");
	put_text(&in, 7, "--fast");
	protobuf_writer_number(&in, 12, c->pid);
	protobuf_writer_number(&in, 99, 1); /* of a later version */
	protobuf_writer_message(&o, 2 + shift, &in);
	return o;
}

static void check_case(const struct told *want, const struct container *c)
{
	const char *text = c->verdict == DECISION_INVALID ? c->reason : c->warning;
	ck_assert_msg(c->verdict == want->verdict, "%s: verdict %u (%s)", want->scenario, c->verdict, c->reason);
	ck_assert_msg(container_check(c) == 0, "%s: fails the check", want->scenario);
	ck_assert_msg(want->text ? strstr(text, want->text) != NULL : !*text, "%s: \"%s\"", want->scenario, text);
	ck_assert_msg(
		!want->events || !strcmp(c->request.events, want->events), "%s: %s", want->scenario, c->request.events);
	ck_assert_msg(!strcmp(c->service, want->service), "%s: %s", want->scenario, c->service);
}

START_TEST(starting)
{
	static struct container c;
	const struct told *want = &cases[_i];
	struct protobuf_writer o = tell(want, 0);
	ck_assert_int_eq(nri_container(NRI_START_CONTAINER, o.bytes, o.len, &c), 0);
	check_case(want, &c);
	o = tell(want, 1);
	ck_assert_int_eq(nri_event(o.bytes, o.len), NRI_EVENT_START_CONTAINER);
	ck_assert_int_eq(nri_container(NRI_STATE_CHANGE, o.bytes, o.len, &c), 0);
	check_case(want, &c);
}
END_TEST

START_TEST(what_the_hook_would_find)
{
	static struct container c;
	struct protobuf_writer o = tell(&cases[7], 0);
	ck_assert_int_eq(nri_container(NRI_START_CONTAINER, o.bytes, o.len, &c), 0);
	ck_assert_str_eq(c.id, ID);
	ck_assert_int_eq(c.pid, 99);
	ck_assert_str_eq(c.name, "web");
	ck_assert_str_eq(c.pod, "shop");
	ck_assert_str_eq(c.pod_namespace, "prod");
	ck_assert_str_eq(c.exe, "/bin/till");
	ck_assert_str_eq(c.root, "/");
}
END_TEST

static const struct {
	const char *scenario;
	size_t len;
	char fill;
	enum profile_decision verdict;
} values[] = {
	{"a value of 64 KiB", 64000, 'x', DECISION_INVALID},
	{"a value of zero bytes, NUL itself", 4, 0, DECISION_INVALID},
	{"a value that is too long by one", ANNOTATION_VALUE_MAX + 1, ' ', DECISION_INVALID},
};

START_TEST(odd_values)
{
	static char text[65536];
	static struct container c;
	struct protobuf_writer in = protobuf_writer_fixed(inner, BUF), o = protobuf_writer_fixed(buf, BUF);
	memset(text, values[_i].fill, sizeof(text));
	said_pair(&in, 6, "io.pillion.profile", text, values[_i].len);
	protobuf_writer_message(&o, 1, &in);
	in.len = 0;
	protobuf_writer_text(&in, 1, ID);
	protobuf_writer_number(&in, 12, 99);
	protobuf_writer_message(&o, 2, &in);
	ck_assert_int_eq(nri_container(NRI_START_CONTAINER, o.bytes, o.len, &c), 0);
	ck_assert_msg(c.verdict == values[_i].verdict, "%s: %u", values[_i].scenario, c.verdict);
	ck_assert_int_eq(container_check(&c), 0);
}
END_TEST

START_TEST(too_many)
{
	static struct container c;
	struct protobuf_writer in = protobuf_writer_fixed(inner, BUF), o = protobuf_writer_fixed(buf, BUF);
	char key[64];
	for (int i = 0; i <= ANNOTATIONS_MAX; i++) {
		snprintf(key, sizeof(key), "io.pillion.x%d", i);
		said_pair(&in, 6, key, "1", 1);
	}
	protobuf_writer_message(&o, 1, &in);
	ck_assert_int_eq(nri_container(NRI_START_CONTAINER, o.bytes, o.len, &c), 0);
	ck_assert_int_eq(c.verdict, DECISION_INVALID);
	ck_assert_int_eq(container_check(&c), 0);
}
END_TEST

/* Cut anywhere: never more than what was there, and never a struct that fails its check. */
START_TEST(cut)
{
	static struct container c;
	struct protobuf_writer o = tell(&cases[8], 0);
	for (size_t len = 0; len < o.len; len++) {
		char *own = malloc(len ? len : 1);
		memcpy(own, o.bytes, len);
		ck_assert_int_eq(nri_container(NRI_START_CONTAINER, own, len, &c), 0);
		ck_assert_int_eq(container_check(&c), 0);
		ck_assert(c.verdict != DECISION_PROFILE);
		free(own);
	}
}
END_TEST

START_TEST(other_calls)
{
	char config[8];
	ck_assert(!nri_more("", 0));
	ck_assert(!nri_more("\x18\0", 2));
	ck_assert(nri_more("\x0a\1x\x18\1", 5));
	ck_assert_int_eq(nri_event("", 0), 0);
	ck_assert_int_eq(nri_configuration("", 0, config, sizeof(config)), 0);
	ck_assert_str_eq(config, "");
	ck_assert_int_eq(nri_configuration("\x0a\x0cinject-hook\n\x28\xd0\x0f", 17, config, sizeof(config)), 2000);
	ck_assert_str_eq(config, "inject-");
}
END_TEST

static bool holds(const struct protobuf_writer *o, const char *text)
{
	return memmem(o->bytes, o->len, text, strlen(text)) != NULL;
}

START_TEST(injecting)
{
	static uint8_t all[300 << 10];
	static const char *const args[] = {"--etc", "/x", "", NULL};
	const struct nri_hook hook = {.path = "/usr/libexec/pillion-hook", .args = args, .timeout_s = 5};
	struct protobuf_writer in, o = protobuf_writer_fixed(all, sizeof(all)), small = protobuf_writer_fixed(all, 100);
	in = tell(&cases[7], 0);
	nri_injection(in.bytes, in.len, &hook, &o);
	ck_assert(!o.failed);
	ck_assert(holds(&o, "io.pillion.profile\x12\x03"
			    "cpu"));
	ck_assert(holds(&o, "app.kubernetes.io/name\x12\x04till"));
	/* both stages, argv with its empty argument and timeout as in the hooks.d JSON */
	ck_assert(holds(&o, "\x12\x3a\x0a\x19/usr/libexec/pillion-hook\x12\x0cpillion-hook\x12\x05--etc\x12\x02/"
			    "x\x12"));
	ck_assert(holds(&o, "\x32\x3a\x0a\x19/usr/libexec/pillion-hook\x12\x0cpillion-hook\x12\x05--etc\x12\x02/"
			    "x\x12"));
	ck_assert(holds(&o, "\x22\x02\x08\x05"));
	nri_injection(in.bytes, in.len, &hook, &small);
	ck_assert(small.failed);
}
END_TEST

static const struct {
	size_t len;
	const char *passed; /* field 2 of the pair: its length as a varint, and how its bytes begin */
} lengths[] = {
	{0, "io.pillion.labels"},
	{ANNOTATION_VALUE_MAX, "io.pillion.labels\x12\x80\x20\xc3\xa9"},
	{ANNOTATION_VALUE_MAX + 2, "io.pillion.labels\x12\x81\x20xx"},
	{64000, "io.pillion.labels\x12\x81\x20xx"},
};

/* The hook must not take a value for another one: in place of a value that is too long stands one that it refuses. */
START_TEST(a_value_that_is_too_long_is_passed_on_as_too_long)
{
	static uint8_t all[300 << 10];
	static char text[65536];
	static const char *const args[] = {NULL};
	const struct nri_hook hook = {.path = "/hook", .args = args, .timeout_s = 5};
	struct protobuf_writer in = protobuf_writer_fixed(inner, BUF), o = protobuf_writer_fixed(buf, BUF),
			       injected = protobuf_writer_fixed(all, sizeof(all));
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 2); /* cut in the middle, it would be no UTF-8 any more */
	said_pair(&in, 6, "io.pillion.labels", text, lengths[_i].len);
	protobuf_writer_message(&o, 1, &in);
	nri_injection(o.bytes, o.len, &hook, &injected);
	ck_assert(!injected.failed);
	ck_assert(holds(&injected, lengths[_i].passed));
}
END_TEST

UNIT_SUITE(nri_container)
{
	Suite *s = suite_create("nri_container");
	TCase *t = tcase_create("nri_container");
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, starting, 0, LENGTH(cases));
	tcase_add_test(t, what_the_hook_would_find);
	tcase_add_loop_test(t, odd_values, 0, LENGTH(values));
	tcase_add_test(t, too_many);
	tcase_add_test(t, cut);
	tcase_add_test(t, other_calls);
	tcase_add_test(t, injecting);
	tcase_add_loop_test(t, a_value_that_is_too_long_is_passed_on_as_too_long, 0, LENGTH(lengths));
	suite_add_tcase(s, t);
	return s;
}
