/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernels for NVIDIA GPUs get. A work record lies in pinned host memory, and each step of
 * reading it from there costs a trip over the bus. So a record of usual size travels with the
 * launch, together with the descriptions of its rings. */
#ifndef SDMA_GPU_HIP_NVIDIA_ARGUMENTS_H
#define SDMA_GPU_HIP_NVIDIA_ARGUMENTS_H

#include <stdint.h>

#define SDMA_INLINE_SMALL 62 /* 64-bit words of record and rings: two ranks and a few more */
#define SDMA_INLINE_LARGE 496
#define SDMA_STAGED 3072 /* of longer ones that a kernel fetches: 256 copies and their rings */

#define SDMA_RESIDENT_LANES 256 /* of the resident kernel: it copies as well */

struct sdma_launch {
    uint64_t record;  /* the work record where the host sees it */
    uint64_t done;    /* pinned word: 1 when the kernel has made its last access */
    uint64_t counter; /* device word, zero between launches: workgroups that have finished */
    uint64_t words;   /* of the record that follows; 0: none, it is read from `record` */
};

/* The resident kernel's. */
struct sdma_residence {
    uint64_t mailbox;
    uint64_t done; /* as above */
};

/* The record, then one struct sdma_ring for each of its queues. */
struct sdma_launch_small {
    struct sdma_launch launch;
    uint64_t inline_words[SDMA_INLINE_SMALL];
};
struct sdma_launch_large {
    struct sdma_launch launch;
    uint64_t inline_words[SDMA_INLINE_LARGE];
};

#endif
