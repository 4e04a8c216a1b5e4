// SPDX-License-Identifier: BSD-3-Clause
//
// What ends a wait that would not end by itself: stalled engines, kernels that fail, peers that die.
#include "test/support/played_peer.hpp"

using namespace ranks;
using sdma::params;

namespace {

class Log {
public:
    Log() {
        lines().clear();
        sdma_log_to([](int level, const char *line) {
            std::lock_guard lock(mutex());
            if (level == 0)
                lines().emplace_back(line);
        });
    }
    ~Log() { sdma_log_to(nullptr); }
    static size_t count(const char *text) {
        std::lock_guard lock(mutex());
        size_t found = 0;
        for (const std::string &line : lines())
            found += line.find(text) != std::string::npos;
        return found;
    }
    static std::string all() {
        std::lock_guard lock(mutex());
        std::string text;
        for (const std::string &line : lines())
            text += line + "\n";
        return text;
    }

private:
    static std::vector<std::string> &lines() {
        static std::vector<std::string> lines;
        return lines;
    }
    static std::mutex &mutex() {
        static std::mutex mutex;
        return mutex;
    }
};

struct Hardware {
    const char *name;
    std::atomic<bool> fake::Faults::*fault;
    size_t loadstore_max;
    const char *line;
};

class Hardware_fault : public testing::TestWithParam<Hardware> {};

TEST_P(Hardware_fault, ends_in_one_line_and_the_layer_is_off) {
    With timeout(params().hardware_timeout, 300);
    With_loadstore_max loadstore(GetParam().loadstore_max);
    Log log;
    World world(3);
    Board board(3);
    world.run([&](Rank &rank) {
        Team other;
        ASSERT_EQ(SDMA_OK, rank.set_up(other, board, rank.rank));
        char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
        ASSERT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 0));
        if (rank.rank == 1)
            rank.gpu->faults.*GetParam().fault = true;
        rank.world.barrier.wait();
        const auto begin = std::chrono::steady_clock::now();
        auto op = rank.start(alltoall(send, recv, 100));
        EXPECT_EQ(SDMA_ERROR, Rank::finish(*op));
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
        EXPECT_EQ(rank.rank == 1 ? SDMA_REASON_fault : SDMA_REASON_peer_fault, op->reason());
        EXPECT_EQ(rank.rank == 1, rank.context->faulted());
        rank.world.barrier.wait();
        // The queues are out of use before anybody heard of it: nothing happens when engines come back.
        memset(recv, 0x11, 300);
        rank.world.barrier.wait();
        rank.gpu->faults.*GetParam().fault = false;
        for (int i = 0; i < 1000; i++)
            std::this_thread::yield();
        rank.world.barrier.wait();
        // Later calls go another way, on every team of the faulty process.
        for (Team *team : {&rank.main, &other}) {
            auto later = rank.start(*team, alltoall(send, recv, 100));
            EXPECT_EQ(SDMA_DECLINED, Rank::finish(*later));
            if (rank.rank == 1) {
                EXPECT_EQ(SDMA_REASON_fault, later->reason());
            }
        }
        for (size_t i = 0; GetParam().fault == &fake::Faults::stall_engines && i < 300; i++)
            ASSERT_EQ(0x11, recv[i]);
        rank.world.barrier.wait();
        rank.take_down(other);
    });
    EXPECT_EQ(1u, Log::count(GetParam().line)) << Log::all();
    EXPECT_EQ(1u, Log::count("sdma is off for this process")) << Log::all();
    EXPECT_EQ(2u, Log::count("gets no data from rank 1: a peer reported a hardware fault")) << Log::all();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Hardware_fault,
    testing::Values(Hardware{"stalled_engine", &fake::Faults::stall_engines, 0,
                             "rank 1: operation 1, slot 1: no progress for"},
                    Hardware{"lost_signal", &fake::Faults::stall_before_signal, 0, "departure signal is 0, expected 1"},
                    Hardware{"kernel_never_starts", &fake::Faults::hold_launches, size_t{1} << 30,
                             "peer 2: load/store kernel, departure signal is 0, expected 1"},
                    Hardware{"kernel_fails", &fake::Faults::fail_launches, 0, "issue kernel ended with: failed"}),
    [](const auto &info) { return std::string(info.param.name); });

// What one peer does not send is no reason to give the buffer back while another one has yet to write there.
TEST(Hardware, of_one_peer_leaves_the_buffer_to_the_others) {
    With_loadstore_max loadstore(0);
    Log log;
    World world(3);
    std::atomic<bool> slow{true};
    world.run([&](Rank &rank) {
        char *send = rank.gpu->allocate(0, 300), *recv = rank.gpu->allocate(0, 300);
        ASSERT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 0));
        for (int p = 0; p < rank.size; p++)
            fill(send + p * 100, rank.rank, p, 100, 1);
        rank.gpu->faults.fail_launches = rank.rank == 2;
        rank.world.barrier.wait();
        auto op = rank.start(alltoall(send, recv, 100));
        until([&] { return rank.rank != 1 || !slow; });
        if (rank.rank == 0) {
            until(
                [&] { return op->test() != SDMA_PENDING || Log::count("rank 0: operation 1 gets no data from") > 0; });
            for (int i = 0; i < 100; i++)
                EXPECT_EQ(SDMA_PENDING, op->test());
            slow = false;
        }
        EXPECT_EQ(SDMA_ERROR, Rank::finish(*op));
        if (rank.rank == 0)
            matches(recv + 100, 1, 0, 100, 1);
    });
}

// The GPU is full for longer than the timeout: the kernel starts when everybody has taken the operation for over.
TEST(Hardware, what_a_late_kernel_writes_to_is_still_there) {
    With timeout(params().hardware_timeout, 200);
    With_loadstore_max loadstore(size_t{1} << 30);
    Log log;
    World world(2);
    world.run([](Rank &rank) {
        rank.gpu->faults.coherent_stores = true; // the kernel raises signals, too
        char *send = rank.gpu->allocate(0, 200), *recv = rank.gpu->allocate(0, 200);
        ASSERT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, 100, 0));
        rank.gpu->faults.hold_launches = rank.rank == 0;
        rank.world.barrier.wait();
        EXPECT_EQ(SDMA_ERROR, rank.run(alltoall(send, recv, 100)));
        if (rank.rank == 1)
            rank.gpu->free(recv);
        rank.world.barrier.wait();
        if (rank.rank == 1)
            return;
        EXPECT_EQ(0, rank.context->memory().progress());
        rank.take_down(rank.main);
        rank.gpu->faults.hold_launches = false;
        until([&] { return rank.gpu->idle(); });
    });
}

// Each looks at queues that the other takes out of use.
TEST(Hardware, two_threads_time_out_together) {
    With timeout(params().hardware_timeout, 100);
    With_loadstore_max loadstore(0);
    Log log;
    World world(2);
    Board board(2);
    world.run([&](Rank &rank) {
        Team other;
        ASSERT_EQ(SDMA_OK, rank.set_up(other, board, rank.rank));
        char *send = rank.gpu->allocate(0, 200), *recv = rank.gpu->allocate(0, 400);
        rank.gpu->faults.stall_engines = rank.rank == 0;
        auto one = rank.start(alltoall(send, recv, 100)), two = rank.start(other, alltoall(send, recv + 200, 100));
        sdma_status_t status = SDMA_PENDING;
        std::thread thread([&] { status = Rank::finish(*one); });
        EXPECT_EQ(SDMA_ERROR, Rank::finish(*two));
        thread.join();
        EXPECT_EQ(SDMA_ERROR, status);
        rank.world.barrier.wait();
        rank.take_down(other);
    });
    EXPECT_EQ(1u, Log::count("sdma is off for this process")) << Log::all();
}

TEST(Hardware, a_queue_that_was_made_during_a_fault_is_out_of_use) {
    Log log;
    World world(1);
    world.run_raw([](Rank &rank) {
        sdma_reason_t reason;
        ASSERT_TRUE(rank.context->memory().create());
        ASSERT_TRUE(rank.context->memory().runtime(reason));
        rank.context->fail();
        EXPECT_EQ(nullptr, rank.context->queue(0, {}, sdma::engine::Producer::device, reason));
        EXPECT_EQ(SDMA_REASON_fault, reason);
    });
}

TEST(Hardware_line, names_rank_peer_queue_engine_pointers_and_signal) {
    With timeout(params().hardware_timeout, 200);
    With_loadstore_max loadstore(0);
    Log log;
    World world(2);
    world.run([&](Rank &rank) {
        char *send = rank.gpu->allocate(0, 64), *recv = rank.gpu->allocate(0, 64);
        rank.gpu->faults.stall_engines = rank.rank == 0;
        EXPECT_EQ(SDMA_ERROR, rank.run(alltoall(send, recv, 32)));
    });
    EXPECT_EQ(1u, Log::count("rank 0: operation 0, slot 0: no progress for")) << Log::all();
    EXPECT_EQ(1u, Log::count("peer 1: queue of engine 1, read 0, write ")) << Log::all();
    EXPECT_EQ(1u, Log::count("committed ")) << Log::all();
    EXPECT_EQ(1u, Log::count("departure signal is 0, expected 1")) << Log::all();
}

TEST(Hardware, slow_is_not_stuck) {
    With timeout(params().hardware_timeout, 400);
    With_loadstore_max loadstore(0);
    With chunk(params().chunk_max, size_t{4096});
    World world(2);
    world.run([&](Rank &rank) {
        constexpr size_t bytes = 16 * 4096;
        char *send = rank.gpu->allocate(0, 2 * bytes), *recv = rank.gpu->allocate(0, 2 * bytes);
        rank.gpu->faults.slow_us = 50000; // per packet: far longer in all than the limit
        EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, bytes, 0));
    });
}

TEST(Hardware, few_launch_slots_only_cost_time) {
    With_loadstore_max loadstore(0);
    World world(2);
    world.run([&](Rank &rank) {
        rank.gpu->launch_slots = 1;
        char *send = rank.gpu->allocate(0, 640), *recv = rank.gpu->allocate(0, 640);
        memset(send, 0x21, 640);
        std::vector<std::unique_ptr<sdma::op::Op>> ops;
        for (size_t i = 0; i < 10; i++)
            ops.push_back(rank.start(alltoall(send + 64 * i, recv + 64 * i, 32)));
        until([&] {
            bool pending = false;
            for (auto &op : ops)
                pending |= op->test() == SDMA_PENDING;
            return !pending;
        });
        for (auto &op : ops)
            EXPECT_EQ(SDMA_OK, op->test());
        for (size_t i = 0; i < 640; i++)
            ASSERT_EQ(0x21, recv[i]);
    });
}

// ---- death ---------------------------------------------------------------------------------------

class Death : public testing::Test {
protected:
    Death() : loadstore_(0), slots_(params().slots, 4), peer(4, true), here(peer) {
        send = here.rank.gpu->allocate(0, 64);
        recv = here.rank.gpu->allocate(0, 64);
        memory = here.peer_gpu.allocate(0, 64);
        generation = here.peer_gpu.classify(memory).generation;
        peer.publish(1024, here.peer_gpu, memory);
    }
    void expect_peer_gone(sdma::op::Op &op) {
        for (int i = 0; i < 100; i++)
            EXPECT_EQ(SDMA_PENDING, op.test());
        peer.end();
        EXPECT_EQ(SDMA_ERROR, Rank::finish(op));
        EXPECT_EQ(SDMA_REASON_peer_gone, op.reason());
        EXPECT_GE(Log::count("rank 1"), 1u) << Log::all();
        // And what comes later does not hang.
        EXPECT_NE(SDMA_PENDING, here.rank.run(alltoall(send, recv, 32)));
    }
    With_loadstore_max loadstore_;
    With<int> slots_;
    Log log;
    Played_peer peer;
    Opposite here;
    char *send, *recv, *memory;
    uint64_t generation;
};

TEST_F(Death, before_the_offer) {
    ASSERT_EQ(SDMA_OK, here.status);
    auto op = here.rank.start(alltoall(send, recv, 32));
    expect_peer_gone(*op);
}

TEST_F(Death, before_the_verdict) {
    auto op = here.rank.start(alltoall(send, recv, 32));
    peer.offer_alltoall(0, 32, 1024, generation);
    expect_peer_gone(*op);
}

TEST_F(Death, before_the_data) {
    auto op = here.rank.start(alltoall(send, recv, 32));
    memset(send, 0x42, 64);
    peer.offer_alltoall(0, 32, 1024, generation);
    peer.say(0, SDMA_REASON_none);
    until([&] {
        op->test();
        return memory[0] == 0x42; // ours went out
    });
    expect_peer_gone(*op);
}

TEST_F(Death, before_it_was_done_with_the_slot) {
    for (uint64_t i = 0; i < 4; i++) {
        peer.refuse(i);
        auto op = here.rank.start(alltoall(send, recv, 32));
        EXPECT_EQ(SDMA_DECLINED, Rank::finish(*op));
    }
    auto op = here.rank.start(alltoall(send, recv, 32));
    expect_peer_gone(*op);
}

TEST_F(Death, during_set_up) {
    Played_peer other(4, true);
    other.header().verdict = 0;
    std::thread end([&] { other.end(); });
    Opposite opposite(other);
    end.join();
    EXPECT_EQ(SDMA_DECLINED, opposite.status);
}

} // namespace
