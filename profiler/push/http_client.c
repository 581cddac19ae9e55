/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/http_client.h"

#include "oci/base/protobuf.h"
#include "oci/base/shared_library.h"
#include "oci/base/utf8.h"

#include <ctype.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ANSWER_MAX 4096
#define ANSWER_ENOUGH (1u << 20)
#define SHOWN_MAX 160 /* bytes of a server's message */

struct http_client {
	struct http_client *next;
	CURL *easy;
	struct curl_slist *headers;
	void *of;
	char answer[ANSWER_MAX + 1];
	size_t len, all;
	char error[CURL_ERROR_SIZE];
};

struct transfers {
	const struct push_endpoint *endpoint;
	void *library;
	CURLM *multi;
	struct http_client *first;
	/* libcurl's functions; written out, because curl.h checks some of their types by macros */
	CURLcode (*global_init)(long flags);
	CURL *(*easy_init)(void);
	CURLcode (*setopt)(CURL *easy, CURLoption option, ...);
	CURLcode (*getinfo)(CURL *easy, CURLINFO info, ...);
	void (*easy_cleanup)(CURL *easy);
	const char *(*strerror)(CURLcode code);
	CURLM *(*multi_init)(void);
	CURLMcode (*multi_setopt)(CURLM *multi, CURLMoption option, ...);
	CURLMcode (*multi_add)(CURLM *multi, CURL *easy);
	CURLMcode (*multi_remove)(CURLM *multi, CURL *easy);
	CURLMcode (*multi_perform)(CURLM *multi, int *running);
	CURLMcode (*multi_poll)(CURLM *multi, struct curl_waitfd *more, unsigned n, int timeout_ms, int *n_ready);
	CURLMsg *(*multi_info)(CURLM *multi, int *left);
	CURLMcode (*multi_cleanup)(CURLM *multi);
	struct curl_slist *(*list_append)(struct curl_slist *list, const char *text);
	void (*list_free)(struct curl_slist *list);
};

/* --- the library ------------------------------------------------------------------------------------------ */

static int load_libcurl(struct transfers *t, struct err *e)
{
	static const char *const sonames[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
	const char *missing;
	const struct shared_library_symbol symbols[] = {
		{"curl_global_init", &t->global_init},
		{"curl_easy_init", &t->easy_init},
		{"curl_easy_setopt", &t->setopt},
		{"curl_easy_getinfo", &t->getinfo},
		{"curl_easy_cleanup", &t->easy_cleanup},
		{"curl_easy_strerror", &t->strerror},
		{"curl_multi_init", &t->multi_init},
		{"curl_multi_setopt", &t->multi_setopt},
		{"curl_multi_add_handle", &t->multi_add},
		{"curl_multi_remove_handle", &t->multi_remove},
		{"curl_multi_perform", &t->multi_perform},
		{"curl_multi_poll", &t->multi_poll},
		{"curl_multi_info_read", &t->multi_info},
		{"curl_multi_cleanup", &t->multi_cleanup},
		{"curl_slist_append", &t->list_append},
		{"curl_slist_free_all", &t->list_free},
		{0},
	};
	t->library = shared_library_open(sonames, RTLD_NOW, symbols, &missing);
	if (missing)
		return err_say(e, -ENOENT, "libcurl is too old: it has no %s, and 7.66 is the first that has", missing);
	return t->library ? 0 : err_say(e, -ENOENT, "libcurl is not there: install the package libcurl4 (libcurl)");
}

int transfers_open(const struct push_endpoint *p, struct transfers **ret, struct err *e)
{
	struct transfers *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, -ENOMEM, "cannot push");
	t->endpoint = p;
	int r = load_libcurl(t, e);
	if (r == 0 && (t->global_init(CURL_GLOBAL_DEFAULT) || !(t->multi = t->multi_init())))
		r = err_say(e, -ENOMEM, "libcurl does not start");
	if (r < 0) {
		transfers_close(t);
		return r;
	}
	*ret = t;
	return 0;
}

/* --- a request -------------------------------------------------------------------------------------------- */

/* Drains bytes beyond ANSWER_MAX, so that the connection can be reused; aborts beyond ANSWER_ENOUGH. */
static size_t on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct http_client *one = arg;
	const size_t room = ANSWER_MAX - one->len, take = n < room ? n : room;
	memcpy(one->answer + one->len, data, take);
	one->len += take;
	one->all += n;
	return one->all > ANSWER_ENOUGH ? 0 : size * n;
}

static int add_header(struct transfers *t, struct http_client *one, const char *name, const char *value)
{
	char line[sizeof(t->endpoint->token) + 64];
	if (!value)
		return 0;
	snprintf(line, sizeof(line), "%s%s%s", name, *name ? ": " : "", value);
	struct curl_slist *longer = t->list_append(one->headers, line);
	explicit_bzero(line, sizeof(line));
	if (longer)
		one->headers = longer;
	return longer ? 0 : -ENOMEM;
}

/* An empty "Expect:" keeps libcurl from "100-continue": servers without it would delay a body by a second. */
static int add_headers(struct transfers *t, struct http_client *one, const struct push_request *r)
{
	const struct push_endpoint *p = t->endpoint;
	int ok = add_header(t, one, "Content-Type", r->content_type);
	if (ok == 0)
		ok = add_header(t, one, "Content-Encoding", r->content_encoding);
	if (ok == 0)
		ok = add_header(t, one, "", "Expect:");
	for (unsigned i = 0; ok == 0 && i < p->n_headers; i++)
		ok = add_header(t, one, "", p->headers[i]);
	if (ok == 0 && p->token[0] && !p->user[0]) {
		char value[sizeof(p->token) + 8];
		snprintf(value, sizeof(value), "Bearer %s", p->token);
		ok = add_header(t, one, "Authorization", value);
		explicit_bzero(value, sizeof(value));
	}
	return ok;
}

static void set_identity(struct transfers *t, CURL *easy)
{
	const struct push_endpoint *p = t->endpoint;
	if (p->user[0]) {
		t->setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		t->setopt(easy, CURLOPT_USERNAME, p->user);
		t->setopt(easy, CURLOPT_PASSWORD, p->token);
	}
	if (p->ca[0])
		t->setopt(easy, CURLOPT_CAINFO, p->ca);
	if (p->cert[0]) {
		t->setopt(easy, CURLOPT_SSLCERT, p->cert);
		t->setopt(easy, CURLOPT_SSLKEY, p->key);
	}
}

/* If libcurl does not know an option, it does not need it. Only options that restrict libcurl must succeed. */
static int set_up(struct transfers *t, struct http_client *one, const struct push_request *r)
{
	char url[4096];
	CURL *easy = one->easy;
	if ((size_t)snprintf(url, sizeof(url), "%s%s", t->endpoint->base, r->path) >= sizeof(url))
		return -ENAMETOOLONG;
	if (t->setopt(easy, CURLOPT_URL, url) || t->setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) ||
		t->setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) ||
		t->setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) || t->setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L))
		return -EINVAL;
	t->setopt(easy, CURLOPT_PROXY, t->endpoint->proxy); /* "": ignore the environment's proxy */
	t->setopt(easy, CURLOPT_NOSIGNAL, 1L);
	t->setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)HTTP_CLIENT_CONNECT_S);
	t->setopt(easy, CURLOPT_TIMEOUT, (long)(HTTP_CLIENT_S + r->len / HTTP_CLIENT_SLOWEST));
	t->setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	t->setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)HTTP_CLIENT_S);
	t->setopt(easy, CURLOPT_USERAGENT, "pillion/" VERSION);
	t->setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
	t->setopt(easy, CURLOPT_WRITEDATA, one);
	t->setopt(easy, CURLOPT_ERRORBUFFER, one->error);
	t->setopt(easy, CURLOPT_PRIVATE, one);
	t->setopt(easy, CURLOPT_POSTFIELDS, r->body);
	t->setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->len);
	t->setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
	t->setopt(easy, CURLOPT_HTTPHEADER, one->headers);
	set_identity(t, easy);
	return 0;
}

static void let_go(struct transfers *t, struct http_client *one)
{
	for (struct curl_slist *h = one->headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	if (one->easy)
		t->easy_cleanup(one->easy);
	t->list_free(one->headers);
	free(one);
}

int transfers_start(struct transfers *t, const struct push_request *r, void *of)
{
	struct http_client *one = calloc(1, sizeof(*one));
	if (!one)
		return -ENOMEM;
	one->of = of;
	one->easy = t->easy_init();
	int ok = one->easy ? add_headers(t, one, r) : -ENOMEM;
	if (ok == 0)
		ok = set_up(t, one, r);
	if (ok == 0 && t->multi_add(t->multi, one->easy))
		ok = -ENOMEM;
	if (ok < 0) {
		let_go(t, one);
		return ok;
	}
	one->next = t->first;
	t->first = one;
	return 0;
}

int transfers_wait(struct transfers *t, int timeout_ms)
{
	int running, ready;
	if (t->multi_perform(t->multi, &running))
		return -EIO;
	if (running == 0 && t->first)
		return 0; /* all have an answer */
	if (t->multi_poll(t->multi, NULL, 0, timeout_ms, &ready))
		return -EIO;
	return t->multi_perform(t->multi, &running) ? -EIO : 0;
}

struct transfers *transfers_close(struct transfers *t)
{
	while (t && t->first) {
		struct http_client *one = t->first;
		t->first = one->next;
		t->multi_remove(t->multi, one->easy);
		let_go(t, one);
	}
	if (t && t->multi)
		t->multi_cleanup(t->multi);
	free(t); /* the library stays loaded: it has handlers for the end of the process */
	return NULL;
}

/* --- an answer -------------------------------------------------------------------------------------------- */

static enum http_client_outcome outcome_of(unsigned status)
{
	static const unsigned later[] = {401, 402, 403, 404, 405, 407, 408, 409, 410, 415, 421, 425, 426, 429, 499};
	if (status >= 200 && status < 300)
		return HTTP_CLIENT_DONE;
	if (status == 413)
		return HTTP_CLIENT_TOO_LARGE;
	for (size_t i = 0; i < LENGTH(later); i++)
		if (status == later[i])
			return HTTP_CLIENT_LATER;
	return status >= 400 && status < 500 ? HTTP_CLIENT_REFUSED : HTTP_CLIENT_LATER;
}

/* Returns the server's message as one line, for a person. */
static const char *copy_answer_text(struct http_client *one, char buf[SHOWN_MAX + 8])
{
	size_t n = 0;
	one->answer[one->len] = 0;
	for (const char *c = one->answer; *c && n < SHOWN_MAX; c++)
		if (!isspace((unsigned char)*c))
			buf[n++] = *c;
		else if (n && buf[n - 1] != ' ')
			buf[n++] = ' ';
	while (n && buf[n - 1] == ' ')
		n--;
	buf[n] = 0;
	utf8_clean(buf);
	return buf;
}

static const char *find_status_hint(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} known[] = {
		{401, ": it wants another token (token_file), or a user"},
		{403, ": it does not let this token in"},
		{404, ": is that its address, and does it speak this?"},
		{405, ": is that its address, and does it speak this?"},
		{429, ": not so many at a time"},
	};
	for (size_t i = 0; i < LENGTH(known); i++)
		if (status == known[i].status)
			return known[i].text;
	return "";
}

static void explain_status(struct transfers *t, struct http_client *one, struct http_response *ret)
{
	char text[SHOWN_MAX + 8], *to = NULL;
	const char *words = copy_answer_text(one, text);
	if (ret->status >= 300 && ret->status < 400) {
		t->getinfo(one->easy, CURLINFO_REDIRECT_URL, &to);
		snprintf(text, sizeof(text), "%.*s", SHOWN_MAX, to ? to : "elsewhere");
		utf8_clean(text);
		err_say(&ret->why, -EIO, "it answers %u and sends us to %s: give that as the url", ret->status, text);
		return;
	}
	err_say(&ret->why, -EIO, "it answers %u%s%s%s", ret->status, find_status_hint(ret->status),
		*words ? ", and says: " : "", words);
}

/* ExportProfilesServiceResponse { partial_success = 1 { rejected_profiles = 1, error_message = 2 } } */
static void read_otlp(struct http_client *one, struct http_response *ret)
{
	struct pb m = pb_of(one->answer, one->len), inner;
	struct pb_field f, in;
	char shown[ERR_SHOWN];
	while (pb_next(&m, &f)) {
		if (!pb_is(&f, 1))
			continue;
		inner = pb_inside(&f);
		while (pb_next(&inner, &in))
			if (in.number == 1 && in.type == PB_VARINT)
				ret->refused = in.value;
			else if (pb_is(&in, 2))
				err_say(&ret->why, -EIO, "it did not take all: %s", err_shown(in.data, in.len, shown));
	}
}

static void read_answer(struct transfers *t, struct http_client *one, CURLcode code, struct http_response *ret)
{
	long status = 0;
	curl_off_t later = 0;
	*ret = (struct http_response){.outcome = HTTP_CLIENT_LATER};
	if (code && !(code == CURLE_WRITE_ERROR && one->all > ANSWER_ENOUGH)) {
		err_say(&ret->why, -EIO, "%s", one->error[0] ? one->error : t->strerror(code));
		utf8_clean(ret->why.text);
		return;
	}
	t->getinfo(one->easy, CURLINFO_RESPONSE_CODE, &status);
	t->getinfo(one->easy, CURLINFO_RETRY_AFTER, &later);
	ret->status = (unsigned)status;
	ret->outcome = outcome_of(ret->status);
	ret->later_s = later < 0 ? 0 : later > HTTP_CLIENT_LATER_MAX_S ? HTTP_CLIENT_LATER_MAX_S : (uint32_t)later;
	if (ret->outcome != HTTP_CLIENT_DONE)
		explain_status(t, one, ret);
	else if (t->endpoint->form == PUSH_OTLP)
		read_otlp(one, ret);
}

/* Replaces double quotes, which enclose the reason in the log. */
static void replace_quotes(char *text)
{
	for (; *text; text++)
		if (*text == '"')
			*text = '\'';
}

static void take_out(struct transfers *t, struct http_client *one)
{
	for (struct http_client **at = &t->first; *at; at = &(*at)->next)
		if (*at == one) {
			*at = one->next;
			break;
		}
	t->multi_remove(t->multi, one->easy);
}

bool transfers_next(struct transfers *t, void **ret_of, struct http_response *ret)
{
	int left;
	for (CURLMsg *m; (m = t->multi_info(t->multi, &left));) {
		struct http_client *one = NULL;
		const CURLcode code = m->data.result;
		if (m->msg != CURLMSG_DONE)
			continue;
		t->getinfo(m->easy_handle, CURLINFO_PRIVATE, &one);
		take_out(t, one);
		read_answer(t, one, code, ret);
		replace_quotes(ret->why.text);
		*ret_of = one->of;
		let_go(t, one);
		return true;
	}
	return false;
}
