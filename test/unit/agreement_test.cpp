// SPDX-License-Identifier: BSD-3-Clause
//
// Set-up of teams and the agreement on each call: served on all ranks or declined on all, before
// any byte moves, however far the ranks are apart.
#include <fcntl.h>

#include <map>

#include "test/support/ranks.hpp"

using namespace ranks;
using sdma::params;

namespace {

// ---- set-up --------------------------------------------------------------------------------------

TEST(Set_up, host_only_job_pays_one_exchange_and_nothing_else) {
    World world(4);
    world.run_raw([](Rank &rank) {
        rank.loaded = false;
        EXPECT_EQ(SDMA_DECLINED, rank.set_up(rank.main, rank.world.board, rank.rank));
        EXPECT_EQ(SDMA_REASON_no_runtime, rank.main.team->reason());
        EXPECT_EQ(-1, rank.context->memory().fd());
        EXPECT_EQ(nullptr, rank.context->memory().open_runtime());
    });
    EXPECT_EQ(1u, world.board.exchanges());
}

TEST(Set_up, a_rank_without_runtime_makes_calls_decline_until_it_has_one) {
    World world(3);
    world.run_raw([](Rank &rank) {
        if (rank.rank == 1)
            rank.loaded = false;
        ASSERT_EQ(SDMA_OK, rank.set_up(rank.main, rank.world.board, rank.rank));
        char host[3 * 16];
        char *send = rank.gpu->allocate(0, 3 * 16), *recv = rank.gpu->allocate(0, 3 * 16);
        auto op = rank.start(rank.rank == 1 ? alltoall(host, host, 16) : alltoall(send, recv, 16));
        EXPECT_EQ(SDMA_DECLINED, Rank::finish(*op));
        EXPECT_EQ(rank.rank == 1 ? SDMA_REASON_no_runtime : SDMA_REASON_peer_declined, op->reason());
        rank.loaded = true;
        rank.world.barrier.wait();
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 16, 0));
        rank.world.barrier.wait();
    });
    EXPECT_EQ(2u, world.board.exchanges());
}

TEST(Set_up, one_rank_is_no_team) {
    World world(1);
    world.run_raw([](Rank &rank) {
        EXPECT_EQ(SDMA_DECLINED, rank.set_up(rank.main, rank.world.board, 0));
        EXPECT_EQ(SDMA_REASON_single_rank, rank.main.team->reason());
    });
    EXPECT_EQ(0u, world.board.exchanges());
}

// Words of the announcement.
enum Word { magic, version, slots, boot_id, pid_namespace = 5, pid, start_time, instance, process_fd, team_fd, loaded };

// An exchange that is on its way reads and writes when the team is gone.
TEST(Set_up, what_an_exchange_uses_outlives_the_team) {
    static const uint64_t *sent;
    static void *received; // found by who looks for leaks
    static size_t bytes;
    const sdma_bootstrap_t bootstrap{0, 2, nullptr,
                                     [](void *, const void *mine, void *all, size_t size) {
                                         sent = static_cast<const uint64_t *>(mine);
                                         received = all;
                                         bytes = size;
                                         return 0;
                                     },
                                     [](void *) { return 0; }};
    World world(1);
    world.run_raw([&](Rank &rank) {
        alignas(sdma::team::Team) std::byte place[sizeof(sdma::team::Team)];
        auto *team = new (place) sdma::team::Team(rank.context->memory(), bootstrap, SDMA_REASON_none);
        EXPECT_EQ(SDMA_PENDING, team->test());
        const uint64_t said = sent[magic];
        team->~Team();
        memset(place, 0x55, sizeof place);
        EXPECT_EQ(said, sent[magic]);
        memset(received, 0x55, 2 * bytes);
    });
}

struct Spoil {
    const char *name;
    Word word;
    uint64_t value;
    sdma_reason_t reason;
};

class Spoilt : public testing::TestWithParam<Spoil> {};

TEST_P(Spoilt, announcement_switches_the_team_off_on_all_ranks) {
    World world(3);
    world.board.spoil = [](int rank, void *message) {
        if (rank == 2)
            static_cast<uint64_t *>(message)[GetParam().word] = GetParam().value;
    };
    std::atomic<int> with_reason{0};
    world.run_raw([&](Rank &rank) {
        EXPECT_EQ(SDMA_DECLINED, rank.set_up(rank.main, rank.world.board, rank.rank));
        with_reason += rank.main.team->reason() == GetParam().reason;
        rank.world.barrier.wait();
    });
    EXPECT_EQ(3, with_reason);
}

INSTANTIATE_TEST_SUITE_P(Announcements, Spoilt,
                         testing::Values(Spoil{"magic", magic, 1, SDMA_REASON_version},
                                         Spoil{"version", version, 77, SDMA_REASON_version},
                                         Spoil{"slots", slots, 3, SDMA_REASON_mismatch},
                                         Spoil{"other_node", boot_id, 5, SDMA_REASON_peer_segment},
                                         Spoil{"pid_namespace", pid_namespace, 5, SDMA_REASON_peer_segment},
                                         Spoil{"pid", pid, 0x7fffffff, SDMA_REASON_peer_segment},
                                         Spoil{"start_time", start_time, 1, SDMA_REASON_peer_segment},
                                         Spoil{"instance", instance, 1u << 30, SDMA_REASON_peer_segment},
                                         Spoil{"process_fd", process_fd, 0, SDMA_REASON_peer_segment},
                                         Spoil{"no_such_fd", team_fd, 99999, SDMA_REASON_peer_segment},
                                         Spoil{"team_fd", team_fd, 1, SDMA_REASON_peer_segment}),
                         [](const auto &info) { return std::string(info.param.name); });

// ---- refusals ------------------------------------------------------------------------------------

struct Refusal {
    const char *name;
    sdma_reason_t own;   // of the odd rank
    sdma_reason_t other; // of all others
    void (*spoil)(Rank &rank, sdma_desc_t &desc);
};

char host_memory[4096];

const Refusal refusals[] = {
    {"host_receive", SDMA_REASON_host_buffer, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.recv = host_memory; }},
    {"host_send", SDMA_REASON_host_buffer, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.send = host_memory; }},
    {"pinned_host", SDMA_REASON_host_buffer, SDMA_REASON_peer_declined,
     [](Rank &rank, sdma_desc_t &desc) {
         desc.send = rank.gpu->allocate(0, 4096, nullptr, sdma::gpu::Memory_kind::pinned_host);
     }},
    {"managed", SDMA_REASON_memory_kind, SDMA_REASON_peer_declined,
     [](Rank &rank, sdma_desc_t &desc) {
         desc.recv = rank.gpu->allocate(0, 4096, nullptr, sdma::gpu::Memory_kind::unsupported);
     }},
    {"two_gpus", SDMA_REASON_mixed_devices, SDMA_REASON_peer_declined,
     [](Rank &rank, sdma_desc_t &desc) { desc.send = rank.gpu->allocate(1, 4096); }},
    {"datatype", SDMA_REASON_datatype, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.refused = SDMA_REASON_datatype; }},
    {"rectangle", SDMA_REASON_datatype, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.layout = SDMA_RECTANGLE; }},
    {"unknown_kind", SDMA_REASON_datatype, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.kind = static_cast<sdma_kind_t>(3); }},
    {"in_place", SDMA_REASON_in_place, SDMA_REASON_peer_declined, [](Rank &, sdma_desc_t &desc) { desc.in_place = 1; }},
    {"empty", SDMA_REASON_empty, SDMA_REASON_peer_declined, [](Rank &, sdma_desc_t &desc) { desc.block_bytes = 0; }},
    {"beyond_the_end", SDMA_REASON_too_large, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.block_bytes = 4096 / 3 + 1; }},
    {"overflow", SDMA_REASON_too_large, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.block_bytes = SIZE_MAX / 2; }},
    {"null", SDMA_REASON_host_buffer, SDMA_REASON_peer_declined,
     [](Rank &, sdma_desc_t &desc) { desc.recv = nullptr; }},
    {"size", SDMA_REASON_mismatch, SDMA_REASON_mismatch, [](Rank &, sdma_desc_t &desc) { desc.block_bytes--; }},
    {"kind", SDMA_REASON_mismatch, SDMA_REASON_mismatch, [](Rank &, sdma_desc_t &desc) { desc.kind = SDMA_ALLGATHER; }},
    {"pair_size", SDMA_REASON_mismatch, SDMA_REASON_mismatch,
     [](Rank &, sdma_desc_t &desc) {
         static const sdma_block_t blocks[3] = {{0, 100}, {200, 99}, {400, 100}};
         desc.send_blocks = blocks;
     }},
    {"pin", SDMA_REASON_pin_failed, SDMA_REASON_peer_declined,
     [](Rank &rank, sdma_desc_t &) { rank.gpu->faults.fail_pin = true; }},
    {"attach", SDMA_REASON_attach_failed, SDMA_REASON_attach_failed,
     [](Rank &rank, sdma_desc_t &) { rank.gpu->faults.fail_attach = true; }},
};

class Refused : public testing::TestWithParam<std::tuple<Refusal, int>> {};

TEST_P(Refused, on_all_ranks_before_any_byte_moves_and_the_next_call_is_served) {
    const auto &[refusal, odd] = GetParam();
    World world(3, 2);
    world.run([&](Rank &rank) {
        char *send = rank.gpu->allocate(0, 4096), *recv = rank.gpu->allocate(0, 4096);
        memset(recv, 0x44, 4096);
        sdma_desc_t desc = alltoall(send, recv, 100);
        if (rank.rank == odd)
            refusal.spoil(rank, desc);
        auto op = rank.start(desc);
        EXPECT_EQ(SDMA_DECLINED, Rank::finish(*op));
        EXPECT_EQ(rank.rank == odd ? refusal.own : refusal.other, op->reason()) << sdma_reason_name(op->reason());
        rank.world.barrier.wait();
        for (size_t i = 0; i < 4096; i++)
            ASSERT_EQ(0x44, recv[i]);
        rank.gpu->faults.fail_pin = rank.gpu->faults.fail_attach = false;
        for (uint64_t round = 0; round < 20; round++) // all slots once
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, round));
    });
}

INSTANTIATE_TEST_SUITE_P(Calls, Refused, testing::Combine(testing::ValuesIn(refusals), testing::Values(0, 2)),
                         [](const auto &info) {
                             return std::string(std::get<0>(info.param).name) + "_of_" +
                                    std::to_string(std::get<1>(info.param));
                         });

TEST(Calls, the_switch_declines_on_all_ranks) {
    World world(2);
    const uint64_t before = counter("declined_disabled");
    world.run([&](Rank &rank) {
        char *memory = rank.gpu->allocate(0, 64);
        EXPECT_EQ(SDMA_OK, rank.run(allgather(memory, memory + 8, 8)));
        rank.world.barrier.wait();
        if (rank.rank == 0)
            params().enable = false;
        rank.world.barrier.wait();
        EXPECT_EQ(SDMA_DECLINED, rank.run(allgather(memory, memory + 8, 8)));
        rank.world.barrier.wait();
        if (rank.rank == 0)
            params().enable = true;
        rank.world.barrier.wait();
        EXPECT_EQ(SDMA_OK, rank.run(allgather(memory, memory + 8, 8)));
    });
    EXPECT_EQ(before + 2, counter("declined_disabled"));
}

// ---- slots ---------------------------------------------------------------------------------------

TEST(Slots, thousand_calls_with_a_slow_rank) {
    World world(3);
    world.run([&](Rank &rank) {
        char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
        for (uint64_t round = 0; round < 1000; round++) {
            if (rank.rank == 2 && round % 50 == 0)
                for (int i = 0; i < 200; i++)
                    std::this_thread::yield();
            sdma_desc_t desc = alltoall(send, recv, round % 7 == 0 ? 0 : 100);
            if (round % 3 == 0 && rank.rank == static_cast<int>(round / 3 % 3))
                desc.send = host_memory;
            const bool served = round % 7 != 0 && round % 3 != 0;
            if (served)
                EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, round));
            else
                EXPECT_EQ(SDMA_DECLINED, rank.run(desc));
        }
    });
}

TEST(Teams, two_in_crossed_order) {
    World world(4);
    Board board(4);
    world.run([&](Rank &rank) {
        Team other;
        ASSERT_EQ(SDMA_OK, rank.set_up(other, board, rank.size - 1 - rank.rank)); // ranks in reverse
        char *send = rank.gpu->allocate(0, 800), *recv = rank.gpu->allocate(0, 800);
        for (int round = 0; round < 50; round++) {
            memset(send, round, 800);
            memset(recv, 0x55, 800);
            Team &one = rank.rank % 2 ? rank.main : other, &two = rank.rank % 2 ? other : rank.main;
            const auto half = [&](const Team &team) { return &team == &rank.main ? 0 : 400; };
            auto first = rank.start(one, alltoall(send + half(one), recv + half(one), 100));
            auto second = rank.start(two, alltoall(send + half(two), recv + half(two), 100));
            // The caller's progress tests all that is active.
            until([&] { return (first->test() != SDMA_PENDING) & (second->test() != SDMA_PENDING); });
            EXPECT_EQ(SDMA_OK, first->test());
            EXPECT_EQ(SDMA_OK, second->test());
            for (size_t i = 0; i < 800; i++)
                ASSERT_EQ(round, recv[i]);
            rank.world.barrier.wait();
        }
        rank.world.barrier.wait();
        rank.take_down(other);
    });
}

TEST(Teams, thousand_of_them_leave_nothing) {
    World world(2);
    const auto open_files = [] {
        size_t files = 0;
        for (int fd = 0; fd < 4096; fd++)
            files += fcntl(fd, F_GETFD) >= 0;
        return files;
    };
    std::vector<std::unique_ptr<Board>> boards;
    for (int i = 0; i < 1000; i++)
        boards.push_back(std::make_unique<Board>(2));
    size_t files = 0;
    world.run([&](Rank &rank) {
        char *send = rank.gpu->allocate(0, 64), *recv = rank.gpu->allocate(0, 64);
        for (size_t i = 0; i < boards.size(); i++) {
            Team team;
            ASSERT_EQ(SDMA_OK, rank.set_up(team, *boards[i], rank.rank));
            auto op = rank.start(team, alltoall(send, recv, 32));
            EXPECT_EQ(SDMA_OK, Rank::finish(*op));
            op.reset();
            rank.take_down(team);
            rank.world.barrier.wait();
            if (rank.rank == 0 && i == 10)
                files = open_files();
            if (rank.rank == 0 && i == 990) {
                EXPECT_EQ(files, open_files());
            }
            rank.world.barrier.wait();
        }
        EXPECT_EQ(0, rank.gpu->pins());
    });
}

// ---- what is said ----------------------------------------------------------------------------

std::mutex said_mutex;
std::map<std::string, int> said; // lines of level 1 about declined calls, and how often each came

TEST(Declined, said_once_per_team_and_reason) {
    said.clear();
    sdma_log_to([](int level, const char *line) {
        std::lock_guard lock(said_mutex);
        if (level == 1 && strstr(line, " declined: "))
            said[line]++;
    });
    World world(2);
    world.run([](Rank &rank) {
        char host[2 * 16];
        char *send = rank.gpu->allocate(0, 2 * 16), *recv = rank.gpu->allocate(0, 2 * 16);
        for (int again = 0; again < 3; again++) {
            EXPECT_EQ(SDMA_DECLINED, rank.run(alltoall(host, rank.rank == 0 ? host : recv, 16)));
            EXPECT_EQ(SDMA_DECLINED, rank.run(allgather(send, recv, 0)));
            rank.world.barrier.wait();
        }
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 16, 0));
        rank.world.barrier.wait();
    });
    sdma_log_to(nullptr);
    std::map<std::string, int> expected;
    for (const char *rank : {"rank 0 of 2: ", "rank 1 of 2: "}) {
        const std::string end = "; later ones are counted only";
        expected[std::string(rank) + "alltoall declined: host_buffer (a buffer is host memory)" + end] = 1;
        expected[std::string(rank) + "allgather declined: empty (no bytes to move)" + end] = 1;
    }
    EXPECT_EQ(expected, said);
}

} // namespace
