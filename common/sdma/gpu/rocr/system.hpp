// SPDX-License-Identifier: BSD-3-Clause
//
// The GPUs, memory pools and links that a started ROCr reports. Read once, then constant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../gpu.hpp"
#include "api.hpp"

namespace sdma::gpu::rocr {

struct System {
    explicit System(const Api &api) : api(api) {}

    const Api api;
    std::vector<Device> devices;
    std::vector<hsa_agent_t> agents;                 // of each device
    std::vector<hsa_amd_memory_pool_t> device_pools; // of each device: its finest-grained memory
    hsa_amd_memory_pool_t host_pool{};               // fine-grained host memory
    hsa_amd_memory_pool_t kernarg_pool{};            // host memory for kernel arguments
    hsa_agent_t host_agent{};
    bool host_atomics = false; // every GPU's link to host memory carries 64-bit atomics

    // Number of the device that `agent` is, -1 for the host.
    int device_of(hsa_agent_t agent) const;

    // Memory of `pool` that all GPUs reach; nullptr (logged) if there is none.
    void *allocate(hsa_amd_memory_pool_t pool, size_t bytes) const;

    // Translate a failed call. Logged for the curious only: the caller makes a named reason of it.
    Status failure(const char *what, hsa_status_t status) const;
};

// Fills the system in. False (logged) if ROCr reports no GPU or not the pools we need.
bool discover(System &system);

// "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-" -> "gfx90a"; "" for anything else.
std::string target_of_isa(std::string_view isa);

} // namespace sdma::gpu::rocr
