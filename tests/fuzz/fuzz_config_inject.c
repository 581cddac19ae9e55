/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json of whatever bytes: it is refused, or what is added is there and is JSON still; and a command line. */
#include "oci/runtime/runtime_argv.h"
#include "shim/attach/config_inject.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void config(const char *text, size_t len)
{
	struct json_edit s, again;
	if (json_edit_open(&s, text, len, NULL) < 0)
		return;
	int changed = config_inject_hook(&s, "/pillion-hook", NULL, NULL) == 0;
	if (config_inject_wants_library(&s, NULL) == 1)
		changed += config_inject_library(&s, "/libpillion.so", NULL) == 0;
	config_inject_root(&s, "/bundle", NULL);
	if (json_edit_open(&again, s.text, s.len, NULL) < 0)
		abort();
	if (changed && s.len < len)
		abort();
	json_edit_done(&again);
	static const char *const hooks[] = {"hooks", "createRuntime", NULL}, *const root[] = {"root", "path", NULL};
	json_edit_drop(&s, hooks, NULL);
	json_edit_drop(&s, root, NULL);
	if (json_edit_open(&again, s.text, s.len, NULL) < 0)
		abort();
	json_edit_done(&again);
	json_edit_done(&s);
}

static void line(char *text)
{
	char *words[32] = {(char *)"runc"}, *rest = text;
	int n = 1;
	struct runtime_argv v;
	while (n < 31 && (words[n] = strsep(&rest, " \n")))
		n++;
	for (enum dialect d = DIALECT_RUNC; d <= DIALECT_CRUN; d++)
		if (runtime_argv_parse(d, n, words, &v) == 0 && v.command != INVOKED_OTHER && (!v.id || v.id_at >= n))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	if (size && data[0] == '{')
		config(text, size);
	else
		line(text);
	free(text);
	return 0;
}
