// SPDX-License-Identifier: BSD-3-Clause
//
// The host's side of the handshake that plan/mailbox.h describes. One thread at a time per mailbox.
#pragma once

#include "../../../kernels/device.h"
#include "../plan/mailbox.h"
#include "../plan/work.h"

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
