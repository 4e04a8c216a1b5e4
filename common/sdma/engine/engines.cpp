// SPDX-License-Identifier: BSD-3-Clause
#include "engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <map>
#include <mutex>

#include "../base/base.hpp"
#include "../base/phase.hpp"
#include "proxy.hpp"
#include "topology.hpp"
#include "user.hpp"

namespace sdma::engine {

namespace {

// A word that an engine or a kernel may be writing.
uint64_t peek(const uint64_t *word) {
    return std::atomic_ref(*const_cast<uint64_t *>(word)).load(std::memory_order_acquire);
}

using Clock = std::chrono::steady_clock;

constexpr std::initializer_list<const char *> engine_words = {"auto", "user", "proxy", "none"};

bool one_of(const char *word, std::initializer_list<const char *> known) {
    return std::any_of(known.begin(), known.end(), [word](const char *one) { return std::strcmp(word, one) == 0; });
}

// Whether the parameter `engine` asks for this back end.
bool selected(const char *back_end) {
    const char *wanted = params().engine;
    return one_of(wanted, {back_end, "auto"}) || !one_of(wanted, engine_words);
}

// A word that is not known is taken for the first one, the default: say so.
void check_word(const char *name, const char *word, std::initializer_list<const char *> known) {
    if (one_of(word, known))
        return;
    std::string names;
    for (const char *one : known)
        names += names.empty() ? one : std::string(" or ") + one;
    log(0, "parameter %s: \"%s\" is not %s; %s is used", name, word, names.c_str(), *known.begin());
}

void check_words() {
    check_word("engine", params().engine, engine_words);
    check_word("initiator", params().initiator, {"auto", "gpu", "host"});
    check_word("launch", params().launch, {"call", "resident"});
    check_word("signal", params().signal, {"auto", "atomic", "fence"});
    check_word("put_initiator", params().put_initiator, {"auto", "gpu", "host"});
}

void check_ring_bytes() {
    static std::atomic<bool> logged{false};
    const size_t wanted = params().ring_bytes, used = ring_size(wanted);
    if (used != wanted && !logged.exchange(true))
        log(0, "parameter ring_bytes: %zu is not a power of two from 4096 to 64 MiB; %zu is used", wanted, used);
}

// What other processes hold now they may give back: such a refusal is not for good, but asking again
// costs a few calls of the driver, so it is done ever more rarely.
constexpr std::chrono::milliseconds first_pause{100}, longest_pause{60'000};

bool may_pass(sdma_reason_t reason) { return reason == SDMA_REASON_slots_full || reason == SDMA_REASON_no_memory; }

Clock::duration pause_after(uint32_t refusals) {
    return refusals < 10 ? std::min(first_pause * (1 << refusals), longest_pause) : longest_pause;
}

} // namespace

std::string Queue::describe() const {
    char text[256];
    int length = std::snprintf(text, sizeof text, "%s queue %" PRIu64 " of gpu %d, engine %u", back_end.c_str(),
                               generation, device, engine);
    const auto rest = [&] { return sizeof text - static_cast<size_t>(length); };
    if (!ring)
        return std::string(text) + ", destroyed";
    length += std::snprintf(text + length, rest(), ", read 0x%" PRIx64 ", write 0x%" PRIx64,
                            peek(reinterpret_cast<const uint64_t *>(ring->read_pointer)),
                            peek(reinterpret_cast<const uint64_t *>(ring->write_pointer)));
    if (visible_cursors)
        std::snprintf(text + length, rest(), ", committed 0x%" PRIx64 ", reserved 0x%" PRIx64,
                      peek(&visible_cursors->commit), peek(&visible_cursors->reserve));
    return text;
}

uint64_t new_generation() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

struct Engines::State {
    struct Key {
        int device;
        uint32_t engine;
        Producer producer;
        auto operator<=>(const Key &) const = default;
    };
    struct Entry {
        Queue *queue = nullptr; // several keys may share one
        sdma_reason_t reason = SDMA_REASON_none;
        uint32_t refusals = 0; // in a row
        Clock::time_point retry_at;
    };
    struct Way {
        std::unique_ptr<Back_end> back_end;
        bool selected = false;
        std::map<int, sdma_reason_t> failed; // devices on which it gave no queue
    };

    std::shared_ptr<gpu::Runtime> runtime;
    Topology topology;
    std::mutex mutex;      // guards what follows
    std::vector<Way> ways; // in the order of preference
    std::map<Key, Entry> entries;
    std::vector<std::unique_ptr<Queue>> queues; // out of use: ring == nullptr; users may still look

    std::map<std::pair<int, gpu::Pci_address>, uint32_t> numbered; // peers that the topology does not know

    uint32_t engine(int device, const gpu::Pci_address &peer);
    Entry create(const Key &key);
    Queue *shareable(const Key &key, const char *back_end);
    void destroy(Queue &queue);
};

Engines::Engines(std::shared_ptr<gpu::Runtime> runtime) : state_(std::make_unique<State>()) {
    check_words();
    check_ring_bytes();
    State &state = *state_;
    state.runtime = std::move(runtime);
    state.topology = Topology::read(params().sysfs);
    state.ways.push_back({make_user_back_end(state.runtime, state.topology), selected("user"), {}});
    state.ways.push_back({make_proxy_back_end(state.runtime), selected("proxy"), {}});
}

Engines::~Engines() {
    for (const auto &queue : state_->queues)
        state_->destroy(*queue);
}

Queue *Engines::queue(int device, const gpu::Pci_address &peer, Producer producer, sdma_reason_t &reason) {
    State &state = *state_;
    reason = SDMA_REASON_no_gpu;
    if (device < 0 || static_cast<size_t>(device) >= state.runtime->devices().size())
        return nullptr;
    std::lock_guard lock(state.mutex);
    const State::Key key{device, state.engine(device, peer), producer};
    State::Entry &entry = state.entries[key];
    const bool again = may_pass(entry.reason) && Clock::now() >= entry.retry_at;
    if (!entry.queue && (entry.reason == SDMA_REASON_none || again)) {
        const uint32_t refusals = entry.refusals;
        entry = state.create(key);
        entry.refusals = refusals + 1;
        entry.retry_at = Clock::now() + pause_after(refusals);
    }
    reason = entry.reason;
    return entry.queue;
}

Producer Engines::producer(int device, const char *word) {
    if (one_of(word, {"gpu", "host"}))
        return strcmp(word, "gpu") == 0 ? Producer::device : Producer::host;
    std::lock_guard lock(state_->mutex);
    for (State::Way &way : state_->ways)
        if (way.selected && !way.failed.contains(device) && way.back_end->available(device) == SDMA_REASON_none)
            return way.back_end->producer();
    return Producer::device;
}

// Where no topology tells engines apart each peer has its own, so that copies to different peers, and
// the own block beside them, overlap (326 against 385 GB/s at 512 MiB per peer, 2 x H200).
uint32_t Engines::State::engine(int device, const gpu::Pci_address &peer) {
    const gpu::Pci_address &own = runtime->devices()[device].pci;
    if (topology.find(own) && topology.find(peer))
        return topology.engine(own, peer);
    const auto next = static_cast<uint32_t>(std::count_if(
        numbered.begin(), numbered.end(), [device](const auto &entry) { return entry.first.first == device; }));
    return numbered.try_emplace({device, peer}, next).first->second;
}

// The first selected back end that gives one; the reason is the first one's.
Engines::State::Entry Engines::State::create(const Key &key) {
    Timed timed(Phase::queues);
    Entry entry;
    for (Way &way : ways) {
        if (!way.selected)
            continue;
        std::unique_ptr<Queue> made;
        const sdma_reason_t reason = way.back_end->create(key.device, key.engine, key.producer, made);
        if (made) {
            queues.push_back(std::move(made));
            way.failed.erase(key.device);
            entry.queue = queues.back().get();
            entry.reason = SDMA_REASON_none;
            return entry;
        }
        // Any engine reaches every peer, if over a longer way: better than none.
        if (reason == SDMA_REASON_slots_full)
            if (Queue *other = shareable(key, way.back_end->name())) {
                entry.queue = other;
                entry.reason = SDMA_REASON_none;
                return entry;
            }
        way.failed[key.device] = reason;
        if (entry.reason == SDMA_REASON_none)
            entry.reason = reason;
        log(1, "gpu %s, engine %u: back end %s gives no queue: %s",
            gpu::to_string(runtime->devices()[key.device].pci).c_str(), key.engine, way.back_end->name(),
            sdma_reason_text(reason));
    }
    if (entry.reason == SDMA_REASON_none)
        entry.reason = SDMA_REASON_disabled; // engine=none
    return entry;
}

Queue *Engines::State::shareable(const Key &key, const char *back_end) {
    for (const auto &queue : queues)
        if (queue->ring && queue->device == key.device && queue->producer == key.producer &&
            queue->back_end == back_end)
            return queue.get();
    return nullptr;
}

void Engines::State::destroy(Queue &queue) {
    if (!queue.ring)
        return;
    for (Way &way : ways)
        if (queue.back_end == way.back_end->name())
            way.back_end->destroy(queue);
}

void Engines::abandon(Queue &queue) {
    std::lock_guard lock(state_->mutex);
    if (!queue.ring)
        return;
    log(1, "taken out of use: %s", queue.describe().c_str());
    queue.faulty = true;
    state_->destroy(queue);
    for (auto &[key, entry] : state_->entries)
        if (entry.queue == &queue)
            entry = {nullptr, SDMA_REASON_fault, 0, {}};
}

std::vector<Engines::Report> Engines::report(int device) {
    std::vector<Report> reports;
    std::lock_guard lock(state_->mutex);
    for (State::Way &way : state_->ways) {
        const auto failed = way.failed.find(device);
        const sdma_reason_t reason = !way.selected                ? SDMA_REASON_disabled
                                     : failed != way.failed.end() ? failed->second
                                                                  : way.back_end->available(device);
        reports.push_back({way.back_end->name(), reason});
    }
    return reports;
}

} // namespace sdma::engine
