// SPDX-License-Identifier: BSD-3-Clause
//
// The host's side of the resident issue kernel of one device (plan/mailbox.h, kernels/resident.h):
// hands work records over, starts the kernel when there is one and none runs, ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "../gpu/gpu.hpp"
#include "../plan/mailbox.h"
#include "../plan/work.h"

namespace sdma::op {

// Any number of threads.
class Resident {
public:
    Resident(gpu::Runtime &runtime, int device); // which outlives this
    ~Resident();                                 // waits for the kernel, at most hardware_timeout
    Resident(const Resident &) = delete;
    Resident &operator=(const Resident &) = delete;

    // Hand over a record, in memory that the device reads. ok: the kernel has it or gets it with a
    // poll(); its status is set when its packets are published. Nothing is handed over when pending
    // (no room, or the kernel cannot be started yet) or unsupported (the runtime has no such
    // kernel). Everything else is a fault. Never waits for a record.
    gpu::Status submit(const struct sdma_work &work);

    // Call it while a handed record's status is open: starts the kernel again if it has ended in
    // between. ok or failed: the kernel is dead.
    gpu::Status poll();

    // From submit() on somebody waits for the operation, until release(): the kernel stays for the next one.
    void hold();
    void release();

    // The kernel ends after the record in hand. For good.
    void stop();

    std::string describe() const; // for a diagnostic line; anything in it that changes is progress

private:
    gpu::Status ready();
    gpu::Status start();
    gpu::Status died(gpu::Status why);

    gpu::Runtime &runtime_;
    const int device_;
    sdma_mailbox *const mailbox_; // nullptr: no memory
    std::atomic<uint32_t> polls_{0};
    mutable std::mutex mutex_; // guards what follows, and the host's words of the mailbox
    uint64_t head_ = 0;        // records handed over
    uint64_t held_ = 0;        // by hold()
    gpu::Launch launch_ = 0;   // the kernel's, until its end has been seen
    bool stopped_ = false, dead_ = false;
};

} // namespace sdma::op
