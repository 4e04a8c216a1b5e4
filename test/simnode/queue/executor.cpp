// SPDX-License-Identifier: BSD-3-Clause
#include "executor.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "idle.hpp"
#include "test/simnode/simnode.hpp"

namespace simnode {
namespace {

template <typename T> T *at(uint64_t address) {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(cpu_address(address)));
}

template <typename T> void update(const Packet &packet) {
    using Signed = std::make_signed_t<T>;
    T *word = at<T>(packet.address);
    T operand = static_cast<T>(packet.data), old = __atomic_load_n(word, __ATOMIC_RELAXED), value = 0;
    unsigned base = sizeof(T) == 8 ? 0x20 : 0;
    do {
        switch ((packet.function & ~0x40u) - base) {
        case 0x07:
            value = operand;
            break;
        case 0x08:
            value = old == static_cast<T>(packet.compare) ? operand : old;
            break;
        case 0x0f:
            value = old + operand;
            break;
        case 0x10:
            value = old - operand;
            break;
        case 0x11:
            value = static_cast<Signed>(operand) < static_cast<Signed>(old) ? operand : old;
            break;
        case 0x12:
            value = std::min(old, operand);
            break;
        case 0x13:
            value = static_cast<Signed>(operand) > static_cast<Signed>(old) ? operand : old;
            break;
        case 0x14:
            value = std::max(old, operand);
            break;
        case 0x15:
            value = old & operand;
            break;
        case 0x16:
            value = old | operand;
            break;
        case 0x17:
            value = old ^ operand;
            break;
        case 0x18:
            value = old >= operand ? 0 : old + 1;
            break; // INC wraps at the operand
        default:
            value = old == 0 || old > operand ? operand : old - 1;
            break; // DEC
        }
    } while (!__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

bool holds(const Packet &packet) {
    uint32_t value = __atomic_load_n(at<uint32_t>(packet.address), __ATOMIC_ACQUIRE) & packet.mask;
    uint32_t reference = static_cast<uint32_t>(packet.data);
    switch (packet.function) {
    case 0:
        return true;
    case 1:
        return value < reference;
    case 2:
        return value <= reference;
    case 3:
        return value == reference;
    case 4:
        return value != reference;
    case 5:
        return value >= reference;
    default:
        return value > reference;
    }
}

uint64_t offset(const Window &window, uint32_t element, uint64_t x, uint64_t y, uint64_t z) {
    return ((window.z + z) * window.slice + (window.y + y) * window.pitch + window.x + x) * element;
}

// Bytes from the base address to the end of the last row.
uint64_t extent(const Packet &p, const Window &window) {
    return offset(window, p.element, p.rect[0], p.rect[1] - 1, p.rect[2] - 1);
}

void copy_rows(const Packet &p) {
    for (uint32_t z = 0; z < p.rect[2]; z++)
        for (uint32_t y = 0; y < p.rect[1]; y++)
            memmove(at<void>(p.address + offset(p.to, p.element, 0, y, z)),
                    at<void>(p.source + offset(p.from, p.element, 0, y, z)), size_t{p.rect[0]} * p.element);
}

void fill(const Packet &p) {
    if (p.function == 1)
        memset(at<void>(p.address), static_cast<int>(p.data & 0xff), p.bytes);
    else
        std::fill_n(at<uint32_t>(p.address), p.bytes / 4, static_cast<uint32_t>(p.data));
}

} // namespace

uint64_t gpu_clock() {
    // The thunk's hsaKmtGetClockCounters: a 100 MHz clock that starts with CLOCK_MONOTONIC.
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec)) / 10;
}

Executor::Executor(unsigned gpu, Chaos &chaos, std::function<bool()> stopped)
    : gpu_(gpu), chaos_(chaos), stopped_(std::move(stopped)) {}

std::string Executor::refuse_inaccessible(const Packet &p) const {
    std::string error;
    auto need = [&](const char *what, uint64_t address, uint64_t bytes) {
        if (!error.empty() || (address + bytes >= address && accessible(gpu_, address, bytes)))
            return;
        char text[160];
        snprintf(text, sizeof text, "%s %s 0x%" PRIx64 " + %" PRIu64 " bytes is not accessible to the gpu",
                 to_string(p.op), what, address, bytes);
        error = text;
    };
    switch (p.op) {
    case Op::copy:
        need("source", p.source, p.bytes);
        need("destination", p.address, p.bytes);
        if (p.second_address)
            need("second destination", p.second_address, p.bytes);
        break;
    case Op::copy_rect:
        need("source", p.source, extent(p, p.from));
        need("destination", p.address, extent(p, p.to));
        break;
    case Op::write:
    case Op::fill:
        need("destination", p.address, p.bytes);
        break;
    case Op::fence:
    case Op::poll:
        need("word", p.address, 4);
        break;
    case Op::atomic:
        need("word", p.address, atomic_width(p.function));
        break;
    case Op::timestamp:
        need("target", p.address, 8);
        break;
    default:
        break;
    }
    return error;
}

void Executor::move(const Held &held) const {
    const Packet &p = held.packet;
    if (p.op == Op::fill)
        return fill(p);
    if (p.op == Op::copy_rect)
        return copy_rows(p);
    const void *source = held.payload.empty() ? at<void>(p.source) : held.payload.data();
    memmove(at<void>(p.address), source, p.bytes);
    if (p.second_address)
        memmove(at<void>(p.second_address), source, p.bytes);
}

void Executor::hold_or_move(const Packet &packet, const uint32_t *dwords, bool chaotic) {
    Held held{packet, {}};
    constexpr uint64_t early_limit = 64 << 10; // what a copy's source may cost when read early
    if (packet.op == Op::write) {
        auto payload = reinterpret_cast<const uint8_t *>(dwords + 4);
        held.payload.assign(payload, payload + packet.bytes);
    } else if (packet.op == Op::copy && chaotic && packet.bytes <= early_limit && chaos_.one_in(3)) {
        // Source read now, bytes land late; else the source is read late, too.
        held.payload.assign(at<uint8_t>(packet.source), at<uint8_t>(packet.source) + packet.bytes);
    }
    if (chaotic)
        held_.push_back(std::move(held));
    else
        move(held);
}

std::string Executor::land() {
    std::string error;
    while (!held_.empty()) {
        if (held_.size() > 1 && chaos_.on())
            std::swap(held_[chaos_.pick(held_.size())], held_.back());
        Held held = std::move(held_.back());
        held_.pop_back();
        std::string gone = refuse_inaccessible(held.packet);
        if (gone.empty())
            move(held);
        else
            error = gone + " any more: unmapped while the packet was in flight";
    }
    return error;
}

void Executor::poll(const Packet &packet) const {
    Backoff backoff;
    for (uint32_t left = packet.retry; !holds(packet) && !stopped_(); backoff.pause())
        if (packet.retry != 0xfff && left-- == 0)
            return;
}

std::string Executor::signal(const Packet &packet, bool chaotic) {
    // The engine may stop before the bytes arrive, or between them and the signal.
    bool before = chaotic && chaos_.one_in(2);
    if (before)
        chaos_.delay();
    std::string error = land();
    if (!error.empty())
        return error;
    if (chaotic && !before)
        chaos_.delay();
    if (packet.op == Op::fence)
        __atomic_store_n(at<uint32_t>(packet.address), static_cast<uint32_t>(packet.data), __ATOMIC_RELEASE);
    else if (atomic_width(packet.function) == 8)
        update<uint64_t>(packet);
    else
        update<uint32_t>(packet);
    return {};
}

std::string Executor::execute(const Packet &packet, const uint32_t *dwords) {
    std::string error = refuse_inaccessible(packet);
    if (!error.empty())
        return error;
    bool chaotic = chaos_.on();
    if (!chaotic && !held_.empty()) { // chaos was switched off meanwhile
        error = land();
        if (!error.empty())
            return error;
    }
    switch (packet.op) {
    case Op::copy:
    case Op::copy_rect:
    case Op::write:
    case Op::fill:
        hold_or_move(packet, dwords, chaotic);
        return {};
    case Op::fence:
    case Op::atomic:
        return signal(packet, chaotic);
    case Op::poll:
        poll(packet);
        return {};
    case Op::trap:
        set_event(static_cast<uint32_t>(packet.data));
        return {};
    case Op::timestamp:
        __atomic_store_n(at<uint64_t>(packet.address), gpu_clock(), __ATOMIC_RELEASE);
        return {};
    default:
        return {};
    }
}

} // namespace simnode
