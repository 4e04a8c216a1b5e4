// SPDX-License-Identifier: BSD-3-Clause
//
// hsaKmtShareMemory and hsaKmtRegisterSharedHandle: the importer opens the exporter's memfd.
#include "test/simnode/thunk/share.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/memory.hpp"
#include "test/simnode/thunk/node.hpp"

namespace simnode {

namespace {

// 32 bytes; ROCr keeps the offset of a suballocation in words 6 and 7, which must leave here as 0.
struct Handle {
    uint32_t magic;
    uint32_t process;
    uint32_t fd;
    uint32_t object;
    uint32_t pages;
    uint32_t node_and_flags; // 5 and 27 bits
    uint32_t zero[2];
};
static_assert(sizeof(Handle) == sizeof(HsaSharedMemoryHandle));
constexpr uint32_t handle_magic = 0x534e3031;

bool refused() {
    static std::atomic<int64_t> calls{0};
    const int64_t call = ++calls;
    const Fault *planned = fault("attach");
    return planned && (planned->at == 0 || planned->at == call);
}

// Whether the link of a descriptor names the memory; if not, the reason was logged.
bool is_memory_of(const Handle &handle, const std::string &link) {
    char target[256] = {};
    if (readlink(link.c_str(), target, sizeof target - 1) < 0) {
        complain("shared memory handle: %s: %s", link.c_str(), strerror(errno));
        return false;
    }
    // "/memfd:NAME (deleted)"
    const std::string name = "/memfd:" + share_name(handle.object) + " ";
    if (strncmp(target, name.c_str(), name.size()) == 0)
        return true;
    complain("shared memory handle is stale: %s is %s, not %s", link.c_str(), target, name.c_str());
    return false;
}

// The memory behind a handle, or -1 with the reason logged.
int open_shared(const Handle &handle) {
    const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.fd);
    if (!is_memory_of(handle, path)) // nothing else is to be opened
        return -1;
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    // The exporter may have closed its descriptor and got the number for another one meanwhile.
    if (fd >= 0 && !is_memory_of(handle, "/proc/self/fd/" + std::to_string(fd))) {
        close(fd);
        return -1;
    }
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(size_t{handle.pages} * 4096)) {
        complain("shared memory handle: cannot use %s: %s", path.c_str(), fd < 0 ? strerror(errno) : "wrong size");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

HSAKMT_STATUS import(const HsaSharedMemoryHandle *words, uint32_t gpus, void **address, HSAuint64 *bytes) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    if (!words || !address || !bytes)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    if (refused()) {
        complain("fault attach: registration of a shared memory handle refused");
        return HSAKMT_STATUS_ERROR;
    }
    Handle handle;
    memcpy(&handle, words, sizeof handle);
    Block block;
    block.kind = Block_kind::attached;
    block.bytes = size_t{handle.pages} * 4096;
    block.node = handle.node_and_flags & 31;
    block.flags.Value = handle.node_and_flags >> 5;
    block.object = handle.object;
    block.registered_to = gpus;
    if (handle.magic != handle_magic || block.node > options().gpus || block.bytes == 0) {
        complain("not a shared memory handle of this node");
        return HSAKMT_STATUS_INVALID_HANDLE;
    }
    // Held before it is opened: from here on the exporter's free does not end the charge.
    if (block.object && !hold(block.object)) {
        complain("shared memory handle is stale: process %u has freed the memory", handle.process);
        return HSAKMT_STATUS_INVALID_HANDLE;
    }
    block.fd = open_shared(handle);
    void *mapped = block.fd < 0 ? nullptr : map_aligned(block.bytes, gpu_alignment(block.bytes), block.fd, nullptr);
    if (!mapped) {
        const bool invalid = block.fd < 0;
        if (!invalid)
            close(block.fd);
        if (block.object)
            drop(block.object);
        return invalid ? HSAKMT_STATUS_INVALID_HANDLE : HSAKMT_STATUS_NO_MEMORY;
    }
    block.base = reinterpret_cast<uint64_t>(mapped);
    *address = mapped;
    *bytes = block.bytes;
    add_block(std::move(block));
    return HSAKMT_STATUS_SUCCESS;
}

} // namespace

std::string share_name(uint32_t object) { return "simnode-" + std::to_string(object); }

} // namespace simnode

using namespace simnode;

extern "C" {

HSAKMT_STATUS hsaKmtShareMemory(void *pointer, HSAuint64 bytes, HsaSharedMemoryHandle *words) {
    if (!pointer || !words)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    HSAKMT_STATUS status = HSAKMT_STATUS_SUCCESS;
    const bool known = with_block(reinterpret_cast<uint64_t>(pointer), false, [&](const Block &block) {
        if (block.fd < 0 || block.bytes != bytes) {
            status = HSAKMT_STATUS_INVALID_PARAMETER; // whole allocations only
            return;
        }
        const Handle handle = {
            handle_magic, static_cast<uint32_t>(getpid()),           static_cast<uint32_t>(block.fd),
            block.object, static_cast<uint32_t>(block.bytes / 4096), block.node | block.flags.Value << 5,
            {0, 0}};
        memcpy(words, &handle, sizeof handle);
    });
    return known ? status : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle *words, void **address, HSAuint64 *bytes) {
    return import(words, 0, address, bytes);
}

HSAKMT_STATUS hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle *words, void **address, HSAuint64 *bytes,
                                                HSAuint64 count, HSAuint32 *nodes) {
    uint32_t gpus = 0;
    for (uint64_t i = 0; i < count; ++i) {
        if (!is_gpu_node(nodes[i]))
            return HSAKMT_STATUS_INVALID_NODE_UNIT;
        gpus |= 1u << gpu_of(nodes[i]);
    }
    return import(words, gpus, address, bytes);
}

} // extern "C"
