// SPDX-License-Identifier: BSD-3-Clause
//
// The issue kernel as a twin, and the CPU initiator, against rings with a small engine behind them.
#include <gtest/gtest.h>

#include <list>
#include <numeric>

#include "common/sdma/plan/plan.hpp"
#include "common/sdma/ring/initiate.hpp"
#include "kernels/issue.h"
#include "test/unit/lanes.hpp"
#include "test/unit/test_engine.hpp"

namespace {

using test_engine::Queue;

// A node in miniature: some queues, and peers with their own blocks and signal words.
struct Node {
    std::list<Queue> queues;
    std::list<std::vector<uint8_t>> memory;
    std::list<uint64_t> signals;
    std::vector<uint64_t> rings;
    std::vector<sdma::plan::Peer> peers;
    sdma::plan::Operation operation;
    std::vector<uint64_t> record;
    sdma_work *work = nullptr;

    Node() {
        operation.chunk_bytes = 4096;
        operation.spin_budget = 10000;
    }
    Queue &add_queue(uint64_t ring_bytes = 4096, uint64_t start = 0) {
        Queue &queue = queues.emplace_back(ring_bytes, start);
        rings.push_back(reinterpret_cast<uint64_t>(&queue.ring));
        return queue;
    }
    sdma::plan::Peer &add_peer(uint32_t queue, uint64_t bytes) {
        auto &src = memory.emplace_back(bytes);
        std::iota(src.begin(), src.end(), uint8_t(7 * peers.size() + 1));
        auto &dst = memory.emplace_back(bytes);
        sdma::plan::Peer peer;
        peer.src = reinterpret_cast<uint64_t>(src.data());
        peer.dst = reinterpret_cast<uint64_t>(dst.data());
        peer.bytes = bytes;
        peer.arrival = reinterpret_cast<uint64_t>(&signals.emplace_back(0));
        peer.departure = reinterpret_cast<uint64_t>(&signals.emplace_back(0));
        peer.arrival_value = peer.departure_value = 1;
        peer.rank = uint32_t(peers.size());
        peer.queue = queue;
        return peers.emplace_back(peer);
    }
    sdma_work *build() {
        operation.rings = rings;
        operation.peers = peers;
        record.assign(sdma::plan::record_bytes(rings.size(), peers.size()) / 8, 0);
        work = sdma::plan::build(operation, std::as_writable_bytes(std::span(record)));
        return work;
    }
    void consume(uint64_t packets = UINT64_MAX) {
        for (Queue &queue : queues) {
            queue.consume(packets);
        }
    }
    void launch(uint32_t lanes, uint64_t seed = 0) {
        lanes::run(
            1, lanes, [&] { sdma_issue_kernel(work); }, seed, [&] { consume(1); });
        consume();
    }
    void expect_done() {
        EXPECT_EQ(work->status, uint64_t{SDMA_WORK_ISSUED});
        for (const auto &peer : peers) {
            bool engine = peer.path == SDMA_PATH_ENGINE;
            if (engine && peer.bytes != 0) {
                EXPECT_EQ(
                    std::memcmp(reinterpret_cast<void *>(peer.src), reinterpret_cast<void *>(peer.dst), peer.bytes), 0)
                    << "peer " << peer.rank;
            }
            for (uint64_t signal : {peer.arrival, peer.departure}) {
                if (signal != 0) {
                    EXPECT_EQ(*reinterpret_cast<uint64_t *>(signal), engine ? 1u : 0u) << "peer " << peer.rank;
                }
            }
        }
        for (Queue &queue : queues) {
            EXPECT_EQ(queue.written(), queue.rung());
            EXPECT_EQ(queue.written(), queue.cursors().commit);
            EXPECT_EQ(queue.written(), queue.cursors().reserve);
            EXPECT_EQ(queue.read(), queue.written());
            EXPECT_FALSE(queue.overrun());
            expect_whole_peers(queue);
        }
    }
    // Copies, then this peer's arrival, then its departure, nothing of others between.
    void expect_whole_peers(const Queue &queue) {
        const sdma::plan::Peer *open = nullptr;
        uint64_t left = 0, next_dst = 0;
        for (const auto &event : queue.events) {
            if (event.op == 'c') {
                if (left == 0) {
                    open = nullptr;
                    for (const auto &peer : peers) {
                        open = peer.bytes != 0 && event.dst == peer.dst ? &peer : open;
                    }
                    ASSERT_NE(open, nullptr);
                    left = open->bytes;
                    next_dst = open->dst;
                }
                ASSERT_EQ(event.dst, next_dst) << "another peer's copy in between";
                next_dst += event.bytes;
                left -= event.bytes;
                if (left == 0 && open->arrival == 0 && open->departure == 0) {
                    open = nullptr;
                }
            } else {
                ASSERT_EQ(left, 0u) << "a signal before the last copy";
                if (open != nullptr) {
                    ASSERT_TRUE(event.dst == open->arrival || event.dst == open->departure) << "another peer's signal";
                    open = event.dst == open->departure ? nullptr : open;
                }
            }
        }
    }
};

TEST(Issue, one_peer_is_one_publication) {
    Node node;
    Queue &queue = node.add_queue();
    auto &peer = node.add_peer(0, 100);
    ASSERT_NE(node.build(), nullptr);
    node.launch(64);
    node.expect_done();
    EXPECT_EQ(queue.written(), (7 + 8 + 8) * 4u);
    EXPECT_EQ(queue.events.size(), 3u);
    EXPECT_EQ(queue.events[0].op, 'c');
    EXPECT_EQ(queue.events[1].dst, peer.arrival);
    EXPECT_EQ(queue.events[2].dst, peer.departure);
    EXPECT_EQ(queue.dwords()[1], 99u);
}

TEST(Issue, chunks_and_signals_in_one_reservation) {
    Node node;
    Queue &queue = node.add_queue();
    node.add_peer(0, 5 * 4096 + 1);
    node.build();
    lanes::run(1, 64, [&] { sdma_issue_kernel(node.work); });
    queue.consume();
    node.expect_done();
    EXPECT_EQ(queue.bells, 1u);
    EXPECT_EQ(queue.written(), (6 * 7 + 16) * 4u);
    EXPECT_EQ(queue.events[5].bytes, 1u);
}

TEST(Issue, peers_without_signals_share_the_next_reservation) {
    for (bool silent : {true, false}) {
        Node node;
        Queue &queue = node.add_queue(65536);
        for (uint64_t i = 0; i < 20; ++i) {
            auto &peer = node.add_peer(0, 50 + i * 300);
            if (silent && i < 19) {
                peer.arrival = peer.departure = 0;
            }
        }
        node.build();
        sdma::issuing::Walk walk{};
        walk.head = *node.work;
        walk.stride = 1;
        uint64_t bells = 0;
        while (walk.state != sdma::issuing::State::ended) { // a turn rings at most once
            const uint64_t before = queue.rung();
            sdma::issuing::step(walk, node.work);
            bells += queue.rung() != before;
        }
        EXPECT_EQ(bells, silent ? 1u : 20u);
        EXPECT_EQ(walk.outcome.status, uint32_t{SDMA_WORK_ISSUED});
        node.work->status = SDMA_WORK_ISSUED;
        node.consume();
        node.expect_done();
    }
}

TEST(Issue, peers_without_signals_in_short_rings) {
    for (uint64_t ring_bytes : {256, 4096}) {
        for (bool last_is_silent : {true, false}) {
            Node node;
            node.add_queue(ring_bytes, 8 * 12345);
            for (uint64_t i = 0; i < 60; ++i) {
                auto &peer = node.add_peer(0, i % 5 == 0 ? 9000 : i % 7 * 10);
                if (i % 11 != 10 && (i < 59 || last_is_silent)) {
                    peer.arrival = peer.departure = 0;
                }
            }
            node.build();
            node.launch(64, ring_bytes);
            node.expect_done();
        }
    }
}

TEST(Issue, nothing_to_move_is_signals_only) {
    Node node;
    Queue &queue = node.add_queue();
    node.add_peer(0, 0);
    auto &own = node.add_peer(0, 64); // our own block: no arrival
    own.arrival = 0;
    auto &silent = node.add_peer(0, 0);
    silent.arrival = silent.departure = 0;
    node.build();
    node.launch(64);
    node.expect_done();
    EXPECT_EQ(queue.written(), (16 + 7 + 8) * 4u);
}

TEST(Issue, fences_store_the_value) {
    Node node;
    Queue &queue = node.add_queue();
    auto &peer = node.add_peer(0, 33);
    peer.arrival_value = 0xfffffff0;
    node.operation.signal_kind = SDMA_SIGNAL_FENCE;
    node.build();
    node.launch(64);
    EXPECT_EQ(queue.written(), (7 + 4 + 4) * 4u);
    EXPECT_EQ(*reinterpret_cast<uint64_t *>(peer.arrival), 0xfffffff0u);
    EXPECT_EQ(*reinterpret_cast<uint64_t *>(peer.departure), 1u);
}

TEST(Issue, loadstore_peers_are_skipped) {
    Node node;
    node.add_queue();
    node.add_peer(0, 100);
    node.add_peer(0, 100).path = SDMA_PATH_LOADSTORE;
    node.build();
    node.launch(64);
    node.expect_done();
}

TEST(Issue, queues_shared_out_among_lanes) {
    for (uint32_t lanes : {1, 3, 64}) {
        for (uint64_t seed : {0, 1, 2}) {
            Node node;
            for (uint32_t q = 0; q < 70; ++q) {
                node.add_queue();
                for (uint32_t p = 0; p < q % 4; ++p) {
                    node.add_peer(q, 4096 * p + q);
                }
            }
            ASSERT_NE(node.build(), nullptr);
            node.launch(lanes, seed);
            node.expect_done();
        }
    }
}

TEST(Issue, wraps_at_every_offset) {
    uint64_t pads = 0;
    for (uint64_t start = 0; start < 512; start += 4) {
        Node node;
        Queue &queue = node.add_queue(512, (uint64_t{1} << 40) + start);
        for (uint32_t p = 0; p < 9; ++p) {
            node.add_peer(0, 1 + 4096 * (p % 3));
        }
        node.build();
        node.launch(64, start);
        node.expect_done();
        pads += queue.pads;
    }
    EXPECT_GT(pads, 0u);
}

TEST(Issue, long_messages_in_a_short_ring) {
    for (uint64_t chunks : {7, 8, 9, 100}) {
        Node node;
        Queue &queue = node.add_queue(512); // 64 dwords at a time
        node.operation.chunk_bytes = 64;
        node.add_peer(0, 64 * chunks);
        node.add_peer(0, 64 * chunks - 63);
        node.build();
        node.launch(64);
        node.expect_done();
        EXPECT_EQ(queue.events.size(), 2 * (chunks + 2));
    }
}

TEST(Issue, lanes_that_share_a_ring) {
    for (uint64_t seed = 1; seed < 200; ++seed) {
        Node node;
        node.add_queue(512, seed * 4);
        for (uint32_t q = 0; q < 4; ++q) {
            node.rings.resize(q + 1, node.rings[0]);
            for (uint32_t p = 0; p < 3; ++p) {
                node.add_peer(q, 4096 * p + q + 1);
            }
        }
        node.build();
        node.launch(4, seed);
        node.expect_done();
    }
}

TEST(Issue, stuck_ring_is_named_and_others_are_served) {
    Node node;
    for (uint32_t q = 0; q < 3; ++q) {
        node.add_queue(512);
        for (uint32_t p = 0; p < 8; ++p) {
            node.add_peer(q, 100);
        }
    }
    node.build();
    auto dead = std::next(node.queues.begin());
    lanes::run(
        1, 64, [&] { sdma_issue_kernel(node.work); }, 0,
        [&] {
            node.queues.front().consume(1);
            node.queues.back().consume(1);
        });
    EXPECT_EQ(node.work->status, uint64_t{SDMA_WORK_RING_STUCK});
    EXPECT_EQ(node.work->fault_queue, 1u);
    node.queues.front().consume();
    node.queues.back().consume();
    EXPECT_EQ(node.queues.front().events.size(), 24u);
    EXPECT_EQ(node.queues.back().events.size(), 24u);
    // what was published is whole, and nothing is claimed beyond
    EXPECT_EQ(dead->cursors().reserve, dead->cursors().commit);
    EXPECT_EQ(dead->written() % (23 * 4), 0u);
    EXPECT_LT(dead->written(), 512u);
}

TEST(Issue, slow_engine_is_not_a_stuck_one) {
    Node node;
    Queue &queue = node.add_queue(512);
    for (uint32_t p = 0; p < 20; ++p) {
        node.add_peer(0, 100);
    }
    node.operation.spin_budget = 50;
    node.build();
    uint64_t turns = 0;
    lanes::run(
        1, 1, [&] { sdma_issue_kernel(node.work); }, 0,
        [&] {
            if (++turns % 40 == 0) {
                queue.consume(1);
            }
        });
    queue.consume();
    node.expect_done();
}

TEST(Issue, bad_records_touch_no_ring) {
    auto spoil = [](auto change) {
        Node node;
        Queue &queue = node.add_queue();
        node.add_peer(0, 100);
        node.build();
        change(node);
        lanes::run(1, 64, [&] { sdma_issue_kernel(node.work); });
        EXPECT_EQ(node.work->status, uint64_t{SDMA_WORK_BAD});
        EXPECT_EQ(queue.cursors().reserve, 0u);
        EXPECT_EQ(queue.written(), 0u);
    };
    auto peer_of = [](Node &node) {
        return reinterpret_cast<sdma_work_peer *>(reinterpret_cast<char *>(node.work) + node.work->peers_offset);
    };
    auto queue_of = [](Node &node) {
        return reinterpret_cast<sdma_work_queue *>(reinterpret_cast<char *>(node.work) + node.work->queues_offset);
    };
    spoil([](Node &node) { node.work->magic = 0; });
    spoil([](Node &node) { node.work->version = 9; });
    spoil([](Node &node) { node.work->peers = 1000; });
    spoil([](Node &node) { node.work->chunk_bytes = uint64_t{1} << 30; });
    spoil([&](Node &node) { queue_of(node)->ring = 0; });
    spoil([&](Node &node) { queue_of(node)->peers = 2; });
    spoil([&](Node &node) { peer_of(node)->bytes = ~uint64_t{0}; });
    spoil([&](Node &node) { peer_of(node)->dst = 0; });
    spoil([&](Node &node) { peer_of(node)->arrival += 4; });
    spoil([&](Node &node) { peer_of(node)->path = 2; });
    spoil([](Node &node) { node.queues.front().ring.bytes = 4095; });
    spoil([](Node &node) { node.queues.front().ring.doorbell = 0; });
}

TEST(Issue, host_initiator) {
    Node node;
    for (uint32_t q = 0; q < 3; ++q) {
        node.add_queue(4096, 4 * q);
        node.add_peer(q, 10000);
        node.add_peer(q, 0);
    }
    node.build();
    EXPECT_EQ(sdma::initiate_on_host(node.work), uint64_t{SDMA_WORK_ISSUED});
    node.consume();
    node.expect_done();
}

TEST(Issue, host_initiator_gives_up_on_a_dead_engine) {
    Node node;
    node.add_queue(512);
    for (uint32_t p = 0; p < 8; ++p) {
        node.add_peer(0, 100);
    }
    node.build();
    EXPECT_EQ(sdma::initiate_on_host(node.work), uint64_t{SDMA_WORK_RING_STUCK});
    EXPECT_EQ(node.work->status, uint64_t{SDMA_WORK_RING_STUCK});
    EXPECT_EQ(node.work->fault_queue, 0u);
}

} // namespace
