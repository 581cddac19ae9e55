/* treefile: what was read is in order, and what is found around an address is around it. */
#include "profiler/view/calltree_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct treefile *f;
	struct err e = {0};
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = 0;
	int r = treefile_parse(text, size, &f, &e);
	for (size_t i = 0; r == 0 && i < f->n_nodes; i++) {
		const struct treefile_node *n = &f->nodes[i];
		if ((n->parent != TREEFILE_NONE && n->parent >= i) || (i && n->id <= n[-1].id))
			abort();
		uint64_t address = n->fn;
		const struct treefile_mapping *m = treefile_find(f, &address, n->gone);
		if (m && (address < m->start || address >= m->end || m->gone > n->gone))
			abort();
	}
	treefile_free(r == 0 ? f : NULL);
	return 0;
}
