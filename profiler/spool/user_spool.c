/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/user_spool.h"

#include "oci/base/fd.h"
#include "oci/base/log.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define ALL_MODE 0751 /* users pass through */
#define MODE 0750

void user_spool_name(uid_t user, char *buf, size_t size)
{
	snprintf(buf, size, USER_SPOOLS "/%u", (unsigned)user);
}

struct acl {
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry entries[5];
};

static struct posix_acl_xattr_entry make_acl_entry(unsigned tag, unsigned perm, unsigned id)
{
	return (struct posix_acl_xattr_entry){htole16((uint16_t)tag), htole16((uint16_t)perm), htole32(id)};
}

/*
 * MODE, and for the user the group's rights; in the order that the kernel asks for (fs/posix_acl.c, posix_acl_valid).
 */
static int let_read(int dir, uid_t user)
{
	const struct acl acl = {{htole32(POSIX_ACL_XATTR_VERSION)},
		{make_acl_entry(ACL_USER_OBJ, ACL_READ | ACL_WRITE | ACL_EXECUTE, ACL_UNDEFINED_ID),
			make_acl_entry(ACL_USER, ACL_READ | ACL_EXECUTE, user),
			make_acl_entry(ACL_GROUP_OBJ, ACL_READ | ACL_EXECUTE, ACL_UNDEFINED_ID),
			make_acl_entry(ACL_MASK, ACL_READ | ACL_EXECUTE, ACL_UNDEFINED_ID),
			make_acl_entry(ACL_OTHER, 0, ACL_UNDEFINED_ID)}};
	static const char *const names[] = {XATTR_NAME_POSIX_ACL_DEFAULT, XATTR_NAME_POSIX_ACL_ACCESS};
	for (unsigned i = 0; i < 2; i++)
		if (fsetxattr(dir, names[i], &acl, sizeof(acl), 0) < 0)
			return -errno;
	return 0;
}

int user_spool_open(int spool, uid_t user)
{
	char name[32];
	user_spool_name(user, name, sizeof(name));
	if (mkdirat(spool, USER_SPOOLS, ALL_MODE) < 0 && errno != EEXIST)
		return -errno;
	fd_auto all = fd_open(spool, USER_SPOOLS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (all < 0)
		return all;
	bool fresh = fchmod(all, ALL_MODE) == 0 && mkdirat(all, strchr(name, '/') + 1, MODE) == 0;
	if (!fresh && errno != EEXIST)
		return -errno;
	int dir = fd_open(all, strchr(name, '/') + 1, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = dir < 0 ? 0 : let_read(dir, user);
	if (r < 0 && fresh)
		log_line(LOG_WARNING, "user=%u outcome=spool_unreadable reason=\"%s: %s\"", (unsigned)user, name,
			strerror(-r));
	return dir;
}
