// SPDX-License-Identifier: BSD-3-Clause
//
// Host memory of this process that engines and kernels may touch: pinned page by page, counted, at
// most once each. Runtimes cannot tell apart two registrations that start at one address, so pins
// never overlap: a range is covered by what is there already and by new pins in the gaps.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "../gpu/gpu.hpp"

namespace sdma::memory {

class Pins {
public:
    struct Pin {
        char *base = nullptr;
        size_t bytes = 0;
        char *device_base = nullptr;
        uint32_t uses = 0;
    };
    struct Piece {
        const char *address = nullptr;
        size_t bytes = 0;
        uint64_t device_address = 0;
        Pin *pin = nullptr; // nullptr: pinned by the application, or not host memory
    };

    // Cover [address, address + bytes) of host memory with pieces, in order; counts one use of each
    // piece's pin. On failure nothing is left behind. Reasons: pin_failed, memory_kind (a part of it
    // is not host memory). Thread-safe.
    sdma_reason_t acquire(gpu::Runtime &runtime, const void *address, size_t bytes, std::vector<Piece> &pieces);
    void release(gpu::Runtime &runtime, const std::vector<Piece> &pieces);

private:
    sdma_reason_t cover(gpu::Runtime &runtime, const char *at, const char *end, Piece &piece);
    void release_locked(gpu::Runtime &runtime, Pin &pin);

    std::mutex mutex_;
    std::map<const char *, Pin> pins_; // by base
};

} // namespace sdma::memory
