// SPDX-License-Identifier: BSD-3-Clause
//
// A node for unit tests: GPUs whose memory is host memory, ranks that are threads. Each rank has a
// Runtime of its own; an attached allocation is a second mapping of the same file, so that a use
// after detach is a crash and a wrong offset is wrong data. One thread per Runtime is its hardware:
// it runs launches and consumes the rings, with faults and delays on demand. A resident kernel has a
// thread of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "common/sdma/engine/engine.hpp"
#include "common/sdma/gpu/gpu.hpp"
#include "common/sdma/plan/work.h"

namespace fake {

struct Faults {
    bool frees_unheard = false;                   // the hook of on_free() is not called
    std::atomic<bool> stall_engines{false};       // queues are not read any more
    std::atomic<bool> stall_before_signal{false}; // copies are done, signals are not raised
    std::atomic<bool> hold_launches{false};       // kernels do not start
    std::atomic<bool> fail_launches{false};       // kernels end with an error
    std::atomic<bool> no_launches{false};         // kernels cannot be loaded, for want of memory
    std::atomic<bool> refuse_launches{false};     // a launch is an error
    std::atomic<bool> no_resident{false};         // no resident kernel for these GPUs
    std::atomic<uint32_t> slow_start{0};          // us that the resident kernel takes to start, at random up to this
    std::atomic<bool> fail_attach{false};
    std::atomic<bool> one_mapping{false}; // no attachment while freed memory that lay there is attached, as CUDA's
    std::atomic<bool> fail_pin{false};
    std::atomic<bool> no_queues{false};
    std::atomic<bool> no_atomics{false};
    std::atomic<bool> coherent_stores{false}; // load/store kernels raise signals if asked
    std::atomic<bool> resident_copies{false}; // the resident kernel moves what a record allows it to
    std::atomic<uint32_t> slow_us{0};         // between packets
    std::atomic<uint64_t> chaos{0};           // seed: packets of the queues in random order, late
};

// What all Runtimes of the node share.
struct Node {
    struct Allocation {
        off_t offset = 0; // in `file`: one descriptor, however many allocations
        size_t bytes = 0;
        bool freed = false;
        int mappings = 0; // by peers
        char *base = nullptr;
    };
    std::mutex mutex;
    int file;
    off_t end = 0;
    std::map<uint32_t, Allocation> allocations;
    uint32_t next = 1;
    std::atomic<int> attached{0}; // live attachments
    std::atomic<uint64_t> generation{0};

    Node();
    ~Node();
    void give_back(const Allocation &allocation); // to the system, once nobody has it
    size_t charged();                             // bytes that exist, freed but mapped ones included
};

class Runtime final : public sdma::gpu::Runtime {
public:
    // `still`: no thread; the hardware moves when step() is called.
    Runtime(Node &node, int rank, int devices, bool still = false);
    ~Runtime() override;
    bool step(); // true while there was something to do
    bool idle(); // nothing is launched or in a queue

    // The application's side. `at`: an address that a free kept, to get one again: ranks are threads,
    // and any of them may get an address that is free.
    char *allocate(int device, size_t bytes, void *at = nullptr,
                   sdma::gpu::Memory_kind kind = sdma::gpu::Memory_kind::device);
    void free(void *base, bool keep_address = false);
    Faults faults;
    std::atomic<uint64_t> launched{0};
    std::atomic<uint64_t> resided{0}; // records that resident kernels have issued
    size_t launch_slots = 64;
    size_t ring_bytes = 65536; // of queues made from now on

    const char *name() const override { return "fake"; }
    std::string version() const override { return "1"; }
    const std::vector<sdma::gpu::Device> &devices() const override { return devices_; }
    sdma::gpu::Range classify(const void *address) override;
    sdma::gpu::Status export_memory(void *base, size_t bytes, sdma::gpu::Handle &handle) override;
    sdma::gpu::Status attach(int device, const sdma::gpu::Handle &handle, size_t bytes, void *&mapped) override;
    void detach(void *mapped) override;
    sdma::gpu::Status pin(void *address, size_t bytes, void *&device_address) override;
    void unpin(void *address) override;
    void *allocate_shared(size_t bytes) override;
    void free_shared(void *address) override;
    void *allocate_device(int device, size_t bytes) override;
    void free_device(void *address) override;
    sdma::gpu::Status prepare(int) override {
        return faults.no_launches ? sdma::gpu::Status::no_memory : sdma::gpu::Status::ok;
    }
    sdma::gpu::Status launch(int device, sdma::gpu::Kernel kernel, uint32_t workgroups, const void *argument,
                             sdma::gpu::Launch &launch) override;
    sdma::gpu::Status finished(sdma::gpu::Launch launch) override;
    std::unique_ptr<sdma::gpu::Stream> stream(int) override { return nullptr; }
    bool host_atomics() const override { return !faults.no_atomics; }
    bool coherent_stores() const override { return faults.coherent_stores; }
    bool resident_copies() const override { return faults.resident_copies; }
    sdma::gpu::Status copy(void *dst, const void *src, size_t bytes) override;
    void on_free(std::function<void(void *, uint64_t)> hook) override;

    // Hardware queues, for the fake engines.
    sdma::engine::Queue *make_queue(int device, uint32_t engine, sdma::engine::Producer producer);
    void stop_queue(sdma::engine::Queue &queue); // the engine does not touch it any more
    int pins() const { return pins_; }
    size_t queues() { // that were ever made
        std::lock_guard lock(hardware_mutex_);
        return rings_.size();
    }

private:
    struct Own {
        uint32_t id;
        size_t bytes, mapped_bytes;
        int device;
        uint64_t generation;
        sdma::gpu::Memory_kind kind;
    };
    struct Mapping {
        uint32_t id;
        size_t bytes;
    };
    struct Work {
        sdma::gpu::Kernel kernel;
        void *argument;
        sdma::gpu::Launch launch;
    };
    struct Ring;

    void hardware();
    bool run_launch();
    void run_resident(const Work &work);
    bool run_queues();

    Node &node_;
    std::vector<sdma::gpu::Device> devices_;
    std::mutex mutex_;
    std::map<char *, Own> own_;
    std::map<char *, Mapping> mapped_;
    std::function<void(void *, uint64_t)> hook_;
    std::atomic<int> pins_{0};
    std::map<void *, std::unique_ptr<uint64_t[]>> shared_; // goes with the runtime

    std::mutex hardware_mutex_;
    std::condition_variable wake_;
    std::deque<Work> launches_;
    std::set<sdma::gpu::Launch> running_, failed_;
    sdma::gpu::Launch next_launch_ = 1;
    std::vector<std::unique_ptr<Ring>> rings_;
    std::map<sdma::gpu::Launch, std::thread> residents_;
    bool stop_ = false;
    std::mt19937_64 random_;
    std::chrono::steady_clock::time_point next_packet_;
    std::thread thread_;
};

} // namespace fake
