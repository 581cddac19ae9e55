/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile - one window of one target, the form from which every output format is made: mappings, functions, locations,
 * samples with labels, comments. Built by the aggregator (or read from a file), then written by pprof.h, folded.h,
 * top_table.h.
 *
 * All strings given are copied (interned), NULL is ""; bytes that are not UTF-8 become '?', because strict consumers
 * refuse a whole file for one of them. Ids returned are indexes from 0. Mappings, functions and locations that are
 * given again return the id they had. Samples with equal stack and labels are summed (saturating); the order of labels
 * does not matter, of two with one key the first wins, and an empty text is no label. Functions return an id >= 0
 * (profile_sample, profile_comment: 0), -ENOMEM, or -EINVAL for an id that was never given out or for more than
 * PROFILE_LABELS_MAX labels; PROFILE_NONE stands for "none". A call that fails adds no sample.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_NONE UINT32_MAX
#define PROFILE_LABELS_MAX 40
#define PROFILE_LINES_MAX 64

struct profile_type { /* "samples"/"count", "cpu"/"nanoseconds" */
	const char *type, *unit;
};

struct profile_label { /* exactly one of str (non-NULL) and num */
	const char *key, *str, *unit;
	int64_t num;
};

struct profile_info {
	int64_t time_ns; /* start, since the epoch */
	int64_t duration_ns;
	unsigned n_types;
	const struct profile_type *types; /* the caller's, until profile_new has copied them */
	const char *default_type;	  /* as a file says: the first of that name; NULL: the last one */
	struct profile_type period_type;
	int64_t period;
};

struct profile;

/* -EINVAL: no sample type */
int profile_new(const struct profile_info *info, struct profile **ret);
struct profile *profile_free(struct profile *p);

/*
 * The data that locations of a mapping have (profile.proto, message Mapping). go tool pprof symbolizes on its own
 * unless one of the first three is there.
 */
enum profile_has {
	PROFILE_HAS_FUNCTIONS = 1 << 0,
	PROFILE_HAS_FILENAMES = 1 << 1,
	PROFILE_HAS_LINE_NUMBERS = 1 << 2,
	PROFILE_HAS_INLINE_FRAMES = 1 << 3,
};
/* build_id: lower-case hex or "". `has`: a set of PROFILE_HAS_*; a flag once set for a mapping stays. */
int64_t profile_mapping(struct profile *p, uint64_t start, uint64_t limit, uint64_t offset, const char *file,
	const char *build_id, unsigned has);
struct profile_function {
	const char *name;	 /* for people: demangled */
	const char *system_name; /* as the linker knows it; "": the same as `name` */
	const char *file;	 /* its source, "": unknown */
	int64_t start_line;	 /* 0: unknown */
};
int64_t profile_function(struct profile *p, const struct profile_function *f);
struct profile_line {
	uint32_t function;
	uint32_t line; /* 0: unknown */
};
/*
 * Adds a location. mapping may be PROFILE_NONE (kernel and bracketed frames have address 0). lines: the functions that
 * were inlined here, innermost first; the last one is the function that the code belongs to. Of more than
 * PROFILE_LINES_MAX the innermost and the last one are kept. A location without lines is named after its module and
 * file offset ("libfoo.so+0x1234"), without either "?": every location has a line, and so a name.
 */
int64_t profile_location(
	struct profile *p, uint32_t mapping, uint64_t address, const struct profile_line *lines, size_t n);
/* Adds a location of one function that has a name, and neither file nor line. */
int64_t profile_named_location(struct profile *p, uint32_t mapping, uint64_t address, const char *name);
/*
 * Add a sample. locations: leaf first. values: n_types of them. The first two functions are the two halves of
 * profile_sample, for callers that add many samples with the same labels: profile_labels returns the number of a set of
 * labels, >= 0.
 */
int64_t profile_labels(struct profile *p, const struct profile_label *labels, size_t n);
int profile_sample_of(
	struct profile *p, const uint32_t *locations, size_t n, const int64_t *values, uint32_t label_set);
int profile_sample(struct profile *p, const uint32_t *locations, size_t n, const int64_t *values,
	const struct profile_label *labels, size_t n_labels);
int profile_comment(struct profile *p, const char *text);
int profile_comment_once(struct profile *p, const char *text); /* unless it is there */
/*
 * From here on until it is called with false, the caller's texts stay in place and unchanged: a long one is read once.
 */
void profile_lock_strings(struct profile *p, bool on);
bool profile_same_types(const struct profile_info *a, const struct profile_info *b);
/*
 * Gives two profiles the same types, as go tool pprof does before it merges: a unit of both is the finer one, and
 * values saturate. -EINVAL: they are of different types, and nothing has changed; -ENOMEM.
 */
int profile_match_types(struct profile *a, struct profile *b);
int64_t profile_sum(int64_t a, int64_t b); /* saturates */

/* Reading back, for the writers. */
const struct profile_info *profile_info(const struct profile *p);
/*
 * Returns the index of the type that a command shows unless its user chooses one: the default, or, if that is 0 in all
 * samples, the last one that is not (allocated memory, if all of it has been freed).
 */
unsigned profile_default_type(const struct profile *p);
size_t profile_samples(const struct profile *p);
/* One sample; pointers valid until the profile changes. */
struct profile_sample {
	const uint32_t *locations; /* leaf first */
	size_t n;
	const int64_t *values;
	const struct profile_label *labels;
	size_t n_labels;
};
void profile_sample_get(const struct profile *p, size_t i, struct profile_sample *ret);
struct profile_location {
	uint32_t mapping;
	uint64_t address;
	const struct profile_line *lines; /* valid as long as the profile; innermost first */
	size_t n;			  /* 1 to PROFILE_LINES_MAX */
};
void profile_location_get(const struct profile *p, uint32_t id, struct profile_location *ret);
void profile_function_get(const struct profile *p, uint32_t id, struct profile_function *ret);
struct profile_mapping {
	uint64_t start, limit, offset;
	const char *file, *build_id;
	unsigned has; /* PROFILE_HAS_* */
};
void profile_mapping_get(const struct profile *p, uint32_t id, struct profile_mapping *ret);
size_t profile_mappings(const struct profile *p), profile_functions(const struct profile *p),
	profile_locations(const struct profile *p);
size_t profile_comments(const struct profile *p);
const char *profile_comment_get(const struct profile *p, size_t i);
const char *profile_function_name(const struct profile *p, uint32_t id);

/* The table behind all strings of the profile: 0 is "". */
size_t profile_strings(const struct profile *p);
const char *profile_string_get(const struct profile *p, uint32_t id);
int64_t profile_string_find(const struct profile *p, const char *text); /* -ENOENT */

int64_t profile_total(const struct profile *p, unsigned type);	  /* sum over all samples */
int profile_type_find(const struct profile *p, const char *type); /* index of the sample type, or -ENOENT */
/* Extends the window by another one: the earlier start stays, durations are summed. */
void profile_extend(struct profile *p, int64_t time_ns, int64_t duration_ns);
