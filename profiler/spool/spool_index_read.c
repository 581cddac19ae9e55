/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool_index_read.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_parse.h"
#include "profiler/spool/spool_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_line(const char *line, size_t len, const char *id, int64_t since_ns, struct spool_index_target *ret)
{
	struct err e;
	struct json *doc;
	int64_t start = 0, samples = 0;
	if (json_parse(line, len, &doc, &e) < 0)
		return;
	const char *of = json_text(json_member(doc, "id"), NULL), *file = json_text(json_member(doc, "file"), NULL);
	json_number(json_member(doc, "start_ns"), &start);
	json_number(json_member(doc, "samples"), &samples);
	if (of && file && !strcmp(of, id) && start >= since_ns) {
		ret->profiles++;
		ret->samples += samples > 0 ? (uint64_t)samples : 0;
		snprintf(ret->file, sizeof(ret->file), "%s", file);
	}
	json_free(doc);
}

int spool_index_read_target(int spool, const char *id, int64_t since_ns, struct spool_index_target *ret)
{
	char *text;
	size_t len;
	*ret = (struct spool_index_target){0};
	fd_auto fd = fd_open(spool, SPOOL_INDEX_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	int r = fd < 0 ? fd : fd_slurp(fd, SPOOL_INDEX_MAX, &text, &len);
	if (r < 0)
		return r;
	for (const char *line = text, *end; (end = memchr(line, '\n', len - (size_t)(line - text))); line = end + 1)
		read_line(line, (size_t)(end - line), id, since_ns, ret);
	free(text);
	return 0;
}
