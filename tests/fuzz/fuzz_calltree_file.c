/* SPDX-License-Identifier: Apache-2.0 */
/* treefile: what was read is in order, and what is found around an address is around it. */
#include "profiler/view/calltree_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct calltree_file *f;
	struct err e = {0};
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	int r = calltree_file_parse(text, size, &f, &e);
	for (size_t i = 0; r == 0 && i < f->n_nodes; i++) {
		const struct calltree_file_node *n = &f->nodes[i];
		if ((n->parent != CALLTREE_FILE_NONE && n->parent >= i) || (i && n->id <= n[-1].id))
			abort();
		uint64_t address = n->fn;
		const struct calltree_file_mapping *m = calltree_file_find(f, &address, n->gone);
		if (m && (address < m->start || address >= m->end || m->gone > n->gone))
			abort();
	}
	calltree_file_free(r == 0 ? f : NULL);
	return 0;
}
