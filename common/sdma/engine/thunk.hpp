// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of AMD's thunk (libhsakmt) that make SDMA queues, found in the shared copy that
// ROCr has loaded. From ROCm 6.4 on ROCr hides its thunk and there is none. The declarations are
// our own, so that no header of a certain release is needed; a unit test compares them with the
// installed header.
#pragma once

#include <cstdint>
#include <optional>

namespace sdma::engine::thunk {

// HSAKMT_STATUS
enum Status : uint32_t {
    success = 0,
    error = 1, // releases before 6.0 say this for every refusal of the kernel driver
    no_memory = 6,
    out_of_resources = 13,
    not_opened = 20,
    already_opened = 22,
};

// HSA_QUEUE_TYPE
enum Queue_type : uint32_t {
    queue_sdma = 2,        // some ordinary engine
    queue_sdma_xgmi = 5,   // some xGMI engine
    queue_sdma_engine = 6, // the engine named; only hsaKmtCreateQueueExt, kernel interface 1.17
};

// HsaMemFlags, which is passed by value: one word
enum Memory_flag : uint32_t {
    flag_non_paged = 1u << 0,
    flag_host_access = 1u << 6,
    flag_execute_access = 1u << 12,
    flag_no_numa_bind = 1u << 16,
    flag_uncached = 1u << 17,
};

// HSA_QUEUE_PRIORITY has negative values and 0xffffffff: compilers make it 64 bits wide.

// HsaQueueResource
struct Queue_resource {
    uint64_t id;
    uint64_t *doorbell;
    uint64_t *write_pointer;
    uint64_t *read_pointer;
    volatile int64_t *error_reason;
};

struct Functions {
    Status (*hsaKmtOpenKFD)(void);
    Status (*hsaKmtCloseKFD)(void);
    Status (*hsaKmtAllocMemory)(uint32_t node, uint64_t bytes, uint32_t flags, void **address);
    Status (*hsaKmtFreeMemory)(void *address, uint64_t bytes);
    Status (*hsaKmtMapMemoryToGPU)(void *address, uint64_t bytes, uint64_t *alternate);
    Status (*hsaKmtUnmapMemoryToGPU)(void *address);
    Status (*hsaKmtCreateQueue)(uint32_t node, Queue_type type, uint32_t percentage, int64_t priority, void *ring,
                                uint64_t bytes, void *event, Queue_resource *resource);
    Status (*hsaKmtUpdateQueue)(uint64_t id, uint32_t percentage, int64_t priority, void *ring, uint64_t bytes,
                                void *event);
    Status (*hsaKmtDestroyQueue)(uint64_t id);
    // nullptr in older releases
    Status (*hsaKmtCreateQueueExt)(uint32_t node, Queue_type type, uint32_t percentage, int64_t priority,
                                   uint32_t engine, void *ring, uint64_t bytes, void *event, Queue_resource *resource);
};

// None where no shared thunk is loaded or it lacks a function. Takes a reference for the life of
// the process.
std::optional<Functions> find();

} // namespace sdma::engine::thunk
