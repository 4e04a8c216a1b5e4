// SPDX-License-Identifier: BSD-3-Clause
//
// What the operations of a process share: memory, SDMA queues, work records, and whether a
// hardware fault has switched everything off. The library has one; tests make several.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "../engine/engine.hpp"
#include "../memory/memory.hpp"
#include "../team/team.hpp"
#include "resident.hpp"

namespace sdma::op {

struct Platform {
    memory::Gpu_source gpu;
    std::function<bool(const std::string &target)> has_kernels;
};

class Context {
public:
    explicit Context(Platform platform);
    ~Context(); // no team is left
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    memory::Memory &memory() { return memory_; }
    // Whether kernels can be launched on `device`: none, no_kernel or no_memory. There is a runtime.
    sdma_reason_t kernels(int device);

    // The queue for traffic to `peer`; nullptr with the reason: load/store then.
    engine::Queue *queue(int device, const gpu::Pci_address &peer, engine::Producer producer, sdma_reason_t &reason);
    // nullptr while there is no runtime. Queues are made at first use, not by this.
    engine::Engines *engines();

    // The resident kernel of a device; it is started by its first record. There is a runtime.
    Resident &resident(int device);

    // A record's memory, which kernels read: zeroed or used before, 8-byte aligned. nullptr: none.
    // A record that a kernel may still read after a fault is not given back.
    std::byte *take_record(size_t bytes);
    void give_record(std::byte *record, size_t bytes);

    void add(team::Team &team);
    void remove(team::Team &team);

    // A hardware fault: takes all queues out of use, then tells the peers of all teams. For good.
    void fail();
    bool faulted() const { return faulted_.load(std::memory_order_acquire); }
    // Held while the CPU writes into rings or looks at what a queue has, so that fail() does not destroy one under it.
    std::shared_lock<std::shared_mutex> use_queues() { return std::shared_lock(queues_mutex_); }

private:
    Platform platform_;
    memory::Memory memory_;
    std::mutex mutex_; // guards what follows
    std::unique_ptr<engine::Engines> engines_;
    std::set<engine::Queue *> queues_;
    std::map<int, Resident> residents_;                       // by device
    std::map<size_t, std::vector<std::byte *>> free_records_; // by size
    std::set<team::Team *> teams_;
    std::shared_mutex queues_mutex_;
    std::atomic<bool> faulted_{false};
};

} // namespace sdma::op
