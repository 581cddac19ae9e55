/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .debug_frame: the same program compiled with .eh_frame and without gives the same rules for the same code, also where
 * the section is compressed.
 */
#include "profiler/unwind/unwind_table.h"

#include "oci/base/fd.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source[] =
	"#include <stdlib.h>\n"
	"struct t { struct t *l, *r; int n[9]; };\n"
	"__attribute__((noinline)) int f(struct t *p, int n) { int a[64]; for (int i = 0; i < n; i++)\n"
	" a[i & 63] = p->n[i % 9] ? f(p->l, n - 1) + f(p->r, a[i % 7 & 63]) : i; return a[n & 63]; }\n"
	"__attribute__((noinline)) int by(const void *a, const void *b) { return *(int *)a - *(int *)b; }\n"
	"__attribute__((noinline)) int vla(int n) { int a[n]; for (int i = 0; i < n; i++) a[i] = rand(); qsort(a, n, "
	"4, by);\n"
	" return a[n / 2]; }\n"
	"int main(int c, char **v) { struct t t = {&t, &t, {0}}; return f(&t, c) + vla(c); }\n";

static char dir[] = "/tmp/debug_frame.XXXXXX";

static bool compile(const char *out, const char *flag, const char *flag2)
{
	char in[64];
	int status;
	snprintf(in, sizeof(in), "%s/x.c", dir);
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 2);
		execlp("gcc", "gcc", "-O2", "-g", flag, flag2, "-o", out, in, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static struct elf *elf_of(const char *path)
{
	struct elf *f = NULL;
	struct err e = {0};
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert_msg(elf_read(elf_source_fd(&fd), &f, &e) == 0, "%s", e.text);
	return f;
}

static void compare(const struct elf *a, const struct elf *b, size_t *ret_rules)
{
	struct unwind_table *x, *y;
	ck_assert_int_eq(unwind_table_build(a, 64 << 20, &x), 0);
	ck_assert_int_eq(unwind_table_build(b, 64 << 20, &y), 0);
	for (unsigned i = 0; i < a->n_segments; i++) {
		const struct elf_segment *s = &a->segments[i];
		for (uint64_t at = s->vaddr; s->exec && at < s->vaddr + s->memsz; at++) {
			const struct cfi_rule *p = unwind_table_find(x, at), *q = unwind_table_find(y, at);
			/* startup files have .eh_frame in both */
			ck_assert_msg(!memcmp(p, q, sizeof(*p)), "at %llx: %d %d, not %d %d", (unsigned long long)at,
				q->kind, q->cfa, p->kind, p->cfa);
			*ret_rules += q->kind == CFI_RULE_FRAME;
		}
	}
	unwind_table_free(x);
	unwind_table_free(y);
}

START_TEST(the_same_rules)
{
	char paths[3][64], in[64];
	struct elf *elf[3];
	size_t rules = 0;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(in, sizeof(in), "%s/x.c", dir);
	for (int i = 0; i < 3; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%d", dir, i);
	FILE *f = fopen(in, "we");
	fputs(source, f);
	fclose(f);
	bool compiled = compile(paths[0], "-fasynchronous-unwind-tables", "-gz=none") &&
			compile(paths[1], "-fno-asynchronous-unwind-tables", "-gz=none") &&
			compile(paths[2], "-fno-asynchronous-unwind-tables", "-gz=zlib");
	for (int i = 0; compiled && i < 3; i++)
		elf[i] = elf_of(paths[i]);
	for (int i = 0; i < 3; i++)
		unlink(paths[i]);
	unlink(in);
	rmdir(dir);
	if (!compiled) {
		skip("no gcc that writes .debug_frame");
		return;
	}
	ck_assert_ptr_null(elf[0]->debug_frame.data);
	ck_assert_uint_gt(elf[1]->debug_frame.size, 0);
	ck_assert_uint_eq(elf[1]->debug_frame.size, elf[2]->debug_frame.size);
	ck_assert_mem_eq(elf[1]->debug_frame.data, elf[2]->debug_frame.data, elf[1]->debug_frame.size);
	compare(elf[0], elf[1], &rules);
	compare(elf[0], elf[2], &rules);
	ck_assert_uint_gt(rules, 500);
	for (int i = 0; i < 3; i++) {
		elf_drop_debug_frame(elf[i]);
		elf_free(elf[i]);
	}
}
END_TEST

UNIT_SUITE(debug_frame)
{
	Suite *s = suite_create("debug_frame");
	TCase *t = tcase_create("debug_frame");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_same_rules);
	suite_add_tcase(s, t);
	return s;
}
