/* SPDX-License-Identifier: Apache-2.0 */
/* page: whatever an address says, nothing beside the spool is shown, and no markup of it comes back. */
#include "profiler/web/pages.h"

#include "oci/base/fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "20260101T000000Z-000000-cpu.pb.gz"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* spool/web with a file that is no profile; and beside the spool what nobody may see. */
static int make_spool(void)
{
	static char dir[] = "/tmp/fuzz-page.XXXXXX";
	int top = mkdtemp(dir) ? fd_open_dir(AT_FDCWD, dir) : -1;
	mkdirat(top, "spool", 0700);
	mkdirat(top, "spool/web", 0700);
	if (fd_write_text(top, "secret", "SECRET") < 0)
		fd_close(fd_open(top, "secret", O_WRONLY | O_CREAT, 0600));
	fd_write_text(top, "secret", "SECRET");
	fd_close(fd_open(top, "spool/web/" NAME, O_WRONLY | O_CREAT, 0600));
	return fd_open_dir(top, "spool");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int spool = -1;
	struct page_question q = {.nonce = "n"};
	struct page_answer a;
	char *text = strndup((const char *)data, size), *rest = text, *field;
	spool = q.spool = spool < 0 ? make_spool() : spool;
	for (int i = -1; i < PAGE_ARGUMENTS && (field = strsep(&rest, "\n")); i++) /* the path, arguments */
		snprintf(i < 0 ? q.path : q.arguments[i], i < 0 ? sizeof(q.path) : sizeof(q.arguments[i]), "%s", field);
	if (page_answer(&q, &a) == 0) {
		char shown[16] = "";
		const bool told = memmem(data, size, "SECRET", 6); /* what was asked for may be said again */
		if (a.text && ((!told && memmem(a.text, a.len, "SECRET", 6)) || strcasestr(a.text, "<script")))
			abort();
		if (a.fd >= 0 && fd_pread_all(a.fd, shown, sizeof(shown) - 1, 0) > 0)
			abort();
		fd_close(a.fd);
		free(a.text);
	}
	free(text);
	return 0;
}
