// SPDX-License-Identifier: BSD-3-Clause
#include "line.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <thread>

#include "../base/base.hpp"
#include "events.hpp"

namespace sdma::line {

namespace {

// Reading the clock, and asking the kernel for the peer, are cheap only if they are rare.
constexpr uint32_t polls_between_looks = 1u << 6;
constexpr int64_t ms_between_looks = 10;

int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

} // namespace

std::unique_ptr<Line> Line::open(op::Context &context, Events *events, const sdma_address_t &peer,
                                 sdma_reason_t &reason) {
    Address address;
    reason = SDMA_REASON_version;
    if (!unpack(peer, address))
        return nullptr;
    reason = SDMA_REASON_remote_peers;
    if (!memory::reachable(context.memory().identity(), address.identity))
        return nullptr;
    reason = SDMA_REASON_no_memory;
    if (!context.memory().create())
        return nullptr;
    reason = SDMA_REASON_peer_gone;
    if (memory::process_start_time(address.identity.pid) != address.identity.start_time)
        return nullptr;
    reason = SDMA_REASON_peer_segment;
    auto process = context.memory().process(address.identity, address.fd);
    if (!process)
        return nullptr;
    reason = SDMA_REASON_none;
    std::unique_ptr<Line> line(new Line(context, events, std::move(process)));
    if (events)
        events->add(*line);
    return line;
}

Line::~Line() {
    if (events_)
        events_->remove(*this);
    {
        std::lock_guard lock(mutex_);
        drop_unissued();
        dying_ = true; // nothing new, and the end once all is at rest
    }
    while (progress() != SDMA_ERROR) // bounded: the watch ends it
        std::this_thread::yield();
    if (context_.faulted())
        return; // an engine may still write there
    for (void *memory : target_memory_)
        runtime_->free_device(memory);
}

std::unique_ptr<Remote> Line::attach(const sdma_key_t &words, sdma_reason_t &reason) {
    Key key;
    reason = SDMA_REASON_version;
    if (!unpack(words, key))
        return nullptr;
    reason = SDMA_REASON_peer_segment;
    if (!key.of(process_->identity()))
        return nullptr;
    std::unique_ptr<Remote> remote(new Remote{*this, {}, key.offset, key.bytes, {}});
    reason = SDMA_REASON_retired;
    if (!memory::read_entry(process_->table(), key.registration, key.generation, remote->source))
        return nullptr;
    reason = SDMA_REASON_too_large;
    if (key.offset > remote->source.bytes || key.bytes > remote->source.bytes - key.offset)
        return nullptr;
    std::lock_guard lock(mutex_);
    // One GPU: nothing to choose, so failures show here.
    reason = SDMA_REASON_none;
    if (!runtime_)
        runtime_ = context_.memory().runtime(reason);
    if (runtime_ && runtime_->devices().size() == 1) {
        memory::Attachment *attachment = nullptr;
        if ((reason = map(*remote, 0, attachment)) != SDMA_REASON_none)
            return nullptr;
    }
    reason = SDMA_REASON_none;
    remotes_.insert(remote.get());
    return remote;
}

void Line::detach(Remote &remote) {
    std::lock_guard lock(mutex_);
    for (auto [device, attachment] : remote.by_device)
        context_.memory().attachments().drop(*runtime_, *attachment);
    remotes_.erase(&remote);
}

// ---- progress ------------------------------------------------------------------------------------

sdma_status_t Line::push() {
    std::lock_guard lock(mutex_);
    filling_ = false;
    issue_batches();
    return broken_ || dying_ ? SDMA_ERROR : SDMA_OK;
}

sdma_status_t Line::fence() {
    std::lock_guard lock(mutex_);
    filling_ = false;
    fenced_ = fenced_ || !batches_.empty();
    issue_batches();
    return broken_ || dying_ ? SDMA_ERROR : SDMA_OK;
}

sdma_status_t Line::progress() {
    std::lock_guard lock(mutex_);
    filling_ = false;
    advance();
    return broken_ ? SDMA_ERROR : SDMA_OK;
}

void Line::advance() {
    if (broken_)
        return;
    context_.memory().progress(); // what peers have freed is not mapped for longer than to here
    if (context_.faulted()) {
        break_off(SDMA_REASON_fault);
        return;
    }
    while (issued_ > 0) {
        Batch &batch = *batches_.front();
        if (batch.poll() == Batch::Progress::failed) {
            hardware_fault(batch.what());
            return;
        }
        if (batch.departed())
            local_.store(batch.last, std::memory_order_release);
        if (!batch.complete())
            break;
        done_.store(batch.last, std::memory_order_release);
        take_away(batch);
        batches_.pop_front();
        issued_--;
    }
    issue_batches();
    if (!broken_)
        watch();
    if (!broken_ && dying_ && batches_.empty())
        break_off(SDMA_REASON_peer_gone);
}

// Whatever may go and has room. Stays in order.
void Line::issue_batches() {
    while (!broken_ && issued_ < batches_.size()) {
        Batch &batch = *batches_[issued_];
        if ((filling_ && &batch == batches_.back().get()) || (batch.held() && issued_ > 0))
            return;
        const Batch::Progress progress = batch.issue();
        if (progress == Batch::Progress::failed) {
            hardware_fault(batch.what());
            return;
        }
        if (!batch.issued())
            return;
        issued_++;
    }
}

void Line::take_away(Batch &batch) {
    context_.memory().pins().release(*runtime_, batch.pins);
    for (memory::Attachment *attachment : batch.attachments)
        context_.memory().attachments().unuse(*attachment);
}

bool Line::moved() {
    std::lock_guard lock(mutex_);
    if (broken_ || batches_.empty())
        return false;
    return context_.faulted() || issued_ == 0 || batches_.front()->ready();
}

bool Line::busy() {
    std::lock_guard lock(mutex_);
    return !broken_ && !batches_.empty();
}

// ---- what ends a wait that will not end by itself ------------------------------------------------

void Line::watch() {
    // The first calls after a look are those of slow callers, who would need very long for 64.
    if (++polls_ % polls_between_looks != 0 && polls_ > polls_between_looks)
        return;
    const int64_t now = now_ms(), passed = now - last_look_;
    if (last_look_ != 0 && passed < ms_between_looks)
        return;
    const bool first = last_look_ == 0;
    last_look_ = now;
    polls_ = 0;
    if (!dying_ && process_->gone())
        lose_peer();
    watch_hardware(first ? 0 : passed);
}

void Line::watch_hardware(int64_t passed) {
    if (batches_.empty()) {
        idle_ms_ = 0;
        return;
    }
    // A process that was stopped, or does not poll, says nothing about its hardware.
    const int64_t limit = std::max(params().hardware_timeout, 1);
    const uint64_t activity = batches_.front()->activity() + (done_ << 32);
    idle_ms_ = activity == last_activity_ ? idle_ms_ + std::min(passed, std::max<int64_t>(limit / 4, 1)) : 0;
    last_activity_ = activity;
    if (idle_ms_ >= limit)
        hardware_fault("no progress for " + std::to_string(idle_ms_) + " ms");
}

void Line::hardware_fault(const std::string &what) {
    const std::string line = what + "; " + batches_.front()->describe();
    // Queues first: nobody hears of the fault while an engine may still write.
    context_.fail();
    log(0, "line to process %" PRIu64 ": %s", process_->identity().pid, line.c_str());
    break_off(SDMA_REASON_fault);
}

// What engines and kernels have goes on: it ends in memory that stays mapped until then.
void Line::lose_peer() {
    log(1, "line to process %" PRIu64 ": the process has ended", process_->identity().pid);
    reason_ = SDMA_REASON_peer_gone;
    drop_unissued();
    dying_ = true;
}

void Line::drop_unissued() {
    filling_ = false;
    while (batches_.size() > issued_) {
        take_away(*batches_.back());
        batches_.pop_back();
    }
}

// Nothing is waited for any more. After a fault, kernels may still use records, pinned memory and
// mappings of what was issued: those stay.
void Line::break_off(sdma_reason_t reason) {
    drop_unissued();
    batches_.clear();
    issued_ = 0;
    broken_ = true;
    reason_ = reason;
    local_.store(posted_, std::memory_order_release);
    done_.store(posted_, std::memory_order_release);
}

} // namespace sdma::line
