// SPDX-License-Identifier: BSD-3-Clause
//
// The C interface in a process without a GPU runtime: what a host-only job gets.
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "common/sdma/process.hpp"
#include "test/support/ranks.hpp"

using namespace ranks;

namespace {

TEST(Interface, team_of_a_host_only_job_is_dormant) {
    Board board(2);
    std::thread threads[2];
    for (int r = 0; r < 2; r++)
        threads[r] = std::thread([&board, r] {
            Board::Place place{&board, r};
            sdma_bootstrap_t bootstrap = board.bootstrap(place);
            sdma_team_t *team = nullptr;
            ASSERT_EQ(SDMA_OK, sdma_team_start(&bootstrap, &team));
            sdma_status_t status = SDMA_PENDING;
            until([&] { return (status = sdma_team_test(team)) != SDMA_PENDING; });
            EXPECT_EQ(SDMA_DECLINED, status);
            EXPECT_EQ(SDMA_REASON_no_runtime, sdma_team_reason(team));
            sdma_desc_t desc = alltoall(nullptr, nullptr, 8);
            sdma_op_t *op = nullptr;
            EXPECT_EQ(SDMA_ERROR, sdma_op_start(team, &desc, &op)); // not live
            EXPECT_EQ(nullptr, op);
            EXPECT_EQ(0, sdma_progress());
            sdma_team_free(team);
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(1u, board.exchanges());
    EXPECT_EQ(0, sdma_progress());
}

TEST(Interface, team_of_one_needs_no_exchange) {
    Board board(1);
    Board::Place place{&board, 0};
    sdma_bootstrap_t bootstrap = board.bootstrap(place);
    sdma_team_t *team = nullptr;
    EXPECT_EQ(SDMA_DECLINED, sdma_team_start(&bootstrap, &team));
    ASSERT_NE(nullptr, team);
    EXPECT_EQ(SDMA_DECLINED, sdma_team_test(team));
    EXPECT_EQ(SDMA_REASON_single_rank, sdma_team_reason(team));
    sdma_team_free(team);
    EXPECT_EQ(0u, board.exchanges());
    sdma_team_free(nullptr);
    sdma_op_free(nullptr);
}

TEST(Interface, host_memory_is_not_device_memory_and_is_copied) {
    char from[100], to[100] = {};
    memset(from, 7, sizeof from);
    EXPECT_EQ(0, sdma_is_device(from));
    EXPECT_EQ(0, sdma_is_device(nullptr));
    EXPECT_EQ(SDMA_OK, sdma_copy(to, from, sizeof to));
    EXPECT_EQ(0, memcmp(from, to, sizeof to));
    EXPECT_EQ(SDMA_OK, sdma_copy(nullptr, nullptr, 0));
}

// In a process of its own, which stays off.
TEST(Interface, a_fault_is_remembered_when_the_last_team_is_gone) {
    const auto fault = [] {
        sdma::Hold().context.fail();
        Board board(2);
        Board::Place place{&board, 0};
        sdma_bootstrap_t bootstrap = board.bootstrap(place);
        sdma_team_t *team = nullptr;
        const bool declined = sdma_team_start(&bootstrap, &team) == SDMA_DECLINED;
        sdma_team_free(team);
        std::exit(declined ? 0 : 1);
    };
    EXPECT_EXIT(fault(), testing::ExitedWithCode(0), "sdma is off for this process");
}

TEST(Interface, describes_itself_in_text_and_json) {
    char *text = sdma_describe(0), *json = sdma_describe(1);
    ASSERT_TRUE(text && json);
    const std::string in_text = text, in_json = json;
    free(text);
    free(json);
    EXPECT_NE(std::string::npos,
              in_text.find("runtime: none: " + std::string(sdma_reason_text(SDMA_REASON_no_runtime))));
    EXPECT_NE(std::string::npos, in_text.find("gpus:\n  none\n"));
    EXPECT_NE(std::string::npos, in_text.find("  slots: 16\n"));
    EXPECT_NE(std::string::npos, in_json.find("\"gpus\": []"));
    EXPECT_NE(std::string::npos, in_json.find("\"slots\": 16"));
    EXPECT_NE(std::string::npos, in_json.find("\"engine\": \"auto\""));
    size_t count;
    const sdma_param_t *rows = sdma_params(&count);
    for (size_t i = 0; i < count; i++)
        EXPECT_NE(std::string::npos, in_json.find('"' + std::string(rows[i].name) + "\": ")) << rows[i].name;
    // Brackets match and no comma is left over or missing: enough of JSON for what is written.
    std::string open;
    char last = 0;
    bool quoted = false;
    for (char c : in_json) {
        if (c == '"')
            quoted = !quoted;
        if (quoted || c == ' ' || c == '\n')
            continue;
        if (c == '{' || c == '[') {
            open += c;
        } else if (c == '}' || c == ']') {
            ASSERT_FALSE(open.empty());
            EXPECT_EQ(c == '}' ? '{' : '[', open.back());
            EXPECT_NE(',', last);
            open.pop_back();
        }
        last = c;
    }
    EXPECT_TRUE(open.empty());
}

} // namespace
