// SPDX-License-Identifier: BSD-3-Clause
#include "device_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <dlfcn.h>

namespace tools {

namespace {

constexpr size_t host_alignment = 4096;

class Host : public Device_memory {
public:
    int devices() const override { return 1; }
    bool select(int) override { return true; }
    void *allocate(size_t bytes) override {
        void *buffer =
            std::aligned_alloc(host_alignment, (bytes + host_alignment - 1) / host_alignment * host_alignment);
        if (!buffer)
            error_ = "no host memory for " + std::to_string(bytes) + " bytes";
        return buffer;
    }
    void deallocate(void *buffer) override { std::free(buffer); }
    bool write(void *buffer, const void *host, size_t bytes) override {
        std::memcpy(buffer, host, bytes);
        return true;
    }
    bool read(void *host, const void *buffer, size_t bytes) override {
        std::memcpy(host, buffer, bytes);
        return true;
    }
    bool is_mine(const void *) override { return true; } // others than us would have had to ask
};

// HIP and CUDA agree on these calls and numbers but for the prefix of their names.
constexpr int copy_host_to_device = 1;
constexpr int copy_device_to_host = 2;

// What the runtimes say about a pointer: the kind of memory first, in all releases. Host memory that the runtime does
// not know is an error in some and 0 in others; what is on a device is never 0.
struct Pointer_attributes {
    int kind;
    char others[252];
};

class Gpu : public Device_memory {
public:
    bool open(const char *prefix, std::initializer_list<const char *> libraries) {
        for (const char *library : libraries)
            if (!library_)
                library_ = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
        if (!library_) {
            error_ = std::string("no GPU runtime library: ") + *libraries.begin() + " and older ones cannot be loaded";
            return false;
        }
        if (!(find(prefix, "GetDeviceCount", get_device_count_) && find(prefix, "SetDevice", set_device_) &&
              find(prefix, "Malloc", malloc_) && find(prefix, "Free", free_) && find(prefix, "Memcpy", memcpy_) &&
              find(prefix, "DeviceSynchronize", synchronize_) &&
              find(prefix, "PointerGetAttributes", get_attributes_) &&
              find(prefix, "GetErrorString", get_error_string_)))
            return false;
        const int status = get_device_count_(&devices_);
        if (status == 0 && devices_ > 0)
            return true;
        error_ = std::string("the GPU runtime sees no device: ") + (status ? get_error_string_(status) : "count is 0");
        return false;
    }

    int devices() const override { return devices_; }
    bool select(int device) override { return ok(set_device_(device), "SetDevice"); }
    void *allocate(size_t bytes) override {
        void *buffer = nullptr;
        const int status = malloc_(&buffer, bytes);
        return ok(status, ("Malloc of " + std::to_string(bytes) + " bytes").c_str()) ? buffer : nullptr;
    }
    void deallocate(void *buffer) override { ok(free_(buffer), "Free"); }
    // A copy from pageable memory may return early; the synchronisation makes it visible to peers.
    bool write(void *buffer, const void *host, size_t bytes) override {
        return ok(memcpy_(buffer, host, bytes, copy_host_to_device), "Memcpy") &&
               ok(synchronize_(), "DeviceSynchronize");
    }
    bool read(void *host, const void *buffer, size_t bytes) override {
        return ok(memcpy_(host, buffer, bytes, copy_device_to_host), "Memcpy");
    }
    bool is_mine(const void *buffer) override {
        Pointer_attributes attributes{};
        return get_attributes_(&attributes, buffer) == 0 && attributes.kind != 0;
    }

private:
    template <typename Function> bool find(const char *prefix, const char *name, Function &function) {
        const std::string symbol = std::string(prefix) + name;
        function = reinterpret_cast<Function>(dlsym(library_, symbol.c_str()));
        if (!function)
            error_ = "the GPU runtime library has no " + symbol;
        return function != nullptr;
    }
    bool ok(int status, const char *call) {
        if (status != 0)
            error_ = std::string(call) + " failed: " + get_error_string_(status);
        return status == 0;
    }

    void *library_ = nullptr; // never closed: runtimes do not survive it
    int devices_ = 0;
    int (*get_device_count_)(int *) = nullptr;
    int (*set_device_)(int) = nullptr;
    int (*malloc_)(void **, size_t) = nullptr;
    int (*free_)(void *) = nullptr;
    int (*memcpy_)(void *, const void *, size_t, int) = nullptr;
    int (*synchronize_)() = nullptr;
    int (*get_attributes_)(Pointer_attributes *, const void *) = nullptr;
    const char *(*get_error_string_)(int) = nullptr;
};

} // namespace

bool parse_memory(const std::string &name, Memory &memory) {
    for (Memory known : {Memory::host, Memory::rocm, Memory::cuda})
        if (name == to_string(known)) {
            memory = known;
            return true;
        }
    return false;
}

const char *to_string(Memory memory) {
    switch (memory) {
    case Memory::rocm:
        return "rocm";
    case Memory::cuda:
        return "cuda";
    case Memory::host:
        break;
    }
    return "host";
}

std::unique_ptr<Device_memory> Device_memory::open(Memory memory, std::string &error) {
    if (memory == Memory::host)
        return std::make_unique<Host>();
    auto gpu = std::make_unique<Gpu>();
    const bool opened =
        memory == Memory::rocm
            ? gpu->open("hip", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"})
            : gpu->open("cuda", {"libcudart.so.13", "libcudart.so.12", "libcudart.so"});
    if (!opened) {
        error = gpu->error();
        return nullptr;
    }
    return gpu;
}

} // namespace tools
