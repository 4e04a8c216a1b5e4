// SPDX-License-Identifier: BSD-3-Clause
//
// One ring served by the runtime's copies: the software consumer of the ring protocol.
//
//   doorbell, write pointer --> decode --> Stream::copy, Stream::store (in ring order) --> read pointer
//
// One queue is one in-order stream, so a signal can never pass the copies before it. Queues to
// different peers are different streams, which overlap. Copy packets that continue each other become
// one copy again: producers split at the hardware's limit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "../gpu/gpu.hpp"
#include "../ring/ring.h"
#include "proxy_decode.hpp"

namespace sdma::engine::proxy {

class Line {
public:
    // `ring` and what it points at stay valid while the line lives. `label` names the queue in log lines.
    Line(std::shared_ptr<gpu::Runtime> runtime, std::unique_ptr<gpu::Stream> stream, const struct sdma_ring *ring,
         std::string label);
    ~Line();

    // Hand what the doorbell announces to the stream. True if anything was consumed. Any thread;
    // false at once while another one serves, after close(), and after a fault.
    bool serve();

    // End serving and wait until the runtime is through with what it was given, `timeout_ms` at
    // most. False: bytes may still move; the line and its ring must be kept for ever.
    bool close(int timeout_ms);

    bool closing() const { return closing_.load(std::memory_order_acquire); }

private:
    class Turn;
    bool consume(uint64_t rung);
    gpu::Status execute(const Command &command);
    gpu::Status copy(const Command &command);
    gpu::Status copy_held();
    gpu::Status signal(uint64_t address, uint64_t value, uint32_t width);
    gpu::Status signal_by_copy(uint64_t address, uint64_t value, uint32_t width);
    gpu::Status raise(uint64_t address, uint64_t amount);
    bool settle(std::chrono::steady_clock::time_point deadline);
    bool passes(gpu::Status status);
    bool check(gpu::Status status, const char *what);
    void refuse(uint64_t offset, uint64_t dwords);

    const std::shared_ptr<gpu::Runtime> runtime_;
    const std::unique_ptr<gpu::Stream> stream_;
    const struct sdma_ring ring_;
    const std::string label_;

    std::atomic<bool> closing_{false};
    alignas(64) std::atomic<bool> serving_{false}; // whoever set it may touch what follows
    alignas(64) bool stopped_ = false;
    bool submitted_ = true; // what the stream has gathered
    bool shortage_logged_ = false;
    uint64_t read_;
    Command held_;                                  // copies that follow on each other, not yet given to the stream
    std::unordered_map<uint64_t, uint64_t> raised_; // words that ATOMICs raised here -> last value, on its way
    uint64_t raised_mark_ = 0;                      // all of it is there
    bool raised_marked_ = false;

    // Values on their way to signal words where the runtime cannot store by itself.
    static constexpr uint64_t staged_values = 512;
    uint64_t *staging_ = nullptr;
    uint64_t staged_ = 0;
    uint64_t staging_mark_ = 0;
    bool staging_marked_ = false;
};

} // namespace sdma::engine::proxy
