// SPDX-License-Identifier: BSD-3-Clause
#include "resident.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "../base/base.hpp"
#include "mailbox.hpp"

namespace sdma::op {

namespace {

// A kernel that closes says within a trip over the bus whether it ends. Beyond these looks it is left to poll().
constexpr int looks_at_closing = 256;
// The launch of a kernel that runs is looked at only now and then: does it live?
constexpr uint32_t polls_between_looks = 64;
constexpr int64_t most_idle_us = 1000000;

} // namespace

Resident::Resident(gpu::Runtime &runtime, int device)
    : runtime_(runtime), device_(device),
      mailbox_(static_cast<sdma_mailbox *>(runtime.allocate_shared(
          sizeof(sdma_mailbox) + (runtime.resident_copies() ? sizeof(sdma_mailbox_carried) : 0)))) {}

Resident::~Resident() {
    if (!mailbox_)
        return;
    stop();
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(std::max(params().hardware_timeout, 1));
    while (launch_ != 0 && runtime_.finished(launch_) == gpu::Status::pending) {
        if (std::chrono::steady_clock::now() > end) {
            log(0, "resident kernel of gpu %s does not end: %s; its memory is kept",
                gpu::to_string(runtime_.devices()[static_cast<size_t>(device_)].pci).c_str(), describe().c_str());
            return;
        }
        std::this_thread::yield();
    }
    runtime_.free_shared(mailbox_);
}

gpu::Status Resident::submit(const struct sdma_work &work) {
    std::lock_guard lock(mutex_);
    if (!mailbox_)
        return gpu::Status::unsupported;
    if (stopped_ || dead_)
        return gpu::Status::failed;
    if (head_ - mailbox::issued(*mailbox_) >= SDMA_MAILBOX_SLOTS)
        return gpu::Status::pending; // the records in there have their owners' polls
    if (mailbox::state(*mailbox_) == SDMA_MAILBOX_ENDED)
        if (const gpu::Status status = start(); status != gpu::Status::ok)
            return status;
    if (runtime_.resident_copies())
        mailbox::carry(*reinterpret_cast<sdma_mailbox_carried *>(mailbox_ + 1), head_, work);
    mailbox::post(*mailbox_, head_++, reinterpret_cast<uint64_t>(&work), work.record_bytes);
    count(Counter::resident);
    gpu::Status status = ready();
    for (int looks = 0; status == gpu::Status::pending && looks < looks_at_closing; looks++) {
        device::pause();
        status = ready();
    }
    return status == gpu::Status::pending ? gpu::Status::ok : status;
}

gpu::Status Resident::poll() {
    const bool look = polls_.fetch_add(1, std::memory_order_relaxed) % polls_between_looks == 0;
    if (!look && mailbox::state(*mailbox_) != SDMA_MAILBOX_ENDED)
        return gpu::Status::ok;
    std::lock_guard lock(mutex_);
    if (dead_)
        return gpu::Status::failed;
    gpu::Status status = gpu::Status::ok;
    if (mailbox::state(*mailbox_) == SDMA_MAILBOX_ENDED) {
        if (head_ != mailbox::issued(*mailbox_) && !stopped_)
            status = start();
    } else if (launch_ != 0) {
        const gpu::Status launch = runtime_.finished(launch_);
        // Over, and not by the way out.
        if (launch != gpu::Status::pending && mailbox::state(*mailbox_) != SDMA_MAILBOX_ENDED)
            status = died(launch);
    }
    return status == gpu::Status::pending ? gpu::Status::ok : status;
}

void Resident::hold() {
    std::lock_guard lock(mutex_);
    mailbox::store(mailbox_->busy, ++held_);
}

void Resident::release() {
    std::lock_guard lock(mutex_);
    mailbox::store(mailbox_->busy, --held_);
}

void Resident::stop() {
    std::lock_guard lock(mutex_);
    if (!mailbox_)
        return;
    stopped_ = true;
    mailbox::store(mailbox_->head, head_ | SDMA_MAILBOX_STOP);
}

// ok: a kernel is there and stays for what is in the mailbox now. pending: look again.
gpu::Status Resident::ready() {
    switch (mailbox::state(*mailbox_)) {
    case SDMA_MAILBOX_RUNNING:
        return gpu::Status::ok;
    case SDMA_MAILBOX_ENDED:
        return start();
    default:
        return gpu::Status::pending;
    }
}

// After ENDED. The last kernel's launch must be over: lanes of it may still read their order.
gpu::Status Resident::start() {
    if (launch_ != 0) {
        const gpu::Status last = runtime_.finished(launch_);
        if (last != gpu::Status::ok)
            return last == gpu::Status::pending ? last : died(last);
        launch_ = 0;
    }
    mailbox::open(*mailbox_,
                  static_cast<uint64_t>(std::clamp<int64_t>(params().resident_idle, 0, most_idle_us)) * 1000);
    const gpu::Status status = runtime_.launch(device_, gpu::Kernel::resident, 1, mailbox_, launch_);
    if (status == gpu::Status::ok) {
        count(Counter::launches);
        return status;
    }
    launch_ = 0;
    mailbox::store(mailbox_->state, SDMA_MAILBOX_ENDED);
    return status == gpu::Status::pending || status == gpu::Status::unsupported ? status : died(status);
}

gpu::Status Resident::died(gpu::Status why) {
    dead_ = true;
    log(0, "resident kernel of gpu %s is dead (%s): %s",
        gpu::to_string(runtime_.devices()[static_cast<size_t>(device_)].pci).c_str(), gpu::to_string(why),
        describe().c_str());
    return gpu::Status::failed;
}

std::string Resident::describe() const {
    if (!mailbox_)
        return "no mailbox";
    const char *const names[] = {"ended", "running", "closing"};
    const auto state = std::min<size_t>(mailbox::state(*mailbox_), 2);
    return std::string("resident kernel ") + names[state] + ", issued " + std::to_string(mailbox::issued(*mailbox_)) +
           " of " + std::to_string(mailbox::load(mailbox_->head) & ~SDMA_MAILBOX_STOP);
}

} // namespace sdma::op
