/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demangle - names as a person wrote them: C++ (Itanium ABI), Rust (legacy and v0), through binutils' libiberty, as
 * c++filt(1) prints them; of Rust without the hash, as rustfilt does.
 *
 * A name of a hundred bytes can stand for gigabytes of text, and takes as long: only for a process that is bounded in
 * time and memory (profiler/symbol/symbolizer_client.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * libiberty refuses C++ names of more than 1024 bytes, for fear of its stack, unless it is told not to: templates have
 * longer ones. Up to here it needs less than 1 MiB of stack.
 */
#define DEMANGLE_LONG 4095

/* Looks like a name that demangle_symbol() would change: cheap, for any process. */
bool demangle_wanted(const char *name);
/* The name as written, cut at size - 1 bytes; false: it is of no language that we know, buf is untouched. */
bool demangle_symbol(const char *name, char *buf, size_t size);
