// SPDX-License-Identifier: BSD-3-Clause
//
// The thread that serves the rings of one GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "../gpu/gpu.hpp"
#include "proxy_line.hpp"

namespace sdma::engine::proxy {

class Worker {
public:
    // Starts the thread; nullptr if there can be none. It runs on CPUs near the device at `pci`,
    // with all signals blocked.
    static std::unique_ptr<Worker> start(uint32_t device, const gpu::Pci_address &pci);
    // Waits for the thread for a bounded time; one that hangs in the runtime is left behind.
    ~Worker();

    // A line leaves when it is closed.
    void add(std::shared_ptr<Line> line);

    // Any thread; a system call only if the thread sleeps.
    void wake();

    struct Shared;

private:
    explicit Worker(std::shared_ptr<Shared> shared);
    const std::shared_ptr<Shared> shared_;
};

} // namespace sdma::engine::proxy
