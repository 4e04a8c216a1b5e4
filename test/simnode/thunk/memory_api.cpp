// SPDX-License-Identifier: BSD-3-Clause
//
// hsaKmt*: allocation, registration, mapping, pointer queries.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/memory.hpp"
#include "test/simnode/thunk/node.hpp"
#include "test/simnode/thunk/share.hpp"

using namespace simnode;

namespace {

// Flags of later releases, for ROCr's virtual-memory API, which needs DMA-BUF.
constexpr uint32_t no_address = 1u << 18, only_address = 1u << 19;

uint64_t address_of(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Present in this process: what get_user_pages would find.
bool present(uint64_t address, size_t bytes) {
    const uint64_t first = address - address % 4096, end = first + spanned_pages(address, bytes);
    unsigned char resident[4096];
    for (uint64_t at = first; at < end; at += sizeof resident * 4096) {
        const size_t part = std::min<uint64_t>(end - at, sizeof resident * 4096);
        if (mincore(reinterpret_cast<void *>(at), part, resident) != 0)
            return false;
    }
    return true;
}

// Give the range another address for the GPUs. Only shared mappings can be mapped twice.
bool make_alias(Block &block) {
    const uint64_t offset = block.base % 4096;
    const size_t bytes = spanned_pages(block.base, block.bytes);
    void *alias = mremap(reinterpret_cast<void *>(block.base - offset), 0, bytes, MREMAP_MAYMOVE);
    block.reserved = alias == MAP_FAILED;
    if (block.reserved)
        alias = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block.alias = address_of(alias) + offset;
    return alias != MAP_FAILED;
}

HSAKMT_STATUS gpu_mask(uint64_t count, const HSAuint32 *nodes, uint32_t &mask) {
    mask = 0;
    for (uint64_t i = 0; i < count; ++i) {
        if (!is_gpu_node(nodes[i]))
            return HSAKMT_STATUS_INVALID_NODE_UNIT;
        mask |= 1u << gpu_of(nodes[i]);
    }
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS allocate(uint32_t node, size_t bytes, size_t alignment, HsaMemFlags flags, void **address) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    if (!address || bytes == 0 || bytes % 4096 != 0)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    if (node > options().gpus)
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    if (flags.Value & (no_address | only_address))
        return HSAKMT_STATUS_NOT_SUPPORTED;
    Block block;
    block.bytes = bytes;
    block.node = node;
    block.flags = flags;
    if (flags.ui32.Scratch) {
        block.kind = Block_kind::scratch;
    } else if (is_gpu_node(node) && !(block.object = charge(gpu_of(node), bytes))) {
        return HSAKMT_STATUS_NO_MEMORY;
    }
    if (block.kind != Block_kind::scratch) {
        block.fd = memfd_create(share_name(block.object).c_str(), MFD_CLOEXEC);
        if (block.fd < 0 || ftruncate(block.fd, static_cast<off_t>(bytes)) != 0)
            complain("cannot make a memfd of %zu bytes: %s", bytes, strerror(errno));
    }
    void *wanted = flags.ui32.FixedAddress ? *address : nullptr;
    void *mapped = block.fd < 0 && block.kind != Block_kind::scratch
                       ? nullptr
                       : map_aligned(bytes, std::max(alignment, gpu_alignment(bytes)), block.fd, wanted);
    if (!mapped) {
        if (block.fd >= 0)
            close(block.fd);
        if (block.object)
            drop(block.object);
        return HSAKMT_STATUS_NO_MEMORY;
    }
    block.base = address_of(mapped);
    add_block(std::move(block));
    *address = mapped;
    return HSAKMT_STATUS_SUCCESS;
}

// Part of our own memory, or all of it, may have been registered, or unmapped in part: nothing is to be undone then.
bool within_own(const void *pointer) {
    bool own = false;
    with_block(address_of(pointer), true, [&](const Block &block) { own = block.kind != Block_kind::registered; });
    return own;
}

// A range is registered as a whole or given up as a whole: what was found must still be so when it is changed.
std::mutex &registering = *new std::mutex; // never destroyed: see memory.cpp

HSAKMT_STATUS register_range(void *pointer, size_t bytes, uint32_t gpus, HsaMemFlags flags) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    const uint64_t address = address_of(pointer);
    if (!pointer || bytes == 0)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    const std::lock_guard lock(registering);
    bool same = false;
    // Our own memory needs no registration: it only says for whom the next map without a list is.
    // The same range of the application once more counts up.
    with_block(address, true, [&](Block &block) {
        if (block.kind != Block_kind::registered) {
            block.registered_to |= gpus;
            same = true;
        }
    });
    if (!same)
        same = with_registration(address, bytes, [](Block &block) { ++block.registrations; });
    if (same)
        return HSAKMT_STATUS_SUCCESS;
    if (!present(address, bytes)) {
        complain("registration of %p, %zu bytes: not mapped in this process", pointer, bytes);
        return HSAKMT_STATUS_ERROR;
    }
    Block block;
    block.kind = Block_kind::registered;
    block.base = address;
    block.bytes = bytes;
    block.flags = flags;
    block.registered_to = gpus;
    block.registrations = 1;
    if (!make_alias(block))
        return HSAKMT_STATUS_NO_MEMORY;
    add_block(std::move(block));
    return HSAKMT_STATUS_SUCCESS;
}

// As the thunk: the list replaces the GPUs mapped before; registered memory goes to all it was
// registered to, whatever the list says.
HSAKMT_STATUS map(void *pointer, size_t bytes, HSAuint64 *alternate, const uint32_t *listed) {
    const uint64_t address = address_of(pointer);
    uint64_t gpu_address = address;
    const bool known = with_registration(address, bytes,
                                         [&](Block &block) {
                                             ++block.mappings;
                                             gpu_address = block.gpu_base();
                                             set_mapped(block, block.registered_to ? block.registered_to : all_gpus());
                                         }) ||
                       with_block(address, true, [&](Block &block) {
                           const uint32_t registered = block.registered_to ? block.registered_to : all_gpus();
                           const uint32_t wanted = listed ? *listed : registered;
                           set_mapped(block, block.base == address ? wanted : block.mapped | wanted);
                       });
    if (!known)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    if (alternate)
        *alternate = gpu_address;
    return HSAKMT_STATUS_SUCCESS;
}

} // namespace

extern "C" {

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32 node, HSAuint64 bytes, HsaMemFlags flags, void **address) {
    return allocate(node, bytes, 0, flags, address);
}

HSAKMT_STATUS hsaKmtAllocMemoryAlign(HSAuint32 node, HSAuint64 bytes, HSAuint64 alignment, HsaMemFlags flags,
                                     void **address) {
    if (alignment & (alignment - 1))
        return HSAKMT_STATUS_INVALID_PARAMETER;
    return allocate(node, bytes, alignment, flags, address);
}

HSAKMT_STATUS hsaKmtFreeMemory(void *pointer, HSAuint64 bytes) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    HSAKMT_STATUS status = HSAKMT_STATUS_SUCCESS;
    const bool known = with_block(address_of(pointer), false, [&](const Block &block) {
        if (block.kind != Block_kind::allocated && block.kind != Block_kind::scratch) {
            status = HSAKMT_STATUS_INVALID_PARAMETER;
        } else if (block.mapped && block.kind == Block_kind::allocated) {
            complain("hsaKmtFreeMemory of %p, %zu bytes: still mapped to GPUs (mask 0x%x)", pointer, size_t{bytes},
                     block.mapped);
            status = HSAKMT_STATUS_ERROR;
        }
    });
    if (known && status == HSAKMT_STATUS_SUCCESS)
        remove_block(address_of(pointer));
    return known ? status : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64 *bytes) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    if (!is_gpu_node(node) || !bytes)
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    *bytes = available(gpu_of(node));
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRegisterMemory(void *pointer, HSAuint64 bytes) { return register_range(pointer, bytes, 0, {}); }

HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void *pointer, HSAuint64 bytes, HsaMemFlags flags) {
    return register_range(pointer, bytes, 0, flags);
}

HSAKMT_STATUS hsaKmtRegisterMemoryToNodes(void *pointer, HSAuint64 bytes, HSAuint64 count, HSAuint32 *nodes) {
    uint32_t gpus;
    const HSAKMT_STATUS status = gpu_mask(count, nodes, gpus);
    return status == HSAKMT_STATUS_SUCCESS ? register_range(pointer, bytes, gpus, {}) : status;
}

HSAKMT_STATUS hsaKmtDeregisterMemory(void *pointer) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    const std::lock_guard lock(registering);
    bool remove = false;
    const bool known = with_block(address_of(pointer), false, [&](Block &block) {
        if (block.kind == Block_kind::registered)
            remove = --block.registrations == 0;
        else if (block.kind == Block_kind::attached)
            remove = true;
    });
    if (remove)
        remove_block(address_of(pointer));
    return known || within_own(pointer) ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
}

HSAKMT_STATUS hsaKmtMapMemoryToGPU(void *pointer, HSAuint64 bytes, HSAuint64 *alternate) {
    return map(pointer, bytes, alternate, nullptr);
}

HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void *pointer, HSAuint64 bytes, HSAuint64 *alternate, HsaMemMapFlags,
                                        HSAuint64 count, HSAuint32 *nodes) {
    uint32_t gpus;
    const HSAKMT_STATUS status = gpu_mask(count, nodes, gpus);
    return status == HSAKMT_STATUS_SUCCESS ? map(pointer, bytes, alternate, &gpus) : status;
}

HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void *pointer) {
    const bool known = with_block(address_of(pointer), false, [&](Block &block) {
        if (block.mappings == 0 || --block.mappings == 0)
            set_mapped(block, 0);
    });
    return known || within_own(pointer) ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void *pointer, HsaPointerInfo *info) {
    if (!pointer || !info)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    memset(info, 0, sizeof *info);
    with_block(address_of(pointer), true, [&](const Block &block) {
        if (block.kind == Block_kind::internal || block.kind == Block_kind::scratch)
            return;
        info->Type = block.kind == Block_kind::allocated  ? HSA_POINTER_ALLOCATED
                     : block.kind == Block_kind::attached ? HSA_POINTER_REGISTERED_SHARED
                                                          : HSA_POINTER_REGISTERED_USER;
        info->Node = block.node;
        info->MemFlags = block.flags;
        info->CPUAddress = reinterpret_cast<void *>(block.base);
        info->GPUAddress = block.gpu_base();
        info->SizeInBytes = block.bytes;
        info->NMappedNodes = static_cast<HSAuint32>(block.mapped_nodes.size());
        info->MappedNodes = block.mapped_nodes.data();
        info->UserData = block.user_data;
    });
    return info->Type == HSA_POINTER_UNKNOWN ? HSAKMT_STATUS_ERROR : HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetMemoryUserData(const void *pointer, void *data) {
    const bool known = with_block(address_of(pointer), true, [&](Block &block) { block.user_data = data; });
    return known ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

} // extern "C"
