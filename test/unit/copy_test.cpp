// SPDX-License-Identifier: BSD-3-Clause
//
// The load/store kernel as a twin: every alignment, odd sizes, any grid, signals by the last lane.
#include <gtest/gtest.h>

#include <random>

#include "common/sdma/plan/plan.hpp"
#include "test/unit/lanes.hpp"

namespace {

constexpr size_t margin = 64;

struct Block {
    std::vector<uint8_t> src, dst, expected;
    uint64_t src_at, dst_at;

    Block(size_t bytes, size_t src_offset, size_t dst_offset)
        : src(bytes + 2 * margin + 16), dst(bytes + 2 * margin + 16) {
        std::mt19937 random(unsigned(bytes * 31 + src_offset * 17 + dst_offset));
        for (auto *bytes_of : {&src, &dst}) {
            for (uint8_t &byte : *bytes_of) {
                byte = uint8_t(random());
            }
        }
        uint8_t *from = aligned(src) + src_offset, *to = aligned(dst) + dst_offset;
        expected = dst;
        std::copy(from, from + bytes, expected.data() + (to - dst.data()));
        src_at = reinterpret_cast<uint64_t>(from);
        dst_at = reinterpret_cast<uint64_t>(to);
    }
    static uint8_t *aligned(std::vector<uint8_t> &bytes) {
        auto address = reinterpret_cast<uint64_t>(bytes.data()) + margin;
        return reinterpret_cast<uint8_t *>(address / 16 * 16);
    }
    bool good() const { return dst == expected; }
};

struct Job {
    std::vector<sdma::plan::Peer> peers;
    std::vector<uint64_t> record;
    sdma_work *work = nullptr;

    void add(const Block &block, size_t bytes, enum sdma_path path = SDMA_PATH_LOADSTORE) {
        sdma::plan::Peer peer;
        peer.src = block.src_at;
        peer.dst = block.dst_at;
        peer.bytes = bytes;
        peer.path = path;
        peers.push_back(peer);
    }
    sdma_work *build(bool kernel_signals) {
        static uint64_t ring = 0; // never looked at
        uint64_t rings[] = {reinterpret_cast<uint64_t>(&ring)};
        sdma::plan::Operation operation;
        operation.chunk_bytes = 4096;
        operation.kernel_signals = kernel_signals;
        operation.rings = rings;
        operation.peers = peers;
        record.assign(sdma::plan::record_bytes(1, peers.size()) / 8, 0);
        work = sdma::plan::build(operation, std::as_writable_bytes(std::span(record)));
        return work;
    }
    void launch(uint32_t workgroups, uint32_t lanes, uint64_t seed = 0) {
        lanes::run(
            workgroups, lanes, [&] { sdma_copy_kernel(work); }, seed);
    }
};

TEST(Copy, every_alignment_and_odd_sizes) {
    for (size_t src_offset = 0; src_offset < 16; ++src_offset) {
        for (size_t dst_offset = 0; dst_offset < 16; ++dst_offset) {
            for (size_t bytes : {1, 2, 15, 16, 17, 31, 33, 255, 4095, 4097}) {
                Block block(bytes, src_offset, dst_offset);
                Job job;
                job.add(block, bytes);
                ASSERT_NE(job.build(false), nullptr);
                job.launch(2, 8);
                ASSERT_TRUE(block.good()) << bytes << " bytes, offsets " << src_offset << " " << dst_offset;
                ASSERT_EQ(job.work->status, uint64_t{SDMA_WORK_OPEN});
            }
        }
    }
}

TEST(Copy, all_peers_in_any_grid) {
    const std::vector<size_t> sizes = {100, 0, 4096, 4097, 100001, 8192, 1, 65536};
    for (auto [workgroups, lanes] : {std::pair{1u, 1u}, {1u, 256u}, {3u, 7u}, {8u, 256u}, {64u, 64u}}) {
        std::vector<Block> blocks;
        for (size_t i = 0; i < sizes.size(); ++i) {
            blocks.emplace_back(sizes[i], i, 2 * i);
        }
        Job job;
        for (size_t i = 0; i < sizes.size(); ++i) {
            job.add(blocks[i], sizes[i]);
        }
        job.build(false);
        job.launch(workgroups, lanes);
        for (const Block &block : blocks) {
            ASSERT_TRUE(block.good()) << workgroups << " x " << lanes;
        }
    }
}

TEST(Copy, engine_peers_are_left_alone) {
    Block mine(1000, 0, 0), engines(1000, 0, 0);
    auto before = engines.dst;
    Job job;
    job.add(engines, 1000, SDMA_PATH_ENGINE);
    job.add(mine, 1000);
    job.build(false);
    job.launch(2, 64);
    EXPECT_TRUE(mine.good());
    EXPECT_EQ(engines.dst, before);
}

// No lane that still copies may find a signal raised: the signals of a grid come last.
TEST(Copy, last_lane_raises_the_signals) {
    for (uint64_t seed = 1; seed < 30; ++seed) {
        uint64_t words[4] = {};
        Block one(5000, 3, 3), other(70000, 0, 8);
        Job job;
        job.add(one, 5000);
        job.add(other, 70000);
        job.peers[0].arrival = reinterpret_cast<uint64_t>(&words[0]);
        job.peers[0].departure = reinterpret_cast<uint64_t>(&words[1]);
        job.peers[1].arrival = reinterpret_cast<uint64_t>(&words[2]);
        job.peers[0].arrival_value = 7;
        job.peers[0].departure_value = 8;
        job.peers[1].arrival_value = uint64_t{9} << 32;
        job.build(true);
        bool early = false;
        uint32_t lanes = 5, workgroups = 3;
        lanes::run(
            workgroups, lanes, [&] { sdma_copy_kernel(job.work); }, seed,
            [&] {
                bool raised = words[0] != 0 || words[1] != 0 || words[2] != 0;
                early = early || (raised && !(one.good() && other.good()));
            });
        EXPECT_FALSE(early);
        EXPECT_EQ(words[0], 7u);
        EXPECT_EQ(words[1], 8u);
        EXPECT_EQ(words[2], uint64_t{9} << 32);
        EXPECT_EQ(words[3], 0u);
        EXPECT_EQ(job.work->status, uint64_t{SDMA_WORK_ISSUED});
    }
}

TEST(Copy, status_belongs_to_the_issue_kernel_if_there_is_one) {
    Block mine(100, 0, 0), engines(100, 0, 0);
    Job job;
    job.add(mine, 100);
    job.add(engines, 100, SDMA_PATH_ENGINE);
    job.build(true);
    job.launch(1, 64);
    EXPECT_TRUE(mine.good());
    EXPECT_EQ(job.work->status, uint64_t{SDMA_WORK_OPEN});
}

TEST(Copy, nothing_to_copy) {
    uint64_t word = 0;
    Block block(1, 0, 0);
    auto before = block.dst;
    Job job;
    job.add(block, 0);
    job.peers[0].arrival = reinterpret_cast<uint64_t>(&word);
    job.peers[0].arrival_value = 5;
    job.build(true);
    job.launch(4, 64);
    EXPECT_EQ(word, 5u);
    EXPECT_EQ(block.dst, before);
}

TEST(Copy, bad_records_move_nothing) {
    auto spoil = [](auto change) {
        Block block(1000, 0, 0);
        auto before = block.dst;
        Job job;
        job.add(block, 1000);
        job.build(true);
        change(*job.work,
               *reinterpret_cast<sdma_work_peer *>(reinterpret_cast<char *>(job.work) + job.work->peers_offset));
        job.launch(2, 64);
        EXPECT_EQ(job.work->status, uint64_t{SDMA_WORK_BAD});
        EXPECT_EQ(block.dst, before);
    };
    spoil([](sdma_work &work, sdma_work_peer &) { work.magic = 1; });
    spoil([](sdma_work &work, sdma_work_peer &) { work.peers = 100; });
    spoil([](sdma_work &, sdma_work_peer &peer) { peer.bytes = ~uint64_t{0} - 5; });
    spoil([](sdma_work &, sdma_work_peer &peer) { peer.src = 0; });
    spoil([](sdma_work &, sdma_work_peer &peer) { peer.arrival = 3; });
}

} // namespace
