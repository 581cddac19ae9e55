/*
 * pillion-opener - attaches to what runs already (shim/attach/attacher.h). Not for people: `pillion attach` starts it.
 */
#include "shim/attach/attacher.h"

int main(void)
{
	attacher_run();
}
