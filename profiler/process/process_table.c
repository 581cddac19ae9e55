/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/process/process_table.h"

#include "profiler/process/proc_maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define THREAD_BUCKETS 256
#define THREADS_MAX 4096 /* names kept per process; beyond it a thread has its process' name */

struct thread_state {
	uint32_t tid;
	char name[16];
	struct thread_state *next;
};

struct process_table {
	struct map_files *files;
	struct process *buckets[BUCKETS];
	size_t count;
	uint64_t swept; /* record time of the last look for retired ones */
	uint64_t turn;	/* counts records */
	bool lossy;
	bool all_lossy; /* all of them are lossy now: full rings say so with nearly every sample */
};

int process_table_new(map_resolve_fn *resolve, void *arg, struct process_table **ret)
{
	struct process_table *t = calloc(1, sizeof(*t));
	int r = t ? map_files_new(resolve, arg, &t->files) : -ENOMEM;
	if (r < 0) {
		free(t);
		return r;
	}
	*ret = t;
	return 0;
}

static void free_threads(struct process *p)
{
	for (size_t i = 0; p->threads && i < THREAD_BUCKETS; i++)
		for (struct thread_state *th = p->threads[i], *next; th; th = next) {
			next = th->next;
			free(th);
		}
	free(p->threads);
	p->threads = NULL;
	p->n_threads = 0;
}

static void task_free(struct process *p)
{
	free_threads(p);
	address_space_free(p->space);
	jit_unref(p->jit);
	free(p);
}

struct process_table *process_table_free(struct process_table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct process *p = t->buckets[i], *next; p; p = next) {
			next = p->next;
			task_free(p);
		}
	map_files_free(t->files);
	free(t);
	return NULL;
}

static struct process **find_slot(struct process_table *t, uint32_t pid)
{
	struct process **at = &t->buckets[pid * 2654435761u >> 22];
	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	return at;
}

const struct process *process_table_find(struct process_table *t, uint32_t pid)
{
	return *find_slot(t, pid);
}

struct process *process_table_known(struct process_table *t, uint32_t pid)
{
	struct process *p = *find_slot(t, pid);
	return p ? p : *find_slot(t, 0);
}

/* Drop processes that ended before `until`. */
static void remove_exited(struct process_table *t, uint64_t until)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct process **at = &t->buckets[i]; *at;) {
			struct process *p = *at;
			if (p->exited && p->exited < until) {
				*at = p->next;
				t->count--;
				task_free(p);
			} else {
				at = &p->next;
			}
		}
}

/*
 * Makes room: drops the processes without a record for the longest time, a quarter at most. Most of them have ended
 * without a record (records were lost, or their CPU has no events). Dropping one that is just asleep is a smaller loss
 * than having all new ones without a name.
 */
static void evict_processes(struct process_table *t)
{
	uint64_t oldest = t->turn;
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct process *p = t->buckets[i]; p; p = p->next)
			oldest = p->heard < oldest && p->pid ? p->heard : oldest;
	const uint64_t until = oldest + (t->turn - oldest) / 4;
	const size_t least = t->count - t->count / 4;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct process **at = &t->buckets[i]; *at && t->count > least;) {
			struct process *p = *at;
			if (p->heard > until || !p->pid) {
				at = &p->next;
				continue;
			}
			*at = p->next;
			t->count--;
			task_free(p);
		}
}

static struct process *add_process(struct process_table *t, uint32_t pid, struct process **at)
{
	struct process *p = calloc(1, sizeof(*p));
	if (!p || address_space_new(t->files, &p->space) < 0) {
		free(p);
		return NULL;
	}
	p->pid = pid;
	p->heard = t->turn;
	if (t->lossy)
		address_space_set_lossy(p->space);
	*at = p;
	t->count++;
	return p;
}

struct process *process_table_get(struct process_table *t, uint32_t pid)
{
	struct process **at = find_slot(t, pid);
	if (*at) {
		(*at)->heard = t->turn;
		return *at;
	}
	if (t->count >= PROCESS_TABLE_MAX && pid != 0)
		return process_table_get(t, 0);
	return add_process(t, pid, at);
}

/* Returns a process to be changed: never the one that all processes without room share. */
static struct process *get_own(struct process_table *t, uint32_t pid)
{
	struct process *p = process_table_get(t, pid);
	return p && p->pid == pid ? p : NULL;
}

/* Returns where the thread is, or would be put; NULL: there are no threads at all. */
static struct thread_state **thread_slot(const struct process *p, uint32_t tid)
{
	struct thread_state **at = p->threads ? &p->threads[tid % THREAD_BUCKETS] : NULL;
	while (at && *at && (*at)->tid != tid)
		at = &(*at)->next;
	return at;
}

const char *process_table_thread_name(const struct process *p, uint32_t tid)
{
	struct thread_state **at = tid == p->pid ? NULL : thread_slot(p, tid);
	return at && *at ? (*at)->name : p->comm;
}

static void thread_set(struct process *p, uint32_t tid, const char *name)
{
	if (!p->threads)
		p->threads = calloc(THREAD_BUCKETS, sizeof(*p->threads));
	struct thread_state **at = thread_slot(p, tid);
	if (at && !*at && p->n_threads < THREADS_MAX) {
		*at = calloc(1, sizeof(**at));
		p->n_threads += *at != NULL;
	}
	if (!at || !*at)
		return;
	(*at)->tid = tid;
	snprintf((*at)->name, sizeof((*at)->name), "%s", name);
}

static void thread_drop(struct process *p, uint32_t tid)
{
	struct thread_state **at = thread_slot(p, tid), *th = at ? *at : NULL;
	if (!th)
		return;
	*at = th->next;
	p->n_threads--;
	free(th);
}

/* A new image: nothing of the old one is left. */
static void begin_anew(struct process_table *t, struct process *p)
{
	struct address_space *fresh;
	if (address_space_new(t->files, &fresh) == 0) {
		address_space_free(p->space);
		p->space = fresh;
		t->all_lossy = false;
	}
	free_threads(p);
	p->jit = jit_unref(p->jit);
	p->exe[0] = 0;
	p->exited = 0;
	p->leader_gone = false;
}

static void on_comm(struct process_table *t, const struct record *r)
{
	struct process *p = get_own(t, r->pid);
	if (!p)
		return;
	if (!r->comm.exec && r->tid != r->pid) {
		thread_set(p, r->tid, r->comm.name);
		return;
	}
	if (r->comm.exec)
		begin_anew(t, p);
	snprintf(p->comm, sizeof(p->comm), "%s", r->comm.name);
}

static void set_exe(struct process *p, const char *path)
{
	snprintf(p->exe, sizeof(p->exe), "%.63s", strrchr(path, '/') + 1);
}

static void on_mmap(struct process_table *t, const struct record *r)
{
	const struct record_mmap *m = &r->mmap;
	struct process *p = m->exec ? get_own(t, r->pid) : NULL;
	if (!p)
		return;
	struct module_key key = {.path = m->path,
		.maj = m->maj,
		.min = m->min,
		.ino = m->ino,
		.generation = m->generation,
		.build_id_len = m->build_id_len};
	memcpy(key.build_id, m->build_id, m->build_id_len);
	address_space_map(p->space, m->start, m->len, m->pgoff, &key);
	if (!p->exe[0] && m->path[0] == '/')
		set_exe(p, m->path);
}

static void on_fork(struct process_table *t, const struct record *r)
{
	struct process *parent = get_own(t, r->task.ppid);
	if (!parent)
		return;
	if (r->pid == r->task.ppid) { /* a thread: it begins with the name of the one that made it */
		if (r->tid != r->pid)
			thread_set(parent, r->tid, process_table_thread_name(parent, r->task.ptid));
		return;
	}
	struct process *p = get_own(t, r->pid);
	struct address_space *shared;
	if (!p || p == parent || address_space_fork(parent->space, &shared) < 0)
		return;
	address_space_free(p->space);
	free_threads(p);
	p->space = shared;
	jit_unref(p->jit);
	p->jit = jit_ref(parent->jit); /* code inherited with its memory; when it makes code, it gets its own */
	p->exited = 0;
	p->leader_gone = false;
	snprintf(p->comm, sizeof(p->comm), "%s", process_table_thread_name(parent, r->task.ptid));
	memcpy(p->exe, parent->exe, sizeof(p->exe));
}

static void sweep_when_due(struct process_table *t, uint64_t time)
{
	if (time <= t->swept + PROCESS_TABLE_GRACE)
		return;
	remove_exited(t, time - PROCESS_TABLE_GRACE);
	t->swept = time;
}

static void on_task_exit(struct process_table *t, const struct record *r)
{
	struct process *p = *find_slot(t, r->pid);
	if (!p)
		return;
	if (r->tid != r->pid)
		thread_drop(p, r->tid);
	else
		p->leader_gone = true;
	if (p->leader_gone && !p->n_threads) /* a leader may end long before its threads */
		p->exited = r->time;
	sweep_when_due(t, r->time);
}

void process_table_record(struct process_table *t, const struct record *r)
{
	t->turn++;
	/* No caller holds a process here; a record may bring two. Not for every record: a sweep looks at all. */
	if (t->count + 2 > PROCESS_TABLE_MAX && r->time > t->swept + PROCESS_TABLE_GRACE / 16) {
		remove_exited(t, UINT64_MAX);
		if (t->count + 2 > PROCESS_TABLE_MAX)
			evict_processes(t);
		t->swept = r->time;
	}
	switch (r->type) {
	case PERF_RECORD_COMM:
		return on_comm(t, r);
	case PERF_RECORD_MMAP2:
		return on_mmap(t, r);
	case PERF_RECORD_FORK:
		return on_fork(t, r);
	case PERF_RECORD_EXIT:
		return on_task_exit(t, r);
	}
}

void process_table_adopt(struct process_table *t, uint32_t pid, uint32_t tid, const char *name)
{
	struct process *p = get_own(t, pid);
	if (p)
		p->exited = 0;
	if (p && tid != pid)
		thread_set(p, tid, name);
	else if (p)
		snprintf(p->comm, sizeof(p->comm), "%s", name);
}

int process_table_adopt_maps(struct process_table *t, uint32_t pid, int maps, size_t *left)
{
	char exe[4096];
	struct process *p = get_own(t, pid);
	int r = p ? proc_maps_read(maps, p->space, left, exe, sizeof(exe)) : -ENOMEM;
	if (r > 0 && exe[0])
		set_exe(p, exe);
	return r;
}

int process_table_adopt_text(struct process_table *t, uint32_t pid, char *text)
{
	char exe[4096];
	struct process *p = get_own(t, pid);
	int r = p ? proc_maps_text(text, p->space, exe, sizeof(exe)) : -ENOMEM;
	if (r > 0 && exe[0] && !p->exe[0])
		set_exe(p, exe);
	if (p && !p->comm[0])
		snprintf(p->comm, sizeof(p->comm), "%.15s", p->exe);
	return r;
}

void process_table_exec(struct process_table *t, uint32_t pid)
{
	struct process *p = get_own(t, pid);
	if (p)
		begin_anew(t, p);
	if (p)
		p->comm[0] = 0;
}

void process_table_ended(struct process_table *t, uint32_t pid, uint64_t time)
{
	struct process *p = *find_slot(t, pid);
	if (p)
		p->exited = time;
	sweep_when_due(t, time);
}

void process_table_lossy(struct process_table *t)
{
	if (t->all_lossy)
		return;
	t->lossy = t->all_lossy = true;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct process *p = t->buckets[i]; p; p = p->next)
			address_space_set_lossy(p->space);
}

size_t process_table_count(const struct process_table *t)
{
	return t->count;
}

/* --- in a journal --------------------------------------------------------------------------------------- */

void process_table_each(struct process_table *t, void (*fn)(void *arg, struct process *p), void *arg)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct process *p = t->buckets[i]; p; p = p->next)
			fn(arg, p);
}

void process_table_each_thread(struct process_table *t, void (*fn)(void *arg, uint32_t pid, uint32_t tid), void *arg)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct process *p = t->buckets[i]; p; p = p->next) {
			if (p->pid && !p->exited && !p->leader_gone)
				fn(arg, p->pid, p->pid);
			for (size_t k = 0; p->threads && k < THREAD_BUCKETS; k++)
				for (const struct thread_state *th = p->threads[k]; th; th = th->next)
					fn(arg, p->pid, th->tid);
		}
}

static void save_task(const struct process *p, struct spaces_saved *known, struct journal *j)
{
	journal_number(j, p->pid);
	journal_text(j, p->comm);
	journal_text(j, p->exe);
	journal_number(j, p->exited);
	journal_number(j, (uint64_t)p->sampled | (uint64_t)p->leader_gone << 1);
	journal_number(j, jit_serial(p->jit));
	address_space_save(p->space, known, j);
	journal_number(j, p->n_threads);
	for (size_t i = 0; p->threads && i < THREAD_BUCKETS; i++)
		for (const struct thread_state *th = p->threads[i]; th; th = th->next) {
			journal_number(j, th->tid);
			journal_text(j, th->name);
		}
}

void process_table_save(const struct process_table *t, struct journal *j)
{
	struct spaces_saved known = {0};
	journal_number(j, t->swept);
	journal_number(j, t->lossy);
	journal_number(j, t->count);
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct process *p = t->buckets[i]; p; p = p->next)
			save_task(p, &known, j);
	spaces_saved_done(&known);
}

static void restore_threads(struct process *p, struct journal_reader *s)
{
	size_t n = saved_count(s, 3);
	s->bad |= n > THREADS_MAX;
	for (size_t i = 0; i < n && !s->bad; i++) {
		uint32_t tid = (uint32_t)saved_below(s, 1ull << 32);
		const char *name = saved_text(s, sizeof(((struct thread_state *)0)->name) - 1);
		if (!s->bad)
			thread_set(p, tid, name);
	}
}

static int restore_task(struct process_table *t, struct journal_reader *s, struct spaces_restored *known,
	process_table_find_fn *find, void *arg)
{
	struct address_space *space;
	uint32_t pid = (uint32_t)saved_below(s, 1ull << 32);
	struct process **at = find_slot(t, pid), *p;
	if (s->bad || *at || t->count > PROCESS_TABLE_MAX) /* one more: the one that processes without room share */
		return -EBADMSG;
	if (!(p = add_process(t, pid, at)))
		return -ENOMEM;
	snprintf(p->comm, sizeof(p->comm), "%s", saved_text(s, sizeof(p->comm) - 1));
	snprintf(p->exe, sizeof(p->exe), "%s", saved_text(s, sizeof(p->exe) - 1));
	p->exited = saved_number(s);
	uint64_t flags = saved_below(s, 4);
	p->sampled = flags & 1;
	p->leader_gone = flags >> 1;
	p->jit = jit_ref(find(arg, saved_number(s)));
	int r = address_space_restore(t->files, known, s, &space);
	if (r < 0)
		return r;
	address_space_free(p->space);
	p->space = space;
	restore_threads(p, s);
	return s->bad ? -EBADMSG : 0;
}

int process_table_restore(struct process_table *t, struct journal_reader *s, process_table_find_fn *find, void *arg)
{
	struct spaces_restored known = {0};
	int r = 0;
	t->swept = saved_number(s);
	t->lossy = saved_below(s, 2);
	t->all_lossy = false; /* each space says so itself */
	size_t n = saved_count(s, 10);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = restore_task(t, s, &known, find, arg);
	spaces_restored_done(&known);
	return r == 0 && s->bad ? -EBADMSG : r;
}
