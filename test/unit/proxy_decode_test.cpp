// SPDX-License-Identifier: BSD-3-Clause
//
// The proxy's decoder: words written down by hand from the hardware's layout.
#include "common/sdma/engine/proxy_decode.hpp"

#include <array>

#include <gtest/gtest.h>

namespace {

using namespace sdma;
using engine::proxy::Action;
using engine::proxy::decode;

TEST(Proxy_decode, serves_the_packets_of_the_design) {
    const std::array<uint32_t, 7> copy{1, 0xfff, 0, 0x11223344, 0x5566, 0x99aabbcc, 0x7788};
    auto c = decode(copy.data(), copy.size());
    EXPECT_EQ(c.action, Action::copy);
    EXPECT_EQ(c.dwords, 7u);
    EXPECT_EQ(c.bytes, 4096u);
    EXPECT_EQ(c.source, 0x556611223344u);
    EXPECT_EQ(c.address, 0x778899aabbccu);

    const std::array<uint32_t, 4> fence{5, 0x1000, 0x7, 42};
    c = decode(fence.data(), fence.size());
    EXPECT_EQ(c.action, Action::store);
    EXPECT_EQ(c.dwords, 4u);
    EXPECT_EQ(c.address, 0x700001000u);
    EXPECT_EQ(c.value, 42u);

    const std::array<uint32_t, 8> atomic{0x5e00000a, 0x2008, 0x7, 3, 1, 0, 0, 0};
    c = decode(atomic.data(), atomic.size());
    EXPECT_EQ(c.action, Action::add);
    EXPECT_EQ(c.dwords, 8u);
    EXPECT_EQ(c.address, 0x700002008u);
    EXPECT_EQ(c.value, 0x100000003u);

    const std::array<uint32_t, 3> nop{0x00020000, 0xffffffff, 0xffffffff};
    EXPECT_EQ(decode(nop.data(), nop.size()).action, Action::skip);
    EXPECT_EQ(decode(nop.data(), nop.size()).dwords, 3u);
    const uint32_t zero = 0;
    EXPECT_EQ(decode(&zero, 1).dwords, 1u);
}

TEST(Proxy_decode, takes_the_largest_copy_and_hints) {
    std::array<uint32_t, 7> copy{1, 0x3fffffff, 0, 0, 1, 0, 2};
    EXPECT_EQ(decode(copy.data(), 7).bytes, size_t{1} << 30);
    copy[0] = 0x10000001; // not-posted hint of gfx125x
    copy[2] = 0x0c0c0000; // scopes of gfx125x
    EXPECT_EQ(decode(copy.data(), 7).action, Action::copy);
    const std::array<uint32_t, 4> fence{0x00030005, 0x1000, 0, 1}; // memory type of gfx10
    EXPECT_EQ(decode(fence.data(), 4).action, Action::store);
}

TEST(Proxy_decode, refuses_everything_else) {
    const std::array<std::array<uint32_t, 8>, 17> packets{{
        {0x00000002, 0x1000, 0, 0, 7},              // WRITE
        {0x00000004, 0x1000, 0, 1, 0, 0},           // INDIRECT
        {0x00000006, 1},                            // TRAP
        {0xb0000008, 0x1000, 0, 1, 1, 0xfff0001},   // POLL
        {0x8000000b, 0x1000, 0, 0, 7},              // FILL
        {0x0000020d, 0x1000, 0},                    // TIMESTAMP
        {0x00000111, 0, 0, 0, 0},                   // GCR
        {0x80000401, 0, 1, 0, 0, 0, 0, 1},          // sub-window copy
        {0x08000001, 15, 0, 0, 1, 0, 2, 0},         // broadcast
        {0x00040001, 15, 0, 0, 1, 0, 2, 0},         // trusted memory zone
        {0x00000001, 0x40000000, 0, 0, 1, 0, 2, 0}, // count too wide
        {0x00000001, 15, 0x00010000, 0, 1, 0, 2},   // endian swap
        {0x00000005, 0x1002, 0, 1},                 // fence, unaligned
        {0x1e00000a, 0x1000, 0, 1},                 // 32-bit add
        {0x5e01000a, 0x1000, 0, 1},                 // atomic that loops
        {0x5e00000a, 0x1004, 0, 1},                 // atomic, unaligned
        {0x40000000, 0, 0, 0},                      // NOP with stray bits
    }};
    for (const auto &packet : packets) {
        EXPECT_EQ(decode(packet.data(), packet.size()).action, Action::refuse) << std::hex << packet[0];
        EXPECT_EQ(decode(packet.data(), packet.size()).dwords, 0u);
    }
}

TEST(Proxy_decode, never_reads_past_what_is_published) {
    const std::array<uint32_t, 8> copy{1, 15, 0, 0, 1, 0, 2}, fence{5, 0x1000, 0, 1}, atomic{0x5e00000a, 0x1000},
        nop{0x00070000};
    EXPECT_EQ(decode(copy.data(), 0).action, Action::refuse);
    EXPECT_EQ(decode(copy.data(), 6).action, Action::refuse);
    EXPECT_EQ(decode(fence.data(), 3).action, Action::refuse);
    EXPECT_EQ(decode(atomic.data(), 7).action, Action::refuse);
    EXPECT_EQ(decode(nop.data(), 7).action, Action::refuse);
    EXPECT_EQ(decode(nop.data(), 8).action, Action::skip);
}

} // namespace
