// SPDX-License-Identifier: BSD-3-Clause
//
// sdma_bench without MPI: its command line and the pattern of -c.
#include <vector>

#include <gtest/gtest.h>

#include "tools/options.hpp"
#include "tools/pattern.hpp"

namespace {

using namespace tools;

std::string parse(std::vector<const char *> arguments, Options &options) {
    arguments.insert(arguments.begin(), "sdma_bench");
    return tools::parse(static_cast<int>(arguments.size()), arguments.data(), options);
}

TEST(Options, understands_osu_letters) {
    Options options;
    EXPECT_EQ(parse({"alltoall", "-d", "rocm", "-m", "4K:2M", "-i", "7", "-x", "0", "-c", "-f", "--ab"}, options), "");
    EXPECT_EQ(options.verb, "alltoall");
    EXPECT_EQ(options.memory, tools::Memory::rocm);
    EXPECT_EQ(options.smallest, 4096u);
    EXPECT_EQ(options.largest, size_t{2} << 20);
    EXPECT_EQ(iterations_for(options, 1 << 20), 7);
    EXPECT_EQ(warmup_for(options, 1), 0);
    EXPECT_TRUE(options.check && options.full && options.compare);
}

TEST(Options, has_osu_defaults) {
    Options options;
    EXPECT_EQ(parse({"allgather", "-m", "64"}, options), "");
    EXPECT_EQ(options.smallest, 1u);
    EXPECT_EQ(options.largest, 64u);
    EXPECT_EQ(iterations_for(options, 8192), 1000);
    EXPECT_EQ(iterations_for(options, 8193), 100);
    EXPECT_EQ(warmup_for(options, 8192), 200);
    EXPECT_EQ(warmup_for(options, 8193), 10);
}

TEST(Options, accepts_the_largest_count_of_mpi) {
    Options options;
    EXPECT_EQ(parse({"alltoall", "-m", "2147483647:2147483647"}, options), "");
    EXPECT_EQ(options.smallest, 2147483647u);
}

TEST(Options, refuses_what_makes_no_sense) {
    const std::vector<std::vector<const char *>> bad = {
        {},
        {"alltoall", "allgather"},
        {"alltoall", "-d"},
        {"alltoall", "-d", "gpu"},
        {"alltoall", "-m", ""},
        {"alltoall", "-m", "K"},
        {"alltoall", "-m", "0:4"},
        {"alltoall", "-m", "8:4"},
        {"alltoall", "-m", "4:"},
        {"alltoall", "-m", "-4"},
        {"alltoall", "-m", "2G"},
        {"alltoall", "-m", "99999999999999999999"},
        {"alltoall", "-i", "0"},
        {"alltoall", "-i", "3x"},
        {"alltoall", "-x", "-1"},
        {"alltoall", "--abc"},
        {"put_bw", "-w", "shared"},
        {"put_bw", "-s", "lockall"},
        {"put_bw", "-W", "0"},
        {"put_bw", "D"},
        {"put_bw", "D", "H", "H"},
    };
    for (const auto &arguments : bad) {
        Options options;
        const std::string error = parse(arguments, options);
        EXPECT_FALSE(error.empty()) << (arguments.empty() ? "" : arguments.back());
        EXPECT_EQ(error.find('\n'), std::string::npos);
    }
}

TEST(Options, says_what_is_wrong) {
    Options number, window, warmup, extra;
    EXPECT_EQ(parse({"alltoall", "-i", "0"}, number), "-i 0: must be at least 1");
    EXPECT_EQ(parse({"put_bw", "-W", "0"}, window), "-W 0: must be at least 1");
    EXPECT_EQ(parse({"alltoall", "-x", "y"}, warmup), "-x y: not a number of warm-up iterations");
    EXPECT_EQ(parse({"alltoall", "foo"}, extra), "foo: unknown argument (one operation is run at a time)");
}

TEST(Options, one_sided_operations) {
    Options options;
    EXPECT_EQ(parse({"put_bw", "-d", "rocm", "-w", "dynamic", "-s", "lock_all", "-W", "7", "D", "H"}, options), "");
    EXPECT_EQ(options.window, Window_kind::dynamic);
    EXPECT_EQ(options.sync, Sync::lock_all);
    EXPECT_EQ(options.messages, 7);
    EXPECT_TRUE(origin_on_device(options) && !window_on_device(options));
    EXPECT_EQ(check_onesided(options), "");
    EXPECT_NE(check_collective(options), "");
    options.places = "HD";
    EXPECT_TRUE(!origin_on_device(options) && window_on_device(options));
    options.memory = tools::Memory::host;
    EXPECT_NE(check_onesided(options), "");
    options.places.clear();
    EXPECT_EQ(check_onesided(options), "");
    options.compare = true;
    EXPECT_NE(check_onesided(options), "");
    EXPECT_EQ(check_collective(options), "");
}

std::vector<unsigned char> filled(Block_id id, size_t bytes) {
    std::vector<unsigned char> block(bytes);
    fill_pattern(id, block.data(), bytes);
    return block;
}

TEST(Pattern, agrees_with_itself_at_every_length) {
    for (size_t bytes = 1; bytes < 40; ++bytes) {
        const auto block = filled({1, 2, 3}, bytes);
        EXPECT_EQ(first_wrong_byte({1, 2, 3}, block.data(), bytes), bytes);
    }
}

TEST(Pattern, finds_any_single_wrong_byte) {
    constexpr size_t bytes = 37;
    for (size_t wrong = 0; wrong < bytes; ++wrong) {
        auto block = filled({4, 5, 6}, bytes);
        block[wrong] ^= 1;
        EXPECT_EQ(first_wrong_byte({4, 5, 6}, block.data(), bytes), wrong);
        EXPECT_EQ(pattern_byte({4, 5, 6}, wrong), block[wrong] ^ 1);
    }
}

// What a stale, misrouted or shifted block looks like must differ already in its first bytes.
TEST(Pattern, tells_blocks_apart) {
    constexpr size_t bytes = 64;
    const auto block = filled({1, 2, 7}, bytes);
    for (const Block_id other : {Block_id{2, 1, 7}, Block_id{1, 3, 7}, Block_id{0, 2, 7}})
        EXPECT_LT(first_wrong_byte(other, block.data(), bytes), 8u);
    EXPECT_LT(first_wrong_byte({1, 2, 7}, block.data() + 8, bytes - 8), 8u);
}

TEST(Pattern, changes_every_byte_with_the_iteration) {
    constexpr size_t bytes = 64;
    for (uint32_t iteration = 0; iteration < 600; ++iteration) {
        const auto before = filled({1, 2, iteration}, bytes), after = filled({1, 2, iteration + 1}, bytes);
        for (size_t offset = 0; offset < bytes; ++offset)
            ASSERT_NE(before[offset], after[offset]) << iteration << " " << offset;
    }
}

} // namespace
