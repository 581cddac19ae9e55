#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/labels.h"

PILLION_API int pillion_label_set(const char *key, const char *value)
{
	return labels_set(key, value);
}
