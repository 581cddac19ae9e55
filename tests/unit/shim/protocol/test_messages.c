/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/messages.h"

#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define TASKS_SIZE(n) (offsetof(struct msg_tasks, tasks) + (n) * sizeof(struct task_desc))
#define LISTING_SIZE(n) (offsetof(struct msg_listing, targets) + (n) * sizeof(struct target_row))
#define EVENTS_SIZE(n) (offsetof(struct msg_events, events) + (n) * sizeof(struct event_desc))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

/* --- one good message of every type */

static void fill_target(union msg *m)
{
	struct target_desc *d = &m->target.desc;
	strncpy(d->id, "c1", sizeof(d->id) - 1);
	memset(d->name, 'n', sizeof(d->name) - 1); /* as long as it may be */
	d->init_pid = 1;
	d->host_pid = 4242;
	d->start_time = 77;
	d->fds = TARGET_PIDFD | TARGET_TREE;
	d->strategy = STRATEGY_CGROUP;
	d->window_s = 60;
	d->n_labels = 2;
	for (uint32_t i = 0; i < d->n_labels; i++)
		d->labels[i] = (struct label){"team", "web"};
	d->n_events = 2;
	d->events[0] = (struct event_spec){.kind = 0, .period = 10101010};
	d->events[1] = (struct event_spec){.kind = 1, .period = 100};
}

static void fill_events(union msg *m)
{
	m->events.n = m->events.total = 2;
	m->events.events[0] = (struct event_desc){.role = PERF_SIDEBAND};
	m->events.events[1] =
		(struct event_desc){.role = PERF_SAMPLES, .spec = 1, .cpu = 3, .layout.stack_user = 65528};
}

static void fill_refuse(union msg *m)
{
	m->refuse.code = -EACCES;
	strncpy(m->refuse.text, "no", sizeof(m->refuse.text) - 1);
}

static void fill_stop(union msg *m)
{
	memset(m->stop.id, 'i', sizeof(m->stop.id) - 1);
}

static void fill_outcome(union msg *m)
{
	m->outcome.outcome = HOOK_ARMED;
	m->outcome.strategy = STRATEGY_CGROUP;
	m->outcome.us = 1500;
}

static void fill_tasks(union msg *m)
{
	m->tasks.n = 3;
	m->tasks.last = 1;
	m->tasks.tasks[0] = (struct task_desc){.pid = 1, .tid = 1, .has_maps = 1, .name = "init"};
	m->tasks.tasks[1] = (struct task_desc){.pid = 1, .tid = 2, .name = "fifteen letters"};
	m->tasks.tasks[2] = (struct task_desc){.pid = 3, .tid = 3, .has_maps = 1};
}

static void fill_ended(union msg *m)
{
	m->ended.samples = 12;
	strncpy(m->ended.profile, "/p", sizeof(m->ended.profile) - 1);
}

static void fill_listing(union msg *m)
{
	m->listing.n = 2;
	m->listing.last = 1;
	memset(m->listing.spool, '/', sizeof(m->listing.spool) - 1);
	for (int i = 0; i < 2; i++) {
		struct target_row *t = &m->listing.targets[i];
		strncpy(t->id, "c1", sizeof(t->id) - 1);
		t->state = LISTED_REGISTERED + (uint32_t)i;
		t->strategy = STRATEGY_THREADS;
		t->n_events = 1;
		t->events[0].period = 10101010;
	}
}

static void fill_nothing(union msg *m) {}

static const struct kind {
	enum msg_type type;
	size_t size, n_fds;
	void (*fill)(union msg *m);
} kinds[] = {
	{MSG_HELLO, sizeof(struct msg_hello), 0, fill_nothing},
	{MSG_WELCOME, sizeof(struct msg_welcome), 0, fill_nothing},
	{MSG_REFUSE, sizeof(struct msg_refuse), 0, fill_refuse},
	{MSG_TARGET, sizeof(struct msg_target), 2, fill_target},
	{MSG_EVENTS, EVENTS_SIZE(2), 2, fill_events},
	{MSG_OK, sizeof(struct msg_ok), 0, fill_nothing},
	{MSG_STOP, sizeof(struct msg_stop), 0, fill_stop},
	{MSG_TASKS, TASKS_SIZE(3), 2, fill_tasks},
	{MSG_ENDED, sizeof(struct msg_ended), 0, fill_ended},
	{MSG_LIST, sizeof(struct msg_list), 0, fill_nothing},
	{MSG_LISTING, LISTING_SIZE(2), 0, fill_listing},
	{MSG_OUTCOME, sizeof(struct msg_outcome), 0, fill_outcome},
	{MSG_REMAP, sizeof(struct msg_remap), 0, fill_nothing},
};
_Static_assert(LENGTH(kinds) == MSG_TYPES - 1, "every type has its row");

static const struct kind *good(enum msg_type type, union msg *m)
{
	const struct kind *k = &kinds[type - 1];
	memset(m, 0, sizeof(*m));
	k->fill(m);
	m->head = (struct msg_head){
		PROTOCOL_MAGIC, PROTOCOL_VERSION, (uint16_t)type, (uint32_t)k->size, (uint32_t)k->n_fds};
	return k;
}

/* As received into memory that ends where the datagram did. */
static int check(const union msg *m, size_t size, size_t n_fds, struct err *e)
{
	union msg *exact = malloc(size ? size : 1);
	memcpy(exact, m, size);
	int r = msg_check(exact, size, n_fds, e);
	free(exact);
	return r;
}

START_TEST(good_ones_pass)
{
	static union msg m;
	struct err e = {0};
	const struct kind *k = good(kinds[_i].type, &m);
	ck_assert_uint_eq(k->type, (unsigned)_i + 1);
	ck_assert_msg(check(&m, k->size, k->n_fds, &e) == 0, "type %d: %s", _i + 1, e.text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* What a service answers to a greeting, and with it what may come behind. */
static const struct {
	const char *name;
	unsigned version;
	uint32_t flags;
	unsigned answer;
} greetings[] = {
	{"one of version 2, which says no more", 2, 0, 2},
	{"the same, without perf events", 2, HELLO_NO_PERF, 2},
	{"ours", 2, HELLO_SPEAKS(PROTOCOL_VERSION), PROTOCOL_VERSION},
	{"ours, without perf events", 2, HELLO_SPEAKS(PROTOCOL_VERSION) | HELLO_NO_PERF, PROTOCOL_VERSION},
	{"one of the next version, which can be older", 2, HELLO_SPEAKS(PROTOCOL_VERSION + 1), PROTOCOL_VERSION},
	{"one that says it in the head", 3, 0, 3},
	{"one that says less than its head", 3, HELLO_SPEAKS(1), 3},
};

START_TEST(the_lesser_version_is_spoken)
{
	static union msg m;
	struct err e = {0};
	size_t n;
	int s[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	m.hello =
		(struct msg_hello){.head = {.version = (uint16_t)greetings[_i].version}, .flags = greetings[_i].flags};
	ck_assert_int_eq(msg_welcome(s[0], &m.hello, &(struct msg_welcome){.batch_max = 7, .events_max = 9}), 0);
	ck_assert_int_eq(msg_recv(s[1], clock_now() + NSEC_PER_SEC, &m, NULL, 0, &n, &e), 0);
	ck_assert_msg(m.head.version == greetings[_i].answer, "%s: %u", greetings[_i].name, m.head.version);
	ck_assert(m.head.type == MSG_WELCOME && m.welcome.batch_max == 7 && m.welcome.events_max == 9);
	fd_close(s[0]);
	fd_close(s[1]);
}
END_TEST

/* So that one of the version before takes it: all but a target with what it does not know. */
START_TEST(a_message_says_the_lowest_version_that_knows_it)
{
	static union msg m;
	int s[2], got[FD_PASS_MAX];
	size_t n;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	const struct kind *k = good(kinds[_i].type, &m);
	fd_auto null = fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0);
	const int given[] = {null, null, null};
	for (int files = 0; files <= (k->type == MSG_TARGET); files++) {
		if (files)
			m.target.desc.fds |= TARGET_FILES;
		ck_assert_int_eq(msg_send(s[0], &m, k->type, given, k->n_fds + (size_t)files), 0);
		ck_assert_int_gt(fd_recv(s[1], &m, sizeof(m), got, FD_PASS_MAX, &n), 0);
		while (n)
			fd_close(got[--n]);
		ck_assert_uint_eq(m.head.version, files ? PROTOCOL_FILES : PROTOCOL_OLDEST);
	}
	fd_close(s[0]);
	fd_close(s[1]);
}
END_TEST

START_TEST(cut_anywhere_or_longer_they_do_not)
{
	static union msg m;
	const struct kind *k = good(kinds[_i].type, &m);
	for (size_t size = 0; size < k->size; size++) {
		ck_assert_msg(check(&m, size, k->n_fds, NULL) == -EPROTO, "type %d, %zu bytes", _i + 1, size);
		if (size >= sizeof(m.head)) { /* also when the head says so itself */
			m.head.size = (uint32_t)size;
			ck_assert_msg(check(&m, size, k->n_fds, NULL) == -EPROTO, "type %d, %zu bytes", _i + 1, size);
			m.head.size = (uint32_t)k->size;
		}
	}
	m.head.size = (uint32_t)k->size + 8;
	ck_assert_int_eq(check(&m, k->size + 8, k->n_fds, NULL), -EPROTO);
	ck_assert_int_eq(check(&m, k->size, k->n_fds, NULL), -EPROTO);
	m.head.size = UINT32_MAX;
	ck_assert_int_eq(check(&m, k->size, k->n_fds, NULL), -EPROTO);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(descriptors_are_as_many_as_announced_and_wanted)
{
	static union msg m;
	const struct kind *k = good(kinds[_i].type, &m);
	for (size_t n = 0; n <= FD_PASS_MAX; n++) {
		m.head.fds = (uint32_t)k->n_fds;
		ck_assert_int_eq(check(&m, k->size, n, NULL), n == k->n_fds ? 0 : -EPROTO);
		m.head.fds = (uint32_t)n;
		ck_assert_int_eq(check(&m, k->size, n, NULL), n == k->n_fds ? 0 : -EPROTO);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

#define SPEAK "the peer does not speak pillion's protocol"
#define END_LESS "a text without end"
#define AT(x) offsetof(union msg, x), sizeof(((union msg *)0)->x)
#define DESC(x) AT(target.desc.x)

/* One field of a good message filled with a byte, or (width <= 8) with a number. */
static const struct {
	const char *scenario;
	enum msg_type type;
	size_t offset, width;
	uint64_t value;
	const char *sentence; /* a part of it; NULL: still good */
} hostile[] = {
	{"another magic", MSG_HELLO, AT(head.magic), 0x6e6c6c71, SPEAK},
	{"the magic of another byte order", MSG_HELLO, AT(head.magic), 0x706c6c6e, SPEAK},
	{"version 0", MSG_HELLO, AT(head.version), 0, "speaks protocol version 0, we speak"},
	{"a newer version", MSG_HELLO, AT(head.version), PROTOCOL_VERSION + 1, "install one version of both"},
	{"a much newer version", MSG_TARGET, AT(head.version), 0xffff, "speaks protocol version 65535"},
	{"type 0", MSG_OK, AT(head.type), 0, "unknown message type 0"},
	{"the type behind the last", MSG_OK, AT(head.type), MSG_TYPES, "unknown message type"},
	{"the last type of all", MSG_OK, AT(head.type), 0xffff, "unknown message type 65535"},
	{"one type's size under another's name", MSG_OK, AT(head.type), MSG_STOP, "has a wrong size"},
	{"any budget", MSG_HELLO, AT(hello.budget_ms), UINT32_MAX, NULL},
	{"a refusal without an error", MSG_REFUSE, AT(refuse.code), 0, "message type 3 has"},
	{"a refusal that is a success", MSG_REFUSE, AT(refuse.code), 13, "message type 3 has"},
	{"a refusal without end", MSG_REFUSE, AT(refuse.text), 'a', END_LESS},
	{"a stop without end", MSG_STOP, AT(stop.id), 'a', END_LESS},
	{"no outcome", MSG_OUTCOME, AT(outcome.outcome), 0, "an unknown outcome"},
	{"an outcome behind the last", MSG_OUTCOME, AT(outcome.outcome), HOOK_OUTCOMES, "an unknown outcome"},
	{"armed by no strategy", MSG_OUTCOME, AT(outcome.strategy), 0, "an unknown strategy"},
	{"armed by a strategy behind the last", MSG_OUTCOME, AT(outcome.strategy), STRATEGY_TIMERS + 1,
		"an unknown strategy"},
	{"a strategy of what was not armed", MSG_OUTCOME, AT(outcome.outcome), HOOK_UNPROFILED, "an unknown strategy"},
	{"any time", MSG_OUTCOME, AT(outcome.us), UINT32_MAX, NULL},
	{"an id without end", MSG_TARGET, DESC(id), 'a', END_LESS},
	{"no id", MSG_TARGET, DESC(id), 0, "no id"},
	{"a name without end", MSG_TARGET, DESC(name), 'a', END_LESS},
	{"a pod without end", MSG_TARGET, DESC(pod), 'a', END_LESS},
	{"a namespace without end", MSG_TARGET, DESC(pod_namespace), 'a', END_LESS},
	{"a service without end", MSG_TARGET, DESC(service), 'a', END_LESS},
	{"a cgroup without end", MSG_TARGET, DESC(cgroup), 'a', END_LESS},
	{"notes without end", MSG_TARGET, DESC(notes), 'a', END_LESS},
	{"no name at all", MSG_TARGET, DESC(name), 0, NULL},
	{"an init of pid 0", MSG_TARGET, DESC(init_pid), 0, "out of range"},
	{"a negative init", MSG_TARGET, DESC(init_pid), UINT32_MAX, "out of range"},
	{"a host pid of 0", MSG_TARGET, DESC(host_pid), 0, "out of range"},
	{"a negative host pid", MSG_TARGET, DESC(host_pid), 0x80000000, "out of range"},
	{"a window of 0", MSG_TARGET, DESC(window_s), 0, "out of range"},
	{"a window of an hour", MSG_TARGET, DESC(window_s), 3600, NULL},
	{"a window beyond an hour", MSG_TARGET, DESC(window_s), 3601, "out of range"},
	{"no strategy", MSG_TARGET, DESC(strategy), 0, "an unknown strategy"},
	{"a strategy behind the last", MSG_TARGET, DESC(strategy), STRATEGY_TIMERS + 1, "an unknown strategy"},
	{"timers, and no socket for the program", MSG_TARGET, DESC(strategy), STRATEGY_TIMERS, "nobody could hear"},
	{"no pidfd among the descriptors", MSG_TARGET, DESC(fds), TARGET_TREE | TARGET_CGROUP,
		"descriptors that do not"},
	{"one descriptor more named", MSG_TARGET, DESC(fds), 7, "descriptors that do not match"},
	{"one descriptor less named", MSG_TARGET, DESC(fds), TARGET_PIDFD, "descriptors that do not match"},
	{"another second descriptor", MSG_TARGET, DESC(fds), TARGET_PIDFD | TARGET_EXE, NULL},
	{"a descriptor nobody knows", MSG_TARGET, DESC(fds), TARGET_PIDFD | 1 << TARGET_FDS_ALL,
		"descriptors that do not match"},
	{"the highest descriptor bit", MSG_TARGET, DESC(fds), 0x80000001, "descriptors that do not match"},
	{"no labels", MSG_TARGET, DESC(n_labels), 0, NULL},
	{"all labels", MSG_TARGET, DESC(n_labels), LABELS_MAX, NULL},
	{"more labels than there is room", MSG_TARGET, DESC(n_labels), LABELS_MAX + 1, "too many labels"},
	{"labels without number", MSG_TARGET, DESC(n_labels), UINT32_MAX, "too many labels"},
	{"a key without end", MSG_TARGET, DESC(labels[1].key), 'a', "a label without end"},
	{"a value without end", MSG_TARGET, DESC(labels[1].value), 'a', "a label without end"},
	{"rubbish behind the labels", MSG_TARGET, DESC(labels[2]), 0xff, NULL},
	{"no events", MSG_TARGET, DESC(n_events), 0, "too many labels or events"},
	{"more events than there is room", MSG_TARGET, DESC(n_events), EVENTS_MAX + 1, "too many labels or events"},
	{"more events than were filled in", MSG_TARGET, DESC(n_events), 3, "an unknown event"},
	{"an event nobody knows", MSG_TARGET, DESC(events[1].kind), 200, "an unknown event"},
	{"an event's name without end", MSG_TARGET, DESC(events[1].name), 'a', "an unknown event"},
	{"an event far behind the table", MSG_TARGET, DESC(events[0].kind), UINT32_MAX, "an unknown event"},
	{"a period of 0", MSG_TARGET, DESC(events[0].period), 0, "an unknown event"},
	{"no events in a batch", MSG_EVENTS, AT(events.n), 0, "a count that does not match"},
	{"fewer events than there are", MSG_EVENTS, AT(events.n), 1, "a count that does not match"},
	{"more events than there are", MSG_EVENTS, AT(events.n), 3, "a count that does not match"},
	{"more events than a batch holds", MSG_EVENTS, AT(events.n), PROTOCOL_BATCH_MAX + 1,
		"a count that does not match"},
	{"events without number", MSG_EVENTS, AT(events.n), UINT32_MAX, "a count that does not match"},
	{"a count that wraps the size around", MSG_EVENTS, AT(events.n), 0x66666668, "a count that does not match"},
	{"no role", MSG_EVENTS, AT(events.events[0].role), 0, "an event out of range"},
	{"the owner of a ring", MSG_EVENTS, AT(events.events[0].role), PERF_OWNER, "an event out of range"},
	{"a role behind the last", MSG_EVENTS, AT(events.events[1].role), PERF_ROLES, "an event out of range"},
	{"the owner of a ring, which is nobody's to send", MSG_EVENTS, AT(events.events[1].role), PERF_OWNER,
		"an event out of range"},
	{"the last event of a target", MSG_EVENTS, AT(events.events[1].spec), EVENTS_MAX - 1, NULL},
	{"an event beyond a target's", MSG_EVENTS, AT(events.events[1].spec), EVENTS_MAX, "an event out of range"},
	{"a negative CPU", MSG_EVENTS, AT(events.events[1].cpu), UINT32_MAX, "an event out of range"},
	{"more tasks than there are", MSG_TASKS, AT(tasks.n), 4, "a count that does not match"},
	{"fewer tasks than there are", MSG_TASKS, AT(tasks.n), 2, "a count that does not match"},
	{"tasks without number", MSG_TASKS, AT(tasks.n), UINT32_MAX, "a count that does not match"},
	{"a task of pid 0", MSG_TASKS, AT(tasks.tasks[1].pid), 0, "a task out of range"},
	{"a task with a negative tid", MSG_TASKS, AT(tasks.tasks[1].tid), UINT32_MAX, "a task out of range"},
	{"one maps more than there are", MSG_TASKS, AT(tasks.tasks[1].has_maps), 1, "descriptors that do not match"},
	{"maps in other numbers", MSG_TASKS, AT(tasks.tasks[0].has_maps), 2, "a task out of range"},
	{"a task's name without end", MSG_TASKS, AT(tasks.tasks[1].name), 'a', END_LESS},
	{"notes of tasks without end", MSG_TASKS, AT(tasks.notes), 'a', END_LESS},
	{"any number of samples", MSG_ENDED, AT(ended.samples), UINT64_MAX, NULL},
	{"a profile's path without end", MSG_ENDED, AT(ended.profile), 'a', END_LESS},
	{"more targets listed than there are", MSG_LISTING, AT(listing.n), 3, "a count that does not match"},
	{"fewer targets listed than there are", MSG_LISTING, AT(listing.n), 1, "a count that does not match"},
	{"targets without number", MSG_LISTING, AT(listing.n), UINT32_MAX, "a count that does not match"},
	{"more targets than a page holds", MSG_LISTING, AT(listing.n), PROTOCOL_LISTED_MAX + 1,
		"a count that does not match"},
	{"another page follows", MSG_LISTING, AT(listing.last), 0, NULL},
	{"a spool without end", MSG_LISTING, AT(listing.spool), 'a', END_LESS},
	{"a listed id without end", MSG_LISTING, AT(listing.targets[1].id), 'a', END_LESS},
	{"a listed name without end", MSG_LISTING, AT(listing.targets[1].name), 'a', END_LESS},
	{"a listed pod without end", MSG_LISTING, AT(listing.targets[1].pod), 'a', END_LESS},
	{"a listed namespace without end", MSG_LISTING, AT(listing.targets[1].pod_namespace), 'a', END_LESS},
	{"a listed profile without end", MSG_LISTING, AT(listing.targets[1].profile), 'a', END_LESS},
	{"the last state", MSG_LISTING, AT(listing.targets[1].state), LISTED_ENDING, NULL},
	{"no state", MSG_LISTING, AT(listing.targets[1].state), 0, "an unknown state"},
	{"a state behind the last", MSG_LISTING, AT(listing.targets[1].state), LISTED_ENDING + 1, "an unknown state"},
	{"no strategy listed", MSG_LISTING, AT(listing.targets[1].strategy), 0, "an unknown strategy"},
	{"the last strategy listed", MSG_LISTING, AT(listing.targets[1].strategy), STRATEGY_TIMERS, NULL},
	{"a listed strategy behind the last", MSG_LISTING, AT(listing.targets[1].strategy), STRATEGY_TIMERS + 1,
		"an unknown strategy"},
	{"no events listed", MSG_LISTING, AT(listing.targets[1].n_events), 0, "too many events"},
	{"more events listed than there is room", MSG_LISTING, AT(listing.targets[1].n_events), EVENTS_MAX + 1,
		"too many events"},
	{"a listed event nobody knows", MSG_LISTING, AT(listing.targets[1].events[0].kind), UINT32_MAX,
		"an unknown event"},
	{"a listed event of period 0", MSG_LISTING, AT(listing.targets[1].events[0].period), 0, "an unknown event"},
	{"a listed event's name without end", MSG_LISTING, AT(listing.targets[1].events[0].name), 'a',
		"an unknown event"},
	{"any numbers of a target", MSG_LISTING, offsetof(union msg, listing.targets[1].serial), 96, 0xff, NULL},
	{"the highest rung", MSG_EVENTS, AT(events.events[1].rung), PERF_RUNGS, NULL},
	{"a rung above the highest", MSG_EVENTS, AT(events.events[1].rung), PERF_RUNGS + 1, "an event out of range"},
	{"an event that waits twice", MSG_EVENTS, AT(events.events[1].idle), 2, "an event out of range"},
	{"a rung that waits", MSG_EVENTS, offsetof(union msg, events.events[1].rung), 4, 0x00010001, NULL},
	{"a rung that waits more than that", MSG_EVENTS, offsetof(union msg, events.events[1].rung), 4, 0x00020001,
		"an event out of range"},
	{"a stack larger than a record", MSG_EVENTS, AT(events.events[1].layout.stack_user), 65529, "out of range"},
};

START_TEST(one_hostile_field)
{
	static union msg m;
	struct err e = {0};
	const struct kind *k = good(hostile[_i].type, &m);

	if (hostile[_i].width <= 8)
		memcpy((char *)&m + hostile[_i].offset, &hostile[_i].value, hostile[_i].width); /* little endian */
	else
		memset((char *)&m + hostile[_i].offset, (int)hostile[_i].value, hostile[_i].width);
	int r = check(&m, k->size, k->n_fds, &e);
	ck_assert_msg(r == (hostile[_i].sentence ? -EPROTO : 0), "%s: %d %s", hostile[_i].scenario, r, e.text);
	ck_assert_msg(
		!hostile[_i].sentence || strstr(e.text, hostile[_i].sentence), "%s: %s", hostile[_i].scenario, e.text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(timers_in_a_program_that_is_heard)
{
	static union msg m;
	struct err e = {0};
	const struct kind *k = good(MSG_TARGET, &m);
	m.target.desc.strategy = STRATEGY_TIMERS;
	m.target.desc.fds = TARGET_PIDFD | TARGET_APP;
	ck_assert_int_eq(check(&m, k->size, k->n_fds, &e), 0);
	m.target.desc.running = 1; /* it asked for itself */
	ck_assert_int_eq(check(&m, k->size, k->n_fds, &e), 0);
	m.target.desc.fds = TARGET_PIDFD | TARGET_TREE;
	ck_assert_int_eq(check(&m, k->size, k->n_fds, &e), -EPROTO);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(the_largest_batch)
{
	static union msg m;
	good(MSG_EVENTS, &m);
	for (size_t i = 0; i < PROTOCOL_BATCH_MAX; i++)
		m.events.events[i] = m.events.events[0];
	m.events.n = m.head.fds = PROTOCOL_BATCH_MAX;
	m.head.size = EVENTS_SIZE(PROTOCOL_BATCH_MAX);
	ck_assert_int_eq(check(&m, m.head.size, PROTOCOL_BATCH_MAX, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* Who asks for the next one would do so for ever. */
START_TEST(an_empty_page_is_the_last)
{
	static union msg m;
	good(MSG_LISTING, &m);
	m.listing.n = 0;
	m.head.size = LISTING_SIZE(0);
	ck_assert_int_eq(check(&m, m.head.size, 0, NULL), 0);
	m.listing.last = 0;
	ck_assert_int_eq(check(&m, m.head.size, 0, NULL), -EPROTO);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- over a socket */

static int null_fd(void)
{
	return fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0);
}

START_TEST(sent_and_received)
{
	static union msg m, got;
	struct err e = {0};
	int s[2], out[2] = {null_fd(), null_fd()}, in[FD_PASS_MAX];
	size_t n;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	const struct kind *k = good(kinds[_i].type, &m);
	memset(&m.head, 0xff, sizeof(m.head)); /* filled in by msg_send */
	ck_assert_int_eq(msg_send(s[0], &m, k->type, out, k->n_fds), 0);
	int r = msg_recv(s[1], deadline_in(NSEC_PER_SEC), &got, in, LENGTH(in), &n, &e);
	ck_assert_msg(r == 0, "type %d: %s", k->type, e.text);
	ck_assert_uint_eq(n, k->n_fds);
	ck_assert_int_eq(memcmp(&m, &got, k->size), 0);
	while (n)
		fd_close(in[--n]);
	for (int i = 0; i < 2; i++) {
		fd_close(out[i]);
		fd_close(s[i]);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(descriptors_of_a_bad_message_are_closed)
{
	static union msg m, got;
	struct err e = {0};
	int s[2], out[2] = {null_fd(), null_fd()}, in[4];
	size_t n = 99;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	good(MSG_TARGET, &m);
	m.target.desc.strategy = 99;
	ck_assert_int_eq(msg_send(s[0], &m, MSG_TARGET, out, 2), 0);
	ck_assert_int_eq(msg_recv(s[1], deadline_in(NSEC_PER_SEC), &got, in, LENGTH(in), &n, &e), -EPROTO);
	ck_assert_uint_eq(n, 0);
	n = 99;
	ck_assert_int_eq(msg_recv(s[1], deadline_in(0), &got, in, LENGTH(in), &n, &e), -ETIMEDOUT);
	ck_assert_uint_eq(n, 0);
	for (int i = 0; i < 2; i++) {
		fd_close(out[i]);
		fd_close(s[i]);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(taken_one_by_one)
{
	static union msg m, got;
	struct err e = {0};
	int s[2], out[2] = {null_fd(), null_fd()}, in[PROTOCOL_BATCH_MAX];
	size_t n = 99;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s), 0);
	ck_assert_int_eq(msg_take(s[1], &got, in, &n, &e), -EAGAIN);
	ck_assert_uint_eq(n, 0);
	const struct kind *k = good(MSG_TARGET, &m);
	ck_assert_int_eq(msg_send(s[0], &m, MSG_TARGET, out, k->n_fds), 0);
	m.target.desc.strategy = 99;
	ck_assert_int_eq(msg_send(s[0], &m, MSG_TARGET, out, k->n_fds), 0);
	ck_assert_int_eq(msg_take(s[1], &got, in, &n, &e), 0);
	ck_assert(got.head.type == MSG_TARGET && n == k->n_fds);
	fd_close_each(in, n);
	ck_assert_int_eq(msg_take(s[1], &got, in, &n, &e), -EPROTO);
	ck_assert(e.code == -EPROTO && n == 0);
	e = (struct err){0};
	ck_assert_int_eq(fd_send(s[0], "", 0, out, 1), 0); /* an empty datagram with a descriptor */
	ck_assert_int_eq(msg_take(s[1], &got, in, &n, &e), -EPIPE);
	ck_assert_uint_eq(n, 0);
	fd_close(s[0]);
	ck_assert_int_eq(msg_take(s[1], &got, in, &n, &e), -EPIPE);
	ck_assert_int_eq(e.code, 0);
	fd_close(s[1]);
	fd_close_each(out, 2);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- peers */

static void get(int sock)
{
	static union msg m;
	struct err e;
	int in[4];
	size_t n;
	MUST(msg_recv(sock, deadline_in(5 * NSEC_PER_SEC), &m, in, LENGTH(in), &n, &e) == 0);
	MUST(m.head.type == MSG_HELLO && m.hello.budget_ms == 500);
}

static void answer(int sock, enum msg_type type)
{
	static union msg m;
	good(type, &m);
	MUST(msg_send(sock, &m, type, NULL, 0) == 0);
}

static void welcomes(int sock)
{
	get(sock);
	answer(sock, MSG_WELCOME);
}

static void refuses(int sock)
{
	struct err e;
	get(sock);
	err_say(&e, -EALREADY, "c1 is known");
	MUST(msg_refuse(sock, &e) == 0);
}

static void refuses_without_a_code(int sock)
{
	get(sock);
	MUST(msg_refuse(sock, &(struct err){.code = 0, .text = "hm"}) == 0);
}

static void refuses_at_once_and_goes(int sock)
{
	MUST(msg_refuse(sock, &(struct err){.code = -EBUSY, .text = "too many targets"}) == 0);
}

static void is_silent(int sock)
{
	get(sock);
	char c;
	MUST(read(sock, &c, 1) == 0); /* until the other end gives up */
}

static void goes_at_once(int sock) {}

static void goes_after_reading(int sock)
{
	get(sock);
}

static void says_rubbish(int sock)
{
	get(sock);
	MUST(fd_send(sock, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, NULL, 0) == 0);
}

static void says_too_much(int sock)
{
	static char big[sizeof(union msg) + 1];
	get(sock);
	MUST(fd_send(sock, big, sizeof(big), NULL, 0) == 0);
}

static void says_something_else(int sock)
{
	get(sock);
	answer(sock, MSG_STOP);
}

static void gives_descriptors(int sock)
{
	static union msg m;
	int null = null_fd();
	get(sock);
	good(MSG_WELCOME, &m);
	MUST(msg_send(sock, &m, MSG_WELCOME, &null, 1) == 0);
}

static void is_newer(int sock)
{
	static union msg m;
	get(sock);
	const struct kind *k = good(MSG_WELCOME, &m);
	m.head.version++;
	MUST(fd_send(sock, &m, k->size, NULL, 0) == 0);
}

static const struct peer {
	const char *scenario;
	void (*fn)(int sock);
	bool first; /* it is done before we begin */
	int result;
	const char *sentence;
} peers[] = {
	{"welcomes", welcomes, false, 0, ""},
	{"refuses", refuses, false, -EALREADY, "refused: c1 is known"},
	{"refuses without a code", refuses_without_a_code, false, -EIO, "refused: hm"},
	{"refuses and hangs up before we speak", refuses_at_once_and_goes, true, -EBUSY, "refused: too many targets"},
	{"is silent", is_silent, false, -ETIMEDOUT, "the peer did not answer in time"},
	{"hangs up before we speak", goes_at_once, true, -EPIPE, "the peer went away in the middle"},
	{"hangs up after reading", goes_after_reading, false, -EPIPE, "the peer went away in the middle"},
	{"says rubbish", says_rubbish, false, -EPROTO, SPEAK},
	{"says more than any message", says_too_much, false, -EMSGSIZE, "receiving from the peer: Message too long"},
	{"says something else", says_something_else, false, -EPROTO, "the peer answered with message type"},
	{"gives descriptors nobody asked for", gives_descriptors, false, -EPROTO, "descriptors that nobody asked for"},
	{"is newer than we are", is_newer, false, -EPROTO, "install one version of both"},
};

#define WITHIN_MS 1000

static struct clock_driven still, leaping = {.leaps = true};

START_TEST(a_peer_that)
{
	static union msg m;
	const struct peer *p = &peers[_i];
	struct err e = {0};
	int s[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	pid_t pid = fork();
	if (pid == 0) {
		fd_close(s[0]);
		p->fn(s[1]);
		_exit(0);
	}
	s[1] = fd_close(s[1]);
	if (p->first)
		ck_assert_int_eq(child_process_wait(pid, deadline_in(5 * NSEC_PER_SEC)), 0);
	m.hello.budget_ms = 500;
	clock_drive(p->result == -ETIMEDOUT ? &leaping : &still);
	int64_t began = clock_now();
	int r = msg_call(s[0], deadline_in(WITHIN_MS * NSEC_PER_MSEC), &m, MSG_HELLO, NULL, 0, MSG_WELCOME, &e);
	int64_t took = clock_now() - began;
	clock_drive(NULL);
	fd_close(s[0]);
	if (!p->first)
		ck_assert_int_eq(child_process_wait(pid, deadline_in(5 * NSEC_PER_SEC)), 0);
	ck_assert_msg(r == p->result && strstr(e.text, p->sentence), "%s: %d %s", p->scenario, r, e.text);
	ck_assert_msg(
		took == (r == -ETIMEDOUT ? WITHIN_MS * NSEC_PER_MSEC : 0), "%s: %lld ns", p->scenario, (long long)took);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_long_refusal_is_cut)
{
	static union msg m;
	struct err e = {.code = -EIO};
	int s[2];
	size_t n;

	memset(e.text, 'a', sizeof(e.text) - 1);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	ck_assert_int_eq(msg_refuse(s[0], &e), 0);
	ck_assert_int_eq(msg_recv(s[1], deadline_in(NSEC_PER_SEC), &m, NULL, 0, &n, &e), 0);
	ck_assert_uint_eq(strlen(m.refuse.text), sizeof(m.refuse.text) - 1);
	fd_close(s[0]);
	fd_close(s[1]);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(messages)
{
	Suite *s = suite_create("messages");
	TCase *t = tcase_create("messages");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, good_ones_pass, 0, LENGTH(kinds));
	tcase_add_loop_test(t, the_lesser_version_is_spoken, 0, LENGTH(greetings));
	tcase_add_loop_test(t, a_message_says_the_lowest_version_that_knows_it, 0, LENGTH(kinds));
	tcase_add_loop_test(t, cut_anywhere_or_longer_they_do_not, 0, LENGTH(kinds));
	tcase_add_loop_test(t, descriptors_are_as_many_as_announced_and_wanted, 0, LENGTH(kinds));
	tcase_add_loop_test(t, one_hostile_field, 0, LENGTH(hostile));
	tcase_add_test(t, an_empty_page_is_the_last);
	tcase_add_test(t, the_largest_batch);
	tcase_add_test(t, timers_in_a_program_that_is_heard);
	tcase_add_loop_test(t, sent_and_received, 0, LENGTH(kinds));
	tcase_add_test(t, descriptors_of_a_bad_message_are_closed);
	tcase_add_test(t, taken_one_by_one);
	tcase_add_loop_test(t, a_peer_that, 0, LENGTH(peers));
	tcase_add_test(t, a_long_refusal_is_cut);
	suite_add_tcase(s, t);
	return s;
}
