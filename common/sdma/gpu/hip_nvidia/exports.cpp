// SPDX-License-Identifier: BSD-3-Clause
#include "exports.hpp"

namespace sdma::gpu::nvidia {

void Exports::on_free(Hook hook) {
    std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

Exports::Map::iterator Exports::check(Map::iterator entry, std::unique_lock<std::mutex> &lock) {
    const auto [base, known] = *entry;
    if (buffer_number(driver_, base) == known)
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
    exported_[base] = buffer_number(driver_, base);
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
