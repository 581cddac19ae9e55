/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/terminal.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l" /* second page, no cursor, no line breaks of its own */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define ESCAPE_MS 50 /* the rest of a key follows its Esc within this time */

struct terminal {
	struct termios before;
	sigset_t mask_before;
	int signals;
};

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};

bool terminal_possible(void)
{
	const char *term = getenv("TERM");
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static void write_stdout(const char *text)
{
	(void)fd_write_all(STDOUT_FILENO, text, strlen(text));
}

static void enter_screen(const struct terminal *s)
{
	struct termios raw = s->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	write_stdout(ENTER);
}

static void leave_screen(const struct terminal *s)
{
	write_stdout(LEAVE);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

int terminal_open(struct terminal **ret)
{
	sigset_t mask;
	struct terminal *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->signals = -1;
	if (tcgetattr(STDIN_FILENO, &s->before) < 0) {
		const int r = -errno;
		free(s);
		return r;
	}
	sigemptyset(&mask);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaddset(&mask, ending[i]);
	sigprocmask(SIG_BLOCK, &mask, &s->mask_before);
	s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	enter_screen(s);
	if (s->signals < 0) {
		terminal_close(s);
		return -EMFILE;
	}
	*ret = s;
	return 0;
}

struct terminal *terminal_close(struct terminal *s)
{
	if (!s)
		return NULL;
	leave_screen(s);
	fd_close(s->signals);
	sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
	free(s);
	return NULL;
}

void terminal_size(unsigned *ret_rows, unsigned *ret_columns)
{
	struct winsize w = {0};
	const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col;
	*ret_rows = known ? w.ws_row : 24;
	*ret_columns = known ? w.ws_col : 80;
}

/* Clears each line first: after a line that fills the width, the cursor stands on its last character. */
void terminal_draw(const char *text, size_t len)
{
	char *all = NULL;
	size_t size;
	FILE *f = open_memstream(&all, &size);
	if (!f)
		return;
	fputs("\033[H\033[K", f);
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\n')
			fputs("\r\n\033[K", f);
		else
			putc(text[i], f);
	if (fclose(f) == 0)
		(void)fd_write_all(STDOUT_FILENO, all, size);
	free(all);
}

/* Lets the signal take its effect; returns only after a signal that stops. */
static void raise_signal(struct terminal *s, int number)
{
	sigset_t one;
	leave_screen(s);
	sigemptyset(&one);
	sigaddset(&one, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
	enter_screen(s);
}

static int on_signal(struct terminal *s)
{
	struct signalfd_siginfo info;
	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return TERMINAL_TIMEOUT;
	if (info.ssi_signo == SIGINT)
		return TERMINAL_END;
	if (info.ssi_signo != SIGWINCH)
		raise_signal(s, (int)info.ssi_signo);
	return TERMINAL_RESIZED;
}

static int next_byte(int timeout_ms)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char c;
	return poll(&p, 1, timeout_ms) == 1 && read(STDIN_FILENO, &c, 1) == 1 ? c : -1;
}

/* Reads a key after its Esc: "[A", "OA", "[5~". Skips unknown ones. */
static int read_escape_sequence(void)
{
	static const struct {
		char last;
		int number, key;
	} keys[] = {{'A', 0, TERMINAL_UP}, {'B', 0, TERMINAL_DOWN}, {'H', 0, TERMINAL_HOME}, {'F', 0, TERMINAL_BOTTOM},
		{'~', 5, TERMINAL_PAGE_UP}, {'~', 6, TERMINAL_PAGE_DOWN}, {'~', 1, TERMINAL_HOME},
		{'~', 4, TERMINAL_BOTTOM}};
	int c = next_byte(ESCAPE_MS), number = 0;
	if (c != '[' && c != 'O')
		return c < 0 ? 033 : TERMINAL_TIMEOUT;
	while ((c = next_byte(ESCAPE_MS)) >= 0x20 && c < 0x40)
		number = c >= '0' && c <= '9' && number < 100 ? number * 10 + c - '0' : number;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].last == c && (c != '~' || keys[i].number == number))
			return keys[i].key;
	return TERMINAL_TIMEOUT;
}

int terminal_wait(struct terminal *s, int timeout_ms)
{
	struct pollfd p[] = {{.fd = s->signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
	if (poll(p, 2, timeout_ms) <= 0)
		return TERMINAL_TIMEOUT;
	if (p[0].revents)
		return on_signal(s);
	const int c = next_byte(0);
	return c == 033 ? read_escape_sequence() : c < 0 ? TERMINAL_END : c;
}
