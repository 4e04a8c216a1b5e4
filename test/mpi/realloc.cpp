// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers that are freed and allocated again between operations, at the same and other addresses and sizes: nothing
// of an old allocation may be used for a new one, and device memory must not grow.
//   rounds=N    (default 60)
#include "test/mpi/ledger.hpp"

namespace {

size_t free_memory() {
    size_t available = 0;
    size_t total = 0;
    return hipMemGetInfo(&available, &total) == hipSuccess ? available : 0;
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    Ledger ledger(job);
    Random random(3);
    const uint64_t rounds = job.number("rounds", 60);
    const size_t largest = 400000;
    const bool real = !Device::get().standin();
    size_t before = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        const auto bytes = static_cast<int>(random.below(3) == 0 ? 150000 : random.below(largest) + 1);
        const auto all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
        const Kind kind = random.below(2) == 0 ? Kind::alltoall : Kind::allgather;
        // Ranks free in different orders, so the addresses of the next round differ, too.
        auto *from = new Buffer(all, Memory::device);
        auto *to = new Buffer(all, Memory::device);
        ledger.run(MPI_COMM_WORLD, kind, {from, 0, MPI_BYTE, bytes}, {to, 0, MPI_BYTE, bytes}, ledger.eligible());
        if (random.below(2) == 0) {
            ledger.run(MPI_COMM_WORLD, kind, {to, 0, MPI_BYTE, bytes}, {from, 0, MPI_BYTE, bytes}, ledger.eligible());
        }
        const bool swap = ((static_cast<uint64_t>(job.rank) + round) & 1U) != 0;
        delete (swap ? from : to);
        delete (swap ? to : from);
        if (real && round == rounds / 3) {
            MPI_Barrier(MPI_COMM_WORLD);
            before = free_memory();
        }
    }
    // Peers drop what was freed at their next progress; a few barriers give everybody some.
    for (int i = 0; i < 50; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (real) {
        const size_t after = free_memory();
        const size_t allowance = 2 * largest * static_cast<size_t>(job.size) * static_cast<size_t>(job.size);
        job.check(after + allowance >= before, "free device memory went from %zu to %zu bytes", before, after);
        job.check(job.counters["attached"] - job.counters["detached"] <= job.counters["attached"] / 2,
                  "%llu registrations of peers mapped but only %llu unmapped", job.counters["attached"],
                  job.counters["detached"]);
    }
    return job.finish("realloc");
}
