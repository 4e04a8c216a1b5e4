// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.hpp"

#include <cstdio>
#include <mutex>

#include "platform.hpp"

namespace sdma::gpu {

std::string to_string(const Pci_address &address) {
    char text[sizeof "00000000:00:00.255"];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%u", address.domain, address.bus, address.device,
                  address.function);
    return text;
}

Pci_address pci_of_location(uint32_t domain, uint32_t location) {
    const uint32_t partition = location >> 28;
    return {domain, static_cast<uint8_t>(location >> 8), static_cast<uint8_t>(location >> 3 & 0x1f),
            static_cast<uint8_t>(partition ? partition : location & 7)};
}

const char *to_string(Status status) {
    switch (status) {
    case Status::ok:
        return "ok";
    case Status::pending:
        return "pending";
    case Status::no_memory:
        return "out of memory";
    case Status::denied:
        return "permission denied";
    case Status::unsupported:
        return "not supported";
    case Status::invalid:
        return "invalid argument";
    case Status::kept:
        return "ROCr keeps too many blocks of small allocations that were shared and freed";
    case Status::failed:
        return "failed";
    }
    return "unknown status";
}

bool runtime_loaded() { return platform_loaded(); }

std::shared_ptr<Runtime> open_runtime(sdma_reason_t &reason) {
    // Owned by the process and never destroyed: at exit the GPU libraries may be torn down before
    // or after this library, so no static destructor of ours may call into them. The operating
    // system takes everything back.
    struct Process_runtime {
        std::mutex mutex;
        std::shared_ptr<Runtime> runtime;
    };
    static Process_runtime &process = *new Process_runtime;

    std::lock_guard lock(process.mutex);
    reason = SDMA_REASON_none;
    if (!process.runtime)
        process.runtime = platform_open(reason);
    return process.runtime;
}

} // namespace sdma::gpu
