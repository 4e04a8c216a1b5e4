// SPDX-License-Identifier: BSD-3-Clause
#include "allocations.hpp"

#include <atomic>

namespace sdma::gpu::rocr {

namespace {

uint64_t next_generation() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

} // namespace

Allocations::~Allocations() {
    for (const auto &[base, range] : live_)
        system_.api.hsa_amd_deregister_deallocation_callback(range.base, freed);
}

Range Allocations::classify(const void *address) {
    Range range;
    {
        std::lock_guard lock(mutex_);
        if (known(address, range))
            return range;
    }
    range = ask(address);
    if (range.kind != Memory_kind::device)
        return range;

    std::lock_guard lock(mutex_);
    if (known(address, range)) // another thread was faster
        return range;
    // Register first, then ask again: from here on a free of this allocation waits for our lock
    // in freed(), so what the second answer says is what the callback belongs to.
    const auto register_callback = system_.api.hsa_amd_register_deallocation_callback;
    if (register_callback(range.base, freed, this) != HSA_STATUS_SUCCESS) {
        range.kind = Memory_kind::unsupported; // nobody would tell us that it is gone
        return range;
    }
    const Range again = ask(address);
    if (again.kind != Memory_kind::device || again.base != range.base || again.bytes != range.bytes) {
        system_.api.hsa_amd_deregister_deallocation_callback(range.base, freed);
        range.kind = Memory_kind::unsupported; // freed by another thread while the caller passes it to us
        return range;
    }
    range.generation = next_generation();
    live_[reinterpret_cast<uintptr_t>(range.base)] = range;
    return range;
}

void Allocations::on_free(std::function<void(void *, uint64_t)> hook) {
    std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

void Allocations::freed(void *base, void *allocations) {
    auto &self = *static_cast<Allocations *>(allocations);
    std::function<void(void *, uint64_t)> hook;
    uint64_t generation = 0;
    {
        std::lock_guard lock(self.mutex_);
        const auto entry = self.live_.find(reinterpret_cast<uintptr_t>(base));
        if (entry == self.live_.end())
            return;
        generation = entry->second.generation;
        self.live_.erase(entry);
        hook = self.hook_;
    }
    if (hook)
        hook(base, generation);
}

bool Allocations::known(const void *address, Range &range) const {
    const auto value = reinterpret_cast<uintptr_t>(address);
    auto entry = live_.upper_bound(value);
    if (entry == live_.begin() || value - (--entry)->first >= entry->second.bytes)
        return false;
    range = entry->second;
    return true;
}

Range Allocations::ask(const void *address) const {
    Range range;
    hsa_amd_pointer_info_t info{};
    info.size = sizeof info;
    if (!address || system_.api.hsa_amd_pointer_info(address, &info, nullptr, nullptr, nullptr) != HSA_STATUS_SUCCESS ||
        info.type == HSA_EXT_POINTER_TYPE_UNKNOWN)
        return range; // plain host memory; managed memory too, which the host may touch as well
    range.device = system_.device_of(info.agentOwner);
    range.base = info.agentBaseAddress;
    range.bytes = info.sizeInBytes;
    if (info.type == HSA_EXT_POINTER_TYPE_LOCKED || (info.type == HSA_EXT_POINTER_TYPE_HSA && range.device < 0)) {
        range.kind = Memory_kind::pinned_host;
        range.device = -1;
        range.base = info.hostBaseAddress;
        range.device_base = info.agentBaseAddress; // of registered memory it is another one
    } else if (info.type == HSA_EXT_POINTER_TYPE_HSA) {
        range.kind = Memory_kind::device;
    } else { // graphics, imported from a peer, virtual-memory API: not ours to export
        range.kind = Memory_kind::unsupported;
    }
    return range;
}

} // namespace sdma::gpu::rocr
