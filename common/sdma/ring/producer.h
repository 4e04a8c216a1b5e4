// SPDX-License-Identifier: BSD-3-Clause
//
// What a producer does with a ring; one source for kernels and for the host.
//
//   try_reserve   claim bytes by compare-and-swap on `reserve`; the pad to the ring's start, where
//                 one is needed, is part of the claim: a packet never straddles the end
//   write         pad and packets into the claim
//   try_publish   when all earlier claims are published: drain, write pointer, drain, doorbell,
//                 drain, commit
//
// Any number of producers of one kind (all host threads, or all lanes of kernels of one device).
// Nothing here waits: the two try_ functions are polled. Lanes of one wave that share a ring must
// poll both in one loop that none of them leaves alone, or they wait for each other for ever.
// After try_reserve succeeded, write and try_publish must follow: a claim cannot be given back.
#pragma once

#include "../../../kernels/device.h"
#include "../../../kernels/mutants.h"
#include "../packet/packet.h"
#include "ring.h"

namespace sdma::ring {

enum class Attempt : uint32_t {
    done,
    again,  // somebody else came first; things move
    blocked // poll again
};

// Monotonic byte counts: [base, start) is pad, [start, end) packets.
struct Reservation {
    uint64_t base, start, end;
};

// The most bytes that fit at every position of an empty ring, pad included.
SDMA_ANYWHERE constexpr uint64_t most_bytes(uint64_t ring_bytes) { return ring_bytes / 2; }

SDMA_ANYWHERE constexpr bool usable(const sdma_ring &ring) {
    return ring.bytes >= 256 && (ring.bytes & (ring.bytes - 1)) == 0 && ring.base != 0 && ring.read_pointer != 0 &&
           ring.write_pointer != 0 && ring.doorbell != 0 && ring.cursors != 0;
}

// Producers' state for a queue whose write pointer is `write_pointer` now: cursors that start
// anywhere else make the engine see a backlog of nearly 2^64 bytes. Whoever made the queue puts it
// at ring.cursors before the first producer comes.
SDMA_ANYWHERE constexpr sdma_ring_cursors cursors_at(uint64_t write_pointer, uint64_t read_pointer) {
    sdma_ring_cursors cursors{};
    cursors.reserve = cursors.commit = write_pointer;
    cursors.cached_read = read_pointer;
    return cursors;
}

SDMA_ANYWHERE constexpr Reservation place(uint64_t base, uint64_t bytes, uint64_t ring_bytes) {
    uint64_t room = ring_bytes - (base & (ring_bytes - 1));
    uint64_t start = bytes <= room || mutant::no_pad ? base : base + room;
    return {base, start, start + bytes};
}

// Strictly less, as ROCr has it. A read pointer beyond `end` (a stale base) does not fit either.
SDMA_ANYWHERE constexpr bool fits(uint64_t end, uint64_t read, uint64_t ring_bytes) { return end - read < ring_bytes; }

SDMA_DEVICE uint64_t cursor(const sdma_ring &ring, uint64_t offset) { return ring.cursors + offset; }
inline constexpr uint64_t reserve_offset = __builtin_offsetof(sdma_ring_cursors, reserve);
inline constexpr uint64_t commit_offset = __builtin_offsetof(sdma_ring_cursors, commit);
inline constexpr uint64_t cached_read_offset = __builtin_offsetof(sdma_ring_cursors, cached_read);

// A copy of the description at `address`, which kernels keep in registers.
SDMA_DEVICE sdma_ring describe(uint64_t address) {
    return {device::load_system(address + __builtin_offsetof(sdma_ring, base)),
            device::load_system(address + __builtin_offsetof(sdma_ring, bytes)),
            device::load_system(address + __builtin_offsetof(sdma_ring, read_pointer)),
            device::load_system(address + __builtin_offsetof(sdma_ring, write_pointer)),
            device::load_system(address + __builtin_offsetof(sdma_ring, doorbell)),
            device::load_system(address + __builtin_offsetof(sdma_ring, cursors))};
}

// `bytes`: a multiple of 4, at most most_bytes(). When blocked, `seen` is the read pointer.
SDMA_DEVICE Attempt try_reserve(const sdma_ring &ring, uint64_t bytes, Reservation &reservation, uint64_t &seen) {
    reservation = place(device::peek_cursor(cursor(ring, reserve_offset)), bytes, ring.bytes);
    if (!fits(reservation.end, device::load_cursor(cursor(ring, cached_read_offset)), ring.bytes)) {
        seen = device::load_system(ring.read_pointer);
        if (!fits(reservation.end, seen, ring.bytes)) {
            return Attempt::blocked;
        }
        device::store_cursor(cursor(ring, cached_read_offset), seen);
    }
    bool mine = device::swap_cursor(cursor(ring, reserve_offset), reservation.base, reservation.end);
    return mine ? Attempt::done : Attempt::again;
}

// Where the next dword goes. A claim does not straddle the end, so packets are written straight on.
struct Writer {
    uint64_t address;
};

template <uint32_t N> SDMA_DEVICE void put(Writer &writer, const packet::Packet<N> &packet) {
    for (uint32_t i = 0; i < N; ++i) {
        device::store_system_dword(writer.address + i * 4, packet.dw[i]);
    }
    writer.address += packet.size();
}

SDMA_DEVICE uint64_t address_of(const sdma_ring &ring, uint64_t count) {
    return ring.base + (count & (ring.bytes - 1));
}

// Fill the pad and hand out a writer for the packets. The pad is one-dword NOPs: no count field
// that a long tail could overflow, and no old content left for a decoder to trip over.
SDMA_DEVICE Writer begin(const sdma_ring &ring, const Reservation &reservation) {
    Writer pad{address_of(ring, reservation.base)};
    for (uint64_t at = reservation.base; at != reservation.start; at += 4) {
        put(pad, packet::nop(1));
    }
    return {address_of(ring, reservation.start)};
}

SDMA_DEVICE void wait_stores(uint64_t last_dword) {
    if constexpr (!mutant::no_drain) {
        device::drain_ring(last_dword);
    }
}

// The audited sequence. The packets are in memory before the write pointer (a scheduler reloads
// a queue from it without any doorbell), that before the doorbell, and the doorbell has left
// before the next producer may ring, so that doorbell values never fall.
SDMA_DEVICE void publish(const sdma_ring &ring, const Reservation &reservation) {
    wait_stores(address_of(ring, reservation.end - 4));
    if constexpr (mutant::doorbell_first) {
        device::store_doorbell(ring.doorbell, reservation.end);
        device::drain();
        device::store_system(ring.write_pointer, reservation.end);
    } else {
        device::store_system(ring.write_pointer, reservation.end);
        device::drain_write_pointer();
        device::store_doorbell(ring.doorbell, reservation.end);
    }
    device::drain_doorbell();
    device::store_cursor(cursor(ring, commit_offset), reservation.end);
}

// When blocked, `seen` is the commit cursor.
SDMA_DEVICE Attempt try_publish(const sdma_ring &ring, const Reservation &reservation, uint64_t &seen) {
    seen = device::load_cursor(cursor(ring, commit_offset));
    if (seen != reservation.base) {
        return Attempt::blocked;
    }
    publish(ring, reservation);
    return Attempt::done;
}

// Bounds a wait by polls without progress.
struct Patience {
    uint64_t budget;
    uint64_t seen;
    uint64_t polls;
};

SDMA_DEVICE bool keep_waiting(Patience &patience, uint64_t seen) {
    if (seen != patience.seen) {
        patience.seen = seen;
        patience.polls = 0;
    }
    return ++patience.polls <= patience.budget;
}

} // namespace sdma::ring
