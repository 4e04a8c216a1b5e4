// SPDX-License-Identifier: BSD-3-Clause
//
// Registrations and attachments: memory that comes and goes, is evicted, or is at the same address
// again. A use after detach is a crash on the fake node, a stale mapping is wrong data.
#include <csignal>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sdma/memory/memory.hpp"
#include "test/support/ranks.hpp"

using namespace ranks;
using sdma::params;

namespace {

TEST(Attachments, freed_memory_is_let_go_of_at_the_next_progress) {
    World world(3);
    world.run([](Rank &rank) {
        char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 0));
        rank.world.barrier.wait();
        EXPECT_EQ(6, rank.world.node.attached); // everybody has mapped everybody's receive buffer
        rank.world.barrier.wait();
        if (rank.rank == 1)
            rank.gpu->free(recv);
        rank.world.barrier.wait();
        EXPECT_EQ(rank.rank == 1 ? 0 : 1, rank.context->memory().progress());
        EXPECT_EQ(0, rank.context->memory().progress());
        rank.world.barrier.wait();
        EXPECT_EQ(4, rank.world.node.attached);
        EXPECT_EQ(5u * 300, rank.world.node.charged());
        rank.world.barrier.wait();
        if (rank.rank == 1)
            recv = rank.gpu->allocate(0, 300);
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 1));
    });
}

TEST(Attachments, memory_that_an_operation_uses_stays_until_it_is_done) {
    With_loadstore_max loadstore(0);
    World world(2);
    world.run([](Rank &rank) {
        char *send = rank.gpu->allocate(0, 200), *recv = rank.gpu->allocate(0, 200);
        for (uint64_t round = 0; round < 2; round++)
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, round));
        rank.gpu->faults.stall_engines = rank.rank == 0;
        rank.world.barrier.wait();
        auto op = rank.start(alltoall(send, recv, 100));
        until([&] {
            op->test();
            return rank.gpu->launched >= 3 && (rank.rank == 0 || rank.gpu->idle()); // its own block is there
        });
        rank.world.barrier.wait();
        // A program error, but no reason to crash: rank 1's memory goes while rank 0 writes there.
        if (rank.rank == 1)
            rank.gpu->free(recv);
        rank.world.barrier.wait();
        EXPECT_EQ(0, rank.context->memory().progress());
        EXPECT_EQ(2, rank.world.node.attached);
        rank.world.barrier.wait();
        rank.gpu->faults.stall_engines = false;
        EXPECT_EQ(SDMA_OK, Rank::finish(*op));
        EXPECT_EQ(rank.rank == 0 ? 1 : 0, rank.context->memory().progress());
    });
}

TEST(Attachments, the_same_address_with_other_memory_behind_it) {
    for (bool other_size : {false, true}) {
        World world(3);
        world.run([&](Rank &rank) {
            rank.gpu->faults.one_mapping = true;
            char *send = rank.gpu->allocate(0, 3000), *recv = rank.gpu->allocate(0, 3000);
            for (uint64_t round = 0; round < 30; round++) {
                EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 1000, round));
                if (static_cast<int>(round % 4) <= rank.rank) {
                    rank.gpu->free(recv, true);
                    ASSERT_EQ(recv, rank.gpu->allocate(0, other_size ? 3000 + round : 3000, recv));
                }
            }
            rank.world.barrier.wait();
            rank.context->memory().progress();
            rank.world.barrier.wait();
            EXPECT_LE(rank.world.node.attached, 6);
            EXPECT_LE(rank.world.node.charged(), 6u * 3100);
        });
    }
}

// As above, and nothing has said that the memory was freed: only what describes it tells.
TEST(Attachments, the_same_address_though_no_free_was_heard_of) {
    World world(3);
    world.run([](Rank &rank) {
        rank.gpu->faults.frees_unheard = true;
        char *send = rank.gpu->allocate(0, 3000), *recv = rank.gpu->allocate(0, 3000);
        for (uint64_t round = 0; round < 30; round++) {
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 1000, round));
            if (static_cast<int>(round % 4) <= rank.rank) {
                rank.gpu->free(recv, true);
                ASSERT_EQ(recv, rank.gpu->allocate(0, 3000, recv));
            }
        }
    });
}

TEST(Attachments, memory_does_not_grow_over_many_buffers) {
    World world(2);
    world.run([](Rank &rank) {
        char *send = rank.gpu->allocate(0, 1 << 16);
        for (uint64_t round = 0; round < 3000; round++) {
            char *recv = rank.gpu->allocate(0, 100 + round % 977);
            ASSERT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 50, round));
            rank.world.barrier.wait();
            rank.gpu->free(recv);
            if (round % 100 == 99) {
                rank.world.barrier.wait();
                rank.context->memory().progress();
                rank.world.barrier.wait();
                EXPECT_EQ(0, rank.world.node.attached);
                EXPECT_LE(rank.world.node.charged(), 2u << 16);
                rank.world.barrier.wait();
            }
        }
    });
}

TEST(Attachments, bounds_push_idle_ones_out) {
    With entries(params().attach_entries, size_t{1});
    World world(4);
    std::atomic<int> most{0};
    world.run([&](Rank &rank) {
        std::vector<std::pair<char *, char *>> buffers;
        for (int i = 0; i < 5; i++)
            buffers.emplace_back(rank.gpu->allocate(0, 400), rank.gpu->allocate(0, 400));
        for (uint64_t round = 0; round < 60; round++) {
            // The same one for a while, then others.
            auto [send, recv] = buffers[round < 20 ? round / 10 : round % buffers.size()];
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, round));
            most = std::max(most.load(), rank.world.node.attached.load());
        }
    });
    // One operation needs 3 per rank; a rank may be one operation ahead of another.
    EXPECT_LE(most, 4 * 3 * 2);
}

// Nothing idle is in the way there: to let go of what every call needs would only cost time.
TEST(Attachments, a_call_that_needs_more_than_the_bounds_maps_it_once) {
    With bytes(params().attach_bytes, size_t{100});
    World world(3);
    const uint64_t attached = counter("attached");
    world.run([](Rank &rank) {
        char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
        for (uint64_t round = 0; round < 10; round++)
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, round));
    });
    EXPECT_EQ(attached + 6, counter("attached"));
}

// A rank that lets go while others, far ahead, count on what they have agreed on.
TEST(Attachments, eviction_under_operations_in_flight) {
    With entries(params().attach_entries, size_t{5});
    With slots(params().slots, 8);
    const uint64_t detached = counter("detached");
    World world(3);
    Board board(3);
    world.run([&](Rank &rank) {
        Team other; // fills the cache from the side, now and then
        ASSERT_EQ(SDMA_OK, rank.set_up(other, board, rank.rank));
        constexpr size_t bytes = 100, all = 300;
        std::vector<std::pair<char *, char *>> buffers;
        for (int i = 0; i < 6; i++)
            buffers.emplace_back(rank.gpu->allocate(0, all), rank.gpu->allocate(0, all));
        std::mt19937 random(static_cast<unsigned>(rank.rank));
        for (uint64_t round = 0; round < 100; round++) {
            std::vector<std::unique_ptr<sdma::op::Op>> ops;
            for (size_t i = 0; i < 6; i++) {
                auto [send, recv] = buffers[i];
                for (int p = 0; p < rank.size; p++)
                    fill(send + static_cast<size_t>(p) * bytes, rank.rank, p, bytes, round * 6 + i);
                ops.push_back(
                    rank.start(i % 3 == 2 && round % 4 == 0 ? other : rank.main, alltoall(send, recv, bytes)));
                for (unsigned polls = random() % 20; polls > 0; polls--)
                    for (auto &op : ops)
                        op->test();
            }
            for (size_t i = 0; i < 6; i++) {
                until([&] {
                    for (auto &op : ops)
                        op->test();
                    return ops[i]->test() != SDMA_PENDING;
                });
                EXPECT_EQ(SDMA_OK, ops[i]->test()) << sdma_reason_name(ops[i]->reason());
                for (int p = 0; p < rank.size; p++)
                    matches(buffers[i].second + static_cast<size_t>(p) * bytes, p, rank.rank, bytes, round * 6 + i);
            }
        }
        rank.world.barrier.wait();
        rank.take_down(other);
    });
    EXPECT_EQ(0, world.node.attached);
    EXPECT_GT(counter("detached"), detached + 300); // it did happen
}

TEST(Attachments, ranks_change_their_gpu) {
    World world(3, 2);
    world.run([](Rank &rank) {
        char *send[2], *recv[2];
        for (int d = 0; d < 2; d++) {
            send[d] = rank.gpu->allocate(d, 300);
            recv[d] = rank.gpu->allocate(d, 300);
        }
        for (uint64_t round = 0; round < 40; round++) {
            const int d = static_cast<int>(round >> rank.rank & 1);
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send[d], recv[d], 100, round));
        }
    });
}

TEST(Attachments, teams_share_them) {
    World world(2);
    Board board(2);
    world.run([&](Rank &rank) {
        Team other;
        ASSERT_EQ(SDMA_OK, rank.set_up(other, board, rank.rank));
        char *send = rank.gpu->allocate(0, 64), *recv = rank.gpu->allocate(0, 64);
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 32, 0));
        auto op = rank.start(other, alltoall(send, recv, 32));
        EXPECT_EQ(SDMA_OK, Rank::finish(*op));
        rank.world.barrier.wait();
        EXPECT_EQ(2, rank.world.node.attached);
        rank.world.barrier.wait();
        rank.take_down(rank.main); // the other still has it
        op = rank.start(other, alltoall(send, recv, 32));
        EXPECT_EQ(SDMA_OK, Rank::finish(*op));
        op.reset();
        rank.world.barrier.wait();
        EXPECT_EQ(2, rank.world.node.attached);
        rank.world.barrier.wait();
        rank.take_down(other);
    });
}

TEST(Registry, full_table_gives_up_the_idlest_and_keeps_what_is_in_use) {
    fake::Node node;
    fake::Runtime gpu(node, 0, 1);
    auto segment = sdma::memory::Segment::create("test", sizeof(sdma::memory::Process_table));
    auto &table = *segment.at<sdma::memory::Process_table>(0);
    sdma::memory::Registry registry(table, -1, 1);
    std::vector<sdma::memory::Registration> all(sdma::memory::table_entries + 10);
    for (size_t i = 0; i < all.size(); i++) {
        char *memory = gpu.allocate(0, 100 + i);
        ASSERT_EQ(SDMA_REASON_none, registry.acquire(gpu, gpu.classify(memory), all[i]));
        if (i != 0)
            registry.release(all[i]);
    }
    sdma::memory::Exported entry;
    EXPECT_TRUE(read_entry(table, all[0].id, all[0].generation, entry)); // in use
    EXPECT_EQ(100u, entry.bytes);
    for (size_t i = 1; i <= 10; i++)
        EXPECT_FALSE(read_entry(table, all[i].id, all[i].generation, entry));
    EXPECT_TRUE(read_entry(table, all[11].id, all[11].generation, entry));
    EXPECT_FALSE(read_entry(table, all[11].id, all[11].generation + 1, entry));
    EXPECT_TRUE(read_entry(table, all.back().id, all.back().generation, entry));
    EXPECT_EQ(10u, table.retired.load());
    EXPECT_EQ(all[0].base, registry.address(all[0].id));
    EXPECT_EQ(nullptr, registry.address(all[1].id));
}

TEST(Registry, all_entries_in_use_is_a_refusal) {
    fake::Node node;
    fake::Runtime gpu(node, 0, 1);
    auto segment = sdma::memory::Segment::create("test", sizeof(sdma::memory::Process_table));
    sdma::memory::Registry registry(*segment.at<sdma::memory::Process_table>(0), segment.fd(), 1);
    sdma::memory::Registration one;
    for (size_t i = 0; i < sdma::memory::table_entries; i++)
        ASSERT_EQ(SDMA_REASON_none, registry.acquire(gpu, gpu.classify(gpu.allocate(0, 8)), one));
    sdma::memory::Registration more;
    EXPECT_EQ(SDMA_REASON_no_memory, registry.acquire(gpu, gpu.classify(gpu.allocate(0, 8)), more));
    EXPECT_EQ(0u, more.id);
    registry.release(one);
    EXPECT_EQ(SDMA_REASON_none, registry.acquire(gpu, gpu.classify(gpu.allocate(0, 8)), more));
}

TEST(Segments, refuse_what_is_not_a_sealed_segment_of_that_size) {
    const auto self = sdma::memory::new_identity();
    auto segment = sdma::memory::Segment::create("test", 5000);
    const auto fd = static_cast<uint64_t>(segment.fd());
    EXPECT_TRUE(sdma::memory::Segment::open(self, fd, 5000, true));
    EXPECT_FALSE(sdma::memory::Segment::open(self, fd, 9000, true));
    EXPECT_FALSE(sdma::memory::Segment::open(self, fd, 100, true));
    const int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
    ASSERT_EQ(0, ftruncate(unsealed, 8192));
    EXPECT_FALSE(sdma::memory::Segment::open(self, static_cast<uint64_t>(unsealed), 5000, true));
    close(unsealed);
    int pipes[2];
    ASSERT_EQ(0, pipe(pipes));
    EXPECT_FALSE(sdma::memory::Segment::open(self, static_cast<uint64_t>(pipes[0]), 5000, true)); // and does not block
    close(pipes[0]);
    close(pipes[1]);
    auto other = self;
    other.start_time++;
    EXPECT_FALSE(sdma::memory::Segment::open(other, fd, 5000, true));
}

TEST(Processes, that_cannot_be_looked_at_have_not_ended) {
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    const auto pid = static_cast<uint64_t>(child);
    const uint64_t start = sdma::memory::process_start_time(pid);
    EXPECT_FALSE(sdma::memory::process_ended(pid, start));
    EXPECT_TRUE(sdma::memory::process_ended(pid, start + 1));
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    const rlimit none{0, files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    EXPECT_FALSE(sdma::memory::process_ended(pid, start));
    setrlimit(RLIMIT_NOFILE, &files);
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
    EXPECT_TRUE(sdma::memory::process_ended(pid, start)); // a zombie
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(sdma::memory::process_ended(pid, start));
}

} // namespace
