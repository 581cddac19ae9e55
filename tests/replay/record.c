/*
 * record [OPTION...] FILE COMMAND... - runs a command under the events that the product opens, and writes all that the
 * kernel told of it into one file (recording.h), with the parts of files that unwinding and naming read. Needs root.
 *
 *	--events LIST	as in io.pillion.profile; default cpu@999. offcpu: with --process alone, and
 *			of programs that wait a few hundred times a second at most, for then no event has to take turns
 *	--process	events are inherited from the first process on, in place of those of a cgroup
 *	--user		without kernel code, as for a plain user
 *	--ring KIB	of a CPU; default 16384, where nothing is lost on a busy machine either
 *	--step MS	from one look at the rings to the next; default 50
 *	--tell		of a cgroup: each sample tells the event's count (the product does not ask for it)
 *	--first		with a real-time priority: other programs do not take its CPUs away
 *
 * The command gets an empty environment and no input; what it prints is dropped. To add a recording to those that
 * tests/unit/profiler/target/test_replay.c replays: make record RECORDING=NAME COMMAND='...' [OPTIONS='...'].
 */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/perf/record.h"
#include "profiler/perf/ring.h"
#include "shim/event/perf_event.h"
#include "shim/protocol/messages.h"
#include "tests/replay/recording.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <lzma.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPUS_MAX = 256, PATHS_MAX = 4096, ADDRESSES_MAX = 1 << 20 };

struct event {
	int fd;
	struct recording_event told;
	struct recording_truth truth;
};

static struct {
	const char *events;
	bool process, kernel, first, tell;
	size_t ring_size;
	unsigned step_ms;
} options = {"cpu@999", false, true, false, false, 16 << 20, 50};

static struct {
	char *bytes;
	size_t size;
	FILE *out;
	int cpus[CPUS_MAX], n_cpus;
	struct ring *rings[CPUS_MAX];
	int owners[CPUS_MAX];
	struct event events[CPUS_MAX * (3 * EVENTS_MAX + 1)];
	unsigned n_events;
	char cgroup[128];
	int cgroup_fd, cpu_stat;
	char *paths[PATHS_MAX];
	unsigned n_paths;
	uint64_t addresses[ADDRESSES_MAX]; /* of kernel code */
	size_t n_addresses;
	int64_t to_real; /* from the one clock to the other, as it began */
} run = {.cgroup_fd = -1, .cpu_stat = -1};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "record: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const void *bytes, size_t size)
{
	if (size && fwrite(bytes, size, 1, run.out) != 1)
		die("write");
}

static void put_part(enum recording_type type, const void *body, size_t size)
{
	struct recording_head head = {.type = type, .size = (uint32_t)size};
	put(&head, sizeof(head));
	put(body, size);
}

/* --- what the records name ------------------------------------------------------------------------------- */

static void add_path(const char *path)
{
	unsigned i = 0;
	while (i < run.n_paths && strcmp(run.paths[i], path) != 0)
		i++;
	if (path[0] != '/' || path[1] == '/' || i < run.n_paths || i == PATHS_MAX)
		return;
	run.paths[run.n_paths++] = strdup(path);
}

static void add_address(uint64_t address)
{
	if (address >> 63 && address < (uint64_t)-4096 && run.n_addresses < ADDRESSES_MAX)
		run.addresses[run.n_addresses++] = address;
}

/* The kernel copies the stack that there is; what lies behind it in the record is of the record that lay there before.
 */
static void clear_rest(const struct record_sample *s)
{
	uint64_t size;
	if (!s->stack)
		return;
	memcpy(&size, s->stack - sizeof(size), sizeof(size));
	memset((uint8_t *)s->stack + s->stack_size, 0, size - s->stack_size);
}

static void look_at(const struct perf_event_header *h)
{
	struct perf_layout none = {0};
	struct record r;
	uint64_t id, time;
	unsigned i = 0;
	if (record_peek(h, &id, &time) < 0)
		return;
	while (i < run.n_events && run.events[i].told.id != id)
		i++;
	struct event *e = i < run.n_events ? &run.events[i] : NULL;
	struct perf_layout layout = !e ? none
				       : (struct perf_layout){
						 .sample_type = e->told.sample_type,
						 .regs_user = e->told.regs_user,
						 .stack_user = e->told.stack_user,
						 .flags = e->told.layout_flags,
					 };
	if (record_parse(h, &layout, &r) < 0)
		die("a record that does not fit its event");
	if (r.type == PERF_RECORD_MMAP2 && r.mmap.exec)
		add_path(r.mmap.path);
	if (e && r.type == PERF_RECORD_LOST)
		e->truth.lost += r.lost.count;
	if (!e || r.type != PERF_RECORD_SAMPLE)
		return;
	e->truth.samples++;
	clear_rest(&r.sample);
	add_address(r.sample.ip);
	for (uint64_t k = 0; k < r.sample.n_chain; k++)
		add_address(r.sample.chain[k]);
}

/* --- events and rings -------------------------------------------------------------------------------------- */

static int open_event(struct perf_want *want, pid_t pid, int cpu, struct perf_layout *ret)
{
	struct perf_event_attr attr;
	perf_attr(want, &attr, ret);
	if (options.tell && want->role == PERF_SAMPLES) {
		ret->sample_type = attr.sample_type |= PERF_SAMPLE_READ;
		attr.read_format = PERF_FORMAT_TOTAL_TIME_RUNNING; /* in place of LOST */
		ret->flags = LAYOUT_RUNNING;
	}
	return options.process ? perf_open(&attr, pid, cpu, 0)
			       : perf_open(&attr, run.cgroup_fd, cpu, PERF_FLAG_PID_CGROUP);
}

static void add_event(struct perf_want *want, uint32_t spec, pid_t pid, int cpu)
{
	struct perf_layout layout;
	struct event *e = &run.events[run.n_events++];
	e->fd = open_event(want, pid, run.cpus[cpu], &layout);
	if (e->fd < 0) {
		errno = -e->fd;
		die("perf_event_open");
	}
	if (ioctl(e->fd, PERF_EVENT_IOC_SET_OUTPUT, run.owners[cpu]) < 0 ||
		ioctl(e->fd, PERF_EVENT_IOC_ID, &e->told.id) < 0)
		die("ioctl of an event");
	e->told.sample_type = layout.sample_type;
	e->told.regs_user = layout.regs_user;
	e->told.stack_user = layout.stack_user;
	e->told.layout_flags = layout.flags;
	e->told.role = want->role;
	e->told.spec = spec;
	e->told.cpu = (uint32_t)run.cpus[cpu];
	e->truth.id = e->told.id;
	put_part(RECORDING_EVENT, &e->told, sizeof(e->told));
}

static void open_ring(int cpu)
{
	struct perf_want want = {.role = PERF_OWNER, .kernel = true};
	struct perf_event_attr attr;
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	run.owners[cpu] = perf_open(&attr, -1, run.cpus[cpu], 0);
	if (run.owners[cpu] < 0 ||
		ring_open(run.owners[cpu], options.ring_size / (size_t)sysconf(_SC_PAGESIZE), &run.rings[cpu]) < 0)
		die("ring");
}

/* As shim/attach/event_open.c opens those of waits where events are inherited, of which the last has its turn later. */
static void add_waits(struct perf_want *want, uint32_t spec, bool has_clock, pid_t pid, int cpu)
{
	want->role = PERF_SWITCHES;
	add_event(want, spec, pid, cpu);
	want->role = PERF_SAMPLES;
	if (options.kernel || !has_clock)
		add_event(want, spec, pid, cpu);
	want->role = PERF_OFFCPU_SMALL;
	want->idle = true;
	if (options.kernel)
		add_event(want, spec, pid, cpu);
	want->idle = false;
}

static void open_events(pid_t pid)
{
	struct event_spec specs[EVENTS_MAX];
	struct err e = {0};
	size_t n;
	bool clamped, has_clock = false;
	if (event_spec_parse(options.events, 0, specs, &n, &clamped, &e) < 0) {
		fprintf(stderr, "record: %s\n", e.text);
		exit(2);
	}
	for (int cpu = 0; cpu < run.n_cpus; cpu++) {
		struct perf_want want = {.role = PERF_SIDEBAND,
			.kernel = options.kernel,
			.inherit = options.process,
			.on_exec = options.process,
			.build_id = true};
		open_ring(cpu);
		add_event(&want, 0, pid, cpu);
		for (uint32_t spec = 0; spec < n; spec++) {
			const enum event_measure measure = event_kind(specs[spec].kind)->measure;
			want.role = PERF_SAMPLES;
			want.lost = true;
			want.spec = specs[spec];
			want.stacks = STACKS_AUTO;
			has_clock |= measure == MEASURES_CPU;
			if (measure == MEASURES_OFFCPU)
				add_waits(&want, spec, has_clock, pid, cpu);
			else
				add_event(&want, spec, pid, cpu);
		}
	}
}

/* --- one look ------------------------------------------------------------------------------------------------ */

static void put_ring(int cpu)
{
	char *bytes;
	size_t size;
	FILE *f = open_memstream(&bytes, &size);
	uint32_t number = (uint32_t)run.cpus[cpu];
	const struct perf_event_header *h;
	if (!f)
		die("memory");
	fwrite(&number, sizeof(number), 1, f);
	ring_look(run.rings[cpu]);
	while ((h = ring_peek(run.rings[cpu]))) {
		struct perf_event_header *copy = malloc(h->size); /* the ring's pages cannot be written */
		if (!copy)
			die("memory");
		memcpy(copy, h, h->size);
		look_at(copy);
		fwrite(copy, copy->size, 1, f);
		free(copy);
		ring_take(run.rings[cpu]);
	}
	fclose(f);
	if (size > sizeof(number))
		put_part(RECORDING_RING, bytes, size);
	free(bytes);
}

static void put_count(const struct event *e)
{
	struct recording_count c = {.id = e->told.id};
	ssize_t n = read(e->fd, c.values, sizeof(c.values));
	if (n < 0)
		die("read an event");
	c.n = (uint64_t)n / sizeof(c.values[0]);
	put_part(RECORDING_COUNT, &c, sizeof(c));
}

static void put_usage(void)
{
	char text[1024] = "";
	const char *at;
	if (run.cpu_stat < 0 || pread(run.cpu_stat, text, sizeof(text) - 1, 0) <= 0 ||
		!(at = strstr(text, "usage_usec ")))
		return;
	put_part(RECORDING_USAGE, &(uint64_t){strtoull(at + 11, NULL, 10)}, sizeof(uint64_t));
}

static void put_step(bool last)
{
	struct recording_step step = {.last = last};
	for (int cpu = 0; cpu < run.n_cpus; cpu++)
		put_ring(cpu);
	for (unsigned i = 0; i < run.n_events; i++)
		put_count(&run.events[i]);
	put_usage();
	step.now = clock_now();
	step.real = step.now + run.to_real;
	put_part(RECORDING_STEP, &step, sizeof(step));
}

/* --- files ----------------------------------------------------------------------------------------------------- */

static bool is_read(const char *name, const Elf64_Shdr *s)
{
	static const char *const kept[] = {".eh_frame", ".eh_frame_hdr", ".gopclntab", ".interp"};
	if (s->sh_type == SHT_NOBITS || s->sh_type == SHT_NULL)
		return false;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strcmp(name, kept[i]))
			return true;
	switch (s->sh_type) { /* what the dynamic linker alone needs */
	case SHT_RELA:
	case SHT_RELR:
	case SHT_HASH:
	case SHT_GNU_HASH:
	case SHT_GNU_versym:
	case SHT_GNU_verneed:
	case SHT_GNU_verdef:
	case SHT_INIT_ARRAY:
	case SHT_FINI_ARRAY:
		return false;
	default: /* code and data are not looked at */
		return s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_ALLOC);
	}
}

static void put_extent(FILE *f, const char *bytes, uint64_t offset, uint64_t length, uint32_t *n)
{
	fwrite(&offset, sizeof(offset), 1, f);
	fwrite(&length, sizeof(length), 1, f);
	fwrite(bytes + offset, length, 1, f);
	(*n)++;
}

static void put_sections(FILE *f, const char *bytes, size_t size, uint32_t *n)
{
	const Elf64_Ehdr *h = (const void *)bytes;
	const Elf64_Shdr *s = (const void *)(bytes + h->e_shoff);
	if (!h->e_shoff || h->e_shoff + (size_t)h->e_shnum * sizeof(*s) > size)
		return;
	put_extent(f, bytes, h->e_shoff, h->e_shnum * sizeof(*s), n);
	for (unsigned i = 0; i < h->e_shnum; i++)
		if (is_read(bytes + s[h->e_shstrndx].sh_offset + s[i].sh_name, &s[i]))
			put_extent(f, bytes, s[i].sh_offset, s[i].sh_size, n);
}

static void put_file(const char *path)
{
	char *bytes = NULL, *body;
	size_t size = 0, body_size;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct recording_file file = {.path_size = (uint32_t)strlen(path) + 1};
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		size = (size_t)st.st_size;
		bytes = calloc(1, size + sizeof(Elf64_Ehdr));
	}
	bool whole = bytes && fd_pread_all(fd, bytes, size, 0) == (ssize_t)size;
	fd_close(fd);
	FILE *f = open_memstream(&body, &body_size);
	if (!f)
		die("memory");
	fwrite(&file, sizeof(file), 1, f);
	fwrite(path, file.path_size, 1, f);
	file.size = size;
	if (whole && size > 4096 && !memcmp(bytes, ELFMAG, SELFMAG) && bytes[EI_CLASS] == ELFCLASS64) {
		put_extent(f, bytes, 0, sizeof(Elf64_Ehdr) + ((const Elf64_Ehdr *)bytes)->e_phnum * sizeof(Elf64_Phdr),
			&file.n);
		put_sections(f, bytes, size, &file.n);
	} else if (whole) {
		put_extent(f, bytes, 0, size, &file.n);
	}
	fclose(f);
	memcpy(body, &file, sizeof(file));
	if (whole)
		put_part(RECORDING_FILE, body, body_size);
	else
		fprintf(stderr, "record: %s is not there any more\n", path);
	free(body);
	free(bytes);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

struct symbol {
	uint64_t address;
	char line[200];
};

static int by_address(const void *a, const void *b)
{
	return by_value(&((const struct symbol *)a)->address, &((const struct symbol *)b)->address);
}

static struct symbol *read_kallsyms(size_t *ret_n)
{
	struct symbol *all = NULL;
	size_t n = 0, room = 0;
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[sizeof(all->line)];
	while (f && fgets(line, sizeof(line), f)) {
		char type = line[17];
		if (type != 't' && type != 'T' && type != 'w' && type != 'W')
			continue;
		if (n == room && !(all = realloc(all, (room = room ? 2 * room : 1 << 16) * sizeof(*all))))
			die("memory");
		all[n].address = strtoull(line, NULL, 16);
		memcpy(all[n++].line, line, sizeof(line));
	}
	if (f)
		fclose(f);
	if (n)
		qsort(all, n, sizeof(*all), by_address);
	*ret_n = n;
	return all;
}

/* Those where a sample hit, all of their address, and the next ones, where they end. */
static void put_kallsyms(void)
{
	size_t n, at = 0, size, i = 0;
	struct symbol *all = read_kallsyms(&n);
	char *text;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		die("memory");
	qsort(run.addresses, run.n_addresses, sizeof(run.addresses[0]), by_value);
	for (size_t k = 0; k < run.n_addresses; k++) {
		while (at + 1 < n && all[at + 1].address <= run.addresses[k])
			at++;
		size_t first = at, end = at;
		while (first > i && all[first - 1].address == all[at].address)
			first--;
		while (end < n && all[end].address <= all[at].address)
			end++;
		for (i = first > i ? first : i; i < end + 1 && i < n; i++)
			fputs(all[i].line, f);
	}
	fclose(f);
	if (size)
		put_part(RECORDING_KALLSYMS, text, size);
	free(text);
	free(all);
}

static void put_vdso(void)
{
	const Elf64_Ehdr *h = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	if (h)
		put_part(RECORDING_VDSO, h, h->e_shoff + (size_t)h->e_shnum * h->e_shentsize);
}

static void put_rest(void)
{
	uint64_t samples = 0, lost = 0;
	for (unsigned i = 0; i < run.n_events; i++) {
		put_part(RECORDING_TRUTH, &run.events[i].truth, sizeof(run.events[i].truth));
		samples += run.events[i].truth.samples;
		lost += run.events[i].truth.lost;
	}
	put_vdso();
	if (options.kernel)
		put_kallsyms();
	for (unsigned i = 0; i < run.n_paths; i++)
		put_file(run.paths[i]);
	printf("%llu samples, %llu lost, %u files\n", (unsigned long long)samples, (unsigned long long)lost,
		run.n_paths);
}

static void compress_to(const char *path)
{
	size_t bound = lzma_stream_buffer_bound(run.size), n = 0;
	uint8_t *out = malloc(bound);
	FILE *f = fopen(path, "we");
	if (!out || !f ||
		lzma_easy_buffer_encode(9 | LZMA_PRESET_EXTREME, LZMA_CHECK_CRC64, NULL, (const uint8_t *)run.bytes,
			run.size, out, &n, bound) != LZMA_OK ||
		fwrite(out, n, 1, f) != 1 || fclose(f) != 0)
		die(path);
	printf("%zu bytes, %zu in the file\n", run.size, n);
	free(out);
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static void make_cgroup(void)
{
	static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	for (size_t i = 0; i < 2 && run.cgroup_fd < 0; i++) {
		char path[160];
		snprintf(path, sizeof(path), "%s/cgroup.procs", roots[i]);
		if (access(path, F_OK) < 0)
			continue;
		snprintf(run.cgroup, sizeof(run.cgroup), "%s/pillion-record-%d", roots[i], getpid());
		if (mkdir(run.cgroup, 0755) < 0)
			die(run.cgroup);
		run.cgroup_fd = open(run.cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		run.cpu_stat = openat(run.cgroup_fd, "cpu.stat", O_RDONLY | O_CLOEXEC);
	}
	if (run.cgroup_fd < 0)
		die("no cgroup v2");
}

static pid_t start(char **argv, int *ret_go)
{
	int ends[2];
	char byte;
	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe");
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		setpgid(0, 0);
		if (!options.process) {
			int procs = openat(run.cgroup_fd, "cgroup.procs", O_WRONLY);
			if (write(procs, "0", 1) != 1)
				_exit(126);
			close(procs);
		}
		if (options.first && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}) < 0)
			_exit(125);
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			_exit(127);
		dup2(null, 0);
		dup2(null, 1);
		clearenv(); /* it lies on the stack, which is in the recording */
		setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0)
		die("fork");
	setpgid(pid, pid);
	close(ends[0]);
	*ret_go = ends[1];
	return pid;
}

/* Until the command and all that it started have ended. */
static void follow(pid_t pid)
{
	int status = 0;
	bool reaped = false;
	while (!reaped || kill(-pid, 0) == 0) {
		usleep(options.step_ms * 1000);
		put_step(false);
		reaped |= waitpid(pid, &status, WNOHANG) == pid;
	}
	if (status)
		fprintf(stderr, "record: the command ended with %d\n", status);
	put_step(true);
}

static void parse_options(int argc, char **argv)
{
	static const struct option long_options[] = {{"events", required_argument, NULL, 'e'},
		{"process", no_argument, NULL, 'p'}, {"user", no_argument, NULL, 'u'},
		{"ring", required_argument, NULL, 'r'}, {"step", required_argument, NULL, 's'},
		{"first", no_argument, NULL, 'f'}, {"tell", no_argument, NULL, 't'}, {0}};
	int c;
	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) >= 0) {
		if (c == 'e')
			options.events = optarg;
		else if (c == 'p')
			options.process = true;
		else if (c == 'u')
			options.kernel = false;
		else if (c == 'f')
			options.first = true;
		else if (c == 't')
			options.tell = true;
		else if (c == 'r')
			options.ring_size = strtoul(optarg, NULL, 10) << 10;
		else if (c == 's')
			options.step_ms = (unsigned)strtoul(optarg, NULL, 10);
		else
			exit(2);
	}
	if (argc - optind < 2) {
		fprintf(stderr, "usage: record [--events LIST] [--process] [--user] [--ring KIB] [--step MS] [--first] "
				"[--tell] FILE "
				"COMMAND...\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int go;
	parse_options(argc, argv);
	run.to_real = clock_real() - clock_now();
	run.n_cpus = perf_online_cpus(run.cpus, CPUS_MAX);
	run.out = open_memstream(&run.bytes, &run.size);
	if (run.n_cpus <= 0 || !run.out)
		die("cannot begin");
	if (!options.process)
		make_cgroup();
	pid_t pid = start(argv + optind + 1, &go);
	struct recording_run told = {.strategy = options.process ? STRATEGY_PROCESS : STRATEGY_CGROUP,
		.kernel = options.kernel,
		.init_pid = (uint32_t)pid,
		.n_cpus = (uint32_t)run.n_cpus,
		.ring_size = options.ring_size};
	snprintf(told.events, sizeof(told.events), "%s", options.events);
	put(RECORDING_MAGIC, strlen(RECORDING_MAGIC));
	put_part(RECORDING_RUN, &told, sizeof(told));
	open_events(pid);
	put_step(false);
	if (write(go, "", 1) != 1)
		die("go");
	follow(pid);
	put_rest();
	if (run.cgroup[0] && rmdir(run.cgroup) < 0)
		die(run.cgroup);
	if (fclose(run.out) != 0)
		die("write");
	compress_to(argv[optind]);
	return 0;
}
