// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "common/sdma/plan/check.h"
#include "common/sdma/plan/plan.hpp"

namespace {

using namespace sdma::plan;

constexpr uint64_t most64 = std::numeric_limits<uint64_t>::max();

TEST(Plan, path_by_bytes_and_queue) {
    EXPECT_EQ(choose_path(1, 128, true), SDMA_PATH_LOADSTORE);
    EXPECT_EQ(choose_path(128, 128, true), SDMA_PATH_LOADSTORE);
    EXPECT_EQ(choose_path(129, 128, true), SDMA_PATH_ENGINE);
    EXPECT_EQ(choose_path(most64, 128, true), SDMA_PATH_ENGINE);
    EXPECT_EQ(choose_path(0, 128, true), SDMA_PATH_ENGINE); // signals only
    EXPECT_EQ(choose_path(1, 0, true), SDMA_PATH_ENGINE);
    EXPECT_EQ(choose_path(most64, 128, false), SDMA_PATH_LOADSTORE);
    EXPECT_EQ(choose_path(0, 128, false), SDMA_PATH_LOADSTORE);
}

TEST(Plan, workgroups_by_bytes) {
    EXPECT_EQ(workgroups(0, 16), 1u);
    EXPECT_EQ(workgroups(2 * 16 * 1024, 16), 1u); // 16 KiB to a peer and to the own block
    EXPECT_EQ(workgroups(2 * 16 * 1024 + 1, 16), 2u);
    EXPECT_EQ(workgroups(2 * 256 * 1024, 16), 16u);
    EXPECT_EQ(workgroups(most64, 16), 16u);
    EXPECT_EQ(workgroups(most64, 1), 1u);
    EXPECT_EQ(workgroups(most64, 0), 1u);
    EXPECT_EQ(workgroups(1, -1), 1u);
}

TEST(Plan, chunk_is_clamped) {
    EXPECT_EQ(clamp_chunk(0), 4096u);
    EXPECT_EQ(clamp_chunk(31), 4096u);
    EXPECT_EQ(clamp_chunk(4096 + 31), 4096u);
    EXPECT_EQ(clamp_chunk((4 << 20) - 32), (4u << 20) - 32);
    EXPECT_EQ(clamp_chunk(uint64_t{128} << 20), uint64_t{128} << 20);
    EXPECT_EQ(clamp_chunk((uint64_t{128} << 20) + 32), uint64_t{128} << 20);
    EXPECT_EQ(clamp_chunk(most64), uint64_t{128} << 20);
}

TEST(Plan, spin_budget_saturates) {
    EXPECT_EQ(spin_budget(0, Initiator::gpu), 0u);
    EXPECT_EQ(spin_budget(10000, Initiator::gpu), 10'000'000u);
    EXPECT_GT(spin_budget(10000, Initiator::host), spin_budget(10000, Initiator::gpu));
    EXPECT_EQ(spin_budget(most64, Initiator::gpu), most64);
    EXPECT_EQ(spin_budget(most64 / 1000 + 1, Initiator::gpu), most64);
}

TEST(Plan, copies_at_the_edges) {
    EXPECT_EQ(copies(0, 4096), 0u);
    EXPECT_EQ(copies(1, 4096), 1u);
    EXPECT_EQ(copies(4096, 4096), 1u);
    EXPECT_EQ(copies(4097, 4096), 2u);
    EXPECT_EQ(copies(most64, 1), most64);
    EXPECT_EQ(copies(most64, most64), 1u);
    EXPECT_EQ(copies(most64, 4096), (uint64_t{1} << 52));
}

sdma_work_peer peer_with(uint64_t bytes, uint64_t arrival, uint64_t departure) {
    sdma_work_peer peer{};
    peer.src = 0x10000;
    peer.dst = 0x20000;
    peer.bytes = bytes;
    peer.arrival = arrival;
    peer.departure = departure;
    return peer;
}

TEST(Plan, dwords_of_a_peer) {
    EXPECT_EQ(packet_dwords(peer_with(0, 0, 0), 4096, SDMA_SIGNAL_ATOMIC), 0u);
    EXPECT_EQ(packet_dwords(peer_with(0, 8, 0), 4096, SDMA_SIGNAL_ATOMIC), 8u);
    EXPECT_EQ(packet_dwords(peer_with(0, 8, 16), 4096, SDMA_SIGNAL_FENCE), 8u);
    EXPECT_EQ(packet_dwords(peer_with(4097, 8, 16), 4096, SDMA_SIGNAL_ATOMIC), 2 * 7 + 2 * 8u);
    EXPECT_EQ(packet_dwords(peer_with(1, 8, 16), 4096, SDMA_SIGNAL_FENCE), 7 + 2 * 4u);
}

// Whatever the ring holds: all copies come, in reservations that fit, the signals in the last one
// together with at least one copy.
TEST(Plan, segments_cover_a_peer) {
    for (uint64_t most : {32, 33, 45, 64, 100, 512, 32768}) {
        for (uint32_t signals : {0, 4, 8, 16}) {
            for (uint64_t copies = 0; copies < 200; ++copies) {
                uint64_t left = copies, reservations = 0;
                for (;;) {
                    Segment segment = next_segment(left, signals, most);
                    ++reservations;
                    ASSERT_LE(segment.dwords, most);
                    ASSERT_EQ(segment.dwords, segment.copies * 7 + (segment.signals ? signals : 0));
                    ASSERT_LE(segment.copies, left);
                    left -= segment.copies;
                    if (segment.signals) {
                        ASSERT_TRUE(copies == 0 || segment.copies >= 1);
                        break;
                    }
                    ASSERT_GE(segment.copies, 1u);
                    ASSERT_LT(reservations, 201u);
                }
                ASSERT_EQ(left, 0u);
                if (copies * 7 + signals <= most) {
                    ASSERT_EQ(reservations, 1u);
                }
            }
        }
    }
    Segment huge = next_segment(most64, 16, 32768);
    EXPECT_EQ(huge.signals, 0u);
    EXPECT_EQ(huge.copies, 32768u / 7);
}

TEST(Plan, shares_are_even_and_complete) {
    for (uint64_t total : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{8}, uint64_t{1000}, most64}) {
        for (uint64_t parts : {1, 2, 7, 8, 304}) {
            uint64_t next = 0, least = most64, largest = 0;
            for (uint64_t i = 0; i < parts; ++i) {
                Share part = share(total, parts, i);
                ASSERT_EQ(part.begin, next);
                ASSERT_GE(part.end, part.begin);
                least = std::min(least, part.end - part.begin);
                largest = std::max(largest, part.end - part.begin);
                next = part.end;
            }
            ASSERT_EQ(next, total);
            ASSERT_LE(largest - least, 1u);
        }
    }
}

TEST(Plan, record_size_is_bounded) {
    EXPECT_EQ(record_bytes(0, 0), sizeof(sdma_work));
    EXPECT_EQ(record_bytes(2, 3), sizeof(sdma_work) + 2 * sizeof(sdma_work_queue) + 3 * sizeof(sdma_work_peer));
    EXPECT_EQ(record_bytes(most64, 1), 0u);
    EXPECT_EQ(record_bytes(1, most64), 0u);
}

struct Build : testing::Test {
    std::vector<uint64_t> rings = {0x1000, 0x2000};
    std::vector<Peer> peers;
    Operation operation;
    alignas(8) std::byte record[4096];

    Build() {
        std::memset(record, 0xa5, sizeof record);
        for (uint32_t i = 0; i < 5; ++i) {
            Peer peer;
            peer.src = 0x100000 * (i + 1);
            peer.dst = 0x900000 * (i + 1);
            peer.bytes = 1000 + i;
            peer.arrival = 0x5000 + 8 * i;
            peer.departure = 0x6000 + 8 * i;
            peer.arrival_value = 70 + i;
            peer.departure_value = 90 + i;
            peer.rank = i;
            peer.queue = i % 2;
            peers.push_back(peer);
        }
        peers[1].path = SDMA_PATH_LOADSTORE;
        peers[1].queue = 77; // nobody looks
        operation.chunk_bytes = 4096;
        operation.sequence = 12;
        operation.slot = 3;
        operation.spin_budget = 1000;
        operation.kernel_signals = true;
        operation.rings = rings;
        operation.peers = peers;
    }
    sdma_work *make() { return build(operation, record); }
};

TEST_F(Build, groups_peers_by_queue) {
    sdma_work *work = make();
    ASSERT_NE(work, nullptr);
    EXPECT_TRUE(record_ok(*work));
    EXPECT_EQ(work->record_bytes, record_bytes(2, 5));
    EXPECT_EQ(work->sequence, 12u);
    EXPECT_EQ(work->slot, 3u);
    EXPECT_EQ(work->spin_budget, 1000u);
    EXPECT_EQ(work->kernel_signals, 1u);
    EXPECT_EQ(work->status, SDMA_WORK_OPEN);
    EXPECT_EQ(work->workgroups_done, 0u);
    EXPECT_EQ(work->lanes_done, 0u);
    auto *queues = reinterpret_cast<sdma_work_queue *>(record + work->queues_offset);
    auto *out = reinterpret_cast<sdma_work_peer *>(record + work->peers_offset);
    EXPECT_EQ(queues[0].ring, 0x1000u);
    EXPECT_EQ(queues[0].first_peer, 0u);
    EXPECT_EQ(queues[0].peers, 3u);
    EXPECT_EQ(queues[1].ring, 0x2000u);
    EXPECT_EQ(queues[1].first_peer, 3u);
    EXPECT_EQ(queues[1].peers, 1u);
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < 5; ++i) {
        order.push_back(out[i].rank);
        EXPECT_EQ(out[i].bytes, 1000 + out[i].rank);
        EXPECT_EQ(out[i].arrival_value, 70 + out[i].rank);
        EXPECT_EQ(out[i].departure, 0x6000 + 8 * out[i].rank);
    }
    EXPECT_EQ(order, (std::vector<uint32_t>{0, 2, 4, 3, 1}));
    EXPECT_EQ(out[4].path, unsigned{SDMA_PATH_LOADSTORE});
}

TEST_F(Build, empty_operation) {
    operation.peers = {};
    operation.rings = {};
    EXPECT_NE(make(), nullptr);
}

TEST_F(Build, refuses_nonsense) {
    auto refused = [&](auto spoil) {
        auto saved_peers = peers;
        auto saved_rings = rings;
        auto saved = operation;
        spoil();
        bool no = make() == nullptr;
        peers = saved_peers;
        rings = saved_rings;
        operation = saved;
        return no;
    };
    EXPECT_TRUE(refused([&] { peers[0].queue = 2; }));
    EXPECT_TRUE(refused([&] { rings[1] = 0; }));
    EXPECT_TRUE(refused([&] { rings[1] = 0x1004; }));
    EXPECT_TRUE(refused([&] { peers[0].bytes = most64; }));
    EXPECT_TRUE(refused([&] { peers[0].src = most64 - 10; }));
    EXPECT_TRUE(refused([&] { peers[0].dst = 0; }));
    EXPECT_TRUE(refused([&] { peers[0].arrival = 0x5001; }));
    EXPECT_TRUE(refused([&] { peers[0].departure = 0x5004; }));
    EXPECT_TRUE(refused([&] { operation.chunk_bytes = 0; }));
    EXPECT_TRUE(refused([&] { operation.chunk_bytes = (uint64_t{128} << 20) + 1; }));
    EXPECT_TRUE(refused([&] {
        operation.signal_kind = SDMA_SIGNAL_FENCE;
        peers[3].arrival_value = uint64_t{1} << 32;
    }));
    EXPECT_FALSE(refused([&] { operation.signal_kind = SDMA_SIGNAL_FENCE; }));
    EXPECT_FALSE(refused([&] { peers[0].bytes = peers[0].src = peers[0].dst = 0; }));
    EXPECT_FALSE(refused([&] {}));
    EXPECT_EQ(build(operation, std::span(record, record_bytes(2, 5) - 1)), nullptr);
    EXPECT_EQ(build(operation, std::span(record + 1, 4000)), nullptr);
}

TEST_F(Build, record_check_sees_every_spoiled_field) {
    sdma_work good = *make();
    auto bad = [&](auto spoil) {
        sdma_work work = good;
        spoil(work);
        return !record_ok(work);
    };
    EXPECT_FALSE(bad([](sdma_work &) {}));
    EXPECT_TRUE(bad([](sdma_work &w) { w.magic++; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.version++; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.chunk_bytes = 0; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.chunk_bytes = sdma::packet::copy_limit + 1; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.signal_kind = 2; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.record_bytes--; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.queues = UINT32_MAX; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.peers = UINT32_MAX; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.queues_offset = 0; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.peers_offset += 4; }));
    EXPECT_TRUE(bad([](sdma_work &w) { w.peers_offset = UINT32_MAX - 7; }));
    sdma_work_queue queue = {0x1000, 2, 4};
    EXPECT_FALSE(queue_ok(good, queue)); // 2 + 4 > 5
    queue = {0x1000, UINT32_MAX, 6};
    EXPECT_FALSE(queue_ok(good, queue));
    queue = {0, 0, 1};
    EXPECT_FALSE(queue_ok(good, queue));
    queue = {0x1000, 5, 0};
    EXPECT_TRUE(queue_ok(good, queue));
}

} // namespace
