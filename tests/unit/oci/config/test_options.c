/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/options.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

static void same_fds(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

/* --- values ------------------------------------------------------------------------------------------------- */

static const struct value_case {
	const char *scenario;
	enum option_source source;
	const char *name, *value;
	int code;
	const char *sentence; /* part of the error */
} value_cases[] = {
	{"a list of events", OPTION_FLAG, "events", "cpu,offcpu:99", 0, NULL},
	{"no event at all", OPTION_FLAG, "events", "", -EINVAL, "--events: \"\" is not an event list"},
	{"a terminal escape in events", OPTION_FLAG, "events", "cpu\033[2J", -EINVAL, "\"cpu?[2J\""},
	{"stacks by a word", OPTION_FILE, "stacks", "dwarf", 0, NULL},
	{"the beginning of a word", OPTION_FILE, "stacks", "dwar", -EINVAL, "auto, fp, dwarf, none"},
	{"two words", OPTION_FILE, "stacks", "fp, dwarf", -EINVAL, "stacks: "},
	{"attach by a word", OPTION_ENV, "attach", "process", 0, NULL},
	{"an empty word", OPTION_ENV, "attach", "", -EINVAL, "PILLION_ATTACH: "},
	{"the shortest window", OPTION_ANNOTATION, "window", "5s", 0, NULL},
	{"the longest window, in hours", OPTION_ANNOTATION, "window", "1h", 0, NULL},
	{"a window below the shortest", OPTION_ANNOTATION, "window", "4s", -EINVAL,
		"io.pillion.window: \"4s\" is not 5s to 3600s"},
	{"a window above the longest", OPTION_ANNOTATION, "window", "3601s", -EINVAL, "3600s"},
	{"a window without unit", OPTION_ANNOTATION, "window", "60", -EINVAL, "60"},
	{"a negative window", OPTION_ANNOTATION, "window", "-60s", -EINVAL, "-60s"},
	{"a window of broken seconds", OPTION_ANNOTATION, "window", "5500ms", -EINVAL, "5500ms"},
	{"a window that overflows 64 bits", OPTION_ANNOTATION, "window", "18446744073709551676s", -EINVAL,
		"18446744073709551676s"},
	{"a window that overflows in its unit", OPTION_ANNOTATION, "window", "18446744073709551d", -EINVAL, "d"},
	{"the shortest budget", OPTION_ENV, "budget", "50ms", 0, NULL},
	{"a budget of 49 ms", OPTION_ENV, "budget", "49ms", -EINVAL, "PILLION_BUDGET: \"49ms\" is not 50ms to 5s"},
	{"a budget of 6 s", OPTION_ENV, "budget", "6s", -EINVAL, "5s"},
	{"a spool size in MiB", OPTION_FILE, "spool-size", "64MiB", 0, NULL},
	{"metrics off", OPTION_FLAG, "metrics", "off", 0, NULL},
	{"metrics at a path", OPTION_FILE, "metrics", "/run/x.sock", 0, NULL},
	{"metrics at a path too long", OPTION_FILE, "metrics",
		"/12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901"
		"2345678",
		-EINVAL, "metrics: \"/1234"},
	{"metrics on a port", OPTION_FLAG, "metrics", "127.0.0.1:9100", 0, NULL},
	{"metrics on the last port", OPTION_FLAG, "metrics", "127.0.0.1:65535", 0, NULL},
	{"metrics behind the last port", OPTION_FLAG, "metrics", "127.0.0.1:65536", -EINVAL,
		"is not off, an absolute path"},
	{"metrics on port 0", OPTION_FLAG, "metrics", "127.0.0.1:0", -EINVAL, "is not off"},
	{"metrics on no port", OPTION_FLAG, "metrics", "127.0.0.1:", -EINVAL, "is not off"},
	{"metrics on a port and more", OPTION_FLAG, "metrics", "127.0.0.1:80x", -EINVAL, "is not off"},
	{"metrics for everybody", OPTION_FLAG, "metrics", "0.0.0.0:9100", -EINVAL, "is not off"},
	{"metrics nowhere", OPTION_FLAG, "metrics", "", -EINVAL, "is not off"},
	{"metrics, by a tenant", OPTION_ANNOTATION, "metrics", "off", -ENOENT, "no such option"},
	{"a group of users", OPTION_FILE, "users-group", "users", 0, NULL},
	{"a group of users, by a tenant", OPTION_ANNOTATION, "users-group", "users", -ENOENT, "no such option"},
	{"two groups of users", OPTION_FILE, "users-group", "users, adm", -EINVAL, "users_group: \"users, adm\""},
	{"a group with a colon", OPTION_FILE, "users-group", "users:", -EINVAL, "is not the name of a group"},
	{"as many users as can be", OPTION_FLAG, "users-max", "16", 0, NULL},
	{"more users than can be", OPTION_FLAG, "users-max", "17", -EINVAL, "1 to 16"},
	{"no users", OPTION_FLAG, "users-max", "0", -EINVAL, "1 to 16"},
	{"a share", OPTION_FILE, "cpu-budget", "2%", 0, NULL},
	{"a share without its sign", OPTION_FILE, "cpu-budget", "2", 0, NULL},
	{"a share with decimals", OPTION_FILE, "cpu-budget", "0.125%", 0, NULL},
	{"a share too fine", OPTION_FILE, "cpu-budget", "0.1251%", -EINVAL, "cpu_budget: \"0.1251%\""},
	{"a share without digits", OPTION_FILE, "cpu-budget", ".5%", -EINVAL, "cpu_budget"},
	{"a share that ends in a point", OPTION_FILE, "cpu-budget", "1.%", -EINVAL, "cpu_budget"},
	{"a share of more than all", OPTION_FILE, "cpu-budget", "100.001%", -EINVAL, "cpu_budget"},
	{"two points", OPTION_FILE, "cpu-budget", "1.2.3%", -EINVAL, "cpu_budget"},
	{"no bound of samples", OPTION_FILE, "target-rate", "0", 0, NULL},
	{"no target at all", OPTION_FILE, "targets", "0", -EINVAL, "targets"},
	{"a spool size in MB", OPTION_FILE, "spool-size", "64MB", -EINVAL, "spool_size: \"64MB\""},
	{"a spool age in days", OPTION_FILE, "spool-age", "30d", 0, NULL},
	{"a spool that is not absolute", OPTION_FILE, "spool", "profiles", -EINVAL, "absolute"},
	{"logging to stderr", OPTION_FLAG, "log", "stderr", 0, NULL},
	{"logging to a relative file", OPTION_FLAG, "log", "x.log", -EINVAL, "--log: \"x.log\""},
	{"an unknown log level", OPTION_FLAG, "log-level", "loud", -EINVAL, "error, warn, info, debug"},
	{"strict from the policy", OPTION_POLICY, "strict", "yes", 0, NULL},
	{"the rate limit from the policy", OPTION_POLICY, "max-rate", "199", 0, NULL},
	{"a rate limit of zero", OPTION_POLICY, "max-rate", "0", -EINVAL, "1 to 100000"},
	{"one container of ten, from the policy", OPTION_POLICY, "sample-containers", "10", 0, NULL},
	{"one container of none", OPTION_POLICY, "sample-containers", "0", -EINVAL,
		"sample_containers: \"0\" is not 1 to 1000000"},
	{"a part of a container", OPTION_POLICY, "sample-containers", "0.5", -EINVAL, "0.5"},
	{"sampling by annotation", OPTION_ANNOTATION, "sample-containers", "1", -ENOENT, "sample-containers"},
	{"sampling from a file", OPTION_FILE, "sample-containers", "1", -ENOENT, "sample-containers"},
	{"strict from the environment", OPTION_ENV, "strict", "1", 0, NULL},
	{"an output that is not absolute", OPTION_FLAG, "output", "here", 0, NULL},
	{"an output without name", OPTION_FLAG, "output", "", -EINVAL, "a path"},
	{"strict from a file", OPTION_FILE, "strict", "1", -ENOENT, "strict"},
	{"strict by annotation", OPTION_ANNOTATION, "strict", "1", -ENOENT, "strict"},
	{"a socket by annotation", OPTION_ANNOTATION, "control", "/tmp/x", -ENOENT, "control"},
	{"a program by annotation", OPTION_ANNOTATION, "daemon", "/tmp/x", -ENOENT, "daemon"},
	{"the spool in the policy", OPTION_POLICY, "spool", "/x", -ENOENT, "spool"},
	{"the switch by annotation", OPTION_ANNOTATION, "profile", "on", 0, NULL},
	{"the flag's name as an annotation", OPTION_ANNOTATION, "events", "on", -ENOENT, "events"},
	{"the annotation's name as a flag", OPTION_FLAG, "profile", "on", -ENOENT, "profile"},
	{"no labels", OPTION_FLAG, "labels", "", 0, NULL},
	{"labels, one of them empty, one with '='", OPTION_FLAG, "labels", "a=,b.c-d_e=x=y, f=z", 0, NULL},
	{"sixteen labels", OPTION_FLAG, "labels", "a=,b=,c=,d=,e=,f=,g=,h=,i=,j=,k=,l=,m=,n=,o=,p=", 0, NULL},
	{"a detail", OPTION_ANNOTATION, "detail", "time", 0, NULL},
	{"all details", OPTION_FLAG, "detail", "cpu,time,cgroup", 0, NULL},
	{"details as help writes them", OPTION_FLAG, "detail", "cpu, time", 0, NULL},
	{"a detail twice", OPTION_FLAG, "detail", "cpu,cpu", 0, NULL},
	{"no such detail", OPTION_FLAG, "detail", "cpu,moon", -EINVAL, "cpu, time, cgroup"},
	{"part of a detail", OPTION_FLAG, "detail", "tim", -EINVAL, "cpu, time, cgroup"},
	{"a comma behind details", OPTION_FLAG, "detail", "cpu,", -EINVAL, "cpu, time, cgroup"},
	{"no detail", OPTION_FLAG, "detail", "", -EINVAL, "cpu, time, cgroup"},
	{"raw counters, by a tenant", OPTION_ANNOTATION, "raw", "yes", -ENOENT, "no such option"},
	{"raw counters from the policy", OPTION_POLICY, "raw", "yes", 0, NULL},
	{"seventeen labels", OPTION_FLAG, "labels", "a=,b=,c=,d=,e=,f=,g=,h=,i=,j=,k=,l=,m=,n=,o=,p=,q=", -EINVAL,
		"at most 16"},
	{"a label without '='", OPTION_FLAG, "labels", "team", -EINVAL, "\"team\""},
	{"a label without key", OPTION_FLAG, "labels", "=x", -EINVAL, "=x"},
	{"a label key that begins with a digit", OPTION_FLAG, "labels", "1a=x", -EINVAL, "1a"},
	{"a label key with a slash", OPTION_FLAG, "labels", "a/b=x", -EINVAL, "a/b"},
	{"a label value with a newline", OPTION_FLAG, "labels", "a=x\ny", -EINVAL, "a=x?y"},
	{"the same label twice", OPTION_FLAG, "labels", "a=1,a=2", -EINVAL, "a=1,a=2"},
	{"a comma at the end of labels", OPTION_FLAG, "labels", "a=1,", -EINVAL, "a=1,"},
};

START_TEST(values_are_parsed_or_refused)
{
	const struct value_case *c = &value_cases[_i];
	struct options o, before;
	struct err e = {0};

	options_default(&o);
	before = o;
	int r = options_set(&o, c->source, c->name, c->value, &e);
	ck_assert_msg(r == c->code, "%s: %d \"%s\"", c->scenario, r, e.text);
	if (c->code < 0) {
		ck_assert_msg(strstr(e.text, c->sentence) != NULL, "%s: \"%s\"", c->scenario, e.text);
		ck_assert_msg(memcmp(&o, &before, sizeof(o)) == 0, "%s: changed although refused", c->scenario);
	}
	same_fds();
}
END_TEST

START_TEST(values_land_in_their_fields)
{
	struct options o;

	options_default(&o);
	options_set(&o, OPTION_FLAG, "events", "on", NULL);
	options_set(&o, OPTION_FLAG, "stacks", "none", NULL);
	options_set(&o, OPTION_FLAG, "attach", "cgroup", NULL);
	options_set(&o, OPTION_FLAG, "window", "2m", NULL);
	options_set(&o, OPTION_FLAG, "labels", "team=web, tier=a=b", NULL);
	options_set(&o, OPTION_FLAG, "detail", "cgroup, cpu", NULL);
	ck_assert_uint_eq(o.request.detail, DETAIL_CGROUP | DETAIL_CPU);
	options_set(&o, OPTION_FLAG, "budget", "2s", NULL);
	options_set(&o, OPTION_FLAG, "spool-size", "64MiB", NULL);
	options_set(&o, OPTION_FLAG, "spool-age", "2h", NULL);
	options_set(&o, OPTION_FLAG, "log-level", "debug", NULL);
	options_set(&o, OPTION_FLAG, "enabled", "off", NULL);
	ck_assert_str_eq(o.request.events, "cpu");
	ck_assert_uint_eq(o.request.stacks, STACKS_NONE);
	ck_assert_uint_eq(o.request.attach, ATTACH_CGROUP);
	ck_assert_uint_eq(o.request.window_s, 120);
	ck_assert_uint_eq(o.request.n_labels, 2);
	ck_assert_str_eq(o.request.labels[1].key, "tier");
	ck_assert_str_eq(o.request.labels[1].value, "a=b");
	ck_assert_uint_eq(o.settings.budget_ms, 2000);
	ck_assert_uint_eq(o.settings.spool_bytes, 64u << 20);
	ck_assert_uint_eq(o.settings.spool_age_s, 7200);
	ck_assert_int_eq(o.settings.log_level, LOG_DEBUG);
	ck_assert(!o.settings.enabled);
	same_fds();
}
END_TEST

START_TEST(defaults_are_those_of_the_manual)
{
	struct options o;
	struct request r;

	options_default(&o);
	ck_assert_str_eq(o.request.events, "cpu");
	ck_assert_uint_eq(o.request.window_s, 60);
	ck_assert(o.settings.enabled && !o.settings.strict);
	ck_assert_uint_eq(o.settings.budget_ms, 500);
	ck_assert_uint_eq(o.settings.policy.max_rate, 999);
	ck_assert_uint_eq(o.settings.policy.sample, 1);
	ck_assert_uint_eq(o.settings.spool_bytes, 1u << 30);
	ck_assert_uint_eq(o.settings.spool_age_s, 7 * 86400);
	ck_assert_int_eq(o.settings.log_level, LOG_WARNING);
	ck_assert_str_eq(o.settings.paths.control, "/run/pillion/control.sock");
	ck_assert_str_eq(o.settings.paths.spool, "/var/lib/pillion/profiles");
	ck_assert_str_eq(o.settings.paths.daemon, "/usr/libexec/pillion/pilliond");
	ck_assert_str_eq(o.settings.paths.log, "");
	request_default(&r);
	ck_assert_str_eq(r.events, "");
	ck_assert_uint_eq(r.window_s, 60);
	same_fds();
}
END_TEST

START_TEST(lengths_are_exact)
{
	struct options o;
	char text[600];

	options_default(&o);
	memset(text, 'a', sizeof(text));
	text[255] = 0;
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "events", text, NULL), 0);
	memcpy(text + 255, "a", 2);
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "events", text, NULL), -EINVAL);
	memcpy(text + 63, "=", 1); /* key of 63, value of 128 */
	text[64 + 128] = 0;
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "labels", text, NULL), 0);
	memcpy(text + 64 + 128, "a", 2);
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "labels", text, NULL), -EINVAL);
	memcpy(text + 63, "a=x", 4);
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "labels", text, NULL), -EINVAL);
	memset(text, '/', 108);
	text[108] = 0;
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "control", text, NULL), -EINVAL);
	text[107] = 0;
	ck_assert_int_eq(options_set(&o, OPTION_FLAG, "control", text, NULL), 0);
	same_fds();
}
END_TEST

/* --- files, environment, flags ------------------------------------------------------------------------------ */

static const struct file_case {
	const char *scenario;
	enum option_source source;
	const char *text;
	size_t len; /* 0 = strlen */
	int code;
	const char *sentence;
	uint32_t window_s, max_rate;
} file_cases[] = {
	{"an empty file", OPTION_FILE, "", 0, 0, NULL, 60, 999},
	{"comments, blanks, CRLF, no newline at the end", OPTION_FILE, "# x\n\n \t\r\n window\t=  90s \r\nspool_age=1d",
		0, 0, NULL, 90, 999},
	{"the last of two lines counts", OPTION_FILE, "window = 70s\nwindow = 80s\n", 0, 0, NULL, 80, 999},
	{"an unknown key", OPTION_FILE, "window = 70s\nwindw = 80s\n", 0, -EINVAL, "line 2: no such option: windw", 70,
		999},
	{"a bad value", OPTION_FILE, "\nwindow = soon\n", 0, -EINVAL, "line 2: window: \"soon\" is not 5s to 3600s", 60,
		999},
	{"a line without '='", OPTION_FILE, "window\n", 0, -EINVAL, "line 1: not of the form key = value", 60, 999},
	{"a binary file", OPTION_FILE, "window = 70s\n\0\n", 15, -EINVAL, "is not text", 60, 999},
	{"the policy", OPTION_POLICY, "max_rate = 49\nstrict = on\n", 0, 0, NULL, 60, 49},
	{"a setting in the policy", OPTION_POLICY, "window = 70s\n", 0, -EINVAL, "no such option: window", 60, 999},
	{"the policy's row in a plain file", OPTION_FILE, "max_rate = 49\n", 0, -EINVAL, "no such option: max_rate", 60,
		999},
};

static void write_temporary(char *path, const char *text, size_t len)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, text, len), 0);
	fd_close(fd);
}

START_TEST(files_are_read_line_by_line)
{
	const struct file_case *c = &file_cases[_i];
	char path[] = "/tmp/test_options.XXXXXX";
	struct options o;
	struct err e = {0};

	options_default(&o);
	write_temporary(path, c->text, c->len ? c->len : strlen(c->text));
	int r = options_read_file(&o, c->source, path, &e);
	unlink(path);
	ck_assert_msg(r == c->code, "%s: %d \"%s\"", c->scenario, r, e.text);
	if (c->sentence)
		ck_assert_msg(strstr(e.text, c->sentence) != NULL, "%s: \"%s\"", c->scenario, e.text);
	ck_assert_msg(o.request.window_s == c->window_s, "%s: window %u", c->scenario, o.request.window_s);
	ck_assert_msg(
		o.settings.policy.max_rate == c->max_rate, "%s: rate %u", c->scenario, o.settings.policy.max_rate);
	same_fds();
}
END_TEST

START_TEST(an_absent_file_is_fine_and_a_huge_one_is_not)
{
	char path[] = "/tmp/test_options.XXXXXX";
	struct options o;
	char *text = calloc(1, 70000);

	options_default(&o);
	ck_assert_int_eq(options_read_file(&o, OPTION_FILE, "/nonexistent/pillion.conf", NULL), 0);
	memset(text, '\n', 70000);
	write_temporary(path, text, 70000);
	ck_assert_int_eq(options_read_file(&o, OPTION_FILE, path, NULL), -EFBIG);
	unlink(path);
	free(text);
	same_fds();
}
END_TEST

START_TEST(the_environment_overrides_and_explains)
{
	struct options o;
	struct err e = {0};

	options_default(&o);
	setenv("PILLION_LOG_LEVEL", "info", 1);
	setenv("PILLION_STRICT", "1", 1);
	setenv("PILLION_OUTPUT", "/somewhere", 1);
	ck_assert_int_eq(options_read_env(&o, &e), 0);
	ck_assert_int_eq(o.settings.log_level, LOG_INFO);
	ck_assert_msg(o.settings.strict, "strict was not taken from the environment");
	ck_assert_str_eq(o.settings.paths.output, "/somewhere");
	ck_assert_msg(o.settings.command.output_explicit, "a variable is explicit");
	setenv("PILLION_SPOOL_SIZE", "much", 1);
	ck_assert_int_eq(options_read_env(&o, &e), -EINVAL);
	ck_assert_ptr_nonnull(strstr(e.text, "PILLION_SPOOL_SIZE: \"much\" is not 1MiB"));
	unsetenv("PILLION_LOG_LEVEL");
	unsetenv("PILLION_STRICT");
	unsetenv("PILLION_OUTPUT");
	unsetenv("PILLION_SPOOL_SIZE");
	same_fds();
}
END_TEST

static const struct flag_case {
	const char *scenario;
	const char *argv[8];
	int next; /* index of the first argument that is not ours */
	const char *sentence;
	uint32_t window_s;
	bool strict;
} flag_cases[] = {
	{"no arguments", {"run"}, 1, NULL, 60, false},
	{"a program alone", {"run", "app", "--window", "70s"}, 1, NULL, 60, false},
	{"a value as the next argument", {"run", "--window", "70s", "app"}, 3, NULL, 70, false},
	{"a value behind '='", {"run", "--window=70s", "app", "-x"}, 2, NULL, 70, false},
	{"a switch does not eat the program", {"run", "--strict", "app"}, 2, NULL, 60, true},
	{"a switch with a value", {"run", "--strict=no", "app"}, 2, NULL, 60, false},
	{"'--' ends our part", {"run", "--strict", "--", "--window"}, 3, NULL, 60, true},
	{"a single dash is a program's argument", {"run", "-"}, 1, NULL, 60, false},
	{"the value is missing", {"run", "--window"}, 2, "--window needs a value: 5s to 3600s", 60, false},
	{"an unknown flag", {"run", "--windows=70s"}, 2, "no such option: --windows=70s; is --window meant?", 60,
		false},
	{"one that is near takes a value as it would", {"run", "--windwo", "70s", "app"}, 3, "is --window meant?", 60,
		false},
	{"near a switch", {"run", "--strcit", "app"}, 2, "is --strict meant?", 60, false},
	{"near nothing", {"run", "--colour", "app"}, 2, "no such option: --colour", 60, false},
	{"a short flag", {"run", "-w", "70s"}, 2, "no such option: -w", 60, false},
	{"what stands in front of '--' is no program", {"run", "-F", "prof", "--", "app"}, 4, "no such option: -F", 60,
		false},
	{"nor with options between", {"run", "-F", "prof", "--window", "70s", "--", "app"}, 6, "no such option: -F", 70,
		false},
	{"a program's own '--'", {"run", "-F", "prof", "run", "--", "app"}, 2, "no such option: -F", 60, false},
	{"a program's own '--', without a mistake", {"run", "--strict", "app", "--", "x"}, 2, NULL, 60, true},
	{"a letter", {"run", "-o", "there", "app"}, 3, NULL, 60, false},
	{"a letter with '='", {"run", "-o=there", "app"}, 2, NULL, 60, false},
	{"a letter of none", {"run", "-oo", "app"}, 2, "no such option: -oo", 60, false},
	{"a switch and 1", {"run", "--strict", "1", "app"}, 3, NULL, 60, true},
	{"a switch and 0", {"run", "--strict", "0", "--", "app"}, 4, NULL, 60, false},
	{"a switch and a program that is a word", {"run", "--strict", "true", "x"}, 2, NULL, 60, true},
	{"a switch and a word", {"run", "--strict", "false", "--", "app"}, 4, NULL, 60, false},
	{"a switch and a word that is none", {"run", "--strict", "maybe", "--", "app"}, 2, NULL, 60, true},
	{"no value in front of '--'", {"run", "--window", "--", "app"}, 3, "--window needs a value", 60, false},
	{"a policy row as a flag", {"run", "--max-rate=5"}, 2, "no such option", 60, false},
	{"what follows a mistake counts, and the program is found", {"run", "-w", "--window", "3s", "--strict", "app"},
		5, "no such option: -w", 60, true},
};

START_TEST(flags_stop_at_the_program)
{
	const struct flag_case *c = &flag_cases[_i];
	struct options o;
	struct err e = {0};
	int argc = 0;

	while (c->argv[argc])
		argc++;
	options_default(&o);
	int next, r = options_read_flags(&o, argc, (char **)c->argv, &next, &e);
	ck_assert_msg(r == (c->sentence ? -EINVAL : 0), "%s: %d \"%s\"", c->scenario, r, e.text);
	ck_assert_msg(next == c->next, "%s: the program is argument %d", c->scenario, next);
	if (c->sentence)
		ck_assert_msg(strstr(e.text, c->sentence) != NULL, "%s: \"%s\"", c->scenario, e.text);
	ck_assert_msg(o.request.window_s == c->window_s, "%s: window %u", c->scenario, o.request.window_s);
	ck_assert_msg(o.settings.strict == c->strict, "%s: strict", c->scenario);
	if (argc > 1 && !strncmp(c->argv[1], "-o", 2) && !c->sentence)
		ck_assert_str_eq(o.settings.paths.output, "there");
	ck_assert_msg(o.settings.command.output_explicit == !!o.settings.paths.output[0],
		"%s: whether the output is explicit", c->scenario);
	same_fds();
}
END_TEST

START_TEST(help_lists_the_rows_of_a_source)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	options_help(out, OPTION_ANNOTATION);
	options_help(out, OPTION_ENV);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "io.pillion.profile"));
	ck_assert_ptr_nonnull(strstr(text, "on or off (default off)\n")); /* the switch, where it is absent */
	ck_assert_ptr_nonnull(strstr(text, "on or off (default cpu)\n"));
	ck_assert_ptr_nonnull(strstr(text, "PILLION_SPOOL_SIZE"));
	ck_assert_ptr_nonnull(strstr(text, "5s to 3600s (default 60s)\n"));
	ck_assert_ptr_null(strstr(text, "io.pillion.spool"));
	free(text);
	same_fds();
}
END_TEST

UNIT_SUITE(options)
{
	Suite *s = suite_create("options");
	TCase *t = tcase_create("options");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, values_are_parsed_or_refused, 0, LENGTH(value_cases));
	tcase_add_test(t, values_land_in_their_fields);
	tcase_add_test(t, defaults_are_those_of_the_manual);
	tcase_add_test(t, lengths_are_exact);
	tcase_add_loop_test(t, files_are_read_line_by_line, 0, LENGTH(file_cases));
	tcase_add_test(t, an_absent_file_is_fine_and_a_huge_one_is_not);
	tcase_add_test(t, the_environment_overrides_and_explains);
	tcase_add_loop_test(t, flags_stop_at_the_program, 0, LENGTH(flag_cases));
	tcase_add_test(t, help_lists_the_rows_of_a_source);
	suite_add_tcase(s, t);
	return s;
}
