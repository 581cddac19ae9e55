/* SPDX-License-Identifier: Apache-2.0 */
/* instrument: which containers get what, in a config.json that stays what it was. */
#include "shim/attach/config_inject.h"

#include "oci/base/json/json_parse.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define ASKS(what) "{\"annotations\":{\"io.pillion.profile\":\"" what "\"}}"

static struct json_edit s;

static void open_text(const char *text)
{
	ck_assert_int_eq(json_edit_open(&s, text, strlen(text), NULL), 0);
}

#define MOUNTED(at, options)                                                                                           \
	"{\"annotations\":{\"io.pillion.profile\":\"alloc\"},\"mounts\":[{\"destination\":\"/proc\"},"                 \
	"{\"destination\":\"" at "\",\"options\":[" options "]}]}"

static const struct {
	const char *text;
	int wants;
} wants[] = {
	{"{}", 0},
	{ASKS("cpu"), 0},
	{ASKS("alloc"), 1},
	{ASKS("cpu,alloc/4096"), 1},
	{ASKS("cpu, calls:time"), 1},
	{ASKS("crash,cpu@99"), 1},
	{ASKS("allocation,crashes,tracepoint:x:alloc"), 0},
	{"{\"annotations\":{\"io.pillion.profile\":7}}", 0},
	{"{\"annotations\":{\"io.pillion.profile\":\"alloc\",\"io.kubernetes.cri.container-type\":\"sandbox\"}}", 0},
	{"{\"annotations\":{\"io.pillion.profile\":\"alloc\",\"io.pillion.profile/container.web\":\"cpu\","
	 "\"io.kubernetes.cri.container-name\":\"web\"}}",
		0},
	{"{\"annotations\":{\"io.pillion.profile/"
	 "container.web\":\"alloc\",\"io.kubernetes.cri.container-name\":\"web\"}}",
		1},
	{"{\"annotations\":{\"io.pillion.profile/"
	 "container.web\":\"alloc\",\"io.kubernetes.cri.container-name\":\"db\"}}",
		0},
	{"{\"annotations\":{\"io.pillion.profile\":\"alloc\"},\"linux\":{\"namespaces\":[{\"type\":\"user\"}]}}",
		-EINVAL},
	{"{\"annotations\":{\"io.pillion.profile\":\"alloc\"},\"linux\":{\"namespaces\":[{\"type\":\"pid\"}]}}", 1},
	{"{\"annotations\":{},\"annotations\":{}}", -EINVAL},
	/* where it would be mounted, no mount point can be made */
	{MOUNTED("/run", "\"rbind\",\"ro\""), -EINVAL},
	{MOUNTED("/run/", "\"ro\""), -EINVAL},
	{MOUNTED("/var/run/pillion", "\"rro\""), -EINVAL},
	{MOUNTED("/run/pillion", "\"rbind\",\"rw\""), 1},
	{MOUNTED("/run/secrets", "\"ro\""), 1},
	{MOUNTED("/runs", "\"ro\""), 1},
};

START_TEST(who_asks_for_an_event_within_the_program)
{
	open_text(wants[_i].text);
	ck_assert_msg(config_inject_wants_library(&s, NULL) == wants[_i].wants, "%s", wants[_i].text);
	json_edit_done(&s);
}
END_TEST

START_TEST(the_library_comes_as_pillion_inject_has_it)
{
	open_text("{\"mounts\":[{\"destination\":\"/"
		  "proc\"}],\"process\":{\"env\":[\"A=\\\"LD_PRELOAD=x\",\"LD_PRELOAD=/lib/a.so\"]}}");
	ck_assert_int_eq(config_inject_library(&s, "/usr/libexec/pillion/libpillion.so", NULL), 0);
	ck_assert_str_eq(s.text, "{\"mounts\":[{\"destination\":\"/proc\"},{\"destination\":\"/run/pillion/"
				 "libpillion.so\",\"type\":\"bind\","
				 "\"source\":\"/usr/libexec/pillion/"
				 "libpillion.so\",\"options\":[\"bind\",\"ro\",\"nosuid\",\"nodev\"]}],"
				 "\"process\":{\"env\":[\"A=\\\"LD_PRELOAD=x\",\"LD_PRELOAD=/lib/a.so\",\"LD_PRELOAD=/"
				 "run/pillion/libpillion.so\","
				 "\"PILLION_SOCKET=/run/pillion/app.sock\"]}}");
	json_edit_done(&s);
	open_text("{\"process\":{\"env\":[\"LD_PRELOAD=/lib/a.so\"]}}");
	ck_assert_int_eq(config_inject_library(&s, "/l.so", NULL), 0);
	ck_assert_ptr_nonnull(strstr(s.text, "\"LD_PRELOAD=/lib/a.so:/run/pillion/libpillion.so\""));
	char *once = strdup(s.text);
	ck_assert_int_eq(config_inject_library(&s, "/l.so", NULL), 0);
	ck_assert_str_eq(s.text, once);
	free(once);
	ck_assert_int_eq(config_inject_library(&s, "/l\".so", NULL), -EINVAL);
	json_edit_done(&s);
}
END_TEST

START_TEST(the_hook_is_there_once)
{
	open_text("{\"hooks\":{\"prestart\":[]}}");
	ck_assert_int_eq(config_inject_hook(&s, "/x/pillion-hook", "/e", NULL), 0);
	ck_assert_str_eq(s.text, "{\"hooks\":{\"prestart\":[],\n\t\t\"createRuntime\": "
				 "[{\"path\":\"/x/pillion-hook\",\"args\":[\"pillion-hook\",\"--etc\","
				 "\"/e\"],\"timeout\":10}],\n\t\t\"poststop\": "
				 "[{\"path\":\"/x/pillion-hook\",\"args\":[\"pillion-hook\",\"--etc\",\"/e\"],"
				 "\"timeout\":10}]}}");
	char *once = strdup(s.text);
	ck_assert_int_eq(config_inject_hook(&s, "/x/pillion-hook", NULL, NULL), 0);
	ck_assert_str_eq(s.text, once);
	free(once);
	json_edit_done(&s);
}
END_TEST

static const struct {
	const char *from, *to; /* NULL: refused */
} roots[] = {
	{"{\"root\":{\"path\":\"rootfs\"}}", "{\"root\":{\"path\":\"/b/rootfs\"}}"},
	{"{\"root\":{\"path\":\"/r\"}}", "{\"root\":{\"path\":\"/r\"}}"},
	{"{\"root\":{}}", NULL},
	{"{\"root\":{\"path\":\"r\"},\"mounts\":[{\"source\":\"../x\"}]}", NULL},
};

START_TEST(a_root_is_made_absolute)
{
	open_text(roots[_i].from);
	ck_assert_int_eq(config_inject_root(&s, "/b", NULL), roots[_i].to ? 0 : -EINVAL);
	ck_assert_str_eq(s.text, roots[_i].to ? roots[_i].to : roots[_i].from);
	json_edit_done(&s);
}
END_TEST

UNIT_SUITE(config_inject)
{
	Suite *suite = suite_create("config_inject");
	TCase *t = tcase_create("config_inject");
	tcase_add_loop_test(t, who_asks_for_an_event_within_the_program, 0, N(wants));
	tcase_add_test(t, the_library_comes_as_pillion_inject_has_it);
	tcase_add_test(t, the_hook_is_there_once);
	tcase_add_loop_test(t, a_root_is_made_absolute, 0, N(roots));
	suite_add_tcase(suite, t);
	return suite;
}
