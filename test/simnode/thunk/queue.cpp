// SPDX-License-Identifier: BSD-3-Clause
//
// hsaKmt*: user-mode queues. SDMA queues take one of eight slots of an engine, which all processes
// of the node share; their pointers are the thunk's, those of AQL queues the runtime's.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include <hsakmt.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/memory.hpp"
#include "test/simnode/thunk/model.hpp"
#include "test/simnode/thunk/node.hpp"

namespace simnode {

namespace {

// Not in the header of ROCm 5.2.
constexpr int queue_sdma_by_engine_id = 6;

constexpr unsigned doorbells_per_gpu = 1024;
constexpr unsigned first_aql_doorbell = most_engines * slots_per_engine; // SDMA ones are fixed by engine and slot
constexpr size_t pointer_spacing = 4096;                                 // read and write pointer: a page each

struct Queue {
    uint64_t id = 0;
    unsigned gpu = 0, engine = 0, doorbell_index = 0;
    int slot = -1;
    uint64_t *pointers = nullptr; // of an SDMA queue
    bool is_aql = false;
    Sdma_queue sdma;
    Aql_queue aql;
    std::unique_ptr<Worker> worker;

    void start() { worker = is_aql ? start_aql(aql) : start_sdma(sdma); }
};

struct Queues {
    std::mutex mutex;
    std::map<uint64_t, std::unique_ptr<Queue>> all;
    uint64_t *doorbells[most_gpus] = {};
    bool aql_used[most_gpus][doorbells_per_gpu] = {};
    uint64_t last_id = 0;
};
Queues &queues = *new Queues; // never destroyed: see memory.cpp

Gpu_model model() {
    Gpu_model found;
    find_model(options().gfx, found);
    return found;
}

uint64_t *doorbell_page(unsigned gpu) {
    if (!queues.doorbells[gpu])
        // With the fault, what happens when the driver cannot map the page into the GPU's address
        // space: the host rings as ever, a kernel cannot.
        queues.doorbells[gpu] = static_cast<uint64_t *>(
            make_internal(doorbells_per_gpu * sizeof(uint64_t), fault("no-ring-doorbell") ? 0 : 1u << gpu));
    return queues.doorbells[gpu];
}

// What newer drivers insist on: the ring is an allocation of its own, of exactly this size, mapped to
// the GPU, and executable, without which engines fetch through the wrong caching policy.
HSAKMT_STATUS check_ring(unsigned gpu, const void *ring, uint64_t bytes) {
    if (!ring || bytes < 1024 || (bytes & (bytes - 1)) != 0) {
        complain("queue refused: ring %p of %llu bytes; a power of two from 1024 on is needed", ring,
                 static_cast<unsigned long long>(bytes));
        return HSAKMT_STATUS_INVALID_PARAMETER;
    }
    const char *wrong = nullptr;
    const bool known = with_block(reinterpret_cast<uint64_t>(ring), true, [&](const Block &block) {
        if (block.kind != Block_kind::allocated)
            wrong = "is not memory of hsaKmtAllocMemory";
        else if (block.base != reinterpret_cast<uint64_t>(ring) || block.bytes != round_to_pages(bytes))
            wrong = "is not exactly an allocation of its own";
        else if (!block.flags.ui32.ExecuteAccess)
            wrong = "was not allocated with ExecuteAccess";
        else if (!(block.mapped >> gpu & 1))
            wrong = "is not mapped to the queue's GPU";
    });
    if (!known)
        wrong = "is not GPU memory";
    if (!wrong)
        return HSAKMT_STATUS_SUCCESS;
    complain("queue refused: the ring %p of %llu bytes %s", ring, static_cast<unsigned long long>(bytes), wrong);
    return HSAKMT_STATUS_INVALID_PARAMETER;
}

bool refused() {
    static std::atomic<int64_t> calls{0};
    const int64_t call = ++calls;
    const Fault *planned = fault("slots");
    return planned && (planned->at == 0 || planned->at == call);
}

// Engines a queue type may use: [first, first + count). Count 0: none.
void choose_engines(int type, unsigned wanted, unsigned &first, unsigned &count) {
    const Gpu_model what = model();
    first = count = 0;
    if (type == HSA_QUEUE_SDMA) {
        count = what.ordinary_engines;
    } else if (type == HSA_QUEUE_SDMA_XGMI) {
        first = what.ordinary_engines;
        count = what.xgmi_engines;
    } else if (wanted < what.engines()) {
        first = wanted;
        count = 1;
    }
}

HSAKMT_STATUS prepare_sdma(Queue &queue, int type, unsigned wanted, void *ring, uint64_t bytes) {
    unsigned first, count;
    choose_engines(type, wanted, first, count);
    if (count == 0)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    if (refused()) {
        complain("fault slots: SDMA queue on GPU %u refused", queue.gpu);
        return HSAKMT_STATUS_NO_MEMORY;
    }
    queue.slot = take_slot(queue.gpu, first, count, queue.engine);
    if (queue.slot < 0)
        return HSAKMT_STATUS_NO_MEMORY;
    queue.doorbell_index = queue.engine * slots_per_engine + static_cast<unsigned>(queue.slot);
    queue.pointers = static_cast<uint64_t *>(make_internal(2 * pointer_spacing, 1u << queue.gpu));
    uint64_t *doorbells = doorbell_page(queue.gpu);
    if (!queue.pointers || !doorbells)
        return HSAKMT_STATUS_NO_MEMORY;
    uint64_t *doorbell = doorbells + queue.doorbell_index;
    *doorbell = 0;
    queue.sdma = Sdma_queue{.gpu = queue.gpu,
                            .engine = queue.engine,
                            .queue_id = static_cast<uint32_t>(queue.id),
                            .ring = static_cast<uint8_t *>(ring),
                            .bytes = bytes,
                            .read_pointer = queue.pointers,
                            .write_pointer = queue.pointers + pointer_spacing / sizeof(uint64_t),
                            .doorbell = doorbell};
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS prepare_aql(Queue &queue, void *ring, uint64_t bytes, const HsaQueueResource &resource) {
    if (!resource.Queue_read_ptr_aql || !resource.Queue_write_ptr_aql)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    uint64_t *doorbells = doorbell_page(queue.gpu);
    if (!doorbells)
        return HSAKMT_STATUS_NO_MEMORY;
    auto &used = queues.aql_used[queue.gpu];
    unsigned index = first_aql_doorbell;
    while (index < doorbells_per_gpu && used[index])
        ++index;
    if (index == doorbells_per_gpu)
        return HSAKMT_STATUS_NO_MEMORY;
    used[index] = true;
    queue.doorbell_index = index;
    doorbells[index] = ~uint64_t{0}; // the index before the first packet's
    queue.aql = Aql_queue{.gpu = queue.gpu,
                          .queue_id = static_cast<uint32_t>(queue.id),
                          .ring = static_cast<uint8_t *>(ring),
                          .bytes = bytes,
                          .read_pointer = resource.Queue_read_ptr_aql,
                          .write_pointer = resource.Queue_write_ptr_aql,
                          .doorbell = doorbells + index};
    return HSAKMT_STATUS_SUCCESS;
}

void give_back(Queue &queue) {
    if (queue.slot >= 0)
        give_slot(queue.gpu, queue.engine, queue.slot);
    if (queue.pointers)
        remove_block(reinterpret_cast<uint64_t>(queue.pointers));
    if (queue.doorbell_index >= first_aql_doorbell)
        queues.aql_used[queue.gpu][queue.doorbell_index] = false;
}

HSAKMT_STATUS create(uint32_t node, int type, unsigned engine, void *ring, uint64_t bytes, HsaQueueResource *resource) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    if (!is_gpu_node(node))
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    const bool aql = type == HSA_QUEUE_COMPUTE_AQL;
    if (!aql && type != HSA_QUEUE_SDMA && type != HSA_QUEUE_SDMA_XGMI && type != queue_sdma_by_engine_id)
        return HSAKMT_STATUS_NOT_SUPPORTED;
    if (!resource)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    auto queue = std::make_unique<Queue>();
    queue->gpu = gpu_of(node);
    HSAKMT_STATUS status = check_ring(queue->gpu, ring, bytes);
    if (status != HSAKMT_STATUS_SUCCESS)
        return status;
    const std::lock_guard lock(queues.mutex);
    queue->id = ++queues.last_id;
    queue->is_aql = aql;
    status = aql ? prepare_aql(*queue, ring, bytes, *resource) : prepare_sdma(*queue, type, engine, ring, bytes);
    if (status != HSAKMT_STATUS_SUCCESS) {
        give_back(*queue);
        return status;
    }
    queue->start();
    resource->QueueId = queue->id;
    resource->Queue_DoorBell_aql = aql ? queue->aql.doorbell : queue->sdma.doorbell;
    if (!aql) {
        resource->Queue_read_ptr_aql = queue->sdma.read_pointer;
        resource->Queue_write_ptr_aql = queue->sdma.write_pointer;
    }
    queues.all[queue->id] = std::move(queue);
    return HSAKMT_STATUS_SUCCESS;
}

} // namespace

} // namespace simnode

using namespace simnode;

extern "C" {

HSAKMT_STATUS hsaKmtCreateQueue(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32, HSA_QUEUE_PRIORITY, void *ring,
                                HSAuint64 bytes, HsaEvent *, HsaQueueResource *resource) {
    if (static_cast<int>(type) == queue_sdma_by_engine_id)
        return HSAKMT_STATUS_INVALID_PARAMETER; // needs hsaKmtCreateQueueExt
    return create(node, type, 0, ring, bytes, resource);
}

// Declared by the headers of later releases only.
HSAKMT_STATUS hsaKmtCreateQueueExt(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32 engine,
                                   void *ring, HSAuint64 bytes, HsaEvent *, HsaQueueResource *resource) {
    return create(node, type, engine, ring, bytes, resource);
}

// A share of 0 takes the queue off the hardware, any other puts it back.
HSAKMT_STATUS hsaKmtUpdateQueue(HSA_QUEUEID id, HSAuint32 percentage, HSA_QUEUE_PRIORITY, void *, HSAuint64,
                                HsaEvent *) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    const std::lock_guard lock(queues.mutex);
    const auto found = queues.all.find(id);
    if (found == queues.all.end())
        return HSAKMT_STATUS_INVALID_PARAMETER;
    Queue &queue = *found->second;
    if (percentage == 0)
        queue.worker.reset();
    else if (!queue.worker)
        queue.start();
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyQueue(HSA_QUEUEID id) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    std::unique_ptr<Queue> queue;
    {
        const std::lock_guard lock(queues.mutex);
        const auto found = queues.all.find(id);
        if (found == queues.all.end())
            return HSAKMT_STATUS_INVALID_PARAMETER;
        queue = std::move(found->second);
        queues.all.erase(found);
    }
    // Outside the lock: waits for the packet in work.
    if (queue->worker)
        queue->worker->end();
    queue->worker.reset();
    const std::lock_guard lock(queues.mutex);
    give_back(*queue);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetQueueCUMask(HSA_QUEUEID, HSAuint32, HSAuint32 *) { return HSAKMT_STATUS_SUCCESS; }

HSAKMT_STATUS hsaKmtGetQueueInfo(HSA_QUEUEID, HsaQueueInfo *) { return HSAKMT_STATUS_NOT_SUPPORTED; }

HSAKMT_STATUS hsaKmtAllocQueueGWS(HSA_QUEUEID, HSAuint32, HSAuint32 *first) {
    if (first)
        *first = 0;
    return HSAKMT_STATUS_SUCCESS;
}

} // extern "C"
