// SPDX-License-Identifier: BSD-3-Clause
//
// A line to one peer process: numbered copies between memory of this process and registered memory
// of the peer, moved by engines and kernels of this process alone.
//
//   post -> batch being filled -> [batches that wait for room or for a fence] -> [batches issued] -> done
//
// Batches are issued and retired in order. A fence makes the next batch wait until all earlier ones
// are complete: copies of one queue may overlap, and load/store kernels are in no queue, so nothing
// less would do for every mix. Posting goes on meanwhile.
//
// A peer that dies ends the line once our own copies have come to rest; a hardware fault at once.
// Thread-safe; the order of operations is then that of the calls.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "batch.hpp"
#include "origin.hpp"

namespace sdma::line {

class Events;
class Line;

// A peer's memory. Mapped when it is attached if the process has one GPU, else at its first use by a
// GPU. Belongs to its line's lock.
struct Remote {
    Line &line;
    memory::Exported source;
    uint64_t offset = 0, bytes = 0; // of what the key opens
    std::map<int, memory::Attachment *> by_device;
};

struct Request {
    bool get = false;
    char *local = nullptr;
    Remote *remote = nullptr;
    size_t offset = 0; // in the remote
    sdma_rectangle_t shape{};
    bool signal = false; // then store `value` at `signal_offset` of the remote
    size_t signal_offset = 0;
    uint64_t value = 0;
};

class Line {
public:
    // nullptr with the reason. `context` and `events` (may be nullptr) outlive the line.
    static std::unique_ptr<Line> open(op::Context &context, Events *events, const sdma_address_t &peer,
                                      sdma_reason_t &reason);
    ~Line(); // waits for what engines have; remotes are detached
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;

    bool alive() const { return !process_->gone(); }
    std::unique_ptr<Remote> attach(const sdma_key_t &key, sdma_reason_t &reason);
    void detach(Remote &remote);

    sdma_status_t post(const Request &request, uint64_t &number);
    sdma_status_t push();
    sdma_status_t fence();
    sdma_status_t progress();
    uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
    uint64_t local() const { return local_.load(std::memory_order_acquire); }
    uint64_t done() const { return done_.load(std::memory_order_acquire); }
    // Why the last post was declined, or the line is broken.
    sdma_reason_t reason() const { return reason_.load(std::memory_order_relaxed); }

    // For sleepers: progress() would find something to do; something is on its way.
    bool moved();
    bool busy();

private:
    struct Way { // to a peer's GPU
        int device;
        gpu::Pci_address peer;
        bool by_host;
        engine::Queue *queue;
    };
    struct Target { // a word in a GPU's memory
        gpu::Pci_address pci;
        Target_word word;
    };
    // What of an operation is settled before its first copy is added.
    struct Plan {
        Origin origin;
        int device = -1;
        bool by_host = false, get = false;
        memory::Attachment *attachment = nullptr;
        uint64_t remote = 0; // address of the registered range as the device sees it
        engine::Queue *queue = nullptr;
        Target_word *target = nullptr;
        uint64_t loadstore_max = 0;
    };

    Line(op::Context &context, Events *events, std::shared_ptr<memory::Peer_process> process)
        : context_(context), events_(events), process_(std::move(process)) {}

    // post.cpp
    sdma_reason_t prepare(const Request &request, size_t extent, Plan &plan);
    sdma_reason_t map(Remote &remote, int device, memory::Attachment *&attachment);
    void let_others_go(const Remote &needed);
    int device_of(const gpu::Pci_address &pci) const;
    engine::Queue *queue(const Plan &plan, const gpu::Pci_address &peer, sdma_reason_t &reason);
    sdma_reason_t find_target_word(const gpu::Pci_address &pci, Target_word *&word);
    void add_row(const Request &request, const Plan &plan, const char *local, uint64_t remote, uint64_t bytes);
    void add_copy(const Plan &plan, uint64_t src, uint64_t dst, uint64_t bytes);
    void add_signal(const Request &request, const Plan &plan);
    Batch &filling(const Plan &plan, bool fresh);
    sdma_status_t decline(sdma_reason_t reason);

    // line.cpp
    void advance();
    void issue_batches();
    void take_away(Batch &batch);
    void watch();
    void watch_hardware(int64_t passed);
    void hardware_fault(const std::string &what);
    void lose_peer();
    void drop_unissued();
    void break_off(sdma_reason_t reason);
    bool broken() const { return broken_; }

    op::Context &context_;
    Events *events_;
    std::shared_ptr<memory::Peer_process> process_;
    std::mutex mutex_;
    gpu::Runtime *runtime_ = nullptr; // once it is needed
    std::set<Remote *> remotes_;
    std::vector<Way> ways_;
    std::deque<Target> targets_;
    std::vector<void *> target_memory_;
    uint64_t pressure_ = 0;

    std::deque<std::unique_ptr<Batch>> batches_; // the first issued_ of them are issued
    size_t issued_ = 0;
    bool filling_ = false; // the last one still takes copies
    bool fenced_ = false;  // the next one will wait for all before it
    std::atomic<uint64_t> posted_{0}, local_{0}, done_{0};
    std::atomic<sdma_reason_t> reason_{SDMA_REASON_none};
    bool dying_ = false; // the peer is gone, our copies are not at rest yet
    bool broken_ = false;

    uint32_t polls_ = 0;
    int64_t last_look_ = 0, idle_ms_ = 0;
    uint64_t last_activity_ = 0;
};

} // namespace sdma::line
