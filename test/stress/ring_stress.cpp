// SPDX-License-Identifier: BSD-3-Clause
//
// Many host threads on one ring, one consumer, plain data behind every packet. Built a second time
// with -fsanitize=thread, which then checks that a packet seen is its data seen.
//   ring_stress [CLAIMS [PRODUCERS [RING_BYTES [SEED]]]]     (per producer)
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "common/sdma/ring/producer.h"

namespace {

using namespace sdma::ring;

// A packet: header (size), producer, number, then filler; its data is a plain word that the
// producer writes before and the consumer reads after.
constexpr uint32_t header_dwords = 3, most_dwords = 40, slots = 32;
constexpr uint64_t patience = 100'000'000; // polls without progress

struct Shared {
    explicit Shared(uint64_t ring_bytes, uint64_t start)
        : dwords(ring_bytes / 4), read(start), write(start), doorbell(start), cursors(cursors_at(start, start)) {
        ring = {reinterpret_cast<uint64_t>(dwords.data()), ring_bytes,
                reinterpret_cast<uint64_t>(&read),         reinterpret_cast<uint64_t>(&write),
                reinterpret_cast<uint64_t>(&doorbell),     reinterpret_cast<uint64_t>(&cursors)};
    }
    std::vector<uint32_t> dwords;
    alignas(64) uint64_t read;
    alignas(64) uint64_t write;
    alignas(64) uint64_t doorbell;
    alignas(64) sdma_ring_cursors cursors;
    sdma_ring ring;
    std::vector<std::vector<uint64_t>> data; // [producer][number % slots]
    std::atomic<bool> failed{false};
};

uint64_t data_of(uint32_t producer, uint32_t number) {
    return (uint64_t{producer} << 32 | number) * 0x9e3779b97f4a7c15;
}

void fail(Shared &shared, const char *what, uint64_t value) {
    if (!shared.failed.exchange(true)) {
        std::printf("ring_stress: %s (%llu)\n", what, static_cast<unsigned long long>(value));
    }
}

// Poll `attempt` until it is done; false after too many polls without progress, or if others failed.
template <typename Try> bool until_done(Shared &shared, Try attempt) {
    Patience waiting{patience, 0, 0};
    for (uint64_t seen = 0;;) {
        switch (attempt(seen)) {
        case Attempt::done:
            return true;
        case Attempt::again:
            break;
        case Attempt::blocked:
            if (shared.failed || !keep_waiting(waiting, seen)) {
                fail(shared, "no progress", seen);
                return false;
            }
            sdma::device::pause();
        }
    }
}

void produce(Shared &shared, uint32_t producer, uint32_t claims, uint64_t seed) {
    std::mt19937_64 random(seed + producer);
    std::vector<uint64_t> ends(slots);
    uint32_t number = 0;
    for (uint32_t c = 0; c < claims; ++c) {
        uint32_t packets = 1 + uint32_t(random() % 3);
        std::vector<uint32_t> sizes;
        uint64_t bytes = 0;
        for (uint32_t p = 0; p < packets; ++p) {
            sizes.push_back(header_dwords + uint32_t(random() % (most_dwords - header_dwords)));
            bytes += 4 * sizes.back();
        }
        for (uint32_t p = 0; p < packets; ++p) { // the slot's last packet is consumed
            uint64_t end = ends[(number + p) % slots];
            bool free = until_done(shared, [&](uint64_t &seen) {
                seen = __atomic_load_n(&shared.read, __ATOMIC_ACQUIRE);
                return end == 0 || seen >= end ? Attempt::done : Attempt::blocked;
            });
            if (!free) {
                return;
            }
            shared.data[producer][(number + p) % slots] = data_of(producer, number + p);
        }
        Reservation reservation;
        if (!until_done(shared, [&](uint64_t &seen) { return try_reserve(shared.ring, bytes, reservation, seen); })) {
            return;
        }
        Writer writer = begin(shared.ring, reservation);
        for (uint32_t dwords : sizes) {
            put(writer, sdma::packet::Packet<3>{{0xc0000000u | dwords, producer, number}});
            for (uint32_t i = header_dwords; i < dwords; ++i) {
                put(writer, sdma::packet::Packet<1>{{number * most_dwords + i}});
            }
            ends[number++ % slots] = reservation.end;
        }
        if (!until_done(shared, [&](uint64_t &seen) { return try_publish(shared.ring, reservation, seen); })) {
            return;
        }
    }
}

uint32_t dword_at(const Shared &shared, uint64_t count) {
    return __atomic_load_n(&shared.dwords[(count & (shared.ring.bytes - 1)) / 4], __ATOMIC_ACQUIRE);
}

// One packet at `at`, at most up to `bell`; returns its bytes, 0 on failure.
uint64_t consume_one(Shared &shared, uint64_t at, uint64_t bell, std::vector<uint32_t> &next) {
    uint32_t header = dword_at(shared, at);
    if (header == 0) {
        return 4;
    }
    uint64_t dwords = header & 0xff;
    if (header >> 8 != 0xc00000 || dwords < header_dwords || dwords * 4 > bell - at ||
        (at & (shared.ring.bytes - 1)) + dwords * 4 > shared.ring.bytes) {
        fail(shared, "no packet, or one that is cut", header);
        return 0;
    }
    uint32_t producer = dword_at(shared, at + 4), number = dword_at(shared, at + 8);
    if (producer >= next.size() || number != next[producer]++) {
        fail(shared, "packet lost, doubled or out of order", number);
        return 0;
    }
    for (uint32_t i = header_dwords; i < dwords; ++i) {
        if (dword_at(shared, at + 4 * i) != number * most_dwords + i) {
            fail(shared, "foreign or old dword", i);
            return 0;
        }
    }
    if (shared.data[producer][number % slots] != data_of(producer, number)) {
        fail(shared, "packet before its data", number);
        return 0;
    }
    return dwords * 4;
}

void consume(Shared &shared, std::vector<uint32_t> &next, const std::atomic<bool> &done) {
    uint64_t at = shared.read, last = at;
    while (!shared.failed) {
        bool ended = done;
        uint64_t bell = __atomic_load_n(&shared.doorbell, __ATOMIC_ACQUIRE);
        if (bell < last || bell > __atomic_load_n(&shared.write, __ATOMIC_ACQUIRE)) {
            return fail(shared, "doorbell falls or is ahead of the write pointer", bell);
        }
        if (bell - at >= shared.ring.bytes) {
            return fail(shared, "more in the ring than it holds", bell - at);
        }
        last = bell;
        if (bell == at && ended) {
            return;
        }
        while (at != bell) {
            uint64_t bytes = consume_one(shared, at, bell, next);
            if (bytes == 0) {
                return;
            }
            at += bytes;
            __atomic_store_n(&shared.read, at, __ATOMIC_RELEASE);
        }
        sched_yield();
    }
}

uint64_t argument(int argc, char **argv, int index, uint64_t otherwise) {
    return argc > index ? std::strtoull(argv[index], nullptr, 10) : otherwise;
}

} // namespace

int main(int argc, char **argv) {
    auto claims = uint32_t(argument(argc, argv, 1, 100));
    auto producers = uint32_t(argument(argc, argv, 2, 64));
    uint64_t ring_bytes = argument(argc, argv, 3, 4096), seed = argument(argc, argv, 4, 1);
    if (ring_bytes < 1024 || (ring_bytes & (ring_bytes - 1)) != 0 || producers == 0) {
        std::printf("ring_stress: the ring is a power of two of at least 1024 bytes\n");
        return 2;
    }
    Shared shared(ring_bytes, (uint64_t{1} << 32) - ring_bytes / 2 + seed % 64 * 4);
    shared.data.assign(producers, std::vector<uint64_t>(slots));
    std::vector<uint32_t> next(producers);
    std::atomic<bool> done{false};
    std::thread consumer([&] { consume(shared, next, done); });
    std::vector<std::thread> threads;
    for (uint32_t p = 0; p < producers; ++p) {
        threads.emplace_back([&, p] { produce(shared, p, claims, seed * 1000); });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    done = true;
    consumer.join();
    uint64_t packets = 0;
    for (uint32_t count : next) {
        packets += count;
    }
    bool agree = shared.read == shared.write && shared.write == shared.doorbell &&
                 shared.cursors.commit == shared.write && shared.cursors.reserve == shared.write;
    if (!agree) {
        fail(shared, "the pointers do not agree in the end", shared.read);
    }
    std::printf("%llu packets of %u producers%s\n", static_cast<unsigned long long>(packets), producers,
                shared.failed ? ": failed" : "");
    return shared.failed || packets < uint64_t{claims} * producers ? 1 : 0;
}
