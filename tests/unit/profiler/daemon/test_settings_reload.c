/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/settings_reload.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds, pair[2]; /* pair[1] is the exporter's */
static struct engine engine;
static struct options now;

static void begin(void)
{
	fds = fd_count();
	options_default(&now);
	engine = (struct engine){0};
	ck_assert_int_eq(event_loop_new(&engine.loop), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	const struct exporter_owner owner = {.arg = &engine};
	ck_assert_int_eq(exporter_client_new(engine.loop, 1 << 20, &owner, &engine.spool.exporter), 0);
	ck_assert_int_eq(exporter_client_connect(engine.spool.exporter, pair[0]), 0);
}

static void end(void)
{
	engine.spool.exporter = exporter_client_free(engine.spool.exporter);
	engine.loop = event_loop_free(engine.loop);
	fd_close(pair[1]);
	ck_assert_int_eq(fd_count(), fds);
}

static const struct {
	const char *scenario;
	const char *pairs[10]; /* option, value */
	const char *changed, *waits;
} changes[] = {
	{"nothing", {NULL}, "", ""},
	{"the log's level", {"log-level", "debug"}, "log_level", ""},
	{"a cap", {"spool-size", "2MiB"}, "spool_size", ""},
	{"all that can", {"spool-age", "1d", "spool-size", "2MiB", "log-level", "info"},
		"log_level, spool_size, spool_age", ""},
	{"limits of a service", {"targets", "7", "target-rate", "100", "cpu-budget", "0.5%", "table-size", "2MiB"},
		"targets, table_size, target_rate, cpu_budget", ""},
	{"memory that is divided up", {"module-size", "2MiB", "jit-size", "2MiB"}, "",
		"module_size, jit_size need a restart"},
	{"the socket", {"control", "/run/x.sock"}, "", "control needs a restart"},
	{"all that cannot", {"control", "/run/x.sock", "log", "stderr", "spool", "/x"}, "",
		"control, spool, log need a restart"},
	{"metrics", {"metrics", "off"}, "", "metrics needs a restart"},
	{"users", {"users-group", "users", "users-max", "2", "users-spool-size", "1MiB"}, "",
		"users_group, users_max, users_spool_size need a restart"},
	{"both", {"log-level", "error", "spool", "/x"}, "log_level", "spool needs a restart"},
	{"what is the hook's", {"window", "5s", "budget", "1s", "daemon", "/x"}, "", ""},
};

START_TEST(what_can_change_does_and_the_rest_is_named)
{
	struct options fresh;
	struct reloaded did;

	options_default(&fresh);
	for (const char *const *p = changes[_i].pairs; *p; p += 2)
		ck_assert_int_eq(options_set(&fresh, OPTION_FLAG, p[0], p[1], NULL), 0);
	settings_reload(&now.settings, &fresh.settings, &engine, &did);
	ck_assert_msg(!strcmp(did.changed, changes[_i].changed), "%s: \"%s\"", changes[_i].scenario, did.changed);
	ck_assert_msg(!strcmp(did.waits, changes[_i].waits), "%s: \"%s\"", changes[_i].scenario, did.waits);
	/* what took effect is no change any more, what waits is named again */
	settings_reload(&now.settings, &fresh.settings, &engine, &did);
	ck_assert_str_eq(did.changed, "");
	ck_assert_str_eq(did.waits, changes[_i].waits);
}
END_TEST

START_TEST(what_is_behind_the_end_of_a_text_is_no_change)
{
	struct options fresh;
	struct reloaded did;

	options_default(&fresh);
	options_set(&fresh, OPTION_FILE, "control", "/a/much/longer/path/than/what/follows.sock", NULL);
	options_set(&fresh, OPTION_FLAG, "control", "/run/pillion/control.sock", NULL);
	settings_reload(&now.settings, &fresh.settings, &engine, &did);
	ck_assert_str_eq(did.waits, "");
}
END_TEST

START_TEST(a_smaller_spool_is_told_to_the_exporter)
{
	struct options fresh = now;
	struct reloaded did;
	struct export_limits l;
	size_t n;

	options_set(&fresh, OPTION_FILE, "spool-size", "1MiB", NULL);
	options_set(&fresh, OPTION_FILE, "spool-age", "1d", NULL);
	settings_reload(&now.settings, &fresh.settings, &engine, &did);
	/* once for each of the two: the last one has both */
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(fd_recv(pair[1], &l, sizeof(l), NULL, 0, &n), sizeof(l));
	ck_assert(export_check(&l, sizeof(l), 0, EXPORT_LIMITS));
	ck_assert_uint_eq(l.spool_bytes, 1 << 20);
	ck_assert_uint_eq(l.spool_age_s, 86400);
}
END_TEST

UNIT_SUITE(settings_reload)
{
	Suite *s = suite_create("settings_reload");
	TCase *t = tcase_create("settings_reload");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, what_can_change_does_and_the_rest_is_named, 0, LENGTH(changes));
	tcase_add_test(t, what_is_behind_the_end_of_a_text_is_no_change);
	tcase_add_test(t, a_smaller_spool_is_told_to_the_exporter);
	suite_add_tcase(s, t);
	return s;
}
