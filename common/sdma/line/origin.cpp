// SPDX-License-Identifier: BSD-3-Clause
#include "origin.hpp"

namespace sdma::line {

sdma_reason_t locate(memory::Memory &memory, gpu::Runtime &runtime, const void *address, size_t bytes, Origin &origin) {
    const gpu::Range range = runtime.classify(address);
    if (range.kind == gpu::Memory_kind::unsupported)
        return SDMA_REASON_memory_kind;
    if (range.kind != gpu::Memory_kind::device)
        return memory.pins().acquire(runtime, address, bytes, origin.pieces);
    const auto offset = static_cast<size_t>(static_cast<const char *>(address) - static_cast<char *>(range.base));
    if (bytes > range.bytes - offset)
        return SDMA_REASON_too_large;
    origin.device = range.device;
    origin.pieces.push_back({static_cast<const char *>(address), bytes, reinterpret_cast<uint64_t>(address), nullptr});
    return SDMA_REASON_none;
}

std::unique_ptr<Region> Region::make(op::Context &context, void *base, size_t bytes, bool exportable,
                                     sdma_reason_t &reason) {
    reason = SDMA_REASON_no_memory;
    if (!context.memory().create())
        return nullptr;
    reason = SDMA_REASON_no_runtime;
    gpu::Runtime *runtime = context.memory().runtime(reason);
    if (!runtime)
        return nullptr;
    reason = SDMA_REASON_empty;
    if (bytes == 0)
        return nullptr;
    std::unique_ptr<Region> region(new Region(context, *runtime));
    reason = exportable ? region->export_it(static_cast<char *>(base), bytes)
                        : locate(context.memory(), *runtime, base, bytes, region->origin_);
    return reason == SDMA_REASON_none ? std::move(region) : nullptr;
}

sdma_reason_t Region::export_it(const char *base, size_t bytes) {
    const gpu::Range range = runtime_.classify(base);
    if (range.kind == gpu::Memory_kind::host || range.kind == gpu::Memory_kind::pinned_host)
        return SDMA_REASON_host_buffer;
    if (range.kind != gpu::Memory_kind::device)
        return SDMA_REASON_memory_kind;
    key_.offset = static_cast<uint64_t>(base - static_cast<char *>(range.base));
    if (bytes > range.bytes - key_.offset)
        return SDMA_REASON_too_large;
    const sdma_reason_t reason = context_.memory().registry().acquire(runtime_, range, registration_);
    if (reason != SDMA_REASON_none)
        return reason;
    const memory::Identity &own = context_.memory().identity();
    key_.pid = own.pid;
    key_.start_time = own.start_time;
    key_.instance = own.instance;
    key_.registration = registration_.id;
    key_.generation = registration_.generation;
    key_.bytes = bytes;
    return SDMA_REASON_none;
}

void Region::retire() { context_.memory().registry().retire(registration_.id); }

bool Region::retired() const { return context_.memory().registry().address(registration_.id) == nullptr; }

std::chrono::milliseconds Region::retired_for() const {
    return context_.memory().registry().retired_for(registration_.id);
}

bool Region::reachable() const { return context_.memory().registry().reachable(registration_.id); }

Region::~Region() {
    context_.memory().pins().release(runtime_, origin_.pieces);
    if (registration_.id != 0)
        context_.memory().registry().release(registration_);
}

} // namespace sdma::line
