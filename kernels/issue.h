// SPDX-License-Identifier: BSD-3-Clause
//
// Turning a work record into packets: the one-shot kernel, the resident kernel and the CPU
// initiator all call issue(). Lane q serves queues q, q + lanes, ... and walks each queue's peers;
// per peer one reservation of COPY chunks + arrival + departure signal, or several where the
// ring is small, with the signals behind the last COPY.
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

enum class State : uint32_t { reserve, publish, ended };

struct Walk {
    const sdma_work *work;
    uint32_t stride;         // lanes
    uint64_t queue;          // mine now
    uint32_t peer, peer_end; // next peer of the queue
    State state;
    Outcome outcome;
    sdma_ring ring;
    // the peer in hand
    sdma_work_peer item;
    uint64_t copies_left;
    uint32_t signal_dwords;
    plan::Segment segment;
    ring::Reservation reservation;
    ring::Patience patience;
};

template <typename T> SDMA_DEVICE const T &item_of(const sdma_work *work, uint32_t offset, uint64_t index) {
    return reinterpret_cast<const T *>(reinterpret_cast<const char *>(work) + offset)[index];
}

SDMA_DEVICE void end(Walk &walk, uint32_t status) {
    walk.state = State::ended;
    walk.outcome = {status, walk.queue};
}

// The peer's next reservation: plain, or with a deliberate mistake.
SDMA_DEVICE plan::Segment cut(const Walk &walk) {
    if constexpr (mutant::two_reservations) {
        if (walk.copies_left == 0) {
            return {0, 1, walk.signal_dwords};
        }
        return plan::next_segment(walk.copies_left + 1, walk.signal_dwords,
                                  walk.copies_left * packet::Copy::dwords + walk.signal_dwords);
    }
    return plan::next_segment(walk.copies_left, walk.signal_dwords, ring::most_bytes(walk.ring.bytes) / 4);
}

SDMA_DEVICE void start_reservation(Walk &walk) {
    walk.segment = cut(walk);
    walk.state = State::reserve;
    walk.patience = {walk.work->spin_budget, 0, 0};
}

// Step to the next queue that has peers; false after the last.
SDMA_DEVICE bool next_queue(Walk &walk) {
    const sdma_work &work = *walk.work;
    for (; walk.queue < work.queues; walk.queue += walk.stride) {
        const auto &queue = item_of<sdma_work_queue>(walk.work, work.queues_offset, walk.queue);
        if (!plan::queue_ok(work, queue)) {
            end(walk, SDMA_WORK_BAD);
            return false;
        }
        if (queue.peers != 0) {
            walk.ring = ring::describe(queue.ring);
            walk.peer = queue.first_peer;
            walk.peer_end = queue.first_peer + queue.peers;
            return true;
        }
    }
    end(walk, SDMA_WORK_ISSUED);
    return false;
}

// Step to the next peer that gets packets, or end.
SDMA_DEVICE void next_peer(Walk &walk) {
    const sdma_work &work = *walk.work;
    for (;;) {
        while (walk.peer == walk.peer_end) {
            walk.queue += walk.stride;
            if (!next_queue(walk)) {
                return;
            }
        }
        walk.item = item_of<sdma_work_peer>(walk.work, work.peers_offset, walk.peer++);
        if (walk.item.path == SDMA_PATH_LOADSTORE) {
            continue;
        }
        if (!plan::peer_ok(walk.item, work.signal_kind) || !ring::usable(walk.ring)) {
            end(walk, SDMA_WORK_BAD);
            return;
        }
        walk.copies_left = plan::copies(walk.item.bytes, work.chunk_bytes);
        walk.signal_dwords = plan::signal_dwords(walk.item, work.signal_kind);
        if (walk.copies_left != 0 || walk.signal_dwords != 0) {
            start_reservation(walk);
            return;
        }
    }
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
        put_signal(writer, walk.item.arrival, walk.item.arrival_value, walk.work->signal_kind);
        put_signal(writer, walk.item.departure, walk.item.departure_value, walk.work->signal_kind);
    }
}

SDMA_DEVICE void put_copies(Walk &walk, ring::Writer &writer) {
    for (uint64_t i = 0; i < walk.segment.copies; ++i) {
        uint64_t chunk = walk.work->chunk_bytes;
        uint64_t bytes = walk.item.bytes < chunk ? walk.item.bytes : chunk;
        put(writer, packet::copy(walk.item.src, walk.item.dst, bytes));
        walk.item.src += bytes;
        walk.item.dst += bytes;
        walk.item.bytes -= bytes;
    }
    walk.copies_left -= walk.segment.copies;
}

SDMA_DEVICE void write_packets(Walk &walk) {
    ring::Writer writer = ring::begin(walk.ring, walk.reservation);
    if constexpr (mutant::signal_first) {
        put_signals(walk, writer);
        put_copies(walk, writer);
    } else {
        put_copies(walk, writer);
        put_signals(walk, writer);
    }
}

// One turn: as far as it goes without waiting.
SDMA_DEVICE void step(Walk &walk) {
    uint64_t seen = 0;
    ring::Attempt attempt = ring::Attempt::done;
    if (walk.state == State::reserve) {
        attempt = ring::try_reserve(walk.ring, walk.segment.dwords * 4, walk.reservation, seen);
        if (attempt == ring::Attempt::done) {
            write_packets(walk);
            walk.state = State::publish;
            walk.patience.polls = 0;
        }
    }
    if (walk.state == State::publish) {
        attempt = ring::try_publish(walk.ring, walk.reservation, seen);
        if (attempt == ring::Attempt::done) {
            if (walk.segment.signals != 0) {
                next_peer(walk);
            } else {
                start_reservation(walk);
            }
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
    walk.work = work;
    walk.stride = lanes;
    walk.queue = lane;
    if (!plan::record_ok(*work)) {
        end(walk, SDMA_WORK_BAD);
    } else if (next_queue(walk)) {
        next_peer(walk);
    }
    device::release_system_and_drain();
    while (device::any_lane(walk.state != State::ended)) {
        if (walk.state != State::ended) {
            step(walk);
        }
    }
    return walk.outcome;
}

// Tell the host, by one store, when all lanes have come here. The record may be gone afterwards.
SDMA_DEVICE uint64_t report(sdma_work *work, Outcome outcome) {
    if (outcome.status == SDMA_WORK_RING_STUCK) {
        device::store_system(reinterpret_cast<uint64_t>(&work->fault_queue), outcome.queue);
        device::drain();
    }
    bool last = device::last_of_wave(reinterpret_cast<uint64_t>(&work->lanes_done), outcome.status);
    if (last) {
        device::store_system(reinterpret_cast<uint64_t>(&work->status), outcome.status);
    }
    return outcome.status;
}

} // namespace sdma
