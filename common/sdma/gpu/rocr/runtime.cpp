// SPDX-License-Identifier: BSD-3-Clause
//
// The AMD runtime: ROCr only.
#include <cstring>
#include <optional>
#include <type_traits>

#include "../../base/base.hpp"
#include "../platform.hpp"
#include "allocations.hpp"
#include "fragments.hpp"
#include "launcher.hpp"
#include "stream.hpp"
#include "system.hpp"

namespace sdma::gpu {

namespace rocr {

namespace {

// Handle words. A handle comes from a segment that any local process may have written: these are
// checked here, what is behind them by ROCr and the kernel driver.
constexpr uint32_t handle_tag = 0x52434f52; // "ROCR"
constexpr size_t tag_word = 0, bytes_low_word = 1, bytes_high_word = 2, ipc_word = 4;
constexpr size_t ipc_words = std::extent_v<decltype(hsa_amd_ipc_memory_t::handle)>;
static_assert(ipc_word + ipc_words <= std::tuple_size_v<decltype(Handle::words)>);

class Rocr_runtime final : public Runtime {
public:
    explicit Rocr_runtime(System system)
        : system_(std::move(system)), fragments_(system_), allocations_(system_), launcher_(system_) {}
    ~Rocr_runtime() override;

    const char *name() const override { return "rocr"; }
    std::string version() const override;
    const std::vector<Device> &devices() const override { return system_.devices; }

    Range classify(const void *address) override { return allocations_->classify(address); }
    void on_free(std::function<void(void *, uint64_t)> hook) override {
        allocations_->on_free([this, hook = std::move(hook)](void *base, uint64_t generation) {
            fragments_.freed(base);
            if (hook)
                hook(base, generation);
        });
    }

    Status export_memory(void *base, size_t bytes, Handle &handle) override;
    Status attach(int device, const Handle &handle, size_t bytes, void *&mapped) override;
    void detach(void *mapped) override;

    Status pin(void *address, size_t bytes, void *&device_address) override;
    void unpin(void *address) override;
    void *allocate_shared(size_t bytes) override;
    void free_shared(void *address) override;
    void *allocate_device(int device, size_t bytes) override;
    void free_device(void *address) override;

    Status prepare(int device) override { return launcher_->prepare(device); }
    Status launch(int device, Kernel kernel, uint32_t workgroups, const void *argument, Launch &launch) override {
        return launcher_->launch(device, kernel, workgroups, argument, launch);
    }
    Status finished(Launch launch) override { return launcher_->finished(launch); }

    std::unique_ptr<Stream> stream(int device) override;
    bool host_atomics() const override { return system_.host_atomics; }
    Status copy(void *dst, const void *src, size_t bytes) override;

private:
    bool has(int device) const { return device >= 0 && static_cast<size_t>(device) < system_.devices.size(); }
    void check(const char *what, hsa_status_t status) const {
        if (status != HSA_STATUS_SUCCESS)
            system_.failure(what, status);
    }

    const System system_;
    Fragments fragments_;
    std::optional<Allocations> allocations_;
    std::optional<Launcher> launcher_;
};

Rocr_runtime::~Rocr_runtime() {
    launcher_.reset();
    allocations_.reset();
    system_.api.hsa_shut_down();
}

std::string Rocr_runtime::version() const {
    uint16_t major = 0, minor = 0;
    system_.api.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
    system_.api.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
    return std::to_string(major) + '.' + std::to_string(minor);
}

// ROCr wants exactly the allocation. A small one is a fragment of a 2 MiB block: ROCr shares the
// block, puts the fragment's offset into the handle and gives the importer the fragment's address.
Status Rocr_runtime::export_memory(void *base, size_t bytes, Handle &handle) {
    if (!fragments_.may_export(base, bytes))
        return Status::kept;
    hsa_amd_ipc_memory_t ipc{};
    if (const auto status = system_.api.hsa_amd_ipc_memory_create(base, bytes, &ipc); status != HSA_STATUS_SUCCESS)
        return system_.failure("exporting memory", status);
    fragments_.exported(base, bytes);
    handle = {};
    handle.words[tag_word] = handle_tag;
    handle.words[bytes_low_word] = static_cast<uint32_t>(bytes);
    handle.words[bytes_high_word] = static_cast<uint32_t>(uint64_t{bytes} >> 32);
    std::memcpy(&handle.words[ipc_word], ipc.handle, sizeof ipc.handle);
    return Status::ok;
}

Status Rocr_runtime::attach(int device, const Handle &handle, size_t bytes, void *&mapped) {
    mapped = nullptr;
    const uint64_t said = handle.words[bytes_low_word] | uint64_t{handle.words[bytes_high_word]} << 32;
    if (!has(device) || handle.words[tag_word] != handle_tag || bytes == 0 || said != bytes)
        return Status::invalid;
    hsa_amd_ipc_memory_t ipc;
    std::memcpy(ipc.handle, &handle.words[ipc_word], sizeof ipc.handle);
    const auto status = system_.api.hsa_amd_ipc_memory_attach(&ipc, bytes, 1, &system_.agents[device], &mapped);
    if (status == HSA_STATUS_SUCCESS)
        return Status::ok;
    mapped = nullptr;
    return system_.failure("attaching a peer's memory", status);
}

void Rocr_runtime::detach(void *mapped) {
    check("detaching a peer's memory", system_.api.hsa_amd_ipc_memory_detach(mapped));
}

Status Rocr_runtime::pin(void *address, size_t bytes, void *&device_address) {
    std::vector<hsa_agent_t> agents = system_.agents; // the call takes them as not constant
    const auto status = system_.api.hsa_amd_memory_lock(address, bytes, agents.data(), static_cast<int>(agents.size()),
                                                        &device_address);
    return status == HSA_STATUS_SUCCESS ? Status::ok : system_.failure("pinning host memory", status);
}

void Rocr_runtime::unpin(void *address) { check("unpinning host memory", system_.api.hsa_amd_memory_unlock(address)); }

void *Rocr_runtime::allocate_shared(size_t bytes) {
    void *memory = system_.allocate(system_.host_pool, bytes);
    if (memory)
        std::memset(memory, 0, bytes);
    return memory;
}

void Rocr_runtime::free_shared(void *address) {
    check("freeing host memory", system_.api.hsa_amd_memory_pool_free(address));
}

void *Rocr_runtime::allocate_device(int device, size_t bytes) {
    if (!has(device))
        return nullptr;
    const size_t words = (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t);
    void *memory = system_.allocate(system_.device_pools[device], words * sizeof(uint32_t));
    if (!memory)
        return nullptr;
    if (const auto status = system_.api.hsa_amd_memory_fill(memory, 0, words); status != HSA_STATUS_SUCCESS) {
        system_.failure("clearing device memory", status);
        free_device(memory);
        return nullptr;
    }
    return memory;
}

void Rocr_runtime::free_device(void *address) {
    check("freeing device memory", system_.api.hsa_amd_memory_pool_free(address));
}

std::unique_ptr<Stream> Rocr_runtime::stream(int device) {
    return has(device) ? Copy_stream::make(system_, device) : nullptr;
}

// ROCr's own blocking copy: it knows what to do with host memory that no GPU can reach. Its wait
// is ROCr's, as in hipMemcpy.
Status Rocr_runtime::copy(void *dst, const void *src, size_t bytes) {
    if (bytes == 0)
        return Status::ok;
    const auto status = system_.api.hsa_memory_copy(dst, src, bytes);
    return status == HSA_STATUS_SUCCESS ? Status::ok : system_.failure("copy", status);
}

} // namespace

} // namespace rocr

std::shared_ptr<Runtime> platform_open(sdma_reason_t &reason) {
    if (!platform_loaded()) {
        reason = SDMA_REASON_no_runtime;
        return nullptr;
    }
    // An application that has loaded ROCr but not started it has no device buffers either.
    reason = SDMA_REASON_no_gpu;
    const auto api = rocr::find_started();
    if (!api || api->hsa_init() != HSA_STATUS_SUCCESS)
        return nullptr;
    rocr::System system(*api);
    if (!rocr::discover(system)) {
        api->hsa_shut_down();
        return nullptr;
    }
    reason = SDMA_REASON_none;
    return std::make_shared<rocr::Rocr_runtime>(std::move(system));
}

} // namespace sdma::gpu
