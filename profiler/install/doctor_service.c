/* The links between the hook and a profile. */
#include "profiler/install/doctor.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/push/push_endpoint.h"
#include "profiler/push/push_status.h"
#include "profiler/view/target_table.h"
#include "shim/protocol/service_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ASK_NS (2 * NSEC_PER_SEC)

void doctor_switch(const struct doctor *d, struct finding *f)
{
	const bool off = hostfiles_exists(d->host, OPTIONS_ETC "/off");
	finding_say(f, off ? FINDING_BROKEN : FINDING_OK,
		off ? "there is " OPTIONS_ETC "/off: nothing is profiled on this host" : "on");
	if (off)
		finding_way(f, "sudo pillion on");
}

/* 0, also when there is none. */
static int read_file(const struct doctor *d, enum option_source source, const char *path, struct err *e)
{
	static struct options unused;
	options_default(&unused);
	fd_auto fd = fd_open_beneath(hostfiles_root(d->host), path, O_RDONLY | O_NONBLOCK);
	return fd == -ENOENT ? 0
	       : fd < 0	     ? err_set(e, fd, "cannot open %s", path)
			     : options_read_fd(&unused, source, fd, path, e);
}

void doctor_settings(const struct doctor *d, struct finding *f)
{
	struct err e = {0};
	if (read_file(d, OPTION_FILE, OPTIONS_ETC "/pillion.conf", &e) < 0) {
		finding_say(f, FINDING_BROKEN, "%s: no container is profiled", e.text);
		finding_way(f, "correct that line");
	} else if (!d->options.settings.enabled) {
		finding_say(f, FINDING_BROKEN, OPTIONS_ETC "/pillion.conf says enabled = 0");
		finding_way(f, "remove that line");
	} else {
		finding_say(f, FINDING_OK, "a start is held up for %u ms at most", d->options.settings.budget_ms);
	}
}

void doctor_policy(const struct doctor *d, struct finding *f)
{
	const struct settings *s = &d->options.settings;
	struct err e = {0};
	size_t at = 0;
	if (read_file(d, OPTION_POLICY, OPTIONS_ETC "/policy.conf", &e) < 0) {
		finding_say(f, FINDING_BROKEN, "%s: no container is profiled", e.text);
		finding_way(f, "correct that line");
		return;
	}
	finding_say(f, s->sample > 1 ? FINDING_WARNING : FINDING_OK, "%s",
		s->strict ? "strict: a failure to profile fails the start" : "open");
	const char *const rules[][2] = {
		{"namespaces", s->allow_namespaces}, {"users", s->allow_users}, {"events", s->allow_events}};
	for (size_t i = 0; i < 3; i++) {
		at = strlen(f->what);
		if (rules[i][1][0])
			snprintf(f->what + at, sizeof(f->what) - at, "; %s: %.100s", rules[i][0], rules[i][1]);
	}
	if (s->sample > 1)
		finding_way(f, "one container of %u is profiled (policy.conf: sample_containers)", s->sample);
}

void doctor_service(const struct doctor *d, struct finding *f)
{
	const char *control = d->options.settings.control;
	struct err e = {0};
	struct listed l = {0};
	fd_auto sock = service_connect_anyway(control, &e);
	if (sock == -ENOENT || sock == -ENOTDIR) {
		finding_say(f, FINDING_OK, "none at %s: each container has a session of its own", control);
	} else if (sock == -EACCES || sock == -EPERM) {
		finding_say(f, FINDING_WARNING, "%s", e.text);
		finding_way(f, "ask as root");
	} else if (sock < 0) {
		finding_say(f, FINDING_WARNING,
			"there is %s, and nobody listens: each container has a session of its own", control);
		finding_way(f, "systemctl restart pilliond.socket, or remove it");
	} else if (listed_ask(sock, deadline_in(ASK_NS), &l, &e) < 0) {
		finding_say(f, FINDING_BROKEN, "%s does not answer: %s", control, e.text);
		finding_way(f, "containers start without a profile, after a wait; systemctl restart pilliond");
	} else {
		finding_say(f, FINDING_OK, "%s answers: %zu targets", control, l.n);
	}
	listed_done(&l);
}

/* Of the way there what exists. */
static void existing(const char *path, char buf[1024])
{
	snprintf(buf, 1024, "%s", path);
	while (access(buf, F_OK) < 0 && strrchr(buf, '/') > buf)
		*strrchr(buf, '/') = 0;
	if (access(buf, F_OK) < 0)
		snprintf(buf, 1024, "/");
}

void doctor_spool(const struct doctor *d, struct finding *f)
{
	const char *spool = d->options.settings.spool;
	char path[1024];
	struct statvfs fs;
	struct stat st;
	existing(spool, path);
	if (stat(path, &st) < 0 || statvfs(path, &fs) < 0) {
		finding_say(f, FINDING_BROKEN, "%s: %s", spool, strerror(errno));
	} else if (!S_ISDIR(st.st_mode)) {
		finding_say(f, FINDING_BROKEN, "%s is no directory, so %s cannot be one", path, spool);
		finding_way(f, "move it away");
	} else if ((fs.f_flag & ST_RDONLY) || (geteuid() == 0 && access(path, W_OK) < 0)) {
		finding_say(f, FINDING_BROKEN, "%s cannot be written to", path);
		finding_way(f, "pillion.conf: spool = DIRECTORY, on a file system that can");
	} else if (fs.f_bavail == 0 || (fs.f_files && fs.f_favail == 0)) {
		finding_say(f, FINDING_BROKEN, "the file system of %s is full", path);
		finding_way(f, "make room there: profiles are dropped meanwhile");
	} else if ((uint64_t)fs.f_bavail * fs.f_frsize < d->options.settings.spool_bytes / 8) {
		finding_say(f, FINDING_WARNING, "%s has %llu MiB left", path,
			(unsigned long long)((uint64_t)fs.f_bavail * fs.f_frsize >> 20));
		finding_way(f, "pillion.conf: spool_size, or room");
	} else {
		finding_say(f, FINDING_OK, "%s", spool);
	}
}

/* --- push ------------------------------------------------------------------------------------------------- */

#define PUSH_SILENT_S 120
#define PUSH_FAILING_S 60

static const struct pushed *find_pushed(const struct pushed *list, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

/* The first endpoint that is not well is what is said. */
static bool is_well(const struct endpoint *p, const struct pushed *is, struct finding *f)
{
	if (!is || is->heard_s > PUSH_SILENT_S) {
		finding_say(f, FINDING_WARNING, "nobody pushes to %s (%s)", p->name, p->url);
		finding_way(f, "systemctl enable --now pillion-push");
	} else if (is->failing_s > PUSH_FAILING_S) {
		finding_say(f, FINDING_WARNING, "%s has taken nothing for %llu s, and %llu wait: %s", p->name,
			(unsigned long long)is->failing_s, (unsigned long long)is->waiting, is->why);
		finding_way(f, "they are sent when it is well; spool_size and spool_age say how long they can wait");
	} else if (is->lost || is->refused) {
		finding_say(f, FINDING_WARNING,
			"%s: %llu were refused, %llu removed by the spool's caps before they were sent", p->name,
			(unsigned long long)is->refused, (unsigned long long)is->lost);
		finding_way(f, "the log of pillion-push says which, and why");
	} else {
		return true;
	}
	return false;
}

void doctor_push(const struct doctor *d, struct finding *f)
{
	struct pushed list[PUSHED_MAX];
	struct endpoint *endpoints;
	struct err e = {0};
	size_t n;
	uint64_t sent = 0;
	bool well = true;
	int r = endpoints_read(ENDPOINT_DIR, &endpoints, &n, &e);
	if (r < 0) {
		finding_say(f, r == -EACCES ? FINDING_WARNING : FINDING_BROKEN, "%s", e.text);
		finding_way(f, r == -EACCES ? "ask as root" : "correct it: nothing is pushed");
		return;
	}
	fd_auto spool = fd_open_dir(AT_FDCWD, d->options.settings.spool);
	const unsigned n_pushed = spool < 0 ? 0 : pushed_read(spool, list);
	for (size_t i = 0; well && i < n; i++) {
		const struct pushed *is = find_pushed(list, n_pushed, endpoints[i].name);
		well = is_well(&endpoints[i], is, f);
		sent += is ? is->sent : 0;
	}
	if (well && n)
		finding_say(f, FINDING_OK, "%zu endpoint%s, %llu profiles taken", n, n == 1 ? "" : "s",
			(unsigned long long)sent);
	else if (well)
		finding_say(f, FINDING_OK, "to nobody: profiles stay in the spool");
	endpoints_free(endpoints, n);
}
