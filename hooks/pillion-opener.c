/*
 * pillion-opener - attaches to what runs already (shim/attacher.h). Not for people: `pillion attach` starts it.
 */
#include "shim/attacher.h"

int main(void)
{
	attacher_run();
}
