// SPDX-License-Identifier: BSD-3-Clause
//
// A stand-in for libcuda.so.1 and libcudart.so.13 on host memory: what this project calls of them,
// so that its NVIDIA platform runs where there is no NVIDIA GPU. Device memory is a memfd, which
// other processes of the same user map by an IPC handle; a stream is a thread; a kernel is found by
// its name and run by the code that the host shares with it. FAKE_CUDA_DEVICES says how many GPUs
// there are (2). It proves the use of the interface and the protocol, nothing about speed or caches.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "common/sdma/gpu/hip_nvidia/arguments.h"
#include "kernels/copy.h"
#include "kernels/issue.h"
#include "kernels/resident.h"

namespace {

struct Gpu {
    int number = 0;
    bool active = false; // its primary context
};

enum class Kind { device, managed, pool, host_allocated, host_registered };

struct Import {
    uint64_t process, base, id; // of the exporter
    int opened;
};

struct Allocation {
    Kind kind;
    size_t bytes;
    int device;
    uint64_t id;
    int file = -1;
    bool imported = false;
    bool synchronous = false;
    Import import{};
};

struct Node {
    std::mutex mutex;
    std::vector<Gpu> gpus;
    std::map<char *, Allocation> allocations;
    uint64_t next_id = 1;

    Node() {
        const char *count = std::getenv("FAKE_CUDA_DEVICES");
        gpus.resize(count ? static_cast<size_t>(std::atoi(count)) : 2);
        for (size_t i = 0; i < gpus.size(); i++)
            gpus[i].number = static_cast<int>(i);
    }
    std::map<char *, Allocation>::iterator find(CUdeviceptr address) {
        auto *pointer = reinterpret_cast<char *>(address);
        auto next = allocations.upper_bound(pointer);
        if (next == allocations.begin())
            return allocations.end();
        --next;
        return pointer < next->first + next->second.bytes ? next : allocations.end();
    }
};

Node &node() {
    static Node &all = *new Node;
    return all;
}

// Without a destructor: exit handlers run after those of a thread.
struct Contexts {
    CUcontext entries[16];
    int count;
    bool empty() const { return count == 0; }
    CUcontext &back() { return entries[count - 1]; }
    void push_back(CUcontext context) { entries[count++ % 16] = context; }
    void pop_back() { count--; }
    void clear() { count = 0; }
};
thread_local Contexts contexts;
thread_local int runtime_device = 0;

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(&node().gpus[static_cast<size_t>(device)]); }
int current_device() {
    return contexts.empty() || !contexts.back() ? -1 : reinterpret_cast<Gpu *>(contexts.back())->number;
}

char *map(int file, size_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
}

struct Stream {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false, stop = false;
    std::thread thread{[this] { run(); }};

    void run() {
        std::unique_lock lock(mutex);
        while (true) {
            changed.wait(lock, [this] { return stop || !work.empty(); });
            if (work.empty())
                return;
            auto action = std::move(work.front());
            work.pop_front();
            busy = true;
            lock.unlock();
            action();
            lock.lock();
            busy = false;
            changed.notify_all();
        }
    }
    void give(std::function<void()> action) {
        std::lock_guard lock(mutex);
        work.push_back(std::move(action));
        changed.notify_all();
    }
    bool idle() {
        std::lock_guard lock(mutex);
        return work.empty() && !busy;
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return work.empty() && !busy; });
    }
    ~Stream() {
        {
            std::lock_guard lock(mutex);
            stop = true;
            changed.notify_all();
        }
        thread.join();
    }
};

// The driver has one lock per context, and holds it while it waits for all kernels before memory goes.
std::mutex &driver_lock() {
    static std::mutex &lock = *new std::mutex;
    return lock;
}
std::set<Stream *> &streams() { // guarded by driver_lock()
    static auto &all = *new std::set<Stream *>;
    return all;
}
class Driver_call {
    std::lock_guard<std::mutex> lock{driver_lock()};
};
struct All_waited_for {
    Driver_call call;
    All_waited_for() {
        for (Stream *stream : streams())
            stream->wait();
    }
};

Stream &stream_of(void *handle) {
    static Stream &null = *new Stream;
    return handle && handle != CU_STREAM_LEGACY ? *static_cast<Stream *>(handle) : null;
}

// ---- kernels ---------------------------------------------------------------------------------------

constexpr const char *kernel_names[] = {"sdma_issue_small", "sdma_issue_large", "sdma_copy_small", "sdma_copy_large",
                                        "sdma_resident"};

void run_kernel(size_t kernel, const sdma_launch &launch) {
    auto *work = reinterpret_cast<sdma_work *>(launch.record);
    if (kernel < 2)
        sdma::report(work, sdma::issue(work, 0, 1));
    else
        sdma::copy(work);
    __atomic_store_n(reinterpret_cast<uint64_t *>(launch.done), 1, __ATOMIC_RELEASE);
}

// What the real kernel takes the record from.
void check_carried(const sdma_mailbox_carried &carried, uint64_t number, const sdma_work *work) {
    const uint64_t *const words = carried.words[number % SDMA_MAILBOX_SLOTS];
    std::vector<char> values;
    for (uint32_t i = 0; i <= static_cast<uint32_t>(words[0]); i++) {
        if (words[i] >> 32 != static_cast<uint32_t>(number + 1))
            std::abort();
        const auto value = static_cast<uint32_t>(words[i]);
        values.insert(values.end(), reinterpret_cast<const char *>(&value), reinterpret_cast<const char *>(&value + 1));
    }
    if (values.size() == sizeof(uint32_t))
        return; // not carried
    std::vector<char> expected(sizeof(uint32_t));
    const auto add = [&expected](const void *from, size_t bytes) {
        expected.insert(expected.end(), static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
    };
    add(&work, sizeof work);
    add(work, work->record_bytes);
    const auto *queues =
        reinterpret_cast<const sdma_work_queue *>(reinterpret_cast<const char *>(work) + work->queues_offset);
    for (uint32_t q = 0; q < work->queues; q++)
        add(reinterpret_cast<const void *>(queues[q].ring), sizeof(sdma_ring));
    if (values.size() != expected.size() || !std::equal(values.begin() + 4, values.end(), expected.begin() + 4))
        std::abort();
}

void reside(const sdma_residence &residence) {
    auto *const mailbox = reinterpret_cast<sdma_mailbox *>(residence.mailbox);
    uint64_t number = mailbox->done;
    sdma::reside(mailbox, [&](sdma_work *work, uint64_t) {
        check_carried(*reinterpret_cast<const sdma_mailbox_carried *>(mailbox + 1), number++, work);
        sdma::Outcome outcome = sdma::issue(work, 0, 1);
        uint64_t tiles = 0;
        if (work->resident_copies && sdma::copying::count_tiles(work, tiles, sdma::plan::wave_tile_bytes)) {
            sdma::copying::copy_share(work, {0, tiles}, {0, 1}, sdma::plan::wave_tile_bytes);
            sdma::copying::raise_signals(work);
        }
        return sdma::report(work, outcome);
    });
    __atomic_store_n(reinterpret_cast<uint64_t *>(residence.done), 1, __ATOMIC_RELEASE);
}

cudaError_t of(CUresult result) { return static_cast<cudaError_t>(result); } // the numbers agree

CUresult activate() {
    Gpu &gpu = node().gpus[static_cast<size_t>(runtime_device)];
    std::lock_guard lock(node().mutex);
    gpu.active = true;
    if (contexts.empty())
        contexts.push_back(nullptr);
    contexts.back() = reinterpret_cast<CUcontext>(&gpu);
    return CUDA_SUCCESS;
}

} // namespace

extern "C" {

// ---- the driver's functions ------------------------------------------------------------------------

CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char **name) {
    *name = "FAKE_CUDA_ERROR";
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    *count = static_cast<int>(node().gpus.size());
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute name, CUdevice device) {
    switch (name) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value = 0x10 + device;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    std::lock_guard lock(node().mutex);
    *flags = 0;
    *active = node().gpus[static_cast<size_t>(device)].active;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = context_of(device);
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = contexts.empty() ? nullptr : contexts.back();
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
    if (!context || !reinterpret_cast<Gpu *>(context)->active)
        return CUDA_ERROR_INVALID_CONTEXT;
    contexts.push_back(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext *context) {
    if (contexts.empty())
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int *lowest, int *highest) {
    *lowest = 0;
    *highest = -5;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *names, void **values, CUdeviceptr address) {
    std::lock_guard lock(node().mutex);
    const auto found = node().find(address);
    const bool known = found != node().allocations.end();
    const bool host = known && found->second.kind >= Kind::host_allocated;
    for (unsigned i = 0; i < count; i++)
        switch (names[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<CUmemorytype *>(values[i]) = !known ? static_cast<CUmemorytype>(0)
                                                      : host ? CU_MEMORYTYPE_HOST
                                                             : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *static_cast<int *>(values[i]) = known ? found->second.device : -2;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *static_cast<CUdeviceptr *>(values[i]) = known ? reinterpret_cast<CUdeviceptr>(found->first) : 0;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *static_cast<size_t *>(values[i]) = known ? found->second.bytes : 0;
            break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *static_cast<unsigned long long *>(values[i]) = known ? found->second.id : 0;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *static_cast<unsigned *>(values[i]) = known && found->second.kind == Kind::managed;
            break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            *static_cast<int *>(values[i]) = known && found->second.kind == Kind::device && !found->second.imported;
            break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *static_cast<CUcontext *>(values[i]) = known ? context_of(found->second.device) : nullptr;
            break;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            *static_cast<unsigned *>(values[i]) = known && found->second.synchronous;
            break;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute name, CUdeviceptr address) {
    std::lock_guard lock(node().mutex);
    const auto found = node().find(address);
    if (name != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || found == node().allocations.end())
        return CUDA_ERROR_INVALID_VALUE;
    found->second.synchronous = *static_cast<const unsigned *>(value) != 0;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    std::lock_guard lock(node().mutex);
    const auto found = node().find(address);
    if (found == node().allocations.end())
        return CUDA_ERROR_INVALID_VALUE;
    *base = reinterpret_cast<CUdeviceptr>(found->first);
    *bytes = found->second.bytes;
    return CUDA_SUCCESS;
}

struct Ipc {
    uint64_t magic, process, bytes, base, id;
    int file, device;
};
static_assert(sizeof(Ipc) <= sizeof(CUipcMemHandle));
constexpr uint64_t ipc_magic = 0x616475632d656b66;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    std::lock_guard lock(node().mutex);
    const auto found = node().allocations.find(reinterpret_cast<char *>(address));
    if (found == node().allocations.end() || found->second.kind != Kind::device || found->second.imported)
        return CUDA_ERROR_INVALID_VALUE;
    const Ipc ipc{ipc_magic,           static_cast<uint64_t>(getpid()),
                  found->second.bytes, address,
                  found->second.id,    found->second.file,
                  found->second.device};
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &ipc, sizeof ipc);
    return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned) {
    Ipc ipc;
    std::memcpy(&ipc, &handle, sizeof ipc);
    if (current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ipc.magic != ipc_magic || ipc.process == static_cast<uint64_t>(getpid()))
        return CUDA_ERROR_INVALID_VALUE;
    {
        std::lock_guard lock(node().mutex);
        for (auto &[mapped, other] : node().allocations) {
            const Import &from = other.import;
            if (!other.imported || from.process != ipc.process || from.base >= ipc.base + ipc.bytes ||
                ipc.base >= from.base + other.bytes)
                continue;
            if (from.id != ipc.id)
                return CUDA_ERROR_ALREADY_MAPPED; // it was freed, and is still mapped here
            other.import.opened++;
            *address = reinterpret_cast<CUdeviceptr>(mapped);
            return CUDA_SUCCESS;
        }
    }
    const std::string path = "/proc/" + std::to_string(ipc.process) + "/fd/" + std::to_string(ipc.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    char *memory = file < 0 ? nullptr : map(file, ipc.bytes);
    if (file >= 0)
        close(file);
    if (!memory)
        return CUDA_ERROR_INVALID_HANDLE;
    std::lock_guard lock(node().mutex);
    node().allocations[memory] = {Kind::device, ipc.bytes, ipc.device, node().next_id++,
                                  -1,           true,      false,      {ipc.process, ipc.base, ipc.id, 1}};
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    const All_waited_for all;
    std::lock_guard lock(node().mutex);
    const auto found = node().allocations.find(reinterpret_cast<char *>(address));
    if (found == node().allocations.end() || !found->second.imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (--found->second.import.opened != 0)
        return CUDA_SUCCESS;
    munmap(found->first, found->second.bytes);
    node().allocations.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    if (current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    const size_t whole = (bytes + 511) / 512 * 512;
    const int file = memfd_create("fake-cuda", MFD_CLOEXEC);
    char *memory = file >= 0 && ftruncate(file, static_cast<off_t>(whole)) == 0 ? map(file, whole) : nullptr;
    if (!memory) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::lock_guard lock(node().mutex);
    node().allocations[memory] = {Kind::device, whole, current_device(), node().next_id++, file, false};
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
    const All_waited_for all;
    std::lock_guard lock(node().mutex);
    const auto found = node().allocations.find(reinterpret_cast<char *>(address));
    if (found == node().allocations.end() || found->second.kind >= Kind::host_allocated || found->second.imported)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(found->first, found->second.bytes);
    close(found->second.file);
    node().allocations.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned) {
    if (current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    auto *memory =
        static_cast<char *>(mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(memory, 0xa5, whole); // not zeroed, as CUDA's
    std::lock_guard lock(node().mutex);
    node().allocations[memory] = {Kind::host_allocated, whole, current_device(), node().next_id++};
    *address = memory;
    return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void *address) {
    std::lock_guard lock(node().mutex);
    const auto found = node().allocations.find(static_cast<char *>(address));
    if (found == node().allocations.end() || found->second.kind != Kind::host_allocated)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(found->first, found->second.bytes);
    node().allocations.erase(found);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void *address, size_t bytes, unsigned) {
    if (current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard lock(node().mutex);
    const bool added = node()
                           .allocations
                           .try_emplace(static_cast<char *>(address),
                                        Allocation{Kind::host_registered, bytes, current_device(), node().next_id++})
                           .second;
    return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
CUresult cuMemHostUnregister(void *address) {
    const All_waited_for all;
    std::lock_guard lock(node().mutex);
    return node().allocations.erase(static_cast<char *>(address)) ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *address, unsigned) {
    *device = reinterpret_cast<CUdeviceptr>(address);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
    const Driver_call call;
    stream_of(stream).give([=] { std::memset(reinterpret_cast<void *>(address), value, bytes); });
    return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const Driver_call call;
    if (current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stream_of(stream).give(
        [=] { std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes); });
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int) {
    const Driver_call call;
    auto *const made = new Stream;
    streams().insert(made);
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
    {
        const Driver_call call;
        streams().erase(reinterpret_cast<Stream *>(stream));
    }
    delete reinterpret_cast<Stream *>(stream);
    return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) { return stream_of(stream).idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuStreamSynchronize(CUstream stream) {
    stream_of(stream).wait();
    return CUDA_SUCCESS;
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned) {
    const Driver_call call;
    for (unsigned i = 0; i < count; i++) {
        const auto operation = operations[i].writeValue;
        if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
            stream_of(stream).give([=] {
                __atomic_store_n(reinterpret_cast<uint64_t *>(operation.address), operation.value64, __ATOMIC_RELEASE);
            });
        else if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
            stream_of(stream).give([=] {
                __atomic_store_n(reinterpret_cast<uint32_t *>(operation.address), operation.value, __ATOMIC_RELEASE);
            });
        else
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

// What record() put into a stream last; a wait is for that one.
struct CUevent_st {
    std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(true);
};
CUresult cuEventCreate(CUevent *event, unsigned) {
    *event = new CUevent_st;
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
    delete event;
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    const Driver_call call;
    event->reached = std::make_shared<std::atomic<bool>>(false);
    stream_of(stream).give([reached = event->reached] {
        reached->store(true);
        reached->notify_all();
    });
    return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    const Driver_call call;
    stream_of(stream).give([reached = event->reached] { reached->wait(false); });
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    if (std::memcmp(image, "\177ELF", 4) != 0) // a cubin is one
        return CUDA_ERROR_INVALID_IMAGE;
    *module = reinterpret_cast<CUmodule>(const_cast<void *>(image));
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
    for (const char *const &known : kernel_names)
        if (std::strcmp(known, name) == 0) {
            *function = reinterpret_cast<CUfunction>(const_cast<const char **>(&known));
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void **parameters, void **) {
    const Driver_call call;
    const auto kernel = static_cast<size_t>(reinterpret_cast<const char *const *>(function) - std::begin(kernel_names));
    if (std::strcmp(kernel_names[kernel], "sdma_resident") == 0)
        stream_of(stream).give(
            [residence = *static_cast<const sdma_residence *>(parameters[0])] { reside(residence); });
    else
        stream_of(stream).give( // sdma_launch is first in either form
            [=, launch = *static_cast<const sdma_launch *>(parameters[0])] { run_kernel(kernel, launch); });
    return CUDA_SUCCESS;
}

// ---- the runtime's functions, for test programs --------------------------------------------------------

const char *cudaGetErrorString(cudaError_t status) { return status == cudaSuccess ? "no error" : "fake CUDA error"; }
cudaError_t cudaGetDeviceCount(int *count) { return of(cuDeviceGetCount(count)); }
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || static_cast<size_t>(device) >= node().gpus.size())
        return cudaErrorInvalidDevice;
    runtime_device = device;
    return of(activate());
}
cudaError_t cudaDeviceSynchronize() {
    stream_of(nullptr).wait();
    return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
    std::lock_guard lock(node().mutex);
    node().gpus[static_cast<size_t>(runtime_device)].active = false;
    contexts.clear();
    std::erase_if(node().allocations, [](const auto &entry) {
        if (entry.second.device == runtime_device && entry.second.kind < Kind::host_registered)
            munmap(entry.first, entry.second.bytes);
        return entry.second.device == runtime_device;
    });
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
    std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", 0x10 + device);
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    activate();
    CUdeviceptr address = 0;
    const CUresult result = cuMemAlloc(&address, std::max<size_t>(bytes, 1));
    *memory = reinterpret_cast<void *>(address);
    return of(result);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory) {
    CUmemorytype type{};
    int device = -1;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &device};
    cuPointerGetAttributes(2, names, values, reinterpret_cast<CUdeviceptr>(memory));
    *attributes = {};
    attributes->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeUnregistered;
    attributes->device = device;
    attributes->devicePointer = attributes->type == cudaMemoryTypeUnregistered ? nullptr : const_cast<void *>(memory);
    attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? nullptr : const_cast<void *>(memory);
    return cudaSuccess;
}
cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned) {
    const cudaError_t status = cudaMalloc(memory, bytes);
    node().allocations[static_cast<char *>(*memory)].kind = Kind::managed;
    return status;
}
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t) {
    const cudaError_t status = cudaMalloc(memory, bytes);
    node().allocations[static_cast<char *>(*memory)].kind = Kind::pool;
    return status;
}
cudaError_t cudaFree(void *memory) {
    activate();
    return memory ? of(cuMemFree(reinterpret_cast<CUdeviceptr>(memory))) : cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    activate();
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    activate();
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return of(cuStreamSynchronize(stream)); }
// Counts what this process holds of a GPU of 64 GiB.
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    std::lock_guard lock(node().mutex);
    *total = *available = size_t{64} << 30;
    for (const auto &[address, allocation] : node().allocations)
        if (allocation.kind <= Kind::pool && allocation.device == runtime_device)
            *available -= allocation.bytes;
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    activate();
    return of(cuMemHostAlloc(memory, bytes, 0));
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    activate();
    return of(cuMemHostAlloc(memory, bytes, 0));
}
cudaError_t cudaFreeHost(void *memory) { return of(cuMemFreeHost(memory)); }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    activate();
    return of(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream));
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    return of(cuStreamCreateWithPriority(stream, 0, 0));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return of(cuStreamDestroy(stream)); }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory) {
    static_assert(sizeof *handle == sizeof(CUipcMemHandle));
    return of(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle *>(handle), reinterpret_cast<CUdeviceptr>(memory)));
}
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags) {
    activate();
    CUipcMemHandle driver;
    std::memcpy(&driver, &handle, sizeof driver);
    return of(cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr *>(memory), driver, flags));
}
cudaError_t cudaIpcCloseMemHandle(void *memory) {
    return of(cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(memory)));
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    *properties = {};
    std::strcpy(properties->name, "fake GPU");
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { return of(cuDriverGetVersion(version)); }
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
    CUstreamBatchMemOpParams operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operation.writeValue.address = address;
    operation.writeValue.value64 = value;
    return cuStreamBatchMemOp(stream, 1, &operation, 0);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *) {
    *function = reinterpret_cast<void *>(&cuStreamWriteValue64); // the one that is asked for
    return cudaSuccess;
}

} // extern "C"
