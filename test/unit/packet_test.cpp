// SPDX-License-Identifier: BSD-3-Clause
//
// Packets against dwords written down from the public layouts, and field by field with an
// extractor that shares nothing with the encoders.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/sdma/packet/packet.h"

namespace {

using namespace sdma::packet;

template <uint32_t N> std::vector<uint32_t> dwords(const Packet<N> &packet) { return {packet.dw, packet.dw + N}; }

// Bits [high:low] of dword `index`.
uint64_t bits(const std::vector<uint32_t> &packet, size_t index, unsigned high, unsigned low) {
    uint64_t dword = packet.at(index), value = 0;
    for (unsigned bit = high + 1; bit-- > low;) {
        value = value * 2 + (dword / (uint64_t{1} << bit)) % 2;
    }
    return value;
}

uint64_t pair(const std::vector<uint32_t> &packet, size_t index) {
    return bits(packet, index, 31, 0) + bits(packet, index + 1, 31, 0) * 0x100000000ull;
}

// Every bit of dword `index` outside [high:low] ranges in `known` is 0.
void expect_zero_outside(const std::vector<uint32_t> &packet, size_t index,
                         const std::vector<std::pair<unsigned, unsigned>> &known) {
    for (unsigned bit = 0; bit < 32; ++bit) {
        bool inside = false;
        for (auto [high, low] : known) {
            inside = inside || (bit <= high && bit >= low);
        }
        EXPECT_TRUE(inside || bits(packet, index, bit, bit) == 0) << "dword " << index << " bit " << bit;
    }
}

const std::vector<uint64_t> addresses = {
    1, 8, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x123456789abcdef0, 0x00007f0012345678, 0xfffffffff0000000};

TEST(Packet, golden_dwords) {
    EXPECT_EQ(dwords(nop(1)), (std::vector<uint32_t>{0}));
    EXPECT_EQ(dwords(nop(0x4000)), (std::vector<uint32_t>{0x3fff0000}));
    EXPECT_EQ(dwords(copy(0x1122334455667788, 0x99aabbccddeeff00, 0x1000)),
              (std::vector<uint32_t>{0x00000001, 0xfff, 0, 0x55667788, 0x11223344, 0xddeeff00, 0x99aabbcc}));
    EXPECT_EQ(dwords(atomic_add(0x1122334455667788, 0x99aabbccddeeff01)),
              (std::vector<uint32_t>{0x5e00000a, 0x55667788, 0x11223344, 0xddeeff01, 0x99aabbcc, 0, 0, 0}));
    EXPECT_EQ(dwords(fence(0x1122334455667788, 0xcafebabe)),
              (std::vector<uint32_t>{0x00000005, 0x55667788, 0x11223344, 0xcafebabe}));
}

TEST(Packet, sizes) {
    EXPECT_EQ(Nop::size(), 4u);
    EXPECT_EQ(Copy::size(), 28u);
    EXPECT_EQ(Atomic::size(), 32u);
    EXPECT_EQ(Fence::size(), 16u);
    EXPECT_EQ(sizeof(Copy), Copy::size());
    EXPECT_EQ(sizeof(Atomic), Atomic::size());
}

TEST(Packet, usable_at_compile_time) {
    static_assert(copy(4096, 8192, 32).dw[1] == 31);
    static_assert(atomic_add(64, 1).dw[3] == 1);
    static_assert(!copy_ok(4096, 8192, 0));
}

TEST(Packet, copy_fields) {
    for (uint64_t src : addresses) {
        for (uint64_t dst : addresses) {
            for (uint64_t bytes :
                 {uint64_t{1}, uint64_t{31}, uint64_t{4} << 20, (uint64_t{4} << 20) - 32, copy_limit}) {
                auto packet = dwords(copy(src, dst, bytes));
                ASSERT_EQ(bits(packet, 0, 7, 0), 1u);
                ASSERT_EQ(bits(packet, 0, 15, 8), 0u);
                expect_zero_outside(packet, 0, {{15, 0}});
                ASSERT_EQ(bits(packet, 1, 29, 0), bytes - 1);
                expect_zero_outside(packet, 1, {{29, 0}});
                expect_zero_outside(packet, 2, {});
                ASSERT_EQ(pair(packet, 3), src);
                ASSERT_EQ(pair(packet, 5), dst);
            }
        }
    }
}

TEST(Packet, atomic_fields) {
    for (uint64_t address : addresses) {
        for (uint64_t operand : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 32}) {
            auto packet = dwords(atomic_add(address, operand));
            ASSERT_EQ(bits(packet, 0, 7, 0), 10u);
            ASSERT_EQ(bits(packet, 0, 31, 25), 47u); // ADD_RTN_64
            expect_zero_outside(packet, 0, {{7, 0}, {31, 25}});
            ASSERT_EQ(pair(packet, 1), address);
            ASSERT_EQ(pair(packet, 3), operand);
            ASSERT_EQ(pair(packet, 5), 0u);
            ASSERT_EQ(packet[7], 0u);
        }
    }
}

TEST(Packet, fence_fields) {
    for (uint64_t address : addresses) {
        auto packet = dwords(fence(address, 0x89abcdef));
        ASSERT_EQ(bits(packet, 0, 7, 0), 5u);
        expect_zero_outside(packet, 0, {{7, 0}}); // v4 has no header flags
        ASSERT_EQ(pair(packet, 1), address);
        ASSERT_EQ(packet[3], 0x89abcdefu);
    }
}

TEST(Packet, nop_count_stays_in_its_field) {
    for (uint32_t count : {1u, 2u, 7u, 0x3fffu, 0x4000u}) {
        ASSERT_TRUE(nop_ok(count));
        auto packet = dwords(nop(count));
        EXPECT_EQ(bits(packet, 0, 29, 16), count - 1);
        expect_zero_outside(packet, 0, {{29, 16}});
    }
    EXPECT_FALSE(nop_ok(0));
    EXPECT_FALSE(nop_ok(0x4001));
}

TEST(Packet, refuses_copies_that_would_run_wild) {
    EXPECT_FALSE(copy_ok(4096, 8192, 0));
    EXPECT_TRUE(copy_ok(4096, 8192, 1));
    EXPECT_TRUE(copy_ok(4096, 8192, 128 << 20));
    EXPECT_FALSE(copy_ok(4096, 8192, (128 << 20) + 1));
    EXPECT_FALSE(copy_ok(4096, 8192, (uint64_t{1} << 30) + 1));
    EXPECT_FALSE(copy_ok(4096, 8192, ~uint64_t{0}));
    EXPECT_FALSE(copy_ok(0, 8192, 64));
    EXPECT_FALSE(copy_ok(4096, 0, 64));
    EXPECT_TRUE(copy_ok(4095, 8191, 33)); // byte granular
    EXPECT_TRUE(copy_ok(~uint64_t{0} - 63, 4096, 64));
    EXPECT_FALSE(copy_ok(~uint64_t{0} - 62, 4096, 64));
    EXPECT_FALSE(copy_ok(4096, ~uint64_t{0} - 62, 64));
}

TEST(Packet, refuses_misaligned_signals) {
    for (uint64_t offset = 0; offset < 16; ++offset) {
        EXPECT_EQ(atomic_ok(0x1000 + offset), offset % 8 == 0);
        EXPECT_EQ(fence_ok(0x1000 + offset), offset % 4 == 0);
    }
    EXPECT_FALSE(atomic_ok(0));
    EXPECT_FALSE(fence_ok(0));
}

} // namespace
