/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/settings_reload.h"

#include "oci/base/log.h"
#include "profiler/target/exporter_link.h"
#include "profiler/target/limits.h"

#include <stdio.h>
#include <string.h>

static void use_log_level(const struct settings *now, struct engine *g)
{
	log_level(now->log_level);
}

static void use_spool_caps(const struct settings *now, struct engine *g)
{
	exporter_link_limit(g, now->spool_bytes, now->spool_age_s);
}

static void use_limits(const struct settings *now, struct engine *g)
{
	limits_apply(g, now);
}

#define FIELD(f) offsetof(struct settings, f), sizeof(((struct settings *)0)->f)

/* The settings that a service reads, by the keys of pillion.conf. */
static const struct row {
	const char *key;
	size_t offset, size;
	bool text;						   /* bytes behind its NUL do not count */
	void (*use)(const struct settings *now, struct engine *g); /* NULL: needed privileges to set up */
} rows[] = {
	{"log_level", FIELD(log_level), false, use_log_level},
	{"spool_size", FIELD(spool_bytes), false, use_spool_caps},
	{"spool_age", FIELD(spool_age_s), false, use_spool_caps},
	{"targets", FIELD(limits.targets), false, use_limits},
	{"fds", FIELD(limits.fds), false, use_limits},
	{"table_size", FIELD(limits.table_bytes), false, use_limits},
	{"target_rate", FIELD(limits.target_rate), false, use_limits},
	{"target_bytes", FIELD(limits.target_bytes), false, use_limits},
	{"cpu_budget", FIELD(limits.cpu_budget), false, use_limits},
	{"module_size", FIELD(limits.module_bytes), false, NULL},
	{"jit_size", FIELD(limits.jit_bytes), false, NULL},
	{"control", FIELD(paths.control), true, NULL},
	{"metrics", FIELD(paths.metrics), true, NULL},
	{"users_group", FIELD(users.group), true, NULL},
	{"users_max", FIELD(users.max), false, NULL},
	{"users_spool_size", FIELD(users.spool_bytes), false, NULL},
	{"spool", FIELD(paths.spool), true, NULL},
	{"log", FIELD(paths.log), true, NULL},
};

static bool is_same_value(const struct row *row, const char *a, const char *b)
{
	return row->text ? !strncmp(a, b, row->size) : !memcmp(a, b, row->size);
}

static void append_key(char *list, size_t size, const char *key)
{
	size_t len = strlen(list);
	snprintf(list + len, size - len, "%s%s", len ? ", " : "", key);
}

void settings_reload(struct settings *now, const struct settings *fresh, struct engine *g, struct reloaded *ret)
{
	char waits[100] = "";
	ret->changed[0] = ret->waits[0] = 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		char *mine = (char *)now + row->offset;
		const char *other = (const char *)fresh + row->offset;
		if (is_same_value(row, mine, other))
			continue;
		if (!row->use) {
			append_key(waits, sizeof(waits), row->key);
			continue;
		}
		memcpy(mine, other, row->size);
		row->use(now, g);
		append_key(ret->changed, sizeof(ret->changed), row->key);
	}
	if (waits[0])
		snprintf(ret->waits, sizeof(ret->waits), "%s %s a restart", waits,
			strchr(waits, ',') ? "need" : "needs");
}
