// SPDX-License-Identifier: BSD-3-Clause
//
// Executes decoded packets of one queue on memory.
//
// Without chaos a packet is complete when execute() returns. With chaos, what COPY, COPY_RECT, WRITE and FILL move is
// held back until an ATOMIC or FENCE of the same queue executes, and then lands in any order:
// engines promise no more, and nothing else tells that the bytes have arrived.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "packet.hpp"
#include "report.hpp"

namespace simnode {

class Executor {
public:
    // `stopped` ends a POLL_REGMEM that never comes true.
    Executor(unsigned gpu, Chaos &chaos, std::function<bool()> stopped);

    // `dwords`: the packet as fetched, for WRITE's payload. "" or what is wrong with it, in which
    // case nothing was executed.
    std::string execute(const Packet &packet, const uint32_t *dwords);
    // Let everything held back land; what became inaccessible meanwhile is complained about.
    std::string land();
    size_t held() const { return held_.size(); }

private:
    struct Held {
        Packet packet;
        std::vector<uint8_t> payload; // WRITE: its data; COPY: the source if it was read early
    };
    std::string refuse_inaccessible(const Packet &packet) const;
    void move(const Held &held) const;
    void hold_or_move(const Packet &packet, const uint32_t *dwords, bool chaotic);
    void poll(const Packet &packet) const;
    std::string signal(const Packet &packet, bool chaotic);

    unsigned gpu_;
    Chaos &chaos_;
    std::function<bool()> stopped_;
    std::vector<Held> held_;
};

// The counter that TIMESTAMP packets and kernel dispatches store, in the thunk's GPU clock.
uint64_t gpu_clock();

} // namespace simnode
