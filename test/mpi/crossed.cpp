// SPDX-License-Identifier: BSD-3-Clause
//
// Two communicators used by two threads of each rank, entered in crossed order: rank 0 is inside an operation on the
// first while rank 1 is inside one on the second. Legal, and a deadlock if anything (a kernel on a GPU that both
// ranks share, a lock, a queue) waits for a peer.
//   rounds=N   (default 100)
#include <atomic>
#include <thread>

#include "test/mpi/exchange.hpp"

int main(int argc, char **argv) {
    Job job(argc, argv, MPI_THREAD_MULTIPLE);
    Device::get().select(job.rank);
    MPI_Comm comms[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Comm control = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &control);

    const int bytes = 160000;
    const auto all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
    Buffer from[2] = {{all, Memory::device}, {all, Memory::device}};
    Buffer to[2] = {{all, Memory::device}, {all, Memory::device}};
    const uint64_t rounds = job.number("rounds", 100);
    for (uint64_t round = 0; round < rounds; ++round) {
        // Odd and even ranks start on different communicators.
        const auto first = static_cast<size_t>((static_cast<uint64_t>(job.rank) + round) & 1U);
        std::atomic<bool> entered{false};
        const auto operate = [&](size_t which, bool tell) {
            Exchange exchange(job, comms[which], (round & 2U) == 0 ? Kind::alltoall : Kind::allgather);
            if (tell) {
                entered = true;
            }
            const int code =
                exchange.run({&from[which], 0, MPI_BYTE, bytes}, {&to[which], 0, MPI_BYTE, bytes}, round * 2 + which);
            job.check(code == MPI_SUCCESS, "MPI error %d", code);
        };
        std::thread other(operate, first, true);
        while (!entered) {
            std::this_thread::yield();
        }
        // Everybody has a thread in, or about to be in, its first communicator.
        MPI_Barrier(control);
        operate(1 - first, false);
        other.join();
    }
    if (job.option("expect", "served") == "served") {
        job.check(job.counters["served"] == 2 * rounds, "%llu operations served, not %" PRIu64, job.counters["served"],
                  2 * rounds);
    }
    MPI_Comm_free(&control);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[0]);
    return job.finish("crossed");
}
