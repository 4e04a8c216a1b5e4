// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated engine's decoder: every legal packet is understood, every malformed kind refused.
#include <gtest/gtest.h>

#include "test/simnode/queue/packet.hpp"

using namespace simnode;

namespace {

using Dwords = std::vector<uint32_t>;

struct Result {
    Packet packet;
    std::string error;
};
Result run(Dwords dwords, Generation generation = Generation::v4, size_t available = 0) {
    size_t given = available ? available : dwords.size();
    dwords.resize(std::max<size_t>(dwords.size(), 16));
    Result result;
    result.error = decode(generation, dwords.data(), given, result.packet);
    return result;
}

const Dwords copy{0x00000001, 99, 0, 0x1000, 0x12, 0x2000, 0x34};
const Dwords broadcast{0x08000001, 99, 0, 0x1000, 0x12, 0x2000, 0x34, 0x3000, 0x56};
const Dwords rect{0x80000401, 0x1000, 0, 0, 63 << 13, 0, 0x2000, 0, 0, 63 << 13, 0, 7 | 2 << 16, 0};
const Dwords write_two{0x00000002, 0x1000, 0, 1, 0xaaaa, 0xbbbb};
const Dwords fence{0x00000005, 0x1000, 1, 0xdead};
const Dwords trap{0x00000006, 42};
const Dwords poll{0xd0000008, 0x1000, 1, 7, 0xffffffff, 0x0fff0004};
const Dwords atomic{0x5e00000a, 0x1000, 1, 0xffffffff, 0xffffffff, 0, 0, 0};
const Dwords fill{0x8000000b, 0x1000, 0, 0x11223344, 396};
const Dwords timestamp{0x0000020d, 0x1000, 0};
const Dwords cache{0x00000111, 0, 0, 0, 0};

Dwords with(Dwords dwords, size_t index, uint32_t value) {
    dwords.at(index) = value;
    return dwords;
}

} // namespace

TEST(Packet, Nop) {
    EXPECT_EQ(run({0}).error, "");
    EXPECT_EQ(run({0}).packet.dwords, 1u);
    EXPECT_EQ(run({5u << 16, 1, 2, 3, 4, 5}).packet.dwords, 6u);
    EXPECT_EQ(run({0x3fffu << 16}, Generation::v4, 0x4000).packet.dwords, 0x4000u);
}

TEST(Packet, Copy) {
    Result r = run(copy);
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(r.packet.op, Op::copy);
    EXPECT_EQ(r.packet.dwords, 7u);
    EXPECT_EQ(r.packet.bytes, 100u);
    EXPECT_EQ(r.packet.source, 0x1200001000u);
    EXPECT_EQ(r.packet.address, 0x3400002000u);
    EXPECT_EQ(r.packet.second_address, 0u);
    EXPECT_EQ(run(with(copy, 1, (1u << 30) - 2)).packet.bytes, (1u << 30) - 1);
}

TEST(Packet, Broadcast) {
    Result r = run(broadcast);
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(r.packet.dwords, 9u);
    EXPECT_EQ(r.packet.second_address, 0x5600003000u);
}

TEST(Packet, Rect) {
    Result r = run(rect);
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(r.packet.dwords, 13u);
    EXPECT_EQ(r.packet.element, 16u);
    EXPECT_EQ(r.packet.from.pitch, 64u);
    EXPECT_EQ(r.packet.rect[0], 8u);
    EXPECT_EQ(r.packet.rect[1], 3u);
    EXPECT_EQ(r.packet.bytes, 8u * 3 * 16);
}

TEST(Packet, Others) {
    EXPECT_EQ(run(write_two).error, "");
    EXPECT_EQ(run(write_two).packet.dwords, 6u);
    EXPECT_EQ(run(write_two).packet.bytes, 8u);
    EXPECT_EQ(run(fence).packet.data, 0xdeadu);
    EXPECT_EQ(run(trap).packet.data, 42u);
    Packet p = run(poll).packet;
    EXPECT_EQ(p.op, Op::poll);
    EXPECT_EQ(p.function, 5u);
    EXPECT_EQ(p.retry, 0xfffu);
    EXPECT_EQ(run({8, 0, 0x80000000, 0, 0, 0}).packet.op, Op::hdp_flush);
    p = run(atomic).packet;
    EXPECT_EQ(p.op, Op::atomic);
    EXPECT_EQ(p.function, 0x2fu);
    EXPECT_EQ(p.data, ~uint64_t{0});
    p = run(fill).packet;
    EXPECT_EQ(p.bytes, 400u);
    EXPECT_EQ(p.function, 4u);
    EXPECT_EQ(run({0x0000000b, 0x1001, 0, 0x77, 4}).packet.bytes, 5u);
    EXPECT_EQ(run(timestamp).packet.op, Op::timestamp);
    EXPECT_EQ(run(with(timestamp, 0, 0x10d)).error, "");
}

TEST(Packet, Generations) {
    EXPECT_EQ(generation_of("gfx90a"), Generation::v4);
    EXPECT_EQ(generation_of("gfx942"), Generation::v4);
    EXPECT_EQ(generation_of("gfx1030"), Generation::v5);
    EXPECT_EQ(generation_of("gfx1100"), Generation::v6);
    // Memory type in the fence: gfx10 and later only. Cache control: likewise.
    Dwords uncached = with(fence, 0, 0x00030005);
    EXPECT_NE(run(uncached, Generation::v4).error, "");
    EXPECT_EQ(run(uncached, Generation::v5).error, "");
    EXPECT_NE(run(cache, Generation::v4).error, "");
    EXPECT_EQ(run(cache, Generation::v6).error, "");
    EXPECT_NE(run(with(fill, 4, 1u << 24), Generation::v4).error, "");
    EXPECT_EQ(run(with(fill, 4, 1u << 24), Generation::v6).error, "");
}

struct Bad {
    const char *what;
    Dwords dwords;
    size_t available = 0;
};
class Malformed : public testing::TestWithParam<Bad> {};

TEST_P(Malformed, IsRefused) { EXPECT_NE(run(GetParam().dwords, Generation::v4, GetParam().available).error, ""); }

INSTANTIATE_TEST_SUITE_P(
    All, Malformed,
    testing::Values(
        Bad{"unknown op", {0x0000000e, 0, 0, 0}}, Bad{"all ones", {0xffffffff, 0, 0, 0}},
        Bad{"indirect buffer", {0x00000004, 0, 0, 0, 0, 0}}, Bad{"tiled copy", with(copy, 0, 0x00000101)},
        Bad{"64-bit fence", {0x00000205, 0x1000, 0, 1, 0}}, Bad{"encrypted copy", with(copy, 0, 0x00010001)},
        Bad{"npd copy", with(copy, 0, 0x10000001)}, Bad{"zero-length copy", with(copy, 1, 0x3fffffff)},
        Bad{"zero minus one in 32 bits", with(copy, 1, 0xffffffff)}, Bad{"2^30 + 1", with(copy, 1, 1u << 30)},
        Bad{"swapped copy", with(copy, 2, 1u << 16)}, Bad{"straddling copy", copy, 6}, Bad{"only a header", copy, 1},
        Bad{"straddling broadcast", broadcast, 8}, Bad{"three dwords", copy, 3},
        Bad{"nop past the ring end", {5u << 16}, 5}, Bad{"nop reserved", {0x40000000}},
        Bad{"rect misaligned", with(rect, 1, 0x1002)}, Bad{"rect element", with(rect, 0, 0xa0000401)},
        Bad{"rect x over range", with(rect, 3, 1u << 14)}, Bad{"write misaligned", with(write_two, 1, 0x1002)},
        Bad{"write straddling", write_two, 5}, Bad{"write zero minus one", with(write_two, 3, 0xfffff)},
        Bad{"write swap", with(write_two, 3, 1 | 1u << 24)}, Bad{"fence misaligned", with(fence, 1, 0x1002)},
        Bad{"trap context", with(trap, 1, 1u << 28)}, Bad{"register poll", with(poll, 0, 0x50000008)},
        Bad{"poll flushing", with(poll, 0, 0xd4000008)}, Bad{"poll function", with(poll, 0, 0xf0000008)},
        Bad{"poll misaligned", with(poll, 1, 0x1001)}, Bad{"poll retries", with(poll, 5, 1u << 28)},
        Bad{"atomic misaligned", with(atomic, 1, 0x1004)}, Bad{"atomic op", with(atomic, 0, 0x0200000a)},
        Bad{"atomic loop", with(atomic, 0, 0x5e01000a)}, Bad{"atomic reserved", with(atomic, 0, 0x5e00010a)},
        Bad{"atomic interval", with(atomic, 7, 1u << 13)}, Bad{"fill misaligned", with(fill, 1, 0x1002)},
        Bad{"fill size", with(fill, 0, 0x4000000b)}, Bad{"fill too long", with(fill, 4, 1u << 22)},
        Bad{"timestamp misaligned", with(timestamp, 1, 0x1010)}, Bad{"timestamp set", with(timestamp, 0, 0x0d)}),
    [](const testing::TestParamInfo<Bad> &info) { return "n" + std::to_string(info.index); });
