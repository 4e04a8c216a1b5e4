// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives among ranks on a fake node: the right bytes, or all decline.
#include "test/support/ranks.hpp"

using namespace ranks;
using sdma::params;

namespace {

enum class Way { engines, loadstore, kernel_signals, host, fence, no_queues };

class Moves : public testing::TestWithParam<std::tuple<int, Way>> {
protected:
    Moves()
        : loadstore_max_(way() == Way::loadstore || way() == Way::kernel_signals ? size_t{1} << 40 : size_t{0}),
          initiator_(params().initiator, way() == Way::host ? "host" : "gpu"),
          signal_(params().signal, way() == Way::fence ? "fence" : "auto"), chunk_(params().chunk_max, size_t{4096}) {}
    static int size() { return std::get<0>(GetParam()); }
    static Way way() { return std::get<1>(GetParam()); }
    static void prepare(Rank &rank) {
        rank.gpu->faults.no_queues = way() == Way::no_queues;
        rank.gpu->faults.coherent_stores = way() == Way::kernel_signals;
        rank.gpu->faults.chaos = way() == Way::engines ? 1 : 0;
    }
    With_loadstore_max loadstore_max_;
    With<const char *> initiator_, signal_;
    With<size_t> chunk_;
};

constexpr size_t sizes[] = {1, 3, 64, 4095, 4097, 20001};

TEST_P(Moves, alltoall_of_odd_sizes_at_odd_places) {
    World world(size());
    world.run([](Rank &rank) {
        prepare(rank);
        const size_t room = 8 + static_cast<size_t>(rank.size) * 20001;
        char *send = rank.gpu->allocate(0, room + 16), *recv = rank.gpu->allocate(0, room + 16);
        uint64_t round = 0;
        for (size_t bytes : sizes)
            for (int again = 0; again < 2; again++, round++) {
                memset(recv, 0x33, room + 16);
                // Offsets differ from rank to rank.
                char *to = recv + 1 + rank.rank % 5;
                EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send + 3, to, bytes, round));
                for (char *p = recv; p < recv + room + 16; p++)
                    if ((p < to || p >= to + static_cast<size_t>(rank.size) * bytes) && *p != 0x33) {
                        ADD_FAILURE() << "byte " << p - to << " around the buffer was touched";
                        break;
                    }
            }
    });
    EXPECT_EQ(0, world.node.attached);
}

// Memory of a peer is on the peer's GPU, though it is mapped here.
TEST(Queues, are_those_to_the_gpu_where_the_memory_is) {
    const With_loadstore_max none(size_t{0});
    World world(3);
    world.run([](Rank &rank) {
        char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 0));
        EXPECT_EQ(rank.gpu->queues(), 3u); // fake engines: one for each of three peers
    });
}

TEST_P(Moves, allgather_in_place_or_not) {
    World world(size());
    world.run([](Rank &rank) {
        prepare(rank);
        const auto n = static_cast<size_t>(rank.size), me = static_cast<size_t>(rank.rank);
        char *send = rank.gpu->allocate(0, 20001), *recv = rank.gpu->allocate(0, n * 20001 + 1);
        uint64_t round = 0;
        for (size_t bytes : sizes)
            for (bool in_place : {false, true}) {
                char *to = recv + 1;
                memset(to, 0x55, n * bytes);
                sdma_desc_t desc = allgather(in_place ? nullptr : send, to, bytes);
                desc.in_place = in_place;
                fill(in_place ? to + me * bytes : send, rank.rank, 0, bytes, round);
                EXPECT_EQ(SDMA_OK, rank.run(desc));
                for (int p = 0; p < rank.size; p++)
                    matches(to + static_cast<size_t>(p) * bytes, p, 0, bytes, round);
                round++;
                rank.world.barrier.wait();
            }
    });
}

TEST_P(Moves, irregular_layouts_with_empty_blocks) {
    World world(size());
    world.run([](Rank &rank) {
        prepare(rank);
        const auto n = static_cast<size_t>(rank.size);
        char *send = rank.gpu->allocate(0, n * 5000), *recv = rank.gpu->allocate(0, n * 5000);
        // from -> to: some pairs move nothing; the last rank receives nothing at all.
        const auto length = [&](int from, int to, uint64_t round) {
            return to == rank.size - 1 ? size_t{0} : (static_cast<size_t>(from * 7 + to * 3) + round) % 5 * 777;
        };
        for (uint64_t round = 0; round < 5; round++) {
            std::vector<sdma_block_t> send_blocks(n), recv_blocks(n);
            for (int p = 0; p < rank.size; p++) {
                const auto at = static_cast<size_t>(p) * 5000;
                send_blocks[static_cast<size_t>(p)] = {at, length(rank.rank, p, round)};
                recv_blocks[static_cast<size_t>(p)] = {at + 1, length(p, rank.rank, round)};
                fill(send + at, rank.rank, p, length(rank.rank, p, round), round);
            }
            sdma_desc_t desc = alltoall(send, recv, 0);
            desc.send_blocks = send_blocks.data();
            desc.recv_blocks = recv_blocks.data();
            EXPECT_EQ(SDMA_OK, rank.run(desc));
            for (int p = 0; p < rank.size; p++)
                matches(recv + static_cast<size_t>(p) * 5000 + 1, p, rank.rank, length(p, rank.rank, round), round);
            // Then a regular one: what was mapped for the irregular one must do, or be mapped now.
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 99, round));
        }
    });
}

TEST_P(Moves, many_operations_in_flight) {
    World world(size());
    world.run([](Rank &rank) {
        prepare(rank);
        constexpr size_t bytes = 777, depth = 40; // more than there are slots
        const size_t all = static_cast<size_t>(rank.size) * bytes;
        char *send = rank.gpu->allocate(0, depth * all), *recv = rank.gpu->allocate(0, depth * all);
        for (uint64_t round = 0; round < 3; round++) {
            memset(recv, 0x55, depth * all);
            std::vector<std::unique_ptr<sdma::op::Op>> ops;
            for (size_t i = 0; i < depth; i++) {
                for (int p = 0; p < rank.size; p++)
                    fill(send + i * all + static_cast<size_t>(p) * bytes, rank.rank, p, bytes, round * depth + i);
                ops.push_back(rank.start(alltoall(send + i * all, recv + i * all, bytes)));
            }
            // Waited for in another order on each rank.
            const size_t first = static_cast<size_t>(rank.rank) * 11;
            until([&] {
                bool pending = false;
                for (size_t i = 0; i < depth; i++)
                    pending |= ops[(first + i) % depth]->test() == SDMA_PENDING;
                return !pending;
            });
            for (size_t i = 0; i < depth; i++) {
                EXPECT_EQ(SDMA_OK, ops[i]->test());
                for (int p = 0; p < rank.size; p++)
                    matches(recv + i * all + static_cast<size_t>(p) * bytes, p, rank.rank, bytes, round * depth + i);
            }
        }
    });
}

std::string case_name(const testing::TestParamInfo<std::tuple<int, Way>> &info) {
    constexpr const char *ways[] = {"engines", "loadstore", "kernel_signals", "host", "fence", "no_queues"};
    return std::to_string(std::get<0>(info.param)) + "_" + ways[static_cast<int>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(Ranks, Moves,
                         testing::Combine(testing::Values(2, 3, 4, 8),
                                          testing::Values(Way::engines, Way::loadstore, Way::kernel_signals, Way::host,
                                                          Way::fence, Way::no_queues)),
                         case_name);

} // namespace
