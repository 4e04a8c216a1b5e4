// SPDX-License-Identifier: BSD-3-Clause
#include "node.hpp"

#include <cstdlib>

namespace fake_cuda {

Node::Node() {
    const char *count = std::getenv("FAKE_CUDA_DEVICES");
    gpus.resize(count ? static_cast<size_t>(std::atoi(count)) : 2);
    for (size_t i = 0; i < gpus.size(); i++)
        gpus[i].number = static_cast<int>(i);
}

std::map<char *, Allocation>::iterator Node::find(CUdeviceptr address) {
    auto *pointer = reinterpret_cast<char *>(address);
    auto next = allocations.upper_bound(pointer);
    if (next == allocations.begin())
        return allocations.end();
    --next;
    return pointer < next->first + next->second.bytes ? next : allocations.end();
}

Node &node() {
    static Node &all = *new Node;
    return all;
}

thread_local Contexts contexts;
thread_local int runtime_device = 0;

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(&node().gpus[static_cast<size_t>(device)]); }
int current_device() {
    return contexts.empty() || !contexts.back() ? -1 : reinterpret_cast<Gpu *>(contexts.back())->number;
}

std::mutex &driver_lock() {
    static std::mutex &lock = *new std::mutex;
    return lock;
}
std::set<Stream *> &streams() { // guarded by driver_lock()
    static auto &all = *new std::set<Stream *>;
    return all;
}

Stream &stream_of(void *handle) {
    static Stream &null = *new Stream;
    return handle && handle != CU_STREAM_LEGACY ? *static_cast<Stream *>(handle) : null;
}

} // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

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

} // extern "C"
