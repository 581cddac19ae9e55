/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker leaves to the next supervisor: all of it comes over, and nothing of what is no estate. */
#include "profiler/daemon/worker_handover.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "profiler/target/target.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct engine old, fresh;
static struct supervisor supervisor;
static const struct settings settings;
static int fds, relays[8], n_relays;

static void begin(void)
{
	struct err e = {0};
	fds = fd_count();
	old = (struct engine){.symbols.kallsyms_fd = -1,
		.symbols.root = -1,
		.host.statm = -1,
		.host.handover = -1,
		.host.channel = -1};
	fresh = old;
	for (int i = 0; i < 2; i++)
		old.host.journal[i] = memfd_create("test", MFD_CLOEXEC);
	supervisor = (struct supervisor){.engine = &fresh, .settings = &settings};
	supervisor.symbolizer = (struct symbolizer_manager)SYMBOLIZER_MANAGER_NONE;
	supervisor.exporter = (struct exporter_manager){
		.setup = {.spool = -1, .http.fd = -1}, .process = {.sock = -1}, .pidfd = -1, .source = {.fd = -1}};
	ck_assert_int_eq(supervisor_new(&supervisor, &e), 0);
}

static void end(void)
{
	supervisor_done(&supervisor);
	event_loop_free(supervisor.loop);
	cpu_rings_close(fresh.perf.rings);
	for (int i = 0; i < 2; i++)
		fd_close(old.host.journal[i]);
	ck_assert_int_eq(fd_count(), fds);
}

static int connect_target(void *arg, struct target *t)
{
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	relays[n_relays++] = pair[0];
	return pair[1];
}

static struct target *put_target(const char *id, bool running)
{
	struct err e = {0};
	struct target *t;
	struct target_desc d = {
		.strategy = STRATEGY_CGROUP, .init_pid = 1, .host_pid = getpid(), .window_s = 60, .n_events = 1};
	snprintf(d.id, sizeof(d.id), "%s", id);
	snprintf(d.name, sizeof(d.name), "name of %s", id);
	d.events[0].period = 10101010;
	d.fds = TARGET_PIDFD;
	d.running = running;
	ck_assert_msg(target_new(&old, &d, (int[]){child_process_pidfd(getpid())}, &t, &e) == 0, "%s", e.text);
	t->armed = true;
	t->number = 7 + (uint32_t)old.n_targets;
	return t;
}

static int open_event(int cpu)
{
	struct perf_want want = {.role = PERF_SIDEBAND};
	struct perf_event_attr attr;
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	return perf_open(&attr, 0, cpu, 0);
}

START_TEST(all_of_it_comes_over)
{
	struct err e = {0};
	char note[160];
	int pair[2], channel[2];
	begin();
	if (cpu_rings_open(&old.perf.rings, note, sizeof(note), &e) < 0) {
		skip(e.text);
		return;
	}
	ck_assert_int_eq(event_loop_new(&old.loop), 0);
	ck_assert_int_eq(open_events_new(&old.perf.events), 0);
	struct target *t = put_target("c1", false);
	put_target("attached", true); /* of somebody who has gone with the supervisor */
	for (int i = 0; i < 3; i++) {
		struct event_desc d = {.role = PERF_SIDEBAND, .cpu = cpu_rings_cpu(old.perf.rings, 0)};
		int fd = open_event(d.cpu);
		ck_assert_msg(fd >= 0 && target_add_event(t, &d, fd, &e) == 0, "%s", e.text);
	}
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
	ck_assert_int_eq(handover_send(&old, pair[0], channel[1], connect_target, NULL), 0);
	fd_close(channel[1]);
	ck_assert_msg(handover_receive(&supervisor, pair[1], false, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(supervisor.n_targets, 1);
	const struct registered_target *r = supervisor.targets;
	ck_assert_str_eq(r->desc.id, "c1");
	ck_assert_str_eq(r->desc.name, "name of c1");
	ck_assert(r->armed && r->number == t->number && r->n_events == 3 && r->total == 3);
	ck_assert_uint_eq(supervisor.last_number, t->number); /* no number comes twice */
	ck_assert_uint_eq(cpu_rings_count(fresh.perf.rings), cpu_rings_count(old.perf.rings));
	ck_assert_uint_eq(cpu_rings_size(fresh.perf.rings), cpu_rings_size(old.perf.rings));
	ck_assert_int_eq(supervisor.current.pid, getpid());
	/* and its connection is one: what the worker says there is heard */
	ck_assert_int_eq(msg_send(relays[0], &(union msg){.ended = {.samples = 1}}, MSG_ENDED, NULL, 0), 0);
	ck_assert_int_eq(fd_wait(r->link.sock, POLLIN, deadline_in(NSEC_PER_SEC)), 1);
	fd_close(pair[0]);
	fd_close(pair[1]);
	fd_close(channel[0]);
	while (n_relays)
		fd_close(relays[--n_relays]);
	while (old.targets)
		target_forget(old.targets);
	open_events_free(old.perf.events);
	cpu_rings_close(old.perf.rings);
	event_loop_free(old.loop);
	end();
}
END_TEST

/* --- peers that are none */

enum {
	FINE,
	SHORT,
	LONG,
	LAYOUT,
	NO_RINGS,
	TOO_MANY_RINGS,
	NO_FDS,
	END_AT_ONCE,
	TARGET_FIRST,
	EVENTS_FIRST,
	KIND,
	HANGS_UP
};

static const struct {
	const char *scenario;
	int how;
	int result;
} strangers[] = {
	{"a message too short for anything", SHORT, -EPROTO},
	{"a head with more behind it", LONG, -EPROTO},
	{"another layout", LAYOUT, -EPROTONOSUPPORT},
	{"no rings", NO_RINGS, -EPROTO},
	{"more rings than there can be", TOO_MANY_RINGS, -EPROTO},
	{"a head without descriptors", NO_FDS, -EPROTO},
	{"an end and nothing before it", END_AT_ONCE, -EPROTO},
	{"a target before the head", TARGET_FIRST, -EPROTO},
	{"events of no target", EVENTS_FIRST, -EPROTO},
	{"an item of no kind", KIND, -EPROTO},
	{"nothing at all", HANGS_UP, -EPIPE},
};

static size_t head_size(void)
{
	return offsetof(struct handover_item, head) + sizeof(((struct handover_item *)0)->head);
}

static void say(int sock, int how)
{
	static struct handover_item it;
	int sent[4] = {0, 0, 0, 0};
	size_t size = head_size(), n = 4;
	memset(&it, 0, sizeof(it));
	it.kind = HANDOVER_HEAD;
	it.head.layout = how == LAYOUT ? 12345 : HANDOVER_LAYOUT;
	it.head.rings = how == NO_RINGS ? 0 : how == TOO_MANY_RINGS ? CPU_RINGS_CPUS_MAX + 1 : 1;
	it.head.ring_size = 4096;
	if (how == SHORT)
		size = 3, n = 0;
	if (how == LONG)
		size += 8;
	if (how == NO_FDS)
		n = 0;
	if (how == END_AT_ONCE || how == KIND) {
		it.kind = how == KIND ? 77 : HANDOVER_END;
		size = offsetof(struct handover_item, head), n = 0;
	}
	if (how == TARGET_FIRST) {
		it.kind = HANDOVER_TARGET;
		it.target.number = 1;
		size = offsetof(struct handover_item, head) + sizeof(it.target), n = 2;
	}
	if (how == EVENTS_FIRST) {
		it.kind = HANDOVER_EVENTS;
		it.n = 1;
		size = offsetof(struct handover_item, head) + sizeof(it.events[0]), n = 1;
	}
	if (how != HANGS_UP)
		ck_assert_int_eq(fd_send(sock, &it, size, sent, n), 0);
}

START_TEST(of_strangers_nothing_is_taken)
{
	struct err e = {0};
	int pair[2];
	begin();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	say(pair[0], strangers[_i].how);
	fd_close(pair[0]);
	int r = handover_receive(&supervisor, pair[1], false, &e);
	ck_assert_msg(r == strangers[_i].result, "%s: %d", strangers[_i].scenario, r);
	ck_assert(!supervisor.targets && supervisor.current.pid < 0 && !fresh.perf.rings);
	fd_close(pair[1]);
	end();
}
END_TEST

/* Its targets and journal are kept elsewhere: the worker does not come to its last window. */
START_TEST(a_worker_of_another_layout_is_killed)
{
	struct err e = {0};
	int pair[2], status;
	begin();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	pid_t worker = fork();
	if (worker == 0)
		for (;;)
			pause();
	struct handover_item it = {.kind = HANDOVER_HEAD, .head = {.layout = HANDOVER_LAYOUT - 2, .rings = 1}};
	int pidfd = child_process_pidfd(worker), sent[] = {0, pidfd, 0, 0};
	ck_assert_int_eq(fd_send(pair[0], &it, head_size(), sent, 4), 0);
	ck_assert_int_eq(handover_receive(&supervisor, pair[1], true, &e), -EOWNERDEAD);
	ck_assert_int_eq(waitpid(worker, &status, 0), worker);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert(!supervisor.targets && supervisor.current.pid < 0);
	fd_close(pidfd);
	fd_close(pair[0]);
	fd_close(pair[1]);
	end();
}
END_TEST

UNIT_SUITE(worker_handover)
{
	Suite *s = suite_create("worker_handover");
	TCase *t = tcase_create("worker_handover");

	tcase_set_timeout(t, 30);
	tcase_add_test(t, all_of_it_comes_over);
	tcase_add_test(t, a_worker_of_another_layout_is_killed);
	tcase_add_loop_test(t, of_strangers_nothing_is_taken, 0, sizeof(strangers) / sizeof(strangers[0]));
	suite_add_tcase(s, t);
	return s;
}
