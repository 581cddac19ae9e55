/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_encode - a profile as what other people's servers take: the bodies of HTTP requests. Nothing is sent here, and
 * nothing here waits.
 *
 * - PUSH_PYROSCOPE: POST /push.v1.PusherService/Push: Connect, unary, protobuf; one series with one gzip'ed pprof. The
 *   sender may say "Connect-Protocol-Version: 1".
 * - PUSH_INGEST: POST /ingest?name=SERVICE{...}: multipart/form-data with the parts `profile` and, where Pyroscope
 * would give our types another name, `sample_type_config`. There is no format=pprof in the query: with that, Pyroscope
 * takes the whole body for the profile.
 * - PUSH_OTLP: POST /v1development/profiles: OpenTelemetry's profiles, protobuf, gzip (otlp.h).
 * - PUSH_PUT: PUT /TARGET/FILE: the file as it is. Limits do not matter.
 * - PUSH_DIRECTORY: none: a file of a directory is a copy of the profile.
 *
 * Labels. What all samples share is said once, of the series or the resource; what differs stays at the samples. Names
 * and values become such as the receiver allows (push_labels.h). There is always a service name: the label, else the
 * container's name, its id, or the target.
 *
 * Limits. A profile that is over the receiver's becomes several, whose samples together are all of it: so sums by type
 * are those of the whole. Each is complete in itself and says in a comment which samples it has. Their times are a
 * millisecond apart, as Pyroscope takes profiles of one time and one set of labels for copies of one. Texts are cut to
 * 65535 bytes, stacks to 1000 locations: those next to the leaf, below "[truncated: depth]" (the receiver would cut the
 * leaf off). A sample that is too large alone has its texts and its stack cut further; so have all of a profile whose
 * parts would be many times its size, because of what they share. If that does not help there is a sentence: -EFBIG.
 *
 * A profile without samples is no request but for PUSH_PUT, as it would be refused or ignored. The same profile is the
 * same bytes, ids included: what was received twice can be told.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"

#include <stddef.h>
#include <stdint.h>

enum push_form { PUSH_PYROSCOPE, PUSH_INGEST, PUSH_OTLP, PUSH_PUT, PUSH_DIRECTORY, PUSH_FORMS };

/* Of one request: bytes of what is in it, not compressed; samples. 0: the form's default, which is what Pyroscope takes
 * as it is configured by default: 16000 samples, and a little less than 2 MiB. It allows 4 MiB of a profile, but of
 * what is more than 2 MiB at once, its limit of the rate refuses all, each time anew. */
struct push_limits {
	size_t bytes, samples;
};

struct push_progress { /* of a file in parts: what was taken */
	uint64_t samples;
	uint32_t requests;
};

struct push_source {	    /* texts, none of them NULL */
	const char *target; /* its id */
	const char *file;   /* below the spool: "TARGET/START-SEQ-KIND.pb.gz" */
	const char *kind;   /* of event: "cpu", ...; "": unknown */
	const char *node;   /* the host's name, for profiles that do not have it; "": unknown */
};

struct push_request {
	char *path;	    /* with its query: comes behind the endpoint's URL */
	const char *method; /* static */
	char *content_type;
	const char *content_encoding; /* static; NULL: none */
	uint8_t *body;
	size_t len;
	uint64_t samples; /* in it */
};

/* "pyroscope", "ingest", "otlp", "put", "directory". */
const char *push_form_name(enum push_form form);
int push_form_find(const char *name); /* -ENOENT */

/* file_bytes: what PUSH_PUT sends; others make theirs of `p`, which PUSH_PUT does not need. *ret: malloc'ed, possibly
 * none. 0, -ENOMEM, -EFBIG, -EINVAL (PUSH_DIRECTORY). */
int push_requests(enum push_form form, const struct push_limits *limits, const struct push_source *of,
	const struct profile *p, const void *file_bytes, size_t file_len, struct push_request **ret, size_t *ret_n,
	struct err *e);
void push_requests_free(struct push_request *r, size_t n);
