/* SPDX-License-Identifier: Apache-2.0 */
/*
 * made - files that take compilers and the like to make: made once, in build/fixtures, for all programs of this build.
 * What is kept there is known by the command, its sources and the tools; so a change of any of them makes it anew.
 */
#pragma once

#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline uint64_t made_hash(uint64_t hash, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
	return hash;
}

/* Of those that are looked for in PATH, where they lie and which they are. */
static inline uint64_t made_tools(uint64_t hash)
{
	static const char *const tools[] = {"gcc", "g++", "clang++", "rustc", "as", "ld", "objcopy", "objdump", "strip",
		"addr2line", "llvm-addr2line", "dwz"};
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		char dirs[4096], file[4096], *rest = dirs, *dir;
		struct stat st;
		snprintf(dirs, sizeof(dirs), "%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
		while ((dir = strsep(&rest, ":"))) {
			snprintf(file, sizeof(file), "%.3000s/%s", dir, tools[i]);
			if (stat(file, &st) == 0) {
				hash = made_hash(hash, file, strlen(file));
				hash = made_hash(hash, &st.st_size, sizeof(st.st_size));
				hash = made_hash(hash, &st.st_mtim, sizeof(st.st_mtim));
				break;
			}
		}
	}
	return hash;
}

/*
 * In dir, the files are there afterwards (words, of which each is in dir), as the command makes them from the sources;
 * 0, or the command's wait status. Two that make it at the same time both make it.
 */
static inline int made(const char *dir, const char *sources, const char *command, const char *files)
{
	char exe[4096], line[16384];
	uint64_t hash = made_tools(0xcbf29ce484222325u);
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = 0;
	hash = made_hash(hash, sources, strlen(sources) + 1);
	hash = made_hash(hash, command, strlen(command) + 1);
	hash = made_hash(hash, files, strlen(files) + 1);
	snprintf(line, sizeof(line),
		"kept=%s/../../fixtures/%016llx; cd %s || exit; [ -d $kept ] && exec cp -a $kept/. .; { %s; } && "
		"mkdir -p $kept.$$ && cp -a --parents %s $kept.$$ && { mv -T $kept.$$ $kept 2>/dev/null || rm -r "
		"$kept.$$; }",
		dirname(exe), (unsigned long long)hash, dir, command, files);
	return system(line);
}
