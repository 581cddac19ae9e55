/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor: what becomes of a target, a file and the journal when workers die. The workers are children that do that.
 */
#include "profiler/daemon/supervisor.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TARGET 7

static struct engine engine;
static struct supervisor supervisor;
static const struct settings settings;
static int fds, far[2];

static void begin(void)
{
	struct err e = {0};
	fds = fd_count();
	engine = (struct engine){.symbols.kallsyms_fd = -1,
		.symbols.root = -1,
		.host.statm = -1,
		.host.handover = -1,
		.host.channel = -1};
	supervisor = (struct supervisor){.engine = &engine, .settings = &settings};
	supervisor.symbolizer = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	supervisor.exporter = (struct exporter_manager){
		.setup = {.spool = -1, .http.fd = -1}, .process = {.sock = -1}, .pidfd = -1, .source = {.fd = -1}};
	ck_assert_int_eq(supervisor_new(&supervisor, &e), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct target_desc d = {.id = "c1", .window_s = 60, .n_events = 1};
		int pair[2];
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		far[i] = pair[1];
		ck_assert_ptr_nonnull(supervisor_adopt(&supervisor, &d, TARGET + i, pair[0], NULL));
	}
	ck_assert_int_eq(ftruncate(engine.host.journal[0], 4096), 0);
}

static void end(void)
{
	supervisor_done(&supervisor);
	event_loop_free(supervisor.loop);
	for (unsigned i = 0; i < 2; i++)
		fd_close(far[i]);
	ck_assert_int_eq(fd_count(), fds);
}

static int until_dead(void *arg)
{
	if (supervisor.current.pid < 0)
		event_loop_stop(supervisor.loop);
	return -1;
}

/* A worker that is at this target, and reads that file, dies of the signal. */
static void die(uint32_t target, const struct module_key *key, int sig)
{
	int channel[2], gate[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gate), 0);
	engine.host.at->target = engine.host.at->reading = 0;
	pid_t pid = fork();
	if (pid == 0) {
		char go;
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		fd_close(channel[0]);
		fd_close(gate[0]);
		if (recv(gate[1], &go, 1, 0) < 0)
			_exit(0);
		engine.host.at->target = target;
		if (key)
			quarantine_note(engine.host.at, key);
		engine.host.at->reading = key != NULL;
		signal(sig, SIG_DFL);
		raise(sig);
		_exit(0);
	}
	fd_close(channel[1]);
	fd_close(gate[1]);
	ck_assert_int_eq(supervisor_inherit(&supervisor, pid, child_process_pidfd(pid), channel[0]), 0);
	ck_assert_int_eq(fd_send(gate[0], "", 1, NULL, 0), 0);
	ck_assert_int_eq(event_loop_run(supervisor.loop, until_dead, NULL), 0);
	fd_close(gate[0]);
}

static off_t journal_size(void)
{
	struct stat st;
	ck_assert_int_eq(fstat(engine.host.journal[0], &st), 0);
	return st.st_size;
}

static const struct registered_target *the_target(void)
{
	const struct registered_target *r = supervisor.targets;
	while (r && r->number != TARGET)
		r = r->next;
	ck_assert_ptr_nonnull(r);
	return r;
}

static const struct module_key bad = {.path = "/lib/bad.so", .ino = 3};

START_TEST(a_target_at_which_three_died_is_kept_as_addresses_and_at_six_let_go)
{
	begin();
	for (unsigned i = 0; i < 6; i++) {
		ck_assert_uint_eq(supervisor.n_targets, 2);
		ck_assert(the_target()->plain == (i >= 3));
		die(TARGET, NULL, SIGSEGV);
	}
	ck_assert_uint_eq(supervisor.n_targets, 1);
	ck_assert_uint_eq(supervisor.targets->number, TARGET + 1);
	ck_assert(!supervisor.targets->plain);
	ck_assert_int_eq(journal_size(), 0); /* it may have been that as well */
	end();
}
END_TEST

START_TEST(a_file_of_which_three_died_is_in_quarantine_and_its_target_is_as_it_was)
{
	begin();
	die(TARGET, &bad, SIGSEGV);
	die(TARGET, &bad, SIGSEGV);
	ck_assert(!quarantine_has(&engine.host.quarantine, &bad, TARGET));
	die(TARGET, &bad, SIGABRT);
	ck_assert(quarantine_has(&engine.host.quarantine, &bad, TARGET)); /* and who is forked now has that */
	ck_assert(!quarantine_has(&engine.host.quarantine, &bad, TARGET + 1));
	ck_assert_int_eq(journal_size(), 4096);
	die(TARGET, NULL, SIGSEGV);
	die(TARGET, NULL, SIGSEGV);
	ck_assert_uint_eq(supervisor.n_targets, 2);
	ck_assert(!the_target()->plain);
	die(TARGET, NULL, SIGSEGV);
	ck_assert(the_target()->plain);
	end();
}
END_TEST

START_TEST(who_is_killed_has_done_nothing)
{
	begin();
	for (unsigned i = 0; i < 5; i++)
		die(TARGET, i % 2 ? &bad : NULL, SIGKILL);
	ck_assert(!quarantine_has(&engine.host.quarantine, &bad, TARGET));
	ck_assert_uint_eq(supervisor.n_targets, 2);
	ck_assert_int_eq(journal_size(), 4096);
	end();
}
END_TEST

START_TEST(a_worker_that_names_nobody_blames_nobody)
{
	begin();
	for (unsigned i = 0; i < 5; i++)
		die(i % 2 ? 0 : 4711, &bad, SIGSEGV);
	ck_assert(!quarantine_has(&engine.host.quarantine, &bad, 4711));
	ck_assert_uint_eq(supervisor.n_targets, 2);
	end();
}
END_TEST

START_TEST(the_next_exporter_has_the_settings_of_now)
{
	const struct settings other = {.spool_bytes = 1 << 20, .spool_age_s = 86400};
	supervisor_settings(&supervisor, &other);
	ck_assert_uint_eq(supervisor.exporter.setup.spool_bytes, 1 << 20);
	ck_assert_uint_eq(supervisor.exporter.setup.spool_age_s, 86400);
}
END_TEST

UNIT_SUITE(supervisor)
{
	Suite *s = suite_create("supervisor");
	TCase *t = tcase_create("deaths");
	tcase_set_timeout(t, 30);
	tcase_add_test(t, a_target_at_which_three_died_is_kept_as_addresses_and_at_six_let_go);
	tcase_add_test(t, a_file_of_which_three_died_is_in_quarantine_and_its_target_is_as_it_was);
	tcase_add_test(t, who_is_killed_has_done_nothing);
	tcase_add_test(t, a_worker_that_names_nobody_blames_nobody);
	tcase_add_test(t, the_next_exporter_has_the_settings_of_now);
	suite_add_tcase(s, t);
	return s;
}
