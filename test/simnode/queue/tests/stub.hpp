// SPDX-License-Identifier: BSD-3-Clause
//
// A thunk side for tests of the queue side: plain memory, of which some is accessible to the GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test/simnode/simnode.hpp"

namespace stub {

// Memory that the GPU may use, page-aligned, zeroed; not any more after destruction.
class Gpu_memory {
public:
    explicit Gpu_memory(size_t bytes);
    ~Gpu_memory();
    Gpu_memory(const Gpu_memory &) = delete;
    Gpu_memory &operator=(const Gpu_memory &) = delete;
    uint8_t *data() const { return data_; }
    uint64_t address(size_t offset = 0) const { return reinterpret_cast<uintptr_t>(data_) + offset; }
    template <typename T> T *at(size_t offset) const { return reinterpret_cast<T *>(data_ + offset); }
    // Take it from the GPU, keep it for the test.
    void unmap();

private:
    uint8_t *data_;
    size_t bytes_;
};

// Options and faults as the code under test sees them; reset by each test.
simnode::Options &options();
// What simnode::complain was told since the last clear(), and which events were set.
std::vector<std::string> complaints();
std::vector<uint32_t> events();
void clear();

// Waits for a condition, for ten seconds at most: false if it did not come true.
template <typename Condition> bool eventually(Condition condition) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::yield();
    }
    return true;
}

} // namespace stub
