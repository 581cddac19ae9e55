/* An area whose parts begin with whatever comes: what is handed over lies inside it, labels are text, and of what it
 * says of crashes there is a report that can be read. */
#include "profiler/inproc/label_history.h"
#include "profiler/inproc/shm_reader.h"

#include "profiler/inproc/crash_report.h"
#include "profiler/target/target.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS_SELDOM 16
#define REPORTS 2 /* of an input: each costs as much as all else of it */

static volatile uint64_t sink;
static unsigned reports;

static void report(const struct area_crash *says)
{
	static struct target t;
	struct crash c = {.target = &t, .says = *says};
	struct err e;
	struct json *doc;
	char *text = NULL, *shown = NULL;
	size_t len, shown_len;
	memcpy(c.thread, says->more.name, sizeof(c.thread) - 1);
	FILE *out = open_memstream(&text, &len);
	if (crashreport_json(&c, out) < 0 || fclose(out) || json_parse(text, len, &doc, &e) < 0)
		abort();
	out = open_memstream(&shown, &shown_len);
	crashreport_text(doc, out);
	crashreport_line(doc, "file", out);
	fclose(out);
	if (memchr(shown, 0x1b, shown_len))
		abort();
	json_free(doc);
	free(shown);
	free(text);
}

static void on_record(void *arg, const struct area_record *r)
{
	const uint8_t *stack = inbox_stack(r);
	for (uint32_t i = 0; i < r->stack; i++)
		sink += stack[i];
	if (inbox_more(r))
		sink += (uint64_t)inbox_more(r)->name[15];
	if (r->kind == AREA_CRASH && reports++ < REPORTS)
		report(inbox_crash(r));
}

static void on_slot(void *arg, const struct area_slot *s)
{
	sink += s->id;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t parts[] = {offsetof(struct area_head, tail), AREA_ITEMS_AT, AREA_BYTES_AT, AREA_SLOTS_AT,
		AREA_SETS_AT, AREA_CHANGES_AT, offsetof(struct area_head, changes)};
	static struct labelled labels;
	struct area_head h = {.magic = AREA_MAGIC, .version = AREA_VERSION, .pid = 1};
	struct inbox i;
	const size_t n = sizeof(parts) / sizeof(parts[0]), part = size / n;
	int fd = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (size > 65536 || ftruncate(fd, AREA_SIZE) < 0 || pwrite(fd, &h, sizeof(h), 0) < 0)
		return close(fd);
	for (unsigned k = 0; k < n; k++) {
		const size_t room = parts[k] < AREA_ITEMS_AT ? 64 : 3000; /* of the head, what begins there */
		if (pwrite(fd, data + k * part, part < room ? part : room, (off_t)parts[k]) < 0)
			return close(fd);
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	if (inbox_open(fd, &i) < 0)
		return 0;
	reports = 0;
	inbox_drain(&i, INT64_MAX, data[0] & 1, on_record, NULL);
	inbox_drain(&i, INT64_MAX, true, on_record, NULL);
	if (size % SLOTS_SELDOM == 0) /* there are so many that nothing else would be tried */
		inbox_slots(&i, on_slot, NULL);
	labelled_read(&labels, i.memory, &(struct labelled_limits){1000, 2000, 10000, 256});
	labelled_ended(&labels, 1, 2000);
	for (uint32_t tid = 0; tid < 8; tid++)
		sink += strlen(labelled_at(&labels, i.memory, tid, data[0]));
	for (uint64_t set = 0; set < 4; set++)
		sink += strlen(labelled_of(&labels, i.memory, set));
	labelled_done(&labels);
	inbox_close(&i);
	return 0;
}
