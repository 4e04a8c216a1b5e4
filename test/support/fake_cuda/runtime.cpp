// SPDX-License-Identifier: BSD-3-Clause
#include "node.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>

using namespace fake_cuda;

namespace {

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
