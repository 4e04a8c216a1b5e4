// SPDX-License-Identifier: BSD-3-Clause
//
// A rank runs out of memory at the n-th allocation of an operation, for every n: the operation ends on all ranks, and
// so do later ones.
#include <cstdlib>
#include <new>

#include "test/support/ranks.hpp"

namespace {

thread_local int until_none = 0; // this thread's allocations up to the one that is refused; 0: none is

} // namespace

// Not inlined: GCC takes a malloc there for one that delete knows nothing of.
[[gnu::noinline]] void *operator new(size_t bytes) {
    if (until_none > 0 && --until_none == 0)
        throw std::bad_alloc();
    if (void *memory = std::malloc(bytes))
        return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

using namespace ranks;

namespace {

class Exhaustion : public testing::TestWithParam<bool> {};

// The parameter: peers have been mapped and confirmed before, so that nothing is said after the offers.
TEST_P(Exhaustion, ends_operations_on_all_ranks) {
    With_loadstore_max loadstore(0);
    sdma_log_to([](int, const char *) {});
    int served = 0, others = 0;
    for (int n = 1; served == 0; n++) {
        World world(3);
        world.run([&](Rank &rank) {
            char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
            if (GetParam()) {
                ASSERT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 0));
            }
            for (int p = 0; p < rank.size; p++)
                fill(send + p * 100, rank.rank, p, 100, 1);
            rank.world.barrier.wait();
            if (rank.rank == 0)
                until_none = n;
            std::optional<sdma::op::Op> op;
            op.emplace(*rank.context, *rank.main.team, alltoall(send, recv, 100));
            const sdma_status_t status = Rank::finish(*op);
            const bool refused = std::exchange(until_none, 0) == 0;
            op.reset();
            if (status == SDMA_OK)
                for (int p = 0; p < rank.size; p++)
                    matches(recv + p * 100, p, rank.rank, 100, 1);
            if (rank.rank == 0)
                (refused ? others : served)++;
            EXPECT_NE(SDMA_PENDING, rank.run(alltoall(send, recv, 100)));
        });
        ASSERT_FALSE(HasFailure()) << "allocation " << n;
    }
    sdma_log_to(nullptr);
    EXPECT_GT(others, 5);
}

INSTANTIATE_TEST_SUITE_P(Operations, Exhaustion, testing::Bool(),
                         [](const auto &info) { return std::string(info.param ? "later" : "first"); });

} // namespace
