// SPDX-License-Identifier: BSD-3-Clause
//
// How a peer's bytes become packets and reservations, and how a load/store copy is shared out:
// pure functions, used by the kernels and by the planner alike.
#pragma once

#include <stdint.h>

#include "../packet/packet.h"
#include "work.h"

namespace sdma::plan {

// COPY packets for `bytes`, none for nothing. `chunk` is not zero.
SDMA_ANYWHERE constexpr uint64_t copies(uint64_t bytes, uint64_t chunk) {
    return bytes == 0 ? 0 : (bytes - 1) / chunk + 1;
}

SDMA_ANYWHERE constexpr uint32_t signal_dwords(const sdma_work_peer &peer, uint32_t signal_kind) {
    uint32_t one = signal_kind == SDMA_SIGNAL_FENCE ? packet::Fence::dwords : packet::Atomic::dwords;
    return (peer.arrival != 0 ? one : 0) + (peer.departure != 0 ? one : 0);
}

// What the next reservation of a peer holds. Everything, if it fits; else as many copies as fit,
// but the last copy stays for the reservation that has the signals.
struct Segment {
    uint64_t copies;
    uint32_t signals; // 1: both signals follow the copies, the peer is finished
    uint64_t dwords;
};

SDMA_ANYWHERE constexpr Segment next_segment(uint64_t copies_left, uint32_t signal_dwords, uint64_t most_dwords) {
    uint64_t with_signals = (most_dwords - signal_dwords) / packet::Copy::dwords;
    if (copies_left <= with_signals) {
        return {copies_left, 1, copies_left * packet::Copy::dwords + signal_dwords};
    }
    uint64_t most = most_dwords / packet::Copy::dwords;
    uint64_t now = most < copies_left - 1 ? most : copies_left - 1;
    return {now, 0, now * packet::Copy::dwords};
}

// A load/store copy is shared out in tiles; a tile is one 16-byte access of 256 lanes.
inline constexpr uint64_t tile_bytes = 4096;
// Where waves of a workgroup share: one 16-byte access of 32 lanes.
inline constexpr uint64_t wave_tile_bytes = 512;

SDMA_ANYWHERE constexpr uint64_t tiles(uint64_t bytes) { return copies(bytes, tile_bytes); }

// Part `index` of `parts` (not zero) of `total` items: [begin, end), sizes differ by at most one.
struct Share {
    uint64_t begin, end;
};

SDMA_ANYWHERE constexpr Share share(uint64_t total, uint64_t parts, uint64_t index) {
    uint64_t each = total / parts, more = total % parts;
    uint64_t begin = index * each + (index < more ? index : more);
    return {begin, begin + each + (index < more ? 1 : 0)};
}

} // namespace sdma::plan
