/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers: bytes as a taken-over job would send them. What is told is whole and in bounds; and a pipe that gives them
 * in two pieces tells the same.
 */
#include "profiler/symbol/symbolizer_client.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ADDRESSES 8

struct told {
	size_t answers, lines;
	uint64_t sum;
};

static void on_answer(void *arg, uint32_t index, const struct symbol_line *lines, size_t n)
{
	struct told *t = arg;
	if (index >= ADDRESSES || n > NAME_CACHE_LINES_MAX)
		abort();
	t->answers++;
	t->lines += n;
	for (size_t i = 0; i < n; i++)
		t->sum = t->sum * 31 + strlen(lines[i].name) + strlen(lines[i].linkage) + strlen(lines[i].file) +
			 lines[i].line + lines[i].start;
}

static ssize_t take(struct symbolizer_response_parser *a, const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	memcpy(exact, data, size);
	ssize_t used = answers_take(a, exact, size);
	free(exact);
	if (used > (ssize_t)size || a->n_answered > a->n)
		abort();
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct told whole = {0}, pieces = {0};
	uint8_t one[ADDRESSES] = {0}, two[ADDRESSES] = {0};
	struct debug_facts f = {0}, g = {0};
	struct symbolizer_response_parser a = {
		.n = ADDRESSES, .answered = one, .take = on_answer, .arg = &whole, .facts = &f};
	struct symbolizer_response_parser b = {
		.n = ADDRESSES, .answered = two, .take = on_answer, .arg = &pieces, .facts = &g};
	ssize_t used = take(&a, data, size), at = take(&b, data, size / 2);
	if (at >= 0 && !b.ended) {
		ssize_t rest = take(&b, data + at, size - (size_t)at);
		at = rest < 0 ? rest : at + rest;
	}
	if (at != used || a.ended != b.ended || a.begun != b.begun || memcmp(&whole, &pieces, sizeof(whole)) != 0 ||
		memcmp(one, two, sizeof(one)) != 0 || memcmp(&f, &g, sizeof(f)) != 0 || f.id.len > ELF_BUILD_ID_MAX ||
		f.n_segments > DEBUG_SEGMENTS_MAX || f.alt[sizeof(f.alt) - 1])
		abort();
	return 0;
}
