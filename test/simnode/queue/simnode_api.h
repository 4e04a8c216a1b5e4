/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the simulated libhsakmt.so.1 offers tests beside the thunk calls; find it by dlsym, a real
 * thunk has none of it. Thread-safe.
 *
 * A program whose own kernels are to run on the simulated node exports (-export-dynamic) for each
 *     void sdma_twin_<kernel name>(const void *kernarg);
 * which is called for every lane. */
#ifndef SDMA_SIMNODE_API_H
#define SDMA_SIMNODE_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the queues of this process have executed so far, so that tests count work, not time. */
struct sdma_simnode_counts {
    uint64_t nop, copy, copy_rect, write, fence, trap, poll, hdp_flush, atomic, fill, timestamp, cache;
    uint64_t copied_bytes; /* by copy, copy_rect and write packets */
    uint64_t doorbells;    /* doorbell changes the engines saw (two rings in a row can be seen as one) */
    uint64_t refused;      /* malformed packets and pointers; each has stopped its queue */
    uint64_t dispatches, barriers, vendor; /* AQL packets */
    /* The same SDMA packets, but only those of queues that were not created by ROCr itself. */
    uint64_t own_copy, own_fence, own_atomic, own_doorbells, own_copied_bytes;
};

/* `bytes`: sizeof of the caller's struct; a shorter one gets the first members only. */
__attribute__((visibility("default"))) void sdma_simnode_counts(struct sdma_simnode_counts *counts, uint64_t bytes);

/* Chaos from `seed` on (0: off) for all queues of this process, from their next packet. */
__attribute__((visibility("default"))) void sdma_simnode_reseed(uint64_t seed);

/* Inside a twin: the lane that runs (kernels/twin.h). */
struct sdma_twin_position;
__attribute__((visibility("default"))) struct sdma_twin_position *sdma_simnode_position(void);

#ifdef __cplusplus
}
#endif
#endif
