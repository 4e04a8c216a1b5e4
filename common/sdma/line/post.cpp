// SPDX-License-Identifier: BSD-3-Clause
//
// From an operation to copies in batches. All that can fail comes before the first copy is added.
#include <algorithm>

#include "../base/base.hpp"
#include "line.hpp"

namespace sdma::line {

namespace {

// Batches that wait for room before posts are held back: enough to keep rings full.
constexpr size_t most_waiting = 4;

// Bytes from the first to the last of a rectangle; false if that is no size.
bool extent_of(const sdma_rectangle_t &shape, size_t pitch, size_t &extent) {
    extent = 0;
    if (shape.rows == 0 || shape.row_bytes == 0)
        return true;
    return !__builtin_mul_overflow(shape.rows - 1, pitch, &extent) &&
           !__builtin_add_overflow(extent, shape.row_bytes, &extent);
}

bool inside(size_t offset, size_t bytes, uint64_t all) { return offset <= all && bytes <= all - offset; }

} // namespace

sdma_status_t Line::decline(sdma_reason_t reason) {
    reason_ = reason;
    count_declined(reason);
    return SDMA_DECLINED;
}

sdma_status_t Line::post(const Request &request, uint64_t &number) {
    std::lock_guard lock(mutex_);
    number = posted_;
    if (broken_ || dying_)
        return SDMA_ERROR;
    Request row = request;
    sdma_rectangle_t &shape = row.shape;
    if (shape.local_pitch == shape.row_bytes && shape.remote_pitch == shape.row_bytes && shape.rows > 1) {
        if (__builtin_mul_overflow(shape.rows, shape.row_bytes, &shape.row_bytes))
            return SDMA_ERROR;
        shape.rows = 1;
    }
    const Remote &remote = *request.remote;
    size_t local_extent, remote_extent;
    if (!extent_of(shape, shape.local_pitch, local_extent) || !extent_of(shape, shape.remote_pitch, remote_extent) ||
        !inside(request.offset, remote_extent, remote.bytes))
        return SDMA_ERROR;
    if (request.signal && (!inside(request.signal_offset, sizeof request.value, remote.bytes) ||
                           (remote.offset + request.signal_offset) % sizeof request.value != 0))
        return SDMA_ERROR;
    if (remote_extent == 0 && !request.signal)
        return SDMA_OK;
    if (batches_.size() - issued_ > most_waiting) {
        advance();
        if (broken_ || dying_)
            return SDMA_ERROR;
        if (batches_.size() - issued_ > most_waiting)
            return SDMA_PENDING;
    }

    Plan plan;
    if (const sdma_reason_t reason = prepare(row, local_extent, plan); reason != SDMA_REASON_none)
        return decline(reason);
    for (size_t i = 0; i < shape.rows && remote_extent > 0; i++)
        add_row(row, plan, request.local + i * shape.local_pitch, plan.remote + request.offset + i * shape.remote_pitch,
                shape.row_bytes);
    if (request.signal)
        add_signal(request, plan);

    number = posted_ + 1;
    posted_ = number;
    Batch &batch = *batches_.back();
    batch.last = number;
    batch.pins.insert(batch.pins.end(), plan.origin.pieces.begin(), plan.origin.pieces.end());
    batch.attachments.push_back(plan.attachment);
    const uint64_t bytes = shape.rows * shape.row_bytes;
    count(request.get ? Counter::gets : Counter::puts);
    count(request.get ? Counter::bytes_get : Counter::bytes_put, bytes);
    issue_batches(); // the full ones
    return broken_ ? SDMA_ERROR : SDMA_OK;
}

// ---- what can fail -------------------------------------------------------------------------------

sdma_reason_t Line::prepare(const Request &request, size_t extent, Plan &plan) {
    sdma_reason_t reason = SDMA_REASON_no_runtime;
    if (!runtime_ && !(runtime_ = context_.memory().runtime(reason)))
        return reason;
    Remote &remote = *request.remote;
    if (extent > 0)
        reason = locate(context_.memory(), *runtime_, request.local, extent, plan.origin);
    else
        reason = SDMA_REASON_none;
    if (reason != SDMA_REASON_none)
        return reason;
    const auto give_up = [&](sdma_reason_t why) {
        context_.memory().pins().release(*runtime_, plan.origin.pieces);
        if (plan.attachment)
            context_.memory().attachments().unuse(*plan.attachment);
        return why;
    };
    plan.device = plan.origin.device >= 0 ? plan.origin.device : std::max(device_of(remote.source.pci), 0);
    // What is mapped of our own memory are its own addresses, which other GPUs of ours may not reach.
    if (process_->own() && plan.device != device_of(remote.source.pci))
        return give_up(SDMA_REASON_mixed_devices);
    memory::Attachment *attachment = nullptr;
    if ((reason = map(remote, plan.device, attachment)) != SDMA_REASON_none)
        return give_up(reason);
    if (!context_.memory().attachments().use(*attachment))
        return give_up(SDMA_REASON_retired);
    plan.attachment = attachment;
    plan.remote = reinterpret_cast<uint64_t>(attachment->mapped) + remote.offset;
    plan.get = request.get;

    const bool kernels = context_.kernels(plan.device) == SDMA_REASON_none;
    plan.by_host =
        context_.engines()->producer(plan.device, kernels ? params().put_initiator : "host") == engine::Producer::host;
    // The threshold is a figure for GPU memory. What crosses to the host is the engines', as far as there are any.
    const bool host = extent > 0 && plan.origin.device < 0;
    plan.loadstore_max = kernels && !host ? params().put_loadstore_max : 0;
    const size_t largest = std::max(request.shape.row_bytes, request.signal ? sizeof request.value : 0);
    if (largest <= plan.loadstore_max)
        return SDMA_REASON_none;
    plan.queue = queue(plan, remote.source.pci, reason);
    if (!plan.queue && !kernels)
        return give_up(reason != SDMA_REASON_none ? reason : SDMA_REASON_no_kernel);
    // Where the data goes: the word of a get is in the GPU that fetches.
    const gpu::Pci_address &target =
        request.get ? runtime_->devices()[static_cast<size_t>(plan.device)].pci : remote.source.pci;
    if (plan.queue && params().flush_at_target)
        if ((reason = find_target_word(target, plan.target)) != SDMA_REASON_none)
            return give_up(reason);
    return SDMA_REASON_none;
}

sdma_reason_t Line::map(Remote &remote, int device, memory::Attachment *&attachment) {
    memory::Attachments &all = context_.memory().attachments();
    if (const uint64_t pressure = all.pressure(); pressure != pressure_) {
        pressure_ = pressure;
        let_others_go(remote);
    }
    memory::Attachment *&known = remote.by_device[device];
    if (!known) {
        memory::Exported now;
        if (!memory::read_entry(process_->table(), remote.source.id, remote.source.generation, now)) {
            remote.by_device.erase(device);
            return SDMA_REASON_retired;
        }
        const sdma_reason_t reason =
            all.acquire(*runtime_, process_, device, remote.source.id, remote.source.generation, known);
        if (reason != SDMA_REASON_none) {
            remote.by_device.erase(device);
            return reason;
        }
        // Another entry than the one whose bounds were checked: only a peer that breaks the rules does this.
        if (known->source.bytes != remote.source.bytes) {
            all.drop(*runtime_, *known);
            remote.by_device.erase(device);
            return SDMA_REASON_peer_segment;
        }
    }
    attachment = known;
    return SDMA_REASON_none;
}

// Too much is mapped in this process: keep only what operations use, the one that is about to be posted included.
void Line::let_others_go(const Remote &needed) {
    for (Remote *remote : remotes_) {
        if (remote == &needed)
            continue;
        for (auto [device, attachment] : remote->by_device)
            context_.memory().attachments().drop(*runtime_, *attachment);
        remote->by_device.clear();
    }
}

int Line::device_of(const gpu::Pci_address &pci) const {
    const auto &devices = runtime_->devices();
    auto found = std::find_if(devices.begin(), devices.end(), [&](const auto &device) { return device.pci == pci; });
    return found == devices.end() ? -1 : static_cast<int>(found - devices.begin());
}

engine::Queue *Line::queue(const Plan &plan, const gpu::Pci_address &peer, sdma_reason_t &reason) {
    for (const Way &way : ways_)
        if (way.device == plan.device && way.peer == peer && way.by_host == plan.by_host)
            return way.queue;
    engine::Queue *queue =
        context_.queue(plan.device, peer, plan.by_host ? engine::Producer::host : engine::Producer::device, reason);
    if (queue)
        ways_.push_back({plan.device, peer, plan.by_host, queue});
    return queue;
}

// The writer's own, so that the target has to do nothing and nobody else writes it.
sdma_reason_t Line::find_target_word(const gpu::Pci_address &pci, Target_word *&word) {
    for (Target &target : targets_)
        if (target.pci == pci) {
            word = &target.word;
            return SDMA_REASON_none;
        }
    const int device = device_of(pci);
    if (device < 0)
        return SDMA_REASON_no_gpu; // it is hidden from this process
    void *memory = runtime_->allocate_device(device, sizeof(uint64_t));
    if (!memory)
        return SDMA_REASON_no_memory;
    target_memory_.push_back(memory);
    targets_.push_back({pci, {reinterpret_cast<uint64_t>(memory), 0}});
    word = &targets_.back().word;
    return SDMA_REASON_none;
}

// ---- copies --------------------------------------------------------------------------------------

// Host memory may be in several pieces.
void Line::add_row(const Request &request, const Plan &plan, const char *local, uint64_t remote, uint64_t bytes) {
    for (const memory::Pins::Piece &piece : plan.origin.pieces) {
        if (bytes == 0 || local >= piece.address + piece.bytes)
            continue;
        const auto at = static_cast<uint64_t>(local - piece.address);
        const uint64_t now = std::min<uint64_t>(bytes, piece.bytes - at);
        const uint64_t address = piece.device_address + at;
        add_copy(plan, request.get ? remote : address, request.get ? address : remote, now);
        local += now;
        remote += now;
        bytes -= now;
    }
}

void Line::add_copy(const Plan &plan, uint64_t src, uint64_t dst, uint64_t bytes) {
    const enum sdma_path path = plan::choose_path(bytes, plan.loadstore_max, plan.queue != nullptr);
    engine::Queue *queue = path == SDMA_PATH_ENGINE ? plan.queue : nullptr;
    count(process_->own() ? Counter::bytes_local : queue ? Counter::bytes_sdma : Counter::bytes_loadstore, bytes);
    const uint64_t most = Batch::most_bytes(queue);
    while (bytes > 0) {
        const uint64_t now = std::min(bytes, most);
        if (!filling(plan, false).add(src, dst, now, queue, plan.target))
            filling(plan, true).add(src, dst, now, queue, plan.target);
        batches_.back()->fetches |= plan.get;
        src += now;
        dst += now;
        bytes -= now;
    }
}

// A COPY of eight aligned bytes, issued once the data's own signal has been seen: a FENCE stores 32
// bits only, an ATOMIC only adds, and a COPY may overtake the one before it.
void Line::add_signal(const Request &request, const Plan &plan) {
    filling_ = false;
    fenced_ = true;
    const uint64_t dst = plan.remote + request.signal_offset;
    const enum sdma_path path = plan::choose_path(sizeof request.value, plan.loadstore_max, plan.queue != nullptr);
    engine::Queue *queue = path == SDMA_PATH_ENGINE ? plan.queue : nullptr;
    filling(plan, true).add_value(request.value, dst, queue, plan.target);
}

// The batch that takes the next copy; `fresh`: a new one.
Batch &Line::filling(const Plan &plan, bool fresh) {
    if (filling_ && !fresh && batches_.back()->device() == plan.device && batches_.back()->by_host() == plan.by_host &&
        batches_.back()->at_target() == (plan.target != nullptr))
        return *batches_.back();
    const bool held = fenced_ || plan.target != nullptr;
    batches_.push_back(
        std::make_unique<Batch>(context_, *runtime_, plan.device, plan.by_host, held, plan.target != nullptr));
    batches_.back()->last = posted_;
    filling_ = true;
    fenced_ = false;
    return *batches_.back();
}

} // namespace sdma::line
