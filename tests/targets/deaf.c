/*
 * deaf DIR - a file system mounted there in which there is every file, and no open of one is ever answered: the request
 * is read, so that not even a signal ends who waits for it (fs/fuse/dev.c, request_wait_answer). Ends with a signal,
 * which ends them, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int dev;

static void reply(const struct fuse_in_header *in, int error, const void *data, size_t size)
{
	struct fuse_out_header out = {.len = (uint32_t)(sizeof(out) + size), .error = error, .unique = in->unique};
	struct iovec iov[] = {{&out, sizeof(out)}, {(void *)data, size}};
	if (writev(dev, iov, 2) < 0 && errno != ENOENT)
		perror("deaf");
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node, .size = 4096, .nlink = 1, .mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644};
}

static void answer(const struct fuse_in_header *in)
{
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
	struct fuse_entry_out entry = {.nodeid = 2, .entry_valid = 1000, .attr_valid = 1000, .attr = attr_of(2)};
	struct fuse_attr_out attr = {.attr_valid = 1000, .attr = attr_of(in->nodeid)};
	switch (in->opcode) {
	case FUSE_INIT:
		reply(in, 0, &init, sizeof(init));
		return;
	case FUSE_LOOKUP:
		reply(in, 0, &entry, sizeof(entry));
		return;
	case FUSE_GETATTR:
		reply(in, 0, &attr, sizeof(attr));
		return;
	case FUSE_OPEN:
	case FUSE_INTERRUPT:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return;
	}
	reply(in, -ENOSYS, NULL, 0);
}

int main(int argc, char **argv)
{
	static union {
		struct fuse_in_header head;
		char bytes[FUSE_MIN_READ_BUFFER + 4096];
	} in;
	char options[128];
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev);
	if (argc != 2 || dev < 0 || mount("deaf", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		perror("deaf");
		return 1;
	}
	while (read(dev, &in, sizeof(in)) > 0 || errno == EINTR || errno == ENOENT)
		answer(&in.head);
	return 0;
}
