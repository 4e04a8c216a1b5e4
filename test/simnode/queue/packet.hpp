// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated engine's view of SDMA packets. Written from the public packet headers of Linux;
// shares nothing with the product's encoder or with the proxy's decoder, so that a mistake shows
// as a disagreement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simnode {

// Packet layouts differ by engine generation: gfx9 (4.x), gfx10 (5.x), gfx11 (6.x).
enum class Generation : uint8_t { v4, v5, v6 };
Generation generation_of(const std::string &gfx);

enum class Op : uint8_t {
    nop,
    copy,
    copy_rect,
    write,
    fence,
    trap,
    poll,
    hdp_flush,
    atomic,
    fill,
    timestamp,
    cache,
    count // how many there are
};
const char *to_string(Op op);

// One side of a sub-window copy, in elements.
struct Window {
    uint32_t x, y, z;
    uint32_t pitch;
    uint32_t slice; // 0: one plane
};

struct Packet {
    Op op = Op::nop;
    uint32_t dwords = 0;
    uint64_t source = 0;
    uint64_t address = 0;        // destination or operand
    uint64_t second_address = 0; // second destination of a broadcast copy, else 0
    uint64_t bytes = 0;          // copy, write, fill
    uint64_t data = 0;           // fence, trap context, atomic operand, poll reference, fill pattern
    uint64_t compare = 0;        // atomic compare-and-swap
    uint32_t mask = 0;           // poll
    uint32_t function = 0;       // poll comparison, atomic TC_OP, fill unit in bytes
    uint32_t retry = 0;          // poll: how often more; 0xfff = for ever
    uint32_t element = 1;        // copy_rect: bytes per element
    Window from{}, to{};         // copy_rect
    uint32_t rect[3]{};          // copy_rect: elements per row, rows, planes
};

// What is wrong with the packet at `dwords`, of which `available` may be used (up to the ring
// end and the doorbell), or "" with `packet` filled in. Reads at most 16 dwords (no payload); checks
// everything that needs no memory.
std::string decode(Generation generation, const uint32_t *dwords, size_t available, Packet &packet);

// Bytes that an atomic with this TC_OP works on, 0 if the engine has no such operation.
unsigned atomic_width(uint32_t tc_op);

// For traces: "COPY src=0x.. dst=0x.. bytes=..".
std::string describe(const Packet &packet);

} // namespace simnode
