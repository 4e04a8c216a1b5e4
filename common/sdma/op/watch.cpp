// SPDX-License-Identifier: BSD-3-Clause
//
// What ends a wait that will not end by itself: peers that are gone or at fault, hardware that
// makes no progress.
#include <chrono>
#include <cinttypes>
#include <cstdio>

#include "../base/base.hpp"
#include "transfer.hpp"

namespace sdma::op {

namespace {

// Reading the clock, and asking the kernel for peers, are cheap only if they are rare.
constexpr uint32_t polls_between_looks = 1u << 6;
constexpr int64_t ms_between_looks = 10;

int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

} // namespace

void Transfer::watch(bool own_part_done) {
    // The first tests after a look are those of slow callers, who would need very long for 64.
    if (++polls_ % polls_between_looks != 0 && polls_ > polls_between_looks)
        return;
    const int64_t now = now_ms(), passed = now - last_look_;
    // Not at once: describing queues copies cursors from the GPU, which cost each operation 20 us on an H200.
    if (last_look_ == 0)
        last_look_ = now;
    if (now - last_look_ < ms_between_looks)
        return;
    // A process that was stopped, or does not test, says nothing about its hardware.
    const int64_t limit = std::max(params().hardware_timeout, 1);
    idle_ms_ += std::min(passed, std::max<int64_t>(limit / 4, 1));
    last_look_ = now;
    polls_ = 0;
    watch_peers();
    if (own_part_done)
        idle_ms_ = 0;
    else
        watch_hardware();
}

void Transfer::watch_peers() {
    others_to_come_ = false;
    for (uint32_t p = 0; p < team_.size(); p++) {
        if (p == team_.rank())
            continue;
        const sdma_reason_t lost = team_.lost(p);
        // In this order: what it raised before it was lost counts.
        if (reached(team_.arrival_from(call_, p)))
            continue;
        // Whoever has agreed moves its data, or reports that it cannot, or ends.
        others_to_come_ |= lost == SDMA_REASON_none;
        if (lost == SDMA_REASON_none || lost_ != SDMA_REASON_none)
            continue;
        lost_ = lost;
        log(0, "rank %u: operation %" PRIu64 " gets no data from rank %u: %s", team_.rank(), call_.sequence, p,
            sdma_reason_text(lost));
    }
}

void Transfer::watch_hardware() {
    std::string state = hardware_state();
    if (state != last_state_) {
        last_state_ = std::move(state);
        idle_ms_ = 0;
    } else if (idle_ms_ >= params().hardware_timeout) {
        hardware_fault("no progress for " + std::to_string(idle_ms_) + " ms");
    }
}

// Anything in here that changes is progress.
std::string Transfer::hardware_state() const {
    std::string state = std::to_string(issue_.launch != 0) + std::to_string(issue_.finished) +
                        std::to_string(copy_.launch != 0) + std::to_string(copy_.finished) + ' ' +
                        std::to_string(next_departure_);
    if (resident_)
        state += ' ' + resident_->describe();
    auto lock = context_.use_queues();
    for (const engine::Queue *queue : queues_)
        state += ' ' + queue->describe();
    return state;
}

// Peers whose data we have not moved, each with its queue and signal; the first few.
std::string Transfer::stuck_peers() const {
    constexpr int most = 3;
    std::string text;
    int stuck = 0;
    auto lock = context_.use_queues();
    for (const plan::Peer &peer : peers_) {
        const team::Word &word = team_.departure(call_, peer.rank);
        if (reached(word) || ++stuck > most)
            continue;
        char signal[96];
        snprintf(signal, sizeof signal, "departure signal is %" PRIu64 ", expected %" PRIu64, word.load(),
                 call_.served);
        text += "; peer " + std::to_string(peer.rank) + ": " +
                (peer.path == SDMA_PATH_ENGINE ? queues_[peer.queue]->describe() : "load/store kernel") + ", " + signal;
    }
    if (stuck > most)
        text += "; and " + std::to_string(stuck - most) + " more";
    return text;
}

void Transfer::hardware_fault(const std::string &what) {
    const std::string line = what + stuck_peers();
    // Queues first: nobody hears of the fault while an engine may still write.
    context_.fail();
    log(0, "rank %u: operation %" PRIu64 ", slot %u: %s", team_.rank(), call_.sequence, team_.slot(call_),
        line.c_str());
    fail(SDMA_REASON_fault);
}

void Transfer::fail(sdma_reason_t reason) {
    state_ = State::failed;
    reason_ = reason;
    team_.break_off(reason);
}

} // namespace sdma::op
