// SPDX-License-Identifier: BSD-3-Clause
//
// NVIDIA GPUs. The application's primary contexts are used and kept, none is started: a device
// whose context is not active yet holds none of its buffers.
//
// A generation is the driver's buffer number, which is never used twice in a process. CUDA tells
// nobody when memory is freed: the hook of on_free() is called late, see exports.hpp.
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "../../base/base.hpp"
#include "../platform.hpp"
#include "exports.hpp"
#include "launcher.hpp"
#include "pinned.hpp"
#include "stream.hpp"

namespace sdma::gpu {

namespace nvidia {

namespace {

class Cuda_runtime final : public Runtime {
public:
    explicit Cuda_runtime(const Driver &driver) : driver_(driver) {}
    bool discover();

    const char *name() const override { return "cuda"; }
    std::string version() const override;
    const std::vector<Device> &devices() const override { return devices_; }

    Range classify(const void *address) override;
    Status export_memory(void *base, size_t bytes, Handle &handle) override;
    Status attach(int device, const Handle &handle, size_t bytes, void *&mapped) override;
    void detach(void *mapped) override;

    Status pin(void *address, size_t bytes, void *&device_address) override;
    void unpin(void *address) override;
    void *allocate_shared(size_t bytes) override;
    void free_shared(void *address) override;
    void *allocate_device(int device, size_t bytes) override;
    void free_device(void *address) override;

    Status launch(int device, Kernel kernel, uint32_t workgroups, const void *argument, Launch &launch) override;
    Status finished(Launch launch) override;

    std::unique_ptr<Stream> stream(int device) override;
    // Not over the bus, by the driver's attribute for native atomics on host memory.
    bool host_atomics() const override { return false; }
    // PTX's memory model has no exception for peers' memory or pinned host memory.
    bool coherent_stores() const override { return true; }
    bool resident_copies() const override { return true; }
    Status copy(void *dst, const void *src, size_t bytes) override;
    void on_free(std::function<void(void *, uint64_t)> hook) override { exports_.on_free(std::move(hook)); }

private:
    // What is opened on a device at its first use. A runtime lives as long as the process.
    struct Gpu {
        std::atomic<CUcontext> context{nullptr};
        std::atomic<Launcher *> launcher{nullptr};
        std::unique_ptr<Launcher> made; // guarded by mutex_
        bool launcher_tried = false;
        std::mutex copying;
        CUstream copies = nullptr; // guarded by copying
    };

    CUcontext context(int device); // nullptr while the application has not started the device
    CUcontext any_context();
    Launcher *launcher(int device);
    Range ask(const void *address);
    void synchronize(const Range &range);
    CUcontext forget(const void *address); // where it was allocated; nullptr for others

    struct Attached {
        CUcontext context;
        decltype(Handle::words) handle;
        size_t bytes; // from where it is mapped
        unsigned uses;
    };

    const Driver driver_;
    std::vector<Device> devices_;
    std::vector<CUdevice> handles_;
    std::vector<std::unique_ptr<Gpu>> gpus_;
    std::mutex mutex_; // guards gpus_' first uses and what follows
    std::atomic<uint32_t> classified_{0};
    Exports exports_{driver_};
    std::map<const void *, Pinned> shared_;
    std::map<const void *, CUcontext> made_; // device memory -> where
    std::map<void *, Attached> attached_;
};

bool Cuda_runtime::discover() {
    int count = 0;
    if (driver_.status("count devices", driver_.cuDeviceGetCount(&count)) != Status::ok)
        return false;
    for (int i = 0; i < count; i++) {
        CUdevice handle;
        if (driver_.cuDeviceGet(&handle, i) != CUDA_SUCCESS)
            return false;
        const auto attribute = [&](CUdevice_attribute name) {
            int value = 0;
            driver_.cuDeviceGetAttribute(&value, name, handle);
            return value;
        };
        Device device;
        device.pci.domain = static_cast<uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
        device.pci.bus = static_cast<uint8_t>(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
        device.pci.device = static_cast<uint8_t>(attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
        device.target = "sm_" + std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
                        std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
        device.wave_lanes = static_cast<uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
        device.workgroups = static_cast<uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
        devices_.push_back(std::move(device));
        handles_.push_back(handle);
        gpus_.push_back(std::make_unique<Gpu>());
    }
    return any_context() != nullptr;
}

std::string Cuda_runtime::version() const {
    int version = 0;
    driver_.cuDriverGetVersion(&version);
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

CUcontext Cuda_runtime::context(int device) {
    if (device < 0 || static_cast<size_t>(device) >= gpus_.size())
        return nullptr;
    std::atomic<CUcontext> &known = gpus_[device]->context;
    if (const CUcontext context = known.load(std::memory_order_acquire))
        return context;
    std::lock_guard guard(mutex_);
    CUcontext context = known.load(std::memory_order_relaxed);
    unsigned flags = 0;
    int active = 0;
    if (!context && driver_.cuDevicePrimaryCtxGetState(handles_[device], &flags, &active) == CUDA_SUCCESS && active &&
        driver_.status("keep a context", driver_.cuDevicePrimaryCtxRetain(&context, handles_[device])) == Status::ok)
        known.store(context, std::memory_order_release);
    return context;
}

CUcontext Cuda_runtime::any_context() {
    for (size_t i = 0; i < gpus_.size(); i++)
        if (const CUcontext found = context(static_cast<int>(i)))
            return found;
    return nullptr;
}

CUcontext Cuda_runtime::forget(const void *address) {
    std::lock_guard guard(mutex_);
    const auto found = made_.find(address);
    if (found == made_.end())
        return nullptr;
    const CUcontext context = found->second;
    made_.erase(found);
    return context;
}

// Asked twice per operation, mostly about the same few allocations: those whose buffer number is still
// the same need one attribute instead of eight.
Range Cuda_runtime::classify(const void *address) {
    constexpr uint32_t classified_per_look = 8;
    if (classified_.fetch_add(1, std::memory_order_relaxed) % classified_per_look == 0)
        exports_.look();
    struct Known {
        std::array<Range, 4> ranges;
        unsigned next = 0;
    };
    thread_local Known known;
    for (const Range &range : known.ranges)
        if (address >= range.base && address < static_cast<const char *>(range.base) + range.bytes &&
            buffer_number(driver_, address) == range.generation)
            return range;
    const Range range = ask(address);
    if (range.kind == Memory_kind::device) {
        synchronize(range);
        known.ranges[known.next++ % known.ranges.size()] = range;
    }
    return range;
}

// cudaMemcpy from pageable memory, and cudaMemset, return before the bytes are there; our engines and kernels
// run beside them. From now on the driver waits in such calls on this allocation; for what was started before,
// wait here, once per allocation. (Seen on H200: an exchange overtaken by the fill of its buffer.)
void Cuda_runtime::synchronize(const Range &range) {
    const auto base = reinterpret_cast<CUdeviceptr>(range.base);
    unsigned set = 0;
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    void *value = &set;
    if (driver_.cuPointerGetAttributes(1, &name, &value, base) == CUDA_SUCCESS && set)
        return;
    set = 1;
    const Use_context use(driver_, context(range.device));
    if (use && driver_.status("make copies synchronous", driver_.cuPointerSetAttribute(&set, name, base)) == Status::ok)
        driver_.status("wait for copies", driver_.cuStreamSynchronize(CU_STREAM_LEGACY));
}

Range Cuda_runtime::ask(const void *address) {
    CUmemorytype type{};
    int device = -1;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    unsigned long long buffer = 0;
    unsigned managed = 0;
    int ipc = 0;
    CUcontext owner = nullptr;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&type, &device, &start, &bytes, &buffer, &managed, &ipc, &owner};
    static_assert(std::size(names) == std::size(values));
    Range range;
    // For what CUDA does not know, the call succeeds and leaves zeros.
    if (driver_.cuPointerGetAttributes(std::size(names), names, values, reinterpret_cast<CUdeviceptr>(address)) !=
            CUDA_SUCCESS ||
        type == 0)
        return range;
    range.base = reinterpret_cast<void *>(start);
    range.bytes = bytes;
    range.device = device;
    range.generation = buffer;
    // Memory of pools and of the virtual-memory interface has no legacy handle; memory of a second
    // context of the application is out of reach of the primary one.
    if (managed)
        range.kind = Memory_kind::unsupported;
    else if (type == CU_MEMORYTYPE_HOST)
        range.kind = Memory_kind::pinned_host;
    else
        range.kind = ipc && start && owner == context(device) ? Memory_kind::device : Memory_kind::unsupported;
    return range;
}

Status Cuda_runtime::export_memory(void *base, size_t, Handle &handle) {
    CUipcMemHandle ipc;
    static_assert(sizeof ipc == sizeof handle.words);
    const CUcontext current = any_context();
    const Use_context use(driver_, current);
    const Status status =
        driver_.status("export memory", driver_.cuIpcGetMemHandle(&ipc, reinterpret_cast<CUdeviceptr>(base)));
    if (status != Status::ok)
        return status;
    std::memcpy(handle.words.data(), &ipc, sizeof ipc);
    exports_.add(base);
    return status;
}

// A CUDA handle fills ours, so that nothing can be checked before it is opened; what it turns out
// to be is.
Status Cuda_runtime::attach(int device, const Handle &handle, size_t bytes, void *&mapped) {
    const CUcontext own = context(device);
    if (!own)
        return Status::unsupported;
    const Use_context use(driver_, own);
    CUipcMemHandle ipc;
    std::memcpy(&ipc, handle.words.data(), sizeof ipc);
    CUdeviceptr address = 0;
    const CUresult opened = driver_.cuIpcOpenMemHandle(&address, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    std::lock_guard guard(mutex_);
    // Small allocations share a block of the driver's; one that was freed and made again may have the handle
    // that is still open here. The driver then refuses instead of counting.
    if (opened == CUDA_ERROR_ALREADY_MAPPED)
        for (auto &[known, attachment] : attached_)
            if (attachment.handle == handle.words && attachment.bytes >= bytes && attachment.context == own) {
                attachment.uses++;
                mapped = known;
                return Status::ok;
            }
    const Status status = driver_.status("attach memory", opened);
    if (status != Status::ok)
        return status;
    CUdeviceptr start = 0;
    size_t size = 0;
    if (driver_.cuMemGetAddressRange(&start, &size, address) != CUDA_SUCCESS || start + size - address < bytes) {
        log(1, "cuda: attached memory has %zu bytes, not %zu", size, bytes);
        driver_.cuIpcCloseMemHandle(address);
        return Status::invalid;
    }
    mapped = reinterpret_cast<void *>(address);
    const auto [entry, added] = attached_.try_emplace(mapped, Attached{own, handle.words, start + size - address, 0});
    if (!added) // the driver has counted: one count is enough for all
        driver_.cuIpcCloseMemHandle(address);
    entry->second.uses++;
    return Status::ok;
}

void Cuda_runtime::detach(void *mapped) {
    std::lock_guard guard(mutex_);
    const auto found = attached_.find(mapped);
    if (found == attached_.end() || --found->second.uses != 0)
        return;
    const Use_context use(driver_, found->second.context);
    driver_.status("detach memory", driver_.cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(mapped)));
    attached_.erase(found);
}

Status Cuda_runtime::pin(void *address, size_t bytes, void *&device_address) {
    const Use_context use(driver_, any_context());
    const Status status = driver_.status(
        "pin memory",
        driver_.cuMemHostRegister(address, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    if (status != Status::ok)
        return status;
    CUdeviceptr device = 0;
    const Status found = driver_.status("find pinned memory", driver_.cuMemHostGetDevicePointer(&device, address, 0));
    if (found != Status::ok)
        driver_.cuMemHostUnregister(address);
    device_address = reinterpret_cast<void *>(device);
    return found;
}

void Cuda_runtime::unpin(void *address) {
    const Use_context use(driver_, any_context());
    driver_.status("unpin memory", driver_.cuMemHostUnregister(address));
}

void *Cuda_runtime::allocate_shared(size_t bytes) {
    const Use_context use(driver_, any_context());
    Pinned memory(driver_, bytes);
    void *address = memory.get();
    if (address) {
        std::lock_guard guard(mutex_);
        shared_.emplace(address, std::move(memory));
    }
    return address;
}

void Cuda_runtime::free_shared(void *address) {
    const Use_context use(driver_, any_context());
    std::lock_guard guard(mutex_);
    shared_.erase(address);
}

void *Cuda_runtime::allocate_device(int device, size_t bytes) {
    const CUcontext own = context(device);
    if (!own)
        return nullptr;
    const Use_context use(driver_, own);
    CUdeviceptr address = 0;
    if (driver_.status("allocate device memory", driver_.cuMemAlloc(&address, bytes)) != Status::ok)
        return nullptr;
    void *memory = reinterpret_cast<void *>(address);
    {
        std::lock_guard guard(mutex_);
        made_[memory] = own;
    }
    const std::vector<char> zeros(bytes);
    if (copy(memory, zeros.data(), bytes) == Status::ok)
        return memory;
    free_device(memory);
    return nullptr;
}

void Cuda_runtime::free_device(void *address) {
    if (const CUcontext own = forget(address)) {
        const Use_context use(driver_, own);
        driver_.status("free device memory", driver_.cuMemFree(reinterpret_cast<CUdeviceptr>(address)));
    }
}

Launcher *Cuda_runtime::launcher(int device) {
    const CUcontext own = context(device);
    if (!own)
        return nullptr;
    Gpu &gpu = *gpus_[device];
    if (Launcher *const known = gpu.launcher.load(std::memory_order_acquire))
        return known;
    std::lock_guard guard(mutex_);
    if (!gpu.launcher_tried) {
        gpu.launcher_tried = true;
        gpu.made = Launcher::make(driver_, own, devices_[device].target);
        gpu.launcher.store(gpu.made.get(), std::memory_order_release);
    }
    return gpu.made.get();
}

// A launch number for callers: the device's own number, and the device above it.
constexpr uint32_t device_shift = 56;

Status Cuda_runtime::launch(int device, Kernel kernel, uint32_t workgroups, const void *argument, Launch &launch) {
    Launcher *const own = launcher(device);
    if (!own)
        return Status::unsupported;
    const Status status = own->launch(kernel, workgroups, argument, launch);
    if (status == Status::ok)
        launch |= static_cast<uint64_t>(device) << device_shift;
    return status;
}

Status Cuda_runtime::finished(Launch launch) {
    Launcher *const own = launcher(static_cast<int>(launch >> device_shift));
    return own ? own->finished(launch & ((uint64_t{1} << device_shift) - 1)) : Status::invalid;
}

std::unique_ptr<Stream> Cuda_runtime::stream(int device) {
    const CUcontext own = context(device);
    return own ? Cuda_stream::make(driver_, own) : nullptr;
}

// On a stream of our own: the application's streams are neither waited for nor held up.
Status Cuda_runtime::copy(void *dst, const void *src, size_t bytes) {
    int device = -1;
    for (const void *end : {static_cast<const void *>(dst), src})
        if (const Range range = classify(end);
            range.kind == Memory_kind::device || range.kind == Memory_kind::unsupported)
            device = range.device;
    if (device < 0) {
        std::memcpy(dst, src, bytes);
        return Status::ok;
    }
    const CUcontext own = context(device);
    if (!own)
        return Status::unsupported;
    const Use_context use(driver_, own);
    Gpu &gpu = *gpus_[device];
    std::lock_guard guard(gpu.copying);
    if (!gpu.copies) {
        const Status status =
            driver_.status("make a stream", driver_.cuStreamCreateWithPriority(&gpu.copies, CU_STREAM_NON_BLOCKING, 0));
        if (status != Status::ok)
            return status;
    }
    const Status status =
        driver_.status("copy", driver_.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(dst),
                                                     reinterpret_cast<CUdeviceptr>(src), bytes, gpu.copies));
    return status == Status::ok ? driver_.status("copy", driver_.cuStreamSynchronize(gpu.copies)) : status;
}

} // namespace

} // namespace nvidia

std::shared_ptr<Runtime> platform_open(sdma_reason_t &reason) {
    if (!platform_loaded()) {
        reason = SDMA_REASON_no_runtime;
        return nullptr;
    }
    // An application that has loaded the driver but started no context has no device buffers either.
    reason = SDMA_REASON_no_gpu;
    const auto driver = nvidia::find_driver();
    if (!driver)
        return nullptr;
    auto runtime = std::make_shared<nvidia::Cuda_runtime>(*driver);
    if (!runtime->discover())
        return nullptr;
    reason = SDMA_REASON_none;
    return runtime;
}

} // namespace sdma::gpu
