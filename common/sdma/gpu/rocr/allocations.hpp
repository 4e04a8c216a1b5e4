// SPDX-License-Identifier: BSD-3-Clause
//
// Which allocation of the application a pointer belongs to, and the number that tells it apart
// from an earlier one at the same address.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "../gpu.hpp"
#include "system.hpp"

namespace sdma::gpu::rocr {

// Every device allocation seen so far and not freed since. ROCr's deallocation callback takes an
// entry out: it runs inside the free, before the address can be given to anybody else. A pointer
// inside a known allocation is therefore answered without asking ROCr. Thread-safe.
//
// The callback is ours as long as the object lives; nobody may be freeing device memory when it is
// destroyed.
class Allocations {
public:
    explicit Allocations(const System &system) : system_(system) {}
    ~Allocations();

    Range classify(const void *address);
    void on_free(std::function<void(void *base, uint64_t generation)> hook);

private:
    static void freed(void *base, void *allocations);
    bool known(const void *address, Range &range) const; // needs the lock
    Range ask(const void *address) const;

    const System &system_;
    std::mutex mutex_;
    std::map<uintptr_t, Range> live_; // by base
    std::function<void(void *, uint64_t)> hook_;
};

} // namespace sdma::gpu::rocr
