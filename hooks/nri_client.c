/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/nri_client.h"

#include "hooks/nri_messages.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#define NOBODY 65534
#define MEMORY_MAX (64ul << 20)
#define STARTS_MAX 64
#define REQUEST_MS 2000			   /* the default timeout of a runtime */
#define SLACK_MS 100			   /* for the starter to say that its budget is used up */
#define REGISTRATION_NS (5 * NSEC_PER_SEC) /* as long as a runtime waits for it */

/* A container that the runtime holds until we answer. */
struct start {
	uint64_t number; /* 0: a free slot */
	uint32_t stream;
	int64_t deadline;
	char id[72];
};

static struct talker {
	const struct talker_spec *spec;
	struct nri *nri;
	bool inject, over;
	uint32_t request_ms;
	int64_t registered_by; /* 0: it has been configured */
	uint64_t numbers;
	struct start starts[STARTS_MAX];
} t;

/* --- to the starter ----------------------------------------------------------------------------------------- */

static int send_to_starter(struct nri_ask *ask, size_t size)
{
	return fd_send(t.spec->pair, ask, size, NULL, 0);
}

static __attribute__((format(printf, 2, 3))) void send_log(int level, const char *fmt, ...)
{
	struct nri_ask ask;
	va_list ap;
	memset(&ask, 0, NRI_ASK_SHORT);
	ask.word = NRI_SAY;
	ask.level = (uint32_t)level;
	va_start(ap, fmt);
	vsnprintf(ask.text, sizeof(ask.text), fmt, ap);
	va_end(ap);
	send_to_starter(&ask, NRI_ASK_SHORT);
}

/* --- calls of the runtime ----------------------------------------------------------------------------------- */

static void queue_response(uint32_t stream, const void *payload, size_t len)
{
	if (nri_answer(t.nri, stream, payload, len) < 0)
		t.over = true; /* no memory: the runtime goes on without us */
}

static uint32_t patience_ms(void)
{
	uint32_t most = t.request_ms / 8 * 7, ours = t.spec->budget_ms + SLACK_MS;
	uint32_t least = 2 * SLACK_MS; /* a runtime that waits for less drops us */
	return ours < most ? ours : most > least ? most : least;
}

static void on_configure(uint32_t stream, const void *payload, size_t len)
{
	char config[64];
	uint8_t buf[16];
	struct protobuf_writer o = protobuf_writer_fixed(buf, sizeof(buf));
	struct nri_ask ready = {.word = NRI_READY};
	uint32_t ms = nri_configuration(payload, len, config, sizeof(config));
	t.request_ms = ms ? ms : REQUEST_MS;
	/* a pre-installed plugin has no arguments, but a file in the runtime's plugin_config_path */
	t.inject = t.spec->inject || !strncmp(config, "inject-hook", strlen("inject-hook"));
	t.registered_by = 0;
	protobuf_writer_number(&o, 2, NRI_EVENT_BIT(t.inject ? NRI_EVENT_CREATE_CONTAINER : NRI_EVENT_START_CONTAINER));
	queue_response(stream, buf, o.len);
	send_to_starter(&ready, NRI_ASK_SHORT);
	send_log(LOG_INFO, "state=connected mode=%s request_timeout_ms=%u", t.inject ? "inject-hook" : "attach",
		t.request_ms);
}

static void on_synchronize(uint32_t stream, const void *payload, size_t len)
{
	uint8_t buf[4];
	struct protobuf_writer o = protobuf_writer_fixed(buf, sizeof(buf));
	if (nri_more(payload, len))
		protobuf_writer_number(&o, 2, 1);
	queue_response(stream, buf, o.len);
}

static struct start *free_start(void)
{
	for (size_t i = 0; i < STARTS_MAX; i++)
		if (!t.starts[i].number)
			return &t.starts[i];
	return NULL;
}

static void ask_starter(uint32_t stream, struct nri_ask *ask)
{
	struct start *s = free_start();
	ask->word = NRI_START;
	ask->number = ++t.numbers;
	ask->limit_ms = patience_ms() - SLACK_MS;
	int r = s ? send_to_starter(ask, sizeof(*ask)) : -EBUSY;
	if (r < 0) {
		send_log(LOG_WARNING, "container=%.64s outcome=unprofiled reason=\"too many containers start at once\"",
			ask->container.id);
		return queue_response(stream, NULL, 0);
	}
	*s = (struct start){
		.number = ask->number, .stream = stream, .deadline = deadline_in(ask->limit_ms * NSEC_PER_MSEC)};
	snprintf(s->id, sizeof(s->id), "%.64s", ask->container.id);
}

/* A container that asks for no profile is answered at once, without the starter. */
static void on_start_container(enum nri_call call, uint32_t stream, const void *payload, size_t len)
{
	static struct nri_ask ask;
	memset(&ask, 0, NRI_ASK_SHORT);
	int r = nri_container(call, payload, len, &ask.container);
	if (r == 0 && ask.container.verdict == DECISION_PROFILE)
		return ask_starter(stream, &ask);
	if (r < 0 || ask.container.verdict == DECISION_INVALID)
		send_log(LOG_WARNING, "container=%.64s outcome=unprofiled reason=\"%.300s\"", ask.container.id,
			r < 0 ? "no memory" : ask.container.reason);
	queue_response(stream, NULL, 0);
}

/* Checked each time: a container does not start when its hook is missing. */
static bool hook_is_there(void)
{
	struct stat st;
	/* of libc's functions for it, some make another system call */
	return syscall(SYS_newfstatat, AT_FDCWD, t.spec->hook.path, &st, 0) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & 0111) == 0111;
}

static void on_create_container(uint32_t stream, const void *payload, size_t len)
{
	static struct container c;
	static uint8_t buf[300 << 10];
	struct protobuf_writer o = protobuf_writer_fixed(buf, sizeof(buf));
	const char *why = NULL;
	int r = t.inject ? nri_container(NRI_CREATE_CONTAINER, payload, len, &c) : -ENOMEM;
	if (r < 0 || c.verdict == DECISION_OFF || c.verdict == DECISION_SANDBOX)
		return queue_response(stream, NULL, 0);
	if (c.verdict == DECISION_INVALID)
		why = c.reason;
	else if (!hook_is_there())
		why = "the hook is not there, or no program that everybody may see and run";
	else
		nri_injection(payload, len, &t.spec->hook, &o);
	if (o.failed)
		why = "its annotations are too many";
	if (why)
		send_log(LOG_WARNING, "container=%.64s outcome=unprofiled reason=\"%.300s\"", c.id, why);
	queue_response(stream, buf, why ? 0 : o.len);
}

static void on_registered(const char *why, size_t len)
{
	char text[ERR_SHOWN];
	if (!len)
		return;
	send_log(LOG_ERR, "state=refused reason=\"the runtime does not take the plugin: %s\"",
		err_shown(why, len, text));
	t.over = true;
}

static void on_nri_call(void *arg, enum nri_call call, uint32_t stream, const void *payload, size_t len)
{
	switch (call) {
	case NRI_CONFIGURE:
		return on_configure(stream, payload, len);
	case NRI_SYNCHRONIZE:
		return on_synchronize(stream, payload, len);
	case NRI_CREATE_CONTAINER:
		return on_create_container(stream, payload, len);
	case NRI_START_CONTAINER:
		return on_start_container(call, stream, payload, len);
	case NRI_STATE_CHANGE:
		if (nri_event(payload, len) == NRI_EVENT_START_CONTAINER)
			return on_start_container(call, stream, payload, len);
		return queue_response(stream, NULL, 0);
	case NRI_SHUTDOWN:
		return queue_response(stream, NULL, 0);
	case NRI_REGISTERED:
		return on_registered(payload, len);
	default:
		if (nri_unimplemented(t.nri, stream) < 0)
			t.over = true;
	}
}

/* --- the loop ----------------------------------------------------------------------------------------------- */

/* Reads a bounded part each time, so that answers are not kept waiting behind a runtime that has much to say. */
static int hear_runtime(struct err *e)
{
	static char buf[65536];
	ssize_t n = read(t.spec->trunk, buf, sizeof(buf));
	if (n == 0)
		return err_say(e, -EPIPE, "the runtime has closed the connection");
	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : err_set(e, -errno, "the connection to the runtime is broken");
	return nri_feed(t.nri, buf, (size_t)n, e);
}

static int write_unsent(struct err *e)
{
	size_t len;
	const void *at = nri_unsent(t.nri, &len);
	ssize_t n = len ? write(t.spec->trunk, at, len) : 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : err_set(e, -errno, "the connection to the runtime is broken");
	nri_sent(t.nri, (size_t)n);
	return 0;
}

static void release_start(struct start *s)
{
	queue_response(s->stream, NULL, 0);
	s->number = 0;
}

static int hear_starter(struct err *e)
{
	struct nri_told told;
	size_t n;
	ssize_t got = fd_recv(t.spec->pair, &told, sizeof(told), NULL, 0, &n);
	if (got == -EAGAIN)
		return 0;
	if (got != sizeof(told))
		return err_say(e, -EPIPE, "the privileged part is gone");
	for (size_t i = 0; i < STARTS_MAX; i++)
		if (t.starts[i].number && t.starts[i].number == told.number)
			release_start(&t.starts[i]);
	return 0;
}

/* Releases starts after their deadline, without the starter's answer. Returns the next deadline. */
static int64_t expire_starts(void)
{
	int64_t now = clock_now(), next = now + 3600 * NSEC_PER_SEC;
	for (size_t i = 0; i < STARTS_MAX; i++) {
		struct start *s = &t.starts[i];
		if (s->number && s->deadline <= now) {
			send_log(LOG_WARNING,
				"container=%s outcome=unprofiled reason=\"the privileged part did not answer within "
				"its budget\"",
				s->id);
			release_start(s);
		} else if (s->number && s->deadline < next) {
			next = s->deadline;
		}
	}
	if (t.registered_by && t.registered_by <= now) {
		send_log(LOG_ERR, "state=refused reason=\"the runtime does not answer the registration\"");
		t.over = true;
	}
	return t.registered_by && t.registered_by < next ? t.registered_by : next;
}

static int poll_sockets(struct err *e)
{
	size_t unsent;
	int r = write_unsent(e);
	int64_t until = expire_starts();
	nri_unsent(t.nri, &unsent);
	struct pollfd p[] = {
		{.fd = t.spec->trunk, .events = (short)((nri_full(t.nri) ? 0 : POLLIN) | (unsent ? POLLOUT : 0))},
		{.fd = t.spec->pair, .events = POLLIN},
	};
	if (r < 0 || t.over)
		return r;
	if (poll(p, 2, deadline_left_ms(until)) <= 0)
		return 0;
	if (p[1].revents)
		r = hear_starter(e);
	if (r == 0 && p[0].revents & (POLLIN | POLLHUP | POLLERR))
		r = hear_runtime(e);
	return r;
}

static int serve_runtime(struct err *e)
{
	int r = nri_new(on_nri_call, NULL, &t.nri);
	if (r == 0)
		r = nri_register(t.nri, t.spec->name, t.spec->index);
	if (r < 0)
		return err_set(e, r, "no connection to the runtime");
	t.registered_by = deadline_in(REGISTRATION_NS);
	t.request_ms = REQUEST_MS;
	while (r == 0 && !t.over)
		r = poll_sockets(e);
	return r;
}

static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
	setrlimit(RLIMIT_AS, &memory); /* sanitizers reserve terabytes */
#endif
}

/* Gives up all rights that the process had before. */
static int become_talker(struct err *e)
{
	uid_t uid = NOBODY;
	gid_t gid = NOBODY;
	struct rlimit none = {0, 0};
	passwd_user("pillion", &uid, &gid);
	prctl(PR_SET_DUMPABLE, 0);
	limit_memory();
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &none);
	capabilities_empty_bounding();
	int r = capabilities_become(uid, gid, 0, e);
	return r < 0 ? r : seccomp_enter(SECCOMP_NRI, e);
}

void talker_run(const struct talker_spec *spec)
{
	struct err e = {0};
	int keep[] = {spec->trunk, spec->pair};
	sigset_t none;
	child_process_die_with(spec->starter);
	prctl(PR_SET_NAME, "pillion-nri-t");
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	fd_close_all_but(keep, 2);
	fd_null_stdio(7);
	fcntl(spec->trunk, F_SETFL, O_NONBLOCK);
	fcntl(spec->pair, F_SETFL, O_NONBLOCK);
	t.spec = spec;
	int r = become_talker(&e);
	if (r == 0)
		r = serve_runtime(&e);
	if (r < 0)
		send_log(r == -EPIPE ? LOG_INFO : LOG_ERR, "state=disconnected reason=\"%s\"", e.text);
	_exit(0);
}
