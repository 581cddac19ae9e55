/* SPDX-License-Identifier: Apache-2.0 */
/* invocation: what engines and people write, in both dialects; and what nobody can be sure of. */
#include "oci/runtime/runtime_argv.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define WORDS 24
#define UNCLEAR -1

static const struct {
	const char *line; /* words of it */
	int runc, crun;	  /* enum runtime_argv_command, or UNCLEAR */
	const char *id, *bundle, *root;
	const char *crun_bundle; /* where crun reads another one */
} rows[] = {
	/* containerd's shim (go-runc) */
	{"--root /r --log /b/log.json --log-format json --systemd-cgroup create --bundle /b --pid-file /b/p "
	 "--console-socket /s c1",
		INVOKED_CREATE, INVOKED_CREATE, "c1", "/b", "/r", NULL},
	{"--root /r --log /b/log.json --log-format json start c1", INVOKED_START, INVOKED_START, "c1", NULL, "/r",
		NULL},
	{"--root /r --debug --log l --log-format json delete --force c1", INVOKED_DELETE, INVOKED_DELETE, "c1", NULL,
		"/r", NULL},
	/* conmon */
	{"--systemd-cgroup --log-format=json --log l --root=/run/x create --bundle /b --pid-file /p --no-pivot "
	 "--no-new-keyring c1",
		INVOKED_CREATE, INVOKED_CREATE, "c1", "/b", "/run/x", NULL},
	{"--cgroup-manager disabled start c1", UNCLEAR, INVOKED_START, "c1", NULL, NULL, NULL},
	/* what people write */
	{"start c1", INVOKED_START, INVOKED_START, "c1", NULL, NULL, NULL},
	{"run -b /b c1", INVOKED_RUN, INVOKED_RUN, "c1", "/b", NULL, NULL},
	{"run -b=/b c1", INVOKED_RUN, UNCLEAR, "c1", "/b", NULL, NULL},
	{"run -b/b c1", UNCLEAR, INVOKED_RUN, "c1", "/b", NULL, NULL},
	{"run --bundle=/b c1", INVOKED_RUN, INVOKED_RUN, "c1", "/b", NULL, NULL},
	{"run -bundle /b c1", INVOKED_RUN, UNCLEAR, "c1", "/b", NULL, NULL},
	{"run -bundle=/b c1", INVOKED_RUN, INVOKED_RUN, "c1", "/b", NULL, "undle=/b"},
	{"run --bund /b c1", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run -b /a -b /b c1", INVOKED_RUN, INVOKED_RUN, "c1", "/b", NULL, NULL},
	{"run -d --bundle /b -- c1", INVOKED_RUN, INVOKED_RUN, "c1", "/b", NULL, NULL},
	{"run -- -c1", INVOKED_RUN, INVOKED_RUN, "-c1", NULL, NULL, NULL},
	{"run c1", INVOKED_RUN, INVOKED_RUN, "c1", NULL, NULL, NULL},
	{"run c1 -b /b", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run -f x.json c1", UNCLEAR, INVOKED_RUN, "c1", NULL, NULL, NULL},
	{"run --config=x.json c1", UNCLEAR, INVOKED_RUN, "c1", NULL, NULL, NULL},
	{"run --detach=true c1", INVOKED_RUN, UNCLEAR, "c1", NULL, NULL, NULL},
	{"run --detach=7 c1", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run --preserve-fds 3 c1", INVOKED_RUN, INVOKED_RUN, "c1", NULL, NULL, NULL},
	{"run", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run -b", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run a b", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run --help", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"run --from-the-future c1", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"start --from-the-future c1", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	/* names that look like commands */
	{"--root create start create", INVOKED_START, INVOKED_START, "create", NULL, "create", NULL},
	{"--log start state run", INVOKED_OTHER, INVOKED_OTHER, NULL, NULL, NULL, NULL},
	{"run -b create start", INVOKED_RUN, INVOKED_RUN, "start", "create", NULL, NULL},
	{"kill create KILL", INVOKED_OTHER, INVOKED_OTHER, NULL, NULL, NULL, NULL},
	{"exec c1 run", INVOKED_OTHER, INVOKED_OTHER, NULL, NULL, NULL, NULL},
	{"--from-the-future start c1", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"--root", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"--version", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"-v", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"features", INVOKED_OTHER, INVOKED_OTHER, NULL, NULL, NULL, NULL},
	{"-- start c1", UNCLEAR, UNCLEAR, NULL, NULL, NULL, NULL},
	{"- start", INVOKED_OTHER, INVOKED_OTHER, NULL, NULL, NULL, NULL},
	{"", INVOKED_OTHER, INVOKED_OTHER, NULL, NULL, NULL, NULL},
};

static void same(const char *got, const char *want)
{
	ck_assert_int_eq(!got, !want);
	if (want)
		ck_assert_str_eq(got, want);
}

START_TEST(a_line_is_read_as_the_runtime_reads_it)
{
	for (enum dialect d = DIALECT_RUNC; d <= DIALECT_CRUN; d++) {
		char line[512], *rest = line, *words[WORDS] = {(char *)"pillion-runc"};
		const int want = d == DIALECT_RUNC ? rows[_i].runc : rows[_i].crun;
		struct runtime_argv v;
		int n = 1;
		strcpy(line, rows[_i].line);
		while (*line && (words[n] = strsep(&rest, " ")))
			n++;
		const int r = runtime_argv_parse(d, n, words, &v);
		ck_assert_msg(r == (want == UNCLEAR ? -EINVAL : 0), "%s, dialect %d: %d", rows[_i].line, d, r);
		if (r < 0)
			continue;
		ck_assert_int_eq((int)v.command, want);
		same(v.root, rows[_i].root);
		if (v.command == INVOKED_OTHER)
			continue;
		same(v.id, rows[_i].id);
		same(v.bundle, d == DIALECT_CRUN && rows[_i].crun_bundle ? rows[_i].crun_bundle : rows[_i].bundle);
		ck_assert(words[v.id_at] == v.id || !strcmp(words[v.id_at], "--"));
	}
}
END_TEST

START_TEST(a_dialect_is_that_of_its_file)
{
	ck_assert_int_eq(dialect_of("/usr/bin/crun"), DIALECT_CRUN);
	ck_assert_int_eq(dialect_of("/opt/crun/runc"), DIALECT_RUNC);
	ck_assert_int_eq(dialect_of("crun-wasm"), DIALECT_CRUN);
	ck_assert_int_eq(dialect_of("/usr/bin/youki"), DIALECT_RUNC);
}
END_TEST

UNIT_SUITE(runtime_argv)
{
	Suite *s = suite_create("runtime_argv");
	TCase *t = tcase_create("runtime_argv");
	tcase_add_loop_test(t, a_line_is_read_as_the_runtime_reads_it, 0, N(rows));
	tcase_add_test(t, a_dialect_is_that_of_its_file);
	suite_add_tcase(s, t);
	return s;
}
