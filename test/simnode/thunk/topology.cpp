// SPDX-License-Identifier: BSD-3-Clause
//
// hsaKmt*: the nodes, their memory banks, caches and links. ROCr asserts on much of this: at least
// one cache on every node, frame buffer + LDS + scratch + SVM banks, links in both directions.
#include <cstring>
#include <string>
#include <vector>

#include <time.h>
#include <unistd.h>

#include <hsakmt.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/memory.hpp"
#include "test/simnode/thunk/model.hpp"

namespace simnode {

namespace {

constexpr uint32_t microcode = 177;

const Gpu_model &model() {
    static const Gpu_model &found = *new Gpu_model([] {
        Gpu_model wanted;
        if (!find_model(options().gfx, wanted)) {
            complain("%s is not a GPU name", options().gfx.c_str());
            find_model("gfx90a", wanted);
        }
        return wanted;
    }());
    return found;
}

void write_text(HSAuint16 (&out)[HSA_PUBLIC_NAME_SIZE], const std::string &text) {
    for (size_t i = 0; i < text.size() && i + 1 < HSA_PUBLIC_NAME_SIZE; ++i)
        out[i] = static_cast<HSAuint16>(text[i]);
}

void describe_cpu(HsaNodeProperties &node) {
    node.NumCPUCores = static_cast<HSAuint32>(sysconf(_SC_NPROCESSORS_ONLN));
    node.NumMemoryBanks = 1;
    node.NumCaches = 1;
    node.NumIOLinks = options().gpus;
    node.DrmRenderMinor = -1;
    node.MaxEngineClockMhzCCompute = 2000;
    write_text(node.MarketingName, "Simulated node, host");
}

// What ROCm 6 made of three words that were reserved before; ROCr reads its own layout whatever we are built with.
template <class Properties> void describe_later(Properties &node, uint32_t xccs, uint32_t gpu_id, uint32_t family) {
    if constexpr (requires { node.FamilyID; }) {
        node.NumXcc = xccs;
        node.KFDGpuID = gpu_id;
        node.FamilyID = family;
    } else {
        const uint32_t later[3] = {xccs, gpu_id, family};
        static_assert(sizeof later == sizeof node.Reserved);
        memcpy(node.Reserved, later, sizeof later);
    }
}

void describe_gpu(unsigned gpu, HsaNodeProperties &node) {
    const Gpu_model &what = model();
    node.NumFComputeCores = what.compute_units * 4;
    node.NumMemoryBanks = 4;
    node.NumCaches = 2;
    node.NumIOLinks = options().gpus;
    node.FComputeIdLo = 0x80001000u + 0x1000 * gpu;
    node.Capability.ui32.QueueSizePowerOfTwo = 1;
    node.Capability.ui32.WatchPointsSupported = 1;
    node.Capability.ui32.WatchPointsTotalBits = 2;
    node.Capability.ui32.DoorbellType = 2; // 64-bit doorbells
    node.Capability.ui32.ASICRevision = 1;
    node.Capability.ui32.SRAM_EDCSupport = 1;
    node.Capability.ui32.Mem_EDCSupport = 1;
    node.MaxWavesPerSIMD = 8;
    node.LDSSizeInKB = 64;
    node.WaveFrontSize = what.lanes;
    node.NumShaderBanks = 8;
    node.NumArrays = 1;
    node.NumCUPerArray = what.compute_units / 8;
    node.NumSIMDPerCU = 4;
    node.MaxSlotsScratchCU = 32;
    node.EngineId.ui32.uCode = microcode;
    node.EngineId.ui32.Major = what.major & 63;
    node.EngineId.ui32.Minor = what.minor;
    node.EngineId.ui32.Stepping = what.stepping;
    node.VendorId = 0x1002;
    node.DeviceId = static_cast<HSAuint16>(what.device_id);
    node.LocationId = location_id(gpu);
    node.LocalMemSize = options().vram;
    node.MaxEngineClockMhzFCompute = 1700;
    node.DrmRenderMinor = static_cast<HSAint32>(128 + gpu);
    node.uCodeEngineVersions.uCodeSDMA = 8;
    node.HiveID = hive_id;
    node.NumSdmaEngines = what.ordinary_engines;
    node.NumSdmaXgmiEngines = what.xgmi_engines;
    node.NumSdmaQueuesPerEngine = slots_per_engine;
    node.NumCpQueues = 24;
    node.NumGws = 64;
    node.UniqueID = unique_id(gpu);
    node.VGPRSizePerCU = 512 << 10;
    node.SGPRSizePerCU = 16 << 10;
    describe_later(node, what.xccs, kfd_gpu_id(gpu), what.family);
    write_text(node.MarketingName, "Simulated " + options().gfx);
    strncpy(reinterpret_cast<char *>(node.AMDName), "simulated", sizeof node.AMDName - 1);
}

void describe_link(uint32_t from, uint32_t to, HsaIoLinkProperties &link) {
    const bool peers = from > 0 && to > 0;
    link.IoLinkType = static_cast<HSA_IOLINKTYPE>(peers ? link_xgmi : link_pcie);
    link.VersionMajor = 0;
    link.NodeFrom = from;
    link.NodeTo = to;
    link.Weight = peers ? weight_xgmi : weight_pcie;
    link.MinimumBandwidth = link.MaximumBandwidth = peers ? 50000 : 32000;
    link.Flags.ui32.Override = 1;
}

// Addresses of the apertures through which flat instructions reach LDS and scratch.
constexpr uint64_t lds_aperture = 0x1000000000000;
constexpr uint64_t scratch_aperture = 0x2000000000000;

uint64_t host_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

} // namespace simnode

using namespace simnode;

extern "C" {

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties *properties) {
    if (!properties)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    *properties = {};
    properties->NumNodes = 1 + options().gpus;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtReleaseSystemProperties() { return HSAKMT_STATUS_SUCCESS; }

HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32 node, HsaNodeProperties *properties) {
    if (node > options().gpus || !properties)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    memset(properties, 0, sizeof *properties);
    if (is_gpu_node(node))
        describe_gpu(gpu_of(node), *properties);
    else
        describe_cpu(*properties);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32 node, HSAuint32 count, HsaMemoryProperties *banks) {
    if (node > options().gpus || !banks)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    std::vector<HsaMemoryProperties> all;
    auto bank = [&](HSA_HEAPTYPE type, uint64_t bytes, uint64_t base) {
        HsaMemoryProperties properties{};
        properties.HeapType = type;
        properties.SizeInBytes = bytes;
        properties.VirtualBaseAddress = base;
        properties.Width = is_gpu_node(node) ? 4096 : 64;
        properties.MemoryClockMax = 1600;
        all.push_back(properties);
    };
    if (is_gpu_node(node)) {
        bank(HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC, options().vram, 0);
        bank(HSA_HEAPTYPE_GPU_LDS, 64 << 10, lds_aperture);
        bank(HSA_HEAPTYPE_GPU_SCRATCH, uint64_t{4} << 30, scratch_aperture);
        bank(HSA_HEAPTYPE_DEVICE_SVM, host_bytes(), 0);
    } else {
        bank(HSA_HEAPTYPE_SYSTEM, host_bytes(), 0);
    }
    for (size_t i = 0; i < count && i < all.size(); ++i)
        banks[i] = all[i];
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32 node, HSAuint32, HSAuint32 count, HsaCacheProperties *caches) {
    if (node > options().gpus || !caches)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    for (uint32_t i = 0; i < count; ++i) {
        HsaCacheProperties &cache = caches[i];
        memset(&cache, 0, sizeof cache);
        cache.CacheLevel = i + 1;
        cache.CacheSize = i == 0 ? 16 : 8192; // KiB
        cache.CacheLineSize = is_gpu_node(node) ? 128 : 64;
        cache.CacheType.ui32.Data = 1;
        cache.CacheType.ui32.CPU = 1; // ROCr looks for either, depending on the node
        cache.CacheType.ui32.HSACU = 1;
    }
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 count, HsaIoLinkProperties *links) {
    if (node > options().gpus || !links)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    // Every node is linked with every other one.
    uint32_t filled = 0;
    for (uint32_t to = 0; to <= options().gpus && filled < count; ++to) {
        if (to == node)
            continue;
        memset(&links[filled], 0, sizeof links[filled]);
        describe_link(node, to, links[filled++]);
    }
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32 node, HsaClockCounters *counters) {
    if (node > options().gpus || !counters)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t nanoseconds = static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
    counters->GPUClockCounter = nanoseconds / 10; // a 100 MHz clock
    counters->CPUClockCounter = nanoseconds;
    counters->SystemClockCounter = nanoseconds;
    counters->SystemClockFrequencyHz = 1000000000;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetTileConfig(HSAuint32 node, HsaGpuTileConfig *config) {
    if (!is_gpu_node(node) || !config)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    config->NumTileConfigs = config->NumMacroTileConfigs = 0;
    config->GbAddrConfig = 0x2a114042; // what the driver sets on this family
    config->NumBanks = 16;
    config->NumRanks = 2;
    return HSAKMT_STATUS_SUCCESS;
}

} // extern "C"
