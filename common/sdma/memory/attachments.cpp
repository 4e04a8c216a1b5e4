// SPDX-License-Identifier: BSD-3-Clause
#include "attachments.hpp"

#include "../base/base.hpp"
#include "../base/phase.hpp"

namespace sdma::memory {

bool Attachments::over_bounds(size_t more_entries, size_t more_bytes) const {
    return mapped_entries_ + more_entries > params().attach_entries ||
           mapped_bytes_ + more_bytes > params().attach_bytes;
}

void Attachments::detach(gpu::Runtime &runtime, Attachment &attachment) {
    if (!attachment.mapped)
        return;
    if (!attachment.process->own())
        runtime.detach(attachment.mapped);
    attachment.process->let_go(attachment.source.id, attachment.device);
    attachment.mapped = nullptr;
    mapped_entries_--;
    mapped_bytes_ -= attachment.source.bytes;
    if (attachment.retired)
        retired_entries_--;
    count(Counter::detached);
}

Attachments::Map::iterator Attachments::erase(Map::iterator entry) {
    const Peer_process *process = std::get<0>(entry->first);
    auto next = map_.erase(entry);
    auto other = map_.lower_bound({process, 0, -1});
    if (other == map_.end() || std::get<0>(other->first) != process)
        seen_retired_.erase(process);
    return next;
}

// Push out idle entries, the idlest first, until one more fits. If that is not enough the bounds
// are exceeded for now, and the teams are asked to let go.
void Attachments::make_room(gpu::Runtime &runtime, size_t bytes) {
    while (over_bounds(1, bytes)) {
        auto idlest = map_.end();
        for (auto i = map_.begin(); i != map_.end(); ++i)
            if (i->second->teams == 0 && i->second->uses == 0 &&
                (idlest == map_.end() || i->second->last_use < idlest->second->last_use))
                idlest = i;
        if (idlest == map_.end()) {
            pressure_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        detach(runtime, *idlest->second);
        erase(idlest);
    }
}

sdma_reason_t Attachments::acquire(gpu::Runtime &runtime, const std::shared_ptr<Peer_process> &process, int device,
                                   uint64_t id, uint64_t generation, Attachment *&attachment) {
    std::lock_guard lock(mutex_);
    const Key key{process.get(), id, device};
    auto found = map_.find(key);
    if (found != map_.end() && !found->second->retired && found->second->source.generation == generation) {
        attachment = found->second.get();
        attachment->teams++;
        attachment->last_use = ++clock_;
        return SDMA_REASON_none;
    }
    // CUDA refuses to map an allocation while a freed one that lay there is still mapped. What its owner took
    // back before it offered this one is known by now.
    sweep_locked(runtime);
    found = map_.find(key);
    // Before the entry is read, so that its retirement after the reading is noticed.
    const uint64_t retired = process->table().retired.load(std::memory_order_acquire);
    // Made before anything is counted or mapped: memory may be short.
    Map fresh;
    Attachment *const entry = fresh.emplace(key, std::make_unique<Attachment>()).first->second.get();
    decltype(seen_retired_) seen{{process.get(), retired}};
    // Held before it is read: an owner that takes it back either sees us, or we see that it did.
    Exported source;
    const bool held = found == map_.end() && process->hold(id, device);
    if (!held || !read_entry(process->table(), id, generation, source)) {
        if (held)
            process->let_go(id, device);
        log(0, "process %llu offers registration %llu, which it does not have",
            static_cast<unsigned long long>(process->identity().pid), static_cast<unsigned long long>(id));
        return SDMA_REASON_attach_failed;
    }
    Timed timed(Phase::attachments);
    make_room(runtime, source.bytes);
    void *mapped = nullptr;
    gpu::Status status = gpu::Status::ok;
    if (process->own())
        mapped = own_.address(id);
    else
        status = runtime.attach(device, source.handle, source.bytes, mapped);
    if (status != gpu::Status::ok || !mapped) {
        process->let_go(id, device);
        // Operations try again; what does not change is said once.
        const uint64_t pid = process->identity().pid;
        log(reported_.emplace(pid, status).second ? 0 : 2, "mapping %llu bytes of process %llu: %s",
            static_cast<unsigned long long>(source.bytes), static_cast<unsigned long long>(pid),
            gpu::to_string(status));
        return status == gpu::Status::no_memory ? SDMA_REASON_no_memory : SDMA_REASON_attach_failed;
    }
    entry->process = process;
    entry->source = source;
    entry->device = device;
    entry->mapped = static_cast<char *>(mapped);
    entry->teams = 1;
    entry->last_use = ++clock_;
    attachment = entry;
    map_.merge(fresh);
    seen_retired_.merge(seen); // or it is there already
    mapped_entries_++;
    mapped_bytes_ += source.bytes;
    count(Counter::attached);
    return SDMA_REASON_none;
}

void Attachments::drop(gpu::Runtime &runtime, Attachment &attachment) {
    std::lock_guard lock(mutex_);
    attachment.teams--;
    if (attachment.teams > 0 || attachment.uses > 0)
        return;
    if (attachment.retired || over_bounds(0, 0)) {
        detach(runtime, attachment);
        erase(map_.find({attachment.process.get(), attachment.source.id, attachment.device}));
    }
}

bool Attachments::use(Attachment &attachment) {
    std::lock_guard lock(mutex_);
    if (attachment.retired)
        return false;
    attachment.uses++;
    attachment.last_use = ++clock_;
    return true;
}

void Attachments::unuse(Attachment &attachment) {
    std::lock_guard lock(mutex_);
    attachment.uses--;
}

void Attachments::mark_retired(const Peer_process &process) {
    Exported now;
    for (auto i = map_.lower_bound({&process, 0, -1}); i != map_.end() && std::get<0>(i->first) == &process; ++i) {
        Attachment &attachment = *i->second;
        if (!attachment.retired &&
            !read_entry(process.table(), attachment.source.id, attachment.source.generation, now)) {
            attachment.retired = true;
            if (attachment.mapped)
                retired_entries_++;
        }
    }
}

int Attachments::sweep(gpu::Runtime &runtime) {
    if (mapped_entries_.load(std::memory_order_relaxed) == 0)
        return 0;
    std::unique_lock lock(mutex_, std::try_to_lock);
    return lock ? sweep_locked(runtime) : 0; // or somebody is at it
}

int Attachments::sweep_locked(gpu::Runtime &runtime) {
    for (auto &[process, seen] : seen_retired_) {
        const uint64_t retired = process->table().retired.load(std::memory_order_acquire);
        if (retired != seen) {
            seen = retired;
            mark_retired(*process);
        }
    }
    int detached = 0;
    for (auto i = map_.begin(); retired_entries_ > 0 && i != map_.end();) {
        Attachment &attachment = *i->second;
        if (attachment.retired && attachment.mapped && attachment.uses == 0) {
            detach(runtime, attachment);
            detached++;
            // Teams that still name it find out when they look at it; the last one erases it.
            if (attachment.teams == 0) {
                i = erase(i);
                continue;
            }
        }
        ++i;
    }
    return detached;
}

void Attachments::detach_all(gpu::Runtime &runtime) {
    std::lock_guard lock(mutex_);
    for (auto &[key, attachment] : map_)
        detach(runtime, *attachment);
    map_.clear();
    seen_retired_.clear();
}

} // namespace sdma::memory
