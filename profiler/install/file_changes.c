/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/file_changes.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_edit.h"
#include "oci/base/json/json_parse.h"
#include "oci/base/json/json_write.h"
#include "profiler/install/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_VERSION 1
#define STATE_CAP (4u << 20)

struct sum { /* of a file's bytes; size < 0: there is no file */
	int64_t size;
	uint64_t hash;
};

struct entry {
	char *path, *member, *mine; /* the last two: NULL, or see struct file_change */
	unsigned copy;		    /* of the former content: FILE_CHANGES_COPIES/N; 0: there was no file */
	struct sum before, written, written_before; /* the last: of a change that replaces one of ours */
};

struct file_changes {
	int root, lock;
	bool dry;
	struct entry *entries;
	char **made; /* directories */
	size_t n, n_made;
	unsigned last_copy;
};

/* --- files beneath the root --- */

bool file_changes_exists(const struct file_changes *h, const char *path)
{
	fd_auto fd = fd_open_beneath(h->root, path, O_PATH);
	return fd >= 0;
}

int file_changes_root(const struct file_changes *h)
{
	return h->root;
}

int file_changes_read(const struct file_changes *h, const char *path, char **ret, size_t *ret_len, struct err *e)
{
	struct stat st;
	return atomic_file_read(h->root, path, ret, ret_len, &st, e);
}

/* --- sums --------------------------------------------------------------------------------------------------- */

/* FNV-1a: detects edits, not attacks. Only root may write the file. */
static struct sum sum_of(const char *data, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3;
	return (struct sum){(int64_t)len, hash};
}

static bool is_same_sum(struct sum a, struct sum b)
{
	return a.size == b.size && (a.size < 0 || a.hash == b.hash);
}

static const struct sum nothing = {-1, 0};

static int sum_now(const struct file_changes *h, const char *path, struct sum *ret, struct err *e)
{
	char *data = NULL;
	size_t len;
	int r = file_changes_read(h, path, &data, &len, e);
	*ret = r == -ENOENT ? nothing : r < 0 ? *ret : sum_of(data, len);
	free(data);
	return r == -ENOENT ? 0 : r;
}

/* --- the list ----------------------------------------------------------------------------------------------- */

static void entry_done(struct entry *en)
{
	free(en->path);
	free(en->member);
	free(en->mine);
}

static int add_sum(struct jsonout *o, const char *key, struct sum s)
{
	char text[48];
	snprintf(text, sizeof(text), "%" PRId64 " %016" PRIx64, s.size, s.hash);
	return s.size < 0 ? 0 : json_write_add(o, key, json_write_text(text));
}

static struct jsonout *tell_entry(const struct entry *en)
{
	struct jsonout *o = json_write_object();
	int r = json_write_add(o, "path", json_write_text(en->path));
	if (r == 0 && en->copy)
		r = json_write_add(o, "copy", json_write_number(en->copy));
	if (r == 0)
		r = add_sum(o, "before", en->before);
	if (r == 0)
		r = add_sum(o, "written", en->written);
	if (r == 0)
		r = add_sum(o, "written_before", en->written_before);
	if (r == 0 && en->member)
		r = json_write_add(o, "member", json_write_text(en->member));
	if (r == 0 && en->mine)
		r = json_write_add(o, "ours", json_write_text(en->mine));
	return r < 0 ? json_write_free(o) : o;
}

static struct jsonout *build_state(const struct file_changes *h)
{
	struct jsonout *all = json_write_object(), *files = json_write_array(), *made = json_write_array();
	int r = json_write_add(all, "version", json_write_number(STATE_VERSION));
	for (size_t i = 0; r == 0 && i < h->n; i++)
		r = json_write_add(files, NULL, tell_entry(&h->entries[i]));
	for (size_t i = 0; r == 0 && i < h->n_made; i++)
		r = json_write_add(made, NULL, json_write_text(h->made[i]));
	if (r == 0)
		r = json_write_add(all, "files", files);
	if (r == 0)
		r = json_write_add(all, "directories", made);
	return r < 0 ? json_write_free(all) : all;
}

static int write_state_file(const struct file_changes *h, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	struct jsonout *all = build_state(h);
	FILE *f = all ? open_memstream(&text, &len) : NULL;
	int r = f ? json_write_out(all, f) : -ENOMEM;
	if (f && fclose(f) != 0)
		r = -ENOMEM;
	json_write_free(all);
	r = r < 0 ? err_set(e, r, "cannot write %s", FILE_CHANGES_STATE)
		  : atomic_file_replace(
			    h->root, FILE_CHANGES_STATE, text, len, &(struct file_attributes){.mode = 0600}, NULL, e);
	free(text);
	return r;
}

static struct sum hear_sum(const struct json *v)
{
	struct sum s = nothing;
	const char *text = json_text(v, NULL);
	if (text)
		sscanf(text, "%" SCNd64 " %" SCNx64, &s.size, &s.hash);
	return s;
}

static char *copy_text(const struct json *v)
{
	const char *text = json_text(v, NULL);
	return text ? strdup(text) : NULL;
}

static int grow_state_list(void *list, size_t n, size_t size)
{
	void *old, *more;
	memcpy(&old, list, sizeof(old));
	more = realloc(old, (n + 1) * size);
	if (!more)
		return -ENOMEM;
	memcpy(list, &more, sizeof(more));
	return 0;
}

static int hear_entry(struct file_changes *h, const struct json *v)
{
	int64_t copy = 0;
	struct entry en = {.path = copy_text(json_member(v, "path")),
		.member = copy_text(json_member(v, "member")),
		.mine = copy_text(json_member(v, "ours"))};
	json_number(json_member(v, "copy"), &copy);
	en.copy = (unsigned)copy;
	en.before = hear_sum(json_member(v, "before"));
	en.written = hear_sum(json_member(v, "written"));
	en.written_before = hear_sum(json_member(v, "written_before"));
	if (!en.path || en.path[0] != '/' || copy < 0 || grow_state_list(&h->entries, h->n, sizeof(en)) < 0) {
		entry_done(&en);
		return -EBADMSG;
	}
	h->last_copy = en.copy > h->last_copy ? en.copy : h->last_copy;
	h->entries[h->n++] = en;
	return 0;
}

static int hear_made(struct file_changes *h, const struct json *v)
{
	char *path = copy_text(v);
	if (!path || path[0] != '/' || grow_state_list(&h->made, h->n_made, sizeof(path)) < 0) {
		free(path);
		return -EBADMSG;
	}
	h->made[h->n_made++] = path;
	return 0;
}

static int parse_state(struct file_changes *h, const char *text, size_t len, struct err *e)
{
	struct json *doc;
	int64_t version = 0;
	int r = json_parse(text, len, &doc, e);
	if (r < 0)
		return r;
	json_number(json_member(doc, "version"), &version);
	r = version == STATE_VERSION ? 0 : -EBADMSG;
	const struct json *files = json_member(doc, "files"), *made = json_member(doc, "directories"), *v;
	for (size_t i = 0; r == 0 && (v = json_item(files, i)); i++)
		r = hear_entry(h, v);
	for (size_t i = 0; r == 0 && (v = json_item(made, i)); i++)
		r = hear_made(h, v);
	json_free(doc);
	return r < 0 ? err_say(e, r, "it is no list of this version's (%d)", STATE_VERSION) : 0;
}

static int read_state_file(struct file_changes *h, struct err *e)
{
	char *text = NULL;
	size_t len;
	atomic_file_clean_up(h->root, FILE_CHANGES_STATE);
	int r = file_changes_read(h, FILE_CHANGES_STATE, &text, &len, e);
	if (r == -ENOENT)
		return 0;
	if (r == 0) {
		r = parse_state(h, text, len, e);
		if (r < 0)
			err_wrap(e, r, "%s, which says what was installed, cannot be read", FILE_CHANGES_STATE);
	}
	free(text);
	for (size_t i = 0; r == 0 && i < h->n; i++)
		atomic_file_clean_up(h->root, h->entries[i].path);
	return r;
}

/* --- directories -------------------------------------------------------------------------------------------- */

/* Makes a directory, below one that is there. It is noted in the list first, where that is possible. */
static int make_directory(struct file_changes *h, const char *path, struct err *e)
{
	const char *name;
	fd_auto dir = atomic_file_parent(h->root, path, &name);
	if (dir < 0)
		return err_set(e, dir, "cannot open the directory of %s", path);
	if (grow_state_list(&h->made, h->n_made, sizeof(path)) < 0 || !(h->made[h->n_made] = strdup(path)))
		return err_set(e, -ENOMEM, "%s", path);
	h->n_made++;
	int r = file_changes_exists(h, FILE_CHANGES_DIR) ? write_state_file(h, e) : 0;
	if (r == 0 && mkdirat(dir, name, 0755) < 0 && errno != EEXIST) {
		r = -errno;
		err_set(e, r, "cannot make %s", path);
	}
	if (r < 0)
		free(h->made[--h->n_made]);
	return r;
}

/* Makes all directories on the way to `path`, which is no directory itself. */
static int make_way(struct file_changes *h, const char *path, struct err *e)
{
	char dir[PATH_MAX];
	int r = 0;
	for (const char *slash = strchr(path + 1, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
		if (!file_changes_exists(h, dir))
			r = make_directory(h, dir, e);
	}
	return r;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

/* Locks the root itself, which is there before us and after us. */
static int lock_root(struct file_changes *h, const char *root, struct err *e)
{
	h->lock = fd_open(AT_FDCWD, root, O_RDONLY | O_DIRECTORY, 0);
	if (h->lock < 0)
		return err_set(e, h->lock, "cannot open %s", root);
	if (flock(h->lock, LOCK_EX | LOCK_NB) < 0)
		return err_say(e, -EBUSY, "another 'pillion install' or 'uninstall' is at work: try again behind it");
	return 0;
}

static int open_all(struct file_changes *h, const char *root, struct err *e)
{
	h->root = fd_open(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0);
	if (h->root < 0)
		return err_set(e, h->root, "cannot open %s", root);
	int r = h->dry ? 0 : lock_root(h, root, e); /* first: another process that holds it changes the list */
	return r < 0 ? r : read_state_file(h, e);
}

int file_changes_open(const char *root, bool dry, struct file_changes **ret, struct err *e)
{
	struct file_changes *h = calloc(1, sizeof(*h));
	if (!h)
		return err_set(e, -ENOMEM, "the list of files");
	h->root = h->lock = -1;
	h->dry = dry;
	int r = open_all(h, root, e);
	if (r < 0)
		file_changes_close(h);
	else
		*ret = h;
	return r;
}

struct file_changes *file_changes_close(struct file_changes *h)
{
	if (!h)
		return NULL;
	for (size_t i = 0; i < h->n; i++)
		entry_done(&h->entries[i]);
	for (size_t i = 0; i < h->n_made; i++)
		free(h->made[i]);
	free(h->entries);
	free(h->made);
	fd_close(h->lock);
	fd_close(h->root);
	free(h);
	return NULL;
}

/* --- changing ----------------------------------------------------------------------------------------------- */

static struct entry *find_file_entry(struct file_changes *h, const char *path)
{
	for (size_t i = 0; i < h->n; i++)
		if (!strcmp(h->entries[i].path, path))
			return &h->entries[i];
	return NULL;
}

static const char *copy_path(unsigned copy, char buf[64])
{
	snprintf(buf, 64, FILE_CHANGES_COPIES "/%u.before", copy);
	return buf;
}

static int keep_copy(
	struct file_changes *h, struct entry *en, const char *data, size_t len, const struct stat *st, struct err *e)
{
	char copy[64];
	copy_path(h->last_copy + 1, copy);
	int r = make_way(h, copy, e);
	if (r == 0)
		r = atomic_file_replace(h->root, copy, data, len, &(struct file_attributes){.st = st}, NULL, e);
	if (r == 0)
		en->copy = ++h->last_copy;
	return r;
}

static void drop_entry(struct file_changes *h, struct entry *en)
{
	char copy[64];
	if (en->copy)
		atomic_file_remove(h->root, copy_path(en->copy, copy), NULL);
	entry_done(en);
	h->n--;
	memmove(en, en + 1, (size_t)(&h->entries[h->n] - en) * sizeof(*en));
}

/* Adds an entry: the present content is the former one. `old`: NULL where there is no file. */
static int note_new(struct file_changes *h, const struct file_change *c, const char *old, size_t old_len,
	const struct stat *st, struct entry **ret, struct err *e)
{
	struct entry en = {.path = strdup(c->path),
		.member = c->member ? strdup(c->member) : NULL,
		.mine = c->member ? strdup(c->mine) : NULL,
		.before = old ? sum_of(old, old_len) : nothing,
		.written = nothing,
		.written_before = nothing};
	int r = old ? keep_copy(h, &en, old, old_len, st, e) : 0;
	if (r == 0 && (!en.path || (c->member && (!en.member || !en.mine)) ||
			      grow_state_list(&h->entries, h->n, sizeof(en)) < 0))
		r = err_set(e, -ENOMEM, "%s", c->path);
	if (r < 0) {
		entry_done(&en);
		return r;
	}
	h->entries[h->n] = en;
	*ret = &h->entries[h->n++];
	return 0;
}

static int replace_file(
	struct file_changes *h, struct entry *en, const struct file_change *c, const struct stat *st, struct err *e)
{
	struct err unheard;
	const struct file_validator check = {c->check, c->arg};
	const struct sum was = en->written;
	en->written_before = was;
	en->written = sum_of(c->data, c->len);
	int r = write_state_file(h, e);
	if (r == 0)
		r = atomic_file_replace(
			h->root, c->path, c->data, c->len, &(struct file_attributes){st, c->mode}, &check, e);
	if (r == 0)
		return 0;
	en->written = was; /* the file is as it was: the list says so, too, where there is room for it */
	en->written_before = nothing;
	if (was.size < 0)
		drop_entry(h, en);
	write_state_file(h, &unheard);
	return r;
}

static bool is_edited(const struct entry *en, struct sum now)
{
	return !is_same_sum(now, en->written) && !is_same_sum(now, en->written_before) && !is_same_sum(now, en->before);
}

static int apply_change(struct file_changes *h, const struct file_change *c, const char *old, size_t old_len,
	const struct stat *st, struct err *e)
{
	struct entry *en = find_file_entry(h, c->path);
	int r = 0;
	if (en && is_edited(en, old ? sum_of(old, old_len) : nothing)) {
		drop_entry(h, en); /* the edited file is now the former content */
		en = NULL;
	}
	if (!en)
		r = note_new(h, c, old, old_len, st, &en, e);
	return r < 0 ? r : replace_file(h, en, c, old ? st : NULL, e);
}

int file_changes_put(struct file_changes *h, const struct file_change *c, struct err *e)
{
	char *old = NULL;
	size_t len = 0;
	struct stat st;
	const struct entry *en = find_file_entry(h, c->path);
	int r = atomic_file_read(h->root, c->path, &old, &len, &st, e), how = HOSTFILE_WRITTEN;
	if (r == 0 && len == c->len && !memcmp(old, c->data, len))
		how = HOSTFILE_SAME;
	else if (r == 0 && en && !c->program && !c->member && is_edited(en, sum_of(old, len)))
		how = HOSTFILE_EDITED;
	r = r == -ENOENT ? 0 : r;
	if (r == 0 && how == HOSTFILE_WRITTEN && !h->dry) {
		r = make_way(h, FILE_CHANGES_STATE, e);
		if (r == 0)
			r = make_way(h, c->path, e);
		if (r == 0)
			r = apply_change(h, c, old, len, &st, e);
	}
	free(old);
	return r < 0 ? r : how;
}

int file_changes_scratch(
	struct file_changes *h, const char *name, const void *data, size_t len, char ret[static 128], struct err *e)
{
	snprintf(ret, 128, FILE_CHANGES_COPIES "/%.60s", name);
	int r = make_way(h, ret, e);
	return r < 0 ? r
		     : atomic_file_replace(h->root, ret, data, len, &(struct file_attributes){.mode = 0600}, NULL, e);
}

void file_changes_scratch_done(struct file_changes *h, const char *path)
{
	atomic_file_remove(h->root, path, NULL);
}

/* --- taking back -------------------------------------------------------------------------------------------- */

size_t file_changes_count(const struct file_changes *h)
{
	return h->n;
}

const char *file_changes_path(const struct file_changes *h, size_t i)
{
	return h->entries[i].path;
}

static int restore_file(const struct file_changes *h, const struct entry *en, struct err *e)
{
	char copy[64], *data = NULL;
	size_t len;
	struct stat st;
	copy_path(en->copy, copy);
	int r = atomic_file_read(h->root, copy, &data, &len, &st, e);
	if (r == -ENOENT || (r == 0 && !is_same_sum(sum_of(data, len), en->before)))
		r = err_say(e, -EBADMSG, "%s, the copy of what %s was, is missing or was changed", copy, en->path);
	if (r == 0)
		r = atomic_file_replace(h->root, en->path, data, len, &(struct file_attributes){.st = &st}, NULL, e);
	free(data);
	return r < 0 ? r : HOSTFILE_RESTORED;
}

/* Removes our member. -ENOENT: there is none, or it is another program's by now. */
static int drop_member(struct json_edit *s, const struct entry *en)
{
	char keys[128];
	const char *path[JSON_EDIT_PATH + 1] = {0}, *value;
	size_t n = 0, len;
	snprintf(keys, sizeof(keys), "%s", en->member);
	for (char *at, *key = strtok_r(keys, "/", &at); key && n < JSON_EDIT_PATH; key = strtok_r(NULL, "/", &at))
		path[n++] = key;
	int r = json_edit_get(s, path, &value, &len, NULL);
	if (r == 0 && !memmem(value, len, en->mine, strlen(en->mine)))
		r = -ENOENT;
	return r < 0 ? r : json_edit_drop(s, path, NULL);
}

/* Takes us out of an edited file. */
static int take_out(const struct file_changes *h, const struct entry *en, struct err *e)
{
	char *data = NULL;
	size_t len;
	struct stat st;
	struct json_edit s = {0};
	int r = atomic_file_read(h->root, en->path, &data, &len, &st, e);
	if (r < 0)
		return r;
	if (en->member && en->mine && json_edit_open(&s, data, len, NULL) == 0 && drop_member(&s, en) == 0) {
		r = atomic_file_replace(
			h->root, en->path, s.text, s.len, &(struct file_attributes){.st = &st}, NULL, e);
		r = r < 0 ? r : HOSTFILE_WITHOUT_US;
	} else {
		r = HOSTFILE_LEFT;
	}
	json_edit_done(&s);
	free(data);
	return r;
}

static int take_back(const struct file_changes *h, const struct entry *en, struct err *e)
{
	struct sum now = nothing;
	int r = sum_now(h, en->path, &now, e);
	if (r < 0)
		return r;
	if (is_same_sum(now, en->before))
		return HOSTFILE_AS_IT_WAS;
	if (now.size < 0) /* the administrator removed it: it stays so */
		return HOSTFILE_LEFT;
	if (!is_same_sum(now, en->written) && !is_same_sum(now, en->written_before))
		return take_out(h, en, e);
	if (en->before.size >= 0)
		return restore_file(h, en, e);
	r = atomic_file_remove(h->root, en->path, e);
	return r < 0 ? r : HOSTFILE_REMOVED;
}

int file_changes_take_back_last(struct file_changes *h, struct err *e)
{
	struct entry en = h->entries[h->n - 1];
	int fate = h->dry ? HOSTFILE_AS_IT_WAS : take_back(h, &en, e);
	if (fate < 0)
		return fate;
	h->n--;
	int r = h->dry ? 0 : write_state_file(h, e);
	char copy[64];
	if (r == 0 && en.copy && !h->dry)
		atomic_file_remove(h->root, copy_path(en.copy, copy), NULL);
	entry_done(&en);
	return r < 0 ? r : fate;
}

static void remove_directory(const struct file_changes *h, const char *path)
{
	const char *name;
	fd_auto dir = atomic_file_parent(h->root, path, &name);
	if (dir >= 0)
		unlinkat(dir, name, AT_REMOVEDIR); /* only when it is empty */
}

int file_changes_forget(struct file_changes *h, struct err *e)
{
	char copy[64];
	for (unsigned i = 1; i <= h->last_copy + 1; i++) {
		atomic_file_clean_up(h->root, copy_path(i, copy));
		atomic_file_remove(h->root, copy, NULL);
	}
	int r = atomic_file_remove(h->root, FILE_CHANGES_STATE, e);
	for (size_t i = h->n_made; r == 0 && i-- > 0;)
		remove_directory(h, h->made[i]);
	return r;
}
