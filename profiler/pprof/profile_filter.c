/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/profile_filter.h"

#include "profiler/pprof/profile_merge.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

struct term {
	const char *text;
	size_t key; /* length of KEY; 0: a function */
};

struct wanted {
	struct term terms[PROFILE_FILTER_TERMS_MAX];
	size_t n;
};

static bool is_key(const struct profile_label *l, const char *key, size_t len)
{
	return !strncmp(l->key, key, len) && !l->key[len];
}

static bool has_key(const struct profile *p, const char *key, size_t len)
{
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		for (size_t k = 0; k < s.n_labels; k++)
			if (is_key(&s.labels[k], key, len))
				return true;
	}
	return false;
}

static struct wanted wanted_of(const struct profile *p, const struct profile_filter *f)
{
	struct wanted w = {.n = f->n};
	for (size_t i = 0; i < f->n; i++) {
		const size_t len = strspn(f->terms[i], KEY_CHARACTERS);
		const bool labelled = len && f->terms[i][len] == '=' && has_key(p, f->terms[i], len);
		w.terms[i] = (struct term){f->terms[i], labelled ? len : 0};
	}
	return w;
}

static bool label_fits(const struct term *t, const struct profile_sample *s)
{
	const char *wanted = t->text + t->key + 1;
	char number[32];
	for (size_t i = 0; i < s->n_labels; i++) {
		const struct profile_label *l = &s->labels[i];
		if (!is_key(l, t->text, t->key))
			continue;
		snprintf(number, sizeof(number), "%" PRId64, l->num);
		return l->str ? !!strstr(l->str, wanted) : !strcmp(number, wanted);
	}
	return false;
}

static bool function_fits(const struct term *t, const struct profile *p, const struct profile_sample *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct profile_location l;
		profile_location_get(p, s->locations[i], &l);
		for (size_t k = 0; k < l.n; k++)
			if (strstr(profile_function_name(p, l.lines[k].function), t->text))
				return true;
	}
	return false;
}

static bool is_wanted_sample(void *arg, const struct profile *p, const struct profile_sample *s)
{
	const struct wanted *w = arg;
	for (size_t i = 0; i < w->n; i++)
		if (!(w->terms[i].key ? label_fits(&w->terms[i], s) : function_fits(&w->terms[i], p, s)))
			return false;
	return true;
}

size_t profile_filter_count(const struct profile *p, const struct profile_filter *f)
{
	struct wanted w = wanted_of(p, f);
	size_t n = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		n += is_wanted_sample(&w, p, &s);
	}
	return n;
}

int profile_filter_apply(const struct profile *p, const struct profile_filter *f, struct profile **ret, struct err *e)
{
	struct wanted w = wanted_of(p, f);
	return profile_merge_some(p, is_wanted_sample, &w, ret, e);
}
