/* SPDX-License-Identifier: Apache-2.0 */
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

static void report(const struct shm_crash *says)
{
	static const struct target_desc desc;
	struct crash_report c = {.desc = &desc, .says = *says};
	struct err e;
	struct json *doc;
	char *text = NULL, *shown = NULL;
	size_t len, shown_len;
	memcpy(c.thread, says->more.name, sizeof(c.thread) - 1);
	FILE *out = open_memstream(&text, &len);
	if (crash_report_json(&c, out) < 0 || fclose(out) || json_parse(text, len, &doc, &e) < 0)
		abort();
	out = open_memstream(&shown, &shown_len);
	crash_report_text(doc, out);
	crash_report_line(doc, "file", out);
	fclose(out);
	if (memchr(shown, 0x1b, shown_len))
		abort();
	json_free(doc);
	free(shown);
	free(text);
}

static void on_record(void *arg, const struct shm_record *r)
{
	const uint8_t *stack = shm_reader_stack(r);
	for (uint32_t i = 0; i < r->stack; i++)
		sink += stack[i];
	if (shm_reader_more(r))
		sink += (uint64_t)shm_reader_more(r)->name[15];
	if (r->kind == SHM_CRASH && reports++ < REPORTS)
		report(shm_reader_crash(r));
}

static void on_slot(void *arg, const struct shm_slot *s)
{
	sink += s->id;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t parts[] = {offsetof(struct shm_head, tail), SHM_ITEMS_AT, SHM_BYTES_AT, SHM_SLOTS_AT,
		SHM_SETS_AT, SHM_CHANGES_AT, offsetof(struct shm_head, changes)};
	static struct label_history labels;
	struct shm_head h = {.magic = SHM_MAGIC, .version = SHM_VERSION, .pid = 1};
	struct shm_reader i;
	const size_t n = sizeof(parts) / sizeof(parts[0]), part = size / n;
	int fd = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (size > 65536 || ftruncate(fd, SHM_SIZE) < 0 || pwrite(fd, &h, sizeof(h), 0) < 0)
		return close(fd);
	for (unsigned k = 0; k < n; k++) {
		const size_t room = parts[k] < SHM_ITEMS_AT ? 64 : 3000; /* of the head, what begins there */
		if (pwrite(fd, data + k * part, part < room ? part : room, (off_t)parts[k]) < 0)
			return close(fd);
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	if (shm_reader_open(fd, &i) < 0)
		return 0;
	reports = 0;
	shm_reader_drain(&i, INT64_MAX, data[0] & 1, on_record, NULL);
	shm_reader_drain(&i, INT64_MAX, true, on_record, NULL);
	if (size % SLOTS_SELDOM == 0) /* there are so many that nothing else would be tried */
		shm_reader_slots(&i, on_slot, NULL);
	label_history_read(&labels, i.memory, &(struct label_history_limits){1000, 2000, 10000, 256});
	label_history_ended(&labels, 1, 2000);
	for (uint32_t tid = 0; tid < 8; tid++)
		sink += strlen(label_history_at(&labels, i.memory, tid, data[0]));
	for (uint64_t set = 0; set < 4; set++)
		sink += strlen(label_history_of(&labels, i.memory, set));
	label_history_done(&labels);
	shm_reader_close(&i);
	return 0;
}
