// SPDX-License-Identifier: BSD-3-Clause
#include "pins.hpp"

#include <algorithm>

#include <unistd.h>

#include "../base/base.hpp"

namespace sdma::memory {

sdma_reason_t Pins::acquire(gpu::Runtime &runtime, const void *address, size_t bytes, std::vector<Piece> &pieces) {
    std::lock_guard lock(mutex_);
    const char *at = static_cast<const char *>(address), *end = at + bytes;
    const size_t before = pieces.size();
    while (at < end) {
        Piece piece;
        if (sdma_reason_t reason = cover(runtime, at, end, piece); reason != SDMA_REASON_none) {
            for (size_t i = before; i < pieces.size(); i++)
                if (pieces[i].pin)
                    release_locked(runtime, *pieces[i].pin);
            pieces.resize(before);
            return reason;
        }
        pieces.push_back(piece);
        at += piece.bytes;
    }
    return SDMA_REASON_none;
}

// The piece that starts at `at`.
sdma_reason_t Pins::cover(gpu::Runtime &runtime, const char *at, const char *end, Piece &piece) {
    const auto make_piece = [&](const char *base, size_t bytes, const char *device_base) {
        piece.address = at;
        piece.bytes = static_cast<size_t>(std::min(end, base + bytes) - at);
        piece.device_address = reinterpret_cast<uint64_t>(device_base + (at - base));
    };
    auto next = pins_.upper_bound(at);
    if (next != pins_.begin()) {
        Pin &pin = std::prev(next)->second;
        if (at < pin.base + pin.bytes) {
            make_piece(pin.base, pin.bytes, pin.device_base);
            piece.pin = &pin;
            pin.uses++;
            return SDMA_REASON_none;
        }
    }
    const gpu::Range range = runtime.classify(at);
    if (range.kind == gpu::Memory_kind::pinned_host) {
        const void *device_base = range.device_base ? range.device_base : range.base;
        make_piece(static_cast<char *>(range.base), range.bytes, static_cast<const char *>(device_base));
        return SDMA_REASON_none;
    }
    if (range.kind != gpu::Memory_kind::host)
        return SDMA_REASON_memory_kind;

    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    Pin pin;
    pin.base = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(at) & ~(page - 1));
    pin.bytes = (reinterpret_cast<uintptr_t>(end) - reinterpret_cast<uintptr_t>(pin.base) + page - 1) & ~(page - 1);
    if (next != pins_.end())
        pin.bytes = std::min(pin.bytes, static_cast<size_t>(next->first - pin.base));
    void *device_base = nullptr;
    const gpu::Status status = runtime.pin(pin.base, pin.bytes, device_base);
    if (status != gpu::Status::ok) {
        log(1, "%zu bytes of host memory at %p cannot be pinned: %s", pin.bytes, static_cast<void *>(pin.base),
            gpu::to_string(status));
        return SDMA_REASON_pin_failed;
    }
    pin.device_base = static_cast<char *>(device_base);
    pin.uses = 1;
    piece.pin = &pins_.emplace(pin.base, pin).first->second;
    make_piece(pin.base, pin.bytes, pin.device_base);
    return SDMA_REASON_none;
}

void Pins::release(gpu::Runtime &runtime, const std::vector<Piece> &pieces) {
    std::lock_guard lock(mutex_);
    for (const Piece &piece : pieces)
        if (piece.pin)
            release_locked(runtime, *piece.pin);
}

void Pins::release_locked(gpu::Runtime &runtime, Pin &pin) {
    if (--pin.uses > 0)
        return;
    runtime.unpin(pin.base);
    pins_.erase(pin.base);
}

} // namespace sdma::memory
