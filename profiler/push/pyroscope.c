/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/pyroscope.h"

#include "oci/base/protobuf.h"
#include "profiler/pprof/pprof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INGEST_LABELS_MAX 900 /* bytes before escaping: a whole address must be less than 4096 */
#define N(a) (sizeof(a) / sizeof((a)[0]))
#define QUERY_VALUE_MAX 256 /* bytes of a value in a URL: proxies before servers take URLs of 8 KiB */
#define SPY "pillion"

/* --- the series */

struct pair {
	const struct profile_label *label; /* that all samples share; NULL: pillion's own */
	const char *name, *value;
	size_t len; /* of the value */
};

struct series {
	char metric[PUSH_LABELS_NAME_MAX];
	struct pair pairs[PYROSCOPE_NAMES_MAX]; /* by name */
	size_t n;
};

/* Names that Pyroscope and its users know, by type of the samples; earlier rows take precedence. */
static const struct {
	const char *type, *metric;
} metrics[] = {
	{"wall", "wall"},
	{"offcpu", "off_cpu"},
	{"off_cpu", "off_cpu"},
	{"cpu", "process_cpu"},
	{"alloc_objects", "memory"},
	{"alloc_space", "memory"},
	{"inuse_objects", "memory"},
	{"inuse_space", "memory"},
	{"objects", "memory"},
	{"space", "memory"},
	{"goroutine", "goroutine"},
	{"goroutines", "goroutines"},
	{"contentions", "mutex"},
	{"delay", "mutex"},
	{"calls", "calls"},
};

static const char *known_metric(const struct profile_info *info, const char *kind)
{
	for (size_t i = 0; i < N(metrics); i++)
		for (unsigned k = 0; k < info->n_types; k++)
			if (!strcmp(info->types[k].type, metrics[i].type))
				return !strcmp(metrics[i].metric, "mutex") && strstr(kind, "block") ? "block"
												    : metrics[i].metric;
	for (size_t i = 0; i < N(metrics); i++)
		if (!strcmp(info->period_type.type, metrics[i].type))
			return metrics[i].metric;
	return info->types[info->n_types - 1].type;
}

/* A label for which the series has no place stays with the samples (keep_labels). */
static void put_pair(
	struct series *s, const struct profile_label *label, const char *name, const char *value, size_t value_max)
{
	size_t at = s->n;
	if (s->n == N(s->pairs) || !value[0])
		return;
	for (; at > 0 && strcmp(s->pairs[at - 1].name, name) > 0; at--)
		s->pairs[at] = s->pairs[at - 1];
	s->pairs[at] = (struct pair){label, name, value, profile_split_cut(value, value_max)};
	s->n++;
}

/* Reserves our own names, so that a tenant's labels do not get them. */
static int name_labels(struct push_encoder *j)
{
	static const char *const ours[] = {"__name__", "__delta__", "pyroscope_spy", "service_name", "app_name"};
	for (size_t i = 0; i < N(ours); i++)
		if (pushnames_take(&j->names, ours[i]) < 0)
			return -ENOMEM;
	return 0;
}

static int find_series(struct push_encoder *j, size_t value_max, struct series *s)
{
	s->n = 0;
	snprintf(s->metric, sizeof(s->metric), "%s", known_metric(&j->info, j->of->kind));
	int r = j->names.taken.count ? 0 : name_labels(j);
	put_pair(s, NULL, "__name__", s->metric, value_max);
	put_pair(s, NULL, "__delta__", "false", value_max);
	put_pair(s, NULL, "pyroscope_spy", SPY, value_max);
	put_pair(s, push_labels_get(&j->labels, "service_name"), "service_name", j->labels.service, value_max);
	for (size_t i = 0; r == 0 && i < j->labels.n; i++) {
		const struct profile_label *l = &j->labels.shared[i];
		if (!l->str || !strcmp(l->key, "service_name"))
			continue;
		const char *name = pushnames_of(&j->names, l->key);
		if (name)
			put_pair(s, l, name, l->str, value_max);
		else
			r = -ENOMEM;
	}
	return r;
}

/* --- the profile */

struct labelling { /* of a sample */
	struct push_encoder *j;
	const struct series *series;
	size_t left_out; /* counted for each label set */
};

static bool has_label(const struct series *s, const struct profile_label *label)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct profile_label *l = s->pairs[i].label;
		if (l && !strcmp(l->key, label->key) && !strcmp(l->str, label->str))
			return true;
	}
	return false;
}

static size_t keep_labels(void *arg, const struct profile_sample *s, struct profile_label *ret)
{
	struct labelling *l = arg;
	size_t n = 0, texts = l->series->n;
	for (size_t i = 0; i < s->n_labels; i++) {
		struct profile_label label = s->labels[i];
		if (label.str && (!label.str[0] || has_label(l->series, &label)))
			continue;
		if (label.str && texts++ >= PYROSCOPE_NAMES_MAX) {
			l->left_out++;
			continue;
		}
		label.key = pushnames_of(&l->j->names, label.key);
		if (label.key)
			ret[n++] = label;
		else
			l->j->no_memory = true;
	}
	return n;
}

/* Returns the size of the uncompressed protobuf: a gzip file ends with it (RFC 1952), and messages are below 4 GiB. */
static size_t plain_size(const uint8_t *gzip, size_t len)
{
	const uint8_t *size = gzip + len - 4;
	return (size_t)size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
}

/* The piece as a gzip'ed pprof. */
static int make_pprof(struct push_encoder *j, const struct series *s, const struct sample_range *w, uint8_t **ret,
	size_t *ret_len, size_t *ret_plain)
{
	struct labelling l = {.j = j, .series = s};
	struct profile *part;
	struct sample_range piece = *w;
	char text[96];
	int r = push_encoder_part(j, &piece, keep_labels, &l, &part);
	if (r < 0)
		return r;
	if (l.left_out) {
		snprintf(text, sizeof(text), "labels left out: %zu; the receiver takes %d of a series", l.left_out,
			PYROSCOPE_NAMES_MAX);
		r = profile_comment(part, text);
	}
	if (r == 0)
		r = pprof_write(part, ret, ret_len);
	if (r == 0)
		*ret_plain = plain_size(*ret, *ret_len);
	profile_free(part);
	return r;
}

/* --- push.v1 */

static void put_labels(struct protobuf_writer *to, const struct series *s)
{
	enum { LABELS = 1, NAME = 1, VALUE = 2 };
	struct protobuf_writer pair = {0};
	for (size_t i = 0; i < s->n; i++) {
		protobuf_writer_clear(&pair);
		protobuf_writer_text(&pair, NAME, s->pairs[i].name);
		protobuf_writer_bytes(&pair, VALUE, s->pairs[i].value, s->pairs[i].len);
		protobuf_writer_message(to, LABELS, &pair);
	}
	protobuf_writer_done(&pair);
}

/* RFC 9562, version 8: of a format of our own. */
static void format_uuid(const uint8_t id[static 16], char to[static 37])
{
	snprintf(to, 37, "%02x%02x%02x%02x-%02x%02x-8%x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2],
		id[3], id[4], id[5], id[6] & 0xf, id[7], (id[8] & 0x3f) | 0x80, id[9], id[10], id[11], id[12], id[13],
		id[14], id[15]);
}

/* Includes labels: two targets may have the same samples. */
static void find_id(const struct series *s, const uint8_t *pprof, size_t len, uint8_t ret[static 16])
{
	struct protobuf_writer all = {0};
	put_labels(&all, s);
	protobuf_writer_put(&all, pprof, len);
	push_encoder_id(all.bytes, all.len, ret);
	protobuf_writer_done(&all);
}

static void put_series(struct protobuf_writer *to, const struct series *s, const uint8_t *pprof, size_t len)
{
	enum { SERIES = 1, SAMPLES = 2, RAW_PROFILE = 1, ID = 2 };
	struct protobuf_writer series = {0}, sample = {0};
	uint8_t id[16];
	char text[37];
	find_id(s, pprof, len, id);
	format_uuid(id, text);
	put_labels(&series, s);
	protobuf_writer_bytes(&sample, RAW_PROFILE, pprof, len);
	protobuf_writer_text(&sample, ID, text);
	protobuf_writer_message(&series, SAMPLES, &sample);
	protobuf_writer_message(to, SERIES, &series);
	protobuf_writer_done(&sample);
	protobuf_writer_done(&series);
}

/* Moves path and body, either of which may have failed, into a request. */
static int fill_request(
	struct push_request *r, struct protobuf_writer *path, struct protobuf_writer *body, const char *content_type)
{
	protobuf_writer_put(path, "", 1);
	r->method = "POST";
	r->content_type = strdup(content_type);
	if (path->failed || body->failed || !r->content_type) {
		protobuf_writer_done(path);
		protobuf_writer_done(body);
		return -ENOMEM;
	}
	r->path = (char *)path->bytes;
	r->body = body->bytes;
	r->len = body->len;
	return 0;
}

int pyroscope_push_body(struct push_encoder *j, const struct sample_range *w, struct push_request *ret,
	size_t *ret_bytes, struct err *e)
{
	struct series s;
	struct protobuf_writer path = {0}, body = {0};
	uint8_t *pprof = NULL;
	size_t len;
	int r = find_series(j, PYROSCOPE_VALUE_MAX, &s);
	if (r == 0)
		r = make_pprof(j, &s, w, &pprof, &len, ret_bytes);
	if (r == 0) {
		protobuf_writer_print(&path, "/push.v1.PusherService/Push");
		put_series(&body, &s, pprof, len);
		r = fill_request(ret, &path, &body, "application/proto");
	}
	free(pprof);
	return r < 0 ? err_set(e, r, "cannot make a request") : 0;
}

/* --- /ingest */

/* Other characters than letters, digits and "-./_" of a service's name become '_': /ingest takes only these. */
static void put_service(struct protobuf_writer *to, const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const char c = name[i];
		const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
				   c == '-' || c == '.' || c == '/' || c == '_';
		protobuf_writer_put(to, plain ? &c : "_", 1);
	}
}

static void put_escaped(struct protobuf_writer *to, const struct protobuf_writer *text)
{
	for (size_t i = 0; i < text->len; i++) {
		const char c = (char)text->bytes[i];
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
			c == '.' || c == '_' || c == '~')
			protobuf_writer_put(to, &c, 1);
		else
			protobuf_writer_print(to, "%%%02X", (unsigned char)c);
	}
	to->failed |= text->failed;
}

static bool is_in_braces(const struct pair *p)
{
	return strncmp(p->name, "__", 2) && strcmp(p->name, "service_name") && strcmp(p->name, "pyroscope_spy");
}

/* Leaves as many labels in the series as its name has room for; the others stay with the samples. */
static void fit_name(struct series *s)
{
	size_t n = 0, bytes = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct pair *p = &s->pairs[i];
		const size_t more = strlen(p->name) + p->len + 2;
		if (is_in_braces(p) && bytes + more > INGEST_LABELS_MAX)
			continue;
		bytes += is_in_braces(p) ? more : 0;
		s->pairs[n++] = *p;
	}
	s->n = n;
}

/* Writes SERVICE{name=value,...}. Characters of a value that would end it become '_'. */
static void put_name(struct protobuf_writer *to, const struct series *s)
{
	struct protobuf_writer name = {0}, labels = {0};
	for (size_t i = 0; i < s->n; i++) {
		const struct pair *p = &s->pairs[i];
		if (!strcmp(p->name, "service_name"))
			put_service(&name, p->value, p->len);
		if (!is_in_braces(p))
			continue;
		protobuf_writer_print(&labels, "%s%s=", labels.len ? "," : "", p->name);
		for (size_t k = 0; k < p->len; k++)
			protobuf_writer_put(&labels, strchr(",{}", p->value[k]) ? "_" : &p->value[k], 1);
	}
	protobuf_writer_put(&name, "{", 1);
	protobuf_writer_put(&name, labels.bytes, labels.len);
	protobuf_writer_put(&name, "}", 1);
	name.failed |= labels.failed;
	put_escaped(to, &name);
	protobuf_writer_done(&name);
	protobuf_writer_done(&labels);
}

static void put_path(struct protobuf_writer *to, const struct series *s, const struct profile_info *info)
{
	const int64_t second = 1000000000;
	protobuf_writer_print(to, "/ingest?name=");
	put_name(to, s);
	if (info->time_ns > 0)
		protobuf_writer_print(to, "&from=%" PRId64 "&until=%" PRId64, info->time_ns / second,
			info->time_ns / second + (info->duration_ns > 0 ? (info->duration_ns - 1) / second + 1 : 0));
	protobuf_writer_print(to, "&spyName=" SPY);
}

/* Display names for metrics that /ingest would not derive from the types alone; NULL: it derives them. */
static const struct {
	const char *metric, *display;
} displays[] = {
	{"process_cpu", NULL},
	{"memory", NULL},
	{"wall", NULL},
	{"mutex", "mutex_"},
	{"block", "block_"},
	{"goroutine", "goroutines"},
};

/* Returns false if no configuration is needed. */
static bool find_display(const struct series *s, char to[static PUSH_LABELS_NAME_MAX])
{
	snprintf(to, PUSH_LABELS_NAME_MAX, "%s", s->metric);
	for (size_t i = 0; i < N(displays); i++)
		if (!strcmp(s->metric, displays[i].metric)) {
			snprintf(to, PUSH_LABELS_NAME_MAX, "%s", displays[i].display ? displays[i].display : "");
			return displays[i].display;
		}
	for (char *at; (at = strstr(to, "cpu"));)
		memcpy(at, "CPU", 3);
	return true;
}

/* The display name goes to the last type, which names the metric where no other one does. */
static void put_config(struct protobuf_writer *to, const struct profile_info *info, const char *display)
{
	protobuf_writer_print(to, "{");
	for (unsigned i = 0; i < info->n_types; i++)
		protobuf_writer_print(to, "%s\"%s\":{\"units\":\"%s\"%s%s%s}", i ? "," : "", info->types[i].type,
			info->types[i].unit, i + 1 == info->n_types ? ",\"display-name\":\"" : "",
			i + 1 == info->n_types ? display : "", i + 1 == info->n_types ? "\"" : "");
	protobuf_writer_print(to, "}");
}

static void put_part(
	struct protobuf_writer *to, const char *boundary, const char *name, const char *file, const char *type)
{
	protobuf_writer_print(to,
		"--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\nContent-Type: %s\r\n\r\n",
		boundary, name, file, type);
}

int pyroscope_ingest_body(struct push_encoder *j, const struct sample_range *w, struct push_request *ret,
	size_t *ret_bytes, struct err *e)
{
	struct series s;
	struct protobuf_writer path = {0}, body = {0};
	uint8_t *pprof = NULL, id[16];
	size_t len;
	char boundary[48], content_type[96], display[PUSH_LABELS_NAME_MAX];
	int r = find_series(j, QUERY_VALUE_MAX, &s);
	fit_name(&s);
	if (r == 0)
		r = make_pprof(j, &s, w, &pprof, &len, ret_bytes);
	if (r == 0) {
		find_id(&s, pprof, len, id); /* bytes do not contain their own hash, except on purpose */
		snprintf(boundary, sizeof(boundary), "pillion-");
		for (size_t i = 0; i < sizeof(id); i++)
			snprintf(boundary + 8 + 2 * i, 3, "%02x", id[i]);
		put_path(&path, &s, &j->info);
		put_part(&body, boundary, "profile", "profile.pprof", "application/octet-stream");
		protobuf_writer_put(&body, pprof, len);
		protobuf_writer_print(&body, "\r\n");
		if (find_display(&s, display)) {
			put_part(&body, boundary, "sample_type_config", "sample_type_config.json", "application/json");
			put_config(&body, &j->info, display);
			protobuf_writer_print(&body, "\r\n");
		}
		protobuf_writer_print(&body, "--%s--\r\n", boundary);
		snprintf(content_type, sizeof(content_type), "multipart/form-data; boundary=%s", boundary);
		r = fill_request(ret, &path, &body, content_type);
	}
	free(pprof);
	return r < 0 ? err_set(e, r, "cannot make a request") : 0;
}
