/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/hook_input.h"

#include "oci/config/annotations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(f) offsetof(struct container, f)

const char *const hook_input_name_keys[] = {
	"io.kubernetes.cri.container-name", /* containerd */
	"io.kubernetes.container.name",	    /* CRI-O */
	"nerdctl/name",
	NULL,
};

/* Annotations for the other names. Of one field the first row present counts. */
static const struct {
	const char *key;
	size_t field;
} names[] = {
	{"io.kubernetes.cri.sandbox-name", FIELD(pod)},
	{"io.kubernetes.pod.name", FIELD(pod)},
	{"io.kubernetes.cri.sandbox-namespace", FIELD(pod_namespace)},
	{"io.kubernetes.pod.namespace", FIELD(pod_namespace)},
	{"app.kubernetes.io/name", FIELD(service)},
};

const char *const hook_input_sandbox_keys[] = {
	"io.kubernetes.cri.container-type",  /* containerd */
	"io.kubernetes.cri-o.ContainerType", /* CRI-O, podman pods */
	NULL,
};

#define WASM                                                                                                           \
	"its program is WebAssembly, which the runtime runs itself, so nothing of it begins: when it runs, `pillion "  \
	"attach` its name or pid"
const struct hook_input_handler hook_input_handlers[] = {
	{"run.oci.handler", "wasm", WASM},
	{"run.oci.handler", "wws", WASM},
	{"run.oci.handler", "krun", "it is a virtual machine: what runs in there can only be profiled in there"},
	{"module.wasm.image/variant", "compat", WASM},
	{NULL, NULL, NULL},
};

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

struct hook_input {
	struct json *state, *config;
	char hint[CONTAINER_NAME_SIZE];
	struct err problem; /* the first of id, pid, bundle, root; counts only if a profile is asked for */
};

int hook_input_new(struct hook_input **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct hook_input *hook_input_free(struct hook_input *r)
{
	if (r) {
		json_free(r->state);
		json_free(r->config);
	}
	free(r);
	return NULL;
}

/* --- annotations -------------------------------------------------------------------------------------------- */

static const struct json *annotations_of(const struct json *doc)
{
	return json_member(doc, "annotations");
}

void hook_input_hint_name(struct hook_input *r, const char *name)
{
	snprintf(r->hint, sizeof(r->hint), "%s", name);
	for (char *c = r->hint; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

static int is_there(void *arg, const char *key, const struct json *value)
{
	return 1;
}

static int is_ours(void *arg, const char *key, const struct json *value)
{
	return annotation_is_ours(key);
}

static const struct json *find_annotation(const struct hook_input *r, const char *key)
{
	const struct json *v = json_member(annotations_of(r->state), key);

	return v ? v : json_member(annotations_of(r->config), key);
}

static int add_annotation(void *arg, const char *key, const struct json *value)
{
	return annotations_add(arg, key, json_text(value, NULL));
}

static void copy_name(char *to, const struct json *v, struct container *c)
{
	size_t len = 0;
	const char *text = json_text(v, &len);
	size_t n = container_name_copy(to, text, len);

	if (n < len)
		snprintf(c->warning, sizeof(c->warning), "a name was cut to %zu bytes: %.64s...", n, to);
}

static void fill_names(const struct hook_input *r, struct container *c)
{
	for (size_t i = 0; hook_input_name_keys[i] && !*c->name; i++)
		copy_name(c->name, find_annotation(r, hook_input_name_keys[i]), c);
	for (size_t i = 0; i < LENGTH(names); i++) {
		char *field = (char *)c + names[i].field;
		if (!*field)
			copy_name(field, find_annotation(r, names[i].key), c);
	}
	if (!*c->name)
		memcpy(c->name, r->hint, sizeof(c->name));
}

static bool is_sandbox(const struct hook_input *r)
{
	for (size_t i = 0; hook_input_sandbox_keys[i]; i++) {
		const char *type = json_text(find_annotation(r, hook_input_sandbox_keys[i]), NULL);
		if (type && !strcmp(type, "sandbox"))
			return true;
	}
	return false;
}

/* Why the runtime does not become the program; NULL: it does, as usual. */
static const char *handled_otherwise(const struct hook_input *r)
{
	for (const struct hook_input_handler *h = hook_input_handlers; h->key; h++) {
		const char *value = json_text(find_annotation(r, h->key), NULL);
		if (value && !strncmp(value, h->value, strlen(h->value)))
			return h->why;
	}
	return NULL;
}

/* Annotations of the state are added last, so they win. `e` is set for -EINVAL and -E2BIG. */
static int read_request(const struct hook_input *r, struct container *c, struct err *e)
{
	struct annotations *a;
	char warning[sizeof(c->warning)];
	int ret = annotations_new(&a);

	if (ret < 0)
		return ret;
	ret = json_each(annotations_of(r->config), add_annotation, a);
	if (!ret)
		ret = json_each(annotations_of(r->state), add_annotation, a);
	if (ret == -E2BIG)
		err_say(e, ret, "more than %d annotations io.pillion.*", ANNOTATIONS_MAX);
	if (!ret)
		ret = annotations_finish(a, c->name, &c->request, warning, sizeof(warning), e);
	if ((!ret || ret == -EINVAL) && *warning)
		memcpy(c->warning, warning, sizeof(c->warning));
	annotations_free(a);
	return ret;
}

/* --- verdicts ----------------------------------------------------------------------------------------------- */

static int say_invalid(struct container *c, const struct err *e)
{
	c->verdict = DECISION_INVALID;
	memcpy(c->reason, e->text, sizeof(c->reason));
	return 0;
}

static int decide_verdict(const struct hook_input *r, struct container *c)
{
	struct err e = {0};

	fill_names(r, c);
	const char *otherwise = handled_otherwise(r);
	int ret = read_request(r, c, &e);
	if (ret == -ENOMEM)
		return ret;
	if (!ret && (!*c->request.events || !strcmp(c->request.events, "off")))
		c->verdict = DECISION_OFF;
	else if (is_sandbox(r))
		c->verdict = DECISION_SANDBOX;
	else if (r->problem.code)
		return say_invalid(c, &r->problem);
	else if (ret < 0)
		return say_invalid(c, &e);
	else if (otherwise && err_say(&e, -ENOTSUP, "%s", otherwise) < 0)
		return say_invalid(c, &e);
	else
		c->verdict = DECISION_PROFILE;
	return 0;
}

/* Keeps the first problem: later ones are often its consequence. */
#define problem(r, ...) ((r)->problem.code ? 0 : err_say(&(r)->problem, -EINVAL, __VA_ARGS__))

/* --- the state ---------------------------------------------------------------------------------------------- */

/* Returns a string that fits in `size` and has no NUL in it; else notes the problem and returns NULL. */
static const char *require_string(struct hook_input *r, const struct json *v, const char *what, size_t size)
{
	size_t len;
	const char *text = json_text(v, &len);

	if (!text || !len)
		problem(r, "%s is missing", what);
	else if (len >= size)
		problem(r, "%s is longer than %zu bytes", what, size - 1);
	else if (strlen(text) != len)
		problem(r, "%s has a NUL byte in it", what);
	else
		return text;
	return NULL;
}

static void fill_id(struct hook_input *r, struct container *c)
{
	const char *id = require_string(r, json_member(r->state, "id"), "state: id", sizeof(c->id));

	if (id && container_id_valid(id))
		memcpy(c->id, id, strlen(id) + 1);
	else if (id)
		problem(r, "state: id is not a name of A-Z a-z 0-9 _ + . -");
}

static void fill_bundle(struct hook_input *r, struct container *c)
{
	const char *bundle = require_string(r, json_member(r->state, "bundle"), "state: bundle", sizeof(c->bundle));

	if (bundle && *bundle == '/')
		memcpy(c->bundle, bundle, strlen(bundle) + 1);
	else if (bundle)
		problem(r, "state: bundle is not an absolute path");
}

static void fill_pid(struct hook_input *r, struct container *c)
{
	int64_t pid;
	const struct json *v = json_member(r->state, "pid");

	if (!v)
		problem(r, "state: pid is missing");
	else if (json_number(v, &pid) < 0)
		problem(r, "state: pid is not a whole number");
	else if (pid <= 0)
		problem(r, "state: pid %lld is not positive", (long long)pid);
	else if (pid == 1)
		problem(r, "state: pid 1 is the machine's own init");
	else if (pid > CONTAINER_PID_MAX)
		problem(r, "state: pid %lld is larger than any pid (%d)", (long long)pid, CONTAINER_PID_MAX);
	else
		c->pid = (int32_t)pid;
}

static int parse_input(
	const char *what, const char *text, size_t len, size_t cap, struct json **ret, struct container *c)
{
	struct err e = {0};
	int r = len > cap ? err_say(&e, -EFBIG, "larger than %zu bytes", cap) : json_parse(text, len, ret, &e);

	if (r < 0 && r != -ENOMEM) {
		err_wrap(&e, r, "%s", what);
		say_invalid(c, &e);
	}
	return r;
}

int hook_input_state(struct hook_input *r, const char *text, size_t len, struct container *ret)
{
	container_init(ret);
	int code = parse_input("state", text, len, STATE_MAX, &r->state, ret);
	if (code < 0)
		return code == -ENOMEM ? code : 0;
	fill_id(r, ret);
	fill_bundle(r, ret);
	fill_pid(r, ret);
	const char *status = json_text(json_member(r->state, "status"), NULL);
	ret->stopped = status && !strcmp(status, "stopped");
	return 0;
}

static bool is_silent(const struct hook_input *r)
{
	return !json_each(annotations_of(r->state), is_there, NULL);
}

bool hook_input_asked(const struct hook_input *r, const struct container *c)
{
	bool open = c->verdict == DECISION_UNDECIDED && c->pid > 0 && !c->stopped;

	return open && (is_silent(r) || json_each(annotations_of(r->state), is_ours, NULL));
}

int hook_input_decide(struct hook_input *r, struct container *ret)
{
	if (ret->verdict != DECISION_UNDECIDED)
		return 0;
	if (!is_silent(r))
		return decide_verdict(r, ret);
	/* config.json decides, but without a bundle we cannot find it */
	return *ret->bundle ? 0 : say_invalid(ret, &r->problem);
}

/* --- config.json -------------------------------------------------------------------------------------------- */

static void fill_root(struct hook_input *r, struct container *c)
{
	const struct json *v = json_member(json_member(r->config, "root"), "path");
	const char *path = require_string(r, v, "config.json: root.path", sizeof(c->root));
	bool absolute = path && *path == '/';

	if (!path)
		return;
	/* a path relative to the bundle, config.md "Root" */
	int n = snprintf(c->root, sizeof(c->root), "%s%s%s", absolute ? "" : c->bundle, absolute ? "" : "/", path);
	if (n < (int)sizeof(c->root))
		return;
	*c->root = 0;
	problem(r, "config.json: root.path with the bundle in front is longer than %zu bytes", sizeof(c->root) - 1);
}

static void fill_exe(struct hook_input *r, struct container *c)
{
	const char *exe = json_text(json_item(json_member(json_member(r->config, "process"), "args"), 0), NULL);

	if (exe && snprintf(c->exe, sizeof(c->exe), "%s", exe) >= (int)sizeof(c->exe))
		snprintf(c->warning, sizeof(c->warning), "process.args[0] was cut to %zu bytes", sizeof(c->exe) - 1);
}

#define SIDECAR_AT "/run/pillion"
#define MOUNTS_MAX 256 /* more are not looked at */

/* The container sees the last mount at this path. Engines write a destination as the user did. */
static void fill_sidecar(const struct hook_input *r, struct container *c)
{
	const struct json *mounts = json_member(r->config, "mounts"), *m;

	for (size_t i = 0; i < MOUNTS_MAX && (m = json_item(mounts, i)); i++) {
		const char *at = json_text(json_member(m, "destination"), NULL);
		const char *source = json_text(json_member(m, "source"), NULL);
		if (!at || (strcmp(at, SIDECAR_AT) && strcmp(at, SIDECAR_AT "/")))
			continue;
		const bool fits = source && *source == '/' && strlen(source) < sizeof(c->sidecar);
		memcpy(c->sidecar, fits ? source : "", fits ? strlen(source) + 1 : 1);
	}
}

int hook_input_config(struct hook_input *r, char *text, size_t len, struct container *ret)
{
	static const char *const looked_at[] = {"annotations", "mounts", "process", "root", NULL};

	if (ret->verdict != DECISION_PROFILE && ret->verdict != DECISION_UNDECIDED)
		return 0;
	if (len <= CONFIG_MAX)
		json_skim(text, len, looked_at);
	int code = parse_input("config.json", text, len, CONFIG_MAX, &r->config, ret);
	if (code < 0)
		return code == -ENOMEM ? code : 0;
	fill_root(r, ret);
	fill_exe(r, ret);
	fill_sidecar(r, ret);
	return decide_verdict(r, ret);
}
