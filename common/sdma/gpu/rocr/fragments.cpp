// SPDX-License-Identifier: BSD-3-Clause
#include "fragments.hpp"

#include "../../base/base.hpp"

namespace sdma::gpu::rocr {

bool Fragments::may_export(const void *base, size_t bytes) {
    const size_t most = params().kept_max / block_bytes;
    std::map<uintptr_t, uintptr_t> candidates;
    {
        std::lock_guard lock(mutex_);
        freed_.erase(reinterpret_cast<uintptr_t>(base) / block_bytes); // in use, whatever became of it before
        if (bytes >= block_bytes || freed_.size() < most)
            return true;
        candidates = freed_;
    }
    for (const auto &[block, fragment] : candidates) {
        if (kept(fragment))
            continue;
        std::lock_guard lock(mutex_);
        freed_.erase(block);
    }
    std::lock_guard lock(mutex_);
    return freed_.size() < most;
}

void Fragments::exported(const void *base, size_t bytes) {
    if (bytes >= block_bytes)
        return;
    std::lock_guard lock(mutex_);
    exported_.insert(reinterpret_cast<uintptr_t>(base));
}

void Fragments::freed(const void *base) {
    const auto fragment = reinterpret_cast<uintptr_t>(base);
    std::lock_guard lock(mutex_);
    if (exported_.erase(fragment) > 0)
        freed_[fragment / block_bytes] = fragment;
}

// Of an address in a block that ROCr holds, but in no allocation, it reports the block's bounds: 5.2.3 as memory of its
// own, 6.1.2 as unknown.
bool Fragments::kept(uintptr_t fragment) const {
    hsa_amd_pointer_info_t info{};
    info.size = sizeof info;
    return system_.api.hsa_amd_pointer_info(reinterpret_cast<const void *>(fragment), &info, nullptr, nullptr,
                                            nullptr) == HSA_STATUS_SUCCESS &&
           reinterpret_cast<uintptr_t>(info.agentBaseAddress) % block_bytes == 0 && info.sizeInBytes == block_bytes;
}

} // namespace sdma::gpu::rocr
