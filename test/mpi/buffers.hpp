// SPDX-License-Identifier: BSD-3-Clause
//
// Host or device memory for the tests. Device memory is HIP's, or that of the stand-in library if it is preloaded.
#pragma once

#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/sdma/sdma.h"

enum class Memory { host, device, pinned };

// How to get device memory; aborts the program on errors, which no test provokes here.
class Device {
public:
    static Device &get() {
        static Device device;
        return device;
    }
    bool standin() const { return alloc_ != nullptr; }
    void *alloc(size_t bytes) {
        void *memory = nullptr;
        if (alloc_ != nullptr) {
            memory = alloc_(bytes);
        } else {
            must(hipMalloc(&memory, bytes), "hipMalloc");
        }
        return memory;
    }
    void free(void *memory) {
        if (alloc_ != nullptr) {
            free_(memory);
        } else {
            must(hipFree(memory), "hipFree");
        }
    }
    // Host memory that the GPU runtime has pinned; the stand-in knows none.
    void *alloc_pinned(size_t bytes) {
        void *memory = nullptr;
        if (alloc_ != nullptr) {
            return std::malloc(bytes);
        }
        must(hipHostMalloc(&memory, bytes, hipHostMallocDefault), "hipHostMalloc");
        return memory;
    }
    void free_pinned(void *memory) {
        if (alloc_ != nullptr) {
            std::free(memory);
        } else {
            must(hipHostFree(memory), "hipHostFree");
        }
    }
    void copy(void *to, const void *from, size_t bytes) {
        if (alloc_ != nullptr) {
            copy_(to, from, bytes);
        } else {
            must(hipMemcpy(to, from, bytes, hipMemcpyDefault), "hipMemcpy");
        }
    }
    // The GPU of this process: ranks are dealt round. False: there is none.
    bool select(int rank) {
        int count = 0;
        if (alloc_ == nullptr && hipGetDeviceCount(&count) == hipSuccess && count > 0) {
            must(hipSetDevice(rank % count), "hipSetDevice");
        }
        return alloc_ != nullptr || count > 0;
    }

private:
    Device() {
        alloc_ = reinterpret_cast<void *(*)(size_t)>(dlsym(RTLD_DEFAULT, "standin_device_alloc"));
        free_ = reinterpret_cast<void (*)(void *)>(dlsym(RTLD_DEFAULT, "standin_device_free"));
        copy_ = reinterpret_cast<sdma_status_t (*)(void *, const void *, size_t)>(dlsym(RTLD_DEFAULT, "sdma_copy"));
    }
    static void must(hipError_t error, const char *what) {
        if (error != hipSuccess) {
            std::fprintf(stderr, "%s: %s\n", what, hipGetErrorString(error));
            std::abort();
        }
    }
    void *(*alloc_)(size_t) = nullptr;
    void (*free_)(void *) = nullptr;
    sdma_status_t (*copy_)(void *, const void *, size_t) = nullptr;
};

// An allocation.
class Buffer {
public:
    Buffer(size_t bytes, Memory memory) : memory_(memory), bytes_(bytes) {
        data_ = static_cast<uint8_t *>(memory == Memory::device   ? Device::get().alloc(bytes)
                                       : memory == Memory::pinned ? Device::get().alloc_pinned(bytes)
                                                                  : std::malloc(bytes));
        if (data_ == nullptr) {
            std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
            std::abort();
        }
    }
    ~Buffer() {
        if (memory_ == Memory::device) {
            Device::get().free(data_);
        } else if (memory_ == Memory::pinned) {
            Device::get().free_pinned(data_);
        } else {
            std::free(data_);
        }
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    uint8_t *data() const { return data_; }
    size_t bytes() const { return bytes_; }
    Memory memory() const { return memory_; }

    void store(size_t offset, const std::vector<uint8_t> &bytes) { copy(data_ + offset, bytes.data(), bytes.size()); }
    std::vector<uint8_t> load(size_t offset, size_t bytes) const {
        std::vector<uint8_t> content(bytes);
        copy(content.data(), data_ + offset, bytes);
        return content;
    }

private:
    void copy(void *to, const void *from, size_t bytes) const {
        if (bytes == 0) {
            return;
        }
        if (memory_ == Memory::device) {
            Device::get().copy(to, from, bytes);
        } else {
            std::memcpy(to, from, bytes);
        }
    }
    Memory memory_;
    size_t bytes_;
    uint8_t *data_;
};
