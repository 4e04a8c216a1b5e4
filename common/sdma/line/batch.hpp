// SPDX-License-Identifier: BSD-3-Clause
//
// Copies that are issued together: one work record, one doorbell per queue, one completion word per
// queue. The words are in the record, so each has one writer and one use: no batch can be taken
// for complete because of another one's signal, in whatever order kernels reach a ring.
//
//   add ... -> issue (again while there is no room) -> poll -> complete
//
// With flush_at_target a word in the target GPU's memory is raised behind the copies, and read back
// by the same queue until it shows the new value; see Target_word.
#pragma once

#include <string>
#include <vector>

#include "../memory/pins.hpp"
#include "../op/context.hpp"
#include "../plan/plan.hpp"

namespace sdma::line {

// In the memory of the GPU that is written to, allocated by the writer, who alone raises it. At most
// one batch with target words is on its way on a line.
struct Target_word {
    uint64_t address = 0;
    uint64_t raised = 0;
};

class Batch {
public:
    // Kernels run on `device`. `held`: it must not be issued before all earlier ones are complete.
    // `at_target`: every queue raises and reads back a target word.
    Batch(op::Context &context, gpu::Runtime &runtime, int device, bool by_host, bool held, bool at_target);
    ~Batch(); // not issued, complete, or the layer is off
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;

    int device() const { return device_; }
    bool by_host() const { return by_host_; }
    bool held() const { return held_; }
    bool at_target() const { return at_target_; }
    bool issued() const { return issued_; }

    // The most bytes that one copy of a queue's batch may have.
    static uint64_t most_bytes(const engine::Queue *queue);
    // `queue` nullptr: the load/store kernel. `target`: nullptr, or the word to raise behind the copies
    // of this queue. False: the batch is full.
    bool add(uint64_t src, uint64_t dst, uint64_t bytes, engine::Queue *queue, Target_word *target);
    // A copy of `value`.
    bool add_value(uint64_t value, uint64_t dst, engine::Queue *queue, Target_word *target);

    bool fetches = false; // some copies are gets
    // Operations up to this number are complete with this batch and all earlier ones.
    uint64_t last = 0;
    // Used by operations that end here; whoever takes the batch away gives them back.
    std::vector<memory::Pins::Piece> pins;
    std::vector<memory::Attachment *> attachments;

    // Any number of times until `moved`. failed: a hardware fault, which what() describes.
    enum class Progress : uint8_t { waiting, moved, failed };
    Progress issue();
    // After issue(): `moved` if one of the two below became true, which they stay.
    Progress poll();
    // All bytes have left their source, and those that were fetched have arrived.
    bool departed() const { return departed_ && (complete_ || !fetches); }
    bool complete() const { return complete_; }
    // Whether poll() would find something: reads only.
    bool ready() const;

    const std::string &what() const { return what_; }
    // Anything in here that changes is progress.
    uint64_t activity() const;
    std::string describe() const;

private:
    enum class State : uint8_t { filling, copying, reading };
    struct Leg { // of one queue
        engine::Queue *queue = nullptr;
        Target_word *target = nullptr;
        uint64_t dwords = 0;
        uint64_t expected_at_target = 0;
        uint64_t claim = 0; // bytes of the ring
    };
    struct Started {
        gpu::Launch launch = 0;
        bool needed = false, finished = false;
    };
    struct Value {
        size_t copy;
        uint64_t value;
    };

    enum sdma_signal_kind signal_kind() const;
    bool build_copying();
    bool build_reading();
    bool build(const std::vector<plan::Peer> &peers);
    bool room_in_rings() const;
    bool claim_rings();
    void unclaim_rings();
    Progress start();
    void announce();
    void serve();
    Progress hand_over();
    Progress launch(Started &started, gpu::Kernel kernel, uint32_t workgroups, const char *name);
    bool launched(Started &started, const char *name);
    bool issue_open() const;
    Progress fail(std::string what);
    uint64_t *word(size_t leg) const { return words_ + leg; }
    uint64_t *read_back(size_t leg) const { return words_ + legs_.size() + leg; }
    uint64_t *value(size_t index) const { return words_ + 2 * legs_.size() + index; }
    bool reached(const uint64_t *word, uint64_t expected) const;
    bool all_raised() const;
    bool all_at_target() const;
    bool finished(const Started &started) const;

    op::Context &context_;
    gpu::Runtime &runtime_;
    const int device_;
    const bool by_host_, held_, at_target_;
    State state_ = State::filling;
    std::vector<plan::Peer> copies_;
    std::vector<Leg> legs_; // by plan::Peer::queue
    std::vector<Value> values_;
    std::byte *record_ = nullptr;
    size_t record_bytes_ = 0;
    uint64_t *words_ = nullptr; // at the record's end: completion words, values read back, values to store
    struct sdma_work *work_ = nullptr;
    enum sdma_signal_kind signal_kind_ = SDMA_SIGNAL_ATOMIC;
    op::Resident *resident_ = nullptr; // kernel that issues
    bool host_issued_ = false, handed_ = false, started_ = false;
    Started issue_, copy_;
    bool issued_ = false, departed_ = false, complete_ = false;
    std::string what_;
};

} // namespace sdma::line
