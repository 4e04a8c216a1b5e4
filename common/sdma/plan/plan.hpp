// SPDX-License-Identifier: BSD-3-Clause
//
// From "these bytes to these peers" to a work record. Pure functions: no GPU, no parameters read,
// no memory allocated. What kernels need of it is in layout.h and check.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "layout.h"
#include "work.h"

namespace sdma::plan {

// How a peer's bytes travel. Nothing to move has only signals, which the engine raises where there
// is a queue; `queue` says whether the peer has one.
enum sdma_path choose_path(uint64_t bytes, uint64_t loadstore_max, bool queue);

// How many workgroups copy `bytes`, those of all load/store peers together; 1 to `most`. More than they
// are worth only start late (2 x H200, two blocks, us by workgroups 1/4/8/16: 16 KiB 13.3 and up, 64 KiB
// 17.1/15.0/15.9/15.0, 256 KiB 25.7/17.4/17.0/15.2, 4 MiB 195/60.6/40.3/26.7).
uint32_t workgroups(uint64_t bytes, int most);

// The most one COPY moves, from what the user asked for: whole 32-byte units (ROCr's own limit is
// one), at least 4 KiB, at most packet::copy_limit.
uint64_t clamp_chunk(uint64_t asked);

// Polls that last at least `milliseconds`. A poll of a kernel is a read across the bus (about a
// microsecond; measured in public on MI355X: 2600 cycles); one of the host yields the processor,
// which takes at least 0.1 microseconds.
enum class Initiator : uint8_t { gpu, host };
uint64_t spin_budget(uint64_t milliseconds, Initiator initiator);

// Dwords of a peer's engine packets.
uint64_t packet_dwords(const sdma_work_peer &peer, uint64_t chunk_bytes, uint32_t signal_kind);

struct Peer {
    uint64_t src = 0, dst = 0; // device addresses
    uint64_t bytes = 0;
    uint64_t arrival = 0, departure = 0; // signal words; 0 = none
    uint64_t arrival_value = 0, departure_value = 0;
    uint32_t rank = 0;
    enum sdma_path path = SDMA_PATH_ENGINE;
    uint32_t queue = 0; // index into rings; ignored for load/store
};

struct Operation {
    uint32_t kind = 0; // sdma_kind_t
    uint64_t sequence = 0;
    uint32_t slot = 0;
    enum sdma_signal_kind signal_kind = SDMA_SIGNAL_ATOMIC;
    uint64_t chunk_bytes = 0; // as clamp_chunk() gave it
    uint64_t spin_budget = 0;
    bool kernel_signals = false;
    bool resident_copies = false;
    std::span<const uint64_t> rings; // device addresses of struct sdma_ring, one per queue
    std::span<const Peer> peers;     // any order
};

// Bytes of a record; 0 if it would not fit into 32 bits.
size_t record_bytes(size_t queues, size_t peers);

// Fill `record` (8-byte aligned, at least record_bytes()), status open. The peers of a queue become
// consecutive in the order given; load/store peers come last. Returns nullptr, with nothing
// written that makes a valid record, if the description makes no sense: no room, a queue that does
// not exist, a copy that wraps around 2^64, a misaligned signal word, a value a FENCE cannot store.
struct sdma_work *build(const Operation &operation, std::span<std::byte> record);

} // namespace sdma::plan
