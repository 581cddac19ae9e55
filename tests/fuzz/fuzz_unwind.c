/* SPDX-License-Identifier: Apache-2.0 */
/* unwind: registers, 512 bytes of stack, and behind them the ELF file that the code is in. */
#include "profiler/process/address_space.h"
#include "profiler/unwind/unwind.h"

#include "oci/base/fd.h"
#include "tests/unit/support/here.h"

#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct elf_memory file;

static int open_input(void *arg, const char *path, struct file *ret)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	fd_write_all(fd, file.data, file.size);
	return file_take(fd, ret);
}

static struct module *resolve(void *table, const struct module_key *key)
{
	struct module *m = NULL;
	return modules_get(table, key, open_input, NULL, &m) < 0 ? NULL : m;
}

static void walk(const struct address_space *s, const uint8_t *data)
{
	static struct unwind_frame frames[UNWIND_FRAMES_MAX];
	static struct unwind *u;
	struct unwind_regs regs;
	enum unwind_stop stop;
	memcpy(&regs, data, sizeof(regs));
	regs.r[UNWIND_IP] = 0x400000 + regs.r[UNWIND_IP] % 0x10000;
	if (!u && unwind_new(&u) < 0)
		return;
	for (int again = 0; again < 2; again++)
		unwind_user(u, address_space_unwind_map(s), &regs, data + sizeof(regs), 512, frames, UNWIND_FRAMES_MAX,
			&stop);
	unwind_brief(u, address_space_unwind_map(s), &regs, data + sizeof(regs), 128, frames, UNWIND_FRAMES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct module_key key = {.path = "/input"};
	struct modules *modules;
	struct map_files *files;
	struct address_space *s;
	if (size < sizeof(struct unwind_regs) + 512)
		return 0;
	file.data = data + sizeof(struct unwind_regs) + 512;
	file.size = size - sizeof(struct unwind_regs) - 512;
	if (modules_new(64 << 20, &modules) < 0 || map_files_new(resolve, modules, &files) < 0 ||
		address_space_new(files, &s) < 0)
		return 0;
	address_space_map(s, 0x400000, 0x10000, 0, &key);
	walk(s, data);
	address_space_free(s);
	map_files_free(files);
	modules_free(modules);
	return 0;
}
