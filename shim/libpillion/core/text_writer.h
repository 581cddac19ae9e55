/* SPDX-License-Identifier: Apache-2.0 */
/* text_writer - writes text into a descriptor or into memory, without stdio. After an error nothing more is written. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct text_writer {
	int fd;
	char *memory; /* used instead of fd; whole pieces only, and a NUL behind them. -ENOSPC: full */
	size_t size, at;
	int error; /* -errno of the first write that failed */
	size_t used;
	char buf[4096];
};
void text_put(struct text_writer *o, const char *text);
void text_put_decimal(struct text_writer *o, uint64_t n);
void text_put_hex(struct text_writer *o, uint64_t n, int digits); /* so many at least */
void text_flush(struct text_writer *o);

#define TEXT_DECIMAL_MAX 20
/* Writes the digits to text[at] and on; returns their end. Nothing is put behind them. */
size_t text_decimal(char *text, size_t at, uint64_t n);
uint64_t text_hex(const char *text); /* as far as there are digits */
