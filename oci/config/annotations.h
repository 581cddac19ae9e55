/* SPDX-License-Identifier: Apache-2.0 */
/*
 * annotations - reads a tenant's request: the annotations io.pillion.* of one container, and which of them count.
 */
#pragma once

#include "oci/config/options.h"

/*
 * The annotations of one container. `container` is its name within the Pod, or NULL or "": `<key>/container.<name>`
 * wins over `<key>`. Pass every annotation to annotations_add in any order (of one key the last counts; a NULL value
 * stands for one that is no string). It ignores keys that are not io.pillion.*; -E2BIG: more than ANNOTATIONS_MAX of
 * ours.
 *
 * annotations_finish: without io.pillion.profile, or if it is "off", `ret->events` is "" or "off", the rest of `ret` is
 * default, and no other value is read. Otherwise -EINVAL with a sentence for a bad value. Unknown io.pillion.* keys
 * yield a `warning`, never an error ("" = none).
 */
#define ANNOTATIONS_MAX 512
#define ANNOTATION_VALUE_MAX 4096

bool annotation_is_ours(const char *key);

struct annotations;
int annotations_new(struct annotations **ret);
int annotations_add(struct annotations *a, const char *key, const char *value);
int annotations_finish(struct annotations *a, const char *container, struct request *ret, char *warning,
	size_t warning_size, struct err *e);
struct annotations *annotations_free(struct annotations *a);
