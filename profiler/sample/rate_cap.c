#include "profiler/sample/rate_cap.h"

#include "oci/base/clock.h"

#define ROOM 1.05 /* what is lowered ends a little below: it is no clockwork */

double cap_factor(const struct cap *c)
{
	return c->factor > 1 ? c->factor : 1;
}

static double share(double a_second, uint64_t limit)
{
	return limit ? a_second / (double)limit : 0;
}

static double most_needed(const struct cap *c)
{
	double most = 0;
	for (unsigned i = 0; i < CAP_CALM; i++)
		most = c->needed[i] > most ? c->needed[i] : most;
	return most;
}

static double within(double factor)
{
	return factor <= 1 ? 1 : factor > CAP_MOST ? CAP_MOST : factor;
}

bool cap_look(struct cap *c, const struct cap_limits *l, int64_t ns, uint64_t samples, uint64_t bytes, double lowered)
{
	double now = cap_factor(c), span = (double)ns / NSEC_PER_SEC;
	if (ns <= 0)
		return false;
	double by_samples = share((double)samples / span, l->samples) * lowered;
	double by_bytes = share((double)bytes / span, l->bytes) * lowered;
	double needed = by_samples > by_bytes ? by_samples : by_bytes;
	c->needed[c->next++ % CAP_CALM] = needed;
	double most = most_needed(c), to = now;
	if (needed > now * 1.1)
		to = within(needed * ROOM);
	else if (now > 1 && most < now * 0.8)
		to = most <= 1 ? 1 : within(most * ROOM);
	c->factor = to;
	return to != now;
}
