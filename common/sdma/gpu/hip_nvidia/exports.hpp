// SPDX-License-Identifier: BSD-3-Clause
//
// Notices that exported memory was freed. CUDA calls nobody back; but the driver's buffer number of
// an address changes with the allocation behind it, so it is enough to look again now and then.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "driver.hpp"

namespace sdma::gpu::nvidia {

class Exports {
public:
    using Hook = std::function<void(void *base, uint64_t generation)>;

    explicit Exports(const Driver &driver) : driver_(driver) {}

    void on_free(Hook hook);
    // Look at all that was exported before, then remember this one.
    void add(void *base);
    // Look at the next one. A fraction of a microsecond.
    void look();

private:
    using Map = std::map<void *, uint64_t>;
    // Takes `entry` out and tells the hook if its memory is gone; gives the entry that follows.
    Map::iterator check(Map::iterator entry, std::unique_lock<std::mutex> &lock);

    const Driver &driver_;
    std::mutex mutex_; // guards what follows
    Hook hook_;
    Map exported_; // base -> generation
    void *next_ = nullptr;
};

} // namespace sdma::gpu::nvidia
