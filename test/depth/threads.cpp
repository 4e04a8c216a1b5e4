// SPDX-License-Identifier: BSD-3-Clause
//
// Threads with communicators of their own, all over the same new buffers: the first operation on a peer's buffer
// happens on all of them at once.
//   threads=N (default 4)   rounds=N (default 20)
#include <barrier>
#include <thread>

#include "test/mpi/exchange.hpp"

int main(int argc, char **argv) {
    Job job(argc, argv, MPI_THREAD_MULTIPLE);
    Device::get().select(job.rank);
    const auto threads = static_cast<size_t>(job.number("threads", 4));
    const uint64_t rounds = job.number("rounds", 20);
    constexpr size_t bytes = 150000;
    const size_t part = bytes * static_cast<size_t>(job.size);
    std::vector<MPI_Comm> comms(threads);
    for (MPI_Comm &comm : comms) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    std::barrier start(static_cast<std::ptrdiff_t>(threads));
    for (uint64_t round = 0; round < rounds; ++round) {
        const auto attached = job.counters["attached"];
        Buffer from(part * threads, Memory::device);
        Buffer to(part * threads, Memory::device);
        std::vector<std::thread> running;
        for (size_t t = 0; t < threads; ++t) {
            running.emplace_back([&, t] {
                const Kind kind = round % 2 == 0 ? Kind::alltoall : Kind::allgather;
                const auto block = static_cast<size_t>(bytes);
                const bool all = kind == Kind::alltoall;
                // Each thread has a slice of the same two allocations.
                uint8_t *const mine = from.data() + t * part;
                uint8_t *const theirs = to.data() + t * part;
                const uint64_t iteration = round * threads + t;
                for (int peer = 0; peer < (all ? job.size : 1); ++peer) {
                    const auto content = Pattern(job.rank, all ? peer : 0, iteration).block(block);
                    Device::get().copy(mine + static_cast<size_t>(peer) * block, content.data(), block);
                }
                start.arrive_and_wait();
                const int code = all ? MPI_Alltoall(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, comms[t])
                                     : MPI_Allgather(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, comms[t]);
                job.check(code == MPI_SUCCESS, "MPI error %d", code);
                std::vector<uint8_t> got(block);
                for (int peer = 0; peer < job.size; ++peer) {
                    Device::get().copy(got.data(), theirs + static_cast<size_t>(peer) * block, block);
                    job.check(got == Pattern(peer, all ? job.rank : 0, iteration).block(block),
                              "round %" PRIu64 ", thread %zu: wrong bytes of rank %d", round, t, peer);
                }
            });
        }
        for (std::thread &thread : running) {
            thread.join();
        }
        // However many threads touch a buffer first, it is mapped once.
        const auto mapped = job.counters["attached"] - attached;
        job.check(mapped == static_cast<unsigned>(job.size - 1), "round %" PRIu64 ": %llu buffers of peers were mapped",
                  round, mapped);
    }
    job.check(job.counters["served"] == rounds * threads, "%llu operations served, not %" PRIu64 ";%s",
              job.counters["served"], rounds * threads, job.counters.text("declined").c_str());
    for (MPI_Comm &comm : comms) {
        MPI_Comm_free(&comm);
    }
    return job.finish("threads");
}
