/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/otlp.h"

#include "oci/base/protobuf.h"
#include "oci/base/string_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define LEVEL 1	       /* as pprof.c */
#define GZIP (15 + 16) /* zlib.h: window bits, + 16 for the gzip format */

/* Fields, by message */
enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY = 2 };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES = 2 };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES = 2 };
enum { RESOURCE_ATTRIBUTES = 1, SCOPE_NAME = 1, SCOPE_VERSION = 2, KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_INT = 3, ANY_ARRAY = 5, ARRAY_VALUES = 1 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2, ATTRIBUTE_UNIT = 3 };
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLES = 2,
	PROFILE_TIME = 3,
	PROFILE_DURATION = 4,
	PROFILE_PERIOD_TYPE = 5,
	PROFILE_PERIOD = 6,
	PROFILE_ID = 7,
	PROFILE_ATTRIBUTES = 11,
};
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES = 2, SAMPLE_VALUES = 4, SAMPLE_TIMESTAMPS = 5 };
enum { MAPPING_START = 1, MAPPING_LIMIT = 2, MAPPING_OFFSET = 3, MAPPING_FILE = 4, MAPPING_ATTRIBUTES = 5 };
enum { LOCATION_MAPPING = 1, LOCATION_ADDRESS = 2, LOCATION_LINES = 3, LOCATION_ATTRIBUTES = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_NAME = 1, FUNCTION_SYSTEM_NAME = 2, FUNCTION_FILE = 3, FUNCTION_START_LINE = 4 };
enum { STACK_LOCATIONS = 1 };
enum table { MAPPINGS = 1, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES }; /* of the dictionary */

struct making {
	struct push_encoder *j;
	const struct profile *p; /* the piece */
	const struct profile_info *info;
	struct protobuf_writer tables[TABLES];		 /* entries, each with its key */
	struct string_table strings, attributes, stacks; /* number = index in its table */
	size_t repeated, repeated_most;			 /* bytes of stacks that several samples of a Profile have */
	struct protobuf_writer entry, inner, list;	 /* scratch, for one of each at a time */
	struct protobuf_writer resource, *profiles;	 /* by type */
	bool no_memory;
	const struct profile_label *labels; /* the label set of `of_set` */
	size_t n_labels;
	bool has_set;
	struct protobuf_writer of_set; /* attributes, packed */
	const int64_t *timestamp;      /* of the set, NULL: none */
};

/* --- the dictionary */

/* Returns the index of an entry in its table; entries are told apart by their bytes. */
static uint32_t add_table_entry(
	struct making *m, struct string_table *known, enum table t, const void *bytes, size_t len)
{
	const size_t before = known->count;
	const int64_t at = string_table_add(known, len ? bytes : "", len);
	if (at < 0) {
		m->no_memory = true;
		return 0;
	}
	if (known->count > before)
		protobuf_writer_bytes(&m->tables[t], t, bytes, len);
	return (uint32_t)at;
}

static uint32_t add_string(struct making *m, const char *text)
{
	return add_table_entry(m, &m->strings, STRINGS, text, strlen(text));
}

static void put_any_text(struct protobuf_writer *to, const char *text)
{
	protobuf_writer_bytes(to, ANY_STRING, text, strlen(text)); /* a oneof: written even if it is "" */
}

static void put_any_number(struct protobuf_writer *to, int64_t value)
{
	protobuf_writer_varint(to, ANY_INT << 3);
	protobuf_writer_varint(to, (uint64_t)value);
}

static void put_any(struct protobuf_writer *to, const struct profile_label *l)
{
	if (l->str)
		put_any_text(to, l->str);
	else
		put_any_number(to, l->num);
}

/* The value is in m->inner. */
static uint32_t add_attribute(struct making *m, const char *key, const char *unit)
{
	protobuf_writer_clear(&m->entry);
	protobuf_writer_number(&m->entry, ATTRIBUTE_KEY, add_string(m, key));
	protobuf_writer_message(&m->entry, ATTRIBUTE_VALUE, &m->inner);
	protobuf_writer_number(&m->entry, ATTRIBUTE_UNIT, add_string(m, unit));
	m->no_memory |= m->entry.failed;
	return add_table_entry(m, &m->attributes, ATTRIBUTES, m->entry.bytes, m->entry.len);
}

static uint32_t text_attribute(struct making *m, const char *key, const char *text)
{
	protobuf_writer_clear(&m->inner);
	put_any_text(&m->inner, text);
	return add_attribute(m, key, "");
}

/* Writes one attribute; at = 0: none. */
static void put_attribute(struct making *m, struct protobuf_writer *to, unsigned field, uint32_t at)
{
	if (!at)
		return;
	protobuf_writer_clear(&m->list);
	protobuf_writer_varint(&m->list, at);
	protobuf_writer_message(to, field, &m->list);
}

/* Writes the zero value as entry 0 of every table, so that 0 can stand for none. */
static void put_zeros(struct making *m)
{
	static const enum table plain[] = {MAPPINGS, LOCATIONS, FUNCTIONS, LINKS};
	for (size_t i = 0; i < N(plain); i++)
		protobuf_writer_bytes(&m->tables[plain[i]], plain[i], NULL, 0);
	add_table_entry(m, &m->strings, STRINGS, NULL, 0);
	add_table_entry(m, &m->attributes, ATTRIBUTES, NULL, 0);
	add_table_entry(m, &m->stacks, STACKS, NULL, 0);
}

static const char *build_id_key(const char *id)
{
	return strspn(id, "0123456789abcdef") == strlen(id) ? "process.executable.build_id.gnu"
							    : "process.executable.build_id.go";
}

static void put_mappings(struct making *m)
{
	struct protobuf_writer out = {0};
	for (uint32_t i = 0; i < profile_mappings(m->p); i++) {
		struct profile_mapping in;
		profile_mapping_get(m->p, i, &in);
		protobuf_writer_clear(&out);
		protobuf_writer_number(&out, MAPPING_START, in.start);
		protobuf_writer_number(&out, MAPPING_LIMIT, in.limit);
		protobuf_writer_number(&out, MAPPING_OFFSET, in.offset);
		protobuf_writer_number(&out, MAPPING_FILE, add_string(m, in.file));
		if (in.build_id[0])
			put_attribute(
				m, &out, MAPPING_ATTRIBUTES, text_attribute(m, build_id_key(in.build_id), in.build_id));
		protobuf_writer_message(&m->tables[MAPPINGS], MAPPINGS, &out);
	}
	protobuf_writer_done(&out);
}

static void put_functions(struct making *m)
{
	struct protobuf_writer out = {0};
	for (uint32_t i = 0; i < profile_functions(m->p); i++) {
		struct profile_function in;
		profile_function_get(m->p, i, &in);
		protobuf_writer_clear(&out);
		protobuf_writer_number(&out, FUNCTION_NAME, add_string(m, in.name));
		protobuf_writer_number(
			&out, FUNCTION_SYSTEM_NAME, add_string(m, in.system_name[0] ? in.system_name : in.name));
		protobuf_writer_number(&out, FUNCTION_FILE, add_string(m, in.file));
		protobuf_writer_number(&out, FUNCTION_START_LINE, (uint64_t)in.start_line);
		protobuf_writer_message(&m->tables[FUNCTIONS], FUNCTIONS, &out);
	}
	protobuf_writer_done(&out);
}

/* Code of a file is native. Code without a file was generated at run time, or is no code (formats.md, "Frames in
 * brackets"). */
static const char *frame_type(const struct making *m, const struct profile_location *l)
{
	struct profile_mapping in;
	if (l->mapping == PROFILE_NONE)
		return NULL;
	profile_mapping_get(m->p, l->mapping, &in);
	return !strncmp(in.file, "[kernel", 7) ? "kernel" : "native";
}

static void put_locations(struct making *m)
{
	struct protobuf_writer out = {0};
	for (uint32_t i = 0; i < profile_locations(m->p); i++) {
		struct profile_location in;
		profile_location_get(m->p, i, &in);
		const char *type = frame_type(m, &in);
		protobuf_writer_clear(&out);
		protobuf_writer_number(
			&out, LOCATION_MAPPING, in.mapping == PROFILE_NONE ? 0 : (uint64_t)in.mapping + 1);
		protobuf_writer_number(&out, LOCATION_ADDRESS, in.address);
		for (size_t k = 0; k < in.n; k++) {
			protobuf_writer_clear(&m->inner);
			protobuf_writer_number(&m->inner, LINE_FUNCTION, (uint64_t)in.lines[k].function + 1);
			protobuf_writer_number(&m->inner, LINE_LINE, in.lines[k].line);
			protobuf_writer_message(&out, LOCATION_LINES, &m->inner);
		}
		if (type)
			put_attribute(m, &out, LOCATION_ATTRIBUTES, text_attribute(m, "profile.frame.type", type));
		protobuf_writer_message(&m->tables[LOCATIONS], LOCATIONS, &out);
	}
	protobuf_writer_done(&out);
}

static uint32_t add_stack_entry(struct making *m, const struct profile_sample *s)
{
	protobuf_writer_clear(&m->list);
	for (size_t i = 0; i < s->n; i++)
		protobuf_writer_varint(&m->list, (uint64_t)s->locations[i] + 1);
	protobuf_writer_clear(&m->entry);
	if (s->n)
		protobuf_writer_message(&m->entry, STACK_LOCATIONS, &m->list);
	m->no_memory |= m->entry.failed;
	const size_t before = m->stacks.count;
	const uint32_t at = add_table_entry(m, &m->stacks, STACKS, m->entry.bytes, m->entry.len);
	if (m->stacks.count == before)
		m->repeated += m->entry.len;
	return at;
}

/* --- attributes */

static const struct {
	const char *label, *key;
	bool of_sample; /* never of the resource */
} conventions[] = {
	{"service_name", "service.name", false},
	{"container", "container.name", false},
	{"container_id", "container.id", false},
	{"pod", "k8s.pod.name", false},
	{"namespace", "k8s.namespace.name", false},
	{"node", "host.name", false},
	{"exe", "process.executable.name", false},
	{"process", "process.command", false},
	{"pid", "process.pid", false},
	{"cgroup", "process.linux.cgroup", false},
	{"thread", "thread.name", true},
	{"tid", "thread.id", true},
	{"cpu", "cpu.logical_number", true},
	{"timestamp", "timestamp", true},
};

static const char *find_convention(const char *label, bool *ret_of_sample)
{
	*ret_of_sample = false;
	for (size_t i = 0; i < N(conventions); i++)
		if (!strcmp(label, conventions[i].label)) {
			*ret_of_sample = conventions[i].of_sample;
			return conventions[i].key;
		}
	return label;
}

/* True if another label has the same key here: another tool's label may have one of our conventional names. */
static bool is_taken(const struct profile_label *labels, size_t n, size_t i)
{
	bool of_sample;
	const char *key = find_convention(labels[i].key, &of_sample);
	for (size_t k = 0; k < n; k++)
		if (k != i && !strcmp(find_convention(labels[k].key, &of_sample), key) &&
			(key != labels[i].key || k < i))
			return true;
	return false;
}

static void put_resource_attribute(struct making *m, const char *key, const struct profile_label *l)
{
	struct protobuf_writer pair = {0};
	protobuf_writer_clear(&m->inner);
	put_any(&m->inner, l);
	protobuf_writer_text(&pair, KEY_VALUE_KEY, key);
	protobuf_writer_message(&pair, KEY_VALUE_VALUE, &m->inner);
	protobuf_writer_message(&m->resource, RESOURCE_ATTRIBUTES, &pair);
	protobuf_writer_done(&pair);
}

static void put_resource(struct making *m)
{
	const struct push_labels *l = &m->j->labels;
	for (size_t i = 0; i < l->n; i++) {
		bool of_sample;
		const char *key = find_convention(l->shared[i].key, &of_sample);
		if (of_sample || !key[0] || is_taken(l->shared, l->n, i))
			continue;
		put_resource_attribute(m, key, &l->shared[i]);
		if (!strcmp(key, "host.name") && push_labels_get(l, "pod"))
			put_resource_attribute(m, "k8s.node.name", &l->shared[i]);
	}
}

/* True for a sample's time within the profile's time; otherwise it is an attribute like any other. */
static bool is_timestamp(const struct making *m, const struct profile_label *l)
{
	return !l->str && !strcmp(l->key, "timestamp") && l->num >= m->info->time_ns &&
	       l->num - m->info->time_ns <= m->info->duration_ns && m->info->time_ns > 0;
}

static void find_set(struct making *m, const struct profile_sample *s)
{
	if (m->has_set && m->labels == s->labels && m->n_labels == s->n_labels)
		return;
	protobuf_writer_clear(&m->of_set);
	m->timestamp = NULL;
	for (size_t i = 0; i < s->n_labels; i++) {
		bool of_sample;
		const struct profile_label *l = &s->labels[i];
		const char *key = find_convention(l->key, &of_sample);
		if (is_timestamp(m, l)) {
			m->timestamp = &l->num;
			continue;
		}
		if (!key[0] || (!of_sample && push_labels_has(&m->j->labels, l)) || is_taken(s->labels, s->n_labels, i))
			continue;
		protobuf_writer_clear(&m->inner);
		put_any(&m->inner, l);
		protobuf_writer_varint(&m->of_set, add_attribute(m, key, key == l->key ? l->unit : ""));
	}
	m->labels = s->labels;
	m->n_labels = s->n_labels;
	m->has_set = true;
}

/* --- profiles */

/* Writes a ValueType, as OpenTelemetry calls it. */
static void put_value_type(
	struct making *m, struct protobuf_writer *to, unsigned field, const char *type, const char *unit)
{
	protobuf_writer_clear(&m->inner);
	protobuf_writer_number(&m->inner, VALUE_TYPE, add_string(m, type));
	protobuf_writer_number(&m->inner, VALUE_UNIT, add_string(m, unit));
	protobuf_writer_message(to, field, &m->inner);
}

static const char *type_name(const char *type)
{
	return !strcmp(type, "offcpu") ? "off_cpu" : type;
}

/* Returns false if its value is 0. */
static bool put_sample(struct making *m, struct protobuf_writer *to, size_t i, unsigned type)
{
	struct profile_sample s;
	profile_sample_get(m->p, i, &s);
	if (!s.values[type])
		return false;
	find_set(m, &s);
	const uint32_t of_stack = add_stack_entry(m, &s);
	struct protobuf_writer *out = &m->entry; /* free again: the stack is in its table */
	protobuf_writer_clear(out);
	protobuf_writer_number(out, SAMPLE_STACK, of_stack);
	if (m->of_set.len)
		protobuf_writer_message(out, SAMPLE_ATTRIBUTES, &m->of_set);
	protobuf_writer_clear(&m->list);
	protobuf_writer_varint(&m->list, (uint64_t)s.values[type]);
	protobuf_writer_message(out, SAMPLE_VALUES, &m->list);
	if (m->timestamp) {
		uint8_t bytes[8];
		for (unsigned k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)((uint64_t)*m->timestamp >> 8 * k);
		protobuf_writer_bytes(out, SAMPLE_TIMESTAMPS, bytes, sizeof(bytes));
	}
	protobuf_writer_message(to, PROFILE_SAMPLES, out);
	return true;
}

static void put_comments(struct making *m, struct protobuf_writer *to)
{
	struct protobuf_writer all = {0}, one = {0};
	for (size_t i = 0; i < profile_comments(m->p); i++) {
		protobuf_writer_clear(&one);
		put_any_text(&one, profile_comment_get(m->p, i));
		protobuf_writer_message(&all, ARRAY_VALUES, &one);
	}
	if (all.len) {
		protobuf_writer_clear(&m->inner);
		protobuf_writer_message(&m->inner, ANY_ARRAY, &all);
		put_attribute(m, to, PROFILE_ATTRIBUTES, add_attribute(m, "pprof.profile.comment", ""));
	}
	protobuf_writer_done(&all);
	protobuf_writer_done(&one);
}

static void put_info(struct making *m, struct protobuf_writer *to, unsigned type)
{
	const struct profile_info *info = m->info;
	const char *name = type_name(info->types[type].type), *of = type_name(info->period_type.type);
	const bool by_no_period = !strcmp(name, "off_cpu") && !strcmp(info->types[type].unit, "nanoseconds");
	put_value_type(m, to, PROFILE_SAMPLE_TYPE, name, info->types[type].unit);
	put_value_type(m, to, PROFILE_PERIOD_TYPE, !strcmp(of, "space") ? "memory" : of, info->period_type.unit);
	protobuf_writer_fixed64(to, PROFILE_TIME, info->time_ns > 0 ? (uint64_t)info->time_ns : 0);
	protobuf_writer_number(to, PROFILE_DURATION, info->duration_ns > 0 ? (uint64_t)info->duration_ns : 0);
	protobuf_writer_number(to, PROFILE_PERIOD, by_no_period ? 0 : info->period > 0 ? (uint64_t)info->period : 1);
	put_comments(m, to);
}

static void put_profile(struct making *m, unsigned type)
{
	struct protobuf_writer *out = &m->profiles[type];
	bool any = false;
	m->repeated = 0;
	for (size_t i = 0; i < profile_samples(m->p); i++)
		any |= put_sample(m, out, i, type);
	if (any)
		put_info(m, out, type);
	m->repeated_most = m->repeated > m->repeated_most ? m->repeated : m->repeated_most;
}

/* --- the request */

/* Each id covers dictionary, resource and Profile: a Profile refers to entries elsewhere in the request. */
static void put_ids(struct making *m, const struct protobuf_writer *dictionary)
{
	struct protobuf_writer all = {0};
	uint8_t id[16];
	push_encoder_id(dictionary->bytes, dictionary->len, id);
	protobuf_writer_put(&all, id, sizeof(id));
	protobuf_writer_put(&all, m->resource.bytes, m->resource.len);
	const size_t common = all.len;
	for (unsigned i = 0; i < m->info->n_types; i++)
		if (m->profiles[i].len) {
			all.len = common;
			protobuf_writer_put(&all, m->profiles[i].bytes, m->profiles[i].len);
			push_encoder_id(all.bytes, all.len, id);
			protobuf_writer_bytes(&m->profiles[i], PROFILE_ID, id, sizeof(id));
		}
	m->no_memory |= all.failed;
	protobuf_writer_done(&all);
}

static void put_scope(struct making *m, struct protobuf_writer *to)
{
	struct protobuf_writer scope = {0};
	protobuf_writer_text(&scope, SCOPE_NAME, "pillion");
	protobuf_writer_text(&scope, SCOPE_VERSION, VERSION);
	protobuf_writer_message(to, SCOPE_PROFILES_SCOPE, &scope);
	protobuf_writer_done(&scope);
	const unsigned last = m->info->n_types - 1;
	for (unsigned i = 0; i <= last; i++) { /* the default type is the last one */
		const struct protobuf_writer *profile = &m->profiles[(last + i) % (last + 1)];
		if (profile->len)
			protobuf_writer_message(to, SCOPE_PROFILES_PROFILES, profile);
	}
}

/* Returns false if no sample has a value. */
static bool put_request(struct making *m, struct protobuf_writer *to)
{
	struct protobuf_writer dictionary = {0}, scope = {0}, of_resource = {0};
	bool any = false;
	put_zeros(m);
	put_mappings(m);
	put_functions(m);
	put_locations(m);
	put_resource(m);
	for (unsigned i = 0; i < m->info->n_types; i++) {
		put_profile(m, i);
		any |= m->profiles[i].len > 0;
	}
	for (enum table t = MAPPINGS; t < TABLES; t++) {
		protobuf_writer_put(&dictionary, m->tables[t].bytes, m->tables[t].len);
		m->no_memory |= m->tables[t].failed;
	}
	put_ids(m, &dictionary);
	put_scope(m, &scope);
	protobuf_writer_message(&of_resource, RESOURCE_PROFILES_RESOURCE, &m->resource);
	protobuf_writer_message(&of_resource, RESOURCE_PROFILES_SCOPE_PROFILES, &scope);
	protobuf_writer_message(to, REQUEST_RESOURCE_PROFILES, &of_resource);
	protobuf_writer_message(to, REQUEST_DICTIONARY, &dictionary);
	protobuf_writer_done(&dictionary);
	protobuf_writer_done(&scope);
	protobuf_writer_done(&of_resource);
	return any;
}

static void free_buffers(struct making *m)
{
	struct protobuf_writer *const all[] = {&m->entry, &m->inner, &m->list, &m->resource, &m->of_set};
	for (size_t i = 0; i < N(all); i++)
		protobuf_writer_done(all[i]);
	for (size_t i = 0; i < TABLES; i++)
		protobuf_writer_done(&m->tables[i]);
	for (size_t i = 0; m->profiles && i < m->info->n_types; i++)
		protobuf_writer_done(&m->profiles[i]);
	free(m->profiles);
	string_table_done(&m->strings);
	string_table_done(&m->attributes);
	string_table_done(&m->stacks);
}

static int compress_to(const struct protobuf_writer *plain, uint8_t **ret, size_t *ret_len)
{
	z_stream z = {0};
	if (deflateInit2(&z, LEVEL, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	const size_t room = deflateBound(&z, plain->len);
	uint8_t *bytes = malloc(room);
	z.next_in = plain->bytes;
	z.avail_in = (uInt)plain->len;
	z.next_out = bytes;
	z.avail_out = (uInt)room;
	const bool well = bytes && deflate(&z, Z_FINISH) == Z_STREAM_END;
	*ret_len = z.total_out;
	deflateEnd(&z);
	if (!well) {
		free(bytes);
		return -ENOMEM;
	}
	*ret = bytes;
	return 0;
}

int otlp_body(struct push_encoder *j, const struct sample_range *w, struct push_request *ret, size_t *ret_bytes,
	struct err *e)
{
	struct profile *part;
	struct protobuf_writer plain = {0};
	int r = push_encoder_part(j, w, NULL, NULL, &part);
	if (r < 0)
		return err_set(e, r, "cannot make a request");
	struct making m = {.j = j, .p = part, .info = profile_info(part)};
	m.profiles = calloc(m.info->n_types, sizeof(*m.profiles));
	m.no_memory = !m.profiles;
	const bool any = m.profiles && put_request(&m, &plain);
	*ret_bytes = any ? plain.len + m.repeated_most : 0;
	if (m.no_memory || plain.failed)
		r = -ENOMEM;
	else if (any && plain.len <= UINT32_MAX / 2)
		r = compress_to(&plain, &ret->body, &ret->len);
	free_buffers(&m);
	protobuf_writer_done(&plain);
	profile_free(part);
	ret->method = "POST";
	ret->path = strdup("/" OTLP_VERSION "/profiles");
	ret->content_type = strdup("application/x-protobuf");
	ret->content_encoding = "gzip";
	if (r == 0 && (!ret->path || !ret->content_type))
		r = -ENOMEM;
	return r < 0 ? err_set(e, r, "cannot make a request") : 0;
}
