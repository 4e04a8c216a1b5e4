// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "check.h"

namespace sdma::plan {
namespace {

sdma_work_peer packed(const Peer &peer) {
    return {peer.src,           peer.dst,           peer.bytes,           peer.arrival,
            peer.departure,     peer.arrival_value, peer.departure_value, peer.rank,
            uint32_t(peer.path)};
}

bool makes_sense(const Operation &operation) {
    if (operation.chunk_bytes == 0 || operation.chunk_bytes > packet::copy_limit ||
        operation.signal_kind > SDMA_SIGNAL_FENCE) {
        return false;
    }
    bool rings = std::ranges::all_of(operation.rings, [](uint64_t ring) { return ring != 0 && ring % 8 == 0; });
    return rings && std::ranges::all_of(operation.peers, [&](const Peer &peer) {
               return peer_ok(packed(peer), operation.signal_kind) &&
                      (peer.path == SDMA_PATH_LOADSTORE || peer.queue < operation.rings.size());
           });
}

sdma_work header(const Operation &operation) {
    sdma_work work{};
    work.magic = SDMA_WORK_MAGIC;
    work.version = SDMA_WORK_VERSION;
    work.queues = static_cast<uint32_t>(operation.rings.size());
    work.peers = static_cast<uint32_t>(operation.peers.size());
    work.record_bytes = static_cast<uint32_t>(record_bytes(work.queues, work.peers));
    work.queues_offset = sizeof(sdma_work);
    work.peers_offset = work.queues_offset + work.queues * static_cast<uint32_t>(sizeof(sdma_work_queue));
    work.kind = operation.kind;
    work.sequence = operation.sequence;
    work.slot = operation.slot;
    work.signal_kind = operation.signal_kind;
    work.chunk_bytes = operation.chunk_bytes;
    work.spin_budget = operation.spin_budget;
    work.kernel_signals = operation.kernel_signals ? 1 : 0;
    work.resident_copies = operation.resident_copies ? 1 : 0;
    work.status = SDMA_WORK_OPEN;
    return work;
}

// Append those peers that `wanted` accepts; returns how many.
template <typename Wanted>
uint32_t append(std::span<const Peer> peers, sdma_work_peer *all, uint32_t first, Wanted wanted) {
    uint32_t next = first;
    for (const Peer &peer : peers) {
        if (wanted(peer)) {
            all[next++] = packed(peer);
        }
    }
    return next - first;
}

} // namespace

enum sdma_path choose_path(uint64_t bytes, uint64_t loadstore_max, bool queue) {
    if (!queue) {
        return SDMA_PATH_LOADSTORE;
    }
    return bytes != 0 && bytes <= loadstore_max ? SDMA_PATH_LOADSTORE : SDMA_PATH_ENGINE;
}

uint32_t workgroups(uint64_t bytes, int most) {
    constexpr uint64_t each = 32 * 1024;
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(copies(bytes, each), 1, static_cast<uint64_t>(std::max(most, 1))));
}

uint64_t clamp_chunk(uint64_t asked) { return std::clamp<uint64_t>(asked / 32 * 32, 4096, packet::copy_limit); }

uint64_t spin_budget(uint64_t milliseconds, Initiator initiator) {
    uint64_t per_millisecond = initiator == Initiator::gpu ? 1000 : 10000;
    uint64_t most = std::numeric_limits<uint64_t>::max();
    return milliseconds > most / per_millisecond ? most : milliseconds * per_millisecond;
}

uint64_t packet_dwords(const sdma_work_peer &peer, uint64_t chunk_bytes, uint32_t signal_kind) {
    return copies(peer.bytes, chunk_bytes) * packet::Copy::dwords + signal_dwords(peer, signal_kind);
}

size_t record_bytes(size_t queues, size_t peers) {
    constexpr size_t most = std::numeric_limits<uint32_t>::max();
    if (queues > most / sizeof(sdma_work_queue) || peers > most / sizeof(sdma_work_peer)) {
        return 0;
    }
    size_t bytes = sizeof(sdma_work) + queues * sizeof(sdma_work_queue) + peers * sizeof(sdma_work_peer);
    return bytes <= most ? bytes : 0;
}

struct sdma_work *build(const Operation &operation, std::span<std::byte> record) {
    size_t bytes = record_bytes(operation.rings.size(), operation.peers.size());
    if (bytes == 0 || record.size() < bytes || reinterpret_cast<uintptr_t>(record.data()) % 8 != 0 ||
        !makes_sense(operation)) {
        return nullptr;
    }
    sdma_work work = header(operation);
    auto *queues = reinterpret_cast<sdma_work_queue *>(record.data() + work.queues_offset);
    auto *peers = reinterpret_cast<sdma_work_peer *>(record.data() + work.peers_offset);
    uint32_t next = 0;
    for (uint32_t q = 0; q < work.queues; ++q) {
        uint32_t count = append(operation.peers, peers, next,
                                [q](const Peer &peer) { return peer.path == SDMA_PATH_ENGINE && peer.queue == q; });
        queues[q] = {operation.rings[q], next, count};
        next += count;
    }
    append(operation.peers, peers, next, [](const Peer &peer) { return peer.path == SDMA_PATH_LOADSTORE; });
    std::memcpy(record.data(), &work, sizeof work);
    return reinterpret_cast<struct sdma_work *>(record.data());
}

} // namespace sdma::plan
