// SPDX-License-Identifier: BSD-3-Clause
//
// A peer whose words are garbage: a call is declined, fails, or waits for the peer as it may; it
// never crashes and never touches memory it should not (address sanitizer, guard bytes).
#include <random>

#include "test/support/played_peer.hpp"

using namespace ranks;
using sdma::params;

namespace {

class Garbage {
public:
    explicit Garbage(unsigned seed) : random_(seed) {}
    uint64_t pick(uint64_t below) { return random_() % below; }
    // Numbers that break arithmetic are more likely than others.
    uint64_t word() {
        constexpr uint64_t edges[] = {0, 1, 2, 31, 32, 64, 1023, 1024, 4095, 4096, 1ull << 31, 1ull << 32, 1ull << 63};
        switch (pick(4)) {
        case 0:
            return random_();
        case 1:
            return ~uint64_t{0} - pick(70);
        case 2:
            return pick(3000);
        default:
            return edges[pick(std::size(edges))] - pick(2);
        }
    }

private:
    std::mt19937_64 random_;
};

void spoil_offer(Garbage &garbage, Played_peer &peer, uint64_t sequence) {
    auto &words = peer.offer(sequence);
    sdma::team::Word *all[] = {&words.status,     &words.confirmed, &words.registration,
                               &words.generation, &words.offset,    &peer.block_bytes(sequence)};
    for (uint64_t spoilt = 1 + garbage.pick(3); spoilt > 0; spoilt--)
        *all[garbage.pick(std::size(all))] = garbage.word();
    if (garbage.pick(2) == 0)
        words.status = SDMA_ALLTOALL + garbage.pick(2) + (garbage.pick(4) << 24); // valid, with any flags
    auto *blocks = peer.team.at<sdma::team::Word>(
        peer.layout.slot(static_cast<uint32_t>(sequence % peer.layout.depth)) + peer.layout.blocks_at());
    for (int i = 0; i < 4; i++)
        blocks[i] = garbage.pick(2) ? 32 : garbage.word();
}

void spoil_table(Garbage &garbage, Played_peer &peer, uint64_t id) {
    auto *words = reinterpret_cast<sdma::team::Word *>(&peer.table().entry[id % sdma::memory::table_entries]);
    words[garbage.pick(12)] = garbage.word();
    if (garbage.pick(2))
        peer.table().retired++;
}

TEST(Hostile, words_of_a_peer) {
    With_loadstore_max loadstore(size_t{0});
    With slots(params().slots, 2);
    sdma_log_to([](int, const char *) {}); // thousands of true complaints
    int settled[3] = {};
    for (unsigned seed = 0; seed < 400; seed++) {
        Garbage garbage(seed);
        Played_peer peer(2);
        Opposite here(peer);
        ASSERT_EQ(SDMA_OK, here.status);
        fake::Runtime &gpu = *here.rank.gpu;
        char *send = gpu.allocate(0, 64), *recv = gpu.allocate(0, 64);
        // The page of the peer's allocation goes on after its end.
        char *memory = here.peer_gpu.allocate(0, 100);
        memset(memory, 0x66, 4096);
        const uint64_t generation = here.peer_gpu.classify(memory).generation;
        peer.publish(1024, here.peer_gpu, memory);
        for (uint64_t sequence = 0; sequence < 6; sequence++) {
            auto op = here.rank.start(alltoall(send, recv, 32));
            auto &words = peer.offer(sequence);
            peer.offer_alltoall(sequence, 32, 1024, generation);
            words.epoch = 0;
            if (garbage.pick(3))
                spoil_offer(garbage, peer, sequence);
            if (garbage.pick(4) == 0)
                spoil_table(garbage, peer, 1024);
            words.epoch = garbage.pick(8) ? sequence + 1 : garbage.word();
            words.verdict = garbage.pick(4) ? (sequence + 1) << 16 | 1 : garbage.word();
            auto *arrivals = peer.team.at<sdma::team::Word>(peer.layout.arrival(here.rank.main.team->slot({}), 0));
            if (garbage.pick(4) == 0)
                arrivals[0] = garbage.word();
            for (int i = 0; i < 50; i++) {
                op->test();
                std::this_thread::yield();
            }
            // Whatever it was, now the peer says no, or that it has failed.
            if (op->test() == SDMA_PENDING) {
                peer.refuse(sequence);
                peer.say(sequence, SDMA_REASON_attach_failed);
                for (int i = 0; i < 50; i++)
                    op->test();
            }
            if (op->test() == SDMA_PENDING) {
                words.consumed = ~uint64_t{0};
                peer.header().fault = garbage.word() | 1;
            }
            const sdma_status_t status = Rank::finish(*op);
            settled[status == SDMA_OK ? 0 : status == SDMA_DECLINED ? 1 : 2]++;
            EXPECT_LT(op->reason(), SDMA_REASON_COUNT);
            if (status == SDMA_ERROR)
                break;
            words.consumed = sequence + 1;
        }
        for (size_t i = 100; i < 4096; i++)
            ASSERT_EQ(0x66, memory[i]) << "seed " << seed << " wrote beyond the allocation";
    }
    sdma_log_to(nullptr);
    // All three kinds of end have been seen, or the test does not test much.
    EXPECT_GT(settled[1], 100);
    EXPECT_GT(settled[2], 50);
}

TEST(Hostile, set_up_verdicts_and_headers) {
    sdma_log_to([](int, const char *) {});
    for (unsigned seed = 0; seed < 100; seed++) {
        Garbage garbage(seed);
        Played_peer peer(static_cast<uint32_t>(params().slots));
        sdma::team::Word *words[] = {&peer.header().magic,  &peer.header().version, &peer.header().geometry,
                                     &peer.header().rank,   &peer.table().magic,    &peer.table().version,
                                     &peer.table().entries, &peer.table().instance};
        const size_t spoilt = garbage.pick(std::size(words) + 1);
        uint64_t value;
        if (spoilt < std::size(words)) {
            while ((value = garbage.word()) == *words[spoilt]) {
            }
            *words[spoilt] = value;
        } else {
            while ((value = garbage.word()) <= 1) {
            }
            peer.header().verdict = value;
        }
        Opposite here(peer);
        EXPECT_EQ(SDMA_DECLINED, here.status);
        EXPECT_GT(here.rank.main.team->reason(), SDMA_REASON_none);
        EXPECT_LT(here.rank.main.team->reason(), SDMA_REASON_COUNT);
    }
    sdma_log_to(nullptr);
}

} // namespace
