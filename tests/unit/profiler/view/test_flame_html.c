/* SPDX-License-Identifier: Apache-2.0 */
/* flame: what a page and a picture are made from, whatever the names are. What is seen of it: suite_flame. */
#include "profiler/view/flame_html.h"

#include "oci/base/json/json_parse.h"
#include "profiler/view/flame_tree.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct profile *p;

static struct profile *empty_in(const char *type, const char *unit)
{
	const struct profile_info info = {
		.n_types = 2, .types = (struct profile_type[]){{"samples", "count"}, {type, unit}}};
	struct profile *ret;
	ck_assert_int_eq(profile_new(&info, &ret), 0);
	return ret;
}

static struct profile *empty(const char *type)
{
	return empty_in(type, "nanoseconds");
}

/* root first */
static void add(struct profile *to, const char *frames, const char *thread, int64_t value)
{
	uint32_t stack[8], n = 0;
	char *copy = strdup(frames), *rest = copy;
	for (char *frame; (frame = strsep(&rest, ";"));) {
		const int64_t f =
			profile_function(to, &(struct profile_function){.name = frame, .system_name = "", .file = ""});
		memmove(stack + 1, stack, n++ * sizeof(stack[0]));
		stack[0] = (uint32_t)profile_location(
			to, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
	}
	const int64_t values[] = {1, value};
	const struct profile_label labels[] = {{.key = "thread", .str = thread}, {.key = "timestamp", .num = value}};
	ck_assert_int_eq(profile_sample(to, stack, n, values, labels, 2), 0);
	free(copy);
}

static void begin(void)
{
	p = empty("cpu");
}
static void end(void)
{
	p = profile_free(p);
}

static char *written(int fn(const struct flame_html *, FILE *), const struct profile *before, int want)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	const struct flame_html f = {.of = p, .before = before, .type = 1, .title = "</script>\"&<t>"};
	ck_assert_int_eq(fn(&f, out), want);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

START_TEST(stacks_are_a_tree_and_times_are_no_labels)
{
	struct flame_tree t;
	add(p, "main;a;b", "x", 5);
	add(p, "main;a", "x", 7);
	add(p, "main;a", "x", 11);
	add(p, "main;a", "y", 13);
	add(p, "main;c;a", "x", 17);
	ck_assert_int_eq(flame_tree_build(&t, p, p), 0);
	ck_assert_uint_eq(t.nodes.count, 5);
	ck_assert_uint_eq(t.names.count, 4);
	ck_assert_uint_eq(t.sets.count, 2);
	ck_assert_uint_eq(t.rows.count, 4);
	ck_assert_str_eq(t.sets.items[0].data, "{\"thread\":\"x\"}");
	ck_assert_int_eq(t.values[1 * 4 + 1], 18); /* main;a of x */
	ck_assert_int_eq(t.values[1 * 4 + 3], 18); /* as before */
	for (size_t i = 0; i < t.nodes.count; i++)
		ck_assert_uint_le(t.nodes.items[i].a, i);
	flame_tree_done(&t);
}
END_TEST

START_TEST(the_data_of_a_page_is_json_in_which_no_tag_begins)
{
	struct json *doc;
	struct err e;
	add(p, "<b>;</script>;\"q\\;\x01;größe", "<t>&", INT64_MAX);
	add(p, "<b>;</script>;\"q\\;\x01;größe", "<t>&", INT64_MAX);
	char *page = written(flame_html_page, NULL, 0);
	char *from = strstr(page, "id=\"data\">"), *to = from ? strstr(from, "</script>") : NULL;
	ck_assert_ptr_nonnull(to);
	from += strlen("id=\"data\">");
	*to = 0;
	ck_assert_ptr_null(strchr(from, '<'));
	ck_assert_int_eq(json_parse(from, strlen(from), &doc, &e), 0);
	json_free(doc);
	free(page);
}
END_TEST

START_TEST(a_picture_is_as_wide_as_its_largest_and_has_what_was_before)
{
	struct profile *before = empty("cpu");
	add(p, "main;a", "x", 75);
	add(p, "main;b<&", "x", 25);
	add(before, "main;a", "x", 50);
	char *svg = written(flame_html_svg, before, 0);
	ck_assert_ptr_nonnull(strstr(svg, "main 100ns, 100.00 %, before 100.00 %"));
	ck_assert_ptr_nonnull(strstr(svg, "a 75ns, 75.00 %, before 100.00 %"));
	ck_assert_ptr_nonnull(strstr(svg, "b&lt;&amp; 25ns"));
	ck_assert_ptr_nonnull(strstr(svg, "x=\"900.00\" y=\"62\" width=\"299.50\""));
	free(svg);
	profile_free(before);
}
END_TEST

START_TEST(nothing_is_a_page_and_a_picture_too)
{
	free(written(flame_html_page, NULL, 0));
	free(written(flame_html_svg, NULL, 0));
	profile_free(p);
	p = empty("cpu");
	add(p, "main", "x", 0);
	free(written(flame_html_svg, NULL, 0));
}
END_TEST

static const struct {
	const char *unit, *page, *picture;
} units[] = {
	{"nanoseconds", "\"types\":[[\"samples\",\"count\"],[\"cpu\",\"nanoseconds\"]]", "main 90.50us,"},
	{"milliseconds", "[\"cpu\",\"milliseconds\",\"nanoseconds\",1000000]]", "main 1.51mins,"},
	{"s", "[\"cpu\",\"s\",\"nanoseconds\",1000000000]]", "main 25.14hrs,"},
	{"KB", "[\"cpu\",\"KB\",\"bytes\",1024]]", "main 88.38MB,"},
	{"gigabytes", "[\"cpu\",\"gigabytes\",\"bytes\",1073741824]]", "main 88.38TB,"},
	{"widgets", "[\"cpu\",\"widgets\"]]", "main 90500widgets,"},
};

START_TEST(units_are_scaled)
{
	profile_free(p);
	p = empty_in("cpu", units[_i].unit);
	add(p, "main", "x", 90500);
	char *page = written(flame_html_page, NULL, 0), *picture = written(flame_html_svg, NULL, 0);
	ck_assert_msg(strstr(page, units[_i].page) != NULL, "%s", units[_i].unit);
	ck_assert_msg(strstr(picture, units[_i].picture) != NULL, "%s", units[_i].unit);
	free(page);
	free(picture);
}
END_TEST

START_TEST(other_types_cannot_be_compared)
{
	struct profile *before = empty("alloc");
	free(written(flame_html_page, before, -EINVAL));
	free(written(flame_html_svg, before, -EINVAL));
	profile_free(before);
}
END_TEST

UNIT_SUITE(flame_html)
{
	Suite *s = suite_create("flame_html");
	TCase *t = tcase_create("flame_html");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, stacks_are_a_tree_and_times_are_no_labels);
	tcase_add_test(t, the_data_of_a_page_is_json_in_which_no_tag_begins);
	tcase_add_test(t, a_picture_is_as_wide_as_its_largest_and_has_what_was_before);
	tcase_add_test(t, nothing_is_a_page_and_a_picture_too);
	tcase_add_loop_test(t, units_are_scaled, 0, sizeof(units) / sizeof(units[0]));
	tcase_add_test(t, other_types_cannot_be_compared);
	suite_add_tcase(s, t);
	return s;
}
