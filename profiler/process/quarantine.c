/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/quarantine.h"

#include "oci/base/clock.h"
#include "profiler/process/module.h"

#include <stdio.h>
#include <string.h>

#define DEATHS_NS (600 * NSEC_PER_SEC) /* in which so many are too many */

unsigned deaths_count(struct crash_count *d, int64_t now)
{
	if (!d->n || now - d->first > DEATHS_NS)
		*d = (struct crash_count){.first = now};
	return ++d->n;
}

/* --- which file ----------------------------------------------------------------------------------------- */

static void fill_file_entry(struct quarantine_file *f, const struct module_key *key, uint32_t target)
{
	f->ino = key->ino;
	f->maj = key->maj;
	f->min = key->min;
	f->target = key->build_id_len ? 0 : target;
	f->build_id_len = key->build_id_len;
	memcpy(f->build_id, key->build_id, sizeof(f->build_id));
	snprintf(f->path, sizeof(f->path), "%s", key->path);
}

static bool is_same_file(const struct quarantine_file *a, const struct quarantine_file *b)
{
	if (a->build_id_len || b->build_id_len)
		return a->build_id_len == b->build_id_len && !memcmp(a->build_id, b->build_id, a->build_id_len);
	return a->target == b->target && a->ino == b->ino && a->maj == b->maj && a->min == b->min &&
	       !strcmp(a->path, b->path);
}

static bool is_shut(const struct quarantined *e)
{
	return e->deaths.n && e->shut;
}

bool quarantine_has(const struct quarantine *q, const struct module_key *key, uint32_t target)
{
	struct quarantine_file f;
	bool any = false;
	for (unsigned i = 0; i < QUARANTINE_MAX; i++)
		any |= is_shut(&q->list[i]);
	if (!any)
		return false;
	fill_file_entry(&f, key, target);
	for (unsigned i = 0; i < QUARANTINE_MAX; i++)
		if (is_shut(&q->list[i]) && is_same_file(&q->list[i].file, &f))
			return true;
	return false;
}

void quarantine_note(struct crash_marker *at, const struct module_key *key)
{
	fill_file_entry(&at->file, key, at->target);
}

/* --- the blame ------------------------------------------------------------------------------------------ */

/* Copies the file that a worker noted, which may have been taken over. False: it was reading no file. */
static bool take_file(const struct crash_marker *at, struct quarantine_file *ret)
{
	if (!at->reading || at->file.build_id_len > ELF_BUILD_ID_MAX)
		return false;
	*ret = at->file;
	ret->path[sizeof(ret->path) - 1] = 0;
	ret->target = ret->build_id_len ? 0 : at->target;
	return true;
}

/* Files that are still read go before those that are not, the oldest first. */
static bool goes_before(const struct quarantined *a, const struct quarantined *b)
{
	if (!a->deaths.n || !b->deaths.n)
		return !a->deaths.n;
	return a->shut != b->shut ? b->shut : a->deaths.first < b->deaths.first;
}

static struct quarantined *entry_of(struct quarantine *q, const struct quarantine_file *f)
{
	struct quarantined *victim = &q->list[0];
	for (unsigned i = 0; i < QUARANTINE_MAX; i++) {
		struct quarantined *e = &q->list[i];
		if (e->deaths.n && is_same_file(&e->file, f))
			return e;
		if (goes_before(e, victim))
			victim = e;
	}
	*victim = (struct quarantined){.file = *f};
	return victim;
}

/* A quarantined file is no excuse: a worker that claims to have read it has not. */
static bool is_excused(struct quarantine *q, const struct crash_marker *at, struct crash_blame *of, int64_t now,
	struct quarantine_file *ret_file, struct quarantined **ret)
{
	if (!take_file(at, ret_file) || deaths_count(&of->excused, now) > QUARANTINE_EXCUSED)
		return false;
	*ret = entry_of(q, ret_file);
	return !is_shut(*ret);
}

enum crash_verdict quarantine_judge(struct quarantine *q, const struct crash_marker *at, struct crash_blame *of,
	int64_t now, struct quarantine_file *ret_file)
{
	struct quarantined *e;
	if (!is_excused(q, at, of, now, ret_file, &e)) {
		deaths_count(&of->own, now);
		return VERDICT_TARGET;
	}
	e->shut = deaths_count(&e->deaths, now) >= QUARANTINE_DEATHS;
	return e->shut ? VERDICT_QUARANTINE : VERDICT_FILE;
}
