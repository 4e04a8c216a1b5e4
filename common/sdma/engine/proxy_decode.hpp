// SPDX-License-Identifier: BSD-3-Clause
//
// The proxy's own reading of SDMA packets. It shares nothing with the encoder in packet/, so that
// a mistake in either shows as a refused packet or as wrong bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sdma::engine::proxy {

enum class Action : uint8_t {
    refuse, // not a packet that the proxy serves, or cut off by the end of what is published
    skip,   // NOP
    copy,   // `bytes` from `source` to `address`
    add,    // `value` to the 64-bit word at `address`
    store   // the low 32 bits of `value` to `address`
};

struct Command {
    Action action = Action::refuse;
    uint32_t dwords = 0; // length in the ring
    uint64_t address = 0;
    uint64_t source = 0;
    uint64_t bytes = 0;
    uint64_t value = 0;
};

// The packet that starts at `packet`, of which `available` dwords may be read. Pure. Layouts and
// field widths: Linux drivers/gpu/drm/amd/amdgpu/vega10_sdma_pkt_open.h; the count of a linear copy
// is 30 bits wide on gfx90a and later. Cache hints of later generations are accepted and ignored:
// the runtime's copies are coherent. A flag that changes what moves (broadcast, swap, encryption,
// loops) is refused.
Command decode(const uint32_t *packet, size_t available);

} // namespace sdma::engine::proxy
