/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint: what the files and flags of `pillion push` may say, and what of it is no mistake to be found out later. */
#include "profiler/push/push_endpoint.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];
static int fds;

static void put(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
	fd_close(fd);
}

static const char *in_dir(const char *format)
{
	static char text[512];
	snprintf(text, sizeof(text), format, dir);
	return text;
}

static void setup(void)
{
	fds = fd_count();
	strcpy(dir, "/tmp/pillion-endpoint.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	put("token", "s3cret-token\n");
	put("secret", "X-Scope-OrgID: a\nX-API-Key: abc\n");
	put("headers", "# two\nX-Scope-OrgID: team\r\n\nX-More:  a b\n");
}

static void teardown(void)
{
	char line[96];
	snprintf(line, sizeof(line), "rm -r %s", dir);
	ck_assert_int_eq(system(line), 0);
	ck_assert_int_eq(fd_count(), fds);
}

static const struct {
	const char *url, *base;
	enum push_form form;
} urls[] = {
	{"pyroscope+http://localhost:4040", "http://localhost:4040", PUSH_PYROSCOPE},
	{"pyroscope+https://p.example/sub/", "https://p.example/sub", PUSH_PYROSCOPE},
	{"ingest+http://[::1]:4040/", "http://[::1]:4040", PUSH_INGEST},
	{"otlp+https://collector:4318", "https://collector:4318", PUSH_OTLP},
	{"put+http://10.0.0.1/a/b", "http://10.0.0.1/a/b", PUSH_PUT},
	{"file:///srv/profiles/", "/srv/profiles", PUSH_DIRECTORY},
};

START_TEST(a_url_says_where_and_how)
{
	struct push_endpoint p;
	struct err e = {0};
	push_endpoint_default(&p, "x");
	ck_assert_msg(push_endpoint_set(&p, "url", urls[_i].url, &e) == 0, "%s", e.text);
	ck_assert_str_eq(p.base, urls[_i].base);
	ck_assert_int_eq(p.form, urls[_i].form);
	ck_assert_int_eq(push_endpoint_check(&p, &e), 0);
}
END_TEST

static const struct {
	const char *key, *value, *said;
} mistakes[] = {
	{"url", "http://localhost:4040", "does not say what is spoken there"},
	{"url", "pyroscope+http://user:pw@host", "use user and token_file"},
	{"url", "pyroscope+http://", "has no host"},
	{"url", "pyroscope+http://host?x=1", "is no address of a server"},
	{"url", "pyroscope+http://host\nX: y", "is no address of a server"},
	{"url", "file://relative", "wants a directory from / on"},
	{"--to", "ftp://host", "--to: does not say"},
	{"token_file", "relative", "wants a path from / on"},
	{"token_file", "/no/such", "cannot open /no/such"},
	{"token_file", "/dev/null", "is empty"},
	{"user", "a:b", "the password is in token_file"},
	{"ca_file", "ca.pem", "wants a path from / on"},
	{"events", "cpu, offcpu", "commas between them"},
	{"max_bytes", "1000", "from 65536 on"},
	{"max_samples", "15", "from 16 on"},
	{"max_samples", "-5", "from 16 on"},
	{"max_samples", "50x", "from 16 on"},
	{"proxy", "proxy:3128", "is no proxy: write http://host:port"},
	{"proxy", "http://me:pw@proxy:3128", "is no proxy: write http://host:port"},
	{"password", "x", "no such key: password; they are url"},
};

START_TEST(flags_give_it_the_name_of_its_url)
{
	struct push_endpoint p;
	struct err e = {0};
	push_endpoint_default(&p, "");
	ck_assert_int_eq(push_endpoint_set(&p, "--to", "pyroscope+http://localhost:4040/sub/", &e), 0);
	ck_assert_str_eq(p.name, "pyroscope-http-localhost-4040-sub");
}
END_TEST

START_TEST(long_urls_have_names_of_their_own)
{
	static const char url[] =
		"pyroscope+http://pyroscope-distributor.monitoring-platform.svc.cluster.local:4040/tenant-";
	char text[sizeof(url) + 1];
	struct push_endpoint p[2];
	struct err e = {0};
	for (int i = 0; i < 2; i++) {
		push_endpoint_default(&p[i], "");
		snprintf(text, sizeof(text), "%s%c", url, 'a' + i);
		ck_assert_int_eq(push_endpoint_set(&p[i], "--to", text, &e), 0);
		ck_assert_uint_eq(strlen(p[i].name), sizeof(p[i].name) - 1);
		ck_assert_int_eq(strncmp(p[i].name, "pyroscope-http-pyroscope-distributor.monitoring-platfo-", 55), 0);
	}
	ck_assert_str_ne(p[0].name, p[1].name);
}
END_TEST

START_TEST(a_mistake_is_named_and_its_value_is_not_taken)
{
	struct push_endpoint p, before;
	struct err e = {0};
	push_endpoint_default(&p, "x");
	before = p;
	ck_assert_int_lt(push_endpoint_set(&p, mistakes[_i].key, mistakes[_i].value, &e), 0);
	ck_assert_msg(strstr(e.text, mistakes[_i].said), "%s", e.text);
	ck_assert_int_eq(memcmp(&p, &before, sizeof(p)), 0);
}
END_TEST

static const struct {
	const char *name, *text, *said;
} files[] = {
	{"none.conf", "# nothing\n", "none.conf: there is no url"},
	{"user.conf", "url = otlp+https://h\nuser = me\n", "no token_file with the password"},
	{"cert.conf", "url = otlp+https://h\ncert_file = /c\n", "go together"},
	{"plain.conf", "url = otlp+http://localhost\nca_file = /c\n", "write https"},
	{"clear.conf", "url = otlp+http://10.1.2.3\ntoken_file = %s/token\n", "sent in clear"},
	{"near.conf", "url = otlp+http://127.0.0.1.example.org\ntoken_file = %s/token\n", "sent in clear"},
	{"proxy.conf", "url = otlp+http://localhost\nproxy = http://p:1\ntoken_file = %s/token\n", "sent in clear"},
	{"secret.conf", "url = otlp+http://10.1.2.3\nheaders_file = %s/secret\n", "sent in clear"},
	{"line.conf", "url = otlp+https://h\nnonsense\n", "line.conf, line 2: not of the form key = value"},
	{"flag.conf", "--to = otlp+https://h\n", "line 1: '--to' is a flag"},
};

START_TEST(a_file_that_is_not_whole_is_no_endpoint)
{
	struct push_endpoint *p;
	size_t n;
	struct err e = {0};
	put(files[_i].name, in_dir(files[_i].text));
	ck_assert_int_lt(endpoints_read(dir, &p, &n, &e), 0);
	ck_assert_msg(strstr(e.text, files[_i].said), "%s", e.text);
	ck_assert_msg(!strncmp(e.text, dir, strlen(dir)), "%s", e.text);
	ck_assert_msg(!strstr(e.text, "s3cret"), "%s", e.text);
}
END_TEST

START_TEST(files_are_read_in_order_with_their_secrets)
{
	struct push_endpoint *p;
	size_t n;
	struct err e = {0};
	put("b.conf", in_dir("url = pyroscope+https://h\ntoken_file = %s/token\nevents = cpu,offcpu\n"));
	put("a.conf", in_dir("# first\nurl = otlp+http://h:4318\nheaders_file = %s/headers\nmax_samples = 77\n"));
	put(".hidden.conf", "nonsense");
	put("c.conf.orig", "nonsense");
	ck_assert_msg(endpoints_read(dir, &p, &n, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(p[0].name, "a");
	ck_assert_uint_eq(p[0].n_headers, 2);
	ck_assert_str_eq(p[0].headers[0], "X-Scope-OrgID: team");
	ck_assert_str_eq(p[0].headers[1], "X-More:  a b");
	ck_assert_uint_eq(p[0].limits.samples, 77);
	ck_assert_str_eq(p[1].name, "b");
	ck_assert_str_eq(p[1].token, "s3cret-token");
	ck_assert(push_endpoint_wants(&p[0], "anything"));
	ck_assert(push_endpoint_wants(&p[1], "cpu") && push_endpoint_wants(&p[1], "offcpu"));
	ck_assert(!push_endpoint_wants(&p[1], "off") && !push_endpoint_wants(&p[1], "cpu,offcpu") &&
		  !push_endpoint_wants(&p[1], ""));
	push_endpoint_forget(&p[1]);
	ck_assert_str_eq(p[1].token, "");
	endpoints_free(p, n);
}
END_TEST

START_TEST(a_directory_that_is_missing_has_none_and_one_that_is_full_says_so)
{
	struct push_endpoint *p;
	size_t n = 5;
	struct err e = {0};
	char name[32];
	ck_assert_int_eq(endpoints_read("/no/such", &p, &n, &e), 0);
	ck_assert_uint_eq(n, 0);
	for (int i = 0; i <= ENDPOINTS_MAX; i++) {
		snprintf(name, sizeof(name), "%d.conf", i);
		put(name, "url = otlp+https://h\n");
	}
	ck_assert_int_eq(endpoints_read(dir, &p, &n, &e), -E2BIG);
	ck_assert_msg(strstr(e.text, "has 9 endpoints, and 8 is the most"), "%s", e.text);
}
END_TEST

static const char *const headers[] = {"no colon\n", ": empty\n", "A B: c\n", "A: \x01\n"};

START_TEST(a_line_that_is_no_header_is_not_sent)
{
	struct push_endpoint p;
	struct err e = {0};
	push_endpoint_default(&p, "x");
	put("bad", headers[_i]);
	ck_assert_int_eq(push_endpoint_set(&p, "headers_file", in_dir("%s/bad"), &e), -EINVAL);
	ck_assert_msg(strstr(e.text, "write 'Name: value'"), "%s", e.text);
	ck_assert_uint_eq(p.n_headers, 0);
}
END_TEST

UNIT_SUITE(push_endpoint)
{
	Suite *s = suite_create("push_endpoint");
	TCase *t = tcase_create("all");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_url_says_where_and_how, 0, LENGTH(urls));
	tcase_add_test(t, flags_give_it_the_name_of_its_url);
	tcase_add_test(t, long_urls_have_names_of_their_own);
	tcase_add_loop_test(t, a_mistake_is_named_and_its_value_is_not_taken, 0, LENGTH(mistakes));
	tcase_add_loop_test(t, a_file_that_is_not_whole_is_no_endpoint, 0, LENGTH(files));
	tcase_add_test(t, files_are_read_in_order_with_their_secrets);
	tcase_add_test(t, a_directory_that_is_missing_has_none_and_one_that_is_full_says_so);
	tcase_add_loop_test(t, a_line_that_is_no_header_is_not_sent, 0, LENGTH(headers));
	suite_add_tcase(s, t);
	return s;
}
