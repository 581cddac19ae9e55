#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/start.h"

#include <errno.h>
#include <string.h>

PILLION_API int pillion_start(const struct pillion_start_options *options, char *error, unsigned long size)
{
	static const struct pillion_start_options none;
	const struct pillion_start_options *o = options ? options : &none;
	const struct launch l = {o->events, o->output, o->window_s};
	struct start_reply s = {0};
	const int r = start_now(&l, &s);
	if (error && size) {
		const size_t n = strlen(s.text) < size ? strlen(s.text) : size - 1;
		memcpy(error, s.text, n);
		error[n] = 0;
	}
	return r;
}

PILLION_API int pillion_stop(void)
{
	return start_stop();
}
