/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_encoder - what the forms of push_encode.h share: a profile on its way to one receiver, and the piece of it that
 * the next request has. push_encode.c decides how large pieces are; pyroscope.h and otlp.h make bodies.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/profile_split.h"
#include "profiler/push/push_encode.h"
#include "profiler/push/push_labels.h"

struct push_encoder {
	const struct profile *p;
	const struct push_source *of;
	struct push_labels labels;
	struct label_names types; /* a '-' in a sample type is what Pyroscope refuses a profile for */
	struct label_names names; /* of labels */
	struct profile_info info; /* the profile's, with such names; there is always a period type */
	bool no_memory;		  /* noted where it cannot be returned */
};

struct sample_range {
	size_t first, n; /* samples */
	size_t text_max, depth_max;
	unsigned number; /* requests before it */
};

/* *ret_bytes: how large it is, not compressed. 0 or -errno with a sentence; *ret_bytes 0: there is nothing to say. */
typedef int push_encoder_body_fn(struct push_encoder *j, const struct sample_range *w, struct push_request *ret,
	size_t *ret_bytes, struct err *e);

/* The piece as a profile; labels as profile_split.h has them. */
int push_encoder_part(struct push_encoder *j, const struct sample_range *w, profile_split_labels_fn *labels, void *arg,
	struct profile **ret);
/* 16 bytes that are the same for the same bytes, and never all zero: told apart, not proven. */
void push_encoder_id(const void *bytes, size_t len, uint8_t ret[static 16]);
