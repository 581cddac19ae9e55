/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many - how many are many. Under a sanitizer each step takes ten times as long: there it is a tenth, of which what
 * grows with the square would still not be over in time.
 */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MANY_OF(n) ((n) / 10)
#else
#define MANY_OF(n) (n)
#endif
