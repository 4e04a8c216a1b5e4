// SPDX-License-Identifier: BSD-3-Clause
//
// Many producers of one GPU against one ring in pinned host memory, consumed by a host thread that
// believes nothing: every packet must decode, every producer's numbers must come without a gap,
// pointers must never fall or lead.
//   ring_stress [packets=N] [ring=BYTES] [blocks=N] [lanes=N] [most=PACKETS per reservation]
#include "common/sdma/engine/proxy_decode.hpp"
#include "common/sdma/ring/producer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using sdma::engine::proxy::Action;

void must(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "ring_stress: %s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

// Packet number `number` of producer `producer`, of a form that depends on both.
struct Shape {
    uint32_t form; // 0 copy, 1 fence, 2 atomic
    uint32_t bytes;
};

__host__ __device__ Shape shape_of(uint64_t producer, uint64_t number) {
    const uint32_t form = static_cast<uint32_t>((producer * 7 + number * 5 + (number >> 3)) % 3);
    return {form, form == 0 ? 28u : form == 1 ? 16u : 32u};
}

__host__ __device__ uint64_t in_reservation(uint64_t producer, uint64_t number, uint64_t most) {
    return 1 + (producer * 13 + number) % most;
}

// Producer and number in the address and the operand of each form.
__device__ void put_packet(sdma::ring::Writer &writer, uint64_t producer, uint64_t number) {
    namespace packet = sdma::packet;
    const uint64_t address = (producer + 1) << 12;
    const Shape shape = shape_of(producer, number);
    if (shape.form == 0)
        put(writer, packet::copy(number + 4096, address, 1 + number % 4096));
    else if (shape.form == 1)
        put(writer, packet::fence(address, static_cast<uint32_t>(number)));
    else
        put(writer, packet::atomic_add(address, number));
}

// Each lane is a producer and polls both tries in one loop.
__global__ void produce(uint64_t ring_address, uint64_t each, uint64_t most, uint64_t budget,
                        unsigned long long *stuck) {
    using namespace sdma;
    const sdma_ring ring = ring::describe(ring_address);
    const uint64_t producer = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
    uint64_t number = 0, count = 0, seen = 0;
    bool reserved = false;
    ring::Reservation reservation{};
    ring::Patience patience{budget, 0, 0};
    while (number < each) {
        ring::Attempt attempt;
        if (!reserved) {
            count = in_reservation(producer, number, most);
            count = count < each - number ? count : each - number;
            uint64_t bytes = 0;
            for (uint64_t i = 0; i < count; i++)
                bytes += shape_of(producer, number + i).bytes;
            attempt = ring::try_reserve(ring, bytes, reservation, seen);
            if (attempt == ring::Attempt::done) {
                reserved = true;
                ring::Writer writer = ring::begin(ring, reservation);
                for (uint64_t i = 0; i < count; i++)
                    put_packet(writer, producer, number + i);
            }
        }
        if (reserved) {
            attempt = ring::try_publish(ring, reservation, seen);
            if (attempt == ring::Attempt::done) {
                number += count;
                reserved = false;
            }
        }
        if (attempt == ring::Attempt::blocked && !ring::keep_waiting(patience, seen)) {
            atomicAdd(stuck, 1ull);
            return;
        }
    }
}

class Consumer {
public:
    Consumer(const sdma_ring &ring, uint64_t producers, uint64_t each)
        : ring_(ring), next_(producers, 0), each_(each) {}

    // Until everything has come, something is wrong, or nothing has come for ten seconds.
    void run() {
        auto last = std::chrono::steady_clock::now();
        while (error_.empty() && packets_ < next_.size() * each_) {
            const uint64_t rung = load(ring_.doorbell), written = load(ring_.write_pointer);
            if (written < rung || rung < read_ || written - read_ > ring_.bytes)
                error_ = "doorbell " + std::to_string(rung) + ", write pointer " + std::to_string(written) +
                         ", read pointer " + std::to_string(read_);
            else if (rung != read_) {
                take(rung);
                last = std::chrono::steady_clock::now();
            } else if (std::chrono::steady_clock::now() - last > std::chrono::seconds(10))
                error_ = "nothing came for 10 s";
        }
    }
    const std::string &error() const { return error_; }
    uint64_t packets() const { return packets_; }
    uint64_t bytes() const { return read_; }

private:
    static uint64_t load(uint64_t address) {
        return __atomic_load_n(reinterpret_cast<const uint64_t *>(address), __ATOMIC_ACQUIRE);
    }

    void take(uint64_t rung) {
        while (read_ < rung && error_.empty()) {
            const uint64_t offset = read_ & (ring_.bytes - 1);
            const uint64_t dwords = std::min(rung - read_, ring_.bytes - offset) / 4;
            auto *packet = reinterpret_cast<uint32_t *>(ring_.base + offset);
            const auto command = sdma::engine::proxy::decode(packet, dwords);
            if (command.action == Action::refuse)
                error_ = "not a packet at " + std::to_string(read_);
            else if (command.action != Action::skip)
                check(command);
            // What is read twice is not a packet any more.
            std::memset(packet, 0xee, command.dwords * 4);
            read_ += command.dwords * 4;
            // Late on purpose: the ring is full most of the time.
            if (packets_ % 64 == 0 || read_ == rung)
                __atomic_store_n(reinterpret_cast<uint64_t *>(ring_.read_pointer), read_, __ATOMIC_RELEASE);
        }
    }

    void check(const sdma::engine::proxy::Command &command) {
        const uint64_t producer = (command.address >> 12) - 1;
        if (producer >= next_.size()) {
            error_ = "producer " + std::to_string(producer) + " does not exist";
            return;
        }
        const uint64_t number = next_[producer]++;
        const Shape shape = shape_of(producer, number);
        const bool good = shape.form == 0 ? command.action == Action::copy && command.source == number + 4096 &&
                                                command.bytes == 1 + number % 4096
                          : shape.form == 1
                              ? command.action == Action::store && command.value == static_cast<uint32_t>(number)
                              : command.action == Action::add && command.value == number;
        if (!good)
            error_ = "packet " + std::to_string(number) + " of producer " + std::to_string(producer) + " at " +
                     std::to_string(read_) + " is wrong";
        packets_++;
    }

    const sdma_ring ring_;
    std::vector<uint64_t> next_;
    const uint64_t each_;
    uint64_t read_ = 0, packets_ = 0;
    std::string error_;
};

uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise) {
    const std::string start = std::string(name) + "=";
    for (int i = 1; i < argc; i++)
        if (std::strncmp(argv[i], start.c_str(), start.size()) == 0)
            return std::strtoull(argv[i] + start.size(), nullptr, 0);
    return otherwise;
}

} // namespace

int main(int argc, char **argv) {
    const uint64_t packets = option(argc, argv, "packets", 10000000), bytes = option(argc, argv, "ring", 65536);
    const uint64_t blocks = option(argc, argv, "blocks", 16), lanes = option(argc, argv, "lanes", 32);
    const uint64_t most = option(argc, argv, "most", 16);
    const uint64_t producers = blocks * lanes, each = (packets + producers - 1) / producers;
    if (bytes < 4096 || (bytes & (bytes - 1)) || most * 32 > sdma::ring::most_bytes(bytes)) {
        std::fprintf(stderr, "ring_stress: ring=%llu most=%llu makes no sense\n",
                     static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(most));
        return 2;
    }

    char *memory = nullptr;
    void *cursors = nullptr;
    unsigned long long *stuck = nullptr;
    must(cudaHostAlloc(reinterpret_cast<void **>(&memory), 4096 + bytes, cudaHostAllocMapped | cudaHostAllocPortable),
         "cudaHostAlloc");
    must(cudaHostAlloc(reinterpret_cast<void **>(&stuck), sizeof *stuck, cudaHostAllocMapped), "cudaHostAlloc");
    must(cudaMalloc(&cursors, sizeof(sdma_ring_cursors)), "cudaMalloc");
    must(cudaMemset(cursors, 0, sizeof(sdma_ring_cursors)), "cudaMemset");
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::memset(memory, 0, 4096);
    std::memset(memory + 4096, 0xee, bytes);
    *stuck = 0;
    const auto address = reinterpret_cast<uint64_t>(memory);
    auto *ring = reinterpret_cast<sdma_ring *>(memory);
    *ring = {address + 4096, bytes, address + 1024, address + 512, address + 256, reinterpret_cast<uint64_t>(cursors)};

    Consumer consumer(*ring, producers, each);
    const auto start = std::chrono::steady_clock::now();
    std::thread thread([&] { consumer.run(); });
    produce<<<static_cast<unsigned>(blocks), static_cast<unsigned>(lanes)>>>(address, each, most, 1u << 22, stuck);
    must(cudaGetLastError(), "launch");
    thread.join();
    must(cudaDeviceSynchronize(), "kernel");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    const bool good = consumer.error().empty() && *stuck == 0;
    std::printf(
        "%s ring_stress: %llu packets of %llu producers through a ring of %llu bytes, %llu times round, %.1f s, "
        "%.2f million/s%s%s\n",
        good ? "ok" : "FAIL", static_cast<unsigned long long>(consumer.packets()),
        static_cast<unsigned long long>(producers), static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(consumer.bytes() / bytes), seconds,
        static_cast<double>(consumer.packets()) / seconds / 1e6, good ? "" : ": ",
        *stuck ? "producers gave up" : consumer.error().c_str());
    return good ? 0 : 1;
}
