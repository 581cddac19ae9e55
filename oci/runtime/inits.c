#include "oci/runtime/inits.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define RESTORED                                                                                                       \
	"it is restored from a checkpoint, so nothing of it begins: when it runs, `pillion attach` its name or pid"
#define VIRTUAL                                                                                                        \
	"it is a virtual machine's monitor: what runs in there can only be profiled in there, with `pillion run`"
#define GVISOR "it is gVisor's own kernel: what runs in there is not seen from here; use `pillion run` in it"

/* Names as far as the kernel keeps them: 15 bytes. */
static const struct {
	const char *prefix, *why;
} foreign[] = {
	{"criu", RESTORED},
	{"qemu-", VIRTUAL},
	{"cloud-hyperviso", VIRTUAL},
	{"firecracker", VIRTUAL},
	{"dragonball", VIRTUAL},
	{"containerd-shim", VIRTUAL}, /* Kata's, which names itself where it knows no better */
	{"runsc", GVISOR},
};

int init_check(pid_t init, struct err *e)
{
	char path[64], name[32];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)init);
	if (fd_read_text(AT_FDCWD, path, name, sizeof(name)) < 0)
		return 0; /* gone: others say so */
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (!strncmp(name, foreign[i].prefix, strlen(foreign[i].prefix)))
			return err_say(e, -ENOTSUP, "the container's init (pid %d) is %s: %s", (int)init, name,
				foreign[i].why);
	return 0;
}
