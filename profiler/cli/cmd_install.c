/* SPDX-License-Identifier: Apache-2.0 */
/* install, uninstall: adds us to the container engines of this host, and removes us again. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "profiler/install/atomic_file.h"
#include "profiler/install/engine_config.h"
#include "profiler/install/file_changes.h"
#include "profiler/install/hooks_dir.h"
#include "profiler/install/templates.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the order of installation; the wrapper is removed last, because containers that began with it end with it. */
static const struct program {
	const char *name, *path;
	mode_t mode;
	bool optional;
} programs[] = {
	{"pillion-runc", ENGINE_CONFIG_WRAPPER, 0755, true},
	{"pillion-nri", "/usr/libexec/pillion/pillion-nri", 0755, true},
	{"libpillion.so", ENGINE_CONFIG_LIBRARY, 0644, true},
	{"pilliond", "/usr/libexec/pillion/pilliond", 0755, false},
	{"pillion-opener", "/usr/libexec/pillion/pillion-opener", 0755, false},
	{"pillion", "/usr/bin/pillion", 0755, false},
	{"pillion-hook", ENGINE_CONFIG_HOOK, 0755, false},
};
#define N_PROGRAMS (sizeof(programs) / sizeof(programs[0]))

struct asked {
	const char *root, *from, *print;
	bool dry;
};

/* A directory of programs, or a tree that they were installed into (make install DESTDIR=DIR). */
static int open_program(const char *from, const struct program *p, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s%s", from, p->path);
	int fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd != -ENOENT && fd != -ENOTDIR)
		return fd;
	snprintf(path, PATH_MAX, "%s/%s", from, p->name);
	return fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
}

static int copy_program(struct engine_config *r, const char *from, const struct program *p, struct err *e)
{
	char path[PATH_MAX], *data = NULL;
	size_t len;
	fd_auto fd = open_program(from, p, path);
	if (fd == -ENOENT && p->optional)
		return 0;
	int n = fd < 0 ? fd : fd_slurp(fd, ATOMIC_FILE_FILE_MAX, &data, &len);
	if (n < 0)
		return err_set(e, n, "cannot read %s", path);
	const struct file_change c = {.path = p->path, .data = data, .len = len, .mode = p->mode, .program = true};
	n = engine_config_put(r, &c, NULL, e);
	free(data);
	return n;
}

static int copy_programs(struct engine_config *r, const char *from, struct err *e)
{
	int n = 0;
	for (size_t i = 0; n == 0 && i < N_PROGRAMS; i++) {
		n = copy_program(r, from, &programs[i], e);
		if (n == -ELOOP && programs[i].optional) /* the library, of 'make install' */
			n = 0;
	}
	return n;
}

/* --- uninstall ----------------------------------------------------------------------------------------------- */

static bool has_text(int dir, const char *name, const char *what)
{
	char text[8192];
	fd_auto fd = fd_open_beneath(dir, name, O_RDONLY | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : fd_read_all(fd, text, sizeof(text) - 1);
	return n > 0 && memmem(text, (size_t)n, what, strlen(what));
}

static DIR *open_list(int dir, const char *path)
{
	int fd = fd_open_beneath(dir, path, O_RDONLY | O_DIRECTORY);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (!list)
		fd_close(fd);
	return list;
}

/* Checks a directory of containerd's shims: a shim calls the runtime that it began with until its container is
 * gone. */
static bool shims_use_wrapper(int root, const char *tasks)
{
	DIR *namespaces = open_list(root, tasks), *bundles;
	bool used = false;
	for (struct dirent *ns; namespaces && !used && (ns = readdir(namespaces));) {
		bundles = ns->d_name[0] == '.' ? NULL : open_list(dirfd(namespaces), ns->d_name);
		for (struct dirent *b; bundles && !used && (b = readdir(bundles));) {
			char path[600];
			snprintf(path, sizeof(path), "%s/runtime", b->d_name);
			used = b->d_name[0] != '.' && has_text(dirfd(bundles), path, "pillion-runc");
			snprintf(path, sizeof(path), "%s/options.json", b->d_name);
			used = used || (b->d_name[0] != '.' && has_text(dirfd(bundles), path, "pillion-runc"));
		}
		if (bundles)
			closedir(bundles);
	}
	if (namespaces)
		closedir(namespaces);
	return used;
}

/* Checks containerd, and the one that dockerd starts for itself where there is none. */
static bool wrapper_in_use(int root)
{
	static const char *const states[] = {"/run/containerd", "/run/docker/containerd/daemon"};
	bool used = false;
	for (size_t i = 0; !used && i < sizeof(states) / sizeof(states[0]); i++) {
		char tasks[96];
		snprintf(tasks, sizeof(tasks), "%s/io.containerd.runtime.v2.task", states[i]);
		used = shims_use_wrapper(root, tasks);
	}
	return used;
}

/* Returns a file that names the program, because it was edited and therefore left, or was never ours: an engine would
 * not find the program. */
static const char *who_names(int root, const char *program)
{
	static const char *const files[] = {
		HOOKS_DIR "/" HOOKS_DIR_FILE, "/etc/cdi/pillion.json", "/etc/docker/daemon.json"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (has_text(root, files[i], program))
			return files[i];
	return NULL;
}

static int may_go(int root, const char *path, bool dry, struct err *e)
{
	const char *file = dry ? NULL : who_names(root, path);
	if (file)
		return err_say(e, -EBUSY,
			"%s stays: %s names it; take that file away, or the name out of it, and run "
			"'pillion uninstall' again",
			path, file);
	if (!strcmp(path, ENGINE_CONFIG_WRAPPER) && wrapper_in_use(root))
		return err_say(e, -EBUSY,
			"%s stays: there are containers that were started by it and need it to end; run 'pillion "
			"uninstall' again without them",
			path);
	return 0;
}

static void tell_fate(int fate, const char *path)
{
	static const char *const fates[] = {
		[HOSTFILE_AS_IT_WAS] = "as it was: %s\n",
		[HOSTFILE_REMOVED] = "removed %s\n",
		[HOSTFILE_RESTORED] = "restored %s\n",
		[HOSTFILE_WITHOUT_US] = "took ours out of %s, which was edited since it was installed\n",
		[HOSTFILE_LEFT] = "left as it is: %s, which was edited or removed since it was installed\n",
	};
	printf(fates[fate], path);
}

/* Undoes all down to `keep` files. */
static int take_back(struct file_changes *h, bool dry, struct err *e)
{
	int fate = 0;
	while (fate >= 0 && file_changes_count(h)) {
		const char *last = file_changes_path(h, file_changes_count(h) - 1);
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s", last);
		fate = may_go(file_changes_root(h), path, dry, e);
		if (fate == 0)
			fate = file_changes_take_back_last(h, e);
		if (fate >= 0 && !dry)
			tell_fate(fate, path);
		else if (fate >= 0)
			printf("would take back %s\n", path);
	}
	return fate < 0 ? fate : dry ? 0 : file_changes_forget(h, e);
}

/* --- the commands -------------------------------------------------------------------------------------------- */

static int read_arguments(int argc, char **argv, struct asked *a)
{
	const bool installs = !strcmp(argv[0], "install");
	const struct command_option options[] = {{.name = "--root", .value = &a->root},
		{.name = "--dry-run", .on = &a->dry}, {.name = installs ? "--from" : NULL, .value = &a->from},
		{.name = "--print", .value = &a->print}, {0}};
	a->root = "/";
	int n = command_options(argc, argv, options);
	if (n > 0)
		return command_fail(argv[0], -EINVAL, "it takes no argument, so '%s' is one too many", argv[1]);
	return n;
}

static int print_runtimeclass(const char *what)
{
	if (strcmp(what, "runtimeclass") != 0)
		return command_fail("install", EXIT_USAGE, "'%s' cannot be printed: --print takes runtimeclass", what);
	char *text = template_fill(TEMPLATE_RUNTIMECLASS, NULL);
	if (!text)
		return command_fail("install", EXIT_FAILED, "there is no memory");
	fputs(text, stdout);
	free(text);
	return EXIT_DONE;
}

static int open_files(const char *name, const struct asked *a, struct file_changes **ret)
{
	struct err e = {0};
	if (!a->dry && geteuid() != 0)
		return command_fail(
			name, EXIT_FAILED, "files of the host's are root's: run it as root, or with --dry-run");
	if (file_changes_open(a->root, a->dry, ret, &e) < 0)
		return command_fail(name, EXIT_FAILED, "%s", e.text);
	return EXIT_DONE;
}

/* No space, most likely: nothing stays of a first installation. */
static int give_up(struct file_changes *h, bool first, const struct err *why)
{
	struct err e = {0};
	command_fail("install", EXIT_FAILED, "%s", why->text);
	if (first && take_back(h, false, &e) < 0)
		command_fail("install", EXIT_FAILED, "%s", e.text);
	else if (!first)
		command_fail("install", EXIT_FAILED,
			"each file is whole; 'pillion install' goes on from here, "
			"'pillion uninstall' takes it back");
	return EXIT_FAILED;
}

static int finish_install(const struct engine_config *r, const struct asked *a)
{
	if (!r->engines) {
		return command_fail("install", EXIT_NOTHING,
			"there is no podman, crio, containerd or dockerd in the usual directories of %s: nothing is "
			"registered",
			a->root);
	}
	if (!r->written && !r->refused && !r->by_hand)
		puts("nothing to do: all of it is installed");
	return r->refused ? EXIT_FAILED : EXIT_DONE;
}

static int run_install(int argc, char **argv)
{
	struct asked a = {0};
	struct err e = {0};
	struct engine_config r = {.out = stdout};
	if (read_arguments(argc, argv, &a) < 0)
		return EXIT_USAGE;
	if (a.print)
		return print_runtimeclass(a.print);
	int code = open_files(argv[0], &a, &r.files);
	if (code != EXIT_DONE)
		return code;
	const bool first = file_changes_count(r.files) == 0;
	r.dry = a.dry;
	r.brought = a.from != NULL;
	int n = a.from ? copy_programs(&r, a.from, &e) : 0;
	if (n == 0)
		n = engine_config_install(&r, &e);
	if (n == 0)
		code = finish_install(&r, &a);
	else
		code = a.dry ? command_fail(argv[0], EXIT_FAILED, "%s", e.text) : give_up(r.files, first, &e);
	if (!a.dry && file_changes_count(r.files) == 0)
		file_changes_forget(r.files, NULL);
	file_changes_close(r.files);
	return code;
}

static int run_uninstall(int argc, char **argv)
{
	struct asked a = {0};
	struct err e = {0};
	struct file_changes *h;
	if (read_arguments(argc, argv, &a) < 0)
		return EXIT_USAGE;
	int code = open_files(argv[0], &a, &h);
	if (code != EXIT_DONE)
		return code;
	if (!file_changes_count(h))
		puts("nothing is installed that 'pillion install' put here");
	if (take_back(h, a.dry, &e) < 0)
		code = command_fail(argv[0], EXIT_FAILED, "%s", e.text);
	file_changes_close(h);
	return code;
}

const struct command cmd_install = {
	.name = "install",
	.line = "make the container engines of this host know of pillion",
	.help = "usage: pillion install [--root DIR] [--from DIR] [--dry-run]\n"
		"       pillion install --print runtimeclass\n"
		"\n"
		"Looks which engines are here (podman, CRI-O, containerd, Docker) and writes what each needs: "
		"hooks.d,\n"
		"a runtime handler, a runtime in daemon.json, a CDI specification. Each file is shown to the engine's "
		"own\n"
		"parser before it comes to its place, and none is written that makes it forget a setting. What is to "
		"be\n"
		"done by hand, and what wants a restart, is said and not done. 'pillion uninstall' takes all of it "
		"back.\n"
		"Needs root.\n"
		"\n"
		"  --from DIR     copy the programs from there, too: it has them, or is the tree of 'make install "
		"DESTDIR=DIR';\n"
		"                 else they are where a package or 'make install' put them\n"
		"  --root DIR     of another file tree than /, as of the host in a container\n"
		"  --dry-run      say what would be written, and write nothing\n"
		"  --print WHAT   runtimeclass: print the manifest for Kubernetes instead\n"
		"\n"
		"example: sudo pillion install\n",
	.run = run_install,
};

const struct command cmd_uninstall = {
	.name = "uninstall",
	.line = "take back all that 'install' did",
	.help = "usage: pillion uninstall [--root DIR] [--dry-run]\n"
		"\n"
		"Restores the host's files byte for byte, the registrations first. A file that was edited since keeps\n"
		"the edit: what is ours is taken out of it, or it is left as it is, and said so. Profiles stay. Needs "
		"root.\n"
		"\n"
		"  --root DIR   of another file tree than /, as of the host in a container\n"
		"  --dry-run    say what would be taken back, and change nothing\n"
		"\n"
		"example: sudo pillion uninstall\n",
	.run = run_uninstall,
};
