// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers that are freed and allocated again between operations, at the same and other addresses and sizes: nothing
// of an old allocation may be used for a new one, and device memory must not grow.
//   rounds=N    (default 60)
//   least=BYTES least block (default 1)
#include "test/mpi/ledger.hpp"

namespace {

size_t free_memory() {
    size_t available = 0;
    size_t total = 0;
    return hipMemGetInfo(&available, &total) == hipSuccess ? available : 0;
}

// What the runtime itself loses with each pair of small allocations that were exported: ROCr 6.1 never gives back their
// 2 MiB block if one of them was exported while both were in it.
size_t lost_per_pair(size_t bytes) {
    constexpr size_t times = 8;
    const size_t before = free_memory();
    for (size_t i = 0; i < times; ++i) {
        const Buffer from(bytes, Memory::device);
        const Buffer to(bytes, Memory::device);
        hipIpcMemHandle_t handle;
        for (const Buffer *buffer : {&from, &to}) {
            if (hipIpcGetMemHandle(&handle, buffer->data()) != hipSuccess) {
                return 0;
            }
        }
    }
    const size_t after = free_memory();
    return before > after ? (before - after) / times : 0;
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    Ledger ledger(job);
    Random random(3);
    const uint64_t rounds = job.number("rounds", 60);
    const size_t largest = 400000;
    const size_t least = job.number("least", 1);
    const bool real = !Device::get().standin();
    size_t before = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        const auto bytes = static_cast<int>(least + (random.below(3) == 0 ? 150000 : random.below(largest)));
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
        const size_t size = static_cast<size_t>(job.size);
        const size_t lost = (rounds - rounds / 3) * lost_per_pair((least + largest / 2) * size);
        const size_t allowance = 2 * (least + largest) * size * size + lost;
        job.check(after + allowance >= before, "free device memory went from %zu to %zu bytes", before, after);
        job.check(job.counters["attached"] - job.counters["detached"] <= job.counters["attached"] / 2,
                  "%llu registrations of peers mapped but only %llu unmapped", job.counters["attached"],
                  job.counters["detached"]);
    }
    return job.finish("realloc");
}
