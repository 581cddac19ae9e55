#include "shim/inproc/export.h"

PILLION_API const char *pillion_version(void)
{
	return VERSION;
}
