/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/pages.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/inproc/crash_report.h"
#include "profiler/spool/crash_dir.h"
#include "profiler/spool/spool_query.h"
#include "profiler/view/flame_html.h"
#include "profiler/view/profile_diff.h"
#include "profiler/view/top_table.h"
#include "profiler/web/html.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define REFRESH_S 5
#define SHOWN_MAX 500		      /* of windows, of reports */
#define TOP_ROWS 60		      /* of functions */
#define MOVED_ROWS 100		      /* the same, in a comparison */
#define LEVELS_MAX (2 + SPOOL_LEVELS) /* of an address: target, those of its directory, a file */

const char *const page_arguments[PAGE_ARGUMENTS] = {
	"event", "from", "to", "before_from", "before_to", "type", "file", "svg"};

struct page {
	const struct page_question *q;
	struct page_answer *a;
	FILE *out;
	char root[3 * LEVELS_MAX + 1]; /* the way up */
	char target[PAGE_PATH_MAX];
	struct spool_listing windows; /* of the target */
};

/* --- an answer in a sentence ---------------------------------------------------------------------------- */

/* Replaces the page written so far. */
static int write_error_page(struct page *p, unsigned status, const char *text)
{
	clearerr(p->out);
	rewind(p->out);
	p->a->status = status;
	p->a->kind = PAGE_IS_HTML;
	page_head(p->out, p->q->nonce, status == 404 ? "Not found" : "This cannot be shown", p->root);
	fputs("<p>", p->out);
	page_text(p->out, text);
	fputs("</p>\n", p->out);
	page_end(p->out);
	return 0;
}

static int refuse_error(struct page *p, int r, const char *text)
{
	unsigned status = r == -ENOENT ? 404 : r == -EINVAL ? 400 : r == -EFBIG || r == -ENOMEM ? 413 : 500;
	return write_error_page(p, status, text);
}

/* --- targets -------------------------------------------------------------------------------------------- */

static const char *const live_titles[] = {
	"POD", "STATE", "EVENTS", "AGE", "SAMPLES", "PER-S", "LOWERED", "LOST", "THROTTLED", "COST"};
#define LIVE_TITLES (sizeof(live_titles) / sizeof(live_titles[0]))

static void directory_of(const struct target_row *t, char ret[static SPOOL_TARGET_MAX + 1])
{
	spool_target_path(t->id, t->name, t->pod, t->pod_namespace, ret);
}

/* Writes a row for each live target. only: that directory's; NULL: all */
static size_t live_rows(struct page *p, const char *only)
{
	const struct target_table *l = p->q->listed;
	char buf[TARGET_TABLE_CELL_MAX], directory[SPOOL_TARGET_MAX + 1];
	size_t n = 0;
	for (size_t i = 0; l && i < l->n; i++) {
		const struct target_row *t = &l->targets[i];
		directory_of(t, directory);
		if (only && strcmp(only, directory) != 0)
			continue;
		if (!n++) {
			fputs("<table id=\"live\">\n<tr><th>TARGET</th>", p->out);
			for (size_t k = 0; k < LIVE_TITLES; k++)
				fprintf(p->out, "<th>%s</th>", live_titles[k]);
			fputs("</tr>\n", p->out);
		}
		fprintf(p->out, "<tr><td class=\"name\"><a href=\"%starget/%s/\">", p->root, directory);
		page_text(p->out, t->name[0] ? t->name : t->id);
		fputs("</a></td>", p->out);
		for (size_t k = 0; k < LIVE_TITLES; k++)
			page_cell(p->out, target_table_cell(l, t, live_titles[k], buf), k >= 3);
		fputs("</tr>\n", p->out);
	}
	if (n)
		fputs("</table>\n", p->out);
	return n;
}

static void say_none_live(struct page *p)
{
	fputs(p->q->listed ? "<p>Nothing is profiled at the moment.</p>\n"
			   : "<p>The process that profiles does not answer at the moment; what it wrote is here.</p>\n",
		p->out);
}

static int spool_row(struct page *p, const char *name)
{
	struct spool_listing w;
	char first[32], last[32];
	int r = spool_query_list(p->q->spool, name, &w);
	if (r < 0 || !w.n) { /* retention has removed it */
		if (r == 0)
			spool_query_done(&w);
		return r == -ENOMEM ? r : 0;
	}
	fprintf(p->out, "<tr><td class=\"name\"><a href=\"target/");
	page_text(p->out, name);
	fputs("/\">", p->out);
	page_text(p->out, name);
	fprintf(p->out, "</a></td><td class=\"r\">%zu</td><td class=\"r\">%s</td><td class=\"r\">%s</td></tr>\n", w.n,
		page_time(w.files[0].start_s, ' ', first), page_time(w.files[w.n - 1].start_s, ' ', last));
	spool_query_done(&w);
	return 0;
}

static int spool_rows(struct page *p)
{
	char **names;
	size_t n;
	int r = spool_query_targets(p->q->spool, &names, &n);
	if (r < 0)
		return r;
	fputs("<h2>In the spool</h2>\n", p->out);
	if (n)
		fputs("<table id=\"spool\">\n<tr><th>TARGET</th><th>WINDOWS</th><th>FIRST (UTC)</th><th>LAST "
		      "(UTC)</th></tr>\n",
			p->out);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = spool_row(p, names[i]);
	fputs(n ? "</table>\n" : "<p>No window has been written yet.</p>\n", p->out);
	spool_query_targets_done(names);
	return r;
}

static int show_list(struct page *p)
{
	page_head(p->out, p->q->nonce, "Targets", p->root);
	if (!live_rows(p, NULL))
		say_none_live(p);
	int r = spool_rows(p);
	page_end(p->out);
	return r == -ENOMEM ? r : r < 0 ? write_error_page(p, 500, "The spool cannot be listed.") : 0;
}

/* --- a target ------------------------------------------------------------------------------------------- */

static bool is_first_of(const struct spool_listing *w, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(w->files[k].event, w->files[i].event))
			return false;
	return true;
}

static void event_list(struct page *p, bool links)
{
	for (size_t i = 0; i < p->windows.n; i++) {
		const char *event = p->windows.files[i].event;
		if (!is_first_of(&p->windows, i))
			continue;
		if (links)
			fprintf(p->out, "<a class=\"follow\" href=\"live?event=");
		else
			fputs("<option>", p->out);
		page_text(p->out, event);
		if (links) {
			fputs("\">", p->out);
			page_text(p->out, event);
		}
		fputs(links ? "</a> " : "</option>", p->out);
	}
}

static void time_field(struct page *p, const char *label, const char *name, int64_t seconds)
{
	char text[32];
	fprintf(p->out,
		"<label>%s (UTC)<input type=\"datetime-local\" step=\"1\" name=\"%s\" value=\"%s\" "
		"required></label>\n",
		label, name, page_time(seconds, 'T', text));
}

static void write_range_forms(struct page *p)
{
	const struct spool_listing *w = &p->windows;
	const int64_t first = w->files[0].start_s, last = w->files[w->n - 1].start_s,
		      middle = first + (last - first) / 2;
	fputs("<p>The last window, as a flame graph that follows: ", p->out);
	event_list(p, true);
	fputs("</p>\n<h2>A time range</h2>\n<form id=\"range\" action=\"flame\"><label>Event<select name=\"event\">",
		p->out);
	event_list(p, false);
	fputs("</select></label>\n", p->out);
	time_field(p, "From", "from", first);
	time_field(p, "To", "to", last);
	fputs("<button>Flame graph</button><button name=\"svg\" value=\"1\">Picture</button></form>\n"
	      "<h2>Two time ranges compared</h2>\n<form id=\"compared\" action=\"flame\"><label>Event<select "
	      "name=\"event\">",
		p->out);
	event_list(p, false);
	fputs("</select></label>\n", p->out);
	time_field(p, "Before: from", "before_from", first);
	time_field(p, "to", "before_to", middle);
	time_field(p, "After: from", "from", middle < last ? middle + 1 : last);
	time_field(p, "to", "to", last);
	fputs("<button>Flame graph</button><button formaction=\"diff\">Table</button></form>\n", p->out);
}

static void window_row(struct page *p, const struct spool_file *f)
{
	char start[32], iso[32], bytes[64];
	struct stat st;
	if (fstatat(p->windows.dir, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	fprintf(p->out, "<tr><td>%s</td>", page_time(f->start_s, ' ', start));
	page_cell(p->out, f->event, 0);
	page_cell(p->out, top_amount(st.st_size, "bytes", bytes, sizeof(bytes)), 1);
	page_time(f->start_s, 'T', iso);
	fputs("<td><a href=\"flame?event=", p->out);
	page_text(p->out, f->event);
	fprintf(p->out, "&amp;from=%s&amp;to=%s\">flame graph</a></td><td><a href=\"window?file=", iso, iso);
	page_text(p->out, f->name);
	fputs("\">losses and notes</a></td><td><a href=\"", p->out);
	page_text(p->out, f->name);
	fputs("\">", p->out);
	page_text(p->out, f->name);
	fputs("</a></td></tr>\n", p->out);
}

static int64_t time_of(const char *text)
{
	static const char *const forms_[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"};
	for (size_t i = 0; i < 2; i++) {
		struct tm tm = {0};
		const char *end = strptime(text, forms_[i], &tm);
		if (end && !*end)
			return timegm(&tm);
	}
	return -1;
}

/* Writes the windows, newest first; a link leads to those that do not fit. */
static void window_table(struct page *p)
{
	const struct spool_listing *w = &p->windows;
	const int64_t to = time_of(p->q->arguments[PAGE_TO]);
	size_t shown = 0, i = w->n;
	fputs("<h2>Windows</h2>\n<table id=\"windows\">\n<tr><th>START (UTC)</th><th>EVENT</th><th>SIZE</th><th></th>"
	      "<th></th><th>DOWNLOAD</th></tr>\n",
		p->out);
	for (; i > 0 && shown < SHOWN_MAX; i--) {
		if (to >= 0 && w->files[i - 1].start_s > to)
			continue;
		window_row(p, &w->files[i - 1]);
		shown++;
	}
	fputs("</table>\n", p->out);
	if (i > 0) {
		char text[32];
		fprintf(p->out, "<p><a href=\"./?to=%s\">%zu older windows</a></p>\n",
			page_time(w->files[i - 1].start_s, 'T', text), i);
	}
}

static int show_target(struct page *p)
{
	page_head(p->out, p->q->nonce, p->target, p->root);
	live_rows(p, p->target);
	if (p->windows.n) {
		write_range_forms(p);
		window_table(p);
	} else {
		fputs("<p>No window has been written yet: the first one comes when it is over.</p>\n", p->out);
	}
	page_end(p->out);
	return 0;
}

static int show_download(struct page *p, const char *file)
{
	int fd = spool_query_open(&p->windows, file);
	if (fd < 0)
		return write_error_page(
			p, 404, "There is no such window: it may have been removed from the spool since.");
	p->a->fd = fd;
	p->a->kind = PAGE_IS_PROFILE;
	snprintf(p->a->file, sizeof(p->a->file), "%.150s-%.100s", p->target, file);
	return 0;
}

static int show_window(struct page *p)
{
	struct profile *profile;
	struct err e = {0};
	char *text = NULL;
	size_t len;
	const char *file = p->q->arguments[PAGE_FILE];
	int r = spool_query_read(&p->windows, file, &profile, &e);
	if (r < 0)
		return refuse_error(p, r,
			r == -ENOENT ? "There is no such window: it may have been removed from the spool since."
				     : e.text);
	FILE *out = open_memstream(&text, &len);
	r = out ? top_header(profile, p->target, out) : -ENOMEM;
	if (r == 0)
		r = top_write(profile, profile_default_type(profile), TOP_ROWS, out);
	profile_free(profile);
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0) {
		page_head(p->out, p->q->nonce, file, p->root);
		fputs("<p><a href=\"./\">All windows</a></p>\n<pre>", p->out);
		page_text(p->out, text);
		fputs("</pre>\n", p->out);
		page_end(p->out);
	}
	free(text);
	return r;
}

/* --- ranges --------------------------------------------------------------------------------------------- */

static int load_range(
	struct page *p, enum page_argument from, enum page_argument to, struct profile **ret, struct err *e)
{
	const struct spool_query_range range = {
		p->q->arguments[PAGE_EVENT], time_of(p->q->arguments[from]), time_of(p->q->arguments[to])};
	size_t n;
	*ret = NULL;
	for (enum page_argument k = from;; k = to) {
		if (time_of(p->q->arguments[k]) < 0)
			return err_say(e, -EINVAL, "'%s' is no time for '%s': give one as 2026-01-31T12:00:00, in UTC",
				p->q->arguments[k], page_arguments[k]);
		if (k == to)
			break;
	}
	return spool_query_load(&p->windows, &range, ret, &n, e);
}

static int load_both(struct page *p, struct profile **ret, struct profile **ret_before, struct err *e)
{
	*ret_before = NULL;
	int r = load_range(p, PAGE_FROM, PAGE_TO, ret, e);
	if (r < 0 || !p->q->arguments[PAGE_BEFORE_FROM][0])
		return r;
	r = load_range(p, PAGE_BEFORE_FROM, PAGE_BEFORE_TO, ret_before, e);
	return r < 0 ? err_wrap(e, r, "before") : 0;
}

/* Returns the type that was asked for, else the default one. */
static unsigned type_of(const struct page *p, const struct profile *profile)
{
	const int asked = profile_type_find(profile, p->q->arguments[PAGE_TYPE]);
	return asked >= 0 ? (unsigned)asked : profile_default_type(profile);
}

static int write_flame(struct page *p, const struct profile *of, const struct profile *before, unsigned refresh_s)
{
	const struct flame_html f = {.of = of,
		.before = before,
		.type = type_of(p, of),
		.title = p->target,
		.nonce = p->q->nonce,
		.served = true,
		.refresh_s = refresh_s};
	const bool svg = p->q->arguments[PAGE_SVG][0];
	int r = (svg ? flame_html_svg : flame_html_page)(&f, p->out);
	if (r == -EINVAL)
		return refuse_error(p, r, "The two ranges have different sample types and cannot be compared.");
	if (r == -ENOMEM)
		return refuse_error(p, r, "This range needs more memory than a page may take: choose a shorter one.");
	p->a->kind = svg ? PAGE_IS_PICTURE : PAGE_IS_FLAME;
	return r;
}

static int show_flame(struct page *p)
{
	struct profile *of = NULL, *before = NULL;
	struct err e = {0};
	int r = load_both(p, &of, &before, &e);
	r = r < 0 ? refuse_error(p, r, e.text) : write_flame(p, of, before, 0);
	profile_free(before);
	profile_free(of);
	return r;
}

static int show_live(struct page *p)
{
	const struct spool_file *last = spool_query_last(&p->windows, p->q->arguments[PAGE_EVENT]);
	struct profile *of = NULL;
	struct err e = {0};
	if (!last)
		return write_error_page(
			p, 404, "No window of this event has been written yet: the first one comes when it is over.");
	int r = spool_query_read(&p->windows, last->name, &of, &e);
	r = r < 0 ? refuse_error(p, r, e.text) : write_flame(p, of, NULL, REFRESH_S);
	profile_free(of);
	return r;
}

static void moved_row(struct page *p, const struct function_delta *m)
{
	char chance[32] = "-";
	if (m->chance >= 0)
		snprintf(chance, sizeof(chance), m->chance < 0.001 ? "<.001" : "%.3f", m->chance);
	fprintf(p->out, "<tr><td class=\"r\">%.2f %%</td><td class=\"r\">%.2f %%</td><td class=\"r\">%+.2f</td>",
		100 * m->before, 100 * m->after, 100 * (m->after - m->before));
	page_cell(p->out, chance, 1);
	page_cell(p->out, m->name, 0);
	fputs("</tr>\n", p->out);
}

static void moved_table(struct page *p, const struct profile_delta *l)
{
	page_head(p->out, p->q->nonce, p->target, p->root);
	fprintf(p->out,
		"<p><a href=\"./\">All windows</a></p>\n<p>Shares of all that functions have themselves, before and "
		"after. "
		"The first %zu moved by more than chance; chance is how often a change as large is seen where nothing "
		"has changed.</p>\n<table id=\"moved\">\n<tr><th class=\"r\">BEFORE</th><th class=\"r\">AFTER</th><th "
		"class=\"r\">POINTS</th><th class=\"r\">CHANCE</th><th>FUNCTION</th></tr>\n",
		l->n_sure);
	for (size_t i = 0; i < l->n && i < MOVED_ROWS; i++)
		moved_row(p, &l->rows[i]);
	fputs("</table>\n", p->out);
	if (l->n > MOVED_ROWS)
		fprintf(p->out, "<p>%zu more functions.</p>\n", l->n - MOVED_ROWS);
	page_end(p->out);
}

static int show_diff(struct page *p)
{
	struct profile *of = NULL, *before = NULL;
	struct profile_delta l = {0};
	struct err e = {0};
	int r = load_both(p, &of, &before, &e);
	if (r == 0 && !before)
		r = err_say(&e, -EINVAL, "which range before? Give 'before_from' and 'before_to'");
	if (r == 0)
		r = profile_diff_find(before, of, profile_info(before)->types[type_of(p, before)].type, false, &l);
	if (r == 0)
		moved_table(p, &l);
	else
		r = refuse_error(p, r, e.text[0] ? e.text : "The two ranges cannot be compared.");
	profile_diff_done(&l);
	profile_free(before);
	profile_free(of);
	return r;
}

/* --- crashes -------------------------------------------------------------------------------------------- */

static int crash_list(struct page *p, char **names, size_t n)
{
	page_head(p->out, p->q->nonce, "Crashes", p->root);
	fputs(n ? "<ul id=\"reports\">\n" : "<p>No program has crashed, as far as pillion has seen.</p>\n", p->out);
	for (size_t i = n; i > 0 && n - i < SHOWN_MAX; i--) {
		fputs("<li><a href=\"report?file=", p->out);
		page_text(p->out, names[i - 1]);
		fputs("\">", p->out);
		page_text(p->out, names[i - 1]);
		fputs("</a></li>\n", p->out);
	}
	fputs(n ? "</ul>\n" : "", p->out);
	page_end(p->out);
	return 0;
}

/* Opens a listed report, a regular file. */
static int open_crash(int dir, char **names, const char *file)
{
	struct stat st;
	while (names && *names && strcmp(*names, file) != 0)
		names++;
	int fd = names && *names ? fd_open(dir, *names, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0) : -ENOENT;
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		fd_close(fd);
		return -ENOENT;
	}
	return fd;
}

static int crash_file(struct page *p, int dir, char **names, const char *file)
{
	int fd = open_crash(dir, names, file);
	if (fd < 0)
		return write_error_page(p, 404, "There is no such report.");
	p->a->fd = fd;
	p->a->kind = PAGE_IS_REPORT;
	snprintf(p->a->file, sizeof(p->a->file), "%s", file);
	return 0;
}

/* Writes the report escaped, line by line. */
static int print_crash(struct page *p, const struct json *doc)
{
	char *text = NULL, *rest, *line;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return -ENOMEM;
	crash_report_text(doc, out);
	int r = fclose(out) ? -ENOMEM : 0;
	for (rest = text; r == 0 && (line = strsep(&rest, "\n"));) {
		page_text(p->out, line);
		fputc('\n', p->out);
	}
	free(text);
	return r;
}

/* Shows a report as `pillion report` does. */
static int crash_words(struct page *p, int dir, char **names)
{
	const char *file = p->q->arguments[PAGE_FILE];
	struct err e = {0};
	struct json *doc;
	fd_auto fd = open_crash(dir, names, file);
	int r = crash_report_read(fd, "it", &doc, NULL, NULL, &e);
	if (r < 0)
		return write_error_page(
			p, 404, r == -EBADMSG ? "This is no report of a crash." : "There is no such report.");
	page_head(p->out, p->q->nonce, "A crash", p->root);
	fputs("<p><a href=\"./\">All crashes</a> &middot; <a href=\"", p->out);
	page_text(p->out, file);
	fputs("\">as JSON</a></p>\n<pre id=\"crash\">", p->out);
	r = print_crash(p, doc);
	fputs("</pre>\n", p->out);
	page_end(p->out);
	json_free(doc);
	return r;
}

static int show_crashes(struct page *p, const char *file)
{
	fd_auto dir = fd_open(p->q->spool, CRASH_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	char **names = NULL;
	size_t n = 0;
	int r = dir < 0 ? 0 : crash_dir_list(dir, &names, &n);
	if (r == 0)
		r = !file[0]		     ? crash_list(p, names, n)
		    : strcmp(file, "report") ? crash_file(p, dir, names, file)
					     : crash_words(p, dir, names);
	if (names)
		crash_dir_list_done(names);
	return r;
}

/* --- dispatch ------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int (*show)(struct page *p);
	bool heavy; /* profiles are read */
} target_pages[] = {
	{"", show_target, false},
	{"window", show_window, true},
	{"live", show_live, true},
	{"flame", show_flame, true},
	{"diff", show_diff, true},
};

bool page_is_heavy(const struct page_question *q)
{
	const char *slash = strrchr(q->path, '/');
	for (size_t i = 0; slash && i < sizeof(target_pages) / sizeof(target_pages[0]); i++)
		if (target_pages[i].heavy && !strcmp(slash + 1, target_pages[i].name))
			return true;
	return false;
}

static bool is_live(const struct page *p)
{
	const struct target_table *l = p->q->listed;
	char directory[SPOOL_TARGET_MAX + 1];
	for (size_t i = 0; l && i < l->n; i++) {
		directory_of(&l->targets[i], directory);
		if (!strcmp(directory, p->target))
			return true;
	}
	return false;
}

static int go_target(struct page *p, const char *path)
{
	const char *slash = strrchr(path, '/'); /* the target's name may have some */
	if (!slash)
		return write_error_page(p, 404, "There is no such page.");
	snprintf(p->target, sizeof(p->target), "%.*s", (int)(slash - path), path);
	int r = spool_query_list(p->q->spool, p->target, &p->windows);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		p->windows.dir = -1;
	if ((r < 0 || !p->windows.n) && !is_live(p))
		return write_error_page(p, 404, "There is no such target, and nothing of it in the spool.");
	for (size_t i = 0; i < sizeof(target_pages) / sizeof(target_pages[0]); i++)
		if (!strcmp(slash + 1, target_pages[i].name))
			return target_pages[i].show(p);
	return show_download(p, slash + 1);
}

static int write_page(struct page *p)
{
	static const char target[] = "/target/", crashes[] = "/crashes/";
	const char *path = p->q->path;
	if (!strcmp(path, "/"))
		return show_list(p);
	if (!strncmp(path, target, sizeof(target) - 1))
		return go_target(p, path + sizeof(target) - 1);
	if (!strncmp(path, crashes, sizeof(crashes) - 1))
		return show_crashes(p, path + sizeof(crashes) - 1);
	return write_error_page(p, 404, "There is no such page.");
}

static void way_up(const char *path, char *buf, size_t size)
{
	size_t n = 0;
	for (const char *c = path; *c; c++)
		n += *c == '/';
	snprintf(buf, size, "./");
	for (size_t i = 1, at = 0; i < n && i <= LEVELS_MAX; i++, at += 3)
		snprintf(buf + at, size - at, "../");
}

int page_answer(const struct page_question *q, struct page_answer *ret)
{
	struct page p = {.q = q, .a = ret, .windows.dir = -1};
	way_up(q->path, p.root, sizeof(p.root));
	*ret = (struct page_answer){.status = 200, .fd = -1};
	p.out = open_memstream(&ret->text, &ret->len);
	if (!p.out)
		return -ENOMEM;
	int r = write_page(&p);
	spool_query_done(&p.windows);
	if (fclose(p.out) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0 && ret->fd < 0)
		return 0;
	free(ret->text);
	ret->text = NULL;
	return r;
}
