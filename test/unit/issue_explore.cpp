// SPDX-License-Identifier: BSD-3-Clause
//
// Several initiators run the issue code on one ring, in random order, one shared access at a time,
// on memory as unkind as in ring_model.hpp. The consumer wants each peer's packets whole and in
// order: copies, arrival, departure. Exit status as in ring_explore.cpp.
//   issue_explore [RUNS [SEED]]
#define SDMA_TWIN 1
#define SDMA_TWIN_ACCESS 1
#include "test/unit/ring_model.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include "common/sdma/plan/plan.hpp"
#include "kernels/issue.h"

namespace {

using namespace ring_model;

constexpr uint32_t initiators = 3, peers_each = 3;
constexpr uint64_t ring_bytes = 256, chunk = 4096;

// Peer p of initiator i, recognised by its addresses; nobody touches what they point at.
sdma::plan::Peer peer_of(uint32_t initiator, uint32_t p) {
    uint64_t id = initiator * 16 + p + 1;
    sdma::plan::Peer peer;
    peer.src = id << 32;
    peer.dst = id << 32 | 1u << 31;
    peer.bytes = std::min<uint64_t>(p, 2) * chunk + (p == 1 ? 1 : 0); // 0, 2 and 2 copies
    peer.arrival = id << 32 | 8;
    peer.departure = id << 32 | 16;
    return peer;
}

std::vector<uint64_t> record_of(uint32_t initiator, const sdma_ring &ring) {
    std::vector<sdma::plan::Peer> peers;
    for (uint32_t p = 0; p < peers_each; ++p) {
        peers.push_back(peer_of(initiator, p));
    }
    uint64_t rings[] = {reinterpret_cast<uint64_t>(&ring)};
    sdma::plan::Operation operation;
    operation.chunk_bytes = chunk;
    operation.spin_budget = 1'000'000;
    operation.rings = rings;
    operation.peers = peers;
    std::vector<uint64_t> record(sdma::plan::record_bytes(1, peers_each) / 8);
    World::require(sdma::plan::build(operation, std::as_writable_bytes(std::span(record))) != nullptr, "no record");
    return record;
}

// What must come next: a peer's first packet, or the next one of the open peer.
class Taker {
public:
    uint32_t take(const uint32_t *packet) {
        bool copy = packet[0] == 0x00000001;
        World::require(copy || packet[0] == 0x5e00000a, "no packet");
        const uint32_t *address = packet + (copy ? 5 : 1);
        uint64_t where = address[0] | uint64_t{address[1]} << 32;
        uint64_t id = where >> 32;
        if (left_.empty()) {
            World::require(id >= 1 && (id - 1) / 16 < initiators && (id - 1) % 16 < peers_each, "no such peer");
            begin(peer_of(uint32_t(id - 1) / 16, uint32_t(id - 1) % 16));
        }
        World::require(where == left_.front(), "another packet than the next of its peer");
        left_.erase(left_.begin());
        ++taken;
        return copy ? 7 : 8;
    }
    uint32_t taken = 0;
    bool whole() const { return left_.empty(); }

private:
    void begin(const sdma::plan::Peer &peer) {
        for (uint64_t at = 0; at < peer.bytes; at += chunk) {
            left_.push_back(peer.dst + at);
        }
        left_.push_back(peer.arrival);
        left_.push_back(peer.departure);
    }
    std::vector<uint64_t> left_; // destinations of the open peer's packets
};

void run(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto owner = std::make_unique<World>(ring_bytes, random() % (1u << 20) * 4, initiators);
    World &model = *owner;
    world = &model;
    std::vector<std::vector<uint64_t>> records;
    for (uint32_t i = 0; i < initiators; ++i) {
        records.push_back(record_of(i, model.ring));
        auto *work = reinterpret_cast<sdma_work *>(records[i].data());
        model.all[i].body = [work](Producer &) {
            World::require(sdma::issue(work, 0, 1).status == SDMA_WORK_ISSUED, "not issued");
        };
    }
    model.restart();
    Taker taker;
    for (;;) {
        std::vector<Producer *> actors;
        for (Producer &producer : model.all) {
            if (model.enabled(producer)) {
                actors.push_back(&producer);
            }
        }
        if (actors.empty() && !model.consumer_enabled()) {
            break;
        }
        size_t pick = random() % (actors.size() + (model.consumer_enabled() ? 1 : 0));
        if (pick < actors.size()) {
            model.step(*actors[pick]);
        } else {
            model.step_consumer([&](const uint32_t *packet) { return taker.take(packet); });
        }
    }
    World::require(taker.whole() && taker.taken == initiators * (2 + 4 + 4), "packets are lost");
}

} // namespace

int main(int argc, char **argv) {
#ifdef __SANITIZE_THREAD__
    return 77; // it does not follow the model's jumps between stacks
#endif
    using namespace sdma;
    bool mistaken = mutant::doorbell_first || mutant::no_drain || mutant::no_pad || mutant::signal_first ||
                    mutant::two_reservations;
    uint64_t runs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
    uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    for (uint64_t i = 0; i < runs; ++i) {
        try {
            run(seed + i);
        } catch (const Violation &violation) {
            std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed + i), violation.what());
            return mistaken ? 0 : 1;
        }
    }
    std::printf("%llu runs, no violation\n", static_cast<unsigned long long>(runs));
    return mistaken ? 1 : 0;
}
