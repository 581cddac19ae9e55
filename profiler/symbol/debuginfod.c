/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/debuginfod.h"

#include "oci/base/fd.h"
#include "oci/base/shared_library.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's own 90 s, three times over, are long for a waiting user. Values in the environment stay. */
#define TIMEOUT "30"
#define RETRIES "0"

struct debuginfod_client {
	void *library;
	debuginfod_client *client;
	__typeof__(&debuginfod_begin) begin;
	__typeof__(&debuginfod_find_debuginfo) find;
	__typeof__(&debuginfod_get_url) url;
	__typeof__(&debuginfod_end) end;
	char from[256];
};

static int load_library(struct debuginfod_client *f, struct err *e)
{
	const char *missing;
	const struct shared_library_symbol symbols[] = {
		{"debuginfod_begin", &f->begin},
		{"debuginfod_find_debuginfo", &f->find},
		{"debuginfod_get_url", &f->url},
		{"debuginfod_end", &f->end},
		{0},
	};
	f->library = shared_library_open((const char *[]){DEBUGINFOD_SONAME, NULL}, RTLD_NOW, symbols, &missing);
	if (missing)
		return err_say(e, -ENOENT, DEBUGINFOD_SONAME " is too old: it has no %s", missing);
	return f->library ? 0
			  : err_say(e, -ENOENT,
				    "debuginfod was not asked: " DEBUGINFOD_SONAME
				    " is not there; install the package libdebuginfod1 (elfutils-debuginfod-client)");
}

int debuginfod_client_open(struct debuginfod_client **ret, struct err *e)
{
	struct debuginfod_client *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(e, -ENOMEM, "cannot ask debuginfod");
	int r = load_library(f, e);
	if (r == 0) {
		setenv(DEBUGINFOD_TIMEOUT_ENV_VAR, TIMEOUT, 0);
		setenv(DEBUGINFOD_RETRY_LIMIT_ENV_VAR, RETRIES, 0);
		f->client = f->begin();
		r = f->client ? 0 : err_set(e, -ENOMEM, "cannot ask debuginfod");
	}
	if (r < 0)
		debuginfod_client_close(f);
	else
		*ret = f;
	return r;
}

struct debuginfod_client *debuginfod_client_close(struct debuginfod_client *f)
{
	if (f && f->client)
		f->end(f->client);
	if (f && f->library)
		dlclose(f->library);
	free(f);
	return NULL;
}

static int set_fetch_error(int r, struct err *e)
{
	const char *urls = getenv(DEBUGINFOD_URLS_ENV_VAR);
	if (r == -ENOENT)
		return err_say(e, r, "debuginfod has none");
	if (r == -ETIME || r == -ETIMEDOUT)
		return err_say(e, r,
			"debuginfod at %s did not answer within %s s; " DEBUGINFOD_TIMEOUT_ENV_VAR
			"=SECONDS waits longer",
			urls, getenv(DEBUGINFOD_TIMEOUT_ENV_VAR));
	return err_set(e, r, "cannot get anything from debuginfod at %s", urls);
}

int debuginfod_client_fetch(
	struct debuginfod_client *f, const struct build_id *id, const char **ret_from, struct err *e)
{
	int fd = f->find(f->client, id->bytes, (int)id->len, NULL);
	if (fd < 0)
		return set_fetch_error(fd, e);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	const char *url = f->url(f->client), *end = url ? strstr(url, "/buildid/") : NULL;
	if (end)
		snprintf(f->from, sizeof(f->from), "debuginfod at %.*s", (int)(end - url), url);
	else
		snprintf(f->from, sizeof(f->from), "debuginfod's cache");
	*ret_from = f->from;
	return fd;
}
