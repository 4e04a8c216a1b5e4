// SPDX-License-Identifier: BSD-3-Clause
#include "proxy_decode.hpp"

namespace sdma::engine::proxy {

namespace {

uint64_t wide(const uint32_t *low) { return static_cast<uint64_t>(low[1]) << 32 | low[0]; }

Command nop(const uint32_t *p) {
    if (p[0] & 0xc000ff00u)
        return {};
    return {.action = Action::skip, .dwords = 1 + (p[0] >> 16)};
}

Command linear_copy(const uint32_t *p) {
    constexpr uint32_t refused_flags = 0xeff70000u; // all but the hints at bits 19 and 28
    constexpr uint32_t swap_fields = 0x03030000u;
    if ((p[0] & refused_flags) || (p[1] & 0xc0000000u) || (p[2] & swap_fields))
        return {};
    return {.action = Action::copy,
            .dwords = 7,
            .address = wide(p + 5),
            .source = wide(p + 3),
            .bytes = static_cast<uint64_t>(p[1]) + 1};
}

Command fence(const uint32_t *p) {
    if (p[1] & 3)
        return {};
    return {.action = Action::store, .dwords = 4, .address = wide(p + 1), .value = p[3]};
}

Command atomic(const uint32_t *p) {
    constexpr uint32_t add64 = 47, add64_no_return = 111;
    constexpr uint32_t loop_and_trusted = 0x00050000u;
    const uint32_t operation = p[0] >> 25;
    if ((operation != add64 && operation != add64_no_return) || (p[0] & loop_and_trusted) || (p[1] & 7))
        return {};
    return {.action = Action::add, .dwords = 8, .address = wide(p + 1), .value = wide(p + 3)};
}

} // namespace

Command decode(const uint32_t *packet, size_t available) {
    if (available == 0)
        return {};
    struct Form {
        uint32_t operation; // operation and sub-operation: the low half of the header
        uint32_t dwords;    // needed before the form's reader may look
        Command (*read)(const uint32_t *);
    };
    static constexpr Form forms[] = {{0, 1, nop}, {1, 7, linear_copy}, {5, 4, fence}, {10, 8, atomic}};
    for (const Form &form : forms)
        if ((packet[0] & 0xffffu) == form.operation && available >= form.dwords) {
            const Command command = form.read(packet);
            return command.dwords <= available ? command : Command{};
        }
    return {};
}

} // namespace sdma::engine::proxy
