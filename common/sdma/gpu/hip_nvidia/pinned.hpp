// SPDX-License-Identifier: BSD-3-Clause
//
// Zeroed host memory that the GPUs reach at the host's address. Mapped by us and registered with
// CUDA rather than allocated by it: a reset of the device by the application frees CUDA's own
// allocations while threads of ours still look at them. Shared, so that a fork copies no page that
// the GPU writes.
#pragma once

#include <cstddef>

#include "driver.hpp"

namespace sdma::gpu::nvidia {

class Pinned {
public:
    Pinned() = default;
    // Needs a current context. Empty (logged) on failure. `driver` outlives the memory.
    Pinned(const Driver &driver, size_t bytes);
    ~Pinned();
    Pinned(Pinned &&other) noexcept;
    Pinned &operator=(Pinned &&other) noexcept;

    void *get() const { return address_; }

private:
    const Driver *driver_ = nullptr;
    void *address_ = nullptr;
    size_t bytes_ = 0;
};

} // namespace sdma::gpu::nvidia
