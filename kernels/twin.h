/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where a kernel compiled for the host (a "twin") is in its grid. Whoever runs twins (the simulated
 * node, tests) runs every lane as a coroutine: it sets `sdma_twin_here` before it resumes a lane,
 * and `yield` gives the other lanes a turn, and then other threads. device.h's host branch reads it.
 * `reaches`, which may be null, says whether the GPU can ring a doorbell; a store to one that it
 * cannot ring goes nowhere. */
#ifndef SDMA_KERNELS_TWIN_H
#define SDMA_KERNELS_TWIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sdma_twin_position {
    uint32_t workgroup, workgroups;
    uint32_t lane, lanes;         /* within the workgroup */
    void (*yield)(void *context); /* called in every wait loop and between wave-wide phases */
    void *context;
    int (*reaches)(void *context, uint64_t doorbell);
};

extern __thread struct sdma_twin_position *sdma_twin_here;

/* The kernels; the same names as in the code object. */
struct sdma_work;
struct sdma_mailbox;
void sdma_issue_kernel(struct sdma_work *work);
void sdma_copy_kernel(struct sdma_work *work);
void sdma_resident_kernel(struct sdma_mailbox *mailbox);

#ifdef __cplusplus
}
#endif
#endif
