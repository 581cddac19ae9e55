/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/nri_container.h"

#include "oci/config/annotations.h"
#include "oci/runtime/hook_input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Fields of api.proto. */
enum { CALL_POD = 1, CALL_CONTAINER = 2, CHANGE_EVENT = 1, CHANGE_POD = 2, CHANGE_CONTAINER = 3 };
enum { POD_NAME = 2, POD_NAMESPACE = 4, CONTAINER_ID = 1, CONTAINER_NAME = 3, CONTAINER_ARGS = 7, CONTAINER_PID = 12 };
enum { LABELS = 5, ANNOTATIONS = 6 }; /* of both */

#define SERVICE_KEY "app.kubernetes.io/name"
#define KEY_MAX 600 /* longer than any that is ours */

/* The fields that we read; absent ones are "". */
struct parts {
	struct pb_field pod, container;
	struct pb_field id, name, exe, pod_name, pod_namespace;
	uint64_t pid;
	bool bad;
};

typedef int pair_fn(void *arg, const struct pb_field *key, const struct pb_field *value);

static int each_pair(const struct pb_field *in, uint32_t number, pair_fn *fn, void *arg)
{
	struct pb m = pb_inside(in);
	struct pb_field f, key, value;
	int r = 0;
	while (r == 0 && pb_next(&m, &f))
		if (pb_is(&f, number) && pb_pair(&f, &key, &value) == 0)
			r = fn(arg, &key, &value);
	return r;
}

/* --- where things are --------------------------------------------------------------------------------------- */

static void find_container(struct parts *p)
{
	struct pb m = pb_inside(&p->container);
	struct pb_field f;
	while (pb_next(&m, &f))
		if (pb_is(&f, CONTAINER_ID))
			p->id = f;
		else if (pb_is(&f, CONTAINER_NAME))
			p->name = f;
		else if (pb_is(&f, CONTAINER_ARGS) && !p->exe.len)
			p->exe = f;
		else if (f.number == CONTAINER_PID && f.type == PB_VARINT)
			p->pid = f.value;
	p->bad = p->bad || m.bad;
}

static void find_pod(struct parts *p)
{
	struct pb m = pb_inside(&p->pod);
	struct pb_field f;
	while (pb_next(&m, &f))
		if (pb_is(&f, POD_NAME))
			p->pod_name = f;
		else if (pb_is(&f, POD_NAMESPACE))
			p->pod_namespace = f;
	p->bad = p->bad || m.bad;
}

static void find_parts(enum nri_call call, const void *payload, size_t len, struct parts *p)
{
	static const struct pb_field nothing = {.type = PB_BYTES, .data = ""};
	uint32_t pod = call == NRI_STATE_CHANGE ? CHANGE_POD : CALL_POD;
	uint32_t container = call == NRI_STATE_CHANGE ? CHANGE_CONTAINER : CALL_CONTAINER;
	struct pb m = pb_of(payload, len);
	struct pb_field f;
	*p = (struct parts){nothing, nothing, nothing, nothing, nothing, nothing, nothing, 0, false};
	while (pb_next(&m, &f))
		if (pb_is(&f, pod))
			p->pod = f;
		else if (pb_is(&f, container))
			p->container = f;
	p->bad = m.bad;
	find_pod(p);
	find_container(p);
}

/* --- annotations -------------------------------------------------------------------------------------------- */

static bool is_ours(const struct pb_field *key)
{
	return key->len > strlen(ANNOTATION_PREFIX) &&
	       !strncmp(key->data, ANNOTATION_PREFIX, strlen(ANNOTATION_PREFIX)) && !memchr(key->data, 0, key->len);
}

static int add_annotation(void *arg, const struct pb_field *key, const struct pb_field *value)
{
	char name[KEY_MAX], text[ANNOTATION_VALUE_MAX + 1];
	bool is_text = value->len < sizeof(text) && !memchr(value->data, 0, value->len);
	if (!is_ours(key))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(key->len < sizeof(name) ? key->len : sizeof(name) - 1), key->data);
	if (is_text)
		snprintf(text, sizeof(text), "%.*s", (int)value->len, value->data);
	return annotations_add(arg, name, is_text ? text : NULL);
}

static int is_sandbox(void *arg, const struct pb_field *key, const struct pb_field *value)
{
	for (size_t i = 0; hook_input_sandbox_keys[i]; i++)
		if (pb_equals(key, hook_input_sandbox_keys[i]) && pb_equals(value, "sandbox"))
			return 1;
	return 0;
}

static int find_handler(void *arg, const struct pb_field *key, const struct pb_field *value)
{
	for (const struct hook_input_handler *h = hook_input_handlers; h->key; h++)
		if (pb_equals(key, h->key) && value->len >= strlen(h->value) &&
			!memcmp(value->data, h->value, strlen(h->value)))
			*(const char **)arg = h->why;
	return 0;
}

static int take_service(void *arg, const struct pb_field *key, const struct pb_field *value)
{
	if (pb_equals(key, SERVICE_KEY))
		*(struct pb_field *)arg = *value;
	return 0;
}

static struct pb_field find_service_name(const struct parts *p)
{
	struct pb_field name = {.type = PB_BYTES, .data = ""};
	each_pair(&p->pod, LABELS, take_service, &name);
	each_pair(&p->container, ANNOTATIONS, take_service, &name);
	each_pair(&p->pod, ANNOTATIONS, take_service, &name);
	return name;
}

static int read_request(const struct parts *p, struct container *c, struct err *e)
{
	struct annotations *a;
	char warning[sizeof(c->warning)];
	int r = annotations_new(&a);
	if (r < 0)
		return r;
	r = each_pair(&p->container, ANNOTATIONS, add_annotation, a);
	if (r == 0)
		r = each_pair(&p->pod, ANNOTATIONS, add_annotation, a);
	if (r == -E2BIG)
		err_say(e, r, "more than %d annotations io.pillion.*", ANNOTATIONS_MAX);
	if (r == 0)
		r = annotations_finish(a, c->name, &c->request, warning, sizeof(warning), e);
	if ((r == 0 || r == -EINVAL) && *warning)
		memcpy(c->warning, warning, sizeof(c->warning));
	annotations_free(a);
	return r;
}

/* --- the container ------------------------------------------------------------------------------------------ */

static void fill_name(char *to, const struct pb_field *name, struct container *c)
{
	size_t n = container_name_copy(to, name->data, name->len);
	if (n < name->len)
		snprintf(c->warning, sizeof(c->warning), "a name was cut to %zu bytes: %.64s...", n, to);
}

static void fill_names(const struct parts *p, struct container *c)
{
	struct pb_field name = find_service_name(p);
	fill_name(c->name, &p->name, c);
	fill_name(c->pod, &p->pod_name, c);
	fill_name(c->pod_namespace, &p->pod_namespace, c);
	fill_name(c->service, &name, c);
	snprintf(c->bundle, sizeof(c->bundle), "/");
	snprintf(c->root, sizeof(c->root), "/");
}

static int fill_id(const struct parts *p, struct container *c, struct err *e)
{
	if (p->id.len >= sizeof(c->id))
		return err_say(e, -EINVAL, "NRI: the container's id is longer than %zu bytes", sizeof(c->id) - 1);
	memcpy(c->id, p->id.data, p->id.len);
	if (strlen(c->id) == p->id.len && container_id_valid(c->id))
		return 0;
	c->id[0] = 0;
	return err_say(e, -EINVAL, "NRI: the container's id is not a name of A-Z a-z 0-9 _ + . -");
}

static int fill_pid(const struct parts *p, struct container *c, struct err *e)
{
	if (p->pid == 0)
		return err_say(e, -EINVAL, "NRI: the runtime does not tell the container's pid");
	if (p->pid == 1 || p->pid > CONTAINER_PID_MAX)
		return err_say(e, -EINVAL, "NRI: %llu is no container's pid", (unsigned long long)p->pid);
	c->pid = (int32_t)p->pid;
	return 0;
}

static void fill_exe(const struct parts *p, struct container *c)
{
	size_t n = p->exe.len < sizeof(c->exe) ? p->exe.len : sizeof(c->exe) - 1;
	memcpy(c->exe, p->exe.data, n);
	if (n < p->exe.len)
		snprintf(c->warning, sizeof(c->warning), "process.args[0] was cut to %zu bytes", n);
}

static int say_invalid(struct container *c, const struct err *e)
{
	c->verdict = DECISION_INVALID;
	memcpy(c->reason, e->text, sizeof(c->reason));
	for (char *at = c->reason; *at; at++)
		if (*at < 0x20 || *at > 0x7e)
			*at = '?';
	return 0;
}

int nri_container(enum nri_call call, const void *payload, size_t len, struct container *ret)
{
	struct parts p;
	struct err e = {0}, problem = {0};
	const char *otherwise = NULL;
	container_init(ret);
	find_parts(call, payload, len, &p);
	if (p.bad)
		err_say(&problem, -EBADMSG, "NRI: the runtime's call is no message");
	fill_names(&p, ret);
	fill_exe(&p, ret);
	if (fill_id(&p, ret, problem.code ? NULL : &problem) == 0 && call != NRI_CREATE_CONTAINER)
		fill_pid(&p, ret, problem.code ? NULL : &problem);
	each_pair(&p.container, ANNOTATIONS, find_handler, &otherwise);
	int r = read_request(&p, ret, &e);
	if (r == -ENOMEM)
		return r;
	if (r == 0 && (!*ret->request.events || !strcmp(ret->request.events, "off")))
		ret->verdict = DECISION_OFF;
	else if (each_pair(&p.container, ANNOTATIONS, is_sandbox, NULL))
		ret->verdict = DECISION_SANDBOX;
	else if (problem.code)
		return say_invalid(ret, &problem);
	else if (r < 0)
		return say_invalid(ret, &e);
	else if (otherwise && err_say(&e, -ENOTSUP, "%s", otherwise) < 0)
		return say_invalid(ret, &e);
	else
		ret->verdict = DECISION_PROFILE;
	return 0;
}

/* --- the other calls ---------------------------------------------------------------------------------------- */

static uint64_t read_varint_field(const void *payload, size_t len, uint32_t which)
{
	struct pb m = pb_of(payload, len);
	struct pb_field f;
	uint64_t value = 0;
	while (pb_next(&m, &f))
		if (f.number == which && f.type == PB_VARINT)
			value = f.value;
	return value;
}

uint32_t nri_event(const void *payload, size_t len)
{
	return (uint32_t)read_varint_field(payload, len, CHANGE_EVENT);
}

bool nri_more(const void *payload, size_t len)
{
	return read_varint_field(payload, len, 3) != 0;
}

uint32_t nri_configuration(const void *payload, size_t len, char *ret_config, size_t size)
{
	struct pb m = pb_of(payload, len);
	struct pb_field f;
	uint64_t ms = read_varint_field(payload, len, 5);
	*ret_config = 0;
	while (pb_next(&m, &f))
		if (pb_is(&f, 1))
			snprintf(ret_config, size, "%.*s", (int)(f.len < size ? f.len : size - 1), f.data);
	return ms > UINT32_MAX ? 0 : (uint32_t)ms;
}

/* --- the hook ----------------------------------------------------------------------------------------------- */

enum { ANSWER_ADJUST = 1, ADJUST_ANNOTATIONS = 2, ADJUST_HOOKS = 5, CREATE_RUNTIME = 2, POSTSTOP = 6 };

static void put_pair(struct protobuf_writer *o, const char *key, size_t key_len, const struct pb_field *value)
{
	uint8_t text[KEY_MAX + ANNOTATION_VALUE_MAX + 32];
	struct protobuf_writer pair = protobuf_writer_fixed(text, sizeof(text));
	protobuf_writer_bytes(&pair, 1, key, key_len);
	protobuf_writer_bytes(&pair, 2, value->data, value->len);
	protobuf_writer_message(o, ADJUST_ANNOTATIONS, &pair);
}

static int put_annotation(void *arg, const struct pb_field *key, const struct pb_field *value)
{
	/* In place of a value that is too long: as short as can be, and the hook refuses it with the same sentence. */
	static char long_text[ANNOTATION_VALUE_MAX + 1];
	const struct pb_field too_long = {.data = long_text, .len = sizeof(long_text)};
	memset(long_text, 'x', sizeof(long_text));
	if (is_ours(key) && key->len < KEY_MAX)
		put_pair(arg, key->data, key->len, value->len <= ANNOTATION_VALUE_MAX ? value : &too_long);
	return 0;
}

/* An empty one is an argument, too. */
static void put_argument(struct protobuf_writer *hook, const char *text)
{
	protobuf_writer_bytes(hook, 2, text, strlen(text));
}

static void put_hook(struct protobuf_writer *o, const struct nri_hook *hook)
{
	uint8_t text[8192], seconds[16];
	struct protobuf_writer h = protobuf_writer_fixed(text, sizeof(text)),
			       timeout = protobuf_writer_fixed(seconds, sizeof(seconds));
	const char *slash = strrchr(hook->path, '/');
	protobuf_writer_text(&h, 1, hook->path);
	put_argument(&h, slash ? slash + 1 : hook->path);
	for (const char *const *arg = hook->args; *arg; arg++)
		put_argument(&h, *arg);
	protobuf_writer_number(&timeout, 1, hook->timeout_s);
	protobuf_writer_message(&h, 4, &timeout);
	protobuf_writer_message(o, CREATE_RUNTIME, &h);
	protobuf_writer_message(o, POSTSTOP, &h);
}

void nri_injection(const void *payload, size_t len, const struct nri_hook *hook, struct protobuf_writer *o)
{
	static uint8_t text[256 << 10], both[20 << 10];
	struct protobuf_writer adjust = protobuf_writer_fixed(text, sizeof(text)),
			       hooks = protobuf_writer_fixed(both, sizeof(both));
	struct parts p;
	find_parts(NRI_CREATE_CONTAINER, payload, len, &p);
	struct pb_field name = find_service_name(&p);
	each_pair(&p.pod, ANNOTATIONS, put_annotation, &adjust);
	if (name.len)
		put_pair(&adjust, SERVICE_KEY, strlen(SERVICE_KEY), &name);
	put_hook(&hooks, hook);
	protobuf_writer_message(&adjust, ADJUST_HOOKS, &hooks);
	protobuf_writer_message(o, ANSWER_ADJUST, &adjust);
}
