// SPDX-License-Identifier: BSD-3-Clause
//
// Peers' allocations mapped here: one cache for the process, counted by teams (which keep what
// they have agreed on) and by operations in flight. Idle mappings stay for the next team until the
// bounds (attach_entries, attach_bytes) push them out or their owner retires them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "process.hpp"

namespace sdma::memory {

struct Attachment {
    std::shared_ptr<Peer_process> process;
    Exported source;
    int device = -1;
    char *mapped = nullptr; // nullptr once it is detached
    uint32_t teams = 0;
    uint32_t uses = 0;
    bool retired = false; // the owner took it back; detached as soon as no operation uses it
    uint64_t last_use = 0;
};

// Thread-safe. The fields of an Attachment belong to the cache, except `source` and `device`,
// which do not change, and `mapped`, which does not change while a use is counted.
class Attachments {
public:
    explicit Attachments(Registry &own) : own_(own) {}

    // Find or map; counts one team until drop(). Reasons: attach_failed, no_memory.
    sdma_reason_t acquire(gpu::Runtime &runtime, const std::shared_ptr<Peer_process> &process, int device, uint64_t id,
                          uint64_t generation, Attachment *&attachment);
    void drop(gpu::Runtime &runtime, Attachment &attachment);

    // Count an operation; false if the owner has retired it.
    bool use(Attachment &attachment);
    void unuse(Attachment &attachment);

    // Detach what owners have retired. Cheap when nothing happened. Returns how many were detached.
    int sweep(gpu::Runtime &runtime);
    // Detach everything. No operation and no team uses anything any more.
    void detach_all(gpu::Runtime &runtime);

    // Moves when the bounds could not be kept because teams hold on to too much: every team drops
    // what its last call did not need as soon as it can.
    uint64_t pressure() const { return pressure_.load(std::memory_order_relaxed); }

private:
    using Key = std::tuple<const Peer_process *, uint64_t, int>;
    using Map = std::map<Key, std::unique_ptr<Attachment>>;

    bool over_bounds(size_t more_entries, size_t more_bytes) const;
    void make_room(gpu::Runtime &runtime, size_t bytes);
    void detach(gpu::Runtime &runtime, Attachment &attachment);
    int sweep_locked(gpu::Runtime &runtime);
    Map::iterator erase(Map::iterator entry);
    void mark_retired(const Peer_process &process);

    Registry &own_;
    std::mutex mutex_;
    Map map_;
    std::map<const Peer_process *, uint64_t> seen_retired_; // per process with entries in map_
    std::atomic<size_t> mapped_entries_{0};
    size_t mapped_bytes_ = 0;
    size_t retired_entries_ = 0;                          // marked, not yet detached
    std::set<std::pair<uint64_t, gpu::Status>> reported_; // failures that were logged, by pid
    uint64_t clock_ = 0;
    std::atomic<uint64_t> pressure_{0};
};

} // namespace sdma::memory
