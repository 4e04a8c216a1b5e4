// SPDX-License-Identifier: BSD-3-Clause
#include "node.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

using namespace fake_cuda;

namespace {

char *map(int file, size_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
}

} // namespace

extern "C" {

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

} // extern "C"
