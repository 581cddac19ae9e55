/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/app_socket.h"

#include "oci/base/fd.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEX 32
#define HEADERS_MAX 64
#define SOCKET "app.sock"
#define SWEEP_MAX 256

/* --- the program ----------------------------------------------------------------------------------------- */

/* Does this 64-bit ELF file have no interpreter? */
static bool is_static(int fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr p[HEADERS_MAX];
	const ssize_t size = (ssize_t)(h->e_phnum * sizeof(p[0]));
	if (h->e_phentsize != sizeof(p[0]) || h->e_phnum > HEADERS_MAX ||
		pread(fd, p, (size_t)size, (off_t)h->e_phoff) != size)
		return false;
	for (unsigned i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_INTERP)
			return false;
	return true;
}

/* A sanitizer's library must be loaded first. Names of needed libraries lie near the beginning of the file. */
static const char *sanitizer_of(int fd)
{
	static const char *const libraries[] = {"libasan.so", "libtsan.so", "libclang_rt.asan", "libclang_rt.tsan"};
	static char beginning[256 << 10];
	const ssize_t n = fd_pread_all(fd, beginning, sizeof(beginning), 0);
	for (size_t i = 0; n > 0 && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (memmem(beginning, (size_t)n, libraries[i], strlen(libraries[i])))
			return libraries[i];
	return NULL;
}

/* A script passes: the program that runs it is not known. */
int app_socket_check_program(int fd, const char *program, struct err *e)
{
	const char *sanitizer;
	Elf64_Ehdr h;
	struct stat st;
	if (fstat(fd, &st) == 0 && st.st_mode & (S_ISUID | S_ISGID) && geteuid() != 0)
		return err_say(e, -EPERM, "%s is setuid: the dynamic linker loads nothing of ours into it", program);
	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	if (h.e_ident[EI_CLASS] != ELFCLASS64)
		return err_say(e, -ENOEXEC, "%s is a program of 32 bits: there is no library of ours for it", program);
	if ((sanitizer = sanitizer_of(fd)))
		return err_say(e, -ENOEXEC,
			"%s is built with a sanitizer (%s), which starts with no other library before it", program,
			sanitizer);
	if (is_static(fd, &h))
		return err_say(e, -ENOEXEC,
			"%s is a static program, into which no library can be loaded: link it with libpillion, or "
			"dynamically",
			program);
	return 0;
}

static int check_program(const char *program, struct err *e)
{
	fd_auto fd = fd_open(AT_FDCWD, program, O_RDONLY | O_NONBLOCK, 0);
	return fd < 0 ? 0 : app_socket_check_program(fd, program, e); /* executable, but not readable: not checked */
}

int app_socket_find_library(const struct settings *s, char *buf, size_t size, struct err *e)
{
	const char *slash = strrchr(s->paths.daemon, '/');
	const int n =
		snprintf(buf, size, "%.*s/libpillion.so", slash ? (int)(slash - s->paths.daemon) : 0, s->paths.daemon);
	if (n < 0 || (size_t)n >= size || strpbrk(buf, ": "))
		return err_say(e, -EINVAL,
			"LD_PRELOAD takes no path with a colon or a space in it, as that beside %s has",
			s->paths.daemon);
	return access(buf, R_OK) == 0 ? 0 : err_say(e, -errno, "no %s (make install puts it there)", buf);
}

/* --- the directory and the socket ------------------------------------------------------------------------ */

/* Finds the directory in which directories are made (created if needed), and the prefix of their names. */
static void find_place(char base[static 64], const char **ret_prefix)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const bool root = geteuid() == 0, own = !root && runtime && runtime[0] == '/' && strlen(runtime) < 40;
	*ret_prefix = "";
	if (root || own) {
		snprintf(base, 64, "%s/pillion", root ? "/run" : runtime);
		mkdir(base, root ? 0755 : 0700);
		snprintf(base, 64, "%s/pillion/app", root ? "/run" : runtime);
		if (mkdir(base, root ? 0711 : 0700) == 0 || errno == EEXIST)
			return;
	}
	snprintf(base, 64, "/tmp");
	*ret_prefix = "pillion-";
}

static int check_listener(const char *path)
{
	fd_auto fd = unix_socket_connect(unix_socket_new(SOCK_SEQPACKET), path);
	return fd < 0 ? fd : 0;
}

static bool is_one_of_ours(const char *name, const char *prefix)
{
	const size_t n = strlen(prefix);
	return !strncmp(name, prefix, n) && strlen(name) == n + HEX && strspn(name + n, "0123456789abcdef") == HEX;
}

static void remove_stale_sockets(const char *base, const char *prefix)
{
	DIR *dir = opendir(base);
	unsigned looked = 0;
	const struct dirent *d;
	while (dir && looked < SWEEP_MAX && (d = readdir(dir))) {
		char path[sizeof(((struct app_socket *)0)->socket)], parent[sizeof(path)];
		struct stat st;
		if (!is_one_of_ours(d->d_name, prefix) ||
			fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
			st.st_uid != geteuid())
			continue;
		looked++;
		const int n = snprintf(path, sizeof(path), "%s/%.48s/" SOCKET, base, d->d_name);
		snprintf(parent, sizeof(parent), "%.*s", (int)strlen(base) + 1 + (int)strlen(d->d_name), path);
		const int r = n > 0 && (size_t)n < sizeof(path) ? check_listener(path) : 0;
		if (r == -ECONNREFUSED)
			unlink(path);
		if (r == -ECONNREFUSED)
			rmdir(parent);
	}
	if (dir)
		closedir(dir);
}

static int make_path(char path[static sizeof(((struct app_socket *)0)->socket)])
{
	unsigned char random[HEX / 2];
	char base[64], hex[HEX + 1];
	const char *prefix;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (unsigned i = 0; i < sizeof(random); i++)
		snprintf(hex + 2 * i, 3, "%02x", random[i]);
	find_place(base, &prefix);
	remove_stale_sockets(base, prefix);
	snprintf(path, sizeof(((struct app_socket *)0)->socket), "%s/%s%s", base, prefix, hex);
	/* a program started by root may change its user and must still connect: the random name is the secret */
	if (mkdir(path, 0700) < 0 || (geteuid() == 0 && chmod(path, 0711) < 0))
		return -errno;
	const size_t at = strlen(path);
	snprintf(path + at, sizeof(((struct app_socket *)0)->socket) - at, "/" SOCKET);
	return 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
		chmod(path, geteuid() == 0 ? 0666 : 0600) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	const int r = -errno;
	fd_close(fd);
	return r;
}

static int make_socket(struct app_socket *ret, struct err *e)
{
	int r = make_path(ret->socket);
	if (r == 0)
		r = ret->listener = listen_at(ret->socket);
	if (r < 0) {
		app_socket_forget(ret);
		return err_set(e, r, "no socket for the program");
	}
	return 0;
}

int app_socket_listen(const struct settings *s, const char *program, struct app_socket *ret, struct err *e)
{
	*ret = (struct app_socket)APP_SOCKET_NONE;
	int r = check_program(program, e);
	if (r == 0)
		r = app_socket_find_library(s, ret->library, sizeof(ret->library), e);
	return r < 0 ? r : make_socket(ret, e);
}

int app_socket_listen_for_caller(struct app_socket *ret, struct err *e)
{
	*ret = (struct app_socket)APP_SOCKET_NONE;
	return make_socket(ret, e);
}

int app_socket_environment(const struct app_socket *a)
{
	char list[4096];
	const char *others = getenv("LD_PRELOAD");
	const int n =
		snprintf(list, sizeof(list), "%s%s%s", a->library, others && *others ? ":" : "", others ? others : "");
	if (n < 0 || (size_t)n >= sizeof(list))
		return -E2BIG;
	if (setenv("PILLION_SOCKET", a->socket, 1) < 0 || setenv("LD_PRELOAD", list, 1) < 0)
		return -errno;
	return 0;
}

void app_socket_forget(struct app_socket *a)
{
	a->listener = fd_close(a->listener);
	char *slash = strrchr(a->socket, '/');
	if (!slash)
		return;
	unlink(a->socket);
	*slash = 0;
	rmdir(a->socket);
	a->socket[0] = 0;
}
