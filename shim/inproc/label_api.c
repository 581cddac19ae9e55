#include "shim/inproc/export.h"
#include "shim/inproc/labels.h"

PILLION_API int pillion_label_set(const char *key, const char *value)
{
	return labels_set(key, value);
}
