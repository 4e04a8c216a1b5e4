// SPDX-License-Identifier: BSD-3-Clause
#include "user.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "../base/base.hpp"
#include "../ring/producer.h"
#include "probe.hpp"

namespace sdma::engine {

namespace {

constexpr size_t page = 4096;
constexpr uint32_t host_node = 0;      // KFD numbers CPU nodes before GPUs
constexpr uint32_t whole_queue = 100;  // percentage of the engine's time; the kernel ignores other values
constexpr int64_t normal_priority = 0; // accepted, but not translated for SDMA queues
// Executable and uncached: with a cached mapping of the ring engines were seen to fetch stale
// packets and hang (rocm-systems pull request 7727). Newer drivers also insist on a ring that is an
// allocation of its own.
constexpr uint32_t ring_flags =
    thunk::flag_host_access | thunk::flag_execute_access | thunk::flag_no_numa_bind | thunk::flag_uncached;

// ROCr uses kernels for its copies then; the driver does not enforce it, users rely on it.
bool disabled_by_user() {
    const char *value = std::getenv("HSA_ENABLE_SDMA");
    return value && std::strcmp(value, "0") == 0;
}

class User final : public Back_end {
public:
    User(std::shared_ptr<gpu::Runtime> runtime, const Topology &topology, const thunk::Functions *functions)
        : runtime_(std::move(runtime)), topology_(topology),
          thunk_(functions ? std::optional(*functions) : std::nullopt) {}
    ~User() override {
        if (open_)
            thunk_->hsaKmtCloseKFD();
    }

    const char *name() const override { return "user"; }
    sdma_reason_t available(int device) override;
    sdma_reason_t create(int device, uint32_t engine, Producer producer, std::unique_ptr<Queue> &queue) override;
    void destroy(Queue &queue) override;

private:
    struct Memory {
        void *ring = nullptr;
        void *cursors = nullptr;
        sdma_ring *descriptor = nullptr;
        size_t bytes = 0;
        bool on_device = false;
    };
    struct Owned {
        uint64_t id = 0;
        Memory memory;
    };

    sdma_reason_t open();
    void *allocate(uint32_t node, size_t bytes);
    void free(void *memory, size_t bytes);
    bool make_memory(const Queue &queue, Memory &memory);
    void free_memory(const Memory &memory);
    sdma_reason_t make_queue(const Queue &queue, const Memory &memory, thunk::Queue_resource &resource);
    void describe_ring(Queue &queue, const Memory &memory, const thunk::Queue_resource &resource);
    void destroy_locked(Queue &queue);
    uint32_t node_of(int device) const { return runtime_->devices()[device].node; }

    const std::shared_ptr<gpu::Runtime> runtime_;
    const Topology &topology_;
    const std::optional<thunk::Functions> thunk_;
    std::mutex mutex_; // guards what follows
    bool open_ = false;
    std::map<int, sdma_reason_t> unusable_; // devices whose probe failed
    std::map<const sdma_ring *, Owned> owned_;
};

sdma_reason_t User::available(int device) {
    if (device < 0 || static_cast<size_t>(device) >= runtime_->devices().size())
        return SDMA_REASON_no_gpu;
    if (disabled_by_user())
        return SDMA_REASON_sdma_disabled;
    if (!thunk_)
        return SDMA_REASON_no_thunk;
    std::lock_guard lock(mutex_);
    const auto found = unusable_.find(device);
    return found == unusable_.end() ? SDMA_REASON_none : found->second;
}

sdma_reason_t User::create(int device, uint32_t engine, Producer producer, std::unique_ptr<Queue> &queue) {
    if (const sdma_reason_t reason = available(device))
        return reason;
    std::lock_guard lock(mutex_);
    if (const sdma_reason_t reason = open())
        return reason;
    auto made = std::make_unique<Queue>();
    made->bytes = ring_size(params().ring_bytes);
    made->placement = producer == Producer::device ? Placement::device_uncached : Placement::host_pinned;
    made->generation = new_generation();
    made->device = device;
    made->engine = engine;
    made->producer = producer;
    made->back_end = name();

    Owned owned;
    if (!make_memory(*made, owned.memory)) {
        free_memory(owned.memory);
        return SDMA_REASON_no_memory;
    }
    thunk::Queue_resource resource{};
    if (const sdma_reason_t reason = make_queue(*made, owned.memory, resource)) {
        free_memory(owned.memory);
        return reason;
    }
    owned.id = resource.id;
    describe_ring(*made, owned.memory, resource);
    owned_[made->ring] = owned;

    if (producer == Producer::device) {
        bool kernel_left;
        if (const sdma_reason_t reason = probe(*runtime_, *made, kernel_left)) {
            log(0, "gpu %s: user-mode SDMA queues are not used: %s; %s",
                gpu::to_string(runtime_->devices()[device].pci).c_str(), sdma_reason_text(reason),
                made->describe().c_str());
            made->faulty = kernel_left;
            unusable_[device] = reason;
            destroy_locked(*made);
            return reason;
        }
        made->gpu_ringable = true;
    }
    log(2, "created %s", made->describe().c_str());
    queue = std::move(made);
    return SDMA_REASON_none;
}

void User::destroy(Queue &queue) {
    std::lock_guard lock(mutex_);
    destroy_locked(queue);
}

void User::destroy_locked(Queue &queue) {
    const auto found = owned_.find(queue.ring);
    if (found == owned_.end())
        return;
    const Owned owned = found->second;
    owned_.erase(found);
    // The thunk frees the pointers with the queue: look first. Those of a faulty one a kernel may have yet to write,
    // behind a long one of the application's: it is only taken off the hardware.
    const uint64_t read = std::atomic_ref(*reinterpret_cast<uint64_t *>(queue.ring->read_pointer)).load();
    const bool idle = !queue.faulty && queue.visible_cursors->reserve == queue.visible_cursors->commit &&
                      queue.visible_cursors->commit == read;
    const std::string what = queue.describe();
    const thunk::Status status =
        queue.faulty ? thunk_->hsaKmtUpdateQueue(owned.id, 0, normal_priority,
                                                 reinterpret_cast<void *>(queue.ring->base), queue.bytes, nullptr)
                     : thunk_->hsaKmtDestroyQueue(owned.id);
    queue.ring = nullptr;
    queue.visible_cursors = nullptr;
    if (status != thunk::success)
        log(0, "%s was not stopped (thunk status %u); its memory is kept", what.c_str(), status);
    else if (idle)
        free_memory(owned.memory);
}

sdma_reason_t User::open() {
    if (open_)
        return SDMA_REASON_none;
    const thunk::Status status = thunk_->hsaKmtOpenKFD();
    if (status != thunk::success && status != thunk::already_opened) {
        log(1, "opening the GPU driver failed (thunk status %u)", status);
        return SDMA_REASON_no_permission;
    }
    open_ = true;
    return SDMA_REASON_none;
}

// Memory of a node that all GPUs and the host reach at one address; nullptr if there is none.
void *User::allocate(uint32_t node, size_t bytes) {
    const uint32_t flags = ring_flags | (node == host_node ? 0u : uint32_t{thunk::flag_non_paged});
    void *memory = nullptr;
    uint64_t alternate = 0;
    if (const thunk::Status status = thunk_->hsaKmtAllocMemory(node, bytes, flags, &memory); status != thunk::success) {
        log(1, "allocating %zu bytes of node %u for a queue failed (thunk status %u)", bytes, node, status);
        return nullptr;
    }
    if (const thunk::Status status = thunk_->hsaKmtMapMemoryToGPU(memory, bytes, &alternate);
        status != thunk::success) {
        log(1, "mapping %zu bytes of node %u for a queue failed (thunk status %u)", bytes, node, status);
        thunk_->hsaKmtFreeMemory(memory, bytes);
        return nullptr;
    }
    return memory;
}

void User::free(void *memory, size_t bytes) {
    if (memory && thunk_->hsaKmtUnmapMemoryToGPU(memory) == thunk::success)
        thunk_->hsaKmtFreeMemory(memory, bytes);
}

// Device producers: ring and cursors in the device's memory, so that a kernel's stores and atomics
// are short. Host producers: both in host memory; a ring behind the BAR would need flushes.
bool User::make_memory(const Queue &queue, Memory &memory) {
    memory.bytes = queue.bytes;
    memory.on_device = queue.placement == Placement::device_uncached;
    const uint32_t node = memory.on_device ? node_of(queue.device) : host_node;
    memory.ring = allocate(node, queue.bytes);
    memory.cursors = memory.on_device ? allocate(node, page) : runtime_->allocate_shared(sizeof(sdma_ring_cursors));
    memory.descriptor = static_cast<sdma_ring *>(runtime_->allocate_shared(sizeof(sdma_ring)));
    return memory.ring && memory.cursors && memory.descriptor;
}

void User::free_memory(const Memory &memory) {
    free(memory.ring, memory.bytes);
    if (memory.on_device)
        free(memory.cursors, page);
    else if (memory.cursors)
        runtime_->free_shared(memory.cursors);
    if (memory.descriptor)
        runtime_->free_shared(memory.descriptor);
}

// By engine number where the thunk and the driver can; else, or where that engine's slots are
// taken (the driver does not try another one), any engine of the same kind, then of the other.
sdma_reason_t User::make_queue(const Queue &queue, const Memory &memory, thunk::Queue_resource &resource) {
    const uint32_t node = node_of(queue.device);
    const Gpu_node *known = topology_.find(runtime_->devices()[queue.device].pci);
    const bool xgmi = known && queue.engine >= known->counts.ordinary;
    thunk::Status last = thunk::error;
    bool full = false;
    const auto made = [&](thunk::Status status) {
        last = status;
        full = full || status == thunk::error || status == thunk::no_memory || status == thunk::out_of_resources;
        return status == thunk::success;
    };
    const auto by_type = [&](thunk::Queue_type type) {
        return thunk_->hsaKmtCreateQueue(node, type, whole_queue, normal_priority, memory.ring, queue.bytes, nullptr,
                                         &resource);
    };
    if ((thunk_->hsaKmtCreateQueueExt &&
         made(thunk_->hsaKmtCreateQueueExt(node, thunk::queue_sdma_engine, whole_queue, normal_priority, queue.engine,
                                           memory.ring, queue.bytes, nullptr, &resource))) ||
        made(by_type(xgmi ? thunk::queue_sdma_xgmi : thunk::queue_sdma)) ||
        made(by_type(xgmi ? thunk::queue_sdma : thunk::queue_sdma_xgmi)))
        return SDMA_REASON_none;
    log(1, "gpu %s: no queue for engine %u (thunk status %u)",
        gpu::to_string(runtime_->devices()[queue.device].pci).c_str(), queue.engine, last);
    if (full)
        return SDMA_REASON_slots_full;
    return last == thunk::not_opened ? SDMA_REASON_no_permission : SDMA_REASON_queue_refused;
}

void User::describe_ring(Queue &queue, const Memory &memory, const thunk::Queue_resource &resource) {
    *memory.descriptor = {.base = reinterpret_cast<uint64_t>(memory.ring),
                          .bytes = queue.bytes,
                          .read_pointer = reinterpret_cast<uint64_t>(resource.read_pointer),
                          .write_pointer = reinterpret_cast<uint64_t>(resource.write_pointer),
                          .doorbell = reinterpret_cast<uint64_t>(resource.doorbell),
                          .cursors = reinterpret_cast<uint64_t>(memory.cursors)};
    auto *cursors = static_cast<sdma_ring_cursors *>(memory.cursors);
    *cursors = ring::cursors_at(*resource.write_pointer, *resource.read_pointer);
    // Device memory behind the BAR is write-combining: drain it, then read back, which pushes the
    // stores out of the host data path before any kernel can look.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    (void)*const_cast<volatile uint64_t *>(&cursors->cached_read);
    queue.ring = memory.descriptor;
    queue.visible_cursors = cursors;
}

} // namespace

std::unique_ptr<Back_end> make_user_back_end(std::shared_ptr<gpu::Runtime> runtime, const Topology &topology,
                                             const thunk::Functions *functions) {
    return std::make_unique<User>(std::move(runtime), topology, functions);
}

std::unique_ptr<Back_end> make_user_back_end(std::shared_ptr<gpu::Runtime> runtime, const Topology &topology) {
    const auto functions = thunk::find();
    return make_user_back_end(std::move(runtime), topology, functions ? &*functions : nullptr);
}

} // namespace sdma::engine
