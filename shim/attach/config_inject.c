/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/config_inject.h"

#include "oci/base/json/json_parse.h"
#include "oci/config/options.h"
#include "oci/runtime/hook_input.h"
#include "shim/attach/app_socket_container.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWITCH ANNOTATION_PREFIX "profile"
#define TEXT_MAX 4400 /* an annotation's value, and a key */

static bool has_text(const char *text, size_t len, const char *what)
{
	return memmem(text, len, what, strlen(what)) != NULL;
}

bool config_inject_is_asked(const char *text, size_t len)
{
	return has_text(text, len, "\"" SWITCH);
}

/* Refuses characters that JSON would have to escape: none of our paths has them. */
static int check_path_chars(const char *text, struct err *e)
{
	for (const char *c = text; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			return err_say(e, -EINVAL,
				"a path with quotes, backslashes or control characters in it: %.100s", text);
	return 0;
}

/* A string's bytes without its quotes; false: absent, or no string. */
static bool text_at(const struct json_edit *s, const char *const path[], const char **ret, size_t *ret_len)
{
	if (json_edit_get(s, path, ret, ret_len, NULL) < 0 || **ret != '"')
		return false;
	*ret += 1;
	*ret_len -= 2;
	return true;
}

/* --- the hook ----------------------------------------------------------------------------------------------------- */

int config_inject_hook(struct json_edit *s, const char *hook, const char *etc, struct err *e)
{
	static const char *const stages[] = {"createRuntime", "poststop"};
	char entry[2048];
	int r = check_path_chars(hook, e);
	if (r == 0 && etc)
		r = check_path_chars(etc, e);
	const int n =
		snprintf(entry, sizeof(entry), "{\"path\":\"%s\",\"args\":[\"pillion-hook\"%s%s%s],\"timeout\":%d}",
			hook, etc ? ",\"--etc\",\"" : "", etc ? etc : "", etc ? "\"" : "", HOOK_TIMEOUT_S);
	if (r == 0 && (n < 0 || (size_t)n >= sizeof(entry)))
		r = err_say(e, -EINVAL, "the hook's path is too long");
	for (size_t i = 0; r == 0 && i < sizeof(stages) / sizeof(stages[0]); i++) {
		const char *const path[] = {"hooks", stages[i], NULL};
		const char *had;
		size_t len;
		r = json_edit_get(s, path, &had, &len, e);
		if (r == 0 && has_text(had, len, "/pillion-hook\""))
			continue;
		if (r == 0 || r == -ENOENT)
			r = json_edit_append(s, path, entry, e);
	}
	return r;
}

/* --- the library -------------------------------------------------------------------------------------------------- */

static bool is_equal(const char *text, size_t len, const char *what)
{
	return len == strlen(what) && !memcmp(text, what, len);
}

static bool is_sandbox(const struct json_edit *s)
{
	for (size_t i = 0; hook_input_sandbox_keys[i]; i++) {
		const char *const path[] = {"annotations", hook_input_sandbox_keys[i], NULL};
		const char *type;
		size_t len;
		if (text_at(s, path, &type, &len) && is_equal(type, len, "sandbox"))
			return true;
	}
	return false;
}

/* Its annotation: the one for its own name, else the one for all containers. */
static bool request_of(const struct json_edit *s, const char **ret, size_t *ret_len)
{
	for (size_t i = 0; hook_input_name_keys[i]; i++) {
		const char *const path[] = {"annotations", hook_input_name_keys[i], NULL};
		char key[TEXT_MAX];
		const char *const own[] = {"annotations", key, NULL};
		const char *name;
		size_t len;
		if (!text_at(s, path, &name, &len) || len > 256)
			continue;
		snprintf(key, sizeof(key), SWITCH "/container.%.*s", (int)len, name);
		if (text_at(s, own, ret, ret_len))
			return true;
	}
	return text_at(s, (const char *const[]){"annotations", SWITCH, NULL}, ret, ret_len);
}

/* Does the list have one of these events, with or without options? */
static bool asks_within(const char *list, size_t len)
{
	static const char *const events[] = {"alloc", "calls", "crash"};
	const char *const end = list + len;
	for (const char *at = list; at < end; at++) {
		const char *comma = memchr(at, ',', (size_t)(end - at)), *to = comma ? comma : end;
		while (at < to && *at == ' ')
			at++;
		for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
			const size_t n = strlen(events[i]);
			if ((size_t)(to - at) >= n && !memcmp(at, events[i], n) &&
				((size_t)(to - at) == n || strchr(":/@ ", at[n])))
				return true;
		}
		at = to;
	}
	return false;
}

static bool is_read_only(const struct json *mount)
{
	const struct json *options = json_member(mount, "options");
	const char *one;
	for (size_t i = 0; (one = json_text(json_item(options, i), NULL)); i++)
		if (!strcmp(one, "ro") || !strcmp(one, "rro"))
			return true;
	return false;
}

/*
 * A directory on the way to our mount point: the runtime must be able to make that there, or the container does not
 * start.
 */
static bool is_on_the_way(const char *destination)
{
	static const char *const dirs[] = {"/run", "/var/run", APP_CONTAINER_DIR, ("/var" APP_CONTAINER_DIR)};
	size_t len = strlen(destination);
	while (len > 1 && destination[len - 1] == '/')
		len--;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (strlen(dirs[i]) == len && !strncmp(destination, dirs[i], len))
			return true;
	return false;
}

/* 1, or -EINVAL with a sentence: the runtime could not make the mount point. */
static int has_place(const struct json_edit *s, struct err *e)
{
	static const char *const mounts[] = {"mounts", NULL};
	struct json *doc = NULL;
	const char *list, *destination;
	char *text = NULL;
	size_t len;
	if (json_edit_get(s, mounts, &list, &len, NULL) < 0)
		return 1;
	int r = asprintf(&text, "{\"mounts\":%.*s}", (int)len, list);
	r = r < 0 ? err_set(e, -ENOMEM, "no memory") : json_parse(text, (size_t)r, &doc, e);
	const struct json *all = json_member(doc, "mounts"), *mount;
	for (size_t i = 0; r == 0 && (mount = json_item(all, i)); i++) {
		destination = json_text(json_member(mount, "destination"), NULL);
		if (destination && is_on_the_way(destination) && is_read_only(mount))
			r = err_say(e, -EINVAL, "%.100s is mounted read-only, and it would be in there", destination);
	}
	json_free(doc);
	free(text);
	return r < 0 ? r : 1;
}

int config_inject_wants_library(const struct json_edit *s, struct err *e)
{
	static const char *const annotations[] = {"annotations", NULL}, *const namespaces[] = {
										"linux", "namespaces", NULL};
	const char *text;
	size_t len;
	int r = json_edit_get(s, annotations, &text, &len, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (is_sandbox(s) || !request_of(s, &text, &len) || !asks_within(text, len))
		return 0;
	r = json_edit_get(s, namespaces, &text, &len, e);
	if (r < 0 && r != -ENOENT)
		return r;
	return r == 0 && has_text(text, len, "\"user\"")
		       ? err_say(e, -EINVAL, "libpillion does nothing in a user namespace")
		       : has_place(s, e);
}

/* "LD_PRELOAD=a" becomes "LD_PRELOAD=a:ours". */
static int add_preload(struct json_edit *s, struct err *e)
{
	static const char *const path[] = {"process", "env", NULL};
	static const char preload[] = "\"LD_PRELOAD=";
	const char *env, *had = NULL;
	size_t len;
	int r = json_edit_get(s, path, &env, &len, e);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		had = memmem(env, len, preload, strlen(preload));
	if (had && had[-1] == '\\') /* within another variable's value */
		had = NULL;
	if (!had)
		return json_edit_append(s, path, "\"LD_PRELOAD=" APP_CONTAINER_LIBRARY "\"", e);
	const char *value = had + strlen(preload), *end = strchr(value, '"');
	if (memchr(value, '\\', (size_t)(end - value)))
		return err_say(e, -EINVAL, "its LD_PRELOAD has a backslash in it");
	if (has_text(value, (size_t)(end - value), APP_CONTAINER_LIBRARY))
		return 0;
	char *with;
	const int n = asprintf(&with, "%.*s%s" APP_CONTAINER_LIBRARY "%.*s", (int)(end - env), env,
		end > value ? ":" : "", (int)(len - (size_t)(end - env)), end);
	if (n < 0)
		return err_set(e, -ENOMEM, "no memory");
	r = json_edit_set(s, path, with, e);
	free(with);
	return r;
}

int config_inject_library(struct json_edit *s, const char *library, struct err *e)
{
	static const char *const mounts[] = {"mounts", NULL}, *const env[] = {"process", "env", NULL};
	char entry[2048];
	const char *had;
	size_t len;
	int r = check_path_chars(library, e);
	if (r < 0)
		return r;
	if (json_edit_get(s, mounts, &had, &len, NULL) == 0 && has_text(had, len, "\"" APP_CONTAINER_LIBRARY "\""))
		return 0; /* the author of the config.json has done all this already */
	snprintf(entry, sizeof(entry),
		"{\"destination\":\"" APP_CONTAINER_LIBRARY
		"\",\"type\":\"bind\",\"source\":\"%s\",\"options\":[\"bind\",\"ro\","
		"\"nosuid\",\"nodev\"]}",
		library);
	r = json_edit_append(s, mounts, entry, e);
	if (r == 0)
		r = add_preload(s, e);
	return r == 0 ? json_edit_append(s, env, "\"PILLION_SOCKET=" APP_CONTAINER_SOCKET "\"", e) : r;
}

/* --- the root ----------------------------------------------------------------------------------------------------- */

int config_inject_root(struct json_edit *s, const char *bundle, struct err *e)
{
	static const char *const path[] = {"root", "path", NULL}, *const mounts[] = {"mounts", NULL};
	char root[8192];
	const char *had;
	size_t len;
	if (json_edit_get(s, mounts, &had, &len, NULL) == 0 && has_text(had, len, "\"..")) /* "source": "../data" */
		return err_say(e, -EINVAL, "a mount comes from outside of the bundle, by \"..\"");
	if (!text_at(s, path, &had, &len))
		return err_say(e, -EINVAL, "it has no root.path");
	if (len && *had == '/')
		return 0;
	int r = check_path_chars(bundle, e);
	const int n = snprintf(root, sizeof(root), "\"%s/%.*s\"", bundle, (int)len, had);
	if (r == 0 && (n < 0 || (size_t)n >= sizeof(root)))
		r = err_say(e, -EINVAL, "root.path is too long");
	return r < 0 ? r : json_edit_set(s, path, root, e);
}
