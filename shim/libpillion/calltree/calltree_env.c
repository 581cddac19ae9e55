/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/calltree/calltree_env.h"

#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/calltree/calltree_dump.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/text_writer.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define FILE_SIZE 4096
#define NAME "PILLION_TREE="

static struct {
	char file[FILE_SIZE]; /* absolute; "": none */
	int pid;
} setting;

static bool append_to_path(char *ret, unsigned size, size_t *at, const char *from, size_t n)
{
	if (n >= size || *at >= size - n)
		return false;
	memcpy(ret + *at, from, n);
	*at += n;
	ret[*at] = 0;
	return true;
}

int calltree_env_path(const char *file, int pid, bool forked, char *ret, unsigned size)
{
	char digits[TEXT_DECIMAL_MAX];
	size_t n = text_decimal(digits, 0, (uint64_t)pid), at = 0;
	bool named = false, fits = true;
	for (; *file && fits; file++)
		if (file[0] == '%' && file[1] == 'p') {
			fits = append_to_path(ret, size, &at, digits, n);
			named = true;
			file++;
		} else {
			fits = append_to_path(ret, size, &at, file, 1);
		}
	if (forked && !named)
		fits = fits && append_to_path(ret, size, &at, ".", 1) && append_to_path(ret, size, &at, digits, n);
	return fits && at ? 0 : -ENAMETOOLONG;
}

bool calltree_env_secure(void)
{
	Elf64_auxv_t a;
	long fd = sys_call(open, "/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	bool secure = true;
	while (fd >= 0 && sys_call(read, fd, &a, sizeof(a)) == sizeof(a) && a.a_type != AT_NULL)
		if (a.a_type == AT_SECURE)
			secure = a.a_un.a_val != 0;
	if (fd >= 0)
		sys_call(close, fd);
	return secure;
}

/* Makes the path absolute: the program may change its directory. */
static bool keep_file(const char *file, size_t n)
{
	size_t at = 0;
	if (file[0] != '/') {
		long dir = sys_call(getcwd, setting.file, sizeof(setting.file));
		if (dir <= 1 || setting.file[0] != '/')
			return false;
		at = (size_t)dir - 1;
		if (!append_to_path(setting.file, sizeof(setting.file), &at, "/", 1))
			return false;
	}
	return append_to_path(setting.file, sizeof(setting.file), &at, file, n);
}

bool calltree_env_begin(char *const *environment)
{
	static const char time[] = ",time";
	const char *value = NULL;
	for (; environment && *environment && !value; environment++)
		if (!strncmp(*environment, NAME, strlen(NAME)))
			value = *environment + strlen(NAME);
	if (!value || !*value || calltree_env_secure())
		return false;
	size_t n = strlen(value), suffix = strlen(time);
	bool timed = n >= suffix && !strcmp(value + n - suffix, time);
	const struct calltree_memory memory = {.size = ARENA_SHARED, .own = ARENA_OWN};
	setting.pid = (int)sys_call(getpid);
	n -= timed ? suffix : 0;
	if (!n || !keep_file(value, n) ||
		calltree_start(timed ? calltree_clock_best() : TREE_CLOCK_NONE, &memory) < 0) {
		setting.file[0] = 0;
		return false;
	}
	return true;
}

void calltree_env_end(void)
{
	char path[FILE_SIZE];
	int pid = (int)sys_call(getpid);
	if (setting.file[0] && calltree_env_path(setting.file, pid, pid != setting.pid, path, sizeof(path)) == 0)
		tree_dump(path);
}
