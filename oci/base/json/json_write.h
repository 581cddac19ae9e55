/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_write - writes JSON. The only file that knows json-c.
 *
 * `key` is NULL for an element of an array. The caller owns each new value until json_write_add, which takes it, also
 * on failure. A NULL value means no memory, and json_write_add returns -ENOMEM for it: the caller need not check a
 * value before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct jsonout;

struct jsonout *json_write_object(void);
struct jsonout *json_write_array(void);
struct jsonout *json_write_text(const char *text); /* UTF-8 */
struct jsonout *json_write_number(int64_t value);
struct jsonout *json_write_tenths(double value); /* one decimal */
struct jsonout *json_write_share(double value);	 /* of 1, six decimals */
struct jsonout *json_write_bool(bool value);
int json_write_add(struct jsonout *to, const char *key, struct jsonout *value); /* 0 or -ENOMEM */
int json_write_add_null(struct jsonout *object, const char *key);
int json_write_out(const struct jsonout *doc, FILE *out);      /* and a newline: 0, -ENOMEM, -EIO */
int json_write_out_line(const struct jsonout *doc, FILE *out); /* the same, on one line */
struct jsonout *json_write_free(struct jsonout *doc);
