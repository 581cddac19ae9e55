/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_endpoint.h"

#include "oci/base/fd.h"
#include "oci/config/options.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ".conf"
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* --- values ----------------------------------------------------------------------------------------------- */

static int put_text(char *to, size_t size, const char *value, struct err *e)
{
	if (!*value || strlen(value) >= size)
		return err_say(e, -EINVAL, *value ? "is longer than %zu bytes" : "has no value", size - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

static int put_path(char *to, size_t size, const char *value, struct err *e)
{
	return value[0] == '/' ? put_text(to, size, value, e) : err_say(e, -EINVAL, "wants a path from / on");
}

/* Reads a secret's file, without its last newlines. `buf` is the caller's, and wiped on failure. */
static int read_secret(const char *path, char *buf, size_t size, struct err *e)
{
	if (path[0] != '/')
		return err_say(e, -EINVAL, "wants a path from / on, of a file with the secret in it");
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return err_set(e, fd, "cannot open %s", path);
	ssize_t n = fd_read_all(fd, buf, size);
	if (n >= 0 && (size_t)n < size) {
		while (n && strchr("\r\n", buf[n - 1]))
			n--;
		buf[n] = 0;
		if (n && strlen(buf) == (size_t)n)
			return 0;
		n = -EINVAL;
	}
	explicit_bzero(buf, size);
	return n < 0 && n != -EINVAL
		       ? err_set(e, (int)n, "cannot read %s", path)
		       : err_say(e, -EINVAL, "%s is empty, no text, or longer than %zu bytes", path, size - 1);
}

static int set_token(struct push_endpoint *p, const char *value, struct err *e)
{
	int r = read_secret(value, p->token, sizeof(p->token), e);
	for (const char *c = p->token; r == 0 && *c; c++)
		if (!isgraph((unsigned char)*c)) {
			explicit_bzero(p->token, sizeof(p->token));
			return err_say(e, -EINVAL, "%s has more than one word, or no printable ones", value);
		}
	return r;
}

/* RFC 9110, section 5.6.2: a token, then a colon */
static bool is_header(const char *line)
{
	size_t n = 0;
	while (isalnum((unsigned char)line[n]) || (line[n] && strchr("!#$%&'*+-.^_`|~", line[n])))
		n++;
	if (!n || line[n] != ':')
		return false;
	for (const char *c = line + n; *c; c++)
		if ((unsigned char)*c < ' ' && *c != '\t')
			return false;
	return true;
}

static int add_header(struct push_endpoint *p, const char *line, const char *path, struct err *e)
{
	if (!*line || *line == '#')
		return 0;
	if (p->n_headers == PUSH_ENDPOINT_HEADERS_MAX)
		return err_say(e, -E2BIG, "%s has more than %d headers", path, PUSH_ENDPOINT_HEADERS_MAX);
	if (!is_header(line) || strlen(line) >= sizeof(p->headers[0]))
		return err_say(e, -EINVAL, "%s has a line that is no header: write 'Name: value'", path);
	memcpy(p->headers[p->n_headers++], line, strlen(line) + 1);
	return 0;
}

static int set_headers(struct push_endpoint *p, const char *value, struct err *e)
{
	char text[sizeof(p->headers) / 2], *rest = text;
	int r = read_secret(value, text, sizeof(text), e);
	while (r == 0 && rest) {
		char *line = strsep(&rest, "\n");
		line[strcspn(line, "\r")] = 0;
		r = add_header(p, line, value, e);
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

static const struct scheme {
	const char *prefix, *base; /* base: replaces the prefix */
	enum push_form form;
} schemes[] = {
	{"pyroscope+https://", "https://", PUSH_PYROSCOPE},
	{"pyroscope+http://", "http://", PUSH_PYROSCOPE},
	{"ingest+https://", "https://", PUSH_INGEST},
	{"ingest+http://", "http://", PUSH_INGEST},
	{"otlp+https://", "https://", PUSH_OTLP},
	{"otlp+http://", "http://", PUSH_OTLP},
	{"put+https://", "https://", PUSH_PUT},
	{"put+http://", "http://", PUSH_PUT},
	{"file://", "", PUSH_DIRECTORY},
};

static const struct scheme *scheme_of(const char *url)
{
	for (size_t i = 0; i < LENGTH(schemes); i++)
		if (!strncmp(url, schemes[i].prefix, strlen(schemes[i].prefix)))
			return &schemes[i];
	return NULL;
}

/* Refuses '@': a user or a password before the host would be in every message. Refuses '?': no path can follow it. */
static int check_url(const struct scheme *s, const char *rest, struct err *e)
{
	const size_t host = strcspn(rest, "/");
	if (s->form == PUSH_DIRECTORY)
		return rest[0] == '/' ? 0 : err_say(e, -EINVAL, "wants a directory from / on: file:///directory");
	if (memchr(rest, '@', host))
		return err_say(
			e, -EINVAL, "has a user or a password in it, which all could read: use user and token_file");
	for (const char *c = rest; *c; c++)
		if (!isgraph((unsigned char)*c) || strchr("?#\"<>\\^`{|}", *c))
			return err_say(e, -EINVAL, "is no address of a server: write %shost:port", s->prefix);
	return host ? 0 : err_say(e, -EINVAL, "has no host: write %shost:port", s->prefix);
}

/* FNV-1a, 32 bits */
static uint32_t hash_of(const char *text)
{
	uint32_t h = 2166136261u;
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 16777619u;
	return h;
}

/* Names an endpoint after its url: another url is another endpoint, which has not had the same files. */
static void name_after(struct push_endpoint *p)
{
	const char *c = p->url;
	size_t n = 0;
	for (; *c && n < sizeof(p->name) - 1; c++)
		if (isalnum((unsigned char)*c) || *c == '.' || *c == '_')
			p->name[n++] = *c;
		else if (n && p->name[n - 1] != '-')
			p->name[n++] = '-';
	if (*c) /* two urls may differ only in the part that is cut off */
		n = sizeof(p->name) - 10 +
		    (size_t)snprintf(p->name + sizeof(p->name) - 10, 10, "-%08x", hash_of(p->url));
	while (n && p->name[n - 1] == '-')
		n--;
	p->name[n] = 0;
}

static int set_url(struct push_endpoint *p, const char *value, struct err *e)
{
	const struct scheme *s = scheme_of(value);
	if (!s)
		return err_say(e, -EINVAL,
			"does not say what is spoken there: begin it with pyroscope+, ingest+, otlp+ or put+ and "
			"https:// or http://, or with file:///");
	const char *rest = value + strlen(s->prefix);
	int r = check_url(s, rest, e);
	if (r == 0)
		r = put_text(p->url, sizeof(p->url), value, e);
	if (r < 0)
		return r;
	snprintf(p->base, sizeof(p->base), "%s%s", s->base, rest);
	for (size_t n = strlen(p->base); n > 1 && p->base[n - 1] == '/'; n--)
		p->base[n - 1] = 0;
	p->form = s->form;
	if (!p->name[0])
		name_after(p);
	return 0;
}

/* Requests go through the proxy as they are: with https it sees only the server's name. */
static int set_proxy(struct push_endpoint *p, const char *value, struct err *e)
{
	const char *host = value + strlen("http://");
	if (strncmp(value, "http://", strlen("http://")) != 0 || !*host || strpbrk(host, "@/?# \t"))
		return err_say(e, -EINVAL, "is no proxy: write http://host:port");
	return put_text(p->proxy, sizeof(p->proxy), value, e);
}

static int set_events(struct push_endpoint *p, const char *value, struct err *e)
{
	for (const char *c = value; *c; c++)
		if (!isgraph((unsigned char)*c))
			return err_say(e, -EINVAL, "wants names with commas between them: cpu,offcpu");
	return put_text(p->events, sizeof(p->events), value, e);
}

static int set_user(struct push_endpoint *p, const char *value, struct err *e)
{
	return strchr(value, ':') ? err_say(e, -EINVAL, "has a ':' in it: the password is in token_file")
				  : put_text(p->user, sizeof(p->user), value, e);
}

static int set_ca(struct push_endpoint *p, const char *value, struct err *e)
{
	return put_path(p->ca, sizeof(p->ca), value, e);
}

static int set_cert(struct push_endpoint *p, const char *value, struct err *e)
{
	return put_path(p->cert, sizeof(p->cert), value, e);
}

static int set_key(struct push_endpoint *p, const char *value, struct err *e)
{
	return put_path(p->key, sizeof(p->key), value, e);
}

static int set_count(size_t *to, size_t least, const char *value, struct err *e)
{
	char *end;
	errno = 0;
	unsigned long n = strtoul(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || errno || n < least || n > INT32_MAX)
		return err_say(e, -EINVAL, "wants a whole number from %zu on", least);
	*to = n;
	return 0;
}

static int set_max_bytes(struct push_endpoint *p, const char *value, struct err *e)
{
	return set_count(&p->limits.bytes, 65536, value, e);
}

static int set_max_samples(struct push_endpoint *p, const char *value, struct err *e)
{
	return set_count(&p->limits.samples, 16, value, e);
}

/* --- keys ------------------------------------------------------------------------------------------------- */

static const struct push_endpoint_key {
	const char *name, *flag;
	int (*set)(struct push_endpoint *p, const char *value, struct err *e);
} keys[] = {
	{"url", "--to", set_url},
	{"token_file", "--token-file", set_token},
	{"user", "--user", set_user},
	{"headers_file", "--headers-file", set_headers},
	{"proxy", "--proxy", set_proxy},
	{"ca_file", "--ca-file", set_ca},
	{"cert_file", "--cert-file", set_cert},
	{"key_file", "--key-file", set_key},
	{"events", "--events", set_events},
	{"max_bytes", "--max-bytes", set_max_bytes},
	{"max_samples", "--max-samples", set_max_samples},
};

_Static_assert(LENGTH(keys) == PUSH_ENDPOINT_KEYS, "push_endpoint.h");

static void list_keys(char *buf, size_t size)
{
	size_t n = 0;
	for (size_t i = 0; i < LENGTH(keys) && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", keys[i].name);
}

const char *push_endpoint_flag(size_t i)
{
	return i < LENGTH(keys) ? keys[i].flag : NULL;
}

void push_endpoint_default(struct push_endpoint *p, const char *name)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", name);
}

int push_endpoint_set(struct push_endpoint *p, const char *name, const char *value, struct err *e)
{
	char shown[ERR_SHOWN], known[200];
	for (size_t i = 0; i < LENGTH(keys); i++)
		if (!strcmp(keys[i].name, name) || !strcmp(keys[i].flag, name)) {
			int r = keys[i].set(p, value, e);
			return r < 0 ? err_wrap(e, r, "%s", name) : 0;
		}
	list_keys(known, sizeof(known));
	return err_say(e, -ENOENT, "no such key: %s; they are %s", err_shown(name, strlen(name), shown), known);
}

static bool is_plain(const struct push_endpoint *p)
{
	return !strncmp(p->base, "http:", 5);
}

static bool is_loopback(const struct push_endpoint *p)
{
	static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
	const char *host = p->base + strlen("http://");
	for (size_t i = 0; i < LENGTH(hosts); i++) {
		const size_t n = strlen(hosts[i]);
		if (!strncmp(host, hosts[i], n) && strchr(":/", host[n]))
			return true;
	}
	return false;
}

/* True if the name of a header says that its value is a secret. */
static bool has_secret_header(const struct push_endpoint *p)
{
	static const char *const names[] = {"authorization:", "cookie:", "-key:", "-token:", "apikey:"};
	for (unsigned i = 0; i < p->n_headers; i++)
		for (size_t k = 0; k < LENGTH(names); k++) {
			const char *at = strcasestr(p->headers[i], names[k]);
			if (at && at < strchr(p->headers[i], ':'))
				return true;
		}
	return false;
}

int push_endpoint_check(const struct push_endpoint *p, struct err *e)
{
	if (!p->url[0])
		return err_say(e, -EINVAL, "there is no url: where to?");
	if (p->user[0] && !p->token[0])
		return err_say(e, -EINVAL, "there is a user, and no token_file with the password");
	if (!p->cert[0] != !p->key[0])
		return err_say(e, -EINVAL, "cert_file and key_file go together");
	if (is_plain(p) && (p->ca[0] || p->cert[0]))
		return err_say(e, -EINVAL, "there is a certificate, and the url is http: write https");
	if (is_plain(p) && (p->token[0] || has_secret_header(p)) && (!is_loopback(p) || p->proxy[0]))
		return err_say(
			e, -EINVAL, "the token would be sent in clear to another machine: write https in the url");
	return 0;
}

bool push_endpoint_wants(const struct push_endpoint *p, const char *event)
{
	const size_t len = strlen(event);
	for (const char *at = p->events; *at;) {
		const size_t n = strcspn(at, ",");
		if (n == len && !memcmp(at, event, n))
			return true;
		at += n + (at[n] == ',');
	}
	return !p->events[0];
}

/* --- files ------------------------------------------------------------------------------------------------ */

static int set_pair(void *arg, const char *key, const char *value, struct err *e)
{
	return key[0] == '-' ? err_say(e, -EINVAL, "'%s' is a flag: a key is without dashes", key)
			     : push_endpoint_set(arg, key, value, e);
}

int push_endpoint_read(struct push_endpoint *p, int dir, const char *file, struct err *e)
{
	fd_auto fd = fd_open(dir, file, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return err_set(e, fd, "cannot open %s", file);
	push_endpoint_default(p, "");
	snprintf(p->name, sizeof(p->name), "%.*s", (int)(strlen(file) - strlen(SUFFIX)), file);
	int r = options_read_pairs(fd, file, set_pair, p, e);
	if (r == 0 && push_endpoint_check(p, e) < 0)
		r = err_wrap(e, e->code, "%s", file);
	if (r < 0)
		push_endpoint_forget(p);
	return r;
}

static int is_conf(const struct dirent *de)
{
	const size_t len = strlen(de->d_name), suffix = strlen(SUFFIX);
	return de->d_name[0] != '.' && len > suffix && len - suffix < sizeof(((struct push_endpoint *)0)->name) &&
	       !strcmp(de->d_name + len - suffix, SUFFIX);
}

int endpoints_read(const char *path, struct push_endpoint **ret, size_t *ret_n, struct err *e)
{
	struct dirent **list;
	*ret = NULL;
	*ret_n = 0;
	fd_auto dir = fd_open_dir(AT_FDCWD, path);
	if (dir < 0)
		return dir == -ENOENT ? 0 : err_set(e, dir, "cannot open %s", path);
	int n = scandirat(dir, ".", &list, is_conf, alphasort);
	int r = n < 0 ? err_set(e, -errno, "cannot list %s", path)
		: n > ENDPOINTS_MAX
			? err_say(e, -E2BIG, "%s has %d endpoints, and %d is the most", path, n, ENDPOINTS_MAX)
			: 0;
	struct push_endpoint *p = r == 0 ? calloc((size_t)n + 1, sizeof(*p)) : NULL;
	if (r == 0 && !p)
		r = err_set(e, -ENOMEM, "cannot read %s", path);
	for (int i = 0; r == 0 && i < n; i++)
		r = push_endpoint_read(&p[i], dir, list[i]->d_name, e);
	for (int i = 0; i < n; i++)
		free(list[i]);
	if (n >= 0)
		free(list);
	if (r < 0) {
		endpoints_free(p, p ? (size_t)n : 0);
		return err_wrap(e, r, "%s", path);
	}
	*ret = p;
	*ret_n = (size_t)n;
	return 0;
}

void push_endpoint_forget(struct push_endpoint *p)
{
	explicit_bzero(p->token, sizeof(p->token));
	explicit_bzero(p->headers, sizeof(p->headers));
	p->n_headers = 0;
}

void endpoints_free(struct push_endpoint *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		push_endpoint_forget(&p[i]);
	free(p);
}
