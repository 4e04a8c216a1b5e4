/* SPDX-License-Identifier: BSD-3-Clause
 * The ring: one consumer (engine, proxy, simulated engine), many producers of one kind. */
#ifndef SDMA_RING_RING_H
#define SDMA_RING_RING_H

#include <stdint.h>

/* Shared by host and kernels; lives in pinned host memory, one address for host and devices. All
 * addresses below are valid for the producers of the ring. */
struct sdma_ring {
    uint64_t base;          /* first dword of the ring */
    uint64_t bytes;         /* power of two */
    uint64_t read_pointer;  /* the consumer's 64-bit read pointer: bytes, monotonic */
    uint64_t write_pointer; /* the 64-bit write pointer the consumer loads */
    uint64_t doorbell;      /* 64-bit doorbell */
    uint64_t cursors;       /* struct sdma_ring_cursors: uncached device memory for device producers
                               (GPUs may have no atomics on host memory), host memory for host ones */
};

/* Producers' state: monotonic byte counts; position in the ring = count & (bytes - 1). */
struct sdma_ring_cursors {
    uint64_t reserve; /* next free byte */
    uint64_t pad_reserve[7];
    uint64_t commit; /* published up to here */
    uint64_t pad_commit[7];
    uint64_t cached_read; /* a read pointer seen earlier */
    uint64_t pad_cached[7];
};

#endif
