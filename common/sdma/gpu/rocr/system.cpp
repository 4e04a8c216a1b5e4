// SPDX-License-Identifier: BSD-3-Clause
#include "system.hpp"

#include "../../base/base.hpp"

namespace sdma::gpu::rocr {

namespace {

// Of newer releases than the oldest header we build with: memory whose kernels' stores are visible
// to other agents without any cache write-back (what HIP calls uncached device memory).
constexpr uint32_t global_flag_extended_scope_fine_grained = 1u << 3;

struct Pool {
    hsa_amd_memory_pool_t handle{};
    uint32_t flags = 0;
};

std::vector<Pool> global_pools(const Api &api, hsa_agent_t agent) {
    struct Search {
        const Api &api;
        std::vector<Pool> pools;
    } search{api, {}};
    api.hsa_amd_agent_iterate_memory_pools(
        agent,
        [](hsa_amd_memory_pool_t handle, void *data) {
            auto &[api, pools] = *static_cast<Search *>(data);
            hsa_amd_segment_t segment{};
            bool allocatable = false;
            Pool pool{handle, 0};
            const auto get = api.hsa_amd_memory_pool_get_info;
            if (get(handle, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment) == HSA_STATUS_SUCCESS &&
                segment == HSA_AMD_SEGMENT_GLOBAL &&
                get(handle, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allocatable) == HSA_STATUS_SUCCESS &&
                allocatable && get(handle, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &pool.flags) == HSA_STATUS_SUCCESS)
                pools.push_back(pool);
            return HSA_STATUS_SUCCESS;
        },
        &search);
    return search.pools;
}

// The first pool that has the first flag of `wanted`, else the second, ...
hsa_amd_memory_pool_t choose_pool(const std::vector<Pool> &pools, std::initializer_list<uint32_t> wanted) {
    for (uint32_t flag : wanted)
        for (const Pool &pool : pools)
            if (pool.flags & flag)
                return pool.handle;
    return {};
}

std::string isa_of(const Api &api, hsa_agent_t agent) {
    struct Search {
        const Api &api;
        std::string name;
    } search{api, {}};
    api.hsa_agent_iterate_isas(
        agent,
        [](hsa_isa_t isa, void *data) {
            auto &[api, name] = *static_cast<Search *>(data);
            uint32_t length = 0;
            if (api.hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME_LENGTH, &length) == HSA_STATUS_SUCCESS) {
                name.resize(length);
                if (api.hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME, name.data()) == HSA_STATUS_SUCCESS) {
                    name.resize(name.find('\0') == name.npos ? length : name.find('\0'));
                    return HSA_STATUS_INFO_BREAK; // the most specific one comes first
                }
            }
            name.clear();
            return HSA_STATUS_SUCCESS;
        },
        &search);
    return search.name;
}

void add_gpu(System &system, hsa_agent_t agent) {
    const auto get = [&](auto attribute, auto &value) {
        return system.api.hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(attribute), &value) ==
               HSA_STATUS_SUCCESS;
    };
    Device device;
    uint32_t location = 0, domain = 0;
    device.target = target_of_isa(isa_of(system.api, agent));
    const auto pool = choose_pool(global_pools(system.api, agent), {global_flag_extended_scope_fine_grained,
                                                                    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
                                                                    HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED});
    const bool usable =
        get(HSA_AMD_AGENT_INFO_BDFID, location) && get(HSA_AMD_AGENT_INFO_DOMAIN, domain) &&
        get(HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, device.node) && get(HSA_AGENT_INFO_WAVEFRONT_SIZE, device.wave_lanes) &&
        get(HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, device.workgroups) && !device.target.empty() && pool.handle != 0;
    if (!usable) {
        log(0, "a GPU without PCI address, instruction set or memory pool is ignored (target \"%s\", location 0x%x)",
            device.target.c_str(), location);
        return;
    }
    device.pci = pci_of_location(domain, location);
    system.devices.push_back(device);
    system.agents.push_back(agent);
    system.device_pools.push_back(pool);
}

void add_host(System &system, hsa_agent_t agent) {
    if (system.host_pool.handle) // the first one serves all: GPUs reach every host node
        return;
    const auto pools = global_pools(system.api, agent);
    system.host_agent = agent;
    system.host_pool = choose_pool(pools, {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED});
    system.kernarg_pool = choose_pool(pools, {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT});
}

// ROCr itself uses this to choose between ATOMIC and FENCE for its completion signals.
bool link_has_atomics(const System &system, hsa_agent_t gpu) {
    const auto get = system.api.hsa_amd_agent_memory_pool_get_info;
    uint32_t hops = 0;
    if (get(gpu, system.host_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops) != HSA_STATUS_SUCCESS ||
        hops == 0)
        return false;
    std::vector<hsa_amd_memory_pool_link_info_t> links(hops);
    if (get(gpu, system.host_pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, links.data()) != HSA_STATUS_SUCCESS)
        return false;
    for (const auto &link : links)
        if (!link.atomic_support_64bit)
            return false;
    return true;
}

} // namespace

std::string target_of_isa(std::string_view isa) {
    const size_t start = isa.find("--gfx");
    if (start == isa.npos)
        return "";
    isa.remove_prefix(start + 2);
    return std::string(isa.substr(0, isa.find(':')));
}

int System::device_of(hsa_agent_t agent) const {
    for (size_t i = 0; i < agents.size(); i++)
        if (agents[i].handle == agent.handle)
            return static_cast<int>(i);
    return -1;
}

void *System::allocate(hsa_amd_memory_pool_t pool, size_t bytes) const {
    void *memory = nullptr;
    if (const auto status = api.hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory); status != HSA_STATUS_SUCCESS) {
        failure("allocation", status);
        return nullptr;
    }
    const auto count = static_cast<uint32_t>(agents.size());
    if (const auto status = api.hsa_amd_agents_allow_access(count, agents.data(), nullptr, memory);
        status != HSA_STATUS_SUCCESS) {
        failure("mapping an allocation to the GPUs", status);
        api.hsa_amd_memory_pool_free(memory);
        return nullptr;
    }
    return memory;
}

Status System::failure(const char *what, hsa_status_t status) const {
    log(1, "rocr: %s failed: %s", what, api.text(status));
    switch (status) {
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
        return Status::no_memory;
    case HSA_STATUS_ERROR_INVALID_ARGUMENT:
    case HSA_STATUS_ERROR_INVALID_ALLOCATION:
        return Status::invalid;
    default:
        return Status::failed;
    }
}

bool discover(System &system) {
    system.api.hsa_iterate_agents(
        [](hsa_agent_t agent, void *data) {
            auto &system = *static_cast<System *>(data);
            hsa_device_type_t type{};
            if (system.api.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) != HSA_STATUS_SUCCESS)
                return HSA_STATUS_SUCCESS;
            if (type == HSA_DEVICE_TYPE_GPU)
                add_gpu(system, agent);
            else if (type == HSA_DEVICE_TYPE_CPU)
                add_host(system, agent);
            return HSA_STATUS_SUCCESS;
        },
        &system);
    if (system.devices.empty() || !system.host_pool.handle || !system.kernarg_pool.handle)
        return false;
    system.host_atomics = true;
    for (hsa_agent_t gpu : system.agents)
        system.host_atomics = system.host_atomics && link_has_atomics(system, gpu);
    return true;
}

} // namespace sdma::gpu::rocr
