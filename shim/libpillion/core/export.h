/* SPDX-License-Identifier: Apache-2.0 */
/* export - the symbols that libpillion shows: all else is hidden, and stays so when its objects are linked together. */
#pragma once

#include "shim/libpillion/pillion.h"

#define PILLION_API __attribute__((visibility("default")))
