/*
 * json_write - write JSON. The only file that knows json-c.
 *
 * `key` of what goes into an array is NULL. Everything made belongs to who made it, until jsonout_add has put it into
 * something: that takes it, also on failure. A NULL is no memory, and jsonout_add says so: what is made need not be
 * looked at before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct jsonout;

struct jsonout *jsonout_object(void);
struct jsonout *jsonout_array(void);
struct jsonout *jsonout_text(const char *text); /* UTF-8 */
struct jsonout *jsonout_number(int64_t value);
struct jsonout *jsonout_tenths(double value); /* one decimal */
struct jsonout *jsonout_share(double value);  /* of 1, six decimals */
struct jsonout *jsonout_bool(bool value);
int jsonout_add(struct jsonout *to, const char *key, struct jsonout *value); /* 0 or -ENOMEM */
int jsonout_add_null(struct jsonout *object, const char *key);
int jsonout_write(const struct jsonout *doc, FILE *out);      /* with a newline at its end: 0, -ENOMEM, -EIO */
int jsonout_write_line(const struct jsonout *doc, FILE *out); /* the same, and that newline is the only one */
struct jsonout *jsonout_free(struct jsonout *doc);
