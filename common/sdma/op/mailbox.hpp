// SPDX-License-Identifier: BSD-3-Clause
//
// The host's side of the handshake that plan/mailbox.h describes. One thread at a time per mailbox.
#pragma once

#include <cstring>

#include "../../../kernels/device.h"
#include "../plan/mailbox.h"
#include "../plan/work.h"
#include "../ring/ring.h"

namespace sdma::op::mailbox {

inline uint64_t load(const uint64_t &word) { return device::load_system(reinterpret_cast<uint64_t>(&word)); }
inline void store(uint64_t &word, uint64_t value) { device::store_system(reinterpret_cast<uint64_t>(&word), value); }

inline enum sdma_mailbox_state state(const sdma_mailbox &mailbox) {
    return static_cast<enum sdma_mailbox_state>(load(mailbox.state));
}

// Records that the kernel has dealt with.
inline uint64_t issued(const sdma_mailbox &mailbox) { return load(mailbox.done); }

// What a kernel needs to find when it starts. None runs, state() is ENDED.
inline void open(sdma_mailbox &mailbox, uint64_t idle_ns) {
    store(mailbox.idle_ns, idle_ns);
    store(mailbox.order, issued(mailbox) << 1);
    store(mailbox.state, SDMA_MAILBOX_RUNNING);
}

// Let record number `head` travel with it, before post(): see plan/mailbox.h. `carried` is behind the mailbox.
inline void carry(sdma_mailbox_carried &carried, uint64_t head, const struct sdma_work &work) {
    uint64_t *const words = carried.words[head % SDMA_MAILBOX_SLOTS];
    const uint64_t tag = (head + 1) << 32;
    uint64_t count = 0;
    const auto add = [&](const void *values, size_t bytes) {
        for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
            uint32_t value;
            memcpy(&value, static_cast<const char *>(values) + at, sizeof value);
            store(words[++count], tag | value);
        }
    };
    const size_t rings = work.queues * sizeof(struct sdma_ring);
    if (sizeof(uint64_t) + work.record_bytes + rings < SDMA_MAILBOX_WORDS * sizeof(uint32_t)) {
        const auto address = reinterpret_cast<uint64_t>(&work);
        add(&address, sizeof address);
        add(&work, work.record_bytes);
        const auto *queues = reinterpret_cast<const struct sdma_work_queue *>(reinterpret_cast<const char *>(&work) +
                                                                              work.queues_offset);
        for (uint32_t q = 0; q < work.queues; q++) // one address for host and devices
            add(reinterpret_cast<const void *>(queues[q].ring), sizeof(struct sdma_ring));
    }
    store(words[0], tag | count);
}

// Hand over record number `head`; there is room. After it the state is worth a look: RUNNING means
// that the kernel takes the record, ENDED that a new one must, CLOSING that it is not decided.
inline void post(sdma_mailbox &mailbox, uint64_t head, uint64_t record, uint64_t bytes) {
    sdma_mailbox_entry &entry = mailbox.records[head % SDMA_MAILBOX_SLOTS];
    store(entry.record, record);
    store(entry.bytes, bytes);
    store(mailbox.head, head + 1);
    if constexpr (!mutant::no_post_drain)
        device::drain();
}

} // namespace sdma::op::mailbox
