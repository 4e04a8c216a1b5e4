// SPDX-License-Identifier: BSD-3-Clause
//
// What all workers of the process share: counters, the packet trace, the chaos seed, the packet
// number at which a fault strikes. Everything here is thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "packet.hpp"

namespace simnode {

struct Counts {
    std::atomic<uint64_t> packets[static_cast<size_t>(Op::count)];
    std::atomic<uint64_t> copied_bytes, doorbells, refused;
    std::atomic<uint64_t> dispatches, barriers, vendor;
    std::atomic<uint64_t> own_copy, own_fence, own_atomic, own_doorbells, own_copied_bytes;
};
Counts &counts();

// One line into the --trace file, if there is one.
bool tracing();
void trace(const std::string &line);

// Kills the process with SIGKILL at the packet or dispatch that --fault die names.
void maybe_die();

// Pseudo-random choices of one worker, from the chaos seed of the process and the worker's name,
// so that a run can be repeated. Follows sdma_simnode_reseed. One thread.
class Chaos {
public:
    explicit Chaos(uint64_t worker);
    // Chaos is on. Call once per packet: notices a new seed.
    bool on();
    // 0 .. below - 1; only while on.
    uint64_t pick(uint64_t below);
    bool one_in(uint64_t n) { return pick(n) == 0; }
    // Be late: mostly not at all, at times long enough for others to run ahead.
    void delay();

private:
    uint64_t worker_;
    uint64_t seed_ = 0;
    uint64_t state_ = 0;
};

} // namespace simnode
