// SPDX-License-Identifier: BSD-3-Clause
//
// Boards: what is published is found, whole or not at all, and nothing that a peer may write leads astray.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "common/sdma/line/board.hpp"

using namespace sdma::line;

namespace {

sdma_key_t key_of(uint64_t seed) {
    sdma_key_t key;
    for (size_t i = 0; i < std::size(key.words); i++)
        key.words[i] = seed * 100 + i;
    return key;
}

bool same(const sdma_key_t &a, const sdma_key_t &b) { return std::equal(a.words, std::end(a.words), b.words); }

// The owner's view and a peer's.
struct Pair {
    explicit Pair(size_t entries, size_t counters = 0) : owner(Board::create(entries, counters)) {
        peer = Board::open({sdma::memory::new_identity(), 0}, owner->name());
    }
    std::unique_ptr<Board> owner, peer;
};

TEST(Board, finds_what_lies_inside_and_says_what_lies_across) {
    Pair board(4);
    ASSERT_TRUE(board.peer);
    sdma_posting_t posting;
    EXPECT_EQ(0, board.peer->find(1000, 1, posting));
    ASSERT_TRUE(board.owner->publish(1000, 100, key_of(1)));
    ASSERT_TRUE(board.owner->publish(2000, 50, key_of(2)));
    ASSERT_EQ(1, board.peer->find(1000, 100, posting));
    EXPECT_EQ(1000u, posting.base);
    EXPECT_EQ(100u, posting.bytes);
    EXPECT_TRUE(same(posting.key, key_of(1)));
    ASSERT_EQ(1, board.peer->find(2049, 1, posting));
    EXPECT_TRUE(same(posting.key, key_of(2)));
    EXPECT_EQ(-1, board.peer->find(1099, 2, posting));
    EXPECT_EQ(-1, board.peer->find(999, 2, posting));
    EXPECT_EQ(-1, board.peer->find(900, 5000, posting));
    EXPECT_EQ(0, board.peer->find(999, 1, posting));
    EXPECT_EQ(0, board.peer->find(1100, 900, posting));
    EXPECT_EQ(-1, board.peer->find(1000, UINT64_MAX, posting));
}

TEST(Board, a_place_that_is_used_again_has_another_version) {
    Pair board(1);
    sdma_posting_t before, now;
    ASSERT_TRUE(board.owner->publish(4096, 10, key_of(1)));
    EXPECT_FALSE(board.owner->publish(8192, 10, key_of(2)));
    ASSERT_EQ(1, board.peer->find(4096, 10, before));
    board.owner->withdraw(4096);
    EXPECT_EQ(0, board.peer->find(4096, 10, now));
    board.owner->withdraw(4096); // nothing
    ASSERT_TRUE(board.owner->publish(4096, 10, key_of(3)));
    ASSERT_EQ(1, board.peer->find(4096, 10, now));
    EXPECT_EQ(before.place, now.place);
    EXPECT_NE(before.version, now.version);
    EXPECT_TRUE(same(now.key, key_of(3)));
}

TEST(Board, names_that_make_no_sense_are_refused) {
    EXPECT_FALSE(Board::create(0, 0));
    EXPECT_FALSE(Board::create(Board::most_entries + 1, 0));
    EXPECT_FALSE(Board::create(1, Board::most_counters + 1));
    Pair board(2, 3);
    const Address own{sdma::memory::new_identity(), 0};
    const auto [fd, entries, counters] = board.owner->name().words;
    for (const sdma_board_name_t &name :
         {sdma_board_name_t{{fd, 0, counters}}, sdma_board_name_t{{fd, 64, counters}},
          sdma_board_name_t{{fd, Board::most_entries + 1, counters}}, sdma_board_name_t{{fd, entries, UINT64_MAX}},
          sdma_board_name_t{{fd, UINT64_MAX / 128, counters}}, sdma_board_name_t{{0, entries, counters}},
          sdma_board_name_t{{1u << 20, entries, counters}}})
        EXPECT_FALSE(Board::open(own, name));
    // A segment of that size which is no board.
    auto other = sdma::memory::Segment::create("other", 4096);
    EXPECT_FALSE(Board::open(own, {{static_cast<uint64_t>(other.fd()), 1, 1}}));
    Address gone = own;
    gone.identity.start_time++;
    EXPECT_FALSE(Board::open(gone, board.owner->name()));
}

TEST(Board, the_lock_is_one_for_all) {
    Pair board(1);
    EXPECT_TRUE(board.owner->try_lock());
    EXPECT_FALSE(board.peer->try_lock());
    board.owner->unlock();
    EXPECT_TRUE(board.peer->try_lock());
    EXPECT_FALSE(board.owner->try_lock());
    board.peer->unlock();
}

TEST(Board, counters_are_each_their_own) {
    Pair board(2, 3);
    board.owner->add(0);
    board.owner->add(2);
    board.owner->add(2);
    board.owner->add(3); // there is none
    EXPECT_EQ(1u, board.peer->read(0));
    EXPECT_EQ(0u, board.peer->read(1));
    EXPECT_EQ(2u, board.peer->read(2));
    EXPECT_EQ(0u, board.peer->read(3));
    sdma_posting_t posting;
    EXPECT_EQ(0, board.peer->find(0, UINT64_MAX, posting));
}

// Base, bytes and key belong together in whatever a reader gets while the owner changes the entry.
TEST(Board, readers_never_see_half_of_a_change) {
    Pair board(1);
    std::atomic<bool> stop{false};
    std::thread owner([&] {
        for (uint64_t i = 1; !stop; i = i % 1000 + 1) {
            board.owner->publish(i << 20, i, key_of(i));
            board.owner->withdraw(i << 20);
        }
    });
    size_t seen = 0;
    for (int tries = 0; tries < 200000 || (seen == 0 && tries < 100000000); tries++) {
        sdma_posting_t posting;
        if (board.peer->find(1 << 20, UINT64_MAX / 2, posting) == 0)
            continue;
        seen++;
        ASSERT_EQ(posting.bytes, posting.base >> 20);
        ASSERT_TRUE(same(posting.key, key_of(posting.bytes)));
    }
    stop = true;
    owner.join();
    EXPECT_GT(seen, 0u);
}

} // namespace
