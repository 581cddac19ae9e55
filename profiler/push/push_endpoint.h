/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_endpoint - where profiles are pushed to, and how: a file of /etc/pillion/push.d (NAME.conf, `key = value`, '#'
 * comments) or the flags of `pillion push`, which have the same names with dashes. One table yields both, and the help.
 *
 * `url` says the form as well: pyroscope+https://host, ingest+http://host:4040, otlp+https://host:4318,
 * put+https://host/path, file:///directory. Secrets come from files, which are read together with the endpoint, and are
 * in no message. No key takes a secret itself: other users can see command lines (ps) and environments.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define PUSH_ENDPOINT_DIR OPTIONS_ETC "/push.d"
#define ENDPOINTS_MAX 8
#define PUSH_ENDPOINT_HEADERS_MAX 16
#define PUSH_ENDPOINT_KEYS 11

struct push_endpoint {
	char name[64];	/* of its file without ".conf"; of flags, from the url: "pyroscope-http-localhost-4040" */
	char url[512];	/* as it was given */
	char base[512]; /* http://... without a slash at its end; of a directory: its path */
	enum push_form form;
	struct push_limits limits;
	char events[256]; /* "cpu,offcpu"; "": all */
	char user[128];	  /* HTTP's basic scheme, with the token as password; "": the token is a bearer token */
	char ca[480], cert[480], key[480];
	char proxy[512]; /* http://host:port; "": none, whatever the environment says */
	/* Secret, from files. */
	char token[4096];
	char headers[PUSH_ENDPOINT_HEADERS_MAX][1024]; /* "Name: value" */
	unsigned n_headers;
};

void push_endpoint_default(struct push_endpoint *p, const char *name);
/* Sets a key; `name` is with underscores or dashes. -ENOENT: there is no such key; -EINVAL and others with a
 * sentence. */
int push_endpoint_set(struct push_endpoint *p, const char *name, const char *value, struct err *e);
/* Checks that an endpoint is complete, after its last key. */
int push_endpoint_check(const struct push_endpoint *p, struct err *e);
int push_endpoint_read(struct push_endpoint *p, int dir, const char *file, struct err *e);
/* Reads every NAME.conf of the directory, in order of names; a missing directory has none. Malloc'ed. -E2BIG: too
 * many. */
int endpoints_read(const char *dir, struct push_endpoint **ret, size_t *ret_n, struct err *e);
void endpoints_free(struct push_endpoint *p, size_t n); /* secrets are wiped */
void push_endpoint_forget(struct push_endpoint *p);	/* its secrets alone */
bool push_endpoint_wants(const struct push_endpoint *p, const char *event);

/* Returns the i-th of PUSH_ENDPOINT_KEYS as a flag: "--to", which is `url`, "--token-file", ...; NULL behind the
 * last. */
const char *push_endpoint_flag(size_t i);
