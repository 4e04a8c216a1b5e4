// SPDX-License-Identifier: BSD-3-Clause
#include "pinned.hpp"

#include <utility>

#include <sys/mman.h>

#include "../../base/base.hpp"

namespace sdma::gpu::nvidia {

namespace {
constexpr size_t page = 4096;
}

Pinned::Pinned(const Driver &driver, size_t bytes) : driver_(&driver), bytes_((bytes + page - 1) / page * page) {
    void *memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        log(1, "cuda: no host memory for %zu bytes", bytes);
        return;
    }
    CUdeviceptr device = 0;
    if (driver.status("register host memory",
                      driver.cuMemHostRegister(
                          memory, bytes_, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) == Status::ok) {
        if (driver.cuMemHostGetDevicePointer(&device, memory, 0) == CUDA_SUCCESS &&
            device == reinterpret_cast<CUdeviceptr>(memory)) {
            address_ = memory;
            return;
        }
        log(1, "cuda: the GPU has another address for registered host memory");
        driver.cuMemHostUnregister(memory);
    }
    munmap(memory, bytes_);
}

Pinned::~Pinned() {
    if (!address_)
        return;
    driver_->status("unregister host memory", driver_->cuMemHostUnregister(address_));
    munmap(address_, bytes_);
}

Pinned::Pinned(Pinned &&other) noexcept
    : driver_(other.driver_), address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}

Pinned &Pinned::operator=(Pinned &&other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

} // namespace sdma::gpu::nvidia
