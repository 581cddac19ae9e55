/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_encode FORM PROFILE.pb.gz OUTDIR [BYTES [SAMPLES]] - the requests that a profile is pushed by
 * (profiler/push/push_encode.h), for tests of what is in them: OUTDIR/N.body, and OUTDIR/N.head with lines "method",
 * "path", "type", "encoding" and "samples". The target is "the-target", the node "the-node", the file and its kind are
 * taken from the path. How long it took and how many bytes it was goes to stdout.
 */
#include "oci/base/clock.h"
#include "profiler/pprof/pprof.h"
#include "profiler/push/push_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *read_file(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "r");
	if (!f || fseek(f, 0, SEEK_END)) {
		perror(path);
		exit(1);
	}
	const long len = ftell(f);
	uint8_t *bytes = malloc((size_t)len + 1);
	rewind(f);
	if (!bytes || fread(bytes, 1, (size_t)len, f) != (size_t)len) {
		perror(path);
		exit(1);
	}
	fclose(f);
	*ret_len = (size_t)len;
	return bytes;
}

static void write_file(const char *dir, size_t i, const char *suffix, const void *bytes, size_t len)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%03zu.%s", dir, i, suffix);
	FILE *f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void write_request(const char *dir, size_t i, const struct push_request *r)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	fprintf(f, "method %s\npath %s\ntype %s\nencoding %s\nsamples %llu\n", r->method, r->path, r->content_type,
		r->content_encoding ? r->content_encoding : "", (unsigned long long)r->samples);
	fclose(f);
	write_file(dir, i, "head", text, len);
	write_file(dir, i, "body", r->body, r->len);
	free(text);
}

/* Behind the last '-', without ".pb.gz"; a kind may have a '-' itself: START-SEQ-KIND. */
static void find_kind(const char *file, char *kind, size_t size)
{
	const char *slash = strrchr(file, '/'), *at = slash ? slash + 1 : file;
	for (int i = 0; i < 2 && strchr(at, '-'); i++)
		at = strchr(at, '-') + 1;
	snprintf(kind, size, "%s", at);
	kind[strcspn(kind, ".")] = 0;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct profile *p;
	struct push_request *r = NULL;
	size_t len, n, bytes = 0;
	char kind[128], file[512];
	if (argc < 4 || push_form_find(argv[1]) < 0)
		return fprintf(stderr, "usage: push_encode FORM PROFILE.pb.gz OUTDIR [BYTES [SAMPLES]]\n"), 2;
	void *plain = read_file(argv[2], &len);
	const struct push_limits limits = {
		argc > 4 ? strtoul(argv[4], NULL, 10) : 0, argc > 5 ? strtoul(argv[5], NULL, 10) : 0};
	find_kind(argv[2], kind, sizeof(kind));
	const char *slash = strrchr(argv[2], '/');
	snprintf(file, sizeof(file), "the-target/%s", slash ? slash + 1 : argv[2]);
	const struct push_source of = {"the-target", file, kind, "the-node"};
	if (pprof_read(plain, len, &p, &e) < 0)
		return fprintf(stderr, "%s: %s\n", argv[2], e.text), 1;
	const int64_t began = clock_now();
	if (push_requests((enum push_form)push_form_find(argv[1]), &limits, &of, p, plain, len, &r, &n, &e) < 0)
		return fprintf(stderr, "%s\n", e.text), 1;
	const int64_t took = clock_now() - began;
	for (size_t i = 0; i < n; i++) {
		write_request(argv[3], i, &r[i]);
		bytes += r[i].len;
	}
	printf("%zu requests, %zu bytes, %lld ms\n", n, bytes, (long long)(took / 1000000));
	push_requests_free(r, n);
	profile_free(p);
	free(plain);
	return 0;
}
