// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of one-sided operations: freed and allocated again, more than the cache keeps, of no use, host memory in
// pieces.
#include "test/support/lines.hpp"

using namespace ranks;
using sdma::params;

namespace {

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

TEST(Bounds, what_every_put_needs_is_mapped_once) {
    With bytes(params().attach_bytes, size_t{100});
    const uint64_t attached = counter("attached");
    with_line(1000, [](Place &place, End &end) {
        char *local = place.rank.gpu->allocate(0, 1000);
        for (int i = 0; i < 10; i++) {
            ASSERT_EQ(SDMA_OK, end.put(local, 0, 1000));
            ASSERT_EQ(SDMA_OK, end.flush());
        }
    });
    EXPECT_EQ(attached + 1, counter("attached"));
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

// ---- host memory in pieces -----------------------------------------------------------------------

TEST(Pins, never_overlap_and_go) {
    constexpr size_t bytes = 6 * 4096 + 123;
    with_line(bytes, [](Place &place, End &end) {
        Rank &rank = place.rank;
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

} // namespace
