/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/tracepoint.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT_MAX (32u << 10)

/* --- a field ------------------------------------------------------------------------------------------- */

/* "\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;" */
struct field {
	const char *type, *name; /* of the declaration; the text behind the name belongs to the type, too: "[16]" */
	int type_len, name_len;
	unsigned offset, size, is_signed;
};

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Finds the next field from `at` on. Returns its end, or NULL. */
static const char *next_field(const char *at, struct field *ret)
{
	static const char begin[] = "field:";
	while ((at = strstr(at, begin))) {
		const char *end = strchr(at, ';'), *last;
		at += sizeof(begin) - 1;
		if (!end || sscanf(end, ";\toffset:%u;\tsize:%u;\tsigned:%u;", &ret->offset, &ret->size,
				    &ret->is_signed) != 3)
			continue;
		last = memchr(at, '[', (size_t)(end - at));
		last = last && strncmp(at, "__", 2) != 0 ? last : end; /* "__data_loc char[] name" */
		const char *name = last;
		while (name > at && is_letter(name[-1]))
			name--;
		*ret = (struct field){.type = at,
			.name = name,
			.type_len = (int)(end - at),
			.name_len = (int)(last - name),
			.offset = ret->offset,
			.size = ret->size,
			.is_signed = ret->is_signed};
		return end;
	}
	return NULL;
}

/* No string, no array, and nothing that is an address. */
static bool is_number(const struct field *f)
{
	const bool fits = f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8;
	return fits && f->offset <= UINT16_MAX && !memchr(f->type, '[', (size_t)f->type_len) &&
	       !memchr(f->type, '*', (size_t)f->type_len);
}

/* "dev, sector, bytes": all numbers but those that every tracepoint has. */
static void list_fields(const char *format, char *ret, size_t size)
{
	struct field f;
	size_t at = 0;
	ret[0] = 0;
	for (const char *next = format; (next = next_field(next, &f));)
		if (is_number(&f) && strncmp(f.name, "common_", 7) != 0 && at + (size_t)f.name_len + 3 < size)
			at += (size_t)snprintf(ret + at, size - at, "%s%.*s", at ? ", " : "", f.name_len, f.name);
}

int tracepoint_field(const char *format, const char *field, const char *name, struct event_spec *ret, struct err *e)
{
	struct field f;
	char list[160];
	for (const char *next = format; (next = next_field(next, &f));) {
		if (strlen(field) != (size_t)f.name_len || strncmp(field, f.name, strlen(field)) != 0)
			continue;
		if (!is_number(&f))
			return err_say(e, -EINVAL, "tracepoint %s: its field %s is no number but \"%.*s\"", name, field,
				f.type_len < 60 ? f.type_len : 60, f.type);
		ret->value_at = (uint16_t)f.offset;
		ret->value_size = (uint8_t)f.size;
		ret->value_signed = f.is_signed != 0;
		return 0;
	}
	list_fields(format, list, sizeof(list));
	return err_say(e, -ENOENT, "tracepoint %s: it has no field %s; those that are numbers: %s", name, field,
		list[0] ? list : "none");
}

/* --- tracefs ------------------------------------------------------------------------------------------- */

/* The usual places, then wherever else it is mounted (proc_pid_mounts(5)). */
static const char *get_tracefs_path(size_t i)
{
	static const char *const usual[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	static char found[PATH_MAX];
	const size_t n = sizeof(usual) / sizeof(usual[0]);
	struct mntent m;
	char line[2 * PATH_MAX];
	if (i < n)
		return usual[i];
	FILE *mounts = i == n ? setmntent("/proc/self/mounts", "re") : NULL;
	found[0] = 0;
	while (mounts && !found[0] && getmntent_r(mounts, &m, line, sizeof(line)))
		if (!strcmp(m.mnt_type, "tracefs"))
			snprintf(found, sizeof(found), "%s", m.mnt_dir);
	if (mounts)
		endmntent(mounts);
	return found[0] ? found : NULL;
}

/* Reads a file of the tracepoint "system:name" or "system:name.field". */
static int read_of(const char *name, const char *file, char *ret, size_t size)
{
	char path[PATH_MAX + EVENT_NAME_MAX + 32];
	const char *at;
	int system = (int)strcspn(name, ":"), point = (int)strcspn(name + system + 1, "."), r = -ENOENT;
	for (size_t i = 0; r == -ENOENT && (at = get_tracefs_path(i)); i++) {
		snprintf(
			path, sizeof(path), "%s/events/%.*s/%.*s/%s", at, system, name, point, name + system + 1, file);
		r = fd_read_text(AT_FDCWD, path, ret, size);
	}
	return r;
}

static bool is_mounted(void)
{
	char path[PATH_MAX + 16];
	const char *at;
	for (size_t i = 0; (at = get_tracefs_path(i)); i++) {
		snprintf(path, sizeof(path), "%s/events", at);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

static int explain_error(int error, const char *name, struct err *e)
{
	if (error == -EACCES)
		return err_say(e, error, "tracepoint %s: tracefs is for root only on this host", name);
	if (error != -ENOENT)
		return err_set(e, error, "tracepoint %s", name);
	if (!is_mounted())
		return err_say(e, error,
			"tracepoint %s: tracefs is not mounted: mount -t tracefs none /sys/kernel/tracing", name);
	return err_say(e, error, "there is no tracepoint %.*s in this kernel", (int)strcspn(name, "."), name);
}

int tracepoint_find(struct event_spec *s, struct err *e)
{
	static char format[FORMAT_MAX];
	const char *field = strchr(s->name, '.');
	char id[32];
	int r = read_of(s->name, "id", id, sizeof(id));
	if (r == 0 && field)
		r = read_of(s->name, "format", format, sizeof(format));
	if (r < 0)
		return explain_error(r, s->name, e);
	s->config = strtoull(id, NULL, 10);
	return field ? tracepoint_field(format, field + 1, s->name, s, e) : 0;
}

int tracepoints_find(struct target_desc *d, struct err *e)
{
	struct err why = {0};
	for (uint32_t i = 0; i < d->n_events;)
		if (event_is(&d->events[i], NAMED_TRACEPOINT) && tracepoint_find(&d->events[i], &why) < 0)
			target_leave_out(d, i, why.text);
		else
			i++;
	return d->n_events ? 0 : err_say(e, why.code, "%s", why.text);
}
