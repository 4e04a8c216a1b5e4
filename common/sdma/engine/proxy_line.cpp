// SPDX-License-Identifier: BSD-3-Clause
#include "proxy_line.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "../base/base.hpp"

namespace sdma::engine::proxy {

namespace {

uint64_t load(uint64_t address) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(address)).load(std::memory_order_acquire);
}

void publish(uint64_t address, uint64_t value) {
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(address)).store(value, std::memory_order_release);
}

using Clock = std::chrono::steady_clock;

} // namespace

// Exclusive use of a line, if it was free. Those who look all the time do not take the word's cache line from the one
// who serves.
class Line::Turn {
public:
    explicit Turn(Line &line)
        : line_(line), mine_(!line.serving_.load(std::memory_order_relaxed) &&
                             !line.serving_.exchange(true, std::memory_order_acquire)) {}
    ~Turn() {
        if (mine_)
            line_.serving_.store(false, std::memory_order_release);
    }
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;
    explicit operator bool() const { return mine_; }

private:
    Line &line_;
    const bool mine_;
};

Line::Line(std::shared_ptr<gpu::Runtime> runtime, std::unique_ptr<gpu::Stream> stream, const struct sdma_ring *ring,
           std::string label)
    : runtime_(std::move(runtime)), stream_(std::move(stream)), ring_(*ring), label_(std::move(label)),
      read_(load(ring_.read_pointer)) {}

Line::~Line() {
    if (staging_)
        runtime_->free_shared(staging_);
}

bool Line::serve() {
    const Turn turn(*this);
    if (!turn || closing() || stopped_)
        return false;
    const uint64_t rung = load(ring_.doorbell);
    if (rung == read_ && held_.bytes == 0 && submitted_)
        return false;
    // A producer publishes the write pointer before it rings: hardware may load either.
    const uint64_t written = load(ring_.write_pointer);
    if (rung - read_ > ring_.bytes || written < rung || written - read_ > ring_.bytes || (rung & 3)) {
        log(0, "proxy: %s stopped: doorbell %#llx and write pointer %#llx do not follow read pointer %#llx",
            label_.c_str(), static_cast<unsigned long long>(rung), static_cast<unsigned long long>(written),
            static_cast<unsigned long long>(read_));
        stopped_ = true;
        return false;
    }
    return consume(rung);
}

bool Line::consume(uint64_t rung) {
    const uint64_t start = read_;
    while (read_ < rung) {
        const uint64_t offset = read_ & (ring_.bytes - 1);
        const uint64_t available = std::min(rung - read_, ring_.bytes - offset) / sizeof(uint32_t);
        const Command command = decode(reinterpret_cast<const uint32_t *>(ring_.base + offset), available);
        if (command.action == Action::refuse) {
            refuse(offset, available);
            break;
        }
        const gpu::Status status = execute(command);
        if (passes(status) || !check(status, "packet"))
            break; // what passes leaves the packet in the ring until the next turn
        read_ += command.dwords * sizeof(uint32_t);
        publish(ring_.read_pointer, read_);
    }
    // What came before a refused packet still happens; with a full stream, at the next turn.
    const gpu::Status held = copy_held();
    if (passes(held) || check(held, "copy")) {
        const gpu::Status status = stream_->submit();
        submitted_ = status == gpu::Status::ok;
        if (!passes(status))
            check(status, "submission");
    }
    if (!raised_.empty() && !raised_marked_)
        raised_marked_ = stream_->mark(raised_mark_) == gpu::Status::ok;
    return read_ != start;
}

gpu::Status Line::execute(const Command &command) {
    switch (command.action) {
    case Action::copy:
        return copy(command);
    case Action::store:
        return signal(command.address, command.value, sizeof(uint32_t));
    case Action::add:
        return raise(command.address, command.value);
    case Action::skip:
        return gpu::Status::ok;
    case Action::refuse:
        break;
    }
    return gpu::Status::invalid;
}

gpu::Status Line::copy(const Command &command) {
    if (held_.bytes && command.source == held_.source + held_.bytes && command.address == held_.address + held_.bytes) {
        held_.bytes += command.bytes;
        return gpu::Status::ok;
    }
    const gpu::Status status = copy_held();
    if (status == gpu::Status::ok)
        held_ = command;
    return status;
}

gpu::Status Line::copy_held() {
    if (held_.bytes == 0)
        return gpu::Status::ok;
    const gpu::Status status = stream_->copy(reinterpret_cast<void *>(held_.address),
                                             reinterpret_cast<const void *>(held_.source), held_.bytes);
    if (status == gpu::Status::ok)
        held_ = {};
    return status;
}

gpu::Status Line::signal(uint64_t address, uint64_t value, uint32_t width) {
    gpu::Status status = copy_held();
    if (status != gpu::Status::ok)
        return status;
    status = stream_->store(address, value, width);
    return status == gpu::Status::unsupported ? signal_by_copy(address, value, width) : status;
}

// A stream orders copies as well as stores, and it takes the addresses that packets carry, which a
// CPU may not be able to use. Aligned words of 4 and 8 bytes are moved whole.
gpu::Status Line::signal_by_copy(uint64_t address, uint64_t value, uint32_t width) {
    if (!staging_)
        staging_ = static_cast<uint64_t *>(runtime_->allocate_shared(staged_values * sizeof(uint64_t)));
    if (!staging_)
        return gpu::Status::no_memory;
    if (staged_ == staged_values) { // every word holds a value: the first is free once all are delivered
        gpu::Status status = staging_marked_ ? gpu::Status::ok : stream_->mark(staging_mark_);
        staging_marked_ = status == gpu::Status::ok;
        if (staging_marked_)
            status = stream_->reached(staging_mark_);
        if (status != gpu::Status::ok)
            return status;
        staging_marked_ = false;
        staged_ = 0;
    }
    uint64_t *word = staging_ + staged_;
    *word = value;
    const gpu::Status status = stream_->copy(reinterpret_cast<void *>(address), word, width);
    if (status == gpu::Status::ok)
        staged_++;
    return status;
}

// A signal word has one writing rank and only grows. Its value is what memory holds or, if later,
// what this queue has already put on its way. What has arrived is forgotten: the address may be another word's by now.
gpu::Status Line::raise(uint64_t address, uint64_t amount) {
    if (raised_marked_ && stream_->reached(raised_mark_) == gpu::Status::ok)
        raised_.clear();
    uint64_t held = 0;
    gpu::Status status = runtime_->copy(&held, reinterpret_cast<const void *>(address), sizeof held);
    if (status != gpu::Status::ok)
        return status;
    uint64_t &last = raised_[address];
    const uint64_t value = std::max(last, held) + amount;
    status = signal(address, value, sizeof value);
    if (status == gpu::Status::ok) {
        last = value;
        raised_marked_ = false;
    }
    return status;
}

// What another attempt may cure. A shortage that does not pass ends by the time limit of whoever waits for the queue.
bool Line::passes(gpu::Status status) {
    if (status == gpu::Status::no_memory && !std::exchange(shortage_logged_, true))
        log(0, "proxy: %s waits at ring offset %#llx: %s", label_.c_str(),
            static_cast<unsigned long long>(read_ & (ring_.bytes - 1)), gpu::to_string(status));
    return status == gpu::Status::pending || status == gpu::Status::no_memory;
}

bool Line::check(gpu::Status status, const char *what) {
    if (status == gpu::Status::ok)
        return true;
    if (!stopped_)
        log(0, "proxy: %s stopped at ring offset %#llx: %s: %s", label_.c_str(),
            static_cast<unsigned long long>(read_ & (ring_.bytes - 1)), what, gpu::to_string(status));
    stopped_ = true;
    return false;
}

void Line::refuse(uint64_t offset, uint64_t dwords) {
    std::string text;
    const auto *packet = reinterpret_cast<const uint32_t *>(ring_.base + offset);
    for (uint64_t i = 0; i < std::min<uint64_t>(dwords, 8); i++) {
        char word[12];
        std::snprintf(word, sizeof word, " %08x", packet[i]);
        text += word;
    }
    log(0, "proxy: %s stopped at ring offset %#llx: packet not served:%s", label_.c_str(),
        static_cast<unsigned long long>(offset), text.c_str());
    stopped_ = true;
}

bool Line::close(int timeout_ms) {
    closing_.store(true, std::memory_order_release);
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
    while (true) {
        const Turn turn(*this);
        if (turn)
            return settle(deadline);
        if (Clock::now() > deadline)
            return false;
        std::this_thread::yield();
    }
}

bool Line::settle(Clock::time_point deadline) {
    stopped_ = true;
    uint64_t mark = 0;
    gpu::Status status;
    while ((status = stream_->mark(mark)) == gpu::Status::no_memory && Clock::now() < deadline)
        std::this_thread::yield();
    if (status == gpu::Status::ok)
        while ((status = stream_->reached(mark)) == gpu::Status::pending && Clock::now() < deadline)
            std::this_thread::yield();
    // A runtime whose context is broken reports a failure at once: nothing moves any more.
    return status != gpu::Status::pending && status != gpu::Status::no_memory;
}

} // namespace sdma::engine::proxy
