// SPDX-License-Identifier: BSD-3-Clause
#include "probe.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "../base/base.hpp"
#include "../plan/work.h"

namespace sdma::engine {

namespace {

using std::chrono::milliseconds;

// A work record with one queue and one peer that gets a signal and no bytes.
struct Record {
    sdma_work work;
    sdma_work_queue queue;
    sdma_work_peer peer;
    uint64_t word;
};

void fill(Record &record, const Queue &queue) {
    record.queue = {reinterpret_cast<uint64_t>(queue.ring), 0, 1};
    record.peer.arrival = reinterpret_cast<uint64_t>(&record.word);
    record.peer.arrival_value = 1;
    record.peer.path = SDMA_PATH_ENGINE;
    sdma_work &work = record.work;
    work.magic = SDMA_WORK_MAGIC;
    work.version = SDMA_WORK_VERSION;
    work.record_bytes = sizeof record;
    work.signal_kind = SDMA_SIGNAL_FENCE; // works on every link
    work.queues = work.peers = 1;
    work.queues_offset = offsetof(Record, queue);
    work.peers_offset = offsetof(Record, peer);
    work.chunk_bytes = 4096; // nothing is copied, but the record must make sense
    work.spin_budget = 1u << 20;
}

// Poll until `done`, at most so long. True if it was.
template <typename Done> bool wait(milliseconds most, Done done) {
    const auto end = std::chrono::steady_clock::now() + most;
    while (!done()) {
        if (std::chrono::steady_clock::now() > end)
            return done();
        std::this_thread::yield();
    }
    return true;
}

} // namespace

sdma_reason_t probe(gpu::Runtime &runtime, const Queue &queue, bool &kernel_left) {
    kernel_left = false;
    auto *record = static_cast<Record *>(runtime.allocate_shared(sizeof(Record)));
    if (!record)
        return SDMA_REASON_no_memory;
    fill(*record, queue);
    const milliseconds patience(params().hardware_timeout);
    gpu::Launch launch = 0;
    gpu::Status status = gpu::Status::failed;
    wait(patience, [&] {
        status = runtime.launch(queue.device, gpu::Kernel::issue, 1, record, launch);
        return status != gpu::Status::pending;
    });
    if (status != gpu::Status::ok) {
        runtime.free_shared(record);
        return status == gpu::Status::no_memory ? SDMA_REASON_no_memory : SDMA_REASON_no_kernel;
    }
    const bool ended = wait(patience, [&] {
        status = runtime.finished(launch);
        return status != gpu::Status::pending;
    });
    const bool raised = ended && status == gpu::Status::ok && wait(std::min(patience, milliseconds(2000)), [&] {
                            return std::atomic_ref(record->word).load(std::memory_order_acquire) == 1;
                        });
    kernel_left = !ended;
    if (!ended) {
        log(0, "the issue kernel on gpu %d did not end within %d ms; its record and queue are kept", queue.device,
            params().hardware_timeout);
        return SDMA_REASON_not_ringable;
    }
    if (raised)
        runtime.free_shared(record);
    // else kept for ever: the engine may still come to it
    return raised ? SDMA_REASON_none : SDMA_REASON_not_ringable;
}

} // namespace sdma::engine
