// SPDX-License-Identifier: BSD-3-Clause
//
// The GPU-visible memory of this process. All GPUs use the same address, and for our own memory the
// CPU does too; that is one memfd per allocation, so that other processes can map it. A registered
// range has another address for the GPUs, as with a driver without shared virtual memory: who confuses
// the two is found out, and HIP 5.2 relies on it. If the range is a shared mapping, that address is
// good for loads and stores; else it is only reserved, and cpu_address() leads back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <hsakmt.h>

namespace simnode {

enum class Block_kind : uint8_t {
    allocated,  // hsaKmtAllocMemory
    attached,   // another process's allocation
    registered, // memory of the application
    scratch,    // address range only: mapped piecewise, never shared
    internal    // queue pointers, doorbells, event mailboxes
};

struct Block {
    Block_kind kind = Block_kind::allocated;
    uint64_t base = 0;
    size_t bytes = 0;
    uint32_t node = 0; // where the memory is
    HsaMemFlags flags{};
    int fd = -1;
    uint32_t object = 0;                      // charge on the GPU, 0: none
    uint32_t mapped = 0;                      // bit per GPU
    uint32_t registered_to = 0;               // bit per GPU that a map without a list is for; 0: all
    uint64_t alias = 0;                       // of a registered range: the GPUs' address of `base`
    bool reserved = false;                    // nothing is mapped at the alias
    unsigned registrations = 0, mappings = 0; // of a registered range
    void *user_data = nullptr;
    std::vector<uint32_t> mapped_nodes; // as pointer queries report them

    uint64_t gpu_base() const { return alias ? alias : base; }
    bool on_cpu(uint64_t address) const { return address >= base && address - base < bytes; }
    bool on_gpu(uint64_t address) const { return address >= gpu_base() && address - gpu_base() < bytes; }
};

uint32_t all_gpus(); // bit per GPU
bool is_gpu_node(uint32_t node);
inline unsigned gpu_of(uint32_t node) { return node - 1; }
inline uint32_t node_of(unsigned gpu) { return gpu + 1; }

// Address space of `bytes`, aligned as GPU memory is, backed by `fd` or anonymous if fd < 0; at
// `wanted` if that is not null. nullptr on failure.
void *map_aligned(size_t bytes, size_t alignment, int fd, void *wanted);
// At least a page; 2 MiB for everything from 2 MiB on.
size_t gpu_alignment(size_t bytes);
size_t round_to_pages(size_t bytes);
size_t spanned_pages(uint64_t address, size_t bytes); // bytes of all pages the range touches

// Zeroed memory of the simulator itself that the GPUs in `mapped` reach. Freed by remove_block().
void *make_internal(size_t bytes, uint32_t mapped);

void add_block(Block block);

// Run `use` on the block that starts at, or (with `inside`) contains, the address (the CPU's, or a
// GPU's of a registered range) under the table's lock. False if there is none. As with the thunk (its fmm.c),
// a start alone means no registered range if several start there.
bool with_block(uint64_t address, bool inside, const std::function<void(Block &)> &use);

// The same for the registered range of exactly this start and size.
bool with_registration(uint64_t address, size_t bytes, const std::function<void(Block &)> &use);

void set_mapped(Block &block, uint32_t gpus);

// Take the block out of the table and give back its memory and charge.
void remove_block(uint64_t base);

} // namespace simnode
