/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/hooks_dir.h"

#include "oci/base/json/json_parse.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const stages[] = {
	"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop", "precreate"};

static int check_stages(const struct json *list, struct err *e)
{
	size_t n = 0;
	const struct json *v;
	for (; (v = json_item(list, n)); n++) {
		const char *stage = json_text(v, NULL);
		bool known = false;
		for (size_t i = 0; stage && i < sizeof(stages) / sizeof(stages[0]); i++)
			known = known || !strcmp(stage, stages[i]);
		if (!known)
			return err_say(e, -EINVAL, "\"%.40s\" is no stage", stage ? stage : "?");
	}
	return n ? 0 : err_say(e, -EINVAL, "it names no stage");
}

static int check_pattern(const char *text, struct err *e)
{
	regex_t compiled;
	if (!text || regcomp(&compiled, text, REG_EXTENDED | REG_NOSUB) != 0)
		return err_say(e, -EINVAL, "\"%.60s\" is no regular expression", text ? text : "?");
	regfree(&compiled);
	return 0;
}

static int check_annotation(void *arg, const char *key, const struct json *value)
{
	int r = check_pattern(key, arg);
	return r < 0 ? r : check_pattern(json_text(value, NULL), arg);
}

static int check_hook(const struct json *doc, char ret_program[PATH_MAX], struct err *e)
{
	const char *version = json_text(json_member(doc, "version"), NULL);
	const struct json *hook = json_member(doc, "hook"), *when = json_member(doc, "when");
	const char *path = json_text(json_member(hook, "path"), NULL);
	if (!version || strcmp(version, "1.0.0") != 0)
		return err_say(e, -EINVAL, "its version is not 1.0.0");
	if (!path || path[0] != '/' || strlen(path) >= PATH_MAX)
		return err_say(e, -EINVAL, "hook.path is no absolute path");
	if (!json_is_object(when))
		return err_say(e, -EINVAL, "it does not say when");
	snprintf(ret_program, PATH_MAX, "%s", path);
	int r = check_stages(json_member(doc, "stages"), e);
	return r < 0 ? r : json_each(json_member(when, "annotations"), check_annotation, e);
}

int hooks_dir_check(const char *text, size_t len, char ret_program[PATH_MAX], struct err *e)
{
	struct json *doc;
	int r = json_parse(text, len, &doc, e);
	if (r < 0)
		return r;
	r = check_hook(doc, ret_program, e);
	json_free(doc);
	return r;
}
