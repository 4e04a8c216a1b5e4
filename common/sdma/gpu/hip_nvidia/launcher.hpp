// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel launches on one GPU: a stream of its own (and one for the resident kernel, one at a time), and a pinned word
// per launch that the kernel writes last. Polling it costs one load (an event costs 1.6 us more per exchange, 2 x
// H200).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "arguments.h"
#include "driver.hpp"
#include "pinned.hpp"

namespace sdma::gpu::nvidia {

class Launcher {
public:
    // nullptr (logged) if the library has no kernels for `target` or CUDA refuses. `driver` outlives it.
    static std::unique_ptr<Launcher> make(const Driver &driver, CUcontext context, const std::string &target);
    ~Launcher();

    // As Runtime's functions of these names; a launch is numbered from 1 up. Thread-safe.
    Status launch(Kernel kernel, uint32_t workgroups, const void *argument, uint64_t &launch);
    Status finished(uint64_t launch);

private:
    // Well below what CUDA queues before a launch blocks.
    static constexpr uint32_t slots = 128;
    static constexpr uint32_t resident_slot = slots; // one more
    static constexpr unsigned slot_bits = 8;         // of a launch's number: slot + 1; above it the slot's round
    static_assert(slots + 1 < (1u << slot_bits));
    // One slot's word, on a cache line of its own: 0 while its kernel runs.
    struct alignas(64) Done {
        uint64_t word;
    };

    Launcher(const Driver &driver, CUcontext context) : driver_(driver), context_(context) {}
    bool prepare(const std::string &target);
    bool done(uint32_t slot) const { return std::atomic_ref(done_[slot].word).load(std::memory_order_acquire) != 0; }
    Status started(uint32_t slot, CUresult result, uint64_t &launch);
    Status launch_resident(const void *mailbox, uint64_t &launch);
    template <typename Arguments>
    CUresult start(CUfunction function, uint32_t workgroups, Kernel kernel, const Arguments &arguments);

    const Driver &driver_;
    const CUcontext context_;
    CUmodule module_ = nullptr;
    CUstream stream_ = nullptr, resident_stream_ = nullptr;
    CUfunction resident_ = nullptr;
    CUfunction issue_small_ = nullptr, issue_large_ = nullptr, copy_small_ = nullptr, copy_large_ = nullptr;
    Pinned words_;
    Done *done_ = nullptr; // in words_
    CUdeviceptr counter_ = 0;

    std::mutex mutex_;                         // guards what follows
    std::array<uint64_t, slots + 1> rounds_{}; // launches so far, by slot
    uint32_t next_ = 0;
    uint32_t polls_ = 0;
};

} // namespace sdma::gpu::nvidia
