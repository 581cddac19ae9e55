/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/annotations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_FORM "/container."

struct pair {
	char *key;   /* without the prefix */
	char *value; /* NULL: no string, or longer than ANNOTATION_VALUE_MAX */
};

struct annotations {
	struct pair pairs[ANNOTATIONS_MAX];
	size_t n;
};

int annotations_new(struct annotations **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct annotations *annotations_free(struct annotations *a)
{
	for (size_t i = 0; a && i < a->n; i++) {
		free(a->pairs[i].key);
		free(a->pairs[i].value);
	}
	free(a);
	return NULL;
}

bool annotation_is_ours(const char *key)
{
	return !strncmp(key, ANNOTATION_PREFIX, strlen(ANNOTATION_PREFIX));
}

int annotations_add(struct annotations *a, const char *key, const char *value)
{
	if (!annotation_is_ours(key))
		return 0;
	if (a->n == ANNOTATIONS_MAX)
		return -E2BIG;
	struct pair *p = &a->pairs[a->n];
	p->key = strndup(key + strlen(ANNOTATION_PREFIX), 512); /* longer than any that could match */
	if (!p->key)
		return -ENOMEM;
	a->n++;
	if (!value || strlen(value) > ANNOTATION_VALUE_MAX)
		return 0;
	p->value = strdup(value);
	return p->value ? 0 : -ENOMEM;
}

static const struct pair *find_pair(const struct annotations *a, const char *name, const char *container)
{
	size_t len = strlen(name), form = strlen(CONTAINER_FORM);

	for (size_t i = a->n; i-- > 0;) {
		const char *rest = a->pairs[i].key + len;
		if (strncmp(a->pairs[i].key, name, len))
			continue;
		if (container ? !strncmp(rest, CONTAINER_FORM, form) && !strcmp(rest + form, container) : !*rest)
			return &a->pairs[i];
	}
	return NULL;
}

static const struct pair *find_annotation(const struct annotations *a, const char *name, const char *container)
{
	const struct pair *own = container && *container ? find_pair(a, name, container) : NULL;

	return own ? own : find_pair(a, name, NULL);
}

static bool is_known(const char *name, size_t len)
{
	const char *have;

	for (size_t i = 0; (have = options_name(OPTION_ANNOTATION, i)); i++)
		if (strlen(have) == len && !strncmp(have, name, len))
			return true;
	return false;
}

static void warn_unknown(const struct annotations *a, char *warning, size_t size)
{
	char text[ERR_SHOWN];

	*warning = 0;
	for (size_t i = 0; i < a->n; i++) {
		const char *key = a->pairs[i].key;
		size_t name = strcspn(key, "/");
		bool form = !key[name] || !strncmp(key + name, CONTAINER_FORM, strlen(CONTAINER_FORM));
		if (form && is_known(key, name))
			continue;
		snprintf(warning, size, "annotation " ANNOTATION_PREFIX "%s is unknown and ignored",
			err_shown(key, strlen(key), text));
		return;
	}
}

static int apply_annotation(struct options *o, const char *name, const struct pair *p, struct err *e)
{
	char key[ERR_SHOWN], where[80];

	snprintf(where, sizeof(where), "annotation " ANNOTATION_PREFIX "%s", err_shown(p->key, strlen(p->key), key));
	if (!p->value)
		return err_say(
			e, -EINVAL, "%s: the value is no string of at most %d bytes", where, ANNOTATION_VALUE_MAX);
	return options_set_as(o, OPTION_ANNOTATION, name, where, p->value, e);
}

int annotations_finish(struct annotations *a, const char *container, struct request *ret, char *warning,
	size_t warning_size, struct err *e)
{
	struct options o;
	const char *name = options_name(OPTION_ANNOTATION, 0); /* the switch */
	const struct pair *p = find_annotation(a, name, container);

	warn_unknown(a, warning, warning_size);
	request_default(&o.request);
	bool off = p && p->value && !strcmp(p->value, "off");
	if (off)
		snprintf(o.request.events, sizeof(o.request.events), "off");
	for (size_t i = 0; p && !off && (name = options_name(OPTION_ANNOTATION, i)); i++) {
		const struct pair *set = find_annotation(a, name, container);
		int r = set ? apply_annotation(&o, name, set, e) : 0;
		if (r < 0)
			return r;
	}
	*ret = o.request;
	return 0;
}
