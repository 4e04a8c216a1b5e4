// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a work record makes sense. Initiators ask before they encode anything: a wrong field
// would become a wild copy.
#pragma once

#include <stdint.h>

#include "../packet/packet.h"
#include "work.h"

namespace sdma::plan {

SDMA_ANYWHERE constexpr bool array_ok(uint32_t record_bytes, uint32_t offset, uint32_t count, uint32_t item_bytes) {
    return offset >= sizeof(sdma_work) && offset % 8 == 0 && offset + uint64_t{count} * item_bytes <= record_bytes;
}

SDMA_ANYWHERE constexpr bool record_ok(const sdma_work &work) {
    return work.magic == SDMA_WORK_MAGIC && work.version == SDMA_WORK_VERSION &&
           work.signal_kind <= SDMA_SIGNAL_FENCE && work.chunk_bytes >= 1 && work.chunk_bytes <= packet::copy_limit &&
           array_ok(work.record_bytes, work.queues_offset, work.queues, sizeof(sdma_work_queue)) &&
           array_ok(work.record_bytes, work.peers_offset, work.peers, sizeof(sdma_work_peer));
}

SDMA_ANYWHERE constexpr bool queue_ok(const sdma_work &work, const sdma_work_queue &queue) {
    return queue.ring != 0 && queue.ring % 8 == 0 && uint64_t{queue.first_peer} + queue.peers <= work.peers;
}

SDMA_ANYWHERE constexpr bool signal_ok(uint64_t address, uint64_t value, uint32_t signal_kind) {
    // a FENCE writes half the word; the other half is 0 from the start
    return address == 0 || (packet::atomic_ok(address) && (signal_kind == SDMA_SIGNAL_ATOMIC || value >> 32 == 0));
}

SDMA_ANYWHERE constexpr bool peer_ok(const sdma_work_peer &peer, uint32_t signal_kind) {
    return peer.path <= SDMA_PATH_LOADSTORE &&
           (peer.bytes == 0 || (packet::range_ok(peer.src, peer.bytes) && packet::range_ok(peer.dst, peer.bytes))) &&
           signal_ok(peer.arrival, peer.arrival_value, signal_kind) &&
           signal_ok(peer.departure, peer.departure_value, signal_kind);
}

} // namespace sdma::plan
