/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/replay.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "profiler/daemon/exporter.h"
#include "profiler/daemon/exporter_manager.h"
#include "profiler/pprof/pprof.h"
#include "profiler/target/engine.h"
#include "profiler/target/exporter_link.h"
#include "profiler/target/symbolizer_link.h"
#include "profiler/target/target.h"
#include "tests/unit/support/forked.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <lzma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDING_BYTES_MAX = 256 << 20, CPUS_MAX = 256, STREAMS_MAX = 1024 };

static struct clock_driven driven;

static struct {
	struct replay *ret;
	struct replay_options options;
	uint8_t *bytes;
	size_t size;
	char dir[64]; /* its files */
	struct forked forked;
	struct engine engine;
	struct target *target; /* NULL before it begins, and when it has ended */
	bool ended;
	int memory[CPUS_MAX]; /* of rings */
	uint8_t *rings[CPUS_MAX];
	int cpus[CPUS_MAX];
	unsigned n_cpus;
	size_t ring_size;
	struct recording_event events[STREAMS_MAX];
	int counts[STREAMS_MAX]; /* what a read of the event yields */
	unsigned n_events;
	int cpu_stat, exporter;
	struct event_loop_source exporter_source;
	struct export_profile message;
} w;

/* --- the file ---------------------------------------------------------------------------------------------- */

static void decompress(const uint8_t *in, size_t size)
{
	lzma_stream s = LZMA_STREAM_INIT;
	size_t room = 0;
	lzma_ret r = lzma_stream_decoder(&s, UINT64_MAX, 0);
	s.next_in = in;
	s.avail_in = size;
	while (r == LZMA_OK) {
		if (!s.avail_out) {
			s.avail_out = room ? room : 4 << 20;
			room += s.avail_out;
			ck_assert_uint_le(room, RECORDING_BYTES_MAX);
			w.bytes = realloc(w.bytes, room);
			ck_assert_ptr_nonnull(w.bytes);
			s.next_out = w.bytes + room - s.avail_out;
		}
		r = lzma_code(&s, LZMA_FINISH);
	}
	ck_assert_msg(r == LZMA_STREAM_END, "the recording is no whole xz file");
	w.size = s.total_out;
	lzma_end(&s);
}

static void load(const char *name)
{
	char path[PATH_MAX];
	char *in;
	size_t size;
	snprintf(path, sizeof(path), "tests/replay/recordings/%s.xz", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(fd_slurp(fd, RECORDING_BYTES_MAX, &in, &size), 0);
	fd_close(fd);
	decompress((const uint8_t *)in, size);
	free(in);
	ck_assert(w.size > 8 && !memcmp(w.bytes, RECORDING_MAGIC, 8));
}

/* Each part of one of these types (a mask), in their order. */
static void each_part(unsigned types, void (*fn)(uint32_t type, uint8_t *body, uint32_t size))
{
	struct recording_head h;
	for (size_t at = 8; at < w.size; at += sizeof(h) + h.size) {
		ck_assert_uint_le(sizeof(h), w.size - at);
		memcpy(&h, w.bytes + at, sizeof(h));
		ck_assert_uint_le(h.size, w.size - at - sizeof(h));
		if (types & 1u << h.type)
			fn(h.type, w.bytes + at + sizeof(h), h.size);
	}
}

/* --- what is there before it begins ------------------------------------------------------------------------ */

static void make_directories(char *path)
{
	for (char *slash = strchr(path + strlen(w.dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		ck_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

static void put_file(const uint8_t *body)
{
	struct recording_file f;
	char path[PATH_MAX];
	memcpy(&f, body, sizeof(f));
	snprintf(path, sizeof(path), "%s%s", w.dir, (const char *)body + sizeof(f));
	make_directories(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)f.size), 0);
	body += sizeof(f) + f.path_size;
	for (uint32_t i = 0; i < f.n; i++) {
		uint64_t extent[2];
		memcpy(extent, body, sizeof(extent));
		body += sizeof(extent);
		ck_assert_int_eq(pwrite(fd, body, extent[1], (off_t)extent[0]), (ssize_t)extent[1]);
		body += extent[1];
	}
	fd_close(fd);
}

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("replay", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, bytes, size), 0);
	return fd;
}

static void put_truth(const uint8_t *body)
{
	struct recording_truth truth;
	memcpy(&truth, body, sizeof(truth));
	for (unsigned i = 0; i < w.n_events; i++)
		if (w.events[i].id == truth.id && w.events[i].role == PERF_SAMPLES) {
			w.ret->samples[w.events[i].spec] += truth.samples;
			w.ret->lost[w.events[i].spec] += truth.lost;
		}
}

static void prepare(uint32_t type, uint8_t *body, uint32_t size)
{
	const struct elf_memory vdso = {body, size};
	if (type == RECORDING_RUN)
		memcpy(&w.ret->run, body, sizeof(w.ret->run));
	else if (type == RECORDING_EVENT)
		memcpy(&w.events[w.n_events++], body, sizeof(w.events[0]));
	else if (type == RECORDING_RING)
		while (w.ring_size < 2 * (size_t)size) /* a drain leaves what is too young */
			w.ring_size *= 2;
	else if (type == RECORDING_FILE)
		put_file(body);
	else if (type == RECORDING_VDSO)
		modules_use_vdso(w.engine.symbols.modules, &vdso);
	else if (type == RECORDING_KALLSYMS)
		w.engine.symbols.kallsyms_fd = file_of(body, size);
	else
		put_truth(body);
}

/* --- in place of the exporter -------------------------------------------------------------------------------- */

static void keep_profile(int memory)
{
	struct replay_profile *p = &w.ret->profiles[w.ret->n_profiles++];
	struct err e = {0};
	ck_assert_uint_le(w.ret->n_profiles, REPLAY_PROFILES_MAX);
	snprintf(p->event, sizeof(p->event), "%s", w.message.event);
	p->size = w.message.bytes;
	p->bytes = malloc(p->size);
	ck_assert_int_eq(fd_pread_all(memory, p->bytes, p->size, 0), (ssize_t)p->size);
	ck_assert_msg(pprof_read(p->bytes, p->size, &p->profile, &e) == 0, "%s", e.text);
}

static void on_profile(void *arg, uint32_t events)
{
	struct export_done done = {.head = {.magic = EXPORT_MAGIC, .type = EXPORT_DONE}, .path = "profile"};
	int memory = -1;
	size_t n = 0;
	ssize_t got = fd_recv(w.exporter, &w.message, sizeof(w.message), &memory, 1, &n);
	ck_assert(got > 0 && export_check(&w.message, (size_t)got, n, EXPORT_PROFILE));
	keep_profile(memory);
	fd_close(memory);
	done.head.id = w.message.head.id;
	ck_assert_int_eq(fd_send(w.exporter, &done, sizeof(done), NULL, 0), 0);
}

/* --- in place of the kernel ---------------------------------------------------------------------------------- */

static void open_rings(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (unsigned i = 0; i < w.n_events; i++) {
		unsigned k = 0;
		while (k < w.n_cpus && w.cpus[k] != (int)w.events[i].cpu)
			k++;
		if (k == w.n_cpus)
			w.cpus[w.n_cpus++] = (int)w.events[i].cpu;
	}
	for (unsigned i = 0; i < w.n_cpus; i++) {
		w.memory[i] = memfd_create("ring", MFD_CLOEXEC);
		ck_assert_int_eq(ftruncate(w.memory[i], (off_t)(page + w.ring_size)), 0);
		w.rings[i] = mmap(NULL, page + w.ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, w.memory[i], 0);
		ck_assert_ptr_ne(w.rings[i], MAP_FAILED);
	}
	ck_assert_int_eq(cpu_rings_adopt(&w.engine.perf.rings, w.cpus, w.memory, w.n_cpus, w.ring_size), 0);
}

static void write_ring(const uint8_t *body, uint32_t size)
{
	uint32_t cpu;
	unsigned i = 0;
	memcpy(&cpu, body, sizeof(cpu));
	while (w.cpus[i] != (int)cpu)
		i++;
	struct perf_event_mmap_page *page = (void *)w.rings[i];
	uint8_t *data = w.rings[i] + sysconf(_SC_PAGESIZE);
	uint64_t head = page->data_head;
	for (uint32_t k = sizeof(cpu), n; k < size; k += n, head += n) {
		const size_t at = head & (w.ring_size - 1);
		n = w.ring_size - at < size - k ? (uint32_t)(w.ring_size - at) : size - k;
		memcpy(data + at, body + k, n);
	}
	ck_assert_uint_le(head - page->data_tail, w.ring_size);
	__atomic_store_n(&page->data_head, head, __ATOMIC_RELEASE);
}

static void write_count(const uint8_t *body)
{
	struct recording_count c;
	memcpy(&c, body, sizeof(c));
	for (unsigned i = 0; i < w.n_events; i++)
		if (w.events[i].id == c.id)
			ck_assert_int_gt(pwrite(w.counts[i], c.values, c.n * sizeof(c.values[0]), 0), 0);
}

static void rewind_counts(void)
{
	for (unsigned i = 0; i < w.n_events; i++)
		lseek(w.counts[i], 0, SEEK_SET);
}

static void write_usage(const uint8_t *body)
{
	char text[64];
	uint64_t usec;
	memcpy(&usec, body, sizeof(usec));
	int n = snprintf(text, sizeof(text), "usage_usec %llu\n", (unsigned long long)usec);
	ck_assert_int_eq(pwrite(w.cpu_stat, text, (size_t)n, 0), n);
}

/* --- the target -------------------------------------------------------------------------------------------- */

static void add_stream(struct target *t, unsigned i)
{
	const struct recording_event *e = &w.events[i];
	struct open_event *st = calloc(1, sizeof(*st));
	ck_assert_ptr_nonnull(st);
	*st = (struct open_event){.id = e->id,
		.fd = w.counts[i],
		.cpu = (int)e->cpu,
		.role = e->role,
		.spec = e->spec,
		.index = t->events.n_announced++,
		.target = t,
		.layout = {e->sample_type, e->regs_user, e->stack_user, e->layout_flags},
		.next_of_target = t->events.list};
	t->events.list = st;
	w.engine.n_events++;
	ck_assert_int_eq(open_events_add(w.engine.perf.events, st), 0);
}

static void on_ended(void *arg, const struct msg_ended *m)
{
	/* what it has in the end, before it goes */
	w.ended = true;
	w.target = NULL;
}

static void begin_target(void)
{
	struct target_desc d = {.id = "replay",
		.name = "replay",
		.init_pid = (int32_t)w.ret->run.init_pid,
		.host_pid = (int32_t)w.ret->run.init_pid,
		.start_time = 1,
		.fds = TARGET_TREE,
		.strategy = w.ret->run.strategy,
		.kernel = w.ret->run.kernel,
		.window_s = w.options.window_s ? w.options.window_s : 60};
	struct err e = {0};
	bool clamped;
	size_t n;
	ck_assert_msg(event_spec_parse(w.ret->run.events, 0, d.events, &n, &clamped, &e) == 0, "%s", e.text);
	memcpy(w.ret->specs, d.events, sizeof(w.ret->specs));
	d.n_events = (uint32_t)n;
	int fds[2] = {open(w.dir, O_PATH | O_DIRECTORY | O_CLOEXEC), w.cpu_stat};
	ck_assert_int_ge(fds[0], 0);
	if (d.strategy == STRATEGY_CGROUP)
		d.fds |= TARGET_CPU_STAT;
	ck_assert_msg(target_new(&w.engine, &d, fds, &w.target, &e) == 0, "%s", e.text);
	for (unsigned i = 0; i < w.n_events; i++)
		add_stream(w.target, i);
	w.target->owner.on_ended = on_ended;
	rewind_counts();
	ck_assert_msg(target_arm(w.target, w.n_events, &e) == 0, "%s", e.text);
}

/* Until nothing is asked and nothing is written any more, however long that takes. */
static int settle(void *arg)
{
	const struct target *t = w.target;
	exporter_link_round(&w.engine, clock_now());
	if (!t || (!t->ending && !t->names.ahead && !t->window.over && !t->spool.unwritten))
		event_loop_stop(w.engine.loop);
	return -1;
}

static void note_counts(void)
{
	for (const struct open_event *st = w.target->events.list; st; st = st->next_of_target) {
		uint64_t n[4] = {0};
		const bool times = st->layout.flags & LAYOUT_TIMES;
		if (pread(st->fd, n, sizeof(n), 0) <= 0)
			continue;
		if (st->role != PERF_SAMPLES)
			continue;
		w.ret->counted[st->spec] += n[0];
		if (st->layout.flags & LAYOUT_LOST)
			w.ret->lost_by_read[st->spec] += n[1 + 2 * times];
	}
}

static void note_ahead(void)
{
	const struct target *t = w.target;
	if (t->sampling.started && !t->names.ahead &&
		!t->window.seq) /* the engine asks to be called for it, whatever else it looked at */
		ck_assert_int_le(w.engine.round.due, t->names.ahead_due + NSEC_PER_MSEC);
	if (t->names.ahead && !w.ret->named_ahead)
		w.ret->named_ahead = driven.now - t->sampling.began;
}

static void take_step(const struct recording_step *step)
{
	driven.now = step->now;
	driven.to_real = step->real - step->now;
	if (!w.target)
		begin_target();
	rewind_counts();
	engine_drain(&w.engine, false);
	engine_round(&w.engine);
	note_ahead();
	if (step->last) {
		note_counts();
		rewind_counts();
		engine_drain(&w.engine, true);
		w.ret->malformed += w.target->sampling.tally.malformed;
		target_end(w.target);
	}
	ck_assert_int_eq(event_loop_run(w.engine.loop, settle, NULL), 0);
}

static void feed(uint32_t type, uint8_t *body, uint32_t size)
{
	struct recording_step step;
	if (w.options.alter)
		w.options.alter(w.options.arg, type, body, &size);
	if (!size)
		return;
	if (type == RECORDING_RING) {
		write_ring(body, size);
	} else if (type == RECORDING_COUNT) {
		write_count(body);
	} else if (type == RECORDING_USAGE) {
		write_usage(body);
	} else {
		memcpy(&step, body, sizeof(step));
		take_step(&step);
	}
}

/* --- all of it ------------------------------------------------------------------------------------------------ */

static void start_engine(void)
{
	static struct crash_marker nobody_looks;
	struct engine *g = &w.engine;
	*g = (struct engine){.symbols.kallsyms_fd = -1,
		.symbols.root = -1,
		.role.single = true,
		.host.at = &nobody_looks,
		.host.handover = -1,
		.host.channel = -1,
		.host.statm = -1,
		.host.journal = {-1, -1},
		.role.node = "replay",
		.spool.path = "/spool"};
	g->symbols.jit_room.left = 1 << 20;
	ck_assert_int_eq(event_loop_new(&g->loop), 0);
	g->drain = engine_drain_rings;
	ck_assert_int_eq(open_events_new(&g->perf.events), 0);
	ck_assert_int_eq(modules_new(256 << 20, &g->symbols.modules), 0);
	modules_guard(g->symbols.modules, g->host.at, &g->host.quarantine);
	ck_assert_int_eq(unwind_new(&g->symbols.unwind), 0);
	forked_start(&w.forked, (struct symbolizer_limits){.jobs = 2, .memory = 256 << 20, .seconds = 60});
	g->symbols.symbolizer_sockets = w.forked.sockets;
	w.forked.sockets = (struct symbolizer_sockets){-1, -1};
	ck_assert_int_eq(symbolizer_link_open(g), 0);
}

static void start_exporter(void)
{
	struct err e = {0};
	int ends[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	w.engine.spool.exporter_sock = ends[0];
	w.exporter = ends[1];
	ck_assert_int_eq(exporter_link_open(&w.engine, &e), 0);
	ck_assert_int_eq(event_loop_add(w.engine.loop, &w.exporter_source, w.exporter, EPOLLIN, on_profile, NULL), 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static void end_engine(void)
{
	clock_drive(NULL);
	for (unsigned i = 0; i < w.n_cpus; i++)
		munmap(w.rings[i], (size_t)sysconf(_SC_PAGESIZE) + w.ring_size);
	event_loop_del(w.engine.loop, &w.exporter_source);
	fd_close(w.exporter);
	if (w.ret->run.strategy != STRATEGY_CGROUP)
		fd_close(w.cpu_stat);
	engine_done(&w.engine);
	forked_end(&w.forked);
	nftw(w.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(w.bytes);
}

void replay_run(struct replay *r, const char *name, const struct replay_options *options)
{
	memset(&w, 0, sizeof(w));
	memset(r, 0, sizeof(*r));
	w.ret = r;
	w.options = options ? *options : (struct replay_options){0};
	signal(SIGPIPE, SIG_IGN);
	load(name);
	snprintf(w.dir, sizeof(w.dir), "/tmp/replay.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w.dir));
	start_engine();
	start_exporter();
	w.cpu_stat = file_of("usage_usec 0\n", 13);
	w.ring_size = 1 << 17;
	each_part(1u << RECORDING_RUN | 1u << RECORDING_EVENT | 1u << RECORDING_RING | 1u << RECORDING_FILE |
			  1u << RECORDING_KALLSYMS | 1u << RECORDING_VDSO | 1u << RECORDING_TRUTH,
		prepare);
	for (unsigned i = 0; i < w.n_events; i++)
		w.counts[i] = file_of("", 0);
	open_rings();
	clock_drive(&driven);
	each_part(1u << RECORDING_RING | 1u << RECORDING_COUNT | 1u << RECORDING_USAGE | 1u << RECORDING_STEP, feed);
	ck_assert_msg(w.ended, "the recording has no last step");
	end_engine();
}

void replay_done(struct replay *r)
{
	for (size_t i = 0; i < r->n_profiles; i++) {
		profile_free(r->profiles[i].profile);
		free(r->profiles[i].bytes);
	}
	r->n_profiles = 0;
}
