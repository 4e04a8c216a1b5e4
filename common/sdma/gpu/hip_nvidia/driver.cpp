// SPDX-License-Identifier: BSD-3-Clause
#include "driver.hpp"

#include <atomic>

#include <dlfcn.h>

#include "../../base/base.hpp"
#include "../loaded.hpp"
#include "../platform.hpp"

namespace sdma::gpu {

namespace {

constexpr const char *library_prefix = "libcuda.so";

// nullptr if all functions are there, else the name of one that is not.
const char *resolve(void *library, nvidia::Driver &driver) {
#define SDMA_TEXT(name) #name
#define SDMA_CUDA_FUNCTION(name)                                                                                       \
    if (!(driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, SDMA_TEXT(name)))))                     \
        return SDMA_TEXT(name);
    SDMA_CUDA_FUNCTIONS(SDMA_CUDA_FUNCTION)
#undef SDMA_CUDA_FUNCTION
#undef SDMA_TEXT
    return nullptr;
}

} // namespace

bool platform_loaded() {
    static constinit Seen_loaded seen{library_prefix};
    return seen();
}

namespace nvidia {

Status Driver::status(const char *what, CUresult result) const {
    if (result == CUDA_SUCCESS)
        return Status::ok;
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    log(1, "cuda: %s: %s", what, name ? name : "unknown error");
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return Status::no_memory;
    case CUDA_ERROR_NOT_PERMITTED:
        return Status::denied;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_TOO_MANY_PEERS:
        return Status::unsupported;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
        return Status::invalid;
    default:
        return Status::failed;
    }
}

uint64_t buffer_number(const Driver &driver, const void *address) {
    unsigned long long buffer = 0;
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *value = &buffer;
    const CUresult result = driver.cuPointerGetAttributes(1, &name, &value, reinterpret_cast<CUdeviceptr>(address));
    return result == CUDA_SUCCESS ? buffer : 0;
}

Status make_stream(const Driver &driver, CUstream &stream) {
    int lowest = 0, highest = 0;
    driver.cuCtxGetStreamPriorityRange(&lowest, &highest);
    return driver.status("make a stream", driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, highest));
}

std::optional<Driver> find_driver() {
    static std::atomic<bool> logged{false};
    for (const std::string &path : loaded_objects(library_prefix)) {
        void *library = reference_loaded(path);
        if (!library)
            continue;
        Driver driver;
        int devices = 0;
        if (const char *missing = resolve(library, driver)) {
            if (!logged.exchange(true))
                log(0, "%s has no function %s: it cannot be used", path.c_str(), missing);
        } else if (driver.cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices > 0) {
            return driver; // with the reference, for the life of the process
        }
        dlclose(library);
    }
    return std::nullopt;
}

Use_context::Use_context(const Driver &driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    current_ = driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
    if (!current_)
        current_ = pushed_ = driver.cuCtxPushCurrent(context) == CUDA_SUCCESS;
}

Use_context::~Use_context() {
    CUcontext popped;
    if (pushed_)
        driver_.cuCtxPopCurrent(&popped);
}

} // namespace nvidia

} // namespace sdma::gpu
