/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/policy.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool policy_lets(const char *patterns, const char *text)
{
	char pattern[256];
	patterns += strspn(patterns, ", ");
	if (!*patterns)
		return true;
	while (*patterns) {
		size_t len = strcspn(patterns, ", ");
		snprintf(pattern, sizeof(pattern), "%.*s", (int)len, patterns);
		if (len < sizeof(pattern) && fnmatch(pattern, text, FNM_NOESCAPE) == 0)
			return true;
		patterns += len + strspn(patterns + len, ", ");
	}
	return false;
}

/* Returns our uid on the host, also from within a user namespace: by the first line of uid_map that has our uid. */
static uid_t uid_on_host(void)
{
	char map[4096];
	unsigned inside, outside, n;
	int used;
	const uid_t self = geteuid();
	if (fd_read_text(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) < 0)
		return self;
	for (const char *at = map; sscanf(at, "%u %u %u%n", &inside, &outside, &n, &used) == 3; at += used)
		if (self >= inside && self - inside < n)
			return outside + (self - inside);
	return self;
}

static int permit_user(const struct settings *s, struct err *e)
{
	char number[16], name[64];
	const uid_t uid = uid_on_host();
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	if (passwd_user_name(uid, name, sizeof(name)) < 0)
		snprintf(name, sizeof(name), "%s", number);
	if (policy_lets(s->policy.allow_users, name) || policy_lets(s->policy.allow_users, number))
		return 0;
	return err_say(e, -EPERM,
		"the administrator's policy lets containers of user %s have no profile (policy.conf: users)", name);
}

int policy_permits(const struct settings *s, const struct container *c, struct err *e)
{
	char shown[ERR_SHOWN];
	if (s->policy.allow_users[0] && permit_user(s, e) < 0)
		return e->code;
	if (policy_lets(s->policy.allow_namespaces, c->pod_namespace))
		return 0;
	if (!c->pod_namespace[0])
		return err_say(e, -EPERM,
			"the administrator's policy lets Pods of some namespaces alone have a profile, and this is no "
			"Pod's "
			"container (policy.conf: namespaces)");
	return err_say(e, -EPERM,
		"the administrator's policy lets namespace %s have no profile (policy.conf: namespaces)",
		err_shown(c->pod_namespace, strlen(c->pod_namespace), shown));
}
