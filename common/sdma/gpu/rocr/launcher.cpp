// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <algorithm>
#include <cstring>

#include "../../../../kernels/bundle.h"
#include "../../base/base.hpp"
#include "../../base/phase.hpp"

namespace sdma::gpu::rocr {

namespace {

constexpr size_t slot_count = 64;
constexpr uint32_t queue_packets = 128; // more than there are slots: the queue is never full
constexpr size_t argument_bytes = 256;  // per slot; one pointer and whatever a compiler appends
constexpr unsigned slot_bits = 8;       // of a Launch: slot + 1; the rest is the slot's round
static_assert(slot_count < (1u << slot_bits));

struct Shape {
    const char *symbol;
    uint16_t workgroup;
};
// By gpu::Kernel. Issue and resident: one wave; copy: several waves hide the latency of the links.
constexpr Shape shapes[] = {
    {"sdma_issue_kernel.kd", 64}, {"sdma_copy_kernel.kd", 256}, {"sdma_resident_kernel.kd", 64}};

// System-scope acquire before and release after the kernel: the work record is written by the host,
// and what the kernel stores is read by engines, peers and the host.
constexpr uint16_t dispatch_header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
                                     HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                                     HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
constexpr uint16_t dispatch_setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;

} // namespace

Launcher::Launcher(const System &system) : system_(system) {
    for (size_t i = 0; i < system.devices.size(); i++)
        queues_.push_back(std::make_unique<Device_queue>());
}

Launcher::~Launcher() {
    const Api &api = system_.api;
    for (const auto &own : queues_) {
        for (hsa_queue_t *queue : {own->queue, own->resident_queue})
            if (queue)
                api.hsa_queue_destroy(queue);
        if (own->executable.handle)
            api.hsa_executable_destroy(own->executable);
    }
    for (const Slot &slot : slots_)
        api.hsa_signal_destroy(slot.signal);
    if (arguments_)
        api.hsa_amd_memory_pool_free(arguments_);
}

Status Launcher::prepare(int device) {
    std::lock_guard lock(mutex_);
    return ready(device);
}

Status Launcher::ready(int device) {
    if (device < 0 || static_cast<size_t>(device) >= queues_.size())
        return Status::invalid;
    Device_queue &own = *queues_[device];
    if (own.state == State::unopened) {
        own.why = open(own, device);
        own.state = own.why == Status::ok ? State::ready : State::unusable;
    }
    if (own.state == State::unusable)
        return own.why;
    return own.broken.load(std::memory_order_relaxed) ? Status::failed : Status::ok;
}

Status Launcher::launch(int device, Kernel kernel, uint32_t workgroups, const void *argument, Launch &launch) {
    launch = 0;
    if (workgroups == 0)
        return Status::invalid;
    std::lock_guard lock(mutex_);
    if (const Status status = ready(device); status != Status::ok)
        return status;
    const Shape &shape = shapes[static_cast<size_t>(kernel)];
    Device_queue &own = *queues_[device];
    const Entry &entry = own.kernels[static_cast<size_t>(kernel)];
    if (!entry.object)
        return Status::unsupported;
    if (kernel == Kernel::resident && !own.resident_queue && open_queue(own, own.resident_queue) != Status::ok)
        return Status::unsupported; // no reason to give up: each operation can have its kernel
    hsa_queue_t *const queue = kernel == Kernel::resident ? own.resident_queue : own.queue;
    Slot *slot = free_slot();
    const Api &api = system_.api;
    const uint64_t index = api.hsa_queue_load_write_index_relaxed(queue);
    if (!slot || index - api.hsa_queue_load_read_index_scacquire(queue) >= queue->size)
        return Status::pending;

    std::memcpy(slot->arguments, &argument, sizeof argument);
    api.hsa_signal_store_relaxed(slot->signal, 1);

    auto *packet = static_cast<hsa_kernel_dispatch_packet_t *>(queue->base_address) + index % queue->size;
    packet->workgroup_size_x = shape.workgroup;
    packet->workgroup_size_y = packet->workgroup_size_z = 1;
    packet->grid_size_x = workgroups * shape.workgroup;
    packet->grid_size_y = packet->grid_size_z = 1;
    packet->private_segment_size = entry.private_bytes;
    packet->group_segment_size = entry.group_bytes;
    packet->kernel_object = entry.object;
    packet->kernarg_address = slot->arguments;
    packet->reserved2 = 0;
    packet->completion_signal = slot->signal;
    // The packet belongs to the GPU with the one 32-bit store that makes its header valid.
    std::atomic_ref(*reinterpret_cast<uint32_t *>(packet))
        .store(dispatch_header | uint32_t{dispatch_setup} << 16, std::memory_order_release);
    api.hsa_queue_store_write_index_screlease(queue, index + 1);
    api.hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));

    slot->device = device;
    slot->round++;
    launch = slot->round << slot_bits | static_cast<uint64_t>(slot - slots_.data() + 1);
    return Status::ok;
}

Status Launcher::finished(Launch launch) {
    std::lock_guard lock(mutex_);
    const uint64_t number = launch & ((1u << slot_bits) - 1), round = launch >> slot_bits;
    if (number == 0 || number > slots_.size() || round > slots_[number - 1].round)
        return Status::invalid;
    const Slot *slot = &slots_[number - 1];
    if (round < slot->round || done(*slot))
        return Status::ok;
    return queues_[slot->device]->broken.load(std::memory_order_relaxed) ? Status::failed : Status::pending;
}

// Called by a thread of ROCr. The queue is dead after this.
void Launcher::queue_error(hsa_status_t status, hsa_queue_t *, void *device_queue) {
    auto &own = *static_cast<Device_queue *>(device_queue);
    if (status == HSA_STATUS_SUCCESS || own.broken.exchange(true))
        return;
    log(0, "rocr: kernel queue of GPU %s failed: %s", to_string(own.system->devices[own.device].pci).c_str(),
        own.system->api.text(status));
}

Status Launcher::open(Device_queue &own, int device) {
    Timed timed(Phase::kernels);
    own.system = &system_;
    own.device = device;
    if (!create_slots())
        return Status::no_memory;
    if (const Status status = load_code(own, device); status != Status::ok)
        return status;
    return open_queue(own, own.queue);
}

Status Launcher::open_queue(Device_queue &own, hsa_queue_t *&queue) {
    const hsa_agent_t agent = system_.agents[own.device];
    uint32_t most = queue_packets;
    system_.api.hsa_agent_get_info(agent, HSA_AGENT_INFO_QUEUE_MAX_SIZE, &most);
    const auto status = system_.api.hsa_queue_create(agent, std::min(most, queue_packets), HSA_QUEUE_TYPE_MULTI,
                                                     queue_error, &own, UINT32_MAX, UINT32_MAX, &queue);
    if (status != HSA_STATUS_SUCCESS) {
        queue = nullptr;
        return system_.failure("creating a kernel queue", status);
    }
    return Status::ok;
}

Status Launcher::load_code(Device_queue &own, int device) {
    const std::string &target = system_.devices[device].target;
    const auto code = kernels::code_object(target);
    if (code.empty()) {
        log(0, "no kernel for %s is in this library", target.c_str());
        return Status::unsupported;
    }
    const Api &api = system_.api;
    hsa_code_object_reader_t reader{};
    auto status = api.hsa_code_object_reader_create_from_memory(code.data(), code.size(), &reader);
    if (status == HSA_STATUS_SUCCESS) {
        status = api.hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                               &own.executable);
        if (status == HSA_STATUS_SUCCESS)
            status = api.hsa_executable_load_agent_code_object(own.executable, system_.agents[device], reader, nullptr,
                                                               nullptr);
        if (status == HSA_STATUS_SUCCESS)
            status = api.hsa_executable_freeze(own.executable, nullptr);
        api.hsa_code_object_reader_destroy(reader);
    }
    if (status != HSA_STATUS_SUCCESS)
        return system_.failure("loading our kernels", status);
    for (Kernel kernel : {Kernel::issue, Kernel::copy})
        if (!find_kernel(own, device, kernel, shapes[static_cast<size_t>(kernel)].symbol)) {
            log(0, "no usable %s is in the code object for %s", shapes[static_cast<size_t>(kernel)].symbol,
                target.c_str());
            return Status::unsupported;
        }
    find_kernel(own, device, Kernel::resident, shapes[static_cast<size_t>(Kernel::resident)].symbol); // optional
    return Status::ok;
}

bool Launcher::find_kernel(Device_queue &own, int device, Kernel kernel, const char *symbol) {
    const Api &api = system_.api;
    hsa_executable_symbol_t found{};
    if (api.hsa_executable_get_symbol_by_name(own.executable, symbol, &system_.agents[device], &found) !=
        HSA_STATUS_SUCCESS)
        return false;
    const auto get = [&](hsa_executable_symbol_info_t what, auto &value) {
        return api.hsa_executable_symbol_get_info(found, what, &value) == HSA_STATUS_SUCCESS;
    };
    Entry entry;
    uint32_t arguments = 0;
    if (!get(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, entry.object) ||
        !get(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, entry.private_bytes) ||
        !get(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, entry.group_bytes) ||
        !get(HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, arguments) || arguments > argument_bytes)
        return false;
    own.kernels[static_cast<size_t>(kernel)] = entry;
    return true;
}

bool Launcher::create_slots() {
    if (!slots_.empty())
        return true;
    arguments_ = system_.allocate(system_.kernarg_pool, slot_count * argument_bytes);
    if (!arguments_)
        return false;
    std::memset(arguments_, 0, slot_count * argument_bytes);
    for (size_t i = 0; i < slot_count; i++) {
        Slot slot;
        slot.arguments = static_cast<char *>(arguments_) + i * argument_bytes;
        // Polled by us, never slept on: needs none of the few hundred interrupt events of a process.
        const auto status = system_.api.hsa_amd_signal_create(0, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &slot.signal);
        if (status != HSA_STATUS_SUCCESS) {
            system_.failure("creating a signal", status);
            break;
        }
        slots_.push_back(slot);
    }
    return !slots_.empty(); // fewer slots only mean fewer launches at a time
}

Launcher::Slot *Launcher::free_slot() {
    for (Slot &slot : slots_)
        if (done(slot))
            return &slot;
    return nullptr;
}

bool Launcher::done(const Slot &slot) const { return system_.api.hsa_signal_load_scacquire(slot.signal) <= 0; }

} // namespace sdma::gpu::rocr
