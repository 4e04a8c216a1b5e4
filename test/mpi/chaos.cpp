// SPDX-License-Identifier: BSD-3-Clause
//
// Many seeds of the simulated node's chaos in one start: random operations, sizes, offsets and buffers, all derived
// from the seed, all bytes checked. A failure names its seed.
//   seeds=N (default 20)   first=SEED (default 1)   operations=N per seed (default 12)   max=BYTES (default 300000)
#include <dlfcn.h>

#include "test/mpi/ledger.hpp"

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    Ledger ledger(job);
    const auto reseed = reinterpret_cast<void (*)(uint64_t)>(dlsym(RTLD_DEFAULT, "sdma_simnode_reseed"));
    job.check(reseed != nullptr || job.option("expect", "served") == "any", "this is not the simulated node");

    const size_t max = job.number("max", 300000);
    const size_t span = max * static_cast<size_t>(job.size) + 4096;
    Buffer from(span, Memory::device);
    Buffer to(span, Memory::device);
    Buffer host(span, Memory::host);
    const uint64_t first = job.number("first", 1);
    const uint64_t seeds = job.number("seeds", 20);
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
        if (reseed != nullptr) {
            reseed(seed);
        }
        Random random(seed);
        for (uint64_t i = 0; i < job.number("operations", 12); ++i) {
            const auto bytes = static_cast<int>(random.below(random.below(3) == 0 ? 64 : max) + 1);
            const Kind kind = random.below(2) == 0 ? Kind::alltoall : Kind::allgather;
            const size_t send_at = random.below(4000);
            const size_t recv_at = random.below(4000);
            const uint64_t host_rank = random.below(16);
            const bool in_place = kind == Kind::allgather && random.below(4) == 0;
            const bool on_host = host_rank == static_cast<uint64_t>(job.rank);
            const bool declined = host_rank < static_cast<uint64_t>(job.size);
            const Side send{in_place ? nullptr : &from, send_at, MPI_BYTE, bytes};
            const Side recv{on_host ? &host : &to, recv_at, MPI_BYTE, bytes};
            const int code =
                ledger.run(MPI_COMM_WORLD, kind, send, recv, declined ? ledger.refused() : ledger.eligible());
            job.check(code == MPI_SUCCESS, "seed %" PRIu64 ", operation %" PRIu64, seed, i);
        }
    }
    return job.finish("chaos");
}
