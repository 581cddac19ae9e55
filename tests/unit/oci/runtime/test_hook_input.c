/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/hook_input.h"

#include "oci/base/fd.h"
#include "oci/config/annotations.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define SAMPLES "tests/fuzz/corpus/hook_input/"
#define MARKER "\n---\n" /* state above it, config.json below */

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

/* All steps, as a hook takes them; `config` NULL stops before the last. */
static int read_both(const char *state, size_t state_len, const char *config, size_t config_len, struct container *c)
{
	struct hook_input *r;

	ck_assert_int_eq(hook_input_new(&r), 0);
	int code = hook_input_state(r, state, state_len, c);
	bool asked = hook_input_asked(r, c);
	if (code == 0)
		code = hook_input_decide(r, c);
	if (code == 0 && config) {
		char *own = malloc(config_len + 1); /* no NUL at its end */
		memcpy(own, config, config_len);
		code = hook_input_config(r, own, config_len, c);
		free(own);
	}
	ck_assert(asked || c->verdict != DECISION_PROFILE);
	ck_assert_ptr_null(hook_input_free(r));
	return code;
}

/* --- real input --------------------------------------------------------------------------------------------- */

static void load_sample(const char *name, char **ret)
{
	char path[256];
	size_t len;

	snprintf(path, sizeof(path), SAMPLES "%s", name);
	int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert_msg(fd >= 0, "%s: run from the top of the tree", path);
	ck_assert_int_eq(fd_slurp(fd, CONFIG_MAX, ret, &len), 0);
	fd_close(fd);
}

static const struct {
	const char *sample;
	uint32_t first, verdict; /* after the state, at the end */
	const char *id, *root, *exe, *name, *pod, *events, *reason;
} samples[] = {
	{"podman-runc", DECISION_PROFILE, DECISION_PROFILE,
		"4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c",
		"/run/containers/storage/overlay-containers/"
		"4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c4f1c/rootfs/merge",
		"true", "", "", "cpu", ""},
	{"runc", DECISION_PROFILE, DECISION_PROFILE, "c1", "/", "/bin/true", "", "", "cpu", ""},
	{"runc-poststop", DECISION_INVALID, DECISION_INVALID, "c1", "", "", "", "", "cpu", "state: pid is missing"},
	{"crun-no-annotations", DECISION_UNDECIDED, DECISION_PROFILE, "c1", "/", "/bin/true", "", "", "cpu", ""},
	{"containerd", DECISION_PROFILE, DECISION_PROFILE, "7a0e",
		"/run/containerd/io.containerd.runtime.v2.task/k8s.io/7a0e/rootfs", "/app/server", "web", "shop-0",
		"cpu,offcpu", ""},
	{"containerd-sandbox", DECISION_SANDBOX, DECISION_SANDBOX, "7a0f", "", "", "", "shop-0", "cpu", ""},
	{"crio", DECISION_PROFILE, DECISION_PROFILE, "9b1d", "/run/crio/9b1d/rootfs", "/bin/db", "db", "shop-1", "cpu",
		""},
};

START_TEST(real_input_is_understood)
{
	struct container c;
	const char *name = samples[_i].sample;
	char *state, *config;

	load_sample(name, &state);
	config = strstr(state, MARKER);
	ck_assert_ptr_nonnull(config);
	*config = 0;
	config += strlen(MARKER);
	ck_assert_int_eq(read_both(state, strlen(state), NULL, 0, &c), 0);
	ck_assert_msg(c.verdict == samples[_i].first, "%s: first verdict %u: %s", name, c.verdict, c.reason);
	ck_assert_int_eq(read_both(state, strlen(state), config, strlen(config), &c), 0);
	free(state);
	ck_assert_msg(c.verdict == samples[_i].verdict, "%s: verdict %u: %s", name, c.verdict, c.reason);
	ck_assert_int_eq(container_check(&c), 0);
	ck_assert_int_eq(c.pid, c.verdict == DECISION_INVALID ? 0 : 4242);
	ck_assert_str_eq(c.id, samples[_i].id);
	ck_assert_str_eq(c.root, samples[_i].root);
	ck_assert_str_eq(c.exe, samples[_i].exe);
	ck_assert_str_eq(c.name, samples[_i].name);
	ck_assert_str_eq(c.pod, samples[_i].pod);
	ck_assert_str_eq(c.request.events, samples[_i].events);
	ck_assert_str_eq(c.reason, samples[_i].reason);
	ck_assert_str_eq(c.warning, "");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- the state ---------------------------------------------------------------------------------------------- */

#define ON "\"annotations\":{\"io.pillion.profile\":\"on\"}"
#define STATE(id, pid, bundle) "{\"id\":" id ",\"pid\":" pid ",\"bundle\":" bundle "," ON "}"
#define STATE_WITH(annotations) "{\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\",\"annotations\":{" annotations "}}"
#define GOOD STATE("\"c1\"", "4242", "\"/b\"")

#define OF_WASM                                                                                                        \
	"its program is WebAssembly, which the runtime runs itself, so nothing of it begins: when it runs, `pillion "  \
	"attach` its name or pid"
static const struct text_case {
	const char *scenario, *text;
	uint32_t verdict;
	const char *sentence; /* the whole reason or warning */
} state_cases[] = {
	{"a good one", GOOD, DECISION_PROFILE, ""},
	{"white space around it", " \n" GOOD "\n\n", DECISION_PROFILE, ""},
	{"additional properties", "{\"owner\":\"root\",\"x\":[{}],\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\"," ON "}",
		DECISION_PROFILE, ""},
	{"a member twice", "{\"pid\":1,\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\"," ON "}", DECISION_PROFILE, ""},
	{"an empty state", "", DECISION_INVALID, "state: empty"},
	{"white space alone", " \n", DECISION_INVALID, "state: JSON ends in the middle (after 2 bytes)"},
	{"truncated", "{\"id\":\"c1\",\"pi", DECISION_INVALID, "state: JSON ends in the middle (after 14 bytes)"},
	{"no JSON", "hello", DECISION_INVALID, "state: not JSON: unexpected character at byte 0"},
	{"two documents", GOOD GOOD, DECISION_INVALID, NULL},
	{"an array", "[]", DECISION_INVALID, "state: JSON is not an object"},
	{"null", "null", DECISION_INVALID, NULL},
	{"no pid", "{\"id\":\"c1\",\"bundle\":\"/b\"," ON "}", DECISION_INVALID, "state: pid is missing"},
	{"pid is null", STATE("\"c1\"", "null", "\"/b\""), DECISION_INVALID, "state: pid is missing"},
	{"pid 0", STATE("\"c1\"", "0", "\"/b\""), DECISION_INVALID, "state: pid 0 is not positive"},
	{"pid -3", STATE("\"c1\"", "-3", "\"/b\""), DECISION_INVALID, "state: pid -3 is not positive"},
	{"pid 1", STATE("\"c1\"", "1", "\"/b\""), DECISION_INVALID, "state: pid 1 is the machine's own init"},
	{"the largest pid", STATE("\"c1\"", "4194304", "\"/b\""), DECISION_PROFILE, ""},
	{"beyond the largest pid", STATE("\"c1\"", "4194305", "\"/b\""), DECISION_INVALID,
		"state: pid 4194305 is larger than any pid (4194304)"},
	{"a pid that is ours modulo 2^32", STATE("\"c1\"", "4294971538", "\"/b\""), DECISION_INVALID, NULL},
	{"a pid beyond 64 bits", STATE("\"c1\"", "99999999999999999999999", "\"/b\""), DECISION_INVALID, NULL},
	{"a pid as text", STATE("\"c1\"", "\"4242\"", "\"/b\""), DECISION_INVALID, "state: pid is not a whole number"},
	{"a pid with a fraction", STATE("\"c1\"", "4242.5", "\"/b\""), DECISION_INVALID,
		"state: pid is not a whole number"},
	{"WebAssembly of crun's", STATE_WITH("\"io.pillion.profile\":\"on\",\"run.oci.handler\":\"wasmedge\""),
		DECISION_INVALID, OF_WASM},
	{"a WebAssembly image",
		STATE_WITH("\"io.pillion.profile\":\"on\",\"module.wasm.image/variant\":\"compat-smart\""),
		DECISION_INVALID, OF_WASM},
	{"a virtual machine of crun's", STATE_WITH("\"io.pillion.profile\":\"on\",\"run.oci.handler\":\"krun\""),
		DECISION_INVALID, "it is a virtual machine: what runs in there can only be profiled in there"},
	{"WebAssembly, not annotated", STATE_WITH("\"run.oci.handler\":\"wasm\""), DECISION_OFF, ""},
	{"another handler", STATE_WITH("\"io.pillion.profile\":\"on\",\"run.oci.handler\":\"mine\""), DECISION_PROFILE,
		""},
	{"no id", "{\"pid\":4242,\"bundle\":\"/b\"," ON "}", DECISION_INVALID, "state: id is missing"},
	{"an empty id", STATE("\"\"", "4242", "\"/b\""), DECISION_INVALID, "state: id is missing"},
	{"an id that climbs", STATE("\"../x\"", "4242", "\"/b\""), DECISION_INVALID,
		"state: id is not a name of A-Z a-z 0-9 _ + . -"},
	{"an id that is the parent", STATE("\"..\"", "4242", "\"/b\""), DECISION_INVALID,
		"state: id is not a name of A-Z a-z 0-9 _ + . -"},
	{"an id with a NUL", STATE("\"c1\\u0000x\"", "4242", "\"/b\""), DECISION_INVALID,
		"state: id has a NUL byte in it"},
	{"no bundle", "{\"id\":\"c1\",\"pid\":4242," ON "}", DECISION_INVALID, "state: bundle is missing"},
	{"a relative bundle", STATE("\"c1\"", "4242", "\"b\""), DECISION_INVALID,
		"state: bundle is not an absolute path"},
	{"a bundle with a NUL", STATE("\"c1\"", "4242", "\"/b\\u0000c\""), DECISION_INVALID,
		"state: bundle has a NUL byte in it"},
	{"annotations of another kind", "{\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\",\"annotations\":\"x\"}",
		DECISION_UNDECIDED, ""},
	{"annotations null", "{\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\",\"annotations\":null}", DECISION_UNDECIDED,
		""},
	{"annotations empty", STATE_WITH(""), DECISION_UNDECIDED, ""},
	{"undecided, but no bundle to look in", "{\"id\":\"c1\",\"pid\":4242}", DECISION_INVALID,
		"state: bundle is missing"},
	{"undecided, without pid", "{\"id\":\"c1\",\"bundle\":\"/b\"}", DECISION_UNDECIDED, ""},
	{"not annotated by us", STATE_WITH("\"a\":\"b\""), DECISION_OFF, ""},
	{"off, and everything else wrong",
		"{\"id\":\"/"
		"\",\"pid\":-1,\"annotations\":{\"io.pillion.profile\":\"off\",\"io.pillion.window\":\"x\"}}",
		DECISION_OFF, ""},
	{"a sandbox, and everything else wrong",
		"{\"annotations\":{\"io.pillion.profile\":\"x\\n\",\"io.kubernetes.cri.container-type\":\"sandbox\"}}",
		DECISION_SANDBOX, ""},
	{"a pod's infra container",
		STATE_WITH("\"io.pillion.profile\":\"on\",\"io.kubernetes.cri-o.ContainerType\":\"sandbox\""),
		DECISION_SANDBOX, ""},
	{"a container of a pod",
		STATE_WITH("\"io.pillion.profile\":\"on\",\"io.kubernetes.cri-o.ContainerType\":\"container\""),
		DECISION_PROFILE, ""},
	{"a bad annotation", STATE_WITH("\"io.pillion.profile\":\"on\",\"io.pillion.stacks\":\"maybe\""),
		DECISION_INVALID, "annotation io.pillion.stacks: \"maybe\" is not auto, fp, dwarf, none"},
	{"a switch that is a number", STATE_WITH("\"io.pillion.profile\":1"), DECISION_INVALID,
		"annotation io.pillion.profile: the value is no string of at most 4096 bytes"},
	{"an unknown annotation", STATE_WITH("\"io.pillion.profile\":\"on\",\"io.pillion.x\":\"y\""), DECISION_PROFILE,
		"annotation io.pillion.x is unknown and ignored"},
	{"the container's own switch",
		STATE_WITH("\"io.kubernetes.cri.container-name\":\"web\",\"io.pillion.profile/container.web\":\"on\""),
		DECISION_PROFILE, ""},
	{"another container's switch",
		STATE_WITH("\"io.kubernetes.cri.container-name\":\"web\",\"io.pillion.profile/container.db\":\"on\""),
		DECISION_OFF, ""},
};

START_TEST(states_are_judged)
{
	const struct text_case *t = &state_cases[_i];
	struct container c;

	ck_assert_int_eq(read_both(t->text, strlen(t->text), NULL, 0, &c), 0);
	ck_assert_msg(c.verdict == t->verdict, "%s: verdict %u, \"%s\"", t->scenario, c.verdict, c.reason);
	const char *said = *c.reason ? c.reason : c.warning;
	ck_assert_msg(t->sentence ? !strcmp(said, t->sentence) : *said, "%s: \"%s\"", t->scenario, said);
	ck_assert_msg(c.verdict == DECISION_UNDECIDED || c.verdict == DECISION_PROFILE || container_check(&c) == 0,
		"%s", t->scenario);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- config.json -------------------------------------------------------------------------------------------- */

#define NO_ANNOTATIONS "{\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\"}"
#define NO_PID "{\"id\":\"c1\",\"bundle\":\"/b\"}"

static const struct config_case {
	const char *scenario, *state, *config;
	uint32_t verdict;
	const char *root, *exe, *sentence;
} config_cases[] = {
	{"a relative root", GOOD, "{\"root\":{\"path\":\"rootfs\"},\"process\":{\"args\":[\"sh\",\"-c\"]}}",
		DECISION_PROFILE, "/b/rootfs", "sh", ""},
	{"an absolute root, no process", GOOD, "{\"root\":{\"path\":\"/r\"}}", DECISION_PROFILE, "/r", "", ""},
	{"no arguments", GOOD, "{\"root\":{\"path\":\"/r\"},\"process\":{\"args\":[]}}", DECISION_PROFILE, "/r", "",
		""},
	{"arguments of another kind", GOOD, "{\"root\":{\"path\":\"/r\"},\"process\":{\"args\":{\"0\":\"x\"}}}",
		DECISION_PROFILE, "/r", "", ""},
	{"an argument of another kind", GOOD, "{\"root\":{\"path\":\"/r\"},\"process\":{\"args\":[7]}}",
		DECISION_PROFILE, "/r", "", ""},
	{"no root", GOOD, "{}", DECISION_INVALID, "", "", "config.json: root.path is missing"},
	{"a root of another kind", GOOD, "{\"root\":\"/r\"}", DECISION_INVALID, "", "",
		"config.json: root.path is missing"},
	{"a root with a NUL", GOOD, "{\"root\":{\"path\":\"/\\u0000\"}}", DECISION_INVALID, "", "",
		"config.json: root.path has a NUL byte in it"},
	{"not JSON", GOOD, "#!/bin/sh", DECISION_INVALID, "", "",
		"config.json: not JSON: unexpected character at byte 0"},
	{"empty", GOOD, "", DECISION_INVALID, "", "", "config.json: empty"},
	{"cut off", GOOD, "{\"root\":{", DECISION_INVALID, "", "",
		"config.json: JSON ends in the middle (after 9 bytes)"},
	{"the config decides: on", NO_ANNOTATIONS, "{\"root\":{\"path\":\"/r\"}," ON "}", DECISION_PROFILE, "/r", "",
		""},
	{"the config decides: nothing", NO_ANNOTATIONS, "{\"root\":{\"path\":\"/r\"}}", DECISION_OFF, "/r", "", ""},
	{"nothing, without pid and root", NO_PID, "{}", DECISION_OFF, "", "", ""},
	{"on, but the state had no pid", NO_PID, "{\"root\":{\"path\":\"/r\"}," ON "}", DECISION_INVALID, "/r", "",
		"state: pid is missing"},
	{"the state's annotation wins", STATE_WITH("\"io.pillion.profile\":\"on\",\"io.pillion.window\":\"70s\""),
		"{\"root\":{\"path\":\"/"
		"r\"},\"annotations\":{\"io.pillion.profile\":\"off\",\"io.pillion.window\":\"x\"}}",
		DECISION_PROFILE, "/r", "", ""},
	{"the config adds a bad annotation", GOOD,
		"{\"root\":{\"path\":\"/r\"},\"annotations\":{\"io.pillion.window\":\"x\"}}", DECISION_INVALID, "/r",
		"", "annotation io.pillion.window: \"x\" is not 5s to 3600s"},
	{"off in the state is final", STATE_WITH("\"io.pillion.profile\":\"off\""),
		"{\"root\":{\"path\":\"/r\"}," ON "}", DECISION_OFF, "", "", ""},
	{"a bad state is final", "{", "{\"root\":{\"path\":\"/r\"}," ON "}", DECISION_INVALID, "", "",
		"state: JSON ends in the middle (after 1 bytes)"},
};

START_TEST(configs_are_judged)
{
	const struct config_case *t = &config_cases[_i];
	struct container c;

	ck_assert_int_eq(read_both(t->state, strlen(t->state), t->config, strlen(t->config), &c), 0);
	ck_assert_msg(c.verdict == t->verdict, "%s: verdict %u, \"%s\"", t->scenario, c.verdict, c.reason);
	ck_assert_msg(!strcmp(c.reason, t->sentence), "%s: \"%s\"", t->scenario, c.reason);
	ck_assert_msg(!strcmp(c.root, t->root), "%s: root \"%s\"", t->scenario, c.root);
	ck_assert_msg(!strcmp(c.exe, t->exe), "%s: exe \"%s\"", t->scenario, c.exe);
	ck_assert_msg(container_check(&c) == 0, "%s", t->scenario);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- a sidecar's volume --- */

static const struct {
	const char *scenario, *mounts, *sidecar;
} mount_cases[] = {
	{"none", "[]", ""},
	{"one", "[{\"destination\":\"/x\",\"source\":\"/y\"},{\"destination\":\"/run/pillion\",\"source\":\"/v\"}]",
		"/v"},
	{"written otherwise", "[{\"destination\":\"/run/pillion/\",\"source\":\"/v\"}]", "/v"},
	{"below it, beside it",
		"[{\"destination\":\"/run/pillion/a\",\"source\":\"/v\"},"
		"{\"destination\":\"/run/pillions\",\"source\":\"/v\"}]",
		""},
	{"the last one is on top",
		"[{\"destination\":\"/run/pillion\",\"source\":\"/v\"},"
		"{\"destination\":\"/run/pillion\",\"source\":\"/w\"}]",
		"/w"},
	{"a tmpfs on top",
		"[{\"destination\":\"/run/pillion\",\"source\":\"/v\"},"
		"{\"destination\":\"/run/pillion\",\"source\":\"tmpfs\"}]",
		""},
	{"of another kind", "[7,{\"destination\":7},{\"destination\":\"/run/pillion\",\"source\":{}}]", ""},
	{"no list", "{\"destination\":\"/run/pillion\",\"source\":\"/v\"}", ""},
};

START_TEST(a_sidecar_is_found_by_its_volume)
{
	struct container c;
	char config[1024];
	const int n =
		snprintf(config, sizeof(config), "{\"root\":{\"path\":\"/r\"},\"mounts\":%s}", mount_cases[_i].mounts);

	ck_assert_int_eq(read_both(GOOD, strlen(GOOD), config, (size_t)n, &c), 0);
	ck_assert_msg(c.verdict == DECISION_PROFILE, "%s: \"%s\"", mount_cases[_i].scenario, c.reason);
	ck_assert_msg(!strcmp(c.sidecar, mount_cases[_i].sidecar), "%s: \"%s\"", mount_cases[_i].scenario, c.sidecar);
	ck_assert_int_eq(container_check(&c), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- names -------------------------------------------------------------------------------------------------- */

START_TEST(names_come_from_either_document)
{
	static const char state[] = STATE_WITH("\"io.pillion.profile\":\"on\",\"nerdctl/name\":\"w\\u001b\\u00e4b\"");
	static const char config[] = "{\"root\":{\"path\":\"r\"},\"annotations\":{\"io.kubernetes.pod.name\":\"p\","
				     "\"io.kubernetes.pod.namespace\":\"n\",\"app.kubernetes.io/name\":\"s\"}}";
	struct container c;

	ck_assert_int_eq(read_both(state, strlen(state), config, strlen(config), &c), 0);
	ck_assert_str_eq(c.name, "w???b"); /* an escape character, two bytes of UTF-8 */
	ck_assert_str_eq(c.pod, "p");
	ck_assert_str_eq(c.pod_namespace, "n");
	ck_assert_str_eq(c.service, "s");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario, *before, *after;
	size_t fits; /* that many bytes are fine, one more is not */
	bool cut;    /* with a warning; else an error */
} lengths[] = {
	{"id", "{\"pid\":4242,\"bundle\":\"/b\"," ON ",\"id\":\"", "\"}", 255, false},
	{"bundle", "{\"pid\":4242,\"id\":\"c1\"," ON ",\"bundle\":\"/", "\"}", 4094, false},
	{"name",
		"{\"pid\":4242,\"id\":\"c1\",\"bundle\":\"/"
		"b\",\"annotations\":{\"io.pillion.profile\":\"on\",\"nerdctl/name\":\"",
		"\"}}", 255, true},
};

START_TEST(strings_that_do_not_fit)
{
	char filler[4100], text[6000];
	struct container c;

	for (size_t more = 0; more < 2; more++) {
		memset(filler, 'a', sizeof(filler));
		filler[lengths[_i].fits + more] = 0;
		snprintf(text, sizeof(text), "%s%s%s", lengths[_i].before, filler, lengths[_i].after);
		ck_assert_int_eq(read_both(text, strlen(text), NULL, 0, &c), 0);
		uint32_t expected = more && !lengths[_i].cut ? DECISION_INVALID : DECISION_PROFILE;
		ck_assert_msg(c.verdict == expected, "%s: %u %s", lengths[_i].scenario, c.verdict, c.reason);
		const char *said = lengths[_i].cut ? c.warning : c.reason;
		ck_assert_msg(more ? *said : !*said, "%s: \"%s\"", lengths[_i].scenario, said);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- bounds ------------------------------------------------------------------------------------------------- */

/* {"x":[[...1...]]} with `depth` levels in all */
static size_t nest(char text[static 256], int depth)
{
	char open[64], close[64];

	memset(open, '[', sizeof(open));
	memset(close, ']', sizeof(close));
	return (size_t)snprintf(text, 256, "{\"x\":%.*s1%.*s," ON "}", depth - 1, open, depth - 1, close);
}

START_TEST(depth_is_bounded)
{
	char text[256];
	struct container c;

	ck_assert_int_eq(read_both(text, nest(text, JSON_DEPTH), NULL, 0, &c), 0);
	ck_assert_str_eq(c.reason, "state: id is missing");
	ck_assert_int_eq(read_both(text, nest(text, JSON_DEPTH + 1), NULL, 0, &c), 0);
	ck_assert_str_eq(c.reason, "state: JSON is nested deeper than 32");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(size_is_bounded)
{
	size_t len = CONFIG_MAX + 1;
	char *text = malloc(len);
	struct container c;

	memset(text, ' ', len);
	memcpy(text, GOOD, strlen(GOOD));
	ck_assert_int_eq(read_both(text, STATE_MAX, NULL, 0, &c), 0);
	ck_assert_int_eq(c.verdict, DECISION_PROFILE);
	ck_assert_int_eq(read_both(text, STATE_MAX + 1, NULL, 0, &c), 0);
	ck_assert_str_eq(c.reason, "state: larger than 1048576 bytes");
	ck_assert_int_eq(read_both(GOOD, strlen(GOOD), text, len, &c), 0);
	ck_assert_str_eq(c.reason, "config.json: larger than 16777216 bytes");
	free(text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* {"x":["...",{},{},...]}: commas in a string do not count, values do, before memory is spent on them */
static size_t many(char *text, size_t values, size_t commas)
{
	char *at = text + snprintf(text, STATE_MAX, "{" ON ",\"x\":[\"\\\"");

	memset(at, ',', commas);
	at += commas;
	*at++ = '"';
	for (size_t i = 0; i < values; i++, at += 3)
		memcpy(at, ",{}", 3);
	memcpy(at, "]}", 2);
	return (size_t)(at + 2 - text);
}

START_TEST(the_number_of_values_is_bounded)
{
	char *text = malloc(STATE_MAX);
	struct container c;

	ck_assert_int_eq(read_both(text, many(text, JSON_VALUES / 4, 500000), NULL, 0, &c), 0);
	ck_assert_str_eq(c.reason, "state: id is missing");
	ck_assert_int_eq(read_both(text, many(text, JSON_VALUES, 0), NULL, 0, &c), 0);
	ck_assert_str_eq(c.reason, "state: JSON has more than 65536 values");
	free(text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(too_many_annotations)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct container c;

	fprintf(out, "{\"annotations\":{\"io.pillion.profile\":\"on\"");
	for (int i = 0; i < ANNOTATIONS_MAX; i++)
		fprintf(out, ",\"io.pillion.profile/container.c%d\":\"on\"", i);
	fprintf(out, "},\"id\":\"c1\",\"pid\":4242,\"bundle\":\"/b\"}");
	fclose(out);
	ck_assert_int_eq(read_both(text, len, NULL, 0, &c), 0);
	free(text);
	ck_assert_int_eq(c.verdict, DECISION_INVALID);
	ck_assert_str_eq(c.reason, "more than 512 annotations io.pillion.*");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* {} and [] that nobody looks at become 0 and spaces; the rest is for the parser to judge. */
static const struct {
	const char *scenario, *text, *want;
} skims[] = {
	{"objects and arrays go", "{\"a\": {\"x\": [1, {}]}, \"k\": {\"y\": 1}, \"b\":[]}",
		"{\"a\": 0             , \"k\": {\"y\": 1}, \"b\":0 }"},
	{"scalars stay", "{\"a\": \"{\", \"b\": -1.5e3, \"c\": null}", "{\"a\": \"{\", \"b\": -1.5e3, \"c\": null}"},
	{"brackets and quotes in strings", "{\"a\": [\"]}\\\"\\\\\"], \"k\": [\"]\"]}",
		"{\"a\": 0         , \"k\": [\"]\"]}"},
	{"a key with an escape may be any", "{\"\\u006b\": {}, \"a\": {}}", "{\"\\u006b\": {}, \"a\": 0 }"},
	{"a key within another", "{\"kk\": {}, \"\": {}, \"k\": {}}", "{\"kk\": 0 , \"\": 0 , \"k\": {}}"},
	{"space before and behind", " \t{ \"a\" : [ ] } ", " \t{ \"a\" : 0   } "},
	{"truncated in a value", "{\"a\": {\"x\": 1", "{\"a\": {\"x\": 1"},
	{"truncated in a string", "{\"a\": {}, \"b", "{\"a\": 0 , \"b"},
	{"truncated in an escape", "{\"a\": \"\\", "{\"a\": \"\\"},
	{"truncated behind a key", "{\"a\"", "{\"a\""},
	{"no object", "[{\"a\": {}}]", "[{\"a\": {}}]"},
	{"no key", "{1: {}}", "{1: {}}"},
	{"closed too often", "{\"a\": {}}, \"b\": {}}", "{\"a\": 0 }, \"b\": {}}"},
	{"empty", "", ""},
};

START_TEST(what_nobody_looks_at_is_blanked)
{
	static const char *const keep[] = {"k", NULL};
	size_t len = strlen(skims[_i].text);
	char *text = malloc(len + 1);

	memcpy(text, skims[_i].text, len);
	text = realloc(text, len + !len); /* no NUL at its end */
	json_skim(text, len, keep);
	ck_assert_msg(!memcmp(text, skims[_i].want, len), "%s: %.*s", skims[_i].scenario, (int)len, text);
	free(text);
}
END_TEST

static const struct {
	const char *scenario, *state;
	bool asked;
} asks[] = {
	{"ours", "\"pid\": 7, \"annotations\": {\"a\": \"b\", \"io.pillion.profile\": \"on\"}", true},
	{"for one container", "\"pid\": 7, \"annotations\": {\"io.pillion.profile/container.web\": \"on\"}", true},
	{"none at all: config.json may have some", "\"pid\": 7", true},
	{"others only", "\"pid\": 7, \"annotations\": {\"a\": \"b\"}", false},
	{"no pid", "\"annotations\": {\"io.pillion.profile\": \"on\"}", false},
	{"at the end", "\"pid\": 7, \"status\": \"stopped\", \"annotations\": {\"io.pillion.profile\": \"on\"}", false},
};

START_TEST(worth_looking_at)
{
	struct container c;
	struct hook_input *r;
	char state[512];

	snprintf(state, sizeof(state), "{\"id\": \"c\", \"bundle\": \"/b\", %s}", asks[_i].state);
	ck_assert_int_eq(hook_input_new(&r), 0);
	ck_assert_int_eq(hook_input_state(r, state, strlen(state), &c), 0);
	ck_assert_msg(hook_input_asked(r, &c) == asks[_i].asked, "%s", asks[_i].scenario);
	hook_input_free(r);
}
END_TEST

/* podman's state names no container; conmon's command line does. */
START_TEST(a_name_from_elsewhere_chooses_the_annotation)
{
	static const char state[] = "{\"id\": \"c\", \"bundle\": \"/b\", \"pid\": 7,"
				    "\"annotations\": {\"io.pillion.profile/container.web\": \"on\"}}";
	for (int web = 0; web < 2; web++) {
		struct container c;
		struct hook_input *r;
		ck_assert_int_eq(hook_input_new(&r), 0);
		ck_assert_int_eq(hook_input_state(r, state, strlen(state), &c), 0);
		hook_input_hint_name(r, web ? "web" : "db");
		ck_assert_int_eq(hook_input_decide(r, &c), 0);
		ck_assert_uint_eq(c.verdict, web ? DECISION_PROFILE : DECISION_OFF);
		ck_assert_str_eq(c.name, web ? "web" : "db");
		hook_input_free(r);
	}
}
END_TEST

UNIT_SUITE(hook_input)
{
	Suite *s = suite_create("hook_input");
	TCase *t = tcase_create("hook_input");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, real_input_is_understood, 0, LENGTH(samples));
	tcase_add_loop_test(t, states_are_judged, 0, LENGTH(state_cases));
	tcase_add_loop_test(t, configs_are_judged, 0, LENGTH(config_cases));
	tcase_add_loop_test(t, a_sidecar_is_found_by_its_volume, 0, LENGTH(mount_cases));
	tcase_add_test(t, names_come_from_either_document);
	tcase_add_loop_test(t, strings_that_do_not_fit, 0, LENGTH(lengths));
	tcase_add_test(t, depth_is_bounded);
	tcase_add_test(t, size_is_bounded);
	tcase_add_test(t, the_number_of_values_is_bounded);
	tcase_add_test(t, too_many_annotations);
	tcase_add_loop_test(t, what_nobody_looks_at_is_blanked, 0, LENGTH(skims));
	tcase_add_loop_test(t, worth_looking_at, 0, LENGTH(asks));
	tcase_add_test(t, a_name_from_elsewhere_chooses_the_annotation);
	suite_add_tcase(s, t);
	return s;
}
