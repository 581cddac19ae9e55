/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_builder - a profile being built, for the three files that build it: profile_build.c (samples and their
 * places), profile_labels.c, and profile_notes.c (losses and comments).
 */
#pragma once

#include "profiler/target/profile/profile_build.h"
#include "shim/libpillion/abi/label_text.h"

#define PROFILE_BUILDER_TYPES 4 /* of memory: the most that a profile of ours has */

struct profile_builder {
	const struct window *w;
	struct target *t;
	const struct event_totals *kernel; /* of that event */
	struct aggregate *counts;
	uint32_t profile, spec; /* which one; the event at hand */
	struct profile *p;
	uint32_t *locations;  /* by frame number of the aggregate */
	uint32_t *label_sets; /* by number of the sampled thread (aggregate_whos) */
	struct profile_label labels[PROFILE_LABELS_MAX];
	uint64_t n_samples;
	size_t n_fixed; /* labels that every sample has */
	bool kernel_nameless;
	char jit_denied[PATH_MAX]; /* the first file that would have named code made at run time; "": none */
	const struct module *quarantined[QUARANTINE_MAX];
	unsigned n_quarantined;
	char user_keys[LABELS_MAX][72];
	struct {
		char key[sizeof("user.") + LABEL_KEY_MAX], value[LABEL_VALUE_MAX + 1];
	} thread_labels[LABEL_COUNT_MAX]; /* of the thread at hand */
	struct {			  /* the last one: most frames are of the same module as the one before */
		const struct module *module;
		int64_t id;
		unsigned has;
	} mapping;
};

/* Sets the labels that every sample has. */
void profile_labels_fix(struct profile_builder *b);
/* The number of the set of labels (profile.h) of a sample of that thread, with the fixed ones, or -errno. */
int64_t profile_labels_add(
	struct profile_builder *b, const struct sample_origin *who, const struct sample_detail *when);

/* What is missing, as samples with a frame like "[lost]", and why, as comments: each returns 0 or -errno. */
int profile_notes_add_losses(struct profile_builder *b); /* of the event at hand */
int profile_notes_add_account(
	struct profile_builder *b); /* CPU time of the container's own account that no event saw */
int profile_notes_add_comments(struct profile_builder *b); /* on the whole profile, after all samples */
