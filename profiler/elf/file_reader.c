/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/target_file.h"

#include "oci/base/fd.h"
#include "oci/isolation/seccomp.h"
#include "shim/attach/file_opener.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct hook_input {
	int sock;
	int files[TARGET_FILES_OPEN_MAX]; /* -1: free */
};

/* One message to the client: an answer, and bytes behind it. */
static struct {
	struct reader_answer head;
	char bytes[TARGET_FILES_AT_ONCE];
} out;

static struct {
	struct reader_request head;
	char path[PATH_MAX]; /* with a NUL that we put there */
} in;

/* --- files ---------------------------------------------------------------------------------------------- */

static int read_file_id(int fd, struct file_id *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret = (struct file_id){st.st_dev, st.st_ino, (uint64_t)st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
	return 0;
}

bool file_id_equal(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->seconds == b->seconds &&
	       a->nanoseconds == b->nanoseconds;
}

int file_on(int fd, struct file *ret)
{
	struct file f = {.fd = fd};
	int r = read_file_id(fd, &f.id);
	if (r == 0)
		*ret = f;
	return r;
}

/* The descriptor again, or -errno; then it is closed. */
static int check_opened_file(int fd, struct file_id *ret)
{
	int r = fd < 0 ? fd : read_file_id(fd, ret);
	if (fd >= 0 && r < 0)
		fd_close(fd);
	return r < 0 ? r : fd;
}

int target_files_open_here(int tree, const char *path, bool no_links, struct file_id *ret)
{
	return check_opened_file(file_open_for_profiler(tree, path, no_links), ret);
}

/* The file opener may be a program of the target's user, so anything can come. No answer counts as no file opener. */
int target_files_open_there(int sock, const char *path, bool no_links, int64_t deadline, struct file_id *ret)
{
	int fd = file_opener_ask(sock, path, no_links, deadline);
	if (fd == -EPIPE || fd == -ETIMEDOUT)
		return -EACCES;
	if (fd >= 0 && !file_is_for_profiler(fd, path)) {
		fd_close(fd);
		return -EINVAL;
	}
	return check_opened_file(fd, ret);
}

/* Takes the file that the client passed because we may not open it ourselves, if it is the one beneath the tree. */
static int take_passed(int tree, int *passed, struct file_id *ret)
{
	struct stat found;
	fd_auto fd = *passed < 0 ? -EACCES : fd_open_beneath(tree, in.path, O_PATH);
	if (fd < 0 || fstat(fd, &found) < 0 || read_file_id(*passed, ret) < 0 || found.st_dev != ret->dev ||
		found.st_ino != ret->ino)
		return -EACCES;
	int taken = *passed;
	*passed = -1;
	return taken;
}

/* --- answers -------------------------------------------------------------------------------------------- */

static int place_for(const struct hook_input *r)
{
	int i = 0;
	while (i < TARGET_FILES_OPEN_MAX && r->files[i] >= 0)
		i++;
	return i < TARGET_FILES_OPEN_MAX ? i : -EMFILE;
}

static int read_into(int fd, uint64_t offset, size_t size)
{
	ssize_t n = offset > INT64_MAX ? 0 : fd_pread_all(fd, out.bytes, size, (off_t)offset);
	if (n > 0)
		out.head.bytes = (uint32_t)n;
	return (int)n;
}

static int do_open(struct hook_input *r, int tree, int *passed)
{
	int place = place_for(r);
	if (place < 0)
		return place;
	int fd = in.head.asks ? target_files_open_there(*passed, in.path, in.head.no_links, INT64_MAX, &out.head.id)
			      : target_files_open_here(tree, in.path, in.head.no_links, &out.head.id);
	if (fd == -EACCES && !in.head.asks && (fd = take_passed(tree, passed, &out.head.id)) >= 0)
		out.head.passed = 1;
	if (fd < 0)
		return fd;
	r->files[place] = fd;
	out.head.eof =
		read_into(fd, 0, TARGET_FILES_BEGINNING_MAX) < 0 ? 0 : out.head.bytes < TARGET_FILES_BEGINNING_MAX;
	return place;
}

static int execute_request(struct hook_input *r, int *fds)
{
	uint32_t handle = in.head.handle;
	bool open = handle < TARGET_FILES_OPEN_MAX && r->files[handle] >= 0;
	switch (in.head.kind) {
	case READER_OPEN:
		return do_open(r, fds[0], &fds[1]);
	case READER_READ:
		return open && in.head.size <= TARGET_FILES_AT_ONCE
			       ? read_into(r->files[handle], in.head.offset, in.head.size)
			       : -EBADF;
	case READER_CLOSE:
		if (open)
			r->files[handle] = fd_close(r->files[handle]);
		return open ? 0 : -EBADF;
	case READER_CLOSE_PASSED:
		fds[0] = fd_close(fds[0]);
		return 0;
	}
	return -EINVAL;
}

static bool send_answer(const struct hook_input *r)
{
	return fd_send(r->sock, &out, sizeof(out.head) + out.head.bytes, NULL, 0) == 0;
}

/* Sends our /proc/PID/stat along, where there is one: there the client sees whether we wait for a CPU. */
static bool say_ready(const struct hook_input *r)
{
	fd_auto stat = fd_open_beneath(AT_FDCWD, "/proc/self/stat", O_RDONLY); /* we are in "/" */
	return fd_send(r->sock, &out, sizeof(out.head), &stat, stat >= 0) == 0;
}

/* Answers one request. False: the client has gone. */
static bool answer_next(struct hook_input *r)
{
	int fds[2] = {-1, -1};
	size_t n = 0;
	ssize_t got = fd_recv(r->sock, &in, sizeof(in) - 1, fds, 2, &n);
	if (got < (ssize_t)sizeof(in.head))
		return false;
	const int64_t begin = clock_now();
	((char *)&in)[got] = 0;
	memset(&out.head, 0, sizeof(out.head));
	out.head.result = execute_request(r, fds);
	/* before the answer: it tells the client that no close hangs */
	for (size_t i = 0; i < 2; i++)
		if (fds[i] >= 0)
			fd_close(fds[i]);
	out.head.took = (uint64_t)(clock_now() - begin);
	return send_answer(r);
}

void target_files_reader(int sock)
{
	struct err e = {0};
	struct hook_input r = {.sock = sock};
	for (int i = 0; i < TARGET_FILES_OPEN_MAX; i++)
		r.files[i] = -1;
	fd_close_all_but(&sock, 1);
	prctl(PR_SET_NAME, "pilliond-files"); /* a person may want to know which one hangs */
	if (!say_ready(&r) || seccomp_enter(SECCOMP_FILE_READER, &e) < 0)
		_exit(1);
	while (answer_next(&r))
		;
	_exit(0);
}
