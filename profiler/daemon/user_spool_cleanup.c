/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/user_spool_cleanup.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "profiler/daemon/exporter.h"
#include "profiler/spool/user_spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_MAX_S 3600
#define ROUND_MIN_S 10
#define ROUNDS_OF_AGE 10 /* in the time for which a profile is kept */
#define PAUSE_MS 200	 /* for an exporter that tidies */
#define PATIENCE_S 60	 /* with an exporter on a disk that does not answer */

/* Returns the next uid above `last` with a spool, by number; 0: there is none. */
static uid_t next_user(const struct spool_cleanup *t)
{
	uid_t next = 0;
	int fd = fd_open(t->spool, USER_SPOOLS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(fd);
		return 0;
	}
	for (struct dirent *de; (de = readdir(d));) {
		char *end;
		unsigned long uid = strtoul(de->d_name, &end, 10);
		if (!*end && uid > t->last && uid < (uid_t)-1 && (!next || uid < next))
			next = (uid_t)uid;
	}
	closedir(d);
	return next;
}

/* Starts an exporter and closes its socket at once: it tidies, and then ends. */
static void start_cleanup(struct spool_cleanup *t, uid_t user)
{
	struct err e = {0};
	struct exporter_process p;
	const struct exporter_setup setup = {.spool = t->spool,
		.user = user,
		.spool_bytes = t->settings->users.spool_bytes,
		.spool_age_s = t->settings->spool_age_s,
		.http.fd = -1};
	if (exporter_start(&setup, &p, &e) < 0) {
		log_line(LOG_WARNING, "user=%u outcome=spool_not_cleaned reason=\"%s\"", (unsigned)user, e.text);
		return;
	}
	fd_close(p.sock);
	t->pid = p.pid;
	t->until = deadline_in(PATIENCE_S * NSEC_PER_SEC);
}

/* Waits for the exporter; no other spool is tidied meanwhile. An exporter that cannot be killed stays. */
static int wait_for(struct spool_cleanup *t)
{
	if (t->until >= 0 && clock_now() < t->until)
		return PAUSE_MS;
	if (t->until >= 0)
		log_line(LOG_WARNING, "user=%u outcome=spool_not_cleaned reason=\"the disk does not answer\"",
			(unsigned)t->last);
	t->until = -1;
	kill(t->pid, SIGKILL);
	return ROUND_MIN_S * 1000;
}

static int64_t pause_s(const struct settings *s)
{
	int64_t pause = s->spool_age_s / ROUNDS_OF_AGE;
	return pause < ROUND_MIN_S ? ROUND_MIN_S : pause > ROUND_MAX_S ? ROUND_MAX_S : pause;
}

int user_spool_cleanup_round(struct spool_cleanup *t)
{
	if (t->pid && waitpid(t->pid, NULL, WNOHANG | __WALL) == 0)
		return wait_for(t);
	t->pid = 0;
	if (clock_now() < t->next)
		return deadline_left_ms(t->next);
	while ((t->last = next_user(t)))
		if (!t->is_there(t->arg, t->last)) {
			start_cleanup(t, t->last);
			return PAUSE_MS;
		}
	t->next = deadline_in(pause_s(t->settings) * NSEC_PER_SEC);
	return deadline_left_ms(t->next);
}
