/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_encode.h"

#include "oci/base/array.h"
#include "oci/base/protobuf.h"
#include "profiler/push/otlp.h"
#include "profiler/push/push_encoder.h"
#include "profiler/push/pyroscope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
/* Less than Pyroscope's distributor.ingestion-burst-size-mb, which also counts labels; its
 * validation.max-profile-size-bytes is twice that. */
#define BYTES_MAX ((2u << 20) - (64u << 10))
#define SAMPLES_MAX 16000 /* its validation.max-profile-stacktrace-samples */
#define TYPES_MAX 64	  /* each repeats the comments in OTLP */
#define APART_NS (1000 * 1000)
#define SPEND_MIN (256u << 20) /* bytes: two seconds */
#define SPEND_TIMES 32	       /* the file, which is compressed */

static const struct {
	const char *name;
	push_encoder_body_fn *body; /* NULL: not made of the profile */
} forms[PUSH_FORMS] = {
	[PUSH_PYROSCOPE] = {"pyroscope", pyroscope_push_body},
	[PUSH_INGEST] = {"ingest", pyroscope_ingest_body},
	[PUSH_OTLP] = {"otlp", otlp_body},
	[PUSH_PUT] = {"put", NULL},
	[PUSH_DIRECTORY] = {"directory", NULL},
};

/* Cuts for a sample that is too large alone, tried in order. Also for all samples, if shared data would make the
 * parts of a profile many times its size. */
static const struct {
	size_t text, depth;
} cuts[] = {{PROFILE_SPLIT_TEXT_MAX, PROFILE_SPLIT_DEPTH_MAX}, {2048, PROFILE_SPLIT_DEPTH_MAX}, {256, 200}, {64, 20}};

const char *push_form_name(enum push_form form)
{
	return forms[form].name;
}

int push_form_find(const char *name)
{
	for (int i = 0; i < PUSH_FORMS; i++)
		if (!strcmp(forms[i].name, name))
			return i;
	return -ENOENT;
}

/* --- the job */

/* Gives a type a name that every receiver allows; `otherwise` replaces an empty one. */
static int name_type(struct push_encoder *j, struct profile_type *t, const struct profile_type *otherwise)
{
	if (!t->type[0])
		*t = *otherwise;
	t->type = pushnames_of(&j->types, t->type);
	t->unit = t->unit[0] ? pushnames_of(&j->types, t->unit) : "count";
	return t->type && t->unit ? 0 : -ENOMEM;
}

static int init_encoder(struct push_encoder *j)
{
	int r = push_labels_find(j->p, j->of, &j->labels);
	j->info = *profile_info(j->p);
	const unsigned n = j->info.n_types;
	const struct profile_type last = j->info.types[n - 1], samples = {"samples", "count"};
	j->named = calloc(n, sizeof(*j->named));
	if (!j->named)
		return -ENOMEM;
	memcpy(j->named, j->info.types, n * sizeof(*j->named));
	j->info.types = j->named;
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = name_type(j, &j->named[i], &samples);
	return r < 0 ? r : name_type(j, &j->info.period_type, last.type[0] ? &last : &samples);
}

int push_encoder_part(struct push_encoder *j, const struct sample_range *w, profile_split_labels_fn *labels, void *arg,
	struct profile **ret)
{
	struct profile_split part = {.from = j->p,
		.first = w->first,
		.n = w->n,
		.text_max = w->text_max,
		.depth_max = w->depth_max,
		.info = j->info,
		.labels = labels,
		.arg = arg};
	if (part.info.time_ns)
		part.info.time_ns += (int64_t)w->number * APART_NS;
	int r = profile_split_make(&part, ret);
	if (r == 0 && j->no_memory) {
		profile_free(*ret);
		r = -ENOMEM;
	}
	return r;
}

/* FNV-1a of 128 bits */
void push_encoder_id(const void *bytes, size_t len, uint8_t ret[static 16])
{
	const unsigned __int128 prime = (unsigned __int128)1 << 88 | 0x13b;
	unsigned __int128 hash = (unsigned __int128)0x6c62272e07bb0142u << 64 | 0x62b821756295c58du;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * prime;
	for (unsigned i = 0; i < 16; i++)
		ret[i] = (uint8_t)(hash >> 8 * (15 - i));
	if (!hash)
		ret[15] = 1;
}

/* --- requests */

struct requests {
	struct push_request *r;
	size_t n, room;
	struct push_limits limits;
	push_encoder_body_fn *body;
	size_t cut;	     /* the first of `cuts` that is tried */
	size_t spent, spend; /* bytes made so far, kept or not; the most that may be */
};

static int append_request(struct requests *q, const struct push_request *r)
{
	if (array_reserve(&q->r, &q->room, q->n + 1, sizeof(*q->r), 4) < 0)
		return -ENOMEM;
	q->r[q->n++] = *r;
	return 0;
}

static void free_request(struct push_request *r)
{
	free(r->path);
	free(r->content_type);
	free(r->body);
	*r = (struct push_request){0};
}

static int make_requests(struct push_encoder *j, struct requests *q, size_t first, size_t n, struct err *e);

static int make_in_parts(
	struct push_encoder *j, struct requests *q, size_t first, size_t n, size_t parts, struct err *e)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < parts; i++) {
		const size_t from = n * i / parts, to = n * (i + 1) / parts;
		r = from < to ? make_requests(j, q, first + from, to - from, e) : 0;
	}
	return r;
}

/* Makes one request of these samples, or several. */
static int make_requests(struct push_encoder *j, struct requests *q, size_t first, size_t n, struct err *e)
{
	struct push_request fresh = {0};
	size_t bytes = 0;
	if (n > q->limits.samples)
		return make_in_parts(j, q, first, n, (n + q->limits.samples - 1) / q->limits.samples, e);
	for (size_t i = q->cut; i < N(cuts); i++) {
		const struct sample_range w = {first, n, cuts[i].text, cuts[i].depth, (unsigned)q->n};
		int r = q->body(j, &w, &fresh, &bytes, e);
		q->spent += bytes;
		if (r == 0 && q->spent > q->spend)
			r = err_say(e, -E2BIG, "its parts are more than %zu bytes together", q->spend);
		if (r == 0 && bytes == 0) {
			free_request(&fresh);
			return 0;
		}
		if (r == 0 && bytes <= q->limits.bytes) {
			fresh.samples = n;
			r = append_request(q, &fresh);
			if (r == 0)
				return 0;
			err_set(e, r, "cannot keep a request");
		}
		free_request(&fresh);
		if (r < 0)
			return r;
		if (n > 1) { /* a few more parts than bytes demand: each repeats the shared data */
			const size_t parts = bytes / (q->limits.bytes - q->limits.bytes / 8) + 1;
			return make_in_parts(j, q, first, n, parts < 2 ? 2 : parts < n ? parts : n, e);
		}
	}
	return err_say(
		e, -EFBIG, "a single sample takes %zu bytes, of %zu that a request may have", bytes, q->limits.bytes);
}

/* --- a file as it is */

/* Escapes all but RFC 3986's unreserved characters, and all of "." and "..", which would lead elsewhere. */
static void put_segment(struct protobuf_writer *w, const char *text, size_t len)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	const bool dots = (len == 1 && text[0] == '.') || (len == 2 && !memcmp(text, "..", 2));
	for (size_t i = 0; i < len; i++)
		if (!dots && strchr(plain, text[i]))
			protobuf_writer_put(w, &text[i], 1);
		else
			protobuf_writer_print(w, "%%%02X", (unsigned char)text[i]);
}

/* Writes /NODE/TARGET/FILE: targets of two nodes may have one name and begin in one second. */
static void put_path(struct protobuf_writer *w, const struct push_source *of)
{
	const char *at = of->file;
	if (of->node[0]) {
		protobuf_writer_put(w, "/", 1);
		put_segment(w, of->node, strlen(of->node));
	}
	if (!strchr(at, '/') && of->target[0]) {
		protobuf_writer_put(w, "/", 1);
		put_segment(w, of->target, strlen(of->target));
	}
	while (*at) {
		const size_t n = strcspn(at, "/");
		if (n) {
			protobuf_writer_put(w, "/", 1);
			put_segment(w, at, n);
		}
		at += n + (at[n] == '/');
	}
	protobuf_writer_put(w, "", 1);
}

static int put_file(
	const struct push_source *of, const struct profile *p, const void *bytes, size_t len, struct requests *q)
{
	struct push_request r = {.method = "PUT", .len = len, .samples = p ? profile_samples(p) : 0};
	struct protobuf_writer path = {0};
	put_path(&path, of);
	r.path = path.failed ? NULL : (char *)path.bytes;
	r.content_type = strdup("application/octet-stream");
	r.body = malloc(len + 1);
	if (!r.path)
		protobuf_writer_done(&path);
	if (!r.path || !r.content_type || !r.body || append_request(q, &r) < 0) {
		free_request(&r);
		return -ENOMEM;
	}
	memcpy(r.body, bytes, len);
	return 0;
}

/* --- */

static void reset_requests(struct requests *q)
{
	for (size_t i = 0; i < q->n; i++)
		free_request(&q->r[i]);
	q->n = 0;
	q->spent = 0;
}

static int made_of_profile(struct requests *q, const struct profile *p, const struct push_source *of, struct err *e)
{
	struct push_encoder j = {.p = p, .of = of};
	if (profile_info(p)->n_types > TYPES_MAX)
		return err_say(e, -EFBIG, "it has %u sample types, more than %d", profile_info(p)->n_types, TYPES_MAX);
	int r = init_encoder(&j);
	if (r < 0)
		err_set(e, r, "cannot look at its labels");
	else
		r = make_requests(&j, q, 0, profile_samples(p), e);
	while (r == -E2BIG && ++q->cut < N(cuts)) {
		reset_requests(q);
		r = make_requests(&j, q, 0, profile_samples(p), e);
	}
	r = r == -E2BIG ? -EFBIG : r;
	free(j.named);
	pushnames_done(&j.types);
	pushnames_done(&j.names);
	return r;
}

int push_requests(enum push_form form, const struct push_limits *limits, const struct push_source *of,
	const struct profile *p, const void *file_bytes, size_t file_len, struct push_request **ret, size_t *ret_n,
	struct err *e)
{
	struct requests q = {.body = forms[form].body,
		.spend = SPEND_MIN + SPEND_TIMES * file_len,
		.limits = {limits && limits->bytes ? limits->bytes : BYTES_MAX,
			limits && limits->samples ? limits->samples : SAMPLES_MAX}};
	int r;
	if (form == PUSH_DIRECTORY)
		r = err_say(e, -EINVAL, "a directory is not asked by HTTP");
	else if (form == PUSH_PUT)
		r = put_file(of, p, file_bytes, file_len, &q) < 0 ? err_set(e, -ENOMEM, "cannot keep a file") : 0;
	else
		r = profile_samples(p) ? made_of_profile(&q, p, of, e) : 0;
	if (r < 0) {
		push_requests_free(q.r, q.n);
		return err_wrap(e, r, "%s", of->file);
	}
	*ret = q.r;
	*ret_n = q.n;
	return 0;
}

void push_requests_free(struct push_request *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free_request(&r[i]);
	free(r);
}
