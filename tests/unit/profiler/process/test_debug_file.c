/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile: where debug information is found and where it is not taken from, in a tree of its own made by gcc and
 * objcopy(1); what a file says of itself is then changed byte by byte.
 */
#include "profiler/process/debug_file.h"

#include "oci/base/fd.h"
#include "tests/unit/support/here.h"
#include "tests/unit/support/made.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <sys/mount.h>
#include <sched.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ID "0123456789abcdef0123456789abcdef01234567"
#define ID_DIR "usr/lib/debug/.build-id/01"
#define ID_FILE ID_DIR "/23456789abcdef0123456789abcdef01234567.debug"

static char dir[64];
static int tree = -1, fds_before;
static struct modules *modules;

static void must(const char *command)
{
	char line[2048];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void make(const char *command, const char *files)
{
	ck_assert_msg(made(dir, "int main(void) { return 0; }", command, files) == 0, "%s", command);
}

/*
 * app/p: stripped, names p.debug in .gnu_debuglink. whole: with everything. p.debug, other.debug: of this build-id, of
 * another. n, n.debug: without a build-id.
 */
static void setup(void)
{
	fds_before = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_debugfile.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	must("mkdir -p app/.debug usr/lib/debug/app " ID_DIR " && echo 'int main(void) { return 0; }' >p.c");
	make("gcc -g -o whole -Wl,--build-id=0x" ID " p.c && gcc -g -o whole2 -Wl,--build-id=0x77" ID " p.c && "
	     "objcopy --only-keep-debug whole p.debug && objcopy --only-keep-debug whole2 other.debug && "
	     "strip -o p whole && objcopy --add-gnu-debuglink=p.debug p app/p && "
	     "gcc -g -o n.whole -Wl,--build-id=none p.c && objcopy --only-keep-debug n.whole n.debug && "
	     "strip -o n n.whole && objcopy --add-gnu-debuglink=n.debug n app/n",
		"whole whole2 p p.debug other.debug app/p n n.whole n.debug app/n");
	tree = fd_open_dir(AT_FDCWD, dir);
	ck_assert_int_eq(modules_new(64 << 20, &modules), 0);
}

static void teardown(void)
{
	char command[256];
	modules = modules_free(modules);
	tree = fd_close(tree);
	ck_assert_int_eq(fd_count(), fds_before);
	snprintf(command, sizeof(command), "chmod -R u+rwx %s && rm -rf %s", dir, dir);
	ck_assert_int_eq(system(command), 0);
}

static int open_in_tree(void *arg, const char *path, struct file *ret)
{
	return file_take(fd_open_beneath(tree, path, O_RDONLY | O_NONBLOCK | O_NOCTTY), ret);
}

static int open_on_host(void *arg, const char *path, struct file *ret)
{
	return file_take(fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), ret);
}

static const struct debug_places both = {open_in_tree, open_on_host, NULL};

static struct module *load(const char *path)
{
	struct module_key key = {.path = path};
	struct module *m;
	ck_assert_int_eq(modules_get(modules, &key, open_in_tree, NULL, &m), 0);
	return m;
}

static int find(const char *path, struct debug_files *ret)
{
	struct module *m = load(path);
	int r = debug_files_find(m, &both, ret, NULL);
	module_unref(m);
	return r;
}

/* It is that file of the tree: "" none. */
static void is_file(const struct file *f, const char *name)
{
	struct stat got, want;
	if (!name[0]) {
		ck_assert(!file_is_open(f));
		return;
	}
	ck_assert_msg(file_is_open(f), "%s is not found", name);
	ck_assert_int_eq(fstat(f->fd, &got), 0);
	ck_assert_int_eq(fstatat(tree, name, &want, 0), 0);
	ck_assert_msg(got.st_ino == want.st_ino && got.st_dev == want.st_dev, "it is not %s", name);
}

static void finds(const char *path, const char *debug, const char *alt)
{
	struct debug_files f;
	ck_assert_int_eq(find(path, &f), 0);
	is_file(&f.debug, debug);
	is_file(&f.alt, alt);
	ck_assert(f.separate == (debug[0] && strcmp(path + 1, debug) != 0));
	debug_files_done(&f);
	ck_assert(!file_is_open(&f.debug) && !file_is_open(&f.alt));
}

static const struct {
	const char *name, *command, *debug; /* of /app/p */
} places[] = {
	{"in itself", "cp whole app/p", "app/p"},
	{"in itself, though there is another", "cp whole app/p && cp p.debug app/", "app/p"},
	{"in itself, compressed", "objcopy --compress-debug-sections=zlib whole app/p", "app/p"},
	{"in itself, compressed as GNU did", "objcopy --compress-debug-sections=zlib-gnu whole app/p", "app/p"},
	{"lines alone", "objcopy --remove-section=.debug_info --remove-section=.debug_aranges whole app/p", "app/p"},
	{"nowhere", "true", ""},
	{"by build-id", "cp p.debug " ID_FILE, ID_FILE},
	{"by build-id, before the link", "cp p.debug app && cp p.debug " ID_FILE, ID_FILE},
	{"beside it", "cp p.debug app", "app/p.debug"},
	{"in .debug", "cp p.debug app/.debug", "app/.debug/p.debug"},
	{"below /usr/lib/debug", "cp p.debug usr/lib/debug/app", "usr/lib/debug/app/p.debug"},
	{"beside it first", "cp p.debug app && cp p.debug app/.debug", "app/p.debug"},
	{"a wrong one beside it does not hide the right one",
		"cp other.debug app/p.debug && cp p.debug usr/lib/debug/app", "usr/lib/debug/app/p.debug"},
	{"another build-id, by build-id", "cp other.debug " ID_FILE, ""},
	{"another build-id, by link", "cp other.debug app/p.debug", ""},
	{"another build-id, by link, though the checksum is right",
		"cp other.debug p.debug && objcopy --add-gnu-debuglink=p.debug p app/p && cp p.debug app", ""},
	{"the link is to the file itself", "cp p app/p.debug && objcopy --add-gnu-debuglink=app/p.debug p app/p", ""},
	{"a link to a link", "ln -s ../p.debug app/p.debug", "app/p.debug"},
	{"an absolute link stays in the tree", "ln -s /p.debug app/p.debug", "p.debug"},
	{"a link out of the tree", "ln -s ../../../../../../../../proc/self/exe app/p.debug", ""},
	{"links in a circle", "ln -s p.debug app/p.debug", ""},
	{"a FIFO", "mkfifo app/p.debug app/.debug/p.debug " ID_FILE, ""},
	{"a directory", "mkdir app/p.debug " ID_FILE, ""},
	{"no ELF file", "echo text >app/p.debug && : >" ID_FILE, ""},
	{"a damaged one", "head -c 500 p.debug >app/p.debug && head -c 100 p.debug >" ID_FILE, ""},
	{"half of one does not hide a good one",
		"head -c $(($(stat -c %s p.debug) / 2)) p.debug >" ID_FILE " && cp p.debug app", "app/p.debug"},
	{"a damaged one does not hide a good one", "head -c 500 p.debug >" ID_FILE " && cp p.debug app", "app/p.debug"},
};

START_TEST(of_a_program)
{
	must(places[_i].command);
	finds("/app/p", places[_i].debug, "");
}
END_TEST

/* Without a build-id it is the checksum that says so. */
START_TEST(by_checksum)
{
	finds("/app/n", "", "");
	must("cp n.debug app");
	finds("/app/n", "app/n.debug", "");
	must("printf x >>app/n.debug");
	finds("/app/n", "", "");
	must("cp n.debug app/.debug");
	finds("/app/n", "app/.debug/n.debug", "");
	must("rm app/.debug/n.debug && cp n.debug app && truncate -s 300M app/n.debug"); /* nobody adds that up */
	finds("/app/n", "", "");
}
END_TEST

/*
 * Mounts an empty /usr/lib/debug, which this process alone sees, so that a test that is killed leaves nothing on the
 * host. False: the test is skipped.
 */
static bool mount_debug_dir(void)
{
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		(mkdir("/usr/lib/debug", 0755) == 0 || errno == EEXIST) &&
		mount("none", "/usr/lib/debug", "tmpfs", 0, NULL) == 0)
		return true;
	skip("a mount namespace needs root");
	return false;
}

START_TEST(of_this_host)
{
	static const char dir_of_host[] = "/usr/lib/debug/.build-id/fe";
	const char *name = "fe/dcba98765432100123456789abcdef98765432.debug";
	char command[512];
	struct debug_files f;
	struct stat got, want;
	if (!mount_debug_dir())
		return;
	must("gcc -g -o whole -Wl,--build-id=0xfedcba98765432100123456789abcdef98765432 p.c && strip -o app/h whole");
	snprintf(command, sizeof(command), "mkdir -p %s && objcopy --only-keep-debug whole /usr/lib/debug/.build-id/%s",
		dir_of_host, name);
	must(command);
	int r = find("/app/h", &f);
	snprintf(command, sizeof(command), "/usr/lib/debug/.build-id/%s", name);
	bool same = r == 0 && fstat(f.debug.fd, &got) == 0 && stat(command, &want) == 0 && got.st_ino == want.st_ino;
	ck_assert(same && f.separate);
	debug_files_done(&f);
}
END_TEST

/* `make`: a command that gets the path as "$f". What is in a file is not looked at. */
static const struct {
	const char *name, *make;
	size_t len; /* of the build-id fe dc ba 98, and zeros */
	const char *path;
	int error;
} on_host[] = {
	{"of two bytes", "echo text >$f", 2, "/usr/lib/debug/.build-id/fe/dc.debug", 0},
	{"of four bytes", "echo text >$f", 4, "/usr/lib/debug/.build-id/fe/dcba98.debug", 0},
	{"the longest", "echo text >$f", ELF_BUILD_ID_MAX, NULL, 0},
	{"a link to a file", "echo text >x && ln -s $PWD/x $f", 2, "/usr/lib/debug/.build-id/fe/dc.debug", 0},
	{"not there", "true", 2, "/usr/lib/debug/.build-id/fe/dc.debug", -ENOENT},
	{"a FIFO, which is not waited for", "mkfifo $f", 2, "/usr/lib/debug/.build-id/fe/dc.debug", -EINVAL},
	{"a directory", "mkdir $f", 2, "/usr/lib/debug/.build-id/fe/dc.debug", -EINVAL},
	{"links in a circle", "ln -s $f $f", 2, "/usr/lib/debug/.build-id/fe/dc.debug", -ELOOP},
	{"of one byte", "echo text >$f", 1, "/usr/lib/debug/.build-id/fe/.debug", -ENOENT},
	{"none", "echo text >$f", 0, "/usr/lib/debug/.build-id/fe/.debug", -ENOENT},
};

/* The longest path: a directory for the first byte, and two digits for each of the others. */
static const char *path_of_longest(char *path, size_t size)
{
	int at = snprintf(path, size, "/usr/lib/debug/.build-id/fe/dcba98");
	for (size_t i = 4; i < ELF_BUILD_ID_MAX; i++)
		at += snprintf(path + at, size - (size_t)at, "00");
	snprintf(path + at, size - (size_t)at, ".debug");
	return path;
}

START_TEST(a_file_of_this_host_is_opened_by_build_id)
{
	struct build_id id = {.bytes = {0xfe, 0xdc, 0xba, 0x98}, .len = on_host[_i].len};
	char command[512], longest[256], path[PATH_MAX] = "", text[8] = "";
	struct stat got, there;
	const char *want = on_host[_i].path ? on_host[_i].path : path_of_longest(longest, sizeof(longest));
	if (!mount_debug_dir())
		return;
	snprintf(
		command, sizeof(command), "mkdir -p /usr/lib/debug/.build-id/fe && f=%s && %s", want, on_host[_i].make);
	must(command);
	int fd = debug_files_on_host(&id, path);
	if (on_host[_i].error < 0) {
		ck_assert_msg(fd == on_host[_i].error, "%s: %d", on_host[_i].name, fd);
		return; /* teardown() counts descriptors */
	}
	ck_assert_msg(fd >= 0, "%s: %d", on_host[_i].name, fd);
	ck_assert_str_eq(path, want);
	ck_assert_int_eq(fstat(fd, &got), 0);
	ck_assert_int_eq(stat(want, &there), 0);
	ck_assert(got.st_ino == there.st_ino && got.st_dev == there.st_dev);
	ck_assert_int_eq(read(fd, text, sizeof(text)), 5);
	ck_assert_str_eq(text, "text\n");
	fd_close(fd);
}
END_TEST

/* --- the file itself */

static const struct {
	const char *name, *command, *path;
	int error;
} unusable[] = {
	{"not there", "true", "/app/none", -ENOENT},
	{"a FIFO", "mkfifo app/fifo", "/app/fifo", -EINVAL},
	{"a directory", "true", "/app", -EINVAL},
	{"links in a circle", "ln -s x app/x", "/app/x", -ELOOP},
	{"no ELF file", "echo text >app/text", "/app/text", -ENOEXEC},
	{"an empty file", ": >app/empty", "/app/empty", -ENOEXEC},
};

START_TEST(cannot_be_looked_at)
{
	struct debug_files f = {.debug.fd = 7, .alt.fd = 7, .separate = true};
	struct err e = {0};
	must(unusable[_i].command);
	struct module *m = load(unusable[_i].path);
	int r = debug_files_find(m, &both, &f, &e);
	module_unref(m);
	ck_assert_msg(r == unusable[_i].error, "%s: %d %s", unusable[_i].name, r, e.text);
	ck_assert(e.text[0] && !file_is_open(&f.debug) && !file_is_open(&f.alt) && !f.separate);
}
END_TEST

static const struct {
	const char *path, *command;
	int result;
} replacements[] = {
	{"/whole", "true", 0},
	{"/whole", "cp whole x && mv x whole", 0}, /* the same build-id is the same file */
	{"/whole", "cp whole2 whole", -ESTALE},
	{"/n.whole", "true", 0},
	{"/n.whole", "cp whole n.whole", -ESTALE},
	{"/n.whole", "cp n.whole x && mv x n.whole", -ESTALE}, /* nothing says that it is the same */
	{"/n.whole", "touch n.whole", -ESTALE},
};

START_TEST(replaced_since)
{
	struct debug_files f;
	struct err e = {0};
	struct module *m = load(replacements[_i].path);
	must(replacements[_i].command);
	ck_assert_int_eq(debug_files_find(m, &both, &f, &e), replacements[_i].result);
	ck_assert(file_is_open(&f.debug) == !replacements[_i].result && (file_is_open(&f.debug) || e.text[0]));
	debug_files_done(&f);
	module_unref(m);
}
END_TEST

/* It would be the directory's ".debug". */
START_TEST(a_build_id_of_one_byte)
{
	make("gcc -g -o one -Wl,--build-id=0x77 p.c && objcopy --only-keep-debug one one.debug && strip -o one.p one",
		"one.debug one.p");
	must("cp one.p app/p && mkdir -p usr/lib/debug/.build-id/77 && "
	     "cp one.debug usr/lib/debug/.build-id/77/.debug");
	finds("/app/p", "", "");
}
END_TEST

/* Nothing of what was there before is left. */
START_TEST(facts_of_a_file)
{
	static struct debug_facts clean, used;
	char path[128];
	struct file f;
	memset(&used, 0xa5, sizeof(used));
	snprintf(path, sizeof(path), "%s/p", dir);
	ck_assert_int_eq(open_on_host(NULL, path, &f), 0);
	ck_assert_int_eq(debug_facts_read(file_source(&f), &clean, NULL), 0);
	ck_assert_int_eq(debug_facts_read(file_source(&f), &used, NULL), 0);
	file_close(&f);
	ck_assert_uint_eq(used.id.len, 20);
	ck_assert(!used.has_debug && !used.link[0] && !used.alt[0]);
	ck_assert_mem_eq(&used, &clean, sizeof(used));
}
END_TEST

/* --- .gnu_debuglink and .gnu_debugaltlink that somebody wrote by hand */

static const struct {
	const char *name, *section; /* printf(1) */
} links[] = {
	{"empty", "\\0\\0\\0\\0\\0\\0\\0\\0"},
	{"a slash in it", "../p.debug\\0\\0\\0\\0\\0\\0"},
	{"absolute", "/p.debug\\0\\0\\0\\0\\0\\0\\0\\0"},
	{"the directory above", "..\\0\\0\\0\\0\\0\\0"},
	{"the directory", ".\\0\\0\\0\\0\\0\\0\\0"},
	{"no end", "p.debugp.debug"},
	{"no checksum", "p.debug\\0"},
	{"half a checksum", "p.debug\\0\\0\\0"},
	{"longer than a name may be", "$(head -c 300 /dev/zero | tr '\\0' a)\\0\\0\\0\\0\\0\\0"},
	{"longer than a page", "$(head -c 5000 /dev/zero | tr '\\0' a)\\0\\0\\0\\0\\0\\0"},
};

START_TEST(a_link_by_hand)
{
	char command[512];
	snprintf(command, sizeof(command),
		"cp p.debug app && printf \"%s\" >s && objcopy --add-section=.gnu_debuglink=s p app/p && "
		"readelf -S app/p | grep -q debuglink",
		links[_i].section);
	must(command);
	finds("/app/p", "", "");
}
END_TEST

START_TEST(a_link_at_its_longest)
{
	must("name=$(head -c 255 /dev/zero | tr '\\0' a) && cp p.debug app/$name && printf \"$name\\0crc_\" >s && "
	     "objcopy --add-section=.gnu_debuglink=s p app/p && ln app/$name longest");
	finds("/app/p", "longest", "");
}
END_TEST

/* `link` "": the section is ignored. */
static const struct {
	const char *name, *section; /* printf(1) */
	const char *link;
	uint32_t crc;
} link_facts[] = {
	{"padding of two bytes behind its NUL", "a\\0\\0\\0\\001\\002\\003\\004", "a", 0x04030201},
	{"no padding behind its NUL", "abc\\0\\001\\002\\003\\004", "abc", 0x04030201},
	{"padding of three bytes behind its NUL", "abcd\\0\\0\\0\\0\\001\\002\\003\\004", "abcd", 0x04030201},
	{"three dots", "...\\0\\001\\002\\003\\004", "...", 0x04030201},
	{"begins as the directory above", "..a\\0\\001\\002\\003\\004", "..a", 0x04030201},
	{"the next name behind the directory above", "..\\001\\0\\001\\002\\003\\004", "..\001", 0x04030201},
	{"the directory above, which is no name of a file", "..\\0\\0\\001\\002\\003\\004", "", 0},
	{"a path, which is no name of a file", "a/b\\0\\001\\002\\003\\004", "", 0},
	{"an empty name, before a checksum", "\\0\\0\\0\\0\\001\\002\\003\\004", "", 0},
	{"a checksum that lacks a byte", "abc\\0\\001\\002\\003", "", 0},
	{"a checksum where the padding has to be", "abcd\\0\\001\\002\\003\\004", "", 0},
};

START_TEST(a_link_is_a_name_and_the_checksum_behind_its_padding)
{
	static struct debug_facts facts;
	char text[512];
	struct file f;
	snprintf(text, sizeof(text), "printf \"%s\" >s && objcopy --add-section=.gnu_debuglink=s p app/p",
		link_facts[_i].section);
	must(text);
	snprintf(text, sizeof(text), "%s/app/p", dir);
	ck_assert_int_eq(open_on_host(NULL, text, &f), 0);
	ck_assert_int_eq(debug_facts_read(file_source(&f), &facts, NULL), 0);
	file_close(&f);
	ck_assert_msg(!strcmp(facts.link, link_facts[_i].link) && facts.link_crc == link_facts[_i].crc,
		"%s: \"%s\", %x", link_facts[_i].name, facts.link, facts.link_crc);
}
END_TEST

/* In each, /app/p has its own debug information and names an alternative file; alt has its build-id, two bytes. */
static const struct {
	const char *name, *command, *link, *alt;
} alts[] = {
	{"absolute", "cp alt common", "/common", "common"},
	{"absolute, another build-id", "cp other.debug common", "/common", ""},
	{"absolute, missing", "true", "/common", ""},
	{"absolute, elsewhere by its build-id",
		"mkdir -p usr/lib/debug/.build-id/aa && cp alt usr/lib/debug/.build-id/aa/bb.debug", "/common",
		"usr/lib/debug/.build-id/aa/bb.debug"},
	{"relative, by its build-id",
		"mkdir -p usr/lib/debug/.build-id/aa && cp alt usr/lib/debug/.build-id/aa/bb.debug", "../.dwz/common",
		"usr/lib/debug/.build-id/aa/bb.debug"},
	{"relative: where the program is found is not known", "cp alt app/common && cp alt common", "common", ""},
	{"relative, upwards", "mkdir .dwz && cp alt .dwz/common", "../.dwz/common", ""},
	{"a FIFO", "mkfifo common", "/common", ""},
	{"a directory", "mkdir common", "/common", ""},
	{"links in a circle", "ln -s common common", "/common", ""},
	{"out of the tree", "true", "/../../../../etc/passwd", ""},
	{"on the host, upwards", "true", "/usr/lib/debug/../../../etc/passwd", ""},
};

static void link_alt(const char *to, const char *in, const char *out)
{
	char command[1024];
	snprintf(command, sizeof(command),
		"printf '%s\\0\\252\\273' >s && objcopy --add-section=.gnu_debugaltlink=s %s %s", to, in, out);
	must(command);
}

START_TEST(an_alternative_file)
{
	make("gcc -g -o alt -Wl,--build-id=0xaabb p.c", "alt");
	must(alts[_i].command);
	link_alt(alts[_i].link, "whole", "app/p");
	finds("/app/p", "app/p", alts[_i].alt);
}
END_TEST

START_TEST(an_alternative_of_a_separate_file)
{
	make("gcc -g -o common -Wl,--build-id=0xaabb p.c", "common");
	link_alt("/common", "p.debug", ID_FILE);
	finds("/app/p", ID_FILE, "common");
}
END_TEST

/* As dwz writes it: no program headers, and by its type a relocatable object. */
START_TEST(an_alternative_by_dwz)
{
	if (skip_without("dwz"))
		return;
	must("cp whole app/p && cp whole2 app/p2 && dwz -m common -M /common app/p app/p2");
	finds("/app/p", "app/p", "common");
}
END_TEST

static const char *const bad_alts[] = {"common", "common\\0", "\\0\\252\\273", "/common\\0\\252",
	"/common\\0123456789012345678901", "$(head -c 5000 /dev/zero | tr '\\0' a)\\0\\252\\273"};

START_TEST(an_alternative_by_hand)
{
	char command[512];
	snprintf(command, sizeof(command), "printf \"%s\" >s && objcopy --add-section=.gnu_debugaltlink=s whole app/p",
		bad_alts[_i]);
	make("gcc -g -o common -Wl,--build-id=0xaabb p.c", "common");
	must(command);
	finds("/app/p", "app/p", "");
}
END_TEST

UNIT_SUITE(debug_file)
{
	Suite *s = suite_create("debug_file");
	TCase *t = tcase_create("debug_file");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, of_a_program, 0, LENGTH(places));
	tcase_add_test(t, by_checksum);
	tcase_add_test(t, of_this_host);
	tcase_add_loop_test(t, a_file_of_this_host_is_opened_by_build_id, 0, LENGTH(on_host));
	tcase_add_loop_test(t, cannot_be_looked_at, 0, LENGTH(unusable));
	tcase_add_loop_test(t, replaced_since, 0, LENGTH(replacements));
	tcase_add_test(t, a_build_id_of_one_byte);
	tcase_add_test(t, facts_of_a_file);
	tcase_add_loop_test(t, a_link_by_hand, 0, LENGTH(links));
	tcase_add_test(t, a_link_at_its_longest);
	tcase_add_loop_test(t, a_link_is_a_name_and_the_checksum_behind_its_padding, 0, LENGTH(link_facts));
	tcase_add_loop_test(t, an_alternative_file, 0, LENGTH(alts));
	tcase_add_test(t, an_alternative_of_a_separate_file);
	tcase_add_test(t, an_alternative_by_dwz);
	tcase_add_loop_test(t, an_alternative_by_hand, 0, LENGTH(bad_alts));
	suite_add_tcase(s, t);
	return s;
}
