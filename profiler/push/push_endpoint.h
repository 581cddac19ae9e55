/*
 * push_endpoint - where profiles are pushed to, and how: a file of /etc/pillion/push.d (NAME.conf, `key = value`, '#'
 * comments) or the flags of `pillion push`, which have the same names with dashes. One table yields both, and the help.
 *
 * `url` says the form as well: pyroscope+https://host, ingest+http://host:4040, otlp+https://host:4318,
 * put+https://host/path, file:///directory. Secrets come from files, which are read when the endpoint is, and are in no
 * message: the command line is everybody's to see (ps), and so is an environment, so there is no key for one in words.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define ENDPOINT_DIR OPTIONS_ETC "/push.d"
#define ENDPOINTS_MAX 8
#define ENDPOINT_HEADERS_MAX 16
#define ENDPOINT_KEYS 11

struct endpoint {
	char name[64];	/* of its file without ".conf"; of flags what is in the url: "pyroscope-http-localhost-4040" */
	char url[512];	/* as it was given */
	char base[512]; /* http://... without a slash at its end; of a directory: its path */
	enum push_form form;
	struct push_limits limits;
	char events[256]; /* "cpu,offcpu"; "": all */
	char user[128];	  /* HTTP's basic scheme, with the token as password; "": the token is a bearer's */
	char ca[480], cert[480], key[480];
	char proxy[512]; /* http://host:port; "": none, whatever the environment says */
	/* Secret, from files. */
	char token[4096];
	char headers[ENDPOINT_HEADERS_MAX][1024]; /* "Name: value" */
	unsigned n_headers;
};

void endpoint_default(struct endpoint *p, const char *name);
/* -ENOENT: there is no such key; -EINVAL and others with a sentence. `name` is with underscores or dashes. */
int endpoint_set(struct endpoint *p, const char *name, const char *value, struct err *e);
/* Behind the last key: is it whole? */
int endpoint_check(const struct endpoint *p, struct err *e);
int endpoint_read(struct endpoint *p, int dir, const char *file, struct err *e);
/* Every NAME.conf of the directory, in order of names; that it is missing is none. Malloc'ed. -E2BIG: too many. */
int endpoints_read(const char *dir, struct endpoint **ret, size_t *ret_n, struct err *e);
void endpoints_free(struct endpoint *p, size_t n); /* secrets are wiped */
void endpoint_forget(struct endpoint *p);	   /* its secrets alone */
bool endpoint_wants(const struct endpoint *p, const char *event);

/* The name of the i-th of ENDPOINT_KEYS as a flag: "--to", which is `url`, "--token-file", ...; NULL behind the last.
 */
const char *endpoint_flag(size_t i);
