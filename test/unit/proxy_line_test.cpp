// SPDX-License-Identifier: BSD-3-Clause
//
// A line of the proxy, without its thread.
#include "common/sdma/engine/proxy_line.hpp"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/sdma/base/base.hpp"
#include "test/support/late_runtime.hpp"

namespace {

using namespace sdma;

class Proxy_line : public testing::Test {
protected:
    static constexpr uint64_t bytes = 4096;
    std::shared_ptr<Late_runtime> runtime = std::make_shared<Late_runtime>();
    alignas(64) uint64_t read = 0, written = 0, doorbell = 0;
    alignas(64) std::array<uint32_t, bytes / 4> words{};
    struct sdma_ring ring = {reinterpret_cast<uint64_t>(words.data()), bytes,
                             reinterpret_cast<uint64_t>(&read),        reinterpret_cast<uint64_t>(&written),
                             reinterpret_cast<uint64_t>(&doorbell),    0};
    std::unique_ptr<engine::proxy::Line> line;
    Late_runtime::Late_stream *stream = nullptr;

    void open() {
        auto made = runtime->stream(0);
        stream = runtime->last_stream;
        line = std::make_unique<engine::proxy::Line>(runtime, std::move(made), &ring, "queue under test");
    }
    void put(std::initializer_list<uint32_t> packet) {
        for (uint32_t word : packet) {
            words[written % bytes / 4] = word;
            written += 4;
        }
    }
    static uint32_t low(const void *p) { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p)); }
    static uint32_t high(const void *p) { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) >> 32); }
    void put_copy(void *dst, const void *src, uint32_t n) {
        put({1, n - 1, 0, low(src), high(src), low(dst), high(dst)});
    }
    void put_fence(void *word, uint32_t value) { put({5, low(word), high(word), value}); }
    void put_add(void *word, uint32_t amount) { put({0x5e00000a, low(word), high(word), amount, 0, 0, 0, 0}); }
    void ring_doorbell() { doorbell = written; }
};

TEST_F(Proxy_line, signals_follow_their_copies) {
    open();
    uint64_t src = 7, dst = 0, word = 0;
    put_copy(&dst, &src, sizeof src);
    put_fence(&word, 9);
    EXPECT_FALSE(line->serve()) << "nothing was rung";
    ring_doorbell();
    EXPECT_TRUE(line->serve());
    EXPECT_EQ(read, written) << "consumed";
    EXPECT_EQ(dst, 0u) << "but not done";
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(stream->step());
    EXPECT_EQ(dst, 7u);
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(stream->step());
    EXPECT_EQ(word, 9u);
    EXPECT_FALSE(line->serve());
    EXPECT_TRUE(line->close(1000));
}

TEST_F(Proxy_line, joins_copies_that_continue_each_other) {
    open();
    std::array<uint8_t, 64> src{}, dst{};
    for (size_t i = 0; i < src.size(); i++)
        src[i] = static_cast<uint8_t>(i + 1);
    uint64_t word = 0;
    put_copy(&dst[0], &src[0], 16);
    put_copy(&dst[16], &src[16], 7);
    put_copy(&dst[23], &src[24], 8); // the source does not continue
    put_copy(&dst[40], &src[32], 8); // the destination does not
    put_fence(&word, 1);
    put_copy(&dst[48], &src[40], 8); // continues, but after a signal
    ring_doorbell();
    line->serve();
    EXPECT_EQ(stream->given, 5u);
    for (int i = 0; i < 3; i++)
        stream->step();
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(line->close(1000));
    EXPECT_EQ(word, 1u);
    for (const auto &[to, from, n] : {std::array<size_t, 3>{0, 0, 23}, {23, 24, 8}, {40, 32, 8}, {48, 40, 8}})
        EXPECT_EQ(std::memcmp(&dst[to], &src[from], n), 0) << to;
    EXPECT_EQ(dst[31], 0);
}

TEST_F(Proxy_line, wraps) {
    open();
    std::array<uint32_t, 3> dst{};
    const uint32_t src = 5;
    const int packets = 1000;
    for (int i = 0; i < packets; i++) {
        const uint64_t left = bytes - written % bytes;
        if (left < 28)
            put({static_cast<uint32_t>(left / 4 - 1) << 16}), written += left - 4;
        put_copy(&dst[static_cast<size_t>(i) % 3], &src, sizeof src);
        ring_doorbell();
        ASSERT_TRUE(line->serve());
    }
    EXPECT_GT(read, 6 * bytes);
    EXPECT_EQ(stream->given, static_cast<uint64_t>(packets));
    EXPECT_TRUE(line->close(1000));
    EXPECT_EQ(dst[0] + dst[1] + dst[2], 15u);
}

TEST_F(Proxy_line, atomics_count_though_none_has_arrived) {
    open();
    uint64_t word = 0x1ffffffff;
    for (int i = 0; i < 3; i++)
        put_add(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_EQ(word, 0x1ffffffffu);
    while (stream->step())
        ;
    EXPECT_EQ(word, 0x200000002u);
    word += 10; // another path of this rank raised the word
    put_add(&word, 1);
    ring_doorbell();
    line->serve();
    while (stream->step())
        ;
    EXPECT_EQ(word, 0x20000000du);
    EXPECT_TRUE(line->close(1000));
}

TEST_F(Proxy_line, atomics_on_a_word_that_is_another_one_by_now) {
    open();
    uint64_t word = 0;
    for (int life = 0; life < 3; life++) {
        word = 0; // freed, and the next one is at the same address
        for (uint64_t value = 1; value <= 5; value++) {
            put_add(&word, 1);
            ring_doorbell();
            EXPECT_TRUE(line->serve());
            while (stream->step())
                ;
            ASSERT_EQ(word, value) << "life " << life;
        }
    }
    EXPECT_TRUE(line->close(1000));
}

TEST_F(Proxy_line, signals_by_copies_where_streams_cannot_store) {
    runtime->stores = false;
    open();
    // More signals than there is staging for, none of them delivered early.
    uint64_t word = 0;
    uint32_t sent = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++)
            put_fence(&word, ++sent);
        ring_doorbell();
        line->serve();
        EXPECT_LE(word, sent);
    }
    for (int i = 0; i < 10000 && (read != written || word != sent); i++) {
        stream->step();
        line->serve();
    }
    EXPECT_EQ(read, written);
    EXPECT_EQ(word, 600u);
    EXPECT_TRUE(line->close(1000));
    line.reset();
    EXPECT_EQ(runtime->in_use, 0);
}

TEST_F(Proxy_line, stops_at_a_packet_it_does_not_know) {
    static std::vector<std::string> lines;
    lines.clear();
    sdma_log_to([](int level, const char *text) {
        if (level == 0)
            lines.push_back(text);
    });
    open();
    uint64_t word = 0;
    put_fence(&word, 1);
    put({0x00000002, low(&word), high(&word), 0, 5});
    put_fence(&word, 2);
    ring_doorbell();
    line->serve();
    EXPECT_EQ(read, 16u) << "not consumed";
    while (stream->step())
        ;
    EXPECT_EQ(word, 1u) << "what came before was done, what follows is not";
    EXPECT_FALSE(line->serve());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("queue under test"), std::string::npos);
    EXPECT_NE(lines[0].find("0x10"), std::string::npos);
    EXPECT_NE(lines[0].find("00000002"), std::string::npos);
    EXPECT_TRUE(line->close(1000));
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, stops_when_pointers_make_no_sense) {
    sdma_log_to([](int, const char *) {});
    for (const auto &[rung, write] : {std::pair<uint64_t, uint64_t>{16, 0}, // rung before written
                                      {bytes + 4, bytes + 4},               // more than the ring holds
                                      {6, 6}}) {                            // not a whole dword
        open();
        doorbell = rung;
        written = write;
        EXPECT_FALSE(line->serve());
        EXPECT_EQ(read, 0u);
        doorbell = written = 0;
        EXPECT_FALSE(line->serve()) << "stays stopped";
        EXPECT_TRUE(line->close(1000));
    }
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, a_shortage_of_memory_that_passes_loses_nothing) {
    static int lines;
    lines = 0;
    sdma_log_to([](int, const char *) { lines++; });
    for (gpu::Status Late_runtime::*call : {&Late_runtime::copies, &Late_runtime::submissions}) {
        open();
        uint64_t src = 1, dst = 0, word = 0;
        (*runtime).*call = gpu::Status::no_memory;
        put_copy(&dst, &src, 8);
        put_fence(&word, 1);
        ring_doorbell();
        for (int turn = 0; turn < 5; turn++)
            line->serve();
        while (stream->step()) {
        }
        EXPECT_EQ(word, 0u);
        (*runtime).*call = gpu::Status::ok;
        line->serve();
        EXPECT_EQ(read, written);
        while (stream->step()) {
        }
        EXPECT_EQ(dst, 1u);
        EXPECT_EQ(word, 1u);
        EXPECT_TRUE(line->close(1000));
    }
    EXPECT_EQ(lines, 2) << "one for each line";
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, stops_when_the_runtime_fails) {
    sdma_log_to([](int, const char *) {});
    open();
    uint64_t src = 1, dst = 0, word = 0;
    runtime->copies = gpu::Status::failed;
    put_copy(&dst, &src, 8);
    put_fence(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_LT(read, written);
    EXPECT_FALSE(line->serve());
    EXPECT_EQ(stream->given, 0u) << "no signal without its copy";
    EXPECT_TRUE(line->close(1000));
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, close_waits_for_bytes_on_their_way) {
    open();
    uint64_t word = 0;
    put_fence(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(line->close(1000));
    EXPECT_EQ(word, 1u);
    put_fence(&word, 2);
    ring_doorbell();
    EXPECT_FALSE(line->serve()) << "closed";
}

TEST_F(Proxy_line, close_gives_up_on_a_runtime_that_hangs) {
    runtime->stuck = true;
    open();
    uint64_t word = 0;
    put_fence(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_FALSE(line->close(20));
}

} // namespace
