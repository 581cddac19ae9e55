/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_changes - changes files of the host so that all changes can be taken back, byte for byte.
 *
 * A list in DIR/install.json (FILE_CHANGES_STATE) has for every file a copy of its former content, and length and hash
 * of the content that we wrote. It is on disk before the file is touched, so the list of a killed process is true: a
 * file is as we wrote it, or as it was, or was edited since. The next process that opens the list goes on from there.
 *
 * Files come whole or not at all (atomic_file.h). Links are not written through. All paths are absolute and are looked
 * up beneath `root`.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FILE_CHANGES_DIR "/var/lib/pillion"
#define FILE_CHANGES_STATE FILE_CHANGES_DIR "/install.json"
#define FILE_CHANGES_COPIES FILE_CHANGES_DIR "/install"

struct file_changes;

/*
 * Called before the file is renamed to its place: `candidate` is its path beneath root. 0, or -errno with a sentence.
 */
typedef int hostfile_check_fn(void *arg, const char *candidate, struct err *e);

struct file_change {
	const char *path;
	const void *data;
	size_t len;
	mode_t mode;  /* of a file that is new */
	bool program; /* content that replaced it since is overwritten: that is no edit */
	/*
	 * Only one member of another program's JSON object is ours ("runtimes/pillion"; keys without slashes), as long
	 * as its value contains `mine`. NULL: all of the file is ours.
	 */
	const char *member, *mine;
	hostfile_check_fn *check;
	void *arg;
};

/* Opens the list. `dry`: nothing is written. One at a time: -EBUSY while another process has it open. */
int file_changes_open(const char *root, bool dry, struct file_changes **ret, struct err *e);
struct file_changes *file_changes_close(struct file_changes *h);
int file_changes_root(const struct file_changes *h); /* O_PATH, borrowed */

/* Reads a file: *ret is malloc'ed, NUL behind it. -ENOENT without a sentence, else with one. */
int file_changes_read(const struct file_changes *h, const char *path, char **ret, size_t *ret_len, struct err *e);
bool file_changes_exists(const struct file_changes *h, const char *path);

enum hostfile_put {
	HOSTFILE_SAME, /* it had this content already: the list stays as it is */
	HOSTFILE_WRITTEN,
	HOSTFILE_EDITED, /* edited since we wrote it, and all of it is ours: it stays as it is */
};
/* Writes a file. enum hostfile_put; or -errno with a sentence, and the file is as before. */
int file_changes_put(struct file_changes *h, const struct file_change *c, struct err *e);

size_t file_changes_count(const struct file_changes *h);
const char *file_changes_path(const struct file_changes *h, size_t i);
enum hostfile_fate {
	HOSTFILE_AS_IT_WAS, /* already */
	HOSTFILE_REMOVED,   /* it was not there before */
	HOSTFILE_RESTORED,
	HOSTFILE_WITHOUT_US, /* edited since: only our member was taken out */
	HOSTFILE_LEFT,	     /* edited since: no longer ours */
};
/* Takes back the last file of the list. enum hostfile_fate, or -errno with a sentence (it is in the list still). */
int file_changes_take_back_last(struct file_changes *h, struct err *e);
/*
 * Writes a file for an engine's parser, which is in no list: its path beneath root is `ret`. file_changes_scratch_done
 * removes it.
 */
int file_changes_scratch(
	struct file_changes *h, const char *name, const void *data, size_t len, char ret[static 128], struct err *e);
void file_changes_scratch_done(struct file_changes *h, const char *path);
/* Call with an empty list: removes the list and the directories that were made. */
int file_changes_forget(struct file_changes *h, struct err *e);
