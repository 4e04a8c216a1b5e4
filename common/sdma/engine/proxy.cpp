// SPDX-License-Identifier: BSD-3-Clause
#include "proxy.hpp"

#include <map>
#include <mutex>
#include <vector>

#include "../base/base.hpp"
#include "proxy_worker.hpp"

namespace sdma::engine {

namespace {

// One allocation per queue: the first page holds the descriptor and the words, each on cache lines
// of its own, and the ring follows.
constexpr size_t page = 4096;
constexpr size_t doorbell_offset = 256;
constexpr size_t write_pointer_offset = 512;
constexpr size_t read_pointer_offset = 768;
constexpr size_t cursors_offset = 1024;
static_assert(cursors_offset + sizeof(struct sdma_ring_cursors) <= page);

class Proxy : public Back_end {
public:
    explicit Proxy(std::shared_ptr<gpu::Runtime> runtime) : runtime_(std::move(runtime)) {}

    const char *name() const override { return "proxy"; }
    // A kernel's packets come to a thread later by a launch and a trip over the bus (16 us, 2 x H200).
    Producer producer() const override { return Producer::host; }
    sdma_reason_t available(int device) override;
    sdma_reason_t create(int device, uint32_t engine, Producer producer, std::unique_ptr<Queue> &queue) override;
    void destroy(Queue &queue) override;

private:
    sdma_reason_t make_ring(Queue &queue);
    void free_ring(Queue &queue);
    proxy::Worker *worker(int device);

    const std::shared_ptr<gpu::Runtime> runtime_;
    std::mutex mutex_; // guards what follows
    std::map<int, std::unique_ptr<proxy::Worker>> workers_;
    std::map<const struct sdma_ring *, std::shared_ptr<proxy::Line>> lines_;
};

sdma_reason_t Proxy::available(int device) {
    const bool known = device >= 0 && static_cast<size_t>(device) < runtime_->devices().size();
    return known ? SDMA_REASON_none : SDMA_REASON_no_gpu;
}

sdma_reason_t Proxy::make_ring(Queue &queue) {
    auto *memory = static_cast<char *>(runtime_->allocate_shared(page + queue.bytes));
    if (!memory)
        return SDMA_REASON_no_memory;
    const auto address = reinterpret_cast<uint64_t>(memory);
    queue.ring = reinterpret_cast<struct sdma_ring *>(memory);
    *queue.ring = {.base = address + page,
                   .bytes = queue.bytes,
                   .read_pointer = address + read_pointer_offset,
                   .write_pointer = address + write_pointer_offset,
                   .doorbell = address + doorbell_offset,
                   .cursors = address + cursors_offset};
    if (queue.producer == Producer::host) {
        queue.visible_cursors = reinterpret_cast<const struct sdma_ring_cursors *>(queue.ring->cursors);
        return SDMA_REASON_none;
    }
    queue.ring->cursors =
        reinterpret_cast<uint64_t>(runtime_->allocate_device(queue.device, sizeof(struct sdma_ring_cursors)));
    if (queue.ring->cursors)
        return SDMA_REASON_none;
    free_ring(queue);
    return SDMA_REASON_no_memory;
}

void Proxy::free_ring(Queue &queue) {
    if (queue.producer == Producer::device && queue.ring->cursors)
        runtime_->free_device(reinterpret_cast<void *>(queue.ring->cursors));
    runtime_->free_shared(queue.ring);
    queue.ring = nullptr;
}

proxy::Worker *Proxy::worker(int device) {
    std::unique_ptr<proxy::Worker> &worker = workers_[device];
    if (!worker)
        worker = proxy::Worker::start(static_cast<uint32_t>(device), runtime_->devices()[device].pci);
    return worker.get();
}

sdma_reason_t Proxy::create(int device, uint32_t engine, Producer producer, std::unique_ptr<Queue> &queue) {
    if (const sdma_reason_t reason = available(device))
        return reason;
    std::unique_ptr<gpu::Stream> stream = runtime_->stream(device);
    if (!stream)
        return SDMA_REASON_no_stream;
    auto made = std::make_unique<Queue>();
    made->bytes = ring_size(params().ring_bytes);
    made->placement = Placement::host_pinned;
    made->gpu_ringable = true;
    made->prefers_fence = true; // an addition needs the word's old value: a blocking copy
    made->read_by_software = true;
    made->generation = new_generation();
    made->device = device;
    made->engine = engine;
    made->producer = producer;
    made->back_end = name();
    if (const sdma_reason_t reason = make_ring(*made))
        return reason;

    std::lock_guard guard(mutex_);
    proxy::Worker *serving = worker(device);
    if (!serving) {
        free_ring(*made);
        return SDMA_REASON_no_thread;
    }
    auto line = std::make_shared<proxy::Line>(runtime_, std::move(stream), made->ring,
                                              "queue " + std::to_string(made->generation) + " of gpu " +
                                                  gpu::to_string(runtime_->devices()[device].pci));
    made->serve = [line] { return line->serve(); };
    made->wake = [serving] { serving->wake(); };
    serving->add(line);
    lines_[made->ring] = std::move(line);
    queue = std::move(made);
    return SDMA_REASON_none;
}

void Proxy::destroy(Queue &queue) {
    std::shared_ptr<proxy::Line> line;
    {
        std::lock_guard guard(mutex_);
        const auto found = lines_.find(queue.ring);
        if (found == lines_.end())
            return;
        line = std::move(found->second);
        lines_.erase(found);
    }
    queue.serve = nullptr;
    queue.wake = nullptr;
    const bool idle = line->close(params().hardware_timeout);
    if (!idle) {
        log(0, "proxy: %s is not idle after %d ms; its ring is kept", queue.describe().c_str(),
            params().hardware_timeout);
        static std::mutex mutex;
        static auto &kept = *new std::vector<std::shared_ptr<proxy::Line>>; // for ever, as the ring
        std::lock_guard guard(mutex);
        kept.push_back(std::move(line));
    }
    queue.visible_cursors = nullptr;
    if (idle && !queue.faulty)
        free_ring(queue);
    queue.ring = nullptr;
}

} // namespace

std::unique_ptr<Back_end> make_proxy_back_end(std::shared_ptr<gpu::Runtime> runtime) {
    return std::make_unique<Proxy>(std::move(runtime));
}

} // namespace sdma::engine
