/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/file_tail.h"

#include <string.h>

/* A failed read says nothing about the file's identity; the caller meets the error when it reads on. */
static bool is_rewritten(const struct file_tail *t, const struct file *f)
{
	char now[FILE_TAIL_SEEN];
	ssize_t n = file_read(f, now, t->n_seen, t->seen_at);
	return n >= 0 && ((size_t)n < t->n_seen || memcmp(now, t->seen, t->n_seen));
}

bool file_tail_look(struct file_tail *t, const struct file *f)
{
	const struct file_id *id = &f->id;
	if (t->begun && t->dev == id->dev && t->ino == id->ino && id->size >= t->offset && !is_rewritten(t, f)) {
		t->size = id->size;
		return true;
	}
	*t = (struct file_tail){.begun = true, .size = id->size, .dev = id->dev, .ino = id->ino};
	return false;
}

void file_tail_seen(struct file_tail *t, const void *bytes, size_t n)
{
	t->seen_at = t->offset;
	t->n_seen = n < FILE_TAIL_SEEN ? n : FILE_TAIL_SEEN;
	memcpy(t->seen, bytes, t->n_seen);
}
