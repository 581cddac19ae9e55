/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unfold OUT TYPE UNIT <FOLDED - a profile (.pb.gz) of "process;root;...;leaf VALUE" lines, as `pillion report
 * --folded` writes them: for tests of what reads profiles. Frames are taken as they are, whatever bytes they hold.
 */
#include "profiler/pprof/pprof.h"
#include "profiler/pprof/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8192

static void check(int64_t r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "unfold: %s: %s\n", what, strerror((int)-r));
	exit(1);
}

static void take(struct profile *p, uint32_t mapping, char *line)
{
	static uint32_t stack[DEPTH_MAX];
	char *value = strrchr(line, ' ');
	size_t n = 0;
	check(value ? 0 : -22, line);
	*value++ = 0;
	const struct profile_label label = {.key = "process", .str = strsep(&line, ";")};
	for (char *frame; (frame = strsep(&line, ";")) && n < DEPTH_MAX; n++) {
		const int64_t f =
			profile_function(p, &(struct profile_function){.name = frame, .system_name = "", .file = ""});
		check(f, "a function");
		const int64_t l = profile_location(p, mapping, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
		check(l, "a location");
		stack[n] = (uint32_t)l;
	}
	for (size_t i = 0; i < n / 2; i++) {
		const uint32_t other = stack[n - 1 - i];
		stack[n - 1 - i] = stack[i];
		stack[i] = other;
	}
	const int64_t v = strtoll(value, NULL, 10);
	check(profile_sample(p, stack, n, &v, &label, 1), "a sample");
}

int main(int argc, char **argv)
{
	struct profile *p;
	char *line = NULL;
	size_t room = 0, len;
	uint8_t *bytes;
	if (argc != 4)
		return fprintf(stderr, "usage: unfold OUT TYPE UNIT <FOLDED\n"), 2;
	const struct profile_info info = {.n_types = 1,
		.types = (struct profile_type[]){{argv[2], argv[3]}},
		.time_ns = 1700000000000000000,
		.duration_ns = 1000000000};
	check(profile_new(&info, &p), "a profile");
	const int64_t mapping = profile_mapping(p, 0x1000, 0x2000, 0, "/usr/bin/program", "", PROFILE_HAS_FUNCTIONS);
	check(mapping, "a mapping");
	for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
		line[n - 1] = line[n - 1] == '\n' ? 0 : line[n - 1];
		take(p, (uint32_t)mapping, line);
	}
	check(pprof_write(p, &bytes, &len), argv[1]);
	FILE *out = fopen(argv[1], "w");
	if (!out || fwrite(bytes, 1, len, out) != len || fclose(out))
		return perror(argv[1]), 1;
	free(bytes);
	free(line);
	profile_free(p);
	return 0;
}
