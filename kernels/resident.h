// SPDX-License-Identifier: BSD-3-Clause
//
// The resident kernel: one wave that takes work records from a mailbox (plan/mailbox.h) and issues
// them, without a launch for each. It only writes packets: memory that a kernel loads and stores is
// safe at the boundaries of kernels only, but where stores are coherent (NVIDIA's kernel copies, too).
// It ends by itself when it has been idle for long, so that nobody who waits for the device waits for it. While an
// operation that it has issued is waited for, the device is not idle and it stays for the next one.
//
// Lane 0 looks; all lanes follow its order.
#pragma once

#include "../common/sdma/plan/mailbox.h"
#include "issue.h"

namespace sdma {
namespace residing {

struct Idle {
    uint64_t limit; // ns
    uint64_t since; // when there was nothing to do, nor waited for, for the first time; 0: there was
    uint64_t begin; // when there was nothing to do
};

// Whoever waits for an operation for longer has met a fault, and may want the device.
inline constexpr uint64_t most_busy_ns = 100'000'000;

SDMA_DEVICE uint64_t load(const uint64_t &word) { return device::load_system(reinterpret_cast<uint64_t>(&word)); }
SDMA_DEVICE void store(uint64_t &word, uint64_t value) {
    device::store_system(reinterpret_cast<uint64_t>(&word), value);
}

// Take records up to `limit`; then end, or look again.
SDMA_DEVICE uint64_t order(uint64_t limit, bool end) { return limit << 1 | (end ? 1 : 0); }

SDMA_DEVICE uint64_t leave(sdma_mailbox *mailbox, uint64_t taken) {
    device::drain();
    store(mailbox->state, SDMA_MAILBOX_ENDED);
    return order(taken, true);
}

// Idle for too long: the last look, behind a fence.
SDMA_DEVICE uint64_t close(sdma_mailbox *mailbox, uint64_t taken, Idle &idle) {
    store(mailbox->state, SDMA_MAILBOX_CLOSING);
    if constexpr (!mutant::no_closing_drain) {
        device::drain();
    }
    uint64_t head = mutant::blind_end ? taken : load(mailbox->head);
    if (head == taken || (head & SDMA_MAILBOX_STOP) != 0) {
        return leave(mailbox, taken);
    }
    store(mailbox->state, SDMA_MAILBOX_RUNNING);
    idle.since = 0;
    return order(head, false);
}

// How long there has been nothing. What is waited for is asked for rarely: that is a trip over the bus.
SDMA_DEVICE uint64_t idle_ns(const sdma_mailbox *mailbox, Idle &idle) {
    const uint64_t now = device::clock_ns();
    if (idle.since == 0) {
        idle.since = idle.begin = now;
    } else if (now - idle.since >= idle.limit / 2 && now - idle.begin < most_busy_ns && load(mailbox->busy) != 0) {
        idle.since = now;
    }
    return now - idle.since;
}

// One look of lane 0, which has dealt with `taken` records.
SDMA_DEVICE uint64_t look(sdma_mailbox *mailbox, uint64_t taken, Idle &idle) {
    uint64_t head = load(mailbox->head);
    if ((head & SDMA_MAILBOX_STOP) != 0) {
        return leave(mailbox, taken);
    }
    if (head != taken) {
        idle.since = 0;
        return order(head, false);
    }
    if (!device::lock_step && load(mailbox->done) != taken) { // other lanes are not through
        return order(taken, false);
    }
    return idle_ns(mailbox, idle) < idle.limit ? order(taken, false) : close(mailbox, taken, idle);
}

} // namespace residing

// Every lane of one wave. server.expect(n): record n may come next, its words may be looked for. server.rest(): nothing
// has come. server.serve(n, entry) deals with record n, whose entry the host has written, and returns true for the one
// lane that has reported it; all lanes are through with the record then.
template <typename Server> SDMA_DEVICE void reside_as(sdma_mailbox *mailbox, Server &server) {
    using namespace residing;
    uint64_t taken = load(mailbox->done);
    Idle idle{load(mailbox->idle_ns), 0, 0};
    uint64_t limit = taken;
    for (bool ended = false; !ended || taken != limit;) {
        if (taken == limit) {
            server.expect(taken);
            uint64_t mine = device::lane() == 0 ? look(mailbox, taken, idle) : 0;
            uint64_t now = device::broadcast(reinterpret_cast<uint64_t>(&mailbox->order), mine);
            ended = (now & 1) != 0;
            limit = now >> 1;
            if (taken == limit) {
                server.rest();
            }
            continue;
        }
        const uint64_t number = taken++;
        if (server.serve(number, mailbox->records[number % SDMA_MAILBOX_SLOTS])) {
            store(mailbox->done, taken);
        }
    }
}

// `serve(work, bytes)`: the record where the host has it.
template <typename Serve> SDMA_DEVICE void reside(sdma_mailbox *mailbox, Serve serve) {
    struct Server {
        Serve with;
        SDMA_DEVICE_MEMBER void expect(uint64_t) {}
        SDMA_DEVICE_MEMBER void rest() { device::pause(); }
        SDMA_DEVICE_MEMBER bool serve(uint64_t, const sdma_mailbox_entry &entry) {
            device::acquire_system(); // entries and records may lie where others did
            return with(device::pointer<sdma_work>(residing::load(entry.record)), residing::load(entry.bytes));
        }
    } server{serve};
    reside_as(mailbox, server);
}

} // namespace sdma
