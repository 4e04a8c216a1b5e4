// SPDX-License-Identifier: BSD-3-Clause
//
// The executor on plain memory, without chaos and with it.
#include <gtest/gtest.h>

#include <cstring>

#include "stub.hpp"
#include "test/simnode/queue/executor.hpp"
#include "test/simnode/queue/simnode_api.h"

using namespace simnode;

namespace {

class Execute : public testing::Test {
protected:
    stub::Gpu_memory memory{1 << 20};
    Chaos chaos{1};
    Executor executor{0, chaos, [] { return false; }};

    void SetUp() override {
        stub::clear();
        sdma_simnode_reseed(0);
    }
    uint64_t at(size_t offset) const { return memory.address(offset); }
    template <typename T> T &word(size_t offset) { return *memory.at<T>(offset); }

    std::string run(const std::vector<uint32_t> &dwords) {
        std::vector<uint32_t> padded = dwords;
        padded.resize(std::max<size_t>(padded.size(), 16));
        Packet packet;
        std::string error = decode(Generation::v4, padded.data(), dwords.size(), packet);
        return error.empty() ? executor.execute(packet, padded.data()) : error;
    }
    static uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
    static uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
    std::string copy(uint64_t to, uint64_t from, uint32_t bytes) {
        return run({1, bytes - 1, 0, low(from), high(from), low(to), high(to)});
    }
    std::string atomic(uint32_t operation, uint64_t address, uint64_t data, uint64_t compare = 0) {
        return run({0x0a | operation << 25, low(address), high(address), low(data), high(data), low(compare),
                    high(compare), 0});
    }
    std::string fence(uint64_t address, uint32_t data) { return run({5, low(address), high(address), data}); }
};

TEST_F(Execute, Copy) {
    for (int i = 0; i < 5000; i++)
        memory.data()[i] = static_cast<uint8_t>(i * 7);
    EXPECT_EQ(copy(at(10001), at(1), 4999), "");
    EXPECT_EQ(memcmp(memory.data() + 10001, memory.data() + 1, 4999), 0);
    EXPECT_EQ(memory.data()[10000], 0);
    EXPECT_EQ(memory.data()[15000], 0);
}

TEST_F(Execute, Broadcast) {
    strcpy(reinterpret_cast<char *>(memory.data()), "twice");
    uint64_t from = at(0), one = at(100), two = at(200);
    EXPECT_EQ(run({0x08000001, 5, 0, low(from), high(from), low(one), high(one), low(two), high(two)}), "");
    EXPECT_STREQ(memory.at<char>(100), "twice");
    EXPECT_STREQ(memory.at<char>(200), "twice");
}

TEST_F(Execute, Rect) {
    // 3 x 2 elements of 4 bytes from (1, 1) of a pitch of 8 to (0, 2) of a pitch of 5.
    for (uint32_t i = 0; i < 64; i++)
        word<uint32_t>(4 * i) = i;
    uint64_t from = at(0), to = at(4096);
    EXPECT_EQ(run({0x40000401, low(from), high(from), 1 | 1 << 16, 7 << 13, 0, low(to), high(to), 2 << 16, 4 << 13, 0,
                   2 | 1 << 16, 0}),
              "");
    for (uint32_t y = 0; y < 2; y++)
        for (uint32_t x = 0; x < 3; x++)
            EXPECT_EQ(word<uint32_t>(4096 + 4 * ((y + 2) * 5 + x)), (y + 1) * 8 + x + 1);
    EXPECT_EQ(word<uint32_t>(4096 + 4 * (2 * 5 + 3)), 0u);
}

TEST_F(Execute, WriteFillFenceTimestampTrap) {
    EXPECT_EQ(run({2, low(at(0)), high(at(0)), 2, 11, 22, 33}), "");
    EXPECT_EQ(word<uint32_t>(4), 22u);
    EXPECT_EQ(word<uint32_t>(8), 33u);
    EXPECT_EQ(run({0x8000000b, low(at(64)), high(at(64)), 0xabcd1234, 12}), "");
    EXPECT_EQ(word<uint32_t>(64 + 12), 0xabcd1234u);
    EXPECT_EQ(word<uint32_t>(64 + 16), 0u);
    EXPECT_EQ(run({0x0000000b, low(at(129)), high(at(129)), 0x55, 1}), "");
    EXPECT_EQ(word<uint32_t>(128), 0x00555500u);
    word<uint64_t>(256) = ~uint64_t{0};
    EXPECT_EQ(fence(at(256), 5), "");
    EXPECT_EQ(word<uint64_t>(256), 0xffffffff00000005u); // 32 bits, no more
    uint64_t before = gpu_clock();
    EXPECT_EQ(run({0x20d, low(at(512)), high(at(512))}), "");
    EXPECT_GE(word<uint64_t>(512), before);
    EXPECT_LE(word<uint64_t>(512), gpu_clock());
    EXPECT_EQ(run({6, 77}), "");
    EXPECT_EQ(stub::events(), std::vector<uint32_t>{77});
}

TEST_F(Execute, Atomics) {
    struct {
        uint32_t operation;
        uint64_t old, operand, compare, expected;
    } const cases[] = {
        {0x2f, 5, 1, 0, 6},
        {0x2f, 1, ~uint64_t{0}, 0, 0},
        {0x6f, 0xffffffff, 1, 0, 0x100000000},
        {0x30, 5, 7, 0, ~uint64_t{1}},
        {0x27, 5, 9, 0, 9},
        {0x28, 5, 9, 5, 9},
        {0x28, 5, 9, 6, 5},
        {0x31, 5, ~uint64_t{0}, 0, ~uint64_t{0}},
        {0x32, 5, ~uint64_t{0}, 0, 5},
        {0x33, 5, ~uint64_t{0}, 0, 5},
        {0x34, 5, 9, 0, 9},
        {0x35, 6, 3, 0, 2},
        {0x36, 6, 3, 0, 7},
        {0x37, 6, 3, 0, 5},
        {0x38, 6, 6, 0, 0},
        {0x38, 5, 6, 0, 6},
        {0x39, 0, 6, 0, 6},
        {0x39, 4, 6, 0, 3},
        {0x0f, 0xffffffff, 1, 0, 0},
        {0x0f, 0x1ffffffff, 1, 0, 0x100000000}, // 32 bits leave the rest
        {0x10, 3, 1, 0, 2},
        {0x08, 3, 4, 3, 4},
    };
    for (auto &c : cases) {
        word<uint64_t>(64) = c.old;
        EXPECT_EQ(atomic(c.operation, at(64), c.operand, c.compare), "");
        EXPECT_EQ(word<uint64_t>(64), c.expected) << std::hex << c.operation << " on " << c.old;
    }
}

TEST_F(Execute, Poll) {
    struct {
        uint32_t function, value;
        bool passes;
    } const cases[] = {{0, 3, true},  {1, 6, true},  {1, 7, false}, {2, 7, true},  {2, 8, false},
                       {3, 7, true},  {3, 8, false}, {4, 8, true},  {4, 7, false}, {5, 7, true},
                       {5, 6, false}, {6, 8, true},  {6, 7, false}};
    for (auto &c : cases) {
        word<uint32_t>(0) = c.value | 0xabc00;
        std::atomic<bool> done{false};
        std::atomic<bool> stop{false};
        Executor poller(0, chaos, [&] { return stop.load(); });
        std::vector<uint32_t> dwords{0x80000008 | c.function << 28, low(at(0)), high(at(0)), 7, 0xff, 0x0fff0004};
        Packet packet;
        ASSERT_EQ(decode(Generation::v4, dwords.data(), 6, packet), "");
        std::thread engine([&] {
            poller.execute(packet, dwords.data());
            done = true;
        });
        if (c.passes) {
            EXPECT_TRUE(stub::eventually([&] { return done.load(); }));
        } else {
            for (int i = 0; i < 100; i++)
                std::this_thread::yield();
            EXPECT_FALSE(done);
        }
        stop = true;
        engine.join();
    }
}

TEST_F(Execute, PollGivesUpWhereItMay) { EXPECT_EQ(run({0xb0000008, low(at(0)), high(at(0)), 7, ~0u, 3 << 16}), ""); }

TEST_F(Execute, Inaccessible) {
    uint64_t end = at(1 << 20), inside = at(0);
    EXPECT_NE(copy(end - 10, inside, 11), "");
    EXPECT_NE(copy(inside, end - 10, 11), "");
    EXPECT_NE(copy(inside, 0, 4), "");
    EXPECT_NE(copy(inside, ~uint64_t{0} - 2, 4), "");
    EXPECT_EQ(copy(end - 11, inside, 11), "");
    EXPECT_NE(fence(end, 1), "");
    EXPECT_NE(atomic(0x2f, end, 1), "");
    EXPECT_NE(run({0x20d, low(end), high(end)}), "");
    EXPECT_NE(run({0x8000000b, low(end - 4), high(end - 4), 0, 4}), "");
    EXPECT_NE(run({2, low(end - 4), high(end - 4), 1, 1, 2}), "");
    EXPECT_NE(run({0xb0000008, low(end), high(end), 7, ~0u, 0x0fff0004}), "");
    uint64_t from = at(0), one = at(100);
    EXPECT_NE(run({0x08000001, 5, 0, low(from), high(from), low(one), high(one), low(end), high(end)}), "");
}

class Chaotic : public Execute, public testing::WithParamInterface<uint64_t> {
protected:
    void SetUp() override {
        Execute::SetUp();
        sdma_simnode_reseed(GetParam());
    }
    void TearDown() override { sdma_simnode_reseed(0); }
};
class Each_seed : public Chaotic {};

// Whoever reads before the signal sees the old bytes, whatever kind of packet moves the new ones.
TEST_P(Each_seed, PayloadShowsOnlyWithTheSignal) {
    memset(memory.data(), 0x11, 100);
    EXPECT_EQ(copy(at(1000), at(0), 100), "");
    EXPECT_EQ(run({2, low(at(2000)), high(at(2000)), 0, 0x22222222}), "");
    EXPECT_EQ(run({0x8000000b, low(at(3000)), high(at(3000)), 0x33333333, 12}), "");
    EXPECT_EQ(run({6, 1}), "");                                                    // no signal of data
    EXPECT_EQ(run({0x20d, low(at(4096)), high(at(4096))}), "");                    // nor this
    EXPECT_EQ(run({0xd0000008, low(at(0)), high(at(0)), 0, ~0u, 0x0fff0004}), ""); // nor this
    EXPECT_EQ(executor.held(), 3u);
    EXPECT_EQ(memory.data()[1000], 0);
    EXPECT_EQ(word<uint32_t>(2000), 0u);
    EXPECT_EQ(word<uint32_t>(3000), 0u);
    EXPECT_EQ(GetParam() % 2 ? atomic(0x2f, at(8192), 1) : fence(at(8192), 1), "");
    EXPECT_EQ(word<uint64_t>(8192), 1u);
    EXPECT_EQ(memory.data()[1099], 0x11);
    EXPECT_EQ(word<uint32_t>(2000), 0x22222222u);
    EXPECT_EQ(word<uint32_t>(3012), 0x33333333u);
    EXPECT_EQ(executor.held(), 0u);
}

TEST_P(Each_seed, MemoryTakenAwayInFlightIsNoticed) {
    auto other = std::make_unique<stub::Gpu_memory>(4096);
    EXPECT_EQ(copy(other->address(), at(0), 64), "");
    other->unmap();
    EXPECT_NE(atomic(0x2f, at(8192), 1), "");
    EXPECT_EQ(word<uint64_t>(8192), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Each_seed, testing::Range<uint64_t>(1, 9));

TEST_F(Execute, ChaosReordersCopiesAndReadsSourcesLate) {
    bool reordered = false, late = false, early = false;
    for (uint64_t seed = 1; seed < 64; seed++) {
        sdma_simnode_reseed(seed);
        word<uint64_t>(0) = 1;
        word<uint64_t>(8) = 2;
        word<uint64_t>(32) = 5;
        copy(at(16), at(0), 8);
        copy(at(16), at(8), 8); // nothing orders the two
        copy(at(40), at(32), 8);
        word<uint64_t>(32) = 6; // the source may be read before or after
        atomic(0x2f, at(64), 1);
        reordered = reordered || word<uint64_t>(16) == 1;
        late = late || word<uint64_t>(40) == 6;
        early = early || word<uint64_t>(40) == 5;
    }
    sdma_simnode_reseed(0);
    EXPECT_TRUE(reordered);
    EXPECT_TRUE(late);
    EXPECT_TRUE(early);
}

TEST_F(Execute, ChaosIsRepeatable) {
    auto choices = [](uint64_t seed) {
        sdma_simnode_reseed(0);
        Chaos chaos(7);
        chaos.on();
        sdma_simnode_reseed(seed);
        std::vector<uint64_t> all;
        for (int i = 0; i < 100 && chaos.on(); i++)
            all.push_back(chaos.pick(1000));
        sdma_simnode_reseed(0);
        return all;
    };
    EXPECT_EQ(choices(3).size(), 100u);
    EXPECT_EQ(choices(3), choices(3));
    EXPECT_NE(choices(3), choices(4));
}

} // namespace
