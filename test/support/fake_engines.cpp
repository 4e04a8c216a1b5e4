// SPDX-License-Identifier: BSD-3-Clause
//
// engine::Engines for unit tests, on the rings of the fake node: linked instead of the product's.
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "fake_node.hpp"

namespace sdma::engine {

struct Engines::State {
    std::shared_ptr<gpu::Runtime> runtime;
    std::mutex mutex;
    std::map<std::tuple<int, uint32_t, Producer>, Queue *> queues;
    fake::Runtime &fake() { return static_cast<fake::Runtime &>(*runtime); }
};

Engines::Engines(std::shared_ptr<gpu::Runtime> runtime) : state_(std::make_unique<State>()) {
    state_->runtime = std::move(runtime);
}

Engines::~Engines() {
    for (auto &[key, queue] : state_->queues)
        if (queue)
            state_->fake().stop_queue(*queue);
}

Queue *Engines::queue(int device, const gpu::Pci_address &peer, Producer producer, sdma_reason_t &reason) {
    reason = SDMA_REASON_slots_full;
    if (state_->fake().faults.no_queues)
        return nullptr;
    std::lock_guard lock(state_->mutex);
    auto [entry, made] = state_->queues.try_emplace({device, peer.bus % 3u, producer}, nullptr); // some share one
    if (made)
        entry->second = state_->fake().make_queue(device, peer.bus % 3u, producer);
    if (entry->second)
        reason = SDMA_REASON_none;
    return entry->second;
}

Producer Engines::producer(int, const char *word) {
    return strcmp(word, "host") == 0 ? Producer::host : Producer::device;
}

void Engines::abandon(Queue &queue) {
    std::lock_guard lock(state_->mutex);
    for (auto &[key, known] : state_->queues)
        if (known == &queue) {
            state_->fake().stop_queue(queue);
            queue.ring = nullptr;
            queue.visible_cursors = nullptr;
            known = nullptr;
        }
}

std::vector<Engines::Report> Engines::report(int) { return {{"fake", SDMA_REASON_none}}; }

std::string Queue::describe() const {
    const auto read = [](uint64_t address) {
        return std::to_string(__atomic_load_n(reinterpret_cast<const uint64_t *>(address), __ATOMIC_ACQUIRE));
    };
    if (!ring)
        return "queue of engine " + std::to_string(engine) + ", destroyed";
    return "queue of engine " + std::to_string(engine) + ", read " + read(ring->read_pointer) + ", write " +
           read(ring->write_pointer) + ", committed " + read(ring->cursors + offsetof(sdma_ring_cursors, commit));
}

} // namespace sdma::engine
