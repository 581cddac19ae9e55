/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/container.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum text { TEXT_ANY, TEXT_PATH, TEXT_PRINTABLE };

#define STRING(f, kind)                                                                                                \
	{                                                                                                              \
		offsetof(struct container, f), sizeof(((struct container *)0)->f), kind                                \
	}

static const struct {
	size_t offset, size;
	enum text kind; /* TEXT_PATH counts for DECISION_PROFILE only */
} strings[] = {
	STRING(id, TEXT_PRINTABLE),
	STRING(bundle, TEXT_PATH),
	STRING(root, TEXT_PATH),
	STRING(exe, TEXT_ANY),
	STRING(sidecar, TEXT_ANY),
	STRING(name, TEXT_PRINTABLE),
	STRING(pod, TEXT_PRINTABLE),
	STRING(pod_namespace, TEXT_PRINTABLE),
	STRING(service, TEXT_PRINTABLE),
	STRING(request.events, TEXT_PRINTABLE),
	STRING(warning, TEXT_PRINTABLE),
	STRING(reason, TEXT_PRINTABLE),
};

void container_init(struct container *c)
{
	memset(c, 0, sizeof(*c));
	c->magic = CONTAINER_MAGIC;
	c->size = sizeof(*c);
}

size_t container_name_copy(char *to, const char *text, size_t len)
{
	size_t n = len < CONTAINER_NAME_SIZE ? len : CONTAINER_NAME_SIZE - 1;
	for (size_t i = 0; i < n; i++)
		to[i] = text[i] < 0x20 || text[i] > 0x7e ? '?' : text[i];
	to[n] = 0;
	return n;
}

bool container_id_valid(const char *id)
{
	for (const char *c = id; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_+.-", *c))
			return false;
	return *id && strcmp(id, ".") && strcmp(id, "..");
}

/* FNV-1a, then MurmurHash3's finalizer: ids that differ in their last letter differ in every bit. */
static uint64_t hash_id(const char *text)
{
	uint64_t h = 0xcbf29ce484222325;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3;
	h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 33;
}

bool container_sampled(const char *id, uint32_t one_in)
{
	return one_in <= 1 || hash_id(id) % one_in == 0;
}

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text < 0x20 || *text > 0x7e)
			return false;
	return true;
}

static bool strings_valid(const struct container *c)
{
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		const char *text = (const char *)c + strings[i].offset;
		if (!is_terminated(text, strings[i].size))
			return false;
		if (strings[i].kind == TEXT_PRINTABLE && !is_printable(text))
			return false;
		if (strings[i].kind == TEXT_PATH && c->verdict == DECISION_PROFILE && *text != '/')
			return false;
	}
	return true;
}

static bool request_valid(const struct request *r)
{
	if (!*r->events || r->stacks > STACKS_NONE || r->attach > ATTACH_PROCESS)
		return false;
	if (r->window_s < WINDOW_MIN_S || r->window_s > WINDOW_MAX_S || r->n_labels > LABELS_MAX ||
		r->detail > DETAIL_ALL)
		return false;
	for (uint32_t i = 0; i < r->n_labels; i++) {
		const struct label *l = &r->labels[i];
		if (!is_terminated(l->key, sizeof(l->key)) || !is_terminated(l->value, sizeof(l->value)))
			return false;
		if (!*l->key || !is_printable(l->key) || !is_printable(l->value))
			return false;
	}
	return true;
}

int container_check(const struct container *c)
{
	if (c->magic != CONTAINER_MAGIC || c->size != sizeof(*c))
		return -EBADMSG;
	if (c->verdict == DECISION_UNDECIDED || c->verdict > DECISION_INVALID || !strings_valid(c))
		return -EBADMSG;
	if (c->verdict != DECISION_PROFILE)
		return 0;
	if (c->pid <= 1 || c->pid > CONTAINER_PID_MAX || !container_id_valid(c->id) || !request_valid(&c->request))
		return -EBADMSG;
	return 0;
}
