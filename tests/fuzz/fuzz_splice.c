/* A config.json of whatever bytes: it is refused, or what is added is there and is JSON still; and a command line. */
#include "oci/runtime/runtime_argv.h"
#include "shim/attach/config_inject.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void config(const char *text, size_t len)
{
	struct splice s, again;
	if (splice_open(&s, text, len, NULL) < 0)
		return;
	int changed = instrument_hook(&s, "/pillion-hook", NULL, NULL) == 0;
	if (instrument_wants_library(&s, NULL) == 1)
		changed += instrument_library(&s, "/libpillion.so", NULL) == 0;
	instrument_root(&s, "/bundle", NULL);
	if (splice_open(&again, s.text, s.len, NULL) < 0)
		abort();
	if (changed && s.len < len)
		abort();
	splice_done(&again);
	static const char *const hooks[] = {"hooks", "createRuntime", NULL}, *const root[] = {"root", "path", NULL};
	splice_drop(&s, hooks, NULL);
	splice_drop(&s, root, NULL);
	if (splice_open(&again, s.text, s.len, NULL) < 0)
		abort();
	splice_done(&again);
	splice_done(&s);
}

static void line(char *text)
{
	char *words[32] = {(char *)"runc"}, *rest = text;
	int n = 1;
	struct invocation v;
	while (n < 31 && (words[n] = strsep(&rest, " \n")))
		n++;
	for (enum dialect d = DIALECT_RUNC; d <= DIALECT_CRUN; d++)
		if (invocation_parse(d, n, words, &v) == 0 && v.command != INVOKED_OTHER && (!v.id || v.id_at >= n))
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
