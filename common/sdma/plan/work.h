/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The work record: what one operation asks an initiator to do. Plain data, position-independent
 * (arrays by offset from the record's start), the same for a one-shot kernel, the resident kernel
 * and the CPU initiator. Filled by op/, read on the GPU: only fixed-width fields.
 *
 *   sdma_work | sdma_work_queue[queues] | sdma_work_peer[peers]
 *
 * The peers of a queue are consecutive. For each peer the initiator makes one reservation of
 * COPY (chunks) + arrival signal + departure signal in that peer's queue, or several where the ring
 * is small; peers without signals share that of the next one (kernels/issue.h).
 */
#ifndef SDMA_PLAN_WORK_H
#define SDMA_PLAN_WORK_H

#include <stdint.h>

#define SDMA_WORK_MAGIC 0x4b574453u /* "SDWK" */
#define SDMA_WORK_VERSION 1u

enum sdma_path { SDMA_PATH_ENGINE = 0, SDMA_PATH_LOADSTORE = 1 };

/* How a signal word is raised. The word has a single writing rank. ATOMIC adds one (64 bit);
 * FENCE stores the low 32 bits of `value`; both leave `value` in the word. */
enum sdma_signal_kind { SDMA_SIGNAL_ATOMIC = 0, SDMA_SIGNAL_FENCE = 1 };

/* status: written by the initiator, in memory the host polls: by the issue kernel, the resident one or the CPU
 * initiator, and by the load/store kernel only if it is kernel_signals and no peer is the engine's
 * (or the record is bad); launches whose end is told by a word of their own need not */
enum sdma_work_status {
    SDMA_WORK_OPEN = 0,
    SDMA_WORK_ISSUED = 1,     /* every packet is published / every byte is stored */
    SDMA_WORK_RING_STUCK = 2, /* the read pointer did not move within the budget */
    SDMA_WORK_BAD = 3         /* the record did not make sense */
};

struct sdma_work_queue {
    uint64_t ring; /* device address of the struct sdma_ring (ring/ring.h) */
    uint32_t first_peer;
    uint32_t peers;
};

struct sdma_work_peer {
    uint64_t src; /* device addresses */
    uint64_t dst;
    uint64_t bytes;     /* 0: signals only */
    uint64_t arrival;   /* word in the peer's segment; 0 = none (own block) */
    uint64_t departure; /* word in our segment; 0 = none */
    uint64_t arrival_value;
    uint64_t departure_value;
    uint32_t rank; /* of the team, for diagnostics */
    uint32_t path; /* enum sdma_path */
};

struct sdma_work {
    uint32_t magic;
    uint32_t version;
    uint32_t record_bytes; /* whole record */
    uint32_t kind;         /* sdma_kind_t */
    uint64_t sequence;     /* operation number in its team */
    uint32_t slot;
    uint32_t signal_kind; /* enum sdma_signal_kind */
    uint32_t queues;
    uint32_t peers;
    uint32_t queues_offset;
    uint32_t peers_offset;
    uint64_t chunk_bytes;     /* the most one COPY packet moves */
    uint64_t spin_budget;     /* polls of a read pointer without progress before giving up */
    uint64_t status;          /* enum sdma_work_status, 64 bit so that it is one store */
    uint64_t fault_queue;     /* index of the stuck queue */
    uint32_t kernel_signals;  /* load/store: 1 = the kernel raises the signals itself after its last store */
    uint32_t workgroups_done; /* load/store: how many workgroups finished (kernel_signals) */
    uint32_t lanes_done;      /* issue: lanes finished, where lanes share no registers (twins) */
    uint32_t resident_copies; /* 1 = the resident kernel moves the LOADSTORE peers as well */
};

#endif
