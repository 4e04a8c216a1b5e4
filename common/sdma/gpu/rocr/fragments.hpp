// SPDX-License-Identifier: BSD-3-Clause
//
// GPU memory that ROCr keeps because a part of it was shared.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "system.hpp"

namespace sdma::gpu::rocr {

// ROCr cuts allocations below 2 MiB from blocks of 2 MiB. Once one of them is exported, its block is given back to the
// driver when all of them are freed, but that never happens if there were two or more: who allocates, shares and frees
// small buffers loses 2 MiB each time until the GPU is full (mended by ROCm/rocm-systems#6407 in May 2026; seen with
// ROCr 5.2.3 and 6.1.2 on the simulated node). So the blocks that this process has caused to be kept are counted, and
// at a bound small allocations are no longer shared. Thread-safe.
class Fragments {
public:
    explicit Fragments(const System &system) : system_(system) {}

    // Before an allocation is exported. False: too much is kept, and it must not be if it is a small one.
    bool may_export(const void *base, size_t bytes);
    void exported(const void *base, size_t bytes);
    // Called inside the free, perhaps under ROCr's own locks.
    void freed(const void *base);

    static constexpr size_t block_bytes = size_t{2} << 20; // its alignment, too: ROCr's exports want that

private:
    bool kept(uintptr_t fragment) const;

    const System &system_;
    std::mutex mutex_; // not held while ROCr is called
    std::set<uintptr_t> exported_;
    std::map<uintptr_t, uintptr_t> freed_; // by block: the exported fragment of it that was freed last
};

} // namespace sdma::gpu::rocr
