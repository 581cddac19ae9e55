/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_status.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_parse.h"
#include "oci/base/utf8.h"
#include "profiler/push/push_queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SUFFIX ".json"
#define FILE_MAX 4096

static const struct {
	const char *key;
	size_t at;
	bool since; /* a time: becomes its age */
} keys[] = {
	{"sent", offsetof(struct push_status, sent), false},
	{"sent_bytes", offsetof(struct push_status, bytes), false},
	{"refused", offsetof(struct push_status, refused), false},
	{"lost", offsetof(struct push_status, lost), false},
	{"failures", offsetof(struct push_status, failures), false},
	{"waiting", offsetof(struct push_status, waiting), false},
	{"oldest", offsetof(struct push_status, oldest_s), true},
	{"failing_since", offsetof(struct push_status, failing_s), true},
	{"written", offsetof(struct push_status, heard_s), true},
};

static uint64_t value_of(int64_t value, bool since)
{
	if (since && value > 0) {
		const int64_t age = time(NULL) - value;
		return age > 1 ? (uint64_t)age : 1; /* 0 is none */
	}
	return value > 0 ? (uint64_t)value : 0;
}

static int read_one(int dir, const char *file, struct push_status *ret)
{
	char text[FILE_MAX];
	struct err e;
	struct json *doc;
	int64_t value;
	fd_auto fd = fd_open(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	ssize_t n = fd < 0 ? fd : fd_read_all(fd, text, sizeof(text));
	int r = n < 0 ? (int)n : json_parse(text, (size_t)n, &doc, &e);
	if (r < 0)
		return r;
	*ret = (struct push_status){0};
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(strlen(file) - strlen(SUFFIX)), file);
	utf8_clean(ret->name);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const uint64_t is =
			json_number(json_member(doc, keys[i].key), &value) == 0 ? value_of(value, keys[i].since) : 0;
		memcpy((char *)ret + keys[i].at, &is, sizeof(is));
	}
	const char *why = json_text(json_member(doc, "why"), NULL);
	snprintf(ret->why, sizeof(ret->why), "%s", why ? why : "");
	utf8_clean(ret->why);
	json_free(doc);
	return ret->heard_s && ret->heard_s <= PUSH_STATUS_STALE_S ? 0 : -ESTALE;
}

static int is_status(const struct dirent *de)
{
	const size_t len = strlen(de->d_name), suffix = strlen(SUFFIX);
	return de->d_name[0] != '.' && len > suffix && !strcmp(de->d_name + len - suffix, SUFFIX);
}

unsigned push_status_read(int spool, struct push_status ret[PUSH_STATUS_MAX])
{
	struct dirent **list;
	unsigned n = 0;
	fd_auto dir = fd_open(spool, PUSH_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int found = dir < 0 ? dir : scandirat(dir, ".", &list, is_status, alphasort);
	for (int i = 0; i < found; i++) {
		n += n < PUSH_STATUS_MAX && read_one(dir, list[i]->d_name, &ret[n]) == 0;
		free(list[i]);
	}
	if (found >= 0)
		free(list);
	return n;
}
