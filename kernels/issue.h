// SPDX-License-Identifier: BSD-3-Clause
//
// Turning a work record into packets: the one-shot kernel, the resident kernel and the CPU
// initiator all call issue(). Lane q serves queues q, q + lanes, ... and walks each queue's peers;
// per peer one reservation of COPY chunks + arrival + departure signal, or several where the
// ring is small, with the signals behind the last COPY. Peers without signals share the reservation
// of the next one that has some: many small copies, one doorbell.
//
// All lanes stay in one loop until the last is finished, and every turn of it does at most one
// try_reserve and one try_publish: lanes never wait for each other outside (see ring/producer.h).
#pragma once

#include "../common/sdma/plan/check.h"
#include "../common/sdma/plan/layout.h"
#include "../common/sdma/ring/producer.h"

namespace sdma {

struct Outcome {
    uint32_t status; // enum sdma_work_status: issued, ring stuck or bad
    uint64_t queue;  // the stuck one
};

namespace issuing {

enum class State : uint32_t { next_peer, reserve, publish, ended };

struct Walk {
    sdma_work head;  // its header: kept here, the record is far away
    uint32_t stride; // lanes
    State state;
    Outcome outcome;
    uint64_t queue, next_queue;
    uint32_t next_peer, peer_end; // of the queue
    sdma_ring ring;
    // the peer in hand
    sdma_work_peer peer;
    uint64_t copies_left;
    plan::Segment segment;
    uint32_t more_peers; // after the one in hand, with packets in the same reservation
    ring::Reservation reservation;
    ring::Patience patience;
};

template <typename T> SDMA_DEVICE const T &item(const sdma_work *work, uint32_t offset, uint64_t index) {
    return reinterpret_cast<const T *>(reinterpret_cast<const char *>(work) + offset)[index];
}

SDMA_DEVICE void end(Walk &walk, uint32_t status) {
    walk.state = State::ended;
    walk.outcome = {status, walk.queue};
}

// Let the next peers into the reservation, up to the first that has signals.
SDMA_DEVICE void gather(Walk &walk, const sdma_work *work) {
    uint64_t room = ring::most_bytes(walk.ring.bytes) / 4 - walk.segment.dwords;
    bool last = plan::signal_dwords(walk.peer, walk.head.signal_kind) != 0;
    while (!last && walk.next_peer + walk.more_peers != walk.peer_end) {
        const auto &next = item<sdma_work_peer>(work, walk.head.peers_offset, walk.next_peer + walk.more_peers);
        uint32_t signals = plan::signal_dwords(next, walk.head.signal_kind);
        uint64_t copies = plan::copies(next.bytes, walk.head.chunk_bytes);
        // What does not fit or makes no sense gets, or fails, a reservation of its own.
        if (next.path == SDMA_PATH_LOADSTORE || !plan::peer_ok(next, walk.head.signal_kind) ||
            copies > room / packet::Copy::dwords || copies * packet::Copy::dwords + signals > room) {
            return;
        }
        room -= copies * packet::Copy::dwords + signals;
        walk.segment.dwords += copies * packet::Copy::dwords + signals;
        walk.more_peers++;
        last = signals != 0;
    }
}

// The next reservation of the peer in hand: right, or with a deliberate mistake.
SDMA_DEVICE void cut(Walk &walk, const sdma_work *work) {
    uint32_t signals = plan::signal_dwords(walk.peer, walk.head.signal_kind);
    if (mutant::two_reservations && walk.copies_left != 0) {
        walk.segment = {walk.copies_left, 0, walk.copies_left * packet::Copy::dwords};
    } else {
        walk.segment = plan::next_segment(walk.copies_left, signals, ring::most_bytes(walk.ring.bytes) / 4);
    }
    walk.more_peers = 0;
    if (walk.segment.dwords != 0 && walk.segment.signals != 0) {
        gather(walk, work);
    }
    walk.state = walk.segment.dwords != 0 ? State::reserve : State::next_peer;
    walk.patience = {walk.head.spin_budget, 0, 0};
}

SDMA_DEVICE bool open_queue(Walk &walk, const sdma_work *work) {
    const auto &queue = item<sdma_work_queue>(work, walk.head.queues_offset, walk.queue);
    if (!plan::queue_ok(walk.head, queue)) {
        return false;
    }
    walk.next_peer = queue.first_peer;
    walk.peer_end = queue.first_peer + queue.peers;
    walk.ring = ring::describe(queue.ring);
    return ring::usable(walk.ring);
}

// Take the next peer in hand, of this queue or the next; or end.
SDMA_DEVICE void take_peer(Walk &walk, const sdma_work *work) {
    if (walk.next_peer == walk.peer_end) {
        walk.queue = walk.next_queue;
        walk.next_queue += walk.stride;
        if (walk.queue >= walk.head.queues) {
            end(walk, SDMA_WORK_ISSUED);
        } else if (!open_queue(walk, work)) {
            end(walk, SDMA_WORK_BAD);
        }
        return;
    }
    walk.peer = item<sdma_work_peer>(work, walk.head.peers_offset, walk.next_peer++);
    if (walk.peer.path == SDMA_PATH_LOADSTORE) {
        return;
    }
    if (!plan::peer_ok(walk.peer, walk.head.signal_kind)) {
        end(walk, SDMA_WORK_BAD);
        return;
    }
    walk.copies_left = plan::copies(walk.peer.bytes, walk.head.chunk_bytes);
    cut(walk, work);
}

SDMA_DEVICE void put_signal(ring::Writer &writer, uint64_t address, uint64_t value, uint32_t signal_kind) {
    if (address == 0) {
        return;
    }
    if (signal_kind == SDMA_SIGNAL_FENCE) {
        put(writer, packet::fence(address, packet::low(value)));
    } else {
        put(writer, packet::atomic_add(address, 1));
    }
}

SDMA_DEVICE void put_signals(const Walk &walk, ring::Writer &writer) {
    if (walk.segment.signals != 0) {
        put_signal(writer, walk.peer.arrival, walk.peer.arrival_value, walk.head.signal_kind);
        put_signal(writer, walk.peer.departure, walk.peer.departure_value, walk.head.signal_kind);
    }
}

SDMA_DEVICE void put_copies(Walk &walk, ring::Writer &writer) {
    for (uint64_t i = 0; i < walk.segment.copies; ++i) {
        uint64_t bytes = walk.peer.bytes < walk.head.chunk_bytes ? walk.peer.bytes : walk.head.chunk_bytes;
        put(writer, packet::copy(walk.peer.src, walk.peer.dst, bytes));
        walk.peer.src += bytes;
        walk.peer.dst += bytes;
        walk.peer.bytes -= bytes;
    }
    walk.copies_left -= walk.segment.copies;
}

SDMA_DEVICE void put_peer(Walk &walk, ring::Writer &writer) {
    if constexpr (mutant::signal_first) {
        put_signals(walk, writer);
        put_copies(walk, writer);
    } else {
        put_copies(walk, writer);
        put_signals(walk, writer);
    }
}

SDMA_DEVICE void write_packets(Walk &walk, const sdma_work *work) {
    ring::Writer writer = ring::begin(walk.ring, walk.reservation);
    put_peer(walk, writer);
    for (; walk.more_peers != 0; walk.more_peers--) {
        walk.peer = item<sdma_work_peer>(work, walk.head.peers_offset, walk.next_peer++);
        walk.copies_left = walk.segment.copies = plan::copies(walk.peer.bytes, walk.head.chunk_bytes);
        put_peer(walk, writer);
    }
}

// One turn: as far as it goes without waiting.
SDMA_DEVICE void step(Walk &walk, const sdma_work *work) {
    uint64_t seen = 0;
    ring::Attempt attempt = ring::Attempt::done;
    if (walk.state == State::next_peer) {
        take_peer(walk, work);
    }
    if (walk.state == State::reserve) {
        attempt = ring::try_reserve(walk.ring, walk.segment.dwords * 4, walk.reservation, seen);
        if (attempt == ring::Attempt::done) {
            write_packets(walk, work);
            walk.state = State::publish;
            walk.patience.polls = 0;
        }
    }
    if (walk.state == State::publish) {
        attempt = ring::try_publish(walk.ring, walk.reservation, seen);
        if (attempt == ring::Attempt::done && walk.segment.signals != 0) {
            walk.state = State::next_peer;
        } else if (attempt == ring::Attempt::done) {
            cut(walk, work);
        }
    }
    if (attempt == ring::Attempt::blocked) {
        if (!ring::keep_waiting(walk.patience, seen)) {
            end(walk, SDMA_WORK_RING_STUCK);
            return;
        }
        device::pause();
    }
}

} // namespace issuing

// Every lane of one wave calls it (or one host thread, as lane 0 of 1). Returns when this lane's
// packets are published; a queue that makes no progress for spin_budget polls ends the lane.
SDMA_DEVICE Outcome issue(const sdma_work *work, uint32_t lane, uint32_t lanes) {
    using namespace issuing;
    Walk walk{};
    walk.head = *work;
    walk.stride = lanes;
    walk.next_queue = lane;
    if (!plan::record_ok(walk.head)) {
        end(walk, SDMA_WORK_BAD);
    }
    device::release_earlier_kernels();
    while (device::any_lane(walk.state != State::ended)) {
        if (walk.state != State::ended) {
            step(walk, work);
        }
    }
    return walk.outcome;
}

// Tell the host, by one store, when all lanes have come here: by the lane for which it returns true.
// The record may be gone afterwards.
SDMA_DEVICE bool report(sdma_work *work, Outcome outcome) {
    if (outcome.status == SDMA_WORK_RING_STUCK) {
        device::store_system(reinterpret_cast<uint64_t>(&work->fault_queue), outcome.queue);
        device::drain();
    }
    uint32_t status = outcome.status;
    bool last = device::last_of_wave(reinterpret_cast<uint64_t>(&work->lanes_done), status);
    if (last) {
        device::store_system(reinterpret_cast<uint64_t>(&work->status), status);
    }
    return last;
}

} // namespace sdma
