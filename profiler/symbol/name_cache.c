/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/name_cache.h"

#include "oci/base/array.h"
#include "oci/base/string_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct name_cache {
	struct string_table addresses, texts, lines;
	uint32_t *line_of; /* number of an address -> of its lines */
	size_t room, bytes;
};

int name_cache_new(struct name_cache **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct name_cache *name_cache_free(struct name_cache *n)
{
	if (n) {
		string_table_done(&n->addresses);
		string_table_done(&n->texts);
		string_table_done(&n->lines);
		free(n->line_of);
		free(n);
	}
	return NULL;
}

/* The copied bytes, and the tables' own bytes for each entry: an item, two slots at worst, a number. */
size_t name_cache_memory(const struct name_cache *n)
{
	size_t items = n->addresses.count + n->texts.count + n->lines.count;
	return sizeof(*n) + n->bytes + items * 48;
}

static int64_t add_to_table(struct name_cache *n, struct string_table *t, const void *data, size_t size)
{
	size_t had = t->count;
	int64_t id = string_table_add(t, data, size);
	n->bytes += t->count > had ? size : 0;
	return id;
}

/* The one copy of a text: equal texts have equal addresses, so lines compare as bytes. */
static const char *keep_text(struct name_cache *n, const char *text)
{
	int64_t id = add_to_table(n, &n->texts, text, strlen(text) + 1);
	return id < 0 ? NULL : n->texts.items[id].data;
}

int name_cache_put(struct name_cache *n, uint64_t vaddr, const struct symbol_line *lines, size_t count)
{
	struct symbol_line kept[NAME_CACHE_LINES_MAX];
	if (count > NAME_CACHE_LINES_MAX)
		return -EINVAL;
	memset(kept, 0, count * sizeof(kept[0]));
	for (size_t i = 0; i < count; i++) {
		kept[i].name = keep_text(n, lines[i].name);
		kept[i].linkage = keep_text(n, lines[i].linkage);
		kept[i].file = keep_text(n, lines[i].file);
		kept[i].line = lines[i].line;
		kept[i].start = lines[i].start;
		if (!kept[i].name || !kept[i].linkage || !kept[i].file)
			return -ENOMEM;
	}
	if (array_reserve(&n->line_of, &n->room, n->addresses.count + 1, sizeof(*n->line_of), 64) < 0)
		return -ENOMEM;
	int64_t what = add_to_table(n, &n->lines, kept, count * sizeof(kept[0]));
	int64_t at = what < 0 ? what : add_to_table(n, &n->addresses, &vaddr, sizeof(vaddr));
	if (at < 0)
		return (int)at;
	n->line_of[at] = (uint32_t)what;
	return 0;
}

bool name_cache_get(const struct name_cache *n, uint64_t vaddr, const struct symbol_line **ret, size_t *ret_count)
{
	int64_t at = n ? string_table_find(&n->addresses, &vaddr, sizeof(vaddr)) : -ENOENT;
	if (at < 0)
		return false;
	const struct string_table_item *lines = &n->lines.items[n->line_of[at]];
	*ret = lines->data;
	*ret_count = lines->size / sizeof(struct symbol_line);
	return true;
}
