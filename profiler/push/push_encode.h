/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_encode - encodes a profile for other projects' servers, as the bodies of HTTP requests. It sends nothing and
 * waits for nothing.
 *
 * - PUSH_PYROSCOPE: POST /push.v1.PusherService/Push: Connect, unary, protobuf; one series with one gzip'ed pprof. The
 *   sender may say "Connect-Protocol-Version: 1".
 * - PUSH_INGEST: POST /ingest?name=SERVICE{...}: multipart/form-data with the parts `profile` and, where Pyroscope
 *   would give our types another name, `sample_type_config`. The query has no format=pprof: with it, Pyroscope takes
 *   the whole body for the profile.
 * - PUSH_OTLP: POST /v1development/profiles: OpenTelemetry's profiles, protobuf, gzip (otlp.h).
 * - PUSH_PUT: PUT /NODE/TARGET/FILE, without an unknown NODE: the file as it is. Limits do not apply.
 * - PUSH_DIRECTORY: no request: the file is copied into a directory.
 *
 * Labels. Labels that all samples share are written once, for the series or the resource; the others stay at the
 * samples. Names and values are changed to such as the receiver allows (push_labels.h). There is always a service name:
 * the label, else the container's name, its id, or the target.
 *
 * Limits. A profile beyond the receiver's limits becomes several, which together have all its samples: so sums by type
 * are those of the whole. Each is complete in itself and says in a comment which samples it has. Their times are a
 * millisecond apart, because Pyroscope takes profiles of one time and one set of labels for copies of one. Texts are
 * cut to 65535 bytes, stacks to 1000 locations: those next to the leaf, below "[truncated: depth]" (the receiver would
 * cut the leaf off). A sample that is too large alone has its texts and its stack cut further. So have all samples of a
 * profile whose parts would be many times its size, because each repeats the shared data. -EFBIG, with a sentence, if
 * that does not help.
 *
 * A profile without samples makes no request except for PUSH_PUT: receivers would refuse or ignore it. The same profile
 * gives the same bytes, ids included, so that a receiver can recognize duplicates.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/pprof/profile.h"

#include <stddef.h>
#include <stdint.h>

enum push_form { PUSH_PYROSCOPE, PUSH_INGEST, PUSH_OTLP, PUSH_PUT, PUSH_DIRECTORY, PUSH_FORMS };

/*
 * Of one request: bytes before compression; samples. 0: the default, which Pyroscope's default configuration takes:
 * 16000 samples, and a little less than 2 MiB. Pyroscope allows profiles of 4 MiB, but its rate limit refuses more than
 * 2 MiB at once, each time anew.
 */
struct push_limits {
	size_t bytes, samples;
};

struct push_progress { /* the part of a file that the receiver took */
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
	char *path;	    /* with its query; follows the endpoint's URL */
	const char *method; /* static */
	char *content_type;
	const char *content_encoding; /* static; NULL: none */
	uint8_t *body;
	size_t len;
	uint64_t samples; /* in the request */
};

/* "pyroscope", "ingest", "otlp", "put", "directory". */
const char *push_form_name(enum push_form form);
int push_form_find(const char *name); /* -ENOENT */

/* Makes the requests of a profile. file_bytes: the body for PUSH_PUT; other forms encode `p`, which PUSH_PUT does
 * not need. *ret: malloc'ed, possibly none. 0, -ENOMEM, -EFBIG, -EINVAL (PUSH_DIRECTORY). */
int push_requests(enum push_form form, const struct push_limits *limits, const struct push_source *of,
	const struct profile *p, const void *file_bytes, size_t file_len, struct push_request **ret, size_t *ret_n,
	struct err *e);
void push_requests_free(struct push_request *r, size_t n);
