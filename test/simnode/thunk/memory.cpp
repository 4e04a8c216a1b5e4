// SPDX-License-Identifier: BSD-3-Clause
#include "test/simnode/thunk/memory.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

#include <sys/mman.h>
#include <unistd.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/node.hpp"

namespace simnode {

namespace {

constexpr size_t page = 4096;
constexpr size_t large_page = size_t{2} << 20;

// Never destroyed: worker threads may still run while the process exits.
struct Tables {
    std::shared_mutex mutex;
    std::map<uint64_t, Block> memory;          // our own mappings: these never overlap
    std::multimap<uint64_t, Block> registered; // ranges of the application: these may
    std::atomic<size_t> reserved{0};           // of those, without memory at the GPUs' address
};
Tables &tables = *new Tables;

Block *find(uint64_t address, bool inside) {
    auto next = tables.memory.upper_bound(address);
    if (next != tables.memory.begin()) {
        Block &block = std::prev(next)->second;
        if (inside ? block.on_cpu(address) : block.base == address)
            return &block;
    }
    if (!inside) {
        const auto [first, end] = tables.registered.equal_range(address);
        return first != end && std::next(first) == end ? &first->second : nullptr;
    }
    for (auto &[base, block] : tables.registered)
        if (block.on_cpu(address) || block.on_gpu(address))
            return &block;
    return nullptr;
}

// The end of what `gpu` reaches from `address` on, as far as one lookup tells; `address` if nothing.
uint64_t reach(unsigned gpu, uint64_t address) {
    const uint32_t bit = 1u << gpu;
    uint64_t end = address;
    auto extend = [&](const Block &block) {
        if ((block.mapped & bit) && block.on_gpu(address))
            end = std::max(end, block.gpu_base() + block.bytes);
    };
    auto next = tables.memory.upper_bound(address);
    if (next != tables.memory.begin())
        extend(std::prev(next)->second);
    for (const auto &[base, block] : tables.registered)
        extend(block);
    return end;
}

} // namespace

uint32_t all_gpus() { return (1u << options().gpus) - 1; }
bool is_gpu_node(uint32_t node) { return node >= 1 && node <= options().gpus; }
size_t gpu_alignment(size_t bytes) { return bytes >= large_page ? large_page : page; }
size_t spanned_pages(uint64_t address, size_t bytes) { return round_to_pages(address % page + bytes); }
size_t round_to_pages(size_t bytes) { return (bytes + page - 1) & ~(page - 1); }

void *map_aligned(size_t bytes, size_t alignment, int fd, void *wanted) {
    const int backing = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    if (wanted) {
        void *mapped = mmap(wanted, bytes, PROT_READ | PROT_WRITE, backing | MAP_FIXED_NOREPLACE, fd, 0);
        return mapped == MAP_FAILED ? nullptr : mapped;
    }
    // Reserve more than is needed, place the memory at the aligned address, give back the rest.
    const size_t reserved = bytes + alignment;
    void *start = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return nullptr;
    const uint64_t low = reinterpret_cast<uint64_t>(start);
    const uint64_t base = (low + alignment - 1) & ~(alignment - 1);
    void *mapped = mmap(reinterpret_cast<void *>(base), bytes, PROT_READ | PROT_WRITE, backing | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED) {
        munmap(start, reserved);
        return nullptr;
    }
    if (base > low)
        munmap(start, base - low);
    if (low + reserved > base + bytes)
        munmap(reinterpret_cast<void *>(base + bytes), low + reserved - base - bytes);
    return mapped;
}

void set_mapped(Block &block, uint32_t gpus) {
    block.mapped = gpus;
    block.mapped_nodes.clear();
    for (unsigned gpu = 0; gpu < options().gpus; ++gpu)
        if (gpus >> gpu & 1)
            block.mapped_nodes.push_back(node_of(gpu));
}

void *make_internal(size_t bytes, uint32_t mapped) {
    Block block;
    block.kind = Block_kind::internal;
    block.bytes = round_to_pages(bytes);
    void *memory = map_aligned(block.bytes, page, -1, nullptr);
    if (!memory)
        return nullptr;
    block.base = reinterpret_cast<uint64_t>(memory);
    set_mapped(block, mapped);
    add_block(std::move(block));
    return memory;
}

void add_block(Block block) {
    const std::unique_lock lock(tables.mutex);
    const uint64_t base = block.base;
    if (block.kind == Block_kind::registered) {
        tables.reserved += block.reserved;
        tables.registered.emplace(base, std::move(block));
    } else {
        tables.memory.insert_or_assign(base, std::move(block));
    }
}

bool with_block(uint64_t address, bool inside, const std::function<void(Block &)> &use) {
    if (forked())
        return false;
    const std::unique_lock lock(tables.mutex);
    Block *block = find(address, inside);
    if (block)
        use(*block);
    return block != nullptr;
}

bool with_registration(uint64_t address, size_t bytes, const std::function<void(Block &)> &use) {
    if (forked())
        return false;
    const std::unique_lock lock(tables.mutex);
    for (auto [range, end] = tables.registered.equal_range(address); range != end; ++range) {
        if (range->second.bytes == bytes) {
            use(range->second);
            return true;
        }
    }
    return false;
}

void remove_block(uint64_t base) {
    Block block;
    {
        const std::unique_lock lock(tables.mutex);
        if (const auto own = tables.memory.find(base); own != tables.memory.end()) {
            block = std::move(own->second);
            tables.memory.erase(own);
            // Under the lock: the range may be allocated again as soon as it is unmapped.
            munmap(reinterpret_cast<void *>(block.base), block.bytes);
        } else if (const auto range = tables.registered.find(base); range != tables.registered.end()) {
            block = std::move(range->second);
            tables.registered.erase(range);
            tables.reserved -= block.reserved;
            if (block.alias)
                munmap(reinterpret_cast<void *>(block.alias & ~(page - 1)), spanned_pages(block.base, block.bytes));
            return;
        }
    }
    if (block.fd >= 0)
        close(block.fd);
    if (block.object)
        drop(block.object);
}

uint64_t cpu_address(uint64_t gpu_address) {
    if (tables.reserved == 0)
        return gpu_address;
    const std::shared_lock lock(tables.mutex);
    for (const auto &[base, block] : tables.registered)
        if (block.reserved && block.on_gpu(gpu_address))
            return gpu_address - block.alias + block.base;
    return gpu_address;
}

bool accessible(unsigned gpu, uint64_t address, size_t bytes) {
    const std::shared_lock lock(tables.mutex);
    const uint64_t end = address + bytes;
    if (end < address)
        return false;
    while (address < end) {
        const uint64_t next = reach(gpu, address);
        if (next == address)
            return false;
        address = next;
    }
    return true;
}

} // namespace simnode
