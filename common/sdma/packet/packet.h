// SPDX-License-Identifier: BSD-3-Clause
//
// SDMA packets of the v4 engines (gfx90a, gfx942, gfx950). Layouts: Linux' vega10_sdma_pkt_open.h;
// the 30-bit copy count of these parts: ROCm's copy-engine capability table. Plain constexpr
// functions, the same for the host, amdgcn (plain clang) and nvcc.
//
// Every size field holds the value minus one, so a copy of nothing would encode 1 GiB: callers ask
// the *_ok function first, always.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define SDMA_ANYWHERE __host__ __device__
#elif defined(__HIP__)
#define SDMA_ANYWHERE __attribute__((host)) __attribute__((device))
#else
#define SDMA_ANYWHERE
#endif

namespace sdma::packet {

template <uint32_t N> struct Packet {
    uint32_t dw[N];
    static constexpr uint32_t dwords = N;
    SDMA_ANYWHERE static constexpr uint32_t size() { return N * 4; } // bytes
};

using Nop = Packet<1>;
using Copy = Packet<7>;
using Atomic = Packet<8>;
using Fence = Packet<4>;

// The field would allow 2^30, but copies of 256 MiB and more have hung MI355X (rocm-systems pull
// requests 9927, 10419 and 10420), and RCCL stops at 128 MiB as well.
inline constexpr uint64_t copy_limit = uint64_t{128} << 20;
inline constexpr uint32_t nop_limit = 0x4000; // dwords; the count field has 14 bits

SDMA_ANYWHERE constexpr uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
SDMA_ANYWHERE constexpr uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// Bytes from `address` on that stay below 2^64; address 0 is nobody's.
SDMA_ANYWHERE constexpr bool range_ok(uint64_t address, uint64_t bytes) {
    return address != 0 && bytes - 1 <= ~uint64_t{0} - address;
}

SDMA_ANYWHERE constexpr bool nop_ok(uint32_t dwords) { return dwords >= 1 && dwords <= nop_limit; }
SDMA_ANYWHERE constexpr bool copy_ok(uint64_t src, uint64_t dst, uint64_t bytes) {
    return bytes >= 1 && bytes <= copy_limit && range_ok(src, bytes) && range_ok(dst, bytes);
}
SDMA_ANYWHERE constexpr bool atomic_ok(uint64_t address) { return address != 0 && address % 8 == 0; }
SDMA_ANYWHERE constexpr bool fence_ok(uint64_t address) { return address != 0 && address % 4 == 0; }

// Header of a NOP that covers `dwords` dwords, itself included; what the others hold is ignored.
SDMA_ANYWHERE constexpr Nop nop(uint32_t dwords) { return {{(dwords - 1) << 16}}; }

// Byte granular. DW2 (endian swap, host attributes) stays 0: other values cost xGMI bandwidth.
SDMA_ANYWHERE constexpr Copy copy(uint64_t src, uint64_t dst, uint64_t bytes) {
    constexpr uint32_t op = 1, linear = 0;
    return {{op | linear << 8, low(bytes - 1), 0, low(src), high(src), low(dst), high(dst)}};
}

// 64-bit add; the returning form, which every public library uses. Compare operand and loop unused.
SDMA_ANYWHERE constexpr Atomic atomic_add(uint64_t address, uint64_t operand) {
    constexpr uint32_t op = 10, add_rtn_64 = 47;
    return {{op | add_rtn_64 << 25, low(address), high(address), low(operand), high(operand), 0, 0, 0}};
}

// 32-bit store after everything before it in the queue.
SDMA_ANYWHERE constexpr Fence fence(uint64_t address, uint32_t data) {
    constexpr uint32_t op = 5;
    return {{op, low(address), high(address), data}};
}

} // namespace sdma::packet
