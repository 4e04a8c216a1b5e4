// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided operations when things go wrong or away: stuck hardware, lines and peers that end, keys and addresses that
// lie, sleepers.
#include <poll.h>
#include <sys/wait.h>

#include "test/support/lines.hpp"
#include "test/support/played_peer.hpp"

using namespace ranks;
using sdma::params;

namespace {

// Rank 0 opposite a played peer that has a window.
struct Played_window {
    Played_window(Played_peer &peer, uint64_t id)
        : rank(world, 0), gpu(world.node, 1, 1), base(gpu.allocate(0, bytes)), address(address_of(peer)) {
        peer.publish(id, gpu, base);
        const sdma::memory::Identity &owner = peer.identity();
        key = sdma::line::pack(
            sdma::line::Key{owner.pid, owner.start_time, owner.instance, id, gpu.classify(base).generation, 0, bytes});
    }
    static sdma_address_t address_of(Played_peer &peer) {
        return sdma::line::pack(sdma::line::Address{peer.identity(), static_cast<uint64_t>(peer.process.fd())});
    }
    static constexpr size_t bytes = 1000;
    World world{1};
    Rank rank;
    fake::Runtime gpu; // the peer's
    char *base;
    sdma_address_t address;
    sdma_key_t key;
};

// ---- hardware ------------------------------------------------------------------------------------

struct Hardware {
    const char *name;
    std::atomic<bool> fake::Faults::*fault;
    const char *initiator;
    size_t loadstore_max;
};

class Stuck : public testing::TestWithParam<Hardware> {};

TEST_P(Stuck, hardware_breaks_the_lines_of_the_process) {
    With timeout(params().hardware_timeout, 200);
    With loadstore(params().put_loadstore_max, GetParam().loadstore_max);
    With initiator(params().put_initiator, GetParam().initiator);
    with_line(1000, [](Place &place, End &end) {
        End other = place.to(1);
        char *memory = place.rank.gpu->allocate(0, 1000);
        ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
        ASSERT_EQ(SDMA_OK, end.flush());
        place.rank.gpu->faults.*GetParam().fault = true;
        for (int i = 0; i < 10; i++)
            ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
        EXPECT_EQ(SDMA_ERROR, end.flush());
        EXPECT_EQ(SDMA_REASON_fault, end.line->reason());
        EXPECT_EQ(11u, end.line->done());
        EXPECT_EQ(11u, end.line->local());
        EXPECT_EQ(SDMA_ERROR, end.put(memory, 0, 1000));
        EXPECT_EQ(SDMA_ERROR, other.line->progress());
        EXPECT_TRUE(place.rank.context->faulted());
    });
}

INSTANTIATE_TEST_SUITE_P(Ways, Stuck,
                         testing::Values(Hardware{"engine_stalled", &fake::Faults::stall_engines, "host", 0},
                                         Hardware{"no_signal", &fake::Faults::stall_before_signal, "gpu", 0},
                                         Hardware{"kernel_held", &fake::Faults::hold_launches, "gpu", 0},
                                         Hardware{"kernel_failed", &fake::Faults::fail_launches, "gpu", 0},
                                         Hardware{"copy_kernel_held", &fake::Faults::hold_launches, "host", 10000},
                                         Hardware{"copy_kernel_failed", &fake::Faults::fail_launches, "host", 10000}),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Slow, hardware_is_waited_for_as_long_as_it_moves) {
    With timeout(params().hardware_timeout, 400);
    With loadstore(params().put_loadstore_max, 0);
    With batch(params().put_batch, 1);
    with_line(1000, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, 1000);
        // Stalled again and again, together for longer than the timeout.
        const auto start = std::chrono::steady_clock::now();
        for (bool stalled = true; std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1200);
             stalled = !stalled) {
            place.rank.gpu->faults.stall_engines = stalled;
            ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
            const auto until_then = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
            while (std::chrono::steady_clock::now() < until_then)
                ASSERT_EQ(SDMA_OK, end.line->progress());
        }
        place.rank.gpu->faults.stall_engines = false;
        EXPECT_EQ(SDMA_OK, end.flush());
    });
}

// Its code may not fit into a full GPU.
TEST(Hardware_fault, without_kernels_the_cpu_writes_the_packets) {
    for (const bool queues : {true, false})
        with_line(1000, [queues](Place &place, End &end) {
            place.rank.gpu->faults.no_launches = true;
            place.rank.gpu->faults.no_queues = !queues;
            char *memory = place.rank.gpu->allocate(0, 1000);
            fill(memory, 0, 1, 1000, 3);
            EXPECT_EQ(queues ? SDMA_OK : SDMA_DECLINED, end.put(memory, 0, 1000));
            EXPECT_EQ(SDMA_OK, end.flush());
            if (queues) {
                memset(memory, 0, 1000);
                ASSERT_EQ(SDMA_OK, end.get(memory, 0, 1000));
                ASSERT_EQ(SDMA_OK, end.flush());
                EXPECT_TRUE(matches(memory, 0, 1, 1000, 3));
            }
            EXPECT_EQ(0u, place.rank.gpu->launched);
            EXPECT_FALSE(place.rank.context->faulted());
        });
}

// Found while it is posted: what was not moved is not said to be.
TEST(Hardware_fault, a_refused_launch_fails_the_operation) {
    for (const size_t loadstore_max : {size_t{0}, size_t{1000}}) {
        With loadstore(params().put_loadstore_max, loadstore_max);
        With full_at_once(params().put_batch, 1);
        with_line(1000, [](Place &place, End &end) {
            char *memory = place.rank.gpu->allocate(0, 1000);
            place.rank.gpu->faults.refuse_launches = true;
            uint64_t number = 0;
            const sdma_status_t first = end.line->post(end.request(true, memory, 0, 500), number);
            const sdma_status_t second = end.line->post(end.request(true, memory, 500, 500), number);
            EXPECT_TRUE(first == SDMA_ERROR || second == SDMA_ERROR);
            EXPECT_EQ(SDMA_ERROR, end.line->push());
            EXPECT_EQ(SDMA_ERROR, end.line->progress());
            EXPECT_EQ(SDMA_REASON_fault, end.line->reason());
        });
    }
}

// ---- lines and peers that end --------------------------------------------------------------------

TEST(Close, waits_for_what_engines_have) {
    for (const char *initiator : {"host", "gpu"})
        for (size_t loadstore_max : {size_t{0}, size_t{5000}}) {
            With loadstore(params().put_loadstore_max, loadstore_max);
            With by(params().put_initiator, initiator);
            World world(2);
            with_windows(world, 100000, [](Place &place) {
                if (place.rank.rank == 0) {
                    std::optional<End> end;
                    end.emplace(place.rank, place.addresses[1], place.keys[1]);
                    char *memory = place.rank.gpu->allocate(0, 100000);
                    fill(memory, 0, 1, 100000, 0);
                    place.rank.gpu->faults.stall_before_signal = true;
                    for (size_t i = 0; i < 100; i++)
                        ASSERT_EQ(SDMA_OK, end->put(memory + i * 1000, i * 1000, 1000));
                    ASSERT_EQ(SDMA_OK, end->line->push());
                    std::thread late([&] {
                        std::this_thread::yield();
                        place.rank.gpu->faults.stall_before_signal = false;
                    });
                    end.reset();
                    late.join();
                    place.rank.gpu->free(memory); // nobody reads it any more
                }
                place.barrier();
                if (place.rank.rank == 1)
                    matches(place.window.base, 0, 1, 100000, 0);
            });
            EXPECT_EQ(0, world.node.attached);
        }
}

TEST(Close, drops_what_was_not_issued) {
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        char *memory = place.rank.gpu->allocate(0, 1000);
        place.rank.gpu->launch_slots = 0;
        {
            End end = place.to(1);
            for (size_t i = 0; i < 10; i++)
                ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
            ASSERT_EQ(SDMA_OK, end.line->push());
        }
        EXPECT_EQ(0u, place.rank.gpu->launched);
        EXPECT_FALSE(place.rank.context->faulted());
    });
    EXPECT_EQ(0, world.node.attached);
}

TEST(Peer_death, ends_the_line_once_our_copies_are_at_rest) {
    With loadstore(params().put_loadstore_max, 0);
    Played_peer peer(1, true);
    Played_window window(peer, 1024 + 5);
    Rank &rank = window.rank;
    End end(rank, window.address, window.key);
    char *memory = rank.gpu->allocate(0, 1000);
    fill(memory, 0, 1, 1000, 0);
    ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
    ASSERT_EQ(SDMA_OK, end.flush());
    EXPECT_TRUE(matches(window.base, 0, 1, 1000, 0));
    EXPECT_TRUE(end.line->alive());

    fill(memory, 0, 1, 1000, 1);
    rank.gpu->faults.stall_engines = true;
    ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
    ASSERT_EQ(SDMA_OK, end.line->push());
    ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000)); // not issued
    peer.end();
    EXPECT_FALSE(end.line->alive());
    until([&] {
        EXPECT_EQ(SDMA_OK, end.line->progress());
        EXPECT_EQ(1u, end.line->done()); // an engine still reads the memory
        return end.line->push() == SDMA_ERROR;
    });
    EXPECT_EQ(SDMA_ERROR, end.put(memory, 0, 1000));
    EXPECT_EQ(1u, end.line->done());
    rank.gpu->faults.stall_engines = false;
    EXPECT_EQ(SDMA_ERROR, end.flush());
    EXPECT_EQ(3u, end.line->done());
    EXPECT_EQ(SDMA_REASON_peer_gone, end.line->reason());
    EXPECT_FALSE(rank.context->faulted());
    EXPECT_TRUE(matches(window.base, 0, 1, 1000, 1)); // it came to rest there
    sdma_reason_t reason;
    EXPECT_EQ(nullptr,
              Line::open(*rank.context, nullptr, sdma::line::pack(sdma::line::Address{peer.identity(), 3}), reason));
    EXPECT_EQ(SDMA_REASON_peer_gone, reason);
}

// ---- lies ----------------------------------------------------------------------------------------

TEST(Hostile, keys_and_addresses_are_declined) {
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        sdma_reason_t reason;
        const sdma_address_t address = place.addresses[1];
        for (size_t word = 0; word < 8; word++)
            for (uint64_t value : {uint64_t{0}, ~uint64_t{0}, address.words[word] + 1, uint64_t{1} << 40}) {
                sdma_address_t spoilt = address;
                spoilt.words[word] = value;
                EXPECT_EQ(nullptr, Line::open(*place.rank.context, nullptr, spoilt, reason)) << word << ' ' << value;
                EXPECT_NE(SDMA_REASON_none, reason);
            }
        End end = place.to(1); // only now: of a process that is known no descriptor is opened
        const sdma_key_t good = place.keys[1];
        for (size_t word = 0; word < 8; word++)
            for (uint64_t value : {uint64_t{0} - 1, good.words[word] + 1, uint64_t{1} << 63, good.words[word] ^ 1024}) {
                sdma_key_t key = good;
                key.words[word] = value;
                auto remote = end.line->attach(key, reason);
                if (remote) { // a smaller part of the same memory
                    EXPECT_EQ(7u, word);
                    EXPECT_LE(remote->offset + remote->bytes, 1000u);
                    end.line->detach(*remote);
                } else {
                    EXPECT_NE(SDMA_REASON_none, reason);
                }
            }
        sdma_key_t wrong = good;
        wrong.words[6] = ~uint64_t{0} - 10; // offset + bytes overflows
        wrong.words[7] = 100;
        EXPECT_EQ(nullptr, end.line->attach(wrong, reason));
        EXPECT_EQ(nullptr, end.line->attach(place.keys[0], reason)); // another process's
        EXPECT_EQ(nullptr, end.line->attach({}, reason));

        char *local = place.rank.gpu->allocate(0, 100);
        EXPECT_EQ(SDMA_OK, end.put(local, 0, 100));
        EXPECT_EQ(SDMA_OK, end.flush());
    });
    EXPECT_EQ(0, world.node.attached);
}

// The peer's table changes under a remote that is attached: never an access beyond what is mapped.
TEST(Hostile, tables_that_change) {
    Played_peer peer(1);
    Played_window window(peer, 1024);
    sdma_reason_t reason;
    auto line = Line::open(*window.rank.context, nullptr, window.address, reason);
    ASSERT_TRUE(line) << sdma_reason_name(reason);
    auto &entry = peer.table().entry[0];
    entry.bytes = 1 << 20; // more than the handle opens
    EXPECT_EQ(nullptr, line->attach(window.key, reason));
    EXPECT_EQ(SDMA_REASON_attach_failed, reason);
    entry.bytes = 999;
    EXPECT_EQ(nullptr, line->attach(window.key, reason));
    EXPECT_EQ(SDMA_REASON_too_large, reason);
    entry.bytes = 1000;
    entry.handle[0] = 0;
    EXPECT_EQ(nullptr, line->attach(window.key, reason));
    EXPECT_EQ(SDMA_REASON_attach_failed, reason);
}

// ---- sleepers ------------------------------------------------------------------------------------

TEST(Events, wake_a_sleeper) {
    With loadstore(params().put_loadstore_max, 0);
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        sdma::line::Events events;
        {
            End end(place.rank, place.addresses[1], place.keys[1], &events);
            char *local = place.rank.gpu->allocate(0, 1000);
            pollfd descriptor = {events.fd(), POLLIN, 0};
            ASSERT_GE(descriptor.fd, 0);
            for (int round = 0; round < 20; round++) {
                place.rank.gpu->faults.stall_before_signal = true;
                ASSERT_EQ(SDMA_OK, end.put(local, 0, 1000));
                EXPECT_FALSE(events.arm()); // not even pushed
                ASSERT_EQ(SDMA_OK, end.line->push());
                ASSERT_TRUE(events.arm());
                EXPECT_EQ(0, poll(&descriptor, 1, 0));
                place.rank.gpu->faults.stall_before_signal = false;
                ASSERT_EQ(1, poll(&descriptor, 1, 30000));
                EXPECT_FALSE(events.arm()); // there is something to do
                ASSERT_EQ(SDMA_OK, end.flush());
            }
            ASSERT_TRUE(events.arm()); // nothing on its way
        }
        EXPECT_TRUE(events.arm()); // no line at all
    });
}

// The thread is not there, and may have had the lock.
TEST(Events, a_forked_child_ends_without_them) {
    sdma::line::Events events;
    ASSERT_TRUE(events.arm()); // makes the thread
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        events.stop();
        _exit(0);
    }
    int status = -1;
    until([&] { return waitpid(child, &status, WNOHANG) == child; });
    EXPECT_EQ(0, status);
}

TEST(Events, come_when_hardware_is_stuck) {
    With loadstore(params().put_loadstore_max, 0);
    With timeout(params().hardware_timeout, 200);
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        sdma::line::Events events;
        End end(place.rank, place.addresses[1], place.keys[1], &events);
        char *local = place.rank.gpu->allocate(0, 1000);
        place.rank.gpu->faults.stall_engines = true;
        ASSERT_EQ(SDMA_OK, end.put(local, 0, 1000));
        pollfd descriptor = {events.fd(), POLLIN, 0};
        until([&] { // sleeps only
            if (end.line->progress() == SDMA_ERROR)
                return true;
            if (events.arm()) {
                EXPECT_EQ(1, poll(&descriptor, 1, 30000));
            }
            return false;
        });
        EXPECT_EQ(SDMA_REASON_fault, end.line->reason());
        place.rank.gpu->faults.stall_engines = false;
    });
}

} // namespace
