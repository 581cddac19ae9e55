/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/pprof.h"

#include "oci/base/fd.h"
#include "oci/base/protobuf.h"
#include "profiler/view/folded.h"
#include "profiler/view/top_table.h"
#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/pages.h"
#include "tests/unit/support/profile_dump.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define PPROF "go tool pprof -symbolize=none -nodefraction=0 -edgefraction=0 -nodecount=10000 "

static int fds;

static void setup(void)
{
	fds = fd_count();
}

static void teardown(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

static void add_sample(struct profile *p, const char *const *frames, int64_t count, int tid)
{
	uint32_t stack[8];
	size_t n = 0;
	for (; frames[n]; n++) {
		bool bracket = frames[n][0] == '[';
		int64_t f = profile_function(
			p, &(struct profile_function){.name = frames[n], .file = bracket ? "" : "/src/a.c"});
		stack[n] = (uint32_t)profile_location(p, bracket ? PROFILE_NONE : 0,
			bracket ? 0 : 0x401000 + 16 * (uint64_t)f, &(struct profile_line){.function = (uint32_t)f}, 1);
	}
	struct profile_label labels[] = {
		{"container", "shop", NULL, 0}, {"tid", NULL, "id", tid}, {"user.a", "b\xff", 0, 0}};
	ck_assert_int_eq(profile_sample(p, stack, n, (int64_t[]){count, count * 10101010}, labels, N(labels)), 0);
}

/* inner() and middle() were inlined into main() at one address, and with other line numbers at the next */
static void add_inlined(struct profile *p)
{
	static const struct profile_function functions[] = {{"ns::inner()", "_ZN2ns5innerEv", "/src/a.h", 40},
		{"middle", "", "/src/b.h", 7}, {"main", "", "/src/a.c", 100}};
	struct profile_line lines[N(functions)] = {{.line = 42}, {.line = 9}, {.line = 103}};
	for (size_t i = 0; i < N(functions); i++)
		lines[i].function = (uint32_t)profile_function(p, &functions[i]);
	uint32_t first = (uint32_t)profile_location(p, 0, 0x402000, lines, N(lines));
	lines[0].line = 4294967295;
	uint32_t second = (uint32_t)profile_location(p, 0, 0x402000, lines, N(lines));
	ck_assert_uint_ne(first, second);
	profile_sample(p, &first, 1, (int64_t[]){4, 40404040}, NULL, 0);
	profile_sample(p, &second, 1, (int64_t[]){5, 50505050}, NULL, 0);
}

static struct profile *build(void)
{
	struct profile_info info = {.time_ns = 1700000000123456789,
		.duration_ns = 60000000000,
		.n_types = 2,
		.types = (struct profile_type[]){{"samples", "count"}, {"cpu", "nanoseconds"}},
		.period_type = {"cpu", "nanoseconds"},
		.period = 10101010};
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	profile_mapping(p, 0x400000, 0x500000, 0, "/usr/bin/app", "00beef11", PROFILE_HAS_FUNCTIONS);
	profile_mapping(p, 0x7f0000000000, 0x7f0000100000, 0x1000, "/usr/lib/libc.so.6", "", 0);
	add_sample(p, (const char *[]){"hash", "parse", "main", NULL}, 60, 1);
	add_sample(p, (const char *[]){"fib", "fib", "fib", "main", NULL}, 30, 1);
	add_sample(p, (const char *[]){"std::vector<int, std::allocator<int> >::push_back", "main", NULL}, 5, 2);
	add_sample(p, (const char *[]){"[truncated: stack]", NULL}, 3, 2);
	add_sample(p, (const char *[]){"[kernel]", "read", "main", NULL}, 2, 2);
	uint32_t nameless = (uint32_t)profile_location(p, 1, 0x7f0000000234, NULL, 0);
	profile_sample(p, &nameless, 1, (int64_t[]){1, 10101010}, NULL, 0);
	add_inlined(p);
	profile_comment(p, "lost 12 records");
	profile_comment(p, "kernel 6.1");
	return p;
}

static struct profile *reread(const struct profile *p)
{
	uint8_t *bytes;
	size_t len;
	struct profile *back = NULL;
	struct err e = {0};
	ck_assert_int_eq(pprof_write(p, &bytes, &len), 0);
	ck_assert_msg(pprof_read(bytes, len, &back, &e) == 0, "%s", e.text);
	free(bytes);
	return back;
}

static void command_output(const char *command, char *buf, size_t size)
{
	FILE *f = popen(command, "re");
	ck_assert_ptr_nonnull(f);
	buf[fread(buf, 1, size - 1, f)] = 0;
	ck_assert_msg(pclose(f) == 0, "%s", command);
}

static bool have_go(void)
{
	if (skip_without("go"))
		return false;
	if (system("go tool -n pprof >/dev/null 2>&1") == 0)
		return true;
	skip("go has no pprof");
	return false;
}

static void write_file(const struct profile *p, char *path)
{
	uint8_t *bytes;
	size_t len;
	ck_assert_int_eq(pprof_write(p, &bytes, &len), 0);
	fd_auto fd = mkostemp(path, O_CLOEXEC);
	ck_assert_int_eq(fd_write_all(fd, bytes, len), 0);
	free(bytes);
}

static void raw_file(const char *path, char *buf, size_t size)
{
	char command[512];
	snprintf(command, sizeof(command), PPROF "-raw %s 2>&1", path);
	command_output(command, buf, size);
}

/* What go tool pprof -raw says about `p`, written to the file `path` (a template, mkostemp(3)). */
static char *go_raw(const struct profile *p, char *path)
{
	static char out[1 << 18];
	write_file(p, path);
	raw_file(path, out, sizeof(out));
	return out;
}

START_TEST(test_what_is_written_is_read)
{
	struct profile *p = build(), *back = reread(p);
	char *a = profile_dump(p), *b = profile_dump(back);
	ck_assert_str_eq(a, b);
	free(a);
	free(b);
	profile_free(p);
	profile_free(back);
}
END_TEST

static const struct {
	unsigned has;
	const char *raw; /* as go tool pprof -raw shows it */
} has_rows[] = {
	{0, ""},
	{PROFILE_HAS_FUNCTIONS, "[FN]"},
	{PROFILE_HAS_FILENAMES, "[FL]"},
	{PROFILE_HAS_LINE_NUMBERS, "[LN]"},
	{PROFILE_HAS_INLINE_FRAMES, "[IN]"},
	{PROFILE_HAS_FUNCTIONS | PROFILE_HAS_FILENAMES | PROFILE_HAS_LINE_NUMBERS | PROFILE_HAS_INLINE_FRAMES,
		"[FN][FL][LN][IN]"},
};

START_TEST(test_what_a_mapping_has)
{
	struct profile *p = build(), *back;
	struct profile_mapping m;
	int64_t id = profile_mapping(p, 0x1000, 0x2000, 0, "/bin/x", "", has_rows[_i].has);
	uint32_t used = (uint32_t)profile_location(p, (uint32_t)id, 0x1234, NULL, 0); /* Go drops unused ones */
	profile_sample(p, &used, 1, (int64_t[]){1, 1}, NULL, 0);
	back = reread(p);
	profile_mapping_get(back, (uint32_t)id, &m);
	ck_assert_str_eq(m.file, "/bin/x");
	ck_assert_uint_eq(m.has, has_rows[_i].has);
	if (have_go()) {
		char path[] = "/tmp/test_pprof.XXXXXX", line[64];
		char *raw = go_raw(p, path);
		snprintf(line, sizeof(line), "/bin/x  %s\n", has_rows[_i].raw);
		ck_assert_msg(strstr(raw, line), "no \"%s\" in\n%.2000s", line, raw);
		unlink(path);
	}
	profile_free(p);
	profile_free(back);
}
END_TEST

START_TEST(test_equal_profiles_give_equal_bytes)
{
	struct profile *p = build(), *q = build();
	uint8_t *a, *b;
	size_t len_a, len_b;
	ck_assert_int_eq(pprof_write(p, &a, &len_a), 0);
	ck_assert_int_eq(pprof_write(q, &b, &len_b), 0);
	ck_assert_uint_eq(len_a, len_b);
	ck_assert_mem_eq(a, b, len_a);
	free(a);
	free(b);
	profile_free(p);
	profile_free(q);
}
END_TEST

START_TEST(test_large_profile)
{
	struct profile *p = build(), *back;
	char names[3][32];
	for (int i = 0; i < 20000; i++) {
		for (int k = 0; k < 3; k++)
			snprintf(names[k], sizeof(names[k]), "function_%d", i * 7 % 5000 + k);
		add_sample(p, (const char *[]){names[0], names[1], names[2], "main", NULL}, 1, i % 64);
	}
	back = reread(p);
	ck_assert_uint_eq(profile_samples(back), profile_samples(p));
	ck_assert_int_eq(profile_total(back, 1), profile_total(p, 1));
	profile_free(p);
	profile_free(back);
}
END_TEST

/* --- hostile and foreign input */

#define TYPE "\x0a\x04\x08\x01\x10\x02" /* sample_type {1, 2} */
#define TEXT                                                                                                           \
	"\x32\x00\x32\x01"                                                                                             \
	"a"                                                                                                            \
	"\x32\x01"                                                                                                     \
	"b"					  /* "", "a", "b" */
#define LOCATION "\x22\x02\x08\x01"		  /* {id 1} */
#define SAMPLE "\x12\x06\x0a\x01\x01\x12\x01\x05" /* {location 1, value 5} */
#define BYTES(s) s, sizeof(s) - 1

static const struct {
	const char *scenario, *data;
	size_t len;
	int expect;
	const char *sentence;
} inputs[] = {
	{"the smallest profile", BYTES(TYPE TEXT), 0, ""},
	{"one sample, its location without a line", BYTES(TYPE TEXT LOCATION SAMPLE), 0, ""},
	{"strings behind what names them", BYTES(SAMPLE LOCATION TEXT TYPE), 0, ""},
	{"an empty file", BYTES(""), -EBADMSG, "it is empty: its writing was cut short, or it is no profile"},
	{"some text", BYTES("hello, world"), -EBADMSG, "it is not a pprof profile"},
	{"gzip that ends in the header", BYTES("\x1f\x8b\x08"), -EBADMSG, "it is cut off: the gzip data has no end"},
	{"gzip of another method", BYTES("\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x03"), -EBADMSG,
		"its gzip data is damaged (unknown compression method)"},
	{"no strings", BYTES(TYPE), -EBADMSG, "it names string 1 of 0"},
	{"a location that is not there", BYTES(TYPE TEXT SAMPLE), -EBADMSG,
		"it names location 1, which does not exist"},
	{"two locations with one id", BYTES(TYPE TEXT LOCATION LOCATION), -EBADMSG, "location id 1 is there twice"},
	{"a location with id 0", BYTES(TYPE TEXT "\x22\x00"), -EBADMSG, "location id 0 is not allowed"},
	{"no sample type", BYTES(TEXT LOCATION), -EBADMSG, "it has no sample type"},
	{"a location in no mapping of the file", BYTES(TYPE TEXT "\x22\x04\x08\x01\x10\x07"), 0, ""},
	{"drop_frames beyond the table", BYTES(TYPE TEXT "\x38\x63"), -EBADMSG, "it names string 99 of 3"},
	{"keep_frames beyond the table", BYTES(TYPE TEXT "\x40\x63"), -EBADMSG, "it names string 99 of 3"},
	{"two mappings with one id", BYTES(TYPE TEXT "\x1a\x02\x08\x01\x1a\x02\x08\x01"), -EBADMSG,
		"mapping id 1 is there twice"},
	{"a mapping without a file", BYTES(TYPE TEXT "\x1a\x02\x08\x01\x22\x04\x08\x01\x10\x01"), 0, ""},
	{"a label with a text, whose unit nothing reads",
		BYTES(TYPE TEXT LOCATION "\x12\x0e\x0a\x01\x01\x12\x01\x05\x1a\x06\x08\x01\x10\x02\x20\x63"), 0, ""},
	{"a line of no function of the file", BYTES(TYPE TEXT "\x22\x06\x08\x01\x22\x02\x08\x09"), -EBADMSG,
		"it names function 9, which does not exist"},
	{"a line of function 0", BYTES(TYPE TEXT "\x22\x06\x08\x01\x22\x02\x10\x09"), -EBADMSG,
		"it names function 0, which does not exist"},
	{"a sample with two values for one type", BYTES(TYPE TEXT LOCATION "\x12\x07\x0a\x01\x01\x12\x02\x05\x05"),
		-EBADMSG, "a sample has 2 values, not 1"},
	{"a label with a string beyond the table",
		BYTES(TYPE TEXT LOCATION "\x12\x0a\x0a\x01\x01\x12\x01\x05\x1a\x02\x08\x63"), -EBADMSG,
		"it names string 99 of 3"},
};

START_TEST(test_input)
{
	struct profile *p = NULL;
	struct err e = {0};
	int r = pprof_read(inputs[_i].data, inputs[_i].len, &p, &e);
	ck_assert_msg(r == inputs[_i].expect, "%s: %d %s", inputs[_i].scenario, r, e.text);
	ck_assert_msg(!strcmp(e.text, inputs[_i].sentence), "%s: %s", inputs[_i].scenario, e.text);
	ck_assert_msg(!p == (r < 0), "%s", inputs[_i].scenario);
	profile_free(p);
}
END_TEST

#define FUNCTION "\x2a\x04\x08\x01\x10\x01" /* {id 1, name "a"} */

static const struct {
	const char *scenario, *data;
	size_t len;
	uint32_t line; /* of the first location */
	size_t n_locations;
} line_rows[] = {
	{"a line number", BYTES(TYPE TEXT FUNCTION "\x22\x08\x08\x01\x22\x04\x08\x01\x10\x07"), 7, 1},
	{"none", BYTES(TYPE TEXT FUNCTION "\x22\x06\x08\x01\x22\x02\x08\x01"), 0, 1},
	{"the largest", BYTES(TYPE TEXT FUNCTION "\x22\x0c\x08\x01\x22\x08\x08\x01\x10\xff\xff\xff\xff\x0f"),
		UINT32_MAX, 1},
	{"beyond 32 bits is none", BYTES(TYPE TEXT FUNCTION "\x22\x0c\x08\x01\x22\x08\x08\x01\x10\x87\x80\x80\x80\x10"),
		0, 1},
	{"less than nothing is none",
		BYTES(TYPE TEXT FUNCTION "\x22\x11\x08\x01\x22\x0d\x08\x01\x10"
					 "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		0, 1},
	{"one address, two lines",
		BYTES(TYPE TEXT FUNCTION "\x22\x08\x08\x01\x22\x04\x08\x01\x10\x07"
					 "\x22\x08\x08\x02\x22\x04\x08\x01\x10\x08"),
		7, 2},
	{"one address, one line: one location",
		BYTES(TYPE TEXT FUNCTION "\x22\x08\x08\x01\x22\x04\x08\x01\x10\x07"
					 "\x22\x08\x08\x02\x22\x04\x08\x01\x10\x07"),
		7, 1},
};

START_TEST(test_line_numbers)
{
	struct profile *p = NULL;
	struct profile_location l;
	struct err e = {0};
	const char *row = line_rows[_i].scenario;
	ck_assert_msg(pprof_read(line_rows[_i].data, line_rows[_i].len, &p, &e) == 0, "%s: %s", row, e.text);
	ck_assert_msg(profile_locations(p) == line_rows[_i].n_locations, "%s", row);
	profile_location_get(p, 0, &l);
	ck_assert_uint_eq(l.n, 1);
	ck_assert_msg(l.lines[0].line == line_rows[_i].line, "%s: %u", row, l.lines[0].line);
	ck_assert_str_eq(profile_function_name(p, l.lines[0].function), "a");
	profile_free(p);
}
END_TEST

START_TEST(test_every_cut_is_refused)
{
	struct profile *p = build(), *none = NULL;
	struct err e = {0};
	uint8_t *bytes;
	size_t len;
	ck_assert_int_eq(pprof_write(p, &bytes, &len), 0);
	for (size_t n = 2; n < len; n++)
		ck_assert_msg(pprof_read(bytes, n, &none, &e) == -EBADMSG, "cut at %zu of %zu", n, len);
	ck_assert_ptr_null(none);
	free(bytes);
	profile_free(p);
}
END_TEST

static char *slurp(const char *path, size_t *ret_len)
{
	char *data;
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ck_assert_msg(fd >= 0, "%s (the test runs in the top directory)", path);
	ck_assert_int_eq(fd_slurp(fd, 64 << 20, &data, ret_len), 0);
	return data;
}

START_TEST(test_decompression_bomb)
{
	enum { MEMBER = 1 << 20 };
	char *member = pages_new(MEMBER);
	FILE *f = popen("head -c 134217728 /dev/zero | gzip -9", "re");
	size_t n = fread(member, 1, MEMBER, f);
	ck_assert_int_eq(pclose(f), 0);
	char *bomb = malloc(3 * n); /* three members of 128 MiB are 400 KB */
	for (int i = 0; i < 3; i++)
		memcpy(bomb + (size_t)i * n, member, n);
	struct profile *p = NULL;
	struct err e = {0};
	ck_assert_int_eq(pprof_read(bomb, 3 * n, &p, &e), -EFBIG);
	ck_assert_str_eq(e.text, "it is larger than 256 MiB when decompressed");
	free(bomb);
}
END_TEST

START_TEST(test_two_bytes_that_cost_a_hundred)
{
	size_t n = 8 << 20;
	char *samples = malloc(n * 2);
	for (size_t i = 0; i < n; i++)
		memcpy(samples + 2 * i, "\x12\x00", 2);
	struct profile *p = NULL;
	struct err e = {0};
	ck_assert_int_eq(pprof_read(samples, n * 2, &p, &e), -EFBIG);
	ck_assert_str_eq(e.text, "it needs more than 512 MiB of memory");
	free(samples);
}
END_TEST

/* Two types, "a" and "b" by unit, in the file's order, and one sample with these values. */
START_TEST(test_default_type)
{
#define VALUES(first, second) "\x12\x04\x12\x02" first second
	static const struct {
		const char *scenario, *data;
		size_t len;
		unsigned index;
	} rows[] = {
		{"none said: the last", BYTES(TEXT TYPE "\x0a\x04\x08\x02\x10\x01"), 1},
		{"the first said", BYTES(TEXT TYPE "\x0a\x04\x08\x02\x10\x01\x70\x01"), 0},
		{"both have its name: the first", BYTES(TEXT TYPE "\x0a\x04\x08\x01\x10\x01\x70\x01"), 0},
		{"none has its name: the last", BYTES(TEXT TYPE "\x0a\x04\x08\x01\x10\x01\x70\x02"), 1},
		{"the last is empty", BYTES(TEXT TYPE "\x0a\x04\x08\x02\x10\x01" VALUES("\x07", "\0")), 0},
		{"the one said is empty", BYTES(TEXT TYPE "\x0a\x04\x08\x02\x10\x01\x70\x01" VALUES("\0", "\x07")), 1},
		{"the first said, both have some",
			BYTES(TEXT TYPE "\x0a\x04\x08\x02\x10\x01\x70\x01" VALUES("\x05", "\x07")), 0},
		{"all are empty", BYTES(TEXT TYPE "\x0a\x04\x08\x02\x10\x01" VALUES("\0", "\0")), 1},
	};
	for (size_t i = 0; i < N(rows); i++) {
		struct profile *p = NULL;
		struct err e = {0};
		ck_assert_msg(pprof_read(rows[i].data, rows[i].len, &p, &e) == 0, "%s: %s", rows[i].scenario, e.text);
		ck_assert_msg(
			profile_default_type(p) == rows[i].index, "%s: %u", rows[i].scenario, profile_default_type(p));
		profile_free(p);
	}
}
END_TEST

static void put_length(size_t left, FILE *f)
{
	for (; left > 0x7f; left >>= 7)
		fputc((int)(left & 0x7f) | 0x80, f);
	fputc((int)left, f);
}

/* A file of one sample that names one location `refs` times, which has `lines` lines with numbers 1, 2, ... */
static char *many_lines(size_t lines, size_t refs, size_t *ret_len)
{
	char *data, *location, *sample;
	size_t location_len, sample_len;
	FILE *l = open_memstream(&location, &location_len), *s = open_memstream(&sample, &sample_len);
	fputs("\x08\x01", l);
	for (size_t i = 1; i <= lines; i++) {
		fprintf(l, "\x22%c\x08\x01\x10", i > 0x3fff ? 6 : i > 0x7f ? 5 : 4);
		put_length(i, l);
	}
	fclose(l);
	fputc(0x0a, s);
	put_length(refs, s);
	for (size_t i = 0; i < refs; i++)
		fputc(1, s);
	fputs("\x12\x01\x05", s);
	fclose(s);
	FILE *f = open_memstream(&data, ret_len);
	fwrite(TYPE TEXT FUNCTION "\x22", 1, sizeof(TYPE TEXT FUNCTION "\x22") - 1, f);
	put_length(location_len, f);
	fwrite(location, 1, location_len, f);
	fputc(0x12, f);
	put_length(sample_len, f);
	fwrite(sample, 1, sample_len, f);
	fclose(f);
	free(location);
	free(sample);
	return data;
}

static const struct {
	size_t lines, refs;
	int expect;
} multiply_rows[] = {
	{60000, 1000, -EFBIG}, /* 60 million frames in 360 KB */
	{1 << 15, 1 << 10, 0},
	{1 << 15, (1 << 10) + 1, -EFBIG},
};

START_TEST(test_lines_that_multiply)
{
	struct profile *p = NULL;
	struct err e = {0};
	size_t len;
	char *data = many_lines(multiply_rows[_i].lines, multiply_rows[_i].refs, &len);
	ck_assert_int_eq(pprof_read(data, len, &p, &e), multiply_rows[_i].expect);
	ck_assert_str_eq(e.text, multiply_rows[_i].expect ? "it has more than 33554432 frames" : "");
	profile_free(p);
	free(data);
}
END_TEST

START_TEST(test_lines_beyond_the_limit_are_dropped_and_said)
{
	for (size_t n = PROFILE_LINES_MAX; n < PROFILE_LINES_MAX + 3; n++) {
		struct profile *p = NULL;
		struct profile_location l;
		struct err e = {0};
		size_t len;
		char *data = many_lines(n, 2, &len);
		ck_assert_msg(pprof_read(data, len, &p, &e) == 0, "%s", e.text);
		profile_location_get(p, 0, &l);
		ck_assert_uint_eq(l.n, PROFILE_LINES_MAX);
		ck_assert_uint_eq(l.lines[PROFILE_LINES_MAX - 2].line, PROFILE_LINES_MAX - 1);
		ck_assert_uint_eq(l.lines[PROFILE_LINES_MAX - 1].line, n);
		ck_assert_uint_eq(profile_comments(p), n > PROFILE_LINES_MAX);
		if (n > PROFILE_LINES_MAX)
			ck_assert_str_eq(
				profile_comment_get(p, 0), "reader: lines beyond 64 of a location are dropped");
		profile_free(p);
		free(data);
	}
}
END_TEST

static const struct {
	const char *file, *default_type;
	unsigned n_types;
} foreign[] = {
	{"go-cpu", "cpu", 2}, {"go-heap", "inuse_space", 4}, /* with drop_frames, as the next */
	{"go-allocs", "alloc_space", 4},		     /* its default is the second */
};

/* --- go tool pprof, the reference reader */

struct shares {
	char flat[16], cum[16], name[256];
};

/* The rows of a table "flat flat% sum% cum cum% name". */
static size_t parse_table(const char *text, struct shares *rows, size_t max)
{
	size_t n = 0;
	const char *at = strstr(text, "cum%\n");
	ck_assert_ptr_nonnull(at);
	for (at += 5; *at && n < max; n++) {
		struct shares *r = &rows[n];
		ck_assert_int_eq(sscanf(at, "%*s %15s %*s %*s %15s %255[^\n]", r->flat, r->cum, r->name), 3);
		char *note = strstr(r->name, " (inline)"); /* pprof's remark, not part of the name */
		if (note)
			*note = 0;
		at = strchr(at, '\n') + 1;
	}
	return n;
}

/* Locations with their lines, functions and mappings with what they have. */
static void same_locations(const char *path, const char *other)
{
	static char raw[2][1 << 18];
	raw_file(path, raw[0], sizeof(raw[0]));
	raw_file(other, raw[1], sizeof(raw[1]));
	const char *a = strstr(raw[0], "\nLocations\n"), *b = strstr(raw[1], "\nLocations\n");
	ck_assert(a && b);
	ck_assert_str_eq(a, b);
}

static void same_table(const struct profile *p, const char *path)
{
	static struct shares ours[1000], theirs[1000];
	static char out[1 << 18];
	char command[512], *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(top_write(p, profile_default_type(p), TOP_ALL, f), 0);
	fclose(f);
	snprintf(command, sizeof(command), PPROF "-top %s 2>&1", path);
	command_output(command, out, sizeof(out));
	size_t n = parse_table(text, ours, N(ours)), m = parse_table(out, theirs, N(theirs));
	ck_assert_msg(n == m, "%zu rows, pprof has %zu", n, m);
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;
		while (k < m && strcmp(theirs[k].name, ours[i].name))
			k++;
		ck_assert_msg(k < m, "pprof has no row %s", ours[i].name);
		ck_assert_str_eq(ours[i].flat, theirs[k].flat);
		ck_assert_str_eq(ours[i].cum, theirs[k].cum);
	}
	free(text);
}

START_TEST(test_go_reads_what_we_write)
{
	char path[] = "/tmp/test_pprof.XXXXXX";
	const char *expect[] = {"container:[shop]", "user.a:[b?]", "tid:[1 id]", "/usr/bin/app 00beef11 [FN]",
		"0x400000/0x500000/0x0", "0x7f0000000000/0x7f0000100000/0x1000 /usr/lib/libc.so.6", "lost 12 records",
		"PeriodType: cpu nanoseconds", "Period: 10101010", "libc.so.6+0x1234", "Duration: 1m0",
		"samples/count cpu/nanoseconds[dflt]",
		"    10: 0x402000 M=1 ns::inner() /src/a.h:42 s=40(_ZN2ns5innerEv)\n"
		"             middle /src/b.h:9 s=7\n"
		"             main /src/a.c:103 s=100\n",
		"    11: 0x402000 M=1 ns::inner() /src/a.h:4294967295 s=40(_ZN2ns5innerEv)\n"
		"             middle /src/b.h:9 s=7\n"};
	if (!have_go())
		return;
	struct profile *p = build();
	char *out = go_raw(p, path);
	same_table(p, path);
	for (size_t i = 0; i < N(expect); i++)
		ck_assert_msg(strstr(out, expect[i]), "no \"%s\" in\n%.2000s", expect[i], out);
	unlink(path);
	profile_free(p);
}
END_TEST

START_TEST(test_we_read_what_go_writes)
{
	char original[128], copy[] = "/tmp/test_pprof.XXXXXX";
	size_t len;
	snprintf(original, sizeof(original), "tests/fuzz/corpus/pprof/%s.pb.gz", foreign[_i].file);
	char *data = slurp(original, &len);
	struct profile *p = NULL, *back;
	struct err e = {0};
	ck_assert_msg(pprof_read(data, len, &p, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(profile_info(p)->n_types, foreign[_i].n_types);
	ck_assert_str_eq(profile_info(p)->types[profile_default_type(p)].type, foreign[_i].default_type);
	back = reread(p);
	char *a = profile_dump(p), *b = profile_dump(back);
	ck_assert_str_eq(a, b);
	if (have_go()) {
		write_file(p, copy);
		same_table(p, original);
		same_locations(copy, original);
		same_table(p, copy);
		unlink(copy);
	}
	free(a);
	free(b);
	free(data);
	profile_free(p);
	profile_free(back);
}
END_TEST

/* --- files of other encoders, made by hand */

struct made_file {
	struct protobuf_writer body;
	const char *strings[256];
	uint64_t n_strings, n_locations;
	const char *functions[64];
	uint64_t n_functions;
};

enum { SAMPLE_TYPE = 1, SAMPLES = 2, MAPPINGS = 3, LOCATIONS = 4, FUNCTIONS = 5, STRINGS = 6, DROP = 7, KEEP = 8 };

static uint64_t string_number(struct made_file *m, const char *text)
{
	m->strings[0] = "";
	m->n_strings += !m->n_strings;
	for (uint64_t i = 0; i < m->n_strings; i++)
		if (!strcmp(m->strings[i], text))
			return i;
	ck_assert_uint_lt(m->n_strings, N(m->strings));
	m->strings[m->n_strings] = text;
	return m->n_strings++;
}

static void put_numbers(struct made_file *m, unsigned field, const uint64_t *numbers, unsigned n)
{
	struct protobuf_writer w = {0};
	for (unsigned i = 0; i < n; i++)
		protobuf_writer_number(&w, i + 1, numbers[i]);
	protobuf_writer_message(&m->body, field, &w);
	protobuf_writer_done(&w);
}

static void put_type(struct made_file *m, const char *type, const char *unit)
{
	put_numbers(m, SAMPLE_TYPE, (uint64_t[]){string_number(m, type), string_number(m, unit)}, 2);
}

static uint64_t function_number(struct made_file *m, const char *name)
{
	for (uint64_t i = 0; i < m->n_functions; i++)
		if (!strcmp(m->functions[i], name))
			return i + 1;
	ck_assert_uint_lt(m->n_functions, N(m->functions));
	m->functions[m->n_functions++] = name;
	const uint64_t text = string_number(m, name);
	put_numbers(m, FUNCTIONS, (uint64_t[]){m->n_functions, text, text}, 3);
	return m->n_functions;
}

/* lines: functions, innermost first, in a text that is cut up: "inlined,outer" */
static uint64_t put_location(struct made_file *m, uint64_t mapping, char *lines)
{
	struct protobuf_writer w = {0}, line = {0};
	char *rest;
	protobuf_writer_number(&w, 1, ++m->n_locations);
	protobuf_writer_number(&w, 2, mapping);
	protobuf_writer_number(&w, 3, 0x1000 + m->n_locations);
	for (char *name = strtok_r(lines, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		protobuf_writer_clear(&line);
		protobuf_writer_number(&line, 1, function_number(m, name));
		protobuf_writer_message(&w, 4, &line);
	}
	protobuf_writer_message(&m->body, LOCATIONS, &w);
	protobuf_writer_done(&line);
	protobuf_writer_done(&w);
	return m->n_locations;
}

/* stack: locations, leaf first, in a text that is cut up: "leaf,inlined main" */
static void put_stack(struct made_file *m, uint64_t mapping, char *stack, const int64_t *values, unsigned n)
{
	struct protobuf_writer w = {0}, ids = {0}, packed = {0};
	char *rest;
	for (char *lines = strtok_r(stack, " ", &rest); lines; lines = strtok_r(NULL, " ", &rest))
		protobuf_writer_varint(&ids, put_location(m, mapping, lines));
	for (unsigned i = 0; i < n; i++)
		protobuf_writer_varint(&packed, (uint64_t)values[i]);
	protobuf_writer_message(&w, 1, &ids);
	protobuf_writer_message(&w, 2, &packed);
	protobuf_writer_message(&m->body, SAMPLES, &w);
	protobuf_writer_done(&ids);
	protobuf_writer_done(&packed);
	protobuf_writer_done(&w);
}

/* Reads the file, and compares what go tool pprof makes of it. */
static struct profile *read_made(struct made_file *m, const char *scenario)
{
	char path[] = "/tmp/test_pprof.XXXXXX";
	struct profile *p = NULL;
	struct err e = {0};
	for (uint64_t i = 0; i < m->n_strings; i++)
		protobuf_writer_bytes(&m->body, STRINGS, m->strings[i], strlen(m->strings[i]));
	ck_assert_msg(pprof_read(m->body.bytes, m->body.len, &p, &e) == 0, "%s: %s", scenario, e.text);
	if (have_go()) {
		fd_auto fd = mkostemp(path, O_CLOEXEC);
		ck_assert_int_eq(fd_write_all(fd, m->body.bytes, m->body.len), 0);
		same_table(p, path);
		unlink(path);
	}
	protobuf_writer_done(&m->body);
	return p;
}

static const unsigned type_rows[] = {1, 2, 8, 9, 11, 14, 100};

START_TEST(test_any_number_of_types)
{
	const unsigned n = type_rows[_i];
	static char names[100][16];
	int64_t values[2][100];
	struct made_file m = {0};
	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "kind%u", i);
		put_type(&m, names[i], "count");
		values[0][i] = 900 + i;
		values[1][i] = i;
	}
	put_stack(&m, 0, (char[]){"leaf main"}, values[0], n);
	put_stack(&m, 0, (char[]){"other main"}, values[1], n);
	struct profile *p = read_made(&m, "types"), *back = reread(p);
	ck_assert_uint_eq(profile_info(p)->n_types, n);
	ck_assert_uint_eq(profile_default_type(p), n - 1);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_str_eq(profile_info(p)->types[i].type, names[i]);
		ck_assert_int_eq(profile_total(p, i), 900 + 2 * i);
		ck_assert_int_eq(profile_total(back, i), 900 + 2 * i);
	}
	profile_free(p);
	profile_free(back);
}
END_TEST

/* What readers sum by type is bounded: names times types, and frames times types. */
START_TEST(test_types_that_multiply)
{
	enum { TYPES = 20000 };
	struct profile *p = NULL;
	struct err e = {0};
	size_t frames_len;
	char *data = malloc(TYPES * 8), *frames = many_lines(1 << 15, 1 << 10, &frames_len);
	for (size_t i = 0; i < TYPES; i++) {
		memcpy(data + 6 * i, TYPE, 6);
		memcpy(data + 6 * TYPES + 2 * i, "\x32\x00", 2);
	}
	ck_assert_int_eq(pprof_read(data, TYPES * 8, &p, &e), -EFBIG);
	ck_assert_str_eq(e.text, "it has too many sample types (20000) for its size");
	frames = realloc(frames, frames_len + 8 * 6); /* nine types, and 2^25 frames */
	for (size_t i = 0; i < 8; i++)
		memcpy(frames + frames_len + 6 * i, TYPE, 6);
	ck_assert_int_eq(pprof_read(frames, frames_len + 8 * 6, &p, &e), -EFBIG);
	ck_assert_str_eq(e.text, "it has too many sample types (9) for its size");
	free(data);
	free(frames);
}
END_TEST

static const struct {
	const char *scenario;
	uint64_t mapping; /* of the locations */
	bool there;	  /* mapping 1, which has no file */
	bool found;
} mapping_rows[] = {
	{"no mapping, and none named", 0, false, false},
	{"no mapping, but named", 1, false, false},
	{"another one", 2, true, false},
	{"no mapping, a large id", UINT64_MAX, false, false},
	{"none named", 0, true, false},
	{"a mapping without a file", 1, true, true},
};

START_TEST(test_mappings_that_are_not_there)
{
	struct made_file m = {0};
	struct profile_location l;
	put_type(&m, "cpu", "count");
	if (mapping_rows[_i].there)
		put_numbers(&m, MAPPINGS, (uint64_t[]){1, 0x1000, 0x2000}, 3);
	put_stack(&m, mapping_rows[_i].mapping, (char[]){"leaf main"}, (int64_t[]){90}, 1);
	put_stack(&m, mapping_rows[_i].mapping, (char[]){"other main"}, (int64_t[]){10}, 1);
	struct profile *p = read_made(&m, mapping_rows[_i].scenario);
	profile_location_get(p, 0, &l);
	ck_assert_uint_eq(l.address, 0x1001);
	ck_assert_msg((l.mapping == 0) == mapping_rows[_i].found, "%s", mapping_rows[_i].scenario);
	ck_assert_msg((l.mapping == PROFILE_NONE) != mapping_rows[_i].found, "%s", mapping_rows[_i].scenario);
	profile_free(p);
}
END_TEST

static const struct {
	const char *drop, *keep, *stack, *expect;
	bool noted;
} drop_rows[] = {
	{"", "", "malloc f main", "main;f;malloc 5\n", false},
	{"", "f", "malloc f main", "main;f;malloc 5\n", false},
	{"malloc", "", "malloc f main", "main;f 5\n", false},
	{"malloc", "", "brk malloc f main", "main;f 5\n", false}, /* what it calls, too */
	{"malloc", "malloc", "malloc f main", "main;f;malloc 5\n", false},
	{"m.*", "main", "malloc f main", "main;f 5\n", false},
	{"main", "", "malloc f main", "main;f;malloc 5\n", false}, /* it would hide all */
	{"main|_start", "", "malloc main f main _start", "_start;main;f 5\n", false},
	{".*", "", "malloc f main", "main;f;malloc 5\n", false},
	{"f|g", "", "malloc g h f main", "main 5\n", false}, /* the one next to the root */
	{"f", "", "g f,h main", "main;h 5\n", false},	     /* inlined: its caller there stays */
	{"f", "", "g i,f,h main", "main;h 5\n", false},
	{"f", "", "i,f main", "main 5\n", false}, /* the one that has the code, with what was inlined */
	{"f|h", "", "f,g,h main", "main 5\n", false},
	{"f", "", "f,g", "g 5\n", false}, /* at the root, but inlined */
	{"f", "", "f", "f 5\n", false},
	{"(", "", "malloc f main", "main;f;malloc 5\n", true},
	{"malloc", "[", "malloc f main", "main;f;malloc 5\n", true},
};

START_TEST(test_drop_frames)
{
	struct made_file m = {0};
	char *stack = strdup(drop_rows[_i].stack), *text;
	size_t len;
	put_type(&m, "cpu", "count");
	protobuf_writer_number(&m.body, DROP, string_number(&m, drop_rows[_i].drop));
	protobuf_writer_number(&m.body, KEEP, string_number(&m, drop_rows[_i].keep));
	put_stack(&m, 0, stack, (int64_t[]){5}, 1);
	struct profile *p = read_made(&m, drop_rows[_i].drop);
	FILE *f = open_memstream(&text, &len);
	ck_assert_int_eq(folded_write(p, 0, "process", f), 0);
	fclose(f);
	ck_assert_msg(!strcmp(text, drop_rows[_i].expect), "%s %s: %s", drop_rows[_i].drop, drop_rows[_i].stack, text);
	ck_assert_uint_eq(profile_comments(p), drop_rows[_i].noted);
	if (drop_rows[_i].noted)
		ck_assert_str_eq(profile_comment_get(p, 0),
			"reader: drop_frames or keep_frames is no pattern that can be used: no frame is dropped");
	free(text);
	free(stack);
	profile_free(p);
}
END_TEST

/* 20,000 functions of one name of 60 KB, and a pattern that takes 600 steps for each byte of it. */
START_TEST(test_a_long_name_is_matched_once)
{
	static char name[60000];
	struct made_file m = {0};
	struct profile *p = NULL;
	struct err e = {0};
	memset(name, 'a', sizeof(name) - 1);
	put_type(&m, "cpu", "count");
	protobuf_writer_number(&m.body, DROP, string_number(&m, "(a?){300}b"));
	for (uint64_t i = 1; i <= 20000; i++)
		put_numbers(&m, FUNCTIONS, (uint64_t[]){i, string_number(&m, name)}, 2);
	for (uint64_t i = 0; i < m.n_strings; i++)
		protobuf_writer_bytes(&m.body, STRINGS, m.strings[i], strlen(m.strings[i]));
	ck_assert_msg(pprof_read(m.body.bytes, m.body.len, &p, &e) == 0, "%s", e.text);
	protobuf_writer_done(&m.body);
	profile_free(p);
}
END_TEST

/* 20,000 functions that are called the same, by 60 KB: 1.2 GB of text, if each mention were read. */
START_TEST(test_a_long_text_is_read_once)
{
	const struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"samples", "count"}}};
	static char name[60000];
	struct profile *p, *again;
	uint8_t *data;
	size_t len;
	memset(name, 'x', sizeof(name) - 1);
	ck_assert_int_eq(profile_new(&info, &p), 0);
	profile_lock_strings(p, true);
	for (int i = 0; i < 20000; i++) {
		const int64_t f = profile_function(p, &(struct profile_function){.name = name, .start_line = i + 1});
		const uint32_t at = (uint32_t)profile_location(
			p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
		ck_assert_int_eq(profile_sample(p, &at, 1, (int64_t[]){1}, NULL, 0), 0);
	}
	profile_lock_strings(p, false);
	ck_assert_int_eq(pprof_write(p, &data, &len), 0);
	ck_assert_int_eq(pprof_read(data, len, &again, NULL), 0);
	ck_assert_uint_eq(profile_functions(again), 20000);
	ck_assert_int_eq(profile_total(again, 0), 20000);
	profile_free(again);
	free(data);
	profile_free(p);
}
END_TEST

static void write_without_memory(const void *p)
{
	uint8_t *bytes;
	size_t len;
	take_memory(0);
	MUST(pprof_write(p, &bytes, &len) == -ENOMEM);
}

START_TEST(test_without_memory)
{
	struct profile *p = build();
	if (memory_can_end())
		ck_assert_int_eq(in_child(write_without_memory, p), 0);
	profile_free(p);
}
END_TEST

UNIT_SUITE(pprof)
{
	Suite *s = suite_create("pprof");
	TCase *t = tcase_create("pprof");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_what_is_written_is_read);
	tcase_add_loop_test(t, test_what_a_mapping_has, 0, N(has_rows));
	tcase_add_test(t, test_equal_profiles_give_equal_bytes);
	tcase_add_test(t, test_large_profile);
	tcase_add_loop_test(t, test_input, 0, N(inputs));
	tcase_add_test(t, test_default_type);
	tcase_add_test(t, test_every_cut_is_refused);
	tcase_add_test(t, test_decompression_bomb);
	tcase_add_test(t, test_two_bytes_that_cost_a_hundred);
	tcase_add_loop_test(t, test_line_numbers, 0, N(line_rows));
	tcase_add_loop_test(t, test_lines_that_multiply, 0, N(multiply_rows));
	tcase_add_test(t, test_lines_beyond_the_limit_are_dropped_and_said);
	tcase_add_loop_test(t, test_any_number_of_types, 0, N(type_rows));
	tcase_add_test(t, test_types_that_multiply);
	tcase_add_loop_test(t, test_mappings_that_are_not_there, 0, N(mapping_rows));
	tcase_add_loop_test(t, test_drop_frames, 0, N(drop_rows));
	tcase_add_test(t, test_a_long_name_is_matched_once);
	tcase_add_test(t, test_a_long_text_is_read_once);
	tcase_add_test(t, test_go_reads_what_we_write);
	tcase_add_loop_test(t, test_we_read_what_go_writes, 0, N(foreign));
	tcase_add_test(t, test_without_memory);
	suite_add_tcase(s, t);
	return s;
}
