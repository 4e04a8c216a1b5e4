// SPDX-License-Identifier: BSD-3-Clause
#include "memory.hpp"

#include "../base/base.hpp"
#include "../base/phase.hpp"

namespace sdma::memory {

Memory::Memory(Gpu_source source) : source_(std::move(source)), identity_(new_identity()) {}

Memory::~Memory() {
    if (!runtime_)
        return;
    runtime_->on_free({});
    attachments_->detach_all(*runtime_);
    registry_->retire_all();
}

bool Memory::create() {
    std::lock_guard lock(mutex_);
    if (registry_)
        return true;
    segment_ = Segment::create("mpi-sdma-process", sizeof(Process_table));
    if (!segment_)
        return false;
    registry_ = std::make_shared<Registry>(*segment_.at<Process_table>(0), segment_.fd(), identity_.instance);
    attachments_ = std::make_unique<Attachments>(*registry_);
    return true;
}

std::shared_ptr<Peer_process> Memory::process(const Identity &identity, uint64_t fd) {
    std::lock_guard lock(mutex_);
    std::erase_if(processes_, [](const auto &process) { return process.expired(); });
    for (const auto &known : processes_)
        if (auto process = known.lock(); process && process->identity() == identity)
            return process;
    auto process = Peer_process::open(identity_, identity, fd);
    if (process)
        processes_.push_back(process);
    return process;
}

gpu::Runtime *Memory::runtime(sdma_reason_t &reason) {
    if (gpu::Runtime *opened = opened_.load(std::memory_order_acquire))
        return opened;
    std::lock_guard lock(mutex_);
    if (!runtime_) {
        Timed timed(Phase::runtime);
        std::shared_ptr<gpu::Runtime> opened = source_.open(reason);
        if (!opened)
            return nullptr;
        // The runtime may outlive us, and a free may be on its way in another thread.
        opened->on_free([registry = std::weak_ptr(registry_)](void *base, uint64_t generation) {
            if (auto alive = registry.lock())
                alive->retire(base, generation);
        });
        runtime_ = std::move(opened);
        opened_.store(runtime_.get(), std::memory_order_release);
    }
    return runtime_.get();
}

int Memory::progress() {
    gpu::Runtime *opened = open_runtime();
    return opened ? attachments_->sweep(*opened) : 0;
}

} // namespace sdma::memory
