// SPDX-License-Identifier: BSD-3-Clause
#include "context.hpp"

#include <new>

#include "../base/base.hpp"

namespace sdma::op {

Context::Context(Platform platform) : platform_(std::move(platform)), memory_(platform_.gpu) {}

Context::~Context() {
    residents_.clear(); // initiators, then engines
    engines_.reset();   // engines stop before anything they may touch goes
    if (gpu::Runtime *runtime = memory_.open_runtime())
        for (const auto &[bytes, records] : free_records_)
            for (std::byte *record : records)
                runtime->free_shared(record);
}

engine::Engines *Context::engines() {
    std::lock_guard lock(mutex_);
    if (!engines_ && memory_.open_runtime())
        engines_ = std::make_unique<engine::Engines>(memory_.shared_runtime());
    return engines_.get();
}

engine::Queue *Context::queue(int device, const gpu::Pci_address &peer, engine::Producer producer,
                              sdma_reason_t &reason) {
    engine::Engines *all = engines();
    reason = SDMA_REASON_no_runtime;
    engine::Queue *queue = all ? all->queue(device, peer, producer, reason) : nullptr;
    if (!queue)
        return nullptr;
    std::lock_guard lock(mutex_);
    if (faulted()) { // meanwhile: fail() did not know of this one
        engines_->abandon(*queue);
        reason = SDMA_REASON_fault;
        return nullptr;
    }
    queues_.insert(queue);
    return queue;
}

sdma_reason_t Context::kernels(int device) {
    gpu::Runtime &runtime = *memory_.open_runtime();
    if (!platform_.has_kernels(runtime.devices()[static_cast<size_t>(device)].target))
        return SDMA_REASON_no_kernel;
    switch (runtime.prepare(device)) {
    case gpu::Status::ok:
        return SDMA_REASON_none;
    case gpu::Status::no_memory:
        return SDMA_REASON_no_memory;
    default:
        return SDMA_REASON_no_kernel;
    }
}

Resident &Context::resident(int device) {
    std::lock_guard lock(mutex_);
    return residents_.try_emplace(device, *memory_.open_runtime(), device).first->second;
}

std::byte *Context::take_record(size_t bytes) {
    std::lock_guard lock(mutex_);
    if (std::vector<std::byte *> &free = free_records_[bytes]; !free.empty()) {
        std::byte *record = free.back();
        free.pop_back();
        return record;
    }
    return static_cast<std::byte *>(memory_.open_runtime()->allocate_shared(bytes));
}

void Context::give_record(std::byte *record, size_t bytes) {
    std::lock_guard lock(mutex_);
    try {
        free_records_[bytes].push_back(record);
    } catch (const std::bad_alloc &) {
        memory_.open_runtime()->free_shared(record);
    }
}

void Context::add(team::Team &team) {
    std::lock_guard lock(mutex_);
    teams_.insert(&team);
}

void Context::remove(team::Team &team) {
    std::lock_guard lock(mutex_);
    teams_.erase(&team);
}

void Context::fail() {
    std::unique_lock no_producer(queues_mutex_);
    std::lock_guard lock(mutex_);
    if (faulted())
        return;
    for (auto &[device, resident] : residents_)
        resident.stop();
    for (engine::Queue *queue : queues_)
        engines_->abandon(*queue);
    faulted_.store(true, std::memory_order_release);
    for (team::Team *team : teams_)
        team->set_fault(SDMA_REASON_fault);
    log(0, "sdma is off for this process after a hardware fault; calls go the way they would without it");
}

} // namespace sdma::op
