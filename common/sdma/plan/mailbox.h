/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How the host hands work records to the resident kernel of a device: a ring of addresses in pinned
 * memory, with one writer per word. `head` and `done` count records and only grow.
 *
 *   host     record's address into records[head % slots], head + 1, full fence, look at `state`
 *   kernel   sees head, acquires, takes the records up to it, done + 1 behind each
 *   the end  idle for long: CLOSING, full fence, look at head again: RUNNING if it has grown, else ENDED
 *
 * Where kernels ask for it (gpu::Runtime::resident_copies) the record travels with its number, as words that each say
 * whose they are, in struct sdma_mailbox_carried behind the mailbox: a kernel loads them with head, in one trip over
 * the bus instead of four. Word 0: how many values follow, 0: not carried. Then the record's address, the record,
 * and the struct sdma_ring of each of its queues.
 *
 * Of the two looks behind a fence at least one sees the other side's store: a record is either taken
 * by the kernel that runs or found left by the host, which starts the next one. ENDED is a kernel's
 * last store here. */
#ifndef SDMA_PLAN_MAILBOX_H
#define SDMA_PLAN_MAILBOX_H

#include <stdint.h>

#define SDMA_MAILBOX_SLOTS 64u         /* power of two */
#define SDMA_MAILBOX_STOP (1ull << 63) /* in head: end, and take nothing more */

/* In this order: only ENDED lets the host start a kernel. */
enum sdma_mailbox_state { SDMA_MAILBOX_ENDED = 0, SDMA_MAILBOX_RUNNING = 1, SDMA_MAILBOX_CLOSING = 2 };

#define SDMA_MAILBOX_WORDS 256u

/* A value in the lower half; in the upper one the record's number + 1. Single stores, single loads: a word of an
 * older record is told by its number, for 2^32 records. */
struct sdma_mailbox_carried {
    uint64_t words[SDMA_MAILBOX_SLOTS][SDMA_MAILBOX_WORDS];
};

struct sdma_mailbox_entry {
    uint64_t record; /* address of the struct sdma_work */
    uint64_t bytes;  /* of the whole record */
};

struct sdma_mailbox {
    /* the host's */
    uint64_t head;    /* records handed over */
    uint64_t idle_ns; /* how long a kernel without work stays; read when it starts */
    uint64_t busy;    /* operations that somebody waits for: the kernel stays for the next one, for a while */
    uint64_t pad_host[5];
    /* the kernel's; the host's while none runs */
    uint64_t done;  /* records issued; their memory and their entries may be used again */
    uint64_t state; /* enum sdma_mailbox_state */
    uint64_t order; /* from lane 0, for lanes that share no registers with it (twins) */
    uint64_t pad_kernel[5];
    struct sdma_mailbox_entry records[SDMA_MAILBOX_SLOTS];
};

#endif
