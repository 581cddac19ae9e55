/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deny SYSCALL[,SYSCALL...] ERRNO|kill COMMAND [ARG...] - run a command for which these system calls fail with
 * this errno (or kill the process), by a seccomp filter that all its children inherit. So the tests get the
 * refusals of other kernels, policies and full tables on demand.
 *
 * Root keeps its powers: no_new_privs stays unset, setuid programs work below. A plain user cannot load a filter
 * without it, so there it is set.
 * Exit: 125 when the filter cannot be made, 126 or 127 when the command cannot be run, else the command's own.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OURS 125

static const struct {
	const char *name;
	int number;
} errnos[] = {
	{"EPERM", EPERM},
	{"EACCES", EACCES},
	{"ENOSYS", ENOSYS},
	{"EINVAL", EINVAL},
	{"EMFILE", EMFILE},
	{"ENFILE", ENFILE},
	{"ENOMEM", ENOMEM},
	{"ENOSPC", ENOSPC},
	{"EBUSY", EBUSY},
	{"EAGAIN", EAGAIN},
	{"EINTR", EINTR},
	{"EIO", EIO},
	{"ENOENT", ENOENT},
	{"ENODEV", ENODEV},
	{"ESRCH", ESRCH},
	{"E2BIG", E2BIG},
	{"EROFS", EROFS},
	{"EDQUOT", EDQUOT},
	{"EOPNOTSUPP", EOPNOTSUPP},
};

static void complain(const char *what, const char *name)
{
	fprintf(stderr, "deny: %s%s\n", what, name);
	exit(OURS);
}

static uint32_t parse_action(const char *text)
{
	if (!strcmp(text, "kill"))
		return SCMP_ACT_KILL_PROCESS;
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
		if (!strcmp(text, errnos[i].name))
			return SCMP_ACT_ERRNO(errnos[i].number);
	complain("not an errno that I know, nor \"kill\": ", text);
	return 0;
}

static void load_filter(char *names, uint32_t action)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	char *rest = NULL;
	int r;

	if (!filter)
		complain("no filter: ", strerror(ENOMEM));
	if (geteuid() == 0)
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
	for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		int number = seccomp_syscall_resolve_name(name);

		if (number == __NR_SCMP_ERROR)
			complain("not a system call: ", name);
		r = seccomp_rule_add(filter, action, number, 0);
		if (r < 0)
			complain("no rule for it: ", name);
	}
	r = seccomp_load(filter);
	if (r < 0)
		complain("the filter is refused: ", strerror(-r));
	seccomp_release(filter);
}

int main(int argc, char **argv)
{
	int why;

	if (argc < 4)
		complain("usage: deny SYSCALL[,SYSCALL...] ERRNO|kill COMMAND [ARG...]", "");
	load_filter(argv[1], parse_action(argv[2]));
	execvp(argv[3], argv + 3);
	why = errno;
	fprintf(stderr, "deny: %s: %s\n", argv[3], strerror(why));
	return why == ENOENT ? 127 : 126;
}
