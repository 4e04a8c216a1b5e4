// SPDX-License-Identifier: BSD-3-Clause
//
// The moving part of an operation that all ranks have agreed on: paths and queues, the work record,
// its issue, and the wait for the signals.
//
//   prepare -> issue (again while no launch slot is free) -> wait -> done | drain -> error
//
// Waiting for a peer's data has no limit of time, but ends when the peer ends or reports a fault;
// then our own copies and the data of the other peers are still waited for, because nobody may touch
// buffers that the caller has back. Waiting for our own hardware ends when nothing moves for hardware_timeout.
#pragma once

#include <string>
#include <vector>

#include "../plan/plan.hpp"
#include "context.hpp"

namespace sdma::op {

class Transfer {
public:
    // `source` and `destination`: what the offsets of the call's shape count from. All outlive this.
    // `record`: of record_bytes(), from the context's pool, which gets it back from here.
    Transfer(Context &context, team::Team &team, team::Call &call, const char *source, char *destination,
             std::byte *record);
    ~Transfer();
    Transfer(const Transfer &) = delete;
    Transfer &operator=(const Transfer &) = delete;

    // Enough for any operation among so many ranks.
    static size_t record_bytes(size_t ranks);

    // OK, PENDING or ERROR; never waits.
    sdma_status_t test();
    sdma_reason_t reason() const { return reason_; }

private:
    enum class State : uint8_t { prepare, issue, wait, done, failed };
    struct Started {
        gpu::Launch launch = 0;
        bool needed = false, finished = false;
    };

    // transfer.cpp
    bool prepare();
    bool use_attachments();
    void add_peers();
    void add_peer(uint32_t peer, const char *src, uint64_t dst, uint64_t bytes, const gpu::Pci_address &where);
    void raise_by_cpu(uint32_t peer);
    void choose_signals();
    bool build_record();
    bool issue();
    bool launch(Started &started, gpu::Kernel kernel, uint32_t workgroups);
    bool hand_over();
    uint64_t packet_dwords(uint32_t queue) const;
    bool rings_have_room() const;
    bool claim_rings();
    void unclaim_rings();
    bool poll_launch(Started &started, const char *name);
    bool poll_resident();
    bool own_part_done();
    void serve_queues();
    bool all_arrived();
    bool reached(const team::Word &word) const;
    bool in_flight() const;
    void give_back();

    // watch.cpp
    void watch(bool own_part_done);
    void watch_peers();
    void watch_hardware();
    std::string hardware_state() const;
    void hardware_fault(const std::string &what);
    std::string stuck_peers() const;
    void fail(sdma_reason_t reason);

    Context &context_;
    team::Team &team_;
    team::Call &call_;
    const char *source_;
    char *destination_;
    gpu::Runtime &runtime_;
    State state_ = State::prepare;
    sdma_reason_t reason_ = SDMA_REASON_none;

    enum sdma_signal_kind signal_kind_ = SDMA_SIGNAL_ATOMIC;
    bool by_host_ = false;        // initiator
    bool software_ = false;       // some queue has no hardware that reads it
    bool kernel_signals_ = false; // the load/store kernel raises the signals of its peers
    uint64_t loadstore_bytes_ = 0;
    std::vector<plan::Peer> peers_;       // with bytes to move
    std::vector<engine::Queue *> queues_; // by index in the record
    std::vector<uint64_t> claims_;        // of the first queues: bytes
    std::byte *record_ = nullptr;
    size_t record_bytes_ = 0;
    struct sdma_work *work_ = nullptr;
    bool host_issued_ = false;
    Resident *resident_ = nullptr; // issues in place of a kernel of our own
    bool handed_ = false;          // to it
    bool gpu_shared_ = false;      // with a peer, whose work waits while our kernel stays (2.2 ms, 2 x H200)
    bool held_ = false;            // it stays
    Started issue_, copy_;
    uint32_t uses_counted_ = 0; // attachments of ranks below this are in use

    uint32_t next_departure_ = 0, next_arrival_ = 0;
    uint32_t polls_ = 0;
    int64_t last_look_ = 0, idle_ms_ = 0;
    std::string last_state_;
    sdma_reason_t lost_ = SDMA_REASON_none; // a peer's data will not come
    bool others_to_come_ = false;           // a peer that lives has yet to write to the receive buffer
};

} // namespace sdma::op
