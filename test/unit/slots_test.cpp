// SPDX-License-Identifier: BSD-3-Clause
//
// Reuse of slots and what arrival words count. Built once as it should be, and once with each of two
// deliberate mistakes, which the tests must then find.
#include "test/support/ranks.hpp"

using namespace ranks;
using sdma::params;

namespace {

#ifdef SDMA_MUTANT_EARLY_REUSE
constexpr bool early_reuse = true;
#else
constexpr bool early_reuse = false;
#endif
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
constexpr bool summed_arrival = true;
#else
constexpr bool summed_arrival = false;
#endif

void judge(int violations, bool mistaken) {
    if (mistaken)
        EXPECT_GT(violations, 0) << "the deliberate mistake was not found";
    else
        EXPECT_EQ(0, violations);
}

TEST(Slots, a_rank_runs_ahead_as_far_as_there_are_slots) {
    With slots(params().slots, 3);
    char host[16];
    World world(2);
    int too_early = 0;
    world.run([&](Rank &rank) {
        std::vector<std::unique_ptr<sdma::op::Op>> ops;
        const auto start = [&] { ops.push_back(rank.start(alltoall(host, host, 8))); };
        if (rank.rank == 0) {
            for (int i = 0; i < 4; i++)
                start();
            for (int i = 0; i < 3; i++)
                EXPECT_EQ(SDMA_DECLINED, ops[static_cast<size_t>(i)]->test());
            for (int i = 0; i < 1000; i++)
                too_early += ops[3]->test() != SDMA_PENDING; // before the peer is done with the slot
        }
        rank.world.barrier.wait();
        if (rank.rank == 1) {
            start();
            EXPECT_EQ(SDMA_DECLINED, ops[0]->test());
        }
        rank.world.barrier.wait();
        if (rank.rank == 0) {
            EXPECT_EQ(SDMA_DECLINED, ops[3]->test());
        } else {
            for (int i = 0; i < 3; i++) {
                start();
                EXPECT_EQ(SDMA_DECLINED, Rank::finish(*ops.back()));
            }
        }
    });
    judge(too_early, early_reuse);
}

// A fast peer's next operation must not complete this one in the place of a slow peer.
TEST(Slots, arrivals_of_the_next_operation_count_for_that_one_only) {
    With_loadstore_max loadstore(0);
    World world(3);
    std::atomic<int> too_early{0};
    world.run([&](Rank &rank) {
        constexpr size_t bytes = 64, all = 3 * bytes;
        char *send = rank.gpu->allocate(0, 2 * all), *recv = rank.gpu->allocate(0, 2 * all);
        memset(send, 0x77, 2 * all);
        for (int round = 0; round < 3; round++)
            ASSERT_EQ(SDMA_OK, rank.run(alltoall(send, recv, bytes))); // no verdicts from here on
        memset(recv, 0, 2 * all);
        rank.world.barrier.wait();
        auto first = rank.start(alltoall(send, recv, bytes));
        auto second = rank.start(alltoall(send + all, recv + all, bytes));
        rank.world.barrier.wait();
        // Rank 2 has offered both and does no more. The others send both, one after the other.
        for (int sender : {1, 0}) {
            for (int i = 0; rank.rank == sender && i < 20000; i++) {
                too_early += first->test() != SDMA_PENDING; // without the data of rank 2
                too_early += second->test() != SDMA_PENDING;
                std::this_thread::yield();
            }
            rank.world.barrier.wait();
        }
        EXPECT_EQ(SDMA_OK, Rank::finish(*first));
        EXPECT_EQ(SDMA_OK, Rank::finish(*second));
        for (size_t i = 0; !summed_arrival && i < 2 * all; i++)
            ASSERT_EQ(0x77, recv[i]);
    });
    judge(too_early, summed_arrival);
}

} // namespace
