/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_encoder - shared by the forms of push_encode.h: a profile on its way to one receiver, and its piece for the next
 * request. push_encode.c decides how large pieces are; pyroscope.h and otlp.h make bodies.
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
	struct label_names types;   /* Pyroscope refuses a profile with a '-' in a sample type */
	struct label_names names;   /* of labels */
	struct profile_info info;   /* the profile's, with names of `types`; there is always a period type */
	struct profile_type *named; /* the types of `info` */
	bool no_memory;		    /* noted where it cannot be returned */
};

struct sample_range {
	size_t first, n; /* samples */
	size_t text_max, depth_max;
	unsigned number; /* requests before it */
};

/* Makes a request's body. *ret_bytes: its size before compression; 0: nothing to send. 0 or -errno with a sentence. */
typedef int push_encoder_body_fn(struct push_encoder *j, const struct sample_range *w, struct push_request *ret,
	size_t *ret_bytes, struct err *e);

/* Makes a profile of the piece; labels as in profile_split.h. */
int push_encoder_part(struct push_encoder *j, const struct sample_range *w, profile_split_labels_fn *labels, void *arg,
	struct profile **ret);
/* Hashes `bytes` to 16 bytes, never all zero: it tells contents apart, and proves nothing. */
void push_encoder_id(const void *bytes, size_t len, uint8_t ret[static 16]);
