/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/pprof.h"

#include "oci/base/array.h"
#include "oci/base/string_table.h"
#include "profiler/pprof/frame_drop.h"
#include "profiler/pprof/profile.pb-c.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LEVEL 1			  /* a third of the time of 6 (zlib), for a tenth more bytes */
#define GZIP (15 + 16)		  /* zlib.h: window bits, + 16 for the gzip format */
#define STAGE (16u << 10)	  /* bytes handed to zlib at once */
#define RECENT 256		  /* texts whose numbers are at hand */
#define PACKED 64		  /* sets of labels at hand */
#define VARINT_MAX 10		  /* bytes */
#define UNPACKED_MAX (512u << 20) /* memory that protobuf-c may take for a file: 2 bytes of input can cost 100 */
#define FRAMES_MAX (32u << 20)	  /* frames of a file with all inlined lines written out: 10 bytes can cost 10^6 */
#define SUMS_MAX (256u << 20)	  /* a reader may sum by type what each frame, function and text has */
#define TEXT_MAX (64u << 10)	  /* strings are cut there; each may be named a million times */

typedef Perftools__Profiles__Profile Profile;
typedef Perftools__Profiles__ValueType ValueType;
typedef Perftools__Profiles__Sample Sample;
typedef Perftools__Profiles__Label Label;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Line Line;
typedef Perftools__Profiles__Function Function;

/* --- writing: a message may come in pieces (their concatenation is the whole), so each piece is packed alone */

struct writer {
	ProtobufCBuffer base; /* first: protobuf-c hands it back to append_data() */
	const struct profile *p;
	z_stream z;
	uint8_t *out;
	size_t room;
	int error;
	size_t staged;
	uint8_t stage[STAGE];
	struct {
		const char *text;
		int64_t number;
	} recent[RECENT]; /* the same few texts are in the labels of every sample */
	uint8_t *numbers; /* of one sample, packed: its locations, then its values */
	size_t numbers_room;
	struct packed_labels {
		const struct profile_label *labels; /* they never move; an empty set has the address of the next one */
		size_t n_labels;
		uint8_t *bytes;
		size_t n;
	} packed[PACKED]; /* many samples have the same ones */
	Label labels[PROFILE_LABELS_MAX];
	Label *label_pointers[PROFILE_LABELS_MAX];
	Line lines[PROFILE_LINES_MAX];
	Line *line_pointers[PROFILE_LINES_MAX];
};

static int run_deflate(struct writer *w, int flush)
{
	w->z.next_in = w->stage;
	w->z.avail_in = (uInt)w->staged;
	w->staged = 0;
	for (;;) {
		if (!w->z.avail_out) {
			size_t have = w->room;
			if (array_reserve(&w->out, &w->room, have + 1, 1, STAGE) < 0)
				return -ENOMEM;
			w->z.next_out = w->out + have;
			w->z.avail_out = (uInt)(w->room - have);
		}
		int z = deflate(&w->z, flush);
		if (z == Z_STREAM_END || (flush == Z_NO_FLUSH && !w->z.avail_in))
			return 0;
		if (z != Z_OK && z != Z_BUF_ERROR)
			return -ENOMEM;
	}
}

static void append_data(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
	struct writer *w = (struct writer *)base;
	while (len && !w->error) {
		size_t n = STAGE - w->staged < len ? STAGE - w->staged : len;
		memcpy(w->stage + w->staged, data, n);
		w->staged += n;
		data += n;
		len -= n;
		if (w->staged == STAGE)
			w->error = run_deflate(w, Z_NO_FLUSH);
	}
}

static void write_message(struct writer *w, const Profile *piece)
{
	protobuf_c_message_pack_to_buffer(&piece->base, &w->base);
}

/* All text of a profile is in its string table, so the number is there. */
static int64_t find_string_index(struct writer *w, const char *text)
{
	size_t at = (uintptr_t)text / 8 % RECENT; /* texts never move */
	if (w->recent[at].text != text) {
		w->recent[at].text = text;
		w->recent[at].number = profile_string_find(w->p, text);
	}
	return w->recent[at].number;
}

static ValueType make_value_type(struct writer *w, const struct profile_type *t)
{
	ValueType v = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	v.type = find_string_index(w, t->type);
	v.unit = find_string_index(w, t->unit);
	return v;
}

static void put_info(struct writer *w)
{
	const struct profile_info *info = profile_info(w->p);
	Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	ValueType period = make_value_type(w, &info->period_type);
	for (unsigned i = 0; i < info->n_types; i++) {
		Profile one = PERFTOOLS__PROFILES__PROFILE__INIT;
		ValueType type = make_value_type(w, &info->types[i]);
		one.n_sample_type = 1;
		one.sample_type = &(ValueType *){&type};
		write_message(w, &one);
	}
	piece.default_sample_type = find_string_index(w, info->types[profile_default_type(w->p)].type);
	piece.time_nanos = info->time_ns;
	piece.duration_nanos = info->duration_ns;
	piece.period_type = &period;
	piece.period = info->period;
	write_message(w, &piece);
}

static void put_mappings(struct writer *w)
{
	for (uint32_t i = 0; i < profile_mappings(w->p); i++) {
		struct profile_mapping m;
		profile_mapping_get(w->p, i, &m);
		Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
		Mapping out = PERFTOOLS__PROFILES__MAPPING__INIT;
		out.id = (uint64_t)i + 1;
		out.memory_start = m.start;
		out.memory_limit = m.limit;
		out.file_offset = m.offset;
		out.filename = find_string_index(w, m.file);
		out.build_id = find_string_index(w, m.build_id);
		out.has_functions = !!(m.has & PROFILE_HAS_FUNCTIONS);
		out.has_filenames = !!(m.has & PROFILE_HAS_FILENAMES);
		out.has_line_numbers = !!(m.has & PROFILE_HAS_LINE_NUMBERS);
		out.has_inline_frames = !!(m.has & PROFILE_HAS_INLINE_FRAMES);
		piece.n_mapping = 1;
		piece.mapping = &(Mapping *){&out};
		write_message(w, &piece);
	}
}

static void put_functions(struct writer *w)
{
	for (uint32_t i = 0; i < profile_functions(w->p); i++) {
		struct profile_function f;
		profile_function_get(w->p, i, &f);
		Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
		Function out = PERFTOOLS__PROFILES__FUNCTION__INIT;
		out.id = (uint64_t)i + 1;
		out.name = find_string_index(w, f.name);
		out.system_name = f.system_name[0] ? find_string_index(w, f.system_name) : out.name;
		out.filename = find_string_index(w, f.file);
		out.start_line = f.start_line;
		piece.n_function = 1;
		piece.function = &(Function *){&out};
		write_message(w, &piece);
	}
}

static void fill_lines(struct writer *w, const struct profile_location *l, Location *out)
{
	for (size_t i = 0; i < l->n; i++) {
		Line *to = &w->lines[i];
		perftools__profiles__line__init(to);
		to->function_id = (uint64_t)l->lines[i].function + 1;
		to->line = l->lines[i].line;
		w->line_pointers[i] = to;
	}
	out->n_line = l->n;
	out->line = w->line_pointers;
}

static void put_locations(struct writer *w)
{
	for (uint32_t i = 0; i < profile_locations(w->p); i++) {
		struct profile_location l;
		profile_location_get(w->p, i, &l);
		Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
		Location out = PERFTOOLS__PROFILES__LOCATION__INIT;
		out.id = (uint64_t)i + 1;
		out.mapping_id = l.mapping == PROFILE_NONE ? 0 : (uint64_t)l.mapping + 1;
		out.address = l.address;
		fill_lines(w, &l, &out);
		piece.n_location = 1;
		piece.location = &(Location *){&out};
		write_message(w, &piece);
	}
}

static void fill_labels(struct writer *w, const struct profile_sample *s, Sample *out)
{
	for (size_t i = 0; i < s->n_labels; i++) {
		const struct profile_label *l = &s->labels[i];
		Label *to = &w->labels[i];
		perftools__profiles__label__init(to);
		to->key = find_string_index(w, l->key);
		if (l->str)
			to->str = find_string_index(w, l->str);
		to->num = l->num;
		to->num_unit = find_string_index(w, l->unit);
		w->label_pointers[i] = to;
	}
	out->n_label = s->n_labels;
	out->label = w->label_pointers;
}

/* Packs a sample that has labels alone: the rest of it may come before. NULL: no memory. */
static const struct packed_labels *pack_labels(struct writer *w, const struct profile_sample *s)
{
	struct packed_labels *at = &w->packed[(uintptr_t)s->labels / 16 % PACKED];
	Sample out = PERFTOOLS__PROFILES__SAMPLE__INIT;
	if (at->bytes && at->labels == s->labels && at->n_labels == s->n_labels)
		return at;
	fill_labels(w, s, &out);
	free(at->bytes);
	at->n = protobuf_c_message_get_packed_size(&out.base);
	at->bytes = malloc(at->n + 1);
	at->labels = s->labels;
	at->n_labels = s->n_labels;
	if (!at->bytes)
		return NULL;
	protobuf_c_message_pack(&out.base, at->bytes);
	return at;
}

static uint8_t *put_varint(uint8_t *to, uint64_t n)
{
	for (; n >= 0x80; n >>= 7)
		*to++ = (uint8_t)n | 0x80;
	*to++ = (uint8_t)n;
	return to;
}

/* Writes the key and the length of a field of `n` bytes (protobuf's wire type 2). */
static uint8_t *put_field_key(uint8_t *to, unsigned number, size_t n)
{
	return put_varint(put_varint(to, number << 3 | 2), n);
}

static int pack_numbers(struct writer *w, const struct profile_sample *s, size_t *ret_ids, size_t *ret_values)
{
	const unsigned n_types = profile_info(w->p)->n_types;
	if (array_reserve(&w->numbers, &w->numbers_room, (s->n + n_types) * VARINT_MAX, 1, 0) < 0)
		return -ENOMEM;
	uint8_t *at = w->numbers;
	for (size_t k = 0; k < s->n; k++)
		at = put_varint(at, (uint64_t)s->locations[k] + 1);
	*ret_ids = (size_t)(at - w->numbers);
	for (unsigned i = 0; i < n_types; i++)
		at = put_varint(at, (uint64_t)s->values[i]);
	*ret_values = (size_t)(at - w->numbers) - *ret_ids;
	return 0;
}

/*
 * Packs by hand, since there are many of these messages: the labels, where most of the work is, once for many samples.
 */
static int put_sample(struct writer *w, const struct profile_sample *s)
{
	enum { LOCATION_ID = 1, VALUE = 2, SAMPLE = 2 }; /* fields of Sample, and of Profile */
	uint8_t ids_head[2 * VARINT_MAX], values_head[2 * VARINT_MAX], head[2 * VARINT_MAX];
	const struct packed_labels *labels = pack_labels(w, s);
	size_t n_ids = 0, n_values = 0;
	int r = labels ? pack_numbers(w, s, &n_ids, &n_values) : -ENOMEM;
	if (r < 0)
		return r;
	size_t n_ids_head = (size_t)(put_field_key(ids_head, LOCATION_ID, n_ids) - ids_head),
	       n_values_head = (size_t)(put_field_key(values_head, VALUE, n_values) - values_head),
	       n_head =
		       (size_t)(put_field_key(head, SAMPLE, n_ids_head + n_ids + n_values_head + n_values + labels->n) -
				head);
	append_data(&w->base, n_head, head);
	append_data(&w->base, n_ids_head, ids_head);
	append_data(&w->base, n_ids, w->numbers);
	append_data(&w->base, n_values_head, values_head);
	append_data(&w->base, n_values, w->numbers + n_ids);
	append_data(&w->base, labels->n, labels->bytes);
	return 0;
}

static void put_samples(struct writer *w)
{
	for (size_t i = 0; i < profile_samples(w->p) && !w->error; i++) {
		struct profile_sample s;
		profile_sample_get(w->p, i, &s);
		int r = put_sample(w, &s);
		w->error = w->error ? w->error : r;
	}
}

static void put_text(struct writer *w)
{
	for (size_t i = 0; i < profile_comments(w->p); i++) {
		Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
		piece.n_comment = 1;
		piece.comment = &(int64_t){find_string_index(w, profile_comment_get(w->p, i))};
		write_message(w, &piece);
	}
	for (uint32_t i = 0; i < profile_strings(w->p); i++) {
		Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
		piece.n_string_table = 1;
		piece.string_table = &(char *){(char *)profile_string_get(w->p, i)};
		write_message(w, &piece);
	}
}

int pprof_write(const struct profile *p, uint8_t **ret, size_t *ret_len)
{
	struct writer *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->base.append = append_data;
	w->p = p;
	int r = -ENOMEM;
	if (deflateInit2(&w->z, LEVEL, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		goto out;
	put_info(w);
	put_mappings(w);
	put_functions(w);
	put_locations(w);
	put_samples(w);
	put_text(w);
	r = w->error ? w->error : run_deflate(w, Z_FINISH);
	if (!r) {
		*ret = w->out;
		*ret_len = w->z.total_out;
		w->out = NULL;
	}
	deflateEnd(&w->z);
out:
	for (size_t i = 0; i < PACKED; i++)
		free(w->packed[i].bytes);
	free(w->out);
	free(w->numbers);
	free(w);
	return r;
}

/* --- reading */

struct alloc_limit {
	size_t left;	/* 0: an allocation was refused */
	bool no_memory; /* for one that was not refused */
};

static void *budget_alloc(void *arg, size_t size)
{
	struct alloc_limit *b = arg;
	if (size >= b->left - (b->left < 16 ? b->left : 16)) {
		b->left = 0;
		return NULL;
	}
	b->left -= size + 16; /* overhead of malloc */
	void *pointer = malloc(size);
	b->no_memory |= !pointer;
	return pointer;
}

static void budget_free(void *arg, void *pointer)
{
	free(pointer);
}

struct file_location {	 /* one of the file; beside each other, because every frame of the file is looked up here */
	uint32_t id;	 /* in the profile */
	uint32_t frames; /* in the file: its lines, or 1 */
	enum hidden {	 /* by drop_frames: none of its functions; an inlined one; the one that has the code */
		HIDDEN_NONE,
		HIDDEN_INLINED,
		HIDDEN_ALL
	} hidden;
};

struct hook_input {
	const Profile *in;
	struct profile *out;
	struct err *e;
	int code;						     /* the first failure; e has its sentence */
	struct string_table mapping_ids, function_ids, location_ids; /* id in the file -> its index there */
	uint32_t *mappings, *functions;				     /* index -> number in the profile */
	struct file_location *locations;
	struct frame_drop drop;
	uint8_t *string_hidden;	  /* by string: 0: unknown yet, 1: is not hidden, 2: is hidden */
	uint8_t *function_hidden; /* by index */
	struct profile_type *types;
	struct profile_line *lines; /* scratch for one location */
	uint32_t *stack;	    /* scratch for one sample */
	size_t stack_room;
	uint64_t total; /* frames so far */
	bool cut_lines, cut_labels, no_drop;
};

static const char *get_string(struct hook_input *r, int64_t i)
{
	if (i >= 0 && (uint64_t)i < r->in->n_string_table)
		return r->in->string_table[i];
	if (!r->code)
		r->code = err_say(r->e, -EBADMSG, "it names string %" PRId64 " of %zu", i, r->in->n_string_table);
	return "";
}

/* Notes the result of a profile function. */
static uint32_t check_returned_id(struct hook_input *r, int64_t id)
{
	if (id < 0 && !r->code)
		r->code = err_set(r->e, (int)id, "cannot build the profile");
	return id < 0 ? 0 : (uint32_t)id;
}

/* Notes that item `i` of a kind has this id: ids are not 0 and appear once. */
static void add_id(struct hook_input *r, struct string_table *ids, uint64_t id, size_t i, const char *kind)
{
	int64_t at = string_table_add(ids, &id, sizeof(id));
	if (at == -ENOMEM)
		check_returned_id(r, at);
	else if (!r->code && (id == 0 || (size_t)at != i))
		r->code = err_say(
			r->e, -EBADMSG, "%s id %" PRIu64 " is %s", kind, id, id ? "there twice" : "not allowed");
}

static uint32_t find_id(struct hook_input *r, const struct string_table *ids, uint64_t id, const char *kind)
{
	int64_t at = string_table_find(ids, &id, sizeof(id));
	if (at < 0 && !r->code)
		r->code = err_say(r->e, -EBADMSG, "it names %s %" PRIu64 ", which does not exist", kind, id);
	return at < 0 ? 0 : (uint32_t)at;
}

/* A reader may keep a sum of each type for each of `n` things: refuses a file with too many sums. */
static void check_sums(struct hook_input *r, uint64_t n)
{
	if (n * r->in->n_sample_type > SUMS_MAX && !r->code)
		r->code =
			err_say(r->e, -EFBIG, "it has too many sample types (%zu) for its size", r->in->n_sample_type);
}

static void read_info(struct hook_input *r)
{
	const Profile *in = r->in;
	struct profile_info info = {.time_ns = in->time_nanos, .duration_ns = in->duration_nanos, .period = in->period};

	info.types = r->types = calloc(in->n_sample_type + 1, sizeof(*r->types));
	if (!in->n_sample_type)
		r->code = err_say(r->e, -EBADMSG, "it has no sample type");
	else if (!r->types)
		check_returned_id(r, -ENOMEM);
	if (r->code)
		return;
	info.n_types = (unsigned)in->n_sample_type;
	for (unsigned i = 0; i < info.n_types; i++) {
		const ValueType *t = in->sample_type[i];
		r->types[i] = (struct profile_type){get_string(r, t->type), get_string(r, t->unit)};
	}
	check_sums(r, in->n_function + in->n_string_table);
	if (in->default_sample_type)
		info.default_type = get_string(r, in->default_sample_type);
	if (in->period_type)
		info.period_type = (struct profile_type){
			get_string(r, in->period_type->type), get_string(r, in->period_type->unit)};
	if (!r->code)
		check_returned_id(r, profile_new(&info, &r->out));
	if (!r->code)
		profile_lock_strings(r->out, true); /* texts of the file's table */
}

static unsigned read_has(const Mapping *m)
{
	return (m->has_functions ? PROFILE_HAS_FUNCTIONS : 0) | (m->has_filenames ? PROFILE_HAS_FILENAMES : 0) |
	       (m->has_line_numbers ? PROFILE_HAS_LINE_NUMBERS : 0) |
	       (m->has_inline_frames ? PROFILE_HAS_INLINE_FRAMES : 0);
}

static void read_mappings(struct hook_input *r)
{
	for (size_t i = 0; i < r->in->n_mapping && !r->code; i++) {
		const Mapping *m = r->in->mapping[i];
		add_id(r, &r->mapping_ids, m->id, i, "mapping");
		r->mappings[i] = check_returned_id(
			r, profile_mapping(r->out, m->memory_start, m->memory_limit, m->file_offset,
				   get_string(r, m->filename), get_string(r, m->build_id), read_has(m)));
	}
}

/* A pattern that Go cannot compile hides nothing there either. */
static void read_drop_frames(struct hook_input *r)
{
	const char *drop = get_string(r, r->in->drop_frames), *keep = get_string(r, r->in->keep_frames);
	if (r->code || !drop[0])
		return;
	const int code = frame_drop_open(&r->drop, drop, keep);
	if (code == -ENOMEM)
		check_returned_id(r, code);
	r->no_drop = code < 0;
}

/* Many functions may have one name, so each text is matched once. */
static bool is_hidden(struct hook_input *r, const Function *f)
{
	const int64_t named = get_string(r, f->name)[0] ? f->name : f->system_name;
	const char *name = get_string(r, named);
	if (r->code || !r->drop.drop || r->string_hidden[named])
		return !r->code && r->drop.drop && r->string_hidden[named] == 2;
	const int hides = frame_drop_hides(&r->drop, name);
	if (hides == -EFBIG)
		r->code = err_say(r->e, -EFBIG, "its drop_frames takes too long");
	else if (hides < 0)
		check_returned_id(r, hides);
	r->string_hidden[named] = hides > 0 ? 2 : 1;
	return hides > 0;
}

static void read_functions(struct hook_input *r)
{
	read_drop_frames(r);
	for (size_t i = 0; i < r->in->n_function && !r->code; i++) {
		const Function *f = r->in->function[i];
		struct profile_function fresh = {get_string(r, f->name), get_string(r, f->system_name),
			get_string(r, f->filename), f->start_line};
		if (!fresh.name[0])
			fresh.name = fresh.system_name[0] ? fresh.system_name : "?";
		add_id(r, &r->function_ids, f->id, i, "function");
		r->functions[i] = check_returned_id(r, profile_function(r->out, &fresh));
		r->function_hidden[i] = is_hidden(r, f);
	}
}

/* Adds a location without what drop_frames hides: a function that was inlined there, and those inlined into it. */
static struct file_location read_location(struct hook_input *r, const Location *l)
{
	struct file_location ret = {.frames = l->n_line ? (uint32_t)l->n_line : 1};
	size_t first = 0;
	/* go tool pprof, too, reads a location of a mapping that is not in the file: as one without */
	const int64_t of = string_table_find(&r->mapping_ids, &l->mapping_id, sizeof(l->mapping_id));
	const uint32_t mapping = of < 0 ? PROFILE_NONE : r->mappings[of];
	for (size_t k = 0; k < l->n_line && !r->code; k++) {
		int64_t line = l->line[k]->line;
		uint32_t function = find_id(r, &r->function_ids, l->line[k]->function_id, "function");
		r->lines[k] = (struct profile_line){
			r->functions[function], line > 0 && line <= UINT32_MAX ? (uint32_t)line : 0};
		if (!r->code && r->function_hidden[function])
			first = k + 1;
	}
	ret.hidden = !first ? HIDDEN_NONE : first < l->n_line ? HIDDEN_INLINED : HIDDEN_ALL;
	first = first < l->n_line ? first : 0;
	const size_t n = l->n_line - first;
	r->cut_lines |= n > PROFILE_LINES_MAX;
	if (!r->code)
		ret.id = check_returned_id(r, profile_location(r->out, mapping, l->address, r->lines + first, n));
	return ret;
}

static void read_locations(struct hook_input *r)
{
	for (size_t i = 0; i < r->in->n_location && !r->code; i++) {
		const Location *l = r->in->location[i];
		add_id(r, &r->location_ids, l->id, i, "location");
		r->locations[i] = read_location(r, l);
	}
}

/* Stands in for a sample's missing stack: else the sample would be in sums, and nowhere else. */
static uint32_t no_stack(struct hook_input *r)
{
	const struct profile_function f = {.name = "[no stack]", .system_name = "", .file = ""};
	const struct profile_line line = {.function = check_returned_id(r, profile_function(r->out, &f))};
	return r->code ? 0 : check_returned_id(r, profile_location(r->out, PROFILE_NONE, 0, &line, 1));
}

/*
 * Puts the sample's stack into r->stack; returns its number of locations. Seen from the root, the stack ends before the
 * first frame that drop_frames hides (prune.go, Prune). Hidden frames at the root itself stay: else all would be
 * hidden.
 */
static size_t read_stack(struct hook_input *r, const Sample *s)
{
	size_t first = 0;
	bool shown = false, cut = false;
	if (array_reserve(&r->stack, &r->stack_room, s->n_location_id + 1, sizeof(*r->stack), 0) < 0) {
		check_returned_id(r, -ENOMEM);
		return 0;
	}
	for (size_t k = s->n_location_id; k-- > 0 && !r->code;) {
		uint32_t at = find_id(r, &r->location_ids, s->location_id[k], "location");
		if (r->code)
			return 0;
		r->total += r->locations[at].frames;
		if (r->total > FRAMES_MAX)
			r->code = err_say(r->e, -EFBIG, "it has more than %u frames", FRAMES_MAX);
		check_sums(r, r->total);
		r->stack[k] = r->locations[at].id;
		if (shown && !cut && r->locations[at].hidden != HIDDEN_NONE) {
			first = k + (r->locations[at].hidden == HIDDEN_ALL);
			cut = true;
		}
		shown |= r->locations[at].hidden == HIDDEN_NONE;
	}
	if (!s->n_location_id)
		r->stack[0] = no_stack(r);
	const size_t n = s->n_location_id - first;
	memmove(r->stack, r->stack + first, n * sizeof(*r->stack));
	return n ? n : 1;
}

static void read_sample(struct hook_input *r, const Sample *s)
{
	struct profile_label labels[PROFILE_LABELS_MAX];
	size_t n_labels = s->n_label;
	const size_t n = read_stack(r, s);

	if (!r->code && s->n_value != r->in->n_sample_type)
		r->code = err_say(r->e, -EBADMSG, "a sample has %zu values, not %zu", s->n_value, r->in->n_sample_type);
	if (r->code)
		return;
	if (n_labels > PROFILE_LABELS_MAX) {
		n_labels = PROFILE_LABELS_MAX;
		r->cut_labels = true;
	}
	for (size_t i = 0; i < n_labels; i++) {
		const Label *l = s->label[i];
		labels[i] = (struct profile_label){.key = get_string(r, l->key),
			.str = l->str ? get_string(r, l->str) : NULL,
			.unit = l->str ? "" : get_string(r, l->num_unit),
			.num = l->num};
	}
	if (!r->code)
		check_returned_id(r, profile_sample(r->out, r->stack, n, s->value, labels, n_labels));
}

static void read_samples(struct hook_input *r)
{
	for (size_t i = 0; i < r->in->n_sample && !r->code; i++)
		read_sample(r, r->in->sample[i]);
	for (size_t i = 0; i < r->in->n_comment && !r->code; i++)
		check_returned_id(r, profile_comment(r->out, get_string(r, r->in->comment[i])));
	if (r->cut_lines && !r->code)
		check_returned_id(r, profile_comment(r->out, "reader: lines beyond 64 of a location are dropped"));
	if (r->no_drop && !r->code)
		check_returned_id(r, profile_comment(r->out, "reader: drop_frames or keep_frames is no pattern that "
							     "can be used: no frame is dropped"));
	if (r->cut_labels && !r->code)
		check_returned_id(r, profile_comment(r->out, "reader: labels beyond 40 of a sample are dropped"));
}

static int read_all(struct hook_input *r)
{
	static void (*const stages[])(struct hook_input *) = {
		read_info, read_mappings, read_functions, read_locations, read_samples};
	const Profile *in = r->in;
	size_t n_lines = 0;
	for (size_t i = 0; i < in->n_string_table; i++)
		if (strnlen(in->string_table[i], TEXT_MAX) == TEXT_MAX)
			in->string_table[i][TEXT_MAX - 1] = 0;
	for (size_t i = 0; i < in->n_location; i++)
		if (in->location[i]->n_line > n_lines)
			n_lines = in->location[i]->n_line;
	r->mappings = calloc(in->n_mapping + 1, sizeof(*r->mappings));
	r->functions = calloc(in->n_function + 1, sizeof(*r->functions));
	r->function_hidden = calloc(in->n_function + 1, sizeof(*r->function_hidden));
	r->string_hidden = calloc(in->n_string_table + 1, sizeof(*r->string_hidden));
	r->locations = calloc(in->n_location + 1, sizeof(*r->locations));
	r->lines = calloc(n_lines + 1, sizeof(*r->lines));
	if (!r->mappings || !r->functions || !r->function_hidden || !r->string_hidden || !r->locations || !r->lines)
		return err_set(r->e, -ENOMEM, "cannot build the profile");
	for (size_t i = 0; !r->code && i < sizeof(stages) / sizeof(stages[0]); i++)
		stages[i](r);
	return r->code;
}

static void reader_done(struct hook_input *r)
{
	string_table_done(&r->mapping_ids);
	string_table_done(&r->function_ids);
	string_table_done(&r->location_ids);
	free(r->mappings);
	free(r->functions);
	free(r->function_hidden);
	free(r->string_hidden);
	frame_drop_done(&r->drop);
	free(r->locations);
	free(r->types);
	free(r->lines);
	free(r->stack);
}

static int read_plain(const uint8_t *data, size_t len, struct profile **ret, struct err *e)
{
	struct alloc_limit budget = {.left = UNPACKED_MAX};
	ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
	Profile *in = perftools__profiles__profile__unpack(&allocator, len, data);
	if (!in && budget.no_memory)
		return err_set(e, -ENOMEM, "cannot read the profile");
	if (!in)
		return budget.left ? err_say(e, -EBADMSG, "it is not a pprof profile")
				   : err_say(e, -EFBIG, "it needs more than %u MiB of memory", UNPACKED_MAX >> 20);
	struct hook_input r = {.in = in, .e = e};
	int code = read_all(&r);
	reader_done(&r);
	perftools__profiles__profile__free_unpacked(in, &allocator);
	if (code < 0) {
		profile_free(r.out);
		return code;
	}
	profile_lock_strings(r.out, false);
	*ret = r.out;
	return code;
}

/* Decompresses all gzip members of the input, at most PPROF_READ_MAX bytes. */
static int inflate_all(z_stream *z, uint8_t **out, struct err *e)
{
	size_t have = 0, room = 0;
	for (;;) {
		if (have == room) {
			room = room ? room * 2 : 1u << 20;
			if (room > PPROF_READ_MAX)
				room = (size_t)PPROF_READ_MAX + 1;
			uint8_t *bigger = realloc(*out, room);
			if (!bigger)
				return err_set(e, -ENOMEM, "cannot decompress");
			*out = bigger;
		}
		z->next_out = *out + have;
		z->avail_out = (uInt)(room - have);
		int code = inflate(z, Z_NO_FLUSH);
		have = (size_t)(z->next_out - *out);
		if (have > PPROF_READ_MAX)
			return err_say(e, -EFBIG, "it is larger than %u MiB when decompressed", PPROF_READ_MAX >> 20);
		if (code == Z_STREAM_END && !z->avail_in)
			return (int)have;
		if (code == Z_STREAM_END && inflateReset(z) == Z_OK)
			continue;
		if (code == Z_BUF_ERROR && !z->avail_in && z->avail_out)
			return err_say(e, -EBADMSG, "it is cut off: the gzip data has no end");
		if (code != Z_OK && code != Z_BUF_ERROR)
			return err_say(
				e, -EBADMSG, "its gzip data is damaged (%s)", z->msg ? z->msg : "no reason given");
	}
}

int pprof_read(const void *data, size_t len, struct profile **ret, struct err *e)
{
	const uint8_t *bytes = data;
	if (len > PPROF_READ_MAX)
		return err_say(e, -EFBIG, "it is larger than %u MiB", PPROF_READ_MAX >> 20);
	if (!len)
		return err_say(e, -EBADMSG, "it is empty: its writing was cut short, or it is no profile");
	if (len < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b)
		return read_plain(bytes, len, ret, e);
	z_stream z = {.next_in = (Bytef *)bytes, .avail_in = (uInt)len};
	if (inflateInit2(&z, GZIP) != Z_OK)
		return err_set(e, -ENOMEM, "cannot decompress");
	uint8_t *plain = NULL;
	int n = inflate_all(&z, &plain, e);
	inflateEnd(&z);
	int r = n < 0 ? n : read_plain(plain, (size_t)n, ret, e);
	free(plain);
	return r;
}
