// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided operations when things go wrong or away: stuck hardware, peers that die, memory that is
// freed, keys and addresses that lie, host memory in pieces, sleepers.
#include <poll.h>

#include "test/support/lines.hpp"
#include "test/support/played_peer.hpp"

using namespace ranks;
using sdma::params;

namespace {

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
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        End end = place.to(1), other = place.to(1);
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
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        End end = place.to(1);
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
    World world(1);
    Rank rank(world, 0);
    fake::Runtime peer_gpu(world.node, 1, 1);
    char *target = peer_gpu.allocate(0, 1000);
    peer.publish(1024 + 5, peer_gpu, target);
    sdma::line::Key key{peer.identity().pid,
                        peer.identity().start_time,
                        peer.identity().instance,
                        1024 + 5,
                        peer_gpu.classify(target).generation,
                        0,
                        1000};
    End end(rank, sdma::line::pack(sdma::line::Address{peer.identity(), static_cast<uint64_t>(peer.process.fd())}),
            sdma::line::pack(key));
    char *memory = rank.gpu->allocate(0, 1000);
    fill(memory, 0, 1, 1000, 0);
    ASSERT_EQ(SDMA_OK, end.put(memory, 0, 1000));
    ASSERT_EQ(SDMA_OK, end.flush());
    EXPECT_TRUE(matches(target, 0, 1, 1000, 0));
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
    EXPECT_TRUE(matches(target, 0, 1, 1000, 1)); // it came to rest there
    sdma_reason_t reason;
    EXPECT_EQ(nullptr,
              Line::open(*rank.context, nullptr, sdma::line::pack(sdma::line::Address{peer.identity(), 3}), reason));
    EXPECT_EQ(SDMA_REASON_peer_gone, reason);
}

// ---- memory that goes ----------------------------------------------------------------------------

TEST(Retired, memory_is_let_go_of_and_posts_decline) {
    World world(2);
    with_windows(world, 5000, [](Place &place) {
        Rank &rank = place.rank;
        char *local = rank.gpu->allocate(0, 5000);
        std::optional<End> end;
        if (rank.rank == 0) {
            end.emplace(rank, place.addresses[1], place.keys[1]);
            ASSERT_EQ(SDMA_OK, end->put(local, 0, 5000));
            ASSERT_EQ(SDMA_OK, end->flush());
        }
        static sdma_key_t key;
        for (uint64_t round = 0; round < 20; round++) {
            place.barrier();
            if (rank.rank == 1) { // gone, and other memory at the same address
                place.window.region.reset();
                rank.gpu->free(place.window.base, true);
                ASSERT_EQ(place.window.base, rank.gpu->allocate(0, 5000, place.window.base));
                sdma_reason_t reason;
                place.window.region = Region::make(*rank.context, place.window.base, 5000, true, reason);
                ASSERT_TRUE(place.window.region);
                key = place.window.key();
                memset(place.window.base, 0x66, 5000);
            }
            place.barrier();
            if (rank.rank == 0) {
                ASSERT_EQ(SDMA_OK, end->line->progress());
                EXPECT_EQ(0, rank.world.node.attached);
                EXPECT_EQ(SDMA_DECLINED, end->put(local, 0, 5000));
                EXPECT_EQ(SDMA_REASON_retired, end->line->reason());
                sdma_reason_t reason;
                EXPECT_EQ(nullptr, end->line->attach(place.keys[1], reason)); // the old key
                EXPECT_EQ(SDMA_REASON_retired, reason);
                end->line->detach(*end->remote);
                end->remote = end->line->attach(key, reason);
                ASSERT_TRUE(end->remote);
                fill(local, 0, 1, 5000, round);
                ASSERT_EQ(SDMA_OK, end->put(local, 0, 5000));
                ASSERT_EQ(SDMA_OK, end->flush());
            }
            place.barrier();
            if (rank.rank == 1)
                matches(place.window.base, 0, 1, 5000, round);
        }
        end.reset();
        place.barrier();
        EXPECT_EQ(4u * 5000, rank.world.node.charged()); // what the two ranks have now, nothing of what was freed
    });
}

TEST(Retired, not_while_an_operation_uses_it) {
    With loadstore(params().put_loadstore_max, 0);
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        std::optional<End> end;
        char *local = place.rank.gpu->allocate(0, 1000);
        if (place.rank.rank == 0) {
            end.emplace(place.rank, place.addresses[1], place.keys[1]);
            place.rank.gpu->faults.stall_engines = true;
            ASSERT_EQ(SDMA_OK, end->put(local, 0, 1000));
            ASSERT_EQ(SDMA_OK, end->line->push());
        }
        place.barrier();
        if (place.rank.rank == 1)
            place.rank.gpu->free(place.window.base);
        place.barrier();
        if (place.rank.rank == 0) {
            ASSERT_EQ(SDMA_OK, end->line->progress());
            EXPECT_EQ(1, place.rank.world.node.attached);
            place.rank.gpu->faults.stall_engines = false;
            ASSERT_EQ(SDMA_OK, end->flush());
            ASSERT_EQ(SDMA_OK, end->line->progress());
            EXPECT_EQ(0, place.rank.world.node.attached);
        }
    });
}

TEST(Bounds, of_the_cache_do_not_stop_operations) {
    With entries(params().attach_entries, 2);
    World world(2);
    std::vector<sdma_key_t> keys;
    with_windows(world, 100, [&](Place &place) {
        std::vector<std::unique_ptr<Window>> windows;
        if (place.rank.rank == 1)
            for (int i = 0; i < 8; i++) {
                windows.push_back(std::make_unique<Window>(place.rank, 100));
                keys.push_back(windows.back()->key());
            }
        place.barrier();
        if (place.rank.rank == 0) {
            End end = place.to(1);
            std::vector<std::unique_ptr<Remote>> remotes;
            char *local = place.rank.gpu->allocate(0, 800);
            sdma_reason_t reason;
            for (auto &key : keys)
                remotes.push_back(end.line->attach(key, reason));
            for (uint64_t round = 0; round < 3; round++) {
                for (size_t i = 0; i < 8; i++) {
                    fill(local + i * 100, 0, static_cast<int>(i), 100, round);
                    Request put = end.request(false, local + i * 100, 0, 100);
                    put.remote = remotes[i].get();
                    ASSERT_EQ(SDMA_OK, end.post(put));
                    if (round > 0) { // only then is there anything idle
                        ASSERT_EQ(SDMA_OK, end.flush());
                    }
                }
                ASSERT_EQ(SDMA_OK, end.flush());
            }
            for (auto &remote : remotes)
                end.line->detach(*remote);
            EXPECT_LE(place.rank.world.node.attached, 3);
        }
        place.barrier();
        if (place.rank.rank == 1)
            for (size_t i = 0; i < 8; i++)
                matches(windows[i]->base, 0, static_cast<int>(i), 100, 2);
    });
    EXPECT_EQ(0, world.node.attached);
}

TEST(Refused, by_the_runtime_or_by_kind) {
    With loadstore(params().put_loadstore_max, 0);
    World world(2);
    with_windows(world, 1000, [](Place &place) {
        Rank &rank = place.rank;
        sdma_reason_t reason;
        std::vector<char> host(1000);
        char *managed = rank.gpu->allocate(0, 1000, nullptr, sdma::gpu::Memory_kind::unsupported);
        EXPECT_EQ(nullptr, Region::make(*rank.context, host.data(), 1000, true, reason));
        EXPECT_EQ(SDMA_REASON_host_buffer, reason);
        EXPECT_EQ(nullptr, Region::make(*rank.context, managed, 1000, true, reason));
        EXPECT_EQ(SDMA_REASON_memory_kind, reason);
        EXPECT_EQ(nullptr, Region::make(*rank.context, place.window.base + 1, 1000, true, reason));
        EXPECT_EQ(SDMA_REASON_too_large, reason);
        if (rank.rank == 1)
            return;
        rank.gpu->faults.fail_attach = true;
        auto line = Line::open(*rank.context, nullptr, place.addresses[1], reason);
        ASSERT_TRUE(line);
        EXPECT_EQ(nullptr, line->attach(place.keys[1], reason));
        EXPECT_EQ(SDMA_REASON_attach_failed, reason);
        rank.gpu->faults.fail_attach = false;
        End end = place.to(1);
        EXPECT_EQ(SDMA_DECLINED, end.put(managed, 0, 1000));
        EXPECT_EQ(SDMA_REASON_memory_kind, end.line->reason());
        rank.gpu->faults.fail_pin = true;
        EXPECT_EQ(SDMA_DECLINED, end.put(host.data(), 0, 1000));
        EXPECT_EQ(SDMA_REASON_pin_failed, end.line->reason());
        rank.gpu->faults.fail_pin = false;
        EXPECT_EQ(SDMA_OK, end.put(host.data(), 0, 1000));
        EXPECT_EQ(SDMA_ERROR, end.put(host.data(), 1, 1000));
        EXPECT_EQ(SDMA_ERROR, end.put(host.data(), SIZE_MAX, 2));
        Request signal = end.request(false, host.data(), 0, 8);
        signal.signal = true;
        for (size_t offset : {size_t{4}, size_t{993}, SIZE_MAX - 7}) {
            signal.signal_offset = offset;
            EXPECT_EQ(SDMA_ERROR, end.post(signal));
        }
        EXPECT_EQ(SDMA_OK, end.flush()); // none of this broke the line
        EXPECT_EQ(1u, end.line->done());
        EXPECT_EQ(0, rank.gpu->pins());
    });
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
        End end = place.to(1);
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
    World world(1);
    Rank rank(world, 0);
    fake::Runtime peer_gpu(world.node, 1, 1);
    char *target = peer_gpu.allocate(0, 1000);
    peer.publish(1024, peer_gpu, target);
    sdma::line::Key key{peer.identity().pid,
                        peer.identity().start_time,
                        peer.identity().instance,
                        1024,
                        peer_gpu.classify(target).generation,
                        0,
                        1000};
    const auto address =
        sdma::line::pack(sdma::line::Address{peer.identity(), static_cast<uint64_t>(peer.process.fd())});
    sdma_reason_t reason;
    auto line = Line::open(*rank.context, nullptr, address, reason);
    ASSERT_TRUE(line) << sdma_reason_name(reason);
    auto &entry = peer.table().entry[0];
    entry.bytes = 1 << 20; // more than the handle opens
    EXPECT_EQ(nullptr, line->attach(sdma::line::pack(key), reason));
    EXPECT_EQ(SDMA_REASON_attach_failed, reason);
    entry.bytes = 999;
    EXPECT_EQ(nullptr, line->attach(sdma::line::pack(key), reason));
    EXPECT_EQ(SDMA_REASON_too_large, reason);
    entry.bytes = 1000;
    entry.handle[0] = 0;
    EXPECT_EQ(nullptr, line->attach(sdma::line::pack(key), reason));
    EXPECT_EQ(SDMA_REASON_attach_failed, reason);
}

// ---- host memory in pieces -----------------------------------------------------------------------

TEST(Pins, never_overlap_and_go) {
    World world(2);
    constexpr size_t bytes = 6 * 4096 + 123;
    with_windows(world, bytes, [](Place &place) {
        if (place.rank.rank == 1)
            return;
        Rank &rank = place.rank;
        End end = place.to(1);
        std::vector<char> host(bytes);
        sdma_reason_t reason;
        auto part = [&](size_t from, size_t length) {
            auto region = Region::make(*rank.context, host.data() + from, length, false, reason);
            EXPECT_TRUE(region);
            return region;
        };
        auto first = part(5000, 100), second = part(3 * 4096 + 7, 5000), same = part(5050, 10);
        const int registered = rank.gpu->pins();
        EXPECT_EQ(2, registered);
        // Over both and the gaps around them.
        fill(host.data(), 0, 1, bytes, 3);
        ASSERT_EQ(SDMA_OK, end.put(host.data(), 0, bytes));
        first.reset(); // still in use by the put, and by `same`
        second.reset();
        ASSERT_EQ(SDMA_OK, end.flush());
        EXPECT_EQ(1, rank.gpu->pins());
        same.reset();
        EXPECT_EQ(0, rank.gpu->pins());
        memset(host.data(), 0, bytes);
        ASSERT_EQ(SDMA_OK, end.get(host.data(), 0, bytes));
        ASSERT_EQ(SDMA_OK, end.flush());
        matches(host.data(), 0, 1, bytes, 3);
        EXPECT_EQ(0, rank.gpu->pins());
    });
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
