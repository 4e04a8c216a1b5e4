// SPDX-License-Identifier: BSD-3-Clause
//
// hsaKmt*: opening the device, versions, and what a simulated node has none of.
#include <atomic>

#include <hsakmt.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/memory.hpp"
#include "test/simnode/thunk/model.hpp"
#include "test/simnode/thunk/node.hpp"

using namespace simnode;

namespace {
std::atomic<unsigned> opens{0};
}

extern "C" {

HSAKMT_STATUS hsaKmtOpenKFD() {
    if (fault("device-open") || !join_node())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    return opens++ == 0 ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_ALREADY_OPENED;
}

HSAKMT_STATUS hsaKmtCloseKFD() {
    if (opens == 0)
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    --opens;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo *version) {
    if (!version)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    // Below 1.12 ROCr shares memory by handles of the thunk, below 1.14 it knows no event ages.
    version->KernelInterfaceMajorVersion = 1;
    version->KernelInterfaceMinorVersion = 11;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRuntimeEnable(void *, bool) { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtRuntimeDisable() { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32 *mask) {
    if (mask)
        *mask = 0;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetTrapHandler(HSAuint32, void *, HSAuint64, void *, HSAuint64) { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtSetMemoryPolicy(HSAuint32, HSAuint32, HSAuint32, void *, HSAuint64) {
    return HSAKMT_STATUS_SUCCESS;
}

// No retry faults.
HSAKMT_STATUS hsaKmtGetXNACKMode(HSAint32 *enabled) {
    if (enabled)
        *enabled = 0;
    return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtSetXNACKMode(HSAint32 enable) {
    return enable ? HSAKMT_STATUS_NOT_SUPPORTED : HSAKMT_STATUS_SUCCESS;
}

// Of ROCm 6: only needed to be there, and not null.
HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, void **handle) {
    if (!is_gpu_node(node) || !handle)
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    static char devices[64];
    *handle = &devices[node];
    return HSAKMT_STATUS_SUCCESS;
}

// Of libdrm_amdgpu, which ROCm 6 asks about the handle above. It finds this one, since ROCr lists
// libhsakmt before libdrm_amdgpu. Filled is what ROCr looks at: the start of libdrm's structure.
struct amdgpu_gpu_info_start {
    uint32_t asic_id, chip_rev, chip_external_rev, family_id;
    uint64_t ids_flags, max_engine_clk, max_memory_clk;
};
int amdgpu_query_gpu_info(void *, amdgpu_gpu_info_start *info);
int amdgpu_query_gpu_info(void *, amdgpu_gpu_info_start *info) {
    Gpu_model model;
    find_model(options().gfx, model);
    *info = {};
    info->asic_id = model.device_id;
    info->family_id = model.family;
    return 0;
}

} // extern "C"
