#include "shim/libpillion/core/export.h"

PILLION_API const char *pillion_version(void)
{
	return VERSION;
}
