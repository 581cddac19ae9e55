#include "profiler/allowance.h"

#define TARGET 0.85
#define RAISE_LEAST 1.15 /* less is not worth a change */

double allowance_factor(const struct allowance *b)
{
	return b->factor > 1 ? b->factor : 1;
}

/* Of `seconds` that ended so many ago. */
static uint64_t sum(const struct allowance *b, unsigned ago, unsigned seconds)
{
	uint64_t n = 0;
	for (unsigned i = ago; i < ago + seconds; i++)
		n += b->spent[(b->at + ALLOWANCE_SECONDS - i) % ALLOWANCE_SECONDS];
	return n;
}

uint64_t allowance_minute(const struct allowance *b)
{
	return sum(b, 0, ALLOWANCE_SECONDS);
}

static void put(struct allowance *b, unsigned seconds, uint64_t spent)
{
	unsigned n = seconds < ALLOWANCE_SECONDS ? seconds : ALLOWANCE_SECONDS;
	for (unsigned i = 0; i < n; i++) {
		b->at = (b->at + 1) % ALLOWANCE_SECONDS;
		b->spent[b->at] = spent / n;
	}
	b->since = b->since > UINT32_MAX - seconds ? UINT32_MAX : b->since + seconds;
	b->seconds += seconds;
}

/* By half; by half of that once more where nobody looked for long. */
static double least(double now, unsigned seconds)
{
	for (unsigned passed = 0; now > 1 && passed <= seconds; passed += ALLOWANCE_PATIENCE)
		now /= 2;
	return now < 1 ? 1 : now;
}

/* The dearest ten seconds of the time that patience takes. */
static uint64_t dearest(const struct allowance *b)
{
	uint64_t most = 0;
	for (unsigned ago = 0; ago < ALLOWANCE_PATIENCE; ago += ALLOWANCE_RECENT) {
		uint64_t n = sum(b, ago, ALLOWANCE_RECENT);
		most = n > most ? n : most;
	}
	return most;
}

static double share_of(uint64_t ten_seconds, uint64_t allowed)
{
	return (double)ten_seconds / ALLOWANCE_RECENT / (double)allowed;
}

/* What ten seconds show was all spent at the present factor, or else they show nothing. */
static double decide(const struct allowance *b, unsigned seconds, uint64_t allowed)
{
	double now = allowance_factor(b);
	double share = share_of(sum(b, 0, ALLOWANCE_RECENT), allowed);
	if (b->since < ALLOWANCE_RECENT)
		return now;
	if (share > 1 && allowance_minute(b) > allowed * ALLOWANCE_SECONDS) {
		double to = now * share / TARGET;
		return to > ALLOWANCE_MOST ? ALLOWANCE_MOST : to;
	}
	if (now == 1 || b->since < ALLOWANCE_PATIENCE)
		return now;
	double to = now * share_of(dearest(b), allowed) / TARGET, floor = least(now, seconds);
	to = to < floor ? floor : to;
	return to * RAISE_LEAST <= now || to == 1 ? to : now;
}

bool allowance_look(struct allowance *b, unsigned seconds, uint64_t spent, uint64_t allowed)
{
	double now = allowance_factor(b);
	if (!seconds)
		return false;
	if (!b->seconds) /* what may be judged at once, is: the first minute has a minute's sum */
		b->since = ALLOWANCE_PATIENCE;
	put(b, seconds, spent);
	b->factor = allowed ? decide(b, seconds, allowed) : 1;
	if (b->factor != now)
		b->since = 0;
	return b->factor != now;
}
