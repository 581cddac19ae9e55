/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion-opener - attaches to a running target (shim/attach/attach_opener.h). Not for people: `pillion attach` starts
 * it.
 */
#include "shim/attach/attach_opener.h"

int main(void)
{
	attach_opener_run();
}
