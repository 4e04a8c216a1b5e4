// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/team/layout.hpp"
#include "common/sdma/team/shape.hpp"

namespace {

TEST(Base, every_parameter_has_a_name_help_and_live_storage) {
    size_t count;
    const sdma_param_t *rows = sdma_params(&count);
    std::set<std::string> names;
    for (const sdma_param_t *row = rows; row != rows + count; row++) {
        EXPECT_TRUE(names.insert(row->name).second) << row->name;
        EXPECT_GT(strlen(row->help), 10u) << row->name;
        ASSERT_NE(nullptr, row->value);
        if (strcmp(row->name, "slots") == 0) {
            EXPECT_EQ(SDMA_PARAM_INT, row->type);
            *static_cast<int *>(row->value) += 1;
            EXPECT_EQ(17, sdma::params().slots);
            *static_cast<int *>(row->value) -= 1;
        }
    }
    EXPECT_TRUE(names.contains("loadstore_max_alltoall") && names.contains("engine") && names.contains("slots"));
}

TEST(Base, counters_by_name_and_by_reason) {
    size_t count;
    const sdma_counter_t *rows = sdma_counters(&count);
    std::set<std::string> names;
    const uint64_t *staged = nullptr, *host_buffer = nullptr;
    for (size_t i = 0; i < count; i++) {
        EXPECT_TRUE(names.insert(rows[i].name).second) << rows[i].name;
        if (strcmp(rows[i].name, "staged") == 0)
            staged = rows[i].value;
        if (strcmp(rows[i].name, "declined_host_buffer") == 0)
            host_buffer = rows[i].value;
    }
    EXPECT_FALSE(names.contains("declined_none"));
    ASSERT_TRUE(staged && host_buffer);
    const uint64_t staged_before = *staged, declined_before = *host_buffer;
    sdma_count("staged", 5);
    sdma_count("no such counter", 5);
    sdma::count_declined(SDMA_REASON_host_buffer);
    EXPECT_EQ(staged_before + 5, *staged);
    EXPECT_EQ(declined_before + 1, *host_buffer);
    EXPECT_EQ(names.size(), static_cast<size_t>(sdma::Counter::first_declined) + SDMA_REASON_COUNT - 1);
}

TEST(Base, reasons_have_names_and_sentences) {
    EXPECT_STREQ("host_buffer", sdma_reason_name(SDMA_REASON_host_buffer));
    EXPECT_STREQ("a buffer is host memory", sdma_reason_text(SDMA_REASON_host_buffer));
    EXPECT_STREQ("unknown", sdma_reason_name(SDMA_REASON_COUNT));
    EXPECT_STREQ("unknown reason", sdma_reason_text(static_cast<sdma_reason_t>(SDMA_REASON_COUNT)));
}

std::string last_line;
int last_level;

TEST(Base, log_lines_go_where_they_are_sent) {
    sdma_log_to([](int level, const char *line) {
        last_level = level;
        last_line = line;
    });
    sdma::log(2, "rank %d has %s", 3, "it");
    EXPECT_EQ("rank 3 has it", last_line);
    EXPECT_EQ(2, last_level);
    const std::string endless(10000, 'x');
    sdma::log(0, "%s", endless.c_str());
    EXPECT_LT(last_line.size(), endless.size());
    sdma_log_to(nullptr);
    testing::internal::CaptureStderr();
    sdma::log(1, "not shown");
    sdma::log(0, "shown");
    EXPECT_EQ("mpi-sdma: shown\n", testing::internal::GetCapturedStderr());
}

TEST(Layout, parts_do_not_overlap_and_lines_are_not_shared_with_peers) {
    for (uint32_t size : {2u, 3u, 8u, 9u, 128u})
        for (uint32_t depth : {1u, 2u, 16u}) {
            const sdma::team::Layout layout{size, depth};
            std::set<size_t> words;
            for (uint32_t slot = 0; slot < depth; slot++) {
                EXPECT_EQ(0u, layout.slot(slot) % sdma::team::line);
                for (uint32_t p = 0; p < size; p++) {
                    EXPECT_TRUE(words.insert(layout.arrival(slot, p)).second);
                    EXPECT_TRUE(words.insert(layout.departure(slot, p)).second);
                    EXPECT_GE(layout.arrival(slot, p) / sdma::team::line,
                              (layout.slot(slot) + layout.blocks_at() + size * sizeof(sdma::team::Block_words) - 1) /
                                  sdma::team::line);
                    EXPECT_LE(layout.departure(slot, p) + 8, layout.slot(slot) + layout.slot_bytes());
                    EXPECT_NE(layout.arrival(slot, p) / sdma::team::line, layout.departure(slot, 0) / sdma::team::line);
                }
            }
            EXPECT_LE(*words.rbegin() + 8, layout.bytes());
        }
    // The budget of host memory: far below it.
    EXPECT_LT(8 * sdma::team::Layout({8, 16}).bytes(), 64u << 10);
}

TEST(Shape, ends_and_overflows) {
    sdma::team::Shape shape;
    shape.size = 4;
    shape.block_bytes = 10;
    uint64_t end;
    EXPECT_TRUE(shape.send_end(end));
    EXPECT_EQ(40u, end);
    shape.kind = SDMA_ALLGATHER;
    EXPECT_TRUE(shape.send_end(end));
    EXPECT_EQ(10u, end);
    EXPECT_TRUE(shape.recv_end(end));
    EXPECT_EQ(40u, end);
    shape.in_place = true;
    shape.rank = 2;
    EXPECT_EQ(20u, shape.send(3).offset);
    shape.recv_blocks = {{0, 0}, {50, 1}, {1000, 0}, {7, 7}};
    EXPECT_TRUE(shape.recv_end(end));
    EXPECT_EQ(51u, end);
    shape.recv_blocks[2] = {SIZE_MAX, 1};
    EXPECT_FALSE(shape.recv_end(end));
    shape.recv_blocks.clear();
    shape.block_bytes = SIZE_MAX / 3;
    EXPECT_FALSE(shape.recv_end(end));
}

} // namespace
