// SPDX-License-Identifier: BSD-3-Clause
//
// The load/store path: all LOADSTORE peers of a record, copied by one grid. The tiles of all peers
// form one line that is shared out evenly among the workgroups.
#pragma once

#include "../common/sdma/plan/check.h"
#include "../common/sdma/plan/layout.h"
#include "device.h"

namespace sdma {
namespace copying {

SDMA_DEVICE const sdma_work_peer *peers_of(const sdma_work *work) {
    return reinterpret_cast<const sdma_work_peer *>(reinterpret_cast<const char *>(work) + work->peers_offset);
}

// Those who copy together: a workgroup, or a wave of one.
struct Group {
    uint64_t lane, lanes;
};

// `count` units from src to dst, four in flight per lane.
template <typename T> SDMA_DEVICE void copy_units(uint64_t src, uint64_t dst, uint64_t count, Group group) {
    uint64_t lanes = group.lanes;
    uint64_t i = group.lane;
    for (; i + 3 * lanes < count; i += 4 * lanes) {
        T a = device::load<T>(src + i * sizeof(T));
        T b = device::load<T>(src + (i + lanes) * sizeof(T));
        T c = device::load<T>(src + (i + 2 * lanes) * sizeof(T));
        T d = device::load<T>(src + (i + 3 * lanes) * sizeof(T));
        device::store<T>(dst + i * sizeof(T), a);
        device::store<T>(dst + (i + lanes) * sizeof(T), b);
        device::store<T>(dst + (i + 2 * lanes) * sizeof(T), c);
        device::store<T>(dst + (i + 3 * lanes) * sizeof(T), d);
    }
    for (; i < count; i += lanes) {
        device::store<T>(dst + i * sizeof(T), device::load<T>(src + i * sizeof(T)));
    }
}

// Bytes up to the first aligned unit, units, bytes. src and dst are congruent modulo sizeof(T).
template <typename T> SDMA_DEVICE void copy_as(uint64_t src, uint64_t dst, uint64_t bytes, Group group) {
    uint64_t head = (0 - dst) % sizeof(T);
    head = head < bytes ? head : bytes;
    uint64_t units = (bytes - head) / sizeof(T);
    uint64_t tail = head + units * sizeof(T);
    copy_units<uint8_t>(src, dst, head, group);
    copy_units<T>(src + head, dst + head, units, group);
    copy_units<uint8_t>(src + tail, dst + tail, bytes - tail, group);
}

SDMA_DEVICE void copy_bytes(uint64_t src, uint64_t dst, uint64_t bytes, Group group) {
    uint64_t differ = src ^ dst;
    if (differ % 16 == 0) {
        copy_as<device::Vector>(src, dst, bytes, group);
    } else if (differ % 8 == 0) {
        copy_as<uint64_t>(src, dst, bytes, group);
    } else if (differ % 4 == 0) {
        copy_as<uint32_t>(src, dst, bytes, group);
    } else {
        copy_units<uint8_t>(src, dst, bytes, group);
    }
}

// Peers that this kernel serves; the engine's are skipped.
SDMA_DEVICE bool mine(const sdma_work_peer &peer) { return peer.path == SDMA_PATH_LOADSTORE; }

// Tiles of all peers, or false if one of them makes no sense.
SDMA_DEVICE bool count_tiles(const sdma_work *work, uint64_t &tiles, uint64_t tile = plan::tile_bytes) {
    const sdma_work_peer *peers = peers_of(work);
    tiles = 0;
    for (uint32_t p = 0; p < work->peers; ++p) {
        if (mine(peers[p])) {
            if (!plan::peer_ok(peers[p], work->signal_kind)) {
                return false;
            }
            tiles += plan::copies(peers[p].bytes, tile);
        }
    }
    return true;
}

// What of [share.begin, share.end) falls into each peer.
SDMA_DEVICE void copy_share(const sdma_work *work, plan::Share share, Group group, uint64_t tile = plan::tile_bytes) {
    const sdma_work_peer *peers = peers_of(work);
    uint64_t first = 0; // tile of the line that the peer starts at
    for (uint32_t p = 0; p < work->peers && first < share.end; ++p) {
        if (!mine(peers[p])) {
            continue;
        }
        uint64_t bytes = peers[p].bytes;
        uint64_t next = first + plan::copies(bytes, tile);
        if (share.begin < next && bytes != 0) {
            uint64_t from = (share.begin > first ? share.begin - first : 0) * tile;
            uint64_t to = share.end < next ? (share.end - first) * tile : bytes;
            copy_bytes(peers[p].src + from, peers[p].dst + from, to - from, group);
        }
        first = next;
    }
}

// Only the last lane of the grid. Returns whether the record has engine peers as well.
SDMA_DEVICE bool raise_signals(const sdma_work *work) {
    const sdma_work_peer *peers = peers_of(work);
    bool engine = false;
    for (uint32_t p = 0; p < work->peers; ++p) {
        if (!mine(peers[p])) {
            engine = true;
            continue;
        }
        if (peers[p].arrival != 0) {
            device::store_system(peers[p].arrival, peers[p].arrival_value);
        }
        if (peers[p].departure != 0) {
            device::store_system(peers[p].departure, peers[p].departure_value);
        }
    }
    return engine;
}

} // namespace copying

// Every lane of the grid. With kernel_signals the last lane raises the signals, each with one
// store, and sets the status if no issue kernel will; without, the end of the kernel is the news.
SDMA_DEVICE void copy(sdma_work *work) {
    using namespace copying;
    uint64_t tiles = 0;
    if (!plan::record_ok(*work) || !count_tiles(work, tiles)) {
        if (device::workgroup() == 0 && device::lane() == 0) {
            device::store_system(reinterpret_cast<uint64_t>(&work->status), SDMA_WORK_BAD);
        }
        return;
    }
    copy_share(work, plan::share(tiles, device::workgroups(), device::workgroup()), {device::lane(), device::lanes()});
    if (work->kernel_signals == 0) {
        return;
    }
    if (device::last_of_grid(reinterpret_cast<uint64_t>(&work->workgroups_done))) {
        device::release_system_and_drain();
        if (!raise_signals(work)) {
            device::drain();
            device::store_system(reinterpret_cast<uint64_t>(&work->status), SDMA_WORK_ISSUED);
        }
    }
}

} // namespace sdma
