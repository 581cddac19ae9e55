/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_messages - the messages between the two parts of pillion-nri, over a SOCK_SEQPACKET pair: of fixed layout, in one
 * program. The starter trusts nothing that it receives.
 */
#pragma once

#include "oci/runtime/container.h"

#include <stddef.h>
#include <stdint.h>

enum nri_word {
	NRI_START = 1, /* a container is about to start that asks for a profile */
	NRI_SAY,       /* a line for the log: `text` */
	NRI_READY,     /* the runtime has configured us: this connection works */
};

struct nri_ask {
	uint32_t word;	   /* enum nri_word */
	uint32_t level;	   /* of NRI_SAY, syslog(3) */
	uint64_t number;   /* of NRI_START: its number, for the answer */
	uint32_t limit_ms; /* the runtime's timeout leaves so much */
	char text[420];
	struct container container; /* of NRI_START; the others end before it */
};
#define NRI_ASK_SHORT offsetof(struct nri_ask, container)

/* Attached, or not going to be: the container may start. */
struct nri_told {
	uint64_t number;
};
