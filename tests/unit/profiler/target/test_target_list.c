/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_list.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "profiler/daemon/worker.h"
#include "profiler/target/target.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fds;
static struct engine engine;
static struct worker *worker;
static int client;
static union msg msg;

/* --- a service of targets that nobody ever registered: no events, no processes */

static struct target *put_target(const char *id)
{
	struct target *t = calloc(1, sizeof(*t));
	ck_assert_ptr_nonnull(t);
	t->engine = &engine;
	t->serial = ++engine.last_serial;
	t->born = clock_now();
	t->watch.pidfd = t->fs.tree = t->usage.cgroup = t->fs.exe = t->usage.events = t->usage.cpu_stat = -1;
	strncpy(t->desc.id, id, sizeof(t->desc.id) - 1);
	t->desc.strategy = STRATEGY_CGROUP;
	t->desc.n_events = 1;
	t->desc.events[0].period = 10101010;
	ck_assert_int_eq(aggregate_new(&t->sampling.counts[0]), 0);
	t->next = engine.targets;
	engine.targets = t;
	engine.n_targets++;
	return t;
}

static void drop_target(struct target *t)
{
	struct target **at = &engine.targets;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	engine.n_targets--;
	aggregate_free(t->sampling.counts[0]);
	free(t);
}

static void put_targets(int n)
{
	char id[16];
	for (int i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		put_target(id);
	}
}

static struct clock_driven leaping = {.leaps = true};

static bool begin_service(void)
{
	struct err e = {0};
	char note[160];
	int s[2];
	fds = fd_count();
	static struct crash_marker nobody_looks;
	engine = (struct engine){
		.host.at = &nobody_looks, .symbols.kallsyms_fd = -1, .host.channel = -1, .spool.path = "/spool"};
	engine.host.statm = fd_open(AT_FDCWD, "/proc/self/statm", O_RDONLY, 0);
	if (cpu_rings_open(&engine.perf.rings, note, sizeof(note), &e) < 0)
		return skip(e.text), false;
	clock_drive(&leaping);
	ck_assert_int_eq(event_loop_new(&engine.loop), 0);
	ck_assert_int_eq(worker_new(&engine, &worker), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	client = s[0];
	ck_assert_int_eq(worker_serve(worker, s[1], 0), 0);
	return true;
}

static void end_service(void)
{
	fd_close(client);
	worker_free(worker);
	while (engine.targets)
		drop_target(engine.targets);
	event_loop_free(engine.loop);
	cpu_rings_close(engine.perf.rings);
	fd_close(engine.host.statm);
	clock_drive(NULL);
	ck_assert_int_eq(fd_count(), fds);
}

/* --- what one of them says */

START_TEST(one_target)
{
	if (!begin_service())
		return;
	struct target *t = put_target("c1");
	struct msg_listing *m = &msg.listing;
	struct target_row *l = &m->targets[0];
	target_list_fill(&engine, UINT64_MAX, m);
	ck_assert(m->n == 1 && m->last && !strcmp(m->spool, "/spool"));
	ck_assert_uint_eq(l->state, LISTED_REGISTERED);
	ck_assert_uint_eq(l->cpu_us, LISTED_UNKNOWN);
	ck_assert_uint_eq(l->window_ms, 0);
	ck_assert_uint_ge(l->memory, sizeof(*t));
	t->armed = true;
	t->born -= 5 * NSEC_PER_SEC;
	t->usage.cpu_first = 1000;
	t->usage.cpu_last = 51000;
	t->sampling.samples = 30;
	t->sampling.tally.samples = 20;
	t->window.past.lost = 5;
	t->sampling.tally.lost_shared = 6;
	t->window.past.throttled = 1;
	t->sampling.tally.throttled = 2;
	t->sampling.cost = 7000000;
	t->names.spent = 8000000;
	t->sampling.records = 40;
	t->sampling.bytes = 5000;
	t->sampling.rate.cap.factor = 4.2;
	engine.rates.allowance.factor = 2;
	strcpy(t->spool.last_profile, "c1/x.pb.gz");
	target_list_fill(&engine, UINT64_MAX, m);
	ck_assert_uint_eq(l->state, LISTED_ARMED);
	ck_assert_uint_eq(l->cpu_us, 50000);
	ck_assert(l->age_ms >= 5000 && l->age_ms < 15000);
	ck_assert(l->samples == 30 && l->window_samples == 20 && l->lost == 5 && l->lost_shared == 6 &&
		  l->throttled == 3);
	ck_assert(l->records == 40 && l->bytes == 5000 && l->capped == 420 && l->lowered == 200);
	ck_assert(l->cost_us == 7000 && l->naming_us == 8000 && !strcmp(l->profile, "c1/x.pb.gz"));
	t->sampling.started = true;
	t->sampling.window_mono = clock_now() - 2 * NSEC_PER_SEC;
	target_list_fill(&engine, UINT64_MAX, m);
	ck_assert_uint_eq(l->state, LISTED_STARTED);
	ck_assert(l->window_ms >= 2000 && l->window_ms < 12000);
	t->ending = true;
	target_list_fill(&engine, UINT64_MAX, m);
	ck_assert_uint_eq(l->state, LISTED_ENDING);
	end_service();
}
END_TEST

START_TEST(the_sums)
{
	if (!begin_service())
		return;
	put_targets(3);
	engine.perf.records = 100;
	engine.perf.unknown = 2;
	engine.n_events = 50;
	engine.refused = 7;
	engine.limits.fds = 77;
	engine.tables.used = 8000;
	engine.rates.allowed = 20000000;
	engine.rates.allowance.spent[5] = (struct cpu_budget_cost){700000000, 200000000};
	target_list_fill(&engine, UINT64_MAX, &msg.listing);
	const struct target_totals *s = &msg.listing.sums;
	ck_assert(s->targets == 3 && s->records == 100 && s->unknown == 2);
	ck_assert(s->refused == 7 && s->table_bytes == 8000 && s->minute_us == 900000 && s->allowed_us == 1200000);
	ck_assert_uint_eq(msg.listing.sampling_us, 700000);
	ck_assert_uint_eq(s->rings, cpu_rings_count(engine.perf.rings));
	ck_assert_uint_eq(s->ring_bytes, cpu_rings_size(engine.perf.rings));
	ck_assert_uint_eq(s->fds, s->rings + 50 + 3 * 6);
	ck_assert_uint_gt(s->memory, 100000);
	ck_assert_uint_eq(s->fds_max, 77);
	engine.limits.fds = 0;
	target_list_fill(&engine, UINT64_MAX, &msg.listing);
	ck_assert_uint_gt(s->fds_max, 77);
	engine.n_events = 0;
	end_service();
}
END_TEST

/* --- pages */

static const int counts[] = {0, 1, PROTOCOL_LISTED_MAX - 1, PROTOCOL_LISTED_MAX, PROTOCOL_LISTED_MAX + 1, 300, 1000};

struct reading {
	int n, pages, rounds; /* targets and pages that came; turns of the loop */
	uint64_t last_serial;
	bool over, drop; /* drop: the latest target of those still to come goes after each page */
	int64_t until;	 /* read nothing, and stop then */
};

static void read_page(struct reading *d)
{
	struct err e = {0};
	struct msg_listing *m = &msg.listing;
	int r = msg_answer(client, deadline_in(0), &msg, MSG_LISTING, &e);
	if (r == -ETIMEDOUT)
		return;
	ck_assert_msg(r == 0, "%s", e.text);
	for (uint32_t i = 0; i < m->n; i++) {
		ck_assert_uint_lt(m->targets[i].serial, d->last_serial);
		d->last_serial = m->targets[i].serial;
	}
	d->n += (int)m->n;
	d->pages++;
	d->over = m->last;
}

static int turn(void *arg)
{
	struct reading *d = arg;
	d->rounds++;
	if (!d->until)
		read_page(d);
	if (d->drop && d->pages == 1) { /* those next, one of those before, and a new one */
		struct target *t = engine.targets;
		while (t->serial >= d->last_serial)
			t = t->next;
		drop_target(t->next);
		drop_target(t);
		drop_target(engine.targets);
		put_target("new");
		d->drop = false;
	}
	if (d->over || (d->until && clock_now() > d->until))
		event_loop_stop(engine.loop);
	worker_round(worker);
	return 20;
}

static void ask(struct reading *d)
{
	struct err e = {0};
	memset(&msg, 0, sizeof(msg));
	d->last_serial = UINT64_MAX;
	ck_assert_int_eq(msg_tell(client, &msg, MSG_LIST, NULL, 0, &e), 0);
	ck_assert_int_eq(event_loop_run(engine.loop, turn, d), 0);
}

START_TEST(all_are_listed_in_as_many_pages_as_it_takes)
{
	struct reading d = {0};
	int n = counts[_i];
	if (!begin_service())
		return;
	put_targets(n);
	ask(&d);
	ck_assert_int_eq(d.n, n);
	ck_assert_int_eq(d.pages, n ? (n + PROTOCOL_LISTED_MAX - 1) / PROTOCOL_LISTED_MAX : 1);
	ck_assert_uint_eq(msg.listing.sums.targets, (unsigned)n);
	ck_assert_uint_eq(worker_connections(worker), 0); /* it hangs up */
	end_service();
}
END_TEST

START_TEST(targets_that_come_and_go_meanwhile)
{
	struct reading d = {.drop = true};
	if (!begin_service())
		return;
	put_targets(1000);
	/* a page in flight was made before: so what goes is what comes far behind */
	ask(&d);
	ck_assert_int_le(d.n, 1000);
	ck_assert_int_ge(d.n, 998);
	ck_assert_uint_eq(msg.listing.sums.targets, 998);
	end_service();
}
END_TEST

START_TEST(a_peer_that_never_reads_costs_no_turns)
{
	struct reading d = {.until = clock_now() + NSEC_PER_SEC / 2};
	if (!begin_service())
		return;
	put_targets(1000);
	ck_assert_int_eq(msg_tell(client, &msg, MSG_LIST, NULL, 0, NULL), 0); /* and it asks on and on */
	ask(&d);
	ck_assert_int_lt(d.rounds, 60); /* 25 of waiting, and some pages */
	ck_assert_uint_eq(worker_connections(worker), 1);
	end_service();
}
END_TEST

START_TEST(a_peer_that_leaves_after_a_page)
{
	struct reading d = {.until = clock_now() + NSEC_PER_SEC / 10};
	if (!begin_service())
		return;
	put_targets(1000);
	ask(&d);
	client = fd_close(client);
	d.rounds = 0;
	d.until = clock_now() + NSEC_PER_SEC / 10;
	ck_assert_int_eq(event_loop_run(engine.loop, turn, &d), 0);
	ck_assert_uint_eq(worker_connections(worker), 0);
	ck_assert_int_lt(d.rounds, 20); /* nobody makes the 30 pages that are left */
	end_service();
}
END_TEST

START_TEST(who_asks_for_lists_registers_nothing)
{
	struct reading d = {.until = clock_now() + NSEC_PER_SEC / 10};
	struct err e = {0};
	if (!begin_service())
		return;
	memset(&msg, 0, sizeof(msg));
	ck_assert_int_eq(msg_tell(client, &msg, MSG_STOP, NULL, 0, &e), 0);
	ck_assert_int_eq(event_loop_run(engine.loop, turn, &d), 0);
	ck_assert_int_eq(msg_answer(client, deadline_in(0), &msg, MSG_LISTING, &e), -EPROTO);
	ck_assert_ptr_nonnull(strstr(e.text, "was not expected here"));
	end_service();
}
END_TEST

UNIT_SUITE(target_list)
{
	Suite *s = suite_create("target_list");
	TCase *t = tcase_create("target_list");

	tcase_set_timeout(t, 30);
	tcase_add_test(t, one_target);
	tcase_add_test(t, the_sums);
	tcase_add_loop_test(t, all_are_listed_in_as_many_pages_as_it_takes, 0, sizeof(counts) / sizeof(counts[0]));
	tcase_add_test(t, targets_that_come_and_go_meanwhile);
	tcase_add_test(t, a_peer_that_never_reads_costs_no_turns);
	tcase_add_test(t, a_peer_that_leaves_after_a_page);
	tcase_add_test(t, who_asks_for_lists_registers_nothing);
	suite_add_tcase(s, t);
	return s;
}
