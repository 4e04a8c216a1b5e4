// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of NVIDIA's driver library that this library calls, found in the copy that the
// application has loaded and started. The driver's interface rather than the HIP names on top of
// CUDA's runtime: that library is often linked statically into applications and cannot be found.
#pragma once

#include <optional>
#include <string>

#include <cuda.h>

#include "../gpu.hpp"

namespace sdma::gpu::nvidia {

#define SDMA_CUDA_FUNCTIONS(X)                                                                                         \
    X(cuDriverGetVersion)                                                                                              \
    X(cuGetErrorName)                                                                                                  \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDevicePrimaryCtxGetState)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuCtxPushCurrent)                                                                                                \
    X(cuCtxPopCurrent)                                                                                                 \
    X(cuCtxGetStreamPriorityRange)                                                                                     \
    X(cuPointerGetAttributes)                                                                                          \
    X(cuPointerSetAttribute)                                                                                           \
    X(cuMemGetAddressRange)                                                                                            \
    X(cuIpcGetMemHandle)                                                                                               \
    X(cuIpcOpenMemHandle)                                                                                              \
    X(cuIpcCloseMemHandle)                                                                                             \
    X(cuMemHostRegister)                                                                                               \
    X(cuMemHostUnregister)                                                                                             \
    X(cuMemHostGetDevicePointer)                                                                                       \
    X(cuMemAlloc)                                                                                                      \
    X(cuMemFree)                                                                                                       \
    X(cuMemsetD8Async)                                                                                                 \
    X(cuMemcpyAsync)                                                                                                   \
    X(cuStreamCreateWithPriority)                                                                                      \
    X(cuStreamDestroy)                                                                                                 \
    X(cuStreamQuery)                                                                                                   \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamBatchMemOp)                                                                                              \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy)                                                                                                  \
    X(cuEventRecord)                                                                                                   \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleUnload)                                                                                                  \
    X(cuModuleGetFunction)                                                                                             \
    X(cuLaunchKernel)

// The header maps names to versioned ones by macros; these follow it.
struct Driver {
#define SDMA_CUDA_FUNCTION(name) decltype(&::name) name = nullptr;
    SDMA_CUDA_FUNCTIONS(SDMA_CUDA_FUNCTION)
#undef SDMA_CUDA_FUNCTION

    // What a failed call means. Logged for the curious only: the caller makes a named reason of it.
    Status status(const char *what, CUresult result) const;
};

// The driver's number of the allocation that holds `address`, unique in the process; 0: none.
uint64_t buffer_number(const Driver &driver, const void *address);

// A stream of the current context that waits for no other, of the highest priority.
Status make_stream(const Driver &driver, CUstream &stream);

// nullopt while there is no driver library with a GPU in the process. Starts nothing.
std::optional<Driver> find_driver();

// Makes a context the calling thread's for a scope. False if it cannot be: after a reset of the
// device by the application what was made in the context is gone, and naming it may crash CUDA.
class Use_context {
public:
    Use_context(const Driver &driver, CUcontext context);
    ~Use_context();
    Use_context(const Use_context &) = delete;
    Use_context &operator=(const Use_context &) = delete;
    explicit operator bool() const { return current_; }

private:
    const Driver &driver_;
    bool pushed_ = false;
    bool current_ = false;
};

} // namespace sdma::gpu::nvidia
