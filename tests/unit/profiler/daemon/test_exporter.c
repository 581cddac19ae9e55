/* SPDX-License-Identifier: Apache-2.0 */
/* exporter: profiles come to the spool once, whatever dies meanwhile; peers that say what nobody should; pages. */
#include "profiler/daemon/exporter.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "profiler/spool/spool.h"
#include "profiler/web/http_server.h"
#include "tests/unit/support/full.h"
#include "tests/unit/support/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define START_NS (1767225600 * NSEC_PER_SEC) /* 20260101T000000Z */

static struct clock_driven *driven; /* the exporter's too. So what is waited for has no end but that of the test */
static char dir[64];
static int fds;
static struct event_loop *loop;
static struct exporter_setup exporter_setup;
static struct exporter_process process;
static struct exporter_client *client;
static struct {
	unsigned done, failed, lost, states, listings;
	void *of[4096];
	char path[400], why[320];
	uint64_t bytes;
} heard;

/* --- the worker's side */

static void on_done(void *arg, void *of, const struct export_profile *p, const char *path, const struct err *e)
{
	heard.of[heard.done++ % LENGTH(heard.of)] = of;
	heard.bytes = p->bytes;
	heard.failed += !path;
	snprintf(heard.path, sizeof(heard.path), "%s", path ? path : "");
	snprintf(heard.why, sizeof(heard.why), "%s", path ? "" : e->text);
}

static void on_lost(void *arg)
{
	heard.lost++;
}

static void on_state(void *arg, struct export_state *ret)
{
	heard.states++;
	ret->symbolizer = ret->readers = 1;
	ret->outcomes.count[HOOK_ARMED][STRATEGY_CGROUP] = 3;
}

/* 60 targets: three pages. */
static void on_listing(void *arg, uint64_t before, struct msg_listing *m)
{
	uint64_t next = before == UINT64_MAX ? 60 : before - 1;
	heard.listings += before == UINT64_MAX;
	memset(m, 0, sizeof(*m));
	for (; next && m->n < PROTOCOL_LISTED_MAX; next--) {
		struct target_row *t = &m->targets[m->n++];
		*t = (struct target_row){.serial = next,
			.state = LISTED_STARTED,
			.strategy = STRATEGY_CGROUP,
			.n_events = 1,
			.samples = next};
		t->events[0].period = 1;
		snprintf(t->id, sizeof(t->id), "id%u", (unsigned)next);
		snprintf(t->name, sizeof(t->name), "web \"%u\"\\", (unsigned)next);
	}
	m->last = !next;
	m->sums.targets = 60;
}

static bool (*met)(void);

static int due(void *arg)
{
	int wait = client ? exporter_client_round(client, clock_now()) : -1;
	if (met())
		event_loop_stop(loop);
	return wait < 0 || wait > 10 ? 10 : wait;
}

static void run_until(bool (*fn)(void))
{
	met = fn;
	ck_assert_int_eq(event_loop_run(loop, due, NULL), 0);
}

static int turns_left;

static bool no_turns_left(void)
{
	return turns_left-- == 0;
}

/* So many rounds of the loop, of a millisecond where nothing happens: no time by the clock. */
static void turns(int n)
{
	turns_left = n;
	run_until(no_turns_left);
}

static unsigned wanted;
static bool all_done(void)
{
	return heard.done >= wanted;
}
static bool is_lost(void)
{
	return heard.lost > 0;
}

static void done(unsigned n)
{
	wanted = n;
	run_until(all_done);
}

static void start(void)
{
	struct err e = {0};
	ck_assert_msg(exporter_start(&exporter_setup, &process, &e) == 0, "%s", e.text);
}

static bool ends(pid_t pid)
{
	return waitpid(pid, NULL, __WALL) == pid;
}

static void kill_exporter(void)
{
	kill(process.pid, SIGKILL);
	ck_assert(ends(process.pid));
	process.pid = 0;
}

static void successor(void)
{
	start();
	ck_assert_int_eq(exporter_client_connect(client, process.sock), 0);
}

static void begin(void)
{
	const struct exporter_owner owner = {NULL, on_done, on_lost, on_state, on_listing};
	fds = fd_count();
	driven = mmap(NULL, sizeof(*driven), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(driven, MAP_FAILED);
	clock_drive(driven);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* as pilliond has it by then: a seccomp role needs it */
	memset(&heard, 0, sizeof(heard));
	snprintf(dir, sizeof(dir), "/tmp/test_exporter.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	exporter_setup = (struct exporter_setup){.spool = fd_open_dir(AT_FDCWD, dir), .http.fd = -1};
	ck_assert_int_eq(event_loop_new(&loop), 0);
	ck_assert_int_eq(exporter_client_new(loop, 1 << 20, &owner, &client), 0);
}

static void setup(void)
{
	begin();
	start();
	ck_assert_int_eq(exporter_client_connect(client, process.sock), 0);
}

static void teardown(void)
{
	char command[96];
	client = exporter_client_free(client);
	if (process.pid > 0) {
		kill(process.pid, SIGCONT);
		ck_assert_msg(ends(process.pid), "an exporter is left");
	}
	process.pid = 0;
	loop = event_loop_free(loop);
	fd_close(exporter_setup.spool);
	fd_close(exporter_setup.http.fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
	clock_drive(NULL);
	munmap(driven, sizeof(*driven));
	ck_assert_int_eq(fd_count(), fds);
}

static struct export_profile profile_of(unsigned seq, uint64_t bytes)
{
	struct export_profile p = {.bytes = bytes, .samples = 5, .start_ns = START_NS, .duration_ns = 1, .seq = seq};
	strcpy(p.event, "cpu");
	strcpy(p.id, "8f2e");
	strcpy(p.name, "web");
	return p;
}

static uint8_t *bytes_of(unsigned seq, uint64_t n)
{
	uint8_t *bytes = malloc(n);
	memset(bytes, 'a' + (int)(seq % 26), n);
	return bytes;
}

static int put(unsigned seq, uint64_t n, void *of, struct err *e)
{
	struct export_profile p = profile_of(seq, n);
	return exporter_write(client, &p, bytes_of(seq, n), of, e);
}

static void must(const char *command)
{
	char line[512];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static unsigned count(const char *command)
{
	char line[512], answer[32] = "";
	snprintf(line, sizeof(line), "cd %s && { %s; } | wc -l", dir, command);
	FILE *f = popen(line, "re");
	ck_assert_ptr_nonnull(fgets(answer, sizeof(answer), f));
	pclose(f);
	return (unsigned)atol(answer);
}

#define FILES "find . -name '*.pb.gz'"
#define LINES "cat index.jsonl"

/* --- writing */

START_TEST(a_profile_is_written_and_its_path_told)
{
	int token;
	ck_assert_int_eq(put(7, 5000, &token, NULL), 0);
	ck_assert_uint_eq(heard.done, 0);
	done(1);
	ck_assert_str_eq(heard.path, "web/20260101T000000Z-000007-cpu.pb.gz");
	ck_assert(heard.of[0] == &token && heard.bytes == 5000);
	must("head -c 5000 /dev/zero | tr '\\0' h | cmp - web/20260101T000000Z-000007-cpu.pb.gz");
	must("grep -q '\"id\":\"8f2e\".*\"samples\":5,\"bytes\":5000' index.jsonl");
	ck_assert_uint_eq(count(LINES), 1);
}
END_TEST

START_TEST(without_a_name_it_is_the_id)
{
	struct export_profile p = profile_of(1, 10);
	p.name[0] = 0;
	ck_assert_int_eq(exporter_write(client, &p, bytes_of(1, 10), NULL, NULL), 0);
	done(1);
	ck_assert_str_eq(heard.path, "8f2e/20260101T000000Z-000001-cpu.pb.gz");
}
END_TEST

static const struct {
	const char *pod_namespace, *pod, *name, *path;
} pods[] = {
	{"prod", "shop-0", "main", "prod/shop-0/main/"}, {"prod", "shop-1", "main", "prod/shop-1/main/"},
	{"test", "shop-0", "main", "test/shop-0/main/"}, {"", "", "main", "main/"},
	{"prod", "../../etc", "main", "main/"}, /* a name that Kubernetes does not allow */
};

START_TEST(containers_of_one_name_lie_with_their_pods)
{
	char expect[128], line[512];
	for (unsigned i = 0; i < LENGTH(pods); i++) {
		struct export_profile p = profile_of(i, 10);
		snprintf(p.name, sizeof(p.name), "%s", pods[i].name);
		snprintf(p.pod, sizeof(p.pod), "%s", pods[i].pod);
		snprintf(p.pod_namespace, sizeof(p.pod_namespace), "%s", pods[i].pod_namespace);
		ck_assert_int_eq(exporter_write(client, &p, bytes_of(i, 10), NULL, NULL), 0);
		done(i + 1);
		snprintf(expect, sizeof(expect), "%s20260101T000000Z-%06u-cpu.pb.gz", pods[i].path, i);
		ck_assert_str_eq(heard.path, expect);
		snprintf(line, sizeof(line),
			"grep -q '\"file\":\"%s\".*\"name\":\"main\",\"pod\":\"%s\",\"namespace\":\"%s\"' index.jsonl",
			expect, pods[i].pod, pods[i].pod_namespace);
		must(line);
	}
	/* a successor finds them */
	kill_exporter();
	must("rm index.jsonl");
	successor();
	ck_assert_int_eq(put(9, 10, NULL, NULL), 0);
	done(LENGTH(pods) + 1);
	ck_assert_uint_eq(count(LINES), LENGTH(pods) + 1);
	must("grep -q "
	     "'\"file\":\"test/shop-0/main/"
	     "[^\"]*\",\"id\":null.*\"event\":\"cpu\",\"seq\":2,\"start_ns\":1767225600000000000' "
	     "index.jsonl");
}
END_TEST

START_TEST(many_at_once_come_in_their_order)
{
	static int tokens[300];
	for (unsigned i = 0; i < LENGTH(tokens); i++)
		ck_assert_int_eq(put(i, 100 + i, &tokens[i], NULL), 0);
	done(LENGTH(tokens));
	for (unsigned i = 0; i < LENGTH(tokens); i++)
		ck_assert(heard.of[i] == &tokens[i]);
	ck_assert_uint_eq(heard.failed, 0);
	ck_assert_uint_eq(count(FILES), LENGTH(tokens));
	ck_assert_uint_eq(count(LINES), LENGTH(tokens));
}
END_TEST

START_TEST(it_can_do_little)
{
	char text[64], path[64];
	ck_assert_int_eq(put(1, 10, NULL, NULL), 0);
	done(1);
	ck_assert_int_eq(proc_status_field(process.pid, "Seccomp", text, sizeof(text)), 0);
	ck_assert_str_eq(text, "2");
	snprintf(path, sizeof(path), "ls /proc/%d/fd | wc -w", process.pid);
	FILE *f = popen(path, "re");
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	pclose(f);
	/* stdio, the socket, an epoll, the spool twice */
	ck_assert_int_le(atoi(text), 7);
}
END_TEST

START_TEST(a_reason_comes_with_what_is_lost)
{
	exporter_client_limit(client, 8192, 0);
	ck_assert_int_eq(put(1, 4097, NULL, NULL), 0); /* with its directory three blocks */
	done(1);
	ck_assert_uint_eq(heard.failed, 1);
	ck_assert_str_eq(heard.why, "a profile of web with 4097 bytes is lost: the spool may hold 8192");
	ck_assert_int_eq(put(2, 600, NULL, NULL), 0);
	ck_assert_int_eq(put(3, 600, NULL, NULL), 0);
	done(3);
	ck_assert_uint_eq(heard.failed, 1);
	ck_assert_uint_eq(count(FILES), 1); /* the older one went */
}
END_TEST

START_TEST(a_spool_that_is_away_and_back)
{
	must("rmdir ../$(basename $PWD)"); /* what is open has no place any more */
	ck_assert_int_eq(put(1, 10, NULL, NULL), 0);
	done(1);
	ck_assert_uint_eq(heard.failed, 1);
	ck_assert_msg(strstr(heard.why, "is lost: cannot write to the spool: No such file"), "%s", heard.why);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
}
END_TEST

static bool one_file(void)
{
	return count(FILES) == 1;
}

static bool one_line(void)
{
	return count(LINES) == 1;
}

START_TEST(ages_count_while_nothing_is_written)
{
	char command[256];
	begin();
	snprintf(command, sizeof(command),
		"mkdir web && : >web/20200101T000000Z-000001-cpu.pb.gz && "
		": >web/$(date -u +%%Y%%m%%dT%%H%%M%%SZ)-000002-cpu.pb.gz");
	must(command);
	exporter_setup.spool_age_s = 3600;
	successor();
	run_until(one_file);
	run_until(one_line);
	must("grep -q 000002-cpu index.jsonl");
	teardown();
}
END_TEST

/* --- an exporter that is slow */

START_TEST(who_does_not_answer_holds_up_nobody)
{
	struct err e = {0};
	unsigned n = 0;
	kill(process.pid, SIGSTOP);
	while (put(n, 100 << 10, NULL, &e) == 0)
		n++;
	ck_assert_uint_eq(n, 10); /* of 1 MiB that may be held */
	ck_assert_int_eq(e.code, -ENOBUFS);
	ck_assert_str_eq(e.text, "the spool is slow: 10 profiles with 1024000 bytes wait to be written");
	kill(process.pid, SIGCONT);
	done(n);
	ck_assert_int_eq(put(n, 100 << 10, NULL, &e), 0);
	done(n + 1);
	ck_assert_uint_eq(count(FILES), n + 1);
}
END_TEST

START_TEST(small_ones_are_bounded_too)
{
	unsigned n = 0;
	kill(process.pid, SIGSTOP);
	while (put(n, 1, NULL, NULL) == 0)
		n++;
	ck_assert_uint_eq(n, EXPORT_HELD_MAX);
	ck_assert_int_le(fd_count(), fds + 4 + EXPORT_SENT_MAX);
}
END_TEST

START_TEST(one_that_is_larger_than_all_is_taken_alone)
{
	ck_assert_int_eq(put(1, 3 << 20, NULL, NULL), 0);
	ck_assert_int_eq(put(2, 1, NULL, NULL), -ENOBUFS);
	done(1);
	ck_assert_int_eq(put(3, (EXPORT_PROFILE_MAX) + 1ull, NULL, NULL), -EFBIG);
}
END_TEST

START_TEST(a_target_that_is_forgotten)
{
	int a, b;
	kill(process.pid, SIGSTOP);
	put(1, 10, &a, NULL);
	put(2, 10, &b, NULL);
	exporter_client_cancel_owner(client, &a);
	kill(process.pid, SIGCONT);
	done(2);
	ck_assert(!heard.of[0] && heard.of[1] == &b);
	ck_assert_uint_eq(count(FILES), 2);
}
END_TEST

START_TEST(the_end_hands_over_what_is_left)
{
	kill(process.pid, SIGSTOP);
	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(put(i, 100, NULL, NULL), 0);
	client = exporter_client_free(client);
	kill(process.pid, SIGCONT);
	ck_assert(ends(process.pid));
	process.pid = 0;
	ck_assert_uint_eq(count(FILES), 40);
	ck_assert_uint_eq(count(LINES), 40);
	ck_assert_uint_eq(heard.done, 0);
}
END_TEST

START_TEST(a_signal_that_ends_services_does_not_end_it)
{
	ck_assert_int_eq(put(1, 10, NULL, NULL), 0);
	done(1); /* as pilliond has them blocked when it forks, so no moment is too early there */
	kill(process.pid, SIGTERM);
	kill(process.pid, SIGINT);
	kill(process.pid, SIGHUP);
	ck_assert_int_eq(put(2, 10, NULL, NULL), 0);
	done(2);
	ck_assert_uint_eq(heard.lost, 0);
}
END_TEST

/* --- an exporter that dies */

START_TEST(killed_at_any_moment)
{
	unsigned n = 0;
	srand(1);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 10; i++, n++)
			ck_assert_int_eq(put(n, 2000, NULL, NULL), 0);
		/* of one profile not as often as would be given up */
		if (round % (EXPORT_TRIES_MAX - 1) == 0)
			done(heard.done + 1);
		turns(rand() % 8);
		heard.lost = 0;
		kill_exporter();
		run_until(is_lost);
		successor();
	}
	done(n);
	turns(20);
	ck_assert_uint_eq(heard.done, n);
	ck_assert_uint_eq(heard.failed, 0);
	ck_assert_uint_eq(count(FILES), n);
	ck_assert_uint_eq(count("sort -u index.jsonl"), n);
	ck_assert_uint_eq(count("grep -v null index.jsonl"), n);
	ck_assert_uint_eq(count("find . -name '.*' -type f"), 0);
	must("test $(cat web/* | wc -c) = 400000");
}
END_TEST

/* It had written the file, and its line or not, and died before it said so. */
START_TEST(what_was_written_already_is_not_written_again)
{
	char path[128];
	struct spool *s;
	heard.lost = 0;
	kill(process.pid, SIGSTOP);
	ck_assert_int_eq(put(3, 500, NULL, NULL), 0);
	kill_exporter();
	uint8_t *bytes = bytes_of(3, 500);
	ck_assert_int_eq(spool_open_take(fd_open_dir(AT_FDCWD, dir), 0, 0, &s, NULL), 0);
	/* another container of that name, of that second, with as many bytes */
	if (_i == 1)
		ck_assert_int_eq(spool_write(s, "web", START_NS, 3, "cpu", path, 500 - 400, NULL, 0, NULL), 0);
	ck_assert_int_eq(spool_write(s, "web", START_NS, 3, "cpu", bytes, 500, path, sizeof(path), NULL), 0);
	spool_close(s);
	free(bytes);
	run_until(is_lost);
	successor();
	done(1);
	ck_assert_str_eq(heard.path, path);
	ck_assert_uint_eq(count(FILES), 1 + (unsigned)_i);
	ck_assert_uint_eq(count(LINES), 1 + (unsigned)_i);
	ck_assert_uint_eq(count("grep '\"samples\":5' index.jsonl"), 1);
}
END_TEST

/* --- a worker that dies */

/* What its predecessor made as well, and heard no answer for; with more names, so other bytes. */
static void another_worker(void)
{
	const struct exporter_owner owner = {NULL, on_done, on_lost, on_state, on_listing};
	int sock = fcntl(process.sock, F_DUPFD_CLOEXEC, 0); /* of which the supervisor keeps a copy */
	ck_assert_int_ge(sock, 0);
	client = exporter_client_free(client);
	process.sock = sock;
	memset(&heard, 0, sizeof(heard));
	ck_assert_int_eq(exporter_client_new(loop, 1 << 20, &owner, &client), 0);
	ck_assert_int_eq(exporter_client_connect(client, sock), 0);
}

START_TEST(what_a_worker_made_its_successor_does_not_make_twice)
{
	if (_i == 0) {
		ck_assert_int_eq(put(7, 500, NULL, NULL), 0);
		done(1);
	} else { /* it is written later */
		kill(process.pid, SIGSTOP);
		ck_assert_int_eq(put(7, 500, NULL, NULL), 0);
	}
	another_worker();
	ck_assert_int_eq(put(7, 700, NULL, NULL), 0);
	kill(process.pid, SIGCONT);
	done(1);
	ck_assert_str_eq(heard.path, "web/20260101T000000Z-000007-cpu.pb.gz");
	ck_assert_uint_eq(heard.failed, 0);
	ck_assert_uint_eq(count(FILES), 1);
	ck_assert_uint_eq(count(LINES), 1);
	must("test $(cat web/* | wc -c) = 500");
}
END_TEST

START_TEST(what_differs_in_anything_is_another)
{
	struct export_profile p[5];
	for (unsigned i = 0; i < LENGTH(p); i++)
		p[i] = profile_of(7, 10 + i);
	strcpy(p[1].event, "cycles");
	strcpy(p[2].id, "8f2f");
	p[3].start_ns++;
	p[4].seq++;
	for (unsigned i = 0; i < LENGTH(p); i++)
		ck_assert_int_eq(exporter_write(client, &p[i], bytes_of(i, 10 + i), NULL, NULL), 0);
	done(LENGTH(p));
	ck_assert_uint_eq(count(FILES), LENGTH(p));
	ck_assert_uint_eq(count(LINES), LENGTH(p));
}
END_TEST

/* So many are remembered; one before them is another file. */
START_TEST(what_is_remembered_is_bounded)
{
	for (unsigned i = 0; i <= EXPORT_WRITTEN; i++)
		ck_assert_int_eq(put(i, 10, NULL, NULL), 0);
	done(EXPORT_WRITTEN + 1);
	another_worker();
	for (unsigned i = 1; i <= EXPORT_WRITTEN; i++)
		ck_assert_int_eq(put(i, 20, NULL, NULL), 0);
	done(EXPORT_WRITTEN);
	ck_assert_uint_eq(count(FILES), EXPORT_WRITTEN + 1);
	ck_assert_int_eq(put(0, 20, NULL, NULL), 0);
	done(EXPORT_WRITTEN + 1);
	ck_assert_uint_eq(count(FILES), EXPORT_WRITTEN + 2);
	ck_assert_uint_eq(heard.failed, 0);
}
END_TEST

/* What could not be written is tried again. */
START_TEST(what_was_lost_is_not_remembered)
{
	exporter_client_limit(client, 4096, 0);
	ck_assert_int_eq(put(7, 101, NULL, NULL), 0);
	done(1);
	ck_assert_uint_eq(heard.failed, 1);
	exporter_client_limit(client, 8192, 0);
	ck_assert_int_eq(put(7, 101, NULL, NULL), 0);
	done(2);
	ck_assert_uint_eq(heard.failed, 1);
	ck_assert_uint_eq(count(FILES), 1);
}
END_TEST

/* --- an exporter that is none: the test is it */

static int pair[2];
static union {
	struct export_head head;
	struct export_done done;
	struct export_profile profile;
	char bytes[4096];
} said;

static void setup_pair(void)
{
	begin();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(exporter_client_connect(client, pair[0]), 0);
}

static void teardown_pair(void)
{
	fd_close(pair[1]);
	teardown();
}

static const struct {
	const char *scenario;
	uint32_t magic, type;
	int size; /* beside that of its type */
	int code;
	int64_t id; /* beside that of the profile */
	const char *path;
	bool endless, fd, lost;
} answers[] = {
	{"what it should be", EXPORT_MAGIC, EXPORT_DONE, .path = "web/x"},
	{"a failure", EXPORT_MAGIC, EXPORT_DONE, .code = -EIO, .path = ""},
	{"of a profile that nobody has", EXPORT_MAGIC, EXPORT_DONE, .id = 1, .path = "web/x"},
	{"another magic", EXPORT_MAGIC + 1, EXPORT_DONE, .path = "web/x", .lost = true},
	{"another type", EXPORT_MAGIC, EXPORT_PROFILE, .path = "web/x", .lost = true},
	{"a type behind the last", EXPORT_MAGIC, 99, .path = "web/x", .lost = true},
	{"too short", EXPORT_MAGIC, EXPORT_DONE, -1, .path = "web/x", .lost = true},
	{"too long", EXPORT_MAGIC, EXPORT_DONE, 1, .path = "web/x", .lost = true},
	{"a head alone", EXPORT_MAGIC, EXPORT_DONE, -(int)(sizeof(struct export_done) - sizeof(struct export_head)),
		.path = "", .lost = true},
	{"one byte", EXPORT_MAGIC, EXPORT_DONE, 1 - (int)sizeof(struct export_done), .path = "", .lost = true},
	{"success without a path", EXPORT_MAGIC, EXPORT_DONE, .path = "", .lost = true},
	{"failure with a path", EXPORT_MAGIC, EXPORT_DONE, .code = -EIO, .path = "web/x", .lost = true},
	{"a code that is none", EXPORT_MAGIC, EXPORT_DONE, .code = 5, .path = "", .lost = true},
	{"a path without end", EXPORT_MAGIC, EXPORT_DONE, .path = "web/x", .endless = true, .lost = true},
	{"a path that leads out", EXPORT_MAGIC, EXPORT_DONE, .path = "web/../../x", .lost = true},
	{"an absolute path", EXPORT_MAGIC, EXPORT_DONE, .path = "/etc/passwd", .lost = true},
	{"a path with a newline", EXPORT_MAGIC, EXPORT_DONE, .path = "web/\n", .lost = true},
	{"a descriptor", EXPORT_MAGIC, EXPORT_DONE, .path = "web/x", .fd = true, .lost = true},
};

static bool heard_any(void)
{
	return heard.lost || heard.done;
}

START_TEST(an_exporter_may_say_anything)
{
	size_t n;
	int fd = -1, token;
	ck_assert_int_eq(put(1, 10, &token, NULL), 0);
	ck_assert_int_eq(fd_recv(pair[1], &said, sizeof(said), &fd, 1, &n), sizeof(said.profile));
	ck_assert(export_check(&said, sizeof(said.profile), 1, EXPORT_PROFILE));
	/* it is sealed: whoever has it can neither write nor cut it */
	ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	fd_close(fd);

	struct export_done d = {
		.head = {answers[_i].magic, answers[_i].type, said.profile.head.id + (uint64_t)answers[_i].id},
		.code = answers[_i].code};
	snprintf(d.path, sizeof(d.path), "%s", answers[_i].path);
	if (answers[_i].endless)
		memset(d.path, 'a', sizeof(d.path));
	char bytes[sizeof(d) + 1] = "";
	memcpy(bytes, &d, sizeof(d));
	ck_assert_int_eq(
		fd_send(pair[1], bytes, sizeof(d) + (size_t)answers[_i].size, &pair[1], answers[_i].fd ? 1 : 0), 0);
	if (answers[_i].id) /* there is nothing to be heard of it */
		turns(5);
	else
		run_until(heard_any);
	ck_assert_msg(heard.lost == answers[_i].lost, "%s", answers[_i].scenario);
	ck_assert_msg(heard.done == (!answers[_i].lost && !answers[_i].id), "%s", answers[_i].scenario);
	/* nothing is lost by it */
	if (heard.lost) {
		fd_close(pair[1]);
		pair[1] = -1;
		successor();
		done(1);
		ck_assert_uint_eq(heard.failed, 0);
		ck_assert(heard.of[0] == &token);
	}
}
END_TEST

START_TEST(an_answer_to_what_was_not_sent)
{
	size_t n;
	int fd = -1;
	for (unsigned i = 0; i <= EXPORT_SENT_MAX; i++)
		put(i, 10, NULL, NULL);
	fd_recv(pair[1], &said, sizeof(said), &fd, 1, &n);
	fd_close(fd);
	struct export_done d = {
		.head = {EXPORT_MAGIC, EXPORT_DONE, said.profile.head.id + EXPORT_SENT_MAX}, .path = "x"};
	fd_send(pair[1], &d, sizeof(d), NULL, 0);
	run_until(is_lost);
}
END_TEST

static void ask(void)
{
	static union msg m;
	struct export_ask ask = {{EXPORT_MAGIC, EXPORT_ASK, 0}};
	size_t n;
	fd_send(pair[1], &ask, sizeof(ask), NULL, 0);
	turns(1);
	while (fd_recv(pair[1], &m, sizeof(m), NULL, 0, &n) > 0)
		;
}

START_TEST(an_exporter_that_asks_without_end)
{
	fcntl(pair[1], F_SETFL, O_NONBLOCK);
	for (unsigned second = 1; second <= 3; second++) {
		for (int i = 0; i < 50; i++)
			ask();
		ck_assert_uint_eq(heard.listings, second);
		clock_move(EXPORT_LISTING_NS - 1);
		ask();
		ck_assert_uint_eq(heard.listings, second);
		clock_move(1);
	}
	ck_assert_int_eq(heard.lost, 0);
}
END_TEST

/* Exporters that end while they have it. */
START_TEST(what_every_exporter_dies_of_is_lost)
{
	size_t n;
	int fd = -1;
	put(1, 10, NULL, NULL);
	put(2, 10, NULL, NULL);
	for (unsigned i = 0; i < EXPORT_TRIES_MAX; i++) {
		ck_assert_uint_eq(heard.done, 0);
		ck_assert_int_eq(fd_recv(pair[1], &said, sizeof(said), &fd, 1, &n), sizeof(said.profile));
		ck_assert_uint_eq(said.profile.seq, 1);
		fd_close(fd);
		fd_close(pair[1]);
		heard.lost = 0;
		run_until(is_lost);
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		ck_assert_int_eq(exporter_client_connect(client, pair[0]), 0);
	}
	ck_assert_uint_eq(heard.failed, 1);
	ck_assert_str_eq(heard.why, "a profile of web is lost: 5 exporters ended while they wrote it");
	ck_assert_int_eq(fd_recv(pair[1], &said, sizeof(said), &fd, 1, &n), sizeof(said.profile));
	ck_assert_uint_eq(said.profile.seq, 2);
	fd_close(fd);
}
END_TEST

/* --- a worker that is none */

static int memfd(size_t size, bool sealed)
{
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	if (sealed)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
	return fd;
}

enum thing { SEALED, UNSEALED, SHORTER, LONGER, DIRECTORY, NOTHING, ENDLESS, TOO_LARGE, EMPTY, GARBAGE, LISTING };
static const struct {
	const char *scenario;
	enum thing thing;
	const char *name, *event, *path;
	bool lost; /* it ends for that */
} works[] = {
	{"what it should be", SEALED, "web", "cpu", "web/20260101T000000Z-000001-cpu.pb.gz", false},
	{"a name that leads out", SEALED, "../../x", "cpu", "_._.._x/20260101T000000Z-000001-cpu.pb.gz", false},
	{"a name of dots", SEALED, "..", "cpu", "_./20260101T000000Z-000001-cpu.pb.gz", false},
	{"an event that leads out", SEALED, "web", "../x", "web/20260101T000000Z-000001-_._x.pb.gz", false},
	{"a name that is the index", SEALED, "index.jsonl", "cpu", "index.jsonl/20260101T000000Z-000001-cpu.pb.gz",
		false},
	{"control characters", SEALED, "a\nb\033", "cpu", "a_b_/20260101T000000Z-000001-cpu.pb.gz", false},
	{"no UTF-8", SEALED, "a\xff\xc0", "cpu", "a__/20260101T000000Z-000001-cpu.pb.gz", false},
	{"what can be cut", UNSEALED, "web", "cpu", NULL, false},
	{"less than was said", SHORTER, "web", "cpu", NULL, false},
	{"more than was said", LONGER, "web", "cpu", NULL, false},
	{"a directory", DIRECTORY, "web", "cpu", NULL, false},
	{"no descriptor", NOTHING, "web", "cpu", NULL, true},
	{"a name without end", ENDLESS, "web", "cpu", NULL, true},
	{"more than there may be", TOO_LARGE, "web", "cpu", NULL, true},
	{"no bytes", EMPTY, "web", "cpu", NULL, true},
	{"garbage", GARBAGE, "web", "cpu", NULL, true},
	{"a listing, where nothing is served", LISTING, "web", "cpu", NULL, true},
};

static int send_thing(enum thing thing, struct export_profile *p)
{
	static union msg m = {.listing.last = 1};
	int fd = memfd(thing == SHORTER ? 9 : thing == LONGER ? 11 : 10, thing != UNSEALED);
	if (thing == DIRECTORY) {
		fd_close(fd);
		fd = fd_open_dir(AT_FDCWD, "/");
	}
	if (thing == ENDLESS)
		memset(p->name, 'a', sizeof(p->name));
	if (thing == TOO_LARGE || thing == EMPTY)
		p->bytes = thing == EMPTY ? 0 : EXPORT_PROFILE_MAX + 1ull;
	if (thing == GARBAGE)
		memset(p, 0x5a, sizeof(*p));
	int r = thing == LISTING ? msg_send(process.sock, &m, MSG_LISTING, NULL, 0)
				 : fd_send(process.sock, p, sizeof(*p), &fd, thing != NOTHING);
	fd_close(fd);
	return r;
}

START_TEST(a_worker_may_say_anything)
{
	struct export_profile p = profile_of(1, 10);
	size_t n;
	begin();
	start();
	snprintf(p.name, sizeof(p.name), "%s", works[_i].name);
	snprintf(p.event, sizeof(p.event), "%s", works[_i].event);
	p.head = (struct export_head){EXPORT_MAGIC, EXPORT_PROFILE, 77};
	ck_assert_int_eq(send_thing(works[_i].thing, &p), 0);
	ck_assert_int_eq(fd_wait(process.sock, POLLIN, INT64_MAX), 1);
	ssize_t got = fd_recv(process.sock, &said, sizeof(said), NULL, 0, &n);
	if (works[_i].lost) {
		ck_assert_msg(got == 0 || got == -ECONNRESET, "%s: %zd", works[_i].scenario, got);
	} else {
		ck_assert(export_check(&said, (size_t)got, 0, EXPORT_DONE) && said.done.head.id == 77);
		ck_assert_msg((said.done.code == 0) == !!works[_i].path, "%s: %s", works[_i].scenario, said.done.text);
		ck_assert_msg(!works[_i].path || !strcmp(said.done.path, works[_i].path), "%s", said.done.path);
	}
	ck_assert_uint_eq(count(FILES), works[_i].path ? 1 : 0);
	fd_close(process.sock);
	teardown();
}
END_TEST

/* --- pages */

static char sock_path[108];

static void listen_unix(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/http.sock", dir);
	snprintf(sock_path, sizeof(sock_path), "%s", un.sun_path);
	exporter_setup.http.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(exporter_setup.http.fd, (struct sockaddr *)&un, sizeof(un)), 0);
	ck_assert_int_eq(listen(exporter_setup.http.fd, 16), 0);
}

static void listen_port(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	exporter_setup.http.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(exporter_setup.http.fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(exporter_setup.http.fd, 16), 0);
	getsockname(exporter_setup.http.fd, (struct sockaddr *)&in, &len);
	exporter_setup.http.port = ntohs(in.sin_port);
	strcpy(exporter_setup.http.token, "0123456789abcdef0123456789abcdef");
}

static void setup_pages(void)
{
	struct err e = {0};
	begin();
	listen_unix();
	ck_assert_msg(exporter_load(&e) == 0, "%s", e.text);
	successor();
}

static int connect_to(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(exporter_setup.http.port)};
	bool port = exporter_setup.http.port;
	int fd = socket(port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", sock_path);
	int r = port ? connect(fd, (struct sockaddr *)&in, sizeof(in))
		     : connect(fd, (struct sockaddr *)&un, sizeof(un));
	ck_assert_int_eq(r, 0);
	return fd;
}

static char page[256 << 10];
static size_t page_len;
static int page_fd = -1;
static bool page_over;

static bool has_page(void)
{
	ssize_t n = recv(page_fd, page + page_len, sizeof(page) - 1 - page_len, MSG_DONTWAIT);
	if (n > 0)
		page_len += (size_t)n;
	page[page_len] = 0;
	page_over |= n == 0 || (n < 0 && errno != EAGAIN);
	return page_over;
}

static void begin_page(const char *request)
{
	page_fd = connect_to();
	page_len = 0;
	page_over = false;
	ck_assert_int_eq(fd_write_all(page_fd, request, strlen(request)), 0);
}

/* The worker's side runs meanwhile. */
static const char *end_page(void)
{
	run_until(has_page);
	page_fd = fd_close(page_fd);
	return page;
}

static const char *get(const char *request)
{
	begin_page(request);
	return end_page();
}

#define GET(url) "GET " url " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

START_TEST(metrics_of_all_targets)
{
	ck_assert_int_eq(put(1, 10, NULL, NULL), 0);
	done(1);
	const char *text = get(GET("/metrics"));
	static const char *const parts[] = {"HTTP/1.1 200 OK\r\n", "Content-Type: text/plain; version=0.0.4",
		"\npillion_worker_up 1\n", "\npillion_targets 60\n", "\npillion_profiles_written_total 1\n",
		"\npillion_spool_files 1\n", "\npillion_exporter_starts_total 1\n",
		"pillion_target_samples_total{target=\"id60\",name=\"web \\\"60\\\"\\\\\",pod=\"\",namespace=\"\"} "
		"60\n",
		"pillion_target_samples_total{target=\"id1\",name=\"web \\\"1\\\"\\\\\",pod=\"\",namespace=\"\"} 1\n",
		"pillion_hook_starts_total{outcome=\"armed\",strategy=\"cgroup\"} 3\n"};
	for (size_t i = 0; i < LENGTH(parts); i++)
		ck_assert_msg(strstr(text, parts[i]), "no %s", parts[i]);
	ck_assert_msg(strstr(get(GET("/health")), "\r\n\r\nok\n"), "%s", page);
	ck_assert_msg(
		strstr(get("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), " 200 OK"), "%s", page);
	ck_assert_ptr_null(strstr(page, "pillion_worker_up"));
}
END_TEST

START_TEST(scrapes_cost_one_listing_a_second)
{
	for (unsigned second = 1; second <= 3; second++) {
		for (int i = 0; i < 10; i++) {
			ck_assert(strstr(get(GET("/metrics")), "pillion_worker_up 1\n"));
			ck_assert_uint_eq(heard.listings, second);
			clock_move(EXPORT_LISTING_NS / 10);
		}
	}
	ck_assert_uint_eq(heard.listings, heard.states);
}
END_TEST

/* The exporter has asked the worker so often, which has not heard it yet. */
static void asked_for(int times)
{
	int bytes = 0;
	while (ioctl(process.sock, FIONREAD, &bytes) == 0 && bytes < times * (int)sizeof(struct export_ask))
		usleep(200);
	ck_assert_int_eq(bytes, times * (int)sizeof(struct export_ask));
}

static void ask_twice(int *ret)
{
	for (int i = 0; i < 2; i++) {
		ret[i] = connect_to();
		ck_assert_int_eq(fd_write_all(ret[i], GET("/metrics"), strlen(GET("/metrics"))), 0);
		asked_for(i + 1);
		clock_move(HTTP_PATIENCE_MS * NSEC_PER_MSEC);
	}
}

static bool one_listing(void)
{
	return heard.listings >= 1;
}

static bool two_listings(void)
{
	return heard.listings >= 2;
}

/* Nobody waits any more for what it says to the second one, itself or by its successor. */
START_TEST(a_worker_that_was_slow)
{
	int pages[2];
	ask_twice(pages);
	if (_i == 1)
		another_worker();
	run_until(one_listing);
	clock_move(EXPORT_LISTING_NS);
	run_until(two_listings);
	clock_move(EXPORT_LISTING_NS);
	turns(5);
	ck_assert_uint_eq(heard.listings, 2);
	ck_assert_uint_eq(heard.lost, 0);
	ck_assert_msg(strstr(get(GET("/metrics")), "\npillion_exporter_starts_total 1\n"), "%s", page);
	ck_assert_msg(strstr(page, "\npillion_targets 60\n"), "%s", page);
	fd_close(pages[0]);
	fd_close(pages[1]);
}
END_TEST

enum listing_part { STATE = 's', PAGE = 'p', LAST = 'l', LONG_STATE = 'S', OTHER = 'o', LONG_PAGE = 'P' };
static const struct {
	const char *scenario, *parts;
	bool lost;
} unasked[] = {
	{"a page", "p", false},
	{"the last page", "l", false},
	{"states", "sss", false},
	{"a listing", "sppl", false},
	{"one that is not ended, and another", "spsl", false},
	{"pages behind the last", "slpl", false},
	{"a state that is too long", "S", true},
	{"a page that is too long", "sP", true},
	{"what only others say", "so", true},
};

static int say_part(char part)
{
	static union msg m;
	struct {
		struct export_state state;
		char more;
	} s = {.state.head = {EXPORT_MAGIC, EXPORT_STATE, 0}};
	memset(&m, 0, sizeof(m));
	m.listing.last = part == LAST;
	m.listing.n = 1;
	m.listing.targets[0] = (struct target_row){
		.serial = 1, .state = LISTED_STARTED, .strategy = STRATEGY_CGROUP, .n_events = 1, .id = "id"};
	m.listing.targets[0].events[0].period = 1;
	if (part == STATE || part == LONG_STATE)
		return fd_send(process.sock, &s, sizeof(s.state) + (part == LONG_STATE), NULL, 0);
	if (part != LONG_PAGE)
		return msg_send(process.sock, &m, part == OTHER ? MSG_OK : MSG_LISTING, NULL, 0);
	m.head = (struct msg_head){PROTOCOL_MAGIC, PROTOCOL_VERSION, MSG_LISTING, sizeof(m.listing), 0};
	return fd_send(process.sock, &m, sizeof(m.listing) - 1, NULL, 0);
}

START_TEST(a_listing_that_nobody_asked_for)
{
	struct export_profile p = profile_of(1, 10);
	size_t n;
	begin();
	listen_unix();
	ck_assert_int_eq(exporter_load(NULL), 0);
	start();
	for (const char *part = unasked[_i].parts; *part; part++)
		ck_assert(say_part(*part) == 0 || unasked[_i].lost); /* it may have ended already */
	p.head = (struct export_head){EXPORT_MAGIC, EXPORT_PROFILE, 77};
	int sent = send_thing(SEALED, &p);
	ck_assert_int_eq(fd_wait(process.sock, POLLIN, INT64_MAX), 1);
	ssize_t got = fd_recv(process.sock, &said, sizeof(said), NULL, 0, &n);
	if (unasked[_i].lost)
		ck_assert_msg(got == 0 || got == -ECONNRESET, "%s: %zd", unasked[_i].scenario, got);
	else
		ck_assert_msg(sent == 0 && got > 0 && export_check(&said, (size_t)got, 0, EXPORT_DONE), "%s: %zd",
			unasked[_i].scenario, got);
	fd_close(process.sock);
	teardown();
}
END_TEST

static const struct {
	const char *scenario, *request, *answer;
} requests[] = {
	{"the list of targets", GET("/"), " 200 "},
	{"another page", GET("/another"), " 404 "},
	{"a target that is none", GET("/target/nobody/"), " 404 "},
	{"a way out of the spool", GET("/target/..%2f..%2fetc/passwd"), " 404 "},
	{"a page by another name", "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", " 403 "},
	{"a page without a name", "GET / HTTP/1.0\r\n\r\n", " 403 "},
	{"a page for another site",
		"GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n\r\n",
		" 403 "},
	{"a path", GET("/metrics/../metrics"), " 404 "},
	{"a page behind a page", GET("/metrics/x"), " 404 "},
	{"post", "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", " 405 "},
	{"put", "PUT /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", " 405 "},
	{"delete", "DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", " 405 "},
	{"a query", GET("/metrics?x=1"), " 200 "},
	{"garbage", "\x16\x03\x01\x02\r\n\r\n\r\n", ""},
};

START_TEST(others_are_refused)
{
	ck_assert_msg(strstr(get(requests[_i].request), requests[_i].answer), "%s: %s", requests[_i].scenario, page);
	ck_assert_msg(strstr(get(GET("/metrics")), " 200 "), "%s", page);
}
END_TEST

START_TEST(a_header_without_end)
{
	static char request[200 << 10];
	memset(request, 'a', sizeof(request) - 1);
	memcpy(request, "GET /metrics HTTP/1.1\r\nX: ", 26);
	page_fd = connect_to();
	send(page_fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
	page_len = 0;
	page_over = false;
	run_until(has_page);
	ck_assert_ptr_null(strstr(page, " 200 "));
	page_fd = fd_close(page_fd);
	ck_assert_msg(strstr(get(GET("/metrics")), " 200 "), "%s", page);
}
END_TEST

/*
 * They fill all places: until they have idled for too long nobody is served, and then again. (The library idles by a
 * clock of its own.)
 */
START_TEST(connections_that_say_nothing)
{
	int idle[HTTP_CONNECTIONS_MAX * 3];
	for (size_t i = 0; i < LENGTH(idle); i++)
		idle[i] = i < HTTP_CONNECTIONS_MAX + 8 ? connect_to() : -1;
	ck_assert_msg(strstr(get(GET("/metrics")), " 200 "), "%s", page);
	for (size_t i = 0; i < LENGTH(idle); i++)
		fd_close(idle[i]);
}
END_TEST

static int slow[HTTP_CONNECTIONS_MAX];

static size_t not_cut(void)
{
	size_t n = 0;
	for (size_t i = 0; i < LENGTH(slow); i++)
		n += recv(slow[i], page, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
	return n;
}

/* They fill all places, and are never idle. */
START_TEST(connections_that_say_little)
{
	for (size_t i = 0; i < LENGTH(slow); i++)
		slow[i] = connect_to();
	/* from when they are accepted, which is seen of nothing */
	for (int s = 0; not_cut(); s++) {
		ck_assert(s >= HTTP_WHOLE_S || not_cut() == LENGTH(slow));
		for (size_t i = 0; i < LENGTH(slow); i++)
			send(slow[i], "G", 1, MSG_NOSIGNAL);
		turns(2);
		clock_move(NSEC_PER_SEC);
	}
	for (size_t i = 0; i < LENGTH(slow); i++)
		fd_close(slow[i]);
	ck_assert_msg(strstr(get(GET("/metrics")), " 200 "), "%s", page);
}
END_TEST

static pid_t flood(void)
{
	pid_t pid = fork();
	while (pid == 0)
		fd_close(connect_to());
	return pid;
}

/* More of them than it can serve: it does not do that alone. */
START_TEST(connections_that_come_and_go)
{
	pid_t pids[6];
	for (size_t i = 0; i < LENGTH(pids); i++)
		pids[i] = flood();
	for (unsigned i = 0; i < full(20, 5); i++) {
		turns(40);
		ck_assert_int_eq(put(i, 10, NULL, NULL), 0);
		done(i + 1);
	}
	for (size_t i = 0; i < LENGTH(pids); i++) {
		kill(pids[i], SIGKILL);
		ck_assert(ends(pids[i]));
	}
	ck_assert_msg(strstr(get(GET("/metrics")), " 200 "), "%s", page);
}
END_TEST

START_TEST(a_worker_that_does_not_answer)
{
	int gone[2]; /* its answers go nowhere */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gone), 0);
	client = exporter_client_free(client); /* ends the exporter */
	ck_assert(ends(process.pid));
	start();
	begin_page(GET("/metrics"));
	asked_for(1);
	clock_move(HTTP_PATIENCE_MS * NSEC_PER_MSEC - 1);
	turns(20);
	ck_assert(!has_page() && !page_len);
	clock_move(1);
	ck_assert_msg(strstr(end_page(), "\npillion_worker_up 0\n"), "%s", page);
	ck_assert_ptr_null(strstr(page, "pillion_targets "));
	ck_assert_ptr_nonnull(strstr(page, "\npillion_spool_files 0\n"));
	begin_page(GET("/health"));
	asked_for(2);
	clock_move(HTTP_PATIENCE_MS * NSEC_PER_MSEC);
	ck_assert_msg(strstr(end_page(), " 503 "), "%s", page);
	fd_close(process.sock);
	fd_close(gone[0]);
	fd_close(gone[1]);
}
END_TEST

static const struct {
	const char *scenario, *host, *token;
	int status;
} callers[] = {
	{"as it should be", "127.0.0.1:PORT", "Bearer 0123456789abcdef0123456789abcdef", 200},
	{"by name", "localhost:PORT", "Bearer 0123456789abcdef0123456789abcdef", 200},
	{"without the port", "localhost", "bearer 0123456789abcdef0123456789abcdef", 200},
	{"a page in a browser, whose name leads here", "evil.example:PORT", "Bearer 0123456789abcdef0123456789abcdef",
		403},
	{"a name that begins as ours", "localhost.evil.example", "Bearer 0123456789abcdef0123456789abcdef", 403},
	{"another port", "127.0.0.1:1", "Bearer 0123456789abcdef0123456789abcdef", 403},
	{"no token", "localhost", NULL, 401},
	{"another token", "localhost", "Bearer 0123456789abcdef0123456789abcdeF", 401},
	{"a shorter token", "localhost", "Bearer 0", 401},
	{"an empty token", "localhost", "Bearer ", 401},
	{"another kind", "localhost", "Basic 0123456789abcdef0123456789abcdef", 401},
};

START_TEST(on_a_port_it_asks_who)
{
	char request[512], host[64], status[16];
	const char *port = strstr(callers[_i].host, "PORT");
	begin();
	listen_port();
	ck_assert_int_eq(exporter_load(NULL), 0);
	successor();
	snprintf(host, sizeof(host), "%.*s", port ? (int)(port - callers[_i].host) : 60, callers[_i].host);
	if (port)
		snprintf(host + strlen(host), sizeof(host) - strlen(host), "%u", exporter_setup.http.port);
	snprintf(request, sizeof(request), "GET /metrics HTTP/1.1\r\nHost: %s\r\n%s%s%sConnection: close\r\n\r\n", host,
		callers[_i].token ? "Authorization: " : "", callers[_i].token ? callers[_i].token : "",
		callers[_i].token ? "\r\n" : "");
	snprintf(status, sizeof(status), " %d ", callers[_i].status);
	ck_assert_msg(strstr(get(request), status), "%s: %s", callers[_i].scenario, page);
	teardown();
}
END_TEST

START_TEST(it_serves_after_its_predecessor_was_killed)
{
	ck_assert(strstr(get(GET("/metrics")), " 200 "));
	kill_exporter();
	run_until(is_lost);
	successor();
	clock_move(EXPORT_LISTING_NS);
	ck_assert_msg(strstr(get(GET("/metrics")), "\npillion_exporter_starts_total 2\n"), "%s", page);
}
END_TEST

UNIT_SUITE(exporter)
{
	Suite *s = suite_create("exporter");
	TCase *t = tcase_create("writing"), *p = tcase_create("an exporter that is none"),
	      *w = tcase_create("a worker that is none"), *h = tcase_create("pages");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_profile_is_written_and_its_path_told);
	tcase_add_test(t, without_a_name_it_is_the_id);
	tcase_add_test(t, containers_of_one_name_lie_with_their_pods);
	tcase_add_test(t, many_at_once_come_in_their_order);
	tcase_add_test(t, it_can_do_little);
	tcase_add_test(t, a_reason_comes_with_what_is_lost);
	tcase_add_test(t, a_spool_that_is_away_and_back);
	tcase_add_test(t, who_does_not_answer_holds_up_nobody);
	tcase_add_test(t, small_ones_are_bounded_too);
	tcase_add_test(t, one_that_is_larger_than_all_is_taken_alone);
	tcase_add_test(t, a_target_that_is_forgotten);
	tcase_add_test(t, the_end_hands_over_what_is_left);
	tcase_add_test(t, a_signal_that_ends_services_does_not_end_it);
	tcase_add_test(t, killed_at_any_moment);
	tcase_add_loop_test(t, what_was_written_already_is_not_written_again, 0, 2);
	tcase_add_loop_test(t, what_a_worker_made_its_successor_does_not_make_twice, 0, 2);
	tcase_add_test(t, what_differs_in_anything_is_another);
	tcase_add_test(t, what_is_remembered_is_bounded);
	tcase_add_test(t, what_was_lost_is_not_remembered);
	suite_add_tcase(s, t);
	tcase_set_timeout(p, 30);
	tcase_add_checked_fixture(p, setup_pair, teardown_pair);
	tcase_add_loop_test(p, an_exporter_may_say_anything, 0, LENGTH(answers));
	tcase_add_test(p, an_answer_to_what_was_not_sent);
	tcase_add_test(p, an_exporter_that_asks_without_end);
	tcase_add_test(p, what_every_exporter_dies_of_is_lost);
	suite_add_tcase(s, p);
	tcase_set_timeout(w, 30);
	tcase_add_loop_test(w, a_worker_may_say_anything, 0, LENGTH(works));
	tcase_add_test(w, ages_count_while_nothing_is_written);
	tcase_add_loop_test(w, a_listing_that_nobody_asked_for, 0, LENGTH(unasked));
	tcase_add_loop_test(w, on_a_port_it_asks_who, 0, LENGTH(callers));
	suite_add_tcase(s, w);
	tcase_set_timeout(h, 30);
	tcase_add_checked_fixture(h, setup_pages, teardown);
	tcase_add_test(h, metrics_of_all_targets);
	tcase_add_test(h, scrapes_cost_one_listing_a_second);
	tcase_add_loop_test(h, a_worker_that_was_slow, 0, 2);
	tcase_add_loop_test(h, others_are_refused, 0, LENGTH(requests));
	tcase_add_test(h, a_header_without_end);
	tcase_add_test(h, connections_that_say_nothing);
	tcase_add_test(h, connections_that_say_little);
	tcase_add_test(h, connections_that_come_and_go);
	tcase_add_test(h, a_worker_that_does_not_answer);
	tcase_add_test(h, it_serves_after_its_predecessor_was_killed);
	suite_add_tcase(s, h);
	return s;
}
