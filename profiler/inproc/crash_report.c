/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/crash_report.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/json/json_write.h"
#include "oci/base/utf8.h"
#include "profiler/inproc/inproc_arch.h"
#include "profiler/process/module.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_MAX 512

/* --- the cause --------------------------------------------------------------------------------------------- */

static const struct {
	int signal, code; /* signal 0: of any */
	const char *what;
} whats[] = {
	{SIGSEGV, SEGV_MAPERR, "where nothing is mapped"},
	{SIGSEGV, SEGV_ACCERR, "which the mapping there does not permit"},
	{SIGSEGV, SI_KERNEL, "an address that is none, or an instruction that user code may not have"},
	{SIGBUS, BUS_ADRALN, "an address that is not aligned"},
	{SIGBUS, BUS_ADRERR, "behind the end of the file that is mapped there"},
	{SIGBUS, BUS_OBJERR, "the hardware failed there"},
	{SIGBUS, BUS_MCEERR_AR, "memory that is broken"},
	{SIGBUS, BUS_MCEERR_AO, "memory that is broken was found"},
	{SIGBUS, SI_KERNEL, "a stack segment that is none: a stack pointer that is no address"},
	{SIGILL, ILL_ILLOPC, "an instruction that is none"},
	{SIGILL, ILL_ILLOPN, "an operand that is none"},
	{SIGILL, ILL_ILLADR, "an addressing mode that is none"},
	{SIGILL, ILL_PRVOPC, "an instruction that user code may not have"},
	{SIGFPE, FPE_INTDIV, "an integer divided by zero, or a quotient too large"},
	{SIGFPE, FPE_INTOVF, "an integer too large"},
	{SIGFPE, FPE_FLTDIV, "a floating-point number divided by zero"},
	{SIGFPE, FPE_FLTOVF, "a floating-point number too large"},
	{SIGFPE, FPE_FLTUND, "a floating-point number too small"},
	{SIGFPE, FPE_FLTRES, "a floating-point result that is not exact"},
	{SIGFPE, FPE_FLTINV, "a floating-point operation that is none"},
	{SIGTRAP, SI_KERNEL, "a breakpoint"},
	{SIGTRAP, TRAP_BRKPT, "a breakpoint"},
	{SIGTRAP, TRAP_TRACE, "a single step"},
	{SIGTRAP, TRAP_HWBKPT, "a breakpoint of the hardware's"},
	{0, SI_USER, "sent by kill(2)"},
	{0, SI_TKILL, "raised by the program, as abort(3) does, or sent to this thread"},
	{0, SI_QUEUE, "sent by sigqueue(3)"},
};

static const char *what_of(const struct shm_crash *s)
{
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
		if (whats[i].code == s->code && (!whats[i].signal || whats[i].signal == (int)s->signal))
			return whats[i].what;
	return "";
}

static const char *name_of(uint32_t signal)
{
	static const char *const names[] = {[SIGSEGV] = "SIGSEGV",
		[SIGBUS] = "SIGBUS",
		[SIGILL] = "SIGILL",
		[SIGFPE] = "SIGFPE",
		[SIGABRT] = "SIGABRT",
		[SIGTRAP] = "SIGTRAP"};
	return signal < sizeof(names) / sizeof(names[0]) && names[signal] ? names[signal] : "signal";
}

/* The signal has an address: not where the CPU reported none. */
static bool has_address(const struct shm_crash *s)
{
	return s->code > 0 && s->code != SI_KERNEL && s->signal != SIGTRAP && s->signal != SIGABRT;
}

static void describe_signal(const struct crash_report *c, char buf[TEXT_MAX])
{
	const struct shm_crash *s = &c->says;
	const char *what = what_of(s), *access = has_address(s) ? inproc_access(s) : "";
	if (access[0])
		snprintf(buf, TEXT_MAX, "%s0x%" PRIx64 "%s%s%s", access, s->address, what[0] ? ", " : "", what,
			c->stack_is_over ? ": the stack is used up" : "");
	else if (s->code <= 0)
		snprintf(buf, TEXT_MAX, "%s: by pid %u of user %u", what[0] ? what : "sent", s->sender, s->user);
	else
		snprintf(buf, TEXT_MAX, "%s", what);
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

static void add_text(struct jsonout *to, const char *key, const char *text)
{
	char *clean = text[0] ? strdup(text) : NULL;
	if (!clean)
		return;
	utf8_clean(clean);
	json_write_add(to, key, json_write_text(clean));
	free(clean);
}

static void add_address(struct jsonout *to, const char *key, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_write_add(to, key, json_write_text(text));
}

static void add_when(struct jsonout *to, int64_t ns)
{
	char text[64] = "?";
	const time_t s = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;
	if (gmtime_r(&s, &tm)) {
		const size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
		snprintf(text + n, sizeof(text) - n, ".%06uZ", (unsigned)(ns / 1000 % 1000000));
	}
	json_write_add(to, "time", json_write_text(text));
}

static struct jsonout *signal_of(const struct crash_report *c)
{
	const struct shm_crash *s = &c->says;
	char what[TEXT_MAX];
	struct jsonout *o = json_write_object();
	describe_signal(c, what);
	json_write_add(o, "number", json_write_number(s->signal));
	add_text(o, "name", name_of(s->signal));
	json_write_add(o, "code", json_write_number(s->code));
	add_text(o, "what", what);
	if (has_address(s))
		add_address(o, "address", s->address);
	if (s->code <= 0) {
		json_write_add(o, "sender", json_write_number(s->sender));
		json_write_add(o, "user", json_write_number(s->user));
	}
	return o;
}

static struct jsonout *frame_of(
	const struct stack_frame *f, const char *name, const char *file, uint32_t line, bool inlined)
{
	struct jsonout *o = json_write_object();
	add_text(o, "function", name);
	add_text(o, "file", file);
	if (line)
		json_write_add(o, "line", json_write_number(line));
	if (inlined)
		json_write_add(o, "inlined", json_write_bool(true));
	if (f->kind == FRAME_USER && f->module) {
		add_text(o, "module", module_name(f->module));
		add_text(o, "build_id", module_build_id_hex(f->module));
		add_address(o, "offset", f->vaddr);
	}
	return o;
}

static void add_user_frame(struct jsonout *to, const struct stack_frame *f)
{
	const struct symbol_line *lines;
	char own[MODULE_NAME_MAX];
	size_t n;
	const char *name = module_frame_name(f->module, f->vaddr, own, sizeof(own));
	if (!module_names(f->module, f->vaddr, &lines, &n) || n == 0) {
		json_write_add(to, NULL, frame_of(f, name, "", 0, false));
		return;
	}
	for (size_t i = 0; i < n; i++)
		json_write_add(to, NULL,
			frame_of(f, lines[i].name[0] ? lines[i].name : name, lines[i].file, lines[i].line, i + 1 < n));
}

static void add_frame(struct jsonout *to, const struct stack_frame *f)
{
	const char *name = "[anon]", *file = "";
	uint32_t line = 0;
	if (f->kind == FRAME_JIT)
		jit_find(f->jit, f->vaddr, &name, &file, &line);
	if (f->kind == FRAME_USER)
		add_user_frame(to, f);
	else if (f->kind == FRAME_JIT)
		json_write_add(to, NULL, frame_of(f, name, file, line, false));
	else if (f->kind == FRAME_SPECIAL)
		json_write_add(to, NULL, frame_of(f, f->name, "", 0, false));
}

static struct jsonout *frames_of(const struct crash_report *c)
{
	struct jsonout *a = json_write_array();
	for (size_t i = 0; i < c->n; i++) {
		if (i == 0 && c->nowhere) {
			char text[64];
			snprintf(text, sizeof(text), "[no code at 0x%" PRIx64 "]", c->regs.r[UNWIND_IP]);
			json_write_add(a, NULL, frame_of(&c->frames[i], text, "", 0, false));
			continue;
		}
		add_frame(a, &c->frames[i]);
	}
	return a;
}

static struct jsonout *calls_of(const struct crash_report *c)
{
	struct jsonout *a = json_write_array();
	for (size_t i = 0; i < c->n_calls; i++)
		add_frame(a, &c->calls[i]);
	return a;
}

static struct jsonout *registers_of(const struct crash_report *c)
{
	struct jsonout *o = json_write_object();
	for (size_t i = 0; i < UNWIND_REGS; i++)
		add_address(o, inproc_regs[i].name, c->regs.r[inproc_regs[i].reg]);
	add_address(o, inproc_flags, c->says.flags);
	return o;
}

static struct jsonout *mappings_of(const struct crash_report *c)
{
	struct jsonout *a = json_write_array();
	for (size_t i = 0; i < c->n_mappings; i++) {
		const struct crash_mapping *m = &c->mappings[i];
		struct jsonout *o = json_write_object();
		add_address(o, "start", m->start);
		add_address(o, "end", m->end);
		add_address(o, "offset", m->pgoff);
		add_text(o, "file", m->path ? m->path : "");
		add_text(o, "build_id", m->build_id ? m->build_id : "");
		json_write_add(a, NULL, o);
	}
	return a;
}

static struct jsonout *build_document(const struct crash_report *c)
{
	const struct target_desc *d = c->desc;
	const char *stop = unwind_stop_name(c->stop);
	struct jsonout *o = json_write_object(), *process = json_write_object(), *thread = json_write_object();
	add_when(o, c->real);
	add_text(o, "target", d->id);
	add_text(o, "name", d->name);
	add_text(o, "pod", d->pod);
	add_text(o, "namespace", d->pod_namespace);
	json_write_add(process, "pid", json_write_number(c->pid));
	add_text(process, "name", c->process);
	add_text(process, "exe", c->exe);
	json_write_add(o, "process", process);
	json_write_add(thread, "tid", json_write_number(c->tid));
	add_text(thread, "name", c->thread);
	json_write_add(o, "thread", thread);
	json_write_add(o, "signal", signal_of(c));
	json_write_add(o, "frames", frames_of(c));
	if (stop)
		add_text(o, "truncated", stop);
	if (c->n_calls)
		json_write_add(o, "calls", calls_of(c));
	json_write_add(o, "registers", registers_of(c));
	return json_write_add(o, "mappings", mappings_of(c)) < 0 ? json_write_free(o) : o;
}

int crash_report_json(const struct crash_report *c, FILE *out)
{
	struct jsonout *doc = build_document(c);
	const int r = doc ? json_write_out(doc, out) : -ENOMEM;
	json_write_free(doc);
	return r;
}

/* --- for people ---------------------------------------------------------------------------------------------- */

static const char *text_of(const struct json *v)
{
	const char *text = json_text(v, NULL);
	return text ? text : "";
}

static int64_t number_of(const struct json *v)
{
	int64_t n = 0;
	json_number(v, &n);
	return n;
}

static const struct json *find_nested_member(const struct json *doc, const char *object, const char *key)
{
	return json_member(json_member(doc, object), key);
}

static const char *short_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static void print_report_field(FILE *out, const char *text, const char *otherwise)
{
	utf8_print(out, text[0] ? text : otherwise, NULL);
}

static void put_frames(const struct json *frames, FILE *out)
{
	const struct json *f;
	for (size_t i = 0; (f = json_item(frames, i)); i++) {
		const char *file = text_of(json_member(f, "file")), *module = text_of(json_member(f, "module"));
		const char *function = text_of(json_member(f, "function"));
		fprintf(out, "%4zu  ", i);
		print_report_field(out, function, "?");
		if (json_member(f, "inlined"))
			fputs(" (inlined)", out);
		if (file[0]) {
			fputs("  ", out);
			print_report_field(out, file, "");
			fprintf(out, ":%" PRId64, number_of(json_member(f, "line")));
		}
		if (module[0]) {
			fputs("  ", out);
			print_report_field(out, short_path(module), "");
			fprintf(out, "+%s", text_of(json_member(f, "offset")));
		}
		fputc('\n', out);
	}
}

struct putting {
	FILE *out;
	unsigned n;
};

static int put_register(void *arg, const char *key, const struct json *value)
{
	struct putting *p = arg;
	fprintf(p->out, "%s  %-6s %-18s", p->n && p->n % 4 == 0 ? "\n" : "", key, text_of(value));
	p->n++;
	return 0;
}

static void put_mappings(const struct json *mappings, FILE *out)
{
	const struct json *m;
	for (size_t i = 0; (m = json_item(mappings, i)); i++) {
		fprintf(out, "  %s-%s %10s  ", text_of(json_member(m, "start")), text_of(json_member(m, "end")),
			text_of(json_member(m, "offset")));
		print_report_field(out, text_of(json_member(m, "file")), "-");
		fputc('\n', out);
	}
}

static void put_who(const struct json *doc, FILE *out)
{
	fputs("target   ", out);
	print_report_field(out, text_of(json_member(doc, "name")), text_of(json_member(doc, "target")));
	fputs(" (", out);
	print_report_field(out, text_of(json_member(doc, "target")), "?");
	fprintf(out, ")\nprocess  %" PRId64 " ", number_of(find_nested_member(doc, "process", "pid")));
	print_report_field(out, text_of(find_nested_member(doc, "process", "name")), "?");
	fprintf(out, ", thread %" PRId64 " ", number_of(find_nested_member(doc, "thread", "tid")));
	print_report_field(out, text_of(find_nested_member(doc, "thread", "name")), "?");
	fputc('\n', out);
}

void crash_report_text(const struct json *doc, FILE *out)
{
	struct putting p = {out, 0};
	fprintf(out, "%s, %s\n", text_of(find_nested_member(doc, "signal", "name")), text_of(json_member(doc, "time")));
	print_report_field(out, text_of(find_nested_member(doc, "signal", "what")), "nobody knows why");
	fputc('\n', out);
	put_who(doc, out);
	fputc('\n', out);
	put_frames(json_member(doc, "frames"), out);
	if (json_member(doc, "calls")) {
		fputs("\nby its own account of calls:\n", out);
		put_frames(json_member(doc, "calls"), out);
	}
	fputs("\nregisters:\n", out);
	json_each(json_member(doc, "registers"), put_register, &p);
	fputs("\n\ncode:\n", out);
	put_mappings(json_member(doc, "mappings"), out);
}

void crash_report_head(FILE *out)
{
	fprintf(out, "%-27s  %-16s  %8s  %-15s  %-7s  %-30s  %s\n", "TIME", "TARGET", "PID", "PROCESS", "SIGNAL",
		"WHERE", "FILE");
}

/* Returns the function of the first frame that has a module: its name is not the program's own word. */
static const char *where_of(const struct json *doc)
{
	const struct json *frames = json_member(doc, "frames"), *f;
	for (size_t i = 0; (f = json_item(frames, i)); i++)
		if (json_member(f, "module"))
			return text_of(json_member(f, "function"));
	return text_of(json_member(json_item(frames, 0), "function"));
}

void crash_report_line(const struct json *doc, const char *file, FILE *out)
{
	char name[64], process[64], where[64];
	const char *target = text_of(json_member(doc, "name"));
	snprintf(name, sizeof(name), "%.16s", target[0] ? target : text_of(json_member(doc, "target")));
	snprintf(process, sizeof(process), "%.15s", text_of(find_nested_member(doc, "process", "name")));
	snprintf(where, sizeof(where), "%.30s", where_of(doc));
	utf8_clean(name);
	utf8_clean(process);
	utf8_clean(where);
	fprintf(out, "%-27s  %-16s  %8" PRId64 "  %-15s  %-7s  %-30s  ", text_of(json_member(doc, "time")),
		name[0] ? name : "-", number_of(find_nested_member(doc, "process", "pid")), process[0] ? process : "-",
		text_of(find_nested_member(doc, "signal", "name")), where[0] ? where : "-");
	print_report_field(out, file, "");
	fputc('\n', out);
}

int crash_report_read(int fd, const char *path, struct json **ret, char **ret_text, size_t *ret_len, struct err *e)
{
	char *text;
	size_t len;
	int r = fd < 0 ? fd : fd_slurp(fd, CRASH_REPORT_MAX, &text, &len);
	if (r < 0)
		return err_set(e, r, "cannot read %s", path);
	if (json_parse(text, len, ret, e) < 0)
		r = err_wrap(e, -EBADMSG, "%s is no report of a crash", path);
	if (r < 0 || !ret_text) {
		free(text);
		return r;
	}
	*ret_text = text;
	*ret_len = len;
	return 0;
}
