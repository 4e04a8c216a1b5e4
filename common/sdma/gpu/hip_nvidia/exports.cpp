// SPDX-License-Identifier: BSD-3-Clause
#include "exports.hpp"

namespace sdma::gpu::nvidia {

void Exports::on_free(Hook hook) {
    std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

uint64_t Exports::generation(void *base) const {
    unsigned long long buffer = 0;
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *value = &buffer;
    const CUresult result = driver_.cuPointerGetAttributes(1, &name, &value, reinterpret_cast<CUdeviceptr>(base));
    return result == CUDA_SUCCESS ? buffer : 0;
}

Exports::Map::iterator Exports::check(Map::iterator entry, std::unique_lock<std::mutex> &lock) {
    const auto [base, known] = *entry;
    if (generation(base) == known)
        return std::next(entry);
    exported_.erase(entry);
    const Hook hook = hook_;
    lock.unlock();
    if (hook)
        hook(base, known);
    lock.lock();
    return exported_.upper_bound(base);
}

void Exports::add(void *base) {
    std::unique_lock lock(mutex_);
    for (auto entry = exported_.begin(); entry != exported_.end();)
        entry = check(entry, lock);
    exported_[base] = generation(base);
}

void Exports::look() {
    std::unique_lock lock(mutex_);
    auto entry = exported_.upper_bound(next_);
    if (entry == exported_.end())
        entry = exported_.begin();
    if (entry == exported_.end())
        return;
    next_ = entry->first;
    check(entry, lock);
}

} // namespace sdma::gpu::nvidia
