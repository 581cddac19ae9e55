/* SPDX-License-Identifier: Apache-2.0 */
/* called: what trees have grown by, told once, and to a successor as well; and memory that says what it likes. */
#include "profiler/inproc/calltree_reader.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNKS 8
#define SIZE (CHUNKS * TREE_CHUNK)
#define A 0x1000
#define B 0x2000
#define C 0x3000

static int fds, memory;
static uint8_t *region;
static struct calltree_reader called;

static struct tree_header *header(void)
{
	return (struct tree_header *)region;
}

static struct tree_chunk *chunk(uint32_t i)
{
	return (struct tree_chunk *)(region + (size_t)i * TREE_CHUNK);
}

static struct tree_node *node(uint32_t number)
{
	return (struct tree_node *)region + number;
}

/* Of the first chunk: number 64 is its head. */
static uint32_t put(uint32_t i, uint64_t fn, uint32_t parent, uint64_t calls)
{
	const uint32_t number = TREE_PER_CHUNK + i;
	*node(number) = (struct tree_node){.fn = fn, .parent = parent, .calls = calls};
	chunk(1)->used = i >= chunk(1)->used ? i + 1 : chunk(1)->used;
	return number;
}

static void seal(int fd)
{
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
}

static void begin(void)
{
	fds = fd_count();
	memory = memfd_create("tree", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(memory, SIZE), 0);
	seal(memory);
	region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	ck_assert(region != MAP_FAILED);
	*header() = (struct tree_header){.version = TREE_VERSION,
		.header_size = sizeof(struct tree_header),
		.node_size = sizeof(struct tree_node),
		.chunk_size = TREE_CHUNK,
		.size = SIZE,
		.chunks = 2,
		.pid = 7,
		.born = 5,
		.cookie = 99};
	memcpy(header()->magic, TREE_MAGIC, 8);
	called = (struct calltree_reader)CALLTREE_READER_NONE;
	ck_assert_int_eq(calltree_reader_open(&called, dup(memory)), 0);
}

static void end(void)
{
	calltree_reader_done(&called);
	munmap(region, SIZE);
	close(memory);
	ck_assert_int_eq(fd_count(), fds);
}

/* "A 1, A>B 2": from the root to the leaf */
static char told[4096];

static void add_name(const struct calltree_reader_fn *f)
{
	char text[128];
	const char *gone = f->gone ? f->gone : "";
	if (f->fn == TREE_FN_FULL)
		snprintf(text, sizeof(text), "full");
	else
		snprintf(text, sizeof(text), "%c%.60s",
			f->fn == A   ? 'A'
			: f->fn == B ? 'B'
			: f->fn == C ? 'C'
				     : '?',
			gone);
	strncat(told, text, sizeof(told) - strlen(told) - 1);
}

static void on_grown(void *arg, const struct calltree_reader_fn *path, size_t n, uint64_t calls, uint64_t ns)
{
	char text[64];
	if (told[0])
		strcat(told, ", ");
	for (size_t i = n; i-- > 0;) {
		add_name(&path[i]);
		strcat(told, i ? ">" : "");
	}
	snprintf(text, sizeof(text), " %llu", (unsigned long long)calls);
	strcat(told, text);
}

static const char *look(void)
{
	told[0] = 0;
	const int r = calltree_reader_look(&called, 16, on_grown, NULL);
	if (r < 0)
		snprintf(told, sizeof(told), "%s", strerror(-r));
	return told;
}

START_TEST(growth_is_told_once)
{
	const uint32_t root = put(1, TREE_FN_ROOT, 0, 0), a = put(2, A, root, 1), b = put(3, B, a, 2);
	ck_assert_uint_eq(called.pid, 7);
	ck_assert_uint_eq(called.cookie, 99);
	ck_assert_int_eq(called.born, 5);
	ck_assert_str_eq(look(), "A 1, A>B 2");
	ck_assert_str_eq(look(), "");
	node(b)->calls += 5;
	put(4, C, b, 3);
	ck_assert_str_eq(look(), "A>B 5, A>B>C 3");
	header()->unplaced = 4;
	ck_assert_str_eq(look(), "full 4");
	ck_assert_str_eq(look(), "");
}
END_TEST

START_TEST(what_somebody_else_has_is_skipped)
{
	put(2, A, 0, 10);
	ck_assert_int_ge(calltree_reader_skip(&called), 0);
	node(66)->calls++;
	ck_assert_str_eq(look(), "A 1");
}
END_TEST

START_TEST(a_path_ends_near_the_leaf)
{
	uint32_t parent = 0;
	for (uint32_t i = 1; i <= 40; i++)
		parent = put(i, i == 40 ? B : A, parent, i == 40);
	ck_assert_str_eq(look(), "A>A>A>A>A>A>A>A>A>A>A>A>A>A>A>B 1");
}
END_TEST

static struct journal *open_journal(void)
{
	struct journal *j;
	ck_assert_int_eq(journal_open_take(memfd_create("a", MFD_CLOEXEC), memfd_create("b", MFD_CLOEXEC), &j), 0);
	return j;
}

static void save(struct journal *j)
{
	journal_begin(j, 1);
	calltree_reader_save(&called, j);
	journal_end(j);
}

/* What a successor knows: all entries, one after the other */
static void succeed(struct journal *j)
{
	uint8_t *bytes;
	size_t size;
	int64_t seen;
	uint32_t type;
	struct journal_reader s;
	ck_assert_int_eq(journal_read(j, &bytes, &size, &seen), 0);
	calltree_reader_done(&called);
	for (struct journal_reader all = {.at = bytes, .end = bytes + size}; saved_next(&all, &type, &s);) {
		calltree_reader_load(&called, &s);
		ck_assert(!s.bad);
	}
	free(bytes);
	ck_assert_int_eq(calltree_reader_open(&called, dup(memory)), 0);
}

START_TEST(what_all_may_know_together)
{
	size_t all = CALLTREE_READER_NODES_MAX - 10;
	put(2, A, put(1, TREE_FN_ROOT, 0, 0), 1);
	called.account = &all;
	ck_assert_str_eq(look(), strerror(ENOMEM));
	ck_assert_uint_eq(all, CALLTREE_READER_NODES_MAX - 10);
	all = 0;
	ck_assert_str_eq(look(), "A 1");
	ck_assert(called.n && all == called.n);
	calltree_reader_done(&called);
	ck_assert_uint_eq(all, 0);
}
END_TEST

START_TEST(a_successor_knows_what_was_told)
{
	struct journal *j = open_journal();
	const uint32_t a = put(2, A, 0, 1), b = put(3, B, a, 200);
	header()->unplaced = 9;
	look();
	ck_assert(calltree_reader_unsaved(&called));
	journal_snapshot(j);
	save(j);
	ck_assert(journal_snapshot_done(j, 0));
	ck_assert(!calltree_reader_unsaved(&called));
	node(b)->calls += 30;
	put(60, C, b, 1);
	look();
	save(j);
	ck_assert(journal_commit(j));
	node(a)->calls++;
	look(); /* and then it is killed: nobody has this */
	succeed(j);
	ck_assert_str_eq(look(), "A 1");
	called.anew = true;
	journal_snapshot(j);
	save(j);
	ck_assert(journal_snapshot_done(j, 0));
	succeed(j);
	ck_assert_str_eq(look(), "");
	journal_close(j);
}
END_TEST

START_TEST(entries_that_are_no_nodes)
{
	static const uint64_t numbers[][6] = {
		{0, 1, 1ull << 40, 1, 1}, {0, 2, 1ull << 19, 1, 1, 1ull << 19}, {0, 1ull << 50}, {0, 3, 1, 1, 1}};
	for (unsigned i = 0; i < 4; i++) {
		struct journal *j = open_journal();
		uint8_t *bytes;
		size_t size;
		int64_t seen;
		uint32_t type;
		struct journal_reader s;
		journal_snapshot(j);
		journal_begin(j, 1);
		for (unsigned k = 0; k < 6; k++)
			journal_number(j, numbers[i][k]);
		journal_end(j);
		ck_assert(journal_snapshot_done(j, 0));
		ck_assert_int_eq(journal_read(j, &bytes, &size, &seen), 0);
		struct journal_reader all = {.at = bytes, .end = bytes + size};
		ck_assert(saved_next(&all, &type, &s));
		calltree_reader_load(&called, &s);
		ck_assert_msg(s.bad, "row %u", i);
		free(bytes);
		journal_close(j);
	}
}
END_TEST

/* --- modules that are gone */

static void put_text(uint32_t i, const char *text)
{
	*chunk(i) = (struct tree_chunk){.text = 1};
	memcpy(chunk(i) + 1, text, strlen(text) + 1);
	header()->chunks = i + 1;
}

START_TEST(gone_modules_are_known_by_their_text)
{
	put(2, A | TREE_FN_GONE, 0, 1);
	put(3, A | TREE_FN_GONE, 0, 1);
	put(4, B | TREE_FN_GONE, 0, 1);
	node(66)->gone = 2;
	node(67)->gone = node(68)->gone = 3;
	put_text(2, "1000-2000 first");
	put_text(3, "1000-2000 other");
	ck_assert_str_eq(look(), "A1000-2000 first 1, A1000-2000 other 1, B 1");
}
END_TEST

START_TEST(a_text_without_an_end)
{
	put(2, A | TREE_FN_GONE, 0, 1);
	node(66)->gone = 2;
	*chunk(2) = (struct tree_chunk){.text = 1};
	memset(chunk(2) + 1, '1', TREE_TEXT_MAX);
	header()->chunks = 3;
	ck_assert_str_eq(look(), "A 1");
}
END_TEST

START_TEST(only_the_last_of_many_texts)
{
	const uint32_t n = CHUNKS - 2;
	for (uint32_t i = 0; i < n; i++)
		put_text(2 + i, "1000-2000 x");
	put(2, A | TREE_FN_GONE, 0, 1);
	node(66)->gone = UINT32_MAX;
	ck_assert_str_eq(look(), "A1000-2000 x 1");
}
END_TEST

/* --- memory that says what it likes */

static void parent_behind(void)
{
	put(2, A, TREE_PER_CHUNK + 3, 1);
	put(3, B, TREE_PER_CHUNK + 2, 1);
}
static void parent_itself(void)
{
	put(2, A, TREE_PER_CHUNK + 2, 1);
}
static void parent_beyond(void)
{
	put(2, A, UINT32_MAX, 1);
}
static void parent_in_the_header(void)
{
	put(2, A, 3, 1);
}
static void more_chunks(void)
{
	put(2, A, 0, 1);
	header()->chunks = UINT32_MAX;
	header()->size = UINT64_MAX;
}
static void more_used(void)
{
	put(2, A, 0, 1);
	chunk(1)->used = UINT32_MAX;
}
static void no_function(void)
{
	put(3, B, put(2, 0, 0, 5), 1);
}
static void enormous(void)
{
	put(2, A, 0, UINT64_MAX);
	node(66)->ticks = UINT64_MAX;
}
static void another_version(void)
{
	header()->version++;
}
static void other_nodes(void)
{
	header()->node_size = 1;
}

static const struct {
	const char *scenario;
	void (*make)(void);
	const char *told;
} hostile[] = {
	{"a parent behind its child", parent_behind, "A 1, A>B 1"},
	{"a node that is its own parent", parent_itself, "A 1"},
	{"a parent beyond the region", parent_beyond, "A 1"},
	{"a parent in the header", parent_in_the_header, "A 1"},
	{"more chunks than there are", more_chunks, "A 1"},
	{"more nodes than a chunk has", more_used, "A 1"},
	{"a node that was never finished", no_function, "B 1"},
	{"counts beyond every measure", enormous, "A 72057594037927936"},
	{"another version", another_version, "Protocol error"},
	{"nodes of another size", other_nodes, "Protocol error"},
};

START_TEST(hostile_memory)
{
	hostile[_i].make();
	ck_assert_msg(!strcmp(look(), hostile[_i].told), "%s: %s", hostile[_i].scenario, told);
}
END_TEST

START_TEST(counts_that_fall)
{
	const uint32_t a = put(2, A, 0, 100);
	look();
	node(a)->calls = 50;
	ck_assert_str_eq(look(), "");
	node(a)->calls = 101;
	ck_assert_str_eq(look(), "A 1");
}
END_TEST

static const struct {
	const char *scenario;
	off_t size;
	bool sealed;
} refused[] = {
	{"it may shrink", SIZE, false},
	{"nothing", 0, true},
	{"less than a chunk", TREE_CHUNK - 1, true},
	{"no whole chunks", SIZE + 1, true},
	{"larger than any", (off_t)1 << 40, true},
	{"no header", SIZE, true},
};

START_TEST(no_region)
{
	struct calltree_reader c = CALLTREE_READER_NONE;
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fd, refused[_i].size), 0);
	if (refused[_i].sealed)
		seal(fd);
	ck_assert_msg(calltree_reader_open(&c, fd) == -EPROTO, "%s", refused[_i].scenario);
	ck_assert_int_eq(c.memory, -1);
	int pipes[2];
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(calltree_reader_open(&c, pipes[0]), -EPROTO);
	close(pipes[1]);
}
END_TEST

UNIT_SUITE(calltree_reader)
{
	Suite *s = suite_create("calltree_reader");
	TCase *t = tcase_create("calltree_reader");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, growth_is_told_once);
	tcase_add_test(t, what_somebody_else_has_is_skipped);
	tcase_add_test(t, a_path_ends_near_the_leaf);
	tcase_add_test(t, what_all_may_know_together);
	tcase_add_test(t, a_successor_knows_what_was_told);
	tcase_add_test(t, entries_that_are_no_nodes);
	tcase_add_test(t, gone_modules_are_known_by_their_text);
	tcase_add_test(t, a_text_without_an_end);
	tcase_add_test(t, only_the_last_of_many_texts);
	tcase_add_loop_test(t, hostile_memory, 0, sizeof(hostile) / sizeof(hostile[0]));
	tcase_add_test(t, counts_that_fall);
	tcase_add_loop_test(t, no_region, 0, sizeof(refused) / sizeof(refused[0]));
	suite_add_tcase(s, t);
	return s;
}
