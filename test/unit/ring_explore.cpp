// SPDX-License-Identifier: BSD-3-Clause
//
// Every interleaving of two or three producers and a consumer on a small ring, at every offset, with
// packets of mixed sizes and a ring that fills up. States that were seen are not entered again, so
// that all are. Exit status 0: no violation, or, with a deliberate mistake compiled in
// (kernels/mutants.h), one was found.
#define SDMA_TWIN 1
#define SDMA_TWIN_ACCESS 1
#include "test/unit/ring_model.hpp"

#include <cstdio>
#include <span>
#include <unordered_set>

namespace {

using namespace ring_model;

// A reservation: its packets' sizes in dwords.
using Claim = std::vector<uint32_t>;
struct Setup {
    const char *name;
    uint64_t ring_bytes;
    std::vector<std::vector<Claim>> producers;
};

uint32_t content(uint32_t producer, uint32_t claim, uint32_t packet, uint32_t dwords, uint32_t index) {
    uint32_t header = 0x80000000u | producer << 24 | claim << 16 | packet << 8 | dwords;
    return index == 0 ? header : uint32_t(mix(header, index)) | 1;
}

template <uint32_t N>
void put_numbered(sdma::ring::Writer &writer, uint32_t producer, uint32_t claim, uint32_t number) {
    sdma::packet::Packet<N> packet{};
    for (uint32_t i = 0; i < N; ++i) {
        packet.dw[i] = content(producer, claim, number, N, i);
    }
    put(writer, packet);
}

void put_sized(sdma::ring::Writer &writer, uint32_t dwords, uint32_t producer, uint32_t claim, uint32_t number) {
    switch (dwords) {
    case 1:
        return put_numbered<1>(writer, producer, claim, number);
    case 2:
        return put_numbered<2>(writer, producer, claim, number);
    case 3:
        return put_numbered<3>(writer, producer, claim, number);
    case 4:
        return put_numbered<4>(writer, producer, claim, number);
    case 5:
        return put_numbered<5>(writer, producer, claim, number);
    case 7:
        return put_numbered<7>(writer, producer, claim, number);
    case 8:
        return put_numbered<8>(writer, producer, claim, number);
    default:
        throw Violation("no such packet size");
    }
}

void produce(Producer &self, const std::vector<Claim> &claims) {
    const sdma_ring &ring = self.world->ring;
    for (uint32_t c = 0; c < claims.size(); ++c) {
        uint64_t bytes = 0, seen = 0;
        for (uint32_t dwords : claims[c]) {
            bytes += 4 * dwords;
        }
        sdma::ring::Reservation reservation;
        self.mark(2 * c + 2);
        for (;;) {
            auto attempt = sdma::ring::try_reserve(ring, bytes, reservation, seen);
            if (attempt == sdma::ring::Attempt::done) {
                break;
            }
            if (attempt == sdma::ring::Attempt::blocked) {
                self.wait_for_change();
            }
            self.mark(2 * c + 2);
        }
        auto writer = sdma::ring::begin(ring, reservation);
        for (uint32_t p = 0; p < claims[c].size(); ++p) {
            put_sized(writer, claims[c][p], self.index, c, p);
        }
        self.mark(mix(2 * c + 3, reservation.base));
        while (sdma::ring::try_publish(ring, reservation, seen) != sdma::ring::Attempt::done) {
            self.wait_for_change();
            self.mark(mix(2 * c + 3, reservation.base));
        }
    }
}

// The order in which packets may leave: per producer as written, a claim never interrupted.
class Taker {
public:
    explicit Taker(const Setup &setup) : setup_(setup), next_(setup.producers.size()) {}

    uint32_t take(const uint32_t *packet) {
        uint32_t header = packet[0], producer = header >> 24 & 0x7f, dwords = header & 0xff;
        World::require(header >> 31 == 1 && producer < next_.size() && dwords >= 1 && dwords <= 8, "no packet");
        for (uint32_t i = 0; i < dwords; ++i) {
            World::require(packet[i] == content(producer, header >> 16 & 0xff, header >> 8 & 0xff, dwords, i),
                           "a packet with foreign or old dwords");
        }
        auto &[claim, number] = next_[producer];
        World::require((header >> 16 & 0xff) == claim && (header >> 8 & 0xff) == number, "packets out of order");
        World::require(open_ < 0 || open_ == int(producer), "a claim is interrupted");
        const Claim &whole = setup_.producers[producer][claim];
        open_ = ++number == whole.size() ? -1 : int(producer);
        if (open_ < 0) {
            ++claim;
            number = 0;
        }
        return dwords;
    }
    bool all_taken() const {
        for (size_t p = 0; p < next_.size(); ++p) {
            if (next_[p].first != setup_.producers[p].size()) {
                return false;
            }
        }
        return open_ < 0;
    }

private:
    const Setup &setup_;
    std::vector<std::pair<uint32_t, uint32_t>> next_; // claim, packet
    int open_ = -1;
};

class Explorer {
public:
    Explorer(const Setup &setup, uint64_t start)
        : setup_(setup), world_(setup.ring_bytes, start, uint32_t(setup.producers.size())) {
        for (size_t p = 0; p < setup.producers.size(); ++p) {
            world_.all[p].body = [&claims = setup.producers[p]](Producer &self) { produce(self, claims); };
        }
    }

    void run() {
        world = &world_;
        do {
            walk();
        } while (back_up());
    }
    size_t states() const { return seen_.size(); }

private:
    struct Choice {
        uint32_t taken, of;
    };

    std::vector<int> enabled() const { // -1: the consumer
        std::vector<int> actors;
        for (const Producer &producer : world_.all) {
            if (world_.enabled(producer)) {
                actors.push_back(int(producer.index));
            }
        }
        if (world_.consumer_enabled()) {
            actors.push_back(-1);
        }
        return actors;
    }

    // From the start along the path of choices, then on into states not yet seen.
    void walk() {
        world_.restart();
        Taker taker(setup_);
        for (size_t depth = 0;; ++depth) {
            std::vector<int> actors = enabled();
            if (depth == path_.size()) {
                if (!seen_.insert(world_.state()).second) {
                    return;
                }
                if (actors.empty()) {
                    finish(taker);
                    return;
                }
                path_.push_back({0, uint32_t(actors.size())});
            }
            int actor = actors[path_[depth].taken];
            if (actor < 0) {
                world_.step_consumer([&](const uint32_t *packet) { return taker.take(packet); });
            } else {
                world_.step(world_.all[size_t(actor)]);
            }
        }
    }

    void finish(const Taker &taker) const {
        for (const Producer &producer : world_.all) {
            World::require(producer.ended, "producers wait for ever");
        }
        World::require(taker.all_taken(), "packets are lost");
        World::require(world_.doorbell == world_.write && world_.cursors.commit == world_.write &&
                           world_.cursors.reserve == world_.write,
                       "the pointers do not agree in the end");
    }

    bool back_up() {
        while (!path_.empty() && ++path_.back().taken == path_.back().of) {
            path_.pop_back();
        }
        return !path_.empty();
    }

    const Setup &setup_;
    World world_;
    std::vector<Choice> path_;
    std::unordered_set<uint64_t> seen_;
};

const Setup setups[] = {
    {"two producers, two claims each", 64, {{{3}, {8}}, {{5}, {2}}}},
    {"copy and signals in one claim, a full ring", 128, {{{7, 4}, {7, 4, 4}}, {{7, 8}}}},
    {"three producers", 64, {{{7}}, {{4, 4}}, {{3}}}},
    {"three producers, one with two claims", 64, {{{8}}, {{5}}, {{1}, {7}}}},
};
constexpr size_t short_run = 3; // setups

} // namespace

// "long": all setups.
int main(int argc, char **argv) {
#ifdef __SANITIZE_THREAD__
    return 77; // it does not follow the model's jumps between stacks
#endif
    using namespace sdma;
    bool mistaken = mutant::doorbell_first || mutant::no_drain || mutant::no_pad;
    size_t states = 0;
    bool all = argc > 1 && std::strcmp(argv[1], "long") == 0;
    for (const Setup &setup : std::span(setups).first(all ? std::size(setups) : short_run)) {
        size_t before = states;
        for (uint64_t offset = 0; offset < setup.ring_bytes; offset += 4) {
            Explorer explorer(setup, (uint64_t{1} << 32) - setup.ring_bytes + offset);
            try {
                explorer.run();
            } catch (const Violation &violation) {
                std::printf("%s, offset %u: %s\n", setup.name, unsigned(offset), violation.what());
                return mistaken ? 0 : 1;
            }
            states += explorer.states();
        }
        std::printf("%s: %zu states\n", setup.name, states - before);
    }
    std::printf("%zu states, no violation\n", states);
    return mistaken ? 1 : 0;
}
