/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/progress.h"

#include "oci/base/clock.h"
#include "profiler/view/columns.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define CLEAR "\r\033[K"
#define SECONDS_WIDTH 12

/* The handler reads the complete text while the other one is being written. */
static char texts[2][600];
static volatile sig_atomic_t current, shown;
static int64_t began;

static void write_stderr(const char *text, size_t len)
{
	if (write(STDERR_FILENO, text, len) < 0)
		return; /* stderr is gone: no way to report it */
}

static void on_alarm(int signal)
{
	const int error = errno;
	unsigned seconds = (unsigned)((clock_now() - began) / NSEC_PER_SEC);
	char number[SECONDS_WIDTH], *at = number + sizeof(number);
	*--at = 's';
	*--at = ' ';
	do
		*--at = (char)('0' + seconds % 10);
	while ((seconds /= 10));
	write_stderr(CLEAR, sizeof(CLEAR) - 1);
	write_stderr(texts[current], strlen(texts[current]));
	write_stderr(at, (size_t)(number + sizeof(number) - at));
	shown = 1;
	errno = error;
}

static bool has_terminal(void)
{
	const char *term = getenv("TERM");
	return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static void set_timer(bool on)
{
	const struct itimerval every = {.it_interval.tv_sec = on, .it_value.tv_sec = on};
	setitimer(ITIMER_REAL, &every, NULL);
}

void progress_show(const char *doing)
{
	if (!has_terminal())
		return;
	const unsigned columns = columns_of(stderr);
	char *to = texts[!current];
	FILE *f = fmemopen(to, sizeof(texts[0]) - 1, "w");
	if (!f)
		return;
	columns_print(f, doing, columns > 2 * SECONDS_WIDTH ? columns - SECONDS_WIDTH - 2 : 60);
	fputs(", ", f);
	fclose(f);
	current = !current;
	if (began)
		return;
	began = clock_now();
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL);
	set_timer(true);
}

void progress_end(void)
{
	if (!began)
		return;
	set_timer(false);
	if (shown)
		write_stderr(CLEAR, sizeof(CLEAR) - 1);
	shown = 0;
	began = 0;
}
